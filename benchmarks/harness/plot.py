"""The picture: each target's ratio to hdmf-zarr 0.13 on a logarithmic axis, as SVG."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from benchmarks.harness.engines import BASE, OURS
from benchmarks.harness.targets import Line, Value

_LEFT, _RIGHT, _TOP, _ROW, _BOTTOM = 390, 40, 72, 26, 44
_WIDTH = 1060
_INK, _FAINT, _OURS, _TARGET = "#222", "#d8d8d8", "#0b62a4", "#c0392b"
_DARK = """<style>@media (prefers-color-scheme: dark) {
rect, path[fill='white'] { fill: #131416 } text { fill: #e6e9ec } [stroke='#222'] { stroke: #e6e9ec }
[stroke='#d8d8d8'] { stroke: #34393f } [stroke='#f0f0f0'] { stroke: #22262b }
[fill='#0b62a4'] { fill: #5ba7e6 } [stroke='#0b62a4'] { stroke: #5ba7e6 }
}</style>"""
_FONT = "font-family='Helvetica, Arial, sans-serif'"


def picture(judged: Sequence[Line]) -> str:
    """Return an SVG document with a row for each target that is a ratio to hdmf-zarr 0.13."""
    rows = [line for line in judged if line.ours and line.target.base and line.target.base.engine == BASE]
    scale = _Scale([value for line in rows for value in _values(line)])
    height = _TOP + _ROW * len(rows) + _BOTTOM
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' {_FONT} font-size='13'>",
        _DARK,
        f"<rect width='{_WIDTH}' height='{height}' fill='white'/>",
        *_legend(),
        *_grid(scale, height),
    ]
    for number, line in enumerate(rows):
        parts += _row(line, scale, _TOP + _ROW * number + _ROW / 2)
    return "\n".join([*parts, "</svg>\n"])


class _Scale:
    """Positions on the axis."""

    def __init__(self, values: list[float]) -> None:
        logs = [math.log10(value) for value in [*values, 1.0] if value > 0]
        self.low, self.high = math.floor(min(logs)), max(1, math.ceil(max(logs)))

    def __call__(self, value: float) -> float:
        log = min(max(math.log10(value), self.low), self.high) if value > 0 else self.low
        return _LEFT + (log - self.low) / (self.high - self.low) * (_WIDTH - _LEFT - _RIGHT)


def _values(line: Line) -> list[float]:
    found = [line.target.limit, *(value.median for value in line.others.values())]
    return [*found, line.ours.least, line.ours.most] if line.ours else found


def _grid(scale: _Scale, height: int) -> list[str]:
    bottom = height - _BOTTOM
    parts = []
    for power in range(scale.low, scale.high + 1):
        for digit in range(1, 10) if power < scale.high else (1,):
            x = scale(digit * 10.0**power)
            stroke = _FAINT if digit == 1 else "#f0f0f0"
            parts.append(f"<path d='M{x:.1f} {_TOP}V{bottom}' stroke='{stroke}'/>")
        x = scale(10.0**power)
        parts.append(_text(x, bottom + 16, f"{10.0**power:g}", anchor="middle"))
    x = scale(1.0)
    parts.append(f"<path d='M{x:.1f} {_TOP - 6}V{bottom}' stroke='{_INK}' stroke-width='1.5'/>")
    middle = (_LEFT + _WIDTH - _RIGHT) / 2
    note = "ratio to hdmf-zarr 0.13 (CPU seconds if not said otherwise), smaller is better"
    parts.append(_text(middle, bottom + 35, note, anchor="middle"))
    return parts


def _row(line: Line, scale: _Scale, y: float) -> list[str]:
    assert line.ours is not None
    parts = [_text(_LEFT - 12, y + 4.5, line.target.work, anchor="end")]
    floor = [line.others[name] for name in ("hdmf alone", "files alone") if name in line.others]
    if floor:
        parts.append(_floor(scale(sum(value.median for value in floor)), y))
    for name, mark in (("HDF5", _square), ("hdmf-zarr 0.14", _diamond)):
        if name in line.others:
            parts.append(mark(scale(line.others[name].median), y))
    parts.append(_target(scale(line.target.limit), y))
    return [*parts, *_ours(line.ours, scale, y)]


def _ours(value: Value, scale: _Scale, y: float) -> list[str]:
    return [
        f"<path d='M{scale(value.least):.1f} {y}H{scale(value.most):.1f}' stroke='{_OURS}' stroke-width='3'/>",
        _dot(scale(value.median), y),
    ]


def _dot(x: float, y: float) -> str:
    return f"<circle cx='{x:.1f}' cy='{y}' r='5.5' fill='{_OURS}'/>"


def _target(x: float, y: float) -> str:
    return f"<path d='M{x:.1f} {y - 10}V{y + 10}' stroke='{_TARGET}' stroke-width='2.5'/>"


def _square(x: float, y: float) -> str:
    return (
        f"<rect x='{x - 4.5:.1f}' y='{y - 4.5}' width='9' height='9' fill='white' stroke='{_INK}' stroke-width='1.3'/>"
    )


def _diamond(x: float, y: float) -> str:
    path = f"M{x:.1f} {y - 6}l6 6l-6 6l-6 -6z"
    return f"<path d='{path}' fill='white' stroke='{_INK}' stroke-width='1.3'/>"


def _floor(x: float, y: float) -> str:
    return f"<path d='M{x:.1f} {y - 5}l5 10h-10z' fill='#999'/>"


def _legend() -> list[str]:
    entries = (
        (_dot, OURS),
        (_target, "target"),
        (_square, "HDF5"),
        (_diamond, "hdmf-zarr 0.14"),
        (_floor, "floor: hdmf and file writes alone"),
    )
    parts, x = [], 40.0
    for mark, label in entries:
        text = "this package (with its spread)" if label == OURS else label
        parts += [mark(x, 28), _text(x + 14, 32.5, text)]
        x += 52 + 7.0 * len(text)
    return parts


def _text(x: float, y: float, text: str, *, anchor: str = "start") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' fill='{_INK}'>{escape(text)}</text>"
