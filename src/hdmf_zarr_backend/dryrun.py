"""What a write or a conversion would put on disk, before it is done: how many objects and bytes.

The plan is made as for writing, and not carried out. One chunk of each array is encoded for the estimate.
"""

from __future__ import annotations

import math
import os
import sys
from dataclasses import dataclass, field, replace
from typing import Any

from hdmf.backends.io import HDMFIO
from hdmf.common import get_manager

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.conversion import Request
from hdmf_zarr_backend.encoding import registry
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec
from hdmf_zarr_backend.encoding.codecs import codec_of_file
from hdmf_zarr_backend.encoding.elements import codec_labels, describe_any, is_inlined, is_read_at_open, type_label
from hdmf_zarr_backend.encoding.nczarr import overlay
from hdmf_zarr_backend.encoding.registry import BOTH, ZarrFormat
from hdmf_zarr_backend.encoding.zarr3 import check_key_encoding
from hdmf_zarr_backend.errors import at, printable, unknown_argument
from hdmf_zarr_backend.hdmf.files import plan_new
from hdmf_zarr_backend.hdmf.from_zarr import plan_format_3, root_text
from hdmf_zarr_backend.hdmf.internals import forget_source
from hdmf_zarr_backend.hdmf.planner import WriteRequest
from hdmf_zarr_backend.hdmf.targets import containers_below
from hdmf_zarr_backend.io import ZarrIO
from hdmf_zarr_backend.model.json_text import dump
from hdmf_zarr_backend.model.links import is_url, location_of
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute, grid_of, join, relative
from hdmf_zarr_backend.model.render import PLAIN, Form, View, render, size_text
from hdmf_zarr_backend.options import MEMORY_BUDGET, ReadOptions, WriteOptions
from hdmf_zarr_backend.outline import Outline, format_label, outline_html
from hdmf_zarr_backend.store.opening import is_hdf5
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan, adapt_plan
from hdmf_zarr_backend.write.sources import source_caches
from hdmf_zarr_backend.write.tasks import encode_chunk
from hdmf_zarr_backend.write.writer import PlannedKeys, settle

_NO_TARGET = "dry_run.zarr"

