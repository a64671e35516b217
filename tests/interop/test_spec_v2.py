"""What the specification of Zarr format 2 asks of readers: stores made by hand, read by us and by zarr-python 2.18.

No store here is made by a library of Zarr. The other way round, `conformance` has nothing to say of files of ours.
"""

import base64
import json
import shutil
import warnings
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import GroupBuilder

from hdmf_zarr_backend import ZarrIO, consolidate
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.errors import ValueRefusedError
from tests.conformance import conformance
from tests.interop.digests import digest
from tests.interop.exchange import READ_WITH_ZARR_2, ask, digests_of
from tests.interop.test_plain_readers import arrays_of
from tests.peers import Peer
from tests.places import store_files

Store = dict[str, Any]

PLAIN = {
    "zarr_format": 2, "shape": [5], "chunks": [2], "dtype": "<i2", "compressor": None, "fill_value": None,
    "order": "C", "filters": None,
}  # fmt: skip
NESTED = [["foo", "<f4"], ["bar", [["baz", ">f4", [2, 2]], ["qux", "<i4"]]]]
NESTED_DTYPE = np.dtype([("foo", "<f4"), ("bar", [("baz", ">f4", (2, 2)), ("qux", "<i4")])])
GRID = np.arange(24, dtype="<i4").reshape(4, 6)


def stored(values: dict[str, bytes], /, **document: Any) -> Store:
    return {".zgroup": {"zarr_format": 2}, "a/.zarray": PLAIN | document, **{f"a/{k}": v for k, v in values.items()}}


def in_order(order: str, separator: str) -> dict[str, bytes]:
    """Return the chunks of `GRID` in blocks of 2 by 4; what overhangs its edge is noise."""
    noisy = np.full((4, 8), 99, "<i4")
    noisy[:, :6] = GRID
    blocks = {(i, j): noisy[2 * i : 2 * i + 2, 4 * j : 4 * j + 4] for i in range(2) for j in range(2)}
    return {f"{i}{separator}{j}": block.tobytes(order) for (i, j), block in blocks.items()}


def filtered(filters: list[dict[str, Any]], compressor: dict[str, Any] | None) -> Store:
    chunks = {}
    for number in range(3):
        data: Any = np.arange(2 * number, 2 * number + 2, dtype="<i2")
        for config in (*filters, *([compressor] if compressor else [])):
            data = numcodecs.get_codec(dict(config)).encode(data)
        chunks[str(number)] = bytes(np.asarray(data).tobytes() if isinstance(data, np.ndarray) else data)
    return stored(chunks, filters=filters, compressor=compressor)


def base64_of(value: Any, dtype: Any) -> str:
    return base64.b64encode(np.array(value, dtype).tobytes()).decode()


MATRIX = {"shape": [4, 6], "chunks": [2, 4], "dtype": "<i4"}
ROW = ((1.5), ([[1, 2], [3, 4]], -7))
DELTA, SHUFFLE, ZLIB = {"id": "delta", "dtype": "<i2"}, {"id": "shuffle", "elementsize": 2}, {"id": "zlib", "level": 1}

