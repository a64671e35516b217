"""The values of an HDF5 dataset, block by block, in the layout that NumPy has for its type.

h5py's own indexing cannot read every type (opaque data with a tag), keeps each dataset open, and names neither file nor
dataset where something cannot be read.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import UnsupportedFileError, ZarrBackendError
from hdmf_zarr_backend.hdf5.describe import Description, describe
from hdmf_zarr_backend.hdf5.failures import H5_ERRORS, unreadable
from hdmf_zarr_backend.hdf5.filters import usable
from hdmf_zarr_backend.hdf5.rawfiles import without_raw_file
from hdmf_zarr_backend.hdf5.tree import SourceFile, text_of
from hdmf_zarr_backend.hdf5.types import encode_type, memory_type
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
        encode_type(node.get_type())  # which refuses what NumPy has no type for
        self._inner = tuple(node.get_type().dtype.shape)
        self.shape: tuple[int, ...] | None = None if node.shape is None else (*map(int, node.shape), *self._inner)

    @property
    def name(self) -> str:
        """File and path, for messages."""
        return f"{self._file.location}, {text_of(self._raw)}"

    def describe(self) -> Description:
        """Return what is known of the dataset; the filters that it needs are registered if hdf5plugin has them.

        Raises
        ------
        ValueRefusedError
            A type that neither HDMF nor Zarr has.
        """
        found = describe(self.dataset())
        usable(found.note.get("filters", []))
        return found

    def dataset(self) -> Any:
        """Return the ``h5py.Dataset``, opened anew."""
        import h5py

        return h5py.Dataset(self._file.open(self._raw))

    def __getitem__(self, key: Any) -> Any:
        """Return a block, or the one value of a scalar dataset.

        Parameters
        ----------
        key : int, slice, tuple of slices or ()
            As many as axes or fewer; steps are 1. An integer drops the first axis.

        Raises
        ------
        DamagedFileError, UnsupportedFileError
            HDF5 cannot read the values, or lacks a filter; file and dataset are named.
        """
        if isinstance(key, int):
            return self[key : key + 1][0]
        shape = self.shape or ()
        given = key if isinstance(key, tuple) else (key,)
        slices = [part.indices(length) for part, length in zip(given, shape, strict=False)]
        bounds = [(start, max(start, stop)) for start, stop, _ in slices] + [(0, n) for n in shape[len(given) :]]
        outer = len(shape) - len(self._inner)
        try:
            values = self._read(bounds[:outer])
        except H5_ERRORS as error:
            raise self._unreadable(error) from error
        inner: tuple[Any, ...] = tuple(slice(start, stop) for start, stop in bounds[outer:])
        values = values[(..., *inner)] if inner else values
        return values if values.ndim else values[()]

    def _unreadable(self, error: Exception) -> ZarrBackendError:
        from h5py import h5z

        created = self._file.open(self._raw).get_create_plist()
        gone = without_raw_file(created, self._file.location, text_of(self._raw))
        if gone is not None:
            return gone
        missing = [
            code for code, *_ in map(created.get_filter, range(created.get_nfilters())) if not h5z.filter_avail(code)
        ]
        if not missing:
            return unreadable(error, self._file.location, text_of(self._raw))
        return UnsupportedFileError(
            f"HDF5 filter {missing[0]} is not installed",
            store=self._file.location,
            path=text_of(self._raw),
            remedy="Install hdf5plugin.",
        )

    def _read(self, bounds: list[tuple[int, int]]) -> Array:
        tid = self._file.open(self._raw).get_type()
        return self.read_as(bounds, tid.dtype, memory_type(tid, writing=False))

    def read_as(self, bounds: list[tuple[int, int]], dtype: np.dtype[Any], memory: Any) -> Array:
        """Return a block as an array of ``dtype``, whose layout is that of the HDF5 type ``memory``."""
        from h5py import h5s

        node = self._file.open(self._raw)
        lengths = tuple(stop - start for start, stop in bounds)
        values: Array = np.zeros(lengths, dtype)
        if not values.size:
            return values
        if not lengths:
            node.read(h5s.ALL, h5s.ALL, values, memory)
            return values
        space = node.get_space()
        space.select_hyperslab(tuple(start for start, _ in bounds), lengths)
        node.read(h5s.create_simple(lengths), space, values, memory)
        return values
