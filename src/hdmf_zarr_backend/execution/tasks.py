"""Tasks: the work of a write, divided along the chunks of the target.

A task consists of an array, some of its chunks and a source of values, and can be sent to another process if its source
can. Two tasks never share a chunk, so values are written correctly in any order of execution.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.codecs import ChunkCodec, chunk_codec
from hdmf_zarr_backend.arrays.fills import fill_array
from hdmf_zarr_backend.arrays.shards import ShardWriter, chunks_in_shard, inner_grid, shard_grid
from hdmf_zarr_backend.errors import DamagedFileError, StoreError, ZarrBackendError
from hdmf_zarr_backend.model.nodes import absolute, join
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.base import Write
from hdmf_zarr_backend.stores.failures import resource_failure
from hdmf_zarr_backend.stores.transaction import Change

Array = npt.NDArray[Any]
Index = tuple[int, ...]

TASK_BYTES = 50 * 2**20
"""The most bytes of values that one task handles; a memory budget may reduce it."""

HOLDS = 3
"""A task holds up to this many copies of its values: as read, as converted, and encoded."""


class ChunkSource(Protocol):
    """Reads the values of a region of an array; sources of stored chunks may also return encoded chunks."""

    def read(self, region: tuple[slice, ...]) -> Array:
        """Return the values of ``region`` as they are stored."""


@dataclass(slots=True)
class ChunkTask:
    """Writes some chunks of an array, or one shard.

    Attributes
    ----------
    change : Change
        What the chunks are put into.
    path : str
        Path of the array in the model's spelling.
    array : StoredArray
        Its metadata.
    source : ChunkSource
        Its values.
    old_shape : tuple of int or None
        Its shape in the file, if it is there already.
    indices : list of tuple of int
        The chunks, or the shard.
    """

    change: Change
    path: str
    array: StoredArray
    source: ChunkSource
    old_shape: tuple[int, ...] | None = None
    indices: list[Index] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes of the values; a chunk is read, encoded and forgotten before the next one.

        Of a shard those of a chunk, and of the part of the shard that the store holds until it is written.
        """
        size = chunk_bytes(self.array)
        if self.array.shards is None:
            return len(self.indices) * size
        return size + self.change.reader.held_bytes(math.prod(inner_grid(self.array)) * size)

    def run(self) -> int:
        """Write the chunks, or the shard."""
        codec, done = chunk_codec(self.array), 0
        with task_on(self.change, self.path):
            for index in self.indices:
                key = join(self.path, self.array.chunk_name(index))
                if self.array.shards is not None:
                    with self.change.stream(key) as write:
                        done += encode_shard(self.array, self.source, index, write)
                    continue
                data, size = encode_chunk(self.array, codec, self.source, index)
                self.change.put(key, data, is_late=self._is_only_cut(index, key, data))
                done += size
        return done

    def _is_only_cut(self, index: Index, key: str, data: bytes) -> bool:
        """Return whether a stored chunk differs beyond the end of the array only: readers need it until the commit."""
        region, array = region_of(self.array, index), self.array
        if self.old_shape is None or not any(
            part.stop < min(old, part.start + length)
            for part, old, length in zip(region, self.old_shape, array.chunks, strict=True)
        ):
            return False
        try:
            codec, stored = chunk_codec(array), self.change.reader.get(key)
            values = codec.decode(stored or b"", array.chunks)
        except DamagedFileError:
            return False
        inside = values[tuple(slice(0, part.stop - part.start) for part in region)]
        return codec.encode(whole_chunk(inside, array, codec.dtype)) == data


@dataclass(slots=True)
class ValuesTask:
    """Encodes one chunk whose values are in memory, and writes it.

    Attributes
    ----------
    change : Change
        What the chunk is put into.
    path : str
        Path of the array.
    codec : ChunkCodec
        The codec of the array.
    chunk : array
        Its values.
    put : callable
        Writes the encoded chunk.
    """

    change: Change
    path: str
    codec: ChunkCodec
    chunk: Array
    put: Callable[[bytes], None]

    @property
    def nbytes(self) -> int:
        """Bytes of the values."""
        return int(self.chunk.nbytes)

    def run(self) -> int:
        """Write the chunk and return the bytes of its values."""
        with task_on(self.change, self.path):
            self.put(self.codec.encode(self.chunk))
        return self.nbytes


