"""Data types of nodes, and the table of the number types of both formats. Standard library only.

A node has a data type of format 2: a code such as ``"<f4"``, or a list of fields. `elements` has the meaning of arrays,
`dtypes` the NumPy dtypes, `zarr3_types` the data types of format 3; they all use this table.

Source: Zarr v2 specification, "Data type encoding"; Zarr v3 specification, "Data types"; NumPy, "Datetimes".
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal, NamedTuple

from hdmf_zarr_backend.model.elements import UTF8, Element


class Number(NamedTuple):
    """A number type.

    Attributes
    ----------
    code : str
        Code in format 2 and NumPy, without the byte order.
    kind : str
        Kind of its `Element`.
    size : int
        Bytes of one element.
    """

    code: str
    kind: str
    size: int

    def ordered(self, byte_order: str) -> str:
        """Return the data type of format 2 with a byte order, ``"<"`` or ``">"``; one byte has none."""
        return ("|" if self.size == 1 else byte_order) + self.code


NUMBERS = {
    "bool": Number("b1", "bool", 1),
    "int8": Number("i1", "int", 1),
    "int16": Number("i2", "int", 2),
    "int32": Number("i4", "int", 4),
    "int64": Number("i8", "int", 8),
    "uint8": Number("u1", "uint", 1),
    "uint16": Number("u2", "uint", 2),
    "uint32": Number("u4", "uint", 4),
    "uint64": Number("u8", "uint", 8),
    "float16": Number("f2", "float", 2),
    "float32": Number("f4", "float", 4),
    "float64": Number("f8", "float", 8),
    "complex64": Number("c8", "complex", 8),
    "complex128": Number("c16", "complex", 16),
}
"""Name in format 3, NumPy and HDMF -> number type."""

NAMES = {number.code: name for name, number in NUMBERS.items()}
"""Code of format 2 -> name in format 3."""

KINDS = {number.code[0]: number.kind for number in NUMBERS.values()}
"""First letter of a code -> kind of the element."""


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
    byte_order: Literal["<", ">"] = ">" if order == ">" else "<"
    if kind in _DATES:
        count, step = split_unit(unit)
        shown = f"[{'' if count == 1 else count}{step}]" if unit else ""  # as in NumPy
        return Element("datetime", 8, byte_order, detail=_DATES[kind] + shown)
    if kind in KINDS:
        code = f"{kind}{size}"
        if code not in NAMES and code not in _LONG_DOUBLES:
            raise ValueError(f"{KINDS[kind]} does not have {size} bytes")
        return Element(KINDS[kind], size, "|" if size == 1 else byte_order)
    if kind == "S":
        return Element("text", max(1, size), encoding="ascii", detail="null-padded")
    return Element("opaque", size) if kind == "V" else UTF8
