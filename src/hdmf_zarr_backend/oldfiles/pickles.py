"""`loads_data`: reads pickles that hold only data, such as the reference and compound chunks of hdmf-zarr 0.1 to 0.13.

Those releases stored object references, compound rows and, up to 0.8, scalar text with numcodecs' ``pickle`` filter.
A pickle is a program for a stack machine, and one that restricts only the *names* which the C unpickler may look up
can still be crashed (a deep tuple as dictionary key overflows the C stack, a crafted dtype makes NumPy take bytes for
pointers, an eight-byte opcode asks for 16 GiB). So pickles are run by a separate `Machine`:

- It has the opcodes that build data. Nothing is imported: a name is looked up in a table of a dozen names that those
  releases wrote, and means one function of this module.
- Dictionary keys are ``str``, so no object from a file is ever hashed or compared.
- dtypes are rebuilt from checked parts by ``numpy.dtype``, arrays by NumPy's validating constructors; the dtype
  flags in the file are ignored, and an object is never made from raw bytes.
- Memory and time are bounded by `loads_data`'s limits, whatever lengths and indices the file states. The result is
  finite and shallow, so that code which walks through it recursively is safe too.

Source: Python's ``pickletools`` for the opcodes; ``__reduce__`` of ``numpy.ndarray``, ``numpy.dtype`` and
``numpy.generic`` in NumPy 1.23 to 2.5 for what they pickle; chunks written by hdmf-zarr 0.2, 0.8 and 0.13.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from enum import Enum
from itertools import repeat
from typing import Any, Final

import numpy as np

from hdmf_zarr_backend.oldfiles.pickled_arrays import (
    DTYPE_TEXT,
    FIELD_COST,
    Array,
    Arrays,
    Dtype,
    UnsafePickleError,
    checked,
    refuse,
)

__all__ = ["UnsafePickleError", "loads_data"]

MAX_ITEMS: Final = 10_000_000
_FREE_BYTES: Final = 1 << 28  # arrays may take this much, and four times what the pickle has
_MAX_DEPTH: Final = 100  # lists in lists; well below Python's own recursion limit
_MAX_INT_BYTES: Final = 1024  # stays below the 4300 digits that Python turns into text
_MARK: Final = b"("[0]
_STOP: Final = b"."[0]
_BINGET: Final = b"h"[0]
_SETITEMS: Final = b"u"[0]
_EMPTY_TUPLE: Final = b")"[0]
_NEWOBJ: Final = 0x81
_SHORT_BINUNICODE: Final = 0x8C
_MEMOIZE: Final = 0x94


def loads_data(buffer: bytes | memoryview, *, max_items: int = MAX_ITEMS, max_bytes: int | None = None) -> Any:
    """Return the data of a pickle, protocols 0 to 5."""
    data = bytes(buffer)
    machine = Machine(data, max_items, _FREE_BYTES + 4 * len(data) if max_bytes is None else max_bytes)
    try:
        return _verified(machine.run(), max_items)
    except UnsafePickleError as error:
        reason, damaged = error.reason, error.damaged
        cause: Exception = error
    except IndexError as error:
        reason, damaged = "it ends before STOP, or uses a value that does not exist", True
        cause = error
    except (ValueError, TypeError, OverflowError, struct.error) as error:
        # invalid text or digits, or parts that NumPy's constructors refuse
        reason, damaged = f"{type(error).__name__}: {error}", True
        cause = error
    where = f"byte {min(machine.pos, len(data))} of {len(data)}"
    raise UnsafePickleError(f"{reason[:250]} ({where})", damaged=damaged) from cause


# --- names -----------------------------------------------------------------------------------------------------------


class Name(Enum):
    """The meaning of a name in a pickle; never the object of that name."""

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


NAMES: Final = {
    ("numpy", "ndarray"): Name.NDARRAY,
    ("numpy", "dtype"): Name.DTYPE,
    ("hdmf_zarr.utils", "ZarrReference"): Name.REFERENCE,
    ("_codecs", "encode"): Name.ENCODE,  # bytes, up to protocol 2
}
for _core in ("numpy.core", "numpy._core"):  # NumPy 1 and 2
    NAMES[_core + ".multiarray", "_reconstruct"] = Name.RECONSTRUCT
    NAMES[_core + ".multiarray", "scalar"] = Name.SCALAR
    NAMES[_core + ".numeric", "_frombuffer"] = Name.FROMBUFFER  # arrays of numbers inside objects, protocol 5
for _builtins, _copyreg in (("builtins", "copyreg"), ("__builtin__", "copy_reg")):  # Python 3, and 2 up to protocol 2
    NAMES[_copyreg, "_reconstructor"] = Name.RECONSTRUCTOR  # ZarrReference, protocols 0 and 1
    NAMES[_builtins, "dict"] = Name.DICT
    NAMES[_builtins, "bytes"] = Name.BYTES  # empty bytes up to protocol 2, and h5py's dtype metadata
    NAMES[_builtins, "str"] = NAMES[_builtins, "unicode"] = Name.TEXT  # h5py's dtype metadata

REFERENCE: Final = Name.REFERENCE
_REFERENCE_KEYS: Final = ("source", "path", "object_id", "source_object_id")


class PendingArray:
    """An array between its REDUCE and its BUILD, which replaces it by the array, on the stack and in the memo."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


