"""Values as h5py reads them <-> JSON, guided by their `Element`; and as plain values, for comparing.

As JSON are the values that Zarr stores as JSON or cannot store: rows with text or references, attributes of types that
HDMF lacks, fill values. docs/format/format-2.md has the form. A compound is a list of its fields, and null a null
reference.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.encoding.data_types import json_float
from hdmf_zarr_backend.encoding.hdf5_types import raw_of, text_of, to_hdf5
from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.model.element import ArrayOf, Compound, Element, Number, Opaque, Reference, Sequence, Text, Time

Array: TypeAlias = npt.NDArray[Any]
Convert: TypeAlias = Callable[[Any], Any]

_DECODE_ERRORS = (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError)


def encoder(element: Element, refer: Convert) -> Convert:
    """Return a function that converts one value to JSON; ``refer`` converts a reference."""
    match element:
        case Reference():
            return refer
        case Text():
            return encode_text
        case Opaque() | Time() | Number(layout=Opaque()):
            dtype = _own_dtype(element)  # NumPy returns an element of a big-endian array as a native scalar
            return lambda value: _base64(np.asarray(value).astype(dtype, copy=False).tobytes())
        case Compound(fields):
            converters = [(name, encoder(member, refer)) for name, member in fields]

            def encode_row(row: Any) -> Any:
                if isinstance(row, (complex, np.complexfloating)):  # h5py reads two fields r and i as complex
                    return _encode_number(row)
                return [convert(row[name]) for name, convert in converters]

            return encode_row
        case ArrayOf(base):
            return _encode_each(encoder(base, refer))
        case Sequence(base):
            convert, dtype = _encode_each(encoder(base, refer)), _own_dtype(base)
            return lambda values: convert(_as_in_file(values, dtype))
    return _encode_number


def _own_dtype(element: Element) -> np.dtype[Any]:
    """Return h5py's type of values, but bytes for opaque data: not all bytes are text, which a tag may name."""
    return np.dtype(f"V{element.size}") if isinstance(element, Opaque) else to_hdf5(element).dtype


def _encode_number(value: Any) -> Any:
    value = value[()] if isinstance(value, np.ndarray) else value
    if isinstance(value, (complex, np.complexfloating)):
        return [_encode_number(value.real), _encode_number(value.imag)]
    if isinstance(value, np.floating) and np.isnan(value):
        array = np.array(value)
        bits, usual = (int(nan.view(f"u{array.itemsize}")) for nan in (array, np.array(np.nan, array.dtype)))
        return "NaN" if bits == usual else f"0x{bits:0{2 * array.itemsize}x}"
    item = value.item() if isinstance(value, np.generic) else value
    return json_float(item) if isinstance(item, float) else item


def encode_text(value: Any) -> Any:
    """Return text as ``str``; bytes that are not UTF-8 as Base64; unwritten text is empty."""
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, bytes):
        return ""
    text = utf8_or_none(value)
    return _base64(value) if text is None else text


