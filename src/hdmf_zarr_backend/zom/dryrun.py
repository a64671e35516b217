"""What a write or a conversion would put on disk, before it is done: the model, and how many objects and bytes.

The plan of a write is made as it is for writing, and not carried out: no store is touched. One chunk of each array is
read and encoded to estimate what the array will take.

Source: issue "Open to every other tool", part 1.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from hdmf.backends.io import HDMFIO
from hdmf.common import get_manager

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.builders.dimensions import name_axes
from hdmf_zarr_backend.builders.writing import WriteRequest, plan_new
from hdmf_zarr_backend.conversion.from_hdf5 import Hdf5Planner
from hdmf_zarr_backend.conversion.readability import check_version, namespaces_of, schema_of
from hdmf_zarr_backend.errors import StoreNotFoundError, UnsupportedFileError, UsageError, ZarrBackendError
from hdmf_zarr_backend.execution.tasks import MEMORY_BUDGET, encode_chunk
from hdmf_zarr_backend.formats import registry
from hdmf_zarr_backend.formats.codec_options import codec_of_file
from hdmf_zarr_backend.formats.elements import codec_labels, describe_any, type_label
from hdmf_zarr_backend.formats.inlined import is_inlined, is_read_at_open
from hdmf_zarr_backend.formats.nczarr import overlay
from hdmf_zarr_backend.hdf5.content import is_hdf5
from hdmf_zarr_backend.hdf5.rawcopy import forget_decoded
from hdmf_zarr_backend.hdf5.reader import Hdf5Tree
from hdmf_zarr_backend.io import ZarrIO
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, absolute, join
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.limits import Limits
from hdmf_zarr_backend.stores.locations import local_path
from hdmf_zarr_backend.transfer.plan import (
    PlannedArray,
    ShardsOfFile,
    StorageOptions,
    WritePlan,
    adapt_plan,
    checked_shards,
)
from hdmf_zarr_backend.transfer.stored_sources import source_caches
from hdmf_zarr_backend.transfer.writer import PlannedKeys, settle
from hdmf_zarr_backend.zom.documents import from_hierarchy
from hdmf_zarr_backend.zom.models import GROUPS, GroupModel

_INDEX_BYTES = 16
"""What a chunk takes in the index of its shard."""


@dataclass(frozen=True, slots=True)
class PlannedStorage:
    """What one array would take. None means unknown until the values exist.

    Attributes
    ----------
    path : str
        Absolute path of the array.
    dtype : str
        Data type of the values, as HDMF names it.
    shape : tuple of int or None
        Lengths; None for an axis that an iterator fills without stating a length.
    chunks : tuple of int
        Shape of a chunk.
    codecs : tuple of str
        In the order in which they are applied.
    objects : int or None
        Number of objects (files) of chunks or shards.
    nbytes : int or None
        Bytes of the values; None also for text and references.
    stored_bytes : int or None
        Estimate of what all chunks take: what one of them takes, by their number. Exact for an array of one chunk.
        None also without ``estimate``.
    """

    path: str
    dtype: str
    shape: tuple[int | None, ...]
    chunks: tuple[int, ...]
    codecs: tuple[str, ...]
    objects: int | None
    nbytes: int | None
    stored_bytes: int | None


@dataclass(frozen=True, slots=True)
class DryRun:
    """What would be written.

    Attributes
    ----------
    model : GroupV2 or GroupV3
        Equal to the model of the file, once written. Axes of unknown length are 0 long in it.
    arrays : dict
        ``{path: PlannedStorage}``, paths absolute.
    documents : int
        Number of objects that are metadata documents.
    document_bytes : int
        Their bytes. Values inside the consolidated document are counted only with ``estimate``.
    hierarchy : Hierarchy
        The same as ``model``, as the nodes that `ZarrIO` reads and writes.
    """

    model: GroupModel
    arrays: dict[str, PlannedStorage]
    documents: int
    document_bytes: int
    hierarchy: Hierarchy = field(repr=False, compare=False)

    @property
    def unknown(self) -> list[str]:
        """Paths of the arrays whose shape is unknown."""
        return [path for path, array in self.arrays.items() if None in array.shape]

    @property
    def objects(self) -> int | None:
        """Number of all objects, None where it is unknown."""
        return _total([array.objects for array in self.arrays.values()], self.documents)

    @property
    def nbytes(self) -> int:
        """Bytes of the values of all arrays where they are known; text and references are not counted."""
        return sum(array.nbytes or 0 for array in self.arrays.values())

    @property
    def stored_bytes(self) -> int | None:
        """Estimate of the bytes of all objects, None where it is unknown."""
        return _total([array.stored_bytes for array in self.arrays.values()], self.document_bytes)


def _total(parts: list[int | None], more: int) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) + more if len(known) == len(parts) else None


def dry_run(
    source: Any,
    target: str | os.PathLike[str] = "dry_run.zarr",
    *,
    manager: Any = None,
    zarr_format: Literal[2, 3] | None = None,
    estimate: bool = True,
    **options: Any,
) -> DryRun:
    """Return what a write, an export or a conversion would put on disk; nothing is written.

    Parameters
    ----------
    source : Container, HDMFIO, str or Path
        A container, as for `ZarrIO.write`; an open io of any backend, as for `ZarrIO.export`; an HDF5 file, as for
        `convert`.
    target : str or Path
        Where it would be written: links to other files are relative to it. Nothing is looked up there.
    manager : BuildManager, optional
        As of `ZarrIO`; None: that of pynwb for an ``NWBFile``, else that of hdmf.common.
    zarr_format : {2, 3}, optional
        As of `ZarrIO`.
    estimate : bool
        Encode one chunk of each array.
    **options
        As of `ZarrIO.write`, `ZarrIO.export`, or of `convert`: ``codec``, ``shards``, ``nczarr``,
        ``limits``.

    Returns
    -------
    DryRun
        The model, and what each array takes.

    Raises
    ------
    WriteError
        What is wrong with the values, as the write would say.
    StoreNotFoundError, UnsupportedFileError
        Nothing is at the path, or something that is not an HDF5 file.
    DamagedFileError
        Something in the HDF5 file cannot be read; the node is named.
    LimitError
        The HDF5 file states more that was never stored than ``limits`` allow.
    UsageError
        The source is none of these, or an option has a value that it cannot have.

    Notes
    -----
    No block is read from a data chunk iterator. If its largest shape is bounded on all axes, that is its shape; else
    the lengths of open axes are unknown.
    """
    place = os.path.abspath(target)
    if isinstance(source, (str, os.PathLike)):
        return _of_hdf5(local_path(source), place, zarr_format or 2, _ConvertOptions(**options), estimate=estimate)
    if isinstance(source, HDMFIO):
        io = _PlanningIO(place, "w", _manager_for(None, manager), zarr_format=zarr_format)
        with io:
            io.export(source, **options)
        return _describe(io, estimate=estimate)
    if not hasattr(source, "container_source"):
        raise UsageError(
            f"a {type(source).__name__} cannot be written",
            remedy="Give a container, an open io, or the path of an HDF5 file.",
        )
    with _unplaced(source), _PlanningIO(place, "w", _manager_for(source, manager), zarr_format=zarr_format) as io:
        io.write(source, **options)
        return _describe(io, estimate=estimate)


def _manager_for(container: Any, manager: Any) -> Any:
    """Return the manager to build with; pynwb is loaded where there is one of its containers, else not needed."""
    pynwb = sys.modules.get("pynwb")
    if manager is not None:
        return manager
    if pynwb is not None and (container is None or isinstance(container, pynwb.NWBFile)):
        return pynwb.get_manager()
    return get_manager()


class _PlanningIO(ZarrIO):
    """Makes the plan of a write, and leaves it at that."""

    request: WriteRequest
    plan: WritePlan

    def open(self) -> None:
        """Look at nothing: what is at the place stays as it is."""
        self._is_open = True

    def _carry_out(self, request: WriteRequest) -> None:
        self.request = request
        self.plan = plan_new(request)

    def _mark_written(self, builder: Any) -> None:
        """Nothing was."""


@contextmanager
def _unplaced(container: Any) -> Iterator[None]:
    """Restore ``container_source`` of containers that belong to no file; hdmf sets it to the planned file."""
    homeless, stack = [], [container]
    while stack:
        child = stack.pop()
        stack.extend(getattr(child, "children", ()))
        if child.container_source is None:
            homeless.append(child)
    try:
        yield
    finally:
        for child in homeless:
            child._AbstractContainer__container_source = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _ConvertOptions:
    """Options of `convert` that change what is written."""

    codec: Any = "keep"
    shards: ShardsOfFile = None
    nczarr: bool = False
    consolidate: bool = True
    limits: Limits | None = None


def _of_hdf5(source: str, target: str, zarr_format: int, options: _ConvertOptions, *, estimate: bool) -> DryRun:
    if not os.path.lexists(source):
        raise StoreNotFoundError("nothing is there", store=source, remedy="Check the path.")
    if not is_hdf5(source):
        raise UnsupportedFileError(
            "this is not an HDF5 file",
            store=source,
            remedy="If it is a Zarr file, `zarrio inspect` lists its contents.",
        )
    codec = codec_of_file(options.codec)
    with closing(Hdf5Tree(source, target)) as tree:
        compressor = None if codec == "keep" else codec
        planner = Hdf5Planner(
            tree,
            options=lambda path: StorageOptions(compressor=compressor),
            keep_codecs=codec == "keep",
            shards=checked_shards(options.shards, zarr_format),
            limits=options.limits or Limits(),
        )
        plan = planner.plan_file()
        texts = namespaces_of(PlannedKeys(plan, target), plan.hierarchy, or_installed=_is_nwb(source))
        name_axes(plan, schema_of(texts))
        plan.hierarchy.zarr_format = zarr_format
        try:
            return _of_plan(
                plan,
                target,
                consolidate=options.consolidate,
                strict=False,
                estimate=estimate,
                for_netcdf=options.nczarr,
            )
        finally:
            forget_decoded()


def _is_nwb(source: str) -> bool:
    """Return whether a file in HDF5 is an NWB file of a version that pynwb reads."""
    try:
        return check_version(source)
    except UnsupportedFileError:
        return False


def _describe(io: _PlanningIO, *, estimate: bool) -> DryRun:
    request = io.request
    return _of_plan(
        io.plan,
        request.options.location,
        consolidate=request.consolidate,
        strict=request.options.strict_json,
        estimate=estimate,
        for_netcdf=request.nczarr,
    )


def _of_plan(
    plan: WritePlan, location: str, *, consolidate: bool, strict: bool, estimate: bool, for_netcdf: bool = False
) -> DryRun:
    adapt_plan(plan, location=location)
    arrays: dict[str, PlannedStorage] = {}
    inlined: dict[str, bytes] = {}
    with source_caches(MEMORY_BUDGET):
        for path, planned in plan.arrays.items():
            lengths = _lengths(planned)
            try:
                stored = _stored(path, planned, inlined) if estimate and None not in lengths else None
            except ZarrBackendError as error:
                raise error.located(store=location, path=absolute(path)) from error.__cause__
            arrays[absolute(path)] = _storage(absolute(path), planned, lengths, stored)
    if for_netcdf:
        overlay(plan.hierarchy)
    model = from_hierarchy(plan.hierarchy)
    assert isinstance(model, GROUPS)
    kind = registry.FORMATS[plan.hierarchy.zarr_format]
    documents = [document for path, node in plan.hierarchy.walk() for _, document in kind.documents(path, node)]
    documents += kind.last(plan.hierarchy, inlined, consolidate=consolidate).values()
    size = sum(len(dump(document, strict=strict)) for document in documents)
    return DryRun(model, arrays, len(documents), size, plan.hierarchy)


def _lengths(planned: PlannedArray) -> tuple[int | None, ...]:
    """Return the shape that an array will have; the largest shape of an iterator is set in its node."""
    node = planned.node
    if planned.iterator is None:
        return node.shape
    most: tuple[int | None, ...] = tuple(planned.iterator.maxshape)
    node.shape = tuple(0 if n is None else n for n in most)
    if None not in most:
        settle(planned)
    return most


def _storage(path: str, planned: PlannedArray, lengths: tuple[int | None, ...], stored: int | None) -> PlannedStorage:
    node = planned.node
    known = None not in lengths
    itemsize = describe_any(node).itemsize
    return PlannedStorage(
        path=path,
        dtype=type_label(node),
        shape=lengths,
        chunks=node.chunks,
        codecs=tuple(codec_labels(node)),
        objects=_objects(node) if known else None,
        nbytes=node.size * itemsize if known and itemsize is not None else None,
        stored_bytes=stored,
    )


def _objects(node: ArrayNode[Attributes]) -> int:
    unit = node.chunks if node.shards is None else node.shards.shape
    return math.prod(-(-n // c) for n, c in zip(node.shape, unit, strict=True))


def _stored(path: str, planned: PlannedArray, inlined: dict[str, bytes]) -> int | None:
    """Return what all chunks of an array take if they are like one in the middle; 0 where there is no element.

    A chunk that the consolidated document holds too is added to ``inlined``.
    """
    node = planned.node
    if not node.size:
        return 0
    if planned.source is None:
        return None  # an iterator: its values can be had only once
    index = tuple((n - 1) // 2 for n in node.grid)
    codec = chunk_codec(node)
    data, nbytes = encode_chunk(node, codec, planned.source, index)
    if is_read_at_open(node) and is_inlined(node, data):
        inlined[join(path, node.chunk_name(index))] = data
    share = node.size * codec.dtype.itemsize / nbytes if nbytes else math.prod(node.grid)
    index_bytes = 0 if node.shards is None else _INDEX_BYTES * math.prod(node.grid)
    return round(len(data) * share) + index_bytes
