"""`render`: a hierarchy as lines of text: a tree with aligned columns, also readable for thousands of objects.

The texts of the columns come from a function, because they are in HDMF's terms. Long runs of similar members
(``trial_0001``, ``trial_0002``, ...) are abbreviated to the first ones and a sum.
"""

from __future__ import annotations

import html
import itertools
import math
import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypeVar

from hdmf_zarr_backend.errors import printable, without_secrets
from hdmf_zarr_backend.model.nodes import Group, Hierarchy, Node, join

T = TypeVar("T")

# Adjacent members of similar structure are a run: `RUN` with similar names, `LONG_RUN` with any; `SHOWN` are shown.
RUN, LONG_RUN, SHOWN = 8, 50, 3
FEW = 5  # how many names are in a message
# What two findings may differ in and still be alike: quoted names and values, numbers.
_PARTICULARS = re.compile(r"""'[^']*'|"[^"]*"|\d[\d.,]*""")
TREE_WIDTH = 60  # maximum start of the columns; a longer name shifts only the columns of its own line
_GAP = "  "
# Parts of a tree that may have a colour: the titles, and the names of groups and of links.
Role: TypeAlias = Literal["title", "group", "link"]


@dataclass(slots=True)
class Sum:
    """Number of groups, arrays and links in a subtree, the bytes of their values, and of their chunks if known."""

    groups: int = 0
    arrays: int = 0
    links: int = 0
    size: int = 0
    stored: int = 0

    def counts(self) -> tuple[tuple[int, str], ...]:
        """Return the numbers with their nouns."""
        return (self.groups, "group"), (self.arrays, "array"), (self.links, "link")

    def __str__(self) -> str:
        parts = [counted(count, word) for count, word in self.counts() if count]
        return ", ".join([*parts, *([size_text(self.size)] if self.size else [])]) or "empty"


@dataclass(slots=True)
class Item:
    """A line of a tree: a node with its members; or a link or an attribute, without a node."""

    name: str
    path: str = ""
    node: Node | None = None
    cells: Sequence[str] = ()
    target: str = ""  # of a link or reference
    text: str = ""  # the value of an attribute; what a group shows in place of its members
    attributes: Sequence[Item] = ()
    members: list[Item] = field(default_factory=list)  # members and links of a group, in natural order
    sum: Sum = field(default_factory=Sum)  # counts of the subtree, including the item itself
    likeness: Hashable = None  # equal for members with a similar structure


def item_tree(hierarchy: Hierarchy, describe: Callable[[str, Node], Item]) -> Item:
    """Return the root of the tree of the items that ``describe`` makes of nodes, those of groups with their links."""
    root = describe("", hierarchy.root)
    # Not recursive: a file may be nested deeper than the recursion limit. The list grows while it is read.
    order = [root]
    for item in order:
        if isinstance(item.node, Group) and not item.text:
            children = [describe(join(item.path, name), child) for name, child in item.node.members.items()]
            item.members = sorted([*children, *item.members], key=lambda member: natural(member.name))
            order.extend(item.members)
    known: dict[Hashable, int] = {}
    for item in reversed(order):  # members before their group
        item.sum = sum_of([item, *item.members])
        members = frozenset((pattern(member.name), member.likeness) for member in item.members)
        item.likeness = known.setdefault((type(item.node), item.likeness, members), len(known))
    return root


def natural(name: str) -> tuple[Any, ...]:
    """Return a key that sorts ``trial_2`` before ``trial_10``."""
    # Digits without zeros before them sort by their number; crafted text may have more than `int` accepts.
    parts = filter(None, re.split(r"0*([0-9]+)", name))
    return tuple((0, len(part), part) if part[0] in "0123456789" else (1, 0, part) for part in parts)


def pattern(name: str) -> str:
    """Return a name with ``#`` for each number in it, which is the same for the names of a series."""
    return re.sub(r"\d+", "#", name)


def readable(value: Any) -> Any:
    """Return text, also in lists, with bytes that are not UTF-8, which are surrogates, as characters of Latin-1."""
    if isinstance(value, str):
        return value if value.isascii() else re.sub("[\udc80-\udcff]", lambda byte: chr(ord(byte[0]) - 0xDC00), value)
    return type(value)(map(readable, value)) if type(value) in (list, tuple) else value


def escape(text: str) -> str:
    """Return text as HTML, with escapes for characters that are not printed; it may be of a crafted file."""
    return html.escape(printable(text))


