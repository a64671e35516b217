"""What the chunks of a Zarr array hold -> the memory that HDF5 writes to a dataset."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.hdf5.elements import Elements
from hdmf_zarr_backend.hdf5.types import OBJECT, REGION, TypeJSON
from hdmf_zarr_backend.hdf5.values import Array, decode, decode_text, fill_array


class Conversion:
    """Makes the memory of a dataset out of what the chunks of an array hold.

    Parameters
    ----------
    elements : Elements
        What the elements are.
    tid : h5py.h5t.TypeID
        The type of the dataset.
    refer : callable
        Returns the h5py reference for the JSON of one.
    """

    def __init__(self, elements: Elements, tid: Any, refer: Callable[[Any], Any]) -> None:
        self._form = elements.form
        self._kind: TypeJSON = elements.type
        self._dtype: np.dtype[Any] = tid.dtype
        self._refer = refer

    def __call__(self, block: Array, shape: tuple[int, ...]) -> Array:
        """Return a block of the dataset.

        Raises
        ------
        MetadataError
            What is stored does not fit the type.
        """
        try:
            if self._form == "rows":
                return self._rows(block, shape)
            if self._form == "objects" and self._kind in (OBJECT, REGION):
                return fill_array([self._refer(item) for item in block.flat], shape, self._dtype)
            if self._form == "objects":
                return fill_array([_text(item) for item in block.flat], shape, self._dtype)
            return self._plain(block, shape)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            if isinstance(error, ZarrBackendError):
                raise
            raise MetadataError(
                f"the values do not fit the type {self._kind!r} ({error})", remedy="Run `zarrio verify` on the file."
            ) from error

    def _plain(self, block: Array, shape: tuple[int, ...]) -> Array:
        base = self._dtype.base
        if base.names is not None and block.dtype != base:
            packed: Array = np.zeros(block.shape, base)
            for name in base.names:
                packed[name] = block[name]
            block = packed
        return block.astype(base, copy=False).reshape((*shape, *self._dtype.shape))

    def _rows(self, block: Array, shape: tuple[int, ...]) -> Array:
        fields = self._kind["fields"]  # type: ignore[index]
        rows = (
            block.reshape(-1, len(fields)) if block.dtype == object and block.ndim > len(shape) else block.reshape(-1)
        )
        made: Array = np.empty(len(rows), self._dtype)
        for column, (name, kind) in enumerate(fields):
            values = [decode(row[column], kind, self._dtype[name], self._refer) for row in rows]
            made[name] = fill_array(values, (len(rows),), self._dtype[name])
        return made.reshape(shape)


def _text(item: Any) -> bytes:
    if isinstance(item, (str, bytes)):
        return decode_text(item)
    raise TypeError(f"{item!r} stands where text is expected")
