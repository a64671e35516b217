"""Stores of zarr-python as stores of this package, and files of this package as its groups and arrays.

Of zarr-python 2 or 3, whichever is installed. Version 2 opens format 2 only, and its codec of pickles runs code, so
arrays of pickles are not given to it. A session of Icechunk, which needs version 3, is committed by the user, or by
``commit_message``. It has no consolidated document, and only format 3.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import zarr
import zarr.storage

from hdmf_zarr_backend.errors import NotZarrError, StoreNotFoundError, UnsafeDataError
from hdmf_zarr_backend.model.json_text import dump, load
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.store import clouds
from hdmf_zarr_backend.store.base import Abilities, Range, Store, is_document, node_of
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.memory import MemoryStore, not_shared
from hdmf_zarr_backend.store.remote import RemoteStore, at_once
from hdmf_zarr_backend.store.zip import ZipStore

_IS_ZARR_2 = zarr.__version__.startswith("2.")

if not _IS_ZARR_2:
    import zarr.abc.store
    from zarr.abc.store import RangeByteRequest, SuffixByteRequest
    from zarr.buffer import default_buffer_prototype
    from zarr.core.sync import sync

B = TypeVar("B")

_zarr: Any = zarr  # to the type checker, which sees one release

_UNKNOWN_ARRAY = {
    "zarr_format": 3, "node_type": "array", "data_type": "uint8", "fill_value": 0,
    "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "codecs": [{"name": "bytes"}],
}  # fmt: skip
"""What the document of an array says until its own is set, besides its shape."""

_READ_ONLY = Abilities(write=False, change=False, why="this store was opened for reading, or cannot be written")
_ZIP_IS_OPEN = replace(
    _READ_ONLY, why="a ZipStore that is open is read only here; give the path of the zip file to write it"
)


class ZarrPythonStore(RemoteStore):
    """One Zarr file in a store of zarr-python."""

    def __init__(self, store: Any, path: str, location: str) -> None:
        super().__init__(location)
        self.store = store
        self.path = path
        inner = getattr(store, "store", None)  # of obstore
        is_memory = isinstance(store, zarr.storage.MemoryStore) or type(inner).__name__ == "MemoryStore"
        # if two sessions of Icechunk change the same data, the second one cannot commit
        self.of_one_process = is_memory or location.startswith("memory://") or _is_icechunk(store)
        if _is_icechunk(store):
            why = "this session of Icechunk is read only" if store.read_only else "Icechunk knows Zarr format 3 only"
            is_open = not store.read_only
            self.abilities = Abilities(
                write=is_open, change=is_open, is_remote=True, consolidates=False, formats=(3,), why=why,
                strict_json=is_open, commits=is_open, open_ranges=False,
            )  # fmt: skip
        elif isinstance(store, zarr.storage.ZipStore):
            self.abilities = _ZIP_IS_OPEN
        else:
            writes = store.supports_writes and store.supports_deletes and not store.read_only
            self.abilities = replace(
                Abilities() if writes else _READ_ONLY,
                listing=bool(store.supports_listing),
                is_remote=not isinstance(store, zarr.storage.MemoryStore),
                control_characters=not isinstance(store, zarr.storage.ObjectStore),
            )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.of_one_process:
            raise not_shared(self.location)
        return ZarrPythonStore, (self.store, self.path, self.location), {"read_rules": self.read_rules}

    def neighbour(self, location: str) -> Store | None:
        store, scheme = self.store, self.location.partition("://")[0]
        if not isinstance(store, zarr.storage.FsspecStore) or location.partition("://")[0] != scheme:
            return None
        other = zarr.storage.FsspecStore(store.fs, path=store.fs._strip_protocol(location), read_only=True)
        return ZarrPythonStore(other, "", location)

    def _call(self, function: Callable[[], B], key: str, doing: str) -> B:
        def opened() -> B:
            # zarr opens its stores on use, but not a ZipStore
            if not self.store._is_open:
                try:
                    sync(self.store._ensure_open())
                except FileNotFoundError as error:
                    raise StoreNotFoundError("the file does not exist", remedy="Check the path.") from error
            return function()

        return super()._call(opened, key, doing)

    def _full(self, key: str) -> str:
        return f"{self.path}/{key}" if self.path and key else self.path or key

    def _get(self, key: str) -> bytes | None:
        value = sync(self.store.get(self._full(key), default_buffer_prototype()))
        return None if value is None else value.to_bytes()

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        parts = []
        for start, stop in ranges:
            request = SuffixByteRequest(-start) if stop is None else RangeByteRequest(start, stop)
            value = sync(self.store.get(self._full(key), default_buffer_prototype(), byte_range=request))
            if value is None:
                return None
            parts.append(value.to_bytes())
        return parts

    def _put_value(self, key: str, value: bytes) -> None:
        buffer = default_buffer_prototype().buffer.from_bytes(value)
        sync(self.store.set(self._full(key), buffer))

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            sync(self.store.delete(self._full(key)))

    def _keys(self, prefix: str) -> list[str]:
        async def listed(start: str) -> list[str]:
            return [key async for key in self.store.list_prefix(start)]

        start = self._full(prefix)
        names = sync(listed(f"{start}/" if start else ""))
        cut = len(self.path) + 1 if self.path else 0
        return [name[cut:] for name in names]

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        keys = self._keys(prefix)
        return zip(keys, at_once(lambda key: int(sync(self.store.getsize(self._full(key)))), keys), strict=True)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        self._check_listing()
        return iter(self._call(lambda: self._keys(prefix), prefix, "listed"))

    def exists(self) -> bool:
        if self.path or not self.abilities.listing:
            return bool(self.get_many([".zgroup", "zarr.json", ".zarray"]))
        return not self._call(lambda: sync(self.store.is_empty("")), "", "listed")


class IcechunkStore(ZarrPythonStore):
    """One Zarr file in a session of Icechunk, which refuses chunks outside of the array in its document.

    A writer sets the document of an array that grows last, when its shape is known. Until then the session, which
    nobody else sees, has a document with a shape that includes the chunks.
    """

    def __init__(self, store: Any, path: str, location: str) -> None:
        super().__init__(store, path, location)
        self._order = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        if not self.store.read_only:
            raise not_shared(self.location, "a session of Icechunk is written by one process")
        return IcechunkStore, (self.store, self.path, self.location), {"read_rules": self.read_rules}

    def has_changes(self) -> bool:
        return bool(self.store.session.has_uncommitted_changes)

    def _end_session(self, message: str | None) -> None:
        session = self.store.session
        if message is None:
            self._call(session.discard_changes, "", "discarded")
        elif self.has_changes():
            self._call(lambda: session.commit(message), "", "committed")

    def _put_value(self, key: str, value: bytes) -> None:
        from icechunk import IcechunkError

        with self._order:
            try:
                super()._put_value(key, value)
                return
            except IcechunkError:
                if is_document(key):
                    raise
            # the chunk is outside of the array, or has none: the document gets a shape that includes the chunk
            node = node_of(key).strip("/")
            name = f"{node}/zarr.json".lstrip("/")
            index = [int(number) for number in re.findall(r"\d+", key[len(node) :])]
            text = self._get(name)
            if text is None:
                array: dict[str, Any] = {**_UNKNOWN_ARRAY, "shape": [2**31] * len(index)}
                array["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [1] * len(index)}}
            else:
                array = load(text, key=name)
                chunks = array["chunk_grid"]["configuration"]["chunk_shape"]
                rows = zip(array["shape"], index, chunks, strict=True)
                array["shape"] = [max(length, (position + 1) * chunk) for length, position, chunk in rows]
            super()._put_value(name, dump(array))
            super()._put_value(key, value)

    def _remove(self, keys: Sequence[str]) -> None:
        # chunks before their array: Icechunk refuses a chunk whose array is gone
        for key in sorted(keys, key=lambda key: key.count("/"), reverse=True):
            with suppress(KeyError):
                super()._remove([key])


def _is_icechunk(store: Any) -> bool:
    return type(store).__module__.partition(".")[0] == "icechunk"


def store_of_zarr(source: Any) -> Store | None:
    """Return the file in a store or group of zarr-python, a session of Icechunk or a store of obstore, else None."""
    path, is_read_only = "", False
    if isinstance(source, zarr.Group):
        is_read_only, source = source.read_only, source if _IS_ZARR_2 else source.store_path
        source, path = source.store, source.path
    elif not _IS_ZARR_2 and isinstance(source, zarr.storage.StorePath):
        source, path = source.store, source.path
    is_of_obstore = type(source).__module__.partition(".")[0] == "obstore"
    if _IS_ZARR_2:
        if is_of_obstore:
            return clouds.store_of_bucket(source)
        is_store = isinstance(source, _zarr.storage.BaseStore)
        return _of_zarr_2(source, path, is_read_only=is_read_only) if is_store else None
    if _is_icechunk(source) and isinstance(getattr(source, "store", None), zarr.abc.store.Store):
        source = source.store  # of a session
    if is_of_obstore:
        source = zarr.storage.ObjectStore(source)
    # by obstore itself, which reads near ranges with one request, and streams values
    if isinstance(source, zarr.storage.ObjectStore) and not source.read_only:
        bucket = clouds.store_of_bucket(source.store, path)
        if bucket is not None:
            return bucket
    return _of_zarr_3(source, path) if isinstance(source, zarr.abc.store.Store) else None


def _of_zarr_3(store: zarr.abc.store.Store, path: str) -> Store:
    root: Any = None
    if isinstance(store, zarr.storage.LocalStore):
        root = store.root
    elif isinstance(store, zarr.storage.FsspecStore):
        # fsspec's local file system makes no folders by default, so zarr cannot write to a new "file://" path
        root = store.path if clouds.is_local_filesystem(getattr(store.fs, "sync_fs", store.fs)) else None
    if root is not None:
        folder = LocalStore(os.path.abspath(os.path.join(str(root), path)))
        if store.read_only:
            folder.abilities = _READ_ONLY
        return folder
    base = _location(store)
    kind = IcechunkStore if _is_icechunk(store) else ZarrPythonStore
    group = kind(store, path, f"{base}/{path}" if path else base)
    group.group_above = partial(_of_zarr_3, store, path.rpartition("/")[0]) if path else None
    return group


def _location(store: Any) -> str:
    """Return the URL of a store, or an id in this process if it has none."""
    if isinstance(store, zarr.storage.ZipStore):
        return os.path.abspath(str(store.path))
    if isinstance(store, zarr.storage.FsspecStore):
        return str(store.fs.unstrip_protocol(store.path)).rstrip("/")
    inner = store.store if isinstance(store, zarr.storage.ObjectStore) else store
    url = clouds.url_of_bucket(inner) or getattr(inner, "url", None)  # the last: of a web server
    return url.rstrip("/") if isinstance(url, str) else f"object://{id(inner):x}"


def _of_zarr_2(store: Any, path: str, *, is_read_only: bool = False) -> Store:
    is_url = isinstance(store, _zarr.storage.FSStore)
    adapted: Store
    if isinstance(store, _zarr.storage.DirectoryStore) or (is_url and clouds.is_local_filesystem(store.fs)):
        adapted = LocalStore(os.path.abspath(os.path.join(str(store.path), path)))
    elif isinstance(store, _zarr.storage.ZipStore) and not path:
        adapted = ZipStore(os.path.abspath(str(store.path)))
        adapted.abilities = _ZIP_IS_OPEN
    else:
        base = str(store.fs.unstrip_protocol(store.path)).rstrip("/") if is_url else f"object://{id(store):x}"
        adapted = MemoryStore(store, f"{base}/{path}" if path else base, path=path)
        is_memory = isinstance(store, _zarr.storage.MemoryStore) or base.startswith("memory://")
        adapted.of_one_process = is_memory or isinstance(getattr(store, "_mutable_mapping", None), dict)
        adapted.group_above = partial(_of_zarr_2, store, path.rpartition("/")[0]) if path else None
    if is_read_only or not store.is_writeable():
        adapted.abilities = _READ_ONLY
    return adapted


# ---- files as groups and arrays of zarr-python ---------------------------------------------------------------------


class _View(getattr(zarr.storage, "Store", object)):  # type: ignore[misc]
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
        # most documents have no such codec, and are not parsed
        filters = load(data, key=key).get("filters") if b"pickle" in data else None
        if any(isinstance(config, dict) and config.get("id") == "pickle" for config in filters or ()):
            problem, path = "zarr-python 2 would run code to decode this array", absolute(key.rpartition("/")[0])
            remedy = "Index the dataset itself, which decodes pickles as data."
            raise UnsafeDataError(problem, store=self._store.location, path=path, remedy=remedy)

    def __setitem__(self, *_: object) -> None:
        raise _zarr.errors.ReadOnlyError

    __delitem__ = __setitem__

    def __iter__(self) -> Iterator[str]:
        return self._store.list_prefix("")

    def __len__(self) -> int:
        return sum(1 for _ in self)


def opens(zarr_format: int | None) -> bool:
    """Return whether the zarr-python that is installed opens files of a format; None: of an unknown one."""
    return zarr_format != 3 or not _IS_ZARR_2


def open_zarr_group(store: Store, zarr_format: int | None = None) -> Any:
    """Return the file as a ``zarr.Group``, without using a consolidated document, which may be stale."""
    open_group: Callable[..., Any] = zarr.open_group if _IS_ZARR_2 else partial(zarr.open_group, use_consolidated=False)
    remedy = "Check the path; a file of HDMF or NWB has a group at its root."
    return _opened(open_group, store, "", zarr_format, remedy)


def open_zarr_array(store: Store, path: str, zarr_format: int) -> Any:
    """Return the array at ``path``, of that format, as a ``zarr.Array``."""
    remedy = (
        "Index the dataset itself. zarr needs version 3.3 or newer, and codecs of other packages in its own registry."
    )
    return _opened(zarr.open_array, store, path, zarr_format, remedy)


def _opened(function: Callable[..., Any], store: Store, path: str, zarr_format: int | None, remedy: str) -> Any:
    try:
        if not opens(zarr_format):
            raise ValueError("it opens Zarr format 2 only")
        options = {} if _IS_ZARR_2 else {"zarr_format": zarr_format}
        return function(_zarr_location(store.unwrapped), mode="r", path=path, **options)
    except (FileNotFoundError, ValueError, TypeError, KeyError) as error:
        problem = f"zarr-python {zarr.__version__} cannot open this ({error})"
        raise NotZarrError(problem, store=store.location, path=absolute(path), remedy=remedy) from error


def _zarr_location(store: Store) -> Any:
    """Return the argument for zarr's functions: a path, or a store."""
    if _IS_ZARR_2:
        return _View(store)
    # imported here: groups of local files are opened without asyncio and aiohttp
    from hdmf_zarr_backend.store.web import WebStore

    if isinstance(store, LocalStore):
        return store.root
    if isinstance(store, ZarrPythonStore):
        return zarr.storage.StorePath(store.store, store.path)
    settings = clouds.object_settings(store.location, store.options) if isinstance(store, WebStore) else None
    if settings is not None:
        return zarr.storage.ObjectStore(clouds.ObjectStore(store.location, settings, {}).opened, read_only=True)
    if isinstance(store, clouds.ObjectStore):
        return zarr.storage.ObjectStore(store.opened, read_only=not store.abilities.write)
    if isinstance(store, (clouds.FsspecStore, WebStore)):
        options = {name: value for name, value in store.options.items() if name not in clouds.ANY_STORE}
        return zarr.storage.FsspecStore.from_url(store.location, storage_options=options, read_only=True)
    if isinstance(store, MemoryStore):
        buffers: Any = {key: zarr.buffer.cpu.Buffer.from_bytes(value) for key, value in store.mapping.items()}
        return zarr.storage.MemoryStore(buffers)
    if type(store) is ZipStore:
        return zarr.storage.ZipStore(store.location, mode="r")
    remedy = "Open a directory, a zip file or a URL."
    raise NotZarrError("zarr has no view of this store", store=store.location, remedy=remedy)
