"""What pages repeat of the benchmark: the ratios in the text, the tables and the plot.

A ratio is the time of the other program divided by that of this package, on all pages.


``python docs/_scripts/figures.py`` makes them from ``docs/explanation/performance-figures.inc``, which the benchmark
writes; ``tests/test_docs_figures.py`` compares the pages with it.
"""

from __future__ import annotations

import math
import re
import textwrap
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path

from generated import ROOT, table, with_part, with_parts

README = ROOT / "README.md"
PAGE = ROOT / "docs" / "explanation" / "performance.md"
METHOD = ROOT / "docs" / "explanation" / "performance-method.md"
COMPARISON = ROOT / "docs" / "explanation" / "comparison.md"
FIGURES = ROOT / "docs" / "explanation" / "performance-figures.inc"
PLOT = ROOT / "docs" / "explanation" / "performance-summary.svg"
NARROW_PLOT = ROOT / "docs" / "_static" / "performance-summary-narrow.svg"  # shown instead of it by custom.css

OURS, OLD, NEW, HDF5 = "this package", "hdmf-zarr 0.13", "hdmf-zarr 0.14", "HDF5"
ENGINES = (OURS, OLD, NEW, HDF5)


@dataclass(frozen=True)
class Work:
    """A line of the tables.

    Attributes
    ----------
    label : str
        What was done.
    target : str
        The row of the table of targets, or empty.
    cell : tuple of str
        Workload and row of the other tables, if there is no target: heading, phase, n.
    in_plot : bool
        Whether the plot shows it.
    """

    label: str
    target: str = ""
    cell: tuple[str, ...] = ()
    in_plot: bool = True


WORKS = (
    Work("write 1,600 time series and 1,600 units", "write, 1,600 small TimeSeries + 1,600 units"),
    Work("open that file", "open and read(), 1,600"),
    Work("open it and read all series", cell=("W1", "open, read() and all series", "1,600")),
    Work("write 256 MiB from memory", cell=("W2a", "write from memory", "2,097,152")),
    Work("200 random one-second slices of 64 channels", "200 random one-second slices"),
    Work("read 256 MiB", cell=("W2a", "read whole", "2,097,152"), in_plot=False),
    Work("convert 256 MiB, 400 series from HDF5, chunks kept", "HDF5 -> Zarr, 400 series + 256 MiB, kept"),
    Work("the same, recompressed", "HDF5 -> Zarr, 400 series + 256 MiB, blosc-zstd"),
    Work("convert 922 MB from HDF5, chunks kept (wall time)", "922 MB of HDF5, kept: wall", in_plot=False),
    Work("convert back to HDF5", "Zarr -> HDF5"),
    Work("write 100,000 rows of time series references", "100,000 TimeSeriesReference: write"),
    Work("resolve all of them", "100,000 TimeSeriesReference: resolve all"),
    Work("read 100 of these rows", "100,000 TimeSeriesReference: 100 random rows"),
    Work("write 100,000 strings and a ragged column", "100,000 strings + ragged: write", in_plot=False),
    Work("read all of them", "100,000 strings + ragged: read all", in_plot=False),
    Work("read 1,000 rows of a ragged column of text", "100,000 strings + ragged: 1,000 rows"),
    Work(
        "open 100 series on S3, 20 ms per request (wall time)",
        "open and read() from S3 + 20 ms, 100 series, format 2: wall",
    ),
)  # fmt: skip
"""In the order of the tables. HDF5 converts to HDF5."""

_NUMBER = re.compile(r"[\d,]*\.?\d+(?:e-\d+)?")


def _number(cell: str) -> float | None:
    found = _NUMBER.match(cell.strip())
    return float(found[0].replace(",", "")) if found else None


