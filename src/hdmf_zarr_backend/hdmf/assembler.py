"""`Assembler`: makes the builders of a file, with lazy data, from its metadata, and resolves links and references.

All builders of a file are created first, and links and references filled in afterwards. So a reference to an ancestor,
to the root or in a circle needs no recursion, and each node has exactly one builder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import Builder, DatasetBuilder, GroupBuilder, LinkBuilder, ObjectMapper, ReferenceBuilder

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache, check_unwritten
from hdmf_zarr_backend.array.edits import Edits
from hdmf_zarr_backend.array.lazy import EditableArray, LazyArray
from hdmf_zarr_backend.encoding.attributes import decode_attributes
from hdmf_zarr_backend.encoding.elements import Described, describe, is_scalar, to_hdmf
from hdmf_zarr_backend.encoding.nczarr import decode_dimensions
from hdmf_zarr_backend.encoding.parser import Resolver, nothing_at
from hdmf_zarr_backend.encoding.references import (
    Link,
    LinkedFile,
    RegionReference,
    ZarrReference,
    decode_attribute_reference,
    decode_reference,
)
from hdmf_zarr_backend.encoding.reserved import SPECLOC, TYPE_KEYS, notes_of, spec_location
from hdmf_zarr_backend.errors import at, warn
from hdmf_zarr_backend.hdmf.datasets import BuilderReferences, BuilderTable, EditableColumn, FileResolver
from hdmf_zarr_backend.hdmf.targets import ROOT, StoredReference, builders_below
from hdmf_zarr_backend.model.element import Reference, Text
from hdmf_zarr_backend.model.links import THIS_FILE
from hdmf_zarr_backend.model.nodes import Dataset, Group, absolute, join, relative, split
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.store.base import Store

# hdmf would read the whole array to convert it to the type of the schema; HDF5IO does the same for h5py.Dataset
ObjectMapper.no_convert(LazyArray)

_PLAIN = (type(None), str, bool, tuple, dict)


# The constructors of hdmf check each argument with `docval`, which takes most of the time of making the builders of a
# large file. So each class of builder is constructed once, and that one is copied.


class _Pattern:
    """Makes builders by copying one that hdmf made, or by its constructor where that keeps arguments in another way."""

    def __init__(self, cls: type, **arguments: Any) -> None:
        builder, names = cls(**arguments), {id(argument): name for name, argument in arguments.items()}
        self._cls: Any = cls
        self._state = dict(getattr(builder, "__dict__", {}))
        items, state = list(dict.items(builder)), self._state.items()
        self._items = [(key, isinstance(value, dict)) for key, value in items]
        self._dicts = [key for key, value in state if type(value) is dict]
        # where it has the arguments
        self._values = [(names[id(value)], key) for key, value in items if id(value) in names]
        self._attributes = [(names[id(value)], key) for key, value in state if id(value) in names]
        self._is_understood = (
            {name for name, _ in (*self._attributes, *self._values)} == arguments.keys()
            and all(type(value) in _PLAIN for _, value in state)
            and all(value in (None, {}) or id(value) in names for _, value in items)
        )

    def copy(self, **arguments: Any) -> Any:
        """Return the builder that the constructor makes of ``arguments``, which have the names of the pattern's."""
        if not self._is_understood:
            return self._cls(**arguments)
        builder = self._cls.__new__(self._cls)
        for key, is_dict in self._items:
            dict.__setitem__(builder, key, {} if is_dict else None)
        state = builder.__dict__
        state.update(self._state)
        for key in self._dicts:
            state[key] = {}
        for name, key in self._attributes:
            state[key] = arguments[name]
        for name, key in self._values:
            dict.__setitem__(builder, key, arguments[name])
        return builder


_GROUP = _Pattern(GroupBuilder, name="a group", source="the file of a group")
_AXES: dict[str, Any] = {"maxshape": (1, 2, 3), "dimension_labels": ("x", "y", "z"), "chunks": True}
_NO_AXES: dict[str, Any] = {"maxshape": None, "dimension_labels": None, "chunks": False}
_DATASET = _Pattern(DatasetBuilder, name="a dataset", source="the file of a dataset", dtype="its type", **_AXES)
_LINK = _Pattern(LinkBuilder, builder=GroupBuilder(name="a target"), name="a link", source="the file of a link")

_MOST_PATHS = 2**20

# A warning, as with HDF5: a file whose links lead to files that were not copied with it is readable.
_BROKEN = (errors.DamagedFileError, errors.LimitError, errors.StoreError)
"""Why a link or reference leads to nothing."""

