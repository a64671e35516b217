"""`Planner`: makes the plan of a file from its builders; `AppendPlanner`: the plan of what is new or differs.

Bad input is refused before anything is written. In an append, nodes on disk are kept: a document is rewritten only if
attributes or links differ, and arrays are only added. A change of an existing value is refused.

Source: ``HDF5IO.write_group`` for what an append may change.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np
from hdmf.build import GroupBuilder
from hdmf.data_utils import AbstractDataChunkIterator, DataChunkIterator, GenericDataChunkIterator
from hdmf.query import BuilderResolver

from hdmf_zarr_backend.array.chunks import check_unwritten
from hdmf_zarr_backend.array.lazy import EditableArray, LazyArray, UnlinkedArray, stored_view
from hdmf_zarr_backend.encoding import dtypes, reserved
from hdmf_zarr_backend.encoding.attributes import decode_attributes, encode_attributes
from hdmf_zarr_backend.encoding.casting import unmasked
from hdmf_zarr_backend.encoding.chunk_codec import check_given
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.layout import Layout
from hdmf_zarr_backend.encoding.nczarr import encode_dimensions
from hdmf_zarr_backend.encoding.parser import Resolver
from hdmf_zarr_backend.encoding.references import Link, ZarrReference, encode_link, find_link
from hdmf_zarr_backend.encoding.reserved import notes_of, root_notes
from hdmf_zarr_backend.errors import ConflictError, UsageError, ValueRefusedError, at, warn
from hdmf_zarr_backend.hdf5.files import check_allocated
from hdmf_zarr_backend.hdf5.plan import CheckedDataset, is_hdf5_dataset, plan_h5_dataset
from hdmf_zarr_backend.hdmf.containers import SCALARS, KnownFields, is_same, other_values, stored_array
from hdmf_zarr_backend.hdmf.dataio import ZarrDataIO, unwrapped
from hdmf_zarr_backend.hdmf.internals import chunk_read_ahead
from hdmf_zarr_backend.hdmf.namespaces import Texts, link_names, names_in, specs_in
from hdmf_zarr_backend.hdmf.schema import is_untyped, member_at, specs_at
from hdmf_zarr_backend.hdmf.targets import (
    REFERENCES,
    StoredReference,
    Targets,
    builder_path,
    builders_below,
    can_be_named,
    object_id,
)
from hdmf_zarr_backend.model.links import THIS_FILE, relative_source
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, absolute, join, relative, split
from hdmf_zarr_backend.options import ReadOptions, WriteOptions
from hdmf_zarr_backend.write import array_planner
from hdmf_zarr_backend.write.array_planner import keep_layout, take_stored
from hdmf_zarr_backend.write.iterators import plan_iterator
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan, checked_name
from hdmf_zarr_backend.write.sources import ElementSource, RowSource

# `H5DataIO` may reach a write to Zarr: the same script writes both formats.
_NOT_FILTERS = frozenset({"chunks", "maxshape", "fillvalue", "shape", "dtype"})
"""Settings of a DataIO of HDF5 that are not filters."""


@dataclass(slots=True)
class WriteRequest:
    """One call of ``write_builder``."""

    builder: Any  # the root
    targets: Targets
    options: WriteOptions  # with strict JSON, chunk keys and the consolidated document as this file has them
    rules: ReadOptions  # for HDF5 data that are copied
    # that the schema allows for a dataset; None if it is unlimited
    max_shape: Callable[[Any], tuple[int | None, ...] | None]
    doc: Callable[[Any], str | None]  # the schema's documentation of a builder; None if none is to be written
    zarr_format: int  # of a new file
    has_both: bool  # whether a new file also gets the metadata of format 3
    shards_choose_format: bool  # a new file has format 3 if shards are asked for, since no format is
    exclusive: bool  # a new file must not replace anything, including a file created in the meantime
    texts: Texts = field(default_factory=dict)  # namespaces to cache
    link_data: bool = False  # link to stored arrays given as data, unless their `ZarrDataIO` says otherwise
    schema: Any = None  # the catalog that names the axes of arrays from another file, whose builders have no labels
    one_by_one: bool = True  # iterators: each is exhausted before the next one; else in turns
    unfilled: list[tuple[Any, str]] = field(default_factory=list)
    """``(ZarrDataIO, path)`` of the arrays that are planned with shape and type only."""


@dataclass(slots=True)
class PlannedGroup:
    """A group while its members are planned: its links, and the names of the axes of its arrays with their lengths."""

    node: Group
    path: str
    links: list[Link] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=dict)


class Planner:
    """Makes a `WritePlan` from builders."""

    def __init__(self, request: WriteRequest) -> None:
        self.request = request
        self.targets = request.targets
        self._copied_files: set[str] = set()
        self._streams: dict[int, str] = {}
        manager = self.targets.source_manager or self.targets.manager
        self._catalog = getattr(manager, "namespace_catalog", None)
        self._link_names = link_names(None if self._catalog is None else specs_in(self._catalog))
        self._homes: dict[str, str] = {}  # of datasets that have left their path in an exported file: the new paths
        self._apart: list[Any] = []  # builders that are copied to other paths than those of their links
        self.plan = WritePlan()

    def plan_root(self, builder: Any) -> WritePlan:
        """Plan the complete file."""
        root = Group()
        self.plan.hierarchy = Hierarchy(root, self.request.zarr_format)
        self.fill_group(builder, root, "")
        self._add_apart()
        return self.plan

    def fill_group(self, builder: Any, node: Group, path: str) -> None:
        """Plan the members, links and attributes of a group."""
        group = PlannedGroup(node, path)
        for name, child in builder.groups.items():  # one call for each level: Python's recursion is limited
            member = Group()
            node.members[self._name(name, path)] = member
            self.fill_group(child, member, join(path, name))
        for name, child in sorted(builder.datasets.items()):  # the order determines which axes share a name
            if child is not None:  # HDF5IO has None for a broken link, of which it has warned
                self.dataset(child, group, self._name(name, path))
        for link in builder.links.values():  # of the root too, which hdmf-zarr 0.13 leaves out
            self._link(link, group)
        node.attributes = self._attributes(builder, path, {} if path else root_notes())
        if group.links:
            node.attributes[reserved.LINKS] = [encode_link(link) for link in group.links]

    def member(self, builder: Any, group: PlannedGroup, name: str) -> None:
        """Plan a group or a dataset as a member of a group."""
        if not isinstance(builder, GroupBuilder):
            self.dataset(builder, group, name)
            return
        member = Group()
        group.node.members[name] = member
        self.fill_group(builder, member, join(group.path, name))

    def _name(self, name: str, path: str) -> str:
        with at(self.targets, path):
            return checked_name(name)

    def _attributes(self, builder: Any, path: str, notes: dict[str, Any]) -> Attributes:
        attributes = dict(builder.attributes)
        doc = None if reserved.DOC in attributes else self.request.doc(builder)
        if doc is not None:
            attributes[reserved.DOC] = doc
            notes[reserved.DOC] = True
        strict = self.request.options.strict_json
        with at(self.targets, path):
            return encode_attributes(attributes, notes=notes, reference=self.targets.encode_attribute, strict=strict)

    # ---- links ------------------------------------------------------------------------------------------------------

    def _link(self, link: Any, group: PlannedGroup) -> None:
        target = link.builder
        name = self._name(link.name, group.path)
        copied, path = self.targets.moved(target), join(group.path, name)
        # a copy on request is made for each link
        if copied is not None and copied.node_path != path and not self._copies(target):
            group.links.append(Link(name, copied))
            return
        exporting = self.targets.export_location is not None
        is_moved = str(target.source) in self._copied_files
        is_linked_here = exporting and not is_moved and target.source == link.source
        own = self.targets.is_own(target) or is_linked_here  # it is, or will be, in the file to write
        if not own and (self._copies(target) or not can_be_named(str(target.source))):
            self._copied_files.add(str(target.source))  # it cannot be a link (into an HDF5 file), or should not be one
            copy = path
            if self._is_fixed(link):  # a copy cannot be there: at another link, or as in its own file
                self._apart.append(target)
                below = builders_below(self.request.builder)
                groups = ((above, each) for above, each in below if isinstance(each, GroupBuilder))
                links = ((above, each) for above, group in groups for each in group.links.values())
                others = ((above, each) for above, each in links if each.builder is target and not self._is_fixed(each))
                copy = next((join(above, each.name) for above, each in others), relative(builder_path(target)))
            self.targets.move(target, copy)
            if copy != path:
                self._link(link, group)
            else:
                self.member(target, group, name)
            return
        reference = self.targets.reference_to(target)
        if own and reference.source != THIS_FILE:
            reference = ZarrReference(THIS_FILE, builder_path(target), reference.object_id)
        group.links.append(Link(name, reference))

    def _is_fixed(self, link: Any) -> bool:
        """Tell whether the schema allows nothing but a link to an object of its own place."""
        return isinstance(link.builder, GroupBuilder) and link.name in self._link_names(link.parent)

    def _add_apart(self) -> None:
        """Add the copies that no link has added, at their own paths; `check_targets` refuses what has no place."""
        hierarchy = self.plan.hierarchy
        for builder in self._apart:  # it grows: copies may have such links too
            path = self.targets.reference_to(builder).node_path
            parent, name = split(path)
            groups = [group for group in accumulate(parent.split("/"), join) if group not in hierarchy]
            for group in groups:
                if any(map(is_untyped, specs_at(self._catalog, hierarchy, group))):
                    hierarchy.add(group, Group())
            node = hierarchy.get(parent)
            if isinstance(node, Group) and path not in hierarchy and find_link(node.attributes, name) is None:
                self.member(builder, PlannedGroup(node, parent), name)
                self.plan.added.add([*groups, path][0])

    def _copies(self, target: Any) -> bool:
        """Tell whether a link to another file becomes a copy: to a dataset, on request; a group is not copied."""
        exporting = self.targets.export_location is not None
        return exporting and not self.request.link_data and not isinstance(target, GroupBuilder)

    # ---- datasets ---------------------------------------------------------------------------------------------------

    def dataset(self, builder: Any, group: PlannedGroup, name: str) -> None:
        """Plan a dataset as a member of a group."""
        data, path = builder.data, join(group.path, name)
        options = self._layout(builder, path)
        is_unfilled = isinstance(data, ZarrDataIO) and data.data is None and "shape" in data.io_settings
        data = self._unfilled(data, options, path) if is_unfilled else stored_view(unwrapped(data))
        if isinstance(data, LazyArray):
            reference = self._link_instead_of_copy(builder, data, path)
            if reference is not None:
                self._warn_of_lost(builder, data.node.attributes, path, reference)
                group.links.append(Link(name, reference))
                return
            given = unwrapped(builder.data)
            data = data if given.shape else given[()]
        asks_for_link = isinstance(builder.data, ZarrDataIO) and builder.data.link_data
        if asks_for_link and (is_hdf5_dataset(data) or isinstance(data, UnlinkedArray)):
            kind = "an HDF5 dataset" if is_hdf5_dataset(data) else "an array that is not in a file that can be named"
            self._warn(path, f"link_data=True has no effect: the data are {kind}, and are copied")
        sharding = options.sharding()
        with at(self.targets, path):
            self._check_data(data, absolute(path))
            planned = self._plan_data(builder, data, options)
            _check_maxshape(builder.data, planned)
            if not isinstance(data, LazyArray) and not is_hdf5_dataset(data):  # copies of stored dates may have no unit
                dtypes.check_units(planned.node.stored.data_type)
            if options.has_given_codecs:
                check_given(planned.node.stored)
        planned.sharding, planned.has_given_codecs = sharding, options.has_given_codecs
        if isinstance(data, LazyArray):
            keep_layout(planned, data, **_kept(builder.data, options))
            take_stored(planned, data)
        self._finish(builder, planned, options, path, group.taken)
        group.node.members[name] = planned.node
        self.plan.arrays[path] = planned

    def _warn_of_lost(self, builder: Any, attributes: Attributes, path: str, target: ZarrReference) -> None:
        """Warn of attributes, such as the unit of a series, that a link does not have, since its target has others."""
        stored = decode_attributes(attributes, resolve=StoredReference)
        specs = getattr(builder.matched_spec, "attributes", ())
        # nobody gave a default, and the target has the one that fits its values
        default = {each.name: each.default_value if each.value is None else each.value for each in specs}
        lost = ", ".join(
            f"{name}={value} (there {stored.get(name)})"
            for name, value in builder.attributes.items()
            if not (name in reserved.IDENTITY or isinstance(value, REFERENCES) or is_same(value, stored.get(name)))
            and not is_same(value, default.get(name))
        )
        if lost:
            what = f"not written, since the data are a link to {_named(target)}: {lost}"
            self._warn(path, f"{what}. Copy the values to write these: data=series.data[:]")

    def _warn(self, path: str, what: str) -> None:
        warn(f"{self.targets.location}, {absolute(path)}: {what}")

    def _finish(self, builder: Any, planned: PlannedArray, options: Layout, path: str, taken: dict[str, int]) -> None:
        array: Dataset = planned.node
        means = describe(array, planned.notes)
        maxshape = options.maxshape or builder.maxshape
        if maxshape is not None and not means.is_scalar and "maxshape" not in planned.notes:
            maxshape = (maxshape,) if isinstance(maxshape, int) else tuple(maxshape)
            if maxshape != means.axes and len(maxshape) == len(means.axes):
                planned.notes["maxshape"] = list(maxshape)
        # reserved ones last: an attribute of the user with such a name is escaped, and cannot replace them
        own = dict(array.attributes)
        if planned.iterator is None:  # the lengths of an iterator are known when it is exhausted
            labels, shape = builder.dimension_labels, array.stored.shape
            own[reserved.DIMENSIONS] = encode_dimensions(labels, shape, taken, planned.notes)
        else:
            planned.labels = builder.dimension_labels
            planned.taken = taken
        array.attributes = {**self._attributes(builder, path, planned.notes), **own}

    def _layout(self, builder: Any, path: str) -> Layout:
        data, maxshape = builder.data, self.request.max_shape(builder)
        if isinstance(data, ZarrDataIO):
            names = ("chunks", "chunk_elements", "chunk_aspect_ratio", "shards", "compressor", "filters")
            chosen = {name: getattr(data, name) for name in names}
            return Layout(maxshape=data.io_settings.get("maxshape", maxshape), fill_value=data.fillvalue, **chosen)
        # settings of a DataIO of another backend
        has_settings = isinstance(getattr(type(data), "io_settings", None), property)
        settings = data.io_settings if has_settings and not is_hdf5_dataset(data.data) else {}
        if left := [name for name, value in settings.items() if value and name not in _NOT_FILTERS]:
            what = f"filters of HDF5 are ignored ({', '.join(left)} of {type(data).__name__})"
            self._warn(path, f"{what}; wrap the data in ZarrDataIO to choose a codec")
        chunks = settings["chunks"] if isinstance(settings.get("chunks"), tuple) else None
        return Layout(chunks, settings.get("fillvalue"), settings.get("maxshape", maxshape))

    def _unfilled(self, wrapper: Any, options: Layout, path: str) -> Any:
        """Return the fill values of a dataset that will be filled later."""
        if wrapper.dataset is not None:
            problem = "the array that this wrapper was written to belongs to another file"
            with at(self.targets, path):
                raise UsageError(problem, remedy="Create a new wrapper for each file.")
        self.request.unfilled.append((wrapper, path))
        fill = 0 if options.fill_value is None else options.fill_value
        return np.broadcast_to(np.asarray(fill, wrapper.dtype), wrapper.io_settings["shape"])

    def _link_instead_of_copy(self, builder: Any, data: LazyArray, path: str) -> ZarrReference | None:
        """Return the target of a link to a stored array in place of a dataset at ``path``; None if it is copied."""
        link_data = builder.data.link_data if isinstance(builder.data, ZarrDataIO) else self.request.link_data
        # the path at which the file has, or will have, the dataset; by path: hdmf-zarr 0.13 compares names of parents,
        # and links `file_create_date` to itself in each NWB file
        exported = self.targets.export_location
        home = data.path if data.location == (exported or self.targets.location) else None
        if exported is not None and home not in (None, path):
            # its own path, unless the series there was moved or has other data now; else the first that has it
            there = member_at(self.request.builder, tuple(data.path.split("/")))
            kept = stored_view(unwrapped(getattr(there, "data", None)))
            if not isinstance(kept, LazyArray) or (kept.location, kept.path) != (data.location, data.path):
                home = self._homes.setdefault(data.path, path)
        # a container that is a link is read with the name and type of its target, and data of this file as its series
        data_type, names = reserved.data_type_of(builder), {split(each)[1] for each in (data.path, path)}
        is_alike = len(names) == 1 and reserved.data_type_of(data.node) == data_type
        if not link_data or home == path or not (is_alike or (home is None and data_type is None)):
            return None
        identifier = data.node.attributes.get("object_id")
        if home is not None:
            return ZarrReference(THIS_FILE, absolute(home), identifier, self.targets.root_id)
        if isinstance(data, UnlinkedArray) or not can_be_named(data.location):
            return None
        return ZarrReference(relative_source(data.location, self.targets.location), data.name, identifier, data.file_id)

    def _plan_data(self, builder: Any, data: Any, options: Layout) -> PlannedArray:
        dtype_name = dtypes.word_of(builder.dtype)
        encode = self.targets.encode
        data = unmasked(data)
        if isinstance(data, REFERENCES):
            return array_planner.plan_references([data], (), options, encode)
        if isinstance(data, AbstractDataChunkIterator):
            return plan_iterator(data, dtype_name, options)
        if isinstance(data, BuilderResolver):
            return self._plan_resolved(data, options)
        if is_hdf5_dataset(data):
            return plan_h5_dataset(data, options, encode)
        is_stored = isinstance(data, LazyArray)
        may_refer = isinstance(data, (list, tuple)) or getattr(getattr(data, "dtype", None), "kind", "") == "O"
        may_refer = may_refer and not is_stored and not isinstance(dtype_name, list)
        if dtype_name in ("object", "region") or (may_refer and isinstance(array_planner.first_leaf(data), REFERENCES)):
            return array_planner.plan_references(data, array_planner.shape_of(data), options, encode)
        if is_stored and data.dtype.names is not None and not data.dtype.hasobject:
            # stored rows are copied as they are, with their fixed-length and multi-axis fields
            dtype_name = None
        if array_planner.shape_of(data) == ():
            return array_planner.plan_scalar(data, dtype_name, options, encode)
        # of an empty list the type is only in the builder, as `str` for text
        element_type = builder.dtype if isinstance(builder.dtype, type) else None
        return array_planner.plan_array(data, dtype_name, options, encode, element_type=element_type)

    def _check_data(self, data: Any, path: str) -> None:
        """Refuse stored data without most of their chunks, and iterators whose blocks are missing, or would be."""
        stored = getattr(data, "dataset", data)  # of references or rows that are resolved
        if isinstance(stored, LazyArray) and not isinstance(stored, EditableArray):
            check_unwritten(stored.file_store, stored.path, stored.node.stored)
        elif is_hdf5_dataset(stored):
            check_allocated(stored, self.request.rules)
        if not isinstance(data, AbstractDataChunkIterator):
            return
        if _is_started(data):  # each block can be taken only once
            problem = "blocks have been taken from the iterator already, and would be missing"
            remedy = "Create a new iterator for each write. To leave out the first values of a generator, give "
            raise ValueRefusedError(problem, remedy=f"{remedy}itertools.chain(generator).")
        while data is not None:  # it may wrap another iterator, and two datasets with that one would share its values
            other = self._streams.setdefault(id(data), path)
            if other != path:
                problem = f"the iterator gives the values of {other} too, and can be read only once"
                remedy = "Create an iterator for each dataset, or let one object link to the other."
                raise ValueRefusedError(problem, remedy=remedy)
            inner = getattr(data, "data", None) if isinstance(data, AbstractDataChunkIterator) else None
            data = inner if isinstance(inner, Iterator) else None

    def _plan_resolved(self, data: Any, options: Layout) -> PlannedArray:
        """Plan a dataset that resolves its references to builders, from any backend."""
        stored = data.dataset
        if is_hdf5_dataset(stored):
            planned = plan_h5_dataset(stored, options, self.targets.encode)
            if isinstance(planned.source, (ElementSource, RowSource)):
                # the elements of the view are builders; those of h5py are addresses
                planned.source.data = CheckedDataset(stored, data)
            return planned
        if isinstance(data.dtype, list):
            return array_planner.plan_rows(data, len(data), list(data.fields.items()), options, self.targets.encode)
        element = describe(stored.node).stored if isinstance(stored, LazyArray) else None
        return array_planner.plan_references(data, tuple(data.shape), options, self.targets.encode, element=element)


def _check_maxshape(data: Any, planned: PlannedArray) -> None:
    """Refuse a largest shape of the user that has other axes than the data, or is smaller."""
    largest = data.io_settings.get("maxshape") if isinstance(data, ZarrDataIO) else None
    if largest is None or (means := describe(planned.node, planned.notes)).is_scalar:
        return
    is_alike = len(largest) == len(means.axes)
    if not is_alike or any(m is not None and m < n for m, n in zip(largest, means.axes, strict=True)):
        problem = f"maxshape {largest} does not fit the shape {means.axes}"
        raise UsageError(problem, remedy="Give each axis None, or a length that is not less than that of the data.")


def _kept(data: Any, options: Layout) -> dict[str, bool]:
    """Return what a copy of a stored array keeps: all that the user has not chosen."""
    is_default = isinstance(data, ZarrDataIO) and data.io_settings.get("chunks") is True
    chooses = options.chunks is not None or options.chooses_by_elements or options.shards is not None
    return {
        "chunks": not chooses and not is_default,
        "codecs": options.compressor is None and options.filters is None,
        "fill_value": options.fill_value is None,
    }


def _is_started(data: Any) -> bool:
    """Tell whether blocks have been taken from an iterator of hdmf, or values from its generator."""
    if isinstance(data, GenericDataChunkIterator):
        return _is_running(data.buffer_selection_generator)
    if not isinstance(data, DataChunkIterator):
        return False
    ahead = chunk_read_ahead(data)  # to find the type: that block is not lost
    if not data.chunk_index or ahead is None:
        return _is_running(data.data)
    return data.chunk_index > 1 or (ahead.data is None and ahead.selection is not None)


def _is_running(values: Any) -> bool:
    return inspect.isgenerator(values) and inspect.getgeneratorstate(values) != inspect.GEN_CREATED


class AppendPlanner(Planner):
    """Plans a write to an existing file."""

    def __init__(
        self, request: WriteRequest, hierarchy: Hierarchy, *, original: Callable[[str], Any], fields: KnownFields
    ) -> None:
        super().__init__(request)
        self.plan = WritePlan(hierarchy)
        resolver = Resolver(None, hierarchy, request.targets.location)
        self._location = partial(resolver.locate, resolver.main)  # of a file that a link or reference names
        self._is_written, self._original, self._is_unchanged = self.targets.is_written, original, fields.is_unchanged

    def plan_root(self, builder: Any) -> WritePlan:
        """Plan everything that is new or differs."""
        root = self.plan.hierarchy.root
        stored, wanted = root.attributes.get("object_id"), object_id(builder)
        if isinstance(stored, str) and wanted is not None and stored != wanted and not self._is_written(builder):
            problem = f"the file holds the root object {stored} and {wanted} is to be written: the name already exists"
            remedy = "Read the file, change what was read and write that; or use mode 'w' to replace the file."
            raise ConflictError(problem, store=self.targets.location, path="/", remedy=remedy)
        self._merge_group(builder, root, "")
        self._add_apart()
        return self.plan

    def _merge_group(self, builder: Any, node: Any, path: str) -> None:
        if not isinstance(node, Group):
            raise self._conflict(path, "an array", "a group")
        group, known = PlannedGroup(node, path, taken=names_in(node)), {*node.members}
        for name, child in builder.groups.items():
            if self._name(name, path) in known:
                self._merge_group(child, node.members[name], join(path, name))
                continue
            self._check_free(group, name, "a group")
            self.member(child, group, name)
        for name, child in builder.datasets.items():
            if child is not None:
                self._merge_dataset(child, group, self._name(name, path))
        for link in builder.links.values():
            if not self._is_written(link):
                self._merge_link(link, group)
        self._merge_attributes(builder, node, path)
        if group.links:
            entries = [*node.attributes.get(reserved.LINKS, []), *map(encode_link, group.links)]
            node.attributes = {**node.attributes, reserved.LINKS: entries}
            self.plan.changed.add(path)
        self.plan.added |= {join(path, name) for name in node.members.keys() - known}

    def _merge_dataset(self, builder: Any, group: PlannedGroup, name: str) -> None:
        path = join(group.path, name)
        if (node := group.node.members.get(name)) is not None:
            if not isinstance(node, Dataset):
                raise self._conflict(path, "a group", "a dataset")
            data = stored_array(builder.data)
            is_this = isinstance(data, LazyArray) and data.location == self.targets.location and data.path == path
            if not self._is_written(builder) and not is_this:
                values = self._original(path).data
                # an iterator can be read only once, so it cannot be compared
                if isinstance(data, AbstractDataChunkIterator) or not is_same(data, values):
                    raise other_values(values, builder.data, self.targets.location, absolute(path))
            self._merge_attributes(builder, node, path)
            return
        stored = find_link(group.node.attributes, name)
        if stored is None:
            if isinstance(builder.data, SCALARS) and self._is_unchanged(builder, None):
                return
            self.dataset(builder, group, name)
        elif not self._is_written(builder):
            data = stored_view(unwrapped(builder.data))
            wanted = self._link_instead_of_copy(builder, data, path) if isinstance(data, LazyArray) else None
            if wanted is None or not self._leads_to(wanted, stored):
                self._check_free(group, name, "a dataset" if wanted is None else f"a link to {_named(wanted)}")

    def _merge_link(self, link: Any, group: PlannedGroup) -> None:
        target, stored = link.builder, find_link(group.node.attributes, link.name)
        try:
            wanted = self.targets.moved(target) or self.targets.reference_to(target)
        except ValueRefusedError:  # no Zarr file can point there, and so it is copied
            wanted = ZarrReference(str(target.source), builder_path(target))
        if stored is not None and self._leads_to(wanted, stored):
            return
        self._check_free(group, link.name, f"a link to {_named(wanted)}")
        self._link(link, group)

    def _check_free(self, group: PlannedGroup, name: str, wanted: str) -> None:
        member, stored = group.node.members.get(name), find_link(group.node.attributes, name)
        if member is not None:
            raise self._conflict(join(group.path, name), "a group" if isinstance(member, Group) else "an array", wanted)
        if stored is not None:
            raise self._conflict(join(group.path, name), f"a link to {_named(stored)}", wanted)

    def _conflict(self, path: str, stored: str, wanted: str) -> ConflictError:
        problem = f"the file holds {stored} where {wanted} is to be written"
        remedy = "Give the new object another name, or export to a new file."
        return ConflictError(problem, store=self.targets.location, path=path, remedy=remedy)

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _merge_attributes(self, builder: Any, node: Any, path: str) -> None:
        """Replace the attributes of a node where the user has changed them."""
        stored = node.attributes
        before = decode_attributes(stored, resolve=StoredReference)
        wanted = {}
        for name, value in builder.attributes.items():
            # elements of a list may have been changed
            is_kept = name in before and self._same_value(value, before[name])
            may_be_same = name not in before or isinstance(value, SCALARS)  # hdmf makes something else of each value
            if not is_kept and not (may_be_same and self._is_unchanged(builder, name)):
                wanted[name] = value
        if not wanted:
            return
        merged = {**before, **wanted}  # an append removes no attribute
        # a `doc` of the user is not the schema's
        left_out = {"attributes", "escaped", *({reserved.DOC} & builder.attributes.keys())}
        notes = {key: value for key, value in notes_of(stored).items() if key not in left_out}
        strict = self.request.options.strict_json
        encoded = encode_attributes(merged, notes=notes, reference=self.targets.encode_attribute, strict=strict)
        kept = reserved.RESERVED - {reserved.NOTES, reserved.NCZARR_ATTR}
        kept |= {reserved.DOC} if notes.get(reserved.DOC) is True else set()
        # others may have attributes that are null, which are no attributes of a builder
        kept |= {key for key, value in stored.items() if value is None and key not in encoded}
        fresh = {**encoded, **{key: stored[key] for key in stored if key in kept}}
        if reserved.NOTES in stored and notes:
            fresh.setdefault(reserved.NOTES, notes)
        if fresh != stored:
            node.attributes = fresh
            self.plan.changed.add(path)

    def _same_value(self, wanted: Any, before: Any) -> bool:
        if isinstance(before, StoredReference):
            encoded = self.targets.encode_attribute(wanted)
            return encoded is not None and self._target(encoded) == self._target(before.json)
        if isinstance(before, list) and before and isinstance(before[0], StoredReference):
            given = isinstance(wanted, (list, tuple)) and len(wanted) == len(before)
            return given and all(map(self._same_value, wanted, before))
        is_bytes = getattr(getattr(before, "dtype", None), "kind", "") == "S"  # of old files, which are text to pynwb
        return is_same(wanted, before) or (
            is_bytes and is_same(wanted, np.char.decode(before, "utf-8", "surrogateescape"))
        )

    def _target(self, json: dict[str, Any]) -> tuple[Any, Any]:
        """Return location and path of the target of a reference in an attribute."""
        value = json.get("value", {})
        source = value.get("source")
        return self._location(source) if isinstance(source, str) else source, value.get("path")

    def _leads_to(self, one: ZarrReference, other: ZarrReference) -> bool:
        return one.node_path == other.node_path and self._location(one.source) == self._location(other.source)


def _named(target: ZarrReference) -> str:
    return target.path if target.source == THIS_FILE else f"{target.path} of {target.source}"
