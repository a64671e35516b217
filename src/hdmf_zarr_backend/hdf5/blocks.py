"""Blocks in which an array goes from Zarr to HDF5: whole chunks of HDF5, and of Zarr as far as a bound allows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes
from hdmf_zarr_backend.storage.codecs import numpy_dtype

BLOCK_BYTES = 8 * 2**20
"""Bytes of one block, or one chunk of either side if that is larger."""

_OBJECT_BYTES = 256


def block_slices(
    node: ArrayNode[Attributes], shape: tuple[int, ...], chunks: tuple[int, ...] | None
) -> Iterator[tuple[slice, ...]]:
    """Yield the regions of a dataset one by one, so that they cover it.

    Parameters
    ----------
    node : ArrayNode
        The array in Zarr; it may have more axes than the dataset.
    shape, chunks : tuple of int
        Of the dataset in HDF5; ``chunks`` is None for one in one piece.
    """
    dtype = numpy_dtype(node.data_type)
    itemsize = (_OBJECT_BYTES if dtype.hasobject else dtype.itemsize) * math.prod(node.shape[len(shape) :])
    own = tuple(min(c, n) for c, n in zip(node.chunks, shape, strict=False))
    unit = own if chunks is None else tuple(min(c, n) for c, n in zip(chunks, shape, strict=True))
    bound = max(BLOCK_BYTES // max(1, itemsize), math.prod(own), math.prod(unit))
    cover = tuple(-(-z // u) * u for z, u in zip(own, unit, strict=True))
    steps = _grown(_grown(unit, cover, unit, bound), shape, cover, bound)
    for corner in itertools.product(*(range(0, n, step) for n, step in zip(shape, steps, strict=True))):
        yield tuple(slice(c, min(c + step, n)) for c, step, n in zip(corner, steps, shape, strict=True))


def _grown(block: tuple[int, ...], wanted: tuple[int, ...], unit: tuple[int, ...], bound: int) -> tuple[int, ...]:
    """Return ``block`` made larger towards ``wanted``, the last axis first, in whole units, to ``bound`` elements."""
    grown = list(block)
    for axis in reversed(range(len(grown))):
        rest = math.prod(grown) // grown[axis]
        most = max(grown[axis], bound // rest // unit[axis] * unit[axis])
        grown[axis] = min(max(wanted[axis], grown[axis]), most)
        if grown[axis] < wanted[axis]:
            break
    return tuple(grown)
