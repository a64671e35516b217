"""Read pickles that hold data, and refuse all others: the reference and compound chunks of hdmf-zarr 0.1 to 0.13.

Those releases stored object references, compound rows and, up to 0.8, scalar text with numcodecs' ``pickle`` filter.
A pickle is a program for a stack machine, and one that restricts only the *names* which the C unpickler may look up
can still be crashed (a deep tuple as dictionary key overflows the C stack, a crafted dtype makes NumPy take bytes for
pointers, an eight-byte opcode asks for 16 GiB). So this module is a machine of its own:

- It has the opcodes that build data. There is no import: a name is looked up in a table of a dozen names that those
  releases wrote, and stands for one function of this file.
- Dictionary keys are ``str``, so nothing that a file made is ever hashed or compared.
- dtypes are built anew from checked parts by ``numpy.dtype``, arrays by NumPy's validating constructors; the dtype
  flags in the file are ignored, and an object is never made from raw bytes.
- Memory and time are bounded by `loads_data`'s limits, whatever lengths and indices the file states. The result is
  finite and shallow, so that code which walks through it recursively is safe too.

Source: Python's ``pickletools`` for the opcodes; ``__reduce__`` of ``numpy.ndarray``, ``numpy.dtype`` and
``numpy.generic`` in NumPy 1.23 to 2.5 for what they pickle; chunks written by hdmf-zarr 0.2, 0.8 and 0.13.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import repeat
from math import prod
from typing import Any, Final, Literal, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import UsageError

__all__ = ["DataPickle", "UnsafePickleError", "loads_data"]

Array = npt.NDArray[Any]
T = TypeVar("T")

MAX_ITEMS: Final = 10_000_000
_FREE_BYTES: Final = 1 << 28  # arrays may take this much, and four times what the pickle has
_MAX_DEPTH: Final = 100  # lists in lists; far below Python's own recursion limit
# Freeing an array of objects that is inside another recurses in C, and CPython does not stop that in time when there
# are containers between them. So both ways down are short; a chunk of rows with ragged values is two arrays deep.
_MAX_ARRAY_DEPTH: Final = 4
_MAX_HOLDERS: Final = 100  # arrays, or fields of them, that have lists, tuples or dictionaries as elements
_MAX_DTYPE_DEPTH: Final = 16
_MAX_FIELDS: Final = 1024
_FIELD_COST: Final = 16  # a field of a dtype takes the time and memory of that many elements
_MAX_RANK: Final = 32
_MAX_INT_BYTES: Final = 1024  # stays below the 4300 digits that Python turns into text


class UnsafePickleError(ValueError):
    """A pickle is not read: it holds more than data, is damaged, or is too large. Nothing of it was run.

    Parameters
    ----------
    reason : str
        What was met, and at which byte.
    damaged : bool
        Whether the bytes are no whole pickle (cut short, changed), rather than one that asks for too much.
    """

    def __init__(self, reason: str, *, damaged: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.damaged = damaged


def loads_data(buffer: bytes | memoryview, *, max_items: int = MAX_ITEMS, max_bytes: int | None = None) -> Any:
    """Return the data of a pickle, protocols 0 to 5.

    Parameters
    ----------
    buffer : bytes or memoryview
        One whole pickle and nothing after it.
    max_items : int
        The most opcodes that are run and, each on its own, array elements that are made and values that the result
        has when shared parts are counted as often as they occur. 100,000 references take 2 million opcodes. In the
        worst case a pickle takes 100 bytes of memory for each.
    max_bytes : int, optional
        The most bytes of array memory and of copies; by default 256 MiB and four times the length of `buffer`.

    Returns
    -------
    object
        None, bool, int, float, str, bytes, list, tuple, dict with str keys, NumPy scalars and arrays (own, writable
        memory; object elements are again of these types). A ``hdmf_zarr.utils.ZarrReference`` is a plain dict.
        dtype metadata (h5py's notes on strings) are left out.

    Raises
    ------
    UnsafePickleError
        Anything else. No other error is raised for any content of `buffer`.
    """
    data = bytes(buffer)
    machine = _Machine(data, max_items, _FREE_BYTES + 4 * len(data) if max_bytes is None else max_bytes)
    try:
        return _settled(machine.run(), max_items)
    except UnsafePickleError as error:
        reason, damaged = error.reason, error.damaged
        cause: Exception = error
    except IndexError as error:
        reason, damaged = "it ends before STOP, or takes a value that is not there", True
        cause = error
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        # bad text or digits; NumPy's constructors refuse what they are given
        reason, damaged = f"{type(error).__name__}: {error}", True
        cause = error
    where = f"byte {min(machine.pos, len(data))} of {len(data)}"
    raise UnsafePickleError(f"{reason[:250]} ({where})", damaged=damaged) from cause


class DataPickle:
    """The ``pickle`` filter of old files as an object with numcodecs' codec interface; it decodes data only.

    It is not registered with numcodecs: give the object itself to whoever decodes.

    Parameters
    ----------
    protocol : int
        What the file declares; kept for `get_config`, any protocol is read.
    max_items : int
        As for `loads_data`.
    """

    codec_id = "pickle"

    def __init__(self, protocol: int = 5, *, max_items: int = MAX_ITEMS) -> None:
        self.protocol = protocol
        self._max_items = max_items

    def encode(self, buf: Any) -> NoReturn:
        """Raise `UsageError`: pickles are read, never written."""
        raise UsageError(
            "pickles are only read", remedy="Write object arrays with a JSON or variable-length codec instead."
        )

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the data in ``buf``; where ``out`` is given, fill and return it.

        Raises
        ------
        UnsafePickleError
            ``buf`` is no data-only pickle, or does not have as many elements as ``out``.
        """
        value = loads_data(memoryview(buf).tobytes(), max_items=self._max_items)
        if out is None:
            return value
        if not isinstance(value, np.ndarray) or value.size != out.size:
            raise UnsafePickleError(f"the pickle holds no array of {out.size} elements", damaged=True)
        np.copyto(out, value.reshape(out.shape))
        return out

    def get_config(self) -> dict[str, Any]:
        """Return ``{"id": "pickle", "protocol": ...}``, the filter as a document states it."""
        return {"id": self.codec_id, "protocol": self.protocol}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> DataPickle:
        """Return the codec of a configuration, with or without its ``id``."""
        return cls(config.get("protocol", 5))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DataPickle) and self.get_config() == other.get_config()

    def __hash__(self) -> int:
        return hash((self.codec_id, self.protocol))

    def __repr__(self) -> str:
        return f"DataPickle(protocol={self.protocol})"


