"""`RemoteStore`: the base of remote stores, with concurrent requests and common errors.

A subclass defines how one key is read, set, deleted and listed, with the synchronous calls of its library, which also
repeats what may pass (`store.web` does that itself). The calls wait in threads of a pool: its overhead does not matter
when each takes milliseconds.
"""

from __future__ import annotations

import os
import re
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from itertools import islice
from operator import itemgetter
from typing import Any, TypeVar

from hdmf_zarr_backend.errors import StoreError, UsageError
from hdmf_zarr_backend.store import base

_MAX_URL_LENGTH = 5_000  # most characters of a URL, which servers and libraries limit too, after they are quoted
REQUESTS = 32  # requests of this process that may run at once

A = TypeVar("A")
B = TypeVar("B")
Name = TypeVar("Name")

_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}


def request_pool(threads: int = REQUESTS) -> ThreadPoolExecutor:
    """Return the threads of this process that wait for requests, or as many as decode."""
    key = os.getpid(), threads  # threads do not survive a fork, and a task for them would wait for ever
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(threads, thread_name_prefix="hdmf-zarr-requests")
    return _pools[key]


def cpus() -> int:
    """Return the processors that this process may use, which in a job of a cluster are fewer than the machine has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def at_once(function: Callable[[A], B], items: Iterable[A]) -> Iterator[B]:
    """Yield ``function(item)`` of each item in order, up to `REQUESTS` at once; an error when the others ended."""
    running: deque[Future[B]] = deque()
    try:
        for item in items:
            running.append(submit(request_pool(), function, item))
            if len(running) >= REQUESTS:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in [future for future in running if not future.cancel()]:
            future.exception()


def in_threads(function: Callable[[A], None], items: Iterable[A], threads: int) -> None:
    """Call ``function(item)`` of each item, in this thread and in others; an error is raised when all have ended."""
    left, lock = iter(items), threading.Lock()

    def taken() -> list[A]:
        with lock:
            return list(islice(left, 1))

    def work() -> None:
        nonlocal left
        try:
            while item := taken():
                function(*item)
        except BaseException:
            with lock:  # after an error, or Ctrl-C, no thread begins another item
                left = iter(())
            raise

    # one that starts when nothing is left does nothing
    helpers = [submit(request_pool(threads), work) for _ in range(threads - 1)]
    try:
        work()
    finally:
        errors = [helper.exception() for helper in helpers if not helper.cancel()]
    for error in filter(None, errors):
        raise error


def get_at_once(store: base.Store, keys: Sequence[str]) -> dict[str, bytes]:
    """Return the values of those ``keys`` that exist in a store, requested at once."""
    values = at_once(store.get, keys) if len(keys) > 1 else map(store.get, keys)
    return {key: value for key, value in zip(keys, values, strict=True) if value is not None}


def submit(pool: ThreadPoolExecutor, function: Callable[..., B], *items: Any) -> Future[B]:
    """Call a function in a pool; in this thread if the interpreter is ending, and starts no more threads."""
    try:
        return pool.submit(function, *items)
    except RuntimeError:
        # a file that is closed by `atexit` or by garbage collection at the end still has to be written
        done: Future[B] = Future()
        done.set_result(function(*items))
        return done


def in_thread(function: Callable[[], B]) -> Future[B]:
    """Call a function in a thread of its own, which a thread of the pool may wait for."""
    threads = ThreadPoolExecutor(1, thread_name_prefix="hdmf-zarr-request")
    try:
        return submit(threads, function)
    finally:
        threads.shutdown(wait=False)


# ---- ranges of bytes of one value -----------------------------------------------------------------------------------

Extent = tuple[int, int]  # start and end of a range of bytes
RUN_BYTES = 8 * 2**20  # a longer run takes more time than several concurrent ones
GAP_BYTES = 2**15  # reading such a gap takes less time than another request


def coalesced(extents: Mapping[Name, Extent]) -> Iterator[tuple[Extent, dict[Name, Extent]]]:
    """Yield what to read with one request each, and the ranges in it: with small gaps between them, to `RUN_BYTES`."""
    run: dict[Name, Extent] = {}
    first = last = 0
    for name, (start, stop) in sorted(extents.items(), key=itemgetter(1)):
        if run and (start - last > GAP_BYTES or stop - first > RUN_BYTES):
            yield (first, last), run
            run = {}
        if not run:
            first = last = start
        run[name] = (start, stop)
        last = max(last, stop)
    if run:
        yield (first, last), run


# ---- retries --------------------------------------------------------------------------------------------------------

RETRY_SECONDS = 10.0  # how long a request is repeated to a server that is busy or silent


def retry_settings(config: Any, location: str) -> dict[str, Any]:
    """Return a ``retry_config`` of obstore with a bound of its time; its durations may be in seconds."""
    # obstore takes timedelta only, which the command line cannot give, and repeats requests for 3 minutes by default
    try:
        complete = {"retry_timeout": RETRY_SECONDS, **(config or {})}
        complete["retry_timeout"] = duration(complete["retry_timeout"])
        # at a number that its type cannot hold, obstore raises an error that does not name the option
        if "max_retries" in complete and not 0 <= int(complete["max_retries"]) < 2**31:
            raise ValueError("max_retries is not a number of requests")
        if "backoff" in complete:
            backoff = complete["backoff"].items()
            complete["backoff"] = {name: float(each) if name == "base" else duration(each) for name, each in backoff}
    except (TypeError, ValueError, OverflowError, AttributeError) as error:
        remedy = 'For example {"max_retries": 3, "retry_timeout": 30}, in seconds.'
        raise UsageError(f"retry_config={config!r} cannot be used ({error})", store=location, remedy=remedy) from error
    return complete


def no_such_option(name: str, names: Iterable[str], location: str, library: str) -> UsageError:
    """Return the error for a storage option that is not among the given ones, and not one of a library."""
    from difflib import get_close_matches  # imported here: for this message only

    similar = get_close_matches(name, sorted(names), n=1)
    remedy = f"Did you mean {similar[0]!r}?" if similar else f"Check its name. If it is one of {library}, install that."
    return UsageError(f"there is no storage option {name!r} for this URL", store=location, remedy=remedy)


_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|seconds?|m|min|minutes?|h)")
_SECONDS = {"ms": 0.001, "m": 60.0, "h": 3600.0}


def duration(value: Any) -> timedelta:
    """Return a duration: a timedelta, seconds, or a text such as ``30s``; else a TypeError or ValueError."""
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(str(value).strip())
    number, unit = (match[1], match[2]) if match else (value, "s")
    return timedelta(seconds=float(number) * _SECONDS.get(unit if unit in _SECONDS else unit[0], 1.0))


# ---- the store -----------------------------------------------------------------------------------------------------


class RemoteStore(base.Store):
    """The contract of `store.base.Store` for stores that answer in milliseconds."""

    abilities = base.Abilities(is_remote=True)

    _absent: tuple[type[Exception], ...] = ()  # errors of the library for an absent key
    _client: Any = None  # what the library has opened, with its connections, which are those of the process `_pid`
    _pid = 0
    _counts_from_end = True  # the server knows ranges of the last bytes of a value

    def __init__(self, location: str, options: Mapping[str, Any] | None = None) -> None:
        self.location = location
        self.options = dict(options or {})

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_client": None}

    # ---- defined by subclasses --------------------------------------------------------------------------------------

    @abstractmethod
    def _get(self, key: str) -> bytes | None:
        """Return the value of ``key``, without reading one that is too large completely if possible.

        This and the next two methods return None if the key is absent, or raise one of `_absent`.
        """

    @abstractmethod
    def _get_ranges(self, key: str, ranges: Sequence[base.Range]) -> list[bytes] | None:
        """Return ranges of the value of ``key``."""

    def _state(self, key: str) -> base.FileState | None:
        """Return size, tag and time of the value of ``key``."""
        value = self._get(key)
        return None if value is None else base.FileState(len(value))

    def _put_value(self, key: str, value: bytes) -> None:
        """Set ``key``; this and the next three are not called if `abilities` excludes them."""
        raise NotImplementedError

    def _put_absent(self, key: str, value: bytes) -> bool | None:
        """Set ``key`` if it is absent; None if the library cannot do that in one step."""

    def _remove(self, keys: Sequence[str]) -> None:
        """Delete ``keys``, some of which may be absent."""
        raise NotImplementedError

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield key and size of all keys below ``prefix/``."""
        raise NotImplementedError

    # ---- the contract -----------------------------------------------------------------------------------------------

    def _call(self, function: Callable[[], B], key: str, doing: str) -> B:
        """Call a function of the library; its errors name the store and ``key``, and what was ``doing``."""
        base.check_inside(key, self.location)
        length = len(self.location) + len(key)
        if length > _MAX_URL_LENGTH:
            problem = f"a URL of {length:,} characters cannot be requested"
            raise StoreError(problem, store=f"{self.location[:100]}...", remedy="Use a shorter path or name.")
        with base.library_errors_named(self.location, key, doing):
            return function()

    def _read(self, function: Callable[[], B | None], key: str) -> B | None:
        """Call a function of the library; return None if it reports that the key is absent."""
        # a refusal (403) is an error here; only `encoding.parser` takes it for an absent document

        def present() -> B | None:
            try:
                return function()
            except self._absent as error:
                base.raise_if_not_absent(error)
                return None

        return self._call(present, key, "read")

    def get(self, key: str) -> bytes | None:
        value = self._read(lambda: self._get(key), key)
        if value is not None:
            base.check_value_size(self, key, len(value))
        return value

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        return get_at_once(self, list(keys))

    def get_each(self, keys: Sequence[str]) -> Iterator[bytes | None]:
        return at_once(self.get, keys)

    def get_ranges(self, key: str, ranges: Sequence[base.Range]) -> list[bytes] | None:
        # Azure, rangehttpserver and http-server refuse the range of the last n bytes
        if not self._counts_from_end and any(stop is None for _, stop in ranges):
            state = self.state(key)
            if state is None:
                return None
            ranges = [slice(*each).indices(state.size)[:2] for each in ranges]
        lengths = [-start if stop is None else max(0, stop - start) for start, stop in ranges]
        # none has a request for an empty range
        asked = [each for each, length in zip(ranges, lengths, strict=True) if length]
        if not asked:
            return [b""] * len(ranges) if self.state(key) is not None else None
        parts = self._read(lambda: self._get_ranges(key, asked), key)
        if parts is None:
            return None
        left = iter(parts)
        values = [next(left) if length else b"" for length in lengths]
        # from a server without ranges, fsspec returns the complete value
        if any(len(value) > length for value, length in zip(values, lengths, strict=True)):
            raise base.without_ranges(self.location, key)
        return values

    def state(self, key: str) -> base.FileState | None:
        return self._read(lambda: self._state(key), key)

    def _set(self, key: str, value: bytes) -> None:
        self._refuse_change()
        self._call(lambda: self._put_value(key, value), key, "written")

    def _create(self, key: str, value: bytes) -> bool | None:
        self._refuse_change()
        return self._call(lambda: self._put_absent(key, value), key, "written")

    def _delete(self, keys: Iterable[str]) -> None:
        gone = list(keys)
        if gone:
            self._refuse_change()
            self._call(lambda: self._remove(gone), gone[0], "deleted")

    def _listed(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Yield key and size of all keys below ``prefix/`` as they come: ten million in memory take gigabytes."""
        self._check_listing()
        entries = self._call(lambda: self._list(prefix), prefix, "listed")
        with base.library_errors_named(self.location, prefix, "listed"):
            yield from entries

    def _check_listing(self) -> None:
        """Refuse to list the keys of a server that cannot do that."""
        if not self.abilities.listing:
            remedy = "Files are read from it by their consolidated metadata alone; consolidate before the upload."
            raise StoreError("this server cannot list its keys", store=self.location, remedy=remedy)

    def sizes(self, prefix: str) -> dict[str, int]:
        return dict(self._listed(prefix))

    def list_prefix(self, prefix: str) -> Iterator[str]:
        return (key for key, _ in self._listed(prefix))

    def exists(self) -> bool:
        if not self.abilities.listing:
            return bool(self.get_many([".zgroup", "zarr.json", ".zarray"]))
        return self._call(lambda: next(iter(self._list("")), None) is not None, "", "listed")


def state_of(size: Any, tag: Any, changed: Any) -> base.FileState:
    """Return the state of a file as a server says it: its tag without quotes and prefix, its time in whole seconds."""
    plain = tag.removeprefix("W/").strip('"') or None if isinstance(tag, str) else None
    seconds = changed.timestamp() if hasattr(changed, "timestamp") else changed
    time = int(seconds) * 10**9 if isinstance(seconds, (int, float)) else None
    return base.FileState(int(size), plain, time)
