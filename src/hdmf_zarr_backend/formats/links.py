"""Links <-> the entries of ``zarr_link`` on the parent group, and the rule whether data are linked or copied.

An entry is a reference with a ``name``. A link is soft if ``source == "."``, and external otherwise.
Format 3 has the same entries under another name: `zarr3_attributes`.

Source: hdmf-zarr storage specification, "Links"; semantics of ``HDF5IO.write_link`` and ``HDF5IO.write_dataset``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.references import Reference, decode_reference, encode_reference
from hdmf_zarr_backend.formats.reserved import LINKS, notes_of
from hdmf_zarr_backend.model.nodes import Hierarchy


@dataclass(slots=True, frozen=True)
class Link:
    """A named link to a group or dataset."""

    name: str
    target: Reference


def former_names(hierarchy: Hierarchy) -> frozenset[str]:
    """Return the names by which references and links in a file mean the file itself.

    hdmf-zarr 0.10 wrote the name of the file, which may have another one now. Attributes that are references also have
    the object id of its root.
    """
    root = hierarchy.root.attributes
    root_id = root.get("object_id")
    if "version" in notes_of(root) or not isinstance(root_id, str):
        return frozenset()
    values = (value for _, node in hierarchy.walk() for value in node.attributes.values())
    references = (
        value["value"] for value in values if isinstance(value, dict) and isinstance(value.get("value"), dict)
    )
    sources = (each.get("source") for each in references if each.get("source_object_id") == root_id)
    return frozenset(source for source in sources if isinstance(source, str) and "/" not in source)


def encode_link(link: Link) -> dict[str, Any]:
    """Return the entry of ``zarr_link`` for ``link``."""
    return {"name": link.name, **encode_reference(link.target)}


def decode_links(attributes: dict[str, Any]) -> list[Link]:
    """Return the links of a group, in the order of the file.

    Raises
    ------
    MetadataError
        ``zarr_link`` is not a list of entries with a name and a path.
    """
    entries = attributes.get(LINKS, [])
    if not isinstance(entries, list):
        raise MetadataError(f"{LINKS} is not a list", remedy="Run `zarrio verify` on the file.")
    links = []
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            raise MetadataError(f"the link {entry!r} has no name", remedy="Run `zarrio verify` on the file.")
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise MetadataError(f"a link cannot have the name {name!r}", remedy="Remove it from zarr_link.")
        links.append(Link(name, decode_reference(entry)))
    return links


def find_link(attributes: dict[str, Any], name: str) -> Link | None:
    """Return the link of a group with a name, None if it does not exist.

    Raises
    ------
    MetadataError
        ``zarr_link`` is not a list, or the entry with this name is not a link.
    """
    entries = attributes.get(LINKS, [])
    if isinstance(entries, list):  # decoding all of them for each step of a long chain would take too long
        entries = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name][:1]
    return next(iter(decode_links({LINKS: entries})), None)


Decision = Literal["copy", "soft", "external"]


def link_or_copy(
    *,
    data_location: str,
    data_path: str,
    own_location: str,
    own_path: str,
    export_location: str | None,
    link_data: bool,
) -> Decision:
    """Decide whether a stored array that is given as data is linked or copied.

    Parameters
    ----------
    data_location, data_path : str
        File and path of the given array.
    own_location, own_path : str
        File and path of the dataset to write.
    export_location : str or None
        The file that is being exported, None for a write.
    link_data : bool
        Whether links are allowed.

    Returns
    -------
    {"copy", "soft", "external"}
        ``soft``: the array is, or will be, in the file to write.

    Notes
    -----
    On export, a dataset of the exported file is copied to its own path, and linked from other paths. Complete paths are
    compared: a root-level array has the parent ``""`` on both sides.
    """
    if not link_data:
        return "copy"
    here = own_location if export_location is None else export_location
    if data_location == here:
        return "copy" if export_location is not None and data_path == own_path else "soft"
    return "external"
