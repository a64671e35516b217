"""What a Zarr file says, node by node, for comparing.

Two views of the same file. As it is: its own chunks and codecs, links as Zarr has them. As HDF5: what each object was,
or would be, in HDF5, from the notes that a conversion keeps; so that a faithful conversion differs in nothing from its
source.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from hdmf_zarr_backend.errors import DamagedFileError, MetadataError, StoreError, UsageError, ZarrBackendError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats import dtypes, zarr2, zarr3
from hdmf_zarr_backend.formats.attributes import decode_attributes, is_reference
from hdmf_zarr_backend.formats.links import Link, decode_links
from hdmf_zarr_backend.formats.namespaces import spec_location
from hdmf_zarr_backend.formats.references import Reference as StoredReference
from hdmf_zarr_backend.formats.references import decode_attribute_reference, decode_reference
from hdmf_zarr_backend.formats.reserved import DTYPE, LINKS, SPECLOC, notes_of, visible
from hdmf_zarr_backend.model.facts import (
    AttributeFacts,
    DatasetFacts,
    DatatypeFacts,
    ElementType,
    FilterFacts,
    GroupFacts,
    LinkFacts,
    NodeFacts,
    Reference,
    Region,
    Selection,
    Values,
    even_steps,
    hdf5_filter,
    plain_values,
    text_of,
)
from hdmf_zarr_backend.model.locations import THIS_FILE, resolve_source, sibling_source
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Node, absolute, join, relative, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.opening import open_store

__all__ = ["ZarrFacts", "is_zarr"]

UTF8 = ElementType("text", encoding="utf-8")
ASCII = ElementType("text", encoding="ascii")
REFERENCE = ElementType("reference")
REGION = ElementType("region")

_KINDS = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
_PADDING = {"nullterm": "null-terminated", "nullpad": "null-padded", "spacepad": "space-padded"}
_WORDS = {"bool": ElementType("bool", 1), "object": REFERENCE, "region": REGION}
_DATETIME_TAG = "NUMPY:"  # what h5py calls the opaque types of NumPy's dates
_MAX_DEPTH = 32


# ---- of data types ------------------------------------------------------------------------------------------------


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
        fields = []
        for name in dtype.names:
            field = dtype.fields[name][0]
            fields.append((name, word_element(known.get(name, "object")) if field.hasobject else numpy_element(field)))
        return ElementType("compound", fields=tuple(fields))
    if dtype.kind in _KINDS:
        return ElementType(_KINDS[dtype.kind], dtype.itemsize, _order(dtype))
    if dtype.kind in "mM":
        return ElementType("datetime", dtype.itemsize, _order(dtype), detail=dtype.name)
    if dtype.kind == "S":
        return ElementType("text", max(1, dtype.itemsize), encoding="ascii", detail="null-padded")
    return ElementType("opaque", dtype.itemsize) if dtype.kind == "V" else UTF8


def _order(dtype: np.dtype[Any]) -> Literal["<", ">", "|"]:
    order = dtype.str[0]
    return "<" if order == "<" else ">" if order == ">" else "|"


def word_element(word: str) -> ElementType:
    """Return what HDMF's ``word`` for the field of a row is.

    Raises
    ------
    ValueRefusedError
        No such word.
    """
    kind = dtypes.kind_of(word)
    if kind == "number":
        return numpy_element(dtypes.numpy_of(word))
    if kind in ("object", "region"):
        return REFERENCE if kind == "object" else REGION
    return ASCII if kind in ("ascii", "bytes") else UTF8


def field_words(node: ArrayNode[Attributes]) -> dict[str, str] | None:
    """Return ``{field: word}`` of an array of rows, None for any other; hdmf-zarr repeated some entries."""
    word = node.attributes.get(DTYPE)
    if not isinstance(word, list):
        return None
    words: dict[str, str] = {}
    for entry in word:
        if isinstance(entry, dict) and "name" in entry:
            words.setdefault(str(entry["name"]), _field_word(entry.get("dtype")))
    return words


def _field_word(word: Any) -> str:
    if isinstance(word, dict):
        return "region" if word.get("reftype") == "region" else "object"
    return str(word)


def array_element(node: ArrayNode[Attributes], dtype: np.dtype[Any]) -> ElementType:
    """Return what the elements of an array are.

    Parameters
    ----------
    node : ArrayNode
        The array.
    dtype : numpy.dtype
        Of its data type.

    Raises
    ------
    MetadataError
        The noted type is none.
    ValueRefusedError
        ``zarr_dtype`` names no type.
    """
    notes = notes_of(node.attributes)
    hdf5 = notes.get("hdf5")
    hdf5 = hdf5 if isinstance(hdf5, dict) else {}
    plain = _plain_element(node, dtype, notes, hdf5)
    if "type" not in hdf5:
        return plain
    noted = noted_element(hdf5["type"])
    if noted.kind == "array" and (not noted.shape or node.shape[-len(noted.shape) :] != noted.shape):
        return plain  # the inner axes are the last ones of the array
    return noted if _fits(noted, plain) else plain


def _plain_element(
    node: ArrayNode[Attributes], dtype: np.dtype[Any], notes: dict[str, Any], hdf5: dict[str, Any]
) -> ElementType:
    words = field_words(node)
    if dtype.kind != "O":
        element = numpy_element(dtype, words)
        members = hdf5.get("enum")
        if isinstance(members, dict) and element.kind in ("int", "uint"):
            return replace(element, kind="enum", detail=element.kind, members=tuple(members.items()))
        return replace(element, encoding=str(hdf5.get("charset", "ascii"))) if element.kind == "text" else element
    if words is not None:
        return ElementType("compound", fields=tuple((name, word_element(word)) for name, word in words.items()))
    word = node.attributes.get(DTYPE)
    if word in ("object", "region"):
        return REFERENCE if word == "object" else REGION
    codec = (node.filters or [{}])[0].get("id")
    return ASCII if notes.get("text") == "ascii" or (codec == "vlen-bytes" and word != "scalar") else UTF8


# ---- noted types --------------------------------------------------------------------------------------------------


def _fits(noted: ElementType, plain: ElementType) -> bool:
    """Tell whether a noted type can be that of what is stored; if not, the array was replaced since the conversion."""
    if noted.base is not None and noted.kind == "array":
        noted = noted.base
    if plain.kind == "compound" or noted.kind == "compound":
        return [name for name, _ in noted.fields] == [name for name, _ in plain.fields]
    references = {"reference", "region"}
    if plain.kind == "text" or noted.kind == "text":
        return plain.kind == noted.kind
    return (plain.kind in references) == (noted.kind in references)


def noted_element(value: Any) -> ElementType:
    """Return what the JSON of an HDF5 type says.

    Raises
    ------
    MetadataError
        It is none.
    """
    try:
        return _noted(value, 0)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise MetadataError(f"{value!r} describes no HDF5 type ({error})", remedy="Run `zarrio verify`.") from error


def _noted(value: Any, depth: int) -> ElementType:
    if depth > _MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return _WORDS.get(value) or numpy_element(np.dtype(value))
    for key, read in _READERS.items():
        if key in value:
            return read(value, depth + 1)
    raise KeyError("it has none of the words of a type")


def _noted_text(value: dict[str, Any], _: int) -> ElementType:
    padding = _PADDING[value["pad"]] if "pad" in value or "size" in value else ""
    return ElementType("text", value.get("size"), encoding=str(value["text"]), detail=padding)


def _noted_enum(value: dict[str, Any], depth: int) -> ElementType:
    base = _noted(value["base"], depth)
    members = tuple((str(name), int(number)) for name, number in value["enum"])
    return replace(base, kind="enum", detail=base.kind, members=members)


def _noted_complex(value: dict[str, Any], depth: int) -> ElementType:
    part = _noted(value["complex"], depth)
    return replace(part, kind="complex", size=2 * (part.size or 0), detail="native")


def _noted_array(value: dict[str, Any], depth: int) -> ElementType:
    return ElementType("array", base=_noted(value["array"], depth), shape=tuple(map(int, value["shape"])))


def _noted_number(value: dict[str, Any], _: int) -> ElementType:
    """Return a number with a layout of its own, told as `hdf5.facttypes` tells it."""
    name = str(value["number"])
    size = int(name[2:])
    layout = int(value["precision"]), int(value["offset"])
    detail = "" if layout == (8 * size, 0) else f"{layout[0]} bits from bit {layout[1]}"
    if "bias" in value:
        detail = f"sign, exponent and mantissa {tuple(map(int, value['fields']))}, bias {int(value['bias'])}"
    order: Literal["<", ">", "|"] = "|" if size == 1 else ">" if name[0] == ">" else "<"
    return ElementType(_KINDS[name[1]], size, order, detail=detail)


def _noted_compound(value: dict[str, Any], depth: int) -> ElementType:
    fields = [(str(name), _noted(inner, depth)) for name, inner in value["fields"]]
    if [name for name, _ in fields] == ["r", "i"] and fields[0][1] == fields[1][1] and fields[0][1].kind == "float":
        part = fields[0][1]  # how h5py stores complex numbers
        return replace(part, kind="complex", size=2 * (part.size or 0))
    return ElementType("compound", fields=tuple(fields))


def _noted_opaque(value: dict[str, Any], _: int) -> ElementType:
    tag = str(value.get("tag", ""))
    if tag.startswith(_DATETIME_TAG):
        return numpy_element(np.dtype(tag.removeprefix(_DATETIME_TAG)))
    return ElementType("opaque", int(value["opaque"]), detail=tag)


_READERS: dict[str, Callable[[dict[str, Any], int], ElementType]] = {
    "text": _noted_text,
    "number": _noted_number,  # before "fields", which such a number has too
    "fields": _noted_compound,
    "enum": _noted_enum,
    "bitfield": lambda value, _: replace(numpy_element(np.dtype(value["bitfield"])), kind="bitfield"),
    "opaque": _noted_opaque,
    "complex": _noted_complex,
    "array": _noted_array,
    "sequence": lambda value, depth: ElementType("sequence", base=_noted(value["sequence"], depth)),
}


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
        As `formats.references` has it on disk. What is no region is kept as it is, so that it differs from every other.
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
        As `formats.attributes.decode_attributes` gives it, references resolved to `Reference`.
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


@dataclass(slots=True)
class _Array:
    """What is known of an array before any of its values is read.

    Attributes
    ----------
    dtype : numpy.dtype
        Of its data type.
    element : ElementType
        What it holds.
    shape : tuple of int or None
        Of the dataset: rows are one axis, a scalar has none, None without a dataspace.
    note : dict or None
        What was noted of the dataset in HDF5; None where it never was there.
    """

    node: ArrayNode[Attributes]
    dtype: np.dtype[Any]
    element: ElementType
    shape: tuple[int, ...] | None
    note: dict[str, Any] | None


class ArrayReader:
    """Makes the facts of the arrays of one file. What decodes values is imported when the first of them is asked for.

    Parameters
    ----------
    keys : Store
        The store.
    resolve : callable
        Returns the `Reference` of a stored reference.
    as_hdf5 : bool
        Give chunks, filters, layout and fill value of the HDF5 dataset.
    """

    def __init__(self, keys: Store, resolve: Callable[[Any], Reference], *, as_hdf5: bool) -> None:
        self._keys = keys
        self._resolve = resolve
        self._as_hdf5 = as_hdf5
        self._cache: Any = None
        self._checked: set[str] = set()

    def forget(self) -> None:
        """Forget the decoded chunks."""
        self._cache = None

    def facts(
        self, path: str, node: ArrayNode[Attributes], attributes: Mapping[str, AttributeFacts], *, is_spec: bool
    ) -> DatasetFacts:
        """Return the facts of the array at ``path``, in the model's spelling.

        Parameters
        ----------
        path, node
            The array.
        attributes : mapping
            Its attributes.
        is_spec : bool
            Whether it is a cached specification, which old files do not mark as a scalar.

        Raises
        ------
        MetadataError, ValueRefusedError
            Its type cannot be understood.
        """
        array = _array(node, is_spec=is_spec)
        chunks, filters = self._storage(array)
        axes = len(array.shape or ())

        def read(selection: Selection) -> Values:
            from hdmf_zarr_backend.arrays.fills import check_unwritten

            try:
                if path not in self._checked:
                    check_unwritten(self._keys, path, node)
                    self._checked.add(path)
                return self._read(path, array, selection)
            except ZarrBackendError as error:
                raise error.located(store=self._keys.location, path=absolute(path)) from error.__cause__

        return DatasetFacts(
            attributes=attributes,
            dtype=array.element,
            shape=array.shape,
            maxshape=None if array.shape is None else _maxshape(node, array.shape),
            chunks=chunks,
            layout=self._layout(array, chunks),
            filters=filters,
            fill=self._fill(array),
            read=read,
            grid=node.chunks[:axes] if axes else None,
        )

    def _read(self, path: str, array: _Array, selection: Selection) -> Values:
        from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader

        if self._cache is None:
            self._cache = ChunkCache()
        reader = ChunkReader(self._keys, path, array.node, self._cache)
        rest = len(array.node.shape) - len(array.shape or ())
        block = reader.read((*selection, *[slice(None)] * rest))
        lengths = tuple(part.stop - part.start for part in selection)
        return block_values(block, array.element, lengths, self._resolve)

    # ---- storage ----------------------------------------------------------------------------------------------------

    def _storage(self, array: _Array) -> tuple[tuple[int, ...] | None, tuple[FilterFacts, ...]]:
        node = array.node
        chunks = node.chunks[: len(array.shape)] if array.shape else None
        if not self._as_hdf5:
            return chunks, _codecs(node)
        if array.note is not None:
            return _noted_storage(array.note)
        # what makes bytes of objects is no filter in HDF5, it is part of the type
        filters = _codecs(node)[1:] if node.data_type == "|O" else _codecs(node)
        return chunks, filters if array.shape else ()

    def _layout(self, array: _Array, chunks: tuple[int, ...] | None) -> tuple[str, ...]:
        if not self._as_hdf5 or array.note is None or chunks is not None:
            return ()
        return (str(array.note.get("layout", "contiguous")),)

    def _fill(self, array: _Array) -> Values | None:
        note = (array.note or {}).get("fill")
        if isinstance(note, dict) and "value" in note:
            return json_values([note["value"]], array.element, self._resolve)[0:1].reshape(())
        if self._as_hdf5 and note == "undefined":
            return None
        # a fill value of rows or references is a pickle in old files: never decoded, and never needed
        if array.node.fill_value is not None and (array.dtype.kind != "O" or array.element.kind == "text"):
            from hdmf_zarr_backend.arrays.fills import fill_scalar

            chosen = fill_scalar(array.node, array.dtype)
            if chosen is not None:
                inner = array.element.shape if array.element.kind == "array" else ()
                return block_values(np.full(inner, chosen, array.dtype), array.element, (), self._resolve)
        return default_element(array.element, array.dtype) if self._as_hdf5 else None


def _array(node: ArrayNode[Attributes], *, is_spec: bool) -> _Array:
    from hdmf_zarr_backend.arrays.codecs import numpy_dtype

    dtype = numpy_dtype(node.data_type)
    element = array_element(node, dtype)
    notes = notes_of(node.attributes)
    note = notes.get("hdf5")
    note = note if isinstance(note, dict) else None
    shape = node.shape
    if element.kind == "compound" and dtype.kind == "O" and len(shape) == 2:
        shape = shape[:1]
    elif element.kind == "array":
        shape = shape[: len(shape) - len(element.shape)]
    if note is not None and note.get("null") is True and 0 in node.shape:
        return _Array(node, dtype, element, None, note)
    marked = node.attributes.get(DTYPE) == "scalar" or notes.get("scalar") is True or (is_spec and note is None)
    return _Array(node, dtype, element, () if marked and math.prod(shape) == 1 else shape, note)


def _maxshape(node: ArrayNode[Attributes], shape: tuple[int, ...]) -> tuple[int | None, ...]:
    kept = notes_of(node.attributes).get("maxshape")
    # an element that is an array has axes of its own, which may have been noted as well
    return tuple(kept[: len(shape)]) if isinstance(kept, list) and len(kept) >= len(shape) else shape


def _codecs(node: ArrayNode[Attributes]) -> tuple[FilterFacts, ...]:
    """Return the codecs of an array in the order in which they are applied."""
    configurations = [*(node.filters or []), *([node.compressor] if node.compressor else [])]
    steps = []
    for configuration in configurations:
        options = sorted(f"{key}={value}" for key, value in configuration.items() if key != "id")
        steps.append(FilterFacts(str(configuration["id"]), tuple(options)))
    return tuple(steps)


def _noted_storage(note: dict[str, Any]) -> tuple[tuple[int, ...] | None, tuple[FilterFacts, ...]]:
    """Return the chunks and filters that a dataset had in HDF5."""
    chunks = note.get("chunks")
    steps = note.get("filters")
    known = [step for step in steps if isinstance(step, list) and len(step) == 3] if isinstance(steps, list) else []
    filters = tuple(hdf5_filter(code, tuple(options), None) for code, _, options in known)
    return tuple(chunks) if isinstance(chunks, list) else None, filters


_DANGLING = "<dangling>"
_MARKS = (zarr2.GROUP, zarr2.ARRAY, zarr2.CONSOLIDATED, zarr3.DOCUMENT)


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is a Zarr hierarchy, of whatever format, in a directory, a zip file or at a URL."""
    try:
        return bool(open_store(path).get_many(_MARKS))
    except (StoreError, UsageError):
        return False


