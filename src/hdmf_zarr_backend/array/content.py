"""`ZarrContent`: the content of a Zarr file, node by node, for comparing.

There are two views of a file. As Zarr: its own chunks, codecs and links. As HDF5: what each object was, or would be, in
HDF5, from the notes of a conversion, so that a lossless conversion shows no difference from its source.

`hdf5.reader` has the counterpart for HDF5 files.
"""

from __future__ import annotations

import json
import math
import os
import posixpath
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from typing import Any, TypeAlias

import numpy as np

from hdmf_zarr_backend.encoding.attributes import as_array, decode_attributes, default_element
from hdmf_zarr_backend.encoding.dtypes import dtype_of, element_of, numpy_dtype
from hdmf_zarr_backend.encoding.elements import Described, describe, describe_any
from hdmf_zarr_backend.encoding.hdf5_types import JSON_ROW, from_note
from hdmf_zarr_backend.encoding.hdf5_values import decode_array, object_array, plain_values
from hdmf_zarr_backend.encoding.parser import Resolver, parse
from hdmf_zarr_backend.encoding.references import decode_reference, is_reference
from hdmf_zarr_backend.encoding.reserved import SPECLOC, as_dict, hdf5_note, notes_of, spec_location, visible
from hdmf_zarr_backend.errors import DamagedFileError, MetadataError, ReferenceTargetError, ZarrBackendError, at
from hdmf_zarr_backend.model.content import (
    AttributeContent,
    DatasetContent,
    DatatypeContent,
    FilterStep,
    GroupContent,
    LinkContent,
    NodeContent,
    Selection,
    UnreadableContent,
    Values,
    canonical_region,
    hdf5_filter,
)
from hdmf_zarr_backend.model.element import (
    DANGLING,
    REFERENCE,
    REGION,
    UTF8,
    ArrayOf,
    Compound,
    Element,
    Reference,
    Target,
    Text,
)
from hdmf_zarr_backend.model.links import OWN_SOURCES, THIS_FILE
from hdmf_zarr_backend.model.nodes import Dataset, Group, Node, StoredArray, absolute, join, relative, split
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.journal import warn_of_pending
from hdmf_zarr_backend.store.opening import open_store

Resolve: TypeAlias = Callable[[Any], Target]


# ---- blocks of arrays ---------------------------------------------------------------------------------------------


def _block_values(values: Values, element: Element, shape: tuple[int, ...], resolve: Resolve) -> Values:
    """Return a decoded block as plain values; ``shape`` is its shape in HDMF, without the axes of an element."""
    if isinstance(element, Compound) and values.dtype.kind == "O":  # from the codecs: ``(n, k)``, or ``n`` tuples
        has_fields = values.ndim > len(shape)
        count = math.prod(values.shape[:-1]) if has_fields else values.size
        if count != math.prod(shape):
            raise DamagedFileError(f"the shape of the rows does not fit their type {element}")
        rows = values.reshape(count, values.shape[-1]) if has_fields else values.reshape(-1)
        return _json_values(list(rows), (len(rows),), element, resolve).reshape(shape)
    if isinstance(element, Text) and values.dtype.kind == "O":
        # any other object among text becomes JSON, so that it does not look like empty text
        is_text = (str, bytes, type(None))
        texts = [item if isinstance(item, is_text) else json.dumps(item, default=repr) for item in values.flat]
        values = object_array(texts, values.shape)
    shape = (*shape, *_axes_of(element))
    if values.size != math.prod(shape):
        raise DamagedFileError(f"the shape of the values does not fit their type {element}")
    return plain_values(values.reshape(shape), element, resolve)


def _axes_of(element: Element) -> tuple[int, ...]:
    return element.shape if isinstance(element, ArrayOf) else ()


def _json_values(value: Any, shape: tuple[int, ...], element: Element, resolve: Resolve) -> Values:
    """Return values that are stored as JSON: rows, attributes in notes, fill values; else a MetadataError."""
    values = decode_array(value, shape, element, dtype_of(element), resolve)
    return plain_values(values, element, lambda target: target)


# ---- attributes ---------------------------------------------------------------------------------------------------


