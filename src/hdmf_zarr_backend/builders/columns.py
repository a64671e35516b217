"""`EditableColumn`: a stored table column that hdmf can extend, in a file that is open for changes."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from hdmf.common import VectorIndex
from hdmf.data_utils import DataIO
from hdmf.query import ReferenceResolver

from hdmf_zarr_backend.arrays.editable import EditableArray
from hdmf_zarr_backend.arrays.edits import Edits
from hdmf_zarr_backend.builders.targets import containers_below
from hdmf_zarr_backend.encoding.reserved import DTYPE, NOTES, notes_of
from hdmf_zarr_backend.errors import at
from hdmf_zarr_backend.formats.casting import count_axes, flatten
from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.model.nodes import Attributes, Dataset

Array = npt.NDArray[Any]


def _set_type(dtype: np.dtype[Any], node: Dataset[Attributes]) -> None:
    """Set the data type of ``node``, and drop the notes of HDF5, which describe the old type."""
    notes = {key: value for key, value in notes_of(node.attributes).items() if key != "hdf5"}
    node.stored.data_type = zarr_type(dtype)
    node.attributes[DTYPE] = dtype.name
    if NOTES in node.attributes:
        node.attributes[NOTES] = notes


def _ndim(data: Any) -> int:
    return int(data.ndim) if hasattr(data, "ndim") else len(flatten(data)[0])


class EditableColumn(EditableArray, DataIO):  # type: ignore[misc]
    """An `EditableArray` that hdmf can extend.

    ``hdmf.data_utils.extend_data`` supports lists, NumPy, h5py and its own `DataIO`, but not Zarr arrays. Because this
    is a DataIO whose data are the array itself, a table column grows by complete rows of ragged values.
    """

    def __init__(self, edits: Edits, *arguments: Any, **options: Any) -> None:
        EditableArray.__init__(self, edits, *arguments, **options)
        self._plain = EditableArray(edits, *arguments, **options)
        self._grows_wider = False

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Append one element (as hdmf calls it), or a block of elements (as zarr does)."""
        with at(self.location, self.name):
            is_plain = self.dtype.names is None or self.dtype.hasobject
            ndim = _ndim(data) if is_plain else count_axes(data)
        return super().append(data if ndim == self.ndim else [data], axis)

    def _typed(self, data: Any, dtype: np.dtype[Any]) -> Array:
        if self._grows_wider and not self.node.stored.filters:
            wanted = np.min_scalar_type(np.max(data, initial=0))
            if wanted.kind == dtype.kind == "u" and wanted.itemsize > dtype.itemsize:
                dtype = wanted.newbyteorder(dtype.byteorder)
                self._edits.widen(self._reader, dtype, partial(_set_type, dtype, self.node))
        return super()._typed(data, dtype)

    def let_grow_wider(self) -> None:
        """Accept unsigned integers that exceed the data type, by changing to a wider one."""
        self._grows_wider = True

    @property
    def data(self) -> Any:
        """The same array, not as a DataIO."""
        return self._plain

    @property
    def valid(self) -> bool:
        """True: a dataset exists."""
        return True

    def get_io_params(self) -> dict[str, Any]:
        """Return no options: the dataset is stored already."""
        return {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # during construction
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self._plain, name)  # DataIO delegates to its data, which are this array


def let_indices_grow(container: Any) -> None:
    """Let the indices of all ragged columns in ``container`` grow beyond their stored data type.

    ``VectorIndex`` assumes a maximum of 255 for stored data, whatever their type, and refuses larger values. So its
    check is disabled, and the data choose their type.

    hdmf cannot extend references or rows by several elements, so a column of these grows one by one.
    """
    for here in containers_below(container):
        if isinstance(here, VectorIndex) and isinstance(here.data, EditableColumn):
            here._VectorIndex__maxval = np.iinfo(np.uint64).max
            here._VectorIndex__uint = np.uint64
            here.data.let_grow_wider()
            if isinstance(here.target.data, ReferenceResolver):
                here.target.extend = partial(_append_each, here.target)


def _append_each(column: Any, values: Iterable[Any], **options: Any) -> None:
    """Replace ``VectorData.extend`` of one column."""
    for value in values:
        column.add_row(value, **options)
