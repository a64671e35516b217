"""`conformance`: a violation of each rule is planted and found, nothing else is, and our own files have none."""

from __future__ import annotations

import base64
import importlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numcodecs
import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import DatasetBuilder, GroupBuilder
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend import Limits, NWBZarrIO, ZarrIO, conformance, convert, upgrade
from hdmf_zarr_backend.checks.conformance import RULES, ConformanceReport
from hdmf_zarr_backend.errors import LimitError, NotZarrError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.stores.base import Abilities
from hdmf_zarr_backend.stores.local import LocalStore
from tests import samples, trees
from tests.everything import write_everything
from tests.strategies import JSON, PLAIN, STRUCTURED

Values = dict[str, bytes]

ARRAY = {
    "zarr_format": 2, "shape": [3, 4], "chunks": [2, 4], "dtype": "<i2", "compressor": None, "fill_value": 0,
    "order": "C", "filters": None,
}  # fmt: skip


def dump(document: Any) -> bytes:
    return json.dumps(document).encode()


def good() -> Values:
    """A store in which everything is as it should be: ``g/b`` has chunks, ``g/a`` has none."""
    return {
        ".zgroup": dump({"zarr_format": 2}),
        ".zattrs": dump({"name": "value"}),
        "README": b"keys that are none of Zarr's are nobody's business",
        "g/.zgroup": dump({"zarr_format": 2}),
        "g/a/.zarray": dump(ARRAY),
        "g/b/.zarray": dump(ARRAY),
        "g/b/.zattrs": dump({}),
        "g/b/0.0": bytes(16),
        "g/b/1.0": bytes(16),
    }


def found(report: ConformanceReport) -> set[str]:
    return set(report.counts)


def keys(report: ConformanceReport) -> set[str]:
    return {finding.key for finding in [*report.violations, *report.remarks]}


# ---- planted violations ---------------------------------------------------------------------------------------------


def array(**changes: Any) -> Values:
    return {"g/a/.zarray": dump({**ARRAY, **changes})}


def typed(data_type: Any, fill: Any = None) -> Values:
    return array(dtype=data_type, fill_value=fill)


def without(name: str) -> Values:
    return {"g/a/.zarray": dump({key: value for key, value in ARRAY.items() if key != name})}


