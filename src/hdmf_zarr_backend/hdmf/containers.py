"""Containers as they are now, compared with what was read: `build_again` for an export, `KnownFields` for an append.

Neither hdmf's flag of a change nor its builders can be trusted: it takes the builders that were read for every
container that it does not know to be changed, and it knows of no change of a field, of ``set_data_io`` or of a private
attribute.

Source: ``hdmf.backends.io.HDMFIO.export``, ``hdmf.build.BuildManager.build``, ``HDF5IO.write_group``.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import date
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
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
from hdmf.container import AbstractContainer, Data
from hdmf.data_utils import DataIO
from hdmf.query import ContainerResolver, ReferenceResolver
from hdmf.spec import GroupSpec, LinkSpec
from hdmf.spec.spec import BaseStorageSpec
from hdmf.utils import LabelledDict

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.encoding.reserved import IDENTITY
from hdmf_zarr_backend.errors import warn
from hdmf_zarr_backend.hdmf.assembler import add_member
from hdmf_zarr_backend.hdmf.dataio import keep_settings, unwrapped
from hdmf_zarr_backend.hdmf.internals import container_made_of, set_dtype
from hdmf_zarr_backend.hdmf.lazy import CONSTRUCTION_ERRORS, LazyContainers
from hdmf_zarr_backend.hdmf.schema import is_untyped, member_at, untyped_members
from hdmf_zarr_backend.hdmf.targets import builder_path, containers_below, top_of
from hdmf_zarr_backend.model.nodes import relative

_BUILD_ERRORS = (BuildError, ContainerConfigurationError, ValueError, TypeError, KeyError, AttributeError, IndexError)
"""What hdmf and the mappers of extensions raise while they build containers."""


class OrphanError(errors.MissingTargetError, OrphanContainerBuildError):  # type: ignore[misc]
    """The target of a link was removed from its parent; hdmf's own error for it as well, in its words."""

    def __str__(self) -> str:
        return self.problem


# A manager builds a container once, and returns that builder from then on. So an export needs one of its own: the
# manager of the source has the builders that were read.


def declare_indices(container: Any) -> None:
    """Let a table that was read with a ragged column of its class, but without its index, state that it has none."""
    for column in getattr(container, "__columns__", ()):
        for depth in range(column.get("index", 0)):  # hdmf asks for all of them when it builds the table
            name = column["name"] + "_index" * (depth + 1)
            if not hasattr(container, name):
                setattr(container, name, None)
                values = container[column["name"]]
                values.target = getattr(values, "target", values)  # of which pynwb takes the electrodes of units


class _ExportManager(BuildManager):  # type: ignore[misc]
    """Builds the containers below one root; all others keep the builders of the manager that has read them."""

    def __init__(self, read_by: BuildManager, root: Any, location: str) -> None:
        super().__init__(read_by.type_map)
        self._root, self._location = root, location
        self.read_by = read_by  # the manager of the source, which is not changed
        self.unconstructed: frozenset[int] = frozenset()  # ids of read builders of members that had no container before
        self.built: list[tuple[Any, Any, Any]] = []  # container, builder, and the builder that was read, if any

    def get_builder(self, container: Any) -> Any:
        """Return the new builder of a container, or the one that was read of another file's or of an untouched one."""
        builder = super().get_builder(container)
        if builder is not None:
            return builder
        # what belongs to another root, such as the target of an external link, is not part of the export
        above = container
        while above is not None and above is not self._root:
            above = getattr(above, "parent", None)
        read = self.read_by.get_builder(container)
        if above is None:
            return read
        unconstructed = read  # a container may have been created only to resolve a reference of another
        while unconstructed is not None and id(unconstructed) not in self.unconstructed:
            unconstructed = unconstructed.parent
        return None if unconstructed is None else read

    def build(self, container: Any, **options: Any) -> Any:
        """Return the builder of a container; one that hdmf has read and cannot build is written as it was read."""
        count = len(self.built)
        declare_indices(container)
        try:
            return super().build(container, **options)
        except errors.ZarrBackendError:
            raise
        except OrphanContainerBuildError as error:
            orphan = OrphanError(str(error), store=self._location)
            orphan.add_note(f"This would be a link to nothing in {self._location}.")
            raise orphan from error
        except ReferenceTargetNotBuiltError as error:
            what = f"the {type(container).__name__} {container.name!r}"
            problem = f"{what} would have a link or reference to nothing: {error}"
            remedy = "Add its target to the file, or remove the link or reference."
            raise errors.MissingTargetError(problem, store=self._location, remedy=remedy) from error
        except _BUILD_ERRORS as error:
            read = self.read_by.get_builder(container)
            if read is None or read.parent is None or container.modified:
                raise
            message = f"{read.source}, {builder_path(read)}: hdmf cannot build this {type(container).__name__} "
            reason = str(error).partition(" for mapping to spec: ")[0]  # a long dictionary follows
            message += f"({reason}); it is written as it was read, and changes to it are not written"
            warn(message, errors.DroppedChangesWarning)
            for part, _, old in self.built[count:]:  # also what was built of its members before it failed
                super().prebuilt(part, old)
            del self.built[count:]
            super().prebuilt(container, read)
            return read

    def prebuilt(self, container: Any, builder: Any) -> None:
        """Record what hdmf has built."""
        super().prebuilt(container, builder)
        self.built.append((container, builder, self.read_by.get_builder(container)))


