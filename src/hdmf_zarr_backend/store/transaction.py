"""`Writer` and `Change`: the one way in which a store is changed.

A `Writer` has the lock of a file, from when it is opened until it is closed, and makes one `Change` after the other.
What a change puts is visible when it is committed; if it is not, or its process dies, the file is as it was. The
classes of changes differ in how that is done.

Keys and documents are given by the caller: nothing here knows a format of Zarr.
"""

from __future__ import annotations

import os
import threading
import uuid
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import compress
from typing import Any, Self

from hdmf_zarr_backend.errors import ConflictError, MetadataError, ResourceError, StoreError, WorkerLostError
from hdmf_zarr_backend.model.json_text import dump
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.store import files, journal
from hdmf_zarr_backend.store.base import DOCUMENTS, JOURNAL, Store, Write, os_errors
from hdmf_zarr_backend.store.journal import Root
from hdmf_zarr_backend.store.local import PARTIAL, LocalStore, check_sync
from hdmf_zarr_backend.store.lock import Holder, WriterLock, writer_lock
from hdmf_zarr_backend.store.memory import InlinedStore, QueuedStore
from hdmf_zarr_backend.store.remote import REQUESTS

BATCH_BYTES = 8 * 2**20  # values that replace others wait up to this size, so that one record has all their old values


class Writer:
    """The one writer of a file, which holds its lock until `release`.

    A fork of its process is not the writer: it changes, undoes and commits nothing. One that is ``durable`` waits for
    the disk where the order of what it puts matters.
    """

    def __init__(
        self, store: Store, *, break_lock: bool = False, replaces: bool = False, durable: bool = False
    ) -> None:
        self.store: Store = store.unwrapped
        # before the lock: a change that cannot wait for the disk could be neither finished nor undone
        if durable and is_staged(self.store):
            check_sync()
        self.lock: WriterLock = writer_lock(store, break_lock=break_lock, replaces=replaces)
        self.store.is_durable = durable
        self.is_unfinished = False  # a change has to be undone or finished before the next one
        self.is_outdated = False  # a change is in the store, and the caller does not know that yet
        self.is_torn = False  # a part of a change that failed stays in the session
        self.last: journal.LastRecord | None = None  # of the change that is being committed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def release(self) -> None:
        """Give the lock back."""
        self.lock.release()

    def discard(self, *paths: str) -> None:
        """Delete unfinished local files and folders, ignoring errors; not in a fork."""
        for path in paths if self.lock.is_held else ():
            with suppress(OSError):
                files.discard(path)

    def change(self, *, root: Sequence[str] = ()) -> Change:
        """Return a new change in place. ``root`` names the documents that its commit is going to set.

        It is refused if an earlier change can still be neither undone nor finished, or is in the file although it
        raised an error, so that the caller takes the file for the old one.
        """
        if not self.store.abilities.consolidates:
            return SessionChange(self)
        if self.is_unfinished:
            try:
                self.recover()
            except journal.FAILURES as error:
                remedy = "Close the file, and open it with mode 'r+' when the store takes values again."
                raise self._refusal(f"an earlier change could not be undone yet ({error})", remedy) from error
        if self.is_outdated:
            problem = "an earlier change of this file ended with an error, but is in the file"
            raise self._refusal(problem, "Close the file, and open it again to see what is in it.")
        return JournalledChange(self, root)

    def new_file(self, mark: Root, *, exclusive: bool = False, resume: files.Resumption | None = None) -> Change:
        """Return the change that makes a new file, in the place of the one that may be there unless ``exclusive``.

        With the ``mark``, the documents of the root say that the file is being written, and those are gone that readers
        would use instead. With ``resume``, another run can continue it.
        """
        self.lock.check()
        if resume is not None and self.store.folder is not None:
            return ResumableChange(self, resume, exclusive=exclusive)
        if is_staged(self.store):
            return StagedChange(self, exclusive=exclusive)
        is_continued = resume is not None and resume.continues(self.store)
        if exclusive and not is_continued and self.store.exists():
            raise files.not_replaced("a file was created there since, and is not replaced", self.store.location)
        if not self.store.abilities.consolidates:
            return SessionChange(self, replaces=True)
        return MarkedChange(self, mark, resume, is_continued=is_continued)

    def commit_session(self, message: str) -> None:
        """Make the changes visible that are in the session of a store with transactions of its own."""
        self.check_session()
        self.store._end_session(message)

    def check_session(self) -> None:
        """Refuse a session that has a part of a change that failed: nothing can take it out again."""
        if self.is_torn:
            problem = "a change failed in a session that had others before, and a part of it is in the session"
            raise self._refusal(problem, "Discard the changes of the session, and open the file again.")

    def _refusal(self, problem: str, remedy: str) -> StoreError:
        return StoreError(problem, store=self.store.location, remedy=remedy)

    def clean_up(self, report: Callable[[str], object] | None = None) -> None:
        """Undo or finish what a dead writer has left, and report that, by default as a JournalWarning."""
        done = journal.recover(self.store)
        if done is not None:
            report(done) if report is not None else journal.warn_of_journal(self.store, done)

    def recover(self) -> None:
        """Undo the change that failed, or finish it if its commit is in the store."""
        self.is_unfinished = True
        self.lock.check()
        self.is_outdated |= self.last is not None and self.last.is_carried_out(self.store)
        journal.recover(self.store)
        self.is_unfinished = False


