"""The references of a file to write: `Targets` makes them, `check_targets` refuses those that lead to nothing.

A target is in the plan, which includes what the file holds already, or in another file that exists. The targets of a
column are collected while its references are encoded, and each distinct one is looked up once.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from hdmf.build import Builder, DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.container import AbstractContainer

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.content import uneven_series
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.parser import Resolver
from hdmf_zarr_backend.encoding.references import (
    RegionReference,
    ZarrReference,
    encode_attribute_reference,
    encode_reference,
    is_reference,
)
from hdmf_zarr_backend.encoding.reserved import LINKS, data_type_of
from hdmf_zarr_backend.errors import at, warn
from hdmf_zarr_backend.hdmf.internals import container_made_of
from hdmf_zarr_backend.model.element import Reference
from hdmf_zarr_backend.model.links import THIS_FILE, full_location, is_url, relative_source
from hdmf_zarr_backend.model.nodes import Hierarchy, Node, absolute, has_dots, join, split
from hdmf_zarr_backend.model.render import few
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.opening import FILE_SUFFIXES, NOWHERE
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ElementSource, EncodedSource, RowSource, row_blocks

ROOT = "root"
"""Name of the builder of the root."""

REFERENCES = (Builder, ReferenceBuilder, AbstractContainer, ZarrReference, RegionReference)
"""Types of values that are written as references."""


def builder_path(builder: Any) -> str:
    """Return the absolute path of a builder: below its ``location`` if it was read, else below its parents."""
    # HDF5IO gives the root the parent path ``/``, and the topmost builder is the root, whatever its name.
    # the target of a link into another Zarr file has no parent either, and may have any name
    is_top = builder.parent is None and builder.name == ROOT and builder.location == "/"
    is_hdf5_root = is_top and not is_zarr_location(str(builder.source))
    if builder.location is not None and not is_hdf5_root:
        return absolute(posixpath.join(builder.location, builder.name))
    # up to the end: hdmf-zarr 0.13 stops at the name "root", and breaks the references of files whose root has another
    names: list[str] = []
    while builder.parent is not None:
        names.append(builder.name)
        builder = builder.parent
    return "/" + "/".join(reversed(names))


def top_of(builder: Any) -> Any:
    """Return the topmost parent of a builder or container, or itself."""
    while builder.parent is not None:
        builder = builder.parent
    return builder


def builders_below(builder: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and builder of a builder at ``path`` and of all groups and datasets below it, parents first."""
    stack = [(path, builder)]
    while stack:
        path, builder = stack.pop()
        yield path, builder
        for members in (builder.groups, builder.datasets) if isinstance(builder, GroupBuilder) else ():
            # HDF5IO has None for a broken link
            stack.extend((join(path, name), child) for name, child in members.items() if child is not None)


def containers_below(container: Any) -> Iterator[Any]:
    """Yield a container and all below it, parents first."""
    stack = [container]
    while stack:
        container = stack.pop()
        yield container
        stack.extend(container.children)


def object_id(builder: Any) -> str | None:
    """Return the object id of a builder, None if it has none."""
    value = builder.attributes.get("object_id")
    return str(value) if isinstance(value, str) else None


@dataclass(slots=True, eq=False)
class StoredReference:
    """The JSON of a reference in an attribute, as it is on disk."""

    json: dict[str, Any]


