"""Reading the chunks of one array, and remembering the ones that were decoded.

A table of references or strings is read row by row by hdmf; decoding its chunk for each row would make that quadratic.
The cache holds decoded chunks of one file, the least recently used ones going first, bounded in bytes.
"""

from __future__ import annotations

import itertools
import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ChunkError, ZarrBackendError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute, join
from hdmf_zarr_backend.storage.codecs import ChunkCodec, chunk_codec, fill_array
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.storage.objects import SplitElements
from hdmf_zarr_backend.storage.selection import Axis, AxisPart, normalise, whole_mask

Array = npt.NDArray[Any]

CACHE_BYTES = 64 * 2**20
_SPLIT = "/#"  # no key of a store ends so
_OBJECT_BYTES = 200  # what an element of an object array is taken to cost


class ChunkCache:
    """Decoded chunks of one file by key, bounded in bytes.

    Parameters
    ----------
    max_bytes : int
        Bound of the sum; a chunk larger than a quarter of it is not kept.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max = max_bytes
        self._bytes = 0
        self._chunks: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ChunkCache], tuple[int]]:
        return ChunkCache, (self._max,)  # a copy, or another process, decodes for itself

    def get(self, key: str) -> Array | None:
        """Return the chunk of ``key``; it must not be changed."""
        found: Array | None = self._get(key)
        return found

    def split(self, key: str) -> SplitElements | None:
        """Return the elements of the chunk of ``key`` as text."""
        found: SplitElements | None = self._get(key + _SPLIT)
        return found

    def _get(self, key: str) -> Any:
        with self._lock:
            entry = self._chunks.get(key)
            if entry is None:
                return None
            self._chunks.move_to_end(key)
            return entry[0]

    def put(self, key: str, chunk: Array) -> None:
        """Remember the chunk of ``key``."""
        self._put(key, chunk, chunk.size * _OBJECT_BYTES if chunk.dtype.hasobject else chunk.nbytes)

    def put_split(self, key: str, elements: SplitElements) -> None:
        """Remember the elements of the chunk of ``key`` as text."""
        self._put(key + _SPLIT, elements, elements.nbytes)

    def _put(self, key: str, chunk: Any, size: int) -> None:
        if size > self._max // 4:
            return
        with self._lock:
            self._drop(key)
            self._chunks[key] = (chunk, size)
            self._bytes += size
            while self._bytes > self._max:
                self._drop(next(iter(self._chunks)))

    def forget(self, path: str) -> None:
        """Forget all chunks of the array at ``path``."""
        with self._lock:
            for key in [key for key in self._chunks if key.startswith(f"{path}/")]:
                self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._chunks.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]


class ChangedChunks(Protocol):
    """Chunks that were changed and are not written yet."""

    def chunk(self, path: str, index: tuple[int, ...]) -> Array | None:
        """Return the changed chunk, None where it is as on disk."""


class ChunkReader:
    """Reads selections of one array.

    Parameters
    ----------
    keys : KeyStore
        The store that holds the chunks.
    path : str
        Path of the array in the model's spelling.
    node : ArrayNode
        Its metadata; a change of its shape is seen at once.
    cache : ChunkCache
        Shared by the arrays of a file.
    """

    def __init__(self, keys: KeyStore, path: str, node: ArrayNode[Attributes], cache: ChunkCache) -> None:
        self.keys = keys
        self.path = path
        self.node = node
        self._cache = cache
        self.edits: ChangedChunks | None = None
        self._made_for: Any = None
        self._codec = self._make_codec()

    def _make_codec(self) -> ChunkCodec:
        self._made_for = self.node.data_type
        try:
            return chunk_codec(self.node)
        except ZarrBackendError as error:
            raise error.located(store=self.keys.location, path=absolute(self.path)) from None

    @property
    def codec(self) -> ChunkCodec:
        """What encodes and decodes chunks; another one where the data type of the array has changed."""
        if self._made_for is not self.node.data_type:
            self._codec = self._make_codec()
        return self._codec

    def read(self, key: Any = ()) -> Array:
        """Return what ``key`` selects, always as an array (0-d for a single element).

        Raises
        ------
        IndexError
            Out of range.
        ChunkError, UnsafeDataError
            A chunk does not decode.
        """
        piece = self._piece(key)
        if piece is not None:
            return piece
        masked = whole_mask(key, self.node.shape)
        if masked is not None:
            return self.read(masked[0])[masked[1]]
        axes = normalise(key, self.node.shape)
        whole = self._whole_single_chunk(axes)
        if whole is not None:
            return whole
        result = np.empty(tuple(axis.length for axis in axes), self.codec.dtype)
        parts = [list(axis.parts(chunk)) for axis, chunk in zip(axes, self.node.chunks, strict=True)]
        for combination in itertools.product(*parts):
            index = tuple(part[0] for part in combination)
            if self._load_into(index, combination, result):
                continue
            chunk = self.chunk(index)
            _copy(chunk, [part[1] for part in combination], result, [part[2] for part in combination])
        return result.reshape(tuple(axis.length for axis in axes if not axis.drop))

    def _load_into(self, index: tuple[int, ...], combination: Sequence[AxisPart], result: Array) -> bool:
        """Decode a chunk that is wanted whole straight to its place, without keeping it; False where it cannot be."""
        if not self.codec.decodes_in_place or self.edits is not None:
            return False
        if not all(_is_plain(part) for part in combination):
            return False
        target = result[tuple(part[2] for part in combination)]
        if target.shape != self.node.chunks or not target.flags.c_contiguous:
            return False
        key = join(self.path, self.node.chunk_name(index))
        if self._cache.get(key) is not None:
            return False
        data = self.keys.get(key)
        if data is None:
            return False
        self.decode(index, data, out=target)
        return True

    def _piece(self, key: Any) -> Array | None:
        """Return a range of a 1-d array that lies in one chunk: a row of a ragged column, wanted a thousand times."""
        if type(key) is not slice or len(self.node.shape) != 1 or key.step not in (None, 1):
            return None
        start, stop, _ = key.indices(self.node.shape[0])
        size = self.node.chunks[0]
        number = start // size
        if start >= stop or (stop - 1) // size != number or (stop - start == size and not self.codec.is_object):
            return None
        return self.chunk((number,))[start - number * size : stop - number * size].copy()

    def _whole_single_chunk(self, axes: list[Axis]) -> Array | None:
        """Return a fresh chunk where the selection is an array that is stored as one chunk."""
        node = self.node
        if node.shape != node.chunks or self.codec.is_object or 0 in node.shape or self.edits is not None:
            return None
        if any(a.drop or a.indices is not None or (a.start, a.stop, a.step) != (0, n, 1)
               for a, n in zip(axes, node.shape, strict=True)):  # fmt: skip
            return None
        return self._load((0,) * len(node.shape))

    def element(self, position: int) -> Any:
        """Return one element along the first axis of an array of references or rows, without decoding its chunk.

        Raises
        ------
        LookupError
            It cannot be had so; read the chunk.
        """
        node = self.node
        index = (position // node.chunks[0], *(0 for _ in node.shape[1:]))
        key = join(self.path, node.chunk_name(index))
        if self.edits is not None or node.shape[1:] != node.chunks[1:] or self._cache.get(key) is not None:
            raise LookupError(key)
        split = self._cache.split(key)
        if split is None:
            data = self.keys.get(key)
            split = None if data is None else self.codec.split(data)
            if split is None:
                raise LookupError(key)
            self._cache.put_split(key, split)
        try:
            return split[position % node.chunks[0]]
        except ValueError as error:
            raise LookupError(key) from error

    def chunk(self, index: tuple[int, ...]) -> Array:
        """Return the decoded chunk at ``index``, whole, not to be changed."""
        key = join(self.path, self.node.chunk_name(index))
        if self.edits is not None:
            changed = self.edits.chunk(self.path, index)
            if changed is not None:
                return changed
        chunk = self._cache.get(key)
        if chunk is None:
            chunk = self._load(index)
            self._cache.put(key, chunk)
        return chunk

    def forget(self, path: str) -> None:
        """Forget the decoded chunks of the array at ``path``; they have been written anew."""
        self._cache.forget(path)

    def _load(self, index: tuple[int, ...]) -> Array:
        return self.decode(index, self.keys.get(join(self.path, self.node.chunk_name(index))))

    def decode(self, index: tuple[int, ...], data: bytes | None, *, out: Array | None = None) -> Array:
        """Return the chunk at ``index`` from its stored bytes; None: it is not stored, and reads as the fill value.

        ``out``, a C-contiguous array of the chunk's shape, takes the values where the codec decodes in place.
        """
        try:
            if data is None:
                return fill_array(self.node, self.codec.dtype, self.node.chunks)
            return self.codec.decode(data, self.node.chunks, out=out)
        except ZarrBackendError as error:
            if isinstance(error, ChunkError):
                error.problem = error.problem.replace("a chunk", f"the chunk {self.node.chunk_name(index)!r}", 1)
            raise error.located(store=self.keys.location, path=absolute(self.path)) from error.__cause__


def _is_plain(part: AxisPart) -> bool:
    return isinstance(part[2], slice) and part[2].step in (None, 1)


def _copy(chunk: Array, inner: Sequence[Any], result: Array, outer: Sequence[Any]) -> None:
    """Copy ``chunk[inner]`` to ``result[outer]``, each axis on its own."""
    if sum(isinstance(part, np.ndarray) for part in inner) <= 1:
        result[tuple(outer)] = chunk[tuple(inner)]
        return
    lengths = [(n, r) for n, r in zip(chunk.shape, result.shape, strict=True)]
    source = np.ix_(*(_positions(part, n) for part, (n, _) in zip(inner, lengths, strict=True)))
    target = np.ix_(*(_positions(part, r) for part, (_, r) in zip(outer, lengths, strict=True)))
    result[target] = chunk[source]


def _positions(part: Any, length: int) -> npt.NDArray[np.intp]:
    return part if isinstance(part, np.ndarray) else np.arange(length)[part]
