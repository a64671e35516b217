"""What an array of format 2 holds, in HDMF's words, and how large an element is. Standard library only.

For showing files fast: `dtypes` is the table, this reads it off the documents without NumPy.
"""

from __future__ import annotations

import math
import re
from typing import Any

from hdmf_zarr_backend.formats.reserved import DTYPE, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

_SIMPLE = re.compile(r"^([<>|=]?)([?biufcmMSUVOT])(\d*)(\[[^\]]*\])?$")
_NAMES = {"i": "int", "u": "uint", "f": "float", "c": "complex"}
_FIELDS = {
    "object": "reference", "region": "region", "str": "text", "str_": "text", "utf8": "text", "utf": "text",
    "bytes": "ascii", "bytes_": "ascii", "ascii": "ascii",
}  # fmt: skip

_SHUFFLES = {1: "shuffle", 2: "bitshuffle", -1: "autoshuffle"}  # of Blosc


def type_word(node: ArrayNode[Attributes]) -> str:
    """Return what the elements of an array are: ``int16``, ``text``, ``reference``, ``{x: int32, to: reference}``."""
    word = node.attributes.get(DTYPE)
    if isinstance(word, list) and word:
        stored = {name: data_type for name, data_type, *_ in _fields_of(node.data_type)}
        return _compound([(name, _field_word(dtype, stored.get(name))) for name, dtype in _named(word)])
    if node.data_type == "|O":
        return _object_word(node, word)
    return _stored_word(node.data_type)


def _object_word(node: ArrayNode[Attributes], word: Any) -> str:
    if word == "object":
        return "reference"
    if word == "region":
        return "region"
    kept = notes_of(node.attributes).get("text")
    if isinstance(kept, str):
        return kept
    codec = (node.filters or [{}])[0].get("id")
    return "bytes" if codec == "vlen-bytes" else "text"


def _named(word: list[Any]) -> list[tuple[str, Any]]:
    """Return the fields of ``zarr_dtype``, each once; hdmf-zarr repeated some."""
    fields: dict[str, Any] = {}
    for entry in word:
        if isinstance(entry, dict) and "name" in entry:
            fields.setdefault(str(entry["name"]), entry.get("dtype"))
    return list(fields.items())


def _field_word(word: Any, stored: Any) -> str:
    if isinstance(word, dict):
        return "region" if word.get("reftype") == "region" else "reference"
    if str(word) in _FIELDS:
        return _FIELDS[str(word)]
    return _stored_word(stored) if stored is not None and stored != "|O" else str(word)


def _stored_word(data_type: Any) -> str:
    if isinstance(data_type, list):
        return _compound(
            [(name, _with_shape(_stored_word(kind), shape)) for name, kind, shape in _fields_of(data_type)]
        )
    match = _SIMPLE.match(data_type) if isinstance(data_type, str) else None
    if match is None:
        return str(data_type)
    order, kind, digits, unit = match.groups()
    size = int(digits or 1)
    if kind in _NAMES:
        name = f"{_NAMES[kind]}{8 * size}"
        return f"{name} big-endian" if order == ">" and size > 1 else name
    words = {"b": "bool", "?": "bool", "S": f"ascii[{size}]", "U": f"text[{size}]", "V": f"opaque[{size}]",
             "M": f"datetime64{unit or ''}", "m": f"timedelta64{unit or ''}", "O": "reference"}  # fmt: skip
    return words.get(kind, str(data_type))


def _with_shape(word: str, shape: tuple[int, ...]) -> str:
    return f"{word}{list(shape)}" if shape else word


def _compound(fields: list[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{name}: {word}" for name, word in fields) + "}"


def _fields_of(data_type: Any) -> list[tuple[str, Any, tuple[int, ...]]]:
    """Return name, type and shape of the fields of a structured data type."""
    fields = []
    for field in data_type if isinstance(data_type, list) else ():
        if isinstance(field, list) and len(field) in (2, 3):
            shape = field[2] if len(field) == 3 else []
            lengths = shape if isinstance(shape, list) else [shape]
            fields.append((str(field[0]), field[1], tuple(n for n in lengths if isinstance(n, int))))
    return fields


def element_bytes(data_type: Any) -> int | None:
    """Return the bytes of one element as it is in memory, None where it has no fixed size (text, references)."""
    if isinstance(data_type, list):
        sizes = [(element_bytes(kind), math.prod(shape)) for _, kind, shape in _fields_of(data_type)]
        known = [size * count for size, count in sizes if size is not None]
        return sum(known) if len(known) == len(sizes) else None
    match = _SIMPLE.match(data_type) if isinstance(data_type, str) else None
    if match is None or match[2] in "OT":
        return None
    if match[2] == "?":
        return 1
    return int(match[3] or 0) * (4 if match[2] == "U" else 1)


def codec_words(node: ArrayNode[Attributes]) -> list[str]:
    """Return the codecs of an array in the order in which they are applied, each with what was chosen for it."""
    return [_codec_word(config) for config in [*(node.filters or []), *([node.compressor] if node.compressor else [])]]


def _codec_word(config: dict[str, Any]) -> str:
    name = str(config.get("id"))
    shuffle = config.get("shuffle")
    shuffled = _SHUFFLES.get(shuffle, "") if isinstance(shuffle, int) else ""
    chosen = [config.get("cname"), config.get("clevel", config.get("level")), shuffled]
    return " ".join(str(part) for part in [name, *chosen] if part not in (None, ""))
