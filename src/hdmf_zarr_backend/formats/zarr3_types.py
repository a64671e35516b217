"""Data types of nodes, which are those of format 2 <-> data types of format 3. Standard library only.

For elements of variable length format 3 has the data types ``string`` and ``variable_length_bytes``, and format 2
``"|O"`` with a filter. The byte order is not part of a format-3 data type; it is the ``endian`` of the codec ``bytes``,
the same for all fields of a row.

Source: Zarr v3 specification, "Data types"; zarr-extensions for ``string``, ``struct``,
``fixed_length_utf32``, ``numpy.datetime64``; zarr-python for ``null_terminated_bytes``, ``raw_bytes``, ``structured``.
"""

from __future__ import annotations

import math
import re
from typing import Any, Literal

from hdmf_zarr_backend.encoding.type_codes import (
    MAX_DEPTH,
    NUMBERS,
    field_shape,
    itemsize,
    number_name,
    split_code,
    split_unit,
)
from hdmf_zarr_backend.errors import MetadataError

Endian = Literal["little", "big"]

STRING = "string"
BYTES = "variable_length_bytes"
STRUCT = "struct"
STRUCTURED = "structured"

OBJECTS = {STRING: STRING, "str": STRING, BYTES: BYTES, "bytes": BYTES}
_FIXED = {"null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1), "fixed_length_utf32": ("U", 4)}
_FIXED_NAMES = {code: (name, width) for name, (code, width) in _FIXED.items()}
DATES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
_RAW_BITS = re.compile(r"r([1-9][0-9]*)")


# ---- format 2 -> format 3 --------------------------------------------------------------------------------------------


def encode_type(data_type: Any) -> Any:
    """Return the format-3 data type for a format-2 one other than ``"|O"``.

    Format 3 has no fields with axes; they become bytes.
    """
    if isinstance(data_type, list):
        fields = [
            {"name": name, "data_type": _field_type(inner, field_shape(rest))} for name, inner, *rest in data_type
        ]
        return {"name": STRUCT, "configuration": {"fields": fields}}
    _, kind, digits, unit = split_code(data_type)
    if kind in "mM":
        name = "numpy.datetime64" if kind == "M" else "numpy.timedelta64"
        count, unit = split_unit(unit)
        return {"name": name, "configuration": {"unit": unit, "scale_factor": count}}
    if kind in _FIXED_NAMES:
        name, width = _FIXED_NAMES[kind]
        return {"name": name, "configuration": {"length_bytes": width * int(digits or 1)}}
    return number_name(kind, digits)


def as_structured(stored: Any) -> Any:
    """Return a format-3 data type with rows under the name that zarr-python before 3.2 knows too."""
    if not isinstance(stored, dict) or stored["name"] != STRUCT:
        return stored
    fields = [[field["name"], as_structured(field["data_type"])] for field in stored["configuration"]["fields"]]
    return {"name": STRUCTURED, "configuration": {"fields": fields}}


def _field_type(data_type: Any, shape: tuple[int, ...]) -> Any:
    if shape:
        return {"name": "raw_bytes", "configuration": {"length_bytes": itemsize(data_type) * math.prod(shape)}}
    return encode_type(data_type)


def endian_of(data_type: Any) -> Endian | None:
    """Return the byte order of a format-2 type; None if it has none, or fields with both.

    Fields that are bytes in format 3 keep their byte order.
    """
    found = _orders(data_type)
    if len(found) != 1:
        return None
    return "big" if found == {">"} else "little"


def is_mixed(data_type: Any) -> bool:
    """Tell whether a row has fields with both byte orders, which format 3 cannot express."""
    return len(_orders(data_type)) > 1


def _orders(data_type: Any) -> set[str]:
    if isinstance(data_type, list):
        return {order for _, inner, *shape in data_type if not shape for order in _orders(inner)}
    order, kind, digits, _ = split_code(data_type)
    if kind in "SVb" or (digits == "1" and kind != "U"):
        return set()
    return {">" if order == ">" else "<"}


def little(data_type: Any) -> Any:
    """Return a format-2 type with little-endian numbers."""
    if isinstance(data_type, list):
        return [[name, inner if shape else little(inner), *shape] for name, inner, *shape in data_type]
    return data_type.replace(">", "<")


# ---- format 3 -> format 2 --------------------------------------------------------------------------------------------


def decode_type(data_type: Any, endian: Endian | None = "little") -> Any:
    """Return the format-2 data type for a format-3 one."""
    number = NUMBERS.get(data_type) if isinstance(data_type, str) else None
    if number is not None:  # the most frequent case
        return number.data_type(">" if endian == "big" else "<")
    try:
        return _decode(data_type, ">" if endian == "big" else "<", 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        problem = f"the data type {data_type!r} is unknown ({error})"
        raise MetadataError(problem, remedy="Convert the array with the program that wrote it.") from error


def object_kind(data_type: Any) -> str | None:
    """Return ``string`` or ``variable_length_bytes`` for types of objects in memory, None for other types."""
    name = data_type.get("name") if isinstance(data_type, dict) else data_type
    return OBJECTS.get(name) if isinstance(name, str) else None


def _decode(data_type: Any, order: str, depth: int) -> Any:
    if isinstance(data_type, str):
        data_type = {"name": data_type}
    name, configuration = data_type["name"], data_type.get("configuration") or {}
    if name in NUMBERS:
        return NUMBERS[name].data_type(order)
    if name in _FIXED:
        code, width = _FIXED[name]
        length = _length(configuration["length_bytes"])
        if length % width:
            raise ValueError("it is not a whole number of characters")
        return f"{order if code == 'U' else '|'}{code}{length // width}"
    if name in DATES:
        return order + DATES[name] + _unit(configuration)
    if name in (STRUCT, STRUCTURED):
        return _decode_fields(configuration["fields"], order, depth)
    bits = _RAW_BITS.fullmatch(name)
    if bits and int(bits[1]) % 8 == 0:
        return f"|V{int(bits[1]) // 8}"
    raise KeyError(name)


def _length(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**31:
        raise ValueError(f"{value!r} is not a length")
    return value


def _unit(configuration: dict[str, Any]) -> str:
    unit, scale = configuration["unit"], _length(configuration.get("scale_factor", 1))
    if unit == "generic":
        return ""
    if not re.fullmatch(r"[A-Za-z]+|μs", unit):
        raise ValueError(f"{unit!r} is not a unit")
    return f"[{scale if scale != 1 else ''}{'us' if unit == 'μs' else unit}]"


def _decode_fields(fields: Any, order: str, depth: int) -> list[Any]:
    if depth > MAX_DEPTH or not isinstance(fields, list) or not fields:
        raise ValueError("it is not a list of fields")
    decoded = []
    for field in fields:
        name, inner = (field["name"], field["data_type"]) if isinstance(field, dict) else field
        if not isinstance(name, str):
            raise TypeError(f"{name!r} is not a name")
        decoded.append([name, _decode(inner, order, depth + 1)])
    return decoded


# ---- names ----------------------------------------------------------------------------------------------------------


def word_of_type(data_type: Any) -> Any:
    """Return the default ``zarr_dtype`` of a format-2 type other than ``"|O"``: NumPy's name, or the fields."""
    if isinstance(data_type, list):
        return [{"name": name, "dtype": _word_of_field(inner)} for name, inner, *_ in data_type]
    if data_type[1:2] == "S":
        return "bytes"
    return _word_of_field(data_type)


def _word_of_field(data_type: Any) -> Any:
    if isinstance(data_type, list):
        return word_of_type(data_type)
    _, kind, digits, unit = split_code(data_type)
    if kind in "mM":
        name = "datetime64" if kind == "M" else "timedelta64"
        return f"{name}[{unit}]" if unit else name
    if kind in _FIXED_NAMES:
        return f"{ {'S': 'bytes', 'U': 'str', 'V': 'void'}[kind] }{8 * itemsize(data_type)}"
    return number_name(kind, digits)
