"""`decode_bounded`: decodes with a limit on the output, so that a few thousand bytes cannot become gigabytes.

The headers of Blosc, LZ4 and Zstandard state the decoded length, which is checked before memory is allocated. zlib,
gzip, bzip2 and LZMA do not; they decode incrementally and stop at the limit.

Separate from `codecs`, because it only handles the formats of compressed bytes, not arrays.

Source: c-blosc, README_CHUNK_FORMAT; numcodecs for the length before an LZ4 block; RFC 8878, section
3.1.1, for frames and blocks of Zstandard; the standard library's incremental decompressors for the others.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.blosc_blocks import stated_bytes

SPREAD = 16
"""Values between two filters take at most this many times the bytes of the chunk (bits of `packbits`, casts)."""

_SLACK = 2**16
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE = range(0x184D2A50, 0x184D2A60)
_ZSTD_BLOCK = 2**17
_LZMA_MEMORY = 2**28
_BLOSC_MOST = 2**31 - 1 - 16  # without the header


class TooLargeError(ValueError):
    """The output is larger than the limit."""


def _too_large(most: int) -> TooLargeError:
    return TooLargeError(f"it would become more than {most:,} bytes")


def _within(found: bytes, most: int) -> bytes:
    """Return decoded bytes if they are at most ``most``."""
    if len(found) > most:
        raise _too_large(most)
    return found


def between_filters(nbytes: int) -> int:
    """Return the most bytes that one filter may pass to the next, for a chunk of ``nbytes``."""
    return SPREAD * nbytes + _SLACK


def decode_bounded(codec: Any, data: Any, most: int) -> Any:
    """Return ``data`` decoded by ``codec``, to ``most`` bytes at most."""
    kind = getattr(codec, "codec_id", "")
    incremental = _INCREMENTAL.get(kind)
    if incremental is not None:
        return incremental(codec, _bytes(data), most)
    if kind in _STATED:
        stated, most_per_byte = _STATED[kind]
        raw = _bytes(data)
        length = stated(raw)
        if length > most_per_byte * len(raw):  # damage: no limit that a caller raises makes this decode
            raise ValueError(f"it states {length:,} bytes, which {len(raw):,} bytes cannot become")
        if length > most:
            raise _too_large(most)
    return codec.decode(data)


def check_stated(codec: Any, data: bytes, most: int) -> None:
    """Make sure that the output fits into ``most`` bytes, and that no decoder reads beyond the end of ``data``."""
    if codec.codec_id == "zstd" and zstd_bound(data) > most + _ZSTD_BLOCK:
        raise _too_large(most)
    if codec.codec_id == "blosc":
        _blosc(data)


def is_incremental(codec: Any) -> bool:
    """Return whether a codec decodes to memory of its own before it copies to ``out``."""
    return getattr(codec, "codec_id", "") in _INCREMENTAL


def _bytes(data: Any) -> bytes:
    return data if type(data) is bytes else memoryview(data).cast("B").tobytes()


# ---- codecs that state the decoded length ---------------------------------------------------------------------------


def _blosc(data: bytes) -> int:
    # the library trusts the lengths in the header, and would read memory beyond the chunk
    stated = stated_bytes(data)
    if stated is None or stated[1] > len(data):
        raise ValueError("it is cut short")
    if stated[0] > _BLOSC_MOST:
        raise ValueError("it states a length that Blosc cannot have")
    return stated[0]


def zstd_bound(data: bytes) -> int:
    """Return the most bytes that Zstandard frames can decode to; 0 if ``data`` is not a Zstandard frame.

    A frame that does not state its length is bounded by the number of its blocks.
    """
    total = position = 0
    while position + 4 <= len(data):
        magic = int.from_bytes(data[position : position + 4], "little")
        if magic in _ZSTD_SKIPPABLE:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        if magic != _ZSTD_MAGIC or position + 5 > len(data):
            break
        size, position, checksum = _zstd_header(data, position + 4)
        if size is not None and not total:
            return size  # the decoder uses the length of the first frame for all frames
        blocks, position = _zstd_blocks(data, position)
        total += blocks * _ZSTD_BLOCK
        position += checksum
    return total


def _zstd_header(data: bytes, position: int) -> tuple[int | None, int, int]:
    """Return the length that a frame states, where its blocks begin, and the bytes of its checksum."""
    descriptor = data[position]
    single, dictionary = descriptor >> 5 & 1, (0, 1, 2, 4)[descriptor & 3]
    width = (single, 2, 4, 8)[descriptor >> 6]
    position += 1 + (0 if single else 1) + dictionary
    stated = int.from_bytes(data[position : position + width], "little") + (256 if width == 2 else 0)
    return stated if width else None, position + width, 4 if descriptor & 4 else 0


def _zstd_blocks(data: bytes, position: int) -> tuple[int, int]:
    count, last = 0, False
    while not last and position + 3 <= len(data):
        header = int.from_bytes(data[position : position + 3], "little")
        last = bool(header & 1)
        position += 3 + (1 if header >> 1 & 3 == 1 else header >> 3)
        count += 1
    return count, position


#: How each codec states the decoded length, and the most bytes that one stored byte can decode to. A byte of an LZ4
#: block adds at most 255; Zstandard, which Blosc can hold, needs four bytes for a block of 128 KiB.
_STATED: dict[str, tuple[Callable[[bytes], int], int]] = {
    "blosc": (_blosc, _ZSTD_BLOCK // 4),
    "lz4": (lambda data: int.from_bytes(data[:4], "little"), 255),
    "zstd": (zstd_bound, _ZSTD_BLOCK // 4),
}

# ---- codecs that stop at a limit ------------------------------------------------------------------------------------


def _zlib(codec: Any, data: bytes, most: int) -> bytes:
    machine = zlib.decompressobj()
    found = _within(machine.decompress(data, most + 1), most)
    if not machine.eof:
        raise ValueError("it is cut short")
    return found


def _gzip(codec: Any, data: bytes, most: int) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data), mode="rb") as file:
        return _within(file.read(most + 1), most)


def _in_turn(make: Callable[[], Any], data: bytes, most: int) -> bytes:
    """Decode consecutive streams, as the standard library's ``decompress`` does."""
    parts: list[bytes] = []
    left = most
    while data:
        machine = make()
        part = machine.decompress(data, left + 1)
        left -= len(part)
        if left < 0:
            raise _too_large(most)
        if not machine.eof:
            raise ValueError("it is cut short")
        parts.append(part)
        data = machine.unused_data
    return b"".join(parts)


