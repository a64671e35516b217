"""`mark_references`: finds the arrays of a LINDI file that contain references, which only their values show.

`parser` imports this module only for LINDI files, because decoding chunks needs NumPy.
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.errors import ChunkError, LimitError, MetadataError
from hdmf_zarr_backend.formats.lindi import may_hold_references
from hdmf_zarr_backend.formats.reserved import DTYPE
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, join
from hdmf_zarr_backend.stores.base import Store


def mark_references(keys: Store, hierarchy: Hierarchy) -> None:
    """Set ``zarr_dtype`` on arrays whose first element is a reference.

    Their first chunks are requested together; LINDI has them in the file of references itself.

    Parameters
    ----------
    keys : Store
        The store.
    hierarchy : Hierarchy
        The translated hierarchy; its nodes are changed.
    """
    arrays: dict[str, Any] = {path: node for path, node in hierarchy.walk() if may_hold_references(node)}
    names = {path: join(path, node.chunk_name((0,) * len(node.shape))) for path, node in arrays.items()}
    found = keys.get_many(names.values())
    most = keys.read_rules.limits.max_object_bytes
    for path, node in arrays.items():
        data = found.get(names[path])
        if data is not None and isinstance(_first(node, data, most), dict):
            node.attributes[DTYPE] = "object"


def _first(node: ArrayNode[Attributes], data: bytes, most: int) -> Any:
    try:
        return chunk_codec(node).decode(data, node.chunks, max_object_bytes=most).reshape(-1)[0]
    except (ChunkError, LimitError, MetadataError):
        return None  # reading the array raises the error again
