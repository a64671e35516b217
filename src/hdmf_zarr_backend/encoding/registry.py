"""The formats of Zarr by number: the documents of nodes, and those that are set last. And files with both formats.

In those, format 2 is the primary one: changes are made there, and the documents of format 3 are derived from it. A note
in ``zarr.json`` has digests of both, which show if a program that supports only one format has changed one of them
(docs/format/format-3.md).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeAlias

from hdmf_zarr_backend.encoding import zarr2, zarr3
from hdmf_zarr_backend.encoding.data_types import STRUCTURED, as_structured, itemsize
from hdmf_zarr_backend.encoding.fills import fill_from_format_3
from hdmf_zarr_backend.encoding.reserved import NOTES, notes_of
from hdmf_zarr_backend.model.json_text import dump
from hdmf_zarr_backend.model.nodes import Damaged, Dataset, Hierarchy, Node, StoredArray
from hdmf_zarr_backend.options import named_format

BOTH: Literal["both"] = "both"  # the ``zarr_format`` of such a file, and the name of its note
ZarrFormat: TypeAlias = Literal[2, 3, "both"]
"""Possible formats of a new file."""

# The relation between the documents of both formats.
State: TypeAlias = Literal["alike", "2 is newer", "3 is newer", "both are newer"]
Documents = dict[str, dict[str, Any]]
# hdmf-zarr up to 0.13 and netcdf-c read format 2 only; hdmf-zarr 0.14 writes format 3.
DEFAULT_FORMAT = 2  # format of new files, unless the call or the environment names one
FORMATS: dict[int, Format] = {2: zarr2, 3: zarr3}  # the formats by number: modules, of which each is a `Format`
FIRST_KEYS = (zarr3.DOCUMENT, zarr2.CONSOLIDATED)  # keys that show whether a file is consolidated, and its format
FIRST_KEY = {2: zarr2.CONSOLIDATED, 3: zarr3.DOCUMENT}  # the one of them for a file of known format


class Format(Protocol):
    """One format of Zarr."""

    def documents(self, path: str, node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield ``(key, document)`` of one node, except for the documents in `last`."""

    def last(self, hierarchy: Hierarchy, inlined: Mapping[str, bytes], *, consolidate: bool) -> Documents:
        """Return the documents that complete the file, with the ``inlined`` chunks by key, as far as they fit."""


def default_format(possible: Sequence[int], *, needed: int | None = None) -> ZarrFormat:
    """Return the format of a new file for which the caller names none."""
    supported: list[Any] = [*possible, *((BOTH,) if {2, 3} <= {*possible} else ())]
    wanted: tuple[Any, ...] = (needed, named_format(), DEFAULT_FORMAT)
    return next((number for number in wanted if number in supported), supported[0])


def stale(zarr_format: int, *, consolidate: bool) -> list[str]:
    """Return the keys that become invalid when a file is changed; in format 3 `Format.last` replaces the document."""
    return [zarr2.CONSOLIDATED] if zarr_format == 2 and not consolidate else []


def parse_documents(documents: Mapping[str, Any], *, damaged: Damaged | None = None) -> Hierarchy:
    """Return the hierarchy for ``{key: document}`` of all nodes, of format 3 if there is a ``zarr.json``."""
    if zarr3.DOCUMENT in documents:
        return zarr3.parse_documents(documents, damaged=damaged)
    return zarr2.parse_documents(documents, damaged=damaged)


def texts_of(zarr_format: int, nodes: Iterable[tuple[str, Node]], *, strict: bool = False) -> dict[str, bytes]:
    """Return the texts of the documents of nodes by their keys, without those that are set last."""
    documents = FORMATS[zarr_format].documents
    return {key: dump(each, strict=strict) for path, node in nodes for key, each in documents(path, node)}


def parse_array(documents: Mapping[str, Any], path: str) -> Dataset | None:
    """Return the array for the documents of the node at ``path``, by their names; None for other nodes."""
    if zarr3.DOCUMENT in documents:
        node = zarr3.parse_node(documents[zarr3.DOCUMENT], path)
        return node if isinstance(node, Dataset) else None
    if zarr2.ARRAY in documents:
        return zarr2.parse_array(documents[zarr2.ARRAY], documents.get(zarr2.ATTRIBUTES, {}), path)
    return None


# ---- files of both formats ------------------------------------------------------------------------------------------

