"""Builders made without asking hdmf to check what is known to be right.

hdmf checks every argument, attribute and member of a builder; for a file of thousands of nodes that is most of the time
of opening it. Here hdmf makes one builder of each kind, the pattern, and all others are copies of it in which the
values of the pattern are exchanged. The one check that a file can fail (a name used twice) stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.nodes import join

_PLAIN = (type(None), str, bool, tuple, dict)


class _Pattern:
    """A builder made by hdmf, and where it keeps the arguments that it was made with.

    Where another version of hdmf keeps them in a way that is not understood here, its constructor is called instead.

    Parameters
    ----------
    cls : type
        Class of the builder.
    **arguments
        What the constructor takes, each value one that no other argument and no default has.
    """

    def __init__(self, cls: type, **arguments: Any) -> None:
        builder = cls(**arguments)
        self._cls: Any = cls
        given = list(arguments.values())
        self._items = [(key, isinstance(value, dict)) for key, value in dict.items(builder)]
        self._values = [
            (name, key)
            for name, argument in arguments.items()
            for key, value in dict.items(builder)
            if value is argument
        ]
        self._state = dict(getattr(builder, "__dict__", {}))
        self._dicts = [key for key, value in self._state.items() if type(value) is dict]
        self._places = [
            (name, key)
            for name, argument in arguments.items()
            for key, value in self._state.items()
            if value is argument
        ]
        self._is_understood = (
            {name for name, _ in (*self._places, *self._values)} == arguments.keys()
            and all(type(value) in _PLAIN for value in self._state.values())
            and all(
                value is None or any(value is argument for argument in given) or value == {}
                for value in dict.values(builder)
            )
        )

    def copy(self, **arguments: Any) -> Any:
        """Return a builder as the constructor makes it of ``arguments``, which are those of the pattern."""
        if not self._is_understood:
            return self._cls(**arguments)
        builder = self._cls.__new__(self._cls)
        for key, is_dict in self._items:
            dict.__setitem__(builder, key, {} if is_dict else None)
        state = builder.__dict__
        state.update(self._state)
        for key in self._dicts:
            state[key] = {}
        for name, key in self._places:
            state[key] = arguments[name]
        for name, key in self._values:
            dict.__setitem__(builder, key, arguments[name])
        return builder


_GROUP = _Pattern(GroupBuilder, name="a group", source="the file of a group")
_DATASET = _Pattern(
    DatasetBuilder,
    name="a dataset",
    source="the file of a dataset",
    dtype="its type",
    maxshape=(1, 2, 3),
    dimension_labels=("x", "y", "z"),
    chunks=True,
)


_LINK = _Pattern(LinkBuilder, builder=GroupBuilder(name="a target"), name="a link", source="the file of a link")

_TAKEN = "the name {!r} is that of an attribute and of a member"
_RENAME = "Rename one of them in the file."


def make_group(
    name: str, *, groups: Mapping[str, Any], datasets: Mapping[str, Any], attributes: Mapping[str, Any], source: str
) -> Any:
    """Return a ``GroupBuilder`` with its members.

    Raises
    ------
    MetadataError
        An attribute has the name of a member: hdmf has one name space for both.
    """
    builder = _GROUP.copy(name=name, source=source)
    kinds = builder.obj_type
    builder.attributes.update(attributes)
    kinds.update(dict.fromkeys(attributes, "attributes"))
    for kind, members, target in (("groups", groups, builder.groups), ("datasets", datasets, builder.datasets)):
        for member, child in members.items():
            if member in kinds:
                raise MetadataError(_TAKEN.format(member), remedy=_RENAME)
            target[member] = child
            kinds[member] = kind
            if child.parent is None:
                child.parent = builder
    return builder


def set_link(group: Any, name: str, target: Any, *, path: str) -> None:
    """Give the builder of the group at ``path`` a link to a builder.

    Raises
    ------
    MetadataError
        It has the name of another member, or of an attribute.
    """
    if group.obj_type.get(name, "links") != "links":
        raise MetadataError(
            f"a link has the name {name!r} of another member", store=group.source, path=join(path, name), remedy=_RENAME
        )
    link = _LINK.copy(builder=target, name=name, source=group.source)
    link.location = path
    link.parent = group
    group.links[name] = link
    group.obj_type[name] = "links"


def set_reference(builder: Any, path: str, name: str, value: Any) -> None:
    """Give the builder of the object at ``path`` an attribute that is a reference, or a list of them.

    Raises
    ------
    MetadataError
        It has the name of a member.
    """
    if isinstance(builder, GroupBuilder) and builder.obj_type.get(name, "attributes") != "attributes":
        raise MetadataError(_TAKEN.format(name), store=builder.source, path=path, remedy=_RENAME)
    builder.set_attribute(name, value)


def make_dataset(
    name: str,
    *,
    data: Any,
    dtype: Any,
    attributes: Mapping[str, Any],
    source: str,
    maxshape: tuple[int | None, ...] | None = None,
    dimension_labels: tuple[str | None, ...] | None = None,
    chunks: bool = False,
) -> Any:
    """Return a ``DatasetBuilder``; the arguments are those of its constructor."""
    builder = _DATASET.copy(
        name=name, source=source, dtype=dtype, maxshape=maxshape, dimension_labels=dimension_labels, chunks=chunks
    )
    if data is not None:
        builder["data"] = data  # hdmf itself sets it so
    builder.attributes.update(attributes)
    return builder
