"""All that this package uses of hdmf and pynwb beyond their public names: a table, and one function for each use.

No other module names a private attribute of hdmf; but `assembler` copies all attributes of builders, and `lazy` changes
the class of builders, build managers and dictionaries of members. ``tests/test_internals.py`` checks that, and that the
installed releases have all names of `INTERNALS`: its error names the release that has lost one.

Source: hdmf 6.2 and pynwb 4.2, where a name is private, or public and without documentation.
"""

from __future__ import annotations

import sys
from functools import wraps
from typing import Any

import numpy as np
from hdmf.build import BuildManager, LinkBuilder, ObjectMapper
from hdmf.build.manager import Proxy
from hdmf.container import MultiContainerInterface

INTERNALS = {
    "hdmf.build.DatasetBuilder.__dtype": "writing a dataset as it was read, with its type: `dtype` has no setter",
    "hdmf.build.BuildManager.__containers": "naming the file of a lost target: no method returns the container",
    "hdmf.build.ObjectMapper.__new_container__": "making a container without those members that can wait",
    "hdmf.build.manager.Proxy.resolve": "giving a member its parent: hdmf does it only for what is built in one call",
    "hdmf.backends.io.HDMFIO.__source": "URLs, most of which hdmf takes for relative paths",
    "hdmf.common.VectorIndex.__maxval": "appending to ragged columns: hdmf assumes 255 for all stored data",
    "hdmf.common.VectorIndex.__uint": "appending to ragged columns, whose index would be cast to uint8",
    "hdmf.container.AbstractContainer.__children": "lists of children, whose members are made when they are looked at",
    "hdmf.container.AbstractContainer.__container_source": "planning a write without giving the containers a file",
    "hdmf.container.AbstractContainer.__parent": "giving a member its parent, which is not in the file any more",
    "hdmf.container.AbstractContainer.__field_values": "fields of a container, whose members are made on use",
    "hdmf.container.AbstractContainer._getter": "knowing that an attribute is read from the fields only",
    "hdmf.container.MultiContainerInterface.__clsconf__": "knowing which attributes are dictionaries of members",
    "hdmf.container.MultiContainerInterface.__init__": "knowing that a constructor only stores its arguments",
    "hdmf.data_utils.DataChunkIterator.__next_chunk": "refusing an iterator whose first values somebody has read",
    "pynwb.NWBFile.__init__": "opening the root without its members, into which its constructor does not look",
    "pynwb.ProcessingModule.__init__": "opening a module without its members, into which its constructor does not look",
    "pynwb.io.file.NWBFileMap.construct": "opening the root: `lazy` gives old files the same types",
}
"""Names that are not public, and what each is needed for. Two underscores in front are those that Python mangles."""

_CHILDREN = "_AbstractContainer__children"
_GETTER = "AbstractContainer._getter.<locals>.getter"


# ---- containers without their members -------------------------------------------------------------------------------


def constructor_arguments(mapper: Any, builder: Any, type_map: Any, cls: Any) -> dict[str, Any]:
    """Return the arguments with which hdmf calls the constructor of ``cls``, with builders in place of containers."""
    # ``construct`` finds the arguments and calls the constructor in one step: it gets a class that keeps the arguments
    return dict(ObjectMapper.construct(mapper, builder=builder, manager=_Matcher(type_map, cls)).arguments)


class _Matcher(BuildManager):  # type: ignore[misc]
    """The manager for `constructor_arguments`."""

    def __init__(self, type_map: Any, cls: Any) -> None:
        super().__init__(type_map)
        self._constructor = cls.__init__

    def get_cls(self, builder: Any) -> Any:
        """Return a class whose instances keep the arguments of the constructor."""

        class Arguments:
            def __new__(cls, **options: Any) -> Any:
                return object.__new__(cls)

            @wraps(self._constructor)  # type: ignore[misc] # with its description of the arguments, from which the mapper takes their names
            def __init__(self, **arguments: Any) -> None:
                self.arguments = arguments

        return Arguments

    def construct(self, builder: Any) -> Any:
        """Return the builder, of a link that of its target."""
        return builder.builder if isinstance(builder, LinkBuilder) else builder


