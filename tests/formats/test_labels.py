"""Labels of types without NumPy agree with NumPy and with what the planner writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.formats.elements import codec_labels, describe, describe_any, type_label
from hdmf_zarr_backend.model.nodes import ArrayNode

TYPES = ["?", "i1", "<i2", ">i4", "<i8", "u1", ">u2", "<u4", "<u8", "<f2", "<f4", ">f8", "<c8", "<c16", "S7", "<U3",
         "V5", "<M8[ns]", "<m8[25us]"]  # fmt: skip


def node(data_type: Any, **more: Any) -> ArrayNode[dict[str, Any]]:
    attributes = more.pop("attributes", {})
    return ArrayNode(shape=(2,), chunks=(2,), data_type=data_type, attributes=attributes, **more)


@pytest.mark.parametrize("name", TYPES)
def test_sizes_are_those_of_numpy(name: str) -> None:
    dtype = np.dtype(name)
    assert describe(node(zarr_type(dtype))).itemsize == dtype.itemsize
    nested = np.dtype([("a", dtype), ("b", [("c", dtype, (3, 2)), ("d", "u1")])])
    assert describe(node(zarr_type(nested))).itemsize == nested.itemsize


@pytest.mark.parametrize("name", [t for t in TYPES if np.dtype(t).kind in "?iufcMm"])
def test_names_of_numbers_are_those_of_numpy(name: str) -> None:
    word = type_label(node(zarr_type(np.dtype(name))))
    assert word.removesuffix(" big-endian") == np.dtype(name).name
    assert word.endswith(" big-endian") == name.startswith(">")


@pytest.mark.parametrize(
    ("data_type", "more", "word"),
    [
        ("|S7", {}, "ascii[7]"),
        ("<U3", {}, "text[3]"),
        ("|V5", {}, "opaque[5]"),
        ("|O", {"filters": [{"id": "vlen-utf8"}]}, "text"),
        ("|O", {"filters": [{"id": "vlen-bytes"}]}, "ascii"),
        ("|O", {"attributes": {"zarr_dtype": "str", "_hdmf": {"text": "isodatetime"}}}, "isodatetime"),
        ("|O", {"attributes": {"zarr_dtype": "object"}, "filters": [{"id": "json2"}]}, "reference"),
        ("|O", {"attributes": {"zarr_dtype": "region"}}, "region"),
        ([["x", "<i4"], ["y", "<f8", [2]]], {}, "{x: int32, y: float64[2]}"),
        ([["x", "<i4"], ["y", "<f8", 2]], {}, "{x: int32, y: float64[2]}"),
        (
            [["idx_start", "<i4"], ["timeseries", "|O"]],
            {
                "attributes": {
                    "zarr_dtype": [{"name": "idx_start", "dtype": "int32"}, {"name": "timeseries", "dtype": "object"}]
                }
            },
            "{idx_start: int32, timeseries: reference}",
        ),
        (
            "|O",
            {"attributes": {"zarr_dtype": [{"name": "a", "dtype": "str_"}, {"name": "a", "dtype": "str_"}]}},
            "{a: text}",
        ),
        ("|O", {"attributes": {"zarr_dtype": [{"name": "a", "dtype": {"reftype": "region"}}]}}, "{a: region}"),
        # what no writer writes must not fail
        ("nonsense", {}, "nonsense"),
        (17, {}, "17"),
        ([["x"]], {}, "[['x']]"),
        ("|O", {"attributes": {"zarr_dtype": ["x", 3, {}]}}, "{}"),
    ],
    ids=str,
)
def test_words(data_type: Any, more: dict[str, Any], word: str) -> None:
    assert type_label(node(data_type, **more)) == word


@pytest.mark.parametrize("data_type", ["|O", [["x", "<i4"], ["y", "|O"]], "nonsense", None])
def test_what_has_no_fixed_size_has_none(data_type: Any) -> None:
    assert describe_any(node(data_type)).itemsize is None


@pytest.mark.parametrize(
    ("filters", "compressor", "words"),
    [
        (None, None, []),
        (None, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}, ["blosc lz4 5 shuffle"]),
        ([{"id": "vlen-utf8"}], {"id": "zstd", "level": 3}, ["vlen-utf8", "zstd 3"]),
        ([{"id": "shuffle", "elementsize": 4}], {"id": "zlib", "level": 4}, ["shuffle", "zlib 4"]),
        (None, {"id": "blosc", "shuffle": [1]}, ["blosc"]),
    ],
)
def test_codecs(filters: Any, compressor: Any, words: list[str]) -> None:
    assert codec_labels(node("<i4", filters=filters, compressor=compressor)) == words
