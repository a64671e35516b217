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

from hdmf_zarr_backend.changes.editable import EditableArray
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.formats.dtypes import keeps_dates, number_name, zarr_type
from hdmf_zarr_backend.formats.reserved import DTYPE, NOTES, notes_of
from hdmf_zarr_backend.model.nodes import Attributes, Dataset

Array = npt.NDArray[Any]

_REMEDY = "Give a row as a tuple with as many values as there are fields, or convert the values."


def count_axes(data: Any) -> int:
    """Return the number of axes of ``data``, whose elements are rows; 0 for one row."""
    if isinstance(data, (np.ndarray, np.void)):
        return data.ndim if data.dtype.names is not None else max(data.ndim - 1, 0)
    if isinstance(data, list) and (not data or isinstance(data[0], (list, tuple, np.ndarray, np.void))):
        return 1 + (count_axes(data[0]) if data else 0)
    return 0


def structured_rows(data: Any, dtype: np.dtype[Any]) -> Array:
    """Return rows as an array of ``dtype`` with `count_axes` axes.

    Parameters
    ----------
    data : array-like
        A row, or nested lists of rows; a row is a tuple, a list, an array, or an element of a structured array.
    dtype : numpy.dtype
        A structured type without objects.

    Raises
    ------
    ValueRefusedError
        A row has another number of values, or a value does not fit its field without loss.
    """
    try:
        given = data if _is_structured(data) else _as_tuples(data, count_axes(data))
        with np.errstate(invalid="ignore"):
            rows = np.asarray(given, dtype)
            _check(rows, np.asarray(given, _of_objects(dtype, given.dtype if _is_structured(given) else None)), "")
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, ValueRefusedError):
            raise
        raise ValueRefusedError(f"the data are not rows of {dtype} ({error})", remedy=_REMEDY) from error
    return rows


def _is_structured(data: Any) -> bool:
    return isinstance(data, (np.ndarray, np.void)) and data.dtype.names is not None


def _as_tuples(data: Any, ndim: int) -> Any:
    if ndim:
        return [_as_tuples(item, ndim - 1) for item in data]
    if isinstance(data, np.ndarray) and data.ndim == 0:
        data = data[()]
    if isinstance(data, np.void):
        return tuple(data[name] for name in data.dtype.names or ())
    return tuple(data) if isinstance(data, (list, np.ndarray)) else data


def _of_objects(dtype: np.dtype[Any], given: np.dtype[Any] | None) -> np.dtype[Any]:
    """Return the same fields for elements of any type, to keep the given values; given dates keep their type."""
    fields = []
    for position, name in enumerate(dtype.names or ()):
        base, shape = dtype[name].base, dtype[name].shape
        own = None if given is None else given[position].base
        held = own if own is not None and own.kind in "mM" else np.dtype(object)
        fields.append((name, _of_objects(base, own) if base.names is not None else held, shape))
    return np.dtype(fields)


def _check(rows: Array, given: Array, path: str) -> None:
    """Refuse integers and text that have changed; numbers may be rounded to the precision of a field, as elsewhere."""
    for name in rows.dtype.names or ():
        values, before = rows[name], given[name]
        if values.dtype.names is not None:
            _check(values, before, f"{path}{name}.")
        elif not _is_kept(values, before):
            raise ValueRefusedError(
                f"the data do not fit {values.dtype} of the field {path + name!r} without loss", remedy=_REMEDY
            )


def _is_kept(values: Array, before: Array) -> bool:
    if values.dtype.kind in "iub":
        return bool(np.all(values == before))
    if values.dtype.kind in "mM" and before.dtype == object and before.size:
        before = np.asarray(before.tolist())
    if before.dtype.kind in "mM":
        return keeps_dates(values, before)
    if values.dtype.kind in "SU" and before.size:
        return before.astype(values.dtype.kind).dtype.itemsize <= values.dtype.itemsize
    return True


def _set_type(dtype: np.dtype[Any], node: Dataset[Attributes]) -> None:
    """Set the data type of ``node``, and drop the notes of HDF5, which describe the old type."""
    notes = {key: value for key, value in notes_of(node.attributes).items() if key != "hdf5"}
    node.stored.data_type = zarr_type(dtype)
    node.attributes[DTYPE] = number_name(dtype)
    if NOTES in node.attributes:
        node.attributes[NOTES] = notes


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
        if self._grows_wider and not self.node.stored.filters:
            wanted = np.min_scalar_type(np.max(data, initial=0))
            if wanted.kind == dtype.kind == "u" and wanted.itemsize > dtype.itemsize:
                dtype = wanted.newbyteorder(dtype.byteorder)
                self._edits.widen(self._reader, dtype, partial(_set_type, dtype, self.node))
        return super()._numbers(data, dtype)

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
    """Replace ``VectorData.extend`` of one column."""
    for value in values:
        column.add_row(value, **options)
