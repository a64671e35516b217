"""Dimension names of arrays whose lengths change."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hdmf_zarr_backend.mapping.dimensions import decode_dimensions, encode_dimensions
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, NOTES, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Hierarchy, split


def names_in(group: GroupNode[Attributes], *, without: Iterable[str] = ()) -> dict[str, int]:
    """Return ``{name: length}`` of the axes of the arrays in ``group``, but for the members named in ``without``."""
    left_out = set(without)
    taken: dict[str, int] = {}
    for name, node in group.members.items():
        if isinstance(node, ArrayNode) and name not in left_out:
            names = node.attributes.get(DIMENSIONS)
            if isinstance(names, list) and len(names) == len(node.shape):
                taken.update(zip(map(str, names), node.shape, strict=True))
    return taken


def rename_axes(hierarchy: Hierarchy, paths: Iterable[str]) -> None:
    """Give the arrays at ``paths``, whose shapes have changed, names that hold one length in their group."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        parent, name = split(path)
        groups.setdefault(parent, []).append(name)
    for parent, members in groups.items():
        group = hierarchy.get(parent)
        if not isinstance(group, GroupNode):
            continue
        taken = names_in(group, without=members)
        for name in members:
            node = group.members[name]
            if isinstance(node, ArrayNode) and DIMENSIONS in node.attributes:
                _rename(node, taken)


def _rename(node: ArrayNode[Attributes], taken: dict[str, int]) -> None:
    labels = decode_dimensions(node.attributes)
    notes: dict[str, Any] = {key: value for key, value in notes_of(node.attributes).items() if key != "dims"}
    node.attributes[DIMENSIONS] = encode_dimensions(labels, node.shape, taken, notes)
    if notes:
        node.attributes[NOTES] = notes
    else:
        node.attributes.pop(NOTES, None)