# --- the machine --------------------------------------------------------------------------------------------------


class Machine:
    """Stack, memo and limits; `run` holds the most frequent opcodes, `_STEPS` all others."""

    def __init__(self, data: bytes, max_items: int, max_bytes: int) -> None:
        self.data = data
        self.pos = 0
        self.stack: list[Any] = []
        self.waiting: list[list[Any]] = []  # the stacks below each mark
        self.memo: list[Any] = []
        self.max_items = max_items
        self.arrays = Arrays(max_items, max_bytes)

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
                elif code == _EMPTY_TUPLE and data[pos] == _NEWOBJ and stack[-1] is REFERENCE:
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
                refuse(f"more than {self.max_items} opcodes")
        finally:
            self.pos = pos
        return self._result(stack)

    def _result(self, stack: list[Any]) -> Any:
        """Return the only value on the stack, after STOP at the end of the data."""
        if len(stack) != 1 or self.waiting or self.pos != len(self.data):
            refuse("STOP is not at the end", damaged=True)
        return stack[0]

    def take(self, length: int) -> bytes:
        """Return the next ``length`` bytes."""
        start, self.pos = self.pos, self.pos + length
        if self.pos > len(self.data):
            refuse(f"{length} bytes are announced, {len(self.data) - start} are left", damaged=True)
        return self.data[start : self.pos]

    def number(self, width: int) -> int:
        """Return the next unsigned little-endian integer."""
        return int.from_bytes(self.take(width), "little")

    def line(self) -> bytes:
        """Return the bytes up to the next line feed."""
        end = self.data.find(b"\n", self.pos)
        if end < 0:
            refuse("a line without an end", damaged=True)
        start, self.pos = self.pos, end + 1
        return self.data[start:end]

    def close(self) -> list[Any]:
        """Return what is above the topmost mark, and remove the mark."""
        items, self.stack = self.stack, self.waiting.pop()
        return items

    def get(self, index: int) -> None:
        """Push a value of the memo."""
        if index < 0:
            refuse("a negative memo index")
        self.stack.append(self.memo[index])

    def put(self, index: int) -> None:
        """Store the top of the stack; picklers number the memo without gaps."""
        if index == len(self.memo):
            self.memo.append(self.stack[-1])
        elif 0 <= index < len(self.memo):
            self.memo[index] = self.stack[-1]
        else:
            refuse(f"memo index {index} after {len(self.memo)} entries")

    def reduce(self) -> None:
        """Call the function that has a name in the pickle."""
        arguments = checked(self.stack.pop(), tuple)
        name = checked(self.stack.pop(), Name)
        function = FUNCTIONS.get(name)
        if function is None:
            refuse(f"a call of {name.name}")
        self.stack.append(function(self, *arguments))

    def new_object(self) -> None:
        """Make a reference; nothing else has a class."""
        arguments = self.stack.pop()
        if self.stack.pop() is not REFERENCE or type(arguments) is not tuple or arguments:
            refuse("an object that is not a ZarrReference")
        self.stack.append({})

    def build(self) -> None:
        """Apply the state on the stack to the object below it."""
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is Dtype:
            target.build(state)
            self.arrays.spend(FIELD_COST * target.leaves, 0)
        elif type(target) is PendingArray:
            array = self.arrays.array(state)
            self.stack[-1] = array
            if target.slot < len(self.memo) and self.memo[target.slot] is target:
                self.memo[target.slot] = array
        elif type(target) is dict and type(state) is dict:  # attributes of a reference
            self.arrays.spend(len(state), 0)
            for key, value in state.items():
                target.setdefault(key, value)
        else:
            refuse("a state for something that has none")


