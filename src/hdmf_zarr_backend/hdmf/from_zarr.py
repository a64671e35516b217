"""Files made from Zarr files: `ZarrPlanner` plans a copy in the other format, and `derive` adds format 3 to format 2.

Chunks are copied as they are if both formats have their codecs; references, rows, and pickles of old files are encoded
again. In a file of both formats these are stored a second time, below ``c/`` of their array. A commit there sets
``.zmetadata`` first; ``zarr.json`` of the root follows: a program that finds that its note does not fit reads format 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache, check_unwritten
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.array.shards import shard_named
from hdmf_zarr_backend.encoding import registry, reserved, zarr2, zarr3
from hdmf_zarr_backend.encoding.casting import to_bytes, to_text
from hdmf_zarr_backend.encoding.codecs import in_format_2
from hdmf_zarr_backend.encoding.data_types import word_of_type
from hdmf_zarr_backend.encoding.elements import describe, stored_text
from hdmf_zarr_backend.encoding.layout import Layout, new_dataset
from hdmf_zarr_backend.encoding.nczarr import decode_dimensions, encode_dimensions, is_nczarr, strip
from hdmf_zarr_backend.encoding.parser import ParsedFile, Resolver, read_documents
from hdmf_zarr_backend.encoding.references import is_reference
from hdmf_zarr_backend.encoding.reserved import notes_of, root_notes, spec_location
from hdmf_zarr_backend.errors import at, warn
from hdmf_zarr_backend.hdmf.namespaces import text_array
from hdmf_zarr_backend.model.element import ASCII, UTF8, Compound, Element, Reference
from hdmf_zarr_backend.model.json_text import dump, load
from hdmf_zarr_backend.model.links import THIS_FILE, relative_source
from hdmf_zarr_backend.model.nodes import (
    DEFAULT_PREFIX,
    Attributes,
    Dataset,
    Group,
    Hierarchy,
    Node,
    Shape,
    StoredArray,
    copy_hierarchy,
    gc_paused,
    join,
    split,
)
from hdmf_zarr_backend.options import DEFAULT_OPTIONS, WriteOptions
from hdmf_zarr_backend.progress import SILENT
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.journal import Root
from hdmf_zarr_backend.store.transaction import Change, Writer
from hdmf_zarr_backend.write.array_planner import take_stored
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan, adapt_plan
from hdmf_zarr_backend.write.sources import ElementSource, IndexedSource, RowSource, StoredChunks, all_utf8
from hdmf_zarr_backend.write.writer import PlanWriter


class ZarrPlanner:
    """Plans the copy of a Zarr file; chunks that are decoded before the write stay in its ``cache``."""

    def __init__(
        self, store: Store, hierarchy: Hierarchy, target: str | None, *, zarr_format: int, is_in_place: bool = False
    ) -> None:
        if zarr_format == 3 and is_nczarr(hierarchy):  # format 3 has no NCZarr attributes
            hierarchy = copy_hierarchy(hierarchy)
            strip(hierarchy)
        self._store, self._hierarchy, self._target, self._is_in_place = store, hierarchy, target, is_in_place
        self.cache = ChunkCache()
        self._specs = spec_location(hierarchy.root.attributes.get(reserved.SPECLOC))
        self._resolver = Resolver(store, hierarchy)
        self._lengths: dict[str, dict[str, int]] = {}  # by group, the lengths of the axes that have names
        self.plan = WritePlan(Hierarchy(Group(), zarr_format))

    @gc_paused()  # many objects that stay: each collection would look at all of them
    def plan_file(self) -> WritePlan:
        """Plan everything."""
        for path, node in self._hierarchy.walk():
            with at(self._store, path):
                if isinstance(node, Group):
                    self.plan.hierarchy.add(path, Group(self._attributes(node.attributes, is_root=not path)))
                else:
                    planned = self._array(path, node)
                    self.plan.hierarchy.add(path, planned.node)
                    self.plan.arrays[path] = planned
        return self.plan

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, attributes: Attributes, *, is_root: bool = False) -> Attributes:
        copied = {name: self._value(value) for name, value in attributes.items()}
        if isinstance(copied.get(reserved.LINKS), list):
            copied[reserved.LINKS] = [self._reference(link) for link in attributes[reserved.LINKS]]
        if is_root:
            notes = {**root_notes(), **notes_of(attributes)}
            if self._is_in_place and reserved.CHUNKS not in notes_of(attributes):
                del notes[reserved.CHUNKS]  # the file may not store all of them
            copied[reserved.NOTES] = notes
            if self._specs is not None:
                copied[reserved.SPECLOC] = self._specs
        return copied

    def _value(self, value: Any) -> Any:
        if is_reference(value):
            return {**value, "value": self._reference(value["value"])}
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [self._value(item) for item in value]
        return value

    def _reference(self, reference: Any) -> Any:
        """Return a link or reference relative to the new location."""
        if not isinstance(reference, dict) or not isinstance(reference.get("path"), str):
            return reference
        source = reference.get("source")
        origin = self._store.location
        location = self._resolver.locate(self._resolver.main, source) if isinstance(source, str) else origin
        if location == origin:
            return {**reference, "source": THIS_FILE}
        return reference if self._target is None else {**reference, "source": relative_source(location, self._target)}

    # ---- arrays -----------------------------------------------------------------------------------------------------

    def _array(self, path: str, node: Dataset) -> PlannedArray:
        lazy = LazyArray(self._store, path, node, self.cache)
        lazy.check_codecs()
        # chunks that are missing would be written as fill values, of which a small document can state any number
        if lazy.dtype.hasobject or not self._is_in_place:
            check_unwritten(self._store, path, node.stored)
        if self._specs is not None and path.startswith(f"{self._specs}/") and stored_text(node.stored) != "text":
            return text_array(to_text(np.asarray(lazy[()], dtype=object).reshape(-1)[0]))
        planned = self._planned(lazy)
        new = planned.node
        # what `dims` and `rows` say is of the old axes, and of the form of rows in the other format
        notes = {key: value for key, value in notes_of(node.attributes).items() if key not in ("dims", "rows")}
        notes.update(planned.notes)
        planned.notes = notes
        own = (reserved.DTYPE, reserved.NOTES, reserved.DIMENSIONS)
        attributes = self._attributes({key: value for key, value in node.attributes.items() if key not in own})
        # in place the present names of the axes, which other programs may use
        lengths, shape = self._lengths.setdefault(split(path)[0], {}), new.stored.shape
        names: Any = node.attributes.get(reserved.DIMENSIONS)
        are_whole = isinstance(names, list) and len(names) == len(shape)
        if self._is_in_place and are_whole and all(isinstance(name, str) and name for name in names):
            lengths.update(zip(names, shape, strict=True))
            notes |= {key: value for key, value in notes_of(node.attributes).items() if key == "dims"}
        else:
            names = encode_dimensions(decode_dimensions(node.attributes), shape, lengths, notes)
        new.attributes = {**attributes, **new.attributes, reserved.DIMENSIONS: names}
        if notes:
            new.attributes[reserved.NOTES] = notes
        return planned

    def _planned(self, lazy: LazyArray) -> PlannedArray:
        node = lazy.node
        dtype_name = node.attributes.get(reserved.DTYPE)
        means = describe(node)
        if means.form == "rows":
            length = lazy.shape[0] if lazy.shape else 1  # a damaged shape may be beyond `len`
            new, notes = self._new_objects(lazy, Compound(means.fields), (length,))
            converters = [self._reference if isinstance(field, Reference) else _cell for _, field in means.fields]
            rows, names = lazy if lazy.shape else [lazy[()]], [name for name, _ in means.fields]
            return PlannedArray(new, RowSource(rows, length, converters, names), notes=notes)
        if isinstance(means.stored, Reference):
            new, notes = self._new_objects(lazy, means.stored, lazy.shape)
            return PlannedArray(new, ElementSource(lazy, new.stored.shape, self._reference), notes=notes)
        if means.form == "objects":
            return self._text(lazy, dtype_name)
        old = node.stored
        stored = StoredArray(old.shape or (1,), old.chunks or (1,), old.data_type, old.fill_value, old.compressor)
        stored.filters, stored.order = in_format_2(old.filters), old.order if isinstance(old.order, str) else "C"
        new = Dataset(stored)
        new.attributes[reserved.DTYPE] = dtype_name if dtype_name is not None else word_of_type(node.stored.data_type)
        if not node.stored.shape:
            # hdmf-zarr up to 0.13 reads an array of one element with this type as a scalar, and none without axes
            new.attributes[reserved.DTYPE] = "scalar"
            return PlannedArray(new, IndexedSource(np.asarray(lazy[()]).reshape(1), lazy.dtype))
        planned = PlannedArray(new, IndexedSource(lazy, lazy.dtype) if new.stored.size else None)
        take_stored(planned, lazy)
        return planned

    def _text(self, lazy: LazyArray, dtype_name: Any) -> PlannedArray:
        stored, values = stored_text(lazy.node.stored), lazy if lazy.shape else [lazy[()]]
        is_scalar = dtype_name == "scalar" or not lazy.shape
        is_bytes = stored == "bytes"
        is_new = self.plan.hierarchy.zarr_format == 3
        if is_bytes and is_new and not lazy.fill_value and all_utf8(values, len(values)):
            # dates and ASCII text, which hdmf-zarr 0.13 stored as bytes, and 0.14 reads only as text; never with a fill
            shape = () if is_scalar and lazy.size == 1 else lazy.shape
            new, notes = self._new_objects(lazy, UTF8 if is_scalar else ASCII, shape, keeps_filters=True)
            return PlannedArray(new, ElementSource(values, new.stored.shape, to_text), notes=notes)
        new, _ = self._new_objects(lazy, UTF8, lazy.shape, as_bytes=is_bytes, keeps_filters=stored is not None)
        if isinstance(lazy.node.stored.fill_value, str):  # hdmf-zarr declared 0, as zarr 2 does if none is given
            new.stored.fill_value = lazy.node.stored.fill_value or None
        planned = PlannedArray(new, ElementSource(values, new.stored.shape, to_bytes if is_bytes else to_text))
        if lazy.shape:
            new.attributes[reserved.DTYPE] = dtype_name or new.attributes[reserved.DTYPE]
            if stored is not None:
                take_stored(planned, lazy)
        return planned

    def _new_objects(
        self, lazy: LazyArray, element: Element, shape: Shape, *, as_bytes: bool = False, keeps_filters: bool = False
    ) -> tuple[Dataset, dict[str, Any]]:
        """Return the dataset for a copy with objects, and its note; filters after the codec of objects may stay."""
        old = lazy.node.stored
        axes = 1 if isinstance(element, Compound) else max(1, len(shape))
        new, notes = new_dataset(element, shape, Layout(chunks=(old.chunks or (1,))[:axes]), as_bytes=as_bytes)
        stored = new.stored
        stored.order = old.order if isinstance(old.order, str) else "C"
        stored.compressor = old.compressor
        if keeps_filters:
            stored.filters = [*(stored.filters or []), *(old.filters or [])[1:]]
        return new, notes


def _cell(value: Any) -> Any:
    """Return a cell as a JSON value."""
    if isinstance(value, bytes):
        return to_text(value)
    return value.item() if isinstance(value, np.generic) else value


_UNREADABLE = (errors.DamagedFileError, errors.LimitError, errors.NestingError, errors.UnsupportedFileError)
UNFIT = (*_UNREADABLE, errors.UsageError, errors.ValueRefusedError)
"""Errors about what a file holds, and not about its store."""


@dataclass(slots=True)
class Before:
    """What is known of a change of format 2, so that only its consequences are derived."""

    hierarchy: Hierarchy  # the file in format 3, as it was before the change
    touched: set[str]  # paths of the nodes that are new or have changed; what is below a new group is new

    def changed_part(self, hierarchy: Hierarchy) -> Hierarchy:
        """Return all groups of the file as it is now, and the arrays that may have changed."""
        part = Hierarchy(Group(), hierarchy.zarr_format)
        for path, node in hierarchy.walk():
            changed = path
            while changed and changed not in self.touched:
                changed = split(changed)[0]
            if isinstance(node, Group):
                part.add(path, Group(node.attributes))
            elif changed or self.hierarchy.get(path) is None:
                part.add(path, node)
        return part


def before_change(store: Store, parsed: ParsedFile, touched: Iterable[str]) -> Before | None:
    """Return what is needed to derive a change of a file before it is made; None where all has to be derived."""
    if parsed.state != "alike":
        return None
    hierarchy = _stored(store)
    return None if hierarchy is None else Before(hierarchy, set(touched))


def _stored(store: Store) -> Hierarchy | None:
    """Return what ``zarr.json`` of the root says of a file of both formats; None where it is not readable."""
    text = store.get(zarr3.DOCUMENT)
    if text is None or b'"both"' not in text:  # cheaper than parsing a document of some MB
        return None
    try:
        return zarr3.parse_consolidated(load(text, key=zarr3.DOCUMENT))
    except errors.MetadataError:
        return None


def derive(
    change: Change,
    hierarchy: Hierarchy,
    consolidated: bytes,
    *,
    store: Store | None = None,
    before: Before | None = None,
    is_new: bool = False,
    options: WriteOptions = DEFAULT_OPTIONS,
) -> tuple[WritePlan, Root]:
    """Put format 3 into a change that makes format 2 complete; return its plan, and the root for the commit."""
    store = store or change.reader
    plan = plan_format_3(store, hierarchy if before is None else before.changed_part(hierarchy))
    old = before.hierarchy if before is not None else None if is_new else _stored(store)
    if old is not None:  # the root shows nothing to readers of format 3 if chunks get another form than they know
        others = [
            (path, planned.node)
            for path, planned in plan.arrays.items()
            if (form := _form(path, old.get(path))) is not None and form != _form(path, planned.node)
        ]
        if others:
            hiding = {zarr3.DOCUMENT: registry.sealed(dump(registry.hiding_document()))}
            change.hide(hiding, registry.texts_of(3, others))
    if before is None and not is_new:
        create_chunks(change, plan)
    documents = registry.texts_of(3, plan.hierarchy.walk(), strict=options.strict_json)
    # the values only: documents that are the same as before are not written again
    PlanWriter(change, plan, options).write_changes()
    there = [] if before is None else [(path, before.hierarchy.get(path)) for path, _ in plan.hierarchy.walk()]
    known = registry.texts_of(3, ((path, node) for path, node in there if node is not None))
    change.describe({key: text for key, text in documents.items() if known.get(key) != text})
    if not is_new:
        change.delete(keys_to_drop(store, plan, before))
    if before is not None:
        for path, _ in hierarchy.walk():  # the arrays that have not changed
            node = before.hierarchy.get(path)
            if plan.hierarchy.get(path) is None and node is not None:
                plan.hierarchy.add(path, node)
    return plan, {zarr3.DOCUMENT: root_text(plan.hierarchy, consolidated, strict=options.strict_json)}


def with_format_3(change: Change, plan: WritePlan, root: Root, options: WriteOptions) -> Root:
    """Add format 3 to a new file of format 2, and return the documents of the root of both."""
    consolidated = root[zarr2.CONSOLIDATED]
    assert consolidated is not None
    options = replace(options, progress=SILENT)
    return {**root, **derive(change, plan.hierarchy, consolidated, is_new=True, options=options)[1]}


def create_chunks(change: Change, plan: WritePlan) -> None:
    """Announce the folders of the chunks of format 3 that do not exist."""
    for path, planned in plan.arrays.items():
        if planned.node.stored.first_chunk.startswith(f"{DEFAULT_PREFIX}/"):
            with suppress(errors.ConflictError):
                change.create(join(path, DEFAULT_PREFIX))


def plan_in_place(store: Store, hierarchy: Hierarchy) -> WritePlan:
    """Return the plan of format 3 in the place of format 2: all nodes, and the arrays that are encoded again."""
    plan = ZarrPlanner(store, hierarchy, store.location, zarr_format=3, is_in_place=True).plan_file()
    adapt_plan(plan, location=store.location)
    for path, planned in list(plan.arrays.items()):
        if planned.source is None or isinstance(planned.source, StoredChunks):
            planned.node.stored.chunk_keys = hierarchy.array(path).stored.chunk_keys
            del plan.arrays[path]
    return plan


def plan_format_3(store: Store, hierarchy: Hierarchy) -> WritePlan:
    """Return the plan of what a file of format 2 lacks for format 3, like `plan_in_place`."""
    plan = plan_in_place(store, hierarchy)
    for _, node in plan.hierarchy.arrays():
        registry.use_structured(node)
    return plan


def root_text(hierarchy: Hierarchy, consolidated: bytes, *, strict: bool) -> bytes:
    """Return the ``zarr.json`` of the root of a file of both formats, with the note about its ``.zmetadata``."""
    root = zarr3.last(hierarchy, {}, consolidate=True)[zarr3.DOCUMENT]
    return registry.sealed(dump(registry.with_note(root, consolidated), strict=strict))


def _form(path: str, node: Node | None) -> list[Any] | None:
    """Return what the document of an array says of its chunks; None for other nodes."""
    if not isinstance(node, Dataset):
        return None
    (_, document), *_ = zarr3.documents(path, node)
    return [document[key] for key in ("data_type", "chunk_grid", "chunk_key_encoding", "codecs")]


def keys_to_drop(store: Store, plan: WritePlan, before: Before | None = None) -> list[str]:
    """Return chunks of format 3 outside of their arrays, and documents of nodes that are not in the file any more."""
    gone: list[str] = []
    for path, planned in plan.arrays.items():
        keys = store.list_prefix(join(path, DEFAULT_PREFIX))
        gone += [key for key in keys if shard_named(planned.node.stored, key[len(path) + 1 :]) is None]
    if before is None:
        there = [key for key in store.list_documents() if split(key)[1] == zarr3.DOCUMENT]
        gone += [key for key in there if plan.hierarchy.get(split(key)[0]) is None]
    return gone


def derive_all(writer: Writer, parsed: ParsedFile, options: WriteOptions = DEFAULT_OPTIONS) -> tuple[WritePlan, bool]:
    """Derive all of format 3 in a change of its own, and update the state; return the plan, and whether it changed."""
    is_alike, parsed.state = parsed.state == "alike", "2 is newer"
    try:
        with writer.change(root=[zarr3.DOCUMENT]) as change:
            text = writer.store.get(zarr2.CONSOLIDATED) or b""
            plan, root = derive(change, parsed.hierarchy, text, store=parsed.store(change.reader), options=options)
            is_same = is_alike and writer.store.get_many(root) == root
            is_changed = change.commit({}, {} if is_same else root)
    except UNFIT:
        raise
    except BaseException as error:
        writer.is_outdated = True  # the caller may take the file for the one before its change of format 2
        if isinstance(error, errors.ZarrBackendError):
            error.problem += "; Zarr format 2 is complete, and `zarrio repair` updates format 3"
        raise
    parsed.state = "alike"
    return plan, is_changed


def make_alike(writer: Writer, parsed: ParsedFile, options: WriteOptions = DEFAULT_OPTIONS) -> None:
    """Do what `derive_all` does; warn if the file holds something that cannot be in format 3."""
    try:
        derive_all(writer, parsed, options)
    except UNFIT as error:
        what = (
            f"{writer.store.location}: the change is written in Zarr format 2, and could not be in format 3 "
            f"({error}); `zarrio repair` updates format 3"
        )
        notes = getattr(error, "__notes__", [])  # that it could not be undone
        warn(". ".join([what, *notes]), errors.FormatsDifferWarning)


def keys_of_format_3(store: Store) -> tuple[list[str], list[str]]:
    """Return the keys of the documents of format 3, that of the root first, and of the chunks that only they name."""
    texts = read_documents(store, {zarr3.DOCUMENT})
    chunks: list[str] = []
    for key, text in sorted(texts.items()):
        if b'"array"' not in text:
            continue
        path, has_own_chunks = split(key)[0], True
        with suppress(errors.MetadataError):  # whose chunks nothing else names either
            node = zarr3.parse_node(load(text, key=key), path)
            has_own_chunks = isinstance(node, Dataset) and node.stored.chunk_keys.encoding == "default"
        if has_own_chunks:
            chunks += store.list_prefix(join(path, DEFAULT_PREFIX))
    return sorted(texts, key=len), chunks
