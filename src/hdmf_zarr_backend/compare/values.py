"""Which elements of two arrays differ: equality of elements of every type, and the blocks in which they are read."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.compare.differences import Difference
from hdmf_zarr_backend.mapping.facts import DatasetFacts, ElementType, Selection, Values

__all__ = ["BLOCK_BYTES", "Findings", "aligned", "compare_values"]

BLOCK_BYTES = 8 * 2**20

_Mask: TypeAlias = npt.NDArray[np.bool_]

_SPECIFICATIONS = "/specifications/"
_NUMBERS = frozenset({"int", "uint", "float", "complex", "bool", "enum", "bitfield"})
_REFERENCES = frozenset({"reference", "region"})
_OBJECT_BYTES = 512  # what an element that becomes a Python object is reckoned to take, when blocks are cut


def compare_values(path: str, a: DatasetFacts, b: DatasetFacts) -> Iterator[Difference]:
    """Yield what differs between the values of two datasets, one finding for values and one for references.

    Raises
    ------
    ZarrBackendError
        Values cannot be read.
    """
    if not aligned(a.shape, b.shape):
        return
    as_json = path.startswith(_SPECIFICATIONS) and a.dtype.kind == b.dtype.kind == "text"
    found = Findings(a.dtype, b.dtype)
    for selection in _blocks(a, b):
        left = a.read(selection)
        right = b.read(selection if a.shape == b.shape else tuple(slice(0, 1) for _ in b.shape or ()))
        if as_json:
            left, right = _canonical_json(left), _canonical_json(right)
        found.add(left, right, tuple(part.start for part in selection))
    for kind, (count, place, item_a, item_b) in found.by_kind.items():
        yield Difference(path, kind, item_a, item_b, place=place, count=count)


def aligned(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> bool:
    """Tell whether the elements of two shapes belong together: the shapes are equal, or each has one element."""
    return a is not None and b is not None and (a == b or math.prod(a) == math.prod(b) == 1)


def _blocks(a: DatasetFacts, b: DatasetFacts) -> Iterator[Selection]:
    """Cut a dataset into whole chunks, of the file with the larger ones, as many as fit into `BLOCK_BYTES`."""
    shape = a.shape or ()
    grids = [facts.grid or facts.chunks for facts in (a, b) if facts.shape == shape]
    known = [grid for grid in grids if grid is not None]
    chunks = max(known, key=math.prod, default=(1,) * len(shape))
    block = [min(chunk, length) for chunk, length in zip(chunks, shape, strict=True)]
    if 0 in block:
        return
    element = max(_element_bytes(a.dtype), _element_bytes(b.dtype))
    for axis in reversed(range(len(shape))):
        block[axis] = min(shape[axis], block[axis] * max(1, BLOCK_BYTES // (math.prod(block) * element)))
        if block[axis] < shape[axis]:
            break
    steps = [range(0, length, size) for length, size in zip(shape, block, strict=True)]
    for corner in _corners(steps):
        yield tuple(
            slice(start, min(start + size, length)) for start, size, length in zip(corner, block, shape, strict=True)
        )


def _corners(steps: Sequence[range]) -> Iterator[tuple[int, ...]]:
    """Yield what `itertools.product` does, which makes lists of all of them first, however many there are."""
    if not steps:
        yield ()
        return
    for start in steps[0]:
        for rest in _corners(steps[1:]):
            yield start, *rest


def _element_bytes(dtype: ElementType) -> int:
    if dtype.fields:
        return sum(_element_bytes(member) for _, member in dtype.fields)
    if dtype.kind == "array" and dtype.base is not None:
        return math.prod(dtype.shape) * _element_bytes(dtype.base)
    return (dtype.size or 0) + (0 if dtype.kind in _NUMBERS | {"datetime"} else _OBJECT_BYTES)


def _canonical_json(values: Values) -> Values:
    made = np.empty(values.size, dtype=object)
    for index, text in enumerate(values.flat):
        try:
            made[index] = json.dumps(json.loads(text), sort_keys=True)
        except (ValueError, RecursionError):  # no JSON, or nested too deep: compared as the text that it is
            made[index] = text
    return made.reshape(values.shape)


class Findings:
    """What differs between two arrays given block by block: by kind, a count and the first place with both values."""

    def __init__(self, a: ElementType, b: ElementType) -> None:
        self._types = a, b
        self.by_kind: dict[str, tuple[int, str, object, object]] = {}

    def add(self, left: Values, right: Values, origin: tuple[int, ...] = ()) -> None:
        """Compare a block of each, the first element of which lies at `origin`."""
        if left.size != right.size or not left.size:
            return  # told by shape or dtype
        rows: dict[str, _Mask] = {}
        for kind, field, a, b, unequal in _columns(left, right.reshape(left.shape), *self._types):
            mask = unequal(a, b)
            if not mask.any():
                continue
            if kind not in self.by_kind:
                first = np.unravel_index(int(mask.argmax()), mask.shape)
                index = [int(i) + start for i, start in zip_longest(first, origin, fillvalue=0)]
                self.by_kind[kind] = (0, (f"{index}" if index else "") + field, _item(a[first]), _item(b[first]))
            elements = np.asarray(mask.any(axis=tuple(range(left.ndim, mask.ndim))))
            rows[kind] = rows[kind] | elements if kind in rows else elements
        for kind, elements in rows.items():
            count, place, item_a, item_b = self.by_kind[kind]
            self.by_kind[kind] = (count + int(np.count_nonzero(elements)), place, item_a, item_b)


# --------------------------------------------------------------------------------- equality of elements


def _columns(
    a: Values, b: Values, type_a: ElementType, type_b: ElementType, field: str = ""
) -> Iterator[tuple[str, str, Values, Values, Callable[[Values, Values], _Mask]]]:
    """Take two arrays apart into plain columns: kind of finding, name of the column, values, what compares them."""
    if type_a.kind == type_b.kind == "compound":
        others = dict(type_b.fields)
        for name, member in type_a.fields:
            if name in others:
                yield from _columns(a[name], b[name], member, others[name], f"{field}[{name!r}]")
    elif type_a.kind == type_b.kind == "array":
        if type_a.shape == type_b.shape and type_a.base is not None and type_b.base is not None:
            yield from _columns(a, b, type_a.base, type_b.base, field)
    elif (unequal := _comparison(type_a, type_b)) is not None:
        inner = type_a
        while inner.base is not None:
            inner = inner.base
        yield "reference" if inner.kind in _REFERENCES else "value", field, a, b, unequal


def _comparison(a: ElementType, b: ElementType) -> Callable[[Values, Values], _Mask] | None:
    if a.kind in _NUMBERS and b.kind in _NUMBERS:
        return _unequal_numbers
    if a.kind in _REFERENCES and b.kind in _REFERENCES:
        return _unequal_objects
    if a.kind != b.kind:
        return None
    if a.kind == "datetime":
        return _unequal_times
    if a.kind == "sequence" and a.base is not None and b.base is not None:
        return partial(_unequal_sequences, a.base, b.base)
    return _unequal_objects


def _unequal_numbers(a: Values, b: Values) -> _Mask:
    if a.dtype == b.dtype and np.array_equal(np.ravel(a).view(np.uint8), np.ravel(b).view(np.uint8)):
        return np.zeros(a.shape, dtype=np.bool_)
    if "c" in {a.dtype.kind, b.dtype.kind}:
        return _unequal_numbers(a.real, b.real) | _unequal_numbers(a.imag, b.imag)
    unequal: _Mask = np.asarray(a != b)
    if a.dtype.kind == b.dtype.kind == "f":
        unequal &= ~(np.isnan(a) & np.isnan(b))
        unequal |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    elif "f" in {a.dtype.kind, b.dtype.kind}:
        # numpy compares as floats, in which large integers are rounded
        common = np.result_type(a, b)
        integers = a if b.dtype.kind == "f" else b
        with np.errstate(invalid="ignore"):
            unequal |= integers.astype(common).astype(integers.dtype) != integers
    return unequal


def _unequal_times(a: Values, b: Values) -> _Mask:
    return np.asarray((a != b) & ~(np.isnat(a) & np.isnat(b)))


def _unequal_objects(a: Values, b: Values) -> _Mask:
    return np.asarray(a != b, dtype=np.bool_)


def _unequal_sequences(base_a: ElementType, base_b: ElementType, a: Values, b: Values) -> _Mask:
    unequal = np.zeros(a.size, dtype=np.bool_)
    for index, (item_a, item_b) in enumerate(zip(a.flat, b.flat, strict=True)):
        found = Findings(base_a, base_b)
        found.add(item_a, item_b)
        unequal[index] = item_a.shape != item_b.shape or bool(found.by_kind)
    return unequal.reshape(a.shape)


def _item(value: Any) -> object:
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value
