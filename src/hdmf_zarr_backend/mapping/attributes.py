"""Attribute values <-> JSON, with their types kept.

JSON knows a number where HDF5 knows ``uint8``; a file that forgets the difference does not validate and some cannot even be
read. The type of every value that NumPy typed is kept beside it: where NCZarr has a name for it in ``_nczarr_attr.types``
(netcdf-c honours it, other readers ignore it), else in the note of the node. ``decode(encode(x)) == x`` in value, type and
shape, with the two exceptions that HDF5 makes as well: a list comes back as an array, and so does a tuple.

Source: hdmf-zarr storage specification, "Attributes"; NCZarr 2.0 attribute types; issue "The whole contract", part 4.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.mapping.reserved import NCZARR_ATTR, NOTES, escape, notes_of, visible

Reference = Callable[[Any], "dict[str, Any] | None"]
Resolve = Callable[[dict[str, Any]], Any]

_NCZARR = {"i1": "<i1", "u1": "<u1", "i2": "<i2", "u2": "<u2", "i4": "<i4", "u4": "<u4", "i8": "<i8", "u8": "<u8",
           "f4": "<f4", "f8": "<f8"}  # fmt: skip
_TYPES = "types"
_NOTE = "attributes"
_REMEDY = "Store it as a dataset, or convert it to a number, text, a list of those or a NumPy array."


def encode_attributes(
    attributes: dict[str, Any], *, notes: dict[str, Any], reference: Reference = lambda value: None, strict: bool = False
) -> dict[str, Any]:
    """Return the JSON attributes of a node.

    Parameters
    ----------
    attributes : dict
        Values by name: text, bytes, numbers, bool, dates, NumPy scalars and arrays, lists of those, references.
    notes : dict
        The note of the node; what JSON and NCZarr cannot say is put down here and the note is added to the result.
    reference : callable
        Returns the JSON of a value that is a reference, else None.
    strict : bool
        Write NaN and infinities as typed text, so that the document is strict JSON (hdmf-zarr 0.13 cannot read those).

    Raises
    ------
    ValueRefusedError
        A value that has no place in an attribute; the name is in the message.
    """
    types: dict[str, str] = {}
    remarks: dict[str, Any] = {}
    encoded: dict[str, Any] = {}
    for name, stored in escape(attributes, notes).items():
        try:
            value, kind, remark = _encode(attributes[name], reference)
        except ValueRefusedError as error:
            error.problem = f"the attribute {name!r} cannot be stored: {error.problem}"
            error.remedy = error.remedy or _REMEDY
            raise
        if strict:
            value, kind = _strict(value, kind)
        encoded[stored] = value
        if kind is not None:
            types[stored] = kind
        if remark is not None:
            remarks[stored] = remark
    if types:
        encoded[NCZARR_ATTR] = {_TYPES: types}
    if remarks:
        notes[_NOTE] = remarks
    if notes:
        encoded[NOTES] = notes
    return encoded


Encoded = tuple[Any, "str | None", Any]


def _encode(value: Any, reference: Reference) -> Encoded:
    """Return the JSON, the NCZarr type and the remark of one value."""
    found = reference(value)
    if found is not None:
        return found, None, None
    if isinstance(value, (list, tuple, set, frozenset)):
        return _encode_list(list(value), reference)
    if isinstance(value, np.ndarray):
        return _encode_array(value, reference)
    if isinstance(value, np.generic):
        return _encode_numpy_scalar(value)
    return _encode_python(value)


def _encode_python(value: Any) -> Encoded:
    if isinstance(value, bytes):
        return _encode_objects(np.array(value, dtype=object), lambda item: None)
    if isinstance(value, (str, bool, int, float)):
        return value, None, None
    if isinstance(value, complex):
        return [value.real, value.imag], None, {"dtype": "complex"}
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat(), None, None
    if isinstance(value, dict):
        return _encode_dict(value), None, {"dtype": "json"}
    if type(value).__name__ == "Empty" and hasattr(value, "dtype"):  # h5py.Empty, without importing h5py for the test
        return "", None, {"dtype": np.dtype(value.dtype).str if value.dtype is not None else "|S1", "null": True}
    raise ValueRefusedError(f"a value of type {type(value).__name__} has no JSON form")


def _encode_dict(value: dict[Any, Any]) -> dict[str, Any]:
    for key, item in value.items():
        if not isinstance(key, str) or not isinstance(item, (str, int, float, bool, list, dict, type(None))):
            raise ValueRefusedError(f"the entry {key!r} of a dict has no JSON form")
    return value


def _encode_numpy_scalar(value: np.generic) -> Encoded:
    if isinstance(value, np.str_):
        return str(value), None, None
    if isinstance(value, np.bytes_):
        return _encode_python(bytes(value))
    if isinstance(value, np.void):
        return _encode_array(np.array(value), lambda item: None)
    return _typed(np.array(value))


def _encode_list(items: list[Any], reference: Reference) -> Encoded:
    if not items:
        return [], None, {"dtype": "list"}
    references = [reference(item) for item in items]
    if all(item is not None for item in references):
        return references, None, None
    if any(item is not None for item in references):
        raise ValueRefusedError("a list mixes references with other values")
    if all(isinstance(item, str) for item in items):
        return [str(item) for item in items], None, None
    if all(isinstance(item, bytes) for item in items):
        return _encode_array(_objects(items), reference)
    if all(isinstance(item, (datetime.datetime, datetime.date)) for item in items):
        return [item.isoformat() for item in items], None, None
    try:
        array = np.array(items)
    except ValueError as error:
        raise ValueRefusedError("a list whose rows differ in length is no array") from error
    if array.dtype.kind == "U" and not _only_text(items):
        raise ValueRefusedError("a list mixes text with numbers")
    return _encode_array(array, reference)


def _only_text(items: Any) -> bool:
    return all(_only_text(item) if isinstance(item, (list, tuple, np.ndarray)) else isinstance(item, str) for item in items)


def _objects(items: list[Any]) -> npt.NDArray[Any]:
    array = np.empty(len(items), object)
    array[:] = items
    return array


def _encode_array(array: npt.NDArray[Any], reference: Reference) -> Encoded:
    if array.dtype.kind == "O":
        return _encode_objects(array, reference)
    if array.dtype.kind == "U" or array.dtype.kind == "T":
        return array.astype(object).tolist(), None, _shape_remark({"dtype": "str"}, array)
    if array.dtype.kind == "S":
        texts = [_text_or_none(item) for item in array.reshape(-1).tolist()]
        if None in texts:
            return _base64(array), None, {"dtype": array.dtype.str, "shape": list(array.shape), "base64": True}
        return _reshape(texts, array.shape), None, _shape_remark({"dtype": array.dtype.str}, array)
    return _typed(array)


def _encode_objects(array: npt.NDArray[Any], reference: Reference) -> Encoded:
    items = array.reshape(-1).tolist()
    references = [reference(item) for item in items]
    if items and all(item is not None for item in references):
        return _reshape(references, array.shape), None, None
    if all(isinstance(item, str) for item in items):
        return _reshape(items, array.shape), None, _shape_remark({"dtype": "str"}, array) if not array.size or array.ndim != 1 else None
    if all(isinstance(item, bytes) for item in items):
        texts = [_text_or_none(item) for item in items]
        if None not in texts:
            return _reshape(texts, array.shape), None, _shape_remark({"dtype": "bytes"}, array)
        coded = [base64.b64encode(item).decode() for item in items]
        return _reshape(coded, array.shape), None, {"dtype": "bytes", "shape": list(array.shape), "base64": True}
    kinds = sorted({type(item).__name__ for item in items})
    raise ValueRefusedError(f"an array of objects of type {', '.join(kinds)} has no JSON form")


def _shape_remark(remark: dict[str, Any], array: npt.NDArray[Any]) -> dict[str, Any]:
    """Add the shape where nested lists do not show it."""
    return {**remark, "shape": list(array.shape)} if array.size == 0 else remark


def _typed(array: npt.NDArray[Any]) -> Encoded:
    """Return numbers; NCZarr's name where it has one and JSON shows the shape, else a remark."""
    dtype = array.dtype
    code = dtype.kind + str(dtype.itemsize)
    if code in _NCZARR and dtype.names is None:
        remark = None if array.size or array.ndim == 1 else {"dtype": dtype.newbyteorder("<").str, "shape": list(array.shape)}
        return array.tolist(), _NCZARR[code], remark
    if dtype.kind == "b":
        return array.tolist(), None, _shape_remark({"dtype": "|b1"}, array)
    if dtype.kind == "f" and dtype.itemsize == 2:
        return array.tolist(), None, _shape_remark({"dtype": "<f2"}, array)
    if dtype.kind == "c" and dtype.itemsize in (8, 16):
        pairs = np.stack([array.real, array.imag], axis=-1).tolist()
        return pairs, None, {"dtype": dtype.newbyteorder("<").str, "shape": list(array.shape)}
    if dtype.kind in "mM":
        name = dtype.newbyteorder("<").str
        return array.astype("i8").tolist(), None, {"dtype": name, "shape": list(array.shape)}
    if dtype.kind == "V" and not dtype.hasobject:
        from hdmf_zarr_backend.mapping.dtypes import plain, zarr_type

        packed = array.astype(plain(dtype))
        remark = {"dtype": zarr_type(packed.dtype), "shape": list(array.shape), "base64": True}
        return _base64(packed), None, remark
    raise ValueRefusedError(f"an attribute of type {dtype} has no JSON form")


