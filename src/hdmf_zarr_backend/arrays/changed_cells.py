"""Cells of changed chunks that need work before they are stored: references without a path, text beyond its field.

Format 3 stores the text and references of rows in fields of fixed length. A field that is too short becomes at least
twice as long, so that not every added row rewrites all others.

Source: docs/format, "Rows".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy.typing as npt

from hdmf_zarr_backend.arrays.objects import cell_texts
from hdmf_zarr_backend.errors import ConflictError
from hdmf_zarr_backend.formats.dtypes import numpy_dtype
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute

Array = npt.NDArray[Any]
Encode = Callable[[Any], Any]
Node = ArrayNode[Attributes]

_STRUCT = "struct"


class DeferredReference:
    """A reference whose target may not be in the file yet; its path is known when the file is written.

    Parameters
    ----------
    target : object
        A container or a builder.
    """

    __slots__ = ("target",)

    def __init__(self, target: Any) -> None:
        self.target = target


def resolved(chunk: Array, encode: Encode, path: str, location: str) -> Array:
    """Return ``chunk`` with its deferred references in their stored form.

    Parameters
    ----------
    chunk : array
        A chunk of the array at ``path`` in the file at ``location``; it is changed in place.
    encode : callable
        Returns the stored form of a target.

    Raises
    ------
    ConflictError
        A target is not in a file.
    """
    if not chunk.dtype.hasobject:
        return chunk
    names: Sequence[str | None] = chunk.dtype.names or (None,)
    for name in names:
        flat = (chunk if name is None else chunk[name]).reshape(-1)
        for position, item in enumerate(flat):
            if isinstance(item, DeferredReference):
                try:
                    flat[position] = encode(item.target)
                except ConflictError as error:
                    raise error.located(store=location, path=absolute(path)) from None
    return chunk


def has_fields(node: Node) -> bool:
    """Return whether an array holds rows whose text is in fields of fixed length."""
    return (node.filters or [{}])[0].get("id") == _STRUCT


def wider_fields(node: Node, chunks: Iterable[Array], max_bytes: int) -> list[Any] | None:
    """Return fields that are long enough for all text in ``chunks``; None if they are already, or cannot be.

    Parameters
    ----------
    node : ArrayNode
        An array that `has_fields`.
    chunks : iterable of array
        Rows of it.
    max_bytes : int
        The most bytes that a decoded chunk may have.
    """
    fields: list[Any] = (node.filters or [{}])[0]["fields"]
    rows = [chunk.reshape(-1, len(fields)) for chunk in chunks]
    try:
        wanted = [_wanted(field, [cells[:, column] for cells in rows]) for column, field in enumerate(fields)]
    except (TypeError, ValueError):
        return None  # a cell has the wrong type for its field; encoding it raises the error
    if not any(wanted):
        return None
    for factor in (2, 1):
        wider = [_lengthened(field, most, factor) for field, most in zip(fields, wanted, strict=True)]
        row = sum(numpy_dtype(data_type).itemsize for _, data_type, _ in wider)
        if row * math.prod(node.chunks[:-1]) <= max_bytes:
            return wider
    return None


def _wanted(field: Any, columns: list[Array]) -> int:
    """Return the length of the longest cell of a field, in its units, if it does not fit; else 0."""
    _, data_type, kind = field
    if kind == "number":
        return 0
    is_bytes = numpy_dtype(data_type).kind == "S"
    texts = (text for cells in columns for text in cell_texts(cells.tolist(), kind))
    longest = max((len(text.encode()) if is_bytes else len(text) for text in texts), default=0)
    return longest if longest > _length(data_type) else 0


def _length(data_type: str) -> int:
    """Return the number of characters, or bytes, in a field of text."""
    dtype = numpy_dtype(data_type)
    return dtype.itemsize // (4 if dtype.kind == "U" else 1)


def _lengthened(field: Any, wanted: int, factor: int) -> Any:
    name, data_type, kind = field
    return [name, f"{data_type[:2]}{max(wanted, factor * _length(data_type))}", kind] if wanted else field


def set_fields(fields: list[Any], node: Node) -> None:
    """Set the fields of the rows of an array."""
    first, *others = node.filters or [{}]
    node.filters = [{**first, "fields": fields}, *others]
