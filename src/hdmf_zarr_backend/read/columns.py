"""Columns of tables in a file that is open for changes, in the form in which hdmf lets them grow."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
from hdmf.common import VectorIndex
from hdmf.data_utils import DataIO
from hdmf.query import ReferenceResolver

from hdmf_zarr_backend.changes.editable import EditableArray
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.mapping.dtypes import number_name, zarr_type
from hdmf_zarr_backend.mapping.reserved import DTYPE, NOTES, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes
from hdmf_zarr_backend.read.columnrows import count_axes, structured_rows


def _set_type(dtype: np.dtype[Any], node: ArrayNode[Attributes]) -> None:
    """Make ``node`` say that its elements are of ``dtype``; what HDF5 had besides was of the type before."""
    notes = {key: value for key, value in notes_of(node.attributes).items() if key != "hdf5"}
    node.data_type = zarr_type(dtype)
    node.attributes[DTYPE] = number_name(dtype)
    if NOTES in node.attributes:
        node.attributes[NOTES] = notes


class EditableColumn(EditableArray, DataIO):  # type: ignore[misc]
    """An `EditableArray` that hdmf extends.

    ``hdmf.data_utils.extend_data`` knows lists, NumPy, h5py and its own `DataIO`, and no Zarr array; as a DataIO
    whose data are the array itself, a column of a table grows by whole rows of ragged values.
    """

    def __init__(self, edits: Edits, *arguments: Any, **options: Any) -> None:
        EditableArray.__init__(self, edits, *arguments, **options)
        self._plain = EditableArray(edits, *arguments, **options)
        self._grows_wider = False

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add one element (as hdmf calls it), or a block of them (as zarr does), at the end."""
        ndim = count_axes(data) if self._has_fields else np.ndim(data)
        return super().append(data if ndim == self.ndim else [data], axis)

    @property
    def _has_fields(self) -> bool:
        return self.dtype.names is not None and not self.dtype.hasobject

    def _numbers(self, data: Any, dtype: np.dtype[Any]) -> Any:
        if self._has_fields:
            try:
                return structured_rows(data, dtype)
            except ValueRefusedError as error:
                raise error.located(store=self.location, path=self.name) from error.__cause__
        if self._grows_wider and not self.node.filters:
            wanted = np.min_scalar_type(np.max(data, initial=0))
            if wanted.kind == dtype.kind == "u" and wanted.itemsize > dtype.itemsize:
                dtype = wanted.newbyteorder(dtype.byteorder)
                self._edits.widen(self._reader, dtype, partial(_set_type, dtype))
        return super()._numbers(data, dtype)

    def let_grow_wider(self) -> None:
        """Take larger unsigned integers than the data type holds by taking a wider one."""
        self._grows_wider = True

    @property
    def data(self) -> Any:
        """The same array, as one that is no DataIO."""
        return self._plain

    @property
    def valid(self) -> bool:
        """Always: there is a dataset."""
        return True

    def get_io_params(self) -> dict[str, Any]:
        """No options: the dataset is stored already."""
        return {}

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def let_indices_grow(container: Any) -> None:
    """Let the indices of all ragged columns in ``container`` grow beyond the data type in which they are stored.

    ``VectorIndex`` knows how far its own data go only where it was made of a list or of a NumPy array: of stored ones
    it takes 255 for the largest number and gives up there, whatever their type. The data know better, so it is to
    leave it to them.

    Where what is indexed are references or rows, hdmf would extend them at one go and knows no such data; they grow
    one by one.
    """
    stack = [container]
    while stack:
        here = stack.pop()
        stack.extend(here.children)
        if isinstance(here, VectorIndex) and isinstance(here.data, EditableColumn):
            here._VectorIndex__maxval = np.iinfo(np.uint64).max
            here._VectorIndex__uint = np.uint64
            here.data.let_grow_wider()
            if isinstance(here.target.data, ReferenceResolver):
                here.target.extend = partial(_append_each, here.target)


def _append_each(column: Any, values: Iterable[Any], **options: Any) -> None:
    """Stand for ``VectorData.extend`` of one column."""
    for value in values:
        column.add_row(value, **options)
