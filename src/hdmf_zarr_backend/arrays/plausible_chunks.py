"""What the first bytes of a stored chunk tell of it: a chunk that is copied as it is is not decoded to be checked.

A chunk that was cut short, is empty or is something else is found; a bit that flipped is not.

Source: c-blosc, README_CHUNK_FORMAT (bytes 4 to 16); RFC 1950, section 2.2; RFC 1952, section 2.3.1; RFC 8878,
section 3.1.1; bzip2's signature; numcodecs for the length before an LZ4 block.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from hdmf_zarr_backend.arrays.codecs import numpy_dtype
from hdmf_zarr_backend.errors import ChunkError
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes

_BLOSC_HEADER = 16
_CHECKSUM = 4


def check_plausible(node: ArrayNode[Attributes], name: str, data: bytes) -> None:
    """Make sure that ``data`` may be the chunk ``name`` of ``node``.

    Raises
    ------
    ChunkError
        It cannot be; the chunk is named, file and array are for the caller to add.
    """
    configs = [*(node.filters or []), *([node.compressor] if node.compressor else [])]
    identity = str(configs[-1].get("id")) if configs else ""
    check = _CHECKS.get(identity)
    if not data or (check is not None and not check(data, _nbytes(node, configs))):
        raise ChunkError(
            f"the chunk {name!r} does not decode: it is empty, cut short, or no {identity or 'plain'} chunk",
            remedy="Restore it from a copy; `zarrio verify` lists all such chunks.",
        )


def _nbytes(node: ArrayNode[Attributes], configs: list[dict[str, Any]]) -> int | None:
    """Return the bytes that the last codec was given, None where other codecs before it change the number."""
    dtype = numpy_dtype(node.data_type)
    if dtype.hasobject or any(config.get("id") != "shuffle" for config in configs[:-1]):
        return None
    return math.prod(node.chunks) * dtype.itemsize


def _is_plain(data: bytes, nbytes: int | None) -> bool:
    return nbytes is None or len(data) == nbytes


def _is_blosc(data: bytes, nbytes: int | None) -> bool:
    if len(data) < _BLOSC_HEADER:
        return False
    decoded, stored = int.from_bytes(data[4:8], "little"), int.from_bytes(data[12:16], "little")
    return stored == len(data) and nbytes in (None, decoded)


def _is_lz4(data: bytes, nbytes: int | None) -> bool:
    return len(data) > 4 and nbytes in (None, int.from_bytes(data[:4], "little"))


def _is_zlib(data: bytes, nbytes: int | None) -> bool:
    return len(data) > 2 + _CHECKSUM and data[0] & 0x0F == 8 and int.from_bytes(data[:2], "big") % 31 == 0


def _is_gzip(data: bytes, nbytes: int | None) -> bool:
    if data[:2] != b"\x1f\x8b":
        return False
    return nbytes is None or nbytes >= 2**32 or int.from_bytes(data[-4:], "little") == nbytes


def _has_checksum(data: bytes, nbytes: int | None) -> bool:
    return nbytes is None or len(data) == nbytes + _CHECKSUM


_CHECKS: dict[str, Callable[[bytes, int | None], bool]] = {
    "": _is_plain,
    "shuffle": _is_plain,
    "blosc": _is_blosc,
    "lz4": _is_lz4,
    "zlib": _is_zlib,
    "gzip": _is_gzip,
    "bz2": lambda data, nbytes: data[:3] == b"BZh",
    "zstd": lambda data, nbytes: data[:4] == b"\x28\xb5\x2f\xfd",
    "fletcher32": _has_checksum,
    "crc32": _has_checksum,
    "adler32": _has_checksum,
}
