"""Single blocks of a Blosc chunk, decoded without the others.

Blosc compresses a chunk in independent blocks and records where each begins. A few blocks under a header of their own
are a valid Blosc frame, which any decoder accepts. So reading a row of a 2 MiB chunk costs one block, an eighth of the
chunk or less.

Source: c-blosc, README_CHUNK_FORMAT.rst (format 2).
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

import numcodecs
import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ChunkError
from hdmf_zarr_backend.store.base import OpenValue

Bytes: TypeAlias = npt.NDArray[np.uint8]
Blocks: TypeAlias = "Callable[[], BloscBlocks | None]"
Decode: TypeAlias = "Callable[[Bytes, Bytes | None], Bytes]"

# Format, format of the codec, flags, size of an element; then the bytes of all blocks, of one, and in the file.
_HEADER = struct.Struct("<BBBBIII")
# c-blosc 1 writes format 2. c-blosc 2 has formats of its own, with longer headers.
_FORMAT = 2
_NOT_COMPRESSED = 0x02  # among the flags; such a frame has no blocks
# What is read first of a chunk in a file: its header, and the starts of as many blocks as most chunks have.
_HEAD_BYTES = 512
_SCRATCH_BYTES = 4 * 2**20
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
        # A failed malloc in c-blosc 1 is not checked, and the process ends.
        if len(head) == _HEADER.size:
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


class _BytesValue:
    """Stored bytes that are in memory, with the interface of an open value."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data = memoryview(data)

    def read_into(self, start: int, out: memoryview) -> None:
        """Fill ``out`` with the bytes that begin at ``start``."""
        out[:] = self._data[start : start + len(out)]


class _Scratch(threading.local):
    """Reused memory of a thread for stored bytes: to allocate it again costs as much as to read into it."""

    _memory = np.empty(0, np.uint8)

    def take(self, size: int) -> Bytes:
        """Return ``size`` bytes, which the next call in this thread reuses."""
        if size > _SCRATCH_BYTES:
            return np.empty(size, np.uint8)
        if size > self._memory.size:
            self._memory = np.empty(size, np.uint8)
        return self._memory[:size]


_SCRATCH = _Scratch()


class BloscBlocks:
    """The blocks of one frame; from `find_blocks`. Decoded, a block has ``length`` bytes, or less at the end."""

    def __init__(self, value: OpenValue | _BytesValue, head: bytes, starts: list[int]) -> None:
        *_, self.nbytes, self.length, stored = _HEADER.unpack_from(head)
        self._value = value
        self._kind = head[:4]
        self._starts = starts
        order = sorted(starts)  # threads write the blocks in any order
        self._ends = dict(zip(order, [*order[1:], stored], strict=True))

    def __len__(self) -> int:
        return len(self._starts)

    def frame(self, first: int, stop: int) -> Bytes:
        """Return blocks as a frame, in memory that the next one reuses; never the short last block alone."""
        wanted = sorted(self._starts[first:stop])
        head = _HEADER.size + 4 * len(wanted)
        size = head + sum(self._ends[start] - start for start in wanted)
        frame = _SCRATCH.take(size)
        data, position = frame.data, head
        moved: dict[int, int] = {}
        # Blocks that lie next to each other are read together.
        runs: list[tuple[int, int]] = []
        for start in wanted:
            moved[start] = position
            position += self._ends[start] - start
            low = runs.pop()[0] if runs and runs[-1][1] == start else start
            runs.append((low, self._ends[start]))
        for low, high in runs:
            self._value.read_into(low, data[moved[low] : moved[low] + high - low])
        nbytes = min(stop * self.length, self.nbytes) - first * self.length
        data[:head] = b"".join([
            self._kind,
            struct.pack("<III", nbytes, self.length, size),
            struct.pack(f"<{len(wanted)}i", *(moved[start] for start in self._starts[first:stop])),
        ])  # fmt: skip
        return frame


def find_blocks(stored: OpenValue | bytes, nbytes: int) -> BloscBlocks | None:
    """Return the blocks of a chunk of ``nbytes`` decoded bytes; None if it has one block, or an unknown layout."""
    value = _BytesValue(stored) if isinstance(stored, bytes) else stored
    if value.size < _HEADER.size:
        return None
    head = _read(value, 0, min(value.size, _HEAD_BYTES))
    version, _, flags, _, total, length, size = _HEADER.unpack_from(head)
    is_own = (version, total, size) == (_FORMAT, nbytes, value.size) and not flags & _NOT_COMPRESSED
    count = -(-total // length) if is_own and 0 < length < total else 0
    end = _HEADER.size + 4 * count
    if not count or end >= value.size:
        return None
    if end > len(head):
        head = _read(value, 0, end)
    starts = np.frombuffer(head, "<i4", count, _HEADER.size).tolist()
    if min(starts) < end or max(starts) >= value.size or len(set(starts)) != count:
        return None
    return BloscBlocks(value, head, starts)


def _read(value: OpenValue | _BytesValue, start: int, length: int) -> bytes:
    data = bytearray(length)
    value.read_into(start, memoryview(data))
    return bytes(data)


class DecodedBlocks(dict[int, Bytes]):
    """Decoded blocks of one chunk by number; blocks are added and never change."""

    def __init__(self, length: int, total: int) -> None:
        super().__init__()
        self.length = length
        self.total = total

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the blocks take."""
        return sum(block.nbytes for block in list(self.values())) + 512


def read_range(target: Bytes, start: int, known: DecodedBlocks, blocks: Blocks, decode: Decode) -> bool:
    """Fill ``target`` with the decoded bytes of a chunk that begin at ``start``; tell whether ``known`` has grown."""
    # Blocks that lie completely in the range are decoded straight into ``target``. For a range of at most one block,
    # those at its ends are kept, because reading row by row needs them again; for longer ranges keeping them costs as
    # much as decoding them once more.
    stop, length, grown = start + target.size, known.length, False
    number = start // length
    while number * length < stop:
        low, high = number * length, min((number + 1) * length, known.total)
        block = known.get(number)
        if block is None and start <= low and high <= stop:
            first, number = number, number + 1
            while known.get(number) is None and number * length < stop >= min((number + 1) * length, known.total):
                number += 1
            high = min(number * length, known.total)
            _decode(blocks(), known, (first, number), decode, target[low - start : high - start])
            continue
        if block is None:
            block = np.empty(high - low, np.uint8)
            _decode(blocks(), known, (number, number + 1), decode, block)
            if target.size <= length:
                known[number] = block
                grown = True
        left, right = max(low, start), min(high, stop)
        target[left - start : right - start] = block[left - low : right - low]
        number += 1
    return grown


def _decode(
    blocks: BloscBlocks | None, known: DecodedBlocks, wanted: tuple[int, int], decode: Decode, out: Bytes
) -> None:
    if blocks is None or (blocks.length, blocks.nbytes) != (known.length, known.total):
        raise ChunkError("a chunk was changed while it was read", remedy="Open the file again.")
    first, stop = wanted
    if stop == len(blocks) and stop - first == 1 and blocks.nbytes % blocks.length:
        out[:] = decode(blocks.frame(first - 1, stop), None)[-out.size :]
        return
    decoded = decode(blocks.frame(first, stop), out)
    if not np.may_share_memory(decoded, out):
        out[:] = decoded
