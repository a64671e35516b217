"""What is in a store beside the values that are asked for: keys outside of arrays, and what is in a value's place.

Only a directory can hold something else than values: folders, pipes and devices. Elsewhere a key has a value or none.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence

from hdmf_zarr_backend.errors import ChunkError, StoreError
from hdmf_zarr_backend.model.nodes import absolute, join, split
from hdmf_zarr_backend.storage.diskfiles import disk_failure, is_folder, size_of
from hdmf_zarr_backend.storage.keys import KeyStore, innermost, is_outside
from hdmf_zarr_backend.storage.localkeys import LocalKeys
from hdmf_zarr_backend.storage.offers import open_value
from hdmf_zarr_backend.storage.openvalue import OpenValue


def keys_outside(keys: KeyStore, arrays: Collection[str]) -> Iterator[str]:
    """Yield the keys that are not below an array; the folders of arrays are not looked into.

    Parameters
    ----------
    keys : KeyStore
        A store that can be listed.
    arrays : set of str
        Their paths.

    Raises
    ------
    StoreError
        The store cannot be listed.
    """
    store = innermost(keys)
    if not isinstance(store, LocalKeys):
        yield from (key for key in store.list_prefix("") if not _is_below(key, arrays))
        return
    stack = [] if "" in arrays else [""]
    while stack:
        here = stack.pop()
        for entry in _entries(store, here):
            path = join(here, entry.name)
            if not is_folder(entry):
                yield path
            elif path not in arrays:
                stack.append(path)


def _is_below(key: str, arrays: Collection[str]) -> bool:
    path = key
    while path:
        path, _ = split(path)
        if path in arrays:
            return True
    return False


def names_without_values(keys: KeyStore, path: str) -> Iterator[str]:
    """Yield the names below ``path/`` at which there is something and no value: a folder, a pipe or a device."""
    store = innermost(keys)
    if not isinstance(store, LocalKeys):
        return
    stack = [path]
    while stack:
        here = stack.pop()
        for entry in _entries(store, here):
            place = join(here, entry.name)
            if is_folder(entry):
                stack.append(place)
            if size_of(entry) is None and is_blocked(store, place):
                yield place[len(path) + 1 if path else 0 :]


def _entries(store: LocalKeys, path: str) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(f"{store.root}/{path}"))
    except (FileNotFoundError, NotADirectoryError):
        return []  # it was removed meanwhile
    except OSError as error:
        raise disk_failure(error, store.location, path, "listed") from error


def is_blocked(keys: KeyStore, key: str) -> bool:
    """Tell whether a folder, a pipe or a device is where the value of a key would be."""
    store = innermost(keys)
    if not isinstance(store, LocalKeys) or is_outside(key):
        return False
    try:
        return not stat.S_ISREG(os.stat(f"{store.root}/{key}").st_mode)
    except (OSError, ValueError):
        return False  # nothing is there, or nothing can be called so


def stored_chunk(keys: KeyStore, path: str, name: str) -> bytes | None:
    """Return the stored bytes of a chunk, None where it is not stored.

    Parameters
    ----------
    keys : KeyStore
        The store.
    path, name : str
        Of the array, and of the chunk in it.

    Raises
    ------
    ChunkError
        A folder, a pipe or a device is in its place.
    StoreError
        It cannot be read.
    """
    try:
        return keys.get(join(path, name))
    except StoreError as error:
        raise _told(error, keys, path, name) from error.__cause__


def stored_chunks(keys: KeyStore, chunks: Sequence[tuple[str, str]]) -> dict[str, bytes]:
    """Return those chunks that are stored by their keys, asked for together; ``chunks`` are paths of arrays and names.

    Raises
    ------
    ChunkError, StoreError
        As of `stored_chunk`.
    """
    try:
        return keys.get_many([join(path, name) for path, name in chunks])
    except StoreError as error:
        blocked = next((chunk for chunk in chunks if is_blocked(keys, join(*chunk))), None)
        raise error if blocked is None else _told(error, keys, *blocked) from error.__cause__


def opened_chunk(keys: KeyStore, path: str, name: str) -> OpenValue | None:
    """Return a stored chunk, open, to read parts of it; None where it is not stored, or the store cannot do so.

    Raises
    ------
    ChunkError, StoreError
        As of `stored_chunk`.
    """
    try:
        return open_value(keys, join(path, name))
    except StoreError as error:
        raise _told(error, keys, path, name) from error.__cause__


def _told(error: StoreError, keys: KeyStore, path: str, name: str) -> StoreError | ChunkError:
    if not is_blocked(keys, join(path, name)):
        return error
    return ChunkError(
        f"a folder, a pipe or a device is in the place of the chunk {name!r}",
        store=keys.location,
        path=absolute(path),
        remedy="Restore it from a copy.",
    )
