"""`LazyContainers`: creates the containers of a file, and their builders, when they are accessed.

hdmf creates the container of a group together with all that is in it. Here the groups whose members are collections or
optional fields (an ``NWBFile``, a ``ProcessingModule``, an ``LFP``) are *open* groups: hdmf's object mapper matches
their members with the schema, given one small builder for all members of one type, and the container is created without
those members that its constructor does not need. It has an entry for each, which the container of the member replaces
on the first access. Every other group or dataset is created by hdmf with all that is in it.

Source: hdmf 6.2, ``ObjectMapper.construct``, ``AbstractContainer`` and ``MultiContainerInterface``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache, cached_property, partial, wraps
from itertools import accumulate
from operator import itemgetter
from threading import RLock, get_ident
from typing import Any, NamedTuple

from hdmf.build import BuildManager, ConstructError, DatasetBuilder, GroupBuilder
from hdmf.container import AbstractContainer
from hdmf.spec import GroupSpec
from hdmf.utils import LabelledDict, get_docval

from hdmf_zarr_backend.encoding.references import ZarrReference, decode_attribute_reference
from hdmf_zarr_backend.encoding.reserved import LINKS, TYPE_KEYS, data_type_of
from hdmf_zarr_backend.errors import DamagedFileError, LimitError, StoreError, ZarrBackendError
from hdmf_zarr_backend.hdmf import internals
from hdmf_zarr_backend.hdmf.assembler import Assembler, add_member, make_dataset, make_group, set_link, taken_error
from hdmf_zarr_backend.hdmf.namespaces import is_registered, version_conflicts
from hdmf_zarr_backend.hdmf.schema import TypeCheck, container_error, restore_types
from hdmf_zarr_backend.model.nodes import Group, Hierarchy, absolute, gc_paused, join, limited_nesting, relative, split

# hdmf wraps what a constructor raises in a ConstructError, but not what its mappers raise.
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
    """Return a property of an open group whose builders are created before it is read."""

    def value(builder: Any) -> Any:
        builder.file.complete()
        return getattr(builder, name)  # it is a plain builder now

    return property(value, doc=doc)


class OpenGroupBuilder(GroupBuilder):  # type: ignore[misc]
    """The builder of an open group: the builders of its members are created when one of them is asked for."""

    file: LazyAssembler

    groups = _completed("groups", "The subgroups.")
    datasets = _completed("datasets", "The datasets.")
    links = _completed("links", "The links.")
    obj_type = _completed("obj_type", "The kind of each member and attribute, by name.")


@dataclass(eq=False, repr=False)
class LazyAssembler(Assembler):
    """Makes builders, each with all below it. A *unit* is the path of a member of an open group that is not one."""

    is_open_type: Callable[[Any, Any], bool] = field(init=False)  # of a type, given as namespace and name
    needed: dict[str, list[str]] = field(default_factory=dict, init=False)
    """By unit, the units that its links and references lead to."""
    lock: Any = field(default_factory=RLock, init=False)  # held by the thread that makes builders or containers

    _is_complete: bool = field(default=False, init=False)

    def is_open(self, node: Any) -> bool:
        """Return whether the node, a member of an open group, is an open group too."""
        if not isinstance(node, Group):
            return False
        data_type = data_type_of(node)
        # a group without a type has no container: its members are those of the container above
        return data_type is None or self.is_open_type(node.attributes.get("namespace"), data_type)

    def unit_of(self, path: str) -> str | None:
        """Return the unit that the node at ``path`` belongs to; None for an open group."""
        node: Any = self.hierarchy.root
        prefix = ""
        for part in path.split("/") if path else ():
            node, prefix = node.members[part], join(prefix, part)
            if not self.is_open(node):
                return prefix
        return None

    def members(self, path: str) -> Iterator[tuple[str, Any]]:
        """Yield path and node of each member of a group, by name, without the cached specifications."""
        for name, node in sorted(self.hierarchy.group(path).members.items()):
            if not self._is_hidden(join(path, name)):
                yield join(path, name), node

    def open_group(self, path: str) -> Any:
        """Return the builder of an open group."""
        if path not in self.builders:
            pending: list[tuple[str, str, Any]] = []
            attributes = self._attributes(path, self.hierarchy.group(path), pending)
            builder = make_group(path, {}, attributes, self.source)
            if path:
                builder.parent = self.open_group(split(path)[0])
            self.builders[path] = builder  # already here: its references may lead to it
            try:
                self._fill([], pending)
                self._check_left_out([path], strict=False)  # an open group is needed for all others
            except BaseException:
                del self.builders[path]
                raise
            # hdmf reads the members of a builder through its properties only; the class of an instance is all that has
            # to change for them to be created on use
            builder.__class__ = OpenGroupBuilder
            builder.file = self
        return self.builders[path]

    def root(self) -> Any:
        """Return the builder of the root with all that is below it, always the same one."""
        self.complete()
        return self.builders[""]

    def _built(self, path: str) -> Any:
        unit = self.unit_of(path)
        if unit is None:
            return self.open_group(path)
        self.assemble([unit])  # with all that is in it, as hdmf constructs it with all that is in it
        return self.builders[path]

    def assemble(self, units: Iterable[str]) -> None:
        """Make the builders of units, and of all other units that their links and references lead to."""
        todo = [unit for unit in dict.fromkeys(units) if unit not in self.builders]
        nodes: list[tuple[str, Any]] = []
        pending: list[tuple[str, str, Any]] = []
        with self._building() as paths:
            while todo:
                below = [node for unit in todo for node in self._below(unit)]
                attributes = self._build(below, paths)
                for unit in todo:
                    self.builders[unit].parent = self.open_group(split(unit)[0])
                    self.needed[unit] = []
                nodes += below
                pending += attributes
                missing: dict[str, None] = {}  # the units that these lead to and that have no builders yet
                for path, reference in self._targets(below, attributes):
                    own, target = self.unit_of(path), self.unit_of(self.target_path(reference) or "")
                    if own is not None and target is not None and target != own:
                        self.needed[own].append(target)
                        if target not in self.builders:
                            missing[target] = None
                todo = list(missing)
            self._fill(nodes, pending)

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
            if isinstance(waiting := self._scalars.get(path), ZarrReference):
                yield path, waiting
            if isinstance(node, Group):
                for link in self.file.links(path, node):
                    yield path, link.target

    def target_path(self, reference: ZarrReference) -> str | None:
        """Return the path in this file that a reference leads to, None where it leads elsewhere or to nothing."""
        try:
            if self.resolver.locate(self.file, reference.source) != self.source:
                return None  # without opening the other file, which a lazy reader may never need
            file, path = self.locate(reference.source, reference.node_path)
        except (DamagedFileError, LimitError, StoreError, OSError):
            return None  # a warning where it is filled in
        return path if file is self else None

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
            groups, units = [""], list[str]()
            for path in groups:  # it grows
                self.open_group(path)
                for member_path, node in self.members(path):
                    (groups if self.is_open(node) else units).append(member_path)
            self.assemble(units)
            try:
                for path in groups:  # before they are filled: the properties of an `OpenGroupBuilder` call `complete`
                    self.builders[path].__class__ = GroupBuilder
                for path in groups:
                    for member_path, _ in self.members(path):
                        if member_path in self.builders:
                            add_member(self.builders[path], split(member_path)[1], self.builders[member_path])
                    self.set_links(self.builders[path], path, self.file.links(path, self.hierarchy.group(path)))
            except BaseException:  # they are filled again when somebody asks for them again
                for path in groups:
                    self.builders[path].__class__ = OpenGroupBuilder
                raise
            self._is_complete = True


# ---- what a container has instead of its members -------------------------------------------------------------------
# hdmf and its users read a container through its fields, its dictionaries of members and its children. These three are
# replaced, until all members are created; the containers have their own classes.


@dataclass(slots=True, eq=False)
class Entry:
    """A member of a container that does not exist yet."""

    file: LazyContainers
    path: str


def _construct_before(base: Any, *names: str) -> Callable[[type], type]:
    """Let methods of a class construct the members that they need, and then do what those of ``base`` do."""

    def decorate(cls: type) -> type:
        for name in names:
            method = getattr(base, name)

            @wraps(method)
            def call(self: Any, *arguments: Any, name: str = name, method: Any = method) -> Any:
                if name in ("pop", "__delitem__"):
                    self.get(arguments[0])
                else:
                    self._construct_all()
                return method(self, *arguments)

            setattr(cls, name, call)
        return cls

    return decorate


@_construct_before(dict, "__eq__", "__ne__", "__repr__", "__or__", "__ror__")
class _Lazy(dict):  # type: ignore[type-arg]
    """A dictionary some of whose values are entries, which are replaced by the containers on the first access."""

    def _constructed(self, key: Any, value: Any) -> Any:
        if type(value) is Entry:  # an exact type: this is called for each access to a field
            if value.file.hides(value.path):
                return None
            value = value.file.container_at(value.path)
            dict.__setitem__(self, key, value)
        return value

    def _construct_all(self) -> None:
        entries = [(key, value) for key, value in dict.items(self) if type(value) is Entry]
        if entries:
            entries[0][1].file.construct([value.path for _, value in entries])
            for key, value in entries:
                self._constructed(key, value)

    # Hidden members: an export builds only what was touched, and takes the rest from the file. hdmf's `build` goes
    # along fields and children, and would make all members of a large file for an export that changes one.

    def _visible(self) -> dict[Any, Any]:
        """Return the members, all of them created; those that are hidden from this thread are left out."""
        if any(type(value) is Entry and value.file.hides(value.path) for value in dict.values(self)):
            members = [(key, self._constructed(key, value)) for key, value in dict.items(self)]
            return {key: value for key, value in members if value is not None}
        self._construct_all()
        return self

    def __getitem__(self, key: Any) -> Any:
        return self._constructed(key, dict.__getitem__(self, key))

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of ``key``."""
        return self._constructed(key, dict.get(self, key, default))

    def __iter__(self) -> Iterator[Any]:
        # `dict(self)` and `{**self}` copy the stored values of a subclass directly, unless it has this method
        return dict.__iter__(self)

    def values(self) -> Any:
        """Return the values, all of them created."""
        return dict.values(self._visible())

    def items(self) -> Any:
        """Return names and values, all of them created."""
        return dict.items(self._visible())

    __hash__ = None

    def copy(self) -> Any:
        """Return a plain dictionary with the same values."""
        return dict(self.items())