def _refuse(reason: str, *, damaged: bool = False) -> NoReturn:
    raise UnsafePickleError(reason, damaged=damaged)


def _checked(value: Any, kind: type[T]) -> T:
    """Return ``value``, which is exactly of that type: what is not could not have been written for this place."""
    if type(value) is not kind:
        _refuse(f"a {type(value).__name__} in place of a {kind.__name__.strip('_').lower()}")
    return value


def _shape(value: Any) -> tuple[int, ...]:
    shape = _checked(value, tuple)
    if len(shape) > _MAX_RANK or any(_checked(length, int) < 0 for length in shape):
        _refuse("the shape of no array", damaged=True)
    return shape


# --- names ----------------------------------------------------------------------------------------------------------


class _Name(Enum):
    """What a name in a pickle stands for; never the object of that name."""

    RECONSTRUCT = 1
    SCALAR = 2
    FROMBUFFER = 3
    NDARRAY = 4
    DTYPE = 5
    REFERENCE = 6
    RECONSTRUCTOR = 7
    ENCODE = 8
    DICT = 9
    BYTES = 10
    TEXT = 11


_NAMES: Final = {
    ("numpy", "ndarray"): _Name.NDARRAY,
    ("numpy", "dtype"): _Name.DTYPE,
    ("hdmf_zarr.utils", "ZarrReference"): _Name.REFERENCE,
    ("_codecs", "encode"): _Name.ENCODE,  # bytes, up to protocol 2
}
for _core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
    _NAMES[_core + ".multiarray", "_reconstruct"] = _Name.RECONSTRUCT
    _NAMES[_core + ".multiarray", "scalar"] = _Name.SCALAR
    _NAMES[_core + ".numeric", "_frombuffer"] = _Name.FROMBUFFER  # arrays of numbers inside objects, protocol 5
for _builtins, _copyreg in (("builtins", "copyreg"), ("__builtin__", "copy_reg")):  # Python 3, and 2 up to protocol 2
    _NAMES[_copyreg, "_reconstructor"] = _Name.RECONSTRUCTOR  # ZarrReference, protocols 0 and 1
    _NAMES[_builtins, "dict"] = _Name.DICT
    _NAMES[_builtins, "bytes"] = _Name.BYTES  # empty bytes up to protocol 2, and h5py's dtype metadata
    _NAMES[_builtins, "str"] = _NAMES[_builtins, "unicode"] = _Name.TEXT  # h5py's dtype metadata

