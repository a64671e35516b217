"""Hierarchy <-> the consolidated document: ``.zmetadata`` of format 2, the inline block of format 3.

Format 2 is one JSON object with ``zarr_consolidated_format: 1`` and, under ``metadata``, every document by its key.
It is written from the model, never by reading the store again, and it is the last key set: the commit of a write.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.nodes import Hierarchy

FORMAT_KEY = "zarr_consolidated_format"


def consolidate(hierarchy: Hierarchy) -> dict[str, Any]:
    """Return the ``.zmetadata`` document of ``hierarchy``."""
    return wrap(v2.to_documents(hierarchy))


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
    if not isinstance(document, dict) or document.get(FORMAT_KEY) != 1 or not isinstance(document.get("metadata"), dict):
        raise MetadataError(
            f"{v2.CONSOLIDATED} is no consolidated document",
            path="/",
            remedy="Open with mode='r-' to ignore it, and run `zarrio verify`.",
        )
    metadata: dict[str, Any] = document["metadata"]
    return metadata


def parse(document: Any) -> Hierarchy:
    """Return the hierarchy that a ``.zmetadata`` document describes."""
    return v2.from_documents(unwrap(document))