def build_again(
    root: Any, src_io: Any, location: str, lazy: LazyContainers | None
) -> tuple[Any, BuildManager, list[tuple[Any, Any]]]:
    """Build ``root``, read by ``src_io``, again; return builder, manager, and builders as read and as built."""
    read_by = src_io.manager
    manager = _ExportManager(read_by, root, location)
    untouched: AbstractContextManager[Any] = nullcontext([]) if lazy is None else lazy.only_constructed()
    with untouched as unconstructed:
        manager.unconstructed = frozenset(id(child) for _, _, child in unconstructed)
        builder = manager.build(root, source=location, root=True, export=True)
    for parent, path, child in unconstructed:  # what was read of members without a container, which are not built
        group, old = BuildManager.get_builder(manager, parent), read_by.get_builder(parent)
        if group is None:
            continue  # the container was removed
        *groups, name = path.removeprefix(relative(builder_path(old))).strip("/").split("/")
        for part in groups:
            old = old.groups[part]
            if part not in group:
                group.set_group(GroupBuilder(part, attributes=dict(old.attributes), source=group.source))
            group = group.groups[part]
        add_member(group, name, child)
    again = BuildManager(read_by.type_map)  # makes containers of the read builders a second time, to compare with
    replaced = []
    for container, new, old in manager.built:
        if isinstance(container, Data):
            keep_settings(container.data, new)
            if container.fields.get("data", container.data) is not container.data:
                name = f"{type(container).__name__} {container.name!r}"
                what = f"fields['data'] of the {name}, which has its data elsewhere"
                _warn_of_dropped(location, what, f"Use io.replace({builder_path(new)!r}, values) in the new file")
        if old is not None and type(old) is type(new):
            merge = _Merge(manager, again, container, old)
            if container.modified:
                _warn_of_fixed(container, manager, merge.changed(), location)
            merge.node(new, old, [spec for spec in (merge.mapper.spec, new.matched_spec) if spec is not None])
            replaced += [(old, new), *merge.datasets]
    return builder, manager, replaced


# What the schema does not know, and values that a class replaces by its own, do not reach a container as they were.
# They are written as read if a second container of the same builder has the same value.
class _Merge:
    """Puts what was read into the builder of a container, where the container does not say otherwise."""

    def __init__(self, manager: _ExportManager, again: BuildManager, container: Any, old: Any) -> None:
        self._manager, self._again, self._container, self._old = manager, again, container, old
        self.mapper = manager.type_map.get_map(container)
        self.datasets: list[tuple[Any, Any]] = []  # those without a type, as read and as built

    @cached_property
    def _twin(self) -> Any:
        """The container as it was read; None for the root, which has everything in it, and where hdmf fails."""
        if self._old.parent is None:
            return None
        with warnings.catch_warnings(action="ignore"):  # they were given when the container was read
            try:
                return self._again.construct(self._old)
            except CONSTRUCTION_ERRORS:
                return None

    def changed(self) -> list[str]:
        """Return the fields whose text or number is not that of the file."""
        read = {} if self._twin is None else self._twin.fields
        plain = {name: value for name, value in self._container.fields.items() if isinstance(value, SCALARS)}
        return [name for name, value in plain.items() if name in read and not is_same(value, read[name])]

    def _is_untouched(self, spec: Any) -> bool:
        """Tell whether the container has the value of ``spec`` that a container of the file has."""
        name = self.mapper.get_attribute(spec)
        if name is None or self._twin is None:
            return False
        # values of the twin are other objects, unless hdmf hands on what a builder has
        value, read = getattr(self._container, name, None), getattr(self._twin, name, None)
        return value is read or _is_as_read(value, read) or (type(value) is type(read) and is_same(value, read))

    def _is_left_out(self, child: Any, spec: Any) -> bool:
        """Tell whether a container of the file lacks a member, such as a column that ``colnames`` does not name."""
        if spec.name is not None:
            return self._is_untouched(spec)
        if self._twin is None or isinstance(child, LinkBuilder):
            return False
        return all(each.name != child.name for each in self._twin.children)

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
            subspecs = [self._manager.get_subspec(spec, child) for spec in specs]
            # several for the type of a member if no name tells them apart
            lists = [each if isinstance(each, list) else [each] for each in subspecs if each is not None]
            known = list(itertools.chain.from_iterable(lists))
            # unknown to the schema, or known and not in the container: kept, unless the user has removed it
            if name not in new:
                if not known or self._is_left_out(child, known[0]):
                    add_member(new, name, child)
            elif known and isinstance(known[0], BaseStorageSpec) and is_untyped(known[0]):
                self._plain(new.get(name), child, known)

    def _plain(self, new: Any, old: Any, specs: list[Any]) -> None:
        """Merge a group or dataset without a type, unless it has become a node of another kind."""
        if isinstance(new, GroupBuilder) and isinstance(old, GroupBuilder):
            self.node(new, old, specs)
        elif isinstance(new, DatasetBuilder) and isinstance(old, DatasetBuilder):
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
            if name in IDENTITY or (name in new and name not in new.attributes):
                continue
            built = new.attributes.get(name)
            is_kept = type(built) is type(value) and is_same(built, value)
            if name not in known or (not is_kept and not isinstance(value, dict) and self._is_untouched(known[name])):
                new.set_attribute(name, value)