STORES: dict[str, Store] = {
    "a chunk that is not stored is the fill value": stored({"0": b"\1\0\2\0"}, fill_value=-7),
    "nothing is stored": stored({}, fill_value=3),
    "a fill value that is not a number": stored({}, dtype="<f4", fill_value="NaN"),
    "an infinite fill value": stored({}, dtype=">f8", fill_value="-Infinity"),
    "a complex fill value": stored({}, dtype="<c8", fill_value=["NaN", 1.5]),
    "a true fill value": stored({}, dtype="|b1", fill_value=True),
    "a fill value of text": stored({}, dtype="<U3", fill_value="åb"),
    "a fill value of bytes": stored({}, dtype="|S5", fill_value=base64_of(b"ab\0\xff", "S5")),
    "a fill value of fields": stored({}, dtype=NESTED, fill_value=base64_of(ROW, NESTED_DTYPE)),
    "a fill value of dates": stored({}, dtype="<M8[ms]", fill_value=86_400_000),
    "nested fields": stored(
        {str(i): np.array([ROW, ROW], NESTED_DTYPE).tobytes() for i in range(3)}, dtype=NESTED, fill_value=None
    ),
    "dates in milliseconds": stored({str(i): bytes([i] * 16) for i in range(3)}, dtype="<M8[ms]"),
    "lengths of time in days": stored({str(i): bytes([0] * 14 + [i, i]) for i in range(3)}, dtype=">m8[D]"),
    "dates in steps of 25 s": stored({str(i): bytes([i] * 16) for i in range(3)}, dtype="<M8[25s]"),
    "big endian": stored({str(i): np.array([i, -i], ">i8").tobytes() for i in range(3)}, dtype=">i8"),
    "half floats": stored({str(i): np.array([i, -0.5], "<f2").tobytes() for i in range(3)}, dtype="<f2"),
    "no separator": stored(in_order("C", "."), **MATRIX),
    "the other separator": stored(in_order("C", "/"), **MATRIX, dimension_separator="/"),
    "keys of the other separator are not chunks": stored(in_order("C", "/"), **MATRIX, fill_value=5),
    "order F": stored(in_order("F", "."), **MATRIX, order="F"),
    "order F compressed": stored(
        {key: numcodecs.Zlib(1).encode(data) for key, data in in_order("F", ".").items()},
        **MATRIX, order="F", compressor=ZLIB,
    ),
    "one filter": filtered([DELTA], None),
    "filters in reverse": filtered([DELTA, SHUFFLE], ZLIB),
    "filters in reverse, the other way round": filtered([SHUFFLE, {"id": "crc32"}, {"id": "adler32"}], {"id": "bz2"}),
    "no filters": filtered([], {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 1}),
    "keys that nobody knows": stored(in_order("C", "."), **MATRIX, _nczarr_array={"dimrefs": []}, later=[1, None]),
    "no axes": stored({"0": b"\5\0"}, shape=[], chunks=[]),
    "no elements": stored({}, shape=[0, 3], chunks=[1, 3]),
    "deep inside": {
        **{f"{path}.zgroup": {"zarr_format": 2} for path in ("", "g/", "g/h/")},
        "g/.zattrs": {"foo": 42, "bar": "apples", "baz": [1, 2, 3, 4]},
        "g/h/a/.zarray": PLAIN, "g/h/a/.zattrs": {"unit": "V"}, "g/h/a/0": b"\1\0\2\0", "g/h/a/1": b"\3\0\4\0",
        "g/h/a/2": b"\5\0\6\0",
    },
    "other keys of groups": {
        ".zgroup": {"zarr_format": 2, "_nczarr_superblock": {"version": "2.0.0"}},
        "g/.zgroup": {"zarr_format": 2, "_nczarr_group": {"vars": ["a"]}, "later": True},
        "g/a/.zarray": PLAIN | {"fill_value": 1},
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("stores")
    return {name: store_files(folder / str(number), store) for number, (name, store) in enumerate(STORES.items())}


@pytest.fixture(scope="module")
def read_by_zarr_2(stores: dict[str, Path], peer013: Peer, tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("zarr2")
    ask(peer013, READ_WITH_ZARR_2, [*stores.items()], folder, folder / "read.json")
    return json.loads((folder / "read.json").read_text())


@pytest.mark.peer
@pytest.mark.parametrize("name", STORES)
def test_values_and_attributes_are_those_of_zarr_2(name, stores, read_by_zarr_2):
    attributes = {location: node.attributes for location, node in arrays_of(stores[name]).items()}
    ours = {location: [values, attributes[location]] for location, values in digests_of(stores[name]).items()}
    assert ours == read_by_zarr_2[name]
    assert len(ours) == 1


EXPECTED = {
    "a chunk that is not stored is the fill value": [1, 2, -7, -7, -7], "no separator": GRID,
    "the other separator": GRID, "keys of the other separator are not chunks": np.full((4, 6), 5, "<i4"),
    "order F": GRID, "order F compressed": GRID, "filters in reverse": [0, 1, 2, 3, 4],
    "filters in reverse, the other way round": [0, 1, 2, 3, 4], "keys that nobody knows": GRID,
    "nested fields": np.array([ROW] * 5, NESTED_DTYPE), "a fill value of fields": np.array([ROW] * 5, NESTED_DTYPE),
    "a fill value of bytes": np.array([b"ab\0\xff"] * 5, "S5"),
    "a fill value of dates": np.array(["1970-01-02"] * 5, "M8[ms]"),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_values_are_those_that_were_meant(name, stores):
    """Not by another reader's word alone: both might be wrong."""
    (result,) = digests_of(stores[name]).values()
    dtype = STORES[name]["a/.zarray"]["dtype"]
    assert result == digest(np.asarray(EXPECTED[name], NESTED_DTYPE if isinstance(dtype, list) else dtype))


def test_other_keys_of_groups_are_read_and_never_written(stores, tmp_path):
    """Neither by an export, nor into the consolidated document, nor when the group is changed."""
    source = Path(shutil.copytree(stores["other keys of groups"], tmp_path / "source.zarr"))
    with ZarrIO(source, "r-") as io, ZarrIO(tmp_path / "copy.zarr", "w") as out:
        assert io.read_builder()["g"]["a"].data[:].tolist() == [1] * 5
        out.export(io)
    documents = sorted((tmp_path / "copy.zarr").rglob(".zgroup"))
    assert [json.loads(path.read_text()) for path in documents] == [{"zarr_format": 2}] * 2
    assert conformance(tmp_path / "copy.zarr").violations == []
    consolidate(source)
    metadata = json.loads((source / ".zmetadata").read_text())["metadata"]
    assert metadata[".zgroup"] == metadata["g/.zgroup"] == {"zarr_format": 2}


# ---- logical paths --------------------------------------------------------------------------------------------------

PATHS = {
    "/a/b": "a/b", "a/b": "a/b", "//a//b//": "a/b", "a\\b": "a/b", "\\a\\\\b\\": "a/b", "/a/\\b": "a/b", "": "",
    "/": "", "\\": "", "a.b/..c": "a.b/..c", "a.b\\..c": "a.b/..c", "a/./b": None, "./a/b": None, "../a/b": None,
    "a/../a/b": None, "a\\..\\a": None, "..": None, ".": None, "/a/b/.": None,
}  # fmt: skip
"""What is asked for, and what is meant; None where it is nothing."""

_NORMALIZE = """
import json, sys
from zarr.util import normalize_storage_path

reported = {}
for path in json.load(open(sys.argv[1])):
    try:
        reported[path] = normalize_storage_path(path)
    except ValueError:
        reported[path] = None
print(json.dumps(reported))
"""


@pytest.mark.peer
def test_paths_mean_what_they_mean_to_zarr_2(peer013, tmp_path):
    assert ask(peer013, _NORMALIZE, list(PATHS), tmp_path) == PATHS


def _file(path: Path, **attributes: Any) -> Path:
    groups = ("", "a/", "a/b/", "a.b/", "a.b/..c/")
    named = {f"{name}.zattrs": {"object_id": name} for name in groups[1:]}
    store = {f"{name}.zgroup": {"zarr_format": 2} for name in groups} | named | {".zattrs": attributes}
    return store_files(path, store)


@pytest.mark.parametrize(("asked", "meant"), PATHS.items(), ids=list(PATHS))
def test_links_and_references_lead_where_their_normal_path_does(asked, meant, tmp_path):
    link = {"name": "link", "source": ".", "path": asked}
    reference = {"zarr_dtype": "object", "value": {"source": ".", "path": asked}}
    path = _file(tmp_path / "file.zarr", zarr_link=[link], to=reference)
    with (
        warnings.catch_warnings(record=True, action="always", category=BrokenLinkWarning) as caught,
        ZarrIO(path, "r-") as io,
    ):
        root = io.read_builder()
    if meant is None:
        assert (dict(root.links), "to" in root.attributes) == ({}, False)
        assert len([warning for warning in caught if warning.category is BrokenLinkWarning]) == 2
        return
    expected = f"{meant}/" if meant else None
    assert root.links["link"].builder.attributes.get("object_id") == expected
    assert root.attributes["to"].attributes.get("object_id") == expected


@pytest.mark.parametrize("asked", [path for path, meant in PATHS.items() if meant is None])
def test_a_path_of_a_user_with_dots_is_an_error(asked, tmp_path):
    builder = GroupBuilder("root", attributes={"to": ZarrReference(".", asked)})
    with pytest.raises(ValueRefusedError, match="not a path of a node"), ZarrIO(tmp_path / "file.zarr", "w") as io:
        io.write_builder(builder)


# ---- our files ------------------------------------------------------------------------------------------------------
def test_files_that_we_make_conform(ours):
    """All real files converted; what stays is in `conformance.ACCEPTED`."""
    for name, path in ours.items():
        report = conformance(path)
        assert report.violations == [], name
        assert set(report.counts) <= {"dtype-object", "ascii-key", "json-numbers"}, name
        assert report.undecoded == {}, name
        assert report.chunks
