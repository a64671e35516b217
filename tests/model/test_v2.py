"""Nodes <-> documents of format 2: nothing is lost either way, and errors name the node."""

from __future__ import annotations

import copy
import json

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy
from tests.strategies import HIERARCHIES, JSON
from tests.zarrs import needs_zarr_3

ARRAY = {
    "chunks": [2],
    "compressor": None,
    "dtype": "<i4",
    "fill_value": 0,
    "filters": None,
    "order": "C",
    "shape": [4],
    "zarr_format": 2,
}


@given(HIERARCHIES)
def test_documents_give_the_hierarchy_back(hierarchy):
    documents = zarr2.encode_documents(hierarchy)
    assert zarr2.parse_documents(documents) == hierarchy
    through_text = {key: json.loads(json.dumps(document)) for key, document in documents.items()}
    assert zarr2.parse_documents(through_text) == hierarchy


@given(HIERARCHIES, st.randoms(use_true_random=False))
def test_the_hierarchy_gives_the_documents_back_in_any_order(hierarchy, random):
    documents = zarr2.encode_documents(hierarchy)
    keys = list(documents)
    random.shuffle(keys)
    assert zarr2.encode_documents(zarr2.parse_documents({key: documents[key] for key in keys})) == documents


@given(st.dictionaries(st.sampled_from(["x", "chunk_grid", "dimension_separator", "Order"]), JSON, max_size=3))
def test_keys_that_the_format_does_not_know_are_kept(unknown):
    unknown.pop("dimension_separator", None)
    document = {**ARRAY, **unknown}
    hierarchy = zarr2.parse_documents({".zgroup": {"zarr_format": 2}, "a/.zarray": document})
    assert hierarchy.get("a").extra == unknown
    assert zarr2.encode_documents(hierarchy)["a/.zarray"] == document


@pytest.mark.parametrize("separator", [{}, {"dimension_separator": "."}, {"dimension_separator": "/"}])
def test_a_separator_is_kept_as_it_was_said(separator):
    document = {**ARRAY, **separator}
    hierarchy = zarr2.parse_documents({".zarray": document})
    assert hierarchy.root.stored.chunk_keys.separator == separator.get("dimension_separator", ".")
    assert zarr2.encode_documents(hierarchy) == {".zarray": document}


@pytest.mark.parametrize(
    "more", [{}, {"dimension_separator": "/"}, {"x": 1}, {"dimension_separator": "/", "x": 1}], ids=str
)
def test_only_unknown_keys_are_extra(more):
    node = zarr2.parse_array({**ARRAY, **more}, {}, "a")
    assert node.extra == {key: value for key, value in more.items() if key == "x"}
    assert zarr2.encode_array(node.stored) == {**ARRAY, **more}


def test_empty_attribute_documents_stay():
    documents = {".zgroup": {"zarr_format": 2}, ".zattrs": {}, "a/.zarray": ARRAY, "a/.zattrs": {}, "b/.zarray": ARRAY}
    assert zarr2.encode_documents(zarr2.parse_documents(documents)) == documents


def test_what_a_group_document_must_not_have_is_read_and_not_written():
    hierarchy = zarr2.parse_documents({".zgroup": {"zarr_format": 2, "_nczarr_group": {"dims": {}}}})
    assert hierarchy.root.extra == {"_nczarr_group": {"dims": {}}}
    assert zarr2.encode_documents(hierarchy) == {".zgroup": {"zarr_format": 2}}


def test_a_group_that_is_only_implied_has_its_attributes():
    hierarchy = zarr2.parse_documents({"g/.zattrs": {"x": 1}, "g/a/.zarray": ARRAY, "lone/.zattrs": {"y": 2}})
    assert hierarchy.get("g").attributes == {"x": 1}
    assert hierarchy.get("lone") is None


@pytest.mark.parametrize("keys", [["a/.zgroup", "a/.zarray"], ["a/.zarray", "a/.zgroup"]])
def test_a_node_with_both_documents_is_an_array(keys):
    documents = {"a/.zgroup": {"zarr_format": 2}, "a/.zarray": ARRAY}
    assert isinstance(zarr2.parse_documents({key: documents[key] for key in keys}).get("a"), Dataset)