_EMPTY: dict[str, Any] = {"zarr_format": 3, "node_type": "group", zarr3.CONSOLIDATED: {**zarr3.BLOCK, "metadata": {}}}
_ZEROS = "0" * 64  # a document cannot have its own digest, so it is computed with zeros in its place
# The text is searched and not parsed, because a reader parses only one of the two documents.
_NOTE = re.compile(rb'"both"\s*:\s*\{([^{}]{0,400})\}')
_OF_2 = re.compile(rb'"zmetadata"\s*:\s*"([0-9a-f]{64})"')
_OF_3 = re.compile(rb'"zarr\.json"\s*:\s*"([0-9a-f]{64})"')


def _digest(text: bytes | None) -> str:
    return "" if text is None else hashlib.sha256(text).hexdigest()


def with_note(document: Mapping[str, Any], consolidated: bytes | None) -> dict[str, Any]:
    """Return the ``zarr.json`` of a root with a note, to be completed by `sealed`."""
    attributes = document.get("attributes") or {}
    note = {"zmetadata": _ZEROS if consolidated is None else _digest(consolidated), zarr3.DOCUMENT: _ZEROS}
    return {**document, "attributes": {**attributes, NOTES: {**notes_of(attributes), BOTH: note}}}


def sealed(text: bytes, consolidated: bytes | None = None) -> bytes:
    """Return the text of a ``zarr.json`` from `with_note` with its own digest, and that of another ``.zmetadata``."""
    note = _find(text)
    if note is None:
        raise ValueError("the document has no note")
    if consolidated is not None:
        text = text.replace(note[0].encode(), _digest(consolidated).encode(), 1)
    text = _replaced(text, note[2], _ZEROS)
    return _replaced(text, note[2], _digest(text))


def use_structured(node: Dataset) -> None:
    """Let the ``zarr.json`` of rows call them ``structured``, with a fill value in Base64; others stay as they are."""
    # zarr-python has that type since 3.1, and ``struct``, by which files of format 3 only call it, since 3.2. One data
    # type that it does not know makes a whole file unreadable to it.
    if not isinstance(node.stored.data_type, list) and not zarr3.has_records(node.stored):
        return  # only rows have such a type
    document = zarr3.encode_node(node)
    stored = document["data_type"]
    named = as_structured(stored)
    if named is stored:
        return
    data_type, fill = node.stored.data_type, document["fill_value"]
    if node.stored.fill_value is None or fill_from_format_3(fill, data_type, stored) is None:
        zeros = bytes(zarr3.row_bytes(node.stored) or itemsize(node.stored.data_type))
        fill = base64.b64encode(zeros).decode()
        zarr3.keep_document(node, {**document, "data_type": named, "fill_value": fill})


def use_struct(node: StoredArray) -> bool:
    """Undo `use_structured`, and tell whether there was something to undo."""
    stored = None if node.original is None else node.original.document["data_type"]
    if not isinstance(stored, dict) or stored.get("name") != STRUCTURED:
        return False
    node.original = None
    return True


def hiding_document() -> dict[str, Any]:
    """Return a ``zarr.json`` of a root that hides the file from readers of format 3 while its chunks do not fit."""
    return with_note(_EMPTY, None)


def is_hiding(text: bytes | None) -> bool:
    """Return whether a ``zarr.json`` of a root is a `hiding_document`, which says nothing about the file."""
    note = _find(text)
    return note is not None and note[0] == _ZEROS


def state_of(texts: Mapping[str, bytes]) -> State | None:
    """Return the state of a file of both formats from the root's documents, None for a file of one format."""
    text = texts.get(zarr3.DOCUMENT)
    note = _find(text)
    if text is None or note is None:
        return None
    of_2, of_3, span = note
    is_2_same = of_2 == _digest(texts.get(zarr2.CONSOLIDATED))
    if _digest(_replaced(text, span, _ZEROS)) == of_3:
        return "alike" if is_2_same else "2 is newer"
    return "3 is newer" if is_2_same else "both are newer"


def _find(text: bytes | None) -> tuple[str, str, tuple[int, int]] | None:
    """Return both digests of the note, and the position of that of ``zarr.json``."""
    for match in _NOTE.finditer(text or b""):
        of_2, of_3 = _OF_2.search(match[1]), _OF_3.search(match[1])
        if of_2 is not None and of_3 is not None:
            start = match.start(1) + of_3.start(1)
            return of_2[1].decode(), of_3[1].decode(), (start, start + len(_ZEROS))
    return None


def _replaced(text: bytes, span: tuple[int, int], digest: str) -> bytes:
    return text[: span[0]] + digest.encode() + text[span[1] :]
