"""`Hdf5Planner`: plans the copy of an HDF5 file to Zarr.

It makes no builders, because they lack hard links, lists of references and exact types. What Zarr cannot express
is kept in the notes, so that the conversion back to HDF5 gives the same file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from hdmf_zarr_backend.encoding.attributes import encode_attributes
from hdmf_zarr_backend.encoding.elements import describe
from hdmf_zarr_backend.encoding.hdf5_types import text_of, to_note
from hdmf_zarr_backend.encoding.layout import Layout
from hdmf_zarr_backend.encoding.nczarr import encode_dimensions
from hdmf_zarr_backend.encoding.references import Link, ZarrReference, encode_attribute_reference, encode_link
from hdmf_zarr_backend.encoding.reserved import DIMENSIONS, LINKS, NOTES, SPECLOC, root_notes
from hdmf_zarr_backend.hdf5.attributes import attribute_names, note_attribute, note_orders, read_attribute
from hdmf_zarr_backend.hdf5.files import SourceFile, check_allocated, reading
from hdmf_zarr_backend.hdf5.plan import is_joined, keep_codecs, plan_described, take_chunks
from hdmf_zarr_backend.hdf5.reader import Hdf5Data, Hdf5References, ReferenceData
from hdmf_zarr_backend.hdf5.tree import HDF5, Hdf5Tree, Placed
from hdmf_zarr_backend.hdf5.types import storable_type
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, absolute, split
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.write.plan import PlannedArray, ShardsOfFile, WritePlan, ask_for_shards, checked_name

_SMALL = 1024


@dataclass
class Hdf5Planner:
    """Plans the copy of an HDF5 file."""

    tree: Hdf5Tree
    codec: dict[str, Any] | bool | Literal["keep"] = "keep"
    keeps_chunks: bool = False
    shards: ShardsOfFile = None
    strict: bool = False
    rules: ReadOptions | None = None

    def __post_init__(self) -> None:
        self._references = Hdf5References(self.tree)
        self._taken: dict[str, dict[str, int]] = {}
        self._has_types = any(placed.kind == "datatype" for placed in self.tree.nodes)
        self.plan = WritePlan(Hierarchy(Group()))
        self.joined: list[str] = []  # paths of the arrays whose chunks are larger than in HDF5

    def plan_file(self) -> WritePlan:
        """Plan everything."""
        notes: dict[str, dict[str, Any]] = {"": root_notes()}
        for placed in self.tree.nodes:
            with reading(placed.file.location, text_of(placed.raw)):
                self._plan(placed, notes)
        self._plan_links(notes)
        for path, note in notes.items():
            if note:
                node = self.plan.hierarchy.get(path)
                assert node is not None
                node.attributes[NOTES] = note
        return self.plan

    def _plan(self, placed: Placed, notes: dict[str, dict[str, Any]]) -> None:
        parent, name = split(placed.path)
        if placed.path:
            checked_name(name)
        node = placed.file.open(placed.raw)
        if placed.kind == "datatype":
            datatypes = notes[parent].setdefault(HDF5, {}).setdefault("datatypes", {})
            datatypes[name] = self._datatype(node, placed.file)
        elif placed.kind == "group":
            note = notes.setdefault(placed.path, {})
            orders: dict[str, Any] = {}
            note_orders(node, node.get_create_plist(), orders)
            if orders:
                note.setdefault(HDF5, {}).update(orders)
            attributes = self._attributes(node, placed, note)
            self.plan.hierarchy.add(placed.path, Group(attributes))
        else:
            self._dataset(node, placed)

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, node: Any, placed: Placed, note: dict[str, Any]) -> Attributes:
        """Return the JSON attributes of an object; everything else that HDF5 has is added to ``note``."""
        values: dict[str, Any] = {}
        remarks: dict[str, Any] = {}
        specifications: str | None = None
        for name, attribute in attribute_names(node):
            value, remark = read_attribute(attribute, self._encoder(placed.file))
            if name == SPECLOC and not placed.path:  # a reference in HDF5, or a path
                if isinstance(value, str):
                    remark = note_attribute(attribute, self._encoder(placed.file))
                specifications = self._path_of(value, placed.file)
                if specifications is not None:
                    value = None
            if value is not None:
                values[name] = value
            if remark := {**remark, **self._named_type(attribute)}:
                remarks[name] = remark
        if remarks:
            note.setdefault(HDF5, {})["attributes"] = remarks

        def encode(value: Any) -> dict[str, Any] | None:
            target = self._target(value, placed.file)
            return None if target is None else encode_attribute_reference(target)

        encoded = encode_attributes(values, notes=note, reference=encode, strict=self.strict)
        encoded.pop(NOTES, None)  # added later, when all notes are known
        if specifications is not None:
            encoded[SPECLOC] = specifications
        return encoded

    def _named_type(self, node: Any) -> dict[str, str]:
        """Return the note of the named type of a dataset or attribute, empty if it has none."""
        placed = self.tree.named_type(node.get_type()) if self._has_types else None
        return {} if placed is None else {"named": absolute(placed.path)}

    def _target(self, value: Any, file: SourceFile) -> ZarrReference | None:
        """Return what a value refers to, None for other values."""
        return self._references.refer(value, file) if type(value).__module__ == "h5py.h5r" else None

    def _path_of(self, value: Any, file: SourceFile) -> str | None:
        """Return the path that a path or a reference has, None for other values."""
        if isinstance(value, str):
            return value.strip("/")
        target = self._target(value, file)
        return None if target is None else target.node_path

    def _encoder(self, file: SourceFile) -> Callable[[Any], dict[str, Any] | None]:
        return lambda value: self._references.encode(value, file)

    def _datatype(self, node: Any, file: SourceFile) -> dict[str, Any]:
        """Return the note about a named type."""
        attributes: dict[str, Any] = {}
        for name, attribute in attribute_names(node):
            attributes[name] = {**note_attribute(attribute, self._encoder(file)), **self._named_type(attribute)}
        return {"type": to_note(storable_type(node)), **({"attributes": attributes} if attributes else {})}

    # ---- datasets ---------------------------------------------------------------------------------------------------

    def _dataset(self, node: Any, placed: Placed) -> None:
        data = Hdf5Data(placed.file, placed.raw)
        if self.rules is not None:
            check_allocated(data.dataset(), self.rules)
        found = data.describe()
        found.note.update(self._named_type(node))
        values: Any = data
        if found.kind in ("object", "compound"):
            values = ReferenceData(placed.file, placed.raw, self._references)
        elif data.shape and found.kind in ("text", "ascii") and np.prod(data.shape) <= _SMALL:
            values = data[tuple(slice(0, n) for n in data.shape)]  # so that it is read only once
        options = Layout(compressor=None if self.codec == "keep" else self.codec)
        if self.keeps_chunks and found.kind == "number" and found.chunks is not None:
            options.chunks = found.chunks + found.inner
        planned = plan_described(values, found, options, self._encoder(placed.file))
        if self.codec == "keep":
            keep_codecs(found, planned)
        if found.kind == "number" and data.shape:
            take_chunks(data.dataset(), found, planned, keep=self.codec == "keep")
        if is_joined(found, planned):
            self.joined.append(placed.path)
        ask_for_shards(planned, self.shards)
        array: Dataset[Attributes] = planned.node
        _drop_maxshape(planned)
        taken = self._taken.setdefault(split(placed.path)[0], {})
        dimensions = encode_dimensions(None, array.stored.shape, taken, planned.notes)
        attributes = self._attributes(node, placed, planned.notes)
        array.attributes = {**attributes, **array.attributes, DIMENSIONS: dimensions}
        if planned.notes:
            array.attributes[NOTES] = planned.notes
        self.plan.hierarchy.add(placed.path, array)
        self.plan.arrays[placed.path] = planned

    # ---- links ------------------------------------------------------------------------------------------------------

    def _plan_links(self, notes: dict[str, dict[str, Any]]) -> None:
        for link in self.tree.links:
            parent, name = split(link.path)
            node = self.plan.hierarchy.get(parent)
            assert isinstance(node, Group)
            node.attributes.setdefault(LINKS, []).append(encode_link(Link(checked_name(name), link.target)))
            if link.note is not None:
                notes[parent].setdefault(HDF5, {}).setdefault("links", {})[name] = link.note
        for parent, links in self.tree.notes.items():
            notes[parent].setdefault(HDF5, {}).setdefault("links", {}).update(links)


def _drop_maxshape(planned: PlannedArray) -> None:
    """Drop the maximum shape from the notes where it is that of the array."""
    if "maxshape" in planned.notes:
        means = describe(planned.node, planned.notes)
        if means.is_scalar or planned.notes["maxshape"] == list(means.axes):
            del planned.notes["maxshape"]
