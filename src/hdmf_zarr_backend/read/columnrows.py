"""Rows of named fields, however they are given -> a structured array of them, without loss.

hdmf hands over what its users wrote: a pixel mask is a list of tuples, a list of lists or an array with three columns,
and one row of a table a tuple or an element of another structured array.

Source: NumPy, "Structured arrays", "Assignment from Python Native Types (Tuples)".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.arrays.codecs import keeps_dates
from hdmf_zarr_backend.errors import ValueRefusedError

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
    """Return rows as an array of ``dtype`` and of `count_axes` axes.

    Parameters
    ----------
    data : array-like
        A row, or nested lists of rows; a row is a tuple, a list, an array, or an element of a structured array.
    dtype : numpy.dtype
        A structured type without objects.

    Raises
    ------
    ValueRefusedError
        A row has another number of values, or one that a field does not hold without loss.
    """
    try:
        given = data if _is_structured(data) else _as_tuples(data, count_axes(data))
        with np.errstate(invalid="ignore"):
            rows = np.asarray(given, dtype)
            _check(rows, np.asarray(given, _of_objects(dtype, given.dtype if _is_structured(given) else None)), "")
    except (ValueError, TypeError, OverflowError) as error:
        if isinstance(error, ValueRefusedError):
            raise
        raise ValueRefusedError(f"the data are no rows of {dtype} ({error})", remedy=_REMEDY) from error
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
    """Return the same fields for elements of any type, which shows what was given; dates given as such keep theirs."""
    fields = []
    for position, name in enumerate(dtype.names or ()):
        base, shape = dtype[name].base, dtype[name].shape
        own = None if given is None else given[position].base
        held = own if own is not None and own.kind in "mM" else np.dtype(object)
        fields.append((name, _of_objects(base, own) if base.names is not None else held, shape))
    return np.dtype(fields)


def _check(rows: Array, given: Array, path: str) -> None:
    """Refuse integers and text that became others; numbers are rounded to the precision of a field, as anywhere."""
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
