"""Fill values of nodes, in the form of format 2 <-> those of format 3.

The fill value of rows is their bytes in format 2, an object with the fields in format 3; only these need NumPy, which
is imported on use.

Source: Zarr v3 specification, "Fill value"; zarr-extensions for ``struct``; zarr-python for ``structured``.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
import struct
from typing import Any

from hdmf_zarr_backend.encoding.data_types import (
    DATES,
    OBJECTS,
    STRING,
    STRUCT,
    STRUCTURED,
    json_float,
    letter_of,
    object_kind,
)
from hdmf_zarr_backend.errors import MetadataError

_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOATS = {"f2": "e", "f4": "f", "f8": "d"}


def default_fill(data_type: Any) -> Any:
    """Return the fill value that represents None, for a format-3 type from `encode_type`."""
    if isinstance(data_type, str):
        if data_type == "bool":
            return False
        if data_type.startswith("complex"):
            return [0.0, 0.0]
        return 0.0 if data_type.startswith("float") else "" if data_type in OBJECTS else 0
    name, configuration = data_type["name"], data_type["configuration"]
    if name == STRUCT:
        return {field["name"]: default_fill(field["data_type"]) for field in configuration["fields"]}
    if name == "raw_bytes":
        return base64.b64encode(bytes(configuration["length_bytes"])).decode()
    return 0 if name in DATES else ""


def encode_fill(value: Any, data_type: Any, stored: Any) -> Any:
    """Return the fill value in format 3."""
    if value is None or (value == 0 and type(value) is int and not isinstance(stored, str)):
        return default_fill(stored)  # zarr 2 declared 0 for all types
    if object_kind(stored) == STRING and not isinstance(value, str):
        return ""
    if isinstance(data_type, list) and isinstance(value, str):
        return _fields_of_row(base64.b64decode(value), data_type, stored)
    return value


def decode_fill(value: Any, data_type: Any, stored: Any) -> Any:
    """Return the fill value of a node; None for the zero of the type."""
    if value is None or _is_zero(value):
        return None
    if isinstance(value, str):
        if _HEX.fullmatch(value):
            return _from_bits(value, data_type)
        is_coded = isinstance(stored, dict) and stored.get("name") in _BASE64
        return None if is_coded and _is_zero_text(value) else value
    if isinstance(value, dict):
        return _encoded_bytes(_row_of_fields(value, data_type))
    if isinstance(value, list) and not str(stored).startswith("complex"):  # bytes as in the specification
        if not all(type(item) is int and 0 <= item < 256 for item in value):
            raise MetadataError(f"the fill value {value!r} is not a list of bytes")
        return _encoded_bytes(bytes(value))
    return value


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
        raise MetadataError(f"the fill value {value!r} does not fit {data_type}") from error
    return json_float(number)


# ---- rows -----------------------------------------------------------------------------------------------------------


def _fields_of_row(raw: bytes, data_type: Any, stored: Any) -> Any:
    """Return the bytes of a row as ``{field: fill value of format 3}``."""
    import numpy as np

    from hdmf_zarr_backend.encoding.dtypes import from_zarr_type

    dtype = from_zarr_type(data_type)
    row = np.frombuffer(raw.ljust(dtype.itemsize, b"\0")[: dtype.itemsize], dtype)[0]
    return _encode_field(row, stored)


def _encode_field(value: Any, stored: Any) -> Any:
    """Return a NumPy scalar or array as the fill value of a field."""
    if isinstance(stored, dict) and stored["name"] == STRUCT:
        fields = stored["configuration"]["fields"]
        return {field["name"]: _encode_field(value[field["name"]], field["data_type"]) for field in fields}
    return encode_scalar(value)


def encode_scalar(value: Any) -> Any:
    """Return a NumPy value as JSON: numbers, "NaN" and the like as text, bytes and rows in Base64."""
    if value.ndim or letter_of(value.dtype) in "SV":
        return base64.b64encode(value.tobytes()).decode()
    if value.dtype.kind in "mM":
        return int(value.astype("i8"))
    item = value.item()
    if isinstance(item, complex):
        return [json_float(item.real), json_float(item.imag)]
    return json_float(item) if isinstance(item, float) else item


def _row_of_fields(value: dict[str, Any], data_type: Any) -> bytes:
    """Return the bytes of the row for ``{field: fill value of format 3}``."""
    import numpy as np

    from hdmf_zarr_backend.encoding.dtypes import from_zarr_type

    try:
        row = np.zeros((), from_zarr_type(data_type))
        _decode_fields(row, value)
    except (ValueError, TypeError, KeyError, SyntaxError, OverflowError) as error:
        raise MetadataError(f"the fill value {value!r} does not fit {data_type!r} ({error})") from error
    return row.tobytes()


def _decode_fields(row: Any, value: dict[str, Any]) -> None:
    import numpy as np

    if row.dtype.names is None:
        raise TypeError("an object is the fill value of rows only")
    for name in row.dtype.names:
        given = value[name]
        field = row.dtype[name]
        if isinstance(given, dict):
            _decode_fields(row[name], given)
        elif letter_of(field) in "SV":
            raw = base64.b64decode(given)
            row[name] = np.frombuffer(raw.ljust(field.itemsize, b"\0")[: field.itemsize], field)[0]
        elif field.kind == "c":
            row[name] = complex(float(given[0]), float(given[1]))
        elif field.kind in "mM":
            row[name] = np.array(given, "i8" if type(given) is int else field).astype(field)
        else:
            row[name] = given
