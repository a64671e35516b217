"""Changes to the arrays of an open file, kept in memory until they are written together.

A table that grows row by row would otherwise write one chunk per row and column. Changed chunks are decoded here,
reading sees them at once, and `Edits.flush` writes chunks first and shapes last, so that another reader sees the old
array or the new one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ConflictError, UsageError, ValueRefusedError
from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute, join
from hdmf_zarr_backend.storage.arrays import LazyArray
from hdmf_zarr_backend.storage.chunks import ChunkReader
from hdmf_zarr_backend.storage.codecs import fill_array
from hdmf_zarr_backend.storage.jsontext import dump
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.storage.selection import Axis, normalise

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


class Edits:
    """The changed chunks and shapes of one file.

    Parameters
    ----------
    keys : KeyStore
        The store of the file.
    """

    def __init__(self, keys: KeyStore) -> None:
        self._keys = keys
        self._chunks: dict[tuple[str, Index], Array] = {}
        self._readers: dict[str, ChunkReader] = {}
        self._removed: dict[tuple[str, Index], ChunkReader] = {}
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
        """Keep a changed chunk."""
        key = (reader.path, index)
        if key not in self._chunks:
            self._bytes += _size(chunk)
        self._chunks[key] = chunk
        self._removed.pop(key, None)
        self._readers[reader.path] = reader
        if self._bytes > WAITING_BYTES and not chunk.dtype.hasobject:
            # references among objects may have no path yet: those chunks wait for `flush`
            self._write_chunks({place: chunk for place, chunk in self._chunks.items() if not chunk.dtype.hasobject})

    def grow(self, reader: ChunkReader) -> None:
        """Note that the shape of an array has changed."""
        self.changed[reader.path] = reader.node

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
        finally:  # those before a failure are written
            for path in {path for path, _ in chunks}:
                self._readers[path].forget(path)

    def flush(self, encode: Encode) -> dict[str, ArrayNode[Attributes]]:
        """Write everything: chunks, then the documents of the arrays that grew; chunks beyond them are deleted last.

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
        self._write_chunks({p: _resolved(chunk, encode, p[0], location) for p, chunk in self._chunks.items()})
        self._readers.clear()
        for path, node in self.changed.items():
            for key, document in v2.node_documents(path, node):
                self._keys.set(key, dump(document))
        self._delete_removed()
        changed, self.changed = self.changed, {}
        return changed

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