def _attribute_content(value: Any) -> AttributeContent:
    """Return a decoded attribute as HDF5 would store it."""
    if type(value) is str:  # as most are
        return AttributeContent(UTF8, (), object_array([value], ()))
    if isinstance(value, Target) or (isinstance(value, list) and set(map(type, value)) == {Target}):
        targets, shape = ([value], ()) if isinstance(value, Target) else (value, (len(value),))
        kind = REFERENCE if targets[0].region is None else REGION
        return AttributeContent(kind, shape, object_array(targets, shape))
    is_json = isinstance(value, dict) or (isinstance(value, list) and bool(value))
    array = as_array(None if is_json else value)
    items = array.reshape(-1).tolist() if array.dtype.kind in "OUT" else []
    if not all(isinstance(item, str | bytes) for item in items):
        text = json.dumps(value if is_json else array.tolist(), sort_keys=True, default=repr)
        return AttributeContent(JSON_ROW, (), np.array((text,), [("json", object)]))
    element = default_element(array)
    return AttributeContent(element, array.shape, plain_values(array, element, lambda _: Target(None)))


def _with_notes(attributes: dict[str, AttributeContent], notes: Any, resolve: Resolve) -> dict[str, AttributeContent]:
    """Return attributes with the types, and some with the values, in their notes from a conversion from HDF5."""
    # a note has ``type``, and ``space``, or ``shape`` and ``value``
    for name, note in as_dict(notes).items():
        if "type" not in as_dict(note):
            continue
        element, stored = from_note(note["type"]), attributes.get(name)
        if note.get("space") == "null":
            attributes[name] = AttributeContent(element, None, None)
        elif "value" in note:
            try:
                shape = tuple(int(n) for n in note["shape"])
            except (ValueError, TypeError, KeyError) as error:
                raise DamagedFileError(f"the note of an attribute has no valid shape ({error})") from error
            attributes[name] = AttributeContent(element, shape, _json_values(note["value"], shape, element, resolve))
        elif stored is not None and stored.value is not None:
            attributes[name] = _as_noted(stored, element)
    return attributes


def _as_noted(stored: AttributeContent, element: Element) -> AttributeContent:
    """Return the attribute with the noted type, unless its value was changed since."""
    values, shape = stored.value, stored.shape
    assert values is not None and shape is not None
    is_integer = stored.dtype.kind in ("int", "uint") and element.kind in ("enum", "bitfield")
    if is_integer or element.kind == stored.dtype.kind:
        return replace(stored, dtype=element)
    if isinstance(element, ArrayOf) and shape[-len(element.shape) :] == element.shape:
        inner = _as_noted(stored, element.base)
        outer = shape[: len(shape) - len(element.shape)]
        return AttributeContent(replace(element, base=inner.dtype), outer, inner.value)
    if values.size == 0 and isinstance(element, Reference):
        return AttributeContent(element, shape, object_array([], shape))
    return stored


