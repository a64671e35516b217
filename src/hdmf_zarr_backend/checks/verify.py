"""`verify`: checks a file for damage, level by level."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, get_args

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.shards import shard_named
from hdmf_zarr_backend.checks.chunks import ChunkCheck
from hdmf_zarr_backend.checks.dandi import check_dandi
from hdmf_zarr_backend.checks.findings import SHOWN, Report
from hdmf_zarr_backend.checks.links import check_targets
from hdmf_zarr_backend.checks.structure import check_structure
from hdmf_zarr_backend.errors import UsageError, ZarrBackendError, known_arguments
from hdmf_zarr_backend.files.parser import parse, resolver_of
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, join
from hdmf_zarr_backend.model.render import counted
from hdmf_zarr_backend.model.stored import DEFAULT_PREFIX, StoredArray
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.opening import open_store
from hdmf_zarr_backend.write.tasks import encode_chunk, region_of, runner, whole_chunk

if TYPE_CHECKING:
    from hdmf_zarr_backend.write.plan import PlannedArray

Level = Literal["structure", "links", "chunks", "schema"]
LEVELS: tuple[str, ...] = get_args(Level)
"""The levels of a check; each includes all before it."""


@known_arguments
def verify(
    source: str | os.PathLike[str] | Any,
    level: Level = "chunks",
    *,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
    executor: Any = None,
    dandi: bool = False,
    progress: Progress = SILENT,
) -> Report:
    """Look for damage in a Zarr file. Nothing is changed.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    level : {"structure", "links", "chunks", "schema"}
        ``structure``: documents parse, have only keys that the format defines, and agree with the consolidated
        document, as do the chunks in it. ``links``: the targets of links and references exist, and are the objects that
        were meant. ``chunks``: each chunk is stored, decodes, and has its full size, and the two copies of what a file
        of both formats stores twice are equal. ``schema``: the file is valid by its cached namespaces. Each level
        includes all before it.
    storage_options : dict, optional
        For URLs.
    read_options : ReadOptions, optional
        Limits for the file, and other files that it may lead to.
    executor : None, "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
        Decodes chunks; None: this thread.
    dandi : bool
        Also check the requirements of the DANDI archive for a Zarr file (depth and names of its keys, number and size
        of its objects), and compute its checksum there, which reads all data.
    progress : Progress
        Receives the number of bytes of the values that were decoded.

    Returns
    -------
    Report
        ``problems`` are damage, ``remarks`` may be intended.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        No Zarr file exists there.
    UsageError
        The level is unknown.

    Source: Zarr v2 and v3 specifications; docs/format, "Links", "References", "Consolidated metadata".
    """
    if level not in LEVELS:
        raise UsageError(f"there is no level {level!r}", remedy=f"Use one of {', '.join(LEVELS)}.")
    store = open_store(source, storage_options, read_options)
    report = Report(store.location, level)
    structure = check_structure(store, report)
    if dandi:
        report.dandi = check_dandi(store, report)
    last = LEVELS.index(level)
    if structure is None or last == 0:
        return report
    check_targets(resolver_of(store, structure.hierarchy), report)
    if last > 1:
        with runner(executor) as workers:
            lost, others = structure.lost_chunks, structure.has_other_chunks
            ChunkCheck(store, structure.hierarchy, report, lost, has_other_chunks=others).run(workers, progress)
            if structure.state == "alike":
                own = _only_of_format_3(store)
                ChunkCheck(store, own, report, has_other_chunks=True).run(workers, progress)
                if store.abilities.listing:
                    _compare_copies(store, structure.hierarchy, own, report)
        if report.unchecked:
            verb, them = ("has", "it") if report.unchecked == 1 else ("have", "them")
            what = f"{report.unchecked:,} of {counted(report.chunks, 'chunk')} {verb} no checksum"
            report.add("/", "unchecked", f"{what}, so changed bytes in {them} cannot be noticed")
    if last > 2:
        from hdmf_zarr_backend.checks.validate import add_problems_by_schema  # on use: hdmf is slow to import

        add_problems_by_schema(store, structure.hierarchy, report)
    return report


# ---- what a file of both formats stores twice -----------------------------------------------------------------------


def _only_of_format_3(store: Store) -> Hierarchy:
    """Return the arrays of a file of both formats that have separate chunks in format 3."""
    found = parse(store, hint=3).hierarchy
    only = Hierarchy(Group(found.root.attributes), zarr_format=3)
    for path, node in found.walk():
        if path and isinstance(node, Group):
            only.add(path, Group())
        elif isinstance(node, Dataset) and node.stored.chunk_keys.encoding == "default":
            only.add(path, node)
    return only


def _compare_copies(store: Store, hierarchy: Hierarchy, own: Hierarchy, report: Report) -> None:
    """Report arrays of ``own`` that have other values in format 3 than in format 2: references and rows.

    A program that knows one format only may have replaced values; the documents, and the digests of them in the note of
    `encoding.both`, have no trace of that. Chunks that cannot be read are left to the check of each format.
    """
    for path, node in own.walk():
        if isinstance(node, Dataset):
            with suppress(ZarrBackendError, OSError):
                found = list(_differing(store, path, node.stored, _planned(store, hierarchy, path)))
                if found:
                    what = f"the values in Zarr format 3 are not those in format 2: {', '.join(found[:SHOWN])}"
                    report.add(path, "formats-differ", what, is_repairable=True)


def _planned(store: Store, hierarchy: Hierarchy, path: str) -> PlannedArray | None:
    """Return an array as it would be derived from format 2, None where that takes no chunks of its own."""
    from hdmf_zarr_backend.builders.from_zarr import plan_format_3  # on use: hdmf is slow to import

    node = hierarchy.get(path)
    if not isinstance(node, Dataset):
        return None
    part = Hierarchy(Group(hierarchy.root.attributes))
    for end in (index for index, letter in enumerate(path) if letter == "/"):
        part.add(path[:end], Group())
    part.add(path, node)
    return plan_format_3(store, part).arrays.get(path)


def _differing(store: Store, path: str, stored: StoredArray, planned: PlannedArray | None) -> Iterator[str]:
    """Yield the names of the stored chunks whose values are not those that are planned."""
    if planned is None or planned.source is None or planned.node.stored.shape != stored.shape:
        return
    codec = chunk_codec(stored)
    for key in store.list_prefix(join(path, DEFAULT_PREFIX)):
        name = key[len(path) + 1 :]
        index = shard_named(stored, name)
        data = None if index is None else store.get(key)
        if index is None or data is None:
            continue
        expected = encode_chunk(stored, codec, planned.source, index)[0]
        if data == expected:
            continue
        inside = tuple(slice(0, part.stop - part.start) for part in region_of(stored, index))
        values = codec.decode(data, stored.chunks)[inside]
        # equal bytes: another release has compressed the stored ones
        if codec.encode(whole_chunk(values, stored, codec.dtype)) != expected:
            yield name
