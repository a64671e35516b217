"""Shards: stored objects of many chunks and an index. Reading takes a request for the index, and one per run of chunks.

Only the index says where a chunk is, except for the first one, which writers put at the beginning. So of remote shards,
the beginning is requested together with the index where the first chunks are read, which saves a round of requests.

Source: Zarr v3 specification, codec ``sharding_indexed``.
"""

from __future__ import annotations

import math
import operator
import os
import tempfile
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice, product
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.encoding.chunk_codec import CRC32C
from hdmf_zarr_backend.encoding.data_types import itemsize
from hdmf_zarr_backend.errors import ChunkError, StoreError, at
from hdmf_zarr_backend.model.nodes import Shards, StoredArray, grid_of, join
from hdmf_zarr_backend.store.base import Store, resource_failure
from hdmf_zarr_backend.store.remote import Extent, at_once, coalesced, in_thread
from hdmf_zarr_backend.store.transaction import Change

Index = tuple[int, ...]
Offsets = npt.NDArray[np.uint64]
A = TypeVar("A")
B = TypeVar("B")

_ABSENT = 2**64 - 1  # offset and length of an inner chunk that is not stored, by the specification
ENTRY_BYTES = 16  # bytes of the entry of a chunk in the index of its shard
# A shard of 512 MB with chunks of 64 KB has an index of 128 KB: these are at most some MB for each array.
_KEPT_INDICES = 64
_RUNS_AT_ONCE = 8
# Of the beginning of a remote shard, read without knowing how long its chunks are: what is read in vain takes less time
# than a round of requests.
_BEGINNING_BYTES = 2**20
_OVERHEAD_BYTES = 64  # that a codec may add to a chunk
SPOOLED_BYTES = 16 * 2**20  # of encoded chunks that are kept in memory; more are kept in an anonymous temporary file


