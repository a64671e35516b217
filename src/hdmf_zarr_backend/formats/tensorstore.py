"""`find_obstacle`: whether TensorStore can open an array, from its metadata. Standard library only.

TensorStore reads numbers, bool, and single fields of structured arrays, with the codecs that it supports. It refuses a
document with anything unknown: a codec, one setting of a codec, a token that is not JSON.

Source: TensorStore, "zarr Driver" and "zarr3 Driver", and the source code of both.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import sys
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hdmf_zarr_backend.formats import type_codes, zarr3, zarr3_types
from hdmf_zarr_backend.model.nodes import Attributes, Dataset
from hdmf_zarr_backend.model.stored import StoredArray


@dataclass(slots=True, frozen=True)
class Obstacle:
    """The reason why TensorStore cannot open an array.

    Attributes
    ----------
    problem, remedy : str
        For an error message.
    is_of_type : bool
        Whether the type of the elements is the reason: text, references and dates, with any codecs.
    """

    problem: str
    remedy: str
    is_of_type: bool = False


COMPRESSORS: dict[str, dict[str, Any]] = {
    "blosc": {"cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0},
    "zlib": {"level": 1},
    "gzip": {"level": 1},
    "bz2": {"level": 1},
    "zstd": {"level": 1},
}
"""The compressors of format 2 that TensorStore supports, with its default settings."""

_BLOSC = {
    "cname": ("blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"),
    "clevel": range(10),
    "blocksize": range(2**31),
}
_OF_ZSTD = range(-(2**17), 23)
_IN_FORMAT_2: dict[str, dict[str, Container[Any]]] = {
    "blosc": {**_BLOSC, "shuffle": range(-1, 3)},
    "zlib": {"level": range(10)},
    "gzip": {"level": range(10)},
    "bz2": {"level": range(1, 10)},
    "zstd": {"level": _OF_ZSTD},
}
_IN_FORMAT_3: dict[str, dict[str, Container[Any]]] = {
    "bytes": {"endian": ("little", "big")},
    "blosc": {**_BLOSC, "shuffle": ("noshuffle", "shuffle", "bitshuffle"), "typesize": range(1, 256)},
    "gzip": {"level": range(10)},
    "zstd": {"level": _OF_ZSTD, "checksum": (False, True)},
    "crc32c": {},
}
_TRANSPOSE, _SHARDS = "transpose", "sharding_indexed"
_UNITS = "dimension_units"

_NUMBER = re.compile(r"[<>|]b1|[<>|][iu]1|[<>][iu][248]|[<>]f[248]|[<>]c(?:8|16)")
_BYTES = re.compile(r"[<>|][SV][0-9]+")
_STRICT = json.JSONEncoder(allow_nan=False)
_BITS = re.compile(r"0x[0-9a-fA-F]+")
_SPECIAL = ("NaN", "Infinity", "-Infinity")
_NAMES = {"O": "text or references", "U": "text", "M": "dates", "m": "durations"}

_READ = "Read it through the container; `zarrio inspect` shows the types and codecs of all arrays."
_CONVERT = "Convert the file with codec='zstd' or another one"


def find_obstacle(node: Dataset[Attributes]) -> Obstacle | None:
    """Return the reason why TensorStore cannot open an array, None if it can."""
    stored = node.stored
    if not isinstance(stored.data_type, list) and not is_number(stored.data_type):
        return no_such_elements(stored.data_type)
    if stored.zarr_format == 2:
        return _in_format_2(stored)
    return _in_format_3(zarr3.encode_node(node) if stored.original is None else stored.original.document)


def is_number(data_type: Any) -> bool:
    """Tell whether a format-2 data type is a number or bool that TensorStore supports."""
    return isinstance(data_type, str) and bool(_NUMBER.fullmatch(data_type))


def no_such_elements(data_type: Any, where: str = "elements") -> Obstacle:
    """Return the obstacle for elements of a type that TensorStore does not support."""
    name = _NAMES.get(data_type[1:2], repr(data_type)) if isinstance(data_type, str) else repr(data_type)
    return Obstacle(f"TensorStore cannot read {where} of type {name}", _READ, is_of_type=True)


# ---- format 2 -------------------------------------------------------------------------------------------------------


def _in_fields(data_type: Any) -> Obstacle | None:
    for field in data_type if isinstance(data_type, list) else ():
        name, kind = field[:2] if isinstance(field, list) and len(field) > 1 else (None, field)
        if not is_number(kind) and not (isinstance(kind, str) and _BYTES.fullmatch(kind)):
            return no_such_elements(kind, f"rows with the field {name!r}")
    return None


def _in_format_2(stored: StoredArray) -> Obstacle | None:
    obstacle = _in_fields(stored.data_type)
    if obstacle is not None:
        return obstacle
    if stored.filters:
        names = ", ".join(str(codec.get("id")) for codec in stored.filters)
        return Obstacle(
            f"TensorStore cannot read arrays with filters ({names})", f"{_CONVERT}, instead of keeping HDF5's filters."
        )
    if stored.compressor is not None and not _is_compressor(stored.compressor):
        return Obstacle(
            f"TensorStore cannot read the compressor {stored.compressor}",
            f"It has {', '.join(COMPRESSORS)}. {_CONVERT}.",
        )
    if stored.fill_value is not None and not _is_fill(stored.fill_value, stored.data_type):
        return Obstacle(f"TensorStore cannot read the fill value {stored.fill_value!r} of this type", _READ)
    return None


def _is_compressor(compressor: dict[str, Any]) -> bool:
    name = compressor.get("id")
    if not isinstance(name, str) or name not in COMPRESSORS:
        return False
    settings = {key: value for key, value in compressor.items() if key != "id"}
    return _are_known(COMPRESSORS[name] | settings, _IN_FORMAT_2[name])


def _are_known(settings: Mapping[str, Any], known: Mapping[str, Container[Any]]) -> bool:
    """Tell whether all settings of a codec are known, and have supported values."""
    return settings.keys() == known.keys() and all(_is_in(settings[key], values) for key, values in known.items())


def _is_in(value: Any, values: Container[Any]) -> bool:
    return type(value) is int and value in values if isinstance(values, range) else value in values


def _is_fill(value: Any, data_type: Any) -> bool:
    kind = "" if isinstance(data_type, list) else data_type[1]
    if kind and not (kind == "c" and not isinstance(value, list)):
        return _is_scalar_fill(value, kind)
    return _is_base64(value, type_codes.itemsize(data_type))


def _is_base64(value: Any, size: int) -> bool:
    try:
        return len(base64.b64decode(value, validate=True)) == size
    except (TypeError, ValueError, binascii.Error):
        return False


def _is_scalar_fill(value: Any, kind: str) -> bool:
    """Tell whether TensorStore accepts a fill value for a kind of number; an equal value of another type is refused."""
    if kind == "b":
        return isinstance(value, bool)
    if kind in "iu":
        return type(value) is int or (isinstance(value, float) and value.is_integer())
    if kind == "c":
        return isinstance(value, list) and len(value) == 2 and all(map(_is_float, value))
    return _is_float(value)


def _is_float(value: Any) -> bool:
    if isinstance(value, str):
        return value in _SPECIAL or bool(_BITS.fullmatch(value))
    if type(value) is int:
        return abs(value) <= sys.float_info.max
    return isinstance(value, float) and math.isfinite(value)


# ---- format 3 -------------------------------------------------------------------------------------------------------


def _in_format_3(document: dict[str, Any]) -> Obstacle | None:
    kinds = _kinds(document["data_type"])
    fill_value = document.get("fill_value")
    for name, kind in kinds.items():
        if not (isinstance(kind, str) and kind in zarr3_types.NUMBER_NAMES):
            return no_such_elements(kind, f"rows with the field {name!r}" if name else "elements")
    has_order = any(zarr3_types.decode_type(kind)[0] != "|" for kind in kinds.values())
    for codec in _unknown(document["codecs"], needs_order=has_order):
        return Obstacle(
            f"TensorStore cannot read the codec {json.dumps(codec)}",
            f"It has {', '.join([*_IN_FORMAT_3, _TRANSPOSE, _SHARDS])}. {_CONVERT}.",
        )
    try:
        _STRICT.encode([document.get("attributes"), fill_value])
    except ValueError:
        return Obstacle(
            "TensorStore cannot read attributes that are not strict JSON: NaN or an infinity",
            "Write or export the file with strict_json=True.",
        )
    if not _is_fill_of(fill_value, kinds) and not _is_structured_fill(fill_value, document["data_type"], kinds):
        return Obstacle(f"TensorStore cannot read the fill value {fill_value!r} of this type", _READ)
    for key in _odd_keys(document):
        return Obstacle(f"TensorStore cannot read a document with such a {key!r}", _READ)
    return None


def _kinds(data_type: Any) -> dict[str, Any]:
    """Return the data type of each field by name; that of elements without fields has an empty name."""
    configuration = data_type.get("configuration") if isinstance(data_type, dict) else None
    if not isinstance(configuration, dict):
        return {"": data_type}
    fields = configuration.get("fields")
    if not isinstance(fields, list):
        return {"": data_type["name"] if data_type["name"] in zarr3_types.NUMBER_NAMES else data_type}
    return dict((field["name"], field["data_type"]) if isinstance(field, dict) else field for field in fields)


def _unknown(codecs: list[Any], *, needs_order: bool) -> Iterator[Any]:
    """Yield the codecs that TensorStore does not support, also inside shards."""
    for codec in codecs:
        name = codec.get("name") if isinstance(codec, dict) else None
        settings = (codec.get("configuration") or {}) if isinstance(codec, dict) else {}
        if name == _SHARDS:
            yield from _unknown(settings.get("codecs", []), needs_order=needs_order)
            yield from _unknown(settings.get("index_codecs", []), needs_order=True)
        elif name != _TRANSPOSE and not _is_codec(name, settings, needs_order=needs_order):
            yield codec


def _is_codec(name: Any, settings: dict[str, Any], *, needs_order: bool) -> bool:
    if not isinstance(name, str) or name not in _IN_FORMAT_3:
        return False
    if name == "bytes" and not needs_order:
        settings = {"endian": "little"} | settings
    if name == "blosc" and settings.get("shuffle") == "noshuffle":
        settings = {"typesize": 1} | settings
    if name == "zstd":
        settings = {"checksum": False} | settings
    return _are_known(settings, _IN_FORMAT_3[name])


def _is_fill_of(value: Any, kinds: Mapping[str, str]) -> bool:
    """Tell whether TensorStore accepts a fill value; for rows with several fields, an object with all fields."""
    codes = {name: zarr3_types.decode_type(kind)[1] for name, kind in kinds.items()}
    if len(codes) == 1:
        return all(_is_scalar_fill(value, code) for code in codes.values())
    return isinstance(value, dict) and all(
        name in value and _is_scalar_fill(value[name], code) for name, code in codes.items()
    )


def _is_structured_fill(value: Any, data_type: Any, kinds: Mapping[str, str]) -> bool:
    """Tell whether TensorStore takes a fill value for ``structured`` rows: their bytes, of two fields and more."""
    if len(kinds) == 1 or not isinstance(data_type, dict) or data_type["name"] != zarr3_types.STRUCTURED:
        return False
    return _is_base64(value, sum(type_codes.itemsize(zarr3_types.decode_type(kind)) for kind in kinds.values()))


def _odd_keys(document: dict[str, Any]) -> Iterator[str]:
    """Yield the keys of a document that TensorStore does not support, or with unsupported values."""
    yield from _unknown_keys(document)
    names = [name for name in document.get("dimension_names") or () if name]
    if len(set(names)) != len(names):
        yield "dimension_names"
    encoding = document["chunk_key_encoding"]
    if not (isinstance(encoding, dict) and encoding.keys() <= {"name", "configuration"}):
        yield "chunk_key_encoding"
    axes = len(document["shape"])
    units = (document.get("attributes") or {}).get(_UNITS, [None] * axes)
    if not (isinstance(units, list) and len(units) == axes):
        yield _UNITS


def _unknown_keys(document: dict[str, Any]) -> list[str]:
    """Return the keys that are not in the specification and must not be ignored, ``chunk_grid`` if it has one."""
    grid = document["chunk_grid"]
    unknown = document.keys() - zarr3.ARRAY_KEYS
    if len(grid) > 2 or len(grid["configuration"]) > 1:
        unknown.add("chunk_grid")
    return [key for key in unknown if not _may_be_ignored(document[key])]


def _may_be_ignored(value: Any) -> bool:
    return isinstance(value, dict) and value.get("must_understand") is False
