"""The drawings of the documentation as SVG: HDF5 against Zarr, and the path of the data through this package."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.sax.saxutils import escape

_STYLE = """
svg { background: #ffffff; font-family: system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif }
text { fill: #1f2933 } .soft { fill: #52606d } .write { fill: #b44d12 } .read { fill: #0b69a3 }
rect { stroke: #52606d } line { stroke-width: 1.6 } .bold { font-weight: 600 }
line.soft { stroke: #52606d } line.write { stroke: #b44d12 } line.read { stroke: #0b69a3 }
.node { fill: #f0f4f8 } .formats { fill: #fdf3d7 } .values { fill: #e6f6ee } .wanted { fill: #9ed0f5 }
@media (prefers-color-scheme: dark) {
svg { background: #131416 } text { fill: #e6e9ec } text.soft, path.soft { fill: #a3afba }
text.write, path.write { fill: #e5a84b } text.read, path.read { fill: #5ba7e6 } rect { stroke: #7b8794 }
line.soft { stroke: #a3afba } line.write { stroke: #e5a84b } line.read { stroke: #5ba7e6 }
.node { fill: #23282e } .formats { fill: #3a3219 } .values { fill: #1d3528 } .wanted { fill: #1f5480 } }
"""


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
        kind: str = "",
        bold: bool = False,
        anchor: str = "middle",
    ) -> None:
        """Add a line of text; ``x`` is its middle (or its start), ``y`` its base line."""
        names = f"{kind} bold".strip() if bold else kind
        style = f'font-size="{size}" text-anchor="{anchor}"' + (f' class="{names}"' if names else "")
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
        """Add a box with a title and lines of text in its middle."""
        position = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self._parts.append(f'<rect {position} rx="6" class="{fill}"/>')
        middle, top = x + width / 2, y + height / 2 - 9 * len(lines) + 4
        self.words(middle, top, title, bold=bold, size=13 if bold else 12)
        for number, line in enumerate(lines, start=1):
            self.words(middle, top + 18 * number, line, size=12, kind="soft")

    def arrow(self, start: tuple[float, float], end: tuple[float, float], *, kind: str = "soft") -> None:
        """Add an arrow."""
        (x1, y1), (x2, y2) = start, end
        ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
        self._parts.append(f'<line {ends} class="{kind}" marker-end="url(#head-{kind})"/>')

    def svg(self) -> str:
        """Return the text of the file."""
        size = f'width="{self.width}" height="{self.height}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" {size} role="img">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{_STYLE}</style>",
            f"<defs>{''.join(map(_head, ('soft', 'write', 'read')))}</defs>",
            *self._parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def _head(kind: str) -> str:
    """Return the head of the arrows of one kind."""
    box = 'viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto"'
    return f'<marker id="head-{kind}" {box}><path d="M0,0 L8,4 L0,8 z" class="{kind}"/></marker>'


# ---- HDF5 and Zarr -------------------------------------------------------------------------------------------------


def hdf5_and_zarr() -> str:
    """Return the picture of one slice read from an HDF5 file and from a Zarr file in a bucket."""
    picture = Picture(960, 356, "A slice read from an HDF5 file, and from the same file as Zarr in a bucket")
    left, right = 24, 504
    picture.words(left, 30, "HDF5: one file", size=15, bold=True, anchor="start")
    picture.words(right, 30, "Zarr: one object per chunk, in a bucket or folder", size=15, bold=True, anchor="start")
    picture.box(left, 48, 432, 148, "", fill="node")
    picture.words(left + 14, 70, "session.nwb", kind="soft", anchor="start")
    cells = ("tree", "0", "1", "2", "tree", "3", "tree", "4", "5", "tree", "6", "7")
    for number, name in enumerate(cells):  # as HDF5 allocates them: metadata between the chunks
        x, y = left + 16 + number % 6 * 67, 82 + number // 6 * 54
        picture.box(x, y, 61, 44, name, fill="formats" if name == "tree" else "wanted" if name in "34" else "values")
    picture.box(right, 48, 150, 148, ".zmetadata", "all names, shapes,", "types, attributes", fill="formats")
    for number in range(8):
        x, y = right + 168 + number % 4 * 67, 48 + number // 4 * 78
        fill = "wanted" if number in (3, 4) else "values"
        picture.box(x, y, 61, 70, str(number), fill=fill)
    picture.arrow((left + 216, 232), (left + 216, 202), kind="read")
    picture.words(left, 254, "Read a slice (blue): walk through the tree, request by", anchor="start")
    picture.words(left, 273, "request, then fetch its chunks one after the other.", anchor="start")
    picture.words(left, 304, "One program writes, and a crash may", anchor="start", kind="soft")
    picture.words(left, 323, "leave a damaged file.", anchor="start", kind="soft")
    picture.arrow((right + 75, 232), (right + 75, 202), kind="read")
    picture.arrow((right + 300, 232), (right + 300, 202), kind="read")
    picture.words(right, 254, "Read a slice (blue): 1 request for all metadata, then", anchor="start")
    picture.words(right, 273, "its chunks, all requested at once.", anchor="start")
    picture.words(right, 304, "The workers of a cluster write one file together,", anchor="start", kind="soft")
    picture.words(right, 323, "and an interrupted write is undone.", anchor="start", kind="soft")
    return picture.svg()


# ---- the path of the data -------------------------------------------------------------------------------------------

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
    picture.words(26, 32, "WRITE", size=13, kind="write", bold=True, anchor="start")
    picture.words(26, 200, "READ", size=13, kind="read", bold=True, anchor="start")
    for x, lines in zip(left, _STATIONS, strict=True):
        picture.box(x, top, width, height, *lines)
    for number, (to_right, to_left) in enumerate(zip(WRITE_STEPS, READ_STEPS, strict=True)):
        start, end = left[number] + width, left[number + 1]
        middle = (start + end) / 2
        picture.arrow((start + 4, top + 26), (end - 4, top + 26), kind="write")
        picture.arrow((end - 4, top + 58), (start + 4, top + 58), kind="read")
        picture.words(middle, 46, to_right, size=12, kind="write")
        picture.words(middle, 178, to_left, size=12, kind="read")
    middle, half = (left[1] + width + left[2]) / 2, 132
    first, second = ", ".join(FORMATS[:4]) + ",", ", ".join(FORMATS[4:])
    picture.box(middle - half, 222, 2 * half, 66, "encoding", first, second, fill="formats")
    picture.arrow((middle, 220), (middle, 188))
    picture.words(middle + half + 14, 251, "types of HDMF and types of Zarr,", size=12, kind="soft", anchor="start")
    picture.words(middle + half + 14, 269, "both directions in one module", size=12, kind="soft", anchor="start")
    picture.words(26, 322, "values of arrays", size=13, bold=True, anchor="start")
    _lane(picture, 336, ("data of a builder", *WRITE_VALUES, "chunks"), "write", reverse=False)
    _lane(picture, 386, ("data of a builder", *reversed(READ_VALUES), "chunks"), "read", reverse=True)
    return picture.svg()


def _lane(picture: Picture, y: float, names: tuple[str, ...], kind: str, *, reverse: bool) -> None:
    width, gap = 140, 21.6
    for number, name in enumerate(names):
        x = 26 + number * (width + gap)
        picture.box(x, y, width, 34, name, fill="values", bold=False)
        if number:
            ends = (x - gap + 3, y + 17), (x - 3, y + 17)
            picture.arrow(*(ends[::-1] if reverse else ends), kind=kind)
