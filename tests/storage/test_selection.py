"""What stands between brackets, as work on chunks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.selection import Axis, full_mask, normalise
from tests.strategies import axis_keys, expected, selections, shapes


@given(st.integers(0, 30).flatmap(lambda length: st.tuples(st.just(length), axis_keys(length))), st.integers(1, 9))
def test_the_parts_of_an_axis_are_the_selection_cut_along_the_chunks(case, chunk):
    length, key = case
    (axis,) = normalise((key,), (length,))
    wanted = expected(np.arange(length), (key,))
    found = np.full(axis.length, -1)
    numbers = []
    for number, inside, outside in axis.parts(chunk):
        positions = np.arange(number * chunk, number * chunk + chunk)[inside]
        assert positions.size
        assert (found[outside] == -1).all()
        found[outside] = positions
        numbers.append(number)
    assert found.tolist() == np.atleast_1d(wanted).tolist()
    assert len(set(numbers)) == len(numbers)  # a chunk is taken once
    assert axis.drop == (np.ndim(wanted) == 0)


@given(shapes().flatmap(lambda shape: st.tuples(st.just(shape), selections(shape))))
def test_there_is_one_part_for_each_axis(case):
    shape, key = case
    axes = normalise(key, shape)
    wanted = expected(np.zeros(shape), key)
    assert tuple(axis.length for axis in axes if not axis.drop) == wanted.shape
    assert len(axes) == len(shape)


def test_a_range_knows_its_length():
    assert Axis(2, 9, 3).length == 3
    assert Axis(0, 0, indices=np.array([1, 1])).length == 2
    assert Axis(5, 5).length == 0


H5PY_WORDS = [
    (10, (10,)),
    (0, (0,)),
    ((0, 7), (3, 5)),
    ((1, 2), (5,)),
    ((1, 2, 3), (4, 5)),
]


@pytest.mark.parametrize(("key", "shape"), H5PY_WORDS)
def test_the_words_are_those_of_h5py(key, shape, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", shape=shape, dtype="i4")
        with pytest.raises((IndexError, ValueError)) as theirs:
            dataset[key]
    with pytest.raises(IndexError) as ours:
        normalise(key, shape)
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize(
    ("key", "words"),
    [
        (-11, r"Index \(-11\) out of range for \(0-9\)"),
        ([0, 10], r"Index \(10\) out of range for \(0-9\)"),
        ([-11], r"Index \(-11\) out of range for \(0-9\)"),
        (np.array([2**64 - 1], np.uint64), r"Index \(18446744073709551615\) out of range for \(0-9\)"),
        (np.uint64(2**64 - 1), r"Index \(18446744073709551615\) out of range"),
        ([True] * 9, r"a mask of shape \(9,\) does not fit an axis of length 10"),
        ([1.5], "must be a list of integers"),
        ([[1, 2]], "must be a list of integers"),
        ([[1], [1, 2]], "not a list of indices"),
        (["a"], "must be a list of integers"),
        (1.0, "is not an index"),
        ("a", "is not an index"),
        (None, "is not an index"),
        (True, "is not an index"),
        (np.True_, "is not an index"),
        (np.array(1.0), "is not an index"),
        ((Ellipsis, Ellipsis), "single ellipsis"),
    ],
)
def test_what_selects_nothing_is_said(key, words):
    with pytest.raises(IndexError, match=words):
        normalise(key, (10,))


def test_an_empty_axis_says_that_it_is_empty():
    for key in (0, [0], np.array([-1])):
        with pytest.raises(IndexError, match="out of range for empty dimension"):
            normalise(key, (0,))
    assert normalise([], (0,))[0].length == 0


def test_a_step_of_zero_is_pythons_error():
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        normalise(slice(0, 2, 0), (5,))


def test_arrays_without_axes_are_integers():
    (axis,) = normalise(np.array(3, np.uint8), (5,))
    assert (axis.start, axis.stop, axis.drop) == (3, 4, True)


@given(
    shapes(longest=4).filter(lambda shape: len(shape) > 1).flatmap(lambda s: st.tuples(st.just(s), st.integers(0, 99)))
)
def test_a_mask_of_the_whole_shape_is_a_box_and_the_mask_in_it(case):
    shape, seed = case
    mask = np.random.default_rng(seed).random(shape) < 0.2
    array = np.arange(mask.size).reshape(shape)
    for key in (mask, (mask,)):
        box, inner = full_mask(key, shape)
        assert array[box][inner].tolist() == array[mask].tolist()
    if mask.any():
        assert all(
            inner.any(axis=tuple(a for a in range(inner.ndim) if a != axis))[[0, -1]].all()
            for axis in range(inner.ndim)
        )


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(IndexError, match=r"a mask of shape \(2, 2\) does not fit an array of shape \(2, 3\)"):
        full_mask(np.ones((2, 2), bool), (2, 3))
    for key in (0, slice(None), [True, False], np.ones(2, bool), (np.ones((2, 2), bool), 1), np.ones((2, 2), int)):
        assert full_mask(key, (2, 3)) is None