@contextmanager
def open_for_writing(
    store: Store, *, break_lock: bool = False, report: Callable[[str], object] | None = None
) -> Iterator[Writer]:
    """Yield the writer of an existing file, after undoing or finishing what a dead writer has left, with a report."""
    with Writer(store, break_lock=break_lock) as writer:
        if writer.lock.broken and report is not None:
            report(f"took over the lock of {writer.lock.broken}")
        writer.clean_up(report)
        # a writer that dies while it deletes its journal leaves the last record, and perhaps values put aside
        if writer.store.abilities.consolidates:
            writer.store._delete([journal.LAST_RECORD])
            journal.delete_leftovers(writer.store)
        yield writer


def is_staged(store: Store) -> bool:
    """Return whether an existing file stays until a new one is complete; otherwise it is deleted first."""
    return (store.folder or store.zip_file) is not None


@contextmanager
def new_local_file(target: LocalStore, *, exclusive: bool, durable: bool) -> Iterator[str]:
    """Yield a path beside a local file; the file written there replaces it when the block ends without an error."""
    with Writer(target, replaces=True, durable=durable) as writer:
        partial = files.partial_path(target.root)
        try:
            with os_errors(target.location, "written"):
                yield partial
            writer.lock.check()
            with os_errors(target.root, "written"):
                files.move_into_place(partial, target.root, exclusive=exclusive, durable=durable)
        except BaseException:
            writer.discard(partial)
            raise


def put_file(folder: Store, name: str, value: bytes) -> None:
    """Put a remote file that is one value, such as a file of references; one put is a transaction."""
    folder._set(name, value)


