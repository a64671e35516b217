"""Labels come back, and the stored names are those that xarray and netCDF can use."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.dimensions import decode_dimensions, encode_dimensions, stored_names
from hdmf_zarr_backend.formats.reserved import DIMENSIONS, NOTES
from tests.strategies import JSON

LABELS = st.none() | st.sampled_from(["num_times", "x", "x_2", "x,y", "_anonymous2", "", "dim0"])
SHAPES = st.lists(st.integers(0, 3), max_size=3).map(tuple)
ARRAYS = st.tuples(SHAPES, st.none() | st.lists(LABELS, max_size=4).map(tuple))


@given(st.lists(ARRAYS, max_size=5))
def test_in_a_group_a_name_has_one_length_and_labels_come_back(arrays):
    taken: dict[str, int] = {}
    lengths: dict[str, int] = {}
    for shape, labels in arrays:
        notes: dict[str, Any] = {}
        names = encode_dimensions(labels, shape, taken, notes)
        assert len(names) == len(shape)
        assert len(set(names)) == len(names)
        for name, length in zip(names, shape, strict=True):
            assert name
            assert lengths.setdefault(name, length) == length
        document = json.loads(json.dumps({DIMENSIONS: names, NOTES: notes}))
        assert decode_dimensions(document) == labels


@given(st.lists(LABELS, max_size=4), SHAPES)
def test_what_was_stored_is_stored_the_same_again(labels, shape):
    first = stored_names(labels, shape, {})
    assert stored_names(first, shape, {}) == first


@pytest.mark.parametrize(
    ("labels", "shape", "taken", "names"),
    [
        (("num_times",), (5,), {}, ["num_times"]),
        (("num_times",), (5,), {"num_times": 5}, ["num_times"]),
        (("num_times",), (5,), {"num_times": 4}, ["num_times_5"]),
        (("x", "x"), (2, 2), {}, ["x", "x_2"]),
        (("x", None), (2, 3), {}, ["x", "_anonymous3"]),
        ((None, None), (3, 3), {}, ["_anonymous3", "_anonymous3_3"]),
        (("a", "b", "c"), (2,), {}, ["a"]),
        (("a",), (2, 3), {}, ["a", "_anonymous3"]),
        (None, (), {}, []),
    ],
)
def test_the_names_that_are_stored(labels, shape, taken, names):
    assert stored_names(labels, shape, dict(taken)) == names


def test_a_note_is_written_only_where_the_names_do_not_say_it():
    notes: dict[str, Any] = {}
    encode_dimensions(("num_times", "num_channels"), (4, 2), {}, notes)
    encode_dimensions(None, (4, 2), {}, notes)
    assert notes == {}
    encode_dimensions(("x", None), (4, 2), {}, notes)
    assert notes == {"dims": ["x", None]}


def test_names_of_others_are_labels():
    assert decode_dimensions({DIMENSIONS: ["time", "x"]}) == ("time", "x")
    assert decode_dimensions({DIMENSIONS: ["time", None]}) == ("time", None)
    assert decode_dimensions({DIMENSIONS: ["_anonymous4"]}) is None
    assert decode_dimensions({DIMENSIONS: []}) is None
    assert decode_dimensions({DIMENSIONS: "time"}) is None
    assert decode_dimensions({}) is None


@given(JSON)
def test_any_note_gives_labels_or_our_error(note):
    try:
        labels = decode_dimensions({DIMENSIONS: ["time"], NOTES: {"dims": note}})
    except MetadataError as error:
        assert error.remedy
    else:
        assert labels is None or all(label is None or isinstance(label, str) for label in labels)
