"""The attributes of a node <-> its JSON document, including the types of the values.

JSON has only numbers where HDF5 has ``uint8``; without the type a file does not validate, and some cannot be read. So
the type of each value with a NumPy type is stored beside it: in ``_nczarr_attr.types`` if NCZarr has a name for it
(netcdf-c uses it, other readers ignore it), else in the note of the node. ``decode(encode(x)) == x`` in value, type and
shape, with these exceptions: lists and tuples come back as arrays (as in HDF5); an array without axes comes back as a
scalar; padding between the fields of a row is dropped; an array of `numpy.dtypes.StringDType` comes back as an array of
objects; dates of Python come back as ISO 8601.

Source: hdmf-zarr storage specification, "Attributes"; NCZarr 2.0 attribute types.
"""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Callable
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np

from hdmf_zarr_backend.encoding.casting import Array, infer, to_text, unmasked
from hdmf_zarr_backend.encoding.data_types import code_of, json_float
from hdmf_zarr_backend.encoding.dtypes import element_of, from_zarr_type, has_unusual_nan, plain, zarr_type
from hdmf_zarr_backend.encoding.hdf5_values import object_array, utf8_or_none
from hdmf_zarr_backend.encoding.references import decode_attribute_reference, from_zarr3, is_reference
from hdmf_zarr_backend.encoding.reserved import NCZARR_ATTR, NOTES, as_dict, escape, notes_of, visible
from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError, ZarrBackendError
from hdmf_zarr_backend.model.element import UTF8, Element, Text, check_characters
from hdmf_zarr_backend.model.json_text import each
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, Node, absolute, join, relative, split
from hdmf_zarr_backend.model.render import counted, few

Reference: TypeAlias = Callable[[Any], "dict[str, Any] | None"]
Resolve: TypeAlias = Callable[[dict[str, Any]], Any]
Encoded: TypeAlias = "tuple[Any, str | None, dict[str, Any] | None]"

# Without the type, the uint8 ids of ndx-pose came back as int64, and hdmf-zarr 0.13 could not construct the object
# (hdmf-zarr issue 323). netcdf-c shows attributes in these types in every mode; hdmf-zarr and xarray ignore them.
_NCZARR = frozenset({"i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"})
_DATES = (datetime.datetime, datetime.date)
_LARGEST = 2**26  # the most bytes of an attribute: a damaged file may declare text of any length
_TYPES = "types"
_NOTE = "attributes"
_REMEDY = "Store it as a dataset, or convert it to a number, text, a list of those or a NumPy array."
_DAMAGE = (ValueError, TypeError, ArithmeticError, KeyError, IndexError, AttributeError, SyntaxError, RecursionError,
           MemoryError)  # fmt: skip


