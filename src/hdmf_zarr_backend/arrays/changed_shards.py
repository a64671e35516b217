"""The changed chunks of the sharded arrays of an open file, encoded, until their shards are written.

To change a chunk is to write its shard anew, so a shard is written once, with all that has changed in it; what has not
is copied as it is stored.

Source: issue "Format 3, shards, and any store, near or far", part 3.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy.typing as npt

from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.shards import shard_grid
from hdmf_zarr_backend.arrays.waiting_shards import WaitingShards
from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.stores.base import KeyStore

Array = npt.NDArray[Any]
Index = tuple[int, ...]
Place = tuple[str, Index]
"""Path of an array, and index of a chunk or of a shard."""


class ChangedShards:
    """Takes changed chunks, and writes the shards that they lie in.

    Parameters
    ----------
    keys : KeyStore
        The store of the file.
    """

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._waiting: dict[str, tuple[ChunkReader, WaitingShards]] = {}
        self._shared: dict[str, ChunkReader] = {}

    def reader_of(self, reader: ChunkReader) -> ChunkReader:
        """Return the one reader of an array that is sharded: it forgets where chunks are when they are written."""
        if reader.node.shards is None:
            return reader
        known = self._shared.setdefault(reader.path, reader)
        if known.node is not reader.node:
            known = self._shared[reader.path] = reader
        return known

    def take(self, reader: ChunkReader, index: Index, data: bytes, grid: Index) -> None:
        """Take the stored bytes of a changed chunk of an array, which has a ``grid`` of chunks on disk.

        Raises
        ------
        StoreError
            There is no room for what waits.
        """
        if reader.path not in self._waiting:
            there = shard_grid(reader.node, grid)
            self._waiting[reader.path] = (reader, WaitingShards(self._keys, reader.path, reader.node, there))
        try:
            self._waiting[reader.path][1].set(index, data)
        except OSError as error:
            raise StoreError(
                f"a chunk could not be kept until its shard is written ({error})",
                store=self._keys.location,
                path=absolute(reader.path),
                remedy="Look at the disk, and run again.",
            ) from error

    def chunk(self, path: str, index: Index) -> Array | None:
        """Return a chunk that waits, which the caller may change; None where it does not."""
        if path not in self._waiting:
            return None
        reader, shards = self._waiting[path]
        data = shards.waiting(index)
        return None if data is None else reader.decode(index, data)

    def changed(self) -> list[Place]:
        """Return all shards that have chunks which wait, and that the array as it is now has."""
        found = []
        for path, (reader, waiting) in self._waiting.items():
            grid = shard_grid(reader.node)
            found += [
                (path, shard) for shard in waiting.shards() if all(i < n for i, n in zip(shard, grid, strict=True))
            ]
        return sorted(found)

    def full(self) -> list[Place]:
        """Return the shards of which all chunks wait; those at the end of the first axis may get more."""
        return [
            (path, shard)
            for path, shard in self.changed()
            if shard[0] + 1 < shard_grid(self._waiting[path][0].node)[0] and self._waiting[path][1].is_full(shard)
        ]

    def write(self, places: Iterable[Place]) -> None:
        """Write shards.

        Raises
        ------
        StoreError, ChunkError
            One cannot be written, or what is stored of one cannot be read.
        """
        paths = set()
        try:
            for path, shard in places:
                paths.add(path)
                self._waiting[path][1].write(shard)
        finally:  # those before a failure are written
            for path in paths:
                self._waiting[path][0].forget(path)

    def clear(self) -> None:
        """Give up what waits."""
        for path, (reader, shards) in self._waiting.items():
            shards.close()
            reader.forget(path)
        self._waiting.clear()
