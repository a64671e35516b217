"""Values of HDF5 files: `Hdf5Data` of a dataset, `Hdf5References` of references, `Hdf5Content` of all for comparing.

Values are read block by block, in NumPy's layout of their type. h5py's own indexing cannot read all types (such as
opaque data with a tag), keeps each dataset open, and does not name file and dataset in errors.

A reference to an object is its address in the file. A dataset of references is read as numbers, and each distinct
target is looked up once. Only a target that is not placed in the new file is opened.

Source: HDF5 reference manual, "Dataspaces".
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import h5py
import numpy as np
from h5py import h5d, h5i, h5l, h5o, h5r, h5s, h5t

from hdmf_zarr_backend.encoding.hdf5_types import from_hdf5, raw_of, text_of
from hdmf_zarr_backend.encoding.hdf5_values import Array, plain_values
from hdmf_zarr_backend.encoding.references import ZarrReference, encode_reference
from hdmf_zarr_backend.errors import LinkRefusedError, MetadataError, ValueRefusedError
from hdmf_zarr_backend.hdf5 import files
from hdmf_zarr_backend.hdf5.attributes import (
    attribute_names,
    memory_type,
    numpy_type,
    parts_of,
    read_values,
    storable_type,
)
from hdmf_zarr_backend.hdf5.datasets import stored_fill
from hdmf_zarr_backend.hdf5.filters import check_chunks, filters_of, usable
from hdmf_zarr_backend.hdf5.tree import Hdf5Tree, address_of, holds, soft_target
from hdmf_zarr_backend.model import content
from hdmf_zarr_backend.model.element import (
    DANGLING,
    ArrayOf,
    Compound,
    Element,
    Number,
    Opaque,
    Sequence,
    Target,
    Text,
    Unknown,
)
from hdmf_zarr_backend.model.links import is_url, relative_source
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.options import ReadOptions

Bounds: TypeAlias = list[tuple[int, int]]
_LAYOUTS = {h5d.COMPACT: "compact", h5d.CONTIGUOUS: "contiguous", h5d.CHUNKED: "chunked", h5d.VIRTUAL: "virtual"}


class Hdf5Data:
    """The values of a dataset, read block by block, with references as JSON; ``shape`` has the axes of elements too."""

    def __init__(self, file: files.SourceFile, raw: bytes, references: Hdf5References) -> None:
        self._file, self._raw, self._references = file, raw, references
        node = file.open(raw)
        tid = node.get_type()
        storable_type(tid)  # raises an error for types that NumPy lacks
        usable(filters_of(node.get_create_plist()))  # registers those of hdf5plugin that are needed
        self._dtype = numpy_type(tid)
        self.shape: tuple[int, ...] | None = None if node.shape is None else (*map(int, node.shape), *self._dtype.shape)

    @property
    def name(self) -> str:
        """File and path, for messages."""
        return f"{self._file.location}, {text_of(self._raw)}"

    def __getitem__(self, key: Any) -> Any:
        """Return a block, or the value of a scalar dataset."""
        if isinstance(key, int):
            return self[key : key + 1][0]
        shape = self.shape or ()
        given = key if isinstance(key, tuple) else (key,)
        # h5py's own indexing cannot read all types, such as opaque data with a tag
        slices = [part.indices(length) for part, length in zip(given, shape, strict=False)]
        bounds = [(start, max(start, stop)) for start, stop, _ in slices] + [(0, n) for n in shape[len(given) :]]
        outer = len(shape) - len(self._dtype.shape)
        with files.reading(self._file.location, text_of(self._raw), self._file.open(self._raw)):
            values = self._read(bounds[:outer])
        inner: tuple[Any, ...] = tuple(slice(start, stop) for start, stop in bounds[outer:])
        values = values[(..., *inner)]
        return values if values.ndim else values[()]

    def _read(self, bounds: Bounds) -> Array:
        node = self._file.open(self._raw)
        tid = node.get_type()

        def encoded(memory: Any) -> Array | None:
            # read as numbers: h5py would make an object of each reference, and open its target
            addresses = read_block(node, bounds, np.dtype("<u8"), memory)
            return self._references.encode_addresses(addresses, self._file)

        if tid.equal(h5t.STD_REF_OBJ) and (references := encoded(tid)) is not None:
            return references
        values = read_block(node, bounds, self._dtype, memory_type(tid, writing=False))
        for index in range(tid.get_nmembers()) if tid.get_class() == h5t.COMPOUND else ():
            member = tid.get_member_type(index)
            if member.equal(h5t.STD_REF_OBJ):
                memory = h5t.create(h5t.COMPOUND, member.get_size())
                memory.insert(tid.get_member_name(index), 0, member)
                if (references := encoded(memory)) is not None:
                    values[text_of(tid.get_member_name(index))] = references
        return values


def read_block(node: Any, bounds: Bounds, dtype: np.dtype[Any], memory: Any) -> Array:
    """Return a block of a dataset as an array."""
    lengths = tuple(stop - start for start, stop in bounds)
    values: Array = np.zeros(lengths, dtype)
    if not values.size:
        return values
    check_chunks(node, bounds)  # the filters of plugins do not notice a chunk that is cut off
    if not lengths:
        node.read(h5s.ALL, h5s.ALL, values, memory)
        return values
    space = node.get_space()
    space.select_hyperslab(tuple(start for start, _ in bounds), lengths)
    node.read(h5s.create_simple(lengths), space, values, memory)
    return values


# ---- references ------------------------------------------------------------------------------------------------------


def _dereferenced(reference: Any, file: files.SourceFile) -> tuple[Any, files.Address, Any]:
    """Return the target of an h5py reference, its address, and the dataspace with its region, None without one."""
    target = h5r.dereference(reference, file.file.id)
    info = h5o.get_info(target)
    is_region = isinstance(reference, h5py.RegionReference)
    return target, (info.fileno, info.addr), h5r.get_region(reference, file.file.id) if is_region else None


class Hdf5References:
    """The references of a file, and of the files that it links to."""

    def __init__(self, tree: Hdf5Tree) -> None:
        self._tree = tree

    def refer(self, reference: Any, file: files.SourceFile) -> ZarrReference | None:
        """Return the target of an h5py reference in ``file``, None for a null one, or one without a target."""
        if not reference or isinstance(reference, ZarrReference):
            return reference or None
        try:
            target, address, space = _dereferenced(reference, file)
            region = None if space is None else encode_region(space)
        except files.H5_ERRORS as error:
            files.warn_broken(f"A reference in {file.location} has no target ({error}).")
            return None
        placed = self._tree.places.get(address)
        if placed is not None:
            result = self._tree.reference_to(placed)
        else:  # the reference names the HDF5 file
            name = h5i.get_name(target)
            files.warn_broken(f"A reference points to {name!r} in {file.location}, which is not part of the new file.")
            source = relative_source(file.location, self._tree.target)
            result = ZarrReference(source, absolute(text_of(name or b"/")))
        return result if region is None else replace(result, region=region)

    def encode(self, value: Any, file: files.SourceFile) -> dict[str, Any] | None:
        """Return the JSON of an element that is an h5py reference; JSON is returned as it is."""
        if value is None or isinstance(value, dict):
            return value
        reference = self.refer(value, file)
        return None if reference is None else encode_reference(reference)

    def encode_addresses(self, addresses: Array, file: files.SourceFile) -> Array | None:
        """Return the JSON of references given as addresses, None if one of them has no placed target."""
        # A dataset may have millions of references to a few targets, so each target is looked up and encoded once.
        number = h5o.get_info(file.file.id).fileno
        distinct, inverse = np.unique(addresses, return_inverse=True)
        table: Array = np.empty(len(distinct), object)
        for position, address in enumerate(distinct.tolist()):
            if address:
                placed = self._tree.places.get((number, address))
                if placed is None:
                    return None
                table[position] = encode_reference(self._tree.reference_to(placed))
        return np.asarray(table[inverse.reshape(-1)].reshape(addresses.shape))


# ---- regions ---------------------------------------------------------------------------------------------------------
# A region that is a product of axes has one entry for each axis, ``{"slice": [start, stop, step]}`` or ``{"index":
# [...]}``; any other is ``{"points": [[...], ...]}``, in the order of the file.


def encode_region(space: Any) -> Any:
    """Return the JSON of the selection of an ``h5py.h5s.SpaceID``."""
    form = space.get_select_type()
    if form == h5s.SEL_ALL:
        return [{"slice": [0, int(n), 1]} for n in space.shape]
    if form == h5s.SEL_NONE:
        return [{"index": []} for _ in space.shape]
    if form == h5s.SEL_POINTS:
        return {"points": np.asarray(space.get_select_elem_pointlist()).tolist()}
    if space.is_regular_hyperslab():
        entries: list[dict[str, list[int]]] = []
        for axis in zip(*space.get_regular_hyperslab(), strict=True):
            start, stride, count, block = map(int, axis)
            if count == 1 or stride == block:
                entries.append({"slice": [start, start + count * block, 1]})
            elif block == 1:
                entries.append({"slice": [start, start + (count - 1) * stride + 1, stride]})
            else:
                entries.append({"index": [start + i * stride + j for i in range(count) for j in range(block)]})
        return entries
    blocks = np.asarray(space.get_select_hyper_blocklist(), dtype=np.int64)  # first and last corner of each
    axes = [sorted({i for low, high in blocks[:, :, axis].tolist() for i in range(low, high + 1)})
            for axis in range(blocks.shape[2])]  # fmt: skip
    # HDF5's blocks do not overlap, so the selection is the product of its axes if it has as many elements
    if math.prod(map(len, axes)) == int(np.prod(blocks[:, 1] - blocks[:, 0] + 1, axis=1).sum()):
        pairs = ((axis, content.even_slice(axis)) for axis in axes)
        return [{"index": axis} if even is None else {"slice": list(even)} for axis, even in pairs]
    points = {tuple(low + step) for low, high in blocks for step in np.ndindex(*(high - low + 1))}
    return {"points": sorted([int(n) for n in point] for point in points)}


def decode_region(region: Any, space: Any) -> None:
    """Select in ``space``, the dataspace of the target, the elements that the JSON of a region lists."""
    try:
        if isinstance(region, dict):
            points = np.asarray(region["points"], dtype=np.uint64)
            space.select_elements(points.reshape(len(points), len(space.shape)))
        elif len(region) != len(space.shape):
            raise ValueError(f"{len(region)} entries for {len(space.shape)} axes")
        elif region:
            runs = [_runs(entry, int(n)) for entry, n in zip(region, space.shape, strict=True)]
            space.select_none()
            for part in itertools.product(*runs):
                start, count, stride, block = zip(*part, strict=True)
                space.select_hyperslab(start, count, stride, block, op=h5s.SELECT_OR)
        else:
            space.select_all()
        if not space.select_valid():
            raise IndexError("it lies outside")
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, RuntimeError) as error:
        raise MetadataError(f"the region {region!r} does not fit its target ({error})") from error


def _runs(entry: Any, length: int) -> list[tuple[int, int, int, int]]:
    """Return start, count, stride and block of the hyperslabs of one axis."""
    if "slice" in entry:
        start, stop, step = slice(*entry["slice"]).indices(length)
        steps = range(start, stop, step)
        if not steps or step < 1:
            return []
        return [(start, 1, 1, stop - start) if step == 1 else (start, len(steps), step, 1)]
    indices = sorted({int(i) for i in entry["index"]})
    if indices and not 0 <= indices[0] <= indices[-1] < length:
        raise IndexError("an index is out of range")
    groups = itertools.groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0])
    runs = ([index for _, index in group] for _, group in groups)
    return [(run[0], 1, 1, len(run)) for run in runs]


# ---- content for comparing -------------------------------------------------------------------------------------------


class Hdf5Content(Mapping[str, content.NodeContent]):
    """`FileContent` of an HDF5 file, which stays open until `close`; objects are found depth first, sorted by name."""

    # An object with several hard links is a node at its first path and a link of form ``hard`` at the others, so
    # cycles end. Links are not followed.

    def __init__(self, path: str, options: Mapping[str, Any] | None = None, rules: ReadOptions | None = None) -> None:
        self.source = path
        self._rules = rules or ReadOptions()
        self._file = files.SourceFile(self.source, options)
        self._addresses: dict[tuple[int, int], str] = {}
        self._nodes: dict[str, content.LinkContent | None] = dict(self._walk())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)

    def __contains__(self, path: object) -> bool:  # that of Mapping reads all attributes
        return path in self._nodes

    def __getitem__(self, path: str) -> content.NodeContent:
        link = self._nodes[path]
        if link is not None:
            return link
        with files.reading(self.source, path):
            node = h5o.open(*self._file.within(raw_of(path)))
            attributes = self._attributes(node)
            if isinstance(node, h5d.DatasetID):
                return self._dataset(path, node, attributes)
            if isinstance(node, h5t.TypeID):
                return content.DatatypeContent(attributes, _stored(node)[0])
            return content.GroupContent(attributes)

    def _walk(self) -> Iterator[tuple[str, content.LinkContent | None]]:
        for raw, form, info in self._file.walk(b"/", self._addresses):
            path = text_of(raw)
            if info is None and form not in (h5l.TYPE_SOFT, h5l.TYPE_EXTERNAL):
                yield path, content.LinkContent("user-defined", f"link class {form}")
            elif info is None:
                group, name = self._file.within(raw)
                value = group.links.get_val(name)
                if form == h5l.TYPE_SOFT:
                    yield path, content.LinkContent("soft", text_of(soft_target(raw, value)))
                    continue
                file, target = os.fsdecode(value[0]), "/" + text_of(value[1]).strip("/")
                location, _ = files.external_link(file, self.source, self._rules.external_links)
                yield path, content.LinkContent("external", target, file, location)
            elif (info.fileno, info.addr) in self._addresses:
                yield path, content.LinkContent("hard", self._addresses[info.fileno, info.addr])
            else:
                if info.type == h5o.TYPE_GROUP:
                    files.check_depth(self._rules, self.source, path)
                self._addresses[info.fileno, info.addr] = path
                yield path, None

    def leads_somewhere(self, link: content.LinkContent) -> bool:
        """Tell whether the target of a link exists; raise an error for one in a file that may not be opened."""
        if not link.location:
            return link.form != "soft" or address_of(self._file, raw_of(link.target)) is not None
        _, problem = files.external_link(link.file, self.source, self._rules.external_links)
        if is_url(link.location):
            problem = problem or "other files at a URL are not opened"
        if problem:
            raise LinkRefusedError(f"{link.location!r} was not checked: {problem}", store=self.source)
        return holds(link.location, link.target)

    def is_written(self, path: str) -> bool:
        """Tell whether the values of a dataset were written, at least in part; else all are the fill value."""
        with files.reading(self.source, path):
            node = h5o.open(*self._file.within(raw_of(path)))
            created = node.get_create_plist()
            is_elsewhere = created.get_layout() == h5d.VIRTUAL or created.get_external_count()
            return bool(is_elsewhere or node.get_storage_size())

    def _attributes(self, node: Any) -> dict[str, content.AttributeContent]:
        attributes = {}
        for name, attribute in attribute_names(node):
            element, dtype, memory = _stored(attribute.get_type())
            shape, value = attribute.shape, None
            if shape is not None:
                value = plain_values(read_values(attribute, shape, dtype, memory), element, self._resolve)
            attributes[name] = content.AttributeContent(element, shape, value)
        return attributes

    def _dataset(
        self, path: str, node: Any, attributes: Mapping[str, content.AttributeContent]
    ) -> content.DatasetContent:
        files.check_other_files(node, self._file.location, path, self._rules.external_links)
        dataset, creation, tid = h5py.Dataset(node), node.get_create_plist(), node.get_type()
        element, dtype, memory = _stored(tid)
        pipeline = filters_of(creation)

        def read(selection: content.Selection) -> content.Values:
            usable(pipeline)
            with files.reading(self.source, path, node):
                files.check_allocated(dataset, self._rules)
                values = read_block(node, [(part.start, part.stop) for part in selection], dtype, memory)
                return plain_values(values, element, self._resolve)

        layout = creation.get_layout()
        others: Iterable[Any] = ()  # that hold the values
        if layout == h5d.VIRTUAL:
            sources = range(creation.get_virtual_count())
            others = ((creation.get_virtual_filename(n), creation.get_virtual_dsetname(n)) for n in sources)
        elif layout == h5d.CONTIGUOUS:
            others = map(creation.get_external, range(creation.get_external_count()))
        defined, fill = creation.fill_value_defined(), None
        # h5py cannot read fill values of all types
        is_unreadable = isinstance(element, (ArrayOf, Sequence, Unknown)) or (
            isinstance(element, Opaque) and element.tag
        )
        if defined == h5d.FILL_VALUE_DEFAULT or (defined == h5d.FILL_VALUE_USER_DEFINED and not is_unreadable):
            fill = plain_values(stored_fill(creation, dtype, is_text=isinstance(element, Text)), element, self._resolve)
        return content.DatasetContent(
            attributes=attributes,
            dtype=element,
            shape=dataset.shape,
            maxshape=dataset.maxshape,
            chunks=dataset.chunks,
            layout=(_LAYOUTS[layout], *(":".join(map(text_of, file)) for file in others)),
            filters=tuple(content.hdf5_filter(code, tuple(options), tid.get_size()) for code, _, options in pipeline),
            fill=fill,
            read=read,
        )

    def _resolve(self, reference: Any) -> Target:
        if not reference:
            return Target(None)
        try:
            _, address, space = _dereferenced(reference, self._file)
            region = None if space is None else content.canonical_region(encode_region(space), space.shape)
            return Target(self._addresses.get(address, "<unlinked>"), region)
        except files.H5_ERRORS:
            return Target(DANGLING)


def _stored(tid: Any) -> tuple[Element, np.dtype[Any], Any]:
    """Return an HDF5 type as `Element`, as NumPy type and as memory type; raw bytes if NumPy has no such type."""
    try:
        element, dtype = from_hdf5(tid), numpy_type(tid)
    except ValueRefusedError as error:
        size, parts = tid.get_size(), list(parts_of(tid))
        element = Opaque(size, f"HDF5 type class {tid.get_class()}")
        is_text = any(part.get_class() == h5t.STRING and part.is_variable_str() for part in parts)
        if is_text or {h5t.VLEN, h5t.REFERENCE} & {part.get_class() for part in parts}:  # its bytes are addresses
            element = Unknown(f"{error.problem}. {error.remedy}")
        return element, np.dtype(f"V{size}"), tid
    if dtype.kind == "c" and isinstance(element, Compound):  # of floats with a custom layout
        element = Number("complex", tid.get_size())
    return element, dtype, memory_type(tid, writing=False)
