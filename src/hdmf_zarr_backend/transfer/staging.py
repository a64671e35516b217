"""`new_file`: the keys of a new file, which is staged and renamed, or marked and committed in stores without a rename.

The order of the puts in a store without a rename: an old consolidated document is deleted, the attributes of the root
say that the file is being written, everything old is deleted, everything new is set, then the real attributes of the
root, and the consolidated document last. A reader trusts that one alone where it is there, and finds the mark where it
is not; so after whatever end of the writer a file is whole or visibly not.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import asdict

from hdmf_zarr_backend.changes.journal import JOURNAL
from hdmf_zarr_backend.changes.locks import Holder, writer_lock
from hdmf_zarr_backend.errors import ReadOnlyStoreError, StoreExistsError
from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.formats.reserved import NOTES, WRITING
from hdmf_zarr_backend.model.nodes import Attributes, GroupNode
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.failures import os_errors
from hdmf_zarr_backend.stores.files import (
    Staged,
    interrupted_conversions,
    partial_path,
    place,
    replace,
    sync_files,
    sync_folder,
)
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.stores.wrappers import QueuedStore
from hdmf_zarr_backend.stores.zip import new_zip
from hdmf_zarr_backend.transfer.names import check_names


@contextmanager
def staged(
    target: str, *, exclusive: bool = False, durable: bool = False, location: str | None = None
) -> Iterator[LocalStore]:
    """Give the keys of a directory beside ``target`` that takes its place when the block ends without an error.

    Whoever calls this is the only writer of ``target``.

    Parameters
    ----------
    target : str
        Absolute path of the file. What is there is replaced.
    exclusive : bool
        Replace nothing, not even what another program has put there in the meantime.
    durable : bool
        As for `moved`.
    location : str, optional
        What the user calls the file, if it is not ``target`` (a symbolic link to it).

    Raises
    ------
    StoreExistsError
        Something has come to be at ``target`` that is not to be replaced.
    StoreError
        The system refuses something.
    """
    partial, own = partial_path(target), Staged(target)
    made = _missing(os.path.dirname(target))
    try:
        with os_errors(target, "written"):
            os.makedirs(partial)
        yield LocalStore(partial, replace=False, location=location or target)
        own.check()
        moved(partial, target, exclusive=exclusive, durable=durable)
        with suppress(OSError):  # the file is there, whatever stays beside it
            for path in interrupted_conversions(target):  # nobody goes on to make what has been made otherwise
                own.discard(path)
    except BaseException:
        own.discard(partial)
        for path in made if own.is_own else ():
            with suppress(OSError):  # somebody else uses it by now
                os.rmdir(path)
        raise


def moved(partial: str, target: str, *, exclusive: bool, durable: bool) -> None:
    """Move what is whole to its place.

    Parameters
    ----------
    partial, target : str
        From where, and to where.
    exclusive : bool
        Replace nothing.
    durable : bool
        Return when all of it is on the disk, under its name: one call for all files before they are moved, and one for
        the folder after.

    Raises
    ------
    StoreExistsError
        ``exclusive``, and something has come to be at ``target``.
    """
    with os_errors(target, "written"):
        if durable:
            sync_files(partial)
        (place if exclusive else replace)(partial, target)
        if durable:
            sync_folder(os.path.dirname(target))


def _missing(folder: str) -> list[str]:
    """Return the folders above a file that are not there yet, the innermost first."""
    missing = []
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


_ROOT_3 = "zarr.json"
_COMMIT = (zarr2.ATTRIBUTES, _ROOT_3, zarr2.CONSOLIDATED)
"""The keys that make a new file whole, in the order in which they are set."""


@contextmanager
def new_file(
    keys: Store,
    paths: Iterable[str],
    zarr_format: int,
    *,
    exclusive: bool = False,
    durable: bool = False,
    is_locked: bool = False,
) -> Iterator[Store]:
    """Give the keys to write a new file with; it is there, whole, when the block ends without an error.

    Parameters
    ----------
    keys : Store
        Where the file will be. What is there is replaced.
    paths : iterable of str
        Of the nodes that are going to be written.
    zarr_format : {2, 3}
        Of the file.
    exclusive : bool
        Replace nothing.
    durable : bool
        Return when a local file is on the disk itself.
    is_locked : bool
        Whether the caller holds the lock of the file; otherwise it is taken here.

    Raises
    ------
    ReadOnlyStoreError
        No file of this format can be written there.
    NameRefusedError
        No key can have one of the names there.
    StoreExistsError
        Something is there that is not to be replaced.
    StoreLockedError
        Another writer is at work there.
    """
    store = keys.unwrapped
    abilities = store.abilities
    if not abilities.write or zarr_format not in abilities.formats:
        raise ReadOnlyStoreError(abilities.why, store=keys.location, remedy="Write to another place.")
    check_names(paths, store)
    with nullcontext() if is_locked else writer_lock(store):
        if store.folder is not None:
            with staged(store.folder, exclusive=exclusive, durable=durable, location=store.location) as new:
                yield new
        elif store.zip_file is not None:
            with new_zip(store.zip_file, exclusive=exclusive, durable=durable, location=store.location) as new:
                yield new
        else:
            with _unstaged(store, exclusive=exclusive, zarr_format=zarr_format) as new:
                yield new


def can_stage(keys: Store) -> bool:
    """Tell whether what is at a place stays until the new file is whole; else it goes first."""
    return (keys.folder or keys.zip_file) is not None


def _unstaged(store: Store, *, exclusive: bool, zarr_format: int) -> AbstractContextManager[QueuedStore]:
    if exclusive and store.exists():
        raise StoreExistsError(
            "something has come to be there, and is not replaced",
            store=store.location,
            remedy="Choose another path, or mode 'w' to replace it.",
        )
    return _marked(store, zarr_format)


@contextmanager
def _marked(store: Store, zarr_format: int) -> Iterator[QueuedStore]:
    """Give a queue of puts to ``store``; what commits a file is set when the block ends without an error."""
    is_transaction = not store.abilities.consolidates
    kept: set[str] = set()
    if not is_transaction:
        kept = _mark(store, zarr_format)
    store.delete(key for key in store.list_prefix("") if key not in kept)
    queue, own = QueuedStore(store, () if is_transaction else _COMMIT), Staged(store.location)
    try:
        yield queue
        own.check()
        queue.commit()
    except BaseException:
        if own.is_own:
            queue.abandon()  # or puts would go on after the error was told
        raise


def _mark(store: Store, zarr_format: int) -> set[str]:
    """Let the root say that the file is being written; return the keys that do."""
    if zarr_format == 2:
        store.delete([zarr2.CONSOLIDATED, _ROOT_3, JOURNAL])  # what readers would trust, and what writers would undo
    root: GroupNode[Attributes] = GroupNode(attributes={NOTES: {WRITING: asdict(Holder.here())}})
    documents = dict(zarr2.encode_node("", root))
    if zarr_format == 3:
        documents = {_ROOT_3: {"zarr_format": 3, "node_type": "group", "attributes": root.attributes}}
    for key, document in sorted(documents.items()):  # the attributes first: without them a root would look whole
        store.set(key, dump(document))
    if zarr_format == 3:
        store.delete([zarr2.CONSOLIDATED, JOURNAL])
    return set(documents)
