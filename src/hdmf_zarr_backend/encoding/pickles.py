"""`loads_data`: reads pickles that hold only data, such as the reference and compound chunks of hdmf-zarr 0.1 to 0.13.

Those releases stored object references, compound rows and, up to 0.8, scalar text with numcodecs' ``pickle`` filter,
which writes the highest protocol of Python, 4 or 5; protocols 0 to 2 are refused. A pickle is a program for a stack
machine. Python's unpickler runs it here in three steps, none of which runs anything that the file names:

1. `_program` goes through the opcodes once. It refuses those that build no data, and memo indices and integers that
   take more memory than the file has: the unpickler would allocate a memo of 2**31 entries for five bytes. It puts
   `Items` in place of dictionaries, because the unpickler hashes any key: a deep tuple overflows the C stack, and
   chosen integers take quadratic time.
2. The unpickler builds lists, tuples and text, and stand-ins for all else: a name becomes a `Name`, which only records
   the arguments that it is called with. An opcode can reach no class, function or array of Python or NumPy.
3. `_Reader` makes data of the stand-ins, within limits whatever the file states, and refuses everything else. dtypes
   are rebuilt from checked parts by ``numpy.dtype``, arrays by NumPy's validating constructors; the dtype flags in the
   file are ignored, and an object is never made from raw bytes. The result is finite and shallow, so that code which
   walks through it recursively is safe too.

Source: Python's ``pickletools`` for the opcodes, ``Modules/_pickle.c`` for what they do; ``__reduce__`` of
``numpy.ndarray``, ``numpy.dtype`` and ``numpy.generic`` in NumPy 1.23 to 2.5; chunks of hdmf-zarr 0.2, 0.8 and 0.13.
"""

from __future__ import annotations

import io
import pickle
import pickletools
import re
from itertools import islice
from math import prod
from typing import Any, Final, Literal, NamedTuple, NoReturn, Self, TypeVar

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.model.element import check_characters

__all__ = ["PickleLimitError", "UnsafePickleError", "loads_data"]

Array = npt.NDArray[Any]
T = TypeVar("T")

MAX_ITEMS: Final = 10_000_000
_LEAST_PROTOCOL: Final = 3
_FREE_BYTES: Final = 1 << 28  # arrays may take this much, and four times what the pickle has
_MAX_INT_BITS: Final = 8192  # below the 4300 digits that Python converts to text (`sys.set_int_max_str_digits`)
_MAX_DEPTH: Final = 100  # lists in lists, arrays in arrays: well below Python's own recursion limit
_MAX_DTYPE_DEPTH: Final = 16
_MAX_FIELDS: Final = 1024
_FIELD_COST: Final = 16  # a field of a dtype takes the time and memory of that many elements
_MAX_RANK: Final = 32
_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_ERRORS: Final = (pickle.UnpicklingError, EOFError, ValueError, TypeError, LookupError, AttributeError, OverflowError)
"""What the unpickler raises for something that is not a pickle, and NumPy for parts that it refuses."""


