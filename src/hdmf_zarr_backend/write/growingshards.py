"""The shards of a new array that grows while it is written: each is written when its chunks are there.

Source: issue "Format 3, shards, and any store, near or far", part 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy.typing as npt

from hdmf_zarr_backend.arrays.codecs import ChunkCodec
from hdmf_zarr_backend.arrays.shards import ShardReader, shard_grid
from hdmf_zarr_backend.arrays.waiting_shards import WaitingShards
from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.model.nodes import absolute

Index = tuple[int, ...]


class GrowingShards(WaitingShards):
    """Takes encoded chunks of one new array in any order, and writes its shards; parameters as of `WaitingShards`."""

    def get(self, index: Index) -> bytes | None:
        """Return the stored bytes of a chunk, None where it was not set."""
        data = self.waiting(index)
        if data is not None or not self.is_stored(self.shard_of(index)):
            return data
        return ShardReader(self._keys, self._path, self._node).get(index)

    def finish(self) -> None:
        """Write all shards that have chunks which are not written yet; every chunk of the array must have been set."""
        waiting = set(self.shards())
        for shard in product(*map(range, shard_grid(self._node))):
            if shard in waiting:
                self.write(shard)
        self.close()


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