def test_other_keys_are_not_nodes():
    documents = {".zgroup": {"zarr_format": 2}, "a/0.0": 5, "x/.zmetadata": {}, "zarr.json": {}}
    assert zarr2.parse_documents(documents) == Hierarchy(Group())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        *(
            ({key: value}, f"{key} {value!r} is not a list of lengths")
            for key, value in (
                ("shape", None), ("shape", [-1]), ("shape", [True]), ("shape", [1.0]), ("shape", "4"),
                ("shape", {"0": 4}), ("chunks", [0]), ("chunks", None),
            )
        ),
        ({"chunks": [2, 2]}, "shape (4,) and chunks (2, 2) differ in length"),
        ({"order": "K"}, "dimension_separator '.' or order 'K' is unknown"),
        ({"order": None}, "dimension_separator '.' or order None is unknown"),
        ({"dimension_separator": "-"}, "dimension_separator '-' or order 'C' is unknown"),
        ({"dimension_separator": None}, "dimension_separator None or order 'C' is unknown"),
        *(({"compressor": codec}, f"compressor {codec!r} is not a codec") for codec in ("a", {"level": 1}, {"id": 5})),
        ({"filters": {"id": "delta"}}, "filters {'id': 'delta'} is not a list"),
        ({"filters": [None]}, "filters holds null"),
        ({"filters": [{"id": "delta"}, "zlib"]}, "filters 'zlib' is not a codec"),
        *(({"zarr_format": value}, ".zarray is not a document of Zarr format 2") for value in (3, "2", None)),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_node(change, problem):
    with pytest.raises(MetadataError) as caught:
        zarr2.parse_documents({".zgroup": {"zarr_format": 2}, "g/a/.zarray": {**ARRAY, **change}})
    assert str(caught.value) == f"{problem} (/g/a). Run `zarrio verify` on the file."


@pytest.mark.parametrize(
    ("documents", "problem"),
    [
        ({"g/.zgroup": {}}, ".zgroup is not a document of Zarr format 2 (/g)"),
        ({".zgroup": {"zarr_format": 2}, ".zattrs": []}, ".zattrs is not a JSON object (/)"),
        (
            {"a/.zarray": {"zarr_format": 2, "shape": [1]}},
            ".zarray lacks chunks, compressor, dtype, fill_value, filters, order (/a)",
        ),
    ],
    ids=["group", "attributes", "keys"],
)
def test_what_is_wrong_with_a_document_is_named(documents, problem):
    with pytest.raises(MetadataError) as caught:
        zarr2.parse_documents(documents)
    assert str(caught.value) == f"{problem}. Run `zarrio verify` on the file."


@pytest.mark.parametrize("key", sorted(ARRAY))
def test_a_missing_key_is_named(key):
    document = {name: value for name, value in ARRAY.items() if name != key}
    with pytest.raises(MetadataError, match="format 2" if key == "zarr_format" else f"lacks {key}"):
        zarr2.parse_documents({"a/.zarray": document})


@given(JSON, st.sampled_from([".zgroup", "a/.zarray", "a/.zattrs", ".zattrs"]))
def test_any_json_is_a_hierarchy_or_our_error(document, key):
    documents = {".zgroup": {"zarr_format": 2}, "a/.zarray": copy.deepcopy(ARRAY), key: document}
    try:
        hierarchy = zarr2.parse_documents(documents)
    except MetadataError as error:
        assert error.path in ("/", "/a")
    else:
        assert isinstance(hierarchy.get("a"), Dataset)


@needs_zarr_3
def test_documents_of_zarr_python_come_back_as_they_are():
    store = zarr.storage.MemoryStore()
    root = zarr.create_group(store, zarr_format=2, attributes={"x": 1})
    root.create_group("g").create_array("a", shape=(3, 4), chunks=(2, 2), dtype="f4", fill_value=np.nan, order="F")
    root.create_array("b", shape=(), dtype="i2", chunk_key_encoding={"name": "v2", "separator": "/"})
    documents = {key: json.loads(value.to_bytes()) for key, value in store._store_dict.items() if "/." in f"/{key}"}
    hierarchy = zarr2.parse_documents(documents)
    assert hierarchy.get("g/a").stored.order == "F"
    assert hierarchy.get("b").stored.chunk_keys.separator == "/"
    assert {"g/.zattrs", "b/.zattrs"} <= set(documents)  # empty ones
    assert zarr2.encode_documents(hierarchy) == documents