@cache
def _rows() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return ``(workload, cells)`` of each row of all tables of the figures."""
    heading, found = "", []
    for line in FIGURES.read_text(encoding="utf-8").splitlines():
        if line.startswith("### "):
            heading = line.removeprefix("### ")
        elif line.startswith("| ") and not line.startswith(("| --- ", "|  | n ")):
            found.append((heading, tuple(cell.strip() for cell in line[1:-1].split(" | "))))
    return tuple(found)


def ratios(work: Work) -> dict[str, float]:
    """Return ``{engine: time as a multiple of that of hdmf-zarr 0.13}``.

    Raises
    ------
    LookupError
        The figures have no such row.
    """
    if work.target:
        for heading, cells in _rows():
            if heading == "Targets" and cells[0] == work.target:
                found = dict(zip((OURS, NEW, HDF5), (_number(cells[1]), *map(_number, cells[4:6])), strict=True))
                return {OLD: 1.0} | {engine: value for engine, value in found.items() if value is not None}
        raise LookupError(work.target)
    workload, phase, size = work.cell
    measured = {
        cells[2]: _number(cells[4])
        for heading, cells in _rows()
        if f"({workload})" in heading and cells[:2] == (phase, size) and cells[2] in ENGINES
    }
    if OURS not in measured:
        raise LookupError(str(work.cell))
    return {engine: value for engine, value in measured.items() if value is not None}


def _times(value: float) -> str:
    return f"{value:,.0f}" if value >= 9.95 else f"{value:.1f}" if value >= 0.95 else f"{value:.2g}"


def summary(works: tuple[Work, ...] = WORKS) -> str:
    """Return a table with the time of the others as a multiple of ours."""
    rows = []
    for work in works:
        found = ratios(work)
        times = [_times(found[name] / found[OURS]) if name in found else "" for name in (OLD, NEW, HDF5)]
        rows.append((work.label, *times))
    return table(["work", OLD, NEW, HDF5], rows)


def _requests(engine: str) -> str:
    """Return the number of requests with which a file of 400 series opens over HTTP."""
    for heading, cells in _rows():
        if "(W6)" in heading and cells[2] == engine:
            return cells[-1].partition(" ")[0]
    raise LookupError(engine)


_WHY = """
- **Fast**: opens a large NWB file about {open_at_least} times as fast as hdmf-zarr, converts from HDF5 at least
{kept[0]} times as fast, and opens over HTTP with {requests[0]} requests instead of over {requests_at_least}
([performance](docs/explanation/performance.md)).

- **Lossless**: HDF5 to Zarr and back gives the same file, with its types, chunks, filters, links and references.

- **Crash-safe**: a write that fails changes nothing, and `zarrio repair` undoes one that was killed
([how](docs/explanation/consistency.md)).
"""
_ANSWER = """
- **Open a file of 1,600 time series**: {open[0]} and {open[1]} times as fast, because an object is created only when
you access it; {all[0]} and {all[1]} times as fast if you access every one.

- **Write that file**: {write[0]} and {write[1]} times as fast.

- **Convert from HDF5 and keep the chunks**: {kept[0]} and {kept[1]} times as fast, because chunks are copied without
being decoded.

- **Read random slices of a large recording**: {slices[0]} and {slices[1]} times as fast, and {slices[2]} times as fast
as from HDF5 with gzip.

- **Open a file of 100 series on S3**, at 20 ms per request: {s3[0]} times as fast as with 0.13, because {requests[0]}
requests are enough for any number of objects.

