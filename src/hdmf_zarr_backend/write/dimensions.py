"""Dimension names of arrays whose lengths change, or whose labels are known after they were planned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hdmf_zarr_backend.mapping.dimensions import decode_dimensions, encode_dimensions
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, NOTES, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Hierarchy, join, split
from hdmf_zarr_backend.write.plan import WritePlan
from hdmf_zarr_backend.write.schemawords import dimension_labels


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


def name_axes(plan: WritePlan, catalog: Any) -> None:
    """Give the arrays of a plan that have no labels those of the schema, in the order of their names.

    Parameters
    ----------
    plan : WritePlan
        Of the whole file.
    catalog : NamespaceCatalog or None
        Its schema; None: nothing is known, and names stay as they are.
    """
    if catalog is None:
        return
    labels = dimension_labels(catalog, plan.hierarchy)
    for parent, group in plan.hierarchy.walk():
        if not isinstance(group, GroupNode):
            continue
        taken: dict[str, int] = {}
        for name, node in sorted(group.members.items()):
            planned = plan.arrays.get(join(parent, name))
            if not isinstance(node, ArrayNode) or planned is None:
                continue
            if planned.iterator is not None:  # its axes are named when their lengths are known
                planned.labels = planned.labels or labels.get(join(parent, name))
                planned.taken = taken
            elif DIMENSIONS in node.attributes:
                own = decode_dimensions(node.attributes)
                planned.notes.pop("dims", None)
                _name(node, labels.get(join(parent, name)) if own is None else own, taken, planned.notes)


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
    _name(node, labels, taken, {key: value for key, value in notes_of(node.attributes).items() if key != "dims"})


def _name(
    node: ArrayNode[Attributes], labels: tuple[str | None, ...] | None, taken: dict[str, int], notes: dict[str, Any]
) -> None:
    node.attributes[DIMENSIONS] = encode_dimensions(labels, node.shape, taken, notes)
    if notes:
        node.attributes[NOTES] = notes
    else:
        node.attributes.pop(NOTES, None)