def _base64(array: npt.NDArray[Any]) -> str:
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()


def _text_or_none(value: bytes) -> str | None:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return None


def _reshape(items: list[Any], shape: tuple[int, ...]) -> Any:
    if not shape:
        return items[0]
    array = np.empty(len(items), object)
    for position, item in enumerate(items):
        array[position] = item
    return array.reshape(shape).tolist()


def _strict(value: Any, kind: str | None) -> tuple[Any, str | None]:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity", kind or "<f8"
    if isinstance(value, list):
        parts = [_strict(item, kind) for item in value]
        return [part[0] for part in parts], next((part[1] for part in parts if part[1]), kind)
    return value, kind


def decode_attributes(attributes: dict[str, Any], *, resolve: Resolve) -> dict[str, Any]:
    """Return the values of the JSON attributes of a node, without the reserved ones.

    Parameters
    ----------
    attributes : dict
        As in the document.
    resolve : callable
        Returns the value for the JSON of a reference.

    Raises
    ------
    MetadataError
        A value does not fit the type that is kept beside it; the name is in the message.
    """
    holder = attributes.get(NCZARR_ATTR)
    types = holder.get(_TYPES, {}) if isinstance(holder, dict) else {}
    remarks = notes_of(attributes).get(_NOTE, {})
    decoded: dict[str, Any] = {}
    for stored, name in visible(attributes).items():
        value = attributes[stored]
        if value is None:
            continue  # HDMF has no attribute without a value
        try:
            decoded[name] = _decode(value, types.get(stored), remarks.get(stored), resolve)
        except (ValueError, TypeError, OverflowError, binascii.Error, AttributeError) as error:
            raise MetadataError(
                f"the attribute {stored!r} does not fit its type ({error})", remedy="Run `zarrio verify` on the file."
            ) from error
    return decoded