- **Write one large array**: about as fast as the other Zarr backends, as nearly all of the time is compression.
"""


def _facts() -> dict[str, list[str] | int]:
    """Return how many times as long the others take, in the order of `ENGINES`, by names of the texts above."""
    facts: dict[str, list[str] | int] = {"requests": [_requests(name) for name in ENGINES]}
    for name, index in (("write", 0), ("open", 1), ("all", 2), ("slices", 4), ("kept", 6), ("s3", len(WORKS) - 1)):
        measured = ratios(WORKS[index])
        facts[name] = [_times(measured[other] / measured[OURS]) for other in ENGINES[1:] if other in measured]
    # The README rounds down, so that no release of hdmf-zarr does better than it says.
    opened = ratios(WORKS[1])
    facts["open_at_least"] = int(min(opened[OLD], opened[NEW]) / opened[OURS]) // 5 * 5
    facts["requests_at_least"] = min(int(_requests(name)) for name in (OLD, NEW)) // 100 * 100
    return facts


def why() -> str:
    """Return the reasons at the top of the README."""
    return _bullets(_WHY)


def answer() -> str:
    """Return the figures at the top of the performance page, for hdmf-zarr 0.13 and 0.14."""
    return _bullets(_ANSWER)


def _bullets(text: str) -> str:
    bullets = text.format(**_facts()).strip().split("\n\n")
    return "\n".join(
        textwrap.fill(bullet, 118, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for bullet in bullets
    )


# ---- the plot -------------------------------------------------------------------------------------------------------

_SHOWN = tuple(work for work in WORKS if work.in_plot)
_TOP, _BAR, _GAP, _BOTTOM = 64, 11, 12, 48
_CLASSES = {OLD: "old", NEW: "new", HDF5: "hdf5"}
_STYLE = """
svg { background: #ffffff; font-family: system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; font-size: 13px }
text { fill: #1f2933 } .soft { fill: #52606d } .grid { stroke: #d9e0e6 } .one { stroke: #1f2933 }
.old { fill: #d9952f } .new { fill: #8c6bb8 } .hdf5 { fill: #8996a3 } .bold { font-weight: 600 }
.above { paint-order: stroke; stroke: #ffffff; stroke-width: 4px }
@media (prefers-color-scheme: dark) {
svg { background: #131416 } text { fill: #e6e9ec } .soft { fill: #a3afba } .grid { stroke: #34393f }
.above { stroke: #131416 } .one { stroke: #e6e9ec }
.old { fill: #e5a84b } .new { fill: #b294e0 } .hdf5 { fill: #8996a3 } }
"""


def plot(*, is_narrow: bool = False) -> str:
    """Return the SVG: for each work the time of each engine, as a multiple of ours, on a logarithmic axis.

    What the work is stands beside the bars, or above them in a narrow window.
    """
    width, left, above, sides, first = (420, 16, 18, 66, _TOP + 20) if is_narrow else (960, 400, 0, 47, _TOP)
    found = [(work, ratios(work)) for work in _SHOWN]
    low, high = -0.7, 2.8
    for _, measured in found:
        for value in measured.values():
            multiple = math.log10(value / measured[OURS])
            low, high = min(low, multiple), max(high, multiple)
    right = width - (36 if is_narrow else 60)

    def x(multiple: float) -> float:
        return left + (math.log10(multiple) - low) / (high - low) * (right - left)

    heights = [_BAR * sum(name in measured for name in (OLD, NEW, HDF5)) + above + _GAP for _, measured in found]
    bottom = first + sum(heights)
    parts = ['<text x="16" y="24" class="bold">CPU time on the same work; this package = 1</text>']
    at = 16.0
    for name in (OLD, NEW, HDF5):
        parts.append(f'<rect x="{at:g}" y="36" width="12" height="12" class="{_CLASSES[name]}"/>')
        parts.append(f'<text x="{at + 18:g}" y="47">{name}</text>')
        at += 40 + 7.5 * len(name)
    parts.append(f'<text x="{x(1) + 8:.0f}" y="{sides}" class="soft">slower than this package →</text>')
    parts.append(f'<text x="{x(1) - 8:.0f}" y="{sides}" class="soft" text-anchor="end">← faster</text>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        at, kind = x(10.0**power), "one" if power == 0 else "grid"
        label = f'<text x="{at:.1f}" y="{bottom + 18}" class="soft" text-anchor="middle">{10.0**power:,g}</text>'
        parts += [f'<path d="M{at:.1f} {first - 8}V{bottom}" class="{kind}"/>', label]
    top = float(first)
    for (work, measured), height in zip(found, heights, strict=True):
        beside = f'x="{left - 14}" y="{top + (height - _GAP) / 2 + 4.5:.1f}" text-anchor="end"'
        where = f'x="{left}" y="{top + 12:.1f}" class="above"' if above else beside
        parts.append(f"<text {where}>{escape(work.label)}</text>")
        y = top + above
        for name in (OLD, NEW, HDF5):
            if name in measured:
                multiple = measured[name] / measured[OURS]
                start, end = sorted((x(1), x(multiple)))
                box = f'x="{start:.1f}" y="{y:.1f}" width="{max(end - start, 1.5):.1f}" height="{_BAR - 2}"'
                parts.append(f'<rect {box} class="{_CLASSES[name]}"/>')
                beside = f'x="{end + 4:.1f}"' if multiple >= 1 else f'x="{start - 4:.1f}" text-anchor="end"'
                parts.append(f'<text {beside} y="{y + 8.5:.1f}" font-size="10">{_times(multiple)}</text>')
                y += _BAR
        top += height
    title = "CPU time of hdmf-zarr 0.13, hdmf-zarr 0.14 and HDF5 as a multiple of that of this package"
    size = f'viewBox="0 0 {width} {bottom + _BOTTOM - 16}" width="{width}" height="{bottom + _BOTTOM - 16}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}">'
    return "\n".join([head, f"<style>{_STYLE}</style>", *parts, "</svg>", ""])


def files() -> dict[Path, str]:
    """Return ``{path: text}`` of the pages and the plot as they should be."""
    readme, page, method, other = (path.read_text(encoding="utf-8") for path in (README, PAGE, METHOD, COMPARISON))
    return {
        README: with_part(readme, "why", why()),
        PAGE: with_parts(page, {"answer": answer()}),
        METHOD: with_parts(method, {"summary": summary()}),
        COMPARISON: with_parts(other, {"speed": summary()}),
        PLOT: plot(),
        NARROW_PLOT: plot(is_narrow=True),
    }


def main() -> None:
    """Rewrite what is generated."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