_RENAME = "Rename one of them in the file."


def taken_error(name: str, **where: str) -> errors.MetadataError:
    """Return the error for a member and an attribute of a group with one name; ``where`` is store and path."""
    return errors.MetadataError(f"the name {name!r} is that of an attribute and of a member", remedy=_RENAME, **where)


def make_group(path: str, members: Mapping[str, Any], attributes: Mapping[str, Any], source: str) -> Any:
    """Return a ``GroupBuilder`` with its members."""
    parent, name = split(path)
    builder = _GROUP.copy(name=name or ROOT, source=source)
    # `location` is the path of the parent, and the name of the root is not a part of any path
    builder.location = absolute(parent) if path else None
    builder.attributes.update(attributes)
    builder.obj_type.update(dict.fromkeys(attributes, "attributes"))
    for member, child in members.items():
        if member in builder.obj_type:
            raise taken_error(member)
        add_member(builder, member, child)
        if child.parent is None:
            child.parent = builder
    return builder


def add_member(group: Any, name: str, child: Any) -> None:
    """Add the builder of a group, of a dataset or of a link to that of a group; it keeps its parent."""
    kind = "links" if isinstance(child, LinkBuilder) else "groups" if isinstance(child, GroupBuilder) else "datasets"
    getattr(group, kind)[name] = child
    group.obj_type[name] = kind


def set_link(group: Any, name: str, target: Any, *, path: str) -> None:
    """Give the builder of the group at ``path`` a link to a builder."""
    if group.obj_type.get(name, "links") != "links":
        with at(group.source, join(path, name)):
            raise errors.MetadataError(f"a link has the name {name!r} of another member", remedy=_RENAME)
    link = _LINK.copy(builder=target, name=name, source=group.source)
    link.location = path
    link.parent = group
    add_member(group, name, link)


