"""References of HDF5 <-> references of a Zarr file, and the selections of region references <-> JSON.

A reference to an object is its address in the file. A dataset of references is read as numbers, and each distinct
target is looked up once. Only a target that is not placed in the new file is opened.

A region that is a product of axes has one entry for each axis, ``{"slice": [start, stop, step]}`` or ``{"index":
[...]}``; any other is ``{"points": [[...], ...]}``, in the order of the file.

Source: HDF5 reference manual, "Dataspaces".
"""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import h5py
import numpy as np
from h5py import h5i, h5o, h5r, h5s, h5t

from hdmf_zarr_backend.encoding.references import ZarrReference, encode_reference
from hdmf_zarr_backend.encoding.types import text_of
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.hdf5.reader import Bounds, Hdf5Data, Hdf5Tree, SourceFile, read_block
from hdmf_zarr_backend.hdf5.safe_reading import H5_ERRORS, warn_broken
from hdmf_zarr_backend.hdf5.types import Array
from hdmf_zarr_backend.model.link_sources import relative_source
from hdmf_zarr_backend.model.nodes import absolute


class Hdf5References:
    """The references of a file, and of the files that it links to."""

    def __init__(self, tree: Hdf5Tree) -> None:
        self._tree = tree

    def refer(self, reference: Any, file: SourceFile) -> ZarrReference | None:
        """Return the target of an h5py reference in ``file``, None for a null reference.

        A reference without a target is null too, with a warning. A reference to an object that is not placed names the
        HDF5 file.
        """
        if not reference:
            return None
        try:
            target = h5r.dereference(reference, file.file.id)
            info = h5o.get_info(target)
            region = None
            if isinstance(reference, h5py.RegionReference):
                region = encode_region(h5r.get_region(reference, file.file.id))
        except H5_ERRORS as error:
            warn_broken(f"A reference in {file.location} has no target ({error}).")
            return None
        placed = self._tree.places.get((info.fileno, info.addr))
        if placed is not None:
            found = self._tree.reference_to(placed)
        else:
            name = h5i.get_name(target)
            warn_broken(f"A reference points to {name!r} in {file.location}, which is not part of the new file.")
            source = relative_source(file.location, self._tree.target)
            found = ZarrReference(source, absolute(text_of(name or b"/")))
        return found if region is None else replace(found, region=region)

    def encode(self, value: Any, file: SourceFile) -> dict[str, Any] | None:
        """Return the JSON of an element that is an h5py reference; JSON is returned as it is."""
        if value is None or isinstance(value, dict):
            return value
        found = self.refer(value, file)
        return None if found is None else encode_reference(found)

    def encode_addresses(self, addresses: Array, file: SourceFile) -> Array | None:
        """Return the JSON of references given as addresses, None if one of them has no placed target."""
        number = h5o.get_info(file.file.id).fileno
        distinct, inverse = np.unique(addresses, return_inverse=True)
        table: Array = np.empty(len(distinct), object)
        for position, address in enumerate(distinct.tolist()):
            if address:
                placed = self._tree.places.get((number, address))
                if placed is None:
                    return None
                table[position] = encode_reference(self._tree.reference_to(placed))
        made: Array = table[inverse.reshape(-1)].reshape(addresses.shape)
        return made


class ReferenceData(Hdf5Data):
    """The values of a dataset of references, or of rows with references, which are converted to JSON."""

    def __init__(self, file: SourceFile, raw: bytes, references: Hdf5References) -> None:
        super().__init__(file, raw)
        self._references = references

    def _read(self, bounds: Bounds) -> Array:
        tid = self._file.open(self._raw).get_type()
        if tid.get_class() == h5t.REFERENCE:
            found = self._encoded(bounds, tid)
            return super()._read(bounds) if found is None else found
        rows = super()._read(bounds)
        for index in range(tid.get_nmembers()):
            member = tid.get_member_type(index)
            if member.equal(h5t.STD_REF_OBJ):
                memory = h5t.create(h5t.COMPOUND, member.get_size())
                memory.insert(tid.get_member_name(index), 0, member)
                found = self._encoded(bounds, memory)
                if found is not None:
                    rows[text_of(tid.get_member_name(index))] = found
        return rows

    def _encoded(self, bounds: Bounds, memory: Any) -> Array | None:
        addresses = read_block(self._file.open(self._raw), bounds, np.dtype("<u8"), memory)
        return self._references.encode_addresses(addresses, self._file)


