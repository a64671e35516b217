"""References and rows as format 3 stores them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.objects import ReferenceTexts, StructRows, cell_width, reference_text, text_reference
from hdmf_zarr_backend.formats.dtypes import numpy_dtype

HERE = {"source": ".", "path": "/a/b", "object_id": None, "source_object_id": None}
REGION = {**HERE, "region": [{"slice": [0, 2, None]}]}
ELSEWHERE = {"source": "../b.zarr", "path": "/a", "object_id": "x", "source_object_id": "y"}


def objects(*cells: Any) -> Any:
    array = np.empty(len(cells), object)
    array[:] = cells
    return array


@pytest.mark.parametrize("reference", [HERE, REGION, ELSEWHERE, None])
def test_a_reference_both_ways(reference):
    assert text_reference(reference_text(reference)) == reference


def test_a_reference_to_this_file_is_its_path():
    assert reference_text({**HERE, "object_id": "left out"}) == "/a/b"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", "/a/b"),
        ('{"source": ".", "path": "/a"}', "/a"),
        ('{"_REFERENCE": {"source": ".", "path": "/a"}}', "/a"),
        ('{"_REFERENCE": "/a"}', "/a"),
        ('{"zarr_dtype": "object", "value": {"path": "/a"}}', "/a"),
        ("{no JSON", "/{no JSON"),
        ("{}", "/{}"),
    ],
)
def test_what_others_write(text, path):
    found = text_reference(text)
    assert found is not None
    assert (found["path"], found["source"]) == (path, ".")


def test_an_array_of_references():
    codec = ReferenceTexts()
    array = objects(HERE, None, ELSEWHERE, HERE)
    data = codec.encode(array)
    found = codec.decode(data)
    assert found.tolist() == array.tolist()
    assert found[0] is found[3]
    elements = codec.split(data)
    assert [elements[n] for n in range(len(elements))] == array.tolist()
    for outside in (4, -1):
        with pytest.raises(ValueError, match=str(outside)):
            elements[outside]


def test_what_is_no_reference():
    with pytest.raises(TypeError, match="is not a reference"):
        ReferenceTexts().encode(objects(5))


def rows_codec(*fields: list[Any]) -> StructRows:
    return StructRows(list(fields), numpy_dtype)


CELLS = st.text(max_size=6) | st.none() | st.integers() | st.lists(st.text(max_size=2), max_size=2) | st.just("a\0")


@given(
    st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1),
            st.booleans(),
            CELLS,
            st.sampled_from([None, HERE, REGION, ELSEWHERE]),
            st.floats(allow_nan=False),
        ),
        max_size=5,
    )
)
def test_rows_both_ways(rows):
    """Cells that are not text, and texts that NumPy would cut, included."""
    codec = rows_codec(["i", "<i4", "number"], ["b", "|b1", "number"], ["t", "<U99", "text"],
                       ["r", "<U199", "reference"], ["f", ">f8", "number"])  # fmt: skip
    array = np.empty((len(rows), 5), object)
    for position, row in enumerate(rows):
        array[position] = row
    data = codec.encode(array)
    found = codec.decode(data)
    assert found.shape == array.shape
    assert found.tolist() == array.tolist()
    elements = codec.split(data)
    assert [elements[n] for n in range(len(elements))] == array.tolist()


def test_complex_numbers_are_pairs():
    codec = rows_codec(["z", "<c8", "number"], ["t", "<U5", "text"])
    array = np.empty((2, 2), object)
    array[0], array[1, 1] = [None, "a"], "b"
    array[0, 0], array[1, 0] = [1.0, -2.0], [0.5, 0.0]
    assert codec.decode(codec.encode(array)).tolist() == array.tolist()


def test_bytes_as_text():
    codec = rows_codec(["t", "|S5", "text"], ["r", "|S9", "reference"])
    array = np.empty((1, 2), object)
    array[0] = ["äb", HERE]
    assert codec.decode(codec.encode(array)).tolist() == array.tolist()


@pytest.mark.parametrize(("cell", "problem"), [("abcdef", "6 characters"), ("äöüäöü", "holds 5")])
def test_a_text_that_is_too_long(cell, problem):
    array = np.empty((1, 1), object)
    array[0, 0] = cell
    with pytest.raises(ValueError, match=problem):
        rows_codec(["t", "<U5", "text"]).encode(array)


@pytest.mark.parametrize("value", [300, 1.5, -1])
def test_a_number_that_does_not_fit(value):
    array = np.empty((1, 1), object)
    array[0, 0] = value
    with pytest.raises((ValueError, OverflowError)):
        rows_codec(["n", "|u1", "number"]).encode(array)


def test_a_chunk_that_is_not_there():
    codec = rows_codec(["n", "<i2", "number"], ["t", "<U5", "text"], ["r", "<U5", "reference"])
    assert codec.empty(2).tolist() == [[0, "", None], [0, "", None]]


@pytest.mark.parametrize("field", [["a", "|O", "text"], ["a", "<i4", "text"], ["a", "<i4", "colour"]])
def test_fields_that_make_no_sense(field):
    with pytest.raises(ValueError, match="is not a field of a record"):
        rows_codec(field)


def test_widths():
    assert cell_width(["a", "abc", 12345], "text") == len("\0" + "12345")
    assert cell_width([], "text") == 0
    assert cell_width([HERE, None], "reference") == 4
