"""Fill values of nodes, which are those of format 2 <-> those of format 3, and <-> those of NumPy.

The fill value of rows is their bytes in format 2, an object with the fields in format 3. NumPy is imported on use.

Source: Zarr v2 specification, "Fill value encoding"; Zarr v3 specification, "Fill value"; zarr-extensions for
``struct``; zarr-python for ``structured``.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.encoding.data_types import DATES, NUMBERS, STRING, STRUCT, STRUCTURED, json_float, object_kind
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.element import check_characters
from hdmf_zarr_backend.model.json_text import each
from hdmf_zarr_backend.model.nodes import StoredArray

if TYPE_CHECKING:
    import numpy as np

# Format 3 may spell any float as its bits in hexadecimal, which is the only form for a NaN with a payload.
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_DAMAGE = (ValueError, TypeError, KeyError, SyntaxError, OverflowError)  # damaged Base64 is a ValueError
# Codec of objects -> what they are in a chunk that is not stored. zarr-python 3 refuses a fill value of 0 for bytes,
# which hdmf-zarr up to 0.13 wrote.
EMPTY_OBJECTS: dict[Any, Any] = {"vlen-utf8": "", "vlen-bytes": b""}
_BASE64 = frozenset({STRUCTURED, STRUCT, "raw_bytes", "null_terminated_bytes"})


def default_fill(data_type: Any) -> Any:
    """Return the fill value that represents None, for a format-3 type from `encode_type`."""
    if isinstance(data_type, str):
        if object_kind(data_type) is not None:
            return ""
        return {"bool": False, "float": 0.0, "complex": [0.0, 0.0]}.get(NUMBERS[data_type].kind, 0)
    name, configuration = data_type["name"], data_type["configuration"]
    if name == STRUCT:
        return {field["name"]: default_fill(field["data_type"]) for field in configuration["fields"]}
    if name == "raw_bytes":
        return base64.b64encode(bytes(configuration["length_bytes"])).decode()
    return 0 if name in DATES else ""


def fill_in_format_3(value: Any, data_type: Any, stored: Any) -> Any:
    """Return the fill value in format 3."""
    if value is None or (value == 0 and type(value) is int and not isinstance(stored, str)):
        return default_fill(stored)  # zarr 2 declared 0 for all types
    if object_kind(stored) == STRING and not isinstance(value, str):
        return ""
    if isinstance(data_type, list) and isinstance(value, str):
        from hdmf_zarr_backend.encoding.dtypes import from_zarr_type

        try:
            raw = base64.b64decode(value, validate=True)
            return _encode_field(_from_bytes(raw, from_zarr_type(data_type)), stored)
        except _DAMAGE as error:
            raise MetadataError(f"the fill value {value!r} does not fit {data_type!r} ({error})") from error
    return value


def fill_in_format_2(value: Any, data_type: Any) -> Any:
    """Return the fill value in format 2, which has one NaN only."""
    if not isinstance(data_type, str) or data_type[1:2] not in ("f", "c"):
        return value
    return each(value, lambda item: "NaN" if isinstance(item, str) and _HEX.fullmatch(item) else item)


def named(value: Any) -> Any:
    """Return the fill value in a document with NaN and infinities by name: their tokens are not JSON."""
    if isinstance(value, dict):  # of rows
        return {name: named(item) for name, item in value.items()}
    return each(value, lambda item: json_float(item) if isinstance(item, float) else item)


def fill_from_format_3(value: Any, data_type: Any, stored: Any) -> Any:
    """Return the fill value of a node; None for the zero of the type."""
    if value is None or _is_zero(value):
        return None
    if isinstance(value, str):
        if _HEX.fullmatch(value):
            from hdmf_zarr_backend.encoding.dtypes import has_unusual_nan, numpy_dtype

            dtype = numpy_dtype(data_type)
            try:
                number = _float(value, dtype) if dtype.kind == "f" else None
                # only the bits have the payload of a NaN
                return value if number is None or has_unusual_nan(number) else encode_scalar(number)
            except (OverflowError, TypeError) as error:
                raise MetadataError(f"the fill value {value!r} does not fit {data_type}") from error
        is_coded = isinstance(stored, dict) and stored.get("name") in _BASE64
        try:
            return None if is_coded and not any(base64.b64decode(value, validate=True)) else value
        except ValueError:  # `fill_scalar` says so
            return value
    if isinstance(value, dict):
        from hdmf_zarr_backend.encoding.dtypes import from_zarr_type

        try:
            return _encoded_bytes(_decode_scalar(value, from_zarr_type(data_type)).tobytes())
        except _DAMAGE as error:
            raise MetadataError(f"the fill value {value!r} does not fit {data_type!r} ({error})") from error
    number = NUMBERS.get(stored) if isinstance(stored, str) else None
    if isinstance(value, list) and (number is None or number.kind != "complex"):  # bytes as in the specification
        if not all(type(item) is int and 0 <= item < 256 for item in value):
            raise MetadataError(f"the fill value {value!r} is not a list of bytes")
        return _encoded_bytes(bytes(value))
    return value


def _encoded_bytes(raw: bytes) -> str | None:
    return base64.b64encode(raw).decode() if any(raw) else None


def _is_zero(value: Any) -> bool:
    if isinstance(value, (bool, int)):
        return value == 0
    if isinstance(value, float):
        return value == 0 and math.copysign(1, value) > 0
    if isinstance(value, list):
        return all(map(_is_zero, value))
    return isinstance(value, str) and not value


def fill_scalar(array: StoredArray, dtype: np.dtype[Any]) -> Any:
    """Return the fill value of ``array`` as a NumPy scalar or object, or None if it is undefined."""
    value = array.fill_value
    if value is None or (dtype.hasobject and dtype.names is not None):
        # In files of hdmf-zarr up to 0.13 the fill of rows with references is a pickle, which no reader needs.
        return None
    if dtype.kind == "O":
        codec_id = array.first_filter.get("id")
        if isinstance(value, str) and codec_id == "vlen-bytes":
            try:  # Base64, as zarr-python 3 writes it; others have written text
                return base64.b64decode(value, validate=True)
            except (ValueError, binascii.Error):
                return value.encode("utf-8", "surrogatepass")
        # hdmf-zarr up to 0.13 declared 0 for text and bytes, which numcodecs stores as empty text; zarr-python 3.1 to
        # 3.4 returns it as "0" where a chunk is not stored, and as empty text in the rest of a stored chunk
        return value if isinstance(value, str) else EMPTY_OBJECTS.get(codec_id, value)
    if value == 0 and dtype.kind in "SUV":
        return _from_bytes(b"", dtype)  # zarr 2 declared 0 for everything
    try:
        if isinstance(value, dict):  # only a document of format 3 has the fields of a row
            raise TypeError("it is not a single value")
        return _decode_scalar(value, dtype)
    except _DAMAGE as error:
        raise MetadataError(f"the fill value {value!r} does not fit {dtype} ({error})") from error


def _decode_scalar(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return the NumPy value for JSON; the inverse of `encode_scalar`, also of a row as ``{field: value}``."""
    import numpy as np

    letter = dtype.kind
    if isinstance(value, dict):
        return _decode_row(value, dtype)
    if letter in "SV" and isinstance(value, str):
        return _from_bytes(base64.b64decode(value, validate=True), dtype)
    if letter == "f" and isinstance(value, str):
        return np.array(_float(value, dtype), dtype)[()]
    if letter == "c" and isinstance(value, list):
        parts = np.empty(2, f"f{dtype.itemsize // 2}")
        for index, part in zip(range(2), value, strict=True):  # each as a float alone (Zarr v3, "Fill value")
            parts[index] = _float(part, parts.dtype)
        return parts.view(f"c{dtype.itemsize}")[0]
    if isinstance(value, list):
        raise TypeError("it is not a single value")
    if letter in "iu" and (isinstance(value, str) or int(value) != value):
        raise TypeError("it is not an integer")  # NumPy would cut off digits, and parse text
    is_count = letter in "mM" and type(value) is int
    return np.array(value, "i8" if is_count else dtype).astype(dtype, copy=False)[()]


