"""Blocks between Zarr and HDF5: each element once, whole chunks of HDF5, bounded."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.hdf5 import blocks
from hdmf_zarr_backend.hdf5.blocks import block_slices
from hdmf_zarr_backend.model.nodes import ArrayNode

LENGTHS = st.integers(1, 40)
AXES = st.lists(st.tuples(LENGTHS, LENGTHS, LENGTHS), min_size=1, max_size=3)


def node_of(shape: tuple[int, ...], chunks: tuple[int, ...], data_type: Any = "<f8") -> ArrayNode[Any]:
    return ArrayNode(shape, chunks, data_type)


@given(axes=AXES, is_chunked=st.booleans(), most=st.sampled_from([8, 800, 80_000]))
def test_blocks_cover_the_array_in_whole_chunks_of_hdf5(axes: Any, is_chunked: bool, most: int) -> None:
    shape, own, chunks = (tuple(axis) for axis in zip(*axes, strict=True))
    bytes_before, blocks.BLOCK_BYTES = blocks.BLOCK_BYTES, most
    try:
        regions = list(block_slices(node_of(shape, own), shape, chunks if is_chunked else None))
    finally:
        blocks.BLOCK_BYTES = bytes_before
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
        ((3000, 64), (1000, 16), (15_000, 64)),
        ((100_000, 64), None, (100_000, 64)),  # one chunk, however large
    ],
)
def test_blocks_are_whole_chunks_of_zarr_where_they_can_be(own: Any, chunks: Any, expected: Any) -> None:
    first = next(block_slices(node_of((100_000, 64), own), (100_000, 64), chunks))
    lengths = tuple(part.stop - part.start for part in first)
    assert all(n % z == 0 or n == s for n, z, s in zip(lengths, own, (100_000, 64), strict=True))
    assert math.prod(lengths) * 8 <= max(blocks.BLOCK_BYTES, math.prod(own) * 8)
    assert lengths == expected


def test_a_scalar_is_one_block() -> None:
    assert list(block_slices(node_of((1,), (1,)), (), None)) == [()]
