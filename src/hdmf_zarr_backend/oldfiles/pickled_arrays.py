"""NumPy dtypes and arrays from the parts that a pickle states, checked and within limits.

dtypes are rebuilt from checked parts by ``numpy.dtype``, arrays by NumPy's validating constructors; the dtype flags
in the file are ignored, and an object is never made from raw bytes.

Source: ``__reduce__`` of ``numpy.ndarray``, ``numpy.dtype`` and ``numpy.generic`` in NumPy 1.23 to 2.5 for what they
pickle.
"""

from __future__ import annotations

import re
from math import prod
from typing import Any, Final, Literal, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
T = TypeVar("T")

# Freeing an array of objects that is inside another recurses in C, and CPython does not stop that in time when there
# are containers between them. So both ways of nesting are limited; a chunk of rows with ragged values nests two arrays.
_MAX_ARRAY_DEPTH: Final = 4
_MAX_HOLDERS: Final = 100  # arrays, or fields of them, that have lists, tuples or dictionaries as elements
_MAX_DTYPE_DEPTH: Final = 16
_MAX_FIELDS: Final = 1024
FIELD_COST: Final = 16  # a field of a dtype takes the time and memory of that many elements
_MAX_RANK: Final = 32


class UnsafePickleError(ValueError):
    """A pickle is not read: it holds more than data, is damaged, or is too large. Nothing of it was run.

    Parameters
    ----------
    reason : str
        What was found, and at which byte.
    damaged : bool
        Whether the bytes are not a complete pickle (cut short, changed), rather than one that is refused.
    """

    def __init__(self, reason: str, *, damaged: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.damaged = damaged


def refuse(reason: str, *, damaged: bool = False) -> NoReturn:
    """Raise `UnsafePickleError`."""
    raise UnsafePickleError(reason, damaged=damaged)


def checked(value: Any, kind: type[T]) -> T:
    """Return ``value`` if it is exactly of the type that NumPy and hdmf-zarr write here; refuse it otherwise."""
    if type(value) is not kind:
        refuse(f"a {type(value).__name__} in place of a {kind.__name__.lower()}")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    shape = checked(value, tuple)
    if len(shape) > _MAX_RANK or any(checked(length, int) < 0 for length in shape):
        refuse("not the shape of an array", damaged=True)
    return shape


# --- dtypes ---------------------------------------------------------------------------------------------------------


class Dtype:
    """A dtype of the pickle; ``numpy.dtype(text)`` makes it, one BUILD completes it.

    ``leaves`` counts the plain fields at all levels: a few bytes can describe 2**50 of them.
    """

    __slots__ = ("complete", "depth", "dtype", "leaves")

    def __init__(self, text: str) -> None:
        self.dtype: np.dtype[Any] = np.dtype("O" if text[0] == "O" else text)
        self.leaves = 1
        self.depth = 0
        self.complete = False

    def build(self, state: Any) -> None:
        """Apply the state: version, byte order, subarray, names, fields, size, alignment, flags, metadata."""
        if self.complete or type(state) is not tuple or len(state) not in (8, 9) or type(state[1]) is not str:
            refuse("the state of a dtype is not one that NumPy writes")
        _, order, base, names, fields, size, *_ = state
        if names is not None:
            self._structure(names, fields)
        elif base is not None:
            self._subarray(base)
        elif self.dtype.kind in "mM":
            self._unit(state[8:])
        self._set_order(order)
        if type(size) is not int or size not in (-1, self.dtype.itemsize):
            refuse("the size of a dtype is not the one that it states")
        self.complete = True

    def _set_order(self, order: str) -> None:
        if order in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(order)  # type: ignore[arg-type]
        elif order not in ("|", "="):
            refuse(f"the byte order {order[:9]!r}")

    def _structure(self, names: Any, fields: Any) -> None:
        if type(names) is not tuple or type(fields) is not dict or not 0 < len(names) == len(fields) <= _MAX_FIELDS:
            refuse("the fields of a dtype are not those that it names")
        parts = [checked(fields.get(checked(name, str)), tuple) for name in names]
        if any(len(part) != 2 for part in parts):
            refuse("a field of a dtype is not a type and an offset")
        types = [checked(part[0], Dtype) for part in parts]
        self._nest(types)
        size = self.dtype.itemsize
        layout = {
            "names": list(names),
            "formats": [field.dtype for field in types],
            "offsets": [checked(part[1], int) for part in parts],
            "itemsize": size,
        }
        self.dtype = np.dtype(layout)  # type: ignore[call-overload]  # refuses overlapping objects and bad offsets

    def _subarray(self, base: Any) -> None:
        if type(base) is not tuple or len(base) != 2:
            refuse("the base of a subarray dtype is not a type and a shape")
        element = checked(base[0], Dtype)
        if element.dtype.hasobject:
            refuse("a subarray of objects")
        self._nest([element])
        self.dtype = np.dtype((element.dtype, _shape(base[1])))

    def _nest(self, parts: list[Dtype]) -> None:
        self.leaves = sum(part.leaves for part in parts)
        self.depth = 1 + max(part.depth for part in parts)
        if self.leaves > _MAX_FIELDS or self.depth > _MAX_DTYPE_DEPTH:
            refuse("a dtype of more fields or levels than any file needs")

    def _unit(self, metadata: tuple[Any, ...]) -> None:
        if not metadata or type(metadata[0]) is not tuple or len(metadata[0]) != 2 or type(metadata[0][1]) is not tuple:
            refuse("a date dtype without its unit")
        unit, *numbers = metadata[0][1]
        count, *rest = [checked(number, int) for number in numbers]
        if checked(unit, bytes) not in _UNITS or not 0 < count < 2**31 or rest != [1, 1]:
            refuse("a date dtype of an unknown unit")
        text = "" if unit == b"generic" else f"[{count}{unit.decode()}]"
        self.dtype = np.dtype(self.dtype.str[1:3] + text)


DTYPE_TEXT: Final = re.compile(r"[biufcSUVmMO][0-9]{1,9}", re.ASCII)
_UNITS: Final = frozenset(b"Y M W D h m s ms us ns ps fs as generic".split())
# What the fields of a structured array with objects are pickled as, by kind of field.
_FIELD_TYPES: Final[dict[str, frozenset[type]]] = {
    "b": frozenset({bool}),
    "i": frozenset({int}),
    "u": frozenset({int}),
    "f": frozenset({float, np.longdouble}),
    "S": frozenset({bytes}),
    "U": frozenset({str}),
    "V": frozenset({bytes}),
}


def _fill_subarrays(view: Array, values: list[Any]) -> None:
    """Set a subarray field: one array for each row."""
    for value in values:
        if type(value) is not np.ndarray or value.dtype != view.dtype or value.shape != view.shape[1:]:
            refuse("a subarray that is not of its type", damaged=True)
    view[:] = np.stack(values) if values else 0


def _check_bytes(array: Array) -> None:
    """Refuse bytes that NumPy takes on trust: a truth value that is neither 0 nor 1, a character beyond Unicode."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _check_bytes(array[name])
    elif dtype.kind == "b" and np.any(array.view(np.uint8) > 1):
        refuse("a truth value that is neither 0 nor 1", damaged=True)
    elif dtype.kind == "U" and array.size and dtype.itemsize:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if np.any(codes > 0x10FFFF):
            refuse("a character that Unicode does not have", damaged=True)


# --- arrays ---------------------------------------------------------------------------------------------------------


class Arrays:
    """Arrays and NumPy scalars from checked parts, within limits.

    Wrong numbers of arguments are a TypeError, which `loads_data` reports as a damaged pickle.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._items_left = max_items
        self._bytes_left = max_bytes
        self._holders = 0
        self._depths: dict[int, tuple[int, Any]] = {}  # by id of an array of objects, which this keeps alive

    def spend(self, items: int, nbytes: int) -> None:
        """Count elements and bytes that one opcode can multiply, before they are allocated."""
        self._items_left -= items
        self._bytes_left -= nbytes
        if self._items_left < 0 or self._bytes_left < 0:
            refuse("the arrays need more memory than a pickle of this length may need")

    def array(self, state: Any) -> Array:
        """Return the array of a BUILD: version 1, shape, dtype, Fortran order, bytes or list of objects."""
        if type(state) is not tuple or len(state) != 5 or type(state[0]) is not int or state[0] != 1:
            refuse("the state of an array is not one that NumPy writes")
        _, shape, dtype, fortran, values = state
        order: Literal["C", "F"] = "F" if fortran is True else "C"
        if not checked(dtype, Dtype).dtype.hasobject:
            return self._plain(values, dtype, shape, order)
        count = prod(_shape(shape))
        if len(checked(values, list)) != count:
            refuse(f"{len(values)} objects for {count} elements", damaged=True)
        self.spend(count * dtype.leaves, count * dtype.dtype.itemsize)
        flat: Array = np.zeros(count, dtype.dtype)
        depth = 1 + self._fill(flat, values)
        if depth > _MAX_ARRAY_DEPTH:
            refuse("object arrays too deep in each other")
        array = flat.reshape(shape)
        if order == "F":
            array = array.copy(order)
        self._depths[id(array)] = depth, array
        return array

    def from_buffer(self, buffer: Any, dtype: Any, shape: Any, order: Any) -> Array:
        """``_frombuffer(bytes, dtype, shape, "C")``: an array without objects, protocol 5."""
        if checked(order, str) not in ("C", "F"):
            refuse("an array that is neither C nor F ordered")
        return self._plain(buffer, dtype, shape, order)

    def scalar(self, dtype: Any, value: Any) -> Any:
        """``scalar(dtype, bytes)``; rows with objects have a rank-0 array in place of the bytes."""
        kind = checked(dtype, Dtype).dtype
        if not kind.hasobject:
            return self._plain(value, dtype, (), "C")[()]
        if kind.names is None or type(value) is not np.ndarray or value.shape != () or value.dtype != kind:
            refuse("a scalar that is not of its type")
        row = value[()]
        self._depths[id(row)] = self._depths[id(value)][0], row
        return row

    def _plain(self, values: Any, dtype: Any, shape: Any, order: Literal["C", "F"]) -> Array:
        """Return an array without objects; the bytes are as many as it takes."""
        kind = checked(dtype, Dtype).dtype
        count = prod(_shape(shape))
        if kind.hasobject or kind.subdtype is not None:
            refuse("objects or subarrays from bytes")
        if len(checked(values, bytes)) != count * kind.itemsize:
            refuse(f"{len(values)} bytes for {count} elements of {kind.itemsize}", damaged=True)
        self.spend(0 if kind.itemsize else count, len(values))
        if not values:
            return np.zeros(shape, kind, order)
        array = np.frombuffer(bytearray(values), kind).reshape(shape, order=order)
        _check_bytes(array)
        return array

    def _fill(self, view: Array, values: list[Any]) -> int:
        """Set the elements of an array, field by field; return the depth of the arrays among its objects."""
        if view.ndim > 1:
            _fill_subarrays(view, values)
        elif view.dtype.names is not None:
            width = len(view.dtype.names)
            if not all(type(row) is tuple and len(row) == width for row in values):
                refuse("a row that does not have its fields", damaged=True)
            return max(
                self._fill(view[name], [row[place] for row in values]) for place, name in enumerate(view.dtype.names)
            )
        elif view.dtype.kind == "O":
            view[:] = np.fromiter(values, object, len(values))
            return self._depth(values)
        else:
            if not _FIELD_TYPES.get(view.dtype.kind, frozenset()).issuperset(map(type, values)):
                refuse("a value that is not of the type of its field", damaged=True)
            with np.errstate(all="ignore"):  # a float that a narrow field cannot hold is its infinity
                view[:] = np.array(values, view.dtype)
        return 0

    def _depth(self, values: list[Any]) -> int:
        """Return the depth of the arrays among the elements of an object array."""
        kinds = set(map(type, values))
        if not kinds.isdisjoint((list, tuple, dict)):  # which may hold arrays, now or later
            self._holders += 1
            if self._holders > _MAX_HOLDERS:
                refuse("too many arrays of lists or dictionaries")
        if kinds.isdisjoint((np.ndarray, np.void)):
            return 0
        return max(self._depths.get(id(value), (0, None))[0] for value in values)
