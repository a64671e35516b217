"""Sources of the values of a new array, each of which can return any block of them.

A source is read in complete chunks, so that no array is in memory twice. Each class handles one kind of input, and
converts values (text, references, rows) block by block.
"""

from __future__ import annotations

import datetime
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.formats.dtypes import keeps_dates

Array = npt.NDArray[Any]
Region = tuple[slice, ...]

_NUMBERS = frozenset("biufc")


def is_hdf5_dataset(data: Any) -> bool:
    """Tell whether ``data`` is an ``h5py.Dataset``, without importing h5py for data that cannot be one."""
    if not any(cls.__module__.partition(".")[0] == "h5py" for cls in type(data).__mro__):
        return False
    import h5py

    return isinstance(data, h5py.Dataset)


class ArraySource(Protocol):
    """The values of one array.

    Attributes
    ----------
    shape : tuple of int
        Shape of the array.

    A source whose ``can_be_refused`` is True may raise an error on reading, depending on the values.
    """

    shape: tuple[int, ...]

    def read(self, region: Region) -> Array:
        """Return the values of ``region`` in the stored data type, or as objects for the codec."""


class IndexedSource:
    """An array that is read by indexing: NumPy, h5py, zarr, or similar.

    Parameters
    ----------
    data : array
        Has ``shape`` and ``__getitem__``.
    dtype : numpy.dtype
        Stored type; blocks are cast to it.
    """

    def __init__(self, data: Any, dtype: np.dtype[Any]) -> None:
        self.data = data
        self.dtype = dtype
        self.shape: tuple[int, ...] = tuple(data.shape)

    def portable(self) -> H5FileSource | None:
        """Return this source as file and path, None if the values exist only in this process."""
        if is_hdf5_dataset(self.data):
            return H5FileSource(str(self.data.file.filename), str(self.data.name), self.shape, self.dtype)
        return None

    @property
    def can_be_refused(self) -> bool:
        """Whether `read` may raise an error, depending on the values."""
        given = getattr(self.data, "dtype", None)
        if given is None or given == self.dtype:
            return given is None
        return given.kind in "mM" or not _holds_all(self.dtype, given)

    def read(self, region: Region) -> Array:
        """Return the block as ``dtype``.

        Raises
        ------
        ValueRefusedError
            ``dtype`` cannot hold the values.
        """
        return cast_block(np.asarray(self.data[region] if region else self.data[()]), self.dtype)


