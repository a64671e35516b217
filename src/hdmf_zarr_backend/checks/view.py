"""`view`: the content of a file as a schema describes it: groups, datasets and links with types, from metadata only.

A value has the properties that a schema has rules about: type and shape, the type of a reference's target, and whether
a text is a time. Links are members with their targets, in this file or another. Links and references without a target
are left out, as when the file is read.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.checks.links import links_of
from hdmf_zarr_backend.checks.rules import NATURAL, REFERENCE
from hdmf_zarr_backend.errors import ZarrBackendError, at
from hdmf_zarr_backend.formats.attributes import decode_attributes
from hdmf_zarr_backend.formats.elements import describe, hdmf_type
from hdmf_zarr_backend.formats.links import LinkedFile
from hdmf_zarr_backend.formats.namespaces import spec_location
from hdmf_zarr_backend.formats.references import Reference, decode_attribute_reference
from hdmf_zarr_backend.formats.reserved import NCZARR_ATTR, SPECLOC
from hdmf_zarr_backend.model.elements import Element
from hdmf_zarr_backend.model.links import Resolver
from hdmf_zarr_backend.model.nodes import Dataset, Group, Node, absolute, join
from hdmf_zarr_backend.model.stored import StoredArray

Word: TypeAlias = "str | tuple[str, ...] | None"

_NOT_FOLLOWED = (ZarrBackendError, OSError)


# ---- times: ISO 8601 as in hdmf -------------------------------------------------------------------------------------

ISO: Final = "isodatetime"
NAIVE: Final = "isodatetime without timezone"
OTHER: Final = "other"
UNKNOWN: Final = "unknown"

FORMATS: Final = (ISO, NAIVE, OTHER, UNKNOWN)
"""Formats of a text: a time with a time zone, a time or date without one, not a time, and a text that was not read."""

_TIME = re.compile(
    r"-?[0-9]{4,}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"(?P<time>T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:\.[0-9]+)?"
    r"(?P<zone>Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?"
)


def text_format(text: Any, *, is_scalar: bool = True) -> str:
    """Return which of `FORMATS` a text is."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        return UNKNOWN
    match = _TIME.fullmatch(text)
    if match is None:
        return OTHER
    return ISO if match["zone"] or not is_scalar else NAIVE


# ---- groups, datasets and links -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Value:
    """The properties of an attribute or dataset that a schema has rules about.

    Attributes
    ----------
    dtype : str, tuple of str or None
        NumPy's name of the type, ``"utf"``, ``"ascii"`` or ``"reference"``; for a compound, those of its fields. None
        for an empty value without a type.
    shape : tuple of int or None
        None for a value that is not an array.
    read : callable, optional
        Returns the first text, None if it is not part of the metadata.
    target : str or None
        Type of the target of a reference in an attribute, "" if it has none; None for all other values, also for
        references in datasets, whose targets are data.
    """

    dtype: Word
    shape: tuple[int, ...] | None = None
    read: Callable[[], Any] | None = None
    target: str | None = None

    @property
    def format(self) -> str | None:
        """The format of a text, one of `FORMATS`; None for other values."""
        if self.dtype not in ("utf", "ascii"):
            return None
        return UNKNOWN if self.read is None else text_format(self.read(), is_scalar=self.shape in (None, ()))


@dataclass(slots=True, eq=False)
class Item:
    """A group or a dataset.

    Attributes
    ----------
    path : str
        Absolute path in its file.
    data_type : str or None
        Its type.
    attributes : dict
        ``{name: Value}``.
    value : Value or None
        The value of a dataset; None for a group.
    members : list of Member
        For a group: datasets, groups, links.
    """

    path: str
    data_type: str | None
    attributes: dict[str, Value]
    value: Value | None = None
    members: list[Member] = field(default_factory=list)

    @property
    def is_group(self) -> bool:
        """Whether it is a group, not a dataset."""
        return self.value is None


@dataclass(slots=True, frozen=True)
class Member:
    """An item in a group, or the target of a link in it."""

    name: str
    item: Item
    is_link: bool = False


def type_key_of(root: Node) -> str:
    """Return the name of the attribute for types in a file: ``neurodata_type`` in NWB."""
    return "neurodata_type" if "neurodata_type" in root.attributes else "data_type"


def view(resolver: Resolver[LinkedFile]) -> Item:
    """Return the root of a file with everything below it."""
    return _Viewer(resolver).item(resolver.main, "", resolver.main.hierarchy.root)


class _Pending:
    """The JSON of a reference."""

    __slots__ = ("json",)

    def __init__(self, json: dict[str, Any]) -> None:
        self.json = json


