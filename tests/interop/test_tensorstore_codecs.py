"""What we say of an array is what TensorStore itself makes of it: of hand-made documents, and of converted files."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from pynwb import H5DataIO, TimeSeries

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.tensorstore import find_obstacle
from hdmf_zarr_backend.interop.tensorstore import tensorstore_spec
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.stores.local import LocalStore
from tests import samples
from tests.interop.test_tensorstore import SCALAR, in_memory, open_spec

pytest.importorskip("tensorstore")

# ---- whatever a document says ---------------------------------------------------------------------------------------

PLAIN_2 = {**SCALAR, "fill_value": None}
PLAIN_3: dict[str, Any] = {
    "zarr_format": 3, "node_type": "array", "shape": [8, 6], "data_type": "int16", "fill_value": 0,
    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [4, 6]}},
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
    "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
}  # fmt: skip
BLOSC_3 = {"typesize": 2, "cname": "lz4", "clevel": 5, "shuffle": "shuffle", "blocksize": 0}
ROWS_2 = [["a", "<i2"], ["b", "<f8"]]


def codec(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def rows_of(*kinds: Any) -> dict[str, Any]:
    fields = [{"name": name, "data_type": kind} for name, kind in zip("abc", kinds, strict=False)]
    return {"data_type": codec("struct", fields=fields), "fill_value": dict.fromkeys("abc"[: len(kinds)], 0)}


def structured_of(fill_value: Any, *kinds: Any) -> dict[str, Any]:
    fields = [[name, kind] for name, kind in zip("abc", kinds, strict=False)]
    return {"data_type": codec("structured", fields=fields), "fill_value": fill_value, "field": "a"}


def sharded(*codecs: Any, index: Any = None) -> dict[str, Any]:
    inner = [PLAIN_3["codecs"][0], *codecs]
    outer = index or [*PLAIN_3["codecs"], {"name": "crc32c"}]
    return {"codecs": [codec("sharding_indexed", chunk_shape=[2, 3], codecs=inner, index_codecs=outer)]}


DOCUMENTS_2: list[dict[str, Any]] = [
    *({"compressor": {"id": name}} for name in ("blosc", "zlib", "gzip", "bz2", "zstd", "lz4", "lzma", "crc32c")),
    *({"compressor": {"id": "zlib", "level": level}} for level in (-1, 0, 9, 10)),
    *({"compressor": {"id": "bz2", "level": level}} for level in (0, 9)),
    *({"compressor": {"id": "zstd", "level": level}} for level in (-5, 0, 22)),
    {"compressor": {"id": "zstd", "level": 1, "checksum": True}},
    *({"compressor": {"id": "blosc", "cname": name}} for name in ("lz4hc", "blosclz", "snappy", "zlib", "zstd")),
    *({"compressor": {"id": "blosc", "shuffle": number}} for number in (-1, 0, 2, 3)),
    {"compressor": {"id": "blosc", "clevel": 10}},
    {"compressor": {"id": "blosc", "typesize": 2}},
    {"filters": []}, {"filters": [{"id": "delta", "dtype": "<u2"}]}, {"order": "F"}, {"dimension_separator": "/"},
    {"unknown": 5},
    *({"dtype": dtype} for dtype in ("|b1", "|i1", ">i8", "<f2", ">c16", "<U3", "<M8[ns]", "<m8[s]")),
    *({"dtype": "|b1", "fill_value": fill} for fill in (False, 0, 1)),
    *({"dtype": "<i4", "fill_value": fill} for fill in (-1, 1.0, "1", True)),
    *({"dtype": "<f4", "fill_value": fill} for fill in (0, 0.5, "NaN", "-Infinity", "nan", [0.0], True)),
    *({"dtype": "<c8", "fill_value": fill} for fill in ([0, "NaN"], 0, [1.0], "AAAAAAAAAAA=", "AAAA")),
    *({"dtype": ROWS_2, "fill_value": fill, "field": "a"} for fill in (None, 0, "AAAAAAAAAAAAAA==", "AAAA")),
    *(
        {"dtype": [["a", "<i2"], ["b", kind]], "field": "a"}
        for kind in ("|S3", "|V4", "<U2", "|b1", "<M8[ns]", [["c", "<i2"]])
    ),
    {"dtype": [["a", "<i2", [2, 3]]], "field": "a"},
    {"dtype": [["a", "<i2"]], "field": "a"},
]  # fmt: skip
DOCUMENTS_3: list[dict[str, Any]] = [
    *({"codecs": [*PLAIN_3["codecs"], made]} for made in (
        codec("blosc", **BLOSC_3), codec("blosc", **{**BLOSC_3, "cname": "snappy"}),
        codec("blosc", **{**BLOSC_3, "typesize": 256}),
        codec("blosc", cname="lz4", clevel=5, shuffle="noshuffle", blocksize=0),
        codec("blosc", cname="lz4", clevel=5, shuffle="shuffle", blocksize=0),
        codec("gzip", level=0), codec("gzip", level=9), codec("gzip", level=-1), codec("gzip"),
        codec("zstd", level=3, checksum=True), codec("zstd", level=-5, checksum=False), codec("zstd", level=3),
        {"name": "crc32c"}, codec("crc32c"), codec("numcodecs.zlib", level=4), codec("numcodecs.bz2", level=1),
    )),
    {"codecs": [*PLAIN_3["codecs"], codec("blosc", **BLOSC_3), {"name": "crc32c"}]},
    {"codecs": [codec("numcodecs.delta", dtype="<i2"), *PLAIN_3["codecs"]]},
    {"codecs": [codec("transpose", order=[1, 0]), *PLAIN_3["codecs"]]},
    {"codecs": ["bytes"]}, {"codecs": [codec("bytes", endian="big")]}, {"codecs": [{"name": "bytes"}]},
    {"codecs": [{"name": "bytes"}], "data_type": "uint8"},
    sharded(), sharded(codec("zstd", level=1, checksum=False)), sharded(codec("numcodecs.zlib", level=4)),
    sharded(index=[codec("bytes", endian="little")]), sharded(index=[{"name": "bytes"}]),
    *({"data_type": name, "fill_value": 0.0} for name in ("float16", "float64")),
    {"data_type": "bool", "fill_value": False}, {"data_type": "complex64", "fill_value": [0, "NaN"]},
    {"data_type": "float32", "fill_value": "0x7fc00000"}, {"data_type": codec("int16")},
    {"data_type": {"name": "int16"}}, {"data_type": "bool", "fill_value": 0}, {"fill_value": None}, {"fill_value": 1.0},
    {"fill_value": 1.5}, {"data_type": "complex64"},
    {"codecs": [{"name": "bytes"}], "data_type": "bool", "fill_value": False},
    {"data_type": codec("fixed_length_utf32", length_bytes=8), "fill_value": ""},
    {"data_type": codec("numpy.datetime64", unit="ns", scale_factor=1)},
    {**rows_of("int16", "float64"), "field": "a"},
    {**rows_of("int16"), "field": "a"},
    {**rows_of("int16"), "fill_value": 0, "field": "a"},
    {**rows_of("int16", "float64"), "fill_value": [0, 0], "field": "a"},
    {**rows_of("int16", "float64"), "codecs": [{"name": "bytes"}], "field": "a"},
    {**rows_of("int8", "bool"), "codecs": [{"name": "bytes"}], "fill_value": {"a": 0, "b": False}, "field": "a"},
    {**rows_of("int16", codec("fixed_length_utf32", length_bytes=8)), "fill_value": "AAAAAAAAAAAAAA==", "field": "a"},
    {**rows_of("int16", codec("raw_bytes", length_bytes=4)), "fill_value": "AAAAAAAA", "field": "a"},
    {**rows_of("int16", "float64"), "codecs": [codec("transpose", order=[1, 0]), *PLAIN_3["codecs"]], "field": "a"},
    {**rows_of("int16", "float64"), **sharded(), "field": "a"},
    *(structured_of(fill, "int16", "float64") for fill in ("AAAAAAAAAAAAAA==", "AAAAAAAAAAAAAAA=", 0)),
    structured_of({"a": 0, "b": 0}, "int16", "float64"),
    structured_of("AAA=", "int16"), structured_of("AQI=", "int16"), structured_of({"a": 0}, "int16"),
    {**structured_of("AAAAAAAAAAAAAA==", "int16", "float64"), "codecs": [codec("bytes", endian="big")]},
    structured_of("AAAAAAAAAAAAAAAAAAA=", "int16", codec("fixed_length_utf32", length_bytes=12)),
    {"attributes": {"a": math.nan}}, {"attributes": {"a": [{"b": -math.inf}]}}, {"attributes": {"a": "NaN"}},
    {"attributes": {"dimension_units": "m"}}, {"attributes": {"dimension_units": ["m", None]}},
    {"storage_transformers": []}, {"dimension_names": ["x", None]}, {"dimension_names": ["x", "x"]},
    {"extension": {"must_understand": False}}, {"extension": {"must_understand": True}}, {"extension": 5},
    {"chunk_key_encoding": codec("v2")}, {"chunk_key_encoding": {"name": "default"}}, {"chunk_key_encoding": "default"},
]  # fmt: skip


CHANGES = [*((PLAIN_2, change) for change in DOCUMENTS_2), *((PLAIN_3, change) for change in DOCUMENTS_3)]


@pytest.mark.parametrize(("plain", "change"), CHANGES, ids=[str(change) for _, change in CHANGES])
def test_what_is_told_of_a_document_is_what_tensorstore_makes_of_it(plain, change):
    metadata = {**plain, **change}
    field = metadata.pop("field", "")
    try:
        in_memory(metadata, field)
        opens = True
    except (ValueError, NotImplementedError):
        opens = False
    if metadata["zarr_format"] == 2:
        node = zarr2.parse_array(metadata, {}, "a")
    else:
        parsed = zarr3.parse_node(metadata, "a")
        assert isinstance(parsed, Dataset)
        node = parsed
    obstacle = find_obstacle(node)
    assert (obstacle is None) == opens, obstacle
    if obstacle is not None:
        assert obstacle.problem.startswith("TensorStore cannot read ")
        assert obstacle.remedy.endswith(".")


# ---- converted files -------------------------------------------------------------------------------------------------

PIPELINES: dict[str, dict[str, Any]] = {
    "plain": {},
    "gzip": {"compression": "gzip", "compression_opts": 4},
    "shuffled": {"compression": "gzip", "shuffle": True},
    "summed": {"compression": "gzip", "fletcher32": True},
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an HDF5 file with large datasets under several filters."""
    nwbfile = samples.rich_nwbfile()
    numbers = (np.arange(1_200_000) % 1999).astype("i2").reshape(-1, 4)
    for name, pipeline in PIPELINES.items():
        data = H5DataIO(numbers, chunks=(10_000, 4), **pipeline)
        nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="V", rate=1.0))
    return samples.write_hdf5(tmp_path_factory.mktemp("recorded") / "a.nwb", nwbfile)


