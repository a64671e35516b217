"""Metadata documents, one by one, against the specification of Zarr format 2.

Source: Zarr v2 specification, "Metadata", "Groups" and "Attributes".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from hdmf_zarr_backend.formats import zarr2
from hdmf_zarr_backend.verification.conformance_types import (
    Found,
    data_type_findings,
    fill_findings,
    is_lengths,
    shown,
)

_SEPARATOR = "dimension_separator"


def parse_document(text: bytes) -> tuple[Any, list[str]]:
    """Return the value of JSON text, and the tokens in it that JSON has not.

    Raises
    ------
    ValueError, RecursionError
        It is no JSON, with or without them.
    """
    tokens: list[str] = []

    def note(token: str) -> float:
        tokens.append(token)
        return float(token)

    return json.loads(text.decode("utf-8"), parse_constant=note), tokens


def document_findings(name: str, document: Any) -> Found:
    """Yield what is wrong with a document that is called ``name``: ``.zarray``, ``.zgroup`` or ``.zattrs``."""
    word = _WORDS[name]
    if not isinstance(document, dict):
        yield f"{word}-object", f"{name} holds {shown(document)}"
    elif name == zarr2.ARRAY:
        yield from _array(document)
    elif name == zarr2.GROUP:
        yield from _group(document)


_WORDS = {zarr2.ARRAY: "array", zarr2.GROUP: "group", zarr2.ATTRIBUTES: "attributes"}


def _group(document: dict[str, Any]) -> Found:
    if "zarr_format" not in document:
        yield "group-keys", "zarr_format is missing"
    else:
        yield from _format("group", document["zarr_format"])
    other = sorted(document.keys() - {"zarr_format"})
    if other:
        yield "group-other-keys", f"there is {', '.join(other)} as well"


def _format(word: str, number: Any) -> Found:
    if type(number) is not int or number != 2:
        yield f"{word}-format", f"zarr_format is {shown(number)}"


def _array(document: dict[str, Any]) -> Found:
    missing = sorted(_CHECKS.keys() - document.keys() - {_SEPARATOR})
    if missing:
        yield "array-keys", f"{', '.join(missing)} is missing"
    other = sorted(document.keys() - _CHECKS.keys())
    if other:
        yield "array-other-keys", f"there is {', '.join(other)} as well"
    for key, check in _CHECKS.items():
        if key in document:
            yield from check(document[key])
    shape, chunks = document.get("shape"), document.get("chunks")
    if is_lengths(shape) and is_lengths(chunks, 1) and len(shape or []) != len(chunks or []):
        yield "chunks", f"shape is {shown(shape)}, and chunks is {shown(chunks)}"
    if {"dtype", "fill_value"} <= document.keys() and _is_understood(document["dtype"]):
        yield from fill_findings(document["fill_value"], document["dtype"])


def _is_understood(data_type: Any) -> bool:
    return all(rule == "dtype-object" for rule, _ in data_type_findings(data_type))


def _shape(value: Any) -> Found:
    if not is_lengths(value):
        yield "shape", f"shape is {shown(value)}"


def _chunks(value: Any) -> Found:
    if not is_lengths(value, 1):
        yield "chunks", f"chunks is {shown(value)}"


def _order(value: Any) -> Found:
    if value not in ("C", "F"):
        yield "order", f"order is {shown(value)}"


def _separator(value: Any) -> Found:
    if value not in (".", "/"):
        yield "dimension-separator", f"dimension_separator is {shown(value)}"


def _is_codec(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str)


def _compressor(value: Any) -> Found:
    if value is not None and not _is_codec(value):
        yield "compressor", f"compressor is {shown(value)}"


def _filters(value: Any) -> Found:
    if value is not None and not (isinstance(value, list) and all(map(_is_codec, value))):
        yield "filters", f"filters is {shown(value)}"


def _any(value: Any) -> Iterator[tuple[str, str]]:
    return iter(())


_CHECKS: dict[str, Callable[[Any], Found]] = {
    "zarr_format": lambda value: _format("array", value),
    "shape": _shape,
    "chunks": _chunks,
    "dtype": data_type_findings,
    "compressor": _compressor,
    "fill_value": _any,  # by the data type, when both are known
    "order": _order,
    "filters": _filters,
    _SEPARATOR: _separator,
}
