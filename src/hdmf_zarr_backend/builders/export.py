"""`build_again`: the builders of an export, made of the containers as they are now.

hdmf would take the builders that were read for every container that it does not know to be changed, and it knows of no
change of a field, of ``set_data_io`` or of a private attribute. So all containers are built again. A dataset whose
container still holds the very object that was read keeps it, with its chunks, codecs and exact type.

Source: ``hdmf.backends.io.HDMFIO.export`` and ``hdmf.build.BuildManager.build``.
"""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from typing import Any, NamedTuple

from hdmf.build import (
    BuildError,
    BuildManager,
    ContainerConfigurationError,
    DatasetBuilder,
    GroupBuilder,
    LinkBuilder,
    OrphanContainerBuildError,
    ReferenceTargetNotBuiltError,
)
from hdmf.data_utils import DataIO
from hdmf.query import ContainerResolver, ReferenceResolver
from hdmf.spec.spec import BaseStorageSpec

from hdmf_zarr_backend.builders.append import SCALARS, is_same
from hdmf_zarr_backend.builders.lazy import CONSTRUCTION_ERRORS, LazyContainers
from hdmf_zarr_backend.builders.schema import is_untyped
from hdmf_zarr_backend.builders.targets import builder_path
from hdmf_zarr_backend.dataio import ZarrDataIO
from hdmf_zarr_backend.encoding.reserved import TYPE_KEYS
from hdmf_zarr_backend.errors import DroppedChangesWarning, MissingTargetError, ZarrBackendError, warn
from hdmf_zarr_backend.model.nodes import relative

_BUILD_ERRORS = (BuildError, ContainerConfigurationError, ValueError, TypeError, KeyError, AttributeError, IndexError)
"""What hdmf and the mappers of extensions raise while they build containers."""

_OF_CONTAINERS = frozenset({*TYPE_KEYS, "namespace", "object_id"})
"""Attributes that hdmf makes of the container itself, whatever the schema says."""


class OrphanError(MissingTargetError, OrphanContainerBuildError):  # type: ignore[misc]
    """The target of a link was removed from its parent; hdmf's own error for it as well, in its words."""

    def __str__(self) -> str:
        return self.problem


class _ExportManager(BuildManager):  # type: ignore[misc]
    """Builds the containers below one root; all others keep the builders of the manager that has read them.

    Attributes
    ----------
    read_by : BuildManager
        The manager of the source, which is not changed.
    unmade : frozenset of int
        Ids of the read builders of members that had no container before the export.
    built : list of tuple
        Container, builder, and the builder that was read (None for a new container).
    """

    def __init__(self, read_by: BuildManager, root: Any, location: str) -> None:
        super().__init__(read_by.type_map)
        self._location = location
        self.read_by = read_by
        self._root = root
        self.unmade: frozenset[int] = frozenset()
        self.built: list[tuple[Any, Any, Any]] = []

    def get_builder(self, container: Any) -> Any:
        """Return the new builder of a container, or the one that was read of another file's or of an untouched one."""
        builder = super().get_builder(container)
        if builder is not None:
            return builder
        read = self.read_by.get_builder(container)
        return read if not self._is_below(container) or self._is_unmade(read) else None

    def build(self, container: Any, **options: Any) -> Any:
        """Return the builder of a container; one that hdmf has read and cannot build is written as it was read."""
        count = len(self.built)
        try:
            return super().build(container, **options)
        except ZarrBackendError:
            raise
        except OrphanContainerBuildError as error:
            orphan = OrphanError(str(error), store=self._location)
            orphan.add_note(f"This would be a link to nothing in {self._location}.")
            raise orphan from error
        except ReferenceTargetNotBuiltError as error:
            what = f"the {type(container).__name__} {container.name!r}"
            problem = f"{what} would have a link or reference to nothing: {error}"
            remedy = "Add its target to the file, or remove the link or reference."
            raise MissingTargetError(problem, store=self._location, remedy=remedy) from error
        except _BUILD_ERRORS as error:
            read = self.read_by.get_builder(container)
            if read is None or container is self._root or container.modified:
                raise
            warn(
                f"{read.source}, {builder_path(read)}: hdmf cannot build this {type(container).__name__} ({error}); it "
                "is written as it was read, and changes to it are not written",
                DroppedChangesWarning,
                stacklevel=2,
            )
            for part, _, old in self.built[count:]:
                super().prebuilt(part, old)
            del self.built[count:]
            super().prebuilt(container, read)
            return read

    def _is_below(self, container: Any) -> bool:
        while container is not None and container is not self._root:
            container = getattr(container, "parent", None)
        return container is self._root

    def _is_unmade(self, read: Any) -> bool:
        """Tell whether a container was made only to resolve a reference of another."""
        while read is not None and id(read) not in self.unmade:
            read = read.parent
        return read is not None

    def prebuilt(self, container: Any, builder: Any) -> None:
        """Record what hdmf has built."""
        super().prebuilt(container, builder)
        self.built.append((container, builder, self.read_by.get_builder(container)))


