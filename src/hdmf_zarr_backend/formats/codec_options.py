"""Codecs as users give them -> their configurations.

Separate from `dataio`, so that a conversion does not import hdmf, which is slow.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.formats.zarr3_codecs import decode_codec

CODECS: dict[str, Any] = {
    "blosc": True,
    "zstd": {"id": "zstd", "level": 3},
    "zlib": {"id": "zlib", "level": 4},
    "none": False,
}
"""Compressors by name; True is the default."""


def codec_of_file(codec: Any) -> Any:
    """Return the compression for a file."""
    return codec if isinstance(codec, str) and codec == "keep" else compressor_config(codec, ("keep", *CODECS))


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
            config = decode_codec(config)
        except MetadataError as error:
            remedy = "Give a compressor or a filter; the codecs that make bytes and shards are not given here."
            raise UsageError(error.problem, remedy=remedy) from error
        if config["id"] == "blosc" and "shuffle" in getattr(codec, "_tunable_attrs", ()):
            config["shuffle"] = 1  # not chosen by the user; zarr chooses it when it knows the data type
    if not isinstance(config, dict) or "id" not in config:
        remedy = "Give a codec of numcodecs or zarr, or its configuration, a dict with 'id' or 'name'."
        raise UsageError(f"{codec!r} is not a codec", remedy=remedy)
    # zarr-python 3 drops the key, and TensorStore refuses arrays with it
    return {key: value for key, value in config.items() if not (config["id"] == "zstd" and key == "checksum")}


def pipeline_of_zarr3(filters: Any, compressors: Any, serializer: Any) -> tuple[list[Any] | None, Any]:
    """Return the filters and the compressor for the arguments by which hdmf-zarr 0.14 describes a pipeline."""
    if serializer is not None and _named(serializer) not in ("bytes", "bytes (little)"):
        problem = f"the serializer {serializer!r} is not accepted: text and byte order depend on the data"
        raise UsageError(problem, remedy="Leave serializer out; give data of the type to store.")
    steps = list(filters or ())
    if compressors is None or isinstance(compressors, bool):
        return steps or None, compressors
    listed = compressors if isinstance(compressors, (list, tuple)) else [compressors]
    if not listed:
        return steps or None, False
    return [*steps, *listed[:-1]] or None, listed[-1]


def _named(serializer: Any) -> str:
    document: dict[str, Any] = serializer.to_dict() if hasattr(serializer, "to_dict") else {"name": None}
    endian = document.get("configuration", {}).get("endian")
    return str(document["name"]) if endian is None else f"{document['name']} ({endian})"
