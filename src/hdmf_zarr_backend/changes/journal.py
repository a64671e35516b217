"""`Journal`: the undo journal of a file, which holds the old values of keys until a change is complete.

A change of an existing file runs in this order::

    keep      the old value of a key, or its absence, is recorded before the key is set for the first time
    (set)     chunks, new nodes, changed documents, which readers of the consolidated document do not see
    commit    a last record has the digests of the final documents; then these are set, the consolidated one in one put
    (delete)  keys that are no longer read, then the journal

The next writer of the file looks for the first key of a journal. If the documents have the digests of the last record,
readers see the change and only the deletions are repeated; otherwise all old values are restored. Both can stop at any
point and be repeated. Readers never look for a journal.

A record is one line of JSON, which names keys and lengths, followed by the old values. The keys of a journal are plain
names at the root of the file, where no Zarr reader looks for a node.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import uuid
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from hdmf_zarr_backend.changes.locks import Holder, WriterLock, writer_lock
from hdmf_zarr_backend.errors import (
    ConflictError,
    JournalWarning,
    MetadataError,
    StoreError,
    StoreRefusedError,
    StoreUnreachableError,
    ZarrBackendError,
    warn,
)
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import Store, is_outside
from hdmf_zarr_backend.stores.files import Staged
from hdmf_zarr_backend.stores.json_text import dump, parse_fast
from hdmf_zarr_backend.stores.remote import at_once

JOURNAL = ".hdmf_zarr_journal"
"""The key of the first record, which exists while a change is pending; the other keys begin with the same letters."""

LAST_RECORD = f"{JOURNAL}.commit"
"""The key of the record that has the digests of the final documents."""

VERSION = 1
"""Version of the format of the records."""

ROOT_DOCUMENTS = (zarr2.ATTRIBUTES, zarr2.CONSOLIDATED, zarr3.DOCUMENT)
"""The documents of the root, in the order in which they are set."""

_ID = re.compile(r"[0-9A-Za-z]{1,64}")
_PIECE_BYTES = 8 * 2**20
_SHOWN = 5
_FAILURES = (ZarrBackendError, OSError, RuntimeError, ValueError, TypeError)
_DAMAGE = (ValueError, KeyError, TypeError, AttributeError)


def record_key(number: int) -> str:
    """Return the key of a record; of the first one, `JOURNAL`."""
    return f"{JOURNAL}.{number}" if number else JOURNAL


def aside_key(change: str, number: int) -> str:
    """Return the key of an old value that is too large for a record."""
    return f"{JOURNAL}.old.{change}.{number}"


@dataclass(frozen=True, slots=True)
class Mark:
    """Documents that make readers refuse a file while it has neither its old nor its new state.

    The ``documents`` of the root state that the file is being changed; ``hidden`` keys, which readers would use
    instead, are deleted.
    """

    documents: Mapping[str, bytes]
    hidden: tuple[str, ...] = ()

    def put(self, store: Store) -> None:
        """Set the documents and delete the hidden keys."""
        for key, text in self.documents.items():
            store.set(key, text)
        store.delete(self.hidden)


# ---- records --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Record:
    """The state of some keys before the change ``id`` by ``holder``.

    ``old`` has their values, ``absent`` the keys that did not exist, ``below`` the paths of nodes that did not exist,
    and ``aside`` the numbers of the old values that are kept under `aside_key`, which is set after the record and
    before they change. The ``mark`` makes readers refuse the file for a part of the change.
    """

    id: str
    old: dict[str, bytes]
    absent: list[str]
    below: list[str]
    holder: Holder
    mark: Mark | None = None
    aside: dict[str, int] = field(default_factory=dict)

    def aside_keys(self) -> list[str]:
        """Return the keys of the old values that are kept outside of the record."""
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
        """Return the record of ``text``; MetadataError if it is damaged, or names keys that are not allowed."""
        line, _, values = text.partition(b"\n")
        try:
            head = _checked_head(parse_fast(line))
            old, start = {}, 0
            for key, length in _checked_numbers(head["old"]).items():
                old[key] = values[start : start + length]
                start += length
            if start != len(values) or zlib.crc32(values) != head["crc32"]:
                raise ValueError("it is cut off, or its values are damaged")
            return cls(
                head["id"],
                old,
                _checked_keys(head["absent"]),
                _checked_keys(head["below"]),
                _checked_holder(head["holder"]),
                _checked_mark(head.get("mark")),
                _checked_numbers(head.get("aside", {})),
            )
        except _DAMAGE as error:
            raise _damaged(error, location) from error


def _damaged(error: Exception, location: str) -> MetadataError:
    return MetadataError(
        f"the journal {JOURNAL!r} of an interrupted change cannot be understood ({error})",
        store=location,
        remedy="Export what can be read to a new file: it is as before the change, except values that were assigned to "
        "existing arrays.",
    )


def _checked_head(head: Any) -> Any:
    if head["version"] != VERSION:
        raise ValueError(f"it is of version {head['version']}, and this package reads {VERSION}")
    if not _ID.fullmatch(head["id"]):
        raise ValueError(f"{head['id']!r} is not the id of a change")
    return head


def _checked_keys(stored: Any) -> list[str]:
    """Refuse what is not a list of keys, and keys that are the root, lead out of it, or belong to the journal."""
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


def _checked_holder(stored: Any) -> Holder:
    host, pid, since = stored["host"], stored["pid"], stored["since"]
    if not isinstance(host, str) or type(pid) is not int or not isinstance(since, str):
        raise ValueError("it does not name its writer")
    return Holder(host, pid, since)


def _checked_mark(stored: Any) -> Mark | None:
    if stored is None:
        return None
    documents = {key: text.encode() for key, text in stored["documents"].items()}
    hidden = _checked_keys(stored["hidden"])
    if not {*documents, *hidden} <= set(ROOT_DOCUMENTS):
        raise ValueError("its mark names keys other than the documents of the root")
    return Mark(documents, tuple(hidden))


# ---- a change -------------------------------------------------------------------------------------------------------


class Journal:
    """The journal of the changes of one open file.

    A store that undoes changes itself has none: a session of Icechunk is a transaction.
    """

    def __init__(self, store: Store, zarr_format: int, lock: WriterLock | None = None) -> None:
        self._store = store
        self._lock = lock
        self._unwrapped: Store = store.unwrapped
        self._consolidated = zarr2.CONSOLIDATED if zarr_format == 2 else zarr3.DOCUMENT
        self._is_stuck = False
        self._forget()

    def _forget(self) -> None:
        self._id = uuid.uuid4().hex
        self._records = 0
        self._aside: list[str] = []
        self._kept: set[str] = set()
        self._below: set[str] = set()
        self._discarded: list[str] = []

    @property
    def location(self) -> str:
        """The location of the file."""
        return self._unwrapped.location

    @property
    def is_open(self) -> bool:
        """Whether changes may have been written that are not committed."""
        return self._records > 0

    @property
    def discarded(self) -> list[str]:
        """Keys that are deleted when the change is complete."""
        return self._discarded

    def keep(
        self,
        keys: Iterable[str],
        *,
        new: Iterable[str] = (),
        large: Iterable[str] = (),
        below: Iterable[str] = (),
        mark: Mark | None = None,
    ) -> None:
        """Record the state of keys before they change, in one put; large values are then copied, each to its key."""
        if self._is_stuck:
            raise StoreError(
                "an earlier change could not be undone yet",
                store=self._unwrapped.location,
                remedy="Close the file, and open it with mode 'r+' when the store takes values again.",
            )
        if not self._store.abilities.consolidates:
            return
        marked = () if mark is None else (*mark.documents, *mark.hidden)
        small = self._fresh([*keys, self._consolidated, *marked])
        absent, large = self._fresh(new), self._fresh(large)
        paths = [path for path in below if path not in self._below]
        if mark is None and not paths and not {*small, *absent, *large} - {self._consolidated}:
            return
        self._check_absent(paths)
        if not self.is_open:
            self._unwrapped.delete_unfinished([""])  # a first record whose writer died while it was written
        old = self._unwrapped.get_many(small)
        aside = {key: number for number, key in enumerate(self._present(large), len(self._aside))}
        present = old.keys() | aside.keys()
        absent += [key for key in (*small, *large) if key not in present]
        self._check_lock()
        self._add(Record(self._id, old, absent, paths, Holder.here(), mark, aside))

    def _check_lock(self) -> None:
        if self._lock is not None:
            self._lock.check()

    def _add(self, record: Record) -> None:
        """Write a record, and copy the large values that it names."""
        self._unwrapped.set(record_key(self._records), record.encode())
        self._records += 1
        self._aside += record.aside_keys()
        self._kept.update(record.old, record.absent, record.aside)
        self._below.update(record.below)
        for key, target in zip(record.aside, record.aside_keys(), strict=True):
            if not self._unwrapped.link_value(key, target):  # a link stays valid: a key is set by replacing its value
                _copy_value(self._unwrapped, key, target)

    def _fresh(self, keys: Iterable[str]) -> list[str]:
        """Return those of ``keys`` whose state is not recorded yet, each once."""
        return [key for key in dict.fromkeys(keys) if key not in self._kept and not self._is_below(key)]

    def _is_below(self, key: str) -> bool:
        while "/" in key:
            key = key.rpartition("/")[0]
            if key in self._below:
                return True
        return False

    def _present(self, keys: Sequence[str]) -> list[str]:
        """Return those of ``keys`` that exist."""
        found = self._of_each(lambda key: self._unwrapped.get_range(key, 0, 1) is not None, keys)
        return [key for key, exists in zip(keys, found, strict=True) if exists]

    def _check_absent(self, paths: Sequence[str]) -> None:
        """Refuse to create nodes whose keys exist already, since undoing that would delete them."""
        found = self._of_each(lambda path: next(self._unwrapped.list_prefix(path), None) is not None, paths)
        for path, exists in zip(paths, found, strict=True):
            if exists:
                raise ConflictError(
                    "the store has keys below a new node, although the metadata have no such node",
                    store=self._unwrapped.location,
                    path=absolute(path),
                    remedy="Run `zarrio verify`; `zarrio consolidate` adds existing nodes to the metadata.",
                )

    def _of_each(self, function: Callable[[str], bool], names: Sequence[str]) -> Iterable[bool]:
        """Return the result of a function that calls the store, for each name; at once for a remote store."""
        return at_once(function, names) if self._unwrapped.abilities.is_remote else map(function, names)

    def discard(self, keys: Iterable[str]) -> None:
        """Delete ``keys`` when the change is complete, since readers may need them until then."""
        self._discarded.extend(keys)

    def commit(self, documents: Mapping[str, bytes], gone: Sequence[str] = ()) -> None:
        """Set the documents that complete the change, in order, delete the keys ``gone``, and end the journal.

        If that fails, the caller must undo the change.
        """
        if self.is_open or len(documents) + len(gone) + bool(self._discarded) > 1:
            self.keep([*documents, *gone])
        self._store.drain()
        self._check_lock()
        discarded, records, aside = self._discarded, self._records, self._aside
        if not records:  # a single put is atomic
            self._discarded = []
            _set_and_delete(self._store, documents, [*gone, *discarded])
            self._store.drain()
            return
        final = {key: _digest(text) for key, text in documents.items()} | dict.fromkeys(gone)
        self._unwrapped.set(
            LAST_RECORD, dump({"version": VERSION, "id": self._id, "final": final, "delete": discarded})
        )
        _set_and_delete(self._unwrapped, documents, gone)
        self._forget()  # the change is committed, even if what follows fails
        try:
            self._unwrapped.delete(discarded)
            _remove(self._unwrapped, records, aside)
        except _FAILURES as error:
            _warn(f"{self._unwrapped.location}: the change is written, but its journal could not be removed ({error})")

    def undo(self, error: BaseException) -> None:
        """Restore everything that changed since the last commit; a failure is added to ``error`` as a note."""
        self._store.abandon()
        if self.is_open and not self._is_stuck:
            try:
                self._check_lock()
                self._unwrapped.delete([LAST_RECORD])
                recover(self._unwrapped)
            except _FAILURES as failed:
                self._is_stuck = True
                error.add_note(
                    f"What was written could not be undone ({failed}). It is undone when {self._unwrapped.location} is "
                    "opened with mode 'r+' or 'a', or by `zarrio repair`; until then readers see the file as it was, "
                    "except values that were assigned to existing arrays."
                )
        self._forget()


@contextmanager
def changing(
    store: Store, *, break_lock: bool = False, report: Callable[[str], None] | None = None
) -> Iterator[WriterLock]:
    """Open an existing file for a change: take its lock, and finish or undo what a dead writer has left.

    What changes a file in place begins here, or with the same two steps in `ZarrIO`, and ends with a `Journal`.
    """
    with writer_lock(store, break_lock=break_lock) as lock:
        if report is None:
            recover_with_warning(store)
        elif (done := recover(store)) is not None:
            report(done)
        delete_leftovers(store)
        yield lock


@contextmanager
def undone_on_error(journal: Journal) -> Iterator[Journal]:
    """Undo what the block has changed since the last commit if it raises; not in a fork, whose parent continues."""
    own = Staged(journal.location)
    try:
        yield journal
    except BaseException as error:
        if own.is_own:
            journal.undo(error)
        raise


def _set_and_delete(store: Store, documents: Mapping[str, bytes], gone: Sequence[str]) -> None:
    for key, text in documents.items():
        store.set(key, text)
    if gone:
        store.delete(gone)


def _digest(value: bytes) -> str:
    return hashlib.sha256(value).hexdigest()


def _warn(message: str) -> None:
    warn(message, JournalWarning, stacklevel=4)


def _copy_value(store: Store, source: str, target: str) -> None:
    """Copy the value of a key, if it exists, to another key; piece by piece if the store can stream."""
    pieces = _pieces(store, source)
    first = next(pieces, None)
    if first is None:
        return
    if not store.streams_values:
        store.set(target, first)
        return
    with store.stream(target) as write:
        for piece in itertools.chain([first], pieces):
            write(piece)


def _pieces(store: Store, key: str) -> Iterator[bytes]:
    """Yield the value of a key, if it exists, in pieces; as one if the store cannot stream."""
    if not store.streams_values:
        value = store.get(key)
        if value is not None:
            yield value
        return
    start, piece = 0, store.get_range(key, 0, _PIECE_BYTES + 1)
    while piece is not None:
        yield piece[:_PIECE_BYTES]
        start += _PIECE_BYTES
        is_last = len(piece) <= _PIECE_BYTES  # a range that begins at the end of a value is an error in some stores
        piece = None if is_last else store.get_range(key, start, start + _PIECE_BYTES + 1)


def _remove(store: Store, records: int, aside: Sequence[str]) -> None:
    """Delete a journal whose change is complete, or undone.

    The first record is deleted after the others, since the next writer looks for it. The last record is deleted at the
    end, because without it the change would be undone.
    """
    others = [*aside, *map(record_key, range(records - 1, 0, -1))]
    if others:
        store.delete(others)
    store.delete([JOURNAL])
    store.delete([LAST_RECORD])


# ---- recovery -------------------------------------------------------------------------------------------------------


def pending(store: Store) -> Record | None:
    """Return the first record of the journal of a file, None without a journal; MetadataError if it is damaged."""
    if not store.abilities.consolidates:
        return None
    text = store.unwrapped.get(JOURNAL)
    return None if text is None else Record.decode(text, store.location)


def recover(store: Store) -> str | None:
    """Undo an interrupted change, or finish it if it was complete; return a report, None without a journal.

    The caller must hold the lock of the file.
    """
    first = pending(store)
    if first is None:
        return None
    unwrapped: Store = store.unwrapped
    records, aside, folders = 0, list[str](), {""}
    for record in _records(unwrapped, first.id):
        records += 1
        aside += record.aside_keys()
        folders |= {key.rpartition("/")[0] for key in (*record.old, *record.absent, *record.aside)}
    last, steps = _last_record(unwrapped, first.id), _Steps(unwrapped.location)
    if last is not None and _is_complete(unwrapped, last["final"]):
        gone = [key for key, wanted in last["final"].items() if wanted is None]
        steps.delete(unwrapped, [*gone, *last["delete"]])
        done = "was complete, and its journal was removed"
    else:
        unwrapped.delete([LAST_RECORD])  # a half restored state must not look complete
        _restore(unwrapped, first.id, steps)
        done = "was interrupted and has been undone"
    steps.check()
    unwrapped.delete_unfinished(folders)
    _remove(unwrapped, records, aside)
    return f"a change of this file by {first.holder} {done}"


def recover_with_warning(store: Store) -> None:
    """Undo or finish an interrupted change, with a warning."""
    done = recover(store)
    if done is not None:
        _warn(f"{store.location}: {done}")


def warn_of_pending(store: Store, *, only_dead: bool = False) -> None:
    """Warn if a change of a file that is read is not complete: values assigned to its arrays may be old or new."""
    if store.folder is not None and not os.path.lexists(os.path.join(store.folder, JOURNAL)):
        return  # the usual case, without reading a key
    try:
        left = pending(store)
        last = None if left is None else _last_record(store.unwrapped, left.id)
        if last is not None and _is_complete(store.unwrapped, last["final"]):
            return  # only the journal is left
    except StoreRefusedError:  # a bucket without list permission refuses keys that do not exist
        return
    except MetadataError as error:
        _warn(f"{store.location}: {error.problem}; values that were assigned to existing arrays may be new")
        return
    if left is None or (only_dead and not left.holder.is_gone()):
        return
    state, advice = "is under way or was interrupted", "If that process has ended, run `zarrio repair` first."
    if left.holder.is_gone():
        state, advice = "was interrupted", "Run `zarrio repair` first."
    _warn(
        f"{store.location}: a change by {left.holder} {state}. The file is read as it was before, except values that "
        f"were assigned to existing arrays: they may be new. {advice}"
    )


def delete_leftovers(store: Store) -> None:
    """Delete records without a first one, left by a writer that died while it deleted its journal.

    They have no effect, and a change in `ZarrIO`, which does not look for them, would delete or replace them.
    """
    if not store.abilities.consolidates:
        return
    unwrapped, number = store.unwrapped, 1
    while unwrapped.get_range(record_key(number), 0, 1) is not None:
        number += 1
    unwrapped.delete([*map(record_key, range(1, number)), LAST_RECORD])


def _records(store: Store, change: str) -> Iterator[Record]:
    """Yield the records of a change one by one, since together they may be larger than memory."""
    number = 0
    while (text := store.get(record_key(number))) is not None:
        record = Record.decode(text, store.location)
        if record.id != change:
            return  # it belongs to an earlier change, whose journal was not removed completely
        store.check_inside([*record.old, *record.absent, *record.aside, *record.aside_keys()], record.below)
        yield record
        number += 1


def _last_record(store: Store, change: str) -> dict[str, Any] | None:
    """Return the record that was set right before the commit of a change, None if it does not exist."""
    text = store.get(LAST_RECORD)
    if text is None:
        return None
    try:
        found = _checked_head(parse_fast(text))
        if found["id"] != change:
            return None
        final, discarded = dict(found["final"]), _checked_keys(found["delete"])
        names = _checked_keys(list(final))
        if not all(wanted is None or isinstance(wanted, str) for wanted in final.values()):
            raise ValueError("it has something other than digests")
    except _DAMAGE as error:
        raise _damaged(error, store.location) from error
    store.check_inside([*names, *discarded], [])
    return {"final": final, "delete": discarded}


def _is_complete(store: Store, final: Mapping[str, str | None]) -> bool:
    """Tell whether all documents of a commit are set, after which readers see the change, and only deletions follow."""
    keys = [key for key, wanted in final.items() if wanted is not None] or list(final)
    found = store.get_many(keys)
    return all((_digest(found[key]) if key in found else None) == final[key] for key in keys)


class _Steps:
    """The keys that cannot be restored or deleted: each other one is."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._left: dict[str, str] = {}

    def each(self, function: Callable[[str], object], keys: Iterable[str]) -> None:
        """Call a function with each key, and note the keys for which it fails; not if nothing answers."""
        for key in keys:
            try:
                function(key)
            except StoreUnreachableError:
                raise
            except _FAILURES as error:
                self._left[key] = error.problem if isinstance(error, ZarrBackendError) else str(error)

    def all_or_each(self, function: Callable[[list[str]], object], keys: Iterable[str]) -> None:
        """Call a function with all keys at once; if it fails, with each alone."""
        wanted = list(keys)
        try:
            function(wanted)
        except StoreUnreachableError:
            raise
        except _FAILURES:
            self.each(lambda key: function([key]), wanted)

    def delete(self, store: Store, keys: Iterable[str]) -> None:
        """Delete those of ``keys`` that exist."""
        self.all_or_each(lambda some: _delete(store, some), keys)

    def check(self) -> None:
        """Raise an error that names the keys that are left."""
        if not self._left:
            return
        left = len(self._left)
        shown = ", ".join(map(repr, list(self._left)[:_SHOWN])) + (", ..." if left > _SHOWN else "")
        raise StoreError(
            f"an interrupted change is not undone or finished completely: {left:,} "
            f"{'keys are' if left > 1 else 'key is'} left: {shown} ({next(iter(self._left.values()))})",
            store=self._location,
            remedy="Everything else has been. Make these keys writable, and run `zarrio repair`.",
        )


