"""What an array of a file stands for in HDMF: a scalar, rows of fields, and HDMF's words for those. Without hdmf."""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.formats import dtypes
from hdmf_zarr_backend.formats.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode


def is_scalar(node: Any) -> bool:
    """Tell whether an array stands for a scalar dataset."""
    if not isinstance(node, ArrayNode):
        return False
    if not node.shape:
        return True
    notes = notes_of(node.attributes)
    if notes.get("rows") is True:  # the second axis of rows are their fields
        return notes.get("scalar") is True and node.shape[0] == 1
    return node.size == 1 and (node.attributes.get(DTYPE) == "scalar" or notes.get("scalar") is True)


def field_list(word: list[Any]) -> tuple[list[str], list[str]]:
    """Return names and words of the fields of a compound; hdmf-zarr repeated some entries."""
    fields: dict[str, str] = {}
    for entry in word:
        if isinstance(entry, dict) and "name" in entry:
            dtype = entry.get("dtype")
            fields.setdefault(str(entry["name"]), "object" if isinstance(dtype, dict) else str(dtype))
    return list(fields), list(fields.values())


def field_type(word: str) -> str:
    """Return what hdmf calls the type of a field: "object", "utf", "ascii" or the name of a number."""
    kind = dtypes.kind_of(word)
    return {"object": "object", "region": "object", "text": "utf", "ascii": "ascii", "bytes": "ascii"}.get(
        str(kind), dtypes.numpy_of(word).name if kind == "number" else word
    )
