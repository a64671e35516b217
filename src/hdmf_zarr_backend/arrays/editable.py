"""`EditableArray`: a dataset of a file that is open for changes, with assignment, append and resize."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.edits import Edits
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.arrays.selection import Axis, copy_part, normalise, overlaps
from hdmf_zarr_backend.errors import ModeError, UsageError, ValueRefusedError, at
from hdmf_zarr_backend.formats.casting import cast, cast_text, to_bytes, to_text
from hdmf_zarr_backend.formats.elements import stored_text

Array = npt.NDArray[Any]
Method = TypeVar("Method", bound=Callable[..., Any])


def _one_at_a_time(method: Method) -> Method:
    """Let a method that changes an array wait for the changes that other threads make to the file."""

    @functools.wraps(method)
    def changing(self: EditableArray, *arguments: Any, **options: Any) -> Any:
        # values that other threads compute are computed before, since those may read arrays of this file
        arguments = tuple(map(_in_memory, arguments))
        options = {name: _in_memory(value) for name, value in options.items()}
        with self._edits.gate, self._edits.lock:
            if self._edits.is_closed:
                raise ModeError(
                    "the file is closed", store=self.location, path=self.name, remedy="Open it again to change it."
                )
            return method(self, *arguments, **options)

    return typing.cast(Method, changing)


def _in_memory(value: Any) -> Any:
    is_elsewhere = hasattr(value, "__array__") and not isinstance(value, (np.ndarray, np.generic))
    return np.asarray(value) if is_elsewhere else value


class EditableArray(LazyArray):
    """A dataset of a file that is open with ``"r+"`` or ``"a"``: values can be assigned, added and cut off.

    Changes are visible at once to readers of this array. They are written when the file is closed, or by the next
    ``write``; an exception that leaves the ``with`` block discards them. Assignment accepts the same indices as
    reading, and values that NumPy can broadcast to the selection; they are converted to the data type of the array, and
    refused if that would change them. To change a chunk in a shard, the shard is rewritten. An open file has one array
    for each dataset: copies are the same object.

    Threads may share it: each assignment, ``append``, ``extend``, ``resize`` and indexing is atomic. Several of them
    are not, such as ``array[0] = array[0] + 1``: use a lock of your own.

    Parameters
    ----------
    edits : Edits
        Changes of the file.
    *arguments, **options
        Arguments of `LazyArray`.

    Raises
    ------
    UsageError
        On an assignment: the values do not fill the selection.
    ModeError
        On a change: the file is closed, so that it would not be written.
    ValueRefusedError
        On an assignment: the values do not fit the data type without loss.

    Source: h5py, "Datasets", for assignment and ``resize``; zarr-python, ``Array.append``.
    """

    def __init__(self, edits: Edits, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._edits = edits
        self._reader = edits.opened(self._reader, self.node)
        self._reader.changed = functools.partial(edits.chunk, self.path)
        self._reader.cut = functools.partial(edits.cut, self.path)

    def __reduce__(self) -> Any:
        raise TypeError("an array that is open for changes stays in its process; open the file for reading elsewhere")

    def __copy__(self) -> EditableArray:
        return self  # the file has one array, which holds its changes

    def __deepcopy__(self, memo: dict[int, Any]) -> EditableArray:
        return self

    @property
    def _async_array(self) -> Any:
        self._array = None  # the array that zarr opened before may have grown
        return super()._async_array

    def __getitem__(self, key: Any) -> Any:
        with self._edits.lock:
            return super().__getitem__(key)

    @_one_at_a_time
    def append(self, data: Any, axis: int = 0) -> tuple[int, ...]:
        """Add ``data`` at the end of ``axis``.

        Parameters
        ----------
        data : array-like
            As many axes as the array, with the same lengths except along ``axis``.
        axis : int
            The axis that grows; negative numbers count from the last.

        Returns
        -------
        tuple of int
            The new shape.

        Raises
        ------
        UsageError
            The shapes do not fit, or maxshape forbids it.
        ValueRefusedError
            The values do not fit the data type.
        """
        values = self._values(data)
        if axis < 0:
            axis += self.ndim
        if not 0 <= axis < values.ndim == self.ndim or any(
            n != m for i, (n, m) in enumerate(zip(values.shape, self.shape, strict=True)) if i != axis
        ):
            raise UsageError(
                f"data of shape {values.shape} cannot be appended to shape {self.shape} along axis {axis}",
                store=self.location,
                path=self.name,
                remedy="Give as many axes, with the same lengths except along the one that grows.",
            )
        start = self.shape[axis]
        shape = tuple(n + values.shape[axis] if i == axis else n for i, n in enumerate(self.shape))
        self.resize(shape)
        self._assign([Axis(start if i == axis else 0, n) for i, n in enumerate(shape)], values)
        return self.shape

    def extend(self, data: Any) -> None:
        """Add all elements of ``data`` at the end of the first axis; raises the errors of `append`."""
        rows = list(data)
        if rows:
            self.append(rows)

    @_one_at_a_time
    def resize(self, *new_shape: Any) -> None:
        """Change the shape: new elements have the fill value, elements outside are cut off.

        Parameters
        ----------
        *new_shape : int or tuple of int
            The length of each axis. Axes without a recorded maximum are unbounded.

        Raises
        ------
        UsageError
            Another number of axes, or a length beyond maxshape.
        """
        shape = tuple(new_shape[0]) if len(new_shape) == 1 and isinstance(new_shape[0], (tuple, list)) else new_shape
        shape = tuple(int(n) for n in shape)
        self._check_shape(shape)
        self._edits.resize(self._reader, shape)

    def _check_shape(self, shape: tuple[int, ...]) -> None:
        """Refuse a shape with another number of axes, or beyond maxshape."""
        if len(shape) != self.ndim or min(shape, default=0) < 0:
            raise UsageError(
                f"{shape} is not a shape of {self.ndim} axes",
                store=self.location,
                path=self.name,
                remedy="Give a length of 0 or more for each axis.",
            )
        bounds = self._maxshape or ()  # rows are stored with one more axis, which has no bound
        if any(bound is not None and n > max(bound, m) for n, m, bound in zip(shape, self.shape, bounds, strict=False)):
            raise UsageError(
                f"the shape {shape} is beyond the largest one, {bounds}",
                store=self.location,
                path=self.name,
                remedy="Write the data to a new dataset.",
            )

    @_one_at_a_time
    def __setitem__(self, key: Any, value: Any) -> None:
        axes = normalise(key, self.shape)
        lengths = tuple(axis.length for axis in axes)
        kept = tuple(axis.length for axis in axes if not axis.drop)
        values = self._values(value)
        while values.ndim > len(kept) and values.shape[0] == 1:
            values = values[0]
        try:
            values = np.broadcast_to(values, kept).reshape(lengths)
        except ValueError as error:
            raise UsageError(
                f"data of shape {values.shape} do not fill the selection, which has shape {kept}",
                store=self.location,
                path=self.name,
                remedy="Give data of the shape of the selection, or one value.",
            ) from error
        self._assign(axes, values)

    def _values(self, data: Any) -> Array:
        codec = self._reader.codec
        stored = stored_text(self.node.stored)
        with at(self.location, self.name):
            if not codec.is_object or codec.dtype.names is not None:
                return self._typed(data, codec.dtype)
            if stored is None:
                return _object_array(data, self.ndim)
            return cast_text(data, to_text if stored == "text" else to_bytes)

    def _typed(self, data: Any, dtype: np.dtype[Any]) -> Array:
        return cast(data, dtype, same_kind=True)

    def _assign(self, axes: list[Axis], values: Array) -> None:
        for part in overlaps(axes, self.node.stored.chunks):
            held = self._edits.chunk(self.path, part.chunk)
            chunk = held if held is not None else self._reader.chunk(part.chunk).copy()
            copy_part(values, part.outer, chunk, part.inner)
            self._edits.put(self._reader, part.chunk, chunk)


def _object_array(data: Any, ndim: int) -> Array:
    """Return nested lists as an object array of ``ndim`` axes, without looking into the elements."""
    if hasattr(data, "shape") and hasattr(data, "dtype"):
        return np.asarray(data).astype(object)
    shape: list[int] = []
    rows = [data]
    while len(shape) < ndim and rows and all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            raise ValueRefusedError("rows differ in length", remedy="Give as many elements in each.")
        shape.append(lengths.pop())
        rows = [item for row in rows for item in row]
    array: Array = np.fromiter(rows, object, len(rows))
    return array.reshape(shape)
