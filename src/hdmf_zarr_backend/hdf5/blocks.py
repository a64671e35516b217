"""Blocks in which an array goes from Zarr to HDF5: whole chunks of HDF5, and of Zarr as far as a bound allows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

BLOCK_BYTES = 8 * 2**20
"""Bytes of one block, or one chunk of either side if that is larger."""

Lengths = tuple[int, ...]
Region = tuple[slice, ...]

_ENOUGH_BYTES = 2**20
_OBJECT_BYTES = 256
_MOST_AXES = 4


def block_slices(
    node: ArrayNode[Attributes],
    shape: tuple[int, ...],
    chunks: tuple[int, ...] | None,
    *,
    block_bytes: int | None = None,
    most_bytes: int = 0,
) -> Iterator[Region]:
    """Yield the regions of a dataset one by one, so that they cover it.

    A region is whole chunks of HDF5, none of which is compressed twice. Of the shapes that are possible it has the one
    with which the fewest chunks of Zarr are decoded: each once, if a common multiple of both fits.

    Parameters
    ----------
    node : ArrayNode
        The array in Zarr; it may have more axes than the dataset.
    shape, chunks : tuple of int
        Of the dataset in HDF5; ``chunks`` is None for one in one piece.
    block_bytes : int, optional
        Bound of a region, `BLOCK_BYTES` by default.
    most_bytes : int
        Bound where more chunks would be decoded twice with a smaller one.
    """
    dtype = numpy_dtype(node.data_type)
    itemsize = (_OBJECT_BYTES if dtype.hasobject else dtype.itemsize) * math.prod(node.shape[len(shape) :])
    own = tuple(min(c, n) for c, n in zip(node.chunks, shape, strict=False))
    unit = own if chunks is None else tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    steps, needed = unit, 0
    for limit in (block_bytes or BLOCK_BYTES, most_bytes):
        bound = max(limit // max(1, itemsize), math.prod(own), math.prod(unit))
        enough = min(bound, -(-_ENOUGH_BYTES // max(1, itemsize)))
        found = min(_shapes(own, unit, shape, bound, enough), key=lambda step: _decoded(step, own, shape))
        count = _decoded(found, own, shape)
        if not needed or count < needed:
            steps, needed = found, count
        if needed == math.prod(-(-n // z) for n, z in zip(shape, own, strict=True)):
            break
    for corner in itertools.product(*(range(0, n, step) for n, step in zip(shape, steps, strict=True))):
        yield tuple(slice(c, min(c + step, n)) for c, step, n in zip(corner, steps, shape, strict=True))


def _shapes(own: Lengths, unit: Lengths, shape: Lengths, bound: int, enough: int) -> Iterator[Lengths]:
    """Yield the shapes that a region of at most ``bound`` elements may have, the one that is easiest to write first.

    One that covers whole chunks is not made larger still if it has ``enough`` elements: nothing of it is needed again.
    """
    axes = range(len(shape))
    orders = itertools.permutations(reversed(axes)) if len(shape) <= _MOST_AXES else [tuple(reversed(axes))]
    near = tuple(-(-z // u) * u for z, u in zip(own, unit, strict=True))
    common = tuple(math.lcm(z, u) for z, u in zip(own, unit, strict=True))
    for order in orders:
        for cover in dict.fromkeys((near, common)):
            whole = _grown(unit, cover, unit, bound, order)
            yield whole if math.prod(whole) >= enough else _grown(whole, shape, cover, bound, order)


def _decoded(steps: Lengths, own: Lengths, shape: Lengths) -> int:
    """Return how many chunks of Zarr are decoded if regions have the shape ``steps``."""
    count = 1
    for step, z, n in zip(steps, own, shape, strict=True):
        count *= sum(-(-min(start + step, n) // z) - start // z for start in range(0, n, step))
    return count


def _grown(block: Lengths, wanted: Lengths, unit: Lengths, bound: int, order: Sequence[int]) -> Lengths:
    """Return ``block`` made larger towards ``wanted``, axis after axis, in whole units, to ``bound`` elements."""
    grown = list(block)
    for axis in order:
        rest = math.prod(grown) // grown[axis]
        most = max(grown[axis], bound // rest // unit[axis] * unit[axis])
        grown[axis] = min(max(wanted[axis], grown[axis]), most)
        if grown[axis] < wanted[axis]:
            break
    return tuple(grown)
