"""Values that are written piece by piece, so that a large one is never in memory as a whole, where the store can do so.

Source: issue "Fast, lean, and as wide as the machine or the cluster", part 5: a shard is streamed, its index last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeAlias

from hdmf_zarr_backend.storage.keys import KeyStore, innermost

Write: TypeAlias = Callable[[bytes], Any]


def streams_values(keys: KeyStore) -> bool:
    """Tell whether a store takes a value piece by piece; else the whole of it is held until it is set."""
    return _stream_of(keys) is not None


def held_bytes(keys: KeyStore, nbytes: int) -> int:
    """Return how much of a value of ``nbytes`` is in memory while it is written piece by piece."""
    if not streams_values(keys):
        return nbytes
    return min(nbytes, getattr(innermost(keys), "stream_bytes", 0))


@contextmanager
def streamed_value(keys: KeyStore, key: str) -> Iterator[Write]:
    """Give what appends to a new value of ``key``, which is set when the block ends without an error.

    Parameters
    ----------
    keys : KeyStore
        The store.
    key : str
        The key; not one of those that a queue holds back, nor one that is inlined.
    """
    stream = _stream_of(keys)
    if stream is not None:
        with stream(key) as write:
            yield write
        return
    pieces: list[bytes] = []
    yield pieces.append
    keys.set(key, b"".join(pieces))


def _stream_of(keys: KeyStore) -> Callable[[str], AbstractContextManager[Write]] | None:
    """Return what opens a value for writing; None where a kind of store has it not, or not for this URL."""
    found: Callable[[str], AbstractContextManager[Write]] | None = getattr(innermost(keys), "stream", None)
    return found
