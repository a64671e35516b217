"""`LazyContainers`: makes the containers of a file, and their builders, when they are touched.

hdmf makes the container of a group together with all that is in it. Here the groups whose members are collections or
optional fields (an ``NWBFile``, a ``ProcessingModule``, an ``LFP``) are *open* groups: hdmf's object mapper matches
their members with the schema, given one small builder for all members of one type, and the container is made without
those members that its constructor does not need. In their place it has entries that are replaced by the container of
the member when somebody asks for it. Every other group or dataset is made by hdmf with all that is in it.

Containers are hdmf's own, of their usual classes; only three of their attributes are of a subclass until all members
are made: the dictionary of fields, the dictionaries of members, and the list of children.

Source: hdmf 6.2, ``ObjectMapper.construct``, ``AbstractContainer`` and ``MultiContainerInterface``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, partial, wraps
from threading import RLock, get_ident
from typing import Any, NamedTuple

from hdmf.build import BuildManager, ConstructError, DatasetBuilder, GroupBuilder
from hdmf.container import AbstractContainer
from hdmf.spec import GroupSpec
from hdmf.utils import LabelledDict, get_docval

from hdmf_zarr_backend.encoding.references import ZarrReference, decode_attribute_reference
from hdmf_zarr_backend.encoding.reserved import TYPE_KEYS, data_type_of
from hdmf_zarr_backend.errors import DamagedFileError, LimitError, StoreError, ZarrBackendError
from hdmf_zarr_backend.hdmf.assembler import Assembler, add_member, make_dataset, make_group, set_link, taken
from hdmf_zarr_backend.hdmf.internals import (
    can_wait_for_members,
    children_of,
    collections_of,
    constructor_arguments,
    is_read_from_fields,
    new_container,
    resolve_parents,
    set_children,
    set_fields,
)
from hdmf_zarr_backend.hdmf.namespaces import is_registered, version_conflicts
from hdmf_zarr_backend.hdmf.schema import TypeCheck, container_error, restore_types
from hdmf_zarr_backend.hdmf.targets import ROOT
from hdmf_zarr_backend.model.nodes import (
    Attributes,
    Group,
    Hierarchy,
    absolute,
    gc_paused,
    join,
    limited_nesting,
    relative,
    split,
)

CONSTRUCTION_ERRORS = (ConstructError, ValueError, TypeError, KeyError, AttributeError, IndexError)
"""What hdmf raises while it makes containers."""


@contextmanager
def construction_errors(builder: Any, source: str, catalog: Any, hierarchy: Hierarchy | None) -> Iterator[None]:
    """Raise a `ContainerError` for what hdmf raises while it makes the container of ``builder``."""
    try:
        with limited_nesting(builder, store=source, doing="read"):
            yield
    except ZarrBackendError:
        raise
    except CONSTRUCTION_ERRORS as error:
        if isinstance(error.__cause__, ZarrBackendError):  # its own message names what is wrong, and where
            raise error.__cause__ from None
        conflicts = [] if hierarchy is None else version_conflicts(catalog, hierarchy)
        raise container_error(error, builder, source, conflicts) from error


# ---- builders -------------------------------------------------------------------------------------------------------


def _completed(name: str, doc: str) -> Any:
    """Return a property of an open group whose builders are made before it is read."""

    def value(builder: Any) -> Any:
        builder.file.complete()
        return getattr(builder, name)  # it is a plain builder now

    return property(value, doc=doc)


class OpenGroupBuilder(GroupBuilder):  # type: ignore[misc]
    """The builder of an open group: the builders of its members are made when one of them is asked for."""

    file: LazyAssembler

    groups = _completed("groups", "The subgroups.")
    datasets = _completed("datasets", "The datasets.")
    links = _completed("links", "The links.")
    obj_type = _completed("obj_type", "The kind of each member and attribute, by name.")


@dataclass(eq=False, repr=False)
class LazyAssembler(Assembler):
    """Makes the builders of one file, each together with all that is below it, but those of open groups alone.

    A *unit* is the path of a member of an open group that is not one itself.
    """

    is_open_type: Callable[[Any, Any], bool] = field(init=False)  # of a type, given as namespace and name
    on_made: Callable[[list[str]], None] = field(init=False)  # receives the paths of the builders that were made
    needed: dict[str, list[str]] = field(default_factory=dict, init=False)
    """By unit, the units that its links and references lead to."""
    lock: Any = field(default_factory=RLock, init=False)  # held by the thread that makes builders or containers
    _open_groups: dict[str, OpenGroupBuilder] = field(default_factory=dict, init=False)
    _is_complete: bool = field(default=False, init=False)

    def is_open(self, node: Any) -> bool:
        """Return whether the node, a member of an open group, is an open group too."""
        if not isinstance(node, Group):
            return False
        data_type = data_type_of(node)
        return data_type is None or self.is_open_type(node.attributes.get("namespace"), data_type)

    def unit_of(self, path: str) -> str | None:
        """Return the unit that the node at ``path`` belongs to; None for an open group."""
        node: Any = self.hierarchy.root
        place = ""
        for part in path.split("/") if path else ():
            node, place = node.members[part], join(place, part)
            if not self.is_open(node):
                return place
        return None

    def members(self, path: str) -> Iterator[tuple[str, Any]]:
        """Yield path and node of each member of a group, by name, without the cached specifications."""
        node = self.hierarchy.get(path)
        assert isinstance(node, Group)
        for name in sorted(node.members):
            if not self._is_hidden(join(path, name)):
                yield join(path, name), node.members[name]

    def open_group(self, path: str) -> Any:
        """Return the builder of an open group."""
        if path not in self.builders:
            node = self.hierarchy.get(path)
            assert isinstance(node, Group)
            pending: list[tuple[str, str, Any]] = []
            attributes = self._attributes(path, node, pending)
            builder = make_group(split(path)[1] or ROOT, {}, attributes, self.source)
            if path:
                builder.parent = self.open_group(split(path)[0])
                builder.location = absolute(split(path)[0])
            self.builders[path] = builder
            self._fill([], pending)
            self._check_left_out([path], strict=False)  # an open group is needed for all others
            builder.__class__ = OpenGroupBuilder
            builder.file = self
            self._open_groups[path] = builder
        return self.builders[path]

    def root(self) -> Any:
        """Return the builder of the root with all that is below it, always the same one."""
        self.complete()
        return self.builders[""]

    def _built(self, path: str) -> Any:
        unit = self.unit_of(path)
        if unit is None:
            return self.open_group(path)
        self.assemble([unit])
        return self.builders[path]

    def assemble(self, units: Iterable[str]) -> None:
        """Make the builders of units, and of all other units that their links and references lead to."""
        todo = [unit for unit in dict.fromkeys(units) if unit not in self.builders]
        nodes: list[tuple[str, Any]] = []
        pending: list[tuple[str, str, Any]] = []
        with self._making() as made:
            while todo:
                found = [node for unit in todo for node in self._below(unit)]
                new = self._make(found, made)
                for unit in todo:
                    self.builders[unit].parent = self.open_group(split(unit)[0])
                    self.needed[unit] = []
                nodes += found
                pending += new
                todo = self._next_units(found, new)
            self._fill(nodes, pending)
        if made:
            self.on_made([path for path in made if path in self.builders])

    def _next_units(self, nodes: list[tuple[str, Any]], pending: list[tuple[str, str, Any]]) -> list[str]:
        """Return the units that links and references of ``nodes`` lead to and that have no builders yet."""
        missing: dict[str, None] = {}
        for path, reference in self._targets(nodes, pending):
            place = self.place_of(reference)
            unit, target = self.unit_of(path), None if place is None else self.unit_of(place)
            if target is not None and unit is not None and target != unit:
                self.needed[unit].append(target)
                if target not in self.builders:
                    missing[target] = None
        return list(missing)

    def _targets(
        self, nodes: list[tuple[str, Any]], pending: list[tuple[str, str, Any]]
    ) -> Iterator[tuple[str, ZarrReference]]:
        for path, _, value in pending:
            for item in value if isinstance(value, list) else [value]:
                try:
                    yield path, decode_attribute_reference(item.json)
                except DamagedFileError:
                    continue  # a warning where it is filled in
        for path, node in nodes:
            if path in self._scalar_references:
                yield path, self._scalar_references[path]
            if isinstance(node, Group):
                for link in self.file.links(path, node):
                    yield path, link.target

    def place_of(self, reference: ZarrReference) -> str | None:
        """Return the path in this file that a reference leads to, None where it leads elsewhere or to nothing."""
        try:
            if self.resolver.locate(self.file, reference.source) != self.source:
                return None  # without opening the other file, which a lazy reader may never need
            file, place = self.locate(reference.source, reference.node_path)
        except (DamagedFileError, LimitError, StoreError, OSError):
            return None  # a warning where it is filled in
        return place if file is self else None

    def _leave_out(self, path: str) -> None:
        if isinstance(self.builders[split(path)[0]], OpenGroupBuilder):
            del self.builders[path]
        else:
            super()._leave_out(path)

    def complete(self) -> None:
        """Make all builders that are missing."""
        with self.lock:
            if self._is_complete:  # by another thread
                return
            groups, units, stack = [""], [], [""]
            while stack:
                for place, node in self.members(stack.pop()):
                    if self.is_open(node):
                        groups.append(place)
                        stack.append(place)
                    else:
                        units.append(place)
            for place in groups:
                self.open_group(place)
            self.assemble(units)
            for builder in self._open_groups.values():
                builder.__class__ = GroupBuilder
            self._is_complete = True
            for path in groups:
                self._fill_group(path)

    def _fill_group(self, path: str) -> None:
        builder, node = self.builders[path], self.hierarchy.get(path)
        for place, _ in self.members(path):
            if place in self.builders:
                add_member(builder, split(place)[1], self.builders[place])
        if isinstance(node, Group):
            self.set_links(builder, path, self.file.links(path, node))


# ---- what a container has in the place of members -------------------------------------------------------------------


@dataclass(slots=True, eq=False)
class Entry:
    """A member of a container that is not made yet."""

    file: LazyContainers
    path: str


def _make_before(base: Any, *names: str) -> Callable[[type], type]:
    """Let methods of a class make the members that they need, and then do what those of ``base`` do."""

    def method(name: str) -> Any:
        def call(self: Any, *arguments: Any) -> Any:
            if name in ("pop", "__delitem__"):
                self.get(arguments[0])
            else:
                self._make_all()
            return getattr(base, name)(self, *arguments)

        return wraps(getattr(base, name))(call)

    def add(cls: type) -> type:
        for name in names:
            setattr(cls, name, method(name))
        return cls

    return add


@_make_before(dict, "__eq__", "__repr__", "__or__", "__ror__")
class _Lazy(dict):  # type: ignore[type-arg]
    """A dictionary some of whose values are entries, which are replaced by the containers on the first access."""

    def _made(self, key: Any, value: Any) -> Any:
        if type(value) is Entry:
            if value.file.hides(value.path):
                return None
            value = value.file.container_at(value.path)
            dict.__setitem__(self, key, value)
        return value

    def _make_all(self) -> None:
        entries = [(key, value) for key, value in dict.items(self) if type(value) is Entry]
        if entries:
            entries[0][1].file.make([value.path for _, value in entries])
            for key, value in entries:
                self._made(key, value)

    def _seen(self) -> dict[Any, Any]:
        """Return the members, all of them made; those that are hidden from this thread are left out."""
        if any(type(value) is Entry and value.file.hides(value.path) for value in dict.values(self)):
            made = [(key, self._made(key, value)) for key, value in dict.items(self)]
            return {key: value for key, value in made if value is not None}
        self._make_all()
        return self

    def __getitem__(self, key: Any) -> Any:
        return self._made(key, dict.__getitem__(self, key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of ``key``."""
        return self._made(key, dict.get(self, key, default))

    def __iter__(self) -> Iterator[Any]:
        return dict.__iter__(self)  # its presence makes Python copy the dictionary by way of these methods

    def values(self) -> Any:
        """Return the values, all of them made."""
        return dict.values(self._seen())

    def items(self) -> Any:
        """Return names and values, all of them made."""
        return dict.items(self._seen())

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def copy(self) -> Any:
        """Return a plain dictionary with the same values."""
        return dict(self.items())


