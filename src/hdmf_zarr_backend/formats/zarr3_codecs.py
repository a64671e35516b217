"""Codecs: the filters and compressor of format 2 <-> the codecs of Zarr format 3.

Our filters in order and then our compressor are one chain. In format 3 its first steps, those that know of numbers, may
stand before the step that makes bytes; the others stand behind it. What both formats have is named as the core
specification names it, everything else ``numcodecs.<id>``, as zarr-python and hdmf-zarr 0.14 do. The stored bytes of a
chunk are the same under both names.

Three of our filters are steps that have no other form, since the data type says it all in format 3: ``references`` and
``struct``, which make bytes of objects (`arrays.objects`), and ``byteorder``, which makes rows little-endian.

Source: Zarr v3 specification, "Codecs"; zarr-python for the configurations of ``blosc`` and ``zstd``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.formats import zarr3_types
from hdmf_zarr_backend.formats.zarr3_types import Endian
from hdmf_zarr_backend.model.nodes import Shards

REFERENCES = "references"
STRUCT = "struct"
BYTE_ORDER = "byteorder"

_PREFIX = "numcodecs."
_SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
_SHUFFLE_NUMBERS = {name: number for number, name in _SHUFFLES.items()}
_ON_NUMBERS = frozenset({"astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize"})
_MAKES_OBJECTS = frozenset({"vlen-utf8", "vlen-bytes", "pickle", "json2", "msgpack2", "vlen-array", "categorize"})
_SERIALIZERS = {"vlen-utf8": "vlen-utf8", "vlen-bytes": "vlen-bytes"}
_REMEDY = "Convert the array with the program that wrote it."
_USUAL_LEVEL = 6  # what zlib makes of -1


@dataclass(slots=True, frozen=True)
class Chain:
    """The codecs of an array in our words.

    Attributes
    ----------
    filters : list of dict or None
        Ours; of text and bytes the first one makes bytes of objects.
    compressor : dict or None
        The last one.
    endian : {"little", "big"} or None
        Of numbers.
    order : {"C", "F"}
        Layout inside a chunk.
    chunks : tuple of int or None
        Shape of the chunks inside of shards.
    shards : Shards or None
        What the chunks of the grid are, if not chunks.
    """

    filters: list[dict[str, Any]] | None
    compressor: dict[str, Any] | None
    endian: Endian | None
    order: str = "C"
    chunks: tuple[int, ...] | None = None
    shards: Shards | None = None


# ---- ours -> format 3 -----------------------------------------------------------------------------------------------


def in_format_2(filters: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return copies of filters without those that are there in format 3 only."""
    kept = [dict(config) for config in filters or () if config["id"] not in (REFERENCES, STRUCT, BYTE_ORDER)]
    return kept or None


def is_expressible(filters: list[dict[str, Any]] | None, compressor: dict[str, Any] | None) -> bool:
    """Tell whether a chain of ours on numbers has a form in format 3: what knows of numbers stands first."""
    steps = [*(filters or []), *([compressor] if compressor else [])]
    kinds = [step["id"] in _ON_NUMBERS for step in steps]
    return not any(step["id"] in _MAKES_OBJECTS for step in steps) and kinds == sorted(kinds, reverse=True)