_REFERENCE: Final = _Name.REFERENCE
_REFERENCE_KEYS: Final = ("source", "path", "object_id", "source_object_id")


# --- dtypes ---------------------------------------------------------------------------------------------------------


class _Dtype:
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
            _refuse("the state of a dtype is not one that NumPy writes")
        _, order, base, names, fields, size, *_ = state
        if names is not None:
            self._structure(names, fields)
        elif base is not None:
            self._subarray(base)
        elif self.dtype.kind in "mM":
            self._unit(state[8:])
        if order in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(order)
        elif order not in ("|", "="):
            _refuse(f"the byte order {order[:9]!r}")
        if type(size) is not int or size not in (-1, self.dtype.itemsize):
            _refuse("the size of a dtype is not the one that it states")
        self.complete = True

    def _structure(self, names: Any, fields: Any) -> None:
        if type(names) is not tuple or type(fields) is not dict or not 0 < len(names) == len(fields) <= _MAX_FIELDS:
            _refuse("the fields of a dtype are not those that it names")
        parts = [_checked(fields.get(_checked(name, str)), tuple) for name in names]
        if any(len(part) != 2 for part in parts):
            _refuse("a field of a dtype is not a type and an offset")
        types = [_checked(part[0], _Dtype) for part in parts]
        self._nest(types)
        size = self.dtype.itemsize
        layout = {
            "names": list(names),
            "formats": [field.dtype for field in types],
            "offsets": [_checked(part[1], int) for part in parts],
            "itemsize": size,
        }
        self.dtype = np.dtype(layout)  # type: ignore[call-overload]  # refuses overlapping objects and bad offsets

    def _subarray(self, base: Any) -> None:
        if type(base) is not tuple or len(base) != 2:
            _refuse("the base of a subarray dtype is not a type and a shape")
        element = _checked(base[0], _Dtype)
        if element.dtype.hasobject:
            _refuse("a subarray of objects")
        self._nest([element])
        self.dtype = np.dtype((element.dtype, _shape(base[1])))

    def _nest(self, parts: list[_Dtype]) -> None:
        self.leaves = sum(part.leaves for part in parts)
        self.depth = 1 + max(part.depth for part in parts)
        if self.leaves > _MAX_FIELDS or self.depth > _MAX_DTYPE_DEPTH:
            _refuse("a dtype of more fields or levels than any file needs")

    def _unit(self, metadata: tuple[Any, ...]) -> None:
        if not metadata or type(metadata[0]) is not tuple or len(metadata[0]) != 2 or type(metadata[0][1]) is not tuple:
            _refuse("a date dtype without its unit")
        unit, *numbers = metadata[0][1]
        count, *rest = [_checked(number, int) for number in numbers]
        if _checked(unit, bytes) not in _UNITS or not 0 < count < 2**31 or rest != [1, 1]:
            _refuse("a date dtype of an unknown unit")
        text = "" if unit == b"generic" else f"[{count}{unit.decode()}]"
        self.dtype = np.dtype(self.dtype.str[1:3] + text)


_DTYPE_TEXT: Final = re.compile(r"[biufcSUVmMO][0-9]{1,9}", re.ASCII)
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


def _check_bytes(array: Array) -> None:
    """Refuse bytes that NumPy takes on trust: a truth value that is neither 0 nor 1, a character beyond Unicode."""
    dtype = array.dtype
    if dtype.names is not None:
        for name in dtype.names:
            _check_bytes(array[name])
    elif dtype.kind == "b" and np.any(array.view(np.uint8) > 1):
        _refuse("a truth value that is neither 0 nor 1", damaged=True)
    elif dtype.kind == "U" and array.size and dtype.itemsize:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.dtype("u4").newbyteorder(dtype.byteorder))
        if np.any(codes > 0x10FFFF):
            _refuse("a character that Unicode does not have", damaged=True)


# --- arrays ---------------------------------------------------------------------------------------------------------


