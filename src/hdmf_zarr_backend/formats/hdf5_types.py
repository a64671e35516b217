"""The types of HDF5 that the notes of a conversion record, as JSON -> `Element`. Standard library only.

`hdf5.types` makes the JSON.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.type_codes import KINDS, MAX_DEPTH, code_element
from hdmf_zarr_backend.model.elements import REFERENCE, REGION, Element
from hdmf_zarr_backend.model.memo import Memo

_PADDING = {"nullterm": "null-terminated", "nullpad": "null-padded", "spacepad": "space-padded"}
_NAMED = {"bool": Element("bool", 1), "object": REFERENCE, "region": REGION}
_BOOL_MEMBERS = (("FALSE", 0), ("TRUE", 1))

DATES = "NUMPY:"
"""Prefix of the tag of opaque types in which h5py stores NumPy's dates."""


def _noted_element(value: Any) -> Element:
    try:
        return _noted(value, 0)
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        raise MetadataError(f"{value!r} is not an HDF5 type ({error})") from error


noted_element: Memo[Element] = Memo(_noted_element)
"""Returns the `Element` for the JSON of an HDF5 type.

Raises
------
MetadataError
    The JSON does not describe a type.
"""


def _noted(value: Any, depth: int) -> Element:
    if depth > MAX_DEPTH:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return _NAMED.get(value) or code_element(value)
    for key, read in _READERS.items():
        if key in value:
            return read(value, depth + 1)
    raise KeyError("it has none of the keys of a type")


def _noted_text(value: dict[str, Any], _: int) -> Element:
    padding = _PADDING[value["pad"]] if "pad" in value or "size" in value else ""
    return Element("text", value.get("size"), encoding=str(value["text"]), detail=padding)


def _noted_enum(value: dict[str, Any], depth: int) -> Element:
    base = _noted(value["base"], depth)
    members = tuple((str(name), int(number)) for name, number in value["enum"])
    if members == _BOOL_MEMBERS:  # h5py reads such enumerations of any size as bool
        return replace(base, kind="bool")
    return replace(base, kind="enum", detail=base.kind, members=members)


def _noted_complex(value: dict[str, Any], depth: int) -> Element:
    part = _noted(value["complex"], depth)
    return replace(part, kind="complex", size=2 * (part.size or 0), detail="native")


def _noted_array(value: dict[str, Any], depth: int) -> Element:
    return Element("array", base=_noted(value["array"], depth), shape=tuple(map(int, value["shape"])))


def _noted_number(value: dict[str, Any], _: int) -> Element:
    """Return a number with a custom layout, in the JSON of `hdf5.types`."""
    name = str(value["number"])
    size = int(name[2:])
    layout = int(value["precision"]), int(value["offset"])
    detail = "" if layout == (8 * size, 0) else f"{layout[0]} bits from bit {layout[1]}"
    if "bias" in value:
        detail = f"sign, exponent and mantissa {tuple(map(int, value['fields']))}, bias {int(value['bias'])}"
    order: Literal["<", ">", "|"] = "|" if size == 1 else ">" if name[0] == ">" else "<"
    return Element(KINDS[name[1]], size, order, detail=detail)


def _noted_compound(value: dict[str, Any], depth: int) -> Element:
    fields = [(str(name), _noted(inner, depth)) for name, inner in value["fields"]]
    if [name for name, _ in fields] == ["r", "i"] and fields[0][1] == fields[1][1] and fields[0][1].kind == "float":
        part = fields[0][1]  # h5py's form of complex numbers
        return replace(part, kind="complex", size=2 * (part.size or 0))
    return Element("compound", fields=tuple(fields))


def _noted_opaque(value: dict[str, Any], _: int) -> Element:
    tag = str(value.get("tag", ""))
    if tag.startswith(DATES):
        return code_element(tag.removeprefix(DATES))
    return Element("opaque", int(value["opaque"]), detail=tag)


_READERS: dict[str, Callable[[dict[str, Any], int], Element]] = {
    "text": _noted_text,
    "number": _noted_number,  # before "fields", which such a number has too
    "fields": _noted_compound,
    "enum": _noted_enum,
    "bitfield": lambda value, _: replace(code_element(value["bitfield"]), kind="bitfield"),
    "opaque": _noted_opaque,
    "complex": _noted_complex,
    "array": _noted_array,
    "sequence": lambda value, depth: Element("sequence", base=_noted(value["sequence"], depth)),
}
