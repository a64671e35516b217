"""The consolidated document, both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats import inlined, zarr2
from hdmf_zarr_backend.model.nodes import Hierarchy
from tests.strategies import HIERARCHIES, JSON


def consolidated(hierarchy: Hierarchy, chunks: Mapping[str, bytes] | None = None) -> Any:
    return zarr2.last(hierarchy, chunks or {}, consolidate=True)[zarr2.CONSOLIDATED]


@given(HIERARCHIES)
def test_the_hierarchy_comes_back(hierarchy):
    document = consolidated(hierarchy)
    assert zarr2.parse_consolidated(json.loads(json.dumps(document))) == hierarchy
    assert document["zarr_consolidated_format"] == 1
    assert document["metadata"] == zarr2.encode_documents(hierarchy)


@given(HIERARCHIES)
def test_the_document_comes_back(hierarchy):
    document = consolidated(hierarchy)
    assert consolidated(zarr2.parse_consolidated(document)) == document
    assert zarr2.wrap(zarr2.unwrap(document)) == document


def test_top_level_keys_of_others_are_ignored():
    document = {"zarr_consolidated_format": 1, "metadata": {".zgroup": {"zarr_format": 2}}, "other": [1]}
    assert zarr2.parse_consolidated(document) == zarr2.parse_documents(document["metadata"])
    assert inlined.inlined_chunks(document) == {}


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
        zarr2.parse_consolidated(document)
    assert "mode='r-'" in caught.value.remedy


@given(st.dictionaries(st.text(max_size=5), st.binary(max_size=9), max_size=5))
def test_inlined_chunks_come_back(chunks):
    hierarchy = zarr2.parse_documents({".zgroup": {"zarr_format": 2}})
    document = json.loads(json.dumps(consolidated(hierarchy, chunks)))
    assert inlined.inlined_chunks(document) == chunks
    assert zarr2.parse_consolidated(document) == hierarchy


def test_inlined_bytes_are_bounded_and_small_chunks_come_first(monkeypatch):
    monkeypatch.setattr(inlined, "INLINE_BYTES", 10)
    hierarchy = zarr2.parse_documents({".zgroup": {"zarr_format": 2}})
    document = consolidated(hierarchy, {"a": bytes(8), "b": bytes(4), "c": bytes(5), "d": b""})
    assert set(inlined.inlined_chunks(document)) == {"b", "c", "d"}


@given(JSON)
def test_a_damaged_block_is_nothing_or_our_error(block):
    document = {"zarr_consolidated_format": 1, "metadata": {}, "hdmf_inline": {"version": 1, "chunks": {"a": block}}}
    try:
        chunks = inlined.inlined_chunks(document)
    except MetadataError as error:
        assert "mode='r-'" in error.remedy
    else:
        assert set(chunks) == {"a"}
    document["hdmf_inline"] = block
    assert inlined.inlined_chunks(document) == {}
