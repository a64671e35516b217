"""The note of a file that has the documents of both formats: whether they are alike, and which of them counts.

Format 2 is the primary one: changes are made there, and the documents of format 3 are derived from it. The note is in
``zarr.json`` of the root, below ``_hdmf``::

    "both": {"zmetadata": "<SHA-256 of .zmetadata>", "zarr.json": "<SHA-256 of zarr.json with 64 zeros here>"}

A reader gets both documents with its first request, and compares. Whoever knows one format only changes one of the
documents, and the digests show which.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.reserved import NOTES, notes_of

BOTH: Literal["both"] = "both"
"""The ``zarr_format`` of such a file, and the name of its note."""

ZarrFormat: TypeAlias = Literal[2, 3, "both"]
"""What a new file can be."""

State: TypeAlias = Literal["alike", "2 is newer", "3 is newer", "both are newer"]
"""What is known of the documents of both formats."""

_EMPTY: dict[str, Any] = {
    "zarr_format": 3,
    "node_type": "group",
    zarr3.CONSOLIDATED: {"kind": "inline", "must_understand": False, "metadata": {}},
}

_ZEROS = "0" * 64
_NOTE = re.compile(rb'"both"\s*:\s*(\{[^{}]*\})')
_DIGESTS = ("zmetadata", zarr3.DOCUMENT)


def _digest(text: bytes | None) -> str:
    return "" if text is None else hashlib.sha256(text).hexdigest()


def with_note(document: Mapping[str, Any], consolidated: bytes | None) -> dict[str, Any]:
    """Return the ``zarr.json`` of a root with a note that `sealed` completes.

    Parameters
    ----------
    document : mapping
        Without a note.
    consolidated : bytes or None
        The ``.zmetadata`` that it was derived from. None: none that a reader finds, so that format 2 is newer.
    """
    attributes = document.get("attributes") or {}
    note = {"zmetadata": _ZEROS if consolidated is None else _digest(consolidated), zarr3.DOCUMENT: _ZEROS}
    return {**document, "attributes": {**attributes, NOTES: {**notes_of(attributes), BOTH: note}}}


def sealed(text: bytes) -> bytes:
    """Return the text of a ``zarr.json`` of `with_note` with its own digest."""
    found = _find(text)
    if found is None:
        raise ValueError("the document has no note")
    return _replaced(text, found[0], _digest(text))


def hiding_document() -> dict[str, Any]:
    """Return a ``zarr.json`` of a root that shows nothing to readers of format 3, while chunks do not fit it."""
    return with_note(_EMPTY, None)


def without_note(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a root without the note."""
    notes = {key: value for key, value in notes_of(dict(attributes)).items() if key != BOTH}
    return {**attributes, NOTES: notes}


def state_of(texts: Mapping[str, bytes]) -> State | None:
    """Return what the root's documents say of a file; None: it is not one of both formats.

    Parameters
    ----------
    texts : mapping
        ``{key: text}`` of ``zarr.json`` and ``.zmetadata``, where they exist.
    """
    text = texts.get(zarr3.DOCUMENT)
    found = None if text is None else _find(text)
    if text is None or found is None:
        return None
    match, note = found
    is_2_same = note["zmetadata"] == _digest(texts.get(zarr2.CONSOLIDATED))
    if _digest(_replaced(text, match, _ZEROS)) == note[zarr3.DOCUMENT]:
        return "alike" if is_2_same else "2 is newer"
    return "3 is newer" if is_2_same else "both are newer"


def _find(text: bytes) -> tuple[re.Match[bytes], dict[str, str]] | None:
    for match in _NOTE.finditer(text):
        try:
            note = json.loads(match[1])
        except ValueError:
            continue
        if set(note) == set(_DIGESTS) and all(isinstance(digest, str) for digest in note.values()):
            return match, note
    return None


def _replaced(text: bytes, match: re.Match[bytes], digest: str) -> bytes:
    """Return the text with another digest of its own."""
    note = re.sub(rb'("zarr\.json"\s*:\s*")[0-9a-f]*"', rb"\g<1>" + digest.encode() + b'"', match[1])
    return text[: match.start(1)] + note + text[match.end(1) :]
