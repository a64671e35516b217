"""Byte ranges of a local file, read without the HDF5 library.

A `FileBytes` is small data (a name, a size, a time) that can be sent to another process and opens the file there when
it is first read. All that name the same state of a file share one descriptor: a file of thousands of datasets is opened
once.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from hdmf_zarr_backend.errors import ChunkError, StoreError

_State = tuple[str, int, int]
_open: weakref.WeakValueDictionary[_State, FileBytes] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class FileBytes:
    """A local file that must not change while it is read; made by `file_bytes`.

    Parameters
    ----------
    path : str
        Absolute path.
    size : int
        Its length in bytes.
    mtime_ns : int
        When it was changed last.
    """

    def __init__(self, path: str, size: int, mtime_ns: int) -> None:
        self.path = path
        self.size = size
        self.mtime_ns = mtime_ns
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"FileBytes({self.path!r}, {self.size}, {self.mtime_ns})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_shared, (self.path, self.size, self.mtime_ns))

    def check(self) -> None:
        """Make sure that the file is the one that was planned from.

        Raises
        ------
        StoreError
            It is gone, or its size or time has changed.
        """
        self._check(os.fstat(self._opened()))

    def identity(self) -> tuple[int, int]:
        """Return device and number of the file that is open."""
        state = os.fstat(self._opened())
        return state.st_dev, state.st_ino

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``; any number of threads may read at once.

        Raises
        ------
        ChunkError
            The file ends before.
        StoreError
            The file cannot be read, is gone, or has changed since it was planned from.
        """
        data = self._read(offset, size)
        while len(data) < size:  # the operating system gives at most 2 GB at a time
            more = self._read(offset + len(data), size - len(data))
            if not more:
                self.check()
                problem = f"the file ends before byte {offset + size}"
                raise ChunkError(problem, store=self.path, remedy="It is damaged: restore a copy.")
            data += more
        self.check()
        return data

    def _read(self, offset: int, size: int) -> bytes:
        descriptor = self._opened()
        try:
            if hasattr(os, "pread"):
                return os.pread(descriptor, size, offset)
            with self._lock:  # Windows
                os.lseek(descriptor, offset, os.SEEK_SET)
                return os.read(descriptor, size)
        except (OSError, OverflowError) as error:
            raise StoreError(f"{size} bytes from {offset} cannot be read ({error})", store=self.path) from error

    def _opened(self) -> int:
        descriptor = self._descriptor
        if descriptor is not None:
            return descriptor
        with self._lock:
            if self._descriptor is None:
                self._descriptor = self._open_checked()
            return self._descriptor

    def _open_checked(self) -> int:
        try:
            descriptor = os.open(self.path, os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise StoreError(f"the source cannot be opened ({error})", store=self.path) from error
        try:
            self._check(os.fstat(descriptor))
        except StoreError:
            os.close(descriptor)
            raise
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def _check(self, state: os.stat_result) -> None:
        if (state.st_size, state.st_mtime_ns) != (self.size, self.mtime_ns):
            raise StoreError(
                "the source has changed since it was planned from",
                store=self.path,
                remedy="Wait until nobody writes to it, and start again.",
            )


def file_bytes(path: str) -> FileBytes:
    """Return the bytes of the local file ``path`` as it is now.

    Raises
    ------
    StoreError
        There is no such file.
    """
    absolute = os.path.abspath(path)
    try:
        state = os.stat(absolute)
    except OSError as error:
        raise StoreError(f"the source cannot be opened ({error})", store=absolute) from error
    return _shared(absolute, state.st_size, state.st_mtime_ns)


def _shared(path: str, size: int, mtime_ns: int) -> FileBytes:
    with _lock:
        found = _open.get((path, size, mtime_ns))
        if found is None:
            found = _open[path, size, mtime_ns] = FileBytes(path, size, mtime_ns)
        return found
