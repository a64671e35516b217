"""Chunks that a file states and does not have: how many of them a copy may be asked to make.

A document of a few bytes can state a trillion chunks. Reading looks at those that are wanted; a copy has all of them.

Source: issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

import math

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.arrays.shards import inner_grid
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute
from hdmf_zarr_backend.stores.base import DOCUMENTS, KeyStore

_LEAST_BYTES = 2**16
"""What a chunk counts at least: each is an object that has to be made."""

_INDEX_ENTRY = 16
"""Bytes of an entry of the index of a shard."""


def check_unwritten(keys: KeyStore, path: str, node: ArrayNode[Attributes]) -> None:
    """Make sure that the chunks that an array lacks are few enough to be made.

    The keys of the array are listed only where it states more than the limit in all.

    Parameters
    ----------
    keys : KeyStore
        The store of the array.
    path : str
        The array, in the model's spelling.
    node : ArrayNode
        Its metadata.

    Raises
    ------
    LimitError
        They are more than ``max_unwritten_bytes``; where the store cannot list what it has, all that are stated count.
    """
    limits = keys.read_rules.limits
    cost = max(math.prod(node.chunks) * numpy_dtype(node.data_type).itemsize, _LEAST_BYTES)
    stated = math.prod(node.grid)
    if stated * cost <= limits.max_unwritten_bytes:
        return
    stored = 0
    if keys.abilities.listing:
        objects = sum(key.rpartition("/")[2] not in DOCUMENTS for key in keys.list_prefix(path))
        # the index of a shard has an entry for each of its chunks
        stored = objects * min(math.prod(inner_grid(node)), limits.max_stored_bytes // _INDEX_ENTRY)
    absent = stated - stored
    what = f"{stated:,} chunks are stated, and at most {stored:,} of them are stored"
    try:
        limits.check("max_unwritten_bytes", absent * cost, what)
    except ZarrBackendError as error:
        raise error.located(store=keys.location, path=absolute(path)) from None
