"""A Zarr file in one zip file: read locally or from a server, and written in one pass, each key once.

The entries are not compressed (chunks are compressed already), are in the order in which they were set, and have a
constant date, so that the same content makes the same file.
"""

from __future__ import annotations

import copy
import io
import lzma
import os
import struct
import threading
import weakref
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.errors import NotZarrError, StoreError, ZarrBackendError, at
from hdmf_zarr_backend.store.base import (
    Abilities,
    Range,
    Store,
    check_inside,
    check_value_size,
    close_read,
    is_document,
    os_errors,
)
from hdmf_zarr_backend.store.local import READING, follow_link, read_part
from hdmf_zarr_backend.store.memory import not_shared
from hdmf_zarr_backend.store.remote import get_at_once

SUFFIX = ".zip"

_DATE = (1980, 1, 1, 0, 0, 0)
_MODE = 0o644 << 16
_STEP = 2**20
_SMALL_STEP = 2**12
_TAIL_BYTES = 2**18
_BUFFER = 2**16
_HEADER_BYTES = 30 + 256  # of the header of an entry, without its name: most extra fields are shorter
_DAMAGE = (
    zipfile.BadZipFile, RuntimeError, ValueError, OverflowError, EOFError, struct.error, zlib.error, lzma.LZMAError,
)  # fmt: skip
"""Errors of `zipfile` for a directory or an entry that is invalid, encrypted, or compressed in an unusual way."""


class ZipStore(Store):
    """A zip file that exists, or will be written as a `NewZipStore`."""

    abilities = Abilities(change=False, why="a zip file cannot be changed once it is written")

    def __init__(self, path: str) -> None:
        self.location = path
        self.zip_file = follow_link(path)
        self._archive: Any = None  # a zipfile.ZipFile
        self._opened = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return ZipStore, (self.location,), {"read_rules": self.read_rules}

    def _zip(self) -> Any:
        if self._archive is not None:
            return self._archive
        remedy = "It may be cut short; fetch or write it again."
        with self._opened, self._errors(NotZarrError, "this is not a zip file", remedy):
            if self.exists() and self._archive is None:
                archive = zipfile.ZipFile(self._file())
                # some programs of Windows separate names by backslashes; chunks that are not found are fill values
                if not any("/" in name for name in archive.NameToInfo):
                    for info in archive.filelist:
                        info.filename = info.filename.replace("\\", "/")
                    archive.NameToInfo = {info.filename: info for info in archive.filelist}
                self._archive = archive
            return self._archive

    @contextmanager
    def _errors(self, kind: type[StoreError], problem: str, remedy: str, key: str = "") -> Iterator[None]:
        """Convert errors of the system, and those of a file that is damaged or encrypted."""
        try:
            with os_errors(self.location, "read", key):
                yield
        except ZarrBackendError:
            raise
        except _DAMAGE as error:
            raise kind(f"{problem} ({error})", store=self.location, remedy=remedy) from error

    def _file(self) -> Any:
        # Windows has no preadv, and no forks
        return io.BufferedReader(_LocalFile(self.location)) if hasattr(os, "preadv") else self.location

    def get(self, key: str) -> bytes | None:
        check_inside(key, self.location)
        info = self._info(key)
        if info is None:
            return None
        size = max(info.file_size, info.compress_size)
        check_value_size(self, key, size, is_inflated=info.compress_type != zipfile.ZIP_STORED)
        # zipfile itself would decompress up to two gigabytes in one step, whatever size the directory states; for bzip2
        # and LZMA the step counts compressed bytes
        step = {zipfile.ZIP_STORED: size, zipfile.ZIP_DEFLATED: _STEP}.get(info.compress_type, _SMALL_STEP)
        with self._open(info, self._archive_of(info, info.compress_size)) as file:
            return b"".join(iter(lambda: file.read(step), b""))

    def _info(self, key: str) -> zipfile.ZipInfo | None:
        archive = self._zip()
        return None if archive is None else archive.NameToInfo.get(key)

    def _archive_of(self, info: zipfile.ZipInfo, size: int) -> Any:
        """Return the zip file to read the first ``size`` stored bytes of an entry from."""
        return self._archive

    @contextmanager
    def _open(self, info: zipfile.ZipInfo, archive: zipfile.ZipFile) -> Iterator[Any]:
        key = info.filename
        remedy = "Fetch or write the file again, without encryption."
        errors = self._errors(StoreError, f"the entry {key!r} cannot be read", remedy, key)
        with errors, archive.open(info) as file:
            yield file

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        infos = {key: info for key in keys if (info := self._info(key)) is not None}
        size = sum(info.file_size for key, info in infos.items() if is_document(key))
        # before the first is read: a crafted directory may name one document a million times
        with at(self.location):
            what = f"the metadata documents have {size:,} bytes"
            self.read_rules.limits.check("max_document_bytes", size, what)
        return get_at_once(self, list(infos)) if self.abilities.is_remote else super().get_many(infos)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        info = self._info(key)
        # a part of a compressed entry cannot be found without all that is before it
        if info is None or info.compress_type != zipfile.ZIP_STORED:
            return super().get_ranges(key, ranges)
        with self._open(info, self._archive_of(info, 0)) as file:
            return [read_part(file, *slice(start, stop).indices(info.file_size)[:2]) for start, stop in ranges]

    def _set(self, key: str, value: bytes) -> None:
        self._refuse_change()

    def _delete(self, keys: Iterable[str]) -> None:
        self._refuse_change()

    def sizes(self, prefix: str) -> dict[str, int]:
        archive, start = self._zip(), f"{prefix}/" if prefix else ""
        infos = [] if archive is None else archive.infolist()
        values = (info for info in infos if info.filename.startswith(start) and not info.is_dir())
        return {info.filename: info.file_size for info in values}

    def exists(self) -> bool:
        return os.path.lexists(self.location)