# --- calls -------------------------------------------------------------------------------------------------------


def _pending_array(machine: Machine, kind: Any, shape: Any, typecode: Any) -> PendingArray:
    """``_reconstruct(ndarray, (0,), b"b")``: the real shape and type follow with BUILD."""
    if kind is not Name.NDARRAY or type(shape) is not tuple or type(typecode) is not bytes:
        refuse("an array of a class other than ndarray")
    return PendingArray(len(machine.memo))


def _dtype(_machine: Machine, text: Any, *flags: Any) -> Dtype:
    """``dtype("V20", False, True)``: align and copy mean nothing here."""
    if DTYPE_TEXT.fullmatch(checked(text, str)) is None or not {bool, int}.issuperset(map(type, flags)):
        refuse(f"the dtype {text[:40]!r}")
    return Dtype(text)


def _encoded(machine: Machine, text: Any, encoding: Any) -> bytes:
    """``_codecs.encode(text, "latin1")``: bytes, up to protocol 2."""
    if checked(encoding, str) != "latin1":
        refuse("an encoding other than Latin 1")
    machine.arrays.spend(0, len(checked(text, str)))
    return bytes(text, "latin-1")


def _reference(_machine: Machine, *values: Any) -> dict[str, Any]:
    """``ZarrReference(source, path, ...)``, as its constructor fills it."""
    if len(values) > len(_REFERENCE_KEYS) or not {str, type(None)}.issuperset(map(type, values)):
        refuse("a ZarrReference of something other than text")
    return dict.fromkeys(_REFERENCE_KEYS) | dict(zip(_REFERENCE_KEYS, values, strict=False))


def _old_reference(machine: Machine, kind: Any, base: Any, items: Any) -> dict[str, Any]:
    """``_reconstructor(ZarrReference, dict, {...})``, protocols 0 and 1."""
    if kind is not REFERENCE or base is not Name.DICT or type(items) is not dict:
        refuse("an object that is not a ZarrReference")
    machine.arrays.spend(len(items), 0)
    return dict(items)


FUNCTIONS: Final[dict[Name, Callable[..., Any]]] = {
    Name.RECONSTRUCT: _pending_array,
    Name.SCALAR: lambda machine, *arguments: machine.arrays.scalar(*arguments),
    Name.FROMBUFFER: lambda machine, *arguments: machine.arrays.from_buffer(*arguments),
    Name.DTYPE: _dtype,
    Name.REFERENCE: _reference,
    Name.RECONSTRUCTOR: _old_reference,
    Name.ENCODE: _encoded,
    Name.BYTES: lambda _machine: b"",  # `bytes()`, up to protocol 2
}


# --- opcodes --------------------------------------------------------------------------------------------------------

_Step = Callable[[Machine], None]


def _push(make: Callable[[Machine], Any]) -> _Step:
    def step(machine: Machine) -> None:
        value = make(machine)  # first: it may end a mark and so change the stack
        machine.stack.append(value)

    return step


def _payload(width: int, convert: Callable[[bytes], Any]) -> _Step:
    return _push(lambda machine: convert(machine.take(machine.number(width))))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogatepass")


def _integer(raw: bytes) -> int:
    if len(raw) > _MAX_INT_BYTES:
        refuse(f"an integer of {len(raw)} bytes")
    return int.from_bytes(raw, "little", signed=True)


def _digits(machine: Machine) -> bytes:
    line = machine.line()
    if len(line) > 4 * _MAX_INT_BYTES:
        refuse(f"a number of {len(line)} digits")
    return line


def _int_line(machine: Machine) -> int:
    line = _digits(machine)
    return line == b"01" if line in (b"00", b"01") else int(line.removesuffix(b"L"))


def _tuple(size: int) -> _Step:
    def step(machine: Machine) -> None:
        stack = machine.stack
        if len(stack) < size:
            refuse("too few values for a tuple", damaged=True)
        stack[-size:] = [tuple(stack[-size:])]

    return step