GROUP = {"zarr_format": 2}
PLANTED: dict[str, list[Values]] = {
    "ascii-key": [{"g/ü/.zgroup": dump(GROUP)}],
    "normal-path": [{key: dump(GROUP)} for key in ("g//x/.zgroup", "/x/.zgroup", "g/x//.zgroup", "x\\y/.zgroup")],
    "no-dots": [{key: dump(GROUP)} for key in ("g/../x/.zgroup", "./x/.zgroup", "../.zgroup", "g/./.zgroup")],
    "json": [
        {".zattrs": b"{"}, {".zattrs": b""}, {".zattrs": b'{"a": 1,}'}, {".zattrs": b'{"a": "\xff"}'},
        {"g/a/.zarray": b"none"}, {"g/.zgroup": b"{'zarr_format': 2}"}, {".zmetadata": b"{"},
        {".zattrs": b"[" * 100_000},
    ],
    "json-numbers": [
        {".zattrs": b'{"a": NaN}'}, {"g/b/.zattrs": b'{"a": [1, -Infinity]}'}, {".zmetadata": b'{"a": [Infinity]}'},
    ],
    "array-object": [{"g/a/.zarray": b"[]"}, {"g/a/.zarray": b'"2"'}],
    "array-keys": [without(name) for name in ARRAY],
    "array-other-keys": [array(_nczarr_array={})],
    "array-format": [array(zarr_format=number) for number in (3, "2", 2.0, None, True)],
    "shape": [array(shape=shape) for shape in ("3", 3, [3.0, 4], [-1, 4], [True, 4], None)],
    "chunks": [array(chunks=chunks) for chunks in ("2", [0, 4], [2], [2, 4, 1], [None, 4], True)],
    "order": [array(order=order) for order in ("A", "c", None, ["C"])],
    "compressor": [array(compressor=codec) for codec in ("zlib", {"level": 1}, {"id": 5}, [{"id": "zlib"}], False)],
    "filters": [array(filters=filters) for filters in ({"id": "delta"}, [{"dtype": "<i2"}], [None], "delta")],
    "dimension-separator": [array(dimension_separator=mark) for mark in ("-", "", None, ["."])],
    "dtype-form": [typed(dtype) for dtype in ("", "int16", "bfloat16", 5, None, {"a": "<i2"}, "<i2[ns]", [["a", 5]])],
    "dtype-byte-order": [typed(dtype) for dtype in ("i2", "|f8", "|U5", "|M8[ns]", [["a", [["b", "|c8"]]]])],
    "dtype-kind": [typed(dtype) for dtype in ("<q8", "|?1", "|t1", [["a", "<g8"]])],
    "dtype-object": [typed("|O"), typed([["a", "<i2"], ["b", "|O"]])],
    "dtype-size": [typed(dtype) for dtype in ("<f3", "<i", "|b2", "|S", "<M4[ns]", "<c4", "<u16")],
    "dtype-units": [typed(dtype) for dtype in ("<M8", "<m8[]", "<M8[generic]", "<M8[µs]", [["a", ">m8[x]"]])],
    "dtype-fields": [
        typed(dtype)
        for dtype in (
            [], [["a"]], [["a", "<i2", [1], 1]], [[1, "<i2"]], ["<i2"], [["a", "<i2"], ["a", "<i4"]],
            [["a", "<i2", 2]], [["a", "<i2", [-1]]], [["a", []]],
        )
    ],
    "fill-scalar": [
        typed(*case)
        for case in (
            ("<i2", 1.5), ("<i2", 2**15), ("|u1", -1), ("|u1", 256), ("|i1", "1"), ("<i8", True), ("|b1", "true"),
            ("|b1", 2), ("<U2", 5), ("<f4", [1]), ("<f4", True), ("<c8", [1, 2, 3]), ("<c8", "one"), ("<M8[ns]", 1.5),
        )
    ],
    "fill-float": [typed("<f4", "nan"), typed("<f8", "inf"), typed(">f2", "0"), typed("<f8", "+Infinity")],
    "fill-base64": [
        typed(*case)
        for case in (
            ("|S3", "abc!"), ("|S3", 0), ("|S2", "YWJj"), ("|S3", "YW\u00e9="), ([["a", "<i2"]], "AA=="),
            ([["a", "<i2"]], "AAAA"), ([["a", "<i2"]], [0]), ([["a", "<U1", [2]], ["b", [["c", "|b1"]]]], "AAAA"),
        )
    ],
    "chunk-key": [
        {f"g/b/{name}": bytes(9)} for name in ("2.0", "0.1", "0", "0.0.0", "00.0", "0/0", "-1.0", "0.0.x", "c/0/0")
    ],
    "chunk-size": [
        {"g/b/1.0": bytes(8)},  # what the array holds, without what overhangs its edge
        {"g/b/0.0": bytes(17)}, {"g/b/0.0": b""},
        {"g/b/.zarray": dump({**ARRAY, "compressor": {"id": "zlib", "level": 1}}),
         "g/b/1.0": numcodecs.Zlib(1).encode(bytes(16)), "g/b/0.0": numcodecs.Zlib(1).encode(bytes(15))},
        {"g/b/.zarray": dump({**ARRAY, "compressor": {"id": "zlib", "level": 1}}),
         "g/b/1.0": numcodecs.Zlib(1).encode(bytes(16)), "g/b/0.0": bytes(16)},
    ],
    "group-object": [{"g/.zgroup": b"2"}],
    "group-keys": [{"g/.zgroup": b"{}"}],
    "group-format": [{"g/.zgroup": dump({"zarr_format": number})} for number in (3, "2", 2.0, None)],
    "group-other-keys": [{"g/.zgroup": dump({"zarr_format": 2, "_nczarr_group": {}})}],
    "group-ancestors": [{"x/y/.zgroup": dump(GROUP)}, {"x/.zarray": dump(ARRAY), "y/z/.zarray": dump(ARRAY)}],
    "array-members": [{"g/a/x/.zgroup": dump(GROUP)}, {"g/b/x/.zarray": dump(ARRAY)}],
    "one-kind": [{"g/a/.zgroup": dump(GROUP)}, {"g/b/.zgroup": dump(GROUP), "g/b/.zattrs": dump({"a": 1})}],
    "attributes-object": [{".zattrs": b"[1]"}, {"g/b/.zattrs": b"null"}],
}  # fmt: skip
"""By rule, what is changed in the store of `good` so that just this rule finds something."""

CASES = [(rule, number) for rule, stores in PLANTED.items() for number in range(len(stores))]


