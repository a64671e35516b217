"""`Hdf5Tree`: the objects of an HDF5 file with their paths in a Zarr file; `Hdf5Data`: the values of a dataset.

A Zarr file has no hard links and cannot point into HDF5. So an object is placed once, at its first path (depth first,
sorted by name), and its other paths become links. The target of an external link is copied to the place of the link,
with everything below it, and so are the targets of links inside it.

Values are read block by block, in NumPy's layout of their type. h5py's own indexing cannot read all types (such as
opaque data with a tag), keeps each dataset open, and does not name file and dataset in errors.
"""

from __future__ import annotations

import os
import posixpath
from collections import deque
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, NamedTuple

import h5py
import numpy as np
from h5py import h5a, h5g, h5l, h5o, h5s, h5z

from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.encoding.types import text_of
from hdmf_zarr_backend.errors import StoreNotFoundError, UnsupportedFileError, ZarrBackendError
from hdmf_zarr_backend.hdf5.datasets import Description, describe
from hdmf_zarr_backend.hdf5.file_bytes import RemoteFile
from hdmf_zarr_backend.hdf5.filters import check_chunks, filters_of, usable
from hdmf_zarr_backend.hdf5.safe_reading import (
    H5_ERRORS,
    UnreadableHdf5Error,
    check_depth,
    check_other_files,
    reading,
    warn_broken,
)
from hdmf_zarr_backend.hdf5.types import Array, memory_type, numpy_type, storable_type
from hdmf_zarr_backend.model.link_sources import THIS_FILE, is_url, relative_source, resolve_source, why_not
from hdmf_zarr_backend.model.nodes import absolute, join
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.stores.base import resource_failure

Kind = Literal["group", "dataset", "datatype"]
Address = tuple[int, int]
"""Number of an open file, and the address of an object in it."""

Bounds = Sequence[tuple[int, int]]


class OpenGroups:
    """The groups above the object that was opened last, kept open.

    HDF5 resolves each path from its start, so opening nested groups by path takes quadratic time.
    """

    def __init__(self, file_id: Any) -> None:
        self._file_id = file_id
        self._way: list[tuple[bytes, Any]] = []

    def within(self, raw: bytes) -> tuple[Any, bytes]:
        """Return the open parent group of the object at an absolute path, and its name in that group."""
        parent, _, name = raw.rpartition(b"/")
        if not parent:
            return self._file_id, raw
        while self._way and not parent.startswith(self._way[-1][0] + b"/") and parent != self._way[-1][0]:
            self._way.pop()
        known, group = self._way[-1] if self._way else (b"", self._file_id)
        for step in parent[len(known) + 1 :].split(b"/") if known != parent else ():
            known += b"/" + step
            group = h5g.open(group, step)
            self._way.append((known, group))
        return group, name

    def close(self) -> None:
        """Close the groups."""
        self._way.clear()


class SourceFile(OpenGroups):
    """One open HDF5 file."""

    def __init__(self, location: str, options: Mapping[str, Any] | None = None) -> None:
        self.location = location
        remote = RemoteFile(location, options or {}) if is_url(location) else None
        try:
            self.file: Any = h5py.File(location if remote is None else remote.stream(), "r")
        except H5_ERRORS as error:
            if isinstance(error, ZarrBackendError):  # an error of the server
                raise
            lack = resource_failure(error, "opened", store=location, what="the HDF5 file")
            if lack is not None:
                raise lack from error
            problem = f"HDF5 cannot open this file ({error})"
            remedy = "It may be cut short, or be open for writing elsewhere."
            raise UnsupportedFileError(problem, store=location, remedy=remedy) from error
        super().__init__(self.file.id)
        self._last: tuple[bytes, Any] | None = None

    def open(self, raw: bytes) -> Any:
        """Return the low-level object at a path. The last one stays open, and with it HDF5's cache of its chunks."""
        if self._last is None or self._last[0] != raw:
            with reading(self.location, text_of(raw)):
                self._last = (raw, h5o.open(*self.within(raw)))
        return self._last[1]

    def walk(self, top: bytes, known: Container[Address]) -> Iterator[tuple[bytes, int, Any]]:
        """Yield the object at a path and everything below it, depth first, sorted by name. Links are not followed."""
        pending = [top]
        while pending:
            raw = pending.pop()
            with reading(self.location, text_of(raw)):
                group, name = self.within(raw)
                form = h5l.TYPE_HARD if raw == top else group.links.get_info(name).type
                info = h5o.get_info(group, name) if form == h5l.TYPE_HARD else None
                if info is not None and info.type == h5o.TYPE_GROUP and (info.fileno, info.addr) not in known:
                    prefix = raw.rstrip(b"/") + b"/"
                    pending += [prefix + name for name in sorted(h5g.open(group, name), reverse=True)]
            yield raw, form, info

    def close(self) -> None:
        """Close the file."""
        self._last = None
        super().close()
        with suppress(*H5_ERRORS):  # all values are read, so an error of the system does not matter
            self.file.close()


