"""Nodes <-> the metadata documents of Zarr format 2.

A node at ``p`` has the documents ``p/.zgroup`` or ``p/.zarray``, and ``p/.zattrs``. Here documents are plain Python
values; `model.json_text` parses and writes text. ``encode_documents(parse_documents(d)) == d`` for every valid ``d``,
with its unknown keys and empty ``.zattrs``, except for keys that the specification forbids in ``.zgroup``.

The consolidated document is ``.zmetadata``: one JSON object with ``zarr_consolidated_format: 1`` and, under
``metadata``, every document by its key.

Source: Zarr v2 specification, "Metadata", "Hierarchies", "Attributes".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hdmf_zarr_backend.encoding.elements import inline_block
from hdmf_zarr_backend.encoding.fills import fill_in_format_2, named
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.nodes import (
    Attributes,
    ChunkKeys,
    Damaged,
    Dataset,
    Group,
    Hierarchy,
    Node,
    StoredArray,
    checked_grid,
    join,
    split,
)

GROUP = ".zgroup"
ARRAY = ".zarray"
ATTRIBUTES = ".zattrs"
CONSOLIDATED = ".zmetadata"
DOCUMENT_NAMES = frozenset({GROUP, ARRAY, ATTRIBUTES})
FORMAT_KEY = "zarr_consolidated_format"
_REQUIRED = frozenset({"chunks", "compressor", "dtype", "fill_value", "filters", "order", "shape", "zarr_format"})
_WITH_SEPARATOR = _REQUIRED | {"dimension_separator"}
_CHUNK_KEYS = {".": ChunkKeys(), "/": ChunkKeys(separator="/")}


def encode_array(stored: StoredArray) -> dict[str, Any]:
    """Return the ``.zarray`` document of a stored array."""
    document: dict[str, Any] = {
        "chunks": list(stored.chunks),
        "compressor": stored.compressor,
        "dtype": stored.data_type,
        "fill_value": fill_in_format_2(stored.fill_value, stored.data_type),
        "filters": stored.filters,
        "order": stored.order,
        "shape": list(stored.shape),
        "zarr_format": 2,
    }
    if stored.chunk_keys.separator != ".":
        document["dimension_separator"] = stored.chunk_keys.separator
    document.update(stored.extra)
    return document


def documents(path: str, node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield ``(key, document)`` of one node; attributes if there are any, or if the file has a document for them."""
    if isinstance(node, Dataset):
        yield join(path, ARRAY), encode_array(node.stored)
    else:
        yield join(path, GROUP), {"zarr_format": 2}
    if node.attributes or node.keeps_attributes:
        yield join(path, ATTRIBUTES), node.attributes


def encode_documents(hierarchy: Hierarchy) -> dict[str, dict[str, Any]]:
    """Return ``{key: document}`` of all nodes."""
    return {key: document for path, node in hierarchy.walk() for key, document in documents(path, node)}


def parse_documents(documents: Mapping[str, Any], *, damaged: Damaged | None = None) -> Hierarchy:
    """Return the hierarchy for ``{key: document}``; ``damaged`` receives the errors of arrays that are left out."""
    # A node with both documents is an array. A group without .zgroup that its members imply keeps its attributes.
    # zarr-python 2 writes no .zattrs for a node without attributes, zarr-python 3 an empty one.
    nodes: dict[str, Node] = {}
    described: list[str] = []
    for key, document in documents.items():
        path, name = split(key)
        try:
            if name == ARRAY:
                nodes[path] = parse_array(document, _attributes(documents, path), path)
            elif name == GROUP and path not in nodes:
                nodes[path] = parse_group(document, _attributes(documents, path), path)
            elif name == ATTRIBUTES:
                described.append(path)
        except MetadataError as error:
            if damaged is None or name == GROUP:
                raise
            damaged[path] = error
    hierarchy = Hierarchy.from_flat(nodes, damaged, zarr_format=2)
    for path in described:
        node = nodes.get(path)
        if node is None and (node := hierarchy.get(path)) is not None:
            node.attributes = _attributes(documents, path)
        if node is not None:
            node.keeps_attributes = not node.attributes
    return hierarchy