class ArrayReader:
    """Describes the arrays of one file. The modules that decode values are imported when the first value is read."""

    def __init__(self, store: Store, resolve: Resolve, *, as_hdf5: bool) -> None:
        self._store = store
        self._resolve = resolve
        self._as_hdf5 = as_hdf5
        self.cache: Any = None
        self._checked: set[str] = set()

    def content(
        self, path: str, node: Dataset, attributes: Mapping[str, AttributeContent], *, is_spec: bool
    ) -> DatasetContent:
        """Return the content of the array at ``path``, in the terms of `model.content`."""
        stored = node.stored
        means = describe(node, is_spec=is_spec)
        shape, note, axes = means.shape, means.note, len(means.shape or ())
        chunks: tuple[int, ...] | None = None
        filters: tuple[FilterStep, ...] = ()
        layout: tuple[str, ...] = ()
        if not self._as_hdf5:
            chunks = stored.chunks[:axes] if axes else None
            options = [sorted(f"{key}={value}" for key, value in step.items() if key != "id") for step in stored.codecs]
            names = (str(step["id"]) for step in stored.codecs)
            filters = tuple(FilterStep(name, tuple(chosen)) for name, chosen in zip(names, options, strict=True))
        elif note is not None:
            steps = note["filters"] if isinstance(note.get("filters"), list) else []
            known = [step for step in steps if isinstance(step, list) and list(map(type, step)) == [int, int, list]]
            filters = tuple(hdf5_filter(code, tuple(options), None) for code, _, options in known)
            chunks = tuple(note["chunks"]) if isinstance(note.get("chunks"), list) else None
            layout = () if chunks is not None else (str(note.get("layout", "contiguous")),)
        kept = notes_of(node.attributes).get("maxshape")  # it may include the axes of elements
        maxshape = tuple(kept[:axes]) if isinstance(kept, list) and shape is not None and len(kept) >= axes else shape
        return DatasetContent(
            attributes=attributes,
            dtype=means.element,
            shape=shape,
            maxshape=maxshape,
            chunks=chunks,
            layout=layout,
            filters=filters,
            fill=self._fill(stored, means),
            read=partial(self._read, path, stored, means),
            grid=stored.chunks[:axes] if axes else None,
            has_storage=not self._as_hdf5 or note is not None,
        )

    def _read(self, path: str, stored: StoredArray, means: Described, selection: Selection) -> Values:
        from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader, check_unwritten

        self.cache = self.cache or ChunkCache()
        with at(self._store, path):
            if path not in self._checked:
                check_unwritten(self._store, path, stored)
                self._checked.add(path)
            reader = ChunkReader(self._store, path, stored, self.cache)
            block = reader.read((*selection, *[slice(None)] * (len(stored.shape) - len(selection))))
            return _block_values(block, means.element, block.shape[: len(selection)], self._resolve)

    def _fill(self, stored: StoredArray, means: Described) -> Values | None:
        from hdmf_zarr_backend.encoding.fills import fill_scalar

        element = means.element
        note = (means.note or {}).get("fill")
        if isinstance(note, dict) and "value" in note:
            return _json_values(note["value"], (), element, self._resolve)
        if self._as_hdf5 and note == "undefined":
            return None
        # old files have pickles as fill values of rows and references: these are not needed, and never decoded
        is_text = isinstance(element, Text)
        dtype = numpy_dtype(stored.data_type)
        chosen = fill_scalar(stored, dtype) if is_text or means.form == "plain" else None
        # what is undefined is empty, and so is the 0 that zarr 2 declared for all types, also for text stored as JSON
        if is_text and chosen in (0, "", b""):
            chosen = None
        if chosen is not None:
            return _block_values(np.full(_axes_of(element), chosen, dtype), element, (), self._resolve)
        if not self._as_hdf5:
            return None
        # HDF5's default: zero, empty text, a null reference
        dtype = dtype_of(element) if dtype.kind == "O" and isinstance(element, Compound) else dtype
        return plain_values(np.zeros(_axes_of(element), dtype), element, lambda _: Target(None))


def stated_target(value: Any) -> Target:
    """Return what a stored reference names, whether it exists or not; nothing for an invalid one."""
    with suppress(ZarrBackendError):
        decoded = decode_reference(value)
        return Target(absolute(decoded.node_path), source="" if decoded.source in OWN_SOURCES else decoded.source)
    return Target(None)


def past_the_end(rows: Values, resolver: Resolver) -> Counter[str]:
    """Count the ranges of samples in a column of time series that lead past the end of their series, by its path."""
    outside = Counter[str]()

    @cache
    def samples(series: Target) -> float:
        """Return how many samples a series has; infinity if its data are in another file, as those of a video are."""
        with suppress(ZarrBackendError):
            *_, data = resolver.find_inside(series.source, f"{series.path}/data")
            return (isinstance(data, Dataset) and sum(describe_any(data).axes[:1])) or math.inf
        return math.inf

    kinds = {(name, rows.dtype[name].kind.replace("u", "i")) for name in rows.dtype.names or ()}
    if {("idx_start", "i"), ("count", "i"), ("timeseries", "O")} <= kinds:
        for start, count, series in rows[["idx_start", "count", "timeseries"]].reshape(-1).tolist():
            # negative numbers stand for no samples
            if isinstance(series, Target) and series.path is not None and (start >= 0 or count >= 0):
                outside[series.path] += not 0 <= start <= start + count <= samples(series)
    return +outside


