"""Data types and fill values against the specification of Zarr format 2, from their JSON alone.

Source: Zarr v2 specification, "Data type encoding" and "Fill value encoding"; NumPy's array interface for the sizes
that a kind can have.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Found: TypeAlias = Iterator[tuple[str, str]]
"""Names of rules, and what was found."""

_TYPE = re.compile(r"([<>|]?)([A-Za-z?])([0-9]{0,9})(?:\[([^\[\]]*)\])?", re.ASCII)
_UNIT = re.compile(r"[0-9]{0,9}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)", re.ASCII)

_ANY_SIZE = "SUV"
_SIZES: dict[str, tuple[int, ...]] = {
    "b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8, 12, 16), "c": (8, 16, 24, 32), "m": (8,), "M": (8,),
}  # fmt: skip
_ORDERED = "iufcmMU"
_TIMES = "mM"
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_UNICODE_BYTES = 4
_SHOWN = 80


def shown(value: Any) -> str:
    """Return a value of a document for a message; a document may hold anything."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deep to be shown"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_lengths(value: Any, least: int = 0) -> bool:
    """Tell whether ``value`` is a list of integers, none of them under ``least``."""
    return isinstance(value, list) and all(type(n) is int and n >= least for n in value)


def data_type_findings(data_type: Any) -> Found:
    """Yield what is wrong with the data type of an array."""
    pending = [data_type]  # no recursion: a document may nest deeper than Python's calls
    while pending:
        here = pending.pop()
        if isinstance(here, str):
            yield from _simple(here)
        elif isinstance(here, list):
            yield from _fields(here, pending)
        else:
            yield "dtype-form", f"{shown(here)} is neither a text nor a list of fields"


def _simple(text: str) -> Found:
    match = _TYPE.fullmatch(text)
    if match is None:
        yield "dtype-form", f"{shown(text)} is no byte order, kind and size"
        return
    order, kind, size, unit = match.groups()
    if kind == "O":
        yield "dtype-object", f"the data type is {text!r}"
        return
    if kind not in _SIZES and kind not in _ANY_SIZE:
        yield "dtype-kind", f"{text!r} is of the kind {kind!r}"
        return
    if not order or (order == "|" and kind in _ORDERED and size != "1"):
        yield "dtype-byte-order", f"{text!r} says no byte order"
    if not size or int(size) not in _SIZES.get(kind, (int(size),)):
        yield "dtype-size", f"{text!r} has no size that its kind can have"
    if kind in _TIMES:
        if unit is None or not _UNIT.fullmatch(unit):
            yield "dtype-units", f"{text!r} has no unit of time"
    elif unit is not None:
        yield "dtype-form", f"{text!r} has brackets, and is no time"


def _fields(fields: list[Any], pending: list[Any]) -> Found:
    names = []
    for field in fields:
        if not (isinstance(field, list) and len(field) in (2, 3) and isinstance(field[0], str)):
            yield "dtype-fields", f"{shown(field)} is no list of a name, a data type and a shape"
            continue
        names.append(field[0])
        pending.append(field[1])
        if len(field) == 3 and not is_lengths(field[2]):
            yield "dtype-fields", f"the field {shown(field[0])} has the shape {shown(field[2])}"
    if not fields:
        yield "dtype-fields", "there are no fields"
    if len(set(names)) < len(names):
        yield "dtype-fields", "two fields have the same name"


def fill_findings(value: Any, data_type: Any) -> Found:
    """Yield what is wrong with a fill value; ``data_type`` is one that nothing is wrong with but objects in it."""
    if value is None or _is_object(data_type):
        return  # that of an object is whatever its codec takes
    if isinstance(data_type, list):
        yield from _base64(value, data_type, exact=True)
        return
    kind = data_type[1]
    if kind == "S":
        yield from _base64(value, data_type, exact=False)
    elif kind == "f":
        yield from _float(value)
    elif not _FITS[kind](value, data_type):
        yield "fill-scalar", f"{shown(value)} is no value of the type {data_type!r}"


def _float(value: Any) -> Found:
    if isinstance(value, float) and not math.isfinite(value):
        yield "fill-float", f"{value} is no text"
    elif isinstance(value, str):
        if value not in _SPECIAL:
            yield "fill-float", f"{shown(value)} is none of {', '.join(_SPECIAL)}"
    elif not _is_number(value):
        yield "fill-scalar", f"{shown(value)} is no number"


def _base64(value: Any, data_type: Any, *, exact: bool) -> Found:
    """Look at the fill value of bytes, which may lack zeros at their end, or of fields, which may not.

    The specification says nothing of lengths. NumPy drops zeros at the end of bytes, and zarr-python encodes what is
    left; what an object among the fields takes is known to its codec only.
    """
    try:
        if not isinstance(value, str):
            raise TypeError("it is no text")
        size = len(base64.b64decode(value, validate=True))
    except (TypeError, ValueError, binascii.Error) as error:
        yield "fill-base64", f"{shown(value)} is no Base64 ({error})"
        return
    if _holds_objects(data_type):
        return
    wanted = _itemsize(data_type)
    if size > wanted or (exact and size < wanted):
        yield "fill-base64", f"it has {size} bytes, and an element {wanted}"


def _is_object(data_type: Any) -> bool:
    match = _TYPE.fullmatch(data_type) if isinstance(data_type, str) else None
    return match is not None and match[2] == "O"


def _holds_objects(data_type: Any) -> bool:
    pending = [data_type]
    while pending:
        here = pending.pop()
        if _is_object(here):
            return True
        if isinstance(here, list):
            pending += [field[1] for field in here]
    return False


def _itemsize(data_type: Any) -> int:
    if isinstance(data_type, str):
        size = int("".join(filter(str.isdigit, data_type.partition("[")[0])))
        return size * _UNICODE_BYTES if data_type[1] == "U" else size
    total, pending = 0, [(data_type, 1)]
    while pending:
        here, times = pending.pop()
        for _, inner, *shape in here:
            count = times * math.prod(shape[0] if shape else ())
            if isinstance(inner, str):
                total += count * _itemsize(inner)
            else:
                pending.append((inner, count))
    return total


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any, data_type: str) -> bool:
    bits = 8 * _itemsize(data_type)
    least, most = (0, 2**bits) if data_type[1] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return type(value) is int and least <= value < most


def _is_complex(value: Any, data_type: str) -> bool:
    parts = value if isinstance(value, list) else [value]
    return len(parts) in (1, 2) and all(_is_number(part) or part in _SPECIAL for part in parts)


def _is_bool(value: Any, data_type: str) -> bool:
    return isinstance(value, bool) or (_is_number(value) and value in (0, 1))


def _is_text(value: Any, data_type: str) -> bool:
    return isinstance(value, str)


def _is_time(value: Any, data_type: str) -> bool:
    return type(value) is int or isinstance(value, str)  # the specification has no words; "NaT" is NumPy's


_FITS: dict[str, Callable[[Any, str], bool]] = {
    "b": _is_bool, "i": _is_integer, "u": _is_integer, "c": _is_complex, "m": _is_time, "M": _is_time, "U": _is_text,
    "V": _is_text,
}  # fmt: skip
