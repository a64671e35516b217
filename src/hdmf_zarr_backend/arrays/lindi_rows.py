"""Elements of the JSON of LINDI as those that ``json2`` gives in our own files: references unwrapped, rows laid out.

Source: LINDI, "Special Zarr annotations", References and Compound Data Types.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

_REFERENCE = "_REFERENCE"


def plain_elements(items: Iterable[Any], shape: tuple[int, ...], cells: int) -> npt.NDArray[Any]:
    """Return the elements of a chunk as an object array.

    Parameters
    ----------
    items : iterable
        Its elements, one after the other.
    shape : tuple of int
        Of the chunk.
    cells : int
        The fields of a row, which each element is then, and which become the last axis; 0: elements are no rows.

    Raises
    ------
    ValueError
        A row has another number of fields.
    """
    if not cells:
        return np.fromiter(map(_plain, items), dtype=object).reshape(shape)
    flat = (_plain(cell) for row in items for cell in _row(row, cells))
    return np.fromiter(flat, dtype=object).reshape(*shape, cells)


def _row(row: Any, cells: int) -> list[Any]:
    if not isinstance(row, list):
        return [None] * cells  # what fills a chunk that reaches beyond its array
    if len(row) != cells:
        raise ValueError(f"a row of {len(row)} fields stands where {cells} are expected")
    return row


def _plain(item: Any) -> Any:
    if not isinstance(item, dict) or _REFERENCE not in item:
        return item
    said = item[_REFERENCE]
    reference = {"path": said} if isinstance(said, str) else said
    return {"source": ".", "object_id": None, "source_object_id": None, **reference}