@_construct_before(dict, "pop", "popitem")
class LazyFields(_Lazy):
    """The fields of a container."""

    def setdefault(self, key: Any, default: Any = None) -> Any:
        """Return the value of a field, which is set where it is missing."""
        return self[key] if key in self else dict.setdefault(self, key, default)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (self.copy(),)


@_construct_before(LabelledDict, "pop", "popitem", "clear", "__delitem__", "__reduce_ex__")
class LazyMembers(_Lazy, LabelledDict):  # type: ignore[misc]
    """The members of a container by name; a plain ``LabelledDict`` once all of them are created."""

    def _construct_all(self) -> None:
        super()._construct_all()
        self.__class__ = LabelledDict  # so that the cost of laziness ends with it

    def __getitem__(self, key: Any) -> Any:
        if key in self:
            return self._constructed(key, dict.__getitem__(self, key))
        self._construct_all()  # the key may be a query, such as "name == x", which looks at attributes of all members
        return LabelledDict.__getitem__(self, key)


@_construct_before(list, "__iter__", "__len__", "__getitem__", "__contains__")
class LazyList(list):  # type: ignore[type-arg]
    """A list of containers, all of which are created by ``construct_all`` when somebody looks at it."""

    def __init__(self, known: Iterable[Any], construct_all: Callable[[], None]) -> None:
        super().__init__(known)
        self._construct_all = construct_all

    def __reduce_ex__(self, protocol: Any) -> Any:
        return list, (list(iter(self)),)


