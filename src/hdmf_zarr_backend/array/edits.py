"""`Edits`: the changes to the arrays of an open file, kept in memory until they are written together.

Otherwise a table that grows row by row would write one chunk per row and column. Stored chunks that are only cut, by an
array that became smaller, are cut whenever they are read. `Edits.flush` puts changed chunks into a change of the file,
chunks first and shapes with the commit, so that another reader sees either the old or the new array. An array whose
data type changes, with chunks of the same names, is replaced chunk by chunk while the root refuses readers. The changes
are kept here until they are committed: a write that failed is undone, and can be repeated.
"""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from hdmf_zarr_backend.array.chunks import FEW, ChunkCache, ChunkReader, fill_array, memory_bytes
from hdmf_zarr_backend.array.shards import Index, WaitingShards, is_inside, shard_grid, shard_of
from hdmf_zarr_backend.encoding.chunks import Array, cell_texts
from hdmf_zarr_backend.encoding.codecs import field_types
from hdmf_zarr_backend.encoding.data_types import itemsize, split_code
from hdmf_zarr_backend.encoding.parser import ParsedFile
from hdmf_zarr_backend.encoding.zarr3 import has_records, row_bytes
from hdmf_zarr_backend.errors import StoreError, at
from hdmf_zarr_backend.model.nodes import Dataset, StoredArray, chunk_region, grid_of, join
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.transaction import Change, Writer

Encode = Callable[[Any], Any]

WAITING_BYTES = 64 * 2**20  # of changed chunks in memory; above it, chunks are written early, and an error undoes them
_INDEX_ROWS = 2**16  # that are read at a time to check their order, since an index may be larger than the memory
REWRITTEN_BYTES = 32 * 2**20  # decoded bytes of chunks to cut or widen that are fetched together from a remote store


@dataclass(slots=True, eq=False)
class DeferredReference:
    """A reference whose target may not be in the file yet; its path is known when the file is written."""

    target: Any


class _ChangedArray:
    """The changes of one array; the reader and the node have it as it is now."""

    def __init__(self, reader: ChunkReader, node: Dataset) -> None:
        self.reader = reader
        self.node = node
        self.path = reader.path
        # the number of chunks and of elements along each axis, as it is stored
        self.before: Index = reader.array.grid
        self.shape = reader.array.shape
        self.chunks: dict[Index, Array] = {}  # the changed ones, decoded
        self.deferred: dict[Index, Array] = {}  # the same while they are written, without paths of references
        # the stored chunks that are only cut, with the shape that is left of the array, in which they have values
        self.cut: dict[Index, Index] = {}
        self.removed: set[Index] = set()  # the chunks that were cut off
        self.early: set[Index] = set()  # the changed chunks that are written already
        # where elements become larger: a reader of the stored chunks, and the new type
        self.narrow: tuple[ChunkReader, np.dtype[Any]] | None = None
        self.is_replaced = False  # all chunks are rewritten, with larger elements or as larger chunks
        self.shards = self._no_shards()  # the changed chunks of a sharded array, encoded, until these are written

    def _no_shards(self) -> WaitingShards | None:
        array = self.reader.array
        if array.shards is None:
            return None
        return WaitingShards(self.reader.store, self.path, array, shard_grid(array, self.before))

    def forget(self) -> None:
        """Forget what was decoded, and what waits for its shard."""
        self.reader.forget()
        if self.shards is not None:
            self.shards.close()
            self.shards = self._no_shards()

    def chunk(self, index: Index, *, is_marked: bool) -> Array | None:
        """Return a changed chunk, None for one that is read from the store: all others, once the root is marked."""
        chunk = self.chunks.get(index)
        if chunk is not None:
            return chunk
        if index in self.removed:
            return self.fill()
        waiting = None if self.shards is None else self.shards.waiting(index)
        if waiting is not None:
            return self.reader.decode(index, waiting)
        if self.narrow is None or index in self.early or is_marked:
            return None
        old, dtype = self.narrow
        return self.left_of(index, old.chunk(index).astype(dtype))

    def left_of(self, index: Index, chunk: Array) -> Array:
        """Return what is left of a stored chunk, which may be cut."""
        return self.cut_to(self.cut[index], index, chunk) if index in self.cut else chunk

    def cut_to(self, shape: Index, index: Index, chunk: Array) -> Array:
        """Return a chunk with fill values beyond a shape of the array."""
        axes = zip(shape, index, self.reader.array.chunks, strict=True)
        inside = tuple(slice(0, n - i * c) for n, i, c in axes)
        left = self.fill()
        left[inside] = chunk[inside]
        return left

    def fill(self) -> Array:
        """Return a chunk of fill values."""
        return fill_array(self.reader.array, self.reader.codec.dtype, self.reader.array.chunks)

    def indices(self) -> Iterable[Index]:
        """Return the indices of all chunks."""
        return itertools.product(*map(range, self.reader.array.grid))

    def key(self, index: Index) -> str:
        """Return the key of a chunk or a shard."""
        return join(self.path, self.reader.array.chunk_name(index))

    def is_new(self, index: Index) -> bool:
        """Return whether a chunk is outside of the stored array."""
        return not is_inside(index, self.before)

    def changed_shards(self, *, are_full: bool = False) -> list[Index]:
        """Return the shards with chunks that wait, inside of the present shape; ``are_full``: if all chunks wait."""
        if self.shards is None:
            return []
        grid = shard_grid(self.reader.array)
        changed = [shard for shard in sorted(self.shards.shards()) if is_inside(shard, grid)]
        if are_full:  # at the end of the first axis the array may grow
            changed = [shard for shard in changed if shard[0] + 1 < grid[0] and self.shards.is_full(shard)]
        return changed

    def may_be_early(self) -> dict[Index, Array]:
        """Return the chunks that may be written before the rest, because the stored metadata stay correct."""
        if self.reader.codec.dtype.hasobject:  # references may not have a path yet
            return {}
        return {index: chunk for index, chunk in self.chunks.items() if not self.is_replaced or self.is_new(index)}

    def without_values(self) -> list[Index]:
        """Return the new chunks without values, and those cut off from a shard that stays: absent ones are damage."""
        array, known = self.reader.array, self.chunks.keys() | self.early
        missing = [index for index in _outside(array.grid, self.before) if index not in known]
        if array.shards is not None:
            grid = shard_grid(array)
            stored = (index for index in sorted(self.removed) if not self.is_new(index) or index in self.early)
            missing += [index for index in stored if is_inside(shard_of(array, index), grid)]
        return missing