def uneven_series(resolver: Resolver, changed: Set[str] | None = None) -> Iterator[tuple[str, str]]:
    """Yield the path of each series whose data and timestamps differ in length, and both lengths.

    With ``changed``, only of series that have, or link to, one of these datasets.
    """
    hierarchy = resolver.main.hierarchy
    for owner, group in hierarchy.walk():
        if not isinstance(group, Group) or "colnames" in group.attributes:
            continue  # columns of a table may have these names
        paths = [join(owner, name) for name in ("data", "timestamps")]
        # without a look at links: a write after each append asks for the few that it has changed
        has_own = all(hierarchy.get(path) is not None for path in paths)
        if changed is not None and changed.isdisjoint(paths) and has_own:
            continue
        ends = {}
        with suppress(ZarrBackendError):  # it has no data or no timestamps, or they cannot be found
            for path in paths:
                _, target, node = resolver.find_inside(THIS_FILE, path)
                if isinstance(node, Dataset) and any(node.stored.shape):  # not the empty data beside a video
                    ends[target] = node.stored.shape[0]
        if len({*ends.values()}) > 1 and (changed is None or not changed.isdisjoint(ends)):
            yield owner, "the data have {:,} samples, and the timestamps {:,}".format(*ends.values())


def _unreadable(error: ZarrBackendError) -> UnreadableContent:
    return UnreadableContent({}, f"{error.problem}. {error.remedy}")


