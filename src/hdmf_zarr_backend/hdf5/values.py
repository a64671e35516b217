"""Values as h5py reads them <-> JSON, guided by the JSON of their HDF5 type.

For values that Zarr stores as JSON or cannot store: rows with text or references, attributes of types that HDMF lacks,
fill values::

    numbers        a number, "NaN", "Infinity"; a NaN with another sign or payload as its bits, "0x7ff8000000000001";
                   complex [re, im]; bool, enumerations and bitfields as bool or integer
    text           text; bytes that are not UTF-8 {"base64": "..."}
    opaque         {"base64": "..."}
    references     the result of the given function, null for a null reference
    compound       a list of the fields;  array, sequence: a list of the elements

``decode(encode(x)) == x``.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.casting import utf8_or_none
from hdmf_zarr_backend.formats.zarr3_fills import json_float
from hdmf_zarr_backend.hdf5.types import OBJECT, REGION, TypeJSON, decode_type, raw_of

Array: TypeAlias = npt.NDArray[Any]
Convert: TypeAlias = Callable[[Any], Any]

_DECODE_ERRORS = (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError, binascii.Error)


# ---- HDF5 -> JSON ---------------------------------------------------------------------------------------------------


def encoder(kind: TypeJSON, reference: Convert) -> Convert:
    """Return a function that converts one value of type ``kind`` to JSON."""
    if isinstance(kind, str):
        return reference if kind in (OBJECT, REGION) else _encode_number
    if "text" in kind:
        return encode_text
    if "opaque" in kind:
        return lambda value: _base64(value.tobytes())
    if "number" not in kind and "fields" in kind:
        return _encode_fields([(name, encoder(field, reference)) for name, field in kind["fields"]])
    if "array" in kind:
        return _encode_each(encoder(kind["array"], reference))
    if "sequence" in kind:
        convert, base = _encode_each(encoder(kind["sequence"], reference)), decode_type(kind["sequence"]).dtype
        return lambda values: convert(in_order_of(values, base))
    return _encode_number


def _encode_number(value: Any) -> Any:
    if isinstance(value, np.generic) and value.dtype.kind in "fc" and np.isnan(value):
        array = np.array(value)
        if array.dtype.kind == "c":
            return [_encode_number(part[()]) for part in (array.real, array.imag)]
        bits = int(array.view(f"u{array.itemsize}"))
        usual = int(np.array(np.nan, array.dtype).view(f"u{array.itemsize}"))
        return "NaN" if bits == usual else f"0x{bits:0{2 * array.itemsize}x}"
    item = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if isinstance(item, complex):
        return [_encode_number(item.real), _encode_number(item.imag)]
    return json_float(item) if isinstance(item, float) else item


def encode_text(value: Any) -> Any:
    """Return text as ``str``; bytes that are not UTF-8 as Base64; unwritten text is empty."""
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, bytes):
        return ""
    text = utf8_or_none(value)
    return _base64(value) if text is None else text


def _base64(raw: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(raw).decode()}


def _encode_fields(fields: list[tuple[str, Convert]]) -> Convert:
    def encode(row: Any) -> list[Any]:
        if isinstance(row, (complex, np.complexfloating)):  # h5py reads two fields r and i as complex
            return [_encode_number(row.real), _encode_number(row.imag)]
        return [convert(row[name]) for name, convert in fields]

    return encode


def _encode_each(convert: Convert) -> Convert:
    def encode(values: Any) -> Any:
        if isinstance(values, np.ndarray) and values.ndim > 1:
            return [encode(part) for part in values]
        return [convert(item) for item in values] if isinstance(values, np.ndarray) else []

    return encode


def encode_array(values: Array, kind: TypeJSON, reference: Convert) -> Any:
    """Return the JSON of an array of values of type ``kind``: nested lists, or one value for a 0-d array.

    The axes of an array type count as part of its values.
    """
    convert = encoder(kind, reference)
    own = values.ndim - (len(kind["shape"]) if isinstance(kind, dict) and "array" in kind else 0)

    def encode(part: Any, depth: int) -> Any:
        return [encode(item, depth - 1) for item in part] if depth else convert(part)

    return encode(values if values.ndim else values[()], own)


# ---- JSON -> HDF5 ---------------------------------------------------------------------------------------------------


def decode_array(value: Any, shape: Any, kind: TypeJSON, dtype: np.dtype[Any], reference: Convert) -> Array:
    """Return the array for nested lists."""
    try:
        flat = [value] if not len(shape) else list(value)
        for _ in range(len(shape) - 1):
            flat = [item for row in flat for item in row]
        return array_of([decode(item, kind, dtype, reference) for item in flat], tuple(shape), dtype)
    except _DECODE_ERRORS as error:
        raise MetadataError(f"a value does not fit the HDF5 type {kind!r} ({error})") from error


def array_of(values: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of ``shape`` whose elements are ``values``, which may be sequences themselves."""
    base, inner = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    made: Array = np.empty((len(values), *inner), base)
    for position, item in enumerate(values):
        made[position] = item
    return made.reshape((*shape, *inner))


def decode(value: Any, kind: TypeJSON, dtype: np.dtype[Any], reference: Convert) -> Any:
    """Return an element for an array of ``dtype`` from the JSON of one value."""
    if isinstance(kind, str):
        return reference(value) if kind in (OBJECT, REGION) else _decode_number(value, dtype)
    if "text" in kind:
        return decode_text(value)
    if "opaque" in kind:
        return np.frombuffer(base64.b64decode(value["base64"]), dtype)[0]
    if "number" not in kind and "fields" in kind:
        return _decode_fields(value, kind, dtype, reference)
    if "array" in kind:
        return decode_array(value, tuple(kind["shape"]), kind["array"], dtype.base, reference)
    if "sequence" in kind:
        base = decode_type(kind["sequence"]).dtype
        return decode_array(value, (len(value),), kind["sequence"], base, reference)
    return _decode_number(value, dtype)


def in_order_of(values: Any, dtype: np.dtype[Any]) -> Any:
    """Return a sequence from h5py with the byte order of the type in the file; h5py marks it as native."""
    if isinstance(values, np.ndarray) and values.dtype == dtype.newbyteorder("=") and not dtype.isnative:
        return values.view(dtype)
    return values


def _decode_number(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, list):
        parts: Array = np.empty(2, f"{dtype.str[0]}f{dtype.itemsize // 2}")
        parts[:] = [_decode_number(part, parts.dtype) for part in value]
        return parts.view(dtype)[0]
    if isinstance(value, str) and value.startswith("0x"):
        return np.array(int(value, 16), f"u{dtype.itemsize}").astype(f"{dtype.str[0]}u{dtype.itemsize}").view(dtype)[()]
    return float(value) if isinstance(value, str) and dtype.kind == "f" else value


def decode_text(value: Any) -> bytes:
    """Return the bytes of text as encoded by `encode_text`."""
    if isinstance(value, bytes):
        return bytes(value)
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else raw_of(value)


def _decode_fields(value: Any, kind: dict[str, Any], dtype: np.dtype[Any], reference: Convert) -> Any:
    if dtype.names is None:
        return _decode_number(value, dtype)
    return tuple(
        decode(item, field, dtype[name], reference) for item, (name, field) in zip(value, kind["fields"], strict=True)
    )
