"""A store as this package uses it: keys and bytes, synchronous, and nothing else.

`KeyStore` is the contract between the rooms; `LocalKeys` is the local directory, done with the operating system's own
calls, since a node of an NWB file is a few hundred bytes and a detour through an event loop costs ten times that.
This module imports no zarr, so that the command line starts fast.
"""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Protocol

from hdmf_zarr_backend.errors import StoreError

_DOCUMENTS = frozenset({".zgroup", ".zarray", ".zattrs", "zarr.json"})


class KeyStore(Protocol):
    """Keys and bytes of one Zarr file.

    Attributes
    ----------
    location : str
        Absolute local path or URL of the file, without a trailing slash; what links and error messages name.
    """

    location: str

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``; a reader sees the old value or the new one, never a part."""

    def set_many(self, items: Mapping[str, bytes]) -> None:
        """Set several keys, in any order."""

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents, consolidated ones excepted."""

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""

    def exists(self) -> bool:
        """Tell whether anything is at the location."""


class LocalKeys:
    """A local directory.

    Parameters
    ----------
    root : str
        Absolute path of the directory. It need not exist.
    replace : bool
        Write each key beside its place and rename it there (for files that others may be reading). In a directory that
        nobody knows of yet this is not needed.
    location : str, optional
        What links and messages name, if it is not ``root`` (a directory that will be renamed).
    """

    def __init__(self, root: str, *, replace: bool = True, location: str | None = None) -> None:
        self.root = root
        self.location = location if location is not None else root
        self._replace = replace
        self._made: set[str] = set()

    def __repr__(self) -> str:
        return f"LocalKeys({self.root!r})"

    def _path(self, key: str) -> str:
        # a crafted document may name nodes such as "../../x": a key never leaves the store
        outside = ".." in key and ".." in key.split("/")
        if outside or key.startswith("/") or "\0" in key or (os.sep == "\\" and "\\" in key):
            raise StoreError(f"the key {key!r} leads out of the store", store=self.location, remedy="Do not trust it.")
        return f"{self.root}/{key}"

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except IsADirectoryError as error:
            raise StoreError(f"the key {key!r} is a directory", store=self.location) from error
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                return None  # nobody can have set it
            raise

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        return {key: value for key in keys if (value := self.get(key)) is not None}

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``."""
        path = self._path(key)
        parent = os.path.dirname(path)
        if parent not in self._made:
            os.makedirs(parent, exist_ok=True)
            self._made.add(parent)
        if not self._replace:
            _write_file(path, value)
            return
        partial = f"{path}.{uuid.uuid4().hex}.partial"
        try:
            _write_file(partial, value)
            os.replace(partial, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(partial)
            raise

    def set_many(self, items: Mapping[str, bytes]) -> None:
        """Set several keys."""
        for key, value in items.items():
            self.set(key, value)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        for key in keys:
            with suppress(FileNotFoundError, NotADirectoryError):
                os.unlink(self._path(key))

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents; arrays are not searched for chunks."""
        stack = [""]
        while stack:
            prefix = stack.pop()
            names = {entry.name: entry for entry in self._entries(prefix)}
            yield from (prefix + name for name in names if name in _DOCUMENTS)
            if ".zarray" not in names:
                stack.extend(f"{prefix}{name}/" for name, entry in names.items() if _is_folder(entry))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        return iter(self.sizes(prefix))

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        start = f"{prefix}/" if prefix else ""
        found: dict[str, int] = {}
        stack = [start]
        while stack:
            here = stack.pop()
            for entry in self._entries(here):
                if _is_folder(entry):
                    stack.append(f"{here}{entry.name}/")
                elif entry.is_file():
                    found[here + entry.name] = entry.stat().st_size
        return found

    def _entries(self, prefix: str) -> list[os.DirEntry[str]]:
        try:
            return list(os.scandir(f"{self.root}/{prefix}"))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        return os.path.lexists(self.root)

    def remove(self) -> None:
        """Delete the whole directory."""
        self._made.clear()
        shutil.rmtree(self.root)


class InlinedKeys:
    """A store some of whose values are at hand already; everything else goes to the store.

    Parameters
    ----------
    keys : KeyStore
        The store.
    inlined : dict
        ``{key: bytes}``.
    """

    def __init__(self, keys: KeyStore, inlined: dict[str, bytes]) -> None:
        self.keys = keys
        self.inlined = inlined
        self.location = keys.location

    def __repr__(self) -> str:
        return f"InlinedKeys({self.keys!r}, {len(self.inlined)} values)"

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        value = self.inlined.get(key)
        return value if value is not None else self.keys.get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        found: dict[str, bytes] = {}
        missing: list[str] = []
        for key in keys:
            if key in self.inlined:
                found[key] = self.inlined[key]
            else:
                missing.append(key)
        return {**found, **self.keys.get_many(missing)} if missing else found

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``; what was inlined under it is forgotten."""
        self.inlined.pop(key, None)
        self.keys.set(key, value)

    def set_many(self, items: Mapping[str, bytes]) -> None:
        """Set several keys."""
        for key, value in items.items():
            self.set(key, value)

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        gone = list(keys)
        for key in gone:
            self.inlined.pop(key, None)
        self.keys.delete(gone)

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents."""
        return self.keys.list_documents()

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        return self.keys.list_prefix(prefix)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        return self.keys.sizes(prefix)

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        return self.keys.exists()


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether to look into an entry; a link to a folder that it is itself in would never end."""
    if not entry.is_symlink():
        return entry.is_dir()
    folder, here = os.path.realpath(entry.path), os.path.realpath(os.path.dirname(entry.path))
    return os.path.isdir(folder) and os.path.commonpath([folder, here]) != folder


def _write_file(path: str, value: bytes) -> None:
    with open(path, "wb", buffering=0) as file:
        view = memoryview(value)
        while view.nbytes:
            view = view[os.write(file.fileno(), view) :]
