"""Some blocks of a Blosc chunk, without decoding the others.

Blosc cuts a chunk into blocks that are compressed each on its own, and says where they begin. A few of them under a
header of their own are a whole Blosc frame again, which any decoder takes. So a row of a chunk of 2 MiB costs one
block, an eighth of it or less.

Source: c-blosc, README_CHUNK_FORMAT.rst (format 2).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend.errors import ChunkError

Bytes: TypeAlias = npt.NDArray[np.uint8]
Blocks: TypeAlias = "Callable[[], BloscBlocks | None]"
Decode: TypeAlias = "Callable[[bytes, Bytes | None], Bytes]"

_HEADER = struct.Struct("<BBBBIII")  # format, codec's format, flags, size of an element; bytes: all, a block, stored
_FORMAT = 2
_NOT_COMPRESSED = 0x02  # among the flags; such a frame has no blocks


class BloscBlocks:
    """The blocks of one frame; `find_blocks` makes it.

    Attributes
    ----------
    nbytes : int
        Decoded bytes of the frame.
    length : int
        Decoded bytes of a block; the last one may be shorter.
    """

    def __init__(self, data: bytes, nbytes: int, length: int, starts: npt.NDArray[np.intp]) -> None:
        self.nbytes = nbytes
        self.length = length
        self._data = data
        self._starts = starts
        order = np.sort(starts)  # threads write the blocks in any order
        self._ends = np.append(order[1:], len(data))[np.searchsorted(order, starts)]

    def __len__(self) -> int:
        return len(self._starts)

    def frame(self, first: int, stop: int) -> bytes:
        """Return the blocks from ``first`` to before ``stop`` as a frame.

        One short block alone makes none: take the one before it as well.
        """
        data = memoryview(self._data)  # a slice of it copies nothing
        parts = [data[start:end] for start, end in zip(self._starts[first:stop], self._ends[first:stop], strict=True)]
        sizes = np.array([len(part) for part in parts])
        head = _HEADER.size + 4 * len(parts)
        starts = head + np.cumsum(sizes) - sizes
        kind = _HEADER.unpack_from(self._data)[:4]
        nbytes = min(stop * self.length, self.nbytes) - first * self.length
        header = _HEADER.pack(*kind, nbytes, self.length, head + int(sizes.sum()))
        return b"".join([header, starts.astype("<i4").tobytes(), *parts])


def find_blocks(data: bytes, nbytes: int) -> BloscBlocks | None:
    """Return the blocks of a chunk of ``nbytes`` decoded bytes; None where it is one block, or nothing that we know."""
    if len(data) < _HEADER.size:
        return None
    version, _, flags, _, total, length, stored = _HEADER.unpack_from(data)
    if version != _FORMAT or flags & _NOT_COMPRESSED or total != nbytes or stored != len(data):
        return None
    if not 0 < length < total:
        return None
    count = -(-total // length)
    head = _HEADER.size + 4 * count
    if head >= stored:
        return None
    starts = np.frombuffer(data, "<i4", count, _HEADER.size).astype(np.intp)
    if starts.min() < head or starts.max() >= stored or len(np.unique(starts)) != count:
        return None
    return BloscBlocks(data, total, length, starts)


class DecodedBlocks:
    """Some decoded blocks of one chunk; what is in it does not change, and there may become more.

    Parameters
    ----------
    length, total : int
        Decoded bytes of a block and of the chunk.
    """

    def __init__(self, length: int, total: int) -> None:
        self.length = length
        self.total = total
        self._blocks: dict[int, Bytes] = {}

    @property
    def nbytes(self) -> int:
        """Bytes that it costs to keep."""
        return sum(block.nbytes for block in list(self._blocks.values())) + 512

    def get(self, number: int) -> Bytes | None:
        """Return a block, None where it is not decoded."""
        return self._blocks.get(number)

    def put(self, number: int, block: Bytes) -> None:
        """Take a block, which must not be changed any more."""
        self._blocks[number] = block


def read_range(target: Bytes, start: int, known: DecodedBlocks, blocks: Blocks, decode: Decode) -> bool:
    """Fill ``target`` with the decoded bytes of a chunk that begin at ``start``.

    Blocks that are wanted whole are decoded to their place. Where no more than a block is wanted, those at its ends are
    put into ``known``, since whoever reads row by row asks for them again.

    Parameters
    ----------
    target : numpy.ndarray of uint8
        Contiguous.
    start : int
        Place of its first byte in the chunk.
    known : DecodedBlocks
        Used and added to.
    blocks : callable
        Returns the stored blocks, None where there are none any more; called only when some are lacking.
    decode : callable
        ``decode(frame, out)`` returns the decoded bytes of a frame, which are in ``out`` if that is not None.

    Returns
    -------
    bool
        Whether ``known`` has grown.

    Raises
    ------
    ChunkError
        The chunk is not what it was when ``known`` was made.
    """
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
                known.put(number, block)
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
