"""Cells of changed chunks that cannot be stored as they are: references without a path, text longer than its field.

Format 3 has text and references of rows in fields of fixed length. A field that becomes too short is given twice its
length at least, so that not every row that is added changes all others.

Source: issue "Format 3, shards, and any store, near or far", part 1; docs/format, "Rows".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy.typing as npt

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.arrays.objects import cell_texts
from hdmf_zarr_backend.errors import ConflictError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute

Array = npt.NDArray[Any]
Encode = Callable[[Any], Any]
Node = ArrayNode[Attributes]

_STRUCT = "struct"


class DeferredReference:
    """A reference whose target may have no place in the file yet; its path is known when the file is written.

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
        Of the array at ``path`` of the file at ``location``; changed.
    encode : callable
        Returns the stored form of a target.

    Raises
    ------
    ConflictError
        A target is in no file.
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
    """Tell whether an array holds rows whose text is in fields of fixed length."""
    return (node.filters or [{}])[0].get("id") == _STRUCT


def wider_fields(node: Node, chunks: Iterable[Array], max_bytes: int) -> list[Any] | None:
    """Return the fields of rows, long enough for all text in ``chunks``; None where they are, or cannot be.

    Parameters
    ----------
    node : ArrayNode
        An array that `has_fields`.
    chunks : iterable of array
        Rows of it.
    max_bytes : int
        What a chunk may take when it is decoded.
    """
    fields: list[Any] = (node.filters or [{}])[0]["fields"]
    rows = [chunk.reshape(-1, len(fields)) for chunk in chunks]
    try:
        wanted = [_wanted(field, [cells[:, column] for cells in rows]) for column, field in enumerate(fields)]
    except (TypeError, ValueError):
        return None  # a cell is none of its field, which whoever encodes it will say
    if not any(wanted):
        return None
    for factor in (2, 1):
        wider = [_lengthened(field, most, factor) for field, most in zip(fields, wanted, strict=True)]
        row = sum(numpy_dtype(data_type).itemsize for _, data_type, _ in wider)
        if row * math.prod(node.chunks[:-1]) <= max_bytes:
            return wider
    return None


def _wanted(field: Any, columns: list[Array]) -> int:
    """Return how long the longest cell of a field is, in its units, if it does not fit; else 0."""
    _, data_type, kind = field
    if kind == "number":
        return 0
    is_bytes = numpy_dtype(data_type).kind == "S"
    texts = (text for cells in columns for text in cell_texts(cells.tolist(), kind))
    longest = max((len(text.encode()) if is_bytes else len(text) for text in texts), default=0)
    return longest if longest > _length(data_type) else 0


def _length(data_type: str) -> int:
    """Return how many characters, or bytes, a field of text holds."""
    dtype = numpy_dtype(data_type)
    return dtype.itemsize // (4 if dtype.kind == "U" else 1)


def _lengthened(field: Any, wanted: int, factor: int) -> Any:
    name, data_type, kind = field
    return [name, f"{data_type[:2]}{max(wanted, factor * _length(data_type))}", kind] if wanted else field


def set_fields(fields: list[Any], node: Node) -> None:
    """Make an array say that its rows have ``fields``."""
    first, *others = node.filters or [{}]
    node.filters = [{**first, "fields": fields}, *others]
