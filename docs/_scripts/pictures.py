"""The picture of the architecture page as SVG: the way of the data."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_INK, _SOFT, _PAPER = "#1f2933", "#52606d", "#ffffff"
_WRITE, _READ = "#b44d12", "#0b69a3"
_FILLS = {"node": "#f0f4f8", "formats": "#fdf3d7", "values": "#e6f6ee"}
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif"


@dataclass
class Picture:
    """An SVG that grows by boxes, arrows and words.

    Parameters
    ----------
    width, height : int
        In pixels.
    title : str
        What the picture shows, for those who cannot see it.
    """

    width: int
    height: int
    title: str
    _parts: list[str] = field(default_factory=list)

    def words(
        self,
        x: float,
        y: float,
        text: str,
        *,
        size: int = 13,
        color: str = _INK,
        bold: bool = False,
        anchor: str = "middle",
    ) -> None:
        """Put a line of text; ``x`` is its middle (or its start), ``y`` its base line."""
        style = f'font-size="{size}" fill="{color}" text-anchor="{anchor}"' + (' font-weight="600"' if bold else "")
        self._parts.append(f'<text x="{x:g}" y="{y:g}" {style}>{escape(text)}</text>')

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        title: str,
        *lines: str,
        fill: str = "node",
        bold: bool = True,
    ) -> None:
        """Put a box with a title and lines of text in its middle."""
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect {place} rx="6" fill="{_FILLS[fill]}" stroke="{_SOFT}"/>')
        middle, top = x + width / 2, y + height / 2 - 9 * len(lines) + 4
        self.words(middle, top, title, bold=bold, size=13 if bold else 12)
        for number, line in enumerate(lines, start=1):
            self.words(middle, top + 18 * number, line, size=12, color=_SOFT)

    def arrow(self, start: tuple[float, float], end: tuple[float, float], *, color: str = _SOFT) -> None:
        """Put an arrow."""
        (x1, y1), (x2, y2) = start, end
        self._parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{color}" stroke-width="1.6" '
            f'marker-end="url(#head-{color.strip("#")})"/>'
        )

    def svg(self) -> str:
        """Return the text of the file."""
        size = f'width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" {size} role="img"',
            f'     font-family="{_FONT}">',
            f"<title>{escape(self.title)}</title>",
            f"<defs>{''.join(map(_head, (_SOFT, _WRITE, _READ)))}</defs>",
            f'<rect {size} rx="8" fill="{_PAPER}"/>',
            *self._parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def _head(color: str) -> str:
    """Return the head of the arrows of one colour."""
    box = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    return f'<marker id="head-{color.strip("#")}" {box}><path d="M0,0 L8,4 L0,8 z" fill="{color}"/></marker>'


# ---- the way of the data -------------------------------------------------------------------------------------------

_STATIONS = (
    ("containers", "NWBFile, tables", "as users know them"),
    ("builders", "GroupBuilder,", "DatasetBuilder, links"),
    ("model", "Hierarchy", "{path: node}"),
    ("documents", ".zgroup .zarray", ".zattrs .zmetadata"),
    ("store", "keys", "and bytes"),
)

#: What leads from one station to the next when a file is written, and back when it is read: modules, or hdmf.
WRITE_STEPS = ("hdmf: build", "hdmf/planner", "encoding/zarr2", "write/writer")
READ_STEPS = ("hdmf: construct", "hdmf/assembler", "encoding/zarr2", "encoding/parser")
FORMATS = ("dtypes", "attributes", "references", "nczarr", "zarr2", "zarr3")
WRITE_VALUES = ("write/array_planner", "write/sources", "write/tasks", "encoding/chunk_codec")
READ_VALUES = ("encoding/chunk_codec", "array/chunks", "array/lazy", "hdmf/datasets")


def data_flow() -> str:
    """Return the picture of the two ways: written from left to right, read from right to left."""
    picture = Picture(1000, 440, "From containers to the store and back, by way of one model")
    width, height, step, top = 130, 84, 204, 66
    left = [26 + step * number for number in range(len(_STATIONS))]
    picture.words(26, 32, "WRITE", size=13, color=_WRITE, bold=True, anchor="start")
    picture.words(26, 200, "READ", size=13, color=_READ, bold=True, anchor="start")
    for x, lines in zip(left, _STATIONS, strict=True):
        picture.box(x, top, width, height, *lines)
    for number, (to_right, to_left) in enumerate(zip(WRITE_STEPS, READ_STEPS, strict=True)):
        start, end = left[number] + width, left[number + 1]
        middle = (start + end) / 2
        picture.arrow((start + 4, top + 26), (end - 4, top + 26), color=_WRITE)
        picture.arrow((end - 4, top + 58), (start + 4, top + 58), color=_READ)
        picture.words(middle, 46, to_right, size=12, color=_WRITE)
        picture.words(middle, 178, to_left, size=12, color=_READ)
    middle, half = (left[1] + width + left[2]) / 2, 132
    first, second = ", ".join(FORMATS[:4]) + ",", ", ".join(FORMATS[4:])
    picture.box(middle - half, 222, 2 * half, 66, "encoding", first, second, fill="formats")
    picture.arrow((middle, 220), (middle, 188))
    picture.words(middle + half + 14, 251, "types of HDMF and types of Zarr,", size=12, color=_SOFT, anchor="start")
    picture.words(middle + half + 14, 269, "both directions in one module", size=12, color=_SOFT, anchor="start")
    picture.words(26, 322, "values of arrays", size=13, bold=True, anchor="start")
    _lane(picture, 336, ("data of a builder", *WRITE_VALUES, "chunks"), _WRITE, reverse=False)
    _lane(picture, 386, ("data of a builder", *reversed(READ_VALUES), "chunks"), _READ, reverse=True)
    return picture.svg()


def _lane(picture: Picture, y: float, names: tuple[str, ...], color: str, *, reverse: bool) -> None:
    width, gap = 140, 21.6
    for number, name in enumerate(names):
        x = 26 + number * (width + gap)
        picture.box(x, y, width, 34, name, fill="values", bold=False)
        if number:
            ends = (x - gap + 3, y + 17), (x - 3, y + 17)
            picture.arrow(*(ends[::-1] if reverse else ends), color=color)
