"""The lock that a kind of store has: of a local file the system's, in object stores a lease, else one of this process.

Readers take none, and are never kept waiting. Icechunk needs none: of two sessions that change the same, the second
cannot commit.

Source: issue "Nothing lost, nobody let in", part 3.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hdmf_zarr_backend.changes.leases import Lease
from hdmf_zarr_backend.changes.locks import FileLock, Holder, WriterLock, locked_error
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.files import check_link
from hdmf_zarr_backend.stores.locations import split_location
from hdmf_zarr_backend.stores.opening import open_neighbour

_OF_THIS_PROCESS: dict[tuple[int, str], Holder] = {}


class ProcessLock(WriterLock):
    """The lock of a store that only this process has, or of which only this process knows.

    Parameters
    ----------
    location : str
        The store.

    Raises
    ------
    StoreLockedError
        Another io of this process has it open for writing.
    """

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._place = (os.getpid(), location)
        mine = Holder.here()
        first = _OF_THIS_PROCESS.setdefault(self._place, mine)  # in one step, whatever other threads do
        if first is not mine:
            raise locked_error(first, location)
        self._is_held = True

    def _give_back(self) -> None:
        _OF_THIS_PROCESS.pop(self._place, None)


def writer_lock(keys: Store, *, break_lock: bool = False) -> WriterLock:
    """Return the lock of the file that ``keys`` hold, held.

    Parameters
    ----------
    keys : Store
        Where the file is, or will be.
    break_lock : bool
        Take the lock from a writer that is gone, or that cannot be asked since it is on another machine; never from a
        process of this machine that is alive.

    Raises
    ------
    StoreLockedError
        Another writer holds it.
    StoreExistsError
        A symbolic link that leads nowhere is there.
    """
    store = keys.unwrapped
    local = store.folder or store.zip_file
    if local is not None:
        check_link(store.location)
        return FileLock(local, break_lock=break_lock)
    if store.opens_by_url and store.abilities.is_remote:
        folder, name = split_location(store.location)
        beside = open_neighbour(store, folder) if "://" in folder and name else None
        if beside is not None and beside.opens_by_url:  # a file that is a whole bucket has nothing beside it
            return Lease(beside, name, store.location, break_lock=break_lock)
    return ProcessLock(store.location)


@contextmanager
def one_writer(keys: Store, *, break_lock: bool = False) -> Iterator[WriterLock]:
    """Hold the lock of a file while the block runs; arguments and errors as of `writer_lock`."""
    lock = writer_lock(keys, break_lock=break_lock)
    try:
        yield lock
    finally:
        lock.release()


@contextmanager
def released_on_error(lock: WriterLock | None) -> Iterator[None]:
    """Give a lock back if the block ends with an error."""
    try:
        yield
    except BaseException:
        if lock is not None:
            lock.release()
        raise
