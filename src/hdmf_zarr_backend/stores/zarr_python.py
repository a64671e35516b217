"""A store that the user opened with zarr-python, or a group in one, as keys and bytes.

Of an Icechunk session it is the user who commits; there is no consolidated document in it, and format 3 only.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from zarr.abc.store import OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.buffer import default_buffer_prototype
from zarr.core.sync import sync
from zarr.storage import FsspecStore, LocalStore, MemoryStore, ObjectStore, ZipStore

from hdmf_zarr_backend.errors import StoreNotFoundError, UsageError
from hdmf_zarr_backend.stores.base import DOCUMENTS, Abilities, KeyStore, Range
from hdmf_zarr_backend.stores.failures import node_of
from hdmf_zarr_backend.stores.json_text import load
from hdmf_zarr_backend.stores.local import LocalKeys
from hdmf_zarr_backend.stores.memory import OF_THIS_PROCESS
from hdmf_zarr_backend.stores.remote import FarKeys, at_once

B = TypeVar("B")

_ICECHUNK = Abilities(is_far=True, consolidates=False, formats=(3,), why="Icechunk knows Zarr format 3 only")
_ICECHUNK_READ_ONLY = Abilities(
    write=False, change=False, is_far=True, formats=(3,), why="this session of Icechunk is read only"
)
_OF_ZIP = "a ZipStore that is open is read only here; give the path of the zip file to write it"
_READ_ONLY = "this store was opened for reading, or cannot be written"


class ZarrStoreKeys(FarKeys):
    """One Zarr file in a store of zarr-python.

    Parameters
    ----------
    store : zarr.abc.store.Store
        The store.
    path : str
        Where the file begins in it.
    location : str
        What links and messages name.
    """

    def __init__(self, store: Any, path: str, location: str) -> None:
        super().__init__(location)
        self.store = store
        self.path = path
        self.abilities = _abilities(store)

    def __reduce__(self) -> tuple[Any, ...]:
        inner = getattr(self.store, "store", None)
        if isinstance(self.store, MemoryStore) or type(inner).__name__ == "MemoryStore":
            raise UsageError(OF_THIS_PROCESS, store=self.location, remedy='Use executor="threads".')
        return ZarrStoreKeys, (self.store, self.path, self.location), {"read_rules": self.read_rules}

    def neighbour(self, location: str) -> KeyStore | None:
        """Return the keys of another file of the same server or bucket; None where it has to be opened by its URL."""
        store = self.store
        if isinstance(store, FsspecStore) and location.partition("://")[0] == self.location.partition("://")[0]:
            other = FsspecStore(store.fs, path=store.fs._strip_protocol(location), read_only=True)
            return ZarrStoreKeys(other, "", location)
        return None

    def _called(self, function: Callable[[], B], key: str, doing: str, *, once: bool = False) -> B:
        def opened() -> B:
            if not self.store._is_open:  # a ZipStore does not open itself
                try:
                    sync(self.store._ensure_open())
                except FileNotFoundError as error:
                    raise StoreNotFoundError("nothing is there", remedy="Check the path.") from error
            return function()

        return super()._called(opened, key, doing, once=once)

    def _full(self, key: str) -> str:
        return f"{self.path}/{key}" if self.path and key else self.path or key

    def _get(self, key: str) -> bytes | None:
        value = sync(self.store.get(self._full(key), default_buffer_prototype()))
        return None if value is None else value.to_bytes()

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        parts = []
        for start, stop in ranges:
            request: Any
            if start < 0:
                request = SuffixByteRequest(-start)
            else:
                request = OffsetByteRequest(start) if stop is None else RangeByteRequest(start, stop)
            value = sync(self.store.get(self._full(key), default_buffer_prototype(), byte_range=request))
            if value is None:
                return None
            part = value.to_bytes()
            parts.append(part[: stop - start] if start < 0 and stop is not None else part)
        return parts

    def _set(self, key: str, value: bytes) -> None:
        buffer = default_buffer_prototype().buffer.from_bytes(value)
        sync(self.store.set(self._full(key), buffer))

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            sync(self.store.delete(self._full(key)))

    def _keys(self, prefix: str) -> list[str]:
        start = self._full(prefix)
        names = sync(_listed(self.store, f"{start}/" if start else ""))
        cut = len(self.path) + 1 if self.path else 0
        return [name[cut:] for name in names]

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        keys = self._keys(prefix)
        return zip(keys, at_once(lambda key: int(sync(self.store.getsize(self._full(key)))), keys), strict=True)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        return iter(self._called(lambda: self._keys(prefix), prefix, "listed"))

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents; sizes are not asked for."""
        return (key for key in self.list_prefix("") if key.rpartition("/")[2] in DOCUMENTS)

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        if self.path or not self.abilities.listing:
            return bool(self.get_many([".zgroup", "zarr.json", ".zarray"]))
        return not self._called(lambda: sync(self.store.is_empty("")), "", "listed")


