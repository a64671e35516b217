"""One Zarr array as a dataset: the facts of it, as the array is and as the HDF5 dataset that it was or would be."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.mapping.facts import (
    AttributeFacts,
    DatasetFacts,
    ElementType,
    FilterFacts,
    Reference,
    Selection,
    Values,
    hdf5_filter,
)
from hdmf_zarr_backend.mapping.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute
from hdmf_zarr_backend.read.facttypes import array_element
from hdmf_zarr_backend.read.factvalues import block_values, default_element, json_values
from hdmf_zarr_backend.stores.base import KeyStore


@dataclass(slots=True)
class _Array:
    """What is known of an array before any of its values is read.

    Attributes
    ----------
    dtype : numpy.dtype
        Of its data type.
    element : ElementType
        What it holds.
    shape : tuple of int or None
        Of the dataset: rows are one axis, a scalar has none, None without a dataspace.
    note : dict or None
        What was noted of the dataset in HDF5; None where it never was there.
    """

    node: ArrayNode[Attributes]
    dtype: np.dtype[Any]
    element: ElementType
    shape: tuple[int, ...] | None
    note: dict[str, Any] | None


class ArrayReader:
    """Makes the facts of the arrays of one file. What decodes values is imported when the first of them is asked for.

    Parameters
    ----------
    keys : KeyStore
        The store.
    resolve : callable
        Returns the `Reference` of a stored reference.
    as_hdf5 : bool
        Give chunks, filters, layout and fill value of the HDF5 dataset.
    """

    def __init__(self, keys: KeyStore, resolve: Callable[[Any], Reference], *, as_hdf5: bool) -> None:
        self._keys = keys
        self._resolve = resolve
        self._as_hdf5 = as_hdf5
        self._cache: Any = None
        self._checked: set[str] = set()

    def forget(self) -> None:
        """Forget the decoded chunks."""
        self._cache = None

    def facts(
        self, path: str, node: ArrayNode[Attributes], attributes: Mapping[str, AttributeFacts], *, is_spec: bool
    ) -> DatasetFacts:
        """Return the facts of the array at ``path``, in the model's spelling.

        Parameters
        ----------
        path, node
            The array.
        attributes : mapping
            Its attributes.
        is_spec : bool
            Whether it is a cached specification, which old files do not mark as a scalar.

        Raises
        ------
        MetadataError, ValueRefusedError
            Its type cannot be understood.
        """
        array = _array(node, is_spec=is_spec)
        chunks, filters = self._storage(array)
        axes = len(array.shape or ())

        def read(selection: Selection) -> Values:
            from hdmf_zarr_backend.arrays.unwritten import check_unwritten

            try:
                if path not in self._checked:
                    check_unwritten(self._keys, path, node)
                    self._checked.add(path)
                return self._read(path, array, selection)
            except ZarrBackendError as error:
                raise error.located(store=self._keys.location, path=absolute(path)) from error.__cause__

        return DatasetFacts(
            attributes=attributes,
            dtype=array.element,
            shape=array.shape,
            maxshape=None if array.shape is None else _maxshape(node, array.shape),
            chunks=chunks,
            layout=self._layout(array, chunks),
            filters=filters,
            fill=self._fill(array),
            read=read,
            grid=node.chunks[:axes] if axes else None,
        )

    def _read(self, path: str, array: _Array, selection: Selection) -> Values:
        from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader

        if self._cache is None:
            self._cache = ChunkCache()
        reader = ChunkReader(self._keys, path, array.node, self._cache)
        rest = len(array.node.shape) - len(array.shape or ())
        block = reader.read((*selection, *[slice(None)] * rest))
        lengths = tuple(part.stop - part.start for part in selection)
        return block_values(block, array.element, lengths, self._resolve)

    # ---- storage ----------------------------------------------------------------------------------------------------

    def _storage(self, array: _Array) -> tuple[tuple[int, ...] | None, tuple[FilterFacts, ...]]:
        node = array.node
        chunks = node.chunks[: len(array.shape)] if array.shape else None
        if not self._as_hdf5:
            return chunks, _codecs(node)
        if array.note is not None:
            return _noted_storage(array.note)
        # what makes bytes of objects is no filter in HDF5, it is part of the type
        filters = _codecs(node)[1:] if node.data_type == "|O" else _codecs(node)
        return chunks, filters if array.shape else ()

    def _layout(self, array: _Array, chunks: tuple[int, ...] | None) -> tuple[str, ...]:
        if not self._as_hdf5 or array.note is None or chunks is not None:
            return ()
        return (str(array.note.get("layout", "contiguous")),)

    def _fill(self, array: _Array) -> Values | None:
        note = (array.note or {}).get("fill")
        if isinstance(note, dict) and "value" in note:
            return json_values([note["value"]], array.element, self._resolve)[0:1].reshape(())
        if self._as_hdf5 and note == "undefined":
            return None
        # a fill value of rows or references is a pickle in old files: never decoded, and never needed
        if array.node.fill_value is not None and (array.dtype.kind != "O" or array.element.kind == "text"):
            from hdmf_zarr_backend.arrays.fills import fill_scalar

            chosen = fill_scalar(array.node, array.dtype)
            if chosen is not None:
                inner = array.element.shape if array.element.kind == "array" else ()
                return block_values(np.full(inner, chosen, array.dtype), array.element, (), self._resolve)
        return default_element(array.element, array.dtype) if self._as_hdf5 else None


def _array(node: ArrayNode[Attributes], *, is_spec: bool) -> _Array:
    from hdmf_zarr_backend.arrays.codecs import numpy_dtype

    dtype = numpy_dtype(node.data_type)
    element = array_element(node, dtype)
    notes = notes_of(node.attributes)
    note = notes.get("hdf5")
    note = note if isinstance(note, dict) else None
    shape = node.shape
    if element.kind == "compound" and dtype.kind == "O" and len(shape) == 2:
        shape = shape[:1]
    elif element.kind == "array":
        shape = shape[: len(shape) - len(element.shape)]
    if note is not None and note.get("null") is True and 0 in node.shape:
        return _Array(node, dtype, element, None, note)
    marked = node.attributes.get(DTYPE) == "scalar" or notes.get("scalar") is True or (is_spec and note is None)
    return _Array(node, dtype, element, () if marked and math.prod(shape) == 1 else shape, note)


def _maxshape(node: ArrayNode[Attributes], shape: tuple[int, ...]) -> tuple[int | None, ...]:
    kept = notes_of(node.attributes).get("maxshape")
    # an element that is an array has axes of its own, which may have been noted as well
    return tuple(kept[: len(shape)]) if isinstance(kept, list) and len(kept) >= len(shape) else shape


def _codecs(node: ArrayNode[Attributes]) -> tuple[FilterFacts, ...]:
    """Return the codecs of an array in the order in which they are applied."""
    configurations = [*(node.filters or []), *([node.compressor] if node.compressor else [])]
    steps = []
    for configuration in configurations:
        options = sorted(f"{key}={value}" for key, value in configuration.items() if key != "id")
        steps.append(FilterFacts(str(configuration["id"]), tuple(options)))
    return tuple(steps)


def _noted_storage(note: dict[str, Any]) -> tuple[tuple[int, ...] | None, tuple[FilterFacts, ...]]:
    """Return the chunks and filters that a dataset had in HDF5."""
    chunks = note.get("chunks")
    steps = note.get("filters")
    known = [step for step in steps if isinstance(step, list) and len(step) == 3] if isinstance(steps, list) else []
    filters = tuple(hdf5_filter(code, tuple(options), None) for code, _, options in known)
    return tuple(chunks) if isinstance(chunks, list) else None, filters
