"""Selections: the key of ``array[key]`` -> the parts of chunks that it selects.

Keys are those of h5py, which hdmf, pynwb and their users expect: integers, slices, ``...``, a list of indices or a
boolean mask on an axis, a mask of the full shape, a field name. Beyond h5py, negative steps are allowed, lists in any
order and with repetitions, and lists on several axes, which apply separately.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

IntArray: TypeAlias = npt.NDArray[np.intp]
AxisPart: TypeAlias = tuple[int, "slice | IntArray", "slice | IntArray"]
"""Number of the chunk on an axis, positions in the chunk, positions in the result."""


@dataclass(slots=True)
class Axis:
    """The selection on one axis: ``indices``, or the range ``start, stop, step``; an integer drops the axis."""

    start: int
    stop: int
    step: int = 1
    indices: IntArray | None = None
    drop: bool = False

    @property
    def length(self) -> int:
        """Number of selected positions."""
        if self.indices is not None:
            return len(self.indices)
        # len(range(...)) fails beyond 2**63
        return max(0, -((self.start - self.stop) // self.step))

    def chunks(self, chunk: int) -> int:
        """Return an upper bound of the number of chunks of length ``chunk`` in `parts`."""
        if self.indices is not None:
            return len(self.indices)
        return max(0, (self.stop - 1) // chunk - self.start // chunk + 1)

    def parts(self, chunk: int) -> Iterator[AxisPart]:
        """Yield the part of the selection in each chunk of length ``chunk``."""
        if self.indices is not None:
            numbers = self.indices // chunk
            for number in np.unique(numbers).tolist():
                where = np.flatnonzero(numbers == number)
                yield number, self.indices[where] - number * chunk, where
            return
        if self.start >= self.stop:
            return
        for number in range(self.start // chunk, (self.stop - 1) // chunk + 1):
            base = number * chunk
            first = max(0, -((self.start - base) // self.step)) if base > self.start else 0
            position = self.start + first * self.step
            end = min(self.stop, base + chunk)
            if position >= end:
                continue
            count = len(range(position, end, self.step))
            yield number, slice(position - base, end - base, self.step), slice(first, first + count)


def normalise(key: Any, shape: tuple[int, ...]) -> list[Axis]:
    """Return the selection of ``key`` on each axis of an array of ``shape``."""
    return [_axis(item, length) for item, length in zip(full_key(key, len(shape)), shape, strict=True)]


def full_key(key: Any, ndim: int) -> list[Any]:
    """Return a key with an entry for each axis; an ellipsis stands for those that it leaves out."""
    keys = list(key) if isinstance(key, tuple) else [key]
    ellipses = [position for position, item in enumerate(keys) if item is Ellipsis]
    if len(ellipses) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    position = ellipses[0] if ellipses else len(keys)
    given = len(keys) - len(ellipses)
    missing = ndim - given
    if missing < 0:
        raise IndexError(f"{given} indexing arguments for {ndim} dimensions")
    keys[position : position + 1] = [slice(None)] * missing
    return keys


def full_mask(key: Any, shape: tuple[int, ...]) -> tuple[tuple[slice, ...], npt.NDArray[np.bool_]] | None:
    """Return the bounding box of a mask of the full shape, and the mask in it; None for any other key."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    if not isinstance(mask, np.ndarray) or mask.dtype != bool or mask.ndim < 2:
        return None
    if mask.shape != shape:
        raise IndexError(f"a mask of shape {mask.shape} does not fit an array of shape {shape}")
    box: list[slice] = []
    for axis in range(mask.ndim):
        where = np.flatnonzero(mask.any(axis=tuple(other for other in range(mask.ndim) if other != axis)))
        box.append(slice(int(where[0]), int(where[-1]) + 1) if where.size else slice(0, 0))
    return tuple(box), mask[tuple(box)]


