"""`infer` and `cast`: the one place where values get a type, and the one where their type changes.

`infer` takes the type from all elements of nested lists or of an array of objects, never from the first one, and
returns them as an array of it. `cast` converts to a type that is given: that of a dataset, or of a schema. Both refuse
what would change a value, and name its index; `cast` may round to the precision of a floating-point type.

Source: NumPy, "Array creation", for the types of Python's numbers: ``int`` is int64, ``float`` is float64.
"""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.encoding.references import RegionReference
from hdmf_zarr_backend.errors import ValueRefusedError

Array = npt.NDArray[Any]
Shape = tuple[int, ...]

_SHOWN_LETTERS = 60
_MIXED = "Give each kind its own dataset; a missing number is NaN, and missing text is an empty string."
UNEVEN = "Give as many elements in each row."
_LARGE = "Give smaller integers, or store these as text."
_CONVERT = "Convert the values, or write them to a dataset of another type."
_ROWS = (
    "Give rows as tuples with one value for each field, or as a structured array, and convert values that do not fit."
)
# The order matters: the first class that a value is an instance of counts.
_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool, np.bool_), "a boolean"),
    ((np.timedelta64,), "a duration"),  # NumPy derives it from its integers
    ((int, float, complex, np.number), "a number"),
    ((str, bytes), "text"),
    ((np.datetime64,), "a date of NumPy"),
    ((datetime.datetime,), "a time of Python"),  # Python derives it from its dates
    ((datetime.date,), "a date of Python"),
    ((np.void,), "a row"),
)
_OF_PYTHON = {int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128)}
_OF_PLAIN_LIST = {int: np.int64, float: np.float64, bool: np.bool_, str: np.object_, bytes: np.object_}
_EXACT_BITS = {2: 11, 4: 24, 8: 53}  # bits of the integers that a float of so many bytes can always hold
_MOST_BITS = 1023  # bits of the integers that are surely below the largest float
_ROW_TYPES = (list, tuple, np.ndarray, np.void)


@dataclass(frozen=True)
class Location:
    """Where values belong in a dataset, for messages."""

    start: Shape = ()  # index of the first value
    shape: Shape | None = None  # the shape that the first axis of the values stands for, if rows were flattened
    field: str = ""

    def inside(self, name: str) -> Location:
        """Return the location of a field."""
        return replace(self, field=f"{self.field}.{name}" if self.field else name)

    def refused(self, index: Shape, problem: str, remedy: str = _CONVERT) -> ValueRefusedError:
        """Return an error that names the element at ``index`` of the values."""
        if self.shape is not None and index:
            index = (*_unravel(index[0], self.shape), *index[1:])
        start = (*self.start, *(0,) * (len(index) - len(self.start)))
        where = [n + first for n, first in zip(index, start, strict=False)]
        element = f"element {where if len(where) > 1 else where[0]}: " if where else ""
        return ValueRefusedError(element + problem, remedy=_ROWS if self.field and remedy is _CONVERT else remedy)

    def unfit(self, index: Shape, value: Any, given: Any, dtype: np.dtype[Any]) -> ValueRefusedError:
        """Return an error for ``value`` of type ``given``, which ``dtype`` cannot hold."""
        field = f" of the field {self.field!r}" if self.field else ""
        return self.refused(index, f"the data do not fit {dtype}{field} without loss: {_shown(value)} of type {given}")

    def check(self, bad: Any, values: Array, dtype: np.dtype[Any]) -> None:
        """Raise an error for the first of the ``values`` that is marked in ``bad``."""
        bad = np.asarray(bad)
        if bad.any():
            index = _unravel(int(np.argmax(bad)), bad.shape)
            raise self.unfit(index, values[index], values.dtype, dtype)


_ANYWHERE = Location()


def _unravel(position: int, shape: Sequence[int]) -> Shape:
    return tuple(map(int, np.unravel_index(position, tuple(shape)))) if shape else ()


def _shown(value: Any) -> str:
    if isinstance(value, np.generic) and value.dtype.kind not in "mMV":
        value = value.item()
    if isinstance(value, int) and value.bit_length() > _SHOWN_LETTERS * 3:
        return f"an integer of {value.bit_length()} bits"
    text = str(value) if isinstance(value, (np.generic, np.ndarray)) else repr(value)
    return text if len(text) < _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 3]}..."


