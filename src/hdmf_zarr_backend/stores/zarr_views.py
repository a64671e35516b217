"""Where a file is -> zarr's own view of it, on request."""

from __future__ import annotations

from typing import Any, Literal

import zarr

from hdmf_zarr_backend.errors import NotZarrError
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.fsspec import FsspecKeys
from hdmf_zarr_backend.stores.local import LocalKeys
from hdmf_zarr_backend.stores.memory import MappingKeys
from hdmf_zarr_backend.stores.obstore import ObjectKeys
from hdmf_zarr_backend.stores.paths import local_path
from hdmf_zarr_backend.stores.zarr_python import ZarrStoreKeys
from hdmf_zarr_backend.stores.zip import ZipKeys

__all__ = ["local_path", "open_zarr_array", "open_zarr_group"]


def open_zarr_group(keys: KeyStore, *, mode: Literal["r", "r+"] = "r") -> Any:
    """Return the file as a ``zarr.Group``, past any consolidated document that could be stale.

    Raises
    ------
    NotZarrError
        zarr finds no group there.
    """
    try:
        return zarr.open_group(_zarr_location(keys), mode=mode, use_consolidated=False)
    except FileNotFoundError as error:
        raise NotZarrError("zarr finds no group", store=keys.location) from error


def open_zarr_array(keys: KeyStore, path: str) -> Any:
    """Return the array at ``path`` as a ``zarr.Array``.

    Raises
    ------
    NotZarrError
        This release of zarr-python cannot open it: before 3.2 it does not know ``struct``.
    """
    try:
        return _open_array(keys, path)
    except (ValueError, TypeError, KeyError) as error:
        raise NotZarrError(
            f"zarr-python {zarr.__version__} cannot open this array ({error})",
            store=keys.location,
            path=absolute(path),
            remedy="Index the dataset itself, or install zarr 3.3 or newer.",
        ) from error


def _open_array(keys: KeyStore, path: str) -> Any:
    return zarr.open_array(_zarr_location(keys), path=path, mode="r")


def _zarr_location(keys: KeyStore) -> Any:
    """Return what zarr opens: a path, or a store."""
    store = keys.unwrapped
    if isinstance(store, LocalKeys):
        return store.root
    if isinstance(store, ZarrStoreKeys):
        return zarr.storage.StorePath(store.store, store.path)
    if isinstance(store, ObjectKeys):
        return zarr.storage.ObjectStore(store.opened, read_only=not store.abilities.write)
    if isinstance(store, FsspecKeys):
        return zarr.storage.FsspecStore.from_url(store.location, storage_options=dict(store.options), read_only=True)
    if isinstance(store, MappingKeys):
        buffers: dict[str, Any] = {
            key: zarr.buffer.cpu.Buffer.from_bytes(value) for key, value in store.mapping.items()
        }
        return zarr.storage.MemoryStore(buffers)
    if type(store) is ZipKeys:
        return zarr.storage.ZipStore(store.location, mode="r")
    raise NotZarrError(
        "zarr has no view of this store", store=keys.location, remedy="Open a directory, a zip file or a URL."
    )
