"""Reserved names never reach a user, and a user's attribute of such a name is not lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.formats.reserved import (
    DOC,
    FORMAT_VERSION,
    NOTES,
    RESERVED,
    escape,
    notes_of,
    root_notes,
    visible,
)

NAMES = st.sampled_from(sorted(RESERVED)) | st.sampled_from(["user_zarr_dtype", "user_hdmf", "user_hdmf_", "x", DOC])


@given(st.sets(NAMES))
def test_every_name_is_stored_under_a_name_of_its_own(names):
    notes: dict[str, object] = {}
    stored = escape(dict.fromkeys(names, 0), notes)
    assert set(stored) == names
    assert len(set(stored.values())) == len(names)
    assert not set(stored.values()) & RESERVED
    document = dict.fromkeys(stored.values(), 0) | ({NOTES: notes} if notes else {})
    assert visible(document) == {name: user for user, name in stored.items()}


def test_nothing_is_put_down_where_nothing_is_renamed():
    notes: dict[str, object] = {}
    assert escape({"unit": 1}, notes) == {"unit": "unit"}
    assert notes == {}


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_a_reserved_name_is_hidden(name):
    assert visible({name: 1, "x": 2}) == {"x": "x"}


def test_the_documentation_of_the_schema_is_hidden_only_where_the_note_says_that_it_is_one():
    assert visible({"doc": "words"}) == {"doc": "doc"}
    assert visible({"doc": "words", NOTES: {DOC: True}}) == {}


@pytest.mark.parametrize("note", [None, "text", 5, [], {"escaped": ["a"]}, {"escaped": {"other": "b"}}])
def test_a_note_of_another_kind_hides_and_renames_nothing(note):
    assert visible({"a": 1, NOTES: note}) == {"a": "a"}


def test_notes_are_an_object_or_nothing():
    assert notes_of({}) == {}
    assert notes_of({NOTES: [1]}) == {}
    assert notes_of({NOTES: {"a": 1}}) == {"a": 1}
    assert root_notes() == {"version": FORMAT_VERSION, "chunks": "all"}
