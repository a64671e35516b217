"""What all remote stores have in common: many requests under way at once, bounded, and one kind of error.

A kind of store says how one key is read, set, deleted and listed, with the synchronous calls of its library; the calls
wait in threads of a pool, which costs nothing where each takes milliseconds.
"""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from hdmf_zarr_backend.errors import ReadOnlyStoreError, StoreError
from hdmf_zarr_backend.stores.base import Abilities, KeyStore, Range, check_inside
from hdmf_zarr_backend.stores.failures import telling, without_ranges
from hdmf_zarr_backend.stores.file_state import FileState
from hdmf_zarr_backend.stores.retries import Retries

REQUESTS = 32
"""Requests of this process that may be under way at once."""

A = TypeVar("A")
B = TypeVar("B")

_pools: dict[int, ThreadPoolExecutor] = {}


def request_pool() -> ThreadPoolExecutor:
    """Return the threads of this process that wait for requests."""
    pid = os.getpid()  # threads do not survive a fork
    if pid not in _pools:
        _pools.clear()
        _pools[pid] = ThreadPoolExecutor(REQUESTS, thread_name_prefix="hdmf-zarr-requests")
    return _pools[pid]


def at_once(function: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """Yield ``function(item)`` of each item in order, with up to `REQUESTS` of them under way.

    What is under way when one fails is waited for before the error is raised.
    """
    running: deque[Future[B]] = deque()
    try:
        for item in items:
            running.append(_submitted(function, item))
            if len(running) >= REQUESTS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()
        for future in running:
            if not future.cancelled():
                future.exception()


def _submitted(function: Callable[[A], B], item: A) -> Future[B]:
    try:
        return request_pool().submit(function, item)
    except RuntimeError:  # the interpreter is ending, and starts no threads any more
        done: Future[B] = Future()
        done.set_result(function(item))
        return done


class FarKeys(KeyStore):
    """The contract of `stores.base.KeyStore` for stores that answer in milliseconds.

    Parameters
    ----------
    location : str
        URL of the file, without a trailing slash.
    options : mapping, optional
        The user's ``storage_options``.
    """

    abilities = Abilities(is_far=True)

    def __init__(self, location: str, options: Mapping[str, Any] | None = None) -> None:
        self.location = location
        self.options = dict(options or {})
        self._retries: Retries | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.location!r})"

    @property
    def _most(self) -> int:
        """Bytes of the largest value that may be read."""
        return self.read_rules.limits.max_stored_bytes

    def _check_size(self, key: str, size: int) -> None:
        """Refuse a value that is larger; where its size is known before, before memory is taken for it."""
        if size > self._most:
            limits = self.read_rules.limits
            raise limits.exceeded("max_stored_bytes", size, f"the value of the key {key!r} has {size:,} bytes")

    def _got(self, key: str) -> bytes | None:
        value = self._get(key)
        if value is not None:
            self._check_size(key, len(value))
        return value

    # ---- what a kind of store says ----------------------------------------------------------------------------------

    @abstractmethod
    def _get(self, key: str) -> bytes | None:
        """Return the value of ``key``, None where it is not there; as little as can be of one that is too large."""

    @abstractmethod
    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return ranges of the value of ``key``, None where it is not there."""

    @abstractmethod
    def _set(self, key: str, value: bytes) -> None:
        """Set ``key``."""

    @abstractmethod
    def _delete(self, keys: Sequence[str]) -> None:
        """Delete ``keys``, some of which may not be there.

        It retries each of its requests, not all of them together: those that succeeded would only be sent again.
        """

    @abstractmethod
    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield key and size of all that is below ``prefix/``."""

    def _size(self, key: str) -> int | None:
        """Return the size of the value of ``key``, None where it is not there."""
        value = self._get(key)
        return None if value is None else len(value)

    def _state(self, key: str) -> FileState | None:
        """Return size, tag and time of the value of ``key``, None where it is not there."""
        size = self._size(key)
        return None if size is None else FileState(size)

    # ---- the contract -----------------------------------------------------------------------------------------------

    def _called(self, function: Callable[[], B], key: str, doing: str, *, once: bool = False) -> B:
        """Return what a function of the library returns; ``once``: a second call would do something else."""
        check_inside(key, self.location)
        with telling(self.location, key, doing):
            return function() if once else self._retried(function)

    def _retried(self, function: Callable[[], B]) -> B:
        """Return what a function returns, called again while what it raises is transient."""
        return function() if self._retries is None else self._retries.call(function, self.location)

    def get(self, key: str) -> bytes | None:
        """Return the value of ``key``, or None."""
        return self._called(lambda: self._got(key), key, "read")

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return the values of those ``keys`` that are there; asked for at once."""
        wanted = list(keys)
        if len(wanted) == 1:
            value = self.get(wanted[0])
            return {} if value is None else {wanted[0]: value}
        values = at_once(self.get, wanted)
        return {key: value for key, value in zip(wanted, values, strict=True) if value is not None}

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        """Return several ranges of bytes of the value of ``key``, or None where it is not there."""
        parts = self._called(lambda: self._get_ranges(key, ranges), key, "read")
        for (start, stop), part in zip(ranges, parts or (), strict=False):
            most = -start if start < 0 else math.inf if stop is None else max(0, stop - start)
            if len(part) > most:  # fsspec takes the whole value for the range
                raise without_ranges(self.location, key)
        return parts

    def size(self, key: str) -> int | None:
        """Return the bytes of the value of ``key``, or None where it is not there."""
        return self._called(lambda: self._size(key), key, "read")

    def state(self, key: str) -> FileState | None:
        """Return size, tag and time of the value of ``key``, or None where it is not there."""
        return self._called(lambda: self._state(key), key, "read")

    def set(self, key: str, value: bytes) -> None:
        """Set ``key``."""
        self._refuse_change()
        self._called(lambda: self._set(key, value), key, "written")

    def create(self, key: str, value: bytes) -> bool | None:
        """Set ``key`` if it is not there, in one step.

        Returns
        -------
        bool or None
            Whether it was set; None where there is no such request.
        """
        self._refuse_change()
        return self._called(lambda: self._create(key, value), key, "written")

    def _create(self, key: str, value: bytes) -> bool | None:
        return None

    def set_many(self, items: Mapping[str, bytes]) -> None:
        """Set several keys, at once."""
        for _ in at_once(lambda item: self.set(*item), items.items()):
            pass

    def delete(self, keys: Iterable[str]) -> None:
        """Delete those ``keys`` that are there."""
        gone = list(keys)
        if gone:
            self._refuse_change()
            self._called(lambda: self._delete(gone), gone[0], "deleted", once=True)

    def _refuse_change(self) -> None:
        if not self.abilities.write:
            raise ReadOnlyStoreError(self.abilities.why, store=self.location, remedy="Write to another place.")

    def sizes(self, prefix: str) -> dict[str, int]:
        """Return ``{key: bytes}`` of all keys below ``prefix/``."""
        if not self.abilities.listing:
            raise StoreError(
                "this server cannot list what it has",
                store=self.location,
                remedy="Files are read from it by their consolidated metadata alone; consolidate before the upload.",
            )
        return self._called(lambda: dict(self._list(prefix)), prefix, "listed")

    def exists(self) -> bool:
        """Tell whether anything is at the location."""
        if not self.abilities.listing:
            return bool(self.get_many([".zgroup", "zarr.json", ".zarray"]))
        return self._called(lambda: next(iter(self._list("")), None) is not None, "", "listed")
