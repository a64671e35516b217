"""The shards of an array that grows: encoded chunks wait in a file beside those of the store until their shard is full.

Blocks come in any order and threads end in any order; a shard is written in the order of its chunks nevertheless, so
that the same values make the same bytes.

Source: issue "Format 3, shards, and any store, near or far", part 3.
"""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy.typing as npt

from hdmf_zarr_backend.errors import ChunkError, StoreError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute, join
from hdmf_zarr_backend.storage.codecs import ChunkCodec
from hdmf_zarr_backend.storage.keys import KeyStore, innermost
from hdmf_zarr_backend.storage.shards import ShardReader, ShardWriter, chunks_in_shard, inner_grid, shard_grid
from hdmf_zarr_backend.storage.streamed import streamed_value

Index = tuple[int, ...]

SPOOLED_BYTES = 16 * 2**20
"""Bytes of encoded chunks that wait in memory; more of them wait in a file without a name."""


class GrowingShards:
    """Takes encoded chunks of one array in any order, and writes its shards.

    Parameters
    ----------
    keys : KeyStore
        Where the shards go.
    path : str
        Path of the array, in the model's spelling.
    node : ArrayNode
        Its metadata; the shape grows.

    Attributes
    ----------
    size : int
        Number of chunks of a shard.
    """

    def __init__(self, keys: KeyStore, path: str, node: ArrayNode[Attributes]) -> None:
        self._file: Any = tempfile.SpooledTemporaryFile(SPOOLED_BYTES, dir=_folder(keys))  # noqa: SIM115
        self._keys = keys
        self._path = path
        self._node = node
        self._inner = inner_grid(node)
        self.size = math.prod(self._inner)
        self._lock = threading.Lock()
        self._places: dict[Index, dict[Index, tuple[int, int, int]]] = defaultdict(dict)
        self._written: set[Index] = set()
        self._end = 0

    def __del__(self) -> None:
        self._file.close()  # of an iterator that raised, the shards that are not full are given up

    def shard_of(self, index: Index) -> Index:
        """Return the shard of the chunk at ``index``."""
        return tuple(i // n for i, n in zip(index, self._inner, strict=True))

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

    def get(self, index: Index) -> bytes | None:
        """Return the stored bytes of a chunk, None where it was not set."""
        shard = self.shard_of(index)
        with self._lock:
            place = self._places[shard].get(index)
            if place is not None:
                return self._read(*place[:2])
        return ShardReader(self._keys, self._path, self._node).get(index) if shard in self._written else None

    def _read(self, start: int, length: int) -> bytes:
        self._file.seek(start)
        data: bytes = self._file.read(length)
        if len(data) != length:
            raise ChunkError("a chunk that waited for its shard cannot be read", remedy="Look at the disk; run again.")
        return data

    def write(self, shard: Index) -> None:
        """Write a shard: what was set, and of the others what was written before."""
        places = self._places.pop(shard, {})
        before = ShardReader(self._keys, self._path, self._node) if shard in self._written else None
        with streamed_value(self._keys, join(self._path, self._node.chunk_name(shard))) as write:
            made = ShardWriter(write, self._node)
            for index in chunks_in_shard(self._node, shard):
                if index in places:
                    data: bytes | None = self._read(*places[index][:2])
                else:
                    data = None if before is None else before.get(index)
                if data is None:
                    raise ChunkError(f"the chunk {index} of a shard was not written", path=absolute(self._path))
                made.add(index, data)
            made.finish()
        self._written.add(shard)
        if not any(self._places.values()):
            self._places.clear()
            self._file.seek(0)
            self._file.truncate()
            self._end = 0

    def finish(self) -> None:
        """Write all shards that have chunks which are not written yet; every chunk of the array must have been set."""
        for shard in product(*map(range, shard_grid(self._node))):
            if self._places.get(shard):
                self.write(shard)
        self._file.close()


@dataclass(slots=True)
class ShardedValuesTask:
    """Encodes one chunk whose values are at hand, and puts it to those of its shard.

    Attributes
    ----------
    shards : GrowingShards
        What it is put to.
    path : str
        The array.
    index : tuple of int
        The chunk.
    codec : ChunkCodec
        What encodes it.
    chunk : array
        Its values.
    """

    shards: GrowingShards
    path: str
    index: Index
    codec: ChunkCodec
    chunk: npt.NDArray[Any]

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.chunk.nbytes)

    def run(self) -> int:
        """Encode the chunk and return the bytes of its values."""
        try:
            self.shards.set(self.index, self.codec.encode(self.chunk))
        except OSError as error:
            raise StoreError(
                f"a chunk could not be kept until its shard is full ({error})",
                path=absolute(self.path),
                remedy="What was written is not complete; look at the disk, and run again.",
            ) from error
        return self.nbytes


def _folder(keys: KeyStore) -> str | None:
    """Return the folder of a local file, which has room for a shard where that of the system may have none."""
    root = getattr(innermost(keys), "root", None)
    return root if isinstance(root, str) and os.path.isdir(root) else None