@dataclass(eq=False, repr=False)
class Targets:
    """Converts builders to references, each distinct target once."""

    location: str
    manager: Any
    root_id: str | None
    file_ids: Mapping[str, str | None]
    is_written: Callable[[Any], bool]  # tells which builders the file has already
    export_location: str | None = None
    root: Any = None
    source_manager: Any = None
    _encoded: dict[ZarrReference, dict[str, Any]] = field(default_factory=dict, init=False)
    # by id of a builder that is a target so far, with the builder, so that the id stays its own
    known: dict[int, tuple[Any, ZarrReference]] = field(default_factory=dict, init=False)
    _replaced: dict[int, tuple[Any, Any]] = field(default_factory=dict, init=False)
    _copied: set[int] = field(default_factory=set, init=False)  # ids of builders in `known`

    def is_own(self, builder: Any) -> bool:
        """Tell whether a builder is, or will be, in the file to write."""
        source = builder.source
        own = (self.location, self.export_location)
        return source is None or source in own or full_location(source) in own

    def reference_to(self, target: Any) -> ZarrReference:
        """Return the reference to a builder, a reference builder or a container."""
        # hdmf gives builders of each kind, and users containers
        if isinstance(target, (ReferenceBuilder, LinkBuilder)):
            builder = target.builder
        elif isinstance(target, Builder):
            builder = target
        elif isinstance(target, AbstractContainer) and self.manager is not None:
            builder = self.manager.build(target)
        else:
            raise errors.ValueRefusedError(f"{target!r} cannot be the target of a reference")
        builder = self._replaced.get(id(builder), (None, builder))[1]
        if (known := self.known.get(id(builder))) is not None:
            return known[1]
        source, file_id = THIS_FILE, self.root_id
        if not self.is_own(builder):
            root, file = top_of(builder), full_location(str(builder.source))
            if not can_be_named(file):
                problem = f"{builder_path(builder)} is in {file}, to which a Zarr file cannot point"
                remedy = "Copy the object, or write its file to a location with an address."
                raise errors.ValueRefusedError(problem, remedy=remedy)
            source = relative_source(file, self.location)
            # the id of the file that is meant, which tells a reader that another one is in its place
            file_id = self.file_ids.get(file) or (object_id(root) if builder_path(root) == "/" else None)
        reference = ZarrReference(source, builder_path(builder), object_id(builder), file_id)
        self.known[id(builder)] = (builder, reference)  # the builder stays alive, and so its id unique
        return reference

    def move(self, builder: Any, path: str) -> None:
        """Record that ``builder``, from another file, is copied with all its members to ``path`` in this file."""
        for new_path, member in builders_below(builder, path):
            reference = ZarrReference(THIS_FILE, absolute(new_path), object_id(member), self.root_id)
            self.known[id(member)] = (member, reference)
            self._copied.add(id(member))

    def replace(self, old: Any, new: Any) -> None:
        """Let references and links to a builder that was read lead to the one that is written in its place."""
        self._replaced[id(old)] = (old, new)

    def moved(self, builder: Any) -> ZarrReference | None:
        """Return the reference to the copy of a builder from another file, None if it is not copied."""
        known = self.known.get(id(builder))
        return known[1] if known is not None and known[1].source == THIS_FILE else None

    def is_lost(self, builder: Any) -> bool:
        """Tell whether a builder is neither in a file yet nor below the root that is written."""
        if self.root is None or builder.location is not None or id(builder) in self._copied:
            return False
        return top_of(builder) is not self.root and self.is_own(builder)

    def describe(self, builder: Any) -> str:
        """Return type, name and origin of a builder, for a message."""
        data_type, owner = data_type_of(builder), builder.parent
        what = f"the {data_type} {builder.name!r}" if data_type else repr(builder.name)
        if not data_type and owner is not None and (owner_type := data_type_of(owner)):
            builder, what = owner, f"{what} of the {owner_type} {owner.name!r}"
        container = container_made_of(self.source_manager or self.manager, builder)
        origin = builder.source if container is None else container.container_source
        return what if origin in (None, self.location) else f"{what} (from {origin})"

    def encode(self, target: Any) -> dict[str, Any] | None:
        """Return the JSON of a reference in an array; None for None."""
        if target is None:
            return None
        reference = self._reference(target)
        if reference.region is not None:
            return encode_reference(reference)
        if reference not in self._encoded:  # the same object each time, so that the codec encodes it once
            self._encoded[reference] = encode_reference(reference)
        return self._encoded[reference]

    def _reference(self, target: Any) -> ZarrReference:
        if isinstance(target, ZarrReference):
            if has_dots(target.node_path):
                problem = f"{target.path!r} is not a path of a node"
                raise errors.ValueRefusedError(problem, remedy='Leave "." and ".." out of it.')
            return target
        if isinstance(target, RegionReference):
            return replace(self.reference_to(target.builder), region=target.region)
        return self.reference_to(target)

    def encode_stored(self, target: Any) -> dict[str, Any] | None:
        """Return the JSON of a reference to an object that is in a file already."""
        builder = self.manager.get_builder(target) if isinstance(target, AbstractContainer) else target
        if builder is None or (isinstance(builder, Builder) and self.is_own(builder) and not self.is_written(builder)):
            problem = "a reference was appended to something that is not in the file"
            remedy = "Write the file with io.write(container) before closing it."
            raise errors.ConflictError(problem, store=self.location, remedy=remedy)
        return self.encode(builder)

    def encode_attribute(self, value: Any) -> dict[str, Any] | None:
        """Return the JSON of an attribute that is a reference, None for any other value."""
        if isinstance(value, StoredReference):
            return value.json
        return encode_attribute_reference(self._reference(value)) if isinstance(value, REFERENCES) else None


