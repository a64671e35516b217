"""`report`: one HTML page about a file, or about two, that opens in any browser without other files.

It loads no scripts, pictures or styles, so it can be mailed and opened without a network. All text of a file is
escaped. Advice names commands of `zarrio`, with the location of the file.

Source: HTML Living Standard; SVG 2.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any

from hdmf_zarr_backend.checks.verify import Level
from hdmf_zarr_backend.comparison import Difference, compare, summarise
from hdmf_zarr_backend.errors import known_arguments
from hdmf_zarr_backend.files.html_tree import TREE_STYLE, tree_html
from hdmf_zarr_backend.files.outline import Outline, open_outline, outline_of
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.model.render import UNICODE, Description, Item, escape, item_tree, natural, pattern, size_text
from hdmf_zarr_backend.reporting.checks import checks_section, unchecked_section
from hdmf_zarr_backend.reporting.html import alike, and_more, opening, path_cell, range_text, table
from hdmf_zarr_backend.reporting.pictures import Area, chunk_grid_svg, treemap_svg
from hdmf_zarr_backend.reporting.session import kind_of, session_of
from hdmf_zarr_backend.stores.opening import open_store

_ARRAYS = 25
_LINKS = 100
_DIFFERENCES = 300
_ARRAY_BAR, _GROUP_BAR = 120, 300  # pixels


@known_arguments
def report(
    source: str | os.PathLike[str],
    other: str | os.PathLike[str] | None = None,
    *,
    level: Level = "links",
    values: bool = True,
    check: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Return an HTML page about a Zarr file: session, sizes, problems, chunks, links, tree.

    Parameters
    ----------
    source : str or PathLike
        The file: a directory, a zip file, or a URL of a store that can be listed.
    other : str or PathLike, optional
        A second file; the page then compares the two.
    level : {"links", "structure", "chunks", "schema"}
        How much to check for damage, as for `verify`; ``"chunks"`` decodes all chunks.
    values : bool
        Also compare the values of datasets of the two files.
    check : bool
        Check the file for damage and against its schema. False: leave both out.
    storage_options : mapping, optional
        For URLs.

    Returns
    -------
    str
        The document, in HTML 5.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        The file does not exist or cannot be described.
    """
    if other is not None:
        return _of_two(source, other, values=values, storage_options=storage_options)
    store = open_store(source, storage_options)
    parsed = parse(store)
    figures = _FileFigures(outline_of(store, parsed, sizes=True))
    location = figures.outline.location
    name = os.path.basename(location.rstrip("/"))
    session = session_of(parsed.store(store), parsed.hierarchy)
    body = [
        f'<h1>{escape(name)}</h1><p class="soft path">{escape(location)}</p>',
        _session_section(session) if session else f"<p>{escape(kind_of(parsed.hierarchy))}</p>",
        f"<h2>File</h2>{_cards(figures)}",
        checks_section(figures.outline, source, level, storage_options) if check else unchecked_section(location),
        _treemap_section(figures),
        _arrays_section(figures),
        _links_section(figures),
        f"<h2>Tree</h2>{tree_html(figures.outline)}",
    ]
    return _page(name, body)


def _of_two(
    source: str | os.PathLike[str],
    other: str | os.PathLike[str],
    *,
    values: bool,
    storage_options: Mapping[str, Any] | None,
) -> str:
    figures = _FileFigures(open_outline(source, sizes=True, storage_options=storage_options))
    second = _FileFigures(open_outline(other, sizes=True, storage_options=storage_options))
    found = compare(source, other, values=values, storage_options=storage_options)
    body = ["<h1>Two files</h1>"]
    for ordinal, one in (("first", figures), ("second", second)):
        body.append(f"<h2>{ordinal}: {escape(one.outline.location)}</h2>{_cards(one)}")
    body += [_sizes_section(figures, second), _differences_section(found)]
    return _page("Two files", body)


def _page(title: str, body: list[str]) -> str:
    style = files("hdmf_zarr_backend.reporting").joinpath("page.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}{TREE_STYLE}</style></head><body>{''.join(body)}"
        "<footer>made by <code>zarrio report</code></footer></body></html>\n"
    )


