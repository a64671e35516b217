"""The tables and the picture of `bench_nwb.py`, from its records."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import Any

LABELS = {
    "ours": "this package, format 2",
    "ours format 3": "this package, format 3",
    "ours format 3, shards": "this package, format 3 in shards",
    "ours, virtual": "this package, virtual (HDF5)",
    "LINDI": "LINDI (HDF5)",
}
OPEN = "open"
NEAR = 0.010
"""Seconds within which two programs count as equally fast; further apart, they do within a tenth of the time."""

Key = tuple[str, str, str, float, str]  # case, engine, place, delay, task


class CaseFigures:
    """The smallest figures of the records: other work on the machine only adds to them.

    Parameters
    ----------
    records : list of dict
        As `bench_nwb.py` makes them.
    """

    def __init__(self, records: Sequence[dict[str, Any]]) -> None:
        taken: dict[Key, list[dict[str, Any]]] = {}
        for record in records:
            key = tuple(record[name] for name in ("case", "engine", "place", "delay", "task"))
            taken.setdefault(key, []).append(record)  # type: ignore[arg-type]
        self._taken = taken
        self.cases = list(dict.fromkeys(key[0] for key in taken))
        self.engines = list(dict.fromkeys(key[1] for key in taken))
        self.delays = sorted({key[3] for key in taken if key[2] == "remote"})
        self.slices = sorted({key[4] for key in taken} - {OPEN})

    def get(self, name: str, case: str, engine: str, task: str, delay: float | None = None) -> float | None:
        """Return the smallest of a figure, None if there is none; without a delay, of the local file."""
        place, waited = ("local", 0.0) if delay is None else ("remote", delay)
        values = [record[name] for record in self._taken.get((case, engine, place, waited, task), ())]
        return min(values, default=None)

    def both(self, case: str, engine: str, task: str, delay: float) -> float | None:
        """Return the seconds of opening a remote file and reading a slice."""
        opened, read = (self.get("wall", case, engine, each, delay) for each in (OPEN, task))
        return None if opened is None or read is None else opened + read


def tables(figures: CaseFigures) -> str:
    """Return the tables in Markdown, and in how many cases this package is first."""
    parts = [_summary(figures), "Open and read the file, up to the series:", _opening(figures)]
    parts += ["Read a slice of *i* chunks from the open file:", _slicing(figures)]
    return "\n\n".join(parts) + "\n"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _opening(figures: CaseFigures) -> str:
    rows = []
    delays = figures.delays
    for case in figures.cases:
        for engine in figures.engines:
            if figures.get("wall", case, engine, OPEN, delays[0]) is None:
                continue
            received = figures.get("bytes", case, engine, OPEN, delays[0]) or 0
            rows.append(
                [case, LABELS.get(engine, engine), _ms(figures.get("cpu", case, engine, OPEN))]
                + [_count(figures.get("requests", case, engine, OPEN, delays[0])), f"{received / 1e6:.1f}"]
                + [_seconds(figures.get("wall", case, engine, OPEN, delay)) for delay in delays]
            )
    header = ["recording", "program", "local, CPU ms", "requests", "MB"]
    return _table(header + [f"{delay * 1000:.0f} ms per request, s" for delay in delays], rows)


def _slicing(figures: CaseFigures) -> str:
    rows = []
    first, last = figures.slices[0], figures.slices[-1]
    for case in figures.cases:
        for engine in figures.engines:
            if figures.get("wall", case, engine, OPEN, figures.delays[0]) is None:
                continue
            counts = [figures.get("requests", case, engine, task, figures.delays[0]) for task in figures.slices]
            local = [_ms(figures.get("cpu", case, engine, task)) for task in (first, last)]
            rows.append(
                [case, LABELS.get(engine, engine), _joined(local), _joined(map(_count, counts))]
                + [
                    _joined(_seconds(figures.get("wall", case, engine, task, delay)) for task in (first, last))
                    for delay in figures.delays
                ]
            )
    header = ["recording", "program", "local, CPU ms, *i* = 1; 5", "requests, *i* = 1 to 5"]
    return _table(header + [f"{delay * 1000:.0f} ms per request, s, *i* = 1; 5" for delay in figures.delays], rows)


def _summary(figures: CaseFigures) -> str:
    """Return in how many comparisons no other program is faster than this package, and which ones are in the others."""
    faster: dict[str, list[str | None]] = {}
    for case in figures.cases:
        for task in (OPEN, *figures.slices):
            found = {each: figures.get("cpu", case, each, task) for each in figures.engines}
            faster.setdefault("local files, CPU time", []).append(_faster(found, case))
            for delay in figures.delays:
                found = {each: figures.get("wall", case, each, task, delay) for each in figures.engines}
                kind = "opening remote files" if task == OPEN else "slices of open remote files"
                faster.setdefault(kind, []).append(_faster(found, case))
                if task != OPEN:
                    found = {each: figures.both(case, each, task, delay) for each in figures.engines}
                    faster.setdefault("opening remote files and reading a slice", []).append(_faster(found, case))
    lines = []
    for kind, others in faster.items():
        behind = Counter(each for each in others if each is not None)
        names = "".join(f"; {name} in {count}" for name, count in behind.items())
        lines.append(f"- {kind}: this package is first in {len(others) - behind.total()} of {len(others)}{names}")
    return "\n".join(lines)


def _faster(found: dict[str, float | None], case: str) -> str | None:
    """Return the other program that is faster than this package by more than the tolerance, and the case."""
    measured = {engine: value for engine, value in found.items() if value is not None}
    ours = min((value for engine, value in measured.items() if engine.startswith("ours")), default=math.inf)
    others = {engine: value for engine, value in measured.items() if not engine.startswith("ours")}
    if not others:
        return None
    best = min(others, key=lambda engine: others[engine])
    return None if ours - others[best] <= max(NEAR, ours / 11) else f"{LABELS.get(best, best)} ({case})"


def _joined(texts: Any) -> str:
    return "; ".join(texts).strip("; ")


def _count(value: float | None) -> str:
    return "" if value is None else f"{value:.0f}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{value * 1000:.0f}" if value >= 0.01 else f"{value * 1000:.1f}"


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}" if value >= 0.1 else f"{value:.2f}"


# ---- the picture ----------------------------------------------------------------------------------------------------

_STYLE = """<style>
svg { background: #ffffff; font-family: system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif; font-size: 13px }
text { fill: #1f2933 } .soft { fill: #52606d } .grid { stroke: #d9e0e6 } .bold { font-weight: 600 }
.ours { fill: #2f7fc1 } .zarr { fill: #d9952f } .hdf5 { fill: #8996a3 }
@media (prefers-color-scheme: dark) {
svg { background: #131416 } text { fill: #e6e9ec } .soft { fill: #a3afba } .grid { stroke: #34393f }
.ours { fill: #5ba7e6 } .zarr { fill: #e5a84b } .hdf5 { fill: #8996a3 } }
</style>"""
_LEFT, _WIDTH, _BAR, _TOP = 230, 900, 19, 52


def picture(figures: CaseFigures, task: str, delay: float) -> str:
    """Return bars of the seconds in which each program opens a remote file and reads a slice, on a logarithmic axis."""
    found = {
        (case, engine): seconds
        for case in figures.cases
        for engine in figures.engines
        if (seconds := figures.both(case, engine, task, delay)) is not None
    }
    low = 10 ** math.floor(math.log10(min(found.values())))
    high = 10 ** math.ceil(math.log10(max(found.values())))
    scale = (_WIDTH - _LEFT - 70) / math.log10(high / low)
    title = (
        f"Open a remote file and read {task.removeprefix('slice ')} chunks of a series, "
        f"{delay * 1000:.0f} ms per request: seconds"
    )
    parts, y = [f'<text x="16" y="24" class="bold">{escape(title)}</text>'], _TOP
    for case in figures.cases:
        parts.append(f'<text x="16" y="{y + 4}" class="bold">{case}</text>')
        y += 14
        for engine in (engine for engine in figures.engines if (case, engine) in found):
            seconds = found[case, engine]
            kind = "ours" if engine.startswith("ours") else "zarr" if engine.startswith("hdmf-zarr") else "hdf5"
            end = _LEFT + math.log10(seconds / low) * scale
            label = escape(LABELS.get(engine, engine))
            parts.append(f'<text x="{_LEFT - 8}" y="{y + 11}" text-anchor="end" class="soft">{label}</text>')
            parts.append(f'<rect x="{_LEFT}" y="{y}" width="{end - _LEFT:.1f}" height="{_BAR - 5}" class="{kind}"/>')
            parts.append(f'<text x="{end + 6:.1f}" y="{y + 11}">{_seconds(seconds)}</text>')
            y += _BAR
        y += 22
    bottom = y - 22
    grid = []
    for power in range(round(math.log10(low)), round(math.log10(high)) + 1):
        x = _LEFT + (power - math.log10(low)) * scale
        grid.append(f'<path d="M{x:.1f} {_TOP + 10}V{bottom}" class="grid"/>')
        grid.append(f'<text x="{x:.1f}" y="{bottom + 18}" class="soft" text-anchor="middle">{10.0**power:g} s</text>')
    height = bottom + 32
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" '
        f'role="img" aria-label="{escape(title)}">'
    )
    return "\n".join([head, _STYLE, *grid, *parts, "</svg>"]) + "\n"