class EditableArray(LazyArray):
    """A dataset of a file that is open for changes.

    Parameters
    ----------
    edits : Edits
        Of the file.
    *arguments, **options
        As of `LazyArray`.
    """

    def __init__(self, edits: Edits, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._edits = edits
        self._reader.edits = edits

    def __reduce__(self) -> Any:
        raise TypeError("an array that is open for changes stays in its process; open the file for reading elsewhere")

    def __copy__(self) -> EditableArray:
        return self  # there is one array in the file, and one place for its changes

    def __deepcopy__(self, memo: dict[int, Any]) -> EditableArray:
        return self

    @property
    def _async_array(self) -> Any:
        self._array = None  # what zarr saw before may have grown
        return super()._async_array

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add ``data`` at the end of ``axis``.

        Parameters
        ----------
        data : array-like
            Same shape as the array but for ``axis``.
        axis : int
            Which axis grows.

        Returns
        -------
        tuple of int
            The new shape.

        Raises
        ------
        UsageError
            The shapes do not fit, or maxshape forbids it.
        """
        values = self._values(data)
        if axis < 0:
            axis += self.ndim
        if not 0 <= axis < values.ndim == self.ndim or any(
            n != m for i, (n, m) in enumerate(zip(values.shape, self.shape, strict=True)) if i != axis
        ):
            raise UsageError(
                f"data of shape {values.shape} cannot be appended to shape {self.shape} along axis {axis}",
                store=self.location,
                path=self.name,
                remedy="Give as many axes and the same lengths but for the one that grows.",
            )
        start = self.shape[axis]
        shape = tuple(n + values.shape[axis] if i == axis else n for i, n in enumerate(self.shape))
        self.resize(shape)
        self._assign([Axis(start if i == axis else 0, n) for i, n in enumerate(shape)], values)
        return self.shape

    def extend(self, data: Any) -> None:
        """Add all elements of ``data`` at the end of the first axis."""
        rows = list(data)
        if rows:
            self.append(rows)

    def resize(self, *new_shape: Any) -> None:
        """Change the shape; new elements are the fill value, elements outside are no longer seen.

        Raises
        ------
        UsageError
            More or fewer axes, or larger than maxshape.
        """
        shape = tuple(new_shape[0]) if len(new_shape) == 1 and isinstance(new_shape[0], (tuple, list)) else new_shape
        shape = tuple(int(n) for n in shape)
        if len(shape) != self.ndim or min(shape, default=0) < 0:
            raise UsageError(f"{shape} is no shape for {self.ndim} axes", store=self.location, path=self.name)
        bounds = self._maxshape or ()  # of rows, which are stored with an axis more, the first only
        if any(bound is not None and n > max(bound, m) for n, m, bound in zip(shape, self.shape, bounds, strict=False)):
            raise UsageError(
                f"the shape {shape} is beyond the largest one, {bounds}",
                store=self.location,
                path=self.name,
                remedy="Write the data to a new dataset.",
            )
        if any(n < m for n, m in zip(shape, self.shape, strict=True)):
            self._edits.cut(self._reader, shape)
        self.node.shape = shape
        self._edits.grow(self._reader)

    def __setitem__(self, key: Any, value: Any) -> None:
        axes = normalise(key, self.shape)
        lengths = tuple(axis.length for axis in axes)
        kept = tuple(axis.length for axis in axes if not axis.drop)
        values = self._values(value)
        while values.ndim > len(kept) and values.shape[0] == 1:
            values = values[0]
        try:
            values = np.broadcast_to(values, kept).reshape(lengths)
        except ValueError as error:
            raise UsageError(
                f"data of shape {values.shape} do not fill the selection, which has shape {kept}",
                store=self.location,
                path=self.name,
            ) from error
        self._assign(axes, values)

    def _values(self, data: Any) -> Array:
        codec = self._reader.codec
        if not codec.is_object or codec.dtype.names is not None:
            return self._numbers(data, codec.dtype)
        try:
            array = _object_array(data, self.ndim)
        except ValueRefusedError as error:
            raise error.located(store=self.location, path=self.name) from None
        flat = array.reshape(-1)
        convert = self._stored_element
        for position, item in enumerate(flat):
            flat[position] = convert(item)
        return flat.reshape(array.shape)

    def _numbers(self, data: Any, dtype: np.dtype[Any]) -> Array:
        try:
            with np.errstate(invalid="ignore"):
                values = np.asarray(data, dtype=dtype)
            fits = dtype.kind not in "iub" or np.array_equal(values, np.asarray(data))
        except (ValueError, TypeError, OverflowError) as error:
            problem = f"the data are no {dtype} ({error})"
            raise ValueRefusedError(problem, store=self.location, path=self.name) from error
        if not fits:
            raise ValueRefusedError(
                f"the data do not fit {dtype} without loss",
                store=self.location,
                path=self.name,
                remedy="Convert them, or write them to a new dataset.",
            )
        return values

    def _stored_element(self, item: Any) -> Any:
        first = (self.node.filters or [{}])[0].get("id")
        if first not in ("vlen-utf8", "vlen-bytes"):
            return item
        if first == "vlen-bytes" and isinstance(item, bytes):
            return bytes(item)
        try:
            text = item.decode("utf-8") if isinstance(item, bytes) else item
            if isinstance(text, str):
                raw = text.encode("utf-8")
                return str(text) if first == "vlen-utf8" else raw
        except UnicodeError:
            pass  # bytes of another encoding, or surrogates
        raise ValueRefusedError(f"{item!r} is no text", store=self.location, path=self.name)

    def _assign(self, axes: list[Axis], values: Array) -> None:
        reader = self._reader
        parts = [list(axis.parts(chunk)) for axis, chunk in zip(axes, self.node.chunks, strict=True)]
        for combination in itertools.product(*parts):
            index = tuple(part[0] for part in combination)
            held = self._edits.chunk(reader.path, index)
            chunk = held if held is not None else reader.chunk(index).copy()
            outer = np.ix_(*(_positions(p[2], n) for p, n in zip(combination, values.shape, strict=True)))
            inner = np.ix_(*(_positions(p[1], n) for p, n in zip(combination, chunk.shape, strict=True)))
            chunk[inner] = values[outer]
            self._edits.put(reader, index, chunk)
        if 0 not in values.shape:
            self._edits.grow(reader)


def _object_array(data: Any, ndim: int) -> Array:
    """Return nested lists as an object array of ``ndim`` axes, whatever the elements are."""
    if isinstance(data, np.ndarray) or (hasattr(data, "shape") and hasattr(data, "dtype")):
        return np.asarray(data).astype(object)
    shape: list[int] = []
    rows = [data]
    while len(shape) < ndim and rows and all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            raise ValueRefusedError("rows differ in length", remedy="Give as many elements in each.")
        shape.append(lengths.pop())
        rows = [item for row in rows for item in row]
    array: Array = np.empty(len(rows), object)
    for position, item in enumerate(rows):
        array[position] = item
    return array.reshape(shape)


def _positions(part: Any, length: int) -> npt.NDArray[np.intp]:
    return part if isinstance(part, np.ndarray) else np.arange(length)[part]
