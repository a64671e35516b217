"""Metadata of LINDI -> ours."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.objects import JSONRows
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.lindi import external_of, may_hold_references, translate
from hdmf_zarr_backend.formats.registry import parse_documents
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy
from tests.strategies import JSON

GROUP = {"zarr_format": 2}
JSON2 = {"id": "json2"}


def array(shape: tuple[int, ...] = (1,), dtype: str = "|O", **changes: Any) -> dict[str, Any]:
    return {
        "zarr_format": 2, "shape": list(shape), "chunks": list(shape), "dtype": dtype, "fill_value": 0, "order": "C",
        "filters": [JSON2] if dtype == "|O" else None, "compressor": None, **changes,
    }  # fmt: skip


def translated(documents: dict[str, Any]) -> Hierarchy:
    hierarchy = parse_documents({".zgroup": GROUP, **documents})
    assert translate(hierarchy)
    return hierarchy


def node(documents: dict[str, Any], path: str = "a") -> Dataset[Any]:
    found = translated(documents).get(path)
    assert isinstance(found, Dataset)
    return found


def test_scalars():
    found = node({"a/.zarray": array(dtype="<U5"), "a/.zattrs": {"_SCALAR": True, "unit": "V"}})
    assert found.attributes == {"unit": "V", "zarr_dtype": "scalar"}
    found = node({"a/.zarray": array((2,), "<f8"), "a/.zattrs": {"_SCALAR": True}})
    assert "zarr_dtype" not in found.attributes  # it has two elements


def test_soft_links():
    hierarchy = translated(
        {
            "g/.zgroup": GROUP,
            "g/absolute/.zgroup": GROUP,
            "g/absolute/.zattrs": {"_SOFT_LINK": {"path": "/x/y"}},
            "g/relative/.zgroup": GROUP,
            "g/relative/.zattrs": {"_SOFT_LINK": {"path": "h/i"}},
            "g/h/.zgroup": GROUP,
        }
    )
    group: Any = hierarchy.get("g")
    assert set(group.members) == {"h"}
    assert group.attributes["zarr_link"] == [
        {"name": "absolute", "source": ".", "path": "/x/y"},
        {"name": "relative", "source": ".", "path": "/g/h/i"},
    ]


def test_numbers_that_json_does_not_have():
    """LINDI spells them as text, and refuses text with such a spelling."""
    attributes = translated({".zattrs": {"a": "NaN", "b": [1.0, "-Infinity"], "c": "nan"}, "s/.zgroup": GROUP,
                             "s/.zattrs": {"_SOFT_LINK": {"path": "/"}}}).root.attributes  # fmt: skip
    assert math.isnan(attributes["a"])
    assert (attributes["b"], attributes["c"]) == ([1.0, -math.inf], "nan")


def test_rows():
    fields = [["start", "int32"], ["name", "object"], ["code", "|S5"], ["to", "<REFERENCE>"]]
    found = node({"a/.zarray": array((3,)), "a/.zattrs": {"_COMPOUND_DTYPE": fields}})
    words = [("start", "int32"), ("name", "str"), ("code", "ascii"), ("to", "object")]
    assert found.attributes["zarr_dtype"] == [{"name": name, "dtype": word} for name, word in words]
    assert (found.stored.shape, found.stored.chunks, found.stored.chunk_name((0, 0))) == ((3, 4), (3, 4), "0")
    assert not may_hold_references(found)


def test_rows_that_are_a_structured_type_stay_what_they_are():
    document = array((3,), [["x", "<i4"]], filters=None)  # type: ignore[arg-type]
    found = node({"a/.zarray": document, "a/.zattrs": {"_COMPOUND_DTYPE": [["x", "int32"]]}})
    assert found.stored.shape == (3,)
    assert found.attributes == {"zarr_dtype": [{"name": "x", "dtype": "int32"}]}


def test_what_may_hold_references():
    documents = {
        "s/.zarray": array(), "s/.zattrs": {"_SCALAR": True}, "n/.zarray": array((5,), "<i4"), "o/.zarray": array((5,)),
        "empty/.zarray": array((0,), chunks=[1]),
        "v/.zarray": array((5,), filters=[{"id": "vlen-utf8"}]),
    }  # fmt: skip
    hierarchy = translated(documents)
    assert [path for path, found in hierarchy.walk() if may_hold_references(found)] == ["o"]


def test_values_that_are_elsewhere():
    link = {"link_type": "hdf5_dataset", "url": "https://x/y.nwb", "name": "acquisition/data"}
    found = node({"a/.zarray": array((5,), "<i2"), "a/.zattrs": {"_EXTERNAL_ARRAY_LINK": link, "unit": "V"}})
    assert external_of(found.stored) == ("https://x/y.nwb", "acquisition/data")
    assert found.attributes == {"unit": "V"}
    for odd in ({}, 5, None):
        found = node({"a/.zarray": array((5,), "<i2"), "a/.zattrs": {"_EXTERNAL_ARRAY_LINK": odd}})
        assert external_of(found.stored) is not None


@pytest.mark.parametrize(
    "attributes",
    [
        {"zarr_dtype": "scalar", "_SCALAR": True},
        {"zarr_dtype": "str"},
        {},
    ],
    ids=str,
)
def test_other_files_are_left_alone(attributes):
    """One of hdmf-zarr may have an attribute of such a name."""
    hierarchy = parse_documents({".zgroup": GROUP, "a/.zarray": array(), "a/.zattrs": dict(attributes)})
    assert not translate(hierarchy)
    assert hierarchy.get("a").attributes == attributes  # type: ignore[union-attr]


def test_files_of_this_package_are_left_alone():
    attributes = {"_SOFT_LINK": {"path": "/x"}}
    documents = {
        ".zgroup": GROUP,
        ".zattrs": {"_hdmf": {"version": "1.0"}},
        "g/.zgroup": GROUP,
        "g/.zattrs": attributes,
    }
    assert not translate(parse_documents(documents))
    assert not translate(
        parse_documents({"zarr.json": {"zarr_format": 3, "node_type": "group", "attributes": attributes}})
    )


@pytest.mark.parametrize(
    ("documents", "path"),
    [
        ({"g/.zgroup": GROUP, "g/l/.zgroup": GROUP, "g/l/.zattrs": {"_SOFT_LINK": {}}}, "/g"),
        ({"l/.zgroup": GROUP, "l/.zattrs": {"_SOFT_LINK": "/x"}}, "/"),
        ({"a/.zarray": array(), "a/.zattrs": {"_COMPOUND_DTYPE": []}}, "/a"),
        ({"a/.zarray": array(), "a/.zattrs": {"_COMPOUND_DTYPE": {"x": "int32"}}}, "/a"),
        ({"a/.zarray": array(), "a/.zattrs": {"_COMPOUND_DTYPE": [["x"]]}}, "/a"),
        ({"a/.zarray": array(), "a/.zattrs": {"_COMPOUND_DTYPE": [["x", 5]]}}, "/a"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_our_error(documents, path):
    with pytest.raises(MetadataError, match="LINDI") as caught:
        translated(documents)
    assert caught.value.path == path


@given(
    st.dictionaries(st.sampled_from(["_SCALAR", "_SOFT_LINK", "_COMPOUND_DTYPE", "_EXTERNAL_ARRAY_LINK", "x"]), JSON)
)
def test_any_json_is_translated_or_our_error(attributes):
    documents = {
        ".zgroup": GROUP,
        "g/.zgroup": GROUP,
        "g/.zattrs": attributes,
        "a/.zarray": array(),
        "a/.zattrs": attributes,
    }
    hierarchy = parse_documents(json.loads(json.dumps(documents)))
    try:
        translate(hierarchy)
    except MetadataError as error:
        assert error.remedy


# ---- elements -------------------------------------------------------------------------------------------------------

SAID = {"source": ".", "path": "/x", "object_id": "1", "source_object_id": None}


def decoded(items: list[Any], shape: list[int], cells: Any) -> Any:
    codec = JSONRows({"id": "json2", "lindi": cells}, np.dtype(object))
    return codec.decode(json.dumps([*items, "|O", shape]).encode())


def test_elements_are_unwrapped():
    assert decoded([{"_REFERENCE": SAID}, None, "text", 5], [4], 0).tolist() == [SAID, None, "text", 5]
    assert decoded([["a", "b"], ["c", {"_REFERENCE": SAID}]], [2, 2], 0).tolist() == [["a", "b"], ["c", SAID]]
    assert decoded([{"_REFERENCE": "/x"}], [1], 0)[0] == {**SAID, "object_id": None}


def test_rows_have_an_axis_of_fields():
    found = decoded([[1, {"_REFERENCE": SAID}], [2, None], 0], [3], 2)
    assert found.tolist() == [[1, SAID], [2, None], [None, None]]


@pytest.mark.parametrize(("items", "cells"), [([[1, 2, 3]], 2), ([[]], 2), ([{"_REFERENCE": 5}], 0)], ids=str)
def test_elements_that_do_not_fit(items, cells):
    with pytest.raises((ValueError, TypeError)):
        decoded(items, [1], cells)


@pytest.mark.parametrize("cells", [-1, "2", True, [2]], ids=str)
def test_a_mark_that_is_not_a_number_of_fields(cells):
    with pytest.raises(ValueError, match="not a number of fields"):
        decoded([], [0], cells)


def test_without_the_mark_nothing_is_unwrapped():
    codec = JSONRows({"id": "json2"}, np.dtype(object))
    wrapped = {"_REFERENCE": SAID}
    assert codec.decode(json.dumps([wrapped, "|O", [1]]).encode())[0] == wrapped
