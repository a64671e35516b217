"""The attributes by which netcdf-c sees a hierarchy as a netCDF file: dimensions, and which arrays it can read.

netcdf-c refuses a whole file for one array that it has no type for, text above all. In its mode ``nczarr`` it visits
only what the groups list; so just those arrays are listed. The attributes change nothing for other readers.

=========================  =====================================================================================
``_nczarr_superblock``     on the root: the version of NCZarr
``_NCProperties``          on the root: who wrote the file
``_nczarr_group``          on each group: dimensions with their lengths, arrays and groups by name
``_nczarr_array``          on each array that is listed: its dimensions by path, and whether it is a scalar
=========================  =====================================================================================

The types of attributes, ``_nczarr_attr``, are in every file: `mapping.attributes` writes them.

Source: what netcdf-c 4.10 writes and reads (NCZarr 2.0); its storage document of 2018 for the terms.
"""

from __future__ import annotations

import re
from typing import Any

from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, DTYPE, NCZARR_ATTR, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Hierarchy, Node, join

SUPERBLOCK = "_nczarr_superblock"
PROPERTIES = "_NCProperties"
GROUP = "_nczarr_group"
ARRAY = "_nczarr_array"
ADDED = (SUPERBLOCK, PROPERTIES, GROUP, ARRAY)
"""The attributes that `overlay` adds and `strip` takes away."""

_VERSION = "2.0.0"
_PROPERTIES = f"version=2,hdmf_zarr_backend=1,nczarr={_VERSION}"
_TYPES = re.compile(r"\|[iu]1|[<>][iu][248]|[<>]f[48]")
_COMPRESSORS = frozenset({"blosc", "zlib", "zstd", "bz2"})
_SCALAR = "scalar"
_TYPES_OF = "types"
_TEXTS = "|S128"
"""netcdf-c's type of a list of text; the length says nothing."""


def is_nczarr(hierarchy: Hierarchy) -> bool:
    """Tell whether a file has these attributes, ours or netcdf-c's."""
    return SUPERBLOCK in hierarchy.root.attributes


def overlay(hierarchy: Hierarchy) -> set[str]:
    """Give the nodes of a file of format 2 the attributes of NCZarr; what was there of them is made anew.

    Returns
    -------
    set of str
        Paths of the nodes whose attributes are others now.
    """
    return _change(hierarchy, {path: _of_node(path, node) for path, node in hierarchy.walk()})


def strip(hierarchy: Hierarchy) -> set[str]:
    """Take the attributes of NCZarr away; return the paths of the nodes whose attributes are others now."""
    return _change(hierarchy, {})


def _change(hierarchy: Hierarchy, wanted: dict[str, Attributes]) -> set[str]:
    changed = set()
    for path, node in hierarchy.walk():
        made = {name: value for name, value in node.attributes.items() if name not in ADDED}
        made = _with_types(made, added=path in wanted and bool(wanted[path]))
        made |= wanted.get(path, {})
        if repr(made) != repr(node.attributes):  # text, since NaN is not equal to itself
            node.attributes = made
            changed.add(path)
    return changed


def _with_types(attributes: Attributes, *, added: bool) -> Attributes:
    """Return attributes with the types that netcdf-c needs for lists, or without them; our reading takes no note."""
    holder = attributes.get(NCZARR_ATTR)
    known = holder.get(_TYPES_OF) if isinstance(holder, dict) else None
    types = {
        name: kind
        for name, kind in (known if isinstance(known, dict) else {}).items()
        if kind != _needed_type(attributes.get(name))
    }
    if added:
        needed = {name: _needed_type(value) for name, value in attributes.items()}
        types = {**{name: kind for name, kind in needed.items() if kind is not None}, **types}
    if types == (known or {}):
        return attributes
    made = {name: value for name, value in attributes.items() if name != NCZARR_ATTR}
    return {**made, NCZARR_ATTR: {_TYPES_OF: types}} if types else made


def _needed_type(value: Any) -> str | None:
    """Return the type without which netcdf-c refuses a list, or takes it for something else."""
    if not isinstance(value, list):
        return None
    kinds = {type(item) for item in value}
    if not kinds or kinds == {str}:
        return _TEXTS
    return "<f8" if kinds == {int, float} else None