class Change:
    """What becomes visible with one commit. A block that ends without `commit` undoes it.

    ``reader`` has what is stored, and what was put. In another process a change is `Puts`.
    """

    def __init__(self, store: Store, writer: Writer | None = None) -> None:
        self.reader: Store = store
        self._store = store
        self._lock = None if writer is None else writer.lock
        self._deleted: list[str] = []  # after the commit
        self._has_put = False
        self._is_over = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Puts, (self._store.unwrapped,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.abort(error)

    @property
    def location(self) -> str:
        """The location of the file."""
        return self.reader.location

    @property
    def is_open(self) -> bool:
        """Whether something may have been put that is neither committed nor undone."""
        return not self._is_over and self._has_put

    def create(self, *paths: str) -> None:
        """Announce nodes that do not exist: all keys below them are new; ConflictError if such keys exist."""

    def is_created(self, path: str) -> bool:
        """Return whether a path is that of a node that was announced, or below it."""
        return True

    def describe(self, documents: Mapping[str, bytes]) -> None:
        """Set documents of nodes: at the commit, after all chunks; at once if nobody else sees the change."""
        for key, text in documents.items():
            self.put(key, text)

    def put(self, key: str, value: bytes, *, is_new: bool = False) -> None:
        """Set a chunk, now or later; with ``is_new`` the key does not exist. Safe for threads."""
        self._has_put = True
        self._store._set(key, value)

    def copy(self, keys: Mapping[str, str]) -> None:
        """Give the values of some keys to others, below nodes that were announced; by links if the store has them."""
        store = self._store.unwrapped
        journal.of_each(store, lambda key: store._copy_value(key, keys[key]), [*keys])
        self._has_put |= bool(keys)

    def expect(self, keys: Iterable[str], *, are_new: bool = False) -> None:
        """Announce keys that are going to be streamed, so that one record has them all."""

    def stream(self, key: str) -> AbstractContextManager[Write]:
        """Yield a function that appends to a new value of ``key``, which replaces the old one at the end."""
        self._has_put = True
        return self._store._stream(key)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete keys after the commit, since readers may need them until then."""
        self._deleted += keys

    def hide(self, mark: Root, documents: Mapping[str, bytes]) -> None:
        """Make readers, where there are any, refuse the file, or the format, of the ``mark`` until the commit.

        The ``documents`` are set then, before the chunks that they describe: a reader that has the file open learns
        from them why a chunk does not decode.
        """
        self.drain()
        self.describe(documents)
        self.drain()

    def kept(self, path: str, is_whole: Callable[[str, bytes], bool]) -> frozenset[str]:
        """Return the keys of the chunks of an array that a killed writer of the same new file has left.

        If the machine may have been restarted since, ``is_whole`` is asked about each key and value.
        """
        return frozenset()

    def drain(self) -> None:
        """Wait until everything that was put is in the store."""
        self._store.drain()

    def end_task(self) -> None:
        """Wait for the puts of a task, in a process that received it; elsewhere the commit waits for all."""

    def commit(self, documents: Mapping[str, bytes], root: Root) -> bool:
        """Set documents of nodes, then those of the ``root``, the first of which makes everything visible.

        The others follow, also if this process dies. Returns whether the file differs.
        """
        self.describe(documents)
        self.drain()
        self._complete(root)
        self._is_over = True
        return self._has_put or bool(root) or bool(self._deleted)

    def _complete(self, root: Root) -> None:
        """Set the documents of the root, that of the commit last."""
        journal.set_root(self._store, dict(reversed([*root.items()])))
        if self._deleted:
            self._store._delete(self._deleted)

    def abort(self, error: BaseException | None = None) -> None:
        """Undo everything, unless it is committed; a failure to do so is added to ``error`` as a note."""
        # a fork undoes nothing: its parent goes on writing
        if not self._is_over and (self._lock is None or self._lock.is_held):
            self._is_over = True
            self._undo(error)

    def _undo(self, error: BaseException | None) -> None:
        """Undo what `abort` has to undo."""


class DirectChange(Change):
    """A change of a store that nobody else sees, such as a file in memory: what is put is there, and is not undone."""


class Puts(DirectChange):
    """A change in another process, which received a task: it sets keys below nodes that were announced."""

    def __init__(self, store: Store) -> None:
        super().__init__(QueuedStore(store))

    def end_task(self) -> None:
        self.drain()


# ---- a change in place ----------------------------------------------------------------------------------------------


class _Records:
    """The records of a change, each of which is in the store before one of its keys is changed.

    What is announced is going to be changed, and is in no record yet.
    """

    def __init__(self, writer: Writer) -> None:
        self.id = uuid.uuid4().hex
        self.count = 0  # how many there are
        self.recorded: set[str] = set()  # keys whose old values, or absence, are in the records
        self.aside: list[str] = []  # the keys of values that are kept outside of the records
        self.nodes: list[str] = []  # announced, and do not exist
        self.streams: list[str] = []  # announced keys whose old values are too large for a record
        self.new: set[str] = set()  # announced keys that do not exist
        self.is_broken = False  # a record may not be in the store, so that what follows it could not be undone
        self._store, self._lock = writer.store, writer.lock

    def put(self, old: Root, root: Collection[str], mark: Root | None = None, *, is_part: bool = False) -> None:
        """Put a record of ``old`` values; if it is not a part, also of what is announced."""
        nodes, streams, new = ([], [], set[str]()) if is_part else (self.nodes, self.streams, self.new)
        store, first = self._store, len(self.aside)
        streams = [key for key in streams if key not in new]
        exist = journal.of_each(store, lambda key: store.get_range(key, 0, 1) is not None, streams)
        aside = {key: number for number, key in enumerate(compress(streams, exist), first)}
        values = {key: value for key, value in old.items() if value is not None}
        keys = dict.fromkeys((*old, *streams, *new))
        absent = [key for key in keys if key not in values and key not in aside]
        root = [key for key in root if key in old]
        hides = {key: journal.digest(text) for key, text in (mark or {}).items()}
        record = journal.Record(self.id, Holder.here(), values, absent, nodes, aside, root, hides, store.is_durable)
        self.is_broken = True
        if not self.count:
            # the recovery of the next writer reads on until it finds no record of this change: none may be left
            self._lock.check()
            journal.delete_leftovers(store)
        self.count += 1
        store._set(journal.record_key(self.count - 1), record.encode())
        # after the record, which names them: nobody would delete what a dead writer has put aside before it
        self.aside += record.aside_keys()
        journal.of_each(store, lambda key: store._copy_value(key, journal.aside_key(self.id, aside[key])), [*aside])
        store.sync()
        self.recorded.update(keys)
        if not is_part:
            self.nodes, self.streams, self.new = [], [], set()
        self.is_broken = False


def _stored(store: Store, keys: Sequence[str]) -> Iterator[tuple[str, bytes | None]]:
    """Yield keys with what the store has of them, a few of which are in memory at a time."""
    for start in range(0, len(keys), REQUESTS):
        values = store.get_many(keys[start : start + REQUESTS])
        yield from ((key, values.get(key)) for key in keys[start : start + REQUESTS])


class JournalledChange(Change):
    """A change in place, whose old values are in a journal until it is complete (`store.journal`)."""

    def __init__(self, writer: Writer, root: Sequence[str]) -> None:
        super().__init__(writer.store, writer)
        self._writer = writer
        self._queue = QueuedStore(self._store)
        self._mutex = threading.RLock()
        self._records = _Records(writer)
        self._created: set[str] = set()
        self._waiting: dict[str, bytes] = {}
        self._bytes = 0  # of what waits
        self._documents: dict[str, bytes] = {}
        self._root = tuple(root)
        self._stored_root: dict[str, bytes | None] = {}
        self._is_hidden = False
        self.reader: Store = InlinedStore(self._queue, self._waiting)

    def __reduce__(self) -> tuple[Any, ...]:
        # other processes record nothing, so the announcements of their nodes are recorded first
        with self._mutex:
            self._record()
        return Puts, (self._store,)

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        super().__exit__(kind, error, trace)
        # after an error the caller takes the file for the old one: repeating the change would record keys as new that
        # the commit has set, and undoing that would delete them
        if error is None:
            self._writer.is_outdated = False

    @property
    def is_open(self) -> bool:
        return not self._is_over and self._records.count > 0

    # ---- what is going to change ------------------------------------------------------------------------------------

    def create(self, *paths: str) -> None:
        store, fresh = self._store, [path for path in paths if not self.is_created(path)]
        are_there = journal.of_each(store, lambda path: next(store.list_prefix(path), None) is not None, fresh)
        for path in compress(fresh, are_there):  # undoing the change would delete these keys
            problem = "the store has keys below a new node, although the metadata have no such node"
            remedy = "Run `zarrio verify`; `zarrio consolidate` adds existing nodes to the metadata."
            raise ConflictError(problem, store=store.location, path=absolute(path), remedy=remedy)
        with self._mutex:
            self._created.update(fresh)
            self._records.nodes += fresh

    def is_created(self, path: str) -> bool:
        while path and path not in self._created:
            path = path.rpartition("/")[0]
        return bool(path)

    def describe(self, documents: Mapping[str, bytes]) -> None:
        with self._mutex:
            self._documents.update(documents)

    def put(self, key: str, value: bytes, *, is_new: bool = False) -> None:
        with self._mutex:
            if not self._may_be_set(key):
                self._bytes += len(value) - len(self._waiting.get(key, b""))
                self._waiting[key] = value
                self._records.new.update([key] if is_new else ())
                if self._bytes >= BATCH_BYTES:
                    self._record()
                return
        self._queue._set(key, value)

    def _may_be_set(self, key: str) -> bool:
        """Return whether a key may be set now; the announcement of a new node is recorded before a key below it."""
        self._check_usable()
        if self.is_created(key):
            if self._records.nodes:
                self._record()
            return True
        return key in self._records.recorded

    def copy(self, keys: Mapping[str, str]) -> None:
        with self._mutex:
            if not all(map(self._may_be_set, keys.values())):
                raise ValueError("keys are copied below new nodes only")
        super().copy(keys)

    def expect(self, keys: Iterable[str], *, are_new: bool = False) -> None:
        with self._mutex:
            records = self._records
            fresh = [key for key in keys if not self._may_be_set(key) and key not in records.streams]
            records.streams += fresh
            records.new.update(fresh if are_new else ())

    def stream(self, key: str) -> AbstractContextManager[Write]:
        with self._mutex:
            if not self._may_be_set(key):
                self.expect([key])
                self._record()
        stream: AbstractContextManager[Write] = self._queue._stream(key)
        return stream

    def hide(self, mark: Root, documents: Mapping[str, bytes]) -> None:
        with self._mutex:
            differing = self._record(documents, mark=mark)
            self._queue.drain()
            # like a commit: a writer whose lock is broken could hide the file of the next one
            self._writer.lock.check()
            self._is_hidden = True
            # readers must refuse the file before the documents are deleted that they would use instead
            for is_deleted in (False, True):
                journal.set_root(self._store, {key: text for key, text in mark.items() if (text is None) == is_deleted})
                self._store.sync()
            self._stored_root |= mark
            journal.set_root(self._queue, differing)
            self._queue.drain()

    def drain(self) -> None:
        with self._mutex:
            self._record()
        self._queue.drain()

    # ---- recording --------------------------------------------------------------------------------------------------

    def _record(self, documents: Root | None = None, *, mark: Root | None = None, root: Root | None = None) -> Root:
        """Record in one put what is going to be replaced, and put what waits for it; return ``documents`` that differ.

        The documents are set by the caller, as is the ``root``, with which the record is the last one.
        """
        self._check_usable()
        differing, records, is_last = dict(documents or {}), self._records, root is not None
        root_keys = [key for key in dict.fromkeys((*self._root, *(mark or ()))) if key not in records.recorded]
        others = (key for key in dict.fromkeys((*self._waiting, *differing)) if key not in records.new)
        replaced = [key for key in others if key not in records.recorded and not self.is_created(key)]
        # a record has these too, so that one is needed even if no old value is replaced
        has_more = any((records.nodes, records.streams, records.new, mark, is_last and self._deleted))
        if not (replaced or is_last or has_more):
            return differing
        old: dict[str, bytes | None] = {}
        size = 0
        for key, value in _stored(self._store, [*root_keys, *replaced]):
            if key in root_keys:
                self._stored_root[key] = value
            elif value == differing.get(key, self._waiting.get(key)):
                self._waiting.pop(key, None)
                differing.pop(key, None)
                continue
            # by the size of the old values: 200 KiB in memory may replace 200 MiB
            elif size + len(value or b"") > BATCH_BYTES and size:
                records.put(old, root_keys, is_part=True)
                self._put_waiting([key for key in old if key in self._waiting])
                old, size = {}, 0
            old[key] = value
            size += 0 if key in root_keys else len(value or b"")
        root_differs = any(self._stored_root.get(key) != text for key, text in (root or {}).items())
        if old.keys() - {*root_keys} or has_more or (root_differs and old):
            records.put(old, root_keys, mark)
        self._put_waiting(list(self._waiting))
        self._bytes = 0
        return differing

    def _put_waiting(self, keys: Iterable[str]) -> None:
        for key in keys:
            # in this order, so that a reader in another thread finds the value in one of the two
            self._queue._set(key, self._waiting[key])
            del self._waiting[key]

    def _check_usable(self) -> None:
        """Refuse to go on in a fork, or after a record that may not be in the store: that could not be undone."""
        if not self._writer.lock.is_held:
            self._writer.lock.check()
        if self._records.is_broken or self._is_over:
            problem = "this change has ended, or a part of it could not be recorded, so that it cannot be continued"
            remedy = "Repeat the change when the store takes values again."
            raise StoreError(problem, store=self._store.location, remedy=remedy)

    # ---- the end ----------------------------------------------------------------------------------------------------

    def commit(self, documents: Mapping[str, bytes], root: Root) -> bool:
        with self._mutex:
            self.describe(documents)
            self._root, records = tuple(root), self._records
            parts = (self._waiting, records.nodes, records.streams, self._documents, root, self._deleted)
            # a power cut may leave a part of a key, unless it is one of the root
            is_whole = bool(root) or not self._store.is_durable
            if not records.count and sum(map(len, parts)) <= 1 and is_whole:
                # one key is set or deleted, which needs no journal
                store, writer = self._store, self._writer
                only: Root = {**self._waiting, **self._documents, **root, **dict.fromkeys(self._deleted)}
                if not root and store.get_many([*self._documents]) == only:  # also if there is nothing to set
                    self._is_over = True
                    return False
                writer.lock.check()
                try:
                    self._set_commit(only, lambda: all(store.get(key) == value for key, value in only.items()))
                except BaseException as error:
                    # after Ctrl-C, the key may be set
                    writer.is_outdated = not isinstance(error, journal.FAILURES)
                    raise
                self._is_over = writer.is_outdated = True
                store.sync()
                return True
            documents = {key: text for key, text in self._documents.items() if key not in root}
            differing = self._record(documents, root=root)
            if records.count:
                self._queue.drain()
                journal.set_root(self._queue, differing)
                self._queue.drain()
                self._commit(root)
            self._is_over = True
        return records.count > 0

    def _commit(self, root: Root) -> None:
        """Put the last record and the commit, and do what follows."""
        store, writer, records = self._store, self._writer, self._records
        rest = {key: text for key, text in root.items() if self._stored_root.get(key) != text}
        commit = {key: rest.pop(key) for key in [*root][:1] if key in rest}
        final = {key: journal.digest(text) for key, text in commit.items()}
        writer.last = last = journal.LastRecord(records.id, final, rest, self._deleted)
        writer.is_unfinished = True
        if commit:
            self._set_commit({journal.LAST_RECORD: last.encode()}, lambda: last.is_carried_out(store))
        store.sync()
        writer.lock.check()
        self._set_commit(commit or {journal.LAST_RECORD: last.encode()}, lambda: last.is_carried_out(store))
        store.sync()
        # from here on readers see the change, even if what follows fails
        self._is_over = writer.is_outdated = True
        try:
            journal.set_root(store, rest)
            if rest:
                store.sync()
            if self._deleted:
                store._delete(self._deleted)
                store.sync()
            journal.remove_journal(store, records.count, records.aside)
            writer.is_unfinished = False
        except journal.FAILURES as error:
            journal.warn_of_journal(store, f"the change is written, but its journal could not be removed ({error})")
        writer.last = None

    def _set_commit(self, root: Root, is_committed: Callable[[], bool]) -> None:
        """Set a key of the commit; after an error, which may be a lost answer, ask the store whether that was done."""
        try:
            journal.set_root(self._store, root)
        except journal.FAILURES:
            if not is_committed():
                raise

    def _undo(self, error: BaseException | None) -> None:
        self._queue.abandon()
        self._waiting.clear()
        if not self._records.count:
            return
        try:
            self._writer.recover()
        except journal.FAILURES as failed:
            if error is None:
                raise
            old = "the file as it was, except values that were assigned to existing arrays"
            see = "an IncompleteStoreError" if self._is_hidden else old
            when = f"when {self._store.location} is opened with mode 'r+' or 'a', or by `zarrio repair`"
            note = f"What was written could not be undone ({failed}). It is undone {when};"
            error.add_note(f"{note} until then readers see {see}.")


# ---- what nobody sees before the commit ------------------------------------------------------------------------------


class SessionChange(Change):
    """A change, or a new file, in a store whose sessions are transactions (Icechunk)."""

    def __init__(self, writer: Writer, *, replaces: bool = False) -> None:
        writer.check_session()
        super().__init__(QueuedStore(writer.store), writer)
        self._writer = writer
        self._was_clean = not writer.store.has_changes()
        self._replaces = replaces

    def __enter__(self) -> Self:
        # here, and not where the change is made: an error after this discards it
        if self._replaces:
            self._has_put = True
            try:
                self._store._delete_below("")
            except BaseException as error:
                self.abort(error)
                raise
        return self

    def _complete(self, root: Root) -> None:
        self._writer.lock.check()
        self._has_put = True
        super()._complete(root)
        self.drain()

    def _undo(self, error: BaseException | None) -> None:
        self._store.abandon()
        if self._was_clean:
            self._writer.store._end_session(None)
        elif self._has_put:
            self._writer.is_torn = True
            if error is not None:
                what = "The session had changes before, which are kept, so a part of this one is in it too."
                error.add_note(f"{what} Discard the changes of the session, and open the file again.")


class StagedChange(Change):
    """A new local folder or zip file, which is made beside its target and renamed."""

    def __init__(self, writer: Writer, *, exclusive: bool, new: files.NewFolder | None = None) -> None:
        self._writer = writer
        self._exclusive = exclusive
        self._target = writer.store.folder or writer.store.zip_file or ""
        self._partial = files.partial_path(self._target) if new is None else new.root
        self._close: Callable[[], object] = lambda: None  # of a zip file
        store: Store | None = new
        with os_errors(self._target, "written"):
            if store is None and writer.store.folder:
                os.makedirs(self._partial)
                store = files.NewFolder(self._partial, location=writer.store.location)
            elif store is None:
                from hdmf_zarr_backend.store.zip import NewZipStore  # on use: readers do not need zipfile

                os.makedirs(os.path.dirname(self._target), exist_ok=True)
                store = NewZipStore(self._partial, writer.store.location)
                self._close = store.close
        super().__init__(store, writer)

    def _finish(self) -> None:
        """Do what is left when all is in the new file, right before the rename."""
        self._close()

    def _complete(self, root: Root) -> None:
        super()._complete(root)
        self._writer.lock.check()
        is_durable = self._writer.store.is_durable
        with os_errors(self._target, "written"):
            self._finish()
            files.move_into_place(self._partial, self._target, exclusive=self._exclusive, durable=is_durable)
        # the new file is complete, whatever is left beside it; interrupted conversions are obsolete now
        with suppress(OSError):
            for path in files.conversions(self._target):
                self._writer.discard(path, path + files.BESIDE)

    def _undo(self, error: BaseException | None) -> None:
        with suppress(OSError, ValueError):
            self._close()
        self._writer.discard(self._partial)


class ResumableChange(StagedChange):
    """A new local folder that another run can continue, because its chunks are renamed into place one by one.

    The folder is kept if the process dies, is interrupted or stopped (KeyboardInterrupt, SystemExit) or loses its
    workers; if this run was asked to continue one, also after an error of the store or the system. After other errors,
    which would come again, it is removed.
    """

    def __init__(self, writer: Writer, resumption: files.Resumption, *, exclusive: bool) -> None:
        self._resumption = resumption
        target = writer.store.folder or ""
        with os_errors(target, "written"):
            self._new = resumption.begin(target, writer.store.location, writer.discard)
        super().__init__(writer, exclusive=exclusive, new=self._new)

    def _finish(self) -> None:
        # not deleted: without it, a run that ends before the rename would be started again by the next one
        with suppress(FileNotFoundError):  # an earlier run has moved it
            os.replace(os.path.join(self._partial, files.RECORD), self._partial + files.BESIDE)

    def kept(self, path: str, is_whole: Callable[[str, bytes], bool]) -> frozenset[str]:
        return self._new.kept(path, is_whole)

    def _complete(self, root: Root) -> None:
        self._writer.lock.check()
        if self._new.is_resumed:
            # chunks that a dead writer has not written to their end
            self._new._delete([key for key in self._new.sizes("") if key.endswith(PARTIAL)])
        super()._complete(root)

    def _undo(self, error: BaseException | None) -> None:
        is_kept = isinstance(error, (StoreError, ResourceError, OSError)) and self._resumption.is_asked
        if not _advises_to_resume(error, self) and not is_kept:
            super()._undo(error)
            self._writer.discard(self._partial + files.BESIDE)


def _advises_to_resume(error: BaseException | None, change: Change) -> bool:
    """Add how to continue to an error that ends a conversion from outside; False for other errors."""
    if isinstance(error, WorkerLostError):
        error.locate(change)
        error.remedy = "The finished part is kept; pass resume=True to continue."
        error.remedy_cli = "The finished part is kept; `zarrio convert --resume` continues."
    elif isinstance(error, (KeyboardInterrupt, SystemExit)):
        error.add_note(f"The finished part of {change.location!r} is kept; continue with resume=True (--resume).")
    else:
        return False
    return True


class MarkedChange(Change):
    """A new file in a store without a rename. With a ``resumption``, its record is there until the file is complete.

    Its root says that it is being written, until the document is put that readers trust before they look there. So
    however the writer ends, the file is complete or visibly incomplete.
    """

    def __init__(self, writer: Writer, mark: Root, resumption: files.Resumption | None, *, is_continued: bool) -> None:
        store = writer.store
        super().__init__(QueuedStore(store), writer)
        self._writer = writer
        old = list(store.list_prefix(""))
        # without the consolidated document, readers would see the half of an interrupted change
        if JOURNAL in old:
            with suppress(MetadataError, ConflictError):  # it cannot be undone, and is deleted with the file
                journal.recover(store)
            old = list(store.list_prefix(""))
        self._marked = {key for key, text in mark.items() if text is not None}
        journal.set_root(store, {key: text for key, text in mark.items() if text is not None or key in old})
        self._kept = sorted(old) if is_continued else []
        if not is_continued:
            store._delete(key for key in old if key not in mark)
        # after the chunks of another file are gone, so that all that are there beside a record are of this conversion
        if resumption is not None:
            self._marked.add(files.RECORD)
            journal.set_root(store, {files.RECORD: dump(resumption.record)})

    def kept(self, path: str, is_whole: Callable[[str, bytes], bool]) -> frozenset[str]:
        # a bucket has complete values only
        first, end = (bisect_left(self._kept, f"{path}{after}") for after in "/0")  # "0" follows "/"
        return frozenset(key for key in self._kept[first:end] if not key.endswith(tuple(DOCUMENTS)))

    def describe(self, documents: Mapping[str, bytes]) -> None:
        self._marked -= documents.keys()
        super().describe(documents)

    def _complete(self, root: Root) -> None:
        self._writer.lock.check()
        left = dict.fromkeys(self._marked - root.keys())
        self._store = self._writer.store  # not the queue: the document that readers trust must be the last one
        try:
            super()._complete({**root, **left})
        except journal.FAILURES:
            # the answer may be lost, and the put done
            if any(self._store.get(key) != text for key, text in root.items()):
                raise

    def _undo(self, error: BaseException | None) -> None:
        # no put may run after the error was raised; the file stays visibly incomplete
        self._store.abandon()
        if files.RECORD in self._marked:
            _advises_to_resume(error, self)