def _float(value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a float that is a number, its name, or its bits in hexadecimal."""
    import numpy as np

    if isinstance(value, str) and _HEX.fullmatch(value):
        return np.array(int(value, 16), f"u{dtype.itemsize}").view(dtype.newbyteorder("="))[()]
    return float(value)


def _decode_row(value: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    import numpy as np

    if dtype.names is None:
        raise TypeError("an object is the fill value of rows only")
    row = np.zeros((), dtype)
    for name in dtype.names:
        part, field = value[name], dtype[name].kind
        if field in "SV" and not isinstance(part, (str, dict)):
            raise TypeError(f"the bytes of {name!r} are not Base64")  # NumPy would make text of a number
        if field == "c" and not isinstance(part, list):
            raise TypeError(f"the complex number of {name!r} is not a list of two numbers")
        row[name] = _decode_scalar(part, dtype[name])
    return row[()]


def _from_bytes(raw: bytes, dtype: np.dtype[Any]) -> Any:
    """Return the NumPy value of bytes, which zeros complete."""
    import numpy as np

    if len(raw) > dtype.itemsize:
        raise ValueError(f"it has {len(raw)} bytes, and the type {dtype.itemsize}")
    if not dtype.itemsize:  # such as S0, which `numpy.frombuffer` refuses
        return np.zeros((), dtype)[()]
    values = np.frombuffer(raw.ljust(dtype.itemsize, b"\0"), dtype)
    check_characters(values)
    return values[0]


def _encode_field(value: Any, stored: Any) -> Any:
    if isinstance(stored, dict) and stored["name"] == STRUCT:
        fields = stored["configuration"]["fields"]
        return {field["name"]: _encode_field(value[field["name"]], field["data_type"]) for field in fields}
    return encode_scalar(value)


def encode_scalar(value: Any) -> Any:
    """Return a NumPy value as JSON: numbers, "NaN" and the like as text, bytes and rows in Base64."""
    if value.ndim or value.dtype.kind in "SV":
        return base64.b64encode(value.tobytes()).decode()
    if value.dtype.kind in "mM":
        return int(value.astype("i8"))
    item = value.item()
    if isinstance(item, complex):
        return [json_float(item.real), json_float(item.imag)]
    return json_float(item) if isinstance(item, float) else item
