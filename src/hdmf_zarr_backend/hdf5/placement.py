"""`Placement`: the objects of a Zarr file with their paths in an HDF5 file: groups, arrays, links, references.

Paths are the same in both. A link to another Zarr file becomes an external link to the HDF5 file of the same stem
beside it (``../b.nwb.zarr`` -> ``b.nwb``) if that file has the target; otherwise the target is copied to the place of
the link, with everything below it. A member that was an external link before a conversion from HDF5 becomes an external
link again if the file still exists.
"""

from __future__ import annotations

import os
from collections import deque
from typing import Any, Literal, NamedTuple

from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.encoding.reserved import as_dict, notes_of
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.formats.links import Link, LinkedFile
from hdmf_zarr_backend.hdf5.safe_reading import H5_ERRORS, opened_file, warn_broken
from hdmf_zarr_backend.model.link_sources import is_url
from hdmf_zarr_backend.model.links import Resolver
from hdmf_zarr_backend.model.nodes import Group, Node, absolute, join
from hdmf_zarr_backend.stores.base import resource_failure

HDF5 = "hdf5"
"""Key of the note that describes an object in HDF5."""

_SUFFIX = ".zarr"
_NEIGHBOURS = ("", ".nwb", ".h5", ".hdf5")


class Placed(NamedTuple):
    """A group or array: its path in the HDF5 file and its source; paths as in the model."""

    path: str
    file: LinkedFile
    own: str
    node: Node


class PlacedLink(NamedTuple):
    """A link: its path, its form, and its target in HDF5; ``file`` for an external link."""

    path: str
    form: Literal["soft", "hard", "external"]
    target: str
    file: str = ""


class _Pending(NamedTuple):
    path: str
    file: LinkedFile
    link: Link
    note: Any


def hdf5_note(node: Node) -> dict[str, Any]:
    """Return the note that describes a node in HDF5."""
    return as_dict(notes_of(node.attributes).get(HDF5))


