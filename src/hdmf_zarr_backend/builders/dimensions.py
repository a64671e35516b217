"""Names of the axes of planned arrays, from builders and from the schema."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hdmf_zarr_backend.builders.namespaces import is_registered
from hdmf_zarr_backend.formats.dimensions import decode_dimensions
from hdmf_zarr_backend.formats.elements import describe_any
from hdmf_zarr_backend.formats.reserved import DIMENSIONS, notes_of
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, Group, Hierarchy, join, split
from hdmf_zarr_backend.transfer.plan import WritePlan, set_dimensions


def names_in(group: Group[Attributes], *, without: Iterable[str] = ()) -> dict[str, int]:
    """Return ``{name: length}`` of the axes of the arrays in ``group``, except those of the members in ``without``."""
    left_out = set(without)
    lengths: dict[str, int] = {}
    for name, node in group.members.items():
        if isinstance(node, Dataset) and name not in left_out:
            names = node.attributes.get(DIMENSIONS)
            if isinstance(names, list) and len(names) == len(node.stored.shape):
                lengths.update(zip(map(str, names), node.stored.shape, strict=True))
    return lengths


def name_axes(plan: WritePlan, catalog: Any) -> None:
    """Name the axes of arrays without labels after the schema, in the order of the array names.

    ``catalog`` is a ``NamespaceCatalog`` of hdmf. Nothing is changed if it is None, for an unknown schema.
    """
    if catalog is None:
        return
    labels = dimension_labels(catalog, plan.hierarchy)
    for parent, group in plan.hierarchy.walk():
        if not isinstance(group, Group):
            continue
        lengths: dict[str, int] = {}
        for name, node in sorted(group.members.items()):
            planned = plan.arrays.get(join(parent, name))
            if not isinstance(node, Dataset) or planned is None:
                continue
            if planned.iterator is not None:  # its axes are named later, when their lengths are known
                planned.labels = planned.labels or labels.get(join(parent, name))
                planned.taken = lengths
            elif DIMENSIONS in node.attributes:
                own = decode_dimensions(node.attributes)
                planned.notes.pop("dims", None)
                set_dimensions(node, labels.get(join(parent, name)) if own is None else own, lengths, planned.notes)


def rename_axes(hierarchy: Hierarchy, paths: Iterable[str]) -> None:
    """Rename the axes of arrays whose shapes have changed, so that each name has one length in its group."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        parent, name = split(path)
        groups.setdefault(parent, []).append(name)
    for parent, members in groups.items():
        group = hierarchy.get(parent)
        if not isinstance(group, Group):
            continue
        lengths = names_in(group, without=members)
        for name in members:
            node = group.members[name]
            if isinstance(node, Dataset) and DIMENSIONS in node.attributes:
                notes = {key: value for key, value in notes_of(node.attributes).items() if key != "dims"}
                set_dimensions(node, decode_dimensions(node.attributes), lengths, notes)


def dimension_labels(catalog: Any, hierarchy: Hierarchy) -> dict[str, tuple[str | None, ...]]:
    """Return ``{path: labels of the axes}`` of the arrays in a file, as hdmf derives them from the schema."""
    found: dict[str, tuple[str | None, ...]] = {}
    stack: list[tuple[str, Any, Any]] = [("", hierarchy.root, None)]
    while stack:
        path, group, above = stack.pop()
        spec, _ = _spec_of_type(catalog, group.attributes)
        spec = spec or above
        for name, node in group.members.items():
            if isinstance(node, Group):
                stack.append((join(path, name), node, None if spec is None else spec.get_group(name)))
                continue
            wanted = _dataset_spec(catalog, spec, name, node.attributes)
            labels = None if wanted is None else _labels_of(wanted, node)
            if labels is not None:
                found[join(path, name)] = labels
    return found


def _spec_of_type(catalog: Any, attributes: Attributes) -> tuple[Any, Sequence[str]]:
    """Return the specification of a node's type, and the names of the type and of its ancestors."""
    namespace, data_type = attributes.get("namespace"), attributes.get("neurodata_type", attributes.get("data_type"))
    if not isinstance(namespace, str) or not isinstance(data_type, str):
        return None, ()
    if not is_registered(catalog, namespace, data_type):
        return None, ()
    return catalog.get_spec(namespace, data_type), catalog.get_hierarchy(namespace, data_type)


def _dataset_spec(catalog: Any, above: Any, name: str, attributes: Attributes) -> Any:
    """Return the specification of a dataset by its name in a group, or else by its type."""
    own, types = _spec_of_type(catalog, attributes)
    if above is None:
        return own
    placed = above.get_dataset(name)
    if placed is not None or own is None:
        return placed
    for data_type in types:
        placed = above.get_data_type(data_type)
        if placed is not None:
            return placed[0] if isinstance(placed, list) else placed
    return own


def _labels_of(spec: Any, node: Dataset[Attributes]) -> tuple[str | None, ...] | None:
    """Return the labels for the shape of an array; None if the specification does not allow its shape."""
    means = describe_any(node)
    if means.is_scalar or not spec.shape or not _are_lists(spec.shape, spec.dims):
        return None
    is_row = not isinstance(spec.dtype, str | None) or means.stored.kind == "reference"
    shape = means.axes[:1] if is_row else means.axes
    is_choice = isinstance(spec.shape[0], (list, tuple))
    choices = zip(spec.shape, spec.dims, strict=False) if is_choice else [(spec.shape, spec.dims)]
    fitting = [(allowed, labels) for allowed, labels in choices if _fits(allowed, labels, shape)]
    _, best = min(fitting, key=lambda choice: choice[0].count(None), default=(None, None))  # the most specific shape
    return None if best is None else tuple(best)


def _are_lists(*values: Any) -> bool:
    return all(isinstance(value, (list, tuple)) for value in values)


def _fits(allowed: Any, labels: Any, shape: tuple[int, ...]) -> bool:
    """Tell whether a shape in the schema, with its labels, allows the shape of an array."""
    return (
        _are_lists(allowed, labels)
        and len(allowed) == len(labels) == len(shape)
        and all(bound in (None, length) for bound, length in zip(allowed, shape, strict=True))
    )
