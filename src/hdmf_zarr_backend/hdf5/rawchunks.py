"""The stored chunks of an HDF5 dataset: where they are, and their bytes as they lie in the file.

The index is taken once from the HDF5 library; from then on bytes are read at their offsets by the operating system, so
that threads do not wait for the one lock of HDF5 and processes need no HDF5 at all.

Nothing of zarr happens inside the callback of h5py: while the library holds its lock, another thread whose garbage
collector frees an object of h5py would wait for ever.

Source: HDF5 file format specification, "Data layout" and "Chunk indexing"; `h5py.h5d.DatasetID.chunk_iter`.
"""

from __future__ import annotations

import math
import os
from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ChunkError, StoreError, UsageError
from hdmf_zarr_backend.hdf5.filebytes import FileBytes, file_bytes

Array = npt.NDArray[Any]
Index = tuple[int, ...]

UNFILTERED = 2**32 - 1
"""The filter mask that says that no filter was applied."""

_NOWHERE = 2**64 - 1
_MOST_CHUNKS = 2**62
_WHERE = np.dtype([("offset", "u8"), ("size", "u8"), ("mask", "u4")])


class StoredChunk(NamedTuple):
    """Where one chunk lies in the file: bytes from its beginning, length, and the mask of filters not applied."""

    offset: int
    size: int
    mask: int