# ---- containers -----------------------------------------------------------------------------------------------------


class LazyBuildManager(BuildManager):  # type: ignore[misc]
    """A build manager that has the containers of lazy files made before it forgets those that it knows."""

    files: list[LazyContainers]

    def clear_cache(self) -> None:
        """Forget all builders and containers, as hdmf does to build containers again for an export."""
        for file in self.files:
            file.construct_all()
        super().clear_cache()


def _migrate(path: str, builder: Any) -> None:
    """Give builders of old files the types that pynwb gives them (``pynwb.io.file.NWBFileMap.construct``)."""
    attributes, data_type = builder.attributes, data_type_of(builder)
    if path == "general/extracellular_ephys/electrodes" and data_type != "ElectrodesTable":
        attributes["neurodata_type"], attributes["namespace"] = "ElectrodesTable", "core"
    if data_type == "DecompositionSeries" and attributes.get("namespace") == "core":
        # in a damaged file it may be a dataset, which has no groups
        bands = getattr(builder, "groups", {}).get("bands")
        if bands is not None and data_type_of(bands) == "DynamicTable":
            bands.attributes.update(neurodata_type="FrequencyBandsTable", namespace="core")


class _Member(NamedTuple):
    """A member of an open group that hdmf's mapper has matched with an argument of the constructor."""

    path: str
    spec: Any
    is_link: bool