def is_zarr_location(location: str) -> bool:
    """Tell whether ``location`` is that of a Zarr file. A regular local file is HDF5."""
    # without opening it, since an export asks this for each link
    return is_url(location) or location.endswith(FILE_SUFFIXES) or not os.path.isfile(location)


def can_be_named(location: str) -> bool:
    """Tell whether a Zarr file may point to ``location``; HDF5 files and files without address can only be copied."""
    return not location.startswith(NOWHERE) and is_zarr_location(location)


_ABSENT = (errors.ReferenceTargetError, errors.StoreNotFoundError, errors.NotZarrError)
_KEPT_ELEMENTS = 2**20
"""Columns up to this length are encoded once; longer ones again when they are written, which needs less memory."""
_Key: TypeAlias = "tuple[str, str, str | None]"
"""Source, path and object id of a target."""

_TAKEN = "is not there, but something of another object"
_REMEDY = (
    "Add the target to the file that is written (if it belongs to another file, call its reset_parent() first, or "
    "write with the manager of the io that has read it), or remove the {}."
)


def check_targets(
    plan: WritePlan,
    targets: Targets,
    store: Store,
    *,
    known: Hierarchy | None = None,
    remedy: str = _REMEDY,
    remedy_taken: str = "",
) -> None:
    """Refuse a plan with a link or reference to nothing; ``remedy_taken`` is for one whose path others have."""
    check = _Check(plan, targets, store)
    added = (each for top in plan.added for each in plan.hierarchy.walk(top))
    for path, node in (*added, *((path, plan.hierarchy.get(path)) for path in plan.changed)):
        before = None if known is None else known.get(path)
        if node is not None:
            check.attributes(path, node, {} if before is None else before.attributes)
    for path, planned in plan.arrays.items():
        with at(targets, path):
            for reference in _references_in(planned):
                check.reference(path, reference, "reference")
    if check.missing:
        (path, what, problem), *others = check.missing.values()
        more = few([f"{absolute(other)}: {text}" for other, _, text in others], "; ")
        remedy = remedy_taken if remedy_taken and any(_TAKEN in text for *_, text in check.missing.values()) else remedy
        problem = f"{more}; and {problem}" if others else problem  # the path of the error follows it
        remedy = remedy.format(what)
        columns = [other for other, kind, _ in check.missing.values() if kind == "reference" and other in plan.arrays]
        if columns and targets.export_location is not None and not remedy_taken:  # `remedy_taken` is of a copy
            call = f"io.remove({absolute(columns[0])!r})"
            remedy += f" To leave out a column, convert the file, call {call} in the copy, and export from that."
        raise errors.MissingTargetError(problem, store=targets.location, path=absolute(path), remedy=remedy)


