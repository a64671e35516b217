"""The records of a journal: how keys of a file were before a change set them.

A record is one line of JSON, which names keys and lengths, and the old values one after the other. The keys of a
journal are plain names at the root of the file, which no reader of Zarr takes for a node.

Source: issue "Nothing lost, nobody let in", part 2.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

from hdmf_zarr_backend.changes.locks import Holder
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes
from hdmf_zarr_backend.stores.base import Store, is_outside
from hdmf_zarr_backend.stores.json_text import dump, parse_fast

JOURNAL = ".hdmf_zarr_journal"
"""The first key of a journal, which is pending while this is there. The others begin with the same letters."""

LAST_NOTE = f"{JOURNAL}.commit"
"""The key that says what the documents will be that make a change whole."""

VERSION = 1
"""Of the form of the records."""

_ID = re.compile(r"[0-9A-Za-z]{1,64}")

ROOT_DOCUMENTS = (zarr2.ATTRIBUTES, zarr2.CONSOLIDATED, zarr3.DOCUMENT)
"""The documents of the root, in the order in which they let readers in."""


def record_key(number: int) -> str:
    """Return the key of a record; of the first one, `JOURNAL`."""
    return f"{JOURNAL}.{number}" if number else JOURNAL


def aside_key(change: str, number: int) -> str:
    """Return the key of an old value that a change puts aside as it is, since it is too large to be one of many."""
    return f"{JOURNAL}.old.{change}.{number}"


@dataclass(frozen=True, slots=True)
class Mark:
    """What tells readers that a file cannot be read for the moment, since there is no order of old or new.

    Attributes
    ----------
    documents : dict
        ``{key: bytes}`` of the root's documents that say so.
    hidden : tuple of str
        Keys that readers would trust instead, and that are deleted.
    """

    documents: Mapping[str, bytes]
    hidden: tuple[str, ...] = ()

    def put(self, keys: Store) -> None:
        """Let the file say so."""
        for key, text in self.documents.items():
            keys.set(key, text)
        keys.delete(self.hidden)


class Metadata(Protocol):
    """How the metadata of a file are stored."""

    def documents(self, path: str, node: ArrayNode[Attributes]) -> Iterable[tuple[str, Any]]:
        """Return the documents of an array by their keys."""

    def mark(self) -> Mark:
        """Return what tells readers that the file is being changed and cannot be read for the moment."""


class Format2Metadata:
    """Those of a file of format 2."""

    def documents(self, path: str, node: ArrayNode[Attributes]) -> Iterable[tuple[str, Any]]:
        """Return ``.zarray`` and ``.zattrs``."""
        return zarr2.node_documents(path, node)

    def mark(self) -> Mark:
        """Return that there is no consolidated document."""
        return Mark({}, (zarr2.CONSOLIDATED,))


def damaged(error: Exception, location: str) -> MetadataError:
    """Return the error for a journal that ``error`` says is none."""
    return MetadataError(
        f"the journal {JOURNAL!r} of an interrupted change cannot be understood ({error})",
        store=location,
        remedy="Read the file with mode 'r', which shows it as it was, and export it to a new one.",
    )


@dataclass(frozen=True, slots=True)
class Record:
    """How some keys were.

    Attributes
    ----------
    id : str
        Of the change.
    old : dict
        ``{key: bytes}``.
    absent : list of str
        Keys that were not there.
    below : list of str
        Paths below which nothing was.
    holder : Holder
        Who makes the change.
    mark : Mark, optional
        What it puts before there is no order of old or new.
    aside : dict
        ``{key: number}`` of old values that are put aside (`aside_key`), after this record and before they change.
    """

    id: str
    old: dict[str, bytes]
    absent: list[str]
    below: list[str]
    holder: Holder
    mark: Mark | None = field(default=None)
    aside: dict[str, int] = field(default_factory=dict)

    def aside_keys(self) -> list[str]:
        """Return the keys of the old values that are put aside."""
        return [aside_key(self.id, number) for number in self.aside.values()]

    def encode(self) -> bytes:
        """Return the bytes of the record."""
        values = b"".join(self.old.values())
        head: dict[str, Any] = {
            "version": VERSION,
            "id": self.id,
            "holder": asdict(self.holder),
            "old": {key: len(value) for key, value in self.old.items()},
            "absent": self.absent,
            "below": self.below,
            "crc32": zlib.crc32(values),
        }
        if self.aside:
            head["aside"] = self.aside
        if self.mark is not None:
            documents = {key: text.decode() for key, text in self.mark.documents.items()}
            head["mark"] = {"documents": documents, "hidden": list(self.mark.hidden)}
        return dump(head) + b"\n" + values

    @classmethod
    def decode(cls, text: bytes, location: str) -> Record:
        """Return the record of ``text``.

        Raises
        ------
        MetadataError
            It is none, or not whole.
        """
        line, _, values = text.partition(b"\n")
        try:
            head = parse_fast(line)
            if head["version"] != VERSION:
                raise ValueError(f"it is of version {head['version']}, and this package knows {VERSION}")
            if not _ID.fullmatch(head["id"]):
                raise ValueError(f"{head['id']!r} is not the id of a change")
            lengths = _numbers_of(head["old"])
            if sum(lengths.values()) != len(values):
                raise ValueError("it is cut off")
            if zlib.crc32(values) != head["crc32"]:
                raise ValueError("its checksum is another one")
            old, start = {}, 0
            for key, length in lengths.items():
                old[key] = values[start : start + length]
                start += length
            return cls(
                head["id"],
                old,
                checked_keys(head["absent"]),
                checked_keys(head["below"]),
                _holder_of(head["holder"]),
                _mark_of(head.get("mark")),
                _numbers_of(head.get("aside", {})),
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise damaged(error, location) from error


def checked_keys(stored: Any) -> list[str]:
    """Return the keys that a journal names.

    Raises
    ------
    ValueError
        They are not a list of text, or one is the root, leads out of it, or belongs to the journal itself.
    """
    if not isinstance(stored, list) or not all(isinstance(key, str) for key in stored):
        raise ValueError("it lists something other than keys")
    for key in stored:
        if is_outside(key) or not {"", "."}.isdisjoint(key.split("/")) or key.startswith(JOURNAL):
            raise ValueError(f"{key!r} is the root, leads out of the store, or is a key of the journal")
    return stored


def _numbers_of(stored: Any) -> dict[str, int]:
    checked_keys(list(stored.keys()))
    if not all(type(number) is int and number >= 0 for number in stored.values()):
        raise ValueError("a number in it is not a whole number of 0 or more")
    return dict(stored)


def _holder_of(stored: Any) -> Holder:
    host, pid, since = stored["host"], stored["pid"], stored["since"]
    if not isinstance(host, str) or type(pid) is not int or not isinstance(since, str):
        raise ValueError("it does not name its writer")
    return Holder(host, pid, since)


def _mark_of(stored: Any) -> Mark | None:
    if stored is None:
        return None
    documents = {key: text.encode() for key, text in stored["documents"].items()}
    hidden = checked_keys(stored["hidden"])
    if not {*documents, *hidden} <= set(ROOT_DOCUMENTS):
        raise ValueError("its mark is not about the root")
    return Mark(documents, tuple(hidden))