@_make_before(dict, "pop", "popitem")
class LazyFields(_Lazy):
    """The fields of a container."""

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a field, which is set where it is missing."""
        return self[key] if key in self else dict.setdefault(self, key, default)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (self.copy(),)


@_make_before(LabelledDict, "pop", "popitem", "clear", "__delitem__", "__reduce_ex__")
class LazyMembers(_Lazy, LabelledDict):  # type: ignore[misc]
    """The members of a container by name; a plain ``LabelledDict`` once all of them are made."""

    def _make_all(self) -> None:
        super()._make_all()
        self.__class__ = LabelledDict

    def __getitem__(self, key: Any) -> Any:
        if key in self:
            return self._made(key, dict.__getitem__(self, key))
        self._make_all()  # the key may be a query
        return LabelledDict.__getitem__(self, key)


@_make_before(list, "__iter__", "__len__", "__getitem__")
class LazyList(list):  # type: ignore[type-arg]
    """A list of containers, all of which are made by ``make`` when somebody looks at it."""

    make: Callable[[], None]

    def _make_all(self) -> None:
        self.make()

    def __contains__(self, item: object) -> bool:
        return any(each is item or each == item for each in self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(iter(self)),)


# ---- containers -----------------------------------------------------------------------------------------------------


class LazyBuildManager(BuildManager):  # type: ignore[misc]
    """A build manager that has the containers of lazy files made before it forgets those that it knows."""

    files: list[LazyContainers]

    @classmethod
    def serve(cls, manager: Any, file: LazyContainers) -> bool:
        """Let ``manager`` be the manager of a lazy file; False if it is of a class of the user."""
        if type(manager) is BuildManager:
            manager.__class__ = cls
            manager.files = []
        if not isinstance(manager, cls):
            return False
        manager.files.append(file)
        return True

    def clear_cache(self) -> None:
        """Forget all builders and containers, as hdmf does to build containers again for an export."""
        for file in self.files:
            file.make_everything()
        super().clear_cache()


def _migrate(path: str, builder: Any) -> None:
    """Give builders of old files the types that pynwb gives them (``pynwb.io.file.NWBFileMap.construct``)."""
    attributes, data_type = builder.attributes, data_type_of(builder)
    if path == "general/extracellular_ephys/electrodes" and data_type != "ElectrodesTable":
        attributes["neurodata_type"], attributes["namespace"] = "ElectrodesTable", "core"
    if data_type == "DecompositionSeries" and attributes.get("namespace") == "core":
        bands = getattr(builder, "groups", {}).get("bands")  # a dataset, in a damaged file, has none
        if bands is not None and data_type_of(bands) == "DynamicTable":
            bands.attributes.update(neurodata_type="FrequencyBandsTable", namespace="core")


class _Member(NamedTuple):
    """A member of an open group that hdmf's mapper has matched with an argument of the constructor."""

    path: str
    spec: Any
    is_link: bool


