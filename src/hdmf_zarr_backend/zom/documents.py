"""Models <-> hierarchies of documents, consolidated documents among them.

``to_consolidated(from_consolidated(d)) == d`` for every document ``d`` that is valid, unknown keys and empty attributes
included; chunks inside of a consolidated document are values and not part of the model.

Source: ZEP 6 (draft), "Implementing consolidated metadata via Zarr Object Models"; Zarr v2 and v3 specifications.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, NameRefusedError, UsageError
from hdmf_zarr_backend.mapping import formats
from hdmf_zarr_backend.model import consolidated, v2, v3
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Hierarchy, Node, join, split
from hdmf_zarr_backend.write.names import checked_name
from hdmf_zarr_backend.zom.models import ARRAYS, GROUPS, ArrayV2, ArrayV3, GroupModel, GroupV2, GroupV3, Model, walk

_SEPARATOR = "dimension_separator"
_NOTHING: frozenset[str] = frozenset()
_STATED = frozenset({"attributes"})
_OPTIONAL_3 = ("storage_transformers", "dimension_names")
_ARRAY_3 = frozenset(
    {"zarr_format", "node_type", "attributes", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value",
     "codecs", *_OPTIONAL_3}
)  # fmt: skip


# ---- hierarchy -> model ---------------------------------------------------------------------------------------------


def from_hierarchy(hierarchy: Hierarchy) -> Model:
    """Return the model of a hierarchy; attributes and codecs are shared with it.

    Parameters
    ----------
    hierarchy : Hierarchy
        Of format 2, or of format 3 in our words or in those of its documents.
    """
    if hierarchy.zarr_format == 3:
        return _from_documents_3({path: _document_3(path, node) for path, node in hierarchy.walk()})
    if isinstance(hierarchy.root, ArrayNode):
        return _array_2(hierarchy.root)
    root = _group_2(hierarchy.root)
    stack = [(hierarchy.root.members, root.members)]
    while stack:  # no recursion: a file may be nested deeper than Python's calls
        nodes, models = stack.pop()
        for name in sorted(nodes):
            node = nodes[name]
            if isinstance(node, ArrayNode):
                models[name] = _array_2(node)  # type: ignore[index] # made here, a dict
            else:
                group = models[name] = _group_2(node)  # type: ignore[index]
                stack.append((node.members, group.members))
    return root


def _put(models: dict[str, Model], path: str, model: Model) -> None:
    models[path] = model
    if path:
        parent, name = split(path)
        group = models[parent]
        assert isinstance(group, GROUPS)
        group.members[name] = model  # type: ignore[index] # made here, a dict


def _array_2(node: ArrayNode[Attributes]) -> ArrayV2[Attributes]:
    extra = node.extra
    stated = _STATED if node.keeps_attributes else _NOTHING
    if extra and _SEPARATOR in extra:  # the model of the documents keeps it there if it says what holds without it
        extra = {key: value for key, value in extra.items() if key != _SEPARATOR}
        stated |= {_SEPARATOR}
    return ArrayV2(
        attributes=node.attributes,
        shape=list(node.shape),
        chunks=list(node.chunks),
        dtype=node.data_type,
        compressor=node.compressor,
        fill_value=node.fill_value,
        order="F" if node.order == "F" else "C",
        filters=node.filters,
        dimension_separator="/" if node.separator == "/" else ".",
        extra=extra,
        stated=stated,
    )


def _group_2(node: GroupNode[Attributes]) -> GroupV2[Attributes, Any]:
    stated = _STATED if node.keeps_attributes else _NOTHING
    return GroupV2(attributes=node.attributes, members={}, extra=node.extra, stated=stated)


def _document_3(path: str, node: Node) -> dict[str, Any]:
    if isinstance(node, ArrayNode) and node.codecs is not None:
        return v3.array_document(node)
    if path:
        return next(document for _, document in formats.FORMATS[3].documents(path, node))
    bare = Hierarchy(GroupNode(node.attributes, extra=node.extra, keeps_attributes=node.keeps_attributes), 3)
    return formats.FORMATS[3].last(bare if isinstance(node, GroupNode) else Hierarchy(node, 3), {}, consolidate=False)[
        v3.DOCUMENT
    ]


def _from_documents_3(documents: Mapping[str, dict[str, Any]]) -> Model:
    models: dict[str, Model] = {}
    for path, document in documents.items():
        _put(models, path, _array_3(document) if document.get("node_type") == "array" else _group_3(document))
    return models[""]


def _array_3(document: Mapping[str, Any]) -> ArrayV3[Attributes]:
    stated = {key for key in _OPTIONAL_3 if key in document and document[key] is None}
    if "attributes" in document:
        stated.add("attributes")
    return ArrayV3(
        attributes=document.get("attributes") or {},
        shape=document["shape"],
        data_type=document["data_type"],
        chunk_grid=document["chunk_grid"],
        chunk_key_encoding=document["chunk_key_encoding"],
        fill_value=document.get("fill_value"),
        codecs=document["codecs"],
        storage_transformers=document.get("storage_transformers"),
        dimension_names=document.get("dimension_names"),
        extra={key: value for key, value in document.items() if key not in _ARRAY_3},
        stated=frozenset(stated),
    )


def _group_3(document: Mapping[str, Any]) -> GroupV3[Attributes, Any]:
    extra = {key: value for key, value in document.items() if key not in ("zarr_format", "node_type", "attributes")}
    stated = frozenset({"attributes"}) if "attributes" in document else frozenset()
    return GroupV3(attributes=document.get("attributes") or {}, members={}, extra=extra, stated=stated)


# ---- model -> hierarchy ---------------------------------------------------------------------------------------------


def to_hierarchy(model: Model) -> Hierarchy:
    """Return the hierarchy of a model, in the words of the documents of its format.

    Raises
    ------
    MetadataError
        A property has a value that no document may have; the node is named.
    NameRefusedError
        A member has a name that no store can hold, such as "..", or one with a slash; the group is named.
    UsageError
        Nodes of both formats are mixed, or a node is none of ours.
    """
    nodes: dict[str, Node] = {}
    for path, node in walk(model):
        if not isinstance(node, (*ARRAYS, *GROUPS)):
            raise UsageError(f"a {type(node).__name__} is no node of a model", path=path, remedy="Use from_json.")
        if node.zarr_format != model.zarr_format:
            raise UsageError(
                f"a node of format {node.zarr_format} is in a hierarchy of format {model.zarr_format}",
                path=path,
                remedy="Give all nodes one format.",
            )
        if isinstance(node, GROUPS):
            _check_names(node, path)
        place = path.strip("/")
        nodes[place] = _node_2(node, place) if node.zarr_format == 2 else v3.parse_node(document_of(node), place)
    return Hierarchy.from_flat(nodes, zarr_format=model.zarr_format)


def _check_names(group: GroupModel, path: str) -> None:
    """Refuse names with which a member would become another node, or lie outside of the file."""
    try:
        for name in group.members:
            checked_name(name)
    except NameRefusedError as error:
        raise error.located(path=path) from None


def _node_2(model: Model, path: str) -> Node:
    attributes = attributes_of(model)
    parsed: Node
    if isinstance(model, ArrayV2):
        parsed = v2.parse_array(document_of(model), attributes, path)
    else:
        parsed = GroupNode(attributes, extra=dict(model.extra))
    parsed.keeps_attributes = not attributes and "attributes" in model.stated
    return parsed


def attributes_of(model: Model) -> dict[str, Any]:
    """Return the attributes of a node as JSON, whatever type they have.

    Raises
    ------
    UsageError
        They are no mapping, no dataclass, and say nothing of how they become one.
    """
    attributes = model.attributes
    if isinstance(attributes, Mapping):
        return dict(attributes)
    if is_dataclass(attributes) and not isinstance(attributes, type):
        return asdict(attributes)
    if hasattr(attributes, "model_dump"):  # pydantic
        return dict(attributes.model_dump(mode="json"))
    raise UsageError(
        f"attributes of type {type(attributes).__name__} have no form in JSON", remedy="Use a mapping or a dataclass."
    )


def document_of(model: Model) -> dict[str, Any]:
    """Return the document of one node as its format has it: without the attributes in format 2, with them in 3."""
    if isinstance(model, ArrayV2):
        return _document_of_array_2(model)
    if isinstance(model, GroupV2):
        return {"zarr_format": 2, **model.extra}
    attributes = attributes_of(model)
    document: dict[str, Any] = {"zarr_format": 3, "node_type": model.node_type}
    if isinstance(model, ArrayV3):
        document |= _properties_3(model)
    if attributes or "attributes" in model.stated:
        document["attributes"] = attributes
    return {**document, **model.extra}


def _document_of_array_2(model: ArrayV2[Any]) -> dict[str, Any]:
    document: dict[str, Any] = {
        "zarr_format": 2,
        "shape": list(model.shape),
        "chunks": list(model.chunks),
        "dtype": model.dtype,
        "compressor": _plain(model.compressor),
        "fill_value": model.fill_value,
        "order": model.order,
        "filters": None if model.filters is None else [dict(codec) for codec in model.filters],
    }
    if model.dimension_separator != "." or _SEPARATOR in model.stated:
        document[_SEPARATOR] = model.dimension_separator
    return {**document, **model.extra}


def _plain(codec: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if codec is None else dict(codec)


def _properties_3(model: ArrayV3[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {
        "shape": list(model.shape),
        "data_type": model.data_type,
        "chunk_grid": model.chunk_grid,
        "chunk_key_encoding": model.chunk_key_encoding,
        "fill_value": model.fill_value,
        "codecs": list(model.codecs),
    }
    for key in _OPTIONAL_3:
        value = getattr(model, key)
        if value is not None or key in model.stated:
            found[key] = None if value is None else list(value)
    return found


# ---- consolidated documents -----------------------------------------------------------------------------------------


def from_consolidated(document: Mapping[str, Any] | str | bytes) -> Model:
    """Return the model of a file from its consolidated document: ``.zmetadata``, or the root's ``zarr.json``.

    Parameters
    ----------
    document : mapping, str or bytes
        The document, or its text.

    Raises
    ------
    MetadataError
        It is neither.
    """
    given = json.loads(document) if isinstance(document, (str, bytes)) else document
    if isinstance(given, Mapping) and given.get("zarr_format") == 3:
        found = v3.parse_consolidated(dict(given))
        if found is None:
            raise MetadataError("this zarr.json has no consolidated metadata", path="/", remedy="Use to_zom.")
        model = _from_documents_3({path: v3.node_document(node) for path, node in found[0].walk()})
        assert isinstance(model, GROUPS)
        model.extra = {**model.extra, v3.CONSOLIDATED: found[1]}
        return model
    return from_hierarchy(consolidated.parse(given))


def to_consolidated(model: GroupModel) -> dict[str, Any]:
    """Return the consolidated document of a model: ``.zmetadata`` in format 2, the root's ``zarr.json`` in format 3.

    Parameters
    ----------
    model : GroupV2 or GroupV3
        The root of a file.
    """
    if isinstance(model, GroupV2):
        return consolidated.consolidate(to_hierarchy(model))
    hierarchy = to_hierarchy(model)
    block = hierarchy.root.extra.pop(v3.CONSOLIDATED, {"kind": "inline", "must_understand": False})
    return v3.consolidated(hierarchy, block)


def paths_of(model: Model) -> dict[str, Model]:
    """Return ``{path: node}`` with paths as keys of a store have them."""
    return {join("", path.strip("/")): node for path, node in walk(model)}