def test_there_is_a_planted_violation_of_each_rule():
    assert list(PLANTED) == list(RULES)
    assert len(RULES) > 30


@pytest.mark.parametrize(("rule", "number"), CASES, ids=str)
def test_a_planted_violation_is_found_and_nothing_else(rule, number):
    planted = PLANTED[rule][number]
    report = conformance(good() | planted)
    assert found(report) == {rule}
    assert report.conforms is bool(RULES[rule].remark)
    above = {"x/y/.zgroup": {"x/.zgroup"}, "x/.zarray": {"y/.zgroup"}}
    assert keys(report) <= above.get(next(iter(planted)), set(planted))


@pytest.mark.parametrize("path", ["", "g"])
def test_a_group_that_only_its_members_imply(path):
    store = good()
    key = f"{path}/.zgroup".strip("/")
    del store[key]
    report = conformance(store)
    assert [(finding.rule, finding.key) for finding in report.violations] == [("group-ancestors", key)]


def test_a_token_as_a_fill_value_is_wrong_twice():
    store = good() | {"g/a/.zarray": dump(ARRAY).replace(b'"fill_value": 0', b'"fill_value": NaN')}
    store["g/a/.zarray"] = store["g/a/.zarray"].replace(b"<i2", b"<f4")
    report = conformance(store)
    assert [finding.rule for finding in report.violations] == ["fill-float"]
    assert [finding.rule for finding in report.remarks] == ["json-numbers"]


@pytest.mark.parametrize("fill", ["no base64!", 0, ["YQ=="]])
def test_the_fill_value_of_fields_is_looked_at_where_one_is_an_object(fill):
    fields = [["a", "<i2"], ["b", [["c", "|O"]]]]
    assert found(conformance(good() | typed(fields, fill))) == {"dtype-object", "fill-base64"}
    for right in (None, "", "YWJjZGU="):  # by the codec of the objects, of any length
        assert found(conformance(good() | typed(fields, right))) == {"dtype-object"}


@pytest.mark.parametrize("fill", [None, 0, "", {"a": [1]}])
def test_the_fill_value_of_objects_may_be_anything(fill):
    assert found(conformance(good() | typed("|O", fill))) == {"dtype-object"}


def test_bytes_that_zarr_python_writes_as_a_fill_value_lack_zeros_at_their_end(tmp_path):
    import zarr

    root = zarr.open_group(tmp_path / "file.zarr", mode="w", zarr_format=2)
    root.create_array("a", shape=3, chunks=2, dtype="S5", fill_value=b"ab")
    document = json.loads((tmp_path / "file.zarr/a/.zarray").read_text())
    assert base64.b64decode(document["fill_value"]) == b"ab"
    assert found(conformance(tmp_path / "file.zarr")) == set()


def test_several_findings_of_one_document():
    report = conformance(good() | array(order="A", chunks=[0], dtype="|f8", filters=5))
    assert found(report) == {"order", "chunks", "dtype-byte-order", "filters"}
    assert all(str(finding).startswith(f"g/a/.zarray: {finding.rule}: ") for finding in report.violations)


# ---- what is right --------------------------------------------------------------------------------------------------


def zeros(size: int) -> str:
    return base64.b64encode(bytes(size)).decode()


NESTED = [["foo", "<f4"], ["bar", [["baz", ">f4"], ["qux", "<i4", [2, 2]]]]]
RIGHT = [
    *((dtype, None) for dtype in ("|b1", "|i1", "<i1", ">u8", "<f2", "<f16", "<c16", "|S12", "<S12", "<U5", "|V7")),
    *((dtype, None) for dtype in ("<M8[ns]", ">m8[25s]", "<M8[D]", NESTED, [["r", "|u1"], ["g", "|u1"]])),
    *((f"<f{size}", fill) for size in (2, 4, 8) for fill in ("NaN", "Infinity", "-Infinity", 0, 1.5)),
    ("|b1", True), ("|b1", 0), ("<i2", -(2**15)), ("<u2", 2**16 - 1), ("<u8", 2**64 - 1), ("<c8", [1.5, "NaN"]),
    ("<M8[s]", -(2**63)), ("<m8[s]", 0), ("<U2", "å"), ("|S3", ""), ("|S3", "YWI="), ("|V2", "AAA="),
    (NESTED, zeros(24)), ([["a", "<U1", [2]], ["b", [["c", "|b1"]]]], zeros(9)),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "fill"), RIGHT, ids=[str(number) for number in range(len(RIGHT))])
