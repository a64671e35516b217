"""`VirtualSource`: an HDF5 dataset that stays in its file and is read from there as a Zarr array, chunk by chunk.

If Zarr has the filters of an HDF5 chunk, the chunk in the file is a Zarr chunk. A contiguous dataset is divided into
pieces of complete rows, each a chunk without a codec. The last piece may extend beyond the dataset, since nothing
outside an array is read, but not beyond the file.

`conversion.virtual` writes the references.

Source: Zarr v2 specification, "Chunks"; kerchunk's specification of references.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from h5py import h5d

from hdmf_zarr_backend.hdf5.datasets import describe
from hdmf_zarr_backend.hdf5.filters import Config
from hdmf_zarr_backend.hdf5.rawcopy import ContiguousH5Source, DecodedH5Source, Index, RawH5Source, Region
from hdmf_zarr_backend.hdf5.types import Array

LEAST_BYTES = 256
"""Minimum average size of a stored chunk in bytes; below it, a reference is larger than the chunk itself."""

_PIECE = 2**22
_TRIED = 4096


class Piece(NamedTuple):
    """One chunk: bytes ``offset`` to ``offset + size`` of the file, or ``data``."""

    indices: Index
    offset: int = 0
    size: int = 0
    data: bytes | None = None


class VirtualSource:
    """A dataset that stays in its HDF5 file. This class is one without stored values, which reads as its fill value.

    Attributes
    ----------
    shape, chunks : tuple of int
        Of the Zarr array.
    dtype : numpy.dtype
        Of the elements.
    location : str
        Name of the HDF5 file.
    fill : array
        The fill value of missing chunks, as an array without axes.
    filters, compressor
        Codecs of the Zarr array.
    inlined : int
        Bytes of the values in chunks that cannot be read from the HDF5 file as they are, and are stored in the
        references.
    is_complete : bool
        Whether every chunk is stored.
    """

    filters: list[Config] | None = None
    compressor: Config | None = None
    inlined: int = 0
    is_complete: bool = False

    def __init__(self, shape: Index, chunks: Index, dtype: np.dtype[Any], location: str, fill: Array) -> None:
        self.shape, self.chunks, self.dtype, self.location, self.fill = shape, chunks, dtype, location, fill
        self._chunk_bytes = math.prod(chunks) * dtype.itemsize

    def read(self, region: Region) -> Array:
        """Return the values of ``region``."""
        return np.broadcast_to(self.fill, tuple(part.stop - part.start for part in region))

    def encoded(self, index: Index) -> bytes | None:
        """Return the chunk at ``index`` as the array stores it."""
        return np.full(self.chunks, self.fill, self.dtype).tobytes()

    def pieces(self) -> Iterator[Piece]:
        """Yield the stored chunks."""
        return iter(())


class _VirtualChunks(VirtualSource):
    """A chunked dataset. The array has no codecs if most chunks passed none of the filters."""

    def __init__(self, source: DecodedH5Source) -> None:
        raw, pipeline = source.raw, source.pipeline
        assert raw.file is not None
        super().__init__(source.shape, source.chunks, source.dtype, raw.file.path, source.fill_scalar())
        self._whole = RawH5Source(raw, source.dtype, pipeline, self.fill.tobytes())
        self._every = (1 << len(pipeline.codecs)) - 1
        masks = raw.where["mask"] & np.uint32(self._every)
        filtered, plain = int(np.sum(masks == 0)), int(np.sum(masks == self._every))
        self._is_plain = bool(pipeline.codecs) and plain > filtered
        if not self._is_plain:
            self.filters, self.compressor = pipeline.filters, pipeline.compressor
        as_they_are = 0 if pipeline.reframed and not self._is_plain else max(filtered, plain)
        self.inlined = (len(raw) - as_they_are) * self._chunk_bytes
        self.is_complete = len(raw) == math.prod(raw.grid)

    def read(self, region: Region) -> Array:
        return self._whole.read(region)

    def encoded(self, index: Index) -> bytes | None:
        if self._is_plain:
            return np.ascontiguousarray(self._whole.decode(index)).tobytes()
        return self._whole.encoded(index)

    def pieces(self) -> Iterator[Piece]:
        wanted = self._every if self._is_plain else 0
        never = self._whole.pipeline.reframed and not self._is_plain
        for index, found in self._whole.raw.stored():
            is_odd = self._is_plain and found.size != self._chunk_bytes
            if never or is_odd or found.mask & self._every != wanted:
                yield Piece(index, data=self.encoded(index))
            else:
                yield Piece(index, found.offset, found.size)


class _VirtualRows(VirtualSource):
    """A contiguous dataset."""

    is_complete = True

    def __init__(self, source: ContiguousH5Source) -> None:
        chunks = whole_rows(source.shape, source.dtype.itemsize)
        super().__init__(source.shape, chunks, source.dtype, source.file.path, np.zeros((), source.dtype))
        self._source = source
        self._end = source.file.size
        self.inlined = sum(piece.size for piece in self._places() if piece.offset + piece.size > self._end)

    def read(self, region: Region) -> Array:
        return self._source.read(region)

    def encoded(self, index: Index) -> bytes | None:
        axes = zip(index, self.chunks, self.shape, strict=True)
        block = self._source.read(tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in axes))
        chunk: Array = np.zeros(self.chunks, self.dtype)
        chunk[tuple(slice(0, n) for n in block.shape)] = block
        return chunk.tobytes()

    def pieces(self) -> Iterator[Piece]:
        for piece in self._places():
            is_inside = piece.offset + piece.size <= self._end
            yield piece if is_inside else Piece(piece.indices, data=self.encoded(piece.indices))

    def _places(self) -> Iterator[Piece]:
        strides = np.cumprod([1, *self.shape[:0:-1]])[::-1].tolist()
        grid = [-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True)]
        for index in np.ndindex(*grid):
            first = sum(i * c * stride for i, c, stride in zip(index, self.chunks, strides, strict=True))
            yield Piece(tuple(index), self._source.offset + first * self.dtype.itemsize, self._chunk_bytes)


def virtual_source(source: object) -> VirtualSource | None:
    """Return a source that lets a dataset stay in its file, None if that is impossible."""
    if isinstance(source, ContiguousH5Source):
        return _VirtualRows(source)
    if not isinstance(source, DecodedH5Source) or source.raw.file is None:
        return None
    count = len(source.raw)
    if not isinstance(source, RawH5Source) and count and int(np.sum(source.raw.where["size"])) < LEAST_BYTES * count:
        return None  # many very small chunks, which are joined and stored in the references
    return _VirtualChunks(source)


def unwritten(dataset: Any, shape: tuple[int, ...]) -> VirtualSource | None:
    """Return the source of a contiguous numeric dataset that was never written, None for any other dataset."""
    created = dataset.id.get_create_plist()
    is_in_one_piece = created.get_layout() == h5d.CONTIGUOUS and not created.get_external_count()
    if not is_in_one_piece or dataset.id.get_offset() is not None or dataset.id.get_storage_size():
        return None
    found = describe(dataset)
    if found.kind != "number" or found.inner:
        return None
    value = np.zeros((), found.dtype) if found.fill_value is None else np.asarray(found.fill_value, found.dtype)
    chunks = whole_rows(shape, found.dtype.itemsize)
    return VirtualSource(shape, chunks, found.dtype, str(dataset.file.filename), value)


def whole_rows(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return a chunk shape of about 4 MB in which each chunk is one run of bytes.

    The first axis whose rows are small enough is divided; all axes before it have length 1. If possible the chunks
    divide that axis evenly, so that none extends beyond its edge.
    """
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) * itemsize > _PIECE:
        axis += 1
    row = math.prod(shape[axis + 1 :]) * itemsize
    length = shape[axis]
    rows = min(length, max(1, _PIECE // row))
    count = -(-length // rows)
    even = next((n for n in range(count, min(2 * count, count + _TRIED, length) + 1) if length % n == 0), count)
    return (*(1 for _ in shape[:axis]), -(-length // even), *shape[axis + 1 :])
