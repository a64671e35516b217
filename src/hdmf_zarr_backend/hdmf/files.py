"""Builders of a file: `ReadSession` reads them, `write_new` and `write_difference` write them; changes of arrays."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hdmf.container import HERDManager

from hdmf_zarr_backend.array.edits import Edits
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding import zarr2
from hdmf_zarr_backend.encoding.attributes import indices_in, row_counts, shown_counts
from hdmf_zarr_backend.encoding.nczarr import is_nczarr, overlay
from hdmf_zarr_backend.encoding.parser import ParsedFile, Resolver, check_described
from hdmf_zarr_backend.encoding.references import LinkedFile
from hdmf_zarr_backend.encoding.registry import FORMATS, stale, texts_of
from hdmf_zarr_backend.errors import ConflictError, DroppedChangesWarning, StoreError, at, warn
from hdmf_zarr_backend.hdmf.assembler import Assembler
from hdmf_zarr_backend.hdmf.datasets import FileResolver
from hdmf_zarr_backend.hdmf.from_zarr import Before, before_change, derive, make_alike, with_format_3
from hdmf_zarr_backend.hdmf.lazy import LazyAssembler, LazyContainers
from hdmf_zarr_backend.hdmf.namespaces import add_specs, name_axes, rename_axes, specs_in
from hdmf_zarr_backend.hdmf.planner import AppendPlanner, Planner, WriteRequest
from hdmf_zarr_backend.hdmf.schema import restore_types
from hdmf_zarr_backend.hdmf.targets import check_lengths, check_targets
from hdmf_zarr_backend.model.json_text import check_strict, dump
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy, absolute, adopt, copy_hierarchy, gc_paused, join, split
from hdmf_zarr_backend.model.render import counted, few
from hdmf_zarr_backend.options import Limits, WriteOptions
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.transaction import Writer, is_staged
from hdmf_zarr_backend.write.plan import WritePlan, adapt_plan, asks_for_shards, check_names
from hdmf_zarr_backend.write.sources import IndexedSource, row_blocks
from hdmf_zarr_backend.write.writer import PlanWriter, new_file


class ReadSession:
    """Reads one file, and the files that it links to."""

    def __init__(
        self,
        store: Store,
        parsed: ParsedFile,
        manager: Any,
        edits: Edits | None = None,
        *,
        is_lazy: bool = False,
        on_built: Callable[[Any], None] = lambda builder: None,
    ) -> None:
        self._manager, self._parsed, self._notify = manager, parsed, on_built
        self._resolver = Resolver(store, parsed.hierarchy)
        # A file that several links lead to is parsed once: hdmf-zarr parsed it for each reference (hdmf-zarr#289).
        self._assemblers: dict[str, Assembler] = {}
        self._levels = [0]
        self._is_complete = False
        self.containers: LazyContainers | None = None
        # A file that is open for changes is read as a whole: an append compares all containers with what was read.
        if is_lazy:
            file = self._new_assembler(LazyAssembler, self._resolver.main)
            containers = LazyContainers(file, manager, self._notify_of)
            if containers.are_lazy():
                self.own: Assembler = file
                self.containers = containers
                return
        self.own = self._new_assembler(Assembler, self._resolver.main, edits=edits)

    def _new_assembler(self, cls: type[Assembler], file: LinkedFile, *, edits: Edits | None = None) -> Any:
        def assembler_of(linked: LinkedFile) -> Assembler:  # one for each file; linked files are read only
            assembler: Assembler = self._assemblers.get(linked.location) or self._new_assembler(Assembler, linked)
            return assembler

        def restore(paths: Iterable[str]) -> None:
            for path in paths:  # files of other writers, linked ones too, have no types for some attributes
                restore_types(assembler.builders[path], file.hierarchy.get(path), self._manager.namespace_catalog)

        assembler = cls(file, self._resolver, assembler_of, edits, self._levels)
        assembler.on_built = restore
        assembler.references = FileResolver(assembler.resolve, self._construct, self._manager)
        if file is self._resolver.main:
            assembler.left_out.update(self._parsed.left_out)
        self._assemblers[file.location] = assembler
        return assembler

    def _construct(self, builder: Any) -> Any:
        return self._manager.construct(builder) if self.containers is None else self.containers.container(builder)

    # a file is many new objects that live long, and each collection of garbage would look at all of them
    @gc_paused()
    def root(self) -> Any:
        """Return the builder of the root, always the same object."""
        # hdmf knows builders by their id: another object would be another file to it, and be written again
        root = self.own.root()
        if not self._is_complete:
            self._is_complete = True
            self._notify_of(self.own.builders)
        return root

    def _notify_of(self, paths: Iterable[str]) -> None:
        """Call ``on_built`` with each builder, and with those of its links."""
        for path in paths:
            builder = self.own.builders[path]
            for each in (builder, *getattr(builder, "links", {}).values()):
                self._notify(each)

    def builder_of(self, stored: Any) -> Any:
        """Return the builder of a group or array of the file, or of one that it links to."""
        location = stored.location if isinstance(stored, LazyArray) else self.own.source
        assembler = self._assemblers.get(location, self.own)
        if assembler is self.own and self.containers is None:
            assembler.root()
        return assembler.builder_at(stored.path)

    @contextmanager
    def copied(self) -> Iterator[None]:
        """While the block runs, refuse missing documents, and missing chunks of a file that states that it has all."""
        if not (self._parsed.consolidated or self._parsed.is_foreign):
            with at(self.own.store):
                check_described(self.own.store, self._parsed.hierarchy)
        for error in (error for assembler in self._assemblers.values() for error in assembler.left_out.values()):
            raise error from error.__cause__  # a copy would lack the node
        self._set_copied(is_copied=True)
        try:
            yield
        finally:
            self._set_copied(is_copied=False)

    def _set_copied(self, *, is_copied: bool) -> None:
        for assembler in self._assemblers.values():
            assembler.store.read_rules = replace(assembler.store.read_rules, is_copied=is_copied)

    @property
    def root_ids(self) -> dict[str, str | None]:
        """Object id of the root of each file that was read, by location."""
        return {location: assembler.file.root_id for location, assembler in self._assemblers.items()}


def attach_herd(container: Any, path: str, limits: Limits) -> Any:
    """Attach the HERD in the archive at ``path`` to a container, and return it; None, with a warning, on failure."""
    # hdmf 6.2 stores the tables under the path of the archive, and looks for them at its top level
    from hdmf.common import HERD

    with tempfile.TemporaryDirectory() as folder:
        archive = os.path.join(folder, "herd.zip")
        try:
            with zipfile.ZipFile(path) as source, zipfile.ZipFile(archive, "w") as flat:
                for entry in (each for each in source.infolist() if not each.is_dir()):
                    size = entry.file_size  # zipfile unpacks no more than this
                    with at(path):
                        limits.check("max_document_bytes", size, f"{entry.filename!r} has {size:,} bytes")
                    flat.writestr(os.path.basename(entry.filename), source.read(entry))
            herd = HERD.from_zip(path=archive)
            if isinstance(container, HERDManager):
                container.external_resources = herd
            return herd
        # KeyError: it lacks a table; RuntimeError: it is encrypted, or has an unknown compression
        except (zipfile.BadZipFile, IsADirectoryError, KeyError, RuntimeError, zlib.error) as error:
            problem = f"herd_path is not an archive of external resources ({error})"
            remedy = "Give the file that HERD.to_zip has written, or no herd_path."
            raise StoreError(problem, store=path, remedy=remedy) from error
        except FileNotFoundError:  # as hdmf does for HDF5: a file is readable without its external resources
            warn(f"File not found at {path}. HERD not added.")
        except ValueError:
            warn(f"Check HERD separately for alterations ({path}). HERD not added.")
    return None


# ---- writing --------------------------------------------------------------------------------------------------------


def plan_new(request: WriteRequest, store: Store) -> WritePlan:
    """Return the plan of a new file in ``store``, without writing it."""
    plan = Planner(request).plan_root(request.builder)
    plan.added = {""}
    if request.shards_choose_format and any(asks_for_shards(planned) for planned in plan.arrays.values()):
        plan.hierarchy.zarr_format, request.has_both = 3, False
    check_targets(plan, request.targets, store)
    name_axes(plan, None if request.schema is None else specs_in(request.schema))
    add_specs(plan, request.texts, location=request.targets.location)
    plan.apply(request.options)
    return plan


def write_new(request: WriteRequest, store: Store, writer: Writer | None) -> tuple[Hierarchy, dict[str, bytes]]:
    """Write a new file, of which the caller may have the writer; it replaces an old one unless ``exclusive``."""
    plan = plan_new(request, store)
    if not is_staged(store):
        adapt_plan(plan, location=store.location, store=store, memory_budget=request.options.memory_budget)
        # values that may be refused are converted before anything is written; in a staged file, they are when encoded
        for path, planned in plan.arrays.items():
            source: Any = planned.source
            if source is None or not source.shape or not getattr(source, "can_be_refused", False):
                continue
            # nested lists, which cannot be sliced, are one block
            is_nested = len(source.shape) > 1 and not isinstance(source, IndexedSource)
            with at(store, path):
                for region in row_blocks(source.shape, source.shape[0] if is_nested else planned.node.stored.chunks[0]):
                    source.read(region)
    # nothing is written before this line: a refused value leaves what was there
    with new_file(store, plan, request.options, exclusive=request.exclusive, writer=writer) as (change, writing):
        root = writing.write(one_by_one=request.one_by_one)
        change.commit({}, with_format_3(change, plan, root, request.options) if request.has_both else root)
    return plan.hierarchy, writing.inlined


@dataclass(slots=True)
class EditedFile:
    """A file that is open for changes."""

    store: Store
    parsed: ParsedFile  # what is on disk; updated if a write succeeds
    edits: Edits  # changes made to arrays in place
    options: WriteOptions

    @property
    def kept_options(self) -> WriteOptions:
        """The options, with a consolidated document if the file has one."""
        return replace(self.options, consolidate_metadata=self.parsed.consolidated or self.parsed.state is not None)


def write_difference(
    request: WriteRequest, file: EditedFile, planner_of: Callable[[WriteRequest, Hierarchy], AppendPlanner]
) -> None:
    """Write everything that is new or differs, by the planner; if this raises an error, nothing is written."""
    store, edits, known = file.store, file.edits, file.parsed.hierarchy
    check_and_name(file)
    with gc_paused():  # a collection would take longer than making these objects
        plan = planner_of(request, copy_hierarchy(known)).plan_root(request.builder)
        check_targets(plan, request.targets, store, known=known)
        plan.is_nczarr = is_nczarr(known)
        plan.apply(request.options)
        add_specs(plan, request.texts, location=request.targets.location)
    is_other = file.parsed.consolidated != request.options.consolidate_metadata

    def flush() -> None:
        _flush(file, request.targets.encode)
        for path, changed in edits.changed.items():  # the fields of rows may have become wider
            node = plan.hierarchy.get(path)
            if isinstance(node, Dataset):
                node.stored.filters = changed.stored.filters

    # only the documents of what has changed: hdmf-zarr 0.13 rewrites 1,052 files to add a series to a file of 1,000
    is_more = bool(plan.changed or plan.added or plan.is_nczarr or is_other)
    write_changes(file, plan, request.options, flush, is_more=is_more)


def write_changes(
    file: EditedFile, plan: WritePlan, options: WriteOptions, first: Callable[[], None], *, is_more: bool
) -> None:
    """Write what ``first`` puts and, if there ``is_more``, nodes and documents of a plan; an error undoes all of it."""
    edits, parsed, inlined = file.edits, file.parsed, dict(file.parsed.inlined)
    check_names((path for top in plan.added for path, _ in plan.hierarchy.walk(top)), file.store)
    before = before_change(file.store, parsed, [*plan.changed, *plan.added, *plan.replaced, *edits.changed])
    try:
        edits.change.create(*plan.added)
        first()
        if plan.replaced:  # they get other values where they are: the root refuses readers meanwhile
            edits.change.hide(parsed.mark(), _texts(file, plan.replaced))
            edits.is_marked = True
        if is_more:
            writer = PlanWriter(edits.change, plan, options)
            writer.inlined = parsed.inlined
            writer.write_changes()
        _commit(file, plan.hierarchy, before, is_changed=is_more, consolidate=options.consolidate_metadata)
    except BaseException as error:
        edits.undo(error)
        parsed.inlined.clear()
        parsed.inlined.update(inlined)
        raise
    edits.done()
    # after the commit: a failed write leaves the model of what is on disk
    adopt(parsed.hierarchy, plan.hierarchy, plan.replaced)
    if parsed.state is not None and before is None:  # all of format 3, if not only what has changed could be derived
        make_alike(edits.writer, parsed, WriteOptions(strict_json=file.options.strict_json))


def _texts(file: EditedFile, nodes: Mapping[str, Any]) -> dict[str, bytes]:
    """Return the texts of the documents of nodes."""
    return texts_of(file.parsed.zarr_format, nodes.items(), strict=file.options.strict_json)


def flush_edits(file: EditedFile, encode: Callable[[Any], Any]) -> None:
    """Write the in-place changes of arrays, also those that a failed write has left, and the consolidated document."""
    with file.edits.gate:
        if file.edits.changed or file.edits.is_open:
            check_and_name(file)
            plan = WritePlan(file.parsed.hierarchy)
            write_changes(file, plan, file.kept_options, partial(_flush, file, encode), is_more=False)


def drop_changes(edits: Edits, location: str, error: BaseException) -> None:
    """Discard the in-place changes that are not written yet, because an exception ended the block that made them."""
    # a table may have a refused row in some of its columns, and only the program knew which changes belong together
    edits.is_closed = True
    if edits.has_failed or not edits.changed:
        return
    paths = few([absolute(path) for path in sorted(edits.changed)])
    edits.undo(error)
    message = f"{location}: the changes to {paths} were not written, since the block ended by {type(error).__name__}; "
    message += "call io.write(container) before it to keep what is complete"
    warn(message, DroppedChangesWarning)


# hdmf adds the id of a row before its values: a row whose values are refused leaves its id
_ALL_COLUMNS = (
    "Nothing was written. Append to every column and to `id`, or use add_row, add_trial or the like; or cut what is "
    "too long, such as the id of a row that was refused: table.id.data.resize((rows,))."
)
_WITH_INDEX = "Nothing was written. Change both: a number in the index is where the values of that row end."


def check_and_name(file: EditedFile) -> None:
    """Refuse changes that leave a table uneven, or values in no row; name the axes of arrays with other shapes."""
    edits, known, resized = file.edits, file.parsed.hierarchy, file.edits.resized
    edits.begin()
    if file.options.strict_json:
        check_strict(known, file.store.location)
    tables = {split(path)[0] for path in edits.changed}
    for path in sorted(tables | {split(path)[0] for path in tables}):
        with at(file.store, path):
            counts = row_counts(known, path)
            if resized & {join(path, name) for name in counts} and len({*counts.values()}) > 1:
                problem = f"the columns of the table would differ in length: {shown_counts(counts)}"
                raise ConflictError(problem, remedy=_ALL_COLUMNS)
            for names in indices_in(known.group(path), path).items() if counts else ():
                column, index = (join(path, name) for name in names)
                values, ends = known.array(column), known.array(index)
                if edits.changed.keys().isdisjoint((column, index)):
                    continue
                count, last = values.stored.shape[0], edits.end_of(index, ends)
                if last is None:
                    problem = f"the index of the column {names[0]!r} would not be in ascending order"
                    raise ConflictError(problem, remedy=_WITH_INDEX)
                # values beyond the end that are new, or an index beyond the values
                if last > count or (last < count and column in resized):
                    what = f"it has {counted(count, 'value')}"
                    problem = f"the index of the column {names[0]!r} would end at {last}, and {what}"
                    raise ConflictError(problem, remedy=_WITH_INDEX)
    check_lengths(Resolver(file.store, known), resized)
    rename_axes(known, edits.reshaped)


def _flush(file: EditedFile, encode: Callable[[Any], Any]) -> None:
    """Put the changes made in place into the change of the file."""
    edits, known = file.edits, file.parsed.hierarchy
    if edits.changed:
        overlaid = overlay(known) if is_nczarr(known) else ()
        edits.flush(encode, partial(_texts, file))
        edits.change.describe(_texts(file, {path: known.get(path) for path in sorted(overlaid)}))


@gc_paused()
def _commit(
    file: EditedFile, hierarchy: Hierarchy, before: Before | None, *, is_changed: bool, consolidate: bool
) -> None:
    """Commit the change, with format 3 of a file of both formats in it."""
    edits, strict = file.edits, file.options.strict_json
    if not (is_changed or consolidate or edits.is_marked):
        edits.change.commit({}, {})
        return
    last = FORMATS[hierarchy.zarr_format].last(hierarchy, file.parsed.inlined, consolidate=consolidate)
    texts = {key: dump(document, strict=strict) for key, document in last.items()}
    root: dict[str, bytes | None] = {**texts}
    if edits.is_marked and hierarchy.zarr_format == 2:
        root[zarr2.ATTRIBUTES] = texts_of(2, [("", hierarchy.root)], strict=strict).get(zarr2.ATTRIBUTES)
    # without consolidation, an old consolidated document would hide what was added (zarr-python reads it first)
    root |= dict.fromkeys(stale(hierarchy.zarr_format, consolidate=consolidate))
    if before is not None:
        store, options = file.parsed.store(edits.change.reader), WriteOptions(strict_json=strict)
        text = texts[zarr2.CONSOLIDATED]
        root |= derive(edits.change, hierarchy, text, store=store, before=before, options=options)[1]
    edits.change.commit({}, root)
