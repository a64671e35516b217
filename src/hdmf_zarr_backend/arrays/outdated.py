"""The error of an open array whose file another writer has changed.

Larger chunks, and elements that take more room, come under the names of the old chunks, after the document that says
so. Old chunks that are no longer needed are deleted when the change is done.
"""

from __future__ import annotations

import math

from hdmf_zarr_backend.arrays.growth import FEW
from hdmf_zarr_backend.errors import MetadataError, StoreError
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Node, join
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import load


def error_of_absent(keys: Store, path: str, node: ArrayNode[Attributes]) -> StoreError | None:
    """Return the error of a chunk that is gone since its array was changed, None where that was not.

    It would read as the fill value. Only of arrays that may get larger chunks is the document read again.
    """
    if node.shards is not None or math.prod(node.grid) > FEW:
        return None
    return error_of_undecodable(keys, path, node)


def error_of_undecodable(keys: Store, path: str, node: ArrayNode[Attributes]) -> StoreError | None:
    """Return the error of a chunk that does not decode since its array was changed, None where that was not."""
    stored = _stored(keys, path, node)
    known = node if node.document is None else node.document  # our words may be others than those of a document
    if not isinstance(stored, ArrayNode) or len(stored.chunks) != len(known.chunks):
        return None
    if stored.chunks[:1] <= known.chunks[:1] and stored.data_type == known.data_type:
        return None
    what = "other chunks" if stored.chunks[:1] > known.chunks[:1] else "another data type"
    return StoreError(f"the array was given {what} while it was open", remedy="Open the file again.")


def _stored(keys: Store, path: str, node: ArrayNode[Attributes]) -> Node | None:
    """Return what the document of an array says now, None where it says nothing that can be understood."""
    name = zarr2.ARRAY if node.document is None else zarr3.DOCUMENT
    key = join(path, name)
    text = keys.unwrapped.get(key)
    try:
        said = None if text is None else load(text, key=key)
        if said is None:
            return None
        return zarr2.parse_array(said, {}, path) if name == zarr2.ARRAY else zarr3.parse_node(said, path)
    except MetadataError:
        return None  # the consolidated document may have it whole; that of the array is for `verify`
