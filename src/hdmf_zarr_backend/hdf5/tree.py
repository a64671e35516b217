"""The objects of a file with their paths in the other format: `Hdf5Tree` in a Zarr file, `Placement` in an HDF5 file.

A Zarr file has no hard links and cannot point into HDF5. So an object of an HDF5 file is placed once, at its first path
(depth first, sorted by name), and its other paths become links. The target of an external link is copied to the place
of the link, with everything below it, and so are the targets of links inside it. Of several links to it, that is the
one at the path of the target, or with its name: others may be where the schema allows only a link.

In the other direction paths stay. A link to another Zarr file becomes an external link to the HDF5 file of the same
stem beside it (``../b.nwb.zarr`` -> ``b.nwb``) if that file has the target; otherwise the target is copied: to the
place of a link or, if the schema allows only links in all of these, to the path that it has in its own file. A member
that was an external link before a conversion from HDF5 becomes one again if the file still exists.
"""

from __future__ import annotations

import os
import posixpath
from collections import deque
from collections.abc import Callable, Container, Mapping
from operator import attrgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from h5py import h5a, h5l, h5o

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.encoding.hdf5_types import text_of
from hdmf_zarr_backend.encoding.parser import Resolver
from hdmf_zarr_backend.encoding.references import Link, LinkedFile, ZarrReference
from hdmf_zarr_backend.encoding.reserved import as_dict, data_type_of, hdf5_note
from hdmf_zarr_backend.errors import without_secrets
from hdmf_zarr_backend.hdf5 import files
from hdmf_zarr_backend.hdf5.attributes import read_attribute
from hdmf_zarr_backend.model.links import THIS_FILE, is_url, relative_source, why_not
from hdmf_zarr_backend.model.nodes import Group, Node, absolute, join, split
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.store.base import resource_failure

# ---- HDF5 -> Zarr ----------------------------------------------------------------------------------------------------

Kind: TypeAlias = Literal["group", "dataset", "datatype", "link"]


class Placed(NamedTuple):
    """A group, dataset or named type, or a link that waits for its target, and its path in the Zarr file."""

    path: str
    kind: Kind
    file: files.SourceFile
    raw: bytes
    rank: int = 0  # of an external link: 1 if the target has another path, 2 if it has another name too


class PlacedLink(NamedTuple):
    """A link: its path, its target, and the note of its form in HDF5 (None for a plain soft link)."""

    path: str
    target: ZarrReference
    note: Any = None


