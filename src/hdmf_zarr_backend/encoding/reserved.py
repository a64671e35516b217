"""The names that the format reserves: attributes, and the group of cached namespaces. Standard library only.

The same list of attributes is used for reading and writing, so a reserved one never reaches a builder. A user attribute
with a reserved name is stored under another name, which is recorded in the note `NOTES`, and is read under its own one.

Source: hdmf-zarr storage specification, "Reserved attributes"; NCZarr 2.0; the format-3 convention of hdmf-zarr 0.14.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from hdmf_zarr_backend.model.nodes import Group, Hierarchy, relative
from hdmf_zarr_backend.model.render import natural

DTYPE = "zarr_dtype"
LINKS = "zarr_link"
SPECLOC = ".specloc"
DIMENSIONS = "_ARRAY_DIMENSIONS"
NCZARR_ATTR = "_nczarr_attr"
NOTES = "_hdmf"  # hdmf-zarr up to 0.13 makes attributes of builders of unknown names, and ignores them
# Entry in the note of the root: the process that writes the file, which is incomplete while it has this entry; and a
# key in the entry: the file was complete, and is again when its journal is undone or completed.
WRITING, CHANGING = "writing", "changing"
# Entry in the note of the root, and its value if every chunk was stored, so that a missing one is damage.
CHUNKS, ALL_CHUNKS = "chunks", "all"
HDF5 = "hdf5"  # entry in the note of a node: what describes it in HDF5
# The schema's documentation of a node; hidden if the note of the node records that it comes from the schema.
DOC = "doc"
RESERVED = frozenset({
    DTYPE, LINKS, SPECLOC, DIMENSIONS, NCZARR_ATTR, NOTES, "_DTYPE", "_LINKS", "_REFERENCE", "_REFERENCE_FIELDS",
    "_SCALAR", "_nczarr_array", "_nczarr_group", "_nczarr_superblock", "_NCProperties",
})  # fmt: skip

# Version of this package's additions to the storage specification; in the note of the root (docs/format).
FORMAT_VERSION = "1.0"
_ESCAPED = "escaped"
# The attributes that name the data type of a group or dataset: NWB has the first, hdmf-common the second.
TYPE_KEYS = ("neurodata_type", "data_type")
# Attributes that hdmf makes of an object itself, whatever the schema says.
IDENTITY = frozenset({*TYPE_KEYS, "namespace", "object_id"})
OLDER = "Read its arrays with h5py or zarr-python, or write a new file from them; pynwb cannot read a copy either."
NAMESPACE = "namespace"  # name of the source that describes a namespace and lists its other sources


def escape(attributes: dict[str, Any], notes: dict[str, Any]) -> dict[str, str]:
    """Return ``{name: stored name}`` of the user's ``attributes``; ``notes`` records renamed ones."""
    stored = {name: name for name in attributes}
    renamed: dict[str, str] = {}
    for name in attributes:
        if name in RESERVED:
            candidate = f"user_{name.strip('._')}"
            while candidate in attributes or candidate in renamed or candidate in RESERVED:
                candidate += "_"
            stored[name] = candidate
            renamed[candidate] = name
    if renamed:
        notes[_ESCAPED] = renamed
    return stored


def visible(attributes: dict[str, Any]) -> dict[str, str]:
    """Return ``{stored name: user's name}`` of the attributes of a node that are not reserved."""
    notes = notes_of(attributes)
    renamed = as_dict(notes.get(_ESCAPED))
    hidden = RESERVED | {DOC} if notes.get(DOC) is True else RESERVED
    return {name: str(renamed.get(name, name)) for name in attributes if name not in hidden}


