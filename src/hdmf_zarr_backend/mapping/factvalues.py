"""Stored values -> the values of facts: one form in which those of two formats are equal where they mean the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hdmf_zarr_backend.mapping.facts import ElementType, Reference, Values

__all__ = ["even_steps", "plain_values", "text_of"]


def text_of(item: Any) -> str:
    """Return an element of text; bytes that are not UTF-8 become surrogate escapes, what was never written is empty."""
    if isinstance(item, bytes):
        return item.decode("utf-8", "surrogateescape")
    return str(item) if isinstance(item, str) else ""


def plain_values(values: Values, dtype: ElementType, resolve: Callable[[Any], Reference]) -> Values:
    """Return values as h5py or Zarr give them in the form that `mapping.facts` describes.

    Parameters
    ----------
    values : numpy.ndarray
        Any shape; text as ``bytes`` or ``str``, references as the format has them.
    dtype : ElementType
        What they are.
    resolve : callable
        Returns the `Reference` that a stored reference means.
    """
    if dtype.kind == "text":
        return _objects(values, text_of)
    if dtype.kind in {"reference", "region"}:
        return _objects(values, resolve)
    if dtype.kind == "opaque":
        return _objects(values, np.void.tobytes)
    if dtype.base is not None and dtype.kind == "array":
        return plain_values(values, dtype.base, resolve)
    if dtype.base is not None:
        base = dtype.base
        return _objects(values, lambda item: _sequence(item, base, resolve))
    if dtype.kind == "compound":
        columns = {name: plain_values(values[name], member, resolve) for name, member in dtype.fields}
        rows = np.empty(values.shape, [(name, c.dtype, c.shape[values.ndim :]) for name, c in columns.items()])
        for name, column in columns.items():
            rows[name] = column
        return rows
    return values


def _sequence(item: Any, base: ElementType, resolve: Callable[[Any], Reference]) -> Values:
    if not isinstance(item, np.ndarray):
        return np.empty(0)  # never written
    if item.dtype.isnative and base.byte_order != "|":
        # h5py reads the bytes as they are in the file, and calls them native
        item = item.view(item.dtype.newbyteorder(base.byte_order))
    return plain_values(item, base, resolve)


def _objects(values: Values, convert: Callable[[Any], object]) -> Values:
    made = np.empty(values.size, dtype=object)
    for index, item in enumerate(values.flat):
        made[index] = convert(item)
    return made.reshape(values.shape)


def even_steps(indices: list[int]) -> tuple[str, tuple[Any, ...]] | None:
    """Return the one spelling of a selection on one axis whose rising `indices` have equal distances, else None."""
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    stop = indices[-1] + 1
    return ("slice", (indices[0], stop, step)) if indices == list(range(indices[0], stop, step)) else None
