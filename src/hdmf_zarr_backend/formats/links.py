"""Links <-> the entries of ``zarr_link`` on the parent group.

An entry is a reference with a ``name``. A link is soft if ``source == "."``, and external otherwise.
Format 3 has the same entries under another name: `zarr3_attributes`.

Source: hdmf-zarr storage specification, "Links".
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hdmf_zarr_backend.encoding.references import ZarrReference, decode_reference, encode_reference
from hdmf_zarr_backend.encoding.reserved import LINKS, notes_of
from hdmf_zarr_backend.errors import MetadataError, at
from hdmf_zarr_backend.model.nodes import Group, Hierarchy


@dataclass(slots=True, frozen=True)
class Link:
    """A named link to a group or dataset."""

    name: str
    target: ZarrReference


def encode_link(link: Link) -> dict[str, Any]:
    """Return the entry of ``zarr_link`` for ``link``."""
    return {"name": link.name, **encode_reference(link.target)}


def decode_links(attributes: dict[str, Any]) -> list[Link]:
    """Return the links of a group, in the order of the file."""
    entries = attributes.get(LINKS, [])
    if not isinstance(entries, list):
        raise MetadataError(f"{LINKS} is not a list")
    links = []
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise MetadataError(f"the link {entry!r} has no name")
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise MetadataError(f"a link cannot have the name {name!r}", remedy="Remove it from zarr_link.")
        links.append(Link(name, decode_reference(entry)))
    return links


def find_link(attributes: dict[str, Any], name: str) -> ZarrReference | None:
    """Return the target of the link of a group with a name, None if it does not exist."""
    entries = attributes.get(LINKS, [])
    if isinstance(entries, list):  # decoding all of them for each step of a long chain would take too long
        entries = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name][:1]
    return next((link.target for link in decode_links({LINKS: entries})), None)


@dataclass(eq=False)
class LinkedFile:
    """A file that links lead from or to, as `model.links.Resolver` needs it.

    Attributes
    ----------
    store : Store
        Its store.
    hierarchy : Hierarchy
        Its nodes.
    location : str
        Absolute path or URL.
    """

    store: Any
    hierarchy: Hierarchy
    location: str

    @property
    def root_id(self) -> str | None:
        """Object id of the root."""
        value = self.hierarchy.root.attributes.get("object_id")
        return value if isinstance(value, str) else None

    @cached_property
    def former_names(self) -> frozenset[str]:
        """Sources other than ``"."`` that mean the file itself.

        hdmf-zarr 0.10 wrote the name of the file, which may have another one now. Attributes that are references also
        have the object id of its root.
        """
        if not self.names_siblings or self.root_id is None:
            return frozenset()
        values = (value for _, node in self.hierarchy.walk() for value in node.attributes.values())
        references = (
            value["value"] for value in values if isinstance(value, dict) and isinstance(value.get("value"), dict)
        )
        sources = (each.get("source") for each in references if each.get("source_object_id") == self.root_id)
        return frozenset(source for source in sources if isinstance(source, str) and "/" not in source)

    @cached_property
    def names_siblings(self) -> bool:
        """Whether it may be a file of hdmf-zarr 0.10, which named other files from the folder of the store."""
        return "version" not in notes_of(self.hierarchy.root.attributes)

    def links(self, path: str, group: Group[Any]) -> list[Link]:
        """Return the links of the group at ``path``; of several with one name, the first.

        MetadataError if one has the name of a member, since one of the two would be lost.
        """
        if LINKS not in group.attributes:
            return []
        with at(self.location, path):
            links = decode_links(group.attributes)
            for link in links:
                if link.name in group.members:
                    problem = f"the name {link.name!r} is that of a link and of a member"
                    raise MetadataError(problem, remedy="Rename one of them in the file.")
        return list({link.name: link for link in reversed(links)}.values())[::-1]

    def link_in(self, group: Group[Any], name: str) -> tuple[str, str] | None:
        """Return source and path of the target of a link, None if the group has no such link."""
        with at(self.location):
            target = find_link(group.attributes, name)
        return None if target is None else (target.source, target.node_path)
