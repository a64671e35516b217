"""Selections of region references <-> JSON; and `RegionReference`.

Separate from `references`, because it needs NumPy, and the command line starts faster without.

Source: hdmf-zarr storage specification, "Region references".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import MetadataError, UsageError

_POINTS = 'Give {"points": [[...], ...]}.'


def encode_region(selection: Any) -> Any:
    """Return the JSON of a selection."""
    if isinstance(selection, dict):
        if set(selection) != {"points"}:
            raise UsageError(f"{selection!r} is not a region", remedy=_POINTS)
        return {"points": _encode_points(selection["points"])}
    if not isinstance(selection, (tuple, list)):
        selection = (selection,)
    return [_encode_axis(part) for part in selection]


def _encode_points(stated: Any) -> list[list[int]]:
    try:
        points = np.asarray(stated)
        if points.ndim in (1, 2) and (points.dtype.kind in "iu" or not points.size):
            rows: list[list[int]] = _rows(points.astype(np.int64)).tolist()
            return rows
    except ValueError:
        pass  # rows that differ in length
    raise UsageError(f"{stated!r} are not points", remedy=_POINTS)


def _rows(points: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return points as an array of shape ``(n, axes)``; the points of one axis may be given as numbers."""
    return points.reshape(len(points), -1 if points.size else 0)


def _encode_axis(part: Any) -> dict[str, Any]:
    if isinstance(part, dict) and set(part) in ({"slice"}, {"index"}):
        return part
    if isinstance(part, slice):
        return {"slice": [_number(part.start), _number(part.stop), _number(part.step)]}
    if isinstance(part, (int, np.integer)):
        return {"index": [int(part)]}
    try:
        indices = np.asarray(part)
        if indices.dtype == bool:
            indices = np.flatnonzero(indices)
        if indices.ndim == 1 and indices.dtype.kind in "iu":
            return {"index": indices.tolist()}
    except (ValueError, TypeError):
        pass
    problem = f"{part!r} is not a selection on an axis"
    raise UsageError(problem, remedy="Give a slice, an integer or a list of integers.")


def _number(value: Any) -> int | None:
    return None if value is None else int(value)


def decode_region(region: Any) -> Any:
    """Return the selection for the JSON of a region."""
    try:
        if isinstance(region, dict):
            return _rows(np.array(region["points"], dtype=np.intp))
        return tuple(slice(*part["slice"]) if "slice" in part else np.array(part["index"], np.intp) for part in region)
    except (KeyError, TypeError, ValueError) as error:
        raise MetadataError(f"{region!r} is not a region") from error


class RegionReference:
    """A reference to a part of a dataset. Indexing it reads only that part.

    Parameters
    ----------
    builder : DatasetBuilder
        The dataset.
    region : list or dict
        The region as JSON.
    """

    def __init__(self, builder: Any, region: Any) -> None:
        self.builder = builder
        self.region = region

    @property
    def selection(self) -> Any:
        """The selection, as a tuple with one entry for each axis or as an array of points of shape ``(n, axes)``."""
        return decode_region(self.region)

    def read(self) -> Any:
        """Return the selected values, in the data type of the dataset; raises the errors of `arrays.lazy.LazyArray`."""
        data = self.builder.data
        selection = self.selection
        if not isinstance(selection, np.ndarray):
            return data[selection]
        array = np.empty(len(selection), dtype=getattr(data, "dtype", object))
        for position, point in enumerate(selection):
            array[position] = data[tuple(int(n) for n in point)]
        return array

    def __getitem__(self, key: Any) -> Any:
        values = self.read()
        return values if isinstance(key, tuple) and not key else values[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:  # noqa: FBT001 - NumPy's protocol
        return np.asarray(self.read(), dtype=dtype)

    def __repr__(self) -> str:
        return f"<RegionReference {self.builder.name!r} {self.region}>"
