"""The order in which links and attributes were made, where an HDF5 object keeps it (``track_order`` of h5py).

A note of it is ``[flags]``, or ``[flags, names]`` where the names were not made in alphabetical order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hdmf_zarr_backend.model.facts import text_of

LINKS = "link_order"
ATTRIBUTES = "attribute_order"

_TRACKED, _INDEXED = 1, 2


def note_orders(node: Any, created: Any, note: dict[str, Any]) -> None:
    """Add the orders that a group or dataset keeps to its note.

    Parameters
    ----------
    node : h5py.h5g.GroupID or h5py.h5d.DatasetID
        The object.
    created : h5py.h5p.PropOCID
        Its creation property list.
    note : dict
        What is noted of it.
    """
    from h5py import h5, h5a, h5g

    flags = created.get_attr_creation_order()
    if flags & _TRACKED:
        names: list[bytes] = []
        if h5a.get_num_attrs(node):
            h5a.iterate(node, names.append, index_type=h5.INDEX_CRT_ORDER)
        note[ATTRIBUTES] = _noted(flags, names)
    if isinstance(node, h5g.GroupID) and (flags := created.get_link_creation_order()) & _TRACKED:
        note[LINKS] = _noted(flags, _links(node))


def _noted(flags: int, names: list[bytes]) -> list[Any]:
    return [flags] if names == sorted(names) else [flags, [text_of(name) for name in names]]


def _links(group: Any) -> list[bytes]:
    from h5py import h5

    names: list[bytes] = []
    group.links.iterate(names.append, idx_type=h5.INDEX_CRT_ORDER)
    return names


def set_orders(properties: Any, note: dict[str, Any]) -> None:
    """Let a new object keep the orders that are noted.

    Parameters
    ----------
    properties : h5py.h5p.PropOCID or h5py.h5p.PropFCID
        Creation property list of the object, or of the file for its root.
    note : dict
        What is noted of the object.
    """
    if flags := _flags(note, ATTRIBUTES):
        properties.set_attr_creation_order(flags)
    if flags := _flags(note, LINKS):
        properties.set_link_creation_order(flags)


def _flags(note: dict[str, Any], key: str) -> int:
    """Return the noted flags; 0 where there are none that HDF5 has."""
    noted = note.get(key)
    flags = noted[0] if isinstance(noted, list) and noted else 0
    return flags if flags in (_TRACKED, _TRACKED | _INDEXED) else 0


def in_order(names: Iterable[str], note: dict[str, Any], key: str) -> list[str]:
    """Return names in the noted order; those that it does not name come last, by name."""
    if not _flags(note, key):
        return list(names)
    noted = note[key]
    known = noted[1] if len(noted) > 1 and isinstance(noted[1], list) else []
    rank = {name: place for place, name in enumerate(known) if isinstance(name, str)}
    return sorted(names, key=lambda name: (rank.get(name, len(rank)), name.encode("utf-8", "surrogateescape")))


def order_links(group: Any, note: dict[str, Any], creation: Any) -> None:
    """Bring the links of a group into the noted order; they are counted as made when they are moved.

    Parameters
    ----------
    group : h5py.h5g.GroupID
        The group, with all links.
    note : dict
        What is noted of it.
    creation : h5py.h5p.PropLCID
        Property list of the links.
    """
    if not _flags(note, LINKS):
        return
    found = _links(group)
    wanted = [name.encode("utf-8", "surrogateescape") for name in in_order(map(text_of, found), note, LINKS)]
    if found == wanted:
        return
    aside = b"aside"
    while aside in found:
        aside += b"_"
    for name in wanted:
        group.links.move(name, group, aside, creation)
        group.links.move(aside, group, name, creation)
