"""LINDI in Zarr format 2 -> the conventions of this package.

docs/format/format-3.md has what differs. In a node the fields of rows are the last axis; text such as "NaN" in
attributes becomes the number, since LINDI refuses to write it as text; the first element of an array shows whether its
elements are references. This form is never written.

Source: LINDI, "Special Zarr annotations", and the output of its converter from HDF5.
"""

from __future__ import annotations

import math
from typing import Any

from hdmf_zarr_backend.encoding.references import CELLS, REFERENCE_3
from hdmf_zarr_backend.encoding.reserved import DTYPE, LINKS, NOTES, SPECLOC, as_dict, notes_of
from hdmf_zarr_backend.encoding.zarr3 import decode_values
from hdmf_zarr_backend.errors import MetadataError, at
from hdmf_zarr_backend.model.json_text import each
from hdmf_zarr_backend.model.links import THIS_FILE
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, StoredArray, absolute, join

# LINDI's attribute of an array whose values are only in an HDF5 file; also its mark in the ``extra`` of a node.
EXTERNAL = "_EXTERNAL_ARRAY_LINK"
_SCALAR, _SOFT_LINK, _COMPOUND = "_SCALAR", "_SOFT_LINK", "_COMPOUND_DTYPE"
_MARKS = frozenset({_SCALAR, _SOFT_LINK, _COMPOUND, EXTERNAL})
_REFERENCE = "<REFERENCE>"
_REMEDY = "Create the file again with LINDI."
# JSON has no NaN. As text, hdmf could not construct a series whose resolution is NaN.
_SPELLED = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def external_of(stored: StoredArray) -> tuple[str, str] | None:
    """Return URL and dataset of the file that has the values of an array, None if they are in this file."""
    if EXTERNAL not in stored.extra:
        return None
    stated = as_dict(stored.extra[EXTERNAL])
    return str(stated.get("url", "an unknown file")), str(stated.get("name", "of an unknown name"))


def translate(hierarchy: Hierarchy) -> bool:
    """Translate a hierarchy if it is LINDI's; return whether it is."""
    root = hierarchy.root
    if hierarchy.zarr_format != 2 or not isinstance(root, Group) or "version" in notes_of(root.attributes):
        return False
    nodes = list(hierarchy.walk())
    marked = (not _MARKS.isdisjoint(node.attributes) and DTYPE not in node.attributes for _, node in nodes)
    if REFERENCE_3 not in as_dict(root.attributes.get(SPECLOC)) and not any(marked):
        return False
    for path, node in nodes:
        with at(path=path):
            node.attributes = {name: each(value, _number) for name, value in decode_values(node.attributes).items()}
            if isinstance(node, Dataset):
                _translate_array(node)
            else:
                _add_links(path, node)
    return True


def _number(value: Any) -> Any:
    return _SPELLED.get(value, value) if type(value) is str else value


def _add_links(path: str, group: Group) -> None:
    """Replace the members that represent links by links."""
    links = []
    for name in sorted(group.members):
        link = group.members[name].attributes.get(_SOFT_LINK)
        if link is None:
            continue
        target = as_dict(link).get("path")
        if not isinstance(target, str) or not target:
            raise MetadataError(f"the link {name!r} has no path", remedy=_REMEDY)
        del group.members[name]
        target = target if target.startswith("/") else join(path, target)
        links.append({"name": name, "source": THIS_FILE, "path": absolute(target)})
    if links:
        known = group.attributes.get(LINKS)
        group.attributes[LINKS] = [*(known if isinstance(known, list) else []), *links]


def _translate_array(node: Dataset) -> None:
    stored = node.stored
    attributes = node.attributes
    is_scalar = attributes.pop(_SCALAR, None) is True and stored.size == 1
    fields = attributes.pop(_COMPOUND, None)
    if EXTERNAL in attributes:
        stored.extra = {**node.extra, EXTERNAL: attributes.pop(EXTERNAL)}
    if DTYPE in attributes:
        return
    row_dtype = [] if fields is None else _row_dtype(fields)
    count = len(row_dtype)
    is_json = stored.data_type == "|O" and stored.first_filter.get("id") == "json2"
    if is_json:
        stored.filters = [{**stored.first_filter, CELLS: count}, *(stored.filters or [])[1:]]
    if not row_dtype:
        attributes.update({DTYPE: "scalar"} if is_scalar else {})
        return
    attributes[DTYPE] = row_dtype
    if is_json:
        stored.stored_axes = len(stored.shape)
        stored.shape, stored.chunks = (*stored.shape, count), (*stored.chunks, count)
    notes = {name: True for name, holds in (("scalar", is_scalar), ("rows", is_json)) if holds}
    if notes:
        attributes[NOTES] = notes


def _row_dtype(fields: Any) -> list[dict[str, str]]:
    are_pairs = isinstance(fields, list) and all(isinstance(field, list) and len(field) == 2 for field in fields)
    if not fields or not are_pairs or not all(isinstance(part, str) for field in fields for part in field):
        raise MetadataError(f"{_COMPOUND} {fields!r} is not a list of names and types", remedy=_REMEDY)
    letters = {"S": "ascii", "U": "str"}
    words = {_REFERENCE: "object", "object": "str"}
    return [
        {"name": name, "dtype": words.get(kind) or letters.get(kind.lstrip("<>|=")[:1], kind)} for name, kind in fields
    ]
