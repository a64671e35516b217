"""The difference between a file and a changed builder tree, as a plan.

Nodes on disk are kept. A document is rewritten only if attributes or links differ, and arrays are only added. A change
of an existing value is refused before anything is written.

Source: ``HDF5IO.write_group`` for what an append may change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from hdmf.container import AbstractContainer, Data
from hdmf.data_utils import AbstractDataChunkIterator, DataIO
from hdmf.query import ReferenceResolver
from hdmf.spec import GroupSpec, LinkSpec

from hdmf_zarr_backend.arrays.lazy import LazyArray, stored_view
from hdmf_zarr_backend.builders.dimensions import names_in
from hdmf_zarr_backend.builders.planner import PlannedGroup, Planner, WriteRequest, unwrapped
from hdmf_zarr_backend.builders.schema import is_untyped
from hdmf_zarr_backend.builders.targets import StoredReference, builder_path, containers_below, object_id
from hdmf_zarr_backend.dataio import ZarrDataIO
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, DOC, DTYPE, LINKS, NOTES, RESERVED, notes_of
from hdmf_zarr_backend.errors import ConflictError, DroppedChangesWarning, UsageError, ValueRefusedError, warn
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.formats.attributes import decode_attributes, encode_attributes
from hdmf_zarr_backend.formats.links import encode_link, find_link
from hdmf_zarr_backend.model.link_sources import THIS_FILE
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, absolute, join
from hdmf_zarr_backend.write.plan import WritePlan

_SHOWN_ELEMENTS = 5
_SHOWN_LETTERS = 100
SCALARS = (str, bytes, int, float, date, np.generic)


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal: dates, scalars, text, or arrays of the same shape; NaN equals NaN."""
    one, other = stored_array(one), stored_array(other)
    if one is other:
        return True
    if _is_array(one) or _is_array(other):
        return _is_same_array(one, other)
    if isinstance(one, SCALARS) and isinstance(other, SCALARS):
        return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 - NaN equals NaN here
    return False


