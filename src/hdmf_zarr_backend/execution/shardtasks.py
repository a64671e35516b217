"""Work, cut along the shards of the target: a shard is written by one task, chunk after chunk, its index last.

Source: issue "Format 3, shards, and any store, near or far", part 3; issue "Fast, lean, and as wide as the machine or
the cluster", part 5.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import product

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.shards import ShardWriter, chunks_in_shard, inner_grid, shard_grid
from hdmf_zarr_backend.execution.tasks import ChunkSource, Index, chunk_bytes, encode_chunk, part_of, task_on
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, join
from hdmf_zarr_backend.stores.base import KeyStore, Write


@dataclass(slots=True)
class ShardTask:
    """Writes one shard of one array.

    Attributes
    ----------
    keys : KeyStore
        The store that is written.
    path : str
        The array.
    node : ArrayNode
        Its metadata.
    source : ChunkSource
        Its values.
    shard : tuple of int
        Which shard.
    """

    keys: KeyStore
    path: str
    node: ArrayNode[Attributes]
    source: ChunkSource
    shard: Index

    @property
    def nbytes(self) -> int:
        """Bytes of the values in memory: a chunk, and what the store holds of the shard until it has it."""
        size = chunk_bytes(self.node)
        return size + self.keys.held_bytes(math.prod(inner_grid(self.node)) * size)

    def run(self) -> int:
        """Write the shard.

        Returns
        -------
        int
            Bytes of its values in memory.

        Raises
        ------
        ZarrBackendError
            Naming the store and the array.
        """
        key = join(self.path, self.node.chunk_name(self.shard))
        with task_on(self.keys, self.path), self.keys.stream(key) as write:
            return encode_shard(self.node, self.source, self.shard, write)


def encode_shard(node: ArrayNode[Attributes], source: ChunkSource, shard: Index, write: Write) -> int:
    """Write the stored form of a shard, and return the bytes of its values that are inside of the array."""
    codec, made, done = chunk_codec(node), ShardWriter(write, node), 0
    for index in chunks_in_shard(node, shard):
        data, size = encode_chunk(node, codec, source, index)
        made.add(index, data)
        done += size
    made.finish()
    return done


def cut_shards(
    keys: KeyStore,
    path: str,
    node: ArrayNode[Attributes],
    source: ChunkSource,
    *,
    to_send: bool = False,
    complete: Collection[str] = (),
) -> Iterator[ShardTask]:
    """Yield the tasks that write all shards of ``node``; the arguments are those of `tasks.cut`."""
    for shard in product(*map(range, shard_grid(node))):
        if join(path, node.chunk_name(shard)) in complete:
            continue
        part = part_of(source, node, list(chunks_in_shard(node, shard))) if to_send else source
        yield ShardTask(keys, path, node, part, shard)