def _lzma(codec: Any, data: bytes, most: int) -> bytes:
    if codec.format == lzma.FORMAT_RAW:
        machine = lzma.LZMADecompressor(format=codec.format, filters=codec.filters)
        return _within(machine.decompress(data, most + 1), most)
    return _in_turn(lambda: lzma.LZMADecompressor(format=codec.format, memlimit=_LZMA_MEMORY), data, most)


def _msgpack(codec: Any, data: bytes, most: int) -> Any:
    """Return objects, after checking the type and the shape that follow them in ``data``."""
    from numcodecs import msgpacks

    items = msgpacks.msgpack.unpackb(data, raw=codec.raw)
    shape = items[-1]
    if not isinstance(shape, list) or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError(f"{shape!r} is not a shape")
    rows = items[:-2]
    if math.prod(shape) > most or (shape and shape[0] != len(rows)) or np.dtype(items[-2]) != object:
        raise ValueError(f"{len(rows)} objects do not fill the shape {shape}")
    found = np.empty(shape, dtype=object)
    found[:] = rows
    return found


_INCREMENTAL: dict[str, Callable[[Any, bytes, int], Any]] = {
    "zlib": _zlib,
    "gzip": _gzip,
    "bz2": lambda codec, data, most: _in_turn(bz2.BZ2Decompressor, data, most),
    "lzma": _lzma,
    "msgpack2": _msgpack,
}
