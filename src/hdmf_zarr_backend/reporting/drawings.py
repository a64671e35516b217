"""Pictures of the page: a treemap of sizes and envelopes of series, as SVG; images as PNG.

They are drawn in the page itself. All text comes from the file, which may be crafted, so it is escaped.

Source: SVG 2; PNG (Third Edition).
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.model.content import Values
from hdmf_zarr_backend.model.render import escape, size_text

# ---- a treemap of sizes ---------------------------------------------------------------------------------------------

_TITLE = 16.0  # of a group, above its members
_LEAST = 3.0  # narrower rectangles are drawn as one
_COLOURS = 8
_LETTER = 6.6  # width of a letter of a label


@dataclass(slots=True)
class Area:
    """A node with stored bytes: those of an array, or the sum of the members of a group."""

    name: str
    path: str
    size: float
    members: list[Area] = field(default_factory=list)


class Rectangle(NamedTuple):
    """A rectangle, in pixels."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], whole: Rectangle) -> list[Rectangle]:
    """Divide a rectangle into one for each size, with proportional areas; the largest size is first.

    The longer side is cut between two halves of the sizes, again and again: the parts become about as wide as high.
    """
    if len(sizes) < 2:
        return [whole] * len(sizes)
    count, half, total = 1, sizes[0], sum(sizes) or 1.0
    while count < len(sizes) - 1 and half + sizes[count] / 2 < total / 2:
        half += sizes[count]
        count += 1
    x, y, width, height = whole
    if width >= height:
        cut = width * half / total
        parts = Rectangle(x, y, cut, height), Rectangle(x + cut, y, width - cut, height)
    else:
        cut = height * half / total
        parts = Rectangle(x, y, width, cut), Rectangle(x, y + cut, width, height - cut)
    return [*lay_out(sizes[:count], parts[0]), *lay_out(sizes[count:], parts[1])]


def treemap_svgs(root: Area, specifications: float = 0) -> str:
    """Return the treemap of ``root`` in a wide and a narrow form, or that nothing is stored.

    The cached specifications are a strip of a fixed height: in many files they would hide the data.
    """
    if root.size <= 0:
        return '<p class="soft">Nothing is stored in chunks.</p>'
    pictures = ""
    # two pictures, of which the style shows one: a phone would show the wide one with labels of 3 pixels
    for form, width, height in (("wide", 960.0, 420.0), ("narrow", 380.0, 460.0)):
        parts = "".join(_drawn(root, Rectangle(0, 0, width, height)))
        if specifications:
            strip = Area("specifications (not to scale)", "/specifications", specifications)
            parts += _box(strip, Rectangle(0, height + 2, width, _TITLE + 2), 1, 5)
        bottom = height + (_TITLE + 4 if specifications else 0)
        box = f'viewBox="0 0 {width:.0f} {bottom:.0f}" role="img"'
        pictures += f'<div class="{form}"><svg class="treemap" {box}>{parts}</svg></div>'
    return pictures


def _drawn(root: Area, whole: Rectangle) -> Iterator[str]:
    """Yield the boxes of a tree of areas, each before those in it; members too small for a box are combined."""
    pending = [(root, whole, 0, 0)]
    while pending:
        area, box, level, colour = pending.pop()
        inner = box
        if level:
            yield _box(area, box, level, colour)
            inner = Rectangle(box.x + 1, box.y + _TITLE, box.width - 2, box.height - _TITLE)
        if inner.width < 2 * _LEAST or inner.height < 2 * _LEAST:
            continue
        members = sorted((member for member in area.members if member.size > 0), key=lambda member: -member.size)
        least = sum(member.size for member in members) * (_LEAST * _LEAST) / (inner.width * inner.height)
        small = [member for member in members if member.size < least]
        if len(small) > 1:  # thousands of datasets would be as many rectangles, all too thin to be seen
            rest = Area(f"{len(small):,} smaller ones", area.path, sum(member.size for member in small))
            members = [*members[: len(members) - len(small)], rest]
        boxes = lay_out([member.size for member in members], inner)
        for number, (member, rectangle) in enumerate(zip(members, boxes, strict=True)):
            pending.append((member, rectangle, level + 1, number % _COLOURS if level == 0 else colour))


