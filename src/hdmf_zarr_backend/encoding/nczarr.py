"""Names of axes: dimension labels <-> ``_ARRAY_DIMENSIONS``; and the attributes that make a hierarchy a netCDF file.

xarray and netCDF need a name for every axis of every array, and one length for each name in a group. HDMF has labels
for some arrays, and equal labels for axes that differ. So the stored names are made unique (``<label>_<length>``;
``_anonymous<length>``, as in NCZarr, without a label), and HDMF's labels are kept in the note if they differ.

netcdf-c refuses a file because of a single array with an unsupported type, such as text, or with an unsupported name.
In its mode ``nczarr`` it visits only what the groups list, so only supported arrays are listed. The format page has
these attributes. Other readers ignore them. The types of attributes, ``_nczarr_attr``, are in every file.

Source: files that netcdf-c 4.10 writes and reads (NCZarr 2.0); its storage document of 2018 for the terms.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hdmf_zarr_backend.encoding.elements import is_scalar
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, NCZARR_ATTR, NOTES, as_dict, notes_of
from hdmf_zarr_backend.errors import MetadataError, WrongArgumentError
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, Node, join

_NOTE = "dims"
SUPERBLOCK = "_nczarr_superblock"
PROPERTIES = "_NCProperties"
GROUP = "_nczarr_group"
ARRAY = "_nczarr_array"
ADDED = (SUPERBLOCK, PROPERTIES, GROUP, ARRAY)  # the attributes that `overlay` adds and `strip` removes
_VERSION = "2.0.0"
_PROPERTIES = f"version=2,hdmf_zarr_backend=1,nczarr={_VERSION}"
# netcdf-c has no booleans, half floats, complex numbers, UTF-32 or rows. One such array that it visits makes the
# whole file unreadable, and netcdf-c 4.9.0 crash.
_TYPES = re.compile(r"\|[iu]1|[<>][iu][248]|[<>]f[48]")
# The wheel of netCDF4 1.7.5 has these; it lacks gzip, lz4, lzma and delta.
_COMPRESSORS = frozenset({"blosc", "zlib", "zstd", "bz2"})
_NAME = re.compile(r"[0-9A-Za-z_\x80-\ud7ff\ue000-\U0010ffff][ -.0-~\x80-\ud7ff\ue000-\U0010ffff]*(?<! )")
_UNNAMED = re.compile(r"[\x00-\x1f/\x7f]")
_LONGEST_NAME = 256  # bytes
_LONGEST_LABEL = 200  # leaves characters for a length
_TYPES_OF = "types"
_TEXTS = "|S128"  # netcdf-c's type of a list of text; its length has no effect


def stored_names(labels: Sequence[str | None] | None, shape: tuple[int, ...], taken: dict[str, int]) -> list[str]:
    """Return the names of the axes of an array."""
    given = list(labels or ())[: len(shape)]
    given += [None] * (len(shape) - len(given))
    # xarray refuses a group in which a name has two lengths, and netcdf-c the whole file.
    names: list[str] = []
    for label, length in zip(given, shape, strict=True):
        name = label or f"_anonymous{length}"
        if taken.get(name, length) != length or name in names:
            name = f"{name}_{length}"
        while name in names or taken.get(name, length) != length:
            name += "_"
        taken[name] = length
        names.append(name)
    return names


def encode_dimensions(
    labels: Sequence[str | None] | None, shape: tuple[int, ...], taken: dict[str, int], notes: dict[str, Any]
) -> list[str]:
    """Return the names to store, and add HDMF's labels to ``notes`` if they differ from the names."""
    if labels is not None:  # some schemas give a length in place of a label, such as ``dims: [3]`` in ndx-aibs-ecephys
        labels = tuple(None if label is None else str(label) for label in labels)
    names = stored_names(labels, shape, taken)
    if _labels_of(names) != labels:
        notes[_NOTE] = None if labels is None else list(labels)
    return names


