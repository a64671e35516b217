"""`to_xarray` and `to_datatree`: datasets and files as labelled arrays of xarray, which read when they are computed.

Imported on use, since it needs xarray. Times of a rate are computed; timestamps and the columns of a table of
electrodes are read when they are first looked at.

Source: xarray, "Custom indexes" and "How to add a new backend"; NWB schema 2.9, ``TimeSeries``, ``ElectricalSeries``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding.attributes import plain_attributes
from hdmf_zarr_backend.encoding.elements import describe_any, is_scalar
from hdmf_zarr_backend.encoding.parser import Resolver, parse
from hdmf_zarr_backend.encoding.references import LinkedFile, decode_attribute_reference
from hdmf_zarr_backend.encoding.reserved import SPECLOC, spec_location
from hdmf_zarr_backend.errors import MetadataError, at, known_arguments, warn
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.interop.datasets import lazy_array_of, names_of_axes, to_dask
from hdmf_zarr_backend.model.element import Compound, Reference, Unknown
from hdmf_zarr_backend.model.links import THIS_FILE
from hdmf_zarr_backend.model.nodes import Dataset, Group, Node, absolute, join, split
from hdmf_zarr_backend.store.opening import FileSource, open_store

with library_of("xarray", "to_xarray()"):
    import xarray

xr: Any = xarray  # to the type checker too: some releases have types
indexing: Any = xr.core.indexing

_TIME, _ROWS = "time", "num_rows"
_REGIONS = {"electrodes": "electrode", "rois": "roi"}
"""Members of a series that have the row of a table for each channel -> the name of that axis."""

_LABELS = {"timestamps": _TIME, "starting_time": _TIME, **_REGIONS}  # members of a series -> the axis that they label

_NEUTRAL = {"conversion": 1.0, "offset": 0.0}


@known_arguments
def to_xarray(dataset: LazyArray, chunks: Sequence[int] | int | None = None, *, scaled: bool = False) -> Any:
    """Return a dataset as an ``xarray.DataArray`` on dask; the data of a time series with times and electrodes.

    Parameters
    ----------
    dataset : LazyArray
        The dataset.
    chunks : sequence of int or int, optional
        Lengths of a block, preferably multiples of those of a chunk. None: a chunk, or a shard if the array has shards.
    scaled : bool
        Return the data of a time series in their ``unit``: as floats, times ``conversion`` and ``channel_conversion``,
        plus ``offset``.

    Returns
    -------
    xarray.DataArray
        With the shape and data type of the dataset, its attributes, and the names of its dimensions. A reference in an
        attribute becomes the path of its target. The data of a time series also have its ``description``, the axis
        ``time`` in seconds, and the axis ``electrode`` (or ``roi``), with the ids of the table. Columns of the table,
        such as ``x`` and ``location``, are coordinates of that axis.

    Raises
    ------
    ModuleNotFoundError
        xarray or dask is not installed; the extra ``xarray`` installs both.
    UsageError
        It is not a dataset of a Zarr file.

    Warns
    -----
    UserWarning
        Timestamps or a table are in another file, which cannot be read; they are left out.

    Examples
    --------
    >>> raw = nwbfile.acquisition["raw"].data.to_xarray()
    >>> raw.sel(time=slice(1, 2)).mean("time").compute()

    Source: xarray, ``DataArray``; zarr-python and xarray, for ``_ARRAY_DIMENSIONS``.
    """
    dataset = lazy_array_of(dataset)
    hierarchy = dataset.hierarchy or parse(dataset.file_store).hierarchy
    source = _Source(Resolver(dataset.file_store, hierarchy, dataset.location), dataset)
    parent = split(dataset.path)[0]
    group = hierarchy.get(parent) if dataset.path else None
    labels = source.labels(parent, dataset.shape) if dataset.basename == "data" else xr.Coordinates()
    dims = _names(dataset, dataset.ndim, labels)
    variable = xr.Variable(dims, to_dask(dataset, chunks), source.attributes(dataset.path, dataset.node, group))
    return xr.DataArray(source.scaled(parent, variable) if scaled else variable, labels, name=dataset.basename or None)


@known_arguments
def to_datatree(source: FileSource, *, scaled: bool = False, storage_options: Mapping[str, Any] | None = None) -> Any:
    """Return a file as an ``xarray.DataTree`` with a node for each group, from its metadata only.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file, of Zarr format 2 or 3.
    scaled : bool
        Return the data of time series in their unit, as `to_xarray` does.
    storage_options : mapping, optional
        Options for URLs, with the names of fsspec or obstore.

    Returns
    -------
    xarray.DataTree
        Datasets are variables, on dask if they have several chunks; the data of a time series have the coordinates of
        `to_xarray`. Links to groups become attributes with their path. Datasets of references and of rows, and the
        cached specifications, are left out. A name of dimensions of several lengths gets the name of the dataset, or
        its length, as a suffix; an axis without a name is ``data_dim_1``, from the dataset and its number.
        A slice of time selects the samples with times in it, also where times are out of order or repeated.

    Raises
    ------
    ModuleNotFoundError
        xarray or dask is not installed; the extra ``xarray`` installs both.
    StoreNotFoundError, NotZarrError
        Nothing exists there, or it is not a Zarr group.
    MetadataError
        A document is damaged; the node is named.

    Warns
    -----
    UserWarning
        The target of a link cannot be read; it is left out.

    Examples
    --------
    >>> tree = to_datatree("session.nwb.zarr")
    >>> tree["acquisition/ElectricalSeries"].sel(time=slice(1, 2))

    Source: xarray, ``DataTree.from_dict``.
    """
    opened = open_store(source, storage_options)
    parsed = parse(opened)
    hierarchy = parsed.hierarchy
    if isinstance(hierarchy.root, Dataset):
        raise errors.NotZarrError("this is an array, not a group", store=opened.location, remedy="Open it with zarr.")
    file = _Source(Resolver(parsed.store(opened), hierarchy))
    datasets, lengths = dict[str, Any](), {"": dict[str, int]()}
    for path, node in hierarchy.walk(without=spec_location(hierarchy.root.attributes.get(SPECLOC))):
        if isinstance(node, Group):
            # xarray aligns the dimensions of a node with those of the nodes above it
            lengths[path] = dict(lengths[split(path)[0]])
            datasets[absolute(path)] = file.dataset(path, node, lengths[path], scaled=scaled)
    return xr.DataTree.from_dict(datasets)


class _Source:
    """Makes variables of the datasets of a file; ``opened`` is one that is open, perhaps with changes."""

    def __init__(self, resolver: Resolver, opened: LazyArray | None = None) -> None:
        self._resolver, self._opened = resolver, opened
        self._file, self._cache = resolver.main, ChunkCache()

    def attributes(self, path: str, node: Node, group: Node | None = None) -> dict[str, Any]:
        """Return the attributes of a node; those of data also have the description of their group."""
        with at(self._file.store, path):
            known = plain_attributes(node.attributes)
        text = None if group is None else group.attributes.get("description")
        return {"description": text, **known} if "unit" in known and isinstance(text, str) else known

    def _target(self, file: LinkedFile, source: str, path: str) -> tuple[LinkedFile, str, Node] | None:
        """Return what a link or reference leads to; None with a warning if it is broken."""
        try:
            return self._resolver.find(file, source, path)
        except (errors.DamagedFileError, errors.LimitError, errors.StoreError) as error:
            warn(f"{absolute(path)} is left out: {error}")
            return None

    def _array(self, file: LinkedFile, path: str, node: Dataset) -> LazyArray:
        if self._opened is not None and file is self._file:
            return self._opened.beside(path, node)
        return LazyArray(file.store, path, node, self._cache)

    def _member(self, path: str, name: str) -> LazyArray | None:
        """Return a dataset in a group, also behind a link; None if there is none."""
        group = self._file.hierarchy.get(path)
        if not isinstance(group, Group):
            return None
        if name not in group.members and all(link.name != name for link in self._file.links(path, group)):
            return None
        target = self._target(self._file, THIS_FILE, join(path, name))
        return self._array(*target[:2], target[2]) if target and isinstance(target[2], Dataset) else None

    # ---- time series -------------------------------------------------------------------------------------------------

    def labels(self, path: str, shape: tuple[int, ...]) -> Any:
        """Return the coordinates of the data of a group, which have a shape."""
        labels = xr.Coordinates()
        if shape and shape[0] and (times := self._times(path, shape[0])) is not None:
            labels = xr.Coordinates.from_xindex(times)
        for name, dim in _REGIONS.items() if len(shape) > 1 else ():
            rows = self._member(path, name)
            if rows is not None and rows.shape == shape[1:2] and (columns := self._columns(rows, dim)) is not None:
                labels = labels.merge(columns).coords
        return labels

    def _times(self, path: str, count: int) -> Any:
        """Return the index of the times of a series, None if it has none."""
        if (times := self._member(path, "timestamps")) is not None:
            is_known = times.shape == (count,) and times.dtype.kind in "iuf"
            return _StoredIndex(_TIME, _lazy((_TIME,), times)) if is_known else None
        first = self._member(path, "starting_time")
        rate = None if first is None else first.node.attributes.get("rate")
        if first is None or not isinstance(rate, int | float) or not 0 < rate < math.inf:
            return None
        start = float(np.asarray(first[()]).reshape(-1)[0])
        return _TimeIndex.linspace(start, start + count / rate, count, endpoint=False, dim=_TIME)

    def _columns(self, rows: LazyArray, dim: str) -> Any:
        """Return the ids and the columns of numbers and text of a table, at the rows that a region of it names."""
        with at(rows, rows.path):
            to = decode_attribute_reference(rows.node.attributes.get("table", {}))
        target = self._target(self._resolver.files[rows.location], to.source, to.node_path)
        if target is None or not isinstance(target[2], Group) or not isinstance(target[2].members.get("id"), Dataset):
            return None
        arrays = {
            name: self._array(target[0], join(target[1], name), node)
            for name, node in sorted(target[2].members.items())
            if isinstance(node, Dataset) and _has_values(node) and name not in (dim, _TIME)
        }
        ids = arrays.pop("id")
        # not the ragged columns, and those with several values in a row
        columns = {name: _lazy((dim,), array, rows) for name, array in arrays.items() if array.shape == ids.shape}
        index = xr.Coordinates.from_xindex(_StoredIndex(dim, _lazy((dim,), ids, rows)))
        return index.merge(xr.Coordinates(columns, indexes={})).coords

    def scaled(self, path: str, data: Any) -> Any:
        """Return the data of a series in their unit."""
        known, channels = data.attrs, self._member(path, "channel_conversion")
        with at(self._file.store, join(path, "data")):
            factor, offset = (_number(name, known.get(name, neutral)) for name, neutral in _NEUTRAL.items())
        values = data * factor
        if channels is not None and channels.shape == data.shape[1:2]:
            values = values * _lazy(data.dims[1:2], channels)
        values = values + offset
        # what is applied is not to be applied again
        values.attrs = known | {name: neutral for name, neutral in _NEUTRAL.items() if name in known}
        return values

    # ---- whole groups ------------------------------------------------------------------------------------------------

    def dataset(self, path: str, group: Group, lengths: dict[str, int], *, scaled: bool) -> Any:
        """Return the datasets of a group; ``lengths`` are those of the dimensions of the groups above it."""
        attributes, arrays, variables = self.attributes(path, group), dict[str, LazyArray](), dict[str, Any]()
        for name in [*group.members, *(link.name for link in self._file.links(path, group))]:
            target = self._target(self._file, THIS_FILE, join(path, name))
            if target is not None and isinstance(target[2], Dataset):
                arrays[name] = self._array(*target[:2], target[2])
            elif target is not None and name not in group.members:
                attributes[name] = absolute(target[1])
        has_labels = "data" in arrays and _TIME not in lengths
        labels = self.labels(path, arrays["data"].shape) if has_labels else xr.Coordinates()
        rows = arrays["id"].shape if "colnames" in group.attributes and "id" in arrays else ()
        if rows:
            lengths.setdefault(_ROWS, rows[0])  # before a ragged column takes the name
        for name, array in sorted(arrays.items()):
            if not _has_values(array.node) or _LABELS.get(name) in labels:
                continue
            is_data, shape = name == "data", () if is_scalar(array.node) else array.shape
            dims = list[str]()
            names = _names(array, len(shape), labels if is_data else ())
            if rows and shape[:1] == rows and f"{name}_index" not in arrays:
                names[0] = _ROWS
            for axis, (dim, length) in enumerate(zip(names, shape, strict=True)):
                free = (dim, f"{dim}_{name}", f"{dim}_{name}_{axis}")
                dims.append(next(n for n in free if n not in dims and lengths.setdefault(n, length) == length))
            data = xr.Variable(dims, to_dask(array)) if shape and array.nchunks > 1 else _lazy(dims, array)
            data.attrs = self.attributes(array.path, array.node, group if is_data else None)
            variables[name] = self.scaled(path, data) if is_data and scaled else data
        # a table may have a column with the name of a dataset of the series
        return xr.Dataset(variables, labels.drop_vars(labels.keys() & variables.keys()), attributes)


def _names(array: LazyArray, count: int, labels: Any) -> list[str]:
    """Return the names of the axes of a dataset; those that have labels are named as these."""
    # netCDF, and so the file, names an axis without a label `_anonymous4`
    stated = names_of_axes(array.node, count) or [None] * count
    names = [None if name is None or name.startswith("_anonymous") else name for name in stated]
    for axis, dims in enumerate(((_TIME,), _REGIONS.values())[:count]):
        names[axis] = next((dim for dim in dims if dim in labels), names[axis])
    return [name or f"{array.basename or 'array'}_dim_{axis}" for axis, name in enumerate(names)]


def _number(name: str, value: Any) -> float:
    """Return an attribute that is a number, perhaps in a list of one element."""
    try:
        return float(np.asarray(value).item())
    except (TypeError, ValueError) as error:
        problem = f"the attribute {name!r} is {value!r}, not a number"
        raise MetadataError(problem, remedy="Read the series without scaling, and scale its values.") from error


def _has_values(node: Dataset) -> bool:
    """Tell whether a dataset has numbers or text, not references or rows."""
    return not isinstance(describe_any(node).stored, Reference | Compound | Unknown)


# ---- arrays and indexes ----------------------------------------------------------------------------------------------


class _Stored(xr.backends.BackendArray):  # type: ignore[misc]
    """An array that xarray reads when it needs the values: the complete one, or the rows with these numbers."""

    def __init__(self, array: LazyArray, ndim: int, rows: LazyArray | None) -> None:
        self._array, self._rows = array, rows
        self.shape = (array.shape if rows is None else rows.shape)[:ndim]
        self.dtype = array.dtype

    def __getitem__(self, key: Any) -> Any:
        return indexing.explicit_indexing_adapter(key, self.shape, indexing.IndexingSupport.OUTER, self._read)

    def _read(self, key: Any) -> Any:
        if self._rows is not None:
            return self._array[()][self._rows[()]][key]
        values = np.asarray(self._array[key], self.dtype)
        return values if self.shape else values.reshape(())  # a scalar may be stored as one element


def _lazy(dims: Sequence[str], array: LazyArray, rows: LazyArray | None = None) -> Any:
    """Return a variable that is read on use and then kept, not of dask: xarray refuses to group by labels of dask."""
    stored = indexing.LazilyIndexedArray(_Stored(array, len(dims), rows))
    return xr.Variable(dims, indexing.MemoryCachedArray(indexing.CopyOnWriteArray(stored)))


class _TimeIndex(xr.indexes.RangeIndex):  # type: ignore[misc]
    """Times of a rate, which are computed. A slice includes both of its ends, as in the other indexes of xarray."""

    def sel(self, labels: Any, method: Any = None, tolerance: Any = None) -> Any:
        label = labels[self.dim]
        if not isinstance(label, slice) or label.step is not None:
            return super().sel(labels, method, tolerance)
        # less than a millionth of a sample is rounding
        first, last = (
            default if end is None else round((end - self.start) / self.step, 6)
            for end, default in ((label.start, 0), (label.stop, self.size))
        )
        return indexing.IndexSelResult({self.dim: slice(max(math.ceil(first), 0), max(math.floor(last) + 1, 0))})

    def isel(self, indexers: Any) -> Any:
        index = super().isel(indexers)
        return _TimeIndex(index.transform) if isinstance(index, xr.indexes.RangeIndex) else index


class _StoredIndex(xr.Index):  # type: ignore[misc]
    """Labels in a file, which are read when the first one is looked up."""

    def __init__(self, dim: str, variable: Any) -> None:
        self.dim, self.variable = dim, variable

    @cached_property
    def loaded(self) -> Any:
        return xr.indexes.PandasIndex(self.variable.values, self.variable.dims[0])

    def create_variables(self, variables: Any = None) -> Any:
        return {self.dim: self.variable}

    def to_pandas_index(self) -> Any:
        return self.loaded.index

    def sel(self, labels: Any, method: Any = None, tolerance: Any = None) -> Any:
        index, is_slice = self.loaded.index, isinstance(labels[self.dim], slice)
        if (index.is_monotonic_increasing and index.is_unique) or not (is_slice or method):
            return self.loaded.sel(labels, method, tolerance)
        # pandas selects by position, or refuses, where labels are out of order or repeated, as times of a file may be
        order = np.flatnonzero(index.notna() & (is_slice | ~index.duplicated()))
        order = order[np.argsort(index[order], kind="stable")]
        rows = xr.indexes.PandasIndex(index[order], self.dim).sel(labels, method, tolerance).dim_indexers[self.dim]
        has_dims = isinstance(rows, xr.Variable | xr.DataArray)  # as the labels have
        chosen = rows.copy(data=order[rows.values]) if has_dims else order[rows]
        return indexing.IndexSelResult({self.dim: np.sort(chosen) if is_slice else chosen})

    def isel(self, indexers: Any) -> Any:
        variable = self.variable.isel(indexers)
        return _StoredIndex(self.dim, variable) if variable.ndim == 1 else None

    def equals(self, other: Any, **options: Any) -> bool:
        return isinstance(other, _StoredIndex) and bool(self.loaded.equals(other.loaded, **options))
