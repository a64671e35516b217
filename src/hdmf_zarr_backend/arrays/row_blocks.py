"""One row of a chunk of packed records, by the block of Blosc that holds it.

A row of format 3 with a text or a reference takes 2 kB, nearly all of them zeros, so that a chunk of a few thousand
costs a thousand times as much to decode as a row is worth.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.blosc_blocks import BloscBlocks, DecodedBlocks, find_blocks, read_range
from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.codecs import ChunkCodec
from hdmf_zarr_backend.errors import ChunkError


def read_row(
    codec: ChunkCodec, cache: ChunkCache, key: str, place: tuple[int, int], stored: Callable[[], bytes | None]
) -> list[Any] | None:
    """Return one row, None where it has to be decoded with its chunk.

    Parameters
    ----------
    codec : ChunkCodec
        Of the array.
    cache : ChunkCache
        Keeps the block.
    key : str
        Of the chunk.
    place : tuple of int
        Number of the row in the array, and the number of rows of a chunk.
    stored : callable
        Returns the stored bytes of the chunk; called only when the block is not at hand.
    """
    rows = codec.rows_in_blocks()
    if rows is None:
        return None
    number, count = place
    size = rows.dtype.itemsize

    @functools.cache
    def blocks() -> BloscBlocks | None:
        data = stored()
        return None if data is None else find_blocks(data, count * size)

    known = cache.blocks(key)
    if known is None:
        found = blocks()
        if found is None:
            return None
        known = DecodedBlocks(found.length, found.nbytes)
    record = np.empty(size, np.uint8)
    try:
        if read_range(record, number % count * size, known, blocks, codec.decode_blocks):
            cache.put_blocks(key, known)
        return rows.row(record)
    except (ChunkError, UnicodeDecodeError, ValueError):
        return None  # the decoder of chunks says what is wrong
