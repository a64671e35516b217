"""Zarr's data types, selections and attribute values, in the words of `mapping.facts`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from hdmf_zarr_backend.errors import DamagedFileError
from hdmf_zarr_backend.mapping import dtypes
from hdmf_zarr_backend.mapping.facts import AttributeFacts, ElementType, Reference, Region, Values
from hdmf_zarr_backend.mapping.factvalues import even_steps, plain_values, text_of
from hdmf_zarr_backend.mapping.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

UTF8 = ElementType("text", encoding="utf-8")
ASCII = ElementType("text", encoding="ascii")
REFERENCE = ElementType("reference")

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}


def numpy_element(dtype: np.dtype[Any], words: dict[str, str] | None = None) -> ElementType:
    """Return what a NumPy dtype is.

    Parameters
    ----------
    dtype : numpy.dtype
        Fields that hold objects are references, unless their word says text.
    words : dict, optional
        HDMF's words for the fields, where there are any.
    """
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return ElementType("array", base=numpy_element(base), shape=shape)
    if dtype.names is not None and dtype.fields is not None:
        known = words or {}
        fields = (
            (name, word_element(known.get(name, "object")) if dtype.fields[name][0].hasobject
             else numpy_element(dtype.fields[name][0]))
            for name in dtype.names
        )  # fmt: skip
        return ElementType("compound", fields=tuple(fields))
    if dtype.kind in _KINDS:
        return ElementType(_KINDS[dtype.kind], dtype.itemsize, _order(dtype))
    if dtype.kind in "mM":
        return ElementType("datetime", dtype.itemsize, _order(dtype), detail=dtype.name)
    if dtype.kind == "S":
        return ElementType("text", dtype.itemsize, encoding="ascii")
    if dtype.kind == "U":
        return ElementType("text", dtype.itemsize, encoding="utf-32")
    return ElementType("opaque", dtype.itemsize) if dtype.kind == "V" else UTF8


def _order(dtype: np.dtype[Any]) -> Literal["<", ">", "|"]:
    order = dtype.str[0]
    return "<" if order == "<" else ">" if order == ">" else "|"


def word_element(word: str) -> ElementType:
    """Return what HDMF's ``word`` for the field of a row is; numbers in rows are JSON and have no byte order.

    Raises
    ------
    ValueRefusedError
        No such word.
    """
    kind = dtypes.kind_of(word)
    if kind == "number":
        return replace(numpy_element(dtypes.numpy_of(word)), byte_order="|")
    if kind in ("object", "region"):
        return REFERENCE if kind == "object" else ElementType("region")
    return ASCII if kind in ("ascii", "bytes") else UTF8


def field_words(node: ArrayNode[Attributes]) -> dict[str, str] | None:
    """Return ``{field: word}`` of an array of rows, None for any other; hdmf-zarr repeated some entries."""
    word = node.attributes.get(DTYPE)
    if not isinstance(word, list):
        return None
    words: dict[str, str] = {}
    for entry in word:
        if isinstance(entry, dict) and "name" in entry:
            dtype = entry.get("dtype")
            words.setdefault(str(entry["name"]), "object" if isinstance(dtype, dict) else str(dtype))
    return words


def array_element(node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> ElementType:
    """Return what the elements of an array are, by its data type, its ``zarr_dtype`` and its note.

    Parameters
    ----------
    node : ArrayNode
        The array.
    dtype : numpy.dtype
        Of its data type.
    """
    notes = notes_of(node.attributes)
    hdf5 = notes.get("hdf5")
    hdf5 = hdf5 if isinstance(hdf5, dict) else {}
    words = field_words(node)
    if dtype.kind != "O":
        return _with_note(numpy_element(dtype, words), hdf5)
    if words is not None:
        return ElementType("compound", fields=tuple((name, word_element(word)) for name, word in words.items()))
    word = node.attributes.get(DTYPE)
    if word in ("object", "region"):
        return REFERENCE if word == "object" else ElementType("region")
    codec = (node.filters or [{}])[0].get("id")
    return ASCII if notes.get("text") == "ascii" or codec == "vlen-bytes" else UTF8


def _with_note(element: ElementType, hdf5: dict[str, Any]) -> ElementType:
    """Add what only HDF5 has a word for."""
    members = hdf5.get("enum")
    if isinstance(members, dict) and element.kind in ("int", "uint"):
        return replace(element, kind="enum", detail=element.kind, members=tuple(members.items()))
    if element.kind == "text":
        encoding = str(hdf5.get("charset", element.encoding))
        return replace(element, encoding=encoding, detail=str(hdf5.get("padding", "")))
    return element


# ------------------------------------------------------------------------------------------------ values


def block_values(
    values: Values, element: ElementType, shape: tuple[int, ...], resolve: Callable[[Any], Reference]
) -> Values:
    """Return a decoded block in the form of facts.

    Parameters
    ----------
    values : numpy.ndarray
        As the codecs give it; rows as ``(n, k)`` objects, or as ``n`` tuples.
    element : ElementType
        What it holds.
    shape : tuple of int
        Of the block as HDMF sees it.
    resolve : callable
        Returns the `Reference` of a stored reference.

    Raises
    ------
    DamagedFileError
        Rows do not fit their fields.
    """
    if element.kind == "compound" and values.dtype == object:
        rows = values.reshape(-1, values.shape[-1]) if values.ndim > len(shape) else values.reshape(-1)
        values = _rows(rows, element)
    elif element.kind == "text" and values.dtype == object:
        values = _texts(values)
    return plain_values(values.reshape(shape), element, resolve)


def _rows(rows: Values, element: ElementType) -> Values:
    made = np.empty(len(rows), dtype=[(name, _row_dtype(member)) for name, member in element.fields])
    try:
        for position, row in enumerate(rows):
            made[position] = tuple(row)
    except (TypeError, ValueError, OverflowError) as error:
        names = ", ".join(name for name, _ in element.fields)
        raise DamagedFileError(f"a row does not fit the fields {names} ({error})") from error
    return made


def _row_dtype(member: ElementType) -> np.dtype[Any]:
    codes = {"bool": "?", "int": "i", "uint": "u", "float": "f", "complex": "c"}
    code = codes.get(member.kind)
    if code is None:
        return np.dtype(object)
    return np.dtype(code if code == "?" else f"{code}{member.size}")


def _texts(values: Values) -> Values:
    """Turn what stands among text and is none into its JSON, so that it does not look like empty text."""
    made = np.empty(values.size, dtype=object)
    for position, item in enumerate(values.flat):
        made[position] = item if item is None or isinstance(item, str | bytes) else json.dumps(item, default=repr)
    return made.reshape(values.shape)


def default_element(element: ElementType, dtype: np.dtype[Any]) -> Values:
    """Return what HDF5 fills with where nothing else was chosen: zero, empty text, a null reference."""
    if dtype.kind == "O" and element.kind == "compound":
        dtype = np.dtype([(name, _row_dtype(member)) for name, member in element.fields])
    return plain_values(np.zeros((), dtype), element, _no_reference)


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
            return (("points", tuple(tuple(int(n) for n in point) for point in region["points"])),)
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


# -------------------------------------------------------------------------------------------- attributes


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
    array = np.asarray(value) if not isinstance(value, str | bytes) else np.array(value, dtype=object)
    if isinstance(value, np.bytes_):
        array = np.asarray(value)
    if array.dtype.kind in "OUT":
        texts = [item if isinstance(item, str | bytes) else json.dumps(item, default=repr) for item in array.flat]
        kind = ASCII if texts and all(isinstance(item, bytes) for item in texts) else UTF8
        return AttributeFacts(kind, array.shape, _objects([text_of(item) for item in texts], array.shape))
    element = numpy_element(array.dtype)
    return AttributeFacts(element, array.shape, plain_values(array, element, _no_reference))


def empty_attribute(dtype: str) -> AttributeFacts:
    """Return what an HDF5 attribute with a type and no value is."""
    return AttributeFacts(numpy_element(np.dtype(dtype)), None, None)


def _reference_type(value: Reference) -> ElementType:
    return REFERENCE if value.region is None else ElementType("region")


def _objects(items: Sequence[object], shape: tuple[int, ...]) -> Values:
    made = np.empty(len(items), dtype=object)
    for position, item in enumerate(items):
        made[position] = item
    return made.reshape(shape)


def _no_reference(_: Any) -> Reference:
    return Reference(None)