class Rebuilt(NamedTuple):
    """The builders of an export.

    Attributes
    ----------
    builder : GroupBuilder
        The root.
    manager : BuildManager
        Has built it.
    replaced : list of tuple
        Builders as read, and as built; references to the first lead to the second.
    """

    builder: Any
    manager: BuildManager
    replaced: list[tuple[Any, Any]]


def build_again(root: Any, src_io: Any, location: str, lazy: LazyContainers | None) -> Rebuilt:
    """Build ``root``, which ``src_io`` has read, for an export to ``location``.

    ``lazy`` are the containers of a lazy source. Members that nobody has touched have no container and are not built.
    """
    read_by = src_io.manager
    manager = _ExportManager(read_by, root, location)
    untouched: AbstractContextManager[Any] = nullcontext([]) if lazy is None else lazy.only_made()
    with untouched as unmade:
        manager.unmade = frozenset(id(child) for _, _, child in unmade)
        builder = manager.build(root, source=location, root=True, export=True)
    for home, path, child in unmade:
        _add_unmade(manager, home, path, child)
    again = BuildManager(read_by.type_map)
    replaced = []
    for container, new, old in manager.built:
        if old is not None and type(old) is type(new):
            merge = _Merge(manager, again, container, old)
            merge.node(new, old, [spec for spec in (merge.mapper.spec, new.matched_spec) if spec is not None])
            replaced += [(old, new), *merge.datasets]
    return Rebuilt(builder, manager, replaced)