def size_text(size: float) -> str:
    """Return a number of bytes as text, in powers of 1000: ``512 B``, ``1.3 MB``; ``10^40 B`` if only a claim."""
    # A crafted document may state any shape. f-strings of thousands of digits take time, too.
    if size > 10**24:
        return f"10^{math.floor(math.log10(size))} B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 999.5:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def counted(count: int, noun: str) -> str:
    """Return a number with a noun: ``1 problem``, ``2,000 problems``."""
    return f"{count:,} {noun}{'s'[: count != 1]}"


def few(names: Sequence[str], separator: str = ", ", *, count: int | None = None) -> str:
    """Return the first few of some names, for a message, and how many there are more if their ``count`` is known."""
    more = f"{separator}..." if count is None else f" and {count - FEW:,} more"
    return separator.join(names[:FEW]) + (more if len(names) > FEW else "")


def folded(members: list[Item], *, show_all: bool) -> Iterator[Item | list[Item]]:
    """Yield members as a tree shows them: single ones, and for a long run the first ones, and the rest as a list."""
    for _, alike in itertools.groupby(members, lambda member: member.likeness):
        rest = list(alike)
        while rest:
            _, same_name = next(itertools.groupby(rest, lambda member: pattern(member.name)))
            count = len(list(same_name))
            if count < RUN:
                count = len(rest) if len(rest) >= LONG_RUN else 1
            run, rest = rest[:count], rest[count:]
            if show_all or count < RUN:
                yield from run
            else:
                yield from run[:SHOWN]
                yield run[SHOWN:]


def sum_of(items: Iterable[Item]) -> Sum:
    """Return the sum of some items."""
    sums = [(each.sum.groups, each.sum.arrays, each.sum.links, each.sum.size, each.sum.stored) for each in items]
    return Sum(*map(sum, zip(*sums, strict=True)))


# ---- results: a command prints the view of the object, which Python and a notebook show too --------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """How a result is printed: each of similar findings or not, how many lines, colours, and hints on options."""

    verbose: bool = False
    limit: int = 100
    paint: Callable[[str, Literal["green", "red"]], str] = lambda text, _: text
    each: str = ""  # after the number of findings that are like the one before it
    all: str = ""  # after the number of lines beyond the limit


PLAIN = Form()


