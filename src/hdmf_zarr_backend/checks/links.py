"""Checks of links and references: whether the target exists, and is the object that was meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.checks.chunks import stored_rows
from hdmf_zarr_backend.checks.findings import Problem, Report
from hdmf_zarr_backend.errors import LinkRefusedError, MetadataError, ReferenceTargetError, ZarrBackendError
from hdmf_zarr_backend.files.link_policy import check_link
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats.attributes import decode_attributes
from hdmf_zarr_backend.formats.elements import describe_any
from hdmf_zarr_backend.formats.links import Link, decode_links, former_names
from hdmf_zarr_backend.formats.namespaces import spec_location
from hdmf_zarr_backend.formats.references import Reference, decode_attribute_reference, decode_reference
from hdmf_zarr_backend.formats.reserved import LINKS, SPECLOC, notes_of
from hdmf_zarr_backend.model.link_sources import THIS_FILE, resolve_source, sibling_source
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, Node, absolute, join
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.opening import may_exist, open_neighbour

_REFERENCES = frozenset({"reference", "region"})
_CACHE_BYTES = 2**24


@dataclass
class LinkedFile:
    """A file with links, or with targets of links.

    Attributes
    ----------
    keys : Store
        Its store.
    hierarchy : Hierarchy
        Its nodes.
    links : dict
        ``{path: links}`` of the groups read so far.
    """

    keys: Store
    hierarchy: Hierarchy
    links: dict[str, list[Link]] = field(default_factory=dict)

    @property
    def root_id(self) -> Any:
        """Object id of the root."""
        return self.hierarchy.root.attributes.get("object_id")

    @cached_property
    def former_names(self) -> frozenset[str]:
        """Sources that mean the file itself; see `formats.links.former_names`."""
        return former_names(self.hierarchy)

    def links_of(self, path: str, node: Group[Any]) -> list[Link]:
        """Return the links of the group at ``path``, without the damaged ones."""
        if path not in self.links:
            self.links[path] = [link for link, _ in entries_of(node) if link is not None]
        return self.links[path]


def entries_of(node: Group[Any]) -> Iterator[tuple[Link | None, str]]:
    """Yield each entry of ``zarr_link`` as a link, or None and the reason why it is not valid."""
    entries = node.attributes.get(LINKS, [])
    if not isinstance(entries, list):
        yield None, f"{LINKS} is not a list"
        return
    for entry in entries:
        try:
            yield decode_links({LINKS: [entry]})[0], ""
        except MetadataError as error:
            yield None, error.problem


class Targets:
    """Finds the targets of links and references of one file. Other files are opened once, for reading.

    Parameters
    ----------
    keys : Store
        The file.
    hierarchy : Hierarchy
        Its nodes.
    """

    def __init__(self, keys: Store, hierarchy: Hierarchy) -> None:
        self.own = LinkedFile(keys, hierarchy)
        self._rules = keys.read_rules
        self._files: dict[str, LinkedFile] = {keys.location: self.own}

    def find(self, reference: Reference, file: LinkedFile | None = None) -> tuple[LinkedFile, Node]:
        """Return the target of a link or reference in the file, or in another `file` that a link points to.

        Raises
        ------
        ReferenceTargetError
            The object does not exist, or links are circular.
        LinkRefusedError
            The target is in a file that the policy does not allow.
        ZarrBackendError, OSError
            That file cannot be opened.
        """
        return self._find(self.own if file is None else file, reference, frozenset())

    def _find(
        self, file: LinkedFile, reference: Reference, seen: frozenset[tuple[str, str]]
    ) -> tuple[LinkedFile, Node]:
        file = self._file(file, reference.source)
        here = (file.keys.location, reference.node_path)
        if here in seen:
            raise CircularError("the links form a circle")
        self._rules.limits.check("max_links", len(seen), f"{len(seen)} links point from one to the next")
        node: Node = file.hierarchy.root
        parts = reference.node_path.split("/") if reference.node_path else []
        for position, part in enumerate(parts):
            if isinstance(node, Group) and part in node.members:
                node = node.members[part]
                continue
            path = "/".join(parts[:position])
            links = file.links_of(path, node) if isinstance(node, Group) else []
            link = next((link for link in links if link.name == part), None)
            if link is None:
                raise ReferenceTargetError(f"there is no {reference.path!r} in {file.keys.location!r}")
            rest = "/".join([link.target.node_path, *parts[position + 1 :]]).strip("/")
            return self._find(file, Reference(link.target.source, absolute(rest)), seen | {here})
        return file, node

    def _file(self, file: LinkedFile, source: str) -> LinkedFile:
        if source in (THIS_FILE, "") or source in file.former_names:
            return file
        origin = file.keys.location
        candidates = [resolve_source(source, origin)]
        if "version" not in notes_of(file.hierarchy.root.attributes):
            candidates.append(sibling_source(source, origin))  # hdmf-zarr 0.10
        refused: LinkRefusedError | None = None
        for location in dict.fromkeys(candidates):
            try:
                if location not in self._files:
                    check_link(location, origin, self._rules.external_links)
            except LinkRefusedError as error:
                refused = refused or error
                continue
            if location in self._files or may_exist(location):
                return self._opened(location)
        if refused is not None:
            raise refused
        raise ReferenceTargetError(f"the file {source!r} does not exist")

    def _opened(self, location: str) -> LinkedFile:
        if location not in self._files:
            count = len(self._files)
            self._rules.limits.check("max_files", count, f"links point to {count} other files")
            keys = open_neighbour(self.own.keys, location)
            parsed = parse(keys)
            self._files[location] = LinkedFile(parsed.keys(keys), parsed.hierarchy)
        return self._files[location]


class CircularError(ReferenceTargetError):
    """Links form a circle."""


def check_targets(targets: Targets, report: Report) -> None:
    """Check all links and references of a file, and report those with a missing or wrong target."""
    checker = _Checker(targets, report)
    for path, node in targets.own.hierarchy.walk():
        if isinstance(node, Group):
            checker.check_links(path, node)
        checker.check_attributes(path, node)
        if isinstance(node, Dataset):
            checker.check_array(path, node)


_Problem = tuple[str, str]
"""Message and kind of a finding, the kind without the prefix ``link-`` or ``reference-``."""


class _Checker:
    def __init__(self, targets: Targets, report: Report) -> None:
        self._targets = targets
        self._report = report
        self._known: dict[tuple[Any, ...], _Problem | None] = {}
        self._cache = ChunkCache(_CACHE_BYTES)
        self._specs = spec_location(targets.own.hierarchy.root.attributes.get(SPECLOC))

    def _add(self, path: str, kind: str, message: str) -> None:
        self._report.add(Problem(absolute(path), kind, message))

    def check_links(self, path: str, node: Group[Any]) -> None:
        """Check the links of a group."""
        for link, damage in entries_of(node):
            self._report.links += 1
            if link is None:
                self._add(path, "link-damaged", damage)
                continue
            place = join(path, link.name)
            if link.name in node.members:
                self._add(place, "link-damaged", "a group or an array has the same name")
            problem = self._problem(link.target)
            if problem is not None:
                self._add(place, f"link-{problem[0]}", problem[1])

    def check_attributes(self, path: str, node: Node) -> None:
        """Check the attributes of a node, and the references in them."""
        references: list[Any] = []
        try:
            decode_attributes(node.attributes, resolve=references.append)
        except MetadataError as error:
            self._add(path, "document-damaged", error.problem)
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
            reader = ChunkReader(self._targets.own.keys, path, node.stored, self._cache)
            for cell in _cells(reader, node, columns):
                self._report.references += 1
                problem = None if cell is None else self._problem_of_value(cell, decode_reference)
                if problem is not None:
                    found[problem] = found.get(problem, 0) + 1
        except (ZarrBackendError, OSError) as error:
            self._add(path, "reference-damaged", f"references cannot be read ({_message(error)})")
        for problem, count in found.items():
            self._add_reference(path, problem, count)

    def _add_reference(self, path: str, problem: _Problem | None, count: int = 1) -> None:
        if problem is not None:
            kind = "dangling" if problem[0] == "circular" else problem[0]
            self._add(path, f"reference-{kind}", problem[1] + (f" ({count:,} references)" if count > 1 else ""))

    def _problem_of_value(self, value: Any, decode: Callable[[Any], Reference]) -> _Problem | None:
        try:
            return self._problem(decode(value))
        except MetadataError as error:
            return "damaged", error.problem

    def _problem(self, reference: Reference) -> _Problem | None:
        """Return the problem with a target, None if there is none; each distinct target is looked up once."""
        key = (reference.source, reference.path, reference.object_id, reference.source_object_id)
        if key not in self._known:
            self._known[key] = self._look_up(reference)
        return self._known[key]

    def _look_up(self, reference: Reference) -> _Problem | None:
        try:
            file, node = self._targets.find(reference)
        except CircularError as error:
            return "circular", error.problem
        except LinkRefusedError as error:
            return "refused", error.problem
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
    return error.problem if isinstance(error, ZarrBackendError) else str(error)


def _reference_columns(node: Dataset[Any]) -> dict[str, int] | None:
    """Return names and positions of fields with references: ``{}`` for the complete array, None for no references."""
    means = describe_any(node)
    if means.stored.kind in _REFERENCES:
        return {}
    if means.form != "rows":
        return None
    fields = enumerate(means.stored.fields)
    return {name: position for position, (name, field) in fields if field.kind in _REFERENCES} or None


def _cells(reader: ChunkReader, node: Dataset[Any], columns: dict[str, int]) -> Iterator[Any]:
    stored = node.stored
    for row in stored_rows(reader.keys, reader.path, node):
        block = reader.read(slice(row * stored.chunks[0], (row + 1) * stored.chunks[0]) if stored.shape else ())
        if not columns:
            yield from block.reshape(-1)
        elif block.dtype.names is not None:
            for name in columns:
                yield from block[name].reshape(-1)
        else:
            for cells in _rows(block):
                yield from (cells[column] for column in columns.values() if column < len(cells))


def _rows(block: Any) -> Iterator[Any]:
    """Yield the rows of a compound that is stored as objects, each as a list or along an axis."""
    if block.ndim > 1:
        yield from block.reshape(-1, block.shape[-1])
    else:
        yield from (row for row in block.reshape(-1).tolist() if isinstance(row, (list, tuple)))