def in_core_words(compressor: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the compressor of a new array of format 3 that is asked for as ``compressor``: ``gzip`` for ``zlib``.

    Both are the same stream of deflate in another frame. The core specification names ``gzip`` only, and so it is all
    that readers besides zarr-python have. Chunks that exist keep their frame, and their name.
    """
    if compressor is None or compressor["id"] != "zlib" or compressor.keys() > {"id", "level"}:
        return compressor
    level = compressor.get("level", 1)
    return {"id": "gzip", "level": _USUAL_LEVEL if level == -1 else level}


def encode_codecs(
    data_type: Any,
    filters: list[dict[str, Any]] | None,
    compressor: dict[str, Any] | None,
    *,
    order: str,
    ndim: int,
    endian: Endian | None,
    itemsize: int,
) -> list[dict[str, Any]]:
    """Return the codecs of format 3.

    Parameters
    ----------
    data_type : str or list
        Ours.
    filters, compressor, order
        Ours.
    ndim : int
        Number of axes of the array as format 3 has it.
    endian : {"little", "big"} or None
        Of the elements; None where they have no byte order.
    itemsize : int
        Bytes of an element, which Blosc wants to know; 1 for text.

    Raises
    ------
    UsageError
        The chain has no form in format 3.
    """
    steps = [*(filters or []), *([compressor] if compressor else [])]
    if steps and steps[0]["id"] == BYTE_ORDER:
        del steps[0]
    first: list[dict[str, Any]] = []
    if order == "F" and ndim > 1:
        first.append({"name": "transpose", "configuration": {"order": list(range(ndim))[::-1]}})
    name = _SERIALIZERS.get(steps[0]["id"]) if steps and data_type == "|O" else None
    if steps and data_type == "|O":
        serializer = _object_serializer(steps.pop(0), name)
    else:
        while steps and steps[0]["id"] in _ON_NUMBERS:
            first.append(_encode(steps.pop(0), itemsize))
        serializer = {"name": "bytes", **({"configuration": {"endian": endian}} if endian else {})}
    for step in steps:
        if step["id"] in _ON_NUMBERS or step["id"] in _MAKES_OBJECTS:
            raise UsageError(f"format 3 has no place for the filter {step['id']!r} here", remedy="Leave it out.")
    return [*first, serializer, *(_encode(step, itemsize) for step in steps)]


def _object_serializer(step: dict[str, Any], name: str | None) -> dict[str, Any]:
    if step["id"] == REFERENCES:
        name = "vlen-utf8"
    if step["id"] == STRUCT:
        return {"name": "bytes", "configuration": {"endian": "little"}}
    if name is None:
        raise UsageError(f"format 3 has no form for objects in {step['id']!r}", remedy="Leave out object_codec_class.")
    return {"name": name, "configuration": {}}


def _encode(config: dict[str, Any], itemsize: int) -> dict[str, Any]:
    name = config["id"]
    rest = {key: value for key, value in config.items() if key != "id"}
    if name == "gzip":
        return {"name": "gzip", "configuration": {"level": rest.get("level", 1)}}
    if name == "zstd":
        made = {"level": rest.get("level", 0), "checksum": bool(rest.get("checksum", False))}
        return {"name": "zstd", "configuration": made}
    if name == "blosc" and not rest.keys() - {"cname", "clevel", "shuffle", "blocksize"}:
        return {"name": "blosc", "configuration": _encode_blosc(rest, itemsize)}
    if name == "crc32c" and rest.get("location", "end") == "end":
        return {"name": "crc32c"}
    return {"name": f"{_PREFIX}{name}", "configuration": rest}


def _encode_blosc(config: dict[str, Any], itemsize: int) -> dict[str, Any]:
    shuffle = config.get("shuffle", 1)
    if shuffle not in _SHUFFLES:  # -1: by the size of an element
        shuffle = 2 if itemsize == 1 else 1
    return {
        "typesize": itemsize,
        "cname": config.get("cname", "lz4"),
        "clevel": config.get("clevel", 5),
        "shuffle": _SHUFFLES[shuffle],
        "blocksize": config.get("blocksize", 0),
    }


# ---- format 3 -> ours -----------------------------------------------------------------------------------------------


def decode_codecs(codecs: list[Any], ndim: int) -> Chain:
    """Return our form of the codecs of an array with ``ndim`` axes.

    Raises
    ------
    MetadataError
        A chain that this package cannot follow.
    """
    steps = [_parts(codec) for codec in codecs]
    if len(steps) == 1 and steps[0][0] == "sharding_indexed":
        return _decode_sharded(steps[0][1], ndim)
    order, numbers = "C", []
    position = 0
    for name, configuration in steps:
        if name == "transpose":
            order = _decode_transpose(configuration, ndim, order)
        elif name.removeprefix(_PREFIX) in _ON_NUMBERS:
            numbers.append(_decode(name, configuration))
        else:
            break
        position += 1
    if position == len(steps):
        raise MetadataError(f"the codecs {codecs!r} make no bytes", remedy=_REMEDY)
    name, configuration = steps[position]
    endian: Endian | None = None
    if name == "bytes":
        endian = configuration.get("endian")
        if endian not in (None, "little", "big"):
            raise MetadataError(f"the byte order {endian!r} is unknown", remedy=_REMEDY)
    elif name in _SERIALIZERS:
        numbers.append({"id": _SERIALIZERS[name]})
    else:
        raise MetadataError(f"the codec {name!r} is unknown in this place", remedy=_REMEDY)
    rest = [_decode(*step) for step in steps[position + 1 :]]
    compressor = rest.pop() if rest else None
    return Chain([*numbers, *rest] or None, compressor, endian, order)


def decode_codec(codec: Any) -> dict[str, Any]:
    """Return our configuration of one codec of format 3, given as in metadata: ``{"name": ..., "configuration": ...}``.

    Raises
    ------
    MetadataError
        It is not a filter or a compressor, or not one that this package has.
    """
    return _decode(*_parts(codec))


def _parts(codec: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(codec, str):
        return codec, {}
    name, configuration = codec.get("name"), codec.get("configuration") or {}
    if not isinstance(name, str) or not isinstance(configuration, dict):
        raise MetadataError(f"the codec {codec!r} has no name", remedy=_REMEDY)
    return name, configuration


def _decode_transpose(configuration: dict[str, Any], ndim: int, order: str) -> str:
    wanted = configuration.get("order")
    if wanted in ("C", list(range(ndim))):
        return order
    if wanted in ("F", list(range(ndim))[::-1]) and order == "C":
        return "F"
    raise MetadataError(f"a transposition of axes {wanted!r} is not supported", remedy="Write it in order C or F.")


def _decode(name: str, configuration: dict[str, Any]) -> dict[str, Any]:
    if name == "blosc":
        shuffle = configuration.get("shuffle", "noshuffle")
        if shuffle not in _SHUFFLE_NUMBERS:
            raise MetadataError(f"Blosc knows no shuffle {shuffle!r}", remedy=_REMEDY)
        kept: dict[str, Any] = {key: configuration[key] for key in ("cname", "clevel") if key in configuration}
        number, blocksize = _SHUFFLE_NUMBERS[shuffle], configuration.get("blocksize", 0)
        return {"id": "blosc", **kept, "shuffle": number, "blocksize": blocksize}
    if name == "zstd":
        checksum = {"checksum": True} if configuration.get("checksum") else {}
        return {"id": "zstd", "level": configuration.get("level", 0), **checksum}
    if name == "gzip":
        return {"id": "gzip", "level": configuration.get("level", 1)}
    if name == "crc32c":
        return {"id": "crc32c", "location": "end"}
    if not name.startswith(_PREFIX):
        raise MetadataError(f"the codec {name!r} is not one that this package decodes", remedy=_REMEDY)
    return {"id": name.removeprefix(_PREFIX), **configuration}


def _decode_sharded(configuration: dict[str, Any], ndim: int) -> Chain:
    chunks, inner = configuration.get("chunk_shape"), configuration.get("codecs")
    if (
        not isinstance(chunks, list)
        or len(chunks) != ndim
        or not all(type(n) is int and n > 0 for n in chunks)
        or not isinstance(inner, list)
    ):
        raise MetadataError(f"the shards {configuration!r} have no chunks", remedy=_REMEDY)
    index = [_parts(codec) for codec in configuration.get("index_codecs", [{"name": "bytes"}, {"name": "crc32c"}])]
    names = [name for name, _ in index]
    if names not in (["bytes"], ["bytes", "crc32c"]) or index[0][1].get("endian", "little") != "little":
        raise MetadataError(f"an index of shards stored with {names!r} is not supported", remedy=_REMEDY)
    location = configuration.get("index_location", "end")
    chain = decode_codecs(inner, ndim)
    if chain.shards is not None or location not in ("start", "end"):
        raise MetadataError("shards inside of shards are not supported", remedy=_REMEDY)
    shards = Shards((), index_at_end=location == "end", checksum=len(names) == 2)
    return Chain(chain.filters, chain.compressor, chain.endian, chain.order, tuple(chunks), shards)


def encode_sharded(chunks: tuple[int, ...], codecs: list[dict[str, Any]], shards: Shards) -> list[dict[str, Any]]:
    """Return the codecs of an array whose chunks, stored with ``codecs``, lie together in shards."""
    index: list[dict[str, Any]] = [{"name": "bytes", "configuration": {"endian": "little"}}]
    if shards.checksum:
        index.append({"name": "crc32c"})
    return [
        {
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": list(chunks),
                "codecs": codecs,
                "index_codecs": index,
                "index_location": "end" if shards.index_at_end else "start",
            },
        }
    ]


def field_types(fields: list[Any]) -> list[Any]:
    """Return the data type, ours, of the rows that the filter ``struct`` makes of ``fields``."""
    return [[name, data_type] for name, data_type, _ in fields]


def struct_filter(fields: list[Any]) -> dict[str, Any]:
    """Return the configuration of the filter ``struct``: name, data type (ours) and kind of each field.

    Kinds are ``"number"``, ``"text"`` and ``"reference"``; text and references are of fixed length.
    """
    return {"id": STRUCT, "fields": fields}


def byte_order_filter(data_type: Any) -> dict[str, Any]:
    """Return the configuration of the filter ``byteorder`` for rows of ``data_type``, ours."""
    return {"id": BYTE_ORDER, "stored": zarr3_types.little(data_type)}


def struct_itemsize(fields: list[Any]) -> int:
    """Return the bytes of a row."""
    return zarr3_types.itemsize(field_types(fields))
