"""Changes to the arrays of an open file, kept in memory until they are written together.

A table that grows row by row would otherwise write one chunk per row and column. Changed chunks are decoded here,
reading sees them at once, and `Edits.flush` writes chunks first and shapes last, so that another reader sees the old
array or the new one. An array whose data type changes has no such order, since its chunks keep their names: it is
replaced as a whole, while there is no consolidated document that would say something else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ConflictError, UsageError
from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute, join
from hdmf_zarr_backend.storage.chunks import ChunkReader
from hdmf_zarr_backend.storage.fills import fill_array
from hdmf_zarr_backend.storage.jsontext import dump
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.storage.offers import replace_below
from hdmf_zarr_backend.storage.queued import drain

Array = npt.NDArray[Any]
Index = tuple[int, ...]

WAITING_BYTES = 64 * 2**20
"""Bound of the changed chunks that wait to be written."""

_OBJECT_BYTES = 200


class DeferredReference:
    """A reference whose target may have no place in the file yet; its path is known when the file is written.

    Parameters
    ----------
    target : object
        A container or a builder.
    """

    __slots__ = ("target",)

    def __init__(self, target: Any) -> None:
        self.target = target


Encode = Callable[[Any], Any]
Node = ArrayNode[Attributes]


class Metadata(Protocol):
    """How the metadata of a file are stored."""

    def documents(self, path: str, node: Node) -> Iterable[tuple[str, Any]]:
        """Return the documents of an array by their keys."""

    def unconsolidated(self) -> tuple[dict[str, Any], list[str]]:
        """Return the documents to set and the keys to delete for a file that has no consolidated document."""


class _Format2:
    def documents(self, path: str, node: Node) -> Iterable[tuple[str, Any]]:
        return v2.node_documents(path, node)

    def unconsolidated(self) -> tuple[dict[str, Any], list[str]]:
        return {}, [v2.CONSOLIDATED]


class Edits:
    """The changed chunks and shapes of one file.

    Parameters
    ----------
    keys : KeyStore
        The store of the file.
    metadata : Metadata, optional
        How its metadata are stored; None: in format 2.
    """

    def __init__(self, keys: KeyStore, metadata: Metadata | None = None) -> None:
        self._keys = keys
        self._metadata: Metadata = _Format2() if metadata is None else metadata
        self._chunks: dict[tuple[str, Index], Array] = {}
        self._readers: dict[str, ChunkReader] = {}
        self._removed: dict[tuple[str, Index], ChunkReader] = {}
        self._widened: dict[str, ChunkReader] = {}
        self._grids: dict[str, tuple[ChunkReader, tuple[int, ...]]] = {}
        self._early: set[tuple[str, Index]] = set()
        self._bytes = 0
        self.changed: dict[str, ArrayNode[Attributes]] = {}

    def chunk(self, path: str, index: Index) -> Array | None:
        """Return the changed chunk at ``index``, None where it is as on disk."""
        found = self._chunks.get((path, index))
        if found is None and (path, index) in self._removed:
            reader = self._removed[path, index]
            return fill_array(reader.node, reader.codec.dtype, reader.node.chunks)
        return found

    def put(self, reader: ChunkReader, index: Index, chunk: Array) -> None:
        """Keep a changed chunk.

        Raises
        ------
        UsageError
            It lies in a shard, which would have to be written anew.
        """
        if reader.node.shards is not None:
            raise UsageError(
                "a sharded array cannot be changed in place",
                store=self._keys.location,
                path=absolute(reader.path),
                remedy="Export to a new file.",
            )
        key = (reader.path, index)
        if key not in self._chunks:
            self._bytes += _size(chunk)
        self._chunks[key] = chunk
        self._removed.pop(key, None)
        self._readers[reader.path] = reader
        if self._bytes > WAITING_BYTES and not chunk.dtype.hasobject:
            self._write_chunks({place: chunk for place, chunk in self._chunks.items() if self._may_go(place[0], chunk)})

    def _may_go(self, path: str, chunk: Array) -> bool:
        """Tell whether a chunk may be written before `flush`: what is on disk stays true."""
        return path not in self._widened and not chunk.dtype.hasobject  # references may have no path yet

    def grow(self, reader: ChunkReader, before: tuple[int, ...] | None = None) -> None:
        """Note that the shape of an array has changed.

        ``before`` is its grid as it was: new chunks that nothing is put into are stored too, since one that is absent
        is damage.
        """
        self.changed[reader.path] = reader.node
        if before is not None:
            self._grids.setdefault(reader.path, (reader, before))

    def _store_untouched(self) -> None:
        """Store the fill value in the new chunks of arrays that have grown where nothing was put into them."""
        for path, (reader, before) in self._grids.items():
            node = reader.node
            if path in self._widened or all(n <= m for n, m in zip(node.grid, before, strict=True)):
                continue
            encoded = reader.codec.encode(fill_array(node, reader.codec.dtype, node.chunks))
            for index in itertools.product(*map(range, node.grid)):
                is_new = any(i >= n for i, n in zip(index, before, strict=True))
                if is_new and (path, index) not in self._chunks and (path, index) not in self._early:
                    self._keys.set(join(path, node.chunk_name(index)), encoded)

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
        """Give an array of integers a wider data type: each of its chunks and its document are written anew.

        ``describe`` makes the node say so.
        """
        node, path = reader.node, reader.path
        chunks = {index: reader.chunk(index).astype(dtype) for index in itertools.product(*map(range, node.grid))}
        reader.forget(path)
        describe(node)
        self._widened[path] = reader
        for index, chunk in chunks.items():
            self.put(reader, index, chunk)
        self.grow(reader)

    @property
    def pending(self) -> bool:
        """Whether anything waits to be written."""
        return bool(self._chunks or self.changed or self._removed)

    def _write_chunks(self, chunks: dict[tuple[str, Index], Array]) -> None:
        try:
            for (path, index), chunk in chunks.items():
                reader = self._readers[path]
                self._keys.set(join(path, reader.node.chunk_name(index)), reader.codec.encode(chunk))
                self._bytes -= _size(self._chunks.pop((path, index)))
                self._early.add((path, index))
        finally:  # those before a failure are written
            for path in {path for path, _ in chunks}:
                self._readers[path].forget(path)

    def flush(self, encode: Encode) -> dict[str, ArrayNode[Attributes]]:
        """Write everything: chunks, then the documents of the arrays that grew; chunks beyond them are deleted last.

        The consolidated document is deleted where it would be wrong halfway; the caller writes it anew.

        Parameters
        ----------
        encode : callable
            Returns the stored form of the target of a deferred reference; its ConflictError, for a target that is in no
            file, is raised before anything is written.

        Returns
        -------
        dict
            ``{path: node}`` of the arrays whose document changed.
        """
        location = self._keys.location
        for (_, index), reader in list(self._removed.items()):
            if all(i < n for i, n in zip(index, reader.node.grid, strict=True)):  # the array has grown again
                self.put(reader, index, fill_array(reader.node, reader.codec.dtype, reader.node.chunks))
        resolved = {p: _resolved(chunk, encode, p[0], location) for p, chunk in self._chunks.items()}
        self._store_untouched()
        self._write_chunks({place: chunk for place, chunk in resolved.items() if place[0] not in self._widened})
        drain(self._keys)  # chunks before shapes
        documents = {path: self._metadata.documents(path, node) for path, node in self.changed.items()}
        for path in documents.keys() - self._widened.keys():
            self._keys.set_many({key: dump(document) for key, document in documents[path]})
        if self._widened:
            items, stale = self._metadata.unconsolidated()
            self._keys.set_many({key: dump(document) for key, document in items.items()})
            self._keys.delete(stale)
        for path, reader in self._widened.items():
            items = {key: dump(document) for key, document in documents[path]} | self._encoded(path, reader)
            replace_below(self._keys, path, items)
            reader.forget(path)
        self._chunks.clear()
        self._grids.clear()
        self._early.clear()
        self._widened.clear()
        self._readers.clear()
        self._bytes = 0
        self._delete_removed()
        changed, self.changed = self.changed, {}
        return changed

    def _encoded(self, path: str, reader: ChunkReader) -> dict[str, bytes]:
        """Return all chunks of an array that was widened, as they are stored; each is at hand."""
        chunks = {index: self.chunk(path, index) for index in itertools.product(*map(range, reader.node.grid))}
        names = {index: join(path, reader.node.chunk_name(index)) for index in chunks}
        return {names[index]: reader.codec.encode(chunk) for index, chunk in chunks.items() if chunk is not None}

    def _delete_removed(self) -> None:
        for (path, index), reader in self._removed.items():
            if any(i >= n for i, n in zip(index, reader.node.grid, strict=True)):
                self._keys.delete([join(path, reader.node.chunk_name(index))])
            reader.forget(path)
        self._removed.clear()


def _size(chunk: Array) -> int:
    return chunk.size * _OBJECT_BYTES if chunk.dtype.hasobject else chunk.nbytes


def _resolved(chunk: Array, encode: Encode, path: str, location: str) -> Array:
    """Return ``chunk`` with its deferred references in their stored form."""
    if not chunk.dtype.hasobject:
        return chunk
    names: Sequence[str | None] = chunk.dtype.names or (None,)
    for name in names:
        flat = (chunk if name is None else chunk[name]).reshape(-1)
        for position, item in enumerate(flat):
            if isinstance(item, DeferredReference):
                try:
                    flat[position] = encode(item.target)
                except ConflictError as error:
                    raise error.located(store=location, path=absolute(path)) from None
    return chunk