class Placed(NamedTuple):
    """A group, dataset or named type, and its path in the Zarr file, as in the model."""

    path: str
    kind: Kind
    file: SourceFile
    raw: bytes


class PlacedLink(NamedTuple):
    """A link: its path, its target, and the note of its form in HDF5 (None for a plain soft link)."""

    path: str
    target: ZarrReference
    note: Any = None


class _Pending(NamedTuple):
    path: str
    file: SourceFile
    raw: bytes


class Hdf5Tree:
    """The objects of a file, with their paths in the new file.

    Attributes
    ----------
    nodes : list of Placed
        All objects, parents before members.
    links : list of PlacedLink
        All links.
    places : dict
        ``{address: Placed}`` of all objects.
    notes : dict
        ``{path of a group: {name: note}}`` for members that were links in HDF5 and are copies in Zarr.
    """

    def __init__(
        self, location: str, target: str, options: Mapping[str, Any] | None = None, rules: ReadOptions | None = None
    ) -> None:
        self._rules = rules or ReadOptions()
        self._storage = dict(options or {})
        self.main = SourceFile(location, options)
        self.target = target
        self._files: dict[str, SourceFile | None] = {_real(location): self.main}
        self._ids: dict[tuple[str, bytes], str | None] = {}
        self.places: dict[Address, Placed] = {}
        self._external: deque[_Pending] = deque()
        self._soft: deque[_Pending] = deque()
        self.nodes: list[Placed] = []
        self.links: list[PlacedLink] = []
        self.notes: dict[str, dict[str, Any]] = {}
        try:
            self._descend("", self.main, b"/")
            while self._external or self._soft:
                link = (self._external or self._soft).popleft()  # soft links may go through external ones
                with reading(link.file.location, text_of(link.raw)):
                    self._place_link(link)
        except BaseException:
            self.close()
            raise

    def sources(self) -> list[str]:
        """Return the absolute paths of all files that are read."""
        return [file.location for file in self._files.values() if file is not None]

    def close(self) -> None:
        """Close all files."""
        for file in self._files.values():
            if file is not None:
                file.close()

    # ---- where things go --------------------------------------------------------------------------------------------

    def _descend(self, place: str, file: SourceFile, top: bytes) -> None:
        """Place an object and everything below it. Links are placed later, when all objects have their paths."""
        start = len(top.rstrip(b"/")) + 1
        for raw, form, info in file.walk(top, self.places):
            path = place if raw == top else join(place, text_of(raw[start:]))
            if info is None:
                (self._external if form == h5l.TYPE_EXTERNAL else self._soft).append(_Pending(path, file, raw))
                continue
            with reading(file.location, text_of(raw)):
                known = self.places.get((info.fileno, info.addr))
                if known is None:
                    self._place(path, file, raw, info)
                else:
                    self.links.append(PlacedLink(path, self.reference_to(known), "hard"))

    def _place(self, path: str, file: SourceFile, raw: bytes, info: Any) -> None:
        """Set the path of one object."""
        kinds: dict[int, Kind] = {h5o.TYPE_GROUP: "group", h5o.TYPE_DATASET: "dataset"}
        placed = Placed(path, kinds.get(info.type, "datatype"), file, raw)
        self.places[info.fileno, info.addr] = placed
        self.nodes.append(placed)
        if placed.kind == "dataset":
            check_other_files(h5o.open(*file.within(raw)), file.location, text_of(raw), self._rules.external_links)
        elif placed.kind == "group":
            check_depth(self._rules, file.location, absolute(path))

    def _place_link(self, link: _Pending) -> None:
        group, name = link.file.within(link.raw)
        form = group.links.get_info(name).type
        if form == h5l.TYPE_SOFT:
            self._place_soft(link, group.links.get_val(name))
        elif form == h5l.TYPE_EXTERNAL:
            file, path = group.links.get_val(name)
            self._place_external(link, os.fsdecode(file), path)
        else:
            warn_broken(
                f"The link {text_of(link.raw)} in {link.file.location} has an unknown class ({form}) and is left out."
            )

    def _place_soft(self, link: _Pending, value: bytes) -> None:
        raw = soft_target(link.raw, value)
        found = address_of(link.file, raw)
        known = None if found is None else self.places.get(found)
        if found is not None and known is None and link.file is not self.main:
            self._copy(link.path, link.file, raw, None)
            return
        if found is None:
            _warn_broken(link, text_of(raw))
        # a path through a link that is not placed is kept as it is
        target = ZarrReference(THIS_FILE, text_of(raw)) if known is None else self.reference_to(known)
        written = text_of(value)
        note = None if link.file is not self.main or written == target.path else {"soft": written}
        self.links.append(PlacedLink(link.path, target, note))

    def _place_external(self, link: _Pending, name: str, value: bytes) -> None:
        raw, origin = b"/" + value.strip(b"/"), link.file.location
        if is_url(origin):
            location = resolve_source(name if is_url(name) or name.startswith("/") else f"../{name}", origin)
        else:
            location = os.path.abspath(os.path.join(os.path.dirname(origin), name))
        file = self._open(location) if self._may_lead(origin, name, location) else None
        found = None if file is None else address_of(file, raw)
        source = relative_source(location, self.target)
        if file is None or found is None:
            _warn_broken(link, f"{name}:{text_of(raw)}")
            self.links.append(PlacedLink(link.path, ZarrReference(source, text_of(raw))))
            return
        note = {"source": source, "path": text_of(raw)}
        known = self.places.get(found)
        if known is None:
            self._copy(link.path, file, raw, note)
        else:
            self.links.append(PlacedLink(link.path, self.reference_to(known), None if file is self.main else note))

    def _copy(self, path: str, file: SourceFile, raw: bytes, note: Any) -> None:
        if note is not None:
            parent, _, name = path.rpartition("/")
            self.notes.setdefault(parent, {})[name] = note
        self._descend(path, file, raw)

    def _may_lead(self, origin: str, name: str, location: str) -> bool:
        """Tell whether a link is followed; from a server, only to files in the folder of the HDF5 file or below."""
        if is_url(origin):
            is_beside = not (is_url(name) or name.startswith("/") or ".." in name.split("/"))
            return is_beside and self._rules.external_links != "never"
        # HDF5 blocks on a pipe; a missing file is reported elsewhere
        is_readable = os.path.isfile(location) or not os.path.exists(location)
        return is_readable and why_not(location, origin, self._rules.external_links, free=True) is None

    def _open(self, location: str) -> SourceFile | None:
        """Return an open file, None if HDF5 cannot open one there."""
        real = _real(location)
        if real not in self._files:
            try:
                self._files[real] = SourceFile(location, self._storage)
            except (UnsupportedFileError, StoreNotFoundError):
                self._files[real] = None
        return self._files[real]

    def named_type(self, tid: Any) -> Placed | None:
        """Return the named type for a type, None if it has no name in the file."""
        if not tid.committed():
            return None
        info = h5o.get_info(tid)
        return self.places.get((info.fileno, info.addr))

    # ---- what things are called -------------------------------------------------------------------------------------

    def object_id(self, file: SourceFile, raw: bytes) -> str | None:
        """Return the object id of the object at a path, None if it has none; each is read once."""
        key = (file.location, raw)
        if key not in self._ids:
            value: Any = None
            node = h5o.open(*file.within(raw))
            attribute = h5a.open(node, b"object_id") if h5a.exists(node, b"object_id") else None
            if attribute is not None and attribute.shape == () and attribute.dtype.kind in "OS":
                values = np.zeros((), attribute.dtype)
                attribute.read(values)
                value = values[()]
            self._ids[key] = value.decode("utf-8", "replace") if isinstance(value, bytes) else None
        return self._ids[key]

    def reference_to(self, placed: Placed) -> ZarrReference:
        """Return a reference to an object at its path in the Zarr file."""
        own, root = self.object_id(placed.file, placed.raw), self.object_id(self.main, b"/")
        return ZarrReference(THIS_FILE, absolute(placed.path), own, root)


