"""Blocks between Zarr and HDF5: each element once, whole chunks of HDF5, bounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.hdf5 import filling
from hdmf_zarr_backend.hdf5.filling import block_slices
from hdmf_zarr_backend.model.stored import StoredArray

LENGTHS = st.integers(1, 40)
AXES = st.lists(st.tuples(LENGTHS, LENGTHS, LENGTHS), min_size=1, max_size=3)


def node_of(shape: tuple[int, ...], chunks: tuple[int, ...], data_type: Any = "<f8") -> StoredArray:
    return StoredArray(shape, chunks, data_type)


@given(axes=AXES, is_chunked=st.booleans(), most=st.sampled_from([8, 800, 80_000]))
def test_blocks_cover_the_array_in_whole_chunks_of_hdf5(axes: Any, is_chunked: bool, most: int) -> None:
    shape, own, chunks = (tuple(axis) for axis in zip(*axes, strict=True))
    regions = list(block_slices(node_of(shape, own), shape, chunks if is_chunked else None, block_bytes=most))
    seen = np.zeros(shape, int)
    for region in regions:
        seen[region] += 1
        if is_chunked:
            for part, chunk, length in zip(region, chunks, shape, strict=True):
                assert part.start % chunk == 0
                assert part.stop % chunk == 0 or part.stop == length
    assert (seen == 1).all()
    bound = max(most // 8, math.prod(own), math.prod(chunks) if is_chunked else 0)
    assert max(math.prod(part.stop - part.start for part in region) for region in regions) <= bound


@pytest.mark.parametrize(
    ("own", "chunks", "expected"),
    [
        ((1000, 64), None, (16_000, 64)),  # 8 MiB of rows, whole chunks of Zarr
        ((100_000, 1), None, (100_000, 10)),
        ((1000, 64), (100, 64), (16_000, 64)),
        ((3000, 64), (1000, 16), (3000, 64)),  # 1.5 MB is enough
        ((100_000, 64), None, (100_000, 64)),  # one chunk, however large
    ],
)
def test_blocks_are_whole_chunks_of_zarr_where_they_can_be(own: Any, chunks: Any, expected: Any) -> None:
    first = next(block_slices(node_of((100_000, 64), own), (100_000, 64), chunks))
    lengths = tuple(part.stop - part.start for part in first)
    assert all(n % z == 0 or n == s for n, z, s in zip(lengths, own, (100_000, 64), strict=True))
    assert math.prod(lengths) * 8 <= max(filling.BLOCK_BYTES, math.prod(own) * 8)
    assert lengths == expected


def decoded(own: Any, shape: Any, chunks: Any, **options: Any) -> float:
    """Return how often a chunk of Zarr is decoded, on average."""
    count = 0
    for region in block_slices(node_of(shape, own, "<i2"), shape, chunks, **options):
        count += math.prod(
            -(-part.stop // z) - part.start // z for part, z in zip(region, own, strict=True)
        )  # fmt: skip
    return count / math.prod(-(-n // z) for n, z in zip(shape, own, strict=True))


@pytest.mark.parametrize(
    ("own", "chunks"),
    [
        ((1000, 64), (300, 64)),  # a common multiple is 3000 rows
        ((1000, 64), (30_000, 8)),
        ((100, 384), (5000, 64)),
        ((7, 384), (10, 384)),
        ((1000, 7), (1000, 11)),
    ],
)
def test_no_chunk_is_decoded_twice_where_a_common_multiple_fits(own: Any, chunks: Any) -> None:
    assert decoded(own, (90_000, 384), chunks) == 1


def test_a_larger_bound_is_taken_where_it_saves_decoding() -> None:
    own, shape, chunks = (100_000, 1), (100_000, 384), (100, 384)
    assert decoded(own, shape, chunks) == 10
    assert decoded(own, shape, chunks, most_bytes=32 * 2**20) == 3
    assert decoded(own, shape, chunks, most_bytes=100 * 2**20) == 1


def test_a_scalar_is_one_block() -> None:
    assert list(block_slices(node_of((1,), (1,)), (), None)) == [()]