def _references_in(planned: PlannedArray) -> Iterator[dict[str, Any]]:
    """Yield the distinct references among the values of an array."""
    source = planned.source
    if not isinstance(source, (ElementSource, RowSource)):
        return
    means = describe(planned.node, planned.notes)
    elements = [field for _, field in means.fields] if means.form == "rows" else [means.stored]
    columns = [number for number, element in enumerate(elements) if isinstance(element, Reference)]
    if not columns:
        return
    is_kept = int(np.prod(source.shape)) <= _KEPT_ELEMENTS
    distinct: dict[int, dict[str, Any]] = {}
    for region in row_blocks(source.shape, source.shape[0] if is_kept else _KEPT_ELEMENTS // 2**4):
        block = source.read(region)
        values = block[:, columns].reshape(-1) if means.form == "rows" else block.reshape(-1)
        # by id, since `Targets.encode` gives equal references as one dict
        distinct.update((id(value), value) for value in values.tolist() if value is not None)
        if is_kept:
            planned.source = EncodedSource(block)
    yield from distinct.values()


class _Check:
    def __init__(self, plan: WritePlan, targets: Targets, store: Store) -> None:
        self._resolver = Resolver(store, plan.hierarchy, targets.location)
        self._targets = targets
        self.missing: dict[_Key, tuple[str, str, str]] = {}  # path, kind and problem, by target
        self._seen: set[_Key] = set()
        self._builders: dict[_Key, Any] = {}

    def attributes(self, path: str, node: Node, before: dict[str, Any]) -> None:
        """Check the links of a node, and the attributes that are references, but those that it had ``before``."""
        for name, value in node.attributes.items():
            if not isinstance(value, (dict, list)) or value == before.get(name):
                continue
            if name == LINKS:
                stored = before.get(LINKS, [])
                for entry in (entry for entry in value if entry not in stored):
                    self.reference(join(path, entry["name"]), entry, "link")
                continue
            for item in value if isinstance(value, list) else [value]:
                # an attribute of a user may look like a reference
                if is_reference(item) and all(isinstance(item["value"].get(key), str) for key in ("source", "path")):
                    self.reference(path, item["value"], f"reference in the attribute {name!r}")

    def reference(self, path: str, reference: dict[str, Any], what: str) -> None:
        """Note a link or reference whose target is known not to exist, or to be another object."""
        key = (reference["source"], absolute(reference["path"]), reference.get("object_id"))
        if key in self._seen:
            return
        self._seen.add(key)
        if (problem := self._problem(key)) is None:
            return
        builder, source, target = self._builder_of(key), *key[:2]
        shown = target if source == THIS_FILE else f"{target} of {source}"
        if builder is not None and self._targets.is_lost(builder):
            shown = self._targets.describe(builder)  # it has no path yet
        elif builder is not None:
            shown = f"{self._targets.describe(builder)}, expected at {shown},"
        text = f"the {what} would lead to nothing: {shown} {problem}"
        self.missing[key] = (path, what.partition(" ")[0], text)

    def _builder_of(self, key: _Key) -> Any:
        """Return the builder of a target; None if it was given by its path."""
        if key not in self._builders:
            for builder, target in self._targets.known.values():  # more of them are known with each column
                self._builders[(target.source, absolute(target.path), target.object_id)] = builder
        return self._builders.get(key)

    def _problem(self, key: _Key) -> str | None:
        """Return what is wrong with a target, None if it is there, or if only a request could tell."""
        source, path, wanted = key
        main, builder = self._resolver.main, self._builder_of(key)
        location = self._resolver.locate(main, source)
        is_own = location == main.location
        if is_own and builder is not None and self._targets.is_lost(builder):
            return "is not part of what is written"
        if is_url(location) and not is_own:
            return None  # no requests to other servers for a write
        try:
            file, target_path, node = self._resolver.find(main, source, path)
        except _ABSENT as error:
            return "is not part of what is written" if is_own else f"does not exist ({error.problem})"
        except (errors.ZarrBackendError, OSError):
            return None  # it may be there; whoever follows the link gets the reason why not
        identifier = node.attributes.get("object_id")
        if wanted is None and is_own and isinstance(builder, DatasetBuilder) and builder.parent is not None:
            # the data of a series have no id, but the series does
            wanted, group = object_id(builder.parent), file.hierarchy.get(split(target_path)[0])
            identifier = None if group is None else group.attributes.get("object_id")
        if wanted is not None and isinstance(identifier, str) and identifier != wanted:
            return f"{_TAKEN}, with the object_id {identifier}"
        return None


def check_lengths(resolver: Resolver, changed: Set[str]) -> None:
    """Warn of series whose data and timestamps differ in length, if one of them, or a link to it, is in ``changed``."""
    for owner, lengths in uneven_series(resolver, changed) if changed else ():
        warn(f"{resolver.main.location}, {absolute(owner)}: {lengths}", errors.LengthWarning)
