"""Models <-> JSON in the structure of ZEP 6.

Written are the values of the documents, with their names and values unchanged. Also accepted are the variants in the
examples of the ZEP: ``zarr_version`` for ``zarr_format``, an empty object for ``filters``, a node without a format
inside one that has it, and null for ``storage_transformers``.

Source: ZEP 6 (draft), "Zarr Object Models in JSON"; "Specification of the base Zarr Object Model" for name collisions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Literal

from hdmf_zarr_backend.errors import MetadataError, NestingError, UsageError
from hdmf_zarr_backend.formats import zarr3
from hdmf_zarr_backend.zom.documents import attributes_of, document_of
from hdmf_zarr_backend.zom.models import ARRAYS, GROUPS, ArrayV2, ArrayV3, GroupModel, GroupV2, GroupV3, Model, walk

MEMBERS = "members"

_FORMAT_NAMES = ("zarr_format", "zarr_version")
_REQUIRED = {
    2: ("shape", "chunks", "dtype"),
    3: ("shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs"),
}
_KNOWN = {
    2: frozenset(
        {"attributes", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters",
         "dimension_separator", *_FORMAT_NAMES}
    ),
    3: frozenset(
        {"attributes", "shape", "data_type", "chunk_grid", "chunk_key_encoding", "fill_value", "codecs", "node_type",
         "storage_transformers", "dimension_names", *_FORMAT_NAMES}
    ),
}  # fmt: skip
_REMEDY = "See json_schema(2) and json_schema(3) for valid models."


# ---- model -> JSON --------------------------------------------------------------------------------------------------


def to_json(model: Model) -> dict[str, Any]:
    """Return a model as JSON values in the structure of ZEP 6. Values are shared with the model.

    A key ``members`` in a group's document becomes ``_members``, with more underscores if that key exists too.

    Parameters
    ----------
    model : model
        An array, or a group with all its members.
    """
    made: dict[str, dict[str, Any]] = {}
    for path, node in walk(model):
        document = node_json(node)
        made[path] = document
        parent, _, name = path.rpartition("/")
        if name:
            made[parent or "/"][MEMBERS][name] = document
    return made["/"]


def node_json(node: Model) -> dict[str, Any]:
    """Return one node as JSON values, a group without its members."""
    document = document_of(node)
    document["attributes"] = attributes_of(node)
    if isinstance(node, ArrayV2):
        document["dimension_separator"] = node.dimension_separator
    if isinstance(node, ARRAYS):
        return document
    document.pop(zarr3.CONSOLIDATED, None)  # equal to the model itself
    if MEMBERS in document:
        document[_free_name(document)] = document.pop(MEMBERS)
    document[MEMBERS] = {}
    return document


def _free_name(document: Mapping[str, Any]) -> str:
    name = f"_{MEMBERS}"
    while name in document:
        name = f"_{name}"
    return name


def dumps(model: Model, *, indent: int | None = None) -> str:
    """Return a model as JSON text. NaN and infinities in attributes are tokens, as in the documents.

    Parameters
    ----------
    model : model
        As for `to_json`.
    indent : int, optional
        Spaces per level; None: everything on one line.

    Raises
    ------
    NestingError
        Groups are nested too deep for Python's JSON encoder.
    """
    try:
        return json.dumps(to_json(model), indent=indent, ensure_ascii=False)
    except RecursionError as error:
        raise NestingError(
            "the groups are nested too deep for JSON", remedy="Raise the limit: sys.setrecursionlimit(10000)."
        ) from error


# ---- JSON -> model --------------------------------------------------------------------------------------------------


def from_json(document: Mapping[str, Any] | str | bytes) -> Model:
    """Return the model that JSON describes.

    Parameters
    ----------
    document : mapping, str or bytes
        JSON values, or their text.

    Raises
    ------
    MetadataError
        The JSON is not a model; node and property are named.
    """
    given = json.loads(document) if isinstance(document, (str, bytes)) else document
    if not isinstance(given, Mapping):
        raise MetadataError("a model is a JSON object", path="/", remedy=_REMEDY)
    root = _node(given, "/", _format_of(given, "/", None))
    stack: list[tuple[str, Mapping[str, Any], Model]] = [("/", given, root)]
    while stack:
        path, document_here, model = stack.pop()
        if not isinstance(model, GROUPS):
            continue
        for name, child in document_here[MEMBERS].items():
            below = f"{path.rstrip('/')}/{name}"
            if not isinstance(child, Mapping) or not name or "/" in name:
                raise MetadataError("a member is an object with a name", path=below, remedy=_REMEDY)
            member = _node(child, below, _format_of(child, below, model.zarr_format))
            model.members[name] = member  # type: ignore[index] # a dict, created here
            stack.append((below, child, member))
    return root


def _format_of(document: Mapping[str, Any], path: str, outer: int | None) -> int:
    found = next((document[name] for name in _FORMAT_NAMES if name in document), outer)
    if found is None:
        found = 3 if "node_type" in document else 2
    if found not in (2, 3) or (outer is not None and found != outer):
        raise MetadataError(f"the Zarr format {found!r} is not possible here", path=path, remedy=_REMEDY)
    return int(found)


def _node(document: Mapping[str, Any], path: str, zarr_format: int) -> Model:
    attributes = document.get("attributes", {})
    if not isinstance(attributes, Mapping):
        raise MetadataError("the attributes are not an object", path=path, remedy=_REMEDY)
    if MEMBERS in document or document.get("node_type") == "group":
        return _group(document, path, dict(attributes), zarr_format)
    missing = [key for key in _REQUIRED[zarr_format] if key not in document]
    if missing:
        raise MetadataError(
            f"this is neither a group nor an array: members are missing, and {', '.join(missing)}",
            path=path,
            remedy=_REMEDY,
        )
    extra = {key: value for key, value in document.items() if key not in _KNOWN[zarr_format]}
    if zarr_format == 2:
        return _array_2(document, path, dict(attributes), extra)
    names = [key for key in ("storage_transformers", "dimension_names") if key in document and document[key] is None]
    return ArrayV3(
        attributes=dict(attributes),
        extra=extra,
        stated=frozenset(names),
        **{key: document[key] for key in _REQUIRED[3]},
        storage_transformers=document.get("storage_transformers"),
        dimension_names=document.get("dimension_names"),
    )


def _group(document: Mapping[str, Any], path: str, attributes: dict[str, Any], zarr_format: int) -> GroupModel:
    if not isinstance(document.get(MEMBERS, {}), Mapping):
        raise MetadataError("the members are not an object", path=path, remedy=_REMEDY)
    known = {MEMBERS, "attributes", "node_type", *_FORMAT_NAMES}
    extra = {key: value for key, value in document.items() if key not in known}
    renamed = [key for key in extra if key.strip("_") == MEMBERS]
    if renamed:  # the longest name is the renamed one
        extra[MEMBERS] = extra.pop(max(renamed, key=len))
    if zarr_format == 2:
        return GroupV2(attributes=attributes, members={}, extra=extra)
    return GroupV3(attributes=attributes, members={}, extra=extra)


def _array_2(document: Mapping[str, Any], path: str, attributes: Any, extra: dict[str, Any]) -> ArrayV2[Any]:
    filters = document.get("filters")
    if filters == {}:  # as in the example of the ZEP
        filters = None
    order, separator = document.get("order", "C"), document.get("dimension_separator", ".")
    if order not in ("C", "F") or separator not in (".", "/"):
        raise MetadataError(f"order {order!r} or separator {separator!r} is unknown", path=path, remedy=_REMEDY)
    return ArrayV2(
        attributes=attributes,
        shape=document["shape"],
        chunks=document["chunks"],
        dtype=document["dtype"],
        compressor=document.get("compressor"),
        fill_value=document.get("fill_value"),
        order=order,
        filters=filters,
        dimension_separator=separator,
        extra=extra,
    )


_DIALECT = "https://json-schema.org/draft/2020-12/schema"

_LENGTHS = {"type": "array", "items": {"type": "integer", "minimum": 0}}
_CHUNKS = {"type": "array", "items": {"type": "integer", "minimum": 1}}
_ATTRIBUTES = {"type": "object"}


def _ref(name: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/{name}"}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def json_schema(zarr_format: Literal[2, 3]) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of models of a format; the root is a group or an array.

    Parameters
    ----------
    zarr_format : {2, 3}
        The format of Zarr.

    Raises
    ------
    UsageError
        The format is unknown.
    """
    if zarr_format not in (2, 3):
        raise UsageError(f"there is no Zarr format {zarr_format!r}", remedy="Use 2 or 3.")
    definitions = _definitions_2() if zarr_format == 2 else _definitions_3()
    return {
        "$schema": _DIALECT,
        "title": f"Zarr Object Model, format {zarr_format}",
        "oneOf": [_ref("Group"), _ref("Array")],
        "$defs": definitions,
    }


