"""Data types and fill values of nodes, in the form of format 2 <-> those of format 3. Standard library only.

For elements of variable length format 3 has the data types ``string`` and ``variable_length_bytes``, and format 2
``"|O"`` with a filter. The byte order is not part of a format-3 data type; it is the ``endian`` of the codec ``bytes``,
the same for all fields of a row.

Source: Zarr v3 specification, "Data types" and "Fill value"; zarr-extensions for ``string``, ``struct``,
``fixed_length_utf32``, ``numpy.datetime64``; zarr-python for ``null_terminated_bytes``, ``raw_bytes``, ``structured``.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from typing import Any, Literal

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.type_codes import NAMES, NUMBERS, field_shape, itemsize, split_code, split_unit

Endian = Literal["little", "big"]

STRING = "string"
BYTES = "variable_length_bytes"
STRUCT = "struct"
STRUCTURED = "structured"

NUMBER_NAMES = frozenset(NUMBERS)
"""Names of number types, which NumPy and HDMF have too."""

_OBJECTS = {STRING: STRING, "str": STRING, BYTES: BYTES, "bytes": BYTES}
_FIXED = {"null_terminated_bytes": ("S", 1), "raw_bytes": ("V", 1), "fixed_length_utf32": ("U", 4)}
_FIXED_NAMES = {code: (name, width) for name, (code, width) in _FIXED.items()}
_DATES = {"numpy.datetime64": "M8", "numpy.timedelta64": "m8"}
_RAW_BITS = re.compile(r"r([1-9][0-9]*)")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOATS = {"f2": "e", "f4": "f", "f8": "d"}
_MAX_DEPTH = 32
_REMEDY = "Run `zarrio verify` on the file."


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
    return NAMES[kind + digits]


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
    if kind in "SVb" or (digits == "1" and kind in "iu"):
        return set()
    return {">" if order == ">" else "<"}


def little(data_type: Any) -> Any:
    """Return a format-2 type with little-endian numbers."""
    if isinstance(data_type, list):
        return [[name, inner if shape else little(inner), *shape] for name, inner, *shape in data_type]
    return data_type.replace(">", "<")


# ---- format 3 -> format 2 --------------------------------------------------------------------------------------------


def decode_type(data_type: Any, endian: Endian | None = "little") -> Any:
    """Return the format-2 data type for a format-3 one.

    Parameters
    ----------
    data_type : str or dict
        As in the document; also ``structured``, and the names that other programs write.
    endian : {"little", "big"}, optional
        Of the codec ``bytes``; None counts as little.

    Raises
    ------
    MetadataError
        The type is not supported.
    """
    number = NUMBERS.get(data_type) if isinstance(data_type, str) else None
    if number is not None:  # the most frequent case
        return number.ordered(">" if endian == "big" else "<")
    try:
        return _decode(data_type, ">" if endian == "big" else "<", 0)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise MetadataError(
            f"the data type {data_type!r} is unknown ({error})",
            remedy="Convert the array with the program that wrote it.",
        ) from error


def object_kind(data_type: Any) -> str | None:
    """Return ``string`` or ``variable_length_bytes`` for types of objects in memory, None for other types."""
    name = data_type.get("name") if isinstance(data_type, dict) else data_type
    return _OBJECTS.get(name) if isinstance(name, str) else None


def _decode(data_type: Any, order: str, depth: int) -> Any:
    if isinstance(data_type, str):
        data_type = {"name": data_type}
    name, configuration = data_type["name"], data_type.get("configuration") or {}
    if name in NUMBERS:
        return NUMBERS[name].ordered(order)
    if name in _FIXED:
        return _fixed(name, configuration, order)
    if name in _DATES:
        return order + _DATES[name] + _unit(configuration)
    if name in (STRUCT, STRUCTURED):
        return _decode_fields(configuration["fields"], order, depth)
    bits = _RAW_BITS.fullmatch(name)
    if bits and int(bits[1]) % 8 == 0:
        return f"|V{int(bits[1]) // 8}"
    raise KeyError(name)


def _fixed(name: str, configuration: dict[str, Any], order: str) -> str:
    code, width = _FIXED[name]
    length = _length(configuration["length_bytes"])
    if length % width:
        raise ValueError("it is not a whole number of characters")
    return f"{order if code == 'U' else '|'}{code}{length // width}"


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
    if depth > _MAX_DEPTH or not isinstance(fields, list) or not fields:
        raise ValueError("it is not a list of fields")
    decoded = []
    for field in fields:
        name, inner = (field["name"], field["data_type"]) if isinstance(field, dict) else field
        decoded.append([_name(name), _decode(inner, order, depth + 1)])
    return decoded


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


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
    return NAMES[kind + digits]


# ---- fill values ----------------------------------------------------------------------------------------------------


def default_fill(data_type: Any) -> Any:
    """Return the fill value that represents None, for a format-3 type from `encode_type`."""
    if isinstance(data_type, str):
        if data_type == "bool":
            return False
        if data_type.startswith("complex"):
            return [0.0, 0.0]
        return 0.0 if data_type.startswith("float") else "" if data_type in _OBJECTS else 0
    name, configuration = data_type["name"], data_type["configuration"]
    if name == STRUCT:
        return {field["name"]: default_fill(field["data_type"]) for field in configuration["fields"]}
    if name == "raw_bytes":
        return base64.b64encode(bytes(configuration["length_bytes"])).decode()
    return 0 if name in _DATES else ""


def encode_fill(value: Any, data_type: Any, stored: Any) -> Any:
    """Return the fill value in format 3.

    Parameters
    ----------
    value : object
        Of a node; None becomes `default_fill`, because format 3 requires a value.
    data_type, stored : object
        The data type in format 2 and in format 3.
    """
    if value is None or (value == 0 and type(value) is int and not isinstance(stored, str)):
        return default_fill(stored)  # zarr 2 declared 0 for all types
    if object_kind(stored) == STRING and not isinstance(value, str):
        return ""
    if isinstance(data_type, list) and isinstance(value, str):
        from hdmf_zarr_backend.formats.dtypes import fields_of_row

        return fields_of_row(base64.b64decode(value), data_type, stored)
    return value


def decode_fill(value: Any, data_type: Any, stored: Any) -> Any:
    """Return the fill value of a node; None for the zero of the type.

    Parameters
    ----------
    value : object
        As in the document.
    data_type, stored : object
        The data type in format 2 and in format 3.

    Raises
    ------
    MetadataError
        The value does not fit the data type.
    """
    if value is None or _is_zero(value):
        return None
    if isinstance(value, str):
        return _decode_text_fill(value, data_type, stored)
    if isinstance(value, dict):
        from hdmf_zarr_backend.formats.dtypes import row_of_fields

        return _encoded_bytes(row_of_fields(value, data_type))
    if isinstance(value, list) and not str(stored).startswith("complex"):  # bytes as in the specification
        if not all(type(item) is int and 0 <= item < 256 for item in value):
            raise MetadataError(f"the fill value {value!r} is not a list of bytes", remedy=_REMEDY)
        return _encoded_bytes(bytes(value))
    return value


def _decode_text_fill(value: str, data_type: Any, stored: Any) -> Any:
    if _HEX.fullmatch(value):
        return _from_bits(value, data_type)
    is_coded = isinstance(stored, dict) and stored.get("name") in _BASE64
    return None if is_coded and _is_zero_text(value) else value


def _encoded_bytes(raw: bytes) -> str | None:
    return base64.b64encode(raw).decode() if any(raw) else None


_BASE64 = frozenset({STRUCTURED, STRUCT, "raw_bytes", "null_terminated_bytes"})


def _is_zero(value: Any) -> bool:
    if isinstance(value, (bool, int)):
        return value == 0
    if isinstance(value, float):
        return value == 0 and math.copysign(1, value) > 0
    if isinstance(value, list):
        return all(map(_is_zero, value))
    return isinstance(value, str) and not value


def _is_zero_text(value: str) -> bool:
    try:
        return not any(base64.b64decode(value, validate=True))
    except (ValueError, binascii.Error):
        return False


def _from_bits(value: str, data_type: Any) -> Any:
    """Return the number with the bytes given in hexadecimal."""
    code = _FLOATS.get(data_type[1:]) if isinstance(data_type, str) else None
    if code is None:
        return value
    try:
        number = struct.unpack(f">{code}", int(value, 16).to_bytes(int(data_type[2:]), "big"))[0]
    except (OverflowError, struct.error) as error:
        raise MetadataError(f"the fill value {value!r} does not fit {data_type}", remedy=_REMEDY) from error
    return json_float(number)


def json_float(value: float) -> float | str:
    """Return a number as strict JSON: NaN and infinities by name."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
