"""Data types of nodes, and the table of the number types of both formats. Standard library only.

A node has a data type of format 2: a code such as ``"<f4"``, or a list of fields. `formats.elements` has the meaning of
arrays, `formats.dtypes` the NumPy dtypes, `formats.zarr3_types` the data types of format 3; they all use this table.

Source: Zarr v2 specification, "Data type encoding"; Zarr v3 specification, "Data types"; NumPy, "Datetimes".
"""

from __future__ import annotations

import math
import re
from typing import Any

from hdmf_zarr_backend.model.element import UTF8, ByteOrder, Element, Number, NumberKind, Opaque, Text, Time

KINDS: dict[str, NumberKind] = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
"""First letter of a code -> kind of the element."""

NUMBERS = {
    "bool": "b1", "int8": "i1", "int16": "i2", "int32": "i4", "int64": "i8", "uint8": "u1", "uint16": "u2",
    "uint32": "u4", "uint64": "u8", "float16": "f2", "float32": "f4", "float64": "f8", "complex64": "c8",
    "complex128": "c16",
}  # fmt: skip
"""Name in format 3, NumPy and HDMF -> code in format 2 and NumPy, without the byte order."""

NAMES = {code: name for name, code in NUMBERS.items()}
"""Code of format 2 -> name in format 3."""


def ordered(code: str, byte_order: str) -> str:
    """Return the data type of format 2 for a number with a byte order, ``"<"`` or ``">"``; one byte has none."""
    return ("|" if code[1:] == "1" else byte_order) + code


MAX_DEPTH = 32
"""How deep types may be nested in each other."""

_LONG_DOUBLES = frozenset({"f16", "c32"})  # in NumPy on some machines: only read, never written
_DATES = {"M": "datetime64", "m": "timedelta64"}

_CODE = re.compile(r"([<>|]?)([biufcmMSUVO])([0-9]{0,10})(?:\[([^\]]*)\])?")
_UNIT = re.compile(r"([0-9]{0,10})(Y|M|W|D|h|m|s|ms|us|μs|ns|ps|fs|as|generic)")
_MOST_UNITS = 2**31 - 1  # NumPy's maximum for one step of a date
_MOST_IN_FIELD = 2**31 - 1  # NumPy's maximum for the bytes of a field


def split_code(data_type: str) -> tuple[str, str, str, str | None]:
    """Return the parts of a data type of format 2 that is a code."""
    match = _CODE.fullmatch(data_type)
    if match is None:
        raise ValueError(f"{data_type!r} is not one of Zarr's")
    byte_order, letter, digits, unit = match.groups()
    return byte_order, letter, digits, unit


def split_unit(text: str | None) -> tuple[int, str]:
    """Return the unit of a date and how many of it are one step; ``"generic"`` where there is none."""
    if not text:
        return 1, "generic"
    match = _UNIT.fullmatch(text)
    count = int(match[1] or 1) if match is not None else 0
    if match is None or not 0 < count <= _MOST_UNITS:
        raise ValueError(f"{text!r} is not a unit of time")
    return count, match[2]


def field_shape(rest: list[Any]) -> tuple[int, ...]:
    """Return the axes of a field from its entry without name and type: ``[]``, ``[3]`` or ``[[3, 2]]``."""
    shape = tuple(map(int, rest[0] if isinstance(rest[0], list) else rest)) if rest else ()
    if any(length > _MOST_IN_FIELD for length in shape) or math.prod(shape) > _MOST_IN_FIELD:
        raise ValueError(f"a field has at most {_MOST_IN_FIELD:,} elements")
    return shape


def itemsize(data_type: Any) -> int:
    """Return the bytes of one element of a data type of format 2; 0 for objects and invalid types."""
    try:
        if isinstance(data_type, list):
            return sum(itemsize(inner) * math.prod(field_shape(rest)) for _, inner, *rest in data_type)
        _, kind, digits, _ = split_code(data_type)
    except ValueError:
        return 0
    return 0 if kind == "O" else int(digits or 1) * (4 if kind == "U" else 1)


def code_element(data_type: str) -> Element:
    """Return the `Element` for a data type of format 2 that is a code; a field of objects is text."""
    order, kind, digits, unit = split_code(data_type)
    size = int(digits or 0)
    byte_order: ByteOrder = ">" if order == ">" else "<"
    if kind in _DATES:
        count, step = split_unit(unit)
        shown = f"[{'' if count == 1 else count}{step}]" if unit else ""  # as in NumPy
        return Time(_DATES[kind] + shown, byte_order)
    if kind in KINDS:
        code = f"{kind}{size}"
        if code not in NAMES and code not in _LONG_DOUBLES:
            raise ValueError(f"{KINDS[kind]} does not have {size} bytes")
        return Number(KINDS[kind], size, "|" if size == 1 else byte_order)
    if kind == "S":
        return Text("ascii", max(1, size), "nullpad")
    return Opaque(size) if kind == "V" else UTF8


def json_float(value: float) -> float | str:
    """Return a number as strict JSON: NaN and infinities by name."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