class H5FileSource:
    """A dataset of an HDF5 file by file and path; each worker opens the file itself.

    Parameters
    ----------
    file, path : str
        Position of the dataset.
    shape : tuple of int
        Its shape.
    dtype : numpy.dtype
        Stored type.
    """

    def __init__(self, file: str, path: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._file = file
        self._path = path
        self.shape = shape
        self.dtype = dtype

    def read(self, region: Region) -> Array:
        """Return the block as ``dtype``."""
        import h5py

        with h5py.File(self._file, "r") as file:
            return IndexedSource(file[self._path], self.dtype).read(region)


def cast_block(block: Array, dtype: np.dtype[Any]) -> Array:
    """Return ``block`` as ``dtype``. Floating-point numbers may be rounded, other values must not change.

    Raises
    ------
    ValueRefusedError
        Integers would change, or numbers would lose a fraction or an imaginary part.
    """
    if block.dtype == dtype:
        return block
    if block.dtype.names is not None:
        return _fields(block, dtype)
    if block.dtype.kind in "mM":
        return _dates(block, dtype)
    if _holds_all(dtype, block.dtype):
        return block.astype(dtype)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an imaginary part is checked below
        try:
            made = block.astype(dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ValueRefusedError(
                f"the values are not {dtype} ({error})", remedy="Convert them first, or give the dataset their type."
            ) from error
    if block.dtype.kind in _NUMBERS and dtype.kind in _NUMBERS and not np.array_equal(made, block):
        raise ValueRefusedError(
            f"the values are {block.dtype} and do not fit {dtype} without loss",
            remedy="Convert them first, or give the dataset their type.",
        )
    return made


def _holds_all(dtype: np.dtype[Any], given: np.dtype[Any]) -> bool:
    """Tell whether ``dtype`` can hold all values of another type, allowing floating-point numbers to be rounded."""
    return np.can_cast(given, dtype, "safe" if dtype.kind in "iub" else "same_kind")


def _dates(block: Array, dtype: np.dtype[Any]) -> Array:
    """Return dates or durations in another unit or byte order; never as plain numbers, which have no unit."""
    made = block.astype(dtype) if block.dtype.kind == dtype.kind else None
    if made is not None and keeps_dates(made, block):
        return made
    raise ValueRefusedError(
        f"the values are {block.dtype} and do not fit {dtype} without loss",
        remedy="Convert them first, or give the dataset their type.",
    )


def _fields(block: Array, dtype: np.dtype[Any]) -> Array:
    """Copy field by field: NumPy casts structured arrays by name only if padding and metadata agree."""
    packed = np.empty(block.shape, dtype)
    for name in dtype.names or ():
        packed[name] = block[name]
    return packed


class ElementSource:
    """Objects made one by one from the elements of a sequence.

    Parameters
    ----------
    data : sequence or array
        The elements along the first axis, or an array of any rank.
    shape : tuple of int
        Shape of the stored array.
    convert : callable
        Converts an element to the stored object.
    """

    can_be_refused = True

    def __init__(self, data: Any, shape: tuple[int, ...], convert: Callable[[Any], Any]) -> None:
        self.data = data
        self.shape = shape
        self._convert = convert

    def read(self, region: Region) -> Array:
        """Return the block as an object array."""
        elements = self._elements(region)
        shape = tuple(part.stop - part.start for part in region)
        if self._convert is to_text and _is_plain_text(elements):
            return np.fromiter(elements, object, len(elements)).reshape(shape)
        block = np.empty(len(elements), object)
        position = 0
        try:
            for position, element in enumerate(elements):
                block[position] = self._convert(element)
        except ValueRefusedError as error:
            inside = np.unravel_index(position, shape) if shape else ()
            raise _at(error, [part.start + int(n) for part, n in zip(region, inside, strict=True)]) from error.__cause__
        return block.reshape(shape)

    def _elements(self, region: Region) -> Sequence[Any]:
        if not region or getattr(self.data, "shape", None) == ():
            return [self.data[()] if hasattr(self.data, "shape") else self.data]
        if hasattr(self.data, "shape") and len(region) > 1:
            return np.asarray(self.data[region], dtype=object).reshape(-1).tolist()
        if len(region) == 1:
            first = region[0]
            if hasattr(self.data, "__getitem__"):
                return list(self.data[first.start : first.stop])
            return list(self.data)[first]
        rows = np.empty(self.shape, object)
        flat = rows.reshape(-1)
        for position, element in enumerate(_leaves(self.data, self.shape)):
            flat[position] = element
        return list(rows[region].reshape(-1))


class EncodedSource(ElementSource):
    """An array of objects that are encoded already.

    Parameters
    ----------
    data : numpy.ndarray
        All of them.
    """

    can_be_refused = False

    def __init__(self, data: Array) -> None:
        super().__init__(data, data.shape, lambda value: value)

    def read(self, region: Region) -> Array:
        """Return the block."""
        block: Array = self.data[region]
        return block


def _is_plain_text(elements: Sequence[Any]) -> bool:
    """Tell whether `to_text` would return all elements unchanged."""
    if set(map(type, elements)) != {str}:
        return False
    text = "".join(elements)
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:  # surrogates; `to_text` reports the position
        return False
    return True


def _leaves(data: Any, shape: tuple[int, ...]) -> Iterator[Any]:
    if not shape:
        yield data
        return
    if isinstance(data, (str, bytes)) or not hasattr(data, "__len__") or len(data) != shape[0]:
        raise ValueRefusedError("rows differ in length", remedy="Give as many elements in each row.")
    for item in data:
        yield from _leaves(item, shape[1:])


class RowSource:
    """Rows of a compound as an ``(n, k)`` array of objects.

    Parameters
    ----------
    data : sequence
        Rows whose fields are accessed by position.
    converters : sequence of callable
        One for each field: converts a value to JSON.
    """

    can_be_refused = True

    def __init__(self, data: Any, length: int, converters: Sequence[Callable[[Any], Any]]) -> None:
        self.data = data
        self.shape: tuple[int, ...] = (length, len(converters))
        self._converters = converters

    def read(self, region: Region) -> Array:
        """Return the rows of the block; always with all fields."""
        rows = self.data[region[0]] if hasattr(self.data, "__getitem__") else list(self.data)[region[0]]
        block = np.empty((region[0].stop - region[0].start, len(self._converters)), object)
        for position, row in enumerate(rows):
            for column, convert in enumerate(self._converters):
                try:
                    block[position, column] = convert(row[column])
                except ValueRefusedError as error:
                    raise _at(error, [region[0].start + position, column]) from error.__cause__
        return block[:, region[1]]


def _at(error: ValueRefusedError, index: list[int]) -> ValueRefusedError:
    """Return ``error`` with the index of the element added to its message."""
    if index:
        error.problem = f"element {index if len(index) > 1 else index[0]}: {error.problem}"
    error.located()
    return error


def to_text(value: Any) -> str:
    """Return a text element as ``str``: text, UTF-8 bytes, dates as ISO 8601.

    Raises
    ------
    ValueRefusedError
        The value is something else, such as None, which would silently become the text "None"; or it has surrogates.
    """
    if isinstance(value, str):
        if not value.isascii():
            _check_utf8(value)
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueRefusedError(
                f"{value!r} is not UTF-8, where text is expected", remedy="Decode it, or give only bytes."
            ) from error
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return to_text(value[()])
    raise ValueRefusedError(
        f"{value!r} of type {type(value).__name__} is not text, where text is expected",
        remedy="Replace it by text; an empty string for a missing value.",
    )


def _check_utf8(value: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueRefusedError(
            f"{value!r} holds surrogates, which are not characters",
            remedy="Encode it with 'surrogateescape' to give bytes.",
        ) from error


def to_bytes(value: Any) -> bytes:
    """Return an element as ``bytes``; text becomes UTF-8."""
    if isinstance(value, bytes):
        return bytes(value)
    return to_text(value).encode("utf-8")


def to_json_number(value: Any) -> Any:
    """Return a number as a JSON value."""
    return value.item() if isinstance(value, (np.generic, np.ndarray)) else value
