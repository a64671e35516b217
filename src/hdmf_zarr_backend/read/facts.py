"""What a Zarr file says, node by node, for comparing.

Two views of the same file. As it is: its own chunks and codecs, links as Zarr has them. As HDF5: what each object was,
or would be, in HDF5, from the notes that a conversion keeps; so that a faithful conversion differs in nothing from its
source.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hdmf_zarr_backend.errors import StoreError, UsageError, ZarrBackendError
from hdmf_zarr_backend.mapping.attributes import decode_attributes
from hdmf_zarr_backend.mapping.facts import (
    AttributeFacts,
    DatatypeFacts,
    GroupFacts,
    LinkFacts,
    NodeFacts,
    Reference,
    Values,
)
from hdmf_zarr_backend.mapping.jsonvalues import is_reference
from hdmf_zarr_backend.mapping.links import Link, decode_links
from hdmf_zarr_backend.mapping.references import Reference as StoredReference
from hdmf_zarr_backend.mapping.references import decode_attribute_reference, decode_reference
from hdmf_zarr_backend.mapping.reserved import LINKS, SPECLOC, notes_of, visible
from hdmf_zarr_backend.mapping.specloc import spec_location
from hdmf_zarr_backend.model import v2, v3
from hdmf_zarr_backend.model.locations import THIS_FILE, resolve_source, sibling_source
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Node, absolute, join, relative, split
from hdmf_zarr_backend.read.factarrays import ArrayReader
from hdmf_zarr_backend.read.facttypes import REFERENCE, REGION, noted_element, numpy_element
from hdmf_zarr_backend.read.factvalues import attribute_facts, canonical_region, nested_array, noted_attribute
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.opening import open_keys

__all__ = ["ZarrFacts", "is_zarr"]

_DANGLING = "<dangling>"
_MARKS = (v2.GROUP, v2.ARRAY, v2.CONSOLIDATED, v3.DOCUMENT)


def is_zarr(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is a Zarr hierarchy, of whatever format, in a directory, a zip file or at a URL."""
    try:
        return bool(open_keys(path).get_many(_MARKS))
    except (StoreError, UsageError):
        return False


def is_zarr_3(path: str | os.PathLike[str]) -> bool:
    """Tell whether there is a Zarr hierarchy of format 3."""
    try:
        return open_keys(path).get(v3.DOCUMENT) is not None
    except (StoreError, UsageError):
        return False


