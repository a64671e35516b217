"""The oracle `tests.conformance` finds each planted violation, and in our files those that are accepted only."""

import json
import warnings
from typing import Any

import numcodecs
import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning

from hdmf_zarr_backend import convert, upgrade
from hdmf_zarr_backend.options import WriteOptions
from tests import samples
from tests.conformance import ACCEPTED, conformance
from tests.everything import write_everything
from tests.trees import dataset, group, root, write_builder

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
        ".zgroup": dump({"zarr_format": 2}), ".zattrs": dump({"name": "value"}),
        "README": b"keys that are none of Zarr's are nobody's business", "g/.zgroup": dump({"zarr_format": 2}),
        "g/a/.zarray": dump(ARRAY), "g/b/.zarray": dump(ARRAY), "g/b/.zattrs": dump({}), "g/b/0.0": bytes(16),
        "g/b/1.0": bytes(16),
    }  # fmt: skip


def array(**changes: Any) -> Values:
    return {"g/a/.zarray": dump({**ARRAY, **changes})}


def typed(data_type: Any, fill: Any = None) -> Values:
    return array(dtype=data_type, fill_value=fill)


def without(name: str) -> Values:
    return {"g/a/.zarray": dump({key: value for key, value in ARRAY.items() if key != name})}


GROUP = {"zarr_format": 2}
PLANTED: dict[str, list[Values]] = {
    "ascii-key": [{"g/ü/.zgroup": dump(GROUP)}],
    "normal-path": [{key: dump(GROUP)} for key in ("g//x/.zgroup", "/x/.zgroup", "x\\y/.zgroup")],
    "no-dots": [{key: dump(GROUP)} for key in ("g/../x/.zgroup", "./x/.zgroup")],
    "json": [{".zattrs": text} for text in (b"{", b'{"a": 1,}', b'{"a": "\xff"}', b"[" * 100_000)],
    "json-numbers": [{".zattrs": b'{"a": NaN}'}, {".zmetadata": b'{"a": [Infinity]}'}],
    "array-object": [{"g/a/.zarray": b"[]"}],
    "array-keys": [without(name) for name in ARRAY],
    "array-other-keys": [array(_nczarr_array={})],
    "array-zarr-format": [array(zarr_format=number) for number in (3, "2", True, 2.0)],
    "array-shape": [array(shape=shape) for shape in ("3", [3.0, 4], [-1, 4], [True, 4])],
    "array-chunks": [array(chunks=chunks) for chunks in ("2", [0, 4], [None, 4], [2], [2, 4, 1])],
    "array-order": [array(order="A")],
    "array-compressor": [array(compressor=codec) for codec in ("zlib", {"level": 1}, {"id": 5})],
    "array-filters": [array(filters=filters) for filters in ({"id": "delta"}, [{"dtype": "<i2"}], [None])],
    "array-dimension-separator": [array(dimension_separator="-")],
    "array-dtype": [
        typed(dtype)
        for dtype in (
            "", "int16", 5, "<i2[ns]", [["a", 5]], "i2", "|f8", "|U5", [["a", [["b", "|c8"]]]], "<q8", "<f3", "|S",
            "<c4", "<M8", "<M8[generic]", [["a", ">m8[x]"]], [], [["a"]], [[1, "<i2"]], [["a", "<i2", [-1]]],
        )
    ],
    "dtype-object": [typed("|O"), typed([["a", "<i2"], ["b", "|O"]])],
    "array-fill-value": [
        typed(*case)
        for case in (
            ("<i2", 1.5), ("<i2", 2**15), ("|u1", -1), ("|i1", "1"), ("<i8", True), ("|b1", "true"), ("<U2", 5),
            ("<f4", True), ("<c8", [1, 2, 3]), ("<M8[ns]", 1.5), ("<f4", "nan"), (">f2", "0"), ("|S3", "abc!"),
            ("|S3", 0), ([["a", "<i2"]], [0]),
        )
    ],
    "chunk-key": [{f"g/b/{name}": bytes(9)} for name in ("2.0", "0.1", "0", "00.0", "0/0", "-1.0", "c/0/0")],
    "chunk-size": [
        {"g/b/1.0": bytes(8)},  # what the array holds, without what overhangs its edge
        {"g/b/0.0": bytes(17)},
        {"g/b/.zarray": dump({**ARRAY, "compressor": {"id": "zlib", "level": 1}}),
         "g/b/1.0": numcodecs.Zlib(1).encode(bytes(16)), "g/b/0.0": numcodecs.Zlib(1).encode(bytes(15))},
    ],
    "group-object": [{"g/.zgroup": b"2"}],
    "group-keys": [{"g/.zgroup": b"{}"}],
    "group-zarr-format": [{"g/.zgroup": dump({"zarr_format": 3})}],
    "group-other-keys": [{"g/.zgroup": dump({"zarr_format": 2, "_nczarr_group": {}})}],
    "group-ancestors": [{"x/y/.zgroup": dump(GROUP)}, {"x/.zarray": dump(ARRAY), "y/z/.zarray": dump(ARRAY)}],
    "array-members": [{"g/a/x/.zgroup": dump(GROUP)}, {"g/b/x/.zarray": dump(ARRAY)}],
    "one-kind": [{"g/a/.zgroup": dump(GROUP)}],
    "attributes-object": [{".zattrs": b"[1]"}],
}  # fmt: skip
"""By rule, what is changed in the store of `good` so that just this rule finds something."""

