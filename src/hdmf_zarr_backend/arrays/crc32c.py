"""`CRC32C`: the codec ``crc32c``, a checksum of four bytes after the data or before them.

numcodecs has this codec only from 0.16.4, and only beside ``google_crc32c``, which zarr-python 3 installs. Without
that library the checksum is computed here.

Source: RFC 3720, appendix B.4; Zarr v3 specification, codec ``crc32c``.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

try:
    from google_crc32c import value as _checksum
except ImportError:
    _checksum = None

_POLYNOMIAL = 0x82F63B78  # reversed
_SIZE = 4


def _entry(byte: int) -> int:
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(map(_entry, range(256)))


def checksum(data: bytes) -> int:
    """Return the CRC32C of ``data``."""
    if _checksum is not None:
        return int(_checksum(data))
    state = 0xFFFFFFFF
    for byte in data:
        state = state >> 8 ^ _TABLE[(state ^ byte) & 0xFF]
    return state ^ 0xFFFFFFFF


class CRC32C:
    """A checksum of four bytes, little-endian."""

    codec_id = "crc32c"

    def __init__(self, location: str = "end") -> None:
        if location not in ("end", "start"):
            raise ValueError(f"the location of a checksum is 'start' or 'end', not {location!r}")
        self.location = location

    def get_config(self) -> dict[str, str]:
        """Return the configuration, as codecs of numcodecs do."""
        return {"id": self.codec_id, "location": self.location}

    def encode(self, buf: Any) -> bytes:
        """Return the bytes of ``buf`` with their checksum."""
        data = np.ascontiguousarray(buf).tobytes() if isinstance(buf, np.ndarray) else bytes(buf)
        stored = struct.pack("<I", checksum(data))
        return data + stored if self.location == "end" else stored + data

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the bytes of ``buf`` without their checksum."""
        data = memoryview(buf).tobytes()
        if len(data) < _SIZE:
            raise ValueError(f"{len(data)} bytes are too few for a checksum")
        is_end = self.location == "end"
        plain, stored = (data[:-_SIZE], data[-_SIZE:]) if is_end else (data[_SIZE:], data[:_SIZE])
        (expected,) = struct.unpack("<I", stored)
        if checksum(plain) != expected:
            raise ValueError(f"the CRC32C is {checksum(plain)} and should be {expected}")
        return plain