class ZarrFacts(Mapping[str, NodeFacts]):
    """`FileFacts` of a Zarr file.

    Links are not followed; references are resolved to the path of their target, through links where these lead there.
    The consolidated document is used where there is one, but values are those of the chunks.

    Parameters
    ----------
    path : str or PathLike
        A local directory, zip file or file of references, or a URL.
    as_hdf5 : bool
        Give what the objects are as HDF5: chunks, filters, layouts, fill values, forms of links; what was copied since
        an external link led to it is the link again.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        As of `read.parser.parse`.
    """

    def __init__(self, path: str | os.PathLike[str], *, as_hdf5: bool = False) -> None:
        self._as_hdf5 = as_hdf5
        self._keys: KeyStore = open_keys(path)
        self.source = self._keys.location
        self._hierarchy = parse(self._keys, use_inlined=False).hierarchy
        self._spec_path = spec_location(self._hierarchy.root.attributes.get(SPECLOC))
        self._arrays = ArrayReader(self._keys, self._resolve, as_hdf5=as_hdf5)
        self._stored_links: dict[str, Link] = {}
        self._links: dict[str, LinkFacts] = {}
        self._datatypes: dict[str, dict[str, Any]] = {}
        self._paths: list[str] = []
        hidden: set[str] = set()
        for node_path, node in self._hierarchy.walk():
            parent = split(node_path)[0]
            if parent in hidden or node_path in hidden:
                hidden.add(node_path)  # below the copy of what an external link led to
                continue
            self._paths.append(absolute(node_path))
            if isinstance(node, GroupNode):
                hidden |= self._add_members(node_path, node)

    def _add_members(self, path: str, node: GroupNode[Attributes]) -> set[str]:
        """Add the links and named types of a group; return the paths of members that were links in HDF5."""
        for name, link in self._links_of(path, node).items():
            place = absolute(join(path, name))
            self._stored_links[place] = link
            self._add(place, self._link_facts(link.target))
        note = _hdf5_note(node)
        copies: set[str] = set()
        for name, said in _dict(note.get("links")).items() if self._as_hdf5 else ():
            facts = self._noted_link(path, name, said)
            if facts is not None and (name in node.members or absolute(join(path, name)) in self._links):
                self._add(absolute(join(path, name)), facts)
                copies.add(join(path, name))
        for name, datatype in _dict(note.get("datatypes")).items():
            if name not in node.members and isinstance(datatype, dict):
                self._datatypes[absolute(join(path, name))] = datatype
                self._paths.append(absolute(join(path, name)))
        return copies

    def _add(self, place: str, facts: LinkFacts) -> None:
        if place not in self._links:
            self._paths.append(place)
        self._links[place] = facts

    def _links_of(self, path: str, node: GroupNode[Attributes]) -> dict[str, Link]:
        if LINKS not in node.attributes:
            return {}
        try:
            links = decode_links(node.attributes)
        except ZarrBackendError as error:
            raise error.located(store=self.source, path=absolute(path)) from None
        found: dict[str, Link] = {}
        for link in links:
            if link.name not in node.members:
                found.setdefault(link.name, link)
        return found

    def close(self) -> None:
        """Forget the decoded chunks."""
        self._arrays.forget()

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, path: str) -> NodeFacts:
        if path in self._links:
            return self._links[path]
        try:
            if path in self._datatypes:
                return self._datatype(self._datatypes[path])
            node = self._hierarchy.get(path)
            if node is None:
                raise KeyError(path)
            attributes = self._attributes(path, node)
            if isinstance(node, GroupNode):
                return GroupFacts(attributes)
            specs = self._spec_path
            is_spec = specs is not None and path.startswith(f"/{specs}/")
            return self._arrays.facts(relative(path), node, attributes, is_spec=is_spec)
        except ZarrBackendError as error:
            raise error.located(store=self.source, path=path) from error.__cause__

    def _datatype(self, note: dict[str, Any]) -> DatatypeFacts:
        attributes = {}
        for name, said in _dict(note.get("attributes")).items():
            facts = noted_attribute(None, _dict(said), self._resolve)
            if facts is not None:
                attributes[name] = facts
        return DatatypeFacts(attributes, noted_element(note.get("type")))

    # ---- links and references ---------------------------------------------------------------------------------------

    def _link_facts(self, target: StoredReference) -> LinkFacts:
        if self._is_own(target.source):
            return LinkFacts("soft", absolute(target.path))
        location = resolve_source(target.source, self.source)
        return LinkFacts("external", absolute(target.path), target.source, location)

    def _noted_link(self, group: str, name: str, said: Any) -> LinkFacts | None:
        """Return what a link was in HDF5: hard, soft with a target spelled otherwise, or external."""
        place = absolute(join(group, name))
        if said == "hard" and place in self._links:
            return LinkFacts("hard", self._links[place].target)
        if isinstance(said, dict) and isinstance(said.get("soft"), str):
            parts = posixpath.join(absolute(group), said["soft"]).split("/")
            return LinkFacts("soft", "/" + "/".join(part for part in parts if part not in ("", ".")))
        if isinstance(said, dict) and isinstance(said.get("source"), str) and isinstance(said.get("path"), str):
            location = resolve_source(said["source"], self.source)
            return LinkFacts("external", absolute(said["path"]), said["source"], location)
        return None

    def _is_own(self, source: str) -> bool:
        if source in (THIS_FILE, ""):
            return True
        return self.source in (resolve_source(source, self.source), sibling_source(source, self.source))

    def _resolve(self, value: Any) -> Reference:
        """Return what a stored reference means; one that cannot be understood leads nowhere."""
        if value is None:
            return Reference(None)
        try:
            decoded = decode_reference(value)
        except ZarrBackendError:
            return Reference(_DANGLING)
        return self._follow(decoded.source, decoded.node_path, decoded.region)

    def _follow(self, source: str, path: str, region: Any) -> Reference:
        seen: set[str] = set()
        while self._is_own(source):
            if path in seen:
                return Reference(_DANGLING)  # links that go round in a circle
            seen.add(path)
            found = self._next_step(path)
            if found is None:
                return Reference(_DANGLING)
            source, path, arrived = found
            if arrived:
                target = self._hierarchy.get(path)
                shape = target.shape if isinstance(target, ArrayNode) else None
                return Reference(absolute(path), canonical_region(region, shape))
        return Reference(absolute(path), canonical_region(region, None), source)

    def _next_step(self, path: str) -> tuple[str, str, bool] | None:
        """Return the file and path that `path` means after its first link, and whether that is a node."""
        node: Any = self._hierarchy.root
        here = ""
        parts = path.split("/") if path else []
        for position, part in enumerate(parts):
            here = join(here, part)
            if isinstance(node, GroupNode) and part in node.members:
                node = node.members[part]
                continue
            if absolute(here) in self._datatypes and position == len(parts) - 1:
                return THIS_FILE, path, True
            link = self._stored_links.get(absolute(here))
            if link is None:
                return None
            return link.target.source, "/".join([link.target.node_path, *parts[position + 1 :]]).strip("/"), False
        return THIS_FILE, path, True

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, path: str, node: Node) -> dict[str, AttributeFacts]:
        stored = node.attributes
        values = decode_attributes(stored, resolve=self._attribute_reference)
        facts = {name: attribute_facts(value) for name, value in values.items()}
        facts.update(self._reference_tables(stored))
        facts.update(_empty_attributes(stored))
        for name, said in _dict(_hdf5_note(node).get("attributes")).items():
            noted = noted_attribute(facts.get(name), _dict(said), self._resolve)
            if noted is not None:
                facts[name] = noted
        if path == "/" and self._spec_path is not None:
            target = np.array(None, dtype=object)
            target[()] = self._follow(THIS_FILE, self._spec_path, None)
            facts[SPECLOC] = AttributeFacts(REFERENCE, (), target)
        return facts

    def _reference_tables(self, stored: Attributes) -> dict[str, AttributeFacts]:
        """Return the attributes of references with several axes, which are nested lists of JSON in every format."""
        found = {}
        for key, name in visible(stored).items():
            items = nested_array(stored[key])
            if items is None or not all(is_reference(item) for item in items.flat):
                continue
            is_region = any(item["zarr_dtype"] == "region" for item in items.flat)
            values: Values = np.empty(items.shape, dtype=object)
            values.reshape(-1)[:] = [self._attribute_reference(item) for item in items.flat]
            found[name] = AttributeFacts(REGION if is_region else REFERENCE, items.shape, values)
        return found

    def _attribute_reference(self, value: dict[str, Any]) -> Reference:
        try:
            decoded = decode_attribute_reference(value)
        except ZarrBackendError:
            return Reference(_DANGLING)
        return self._follow(decoded.source, decoded.node_path, decoded.region)


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _hdf5_note(node: Node) -> dict[str, Any]:
    return _dict(notes_of(node.attributes).get("hdf5"))


def _empty_attributes(stored: Attributes) -> dict[str, AttributeFacts]:
    """Return the attributes that have a type and no value; decoded they look like arrays of length 0."""
    remarks = _dict(notes_of(stored).get("attributes"))
    return {
        name: AttributeFacts(numpy_element(np.dtype(str(remark["dtype"]))), None, None)
        for key, name in visible(stored).items()
        if isinstance(remark := remarks.get(key), dict) and remark.get("null") and "dtype" in remark
    }
