"""`Edits`: the changes to the arrays of an open file, kept in memory until they are written together.

Otherwise a table that grows row by row would write one chunk per row and column. Changed chunks are kept decoded and
are visible at once. `Edits.flush` puts them into a change of the file (`stores.transaction`), chunks first and shapes
with the commit, so that another reader sees either the old or the new array. That order does not help an array whose
data type changes, since its chunks keep their names: it is replaced, chunk by chunk, while the root refuses readers.

The changes are kept here until they are committed. A write that failed is undone, and can be repeated.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.changed_shards import ChangedShards
from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.fills import fill_array
from hdmf_zarr_backend.arrays.growth import for_long_texts, set_fields, wider_fields
from hdmf_zarr_backend.arrays.shards import shard_grid, shard_of
from hdmf_zarr_backend.errors import StoreError, at
from hdmf_zarr_backend.formats.zarr3 import has_records
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, join
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.journal import Root
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.transaction import Change, Writer

__all__ = ["DeferredReference", "Edits"]

Array = npt.NDArray[Any]
Encode = Callable[[Any], Any]
Index = tuple[int, ...]
ChunkId = tuple[str, Index]
"""Path of an array, and index of a chunk, or of a shard when shards are written."""

WAITING_BYTES = 64 * 2**20
"""Largest number of bytes of changed chunks in memory, without those that are only cut."""

WIDENED_BYTES = 32 * 2**20
"""Decoded bytes of the chunks of an array with larger elements that are fetched together from a remote store."""

_OBJECT_BYTES = 200


class DeferredReference:
    """A reference whose target may not be in the file yet; its path is known when the file is written."""

    __slots__ = ("target",)

    def __init__(self, target: Any) -> None:
        self.target = target


class Metadata(Protocol):
    """The metadata of a file."""

    @property
    def zarr_format(self) -> int:
        """2 or 3."""

    def documents(self, path: str, node: Dataset[Attributes]) -> Iterable[tuple[str, Any]]:
        """Return the documents of a dataset by their keys."""

    @property
    def inlined(self) -> dict[str, bytes]:
        """``{key: bytes}`` of the chunks inside the consolidated document."""

    @property
    def root_keys(self) -> Sequence[str]:
        """The keys of the documents that a commit sets."""

    def mark(self) -> Root:
        """Return the documents that refuse readers while the file has neither its old nor its new state."""


class Edits:
    """The changed chunks and shapes of one file.

    Attributes
    ----------
    writer : Writer
        The writer of the file.
    changed : dict
        ``{path: node}`` of the datasets whose document changes.
    datasets : dict
        ``{path: node}`` of the datasets that are open for changes.
    is_marked : bool
        Whether the root refuses readers.
    has_failed : bool
        Whether the last write failed and was undone.
    shards : ChangedShards
        The changed chunks of sharded arrays, encoded, until their shards are written.
    is_closed : bool
        Whether the file is closed, so that nothing more would be written.
    gate : RLock
        Held by one change of an array, and while the file is written: no other thread may change an array then.
    lock : RLock
        Held while what is kept here changes or is read. A thread that has it does not wait for other threads, which may
        be those that compute the values that are written.
    """

    def __init__(self, store: Store, metadata: Metadata, writer: Writer) -> None:
        self._store = store
        self._metadata = metadata
        self.writer = writer
        self._change: Change | None = None
        self._chunks: dict[ChunkId, Array] = {}
        self._readers: dict[str, ChunkReader] = {}
        self._removed: set[ChunkId] = set()
        self._replaced: set[str] = set()
        self._narrow: dict[str, tuple[ChunkReader, np.dtype[Any]]] = {}
        self._cut: dict[ChunkId, tuple[int, ...]] = {}
        self._grids: dict[str, Index] = {}
        self._early: set[ChunkId] = set()
        self._bytes = 0
        self._is_lost = False
        self.changed: dict[str, Dataset[Attributes]] = {}
        self.datasets: dict[str, Dataset[Attributes]] = {}
        self.shards = ChangedShards(store)
        self.is_marked = False
        self.has_failed = False
        self.is_closed = False
        self.gate = threading.RLock()
        self.lock = threading.RLock()

    @property
    def change(self) -> Change:
        """The change of the file that is under way, which begins now if there is none."""
        if self._change is None:
            self._change = self.writer.change(root=self._metadata.root_keys)
        return self._change

    @property
    def is_open(self) -> bool:
        """Whether something may have been written that is neither committed nor undone."""
        return self._change is not None and self._change.is_open

    def chunk(self, path: str, index: Index) -> Array | None:
        """Return the changed chunk at ``index``, None if it is unchanged."""
        if (path, index) in self._chunks:
            return self._chunks[path, index]
        if (path, index) in self._removed:
            return _fill(self._readers[path])
        waiting = self.shards.chunk(path, index)
        # a marked file has its chunks in their new form
        is_narrow = waiting is None and path in self._narrow and (path, index) not in self._early and not self.is_marked
        return self._widened_chunk(path, index) if is_narrow else waiting

    def put(self, reader: ChunkReader, index: Index, chunk: Array, *, cut: Index | None = None) -> None:
        """Keep a changed chunk, which may only be ``cut``: that is the shape of the array which cuts it."""
        chunk_id = (reader.path, index)
        self._drop(chunk_id)
        self._chunks[chunk_id] = chunk
        self._removed.discard(chunk_id)
        self._readers[reader.path] = reader
        if cut is not None:
            self._cut[chunk_id] = cut
            return
        self._bytes += _size(chunk)
        if self._bytes > WAITING_BYTES and not chunk.dtype.hasobject:
            self._write_early()

    def _drop(self, chunk_id: ChunkId) -> None:
        chunk = self._chunks.pop(chunk_id, None)
        is_cut = self._cut.pop(chunk_id, None) is not None
        if chunk is not None and not is_cut:
            self._bytes -= _size(chunk)

    def _write_early(self) -> None:
        """Write the changed chunks that may be written before `flush`, and forget them; only complete shards."""
        chunks = {chunk_id: chunk for chunk_id, chunk in self._chunks.items() if self._may_be_written(chunk_id, chunk)}
        try:
            self._early.update(chunks)
            plain = self._without_sharded(chunks)
            full = self.shards.full()
            self._expect(full)
            self._write_chunks(plain)
            self.shards.write(full, self.change)
            self.change.drain()
        except BaseException as error:
            self.undo(error)
            raise
        for chunk_id in chunks:
            self._drop(chunk_id)

    def _may_be_written(self, chunk_id: ChunkId, chunk: Array) -> bool:
        """Return whether a chunk may be written before `flush`, because the stored metadata stay correct."""
        stays_correct = chunk_id[0] not in self._replaced or self._is_new(chunk_id)
        # readers of the old shape need what is cut off, and references may not have a path yet
        return stays_correct and chunk_id not in self._cut and not chunk.dtype.hasobject

    def _without_sharded(self, chunks: dict[ChunkId, Array]) -> dict[ChunkId, Array]:
        """Encode those of ``chunks`` that are in shards, and add them to `shards`; return the others."""
        plain = {}
        for (path, index), chunk in chunks.items():
            reader = self._readers[path]
            if reader.array.shards is None:
                plain[path, index] = chunk
            else:
                self.shards.add(reader, index, reader.codec.encode(chunk), self._grid(reader))
        return plain

    def _grid(self, reader: ChunkReader) -> Index:
        """Return the number of chunks along each axis of an array as it is stored."""
        return self._grids.get(reader.path, reader.array.grid)

    def grow(self, reader: ChunkReader, before: tuple[int, ...] | None = None) -> None:
        """Record that the document of an array changes; ``before`` is its old grid if its shape changes too.

        New chunks without values are stored too, since an absent chunk counts as damage.
        """
        self.changed[reader.path] = self.datasets[reader.path]
        self._readers[reader.path] = reader
        if before is not None:
            self._grids.setdefault(reader.path, before)

    def _untouched(self) -> Iterator[ChunkId]:
        """Yield the new chunks without values, of arrays that have grown."""
        for path, before in self._grids.items():
            grid = self._readers[path].array.grid
            if all(n <= m for n, m in zip(grid, before, strict=True)):
                continue
            for index in itertools.product(*map(range, grid)):
                chunk_id = (path, index)
                if self._is_new(chunk_id) and chunk_id not in self._chunks and chunk_id not in self._early:
                    yield chunk_id

    def _is_new(self, chunk_id: ChunkId) -> bool:
        """Return whether a chunk is outside of the stored array."""
        path, index = chunk_id
        return path in self._grids and not _is_inside(index, self._grids[path])

    def _fills(self) -> dict[ChunkId, bytes]:
        """Return encoded fill values for new chunks without values, and for chunks cut off from a shard that stays.

        Those of sharded arrays are added to `shards`; the others are returned.
        """
        encoded: dict[str, bytes] = {}
        plain: dict[ChunkId, bytes] = {}
        for path, index in (*self._untouched(), *filter(self._stays, sorted(self._removed))):
            reader = self._readers[path]
            if path not in encoded:
                encoded[path] = reader.codec.encode(_fill(reader))
            if reader.array.shards is None:
                plain[path, index] = encoded[path]
            else:
                self.shards.add(reader, index, encoded[path], self._grid(reader))
        return plain

    def _stays(self, chunk_id: ChunkId) -> bool:
        """Return whether a chunk that was cut off is in a stored shard that keeps other chunks."""
        array = self._readers[chunk_id[0]].array
        if array.shards is None or (self._is_new(chunk_id) and chunk_id not in self._early):
            return False
        return _is_inside(shard_of(array, chunk_id[1]), shard_grid(array))

    def _expect(self, shards: Iterable[ChunkId]) -> None:
        """Announce the shards that are going to be written."""
        for are_new in (False, True):
            keys = (self._key(shard) for shard in shards if self._is_new_shard(shard) is are_new)
            self.change.expect(keys, are_new=are_new)

    def _is_new_shard(self, shard_id: ChunkId) -> bool:
        reader = self._readers[shard_id[0]]
        return not _is_inside(shard_id[1], shard_grid(reader.array, self._grid(reader)))

    def _key(self, chunk_id: ChunkId) -> str:
        """Return the key of a chunk or a shard."""
        path, index = chunk_id
        return join(path, self._readers[path].array.chunk_name(index))

    def cut(self, reader: ChunkReader, shape: tuple[int, ...]) -> None:
        """Record that an array becomes smaller: elements beyond ``shape`` have the fill value if it grows again."""
        array = reader.array
        self._readers[reader.path] = reader
        for index in itertools.product(*map(range, array.grid)):
            left = [n - i * c for i, n, c in zip(index, shape, array.chunks, strict=True)]
            if min(left, default=1) <= 0:
                self._drop((reader.path, index))
                self._removed.add((reader.path, index))
            elif any(n < min(c, m - i * c) for n, c, m, i in zip(left, array.chunks, array.shape, index, strict=True)):
                held, was_cut = self.chunk(reader.path, index), (reader.path, index) in self._cut
                chunk = _fill(reader)
                inside = tuple(slice(0, n) for n in left)
                chunk[inside] = (held if held is not None else reader.chunk(index))[inside]
                self.put(reader, index, chunk, cut=shape if held is None or was_cut else None)

    def widen(self, reader: ChunkReader, dtype: np.dtype[Any], describe: Callable[[], None]) -> None:
        """Give an array larger elements: all its chunks and its document are rewritten.

        ``dtype`` is the type of its chunks in memory; ``describe`` changes its metadata.
        """
        array, path = reader.array, reader.path
        before = replace(array, chunks=tuple(array.chunks), filters=list(array.filters or ()) or None)
        old, _ = self._narrow.pop(path, (ChunkReader(self._store, path, before, ChunkCache()), None))
        changed: dict[Index, Array] = {}
        for index in itertools.product(*map(range, array.grid)):
            held = self.chunk(path, index)
            if held is not None or (path, index) in self._early:
                changed[index] = reader.chunk(index) if held is None else held
                self._early.discard((path, index))
        reader.forget(path)
        describe()
        self._replaced.add(path)
        for index, chunk in changed.items():
            self.put(reader, index, chunk.astype(dtype))
        self._narrow[path] = old, dtype
        self.grow(reader)

    def _widened_chunk(self, path: str, index: Index) -> Array:
        """Return a stored chunk of an array that gets larger elements."""
        old, dtype = self._narrow[path]
        return old.chunk(index).astype(dtype)

    def rechunk(self, reader: ChunkReader, chunks: tuple[int, ...]) -> None:
        """Give an array larger chunks: it is rewritten, and its old chunks are deleted."""
        array, path = reader.array, reader.path
        values = reader.read(()).reshape(array.shape)
        chunks = for_long_texts(chunks, values)
        if chunks[0] <= array.chunks[0]:
            return
        self.grow(reader, array.grid)
        for index in itertools.product(*map(range, array.grid)):
            self._drop((path, index))
            self._early.discard((path, index))
            self._removed.add((path, index))
        reader.forget(path)
        array.chunks = chunks
        self._replaced.add(path)
        self._narrow.pop(path, None)
        for index in itertools.product(*map(range, array.grid)):
            chunk = _fill(reader)
            part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
            chunk[tuple(map(slice, part.shape))] = part
            self.put(reader, index, chunk)

    def _widen_rows(self, encode: Encode) -> None:
        """Give rows wider fields if their text or references do not fit."""
        rows: dict[str, list[Array]] = {}
        for (path, _), chunk in self._chunks.items():
            if has_records(self._readers[path].array):
                rows.setdefault(path, []).append(_resolved(chunk, encode, path, self._store.location))
        for path, chunks in rows.items():
            reader = self._readers[path]
            fields = wider_fields(reader.array, chunks, self._store.read_rules.limits.max_object_bytes)
            if fields is not None:
                self.widen(reader, np.dtype(object), partial(set_fields, fields, reader.array))

    @property
    def pending(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._chunks or self.changed or self._removed)

    @property
    def touched(self) -> frozenset[str]:
        """Paths of the arrays whose chunks or documents have changed."""
        return frozenset((*self.changed, *self._readers))

    def _put(self, chunk_id: ChunkId, data: bytes, *, is_late: bool = False) -> None:
        key = self._key(chunk_id)
        self.change.put(key, data, is_new=self._is_new(chunk_id), is_late=is_late)
        self._metadata.inlined.pop(key, None)

    def _write_chunks(self, chunks: dict[ChunkId, Array], *, may_be_late: bool = False) -> None:
        try:
            for (path, index), chunk in chunks.items():
                data = self._readers[path].codec.encode(chunk)
                self._put((path, index), data, is_late=may_be_late and self._is_only_cut((path, index)))
        finally:  # some may be written before a failure
            for path in {path for path, _ in chunks}:
                self._readers[path].forget(path)

    def _is_only_cut(self, chunk_id: ChunkId) -> bool:
        """Return whether readers of the new shape find the same in the stored chunk, and those of the old one more."""
        shape = self._cut.get(chunk_id)
        array = self._readers[chunk_id[0]].array
        return shape is not None and all(n <= m for n, m in zip(array.shape, shape, strict=True))

    def flush(self, encode: Encode) -> None:
        """Put everything into the change: chunks, then the documents of the arrays that grew.

        The change is complete when the caller has committed it and called `done`; chunks beyond the arrays are deleted
        then. If a data type changes, the root refuses readers until then.
        """
        if self._is_lost:
            raise StoreError(
                "an earlier write failed and was undone, and some of the changes are not in memory any more",
                store=self._store.location,
                remedy="Close the file, open it again, and make the changes again.",
            )
        with self.lock:
            self._write_all(encode)

    def _write_all(self, encode: Encode) -> None:
        self._fill_regrown()
        self._widen_rows(encode)
        location = self._store.location
        chunks = {chunk_id: _resolved(chunk, encode, chunk_id[0], location) for chunk_id, chunk in self._chunks.items()}
        plain = self._without_sharded({key: chunk for key, chunk in chunks.items() if key[0] not in self._replaced})
        for chunk_id, data in self._fills().items():
            self._put(chunk_id, data)
        shards = [shard for shard in self.shards.changed() if shard[0] not in self._replaced]
        self._expect(shards)
        self._write_chunks(plain, may_be_late=True)
        self.shards.write(shards, self.change)
        self.change.describe(self._documents(self.changed.keys() - self._replaced))
        if self._replaced:
            self._replace(chunks)
        if shards or self._replaced:
            self.change.drain()  # what is not kept here is read from the store, also by a source of the same write
        self._discard_removed()

    def _documents(self, paths: Iterable[str]) -> dict[str, bytes]:
        documents = (self._metadata.documents(path, self.changed[path]) for path in sorted(paths))
        return {key: dump(document) for some in documents for key, document in some}

    def _fill_regrown(self) -> None:
        """Fill the chunks that were cut off and are inside of their array again, because it has grown since."""
        for path, index in sorted(self._removed):
            if _is_inside(index, self._readers[path].array.grid):
                self.put(self._readers[path], index, _fill(self._readers[path]))

    def _replace(self, chunks: dict[ChunkId, Array]) -> None:
        """Write the arrays whose elements or chunks became larger, one chunk after the other.

        Their documents come first: from them a reader that has the file open learns why a chunk does not decode.
        """
        self.change.hide(self._metadata.mark(), self._documents(self._replaced))
        self.is_marked = True
        for path in sorted(self._replaced):
            reader = self._readers[path]
            if path in self._narrow:
                narrow, dtype = self._narrow[path]
                old = ChunkReader(self._store, path, narrow.array, ChunkCache(0))  # each chunk is read once
                self._narrow[path] = old, dtype
                grid = itertools.product(*map(range, self._grid(reader)))
                stored = (index for index in grid if (path, index) not in chunks and (path, index) not in self._removed)
                for index, chunk in old.chunks(stored, WIDENED_BYTES):
                    self._write_chunks(self._without_sharded({(path, index): chunk.astype(dtype)}))
            changed = {chunk_id: chunk for chunk_id, chunk in chunks.items() if chunk_id[0] == path}
            self._write_chunks(self._without_sharded(changed))
            shards = [shard for shard in self.shards.changed() if shard[0] == path]
            self._expect(shards)
            self.shards.write(shards, self.change)
            reader.forget(path)

    def _discard_removed(self) -> None:
        """Let the change delete the stored chunks and shards that are outside of their arrays now."""
        gone = dict.fromkeys(
            (path, shard_of(self._readers[path].array, index)) for path, index in sorted(self._removed)
        )
        for path, index in gone:
            array = self._readers[path].array
            if not _is_inside(index, shard_grid(array)):
                key = self._key((path, index))
                self.change.delete([key])
                self._metadata.inlined.pop(key, None)

    def done(self) -> None:
        """Forget all changes: they are in the file."""
        with self.lock:
            for path, reader in self._readers.items():
                reader.forget(path)
            for held in (self._chunks, self._grids, self._early, self._replaced, self._readers, self._removed):
                held.clear()
            self._narrow.clear()
            self._cut.clear()
            self._change = None
            self._bytes = 0
            self.shards.clear()
            self.changed = {}
            self.is_marked = self.has_failed = False

    def undo(self, error: BaseException) -> None:
        """Restore the stored state from before the changes, after ``error``; the changes stay in memory.

        Changes that were written early are lost, and then nothing more can be written.
        """
        if not self.writer.lock.is_held:
            return  # they belong to the process that was forked
        with self.lock:
            self.has_failed = True
            self._is_lost = self._is_lost or bool(self._early)
            self.is_marked = False
            self.shards.clear()
            if self._change is not None:
                self._change.abort(error)
                self._change = None


def _resolved(chunk: Array, encode: Encode, path: str, location: str) -> Array:
    """Return ``chunk``, which is changed in place, with its deferred references in the form that ``encode`` returns."""
    if not chunk.dtype.hasobject:
        return chunk
    names: Sequence[str | None] = chunk.dtype.names or (None,)
    for name in names:
        flat = (chunk if name is None else chunk[name]).reshape(-1)
        for position, item in enumerate(flat):
            if isinstance(item, DeferredReference):
                with at(location, path):
                    flat[position] = encode(item.target)
    return chunk


def _size(chunk: Array) -> int:
    return chunk.size * _OBJECT_BYTES if chunk.dtype.hasobject else chunk.nbytes


def _fill(reader: ChunkReader) -> Array:
    """Return a chunk of fill values."""
    return fill_array(reader.array, reader.codec.dtype, reader.array.chunks)


def _is_inside(index: Index, grid: Index) -> bool:
    return all(i < n for i, n in zip(index, grid, strict=True))
