"""Requests that are sent again: what is transient, for how long, and what is told at once.

The libraries of stores retry connections that are refused as patiently as servers that are busy, and cannot be told not
to. So they send each request once, and it is sent again here. A server that is not there fails at once; one that is
busy, silent, or drops the connection is asked again for about ten seconds. ``retry_config`` in ``storage_options``
changes that, in the terms of obstore.
"""

from __future__ import annotations

import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.stores.failures import library_errors, status_of

DEFAULT: dict[str, Any] = {
    "max_retries": 15,
    "backoff": {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=3), "base": 2},
    "retry_timeout": timedelta(seconds=10),
}
"""The bounds that hold unless the user sets others, as obstore's ``retry_config``."""

ONCE = {**DEFAULT, "max_retries": 0}
"""The ``retry_config`` of a library that sends each request once."""

_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_NOT_THERE = ("ConnectionRefusedError", "gaierror", "ClientConnectorDNSError", "EndpointConnectionError", "SSLError")
_DROPPED = (
    "TimeoutError", "ConnectionResetError", "BrokenPipeError", "ConnectionAbortedError",
    "ServerDisconnectedError", "ClientPayloadError", "ClientOSError", "IncompleteRead",
    "ConnectTimeoutError", "ReadTimeoutError", "ConnectionClosedError", "ResponseStreamingError",
)  # fmt: skip
# obstore has one error for all of this, and says the rest in its text
_STATUS = re.compile(r"status code: (\d{3})")
_KIND = re.compile(r"HttpError \{\s+kind: (\w+)")
_OBSTORE_DROPPED = frozenset({"Timeout", "Interrupted", "Request"})

A = TypeVar("A")

_lock = threading.Lock()
_told: set[str] = set()


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long a request is sent again.

    Attributes
    ----------
    most : int
        How often.
    seconds : float
        How long after the first time.
    first, longest, base : float
        Seconds before the second time and at most, and the factor between two of them.
    """

    most: int
    seconds: float
    first: float
    longest: float
    base: float

    @classmethod
    def of(cls, config: Mapping[str, Any] | None, location: str) -> Retries:
        """Return what a ``retry_config`` says; errors as of `completed`."""
        found = completed(config, location)
        backoff = found["backoff"]
        return cls(
            int(found["max_retries"]),
            found["retry_timeout"].total_seconds(),
            backoff["init_backoff"].total_seconds(),
            backoff["max_backoff"].total_seconds(),
            float(backoff["base"]),
        )

    def call(self, function: Callable[[], A], location: str) -> A:
        """Return what ``function`` returns, called again while what it raises is transient."""
        start, pause = time.monotonic(), self.first
        for _ in range(self.most):
            try:
                return function()
            except library_errors() as error:
                left = self.seconds - (time.monotonic() - start)
                if left <= 0 or not is_transient(error):
                    raise
                _tell(location, self.seconds)
            time.sleep(min(pause * random.uniform(0.5, 1), left))  # noqa: S311 - so that not all come back at once
            pause = min(pause * self.base, self.longest)
        return function()


def completed(config: Mapping[str, Any] | None, location: str) -> dict[str, Any]:
    """Return a ``retry_config`` with the values of `DEFAULT` for what it leaves out; durations may be in seconds.

    Raises
    ------
    UsageError
        It is not in the terms of obstore.
    """
    try:
        found = {**DEFAULT, **(config or {})}
        found["backoff"] = {**DEFAULT["backoff"], **found["backoff"]}
        if int(found["max_retries"]) < 0:
            raise ValueError("max_retries is negative")
        found["retry_timeout"] = _duration(found["retry_timeout"])
        for name in ("init_backoff", "max_backoff"):
            found["backoff"][name] = _duration(found["backoff"][name])
        float(found["backoff"]["base"])
    except (TypeError, ValueError, OverflowError) as error:
        remedy = 'For example {"max_retries": 3, "retry_timeout": 30}, in seconds.'
        raise UsageError(f"retry_config={config!r} cannot be used ({error})", store=location, remedy=remedy) from error
    return found


def _duration(value: Any) -> timedelta:
    return value if isinstance(value, timedelta) else timedelta(seconds=float(value))


def is_transient(error: BaseException) -> bool:
    """Tell whether the same request may well be answered a moment later."""
    text = str(error)
    status = status_of(error) or next(map(int, _STATUS.findall(text)), None)
    if status is not None:
        return status in _BUSY
    kind = _KIND.search(text)
    if kind is not None:
        # before 0.9 obstore has no kind of its own for an answer that is cut short
        return kind[1] in _OBSTORE_DROPPED or (kind[1] == "Unknown" and "IncompleteBody" in text)
    names = {parent.__name__ for cause in _causes(error) for parent in type(cause).__mro__}
    return names.isdisjoint(_NOT_THERE) and not names.isdisjoint(_DROPPED)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and those behind it."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        found = waiting.pop()
        if isinstance(found, BaseException) and not any(found is other for other in seen):
            seen.append(found)
            yield found
            waiting += [found.__cause__, found.__context__, getattr(found, "os_error", None)]


def _tell(location: str, seconds: float) -> None:
    """Say once for each server, to somebody at a terminal, why nothing happens."""
    server = urlsplit(location).netloc or location
    with _lock:
        if server in _told or not sys.stderr.isatty():
            return
        _told.add(server)
    sys.stderr.write(f"{server} does not answer as it should; retrying for up to {seconds:.0f} s\n")
    sys.stderr.flush()
