"""Larger chunks for an array that grows to many times its stored size.

A table that was stored with two rows has chunks of two rows, so forty thousand more rows would be twenty thousand
objects. An array with a few small chunks that grows to many of them is therefore rewritten with larger chunks. That
happens once, since the new chunks are large enough. An array that already has many chunks keeps them.

Source: the layout of format 2, "chunks by bytes, also for appended rows".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.changed_cells import has_fields
from hdmf_zarr_backend.formats.dtypes import numpy_dtype
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

FEW = 16
"""The most chunks of an array that is rewritten; 16 small ones are quickly written."""

SMALL_BYTES = 2**12
"""A chunk of fewer bytes is small: its file takes a block of the disk anyway."""

LEAST_BYTES, MOST_BYTES = 2**16, 4 * 2**20
"""Bounds of new chunks; within these, one chunk holds the complete array."""

_OBJECT_BYTES = 64


def larger_chunks(node: ArrayNode[Attributes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return larger chunks for an array that grows to ``shape``, None if it keeps its chunks.

    Parameters
    ----------
    node : ArrayNode
        The array before it grows. One with shards keeps its chunks.
    dtype : numpy.dtype
        Data type of its elements in memory.
    shape : tuple of int
        Elements along each axis; chunks become longer on the first axis only.
    """
    if node.shards is not None or not shape or shape[0] <= FEW * node.chunks[0]:
        return None
    row = max(1, _row_bytes(node, dtype))
    if not 0 < math.prod(node.grid) <= FEW or row * node.chunks[0] >= SMALL_BYTES:
        return None  # the chunks of an empty array were not chosen for its content
    rows = max(LEAST_BYTES // row, min(shape[0], MOST_BYTES // row))
    return (rows, *node.chunks[1:]) if rows > node.chunks[0] else None


def for_long_texts(chunks: tuple[int, ...], values: npt.NDArray[Any]) -> tuple[int, ...]:
    """Return chunks with fewer rows if the texts in an array are long."""
    lengths = [len(value) for value in values.reshape(-1).tolist() if isinstance(value, (str, bytes))]
    mean = max(_OBJECT_BYTES, sum(lengths) // max(1, len(lengths)))
    return (max(1, chunks[0] * _OBJECT_BYTES // mean), *chunks[1:])


def _row_bytes(node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> int:
    """Return the bytes in a chunk for one index of the first axis."""
    if has_fields(node):
        fields = (node.filters or [{}])[0]["fields"]
        return math.prod(node.chunks[1:-1]) * sum(numpy_dtype(data_type).itemsize for _, data_type, _ in fields)
    return math.prod(node.chunks[1:]) * (_OBJECT_BYTES if dtype.hasobject else dtype.itemsize)
