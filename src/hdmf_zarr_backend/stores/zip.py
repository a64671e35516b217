"""A Zarr file in one zip file: read in place, and written in one pass, each key once.

The entries are stored as they are (the chunks are compressed already), in the order in which they were set, with a
date that says nothing, so that the same content gives the same file.

Source: issue "Format 3, shards, and any store, near or far", part 4.
"""

from __future__ import annotations

import io
import lzma
import os
import struct
import threading
import weakref
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from hdmf_zarr_backend.errors import (
    LimitError,
    NotZarrError,
    ReadOnlyStoreError,
    StoreError,
    StoreExistsError,
    UsageError,
    ZarrBackendError,
)
from hdmf_zarr_backend.stores.base import (
    Abilities,
    KeyStore,
    Range,
    check_inside,
    check_value_size,
    cut_ranges,
    is_document,
)
from hdmf_zarr_backend.stores.disk import followed, told
from hdmf_zarr_backend.stores.durable import sync_files, sync_folder
from hdmf_zarr_backend.stores.partials import Staged, partial_path
from hdmf_zarr_backend.stores.renames import place, replace

SUFFIX = ".zip"

_ABILITIES = Abilities(change=False, why="a zip file cannot be changed once it is written")
_REMEDY = "Export it to a directory, change that, and export it to a zip file again."
_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644 << 16
_STEP = 2**20
_SMALL_STEP = 2**12
_NO_ZIP = (zipfile.BadZipFile, RuntimeError, ValueError, OverflowError, struct.error)
"""What `zipfile` raises for a directory or an entry that makes no sense, is encrypted, or is compressed unusually."""


class ZipKeys(KeyStore):
    """A zip file that is there, or will be.

    Parameters
    ----------
    path : str
        Absolute path. A symbolic link is followed, once, when a new file is written.
    """

    abilities = _ABILITIES

    def __init__(self, path: str) -> None:
        self.location = path
        self.zip_file = self.path = followed(path)
        self._archive: zipfile.ZipFile | None = None
        self._opened = threading.Lock()

    def __repr__(self) -> str:
        return f"ZipKeys({self.location!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return ZipKeys, (self.location,), {"read_rules": self.read_rules}

    def _zip(self) -> zipfile.ZipFile | None:
        with self._opened, told(self.location, "read"):
            if self._archive is None and self.exists():
                try:
                    self._archive = zipfile.ZipFile(self._file())
                except ZarrBackendError:
                    raise
                except (IsADirectoryError, *_NO_ZIP) as error:
                    raise NotZarrError(
                        f"this is no zip file ({error})",
                        store=self.location,
                        remedy="It may be cut short; fetch or write it again.",
                    ) from error
            return self._archive

    def _file(self) -> Any:
        return self.location

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        archive = self._zip()
        check_inside(key, self.location)
        return None if archive is None else self._entry(archive, key)

    def _entry(self, archive: zipfile.ZipFile, key: str) -> bytes | None:
        try:
            info = archive.getinfo(key)
        except KeyError:
            return None
        self._check_entry(info)
        with self._reading(key), told(self.location, "read", key):
            return _inflated(archive, info)

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        """Turn what an entry that is damaged or encrypted raises into our error."""
        try:
            yield
        except ZarrBackendError:
            raise
        except (EOFError, zlib.error, lzma.LZMAError, OSError, *_NO_ZIP) as error:
            raise StoreError(
                f"the entry {key!r} cannot be read ({error})",
                store=self.location,
                remedy="Fetch or write the file again, without encryption.",
            ) from error

    def _check_entry(self, info: zipfile.ZipInfo) -> None:
        """Refuse a value that is larger than the limits, before memory is taken for it."""
        is_inflated = info.compress_type != zipfile.ZIP_STORED
        check_value_size(self, info.filename, info.file_size, is_inflated=is_inflated)

    def _check_documents(self, keys: Sequence[str]) -> None:
        """Refuse documents that are too large together, before the first of them is read."""
        archive = self._zip()
        known = archive.NameToInfo if archive is not None else {}
        size = sum(known[key].file_size for key in keys if key in known and is_document(key))
        what = f"the metadata documents have {size:,} bytes"
        try:
            self.read_rules.limits.check("max_document_bytes", size, what)
        except LimitError as error:
            raise error.located(store=self.location) from None

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        keys = list(keys)
        self._check_documents(keys)
        return super().get_many(keys)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        archive = self._zip()
        try:
            info = None if archive is None else archive.getinfo(key)
        except KeyError:
            return None
        if archive is None or info is None:
            return None
        if info.compress_type != zipfile.ZIP_STORED:
            value = self.get(key)
            return None if value is None else cut_ranges(value, ranges)
        parts = []
        with self._reading(key), told(self.location, "read", key), archive.open(info) as file:
            for start, stop in ranges:
                first, end, _ = slice(start, stop).indices(info.file_size)
                file.seek(first)
                parts.append(file.read(max(0, end - first)))
        return parts

    def set(self, key: str, value: bytes) -> None:
        """Refuse: a new zip file is written by `new_zip`, and none is changed."""
        raise ReadOnlyStoreError(_ABILITIES.why, store=self.location, remedy=_REMEDY)

    def delete(self, keys: Iterable[str]) -> None:
        """Refuse, as `set`."""
        raise ReadOnlyStoreError(_ABILITIES.why, store=self.location, remedy=_REMEDY)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        archive, start = self._zip(), f"{prefix}/" if prefix else ""
        infos = [] if archive is None else archive.infolist()
        sizes = {info.filename: info.file_size for info in infos if not info.is_dir()}
        return {name: size for name, size in sizes.items() if name.startswith(start)}

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        return os.path.lexists(self.location)