def _group_schema(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            **properties,
            "attributes": _ATTRIBUTES,
            "members": {
                "type": "object",
                "propertyNames": {"pattern": "^[^/]+$"},
                # the schema chooses by one key, so that a validator need not try both at each level
                "additionalProperties": {
                    "if": {"required": ["members"]},
                    "then": _ref("Group"),
                    "else": _ref("Array"),
                },
            },
        },
        "required": [*properties, "attributes", "members"],
    }


# ---- format 2 -------------------------------------------------------------------------------------------------------


def _definitions_2() -> dict[str, Any]:
    properties = {
        "zarr_format": {"const": 2},
        "attributes": _ATTRIBUTES,
        "shape": _LENGTHS,
        "chunks": _CHUNKS,
        "dtype": _ref("DataType"),
        "compressor": _nullable(_ref("Codec")),
        "fill_value": True,
        "order": {"enum": ["C", "F"]},
        "filters": _nullable({"type": "array", "items": _ref("Codec")}),
        "dimension_separator": {"enum": [".", "/"]},
    }
    field = {
        "type": "array",
        "prefixItems": [{"type": "string"}, _ref("DataType"), {"anyOf": [_LENGTHS, {"type": "integer"}]}],
        "items": False,
        "minItems": 2,
    }
    return {
        "Group": _group_schema({"zarr_format": {"const": 2}}),
        "Array": {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "not": {"required": ["members"]},
        },
        "DataType": {
            "anyOf": [
                {"type": "string", "pattern": r"^[<>|]?[biufcmMSUVO][0-9]*(\[[^\]]*\])?$"},
                {"type": "array", "items": field, "minItems": 1},
            ]
        },
        "Codec": {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]},
    }