class ShardReader:
    """Finds the bytes of the chunks of one array."""

    def __init__(self, store: Store, path: str, array: StoredArray) -> None:
        assert array.shards is not None
        self._store = store
        self._path = path
        self._array = array
        self._shards: Shards = array.shards
        self._grid = inner_grid(array)
        self._indices: OrderedDict[Index, Offsets | None] = OrderedDict()

    def get(self, index: Index) -> bytes | None:
        """Return the stored bytes of the chunk at ``index``, None if it is not stored."""
        return self._repeated(self._get, index)

    def get_many(self, indices: Sequence[Index]) -> dict[Index, bytes | None]:
        """Return the stored bytes of several chunks, with several requests at once; adjacent ones by one request."""
        return self._repeated(self._get_many, indices)

    def _repeated(self, read: Callable[[A], B], wanted: A) -> B:
        with at(self._store, self._path):
            try:
                return read(wanted)
            except ChunkError:
                self.forget()  # an index may be that of a shard before it was replaced, which was longer
                return read(wanted)

    def _get(self, index: Index) -> bytes | None:
        shard = shard_of(self._array, index)
        length = self._beginnings([index]).get(shard, 0)
        # not in the pool, since this may be called in one of its threads
        beginning = in_thread(partial(self._first, (shard, length))) if length else None
        extent = self._extent(index, self._offsets(shard))
        begun: Any = b"" if beginning is None else beginning.result()
        if extent is None or extent[1] <= len(begun):
            return None if extent is None else begun[slice(*extent)]
        return self._fetch((shard, extent, {index: extent}))[index]

    def _get_many(self, indices: Sequence[Index]) -> dict[Index, bytes | None]:
        extents: dict[Index, dict[Index, Extent]] = {shard_of(self._array, index): {} for index in indices}
        beginnings = self._beginnings(indices)
        requests = [*dict.fromkeys(extents, 0).items(), *beginnings.items()]
        answers: Any = list(at_once(self._first, requests))
        offsets = dict(zip(extents, answers, strict=False))
        begun = dict(zip(beginnings, answers[len(extents) :], strict=True))
        chunks: dict[Index, bytes | None] = dict.fromkeys(indices)
        for index in indices:
            shard = shard_of(self._array, index)
            if (extent := self._extent(index, offsets[shard])) is not None:
                beginning = begun.get(shard, b"")
                if extent[1] <= len(beginning):
                    chunks[index] = beginning[slice(*extent)]
                else:
                    extents[shard][index] = extent
        runs = [(shard, *run) for shard, of_shard in extents.items() for run in coalesced(of_shard)]
        for part in at_once(self._fetch, runs):
            chunks.update(part)
        return chunks

    def _beginnings(self, indices: Sequence[Index]) -> dict[Index, int]:
        """Return how many bytes of remote shards to read for chunks at the beginning, if no other ones are read."""
        if not self._store.abilities.is_remote or not self._store.abilities.open_ranges:
            return {}
        # random values are a few bytes longer when they are compressed; others are often half as long
        size = math.prod(self._array.chunks) * (itemsize(self._array.data_type) or 8) + _OVERHEAD_BYTES
        start = 0 if self._shards.index_at_end else index_bytes(self._grid, self._shards)
        wanted: dict[Index, set[Index]] = defaultdict(set)
        for index in indices:
            wanted[shard_of(self._array, index)].add(index)
        lengths = {}
        for shard, chunks in wanted.items():
            is_short = shard not in self._indices and len(chunks) * size <= 2 * _BEGINNING_BYTES
            if is_short and chunks == set(islice(chunks_in_shard(self._array, shard), len(chunks))):
                lengths[shard] = min(start + len(chunks) * size, _BEGINNING_BYTES)
        return lengths

    def _first(self, request: tuple[Index, int]) -> Offsets | bytes | None:
        """Return the index of a shard, or so many bytes of its beginning."""
        shard, length = request
        return self._store.get_range(self.key(shard), 0, length) or b"" if length else self._offsets(shard)

    def extents(self, shard: Index) -> dict[Index, Extent]:
        """Return start and end of each chunk in a shard, in the order in which they are stored."""
        with at(self._store, self._path):
            offsets = self._offsets(shard)
            chunks = product(*(range(i * n, (i + 1) * n) for i, n in zip(shard, self._grid, strict=True)))
            extents = {index: extent for index in chunks if (extent := self._extent(index, offsets)) is not None}
        # other writers store them in any order
        return dict(sorted(extents.items(), key=operator.itemgetter(1)))

    def stored(self, shard: Index, extents: Mapping[Index, Extent]) -> Iterator[bytes]:
        """Yield the stored bytes of chunks of a shard, some of its `extents`, in their order, a few MB at a time."""
        runs = ((shard, *run) for run in coalesced(extents))
        while batch := list(islice(runs, _RUNS_AT_ONCE if self._store.abilities.is_remote else 1)):
            with at(self._store, self._path):
                parts = list(at_once(self._fetch, batch)) if len(batch) > 1 else [self._fetch(batch[0])]
            for part in parts:
                yield from part.values()

    def _extent(self, index: Index, offsets: Offsets | None) -> Extent | None:
        """Return start and end of the chunk at ``index`` in its shard, None if it is not stored."""
        if offsets is None:
            return None
        start, length = offsets[_in_shard(index, self._grid)].tolist()
        if start == _ABSENT and length == _ABSENT:
            return None
        what = f"the chunk {self._array.chunk_text(index)!r} has {length:,} bytes"
        self._store.read_rules.limits.check("max_stored_bytes", length, what)
        return start, start + length

    def _fetch(self, run: tuple[Index, Extent, Mapping[Index, Extent]]) -> dict[Index, bytes]:
        """Return the bytes of chunks of a shard that are fetched with one request."""
        shard, (first, last), extents = run
        data = self._store.get_range(self.key(shard), first, last)
        chunks = {}
        for index, (start, stop) in extents.items():
            if data is None or len(data) < stop - first:
                problem = f"the shard {self.key(shard)!r} ends before the chunk {self._array.chunk_text(index)!r}"
                raise ChunkError(problem, remedy="Restore it from a copy.")
            chunks[index] = data[start - first : stop - first]
        return chunks

    def key(self, shard: Index) -> str:
        """Return the key of a shard."""
        return join(self._path, self._array.chunk_name(shard))

    def forget(self) -> None:
        """Forget the indices, because shards have been rewritten."""
        self._indices.clear()

    def _offsets(self, shard: Index) -> Offsets | None:
        with suppress(KeyError):
            return self._indices[shard]
        key, size = self.key(shard), index_bytes(self._grid, self._shards)
        what = f"the index of the shard {key!r} has {size:,} bytes"
        self._store.read_rules.limits.check("max_stored_bytes", size, what)
        data = self._store.get_range(key, *((-size, None) if self._shards.index_at_end else (0, size)))
        offsets = None if data is None else decode_index(data, self._grid, self._shards, key)
        self._indices[shard] = offsets
        if len(self._indices) > _KEPT_INDICES:
            self._indices.popitem(last=False)
        return offsets


