"""Names of the axes of planned arrays, from builders and from the schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hdmf.spec import RefSpec

from hdmf_zarr_backend.formats.dimensions import decode_dimensions, encode_dimensions
from hdmf_zarr_backend.formats.elements import describe_any
from hdmf_zarr_backend.formats.reserved import DIMENSIONS, NOTES, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Hierarchy, join, split
from hdmf_zarr_backend.transfer.plan import WritePlan


def names_in(group: GroupNode[Attributes], *, without: Iterable[str] = ()) -> dict[str, int]:
    """Return ``{name: length}`` of the axes of the arrays in ``group``, but for the members named in ``without``."""
    left_out = set(without)
    lengths: dict[str, int] = {}
    for name, node in group.members.items():
        if isinstance(node, ArrayNode) and name not in left_out:
            names = node.attributes.get(DIMENSIONS)
            if isinstance(names, list) and len(names) == len(node.shape):
                lengths.update(zip(map(str, names), node.shape, strict=True))
    return lengths


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
        lengths: dict[str, int] = {}
        for name, node in sorted(group.members.items()):
            planned = plan.arrays.get(join(parent, name))
            if not isinstance(node, ArrayNode) or planned is None:
                continue
            if planned.iterator is not None:  # its axes are named when their lengths are known
                planned.labels = planned.labels or labels.get(join(parent, name))
                planned.taken = lengths
            elif DIMENSIONS in node.attributes:
                own = decode_dimensions(node.attributes)
                planned.notes.pop("dims", None)
                _name(node, labels.get(join(parent, name)) if own is None else own, lengths, planned.notes)


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
        lengths = names_in(group, without=members)
        for name in members:
            node = group.members[name]
            if isinstance(node, ArrayNode) and DIMENSIONS in node.attributes:
                notes = {key: value for key, value in notes_of(node.attributes).items() if key != "dims"}
                _name(node, decode_dimensions(node.attributes), lengths, notes)


def _name(
    node: ArrayNode[Attributes], labels: tuple[str | None, ...] | None, lengths: dict[str, int], notes: dict[str, Any]
) -> None:
    node.attributes[DIMENSIONS] = encode_dimensions(labels, node.shape, lengths, notes)
    if notes:
        node.attributes[NOTES] = notes
    else:
        node.attributes.pop(NOTES, None)


def dimension_labels(catalog: Any, hierarchy: Hierarchy) -> dict[str, tuple[str | None, ...]]:
    """Return ``{path: labels of the axes}`` of the arrays in a file, as hdmf takes them from the schema on writing.

    Parameters
    ----------
    catalog : NamespaceCatalog
        Knows the types of the file, in its own version.
    hierarchy : Hierarchy
        What is in the file.

    Source: ``hdmf.build.ObjectMapper.build``, for which specification is meant and which of its shapes.
    """
    found: dict[str, tuple[str | None, ...]] = {}
    stack: list[tuple[str, Any, Any]] = [("", hierarchy.root, None)]
    while stack:
        path, group, above = stack.pop()
        spec = _type_spec(catalog, group.attributes) or above
        for name, node in group.members.items():
            if isinstance(node, GroupNode):
                stack.append((join(path, name), node, None if spec is None else spec.get_group(name)))
                continue
            wanted = _dataset_spec(catalog, spec, name, node.attributes)
            labels = None if wanted is None else _labels_of(wanted, node)
            if labels is not None:
                found[join(path, name)] = labels
    return found


def _data_type(attributes: Attributes) -> tuple[str, str] | None:
    """Return namespace and type of a node."""
    namespace, data_type = attributes.get("namespace"), attributes.get("neurodata_type", attributes.get("data_type"))
    return (namespace, data_type) if isinstance(namespace, str) and isinstance(data_type, str) else None


def _type_spec(catalog: Any, attributes: Attributes) -> Any:
    found = _data_type(attributes)
    if found is None or found[0] not in catalog.namespaces:
        return None
    known = found[1] in catalog.get_namespace(found[0]).get_registered_types()
    return catalog.get_spec(*found) if known else None


def _dataset_spec(catalog: Any, above: Any, name: str, attributes: Attributes) -> Any:
    """Return the specification of a dataset at its place in a group, or else of its type."""
    own = _type_spec(catalog, attributes)
    if above is None:
        return own
    placed = above.get_dataset(name)
    if placed is not None or own is None:
        return placed
    namespace, data_type = str(attributes["namespace"]), attributes.get("neurodata_type", attributes.get("data_type"))
    for kind in catalog.get_hierarchy(namespace, data_type):
        placed = above.get_data_type(kind)
        if placed is not None:
            return placed[0] if isinstance(placed, list) else placed
    return own


def _labels_of(spec: Any, node: ArrayNode[Attributes]) -> tuple[str | None, ...] | None:
    """Return the labels that belong to the shape of an array; None where its shape is none that is allowed."""
    means = describe_any(node)
    if spec.shape is None or spec.dims is None or not spec.shape:
        return None
    if means.is_scalar:
        return None
    is_row = isinstance(spec.dtype, (list, RefSpec)) or means.stored.kind == "reference"
    shape = means.axes[:1] if is_row else means.axes
    if not isinstance(spec.shape[0], (list, tuple)):
        return tuple(spec.dims) if _allows(spec.shape, shape) else None
    fitting = [index for index, allowed in enumerate(spec.shape) if _allows(allowed, shape)]
    if not fitting:
        return None
    best = min(fitting, key=lambda index: sum(length is None for length in spec.shape[index]))
    return tuple(spec.dims[best])


def _allows(allowed: Any, shape: tuple[int, ...]) -> bool:
    return len(allowed) == len(shape) and all(
        bound is None or bound == length for bound, length in zip(allowed, shape, strict=True)
    )