# ---- one file -------------------------------------------------------------------------------------------------------


class _FileFigures:
    """The figures of a file on the page, from its metadata and the sizes of its objects.

    Attributes
    ----------
    arrays : list of dict
        As in `Outline.document`, the largest on disk first.
    links, references : list of dict
        ``{"path": ..., "target": ...}``.
    counts : Sum
        Groups, arrays, links and bytes, as `zarrio inspect` shows them: without the cached specifications.
    stored : int
        Bytes of all stored chunks, with the cached specifications.
    areas : Area
        Stored bytes, group by group.
    """

    def __init__(self, outline: Outline) -> None:
        self.outline = outline
        self.document = outline.document()
        nodes: list[dict[str, Any]] = self.document["nodes"]
        self.arrays = sorted(
            (node for node in nodes if node["kind"] == "array"), key=lambda node: -int(node["stored_bytes"])
        )
        self.counts = outline.counts()
        self.links = [{"path": node["path"], "target": node["target"]} for node in nodes if node["kind"] == "link"]
        self.references = [
            {"path": f"{node['path']} @{name}", "target": target}
            for node in nodes
            for name, targets in node.get("references", {}).items()
            for target in targets
        ]
        self.stored = sum((outline.stored or {}).values())
        self.areas = _areas(item_tree(outline.hierarchy, self._described), outline.spec_path)

    def _described(self, path: str, node: Any) -> Description:
        stored = self.outline.stored or {}
        return Description(size=stored.get(path, 0) if isinstance(node, Dataset) else 0)

    def sizes_of_groups(self) -> dict[str, float]:
        """Return ``{path: stored bytes}`` of the members of the root."""
        return {f"/{area.name}": area.size for area in self.areas.members if area.size}


def _areas(root: Item, closed: str | None) -> Area:
    """Return the tree of sizes, without members of the group at ``closed``; not recursive, for deep files."""
    top = Area("/", "/", root.sum.size)
    pending = [(root, top)]
    while pending:
        item, area = pending.pop()
        for member in item.members:
            if member.node is not None and member.sum.size:
                child = Area(member.name, f"/{member.path}", member.sum.size)
                area.members.append(child)
                if member.path != closed:
                    pending.append((member, child))
    return top


def _cards(figures: _FileFigures) -> str:
    """Return the numbers about the complete file."""
    document = figures.document
    shown = [
        (
            "Zarr 2 and 3" if figures.outline.has_both else f"Zarr {document['zarr_format']}",
            "consolidated" if document["consolidated"] else "not consolidated",
        ),
        *((f"{count:,}", word if count == 1 else f"{word}s") for count, word in _kinds(figures)),
        (size_text(figures.counts.size), "uncompressed"),
        (size_text(figures.stored), "stored"),
    ]
    sized = sum(array["stored_bytes"] for array in figures.arrays if array["bytes"] is not None)
    if figures.counts.size and sized:
        shown.append((f"{figures.counts.size / sized:.2f}", "compression ratio"))
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{label}</span></div>' for value, label in shown)
    return f'<div class="cards">{boxes}</div><p class="soft">{" ".join(_notes(figures))}</p>'


def _notes(figures: _FileFigures) -> list[str]:
    """Return what the numbers leave out."""
    notes = []
    if any(array["bytes"] is None for array in figures.arrays):
        notes.append("Text and references have no uncompressed size.")
    if cached := ", ".join(f"{name} {', '.join(found)}" for name, found in figures.document["specifications"].items()):
        notes.append(f"The schema in the file ({escape(cached)}) is counted in the stored bytes only.")
    return notes


def _kinds(figures: _FileFigures) -> list[tuple[int, str]]:
    counts = figures.counts
    chunks = sum(array["chunk_count"] for array in figures.arrays)
    return [(counts.groups, "group"), (counts.arrays, "array"), (chunks, "chunk"), (counts.links, "link")]


def _session_section(session: Sequence[tuple[str, str]]) -> str:
    """Return the session of an NWB file."""
    parts = "".join(f"<dt>{escape(label)}</dt><dd>{escape(text)}</dd>" for label, text in session)
    return f'<h2>Session</h2><dl class="session">{parts}</dl>'