def _encode(value: Any, reference: Reference) -> Encoded:
    """Return the JSON, the NCZarr type and the remark for a value; arguments as in `encode_attributes`."""
    if type(value) is str:  # the most frequent type
        return value, None, None
    encoded = reference(value)
    if encoded is not None:
        return encoded, None, None
    value = unmasked(value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return _encode_list(list(value), reference)
    if isinstance(value, np.ndarray) or (isinstance(value, np.generic) and value.dtype.kind not in "SU"):
        return _encode_array(np.asarray(value), reference)
    return _encode_python(value.item() if isinstance(value, np.str_) else value)


def _encode_python(value: Any) -> Encoded:
    if isinstance(value, bytes):
        return _encode_objects([bytes(value)], (), lambda item: None)
    if isinstance(value, (str, bool, int, float)):
        return value, None, None
    if isinstance(value, complex):
        return [value.real, value.imag], None, {"dtype": "complex"}
    if isinstance(value, _DATES):
        return value.isoformat(), None, None
    if isinstance(value, dict) and _is_json(value):
        return value, None, {"dtype": "json"}
    # This is h5py.Empty. h5py is not imported for it.
    if type(value).__name__ == "Empty" and hasattr(value, "dtype"):
        return "", None, {"dtype": code_of(np.dtype(value.dtype)) if value.dtype is not None else "|S1", "null": True}
    raise ValueRefusedError(f"a value of type {type(value).__name__} has no JSON form")


def _is_json(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return all(map(_is_json, value))
    return value is None or (isinstance(value, (str, bool, int, float)) and not isinstance(value, np.generic))


def _encode_list(items: list[Any], reference: Reference) -> Encoded:
    if not items:  # JSON does not tell an empty list from an empty array of numbers, as which it would come back
        return [], None, {"dtype": "list"}
    if all(type(item) is str for item in items):
        return items, None, None
    references = [item for item in map(reference, items) if item is not None]
    if len(references) == len(items):
        return references, None, None
    if references:
        raise ValueRefusedError("a list mixes references with other values")
    try:
        array = infer(items)
    except ValueRefusedError:
        if not _is_json(items):
            raise
        # it comes back as it is: integers of any size, or mixed values
        shape, leaves = _flat(items)
        if shape is not None and set(map(type, leaves)) == {int}:
            return _encode_objects(leaves, shape, reference)
        return items, None, {"dtype": "json"}
    if not array.size:
        return items, None, {"dtype": "json"}
    if array.dtype != object:
        return _encode_array(array, reference)
    leaves = [leaf.isoformat() if isinstance(leaf, _DATES) else leaf for leaf in array.reshape(-1).tolist()]
    return _encode_objects(leaves, array.shape, reference)


def _flat(value: Any) -> tuple[tuple[int, ...] | None, list[Any]]:
    """Return the shape of nested lists, None if rows differ in length, and their elements in order."""
    if not isinstance(value, (list, tuple)):
        return (), [value]
    rows = list(map(_flat, value))
    shapes = {shape for shape, _ in rows}
    inner = shapes.pop() if len(shapes) == 1 else None if shapes else ()
    return None if inner is None else (len(rows), *inner), [leaf for _, leaves in rows for leaf in leaves]


def _encode_array(array: Array, reference: Reference) -> Encoded:
    dtype = array.dtype
    code, shape = dtype.str[1:], list(array.shape)
    if dtype.kind in "OT":
        return _encode_objects(array.reshape(-1).tolist(), array.shape, reference)
    if dtype.kind in "SU":
        texts = array.reshape(-1).tolist()
        texts = texts if dtype.kind == "U" else list(map(utf8_or_none, texts))
        if None in texts:
            return _base64(array), None, {"dtype": dtype.str, "shape": shape, "base64": True}
        return _nested(texts, array.shape), None, _remark(array)
    bits = {"bits": _base64(array)} if has_unusual_nan(array) else {}
    if code in _NCZARR:
        is_shown = bool(array.size) or array.ndim == 1
        return array.tolist(), dtype.str.replace("|", "<"), None if is_shown and not bits else _remark(array) | bits
    if code in ("b1", "f2"):
        return array.tolist(), None, {**_remark(array), **bits}
    if code in ("c8", "c16"):
        pairs = np.stack([array.real, array.imag], axis=-1).tolist()
        return pairs, None, {"dtype": dtype.str, "shape": shape, **bits}
    if dtype.kind in "mM":
        return array.astype("i8").tolist(), None, {"dtype": dtype.str, "shape": shape}
    if dtype.kind == "V" and not dtype.hasobject and dtype.itemsize:
        packed = array.astype(plain(dtype))
        return _base64(packed), None, {"dtype": zarr_type(packed.dtype), "shape": shape, "base64": True}
    raise ValueRefusedError(f"an attribute of type {dtype} has no JSON form")


def _encode_objects(items: list[Any], shape: tuple[int, ...], reference: Reference) -> Encoded:
    references = list(map(reference, items))
    if items and None not in references:
        return _nested(references, shape), None, None
    kinds = {type(item) for item in items}
    if all(issubclass(kind, str) for kind in kinds):
        remark = {} if items else {"dtype": "str", "shape": list(shape)}
        return _nested(list(map(str, items)), shape), None, remark or None
    if all(issubclass(kind, bytes) for kind in kinds):
        texts = list(map(utf8_or_none, items))
        if None not in texts:
            return _nested(texts, shape), None, {"dtype": "bytes"}
        coded = [base64.b64encode(item).decode() for item in items]
        return _nested(coded, shape), None, {"dtype": "bytes", "shape": list(shape), "base64": True}
    if kinds == {int}:
        return _nested(items, shape), None, {"dtype": "|O"}
    names = sorted(map(attrgetter("__name__"), kinds))
    raise ValueRefusedError(f"an array of objects of type {', '.join(names)} has no JSON form")


def _remark(array: Array) -> dict[str, Any]:
    """Return the remark with the type, and with the shape if nested lists do not show it."""
    remark: dict[str, Any] = {"dtype": code_of(array.dtype)}
    return remark if array.size else {**remark, "shape": list(array.shape)}


def _base64(array: Array) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _nested(items: list[Any], shape: tuple[int, ...]) -> Any:
    return object_array(items, shape).tolist()


def _is_strict(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_strict, value.values()))
    if isinstance(value, (list, tuple)):
        return all(map(_is_strict, value))
    return not isinstance(value, float) or math.isfinite(value)


def _strict(value: Any, kind: str | None, remark: dict[str, Any] | None) -> Encoded:
    """Write NaN and infinities as text; a Python float gets a type, by which they are numbers."""
    # A bare NaN makes the whole .zmetadata unreadable for JavaScript. As text, hdmf-zarr 0.13 cannot construct a series
    # whose resolution is NaN, which is why text is an option and not the default.
    if _is_strict(value):
        return value, kind, remark
    spelled = each(value, lambda item: json_float(item) if isinstance(item, float) else item)
    if not _is_strict(spelled) or (remark is not None and remark.get("dtype") == "json"):
        return json.dumps(value), None, {"dtype": "json", "text": True}
    return spelled, kind or (None if remark else "<f8"), remark


# ---- back ----------------------------------------------------------------------------------------------------------


def _numbers(value: Any) -> Any:
    """Return text such as "NaN" as a number."""
    return each(value, lambda item: float(item) if isinstance(item, str) else item)


def _typed(values: Any, dtype: np.dtype[Any]) -> Array:
    """Return values in their type; those that do not fit are damage: NumPy would cut them off, or store an infinity."""
    kind = dtype.char
    if kind in "ef":  # only for these, since it takes longer than all the rest
        with np.errstate(over="raise"):
            return np.array(values, dtype)
    array = np.array(values, dtype)
    if kind not in "dg" and array.tolist() != values:
        raise ValueError(f"{dtype} does not hold {str(values)[:60]}")
    return array


def _decode_list(value: list[Any], resolve: Resolve) -> Any:
    if value and all(is_reference(item) for item in value):
        return [resolve(item) for item in value]
    shape, leaves = _flat(value)
    # A list of lists that is not an array, such as one of another program, is returned as it is.
    if shape is None or not leaves:
        return value
    kinds = set(map(type, leaves))
    if kinds == {str}:
        return object_array(leaves, shape)
    if not kinds <= {int, float, bool}:
        return value
    try:
        return infer(value)
    except ValueRefusedError:  # an integer that no type of NumPy holds, or booleans with numbers
        return object_array(leaves, shape) if kinds == {int} else value


def _decode_remarked(value: Any, remark: dict[str, Any]) -> Any:
    """Return the value with the type and shape of a remark of `_encode`; one of `_DAMAGE` if they do not fit."""
    dtype = remark["dtype"]
    if dtype == "json":
        return json.loads(value) if remark.get("text") else value
    if dtype == "list":
        return []
    if dtype == "complex":
        return complex(*_numbers(value))
    if remark.get("null"):
        return np.zeros(0, dtype=from_zarr_type(dtype))  # it was an HDF5 attribute with a type but no value
    shape, leaves = _flat(value)
    shape = tuple(remark["shape"]) if "shape" in remark else shape
    if shape is None:
        raise ValueError("rows differ in length")
    coded = bool(remark.get("base64"))
    if dtype in ("str", "bytes", "|O"):
        if dtype == "bytes":  # bytes that are UTF-8 are stored as text, so that other readers see them
            leaves = [base64.b64decode(leaf) if coded else leaf.encode("utf-8") for leaf in leaves]
        array = object_array(leaves, shape)
    else:
        array = _decode_typed(value, from_zarr_type(dtype), shape, coded=coded)
        if "bits" in remark:
            bits = _decode_typed(remark["bits"], array.dtype, shape, coded=True)
            with np.errstate(invalid="ignore"):  # comparing a signalling NaN
                is_same = np.array_equal(bits, array, equal_nan=True)
            # Another program may have changed the value since its bits were recorded.
            array = bits if is_same else array
    if array.ndim:
        return array
    return str(array[()]) if array.dtype.kind == "U" else array[()]


def _decode_typed(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...], *, coded: bool) -> Array:
    if coded:
        array = np.frombuffer(base64.b64decode(value), dtype).reshape(shape).copy()
        check_characters(array)
        return array
    leaves = _flat(_numbers(value) if dtype.kind in "fc" else value)[1]
    if dtype.itemsize * len(leaves) > _LARGEST:
        raise ValueError(f"{len(leaves)} elements of type {dtype} are too many for an attribute")
    if dtype.kind == "c":
        return _typed(leaves, np.dtype(f"{dtype.str[0]}f{dtype.itemsize // 2}")).view(dtype).reshape(shape)
    if dtype.kind in "mM":
        return _typed(leaves, np.dtype("i8")).view(dtype.newbyteorder("=")).astype(dtype).reshape(shape)
    if dtype.kind == "S":
        leaves = [leaf.encode("utf-8") for leaf in leaves]
    return _typed(leaves, dtype).reshape(shape)


