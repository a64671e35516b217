"""`report`: one HTML page about a file, or about two, that opens in any browser without other files.

It loads no scripts, pictures or styles, so it can be mailed and opened without a network. All text of a file is
escaped.

Source: HTML Living Standard; SVG 2.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any, Literal

from hdmf_zarr_backend.checks.findings import Problem, Report
from hdmf_zarr_backend.checks.verify import verify
from hdmf_zarr_backend.comparison import Difference, compare, summarise
from hdmf_zarr_backend.files.html_tree import TREE_STYLE, tree_html
from hdmf_zarr_backend.files.outline import Outline, open_outline
from hdmf_zarr_backend.model.nodes import ArrayNode
from hdmf_zarr_backend.model.render import UNICODE, Description, Item, item_tree, size_text
from hdmf_zarr_backend.report.pictures import Area, chunk_grid_svg, treemap_svg

Level = Literal["structure", "links", "chunks", "schema"]

_ARRAYS = 25
_LINKS = 100
_FINDINGS = 200
_DIFFERENCES = 300
_ARRAY_BAR, _GROUP_BAR = 120, 300  # pixels


def report(
    source: str | os.PathLike[str],
    other: str | os.PathLike[str] | None = None,
    *,
    level: Level = "links",
    values: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Return an HTML page about a Zarr file: sizes, chunks, tree, links, problems.

    Parameters
    ----------
    source : str or PathLike
        The file: a directory, a zip file, or a URL of a store that can be listed.
    other : str or PathLike, optional
        A second file; the page then compares the two.
    level : {"links", "structure", "chunks", "schema"}
        How much to check for problems, as for `verify`; ``"chunks"`` decodes all chunks.
    values : bool
        Also compare the values of datasets of the two files.
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
    figures = _FileFigures(open_outline(source, sizes=True, storage_options=storage_options))
    if other is not None:
        return _of_two(source, other, figures, values=values, storage_options=storage_options)
    found = verify(source, level, storage_options=storage_options, executor="threads")
    name = os.path.basename(figures.outline.location.rstrip("/"))
    body = [
        f'<h1>{escape(name)}</h1><p class="soft">{escape(figures.outline.location)}</p>',
        _cards(figures),
        _findings_section(found),
        _treemap_section(figures),
        _arrays_section(figures),
        _links_section(figures),
        f"<h2>Tree</h2>{tree_html(figures.outline)}",
    ]
    return _page(name, body)


def _of_two(
    source: str | os.PathLike[str],
    other: str | os.PathLike[str],
    figures: _FileFigures,
    *,
    values: bool,
    storage_options: Mapping[str, Any] | None,
) -> str:
    second = _FileFigures(open_outline(other, sizes=True, storage_options=storage_options))
    found = compare(source, other, values=values, storage_options=storage_options)
    body = ["<h1>Two files</h1>"]
    for ordinal, one in (("first", figures), ("second", second)):
        body.append(f"<h2>{ordinal}: {escape(one.outline.location)}</h2>{_cards(one)}")
    body += [_sizes_section(figures, second), _differences_section(found)]
    return _page("Two files", body)


def _page(title: str, body: list[str]) -> str:
    style = files("hdmf_zarr_backend.report").joinpath("page.css").read_text(encoding="utf-8")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{style}{TREE_STYLE}</style></head><body>{''.join(body)}"
        "<footer>made by <code>zarrio report</code></footer></body></html>\n"
    )


# ---- one file -------------------------------------------------------------------------------------------------------


class _FileFigures:
    """The figures of a file on the page, from its metadata and the sizes of its objects.

    Parameters
    ----------
    outline : Outline
        The file, with stored sizes.

    Attributes
    ----------
    arrays : list of dict
        As in `Outline.document`, the largest on disk first.
    links, references : list of dict
        ``{"path": ..., "target": ...}``.
    groups : int
        Number of groups.
    nbytes, stored : int
        Bytes of all arrays whose elements have a size, and of all stored chunks, cached specifications too.
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
        self.groups = sum(node["kind"] == "group" for node in nodes)
        self.links = [{"path": node["path"], "target": node["target"]} for node in nodes if node["kind"] == "link"]
        self.references = [
            {"path": f"{node['path']} @{name}", "target": target}
            for node in nodes
            for name, targets in node.get("references", {}).items()
            for target in targets
        ]
        self.nbytes = sum(array["bytes"] or 0 for array in self.arrays)
        self.stored = sum((outline.stored or {}).values())
        self.areas = _areas(item_tree(outline.hierarchy, self._described), outline.spec_path)

    def _described(self, path: str, node: Any) -> Description:
        stored = self.outline.stored or {}
        return Description(size=stored.get(path, 0) if isinstance(node, ArrayNode) else 0)

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
        (f"{figures.groups:,}", "groups"),
        (f"{len(figures.arrays):,}", "arrays"),
        (f"{sum(array['chunk_count'] for array in figures.arrays):,}", "chunks"),
        (f"{len(figures.links):,}", "links"),
        (size_text(figures.nbytes), "uncompressed, without text and references"),
        (size_text(figures.stored), "stored"),
    ]
    if figures.nbytes and figures.stored:
        sized = sum(array["stored_bytes"] for array in figures.arrays if array["bytes"] is not None)
        shown.append((f"{figures.nbytes / sized:.2f}" if sized else "", "compression ratio"))
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{label}</span></div>' for value, label in shown if value)
    cached = "; ".join(f"{name} {', '.join(found)}" for name, found in document["specifications"].items())
    namespaces = f'<p class="soft">cached namespaces: {escape(cached)}</p>' if cached else ""
    return f'<div class="cards">{boxes}</div>{namespaces}'


