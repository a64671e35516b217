"""Larger chunks for arrays that grow far beyond their first ones.

A table that was stored with two rows has chunks of two rows, and forty thousand more would be twenty thousand objects.
So an array that has a few small chunks, and grows to many of them, gets new chunks as a whole. That happens once: then
its chunks are large enough. An array that already has many keeps them, because it was written so.

Source: the layout of format 2, "chunks by bytes, also for appended rows".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.changed_cells import has_fields
from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

FEW = 16
"""Chunks that are few; 16 small ones are quickly written anew."""

SMALL_BYTES = 2**12
"""A chunk of fewer bytes is small: a file of it takes a block of the disk, whatever it holds."""

LEAST_BYTES, MOST_BYTES = 2**16, 4 * 2**20
"""Of new chunks; between these, they hold the whole array."""

_OBJECT_BYTES = 64


def larger_chunks(node: ArrayNode[Attributes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return larger chunks for an array that is to have ``shape``, None where it keeps its own.

    Parameters
    ----------
    node : ArrayNode
        The array as it is. Chunks in shards stay.
    dtype : numpy.dtype
        Of its elements in memory.
    shape : tuple of int
        Elements along each axis; only the first one gets longer chunks.
    """
    if node.shards is not None or not shape or shape[0] <= FEW * node.chunks[0]:
        return None
    row = max(1, _row_bytes(node, dtype))
    if not 0 < math.prod(node.grid) <= FEW or row * node.chunks[0] >= SMALL_BYTES:
        return None  # of an empty array, the chunks were not made for what it held
    rows = max(LEAST_BYTES // row, min(shape[0], MOST_BYTES // row))
    return (rows, *node.chunks[1:]) if rows > node.chunks[0] else None


def for_long_texts(chunks: tuple[int, ...], values: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return chunks with fewer rows where the texts that an array holds are long."""
    lengths = [len(value) for value in values.reshape(-1).tolist() if isinstance(value, (str, bytes))]
    mean = max(_OBJECT_BYTES, sum(lengths) // max(1, len(lengths)))
    return (max(1, chunks[0] * _OBJECT_BYTES // mean), *chunks[1:])


def _row_bytes(node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> int:
    """Return the bytes of what a chunk holds for one index of the first axis."""
    if has_fields(node):
        fields = (node.filters or [{}])[0]["fields"]
        return math.prod(node.chunks[1:-1]) * sum(numpy_dtype(data_type).itemsize for _, data_type, _ in fields)
    return math.prod(node.chunks[1:]) * (_OBJECT_BYTES if dtype.hasobject else dtype.itemsize)