class UnsafePickleError(ValueError):
    """A pickle is not read: it holds more than data, is too large, or is ``damaged``. Nothing of it was run."""

    def __init__(self, reason: str, *, damaged: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.damaged = damaged


class PickleLimitError(UnsafePickleError):
    """A pickle is too large to be read safely; it may hold nothing but data."""


def refuse(reason: str, *, damaged: bool = False) -> NoReturn:
    """Raise `UnsafePickleError`."""
    raise UnsafePickleError(reason, damaged=damaged)


def _checked(value: Any, kind: type[T]) -> T:
    """Return ``value`` if it is exactly of the type that NumPy and hdmf-zarr write here; refuse it otherwise."""
    if type(value) is not kind:
        refuse(f"a {type(value).__name__} in place of a {kind.__name__}")
    return value


def loads_data(buffer: bytes | memoryview, *, max_items: int = MAX_ITEMS, max_bytes: int | None = None) -> Any:
    """Return the data of a pickle of protocol 3, 4 or 5."""
    data = bytes(buffer)
    reader = _Reader(max_items, _FREE_BYTES + 4 * len(data) if max_bytes is None else max_bytes)
    try:
        return reader.read(_Unpickler(io.BytesIO(_program(data, max_items))).load(), 0).value
    except UnsafePickleError as error:
        raise type(error)(error.reason[:250], damaged=error.damaged) from error
    except _ERRORS as error:
        raise UnsafePickleError(f"{type(error).__name__}: {error}"[:250], damaged=True) from error


# --- opcodes ---------------------------------------------------------------------------------------------------------

_KEPT: Final = frozenset(".(GJKMNR]XBC)abcehjstu\x80\x81\x85\x86\x87\x88\x89\x8a\x8c\x8d\x8e\x93")
_ENTRIES: Final = frozenset("qr\x94")  # of the memo
_REPLACED: Final = {
    "}": (b"cd\nd\n)R", 1), "\x96": (pickle.BINBYTES8, 1), "\x95": (b"", 9),  # BYTEARRAY8; FRAME and its length
}  # fmt: skip
"""Code -> what replaces it in the program, and how many bytes it stands for."""


def _program(data: bytes, max_items: int) -> bytes:
    """Return a pickle whose opcodes build nothing but data, with `Items` in place of dictionaries."""
    parts: list[bytes] = []
    start, entries = 0, 0
    code, pos = "", 0
    argument: Any
    for opcode, argument, position in islice(pickletools.genops(data), max_items):
        code, pos = opcode.code, position or 0
        if not pos and (code != "\x80" or argument < _LEAST_PROTOCOL):
            refuse("it is not of protocol 3, 4 or 5")
        if code in _KEPT:
            continue
        if code in _ENTRIES:  # picklers number them without gaps
            index = entries if argument is None else argument
            if not 0 <= index <= entries:
                refuse(f"memo index {index} after {entries} entries")
            entries = max(entries, index + 1)
        elif code in _REPLACED:
            parts += data[start:pos], _REPLACED[code][0]
            start = pos + _REPLACED[code][1]
        elif code != "\x8b" or argument.bit_length() > _MAX_INT_BITS:  # LONG4
            refuse(f"opcode {opcode.name} at byte {pos}")
    if code != ".":
        raise PickleLimitError(f"more than {max_items} opcodes")
    if pos + 1 != len(data):
        refuse("STOP is not at the end", damaged=True)
    return b"".join([*parts, data[start:]])


class _Unpickler(pickle.Unpickler):
    """Python's unpickler, for which nothing but stand-ins exists."""

    def find_class(self, module: str, name: str) -> Any:
        known = _NAMES.get((module, name))
        if known is None:
            refuse(f"it names {f'{module[:60]}.{name[:60]}'!r}, which is not data")
        return known


# --- stand-ins: all that opcodes can reach. They have no attributes that an opcode could set ------------------------


class Name:
    """A name in a pickle."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Call:
        return Call(self.name, arguments)

    def __setstate__(self, _state: Any) -> None:
        refuse("a state for a name")


class Call:
    """A call of a name, and the state that follows it."""

    __slots__ = ("arguments", "name", "state")

    def __init__(self, name: str, arguments: tuple[Any, ...]) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        if self.state is not None:
            refuse("a second state of an array or a dtype")
        self.state = state


class Items(dict[str, Any]):
    """A dictionary, whose keys are text: the hash of anything else from a file may take any time, or crash."""

    __slots__ = ("state",)

    def __new__(cls) -> Self:  # a call with arguments would hash what is in them
        return super().__new__(cls)

    def __setitem__(self, key: str, value: Any) -> None:
        if type(key) is not str:
            refuse("a dictionary key that is not text")
        dict.__setitem__(self, key, value)

    def __setstate__(self, state: Any) -> None:
        refuse("a state for a dictionary")


class Reference(Items):
    """A ``ZarrReference`` of hdmf-zarr, which is a dictionary."""

    __slots__ = ()

    def __setstate__(self, state: Any) -> None:
        if hasattr(self, "state"):
            refuse("a second state of a reference")
        self.state = _checked(state, Items)


# The pickled chunks of 111 converted files name four things only: `_reconstruct`, `ndarray`, `dtype`, `ZarrReference`.
# The others are those of other protocols and other releases of NumPy.
_NAMES: Final[dict[tuple[str, str], Any]] = {
    ("d", "d"): Items,  # of `_program`
    ("numpy", "ndarray"): Name("ndarray"),
    ("numpy", "dtype"): Name("dtype"),
    ("hdmf_zarr.utils", "ZarrReference"): Reference,
    ("builtins", "bytes"): Name("bytes"),  # dtype metadata of h5py
    ("builtins", "str"): Name("str"),
}
for _core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
    _NAMES[_core + ".multiarray", "_reconstruct"] = Name("array")
    _NAMES[_core + ".multiarray", "scalar"] = Name("scalar")
    # Protocol 5 has arrays of numbers inside objects like this.
    _NAMES[_core + ".numeric", "_frombuffer"] = Name("buffer")


# --- data ------------------------------------------------------------------------------------------------------------


class _Data(NamedTuple):
    """A value, the number of values in it, with shared ones as often as they occur, and how deep it is."""

    value: Any
    size: int
    depth: int


class _Dtype(NamedTuple):
    """A dtype; ``leaves`` counts the plain fields at all levels: a few bytes can describe 2**50 of them."""

    dtype: np.dtype[Any]
    leaves: int = 1


class _Reader:
    """Makes data of stand-ins, within limits.

    A part that occurs in several places is made once, and counted as often as it occurs, so that code which does not
    know of the sharing (a comparison, a text form, a JSON encoder) stays within the limits too.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._max_items = max_items
        self._items_left = max_items
        self._bytes_left = max_bytes
        # By id, since the pickle keeps all parts alive. None: it is being read, so it contains itself.
        self._made: dict[int, _Data | None] = {}
        self._dtypes: dict[int, _Dtype] = {}

    def read(self, value: Any, level: int) -> _Data:
        """Return the data of what the unpickler has built, so many levels deep in it."""
        data = self._made.get(id(value))
        if data is None:
            if id(value) in self._made:
                refuse("it contains itself")
            if level > _MAX_DEPTH:
                refuse(f"more than {_MAX_DEPTH} levels")
            self._made[id(value)] = None
            self._made[id(value)] = data = self._data(value, level)
        if data.size > self._max_items:
            raise PickleLimitError(f"more than {self._max_items} values")
        if level + data.depth > _MAX_DEPTH:
            refuse(f"more than {_MAX_DEPTH} levels")
        return data

    def _data(self, value: Any, level: int) -> _Data:
        kind = type(value)
        if kind in _PLAIN:
            return _Data(value, 0, 0)
        if kind in (list, tuple):
            return self._sequence(value, kind, level)
        if kind in (Items, Reference):
            return self._items(value, level)
        if kind is not Call or value.name not in _CALLS:
            refuse(f"a name in place of data: {getattr(value, 'name', kind.__name__)}")
        return _CALLS[value.name](self, value, level)

    def _sequence(self, value: Any, kind: Any, level: int) -> _Data:
        parts, size, depth = [], len(value), 0
        for part in value:
            if type(part) in _PLAIN:
                parts.append(part)
                continue
            data = self.read(part, level + 1)
            parts.append(data.value)
            size += data.size
            depth = max(depth, data.depth)
        return _Data(kind(parts), size, 1 + depth)

    def _items(self, value: Items, level: int) -> _Data:
        state: dict[str, Any] = getattr(value, "state", {})  # a ZarrReference has attributes in place of items
        if not state and _PLAIN.issuperset(map(type, value.values())):
            return _Data(dict(value), len(value), 1)
        self._spend(len(state), 0)
        items = {**state, **value}
        data = self._sequence(items.values(), list, level)
        return data._replace(value=dict(zip(items, data.value, strict=True)))

    def _spend(self, items: int, nbytes: int) -> None:
        """Count elements and bytes that one opcode can multiply, before they are allocated."""
        self._items_left -= items
        self._bytes_left -= nbytes
        if self._items_left < 0 or self._bytes_left < 0:
            raise PickleLimitError("the arrays need more memory than a pickle of this length may need")

    # --- calls ---

    def _array(self, call: Call, level: int) -> _Data:
        """``_reconstruct(ndarray, (0,), b"b")``; the state has version 1, shape, dtype, order, bytes or objects."""
        kind, shape, _typecode = call.arguments
        if type(kind) is not Name or kind.name != "ndarray" or type(shape) is not tuple:
            refuse("an array of a class other than ndarray")
        if call.state is None:
            refuse("an unfinished array in place of data")
        if type(call.state) is not tuple or len(call.state) != 5 or call.state[0] != 1:
            refuse("the state of an array is not one that NumPy writes")
        _, shape, dtype, fortran, values = call.state
        order: Literal["C", "F"] = "F" if fortran is True else "C"
        kind = self._dtype(dtype)
        if not kind.dtype.hasobject:
            return self._numbers(values, kind, shape, order)
        count = prod(_shape(shape))
        if len(_checked(values, list)) != count:
            refuse(f"{len(values)} objects for {count} elements", damaged=True)
        self._spend(count * kind.leaves, count * kind.dtype.itemsize)
        data = self.read(values, level + 1)
        flat: Array = np.zeros(count, kind.dtype)
        _fill(flat, data.value)
        array = flat.reshape(shape)
        return data._replace(value=array.copy("F") if order == "F" else array)

    def _buffer(self, call: Call, _level: int) -> _Data:
        """``_frombuffer(bytes, dtype, shape, "C")``: an array without objects, protocol 5."""
        buffer, dtype, shape, order = call.arguments
        if order not in ("C", "F"):
            refuse("an array that is neither C nor F ordered")
        return self._numbers(buffer, self._dtype(dtype), shape, order)

    def _scalar(self, call: Call, level: int) -> _Data:
        """``scalar(dtype, bytes)``; rows with objects have a rank-0 array in place of the bytes."""
        dtype, value = call.arguments
        kind = self._dtype(dtype)
        if not kind.dtype.hasobject:
            data = self._numbers(value, kind, (), "C")
            return data._replace(value=data.value[()])
        data = self.read(value, level + 1)
        row = data.value
        if kind.dtype.names is None or type(row) is not np.ndarray or row.shape != () or row.dtype != kind.dtype:
            refuse("a scalar that is not of its type")
        return data._replace(value=row[()])

    def _numbers(self, values: Any, kind: _Dtype, shape: Any, order: Literal["C", "F"]) -> _Data:
        """Return an array without objects; the bytes are as many as it takes."""
        dtype = kind.dtype
        count = prod(_shape(shape))
        if dtype.hasobject or dtype.subdtype is not None:
            refuse("objects or subarrays from bytes")
        if len(_checked(values, bytes)) != count * dtype.itemsize:
            refuse(f"{len(values)} bytes for {count} elements of {dtype.itemsize}", damaged=True)
        self._spend(0 if dtype.itemsize else count, len(values))
        if not values:
            return _Data(np.zeros(shape, dtype, order), 0, 0)
        array = np.frombuffer(bytearray(values), dtype).reshape(shape, order=order)
        _check_bytes(array)
        return _Data(array, 0, 0)

    # --- dtypes ---

    def _dtype(self, call: Any, depth: int = 0) -> _Dtype:
        """Return a dtype: ``dtype("V20", False, True)``, whose align and copy mean nothing here, and its state."""
        if type(call) is not Call or call.name != "dtype":
            refuse(f"a {type(call).__name__} in place of a dtype")
        kind = self._dtypes.get(id(call))
        if kind is None:
            if depth > _MAX_DTYPE_DEPTH:
                refuse("a dtype of more fields or levels than any file needs")
            text, *flags = call.arguments
            if _DTYPE_TEXT.fullmatch(_checked(text, str)) is None or not {bool, int}.issuperset(map(type, flags)):
                refuse(f"the dtype {text[:40]!r}")
            kind = _Dtype(np.dtype("O" if text[0] == "O" else text))
            if call.state is not None:
                kind = self._completed(kind, call.state, depth)
            self._spend(_FIELD_COST * kind.leaves, 0)
            self._dtypes[id(call)] = kind
        return kind

    def _completed(self, kind: _Dtype, state: Any, depth: int) -> _Dtype:
        """Apply the state: version, byte order, subarray, names, fields, size, alignment, flags, metadata."""
        if type(state) is not tuple or len(state) not in (8, 9):
            refuse("the state of a dtype is not one that NumPy writes")
        _, order, base, names, fields, size, *_ = state
        if names is not None:
            kind = self._structure(kind, names, fields, depth)
        elif base is not None:
            if type(base) is not tuple or len(base) != 2:
                refuse("the base of a subarray dtype is not a type and a shape")
            element = self._dtype(base[0], depth + 1)
            if element.dtype.hasobject:
                refuse("a subarray of objects")
            kind = _Dtype(np.dtype((element.dtype, _shape(base[1]))), element.leaves)
        elif kind.dtype.kind in "mM":
            kind = _Dtype(_with_unit(kind.dtype, state[8:]))
        if _checked(order, str) in ("<", ">"):
            kind = kind._replace(dtype=kind.dtype.newbyteorder(order))
        elif order not in ("|", "="):
            refuse(f"the byte order {order[:9]!r}")
        if type(size) is not int or size not in (-1, kind.dtype.itemsize):
            refuse("the size of a dtype is not the one that it states")
        return kind

    def _structure(self, kind: _Dtype, names: Any, fields: Any, depth: int) -> _Dtype:
        if type(names) is not tuple or type(fields) is not Items or not 0 < len(names) == len(fields) <= _MAX_FIELDS:
            refuse("the fields of a dtype are not those that it names")
        parts = [_checked(fields.get(_checked(name, str)), tuple) for name in names]
        if any(len(part) != 2 for part in parts):
            refuse("a field of a dtype is not a type and an offset")
        types = [self._dtype(part[0], depth + 1) for part in parts]
        leaves = sum(field.leaves for field in types)
        if leaves > _MAX_FIELDS:
            refuse("a dtype of more fields or levels than any file needs")
        formats, offsets = [field.dtype for field in types], [_checked(part[1], int) for part in parts]
        layout = {"names": list(names), "formats": formats, "offsets": offsets, "itemsize": kind.dtype.itemsize}
        return _Dtype(np.dtype(layout), leaves)  # type: ignore[call-overload]  # refuses overlapping objects


_CALLS: Final = {"array": _Reader._array, "buffer": _Reader._buffer, "scalar": _Reader._scalar}
_DTYPE_TEXT: Final = re.compile(r"[biufcSUVmMO][0-9]{1,9}", re.ASCII)
_UNITS: Final = frozenset(b"Y M W D h m s ms us ns ps fs as generic".split())


def _with_unit(dtype: np.dtype[Any], metadata: tuple[Any, ...]) -> np.dtype[Any]:
    if not metadata or type(metadata[0]) is not tuple or len(metadata[0]) != 2 or type(metadata[0][1]) is not tuple:
        refuse("a date dtype without its unit")
    unit, count, *rest = metadata[0][1]
    if _checked(unit, bytes) not in _UNITS or not 0 < _checked(count, int) < 2**31 or rest != [1, 1]:
        refuse("a date dtype of an unknown unit")
    return np.dtype(dtype.str[1:3] + ("" if unit == b"generic" else f"[{count}{unit.decode()}]"))


def _shape(value: Any) -> tuple[int, ...]:
    shape = _checked(value, tuple)
    if len(shape) > _MAX_RANK or any(_checked(length, int) < 0 for length in shape):
        refuse("not the shape of an array", damaged=True)
    return shape


# --- values of arrays ------------------------------------------------------------------------------------------------

# What the fields of a structured array with objects are pickled as, by kind of field.
_FIELD_TYPES: Final[dict[str, frozenset[type]]] = {
    "b": frozenset({bool}), "i": frozenset({int}), "u": frozenset({int}), "f": frozenset({float, np.longdouble}),
    "S": frozenset({bytes}), "U": frozenset({str}), "V": frozenset({bytes}),
}  # fmt: skip


def _fill(view: Array, values: list[Any]) -> None:
    """Set the elements of an array, field by field."""
    if view.ndim > 1:  # a subarray: one array for each row
        if any(type(v) is not np.ndarray or v.dtype != view.dtype or v.shape != view.shape[1:] for v in values):
            refuse("a subarray that is not of its type", damaged=True)
        view[:] = np.stack(values) if values else 0
    elif view.dtype.names is not None:
        width = len(view.dtype.names)
        if not all(type(row) is tuple and len(row) == width for row in values):
            refuse("a row that does not have its fields", damaged=True)
        for place, name in enumerate(view.dtype.names):
            _fill(view[name], [row[place] for row in values])
    elif view.dtype.kind == "O":
        view[:] = np.fromiter(values, object, len(values))
    else:
        if not _FIELD_TYPES.get(view.dtype.kind, frozenset()).issuperset(map(type, values)):
            refuse("a value that is not of the type of its field", damaged=True)
        with np.errstate(all="ignore"):  # a float that a narrow field cannot hold becomes infinite
            view[:] = np.array(values, view.dtype)


def _check_bytes(array: Array) -> None:
    """Refuse bytes that NumPy takes on trust: a truth value that is neither 0 nor 1, a character beyond Unicode."""
    for name in array.dtype.names or ():
        _check_bytes(array[name])
    if array.dtype.kind == "b" and np.any(array.view(np.uint8) > 1):
        refuse("a truth value that is neither 0 nor 1", damaged=True)
    try:
        check_characters(array)
    except ValueError as error:
        raise UnsafePickleError(str(error), damaged=True) from error
