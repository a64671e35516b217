"""The parts of the page about one file: numbers, arrays, links, findings. Every word of a file is escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from hdmf_zarr_backend.files.outline import Outline
from hdmf_zarr_backend.model.nodes import ArrayNode
from hdmf_zarr_backend.model.render import UNICODE, Description, Item, item_tree, size_text
from hdmf_zarr_backend.report.chunkgrid import chunk_grid_svg
from hdmf_zarr_backend.report.treemap import Area, treemap_svg
from hdmf_zarr_backend.verification.problems import Problem, Report

__all__ = ["FileFigures", "arrays_section", "cards", "findings_section", "links_section", "table", "treemap_section"]

_ARRAYS = 25
_LINKS = 100
_FINDINGS = 200
_BAR = 120  # pixels


class FileFigures:
    """What the page says of a file, from its metadata and the sizes of its objects.

    Parameters
    ----------
    outline : Outline
        The file, with stored sizes.

    Attributes
    ----------
    arrays : list of dict
        As `Outline.document` has them, the largest on disk first.
    links, references : list of dict
        ``{"path": ..., "target": ...}``.
    groups : int
        How many there are.
    nbytes, stored : int
        Bytes of all arrays whose elements have a size, and of all stored chunks, cached specifications too.
    areas : Area
        What takes the space, group by group.
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
    """Return the tree of sizes, the group at ``closed`` as a whole; a file may be nested too deeply for calls."""
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


# ---- parts of the page --------------------------------------------------------------------------------------------


def cards(figures: FileFigures) -> str:
    """Return the numbers about the file as a whole."""
    document = figures.document
    shown = [
        (f"Zarr {document['zarr_format']}", "consolidated" if document["consolidated"] else "not consolidated"),
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
    boxes = "".join(f'<div class="card"><b>{value}</b><span>{told}</span></div>' for value, told in shown if value)
    cached = "; ".join(f"{name} {', '.join(found)}" for name, found in document["specifications"].items())
    namespaces = f'<p class="soft">cached namespaces: {escape(cached)}</p>' if cached else ""
    return f'<div class="cards">{boxes}</div>{namespaces}'


def treemap_section(figures: FileFigures) -> str:
    """Return the picture of what takes the space."""
    picture = treemap_svg(figures.areas) or '<p class="soft">Nothing is stored in chunks.</p>'
    return f"<h2>Where the bytes are</h2>{picture}"


def arrays_section(figures: FileFigures) -> str:
    """Return the table of the largest arrays."""
    rows = []
    largest = figures.arrays[0]["stored_bytes"] if figures.arrays else 0
    for array in figures.arrays[:_ARRAYS]:
        stored, size = array["stored_bytes"], array["bytes"]
        width = _BAR * stored / largest if largest else 0
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
    return f"<h2>Largest arrays</h2>{table(head, rows)}{more}"


def links_section(figures: FileFigures) -> str:
    """Return the links and the references in attributes; nothing where there are none."""
    parts = []
    for title, found in (("link", figures.links), ("reference in an attribute", figures.references)):
        if not found:
            continue
        rows = [
            [f'<td class="path">{escape(one["path"])}</td>', f'<td class="path">→ {escape(_place(one["target"]))}</td>']
            for one in found[:_LINKS]
        ]
        rest = len(found) - len(rows)
        more = f'<p class="soft">and {rest:,} more</p>' if rest else ""
        parts.append(table([title, "target"], rows) + more)
    return f"<h2>Links and references</h2>{''.join(parts)}" if parts else ""


def findings_section(report: Report) -> str:
    """Return what `verify` has found."""
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
    rest = len(found) - len(rows)
    more = f'<p class="soft">and {rest:,} more; <code>zarrio verify</code> lists them all</p>' if rest else ""
    return table(["node", "kind", "what, and what to do"], rows) + more


def _remarks(found: Sequence[Problem]) -> str:
    if not found:
        return ""
    count = f"{len(found):,} remark{'s'[: len(found) != 1]}, no damage"
    return f"<details><summary>{count}</summary>{_findings(found)}</details>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a title that begins with ``#`` is that of a column of numbers."""
    titles = "".join(
        f'<th class="number">{title[1:]}</th>' if title.startswith("#") else f"<th>{title}</th>" for title in head
    )
    body = "".join(f"<tr>{''.join(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'


def _lengths(lengths: Sequence[int]) -> str:
    return f" {UNICODE.times} ".join(f"{n:,}" for n in lengths)


def _place(target: dict[str, Any]) -> str:
    return f"{target['file']}:{target['path']}" if "file" in target else str(target["path"])
