"""Hierarchy -> lines of text: a tree with aligned columns, readable for a file of a thousand objects too.

What stands in the columns is told by a function, since the words are HDMF's and not Zarr's. Long runs of members that
are alike (``trial_0001``, ``trial_0002``, ...) are shown by their first ones and a sum.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.model.summary import Describe, Item, Leaf, folded, item_tree, sum_of

__all__ = ["ASCII", "UNICODE", "Column", "Symbols", "render"]

TREE_WIDTH = 60
"""The columns begin at most here; a longer name moves those of its own line only."""


_GAP = "  "
_NARROWEST = 6
"""A column is not made narrower than this."""


@dataclass(frozen=True, slots=True)
class Symbols:
    """What the tree is drawn with: before a member, before the last one, below a member, below the last one, ..."""

    middle: str
    last: str
    below_middle: str
    below_last: str
    more: str
    arrow: str
    times: str
    ellipsis: str


UNICODE = Symbols("├── ", "└── ", "│   ", "    ", "⋮", "→", "\N{MULTIPLICATION SIGN}", "…")
ASCII = Symbols("|-- ", "`-- ", "|   ", "    ", "...", "->", "x", "...")


@dataclass(frozen=True, slots=True)
class Column:
    """A column beside the tree.

    Parameters
    ----------
    title : str
        Shown above.
    align : {"left", "right"}
        Numbers stand to the right.
    """

    title: str
    align: Literal["left", "right"] = "left"


@dataclass(slots=True)
class _Row:
    tree: str
    cells: Sequence[str] = ()
    text: str = ""


def render(
    hierarchy: Hierarchy,
    describe: Describe,
    columns: Sequence[Column],
    *,
    depth: int | None = None,
    whole: bool = False,
    symbols: Symbols = UNICODE,
    width: int | None = None,
) -> list[str]:
    """Return the tree of a hierarchy, one line for each node, link and shown attribute, below a line of titles.

    Parameters
    ----------
    hierarchy : Hierarchy
        What is shown.
    describe : callable
        ``describe(path, node)`` gives the `summary.Description` of a node; asked once for each that could be shown.
    columns : sequence of Column
        What stands beside the tree.
    depth : int, optional
        Members so far below the root are shown, of deeper ones the sum; 0 shows the root only.
    whole : bool
        Show each member of long runs.
    symbols : Symbols
        What the tree is drawn with.
    width : int, optional
        Columns of the terminal: what is longer is shortened, the widest column first. None: nothing is.
    """
    root = item_tree(hierarchy, describe)
    rows = list(_rows(root, depth=depth, whole=whole, symbols=symbols))
    rows.insert(0, _Row("", [column.title for column in columns]))
    return _aligned(rows, columns, width=width, ellipsis=symbols.ellipsis)


# ---- rows ---------------------------------------------------------------------------------------------------------


def _rows(root: Item, *, depth: int | None, whole: bool, symbols: Symbols) -> Iterator[_Row]:
    """Yield the rows from top to bottom; the stack holds what is still to be drawn."""
    stack: list[tuple[Item | _Row, str, str, int]] = [(root, "", "", 0)]
    while stack:
        item, mark, below, level = stack.pop()
        if isinstance(item, _Row):
            yield _Row(mark + item.tree, item.cells, item.text)
            continue
        if item.leaf is not None:
            yield _leaf_row(item.leaf, mark, symbols)
            continue
        description = item.description
        cut = depth is not None and level >= depth and bool(item.members)
        text = description.instead or (str(sum_of(item.members)) if cut else "")
        yield _Row(mark + _printable(item.name), description.cells, f"({text})" if text else "")
        children: list[Item | _Row] = [_leaf_row(leaf, "", symbols) for leaf in description.attributes]
        if not cut:
            children += _children(item.members, whole=whole, symbols=symbols)
        for position in reversed(range(len(children))):
            last = position == len(children) - 1
            stack.append(
                (
                    children[position],
                    below + (symbols.last if last else symbols.middle),
                    below + (symbols.below_last if last else symbols.below_middle),
                    level + 1,
                )
            )


def _children(members: list[Item], *, whole: bool, symbols: Symbols) -> Iterator[Item | _Row]:
    for item in folded(members, whole=whole):
        if isinstance(item, Item):
            yield item
            continue
        names = f"{_printable(item[0].name)} to {_printable(item[-1].name)}"
        yield _Row(f"{symbols.more} {len(item):,} more like these: {names}", text=f"({sum_of(item)})")


def _leaf_row(leaf: Leaf, mark: str, symbols: Symbols) -> _Row:
    text = f"{symbols.arrow} {_printable(leaf.target)}" if leaf.target else _printable(leaf.text)
    return _Row(mark + _printable(leaf.name), (leaf.kind,), text)


def _printable(text: str) -> str:
    """Return ``text`` on one line and without control characters: names come from the file, and it may be crafted."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


# ---- lines --------------------------------------------------------------------------------------------------------


def _aligned(rows: list[_Row], columns: Sequence[Column], *, width: int | None, ellipsis: str) -> list[str]:
    tree = min(TREE_WIDTH, max(_width(row.tree) for row in rows if len(row.cells) or not row.text))
    widths = [0] * len(columns)
    for row in rows:
        shown = row.cells[:1] if row.text else row.cells
        for position, cell in enumerate(shown):
            widths[position] = max(widths[position], _width(cell))
    if width is None:
        return [_line(row, tree, widths, columns) for row in rows]
    tree, *widths = _narrowed([tree, *widths], columns, width)
    for row in rows:
        row.tree = _shortened(row.tree, tree, ellipsis)
        row.cells = [_shortened(cell, most, ellipsis) for cell, most in zip(row.cells, widths, strict=False)]
    return [_shortened(_line(row, tree, widths, columns), width, ellipsis) for row in rows]


def _narrowed(widths: list[int], columns: Sequence[Column], width: int) -> list[int]:
    """Return the widths of the tree and of the columns so that they fit, as far as they can; numbers stay whole."""
    least = [width // 3, *(0 if column.align == "left" else width for column in columns)]
    least = [max(_NARROWEST, one) for one in least]
    found = list(widths)
    while sum(found) + len(_GAP) * len(columns) > width:
        spare = [now if now > one else 0 for now, one in zip(found, least, strict=True)]
        if not any(spare):
            break
        found[spare.index(max(spare))] -= 1
    return found


def _shortened(text: str, width: int, ellipsis: str) -> str:
    """Return ``text`` in at most ``width`` columns, with an ellipsis in the place of its end."""
    if _width(text) <= width:
        return text
    while text and _width(text) + len(ellipsis) > width:
        text = text[:-1]
    return text + ellipsis


def _line(row: _Row, tree: int, widths: list[int], columns: Sequence[Column]) -> str:
    parts = [_padded(row.tree, tree, "left")]
    if row.text:
        if row.cells and any(row.cells):
            parts.append(_padded(row.cells[0], widths[0], "left"))
        return _GAP.join([*parts, row.text]).rstrip()
    for position, cell in enumerate(row.cells):
        parts.append(_padded(cell, widths[position], columns[position].align))
    return _GAP.join(parts).rstrip()


def _padded(text: str, width: int, align: str) -> str:
    space = " " * (width - _width(text))
    return space + text if align == "right" else text + space


def _width(text: str) -> int:
    """Return the number of columns of a terminal that ``text`` takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) != 0 for character in text)
