"""Chunks of new arrays: of the target size, and never empty."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.formats.chunking import (
    CHUNK_BYTES,
    WHOLE_BYTES,
    chunks_by_elements,
    chunks_from_hdf5,
    chunks_inside,
    default_chunks,
    shards_by_bytes,
)

SHAPES = st.lists(st.integers(0, 10**7), max_size=4).map(tuple)


@given(SHAPES, st.integers(1, 10**5), st.sampled_from([1, 100, 2**16, CHUNK_BYTES]))
def test_chunks_fit_the_array_and_the_size_aimed_at(shape, itemsize, target):
    chunks = default_chunks(shape, itemsize, target=target)
    assert len(chunks) == len(shape)
    assert all(1 <= c <= max(1, n) for c, n in zip(chunks[1:], shape[1:], strict=True))
    if shape:
        assert chunks[0] >= 1
        assert shape[0] == 0 or chunks[0] <= shape[0]
    assert math.prod(chunks) * itemsize <= target or math.prod(chunks) == 1


@given(SHAPES.filter(lambda shape: shape and all(shape)), st.integers(1, 16))
def test_a_larger_array_has_chunks_of_at_least_a_quarter_of_the_target(shape, itemsize):
    chunks = default_chunks(shape, itemsize)
    whole = math.prod(shape) * itemsize
    assert chunks == shape or math.prod(chunks) * itemsize >= min(whole, CHUNK_BYTES) // 4


@pytest.mark.parametrize(
    ("shape", "itemsize", "chunks"),
    [
        ((), 8, ()),
        ((10,), 8, (10,)),
        ((0,), 8, (CHUNK_BYTES // 8,)),
        ((0,), 1, (CHUNK_BYTES,)),
        ((0, 3), 1, (CHUNK_BYTES // 3, 3)),
        ((0, 128), 2, (CHUNK_BYTES // 256, 128)),
        ((10**9,), 4, (1_048_219,)),  # 954 equal chunks
        ((10**6, 384), 2, (5435, 384)),
        ((5, 10**7), 1, (1, 2_500_000)),
    ],
)
def test_the_first_axis_is_cut_first_and_evenly(shape, itemsize, chunks):
    assert default_chunks(shape, itemsize) == chunks


@given(
    st.integers(1, 3).flatmap(
        lambda rank: st.tuples(
            st.lists(st.integers(0, 10**6), min_size=rank, max_size=rank).map(tuple),
            st.none() | st.lists(st.integers(1, 10**4), min_size=rank, max_size=rank).map(tuple),
        )
    ),
    st.integers(1, 64),
)
def test_hdf5_chunks_are_kept_or_joined_along_the_first_axis(case, itemsize):
    shape, hdf5 = case
    chunks = chunks_from_hdf5(shape, itemsize, hdf5)
    assert len(chunks) == len(shape)
    assert all(n >= 1 for n in chunks)
    if hdf5 is not None and math.prod(shape) * itemsize > WHOLE_BYTES:
        assert chunks[1:] == hdf5[1:]
        assert chunks[0] % hdf5[0] == 0  # so that stored chunks can be joined


@pytest.mark.parametrize(
    ("shape", "hdf5", "chunks"),
    [
        ((1000,), (10,), (1000,)),  # small: one chunk
        ((10**7,), (2**17,), (2**17,)),  # sensible: kept
        ((10**7,), (100,), (131_000,)),  # too small: joined
        ((10**6 + 1,), (999_999,), (999_999,)),
        ((0, 5), (1, 5), (CHUNK_BYTES // 40, 5)),
        ((10**7,), None, (500_000,)),
    ],
)
def test_chunks_of_hdf5_datasets(shape, hdf5, chunks):
    assert chunks_from_hdf5(shape, 8, hdf5) == chunks


@pytest.mark.parametrize(
    ("shape", "elements", "ratio", "chunks"),
    [
        ((), None, None, ()),
        ((1000, 2000, 3000), None, None, (101, 101, 101)),
        ((1000, 2000, 3000), None, (1, 2, 2), (64, 128, 128)),
        ((1000, 2000, 3000), 2_000_000, (1, 2, 2), (79, 159, 159)),
        ((10, 10**6), 1000, None, (10, 100)),
        ((None, 4), 100, None, (25, 4)),
        ((0, 4), 100, None, (1, 4)),
        ((100, 100), 100, (1, 0), (10, 10)),
        ((100, 100), 1, None, (1, 1)),
        ((None,), None, None, (2**20,)),
        ((100, 100), 400, (4, 1), (40, 10)),
    ],
)
def test_chunks_of_a_number_of_elements(shape, elements, ratio, chunks):
    assert chunks_by_elements(shape, elements, ratio) == chunks


@pytest.mark.parametrize(
    ("shape", "chunks", "target", "shards"),
    [
        ((100,), (10,), 400, (100,)),
        ((100,), (10,), 160, (40,)),
        ((100,), (10,), 1, (10,)),
        ((None,), (10,), 160, (40,)),
        ((0,), (10,), 160, (10,)),
        ((100, 40), (10, 10), 2000, (10, 40)),
        ((100, 40), (10, 10), 5000, (30, 40)),
        ((100, 400), (10, 10), 2000, (10, 50)),
        ((95, None), (10, 10), 2000, (10, 50)),
        ((90,), (10,), 160, (30,)),  # three equal ones
        ((50,), (10,), 160, (30,)),
        ((10**9,), (1,), 2**30, (16_384,)),
    ],
)
def test_shards_of_a_number_of_bytes(shape, chunks, target, shards):
    assert shards_by_bytes(shape, chunks, 4, target=target) == shards


@pytest.mark.parametrize(
    ("shards", "chunks", "inside"),
    [((12,), (5,), (4,)), ((12,), (12,), (12,)), ((12,), (20,), (12,)), ((7, 8), (3, 3), (1, 2))],
)
def test_chunks_that_divide_shards(shards, chunks, inside):
    assert chunks_inside(shards, chunks) == inside
