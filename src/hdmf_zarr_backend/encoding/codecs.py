"""Codecs: as users give them -> the filters and compressor of format 2 <-> the codecs of Zarr format 3.

The filters in order and then the compressor are one chain. In format 3 its first steps, those that work on numbers, may
come before the step that makes bytes; the others come after it. A codec that both formats have is named as the core
specification names it, any other ``numcodecs.<id>``, as zarr-python and hdmf-zarr 0.14 do. The stored bytes of a chunk
are the same under both names.

Three filters exist in nodes of format 3 only, where the data type of the document implies them: ``references``
(`encoding.references`) and ``struct`` (`encoding.chunks`), which make bytes of objects, and ``byteorder``, which makes
rows little-endian. The ``fields`` of ``struct`` are name, format-2 data type and kind: ``number``, or ``text`` or
``reference`` of fixed length.

Source: Zarr v3 specification, "Codecs"; zarr-python for the configurations of ``blosc`` and ``zstd``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, TypeGuard

from hdmf_zarr_backend.encoding.data_types import DTYPE_OPTIONS, NUMBERS, Endian, endian_of, number_code
from hdmf_zarr_backend.errors import MetadataError, MissingCodecError, UsageError
from hdmf_zarr_backend.model.nodes import Order, Shards, StoredArray
from hdmf_zarr_backend.options import CODECS, CodecName


class _OfNumcodecs(Protocol):
    def get_config(self) -> Any: ...


class _OfZarr(Protocol):
    def to_dict(self) -> Any: ...


Codec: TypeAlias = bool | CodecName | Mapping[str, Any] | _OfNumcodecs | _OfZarr
"""A compressor as users give it: a name, True for the default, False for none, an object, or its configuration."""

CodecOfFile: TypeAlias = Codec | Literal["keep"]
"""The compressor of all datasets of a file; "keep": each has its own."""

REFERENCES = "references"
STRUCT = "struct"
BYTE_ORDER = "byteorder"

# No specification has these names. zarr-python reads and writes them; TensorStore does not.
_PREFIX = "numcodecs."
_SHUFFLES = {0: "noshuffle", 1: "shuffle", 2: "bitshuffle"}
_SHUFFLE_NUMBERS = {name: number for number, name in _SHUFFLES.items()}
_ON_NUMBERS = frozenset({"astype", "bitround", "delta", "fixedscaleoffset", "packbits", "quantize"})
# how a data type in their options begins that has a byte order, or may have one
_WITHOUT_ORDER = re.compile(r"\|.*|[<>=]?[biu]1|bool|u?int8")
_ORDERED = re.compile("^[<>=]?(?=[iufcmM][0-9])")
_MAKES_OBJECTS = frozenset({"vlen-utf8", "vlen-bytes", "pickle", "json2", "msgpack2", "vlen-array", "categorize"})
_SERIALIZERS = frozenset({"vlen-utf8", "vlen-bytes"})
_TO_BYTES = _SERIALIZERS | {"bytes"}
_DECODED = _TO_BYTES | {"transpose", "sharding_indexed", "blosc", "gzip", "zstd", "crc32c"}
_REMEDY = "Convert the array with the program that wrote it."


@dataclass(slots=True, frozen=True)
class Chain:
    """The codecs of an array as its node has them."""

    filters: list[dict[str, Any]] | None  # the first filter of text and bytes makes bytes of objects
    compressor: dict[str, Any] | None
    endian: Endian | None
    order: Order = "C"
    chunks: tuple[int, ...] | None = None  # inside of shards
    shards: Shards | None = None


def in_format_2(filters: list[dict[str, Any]] | None) -> list[dict[str, Any]] | None:
    """Return copies of filters without those that only format-3 arrays have."""
    kept = [dict(config) for config in filters or () if config["id"] not in (REFERENCES, STRUCT, BYTE_ORDER)]
    return kept or None


def is_expressible(filters: list[dict[str, Any]] | None, compressor: dict[str, Any] | None, data_type: Any) -> bool:
    """Tell whether format 3 can express a chain on numbers: the filters that work on numbers come first.

    These have one byte order, which the step that makes bytes has there for the array and them.
    """
    steps = _steps(filters, compressor)
    kinds = [step["id"] in _ON_NUMBERS for step in steps]
    is_in_place = not any(step["id"] in _MAKES_OBJECTS for step in steps) and kinds == sorted(kinds, reverse=True)
    return is_in_place and _endians(steps) <= {endian_of(data_type) or "little"}


def _types_of(step: dict[str, Any]) -> dict[str, str]:
    """Return the options of a filter that works on numbers that are data types."""
    keys = DTYPE_OPTIONS & step.keys() if step["id"] in _ON_NUMBERS else ()
    return {key: step[key] for key in keys if isinstance(step[key], str)}


def _endians(steps: list[dict[str, Any]]) -> set[str]:
    """Return the byte orders of the data types in filters that work on numbers."""
    names = {name for step in steps for name in _types_of(step).values() if not _WITHOUT_ORDER.fullmatch(name)}
    return {"big" if name.startswith(">") else "little" for name in names}


def has_array_codecs(filters: list[dict[str, Any]] | None, order: Order) -> bool:
    """Tell whether the codecs of an array of format 3 begin with some that make an array of an array."""
    return order != "C" or any(config["id"] in _ON_NUMBERS for config in filters or ())


def in_core_words(compressor: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the compressor of a new array of format 3 for the requested one: ``gzip`` for ``zlib``."""
    # Both are deflate in another frame. The core specification names gzip only, and so it is all that readers besides
    # zarr-python have. Chunks that exist keep their frame, and their name.
    if compressor is None or compressor["id"] != "zlib" or compressor.keys() > {"id", "level"}:
        return compressor
    level = compressor.get("level", 1)
    return {"id": "gzip", "level": 6 if level == -1 else level}  # zlib makes 6 of -1