def utf8_or_none(value: bytes) -> str | None:
    """Return bytes as text, None if they are not UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _base64(raw: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(raw).decode()}


def _encode_each(convert: Convert) -> Convert:
    return lambda values: _nested(values, values.ndim, convert) if isinstance(values, np.ndarray) else []


def _nested(values: Any, axes: int, convert: Convert) -> Any:
    return [_nested(part, axes - 1, convert) for part in values] if axes else convert(values)


def _as_in_file(values: Any, dtype: np.dtype[Any]) -> Any:
    """Return a sequence from h5py, which marks bytes as native and dates as without a unit, as the file has it."""
    if not isinstance(values, np.ndarray) or dtype.hasobject:
        return values
    is_same = values.dtype == dtype.newbyteorder("=") or (dtype.kind in "mM" and values.dtype.kind == dtype.kind)
    is_opaque = dtype.kind == "V" and dtype.names is None and dtype.itemsize == values.itemsize
    return values.view(dtype) if is_same or is_opaque else values


def encode_array(values: Array, element: Element, refer: Convert) -> Any:
    """Return the JSON of an array of values: nested lists, or one value for a 0-d array."""
    own = values.ndim - (len(element.shape) if isinstance(element, ArrayOf) else 0)
    return _nested(values if values.ndim else values[()], own, encoder(element, refer))


def decoder(element: Element, dtype: np.dtype[Any], refer: Convert) -> Convert:
    """Return the inverse of `encoder`; ``dtype`` is that of the array for the values."""
    match element:
        case Reference():
            return refer
        case Text():
            return decode_text
        case Time(tag=""):
            return lambda value: value  # in rows of Zarr, dates are integers
        case Opaque(size) | Time(size=size) | Number(size=size, layout=Opaque()):
            # `dtype` may have another byte order than the bytes.
            exact = dtype if isinstance(element, Opaque) else to_hdf5(element).dtype
            own = np.dtype(f"V{size}") if dtype.hasobject else exact
            return lambda value: (
                np.frombuffer(base64.b64decode(value["base64"]), own)[0]
                if isinstance(value, dict)
                else _decode_number(value, dtype)  # in rows of Zarr, opaque numbers are numbers
            )
        case Compound(fields) if dtype.names is not None:
            converters = [decoder(member, dtype[name], refer) for name, member in fields]
            return lambda value: tuple(convert(item) for convert, item in zip(converters, value, strict=True))
        case ArrayOf(base, shape):
            return lambda value: decode_array(value, shape, base, dtype.base, refer)
        case Sequence(base):
            own, inner = _own_dtype(base), to_hdf5(base).dtype

            def decode_sequence(value: Any) -> Array:
                values = decode_array(value, (len(value),), base, own, refer)
                return values if own == inner else values.view(inner)  # h5py writes those of the type in the tag

            return decode_sequence
    return lambda value: _decode_number(value, dtype)  # also for two fields r and i, which h5py reads as complex


def _decode_number(value: Any, dtype: np.dtype[Any]) -> Any:
    if isinstance(value, list):
        parts: Array = np.empty(2, f"{dtype.str[0]}f{dtype.itemsize // 2}")
        parts[:] = [_decode_number(part, parts.dtype) for part in value]
        return parts.view(dtype)[0]
    if isinstance(value, str) and value.startswith("0x"):
        bits, size = int(value, 16), len(value) // 2 - 1
        if size != dtype.itemsize:  # a NaN of a type that another release of h5py has for the element
            return dtype.type(math.copysign(math.nan, -(bits >> 8 * size - 1)))
        return np.array(bits, f"u{dtype.itemsize}").astype(f"{dtype.str[0]}u{dtype.itemsize}").view(dtype)[()]
    return float(value) if isinstance(value, str) and dtype.kind == "f" else value


def decode_text(value: Any) -> bytes:
    """Return the bytes of text as encoded by `encode_text`."""
    if isinstance(value, bytes):
        return bytes(value)
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else raw_of(value)


def decode_array(value: Any, shape: Any, element: Element, dtype: np.dtype[Any], refer: Convert) -> Array:
    """Return the array for nested lists; the inverse of `encode_array`."""
    try:
        flat = [value] if not len(shape) else list(value)
        for _ in range(len(shape) - 1):
            flat = [item for row in flat for item in row]
        return array_of(list(map(decoder(element, dtype, refer), flat)), tuple(shape), dtype)
    except _DECODE_ERRORS as error:
        raise MetadataError(f"a value does not fit its type {element} ({error})") from error


def array_of(values: list[Any], shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array of ``shape`` whose elements are ``values``, which may be sequences themselves."""
    base, inner = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    array: Array = np.empty((len(values), *inner), base)
    for position, item in enumerate(values):
        array[position] = item
    return array.reshape((*shape, *inner))


def object_array(items: Collection[Any], shape: tuple[int, ...]) -> Array:
    """Return an array of objects of ``shape``; lists and arrays among ``items`` remain elements."""
    return np.fromiter(items, object, len(items)).reshape(shape)


def plain_values(values: Array, element: Element, resolve: Convert) -> Array:
    """Convert values as h5py or Zarr return them to the form described in `model.content`."""
    match element:
        case Text():  # unwritten elements are empty
            texts = [text_of(item) if isinstance(item, (bytes, str)) else "" for item in values.flat]
            return object_array(texts, values.shape)
        case Reference():
            return object_array([resolve(item) for item in values.flat], values.shape)
        case Opaque(size):
            # text for a tag such as NUMPY:|S3, of which NumPy drops the NULs at the end
            raw = (item.tobytes() if isinstance(item, np.void) else item for item in values.flat)
            padded = [item.ljust(size, b"\0") if isinstance(item, bytes) else bytes(size) for item in raw]
            return object_array(padded, values.shape)
        case ArrayOf(base):
            return plain_values(values, base, resolve)
        case Sequence(base):
            try:
                dtype = _own_dtype(base)
            except (MetadataError, ValueRefusedError):  # such as a long double, which h5py reads but cannot create
                dtype = np.dtype(object)
            # An unwritten sequence is None.
            rows = [_as_in_file(item, dtype) if isinstance(item, np.ndarray) else None for item in values.flat]
            plain = [np.empty(0) if row is None else plain_values(row, base, resolve) for row in rows]
            return object_array(plain, values.shape)
        case Compound(fields):
            columns = {name: plain_values(values[name], member, resolve) for name, member in fields}
            table = np.empty(values.shape, [(name, c.dtype, c.shape[values.ndim :]) for name, c in columns.items()])
            for name, column in columns.items():
                table[name] = column
            return table
    return values
