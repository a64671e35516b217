"""How an array is cut into chunks, as a small picture: rows go down, the last axis goes to the right."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["chunk_grid_svg"]

_WIDTH, _HEIGHT = 150.0, 54.0
_LEAST_SIDE = 12.0
_MOST_LINES = 30


def chunk_grid_svg(shape: Sequence[int], chunks: Sequence[int]) -> str:
    """Return the grid of the first and the last axis of an array; of a scalar or an empty array nothing.

    Parameters
    ----------
    shape, chunks : sequence of int
        Of the array, in elements.
    """
    if not shape or 0 in shape:
        return ""
    rows, columns = shape[0], shape[-1] if len(shape) > 1 else 1
    row, column = min(chunks[0], rows), min(chunks[-1], columns) if len(shape) > 1 else 1
    width, height = _sides(columns, rows)
    lines = "".join(
        [
            *(f'<path d="M0 {y:.1f}H{width:.1f}"/>' for y in _cuts(rows, row, height)),
            *(f'<path d="M{x:.1f} 0V{height:.1f}"/>' for x in _cuts(columns, column, width)),
        ]
    )
    chunk = f'<rect class="chunk" width="{width * column / columns:.2f}" height="{height * row / rows:.2f}"/>'
    told = "one of the chunks is filled"
    if max(-(-rows // row), -(-columns // column)) > _MOST_LINES:
        told += "; not every cut is drawn"
    box = f'viewBox="-1 -1 {width + 2:.1f} {height + 2:.1f}"'
    return (
        f'<svg class="grid" width="{width + 2:.0f}" height="{height + 2:.0f}" {box}>'
        f'<title>{told}</title>{chunk}<rect class="whole" width="{width:.1f}" height="{height:.1f}"/>{lines}</svg>'
    )


def _sides(columns: int, rows: int) -> tuple[float, float]:
    """Return width and height of the picture: the shape of the array, where it is not too long or too wide for it."""
    scale = min(_WIDTH / columns, _HEIGHT / rows)
    return max(columns * scale, _LEAST_SIDE), max(rows * scale, _LEAST_SIDE)


def _cuts(length: int, chunk: int, side: float) -> list[float]:
    """Return where the cuts between chunks are, of many some at equal distances."""
    count = -(-length // chunk) - 1
    step = -(-count // _MOST_LINES) if count > _MOST_LINES else 1
    return [side * chunk * number / length for number in range(step, count + 1, step)]
