"""The part of the page that compares two files: their sizes side by side, and in what they differ."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hdmf_zarr_backend.comparison import Difference, summarise
from hdmf_zarr_backend.model.render import size_text
from hdmf_zarr_backend.report.sections import FileFigures, table

__all__ = ["differences_section", "sizes_section"]

_BAR = 300  # pixels
_SHOWN = 300


def sizes_section(a: FileFigures, b: FileFigures) -> str:
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
    return f"<h2>Stored bytes, first and second file</h2>{table(['', '#stored', '', '#second / first'], rows)}"


def _bar(part: float, kind: str = "") -> str:
    return f'<span class="bar {kind}" style="width:{_BAR * part:.0f}px"></span>' if part else "&nbsp;"


def differences_section(found: Sequence[Difference]) -> str:
    """Return all in which the files differ, counted by kind and listed."""
    if not found:
        return '<h2>Differences</h2><p class="good">none</p>'
    counts = ", ".join(f"{count:,} {kind}" for kind, count in summarise(found).items())
    rows = [
        [f'<td class="path">{escape(one.path)}</td>', f"<td>{escape(one.kind)}</td>", f"<td>{escape(_told(one))}</td>"]
        for one in found[:_SHOWN]
    ]
    rest = len(found) - len(rows)
    more = f'<p class="soft">and {rest:,} more; <code>zarrio diff</code> lists them all</p>' if rest else ""
    return f"<h2>Differences</h2><p>{escape(counts)}</p>{table(['node', 'kind', 'first | second'], rows)}{more}"


def _told(difference: Difference) -> str:
    """Return a difference without its path, which has a column of its own."""
    return str(difference).removeprefix(difference.path).strip()
