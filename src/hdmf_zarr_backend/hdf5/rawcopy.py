"""Stored values that bypass HDF5: chunks as they are, or file contents decoded with numcodecs.

HDF5 -> Zarr: `plan_raw` for chunked datasets and `plan_contiguous` for contiguous ones return sources that do not use
the HDF5 library, so no thread waits for its lock, and any process can read them. Zarr -> HDF5: `write_direct`. Values
are decoded and encoded only in chunks that one side can store and the other cannot. A dataset that stays in its HDF5
file, and is read from there as a Zarr array, chunk by chunk, is a `VirtualSource`.

Source: HDF5 file format specification, "Data layout"; HDF5 reference manual, `H5Pset_chunk_opts`, `H5Pset_fill_time`,
`H5Dwrite_chunk`; the Zarr v2 specification for chunks.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt
from h5py import h5d
from h5py._objects import phil

from hdmf_zarr_backend.array.chunks import normalise, overlaps
from hdmf_zarr_backend.encoding.chunk_codec import ChunkCodec
from hdmf_zarr_backend.encoding.dtypes import zarr_type
from hdmf_zarr_backend.encoding.hdf5_values import Array
from hdmf_zarr_backend.errors import ChunkError, StoreError, UsageError, at
from hdmf_zarr_backend.hdf5.datasets import Description, describe, stored_fill
from hdmf_zarr_backend.hdf5.files import H5_ERRORS, FileBytes, RemoteFile, plain_file
from hdmf_zarr_backend.hdf5.filters import BLOSC, CodecPipeline, Config, codecs_of, filters_of, is_snappy
from hdmf_zarr_backend.model.nodes import chunk_region, grid_of, lengths_of
from hdmf_zarr_backend.store.base import resource_failure
from hdmf_zarr_backend.write.sources import ArraySource, IndexedSource, cache_of

Index = tuple[int, ...]
Region = tuple[slice, ...]

# Runs of fewer bytes are not read one by one, but together with what is between them, up to so many times the bytes of
# the request.
_LEAST_RUN = 2**16
_MOST_WASTE = 8
_SLAB = 8 * 2**20

_NOWHERE = 2**64 - 1
_UNFILTERED = 2**32 - 1  # the mask of a chunk to which no filter was applied
_WHERE = np.dtype([("offset", "u8"), ("size", "u8"), ("mask", "u4")])
_numbers = itertools.count()


class StoredChunk(NamedTuple):
    """Position of a chunk: offset in the file, length, and the mask of filters that were not applied."""

    offset: int
    size: int
    mask: int


def _read_by_hdf5(dataset: Any, index: Index) -> tuple[bytes, int]:
    """Return the bytes of a chunk and the mask of filters that were not applied, read through the HDF5 library."""
    start = tuple(i * c for i, c in zip(index, dataset.chunks, strict=False))
    try:
        with phil:
            mask, data = dataset.id.read_direct_chunk(start)
    except (OSError, RuntimeError, ValueError) as error:
        where = {"store": dataset.file.filename, "path": dataset.name}
        lack = resource_failure(error, "read", what=f"the chunk {index}", **where)
        remedy = "The HDF5 file is damaged, or has changed since the copy was planned."
        raise lack or ChunkError(f"HDF5 cannot read the chunk {index} ({error})", remedy=remedy, **where) from error
    return bytes(data), int(mask)


class RawChunks:
    """The stored chunks of a chunked dataset: their positions in the file, and their bytes."""

    # Shape, chunks and grid include the axes of elements that are arrays. ``where`` has ``offset``, ``size`` and
    # ``mask`` of each stored chunk, in the order of iteration, see `StoredChunk`. Without a ``file``, HDF5 has to read
    # the chunks, and this cannot be sent to other processes. With one, the index is read once with the HDF5 library.
    # From then on the operating system reads bytes at their offsets, so threads do not wait for the global lock of
    # HDF5, and processes need no HDF5. Source: HDF5 file format specification, "Data layout" and "Chunk indexing".

    def __init__(self, dataset: Any, inner: tuple[int, ...] = ()) -> None:
        self.shape: tuple[int, ...] = (*dataset.shape, *inner)
        self.chunks: tuple[int, ...] = (*dataset.chunks, *inner)
        self.grid = grid_of(self.shape, self.chunks)
        self.location = str(dataset.file.filename)
        self.name = str(dataset.name)
        self._part: frozenset[int] | None = None
        self.positions, self.where = _list_chunks(dataset)
        self.file = plain_file(dataset) if not np.any(self.where["offset"] == _NOWHERE) else None
        self._dataset = dataset if self.file is None else None
        if self.file is not None and len(self):
            self._check_offsets(dataset)

    def __getstate__(self) -> dict[str, Any]:
        if self._dataset is not None:
            problem = "an HDF5 file that is not a plain local file opened for reading cannot be sent to another process"
            remedy = 'Use executor="threads", or open the file by its path in mode "r".'
            raise UsageError(problem, remedy=remedy, remedy_cli="Leave --scheduler out.")
        return self.__dict__

    def __len__(self) -> int:
        return len(self.positions)

    def find(self, index: Index) -> StoredChunk | None:
        """Return the position of the chunk at ``index``, None if it is not stored."""
        position = self._position(index)
        if self._part is not None and position not in self._part:  # it would read as fill values
            problem = f"the chunk {index} is not in this part of the dataset"
            remedy = "Read it from the dataset itself."
            raise UsageError(problem, store=self.location, path=self.name, remedy=remedy)
        row = int(np.searchsorted(self.positions, position))
        if row == len(self.positions) or self.positions[row] != position:
            return None
        return StoredChunk._make(self.where[row].item())

    def read(self, index: Index) -> bytes | None:
        """Return the bytes of the chunk at ``index`` as stored in the file, None if it is not stored."""
        chunk = self.find(index)
        return None if chunk is None else self.read_at(index, chunk)

    def read_at(self, index: Index, chunk: StoredChunk) -> bytes:
        """Return the bytes of the chunk at ``index``, whose position `find` has returned."""
        if self.file is None:
            data, mask = _read_by_hdf5(self._dataset, index)
            if len(data) != chunk.size or chunk.mask not in (mask, _UNFILTERED):
                problem = f"the chunk {index} has changed since the copy was planned"
                remedy = "Do not write to the HDF5 file before the copy is complete."
                raise StoreError(problem, store=self.location, path=self.name, remedy=remedy)
            return data
        return self.file.read(chunk.offset, chunk.size)

    def index_at(self, row: int) -> Index:
        """Return the index of the stored chunk in a row of ``where``."""
        return tuple(int(i) for i in np.unravel_index(self.positions[row], self.grid))

    def stored(self) -> Iterator[tuple[Index, StoredChunk]]:
        """Yield index and position of the stored chunks in the order of iteration, much faster than `find` for each."""
        indices = [axis.tolist() for axis in np.unravel_index(self.positions, self.grid)] if len(self) else []
        where = map(StoredChunk._make, self.where.tolist())
        return zip(zip(*indices, strict=True), where, strict=True) if indices else iter(())

    def part(self, indices: Iterable[Index]) -> RawChunks:
        """Return a copy that contains only the chunks at ``indices``, small enough to be sent with a task."""
        part = frozenset(self._position(index) for index in indices)
        if self._part is not None:
            part &= self._part
        wanted = np.array(sorted(part), np.int64)
        # not `numpy.isin`, which would sort all positions again for each task
        kept = np.searchsorted(self.positions, wanted)
        is_stored = kept < len(self)
        is_stored[is_stored] = self.positions[kept[is_stored]] == wanted[is_stored]
        kept = kept[is_stored]
        chunks = object.__new__(RawChunks)
        chunks.__dict__.update(self.__dict__, positions=self.positions[kept], where=self.where[kept], _part=part)
        return chunks

    def _position(self, index: Index) -> int:
        position = 0  # not by NumPy, which takes longer for one index
        for i, n in zip(index, self.grid, strict=True):
            position = position * n + i
        return position

    def _check_offsets(self, dataset: Any) -> None:
        """Check that the smallest chunk has the same bytes read either way, after adding the user block if needed."""
        # until 1.14.3 the offsets leave out the user block (issue 3003 of HDFGroup/hdf5)
        index = self.index_at(int(np.argmin(self.where["size"])))
        for shift in (0, int(dataset.file.userblock_size)):
            self.where["offset"] += np.uint64(shift)
            with suppress(ChunkError, StoreError):
                if self.read(index) == _read_by_hdf5(dataset, index)[0]:
                    return
        raise _uncertain(dataset)


def is_listable(dataset: Any) -> bool:
    """Tell whether the stored chunks of an ``h5py.Dataset`` can be listed: it is chunked, and h5py supports it."""
    if dataset.chunks is None or dataset.is_virtual or not hasattr(dataset.id, "chunk_iter"):
        return False
    # chunks are numbered by int64, and a damaged file may state any shape
    return math.prod(grid_of(dataset.shape, dataset.chunks)) < 2**62


def _list_chunks(dataset: Any) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the positions of the stored chunks in the grid, ascending, and their places in the file, in one pass."""
    grid = grid_of(dataset.shape, dataset.chunks)
    positions, offsets, sizes, masks = array("q"), array("Q"), array("Q"), array("I")
    steps = list(zip(dataset.chunks, grid, strict=True))
    outside = 0

    # No code of zarr runs in this callback: while the library holds its lock, another thread whose garbage collector
    # frees an h5py object would wait forever.
    def note(chunk: Any) -> None:
        nonlocal outside
        position = 0
        for start, (length, count) in zip(chunk.chunk_offset, steps, strict=True):
            outside += start >= length * count
            position = position * count + start // length
        positions.append(position)
        offsets.append(chunk.byte_offset if chunk.byte_offset is not None else _NOWHERE)
        sizes.append(chunk.size)
        masks.append(chunk.filter_mask)

    if math.prod(grid):
        dataset.id.chunk_iter(note)
    where = np.empty(len(positions), _WHERE)
    where["offset"], where["size"], where["mask"] = offsets, sizes, masks
    order = np.argsort(positions, kind="stable")
    numbers, where = np.array(positions, np.int64)[order], where[order]
    is_certain = not outside and not np.any(numbers[1:] == numbers[:-1])
    # Up to 2.0, chunks of an extensible array (one unlimited axis) are counted as if that axis were the first, and one
    # chunk would be mistaken for another. Observed with HDF5 1.14.2 and 2.0.0. This matters if the axes before it have
    # more than one chunk. A wrong count never goes further along these axes, so a chunk at a higher position on them
    # proves the count right.
    unlimited = [axis for axis, bound in enumerate(dataset.maxshape) if bound is None]
    if is_certain and len(unlimited) == 1 and len(numbers):
        before = range(unlimited[0])
        if math.prod(-(-dataset.maxshape[axis] // dataset.chunks[axis]) for axis in before) > 1:
            indices = np.unravel_index(numbers, grid)
            is_certain = any(bool(np.any(indices[axis])) for axis in before)
    if not is_certain:
        raise _uncertain(dataset)
    return numbers, where


def _uncertain(dataset: Any) -> UsageError:
    problem = "the positions of the chunks of the dataset are not certain"
    return UsageError(problem, store=dataset.file.filename, path=dataset.name, remedy="Read it through h5py.")


# ---- HDF5 -> Zarr: datasets in chunks -------------------------------------------------------------------------------


@dataclass(eq=False)
class DecodedH5Source:
    """The values of a chunked dataset, decoded without the HDF5 library; picklable if ``raw.file`` is not None."""

    raw: RawChunks
    dtype: np.dtype[Any]
    pipeline: CodecPipeline
    fill: Array  # without axes

    def __post_init__(self) -> None:
        self.shape, self.chunks = self.raw.shape, self.raw.chunks
        self._number = next(_numbers)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.raw, self.dtype, self.pipeline, self.fill))

    def part(self, regions: Iterable[Region]) -> DecodedH5Source:
        """Return a source of only the chunks that overlap one of ``regions``, small enough to be sent with a task."""
        indices = (each.chunk for region in regions for each in overlaps(normalise(region, self.shape), self.chunks))
        return type(self)(self.raw.part(indices), self.dtype, self.pipeline, self.fill)

    def decode(self, index: Index) -> Array:
        """Return the complete chunk at ``index``, which may be read-only; the fill value if it is not stored."""
        with at(self.raw, self.raw.name):
            position = self.raw.find(index)
            if position is None:
                return np.broadcast_to(self.fill, self.chunks)
            data = self.raw.read_at(index, position)
            decoded = self.pipeline.decode(data, math.prod(self.chunks) * self.dtype.itemsize, mask=position.mask)
            return np.frombuffer(decoded, self.dtype).reshape(self.chunks)

    def read(self, region: Region) -> Array:
        """Return the values of ``region``, which may be read-only."""
        cache = cache_of("HDF5")
        block: Array = np.empty(lengths_of(region), self.dtype)
        parts = list(overlaps(normalise(region, self.shape), self.chunks))
        for index, inside, outside in parts:
            key = f"{self._number}/{index}"
            known: Array | None = cache.get(key)
            chunk = self.decode(index) if known is None else known
            part: Array = chunk[inside]
            # cached only if there are other values in it, which another target chunk will ask for
            if known is None and part.size < math.prod(lengths_of(chunk_region(index, self.chunks, self.shape))):
                cache.put(key, chunk)
            if len(parts) == 1:
                return part
            block[outside] = part
        return block