def encode_codecs(
    filters: list[dict[str, Any]] | None,
    compressor: dict[str, Any] | None,
    *,
    is_object: bool,
    axes: list[int],
    endian: Endian | None,
    itemsize: int,
) -> list[dict[str, Any]]:
    """Return the codecs of format 3."""
    steps = _steps(filters, compressor)
    first: list[dict[str, Any]] = []
    if axes != sorted(axes):
        first.append({"name": "transpose", "configuration": {"order": axes}})
    if steps and is_object:
        codec_id = steps.pop(0)["id"]
        name = {STRUCT: "bytes", REFERENCES: "vlen-utf8"}.get(codec_id, codec_id)
        if name not in _SERIALIZERS and codec_id != STRUCT:
            raise UsageError(f"format 3 has no form for objects in {name!r}", remedy="Keep the file in format 2.")
        serializer = {"name": name, "configuration": {"endian": "little"} if codec_id == STRUCT else {}}
    else:
        if others := _endians(steps):
            endian = endian or "little"
            if others != {endian}:
                problem = "format 3 cannot have filters whose numbers differ from the array in byte order"
                raise UsageError(problem, remedy="Keep the file in format 2.")
        while steps and steps[0]["id"] in _ON_NUMBERS:
            first.append(_encode(steps.pop(0), itemsize))
        # zarr-python warns of a missing byte order, and one byte has none.
        serializer = {"name": "bytes", **({"configuration": {"endian": endian}} if endian else {})}
    for step in steps:
        if step["id"] in _ON_NUMBERS | _MAKES_OBJECTS:
            raise UsageError(f"format 3 cannot have the filter {step['id']!r} in this position", remedy="Leave it out.")
    return [*first, serializer, *(_encode(step, itemsize) for step in steps)]


