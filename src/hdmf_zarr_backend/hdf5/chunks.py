"""Stored chunks of an HDF5 dataset: their positions in the file, and their bytes.

The index is read once with the HDF5 library. From then on the operating system reads bytes at their offsets, so threads
do not wait for the global lock of HDF5, and processes need no HDF5.

No zarr code runs inside the callback of h5py: while the library holds its lock, another thread whose garbage collector
frees an h5py object would wait forever.

Some positions from the library are checked by reading one chunk both ways. Until 1.14.3, offsets leave out the user
block. Up to 2.0, chunks of an extensible array (one unlimited axis) are counted as if that axis were the first, so one
chunk would be mistaken for another.

Source: HDF5 file format specification, "Data layout" and "Chunk indexing"; `h5py.h5d.DatasetID.chunk_iter`; issue 3003
of HDFGroup/hdf5 for user blocks; the order of extensible arrays was observed with HDF5 1.14.2 and 2.0.0.
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
from hdmf_zarr_backend.hdf5.file_bytes import FileBytes, RemoteFile, file_bytes, remote_file
from hdmf_zarr_backend.hdf5.values import Array
from hdmf_zarr_backend.stores.failures import resource_failure

Index = tuple[int, ...]

UNFILTERED = 2**32 - 1
"""The filter mask of a chunk to which no filter was applied."""

_NOWHERE = 2**64 - 1
_MOST_CHUNKS = 2**62
_WHERE = np.dtype([("offset", "u8"), ("size", "u8"), ("mask", "u4")])


class StoredChunk(NamedTuple):
    """Position of a chunk: offset in the file, length, and the mask of filters that were not applied."""

    offset: int
    size: int
    mask: int


class _Direct:
    """Reads chunks through the HDF5 library, for files that are not plain local files opened for reading."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def read(self, index: Index) -> tuple[bytes, int]:
        start = tuple(i * c for i, c in zip(index, self._dataset.chunks, strict=True))
        try:
            mask, data = self._dataset.id.read_direct_chunk(start)
        except (OSError, RuntimeError, ValueError) as error:
            store, path = self._dataset.file.filename, self._dataset.name
            raise resource_failure(error, "read", store=store, path=path, what=f"the chunk {index}") or ChunkError(
                f"HDF5 does not read the chunk {index} ({error})",
                store=store,
                path=path,
                remedy="The HDF5 file is damaged, or has changed since the copy was planned.",
            ) from error
        return bytes(data), int(mask)

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(
            "an HDF5 file that is not a plain local file opened for reading cannot be sent to another process",
            remedy='Use executor="threads", or open the file by its path in mode "r".',
            remedy_cli="Leave --scheduler out.",
        )


class RawChunks:
    """The stored chunks of a chunked dataset.

    Attributes
    ----------
    shape, chunks : tuple of int
        Of the dataset, including the axes of elements that are arrays.
    grid : tuple of int
        Number of chunks along each axis, stored or not.
    location : str
        Name of the file, for messages.
    file : FileBytes or RemoteFile, optional
        The file that chunks are read from at their offsets. Without it, HDF5 has to read them, and this cannot be sent
        to other processes.
    where : array
        ``offset``, ``size`` and ``mask`` of each stored chunk, in the order of iteration, see `StoredChunk`.
    """

    def __init__(self, dataset: Any, inner: tuple[int, ...] = ()) -> None:
        if not is_listable(dataset):
            raise UsageError(
                "the dataset has no chunks that can be listed", path=dataset.name, remedy="Read its values instead."
            )
        self.shape: tuple[int, ...] = (*dataset.shape, *inner)
        self.chunks: tuple[int, ...] = (*dataset.chunks, *inner)
        self.grid = tuple(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))
        self.location = str(dataset.file.filename)
        self.name = str(dataset.name)
        self._rank = len(dataset.shape)
        self._wanted: frozenset[int] | None = None
        self._positions, self.where = _list_chunks(dataset)
        self._direct: _Direct | None = None
        self.file = plain_file(dataset) if not np.any(self.where["offset"] == _NOWHERE) else None
        if self.file is None:
            self._direct = _Direct(dataset)
        elif not self._compare(_Direct(dataset), int(dataset.file.userblock_size)):
            raise _uncertain(dataset)

    def __len__(self) -> int:
        return len(self._positions)

    def find(self, index: Index) -> StoredChunk | None:
        """Return the position of the chunk at ``index``, None if it is not stored."""
        position = self._position(index)
        if self._wanted is not None and position not in self._wanted:
            problem = f"the chunk {index} is not in this part of the dataset"
            remedy = "Read it from the dataset itself."
            raise UsageError(problem, store=self.location, path=self.name, remedy=remedy)
        place = int(np.searchsorted(self._positions, position))
        if place == len(self._positions) or self._positions[place] != position:
            return None
        offset, size, mask = self.where[place].item()
        return StoredChunk(offset, size, mask)

    def read(self, index: Index) -> bytes | None:
        """Return the bytes of the chunk at ``index`` as stored in the file, None if it is not stored."""
        found = self.find(index)
        return None if found is None else self.read_found(index, found)

    def read_found(self, index: Index, found: StoredChunk) -> bytes:
        """Return the bytes of the chunk at ``index``, which `find` located at ``found``."""
        if self._direct is not None:
            data, mask = self._direct.read(index[: self._rank])
            if len(data) != found.size or found.mask not in (mask, UNFILTERED):
                raise StoreError(
                    f"the chunk {index} has changed since the copy was planned",
                    store=self.location,
                    path=self.name,
                    remedy="Do not write to the HDF5 file before the copy is complete.",
                )
            return data
        assert self.file is not None
        return self.file.read(found.offset, found.size)

    def __iter__(self) -> Iterator[Index]:
        """Yield the indices of the stored chunks."""
        return (self.index_at(place) for place in range(len(self)))

    def index_at(self, place: int) -> Index:
        """Return the index of the stored chunk at position ``place`` in the order of iteration."""
        return tuple(int(i) for i in np.unravel_index(self._positions[place], self.grid))

    def stored(self) -> Iterator[tuple[Index, StoredChunk]]:
        """Yield index and position of the stored chunks in the order of iteration, much faster than `find` for each."""
        indices = [axis.tolist() for axis in np.unravel_index(self._positions, self.grid)] if len(self) else []
        where = map(StoredChunk._make, self.where.tolist())
        return zip(zip(*indices, strict=True), where, strict=True) if indices else iter(())

    def is_partial(self) -> npt.NDArray[np.bool_]:
        """Return for each chunk whether it extends beyond the edge of the array, in the order of iteration."""
        partial = np.zeros(len(self), bool)
        for axis, index in enumerate(np.unravel_index(self._positions, self.grid) if len(self) else ()):
            partial |= (index + 1) * self.chunks[axis] > self.shape[axis]
        return partial

    def part(self, indices: Iterable[Index]) -> RawChunks:
        """Return a copy that contains only the chunks at ``indices``, small enough to be sent with a task."""
        wanted = frozenset(self._position(index) for index in indices)
        if self._wanted is not None:
            wanted &= self._wanted
        ordered = np.array(sorted(wanted), np.int64)
        kept = np.searchsorted(self._positions, ordered)
        is_stored = kept < len(self)
        is_stored[is_stored] = self._positions[kept[is_stored]] == ordered[is_stored]
        kept = kept[is_stored]
        cut = object.__new__(RawChunks)
        cut.__dict__.update(self.__dict__, _positions=self._positions[kept], where=self.where[kept], _wanted=wanted)
        return cut

    def _position(self, index: Index) -> int:
        position = 0
        for i, n in zip(index, self.grid, strict=True):
            position = position * n + i
        return position

    def _compare(self, direct: _Direct, userblock: int) -> bool:
        """Tell whether the smallest chunk has the same bytes read either way, after adding the user block if needed."""
        if not len(self):
            return True
        index = self.index_at(int(np.argmin(self.where["size"])))
        for shift in (0, userblock):
            self.where["offset"] += np.uint64(shift)
            try:
                if self.read(index) == direct.read(index[: self._rank])[0]:
                    return True
            except (ChunkError, StoreError):
                continue
        return False