@contextmanager
def task_on(change: Change, path: str) -> Iterator[None]:
    """End a task on an array after the block; errors of the block name the store and the array."""
    try:
        yield
        change.end_task()
    except ZarrBackendError as error:
        error.locate(change, path)
        raise
    except OSError as error:
        where = {"store": change.location, "path": absolute(path)}
        raise resource_failure(error, "read or written", what="a chunk", **where) or StoreError(
            f"a chunk could not be read or written ({error})",
            remedy="The data written so far are incomplete; check the disk, and run again.",
            **where,
        ) from error


def encode_chunk(stored: StoredArray, codec: ChunkCodec, source: ChunkSource, index: Index) -> tuple[bytes, int]:
    """Return the stored form of the chunk at ``index``, and the bytes of its values that are inside of the array.

    A chunk that the source has in this form already (``encoded(index)``) is not decoded.
    """
    region = region_of(stored, index)
    raw = source.encoded(index) if hasattr(source, "encoded") else None
    if raw is not None:
        return raw, math.prod(part.stop - part.start for part in region) * codec.dtype.itemsize
    block = source.read(region)
    return codec.encode(whole_chunk(block, stored, codec.dtype)), block.nbytes


def region_of(stored: StoredArray, index: Index) -> tuple[slice, ...]:
    """Return the region of the array that the chunk at ``index`` holds."""
    return tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in zip(index, stored.chunks, stored.shape, strict=True))


def whole_chunk(block: Array, stored: StoredArray, dtype: np.dtype[Any], shape: tuple[int, ...] | None = None) -> Array:
    """Return ``block`` as a chunk of full size: Zarr and HDF5 store chunks at the edge completely.

    ``shape`` is that of a chunk, by default of ``stored``.
    """
    shape = stored.chunks if shape is None else shape
    if block.shape == shape:
        return np.ascontiguousarray(block)
    chunk = fill_array(stored, dtype, shape)
    chunk[tuple(slice(0, n) for n in block.shape)] = block
    return chunk


def chunk_indices(stored: StoredArray) -> Iterator[Index]:
    """Yield the indices of all chunks of ``stored``."""
    return product(*map(range, stored.grid))


def chunk_bytes(stored: StoredArray) -> int:
    """Return the bytes of one chunk in memory."""
    return max(1, math.prod(stored.chunks) * chunk_codec(stored).dtype.itemsize)


def task_bytes_for(budget: int, workers: int) -> int:
    """Return the bytes of values of one task, so that those of all workers fit into a budget."""
    return max(1, min(TASK_BYTES, budget // (HOLDS * workers)))


def cut(
    array: ChunkTask, *, task_bytes: int = TASK_BYTES, to_send: bool = False, complete: Collection[str] = ()
) -> Iterator[ChunkTask]:
    """Yield the tasks that write all chunks of an array, one for each shard if it has shards."""
    stored, has_shards = array.array, array.array.shards is not None
    count = 1 if has_shards else max(1, task_bytes // chunk_bytes(stored))
    grid: Iterator[Index] = product(*map(range, shard_grid(stored))) if has_shards else chunk_indices(stored)
    if complete:
        grid = (index for index in grid if join(array.path, stored.chunk_name(index)) not in complete)
    while batch := list(islice(grid, count)):
        source: Any = array.source
        if to_send and hasattr(source, "covering"):  # of which only the part for these chunks is sent
            chunks = chunks_in_shard(stored, batch[0]) if has_shards else batch
            source = source.part(source.covering(region_of(stored, index) for index in chunks))
        yield replace(array, source=source, indices=batch)


def encode_shard(stored: StoredArray, source: ChunkSource, shard: Index, write: Write) -> int:
    """Write the stored form of a shard, and return the bytes of its values that are inside of the array."""
    codec, made, done = chunk_codec(stored), ShardWriter(write, stored), 0
    for index in chunks_in_shard(stored, shard):
        data, size = encode_chunk(stored, codec, source, index)
        made.add(index, data)
        done += size
    made.finish()
    return done