def decode_dimensions(attributes: dict[str, Any]) -> tuple[str | None, ...] | None:
    """Return HDMF's labels of an array, None if it has none."""
    notes = notes_of(attributes)
    if _NOTE not in notes:
        return _labels_of(attributes.get(DIMENSIONS))
    labels = notes[_NOTE]
    if labels is None:
        return None
    if not isinstance(labels, list) or not all(label is None or isinstance(label, str) for label in labels):
        raise MetadataError(f"{labels!r} are not labels of dimensions")
    return tuple(labels)


def _labels_of(names: Any) -> tuple[str | None, ...] | None:
    if not isinstance(names, list) or not names or all(str(name).startswith("_anonymous") for name in names):
        return None
    return tuple(None if name is None else str(name) for name in names)


def set_dimensions(
    node: Dataset, labels: tuple[str | None, ...] | None, taken: dict[str, int], notes: dict[str, Any]
) -> None:
    """Name the axes of an array, and set its notes; ``taken`` are the names in its group, with their lengths."""
    node.attributes[DIMENSIONS] = encode_dimensions(labels, node.stored.shape, taken, notes)
    if notes:
        node.attributes[NOTES] = notes
    else:
        node.attributes.pop(NOTES, None)


def check_format(zarr_format: int, location: str, *, nczarr: bool) -> None:
    """Refuse attributes of NCZarr in format 3."""
    if nczarr and zarr_format == 3:
        remedy, cli = "Leave nczarr= out, or use format 2.", "Leave --nczarr out, or use --zarr-format 2."
        raise WrongArgumentError("NCZarr has no attributes in format 3", store=location, remedy=remedy, remedy_cli=cli)


def is_nczarr(hierarchy: Hierarchy) -> bool:
    """Tell whether a file has these attributes, of this package or of netcdf-c."""
    return SUPERBLOCK in hierarchy.root.attributes


def overlay(hierarchy: Hierarchy) -> set[str]:
    """Set the attributes of NCZarr on the nodes of a file of format 2, replacing existing ones."""
    # in netCDF a name has one length in a group, so the axes of all arrays are named together
    wanted: dict[str, Attributes] = {"": {PROPERTIES: _PROPERTIES, SUPERBLOCK: {"version": _VERSION}}}
    for path, node in hierarchy.walk():
        if not isinstance(node, Group):
            continue
        members = [(name, child) for name, child in sorted(node.members.items()) if is_name(name)]
        arrays = {name: child for name, child in members if isinstance(child, Dataset) and is_listed(child)}
        dimensions: dict[str, Any] = {}
        taken: dict[str, int] = {}
        for name, child in arrays.items():
            wanted[join(path, name)] = {ARRAY: _about(path, child, dimensions, taken)}
        others = [(name, child) for name, child in members if isinstance(child, Group)]
        groups = [name for name, child in others if _has_readable_attributes(child.attributes)]
        group = {"dimensions": dimensions, "arrays": list(arrays), "groups": groups}
        wanted[path] = {**wanted.get(path, {}), GROUP: group}
    return _change(hierarchy, wanted)


def _about(group: str, node: Dataset, dimensions: dict[str, Any], taken: dict[str, int]) -> dict[str, Any]:
    """Return what netcdf-c needs to know of an array; its axes are added to those that its group has."""
    stored = node.stored
    # netcdf-c reports a "filter error" for a compressed scalar.
    if is_scalar(node) and stored.shape == (1,) and stored.compressor is None:
        return {"dimension_references": [], "scalar": 1, "storage": "chunked"}
    labels, most = node.attributes.get(DIMENSIONS), notes_of(node.attributes).get("maxshape")
    if not isinstance(labels, list) or len(labels) != len(stored.shape):
        labels = []
    names = stored_names([_label(each) if isinstance(each, str) else None for each in labels], stored.shape, taken)
    bounds = most if isinstance(most, list) and len(most) == len(stored.shape) else stored.shape
    for dimension, length, bound in zip(names, stored.shape, bounds, strict=True):
        if bound is None:
            dimensions[dimension] = {"size": length, "unlimited": 1}
        else:
            dimensions.setdefault(dimension, length)
    return {"dimension_references": [f"/{join(group, name)}" for name in names], "storage": "chunked"}