def shown_attributes(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON attributes by the user's names; bytes that are not UTF-8 are surrogates in text, not Base64."""
    kinds = as_dict(notes_of(attributes).get("attributes"))
    return {name: _text_of(attributes[key], as_dict(kinds.get(key))) for key, name in visible(attributes).items()}


def _text_of(value: Any, remark: dict[str, Any]) -> Any:
    if not remark.get("base64"):
        return value
    kind, _, size = re.sub(r"^\|S", "bytes:", str(remark.get("dtype"))).partition(":")
    if kind != "bytes":
        return value
    if isinstance(value, list):
        return [_text_of(item, remark) for item in value]
    with suppress(TypeError, ValueError):  # another program may have changed it
        raw = base64.b64decode(value)
        items = [raw[start : start + int(size)] for start in range(0, len(raw), int(size))] if size else [raw]
        texts = [item.rstrip(b"\0").decode("utf-8", "surrogateescape") for item in items or [b""]]
        return texts if size and remark.get("shape") else texts[0]
    return value


def root_notes() -> dict[str, Any]:
    """Return the initial note of the root of a new file."""
    return {"version": FORMAT_VERSION, CHUNKS: ALL_CHUNKS}


def stores_all_chunks(root: dict[str, Any]) -> bool:
    """Tell whether the attributes of the root state that every chunk was stored."""
    return bool(notes_of(root).get(CHUNKS) == ALL_CHUNKS)


def notes_of(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the note of a node, which has what Zarr cannot express; ``{}`` if there is none."""
    return as_dict(attributes.get(NOTES))


def hdf5_note(node: Any) -> dict[str, Any]:
    """Return the note that describes a node in HDF5."""
    return as_dict(notes_of(node.attributes).get(HDF5))


def as_dict(value: Any) -> dict[str, Any]:
    """Return a JSON object of a file, ``{}`` if another program stored something else there."""
    return value if isinstance(value, dict) else {}


def data_type_of(node: Any) -> str | None:
    """Return the data type of a node or builder, None without one."""
    for key in TYPE_KEYS:
        if isinstance(value := node.attributes.get(key), str):
            return value
    return None


def refused_version(version: object) -> str:
    """Return why pynwb cannot read a file with this NWB version, empty if it can."""
    if isinstance(version, str) and version.strip().removeprefix("NWB-").partition(".")[0] not in ("0", "1"):
        return ""
    said = "has no NWB version" if version is None else "gives its NWB version as an array"
    if isinstance(version, str):
        said = f"has NWB version {version}, and pynwb reads version 2 and newer"
    return f"pynwb cannot read this file: it {said}"


# ---- cached namespaces ----------------------------------------------------------------------------------------------

_VERSION = re.compile(r"v?([0-9]+(?:\.[0-9]+)*)(.*)", re.DOTALL)
_FINAL = re.compile(r"$|\+|[-_.]?(?:post|rev|r)(?![a-z])")


def newest_version(versions: Iterable[str]) -> str:
    """Return the newest of ``versions``: 2.11.0 is newer than 2.9.0, and 2.9.0 newer than 2.9.0-alpha."""
    return max(sorted(versions), key=version_key)


def version_key(version: str) -> tuple[Any, ...]:
    """Return a key that sorts versions from old to new, as SemVer 2.0 and PEP 440 do where they agree."""
    # Text that is not a version, such as hdmf's "None" and "unversioned", comes before all versions; pre-releases come
    # before their release, builds and post-releases after it; 2.0 equals 2.0.0.
    match = _VERSION.match(version)
    if match is None:
        return (0, version)
    release, suffix = re.sub(r"(\.0+)+$", "", match[1]), match[2].lower().lstrip("-_.")
    ordered = re.sub(r"[-_.]?dev", "\0", suffix) + "\1"  # "dev" sorts below the end, and the end below all else
    return (1, natural(release), _FINAL.match(suffix) is not None, natural(ordered))


def spec_location(value: Any) -> str | None:
    """Return the path in ``.specloc``, which is a reference in old files, as in the model; None if it has none."""
    if isinstance(value, dict):
        value = value.get("path", value.get("value"))
        if isinstance(value, dict):
            value = value.get("path")
    return relative(value) if isinstance(value, str) and relative(value) else None


def cached_versions(hierarchy: Hierarchy) -> dict[str, list[str]]:
    """Return ``{namespace: versions}`` of the cached namespaces of a file."""
    location = spec_location(hierarchy.root.attributes.get(SPECLOC))
    group = hierarchy.get(location) if location is not None else None
    if not isinstance(group, Group):
        return {}
    return {name: sorted(node.members) for name, node in sorted(group.members.items()) if isinstance(node, Group)}