class Hdf5Tree:
    """The objects of an HDF5 file in a new Zarr file: ``nodes``, parents before members, and ``links``."""

    def __init__(
        self, location: str, target: str, options: Mapping[str, Any] | None = None, rules: ReadOptions | None = None
    ) -> None:
        self._rules = rules or ReadOptions()
        self.storage = dict(options or {})
        self.main = files.SourceFile(location, options)
        self.target = target
        self._is_copied = target != location  # else the file is only read as it would be in Zarr
        self._files: dict[str, files.SourceFile | None] = {_real(location): self.main}
        self._ids: dict[tuple[str, bytes], str | None] = {}
        self.places: dict[files.Address, Placed] = {}  # the nodes
        # by rank; soft links last: their paths may go through an external one, to an object that is placed by then
        self._pending: tuple[deque[Placed], ...] = (deque(), deque(), deque(), deque())
        self.nodes: list[Placed] = []
        self.links: list[PlacedLink] = []
        # by the path of their group: those of members that were links in HDF5 and are copies in Zarr
        self.notes: dict[str, dict[str, Any]] = {}
        try:
            self._descend("", self.main, b"/")
            while queue := next(filter(None, self._pending), None):
                link = queue.popleft()
                with files.reading(link.file.location, text_of(link.raw)):
                    self._place_link(link)
        except BaseException:
            self.close()
            raise

    @property
    def sources(self) -> list[files.SourceFile]:
        """All files that are read."""
        return [file for file in self._files.values() if file is not None]

    def states(self) -> dict[str, list[Any]]:
        """Return size, and tag or time, of all files that are read, by location without secrets."""
        opened = sorted(self.sources, key=attrgetter("location"))
        return {without_secrets(file.location): file.state() for file in opened}

    def check(self) -> None:
        """Check that the files at URLs have not changed since they were opened."""
        for file in self.sources:
            if file.remote is not None:
                file.remote.check()

    def close(self) -> None:
        """Close all files."""
        for file in self.sources:
            file.close()

    def _descend(self, top_path: str, file: files.SourceFile, top: bytes) -> None:
        """Place an object and everything below it. Links are placed later, when all objects have their paths."""
        kinds: dict[int, Kind] = {h5o.TYPE_GROUP: "group", h5o.TYPE_DATASET: "dataset"}
        start = len(top.rstrip(b"/")) + 1
        for raw, form, info in file.walk(top, self.places):
            path = top_path if raw == top else join(top_path, text_of(raw[start:]))
            if info is None:
                self._pending[0 if form == h5l.TYPE_EXTERNAL else -1].append(Placed(path, "link", file, raw))
                continue
            with files.reading(file.location, text_of(raw)):
                address = info.fileno, info.addr
                if address in self.places:
                    self.links.append(PlacedLink(path, self.reference_to(self.places[address]), "hard"))
                    continue
                placed = self.places[address] = Placed(path, kinds.get(info.type, "datatype"), file, raw)
                self.nodes.append(placed)
                if placed.kind == "dataset":
                    dataset = h5o.open(*file.within(raw))
                    files.check_other_files(dataset, file.location, text_of(raw), self._rules.external_links)
                elif placed.kind == "group":
                    files.check_depth(self._rules, file.location, absolute(path))

    def _place_link(self, link: Placed) -> None:
        group, name = link.file.within(link.raw)
        form = group.links.get_info(name).type
        if form == h5l.TYPE_EXTERNAL:
            other_file, path = group.links.get_val(name)
            self._place_external(link, os.fsdecode(other_file), path)
            return
        if form != h5l.TYPE_SOFT:
            files.warn_broken(
                f"The link {text_of(link.raw)} in {link.file.location} has an unknown class ({form}) and is left out."
            )
            return
        value = group.links.get_val(name)
        raw = soft_target(link.raw, value)
        address = address_of(link.file, raw)
        known = None if address is None else self.places.get(address)
        if address is not None and known is None and link.file is not self.main:
            self._descend(link.path, link.file, raw)
            return
        if address is None:
            _warn_kept(text_of(link.raw), link.file.location, text_of(raw), is_kept=self._is_copied)
        # a path through a link that is not placed is written unchanged
        target = ZarrReference(THIS_FILE, text_of(raw)) if known is None else self.reference_to(known)
        written = text_of(value)
        note = None if link.file is not self.main or written == target.path else {"soft": written}
        self.links.append(PlacedLink(link.path, target, note))

    def _place_external(self, link: Placed, name: str, value: bytes) -> None:
        raw, origin = b"/" + value.strip(b"/"), link.file.location
        location, refused = files.external_link(name, origin, self._rules.external_links)
        file = None if refused else self._open(location)
        address = None if file is None else address_of(file, raw)
        source = relative_source(location, self.target)
        if file is None or address is None:
            policy = self._rules.external_links or "within" if refused else None  # by default, of files on a server
            _warn_kept(text_of(link.raw), origin, f"{name}:{text_of(raw)}", policy, is_kept=self._is_copied)
            self.links.append(PlacedLink(link.path, ZarrReference(source, text_of(raw))))
            return
        note = {"source": source, "path": text_of(raw)}
        known = self.places.get(address)
        rank = (raw != link.raw) + (raw.rpartition(b"/")[2] != link.raw.rpartition(b"/")[2])
        if known is None and rank > link.rank:
            self._pending[rank].append(link._replace(rank=rank))
        elif known is None:
            parent, _, member = link.path.rpartition("/")
            self.notes.setdefault(parent, {})[member] = note
            self._descend(link.path, file, raw)
        else:
            self.links.append(PlacedLink(link.path, self.reference_to(known), None if file is self.main else note))

    def _open(self, location: str) -> files.SourceFile | None:
        """Return an open file, None if HDF5 cannot open one there."""
        real = _real(location)
        if real not in self._files:
            try:
                self._files[real] = files.SourceFile(location, self.storage)
            except (errors.UnsupportedFileError, errors.StoreNotFoundError):
                self._files[real] = None
        return self._files[real]

    def named_type(self, tid: Any) -> Placed | None:
        """Return the named type for a type, None if it has no name in the file."""
        info = h5o.get_info(tid) if tid.committed() else None
        return None if info is None else self.places.get((info.fileno, info.addr))

    def object_id(self, file: files.SourceFile, raw: bytes) -> str | None:
        """Return the object id of the object at a path, None if it has none; each is read once."""
        key = (file.location, raw)
        if key not in self._ids:
            node, value = h5o.open(*file.within(raw)), None
            if h5a.exists(node, b"object_id"):
                value, _ = read_attribute(h5a.open(node, b"object_id"), lambda reference: None)
            self._ids[key] = value if isinstance(value, str) else None
        return self._ids[key]

    def reference_to(self, placed: Placed) -> ZarrReference:
        """Return a reference to an object at its path in the Zarr file."""
        own, root = self.object_id(placed.file, placed.raw), self.object_id(self.main, b"/")
        return ZarrReference(THIS_FILE, absolute(placed.path), own, root)


