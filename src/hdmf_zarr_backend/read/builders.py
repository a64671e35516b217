"""Builders made without asking hdmf to check what is known to be right.

hdmf checks every attribute and member of a builder that is given to its constructor; for a file of thousands of nodes
that is half the time of opening it. Here the same builder is made through the same public properties, and the one
check that a file can fail (a name used twice) stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend.errors import MetadataError


def make_group(
    name: str, *, groups: Mapping[str, Any], datasets: Mapping[str, Any], attributes: Mapping[str, Any], source: str
) -> Any:
    """Return a ``GroupBuilder`` with its members.

    Raises
    ------
    MetadataError
        An attribute has the name of a member: hdmf has one name space for both.
    """
    builder = GroupBuilder(name=name, source=source)
    kinds = builder.obj_type
    builder.attributes.update(attributes)
    kinds.update(dict.fromkeys(attributes, "attributes"))
    for kind, members, target in (("groups", groups, builder.groups), ("datasets", datasets, builder.datasets)):
        for member, child in members.items():
            if member in kinds:
                raise MetadataError(
                    f"the name {member!r} is that of an attribute and of a member",
                    remedy="Rename one of them in the file.",
                )
            target[member] = child
            kinds[member] = kind
            if child.parent is None:
                child.parent = builder
    return builder


def make_dataset(name: str, *, attributes: Mapping[str, Any], source: str, **values: Any) -> Any:
    """Return a ``DatasetBuilder``; ``values`` are arguments of its constructor."""
    builder = DatasetBuilder(name=name, source=source, **values)
    builder.attributes.update(attributes)
    return builder
