"""Plans of the copies of HDF5 datasets: notes about what Zarr cannot express, and chunks that are not decoded.

Source: `HDF5IO` also keeps chunks and filters of what it exports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import h5py
import numpy as np

from hdmf_zarr_backend.array.chunks import IntArray, normalise
from hdmf_zarr_backend.encoding import elements
from hdmf_zarr_backend.encoding.dtypes import has_unusual_nan
from hdmf_zarr_backend.encoding.hdf5_types import to_note
from hdmf_zarr_backend.encoding.hdf5_values import encoder
from hdmf_zarr_backend.encoding.layout import WHOLE_BYTES, Layout, as_scalar, chunks_from_hdf5, new_dataset
from hdmf_zarr_backend.encoding.reserved import HDF5
from hdmf_zarr_backend.errors import NaNPayloadWarning, ValueRefusedError, warn
from hdmf_zarr_backend.hdf5.datasets import Description, describe
from hdmf_zarr_backend.hdf5.filters import check_chunks, codecs_of
from hdmf_zarr_backend.hdf5.rawcopy import plan_contiguous, plan_raw
from hdmf_zarr_backend.model.element import UTF8, Compound, Element, Number, Opaque, Reference
from hdmf_zarr_backend.write import array_planner
from hdmf_zarr_backend.write.plan import PlannedArray
from hdmf_zarr_backend.write.sources import Array, IndexedSource, Region


def is_hdf5_dataset(data: Any) -> bool:
    """Tell whether ``data`` is an ``h5py.Dataset``."""
    return isinstance(data, h5py.Dataset)


class CheckedDataset:
    """An ``h5py.Dataset``, or a view of it, whose chunks are checked before HDF5 decodes them."""

    def __init__(self, dataset: Any, view: Any = None) -> None:
        self.dataset = dataset
        self._view = dataset if view is None else view
        self.name, self.shape, self.dtype = dataset.name, dataset.shape, dataset.dtype

    def __getitem__(self, key: Any) -> Any:
        # the smallest block with the selection: an index from the end is not a slice, since slice(-1, 0) is empty
        axes = normalise(key, self.shape)
        bounds = [(axis.start, axis.stop) if axis.indices is None else _ends(axis.indices) for axis in axes]
        check_chunks(self.dataset.id, bounds)
        return self._view[key]


def _ends(indices: IntArray) -> tuple[int, int]:
    return (int(indices.min()), int(indices.max()) + 1) if len(indices) else (0, 0)


class H5Source(IndexedSource):
    """The values of a `CheckedDataset`."""

    def portable(self) -> H5FileSource:
        """Return this source as file and path."""
        return H5FileSource(str(self.data.dataset.file.filename), str(self.data.name), self.shape, self.dtype)


@dataclass(slots=True, eq=False)
class H5FileSource:
    """A dataset of an HDF5 file by file and path; each worker opens the file itself."""

    file: str
    path: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def read(self, region: Region) -> Array:
        """Return the block as ``dtype``."""
        with h5py.File(self.file, "r") as file:
            return H5Source(CheckedDataset(file[self.path]), self.dtype).read(region)


def plan_h5_dataset(dataset: Any, options: Layout, reference: array_planner.Encode) -> PlannedArray:
    """Plan an exact copy of an ``h5py.Dataset``, with notes about what Zarr cannot express."""
    data = CheckedDataset(dataset)
    # codecs stay, and chunks are copied without decoding, unless the user has chosen codecs, chunks or shards
    planned = plan_described(data, dataset, describe(dataset), options, reference, keep=options.is_left_open)
    if type(planned.source) is IndexedSource and planned.source.data is data:
        planned.source = H5Source(data, planned.source.dtype)  # which can be sent to another process
    return planned


def plan_described(
    data: Any, dataset: Any, description: Description, options: Layout, reference: array_planner.Encode, *, keep: bool
) -> PlannedArray:
    """Plan the copy of an ``h5py.Dataset`` whose description is known; with ``keep``, its codecs stay."""
    # ``data`` are its values, whose shape includes the axes of an element, and is None without a dataspace
    shape = data.shape
    if options.maxshape is None and description.maxshape is not None:
        options.maxshape = description.maxshape + description.inner
    if options.chunks is None and description.kind == "number" and shape and not options.chooses_by_elements:
        options.chunks = chunks_from_hdf5(shape, description.dtype.itemsize, _chunks_of(description))
    if options.fill_value is None:
        options.fill_value = description.fill_value
    planned = _plan_kind(data, description, options, reference)
    if options.maxshape is not None and "maxshape" not in planned.notes:
        planned.notes["maxshape"] = list(options.maxshape)
    note = dict(description.note)
    noted = to_note(description.element)
    if to_note(elements.describe(planned.node, {**planned.notes, HDF5: note}).stored) != noted:
        note["type"] = noted
    if note or shape:
        planned.notes[HDF5] = note
    if keep:
        _keep_codecs(description, planned)
    if description.kind == "number" and shape:
        take_chunks(dataset, description, planned, keep=keep)
    return planned


def _plan_kind(data: Any, description: Description, options: Layout, reference: array_planner.Encode) -> PlannedArray:
    kind = description.kind
    if data.shape is None:  # an array without elements, for a dataset that has only a type
        if kind == "number":
            return array_planner.plan_stored(np.zeros(0, description.dtype), description.dtype, options)
        element = description.element if isinstance(description.element, Reference) else UTF8
        node, notes = new_dataset(element, (0,), options)
        return PlannedArray(node, notes=notes)
    if isinstance(description.element, Compound) and kind == "compound":
        if len(data.shape) > 1:
            problem = f"a compound with text or references has {len(data.shape)} axes"
            raise ValueRefusedError(problem, remedy="Store it with one axis, which is all that HDMF supports.")
        encoders = [_h5_encoder(member, data, reference) for _, member in description.element.fields]
        rows = data if data.shape else [data[()]]
        length = data.shape[0] if data.shape else 1
        planned = array_planner.plan_rows(rows, length, description.fields, options, reference, encoders)
        if not data.shape:
            as_scalar(planned.node, planned.notes)
        return planned
    if isinstance(description.element, Reference):
        given = data if data.shape else [data[()]]  # which may be a null reference
        return array_planner.plan_references(given, data.shape, options, reference, element=description.element)
    if not data.shape:
        value = data[()]
        if isinstance(value, np.void) and value.dtype.names is None:
            return array_planner.plan_scalar_row(value, None, options, reference)
        return array_planner.plan_scalar(value, kind if kind in ("text", "ascii") else None, options, reference)
    if kind in ("text", "ascii"):
        return array_planner.plan_text(data, data.shape, kind, options)
    return array_planner.plan_stored(data, description.dtype, options)


def _h5_encoder(element: Element, data: Any, reference: array_planner.Encode) -> array_planner.Encode:
    """Return a function that converts the values of a field to JSON."""
    if isinstance(element, Number) and isinstance(element.layout, Opaque):
        element = replace(element, layout=None)  # rows of Zarr have the number; its tag is in the note
    if not isinstance(element, Number) or element.layout is not None or element.kind != "float":
        return encoder(element, reference)

    def encode(value: Any) -> Any:
        if has_unusual_nan(value):
            message = f"{getattr(data, 'name', 'a dataset')}: a NaN in rows with text or references loses its sign and "
            message += "payload. Store such numbers as a separate dataset to keep them."
            warn(message, NaNPayloadWarning)
        return value.item() if isinstance(value, (np.generic, np.ndarray)) else value

    return encode


def _keep_codecs(description: Description, planned: PlannedArray) -> None:
    """Give a planned array the codecs that the HDF5 dataset has, whatever its chunks are, if Zarr has them all."""
    # The bytes of text and references differ from those in HDF5, so filters for numbers say nothing there: they keep
    # the compressor alone.
    stored = planned.node.stored
    pipeline = codecs_of(description.note.get("filters", []), description.dtype)
    # a scalar has no compressor, and gets none
    if pipeline is None or not pipeline.codecs or stored.compressor is None:
        return
    compressors = [config for config in pipeline.codecs if config["id"] not in ("shuffle", "fletcher32")]
    if description.kind != "number":
        stored.compressor = dict(compressors[-1]) if compressors else stored.compressor
    elif pipeline.divides(math.prod(stored.chunks) * description.dtype.itemsize):
        if compressors:
            stored.filters, stored.compressor = pipeline.filters, pipeline.compressor
        else:  # the default compressor comes after them
            stored.filters = [dict(config) for config in pipeline.codecs]


def take_chunks(dataset: Any, description: Description, planned: PlannedArray, *, keep: bool) -> None:
    """Use the chunks of an HDF5 dataset as they are, or at least read its values without the HDF5 library."""
    # A small dataset is one chunk in Zarr, and very small chunks are joined, so these are not copied. Equal chunks
    # are copied as they are if the planned codecs are those of the dataset (``keep``).
    node, old = planned.node, planned.source
    is_small = node.stored.size * description.dtype.itemsize <= WHOLE_BYTES
    if not isinstance(old, IndexedSource) or old.dtype != description.dtype:
        return
    if is_small and node.stored.chunks != _chunks_of(description):
        return
    chunked = plan_raw(dataset, description)
    if chunked is None:
        contiguous = None if is_small else plan_contiguous(dataset, description)
        if contiguous is not None and contiguous.shape == node.stored.shape:
            planned.source = contiguous
        return
    if chunked.shape != node.stored.shape:
        return
    if keep and chunked.chunks == node.stored.chunks:
        node.stored.filters, node.stored.compressor = chunked.pipeline.filters, chunked.pipeline.compressor
        planned.source = chunked
    elif not is_small and (keep or chunked.raw.file is not None):
        planned.source = chunked.decoded()


def is_joined(description: Description, planned: PlannedArray) -> bool:
    """Tell whether the chunks of an array consist of several small chunks of the HDF5 dataset."""
    chunks, stored = _chunks_of(description), planned.node.stored
    if description.kind != "number" or chunks is None or len(chunks) != len(stored.shape):
        return False
    return any(length > min(chunk, n) for length, chunk, n in zip(stored.chunks, chunks, stored.shape, strict=True))


def _chunks_of(description: Description) -> tuple[int, ...] | None:
    """Return the chunk shape of an HDF5 dataset with the axes of an element, None if it is not chunked."""
    return None if description.chunks is None else description.chunks + description.inner
