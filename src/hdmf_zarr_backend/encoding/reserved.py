"""The attribute names that the format reserves, and how user attributes with such names are stored.

The same list is used for reading and writing, so a reserved attribute never reaches a builder. A user attribute with a
reserved name is stored under another name, which is recorded in the note `NOTES`, and is read under its own name.

Source: hdmf-zarr storage specification, "Reserved attributes"; NCZarr 2.0; the format-3 convention of hdmf-zarr 0.14.
"""

from __future__ import annotations

from typing import Any

DTYPE = "zarr_dtype"
LINKS = "zarr_link"
SPECLOC = ".specloc"
DIMENSIONS = "_ARRAY_DIMENSIONS"
NCZARR_ATTR = "_nczarr_attr"
# hdmf-zarr up to 0.13 makes attributes of builders of names that it does not know, and ignores them.
NOTES = "_hdmf"
WRITING = "writing"
"""Entry in the note of the root: the process that writes the file, which is incomplete while it has this entry."""

CHANGING = "changing"
"""Key in the entry `WRITING`: the file was complete, and is again when its journal is undone or completed."""

CHUNKS = "chunks"
"""Entry in the note of the root: `ALL_CHUNKS` if every chunk was stored, so that a missing one is damage."""

ALL_CHUNKS = "all"

HDF5 = "hdf5"
"""Entry in the note of a node: what describes it in HDF5."""

DOC = "doc"
"""The schema's documentation of a node; hidden if the note of the node records that it comes from the schema."""

RESERVED = frozenset(
    {
        DTYPE, LINKS, SPECLOC, DIMENSIONS, NCZARR_ATTR, NOTES,
        "_nczarr_array", "_nczarr_group", "_nczarr_superblock", "_NCProperties",
        "_DTYPE", "_LINKS", "_REFERENCE", "_REFERENCE_FIELDS",
    }
)  # fmt: skip

FORMAT_VERSION = "1.0"
"""Version of this package's additions to the storage specification; in the note of the root (docs/format)."""

_ESCAPED = "escaped"


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


# NWB has the first, hdmf-common the second.
TYPE_KEYS = ("neurodata_type", "data_type")
"""The attributes that name the data type of a group or dataset."""


def data_type_of(node: Any) -> str | None:
    """Return the data type of a node or builder, None without one."""
    for key in TYPE_KEYS:
        if isinstance(value := node.attributes.get(key), str):
            return value
    return None