class IcechunkKeys(ZarrStoreKeys):
    """One Zarr file in a session of Icechunk, which takes no chunk that the document of its array does not have.

    A chunk that is set before the document of its array, or before that says that the array has grown, waits in a
    temporary folder until the document is set.

    Parameters
    ----------
    store, path, location
        As of `ZarrStoreKeys`.
    """

    def __init__(self, store: Any, path: str, location: str) -> None:
        super().__init__(store, path, location)
        self._grids: dict[str, tuple[int, ...]] = {}
        self._folder: str | None = None
        self._order = threading.RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.store.read_only:
            raise UsageError(
                "a session of Icechunk is written by one process",
                store=self.location,
                remedy='Use executor="threads".',
            )
        return IcechunkKeys, (self.store, self.path, self.location), {"read_rules": self.read_rules}

    @property
    def _waiting(self) -> LocalKeys:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="hdmf-zarr-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return LocalKeys(self._folder, replace=False)

    def _get(self, key: str) -> bytes | None:
        waiting = None if self._folder is None else self._waiting.get(key)
        return waiting if waiting is not None else super()._get(key)

    def _set(self, key: str, value: bytes) -> None:
        node = node_of(key).strip("/")
        with self._order:
            if key.rpartition("/")[2] in DOCUMENTS:
                super()._set(key, value)
                self._grids[node] = _grid(key, value)
                self._let_go(node)
            elif self._has_place(node, key):
                super()._set(key, value)
            else:
                self._waiting.set(key, value)

    def _delete(self, keys: Sequence[str]) -> None:
        with self._order:
            if self._folder is not None:
                self._waiting.delete(keys)
            for key in sorted(keys, key=lambda key: key.count("/"), reverse=True):  # chunks before their array
                with suppress(KeyError):
                    super()._delete([key])
                self._grids.pop(node_of(key).strip("/"), None)

    def _has_place(self, node: str, key: str) -> bool:
        """Tell whether a chunk is one of those that the document of its array has."""
        if node not in self._grids:
            name = f"{node}/zarr.json".lstrip("/")
            document = super()._get(name)
            if document is None:
                return False
            self._grids[node] = _grid(name, document)
        index = [int(number) for number in re.findall(r"\d+", key[len(node) :])]
        return all(position < length for position, length in zip(index, self._grids[node], strict=False))

    def _let_go(self, node: str) -> None:
        if self._folder is None:
            return
        for key in [key for key in self._waiting.list_prefix(node) if node_of(key).strip("/") == node]:
            if not self._has_place(node, key):
                continue
            value = self._waiting.get(key)
            assert value is not None
            super()._set(key, value)
            self._waiting.delete([key])


def _grid(key: str, document: bytes) -> tuple[int, ...]:
    """Return the number of chunks, or of shards, along each axis of an array; of a group, nothing."""
    said = load(document, key=key)
    if "shape" not in said:
        return ()
    chunks = said["chunk_grid"]["configuration"]["chunk_shape"]
    return tuple(-(-length // chunk) for length, chunk in zip(said["shape"], chunks, strict=True))


async def _listed(store: Any, prefix: str) -> list[str]:
    return [key async for key in store.list_prefix(prefix)]


def _is_icechunk(store: Any) -> bool:
    return type(store).__module__.partition(".")[0] == "icechunk"


def _abilities(store: Any) -> Abilities:
    if _is_icechunk(store):
        return _ICECHUNK_READ_ONLY if store.read_only else _ICECHUNK
    if isinstance(store, ZipStore):
        return Abilities(write=False, change=False, why=_OF_ZIP)
    writes = bool(store.supports_writes and store.supports_deletes and not store.read_only)
    why = "" if writes else _READ_ONLY
    return Abilities(
        write=writes,
        change=writes,
        listing=bool(store.supports_listing),
        is_far=not isinstance(store, MemoryStore),
        control_characters=not isinstance(store, ObjectStore),
        why=why,
    )


def keys_of_store(store: Store, path: str = "") -> KeyStore:
    """Return the keys of a store of zarr-python, beginning at ``path`` in it."""
    root = _folder(store)
    if root is not None:
        keys = LocalKeys(os.path.abspath(os.path.join(root, path)))
        if store.read_only:
            keys.abilities = Abilities(write=False, change=False, why=_READ_ONLY)
        return keys
    base = _location(store)
    location = base if not path else f"{base}/{path}"
    if _is_icechunk(store):
        return IcechunkKeys(store, path, location)
    return ZarrStoreKeys(store, path, location)


def _folder(store: Store) -> str | None:
    """Return the local folder that a store is, None where it is something else."""
    if isinstance(store, LocalStore):
        return str(store.root)
    if isinstance(store, FsspecStore):  # that of "file://", which makes no folders unless it is told to
        filesystem: Any = getattr(store.fs, "sync_fs", store.fs)
        return str(store.path) if type(filesystem).__name__ == "LocalFileSystem" else None
    return None


def _location(store: Any) -> str:
    """Return the URL of a store; something that names it in this process where it has none."""
    if isinstance(store, ZipStore):
        return os.path.abspath(str(store.path))
    if isinstance(store, FsspecStore):
        return str(store.fs.unstrip_protocol(store.path)).rstrip("/")
    if isinstance(store, ObjectStore):
        return _object_location(store.store) or f"object://{id(store.store):x}"
    return f"object://{id(store):x}"


def _object_location(store: Any) -> str | None:
    url = getattr(store, "url", None)
    if isinstance(url, str):
        return url.rstrip("/")
    scheme = {"S3Store": "s3", "GCSStore": "gs"}.get(type(store).__name__)
    if scheme is None:
        return None
    return f"{scheme}://{store.config['bucket']}/{store.prefix or ''}".rstrip("/")