def new_container(mapper: Any, cls: Any, builder: Any, parent: Any, arguments: dict[str, Any]) -> Any:
    """Return the container of ``builder``, made with ``arguments`` and without registering it with a manager."""
    siblings: list[Any] = [] if parent is None else children_of(parent)
    count = list.__len__(siblings)
    identifier = builder.attributes.get(mapper.spec.id_key())
    try:
        return mapper.__new_container__(cls, builder.source, parent, identifier, **arguments)
    except BaseException:
        del siblings[count:]  # hdmf puts it there before it calls the constructor
        raise


def children_of(container: Any) -> list[Any]:
    """Return the list in which a container keeps its children; ``children`` is a copy of it."""
    children: list[Any] = getattr(container, _CHILDREN)
    return children


def set_children(container: Any, children: list[Any]) -> None:
    """Let a container keep its children in another list."""
    setattr(container, _CHILDREN, children)


def set_fields(container: Any, fields: dict[str, Any]) -> None:
    """Let a container keep its fields in another dictionary."""
    container._AbstractContainer__field_values = fields


def is_read_from_fields(cls: Any, name: str) -> bool:
    """Return whether an attribute of a class is read from the fields, by the property that hdmf makes for a field."""
    return getattr(getattr(getattr(cls, name), "fget", None), "__qualname__", "") == _GETTER


def collections_of(cls: Any) -> set[str]:
    """Return the attributes of a class that are dictionaries of its members."""
    conf = getattr(cls, "__clsconf__", ())
    return {each["attr"] for each in ([conf] if isinstance(conf, dict) else conf)}


def can_wait_for_members(cls: Any, mapper: Any) -> bool:
    """Return whether constructor and mapper of a class store what they are given, without looking into members."""
    owner = _owner(cls, "__init__")
    module = MultiContainerInterface.__module__
    is_generated = (  # the constructor is the one that hdmf gives to a collection of containers
        issubclass(cls, MultiContainerInterface)
        and owner.__module__ != module
        and vars(owner)["__init__"].__module__ == module
    )
    pynwb = sys.modules.get("pynwb")  # not imported here: without it no container has its classes
    known = () if pynwb is None else (pynwb.NWBFile.__init__, pynwb.ProcessingModule.__init__)
    owner = _owner(type(mapper), "construct")  # what the mapper of pynwb does beyond that of hdmf is done by `lazy`
    maps_plainly = owner is ObjectMapper or (owner.__module__, owner.__name__) == ("pynwb.io.file", "NWBFileMap")
    return maps_plainly and (is_generated or cls.__init__ in known)


def _owner(cls: type, name: str) -> type:
    """Return the class of which ``cls`` has a method."""
    return next(each for each in cls.__mro__ if name in vars(each))


def set_parents(container: Any, parent: Any) -> None:
    """Give a new container its parent, and those in it that wait for their parent that parent."""
    # not by their names, as hdmf does: a user may have taken the parent out of the file before its members are made
    if isinstance(container.parent, Proxy):
        container._AbstractContainer__parent = None
    container.parent = parent
    stack = [container]
    while stack:
        here = stack.pop()
        if isinstance(here.parent, Proxy):
            here.parent = here.parent.resolve()
        stack.extend(list.__iter__(children_of(here)))


# ---- the rest -------------------------------------------------------------------------------------------------------


def set_source(io: Any, source: str) -> None:
    """Set the location that an ``HDMFIO`` reports; its constructor makes absolute paths of URLs."""
    io._HDMFIO__source = source


def forget_source(container: Any) -> None:
    """Let a container belong to no file again; hdmf refuses to set ``container_source`` twice."""
    container._AbstractContainer__container_source = None


def set_dtype(builder: Any, dtype: Any) -> None:
    """Set the type that a ``DatasetBuilder`` states."""
    builder._DatasetBuilder__dtype = dtype


def container_made_of(manager: Any, builder: Any) -> Any:
    """Return the container that a manager has made of a builder, or built it from; None if it has none."""
    return getattr(manager, "_BuildManager__containers", {}).get(id(builder))


def chunk_read_ahead(iterator: Any) -> Any:
    """Return the block that a ``DataChunkIterator`` has read to find the type of its data."""
    return getattr(iterator, "_DataChunkIterator__next_chunk", None)


def accept_any_index(column: Any) -> None:
    """Let a ``VectorIndex`` take indices of up to 64 bits, whatever it assumes of its data."""
    column._VectorIndex__maxval = np.iinfo(np.uint64).max
    column._VectorIndex__uint = np.uint64