def _outside(grid: Index, inner: Index) -> Iterator[Index]:
    """Yield the indices of a grid that are outside of another one, without a look at all that are inside."""
    # an array may have a million chunks, and an append changes one
    for axis, (count, first) in enumerate(zip(grid, inner, strict=True)):
        before = (range(min(n, m)) for n, m in zip(grid[:axis], inner[:axis], strict=True))
        yield from itertools.product(*before, range(first, count), *map(range, grid[axis + 1 :]))


class Edits:
    """The changed chunks and shapes of one file."""

    def __init__(self, store: Store, metadata: ParsedFile, writer: Writer) -> None:
        self._store = store
        self._metadata = metadata
        self.writer = writer
        self._change: Change | None = None
        self._open: dict[str, tuple[ChunkReader, Dataset]] = {}
        self._arrays: dict[str, _ChangedArray] = {}
        # the arrays that users may have, by their ids, since those of one path are equal
        self._given: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
        self._bytes = 0
        self._is_lost = False  # chunks that were written early were undone, and are not in memory any more
        self.is_marked = False  # the root refuses readers
        self.has_failed = False  # the last write failed and was undone
        self.is_closed = False  # nothing more is written: the file is closed, or its block ended by an error
        # held by one change of an array, and while the file is written: no other thread may change an array then
        self.gate = threading.RLock()
        # held while what is kept here changes or is read; a thread that has it does not wait for other threads, which
        # may be those that compute the values that are written
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

    @property
    def changed(self) -> dict[str, Dataset]:
        """``{path: node}`` of the datasets that have changed, and wait to be written."""
        return {path: array.node for path, array in self._arrays.items()}

    @property
    def resized(self) -> set[str]:
        """Paths of the datasets whose first axis has another length than in the file."""
        return {path for path, array in self._arrays.items() if array.shape[:1] != array.reader.array.shape[:1]}

    @property
    def reshaped(self) -> list[str]:
        """Paths of the datasets whose shape is another than in the file."""
        return [path for path, array in self._arrays.items() if array.shape != array.reader.array.shape]

    def end_of(self, path: str, node: Dataset) -> int | None:
        """Return the last number of an index as it is now; None if what has changed is not in ascending order."""
        reader, own = self._open.get(path, (None, None))
        if reader is None or own is not node:
            reader = ChunkReader(self._store, path, node.stored, ChunkCache(0))
        # from the first chunk that has changed on, and before it one number; of an index that has not, the last one
        length, step, last = node.stored.shape[0], max(node.stored.chunks[0], _INDEX_ROWS), 0
        array = self._arrays.get(path)
        first = length - 1
        if array is not None:
            rows = [index[0] * node.stored.chunks[0] - 1 for index in (*array.chunks, *array.early)]
            first = min(rows, default=first) if array.shards is None else 0
        for start in range(max(0, first), length, step):
            numbers = reader.read(slice(start, min(start + step, length))).astype("i8")
            if (np.diff(numbers, prepend=last) < 0).any():
                return None
            last = int(numbers[-1])
        return last

    def opened(self, reader: ChunkReader, node: Dataset, array: Any) -> ChunkReader:
        """Return the one reader of all ``array`` objects of a dataset, which forgets what is rewritten."""
        self._given[id(array)] = array
        if reader.path not in self._open or self._open[reader.path][0].array is not reader.array:
            self._open[reader.path] = reader, node
        return self._open[reader.path][0]

    def outdate(self, problem: str, is_gone: Callable[[str], bool]) -> None:
        """Refuse changes of all arrays that were given out; and reading those that are gone from their paths."""
        for array in list(self._given.values()):  # another thread may open one meanwhile
            array.outdate(problem, is_gone=is_gone(array.path))

    def _changed(self, reader: ChunkReader) -> _ChangedArray:
        """Return the changes of an array, none of them at first. Call it before its shape changes."""
        if reader.path not in self._arrays:
            self._arrays[reader.path] = _ChangedArray(*self._open[reader.path])
        return self._arrays[reader.path]

    def chunk(self, path: str, index: Index) -> Array | None:
        """Return the changed chunk at ``index``, None if it is unchanged."""
        array = self._arrays.get(path)
        return None if array is None else array.chunk(index, is_marked=self.is_marked)

    def cut(self, path: str, index: Index, chunk: Array) -> Array:
        """Return what is left of the stored chunk at ``index``."""
        array = self._arrays.get(path)
        return chunk if array is None else array.left_of(index, chunk)

    def put(self, reader: ChunkReader, index: Index, chunk: Array) -> None:
        """Keep a changed chunk."""
        array = self._changed(reader)
        self._drop(array, index)
        array.chunks[index] = chunk
        array.removed.discard(index)
        self._bytes += memory_bytes(chunk)
        if self._bytes > WAITING_BYTES and not chunk.dtype.hasobject:
            self._write_early()

    def _drop(self, array: _ChangedArray, index: Index) -> None:
        array.cut.pop(index, None)
        chunk = array.chunks.pop(index, None)
        if chunk is not None:
            self._bytes -= memory_bytes(chunk)

    def resize(self, reader: ChunkReader, shape: Index) -> None:
        """Change the shape of an array: elements beyond it have the fill value if it grows again."""
        array = self._changed(reader)
        if any(n < m for n, m in zip(shape, reader.array.shape, strict=True)):
            self._cut(array, shape)
        chunks = larger_chunks(reader.array, reader.codec.dtype, shape)
        if chunks is not None:  # a row a chunk: 4,000 appended rows would be 4,000 objects
            self._rechunk(array, chunks)
        reader.array.shape = shape

    def _cut(self, array: _ChangedArray, shape: Index) -> None:
        """Cut an array; a damaged chunk that stays in part is refused, or the write of all changes would fail."""
        stored = array.reader.array
        axes = zip(stored.grid, stored.chunks, stored.shape, shape, strict=True)
        whole = tuple(count if after >= before else after // chunk for count, chunk, before, after in axes)
        grid = grid_of(shape, stored.chunks)
        stays = {index: is_inside(index, grid) for index in _outside(stored.grid, whole)}

        def is_read(index: Index) -> bool:
            return stays[index] and index not in array.cut and (index in array.early or not array.is_new(index))

        reader = ChunkReader(self._store, array.path, stored, ChunkCache(0))  # they are not kept in memory
        reader.changed = array.reader.changed
        for _ in reader.chunks(REWRITTEN_BYTES, filter(is_read, stays)):
            pass
        for index, is_part in stays.items():
            is_early = index in array.early
            if not is_part:
                self._drop(array, index)
                array.removed.add(index)
            elif index in array.chunks or (is_early and (array.is_replaced or array.shards is not None)):
                self.put(array.reader, index, array.cut_to(shape, index, array.reader.chunk(index)))
            elif index not in array.removed and (is_early or not array.is_new(index)):
                array.cut[index] = tuple(map(min, shape, array.cut.get(index, shape)))

    def widen(self, reader: ChunkReader, dtype: np.dtype[Any], describe: Callable[[], None]) -> None:
        """Give an array larger elements, ``dtype`` in memory: all its chunks and the document are rewritten."""
        array, stored = self._changed(reader), reader.array
        before = replace(stored, chunks=tuple(stored.chunks), filters=list(stored.filters or ()) or None)
        old, _ = array.narrow or (ChunkReader(self._store, array.path, before, ChunkCache()), None)
        array.narrow = None
        changed: dict[Index, Array] = {}
        for index in array.indices():
            held = self.chunk(array.path, index)
            if held is not None or index in array.early:
                changed[index] = reader.chunk(index) if held is None else held
        array.early -= changed.keys()
        reader.forget()
        describe()
        array.is_replaced = True
        for index, chunk in changed.items():
            self.put(reader, index, chunk.astype(dtype))
        array.narrow = old, dtype

    def _rechunk(self, array: _ChangedArray, chunks: Index) -> None:
        """Give an array larger chunks: it is rewritten, and its old chunks are deleted."""
        reader, stored = array.reader, array.reader.array
        values = reader.read(()).reshape(stored.shape)
        lengths = [len(value) for value in values.reshape(-1).tolist() if isinstance(value, (str, bytes))]
        mean = max(_OBJECT_BYTES, sum(lengths) // max(1, len(lengths)))
        chunks = (max(1, chunks[0] * _OBJECT_BYTES // mean), *chunks[1:])
        if chunks[0] <= stored.chunks[0]:
            return  # the texts are long: the chunks are as large as they should be
        for index in array.indices():
            self._drop(array, index)
            array.removed.add(index)
        array.early -= array.removed
        reader.forget()
        stored.chunks = chunks
        array.is_replaced, array.narrow = True, None
        for index in array.indices():
            chunk = array.fill()
            part = values[chunk_region(index, chunks, stored.shape)]
            chunk[tuple(map(slice, part.shape))] = part
            self.put(reader, index, chunk)

    # ---- writing ----------------------------------------------------------------------------------------------------

    def _write_early(self) -> None:
        """Write the changed chunks that may be written before `flush`, and forget them; only complete shards."""
        early = [(array, array.may_be_early()) for array in self._arrays.values()]
        try:
            for array, chunks in early:
                array.early |= chunks.keys()
                self._put_chunks(array, chunks.items())
            arrays = self._arrays.values()
            self._write_shards([(array, shard) for array in arrays for shard in array.changed_shards(are_full=True)])
            self.change.drain()
        except BaseException as error:
            self.undo(error)
            raise
        for array, chunks in early:
            for index in chunks:
                self._drop(array, index)

    def begin(self) -> None:
        """Undo a write that failed, before anything is read from the store; refuse to go on if changes are lost."""
        if self.has_failed:
            self._change = self.change  # one that begins undoes what is left
        if self._is_lost:
            problem = "an earlier write failed and was undone, and some of the changes are not in memory any more"
            remedy = "Close the file, open it again, and make the changes again."
            raise StoreError(problem, store=self._store.location, remedy=remedy)

    def flush(self, encode: Encode, documents: Callable[[Mapping[str, Any]], dict[str, bytes]]) -> None:
        """Put everything into the change: chunks, then ``documents`` of the arrays that changed.

        The caller has called `begin`, commits it, and calls `done`. If an array is replaced or cut, the root refuses
        readers until then.
        """
        # in two passes: arrays whose chunks keep their names and sizes are complete before the root is marked
        with self.lock:
            for array in self._arrays.values():
                self._complete(array, encode)
            # a chunk that is cut has fill values where readers of the old shape look
            replaced = [array for array in self._arrays.values() if array.is_replaced or array.cut]
            kept = [array for array in self._arrays.values() if array not in replaced]
            self._put_arrays(kept)
            self.change.describe(documents({array.path: array.node for array in kept}))
            if replaced:
                # documents first: from them a reader that has the file open learns why a chunk does not decode
                self.change.hide(self._metadata.mark(), documents({array.path: array.node for array in replaced}))
                self.is_marked = True
                for array in replaced:  # one after the other
                    self._put_arrays([array])
                # what is not kept here is read from the store, also by a source of the same write
                self.change.drain()
            for array in self._arrays.values():  # chunks and shards that are outside of an array now
                stored = array.reader.array
                gone = dict.fromkeys(shard_of(stored, index) for index in sorted(array.removed))
                keys = [array.key(shard) for shard in gone if not is_inside(shard, shard_grid(stored))]
                self.change.delete(keys)
                for key in keys:
                    self._metadata.inlined.pop(key, None)

    def _complete(self, array: _ChangedArray, encode: Encode) -> None:
        """Fill chunks that are inside of an array again, resolve references, and make room for long text in rows."""
        for index in sorted(array.removed):
            if is_inside(index, array.reader.array.grid):
                self.put(array.reader, index, array.fill())
        array.deferred = dict(array.chunks)
        for index, chunk in array.deferred.items():
            array.chunks[index] = _resolved(chunk, encode, array.path, self._store.location)
        most, stored = self._store.read_rules.limits.max_object_bytes, array.reader.array
        filters = wider_filters(stored, array.chunks.values(), most) if array.chunks else None
        if filters is not None:
            self.widen(array.reader, np.dtype(object), partial(setattr, stored, "filters", filters))

    def _put_arrays(self, arrays: list[_ChangedArray]) -> None:
        """Put all chunks of some arrays that differ from the stored ones."""
        for array in arrays:
            if array.narrow is not None or array.cut:
                self._put_chunks(array, self._rewritten(array))
            self._put_chunks(array, array.chunks.items())
            missing = array.without_values()
            data = array.reader.codec.encode(array.fill()) if missing else b""
            for index in missing:
                self._put(array, index, data)
        self._write_shards([(array, shard) for array in arrays for shard in array.changed_shards()])

    def _rewritten(self, array: _ChangedArray) -> Iterator[tuple[Index, Array]]:
        """Yield the stored chunks of an array that are cut, or get larger elements, and are not changed otherwise."""
        old, dtype = array.narrow or (array.reader, array.reader.codec.dtype)
        old = ChunkReader(self._store, array.path, old.array, ChunkCache(0))  # each chunk is read once
        # by this writer: a chunk that is absent has fill values
        old.changed = lambda index: None
        indices: Iterable[Index] = list(array.cut)
        if array.narrow is not None:
            array.narrow, changed = (old, dtype), array.chunks.keys() | array.removed
            kept = (each for each in array.indices() if each not in changed and not array.is_new(each))
            indices = dict.fromkeys((*array.cut, *kept))
        for index, chunk in old.chunks(REWRITTEN_BYTES, indices):
            yield index, array.left_of(index, chunk.astype(dtype, copy=False))

    def _put_chunks(self, array: _ChangedArray, chunks: Iterable[tuple[Index, Array]]) -> None:
        try:
            for index, chunk in chunks:
                self._put(array, index, array.reader.codec.encode(chunk))
        finally:  # some may be written before a failure
            array.reader.forget()

    def _put(self, array: _ChangedArray, index: Index, data: bytes) -> None:
        """Put the stored bytes of a chunk, or keep them until its shard is written."""
        if array.shards is not None:
            array.shards.set(index, data)
            return
        key = array.key(index)
        self.change.put(key, data, is_new=array.is_new(index))
        self._metadata.inlined.pop(key, None)

    def _write_shards(self, shards: list[tuple[_ChangedArray, Index]]) -> None:
        for array, shard in shards:
            is_stored = is_inside(shard, shard_grid(array.reader.array, array.before))
            self.change.expect([array.key(shard)], are_new=not is_stored)
        try:
            for array, shard in shards:
                assert array.shards is not None
                array.shards.write(shard, self.change)
        finally:  # those before a failure are written
            for array, _ in shards:
                array.reader.forget()
        if shards:
            self.change.drain()  # they are read from the store

    def done(self) -> None:
        """Forget all changes: they are in the file."""
        with self.lock:
            for array in self._arrays.values():
                array.forget()
            self._arrays.clear()
            self._change = None
            self._bytes = 0
            self.is_marked = self.has_failed = self.writer.is_outdated = False

    def undo(self, error: BaseException) -> None:
        """Restore the stored state after ``error``; changes stay in memory, but for those that were written early."""
        if not self.writer.lock.is_held:
            return  # they belong to the process that was forked
        with self.lock:
            self.has_failed = True
            self.is_marked = False
            for array in self._arrays.values():
                self._is_lost = self._is_lost or bool(array.early)
                array.chunks |= array.deferred  # their targets may not be in the next write
                array.deferred = {}
                array.forget()
            if self._change is not None:
                self._change.abort(error)
                self._change = None


def _resolved(chunk: Array, encode: Encode, path: str, location: str) -> Array:
    """Return a chunk in which deferred references have the form that ``encode`` returns."""
    if not chunk.dtype.hasobject:
        return chunk
    chunk = chunk.copy()
    names: Sequence[str | None] = chunk.dtype.names or (None,)
    for name in names:
        flat = (chunk if name is None else chunk[name]).reshape(-1)
        for position, item in enumerate(flat):
            if isinstance(item, DeferredReference):
                with at(location, path):
                    flat[position] = encode(item.target)
    return chunk


# ---- arrays that grow -----------------------------------------------------------------------------------------------
# A table that was stored with two rows has chunks of two rows, so forty thousand more rows would be twenty thousand
# objects. An array with a few small chunks that grows to many of them is therefore rewritten with larger chunks. That
# happens once, since the new chunks are large enough. An array that already has many chunks keeps them.

SMALL_BYTES = 2**12  # the block size of ext4, NTFS and APFS
"""A chunk of fewer bytes is small: its file takes a block of the disk anyway."""

# Chunks in the MB range, as DANDI advises after a file of 34 GB with 1.5 million objects (dandi-cli#1520).
LEAST_BYTES, MOST_BYTES = 2**16, 4 * 2**20  # bounds of new chunks; within these, one chunk holds the complete array

_OBJECT_BYTES = 64  # estimated stored bytes of an object


def larger_chunks(array: StoredArray, dtype: np.dtype[Any], shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return larger chunks for an array that grows to ``shape``, None if it keeps its chunks."""
    if array.shards is not None or not shape or shape[0] <= FEW * array.chunks[0]:
        return None
    item, inner = row_bytes(array), array.chunks[1:-1]
    if item is None:
        item, inner = _OBJECT_BYTES if dtype.hasobject else dtype.itemsize, array.chunks[1:]
    row = max(1, math.prod(inner) * item)  # bytes in a chunk for one index of the first axis
    if not 0 < math.prod(array.grid) <= FEW or row * array.chunks[0] >= SMALL_BYTES:
        return None  # the chunks of an empty array were not chosen for its content
    rows = max(LEAST_BYTES // row, min(shape[0], MOST_BYTES // row))
    return (rows, *array.chunks[1:]) if rows > array.chunks[0] else None


# ---- fields of rows -------------------------------------------------------------------------------------------------
# Format 3 stores the text and references of rows in fields of fixed length. A field that is too short becomes at least
# twice as long, so that not every added row rewrites all others.


def wider_filters(array: StoredArray, chunks: Iterable[Array], max_bytes: int) -> list[dict[str, Any]] | None:
    """Return filters with fields that are long enough for all text in ``chunks``; None if they are, or cannot be."""
    if not has_records(array):
        return None
    fields: list[Any] = array.first_filter["fields"]
    rows = [chunk.reshape(-1, len(fields)) for chunk in chunks]
    short: dict[int, tuple[int, int]] = {}  # the columns with a cell that does not fit: its length, and theirs
    for column, (_, data_type, kind) in enumerate(fields):
        if kind == "number":
            continue
        try:
            texts = (text for cells in rows for text in cell_texts(cells[:, column].tolist(), kind))
            most = max((len(text.encode()) if data_type[1] == "S" else len(text) for text in texts), default=0)
        except (TypeError, ValueError):
            return None  # a cell has the wrong type for its field; encoding it raises the error
        length = int(split_code(data_type)[2])  # in characters, or bytes
        if most > length:
            short[column] = most, length
    for factor in (2, 1) if short else ():
        wider = [list(field) for field in fields]
        for column, (most, length) in short.items():
            wider[column][1] = f"{wider[column][1][:2]}{max(most, factor * length)}"
        if itemsize(field_types(wider)) * math.prod(array.chunks[:-1]) <= max_bytes:
            return [{**array.first_filter, "fields": wider}, *(array.filters or [])[1:]]
    return None