def _real(location: str) -> str:
    return location if is_url(location) else os.path.realpath(location)


def soft_target(raw: bytes, value: bytes) -> bytes:
    """Return the absolute path of the target of the soft link at ``raw``."""
    # A relative target starts at the group of the link. HDF5 resolves "." but not "..".
    parts = posixpath.join(posixpath.dirname(raw), value).split(b"/")
    return b"/" + b"/".join(part for part in parts if part not in (b"", b"."))


def address_of(file: files.SourceFile, raw: bytes) -> files.Address | None:
    """Return the address of the object at a path, through links; None if it does not exist."""
    try:
        info = h5o.get_info(file.file.id, raw)
    except files.H5_ERRORS:
        return None
    return info.fileno, info.addr


def _warn_kept(link: str, origin: str, target: str, policy: str | None = None, *, is_kept: bool = True) -> None:
    """Warn that a link leads to nothing, or to another file that the ``policy`` does not allow."""
    refused = f"was not followed (external_links={policy!r}, --external-links {policy})"
    problem, kept = "does not exist" if policy is None else refused, "; the link is kept" if is_kept else ""
    files.warn_broken(f"The link {link} in {origin} points to {target}, which {problem}{kept}.")


# ---- Zarr -> HDF5 ----------------------------------------------------------------------------------------------------

_SUFFIX = ".zarr"
_NEIGHBOURS = ("", ".nwb", ".h5", ".hdf5")
LinkNames: TypeAlias = Callable[[Node], Container[str]]  # of the members of a group that may be links only


class ZarrNode(NamedTuple):
    """A group or array: its path in the HDF5 file and its source; paths as in the model."""

    path: str
    file: LinkedFile
    own: str
    node: Node


class NewLink(NamedTuple):
    """A link: its path, its form, and its target in HDF5; ``file`` for an external link."""

    path: str
    form: Literal["soft", "hard", "external"]
    target: str
    file: str = ""


class _PendingLink(NamedTuple):
    """A link whose target may not be placed yet."""

    path: str
    file: LinkedFile
    link: Link
    note: Any
    is_fixed: bool  # the schema allows nothing else there