def arrays_of(path: Path) -> dict[str, LazyArray]:
    """Return all arrays of a file but the cached specifications."""
    keys, cache = LocalStore(str(path)), ChunkCache()
    nodes = parse(keys).hierarchy.walk()
    arrays = {place: LazyArray(keys, place, node, cache) for place, node in nodes if isinstance(node, Dataset)}
    return {place: data for place, data in arrays.items() if not place.startswith("specifications/")}


def opened_by_tensorstore(arrays: dict[str, LazyArray]) -> tuple[set[str], dict[str, str]]:
    """Return which arrays TensorStore opens, with equal values, and why there is no spec for the others."""
    opened, refused = set(), {}
    for place, data in arrays.items():
        for field in data.dtype.names or (None,):
            try:
                spec = tensorstore_spec(data, field)
            except UsageError as error:
                refused[place] = error.problem
                break
            values = np.asarray(data[()]) if field is None else np.asarray(data[field])
            np.testing.assert_array_equal(open_spec(spec).read().result(), values, err_msg=place)
        else:
            opened.add(place)
    return opened, refused


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", ["keep", "blosc", "zstd", "zlib", "none"])
def test_converted_files_open_or_say_why_not(recorded, tmp_path, capsys, name, zarr_format):
    path = tmp_path / "a.nwb.zarr"
    convert(recorded, path, codec=name, zarr_format=zarr_format)
    arrays = arrays_of(path)
    opened, refused = opened_by_tensorstore(arrays)
    large = {series: f"acquisition/{series}/data" for series in PIPELINES}
    assert set(large.values()) <= arrays.keys()
    assert len(opened) > 20
    closed = {place: why for place, why in refused.items() if not arrays[place].dtype.hasobject}
    expected = set()
    if name == "keep":  # a chunk of HDF5 is not decoded, and format 3 has another frame for what is deflated
        expected = {large[series] for series in ("gzip", "shuffled", "summed") if (series, zarr_format) != ("gzip", 2)}
    assert closed.keys() == expected
    for place, why in closed.items():
        assert re.search({2: r"filters \(", 3: r"codec .*numcodecs\."}[zarr_format], why), place
    assert main(["inspect", str(path), "--json"]) == 0
    reported = [node for node in json.loads(capsys.readouterr().out)[0]["nodes"] if node["kind"] == "array"]
    assert {node["path"].strip("/"): node["tensorstore"] for node in reported} == dict.fromkeys(opened) | refused
    assert main(["inspect", str(path), "--verbose"]) == 0
    line = f"TensorStore cannot open {len(closed)} of {len(opened) + len(closed)} arrays of numbers; --json shows why"
    assert capsys.readouterr().out.splitlines()[1] == (line if closed else "")