def _members(value: Any) -> list[_Member] | None:
    """Return the members for which the small builders in an argument stand; None where it has others, or none."""
    values = _listed(value)
    if not values or not all(hasattr(each, "stands_for") for each in values):
        return None
    ranks: dict[int, int] = {}
    ranked = []
    rank = 0
    for builder in values:
        spec, is_link = builder.matched_spec, builder.is_link
        if spec is None or spec.name is None:  # hdmf lists what is of one type of the schema by name
            rank = ranks.setdefault(id(spec), len(ranks))
        for path in builder.stands_for:
            ranked.append(((rank, is_link, split(path)[1]), _Member(path, spec, is_link)))
    return [member for _, member in sorted(ranked, key=itemgetter(0))]


_SHARED = {"data": "data_link", "timestamps": "timestamp_link"}
"""Datasets of a series that can be links to those of another, and pynwb's field of the other that lists the series."""


def _small_builder(path: str, node: Any, *, is_link: bool = False) -> Any:
    """Return a builder that has the type of the node at ``path``, and nothing in it; it may stand for more of them."""
    own = node.attributes
    attributes = {key: own[key] for key in (*TYPE_KEYS, "namespace") if isinstance(own.get(key), str)}
    is_group = isinstance(node, Group)
    builder = make_group(path, {}, attributes, "") if is_group else make_dataset(path, None, None, attributes, "")
    builder.stands_for, builder.is_link = [path], is_link
    return builder