def check_link_paths(root: Any, rules: ReadOptions, source: str) -> None:
    """Refuse links that multiply the paths, as to 2**40 in 40 groups: pynwb and hdmf's validator go along each."""
    paths: dict[int, int] = {}
    stack = [(root, False)]
    while stack:
        builder, is_left = stack.pop()
        below = [each for each in builder.values() if isinstance(each, Builder)]  # of references in attributes, too
        if is_left:
            paths[id(builder)] = 1 + sum(paths.get(id(each), 0) for each in below)
        elif id(builder) not in paths:
            # also for links to what they are in, which are a NestingError where they are followed
            paths[id(builder)] = 0
            stack.append((builder, True))
            stack.extend((each, False) for each in below)
    count = paths[id(root)]
    if count > max(_MOST_PATHS, rules.limits.max_links * len(paths)):
        what = f"links make {count:,} paths to the objects"
        with at(source, "/"):
            raise rules.limits.exceeded("max_links", -(-count // len(paths)), what)


def make_dataset(path: str, data: Any, dtype: Any, attributes: Mapping[str, Any], source: str, **axes: Any) -> Any:
    """Return a ``DatasetBuilder``; the arguments are those of its constructor, those of axes for an array only."""
    parent, name = split(path)
    # `source` is compared as text with that of the file: another spelling would make links to this file external
    builder = _DATASET.copy(name=name or ROOT, source=source, dtype=dtype, **(axes or _NO_AXES))
    builder.location = absolute(parent) if path else None
    if data is not None:
        builder["data"] = data  # hdmf itself sets it so
    builder.attributes.update(attributes)
    return builder


def _text_type(means: Described) -> str:
    """Return HDMF's name of a type of text."""
    return "ascii" if isinstance(means.stored, Text) and means.stored.charset == "ascii" else "utf8"


def _to_ascii(values: Any) -> Any:
    items = (item.encode("utf-8") if isinstance(item, str) else item for item in values.flat)
    return np.fromiter(items, object, values.size).reshape(values.shape)


@dataclass(eq=False, repr=False)
class Assembler:
    """Makes the builders of one file, and keeps them."""

    file: LinkedFile
    resolver: Resolver
    assembler_of: Callable[[LinkedFile], Assembler]
    edits: Edits | None = None
    levels: list[int] = field(default_factory=lambda: [0])
    """How many files are being assembled, each for a link of the one before; shared by the files of a session."""
    is_strict: bool = True  # a damaged node is an error of the object that has it, not left out with a warning
    # with damaged documents, by path
    left_out: dict[str, errors.ZarrBackendError] = field(default_factory=dict, init=False)
    builders: dict[str, Any] = field(default_factory=dict, init=False)
    references: FileResolver = field(init=False)
    on_built: Callable[[list[str]], None] = field(init=False)  # receives the paths of the builders that were created
    _cache: ChunkCache = field(default_factory=ChunkCache, init=False)
    # that wait for their targets
    _scalars: dict[str, ZarrReference | BuilderTable] = field(default_factory=dict, init=False)
    _wrong: set[tuple[str, str, str]] = field(default_factory=set, init=False)  # what `check_ids` has warned of
    _warned: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        self.store: Store = self.file.store
        self.hierarchy, self.source = self.file.hierarchy, self.file.location
        self._hidden = spec_location(self.hierarchy.root.attributes.get(SPECLOC))

    def root(self) -> Any:
        """Return the builder of the root, always the same one."""
        return self._built("")

    def _built(self, path: str) -> Any:
        """Return the builder at ``path``, made with all below it, without a parent, as a link's target with HDF5IO."""
        if path not in self.builders:
            count = self.levels[0]
            self.levels[0] += 1
            try:
                with at(self.source, path):
                    self.store.read_rules.limits.check("max_links", count, f"{count} links lead from one to the next")
                with self._building() as paths:
                    nodes = list(self._below(path))
                    self._fill(nodes, self._build(nodes, paths))
            finally:
                self.levels[0] -= 1
        return self.builders[path]

    @contextmanager
    def _building(self) -> Iterator[list[str]]:
        """Yield a list for the paths of new builders, which are forgotten if the block fails: half a tree is none."""
        paths: list[str] = []
        try:
            yield paths
            self.on_built([path for path in paths if path in self.builders])  # not those that `_fill` has left out
        except BaseException:
            for path in paths:
                self.builders.pop(path, None)
            raise

    def _is_hidden(self, path: str) -> bool:
        return self._hidden is not None and (path == self._hidden or path.startswith(f"{self._hidden}/"))

    def _below(self, top: str) -> Iterator[tuple[str, Any]]:
        """Yield the nodes at and below ``top`` that have no builder yet."""
        nodes = self.hierarchy.walk(top, without=self._hidden)
        return ((path, node) for path, node in nodes if path not in self.builders)

    def _build(self, nodes: list[tuple[str, Any]], built: list[str]) -> list[tuple[str, str, Any]]:
        """Make the builders of ``nodes``, note their paths in ``built``, and return the references for `_fill`."""
        arrays = [(path, node) for path, node in nodes if isinstance(node, Dataset)]
        paths = {path for path, _ in nodes}
        self._check_left_out(paths, strict=self.is_strict)
        # fetched together: hdmf checks the values of scalars when it constructs, and each would be a request
        scalars = self.store.get_many([join(path, node.stored.first_chunk) for path, node in arrays if is_scalar(node)])
        pending: list[tuple[str, str, Any]] = []
        for path, node in reversed(nodes):  # members before their group
            attributes = self._attributes(path, node, pending)
            try:
                with at(self.source, path):
                    if isinstance(node, Group):
                        # by name, as in HDF5: stores list keys in different orders
                        children = ((member, self.builders.get(join(path, member))) for member in sorted(node.members))
                        members = {member: child for member, child in children if child is not None}
                        builder = make_group(path, members, attributes, self.source)
                    else:
                        builder = self._dataset(path, node, attributes, scalars)
            except errors.MetadataError as error:
                if not isinstance(node, Dataset) or split(path)[0] not in paths:
                    raise
                self._leave_out_damaged(path, error, strict=self.is_strict)
                pending = [attribute for attribute in pending if attribute[0] != path]
                continue
            self.builders[path] = builder  # kept alive: hdmf keeps what it knows of builders by their id
            built.append(path)
        return pending

    def _leave_out_damaged(self, path: str, error: errors.ZarrBackendError, *, strict: bool) -> None:
        """Leave out a node that cannot be read, with a warning; raise where a copy or a change would lose it."""
        if strict or self.edits is not None or self.store.read_rules.is_copied:
            raise error from error.__cause__
        self.left_out[path] = error
        self._warned.add(path)
        warn(f"{error} It is left out.", errors.DamagedMetadataWarning)

    def _check_left_out(self, parents: Collection[str], *, strict: bool) -> None:
        """Warn of the nodes that are left out of groups; if strict, raise the error of one."""
        for path, error in list(self.left_out.items()):
            if split(path)[0] in parents and path not in self._warned:
                self._leave_out_damaged(path, error, strict=strict)

    def _fill(self, nodes: list[tuple[str, Any]], pending: list[tuple[str, str, Any]]) -> None:
        """Fill in the references and links of builders that were created."""
        for path, name, value in pending:
            builder, references = self.builders[path], value if isinstance(value, list) else [value]
            try:
                targets = [self._referred(decode_attribute_reference(each.json)) for each in references]
            except _BROKEN as error:
                self._warn_broken(f"The attribute {name!r} of {absolute(path)}", error)
                continue
            if isinstance(builder, GroupBuilder) and builder.obj_type.get(name, "attributes") != "attributes":
                raise taken_error(name, store=builder.source, path=absolute(path))
            builder.set_attribute(name, targets if isinstance(value, list) else targets[0])
        for path, _ in nodes:  # scalars that are references, or rows with references
            waiting = self._scalars.pop(path, None)
            if isinstance(waiting, ZarrReference):
                try:
                    target = self._referred(waiting)
                except _BROKEN as error:
                    self._warn_broken(f"The dataset {absolute(path)}", error)
                    self._leave_out(path)
                    continue
                # hdmf's validator takes a `ReferenceBuilder` in a dataset, and a plain builder in an attribute
                is_region = isinstance(target, RegionReference)
                self.builders[path].data = target if is_region else ReferenceBuilder(target)
            elif waiting is not None:
                row = waiting[0]
                self.builders[path].data = np.array(row, dtype=row.dtype)
        for path, node in nodes:
            if isinstance(node, Group):
                self.set_links(self.builders[path], path, self.file.links(path, node))

    # ---- groups and attributes --------------------------------------------------------------------------------------

    def _attributes(self, path: str, node: Any, pending: list[tuple[str, str, Any]]) -> dict[str, Any]:
        """Return the attributes of a node; ``pending`` receives those that are references."""
        with at(self.source, path):
            values = decode_attributes(node.attributes, resolve=StoredReference)
        ready: dict[str, Any] = {}
        for name, value in values.items():
            if isinstance(value[0] if isinstance(value, list) and value else value, StoredReference):
                pending.append((path, name, value))
            else:
                ready[name] = value
        return ready

    def _referred(self, reference: ZarrReference) -> Any:
        target = self.resolve(reference)
        return target if reference.region is None else RegionReference(target, reference.region)

    def _warn_broken(self, what: str, error: Exception) -> None:
        warn(f"{what} in {self.source} refers to nothing and is left out: {error}", BrokenLinkWarning)

    def _leave_out(self, path: str) -> None:
        """Remove the builder of a dataset."""
        parent, name = split(path)
        del self.builders[path]
        del self.builders[parent].datasets[name]
        del self.builders[parent].obj_type[name]

    # ---- datasets ----------------------------------------------------------------------------------------------------

    def _lazy(self, path: str, node: Dataset) -> LazyArray:
        """Return the array at ``path``."""
        notes = notes_of(node.attributes)
        maxshape = notes.get("maxshape")
        context: Any = {
            "maxshape": tuple(maxshape) if isinstance(maxshape, list) else None,
            "elements": _to_ascii if notes.get("text") == "ascii" else None,
            "file_id": self.file.root_id,
            "hierarchy": self.hierarchy,
        }
        if self.edits is None:
            return LazyArray(self.store, path, node, self._cache, **context)
        # the data of a typed dataset are the data of a column, and those hdmf extends
        check_unwritten(self.store, path, node.stored)  # a change of its shape looks at each chunk that it states
        array = EditableColumn if node.attributes.keys() & TYPE_KEYS else EditableArray
        return array(self.edits, self.store, path, node, self._cache, **context)

    def _dataset(self, path: str, node: Dataset, attributes: dict[str, Any], scalars: dict[str, bytes]) -> Any:
        """Return the builder of the array at ``path``; ``scalars`` are the stored scalars by key."""
        means, lazy = describe(node), self._lazy(path, node)
        data: Any = lazy
        try:
            if means.is_scalar:
                data, dtype = self._scalar(path, lazy, means, scalars)
            elif means.form == "rows":
                data, dtype = BuilderTable(lazy, self.references, dict(means.fields)), to_hdmf(means.stored)
            elif isinstance(means.stored, Reference):
                data, dtype = BuilderReferences(lazy, self.references), "object"
            elif means.form == "objects":
                dtype = _text_type(means)
            else:  # hdmf's validator takes the types of listed fields from the first row; without one, from NumPy's
                dtype = to_hdmf(means.stored) if means.fields and 0 not in lazy.shape else lazy.dtype
        except errors.UnsupportedFileError:  # the library of its type is absent: said where its values are read
            dtype = to_hdmf(means.stored)
        if means.is_scalar:
            return make_dataset(path, data, dtype, attributes, self.source)
        axes = {"maxshape": lazy.maxshape, "dimension_labels": decode_dimensions(node.attributes), "chunks": True}
        return make_dataset(path, data, dtype, attributes, self.source, **axes)

    def _scalar(self, path: str, lazy: LazyArray, means: Described, scalars: dict[str, bytes]) -> tuple[Any, Any]:
        stored = lazy.node.stored
        values = lazy.decoded(scalars.get(join(path, stored.first_chunk)))
        if means.form == "rows":
            if not stored.shape:
                problem = "rows need an axis, and this array has none"
                raise errors.MetadataError(problem, remedy="Give it the shape [1].")
            # its references lead to builders that may not be there yet
            self._scalars[path] = BuilderTable(lazy, self.references, dict(means.fields))
            return None, to_hdmf(means.stored)
        value = values.item(0) if means.form == "objects" else values.reshape(-1)[0]
        if isinstance(means.stored, Reference) and isinstance(value, dict):
            self._scalars[path] = decode_reference(value)
            return None, "object"
        if isinstance(value, np.void):
            return np.array(value, dtype=lazy.dtype), to_hdmf(means.stored) if means.fields else lazy.dtype
        if isinstance(value, bytes):
            try:
                value = value.decode("utf-8")
            except UnicodeDecodeError:
                return value, "bytes"
        return value, _text_type(means) if isinstance(value, str) else lazy.dtype

    # ---- links and references ---------------------------------------------------------------------------------------

    def set_links(self, builder: Any, path: str, links: Iterable[Link]) -> None:
        """Give a builder of the group at ``path`` some of its links; one that leads to nothing is a warning."""
        for link in links:
            try:
                target = self.resolve(link.target)
            except (*_BROKEN, OSError) as error:
                # in the words of HDF5IO
                message = f"Path to Group altered/broken at {absolute(join(path, link.name))} in {self.source}: {error}"
                warn(message, BrokenLinkWarning)
                continue
            set_link(builder, link.name, target, path=absolute(path))

    def resolve(self, reference: ZarrReference) -> Any:
        """Return the builder that ``reference`` points to, in this file or another."""
        file = self.assembler_of(self.resolver.file(self.file, reference.source))
        try:
            target = file.builder_at(reference.node_path)
        except errors.ReferenceTargetError as error:
            if reference.object_id is not None:
                error.problem += f"; what is meant has the object_id {reference.object_id}"
            raise
        self.check_ids(reference, target.attributes.get("object_id"), file)
        return target

    def check_ids(self, reference: ZarrReference, object_id: Any, file: Assembler) -> None:
        """Warn where the object id of a target, or that of its file, is not the one that the reference names."""
        for what, wanted, actual in (
            (f"the object at {reference.path}", reference.object_id, object_id),
            ("the file", reference.source_object_id, file.file.root_id),
        ):
            if wanted is None or not isinstance(actual, str) or wanted == actual:
                continue
            if (reference.source, what, wanted) in self._wrong:
                continue  # a link of an open group is resolved again when the group is completed
            self._wrong.add((reference.source, what, wanted))
            about = f"{what} has the object_id {actual}, not {wanted}; it may have been replaced."
            warn(f"{self.source} refers to {reference.source!r}: {about}", errors.WrongTargetWarning)

    def builder_at(self, path: str) -> Any:
        """Return the builder at ``path``, through links where the path goes through some."""
        builder = self.builders.get(relative(path))
        if builder is not None:
            return builder
        file, target_path = self.locate(THIS_FILE, path)
        return file._built(target_path)

    def locate(self, source: str, path: str) -> tuple[Assembler, str]:
        """Return file and path of the node that a link or reference in this file leads to."""
        linked, target_path, _ = self.resolver.find(self.file, source, path)
        file = self.assembler_of(linked)
        if file._is_hidden(target_path):  # the cached specifications are no objects of the file
            raise nothing_at(file.source, target_path)
        return file, target_path

    # ---- arrays and builders of an open file -------------------------------------------------------------------------

    def array_at(self, path: str) -> LazyArray:
        """Return the array at ``path``, in the model's spelling."""
        return self._lazy(path, self.hierarchy.array(path))

    def adopt(self, builder: Any) -> None:
        """Take over the builders of a tree that was written, so that references find them."""
        for path, below in builders_below(builder):
            self.builders.setdefault(path, below)
