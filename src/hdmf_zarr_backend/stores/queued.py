"""Writing to a far store: many puts under way at once, bounded in number and in bytes, and nothing left over.

An order between keys is what `drain` is for: what was set before it is in the store when it returns. Keys that commit a
file can be held back until `QueuedKeys.commit`.

Source: issue "Format 3, shards, and any store, near or far", part 5.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.stores.base import KeyStore, Range, WrappedKeys, cut_ranges
from hdmf_zarr_backend.stores.remote import request_pool

PUTS = 32
"""Puts that may be under way at once."""

PUT_BYTES = 64 * 2**20
"""Bytes of the values of the puts under way; a larger value goes alone."""


class QueuedKeys(WrappedKeys):
    """A store whose puts return before they are done.

    What was set is seen by `get` at once. The first put that fails is told by the next call that writes, or by `flush`,
    after all others have come to their end.

    Parameters
    ----------
    keys : KeyStore
        The store; safe for threads.
    held : sequence of str
        Keys that are set by `commit` only, in that order.
    """

    def __init__(self, keys: KeyStore, held: Sequence[str] = ()) -> None:
        super().__init__(keys)
        self._is_far = keys.abilities.is_far  # else a put is done at once
        self._held: dict[str, bytes | None] = dict.fromkeys(held)
        self._pending: dict[str, tuple[bytes, Future[None]]] = {}
        self._bytes = 0
        self._failed: BaseException | None = None
        self._changed = threading.Condition()
        self._is_copy = False

    def __repr__(self) -> str:
        return f"QueuedKeys({self.keys!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _copy_of, (self.keys,)  # in another process, which has its own queue and ends each task with `end_task`

    # ---- writing ----------------------------------------------------------------------------------------------------

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``, soon.

        Raises
        ------
        ZarrBackendError
            An earlier put has failed.
        """
        if key in self._held:
            self._held[key] = value
            return
        if not self._is_far:
            self.keys.set(key, value)
            return
        with self._changed:
            # a later value must not be overtaken by an earlier one
            self._changed.wait_for(lambda: self._failed or (key not in self._pending and self._has_room(len(value))))
            self._raise_failed()
            try:
                future = request_pool().submit(self._put, key, value)
            except RuntimeError:  # the interpreter is ending, and starts no threads any more
                self.keys.set(key, value)
                return
            self._bytes += len(value)
            self._pending[key] = (value, future)

    def _has_room(self, size: int) -> bool:
        return not self._pending or (len(self._pending) < PUTS and self._bytes + size <= PUT_BYTES)

    def _put(self, key: str, value: bytes) -> None:
        try:
            if self._failed is None:
                self.keys.set(key, value)
        except (ZarrBackendError, OSError, RuntimeError, ValueError, TypeError) as error:
            with self._changed:
                self._failed = self._failed or error
        finally:
            with self._changed:
                self._bytes -= len(value)
                self._pending.pop(key, None)
                self._changed.notify_all()

    def _raise_failed(self) -> None:
        if self._failed is not None:
            self._changed.wait_for(lambda: not self._pending)
            raise self._failed

    def flush(self) -> None:
        """Wait until everything that was set is in the store.

        Raises
        ------
        ZarrBackendError
            A put has failed; the others have ended, well or not.
        """
        with self._changed:
            self._changed.wait_for(lambda: not self._pending)
            self._raise_failed()

    def commit(self) -> None:
        """Wait for everything else, and set the keys that were held back, one after the other."""
        self.flush()
        for key, value in self._held.items():
            if value is not None:
                self.keys.set(key, value)
        self._held.clear()

    def abandon(self) -> None:
        """Wait for the puts under way, whatever becomes of them."""
        with suppress(ZarrBackendError, OSError, RuntimeError, ValueError, TypeError):
            self.flush()

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there, now."""
        gone = list(keys)
        for key in gone:
            if key in self._held:
                self._held[key] = None
        self.flush()
        self.keys.delete(gone)

    # ---- reading ----------------------------------------------------------------------------------------------------

    def _waiting(self, key: str) -> bytes | None:
        held = self._held.get(key)
        if held is not None:
            return held
        with self._changed:
            pending = self._pending.get(key)
        return None if pending is None else pending[0]

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        value = self._waiting(key)
        return value if value is not None else self.keys.get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there."""
        wanted = list(keys)
        found = {key: value for key in wanted if (value := self._waiting(key)) is not None}
        return {**found, **self.keys.get_many([key for key in wanted if key not in found])}

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        value = self._waiting(key)
        return cut_ranges(value, ranges) if value is not None else self.keys.get_ranges(key, ranges)

    def list_documents(self) -> Iterator[str]:
        """Yield the keys of all metadata documents."""
        self.flush()
        return self.keys.list_documents()

    def list_prefix(self, prefix: str) -> Iterator[str]:
        """Yield all keys below ``prefix/``."""
        self.flush()
        return self.keys.list_prefix(prefix)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        self.flush()
        return self.keys.sizes(prefix)

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        return bool(self._pending) or self.keys.exists()

    def drain(self) -> None:
        """Wait until everything that was set is in the store, as `flush`."""
        self.flush()

    def end_task(self) -> None:
        """Wait for what a task has set, where this is the copy of a queue in another process."""
        if self._is_copy:
            self.flush()


def _copy_of(keys: KeyStore) -> QueuedKeys:
    copy = QueuedKeys(keys)
    copy._is_copy = True
    return copy