class _Arrays:
    """Arrays and NumPy scalars out of checked parts, within limits.

    Wrong numbers of arguments are a TypeError, which `loads_data` reports as a damaged pickle.
    """

    def __init__(self, max_items: int, max_bytes: int) -> None:
        self._items_left = max_items
        self._bytes_left = max_bytes
        self._holders = 0
        self._depths: dict[int, tuple[int, Any]] = {}  # by id of an array of objects, which this keeps alive

    def spend(self, items: int, nbytes: int) -> None:
        """Count what one opcode can make many of, before it is made."""
        self._items_left -= items
        self._bytes_left -= nbytes
        if self._items_left < 0 or self._bytes_left < 0:
            _refuse("the arrays need more memory than a pickle of this length may ask for")

    def array(self, state: Any) -> Array:
        """Return the array of a BUILD: version 1, shape, dtype, Fortran order, bytes or list of objects."""
        if type(state) is not tuple or len(state) != 5 or type(state[0]) is not int or state[0] != 1:
            _refuse("the state of an array is not one that NumPy writes")
        _, shape, dtype, fortran, values = state
        order: Literal["C", "F"] = "F" if fortran is True else "C"
        if not _checked(dtype, _Dtype).dtype.hasobject:
            return self._plain(values, dtype, shape, order)
        count = prod(_shape(shape))
        if len(_checked(values, list)) != count:
            _refuse(f"{len(values)} objects for {count} elements", damaged=True)
        self.spend(count * dtype.leaves, count * dtype.dtype.itemsize)
        flat: Array = np.zeros(count, dtype.dtype)
        depth = 1 + self._fill(flat, values)
        if depth > _MAX_ARRAY_DEPTH:
            _refuse("object arrays too deep in each other")
        array = flat.reshape(shape)
        if order == "F":
            array = array.copy(order)
        self._depths[id(array)] = depth, array
        return array

    def from_buffer(self, buffer: Any, dtype: Any, shape: Any, order: Any) -> Array:
        """``_frombuffer(bytes, dtype, shape, "C")``: an array without objects, protocol 5."""
        if _checked(order, str) not in ("C", "F"):
            _refuse("an array that is neither C nor F ordered")
        return self._plain(buffer, dtype, shape, order)

    def scalar(self, dtype: Any, value: Any) -> Any:
        """``scalar(dtype, bytes)``; rows with objects have a rank-0 array in place of the bytes."""
        kind = _checked(dtype, _Dtype).dtype
        if not kind.hasobject:
            return self._plain(value, dtype, (), "C")[()]
        if kind.names is None or type(value) is not np.ndarray or value.shape != () or value.dtype != kind:
            _refuse("a scalar that is not of its type")
        row = value[()]
        self._depths[id(row)] = self._depths[id(value)][0], row
        return row

    def _plain(self, values: Any, dtype: Any, shape: Any, order: Literal["C", "F"]) -> Array:
        """Return an array without objects; the bytes are as many as it takes."""
        kind = _checked(dtype, _Dtype).dtype
        count = prod(_shape(shape))
        if kind.hasobject or kind.subdtype is not None:
            _refuse("objects or subarrays out of bytes")
        if len(_checked(values, bytes)) != count * kind.itemsize:
            _refuse(f"{len(values)} bytes for {count} elements of {kind.itemsize}", damaged=True)
        self.spend(0 if kind.itemsize else count, len(values))
        if not values:
            return np.zeros(shape, kind, order)
        array = np.frombuffer(bytearray(values), kind).reshape(shape, order=order)
        _check_bytes(array)
        return array

    def _fill(self, view: Array, values: list[Any]) -> int:
        """Set the elements of an array, field by field; return how deep the arrays among its objects go."""
        if view.ndim > 1:  # a subarray field: one array for each row
            for value in values:
                if type(value) is not np.ndarray or value.dtype != view.dtype or value.shape != view.shape[1:]:
                    _refuse("a subarray that is not of its type", damaged=True)
            view[:] = np.stack(values) if values else 0
        elif view.dtype.names is not None:
            width = len(view.dtype.names)
            if not all(type(row) is tuple and len(row) == width for row in values):
                _refuse("a row that does not have its fields", damaged=True)
            return max(
                self._fill(view[name], [row[place] for row in values]) for place, name in enumerate(view.dtype.names)
            )
        elif view.dtype.kind == "O":
            view[:] = np.fromiter(values, object, len(values))
            return self._depth(values)
        else:
            if not _FIELD_TYPES.get(view.dtype.kind, frozenset()).issuperset(map(type, values)):
                _refuse("a value that is not of the type of its field", damaged=True)
            with np.errstate(all="ignore"):  # a float that a narrow field cannot hold is its infinity
                view[:] = np.array(values, view.dtype)
        return 0

    def _depth(self, values: list[Any]) -> int:
        """Return how deep the arrays among the elements of an object array go."""
        kinds = set(map(type, values))
        if not kinds.isdisjoint((list, tuple, dict)):  # which may hold arrays, now or later
            self._holders += 1
            if self._holders > _MAX_HOLDERS:
                _refuse("too many arrays of lists or dictionaries")
        if kinds.isdisjoint((np.ndarray, np.void)):
            return 0
        return max(self._depths.get(id(value), (0, None))[0] for value in values)


