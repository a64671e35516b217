"""Changed chunks of sharded arrays: kept encoded until their shards are written.

Changing a chunk means rewriting its shard, so a shard is written once, with all its changes; its unchanged chunks are
copied as they are stored.
"""

from __future__ import annotations

import math
import operator
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.objects import Array
from hdmf_zarr_backend.arrays.shards import ShardReader, ShardWriter, chunks_in_shard, inner_grid, shard_grid, shard_of
from hdmf_zarr_backend.errors import ChunkError, StoreError
from hdmf_zarr_backend.model.nodes import absolute, join
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.failures import resource_failure
from hdmf_zarr_backend.stores.transaction import Change

Index = tuple[int, ...]

SPOOLED_BYTES = 16 * 2**20
"""Bytes of encoded chunks that are kept in memory; more are kept in an anonymous temporary file."""


class WaitingShards:
    """Collects encoded chunks of one array in any order, and writes its shards.

    Attributes
    ----------
    size : int
        Number of chunks of a shard.
    """

    def __init__(self, store: Store, path: str, array: StoredArray, stored: Index | None = None) -> None:
        # the folder of a local file has space for a shard when the temporary folder may not
        folder = store.folder if store.folder is not None and os.path.isdir(store.folder) else None
        self._file: Any = tempfile.SpooledTemporaryFile(SPOOLED_BYTES, dir=folder)  # noqa: SIM115
        self._store = store
        self._path = path
        self._array = array
        self._stored = stored
        self.size = math.prod(inner_grid(array))
        self._lock = threading.Lock()
        self._positions: dict[Index, dict[Index, tuple[int, int, int]]] = defaultdict(dict)
        self._written: set[Index] = set()
        self._end = 0

    def __del__(self) -> None:
        self._file.close()  # after a failed write, incomplete shards are discarded

    def shard_of(self, index: Index) -> Index:
        """Return the shard of the chunk at ``index``."""
        return shard_of(self._array, index)

    def set(self, index: Index, data: bytes) -> None:
        """Set the stored bytes of a chunk, replacing earlier ones. Safe for threads."""
        with self._lock:
            positions = self._positions[self.shard_of(index)]
            start, _, capacity = positions.get(index, (0, 0, -1))
            if len(data) > capacity:
                start, capacity = self._end, len(data)
                self._end += capacity
            self._file.seek(start)
            self._file.write(data)
            positions[index] = (start, len(data), capacity)

    def waiting(self, index: Index) -> bytes | None:
        """Return the stored bytes of a chunk that waits, None if it does not."""
        with self._lock:
            position = self._positions.get(self.shard_of(index), {}).get(index)
            return None if position is None else self._read(*position[:2])

    def shards(self) -> list[Index]:
        """Return the shards with chunks that wait."""
        return [shard for shard, positions in self._positions.items() if positions]

    def is_full(self, shard: Index) -> bool:
        """Return whether all chunks of a shard that hold elements of the array wait."""
        positions = self._positions.get(shard, {})
        return all(index in positions for index in chunks_in_shard(self._array, shard))

    def is_stored(self, shard: Index) -> bool:
        """Return whether a shard was stored before, or has been written."""
        is_old = self._stored is not None and all(i < n for i, n in zip(shard, self._stored, strict=True))
        return is_old or shard in self._written

    def _read(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        data: bytes = self._file.read(length)
        if len(data) != length:
            problem = "a chunk that waited for its shard cannot be read"
            raise ChunkError(problem, remedy="Check the disk, and run again.")
        return data

    def write(self, shard: Index, change: Change) -> None:
        """Write a shard: the chunks that were set, and the stored ones for all others."""
        positions = self._positions.pop(shard, {})
        reader = ShardReader(self._store, self._path, self._array)
        before = reader.extents(shard) if self.is_stored(shard) else {}
        kept: Iterator[bytes] = reader.stored(shard, before.keys() - positions.keys()) if before else iter(())
        with change.stream(join(self._path, self._array.chunk_name(shard))) as write:
            made = ShardWriter(write, self._array)
            for index in dict.fromkeys((*before, *chunks_in_shard(self._array, shard), *sorted(positions))):
                if index in positions:
                    with self._lock:
                        data = self._read(*positions[index][:2])
                    made.add(index, data)
                elif index in before:
                    made.add(index, next(kept))
                elif not self.is_stored(shard):  # a stored shard of another program may lack chunks
                    raise ChunkError(f"the chunk {index} of a shard was not written", path=self._path)
            made.finish()
        self._written.add(shard)
        with self._lock:  # the file is used again from its start
            if not any(self._positions.values()):
                self._positions.clear()
                self._file.seek(0)
                self._file.truncate()
                self._end = 0

    def close(self) -> None:
        """Discard the chunks that wait."""
        self._positions.clear()
        self._file.close()


ShardId = tuple[str, Index]
"""Path of an array, and index of a shard."""


class ChangedShards:
    """Collects changed chunks of the arrays of a file, and writes their shards."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, tuple[ChunkReader, WaitingShards]] = {}
        self._shared: dict[str, ChunkReader] = {}

    def reader_of(self, reader: ChunkReader) -> ChunkReader:
        """Return the shared reader of a sharded array, which forgets the indices of shards when they are written."""
        if reader.array.shards is None:
            return reader
        known = self._shared.setdefault(reader.path, reader)
        if known.array is not reader.array:
            known = self._shared[reader.path] = reader
        return known

    def add(self, reader: ChunkReader, index: Index, data: bytes, grid: Index) -> None:
        """Add the stored bytes of a changed chunk of an array, which has a ``grid`` of chunks on disk."""
        where = {"store": self._store.location, "path": absolute(reader.path)}
        try:
            if reader.path not in self._waiting:
                stored = shard_grid(reader.array, grid)
                self._waiting[reader.path] = (reader, WaitingShards(self._store, reader.path, reader.array, stored))
            self._waiting[reader.path][1].set(index, data)
        except OSError as error:
            raise resource_failure(error, "kept until its shard is written", what="a chunk", **where) or StoreError(
                f"a chunk could not be kept until its shard is written ({error})",
                remedy="Check the disk, and run again.",
                **where,
            ) from error

    def chunk(self, path: str, index: Index) -> Array | None:
        """Return a chunk that waits, which the caller may change; None if it does not wait."""
        if path not in self._waiting:
            return None
        reader, shards = self._waiting[path]
        data = shards.waiting(index)
        return None if data is None else reader.decode(index, data)

    def changed(self) -> list[ShardId]:
        """Return all shards with chunks that wait, inside of the present shape of the array."""
        found = []
        for path, (reader, waiting) in self._waiting.items():
            grid = shard_grid(reader.array)
            inside = (shard for shard in waiting.shards() if all(map(operator.lt, shard, grid)))
            found += [(path, shard) for shard in inside]
        return sorted(found)

    def full(self) -> list[ShardId]:
        """Return the shards all of whose chunks wait, except at the end of the first axis, where the array may grow."""
        return [
            (path, shard)
            for path, shard in self.changed()
            if shard[0] + 1 < shard_grid(self._waiting[path][0].array)[0] and self._waiting[path][1].is_full(shard)
        ]

    def write(self, shards: Iterable[ShardId], change: Change) -> None:
        """Write shards."""
        paths = set()
        try:
            for path, shard in shards:
                paths.add(path)
                self._waiting[path][1].write(shard, change)
        finally:  # those before a failure are written
            for path in paths:
                self._waiting[path][0].forget(path)

    def clear(self) -> None:
        """Discard the chunks that wait."""
        for path, (reader, shards) in self._waiting.items():
            shards.close()
            reader.forget(path)
        self._waiting.clear()
