"""`conformance`: what a store in a folder or a mapping breaks of the rules of the specification of Zarr format 2.

An oracle for the files that this package writes: each document is read as bytes, each key is seen, each chunk decoded.

Source: Zarr v2 specification.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.shards import shard_named
from hdmf_zarr_backend.errors import ChunkError, MetadataError, ZarrBackendError
from hdmf_zarr_backend.formats import registry, zarr2, zarr3
from hdmf_zarr_backend.model.nodes import Dataset, join, split
from hdmf_zarr_backend.stores.opening import open_store

ACCEPTED = {
    "ascii-key": "names come from schemas and users, and every store and reader tried takes UTF-8",
    "json-numbers": "hdmf-zarr 0.13 reads the tokens NaN and Infinity, and not the strings for them",
    "array-other-keys": "the specification says SHOULD NOT here, and that readers ignore such keys",
    "dtype-object": "zarr-python stores text, bytes and JSON as objects, and the readers of its files read them",
}
"""The rules that may be broken, and why."""

_DOCUMENTS = zarr2.DOCUMENT_NAMES | {zarr2.CONSOLIDATED}
_ARRAY_KEYS = {"zarr_format", "shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters"}
_TYPE = re.compile(r"([<>|]?)([A-Za-z?])([0-9]{0,9})(?:\[([^\[\]]*)\])?", re.ASCII)
_UNIT = re.compile(r"[0-9]{0,9}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)", re.ASCII)
_SIZES: dict[str, tuple[int, ...]] = {
    "b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8, 12, 16), "c": (8, 16, 24, 32), "m": (8,), "M": (8,),
    "S": (), "U": (), "V": (),
}  # fmt: skip
_SPECIAL = ("NaN", "Infinity", "-Infinity")


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
        """Number of findings by rule."""
        return dict(Counter(rule for rule, _, _ in [*self.violations, *self.remarks]))

    def add(self, rule: str, key: str, message: str) -> None:
        """Record a finding."""
        (self.remarks if rule in ACCEPTED else self.violations).append((rule, key, message))


def conformance(source: Path | dict[str, bytes]) -> Report:
    """Check a store of format 2."""
    if isinstance(source, Path):
        values = {
            path.relative_to(source).as_posix(): path.read_bytes() for path in source.rglob("*") if path.is_file()
        }
    else:
        values = source
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
    for rule, message in _of_document(name, document):
        report.add(rule, key, message)
    if name == zarr2.ARRAY:
        with suppress(MetadataError):  # a rule says the same
            nodes[path] = zarr2.parse_array(document, {}, path)


def _of_document(name: str, document: Any) -> Iterator[tuple[str, str]]:
    kind = {zarr2.ARRAY: "array", zarr2.GROUP: "group", zarr2.ATTRIBUTES: "attributes"}[name]
    if not isinstance(document, dict):
        yield f"{kind}-object", f"it is a {type(document).__name__}"
        return
    if kind == "attributes":
        return
    wanted = _ARRAY_KEYS if kind == "array" else {"zarr_format"}
    if missing := wanted - document.keys():
        yield f"{kind}-keys", f"{sorted(missing)} is missing"
    if other := document.keys() - wanted - ({"dimension_separator"} if kind == "array" else set()):
        yield f"{kind}-other-keys", f"there is {sorted(other)}"
    if "zarr_format" in document and not (type(document["zarr_format"]) is int and document["zarr_format"] == 2):
        yield f"{kind}-format", f"it is {document['zarr_format']!r}"
    if kind == "array":
        yield from _of_array(document)


def _of_array(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    shape, chunks = document.get("shape"), document.get("chunks")
    right = {
        "shape": _are_lengths(shape),
        "chunks": _are_lengths(chunks, 1) and not (_are_lengths(shape) and len(shape or ()) != len(chunks or ())),
        "order": document.get("order") in ("C", "F"),
        "compressor": document.get("compressor") is None or _is_codec(document["compressor"]),
        "filters": document.get("filters") is None
        or (isinstance(document["filters"], list) and all(map(_is_codec, document["filters"]))),
        "dimension_separator": document.get("dimension_separator") in (".", "/"),
    }
    for key, is_right in right.items():
        if key in document and not is_right:
            yield key.replace("_", "-"), f"it is {document[key]!r}"
    if "dtype" not in document:
        return
    dtype, fill = document["dtype"], document.get("fill_value")
    broken = list(_of_dtype(dtype))
    yield from ((rule, f"the data type is {dtype!r}") for rule in broken)
    if fill is not None and dtype != "|O" and not set(broken) - {"dtype-object"}:
        rule = _of_fill(fill, dtype)
        if rule:
            yield rule, f"{fill!r} for {dtype!r}"


def _are_lengths(value: Any, least: int = 0) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= least for n in value)


def _is_codec(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str)


def _of_dtype(dtype: Any) -> Iterator[str]:
    if isinstance(dtype, list):
        fields = [entry for entry in dtype if isinstance(entry, list) and len(entry) in (2, 3)]
        fields = [entry for entry in fields if isinstance(entry[0], str)]
        are_shaped = all(len(entry) == 2 or _are_lengths(entry[2]) for entry in fields)
        if not fields or len({entry[0] for entry in fields}) < len(dtype) or not are_shaped:
            yield "dtype-fields"
        for entry in fields:
            yield from _of_dtype(entry[1])
        return
    match = _TYPE.fullmatch(dtype) if isinstance(dtype, str) else None
    if match is None:
        yield "dtype-form"
        return
    order, kind, size, unit = match.groups()
    if kind not in _SIZES:
        yield "dtype-object" if kind == "O" else "dtype-kind"
        return
    if kind not in "mM" and unit is not None:
        yield "dtype-form"
    if order not in ("<", ">") and (not order or (kind in "iufcmMU" and size != "1")):
        yield "dtype-byte-order"
    if not size or (_SIZES[kind] and int(size) not in _SIZES[kind]):
        yield "dtype-size"
    if kind in "mM" and not _UNIT.fullmatch(unit or ""):
        yield "dtype-units"


def _of_fill(fill: Any, dtype: Any) -> str:
    kind = dtype[1] if isinstance(dtype, str) else ""
    if kind in ("", "S"):
        return "" if _is_base64(fill, dtype) else "fill-base64"
    if kind == "f" and ((isinstance(fill, float) and not math.isfinite(fill)) or _is_other_text(fill)):
        return "fill-float"
    is_number = isinstance(fill, (int, float)) and not isinstance(fill, bool)
    parts = fill if isinstance(fill, list) else [fill]
    if kind in "iu":
        bits = 8 * _itemsize(dtype)
        low, high = (0, 2**bits) if kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
        is_right = type(fill) is int and low <= fill < high
    else:
        is_right = {
            "b": isinstance(fill, bool) or (is_number and fill in (0, 1)),
            "f": is_number or isinstance(fill, str),
            "c": len(parts) in (1, 2) and all(type(part) in (int, float) or part in _SPECIAL for part in parts),
            "m": type(fill) is int or isinstance(fill, str),
            "M": type(fill) is int or isinstance(fill, str),
            "U": isinstance(fill, str),
            "V": isinstance(fill, str),
        }[kind]
    return "" if is_right else "fill-scalar"


def _is_other_text(fill: Any) -> bool:
    return isinstance(fill, str) and fill not in _SPECIAL


def _is_base64(fill: Any, dtype: Any) -> bool:
    """Tell whether a fill value is Base64 of the right size; zarr-python drops zeros at the end of bytes."""
    try:
        size = len(base64.b64decode(fill, validate=True))
    except (TypeError, ValueError):
        return False
    if "dtype-object" in _of_dtype(dtype):
        return True
    wanted = _itemsize(dtype)
    return size == wanted or (size < wanted and isinstance(dtype, str))


def _itemsize(dtype: Any) -> int:
    if isinstance(dtype, str):
        return int(dtype[2:].partition("[")[0]) * (4 if dtype[1] == "U" else 1)
    return sum(_itemsize(inner) * math.prod(shape[0] if shape else ()) for _, inner, *shape in dtype)


def _check_tree(nodes: dict[str, Any], report: Report) -> None:
    groups = set()
    for path in nodes:
        above = path
        while above:
            above = split(above)[0]
            groups.add(above)
            if nodes.get(above, "group") != "group":
                report.add("array-members", zarr2.key_of(path, zarr2.GROUP), f"it is inside of {above!r}")
    for path in sorted(groups - nodes.keys()):
        report.add("group-ancestors", zarr2.key_of(path, zarr2.GROUP), "there is no .zgroup")


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


def zarr3_array(values: dict[str, bytes], path: str) -> Dataset[Any] | None:
    """Return the same array in format 3, in a file of both formats."""
    text = values.get(join(path, zarr3.DOCUMENT))
    try:
        return None if text is None else registry.parse_array({zarr3.DOCUMENT: json.loads(text)}, path)
    except (ValueError, MetadataError):
        return None