class _Merge:
    """Puts what was read into the builder of a container, where the container does not say otherwise.

    Some of what a file holds does not reach a container, or not as it is: what the schema does not know, and values
    that a class replaces by its own. Such a piece is written as it was read if a container that is made of the file
    once more has the same value.

    Attributes
    ----------
    mapper : ObjectMapper
        Of the container.
    datasets : list of tuple
        The datasets without a type, as read and as built.
    """

    def __init__(self, manager: _ExportManager, again: BuildManager, container: Any, old: Any) -> None:
        self._manager = manager
        self._again = again
        self._container = container
        self._old = old
        self.mapper = manager.type_map.get_map(container)
        self.datasets: list[tuple[Any, Any]] = []

    @cached_property
    def _twin(self) -> Any:
        """The container as it was read; None for the root, which has everything in it, and where hdmf fails."""
        if self._old.parent is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were given when the container was read
            try:
                return self._again.construct(self._old)
            except CONSTRUCTION_ERRORS:
                return None

    def _is_untouched(self, spec: Any) -> bool:
        """Tell whether the container has the value of ``spec`` that a container of the file has."""
        name = self.mapper.get_attribute(spec)
        if name is None or self._twin is None:
            return False
        value, read = getattr(self._container, name, None), getattr(self._twin, name, None)
        return value is read or _is_as_read(value, read) or (type(value) is type(read) and is_same(value, read))

    def node(self, new: Any, old: Any, specs: list[Any]) -> None:
        """Merge a builder that was read into the new one of the same group or dataset."""
        if isinstance(new, DatasetBuilder):
            _keep_data(self._container.data, new, old)
        self._attributes(new, old, specs)
        if not isinstance(new, GroupBuilder):
            return
        for name, child in (*old.groups.items(), *old.datasets.items(), *old.links.items()):
            if child is None:
                continue
            known = _subspecs(self._manager, specs, child)
            if not known or (known[0].name is not None and name not in new and self._is_untouched(known[0])):
                if name not in new:
                    _add_member(new, name, child)
            elif isinstance(known[0], BaseStorageSpec) and is_untyped(known[0]) and type(new.get(name)) is type(child):
                self._plain(new.get(name), child, known)

    def _plain(self, new: Any, old: Any, specs: list[Any]) -> None:
        """Merge a group or dataset without a type."""
        if isinstance(new, GroupBuilder):
            self.node(new, old, specs)
        elif isinstance(new, DatasetBuilder):
            name = self.mapper.get_attribute(specs[0])
            value = None if name is None else self._container.fields.get(name)
            _keep_data(value, new, old)
            is_other = new.data is not old.data and isinstance(old.data, SCALARS) and new.data != old.data
            if is_other and self._is_untouched(specs[0]):
                _take_data(new, old)
            self._attributes(new, old, specs)
            self.datasets.append((old, new))

    def _attributes(self, new: Any, old: Any, specs: list[Any]) -> None:
        known = {spec.name: spec for each in reversed(specs) for spec in each.attributes}
        for name, value in old.attributes.items():
            if name in _OF_CONTAINERS or (name in new and name not in new.attributes):
                continue
            made = new.attributes.get(name)
            is_kept = type(made) is type(value) and is_same(made, value)
            if name not in known or (not is_kept and not isinstance(value, dict) and self._is_untouched(known[name])):
                new.set_attribute(name, value)


def _keep_data(value: Any, new: Any, old: Any) -> None:
    """Keep data as read if ``value``, what the container holds, is what was read; settings always stay."""
    if _is_as_read(value, old.data):
        _take_data(new, old)
    elif isinstance(value, ZarrDataIO) and not isinstance(new.data, DataIO):
        new["data"] = ZarrDataIO(new.data, **value.get_io_params())  # hdmf replaces it by a list of references


def _take_data(new: Any, old: Any) -> None:
    new["data"] = old.data
    new._DatasetBuilder__dtype = old.dtype


def _is_as_read(value: Any, stored: Any) -> bool:
    if isinstance(value, ContainerResolver):
        return isinstance(stored, ReferenceResolver) and value.dataset is stored.dataset
    return value is not None and value is stored


def _subspecs(manager: Any, specs: list[Any], child: Any) -> list[Any]:
    """Return what the specifications of a group say of a member; several for its type if no name tells them apart."""
    found = [manager.get_subspec(spec, child) for spec in specs]
    return [each for some in found if some is not None for each in (some if isinstance(some, list) else [some])]


def _add_member(group: Any, name: str, child: Any) -> None:
    """Add a builder that was read, and keeps its parent, to a new group."""
    kind = "links" if isinstance(child, LinkBuilder) else "groups" if isinstance(child, GroupBuilder) else "datasets"
    getattr(group, kind)[name] = child
    group.obj_type[name] = kind


def _add_unmade(manager: _ExportManager, home: Any, path: str, child: Any) -> None:
    """Add the builder that was read of a member of ``home`` that has no container, and so cannot have changed."""
    new, old = BuildManager.get_builder(manager, home), manager.read_by.get_builder(home)
    if new is None:
        return  # the container was removed
    *groups, name = path.removeprefix(relative(builder_path(old))).strip("/").split("/")
    for part in groups:
        old = old.groups[part]
        if part not in new:
            new.set_group(GroupBuilder(part, attributes=dict(old.attributes), source=new.source))
        new = new.groups[part]
    _add_member(new, name, child)
