"""`Hdf5Writer`: Zarr file -> HDF5 file, each node with its type, layout and attributes. `filling` writes the values.

Objects are written first, then links, then attributes (which may refer to any object), then values, so that most errors
occur before large data are written.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import h5py
from h5py import h5d, h5f, h5fd, h5g, h5o, h5p, h5r, h5s, h5t

from hdmf_zarr_backend.errors import MissingTargetError, NameRefusedError
from hdmf_zarr_backend.formats.attributes import decode_attributes
from hdmf_zarr_backend.formats.links import LinkedFile
from hdmf_zarr_backend.formats.namespaces import spec_location
from hdmf_zarr_backend.formats.references import Reference, decode_attribute_reference
from hdmf_zarr_backend.formats.reserved import SPECLOC, as_dict, notes_of
from hdmf_zarr_backend.hdf5.attributes import (
    ATTRIBUTE_ORDER,
    LINK_ORDER,
    AttributeWriter,
    NewerFormatNeededError,
    in_order,
    order_links,
    refusing,
    set_orders,
)
from hdmf_zarr_backend.hdf5.datasets import DatasetForm, creation_list, dataset_form
from hdmf_zarr_backend.hdf5.filling import Filler, named, writing_at
from hdmf_zarr_backend.hdf5.placement import HDF5, Placed, Placement, hdf5_note
from hdmf_zarr_backend.hdf5.reader import OpenGroups
from hdmf_zarr_backend.hdf5.references import decode_region
from hdmf_zarr_backend.hdf5.safe_reading import warn_broken
from hdmf_zarr_backend.hdf5.types import decode_type, is_sparse, raw_of
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, absolute
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.stores.files import NO_LINKS

_MANY_ATTRIBUTES = 1000
"""With more attributes on one object, the format of HDF5 1.8 is used; before it, adding one goes through all."""


class Hdf5Writer:
    """Writes the content of a Zarr file to a new HDF5 file."""

    def __init__(
        self,
        path: str,
        placement: Placement,
        *,
        typed: Mapping[str, Mapping[str, Any]] | None = None,
        allows_null: bool = True,
        options: WriteOptions | None = None,
    ) -> None:
        self._path = path
        self._placement = placement
        self._typed = typed or {}
        self._allows_null = allows_null
        self._options = options or WriteOptions()
        self._file: Any = None
        self._groups: OpenGroups
        self._output: Any = None
        self._is_new = False
        self._types: set[bytes] = set()
        self._references: dict[str, Any] = {}

    def write(self) -> None:
        """Write everything."""
        try:
            self._write(is_new=False)
        except NewerFormatNeededError:  # HDF5 before 1.8 cannot read the newer format, so it is the second choice
            self._write(is_new=True)

    def _write(self, *, is_new: bool) -> None:
        self._references.clear()
        self._types.clear()
        self._is_new = is_new
        nodes = self._placement.nodes
        if any("datatypes" in hdf5_note(placed.node) for placed in nodes):  # named types before datasets that use them
            nodes = sorted(nodes, key=lambda placed: isinstance(placed.node, Dataset))
        # the second attempt replaces the file of the first one, and no other file is ever replaced
        with OutputFile(self._path, exclusive=not is_new) as output, h5py.File(self._create_file(output)) as file:
            self._file, self._output = file.id, output
            self._groups = OpenGroups(file.id)
            planned = [(placed, self._create(placed)) for placed in nodes]
            self._create_links()
            for placed, _ in planned:
                self._attributes(placed)
            filler = Filler(self._groups, self._refer, self._options, self._advanced)
            filler.fill([(placed, form) for placed, form in planned if form is not None])

    def _create_file(self, output: OutputFile) -> Any:
        access, creation = h5p.create(h5p.FILE_ACCESS), h5p.create(h5p.FILE_CREATE)
        access.set_fclose_degree(h5f.CLOSE_STRONG)
        access.set_libver_bounds(h5f.LIBVER_V18 if self._is_new else h5f.LIBVER_EARLIEST, h5f.LIBVER_LATEST)
        set_orders(creation, hdf5_note(self._placement.main.hierarchy.root))
        access.set_fileobj_driver(h5fd.fileobj_driver, output)
        return h5f.create(os.fsencode(self._path), h5f.ACC_TRUNC, creation, access)

    def _advanced(self, path: str, done: int) -> None:
        self._output.check()
        self._options.progress.advance(path, done)

    def _within(self, path: str) -> tuple[Any, bytes]:
        """Return the open parent group of an object in the new file, and its name in that group."""
        return self._groups.within(_raw(path))

    # ---- objects and links ------------------------------------------------------------------------------------------

    def _create(self, placed: Placed) -> DatasetForm | None:
        """Create a group, or a dataset without values; return the form of a dataset."""
        self._output.check()
        with named(placed), refusing():
            if isinstance(placed.node, Group):
                if placed.path:
                    creation = h5p.create(h5p.GROUP_CREATE)
                    set_orders(creation, hdf5_note(placed.node))
                    h5g.create(*self._within(placed.path), lcpl=_link_creation(), gcpl=creation)
                self._create_types(placed)
                return None
            return self._create_dataset(placed, placed.node)

    def _create_types(self, placed: Placed) -> None:
        for name, note in as_dict(hdf5_note(placed.node).get("datatypes")).items():
            tid = self._checked(decode_type(as_dict(note).get("type"))).copy()  # predefined types cannot be named
            path = _member(placed.path, name)
            tid.commit(*self._groups.within(path), _link_creation())
            self._types.add(path)

    def _create_dataset(self, placed: Placed, node: Dataset[Attributes]) -> DatasetForm:
        notes = notes_of(node.attributes)
        note = notes[HDF5] if isinstance(notes.get(HDF5), dict) else None
        form = dataset_form(node, is_spec=_is_specification(placed))
        tid = self._named_type((note or {}).get("named"), self._checked(decode_type(form.type)))
        shape = form.shape
        maxshape = _maxshape(notes.get("maxshape"), shape)
        properties = creation_list(node.stored, note, form.type, tid, shape, maxshape)
        if note is not None and note.get("null") and 0 in node.stored.shape:
            space = h5s.create(h5s.NULL)
        elif shape:
            space = h5s.create_simple(shape, tuple(h5s.UNLIMITED if n is None else n for n in maxshape))
        else:
            space = h5s.create(h5s.SCALAR)
        h5d.create(*self._within(placed.path), tid, space, properties, lcpl=_link_creation())
        return form

    def _checked(self, tid: Any) -> Any:
        """Return a type if the format version of the file can store it."""
        if is_sparse(tid) and not self._is_new:
            raise NewerFormatNeededError
        return tid

    def _named_type(self, path: Any, tid: Any) -> Any:
        """Return the named type at ``path`` if it equals ``tid``, else ``tid``."""
        if not isinstance(path, str) or _raw(path) not in self._types:
            return tid
        found = h5o.open(*self._within(path))
        return found if isinstance(found, h5t.TypeID) and found.equal(tid) else tid

    def _create_links(self) -> None:
        root = h5g.open(self._file, b"/")
        creation = _link_creation()
        for link in self._placement.links:
            with writing_at(self._placement.main.location, absolute(link.path)), refusing("this link"):
                group, name = self._within(link.path)
                if link.form == "hard":
                    group.links.create_hard(name, root, _raw(link.target), lcpl=creation)
                elif link.form == "soft":
                    group.links.create_soft(name, _bytes(link.target), creation)
                else:
                    group.links.create_external(name, _bytes(link.file), _raw(link.target), creation)
        for placed in self._placement.nodes:
            if LINK_ORDER in (note := hdf5_note(placed.node)):
                order_links(h5g.open(*self._within(placed.path)), note, creation)

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, placed: Placed) -> None:
        self._output.check()
        with named(placed), refusing():
            note = hdf5_note(placed.node)
            remarks = as_dict(note.get("attributes"))
            values = decode_attributes(placed.node.attributes, resolve=decode_attribute_reference)
            if placed.file is self._placement.main:
                values.update(self._typed.get(placed.own, {}))
            if not placed.path:
                self._add_specloc(placed, values)
            values.update({name: None for name, remark in remarks.items() if "value" in as_dict(remark)})
            here = h5o.open(*self._within(placed.path))
            self._check_number(values)
            for name in in_order(values, note, ATTRIBUTE_ORDER):
                self._attribute(here, name, values[name], as_dict(remarks.get(name)), placed.file)
            for name, datatype in as_dict(note.get("datatypes")).items():
                datatype_id = h5o.open(*self._groups.within(_member(placed.path, name)))
                noted = as_dict(as_dict(datatype).get("attributes"))
                self._check_number(noted)
                for key, remark in noted.items():
                    self._attribute(datatype_id, key, None, as_dict(remark), placed.file)

    def _check_number(self, attributes: Mapping[str, Any]) -> None:
        if len(attributes) > _MANY_ATTRIBUTES and not self._is_new:
            raise NewerFormatNeededError

    def _attribute(self, here: Any, name: str, value: Any, remark: dict[str, Any], file: LinkedFile) -> None:
        writer = AttributeWriter(self._is_new, self._named_type)
        writer.write(here, name, value, remark, lambda reference: self._refer(reference, file))

    def _add_specloc(self, placed: Placed, values: dict[str, Any]) -> None:
        location = spec_location(placed.node.attributes.get(SPECLOC))
        if location is not None and location in placed.file.hierarchy:
            values[SPECLOC] = Reference(".", location)

    def _refer(self, reference: Reference, file: LinkedFile) -> Any:
        """Return an h5py reference; with a warning a null reference, if the target is not in the new file."""
        place = self._placement.place_of(reference, file)
        if place is None:
            other = None if self._allows_null else self._placement.file_of(reference, file)
            if other is not None:
                first = (
                    f"Convert {other} first, to an HDF5 file of the same name beside the target: links then lead to "
                    "that file, and nothing of it is copied."
                )
                raise MissingTargetError(
                    f"a reference leads to {reference.path} of {other}, which is not copied, and HDF5 references "
                    "cannot leave their file",
                    store=file.location,
                    remedy=f"{first} Or pass check=False to write null references.",
                    remedy_cli=f"{first} Or use --no-check to write null references.",
                )
            warn_broken(
                f"A reference in {file.location} points to {reference.source}:{reference.path}, which is not in the "
                f"new file; HDF5 references cannot leave their file."
            )
            return None
        if reference.region is not None:
            space = h5d.open(*self._within(place)).get_space()
            decode_region(reference.region, space)
            return h5r.create(*self._within(place), h5r.DATASET_REGION, space)
        if place not in self._references:
            self._references[place] = h5r.create(*self._within(place), h5r.OBJECT)
        return self._references[place]


def _maxshape(noted: Any, shape: tuple[int, ...]) -> tuple[int | None, ...]:
    """Return the maximum shape. The one in the note may include the axes of elements."""
    if not isinstance(noted, list) or len(noted) < len(shape):
        return shape
    return tuple(None if bound is None else max(int(bound), n) for n, bound in zip(shape, noted, strict=False))


def _is_specification(placed: Placed) -> bool:
    location = spec_location(placed.file.hierarchy.root.attributes.get(SPECLOC))
    return location is not None and placed.own.startswith(f"{location}/")


def _raw(path: str) -> bytes:
    return _bytes(absolute(path))


def _bytes(text: str) -> bytes:
    if "\0" in text:
        raise NameRefusedError(f"HDF5 names cannot contain NUL, as {text!r} does", remedy="Rename it in the Zarr file.")
    return raw_of(text)


def _member(path: str, name: str) -> bytes:
    """Return the path of a member of a group, after checking its name."""
    if "/" in name or name in ("", "."):
        raise NameRefusedError(f"HDF5 has no member with the name {name!r}", remedy="Rename it in the Zarr file.")
    return _raw(f"{path}/{name}")


def _link_creation() -> Any:
    properties = h5p.create(h5p.LINK_CREATE)
    properties.set_char_encoding(h5t.CSET_UTF8)
    return properties


# ---- the file --------------------------------------------------------------------------------------------------------


class OutputFile:
    """A new file for the driver ``fileobj`` of h5py, which HDF5 writes through Python.

    HDF5's own drivers ignore errors of the system when they close an object: data are lost without an error, and the
    process may crash at exit. So the first error is kept, and raised after HDF5 has closed the file, at the end of the
    ``with`` block.
    """

    def __init__(self, path: str, *, exclusive: bool) -> None:
        self.path = path
        self._file = io.FileIO(path, "x+" if exclusive else "w+", opener=_opened)
        self._error: OSError | KeyboardInterrupt | None = None

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._keep_error():
            self._file.close()
        self.check()

    def check(self) -> None:
        """Raise the first error, if any."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def _keep_error(self) -> Iterator[None]:
        try:
            yield
        except (OSError, KeyboardInterrupt) as error:  # HDF5 must not see Ctrl-C either
            self._error = self._error or error

    # ---- methods for h5py -------------------------------------------------------------------------------------------

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, and return it."""
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return self._file.tell()

    def write(self, data: Any) -> int:
        """Write all of ``data``. After an error, nothing is written."""
        left = memoryview(data)
        with self._keep_error():
            while left and self._error is None:
                left = left[self._file.write(left) :]
        return len(data)

    def readinto(self, target: Any) -> int:
        """Fill ``target``, with zeros after the end of the file."""
        left = memoryview(target)
        with self._keep_error():
            while left and (count := self._file.readinto(left)):
                left = left[count:]
        left[:] = bytes(len(left))
        return len(target)

    def truncate(self, size: int) -> None:
        """Set the length of the file."""
        with self._keep_error():
            self._file.truncate(size)

    def flush(self) -> None:
        """Do nothing: the file has no buffer."""


def _opened(path: str, flags: int) -> int:
    return os.open(path, flags | NO_LINKS, 0o666)