class ShardWriter:
    """Writes one shard: its chunks one after the other, and then the index; if that comes first, chunks wait."""

    def __init__(self, write: Callable[[bytes], Any], array: StoredArray) -> None:
        assert array.shards is not None
        self._grid = inner_grid(array)
        self._checksum = array.shards.checksum
        self._offsets = np.full((*self._grid, 2), _ABSENT, "<u8")
        self._write = write
        self._waiting: list[bytes] = []
        self._add = write if array.shards.index_at_end else self._waiting.append
        self._end = 0 if array.shards.index_at_end else index_bytes(self._grid, array.shards)

    def add(self, index: Index, data: bytes) -> None:
        """Append the stored bytes of the chunk at ``index`` of the array."""
        self._add(data)
        self._offsets[_in_shard(index, self._grid)] = (self._end, len(data))
        self._end += len(data)

    def finish(self) -> None:
        """Write the index; chunks that were not added are marked as absent."""
        index = self._offsets.tobytes()
        self._write(CRC32C().encode(index) if self._checksum else index)
        for data in self._waiting:
            self._write(data)


class WaitingShards:
    """Collects encoded chunks of one array in any order, and writes its shards.

    Changing a chunk means rewriting its shard, so a shard is written once, with all its changes; its unchanged chunks
    are copied as they are stored. ``size`` is the number of chunks of a shard.
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

    def set(self, index: Index, data: bytes) -> None:
        """Set the stored bytes of a chunk, replacing earlier ones. Safe for threads."""
        with self._lock:
            positions = self._positions[shard_of(self._array, index)]
            # in the bytes of an earlier value, if it fits: an array that is changed often would fill the disk
            start, _, capacity = positions.get(index, (0, 0, -1))
            if len(data) > capacity:
                start, capacity = self._end, len(data)
                self._end += capacity
            try:
                self._file.seek(start)
                self._file.write(data)
            except OSError as error:
                doing, where = "kept until its shard is written", {"store": self._store.location, "path": self._path}
                problem, remedy = f"a chunk could not be {doing} ({error})", "Check the disk, and run again."
                lack = resource_failure(error, doing, what="a chunk", **where)
                raise lack or StoreError(problem, remedy=remedy, **where) from error
            positions[index] = (start, len(data), capacity)

    def get(self, index: Index) -> bytes | None:
        """Return the stored bytes of a chunk that waits or has been written, None if it was not set."""
        data = self.waiting(index)
        if data is not None or not self.is_stored(shard_of(self._array, index)):
            return data
        return ShardReader(self._store, self._path, self._array).get(index)

    def waiting(self, index: Index) -> bytes | None:
        """Return the stored bytes of a chunk that waits, None if it does not."""
        with self._lock:
            position = self._positions.get(shard_of(self._array, index), {}).get(index)
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
        return shard in self._written or (self._stored is not None and is_inside(shard, self._stored))

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
        kept = reader.stored(shard, {index: before[index] for index in before if index not in positions})
        with change.stream(join(self._path, self._array.chunk_name(shard))) as write:
            writer = ShardWriter(write, self._array)
            # in the order in which they were stored, so that kept ones are read as one stream
            for index in dict.fromkeys((*before, *chunks_in_shard(self._array, shard), *sorted(positions))):
                if index in positions:
                    with self._lock:
                        data = self._read(*positions[index][:2])
                    writer.add(index, data)
                elif index in before:
                    writer.add(index, next(kept))
                elif not self.is_stored(shard):  # a stored shard of another program may lack chunks
                    raise ChunkError(f"the chunk {index} of a shard was not written", path=self._path)
            writer.finish()
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


def inner_grid(array: StoredArray) -> Index:
    """Return the number of chunks along each axis of a shard; all ones without shards."""
    shape = array.chunks if array.shards is None else array.shards.shape
    return tuple(n // c for n, c in zip(shape, array.chunks, strict=True))


def _in_shard(index: Index, grid: Index) -> Index:
    """Return the index in its shard of the chunk at ``index`` of the array."""
    return tuple(i % n for i, n in zip(index, grid, strict=True))


def is_inside(index: Index, grid: Index) -> bool:
    """Tell whether an index is one of a grid."""
    return all(i < n for i, n in zip(index, grid, strict=True))


def shard_of(array: StoredArray, index: Index) -> Index:
    """Return the shard of the chunk at ``index``; the index itself without shards."""
    return tuple(i // n for i, n in zip(index, inner_grid(array), strict=True))


def shard_grid(array: StoredArray, grid: Index | None = None) -> Index:
    """Return the number of shards along each axis of an array, with ``grid`` as its number of chunks if given."""
    return grid_of(array.grid if grid is None else grid, inner_grid(array))


def chunks_in_shard(array: StoredArray, shard: Index) -> Iterator[Index]:
    """Yield the indices of those chunks of a shard that hold elements of the array, in order."""
    axes = zip(shard, inner_grid(array), array.grid, strict=True)
    return product(*(range(i * n, min((i + 1) * n, most)) for i, n, most in axes))


def shard_named(array: StoredArray, name: str) -> Index | None:
    """Return the shard, or chunk, whose key ends in ``name``, None if the array has none."""
    stored = array.chunk_keys.index(name, len(array.stored_shape))
    if stored is None:
        return None
    grid = shard_grid(array)
    index = (*stored, *(0,) * (len(grid) - len(stored)))  # not every axis is in the name
    return index if is_inside(index, grid) else None


def split_shard(data: bytes, array: StoredArray, shard: Index) -> Iterator[bytes]:
    """Yield the stored bytes of those chunks of a shard that hold elements of the array."""
    assert array.shards is not None
    grid, name = inner_grid(array), array.chunk_name(shard)
    size = index_bytes(grid, array.shards)
    index = data[-size:] if array.shards.index_at_end else data[:size]
    offsets = decode_index(index, grid, array.shards, name)
    for chunk in chunks_in_shard(array, shard):
        start, length = offsets[_in_shard(chunk, grid)].tolist()
        if start + length > len(data):
            raise ChunkError(f"the shard {name!r} lacks the chunk {chunk}", remedy="Restore it from a copy.")
        yield data[start : start + length]


def index_bytes(grid: Index, shards: Shards) -> int:
    """Return the bytes of the index of a shard of ``grid`` chunks."""
    return ENTRY_BYTES * math.prod(grid) + (4 if shards.checksum else 0)


def decode_index(data: bytes, grid: Index, shards: Shards, key: str) -> Offsets:
    """Return the offsets and lengths of the chunks of a shard, as an array of shape ``(*grid, 2)``."""
    try:
        if len(data) != index_bytes(grid, shards):
            raise ValueError(f"{len(data)} bytes")
        plain = CRC32C().decode(data) if shards.checksum else data
        return np.frombuffer(plain, "<u8").reshape(*grid, 2)
    except ValueError as error:
        problem = f"the index of the shard {key!r} is damaged ({error})"
        raise ChunkError(problem, remedy="Restore it from a copy.") from error
