"""Codecs of zarr 3, which hdmf-zarr 0.14 takes -> a compressor and filters in our words.

Source: hdmf-zarr 0.14.0, ``ZarrDataIO``; zarr-python 3, ``zarr.codecs`` and ``zarr.codecs.numcodecs``, and what their
codecs say of themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.mapping.codecs3 import decode_codecs

_BYTES = {"name": "bytes", "configuration": {"endian": "little"}}


def pipeline_of_zarr3(filters: Any, compressors: Any, serializer: Any) -> tuple[list[Any] | None, Any]:
    """Return the arguments ``filters`` and ``compressor`` of our ZarrDataIO.

    Parameters
    ----------
    filters : sequence of codecs, optional
        What changes the array: codecs of zarr 3 or of numcodecs.
    compressors : codec, sequence of codecs or bool, optional
        What changes the bytes: the last one is the compressor, those before it are filters. False: none; True and None:
        the default.
    serializer : codec, optional
        What makes bytes of the array: ``BytesCodec``, little-endian, which is what is done anyway.

    Raises
    ------
    UsageError
        A codec that this package does not have, or another serializer.
    """
    if serializer is not None and _named(serializer) not in ("bytes", "bytes (little)"):
        raise UsageError(
            f"the serializer {serializer!r} is not taken: text, references and the order of bytes follow from the data",
            remedy="Leave serializer out; give data of the type that is to be stored.",
        )
    steps = [_config(codec, is_filter=True) for codec in filters or ()]
    if compressors is None or isinstance(compressors, bool):
        return steps or None, compressors
    listed = compressors if isinstance(compressors, Sequence) else [compressors]
    steps += [_config(codec, is_filter=False) for codec in listed]
    if not listed:
        return steps or None, False
    return steps[:-1] or None, steps[-1]


def _named(serializer: Any) -> str:
    document = serializer.to_dict()
    endian = document.get("configuration", {}).get("endian")
    return str(document["name"]) if endian is None else f"{document['name']} ({endian})"


def _config(codec: Any, *, is_filter: bool) -> Any:
    """Return a codec of numcodecs as it is, and the configuration of one of zarr 3."""
    if hasattr(codec, "get_config") or not hasattr(codec, "to_dict"):
        return codec
    document = codec.to_dict()
    if document["name"] == "blosc" and "shuffle" in getattr(codec, "_tunable_attrs", ()):
        document["configuration"]["shuffle"] = "shuffle"  # zarr would choose it by the data type
    try:
        chain = decode_codecs([document, _BYTES] if is_filter else [_BYTES, document], 1)
    except MetadataError as error:
        raise UsageError(
            f"{codec!r} is not taken ({error.problem})", remedy="Give a codec of numcodecs or of zarr.codecs.numcodecs."
        ) from error
    if not is_filter:
        return chain.compressor
    if not chain.filters:
        raise UsageError(f"{codec!r} is not taken", remedy="Chunks are stored in C order; leave it out.")
    return chain.filters[0]
