"""`conformance`: what a store in a folder or a mapping breaks of the rules of the specification of Zarr format 2.

An oracle for the files that this package writes: each document is read as bytes, each key is seen, each chunk decoded.

Source: Zarr v2 specification.
"""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator, validators

from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.array.shards import shard_named
from hdmf_zarr_backend.encoding import registry, zarr2, zarr3
from hdmf_zarr_backend.errors import ChunkError, MetadataError, ZarrBackendError
from hdmf_zarr_backend.model.nodes import Dataset, join, split
from hdmf_zarr_backend.store.opening import open_store
from tests.places import stored_files

ACCEPTED = {
    "ascii-key": "names come from schemas and users, and every store and reader tried takes UTF-8",
    "json-numbers": "hdmf-zarr 0.13 reads the tokens NaN and Infinity, and not the strings for them",
    "array-other-keys": "the specification says SHOULD NOT here, and that readers ignore such keys",
    "dtype-object": "zarr-python stores text, bytes and JSON as objects, and the readers of its files read them",
}
"""The rules that may be broken, and why."""

_DOCUMENTS = zarr2.DOCUMENT_NAMES | {zarr2.CONSOLIDATED}
_CODEC = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
_UNIT = r"\[\d{0,9}(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\]"
_TYPE = rf"^([<>]([iu][248]|f(2|4|8|12|16)|c(8|16|24|32)|U\d+|[mM]8{_UNIT})|[<>|]([iub]1|[SV]\d+)|\|O)$"
_SPECIAL = {"enum": ["NaN", "Infinity", "-Infinity"]}
_BASE64 = {"type": "string", "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==|[A-Za-z0-9+/]=))?$"}
_FILLS: dict[str, dict[str, Any]] = {
    **{f"u{n}": {"type": "integer", "minimum": 0, "maximum": 256**n - 1} for n in (1, 2, 4, 8)},
    **{f"i{n}": {"type": "integer", "minimum": -(256**n // 2), "maximum": 256**n // 2 - 1} for n in (1, 2, 4, 8)},
    "b": {"enum": [True, False, 0, 1]}, "f": {"anyOf": [{"type": "number"}, _SPECIAL]},
    "c": {"type": "array", "minItems": 2, "maxItems": 2, "items": {"anyOf": [{"type": "number"}, _SPECIAL]}},
    "[mM]": {"type": ["integer", "string"]}, "[UV]": {"type": "string"}, "S": _BASE64,
}  # fmt: skip
_ARRAY: dict[str, Any] = {
    "type": "object",
    "required": ["zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters"],
    "additionalProperties": False,
    "properties": {
        "zarr_format": {"type": "integer", "const": 2}, "shape": {"$ref": "#/$defs/shape"},
        "chunks": {"type": "array", "items": {"type": "integer", "minimum": 1}}, "dtype": {"$ref": "#/$defs/dtype"},
        "compressor": {"anyOf": [{"type": "null"}, _CODEC]}, "fill_value": {}, "order": {"enum": ["C", "F"]},
        "filters": {"anyOf": [{"type": "null"}, {"type": "array", "items": _CODEC}]},
        "dimension_separator": {"enum": [".", "/"]},
    },
    "allOf": [
        {"if": {"required": ["dtype"], "properties": {"dtype": dtype}},
         "then": {"properties": {"fill_value": {"anyOf": [{"type": "null"}, fill]}}}}
        for dtype, fill in [
            *(({"type": "string", "pattern": f"^[<>|]{kind}"}, fill) for kind, fill in _FILLS.items()),
            ({"type": "array"}, _BASE64),
        ]
    ] + [
        {"if": {"required": ["shape"], "properties": {"shape": {"type": "array", **axes}}},
         "then": {"properties": {"chunks": axes}}}
        for axes in ({"minItems": count, "maxItems": count} for count in range(9))
    ],
    "$defs": {
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "dtype": {"if": {"type": "string"}, "then": {"pattern": _TYPE},
                  "else": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/field"}}},
        "field": {"type": "array", "minItems": 2, "maxItems": 3, "prefixItems": [
            {"type": "string"}, {"$ref": "#/$defs/dtype"}, {"$ref": "#/$defs/shape"},
        ]},
    },
}  # fmt: skip
_GROUP: dict[str, Any] = {**_ARRAY, "required": ["zarr_format"], "allOf": []}
_GROUP["properties"] = {"zarr_format": {"type": "integer", "const": 2}}
_EXACT = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)  # 2.0 is none
_Rules = validators.extend(Draft202012Validator, type_checker=_EXACT)
_SCHEMAS = {
    zarr2.ARRAY: ("array", _Rules(_ARRAY)),
    zarr2.GROUP: ("group", _Rules(_GROUP)),
    zarr2.ATTRIBUTES: ("attributes", _Rules({"type": "object"})),
}
_WORDS = {"required": "keys", "additionalProperties": "other-keys", "type": "object"}
"""What the schema of a document as a whole says, in rules."""


@dataclass
class Report:
    """Each finding is a rule, a key and a message."""

    violations: list[tuple[str, str, str]] = field(default_factory=list)
    remarks: list[tuple[str, str, str]] = field(default_factory=list)
    undecoded: dict[str, str] = field(default_factory=dict)
    arrays: int = 0
    chunks: int = 0

    @property
    def counts(self) -> dict[str, int]:
        return dict(Counter(rule for rule, _, _ in [*self.violations, *self.remarks]))

    def add(self, rule: str, key: str, message: str) -> None:
        (self.remarks if rule in ACCEPTED else self.violations).append((rule, key, message))


def conformance(source: Path | dict[str, bytes]) -> Report:
    values = stored_files(source) if isinstance(source, Path) else source
    report = Report()
    nodes: dict[str, Any] = {}
    for key in sorted(key for key in values if split(key)[1] in _DOCUMENTS):
        broken = list(_of_key(key))
        for rule in broken:
            report.add(rule, key, "")
        if not set(broken) - {"ascii-key"}:
            _check_document(key, values[key], nodes, report)
    _check_tree(nodes, report)
    _check_chunks(values, nodes, report)
    return report


def _of_key(key: str) -> Iterator[str]:
    path = key[: -len(split(key)[1])]
    parts = path[:-1].split("/") if path else []
    if not key.isascii():
        yield "ascii-key"
    if "" in parts or any("\\" in part for part in parts):
        yield "normal-path"
    if {".", ".."} & set(parts):
        yield "no-dots"


def _check_document(key: str, text: bytes, nodes: dict[str, Any], report: Report) -> None:
    path, name = split(key)
    if name in (zarr2.ARRAY, zarr2.GROUP):
        if path in nodes:
            report.add("one-kind", key, "there is another document")
        nodes[path] = None if name == zarr2.ARRAY else "group"
    tokens: list[str] = []
    try:
        document = json.loads(text.decode(), parse_constant=lambda token: tokens.append(token) or float(token))
    except (ValueError, RecursionError) as error:
        report.add("json", key, str(error))
        return
    if tokens:
        report.add("json-numbers", key, f"there is {tokens}")
    if name == zarr2.CONSOLIDATED:
        return
    kind, validator = _SCHEMAS[name]
    for error in validator.iter_errors(document):
        part = str(error.path[0]).replace("_", "-") if error.path else _WORDS[error.validator]
        report.add(f"{kind}-{part}", key, error.message)
    if name == zarr2.ARRAY:
        with suppress(MetadataError):  # a rule says the same
            nodes[path] = zarr2.parse_array(document, {}, path)
        if '"|O"' in json.dumps(document):
            report.add("dtype-object", key, "")


def _check_tree(nodes: dict[str, Any], report: Report) -> None:
    groups = set()
    for path in nodes:
        above = path
        while above:
            above = split(above)[0]
            groups.add(above)
            if nodes.get(above, "group") != "group":
                report.add("array-members", join(path, zarr2.GROUP), f"it is inside of {above!r}")
    for path in sorted(groups - nodes.keys()):
        report.add("group-ancestors", join(path, zarr2.GROUP), "there is no .zgroup")


def _check_chunks(values: dict[str, bytes], nodes: dict[str, Any], report: Report) -> None:
    store = open_store(values)
    for path, node in nodes.items():
        if not isinstance(node, Dataset):
            continue
        report.arrays += 1
        prefix = f"{path}/" if path else ""
        names = [key[len(prefix) :] for key in values if key.startswith(prefix) and split(key)[1] not in _DOCUMENTS]
        other = zarr3_array(values, path)
        for name in names:
            index = shard_named(node.stored, name)
            if index is None:
                if name != zarr3.DOCUMENT and (other is None or shard_named(other.stored, name) is None):
                    report.add("chunk-key", prefix + name, f"it is not a chunk of the grid {node.stored.grid}")
                continue
            report.chunks += 1
            try:
                ChunkReader(store, path, node.stored, ChunkCache(0)).decode(index, values[prefix + name])
            except ChunkError as error:
                report.add("chunk-size", prefix + name, error.problem)
            except ZarrBackendError as error:
                report.undecoded.setdefault(f"/{path}", error.problem)


def zarr3_array(values: dict[str, bytes], path: str) -> Dataset | None:
    """Return the same array in format 3, in a file of both formats."""
    text = values.get(join(path, zarr3.DOCUMENT))
    try:
        return None if text is None else registry.parse_array({zarr3.DOCUMENT: json.loads(text)}, path)
    except (ValueError, MetadataError):
        return None