class ZarrContent(Mapping[str, NodeContent]):
    """`FileContent` of a Zarr file. Links are not followed; references are resolved, also through links."""

    def __init__(self, path: str | os.PathLike[str], *, as_hdf5: bool = False) -> None:
        self._as_hdf5 = as_hdf5
        self._store: Store = open_store(path)
        self.source = self._store.location
        warn_of_pending(self._store)
        # not from the inlined copies: what is compared is what any Zarr reader finds in the chunks
        parsed = parse(self._store, use_inlined=False, leave_out=True)
        self._hierarchy = parsed.hierarchy
        self._resolver = Resolver(self._store, self._hierarchy)
        self._spec_path = spec_location(self._hierarchy.root.attributes.get(SPECLOC))
        self._arrays = ArrayReader(self._store, self._resolve, as_hdf5=as_hdf5)
        # links, nodes, and the notes of named types
        self._entries: dict[str, LinkContent | UnreadableContent | Node | dict[str, Any]] = {
            absolute(path): _unreadable(error) for path, error in parsed.left_out.items()
        }
        hidden: set[str] = set()
        for node_path, node in self._hierarchy.walk():
            if not hidden.isdisjoint((node_path, split(node_path)[0])):
                hidden.add(node_path)  # below the copied target of an external link
                continue
            self._entries.setdefault(absolute(node_path), node)
            if isinstance(node, Group):
                hidden |= self._add_members(node_path, node)

    def _add_members(self, path: str, node: Group) -> set[str]:
        """Add the links and named types of a group; return the paths of members that were links in HDF5."""
        for link in self._resolver.main.links(path, node):
            location = self._resolver.locate(self._resolver.main, link.target.source)
            target = absolute(link.target.path)
            external = LinkContent("external", target, link.target.source, location)
            content = LinkContent("soft", target) if location == self.source else external
            self._entries[absolute(join(path, link.name))] = content
        note = hdf5_note(node)
        copies: set[str] = set()
        for name, noted in as_dict(note.get("links")).items() if self._as_hdf5 else ():
            member, noted_link = join(path, name), self._noted_link(path, name, noted)
            is_link = isinstance(self._entries.get(absolute(member)), LinkContent)
            if noted_link is not None and (is_link or name in node.members):
                self._entries[absolute(member)] = noted_link
                copies.add(member)
        for name, datatype in as_dict(note.get("datatypes")).items():
            if name not in node.members and isinstance(datatype, dict):
                self._entries.setdefault(absolute(join(path, name)), datatype)
        return copies

    def close(self) -> None:
        """Free the decoded chunks."""
        self._arrays.cache = None

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def _entry(self, path: str) -> LinkContent | UnreadableContent | Node | dict[str, Any] | None:
        entry = self._entries.get(path)
        return self._hierarchy.get(path) if entry is None else entry  # below the copied target of a link

    def __contains__(self, path: object) -> bool:  # that of Mapping decodes all attributes
        return isinstance(path, str) and self._entry(path) is not None

    def __getitem__(self, path: str) -> NodeContent:
        entry = self._entry(path)
        if entry is None:
            raise KeyError(path)
        if isinstance(entry, (LinkContent, UnreadableContent)):
            return entry
        try:
            with at(self.source, path):
                if isinstance(entry, dict):
                    noted = _with_notes({}, entry.get("attributes"), self._resolve)
                    return DatatypeContent(noted, from_note(entry.get("type")))
                attributes = self._attributes(path, entry)
                if isinstance(entry, Group):
                    return GroupContent(attributes)
                is_spec = self._spec_path is not None and path.startswith(f"/{self._spec_path}/")
                return self._arrays.content(relative(path), entry, attributes, is_spec=is_spec)
        except MetadataError as error:  # the other nodes are readable
            return _unreadable(error)

    def _noted_link(self, group: str, name: str, noted: Any) -> LinkContent | None:
        """Return the link that a member was in HDF5: hard, soft with another spelling of its target, or external."""
        entry = self._entries.get(absolute(join(group, name)))
        if noted == "hard" and isinstance(entry, LinkContent):  # Zarr has no second name of a node
            return LinkContent("hard", entry.target)
        if isinstance(noted, dict) and isinstance(noted.get("soft"), str):
            parts = posixpath.join(absolute(group), noted["soft"]).split("/")
            return LinkContent("soft", "/" + "/".join(part for part in parts if part not in ("", ".")))
        if isinstance(noted, dict) and isinstance(noted.get("source"), str) and isinstance(noted.get("path"), str):
            location = self._resolver.locate(self._resolver.main, noted["source"])
            return LinkContent("external", absolute(noted["path"]), noted["source"], location)
        return None

    def _resolve(self, value: Any) -> Target:
        """Return the target of a stored reference; an invalid one is dangling."""
        if value is None:
            return Target(None)
        try:
            decoded = decode_reference(value)
        except ZarrBackendError:
            return Target(DANGLING)
        return self._follow(decoded.source, decoded.node_path, decoded.region)

    def _attribute_reference(self, value: dict[str, Any]) -> Target:
        return self._resolve(value.get("value") or {})

    def _follow(self, source: str, path: str, region: Any) -> Target:
        try:
            source, path, target = self._resolver.find_inside(source, path)
        except ReferenceTargetError as error:
            # a named type, or a node that is left out
            entry = self._entries.get(error.path or "") if error.store == self.source else None
            return Target(error.path if isinstance(entry, (dict, UnreadableContent)) else DANGLING)
        except ZarrBackendError:
            return Target(DANGLING)
        if target is None:
            location = self._resolver.locate(self._resolver.main, source)
            return Target(absolute(path), canonical_region(region, None), source, location)
        shape = target.stored.shape if isinstance(target, Dataset) else None
        return Target(absolute(path), canonical_region(region, shape))

    def _attributes(self, path: str, node: Node) -> dict[str, AttributeContent]:
        stored = node.attributes
        values = decode_attributes(stored, resolve=self._attribute_reference)
        attributes = {name: _attribute_content(value) for name, value in values.items()}
        names = visible(stored)
        for key, name in names.items():
            # references with several axes are nested JSON lists in every format
            value: Any = stored[key]
            items = np.array(value if isinstance(value, list) and value and isinstance(value[0], list) else [], object)
            if items.size and all(map(is_reference, items.flat)):
                is_region = any(item["zarr_dtype"] == "region" for item in items.flat)
                targets = object_array([self._attribute_reference(item) for item in items.flat], items.shape)
                attributes[name] = AttributeContent(REGION if is_region else REFERENCE, items.shape, targets)
        for key, remark in as_dict(notes_of(stored).get("attributes")).items():
            # a type but no value: decoded, it looks like an array of length 0
            if key in names and as_dict(remark).get("null") and "dtype" in remark:
                attributes[names[key]] = AttributeContent(element_of(numpy_dtype(str(remark["dtype"]))), None, None)
        notes = as_dict(hdf5_note(node).get("attributes"))
        attributes = _with_notes(attributes, notes, self._resolve)
        was_text = "value" in as_dict(notes.get(SPECLOC))
        if path == "/" and self._spec_path is not None and not was_text:
            target = self._follow(THIS_FILE, self._spec_path, None)
            attributes[SPECLOC] = AttributeContent(REFERENCE, (), object_array([target], ()))
        return attributes