def _axis(item: Any, length: int) -> Axis:
    """Return the selection of one item of a key."""
    if isinstance(item, slice):
        start, stop, step = item.indices(length)
        if step < 0:  # beyond h5py; as a list, since `Axis.parts` goes upwards
            return Axis(0, 0, indices=np.arange(start, stop, step, dtype=np.intp))
        return Axis(start, max(start, stop), step)
    if isinstance(item, Sized) and not isinstance(item, (str, bytes)) and getattr(item, "ndim", True):
        return Axis(0, 0, indices=_indices(item, length))
    try:
        if isinstance(item, (bool, np.bool_)):  # for `operator.index` it is 0 or 1
            raise TypeError("a truth value is not an index")
        index = operator.index(item.item() if isinstance(item, np.ndarray) else item)
    except (TypeError, ValueError) as error:
        raise IndexError(f"{item!r} is not an index: give integers, slices, lists of integers or masks") from error
    if not -length <= index < length:
        raise _out_of_range(index, length)
    index %= length
    return Axis(index, index + 1, drop=True)


def _out_of_range(index: int, length: int) -> IndexError:
    # in the words of h5py: `DynamicTable` of hdmf looks for them, and reports a row that does not exist
    return IndexError(f"Index ({index}) out of range for {f'(0-{length - 1})' if length else 'empty dimension'}")


def _indices(item: Any, length: int) -> IntArray:
    try:
        array = np.asarray(item)
    except ValueError as error:
        raise IndexError(f"{item!r} is not a list of indices ({error})") from error
    if array.dtype == bool:
        if array.shape != (length,):
            raise IndexError(f"a mask of shape {array.shape} does not fit an axis of length {length}")
        return np.flatnonzero(array)
    if not array.size:  # `[]` has the type float64 in NumPy
        return np.zeros(0, np.intp)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise IndexError(f"indices must be a list of integers, not {array.dtype} of {array.ndim} dimensions")
    outside = (array < -length) | (array >= length)
    if outside.any():
        raise _out_of_range(int(array[outside][0]), length)
    # zarr 2 and 3.1 make floats of unsigned indices of 64 bits, and refuse those
    indices = array.astype(np.intp)
    return np.where(indices < 0, indices + length, indices)


class Overlap(NamedTuple):
    """The part of a selection that is in one chunk."""

    chunk: tuple[int, ...]
    """Index of the chunk."""
    inner: tuple[slice | IntArray, ...]
    """Positions in the chunk, on each axis."""
    outer: tuple[slice | IntArray, ...]
    """Positions in the result."""


def overlaps(axes: Sequence[Axis], chunks: tuple[int, ...]) -> Iterator[Overlap]:
    """Return the part of a selection in each chunk of an array with chunks of that shape."""
    # products of the parts on each axis, without a loop in Python for each chunk
    parts = [list(axis.parts(chunk)) for axis, chunk in zip(axes, chunks, strict=True)]
    numbers = itertools.product(*[[part[0] for part in on_axis] for on_axis in parts])
    inner = itertools.product(*[[part[1] for part in on_axis] for on_axis in parts])
    outer = itertools.product(*[[part[2] for part in on_axis] for on_axis in parts])
    return map(Overlap, numbers, inner, outer)


def separately(parts: Sequence[slice | IntArray], shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return an index that applies lists of positions to each axis of ``shape`` separately.

    Slices stay slices where that is possible, since they do not copy.
    """
    if sum(isinstance(part, np.ndarray) for part in parts) <= 1:
        return tuple(parts)
    lists = (np.arange(n)[part] if isinstance(part, slice) else part for part, n in zip(parts, shape, strict=True))
    return np.ix_(*lists)


def copy_part(
    source: npt.NDArray[Any],
    inner: Sequence[slice | IntArray],
    target: npt.NDArray[Any],
    outer: Sequence[slice | IntArray],
) -> None:
    """Copy ``source[inner]`` to ``target[outer]``, with lists of positions applied to each axis separately."""
    target[separately(outer, target.shape)] = source[separately(inner, source.shape)]
