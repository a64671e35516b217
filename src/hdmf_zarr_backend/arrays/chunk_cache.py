"""`ChunkCache`: the decoded chunks of one file, bounded in bytes; the least recently used are dropped first.

hdmf reads a table of references or strings row by row; to decode its chunk for each row would take quadratic time.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

CACHE_BYTES = 64 * 2**20
_OBJECT_BYTES = 200  # estimated memory of an element of an object array

# The forms of a chunk in the cache: suffixes that no key of a store has
CHUNK = ""
"""The complete chunk, an array that must not be changed."""

ELEMENTS = "/#"
"""The elements of the chunk as text: `SplitElements` or `Elements`."""

BLOCKS = "/@"
"""Some blocks of the chunk, `DecodedBlocks`; after adding blocks, put them again, to count their bytes."""


class ChunkCache:
    """Decoded chunks of one file by key, bounded in bytes; a chunk of more than ``largest`` bytes is not kept."""

    def __init__(self, max_bytes: int = CACHE_BYTES, *, largest: int | None = None) -> None:
        self._max = max_bytes
        self._largest = max_bytes // 4 if largest is None else largest
        self._bytes = 0
        self._chunks: OrderedDict[str, tuple[Any, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[ChunkCache], tuple[int]]:
        return ChunkCache, (self._max,)  # a copy, or another process, decodes for itself

    def get(self, key: str, form: str = CHUNK) -> Any:
        """Return the chunk of ``key`` in one of its forms, None if it is not in the cache."""
        key += form
        with self._lock:
            entry = self._chunks.get(key)
            if entry is None:
                return None
            self._chunks.move_to_end(key)
            return entry[0]

    def put(self, key: str, chunk: Any, form: str = CHUNK) -> None:
        """Keep the chunk of ``key`` in one of its forms, all of which have ``nbytes``."""
        is_objects = form == CHUNK and chunk.dtype.hasobject
        size = chunk.size * _OBJECT_BYTES if is_objects else chunk.nbytes
        if size > self._largest:
            return
        key += form
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
