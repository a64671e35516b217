"""Single blocks of a Blosc chunk, decoded without the others.

Blosc compresses a chunk in independent blocks and records where each begins. A few blocks under a header of their own
are a valid Blosc frame, which any decoder accepts. So reading a row of a 2 MiB chunk costs one block, an eighth of the
chunk or less.

Source: c-blosc, README_CHUNK_FORMAT.rst (format 2).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numcodecs
import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.store.base import OpenValue

Bytes: TypeAlias = npt.NDArray[np.uint8]
Decode: TypeAlias = "Callable[[bytearray, Bytes | None], Bytes]"

# Format, format of the codec, flags, size of an element; then the bytes of all blocks, of one, and in the file.
_HEADER = struct.Struct("<BBBBIII")
# c-blosc 1 writes format 2. c-blosc 2 has formats of its own, with longer headers.
_FORMAT = 2
_NOT_COMPRESSED = 0x02  # among the flags; such a frame has no blocks
# What is read first of a chunk in a file: its header, and the starts of as many blocks as most chunks have.
_HEAD_BYTES = 512
_BLOCKS_IN_MEMORY = 4  # c-blosc has three at a time
_LARGEST_BLOCK = 2 * 2**20  # that c-blosc chooses itself
_STATE_BYTES = 2**20  # of the codecs inside


class Blosc(numcodecs.Blosc):  # type: ignore[misc]
    """The codec ``blosc``, with a MemoryError where there is no memory for its blocks: c-blosc crashes the process."""

    def encode(self, buf: Any) -> Any:
        """Return ``buf`` as a frame."""
        _check_memory(self.blocksize or (buf.nbytes if isinstance(buf, np.ndarray) else len(buf)))
        return super().encode(buf)

    def decode(self, buf: Any, out: Any = None) -> Any:
        """Return the bytes of a frame, in ``out`` unless that is None."""
        raw = np.ravel(buf, order="A").view(np.uint8) if isinstance(buf, np.ndarray) else buf
        head = bytes(raw[: _HEADER.size])
        if len(head) == _HEADER.size:  # a failed malloc in c-blosc 1 is not checked, and the process ends
            *_, decoded, length, _ = _HEADER.unpack(head)
            _check_memory(min(decoded, length))
        return super().decode(buf, out)


def _check_memory(block: int) -> None:
    np.empty(_BLOCKS_IN_MEMORY * min(block, _LARGEST_BLOCK) + _STATE_BYTES, np.uint8)


def stated_bytes(data: bytes) -> tuple[int, int] | None:
    """Return the decoded and the stored bytes that the header of a chunk states, None if it is too short for one."""
    if len(data) < _HEADER.size:
        return None
    *_, decoded, _, stored = _HEADER.unpack_from(data)
    return decoded, stored


class DecodedRange(NamedTuple):
    """Decoded bytes of a chunk, which begin at ``start``."""

    start: int
    data: Bytes

    @property
    def nbytes(self) -> int:
        """Bytes of memory that they take."""
        return self.data.nbytes

    def copy_to(self, out: Bytes, start: int) -> bool:
        """Copy what is here to ``out``, bytes of the chunk that begin at ``start``; return whether that is all."""
        low, high = max(start, self.start), min(start + out.size, self.start + self.nbytes)
        if low < high:
            out[low - start : high - start] = self.data[low - self.start : high - self.start]
        return high - low == out.size


class BloscBlocks:
    """The blocks of one frame; from `find_blocks`. Decoded, a block has ``length`` bytes, or less at the end."""

    def __init__(self, stored: OpenValue | bytes, head: bytearray, starts: list[int]) -> None:
        *_, self.nbytes, self.length, size = _HEADER.unpack_from(head)
        self._stored = stored
        self._kind = head[:4]
        self._starts = starts
        order = sorted(starts)  # threads write the blocks in any order
        self._ends = dict(zip(order, [*order[1:], size], strict=True))

    def __len__(self) -> int:
        return len(self._starts)

    def read_into(self, out: Bytes, start: int, decode: Decode) -> DecodedRange | None:
        """Fill ``out`` with the bytes of the chunk that begin at ``start``; return blocks that reach beyond it."""
        stop, beyond = start + out.size, None
        first, last = -(-start // self.length), len(self) if stop == self.nbytes else stop // self.length
        if first < last and not self._is_short(first):  # complete blocks are decoded where they are needed
            target = out[first * self.length - start : min(last * self.length, stop) - start]
            decoded = decode(self._frame(first, last), target)
            if not np.may_share_memory(decoded, target):
                target[:] = decoded
        else:
            first = last = start // self.length
        for low, high in ((start // self.length, first), (last, -(-stop // self.length))):
            if low < high:
                begin = low - self._is_short(low)
                beyond = DecodedRange(begin * self.length, decode(self._frame(begin, high), None))
                beyond.copy_to(out, start)
        return beyond

    def _is_short(self, number: int) -> bool:
        """Tell whether a block is the last one and short, so that a frame needs the one before it, too."""
        return number + 1 == len(self) > 1 and self.nbytes % self.length > 0

    def _frame(self, first: int, stop: int) -> bytearray:
        wanted = sorted(self._starts[first:stop])
        position = _HEADER.size + 4 * len(wanted)
        moved: dict[int, int] = {}
        runs: list[tuple[int, int]] = []  # blocks that lie next to each other are read together
        for start in wanted:
            moved[start] = position
            position += self._ends[start] - start
            low = runs.pop()[0] if runs and runs[-1][1] == start else start
            runs.append((low, self._ends[start]))
        nbytes = min(stop * self.length, self.nbytes) - first * self.length
        frame = bytearray(position)
        _HEADER.pack_into(frame, 0, *self._kind, nbytes, self.length, position)
        struct.pack_into(f"<{len(wanted)}i", frame, _HEADER.size, *(moved[start] for start in self._starts[first:stop]))
        with memoryview(frame) as room:
            for low, high in runs:
                _read_into(self._stored, low, room[moved[low] : moved[low] + high - low])
        return frame


def find_blocks(stored: OpenValue | bytes, nbytes: int) -> BloscBlocks | None:
    """Return the blocks of a chunk of ``nbytes`` decoded bytes; None if it has one block, or an unknown layout."""
    stored_bytes = len(stored) if isinstance(stored, bytes) else stored.size
    if stored_bytes < _HEADER.size:
        return None
    head = bytearray(min(stored_bytes, _HEAD_BYTES))
    _read_into(stored, 0, memoryview(head))
    version, _, flags, _, total, length, size = _HEADER.unpack_from(head)
    is_own = (version, total, size) == (_FORMAT, nbytes, stored_bytes) and not flags & _NOT_COMPRESSED
    count = -(-total // length) if is_own and 0 < length < total else 0
    end = _HEADER.size + 4 * count
    if not count or end >= stored_bytes:
        return None
    if end > len(head):
        head = bytearray(end)
        _read_into(stored, 0, memoryview(head))
    starts = np.frombuffer(head, "<i4", count, _HEADER.size).tolist()
    if min(starts) < end or max(starts) >= stored_bytes or len(set(starts)) != count:
        return None
    return BloscBlocks(stored, head, starts)


def _read_into(stored: OpenValue | bytes, start: int, out: memoryview) -> None:
    if isinstance(stored, bytes):
        out[:] = memoryview(stored)[start : start + len(out)]
    else:
        stored.read_into(start, out)
