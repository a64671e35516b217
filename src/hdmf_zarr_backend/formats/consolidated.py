"""Hierarchy <-> the consolidated document of format 2, ``.zmetadata``, and the values that those of both formats hold.

It is one JSON object with ``zarr_consolidated_format: 1`` and, under ``metadata``, every document by its key.
It is written from the model, never by reading the store again, and it is the last key set: the commit of a write.

This package adds a block, ``hdmf_inline``: the stored bytes of the scalars and of the cached
specifications, so that a file opens with one round of requests. The chunks are stored as well; other readers ignore the
block, and whoever consolidates again drops it.

Source: issue "Fast, lean, and as wide as the machine or the cluster", part 2.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.formats.elements import is_scalar
from hdmf_zarr_backend.formats.reserved import DTYPE
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy

FORMAT_KEY = "zarr_consolidated_format"
INLINE_KEY = "hdmf_inline"

INLINE_BYTES = 2**20
"""Bound of the bytes that are inlined in one file."""

_VERSION = 1


def consolidate(hierarchy: Hierarchy, inlined: Mapping[str, bytes] | None = None) -> dict[str, Any]:
    """Return the ``.zmetadata`` document of ``hierarchy``.

    Parameters
    ----------
    hierarchy : Hierarchy
        All nodes.
    inlined : mapping, optional
        ``{key: bytes}`` of chunks to put in as well; what exceeds `INLINE_BYTES` is left out.
    """
    return {**wrap(zarr2.to_documents(hierarchy)), **inline_block(inlined or {})}


def inline_block(inlined: Mapping[str, bytes]) -> dict[str, Any]:
    """Return what a consolidated document says of chunks that it holds itself; ``{}`` where it holds none.

    Parameters
    ----------
    inlined : mapping
        ``{key: bytes}``; what exceeds `INLINE_BYTES` is left out.
    """
    block = _encode_block(inlined)
    return {INLINE_KEY: {"version": _VERSION, "chunks": block}} if block else {}


def _encode_block(inlined: Mapping[str, bytes]) -> dict[str, str]:
    block: dict[str, str] = {}
    left = INLINE_BYTES
    for key in sorted(inlined, key=lambda key: len(inlined[key])):
        left -= len(inlined[key])
        if left < 0:
            break
        block[key] = base64.b64encode(inlined[key]).decode("ascii")
    return block


def wrap(documents: Mapping[str, Any]) -> dict[str, Any]:
    """Return the ``.zmetadata`` document of ``{key: document}``."""
    return {"metadata": dict(documents), FORMAT_KEY: 1}


def unwrap(document: Any) -> dict[str, Any]:
    """Return ``{key: document}`` of a ``.zmetadata`` document.

    Raises
    ------
    MetadataError
        It is not an object of the one version that there is.
    """
    metadata = document.get("metadata") if isinstance(document, dict) and document.get(FORMAT_KEY) == 1 else None
    if not isinstance(metadata, dict):
        raise MetadataError(
            f"{zarr2.CONSOLIDATED} is not a consolidated document",
            path="/",
            remedy="Open with mode='r-' to ignore it, and run `zarrio verify`.",
        )
    return metadata


def parse(document: Any) -> Hierarchy:
    """Return the hierarchy that a ``.zmetadata`` document describes."""
    return zarr2.from_documents(unwrap(document))


def inlined_chunks(document: Any) -> dict[str, bytes]:
    """Return the chunks that a consolidated document holds itself; ``{}`` where it has no block that we know.

    ``document`` is ``.zmetadata``, or the consolidated block of format 3.

    Raises
    ------
    MetadataError
        The block is damaged.
    """
    block = document.get(INLINE_KEY) if isinstance(document, dict) else None
    if not isinstance(block, dict) or block.get("version") != _VERSION or not isinstance(block.get("chunks"), dict):
        return {}
    try:
        return {str(key): base64.b64decode(text, validate=True) for key, text in block["chunks"].items()}
    except (TypeError, ValueError, binascii.Error) as error:
        raise MetadataError(
            f"the block {INLINE_KEY!r} of the consolidated document is damaged ({error})",
            path="/",
            remedy="Open with use_inlined=False, and consolidate the file again.",
        ) from error


_INLINE_ARRAY_BYTES = 4096
_FEW = 4


def is_read_at_open(node: ArrayNode[Attributes]) -> bool:
    """Tell whether hdmf looks at the values of an array whenever the file is opened.

    Scalars are held by builders; the first id of a table is checked; dates (a few texts) are parsed.
    """
    if not node.size or node.shards is not None or math.prod(node.grid) != 1:
        return False
    if is_scalar(node):
        return True
    few_texts = node.attributes.get(DTYPE) == "str" and node.size <= _FEW
    return few_texts or node.attributes.get("neurodata_type", node.attributes.get("data_type")) == "ElementIdentifiers"


def is_inlined(node: ArrayNode[Attributes], data: bytes) -> bool:
    """Tell whether the consolidated document holds the one chunk of an array that is read at open, too."""
    return len(data) <= _INLINE_ARRAY_BYTES or node.attributes.get(DTYPE) == "scalar"