class Placement:
    """The objects of a Zarr file in a new HDF5 file: ``nodes``, parents before members, and ``links``."""

    def __init__(
        self, resolver: Resolver, target: str, link_names: Callable[[], LinkNames], *, copies_links: bool = False
    ) -> None:
        self.main = main = resolver.main
        self._resolver = resolver
        self.target, self._folder = target, os.path.dirname(target)
        self._copies_links = copies_links
        self._paths: dict[tuple[str, str], str] = {}
        self._types: set[str] = set()
        self._link_names = link_names
        self._pending: deque[_PendingLink] = deque()
        self._fixed: deque[_PendingLink] = deque()
        self.nodes: list[ZarrNode] = []
        self.links: list[NewLink] = []
        self._descend("", main, "", main.hierarchy.root)
        while self._pending or self._fixed:
            self._place_link((self._pending or self._fixed).popleft())

    def _descend(self, top_path: str, file: LinkedFile, own: str, top: Node) -> None:
        """Place a node and everything below it; not recursive, because files may be nested deeper than Python calls."""
        stack = [(top_path, own, top)]
        while stack:
            path, here, node = stack.pop()
            self._paths.setdefault((file.location, here), path)
            self.nodes.append(ZarrNode(path, file, here, node))
            if not isinstance(node, Group):
                continue
            note = hdf5_note(node)
            notes = as_dict(note.get("links"))
            if file is self.main:
                self._types.update(join(here, name) for name in as_dict(note.get("datatypes")))
            for name in sorted(node.members, reverse=True):
                if not self._was_external(join(path, name), file, notes.get(name)):
                    stack.append((join(path, name), join(here, name), node.members[name]))
            for link in file.links(here, node):
                # the schema is read only if there is a link to another file
                is_copied = file is not self.main or link.target.source != THIS_FILE
                is_fixed = is_copied and link.name in self._link_names()(node)
                pending = _PendingLink(join(path, link.name), file, link, notes.get(link.name), is_fixed)
                (self._fixed if pending.is_fixed else self._pending).append(pending)

    def _was_external(self, path: str, file: LinkedFile, note: Any) -> bool:
        """Restore an external link that was copied when the file was made, if its target still exists."""
        if not isinstance(note, dict) or "source" not in note or self._copies_links:
            return False
        location = self._resolver.locate(file, str(note["source"]))
        if not holds(location, str(note.get("path"))):
            return False
        self._add_external(path, location, str(note["path"]))
        return True

    def _place_link(self, pending: _PendingLink) -> None:
        if self._was_external(pending.path, pending.file, pending.note):
            return
        target = pending.link.target
        location = self._resolver.locate(pending.file, target.source)
        is_other = location != pending.file.location
        if pending.file is self.main and not is_other:
            path, note, types = target.node_path, pending.note, self._types
            if note == "hard" and (path in self.main.hierarchy or path in types):
                self.links.append(NewLink(pending.path, "hard", absolute(path)))
                return
            if path not in types and self._find(self.main, target) is None:
                self._warn_kept(pending)
            written = note.get("soft") if isinstance(note, dict) else None
            self.links.append(NewLink(pending.path, "soft", written if isinstance(written, str) else absolute(path)))
            return
        neighbour = self._neighbour(location, target) if is_other and not self._copies_links else None
        if neighbour is not None:
            self._add_external(pending.path, neighbour, target.path)
            return
        result = self._find(pending.file, target)
        if result is None:
            self._warn_kept(pending)
            if is_other:
                self._add_external(pending.path, location.removesuffix(_SUFFIX), target.path)
            else:
                self.links.append(NewLink(pending.path, "soft", absolute(target.path)))
            return
        file, own, node = result
        known = self._paths.get((file.location, own))
        if known is None:
            known = self._own_path(pending, file, own) if pending.is_fixed else pending.path
            self._descend(known, file, own, node)
        if known != pending.path:
            self.links.append(NewLink(pending.path, "soft", absolute(known)))

    def _own_path(self, pending: _PendingLink, file: LinkedFile, own: str) -> str:
        """Return the path of a target in its own file, for its copy, after adding the groups above it."""
        groups = {placed.path for placed in self.nodes if isinstance(placed.node, Group)}
        others = {each.path for each in self.nodes} | {each.path for each in self.links}
        parent, above = split(own)[0], list[str]()
        while parent not in groups | others:
            above.append(parent)
            parent = split(parent)[0]
        if own in others or parent not in groups or any(data_type_of(file.hierarchy.get(path)) for path in above):
            target = f"{own} of {file.location}"
            problem = f"the schema allows only a link here, and no group of the new file can hold its target, {target}"
            copy = file.location.removesuffix(_SUFFIX)
            copy += "" if copy.endswith(_NEIGHBOURS[1:]) else _NEIGHBOURS[1]
            remedy = f"Run `zarrio convert {file.location} {copy}` first: the link then leads to that file."
            raise errors.MissingTargetError(problem, store=pending.file.location, path=pending.path, remedy=remedy)
        self.nodes += (ZarrNode(path, file, path, Group()) for path in reversed(above))
        return own

    def _neighbour(self, location: str, target: ZarrReference) -> str | None:
        """Return the HDF5 file that replaces another file: that file itself, or one with the same stem."""
        own = os.path.normpath(os.path.join(self._folder, os.path.basename(self.main.location), target.source))
        bases = () if is_url(location) else dict.fromkeys(path.removesuffix(_SUFFIX) for path in (own, location))
        paths = (base + suffix for base in bases for suffix in _NEIGHBOURS)
        return next((path for path in paths if holds(path, target.path)), None)

    def _add_external(self, path: str, location: str, target: str) -> None:
        name = location if is_url(location) else os.path.relpath(location, self._folder).replace(os.sep, "/")
        self.links.append(NewLink(path, "external", absolute(target), name))

    def _warn_kept(self, pending: _PendingLink) -> None:
        target, policy = pending.link.target, self.main.store.read_rules.external_links
        location, origin = self._resolver.locate(pending.file, target.source), pending.file.location
        is_free = location in ("", origin) or why_not(location, origin, policy, free=True) is None
        kept = None if is_free else policy or "within"
        _warn_kept(absolute(pending.path), origin, f"{target.source}:{target.path}", kept)

    def _find(self, file: LinkedFile, target: ZarrReference) -> tuple[LinkedFile, str, Node] | None:
        """Return file, path and node that a link or reference leads to, None if it leads to nothing."""
        try:
            return self._resolver.find(file, target.source, target.node_path)
        except (errors.ZarrBackendError, OSError):
            return None

    def target_of(self, reference: ZarrReference, file: LinkedFile) -> tuple[str | None, str | None]:
        """Return the path of a reference's target in the HDF5 file, and the Zarr file that has it, None where none."""
        if reference.node_path in self._types and self._resolver.locate(file, reference.source) == self.main.location:
            return reference.node_path, self.main.location
        if (target := self._find(file, reference)) is None:
            return None, None
        return self._paths.get((target[0].location, target[1])), target[0].location


def holds(location: str, path: str) -> bool:
    """Tell whether ``location`` is an HDF5 file that has an object at ``path``."""
    file = files.opened_file(location)
    if file is None:
        return False
    try:
        with file:
            return path in file
    except files.H5_ERRORS as error:
        if lack := resource_failure(error, "read", store=location):
            raise lack from error
        return False
