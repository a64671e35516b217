"""Stores of zarr-python 2 as stores of this package, and files of this package as its groups and arrays.

zarr-python 2 opens format 2 only. Its codec of pickles runs code, so arrays of pickles are not given to it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any

import zarr
import zarr.storage

from hdmf_zarr_backend.errors import UnsafeDataError
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import Abilities, Store
from hdmf_zarr_backend.stores.json_text import load
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.stores.memory import MemoryStore
from hdmf_zarr_backend.stores.obstore import store_of_bucket
from hdmf_zarr_backend.stores.zip import ZipStore

_zarr: Any = zarr  # to the type checker, which may see zarr-python 3
_storage: Any = zarr.storage

_READ_ONLY = Abilities(write=False, change=False, why="this store was opened for reading, or cannot be written")
_ZIP_IS_OPEN = "a ZipStore that is open is read only here; give the path of the zip file to write it"


# ---- stores of zarr-python ------------------------------------------------------------------------------------------


def store_of_zarr(place: Any) -> Store | None:
    """Return the file in a store or group of zarr-python, or in a store of obstore; None for anything else."""
    if isinstance(place, _zarr.Group):
        return _adapted(place.store, place.path, is_read_only=place.read_only)
    if type(place).__module__.partition(".")[0] == "obstore":
        return store_of_bucket(place)
    return _adapted(place, "") if isinstance(place, _storage.BaseStore) else None


def _adapted(store: Any, path: str, *, is_read_only: bool = False) -> Store:
    is_url = isinstance(store, _storage.FSStore)
    found: Store
    if isinstance(store, _storage.DirectoryStore) or (is_url and type(store.fs).__name__ == "LocalFileSystem"):
        found = LocalStore(os.path.abspath(os.path.join(str(store.path), path)))
    elif isinstance(store, _storage.ZipStore) and not path:
        found = ZipStore(os.path.abspath(str(store.path)))
        found.abilities = Abilities(write=False, change=False, why=_ZIP_IS_OPEN)
    else:
        base = str(store.fs.unstrip_protocol(store.path)).rstrip("/") if is_url else f"object://{id(store):x}"
        found = MemoryStore(store, f"{base}/{path}" if path else base, path=path)
        found.group_above = partial(_adapted, store, path.rpartition("/")[0]) if path else None
    if is_read_only or not store.is_writeable():
        found.abilities = _READ_ONLY
    return found


# ---- files as groups and arrays of zarr-python ---------------------------------------------------------------------


class _View(_storage.Store):  # type: ignore[misc, unused-ignore]
    """A store of this package as a store of zarr-python 2."""

    _writeable = False

    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def path(self) -> str:
        """Path or URL of the file, which programs such as neuroconv read of stores of zarr-python 2."""
        return self._store.location

    def __getitem__(self, key: str) -> bytes:
        data = self._store.get(key)
        if data is None:
            raise KeyError(key)
        if key.rpartition("/")[2] == ".zarray":
            self._check(key, data)
        return data

    def _check(self, key: str, data: bytes) -> None:
        """Refuse an array that zarr-python would unpickle."""
        filters = load(data, key=key).get("filters") if b"pickle" in data else None
        if any(isinstance(config, dict) and config.get("id") == "pickle" for config in filters or ()):
            raise UnsafeDataError(
                "zarr-python 2 would run code to decode this array",
                store=self._store.location,
                path=absolute(key.rpartition("/")[0]),
                remedy="Index the dataset itself, which decodes pickles as data.",
            )

    def __setitem__(self, key: str, value: Any) -> None:
        raise _zarr.errors.ReadOnlyError

    def __delitem__(self, key: str) -> None:
        raise _zarr.errors.ReadOnlyError

    def __iter__(self) -> Iterator[str]:
        return self._store.list_prefix("")

    def __len__(self) -> int:
        return sum(1 for _ in self)


def zarr_location(store: Store) -> Any:
    """Return the argument for zarr's functions."""
    return _View(store)