class RawH5Source(DecodedH5Source):
    """A source for a Zarr array with the chunks and codecs of the dataset: most chunks are copied as they are."""

    def encoded(self, index: Index) -> bytes | None:
        """Return the Zarr chunk at ``index``; one that HDF5 did not compress, or does not store, is encoded here."""
        position = self.raw.find(index)
        if position is None:
            return self._fill_chunk
        with at(self.raw, self.raw.name):
            if not self.pipeline.reframed and not position.mask & ((1 << len(self.pipeline.codecs)) - 1):
                return self.raw.read_at(index, position)
        return self._codec.encode(np.ascontiguousarray(self.decode(index)))

    def decoded(self) -> DecodedH5Source:
        """Return a source of decoded values, for an array with other chunks or codecs."""
        return DecodedH5Source(self.raw, self.dtype, self.pipeline, self.fill)

    @cached_property
    def _codec(self) -> ChunkCodec:
        return ChunkCodec(zarr_type(self.dtype), self.pipeline.filters, self.pipeline.compressor, "C")

    @cached_property
    def _fill_chunk(self) -> bytes:
        return self._codec.encode(np.full(self.chunks, self.fill))


# ---- HDF5 -> Zarr: datasets in one piece ----------------------------------------------------------------------------


@dataclass(eq=False)
class ContiguousH5Source:
    """The values of a contiguous dataset. It can be sent to another process."""

    file: FileBytes | RemoteFile
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    name: str

    def read(self, region: Region) -> Array:
        """Return the values of ``region``, which may be read-only."""
        lengths = lengths_of(region)
        if not math.prod(lengths):
            return np.empty(lengths, self.dtype)
        axis = len(region) - 1  # the last axis that is read in part: all axes after it form one run of bytes
        while axis > 0 and lengths[axis] == self.shape[axis]:
            axis -= 1
        with at(self.file.path, self.name):
            if axis <= 0:
                return self._run(region).reshape(lengths)
            block: Array = np.empty(lengths, self.dtype)
            run_bytes = math.prod(lengths[axis:]) * self.dtype.itemsize
            if run_bytes < _LEAST_RUN and self.shape[axis] <= _MOST_WASTE * lengths[axis]:
                axis -= 1  # complete rows: much faster than many short reads, although most may be thrown away
            inner, rows = self.shape[axis + 1 :], region[axis]
            step = max(1, _SLAB // (math.prod(inner) * self.dtype.itemsize))
            for outer in np.ndindex(*lengths[:axis]):
                corner = [slice(part.start + i, part.start + i + 1) for i, part in zip(outer, region, strict=False)]
                for start in range(rows.start, rows.stop, step):
                    stop = min(start + step, rows.stop)
                    run = self._run((*corner, slice(start, stop), *(slice(0, n) for n in inner)))
                    inside: tuple[Any, ...] = (*outer, slice(start - rows.start, stop - rows.start))
                    block[inside] = run.reshape(stop - start, *inner)[(slice(None), *region[axis + 1 :])]
            return block

    def _run(self, region: Region) -> Array:
        """Return the elements of a region that is one run of bytes."""
        first = 0  # NumPy's own function takes four times as long
        for part, length in zip(region, self.shape, strict=True):
            first = first * length + part.start
        count, size = math.prod(lengths_of(region)), self.dtype.itemsize
        return np.frombuffer(self.file.read(self.offset + first * size, count * size), self.dtype)


def plan_contiguous(dataset: Any, description: Description) -> ContiguousH5Source | None:
    """Return a source for a contiguous dataset, None if HDF5 has to read it."""
    if not description.is_raw or not dataset.shape or not dataset.size:
        return None
    if dataset.id.get_create_plist().get_layout() != h5d.CONTIGUOUS:
        return None
    file, offset = plain_file(dataset), dataset.id.get_offset()  # None for values in other files, and for no values
    if file is None or offset is None:
        return None
    inner = description.inner
    source = ContiguousH5Source(file, int(offset), (*dataset.shape, *inner), description.dtype, str(dataset.name))
    # The first elements must be the same read either way: until 1.14.3 offsets leave out the user block (issue 3003 of
    # HDFGroup/hdf5).
    few = max(1, 4096 // max(1, math.prod(inner) * description.dtype.itemsize))
    region = (*(slice(0, 1) for _ in dataset.shape[:-1]), slice(0, min(few, dataset.shape[-1])))
    try:
        own = source.read((*region, *(slice(0, n) for n in inner)))
    except (ChunkError, StoreError):
        return None
    return source if own.tobytes() == np.ascontiguousarray(dataset[region]).tobytes() else None


def plan_raw(dataset: Any, description: Description) -> RawH5Source | None:
    """Return a source for a dataset whose chunks can be copied as they are, None if HDF5 has to decode it."""
    # The bytes of text, references, padded compounds and numbers with a custom layout differ from those of the Zarr
    # type, and not each filter has a counterpart.
    if not description.is_raw or not dataset.shape or not is_listable(dataset) or dataset.file.swmr_mode:
        return None
    dtype, inner = description.dtype, description.inner
    entries = description.note.get("filters", [])
    pipeline = codecs_of(entries, dtype)
    size = math.prod(dataset.chunks) * description.element_dtype.itemsize
    if pipeline is None or not pipeline.divides(size):
        return None
    created, fill = dataset.id.get_create_plist(), np.zeros((), dtype)  # zero too if HDF5 must not fill
    is_given = created.fill_value_defined() == h5d.FILL_VALUE_USER_DEFINED
    if is_given and created.get_fill_time() != h5d.FILL_TIME_NEVER:
        if inner:
            return None  # h5py cannot read the fill value of elements that are arrays
        fill = np.frombuffer(stored_fill(created, dataset.dtype).tobytes(), dtype).reshape(())
    try:
        raw = RawChunks(dataset, inner)
    except UsageError:
        return None
    source = RawH5Source(raw, dtype, pipeline, fill)
    if pipeline.codecs and not _edges_known(dataset, source, size):
        return None
    filtered = np.flatnonzero(raw.where["mask"] == 0)
    if BLOSC in {number for number, _, _ in entries} and len(filtered):
        # A chunk of Blosc names its compressor, which may be Snappy, and numcodecs lacks that: HDF5 has to decode. It
        # does for no other chunk that numcodecs refuses, which is damaged: the filter of bzip2 would not end.
        smallest = filtered[np.argmin(raw.where["size"][filtered])]
        if is_snappy(raw.read(raw.index_at(int(smallest))) or b""):
            return None
    return source


def _edges_known(dataset: Any, source: RawH5Source, size: int) -> bool:
    """Find out whether chunks at the edge are filtered (`H5Pset_chunk_opts`); False: unknown."""
    # h5py cannot query it. An unfiltered chunk has exactly the size of its values, so chunks of that size are in doubt,
    # such as all of a lone shuffle. The values that HDF5 reads from one of them show it.
    raw = source.raw
    partial = np.zeros(len(raw), bool)  # chunks that extend beyond the edge of the array
    for axis, numbers in enumerate(np.unravel_index(raw.positions, raw.grid) if len(raw) else ()):
        partial |= (numbers + 1) * raw.chunks[axis] > raw.shape[axis]
    doubtful = np.flatnonzero(partial & (raw.where["size"] == size) & (raw.where["mask"] == 0))
    for row in doubtful[:16]:
        index = raw.index_at(int(row))
        region = chunk_region(index[: len(dataset.shape)], dataset.chunks, dataset.shape)
        inside = tuple(slice(0, n) for n in lengths_of(region))
        try:
            expected = np.ascontiguousarray(dataset[region]).tobytes()
            plain = np.frombuffer(raw.read(index) or b"", source.dtype).reshape(raw.chunks)[inside].tobytes()
        except (ChunkError, *H5_ERRORS):
            return False
        filtered = None
        with suppress(ChunkError):
            filtered = source.decode(index)[inside].tobytes()
        if plain != filtered:
            if plain == expected:
                raw.where["mask"][partial] = _UNFILTERED
            return expected in (plain, filtered)
    # a shuffle of single bytes changes nothing
    return len(doubtful) <= 16 or all(config.get("elementsize") == 1 for config in source.pipeline.codecs)


# ---- Zarr -> HDF5 ---------------------------------------------------------------------------------------------------


def write_direct(dataset: Any, chunks: Iterable[tuple[Index, bytes | None]]) -> None:
    """Write the chunks of a Zarr array into a new HDF5 dataset as they are."""
    pipeline = filters_of(dataset.id.get_create_plist())
    size = math.prod(dataset.chunks) * dataset.id.get_type().get_size()
    for index, data in chunks:
        if data is None:
            continue
        if not pipeline and len(data) != size:
            problem = f"the chunk {index} has {len(data)} bytes instead of {size}"
            raise ChunkError(problem, remedy="Run `zarrio verify` on the Zarr file.")
        start = tuple(i * c for i, c in zip(index, dataset.chunks, strict=True))
        # old releases of h5py do not take its lock for raw chunks
        with phil:
            dataset.id.write_direct_chunk(start, data)


# ---- HDF5 as Zarr, without a copy ------------------------------------------------------------------------------------
# If Zarr has the filters of an HDF5 chunk, the chunk in the file is a Zarr chunk. A contiguous dataset is divided into
# pieces of complete rows, each a chunk without a codec. The last piece may extend beyond the dataset, since nothing
# outside an array is read, but not beyond the file. `virtual` writes the references (kerchunk).

LEAST_BYTES = 256
"""Minimum average size of a stored chunk in bytes; below it, a reference is larger than the chunk itself."""

_PIECE = 2**22


class Piece(NamedTuple):
    """One chunk: bytes ``offset`` to ``offset + size`` of the file; without ``size``, it has to be encoded."""

    indices: Index
    offset: int = 0
    size: int = 0


@dataclass(eq=False)
class VirtualSource:
    """A dataset that stays in its HDF5 file; one without stored values has no pieces."""

    # chunks, filters and compressor are those of the Zarr array
    values: ArraySource
    chunks: Index
    location: str
    fill: Array  # without axes
    pieces: Callable[[], Iterable[Piece]] = tuple  # returns the stored chunks
    inlined: int = 0  # bytes of values that cannot be read from the HDF5 file as they are: they are in the references
    is_complete: bool = False  # whether every chunk is stored
    filters: list[Config] | None = None
    compressor: Config | None = None

    def __post_init__(self) -> None:
        self.shape = self.values.shape

    def read(self, region: Region) -> Array:
        """Return the values of ``region``."""
        return self.values.read(region)

    def encoded(self, index: Index) -> None:
        """Return None: a chunk that does not stay in the file as it is has to be encoded from its values."""

    def decoded(self) -> ArraySource:
        """Return a source of values, for an array with other chunks or codecs."""
        return self.values


def _virtual_chunks(source: DecodedH5Source, file: FileBytes | RemoteFile) -> VirtualSource:
    """Return the source of a chunked dataset. The array has no codecs if most chunks passed none of the filters."""
    raw, pipeline = source.raw, source.pipeline
    every, nbytes = (1 << len(pipeline.codecs)) - 1, math.prod(source.chunks) * source.dtype.itemsize
    masks = raw.where["mask"] & np.uint32(every)
    filtered, plain = int(np.sum(masks == 0)), int(np.sum(masks == every))
    is_plain = bool(pipeline.codecs) and plain > filtered
    wanted, never = every if is_plain else 0, pipeline.reframed and not is_plain

    def pieces() -> Iterator[Piece]:
        for index, chunk in raw.stored():
            is_odd = is_plain and chunk.size != nbytes
            is_kept = not (never or is_odd) and chunk.mask & every == wanted
            yield Piece(index, chunk.offset, chunk.size) if is_kept else Piece(index)

    inlined = (len(raw) - (0 if never else max(filtered, plain))) * nbytes
    codecs = (None, None) if is_plain else (pipeline.filters, pipeline.compressor)
    values = source.decoded() if isinstance(source, RawH5Source) else source
    form = values, source.chunks, file.path, source.fill, pieces
    return VirtualSource(*form, inlined, len(raw) == math.prod(raw.grid), *codecs)


def _virtual_rows(source: ContiguousH5Source) -> VirtualSource:
    """Return the source of a contiguous dataset."""
    shape, dtype = source.shape, source.dtype
    chunks = whole_rows(shape, dtype.itemsize)
    nbytes = math.prod(chunks) * dtype.itemsize

    def pieces() -> Iterator[Piece]:
        for index in np.ndindex(*grid_of(shape, chunks)):
            first = int(np.ravel_multi_index([i * c for i, c in zip(index, chunks, strict=True)], shape))
            offset = source.offset + first * dtype.itemsize
            yield Piece(index, offset, nbytes) if offset + nbytes <= source.file.size else Piece(index)

    inlined, fill = nbytes * sum(not piece.size for piece in pieces()), np.zeros((), dtype)
    return VirtualSource(source, chunks, source.file.path, fill, pieces, inlined, is_complete=True)


def virtual_source(source: object) -> VirtualSource | None:
    """Return a source that lets a dataset stay in its file, None if that is impossible."""
    if isinstance(source, ContiguousH5Source):
        return _virtual_rows(source)
    if not isinstance(source, DecodedH5Source) or source.raw.file is None:
        return None
    count = len(source.raw)
    if not isinstance(source, RawH5Source) and count and int(np.sum(source.raw.where["size"])) < LEAST_BYTES * count:
        return None  # many very small chunks, which are joined and stored in the JSON
    return _virtual_chunks(source, source.raw.file)


def unwritten(node: Any, shape: Index) -> VirtualSource | None:
    """Return the source of a contiguous numeric ``h5py.h5d.DatasetID`` that was never written, None for any other."""
    # such a dataset needs neither a reference nor bytes: chunks that are missing in Zarr read as the fill value
    created, dataset = node.get_create_plist(), h5py.Dataset(node)
    is_in_one_piece = created.get_layout() == h5d.CONTIGUOUS and not created.get_external_count()
    if not is_in_one_piece or node.get_offset() is not None or node.get_storage_size():
        return None
    description = describe(dataset)
    if description.kind != "number" or description.inner:
        return None
    dtype, given = description.dtype, description.fill_value
    fill = np.zeros((), dtype) if given is None else np.asarray(given, dtype)
    chunks, values = whole_rows(shape, dtype.itemsize), IndexedSource(np.broadcast_to(fill, shape), dtype)
    return VirtualSource(values, chunks, str(dataset.file.filename), fill)


def whole_rows(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """Return a chunk shape of about 4 MB in which each chunk is one run of bytes."""
    # The first axis whose rows are small enough is divided; all axes before it have length 1. If possible the chunks
    # divide that axis evenly, so that none extends beyond its edge.
    axis = 0
    while axis < len(shape) - 1 and math.prod(shape[axis + 1 :]) * itemsize > _PIECE:
        axis += 1
    row = math.prod(shape[axis + 1 :]) * itemsize
    length = shape[axis]
    rows = min(length, max(1, _PIECE // row))
    count = -(-length // rows)
    even = next((n for n in range(count, min(2 * count, count + 4096, length) + 1) if length % n == 0), count)
    return (*(1 for _ in shape[:axis]), -(-length // even), *shape[axis + 1 :])