def _append(machine: Machine) -> None:
    value = machine.stack.pop()
    checked(machine.stack[-1], list).append(value)


def _appends(machine: Machine) -> None:
    items = machine.close()
    checked(machine.stack[-1], list).extend(items)


def _set_item(machine: Machine) -> None:
    stack = machine.stack
    if len(stack) < 3:
        refuse("too few values for a dictionary", damaged=True)
    items = stack[-2:]
    del stack[-2:]
    _set_items(stack[-1], items)


def _set_items(target: Any, items: list[Any]) -> None:
    keys = items[::2]
    if type(target) is not dict:
        refuse("items for something that is not a dictionary")
    for key in keys:
        if type(key) is not str:
            refuse("a dictionary key that is not text")
    target.update(zip(keys, items[1::2], strict=True))


def _dict(machine: Machine) -> dict[str, Any]:
    items = machine.close()
    result: dict[str, Any] = {}
    _set_items(result, items)
    return result


def _name(module: Any, name: Any) -> Name:
    if type(module) is not str or type(name) is not str:
        refuse("a name that is not text")
    known = NAMES.get((module, name))
    if known is None:
        refuse(f"it names {f'{module[:60]}.{name[:60]}'!r}, which is not data")
    return known


def _stack_global(machine: Machine) -> Name:
    name = machine.stack.pop()
    return _name(machine.stack.pop(), name)


def _protocol(machine: Machine) -> None:
    if machine.pos != 1 or machine.number(1) > 5:
        refuse("a protocol other than 0 to 5")


def _frame(machine: Machine) -> None:
    length = machine.number(8)
    if length > len(machine.data) - machine.pos:
        refuse("a frame that is longer than the pickle", damaged=True)


class _Steps(dict[int, _Step]):
    def __missing__(self, code: int) -> _Step:
        refuse(f"opcode {_REFUSED.get(code, hex(code))}")


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
    b"l"[0]: _push(Machine.close),  # LIST
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
    b"R"[0]: Machine.reduce,  # REDUCE
    _NEWOBJ: Machine.new_object,
    b"b"[0]: Machine.build,  # BUILD
    0x80: _protocol,  # PROTO
    0x95: _frame,  # FRAME
})  # fmt: skip


# --- the result -----------------------------------------------------------------------------------------------------

_PLAIN: Final = frozenset({type(None), bool, int, float, str, bytes})
_HOLDERS: Final = frozenset({list, tuple, dict, np.ndarray, np.void})


def _verified(value: Any, max_items: int) -> Any:
    """Return ``value`` if it is only data, of bounded depth and size, and does not contain itself.

    Shared parts are walked once and counted as often as they occur, so that code which does not know of the sharing
    (a comparison, a text form, a JSON encoder) stays within the limits too.
    """
    measured: dict[int, tuple[int, int]] = {}  # id -> size, depth; `value` keeps every part alive
    opened: dict[int, tuple[list[Any], int]] = {}  # the holders from the root to the current one
    root = [value]
    todo: list[Any] = [root]
    while todo:
        key = id(todo[-1])
        if key in measured:
            todo.pop()
        elif key not in opened:
            if len(opened) > _MAX_DEPTH:
                refuse(f"more than {_MAX_DEPTH} levels")
            inner, size = _parts(todo[-1])
            if any(id(part) in opened or id(part) == key for part in inner):
                refuse("a value that contains itself")
            opened[key] = inner, size
            todo.extend(inner)
        else:
            inner, size = opened.pop(key)
            measured[key] = _measured(size, [measured[id(part)] for part in inner], max_items)
    return value


def _measured(size: int, parts: list[tuple[int, int]], max_items: int) -> tuple[int, int]:
    """Return the size and the depth of a holder from those of its parts; refuse one that is beyond the limits."""
    size += sum(part_size for part_size, _ in parts)
    depth = 1 + max((part_depth for _, part_depth in parts), default=0)
    if size > max_items:
        refuse(f"more than {max_items} values")
    if depth > _MAX_DEPTH:
        refuse(f"more than {_MAX_DEPTH} levels")
    return size, depth


def _parts(holder: Any) -> tuple[list[Any], int]:
    """Return the holders in ``holder`` that have to be walked, and the number of its other values."""
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
            refuse("a name or an unfinished array in place of data")
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
