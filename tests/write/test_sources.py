"""Sources of the values of a new array, block by block."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.formats.casting import Place, cast, to_bytes, to_text
from hdmf_zarr_backend.transfer.sources import (
    ElementSource,
    IndexedSource,
    RowSource,
    json_numbers,
)
from tests.strategies import NUMBERS, TEXT, raw_arrays, shapes


@st.composite
def blocks(draw: st.DrawFn, shape: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Return regions that cut ``shape`` into blocks."""
    chunks = [draw(st.integers(1, max(1, n))) for n in shape]
    grid = [range(0, n, c) for n, c in zip(shape, chunks, strict=True)]
    starts = itertools.product(*grid)
    return [tuple(slice(s, min(s + c, n)) for s, c, n in zip(start, chunks, shape, strict=True)) for start in starts]


def assembled(source: Any, shape: tuple[int, ...], regions: list[tuple[slice, ...]], dtype: Any) -> Any:
    whole = np.zeros(shape, dtype)
    for region in regions:
        whole[region] = source.read(region)
    return whole


@given(shapes(), st.data())
def test_elements_come_from_arrays_and_from_nested_lists(shape, data):
    array = np.empty(shape, object)
    array.reshape(-1)[:] = data.draw(st.lists(TEXT, min_size=array.size, max_size=array.size))
    regions = data.draw(blocks(shape))
    for given_data in (array, array.tolist(), tuple(array.tolist())):
        source = ElementSource(given_data, shape, to_text)
        assert assembled(source, shape, regions, object).tolist() == array.tolist()


def test_arrays_without_axes_have_one_element():
    assert ElementSource("a", (), to_text).read(()).tolist() == "a"
    assert ElementSource(np.array("a", object), (), to_text).read(()).tolist() == "a"
    assert IndexedSource(np.array(5, "i2"), np.dtype("i4")).read(()).tolist() == 5


def test_sets_and_other_collections_have_elements():
    assert sorted(ElementSource({"a", "b"}, (2,), to_text).read((slice(0, 2),)).tolist()) == ["a", "b"]
    assert ElementSource({"a": 1}.keys(), (1,), to_text).read((slice(0, 1),)).tolist() == ["a"]


@pytest.mark.parametrize("rows", [[["a", "b"], ["c"]], [["a"], ["b", "c"]], [["a", "b"], "cd"], [["a", "b"], 5]])
def test_rows_that_differ_in_length_are_refused(rows):
    source = ElementSource(rows, (2, len(rows[0])), to_text)
    with pytest.raises(ValueRefusedError, match="rows differ in length"):
        source.read((slice(0, 2), slice(0, len(rows[0]))))


def test_rows_become_one_object_for_each_field():
    rows = [(1, "a", np.float32(0.5)), (2, "b", np.float32(1.5)), (3, "c", 2)]
    integer, single = np.dtype("i4"), np.dtype("f4")
    source = RowSource(rows, 3, [integer, to_text, single], ["n", "text", "x"])
    assert source.shape == (3, 3)
    assert source.read((slice(0, 2), slice(0, 3))).tolist() == [[1, "a", 0.5], [2, "b", 1.5]]
    assert source.read((slice(2, 3), slice(1, 2))).tolist() == [["c"]]
    structured = np.array([(1, b"x")], [("a", "u1"), ("b", "S1")])
    assert RowSource(structured, 1, [integer, to_text], ["a", "b"]).read((slice(0, 1), slice(0, 2))).tolist() == [
        [1, "x"]
    ]
    names = ["n", "text", "x"]
    found = RowSource(iter_only(rows), 3, [integer, to_text, single], names).read((slice(1, 3), slice(0, 1)))
    assert found.tolist() == [[2], [3]]


def iter_only(rows: Any) -> Any:
    class Rows:
        def __iter__(self) -> Any:
            return iter(rows)

    return Rows()


# ---- conversions ---------------------------------------------------------------------------------------------------


@given(raw_arrays(NUMBERS), NUMBERS)
def test_a_cast_is_without_loss_or_refused(array, dtype):
    with np.errstate(all="ignore"):
        try:
            made = cast(array, dtype)
        except ValueRefusedError as error:
            assert "without loss" in error.problem
            assert dtype.kind in "iubfc"
            return
        assert made.dtype == dtype
        if dtype.kind in "iub":
            np.testing.assert_array_equal(made, array)
        else:
            np.testing.assert_array_equal(made, array.real.astype(dtype) if dtype.kind == "f" else array.astype(dtype))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [([1.5], "i4"), ([300], "u1"), ([-1], "u8"), ([2], "?"), ([np.nan], "i4"), ([1 + 1j], "f8"), ([2**40], "i4")],
)
def test_what_does_not_fit_is_refused(values, dtype):
    with pytest.raises(ValueRefusedError, match="without loss"):
        cast(np.array(values), np.dtype(dtype))
    with pytest.raises(ValueRefusedError):
        IndexedSource(np.array(values), np.dtype(dtype)).read((slice(0, 1),))


@pytest.mark.parametrize(
    ("values", "dtype"), [([1.0], "i4"), ([1], "?"), ([0.1], "f4"), ([2 + 0j], "f8"), ([5], "<M8[s]"), ([1], ">i2")]
)
def test_what_fits_is_taken(values, dtype):
    assert cast(np.array(values), np.dtype(dtype)).dtype == np.dtype(dtype)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a\0", "a\0"),
        (np.str_("ü"), "ü"),
        (b"\xc3\xbc", "ü"),
        (np.bytes_(b"x"), "x"),
        (datetime.date(2024, 2, 29), "2024-02-29"),
        (datetime.datetime(2024, 2, 29, 12), "2024-02-29T12:00:00"),
        (np.array("a"), "a"),
        (np.array("a", object), "a"),
    ],
)
def test_what_is_text(value, text):
    assert to_text(value) == text
    assert type(to_text(value)) is str
    assert to_bytes(value) == text.encode()


@pytest.mark.parametrize("value", [None, 5, 1.5, np.int8(1), ["a"], {}, np.array(["a"]), b"\xff", "\udcff", "a\ud800"])
def test_what_is_no_text_is_refused(value):
    with pytest.raises(ValueRefusedError) as caught:
        to_text(value)
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("values", "dtype", "numbers"),
    [
        ([np.int8(3), 7], "i2", [3, 7]),
        ([np.float32(0.5), np.array(2.0)], "f8", [0.5, 2.0]),
        ([np.bool_(1)], "?", [True]),
        ([np.datetime64("1970-01-02")], "M8[s]", [86400]),
    ],
)
def test_numbers_for_json(values, dtype, numbers):
    found = json_numbers(values, np.dtype(dtype), Place())
    assert found == numbers
    assert list(map(type, found)) == list(map(type, numbers))
