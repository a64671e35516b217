"""The tree of a file as HTML, for notebooks and for the report: nested parts that open and close without scripts.

All text comes from the file, which may be crafted, so it is escaped.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hdmf_zarr_backend.files.outline import Outline
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.model.render import Item, Leaf, escape, folded, item_tree, sum_of

_OPEN_LEVELS = 1
"""Groups down to this depth are open at first."""

TREE_STYLE: Final = """\
.zarr-tree { font: 13px/1.6 ui-monospace, Menlo, Consolas, monospace; }
.zarr-tree details > *:not(summary) { margin-left: 1.4em; }
.zarr-tree summary { cursor: pointer; }
.zarr-tree .leaf { padding-left: 1em; }
.zarr-tree .name { font-weight: 600; }
.zarr-tree .details { opacity: .7; margin-left: .8em; }
.zarr-tree .more { opacity: .7; font-style: italic; padding-left: 1em; }
"""


def outline_html(outline: Outline) -> str:
    """Return a file as HTML for a notebook: one line about it, and its tree."""
    heading = escape(outline.heading(outline.location))
    return f"<div><style>{TREE_STYLE}</style><p>{heading}</p>{tree_html(outline)}</div>"


def tree_html(outline: Outline, *, show_all: bool = False) -> str:
    """Return the tree of a file."""
    root = item_tree(outline.hierarchy, outline.describe)
    titles = [column.title for column in outline.columns]
    return f'<div class="zarr-tree">{"".join(_parts(root, titles, show_all=show_all))}</div>'


def _parts(root: Item, titles: list[str], *, show_all: bool) -> Iterator[str]:
    """Yield the HTML from top to bottom; a stack replaces recursion, since a file may be nested deeply."""
    pending: list[tuple[Item | str, int]] = [(root, 0)]
    while pending:
        item, level = pending.pop()
        if isinstance(item, str):
            yield item
        elif item.leaf is not None:
            yield _leaf(item.leaf)
        elif item.members or item.description.attributes:
            is_open = " open" if level <= _OPEN_LEVELS and not isinstance(item.node, Dataset) else ""
            yield f"<details{is_open}><summary>{_node(item, titles, is_root=level == 0)}</summary>"
            children: list[Item | str] = [_leaf(leaf) for leaf in item.description.attributes]
            children += _children(item.members, show_all=show_all)
            pending.append(("</details>", level))
            pending += [(child, level + 1) for child in reversed(children)]
        else:
            yield f'<div class="leaf">{_node(item, titles, is_root=level == 0)}</div>'


def _children(members: list[Item], *, show_all: bool) -> Iterator[Item | str]:
    for item in folded(members, show_all=show_all):
        if isinstance(item, Item):
            yield item
            continue
        names = escape(f"{item[0].name} to {item[-1].name}")
        yield f'<div class="more">{len(item):,} more like these: {names} ({sum_of(item)})</div>'


def _node(item: Item, titles: list[str], *, is_root: bool) -> str:
    described = item.description
    if isinstance(item.node, Dataset):
        cells = [_cell(title, cell) for title, cell in zip(titles, described.cells, strict=False)]
        details = ", ".join(cell for cell in cells if cell)
    else:
        inside = str(item.sum if is_root else sum_of(item.members)) if item.members else ""
        details = ", ".join(escape(word) for word in (*described.cells, described.instead or inside) if word)
    return f'<span class="name">{escape(item.name)}</span><span class="details">{details}</span>'


_CELLS = {"count": "{} chunks", "shards": "in shards of {}", "ratio": "ratio {}"}
"""Text of the cells of a column, where a cell alone would not be understood."""


def _cell(title: str, cell: str) -> str:
    """Return the text of a cell without its title; empty for the count of a single chunk."""
    if not cell or (title == "count" and cell == "1"):
        return ""
    text = _CELLS.get(title, "{}").format(cell)
    return f'<span title="{escape(title)}">{escape(text)}</span>'


def _leaf(leaf: Leaf) -> str:
    text = f"→ {leaf.target}" if leaf.target else leaf.text
    kind = f"{escape(leaf.kind)} " if leaf.kind else ""
    return (
        f'<div class="leaf"><span class="name">{escape(leaf.name)}</span>'
        f'<span class="details">{kind}{escape(text)}</span></div>'
    )