def is_listable(dataset: Any) -> bool:
    """Tell whether the stored chunks of an ``h5py.Dataset`` can be listed: it is chunked, and h5py supports it."""
    if dataset.chunks is None or dataset.is_virtual or not hasattr(dataset.id, "chunk_iter"):
        return False
    count = math.prod(-(-n // c) for n, c in zip(dataset.shape, dataset.chunks, strict=True))
    return bool(count < _MOST_CHUNKS)


def _list_chunks(dataset: Any) -> tuple[npt.NDArray[np.int64], Array]:
    """Return the positions of the stored chunks in the grid, ascending, and their places in the file, in one pass."""
    chunks = dataset.chunks
    grid = [-(-n // c) for n, c in zip(dataset.shape, chunks, strict=True)]
    positions, offsets, sizes, masks = array("q"), array("Q"), array("Q"), array("I")
    steps = list(zip(chunks, grid, strict=True))
    outside = 0

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
    found, where = np.array(positions, np.int64)[order], where[order]
    if outside or np.any(found[1:] == found[:-1]) or not _is_order_certain(dataset, found, grid):
        raise _uncertain(dataset)
    return found, where


def _is_order_certain(dataset: Any, positions: npt.NDArray[np.int64], grid: list[int]) -> bool:
    """Tell whether HDF5 certainly counted the chunks along the right axes.

    It may count wrongly if the only unlimited axis is not the first, and the axes before it have more than one chunk.
    In that case it never counts further along these axes, so a chunk at a higher position on them proves the count
    right.
    """
    unlimited = [axis for axis, bound in enumerate(dataset.maxshape) if bound is None]
    if len(unlimited) != 1 or not len(positions):
        return True
    before = range(unlimited[0])
    if math.prod(-(-dataset.maxshape[axis] // dataset.chunks[axis]) for axis in before) <= 1:
        return True
    indices = np.unravel_index(positions, grid)
    return any(bool(np.any(indices[axis])) for axis in before)


def _uncertain(dataset: Any) -> UsageError:
    return UsageError(
        "the positions of the chunks of the dataset are not certain",
        store=dataset.file.filename,
        path=dataset.name,
        remedy="Read it through h5py.",
    )


def plain_file(dataset: Any) -> FileBytes | RemoteFile | None:
    """Return the file of ``dataset`` if the HDF5 library has that file open and it is not being written."""
    file = dataset.file
    if file.driver == "fileobj":
        return remote_file(str(file.filename))
    if file.driver != "sec2" or file.mode != "r" or file.swmr_mode:
        return None
    try:
        found = file_bytes(file.filename)
        if os.name == "posix":
            state = os.fstat(file.id.get_vfd_handle())
            if found.identity() != (state.st_dev, state.st_ino):
                return None  # replaced, or a relative name after a change of the working directory
        found.check()
    except StoreError:
        return None
    return found
