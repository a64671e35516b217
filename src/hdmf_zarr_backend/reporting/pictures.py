"""Pictures for the page, as SVG: a treemap of sizes, and the chunk grid of an array.

`page` has the text and the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hdmf_zarr_backend.model.render import escape, size_text

_TITLE = 16.0  # of a group, above its members
_LEAST = 3.0  # narrower rectangles are drawn as one
_COLOURS = 8
_LETTER = 6.6  # width of a letter of a label


@dataclass(slots=True)
class Area:
    """A node with stored bytes, and its members.

    Attributes
    ----------
    name, path : str
        Of the node.
    size : float
        Bytes; of a group the sum of its members.
    members : list of Area
        Empty for an array.
    """

    name: str
    path: str
    size: float
    members: list[Area] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A rectangle, in pixels."""

    x: float
    y: float
    width: float
    height: float


def lay_out(sizes: Sequence[float], place: Rectangle) -> list[Rectangle]:
    """Divide a rectangle into one for each size, with proportional areas.

    They are as square as possible ("squarified treemaps": Bruls, Huizing, van Wijk 2000).
    """
    found: list[Rectangle] = []
    scale = place.width * place.height / sum(sizes) if sizes else 0.0
    start = 0
    while start < len(sizes):
        side = min(place.width, place.height)
        stop = start + 1
        worst = _worst(sizes[start:stop], side, scale)
        while stop < len(sizes) and (longer := _worst(sizes[start : stop + 1], side, scale)) <= worst:
            stop, worst = stop + 1, longer
        row, place = _cut(sizes[start:stop], place, scale)
        found += row
        start = stop
    return found


def _worst(row: Sequence[float], side: float, scale: float) -> float:
    """Return the ratio of the sides of the least square rectangle of a row, 1 or more."""
    total = sum(row) * scale
    if not total or not side:
        return float("inf")
    thickness = total / side
    return max(max(thickness**2 / (size * scale), size * scale / thickness**2) for size in (row[0], row[-1]))


def _cut(row: Sequence[float], place: Rectangle, scale: float) -> tuple[list[Rectangle], Rectangle]:
    is_column = place.width >= place.height
    side = place.height if is_column else place.width
    thickness = sum(row) * scale / side if side else 0.0
    found, start = [], place.y if is_column else place.x
    for size in row:
        length = size * scale / thickness if thickness else 0.0
        along = (place.x, start, thickness, length) if is_column else (start, place.y, length, thickness)
        found.append(Rectangle(*along))
        start += length
    if is_column:
        return found, Rectangle(place.x + thickness, place.y, max(0.0, place.width - thickness), place.height)
    return found, Rectangle(place.x, place.y + thickness, place.width, max(0.0, place.height - thickness))


def treemap_svg(root: Area, width: float = 960.0, height: float = 420.0) -> str:
    """Return the treemap of ``root``, with a size in pixels; empty if nothing is stored."""
    if root.size <= 0:
        return ""
    parts = "".join(_drawn(root, Rectangle(0, 0, width, height)))
    return f'<svg class="treemap" viewBox="0 0 {width:.0f} {height:.0f}" role="img">{parts}</svg>'


def _drawn(root: Area, whole: Rectangle) -> Iterator[str]:
    pending = [(root, whole, 0, 0)]
    while pending:
        area, place, level, colour = pending.pop()
        yield _box(area, place, level, colour)
        inner = place
        if level:
            inner = Rectangle(place.x + 1, place.y + _TITLE, place.width - 2, place.height - _TITLE)
        if inner.width < 2 * _LEAST or inner.height < 2 * _LEAST:
            continue
        members = _worth_drawing(area, inner)
        places = lay_out([member.size for member in members], inner)
        for number, (member, where) in enumerate(zip(members, places, strict=True)):
            pending.append((member, where, level + 1, number % _COLOURS if level == 0 else colour))


def _worth_drawing(area: Area, place: Rectangle) -> list[Area]:
    """Return the members of an area, the largest first; those too small for a separate rectangle are combined."""
    members = sorted((member for member in area.members if member.size > 0), key=lambda member: -member.size)
    total = sum(member.size for member in members)
    least = total * (_LEAST * _LEAST) / (place.width * place.height)
    small = [member for member in members if member.size < least]
    if len(small) < 2:
        return members
    rest = Area(f"{len(small):,} smaller ones", area.path, sum(member.size for member in small))
    return [*members[: len(members) - len(small)], rest]


def _box(area: Area, place: Rectangle, level: int, colour: int) -> str:
    if level == 0:
        return ""
    title = f"{area.path or '/'}{'' if area.path.endswith(area.name) else ': ' + area.name}, {size_text(area.size)}"
    depth = min(level, 4)
    box = (
        f'<rect class="c{colour} l{depth}" x="{place.x:.1f}" y="{place.y:.1f}" '
        f'width="{max(place.width - 1, 0.5):.1f}" height="{max(place.height - 1, 0.5):.1f}">'
        f"<title>{escape(title)}</title></rect>"
    )
    letters = int((place.width - 6) / _LETTER)
    label = f"{area.name} {size_text(area.size)}"
    if letters < 4 or place.height < _TITLE:
        return box
    if len(label) > letters:
        label = area.name if len(area.name) <= letters else f"{area.name[: letters - 1]}…"
    return f'{box}<text x="{place.x + 4:.1f}" y="{place.y + 12:.1f}">{escape(label)}</text>'


# ---- the chunk grid of an array -------------------------------------------------------------------------------------

_GRID_WIDTH, _GRID_HEIGHT = 150.0, 54.0
_LEAST_SIDE = 12.0
_MOST_LINES = 30


def chunk_grid_svg(shape: Sequence[int], chunks: Sequence[int]) -> str:
    """Return the grid of the first axis, downwards, and the last axis; empty for a scalar or an empty array."""
    if not shape or 0 in shape:
        return ""
    rows, columns = shape[0], shape[-1] if len(shape) > 1 else 1
    row, column = min(chunks[0], rows), min(chunks[-1], columns) if len(shape) > 1 else 1
    # the shape of the array, if that is not too long or too wide
    scale = min(_GRID_WIDTH / columns, _GRID_HEIGHT / rows)
    width, height = max(columns * scale, _LEAST_SIDE), max(rows * scale, _LEAST_SIDE)
    lines = "".join(f'<path d="M0 {y:.1f}H{width:.1f}"/>' for y in _cuts(rows, row, height))
    lines += "".join(f'<path d="M{x:.1f} 0V{height:.1f}"/>' for x in _cuts(columns, column, width))
    chunk = f'<rect class="chunk" width="{width * column / columns:.2f}" height="{height * row / rows:.2f}"/>'
    title = "one of the chunks is filled"
    if max(-(-rows // row), -(-columns // column)) > _MOST_LINES:
        title += "; not every cut is drawn"
    box = f'viewBox="-1 -1 {width + 2:.1f} {height + 2:.1f}"'
    return (
        f'<svg class="grid" width="{width + 2:.0f}" height="{height + 2:.0f}" {box}>'
        f'<title>{title}</title>{chunk}<rect class="whole" width="{width:.1f}" height="{height:.1f}"/>{lines}</svg>'
    )


def _cuts(length: int, chunk: int, side: float) -> list[float]:
    """Return the positions of the cuts between chunks; of many cuts, some at equal distances."""
    count = -(-length // chunk) - 1
    step = -(-count // _MOST_LINES) if count > _MOST_LINES else 1
    return [side * chunk * number / length for number in range(step, count + 1, step)]
