"""Encoded chunks of a sharded array, which wait in a file beside those of the store until their shard is written.

Chunks come in any order, and from any thread; a shard is written in the order of its chunks nevertheless, so that the
same values make the same bytes. One that is there already keeps the order that it has, and what is new comes last: most
chunks stay where they were.

Source: issue "Format 3, shards, and any store, near or far", part 3.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hdmf_zarr_backend.arrays.shards import ShardReader, ShardWriter, chunks_in_shard, inner_grid, shard_of
from hdmf_zarr_backend.errors import ChunkError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute, join
from hdmf_zarr_backend.stores.base import KeyStore

Index = tuple[int, ...]

SPOOLED_BYTES = 16 * 2**20
"""Bytes of encoded chunks that wait in memory; more of them wait in a file without a name."""


class WaitingShards:
    """Takes encoded chunks of one array in any order, and writes its shards.

    Parameters
    ----------
    keys : KeyStore
        Where the shards go.
    path : str
        Path of the array, in the model's spelling.
    node : ArrayNode
        Its metadata; a change of its shape is seen at once.
    there : tuple of int, optional
        How many shards are stored along each axis; None: there are none.

    Attributes
    ----------
    size : int
        Number of chunks of a shard.
    """

    def __init__(self, keys: KeyStore, path: str, node: ArrayNode[Attributes], there: Index | None = None) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(SPOOLED_BYTES, dir=_folder(keys))  # noqa: SIM115
        self._keys = keys
        self._path = path
        self._node = node
        self._there = there
        self.size = math.prod(inner_grid(node))
        self._lock = threading.Lock()
        self._places: dict[Index, dict[Index, tuple[int, int, int]]] = defaultdict(dict)
        self._written: set[Index] = set()
        self._end = 0

    def __del__(self) -> None:
        self._file.close()  # of a write that raised, the shards that are not full are given up

    def shard_of(self, index: Index) -> Index:
        """Return the shard of the chunk at ``index``."""
        return shard_of(self._node, index)

    def set(self, index: Index, data: bytes) -> None:
        """Take the stored bytes of a chunk; those that it had are forgotten. Safe for threads."""
        with self._lock:
            places = self._places[self.shard_of(index)]
            start, _, room = places.get(index, (0, 0, -1))
            if len(data) > room:
                start, room = self._end, len(data)
                self._end += room
            self._file.seek(start)
            self._file.write(data)
            places[index] = (start, len(data), room)

    def waiting(self, index: Index) -> bytes | None:
        """Return the stored bytes of a chunk that waits, None where it does not."""
        with self._lock:
            place = self._places.get(self.shard_of(index), {}).get(index)
            return None if place is None else self._read(*place[:2])

    def shards(self) -> list[Index]:
        """Return the shards that have chunks which wait."""
        return [shard for shard, places in self._places.items() if places]

    def is_full(self, shard: Index) -> bool:
        """Tell whether all those chunks of a shard wait that hold elements of the array."""
        places = self._places.get(shard, {})
        return all(index in places for index in chunks_in_shard(self._node, shard))

    def is_stored(self, shard: Index) -> bool:
        """Tell whether a shard was there before, or was written."""
        is_old = self._there is not None and all(i < n for i, n in zip(shard, self._there, strict=True))
        return is_old or shard in self._written

    def _read(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        data: bytes = self._file.read(length)
        if len(data) != length:
            raise ChunkError("a chunk that waited for its shard cannot be read", remedy="Look at the disk; run again.")
        return data

    def write(self, shard: Index) -> None:
        """Write a shard: what was set, and of the others what was stored before.

        Raises
        ------
        ChunkError
            A chunk of a new shard was not set, or one that is stored cannot be read.
        """
        places = self._places.pop(shard, {})
        reader = ShardReader(self._keys, self._path, self._node)
        there = reader.places(shard) if self.is_stored(shard) else {}
        kept: Iterator[bytes] = reader.stored(shard, there.keys() - places.keys()) if there else iter(())
        with self._keys.stream(join(self._path, self._node.chunk_name(shard))) as write:
            made = ShardWriter(write, self._node)
            for index in dict.fromkeys((*there, *chunks_in_shard(self._node, shard), *sorted(places))):
                if index in places:
                    with self._lock:
                        data = self._read(*places[index][:2])
                    made.add(index, data)
                elif index in there:
                    made.add(index, next(kept))
                elif not self.is_stored(shard):  # of one that is, others may have left out chunks
                    raise ChunkError(f"the chunk {index} of a shard was not written", path=absolute(self._path))
            made.finish()
        self._written.add(shard)
        self._reuse_file()

    def _reuse_file(self) -> None:
        with self._lock:
            if not any(self._places.values()):
                self._places.clear()
                self._file.seek(0)
                self._file.truncate()
                self._end = 0

    def close(self) -> None:
        """Give up what waits."""
        self._places.clear()
        self._file.close()


def _folder(keys: KeyStore) -> str | None:
    """Return the folder of a local file, which has room for a shard where that of the system may have none."""
    return keys.folder if keys.folder is not None and os.path.isdir(keys.folder) else None