# ---- zlib, which format 3 has as gzip --------------------------------------------------------------------------------

ZLIB = [({"id": "zlib"}, 1), ({"id": "zlib", "level": 4}, 4), ({"id": "zlib", "level": -1}, 6)]


@pytest.mark.parametrize(("asked", "level"), ZLIB)
def test_new_arrays_of_format_3_are_deflated_in_the_frame_that_others_read(tmp_path, asked, level):
    values = np.arange(500) % 7
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=3) as io:
        data = ZarrDataIO(values, chunks=(100,), compressor=asked)
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", data)}))
    document = json.loads((tmp_path / "a.zarr/a/zarr.json").read_text())
    assert document["codecs"][-1] == codec("gzip", level=level)
    (data,) = arrays_of(tmp_path / "a.zarr").values()
    np.testing.assert_array_equal(data[()], values)
    np.testing.assert_array_equal(open_spec(tensorstore_spec(data)).read().result(), values)


def test_stored_chunks_keep_the_frame_that_they_have(tmp_path):
    values = np.arange(500) % 7
    with ZarrIO(tmp_path / "2.zarr", "w") as io:
        data = ZarrDataIO(values, chunks=(100,), compressor={"id": "zlib", "level": 4})
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", data)}))
    convert(tmp_path / "2.zarr", tmp_path / "3.zarr", zarr_format=3)
    document = json.loads((tmp_path / "3.zarr/a/zarr.json").read_text())
    assert document["codecs"][-1] == codec("numcodecs.zlib", level=4)
    assert (tmp_path / "3.zarr/a/c/0").read_bytes() == (tmp_path / "2.zarr/a/0").read_bytes()
    (data,) = arrays_of(tmp_path / "3.zarr").values()
    np.testing.assert_array_equal(data[()], values)
