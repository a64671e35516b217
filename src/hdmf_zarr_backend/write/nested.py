"""What nested data look like from outside: their shape and their first element, without reading the rest.

Lists of lists, arrays, datasets of HDF5 and Zarr, and mixtures. What hdmf takes for one value is one here, even where
it has a length or a shape itself: text, builders (which are dicts), containers, regions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hdmf.container import AbstractContainer

from hdmf_zarr_backend.mapping.regions import RegionReference

_VALUES = (str, bytes, dict, AbstractContainer, RegionReference)


def shape_of(data: Any) -> tuple[int, ...]:
    """Return the shape of an array or of nested lists, by their first elements."""
    shape: list[int] = []
    while not isinstance(data, _VALUES):
        known = getattr(data, "shape", None)
        if known is not None:
            return (*shape, *map(int, known))
        if not hasattr(data, "__len__"):
            break
        shape.append(len(data))
        if not shape[-1]:
            break
        data = _first(data)
    return tuple(shape)


def first_leaf(data: Any) -> Any:
    """Return the first leaf of nested lists or of an array, or its like; None where there is none."""
    while not isinstance(data, _VALUES):
        if isinstance(data, np.ndarray) and not data.shape:
            data = data[()]  # zarr 3.1 wraps an object twice
            continue
        shape: Any = getattr(data, "shape", False)  # an array of zarr itself has no length
        if shape == () or (shape is False and not hasattr(data, "__len__")):
            return data if isinstance(data, np.generic) or shape is False else data[()]
        if shape is None or not (shape[0] if shape else len(data)):
            return None
        text = getattr(data, "text_type", None)  # a stored array knows without reading a chunk
        data = _first(data) if text is None else text()
    return data


def _first(data: Any) -> Any:
    return data[0] if hasattr(data, "__getitem__") else next(iter(data))
