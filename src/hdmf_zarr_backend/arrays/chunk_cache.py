"""`ChunkCache`: the decoded chunks of one file, bounded in bytes; the least recently used are dropped first.

hdmf reads a table of references or strings row by row; to decode its chunk for each row would take quadratic time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

import numpy.typing as npt

from hdmf_zarr_backend.arrays.blosc_blocks import DecodedBlocks
from hdmf_zarr_backend.arrays.objects import Elements, SplitElements

Array = npt.NDArray[Any]

CACHE_BYTES = 64 * 2**20
_SPLIT, _BLOCKS = "/#", "/@"  # suffixes that no key of a store has
_OBJECT_BYTES = 200  # estimated memory of an element of an object array


class ChunkCache:
    """Decoded chunks of one file by key, bounded in bytes.

    Parameters
    ----------
    max_bytes : int
        Bound of the sum; a chunk larger than a quarter of it is not kept.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max = max_bytes
        self._bytes = 0
        self._chunks: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ChunkCache], tuple[int]]:
        return ChunkCache, (self._max,)  # a copy, or another process, decodes for itself

    def get(self, key: str) -> Array | None:
        """Return the chunk of ``key``; it must not be changed."""
        found: Array | None = self._get(key)
        return found

    def split(self, key: str) -> SplitElements | Elements | None:
        """Return the elements of the chunk of ``key`` as text."""
        found: SplitElements | Elements | None = self._get(key + _SPLIT)
        return found

    def _get(self, key: str) -> Any:
        with self._lock:
            entry = self._chunks.get(key)
            if entry is None:
                return None
            self._chunks.move_to_end(key)
            return entry[0]

    def blocks(self, key: str) -> DecodedBlocks | None:
        """Return decoded blocks of the chunk of ``key``."""
        found: DecodedBlocks | None = self._get(key + _BLOCKS)
        return found

    def put_blocks(self, key: str, blocks: DecodedBlocks) -> None:
        """Keep decoded blocks of the chunk of ``key``; call it again after adding blocks, to count their bytes."""
        self._put(key + _BLOCKS, blocks, blocks.nbytes)

    def put(self, key: str, chunk: Array) -> None:
        """Keep the chunk of ``key``."""
        self._put(key, chunk, chunk.size * _OBJECT_BYTES if chunk.dtype.hasobject else chunk.nbytes)

    def put_split(self, key: str, elements: SplitElements | Elements) -> None:
        """Keep the elements of the chunk of ``key`` as text."""
        self._put(key + _SPLIT, elements, elements.nbytes)

    def _put(self, key: str, chunk: Any, size: int) -> None:
        if size > self._max // 4:
            return
        with self._lock:
            self._drop(key)
            self._chunks[key] = (chunk, size)
            self._bytes += size
            while self._bytes > self._max:
                self._drop(next(iter(self._chunks)))

    def forget(self, path: str) -> None:
        """Forget all chunks of the array at ``path``."""
        with self._lock:
            for key in [key for key in self._chunks if key.startswith(f"{path}/")]:
                self._drop(key)

    def _drop(self, key: str) -> None:
        entry = self._chunks.pop(key, None)
        if entry is not None:
            self._bytes -= entry[1]