class _Matched:
    """The members of an open group as hdmf's mapper sees them, with one small builder for all that are alike."""

    def __init__(self) -> None:
        self._paths: dict[int, list[str]] = {}
        self._links: set[int] = set()

    def add(self, path: str, node: Any, *, is_link: bool = False) -> Any:
        """Return a small builder for the node at ``path``; it may be there for others too, see `join`."""
        builder = _small_builder(path, node)
        self._paths[id(builder)] = [path]
        if is_link:
            self._links.add(id(builder))
        return builder

    def join(self, builder: Any, path: str) -> None:
        """Let a small builder be there for another member as well."""
        self._paths[id(builder)].append(path)

    def members(self, value: Any) -> list[_Member] | None:
        """Return the members in the value of an argument; None where it has others, or none."""
        values = _listed(value)
        if not values or not all(id(each) in self._paths for each in values):
            return None
        ranks: dict[int, int] = {}
        found = []
        rank = 0
        for each in values:
            spec, is_link = each.matched_spec, id(each) in self._links
            if spec is None or spec.name is None:  # hdmf lists what is of one type of the schema by name
                rank = ranks.setdefault(id(spec), len(ranks))
            found += [((rank, is_link, split(path)[1]), _Member(path, spec, is_link)) for path in self._paths[id(each)]]
        return [member for _, member in sorted(found, key=lambda each: each[0])]

    def has(self, value: Any) -> bool:
        """Return whether there is a builder in the value of an argument."""
        return any(isinstance(each, (GroupBuilder, DatasetBuilder)) for each in _listed(value))