def strip(hierarchy: Hierarchy) -> set[str]:
    """Remove the attributes of NCZarr; return the paths of the nodes whose attributes have changed."""
    return _change(hierarchy, {})


def _change(hierarchy: Hierarchy, wanted: dict[str, Attributes]) -> set[str]:
    changed = set()
    for path, node in hierarchy.walk():
        attributes = {name: value for name, value in node.attributes.items() if name not in ADDED}
        known = as_dict(attributes.get(NCZARR_ATTR)).get(_TYPES_OF)
        # netcdf-c refuses or misreads a list without a type; this package ignores the types that only netcdf-c needs
        types = {name: kind for name, kind in as_dict(known).items() if kind != _needed_type(attributes.get(name))}
        if wanted.get(path):
            needed = {name: _needed_type(value) for name, value in attributes.items()}
            types = {**{name: kind for name, kind in needed.items() if kind is not None}, **types}
        if types != (known or {}):
            attributes.pop(NCZARR_ATTR, None)
            attributes |= {NCZARR_ATTR: {_TYPES_OF: types}} if types else {}
        attributes |= wanted.get(path, {})
        if repr(attributes) != repr(node.attributes):  # compared as text, since NaN is not equal to itself
            node.attributes = attributes
            changed.add(path)
    return changed


def _needed_type(value: Any) -> str | None:
    """Return the type that netcdf-c needs for a list, which it would refuse or misread otherwise."""
    if not isinstance(value, list):
        return None
    # netcdf-c 4.10 fails on an empty list without a type, and aborts the process on a mixed one.
    kinds = {type(item) for item in value}
    if not kinds or kinds == {str}:
        return _TEXTS
    return "<f8" if kinds == {int, float} else None


def is_listed(node: Dataset) -> bool:
    """Tell whether netcdf-c can read an array: plain numbers in C order, without filters, with supported codecs."""
    stored = node.stored
    compressor = stored.compressor or {}
    names = node.attributes.get(DIMENSIONS)
    # netcdf-c reads order F as C, silently.
    return (
        isinstance(stored.data_type, str)
        and _TYPES.fullmatch(stored.data_type) is not None
        and stored.order == "C"
        and stored.filters is None  # netcdf-c crashes on an empty list
        and compressor.get("id", "zlib") in _COMPRESSORS
        and "checksum" not in compressor
        and _has_readable_attributes(node.attributes)
        # netcdf-c crashes on an axis without a name, though its own attributes have the names
        and not (isinstance(names, list) and None in names)
    )


def is_name(name: str) -> bool:
    """Tell whether a name is valid in netCDF: letters, digits, most signs; no sign or space first, no space last."""
    return _NAME.fullmatch(name) is not None and len(name.encode()) <= _LONGEST_NAME


def _has_readable_attributes(attributes: Attributes) -> bool:
    """Tell whether netcdf-c can parse the attributes; it crashes on a list of text and numbers."""
    lists = [value for value in attributes.values() if isinstance(value, list)]
    return all(len(set(map(type, value))) < 2 or _needed_type(value) is not None for value in lists)


def _label(name: str) -> str:
    label = _UNNAMED.sub("_", name).encode("utf-8", "replace")[:_LONGEST_LABEL].decode("utf-8", "ignore").rstrip()
    return label if not label or is_name(label) else f"_{label}"


def listed(hierarchy: Hierarchy) -> list[str]:
    """Return the absolute paths of the arrays that netcdf-c finds through the attributes of the groups."""
    paths: list[str] = []
    stack: list[tuple[str, Node]] = [("", hierarchy.root)]
    while stack:
        path, node = stack.pop()
        group = node.attributes.get(GROUP)
        if isinstance(node, Group) and isinstance(group, dict):
            paths.extend(f"/{join(path, name)}" for name in group.get("arrays", ()))
            known = [name for name in group.get("groups", ()) if name in node.members]
            stack.extend((join(path, name), node.members[name]) for name in known)
    return sorted(paths)
