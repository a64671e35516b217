"""Codecs of zarr 3, which hdmf-zarr 0.14 takes -> a compressor and filters in our words.

Source: hdmf-zarr 0.14.0, ``ZarrDataIO``; zarr-python 3, ``zarr.codecs`` and ``zarr.codecs.numcodecs``, and what their
codecs say of themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hdmf_zarr_backend.errors import UsageError


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
        Another serializer.
    """
    if serializer is not None and _named(serializer) not in ("bytes", "bytes (little)"):
        raise UsageError(
            f"the serializer {serializer!r} is not taken: text, references and the order of bytes follow from the data",
            remedy="Leave serializer out; give data of the type that is to be stored.",
        )
    steps = list(filters or ())
    if compressors is None or isinstance(compressors, bool):
        return steps or None, compressors
    listed = compressors if isinstance(compressors, Sequence) else [compressors]
    if not listed:
        return steps or None, False
    return [*steps, *listed[:-1]] or None, listed[-1]


def _named(serializer: Any) -> str:
    document = serializer.to_dict()
    endian = document.get("configuration", {}).get("endian")
    return str(document["name"]) if endian is None else f"{document['name']} ({endian})"
