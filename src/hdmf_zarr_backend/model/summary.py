"""Hierarchy -> a tree of items with sums, in which members that are alike are found: what trees are drawn from.

What is told of a node comes from a function, since the words are HDMF's and not Zarr's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hdmf_zarr_backend.model.nodes import ArrayNode, GroupNode, Hierarchy, Node, join

__all__ = ["Describe", "Description", "Item", "Leaf", "Sum", "folded", "item_tree", "size_text", "sum_of"]

RUN = 8
"""So many members in a row that are alike in structure and name are shown as a run."""

LONG_RUN = 50
"""So many that are alike in structure are shown as a run whatever their names are."""

SHOWN = 3
"""So many of a run are shown."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A line that is no node: a link, an attribute.

    Parameters
    ----------
    name : str
        What stands in the tree.
    kind : str
        What stands in the first column.
    target : str
        Where it leads, shown behind an arrow.
    text : str
        What is shown without an arrow.
    """

    name: str
    kind: str = ""
    target: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Description:
    """What is shown of one node.

    Parameters
    ----------
    cells : sequence of str
        One for each column; fewer leave the last ones empty.
    size : int
        Bytes, for the sums of what is not shown.
    attributes : sequence of Leaf
        Shown directly below the node.
    links : sequence of Leaf
        Shown among the members.
    instead : str
        Shown instead of the members, which are not looked at.
    likeness : hashable
        Nodes that differ here are not alike.
    """

    cells: Sequence[str] = ()
    size: int = 0
    attributes: Sequence[Leaf] = ()
    links: Sequence[Leaf] = ()
    instead: str = ""
    likeness: Hashable = None


Describe: TypeAlias = Callable[[str, Node], Description]


@dataclass(slots=True)
class Sum:
    """How many groups, arrays and links there are in a subtree, and how many bytes."""

    groups: int = 0
    arrays: int = 0
    links: int = 0
    size: int = 0

    def add(self, other: Sum) -> None:
        """Count what is in another subtree too."""
        self.groups += other.groups
        self.arrays += other.arrays
        self.links += other.links
        self.size += other.size

    def __str__(self) -> str:
        counts = ((self.groups, "group"), (self.arrays, "array"), (self.links, "link"))
        parts = [f"{count:,} {word}{'' if count == 1 else 's'}" for count, word in counts if count]
        return ", ".join([*parts, *([size_text(self.size)] if self.size else [])]) or "empty"


@dataclass(slots=True)
class Item:
    """A node or link as a tree shows it.

    Attributes
    ----------
    name, path : str
        Of the node; a link has the path of its group.
    node : Node or None
        None for a link.
    leaf : Leaf or None
        What is told of a link.
    description : Description
        What is told of a node.
    members : list of Item
        Members and links of a group, in natural order.
    sum : Sum
        What is in it, itself counted.
    likeness : hashable
        Equal for members that are alike in structure.
    """

    name: str
    path: str
    node: Node | None
    leaf: Leaf | None = None
    description: Description = field(default_factory=Description)
    members: list[Item] = field(default_factory=list)
    sum: Sum = field(default_factory=Sum)
    likeness: Hashable = None


def item_tree(hierarchy: Hierarchy, describe: Describe) -> Item:
    """Return the root of the tree of items, with sums and likenesses.

    Parameters
    ----------
    hierarchy : Hierarchy
        What is shown.
    describe : callable
        ``describe(path, node)`` gives the `Description` of a node; asked once for each that could be shown.
    """
    root = _items(hierarchy, describe)
    _summarise(root)
    return root


def _items(hierarchy: Hierarchy, describe: Describe) -> Item:
    """Make the tree of items; no recursion, since a file may be nested deeper than Python's stack."""
    root = Item("/", "", hierarchy.root)
    pending = [root]
    while pending:
        item = pending.pop()
        node = item.node
        assert node is not None
        item.description = describe(item.path, node)
        if isinstance(node, GroupNode) and not item.description.instead:
            links = [Item(leaf.name, "", None, leaf) for leaf in item.description.links]
            children = [Item(name, join(item.path, name), child) for name, child in node.members.items()]
            pending.extend(children)
            item.members = sorted([*children, *links], key=lambda member: _natural(member.name))
    return root


def _natural(name: str) -> tuple[Any, ...]:
    """Return a key that sorts ``trial_2`` before ``trial_10``."""
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in re.split(r"(\d+)", name) if part)


def _summarise(root: Item) -> None:
    """Fill in sums and likenesses, members before their group."""
    order = [root]
    for item in order:
        order.extend(item.members)
    known: dict[Hashable, int] = {}
    for item in reversed(order):
        if item.leaf is not None:
            item.sum.links = 1
            key: Hashable = ("link", item.leaf.kind)
        elif isinstance(item.node, ArrayNode):
            item.sum.arrays, item.sum.size = 1, item.description.size
            key = ("array", item.description.likeness, len(item.node.shape))
        else:
            item.sum.groups = 1
            for member in item.members:
                item.sum.add(member.sum)
            members = frozenset((_pattern(member.name), member.likeness) for member in item.members)
            key = ("group", item.description.likeness, members)
        item.likeness = known.setdefault(key, len(known))


def _pattern(name: str) -> str:
    return re.sub(r"\d+", "#", name)


def _runs(members: list[Item]) -> Iterator[list[Item]]:
    """Cut members into runs of those that are alike; what is no run comes one by one."""
    start = 0
    while start < len(members):
        first = members[start]
        alike = start
        while alike < len(members) and members[alike].likeness == first.likeness:
            alike += 1
        same_name = start
        while same_name < alike and _pattern(members[same_name].name) == _pattern(first.name):
            same_name += 1
        stop = same_name if same_name - start >= RUN else alike if alike - start >= LONG_RUN else start + 1
        yield members[start:stop]
        start = stop


def size_text(size: float) -> str:
    """Return a number of bytes for people, in powers of 1000: ``512 B``, ``1.3 MB``."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def folded(members: list[Item], *, whole: bool) -> Iterator[Item | list[Item]]:
    """Yield members as a tree shows them: one by one, and of a long run the first ones, and the rest as a list.

    Parameters
    ----------
    members : list of Item
        Members of a group.
    whole : bool
        One by one, all of them.
    """
    for run in _runs(members):
        if whole or len(run) < RUN:
            yield from run
        else:
            yield from run[:SHOWN]
            yield run[SHOWN:]


def sum_of(items: Iterable[Item]) -> Sum:
    """Return what is in some items together."""
    total = Sum()
    for item in items:
        total.add(item.sum)
    return total
