"""Documents of Zarr format 3 <-> nodes in their words."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats import zarr3
from hdmf_zarr_backend.model.nodes import ArrayNode, GroupNode

BYTES: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]


def array(**changes: Any) -> dict[str, Any]:
    """Return the document of an array as zarr-python writes it, with changes; None takes a key away."""
    document = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [5, 3],
        "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2, 3]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": copy.deepcopy(BYTES),
        "attributes": {"unit": "m"},
        "storage_transformers": [],
        **changes,
    }
    return {key: value for key, value in document.items() if value is not None}


def group(**changes: Any) -> dict[str, Any]:
    document = {"zarr_format": 3, "node_type": "group", "attributes": {}, **changes}
    return {key: value for key, value in document.items() if value is not None}


DOCUMENTS = {
    "as zarr-python writes it": array(),
    "no attributes": array(attributes=None),
    "empty attributes": array(attributes={}),
    "no storage transformers": array(storage_transformers=None),
    "short chunk key encoding": array(chunk_key_encoding={"name": "default"}),
    "chunk key encoding as a name": array(chunk_key_encoding="v2"),
    "chunk keys of format 2": array(chunk_key_encoding={"name": "v2", "configuration": {"separator": "."}}),
    "no fill value": array(fill_value=None),
    "names of dimensions": array(dimension_names=["time", None]),
    "an unknown key": array(other={"must_understand": False}),
    "an extra key in the grid": array(
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2, 3]}, "must_understand": True}
    ),
    "codecs as names": array(codecs=["bytes"]),
    "a scalar": array(shape=[], chunk_grid={"name": "regular", "configuration": {"chunk_shape": []}}),
}


@pytest.mark.parametrize("document", DOCUMENTS.values(), ids=DOCUMENTS)
def test_an_array_is_written_as_it_was_read(document):
    documents = {"zarr.json": group(), "a/zarr.json": document}
    assert zarr3.to_documents(zarr3.from_documents(copy.deepcopy(documents))) == documents


def test_a_null_fill_value_stays_null():
    document = {**array(), "fill_value": None}
    assert zarr3.array_document(zarr3.parse_node(copy.deepcopy(document), "a")) == document


def test_a_consolidated_document_is_written_as_it_was_read():
    block = {"kind": "inline", "must_understand": False, "metadata": {}}
    metadata = {
        "acquisition": group(consolidated_metadata=block),
        "acquisition/ts": group(attributes={"a": [1, {"b": None}]}),
        "acquisition/ts/data": array(),
    }
    document = group(
        attributes={".specloc": "specifications"},
        consolidated_metadata={"kind": "inline", "must_understand": False, "other": 1, "metadata": metadata},
    )
    found = zarr3.parse_consolidated(json.loads(json.dumps(document)))
    assert found is not None
    assert zarr3.consolidated(*found) == document
    assert [path for path, _ in found[0].walk()] == ["", *sorted(metadata)]


@pytest.mark.parametrize("document", [group(), group(consolidated_metadata=None), {}, [], {"consolidated_metadata": 5}])
def test_a_document_without_a_consolidated_block(document):
    assert zarr3.parse_consolidated(document) is None


@pytest.mark.parametrize(
    ("encoding", "index", "name"),
    [
        ({"name": "default"}, (1, 2), "c/1/2"),
        ({"name": "default"}, (), "c"),
        ({"name": "default", "configuration": {"separator": "."}}, (1, 2), "c.1.2"),
        ({"name": "v2"}, (1, 2), "1.2"),
        ({"name": "v2", "configuration": {"separator": "/"}}, (1, 2), "1/2"),
        ("v2", (), "0"),
    ],
)
def test_keys_of_chunks(encoding, index, name):
    node = zarr3.parse_node(array(chunk_key_encoding=encoding), "a")
    assert isinstance(node, ArrayNode)
    assert node.chunk_name(index) == name


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({**array(), "zarr_format": 2}, "no document of Zarr format 3"),
        (array(node_type="table"), "no document of Zarr format 3"),
        ([], "no document of Zarr format 3"),
        (array(codecs=None), "lacks codecs"),
        (array(shape=[-1, 3]), "shape"),
        (array(shape=[5]), "differ in length"),
        (array(chunk_grid={"name": "regular", "configuration": {"chunk_shape": [0, 3]}}), "chunk_shape"),
        (array(chunk_grid={"name": "rectangular"}), "not regular"),
        (array(chunk_key_encoding={"name": "sha"}), "chunk key encoding"),
        (array(chunk_key_encoding={"name": "default", "configuration": {"separator": "-"}}), "chunk key encoding"),
        (array(codecs=[1]), "no list of codecs"),
        (array(attributes=[]), "attributes"),
    ],
)
def test_what_is_wrong_is_named(document, problem):
    with pytest.raises(MetadataError, match=problem) as caught:
        zarr3.parse_node(document, "group/a")
    assert caught.value.path == "/group/a"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.text("abc", min_size=1, max_size=2)
OTHER_KEYS = st.dictionaries(st.sampled_from(["x", "y", "must_understand"]), JSON, max_size=2)


@given(
    members=st.dictionaries(NAMES, st.tuples(st.sampled_from(["group", "array"]), JSON, OTHER_KEYS), max_size=5),
)
def test_every_hierarchy_is_written_as_it_was_read(members):
    documents = {"zarr.json": group()}
    for name, (kind, value, other) in members.items():
        make = group if kind == "group" else array
        documents[f"{name}/zarr.json"] = {**make(attributes={"value": value}), **other}
    assert zarr3.to_documents(zarr3.from_documents(copy.deepcopy(documents))) == documents
    root = zarr3.from_documents(documents).root
    assert isinstance(root, GroupNode)
    assert root.members.keys() == members.keys()
