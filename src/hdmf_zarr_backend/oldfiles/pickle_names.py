"""The names that hdmf-zarr's pickles look up, about a dozen, and what each stands for here; nothing is imported.

A name in a pickle is a member of `Name`; a call of it is a call of the function in `FUNCTIONS`, with the machine that
runs the pickle and the arguments that the pickle gives.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, Protocol

from hdmf_zarr_backend.oldfiles.pickled_arrays import DTYPE_TEXT, Arrays, Dtype, checked, refuse


class Running(Protocol):
    """What a function needs of the machine that calls it."""

    memo: list[Any]
    arrays: Arrays


class Name(Enum):
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


# --- what they stand for --------------------------------------------------------------------------------------------


class PendingArray:
    """An array between its REDUCE and its BUILD; it then gives way to the array, on the stack and in the memo."""

    __slots__ = ("slot",)

    def __init__(self, slot: int) -> None:
        self.slot = slot


def _pending_array(machine: Running, kind: Any, shape: Any, typecode: Any) -> PendingArray:
    """``_reconstruct(ndarray, (0,), b"b")``: the real shape and type follow with BUILD."""
    if kind is not Name.NDARRAY or type(shape) is not tuple or type(typecode) is not bytes:
        refuse("an array of a class other than ndarray")
    return PendingArray(len(machine.memo))


def _dtype(_machine: Running, text: Any, *flags: Any) -> Dtype:
    """``dtype("V20", False, True)``: align and copy mean nothing here."""
    if DTYPE_TEXT.fullmatch(checked(text, str)) is None or not {bool, int}.issuperset(map(type, flags)):
        refuse(f"the dtype {text[:40]!r}")
    return Dtype(text)


def _encoded(machine: Running, text: Any, encoding: Any) -> bytes:
    """``_codecs.encode(text, "latin1")``: bytes, up to protocol 2."""
    if checked(encoding, str) != "latin1":
        refuse("an encoding other than Latin 1")
    machine.arrays.spend(0, len(checked(text, str)))
    return bytes(text, "latin-1")


def _reference(_machine: Running, *values: Any) -> dict[str, Any]:
    """``ZarrReference(source, path, ...)``, as its constructor fills it."""
    if len(values) > len(_REFERENCE_KEYS) or not {str, type(None)}.issuperset(map(type, values)):
        refuse("a ZarrReference of something other than text")
    return dict.fromkeys(_REFERENCE_KEYS) | dict(zip(_REFERENCE_KEYS, values, strict=False))


def _old_reference(machine: Running, kind: Any, base: Any, items: Any) -> dict[str, Any]:
    """``_reconstructor(ZarrReference, dict, {...})``, protocols 0 and 1."""
    if kind is not REFERENCE or base is not Name.DICT or type(items) is not dict:
        refuse("an object that is no ZarrReference")
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
