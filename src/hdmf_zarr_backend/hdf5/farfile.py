"""An HDF5 file behind a URL, read in blocks by ranged requests: as h5py wants it, and by offsets.

h5py asks for a hundred bytes here and there, mostly near to what it asked for before; blocks that were used last are
kept, so that the index of a file takes few requests. While HDF5 waits for bytes it holds its lock; the garbage
collector must not free an object of h5py in a thread of the store then, since that would wait for the lock for ever.

Source: issue 2019 of h5py for the lock; issue "Format 3, shards, and any store, near or far", part 4.
"""

from __future__ import annotations

import io
import threading
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

from hdmf_zarr_backend.errors import ChunkError, StoreError, StoreNotFoundError
from hdmf_zarr_backend.stores.base import FileState, Store
from hdmf_zarr_backend.stores.gc_pause import gc_paused
from hdmf_zarr_backend.stores.locations import split_location
from hdmf_zarr_backend.stores.opening import open_folder

BLOCK = 2**18
"""Bytes of one request for the index."""

_BLOCKS = 128
_LARGE = 4 * BLOCK

_known: weakref.WeakValueDictionary[str, FarFile] = weakref.WeakValueDictionary()
_lock = threading.Lock()


class FarFile:
    """A file behind a URL that must not change while it is read.

    Parameters
    ----------
    location : str
        URL.
    options : mapping
        ``storage_options``.
    state : FileState, optional
        The state that it must be in; None: the present one.

    Attributes
    ----------
    path : str
        The URL, for messages.
    state : FileState
        Size, tag, time.

    Raises
    ------
    StoreNotFoundError
        Nothing is there.
    StoreError
        It has changed.
    """

    def __init__(self, location: str, options: Mapping[str, Any], state: FileState | None = None) -> None:
        self.path = location
        self.options = dict(options)
        folder, self._name = split_location(location)
        self._keys: Store = open_folder(folder, self.options)
        found = self._keys.state(self._name)
        if found is None:
            raise StoreNotFoundError("nothing is there", store=location, remedy="Check the URL.")
        if state is not None and found != state:
            raise self._changed()
        self.state = found
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._lock = threading.Lock()
        with _lock:
            _known[repr(self)] = self

    def __repr__(self) -> str:
        return quote(self.path, safe="/:?&=%+,;@~!$'()*#[]")  # h5py takes it for the name of the file, in ASCII

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.path, self.options, self.state)

    @property
    def size(self) -> int:
        """Bytes."""
        return self.state.size

    def check(self) -> None:
        """Make sure that the file is the one that was opened.

        Raises
        ------
        StoreError
            It is gone or has changed.
        """
        if self._keys.state(self._name) != self.state:
            raise self._changed()

    def _changed(self) -> StoreError:
        return StoreError(
            "the source has changed since it was planned from",
            store=self.path,
            remedy="Wait until nobody writes to it, and start again.",
        )

    def read(self, offset: int, size: int) -> bytes:
        """Return ``size`` bytes from ``offset``; any number of threads may read at once.

        Raises
        ------
        ChunkError
            The file ends before.
        StoreError
            It cannot be read.
        """
        data = self.read_up_to(offset, size)
        if len(data) < size:
            problem = f"the file ends before byte {offset + size}"
            raise ChunkError(problem, store=self.path, remedy="It is damaged: restore a copy.")
        return data

    def read_up_to(self, offset: int, size: int) -> bytes:
        """Return the bytes from ``offset``, fewer than ``size`` where the file ends."""
        size = max(0, min(size, self.size - offset))
        if size >= _LARGE:
            return self._request(offset, offset + size)
        first, last = offset // BLOCK, (offset + size - 1) // BLOCK
        data = b"".join(self._block(number) for number in range(first, last + 1))
        return data[offset - first * BLOCK :][:size]

    def _block(self, number: int) -> bytes:
        with self._lock:
            found = self._blocks.get(number)
            if found is not None:
                self._blocks.move_to_end(number)
                return found
        found = self._request(number * BLOCK, min((number + 1) * BLOCK, self.size))
        with self._lock:
            self._blocks[number] = found
            while len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        return found

    def _request(self, start: int, stop: int) -> bytes:
        with gc_paused():
            found = self._keys.get_range(self._name, start, stop)
        if found is None:
            raise StoreNotFoundError("it has vanished while it was read", store=self.path, remedy="Start again.")
        return found

    def stream(self) -> _Stream:
        """Return the file as h5py wants it."""
        return _Stream(self)


class _Stream(io.RawIOBase):
    """A position in a `FarFile`."""

    def __init__(self, file: FarFile) -> None:
        self.file = file
        self._position = 0

    def __repr__(self) -> str:
        return repr(self.file)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._position = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.file.size}[whence]
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        data = self.file.read_up_to(self._position, len(buffer))
        buffer[: len(data)] = data
        self._position += len(data)
        return len(data)


def far_file(name: str) -> FarFile | None:
    """Return the file that h5py knows by a name, None if it is none of these."""
    with _lock:
        return _known.get(name)


def _again(location: str, options: Mapping[str, Any], state: FileState) -> FarFile:
    """Return the file in another process; one for all datasets."""
    for found in list(_known.values()):
        if found.path == location and found.state == state:
            return found
    return FarFile(location, options, state)
