"""Changes to the arrays of an open file, kept in memory until they are written together.

A table that grows row by row would otherwise write one chunk per row and column. Changed chunks are decoded here,
reading sees them at once, and `Edits.flush` writes chunks first and shapes last, so that another reader sees the old
array or the new one. An array whose data type changes has no such order, since its chunks keep their names: it is
replaced while the root says that the file is being changed.

What is on disk is put down in the journal of the file before it changes, and everything is kept here until the change
is committed: a write that failed was undone, and can be tried again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.changed_cells import (
    DeferredReference,
    Encode,
    has_fields,
    resolved,
    set_fields,
    wider_fields,
)
from hdmf_zarr_backend.arrays.changed_shards import ChangedShards
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.fills import fill_array
from hdmf_zarr_backend.arrays.growth import for_long_texts
from hdmf_zarr_backend.arrays.shards import shard_grid, shard_of
from hdmf_zarr_backend.changes.journal import Direct
from hdmf_zarr_backend.changes.journal_records import Format2Metadata, Mark, Metadata
from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, join
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.files import Staged
from hdmf_zarr_backend.stores.json_text import dump

__all__ = ["DeferredReference", "Edits"]

Array = npt.NDArray[Any]
Index = tuple[int, ...]
Place = tuple[str, Index]
"""Path of an array, and index of a chunk; or of a shard, where that is what is written."""

WAITING_BYTES = 64 * 2**20
"""Bound of the changed chunks that wait to be written."""

_OBJECT_BYTES = 200

Node = ArrayNode[Attributes]


class Edits:
    """The changed chunks and shapes of one file.

    Parameters
    ----------
    keys : Store
        The store of the file.
    metadata : Metadata, optional
        How its metadata are stored; None: in format 2.
    journal : Direct, optional
        Undoes changes that do not come to their end; None: nothing does.

    Attributes
    ----------
    changed : dict
        ``{path: node}`` of the arrays whose document changes.
    own : Staged
        Whose changes these are: of this process, and of none that is forked from it.
    journal : Direct
        As given.
    is_marked : bool
        Whether the root says that the file is being changed.
    has_failed : bool
        Whether the last write failed and was undone.
    shards : ChangedShards
        Changed chunks that lie in shards, where they wait encoded.
    """

    def __init__(self, keys: Store, metadata: Metadata | None = None, journal: Direct | None = None) -> None:
        self._keys = keys
        self.own = Staged(keys.location)
        self.journal = Direct(keys) if journal is None else journal
        self._metadata: Metadata = Format2Metadata() if metadata is None else metadata
        self._chunks: dict[Place, Array] = {}
        self._readers: dict[str, ChunkReader] = {}
        self._removed: dict[Place, ChunkReader] = {}
        self._widened: dict[str, ChunkReader] = {}
        self._grids: dict[str, tuple[ChunkReader, Index]] = {}
        self._early: set[Place] = set()
        self._bytes = 0
        self._is_lost = False
        self.changed: dict[str, ArrayNode[Attributes]] = {}
        self.shards = ChangedShards(keys)
        self.is_marked = False
        self.has_failed = False

    def chunk(self, path: str, index: Index) -> Array | None:
        """Return the changed chunk at ``index``, None where it is as on disk."""
        found = self._chunks.get((path, index))
        if found is None and (path, index) in self._removed:
            reader = self._removed[path, index]
            return fill_array(reader.node, reader.codec.dtype, reader.node.chunks)
        return found if found is not None else self.shards.chunk(path, index)

    def put(self, reader: ChunkReader, index: Index, chunk: Array) -> None:
        """Keep a changed chunk."""
        key = (reader.path, index)
        if key not in self._chunks:
            self._bytes += _size(chunk)
        self._chunks[key] = chunk
        self._removed.pop(key, None)
        self._readers[reader.path] = reader
        if self._bytes > WAITING_BYTES and not chunk.dtype.hasobject:
            self._write_early()

    def _write_early(self) -> None:
        """Write the changed chunks that need not wait, and forget them; those of a shard wait for its others."""
        chunks = {place: chunk for place, chunk in self._chunks.items() if self._may_go(place, chunk)}
        try:
            self._early.update(chunks)
            plain = self._without_sharded(chunks)
            full = self.shards.full()
            self._keep([*plain, *full], (), (), None)
            self._write_chunks(plain)
            self.shards.write(full)
        except BaseException as error:
            self.undo(error)
            raise
        for place in chunks:
            self._bytes -= _size(self._chunks.pop(place))

    def _may_go(self, place: Place, chunk: Array) -> bool:
        """Tell whether a chunk may be written before `flush`: what is on disk stays true."""
        stays_true = place[0] not in self._widened or self._is_new(place)
        return stays_true and not chunk.dtype.hasobject  # references may have no path yet

    def _without_sharded(self, chunks: dict[Place, Array]) -> dict[Place, Array]:
        """Encode those of ``chunks`` that lie in shards, for `shards`; return the others."""
        plain = {place: chunk for place, chunk in chunks.items() if self._readers[place[0]].node.shards is None}
        for (path, index), chunk in chunks.items():
            if (path, index) not in plain:
                reader = self._readers[path]
                self.shards.take(reader, index, reader.codec.encode(chunk), self._grid(reader))
        return plain

    def _grid(self, reader: ChunkReader) -> Index:
        """Return the number of chunks along each axis of an array as it is on disk."""
        return self._grids[reader.path][1] if reader.path in self._grids else reader.node.grid

    def grow(self, reader: ChunkReader, before: tuple[int, ...] | None = None) -> None:
        """Note that the shape of an array has changed.

        ``before`` is its grid as it was: new chunks that nothing is put into are stored too, since one that is absent
        is damage.
        """
        self.changed[reader.path] = reader.node
        if before is not None:
            self._grids.setdefault(reader.path, (reader, before))

    def _untouched(self) -> Iterator[Place]:
        """Yield path and index of the new chunks of arrays that have grown where nothing was put into them."""
        for path, (reader, before) in self._grids.items():
            grid = reader.node.grid
            if all(n <= m for n, m in zip(grid, before, strict=True)):
                continue
            for index in itertools.product(*map(range, grid)):
                place = (path, index)
                if self._is_new(place) and place not in self._chunks and place not in self._early:
                    yield place

    def _is_new(self, place: Place) -> bool:
        """Tell whether a chunk lies outside of the array as it is on disk."""
        path, index = place
        return path in self._grids and any(i >= n for i, n in zip(index, self._grids[path][1], strict=True))

    def _fills(self) -> dict[Place, bytes]:
        """Return what is stored where nothing was put: in new chunks, and, of shards that stay, in what was cut off.

        What lies in shards is in `shards` already; the rest is returned.
        """
        encoded: dict[str, bytes] = {}
        plain: dict[Place, bytes] = {}
        for path, index in (*self._untouched(), *(p for p, reader in self._removed.items() if self._stays(p, reader))):
            reader = self._grids[path][0]
            node = reader.node
            if path not in encoded:
                encoded[path] = reader.codec.encode(fill_array(node, reader.codec.dtype, node.chunks))
            if node.shards is None:
                plain[path, index] = encoded[path]
            else:
                self.shards.take(reader, index, encoded[path], self._grid(reader))
        return plain

    def _stays(self, place: Place, reader: ChunkReader) -> bool:
        """Tell whether a chunk that was cut off lies in a shard that stays, since others of its chunks do."""
        shard = shard_of(reader.node, place[1])
        is_kept = all(i < n for i, n in zip(shard, shard_grid(reader.node), strict=True))
        was_written = not self._is_new(place) or place in self._early
        return reader.node.shards is not None and is_kept and was_written

    def _keep(self, objects: Iterable[Place], keys: Iterable[str], below: Iterable[str], mark: Mark | None) -> None:
        """Put down in the journal how chunks, shards and ``keys`` are, before they are written."""
        there, large, new = list(keys), list[str](), list[str]()
        for path, index in objects:
            reader = self._readers[path] if path in self._readers else self._grids[path][0]
            node = reader.node
            grid = shard_grid(node, self._grid(reader))
            kind = there if node.shards is None else large
            kind = kind if all(i < n for i, n in zip(index, grid, strict=True)) else new
            kind.append(join(path, node.chunk_name(index)))
        self.journal.keep(there, new=new, large=large, below=below, mark=mark)

    def cut(self, reader: ChunkReader, shape: tuple[int, ...]) -> None:
        """Note that an array has become smaller: what is beyond ``shape`` is the fill value when it grows again."""
        node = reader.node
        for index in itertools.product(*map(range, node.grid)):
            left = [n - i * c for i, n, c in zip(index, shape, node.chunks, strict=True)]
            held = self.chunk(reader.path, index)
            if min(left, default=1) <= 0:
                if self._chunks.pop((reader.path, index), None) is not None and held is not None:
                    self._bytes -= _size(held)
                self._removed[reader.path, index] = reader
            elif any(n < min(c, m - i * c) for n, c, m, i in zip(left, node.chunks, node.shape, index, strict=True)):
                chunk = fill_array(node, reader.codec.dtype, node.chunks)
                inside = tuple(slice(0, n) for n in left)
                chunk[inside] = (held if held is not None else reader.chunk(index))[inside]
                self.put(reader, index, chunk)

    def widen(self, reader: ChunkReader, dtype: np.dtype[Any], describe: Callable[[Node], None]) -> None:
        """Give an array elements that take more room: each of its chunks and its document are written anew.

        ``dtype`` is what its chunks are made of in memory; ``describe`` makes the node say what has changed.
        """
        node, path = reader.node, reader.path
        chunks = {index: reader.chunk(index).astype(dtype) for index in itertools.product(*map(range, node.grid))}
        reader.forget(path)
        describe(node)
        self._widened[path] = reader
        for index, chunk in chunks.items():
            self.put(reader, index, chunk)
        self.grow(reader)

    def rechunk(self, reader: ChunkReader, chunks: tuple[int, ...]) -> None:
        """Give an array larger chunks: all of it is written anew, and the objects of its old chunks are deleted."""
        node, path = reader.node, reader.path
        values = reader.read(()).reshape(node.shape)
        chunks = for_long_texts(chunks, values)
        if chunks[0] <= node.chunks[0]:
            return
        self.grow(reader, node.grid)
        for index in itertools.product(*map(range, node.grid)):
            place = (path, index)
            if place in self._chunks:
                self._bytes -= _size(self._chunks.pop(place))
            self._early.discard(place)
            self._removed[place] = reader
        reader.forget(path)
        node.chunks = chunks
        self._widened[path] = reader
        for index in itertools.product(*map(range, node.grid)):
            chunk = fill_array(node, reader.codec.dtype, chunks)
            part = values[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
            chunk[tuple(map(slice, part.shape))] = part
            self.put(reader, index, chunk)

    def _widen_rows(self, encode: Encode) -> None:
        """Give rows with text, or references, that have become longer than their fields wider ones."""
        rows: dict[str, list[Array]] = {}
        for (path, _), chunk in self._chunks.items():
            if has_fields(self._readers[path].node):
                rows.setdefault(path, []).append(resolved(chunk, encode, path, self._keys.location))
        for path, chunks in rows.items():
            reader = self._readers[path]
            fields = wider_fields(reader.node, chunks, self._keys.read_rules.limits.max_object_bytes)
            if fields is not None:
                self.widen(reader, np.dtype(object), partial(set_fields, fields))

    @property
    def pending(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._chunks or self.changed or self._removed)

    def _write_chunks(self, chunks: dict[Place, Array]) -> None:
        try:
            for (path, index), chunk in chunks.items():
                reader = self._readers[path]
                self._keys.set(join(path, reader.node.chunk_name(index)), reader.codec.encode(chunk))
        finally:  # those before a failure are written
            for path in {path for path, _ in chunks}:
                self._readers[path].forget(path)

    def flush(
        self, encode: Encode, *, keys: Iterable[str] = (), below: Iterable[str] = ()
    ) -> dict[str, ArrayNode[Attributes]]:
        """Write everything: chunks, then the documents of the arrays that grew.

        It is whole when the caller has committed the journal, and told so by `done`; chunks beyond the arrays are
        deleted then. Where there is no order of old or new, the root says so from here to there.

        Parameters
        ----------
        encode : callable
            Returns the stored form of the target of a deferred reference; its ConflictError, for a target that is in no
            file, is raised before anything is written.
        keys, below : iterable of str
            What else will be written until then, as of `Journal.keep`.

        Returns
        -------
        dict
            ``{path: node}`` of the arrays whose document changed.

        Raises
        ------
        StoreError
            A write has failed, and some of the changes that were undone are not in memory any more.
        """
        location = self._keys.location
        if self._is_lost:
            raise StoreError(
                "an earlier write failed and was undone, and some of the changes are not in memory any more",
                store=location,
                remedy="Close the file, open it again, and make the changes again.",
            )
        for (_, index), reader in list(self._removed.items()):
            if all(i < n for i, n in zip(index, reader.node.grid, strict=True)):  # the array has grown again
                self.put(reader, index, fill_array(reader.node, reader.codec.dtype, reader.node.chunks))
        self._widen_rows(encode)
        chunks = {place: resolved(chunk, encode, place[0], location) for place, chunk in self._chunks.items()}
        documents = {path: list(self._metadata.documents(path, node)) for path, node in self.changed.items()}
        mark = self._metadata.mark() if self._widened else None
        names = [key for items in documents.values() for key, _ in items]
        plain, fills = self._without_sharded(chunks), self._fills()
        shards = self.shards.changed()
        self._keep([*plain, *fills, *shards], [*names, *keys], below, mark)
        for (path, index), data in fills.items():
            self._keys.set(join(path, self._grids[path][0].node.chunk_name(index)), data)
        self._write_chunks({place: chunk for place, chunk in plain.items() if place[0] not in self._widened})
        self.shards.write(place for place in shards if place[0] not in self._widened)
        self._keys.drain()  # chunks before shapes
        for path in documents.keys() - self._widened.keys():
            self._keys.set_many({key: dump(document) for key, document in documents[path]})
        if mark is not None:
            self._replace_widened(mark, plain, documents)
        self._discard_removed()
        return dict(self.changed)

    def _replace_widened(
        self, mark: Mark, chunks: dict[Place, Array], documents: dict[str, list[tuple[str, Any]]]
    ) -> None:
        """Write the arrays whose elements take more room; each of their chunks is at hand."""
        self._keys.drain()
        mark.put(self._keys)
        self._keys.drain()
        self.is_marked = True
        self._write_chunks({place: chunk for place, chunk in chunks.items() if place[0] in self._widened})
        self.shards.write(place for place in self.shards.changed() if place[0] in self._widened)
        for path in self._widened:
            self._keys.set_many({key: dump(document) for key, document in documents[path]})

    def _discard_removed(self) -> None:
        """Have stored objects that hold nothing of an array any more deleted in the end."""
        gone = {(path, shard_of(reader.node, index)): reader.node for (path, index), reader in self._removed.items()}
        for (path, index), node in gone.items():
            if any(i >= n for i, n in zip(index, shard_grid(node), strict=True)):
                self.journal.discard([join(path, node.chunk_name(index))])

    def done(self) -> None:
        """Forget all changes: they are in the file."""
        grown = (reader for reader, _ in self._grids.values())
        readers = {reader.path: reader for reader in (*grown, *self._removed.values(), *self._readers.values())}
        for path, reader in readers.items():
            reader.forget(path)
        for held in (self._chunks, self._grids, self._early, self._widened, self._readers, self._removed):
            held.clear()
        self._bytes = 0
        self.shards.clear()
        self.changed = {}
        self.is_marked = self.has_failed = False

    def undo(self, error: BaseException) -> None:
        """Put everything back on disk as it was before the changes, which ``error`` has ended; they stay in memory.

        Those that were written early do not, and then nothing more can be written.
        """
        if not self.own.is_own:
            return  # the process that was forked goes on with them
        self.has_failed = True
        self._is_lost = self._is_lost or bool(self._early)
        self.is_marked = False
        self.shards.clear()
        self.journal.undo(error)


def _size(chunk: Array) -> int:
    return chunk.size * _OBJECT_BYTES if chunk.dtype.hasobject else chunk.nbytes