class View:
    """A result that prints, also in a notebook, as its command prints it."""

    __slots__ = ()

    def lines(self, form: Form = PLAIN, name: str | None = None) -> list[str]:
        """Return the lines that a command prints in a ``form``; ``name`` is that of the file, as the user gave it."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def finding_lines(findings: Iterable[T], line: Callable[[T], str], alike: Callable[[T], str], form: Form) -> list[str]:
    """Return lines about findings, with those that are alike in one line."""
    groups: dict[object, list[T]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(number if form.verbose else _PARTICULARS.sub("", alike(finding)), []).append(finding)
    more = " (and {:,} more like this one{})"
    return [line(first) + (more.format(len(others), form.each) if others else "") for first, *others in groups.values()]


def limited(lines: Sequence[object], form: Form) -> list[str]:
    """Return the lines up to the limit, all of them if it is 0, and the number of the others."""
    shown = list(map(str, lines if form.limit <= 0 else lines[: form.limit]))
    rest = len(lines) - len(shown)
    return [*shown, f"... and {rest:,} more{form.all}"] if rest else shown


def verdict(name: str, good: str, count: int, noun: str, form: Form) -> str:
    """Return the result for a file: ``good`` in green, or the number of findings in red."""
    result = form.paint(counted(count, noun), "red") if count else form.paint(good, "green")
    return f"{printable(without_secrets(name))}: {result}"


@dataclass(frozen=True, slots=True)
class Symbols:
    """Symbols that the tree is drawn with, and ``paint``, which returns a part of a line in the colour of its role."""

    middle: str
    last: str
    below_middle: str
    below_last: str
    more: str
    arrow: str
    times: str
    ellipsis: str
    paint: Callable[[str, Role], str] | None = None


UNICODE = Symbols("├── ", "└── ", "│   ", "    ", "⋮", "→", "\N{MULTIPLICATION SIGN}", "…")
ASCII = Symbols("|-- ", "`-- ", "|   ", "    ", "...", "->", "x", "...")


@dataclass(frozen=True, slots=True)
class Column:
    """A column beside the tree."""

    title: str
    align: Literal["left", "right"] = "left"


@dataclass(slots=True)
class _Row:
    tree: str
    cells: Sequence[str] = ()
    text: str = ""
    role: Role | None = None
    mark: str = ""


def render(
    root: Item,
    columns: Sequence[Column],
    *,
    depth: int | None = None,
    show_all: bool = False,
    symbols: Symbols = UNICODE,
    width: int | None = None,
) -> list[str]:
    """Return a tree as text, one line for each node, link and shown attribute, below a line of titles."""
    rows = list(_rows(root, depth=depth, show_all=show_all, symbols=symbols))
    rows.insert(0, _Row("", [column.title for column in columns], role="title"))
    lines = _aligned(rows, columns, width=width, ellipsis=symbols.ellipsis)
    for number, row in enumerate(rows if symbols.paint is not None else ()):
        # The name gets its colour after it was shortened.
        if row.role is not None and symbols.paint is not None:
            line = lines[number]
            start, stop = (0, len(line)) if row.role == "title" else (len(row.mark), len(row.tree))
            lines[number] = line[:start] + symbols.paint(line[start:stop], row.role) + line[stop:]
    return lines


def _rows(root: Item, *, depth: int | None, show_all: bool, symbols: Symbols) -> Iterator[_Row]:
    """Yield the rows from top to bottom; a stack replaces recursion."""
    stack: list[tuple[Item | list[Item], str, str, int]] = [(root, "", "", 0)]
    while stack:
        item, mark, below, level = stack.pop()
        if isinstance(item, list):  # members that are not shown
            names = f"{printable(item[0].name)} to {printable(item[-1].name)}"
            more = f"{symbols.more} {len(item):,} more like these: {names}"
            yield _Row(mark + more, text=f"({sum_of(item)})")
            continue
        cut = depth is not None and level >= depth and bool(item.members)
        # with the sum of members that are not shown, and of the root itself
        text = item.text or (str(item.sum if level == 0 else sum_of(item.members)) if cut else "")
        if item.target:
            text = f"{symbols.arrow} {item.target}"
        elif text and item.node is not None:
            text = f"({text})"
        role: Role | None = "group" if isinstance(item.node, Group) else "link" if item.target else None
        cells = [printable(cell) for cell in item.cells]
        yield _Row(mark + printable(item.name), cells, printable(text), role, mark)
        children = [*item.attributes, *folded([] if cut else item.members, show_all=show_all)]
        branch, line = symbols.last, symbols.below_last
        for each in reversed(children):
            stack.append((each, below + branch, below + line, level + 1))
            branch, line = symbols.middle, symbols.below_middle


def _aligned(rows: list[_Row], columns: Sequence[Column], *, width: int | None, ellipsis: str) -> list[str]:
    tree = min(TREE_WIDTH, max(_width(row.tree) for row in rows if len(row.cells) or not row.text))
    # The first row has the titles of all columns.
    shown = (map(_width, row.cells[:1] if row.text else row.cells) for row in rows)
    widths = [max(column) for column in itertools.zip_longest(*shown, fillvalue=0)]
    if width is None:
        return [_line(row, tree, widths, columns) for row in rows]
    # the widest one is narrowed until all fit, if possible; numbers are not shortened
    least = [max(6, least) for least in (width // 3, *(0 if each.align == "left" else width for each in columns))]
    now = [tree, *widths]
    while sum(now) + len(_GAP) * len(columns) > width:
        spare = [one if one > least[position] else 0 for position, one in enumerate(now)]
        if not any(spare):
            break
        now[spare.index(max(spare))] -= 1
    tree, *widths = now
    for row in rows:
        row.tree = _shortened(row.tree, tree, ellipsis)
        row.cells = [_shortened(cell, most, ellipsis) for cell, most in zip(row.cells, widths, strict=False)]
    return [_shortened(_line(row, tree, widths, columns), width, ellipsis) for row in rows]


def _shortened(text: str, width: int, ellipsis: str) -> str:
    """Return ``text`` in at most ``width`` columns, with an ellipsis at its end if shortened."""
    if _width(text) <= width:
        return text
    while text and _width(text) + len(ellipsis) > width:
        text = text[:-1]
    return text + ellipsis


def _line(row: _Row, tree: int, widths: list[int], columns: Sequence[Column]) -> str:
    shown = row.cells if not row.text else row.cells[:1] if any(row.cells) else ()
    parts = [row.tree + " " * (tree - _width(row.tree))]
    for cell, width, column in zip(shown, widths, columns, strict=False):
        space = " " * (width - _width(cell))
        parts.append(space + cell if column.align == "right" else cell + space)
    return _GAP.join([*parts, row.text]).rstrip()


def _width(text: str) -> int:
    """Return the number of terminal columns that ``text`` takes."""
    if text.isascii():
        return len(text)
    # Terminals show CJK characters in two columns, and combining ones in none.
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) != 0 for character in text)
