"""The selection of an HDF5 region reference <-> the JSON of a region.

One entry for each axis, ``{"slice": [start, stop, step]}`` or ``{"index": [...]}``, where the selection is made up of
axes; else ``{"points": [[...], ...]}`` for the whole, in the order of the file.

Source: issue "The whole contract", part 3; HDF5 reference manual, "Dataspaces".
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import MetadataError


def encode_region(space: Any) -> Any:
    """Return the JSON of the selection of an ``h5py.h5s.SpaceID``."""
    from h5py import h5s

    form = space.get_select_type()
    if form == h5s.SEL_ALL:
        return [{"slice": [0, int(n), 1]} for n in space.shape]
    if form == h5s.SEL_NONE:
        return [{"index": []} for _ in space.shape]
    if form == h5s.SEL_POINTS:
        return {"points": np.asarray(space.get_select_elem_pointlist()).tolist()}
    if space.is_regular_hyperslab():
        return [_regular_axis(*map(int, axis)) for axis in zip(*space.get_regular_hyperslab(), strict=True)]
    return _encode_blocks(np.asarray(space.get_select_hyper_blocklist(), dtype=np.int64))


def _regular_axis(start: int, stride: int, count: int, block: int) -> dict[str, list[int]]:
    if count == 1 or stride == block:
        return {"slice": [start, start + count * block, 1]}
    if block == 1:
        return {"slice": [start, start + (count - 1) * stride + 1, stride]}
    return {"index": [start + i * stride + j for i in range(count) for j in range(block)]}


def _encode_blocks(blocks: npt.NDArray[np.int64]) -> Any:
    """Return the region of blocks, each given by its first and last corner."""
    axes = [sorted({i for low, high in blocks[:, :, axis].tolist() for i in range(low, high + 1)})
            for axis in range(blocks.shape[2])]  # fmt: skip
    covered = int(np.prod(blocks[:, 1] - blocks[:, 0] + 1, axis=1).sum())  # HDF5's blocks do not overlap
    if math.prod(map(len, axes)) == covered:
        return [_axis(axis) for axis in axes]
    points = {tuple(low + step) for low, high in blocks for step in np.ndindex(*(high - low + 1))}
    return {"points": sorted([int(n) for n in point] for point in points)}


def _axis(indices: list[int]) -> dict[str, list[int]]:
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    even = range(indices[0], indices[-1] + 1, step)
    return {"slice": [even.start, even.stop, step]} if indices == list(even) else {"index": indices}


def decode_region(region: Any, space: Any) -> None:
    """Select in ``space``, the dataspace of the whole target, what the JSON of a region says.

    Raises
    ------
    MetadataError
        The region is none, or does not fit the space.
    """
    try:
        _select(region, space)
        if not space.select_valid():
            raise IndexError("it lies outside")
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RuntimeError) as error:
        raise MetadataError(
            f"the region {region!r} does not fit its target ({error})", remedy="Run `zarrio verify`."
        ) from error


def _select(region: Any, space: Any) -> None:
    from h5py import h5s

    if isinstance(region, dict):
        points = np.asarray(region["points"], dtype=np.uint64)
        space.select_elements(points.reshape(len(points), len(space.shape)))
        return
    if len(region) != len(space.shape):
        raise ValueError(f"{len(region)} entries for {len(space.shape)} axes")
    runs = [_runs(entry, int(n)) for entry, n in zip(region, space.shape, strict=True)]
    if not runs:
        space.select_all()
        return
    space.select_none()
    for part in itertools.product(*runs):
        start, count, stride, block = zip(*part, strict=True)
        space.select_hyperslab(start, count, stride, block, op=h5s.SELECT_OR)


def _runs(entry: Any, length: int) -> list[tuple[int, int, int, int]]:
    """Return start, count, stride and block of the hyperslabs that make up one axis."""
    if "slice" in entry:
        start, stop, step = slice(*entry["slice"]).indices(length)
        steps = range(start, stop, step)
        if not steps or step < 1:
            return []
        return [(start, 1, 1, stop - start) if step == 1 else (start, len(steps), step, 1)]
    indices = sorted({int(i) for i in entry["index"]})
    if indices and not 0 <= indices[0] <= indices[-1] < length:
        raise IndexError("an index lies outside")
    runs: list[tuple[int, int, int, int]] = []
    for _, group in itertools.groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0]):
        members = [index for _, index in group]
        runs.append((members[0], 1, 1, len(members)))
    return runs