def encode_attributes(
    attributes: Attributes, *, notes: dict[str, Any], reference: Reference = lambda value: None, strict: bool = False
) -> dict[str, Any]:
    """Return the JSON attributes of a node."""
    types: dict[str, str] = {}
    remarks: dict[str, Any] = {}
    encoded: dict[str, Any] = {}
    for name, stored in escape(attributes, notes).items():
        try:
            parts = _encode(attributes[name], reference)
            value, kind, remark = _strict(*parts) if strict else parts
        except ValueRefusedError as error:
            error.problem = f"the attribute {name!r} cannot be stored: {error.problem}"
            error.remedy = _REMEDY if error.remedy == error.advice else error.remedy
            raise
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


def _types_of(attributes: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the NCZarr types and the remarks of attributes; ``{}`` if another program stored something else there."""
    return as_dict(as_dict(attributes.get(NCZARR_ATTR)).get(_TYPES)), as_dict(notes_of(attributes).get(_NOTE))


def _with_types(attributes: dict[str, Any], types: dict[str, Any], remarks: dict[str, Any]) -> dict[str, Any]:
    """Return JSON attributes with other types and remarks."""
    changed = dict(attributes)
    for holder, key, about in ((NOTES, _NOTE, remarks), (NCZARR_ATTR, _TYPES, types)):
        known = as_dict(changed.get(holder))
        rest = {name: value for name, value in known.items() if name != key}
        if about or rest:
            changed[holder] = {**rest, key: about} if about else rest
        elif known:
            del changed[holder]
    return changed


def with_attribute(attributes: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    """Return JSON attributes with another value of one, or without it if that is None, and the note of its type."""
    encoded = {} if value is None else encode_attributes({name: value}, notes={})
    changed = {key: encoded[name] if key == name else old for key, old in attributes.items() if key != name or encoded}
    types, remarks = ({k: v for k, v in known.items() if k != name} for known in _types_of(attributes))
    own_types, own_remarks = _types_of(encoded)
    return _with_types(changed, types | own_types, remarks | own_remarks)


def strict_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON attributes of a node as strict JSON, as from `encode_attributes` with ``strict``."""
    names = [name for name in visible(attributes) if not _is_strict(attributes[name])]
    if not names:
        return attributes
    strict = dict(attributes)
    types, remarks = map(dict, _types_of(attributes))
    for name in names:
        stated = as_dict(remarks.pop(name, None)) or None  # another program may have stored anything there
        strict[name], kind, remark = _strict(attributes[name], types.pop(name, None), stated)
        if kind is not None:
            types[name] = kind
        if remark is not None:
            remarks[name] = remark
    return _with_types(strict, types, remarks)


def decode_attributes(attributes: dict[str, Any], *, resolve: Resolve) -> dict[str, Any]:
    """Return the values of the JSON attributes of a node, without the reserved ones."""
    types, remarks = _types_of(attributes)
    decoded: dict[str, Any] = {}
    for stored, name in visible(attributes).items():
        value, kind, remark = attributes[stored], types.get(stored), remarks.get(stored)
        if value is None:
            continue  # HDMF has no attributes without a value
        if type(value) is str and kind is None and remark is None:  # most are
            decoded[name] = value
            continue
        try:
            if isinstance(remark, dict):
                decoded[name] = _decode_remarked(value, remark)
            elif isinstance(kind, str) and kind[:1] in ("<", ">", "|") and kind[1:] in _NCZARR:
                array = _typed(_numbers(value), np.dtype(kind))  # netcdf-c gives text the type >S1, not a number's
                decoded[name] = array if array.ndim else array[()]
            elif is_reference(value):
                decoded[name] = resolve(value)
            else:
                decoded[name] = _decode_list(value, resolve) if isinstance(value, list) else value
        except ZarrBackendError:
            # It comes from `resolve`. Some errors of this package are ValueErrors or KeyErrors too.
            raise
        except _DAMAGE as error:
            raise MetadataError(f"the attribute {stored!r} does not fit its type ({error})") from error
    return decoded


def plain_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the attributes of a node for people: those of `decode_attributes`, references as paths."""
    return decode_attributes(attributes, resolve=lambda json: absolute(decode_attribute_reference(json).path))


def default_element(value: Any) -> Element:
    """Return the type that HDF5 has for a decoded attribute whose note has none."""
    if type(value) is str:  # the most frequent type
        return UTF8
    array = as_array(value)
    if array.dtype.kind not in "OUT":
        return element_of(array.dtype)
    texts = array.reshape(-1).tolist()
    if texts and all(isinstance(item, bytes) for item in texts):  # h5py writes bytes in this type
        return Text("ascii", max(1, *map(len, texts)), "nullpad")
    return UTF8


def as_array(value: Any) -> Array:
    """Return an attribute as an array; text and bytes as objects, since types of NumPy lose NUL at the end."""
    return np.asarray(value, object if type(value) in (str, bytes) else None)


def members_in(node: Node, attribute: str) -> list[str | bytes]:
    """Return the names of members that an attribute of a table lists: ``colnames``, or ``categories``."""
    about = {key: node.attributes[key] for key in (attribute, NOTES, NCZARR_ATTR) if key in node.attributes}
    value = decode_attributes(about, resolve=lambda reference: None).get(attribute, [])
    return list(np.atleast_1d(np.asarray(value, object)))


def indices_in(group: Group, path: str) -> dict[str, str]:
    """Return the names of the indices in a table, by those of the columns, or other indices, to which they belong."""
    indices = {}
    for name, node in group.members.items():
        target: Any = from_zarr3(node.attributes.get("target"))  # as verify sees a file of LINDI
        if isinstance(node, Dataset) and is_reference(target):  # old files have no valid types
            parent, column = split(relative(decode_attribute_reference(target).node_path))
            if parent == path and column != name and isinstance(group.members.get(column), Dataset):
                indices[column] = name
    return indices


def row_counts(hierarchy: Hierarchy, path: str) -> dict[str, int]:
    """Return the rows of the ids, columns (by the outermost index) and categories of a table, ``{}`` without one."""
    group = hierarchy.get(path)
    if not isinstance(group, Group) or "colnames" not in group.attributes:
        return {}
    names, indices = ["id", *map(to_text, members_in(group, "colnames"))], indices_in(group, path)
    for position in range(len(names)):
        left = dict(indices)
        while names[position] in left:  # an index of an index, and so on
            names[position] = left.pop(names[position])
    names += [f"{to_text(name)}/id" for name in members_in(group, "categories")]
    nodes = ((name, hierarchy.get(join(path, name))) for name in dict.fromkeys(names))
    return {name: node.stored.shape[0] for name, node in nodes if isinstance(node, Dataset) and node.stored.shape}


def shown_counts(counts: dict[str, int]) -> str:
    """Return the numbers of rows of a table for a message, the members with the same number together."""
    by_count = {count: [name for name, own in counts.items() if own == count] for count in counts.values()}
    return "; ".join(f"{counted(count, 'row')} in {few(names)}" for count, names in by_count.items())
