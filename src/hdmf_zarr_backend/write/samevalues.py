"""Telling whether what is to be written says the same as what is there, and showing both where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
from hdmf.build import GroupBuilder
from hdmf.data_utils import DataIO
from hdmf.query import ReferenceResolver

_SHOWN_ELEMENTS = 5
_SHOWN_LETTERS = 100
_SCALARS = (str, bytes, int, float, np.generic)


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal: scalars, text, or arrays of one shape; NaN equals NaN."""
    if one is other:
        return True
    if isinstance(one, GroupBuilder) or isinstance(other, GroupBuilder):
        return False
    if _is_array(one) or _is_array(other):
        return _is_same_array(one, other)
    if isinstance(one, _SCALARS) and isinstance(other, _SCALARS):
        return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 - NaN equals NaN here
    return False


def _is_array(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (hasattr(value, "shape") and not isinstance(value, np.generic))


def _is_same_array(one: Any, other: Any) -> bool:
    if other is None or one is None or isinstance(one, dict) or isinstance(other, dict):
        return False
    a, b = np.asarray(one), np.asarray(other)
    if a.shape != b.shape:
        return False
    equal_nan = a.dtype.kind in "fcmM" and b.dtype.kind in "fcmM"
    return bool(np.array_equal(a, b, equal_nan=equal_nan))


def stored_array(data: Any) -> Any:
    """Return the array that a DataIO wraps, or that resolves to builders or containers."""
    while isinstance(data, DataIO):
        data = data.data
    return data.dataset if isinstance(data, ReferenceResolver) else data


def shown(data: Any) -> str:
    """Return the values of a dataset for a message: a scalar, or the first elements with the shape of the whole."""
    data = stored_array(data)
    text = repr(data)
    if _is_array(data) and np.ndim(data) > 0:
        first = np.asarray(data[:_SHOWN_ELEMENTS]).reshape(-1)[:_SHOWN_ELEMENTS].tolist()
        more = ", ..." if np.size(data) > len(first) else ""
        text = f"[{', '.join(map(repr, first))}{more}] of shape {np.shape(data)}"
    return text if len(text) < _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 3]}..."
