"""Arrays that grow: larger chunks for one that grows to many times its stored size, wider fields for longer text.

A table that was stored with two rows has chunks of two rows, so forty thousand more rows would be twenty thousand
objects. An array with a few small chunks that grows to many of them is therefore rewritten with larger chunks. That
happens once, since the new chunks are large enough. An array that already has many chunks keeps them.

Format 3 stores the text and references of rows in fields of fixed length. A field that is too short becomes at least
twice as long, so that not every added row rewrites all others.

Source: the layout of format 2, "chunks by bytes, also for appended rows"; docs/format, "Rows".
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hdmf_zarr_backend.encoding.chunks import Array, cell_texts
from hdmf_zarr_backend.encoding.type_codes import itemsize, split_code
from hdmf_zarr_backend.formats.zarr3 import row_bytes
from hdmf_zarr_backend.formats.zarr3_codecs import field_types
from hdmf_zarr_backend.model.stored import StoredArray

FEW = 16
"""The most chunks of an array that is rewritten; 16 small ones are quickly written."""

SMALL_BYTES = 2**12
"""A chunk of fewer bytes is small: its file takes a block of the disk anyway."""

LEAST_BYTES, MOST_BYTES = 2**16, 4 * 2**20
"""Bounds of new chunks; within these, one chunk holds the complete array."""

_OBJECT_BYTES = 64


def larger_chunks(array: StoredArray, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return larger chunks for an array that grows to ``shape``, None if it keeps its chunks."""
    if array.shards is not None or not shape or shape[0] <= FEW * array.chunks[0]:
        return None
    item, inner = row_bytes(array), array.chunks[1:-1]
    if item is None:
        item, inner = _OBJECT_BYTES if dtype.hasobject else dtype.itemsize, array.chunks[1:]
    row = max(1, math.prod(inner) * item)  # bytes in a chunk for one index of the first axis
    if not 0 < math.prod(array.grid) <= FEW or row * array.chunks[0] >= SMALL_BYTES:
        return None  # the chunks of an empty array were not chosen for its content
    rows = max(LEAST_BYTES // row, min(shape[0], MOST_BYTES // row))
    return (rows, *array.chunks[1:]) if rows > array.chunks[0] else None


def for_long_texts(chunks: tuple[int, ...], values: Array) -> tuple[int, ...]:
    """Return chunks with fewer rows if the texts in an array are long."""
    lengths = [len(value) for value in values.reshape(-1).tolist() if isinstance(value, (str, bytes))]
    mean = max(_OBJECT_BYTES, sum(lengths) // max(1, len(lengths)))
    return (max(1, chunks[0] * _OBJECT_BYTES // mean), *chunks[1:])


# ---- fields of rows -------------------------------------------------------------------------------------------------


def wider_fields(array: StoredArray, chunks: Iterable[Array], max_bytes: int) -> list[Any] | None:
    """Return fields that are long enough for all text in ``chunks``; None if they are already, or cannot be."""
    fields: list[Any] = array.first_filter["fields"]
    rows = [chunk.reshape(-1, len(fields)) for chunk in chunks]
    try:
        wanted = [_wanted(field, [cells[:, column] for cells in rows]) for column, field in enumerate(fields)]
    except (TypeError, ValueError):
        return None  # a cell has the wrong type for its field; encoding it raises the error
    if not any(wanted):
        return None
    for factor in (2, 1):
        wider = [list(field) for field in fields]
        for field, most in zip(wider, wanted, strict=True):
            if most:
                field[1] = f"{field[1][:2]}{max(most, factor * _length(field[1]))}"
        if itemsize(field_types(wider)) * math.prod(array.chunks[:-1]) <= max_bytes:
            return wider
    return None


def _wanted(field: Any, columns: list[Array]) -> int:
    """Return the length of the longest cell of a field, in its units, if it does not fit; else 0."""
    _, data_type, kind = field
    if kind == "number":
        return 0
    is_bytes = data_type[1] == "S"
    texts = (text for cells in columns for text in cell_texts(cells.tolist(), kind))
    longest = max((len(text.encode()) if is_bytes else len(text) for text in texts), default=0)
    return longest if longest > _length(data_type) else 0


def _length(data_type: str) -> int:
    """Return the number of characters, or bytes, in a field of text."""
    return int(split_code(data_type)[2])


def set_fields(fields: list[Any], array: StoredArray) -> None:
    """Set the fields of the rows of an array."""
    first, *others = array.filters or [{}]
    array.filters = [{**first, "fields": fields}, *others]