class _Direct:
    """Reads chunks through the HDF5 library, for files that are not simply a local file that nobody writes to."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def read(self, index: Index) -> bytes:
        start = tuple(i * c for i, c in zip(index, self._dataset.chunks, strict=True))
        _, data = self._dataset.id.read_direct_chunk(start)
        return bytes(data)

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            "an HDF5 file that is not a plain local file opened for reading cannot be sent to another process",
            remedy='Use executor="threads", or open the file by its path in mode "r".',
        )


class RawChunks:
    """The stored chunks of a chunked dataset.

    Parameters
    ----------
    dataset : h5py.Dataset
        It has to be open while the index is made; later only if the file is not a plain local one.

    Attributes
    ----------
    shape, chunks : tuple of int
        Of the dataset, the axes of elements that are arrays included.
    location : str
        The file, for messages.

    Raises
    ------
    UsageError
        It is not chunked, or this h5py cannot list its chunks.
    """

    def __init__(self, dataset: Any, inner: tuple[int, ...] = ()) -> None:
        if not is_listable(dataset):
            raise UsageError("the dataset has no chunks that could be listed", path=dataset.name)
        self.shape: tuple[int, ...] = (*dataset.shape, *inner)
        self.chunks: tuple[int, ...] = (*dataset.chunks, *inner)
        self.location = str(dataset.file.filename)
        self.name = str(dataset.name)
        self._rank = len(dataset.shape)
        self._wanted: frozenset[int] | None = None
        self._positions, self._where = _list_chunks(dataset)
        self._direct: _Direct | None = None
        self._bytes = plain_file(dataset) if not np.any(self._where["offset"] == _NOWHERE) else None
        if self._bytes is None or not self._reads_as(_Direct(dataset)):
            self._bytes, self._direct = None, _Direct(dataset)

    def __len__(self) -> int:
        return len(self._positions)

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of chunks along each axis, stored or not."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))

    @property
    def is_plain_file(self) -> bool:
        """Whether the chunks are read from the file by their offsets; only then this can be sent to other processes."""
        return self._bytes is not None

    def find(self, index: Index) -> StoredChunk | None:
        """Return where the chunk at ``index`` is, None if it is not stored.

        Raises
        ------
        UsageError
            This is a `part` without that chunk.
        """
        position = self._position(index)
        if self._wanted is not None and position not in self._wanted:
            problem = f"the chunk {index} is not in this part of the dataset"
            raise UsageError(problem, store=self.location, path=self.name)
        place = int(np.searchsorted(self._positions, position))
        if place == len(self._positions) or self._positions[place] != position:
            return None
        offset, size, mask = self._where[place].item()
        return StoredChunk(offset, size, mask)

    def read(self, index: Index) -> bytes | None:
        """Return the bytes of the chunk at ``index`` as they are in the file, None if it is not stored.

        Raises
        ------
        ChunkError
            The file ends before.
        StoreError
            The file is gone or has changed.
        """
        found = self.find(index)
        if found is None:
            return None
        if self._direct is not None:
            return self._direct.read(index[: self._rank])
        assert self._bytes is not None
        return self._bytes.read(found.offset, found.size)

    def __iter__(self) -> Iterator[Index]:
        """Yield the indices of the stored chunks."""
        return (self.index_at(place) for place in range(len(self)))

    def index_at(self, place: int) -> Index:
        """Return the index of the stored chunk that is number ``place`` in the order of iteration."""
        return tuple(int(i) for i in np.unravel_index(self._positions[place], self.grid))

    def sizes(self) -> npt.NDArray[np.uint64]:
        """Return the stored bytes of each chunk, in the order of iteration."""
        return np.asarray(self._where["size"])

    def masks(self) -> npt.NDArray[np.uint32]:
        """Return the filter mask of each chunk, in the order of iteration."""
        return np.asarray(self._where["mask"])

    def is_partial(self) -> npt.NDArray[np.bool_]:
        """Return, in the order of iteration, whether each chunk reaches over the edge of the array."""
        partial = np.zeros(len(self), bool)
        for axis, index in enumerate(np.unravel_index(self._positions, self.grid) if len(self) else ()):
            partial |= (index + 1) * self.chunks[axis] > self.shape[axis]
        return partial

    def set_unfiltered(self, which: npt.NDArray[np.bool_]) -> None:
        """Note that no filter was applied to those chunks, which the file does not say chunk by chunk."""
        self._where["mask"][which] = UNFILTERED

    def part(self, indices: Iterable[Index]) -> RawChunks:
        """Return the same with nothing but the chunks at ``indices``, to be sent with a task."""
        wanted = frozenset(self._position(index) for index in indices)
        if self._wanted is not None:
            wanted &= self._wanted
        ordered = np.array(sorted(wanted), np.int64)
        kept = np.searchsorted(self._positions, ordered)
        is_stored = kept < len(self)
        is_stored[is_stored] = self._positions[kept[is_stored]] == ordered[is_stored]
        kept = kept[is_stored]
        cut = object.__new__(RawChunks)
        cut.__dict__.update(
            self.__dict__, _positions=self._positions[kept], _where=self._where[kept], _wanted=wanted
        )
        return cut

    def _position(self, index: Index) -> int:
        position = 0
        for i, n in zip(index, self.grid, strict=True):
            position = position * n + i
        return position

    def _reads_as(self, direct: _Direct) -> bool:
        """Tell whether the smallest chunk is the same either way: old libraries left user blocks out of offsets."""
        if not len(self):
            return True
        index = self.index_at(int(np.argmin(self._where["size"])))
        try:
            return self.read(index) == direct.read(index[: self._rank])
        except (ChunkError, StoreError):
            return False


def is_listable(dataset: Any) -> bool:
    """Tell whether the stored chunks of an ``h5py.Dataset`` can be listed: it has chunks, and h5py knows how."""
    if dataset.chunks is None or dataset.is_virtual or not hasattr(dataset.id, "chunk_iter"):
        return False
    count = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    return bool(count < _MOST_CHUNKS)


def _list_chunks(dataset: Any) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the positions of the stored chunks in the grid, ascending, and where they are: one pass, one callback."""
    shape, chunks = dataset.shape, dataset.chunks
    grid = [-(-n // c) for n, c in zip(shape, chunks, strict=True)]
    if dataset.file.mode != "r":
        dataset.flush()
    positions, offsets, sizes, masks = array("q"), array("Q"), array("Q"), array("I")
    steps = list(zip(chunks, grid, strict=True))

    def note(chunk: Any) -> None:
        position = 0
        for start, (length, count) in zip(chunk.chunk_offset, steps, strict=True):
            if start >= length * count:
                return  # left over from before the dataset shrank
            position = position * count + start // length
        positions.append(position)
        offsets.append(chunk.byte_offset if chunk.byte_offset is not None else _NOWHERE)
        sizes.append(chunk.size)
        masks.append(chunk.filter_mask)

    if math.prod(grid):
        dataset.id.chunk_iter(note)
    where = np.empty(len(positions), _WHERE)
    where["offset"], where["size"], where["mask"] = offsets, sizes, masks
    found = np.array(positions, np.int64)
    if np.any(found[1:] <= found[:-1]):
        order = np.argsort(found, kind="stable")
        found, where = found[order], where[order]
    return found, where


def plain_file(dataset: Any) -> FileBytes | None:
    """Return the file of ``dataset`` if it is local, the one that the HDF5 library has open, and not being written."""
    file = dataset.file
    if file.driver != "sec2" or file.mode != "r" or file.swmr_mode:
        return None
    try:
        found = file_bytes(file.filename)
        if os.name == "posix":
            state = os.fstat(file.id.get_vfd_handle())
            if found.identity() != (state.st_dev, state.st_ino):
                return None  # replaced, or a relative name and another working directory
        found.check()
    except StoreError:
        return None
    return found