def _delete(store: Store, keys: list[str]) -> None:
    """Delete those of ``keys`` that exist; not being allowed to delete others does not matter."""
    try:
        store.delete(keys)
    except StoreRefusedError:
        if any(store.get_range(key, 0, 1) is not None for key in keys):
            raise


def _delete_below(store: Store, path: str) -> None:
    try:
        store.delete_below(path)
    except StoreRefusedError:
        if next(store.list_prefix(path), None) is not None:
            raise


def _restore(store: Store, change: str, steps: _Steps) -> None:
    """Restore all keys; the documents of the root are restored last if the change has a mark, otherwise first.

    With a mark they are not restored while other keys are left, since they would show a half restored file.
    """
    marks: list[Mark] = []
    roots: dict[str, bytes] = {}
    for record in _records(store, change):
        roots |= {key: record.old[key] for key in ROOT_DOCUMENTS if key in record.old}
        marks += [record.mark] if record.mark is not None else []
    if not marks:
        _set_roots(store, roots)
    elif _differing(store, roots):  # the mark was set; what it hides may have changed
        for mark in marks:
            mark.put(store)
    for record in _records(store, change):
        _restore_keys(store, record, steps)
    if marks:
        steps.check()
    for record in _records(store, change):
        steps.delete(store, (key for key in record.absent if key in ROOT_DOCUMENTS))
    if marks:
        _set_roots(store, roots)


