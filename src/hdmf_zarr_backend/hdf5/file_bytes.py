"""Byte ranges of an HDF5 file, read without the HDF5 library: from a local file, or from a URL.

A `FileBytes` consists of a name, a size and a time. It can be sent to another process, which opens the file on the
first read. All instances for the same state of a file share one descriptor, so a file of thousands of datasets is
opened once.

A `RemoteFile` is read in blocks by ranged requests, by h5py or by offset. h5py makes many small reads that are mostly
close together, so recently used blocks are kept, and the index of a file takes few requests. While HDF5 waits for bytes
it holds its lock. The garbage collector must not free an h5py object in a thread of the store during that time, because
it would wait for the lock forever.

Source: issue 2019 of h5py for the lock.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hdmf_zarr_backend.errors import ChunkError, StoreError, StoreNotFoundError
from hdmf_zarr_backend.model.nesting import gc_paused
from hdmf_zarr_backend.stores.base import FileState, Store, resource_failure
from hdmf_zarr_backend.stores.opening import open_parent
from hdmf_zarr_backend.stores.zip import RangeFile

_State = tuple[str, int, int]
_open: weakref.WeakValueDictionary[_State, FileBytes] = weakref.WeakValueDictionary()
_lock = threading.Lock()

BLOCK = 2**18
"""Bytes of one request."""

_BLOCKS = 128
_LARGE = 4 * BLOCK

_known: weakref.WeakValueDictionary[str, RemoteFile] = weakref.WeakValueDictionary()


def _changed(location: str) -> StoreError:
    problem = "the source has changed since the copy was planned"
    return StoreError(problem, store=location, remedy="Wait until no program writes to it, and start again.")


def _unopened(error: OSError, path: str) -> Exception:
    problem = f"the source cannot be opened ({error})"
    return resource_failure(error, "opened", store=path) or StoreError(problem, store=path)


class FileBytes:
    """A local file that must not change while it is read, made by `file_bytes`."""

    def __init__(self, path: str, size: int, mtime_ns: int) -> None:
        self.path = path
        self.size = size
        self.mtime_ns = mtime_ns
        self._descriptor: int | None = None
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return (_shared, (self.path, self.size, self.mtime_ns))

    def check(self) -> None:
        """Check that the file is still in the recorded state."""
        self._check(os.fstat(self._opened()))

    def identity(self) -> tuple[int, int]:
        """Return device and inode number of the open file."""
        state = os.fstat(self._opened())
        return state.st_dev, state.st_ino

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``. Threads may read concurrently."""
        data = self._read(offset, size)
        while len(data) < size:  # one read returns at most 2 GB
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
            problem = f"{size} bytes from {offset} cannot be read ({error})"
            raise resource_failure(error, "read", store=self.path) or StoreError(problem, store=self.path) from error

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
            raise _unopened(error, self.path) from error
        try:
            self._check(os.fstat(descriptor))
        except StoreError:
            os.close(descriptor)
            raise
        weakref.finalize(self, os.close, descriptor)
        return descriptor

    def _check(self, state: os.stat_result) -> None:
        if (state.st_size, state.st_mtime_ns) != (self.size, self.mtime_ns):
            raise _changed(self.path)


def file_bytes(path: str) -> FileBytes:
    """Return the local file ``path`` in its present state."""
    absolute = os.path.abspath(path)
    try:
        state = os.stat(absolute)
    except OSError as error:
        raise _unopened(error, absolute) from error
    return _shared(absolute, state.st_size, state.st_mtime_ns)


def _shared(path: str, size: int, mtime_ns: int) -> FileBytes:
    with _lock:
        found = _open.get((path, size, mtime_ns))
        if found is None:
            found = _open[path, size, mtime_ns] = FileBytes(path, size, mtime_ns)
        return found


class RemoteFile:
    """A file at a URL, which must not change while it is read.

    Attributes
    ----------
    path : str
        The URL, for messages.
    state : FileState
        Size, ETag and time.
    """

    def __init__(self, location: str, options: Mapping[str, Any], state: FileState | None = None) -> None:
        self.path = location
        self.options = dict(options)
        self._store: Store
        self._store, self._name = open_parent(location, self.options)
        found = self._store.state(self._name)
        if found is None:
            raise StoreNotFoundError("the file does not exist", store=location, remedy="Check the URL.")
        if state is not None and found != state:
            raise _changed(location)
        self.state = found
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        with _lock:
            _known[repr(self)] = self

    def __repr__(self) -> str:
        return quote(self.path, safe="/:?&=%+,;@~!$'()*#[]")  # h5py uses it as file name, which must be ASCII

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.path, self.options, self.state)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self.state.size

    def check(self) -> None:
        """Check that the file is still in the recorded state."""
        if self._store.state(self._name) != self.state:
            raise _changed(self.path)

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``. Threads may read concurrently."""
        data = self.read_up_to(offset, size)
        if len(data) < size:
            problem = f"the file ends before byte {offset + size}"
            raise ChunkError(problem, store=self.path, remedy="It is damaged: restore a copy.")
        return data

    def read_up_to(self, offset: int, size: int) -> bytes:
        """Return at most ``size`` bytes from ``offset``, fewer at the end of the file."""
        size = max(0, min(size, self.size - offset))
        if size >= _LARGE:
            return self._request(offset, offset + size)
        first, last = offset // BLOCK, (offset + size - 1) // BLOCK
        data = b"".join(self._block(number) for number in range(first, last + 1))
        return data[offset - first * BLOCK :][:size]

    def _block(self, number: int) -> bytes:
        with self._lock:
            if number in self._blocks:
                self._blocks.move_to_end(number)
                return self._blocks[number]
        found = self._request(number * BLOCK, min((number + 1) * BLOCK, self.size))
        with self._lock:
            self._blocks[number] = found
            while len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        return found

    def _request(self, start: int, stop: int) -> bytes:
        with gc_paused():
            found = self._store.get_range(self._name, start, stop)
        if found is None:
            raise StoreNotFoundError("it was deleted while it was read", store=self.path, remedy="Start again.")
        return found

    def stream(self) -> _Stream:
        """Return the file as a stream for h5py."""
        return _Stream(self)


class _Stream(RangeFile):
    """A `RemoteFile` for h5py, which takes its ``repr`` as the name of the file."""

    def __init__(self, file: RemoteFile) -> None:
        super().__init__(lambda start, stop: file.read_up_to(start, stop - start), file.size)
        self._file = file

    def __repr__(self) -> str:
        return repr(self._file)


def remote_file(name: str) -> RemoteFile | None:
    """Return the open `RemoteFile` with a name of h5py, None for other files."""
    with _lock:
        return _known.get(name)


def _again(location: str, options: Mapping[str, Any], state: FileState) -> RemoteFile:
    """Return the file in another process; all datasets share one."""
    same = (file for file in list(_known.values()) if (file.path, file.state) == (location, state))
    return next(same, None) or RemoteFile(location, options, state)