def _of_node(path: str, node: Node) -> Attributes:
    if isinstance(node, ArrayNode):
        return _of_array(path, node) if is_listed(node) else {}
    added: Attributes = {} if path else {PROPERTIES: _PROPERTIES, SUPERBLOCK: {"version": _VERSION}}
    return {**added, GROUP: _of_group(node)}


def is_listed(node: ArrayNode[Attributes]) -> bool:
    """Tell whether netcdf-c can read an array: plain numbers in C order, no filters, codecs that it has."""
    compressor = node.compressor or {}
    return (
        isinstance(node.data_type, str)
        and _TYPES.fullmatch(node.data_type) is not None
        and node.order == "C"
        and not node.filters
        and compressor.get("id", "zlib") in _COMPRESSORS
        and "checksum" not in compressor
        and _has_readable_attributes(node.attributes)
    )


def _has_readable_attributes(attributes: Attributes) -> bool:
    """Tell whether netcdf-c lives through the attributes: a list of text and numbers ends its process."""
    return not any(isinstance(value, list) and not _is_readable(value) for value in attributes.values())


def _is_readable(value: list[Any]) -> bool:
    return len({type(item) for item in value}) < 2 or _needed_type(value) is not None


def _is_scalar(node: ArrayNode[Attributes]) -> bool:
    scalar = node.attributes.get(DTYPE) == _SCALAR or notes_of(node.attributes).get(_SCALAR) is True
    return scalar and node.shape == (1,) and node.compressor is None


def _of_array(path: str, node: ArrayNode[Attributes]) -> Attributes:
    if _is_scalar(node):
        return {ARRAY: {"dimension_references": [], "scalar": 1, "storage": "chunked"}}
    parent = path.rpartition("/")[0]
    references = [f"/{join(parent, name)}" for name in _names(node)]
    return {ARRAY: {"dimension_references": references, "storage": "chunked"}}


def _of_group(node: GroupNode[Attributes]) -> dict[str, Any]:
    dimensions: dict[str, Any] = {}
    arrays = [name for name, child in sorted(node.members.items()) if isinstance(child, ArrayNode) and is_listed(child)]
    for name in arrays:
        child = node.members[name]
        assert isinstance(child, ArrayNode)
        if _is_scalar(child):
            continue
        most = notes_of(child.attributes).get("maxshape")
        grows = most if isinstance(most, list) and len(most) == len(child.shape) else child.shape
        for dimension, length, bound in zip(_names(child), child.shape, grows, strict=True):
            if bound is None:
                dimensions[dimension] = {"size": length, "unlimited": 1}
            else:
                dimensions.setdefault(dimension, length)
    groups = [name for name, child in sorted(node.members.items()) if isinstance(child, GroupNode)]
    return {"dimensions": dimensions, "arrays": arrays, "groups": [g for g in groups if _is_safe(node.members[g])]}


def _is_safe(node: Node) -> bool:
    return _has_readable_attributes(node.attributes)


def _names(node: ArrayNode[Attributes]) -> list[str]:
    """Return the names of the axes; those of the file, where it has one for each."""
    names = node.attributes.get(DIMENSIONS)
    if isinstance(names, list) and len(names) == len(node.shape) and all(isinstance(name, str) for name in names):
        return [name.replace("/", "_") for name in names]
    return [f"_anonymous{n}" if n not in node.shape[:i] else f"_anonymous{n}_{i}" for i, n in enumerate(node.shape)]


def listed(hierarchy: Hierarchy) -> list[str]:
    """Return the absolute paths of the arrays that netcdf-c comes to, by the attributes of the groups."""
    found: list[str] = []
    stack: list[tuple[str, Node]] = [("", hierarchy.root)]
    while stack:
        path, node = stack.pop()
        held = node.attributes.get(GROUP)
        if isinstance(node, GroupNode) and isinstance(held, dict):
            found.extend(f"/{join(path, name)}" for name in held.get("arrays", ()))
            stack.extend(
                (join(path, name), node.members[name]) for name in held.get("groups", ()) if name in node.members
            )
    return sorted(found)