def _real(location: str) -> str:
    return location if is_url(location) else os.path.realpath(location)


def soft_target(raw: bytes, value: bytes) -> bytes:
    """Return the absolute path of the target of the soft link at ``raw``.

    A relative target starts at the group of the link. HDF5 resolves "." but not "..".
    """
    parts = posixpath.join(posixpath.dirname(raw), value).split(b"/")
    return b"/" + b"/".join(part for part in parts if part not in (b"", b"."))


def address_of(file: SourceFile, raw: bytes) -> Address | None:
    """Return the address of the object at a path, through links; None if it does not exist."""
    try:
        info = h5o.get_info(file.file.id, raw)
    except H5_ERRORS:
        return None
    return info.fileno, info.addr


def _warn_broken(link: _Pending, target: str) -> None:
    warn_broken(
        f"The link {text_of(link.raw)} in {link.file.location} points to {target}, which does not exist; it is kept."
    )


class Hdf5Data:
    """The values of one dataset, which is opened when values are read.

    Attributes
    ----------
    shape : tuple of int or None
        Shape, including the axes of its elements; None without a dataspace.
    """

    def __init__(self, file: SourceFile, raw: bytes) -> None:
        self._file = file
        self._raw = raw
        node = file.open(raw)
        storable_type(node.get_type())  # raises an error for types that NumPy lacks
        self._inner = tuple(numpy_type(node.get_type()).shape)
        self.shape: tuple[int, ...] | None = None if node.shape is None else (*map(int, node.shape), *self._inner)

    @property
    def name(self) -> str:
        """File and path, for messages."""
        return f"{self._file.location}, {text_of(self._raw)}"

    def describe(self) -> Description:
        """Return type, shape and storage of the dataset. Registers filters of hdf5plugin if it needs them."""
        found = describe(self.dataset())
        usable(found.note.get("filters", []))
        return found

    def dataset(self) -> Any:
        """Open and return the ``h5py.Dataset``."""
        return h5py.Dataset(self._file.open(self._raw))

    def __getitem__(self, key: Any) -> Any:
        """Return a block, or the value of a scalar dataset."""
        if isinstance(key, int):
            return self[key : key + 1][0]
        shape = self.shape or ()
        given = key if isinstance(key, tuple) else (key,)
        slices = [part.indices(length) for part, length in zip(given, shape, strict=False)]
        bounds = [(start, max(start, stop)) for start, stop, _ in slices] + [(0, n) for n in shape[len(given) :]]
        outer = len(shape) - len(self._inner)
        node = self._file.open(self._raw)
        try:
            with reading(self._file.location, text_of(self._raw), node):
                values = self._read(bounds[:outer])
        except UnreadableHdf5Error as error:
            numbers = (number for number, _, _ in filters_of(node.get_create_plist()))
            missing = next((number for number in numbers if not h5z.filter_avail(number)), None)
            if missing is None:
                raise
            raise UnsupportedFileError(
                f"HDF5 filter {missing} is not installed",
                store=self._file.location,
                path=text_of(self._raw),
                remedy="Install hdf5plugin.",
            ) from error.__cause__
        inner: tuple[Any, ...] = tuple(slice(start, stop) for start, stop in bounds[outer:])
        values = values[(..., *inner)]
        return values if values.ndim else values[()]

    def _read(self, bounds: Bounds) -> Array:
        tid = self._file.open(self._raw).get_type()
        return read_block(self._file.open(self._raw), bounds, numpy_type(tid), memory_type(tid, writing=False))


def read_block(node: Any, bounds: Bounds, dtype: np.dtype[Any], memory: Any) -> Array:
    """Return a block of a dataset as an array."""
    lengths = tuple(stop - start for start, stop in bounds)
    values: Array = np.zeros(lengths, dtype)
    if not values.size:
        return values
    check_chunks(node, bounds)
    if not lengths:
        node.read(h5s.ALL, h5s.ALL, values, memory)
        return values
    space = node.get_space()
    space.select_hyperslab(tuple(start for start, _ in bounds), lengths)
    node.read(h5s.create_simple(lengths), space, values, memory)
    return values