def unmasked(data: Any, location: Location = _ANYWHERE, outer: Shape = ()) -> Any:
    """Return a masked array as the array that it masks; other data are returned as they are."""
    if not isinstance(data, (np.ma.MaskedArray, np.ma.mvoid)):
        return data
    mask = np.ma.getmaskarray(data)
    if np.ma.is_masked(data) if mask.dtype.names is None else mask.tobytes().strip(b"\0"):
        index = _unravel(int(np.argmax(mask)), mask.shape) if mask.dtype.names is None else ()
        remedy = "Give data.filled(value), such as data.filled(numpy.nan) for floating-point numbers."
        raise location.refused((*outer, *index), "the array is masked here, and a dataset has no mask", remedy)
    return np.ma.getdata(data)


def infer(data: Any, location: Location = _ANYWHERE) -> Array:
    """Return nested lists, or an array of objects, as an array of the smallest type that holds all elements."""
    if isinstance(data, (np.ndarray, np.generic)) and data.dtype.kind != "O":
        return np.asarray(unmasked(data, location))
    types = set(map(type, data)) if type(data) in (list, tuple) else set()
    dtype = _OF_PLAIN_LIST.get(types.pop()) if len(types) == 1 else None
    if dtype is not None:  # elements of one type of Python take a third of the time this way
        try:  # not `suppress`, which takes as long as the rest of a short list
            return np.fromiter(data, dtype, len(data))
        except OverflowError:  # an integer beyond int64
            pass
    shape, leaves = flatten(data, location)
    if not leaves:
        return np.zeros(shape)
    if isinstance(leaves[0], np.ndarray):
        return np.stack(leaves).astype(leaves[0].dtype, copy=False).reshape(shape)
    kind = _common_kind(leaves, shape, location)
    if kind == "a number":
        array = _infer_numbers(leaves, shape, location)
    elif kind == "a row":
        array = _infer_rows(leaves, location if location.shape is not None else replace(location, shape=shape))
    elif kind in ("a date of NumPy", "a duration"):
        common = np.result_type(*{leaf.dtype for leaf in leaves})
        array = np.array([cast(leaf, common, location) for leaf in leaves], common)
    else:
        array = np.fromiter(leaves, bool if kind == "a boolean" else object, len(leaves))
    return array.reshape(shape)


def flatten(data: Any, location: Location = _ANYWHERE) -> tuple[Shape, list[Any]]:
    """Return the shape of nested sequences, and their elements in order; arrays of one type and shape stay whole."""
    shape: list[int] = []
    level = [data]
    while level:
        if any(map(_is_array, set(map(type, level)))):
            for n, item in enumerate(level):
                if _is_array(item.__class__):  # an array loses its mask, and one without axes is its element
                    array = np.asarray(unmasked(item, location, _unravel(n, shape)))
                    level[n] = array if array.ndim else array[()]
        types = set(map(type, level))
        nested = {t for t in types if hasattr(t, "__len__") and hasattr(t, "__iter__") and not _is_value(t)}
        if not nested:
            break
        if nested == types == {np.ndarray} and len({item.shape for item in level}) == 1:
            shape.extend(level[0].shape)
            if len({item.dtype for item in level}) == 1 and not level[0].dtype.hasobject:
                break
            level = list(itertools.chain.from_iterable(item.flat for item in level))
            continue
        lengths = [len(item) if type(item) in nested else None for item in level]
        if len(set(lengths)) > 1:
            n = next(n for n, length in enumerate(lengths) if length != lengths[0])
            problem = f"the data are not an array: rows differ in length, {_shown(level[n])} and {_shown(level[0])}"
            raise location.refused(_unravel(n, shape), problem, UNEVEN)
        shape.append(len(level[0]))
        level = list(itertools.chain.from_iterable(level))
    return tuple(shape), level


@lru_cache(maxsize=256)
def _is_array(kind: type) -> bool:
    return hasattr(kind, "__array__") and not _is_value(kind)


def _is_value(kind: type) -> bool:
    """Tell whether a type is of one element, such as what refers to data, though it has a length or is an array."""
    return issubclass(kind, (str, bytes, dict, np.generic, RegionReference)) or hasattr(kind, "container_source")


@lru_cache(maxsize=256)
def _kind(kind: type) -> str | None:
    return next((name for types, name in _KINDS if issubclass(kind, types)), None)


def _common_kind(leaves: list[Any], shape: Shape, location: Location) -> str:
    """Return what all elements are, such as numbers; refuse the first one that is something else."""
    first = _kind(leaves[0].__class__)
    if first is not None and set(map(_kind, set(map(type, leaves)))) == {first}:
        return first
    n = next(n for n, leaf in enumerate(leaves) if first is None or _kind(leaf.__class__) != first)
    value, kind = leaves[n], _kind(leaves[n].__class__)
    if value is None:
        problem = "None cannot be stored"
    elif kind is None:
        problem = f"{_shown(value)} of type {type(value).__name__} cannot be stored"
    else:
        problem = f"{_shown(value)} is {kind}, and {_shown(leaves[0])}, the first element, is {first}"
    raise location.refused(_unravel(n, shape), problem, _MIXED)


