"""The values of an HDF5 dataset that lies in one piece, read from the file without the HDF5 library.

Source: HDF5 file format specification, "Data layout", contiguous storage: the elements in row-major order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import ChunkError, StoreError, ZarrBackendError
from hdmf_zarr_backend.hdf5.describe import Description
from hdmf_zarr_backend.hdf5.farfile import FarFile
from hdmf_zarr_backend.hdf5.filebytes import FileBytes
from hdmf_zarr_backend.hdf5.layout import is_same_layout
from hdmf_zarr_backend.hdf5.rawchunks import Array, Index, plain_file

Region = tuple[slice, ...]

_LEAST_RUN = 2**16
_SLAB = 8 * 2**20
_MOST_WASTE = 8
_COMPARED = 4096


class ContiguousH5Source:
    """The values of a contiguous dataset; it can be sent to another process.

    Parameters
    ----------
    file : FileBytes or FarFile
        The file.
    offset : int
        Where the first element is.
    shape : tuple of int
        Of the dataset, the axes of elements that are arrays included.
    dtype : numpy.dtype
        Of the elements, packed.
    name : str
        Of the dataset, for messages.
    """

    def __init__(
        self, file: FileBytes | FarFile, offset: int, shape: tuple[int, ...], dtype: np.dtype[Any], name: str
    ) -> None:
        self.file = file
        self.offset = offset
        self.shape = shape
        self.dtype = dtype
        self.name = name

    def part(self, indices: Iterable[Index]) -> ContiguousH5Source:
        """Return this: it is small already."""
        return self

    def read(self, region: Region) -> Array:
        """Return the values of ``region``, which may be read-only.

        Raises
        ------
        StoreError
            The file is gone or has changed.
        ChunkError
            It ends before the values do.
        """
        lengths = tuple(part.stop - part.start for part in region)
        if not math.prod(lengths):
            return np.empty(lengths, self.dtype)
        try:
            return self._read(region, lengths)
        except ZarrBackendError as error:
            raise error.located(store=self.file.path, path=self.name) from error.__cause__

    def _read(self, region: Region, lengths: tuple[int, ...]) -> Array:
        axis = len(region) - 1  # the last axis of which not all is wanted: what is behind it lies in one run
        while axis > 0 and lengths[axis] == self.shape[axis]:
            axis -= 1
        if axis <= 0:
            return self._run(region).reshape(lengths)
        run = math.prod(lengths[axis:]) * self.dtype.itemsize
        block: Array = np.empty(lengths, self.dtype)
        if run < _LEAST_RUN and self.shape[axis] <= _MOST_WASTE * lengths[axis]:
            self._fill_by_slabs(block, region, axis)
        else:
            for outer in itertools.product(*map(range, lengths[:axis])):
                start = tuple(slice(part.start + i, part.start + i + 1) for i, part in zip(outer, region, strict=False))
                block[outer] = self._run((*start, *region[axis:])).reshape(lengths[axis:])
        return block

    def _fill_by_slabs(self, block: Array, region: Region, axis: int) -> None:
        """Read whole rows of ``axis`` and keep what is wanted: many short reads take longer."""
        row = math.prod(self.shape[axis:]) * self.dtype.itemsize
        step = max(1, _SLAB // row)
        rows = region[axis - 1]
        whole = [slice(0, n) for n in self.shape[axis:]]
        for outer in itertools.product(*map(range, block.shape[: axis - 1])):
            place = tuple(slice(part.start + i, part.start + i + 1) for i, part in zip(outer, region, strict=False))
            for start in range(rows.start, rows.stop, step):
                stop = min(start + step, rows.stop)
                slab = self._run((*place, slice(start, stop), *whole))
                inside: tuple[Any, ...] = (*outer, slice(start - rows.start, stop - rows.start))
                block[inside] = slab.reshape(stop - start, *self.shape[axis:])[(slice(None), *region[axis:])]

    def _run(self, region: Region) -> Array:
        """Return the elements of a region that lies in one piece."""
        first = 0
        for part, length in zip(region, self.shape, strict=True):
            first = first * length + part.start
        count = math.prod(part.stop - part.start for part in region)
        size = self.dtype.itemsize
        return np.frombuffer(self.file.read(self.offset + first * size, count * size), self.dtype)


def plan_contiguous(dataset: Any, description: Description) -> ContiguousH5Source | None:
    """Return the values of a dataset that lies in one piece in a file, None if HDF5 has to read it.

    Parameters
    ----------
    dataset : h5py.Dataset
        Any; not kept.
    description : Description
        What `describe` says of it.
    """
    from h5py import h5d

    if description.kind != "number" or not dataset.shape or not dataset.size:
        return None
    if dataset.id.get_create_plist().get_layout() != h5d.CONTIGUOUS:
        return None
    inner = description.inner
    element = np.dtype((description.dtype, inner)) if inner else description.dtype
    file, offset = plain_file(dataset), dataset.id.get_offset()  # None for values in other files, and for none at all
    if file is None or offset is None or not is_same_layout(description.type, element):
        return None
    source = ContiguousH5Source(file, int(offset), (*dataset.shape, *inner), description.dtype, str(dataset.name))
    return source if _reads_as(source, dataset) else None


def _reads_as(source: ContiguousH5Source, dataset: Any) -> bool:
    """Tell whether the first elements are the same read either way (offsets of old libraries left out user blocks)."""
    outer = len(dataset.shape)
    few = max(1, _COMPARED // max(1, math.prod(source.shape[outer:]) * source.dtype.itemsize))
    region = (*(slice(0, 1) for _ in dataset.shape[:-1]), slice(0, min(few, dataset.shape[-1])))
    whole = tuple(slice(0, n) for n in source.shape[outer:])
    try:
        ours = source.read((*region, *whole))
    except (ChunkError, StoreError):
        return False
    return ours.tobytes() == np.ascontiguousarray(dataset[region]).tobytes()