def _attributes(documents: Mapping[str, Any], path: str) -> Attributes:
    attributes = documents.get(join(path, ATTRIBUTES))
    if attributes is None:
        return {}
    if not isinstance(attributes, dict):
        raise MetadataError(f"{ATTRIBUTES} is not a JSON object", path=path)
    return attributes


def last(hierarchy: Hierarchy, inlined: Mapping[str, bytes], *, consolidate: bool) -> dict[str, dict[str, Any]]:
    """Return the documents that are set after all others, and complete the file; as `encoding.registry.Format.last`."""
    block = {"metadata": encode_documents(hierarchy), FORMAT_KEY: 1}
    return {CONSOLIDATED: {**block, **inline_block(inlined)}} if consolidate else {}


def unwrap(document: Any) -> dict[str, Any]:
    """Return ``{key: document}`` of a ``.zmetadata`` document."""
    metadata = document.get("metadata") if isinstance(document, dict) and document.get(FORMAT_KEY) == 1 else None
    if not isinstance(metadata, dict):
        problem = f"{CONSOLIDATED} is not a consolidated document"
        cli = "Run `zarrio verify`, then `zarrio consolidate`."
        remedy = "Open with mode='r-' to ignore it, and run `zarrio verify`."
        raise MetadataError(problem, path="/", remedy=remedy, remedy_cli=cli)
    return metadata


def parse_consolidated(document: Any, *, damaged: Damaged | None = None) -> Hierarchy:
    """Return the hierarchy for a ``.zmetadata`` document; ``damaged`` as for `parse_documents`."""
    return parse_documents(unwrap(document), damaged=damaged)


def parse_group(document: Any, attributes: Attributes, path: str) -> Group:
    """Return the group for a ``.zgroup`` document and its attributes."""
    _check_format(document, GROUP, path)
    extra = {key: value for key, value in document.items() if key != "zarr_format"}
    return Group(attributes=attributes, extra=extra)


def parse_array(document: Any, attributes: Attributes, path: str) -> Dataset:
    """Return the array for a ``.zarray`` document and its attributes."""
    _check_format(document, ARRAY, path)
    if not document.keys() >= _REQUIRED:
        raise MetadataError(f"{ARRAY} lacks {', '.join(sorted(_REQUIRED - document.keys()))}", path=path)
    shape, chunks = checked_grid(document["shape"], document["chunks"], "chunks", path)
    separator = document.get("dimension_separator", ".")  # the key is optional: without it, the separator is "."
    order = document["order"]
    if separator not in (".", "/") or order not in ("C", "F"):
        raise MetadataError(f"dimension_separator {separator!r} or order {order!r} is unknown", path=path)
    compressor, filters = document["compressor"], document["filters"]
    if compressor is not None and not _is_codec(compressor):
        raise MetadataError(f"compressor {compressor!r} is not a codec", path=path)
    if filters is not None and not (isinstance(filters, list) and all(map(_is_codec, filters))):
        raise MetadataError(f"filters {filters!r} is not a list of codecs", path=path)
    # Keys that the specification does not define stay in the document, as other programs may need them.
    known = _WITH_SEPARATOR if separator != "." else _REQUIRED
    extra = {} if len(document) == len(known) else {key: document[key] for key in document if key not in known}
    stored = StoredArray(
        shape=shape,
        chunks=chunks,
        data_type=document["dtype"],
        fill_value=named(document["fill_value"]),
        compressor=compressor,
        filters=None if filters is None else list(filters),
        order=order,
        chunk_keys=_CHUNK_KEYS[separator],
        extra=extra,
    )
    return Dataset(stored, attributes)


def _check_format(document: Any, name: str, path: str) -> None:
    if not isinstance(document, dict) or document.get("zarr_format") != 2:
        raise MetadataError(f"{name} is not a document of Zarr format 2", path=path)


def _is_codec(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str)