_INDEX_BYTES = 16  # offset and length of a chunk in the index of its shard


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
    shards : tuple of int or None
        Shape of a shard; None for an array without shards.
    codecs : tuple of str
        In the order in which they are applied.
    objects : int or None
        Number of objects (files) of chunks or shards. An array of a file of both formats may have two sets of them.
    nbytes : int or None
        Bytes of the values; None also for text and references.
    stored_bytes : int or None
        Estimated bytes of all chunks: those of one chunk, times their number. Exact for an array of one chunk.
        None also without ``estimate``.
    """

    path: str
    dtype: str
    shape: tuple[int | None, ...]
    chunks: tuple[int, ...]
    shards: tuple[int, ...] | None
    codecs: tuple[str, ...]
    objects: int | None
    nbytes: int | None
    stored_bytes: int | None


@dataclass(frozen=True, slots=True, repr=False)
class DryRun(View):
    """What would be written.

    Attributes
    ----------
    arrays : dict
        ``{path: PlannedStorage}``, paths absolute.
    documents : int
        Number of objects that are metadata documents.
    document_bytes : int
        Bytes of the documents. Values inside the consolidated document are counted only with ``estimate``.
    zarr_format : {2, 3, "both"}
        Zarr format of the file.
    hierarchy : Hierarchy
        The nodes of the file, as they will be written; `zom.to_zom` makes a model of them. Axes of unknown length have
        length 0. For a file of both formats, the nodes of format 2.
    """

    arrays: dict[str, PlannedStorage]
    documents: int
    document_bytes: int
    zarr_format: ZarrFormat
    hierarchy: Hierarchy = field(repr=False, compare=False)

    @property
    def unknown(self) -> list[str]:
        """Paths of the arrays whose shape is unknown."""
        return [path for path, array in self.arrays.items() if None in array.shape]

    @property
    def objects(self) -> int | None:
        """Number of all objects, None where it is unknown."""
        return _total([array.objects for array in self.arrays.values()] + [self.documents])

    @property
    def nbytes(self) -> int:
        """Bytes of the values of all arrays where they are known; text and references are not counted."""
        return sum(array.nbytes or 0 for array in self.arrays.values())

    @property
    def stored_bytes(self) -> int | None:
        """Estimate of the bytes of all objects, None where it is unknown."""
        return _total([array.stored_bytes for array in self.arrays.values()] + [self.document_bytes])

    def outline(self, *, specs: bool = False) -> Outline:
        """Return the tree of the file, with the estimates; ``specs``: with the cached specifications."""
        # arrays whose size cannot be estimated count as 0 in the tree, and make the total unknown
        sizes = {relative(path): array.stored_bytes or 0 for path, array in self.arrays.items()}
        is_estimated = any(array.stored_bytes is not None for array in self.arrays.values())
        return Outline("", self.hierarchy, consolidated=True, stored=sizes if is_estimated else None, specs=specs)

    def heading(self, name: str | None = None) -> list[str]:
        """Return what the command prints before the tree: format, number of objects, size; ``name`` as in `lines`."""
        stored = "unknown" if self.stored_bytes is None else f"about {size_text(self.stored_bytes)}"
        objects = "unknown" if self.objects is None else f"{self.objects:,}"
        first = f"{f'{name} as ' if name else ''}{format_label(self.zarr_format)}, nothing is written"
        return [printable(first), f"objects: {objects}, {self.documents:,} of them metadata; on disk: {stored}"]

    def lines(self, form: Form = PLAIN, name: str | None = None) -> list[str]:
        """Return what the command prints in a ``form``, of a file ``name``: numbers, and the tree."""
        outline = self.outline()
        return [*self.heading(name), "", *render(outline.tree(), outline.columns)]

    def _repr_html_(self) -> str:
        return outline_html(self.outline(), "; ".join(self.heading()))


def _total(parts: list[int | None]) -> int | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def dry_run(
    source: Any,
    target: str | os.PathLike[str] | None = None,
    *,
    manager: Any = None,
    zarr_format: ZarrFormat | None = None,
    estimate: bool = True,
    write_options: WriteOptions | None = None,
    **options: Any,
) -> DryRun:
    """Return what a write, an export or a conversion would put on disk; nothing is written.

    Parameters
    ----------
    source : Container, HDMFIO, str or Path
        A container, as for `ZarrIO.write`; an open io of any backend, as for `ZarrIO.export`; an HDF5 file, here
        or at a URL, as for `convert`.
    target : str or Path, optional
        The path it would be written to: links to other files are relative to it. Nothing is read there. None: in the
        working directory, and errors name no target.
    manager : BuildManager, optional
        Maps containers to builders. None: that of pynwb for an ``NWBFile``, else that of hdmf.common.
    zarr_format : {2, 3, "both"}, optional
        Zarr format of the file. None: the one that `ZarrIO` or `convert` would choose.
    estimate : bool
        Encode one chunk of each array, to estimate the stored bytes.
    write_options : WriteOptions, optional
        How the file would be written.
    **options
        Arguments of `ZarrIO.write` or `ZarrIO.export`; of `convert`: ``check``, ``codec``, ``chunks``, ``shards``,
        ``settings``, ``read_options``, ``storage_options``.

    Returns
    -------
    DryRun
        The nodes, and what each array takes.

    Raises
    ------
    WriteError
        What is wrong with the values, as the write would say.
    StoreNotFoundError, UnsupportedFileError
        Nothing is at the path, or something that is not an HDF5 file, or an NWB file that pynwb cannot read.
    DamagedFileError
        Something in the HDF5 file cannot be read; the node is named.
    LimitError
        The HDF5 file states more that was never stored than ``limits`` allow.
    UsageError
        The source is none of these, or an option has a value that it cannot have, or no effect.

    Notes
    -----
    No block is read from a data chunk iterator. Its maximum shape counts as its shape; the length of an axis without a
    maximum is unknown.

    Examples
    --------
    >>> from hdmf_zarr_backend import dry_run
    >>> planned = dry_run("session.nwb", zarr_format=3)
    >>> planned.arrays["/acquisition/raw/data"].chunks
    (500, 2)
    """
    location, homeless = os.path.abspath(_NO_TARGET if target is None else target), list[Any]()
    try:
        if isinstance(source, (str, os.PathLike)):
            names = frozenset({"check", "codec", "chunks", "shards", "settings", "read_options", "storage_options"})
            if not names.issuperset(options):
                raise unknown_argument("dry_run", options, names)
            writing = write_options or WriteOptions()
            reading = options.pop("read_options", None) or ReadOptions()
            options["codec"] = codec_of_file(options.get("codec", "keep"))
            options["storage"] = dict(options.pop("storage_options", None) or {})
            copy = Request(source=location_of(source), target=location, reading=reading, options=writing, **options)
            return _of_hdf5(copy, zarr_format, estimate=estimate)
        is_export = isinstance(source, HDMFIO)
        if not is_export and not hasattr(source, "container_source"):
            problem = f"a {type(source).__name__} cannot be written"
            raise errors.UsageError(problem, remedy="Give a container, an open io, or the path of an HDF5 file.")
        # not imported: it is loaded where there is one of its containers, and not needed elsewhere
        pynwb: Any = sys.modules.get("pynwb")
        if manager is None:
            is_nwb = pynwb is not None and (is_export or isinstance(source, pynwb.NWBFile))
            manager = pynwb.get_manager() if is_nwb else get_manager()
        given: dict[str, Any] = {"zarr_format": zarr_format, "write_options": write_options}
        homeless += [] if is_export else [each for each in containers_below(source) if each.container_source is None]
        # hdmf sets that to the planned file, and takes a container that has one for one that was written there
        with _PlanningIO(location, "w", manager, **given) as io:
            (io.export if is_export else io.write)(source, **options)
            return _of_plan(io.plan, io.request.targets.location, io.request, estimate=estimate)
    except errors.ZarrBackendError as error:
        if target is None and error.store == location:  # not a path that the caller has not named
            error.store = None
        raise
    finally:
        for container in homeless:
            forget_source(container)


class _PlanningIO(ZarrIO):
    """Plans a write, and does not carry it out."""

    request: WriteRequest
    plan: WritePlan

    def open(self) -> None:
        """Read nothing: what is at the location stays unchanged. Options that `ZarrIO` refuses are refused."""
        check_key_encoding(self._options.chunk_key_encoding, self._number)
        self._is_open = True

    def _carry_out(self, request: WriteRequest) -> None:
        self.request = request
        self.plan = plan_new(request, self._raw_store)
        request.unfilled.clear()  # there are no arrays to fill


def _of_hdf5(request: Request, zarr_format: ZarrFormat | None, *, estimate: bool) -> DryRun:
    source = request.location
    request.refuse_idle("hdf5", "zarr")
    request.choose_format("hdf5", "zarr", zarr_format)
    if not is_url(source) and not os.path.lexists(source):
        raise errors.StoreNotFoundError("the file does not exist", store=source, remedy="Check the path.")
    if not is_url(source) and not is_hdf5(source):
        problem = "this is not an HDF5 file"
        remedy = "If it is a Zarr file, `zarrio inspect` lists its contents."
        raise errors.UnsupportedFileError(problem, store=source, remedy=remedy)
    with request.planned_hdf5() as (_, planner):
        request.apply(planner.plan)
        return _of_plan(planner.plan, request.target_location, request, estimate=estimate)


def _of_plan(plan: WritePlan, location: str, request: Request | WriteRequest, *, estimate: bool) -> DryRun:
    adapt_plan(plan, location=location)
    hierarchy, strict, consolidate = plan.hierarchy, request.options.strict_json, request.options.consolidate_metadata
    inlined: dict[str, bytes] = {}
    texts: list[bytes] = []
    with source_caches(MEMORY_BUDGET):
        arrays = _arrays(plan, location, inlined, estimate=estimate)
        if request.has_both:
            plan_3 = plan_format_3(PlannedKeys(plan, location), hierarchy)
            # arrays that format 3 cannot read in their form of format 2 have their chunks in both forms
            for path, more in _arrays(plan_3, location, {}, estimate=estimate).items():
                first = arrays[path]
                stored = _total([first.stored_bytes, more.stored_bytes])
                arrays[path] = replace(first, stored_bytes=stored, objects=_total([first.objects, more.objects]))
            texts += registry.texts_of(3, plan_3.hierarchy.walk(), strict=strict).values()
            texts.append(root_text(plan_3.hierarchy, b"", strict=strict))
    if plan.is_nczarr:
        overlay(hierarchy)
    last = registry.FORMATS[hierarchy.zarr_format].last(hierarchy, inlined, consolidate=consolidate)
    texts += registry.texts_of(hierarchy.zarr_format, hierarchy.walk(), strict=strict).values()
    texts += (dump(each, strict=strict) for each in last.values())
    zarr_format: Any = BOTH if request.has_both else hierarchy.zarr_format
    return DryRun(arrays, len(texts), sum(map(len, texts)), zarr_format, hierarchy)


def _arrays(plan: WritePlan, location: str, inlined: dict[str, bytes], *, estimate: bool) -> dict[str, PlannedStorage]:
    """Return what the arrays of a plan take, by absolute path; `_stored` fills ``inlined``."""
    arrays: dict[str, PlannedStorage] = {}
    for path, planned in plan.arrays.items():
        node, stored = planned.node, planned.node.stored
        lengths: tuple[int | None, ...] = stored.shape
        if planned.iterator is not None:  # no block is read from an iterator, so its maximum shape is that of the array
            lengths = tuple(planned.iterator.maxshape)
            stored.shape = tuple(0 if n is None else n for n in lengths)
            if None not in lengths:
                settle(planned)
        is_known = None not in lengths
        with at(location, path):
            stored_bytes = _stored(path, planned, inlined) if estimate and is_known else None
        shards = None if stored.shards is None else stored.shards.shape
        itemsize = describe_any(node).itemsize
        objects = math.prod(grid_of(stored.shape, shards or stored.chunks)) if is_known else None
        nbytes = stored.size * itemsize if is_known and itemsize is not None else None
        name, label, codecs = absolute(path), type_label(node), tuple(codec_labels(stored))
        arrays[name] = PlannedStorage(
            name, label, lengths, stored.chunks, shards, codecs, objects, nbytes, stored_bytes
        )
    return arrays


def _stored(path: str, planned: PlannedArray, inlined: dict[str, bytes]) -> int | None:
    """Return the estimated bytes of all chunks; one that the consolidated document repeats is added to ``inlined``."""
    node = planned.node
    if not node.stored.size:
        return 0
    if planned.source is None:
        return None  # an iterator gives its values only once, and the write needs them
    # one in the middle stands for all: those at the edge may be mostly padding, which compresses well
    index = tuple((n - 1) // 2 for n in node.stored.grid)
    codec = chunk_codec(node.stored)
    data, nbytes = encode_chunk(node.stored, codec, planned.source, index)
    if is_read_at_open(node) and is_inlined(node, data):
        inlined[join(path, node.stored.chunk_name(index))] = data
    share = node.stored.size * codec.dtype.itemsize / nbytes if nbytes else math.prod(node.stored.grid)
    index_bytes = 0 if node.stored.shards is None else _INDEX_BYTES * math.prod(node.stored.grid)
    return round(len(data) * share) + index_bytes
