"""Shapes of chunks and shards, chosen by bytes, and the codec of new arrays.

A chunk is fetched by one request and decoded by one thread. 1 to 16 MB are suitable for disks and object stores, and
keep the number of files small (issue 1520 of the DANDI archive's client: 1.5 million files for 34 GB).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import truediv
from typing import Any, TypeGuard

CHUNK_BYTES = 4 * 2**20
"""Target size in bytes of one chunk of a new array."""

SHARDED_CHUNK_BYTES = 16 * 2**20
"""Target size in bytes of one chunk inside a shard, which may be as large as one request."""

SHARD_BYTES = 512 * 2**20
"""Maximum bytes of values in an automatic shard."""

SHARD_CHUNKS = 2**14
"""Maximum number of chunks in an automatic shard; their index has a quarter of a megabyte."""

SHARDED_BYTES = 64 * 2**20
"""Minimum bytes of an array with automatic shards; a smaller one consists of a few objects anyway."""

OBJECT_BYTES = 64
"""Assumed size of an element of an object array, for the size of chunks."""

WHOLE_BYTES = 2**20
"""Maximum size of an HDF5 dataset that becomes one chunk, whatever its HDF5 chunks were."""

LEAST_CHUNK_BYTES = 2**16
"""Smaller HDF5 chunks are joined along the first axis."""

TENSORSTORE_ELEMENTS = 2**20
"""TensorStore's default number of elements of a chunk."""

DEFAULT_COMPRESSOR: dict[str, Any] = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}


def default_chunks(shape: tuple[int, ...], itemsize: int, *, target: int = CHUNK_BYTES) -> tuple[int, ...]:
    """Return a chunk shape of about ``target`` bytes.

    The first axis (time, rows) is divided first. If one row is larger than the target, the longest other axis is halved
    until it fits.
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
    # equal chunks: the last one is stored completely, and could be mostly padding otherwise
    return (-(-shape[0] // -(-shape[0] // rows)) if shape[0] else rows, *rest)


def chunks_from_hdf5(shape: tuple[int, ...], itemsize: int, chunks: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the chunks of an array for an HDF5 dataset with ``chunks`` (None: contiguous).

    Chunks of a suitable size are kept, so that they can be copied as they are; a small dataset becomes one chunk.
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

    The length on each axis is its part of the ratio times a common factor, rounded down, at least 1 and at most the
    length of the axis. The factor is the largest with which the chunk has at most ``elements`` elements.

    Notes
    -----
    Tests compare this with TensorStore, for ratios of small whole numbers. The factor is searched in steps, as in
    TensorStore; with ratios such as 10 to 0.1 and chunks of a few elements, an axis may differ by one.

    Source: TensorStore, "Selection of chunk layout when creating a new array".
    """
    if not shape:
        return ()
    target = TENSORSTORE_ELEMENTS if elements is None else elements
    ratio = [float(part) or 1.0 for part in aspect_ratio or (1.0,) * len(shape)]
    most = [float(target if n is None else min(target, max(1, n))) for n in shape]
    return _scaled(ratio, _largest_factor(ratio, most, target), most)


def _largest_factor(ratio: list[float], most: list[float], target: int) -> float:
    """Return the largest factor of the ratio whose chunk has at most ``target`` elements, searched in steps."""
    step = 0.5 / max(ratio)  # between two such factors, no axis grows by 2
    low, high = step, 2 * max(map(truediv, most, ratio))
    while low + step < high:
        middle = low + (high - low) / 2
        count = math.prod(_scaled(ratio, middle, most))
        if count >= target:
            high = middle
        if count <= target:
            low = middle
    return low


def _scaled(ratio: list[float], factor: float, most: list[float]) -> tuple[int, ...]:
    """Return the ratio times a factor as whole numbers, at least 1 and at most the limit of each axis."""
    return tuple(max(1, int(min(part * factor, limit))) for part, limit in zip(ratio, most, strict=True))


def shards_by_bytes(
    shape: tuple[int | None, ...], chunks: tuple[int, ...], itemsize: int, *, target: int = SHARD_BYTES
) -> tuple[int, ...]:
    """Return a shard shape of at most ``target`` bytes (at least one chunk), a multiple of ``chunks``.

    The last axes are filled first, so that a shard is a range on the first one (time, rows) if possible. It is not
    longer than the array, rounded up to complete chunks.
    """
    left = max(1, min(SHARD_CHUNKS, target // max(1, math.prod(chunks) * itemsize)))
    counts: list[int] = []
    for length, chunk in zip(reversed(shape), reversed(chunks), strict=True):
        count = left if length is None else min(left, max(1, -(-length // chunk)))
        if length is not None:  # equal shards: the last one could be small otherwise
            in_all = max(1, -(-length // chunk))
            count = -(-in_all // -(-in_all // count))
        counts.append(count)
        left //= count
    return tuple(count * chunk for count, chunk in zip(reversed(counts), chunks, strict=True))


def is_chunk_shape(value: Any, axes: int) -> TypeGuard[list[int]]:
    """Tell whether a JSON value is a shape of chunks: a positive length for each axis."""
    return isinstance(value, list) and len(value) == axes and all(type(n) is int and n > 0 for n in value)


def chunks_inside(shards: tuple[int, ...], chunks: tuple[int, ...]) -> tuple[int, ...]:
    """Return the largest chunk shape up to ``chunks`` of which ``shards`` is a multiple."""
    return tuple(_divisor(length, most) for length, most in zip(shards, chunks, strict=True))


def _divisor(length: int, most: int) -> int:
    """Return the largest divisor of ``length`` that is at most ``most``."""
    if most >= length:
        return length
    divisors = [n for n in range(1, math.isqrt(length) + 1) if length % n == 0]
    return max(n for divisor in divisors for n in (divisor, length // divisor) if n <= most)
