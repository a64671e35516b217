"""The attribute names that the format reserves, and how an attribute of a user with such a name is stored.

One list for reading and writing: a reserved attribute never reaches a builder. A user's attribute with a reserved
name is stored under another name, and the note `NOTES` says which; it comes back under its own.

Source: hdmf-zarr storage specification, "Reserved attributes"; NCZarr 2.0; the format-3 convention of hdmf-zarr 0.14.
"""

from __future__ import annotations

from typing import Any

DTYPE = "zarr_dtype"
LINKS = "zarr_link"
SPECLOC = ".specloc"
DIMENSIONS = "_ARRAY_DIMENSIONS"
NCZARR_ATTR = "_nczarr_attr"
NOTES = "_hdmf"
WRITING = "writing"
"""In the note of the root: who is writing the file. The file is not whole while it has this entry."""

CHANGING = "changing"
"""In the entry `WRITING`: the file was whole, and is again when its journal is undone or finished."""

CHUNKS = "chunks"
"""In the note of the root: `ALL_CHUNKS` where every chunk was stored, so that one that is absent is gone."""

ALL_CHUNKS = "all"

DOC = "doc"
"""The schema's documentation of a node; hidden where the note of the node says that it was written as such."""

RESERVED = frozenset(
    {
        DTYPE, LINKS, SPECLOC, DIMENSIONS, NCZARR_ATTR, NOTES,
        "_nczarr_array", "_nczarr_group", "_nczarr_superblock", "_NCProperties",
        "_DTYPE", "_LINKS", "_REFERENCE", "_REFERENCE_FIELDS",
    }
)  # fmt: skip

FORMAT_VERSION = "1.0"
"""Version of what this package adds to the storage specification; in the note of the root (docs/format)."""

_ESCAPED = "escaped"


def escape(attributes: dict[str, Any], notes: dict[str, Any]) -> dict[str, str]:
    """Return ``{name: stored name}`` of the user's ``attributes``; ``notes`` records what was renamed."""
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
    """Return ``{stored name: user's name}`` of the attributes of a node that a user may see."""
    notes = notes_of(attributes)
    renamed = notes.get(_ESCAPED)
    renamed = renamed if isinstance(renamed, dict) else {}
    hidden = RESERVED | {DOC} if notes.get(DOC) is True else RESERVED
    return {name: str(renamed.get(name, name)) for name in attributes if name not in hidden}


def root_notes() -> dict[str, Any]:
    """Return the note that the root of a new file begins with."""
    return {"version": FORMAT_VERSION, CHUNKS: ALL_CHUNKS}


def notes_of(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return the note of a node: what Zarr cannot express, ``{}`` where there is none."""
    notes = attributes.get(NOTES)
    return notes if isinstance(notes, dict) else {}
