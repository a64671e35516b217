"""`to_dask` and `to_xarray`: a dataset as a dask array, or as an xarray ``DataArray`` with named dimensions.

Complete files do not need this: ``xarray.open_datatree(path, engine="zarr")`` opens them.

`io` imports this module when a dataset is first converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.encoding.attributes import decode_attributes
from hdmf_zarr_backend.encoding.references import decode_attribute_reference
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS
from hdmf_zarr_backend.errors import known_arguments
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.model.nodes import absolute

__all__ = ["to_dask", "to_xarray"]


@known_arguments
def to_dask(dataset: LazyArray, chunks: Sequence[int] | int | None = None) -> Any:
    """Return a dataset as a ``dask.array.Array`` that reads when it is computed, with a stored chunk per block.

    Parameters
    ----------
    dataset : LazyArray
        The dataset.
    chunks : sequence of int or int, optional
        Lengths of a block, preferably multiples of those of a chunk. None: a chunk, or a shard if the array has shards.

    Returns
    -------
    dask.array.Array
        With the shape and data type of the dataset; ``object`` for text, bytes and references. It can be read after the
        file is closed and in other processes, unless the file is open for changes.

    Raises
    ------
    ModuleNotFoundError
        dask is not installed; the extra ``dask`` installs it.

    Source: dask, "Create Dask Arrays", ``from_array``.
    """
    with library_of("dask", "to_dask()"):
        from dask.array import from_array

    stored = dataset.node.stored
    unit: Any = stored.chunks if stored.shards is None else stored.shards.shape
    make: Any = from_array  # dask has types for some of its functions only
    empty = np.empty((0,) * dataset.ndim, dataset.dtype)
    return make(_Blocks(dataset), chunks=unit if chunks is None else chunks, asarray=False, meta=empty)


class _Blocks:
    """A dataset with only the attributes that dask needs; for a zarr array, dask would use more of them."""

    def __init__(self, dataset: LazyArray) -> None:
        self.shape, self.ndim, self.dtype = dataset.shape, dataset.ndim, dataset.dtype
        self._dataset = dataset

    def __getitem__(self, key: Any) -> Any:
        return self._dataset[key]


@known_arguments
def to_xarray(dataset: LazyArray, chunks: Sequence[int] | int | None = None) -> Any:
    """Return a dataset as an ``xarray.DataArray`` on dask, with the names of its dimensions, attributes and name.

    Parameters
    ----------
    dataset, chunks
        As for `to_dask`.

    Returns
    -------
    xarray.DataArray
        With the shape and data type of the dataset. An attribute that is a reference is the path of its target.

    Raises
    ------
    ModuleNotFoundError
        xarray or dask is not installed; the extra ``xarray`` installs both.

    Source: xarray, ``DataArray``; zarr-python and xarray, for ``_ARRAY_DIMENSIONS``.
    """
    with library_of("xarray", "to_xarray()"):
        import xarray

    attributes = decode_attributes(dataset.node.attributes, resolve=_path_of)
    return xarray.DataArray(
        to_dask(dataset, chunks), dims=_dimensions(dataset), name=dataset.basename or None, attrs=attributes
    )


def _dimensions(dataset: LazyArray) -> list[str] | None:
    names = dataset.node.attributes.get(DIMENSIONS)
    if not isinstance(names, list) or len(names) != dataset.ndim or len(set(map(str, names))) != len(names):
        return None
    return [str(name) for name in names]


def _path_of(reference: dict[str, Any]) -> str:
    return absolute(decode_attribute_reference(reference).path)
