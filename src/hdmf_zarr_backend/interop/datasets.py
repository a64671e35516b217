"""`to_dask` and `tensorstore_spec`: a dataset as an array of dask or TensorStore.

`io` imports this module when a dataset is first converted.

Source: TensorStore, "zarr Driver", "zarr3 Driver", and its key-value store drivers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS
from hdmf_zarr_backend.errors import UsageError, known_arguments
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.model.links import is_url
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.clouds import object_settings


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
    UsageError
        It is not a dataset of a Zarr file.

    Source: dask, "Create Dask Arrays", ``from_array``.
    """
    with library_of("dask", "to_dask()"):
        from dask.array import from_array

    dataset = lazy_array_of(dataset)
    stored = dataset.node.stored
    unit: Any = stored.chunks if stored.shards is None else stored.shards.shape
    make: Any = from_array  # dask has types for some of its functions only
    empty = np.empty((0,) * dataset.ndim, dataset.dtype)  # without meta, dask reads the dataset for it
    return make(_Blocks(dataset), chunks=unit if chunks is None else chunks, asarray=False, meta=empty)


def lazy_array_of(dataset: Any) -> LazyArray:
    """Return the array that a column, a DataIO or a reference wraps, perhaps in each other; refuse other objects."""
    array = dataset
    while not isinstance(array, LazyArray):
        inner = getattr(array, "dataset", None)
        inner = getattr(array, "data", None) if inner is None else inner
        if inner is None or inner is array or isinstance(array, np.ndarray):
            remedy = "Give the data of a container that was read with ZarrIO or NWBZarrIO. Convert an HDF5 file first, "
            remedy += "or to virtual Zarr, without a copy."
            raise UsageError(f"a {type(dataset).__name__} is not a dataset of a Zarr file", remedy=remedy)
        array = inner
    return array


class _Blocks:
    """A dataset with only the attributes that dask needs; for a zarr array, dask would use more of them."""

    def __init__(self, dataset: LazyArray) -> None:
        self.shape, self.ndim, self.dtype = dataset.shape, dataset.ndim, dataset.dtype
        self._dataset = dataset

    def __getitem__(self, key: Any) -> Any:
        return self._dataset[key]


def names_of_axes(node: Dataset, count: int) -> list[str | None]:
    """Return the names of the dimensions, None for one without a name; nothing unless each axis has an entry."""
    entries = node.attributes.get(DIMENSIONS)
    names = [name if isinstance(name, str) else None for name in entries] if isinstance(entries, list) else []
    texts = [name for name in names if name is not None]
    # xarray and TensorStore refuse a name that two axes have, as those of a square matrix in netCDF may
    return names if len(names) == count and len(texts) == len(set(texts)) else []


# ---- TensorStore -----------------------------------------------------------------------------------------------------


@known_arguments
def tensorstore_spec(dataset: Any, field: str | None = None) -> dict[str, Any]:
    """Return the spec with which TensorStore opens a dataset.

    Parameters
    ----------
    dataset : LazyArray
        A dataset of a container that was read, such as ``nwbfile.acquisition["raw"].data``, or a wrapper around one.
        TensorStore sees changes of an open file after they are written.
    field : str, optional
        The field of a structured dataset.

    Returns
    -------
    dict
        For ``tensorstore.open``: driver, key-value store, and the names of the dimensions as labels. In format 2, a
        scalar has one axis of length 1. TensorStore refuses it if it lacks the type, such as text, or a codec. The spec
        has no keys and secrets of S3; TensorStore finds them as the AWS tools do.

    Raises
    ------
    UsageError
        The dataset has no such field, or TensorStore cannot open its store, for example one in memory.

    Examples
    --------
    ::

        store = tensorstore.open(tensorstore_spec(series.data), open=True, read=True).result()
    """
    array = lazy_array_of(dataset)
    node = array.node
    data_type = node.stored.data_type
    fields = {str(item[0]): item[1:] for item in data_type} if isinstance(data_type, list) else {}
    if field not in (fields or {None}):
        problem = f"the dataset has no field {field!r}" if field else "this is a dataset of rows"
        remedy = f"Name one of its fields: {', '.join(map(repr, fields))}." if fields else "Leave field out."
        raise UsageError(problem, store=array, path=array.name, remedy=remedy)
    driver = "zarr3" if node.stored.zarr_format == 3 else "zarr"
    spec: dict[str, Any] = {"driver": driver, "kvstore": _key_value_store(array.file_store, array.path)}
    shape: Sequence[Any] = ()
    if field is not None:
        spec["field"], shape = field, fields[field][1:]
    names = names_of_axes(node, len(node.stored.stored_shape))
    # labels for all axes or for none; an element of several numbers adds axes without one
    if names and None not in names:
        spec["transform"] = {"input_labels": [*names, *[""] * (len(shape[0]) if shape else 0)]}
    return spec


def _key_value_store(store: Store, path: str) -> dict[str, Any]:
    """Return TensorStore's key-value store of a node: file, http, s3, gcs, or a zip file in one of the first two."""
    below = f"{path}/" if path else ""
    if store.folder is not None:
        return {"driver": "file", "path": f"{os.path.abspath(store.folder)}/{below}"}
    if store.zip_file is not None:
        return {"driver": "zip", "base": {"driver": "file", "path": store.zip_file}, "path": below}
    # a chain such as zip::s3://..., or a store of another library, has no equivalent there
    location = store.location
    is_plain_url = store.opens_by_url and is_url(location) and "::" not in location
    scheme, _, rest = location.partition("://") if is_plain_url else ("", "", "")
    if scheme in ("http", "https"):
        return {"driver": "http", "base_url": location, "path": below}
    bucket, _, prefix = rest.partition("/")
    inside = f"{prefix.rstrip('/')}/{below}" if prefix else below
    if scheme in ("gs", "gcs"):
        return {"driver": "gcs", "bucket": bucket, "path": inside}
    if scheme not in ("s3", "s3a"):
        remedy = "It reads directories, zip files, http, s3 and gcs. Export the file to one of these."
        raise UsageError("TensorStore cannot access this store", store=location, remedy=remedy)
    settings = object_settings(location, store.options) or {}
    spec: dict[str, Any] = {"driver": "s3", "bucket": bucket, "path": inside}
    region = settings.get("region")
    if settings.get("endpoint"):
        spec["endpoint"] = str(settings["endpoint"])
        region = region or "us-east-1"
    if region:
        spec["aws_region"] = str(region)
    if settings.get("skip_signature"):
        spec["aws_credentials"] = {"type": "anonymous"}
    return spec
