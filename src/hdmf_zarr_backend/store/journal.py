"""The undo journal of a file: the old values of what a change replaces, until it is complete; and its recovery.

`store.transaction` writes it in this order::

    records      the old values of keys, or their absence, before the first of these keys is set
    (puts)       chunks, new nodes, documents, which readers of the consolidated document do not see
    last record  the digest of the document that commits the change, the other documents of the root, and what follows
    commit       one put, or one deletion; from here on, readers see the change
    (repeats)    the other documents of the root, deletions
    (removal)    the journal, the first record after the others, the last record at the end

The next writer of the file looks for the first record. If the commit is in the store, it repeats what follows;
otherwise it restores all old values. Both can stop at any point and be repeated. Readers need no journal, and only warn
of one, with `warn_of_pending`.

Source: docs/format, "The journal".
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias, TypeVar

from hdmf_zarr_backend.errors import (
    ChunkError,
    ConflictError,
    JournalWarning,
    MetadataError,
    StoreError,
    StoreRefusedError,
    ZarrBackendError,
    warn,
)
from hdmf_zarr_backend.model.json_text import dump, parse_fast
from hdmf_zarr_backend.store.base import JOURNAL, Store, is_outside
from hdmf_zarr_backend.store.lock import Holder
from hdmf_zarr_backend.store.remote import at_once

A = TypeVar("A")

LAST_RECORD = f"{JOURNAL}.commit"  # the key of the record that is set right before the commit
VERSION = 2  # version of the format of the records
Root: TypeAlias = Mapping[str, bytes | None]  # documents of the root in an order that matters, None for one to delete
FAILURES = (ZarrBackendError, OSError)  # the errors of stores

_ID = re.compile(r"[0-9A-Za-z]{1,64}")


def record_key(number: int) -> str:
    """Return the key of a record; of the first one, `JOURNAL`."""
    return f"{JOURNAL}.{number}" if number else JOURNAL


def aside_key(change: str, number: int) -> str:
    """Return the key of an old value that is too large for a record."""
    return f"{JOURNAL}.old.{change}.{number}"


def digest(value: bytes | None) -> str | None:
    """Return the digest by which a document is recognised."""
    return None if value is None else hashlib.sha256(value).hexdigest()


# ---- records --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """The state of some keys before the change ``id`` by ``holder``.

    ``old`` has their values, ``absent`` the keys that did not exist, ``below`` the paths of nodes that did not exist.
    ``aside`` has the numbers of old values that are kept under `aside_key`, after the record is set and before keys
    change. ``root`` names the documents of the root, that of the commit first. If the change ``hides`` the file,
    readers refuse it from here on until the commit; these are the digests of the documents that say so. If it is
    ``durable``, undoing it waits for the disk too.
    """

    id: str
    holder: Holder
    old: Mapping[str, bytes] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)
    below: list[str] = field(default_factory=list)
    aside: Mapping[str, int] = field(default_factory=dict)
    root: list[str] = field(default_factory=list)
    hides: Mapping[str, str | None] = field(default_factory=dict)
    durable: bool = False

    def aside_keys(self) -> list[str]:
        """Return the keys of the values that are kept outside of the record."""
        return [aside_key(self.id, number) for number in self.aside.values()]

    def encode(self) -> bytes:
        """Return the bytes of the record."""
        sizes = {key: len(value) for key, value in self.old.items()}
        head = {"id": self.id, "holder": asdict(self.holder), "old": sizes, "absent": self.absent, "below": self.below}
        optional = {name: getattr(self, name) for name in ("aside", "root", "hides", "durable")}
        return _encoded(head, self.old.values(), {name: value for name, value in optional.items() if value})

    @classmethod
    def decode(cls, text: bytes | None, location: str) -> Record | None:
        """Return the record of ``text``, None if it is cut off; MetadataError if it is damaged, or has bad keys."""
        with _damage_named(location):
            parts = None if text is None else _parts(text, "old")
            if parts is None:
                return None
            head, values = parts
            root = _checked_keys(head.get("root", []))
            if any("/" in key for key in root):
                raise ValueError("it takes a key of a node for a document of the root")
            holder = Holder.of(head["holder"])
            absent, below = _checked_keys(head["absent"]), _checked_keys(head["below"])
            aside, hides = _checked_numbers(head.get("aside", {})), _digests(head.get("hides", {}))
            return cls(head["id"], holder, values, absent, below, aside, root, hides, bool(head.get("durable")))


@dataclass(frozen=True, slots=True)
class LastRecord:
    """What commits the change ``id``, and what follows the commit.

    ``final`` has the digest of the document that commits it, None if its deletion does; it is empty if this record is
    the commit. ``root`` has the other documents of the root, ``delete`` the keys that are no longer used.
    """

    id: str
    final: Mapping[str, str | None]
    root: Root
    delete: list[str]

    def encode(self) -> bytes:
        """Return the bytes of the record."""
        sizes = {key: None if value is None else len(value) for key, value in self.root.items()}
        head = {"id": self.id, "final": dict(self.final), "root": sizes, "delete": self.delete}
        return _encoded(head, filter(None, self.root.values()), {})

    @classmethod
    def decode(cls, text: bytes | None, location: str) -> LastRecord | None:
        """Return the record of ``text``, as `Record.decode` does."""
        with _damage_named(location):
            parts = None if text is None else _parts(text, "root")
            if parts is None:
                return None
            head, texts = parts
            final = _digests(head["final"])
            _checked_keys([*final, *head["root"]])
            root = {key: texts.get(key) for key in head["root"]}
            return cls(head["id"], final, root, _checked_keys(head["delete"]))

    def is_committed(self, store: Store) -> bool:
        """Return whether the commit is in the store: then readers see the change."""
        stored = store.get_many(self.final)
        return all(digest(stored.get(key)) == expected for key, expected in self.final.items())

    def is_carried_out(self, store: Store) -> bool:
        """Return whether both this record and the commit are in the store."""
        return store.get(LAST_RECORD) == self.encode() and self.is_committed(store)


@contextmanager
def _damage_named(location: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        problem = f"the journal {JOURNAL!r} of an interrupted change cannot be understood ({error})"
        what = "it is as before the change, except values that were assigned to existing arrays"
        remedy = f"Export what can be read to a new file: {what}."
        raise MetadataError(problem, store=location, remedy=remedy) from error


def _encoded(head: dict[str, Any], values: Iterable[bytes], optional: dict[str, Any]) -> bytes:
    """Return the bytes of a record: one line of JSON, and the values."""
    joined = b"".join(values)
    return dump({"version": VERSION, **head, "crc32": zlib.crc32(joined), **optional}) + b"\n" + joined


def _parts(text: bytes, sizes: str) -> tuple[Any, dict[str, bytes]] | None:
    """Return the head of a record and its values, whose sizes are in a part of the head; None if it is cut off."""
    line, end, values = text.partition(b"\n")
    # a record without all of its bytes was not put to its end, so no key in it has changed
    try:
        head = parse_fast(line)
    except ValueError:
        if not end:
            return None
        raise
    if head["version"] != VERSION:
        raise ValueError(f"it is of version {head['version']}, and this package reads {VERSION}")
    if not _ID.fullmatch(head["id"]):
        raise ValueError(f"{head['id']!r} is not the id of a change")
    lengths = _checked_numbers({key: size for key, size in head[sizes].items() if size is not None})
    ends = list(itertools.accumulate(lengths.values(), initial=0))
    if len(values) < ends[-1]:
        return None
    if len(values) > ends[-1] or zlib.crc32(values) != head["crc32"]:
        raise ValueError("its values are damaged")
    return head, {key: values[slice(*part)] for key, part in zip(lengths, itertools.pairwise(ends), strict=True)}


def _checked_keys(stored: Any) -> list[str]:
    """Refuse what is not a list of keys, and keys that are the root, lead out of it, or belong to the journal."""
    # a journal may be crafted: a recovery must not write or delete anything outside of the file
    if not isinstance(stored, list) or not all(isinstance(key, str) for key in stored):
        raise ValueError("it lists something that is not a key")
    for key in stored:
        if is_outside(key) or not {"", "."}.isdisjoint(key.split("/")) or key.startswith(JOURNAL):
            raise ValueError(f"{key!r} is the root, leads out of the store, or is a key of the journal")
    return stored


def _checked_numbers(stored: Any) -> dict[str, int]:
    _checked_keys(list(stored.keys()))
    if not all(type(number) is int and number >= 0 for number in stored.values()):
        raise ValueError("a number in it is not a whole number of 0 or more")
    return dict(stored)


def _digests(stored: Any) -> dict[str, str | None]:
    if not all(value is None or isinstance(value, str) for value in stored.values()):
        raise ValueError("it has something other than digests")
    return dict(stored)


# ---- steps that a writer and a recovery share -----------------------------------------------------------------------


def of_each(store: Store, function: Callable[[str], A], names: Sequence[str]) -> list[A]:
    """Call a function that calls the store with each name, at once for a remote store; return the results."""
    return list(at_once(function, names) if store.abilities.is_remote else map(function, names))


def set_root(store: Store, root: Root) -> None:
    """Set and delete documents of the root, one after the other."""
    for key, text in root.items():
        if text is None:
            store._delete([key])
        else:
            store._set(key, text)


def remove_journal(store: Store, records: int, aside: Iterable[str]) -> None:
    """Delete a journal whose change is complete, or undone.

    The first record is deleted after the others, since the next writer looks for it. The last record is deleted at the
    end, because without it the change would be undone.
    """
    others = [*aside, *map(record_key, range(records - 1, 0, -1))]
    if others:
        store._delete(others)
        store.sync()
    store._delete([JOURNAL])
    store.sync()
    store._delete([LAST_RECORD])


def delete_leftovers(store: Store) -> None:
    """Delete what a writer has left that died while it deleted its journal."""
    # in local files only: on a server the last record is left at the most, and finding more would take a listing
    store._delete_unfinished([""], JOURNAL)


def warn_of_journal(store: Store, what: str) -> None:
    """Warn of a change that was or is interrupted."""
    warn(f"{store.location}: {what}", JournalWarning)


# ---- recovery -------------------------------------------------------------------------------------------------------


def pending(store: Store) -> Record | None:
    """Return the first record of the journal of a file; None without one, and if it is cut off."""
    text = store.unwrapped.get(JOURNAL) if store.abilities.consolidates else None
    return Record.decode(text, store.location)


def recover(store: Store) -> str | None:
    """Undo an interrupted change, or finish it, under the lock; return a report, None without a journal."""
    text = store.get(JOURNAL) if store.abilities.consolidates else None
    if text is None:
        return None
    first, is_durable = Record.decode(text, store.location), store.is_durable
    if first is None:
        remove_journal(store, 1, [])
        return "the journal of an interrupted change was cut off, as by a power cut, and was removed"
    store.is_durable = is_durable or first.durable
    try:
        done = _recover(store, first.id)
    except (StoreError, ChunkError) as error:
        error.problem = f"an interrupted change could not be undone or finished: {error.problem}"
        # a folder in the place of a chunk, whose old value the journal has
        then = "Remove it, and" if isinstance(error, ChunkError) else f"{error.remedy} Then"
        error.remedy = f"{then} run `zarrio repair`."
        raise
    finally:
        store.is_durable = is_durable
    return f"a change of this file by {first.holder} {done}"


def _recover(store: Store, change: str) -> str:
    records, aside, folders = 0, list[str](), set[str]()
    root, marks = dict[str, bytes | None](), set[str | None]()
    for record in _records(store, change):
        root |= {key: record.old.get(key) for key in record.root}
        marks |= {*record.hides.values()}
        records += 1
        aside += record.aside_keys()
        folders |= {key.rpartition("/")[0] for key in (*record.old, *record.absent, *record.aside)}
    last = _last_record(store, change)
    if last is not None and last.is_committed(store):
        set_root(store, last.root)
        _delete(store, last.delete)
        done = "was complete, and its journal was removed"
    else:
        _check_own(store, root, marks, may_undo=last is None)
        # if this ends half way, what is restored must not look like the commit of this record
        store._delete([LAST_RECORD])
        store.sync()
        # an error leaves a hidden file hidden: readers would find half of its keys restored
        for record in _records(store, change):
            restore(store, record)
        if marks:
            store.sync()
        set_root(store, _differing(store, root))
        done = "was interrupted and has been undone"
    store.sync()
    # the writer may have died in the middle of a value, which is a file with another name then
    store._delete_unfinished(folders)
    remove_journal(store, records, aside)
    delete_leftovers(store)
    return done


def _check_own(store: Store, root: Root, marks: Collection[str | None], *, may_undo: bool) -> None:
    """Refuse to undo a change if another program, which knows no journal, has committed its own since.

    If the change ``may_undo``, nothing has followed its commit.
    """
    first = next(iter(root), "")
    text = store.get(first) if first else None
    if text is None or text == root[first] or digest(text) in marks:
        return
    # after a power cut, it may be a part of a document, which is nobody's commit
    try:
        if not isinstance(parse_fast(text), dict):
            return
    except ValueError:
        return
    problem = f"another program has changed the file since a change was interrupted: {first!r} is not the one before it"
    keep = f"To keep what is there, delete the keys that begin with {JOURNAL!r}, and run `zarrio verify`."
    undo = f" To undo both changes, delete the key {first!r}, and run `zarrio repair`." if may_undo else ""
    raise ConflictError(problem, store=store.location, remedy=f"Nothing was changed. {keep}{undo}")


def warn_of_pending(store: Store, *, only_dead: bool = False) -> None:
    """Warn if a change of a file that is read is not complete: values assigned to its arrays may be old or new."""
    # the usual case takes one look, and reads no key
    if store.folder is not None and not os.path.lexists(os.path.join(store.folder, JOURNAL)):
        return
    try:
        first = pending(store)
        last = None if first is None else _last_record(store.unwrapped, first.id)
        # what has to be done after a commit does not concern readers
        if first is None or (last is not None and last.is_committed(store.unwrapped)):
            return
    except StoreRefusedError:
        # S3 refuses a key that does not exist if the user may not list the bucket
        return
    except MetadataError as error:
        warn_of_journal(store, f"{error.problem}; values that were assigned to existing arrays may be new")
        return
    state, advice = "was interrupted", "Run `zarrio repair` first."
    if not first.holder.is_gone():
        if only_dead:
            return
        state, advice = "is under way or was interrupted", "If that process has ended, run `zarrio repair` first."
    what = f"a change by {first.holder} {state}. The file is read as it was before, except values that were assigned "
    warn_of_journal(store, f"{what}to existing arrays: they may be new. {advice}")


def _records(store: Store, change: str) -> Iterator[Record]:
    """Yield the records of a change one by one, since together they may be larger than memory."""
    for number in itertools.count():
        record = Record.decode(store.get(record_key(number)), store.location)
        # one of an earlier change, whose journal was not removed completely, is not a part of this one
        if record is None or record.id != change:
            return
        keys = [*record.old, *record.absent, *record.aside, *record.root]
        # values put aside must not be symbolic links either, which would bring another file into this one
        store.check_inside(keys, [*record.below, *record.aside_keys()])
        yield record


def _last_record(store: Store, change: str) -> LastRecord | None:
    """Return the record that was set right before the commit of a change, None if it does not exist."""
    last = LastRecord.decode(store.get(LAST_RECORD), store.location)
    if last is None or last.id != change:
        return None
    store.check_inside([*last.final, *last.root, *last.delete], [])
    return last


def restore(store: Store, record: Record) -> None:
    """Restore the keys of a record that have changed, except the documents of the root."""
    for path in record.below:
        try:
            store._delete_below(path)
        except StoreRefusedError:
            if next(store.list_prefix(path), None) is not None:
                raise
    _delete(store, [key for key in record.absent if key not in record.root])
    differing = _differing(store, {key: value for key, value in record.old.items() if key not in record.root})
    of_each(store, lambda key: store._set(key, differing[key]), [*differing])
    for key, number in record.aside.items():
        copy = aside_key(record.id, number)
        try:
            store._copy_value(copy, key)
        except FAILURES:
            # if the writer died before it put the copy aside, the value did not change
            if list(map(digest, store.pieces(copy))) != list(map(digest, store.pieces(key))):
                raise


def _delete(store: Store, keys: Sequence[str]) -> None:
    """Delete those of ``keys`` that exist; not being allowed to delete others does not matter."""
    try:
        store._delete(keys)
    except StoreRefusedError:
        if len(keys) == 1 and store.get_range(keys[0], 0, 1) is not None:
            raise
        for key in keys if len(keys) > 1 else ():
            _delete(store, [key])


def _differing(store: Store, old: Mapping[str, A]) -> dict[str, A]:
    """Return those of the old values that the store has not, in their order."""
    stored = store.get_many(old)
    return {key: value for key, value in old.items() if stored.get(key) != value}