def _treemap_section(figures: _FileFigures) -> str:
    """Return the picture of the stored bytes, in a wide and a narrow form."""
    wide, narrow = treemap_svg(figures.areas), treemap_svg(figures.areas, 380.0, 460.0)
    if not wide:
        return '<h2>Where the bytes are</h2><p class="soft">Nothing is stored in chunks.</p>'
    return f'<h2>Where the bytes are</h2><div class="wide">{wide}</div><div class="narrow">{narrow}</div>'


# ---- arrays, links and references -----------------------------------------------------------------------------------


def _arrays_section(figures: _FileFigures) -> str:
    """Return the table of the largest arrays; arrays with similar names are one row."""
    found = alike(figures.arrays, lambda array: (pattern(array["path"]), array["dtype"], *array["codecs"]))
    found.sort(key=lambda arrays: -_total(arrays, "stored_bytes"))
    largest = _total(found[0], "stored_bytes") if found else 0
    rows = [_array_row(arrays, largest) for arrays in found[:_ARRAYS]]
    head = ["array", "type", "shape", "chunk shape", "#chunks", "", "codecs", "#size", "#stored", "", "#ratio"]
    rest = sum(map(len, found[_ARRAYS:]))
    more = f'<p class="soft">{rest:,} smaller arrays are in the tree below.</p>' if rest else ""
    return f"<h2>Largest arrays</h2>{table(head, rows)}{more}"


def _array_row(arrays: Sequence[dict[str, Any]], largest: int) -> list[str]:
    """Return the row of one array, or of several similar ones, with their totals."""
    first, stored = arrays[0], _total(arrays, "stored_bytes")
    size = None if first["bytes"] is None else _total(arrays, "bytes")
    width = _ARRAY_BAR * stored / largest if largest else 0
    return [
        f'<td class="path">{_array_names(arrays)}</td>',
        f"<td>{escape(first['dtype'])}</td>",
        f'<td class="length">{_shape_text(arrays)}</td>',
        *_chunk_cells(arrays),
        f'<td class="codecs">{escape(", ".join(first["codecs"]))}</td>',
        f'<td class="number">{"" if size is None else size_text(size)}</td>',
        f'<td class="number">{size_text(stored)}</td>',
        f'<td><span class="bar" style="width:{width:.0f}px"></span></td>',
        f'<td class="number">{f"{size / stored:.2f}" if stored and size else ""}</td>',
    ]


def _chunk_cells(arrays: Sequence[dict[str, Any]]) -> list[str]:
    """Return the cells about chunks: their shape, their number, and the grid."""
    count = _total(arrays, "chunk_count")
    shape, chunks = _same(array["shape"] for array in arrays), _same(array["chunks"] for array in arrays)
    grid = ""
    if count == len(arrays):
        text = "whole array" if arrays[0]["shape"] else ""
    elif chunks is None:
        text = "different"
    else:
        shards = _same(array["shards"] or [] for array in arrays)
        text = f"{_lengths(chunks)} in shards of {_lengths(shards)}" if shards else _lengths(chunks)
        grid = chunk_grid_svg(shape, chunks) if shape is not None else ""
    return [f'<td class="length">{text}</td>', f'<td class="number">{count:,}</td>', f"<td>{grid}</td>"]


def _array_names(arrays: Sequence[dict[str, Any]]) -> str:
    if len(arrays) == 1:
        return escape(arrays[0]["path"])
    sizes = [array["stored_bytes"] for array in arrays]
    each = size_text(sum(sizes) / len(sizes))
    about = "" if size_text(min(sizes)) == size_text(max(sizes)) else "about "
    title = f"{escape(range_text(array['path'] for array in arrays))}, {len(arrays):,} {UNICODE.times} {about}{each}"
    ordered = sorted(arrays, key=lambda array: natural(array["path"]))
    return opening(title, [f"{escape(array['path'])}, {size_text(array['stored_bytes'])}" for array in ordered])


def _shape_text(arrays: Sequence[dict[str, Any]]) -> str:
    shapes = sorted((array["shape"] for array in arrays), key=math.prod)
    texts = dict.fromkeys(_lengths(shape) or "scalar" for shape in (shapes[0], shapes[-1]))
    return " to ".join(texts)