class NewZipStore(ZipStore):
    """A zip file that is being written."""

    def __init__(self, path: str, location: str) -> None:
        super().__init__(location)
        self.zip_file = None  # does not exist yet
        self._writing = threading.Lock()
        self._archive = zipfile.ZipFile(path, "x", zipfile.ZIP_STORED, allowZip64=True)
        _new.add(self)

    def __reduce__(self) -> tuple[Any, ...]:
        raise not_shared(self.location, "a zip file is written by one process")

    def get(self, key: str) -> bytes | None:
        # zipfile refuses to read while an entry is being written
        with self._writing:
            return super().get(key)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        return Store.get_ranges(self, key, ranges)

    def _set(self, key: str, value: bytes) -> None:
        check_inside(key, self.location)
        with self._writing:
            self._drop(key)
            info = zipfile.ZipInfo(key, _DATE)
            info.external_attr = _MODE
            with os_errors(self.location, "written", key):
                self._archive.writestr(info, value)

    def _drop(self, key: str) -> None:
        """Leave an entry out of the directory; its bytes stay, since a zip file is written in one pass."""
        info = self._archive.NameToInfo.pop(key, None)
        if info is not None:
            self._archive.filelist.remove(info)

    def _delete(self, keys: Iterable[str]) -> None:
        with self._writing:
            for key in keys:
                self._drop(key)

    def close(self) -> None:
        """Write the directory of the zip file, which completes it."""
        self._archive.close()


_new: weakref.WeakSet[NewZipStore] = weakref.WeakSet()


def _forget_all() -> None:
    """Redirect the open files of a fork to the null device, since it would write buffered bytes when it ends."""
    nowhere = os.open(os.devnull, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    for store in list(_new):
        file = store._archive.fp
        if file is not None:
            os.dup2(nowhere, file.fileno(), inheritable=False)
    os.close(nowhere)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


# ---- on a server ---------------------------------------------------------------------------------------------------


class RemoteZipStore(ZipStore):
    """The zip file ``name`` in a folder on a server, read by ranges of bytes.

    After its size, its end is requested once and kept: it has the directory, and often the consolidated document, which
    is written last. A value is one request, for its header and its bytes.
    """

    abilities = Abilities(write=False, change=False, is_remote=True, why="a zip file on a server is read only")

    def __init__(self, location: str, folder: Store, name: str) -> None:
        super().__init__(location)
        self.zip_file = None
        self.options = folder.options
        self._folder = folder
        self._name = name
        self._size: int | None = None
        self._end = (0, b"")
        self._offsets: dict[str, int] = {}  # of the bytes of entries

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteZipStore, (self.location, self._folder, self._name), {"read_rules": self.read_rules}

    def exists(self) -> bool:
        if self._size is None:
            self._folder.read_rules = self.read_rules
            state = self._folder.state(self._name)
            self._size = None if state is None else state.size
        return self._size is not None

    def read(self, start: int, stop: int) -> bytes:
        """Return the bytes ``start:stop`` of the zip file, fewer at its end."""
        stop = min(stop, self._size or 0)
        first, end = self._end
        if start >= first and end:
            return end[start - first : stop - first]
        part = self._folder.get_range(self._name, start, stop) if start < stop else b""
        if part is None or len(part) < stop - start:
            problem = "the file on the server is shorter than it was"
            raise StoreError(problem, store=self.location, remedy="Open the file again.")
        return part

    def _file(self) -> Any:
        size = self._size or 0
        first = max(0, size - _TAIL_BYTES)
        # requested here, since zipfile would report an error of the server as damage
        self._end = first, self.read(first, size)
        return io.BufferedReader(RangeFile(self.read, size), _BUFFER)

    def _archive_of(self, info: zipfile.ZipInfo, size: int) -> Any:
        # zipfile reads one value at a time; here each has a file object of its own, which requests it once
        archive, length = copy.copy(super()._archive_of(info, size)), self._size or 0
        most = min(_HEADER_BYTES + 3 * len(info.orig_filename) + size, length - info.header_offset)
        archive.fp = io.BufferedReader(RangeFile(self.read, length, info.header_offset), max(1, most))
        archive.fp.peek(1)
        return archive

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        info = self._info(key)
        if info is None or info.compress_type != zipfile.ZIP_STORED:
            return Store.get_ranges(self, key, ranges)
        # the directory has the position of the header, whose length is only in the header itself
        if key not in self._offsets:
            archive = self._archive_of(info, 0)
            with self._open(info, archive):
                self._offsets[key] = archive.fp.tell()
        offset = self._offsets[key]
        spans = [slice(start, stop).indices(info.file_size)[:2] for start, stop in ranges]
        return [self.read(offset + start, offset + max(start, stop)) for start, stop in spans]


class RangeFile(io.RawIOBase):
    """A file on a server as a seekable file; ``read`` returns the bytes from a start to a stop."""

    def __init__(self, read: Callable[[int, int], bytes], size: int, position: int = 0) -> None:
        self._read = read
        self._size = size
        self._position = position

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + (0, self._position, self._size)[whence]
        return self._position

    def readinto(self, buffer: Any) -> int:
        part = self._read(self._position, self._position + len(buffer))
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)


class _LocalFile(RangeFile):
    """A local file with a position of its own: a fork has that of the system in common with its parent."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, READING)
        weakref.finalize(self, close_read, self._descriptor)
        self._position, self._size = 0, os.fstat(self._descriptor).st_size

    def readinto(self, buffer: Any) -> int:
        count = os.preadv(self._descriptor, [buffer], self._position)
        self._position += count
        return count