def _inflated(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return the value of an entry; one that becomes more than the directory states is damaged.

    `zipfile.ZipFile.read` bounds a step of the inflation by two gigabytes only, whatever the entry states.
    """
    value = io.BytesIO()
    with archive.open(info) as file:
        # of bzip2 and LZMA a step is so many compressed bytes
        step = _STEP if info.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) else _SMALL_STEP
        while piece := file.read(step):
            value.write(piece)
    return value.getvalue()


class NewZipKeys(ZipKeys):
    """A zip file that is being written.

    Parameters
    ----------
    path : str
        Where it is written.
    location : str
        Where it will be.
    """

    def __init__(self, path: str, location: str) -> None:
        super().__init__(location)
        self.zip_file = None  # it is not there yet
        self._writing = threading.Lock()
        self._archive = zipfile.ZipFile(path, "x", zipfile.ZIP_STORED, allowZip64=True)
        _new.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError("a zip file is written by one process", store=self.location, remedy='Use executor="threads".')

    def _zip(self) -> zipfile.ZipFile | None:
        return self._archive

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        with self._writing:
            return super().get(key)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        value = self.get(key)
        return None if value is None else cut_ranges(value, ranges)

    def set(self, key: str, value: bytes) -> None:
        """Add ``key``; what it was before (a chunk that was filled in two steps) is left out of the directory."""
        check_inside(key, self.location)
        with self._writing:
            archive = self._archive
            assert archive is not None
            self._leave_out(key)
            info = zipfile.ZipInfo(key, _DATE)
            info.external_attr = _MODE
            with told(self.location, "written", key):
                archive.writestr(info, value)

    def _leave_out(self, key: str) -> None:
        archive = self._archive
        assert archive is not None
        known = archive.NameToInfo.pop(key, None)
        if known is not None:
            archive.filelist.remove(known)

    def delete(self, keys: Iterable[str]) -> None:
        """Leave ``keys`` out of the directory of the zip file."""
        with self._writing:
            for key in keys:
                self._leave_out(key)

    def close(self) -> None:
        """Write the directory of the zip file, after which it is whole."""
        assert self._archive is not None
        self._archive.close()


@contextmanager
def new_zip(
    target: str, *, exclusive: bool = False, durable: bool = False, location: str | None = None
) -> Iterator[NewZipKeys]:
    """Give the keys of a zip file beside ``target`` that takes its place when the block ends without an error.

    Parameters
    ----------
    target : str
        Absolute path of the file. What is there is replaced.
    exclusive : bool
        Replace nothing.
    durable : bool
        Return when the file is on the disk itself.
    location : str, optional
        What the user calls the file, if it is not ``target`` (a symbolic link to it).

    Raises
    ------
    StoreExistsError
        Something has come to be at ``target`` that is not to be replaced.
    """
    partial, own = partial_path(target), Staged(target)
    with told(target, "written"):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        keys = NewZipKeys(partial, location or target)
    try:
        yield keys
        own.check()
        with told(target, "written"):
            keys.close()
            if durable:
                sync_files(partial)
            (_place if exclusive else replace)(partial, target)
            if durable:
                sync_folder(os.path.dirname(target))
    except BaseException:
        with suppress(OSError, ValueError):
            keys.close()
        own.discard(partial)
        raise


_new: weakref.WeakSet[NewZipKeys] = weakref.WeakSet()


def _forget_all() -> None:
    """Let a fork write nowhere: it has the file open as well, and would write what is buffered when it ends."""
    nowhere = os.open(os.devnull, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    for keys in list(_new):
        file = keys._archive.fp if keys._archive is not None else None
        if file is not None:
            os.dup2(nowhere, file.fileno(), inheritable=False)
    os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


def _place(partial: str, target: str) -> None:
    try:
        place(partial, target)
    except FileExistsError as error:
        raise StoreExistsError(
            "something has come to be there while this file was written, and is not replaced",
            store=target,
            remedy="Choose another path, or mode 'w' to replace it.",
        ) from error