def _keep_data(value: Any, new: Any, old: Any) -> None:
    """Keep data as read if ``value``, what the container holds, is what was read."""
    if _is_as_read(value, old.data):
        _take_data(new, old)


def _take_data(new: Any, old: Any) -> None:
    # the very object that was read: its chunks are copied as they are stored, without decoding
    new["data"] = old.data
    set_dtype(new, old.dtype)


def _is_as_read(value: Any, stored: Any) -> bool:
    if isinstance(value, ContainerResolver):
        return isinstance(stored, ReferenceResolver) and value.dataset is stored.dataset
    return value is not None and value is stored


_SHOWN_ELEMENTS = 5
_SHOWN_LETTERS = 100
SCALARS = (str, bytes, int, float, date, np.generic)


def is_same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal: dates, scalars, text, or arrays of the same shape; NaN equals NaN."""
    one, other = stored_array(one), stored_array(other)
    if one is other:
        return True
    if isinstance(one, SCALARS) and isinstance(other, SCALARS):
        return bool(one == other) or (one != one and other != other)  # noqa: PLR0124 - NaN equals NaN here
    is_other = one is None or other is None or isinstance(one, dict) or isinstance(other, dict)
    if is_other or not (_is_array(one) or _is_array(other)):
        return False
    a, b = np.asarray(one), np.asarray(other)
    equal_nan = a.dtype.kind in "fcmM" and b.dtype.kind in "fcmM"
    return bool(np.array_equal(a, b, equal_nan=equal_nan))


def _is_array(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (hasattr(value, "shape") and not isinstance(value, np.generic))


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
    values: dict[str, Any]  # of its fields, and the data of a dataset
    children: tuple[Any, ...]
    parent: Any
    lengths: dict[str, int]  # of lists and arrays in memory, which the file does not follow once they are written


def _values_of(container: Any) -> dict[str, Any]:
    # an empty collection is as none: looking at one that the file lacks, such as `nwbfile.stimulus`, creates it
    fields = {name: value for name, value in container.fields.items() if not isinstance(value, LabelledDict) or value}
    return {**({"data": container.data} if isinstance(container, Data) else {}), **fields}


def _lengths(values: dict[str, Any]) -> dict[str, int]:
    arrays = ((name, stored_array(value)) for name, value in values.items())
    in_memory = (each for each in arrays if isinstance(each[1], list) or (type(each[1]) is np.ndarray and each[1].ndim))
    return {name: len(value) for name, value in in_memory}


class KnownFields:
    """What the containers of one open file held when they were last read or written."""

    def __init__(self, manager: Any, location: str, is_written: Callable[[Any], bool]) -> None:
        self._manager, self._location, self._is_written = manager, location, is_written
        self._known: dict[int, _Known] = {}

    def note(self, root: Any, *, is_written: bool = False) -> None:
        """Record all containers below ``root``, of a recorded root only after it ``is_written``."""
        if id(root) in self._known and not is_written:
            return  # a second `read` returns the same containers, which may have been changed since
        for container in containers_below(root):
            # the container itself is kept too, so that its id stays its own
            values, children = _values_of(container), tuple(container.children)
            lengths = _lengths(values) if is_written else {}
            self._known[id(container)] = _Known(container, values, children, container.parent, lengths)

    def unwritten(self) -> list[str]:
        """Return the containers that were changed, or got new members, since they were last read or written."""
        changed = []
        for container, before, children, *_ in self._known.values():
            now = _values_of(container)
            is_same = all(now.get(name) is before.get(name) for name in now.keys() | before.keys())
            if not is_same or tuple(container.children) != children:
                changed.append(f"{type(container).__name__} {container.name!r}")
        return changed

    def _stored(self, container: Any, names: Iterable[str]) -> Iterator[tuple[str, Any]]:
        """Yield those of some values of a container that are datasets or links of the file, with their builders."""
        mapper, own = self._manager.type_map.get_map(container), self._manager.get_builder(container)
        links, paths = getattr(own, "links", {}), [each for each in untyped_members(mapper.spec) if each[0]]
        members = ((spec, member_at(own, path) or links.get(path[0])) for path, spec in paths)
        builders = {"data": own} | {mapper.get_attribute(spec): builder for spec, builder in members}
        known = ((name, builders.get(name)) for name in names)
        return ((name, builder) for name, builder in known if isinstance(builder, (DatasetBuilder, LinkBuilder)))

    def check(self) -> None:
        """Mark the containers whose fields have changed as modified; refuse those moved, and new values of datasets."""
        built = [each for each in self._known.values() if self._manager.get_builder(each.container) is not None]
        for known in built:  # first: a write that is refused loses nothing of which it would warn
            container, parent = known.container, known.container.parent
            # below another parent of this file: an append would leave it in both places
            if parent is not None and parent is not known.parent and id(top_of(parent)) in self._known:
                what = f"{type(container).__name__} {container.name!r}"
                problem = f"the {what} is in the file already, and is to be written below another parent"
                path = builder_path(self._manager.get_builder(container))
                remedy = "Leave it where it is, or remove it by io.remove and add a new object that has its values."
                raise errors.ConflictError(problem, store=self._location, path=path, remedy=remedy)
        for known in built:
            container, before, now = known.container, known.values, _values_of(known.container)
            # identity, since comparing values would read all data of the file
            changed = {name for name, value in now.items() if value is not None and value is not before.get(name)}
            for name, builder in self._stored(container, changed) if changed else ():
                if self._is_written(builder):
                    _check_data(builder, now[name], before.get(name), self._location)
            _warn_of_removed(known, now, self._location)
            if changed & container.fields.keys():
                _warn_of_fixed(container, self._manager, changed, self._location)
                container.set_modified()
        self.check_lengths()

    def is_unchanged(self, builder: Any, name: str | None) -> bool:
        """Tell whether an attribute of a builder, or with None its data, is that of a field as read or written."""
        # constants and defaults of the schema are unchanged too: hdmf sets them in whatever it builds
        owner: Any = builder
        path: tuple[str, ...] = ()
        while (container := container_made_of(self._manager, owner)) is None and owner.parent is not None:
            owner, path = owner.parent, (owner.name, *path)
        known = self._known.get(id(container))
        if known is None or name in (*IDENTITY, "nwb_version"):
            return False
        mapper = self._manager.type_map.get_map(container)
        spec = dict(untyped_members(mapper.spec)).get(path)
        if spec is not None and name is not None:
            spec = spec.get_attribute(name)
            if spec is not None and spec.value is not None:
                return True
        field = None if spec is None else mapper.get_attribute(spec)
        if field is None or field in mapper.obj_attrs:  # the mapper computes it
            return False
        value = getattr(container, field, None)
        return value is None or value is known.values.get(field)

    def check_lengths(self) -> None:
        """Refuse a list or array that was written and has another length now: the file would not get it."""
        # other columns of the table have the new row, since they were read from the file
        for known in self._known.values():
            now = _lengths(_values_of(known.container)) if known.lengths else {}
            changed = [name for name, length in known.lengths.items() if now.get(name, length) != length]
            for name, builder in self._stored(known.container, changed) if changed else ():
                problem = f"{now[name]} elements are in memory, and {known.lengths[name]} were written"
                remedy = "After io.write, close the file and open it again before you append to what is new in it."
                raise errors.ConflictError(problem, store=self._location, path=builder_path(builder), remedy=remedy)


def _check_data(stored: Any, data: Any, before: Any, location: str) -> None:
    """Refuse new values for a dataset or a link that is on disk, and warn of settings that it cannot get any more."""
    if isinstance(stored, LinkBuilder):
        if _is_array(stored_array(data)):
            problem, path = f"the file has a link here, and {shown(data)} is to be written", builder_path(stored)
            remedy = f"Replace the link by io.replace({path!r}, values), or export to a new file."
            raise errors.ConflictError(problem, store=location, path=path, remedy=remedy)
        return
    if not is_same(data, before):
        raise other_values(stored.data, data, location, builder_path(stored))
    if isinstance(data, DataIO) and data is not before and getattr(data, "io_settings", None):
        _warn_of_dropped(location, f"the settings of {type(data).__name__} for {builder_path(stored)}")


def other_values(stored: Any, wanted: Any, location: str, path: str) -> errors.ConflictError:
    """Return the error about a dataset that has other values on disk."""
    problem = f"the dataset holds {shown(stored)} and {shown(wanted)} is to be written"
    remedy = f"Change values in place (dataset[...] = values), or replace all with io.replace({path!r}, values)."
    return errors.ConflictError(problem, store=location, path=path, remedy=remedy)


def _warn_of_removed(known: _Known, now: dict[str, Any], location: str) -> None:
    """Warn of fields and members that a container had, since an append removes nothing."""
    container = known.container
    named, left = f"{type(container).__name__} {container.name!r}", {id(child) for child in container.children}
    removed = {id(child): child for child in known.children if id(child) not in left}
    for child in removed.values():
        _warn_of_dropped(location, f"that {type(child).__name__} {child.name!r} was removed from the {named}")
    for name, value in known.values.items():
        if value is None or now.get(name) is not None:
            continue
        values = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else [value]
        if any(id(each) not in removed for each in values):
            _warn_of_dropped(location, f"that the field {name!r} was removed from the {named}")


def _warn_of_fixed(container: Any, manager: BuildManager, names: Iterable[str], location: str) -> None:
    """Warn of fields whose value the schema fixes: hdmf writes that one."""
    mapper = manager.type_map.get_map(container)
    for name in names:
        fixed, value = getattr(mapper.get_attr_spec(name), "value", None), container.fields.get(name)
        if fixed is not None and isinstance(value, SCALARS) and not is_same(value, fixed):
            what = f"the {name} {value!r} of the {type(container).__name__} {container.name!r}"
            advice = "; for data in another unit, set the conversion" if name == "unit" else ""
            text = f"{location}: not written: {what}, which the schema fixes to {fixed!r}{advice}"
            warn(text, errors.DroppedChangesWarning)


def _warn_of_dropped(location: str, what: str, how: str = "The file has it already; export to a new file") -> None:
    warn(f"{location}: not written: {what}. {how}", errors.DroppedChangesWarning)


def check_origin(root: Any, manager: Any, location: str) -> None:
    """Refuse containers from other files that hdmf cannot build for this file; the others can be built after this."""
    stack, seen = [(root, False)], set[int]()  # by id: links may lead in a circle
    while stack:
        container, is_data = stack.pop()
        if id(container) in seen:
            continue
        seen.add(id(container))
        origin = container.container_source
        if origin is None or origin == location:
            declare_indices(container)
            stack += [*((child, False) for child in container.children), *_linked(container, manager, location)]
        elif container is root or manager.get_builder(container) is None:
            remedy = "For a link, create this io with the manager of the io that has read it."
            if container is root:
                remedy = "Use export to copy a file: read it and pass its io as src_io, with a changed container."
            elif is_data:
                remedy = f"Give its array, series.data, or a copy of the values, series.data[:]. {remedy}"
            else:
                remedy = f"To copy it, use io.copy. {remedy}"
            what = f"{type(container).__name__} {container.name!r}"
            problem = f"the {what} was read from or written to another file, {origin!r}, and cannot be written here"
            raise errors.UsageError(problem, store=location, remedy=remedy)


def _linked(container: Any, manager: Any, location: str) -> Iterator[tuple[Any, bool]]:
    """Yield the containers that a container links to, which have another parent, and whether one stands for data."""
    for name, value in container.fields.items():
        if isinstance(value, dict):
            members = (each for each in value.values() if isinstance(each, AbstractContainer))
            yield from ((member, False) for member in members if member.parent is not container)
        elif isinstance(value, AbstractContainer) and value.parent is not container:
            spec = manager.type_map.get_map(container).get_attr_spec(name)
            is_data = not isinstance(spec, (LinkSpec, GroupSpec))  # a series that shares its data or timestamps
            if not is_data or value.container_source not in (None, location):
                yield value, is_data