CASES = [(rule, number) for rule, stores in PLANTED.items() for number in range(len(stores))]


@pytest.mark.parametrize(("rule", "number"), CASES, ids=str)
def test_a_planted_violation_is_found_and_nothing_else(rule, number):
    report = conformance(good() | PLANTED[rule][number])
    assert set(report.counts) == {rule}
    assert bool(report.violations) != (rule in ACCEPTED)
    assert conformance(good()).counts == {}


OURS = {"dtype-object", "ascii-key"}
"""Rules that find something in files of ours in strict JSON; `ACCEPTED` has the reasons."""


@pytest.mark.parametrize("strict", [False, True], ids=["default", "strict"])
def test_our_files_have_the_findings_that_are_listed_and_no_others(tmp_path, strict):
    """Among them names of other alphabets, and attributes that are not finite."""
    groups = (group("attributes", **samples.attribute_values()), group("Größe", dataset("数", np.arange(3.0))))
    tree = root(*samples.dataset_builders().values(), *groups)
    write_builder(tmp_path / "builders.zarr", tree, write_options=WriteOptions(strict_json=strict))
    samples.write_zarr(tmp_path / "rich.zarr", write_options=WriteOptions(strict_json=strict, nczarr=strict))
    reports = [conformance(tmp_path / name) for name in ("builders.zarr", "rich.zarr")]
    assert [report.violations for report in reports] == [[], []]
    assert [report.undecoded for report in reports] == [{}, {}]
    assert set(reports[0].counts) == (OURS if strict else OURS | {"json-numbers"})
    assert set(reports[1].counts) <= (OURS if strict else OURS | {"json-numbers"})
    assert all(min(report.chunks, report.arrays) > 50 for report in reports)


def test_a_converted_file_of_everything_that_hdf5_has(tmp_path):
    with warnings.catch_warnings(action="ignore", category=BrokenLinkWarning):
        convert(write_everything(tmp_path / "everything.h5"), tmp_path / "everything.zarr", check=False)
    report = conformance(tmp_path / "everything.zarr")
    assert report.violations == []
    assert set(report.counts) == OURS | {"json-numbers"}
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
    assert set(report.counts) - OURS - {"json-numbers"} == {"chunk-key"}
    assert [key for _, key, _ in report.violations] == [(own_chunks[0].parent / "7").relative_to(path).as_posix()]


def test_the_real_files_in_both_formats(tmp_path, nwbfiles):
    for path in [path for path in nwbfiles if path.stem.startswith("nwbexplorer__test_")][::5]:
        convert(path, tmp_path / f"{path.stem}.zarr", zarr_format="both")
        assert conformance(tmp_path / f"{path.stem}.zarr").violations == []


def test_an_appended_file(tmp_path):
    samples.write_zarr(tmp_path / "file.zarr")
    with samples.edit_zarr(tmp_path / "file.zarr", "a") as nwbfile:
        nwbfile.acquisition["trace"].data.append(np.ones((1, 3), "i2"))
        nwbfile.add_scratch(np.arange(3.0), name="more", description="more")
    assert conformance(tmp_path / "file.zarr").violations == []
