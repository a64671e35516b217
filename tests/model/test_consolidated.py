"""The consolidated document, both ways."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats import consolidated, zarr2
from tests.strategies import HIERARCHIES, JSON


@given(HIERARCHIES)
def test_the_hierarchy_comes_back(hierarchy):
    document = consolidated.consolidate(hierarchy)
    assert consolidated.parse(json.loads(json.dumps(document))) == hierarchy
    assert document["zarr_consolidated_format"] == 1
    assert document["metadata"] == zarr2.to_documents(hierarchy)


@given(HIERARCHIES)
def test_the_document_comes_back(hierarchy):
    document = consolidated.consolidate(hierarchy)
    assert consolidated.consolidate(consolidated.parse(document)) == document
    assert consolidated.wrap(consolidated.unwrap(document)) == document


def test_top_level_keys_of_others_are_ignored():
    document = {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}, "other": [1]}
    assert consolidated.parse(document) == zarr2.from_documents(document["metadata"])
    assert consolidated.inlined_chunks(document) == {}


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {},
        {"metadata": {}},
        {"zarr_consolidated_format": 2, "metadata": {}},
        {"zarr_consolidated_format": 1},
        {"zarr_consolidated_format": 1, "metadata": [{}]},
    ],
)
def test_an_invalid_consolidated_document_is_refused(document):
    with pytest.raises(MetadataError, match="not a consolidated document") as caught:
        consolidated.parse(document)
    assert "mode='r-'" in caught.value.remedy


@given(st.dictionaries(st.text(max_size=5), st.binary(max_size=9), max_size=5))
def test_inlined_chunks_come_back(chunks):
    hierarchy = zarr2.from_documents({".zgroup": {"zarr_format": 2}})
    document = json.loads(json.dumps(consolidated.consolidate(hierarchy, chunks)))
    assert consolidated.inlined_chunks(document) == chunks
    assert consolidated.parse(document) == hierarchy


def test_inlined_bytes_are_bounded_and_small_chunks_come_first(monkeypatch):
    monkeypatch.setattr(consolidated, "INLINE_BYTES", 10)
    hierarchy = zarr2.from_documents({".zgroup": {"zarr_format": 2}})
    document = consolidated.consolidate(hierarchy, {"a": bytes(8), "b": bytes(4), "c": bytes(5), "d": b""})
    assert set(consolidated.inlined_chunks(document)) == {"b", "c", "d"}


@given(JSON)
def test_a_damaged_block_is_nothing_or_our_error(block):
    document = {"zarr_consolidated_format": 1, "metadata": {}, "hdmf_inline": {"version": 1, "chunks": {"a": block}}}
    try:
        chunks = consolidated.inlined_chunks(document)
    except MetadataError as error:
        assert "use_inlined=False" in error.remedy
    else:
        assert set(chunks) == {"a"}
    document["hdmf_inline"] = block
    assert consolidated.inlined_chunks(document) == {}
