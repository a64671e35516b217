"""Which chunks travel inside the consolidated document: those that are read whenever the file is opened."""

from __future__ import annotations

import math

from hdmf_zarr_backend.mapping.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

_INLINE_ARRAY_BYTES = 4096
_FEW = 4


def is_read_at_open(node: ArrayNode[Attributes]) -> bool:
    """Tell whether hdmf looks at the values of an array whenever the file is opened.

    Scalars are held by builders; the first id of a table is checked; dates (a few texts) are parsed.
    """
    if not node.size or node.shards is not None or math.prod(node.grid) != 1:
        return False
    if node.attributes.get(DTYPE) == "scalar" or notes_of(node.attributes).get("scalar") is True:
        return True
    few_texts = node.attributes.get(DTYPE) == "str" and node.size <= _FEW
    return few_texts or node.attributes.get("neurodata_type", node.attributes.get("data_type")) == "ElementIdentifiers"


def is_inlined(node: ArrayNode[Attributes], data: bytes) -> bool:
    """Tell whether the consolidated document holds the one chunk of an array that is read at open, too."""
    return len(data) <= _INLINE_ARRAY_BYTES or node.attributes.get(DTYPE) == "scalar"
