"""Nodes <-> the metadata documents of Zarr format 3.

A node at ``p`` is ``p/zarr.json``. Nodes are as their documents state them here: ``data_type`` and ``fill_value`` as
JSON of format 3, all codecs in ``codecs``, ``chunks`` the chunks of the grid. `formats.zarr3_forms` translates them to
and from their format-2 form. The consolidated documents are inside the document of the root.

``to_documents(from_documents(d)) == d`` and ``consolidated(*parse_consolidated(d)) == d`` for every valid ``d``:
unknown keys, short forms and the blocks of groups inside are kept.

Source: Zarr v3 specification, "Metadata", "Chunk key encoding"; zarr-python for inline consolidated metadata.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.nodes import (
    ArrayNode,
    Attributes,
    GroupNode,
    Hierarchy,
    Node,
    absolute,
    check_axes,
    split,
)

DOCUMENT = "zarr.json"
CONSOLIDATED = "consolidated_metadata"
"""Key of the root's document that holds the consolidated ones."""

_NO_VALUE = object()
_REMEDY = "Run `zarrio verify` on the file."
_USUAL_ENCODING = {"name": "default", "configuration": {"separator": "/"}}
ChunkKeyEncoding: TypeAlias = Literal["default", "v2"]
"""How the keys of chunks are made of their indices: ``c/1/2`` by default, ``1.2`` by ``v2``."""

KEY_ENCODINGS: dict[ChunkKeyEncoding, tuple[str, str]] = {"default": ("c", "/"), "v2": ("", ".")}
"""Prefix and default separator of the keys of chunks."""


def key_of(path: str) -> str:
    """Return the store key of the document of the node at ``path``."""
    return f"{path}/{DOCUMENT}" if path else DOCUMENT


def array_document(node: ArrayNode[Attributes]) -> dict[str, Any]:
    """Return the ``zarr.json`` of an array that is as its document states it."""
    document: dict[str, Any] = {
        "zarr_format": 3,
        "node_type": "array",
        "shape": list(node.shape),
        "data_type": node.data_type,
        "chunk_grid": _grid(node),
        "chunk_key_encoding": _encoding(node),
        "fill_value": node.fill_value,
        "codecs": node.codecs or [],
    }
    if node.attributes or node.keeps_attributes:
        document["attributes"] = node.attributes
    for key, value in node.extra.items():
        if value is _NO_VALUE:
            del document[key]
        else:
            document[key] = value
    return document


def _grid(node: ArrayNode[Attributes]) -> dict[str, Any]:
    return {"name": "regular", "configuration": {"chunk_shape": list(node.chunks)}}


def _encoding(node: ArrayNode[Attributes]) -> dict[str, Any]:
    return {"name": "default" if node.prefix else "v2", "configuration": {"separator": node.separator}}


def group_document(node: GroupNode[Attributes]) -> dict[str, Any]:
    """Return the ``zarr.json`` of a group, with what its document had besides."""
    document: dict[str, Any] = {"zarr_format": 3, "node_type": "group"}
    if node.attributes or node.keeps_attributes:
        document["attributes"] = node.attributes
    document.update(node.extra)
    return document


def node_document(node: Node) -> dict[str, Any]:
    """Return the ``zarr.json`` of a node."""
    return array_document(node) if isinstance(node, ArrayNode) else group_document(node)


def key_encoding_of(hierarchy: Hierarchy) -> ChunkKeyEncoding:
    """Return how the keys of new chunks are made in a file: by ``v2`` if all its arrays have keys of one level."""
    arrays = [node for _, node in hierarchy.walk() if isinstance(node, ArrayNode)]
    return "v2" if arrays and all(node.separator == "." for node in arrays) else "default"


def to_documents(hierarchy: Hierarchy) -> dict[str, dict[str, Any]]:
    """Return ``{key: document}`` of the whole hierarchy."""
    return {key_of(path): node_document(node) for path, node in hierarchy.walk()}


def from_documents(documents: Mapping[str, Any]) -> Hierarchy:
    """Return the hierarchy that ``{key: document}`` describes.

    Raises
    ------
    MetadataError
        A document is not an object, lacks a key, or has a value of the wrong kind; there is no root.
    """
    return _hierarchy((split(key)[0], document) for key, document in documents.items() if split(key)[1] == DOCUMENT)


def _hierarchy(documents: Iterator[tuple[str, Any]]) -> Hierarchy:
    return Hierarchy.from_flat({path: parse_node(document, path) for path, document in documents}, zarr_format=3)


# ---- the consolidated document --------------------------------------------------------------------------------------


def parse_consolidated(document: Any) -> tuple[Hierarchy, dict[str, Any]] | None:
    """Return what the document of a root says of the whole file, None where it has no consolidated block.

    Returns
    -------
    Hierarchy
        All nodes; the root is without the block.
    dict
        The block without its documents.

    Raises
    ------
    MetadataError
        A document in it is damaged.
    """
    block = document.get(CONSOLIDATED) if isinstance(document, dict) else None
    if not isinstance(block, dict) or not isinstance(block.get("metadata"), dict):
        return None
    root = {key: value for key, value in document.items() if key != CONSOLIDATED}
    members = block["metadata"].items()
    hierarchy = _hierarchy(iter([("", root), *members]))
    return hierarchy, {key: value for key, value in block.items() if key != "metadata"}