def is_reference(value: Any) -> bool:
    """Tell whether the JSON ``value`` is a reference of format 2."""
    return isinstance(value, dict) and value.get("zarr_dtype") in ("object", "region") and isinstance(value.get("value"), dict)


def _decode(value: Any, kind: str | None, remark: Any, resolve: Resolve) -> Any:
    if isinstance(remark, dict):
        return _decode_remarked(value, remark)
    if kind is not None and not kind.startswith((">S", "|S", "|J")):
        array = np.array(_numbers(value), dtype=kind)
        return array if array.ndim else array[()]
    if is_reference(value):
        return resolve(value)
    if isinstance(value, list):
        return _decode_list(value, resolve)
    return value


def _numbers(value: Any) -> Any:
    """Return typed text such as "NaN" as the number it stands for."""
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if isinstance(value, str) else value


def _decode_list(value: list[Any], resolve: Resolve) -> Any:
    if value and all(is_reference(item) for item in value):
        return [resolve(item) for item in value]
    leaves = _leaves(value)
    kinds = {type(item) for item in leaves}
    if not leaves or not kinds <= {str, int, float, bool} or (len(kinds) > 1 and kinds != {int, float}):
        return value
    array = np.array(value, dtype=object if kinds == {str} else None)
    return array


def _leaves(value: Any) -> list[Any]:
    return [leaf for item in value for leaf in _leaves(item)] if isinstance(value, list) else [value]


def _decode_remarked(value: Any, remark: dict[str, Any]) -> Any:
    dtype = remark.get("dtype")
    if dtype == "json":
        return value
    if dtype == "list":
        return []
    if dtype == "complex":
        return complex(*value)
    if remark.get("null"):
        return np.zeros(0, dtype=str(dtype))  # an HDF5 attribute with a type and no value
    shape = tuple(remark["shape"]) if "shape" in remark else None
    if dtype in ("str", "bytes"):
        return _decode_text(value, dtype, shape, coded=bool(remark.get("base64")))
    numpy_type = np.dtype([tuple(field) for field in dtype] if isinstance(dtype, list) else dtype)
    if remark.get("base64"):
        array = np.frombuffer(base64.b64decode(value), numpy_type).reshape(shape or ()).copy()
    elif numpy_type.kind == "c":
        pairs = np.array(value, dtype=f"f{numpy_type.itemsize // 2}").reshape((*(shape or ()), 2))
        array = (pairs[..., 0] + 1j * pairs[..., 1]).astype(numpy_type)
    elif numpy_type.kind in "mM":
        array = np.array(value, dtype="i8").astype(numpy_type)
    elif numpy_type.kind == "S":
        array = np.char.encode(np.array(value, dtype=str), "utf-8").astype(numpy_type) if np.size(value) else np.zeros(0, numpy_type)
    else:
        array = np.array(_numbers(value), dtype=numpy_type)
    if shape is not None:
        array = array.reshape(shape)
    return array if array.ndim else array[()]


def _decode_text(value: Any, dtype: str, shape: tuple[int, ...] | None, *, coded: bool) -> Any:
    array = np.array(value, dtype=object)
    if shape is not None:
        array = array.reshape(shape)
    if dtype == "bytes":
        flat = array.reshape(-1)
        for position, item in enumerate(flat.tolist()):
            flat[position] = base64.b64decode(item) if coded else str(item).encode("utf-8")
        array = flat.reshape(array.shape)
    return array if array.ndim else array[()]
