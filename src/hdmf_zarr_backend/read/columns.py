"""Columns of tables in a file that is open for changes, in the form in which hdmf lets them grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from hdmf.data_utils import DataIO

from hdmf_zarr_backend.storage.edits import EditableArray, Edits


class EditableColumn(EditableArray, DataIO):  # type: ignore[misc]
    """An `EditableArray` that hdmf extends.

    ``hdmf.data_utils.extend_data`` knows lists, NumPy, h5py and its own `DataIO`, and no Zarr array; as a DataIO whose data are
    the array itself, a column of a table grows by whole rows of ragged values.
    """

    def __init__(self, edits: Edits, *arguments: Any, **options: Any) -> None:
        EditableArray.__init__(self, edits, *arguments, **options)
        self._plain = EditableArray(edits, *arguments, **options)

    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add one element (as hdmf calls it), or a block of them (as zarr does), at the end."""
        block = data if np.ndim(data) == self.ndim else [data]
        return super().append(block, axis)

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

    __copy__ = None  # type: ignore[assignment]
    __deepcopy__ = None  # type: ignore[assignment]