def _box(area: Area, box: Rectangle, level: int, colour: int) -> str:
    title = f"{area.path or '/'}{'' if area.path.endswith(area.name) else ': ' + area.name}, {size_text(area.size)}"
    rectangle = (
        f'<rect class="c{colour} l{min(level, 4)}" x="{box.x:.1f}" y="{box.y:.1f}" '
        f'width="{max(box.width - 1, 0.5):.1f}" height="{max(box.height - 1, 0.5):.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )
    # SVG does not shorten text, and a page without scripts cannot measure it
    letters = int((box.width - 6) / _LETTER)
    label = f"{area.name} {size_text(area.size)}"
    if letters < 4 or box.height < _TITLE:
        return rectangle
    if len(label) > letters:
        label = area.name if len(area.name) <= letters else f"{area.name[: letters - 1]}…"
    return f'{rectangle}<text x="{box.x + 4:.1f}" y="{box.y + 12:.1f}">{escape(label)}</text>'


# ---- values ---------------------------------------------------------------------------------------------------------

_LANE = 60.0


def envelope_svg(lows: Values, highs: Values, labels: Sequence[str]) -> str:
    """Return a drawing of the least and the greatest values, ``(channels, bins)``, each channel with its own scale.

    Where nothing was read (NaN), the values between are drawn pale.
    """
    lanes = ""
    for low, high, label in zip(lows, highs, labels, strict=True):
        known = np.flatnonzero(~np.isnan(low))
        parts = ""
        if known.size:
            least, most = float(low[known].min()), float(high[known].max())
            scale = (_LANE - 4) / (most - least) if most > least else 0.0
            middle = 2.0 if scale else _LANE / 2
            ys = [middle + (most - values) * scale for values in (high, low)]
            if known.size < len(low):
                parts = _band("pale", known, ys)
            for run in np.split(known, np.flatnonzero(np.diff(known) > 1) + 1):
                parts += _band("read", run, ys)
        box = f'viewBox="0 0 {len(low)} {_LANE:.0f}" preserveAspectRatio="none" role="img"'
        lanes += f'<p class="soft">{escape(label)}</p><svg class="envelope" {box}>{parts}</svg>'
    return lanes


def _band(kind: str, places: npt.NDArray[np.intp], ys: Sequence[Values]) -> str:
    """Return the area between two lines at some bins."""
    xs = [places[0], *(places + 0.5), places[-1] + 1]  # the first and the last bin are as wide as the others
    top, bottom = ([values[places[0]], *values[places], values[places[-1]]] for values in ys)
    points = [*zip(xs, top, strict=True), *zip(xs[::-1], bottom[::-1], strict=True)]
    return f'<path class="{kind}" d="M{"L".join(f"{x:g} {y:.1f}" for x, y in points)}Z"/>'


def png(pixels: Values, text: str, kind: str) -> str:
    """Return an image element with ``uint8`` pixels: ``(rows, columns)`` in grey, with a third axis in RGB or RGBA."""
    rows, columns = pixels.shape[:2]
    colours = {2: 0, 3: 2}[pixels.ndim] if pixels.ndim == 2 or pixels.shape[2] == 3 else 6
    lines = b"".join(b"\0" + row.tobytes() for row in pixels)
    data = b"\x89PNG\r\n\x1a\n"
    header = struct.pack(">IIBBBBB", columns, rows, 8, colours, 0, 0, 0)
    for name, content in ((b"IHDR", header), (b"IDAT", zlib.compress(lines)), (b"IEND", b"")):
        checksum = struct.pack(">I", zlib.crc32(name + content))
        data += struct.pack(">I", len(content)) + name + content + checksum
    source = f"data:image/png;base64,{base64.b64encode(data).decode('ascii')}"
    return f'<img class="{kind}" alt="{escape(text)}" width="{columns}" height="{rows}" src="{source}">'
