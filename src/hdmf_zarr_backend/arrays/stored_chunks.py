"""The stored bytes of chunks, with an error that says so where a folder, a pipe or a device is in place of one."""

from __future__ import annotations

from collections.abc import Sequence

from hdmf_zarr_backend.errors import ChunkError, StoreError
from hdmf_zarr_backend.model.nodes import absolute, join
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.open_value import OpenValue


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
        blocked = next((chunk for chunk in chunks if keys.is_blocked(join(*chunk))), None)
        raise error if blocked is None else _told(error, keys, *blocked) from error.__cause__


def opened_chunk(keys: KeyStore, path: str, name: str) -> OpenValue | None:
    """Return a stored chunk, open, to read parts of it; None where it is not stored, or the store cannot do so.

    Raises
    ------
    ChunkError, StoreError
        As of `stored_chunk`.
    """
    try:
        return keys.open_value(join(path, name))
    except StoreError as error:
        raise _told(error, keys, path, name) from error.__cause__


def _told(error: StoreError, keys: KeyStore, path: str, name: str) -> StoreError | ChunkError:
    if not keys.is_blocked(join(path, name)):
        return error
    return ChunkError(
        f"a folder, a pipe or a device is in the place of the chunk {name!r}",
        store=keys.location,
        path=absolute(path),
        remedy="Restore it from a copy.",
    )