@lru_cache(maxsize=256)
def _dtype_of_number(kind: type) -> np.dtype[Any]:
    if issubclass(kind, np.generic):
        return np.dtype(kind)
    return next(dtype for base, dtype in _OF_PYTHON.items() if issubclass(kind, base))


def _infer_numbers(leaves: list[Any], shape: Shape, location: Location) -> Array:
    """Return numbers in the type that NumPy promotes them to, if it holds their integers unchanged."""
    types = set(map(type, leaves))
    dtypes = set(map(_dtype_of_number, types))
    dtype = np.result_type(*dtypes)
    if all(given.kind in "iu" for given in dtypes):
        # NumPy has no integers for int64 with uint64, and Python's have any size.
        if dtype.kind in "iu" and not any(issubclass(kind, int) for kind in types):
            return np.array(leaves, dtype)
        numbers = leaves if types == {int} else list(map(int, leaves))
        low, high = min(numbers), max(numbers)
        for wanted in (dtype, np.dtype(np.int64), np.dtype(np.uint64)):
            if wanted.kind in "iu" and np.iinfo(wanted).min <= low and high <= np.iinfo(wanted).max:
                return np.array(leaves, wanted)
        n = next(n for n, number in enumerate(numbers) if not -(2**63) <= number < 2**63)
        beside = " and the elements beside it" if 0 <= numbers[n] < 2**64 else ""
        raise location.refused(_unravel(n, shape), f"no integer type can hold {_shown(numbers[n])}{beside}", _LARGE)
    integers = [n for n, leaf in enumerate(leaves) if isinstance(leaf, (int, np.integer))]
    # An integer of Python may be beyond all floats; then NumPy raises an OverflowError without its position.
    bad = next((n for n in integers if int(leaves[n]).bit_length() > _MOST_BITS), None)
    array = np.array(leaves if bad is None else (), dtype)
    if bad is None:
        bad = next((n for n in integers if int(array.real[n]) != int(leaves[n])), None)
    if bad is not None:
        problem = f"the integer {_shown(leaves[bad])} is not exact in {dtype}, the type of the elements beside it"
        raise location.refused(_unravel(bad, shape), problem, _LARGE)
    return array


def _infer_rows(rows: list[Any], location: Location) -> Array:
    """Return elements of structured arrays as an array of the fields of the first, in types that hold all values."""
    dtypes = {row.dtype for row in rows}
    names = rows[0].dtype.names
    if len(dtypes) == 1:
        return np.array(rows, rows[0].dtype)
    for n, row in enumerate(rows):
        if row.dtype.names is None or names is None or set(row.dtype.names) != set(names):
            raise location.refused((n,), f"the fields {row.dtype.names} are not those of the first row, {names}", _ROWS)
    columns = {name: infer([row[name] for row in rows], location.inside(name)) for name in names}
    array = np.empty(len(rows), [(name, column.dtype, column.shape[1:]) for name, column in columns.items()])
    for name, column in columns.items():
        array[name] = column
    return array


def cast(values: Any, dtype: np.dtype[Any], location: Location = _ANYWHERE, *, same_kind: bool = False) -> Array:
    """Return values as an array of ``dtype``."""
    if dtype.names is not None:
        return cast_rows(values, dtype, count_axes(values), location)
    array = infer(values, location)
    if array.dtype == dtype or dtype.hasobject:
        return array.astype(dtype, copy=False)
    if not array.size:
        return np.zeros(array.shape, dtype)
    given, wanted = array.dtype.kind, dtype.kind
    if wanted in "SU":
        return _fixed_text(array, dtype, location)
    is_other = same_kind and given != wanted and (given == "b" or not {given, wanted}.isdisjoint("mM"))
    is_time = given in "iumM" or isinstance(array.flat[0], datetime.date)  # a datetime is a date too
    if wanted in "mM" and is_time and not (is_other and given != "O"):
        return _dates(array, dtype, location)
    if given in "biufc" and wanted in "biufc" and not is_other:
        with np.errstate(all="ignore"):  # what overflows is found below
            return _numbers(array, dtype, location)
    first = array.reshape(-1)[0]
    raise location.unfit((0,) * array.ndim, first, type(first).__name__ if given == "O" else array.dtype, dtype)