_SHARED = {"data": "data_link", "timestamps": "timestamp_link"}
"""Datasets of a series that can be links to those of another, and pynwb's field of the other that lists the series."""


def _small_builder(path: str, node: Any) -> Any:
    """Return a builder that has the type of the node at ``path``, and nothing in it."""
    parent, name = split(path)
    typed = {key: node.attributes.get(key) for key in (*TYPE_KEYS, "namespace")}
    attributes = {key: value for key, value in typed.items() if isinstance(value, str)}
    if isinstance(node, Group):
        builder = make_group(name, {}, attributes, "")
    else:
        builder = make_dataset(name, None, None, attributes, "")
    builder.location = absolute(parent)
    return builder


class LazyContainers:
    """Makes the containers of one file when they are touched."""

    def __init__(self, file: LazyAssembler, manager: Any, on_made: Callable[[list[str]], None]) -> None:
        self._file = file
        self._notify = on_made
        self._manager = manager
        self._lock = file.lock
        self._homes: dict[str, tuple[Any, Any]] = {}  # of members without a container: their parent and subspec
        self._children: dict[int, list[Any]] = {}  # paths, and containers that were made with their parent
        self._made: dict[str, Any] = {}
        self._making: set[str] = set()  # hdmf asks for what is in them, or for them, while it makes them
        self._above: dict[int, Any] = {}
        self._hidden_from: int | None = None
        self._check = TypeCheck(manager.namespace_catalog, file.source)
        file.is_open_type = cache(self._can_be_open)
        file.on_made = self._on_made

    def _errors(self, builder: Any) -> AbstractContextManager[None]:
        catalog, hierarchy = self._manager.namespace_catalog, self._file.hierarchy
        return construction_errors(builder, self._file.source, catalog, hierarchy)

    def are_lazy(self) -> bool:
        """Return whether the container of the root can be made without its members."""
        root = self._file.hierarchy.root
        data_type = data_type_of(root)
        with self._errors(make_group(ROOT, {}, {}, "")):
            is_open = data_type is not None and self._file.is_open_type(root.attributes.get("namespace"), data_type)
        return is_open and LazyBuildManager.serve(self._manager, self)

    def hides(self, path: str) -> bool:
        """Return whether the member at ``path`` is not made and hidden from this thread."""
        return self._hidden_from == get_ident() and path not in self._made

    @contextmanager
    def only_made(self) -> Iterator[list[tuple[Any, str, Any]]]:
        """Hide the members that are not made from this thread; give the container, path and builder of each.

        Those that the schema requires are made before, and those that are links, whose builders are elsewhere.
        """
        with self._lock:
            self._file.complete()
            for home, path in self._unmade():
                home_of, spec = self._homes.get(path, (None, None))
                if home_of is not home or spec is None or spec.required:
                    self.container_at(path)
            unmade = self._unmade()
            self._hidden_from = get_ident()
            try:
                yield [(home, path, self._file.builder_at(path)) for home, path in unmade]
            finally:
                self._hidden_from = None

    def _unmade(self) -> list[tuple[Any, str]]:
        """Return the container and the path of each member that is not made."""
        homes = {id(home): home for home, _ in self._homes.values()}.values()
        return [(home, entry.path) for home in homes for entry in _entries(home) if entry.path not in self._made]

    def make_everything(self) -> None:
        """Make all containers, if that of the root was made."""
        if "" in self._made:
            self._made[""].all_children()

    def _can_be_open(self, namespace: Any, data_type: Any) -> bool:
        if not is_registered(self._manager.namespace_catalog, namespace, data_type):
            return False
        builder = make_group("a group", {}, dict.fromkeys(TYPE_KEYS, data_type) | {"namespace": namespace}, "")
        return can_wait_for_members(self._manager.get_cls(builder), self._manager.type_map.get_map(builder))

    def _on_made(self, paths: list[str]) -> None:
        """Do what is done once for each builder that was read: types that JSON lacks, old files, and checks."""
        for path in paths:
            builder = self._file.builders[path]
            restore_types(builder, self._file.hierarchy.get(path), self._manager.namespace_catalog)
            _migrate(path, builder)
            self._check.builder(builder)
        self._notify(paths)

    # ---- making -----------------------------------------------------------------------------------------------------

    @gc_paused()
    def root(self) -> Any:
        """Return the container of the root."""
        with self._lock:
            if "" not in self._made:
                self._file.open_group("")
                with self._errors(self._file.builders[""]):
                    self._made[""] = self._open_container("", None)
            return self._made[""]

    def container(self, builder: Any) -> Any:
        """Return the container of a builder of this file, or of one that it links to."""
        path = relative("" if builder.location is None else join(relative(builder.location), builder.name))
        if builder.source == self._file.source and self._file.builders.get(path) is builder:
            return self.container_at(path)
        return self._manager.construct(builder)

    def container_at(self, path: str) -> Any:
        """Return the container of the node at ``path``, which has a type."""
        found = self._made.get(path)
        if found is None:
            self.make([path])
            with self._lock:
                found = self._made.get(path)
                if found is None:
                    found = self._manager.construct(self._file.builder_at(path))
        return found

    def make_children(self, home: Any) -> None:
        """Make all members of a container that are its children."""
        with self._lock:
            members = self._children.get(id(home), ())
            self.make([member for member in members if member in self._homes])
            children = children_of(home)
            if isinstance(children, LazyList):
                ordered = [self._made[member] if isinstance(member, str) else member for member in members]
                known = {id(child): child for child in list.__iter__(children)}
                ordered = [known.pop(id(child)) for child in ordered if id(child) in known]
                set_children(home, [*ordered, *known.values()])  # what the user has added comes last
                del self._children[id(home)]

    @gc_paused()
    def make(self, paths: Sequence[str]) -> None:
        """Make the containers of the nodes at ``paths``, and those of all that their links and references lead to."""
        with self._lock:
            before, self._above = self._above, {}
            try:
                for path in paths:
                    self._make_down_to(split(path)[0])
                units = [path for path in paths if path in self._homes and self._file.unit_of(path) == path]
                self._file.assemble(units)  # all at once
                for path in (*self._in_order(units), *paths):
                    self._make_down_to(path)
            finally:  # hdmf takes the parent of a new container for modified, up to the root
                for each in self._above.values():
                    if each is not None:
                        each.set_modified(False)
                self._above = before

    def _make_down_to(self, path: str) -> None:
        """Make the members of open groups on the way to the node at ``path``, and the node if it is one."""
        place = ""
        for part in path.split("/"):
            place = join(place, part)
            if place in self._homes and place not in self._making:
                self._make_member(place)

    def _in_order(self, units: Sequence[str]) -> list[str]:
        """Return ``units`` and all that they need, each after what it needs."""
        needed = self._file.needed
        ordered: list[str] = []
        seen: set[str] = set()
        stack = [(unit, False) for unit in reversed(units)]
        while stack:
            unit, is_left = stack.pop()
            if is_left:
                ordered.append(unit)
            elif unit not in seen:
                seen.add(unit)
                stack.append((unit, True))
                stack.extend((other, False) for other in reversed(needed.get(unit, [])))
        return ordered

    def _make_member(self, path: str) -> None:
        home, spec = self._homes[path]
        here = home
        while here is not None and id(here) not in self._above:
            self._above[id(here)] = None if here.modified else here
            here = here.parent
        builder = self._file.builder_at(path)
        if spec is not None and builder.matched_spec is None:
            builder.matched_spec = spec
        self._making.add(path)
        try:
            with self._errors(builder):
                if isinstance(builder, OpenGroupBuilder):
                    container = self._open_container(path, home)
                else:
                    container = self._manager.construct(builder)
                    container.parent = home
                    resolve_parents(container)
        finally:
            self._making.remove(path)
        self._made[path] = container
        del self._homes[path]
        if self._sharing.get(path):
            self._list_sharing(path)

    @cached_property
    def _sharing(self) -> dict[str, dict[tuple[str, str], list[str]]]:
        """By unit, the series in it whose data others share: path and field of pynwb -> the units of the others."""
        file = self._file
        found: dict[str, dict[tuple[str, str], list[str]]] = {}
        stack: list[tuple[str, Any]] = [("", file.hierarchy.root)]
        while stack:
            path, node = stack.pop()
            stack.extend((join(path, name), each) for name, each in node.members.items() if isinstance(each, Group))
            for place, attribute in self._shared_places(path, node):
                unit, other = file.unit_of(place), file.unit_of(path)
                if unit is not None and other is not None:
                    found.setdefault(unit, {}).setdefault((split(place)[0], attribute), []).append(other)
        return found

    def _shared_places(self, path: str, node: Any) -> list[tuple[str, str]]:
        """Return the datasets of other series that a series links to, each with the field of pynwb that lists it."""
        if data_type_of(node) is None:
            return []
        try:
            links = self._file.file.links(path, node)
        except ZarrBackendError:
            return []  # raised where the group is made
        places = [(self._file.place_of(link.target), _SHARED[link.name]) for link in links if link.name in _SHARED]
        return [(place, field) for place, field in places if place is not None]

    def _list_sharing(self, unit: str) -> None:
        """Put the lists of those that share their data into the series of a unit; their members are made on use."""
        for (path, attribute), others in self._sharing[unit].items():
            container = self._manager.construct(self._file.builder_at(path))
            if hasattr(type(container), attribute):
                links = LazyList(container.fields.get(attribute, ()))
                links.make = partial(self._make_sharing, list(others))
                container.fields[attribute] = links

    def _make_sharing(self, paths: list[str]) -> None:
        """Make the series that share data, whose constructors append them to the list of the shared series."""
        todo = paths.copy()
        paths.clear()  # before they look at the list
        self.make(todo)

    def _open_container(self, path: str, home: Any) -> Any:
        """Return the container of an open group, without the members that its constructor does not need."""
        builder = self._file.open_group(path)
        cls, mapper = self._manager.get_cls(builder), self._manager.type_map.get_map(builder)
        matched = _Matched()
        seen = self._matched_builder(path, mapper.spec, matched)
        builder.attributes.update(seen.attributes)
        given = constructor_arguments(mapper, seen, self._manager.type_map, cls)
        described = {each["name"]: each for each in get_docval(cls.__init__)}
        arguments: dict[str, Any] = {}
        later: dict[str, list[_Member]] = {}
        at_once: list[str] = []
        for name, value in given.items():
            members = matched.members(value)
            if members is not None and self._can_wait(cls, described[name], members, is_one=not _is_list(value)):
                later[name] = members
            else:
                arguments[name] = self._all_made(value, matched, at_once) if matched.has(value) else value
        container = new_container(mapper, cls, builder, home, arguments)
        self._manager.prebuilt(container, builder)
        resolve_parents(container)
        self._defer(container, later, given, arguments)
        container.set_modified(False)
        self.make([other for unit in at_once for other in self._file.needed.get(unit, ()) if other in self._homes])
        return container

    def _matched_builder(self, path: str, spec: GroupSpec | None, matched: _Matched) -> Any:
        """Return a builder of an open group for hdmf's mapper; what is put into it has no builders of its members."""
        file = self._file
        node = file.hierarchy.get(path)
        assert isinstance(node, Group)
        for name in node.members.keys() & node.attributes.keys():
            raise taken(name, store=file.source, path=path)
        open_groups: dict[str, Any] = {}
        typed: dict[str, Any] = {}
        plain: list[str] = []
        named = _named(spec)
        alike: dict[Any, Any] = {}
        for place, child in file.members(path):
            name, data_type, is_group = split(place)[1], data_type_of(child), isinstance(child, Group)
            of_type = (child.attributes.get("namespace"), data_type, is_group)
            if data_type is None and is_group:
                open_groups[name] = self._matched_builder(place, spec.get_group(name) if spec else None, matched)
            elif data_type is None:
                plain.append(place)
            elif name not in named and of_type in alike:
                matched.join(alike[of_type], place)
            else:
                small = typed[name] = matched.add(place, child)
                self._check.builder(small)
                if name not in named and self._check.is_known(small):
                    alike[of_type] = small
        file.assemble(plain)
        datasets = {split(place)[1]: file.builders[place] for place in plain if place in file.builders}
        members = {**open_groups, **typed, **datasets}
        builder = make_group(split(path)[1] or ROOT, members, file.open_group(path).attributes, file.source)
        if path:
            builder.location = absolute(split(path)[0])
        self._add_links(path, node, builder, matched)
        restore_types(builder, node, self._manager.namespace_catalog)
        self._check.builder(builder)
        return builder

    def _add_links(self, path: str, node: Group[Attributes], builder: Any, matched: _Matched) -> None:
        others = []
        for link in self._file.file.links(path, node):
            if link.name in node.attributes:
                raise taken(link.name, store=self._file.source, path=path)
            place = self._file.place_of(link.target)
            target = None if place is None else self._file.hierarchy.get(place)
            if place is None or target is None or data_type_of(target) is None:
                others.append(link)
            else:
                self._file.check_ids(link.target, target.attributes.get("object_id"), self._file)
                small = matched.add(place, target, is_link=True)
                set_link(builder, link.name, small, path=absolute(path))
        self._file.set_links(builder, path, others)

    def _can_wait(self, cls: Any, described: dict[str, Any], members: list[_Member], *, is_one: bool) -> bool:
        """Return whether a container can be made without some members, which are then put where it keeps them."""
        name = described["name"]
        if not is_one:
            names = [split(member.path)[1] for member in members]
            return (
                name in collections_of(cls) and len({*names}) == len(names) and not any("==" in each for each in names)
            )
        field: Any = next((each for each in cls.get_fields_conf() if each["name"] == name), {})
        path = members[0].path
        small = _small_builder(path, self._file.hierarchy.get(path))
        _migrate(path, small)
        return (
            bool(field.get("child"))
            and field.get("required_name") in (None, split(path)[1])
            and is_read_from_fields(cls, name)
            and described.get("default", "") is None
            and isinstance(described["type"], type)
            and issubclass(self._manager.get_cls(small), described["type"])
        )

    def _all_made(self, value: Any, matched: _Matched, at_once: list[str]) -> Any:
        """Return the value of an argument with containers for its builders; ``at_once`` receives their paths."""
        if not _is_list(value):
            return self._all_made([value], matched, at_once)[0]
        made = []
        for each in value:
            members = matched.members(each)
            if members is None:
                made.append(self._manager.construct(each))
                continue
            self._file.assemble([member.path for member in members if self._file.unit_of(member.path) is not None])
            at_once += [member.path for member in members]
            for member in members:
                builder = self._file.builder_at(member.path)
                if builder.matched_spec is None and not member.is_link:
                    builder.matched_spec = member.spec
                made.append(self._manager.construct(builder))
        return made

    def _defer(
        self, container: Any, later: dict[str, list[_Member]], given: dict[str, Any], arguments: dict[str, Any]
    ) -> None:
        """Put entries into a container in the place of members that were left out."""
        fields: dict[str, Any] = {}
        for name, members in later.items():
            entries = {split(member.path)[1]: Entry(self, member.path) for member in members}
            if _is_list(given[name]):
                collection = getattr(container, name)
                collection.__class__ = LazyMembers
                for key, entry in entries.items():
                    dict.__setitem__(collection, key, entry)
            else:
                fields[name] = next(iter(entries.values()))
        if fields:
            set_fields(container, LazyFields({**container.fields, **fields}))
        if later:
            made = LazyList(container.children)
            made.make = partial(self.make_children, container)
            set_children(container, made)
            self._children[id(container)] = self._ordered_children(container, later, arguments)

    def _ordered_children(
        self, container: Any, later: dict[str, list[_Member]], arguments: dict[str, Any]
    ) -> list[Any]:
        """Return the children of a container in hdmf's order, of those that are not made the path."""
        children: dict[Any, None] = {}
        for name in sorted({*later, *arguments}, key=lambda name: _ORDER.get(name, len(_ORDER))):
            for member in later.get(name, ()):
                if not member.is_link:
                    self._homes.setdefault(member.path, (container, member.spec))
                    children[member.path] = None
            values = _listed(arguments.get(name))
            children |= dict.fromkeys(each for each in values if isinstance(each, AbstractContainer))
        return list(children)


