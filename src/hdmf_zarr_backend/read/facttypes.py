"""What the elements of a Zarr array are, in the words of `mapping.facts`.

By its data type and ``zarr_dtype``; and where a conversion from HDF5 has noted the exact type, by that. `hdf5.types`
describes the JSON of such a type; here it is only read, without HDF5.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.mapping import dtypes
from hdmf_zarr_backend.mapping.facts import ElementType
from hdmf_zarr_backend.mapping.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

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
