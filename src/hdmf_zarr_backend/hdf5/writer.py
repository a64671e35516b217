"""Zarr file -> HDF5 file, straight: every node with its type, layout and attributes, values block by block.

Objects come first, then links, then attributes (which may refer to any object), then values, so that what cannot be
written is found before the bulk of the data is touched.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from hdmf.backends.warnings import BrokenLinkWarning

from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.hdf5.attributes import LargeAttributeError, refusing, write_attribute
from hdmf_zarr_backend.hdf5.blocks import block_slices
from hdmf_zarr_backend.hdf5.creation import creation_list
from hdmf_zarr_backend.hdf5.elements import Elements, elements_of
from hdmf_zarr_backend.hdf5.placement import HDF5, Placed, Placement, ZarrFile, hdf5_note
from hdmf_zarr_backend.hdf5.regions import decode_region
from hdmf_zarr_backend.hdf5.types import OBJECT, REGION, TypeJSON, decode_type, memory_type
from hdmf_zarr_backend.hdf5.values import Array, decode, decode_text, fill_array
from hdmf_zarr_backend.mapping.attributes import decode_attributes
from hdmf_zarr_backend.mapping.references import Reference, decode_attribute_reference, decode_reference
from hdmf_zarr_backend.mapping.reserved import SPECLOC, notes_of
from hdmf_zarr_backend.mapping.specloc import spec_location
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, absolute
from hdmf_zarr_backend.storage.chunks import ChunkCache, ChunkReader

_CACHE_BYTES = 8 * 2**20  # blocks are whole chunks of Zarr nearly always, so that few are needed twice


class Hdf5Writer:
    """Writes what is in a Zarr file to a new HDF5 file.

    Parameters
    ----------
    path : str
        Where the HDF5 file is written; it must not exist.
    placement : Placement
        What goes where.
    typed : dict
        ``{path: {name: value}}`` of attributes of the main file whose types are known from elsewhere.
    advance : callable
        Is told path and bytes of each block that is written.
    """

    def __init__(
        self,
        path: str,
        placement: Placement,
        *,
        typed: Mapping[str, Mapping[str, Any]] | None = None,
        advance: Callable[[str, int], None] = lambda path, done: None,
    ) -> None:
        self._path = path
        self._placement = placement
        self._typed = typed or {}
        self._advance = advance
        self._file: Any = None
        self._caches: dict[str, ChunkCache] = {}
        self._references: dict[str, Any] = {}

    def write(self) -> None:
        """Write everything.

        Raises
        ------
        ZarrBackendError
            Something cannot be read, or has no form in HDF5; store and node are named.
        """
        try:
            self._write(None)
        except LargeAttributeError:  # only files that HDF5 before 1.8 cannot read have room for it
            self._write(("v108", "latest"))

    def _write(self, version: tuple[str, str] | None) -> None:
        import h5py

        self._references.clear()
        with h5py.File(self._path, "w", libver=version) as file:
            self._file = file.id
            planned = [(placed, self._create(placed)) for placed in self._placement.nodes]
            self._create_links()
            for placed, _ in planned:
                self._attributes(placed, is_roomy=version is not None)
            for placed, elements in planned:
                if elements is not None:
                    with _named(placed):
                        self._values(placed, elements)

    # ---- objects and links ------------------------------------------------------------------------------------------

    def _create(self, placed: Placed) -> Elements | None:
        """Make a group, or a dataset without values, and return what its elements are."""
        from h5py import h5g

        with _named(placed):
            if isinstance(placed.node, GroupNode):
                if placed.path:
                    h5g.create(self._file, _raw(placed.path), lcpl=_link_creation())
                self._create_types(placed)
                return None
            return self._create_dataset(placed, placed.node)

    def _create_types(self, placed: Placed) -> None:
        for name, note in _dict(hdf5_note(placed.node).get("datatypes")).items():
            tid = decode_type(note.get("type"))
            tid.commit(self._file, _raw(f"{placed.path}/{name}"), _link_creation())

    def _create_dataset(self, placed: Placed, node: ArrayNode[Attributes]) -> Elements:
        from h5py import h5d, h5s

        notes = notes_of(node.attributes)
        note = notes[HDF5] if isinstance(notes.get(HDF5), dict) else None
        elements = _noted(elements_of(node, notes), note or {})
        if _is_specification(placed):
            elements.shape = elements.shape if note is not None else ()
        tid = decode_type(elements.type)
        shape = elements.shape
        maxshape = _maxshape(notes.get("maxshape"), shape)
        properties = creation_list(node, note, elements.type, tid, shape, maxshape)
        if note is not None and note.get("null") and 0 in node.shape:
            space = h5s.create(h5s.NULL)
        elif shape:
            space = h5s.create_simple(shape, tuple(h5s.UNLIMITED if n is None else n for n in maxshape))
        else:
            space = h5s.create(h5s.SCALAR)
        with refusing():
            h5d.create(self._file, _raw(placed.path), tid, space, properties, lcpl=_link_creation())
        return elements

    def _create_links(self) -> None:
        from h5py import h5g

        root = h5g.open(self._file, b"/")
        links = root.links
        creation = _link_creation()
        for link in self._placement.links:
            if link.form == "hard":
                links.create_hard(_raw(link.path), root, _raw(link.target), lcpl=creation)
            elif link.form == "soft":
                links.create_soft(_raw(link.path), link.target.encode("utf-8", "surrogateescape"), creation)
            else:
                links.create_external(_raw(link.path), os.fsencode(link.file), _raw(link.target), creation)

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, placed: Placed, *, is_roomy: bool) -> None:
        from h5py import h5o

        with _named(placed):
            note = hdf5_note(placed.node)
            remarks = _dict(note.get("attributes"))
            values = decode_attributes(placed.node.attributes, resolve=decode_attribute_reference)
            if placed.file is self._placement.main:
                values.update(self._typed.get(placed.own, {}))
            if not placed.path:
                self._add_specloc(placed, values)
            values.update({name: None for name, remark in remarks.items() if "value" in remark})
            here = h5o.open(self._file, _raw(placed.path))
            for name, value in values.items():
                self._attribute(here, name, value, _dict(remarks.get(name)), placed.file, is_roomy=is_roomy)
            for name, datatype in _dict(note.get("datatypes")).items():
                named = h5o.open(self._file, _raw(f"{placed.path}/{name}"))
                for key, remark in _dict(datatype.get("attributes")).items():
                    self._attribute(named, key, None, remark, placed.file, is_roomy=is_roomy)

    def _attribute(
        self, here: Any, name: str, value: Any, remark: dict[str, Any], file: ZarrFile, *, is_roomy: bool
    ) -> None:
        write_attribute(here, name, value, remark, lambda reference: self._refer(reference, file), is_roomy=is_roomy)

    def _add_specloc(self, placed: Placed, values: dict[str, Any]) -> None:
        location = spec_location(placed.node.attributes.get(SPECLOC))
        if location is not None and location in placed.file.hierarchy:
            values[SPECLOC] = Reference(".", location)

    def _refer(self, reference: Reference, file: ZarrFile) -> Any:
        """Return an h5py reference; a null reference, with a warning, where the target is not in the new file."""
        from h5py import h5d, h5r

        place = self._placement.place_of(reference, file)
        if place is None:
            warnings.warn(
                f"A reference in {file.location} leads to {reference.source}:{reference.path}, which is not in the "
                f"new file; HDF5 references cannot leave their file.",
                BrokenLinkWarning,
                stacklevel=2,
            )
            return None
        if reference.region is not None:
            space = h5d.open(self._file, _raw(place)).get_space()
            decode_region(reference.region, space)
            return h5r.create(self._file, _raw(place), h5r.DATASET_REGION, space)
        if place not in self._references:
            self._references[place] = h5r.create(self._file, _raw(place), h5r.OBJECT)
        return self._references[place]

    # ---- values -----------------------------------------------------------------------------------------------------

    def _values(self, placed: Placed, elements: Elements) -> None:
        from h5py import h5d, h5s

        node = placed.node
        assert isinstance(node, ArrayNode)
        if not node.size:
            return
        dataset = h5d.open(self._file, _raw(placed.path))
        tid = dataset.get_type()
        memory = memory_type(tid, writing=True)
        cache = self._caches.setdefault(placed.file.location, ChunkCache(_CACHE_BYTES))
        reader = ChunkReader(placed.file.keys, placed.own, node, cache)
        convert = _Conversion(elements, tid, lambda value: self._refer_json(value, placed.file))
        inner = len(node.shape) - len(elements.shape)
        for region in block_slices(node, elements.shape, _chunks_of(dataset)):
            lengths = tuple(part.stop - part.start for part in region)
            block = reader.read((*region, *[slice(None)] * inner) if elements.shape else ())
            values = np.ascontiguousarray(convert(block, lengths))
            with refusing():
                if lengths:
                    space = dataset.get_space()
                    space.select_hyperslab(tuple(part.start for part in region), lengths)
                    dataset.write(h5s.create_simple(lengths), space, values, memory)
                else:
                    dataset.write(h5s.ALL, h5s.ALL, values.reshape(tid.dtype.shape), memory)
            self._advance(absolute(placed.path), block.nbytes)
        cache.forget(placed.own)

    def _refer_json(self, value: Any, file: ZarrFile) -> Any:
        return None if value is None else self._refer(decode_reference(value), file)


class _Conversion:
    """Makes the memory of a dataset out of what the chunks of an array hold."""

    def __init__(self, elements: Elements, tid: Any, refer: Any) -> None:
        self._form = elements.form
        self._kind: TypeJSON = elements.type
        self._dtype: np.dtype[Any] = tid.dtype
        self._refer = refer

    def __call__(self, block: Array, shape: tuple[int, ...]) -> Array:
        """Return a block of the dataset.

        Raises
        ------
        MetadataError
            What is stored does not fit the type.
        """
        try:
            if self._form == "rows":
                return self._rows(block, shape)
            if self._form == "objects" and self._kind in (OBJECT, REGION):
                return fill_array([self._refer(item) for item in block.flat], shape, self._dtype)
            if self._form == "objects":
                return fill_array([_text(item) for item in block.flat], shape, self._dtype)
            return self._plain(block, shape)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
            if isinstance(error, ZarrBackendError):
                raise
            raise MetadataError(
                f"the values do not fit the type {self._kind!r} ({error})", remedy="Run `zarrio verify` on the file."
            ) from error

    def _plain(self, block: Array, shape: tuple[int, ...]) -> Array:
        base = self._dtype.base
        if base.names is not None and block.dtype != base:
            packed: Array = np.zeros(block.shape, base)
            for name in base.names:
                packed[name] = block[name]
            block = packed
        return block.astype(base, copy=False).reshape((*shape, *self._dtype.shape))

    def _rows(self, block: Array, shape: tuple[int, ...]) -> Array:
        fields = self._kind["fields"]  # type: ignore[index]
        rows = (
            block.reshape(-1, len(fields)) if block.dtype == object and block.ndim > len(shape) else block.reshape(-1)
        )
        made: Array = np.empty(len(rows), self._dtype)
        for column, (name, kind) in enumerate(fields):
            values = [decode(row[column], kind, self._dtype[name], self._refer) for row in rows]
            made[name] = fill_array(values, (len(rows),), self._dtype[name])
        return made.reshape(shape)


def _text(item: Any) -> bytes:
    if isinstance(item, (str, bytes)):
        return decode_text(item)
    raise TypeError(f"{item!r} stands where text is expected")


def _noted(elements: Elements, note: dict[str, Any]) -> Elements:
    """Return the elements with the type that is noted, as long as that fits what is stored."""
    noted = note.get("type")
    if noted is None:
        return elements
    stored, wanted = decode_type(elements.type).dtype, decode_type(noted).dtype
    if elements.form == "objects":
        fits = (elements.type in (OBJECT, REGION)) == (noted in (OBJECT, REGION))
    elif stored.names is not None:
        fits = stored.names == wanted.names
    else:
        fits = stored.newbyteorder("=") == wanted.base.newbyteorder("=")
    if not fits:
        return elements
    inner = len(wanted.shape) if elements.form == "plain" else 0
    return Elements(elements.form, noted, elements.shape[: len(elements.shape) - inner])


def _maxshape(noted: Any, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """Return the largest shape; the one that is noted may have been written with axes that an element has itself."""
    if not isinstance(noted, list) or len(noted) < len(shape):
        return shape
    return tuple(None if bound is None else max(int(bound), n) for n, bound in zip(shape, noted, strict=False))


def _is_specification(placed: Placed) -> bool:
    location = spec_location(placed.file.hierarchy.root.attributes.get(SPECLOC))
    return (
        location is not None
        and placed.own.startswith(f"{location}/")
        and math.prod(getattr(placed.node, "shape", ())) == 1
    )


def _chunks_of(dataset: Any) -> tuple[int, ...] | None:
    from h5py import h5d

    properties = dataset.get_create_plist()
    return tuple(properties.get_chunk()) if properties.get_layout() == h5d.CHUNKED else None


def _raw(path: str) -> bytes:
    return absolute(path).encode("utf-8", "surrogateescape")


def _link_creation() -> Any:
    from h5py import h5p, h5t

    properties = h5p.create(h5p.LINK_CREATE)
    properties.set_char_encoding(h5t.CSET_UTF8)
    return properties


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


@contextmanager
def _named(placed: Placed) -> Iterator[None]:
    """Name the node where something goes wrong."""
    path = absolute(placed.own)
    try:
        yield
    except ZarrBackendError as error:
        raise error.located(store=placed.file.location, path=path) from error.__cause__
    except OSError as error:
        error.add_note(f"while writing {path!r} of {placed.file.location!r}")
        raise