_ORDER = {name: place for place, name in enumerate((
    "icephys_electrodes", "acquisition", "analysis", "stimulus", "stimulus_template", "processing", "electrodes",
    "electrode_groups", "devices", "device_models", "imaging_planes", "ogen_sites", "intervals", "events", "subject",
    "sweep_table", "lab_meta_data", "epochs", "trials", "invalid_times", "units", "scratch", "intracellular_recordings",
    "icephys_simultaneous_recordings", "icephys_sequential_recordings", "icephys_repetitions",
    "icephys_experimental_conditions",
))}  # fmt: skip
"""The order in which the constructor of ``pynwb.NWBFile`` takes its members, which is that of its children."""


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple))


def _listed(value: Any) -> Any:
    """Return the value of an argument as a list."""
    return value if _is_list(value) else [value]


def _named(spec: GroupSpec | None) -> set[str]:
    """Return the names that the members of a group have in the schema."""
    return set() if spec is None else {each.name for each in (*spec.groups, *spec.datasets, *spec.links) if each.name}


def _entries(container: Any) -> list[Entry]:
    """Return what a container has in the place of members that are not made."""
    groups = [container.fields, *(getattr(container, name) for name in collections_of(type(container)))]
    return [each for group in groups for each in dict.values(group) if type(each) is Entry]
