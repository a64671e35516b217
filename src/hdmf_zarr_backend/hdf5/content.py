"""`Hdf5Content`: the content of an HDF5 file, node by node, for comparing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5l, h5o, h5r, h5t

from hdmf_zarr_backend.encoding.types import from_hdf5, raw_of, text_of
from hdmf_zarr_backend.encoding.values import plain_values
from hdmf_zarr_backend.errors import ValueRefusedError
from hdmf_zarr_backend.hdf5.attributes import attribute_names, read_values
from hdmf_zarr_backend.hdf5.datasets import stored_fill
from hdmf_zarr_backend.hdf5.filters import filters_of, usable
from hdmf_zarr_backend.hdf5.reader import SourceFile, read_block, soft_target
from hdmf_zarr_backend.hdf5.references import encode_region
from hdmf_zarr_backend.hdf5.safe_reading import H5_ERRORS, check_allocated, check_depth, check_other_files, reading
from hdmf_zarr_backend.hdf5.types import memory_type, numpy_type
from hdmf_zarr_backend.model.content import (
    AttributeContent,
    DatasetContent,
    DatatypeContent,
    GroupContent,
    LinkContent,
    NodeContent,
    Selection,
    Values,
    canonical_region,
    hdf5_filter,
)
from hdmf_zarr_backend.model.element import ArrayOf, Compound, Element, Number, Opaque, Sequence, Target, Text
from hdmf_zarr_backend.options import ReadOptions


class Hdf5Content(Mapping[str, NodeContent]):
    """`FileContent` of an HDF5 file, which stays open until `close`.

    Objects are found depth first, sorted by name. An object with several hard links is a node at its first path and a
    link of form ``hard`` at the others, so cycles end. Links are not followed.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.source = os.fspath(path)
        self._file = SourceFile(self.source)
        self._addresses: dict[tuple[int, int], str] = {}
        self._nodes: dict[str, LinkContent | None] = dict(self._walk())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __getitem__(self, path: str) -> NodeContent:
        link = self._nodes[path]
        if link is not None:
            return link
        with reading(self.source, path):
            node = h5o.open(*self._file.within(raw_of(path)))
            attributes = self._attributes(node)
            if isinstance(node, h5d.DatasetID):
                return self._dataset(path, node, attributes)
            if isinstance(node, h5t.TypeID):
                return DatatypeContent(attributes, _stored(node)[0])
            return GroupContent(attributes)

    def _walk(self) -> Iterator[tuple[str, LinkContent | None]]:
        for raw, form, info in self._file.walk(b"/", self._addresses):
            path = text_of(raw)
            if info is None:
                yield path, self._link(raw, form)
            elif (info.fileno, info.addr) in self._addresses:
                yield path, LinkContent("hard", self._addresses[info.fileno, info.addr])
            else:
                if info.type == h5o.TYPE_GROUP:
                    check_depth(ReadOptions(), self.source, path)
                self._addresses[info.fileno, info.addr] = path
                yield path, None

    def _link(self, raw: bytes, form: int) -> LinkContent:
        if form not in (h5l.TYPE_SOFT, h5l.TYPE_EXTERNAL):
            return LinkContent("user-defined", f"link class {form}")
        group, name = self._file.within(raw)
        value = group.links.get_val(name)
        if form == h5l.TYPE_SOFT:
            return LinkContent("soft", text_of(soft_target(raw, value)))
        file = os.fsdecode(value[0])
        location = os.path.abspath(os.path.join(os.path.dirname(self.source), file))
        return LinkContent("external", "/" + text_of(value[1]).strip("/"), file, location)

    def _attributes(self, node: Any) -> dict[str, AttributeContent]:
        found = {}
        for name, attribute in attribute_names(node):
            element, dtype, memory = _stored(attribute.get_type())
            if attribute.shape is None:
                found[name] = AttributeContent(element, None, None)
                continue
            values = read_values(attribute, dtype, memory)
            found[name] = AttributeContent(element, attribute.shape, plain_values(values, element, self._resolve))
        return found

    def _dataset(self, path: str, node: Any, attributes: Mapping[str, AttributeContent]) -> DatasetContent:
        check_other_files(node, os.path.abspath(self.source), path, None)
        dataset, creation, tid = h5py.Dataset(node), node.get_create_plist(), node.get_type()
        element, dtype, memory = _stored(tid)
        pipeline = filters_of(creation)

        def read(selection: Selection) -> Values:
            usable(pipeline)
            with reading(self.source, path, node):
                check_allocated(dataset, ReadOptions())
                values = read_block(node, [(part.start, part.stop) for part in selection], dtype, memory)
                return plain_values(values, element, self._resolve)

        return DatasetContent(
            attributes=attributes,
            dtype=element,
            shape=dataset.shape,
            maxshape=dataset.maxshape,
            chunks=dataset.chunks,
            layout=_layout_of(creation),
            filters=tuple(hdf5_filter(code, tuple(options), tid.get_size()) for code, _, options in pipeline),
            fill=self._fill(creation, element, dtype),
            read=read,
        )

    def _fill(self, creation: Any, element: Element, dtype: np.dtype[Any]) -> Values | None:
        defined = creation.fill_value_defined()
        is_own = defined == h5d.FILL_VALUE_USER_DEFINED
        if defined == h5d.FILL_VALUE_UNDEFINED or (is_own and isinstance(element, (ArrayOf, Sequence))):
            return None  # h5py cannot read fill values of arrays and sequences
        return plain_values(stored_fill(creation, dtype, is_text=isinstance(element, Text)), element, self._resolve)

    def _resolve(self, reference: Any) -> Target:
        if not reference:
            return Target(None)
        try:
            target = h5r.dereference(reference, self._file.file.id)
            info = h5o.get_info(target)
            path = self._addresses.get((info.fileno, info.addr), "<unlinked>")
            if not isinstance(reference, h5py.RegionReference):
                return Target(path)
            space = h5r.get_region(reference, self._file.file.id)
            return Target(path, canonical_region(encode_region(space), space.shape))
        except H5_ERRORS:
            return Target("<dangling>")


def _stored(tid: Any) -> tuple[Element, np.dtype[Any], Any]:
    """Return an HDF5 type as `Element`, as NumPy type and as memory type; raw bytes if NumPy has no such type."""
    try:
        element, dtype = from_hdf5(tid), numpy_type(tid)
    except ValueRefusedError:
        size = tid.get_size()
        return Opaque(size, f"HDF5 type class {tid.get_class()}"), np.dtype(f"V{size}"), tid
    if dtype.kind == "c" and isinstance(element, Compound):  # of floats with a custom layout
        element = Number("complex", tid.get_size())
    return element, dtype, memory_type(tid, writing=False)


def _layout_of(creation: Any) -> tuple[str, ...]:
    """Return how a dataset is stored, with the names of other files that hold its values."""
    names = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked", h5d.VIRTUAL: "virtual"}
    layout = creation.get_layout()
    files: Iterable[Any] = ()
    if layout == h5d.VIRTUAL:
        sources = range(creation.get_virtual_count())
        files = ((creation.get_virtual_filename(n), creation.get_virtual_dsetname(n)) for n in sources)
    elif layout == h5d.CONTIGUOUS:
        files = map(creation.get_external, range(creation.get_external_count()))
    return (names[layout], *(":".join(map(str, file)) for file in files))
