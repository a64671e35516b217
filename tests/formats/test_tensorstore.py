"""Why TensorStore cannot open an array, word for word; what TensorStore itself does is in `tests.interop`."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hdmf_zarr_backend.formats import zarr3
from hdmf_zarr_backend.formats.tensorstore import find_obstacle
from hdmf_zarr_backend.model.nodes import Dataset
from tests.documents import dataset_node

READ = "Read it through the container; `zarrio inspect` shows the types and codecs of all arrays."
CONVERT = "Convert the file with codec='zstd' or another one"
STRICT = "Write or export the file with strict_json=True."
OF_2 = "It has blosc, zlib, gzip, bz2, zstd."
OF_3 = "It has bytes, blosc, gzip, zstd, crc32c, transpose, sharding_indexed."
LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}


def message(node: Dataset[Any]) -> tuple[str, str, bool] | None:
    """Return problem, remedy and whether it is about the type, None if TensorStore opens the array."""
    found = find_obstacle(node)
    return None if found is None else (found.problem, found.remedy, found.is_of_type)


@pytest.mark.parametrize(
    ("changes", "problem", "remedy", "is_of_type"),
    [
        ({"data_type": "|O"}, "elements of type text or references", READ, True),
        ({"data_type": "<U3"}, "elements of type text", READ, True),
        ({"data_type": "<M8[s]"}, "elements of type dates", READ, True),
        ({"data_type": "<m8[s]"}, "elements of type durations", READ, True),
        ({"data_type": "|S3"}, "elements of type '|S3'", READ, True),
        ({"data_type": [["a", "<i2"], ["b", "<U2"]]}, "rows with the field 'b' of type text", READ, True),
        ({"data_type": [["a", [["b", "<i2"]]]]}, "rows with the field 'a' of type [['b', '<i2']]", READ, True),
        ({"data_type": [["a"]]}, "rows with the field None of type ['a']", READ, True),
        (
            {"filters": [{"id": "delta"}, {"id": "shuffle"}]},
            "arrays with filters (delta, shuffle)",
            f"{CONVERT}, instead of keeping HDF5's filters.",
            False,
        ),
        ({"compressor": {"id": "lz4"}}, "the compressor {'id': 'lz4'}", f"{OF_2} {CONVERT}.", False),
        ({"compressor": {"id": "zlib", "level": 10}}, "the compressor {'id': 'zlib', 'level': 10}",
         f"{OF_2} {CONVERT}.", False),
        ({"fill_value": "x"}, "the fill value 'x' of this type", READ, False),
        ({"data_type": "<f4", "fill_value": True}, "the fill value True of this type", READ, False),
    ],
    ids=str,
)  # fmt: skip
def test_the_obstacle_of_an_array_of_format_2(changes, problem, remedy, is_of_type):
    node: Dataset[Any] = dataset_node((4,), (2,), **{"data_type": "<i2", **changes})
    assert message(node) == (f"TensorStore cannot read {problem}", remedy, is_of_type)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data_type": "|b1", "fill_value": False},
        {"data_type": ">f8", "fill_value": "NaN"},
        {"data_type": "<c8", "fill_value": [0.0, "Infinity"]},
        {"data_type": "<c8", "fill_value": "AAAAAAAAAAA="},
        {"data_type": "<i2", "fill_value": 5.0},
        {"data_type": [["a", "<i2"], ["b", "|S3"]], "fill_value": "AAAAAAA="},
        {"filters": []},
        {"compressor": {"id": "blosc", "cname": "zstd", "clevel": 9, "shuffle": -1, "blocksize": 0}},
        {"compressor": {"id": "bz2", "level": 1}},
        {"compressor": {"id": "zstd", "level": -5}},
    ],
    ids=str,
)
def test_arrays_of_format_2_that_open(changes):
    assert message(dataset_node((4,), (2,), **{"data_type": "<i2", **changes})) is None


def of_format_3(**changes: Any) -> Dataset[Any]:
    """Return the node of a document of format 3 with changes."""
    grid = {"name": "regular", "configuration": {"chunk_shape": [2]}}
    document = {
        "zarr_format": 3, "node_type": "array", "shape": [4], "data_type": "int16", "fill_value": 0, "chunk_grid": grid,
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": [LITTLE], **changes,
    }  # fmt: skip
    node = zarr3.parse_node(document, "a")
    assert isinstance(node, Dataset)
    return node


def struct(*kinds: Any) -> dict[str, Any]:
    fields = [{"name": name, "data_type": kind} for name, kind in zip("abc", kinds, strict=False)]
    return {"name": "struct", "configuration": {"fields": fields}}


def shards(codec: dict[str, Any]) -> list[dict[str, Any]]:
    configuration = {"chunk_shape": [1], "codecs": [codec], "index_codecs": [LITTLE, {"name": "crc32c"}]}
    return [{"name": "sharding_indexed", "configuration": configuration}]


RAW = {"name": "raw_bytes", "configuration": {"length_bytes": 2}}
LZ4 = {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}


@pytest.mark.parametrize(
    ("changes", "problem", "remedy"),
    [
        (
            {"codecs": [LITTLE, LZ4]},
            'the codec {"name": "numcodecs.lz4", "configuration": {"acceleration": 1}}',
            f"{OF_3} {CONVERT}.",
        ),
        ({"codecs": [{"name": "bytes"}]}, 'the codec {"name": "bytes"}', f"{OF_3} {CONVERT}."),
        ({"codecs": ["bytes"]}, 'the codec "bytes"', f"{OF_3} {CONVERT}."),
        ({"codecs": shards({"name": "bytes"})}, 'the codec {"name": "bytes"}', f"{OF_3} {CONVERT}."),
        ({"attributes": {"a": math.nan}}, "attributes that are not strict JSON: NaN or an infinity", STRICT),
        ({"fill_value": 1.5}, "the fill value 1.5 of this type", READ),
        ({"dimension_names": ["x"], "attributes": {"dimension_units": "m"}},
         "a document with such a 'dimension_units'", READ),
        ({"more": {"must_understand": True}}, "a document with such a 'more'", READ),
        ({"chunk_key_encoding": "default"}, "a document with such a 'chunk_key_encoding'", READ),
    ],
    ids=str,
)  # fmt: skip
def test_the_obstacle_of_an_array_of_format_3(changes, problem, remedy):
    assert message(of_format_3(**changes)) == (f"TensorStore cannot read {problem}", remedy, False)


@pytest.mark.parametrize(
    ("data_type", "problem"),
    [
        (struct("int16", RAW), f"rows with the field 'b' of type {RAW!r}"),
        ({"name": "numpy.datetime64", "configuration": {"unit": "s", "scale_factor": 1}}, "elements of type dates"),
    ],
    ids=str,
)
def test_types_of_format_3_that_tensorstore_does_not_have(data_type, problem):
    fill = {"a": 0, "b": "AAA="} if data_type["name"] == "struct" else 0
    found = message(of_format_3(data_type=data_type, fill_value=fill))
    assert found == (f"TensorStore cannot read {problem}", READ, True)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"data_type": "uint8", "codecs": [{"name": "bytes"}]},
        {"data_type": "uint8", "codecs": shards({"name": "bytes"})},
        {"codecs": shards(LITTLE)},
        {"data_type": struct("int16", "float64"), "fill_value": {"a": 0, "b": 0.5}},
        {"codecs": [LITTLE, {"name": "zstd", "configuration": {"level": 3}}, {"name": "crc32c"}]},
        {"attributes": {"dimension_units": ["m"]}},
        {"dimension_names": [None]},
        {"more": {"must_understand": False}},
    ],
    ids=str,
)
def test_arrays_of_format_3_that_open(changes):
    assert message(of_format_3(**changes)) is None
