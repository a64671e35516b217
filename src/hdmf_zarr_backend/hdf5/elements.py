"""What an array of a Zarr file is as an HDF5 dataset: scalar or not, rows, references, text, and the type by default.

Old files say it in several ways: rows were pickled tuples or structured arrays with objects inside, and a field's name
could be listed twice. All of them end here.

Source: hdmf-zarr storage specification, "dtype mappings"; what hdmf-zarr 0.1 to 0.13 wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.formats import dtypes
from hdmf_zarr_backend.formats.reserved import DTYPE
from hdmf_zarr_backend.hdf5.types import ASCII, OBJECT, REGION, UTF8, TypeJSON, type_of_dtype
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

Form = Literal["plain", "objects", "rows"]


@dataclass(slots=True)
class Elements:
    """What the elements of an array are.

    Attributes
    ----------
    form : {"plain", "objects", "rows"}
        Numbers and the like; text or references, one object each; compound rows, however they are stored.
    type : str or dict
        The HDF5 type by default, as JSON.
    shape : tuple of int
        Shape of the dataset, ``()`` of a scalar.
    """

    form: Form
    type: TypeJSON
    shape: tuple[int, ...]


def elements_of(node: ArrayNode[Attributes], notes: dict[str, Any]) -> Elements:
    """Return what the elements of an array are.

    Parameters
    ----------
    node : ArrayNode
        The array.
    notes : dict
        Its note.
    """
    dtype = numpy_dtype(node.data_type)
    word = node.attributes.get(DTYPE)
    shape = node.shape
    form: Form = "objects" if dtype.hasobject else "plain"
    if dtype.hasobject and (isinstance(word, list) or dtype.names is not None):
        form = "rows"
        if notes.get("rows") or (dtype.names is None and len(shape) == 2):
            shape = shape[:-1]
    return Elements(form, default_type(node, notes), () if _is_scalar(word, notes, shape) else shape)


def _is_scalar(word: Any, notes: dict[str, Any], shape: tuple[int, ...]) -> bool:
    marked = word == "scalar" or notes.get("scalar") is True
    return not shape or (marked and int(np.prod(shape)) == 1)


def default_type(node: ArrayNode[Attributes], notes: dict[str, Any]) -> TypeJSON:
    """Return the JSON of the HDF5 type that an array leads to where its note names none."""
    dtype = numpy_dtype(node.data_type)
    word = node.attributes.get(DTYPE)
    note = notes.get("hdf5")
    note = note if isinstance(note, dict) else {}
    if dtype.hasobject and (isinstance(word, list) or dtype.names is not None):
        return _row_type(word, dtype)
    if dtype.kind == "O":
        return _object_type(node, word, notes)
    if isinstance(note.get("enum"), dict) and dtype.kind in "iu":
        return {"enum": [[name, value] for name, value in note["enum"].items()], "base": type_of_dtype(dtype)}
    if dtype.kind == "S":
        return {"text": note.get("charset", "ascii"), "size": max(1, dtype.itemsize), "pad": "nullpad"}
    return type_of_dtype(dtype)


def _object_type(node: ArrayNode[Attributes], word: Any, notes: dict[str, Any]) -> TypeJSON:
    if word in (OBJECT, REGION):
        return str(word)
    codec = (node.filters or [{}])[0].get("id")
    is_bytes = notes.get("text") == "ascii" or (codec == "vlen-bytes" and word != "scalar")
    return dict(ASCII if is_bytes else UTF8)


def _row_type(word: Any, dtype: np.dtype[Any]) -> TypeJSON:
    fields: dict[str, TypeJSON] = {}
    for entry in word if isinstance(word, list) else ():
        if isinstance(entry, dict) and "name" in entry:
            fields.setdefault(str(entry["name"]), _field_type(entry.get("dtype"), str(entry["name"]), dtype))
    for name in dtype.names or ():
        fields.setdefault(name, OBJECT if dtype[name].hasobject else type_of_dtype(dtype[name]))
    return {"fields": [[name, kind] for name, kind in fields.items()]}


def _field_type(word: Any, name: str, dtype: np.dtype[Any]) -> TypeJSON:
    if dtype.names is not None and name in dtype.names and not dtype[name].hasobject:
        return type_of_dtype(dtype[name])
    if isinstance(word, dict):
        return REGION if word.get("reftype") == REGION else OBJECT
    kind = dtypes.kind_of(str(word))
    if kind in (OBJECT, REGION):
        return kind
    if kind == "number":
        return type_of_dtype(dtypes.numpy_of(str(word)))
    return dict(ASCII if kind in ("ascii", "bytes") else UTF8)


def default_attribute_type(value: Any) -> TypeJSON:
    """Return the JSON of the HDF5 type in which a value of an attribute is stored where the note names none.

    Parameters
    ----------
    value : object
        As `formats.attributes.decode_attributes` gives it.
    """
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype.kind != "O":
        return UTF8 if array.dtype.kind in "UT" else type_of_dtype(array.dtype)
    texts = array.reshape(-1).tolist()
    if texts and all(isinstance(item, bytes) for item in texts):
        return {"text": "ascii", "size": max(1, *map(len, texts)), "pad": "nullpad"}
    return UTF8