class LazyContainers:
    """Makes the containers of one file when they are touched."""

    def __init__(self, file: LazyAssembler, manager: Any, on_built: Callable[[list[str]], None]) -> None:
        self._file, self._manager, self._notify, self._lock = file, manager, on_built, file.lock
        # the groups with a type and links: noted while a file is opened, and not by the first access to a member
        self._linking: list[tuple[str, Group]] = []
        self._waiting: dict[str, tuple[Any, Any]] = {}  # of members without a container: their parent and subspec

        self._containers: dict[str, Any] = {}
        self._in_construction: set[str] = set()  # hdmf asks for what is in them, or for them, while it makes them
        self._above: dict[int, Any] = {}  # the containers above new members, None for those that were modified
        self._hidden_from: int | None = None
        self._check = TypeCheck(manager.namespace_catalog, file.source)

        @cache
        def is_open_type(namespace: Any, data_type: Any) -> bool:
            if not is_registered(manager.namespace_catalog, namespace, data_type):
                return False
            builder = make_group("a group", {}, dict.fromkeys(TYPE_KEYS, data_type) | {"namespace": namespace}, "")
            return internals.can_wait_for_members(manager.get_cls(builder), manager.type_map.get_map(builder))

        file.is_open_type, file.on_built = is_open_type, self.on_built

    def _errors(self, builder: Any) -> AbstractContextManager[None]:
        catalog, hierarchy = self._manager.namespace_catalog, self._file.hierarchy
        return construction_errors(builder, self._file.source, catalog, hierarchy)

    def are_lazy(self) -> bool:
        """Return whether the container of the root can be created without its members, with this manager."""
        root, manager = self._file.hierarchy.root, self._manager
        with self._errors(make_group("", {}, {}, "")):
            is_open = data_type_of(root) is not None and self._file.is_open(root)
        # The manager is the user's object, and its identity counts: its class changes, not the object.
        if is_open and type(manager) is BuildManager:
            manager.__class__, manager.files = LazyBuildManager, []
        if not is_open or not isinstance(manager, LazyBuildManager):  # that of the user has another class
            return False
        manager.files.append(self)
        return True

    def hides(self, path: str) -> bool:
        """Return whether the member at ``path`` does not exist yet and is hidden from this thread."""
        return self._hidden_from == get_ident() and path not in self._containers

    @contextmanager
    def only_constructed(self) -> Iterator[list[tuple[Any, str, Any]]]:
        """Hide members without a container from this thread; give the container, path and builder of each."""
        # but those that the schema requires, and those that are links, whose builders are elsewhere, are created before
        with self._lock:
            self._file.complete()
            for container, path in self._unconstructed():
                parent, spec = self._waiting.get(path, (None, None))
                if parent is not container or spec is None or spec.required:
                    self.container_at(path)
            unconstructed = self._unconstructed()
            self._hidden_from = get_ident()
            try:
                yield [(container, path, self._file.builder_at(path)) for container, path in unconstructed]
            finally:
                self._hidden_from = None

    def _unconstructed(self) -> list[tuple[Any, str]]:
        """Return the container and the path of each member that is not created."""
        unconstructed: list[tuple[Any, str]] = []
        for parent in {id(parent): parent for parent, _ in self._waiting.values()}.values():
            groups = [parent.fields, *(getattr(parent, name) for name in internals.collections_of(type(parent)))]
            entries = (each for group in groups for each in dict.values(group) if type(each) is Entry)
            unconstructed += [(parent, entry.path) for entry in entries if entry.path not in self._containers]
        return unconstructed

    def construct_all(self) -> None:
        """Make all containers, if that of the root was created."""
        if "" in self._containers:
            self._containers[""].all_children()

    def on_built(self, paths: list[str]) -> None:
        """Do what is done once for each builder that was read: types that JSON lacks, old files, and checks."""
        for path in paths:
            builder = self._file.builders[path]
            restore_types(builder, self._file.hierarchy.get(path), self._manager.namespace_catalog)
            _migrate(path, builder)
            self._check.builder(builder)
        self._notify(paths)

    # ---- construction -----------------------------------------------------------------------------------------------

    @gc_paused()
    def root(self) -> Any:
        """Return the container of the root."""
        with self._lock:
            if "" not in self._containers:
                self._file.open_group("")
                stack: list[tuple[str, Any]] = [("", self._file.hierarchy.root)]
                while stack:
                    path, node = stack.pop()
                    if LINKS in node.attributes and data_type_of(node) is not None:
                        self._linking.append((path, node))
                    members = node.members.items()
                    stack += [(join(path, name), each) for name, each in members if isinstance(each, Group)]
                with self._errors(self._file.builders[""]):
                    self._containers[""] = self._open_container("", None)
            return self._containers[""]

    def container(self, builder: Any) -> Any:
        """Return the container of a builder of this file, or of one that it links to."""
        path = relative("" if builder.location is None else join(relative(builder.location), builder.name))
        if builder.source == self._file.source and self._file.builders.get(path) is builder:
            return self.container_at(path)
        return self._manager.construct(builder)

    def container_at(self, path: str) -> Any:
        """Return the container of the node at ``path``, which has a type."""
        container = self._containers.get(path)
        if container is None:
            self.construct([path])
            with self._lock:
                container = self._containers.get(path)
                if container is None:  # it is in a unit, and was created with that
                    container = self._manager.construct(self._file.builder_at(path))
        return container

    def construct_children(self, parent: Any, members: Sequence[Any]) -> None:
        """Make the children of a container: paths, or containers that came with their parent, in hdmf's order."""
        with self._lock:
            self.construct([member for member in members if member in self._waiting])
            children = internals.children_of(parent)
            if isinstance(children, LazyList):
                ordered = [self._containers[member] if isinstance(member, str) else member for member in members]
                known = {id(child): child for child in list.__iter__(children)}
                ordered = [known.pop(id(child)) for child in ordered if id(child) in known]
                internals.set_children(parent, [*ordered, *known.values()])  # what the user has added comes last

    @gc_paused()
    def construct(self, paths: Sequence[str]) -> None:
        """Make the containers of the nodes at ``paths``, and those of all that their links and references lead to."""
        with self._lock:  # one for builders and containers: hdmf's build manager is not safe for threads
            before, self._above = self._above, {}
            try:
                for path in paths:
                    self._construct_path(split(path)[0])
                # first what links and references of a unit lead to: hdmf would construct it with the unit, before its
                # parent is known
                units = [path for path in paths if path in self._waiting and self._file.unit_of(path) == path]
                self._file.assemble(units)  # all at once
                for path in (*self._in_order(units), *paths):
                    self._construct_path(path)
            finally:  # hdmf takes the parent of a new container for modified, up to the root
                for each in self._above.values():
                    if each is not None:
                        each.set_modified(False)
                self._above = before

    def _construct_path(self, path: str) -> None:
        """Make the members of open groups on the way to the node at ``path``, and the node if it is one."""
        for prefix in accumulate(path.split("/"), join):
            if prefix in self._waiting and prefix not in self._in_construction:
                self._construct_member(prefix)

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

    def _construct_member(self, path: str) -> None:
        """Make the container of a member of an open group."""
        parent, spec = self._waiting[path]
        above = parent
        while above is not None and id(above) not in self._above:
            self._above[id(above)] = None if above.modified else above
            above = above.parent
        builder = self._file.builder_at(path)
        # hdmf's mapper sets it on the builders that it matches
        if spec is not None and builder.matched_spec is None:
            builder.matched_spec = spec
        self._in_construction.add(path)
        try:
            with self._errors(builder):
                if isinstance(builder, OpenGroupBuilder):
                    container = self._open_container(path, parent)
                else:
                    container = self._manager.construct(builder)
                    internals.set_parents(container, parent)
        finally:
            self._in_construction.remove(path)
        self._containers[path] = container
        del self._waiting[path]
        # lists of those that share data, whose members are created on use
        for (series_path, attribute), units in self._sharing.get(path, {}).items():
            series = self._manager.construct(self._file.builder_at(series_path))
            if hasattr(type(series), attribute):

                def construct(waiting: list[str] = list(units)) -> None:  # noqa: B006 - a list for each series
                    todo = waiting.copy()
                    waiting.clear()  # before the constructors of these units look at the list, to append to it
                    self.construct(todo)

                series.fields[attribute] = LazyList(series.fields.get(attribute, ()), construct)

    @cached_property
    def _sharing(self) -> dict[str, dict[tuple[str, str], list[str]]]:
        """By unit, the series in it whose data others share: path and field of pynwb -> the units of the others."""
        # its constructor appends a series to the list of the one that it links to: nobody has touched these
        file = self._file
        sharing: dict[str, dict[tuple[str, str], list[str]]] = {}
        for path, node in self._linking:
            try:
                links = [link for link in file.file.links(path, node) if link.name in _SHARED]
            except ZarrBackendError:
                continue  # raised where the group is created
            for link in links:
                target_path = file.target_path(link.target) or ""
                unit, other = file.unit_of(target_path), file.unit_of(path)
                if unit is not None and other is not None:
                    key = split(target_path)[0], _SHARED[link.name]
                    sharing.setdefault(unit, {}).setdefault(key, []).append(other)
        return sharing

    def _open_container(self, path: str, parent: Any) -> Any:
        """Return the container of an open group, without the members that its constructor does not need."""
        builder = self._file.open_group(path)
        cls, mapper = self._manager.get_cls(builder), self._manager.type_map.get_map(builder)
        seen = self._matched_builder(path, mapper.spec)
        builder.attributes.update(seen.attributes)  # with the types of the schema
        given = internals.constructor_arguments(mapper, seen, self._manager.type_map, cls)
        described = {each["name"]: each for each in get_docval(cls.__init__)}
        arguments: dict[str, Any] = {}
        later: dict[str, list[_Member]] = {}
        at_once: list[str] = []
        for name, value in given.items():
            members = _members(value)
            if members is not None and self._can_wait(cls, described[name], members, is_one=not _is_list(value)):
                later[name] = members
            else:
                has_builders = any(isinstance(each, (GroupBuilder, DatasetBuilder)) for each in _listed(value))
                arguments[name] = self._containers_in(value, at_once) if has_builders else value
        container = internals.new_container(mapper, cls, builder, parent, arguments)
        self._manager.prebuilt(container, builder)
        internals.set_parents(container, parent)
        if later:
            self._defer(container, later, arguments)
        container.set_modified(False)  # hdmf takes a new container for a changed one, and would write it
        needed = (other for unit in at_once for other in self._file.needed.get(unit, ()))
        self.construct([other for other in needed if other in self._waiting])
        return container

    def _matched_builder(self, path: str, spec: GroupSpec | None) -> Any:
        """Return a builder of an open group for hdmf's mapper; what is put into it has no builders of its members."""
        file = self._file
        node = file.hierarchy.group(path)
        for name in node.members.keys() & node.attributes.keys():
            raise taken_error(name, store=file.source, path=path)
        open_groups: dict[str, Any] = {}
        typed: dict[str, Any] = {}
        plain: list[str] = []
        named = {each.name for each in (*spec.groups, *spec.datasets, *spec.links)} if spec else set()
        # one builder stands for all members of a type: hdmf's mapper matches types then, not thousands of series
        alike: dict[Any, Any] = {}
        for member_path, child in file.members(path):
            name, data_type, is_group = split(member_path)[1], data_type_of(child), isinstance(child, Group)
            of_type = (child.attributes.get("namespace"), data_type, is_group)
            if data_type is None and is_group:
                open_groups[name] = self._matched_builder(member_path, spec.get_group(name) if spec else None)
            elif data_type is None:
                plain.append(member_path)
            elif name not in named and of_type in alike:
                alike[of_type].stands_for.append(member_path)
            else:
                small = typed[name] = _small_builder(member_path, child)
                self._check.builder(small)
                if name not in named and self._check.is_known(small):
                    alike[of_type] = small
        file.assemble(plain)
        datasets = {split(each)[1]: file.builders[each] for each in plain if each in file.builders}
        # datasets without a type are read: the mapper hands their values to the constructor
        members = {**open_groups, **typed, **datasets}
        builder = make_group(path, members, file.open_group(path).attributes, file.source)
        self._add_links(path, node, builder)
        restore_types(builder, node, self._manager.namespace_catalog)
        self._check.builder(builder)
        return builder

    def _add_links(self, path: str, node: Group, builder: Any) -> None:
        others = []
        for link in self._file.file.links(path, node):
            if link.name in node.attributes:
                raise taken_error(link.name, store=self._file.source, path=path)
            target_path = self._file.target_path(link.target)
            target = None if target_path is None else self._file.hierarchy.get(target_path)
            if target_path is None or target is None or data_type_of(target) is None:
                others.append(link)
            else:
                self._file.check_ids(link.target, target.attributes.get("object_id"), self._file)
                set_link(builder, link.name, _small_builder(target_path, target, is_link=True), path=absolute(path))
        self._file.set_links(builder, path, others)

    def _can_wait(self, cls: Any, described: dict[str, Any], members: list[_Member], *, is_one: bool) -> bool:
        """Return whether a container can be created without some members, which it gets as entries."""
        name = described["name"]
        if not is_one:
            names = [split(member.path)[1] for member in members]
            are_names = len({*names}) == len(names) and not any("==" in each for each in names)
            return are_names and name in internals.collections_of(cls)
        # One optional member can wait if the container has it in a field that only hdmf's getter reads, if None is what
        # the constructor takes instead, and if its class is allowed, which the constructor would check.
        field: Any = next((each for each in cls.get_fields_conf() if each["name"] == name), {})
        path = members[0].path
        small = _small_builder(path, self._file.hierarchy.get(path))
        _migrate(path, small)
        return (
            bool(field.get("child"))
            and field.get("required_name") in (None, split(path)[1])
            and internals.is_read_from_fields(cls, name)
            and described.get("default", "") is None
            and isinstance(described["type"], type)
            and issubclass(self._manager.get_cls(small), described["type"])
        )

    def _containers_in(self, value: Any, at_once: list[str]) -> Any:
        """Return the value of an argument with containers for its builders; ``at_once`` receives their paths."""
        if not _is_list(value):
            return self._containers_in([value], at_once)[0]
        containers = []
        for item in value:
            members = _members(item)
            if members is None:
                containers.append(self._manager.construct(item))
                continue
            self._file.assemble([member.path for member in members if self._file.unit_of(member.path) is not None])
            at_once += [member.path for member in members]
            for member in members:
                builder = self._file.builder_at(member.path)
                if builder.matched_spec is None and not member.is_link:
                    builder.matched_spec = member.spec
                containers.append(self._manager.construct(builder))
        return containers

    def _defer(self, container: Any, later: dict[str, list[_Member]], arguments: dict[str, Any]) -> None:
        """Give a container entries for the members that were left out: of a dictionary of members, or of a field."""
        fields: dict[str, Any] = {}
        for name, members in later.items():
            entries = {split(member.path)[1]: Entry(self, member.path) for member in members}
            if name in internals.collections_of(type(container)):
                collection = getattr(container, name)
                collection.__class__ = LazyMembers
                dict.update(collection, entries)
            else:
                (fields[name],) = entries.values()
        if fields:
            internals.set_fields(container, LazyFields({**container.fields, **fields}))
        children: dict[Any, None] = {}  # paths and containers, in the order that they have when hdmf makes them
        for name in sorted({*later, *arguments}, key=lambda name: _ORDER.get(name, len(_ORDER))):
            for member in later.get(name, ()):
                if not member.is_link:
                    self._waiting.setdefault(member.path, (container, member.spec))
                    children[member.path] = None
            values = _listed(arguments.get(name))
            children |= dict.fromkeys(each for each in values if isinstance(each, AbstractContainer))
        construct = partial(self.construct_children, container, list(children))
        internals.set_children(container, LazyList(container.children, construct))


_ORDER = {name: position for position, name in enumerate((
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