def _numbers(array: Array, dtype: np.dtype[Any], location: Location) -> Array:
    given, wanted = array.dtype.kind, dtype.kind
    if given == "c" and wanted != "c":
        location.check(array.imag != 0, array, dtype)  # also NaN
        array, given = array.real, "f"
    result = array.astype(dtype)
    if given == "b" or (given == wanted and np.can_cast(array.dtype, dtype)):
        return result
    if wanted == "b":
        bad = (array != 0) & (array != 1)
    elif given in "iu" and wanted in "iu":
        bad = (result.astype(array.dtype) != array) | ((result < 0) != (array < 0))
    elif given in "iu" and 8 * array.dtype.itemsize <= _EXACT_BITS.get(result.real.dtype.itemsize, 63):
        return result
    elif given in "iu":
        floats = result.real
        wide = floats.astype(np.float64) if floats.dtype.itemsize < 8 else floats
        beyond = ~np.isfinite(wide) | (wide >= float(np.iinfo(array.dtype).max + 1))  # cannot be converted back
        bad = beyond | (np.where(beyond, 0, wide).astype(array.dtype) != array)
    elif wanted in "iu":
        # The limits of large integers overflow in float16.
        wide = array if array.dtype.itemsize >= 8 else array.astype(np.float64)
        limits = np.iinfo(dtype)
        bad = ~((wide == np.trunc(wide)) & (wide >= float(limits.min)) & (wide < float(limits.max + 1)))
    else:
        # floats that become infinite
        parts = [(result.real, array.real), *([(result.imag, array.imag)] if given == "c" else [])]
        bad = np.any([(np.isinf(a) != np.isinf(b)) | (np.isnan(a) != np.isnan(b)) for a, b in parts], axis=0)
    location.check(bad, array, dtype)
    return result


def _dates(array: Array, dtype: np.dtype[Any], location: Location) -> Array:
    """Return dates or durations in another unit or byte order; integers count in the unit of ``dtype``."""
    if array.dtype.kind == "O":
        aware = [getattr(item, "tzinfo", None) is not None for item in array.reshape(-1)]
        location.check(np.reshape(aware, array.shape), array, dtype)
        array = np.array(array.tolist(), "M8[us]")
    if array.dtype.kind in "iu":
        return cast(array, np.dtype(np.int64), location).astype(dtype)
    if array.dtype.kind != dtype.kind:
        location.check(np.ones(array.shape, bool), array, dtype)
    result = array.astype(dtype)
    location.check(result.astype(array.dtype).view("i8") != array.view("i8"), array, dtype)
    return result


def _fixed_text(array: Array, dtype: np.dtype[Any], location: Location) -> Array:
    """Return text in elements of a fixed length, which must not be cut, nor end in NUL."""
    items = array.reshape(-1).tolist()
    result = np.empty(len(items), dtype)
    for n, item in enumerate(items):
        try:
            value = item if isinstance(item, (bytes, str)) else None
            if isinstance(value, str) and dtype.kind == "S":
                value = value.encode("ascii")
            elif isinstance(value, bytes) and dtype.kind == "U":
                value = value.decode("utf-8")
        except UnicodeError:
            value = None
        if value is not None:
            result[n] = value
        if value is None or result[n] != value:
            raise location.unfit(_unravel(n, array.shape), item, type(item).__name__, dtype)
    return result.reshape(array.shape)


def count_axes(data: Any) -> int:
    """Return the number of axes of ``data``, whose elements are rows; 0 for one row."""
    if isinstance(data, (np.ndarray, np.void)):
        is_one_row = data.ndim and data.size and not isinstance(data.flat[0], _ROW_TYPES)
        is_rows = data.dtype.names is not None or (data.dtype == object and not is_one_row)
        return data.ndim if is_rows else max(data.ndim - 1, 0)
    if isinstance(data, list) and (not data or isinstance(data[0], _ROW_TYPES)):
        return 1 + (count_axes(data[0]) if data else 0)
    return 0