def _same(found: Iterable[list[int]]) -> list[int] | None:
    """Return the shape that all have, None if they differ."""
    distinct = {tuple(one) for one in found}
    return list(distinct.pop()) if len(distinct) == 1 else None


def _total(arrays: Sequence[dict[str, Any]], name: str) -> int:
    return sum(array[name] or 0 for array in arrays)


def _links_section(figures: _FileFigures) -> str:
    """Return the links and the references in attributes; nothing where there are none."""
    parts = []
    for title, links in (("link", figures.links), ("reference in an attribute", figures.references)):
        found = [(link["path"], _place(link["target"])) for link in links]
        rows = alike(sorted(found, key=lambda link: natural(link[0])), lambda link: tuple(map(pattern, link)))
        if rows:
            shown = [_link_row(row) for row in rows[:_LINKS]]
            parts.append(table([title, "target"], shown) + and_more(sum(map(len, rows[_LINKS:]))))
    return f"<h2>Links and references</h2>{''.join(parts)}" if parts else ""


def _link_row(links: Sequence[tuple[str, str]]) -> list[str]:
    """Return the row of one link, or of several similar ones."""
    (path, target), arrow = links[0], UNICODE.arrow
    if len(links) == 1:
        return [path_cell(path), path_cell(f"{arrow} {target}")]
    title = f"{escape(range_text(path for path, _ in links))}, {len(links):,}"
    names = opening(title, [f"{escape(path)} {arrow} {escape(target)}" for path, target in links])
    targets = {target for _, target in links}
    where = target if len(targets) == 1 else range_text(targets)
    return [f'<td class="path">{names}</td>', path_cell(f"{arrow} {where}")]


def _lengths(lengths: Sequence[int]) -> str:
    return f" {UNICODE.times} ".join(f"{n:,}" for n in lengths)


def _place(target: dict[str, Any]) -> str:
    return f"{target['file']}:{target['path']}" if "file" in target else str(target["path"])


# ---- two files ------------------------------------------------------------------------------------------------------


def _sizes_section(a: _FileFigures, b: _FileFigures) -> str:
    """Return the stored sizes of both files by the groups of the root."""
    sizes_a, sizes_b = a.sizes_of_groups(), b.sizes_of_groups()
    paths = sorted({*sizes_a, *sizes_b}, key=lambda path: -max(sizes_a.get(path, 0), sizes_b.get(path, 0)))
    lines = [("all", float(a.stored), float(b.stored))]
    lines += [(path, sizes_a.get(path, 0.0), sizes_b.get(path, 0.0)) for path in paths]
    most = max(max(one, other) for _, one, other in lines) or 1.0
    rows = [
        [
            path_cell(path),
            f'<td class="number">{size_text(one)}<br>{size_text(other)}</td>',
            f"<td>{_bar(one / most)}<br>{_bar(other / most, 'other')}</td>",
            f'<td class="number">{f"{other / one:.2f}" if one else ""}</td>',
        ]
        for path, one, other in lines
    ]
    return f"<h2>Stored bytes, first and second file</h2>{table(['', '#stored', '', '#second / first'], rows)}"


def _bar(part: float, kind: str = "") -> str:
    return f'<span class="bar {kind}" style="width:{_GROUP_BAR * part:.0f}px"></span>' if part else "&nbsp;"


def _differences_section(found: Sequence[Difference]) -> str:
    """Return the differences between two files, counted by kind and listed."""
    if not found:
        return '<h2>Differences</h2><p class="good">none</p>'
    counts = ", ".join(f"{count:,} {kind}" for kind, count in summarise(found).items())
    rows = [
        [path_cell(one.path), f"<td>{escape(one.kind)}</td>", f"<td>{escape(one.text)}</td>"]
        for one in found[:_DIFFERENCES]
    ]
    more = and_more(len(found) - len(rows), "; <code>zarrio compare</code> lists them all")
    return f"<h2>Differences</h2><p>{escape(counts)}</p>{table(['node', 'kind', 'first | second'], rows)}{more}"
