"""Shapes of chunks, by bytes, and the codec of new arrays.

A chunk is what one request fetches and what one thread decodes: 1 to 16 MB serve both disks and object stores, and
keep the number of files small (issue 1520 of the DANDI archive's client: 1.5 million files for 34 GB).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

CHUNK_BYTES = 4 * 2**20
"""Bytes aimed at for one chunk of a new array."""

OBJECT_BYTES = 64
"""What an element of an object array is taken to be, for the size of a chunk."""

WHOLE_BYTES = 2**20
"""An HDF5 dataset of at most this size becomes one chunk, whatever its HDF5 chunks were."""

LEAST_CHUNK_BYTES = 2**16
"""HDF5 chunks smaller than this are joined along the first axis."""

TENSORSTORE_ELEMENTS = 2**20
"""Elements that TensorStore aims at for one chunk where nothing is said."""

DEFAULT_COMPRESSOR: dict[str, Any] = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}


def default_chunks(shape: tuple[int, ...], itemsize: int, *, target: int = CHUNK_BYTES) -> tuple[int, ...]:
    """Return a chunk shape of about ``target`` bytes.

    The first axis (time, rows) is cut first; where one row is larger than the target, the longest other axis is
    halved until it fits.

    Parameters
    ----------
    shape : tuple of int
        Shape of the array; an axis of length 0 counts as unknown and may grow.
    itemsize : int
        Bytes of one element.
    """
    if not shape:
        return ()
    rest = [max(1, n) for n in shape[1:]]
    row = math.prod(rest) * max(1, itemsize)
    while row > target and max(rest, default=1) > 1:
        longest = rest.index(max(rest))
        rest[longest] = -(-rest[longest] // 2)
        row = math.prod(rest) * max(1, itemsize)
    rows = max(1, target // row)
    # equal chunks: the last one is stored whole, and would else be mostly padding
    return (-(-shape[0] // -(-shape[0] // rows)) if shape[0] else rows, *rest)


def chunks_from_hdf5(shape: tuple[int, ...], itemsize: int, chunks: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the chunks of an array that comes from an HDF5 dataset with ``chunks`` (None: contiguous).

    Chunks of a sensible size are kept, so that they can be copied as they are; a small dataset is one chunk.
    """
    size = math.prod(shape) * itemsize
    if chunks is None or size <= WHOLE_BYTES:
        return default_chunks(shape, itemsize)
    chunk_bytes = math.prod(chunks) * itemsize
    if chunk_bytes >= LEAST_CHUNK_BYTES:
        return tuple(chunks)
    factor = max(1, WHOLE_BYTES // max(1, chunk_bytes))
    return (min(chunks[0] * factor, -(-shape[0] // chunks[0]) * chunks[0]), *chunks[1:])


def chunks_by_elements(
    shape: tuple[int | None, ...], elements: int | None = None, aspect_ratio: Sequence[float] | None = None
) -> tuple[int, ...]:
    """Return the chunk shape that TensorStore would choose.

    Each axis gets the whole number below its part of the ratio times one factor for all, at least 1 and at most the
    length of the axis; the factor is the largest whose chunk has no more than ``elements``.

    Parameters
    ----------
    shape : tuple of int or None
        Length of each axis; None: not known.
    elements : int, optional
        Number of elements aimed at; None: `TENSORSTORE_ELEMENTS`.
    aspect_ratio : sequence of float, optional
        Of the lengths of a chunk; 0 counts as 1, and None as 1 for each axis.

    Notes
    -----
    Tests hold this to TensorStore itself, for ratios of small whole numbers. It searches for the factor in steps, as
    TensorStore does; with ratios such as 10 to 0.1 and chunks of a few elements, an axis may differ by one.

    Source: TensorStore, "Selection of chunk layout when creating a new array".
    """
    target = TENSORSTORE_ELEMENTS if elements is None else elements
    ratio = [float(part) or 1.0 for part in aspect_ratio or (1.0,) * len(shape)]
    most = [float(target if n is None else min(target, max(1, n))) for n in shape]

    def at(factor: float) -> tuple[int, ...]:
        return tuple(max(1, int(min(part * factor, limit))) for part, limit in zip(ratio, most, strict=True))

    step = min((1.0 / part for part in ratio), default=1.0) / 2  # between two factors so near, no axis grows by 2
    low, high = step, 2 * max((limit / part for limit, part in zip(most, ratio, strict=True)), default=1.0)
    while low + step < high:
        middle = low + (high - low) / 2
        count = math.prod(at(middle))
        if count >= target:
            high = middle
        if count <= target:
            low = middle
    return at(low)