# --- the machine ----------------------------------------------------------------------------------------------------


class _PendingArray:
    """An array between its REDUCE and its BUILD; it then gives way to the array, on the stack and in the memo."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


_MARK: Final = b"("[0]
_STOP: Final = b"."[0]
_BINGET: Final = b"h"[0]
_SETITEMS: Final = b"u"[0]
_EMPTY_TUPLE: Final = b")"[0]
_NEWOBJ: Final = 0x81
_SHORT_BINUNICODE: Final = 0x8C
_MEMOIZE: Final = 0x94


class _Machine:
    """Stack, memo and limits; `run` holds the most frequent opcodes, `_STEPS` all others."""

    def __init__(self, data: bytes, max_items: int, max_bytes: int) -> None:
        self.data = data
        self.pos = 0
        self.stack: list[Any] = []
        self.waiting: list[list[Any]] = []  # the stacks below each mark
        self.memo: list[Any] = []
        self.max_items = max_items
        self.arrays = _Arrays(max_items, max_bytes)

    def run(self) -> Any:
        """Return the value on the stack at STOP, which is the last byte."""
        data, memo, waiting = self.data, self.memo, self.waiting
        stack = self.stack
        pos = 0
        try:
            for _ in repeat(None, self.max_items):
                code = data[pos]
                pos += 1
                if code == _BINGET:
                    stack.append(memo[data[pos]])
                    pos += 1
                elif code == _MEMOIZE:
                    memo.append(stack[-1])
                elif code == _SHORT_BINUNICODE:
                    end = pos + 1 + data[pos]
                    stack.append(str(data[pos + 1 : end], "utf-8", "surrogatepass"))
                    pos = end
                elif code == _EMPTY_TUPLE and data[pos] == _NEWOBJ and stack[-1] is _REFERENCE:
                    stack[-1] = {}
                    pos += 1
                elif code == _MARK:
                    waiting.append(stack)
                    stack = []
                elif code == _SETITEMS:
                    items, stack = stack, waiting.pop()
                    _set_items(stack[-1], items)
                elif code == _STOP:
                    break
                else:
                    self.pos, self.stack = pos, stack
                    _STEPS[code](self)
                    pos, stack = self.pos, self.stack
            else:
                _refuse(f"more than {self.max_items} opcodes")
        finally:
            self.pos = pos
        if len(stack) != 1 or waiting or pos != len(data):
            _refuse("STOP is not at the end", damaged=True)
        return stack[0]

    def take(self, length: int) -> bytes:
        """Return the next bytes, exactly as many as asked for."""
        start, self.pos = self.pos, self.pos + length
        if self.pos > len(self.data):
            _refuse(f"{length} bytes are announced, {len(self.data) - start} are there", damaged=True)
        return self.data[start : self.pos]

    def number(self, width: int) -> int:
        """Return the next unsigned little-endian integer."""
        return int.from_bytes(self.take(width), "little")

    def line(self) -> bytes:
        """Return the bytes up to the next line feed."""
        end = self.data.find(b"\n", self.pos)
        if end < 0:
            _refuse("a line without an end", damaged=True)
        start, self.pos = self.pos, end + 1
        return self.data[start:end]

    def close(self) -> list[Any]:
        """Return what is above the topmost mark, and remove the mark."""
        items, self.stack = self.stack, self.waiting.pop()
        return items

    def get(self, index: int) -> None:
        """Push a value of the memo."""
        if index < 0:
            _refuse("a negative memo index")
        self.stack.append(self.memo[index])

    def put(self, index: int) -> None:
        """Store the top of the stack; picklers number the memo without gaps."""
        if index == len(self.memo):
            self.memo.append(self.stack[-1])
        elif 0 <= index < len(self.memo):
            self.memo[index] = self.stack[-1]
        else:
            _refuse(f"memo index {index} after {len(self.memo)} entries")

    def reduce(self) -> None:
        """Call the function that a name stands for."""
        arguments = _checked(self.stack.pop(), tuple)
        name = _checked(self.stack.pop(), _Name)
        function = _FUNCTIONS.get(name)
        if function is None:
            _refuse(f"a call of {name.name}")
        self.stack.append(function(self, *arguments))

    def new_object(self) -> None:
        """Make a reference; nothing else has a class."""
        arguments = self.stack.pop()
        if self.stack.pop() is not _REFERENCE or type(arguments) is not tuple or arguments:
            _refuse("an object that is no ZarrReference")
        self.stack.append({})

    def build(self) -> None:
        """Give the object below the top its state."""
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is _Dtype:
            target.build(state)
            self.arrays.spend(_FIELD_COST * target.leaves, 0)
        elif type(target) is _PendingArray:
            array = self.arrays.array(state)
            self.stack[-1] = array
            if target.slot < len(self.memo) and self.memo[target.slot] is target:
                self.memo[target.slot] = array
        elif type(target) is dict and type(state) is dict:  # attributes of a reference
            self.arrays.spend(len(state), 0)
            for key, value in state.items():
                target.setdefault(key, value)
        else:
            _refuse("a state for something that has none")


# --- what names stand for -------------------------------------------------------------------------------------------


def _pending_array(machine: _Machine, kind: Any, shape: Any, typecode: Any) -> _PendingArray:
    """``_reconstruct(ndarray, (0,), b"b")``: the real shape and type follow with BUILD."""
    if kind is not _Name.NDARRAY or type(shape) is not tuple or type(typecode) is not bytes:
        _refuse("an array of a class other than ndarray")
    return _PendingArray(len(machine.memo))


def _dtype(_machine: _Machine, text: Any, *flags: Any) -> _Dtype:
    """``dtype("V20", False, True)``: align and copy mean nothing here."""
    if _DTYPE_TEXT.fullmatch(_checked(text, str)) is None or not {bool, int}.issuperset(map(type, flags)):
        _refuse(f"the dtype {text[:40]!r}")
    return _Dtype(text)


def _encoded(machine: _Machine, text: Any, encoding: Any) -> bytes:
    """``_codecs.encode(text, "latin1")``: bytes, up to protocol 2."""
    if _checked(encoding, str) != "latin1":
        _refuse("an encoding other than Latin 1")
    machine.arrays.spend(0, len(_checked(text, str)))
    return bytes(text, "latin-1")


def _reference(_machine: _Machine, *values: Any) -> dict[str, Any]:
    """``ZarrReference(source, path, ...)``, as its constructor fills it."""
    if len(values) > len(_REFERENCE_KEYS) or not {str, type(None)}.issuperset(map(type, values)):
        _refuse("a ZarrReference of something other than text")
    return dict.fromkeys(_REFERENCE_KEYS) | dict(zip(_REFERENCE_KEYS, values, strict=False))


def _old_reference(machine: _Machine, kind: Any, base: Any, items: Any) -> dict[str, Any]:
    """``_reconstructor(ZarrReference, dict, {...})``, protocols 0 and 1."""
    if kind is not _REFERENCE or base is not _Name.DICT or type(items) is not dict:
        _refuse("an object that is no ZarrReference")
    machine.arrays.spend(len(items), 0)
    return dict(items)


_FUNCTIONS: Final[dict[_Name, Callable[..., Any]]] = {
    _Name.RECONSTRUCT: _pending_array,
    _Name.SCALAR: lambda machine, *arguments: machine.arrays.scalar(*arguments),
    _Name.FROMBUFFER: lambda machine, *arguments: machine.arrays.from_buffer(*arguments),
    _Name.DTYPE: _dtype,
    _Name.REFERENCE: _reference,
    _Name.RECONSTRUCTOR: _old_reference,
    _Name.ENCODE: _encoded,
    _Name.BYTES: lambda _machine: b"",  # `bytes()`, up to protocol 2
}


# --- opcodes --------------------------------------------------------------------------------------------------------

_Step = Callable[[_Machine], None]


def _push(make: Callable[[_Machine], Any]) -> _Step:
    def step(machine: _Machine) -> None:
        value = make(machine)  # first: it may end a mark and so change the stack
        machine.stack.append(value)

    return step


def _payload(width: int, convert: Callable[[bytes], Any]) -> _Step:
    return _push(lambda machine: convert(machine.take(machine.number(width))))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _integer(raw: bytes) -> int:
    if len(raw) > _MAX_INT_BYTES:
        _refuse(f"an integer of {len(raw)} bytes")
    return int.from_bytes(raw, "little", signed=True)


def _digits(machine: _Machine) -> bytes:
    line = machine.line()
    if len(line) > 4 * _MAX_INT_BYTES:
        _refuse(f"a number of {len(line)} digits")
    return line


def _int_line(machine: _Machine) -> int:
    line = _digits(machine)
    return line == b"01" if line in (b"00", b"01") else int(line.removesuffix(b"L"))


def _tuple(size: int) -> _Step:
    def step(machine: _Machine) -> None:
        stack = machine.stack
        if len(stack) < size:
            _refuse("too few values for a tuple", damaged=True)
        stack[-size:] = [tuple(stack[-size:])]

    return step


def _append(machine: _Machine) -> None:
    value = machine.stack.pop()
    _checked(machine.stack[-1], list).append(value)


def _appends(machine: _Machine) -> None:
    items = machine.close()
    _checked(machine.stack[-1], list).extend(items)


def _set_item(machine: _Machine) -> None:
    stack = machine.stack
    if len(stack) < 3:
        _refuse("too few values for a dictionary", damaged=True)
    items = stack[-2:]
    del stack[-2:]
    _set_items(stack[-1], items)


def _set_items(target: Any, items: list[Any]) -> None:
    keys = items[::2]
    if type(target) is not dict:
        _refuse("items for something that is no dictionary")
    for key in keys:
        if type(key) is not str:
            _refuse("a dictionary key that is no text")
    target.update(zip(keys, items[1::2], strict=True))


def _dict(machine: _Machine) -> dict[str, Any]:
    items = machine.close()
    result: dict[str, Any] = {}
    _set_items(result, items)
    return result


def _name(module: Any, name: Any) -> _Name:
    if type(module) is not str or type(name) is not str:
        _refuse("a name that is no text")
    known = _NAMES.get((module, name))
    if known is None:
        _refuse(f"it names {f'{module[:60]}.{name[:60]}'!r}, which is no data")
    return known


def _stack_global(machine: _Machine) -> _Name:
    name = machine.stack.pop()
    return _name(machine.stack.pop(), name)


def _protocol(machine: _Machine) -> None:
    if machine.pos != 1 or machine.number(1) > 5:
        _refuse("a protocol other than 0 to 5")


def _frame(machine: _Machine) -> None:
    length = machine.number(8)
    if length > len(machine.data) - machine.pos:
        _refuse("a frame that is longer than the pickle", damaged=True)


class _Steps(dict[int, _Step]):
    def __missing__(self, code: int) -> _Step:
        _refuse(f"opcode {_REFUSED.get(code, hex(code))}")


_REFUSED: Final = {
    b"0"[0]: "POP", b"1"[0]: "POP_MARK", b"2"[0]: "DUP", b"P"[0]: "PERSID", b"Q"[0]: "BINPERSID", b"S"[0]: "STRING",
    b"T"[0]: "BINSTRING", b"U"[0]: "SHORT_BINSTRING", b"i"[0]: "INST", b"o"[0]: "OBJ", 0x82: "EXT1", 0x83: "EXT2",
    0x84: "EXT4", 0x8F: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x92: "NEWOBJ_EX", 0x97: "NEXT_BUFFER",
    0x98: "READONLY_BUFFER",
}  # fmt: skip

_STEPS: Final = _Steps({
    b"N"[0]: _push(lambda _: None),  # NONE
    0x88: _push(lambda _: True),  # NEWTRUE
    0x89: _push(lambda _: False),  # NEWFALSE
    b"I"[0]: _push(_int_line),  # INT
    b"L"[0]: _push(_int_line),  # LONG
    b"K"[0]: _push(lambda machine: machine.number(1)),  # BININT1
    b"M"[0]: _push(lambda machine: machine.number(2)),  # BININT2
    b"J"[0]: _push(lambda machine: _integer(machine.take(4))),  # BININT
    0x8A: _payload(1, _integer),  # LONG1
    0x8B: _payload(4, _integer),  # LONG4
    b"F"[0]: _push(lambda machine: float(_digits(machine))),  # FLOAT
    b"G"[0]: _push(lambda machine: struct.unpack(">d", machine.take(8))[0]),  # BINFLOAT
    b"V"[0]: _push(lambda machine: str(machine.line(), "raw-unicode-escape")),  # UNICODE
    b"X"[0]: _payload(4, _text),  # BINUNICODE
    0x8D: _payload(8, _text),  # BINUNICODE8
    b"B"[0]: _payload(4, bytes),  # BINBYTES
    b"C"[0]: _payload(1, bytes),  # SHORT_BINBYTES
    0x8E: _payload(8, bytes),  # BINBYTES8
    0x96: _payload(8, bytes),  # BYTEARRAY8
    b"]"[0]: _push(lambda _: []),  # EMPTY_LIST
    b"l"[0]: _push(_Machine.close),  # LIST
    b"a"[0]: _append,  # APPEND
    b"e"[0]: _appends,  # APPENDS
    _EMPTY_TUPLE: _push(lambda _: ()),
    b"t"[0]: _push(lambda machine: tuple(machine.close())),  # TUPLE
    0x85: _tuple(1),  # TUPLE1
    0x86: _tuple(2),  # TUPLE2
    0x87: _tuple(3),  # TUPLE3
    b"}"[0]: _push(lambda _: {}),  # EMPTY_DICT
    b"d"[0]: _push(_dict),  # DICT
    b"s"[0]: _set_item,  # SETITEM
    b"p"[0]: lambda machine: machine.put(int(_digits(machine))),  # PUT
    b"q"[0]: lambda machine: machine.put(machine.number(1)),  # BINPUT
    b"r"[0]: lambda machine: machine.put(machine.number(4)),  # LONG_BINPUT
    b"g"[0]: lambda machine: machine.get(int(_digits(machine))),  # GET
    b"j"[0]: lambda machine: machine.get(machine.number(4)),  # LONG_BINGET
    b"c"[0]: _push(lambda machine: _name(_text(machine.line()), _text(machine.line()))),  # GLOBAL
    0x93: _push(_stack_global),  # STACK_GLOBAL
    b"R"[0]: _Machine.reduce,  # REDUCE
    _NEWOBJ: _Machine.new_object,
    b"b"[0]: _Machine.build,  # BUILD
    0x80: _protocol,  # PROTO
    0x95: _frame,  # FRAME
})  # fmt: skip


# --- the result -----------------------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_HOLDERS: Final = frozenset({list, tuple, dict, np.ndarray, np.void})


def _settled(value: Any, max_items: int) -> Any:
    """Return ``value`` after a walk which shows that it is data, of bounded depth and size, and not part of itself.

    Shared parts are walked once and counted as often as they occur, so that code which does not know of the sharing
    (a comparison, a text form, a JSON encoder) stays within the limits too.
    """
    measured: dict[int, tuple[int, int]] = {}  # id -> size, depth; `value` keeps every part alive
    opened: dict[int, tuple[list[Any], int]] = {}  # the way from the root to where the walk is
    root = [value]
    todo: list[Any] = [root]
    while todo:
        key = id(todo[-1])
        if key in measured:
            todo.pop()
        elif key not in opened:
            if len(opened) > _MAX_DEPTH:
                _refuse(f"more than {_MAX_DEPTH} levels")
            inner, size = _parts(todo[-1])
            if any(id(part) in opened or id(part) == key for part in inner):
                _refuse("a value that contains itself")
            opened[key] = inner, size
            todo.extend(inner)
        else:
            inner, size = opened.pop(key)
            size += sum(measured[id(part)][0] for part in inner)
            depth = 1 + max((measured[id(part)][1] for part in inner), default=0)
            if size > max_items or depth > _MAX_DEPTH:
                _refuse(f"more than {max_items} values" if size > max_items else f"more than {_MAX_DEPTH} levels")
            measured[key] = size, depth
    return value


def _parts(holder: Any) -> tuple[list[Any], int]:
    """Return the holders directly in ``holder`` that need a walk of their own, and how many values there are else."""
    members = _members(holder)
    size = len(members)
    inner = []
    for member in members:
        kind = type(member)
        if kind in _PLAIN:
            continue
        if kind is dict and _PLAIN.issuperset(map(type, member.values())):
            size += len(member)  # a reference: these are most of all values
        elif kind in _HOLDERS:
            inner.append(member)
        elif not isinstance(member, np.generic):
            _refuse("a name or an unfinished array in place of data")
    return inner, size


def _members(holder: Any) -> Sequence[Any]:
    if isinstance(holder, dict):
        return list(holder.values())
    if isinstance(holder, (np.ndarray, np.void)):
        return _objects(np.asarray(holder))
    return holder  # type: ignore[no-any-return]  # a list or tuple


def _objects(array: Array) -> list[Any]:
    if array.dtype.names is not None and array.dtype.hasobject:
        return [member for name in array.dtype.names for member in _objects(array[name])]
    return array.ravel().tolist() if array.dtype.kind == "O" else []