def test_data_types_and_fill_values_that_are_right(dtype, fill):
    report = conformance(good() | typed(dtype, fill))
    assert found(report) == set()
    assert report.undecoded == {}


@given(PLAIN | STRUCTURED)
def test_every_type_that_we_write_is_right(dtype):
    zero = zeros(dtype.itemsize) if dtype.names is not None else None
    assert found(conformance(good() | typed(zarr_type(dtype), zero))) == set()


@given(JSON, st.sampled_from(["g/a/.zarray", "g/.zgroup", "g/.zattrs", ".zmetadata"]), st.sampled_from([None, *ARRAY]))
def test_any_json_gives_findings_and_no_error(document, key, name):
    report = conformance(good() | {key: dump(document if name is None else {**ARRAY, name: document})})
    assert found(report) <= set(RULES)
    assert keys(report) <= {key}


def test_a_store_that_is_right():
    for store in (
        good(),
        good() | array(dimension_separator="/", order="F", filters=[]) | {"g/a/1/0": bytes(16), "g/a/0/0": bytes(16)},
        good() | {"x/.zarray": dump({**ARRAY, "shape": [], "chunks": []}), "x/0": bytes(2)},
        good() | {"x/.zarray": dump({**ARRAY, "shape": [0, 4]})},
        {".zarray": dump(ARRAY), "0.0": bytes(16)},  # a single array needs no group
        {".zgroup": dump(GROUP)},
    ):
        report = conformance(store)
        assert found(report) == set()
        assert report.conforms
    assert conformance(good()).groups == 2
    assert conformance(good()).arrays == 2
    assert conformance(good()).chunks == 2


@pytest.mark.parametrize("separator", [".", "/"])
def test_what_zarr_python_writes_is_right(tmp_path, separator):
    import zarr

    root = zarr.open_group(tmp_path / "file.zarr", mode="w", zarr_format=2)
    inner = root.require_group("a/b")
    for code in (*samples.NUMBERS, "S4", "U3", "M8[ns]"):
        values = np.ones(5, "i8").astype(code)  # a chunk of fill values would not be stored
        keys_ = {"name": "v2", "separator": separator}
        made = inner.create_array(
            values.dtype.str.strip("<>|[]"), shape=5, chunks=2, dtype=values.dtype, chunk_key_encoding=keys_
        )
        made[:] = values
    report = conformance(tmp_path / "file.zarr")
    assert found(report) == set()
    assert report.chunks > 20


# ---- how it is called -----------------------------------------------------------------------------------------------


def test_chunks_need_not_be_decoded():
    store = good() | {"g/b/0.0": b"", "g/b/2.0": b""}
    assert found(conformance(store, decode=False)) == {"chunk-key"}
    assert found(conformance(store, executor="threads")) == {"chunk-key", "chunk-size"}


@pytest.mark.parametrize("codec", [{"id": "n5_wrapper"}, {"id": "somebodys_own", "level": 3}])
def test_a_codec_that_is_not_known_here_is_no_violation(codec):
    store = good() | {"g/b/.zarray": dump({**ARRAY, "compressor": codec})}
    report = conformance(store)
    assert report.conforms
    assert codec["id"] in report.undecoded["/g/b"]
    assert report.chunks == 2


def test_pickles_are_not_decoded_and_run_nothing():
    document = {**ARRAY, "dtype": "|O", "filters": [{"id": "pickle", "protocol": 5}]}
    report = conformance(good() | {"g/b/.zarray": dump(document), "g/b/0.0": b"cos\nsystem\n(S'exit 3'\ntR."})
    assert set(report.undecoded) == {"/g/b"}
    assert "dtype-object" in found(report)


def test_what_is_no_store_of_format_2(tmp_path):
    with pytest.raises(StoreNotFoundError):
        conformance(tmp_path / "nothing.zarr")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "x").write_bytes(b"")
    with pytest.raises(NotZarrError, match="neither"):
        conformance(tmp_path / "folder")
    with ZarrIO(tmp_path / "3.zarr", "w", zarr_format=3) as io:
        io.write_builder(trees.root())
    with pytest.raises(UsageError, match="format 3"):
        conformance(tmp_path / "3.zarr")


