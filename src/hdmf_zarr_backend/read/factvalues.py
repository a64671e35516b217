"""Values of Zarr arrays and attributes, in the form that `mapping.facts` describes."""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from hdmf_zarr_backend.errors import DamagedFileError
from hdmf_zarr_backend.mapping.facts import AttributeFacts, ElementType, Reference, Region, Values
from hdmf_zarr_backend.mapping.factvalues import even_steps, plain_values, text_of
from hdmf_zarr_backend.read.facttypes import REFERENCE, REGION, UTF8, noted_element, numpy_element

Resolve: TypeAlias = Callable[[Any], Reference]

_CODES = {"bool": "?", "int": "i", "uint": "u", "float": "f", "complex": "c", "bitfield": "u"}
_JSON_ERRORS = (ValueError, TypeError, KeyError, IndexError, OverflowError, binascii.Error)


# ---- blocks of arrays ---------------------------------------------------------------------------------------------


def block_values(values: Values, element: ElementType, shape: tuple[int, ...], resolve: Resolve) -> Values:
    """Return a decoded block in the form of facts.

    Parameters
    ----------
    values : numpy.ndarray
        As the codecs give it; rows as ``(n, k)`` objects, or as ``n`` tuples.
    element : ElementType
        What it holds.
    shape : tuple of int
        Of the block as HDMF sees it, without the axes that an element has itself.
    resolve : callable
        Returns the `Reference` of a stored reference.

    Raises
    ------
    DamagedFileError
        Rows do not fit their fields.
    """
    if element.kind == "compound" and values.dtype.kind == "O":
        rows = values.reshape(-1, values.shape[-1]) if values.ndim > len(shape) else values.reshape(-1)
        return json_values(list(rows), element, resolve).reshape(shape)
    if element.kind == "text" and values.dtype.kind == "O":
        values = _objects([_text(item) for item in values.flat], values.shape)
    inner = element.shape if element.kind == "array" else ()
    if values.size != math.prod((*shape, *inner)):
        raise DamagedFileError(f"the values have not the shape that their type {element} asks for")
    return plain_values(values.reshape((*shape, *inner)), element, resolve)


def _text(item: Any) -> Any:
    """Return what stands among text and is none as its JSON, so that it does not look like empty text."""
    return item if item is None or isinstance(item, str | bytes) else json.dumps(item, default=repr)


def json_values(items: Sequence[Any], element: ElementType, resolve: Resolve) -> Values:
    """Return an array of values that are stored as JSON: rows, noted attributes and fill values.

    Raises
    ------
    DamagedFileError
        One does not fit its type.
    """
    dtype = _json_dtype(element)
    base, inner = dtype.subdtype if dtype.subdtype is not None else (dtype, ())
    made: Values = np.empty((len(items), *inner), base)
    try:
        for position, item in enumerate(items):
            made[position] = _json_value(item, element, resolve)
    except _JSON_ERRORS as error:
        raise DamagedFileError(f"a value does not fit its type {element} ({error})") from error
    return made


def _json_dtype(element: ElementType) -> np.dtype[Any]:
    """Return the NumPy dtype of values as facts have them."""
    if element.kind == "compound":
        return np.dtype([(name, _json_dtype(member)) for name, member in element.fields])
    if element.kind == "array" and element.base is not None:
        return np.dtype((_json_dtype(element.base), element.shape))
    if element.kind == "datetime":
        return np.dtype(f"{'M' if element.detail.startswith('d') else 'm'}8{element.detail.partition('64')[2]}")
    code = _CODES.get(element.detail if element.kind == "enum" else element.kind)
    if code is None:
        return np.dtype(object)
    return np.dtype(code if code == "?" else f"{code}{element.size}")


