"""JSON Schemas of models of both formats: those of ZEP 6, with what is wrong in them mended.

What was mended, in format 2: ``attributes`` is spelled so where it is required; ``zarr_format`` is the name, as in the
examples; ``compressor`` and ``filters`` may be null; the fields of a structured type are lists; ``members`` must be
there, so that a group is told from an array. In format 3: a codec may be a name, or have no configuration; data types
may have a configuration; complex fill values may be ``"NaN"`` and the like; names of dimensions may be null; extension
keys are allowed; the root may be an array. In both: ranks, lengths and the keys that documents may have besides.

Source: ZEP 6 (draft), "Zarr Object Models in JSON schema"; Zarr v2 and v3 specifications.
"""

from __future__ import annotations

from typing import Any, Literal

from hdmf_zarr_backend.errors import UsageError

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
        There is no such format.
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


def _group(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {
            **properties,
            "attributes": _ATTRIBUTES,
            "members": {
                "type": "object",
                "propertyNames": {"pattern": "^[^/]+$"},
                # which of the two it is depends on one key, so that a validator need not try both at each level
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
        "Group": _group({"zarr_format": {"const": 2}}),
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
        "Group": _group({"zarr_format": {"const": 3}, "node_type": {"const": "group"}}),
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
