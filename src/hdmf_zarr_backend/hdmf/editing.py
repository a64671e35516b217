"""`Edit`: changes nodes that a file has already, with everything in the file that leads to them.

An edit is planned on a copy of the model: nodes are removed or get another path, and each link and reference is
followed to what it leads to. So all that cannot be done is refused before anything is written. `Edit.commit` makes one
change of it (`store.transaction`). The root refuses readers while references in existing arrays are written again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partialmethod
from operator import is_not
from typing import Any

import numpy as np
import numpy.typing as npt
from hdmf.build import BuildManager, ConstructError, DatasetBuilder
from hdmf.data_utils import AbstractDataChunkIterator
from hdmf.spec import DatasetSpec, GroupSpec, NamespaceCatalog

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.array.content import ArrayReader, past_the_end, stated_target
from hdmf_zarr_backend.array.edits import wider_filters
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.array.shards import shard_named
from hdmf_zarr_backend.encoding import reserved
from hdmf_zarr_backend.encoding.attributes import indices_in, members_in, with_attribute
from hdmf_zarr_backend.encoding.casting import to_text
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec
from hdmf_zarr_backend.encoding.elements import describe_any
from hdmf_zarr_backend.encoding.nczarr import is_nczarr
from hdmf_zarr_backend.encoding.parser import ParsedFile, Resolver
from hdmf_zarr_backend.encoding.references import decode_reference, find_link, is_reference, set_links
from hdmf_zarr_backend.encoding.reserved import as_dict, cached_versions, data_type_of, spec_location, visible
from hdmf_zarr_backend.errors import at, warn
from hdmf_zarr_backend.hdmf import schema
from hdmf_zarr_backend.hdmf.assembler import make_group
from hdmf_zarr_backend.hdmf.containers import stored_array
from hdmf_zarr_backend.hdmf.files import EditedFile, ReadSession, check_and_name, write_changes
from hdmf_zarr_backend.hdmf.namespaces import add_specs, name_axes, names_in, rename_axes, specs_in
from hdmf_zarr_backend.hdmf.planner import PlannedGroup, Planner, WriteRequest
from hdmf_zarr_backend.hdmf.targets import builder_path, builders_below, check_lengths, check_targets, object_id, top_of
from hdmf_zarr_backend.model.element import Opaque, Reference
from hdmf_zarr_backend.model.links import THIS_FILE
from hdmf_zarr_backend.model.nodes import Dataset, Group, Node, absolute, copy_hierarchy, join, relative, split
from hdmf_zarr_backend.model.render import counted, few
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.memory import InlinedStore
from hdmf_zarr_backend.write.array_planner import shape_of
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan, adapt_plan, checked_name, tell_apart
from hdmf_zarr_backend.write.sources import EncodedSource
from hdmf_zarr_backend.write.writer import PlannedKeys

Array = npt.NDArray[Any]
LISTS = frozenset({"colnames", "categories"})
"""Attributes of tables that list members: columns, and the tables of an aligned table."""

_FIXED = LISTS | reserved.IDENTITY
"""Attributes by which hdmf knows an object and its members."""


class Edit:
    """One change of the nodes of an open file; nothing is written before `commit`."""

    def __init__(self, file: EditedFile, manager: Any) -> None:
        store = file.store
        self._known = known = file.parsed.hierarchy
        if not store.abilities.listing:
            problem = "the store cannot list its keys, so that no group or dataset can be removed or renamed"
            raise errors.ReadOnlyStoreError(problem, store=store.location, remedy="Change a copy on a disk.")
        self.hierarchy = copy_hierarchy(known)
        self.done: list[str] = []  # what the change does, in words
        self.outdated: dict[str, str | None] = {}
        """Nodes and links that are removed or renamed: the old path and, unless it is removed, the new one."""
        self._file, self._manager, self._catalog = file, manager, manager.namespace_catalog
        self._plan = WritePlan(self.hierarchy, is_nczarr=is_nczarr(known))
        self._replaced: set[str] = set()  # paths of nodes that get other values, or are copied from another file
        # what leads to what is removed, why it cannot become null, and the path of the link, or of the node that has it
        self._lost: list[tuple[str, str | None, str]] = []
        self._nulls = 0  # references whose target is removed
        self._kept: dict[str, npt.NDArray[np.bool_]] = {}  # of arrays that lose rows: is an element kept?
        self._numbers: dict[str, Array] = {}  # new values of row numbers, at all elements
        self._before = Resolver(store, known, store.location)
        self._targets: dict[tuple[Any, Any], str | None] = {}
        self._specs = spec_location(known.root.attributes.get(reserved.SPECLOC))

    @cached_property
    def _catalogs(self) -> list[Any]:
        """The loaded namespaces and, since an older schema may require more, those that are cached in the file."""
        known = self._catalog
        cached = NamespaceCatalog(known.group_spec_cls, known.dataset_spec_cls, known.spec_namespace_cls)
        with warnings.catch_warnings(action="ignore"), suppress(errors.MetadataError):
            if self._catalog.namespaces:
                schema.load_cached_namespaces(cached, self._file.store, self._known)
        return [self._catalog, cached]

    def _why_required(self, path: str, **options: Any) -> str | None:
        # without what the same change removes
        reasons = (schema.why_required(catalog, self.hierarchy, path, **options) for catalog in self._catalogs)
        return next((reason for reason in reasons if reason is not None), None)

    def _error(self, cls: type[Any], problem: str, path: str, remedy: str, cli: str = "") -> Any:
        return cls(problem, store=self._file.store, path=absolute(path), remedy=remedy, remedy_cli=cli)

    _conflict = partialmethod(_error, errors.ConflictError)
    _misuse = partialmethod(_error, errors.UsageError)

    # ---- what is changed --------------------------------------------------------------------------------------------

    def remove(self, names: Sequence[str], rows: Any = None, *, cascade: bool) -> None:
        """Remove nodes, links, attributes (``path@name``), or ``rows`` of one table; refuse what others need."""
        if rows is not None:
            self._remove_rows(names, rows)
        else:
            inside = tuple(f"{relative(name)}{mark}" for name in names for mark in "/@")
            # an object first: what is in it goes with it
            for name in sorted(names, key=lambda name: relative(name).startswith(inside)):
                self._remove(name)
        self._follow_all()
        gone = (path for path, new in self.outdated.items() if rows is None and new is None)
        first = next(gone, names[0] if names else "")
        needed = [f"{what} ({reason})" for what, reason, _ in self._lost if reason is not None]
        if needed or (self._lost and not cascade):
            problem = f"it cannot be removed while these lead to it: {'; '.join(what for what, *_ in self._lost)}"
            if cascade:
                problem = f"it cannot be removed without these, which need it: {'; '.join(needed)}"
            raise self._conflict(problem, first, *self._how_to_remove(of_rows=rows is not None))
        self.done += [f"removed {what}" for what, *_ in self._lost]
        self._keep_rows()

    def _how_to_remove(self, *, of_rows: bool) -> tuple[str, ...]:
        """Return what to do about what leads to what is removed, in Python and on the command line."""
        if not of_rows and (remedy := self._how_to_part()):
            return (remedy,)
        owners: dict[str, None] = {}  # the nearest objects around that the schema does not require
        for owner in (self._owner(path) for _, reason, path in self._lost if reason is not None):
            while owner and self._why_required(owner) is not None:
                owner = self._owner(split(owner)[0])  # noqa: PLW2901 - the one around it
            owners[owner] = None
        named = few(list(map(absolute, owners)))
        if not owners:
            what = "it removes such links, attributes and row numbers, and makes references in datasets null."
            what += " pynwb on HDF5 cannot read null references."
            return tuple(f"Remove these first, or {how}: {what}" for how in ("pass cascade=True", "use --drop-links"))
        if of_rows:
            return f"First remove {named}, or replace the row numbers by io.replace.", f"First remove {named}."
        if any("colnames" in self._node(owner)[1].attributes for owner in owners):
            ways = ("io.remove(rows=...)", "`zarrio remove --rows`")
            return tuple(f"First remove the rows that need it, by {way}; or {named} together with it." for way in ways)
        return (f"Remove {named} together with it; to keep it, export to a new file with its own object there.",)

    def _how_to_part(self, only: str | None = None) -> str:
        """Return what to do about series (``only`` one) that have data or timestamps of what is removed; "" if none."""
        lost = {path: split(path) for *_, path in self._lost if self.outdated.get(path, path) is None}
        links = [path for path, (of, name) in lost.items() if name in ("data", "timestamps") and only in (None, of)]
        if not links:
            return ""
        owners = [*dict.fromkeys(absolute(split(path)[0]) for path in links)]  # one may share both
        series = few(owners)
        share, own = ("shares it", "it its") if len(owners) == 1 else ("share it", "each its")
        call = f"io.replace({absolute(links[0])!r}, values)"
        return f"{series} {share}. Give {own} own first: {call}, or remove {series} as well."

    def rename(self, name: str, new_name: str) -> None:
        """Give a node or a link another name in its group."""
        path, is_link = self._located(name)
        parent, old = split(path)
        if last := split(new_name.rstrip("/"))[1] if "/" in new_name else "":
            problem, remedy = f"{new_name!r} is a path", f"Give the new name alone: {last!r}."
            raise self._error(errors.NameRefusedError, problem, path, remedy)
        checked_name(new_name)
        moves = {path: join(parent, new_name)}
        for index in [] if is_link else self._indices(path):
            if split(index)[1].startswith(f"{old}_index"):
                moves[index] = join(parent, new_name + split(index)[1].removeprefix(old))
        for new in moves.values():
            self._check_free(parent, split(new)[1], path)
        self._check_not_needed(path, "it cannot be renamed", is_rename=True)
        for each, new in moves.items():
            self._move(each, new)
        if not is_link:
            self._check_renamed(path, moves[path])
        self._follow_all()

    def _check_free(self, parent: str, name: str, path: str, remedy: str = "Choose another name.") -> None:
        group = self.hierarchy.group(parent)
        is_attribute = name in visible(group.attributes).values()
        if is_attribute or name in group.members or find_link(group.attributes, name) is not None:
            kind = "an attribute" if is_attribute else "a member"  # which are one for hdmf
            raise self._conflict(f"the group has {kind} {name!r} already", path, remedy)

    def _check_renamed(self, old: str, new: str) -> None:
        """Refuse a name that the schema has for another type, or for other values."""
        (parent, name), node = split(new), self.hierarchy.get(new)
        names, others = self._names_for(parent, node)
        if name in others - names:
            problem = f"the schema does not have {name!r} for a {data_type_of(node) or 'member of this kind'}"
            raise self._conflict(problem, old, "Choose another name.")
        if isinstance(node, Dataset) and name in names:
            builder = ReadSession(self._file.store, self._file.parsed, self._manager).own.builder_at(old)
            first = np.asarray(builder.data[:1] if shape_of(builder.data) else builder.data)
            values: Any = None
            with suppress(errors.ValueRefusedError):
                values, _ = schema.converted(schema.specs_at(self._catalog, self.hierarchy, new), first, builder, "")
            if values is None or (first.dtype.kind in "biufc" and np.asarray(values).dtype != first.dtype):
                problem = f"the schema has values of another type or shape under the name {name!r}"
                raise self._conflict(problem, old, "Choose another name, or first replace the values.")

    def _names_for(self, path: str, member: Any) -> tuple[set[str | None], set[str | None]]:
        """Return the names that the schema has in a group for a member, with None for any, and all of its names."""
        specs = [spec for spec in schema.specs_at(self._catalog, self.hierarchy, path) if isinstance(spec, GroupSpec)]
        members = [each for spec in specs for each in (*spec.groups, *spec.datasets)]
        if data_type_of(member) is not None:
            fitting = [each for each in members if schema.is_of(self._catalog, member, each.data_type)]
        else:
            kind = DatasetSpec if isinstance(member, (Dataset, DatasetBuilder)) else GroupSpec
            fitting = [each for each in members if schema.is_untyped(each) and isinstance(each, kind)]
        links = [each for spec in specs for each in spec.links]
        return {each.name for each in fitting}, {each.name for each in (*members, *links)}

    def replace(self, name: str, data: Any, request: Callable[[Any], WriteRequest]) -> None:
        """Give a dataset other values that the schema allows, or add one that is missing, if the schema has it.

        A link to a dataset of another object, such as timestamps, becomes a dataset of its own.
        """
        old = self._absent(name)
        path, is_link = (relative(name), False) if old is not None else self._located(name, may_be_index=True)
        store, node, (parent, last) = self._file.store, self._known.get(path), split(path)
        if old is None:
            old = ReadSession(store, self._file.parsed, self._manager).own.builder_at(path)
        if not isinstance(old, DatasetBuilder) or (is_link and reserved.IDENTITY & old.attributes.keys()):
            problem = "this is a link to an object" if is_link else "this is a group, and has no data"
            raise self._misuse(problem, path, "Give the path of a dataset.")
        given = stored_array(data)
        refused = "None" if given is None else "a link" if getattr(data, "link_data", False) else ""
        if refused or isinstance(given, AbstractDataChunkIterator):
            problem = f"{refused or 'an iterator'} cannot replace a dataset"
            raise self._misuse(problem, path, "Give an array, whose values are copied.")
        is_own = isinstance(given, LazyArray) and (given.location, given.path) == (store.location, path)
        if is_own:
            self._check_budget(given.nbytes, path)
        data, dtype = schema.converted(schema.specs_at(self._catalog, self._known, path), data, old, store.location)
        is_alike = node is not None and len(shape_of(stored_array(data))) == len(shape_of(old.data))
        labels = {"dimension_labels": old.dimension_labels} if is_alike and old.dimension_labels else {}
        builder = DatasetBuilder(
            last, data, dtype=dtype, attributes=dict(old.attributes), source=store.location, **labels
        )
        if is_link:
            self._move(path, None)
            self._follow_all()
            self._plan.added.add(path)
        planner, group = Planner(request(builder)), self.hierarchy.group(parent)
        group.members.pop(last, None)
        self._plan.apply(planner.request.options)
        planner.plan = self._plan
        planner.dataset(builder, PlannedGroup(group, parent, taken=names_in(group)), last)
        self._adapt_plan()
        planned = self._plan.arrays[path]
        if is_own and planned.source is not None:  # its chunks are overwritten while it is copied
            region = tuple(slice(0, length) for length in planned.source.shape)
            planned.source = EncodedSource(planned.source.read(region))
        if isinstance(node, Dataset):
            tell_apart(planned, node.stored)
            first, stored = node.stored.first_chunk, planned.node.stored
            nested = sorted({f"{first}/", f"{stored.first_chunk}/"})
            if store.folder is not None and len(nested) > 1 and nested[1].startswith(nested[0]):
                # c/0 cannot be a chunk before the commit, and the folder of c/0/0 after it
                stored.chunk_keys = replace(stored.chunk_keys, separator=".")
            self._check_rows(path)
            if stored.shape[:1] != node.stored.shape[:1]:
                self._warn_of_length(path)
        self._replaced.add(path)
        self.done.append(f"added {absolute(path)}" if node is None else f"replaced the data of {absolute(path)}")

    def _absent(self, name: str) -> DatasetBuilder | None:
        """Return an empty builder for a dataset that the file lacks and the schema has by its name, else None."""
        path = relative(name)
        parent, last = split(path)
        group = self._known.get(parent)
        if not isinstance(group, Group) or last in group.members or find_link(group.attributes, last) is not None:
            return None
        specs = (spec for spec in schema.specs_at(self._catalog, self._known, path) if isinstance(spec, DatasetSpec))
        spec = next((spec for spec in specs if schema.is_untyped(spec)), None)
        needed = [each.name for each in spec.attributes if each.required and each.value is None] if spec else ()
        if spec is None or needed:
            return None
        self._plan.added.add(path)
        fixed = {each.name: each.value for each in spec.attributes if each.value is not None}
        builder = DatasetBuilder(last, attributes=fixed)
        builder.location = absolute(parent)
        return builder

    def copy(self, old: Any, manager: Any, into: str, name: str | None, request: Callable[[], WriteRequest]) -> None:
        """Add what was built of a container of another file, whose builder there is ``old``, to a group."""
        # the namespaces of the other file are cached, and loaded, if this one lacks one that the objects need
        catalog, cached = manager.namespace_catalog, cached_versions(self._known)
        needed = {member.attributes.get("namespace") for _, member in builders_below(old)}
        if not needed & {*catalog.namespaces} <= cached.keys():
            texts = {name: each for name, each in schema.namespace_texts([catalog]).items() if name not in cached}
            add_specs(self._plan, texts, location=self._file.store.location)
            self._adapt_plan()
            if unknown := [name for name in texts if name not in self._catalog.namespaces]:
                schema.load_cached_namespaces(self._manager.type_map, self._planned, self.hierarchy, unknown)
        planner, plan = Planner(request()), WritePlan(self.hierarchy)
        builder, targets, planner.plan = planner.request.builder, planner.targets, plan
        name = checked_name(name or old.name)
        group = self._place(relative(into), type(old)(name, attributes=dict(builder.attributes)))
        path = join(group.path, name)
        # what leads to an object that this file has too, by its object id, leads to that one
        ids = {node.attributes.get("object_id"): there for there, node in self._known.walk()}
        ids.pop(None, None)
        for _, member in builders_below(builder):
            if (there := ids.get(object_id(member))) is not None:
                problem = f"{absolute(there)} in this file is the object {member.name!r} already, by its object id"
                raise self._conflict(problem, path, "Copy what the file lacks, or remove that first.")
        for _, member in builders_below(top_of(old)):
            if (there := ids.get(object_id(member))) is not None:
                targets.move(member, there)
        targets.move(old, path)
        targets.move(builder, path)
        planner.member(builder, group, name)
        name_axes(plan, specs_in(catalog))
        remedy = "Copy what is missing first, or remove what leads to it."
        taken = (
            "This file has its own object of that name. A device or a group is copied first, under another name: "
            "io.copy(device, name=...). A series with a region is created again, with create_electrode_table_region, "
            "and a table row by row (units: add_unit), with the objects of this file."
        )
        plan.added = {path}
        check_targets(plan, targets, self._file.store, remedy=remedy, remedy_taken=taken)
        self._plan.apply(planner.request.options)
        self._plan.arrays |= plan.arrays
        self._adapt_plan()
        self._replaced.add(path)
        self.done.append(f"copied {builder_path(old)} of {targets.export_location} to {absolute(path)}")

    @property
    def _planned(self) -> Store:
        """The store with the chunks that are planned."""
        planned: Any = PlannedKeys(self._plan, self._file.store.location)
        return InlinedStore(self._file.store, planned)

    def _adapt_plan(self) -> None:
        store = self._file.store
        adapt_plan(self._plan, location=store.location, store=store, memory_budget=self._file.options.memory_budget)

    def _place(self, path: str, builder: Any) -> PlannedGroup:
        """Return the group for a new member, which the schema allows there; a group that it only names is created."""
        new = [builder.name]
        while (node := self.hierarchy.get(path)) is None:
            path, name = split(path)
            new.append(name)
        self._plan.added.add(join(path, new[-1]))
        for name in reversed(new[1:]):
            path = join(path, name)
            if not any(map(schema.is_untyped, schema.specs_at(self._catalog, self.hierarchy, path))):
                remedy = f"Add it and call io.write: nwbfile.create_processing_module({name!r}, ...) for a module."
                problem = "the group to copy into does not exist"
                raise self._error(errors.ReferenceTargetError, problem, path, remedy)
            self.hierarchy.add(path, node := Group())
        if not isinstance(node, Group) or self._is_specification(path):
            raise self._nothing_at(path)
        names, others = self._names_for(path, builder)
        if not others or None in names:
            there = join(path, builder.name)
            own = [
                each for each in schema.specs_at(self._catalog, self.hierarchy, there) if isinstance(each, GroupSpec)
            ]
            has_members = any(each.name is None for spec in own for each in spec.groups)
            more = f", or copy its members with into={absolute(there)!r}" if has_members else ""
            remedy = f"Choose another name{more}."
        elif "colnames" in builder.attributes:
            remedy = "The rows of two tables are not merged: add them row by row (electrodes: add_electrode)."
        else:
            remedy = "Remove that first: the schema has no other name for it."
        self._check_free(path, builder.name, join(path, builder.name), remedy)
        fixed = " or ".join(sorted(repr(each) for each in names if each is not None))
        problem = f"the schema has no place for a {data_type_of(builder)} {builder.name!r} in it"
        remedy = f"Its name there is {fixed}." if fixed else "Copy it to another group."
        if LISTS & node.attributes.keys():
            problem = "a table lists its columns, which are added with its methods"
            remedy = "Use add_column of the table, or add_trial_column, add_unit_column and the like of pynwb."
        elif not others or builder.name in names or (None in names and builder.name not in others):
            return PlannedGroup(node, path, taken=names_in(node))
        raise self._conflict(problem, path, remedy)

    def _check_rows(self, path: str) -> None:
        """Refuse an index, or rows of another table, beyond the end of what they lead to; and an unordered index."""
        node = self.hierarchy.get(path)
        table: Any = {} if node is None else node.attributes.get("table")
        rows = join(self._target(table["value"]) or "", "id") if is_reference(table) else ""
        leads = [(path, self._indexed(path) or rows), *((index, path) for index in self._indices(path)[:1])]
        for index, target in leads:
            node, column = self.hierarchy.get(index), self.hierarchy.get(target)
            if isinstance(node, Dataset) and isinstance(column, Dataset) and node.stored.size:
                numbers = ChunkReader(self._planned, index, node.stored, ChunkCache(0)).read(())
                if target != rows and (numbers[1:] < numbers[:-1]).any():
                    problem = f"the index {absolute(index)} would not be in ascending order"
                    raise self._conflict(problem, path, "Give the number of the value where each row ends.")
                last = numbers.max() + (target == rows)
                if last > (count := column.stored.shape[0]):
                    problem = f"{absolute(index)} needs {last} rows of {absolute(target)}, which has {count}"
                    raise self._conflict(problem, path, "Give more data first, or smaller numbers.")

    def _warn_of_length(self, path: str) -> None:
        """Warn of what does not fit the new length of data: ranges of samples, and data or timestamps of series."""
        after = Resolver(self._file.store, self.hierarchy)
        reader = ArrayReader(self._file.store, stated_target, as_hdf5=False)
        for owner, node in self._known.walk():
            if isinstance(node, Dataset) and "timeseries" in dict(describe_any(node).fields) and node.stored.shape:
                with suppress(errors.DamagedFileError):  # rows that cannot be read are not made worse
                    rows = reader.content(owner, node, {}, is_spec=False).read((slice(0, node.stored.shape[0]),))
                    if lost := (past_the_end(rows, after) - past_the_end(rows, self._before)).total():
                        what = f"{lost:,} of {counted(len(rows), 'range')} in it lead past the new end"
                        text = f"{absolute(path)} has another length now; {absolute(owner)}: {what}"
                        warn(text, errors.LengthWarning)
        check_lengths(after, {path})

    def _remove(self, name: str) -> None:
        if "@" in name and self._known.get(relative(name)) is None:
            path, _, name = name.rpartition("@")
            path, node = self._find(relative(path))
            if self.new_path(path) is None:
                return
            names = {} if node is None else {shown: stored for stored, shown in visible(node.attributes).items()}
            if name not in names:
                raise self._misuse(f"there is no attribute {name!r}", path, "See `zarrio inspect`.")
            if name in _FIXED:
                raise self._conflict(f"hdmf needs the attribute {name!r}", path, "Keep it.")
            self._check_not_needed(path, f"the attribute {name!r} cannot be removed", attribute=name)
            self._set_attribute(path, names[name], None)
            self.done.append(f"removed the attribute {name!r} of {absolute(path)}")
            return
        path, is_link = self._located(name)
        if self.new_path(path) is None:
            return  # with its group, or its column
        self._check_not_needed(path, "it cannot be removed")
        for each in [path] if is_link else [path, *self._indices(path)]:
            self._move(each, None)

    # ---- rows of tables ---------------------------------------------------------------------------------------------

    def _remove_rows(self, names: Sequence[str], rows: Any) -> None:
        """Note which elements stay of the columns of a table, and of the row numbers that lead to it."""
        remedy = "Give the path of one table, such as /intervals/trials."
        if len(names) != 1:
            problem = f"rows= takes one path, and {len(names)} were given"
            raise errors.UsageError(problem, store=self._file.store.location, remedy=remedy)
        path, node = self._find(relative(names[0]))
        ids = self._known.get(join(path, "id"))
        if not (isinstance(node, Group) and isinstance(ids, Dataset) and "colnames" in node.attributes):
            raise self._misuse("only a table has rows to remove", path, remedy)
        kept = np.ones(ids.stored.shape[0], bool)
        try:
            given: Any = rows if isinstance(rows, slice) else np.atleast_1d(rows)
            # -1 is the last row in NumPy, and no row by its number in pandas
            if not isinstance(given, slice) and given.dtype != bool and given.min(initial=0) < 0:
                raise IndexError
            kept[given if isinstance(given, slice) or given.size else []] = False
        except (IndexError, TypeError, ValueError) as error:
            problem = f"{rows!r} are not rows of this table, which has {len(kept)}"
            remedy = "Give row numbers, which start at 0, a slice, or a boolean for each row."
            raise self._misuse(problem, path, remedy) from error
        tables = [path, *(join(path, to_text(name)) for name in members_in(node, "categories"))]
        for table in tables:
            for name in ("id", *members_in(self._known.group(table), "colnames")):
                self._cut_column(join(table, to_text(name)), kept)
        self._follow_rows(tables, kept)
        self.done.append(f"removed {counted(len(kept) - int(kept.sum()), 'row')} of {absolute(path)}")

    def _cut_column(self, path: str, kept: Array) -> None:
        """Note which elements of a column, and of its indices, stay with the rows that are kept."""
        indices = self._indices(path) if isinstance(self._known.get(path), Dataset) else []
        for each in (*reversed(indices), path):
            node = self._known.get(each)
            if not isinstance(node, Dataset) or node.stored.shape[:1] != kept.shape:
                problem = f"the column is a link, or has not the {counted(len(kept), 'row')} of its table"
                raise self._conflict(problem, each, "Remove the column first, or write a new file.")
            self._kept[each], target = kept, self._known.get(self._indexed(each) or "")
            if each != path and isinstance(target, Dataset):
                lengths, below = np.diff(self._values_of(each), prepend=0), np.ones(target.stored.shape[0], bool)
                if lengths.min(initial=0) < 0 or lengths.sum() > len(below):
                    problem, remedy = "the index does not fit its column", "`zarrio verify` lists what is damaged."
                    raise self._conflict(problem, each, remedy)
                below[: lengths.sum()] = np.repeat(kept, lengths)
                kept = below

    def _follow_rows(self, tables: list[str], kept: Array) -> None:
        """Let the row numbers in regions follow the rows of a table that stay, and note those of removed rows."""
        for path, node in self._known.walk():
            table: Any = node.attributes.get("table")
            if not (isinstance(node, Dataset) and is_reference(table) and self._target(table["value"]) in tables):
                continue
            numbers, index = self._values_of(path), self._indices(path)[:1]
            if numbers.size and not 0 <= numbers.min() <= numbers.max() < len(kept):
                problem = f"{absolute(path)} has numbers of rows that the table lacks"
                raise self._conflict(problem, tables[0], "Change these first.")
            stays = self._kept.setdefault(path, np.ones(len(numbers), bool))
            lost = stays & ~kept[numbers]
            self._kept[path], self._numbers[path] = stays & ~lost, np.cumsum(kept)[numbers] - 1
            if lost.any():
                for each in index:  # with other lengths
                    self._kept.setdefault(each, np.ones(len(self._values_of(each)), bool))
                gone = [str(row) for row in np.unique(numbers[lost])]
                text = f"row{'s' * (len(gone) > 1)} {few(gone)}"
                reason = None if index else "it cannot be shorter than the column or the data that it belongs to"
                self._lost.append((f"{text} of {absolute(tables[0])}, to which {absolute(path)} points", reason, path))

    def _keep_rows(self) -> None:
        """Plan the arrays with the elements that stay, and let indices follow."""
        held = 0
        for path, kept in self._kept.items():
            node, old = self.hierarchy.array(path), self._known.array(path)
            held += node.stored.size * chunk_codec(node.stored).dtype.itemsize
            self._check_budget(held, path)
            stored, target = self._values_of(path), self._kept.get(self._indexed(path) or "")
            values = self._numbers.get(path, stored)
            if target is not None:
                values = np.array([0, *np.cumsum(target)])[stored]
            values = values[kept].astype(stored.dtype)
            node.stored.shape = values.shape
            self._plan.arrays[path] = planned = PlannedArray(node, EncodedSource(values))
            tell_apart(planned, old.stored)
        rename_axes(self.hierarchy, self._kept)
        self._replaced |= self._kept.keys()

    def _values_of(self, path: str) -> Array:
        return ChunkReader(self._file.store, path, self._known.array(path).stored, ChunkCache(0)).read(())

    def _check_budget(self, nbytes: int, path: str) -> None:
        if nbytes > (budget := self._file.options.memory_budget):
            problem = f"{nbytes:,} bytes must be held in memory, and memory_budget is {budget:,}"
            raise self._misuse(problem, path, "Raise memory_budget, or export to a new file.")

    def _nothing_at(self, path: str) -> Any:
        owner, mark, name = path.rpartition("@")
        if mark and self._known.get(owner) is not None:
            remedy = f"Set the field, series.fields[{name!r}] = ..., then call series.set_modified() and io.write."
            cli = "Change its value in Python, or remove it with `zarrio remove`."
            return self._misuse("an attribute is neither replaced nor renamed in place", path, remedy, cli)
        problem, remedy = "there is no such group or dataset", "`zarrio inspect` lists all paths."
        return self._error(errors.ReferenceTargetError, problem, path, remedy)

    def _find(self, path: str) -> tuple[str, Node | None]:
        """Return the path without links, and the node, of a path that the user gives."""
        try:
            return self._before.find_inside(THIS_FILE, path)[1:]
        except errors.ReferenceTargetError:
            raise self._nothing_at(path) from None

    def _located(self, name: str, *, may_be_index: bool = False) -> tuple[str, bool]:
        """Return the path of a node or a link, and whether it is a link; the path to it may lead through others."""
        parent, last = split(relative(name))
        parent, group = self._find(parent)
        path = join(parent, last)
        if not path or self._is_specification(path):
            problem = "the root and the cached specifications cannot be removed or renamed"
            raise self._misuse(problem, path, "Write a new file.")
        if not isinstance(group, Group):
            raise self._nothing_at(path)
        is_link = last not in group.members
        if is_link and find_link(group.attributes, last) is None:
            raise self._nothing_at(path)
        target = None if is_link or may_be_index else self._indexed(path)
        if target is not None and self.new_path(target) == target:
            problem = f"this is the index of the column {absolute(target)}, which cannot be without it"
            raise self._misuse(problem, path, f"Give {absolute(target)}, which includes its index.")
        return path, is_link

    def _check_not_needed(self, path: str, what: str, **options: Any) -> None:
        reason = self._why_required(path, **options)
        if reason is not None:
            raise self._conflict(f"{what}: {reason}", path, "Keep it, or remove the object that it is in.")

    def _move(self, path: str, new: str | None) -> None:
        """Take a node or a link away from its path, and put it at the new one."""
        self.outdated[path] = new
        parent, name = split(path)
        group = self.hierarchy.group(parent)
        new_name = None if new is None else split(new)[1]
        is_link = name not in group.members
        if is_link:
            entries = [(entry, as_dict(entry).get("name") == name) for entry in group.attributes[reserved.LINKS]]
            renamed = [{**entry, "name": new_name} if is_it else entry for entry, is_it in entries]
            self._set_links(parent, [entry for entry in renamed if as_dict(entry).get("name", "") is not None])
        else:
            node = group.members.pop(name)
            if new_name is not None:
                group.members[new_name] = node
        for attribute in LISTS & group.attributes.keys():
            listed = members_in(group, attribute)
            as_stored = {name: new_name, name.encode(): new_name and new_name.encode()}
            names = [as_stored.get(each, each) for each in listed]
            if names != listed:
                self._set_attribute(parent, attribute, [each for each in names if each is not None])
        what = f"the link {absolute(path)}" if is_link else absolute(path)
        self.done.append(f"removed {what}" if new is None else f"renamed {what} to {new_name}")

    def _indexed(self, path: str) -> str | None:
        """Return the column that an index is of, None for other nodes."""
        parent, name = split(path)
        columns = indices_in(self._known.group(parent), parent).items()
        return next((join(parent, column) for column, index in columns if index == name), None)

    def _indices(self, path: str) -> list[str]:
        """Return the indices of a column: its own, that of this one, and so on."""
        parent, name = split(path)
        left, indices = indices_in(self._known.group(parent), parent), list[str]()
        while name in left:
            name = left.pop(name)
            indices.append(join(parent, name))
        return indices

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _node(self, path: str) -> tuple[str, Node]:
        """Return the new path, and the node of the copy, for the path of a node that stays."""
        new = self.new_path(path)
        node = None if new is None else self.hierarchy.get(new)
        assert new is not None and node is not None
        return new, node

    def _set_attribute(self, path: str, name: str, value: Any) -> None:
        """Give an attribute another value, or remove it if that is None."""
        new, node = self._node(path)
        node.attributes = with_attribute(node.attributes, name, value)
        self._plan.changed.add(new)

    def _set_links(self, path: str, entries: list[Any]) -> None:
        new, node = self._node(path)
        set_links(node, entries)
        self._plan.changed.add(new)

    # ---- links and references ---------------------------------------------------------------------------------------

    def new_path(self, path: str) -> str | None:
        """Return the path that something has after the change, None if it is removed."""
        top = path
        while top and top not in self.outdated:
            top = split(top)[0]
        new = self.outdated.get(top, top)
        return None if new is None else new + path[len(top) :]

    def _target(self, reference: Any) -> str | None:
        """Return the path of what a reference leads to in the file before the change; None if it leads elsewhere."""
        key = (reference.get("source"), reference.get("path"))
        if key not in self._targets:
            self._targets[key] = None
            with suppress(errors.DamagedFileError, errors.LinkRefusedError):  # it leads nowhere now
                decoded = decode_reference(reference)
                _, path, node = self._before.find_inside(decoded.source, decoded.node_path)
                self._targets[key] = None if node is None else path
        return self._targets[key]

    def _follow_all(self) -> None:
        """Let all links and references follow their targets, and note those whose target is removed."""
        stay = [path for path, _ in self._known.walk() if self.new_path(path) is not None]
        for path in stay:
            entries: Any = self._node(path)[1].attributes.get(reserved.LINKS)
            if (followed := self._follow(entries)) is entries:
                continue
            for entry in (entry for entry, new in zip(entries, followed, strict=True) if new is None):
                link = join(path, str(entry.get("name")))
                self.outdated[link] = None
                self._lost.append((f"the link {absolute(link)}", self._why_required(link), link))
            self._set_links(path, [new for new in followed if new is not None])
        for path in stay:
            _, node = self._node(path)
            for name, value in node.attributes.items():
                if name != reserved.LINKS:
                    self._follow_attribute(path, name, value)
            if isinstance(node, Dataset) and not self._is_specification(path):
                self._follow_array(path, node)

    def _follow(self, value: Any) -> Any:
        """Return JSON with its references as after the change, None for lost ones; the same object if equal."""
        if isinstance(value, dict) and {"source", "path"} <= value.keys():
            if (target := self._target(value)) is None:
                return value
            new = self.new_path(target)
            # a link to a column, or a region of it, has the length of another table, or other elements
            is_shorter = target in self._kept and not self._kept[target].all()
            if new is None or (is_shorter and ("name" in value or value.get("region") is not None)):
                self._nulls += 1
                return None
            stated = decode_reference(value).node_path
            # what leads there through a link that is removed or renamed leads there without it
            is_same = new == target and self.new_path(stated) == stated
            return value if is_same else {**value, "path": absolute(new)}
        if isinstance(value, dict):
            followed = self._follow([*value.values()])
            return dict(zip(value, followed, strict=True)) if any(map(is_not, followed, value.values())) else value
        if not isinstance(value, (list, tuple)):
            return value
        items = [self._follow(item) for item in value]
        return items if any(map(is_not, items, value)) else value

    def _is_specification(self, path: str) -> bool:
        return self._specs is not None and f"{path}/".startswith(f"{self._specs}/")

    def _follow_attribute(self, path: str, name: str, value: Any) -> None:
        nulls, followed = self._nulls, self._follow(value)
        is_lost = self._nulls > nulls
        if is_lost and name != reserved.NOTES:
            reason = self._why_required(path, attribute=name)
            reason = "a list of references has no null" if isinstance(value, list) else reason
            self._lost.append((f"the attribute {name!r} of {absolute(path)}", reason, path))
            self._set_attribute(path, name, None)
        elif followed is not value:
            if is_lost:
                self._lost.append((f"an attribute of HDF5 in the note of {absolute(path)}", None, path))
            new, node = self._node(path)
            node.attributes = {**node.attributes, name: followed}
            self._plan.changed.add(new)

    def _follow_array(self, path: str, node: Dataset) -> None:
        means, stored, nulls = describe_any(node), node.stored, self._nulls
        elements = [means.stored] if means.form != "rows" else [field for _, field in means.fields]
        # a field of rows that is a compound itself is opaque
        kinds = (Reference, Opaque) if means.form == "rows" else Reference
        if not stored.size or not any(isinstance(element, kinds) for element in elements):
            return
        with at(self._file.store, path):
            values = self._values_of(path)
            cells = values.reshape(-1).tolist()
            followed = self._follow(cells)
            if followed is cells:
                return
            if stored.first_filter.get("id") == "pickle":
                problem = "its values are pickles, in which no reference can be changed"
                remedy = "Convert the file with `zarrio convert`, and change that."
                raise errors.UnsupportedFileError(problem, remedy=remedy)
        lost = self._nulls - nulls
        if lost:
            reason = "the only value of a dataset cannot be null" if means.is_scalar else self._why_required(path)
            self._lost.append((f"{counted(lost, 'reference')} in {absolute(path)}", reason, path))
        values = np.empty_like(values)
        for position, cell in enumerate(followed):
            values.reshape(-1)[position] = cell
        most = self._file.store.read_rules.limits.max_object_bytes
        stored.filters = wider_filters(stored, [values], most) or stored.filters
        self._plan.arrays[self._node(path)[0]] = PlannedArray(node, EncodedSource(values))

    def is_gone(self, path: str) -> bool:
        """Return whether what was at a path before the change is not there any more, or has other values."""
        return self.new_path(path) != path or path in self.outdated

    def _check_objects(self) -> None:
        """Refuse a change after which an object cannot be constructed, such as a series without rate and timestamps."""
        gone = {path for path, new in self.outdated.items() if new is None} | self._replaced
        paths = {split(path)[0] for path in gone} | self._plan.changed if gone else ()
        owners = {self._owner(new) for path in paths if (new := self.new_path(path))} - {""}
        store, parsed = self._file.store, self._file.parsed
        for path in (path for path in sorted(owners) if schema.specs_at(self._catalog, self.hierarchy, path)):
            error = self._why_not(self._planned, replace(parsed, hierarchy=self.hierarchy), path)
            if error is not None and self._why_not(store, parsed, path) is None:
                text = str(error.args[-1]).rstrip(".")
                problem = f"the object could not be read any more ({text}), if this were done: {'; '.join(self.done)}"
                remedy = self._how_to_part(path) or "Keep what it needs, or remove the object."
                raise self._conflict(problem, path, remedy)

    def _owner(self, path: str) -> str:
        """Return the path of the nearest object that a node belongs to."""
        while path and ((node := self.hierarchy.get(path)) is None or data_type_of(node) is None):
            path = split(path)[0]
        return path

    def _why_not(self, store: Store, parsed: ParsedFile, path: str) -> ConstructError | None:
        """Return the error with which hdmf constructs an object, None without one."""
        manager = BuildManager(self._manager.type_map)
        builder = ReadSession(store, parsed, manager).own.builder_at(path)
        if builder.parent is None and path:
            # pynwb asks for the version of the schema above a Subject without `age__reference`
            version = {k: v for k, v in parsed.hierarchy.root.attributes.items() if k == "nwb_version"}
            builder.parent = make_group("", {}, version, store.location)
        try:
            manager.construct(builder)
        except ConstructError as error:
            return error
        return None

    # ---- writing ----------------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Write the change; if this raises an error, nothing is written."""
        self._check_objects()
        file, plan = self._file, self._plan
        check_and_name(file)
        moved = {old: new for old, new in self.outdated.items() if self._known.get(old) is not None}
        plan.added |= {new for new in moved.values() if new is not None}
        tops = tuple(f"{top}/" for top in plan.added)
        plan.changed = {path for path in plan.changed if not f"{path}/".startswith(tops)}
        # arrays that are written again where they are; those at new paths are new to readers
        plan.replaced = {path: planned.node for path, planned in plan.arrays.items() if not f"{path}/".startswith(tops)}

        def move() -> None:
            change, unwrapped = file.edits.change, file.store.unwrapped
            inlined, written = file.parsed.inlined, tuple(f"{path}/" for path in plan.arrays)
            keys = {old: list(unwrapped.list_prefix(old)) for old in (*moved, *plan.replaced)}
            for old, new in moved.items():
                if new is not None:
                    change.copy({key: new + key[len(old) :] for key in self._values(old, keys[old])})
            for key, value in list(inlined.items()):
                new = self.new_path(key)
                if new != key or key.startswith(written):
                    del inlined[key]
                    if new is not None and not new.startswith(written):
                        inlined[new] = value
            change.delete(key for old in moved for key in keys[old])
            for path, node in plan.replaced.items():  # chunks that it has no more, but not the derived ones of format 3
                start = f"{path}/c/" if file.parsed.state is not None else "/"
                obsolete = (key for key in keys[path] if shard_named(node.stored, key[len(path) + 1 :]) is None)
                change.delete(key for key in obsolete if split(key)[1] not in DOCUMENTS and not key.startswith(start))

        write_changes(file, plan, file.kept_options, move, is_more=True)
        self.outdated.update({path: path for path in plan.replaced if path not in self.outdated})

    def _values(self, old: str, keys: list[str]) -> Iterator[str]:
        """Yield the keys of chunks that are copied as they are, and of what other programs have put beside them."""
        arrays = {path for path, _ in self._known.arrays(old)}
        for key in keys:
            path, name = split(key)
            while path and path not in arrays:
                path, _ = split(path)
            # those of format 3 in a file of both formats are derived
            is_derived = self._file.parsed.state is not None and key.startswith(f"{path}/c/")
            is_written = is_derived or self.new_path(path) in self._plan.arrays
            if name not in DOCUMENTS and not (path and is_written):
                yield key