def test_a_server_that_cannot_list(tmp_path, monkeypatch):
    monkeypatch.setattr(LocalStore, "abilities", Abilities(listing=False), raising=False)
    with pytest.raises(UsageError, match="cannot list"):
        conformance(tmp_path)


def test_limits_hold():
    with pytest.raises(LimitError, match="max_document_bytes"):
        conformance(good(), limits=Limits(max_document_bytes=10))
    with pytest.raises(LimitError, match="max_documents"):
        conformance(good(), limits=Limits(max_documents=3))


# ---- what we write --------------------------------------------------------------------------------------------------

OURS = {"dtype-object", "ascii-key"}
"""Rules that find something in files of ours in strict JSON; `Rule.remark` has the reasons."""


def names_and_numbers() -> GroupBuilder:
    """Builders with names of other alphabets, and attributes that are not finite."""
    root = GroupBuilder("root", datasets=samples.dataset_builders())
    root.set_group(GroupBuilder("attributes", attributes=samples.attribute_values()))
    root.set_group(GroupBuilder("Größe", datasets={"数": DatasetBuilder("数", np.arange(3.0))}))
    return root


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
def test_our_files_have_the_findings_that_are_listed_and_no_others(tmp_path, strict):
    with ZarrIO(tmp_path / "builders.zarr", "w", strict_json=strict) as io:
        io.write_builder(names_and_numbers())
    with NWBZarrIO(tmp_path / "rich.zarr", "w", strict_json=strict) as io:
        io.write(samples.rich_nwbfile(), nczarr=strict)
    reports = [conformance(tmp_path / name) for name in ("builders.zarr", "rich.zarr")]
    assert [report.violations for report in reports] == [[], []]
    assert [report.undecoded for report in reports] == [{}, {}]
    assert found(reports[0]) == (OURS if strict else OURS | {"json-numbers"})
    assert found(reports[1]) <= (OURS if strict else OURS | {"json-numbers"})
    assert all(min(report.chunks, report.arrays) > 50 for report in reports)


def test_a_converted_file_of_everything_that_hdf5_has(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BrokenLinkWarning)
        convert(write_everything(tmp_path / "everything.h5"), tmp_path / "everything.zarr", check=False)
    report = conformance(tmp_path / "everything.zarr")
    assert report.violations == []
    assert found(report) == OURS | {"json-numbers"}
    assert report.undecoded == {}


@pytest.mark.parametrize("made_by", ["write", "convert", "upgrade"])
def test_a_file_of_both_formats_with_references(tmp_path, made_by):
    path = tmp_path / "both.zarr"
    if made_by == "convert":
        convert(samples.write_hdf5(tmp_path / "rich.nwb"), path, zarr_format="both")
    else:
        samples.write_zarr(path, samples.rich_nwbfile(), zarr_format="both" if made_by == "write" else 2)
    if made_by == "upgrade":
        upgrade(path, keep=True)
    own_chunks = sorted(path.glob("**/c/0"))
    assert own_chunks
    assert conformance(path).violations == []
    (own_chunks[0].parent / "7").write_bytes(b"")
    report = conformance(path)
    assert found(report) - OURS - {"json-numbers"} == {"chunk-key"}
    assert keys(report) >= {(own_chunks[0].parent / "7").relative_to(path).as_posix()}


def test_the_real_files_in_both_formats(tmp_path, nwbfiles):
    for path in [path for path in nwbfiles if path.stem.startswith("nwbexplorer__test_")][::5]:
        convert(path, tmp_path / f"{path.stem}.zarr", zarr_format="both")
        assert conformance(tmp_path / f"{path.stem}.zarr").violations == []


def test_an_appended_file(tmp_path):
    samples.write_zarr(tmp_path / "file.zarr")
    with NWBZarrIO(tmp_path / "file.zarr", "a") as io:
        nwbfile = io.read()
        nwbfile.acquisition["trace"].data.append(np.ones((1, 3), "i2"))
        nwbfile.add_scratch(np.arange(3.0), name="more", description="more")
        io.write(nwbfile)
    assert conformance(tmp_path / "file.zarr").violations == []


# ---- the page -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(Path(__file__).resolve().parents[2] / "docs" / "_scripts")
        yield importlib.import_module("conformance_page")


def test_the_page_of_rules_is_as_the_script_makes_it(script):
    text = script.PAGE.read_text(encoding="utf-8")
    assert text == script.page(), "run: python docs/_scripts/conformance_page.py"
    assert all(f"| `{name}` |" in text for name in RULES)