# ---- format 3 -------------------------------------------------------------------------------------------------------


def _definitions_3() -> dict[str, Any]:
    codecs = {"type": "array", "items": _ref("Extension")}
    required = {
        "zarr_format": {"const": 3},
        "node_type": {"const": "array"},
        "attributes": _ATTRIBUTES,
        "shape": _LENGTHS,
        "data_type": _ref("Extension"),
        "chunk_grid": _ref("Extension"),
        "chunk_key_encoding": _ref("Extension"),
        "fill_value": _ref("FillValue"),
        "codecs": codecs,
    }
    optional = {
        "storage_transformers": _nullable(codecs),
        "dimension_names": _nullable({"type": "array", "items": {"type": ["string", "null"]}}),
    }
    part = {"anyOf": [{"type": "number"}, {"type": "string"}]}
    return {
        "Group": _group_schema({"zarr_format": {"const": 3}, "node_type": {"const": "group"}}),
        "Array": {"type": "object", "properties": required | optional, "required": list(required)},
        "Extension": {"anyOf": [{"type": "string", "minLength": 1}, _ref("NamedConfiguration")]},
        "NamedConfiguration": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1},
                "configuration": _nullable({"type": "object"}),
                "must_understand": {"type": "boolean"},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
        "FillValue": {
            "anyOf": [
                {"type": ["boolean", "number", "string", "null", "object"]},
                {"type": "array", "prefixItems": [part, part], "items": False, "minItems": 2},
                {"type": "array", "items": {"type": "integer"}},
            ]
        },
    }
