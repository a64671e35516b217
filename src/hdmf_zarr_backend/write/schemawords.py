"""What the schema says of a builder that is written: how far a dataset may grow, and its documentation."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any


def largest_shape(manager: Any, builder: Any, expandable: Collection[str]) -> tuple[int | None, ...] | None:
    """Return the shape that the schema allows, for the types whose datasets users append to (HDF5IO's rule).

    Parameters
    ----------
    manager : BuildManager
        Knows the types.
    builder : DatasetBuilder
        The dataset.
    expandable : collection of str
        The names of those types.
    """
    shape = builder.matched_spec_shape
    if shape is None or not expandable or manager.get_builder_dt(builder) is None:
        return None
    if not any(manager.is_sub_data_type(builder, name) for name in expandable):
        return None
    return tuple(shape)


def documentation(manager: Any, builder: Any) -> str | None:
    """Return what the schema says of a group or dataset: of its type, or of its place where it has no type.

    The place of a builder is known where it was built of a container; of one that was only read, it is not.

    Parameters
    ----------
    manager : BuildManager
        Knows the types.
    builder : GroupBuilder or DatasetBuilder
        The group or dataset.

    Source: hdmf-zarr storage specification, "Mapping of groups" and "Mapping of datasets", the key ``doc``.
    """
    data_type, namespace = manager.get_builder_dt(builder), manager.get_builder_ns(builder)
    if data_type is not None and namespace is not None:
        return str(manager.namespace_catalog.get_spec(namespace, data_type).doc)
    doc = getattr(builder.matched_spec, "doc", None)
    return None if doc is None else str(doc)