class Placement:
    """The objects of the new file, with their paths.

    Attributes
    ----------
    nodes : list of Placed
        All groups and arrays, parents before members.
    links : list of PlacedLink
        All links.
    """

    def __init__(self, resolver: Resolver[LinkedFile], target: str, *, copies_links: bool = False) -> None:
        self.main = main = resolver.main
        self._resolver = resolver
        self._folder = os.path.dirname(target)
        self._copies_links = copies_links
        self._places: dict[tuple[str, str], str] = {}
        self._types: set[str] = set()
        self._pending: deque[_Pending] = deque()
        self.nodes: list[Placed] = []
        self.links: list[PlacedLink] = []
        self._descend("", main, "", main.hierarchy.root)
        while self._pending:
            self._place_link(self._pending.popleft())

    # ---- where things go --------------------------------------------------------------------------------------------

    def _descend(self, place: str, file: LinkedFile, own: str, top: Node) -> None:
        stack = [(place, own, top)]
        while stack:
            path, here, node = stack.pop()
            self._places.setdefault((file.location, here), path)
            self.nodes.append(Placed(path, file, here, node))
            if not isinstance(node, Group):
                continue
            note = hdf5_note(node)
            notes = as_dict(note.get("links"))
            if file is self.main:
                self._types.update(join(here, name) for name in as_dict(note.get("datatypes")))
            for name in sorted(node.members, reverse=True):
                if not self._was_external(join(path, name), file, notes.get(name)):
                    stack.append((join(path, name), join(here, name), node.members[name]))
            self._pending.extend(
                _Pending(join(path, link.name), file, link, notes.get(link.name)) for link in file.links(here, node)
            )

    def _was_external(self, path: str, file: LinkedFile, note: Any) -> bool:
        """Restore an external link that was copied when the file was made, if its target still exists."""
        if not isinstance(note, dict) or "source" not in note or self._copies_links:
            return False
        location = self._resolver.locate(file, str(note["source"]))
        if not _holds(location, str(note.get("path"))):
            return False
        self._add_external(path, location, str(note["path"]))
        return True

    def _place_link(self, pending: _Pending) -> None:
        if self._was_external(pending.path, pending.file, pending.note):
            return
        target = pending.link.target
        location = self._resolver.locate(pending.file, target.source)
        is_other = location != pending.file.location
        if pending.file is self.main and not is_other:
            self._place_own(pending)
            return
        neighbour = None if self._copies_links or not is_other else self._neighbour(location, target)
        if neighbour is not None:
            self._add_external(pending.path, neighbour, target.path)
            return
        found = self._find(pending.file, target)
        if found is None:
            self._warn_broken(pending)
            if is_other:
                self._add_external(pending.path, _stem(location), target.path)
            else:
                self.links.append(PlacedLink(pending.path, "soft", absolute(target.path)))
            return
        file, own, node = found
        place = self._places.get((file.location, own))
        if place is not None:
            self.links.append(PlacedLink(pending.path, "soft", absolute(place)))
        else:
            self._descend(pending.path, file, own, node)

    def _place_own(self, pending: _Pending) -> None:
        """Place a link within the file."""
        target, note = pending.link.target.node_path, pending.note
        if note == "hard" and (target in self.main.hierarchy or target in self._types):
            self.links.append(PlacedLink(pending.path, "hard", absolute(target)))
            return
        if target not in self._types and self._find(self.main, pending.link.target) is None:
            self._warn_broken(pending)
        written = note.get("soft") if isinstance(note, dict) else None
        self.links.append(PlacedLink(pending.path, "soft", written if isinstance(written, str) else absolute(target)))

    def _neighbour(self, location: str, target: ZarrReference) -> str | None:
        """Return the HDF5 file that replaces another file: that file itself, or one with the same stem."""
        if is_url(location):
            return None
        beside = os.path.normpath(os.path.join(self._folder, os.path.basename(self.main.location), target.source))
        for base in dict.fromkeys((_stem(beside), _stem(location))):
            for suffix in _NEIGHBOURS:
                if _holds(base + suffix, target.path):
                    return base + suffix
        return None

    def _add_external(self, path: str, location: str, target: str) -> None:
        name = location if is_url(location) else os.path.relpath(location, self._folder).replace(os.sep, "/")
        self.links.append(PlacedLink(path, "external", absolute(target), name))

    def _warn_broken(self, pending: _Pending) -> None:
        target = pending.link.target
        warn_broken(
            f"The link {absolute(pending.path)} in {pending.file.location} points to "
            f"{target.source}:{target.path}, which does not exist; it is kept."
        )

    # ---- finding things ---------------------------------------------------------------------------------------------

    def _find(self, file: LinkedFile, target: ZarrReference) -> tuple[LinkedFile, str, Node] | None:
        """Return file, path and node that a link or reference leads to, None if it leads to nothing."""
        try:
            return self._resolver.find(file, target.source, target.node_path)
        except (ZarrBackendError, OSError):
            return None

    def place_of(self, reference: ZarrReference, file: LinkedFile) -> str | None:
        """Return the path of a reference's target in the HDF5 file, None if the target is not in it."""
        if reference.node_path in self._types and self._resolver.locate(file, reference.source) == self.main.location:
            return reference.node_path
        found = self._find(file, reference)
        return None if found is None else self._places.get((found[0].location, found[1]))

    def file_of(self, reference: ZarrReference, file: LinkedFile) -> str | None:
        """Return the location of the file with the target of a reference in ``file``, None if there is no target."""
        found = self._find(file, reference)
        return None if found is None else found[0].location


def _stem(location: str) -> str:
    return location[: -len(_SUFFIX)] if location.endswith(_SUFFIX) else location


def _holds(location: str, path: str) -> bool:
    """Tell whether ``location`` is an HDF5 file that has an object at ``path``."""
    file = opened_file(location)
    if file is None:
        return False
    try:
        with file:
            return path in file
    except H5_ERRORS as error:
        lack = resource_failure(error, "read", store=location)
        if lack is not None:
            raise lack from error
        return False
