"""`new_file`: the store for a new file, which is staged and renamed; or, without a rename, marked and committed.

In a store without a rename, the order is: undo a change that was interrupted, delete an old consolidated document,
mark the root's attributes as being written, delete all old keys, set all new keys, then the real attributes of the
root, and last the consolidated document. A reader trusts the consolidated document if it exists, and otherwise finds
the mark. So however the writer ends, the file is either complete or visibly incomplete.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict

from hdmf_zarr_backend.changes.journal import JOURNAL, recover
from hdmf_zarr_backend.changes.locks import Holder, WriterLock, writer_lock
from hdmf_zarr_backend.errors import MetadataError, ReadOnlyStoreError, StoreExistsError
from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.formats.reserved import NOTES, WRITING
from hdmf_zarr_backend.model.nodes import Attributes, Group
from hdmf_zarr_backend.options import DEFAULT_OPTIONS, WriteOptions
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
    target: str,
    *,
    exclusive: bool = False,
    options: WriteOptions = DEFAULT_OPTIONS,
    location: str | None = None,
    check_lock: Callable[[], None] | None = None,
) -> Iterator[LocalStore]:
    """Yield the store of a directory beside ``target`` that replaces it when the block ends without an error.

    The caller must be the only writer of ``target``.
    """
    partial, own = partial_path(target), Staged(target, check_lock)
    made = _missing(os.path.dirname(target))
    try:
        with os_errors(target, "written"):
            os.makedirs(partial)
        yield LocalStore(partial, replace=False, location=location or target)
        own.check()
        moved(partial, target, exclusive=exclusive, options=options)
        with suppress(OSError):  # the new file is complete, whatever is left beside it
            for path in interrupted_conversions(target):  # obsolete, because the file was made in another way
                own.discard(path)
    except BaseException:
        own.discard(partial)
        for path in made if own.is_own else ():
            with suppress(OSError):  # another program uses it now
                os.rmdir(path)
        raise


@contextmanager
def staged_file(target: LocalStore, *, exclusive: bool, options: WriteOptions) -> Iterator[str]:
    """Yield a path beside a local file; the file written there replaces it when the block ends without an error."""
    with writer_lock(target, replaces=True) as lock:
        partial, own = partial_path(target.root), Staged(target.root, lock.check)
        try:
            with os_errors(target.location, "written"):
                yield partial
            own.check()
            moved(partial, target.root, exclusive=exclusive, options=options)
        except BaseException:
            own.discard(partial)
            raise


def moved(partial: str, target: str, *, exclusive: bool, options: WriteOptions) -> None:
    """Move a complete file to its place."""
    with os_errors(target, "written"):
        if options.durable:
            sync_files(partial)
        (place if exclusive else replace)(partial, target)
        if options.durable:
            sync_folder(os.path.dirname(target))


def _missing(folder: str) -> list[str]:
    """Return the folders above a file that do not exist yet, the innermost first."""
    missing = []
    while folder and not os.path.lexists(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    return missing


_ROOT_3 = "zarr.json"
_COMMIT = (_ROOT_3, zarr2.ATTRIBUTES, zarr2.CONSOLIDATED)
"""The keys that complete a new file, in the order in which they are set.

The attributes have the mark until then, so that a file of both formats is incomplete until it has both roots.
"""


@contextmanager
def new_file(
    store: Store,
    paths: Iterable[str],
    zarr_format: int,
    *,
    exclusive: bool = False,
    options: WriteOptions = DEFAULT_OPTIONS,
    lock: WriterLock | None = None,
) -> Iterator[Store]:
    """Yield the store to write a new file to. The file appears, complete, when the block ends without an error."""
    unwrapped = store.unwrapped
    abilities = unwrapped.abilities
    if not abilities.write or zarr_format not in abilities.formats:
        raise ReadOnlyStoreError(abilities.why, store=store.location, remedy="Write to another place.")
    check_names(paths, unwrapped)
    with nullcontext(lock) if lock is not None else writer_lock(unwrapped, replaces=True) as held:
        held.check()
        path = unwrapped.folder or unwrapped.zip_file
        if path is not None:
            staging = staged if unwrapped.folder is not None else new_zip
            with staging(
                path, exclusive=exclusive, options=options, location=unwrapped.location, check_lock=held.check
            ) as new:
                yield new
        else:
            if exclusive and unwrapped.exists():
                raise StoreExistsError(
                    "a file was created there since, and is not replaced",
                    store=unwrapped.location,
                    remedy="Choose another path, or mode 'w' to replace it.",
                    remedy_cli="Choose another path, or use --overwrite to replace it.",
                )
            with _marked(unwrapped, zarr_format, held) as new:
                yield new


def can_stage(store: Store) -> bool:
    """Tell whether an existing file stays until the new one is complete; otherwise it is deleted first."""
    return (store.folder or store.zip_file) is not None


@contextmanager
def _marked(store: Store, zarr_format: int, lock: WriterLock) -> Iterator[QueuedStore]:
    """Yield a queue of puts to ``store``. If the block ends without an error, the keys that commit the file are set."""
    is_transaction = not store.abilities.consolidates
    kept: set[str] = set()
    old = list(store.list_prefix(""))
    if not is_transaction:
        if JOURNAL in old:  # without the consolidated document, readers would see the half of a change
            with suppress(MetadataError):  # it is damaged, and deleted with the file
                recover(store)
            old = list(store.list_prefix(""))
        kept = _mark(store, zarr_format, has_root_3=_ROOT_3 in old)
    store.delete(key for key in old if key not in kept)
    queue, own = QueuedStore(store, () if is_transaction else _COMMIT), Staged(store.location, lock.check)
    try:
        yield queue
        queue.commit(own.check)
    except BaseException:
        if own.is_own:
            queue.abandon()  # so that no put runs after the error was raised
        raise


def _mark(store: Store, zarr_format: int, *, has_root_3: bool) -> set[str]:
    """Mark the root as being written; return the keys of the mark.

    Whatever call of the store fails, the root of the old file can be read, or is marked; also that of format 3, which
    the old file ``has_root_3``.
    """
    root: Group[Attributes] = Group(attributes={NOTES: {WRITING: asdict(Holder.here())}})
    root_3 = {"zarr_format": 3, "node_type": "group", "attributes": root.attributes}
    if zarr_format == 3 or has_root_3:
        store.set(_ROOT_3, dump(root_3))
    store.delete([zarr2.CONSOLIDATED, JOURNAL])  # readers would trust the first, and writers undo the second
    if zarr_format == 3:
        return {_ROOT_3}
    documents = dict(zarr2.documents("", root))
    for key, document in sorted(documents.items()):  # the attributes first: without them the root would look complete
        store.set(key, dump(document))
    if has_root_3:
        store.delete([_ROOT_3])
    return set(documents)
