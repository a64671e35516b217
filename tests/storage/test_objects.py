"""The elements of a chunk of references and rows, told apart without parsing the chunk."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.objects import JSONRows, split_elements
from hdmf_zarr_backend.formats.new_datasets import JSON2

WORDS = st.text(st.sampled_from('a{}[],:"\\é '), max_size=8)
REFERENCES = st.dictionaries(st.sampled_from(["source", "path"]), WORDS, min_size=1)
ROWS = st.tuples(st.integers(-9, 9), WORDS, REFERENCES).map(list)


def encoded(elements, nulls=0):
    """Return the chunk of ``elements`` and what fills it up."""
    array = np.empty(len(elements) + nulls, object)
    for position, element in enumerate(elements):
        array[position] = element
    return JSONRows(JSON2, np.dtype(object)).encode(array)


@given(st.one_of(st.lists(REFERENCES, min_size=1), st.lists(ROWS, min_size=1)), st.integers(0, 3))
def test_each_element_is_the_one_that_the_parser_finds_or_none(elements, nulls):
    text = encoded(elements, nulls)
    assert json.loads(text)[:-2] == elements + [None] * nulls
    split = split_elements(text)
    if split is None or len(split) != len(elements):  # a text holds what looks like a border
        return
    for position, element in enumerate(elements):
        try:
            found = split[position]
        except ValueError:  # likewise: the reader parses the whole chunk then
            continue
        assert found == element


def test_references_without_borders_in_their_texts_are_all_found():
    elements = [{"source": ".", "path": f"/a/{number}"} for number in range(1000)]
    split = split_elements(encoded(elements, nulls=2))
    assert split is not None
    assert split.shape == (1002,)
    assert [split[position] for position in range(len(split))] == elements
    assert [json.loads(split.with_ends(part)) for part in split.parts()] == elements
    with pytest.raises(ValueError, match="1000"):
        split[1000]


@pytest.mark.parametrize("text", [b"", b"[]", b"[1,2]", b'[{"a":1},"|O",[2]]', b'[{"a":1},null,1,"|O",[3]]', b'[{"a":'])
def test_what_cannot_be_told_apart_is_left_to_the_parser(text):
    assert split_elements(text) is None