def _is_array(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (hasattr(value, "shape") and not isinstance(value, np.generic))


def _is_same_array(one: Any, other: Any) -> bool:
    if other is None or one is None or isinstance(one, dict) or isinstance(other, dict):
        return False
    a, b = np.asarray(one), np.asarray(other)
    equal_nan = a.dtype.kind in "fcmM" and b.dtype.kind in "fcmM"
    return bool(np.array_equal(a, b, equal_nan=equal_nan))


def stored_array(data: Any) -> Any:
    """Return the array inside a DataIO, or inside a dataset that resolves to builders or containers."""
    data = unwrapped(data)
    return data.dataset if isinstance(data, ReferenceResolver) else data


def shown(data: Any) -> str:
    """Return the values of a dataset for a message: a scalar, or the first elements and the shape."""
    data = stored_array(data)
    text = repr(data)
    if _is_array(data) and np.ndim(data) > 0:
        first = np.asarray(data[:_SHOWN_ELEMENTS]).reshape(-1)[:_SHOWN_ELEMENTS].tolist()
        more = ", ..." if np.size(data) > len(first) else ""
        text = f"[{', '.join(map(repr, first))}{more}] of shape {np.shape(data)}"
    return text if len(text) < _SHOWN_LETTERS else f"{text[: _SHOWN_LETTERS - 3]}..."


class _Known(NamedTuple):
    """A container, and what it held when it was last read or written."""

    container: Any
    fields: dict[str, Any]
    children: tuple[Any, ...]
    data: Any


class KnownFields:
    """What the containers of one open file held when they were last read or written."""

    def __init__(self) -> None:
        self._known: dict[int, _Known] = {}

    def note(self, root: Any, *, is_written: bool = False) -> None:
        """Record all containers below ``root``, of a recorded root only after it ``is_written``."""
        if id(root) in self._known and not is_written:
            return
        for here in containers_below(root):
            data = here.data if isinstance(here, Data) else None
            self._known[id(here)] = _Known(here, dict(here.fields), tuple(here.children), data)

    def check(self, manager: Any, location: str, *, is_written: Callable[[Any], bool]) -> None:
        """Mark the containers whose fields have changed as modified; refuse new values for stored datasets."""
        for known in self._known.values():
            container, before = known.container, known.fields
            fields = container.fields
            changed = {name for name, value in fields.items() if value is not None and value is not before.get(name)}
            builder = manager.get_builder(container)
            if builder is None:
                continue
            if isinstance(container, Data) and container.data is not known.data and is_written(builder):
                _check_data(builder, container.data, known.data, location)
            if changed and hasattr(builder, "datasets"):
                mapper = manager.type_map.get_map(container)
                for spec, stored in _untyped_datasets(mapper.spec, builder):
                    name = mapper.get_attribute(spec)
                    if name in changed and is_written(stored):
                        _check_data(stored, fields[name], before.get(name), location)
            _warn_of_removed(known, location)
            if changed:
                container.set_modified()


def _check_data(stored: Any, data: Any, before: Any, location: str) -> None:
    """Refuse new values for a dataset that is on disk, and warn of settings that it cannot get any more."""
    if not is_same(data, before):
        raise _other_values(stored.data, data, location, builder_path(stored))
    if isinstance(data, DataIO) and data is not before and getattr(data, "io_settings", None):
        _warn_of_dropped(location, f"the settings of {type(data).__name__} for {builder_path(stored)}")


def _other_values(there: Any, wanted: Any, location: str, path: str) -> ConflictError:
    problem = f"the dataset holds {shown(there)} and {shown(wanted)} is to be written"
    remedy = "Change the values in place (dataset[...] = values), or export to a new file."
    return ConflictError(problem, store=location, path=path, remedy=remedy)


def _warn_of_removed(known: _Known, location: str) -> None:
    """Warn of fields and members that a container had, since an append removes nothing."""
    container = known.container
    named = f"{type(container).__name__} {container.name!r}"
    left = {id(child) for child in container.children}
    for child in known.children:
        if id(child) not in left:
            _warn_of_dropped(location, f"that {type(child).__name__} {child.name!r} was removed from the {named}")
    for name, value in known.fields.items():
        is_member = isinstance(value, (AbstractContainer, dict, list, tuple))
        if value is not None and not is_member and container.fields.get(name) is None:
            _warn_of_dropped(location, f"that the field {name!r} was removed from the {named}")


def _warn_of_dropped(location: str, what: str) -> None:
    message = f"{location}: not written: {what}. The file has it already; export to a new file"
    warn(message, DroppedChangesWarning, stacklevel=5)


def check_origin(root: Any, manager: Any, location: str) -> None:
    """Refuse containers from other files that hdmf cannot build for this file."""
    stack = [root]
    while stack:
        here = stack.pop()
        origin = here.container_source
        if origin is None or origin == location:
            stack += [*here.children, *_linked(here, manager)]
        elif here is root or manager.get_builder(here) is None:
            what = f"{type(here).__name__} {here.name!r}"
            remedy = (
                "Use export to copy a file: read it and pass its io as src_io, and the container if it was changed."
                if here is root
                else "For a link, create this io with the manager of the io that has read it; or create a new object."
            )
            problem = f"the {what} was read from or written to another file, {origin!r}, and cannot be written here"
            raise UsageError(problem, store=location, remedy=remedy)


def _linked(container: Any, manager: Any) -> Iterator[Any]:
    """Yield the containers with another parent that a container links to."""
    for name, value in container.fields.items():
        if isinstance(value, dict):
            members = (each for each in value.values() if isinstance(each, AbstractContainer))
            yield from (member for member in members if member.parent is not container)
        elif isinstance(value, AbstractContainer) and value.parent is not container:
            spec = manager.type_map.get_map(container).get_attr_spec(name)
            if isinstance(spec, (LinkSpec, GroupSpec)):  # not a series that shares its timestamps
                yield value


def _untyped_datasets(spec: Any, builder: Any) -> Iterator[tuple[Any, Any]]:
    """Yield specification and builder of the untyped datasets in a group and in its untyped subgroups."""
    for dataset in spec.datasets:
        if is_untyped(dataset) and builder.datasets.get(dataset.name) is not None:
            yield dataset, builder.datasets[dataset.name]
    for group in spec.groups:
        if is_untyped(group) and group.name in builder.groups:
            yield from _untyped_datasets(group, builder.groups[group.name])


_KEPT = frozenset({DTYPE, DIMENSIONS, LINKS, ".specloc"})


class AppendPlanner(Planner):
    """Plans a write to an existing file."""

    def __init__(
        self,
        request: WriteRequest,
        hierarchy: Hierarchy,
        *,
        is_written: Callable[[Any], bool],
        original: Callable[[str], Any],
    ) -> None:
        super().__init__(request)
        self.plan = WritePlan(hierarchy)
        self._resolver = resolver_of(None, hierarchy, request.targets.location)
        self.changed: set[str] = set()
        self.added: set[str] = set()
        self._is_written = is_written
        self._original = original

    def plan_root(self, builder: Any) -> WritePlan:
        """Plan everything that is new or differs; ``changed`` and ``added`` have the paths."""
        root = self.plan.hierarchy.root
        there, wanted = root.attributes.get("object_id"), object_id(builder)
        if isinstance(there, str) and wanted is not None and there != wanted and not self._is_written(builder):
            problem = f"the file holds the root object {there} and {wanted} is to be written: the name already exists"
            remedy = "Read the file, change what was read and write that; or use mode 'w' to replace the file."
            raise ConflictError(problem, store=self.targets.location, path="/", remedy=remedy)
        self._merge_group(builder, root, "")
        return self.plan

    def _merge_group(self, builder: Any, node: Any, path: str) -> None:
        if not isinstance(node, Group):
            raise self._conflict(path, "an array", "a group")
        group = PlannedGroup(node, path, taken=names_in(node))
        for name, child in builder.groups.items():
            self._merge_member_group(child, group, self._name(name, path))
        for name, child in builder.datasets.items():
            if child is not None:
                self._merge_member_dataset(child, group, self._name(name, path))
        for link in builder.links.values():
            if not self._is_written(link):
                self._merge_link(link, group)
        self._merge_attributes(builder.attributes, node, path)
        if group.links:
            entries = [*node.attributes.get(LINKS, []), *map(encode_link, group.links)]
            node.attributes = {**node.attributes, LINKS: entries}
            self.changed.add(path)

    def _merge_member_group(self, builder: Any, group: PlannedGroup, name: str) -> None:
        path = join(group.path, name)
        if name in group.node.members:
            self._merge_group(builder, group.node.members[name], path)
            return
        self._check_free(group, name, "a group")
        self._subgroup(builder, group, name)
        self.added.add(path)

    def _merge_member_dataset(self, builder: Any, group: PlannedGroup, name: str) -> None:
        path = join(group.path, name)
        if name in group.node.members:
            self._merge_dataset(builder, group.node.members[name], path)
            return
        stored = find_link(group.node.attributes, name)
        if stored is not None:
            wanted = None if self._is_written(builder) else self._linked_data(builder, path)
            if not self._is_written(builder) and (wanted is None or not self._leads_to(wanted, stored)):
                self._check_free(group, name, "a dataset" if wanted is None else f"a link to {_named(wanted)}")
            return
        self._dataset(builder, group, name)
        self._note_added(group, name)

    def _merge_link(self, link: Any, group: PlannedGroup) -> None:
        wanted, stored = self._link_target(link.builder), find_link(group.node.attributes, link.name)
        if stored is not None and self._leads_to(wanted, stored):
            return
        self._check_free(group, link.name, f"a link to {_named(wanted)}")
        self._link(link, group)
        self._note_added(group, link.name)

    def _link_target(self, target: Any) -> ZarrReference:
        """Return the reference that a link to ``target`` has."""
        try:
            return self.targets.moved(target) or self.targets.reference_to(target)
        except ValueRefusedError:  # no Zarr file can point there, and so it is copied
            return ZarrReference(str(target.source), builder_path(target))

    def _linked_data(self, builder: Any, path: str) -> ZarrReference | None:
        """Return the link for a dataset whose data are a stored array; None if the data are written instead."""
        given = builder.data
        data = stored_view(unwrapped(given))
        link_data = given.link_data if isinstance(given, ZarrDataIO) else self.request.link_data
        return self._link_to(data, path, link_data=link_data) if isinstance(data, LazyArray) else None

    def _note_added(self, group: PlannedGroup, name: str) -> None:
        """Record a member as new, unless it became a link."""
        if name in group.node.members:
            self.added.add(join(group.path, name))

    def _check_free(self, group: PlannedGroup, name: str, wanted: str) -> None:
        there, stored = group.node.members.get(name), find_link(group.node.attributes, name)
        if there is not None:
            raise self._conflict(join(group.path, name), "a group" if isinstance(there, Group) else "an array", wanted)
        if stored is not None:
            raise self._conflict(join(group.path, name), f"a link to {_named(stored)}", wanted)

    def _conflict(self, path: str, there: str, wanted: str) -> ConflictError:
        problem = f"the file holds {there} where {wanted} is to be written"
        remedy = "Give the new object another name, or export to a new file."
        return ConflictError(problem, store=self.targets.location, path=path, remedy=remedy)

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _merge_attributes(self, attributes: dict[str, Any], node: Any, path: str) -> None:
        """Replace the attributes of a node where they differ from those on disk."""
        stored = node.attributes
        before = decode_attributes(stored, resolve=StoredReference)
        wanted = dict(attributes)
        if all(name in before and self._same_value(wanted[name], before[name]) for name in wanted):
            return
        merged = {**before, **wanted}
        left_out = {"attributes", "escaped", *({DOC} & wanted.keys())}  # a `doc` of the user is not the schema's
        notes = {key: value for key, value in notes_of(stored).items() if key not in left_out}
        strict = self.request.options.strict_json
        encoded = encode_attributes(merged, notes=notes, reference=self.targets.encode_attribute, strict=strict)
        kept = RESERVED & _KEPT | ({DOC} if notes.get(DOC) is True else set())
        fresh = {**encoded, **{key: stored[key] for key in stored if key in kept}}
        if NOTES in stored and notes:
            fresh.setdefault(NOTES, notes)
        if fresh != stored:
            node.attributes = fresh
            self.changed.add(path)

    def _same_value(self, wanted: Any, before: Any) -> bool:
        if isinstance(before, StoredReference):
            encoded = self.targets.encode_attribute(wanted)
            return encoded is not None and self._place(encoded) == self._place(before.json)
        if isinstance(before, list) and before and isinstance(before[0], StoredReference):
            given = isinstance(wanted, (list, tuple)) and len(wanted) == len(before)
            return given and all(map(self._same_value, wanted, before))
        return is_same(wanted, before)

    def _place(self, json: dict[str, Any]) -> tuple[Any, Any]:
        value = json.get("value", {})
        source = value.get("source")
        return self._location(source) if isinstance(source, str) else source, value.get("path")

    def _location(self, source: str) -> str:
        """Return the location of a file that a link or reference names."""
        return self._resolver.locate(self._resolver.main, source)

    def _leads_to(self, one: ZarrReference, other: ZarrReference) -> bool:
        return one.node_path == other.node_path and self._location(one.source) == self._location(other.source)

    # ---- datasets ---------------------------------------------------------------------------------------------------

    def _merge_dataset(self, builder: Any, node: Any, path: str) -> None:
        if not isinstance(node, Dataset):
            raise self._conflict(path, "a group", "a dataset")
        if not self._is_written(builder) and not self._same_data(builder, path):
            raise _other_values(self._original(path).data, builder.data, self.targets.location, absolute(path))
        self._merge_attributes(builder.attributes, node, path)

    def _same_data(self, builder: Any, path: str) -> bool:
        data = stored_array(builder.data)
        if isinstance(data, LazyArray) and data.location == self.targets.location and data.path == path:
            return True
        if isinstance(data, AbstractDataChunkIterator):
            return False  # it can be read only once, so it cannot be compared
        return is_same(data, self._original(path).data)


def _named(target: ZarrReference) -> str:
    return target.path if target.source == THIS_FILE else f"{target.path} of {target.source}"
