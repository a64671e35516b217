"""Checks of links and references: whether the target exists, and is the object that was meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.checks.chunks import stored_rows
from hdmf_zarr_backend.checks.findings import Problem, Report
from hdmf_zarr_backend.encoding.attributes import decode_attributes
from hdmf_zarr_backend.encoding.elements import describe_any
from hdmf_zarr_backend.encoding.namespaces import spec_location
from hdmf_zarr_backend.encoding.references import (
    LinkedFile,
    ZarrReference,
    decode_attribute_reference,
    decode_links,
    decode_reference,
)
from hdmf_zarr_backend.encoding.reserved import LINKS, SPECLOC
from hdmf_zarr_backend.errors import (
    LinkRefusedError,
    MetadataError,
    ReferenceTargetError,
    ResourceError,
    ZarrBackendError,
)
from hdmf_zarr_backend.model.element import Reference
from hdmf_zarr_backend.model.links import CircularLinkError, Resolver
from hdmf_zarr_backend.model.nodes import Dataset, Group, Node, join

_CACHE_BYTES = 2**24


def check_targets(resolver: Resolver[LinkedFile], report: Report, cache: ChunkCache | None = None) -> None:
    """Check the links and references of a file, and report those with a missing or wrong target.

    Chunks with references are read, and kept in ``cache``.
    """
    checker = _Checker(resolver, report, ChunkCache(_CACHE_BYTES) if cache is None else cache)
    for path, node in resolver.main.hierarchy.walk():
        if isinstance(node, Group):
            checker.check_links(path, node)
        checker.check_attributes(path, node)
        if isinstance(node, Dataset):
            checker.check_array(path, node)


def without_target(resolver: Resolver[LinkedFile], cache: ChunkCache | None = None) -> list[Problem]:
    """Return the links and references of a file to nothing; arguments as for `check_targets`."""
    report = Report(resolver.main.location, "links")
    check_targets(resolver, report, cache)
    return [problem for problem in report.problems if problem.kind in _TO_NOTHING]


_TO_NOTHING = ("link-dangling", "link-circular", "reference-dangling")
_Problem = tuple[str, str]
"""Message and kind of a finding, the kind without the prefix ``link-`` or ``reference-``."""


@dataclass
class _Checker:
    _resolver: Resolver[LinkedFile]
    _report: Report
    _cache: ChunkCache

    def __post_init__(self) -> None:
        self._known: dict[tuple[Any, ...], _Problem | None] = {}
        self._specs = spec_location(self._resolver.main.hierarchy.root.attributes.get(SPECLOC))

    def check_links(self, path: str, node: Group[Any]) -> None:
        """Check the links of a group, each entry by itself."""
        entries = node.attributes.get(LINKS, [])
        names = set(node.members)
        for entry in entries if isinstance(entries, list) else [entries]:
            self._report.links += 1
            try:
                link = decode_links({LINKS: [entry] if isinstance(entries, list) else entries})[0]
            except MetadataError as error:
                self._report.add(path, "link-damaged", error.problem)
                continue
            place = join(path, link.name)
            if link.name in names:
                other = "a group or an array" if link.name in node.members else "another link"
                self._report.add(place, "link-damaged", f"{other} has the same name")
            names.add(link.name)
            problem = self._problem(link.target)
            if problem is not None:
                self._report.add(place, f"link-{problem[0]}", problem[1])

    def check_attributes(self, path: str, node: Node) -> None:
        """Check the attributes of a node, and the references in them."""
        references: list[Any] = []
        try:
            decode_attributes(node.attributes, resolve=references.append)
        except MetadataError as error:
            self._report.add(path, "document-damaged", error.problem)
            return
        for value in references:
            self._report.references += 1
            self._add_reference(path, self._problem_of_value(value, decode_attribute_reference))

    def check_array(self, path: str, node: Dataset[Any]) -> None:
        """Check the references in an array."""
        if self._specs is not None and path.startswith(f"{self._specs}/"):
            return
        columns = _reference_columns(node)
        if columns is None or not node.stored.size:
            return
        found: dict[_Problem, int] = {}
        try:
            reader = ChunkReader(self._resolver.main.store, path, node.stored, self._cache)
            for cell in _cells(reader, node, columns):
                self._report.references += 1
                problem = None if cell is None else self._problem_of_value(cell, decode_reference)
                if problem is not None:
                    found[problem] = found.get(problem, 0) + 1
        except ResourceError:
            raise  # the links may be right
        except (ZarrBackendError, OSError) as error:
            self._report.add(path, "reference-damaged", f"references cannot be read ({_message(error)})")
        for problem, count in found.items():
            self._add_reference(path, problem, count)

    def _add_reference(self, path: str, problem: _Problem | None, count: int = 1) -> None:
        if problem is not None:
            kind = "dangling" if problem[0] == "circular" else problem[0]
            self._report.add(path, f"reference-{kind}", problem[1] + (f" ({count:,} references)" if count > 1 else ""))

    def _problem_of_value(self, value: Any, decode: Callable[[Any], ZarrReference]) -> _Problem | None:
        try:
            return self._problem(decode(value))
        except MetadataError as error:
            return "damaged", error.problem

    def _problem(self, reference: ZarrReference) -> _Problem | None:
        """Return the problem with a target, None if there is none; each distinct target is looked up once."""
        key = (reference.source, reference.path, reference.object_id, reference.source_object_id)
        if key not in self._known:
            self._known[key] = self._look_up(reference)
        return self._known[key]

    def _look_up(self, reference: ZarrReference) -> _Problem | None:
        try:
            file, _, node = self._resolver.find(self._resolver.main, reference.source, reference.node_path)
        except CircularLinkError as error:
            return "circular", error.problem
        except LinkRefusedError as error:
            return "refused", error.problem
        except ResourceError:
            raise  # the links may be right
        except (ZarrBackendError, OSError) as error:
            return "dangling", _message(error)
        for what, wanted, actual in (
            (f"the object at {reference.path!r}", reference.object_id, node.attributes.get("object_id")),
            (f"the file {reference.source!r}", reference.source_object_id, file.root_id),
        ):
            if wanted is not None and isinstance(actual, str) and wanted != actual:
                return "wrong-target", f"{what} has the object_id {actual}, not {wanted}"
        return None


def _message(error: BaseException) -> str:
    if isinstance(error, ReferenceTargetError) and error.path is not None:
        return f"there is no {error.path!r} in {error.store!r}"
    return error.problem if isinstance(error, ZarrBackendError) else str(error)


def _reference_columns(node: Dataset[Any]) -> dict[str, int] | None:
    """Return names and positions of fields with references: ``{}`` for the complete array, None for no references."""
    means = describe_any(node)
    if isinstance(means.stored, Reference):
        return {}
    if means.form != "rows":
        return None
    fields = enumerate(means.fields)
    return {name: position for position, (name, field) in fields if isinstance(field, Reference)} or None


def _cells(reader: ChunkReader, node: Dataset[Any], columns: dict[str, int]) -> Iterator[Any]:
    stored = node.stored
    for row in stored_rows(reader.store, reader.path, node):
        block = reader.read(slice(row * stored.chunks[0], (row + 1) * stored.chunks[0]) if stored.shape else ())
        if not columns:
            yield from block.reshape(-1)
        elif block.dtype.names is not None:
            for name in columns:
                yield from block[name].reshape(-1)
        else:
            # a compound that is stored as objects: each row is a list, or along an axis
            rows = block.reshape(-1, block.shape[-1]) if block.ndim > 1 else block.reshape(-1).tolist()
            for cells in rows:
                if isinstance(cells, (list, tuple, np.ndarray)):
                    yield from (cells[column] for column in columns.values() if column < len(cells))
