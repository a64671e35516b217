"""The chunks inside the consolidated document, in both formats.

Its block ``hdmf_inline`` has the stored bytes of the scalars and of the cached specifications, so that a file opens
with one round of requests. These chunks are stored as well. Other readers ignore the block, and other programs drop it
when they consolidate.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.encoding.elements import is_scalar
from hdmf_zarr_backend.encoding.reserved import DTYPE
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.nodes import Attributes, Dataset

# hdmf-zarr 0.13 needs 491 requests to open a file of 400 series on a web server: 412 of them fetch scalars one by one,
# and 69 look for documents of the cached specifications.
INLINE_KEY = "hdmf_inline"

INLINE_BYTES = 2**20
"""Maximum inlined bytes of one file."""

_VERSION = 1


def inline_block(inlined: Mapping[str, bytes]) -> dict[str, Any]:
    """Return the block of a consolidated document with inlined chunks; ``{}`` without any."""
    # The smallest chunks come first, so that as many as possible are saved a request.
    block: dict[str, str] = {}
    left = INLINE_BYTES
    for key in sorted(inlined, key=lambda key: len(inlined[key])):
        left -= len(inlined[key])
        if left < 0:
            break
        block[key] = base64.b64encode(inlined[key]).decode("ascii")
    return {INLINE_KEY: {"version": _VERSION, "chunks": block}} if block else {}


def inlined_chunks(document: Any) -> dict[str, bytes]:
    """Return the chunks inside a consolidated document; ``{}`` without a known block.

    ``document`` is ``.zmetadata``, or the consolidated block of format 3.
    """
    block = document.get(INLINE_KEY) if isinstance(document, dict) else None
    if not isinstance(block, dict) or block.get("version") != _VERSION or not isinstance(block.get("chunks"), dict):
        return {}
    try:
        return {str(key): base64.b64decode(text, validate=True) for key, text in block["chunks"].items()}
    except (TypeError, ValueError, binascii.Error) as error:
        problem = f"the block {INLINE_KEY!r} of the consolidated document is damaged ({error})"
        raise MetadataError(problem, path="/", remedy="Run `zarrio consolidate`.") from error


_INLINE_ARRAY_BYTES = 4096
_FEW = 4


def is_read_at_open(node: Dataset[Attributes]) -> bool:
    """Tell whether hdmf reads the values of an array whenever the file is opened.

    Builders have the values of scalars; the first id of a table is checked; dates (a few texts) are parsed.
    """
    stored = node.stored
    if not stored.size or stored.shards is not None or math.prod(stored.grid) != 1:
        return False
    if is_scalar(node):
        return True
    few_texts = node.attributes.get(DTYPE) == "str" and stored.size <= _FEW
    return few_texts or node.attributes.get("neurodata_type", node.attributes.get("data_type")) == "ElementIdentifiers"


def is_inlined(node: Dataset[Attributes], data: bytes) -> bool:
    """Tell whether the consolidated document also has the only chunk of an array that is read at open."""
    return len(data) <= _INLINE_ARRAY_BYTES or node.attributes.get(DTYPE) == "scalar"