def cast_rows(data: Any, dtype: np.dtype[Any], ndim: int, location: Location = _ANYWHERE) -> Array:
    """Return rows as an array of ``dtype``, each value as by `cast`; fields of structured rows match by name."""
    data, names = unmasked(data, location), dtype.names or ()
    columns: dict[str, Any]
    rows: Any
    if isinstance(data, (np.ndarray, np.void)) and data.dtype.names is not None:
        array = np.asarray(data)
        if array.dtype == dtype:
            return array
        if set(data.dtype.names) != set(names):
            raise location.refused((), f"the fields {data.dtype.names} are not those of the dataset, {names}", _ROWS)
        shape, rows = array.shape, array.reshape(-1)
        columns = {name: rows[name] for name in names}  # copied one by one, since NumPy matches fields by position
        location = location if location.shape is not None else replace(location, shape=shape)
    else:
        shape, rows = nested_rows(data, ndim, location)
        location = location if location.shape is not None else replace(location, shape=shape)
        ordered = [row_values(row, names, n, location) for n, row in enumerate(rows)]
        columns = {name: list(map(itemgetter(position), ordered)) for position, name in enumerate(names)}
    count = len(rows)
    result = np.empty(count, dtype)
    for name, values in columns.items():
        field, inside = dtype[name], location.inside(name)
        if field.base.names is not None:
            column = cast_rows(values, field.base, 1 + len(field.shape), inside)
        else:
            column = cast(values, field.base, inside)
        if column.size and column.shape != (count, *field.shape):
            problem = f"the field {inside.field!r} needs a value of shape {field.shape}, not {column.shape[1:]}"
            raise inside.refused((0,), problem, _ROWS)
        result[name] = column.reshape(count, *field.shape)
    return result.reshape(shape)


def nested_rows(data: Any, ndim: int, location: Location = _ANYWHERE) -> tuple[Shape, list[Any]]:
    """Return the shape and the elements of nested sequences of at most ``ndim`` axes, whatever the elements are."""
    shape: list[int] = []
    rows = [data]
    while len(shape) < ndim and all(isinstance(row, (list, tuple, np.ndarray)) for row in rows):
        if len(set(map(len, rows))) > 1:
            raise location.refused((), "rows differ in length", "Give as many elements in each.")
        shape.append(len(rows[0]) if rows else 0)
        rows = list(itertools.chain.from_iterable(rows))
    return tuple(shape), rows


def row_values(row: Any, names: tuple[str, ...], n: int, location: Location = _ANYWHERE) -> Any:
    """Return the values of row ``n`` in the order of ``names``; the fields of a structured row are matched by name."""
    row = unmasked(row, location, (n,))
    if isinstance(row, np.ndarray) and row.ndim == 0:
        row = row[()]
    if isinstance(row, np.void) and row.dtype.names is not None:
        if row.dtype.names == names:
            return row
        if set(row.dtype.names) == set(names):
            return [row[name] for name in names]
        raise location.refused((n,), f"the fields {row.dtype.names} are not those of the dataset, {names}", _ROWS)
    # Rows may be of pandas or of another library, so they are recognised by what they can do.
    is_row = hasattr(row, "__getitem__") and hasattr(row, "__len__") and not isinstance(row, (str, bytes, dict))
    if not is_row or len(row) != len(names):
        problem = f"the data are not rows with a value for each of the fields {names}: {_shown(row)}"
        raise location.refused((n,), problem, _ROWS)
    return row


def cast_text(values: Any, convert: Callable[[Any], Any]) -> Array:
    """Return nested lists, or an array, of text as objects, each converted by `to_text` or `to_bytes`."""
    shape, leaves = flatten(values)
    parts = (leaf.reshape(-1).tolist() if isinstance(leaf, np.ndarray) else [leaf] for leaf in leaves)
    items = list(itertools.chain.from_iterable(parts))
    result = np.empty(len(items), object)
    for n, item in enumerate(items):
        try:
            result[n] = convert(item)
        except ValueRefusedError as error:
            raise _ANYWHERE.refused(_unravel(n, shape), error.problem, error.remedy) from error.__cause__
    return result.reshape(shape)


def to_text(value: Any) -> str:
    """Return a text element as ``str``: text, UTF-8 bytes, dates as ISO 8601."""
    if isinstance(value, str):
        if not value.isascii():
            try:
                value.encode("utf-8")
            except UnicodeEncodeError as error:
                problem = f"{value!r} holds surrogates, which are not characters"
                remedy = "Encode it with 'surrogateescape' to give bytes."
                raise ValueRefusedError(problem, remedy=remedy) from error
        return value if type(value) is str else str.__str__(value)
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            problem = f"{value!r} is not UTF-8 and so is not text, where text is expected"
            raise ValueRefusedError(problem, remedy="Decode it, or give only bytes.") from error
    if isinstance(value, (datetime.datetime, datetime.date)):
        return value.isoformat()
    if isinstance(value, np.ndarray) and value.ndim == 0:
        return to_text(value[()])
    problem = f"{value!r} of type {type(value).__name__} is not text, where text is expected"
    raise ValueRefusedError(problem, remedy="Replace it by text; an empty string for a missing value.")


def to_bytes(value: Any) -> bytes:
    """Return an element as ``bytes``; text becomes UTF-8."""
    if isinstance(value, bytes):
        return bytes(value)
    return to_text(value).encode("utf-8")
