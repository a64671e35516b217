"""What undoes a change of a file that did not come to its end: how each key was that the change sets.

A change of a file that is there is undone unless it has come to its end::

    keep      what a key holds, or that it is not there, is put down before the key is set for the first time
    (set)     chunks, documents of new nodes, documents that change; no reader of the consolidated document sees them
    commit    a last note says what the consolidated document will be; then that is set, in one put: the change is done
    (delete)  what nobody reads any more; then the journal itself, its first key first

Whoever opens the file for changes next finds the first key of a journal that was left. If the documents are those of
its last note, the change was done, and only the deletions are repeated; else everything is put back. Both may be
stopped and repeated at any point. Who only reads never looks for a journal.

Source: issue "Nothing lost, nobody let in", part 2.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from hdmf_zarr_backend.changes.journal_records import LAST_NOTE, VERSION, Mark, Record, aside_key, record_key
from hdmf_zarr_backend.changes.locks import Holder
from hdmf_zarr_backend.changes.recovery import copy_value, digest, recover, remove, warn
from hdmf_zarr_backend.errors import ConflictError, StoreError, ZarrBackendError
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.remote import at_once

_FAILURES = (ZarrBackendError, OSError, RuntimeError, ValueError, TypeError)


class Direct:
    """Changes of a store that undoes them itself: a session of Icechunk is a transaction.

    Parameters
    ----------
    keys : Store
        The store.
    """

    def __init__(self, keys: Store) -> None:
        self._keys = keys
        self._unread: list[str] = []

    @property
    def is_open(self) -> bool:
        """Whether something has changed that is not committed."""
        return False

    def keep(
        self,
        keys: Iterable[str],
        *,
        new: Iterable[str] = (),
        large: Iterable[str] = (),
        below: Iterable[str] = (),
        mark: Mark | None = None,
    ) -> None:
        """Put down how things are, before they change.

        Parameters
        ----------
        keys : iterable of str
            Keys that will be set or deleted.
        new : iterable of str
            Keys that will be set, and are known not to be there.
        large : iterable of str
            Keys that will be set, and whose values are not to be in memory as a whole.
        below : iterable of str
            Paths of groups and arrays that are not there yet; all below them is new.
        mark : Mark, optional
            What will be put before there is no order of old or new.

        Raises
        ------
        ConflictError
            Something is below one of the new paths all the same; nothing was changed.
        """

    def discard(self, keys: Iterable[str]) -> None:
        """Have ``keys`` deleted when the change is done; until then readers may want them."""
        self._unread.extend(keys)

    def commit(self, documents: Mapping[str, bytes], gone: Sequence[str] = ()) -> None:
        """Set the documents that make the change whole, in their order, and delete the keys ``gone``."""
        self._keys.drain()
        for key, text in documents.items():
            self._keys.set(key, text)
        self._keys.delete([*gone, *self._unread])
        self._keys.drain()
        self._unread = []

    def undo(self, error: BaseException) -> None:
        """Put everything back that was changed since the last commit; what ``error`` ended cannot go on."""
        self._unread = []


class Journal(Direct):
    """The journal of the changes of one open file.

    Parameters
    ----------
    keys : Store
        The store, perhaps behind a queue.
    consolidated : str
        The key that commits a change.
    """

    def __init__(self, keys: Store, consolidated: str) -> None:
        super().__init__(keys)
        self._store: Store = keys.unwrapped
        self._consolidated = consolidated
        self._is_stuck = False
        self._forget()

    def _forget(self) -> None:
        self._id = uuid.uuid4().hex
        self._records = 0
        self._aside: list[str] = []
        self._kept: set[str] = set()
        self._below: set[str] = set()
        self._unread = []

    @property
    def is_open(self) -> bool:
        """Whether something may have changed that is not committed."""
        return self._records > 0

    def keep(
        self,
        keys: Iterable[str],
        *,
        new: Iterable[str] = (),
        large: Iterable[str] = (),
        below: Iterable[str] = (),
        mark: Mark | None = None,
    ) -> None:
        """Put down how things are, in one put; large values are put aside after it, each under a key of its own."""
        if self._is_stuck:
            raise StoreError(
                "an earlier change could not be undone yet",
                store=self._store.location,
                remedy="Close the file, and open it with mode 'r+' when the store takes values again.",
            )
        paths = [path for path in below if path not in self._below]
        wanted = dict.fromkeys(keys if self._records else (*keys, self._consolidated))
        if mark is not None:
            wanted |= dict.fromkeys([*mark.documents, *mark.hidden])
        asked = [key for key in wanted if self._is_fresh(key)]
        known = [key for key in dict.fromkeys(new) if self._is_fresh(key)]
        larger = [key for key in dict.fromkeys(large) if self._is_fresh(key)]
        if not (paths or known or larger or (asked and asked != [self._consolidated]) or mark):
            return
        self._check_free(paths)
        if not self._records:
            self._store.delete_unfinished([""])  # what is left of a journal whose first put did not come to its end
        old = self._store.get_many(asked)
        aside = {key: number for number, key in enumerate(self._stored(larger), len(self._aside))}
        absent = [key for key in (*asked, *known, *larger) if key not in old and key not in aside]
        record = Record(self._id, old, absent, paths, Holder.here(), mark, aside)
        self._store.set(record_key(self._records), record.encode())
        self._records += 1
        self._aside += record.aside_keys()
        self._kept.update(asked, known, larger)
        self._below.update(paths)
        for key, number in aside.items():
            if not self._store.link_value(key, aside_key(self._id, number)):  # a key is set by replacing its value
                copy_value(self._store, key, aside_key(self._id, number))

    def _stored(self, keys: Sequence[str]) -> list[str]:
        """Return those of ``keys`` that are there."""

        def is_there(key: str) -> bool:
            return self._store.get_range(key, 0, 1) is not None

        found = self._for_each(is_there, keys)
        return [key for key, there in zip(keys, found, strict=True) if there]

    def _for_each(self, function: Callable[[str], bool], names: Sequence[str]) -> Iterable[bool]:
        """Return what a function that asks the store says of each name; a far one is asked at once."""
        return at_once(function, names) if self._store.abilities.is_remote else map(function, names)

    def _is_fresh(self, key: str) -> bool:
        """Tell whether nothing is put down yet that says how ``key`` was."""
        if key in self._kept:
            return False
        while "/" in key:
            key = key.rpartition("/")[0]
            if key in self._below:
                return False
        return True

    def _check_free(self, paths: Sequence[str]) -> None:
        """Refuse to take for new what is there already: to undo would be to delete it."""

        def is_taken(path: str) -> bool:
            return next(self._store.list_prefix(path), None) is not None

        for path, taken in zip(paths, self._for_each(is_taken, paths), strict=True):
            if taken:
                raise ConflictError(
                    "the store holds keys where something new is to be written, which the metadata do not know of",
                    store=self._store.location,
                    path=absolute(path),
                    remedy="Run `zarrio verify`; `zarrio consolidate` lets the file know what it holds.",
                )

    def commit(self, documents: Mapping[str, bytes], gone: Sequence[str] = ()) -> None:
        """Set the documents that make the change whole, in their order, and forget how things were.

        Raises
        ------
        StoreError
            They could not be set; the change is to be undone.
        """
        if self.is_open or len(documents) + len(gone) > 1:
            self.keep([*documents, *gone])
        self._keys.drain()
        if not self.is_open:  # one put is whole in itself
            super().commit(documents, gone)
            return
        final = {key: digest(text) for key, text in documents.items()} | dict.fromkeys(gone)
        last = {"version": VERSION, "id": self._id, "final": final, "delete": self._unread}
        self._store.set(LAST_NOTE, dump(last))
        for key, text in documents.items():
            self._store.set(key, text)
        if gone:
            self._store.delete(gone)
        unread, records, aside = self._unread, self._records, self._aside
        self._forget()  # from here on it is not to be undone, whatever comes
        try:
            self._store.delete(unread)
            remove(self._store, records, aside)
        except _FAILURES as error:
            warn(f"{self._store.location}: the change is written, but not the end of its journal ({error})")

    def undo(self, error: BaseException) -> None:
        """Put everything back, and note at ``error`` if that could not be done."""
        self._keys.abandon()
        if self.is_open and not self._is_stuck:
            try:
                self._store.delete([LAST_NOTE])
                recover(self._store)
            except _FAILURES as failed:
                self._is_stuck = True
                error.add_note(
                    f"What was written could not be undone ({failed}). It is undone when {self._store.location} is "
                    "opened with mode 'r+' or 'a', or by `zarrio repair`; until then readers see the file as it was."
                )
        self._forget()


def journal_of(keys: Store, zarr_format: int) -> Direct:
    """Return what keeps the changes of a file from being lost half way."""
    if not keys.abilities.consolidates:
        return Direct(keys)
    return Journal(keys, zarr2.CONSOLIDATED if zarr_format == 2 else zarr3.DOCUMENT)