def consolidated(hierarchy: Hierarchy, block: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document of the root with those of all other nodes in it.

    ``block`` is what the consolidated block says besides.
    """
    documents = ((path, node_document(node)) for path, node in hierarchy.walk())
    _, root = next(documents)
    return {**root, CONSOLIDATED: {**block, "metadata": dict(documents)}}


# ---- documents ------------------------------------------------------------------------------------------------------


def parse_node(document: Any, path: str) -> Node:
    """Return the node that a ``zarr.json`` describes.

    Raises
    ------
    MetadataError
        Naming the node and the key that is missing or wrong.
    """
    kind = document.get("node_type") if isinstance(document, dict) and document.get("zarr_format") == 3 else None
    if kind not in ("array", "group"):
        raise MetadataError(f"{DOCUMENT} is not a document of Zarr format 3", path=absolute(path), remedy=_REMEDY)
    attributes = document.get("attributes")
    if attributes is not None and not isinstance(attributes, dict):
        raise MetadataError("the attributes are not a JSON object", path=absolute(path), remedy=_REMEDY)
    kept = "attributes" in document and not attributes
    if kind == "array":
        return _parse_array(document, attributes or {}, path, keeps_attributes=kept)
    extra = {key: document[key] for key in document if key not in _GROUP_KEYS}
    return GroupNode(attributes=attributes or {}, extra=extra, keeps_attributes=kept)


_GROUP_KEYS = frozenset({"zarr_format", "node_type", "attributes"})
_ARRAY_KEYS = frozenset({"shape", "data_type", "chunk_grid", "chunk_key_encoding", "codecs"})
_CODEC_TYPES = frozenset({dict, str})
_MODELLED = frozenset({*_GROUP_KEYS, *_ARRAY_KEYS, "fill_value"})


def _parse_array(
    document: dict[str, Any], attributes: Attributes, path: str, *, keeps_attributes: bool
) -> ArrayNode[Attributes]:
    if not document.keys() >= _ARRAY_KEYS:
        missing = sorted(_ARRAY_KEYS - document.keys())
        raise MetadataError(f"{DOCUMENT} lacks {', '.join(missing)}", path=absolute(path), remedy=_REMEDY)
    grid, encoding = document["chunk_grid"], document["chunk_key_encoding"]
    shape = _lengths(document["shape"], "shape", path, least=0)
    chunks = _chunk_shape(grid, path)
    check_axes(shape, chunks, path)
    prefix, separator = _key_encoding(encoding, path)
    codecs = document["codecs"]
    if not isinstance(codecs, list) or not {type(codec) for codec in codecs} <= _CODEC_TYPES:
        raise MetadataError(f"codecs {codecs!r} is not a list of codecs", path=absolute(path), remedy=_REMEDY)
    extra = {key: document[key] for key in document if key not in _MODELLED}
    node = ArrayNode(
        shape=shape,
        chunks=chunks,
        data_type=document["data_type"],
        fill_value=document.get("fill_value"),
        separator=separator,
        prefix=prefix,
        codecs=codecs,
        attributes=attributes,
        extra=extra,
        keeps_attributes=keeps_attributes,
    )
    if "fill_value" not in document:
        extra["fill_value"] = _NO_VALUE
    if len(grid) > 2 or len(grid["configuration"]) > 1:  # keys that we do not know
        extra["chunk_grid"] = grid
    if encoding != _USUAL_ENCODING and encoding != _encoding(node):  # a short form, or such keys
        extra["chunk_key_encoding"] = encoding
    return node


def _chunk_shape(grid: Any, path: str) -> tuple[int, ...]:
    configuration = grid.get("configuration") if isinstance(grid, dict) and grid.get("name") == "regular" else None
    if not isinstance(configuration, dict):
        raise MetadataError(
            f"the chunk grid {grid!r} is not regular", path=absolute(path), remedy="Write it anew with regular chunks."
        )
    return _lengths(configuration.get("chunk_shape"), "chunk_shape", path, least=1)


def _key_encoding(encoding: Any, path: str) -> tuple[str, str]:
    """Return prefix and separator of chunk keys."""
    if encoding == _USUAL_ENCODING:
        return "c", "/"
    name: Any = encoding
    configuration: Any = {}
    if isinstance(encoding, dict):
        name, configuration = encoding.get("name"), encoding.get("configuration") or {}
    if isinstance(name, str) and name in KEY_ENCODINGS and isinstance(configuration, dict):
        prefix, default = KEY_ENCODINGS[name]
        separator = configuration.get("separator", default)
        if isinstance(separator, str) and separator in (".", "/"):
            return prefix, separator
    raise MetadataError(f"the chunk key encoding {encoding!r} is unknown", path=absolute(path), remedy=_REMEDY)


def _lengths(value: Any, key: str, path: str, *, least: int) -> tuple[int, ...]:
    if isinstance(value, list):
        for n in value:  # a loop, which is half of what all() takes for one or two
            if type(n) is not int or n < least:
                break
        else:
            return tuple(value)
    raise MetadataError(f"{key} {value!r} is not a list of lengths", path=absolute(path), remedy=_REMEDY)
