"""Metadata within limits: how large documents are, how many, and how deep what they describe is nested."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any

from hdmf_zarr_backend.model import v2, v3
from hdmf_zarr_backend.model.nodes import split
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.limits import Limits

_BATCH = 10_000
_LONG_KEY = 256
_IMPLIED_BYTES = 2**28


def check_texts(texts: Iterable[bytes], limits: Limits) -> None:
    """Make sure that documents are not too large to be parsed.

    Raises
    ------
    LimitError
        Together they are larger than ``max_document_bytes``.
    """
    size = sum(map(len, texts))
    limits.check("max_document_bytes", size, f"the metadata documents have {size:,} bytes")


def check_document(document: Any, limits: Limits) -> None:
    """Make sure that a consolidated document describes no more than may be.

    Raises
    ------
    LimitError
        Too many documents are in it, or groups are nested too deep.
    """
    found = document if isinstance(document, dict) else {}
    block = found.get(v3.CONSOLIDATED) if "node_type" in found else found
    metadata = block.get("metadata") if isinstance(block, dict) else None
    if isinstance(metadata, dict):
        check_keys(metadata, limits)


def check_keys(keys: Collection[str], limits: Limits) -> None:
    """Make sure that documents with these keys, or nodes with these paths, are not too many and not too deep.

    Raises
    ------
    LimitError
        They are.
    """
    limits.check("max_documents", len(keys), f"there are {len(keys):,} metadata documents")
    if not keys or max(map(len, keys)) <= min(_LONG_KEY, 2 * limits.max_depth):
        return
    implied = 0
    for key in keys:
        depth = key.count("/")
        limits.check("max_depth", depth, f"groups are nested {depth:,} deep")
        if len(key) > _LONG_KEY and not _has_parent(key, keys):
            implied += depth * len(key)
            if implied > _IMPLIED_BYTES:  # each of these few bytes would become a group with a long path
                raise limits.exceeded("max_depth", depth, f"groups without documents are nested {depth:,} deep")


def _has_parent(key: str, keys: Collection[str]) -> bool:
    parent, name = split(key)
    if name in v2.DOCUMENT_NAMES:
        parent, _ = split(parent)
        return v2.key_of(parent, v2.GROUP) in keys
    return parent in keys or (name == v3.DOCUMENT and v3.key_of(split(parent)[0]) in keys)


def read_documents(keys: KeyStore, names: Collection[str]) -> dict[str, bytes]:
    """Return all documents of a store whose names are in ``names``.

    Raises
    ------
    LimitError
        They are too many, or too large together.
    """
    limits = keys.read_rules.limits
    wanted = sorted(islice(_named(keys.list_documents(), names), limits.max_documents + 1))
    check_keys(dict.fromkeys(wanted), limits)
    found: dict[str, bytes] = {}
    size = 0
    for start in range(0, len(wanted), _BATCH):
        batch = keys.get_many(wanted[start : start + _BATCH])
        size += sum(map(len, batch.values()))
        limits.check("max_document_bytes", size, f"the metadata documents have more than {size:,} bytes")
        found.update(batch)
    return found


def _named(keys: Iterator[str], names: Collection[str]) -> Iterator[str]:
    return (key for key in keys if split(key)[1] in names)