def _steps(filters: list[dict[str, Any]] | None, compressor: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return all codecs of format 2 in the order in which they are applied, but for the one that only the model has."""
    steps = [*(filters or []), *([compressor] if compressor else [])]
    return [step for step in steps if step["id"] != BYTE_ORDER]


def _encode(config: dict[str, Any], itemsize: int) -> dict[str, Any]:
    name = config["id"]
    rest = {key: value for key, value in config.items() if key != "id"}
    if name in ("gzip", "zstd"):
        checksum = {"checksum": bool(rest.get("checksum", False))} if name == "zstd" else {}
        return {"name": name, "configuration": {"level": rest.get("level", int(name == "gzip")), **checksum}}
    if name == "blosc" and not rest.keys() - {"cname", "clevel", "shuffle", "blocksize"}:
        shuffle = rest.get("shuffle", 1)
        if not isinstance(shuffle, int) or shuffle not in _SHUFFLES:  # -1: by the size of an element
            shuffle = 2 if itemsize == 1 else 1
        usual = {"typesize": itemsize, "cname": "lz4", "clevel": 5, "shuffle": "", "blocksize": 0}
        return {"name": "blosc", "configuration": {**usual, **rest, "shuffle": _SHUFFLES[shuffle]}}
    if name == "crc32c" and rest.get("location", "end") == "end":
        return {"name": "crc32c"}
    return {"name": f"{_PREFIX}{name}", "configuration": rest}


def decode_codecs(codecs: list[Any], ndim: int) -> Chain:
    """Return the codecs of an array with ``ndim`` axes as its node has them."""
    steps = list(map(_parts, codecs))
    if len(steps) == 1 and steps[0][0] == "sharding_indexed":
        return _decode_sharded(steps[0][1], ndim)
    order, filters = _decode_first(steps, ndim)
    if not steps:
        raise MetadataError(f"the codecs {codecs!r} have no step that makes bytes", remedy=_REMEDY)
    if steps[0][0].startswith(_PREFIX):  # it makes bytes of numbers itself, in the byte order of this machine
        steps.insert(0, ("bytes", {"endian": "little"}))
    name, configuration = steps.pop(0)
    if name in _SERIALIZERS:
        filters.append({"id": name})
    elif name != "bytes":
        raise _refused(name)
    endian: Endian | None = configuration.get("endian") if name == "bytes" else None
    if endian not in (None, "little", "big"):
        raise MetadataError(f"the byte order {endian!r} is unknown", remedy=_REMEDY)
    letter = ">" if endian == "big" else "<"
    for config in filters:  # in format 3 these work on values; here their numbers have the byte order of chunks
        for key, word in _types_of(config).items():
            config[key] = _ORDERED.sub(letter, number_code(NUMBERS[word]) if word in NUMBERS else word)
    filters += [_decode(*step) for step in steps]
    # Format 2 has one compressor at most. Which codec of the chain it is has no effect on the bytes.
    compressor = filters.pop() if steps else None
    return Chain(filters or None, compressor, endian, order)


def _decode_first(steps: list[tuple[str, dict[str, Any]]], ndim: int) -> tuple[Order, list[dict[str, Any]]]:
    """Return the order and the filters of the codecs that work on numbers, which are removed from ``steps``."""
    permutation, filters = list(range(ndim)), list[dict[str, Any]]()
    to_bytes = next((step for step in steps if step[0] in _TO_BYTES), None)
    while steps:
        name = steps[0][0]
        is_on_numbers = name == "transpose" or name.removeprefix(_PREFIX) in _ON_NUMBERS
        if not is_on_numbers and not (name.startswith(_PREFIX) and to_bytes in steps[1:]):
            break  # it neither works on numbers nor is a plug-in before the step that makes bytes
        name, configuration = steps.pop(0)
        if name == "transpose":
            stated = configuration.get("order")
            if stated in ("C", "F"):  # in drafts of the specification
                stated = axes_in_order(stated, ndim)
            if not isinstance(stated, list) or {*map(type, stated)} - {int} or sorted(stated) != list(range(ndim)):
                raise MetadataError(f"the transposition {stated!r} is not an order of {ndim} axes", remedy=_REMEDY)
            permutation = [permutation[axis] for axis in stated]
        else:
            filters.append(_decode(name, configuration))
    return order_of(permutation), filters


def _parts(codec: Any) -> tuple[str, dict[str, Any]]:
    if isinstance(codec, str):
        return codec, {}
    name, configuration = codec.get("name"), codec.get("configuration") or {}
    if not isinstance(name, str) or not isinstance(configuration, dict):
        raise MetadataError(f"the codec {codec!r} has no name", remedy=_REMEDY)
    return name, configuration


def axes_in_order(order: Order, axes: int) -> list[int]:
    """Return the first ``axes`` axes of an array in the order in which a chunk has them."""
    if isinstance(order, tuple):
        return [axis for axis in order if axis < axes]
    return list(range(axes))[::-1] if order == "F" else list(range(axes))


def order_of(permutation: list[int]) -> Order:
    """Return the order of chunks that have the axes in the order of ``permutation``."""
    # "C" and "F" are the orders that format 2 has a letter for.
    usual = sorted(permutation)
    if permutation == usual:
        return "C"
    return "F" if permutation == usual[::-1] else tuple(permutation)


def _decode(name: str, configuration: dict[str, Any]) -> dict[str, Any]:
    if name == "blosc":
        shuffle = configuration.get("shuffle", "noshuffle")
        if shuffle not in _SHUFFLE_NUMBERS:
            raise MetadataError(f"Blosc does not have the shuffle {shuffle!r}", remedy=_REMEDY)
        kept: dict[str, Any] = {key: configuration[key] for key in ("cname", "clevel") if key in configuration}
        number, blocksize = _SHUFFLE_NUMBERS[shuffle], configuration.get("blocksize", 0)
        return {"id": "blosc", **kept, "shuffle": number, "blocksize": blocksize}
    if name in ("gzip", "zstd"):
        checksum = {"checksum": True} if name == "zstd" and configuration.get("checksum") else {}
        return {"id": name, "level": configuration.get("level", int(name == "gzip")), **checksum}
    if name == "crc32c":
        return {"id": "crc32c", "location": "end"}
    if not name.startswith(_PREFIX):
        raise _refused(name)
    return {"id": name.removeprefix(_PREFIX), **configuration}


def _refused(name: str) -> MetadataError:
    """Return the error for a codec that is unknown, or in the wrong position."""
    if name in _DECODED or name.startswith(_PREFIX):
        return MetadataError(f"the codec {name!r} is in a position that is not supported", remedy=_REMEDY)
    return MissingCodecError(f"the codec {name!r} is not one that this package decodes", remedy=_REMEDY)


def is_chunk_shape(value: Any, axes: int) -> TypeGuard[list[int]]:
    """Tell whether a JSON value is a shape of chunks: a positive length for each axis."""
    return isinstance(value, list) and len(value) == axes and all(type(n) is int and n > 0 for n in value)


def _decode_sharded(configuration: dict[str, Any], ndim: int) -> Chain:
    chunks, inner = configuration.get("chunk_shape"), configuration.get("codecs")
    if not is_chunk_shape(chunks, ndim) or not isinstance(inner, list):
        raise MetadataError(f"the shards {configuration!r} have no chunks", remedy=_REMEDY)
    index = [_parts(codec) for codec in configuration.get("index_codecs", [{"name": "bytes"}, {"name": "crc32c"}])]
    names = [name for name, _ in index]
    # The specification allows any codecs of a fixed size here.
    if names not in (["bytes"], ["bytes", "crc32c"]) or index[0][1].get("endian", "little") != "little":
        raise MetadataError(f"an index of shards stored with {names!r} is not supported", remedy=_REMEDY)
    location = configuration.get("index_location", "end")
    chain = decode_codecs(inner, ndim)
    if chain.shards is not None:
        raise MetadataError("shards inside shards are not supported", remedy=_REMEDY)
    if location not in ("start", "end"):
        raise MetadataError(f"the index of a shard cannot be at the position {location!r}", remedy=_REMEDY)
    shards = Shards((), index_at_end=location == "end", checksum=len(names) == 2)
    return Chain(chain.filters, chain.compressor, chain.endian, chain.order, tuple(chunks), shards)


def encode_sharded(chunks: tuple[int, ...], codecs: list[dict[str, Any]], shards: Shards) -> list[dict[str, Any]]:
    """Return the codecs of an array whose chunks, stored with ``codecs``, lie together in shards."""
    checksum = [{"name": "crc32c"}] if shards.checksum else []
    configuration = {
        "chunk_shape": list(chunks),
        "codecs": codecs,
        "index_codecs": [{"name": "bytes", "configuration": {"endian": "little"}}, *checksum],
        "index_location": "end" if shards.index_at_end else "start",
    }
    return [{"name": "sharding_indexed", "configuration": configuration}]


def field_types(fields: list[Any]) -> list[Any]:
    """Return the format-2 data type of the rows that the filter ``struct`` makes of ``fields``."""
    return [[name, data_type] for name, data_type, _ in fields]


def codec_of_file(codec: Any) -> Any:
    """Return the compression for a file."""
    if isinstance(codec, str) and codec == "keep":
        return codec
    config = compressor_config(codec, ("keep", *CODECS))
    if isinstance(config, dict):
        from hdmf_zarr_backend.encoding.chunk_codec import check_given  # on use: it imports numcodecs

        check_given(StoredArray((1,), (1,), "|u1", compressor=config))
    return config


def compressor_config(codec: Any, names: Iterable[str] = CODECS) -> Any:
    """Return the compression for a dataset."""
    if isinstance(codec, bool):
        return codec
    if isinstance(codec, str):
        if codec not in CODECS:
            remedy = f"Use {', '.join(map(repr, names))}, or a codec of numcodecs or zarr."
            if codec == "gzip":
                remedy = "Use 'zlib', which is the gzip of HDF5; numcodecs.Zlib(4) has a level."
            raise UsageError(f"there is no codec with the name {codec!r}", remedy=remedy)
        return CODECS[codec]
    return codec_config(codec)


def codec_config(codec: Any) -> dict[str, Any]:
    """Return the configuration of a codec object of numcodecs or zarr, or of a configuration of either."""
    config = codec.get_config() if hasattr(codec, "get_config") else codec
    if not isinstance(config, dict) and hasattr(config, "to_dict"):
        config = config.to_dict()
    if isinstance(config, dict) and "id" not in config and "name" in config:
        try:
            config = _decode(*_parts(config))
        except MetadataError as error:
            remedy = "Give a compressor or a filter; the codecs that make bytes and shards are not given here."
            raise UsageError(error.problem, remedy=remedy) from error
        if config["id"] == "blosc" and "shuffle" in getattr(codec, "_tunable_attrs", ()):
            config["shuffle"] = 1  # not the choice of the user: zarr-python makes it when it knows the data type
    if not isinstance(config, dict) or "id" not in config:
        remedy = "Give a codec of numcodecs or zarr, or its configuration, a dict with 'id' or 'name'."
        raise UsageError(f"{codec!r} is not a codec", remedy=remedy)
    # zarr-python 3 drops the key, and TensorStore refuses arrays with it
    return {key: value for key, value in config.items() if not (config["id"] == "zstd" and key == "checksum")}


def pipeline_of_zarr3(filters: Any, compressors: Any, serializer: Any) -> tuple[list[Any] | None, Any]:
    """Return the filters and the compressor for the arguments by which hdmf-zarr 0.14 describes a pipeline."""
    # hdmf-zarr 0.14 has these arguments since its pull request 369.
    stated = serializer.to_dict() if hasattr(serializer, "to_dict") else {}
    endian = stated.get("configuration", {}).get("endian")
    if serializer is not None and (stated.get("name"), endian) not in (("bytes", None), ("bytes", "little")):
        problem = f"the serializer {serializer!r} is not accepted: text and byte order depend on the data"
        raise UsageError(problem, remedy="Leave serializer out; give data of the type to store.")
    steps = list(filters or ())
    if compressors is None or isinstance(compressors, bool):
        return steps or None, compressors
    listed = compressors if isinstance(compressors, (list, tuple)) else [compressors]
    if not listed:
        return steps or None, False
    return [*steps, *listed[:-1]] or None, listed[-1]
