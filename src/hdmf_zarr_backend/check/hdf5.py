"""Checks of an HDF5 file for `verify`: that HDF5 reads each object and value, and where links and references lead."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

from hdmf_zarr_backend.check.contents import kind_of, note_unchecked
from hdmf_zarr_backend.check.findings import Report
from hdmf_zarr_backend.comparison import UNREADABLE, blocks, element_bytes
from hdmf_zarr_backend.errors import LimitError, LinkRefusedError, UnsupportedFileError, ZarrBackendError
from hdmf_zarr_backend.hdf5.reader import Hdf5Content
from hdmf_zarr_backend.model.content import DatasetContent, GroupContent, LinkContent, Values
from hdmf_zarr_backend.model.element import DANGLING, ArrayOf, Compound, Reference, Sequence, Target
from hdmf_zarr_backend.model.nodes import grid_of
from hdmf_zarr_backend.model.render import counted
from hdmf_zarr_backend.progress import Progress, reporting
from hdmf_zarr_backend.store.base import Store

_WITH_CHECKSUM = frozenset({"deflate", "fletcher32", "bzip2"})
_MAY_REFER = (Reference, Compound, ArrayOf, Sequence)
_ADVICE = "Put the target back, or remove the link."
_ERRORS = (*UNREADABLE, LimitError, LinkRefusedError)  # about the file; others, as of a server, say nothing about it


def verify_hdf5(store: Store, level: str, progress: Progress) -> Report:
    """Check a file down to a level; if its objects cannot be listed, that is its one problem."""
    report = Report(store.location, level)
    try:
        content = Hdf5Content(store.location, store.options, store.read_rules)
    except UNREADABLE as error:
        advice = error.remedy if isinstance(error, UnsupportedFileError) else ""
        report.add(error.path or "/", "object-damaged", error.problem, advice=advice)
        return report
    with closing(content):
        datasets = dict(_checked(content, report))
        sizes = {path: math.prod(node.shape or ()) * element_bytes(node.dtype) for path, node in datasets.items()}
        with reporting(progress, sum(sizes.values())):
            for path, node in datasets.items():
                try:
                    is_written = content.is_written(path)
                    for block in blocks(node, node):
                        values = node.read(block)
                        _check_targets(path, values, report)
                        report.nbytes += values.nbytes
                        progress.advance(path, values.size * element_bytes(node.dtype) if is_written else sizes[path])
                        if not is_written:  # all other blocks are the same
                            break
                except _ERRORS as error:
                    report.add(path, _kind(error, "chunk-damaged"), error.problem)
                    continue
                if report.checks_chunks:
                    count = math.prod(grid_of(node.shape or (), node.chunks)) if node.chunks else 1
                    report.chunks += count
                    report.unchecked += 0 if _WITH_CHECKSUM & {step.name for step in node.filters} else count
    note_unchecked(report)
    if level == "schema" and report.groups:  # else not even the root could be read
        from hdmf_zarr_backend.check.validate import add_problems_by_schema  # on use: hdmf is slow to import
        from hdmf_zarr_backend.from_hdf5 import planned_hdf5

        with planned_hdf5(store) as (planned, parsed, _):
            add_problems_by_schema(planned, parsed.hierarchy, report)
    return report


def _checked(content: Hdf5Content, report: Report) -> Iterator[tuple[str, DatasetContent]]:
    """Check all objects, and from the level of links their links and attributes; yield what is to be read."""
    for path in content:
        try:
            node = content[path]
            if isinstance(node, LinkContent):
                report.links += 1
                if report.level != "structure" and not content.leads_somewhere(node):
                    problem = f"there is no {node.target!r} in {node.location or content.source!r}"
                    report.add(path, "link-dangling", problem, advice=_ADVICE)
                continue
        except _ERRORS as error:
            report.add(path, _kind(error, "object-damaged"), error.problem)
            continue
        report.groups += isinstance(node, GroupContent)
        report.arrays += isinstance(node, DatasetContent)
        if report.level == "structure":
            continue
        identifier = getattr(node.attributes.get("object_id"), "value", None)
        report.add_id(path, None if identifier is None else identifier.tolist())
        for attribute in node.attributes.values():
            if attribute.value is not None:
                _check_targets(path, attribute.value, report)
        if not isinstance(node, DatasetContent) or node.shape is None:
            continue
        if report.checks_chunks or isinstance(node.dtype, _MAY_REFER):
            yield path, node


def _kind(error: ZarrBackendError, otherwise: str) -> str:
    """Return the kind of finding for an error that an object raises; its values may be in another file."""
    return "link-refused" if isinstance(error, LinkRefusedError) else kind_of(error, otherwise)


def _check_targets(path: str, values: Values, report: Report) -> None:
    counts = Counter(target.path for target in _targets(values))
    report.references += counts.total()
    if counts[DANGLING]:
        report.add(path, "reference-dangling", f"{counted(counts[DANGLING], 'reference')} to nothing")


def _targets(values: Any) -> Iterator[Target]:
    if isinstance(values, Target):
        yield values
    elif getattr(values, "dtype", None) is not None and values.dtype.hasobject:
        for part in map(values.__getitem__, values.dtype.names) if values.dtype.names else values.flat:
            yield from _targets(part)
