"""The values of a chunked HDF5 dataset without the HDF5 library: chunks as they are, or decoded by numcodecs.

Source: the Zarr v2 specification for what a chunk is; the issue on conversion without recompression.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.codecs import ChunkCodec
from hdmf_zarr_backend.errors import ChunkError, ZarrBackendError
from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.hdf5.filters import CodecPipeline
from hdmf_zarr_backend.hdf5.rawchunks import Array, Index, RawChunks

Region = tuple[slice, ...]

CACHE_BYTES = 32 * 2**20
"""What all sources of a process keep of decoded chunks that were asked for in part."""

_Key = tuple[int, Index]


class _Recent:
    """The decoded chunks that were used last, up to a number of bytes; any number of threads."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._chunks: OrderedDict[_Key, Array] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _Key) -> Array | None:
        with self._lock:
            if key in self._chunks:
                self._chunks.move_to_end(key)
            return self._chunks.get(key)

    def put(self, key: _Key, chunk: Array) -> None:
        if chunk.nbytes > self._limit:
            return
        with self._lock:
            if key not in self._chunks:
                self._chunks[key] = chunk
                self._bytes += chunk.nbytes
            while self._bytes > self._limit:
                self._bytes -= self._chunks.popitem(last=False)[1].nbytes

    def clear(self) -> None:
        with self._lock:
            self._chunks.clear()
            self._bytes = 0


_recent = _Recent(CACHE_BYTES)
_numbers = itertools.count()


def forget_decoded() -> None:
    """Free what is kept of decoded chunks; for the end of a conversion."""
    _recent.clear()


class DecodedH5Source:
    """The values of a chunked dataset, decoded outside of the HDF5 library.

    It can be sent to another process if ``raw.is_plain_file``.

    Parameters
    ----------
    raw : RawChunks
        The chunks.
    dtype : numpy.dtype
        Of the elements, packed.
    pipeline : CodecPipeline
        What decodes them.
    fill : bytes
        One element, for what is not stored.

    Attributes
    ----------
    shape, chunks : tuple of int
        Of the dataset.
    """

    def __init__(self, raw: RawChunks, dtype: np.dtype[Any], pipeline: CodecPipeline, fill: bytes) -> None:
        self.raw = raw
        self.dtype = dtype
        self.pipeline = pipeline
        self.shape = raw.shape
        self.chunks = raw.chunks
        self._fill = fill
        self._number = next(_numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.raw, self.dtype, self.pipeline, self._fill))

    def part(self, indices: Iterable[Index]) -> DecodedH5Source:
        """Return the same with nothing but the chunks at ``indices``, small enough to be sent with a task.

        Asking it for any other chunk is an error.
        """
        return type(self)(self.raw.part(indices), self.dtype, self.pipeline, self._fill)

    def covering(self, regions: Iterable[Region]) -> set[Index]:
        """Return the indices of all chunks that overlap one of ``regions``."""
        return {index for region in regions for index in self._overlapping(region)}

    def decode(self, index: Index) -> Array:
        """Return the whole chunk at ``index``, which may be read-only; the fill value where nothing is stored.

        Raises
        ------
        ChunkError
            It does not decode to a chunk; file and dataset are named.
        """
        try:
            found = self.raw.find(index)
            if found is None:
                return np.broadcast_to(self.fill_scalar(), self.chunks)
            data = self.raw.read_found(index, found)
            buffer = memoryview(self.pipeline.decode(data, mask=found.mask)).cast("B")
            if buffer.nbytes != math.prod(self.chunks) * self.dtype.itemsize:
                raise ChunkError(
                    f"the chunk {index} decodes to {buffer.nbytes} bytes instead of "
                    f"{math.prod(self.chunks) * self.dtype.itemsize}",
                    remedy="The HDF5 file is damaged; restore it from a copy.",
                )
            return np.frombuffer(buffer, self.dtype).reshape(self.chunks)
        except ZarrBackendError as error:
            raise error.located(store=self.raw.location, path=self.raw.name) from error.__cause__

    def fill_scalar(self) -> Array:
        """Return the fill value as an array without axes."""
        return np.frombuffer(self._fill, self.dtype).reshape(())

    def read(self, region: Region) -> Array:
        """Return the values of ``region``, which may be read-only."""
        overlapping = list(self._overlapping(region))
        if len(overlapping) == 1:
            return self._in_part(overlapping[0], region)
        block: Array = np.empty(tuple(part.stop - part.start for part in region), self.dtype)
        for index in overlapping:
            inside = tuple(
                slice(max(part.start, i * c) - part.start, min(part.stop, (i + 1) * c) - part.start)
                for i, c, part in zip(index, self.chunks, region, strict=True)
            )
            block[inside] = self._in_part(index, region)
        return block

    def _overlapping(self, region: Region) -> Iterator[Index]:
        return itertools.product(
            *(range(part.start // c, -(-part.stop // c)) for part, c in zip(region, self.chunks, strict=True))
        )

    def _in_part(self, index: Index, region: Region) -> Array:
        """Return what ``region`` has of the chunk at ``index``; one that is not used up is kept for a while."""
        inside = tuple(
            slice(max(part.start - i * c, 0), min(part.stop - i * c, c))
            for i, c, part in zip(index, self.chunks, region, strict=True)
        )
        is_whole = all(
            part.start <= i * c and part.stop >= min((i + 1) * c, n)
            for i, c, n, part in zip(index, self.chunks, self.shape, region, strict=True)
        )
        chunk = _recent.get((self._number, index))
        if chunk is None:
            chunk = self.decode(index)
            if not is_whole:
                _recent.put((self._number, index), chunk)
        return chunk[inside]


class RawH5Source(DecodedH5Source):
    """The same, for a Zarr array with the chunks and codecs of the dataset: most chunks are given as they are."""

    _codec: ChunkCodec | None = None
    _fill_chunk: bytes | None = None

    def encoded(self, index: Index) -> bytes | None:
        """Return the Zarr chunk at ``index``.

        A chunk that has passed all filters is not decoded; one that HDF5 could not compress is encoded anew, and one
        that is not stored is the fill value.

        Raises
        ------
        ChunkError
            It cannot be read, or has to be decoded and does not.
        """
        found = self.raw.find(index)
        if found is None:
            if self._fill_chunk is None:
                self._fill_chunk = self._encode(self.decode(index))
            return self._fill_chunk
        try:
            data = self.raw.read_found(index, found) if not found.mask & self._mask else None
            stored = None if data is None else self.pipeline.stored(data)
        except ZarrBackendError as error:
            raise error.located(store=self.raw.location, path=self.raw.name) from error.__cause__
        return stored if stored is not None else self._encode(self.decode(index))

    def decoded(self) -> DecodedH5Source:
        """Return the same for an array with other chunks or codecs."""
        return DecodedH5Source(self.raw, self.dtype, self.pipeline, self._fill)

    @property
    def _mask(self) -> int:
        return (1 << len(self.pipeline.codecs)) - 1

    def _encode(self, chunk: Array) -> bytes:
        if self._codec is None:
            pipeline = self.pipeline
            self._codec = ChunkCodec(zarr_type(self.dtype), pipeline.filters, pipeline.compressor, "C")
        return self._codec.encode(np.ascontiguousarray(chunk))
