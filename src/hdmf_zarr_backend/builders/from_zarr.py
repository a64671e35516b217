"""`ZarrPlanner`: plans the copy of a Zarr file to the other format of Zarr.

Attributes, links, types and notes are equal in the model of both formats. Chunks are copied as they are if both formats
have their codecs. References, rows, and pickles of old files are encoded again. Links and references to other files are
made relative to the new location.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.fills import check_unwritten
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.builders.specs import text_array
from hdmf_zarr_backend.encoding.references import is_reference
from hdmf_zarr_backend.encoding.reserved import CHUNKS, DIMENSIONS, DTYPE, LINKS, NOTES, SPECLOC, notes_of, root_notes
from hdmf_zarr_backend.errors import at
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.formats.casting import to_bytes, to_text
from hdmf_zarr_backend.formats.dimensions import decode_dimensions, encode_dimensions
from hdmf_zarr_backend.formats.elements import describe, stored_text
from hdmf_zarr_backend.formats.namespaces import spec_location
from hdmf_zarr_backend.formats.nczarr import is_nczarr, strip
from hdmf_zarr_backend.formats.new_datasets import Layout, new_dataset
from hdmf_zarr_backend.formats.zarr3_codecs import in_format_2
from hdmf_zarr_backend.formats.zarr3_types import word_of_type
from hdmf_zarr_backend.model.element import ASCII, UTF8, Compound, Element, Reference
from hdmf_zarr_backend.model.link_sources import THIS_FILE, relative_source
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, copy_hierarchy, split
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.write.array_planner import take_stored
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ElementSource, IndexedSource, RowSource, all_utf8


class ZarrPlanner:
    """Plans the copy of a Zarr file; chunks that are decoded before the write stay in its ``cache``."""

    def __init__(
        self, store: Store, hierarchy: Hierarchy, target: str | None, *, zarr_format: int, is_in_place: bool = False
    ) -> None:
        if zarr_format == 3 and is_nczarr(hierarchy):  # format 3 has no NCZarr attributes
            hierarchy = copy_hierarchy(hierarchy)
            strip(hierarchy)
        self._store = store
        self._hierarchy = hierarchy
        self._target = target
        self._is_in_place = is_in_place
        self.cache = ChunkCache()
        self._specs = spec_location(hierarchy.root.attributes.get(SPECLOC))
        self._resolver = resolver_of(store, hierarchy)
        self._is_ours = "version" in notes_of(hierarchy.root.attributes)
        self._taken: dict[str, dict[str, int]] = {}
        self.plan = WritePlan(Hierarchy(Group(), zarr_format))

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
        if isinstance(copied.get(LINKS), list):
            copied[LINKS] = [self._reference(link) for link in attributes[LINKS]]
        if is_root:
            notes = {**root_notes(), **notes_of(attributes)}
            if self._is_in_place and CHUNKS not in notes_of(attributes):
                del notes[CHUNKS]  # the file may not store all of them
            copied[NOTES] = notes
            if self._specs is not None:
                copied[SPECLOC] = self._specs
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
        found = self._resolver.locate(self._resolver.main, source) if isinstance(source, str) else origin
        if found == origin:
            return {**reference, "source": THIS_FILE}
        return reference if self._target is None else {**reference, "source": relative_source(found, self._target)}

    # ---- arrays -----------------------------------------------------------------------------------------------------

    def _array(self, path: str, node: Dataset[Attributes]) -> PlannedArray:
        lazy = LazyArray(self._store, path, node, self.cache)
        lazy.check_codecs()
        if lazy.dtype.hasobject or not self._is_in_place:
            check_unwritten(self._store, path, node.stored)
        if self._specs is not None and path.startswith(f"{self._specs}/") and stored_text(node.stored) != "text":
            return text_array(to_text(np.asarray(lazy[()], dtype=object).reshape(-1)[0]))
        planned = self._planned(lazy)
        made = planned.node
        notes = {key: value for key, value in notes_of(node.attributes).items() if key not in ("dims", "rows")}
        notes.update(planned.notes)
        planned.notes = notes
        attributes = self._attributes({k: v for k, v in node.attributes.items() if k not in (DTYPE, NOTES, DIMENSIONS)})
        names = self._dimensions(path, node, made.stored.shape, notes)
        made.attributes = {**attributes, **made.attributes, DIMENSIONS: names}
        if notes:
            made.attributes[NOTES] = notes
        return planned

    def _dimensions(
        self, path: str, node: Dataset[Attributes], shape: tuple[int, ...], notes: dict[str, Any]
    ) -> list[str]:
        """Return the names of the axes; in place the present ones, which other programs may use."""
        taken = self._taken.setdefault(split(path)[0], {})
        names: Any = node.attributes.get(DIMENSIONS)
        are_whole = isinstance(names, list) and len(names) == len(shape)
        if not self._is_in_place or not are_whole or not all(isinstance(name, str) and name for name in names):
            return encode_dimensions(decode_dimensions(node.attributes), shape, taken, notes)
        known = notes_of(node.attributes)
        if "dims" in known:
            notes["dims"] = known["dims"]
        taken.update(zip(names, shape, strict=True))
        return list(names)

    def _planned(self, lazy: LazyArray) -> PlannedArray:
        node = lazy.node
        word = node.attributes.get(DTYPE)
        means = describe(node)
        if means.form == "rows":
            return self._rows(lazy, means.fields)
        if isinstance(means.stored, Reference):
            made, notes = self._new_objects(lazy, means.stored, lazy.shape)
            return PlannedArray(made, ElementSource(lazy, made.stored.shape, self._reference), notes=notes)
        if means.form == "objects":
            return self._text(lazy, word)
        old = node.stored
        stored = StoredArray(old.shape or (1,), old.chunks or (1,), old.data_type, old.fill_value, old.compressor)
        stored.filters, stored.order = in_format_2(old.filters), old.order if isinstance(old.order, str) else "C"
        made = Dataset(stored)
        made.attributes[DTYPE] = word if word is not None else word_of_type(node.stored.data_type)
        if not node.stored.shape:
            made.attributes[DTYPE] = "scalar"
            return PlannedArray(made, IndexedSource(np.asarray(lazy[()]).reshape(1), lazy.dtype))
        planned = PlannedArray(made, IndexedSource(lazy, lazy.dtype) if made.stored.size else None)
        take_stored(planned, lazy)
        return planned

    def _text(self, lazy: LazyArray, word: Any) -> PlannedArray:
        stored = stored_text(lazy.node.stored)
        is_new_text = stored == "bytes" and not self._is_ours and self.plan.hierarchy.zarr_format == 3
        if is_new_text and all_utf8(lazy if lazy.shape else self._scalar(lazy), (lazy.shape or (1,))[0]):
            return self._old_text(lazy, word)
        convert: Callable[[Any], Any] = to_bytes if stored == "bytes" else to_text
        made, _ = self._new_objects(
            lazy, UTF8, lazy.shape, as_bytes=stored == "bytes", keeps_filters=stored is not None
        )
        if isinstance(lazy.node.stored.fill_value, str):  # hdmf-zarr declared 0
            made.stored.fill_value = lazy.node.stored.fill_value or None
        if not lazy.shape:
            return PlannedArray(made, ElementSource(self._scalar(lazy), (1,), convert))
        made.attributes[DTYPE] = word or made.attributes[DTYPE]
        planned = PlannedArray(made, ElementSource(lazy, made.stored.shape, convert))
        if stored is not None:
            take_stored(planned, lazy)
        return planned

    def _old_text(self, lazy: LazyArray, word: Any) -> PlannedArray:
        """Plan dates and ASCII text, which hdmf-zarr 0.13 stored as bytes, as text; format 3 has no such bytes."""
        is_scalar = word == "scalar" or not lazy.shape
        shape = () if is_scalar and lazy.size == 1 else lazy.shape
        made, notes = self._new_objects(lazy, UTF8 if is_scalar else ASCII, shape, keeps_filters=True)
        source = ElementSource(self._scalar(lazy) if not lazy.shape else lazy, made.stored.shape, to_text)
        return PlannedArray(made, source, notes=notes)

    def _rows(self, lazy: LazyArray, fields: tuple[tuple[str, Element], ...]) -> PlannedArray:
        length = lazy.shape[0] if lazy.shape else 1
        made, notes = self._new_objects(lazy, Compound(fields), (length,))
        converters = [self._reference if isinstance(field, Reference) else _cell for _, field in fields]
        names = [name for name, _ in fields]
        source = RowSource(lazy if lazy.shape else self._scalar(lazy), length, converters, names)
        return PlannedArray(made, source, notes=notes)

    def _scalar(self, lazy: LazyArray) -> list[Any]:
        """Return the only element of an array without axes."""
        return [lazy[()]]

    def _new_objects(
        self,
        lazy: LazyArray,
        element: Element,
        shape: tuple[int, ...],
        *,
        as_bytes: bool = False,
        keeps_filters: bool = False,
    ) -> tuple[Dataset[Attributes], dict[str, Any]]:
        """Return the dataset for a copy with objects, and its note.

        ``keeps_filters``: apply the same filters after the codec for objects.
        """
        old = lazy.node.stored
        axes = 1 if isinstance(element, Compound) else max(1, len(shape))
        layout = Layout(chunks=(old.chunks or (1,))[:axes])
        made, notes = new_dataset(element, shape, layout, as_bytes=as_bytes)
        stored = made.stored
        stored.order = old.order if isinstance(old.order, str) else "C"
        stored.compressor = old.compressor
        if keeps_filters:
            stored.filters = [*(stored.filters or []), *(old.filters or [])[1:]]
        return made, notes


def _cell(value: Any) -> Any:
    """Return a cell as a JSON value."""
    if isinstance(value, bytes):
        return to_text(value)
    return value.item() if isinstance(value, np.generic) else value
