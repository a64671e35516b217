"""The values of an HDF5 dataset, block by block, in the layout that NumPy has for its type.

h5py's own indexing cannot read every type (opaque data with a tag), keeps each dataset open, and names neither file nor
dataset where something cannot be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdmf_zarr_backend.hdf5.describe import Description, describe
from hdmf_zarr_backend.hdf5.tree import H5_ERRORS, SourceFile, damaged
from hdmf_zarr_backend.hdf5.types import memory_type
from hdmf_zarr_backend.hdf5.values import Array


class Hdf5Data:
    """The values of one dataset; it is opened when values are asked for.

    Parameters
    ----------
    file : SourceFile
        The file.
    raw : bytes
        Path of the dataset.

    Attributes
    ----------
    shape : tuple of int or None
        Shape, with the axes that an element has itself; None without a dataspace.
    """

    def __init__(self, file: SourceFile, raw: bytes) -> None:
        self._file = file
        self._raw = raw
        node = file.open(raw)
        self._inner = tuple(node.get_type().dtype.shape)
        self.shape: tuple[int, ...] | None = None if node.shape is None else (*map(int, node.shape), *self._inner)

    def describe(self) -> Description:
        """Return what is known of the dataset.

        Raises
        ------
        ValueRefusedError
            A type that neither HDMF nor Zarr has.
        """
        import h5py

        return describe(h5py.Dataset(self._file.open(self._raw)))

    def __getitem__(self, key: Any) -> Any:
        """Return a block, or the one value of a scalar dataset.

        Parameters
        ----------
        key : slice, tuple of slices or ()
            As many as axes or fewer; steps are 1.
        """
        shape = self.shape or ()
        given = key if isinstance(key, tuple) else (key,)
        slices = [part.indices(length) for part, length in zip(given, shape, strict=False)]
        bounds = [(start, max(start, stop)) for start, stop, _ in slices] + [(0, n) for n in shape[len(given) :]]
        outer = len(shape) - len(self._inner)
        try:
            values = self._read(bounds[:outer])
        except H5_ERRORS as error:
            raise damaged(error, self._file.location, self._raw) from error
        inner: tuple[Any, ...] = tuple(slice(start, stop) for start, stop in bounds[outer:])
        values = values[(..., *inner)] if inner else values
        return values if values.ndim else values[()]

    def _read(self, bounds: list[tuple[int, int]]) -> Array:
        from h5py import h5s

        node = self._file.open(self._raw)
        tid = node.get_type()
        lengths = tuple(stop - start for start, stop in bounds)
        values: Array = np.zeros(lengths, tid.dtype)
        if not values.size:
            return values
        memory = memory_type(tid, writing=False)
        if not lengths:
            node.read(h5s.ALL, h5s.ALL, values, memory)
            return values
        space = node.get_space()
        space.select_hyperslab(tuple(start for start, _ in bounds), lengths)
        node.read(h5s.create_simple(lengths), space, values, memory)
        return values