# ---- regions --------------------------------------------------------------------------------------------------------


def encode_region(space: Any) -> Any:
    """Return the JSON of the selection of an ``h5py.h5s.SpaceID``."""
    form = space.get_select_type()
    if form == h5s.SEL_ALL:
        return [{"slice": [0, int(n), 1]} for n in space.shape]
    if form == h5s.SEL_NONE:
        return [{"index": []} for _ in space.shape]
    if form == h5s.SEL_POINTS:
        return {"points": np.asarray(space.get_select_elem_pointlist()).tolist()}
    if space.is_regular_hyperslab():
        return [_regular_axis(*map(int, axis)) for axis in zip(*space.get_regular_hyperslab(), strict=True)]
    blocks = np.asarray(space.get_select_hyper_blocklist(), dtype=np.int64)  # first and last corner of each
    axes = [sorted({i for low, high in blocks[:, :, axis].tolist() for i in range(low, high + 1)})
            for axis in range(blocks.shape[2])]  # fmt: skip
    covered = int(np.prod(blocks[:, 1] - blocks[:, 0] + 1, axis=1).sum())  # HDF5's blocks do not overlap
    if math.prod(map(len, axes)) == covered:
        return [_axis(axis) for axis in axes]
    points = {tuple(low + step) for low, high in blocks for step in np.ndindex(*(high - low + 1))}
    return {"points": sorted([int(n) for n in point] for point in points)}


def _regular_axis(start: int, stride: int, count: int, block: int) -> dict[str, list[int]]:
    if count == 1 or stride == block:
        return {"slice": [start, start + count * block, 1]}
    if block == 1:
        return {"slice": [start, start + (count - 1) * stride + 1, stride]}
    return {"index": [start + i * stride + j for i in range(count) for j in range(block)]}


def _axis(indices: list[int]) -> dict[str, list[int]]:
    step = indices[1] - indices[0] if len(indices) > 1 else 1
    even = range(indices[0], indices[-1] + 1, step)
    return {"slice": [even.start, even.stop, step]} if indices == list(even) else {"index": indices}


def decode_region(region: Any, space: Any) -> None:
    """Select in ``space``, the dataspace of the target, the elements that the JSON of a region lists."""
    try:
        if isinstance(region, dict):
            points = np.asarray(region["points"], dtype=np.uint64)
            space.select_elements(points.reshape(len(points), len(space.shape)))
        else:
            _select_axes(region, space)
        if not space.select_valid():
            raise IndexError("it lies outside")
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RuntimeError) as error:
        raise MetadataError(f"the region {region!r} does not fit its target ({error})") from error


def _select_axes(region: Any, space: Any) -> None:
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
    """Return start, count, stride and block of the hyperslabs of one axis."""
    if "slice" in entry:
        start, stop, step = slice(*entry["slice"]).indices(length)
        steps = range(start, stop, step)
        if not steps or step < 1:
            return []
        return [(start, 1, 1, stop - start) if step == 1 else (start, len(steps), step, 1)]
    indices = sorted({int(i) for i in entry["index"]})
    if indices and not 0 <= indices[0] <= indices[-1] < length:
        raise IndexError("an index is out of range")
    groups = itertools.groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0])
    runs = ([index for _, index in group] for _, group in groups)
    return [(run[0], 1, 1, len(run)) for run in runs]