def _restore_keys(store: Store, record: Record, steps: _Steps) -> None:
    """Restore the keys of a record that have changed, except the documents of the root."""
    steps.each(lambda path: _delete_below(store, path), record.below)
    steps.delete(store, (key for key in record.absent if key not in ROOT_DOCUMENTS))
    old = [key for key in record.old if key not in ROOT_DOCUMENTS]
    steps.all_or_each(lambda keys: _set_differing(store, record.old, keys), old)
    copies = dict(zip(record.aside, record.aside_keys(), strict=True))
    steps.each(lambda key: _copy_back(store, copies[key], key), copies)


def _copy_back(store: Store, copy: str, key: str) -> None:
    """Restore a large value from its copy; without a copy, it did not change."""
    try:
        _copy_value(store, copy, key)
    except _FAILURES:
        if list(map(_digest, _pieces(store, copy))) != list(map(_digest, _pieces(store, key))):
            raise


def _differing(store: Store, old: Mapping[str, bytes], keys: Iterable[str] = ROOT_DOCUMENTS) -> dict[str, bytes]:
    """Return those of the old values of ``keys`` that the store has not, in the order of ``keys``."""
    wanted = [key for key in keys if key in old]
    stored = store.get_many(wanted)
    return {key: old[key] for key in wanted if stored.get(key) != old[key]}


def _set_differing(store: Store, old: Mapping[str, bytes], keys: Iterable[str]) -> None:
    store.set_many(_differing(store, old, keys))


def _set_roots(store: Store, roots: Mapping[str, bytes]) -> None:
    for key, text in _differing(store, roots).items():  # one after the other, in their order
        store.set(key, text)