def is_zarr_3(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is a Zarr hierarchy of format 3."""
    try:
        return open_store(path).get(zarr3.DOCUMENT) is not None
    except (StoreError, UsageError):
        return False


class ZarrFacts(Mapping[str, NodeFacts]):
    """`FileFacts` of a Zarr file.

    Links are not followed; references are resolved to the path of their target, through links where these lead there.
    The consolidated document is used where there is one, but values are those of the chunks.

    Parameters
    ----------
    path : str or PathLike
        A local directory, zip file or file of references, or a URL.
    as_hdf5 : bool
        Give what the objects are as HDF5: chunks, filters, layouts, fill values, forms of links; what was copied since
        an external link led to it is the link again.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        As of `files.parser.parse`.
    """

    def __init__(self, path: str | os.PathLike[str], *, as_hdf5: bool = False) -> None:
        self._as_hdf5 = as_hdf5
        self._keys: Store = open_store(path)
        self.source = self._keys.location
        self._hierarchy = parse(self._keys, use_inlined=False).hierarchy
        self._spec_path = spec_location(self._hierarchy.root.attributes.get(SPECLOC))
        self._arrays = ArrayReader(self._keys, self._resolve, as_hdf5=as_hdf5)
        self._stored_links: dict[str, Link] = {}
        self._links: dict[str, LinkFacts] = {}
        self._datatypes: dict[str, dict[str, Any]] = {}
        self._paths: list[str] = []
        hidden: set[str] = set()
        for node_path, node in self._hierarchy.walk():
            parent = split(node_path)[0]
            if parent in hidden or node_path in hidden:
                hidden.add(node_path)  # below the copy of what an external link led to
                continue
            self._paths.append(absolute(node_path))
            if isinstance(node, GroupNode):
                hidden |= self._add_members(node_path, node)

    def _add_members(self, path: str, node: GroupNode[Attributes]) -> set[str]:
        """Add the links and named types of a group; return the paths of members that were links in HDF5."""
        for name, link in self._links_of(path, node).items():
            place = absolute(join(path, name))
            self._stored_links[place] = link
            self._add(place, self._link_facts(link.target))
        note = _hdf5_note(node)
        copies: set[str] = set()
        for name, said in _dict(note.get("links")).items() if self._as_hdf5 else ():
            facts = self._noted_link(path, name, said)
            if facts is not None and (name in node.members or absolute(join(path, name)) in self._links):
                self._add(absolute(join(path, name)), facts)
                copies.add(join(path, name))
        for name, datatype in _dict(note.get("datatypes")).items():
            if name not in node.members and isinstance(datatype, dict):
                self._datatypes[absolute(join(path, name))] = datatype
                self._paths.append(absolute(join(path, name)))
        return copies

    def _add(self, place: str, facts: LinkFacts) -> None:
        if place not in self._links:
            self._paths.append(place)
        self._links[place] = facts

    def _links_of(self, path: str, node: GroupNode[Attributes]) -> dict[str, Link]:
        if LINKS not in node.attributes:
            return {}
        try:
            links = decode_links(node.attributes)
        except ZarrBackendError as error:
            raise error.located(store=self.source, path=absolute(path)) from None
        found: dict[str, Link] = {}
        for link in links:
            if link.name not in node.members:
                found.setdefault(link.name, link)
        return found

    def close(self) -> None:
        """Forget the decoded chunks."""
        self._arrays.forget()

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, path: str) -> NodeFacts:
        if path in self._links:
            return self._links[path]
        try:
            if path in self._datatypes:
                return self._datatype(self._datatypes[path])
            node = self._hierarchy.get(path)
            if node is None:
                raise KeyError(path)
            attributes = self._attributes(path, node)
            if isinstance(node, GroupNode):
                return GroupFacts(attributes)
            specs = self._spec_path
            is_spec = specs is not None and path.startswith(f"/{specs}/")
            return self._arrays.facts(relative(path), node, attributes, is_spec=is_spec)
        except ZarrBackendError as error:
            raise error.located(store=self.source, path=path) from error.__cause__

    def _datatype(self, note: dict[str, Any]) -> DatatypeFacts:
        attributes = {}
        for name, said in _dict(note.get("attributes")).items():
            facts = noted_attribute(None, _dict(said), self._resolve)
            if facts is not None:
                attributes[name] = facts
        return DatatypeFacts(attributes, noted_element(note.get("type")))

    # ---- links and references ---------------------------------------------------------------------------------------

    def _link_facts(self, target: StoredReference) -> LinkFacts:
        if self._is_own(target.source):
            return LinkFacts("soft", absolute(target.path))
        location = resolve_source(target.source, self.source)
        return LinkFacts("external", absolute(target.path), target.source, location)

    def _noted_link(self, group: str, name: str, said: Any) -> LinkFacts | None:
        """Return what a link was in HDF5: hard, soft with a target spelled otherwise, or external."""
        place = absolute(join(group, name))
        if said == "hard" and place in self._links:
            return LinkFacts("hard", self._links[place].target)
        if isinstance(said, dict) and isinstance(said.get("soft"), str):
            parts = posixpath.join(absolute(group), said["soft"]).split("/")
            return LinkFacts("soft", "/" + "/".join(part for part in parts if part not in ("", ".")))
        if isinstance(said, dict) and isinstance(said.get("source"), str) and isinstance(said.get("path"), str):
            location = resolve_source(said["source"], self.source)
            return LinkFacts("external", absolute(said["path"]), said["source"], location)
        return None

    def _is_own(self, source: str) -> bool:
        if source in (THIS_FILE, ""):
            return True
        return self.source in (resolve_source(source, self.source), sibling_source(source, self.source))

    def _resolve(self, value: Any) -> Reference:
        """Return what a stored reference means; one that cannot be understood leads nowhere."""
        if value is None:
            return Reference(None)
        try:
            decoded = decode_reference(value)
        except ZarrBackendError:
            return Reference(_DANGLING)
        return self._follow(decoded.source, decoded.node_path, decoded.region)

    def _follow(self, source: str, path: str, region: Any) -> Reference:
        seen: set[str] = set()
        while self._is_own(source):
            if path in seen:
                return Reference(_DANGLING)  # links that go round in a circle
            seen.add(path)
            found = self._next_step(path)
            if found is None:
                return Reference(_DANGLING)
            source, path, arrived = found
            if arrived:
                target = self._hierarchy.get(path)
                shape = target.shape if isinstance(target, ArrayNode) else None
                return Reference(absolute(path), canonical_region(region, shape))
        return Reference(absolute(path), canonical_region(region, None), source)

    def _next_step(self, path: str) -> tuple[str, str, bool] | None:
        """Return the file and path that `path` means after its first link, and whether that is a node."""
        node: Any = self._hierarchy.root
        here = ""
        parts = path.split("/") if path else []
        for position, part in enumerate(parts):
            here = join(here, part)
            if isinstance(node, GroupNode) and part in node.members:
                node = node.members[part]
                continue
            if absolute(here) in self._datatypes and position == len(parts) - 1:
                return THIS_FILE, path, True
            link = self._stored_links.get(absolute(here))
            if link is None:
                return None
            return link.target.source, "/".join([link.target.node_path, *parts[position + 1 :]]).strip("/"), False
        return THIS_FILE, path, True

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, path: str, node: Node) -> dict[str, AttributeFacts]:
        stored = node.attributes
        values = decode_attributes(stored, resolve=self._attribute_reference)
        facts = {name: attribute_facts(value) for name, value in values.items()}
        facts.update(self._reference_tables(stored))
        facts.update(_empty_attributes(stored))
        for name, said in _dict(_hdf5_note(node).get("attributes")).items():
            noted = noted_attribute(facts.get(name), _dict(said), self._resolve)
            if noted is not None:
                facts[name] = noted
        if path == "/" and self._spec_path is not None:
            target = np.array(None, dtype=object)
            target[()] = self._follow(THIS_FILE, self._spec_path, None)
            facts[SPECLOC] = AttributeFacts(REFERENCE, (), target)
        return facts

    def _reference_tables(self, stored: Attributes) -> dict[str, AttributeFacts]:
        """Return the attributes of references with several axes, which are nested lists of JSON in every format."""
        found = {}
        for key, name in visible(stored).items():
            items = nested_array(stored[key])
            if items is None or not all(is_reference(item) for item in items.flat):
                continue
            is_region = any(item["zarr_dtype"] == "region" for item in items.flat)
            values: Values = np.empty(items.shape, dtype=object)
            values.reshape(-1)[:] = [self._attribute_reference(item) for item in items.flat]
            found[name] = AttributeFacts(REGION if is_region else REFERENCE, items.shape, values)
        return found

    def _attribute_reference(self, value: dict[str, Any]) -> Reference:
        try:
            decoded = decode_attribute_reference(value)
        except ZarrBackendError:
            return Reference(_DANGLING)
        return self._follow(decoded.source, decoded.node_path, decoded.region)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _hdf5_note(node: Node) -> dict[str, Any]:
    return _dict(notes_of(node.attributes).get("hdf5"))


def _empty_attributes(stored: Attributes) -> dict[str, AttributeFacts]:
    """Return the attributes that have a type and no value; decoded they look like arrays of length 0."""
    remarks = _dict(notes_of(stored).get("attributes"))
    return {
        name: AttributeFacts(numpy_element(np.dtype(str(remark["dtype"]))), None, None)
        for key, name in visible(stored).items()
        if isinstance(remark := remarks.get(key), dict) and remark.get("null") and "dtype" in remark
    }