class _Viewer:
    """Makes the items of a file, and of link targets in other files; one item for each node."""

    def __init__(self, resolver: Resolver[LinkedFile]) -> None:
        self._resolver = resolver
        self._type_key = type_key_of(resolver.main.hierarchy.root)
        self._items: dict[int, Item] = {}
        self._cache = ChunkCache()

    def item(self, file: LinkedFile, path: str, node: Node) -> Item:
        """Return the item of a node, with all items below it and the targets of links."""
        stack: list[Any] = []
        found = self._made(stack, file, path, node)
        while stack:  # not recursive: a file may be nested deeper than the recursion limit
            self._fill(stack, *stack.pop())
        return found

    def _made(self, stack: list[Any], file: LinkedFile, path: str, node: Node) -> Item:
        if id(node) not in self._items:
            attributes = self._attributes(file, path, node)
            value = self._value(file, path, node) if isinstance(node, Dataset) else None
            self._items[id(node)] = Item(absolute(path), self._type_of(node), attributes, value)
            if isinstance(node, Group):
                stack.append((file, path, node))
        return self._items[id(node)]

    def _fill(self, stack: list[Any], file: LinkedFile, path: str, node: Node) -> None:
        assert isinstance(node, Group)
        specs = spec_location(file.hierarchy.root.attributes.get(SPECLOC))
        members = []
        for name in sorted(node.members):
            place = join(path, name)
            if place != specs:
                members.append(Member(name, self._made(stack, file, place, node.members[name])))
        members.sort(key=lambda member: member.item.is_group)  # datasets before groups, as hdmf checks them
        for link in links_of(node):
            found = self._found(file, link.target)
            if found is not None:
                item = self._made(stack, *found)
                members.append(Member(link.name, item, is_link=True))
        self._items[id(node)].members = members

    def _found(self, file: LinkedFile, reference: Reference) -> tuple[LinkedFile, str, Node] | None:
        try:
            return self._resolver.find(file, reference.source, reference.node_path)
        except _NOT_FOLLOWED:
            return None

    def _type_of(self, node: Node) -> str | None:
        found = node.attributes.get(self._type_key)
        return found if isinstance(found, str) else None

    # ---- attributes -------------------------------------------------------------------------------------------------

    def _attributes(self, file: LinkedFile, path: str, node: Node) -> dict[str, Value]:
        with at(file.keys, path):
            decoded = decode_attributes(node.attributes, resolve=_Pending)
            keeps_types = NCZARR_ATTR in node.attributes
            values = {name: self._attribute(file, value, keeps_types=keeps_types) for name, value in decoded.items()}
        return {name: value for name, value in values.items() if value is not None}

    def _attribute(self, file: LinkedFile, value: Any, *, keeps_types: bool) -> Value | None:
        if isinstance(value, _Pending):
            reference = decode_attribute_reference(value.json)
            found = self._found(file, reference)
            if found is None:
                return None
            word = REFERENCE if reference.region is None else "region"
            return Value(word, target=self._type_of(found[2]) or "")
        if isinstance(value, list) and value and isinstance(value[0], _Pending):
            return Value("references", (len(value),))
        found_value = value_of(value)
        if not keeps_types and _may_be_unsigned(value):
            found_value.dtype = NATURAL
        return found_value

    # ---- datasets ---------------------------------------------------------------------------------------------------

    def _value(self, file: LinkedFile, path: str, node: Dataset[Any]) -> Value:
        stored = node.stored
        try:
            means = describe(node)
        except ZarrBackendError:
            return Value(str(stored.data_type), tuple(stored.shape))  # an unreadable array has a type that fits no rule
        is_text = means.form == "objects" and means.stored.kind == "text"
        word = _word_of(means.stored)
        if is_text and (means.is_scalar or not stored.size):  # hdmf reads a scalar as str, and treats empty arrays so
            word = "utf"
        is_one = means.is_scalar and word in ("utf", "ascii", REFERENCE)
        return Value(
            word,
            None if is_one else means.axes,
            (lambda: self._inlined_text(file, path, stored)) if is_text else None,
        )

    def _inlined_text(self, file: LinkedFile, path: str, stored: StoredArray) -> Any:
        """Return the first text of an array whose only chunk is part of the consolidated metadata."""
        if not stored.size:
            return ""
        key = join(path, stored.chunk_name((0,) * len(stored.shape)))
        keys = file.keys
        if keys.inlined(key) is None:
            return None
        try:
            return np.asarray(ChunkReader(keys, path, stored, self._cache).read()).reshape(-1)[0]
        except (*_NOT_FOLLOWED, IndexError):
            return None


def _may_be_unsigned(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return value.dtype == np.int64 and bool(value.size) and bool(value.min() >= 0)
    return type(value) is int and value >= 0


def value_of(value: Any) -> Value:
    """Return the type and shape of the value of an attribute, as in hdmf."""
    if isinstance(value, (str, bytes)):
        return Value("utf" if isinstance(value, str) else "ascii", None, lambda: value)
    if isinstance(value, np.ndarray):
        if value.dtype.names is not None:
            return Value(value.dtype.name, value.shape)
        if not value.size:
            return Value(None, value.shape)
        first = value_of(value.reshape(-1)[0])
        return Value(first.dtype, value.shape, first.read)
    if isinstance(value, list):
        return _value_of_list(value)
    if isinstance(value, np.generic):
        return Value(value.dtype.name, ())
    return Value({float: "float64", int: "int64"}.get(type(value), type(value).__name__))


def _value_of_list(value: list[Any]) -> Value:
    if not value:
        return Value(None, (0,))
    first = value_of(value[0])
    return Value(first.dtype, (len(value), *(first.shape or ())), first.read)


def _word_of(element: Element) -> Word:
    """Return the type of the elements of an array, as rules name it."""
    found = hdmf_type(element)
    if isinstance(found, list):
        return tuple(_word_of_field(field["dtype"]) for field in found)
    return _word_of_field(found)


def _word_of_field(dtype: Any) -> str:
    if isinstance(dtype, list):
        return "compound"
    return REFERENCE if dtype == "object" else str(dtype)