def _json_value(item: Any, element: ElementType, resolve: Resolve) -> Any:
    if element.kind in ("reference", "region"):
        return resolve(item)
    if element.kind == "text":
        return text_of(_raw(item) if isinstance(item, dict) else _text(item))
    if element.kind == "opaque":
        return _raw(item)
    if element.kind == "compound":
        row = [_json_value(part, member, resolve) for part, (_, member) in zip(item, element.fields, strict=True)]
        return tuple(row)
    if element.kind == "array" and element.base is not None:
        base, depth = element.base, len(element.shape)
        return json_values(_flattened(item, depth), base, resolve).reshape(element.shape)
    if element.kind == "sequence" and element.base is not None:
        return json_values(item, element.base, resolve)
    if element.kind == "complex" and isinstance(item, list):
        return complex(*(float(_number(part, (element.size or 16) // 2)) for part in item))
    return _number(item, element.size)


def _number(item: Any, size: int | None) -> Any:
    """Return a number; a NaN with a payload of its own is given as its bits."""
    if isinstance(item, str) and item.startswith("0x"):
        return np.array(int(item, 16), f"u{size}").view(f"f{size}")[()]
    return float(item) if isinstance(item, str) else item


def _raw(item: Any) -> bytes:
    return item if isinstance(item, bytes) else base64.b64decode(item["base64"])


def _flattened(items: Any, depth: int) -> list[Any]:
    rows = list(items)
    for _ in range(depth - 1):
        rows = [item for row in rows for item in row]
    return rows


def nested_array(value: Any) -> Values | None:
    """Return lists in lists of objects as an array of several axes, None where the JSON ``value`` is something else."""
    depth, first = 0, value
    while isinstance(first, list) and first:
        depth, first = depth + 1, first[0]
    if depth < 2 or not isinstance(first, dict):
        return None
    found = np.array(value, dtype=object)
    return found if found.ndim == depth else None


def default_element(element: ElementType, dtype: np.dtype[Any]) -> Values:
    """Return what HDF5 fills with where nothing else was chosen: zero, empty text, a null reference.

    Parameters
    ----------
    element : ElementType
        What the array holds.
    dtype : numpy.dtype
        Of its data type.
    """
    inner = element.shape if element.kind == "array" else ()
    if dtype.kind == "O" and element.kind == "compound":
        dtype = _json_dtype(element)
    return plain_values(np.zeros(inner, dtype), element, _null)


def _null(_: Any) -> Reference:
    return Reference(None)


def canonical_region(region: Any, shape: tuple[int, ...] | None) -> Region | None:
    """Return the selection of a region reference in the one spelling of `Region`, None where there is none.

    Parameters
    ----------
    region : list, dict or None
        As `mapping.regions` has it on disk. What is no region is kept as it is, so that it differs from every other.
    shape : tuple of int or None
        Of the target, which the ends of a slice may be left to.
    """
    if region is None:
        return None
    try:
        if isinstance(region, dict):
            points = tuple(tuple(int(n) for n in point) for point in region["points"])
            return (("points", points),) if points else (("none", ()),)
        axes = [_selected(entry, axis, shape) for axis, entry in enumerate(region)]
    except (KeyError, TypeError, ValueError, IndexError):
        return (("unknown", (json.dumps(region, sort_keys=True, default=repr),)),)
    if any(not axis for axis in axes):
        return (("none", ()),)
    return tuple(even_steps(axis) or ("index", tuple(axis)) for axis in axes)


def _selected(entry: dict[str, Any], axis: int, shape: tuple[int, ...] | None) -> list[int]:
    if "slice" not in entry:
        return [int(index) for index in entry["index"]]
    start, stop, step = entry["slice"]
    if start is None or stop is None or shape is not None:
        return list(range(*slice(start, stop, step).indices((shape or ())[axis])))
    return list(range(start, stop, 1 if step is None else step))


# ---- attributes ---------------------------------------------------------------------------------------------------


def attribute_facts(value: Any) -> AttributeFacts:
    """Return what a decoded attribute is as HDF5 would hold it.

    Parameters
    ----------
    value : object
        As `mapping.attributes.decode_attributes` gives it, references resolved to `Reference`.
    """
    if isinstance(value, dict):
        return attribute_facts(json.dumps(value, sort_keys=True))
    if isinstance(value, Reference):
        return AttributeFacts(_reference_type(value), (), _objects([value], ()))
    if isinstance(value, list) and value and all(isinstance(item, Reference) for item in value):
        return AttributeFacts(_reference_type(value[0]), (len(value),), _objects(value, (len(value),)))
    if type(value) in (str, bytes):
        value = np.array(value, dtype=object)
    try:
        array = np.asarray(value)
    except ValueError:  # lists of unlike lengths, which HDF5 holds as JSON
        return attribute_facts(json.dumps(value, sort_keys=True, default=repr))
    if array.dtype.kind in "OUT":
        texts = [_text(item) for item in array.flat]
        return AttributeFacts(_text_type(texts), array.shape, _objects([text_of(item) for item in texts], array.shape))
    element = numpy_element(array.dtype)
    return AttributeFacts(element, array.shape, plain_values(array, element, _null))


def _text_type(texts: list[Any]) -> ElementType:
    if texts and all(isinstance(item, bytes) for item in texts):
        size = max(1, *map(len, texts))
        return ElementType("text", size, encoding="ascii", detail="null-padded")  # as h5py writes bytes
    return UTF8


def noted_attribute(found: AttributeFacts | None, note: dict[str, Any], resolve: Resolve) -> AttributeFacts | None:
    """Return an attribute with what a conversion from HDF5 has noted of it.

    Parameters
    ----------
    found : AttributeFacts or None
        The attribute as it is stored; None where it is in the note only.
    note : dict
        ``type``, and ``space``, or ``shape`` and ``value``.
    resolve : callable
        Returns the `Reference` of a stored reference.

    Raises
    ------
    MetadataError, DamagedFileError
        The note makes no sense.
    """
    if "type" not in note:
        return found
    element = noted_element(note["type"])
    if note.get("space") == "null":
        return AttributeFacts(element, None, None)
    if "value" in note:
        try:
            shape = tuple(int(n) for n in note["shape"])
            items = _flattened(note["value"], len(shape)) if shape else [note["value"]]
            values = json_values(items, element, resolve)
            return AttributeFacts(element, shape, values.reshape((*shape, *values.shape[1:])))
        except _JSON_ERRORS as error:
            raise DamagedFileError(f"the note of an attribute does not fit its type {element} ({error})") from error
    if found is None or found.value is None or found.shape is None:
        return found
    return _as_noted(found, element)


def _as_noted(found: AttributeFacts, element: ElementType) -> AttributeFacts:
    """Return the attribute with the noted type, unless it holds something else since."""
    values, shape = found.value, found.shape
    assert values is not None
    assert shape is not None
    if element.kind == found.dtype.kind or (
        found.dtype.kind in ("int", "uint") and element.kind in ("enum", "bitfield")
    ):
        return replace(found, dtype=element)
    if element.kind == "array" and element.base is not None and shape[-len(element.shape) :] == element.shape:
        inner = _as_noted(found, element.base)
        outer = shape[: len(shape) - len(element.shape)]
        return AttributeFacts(replace(element, base=inner.dtype), outer, inner.value)
    if values.size == 0 and element.kind in ("reference", "region"):
        return AttributeFacts(element, shape, _objects([], shape))
    return found


def _reference_type(value: Reference) -> ElementType:
    return REFERENCE if value.region is None else REGION


def _objects(items: Sequence[object], shape: tuple[int, ...]) -> Values:
    made = np.empty(len(items), dtype=object)
    for position, item in enumerate(items):
        made[position] = item
    return made.reshape(shape)