def _treemap_section(figures: _FileFigures) -> str:
    """Return the picture of the stored bytes."""
    picture = treemap_svg(figures.areas) or '<p class="soft">Nothing is stored in chunks.</p>'
    return f"<h2>Where the bytes are</h2>{picture}"


def _arrays_section(figures: _FileFigures) -> str:
    """Return the table of the largest arrays."""
    rows = []
    largest = figures.arrays[0]["stored_bytes"] if figures.arrays else 0
    for array in figures.arrays[:_ARRAYS]:
        stored, size = array["stored_bytes"], array["bytes"]
        width = _ARRAY_BAR * stored / largest if largest else 0
        ratio = f"{size / stored:.2f}" if stored and size else ""
        rows.append(
            [
                f'<td class="path">{escape(array["path"])}</td>',
                f"<td>{escape(array['dtype'])}</td>",
                f'<td class="length">{_lengths(array["shape"]) or "scalar"}</td>',
                f'<td class="length">{_lengths(array["chunks"]) if array["chunk_count"] > 1 else "one"}</td>',
                f'<td class="number">{array["chunk_count"]:,}</td>',
                f"<td>{chunk_grid_svg(array['shape'], array['chunks']) if array['chunk_count'] > 1 else ''}</td>",
                f"<td>{escape(', '.join(array['codecs']))}</td>",
                f'<td class="number">{"" if size is None else size_text(size)}</td>',
                f'<td class="number">{size_text(stored)}</td>',
                f'<td><span class="bar" style="width:{width:.0f}px"></span></td>',
                f'<td class="number">{ratio}</td>',
            ]
        )
    head = ["array", "dtype", "shape", "chunk", "#chunks", "", "codecs", "#size", "#stored", "", "#ratio"]
    rest = len(figures.arrays) - len(rows)
    more = f'<p class="soft">{rest:,} smaller ones are in the tree.</p>' if rest > 0 else ""
    return f"<h2>Largest arrays</h2>{_table(head, rows)}{more}"


def _links_section(figures: _FileFigures) -> str:
    """Return the links and the references in attributes; nothing where there are none."""
    parts = []
    for title, found in (("link", figures.links), ("reference in an attribute", figures.references)):
        if not found:
            continue
        rows = [
            [f'<td class="path">{escape(one["path"])}</td>', f'<td class="path">→ {escape(_place(one["target"]))}</td>']
            for one in found[:_LINKS]
        ]
        parts.append(_table([title, "target"], rows) + _more(len(found) - len(rows)))
    return f"<h2>Links and references</h2>{''.join(parts)}" if parts else ""


def _findings_section(report: Report) -> str:
    """Return the findings of `verify`."""
    problems, remarks = report.problems, report.remarks
    if report.is_sound:
        verdict = '<span class="good">sound</span>'
    else:
        verdict = f'<span class="bad">{len(problems):,} problem{"s"[: len(problems) != 1]}</span>'
    return (
        f'<h2>Problems</h2><p>{verdict} <span class="soft">(looked at: {report.looked_at})</span></p>'
        f"{_findings(problems)}{_remarks(remarks)}"
    )


def _findings(found: Sequence[Problem]) -> str:
    if not found:
        return ""
    rows = [
        [
            f'<td class="path">{escape(problem.path)}</td>',
            f"<td>{escape(problem.kind)}</td>",
            f"<td>{escape(problem.message)}. {escape(problem.remedy)}</td>",
        ]
        for problem in found[:_FINDINGS]
    ]
    more = _more(len(found) - len(rows), "; <code>zarrio verify</code> lists them all")
    return _table(["node", "kind", "what, and what to do"], rows) + more


def _remarks(found: Sequence[Problem]) -> str:
    if not found:
        return ""
    count = f"{len(found):,} remark{'s'[: len(found) != 1]}, no damage"
    return f"<details><summary>{count}</summary>{_findings(found)}</details>"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a title with ``#`` before it is that of a column of numbers."""
    titles = "".join(
        f'<th class="number">{title[1:]}</th>' if title.startswith("#") else f"<th>{title}</th>" for title in head
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _more(count: int, where: str = "") -> str:
    return f'<p class="soft">and {count:,} more{where}</p>' if count else ""


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
            f'<td class="path">{escape(path)}</td>',
            f'<td class="number">{size_text(one)}<br>{size_text(other)}</td>',
            f"<td>{_bar(one / most)}<br>{_bar(other / most, 'other')}</td>",
            f'<td class="number">{f"{other / one:.2f}" if one else ""}</td>',
        ]
        for path, one, other in lines
    ]
    return f"<h2>Stored bytes, first and second file</h2>{_table(['', '#stored', '', '#second / first'], rows)}"


def _bar(part: float, kind: str = "") -> str:
    return f'<span class="bar {kind}" style="width:{_GROUP_BAR * part:.0f}px"></span>' if part else "&nbsp;"


def _differences_section(found: Sequence[Difference]) -> str:
    """Return the differences between two files, counted by kind and listed."""
    if not found:
        return '<h2>Differences</h2><p class="good">none</p>'
    counts = ", ".join(f"{count:,} {kind}" for kind, count in summarise(found).items())
    rows = [
        [
            f'<td class="path">{escape(one.path)}</td>',
            f"<td>{escape(one.kind)}</td>",
            f"<td>{escape(_difference_text(one))}</td>",
        ]
        for one in found[:_DIFFERENCES]
    ]
    more = _more(len(found) - len(rows), "; <code>zarrio diff</code> lists them all")
    return f"<h2>Differences</h2><p>{escape(counts)}</p>{_table(['node', 'kind', 'first | second'], rows)}{more}"


def _difference_text(difference: Difference) -> str:
    """Return a difference without its path, which is in another column."""
    return str(difference).removeprefix(difference.path).strip()
