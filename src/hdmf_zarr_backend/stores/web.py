"""`WebStore`: web servers, with full control over where requests go.

Libraries follow a redirect to any server, and send it the headers of the user. Here a redirect that leaves the server
of the file is refused, unless the user has named the file itself by the URL that is redirected, or allows it by
``external_links="follow"``; headers of the user go to the server of the file only.

Source: RFC 9110, sections 14 (ranges) and 15.4 (redirects); RFC 6454 for the origin of a URL.
"""

from __future__ import annotations

import base64
import io
import os
import re
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urljoin, urlsplit

from hdmf_zarr_backend.errors import LinkRefusedError, ReadOnlyStoreError, UsageError
from hdmf_zarr_backend.model.stored import is_small_number
from hdmf_zarr_backend.stores.base import Abilities, FileState, Range, check_value_size, node_of, size_limit
from hdmf_zarr_backend.stores.remote import RemoteStore, completed, joined, plain_tag

# the modules of HTTP and TLS are imported where they are used, since local files are opened without them
if TYPE_CHECKING:
    import http.client
    import ssl

_REDIRECTS = (301, 302, 303, 307, 308)
_SUCCESS = (200, 206)
_MOST_REDIRECTS = 10
_DETAILS = 2**16  # bytes of a page about an error
_PORTS = {"http": 80, "https": 443}
_SAFE = "/~!$&'()*+,;=:@"
_IDLE = 32
_RANGES_AT_ONCE = 8
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|seconds?|m|min|minutes?|h)?")
_SECONDS = {"ms": 0.001, "m": 60.0, "h": 3600.0}
_KNOWN = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_headers", "http1_only", "pool_idle_timeout",
    "pool_max_idle_per_host", "proxy_url", "timeout", "user_agent",
})  # fmt: skip

Origin = tuple[str, str, int]
"""Scheme, host and port of a URL."""


class StatusError(OSError):
    """A response that is neither a value nor the absence of one."""

    def __init__(self, status: int, reason: str, url: str) -> None:
        super().__init__(f"{url} answers with status code: {status} {reason}")
        self.status = status


def origin_of(url: str) -> Origin:
    """Return scheme, host and port of a URL of a web server; ValueError if it has none."""
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is not the URL of a web server")
    return parts.scheme, parts.hostname, parts.port or _PORTS[parts.scheme]


def is_known(options: Mapping[str, Any]) -> bool:
    """Return whether `WebStore` has all of the ``storage_options``, and fsspec is not needed."""
    client = options.get("client_options") or {}
    return options.keys() <= {"client_options", "retry_config"} and client.keys() <= _KNOWN


def redirect_refused(location: str, key: str, target: str) -> LinkRefusedError:
    """Return the error for a redirect to another server."""
    scheme, host, port = origin_of(target)
    return LinkRefusedError(
        f"the server redirects {repr(key) if key else 'a request'} to another one, {scheme}://{host}:{port}, which is "
        "not followed",
        store=location,
        path=node_of(key) if key else None,
        remedy='Open the file at its new place, or pass external_links="follow" if you trust the server.',
        remedy_cli="Open the file at its new place, or use --external-links follow if you trust the server.",
    )


class WebStore(RemoteStore):
    """One Zarr file, or the folder of a file, on a web server; read only."""

    abilities = Abilities(write=False, change=False, listing=False, is_remote=True, why="a web server is read only")
    opens_by_url = True

    _absent = (FileNotFoundError,)

    def __init__(self, location: str, options: Mapping[str, Any]) -> None:
        super().__init__(location, options)
        self._retry_config = completed(self.options.get("retry_config"), location)
        client = dict(self.options.get("client_options") or {})
        self._timeout = _seconds(client.get("timeout", "30s"), location)
        self._connect_timeout = min(self._timeout, _seconds(client.get("connect_timeout", "10s"), location))
        self._headers = {str(name): _text(value) for name, value in (client.get("default_headers") or {}).items()}
        self._headers.setdefault("User-Agent", str(client.get("user_agent", "hdmf-zarr-backend")))
        self._proxy = client.get("proxy_url")
        self._trusts_all = str(client.get("allow_invalid_certificates", False)).lower() == "true"
        try:
            self._origin = origin_of(location)
        except ValueError as error:
            raise UsageError(str(error), store=location, remedy="Check the URL.") from error
        self._moved: set[Origin] = set()
        self._is_resolved = False
        self._counts_from_end = True
        self._idle: dict[Origin, list[Any]] = {}
        self._pid = os.getpid()
        weakref.finalize(self, _close_all, self._idle)

    def __reduce__(self) -> tuple[Any, ...]:
        return WebStore, (self.location, self.options), {"read_rules": self.read_rules, "named_key": self.named_key}

    # ---- the contract -----------------------------------------------------------------------------------------------

    def _get(self, key: str) -> bytes:
        with self._response("GET", key) as response:
            if response.length is not None:
                check_value_size(self, key, response.length)
            most = int(getattr(self.read_rules.limits, size_limit(key)))
            return bytes(response.read() if response.length is not None else response.read(most + 1))

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes]:
        if any(start < 0 or stop is None for start, stop in ranges):
            return [self._get_range(key, start, stop) for start, stop in ranges]
        extents = {number: (start, stop or 0) for number, (start, stop) in enumerate(ranges)}
        runs = list(joined(extents))
        bounds = [(min(start for start, _ in run.values()), max(stop for _, stop in run.values())) for run in runs]
        if len(runs) == 1:
            values = [self._get_range(key, *bounds[0])]
        else:
            with ThreadPoolExecutor(min(len(runs), _RANGES_AT_ONCE)) as threads:
                values = list(threads.map(lambda bound: self._get_range(key, *bound), bounds))
        parts: dict[int, bytes] = {}
        for run, (first, _), value in zip(runs, bounds, values, strict=True):
            parts.update({number: value[start - first : stop - first] for number, (start, stop) in run.items()})
        return [parts[number] for number in range(len(ranges))]

    def _get_range(self, key: str, start: int, stop: int | None) -> bytes:
        if start < 0:
            return self._get_from_end(key, start, stop)
        if stop is not None and stop <= start:
            return b""
        return self._part(key, f"{start}-{'' if stop is None else stop - 1}")

    def _get_from_end(self, key: str, start: int, stop: int | None) -> bytes:
        """Return a range that counts from the end, by the size of the value where the server refuses it."""
        if self._counts_from_end:
            try:
                part = self._part(key, str(start))
            except StatusError as error:
                if error.status not in (400, 416):
                    raise
                self._counts_from_end = False
            else:
                return part if stop is None else part[: stop - start]
        size = self._state(key).size
        first, last = max(0, size + start), size if stop is None else max(0, size + stop)
        return self._get_range(key, first, last) if first < last else b""

    def _part(self, key: str, wanted: str) -> bytes:
        with self._response("GET", key, {"Range": f"bytes={wanted}"}) as response:
            if response.status != 206:
                raise OSError("range request not supported")
            return bytes(response.read())

    def beginning(self, key: str, count: int) -> bytes | None:
        """Return the first ``count`` bytes of the value of ``key``, also from a server without ranges."""

        def read() -> bytes:
            with self._response("GET", key) as response:
                return bytes(response.read(count))

        return self._read(read, key)

    def _state(self, key: str) -> FileState:
        from email.utils import parsedate_to_datetime

        with self._response("HEAD", key) as response:
            size = response.headers.get("Content-Length")
            tag, changed = plain_tag(response.headers.get("ETag")), response.headers.get("Last-Modified")
        if size is None or not is_small_number(size):
            raise OSError(f"the server does not tell the size of the file, but {size!r}")
        try:
            moment = None if changed is None else int(parsedate_to_datetime(changed).timestamp()) * 10**9
        except (ValueError, TypeError):
            moment = None
        return FileState(int(size), tag, moment)

    def _set(self, key: str, value: bytes) -> None:
        raise ReadOnlyStoreError(self.abilities.why, store=self.location)

    def _delete(self, keys: Sequence[str]) -> None:
        raise ReadOnlyStoreError(self.abilities.why, store=self.location)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        raise ReadOnlyStoreError(self.abilities.why, store=self.location)

    # ---- requests ---------------------------------------------------------------------------------------------------

    @contextmanager
    def _response(self, method: str, key: str, headers: Mapping[str, str] | None = None) -> Iterator[Any]:
        """Yield the response to a request, after redirects that are allowed; errors for other statuses than success."""
        url = self._url(key)
        for _ in range(_MOST_REDIRECTS):
            origin = origin_of(url)
            own = self._headers if origin == self._origin else {"User-Agent": self._headers["User-Agent"]}
            sent = {**own, "Accept-Encoding": "identity", **(headers or {})}
            connection, response = self._sent(origin, method, url, sent)
            try:
                target = response.headers.get("Location") if response.status in _REDIRECTS else None
                if method == "HEAD" or response.status not in _SUCCESS:
                    response.read(_DETAILS)  # the connection can be used again
                if target is None:
                    self._is_resolved = True
                    _check_status(response, url)
                    yield response
                    return
            finally:
                is_kept = response.isclosed() and not response.will_close
                response.close()
                self._give_back(origin, connection, is_kept=is_kept)
            url = self._followed(key, urljoin(url, target))
        raise OSError(f"more than {_MOST_REDIRECTS} redirects")

    def _url(self, key: str) -> str:
        root, mark, query = self.location.partition("?")  # a query may grant access
        return f"{quote(root, safe=_SAFE + '%?#[]')}/{quote(key, safe=_SAFE)}{mark}{query}"

    def _followed(self, key: str, target: str) -> str:
        """Return the target of a redirect, if it may be followed."""
        try:
            origin = origin_of(target)
        except ValueError as error:
            raise OSError(f"a redirect to {target!r}") from error
        if origin == self._origin or origin in self._moved or self.read_rules.external_links == "follow":
            return target
        if key == self.named_key and not self.read_rules.is_linked and not self._is_resolved:
            self._moved.add(origin)  # the place of the file that the user has named
            return target
        raise redirect_refused(self.location, key, target)

    def _sent(self, origin: Origin, method: str, url: str, headers: Mapping[str, str]) -> tuple[Any, Any]:
        """Send a request over an idle connection, or a new one, and return the connection and the response."""
        from http.client import HTTPException

        if self._pid != os.getpid():  # connections of the process before a fork are not ours
            _close_all(self._idle)
            self._pid = os.getpid()
        while True:
            idle = self._idle.get(origin)
            try:
                connection, is_used = (idle or []).pop(), True
            except IndexError:
                connection, is_used = self._connected(origin), False
            try:
                if is_used:
                    connection.sock.settimeout(self._timeout)
                connection.response_class = partial(_response_until, time.monotonic() + self._timeout)
                connection.request(method, self._target(origin, url), headers=dict(headers))
                return connection, connection.getresponse()
            except (OSError, HTTPException) as error:
                connection.close()
                if not is_used or isinstance(error, TimeoutError):  # the server may have closed one that was idle
                    raise
            except BaseException:
                connection.close()
                raise

    def _give_back(self, origin: Origin, connection: Any, *, is_kept: bool) -> None:
        idle = self._idle.setdefault(origin, [])
        if is_kept and len(idle) < _IDLE:
            idle.append(connection)
        else:
            connection.close()

    def _target(self, origin: Origin, url: str) -> str:
        """Return what a request line has of a URL: its path, or all of it for a proxy."""
        parts = urlsplit(url)
        path = f"{parts.path or '/'}{f'?{parts.query}' if parts.query else ''}"
        if origin[0] == "http" and self._proxy_of(origin) is not None:
            return f"http://{parts.netloc.rpartition('@')[2]}{path}"
        return path

    def _proxy_of(self, origin: Origin) -> str | None:
        from urllib.request import getproxies, proxy_bypass

        scheme, host, _ = origin
        found: str | None = self._proxy or (None if proxy_bypass(host) else getproxies().get(scheme))
        return found and (found if "://" in found else f"http://{found}")

    def _connected(self, origin: Origin) -> Any:
        from http.client import HTTPConnection, HTTPSConnection

        scheme, host, port = origin
        proxy = self._proxy_of(origin)
        at, headers = (host, port), {}
        if proxy is not None:
            parts = urlsplit(proxy)
            at = parts.hostname or "", parts.port or 80
            if parts.username:
                login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
                headers["Proxy-Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
        if scheme == "https":
            connection: Any = HTTPSConnection(*at, timeout=self._connect_timeout, context=self._tls)
            if proxy is not None:
                connection.set_tunnel(host, port, headers)
        else:
            connection = HTTPConnection(*at, timeout=self._connect_timeout)
        connection.connect()
        connection.sock.settimeout(self._timeout)
        return connection

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        import ssl

        context = ssl.create_default_context()
        if self._trusts_all:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


class _TimedReader(io.RawIOBase):
    """The bytes of a response, which all have to come before a deadline."""

    def __init__(self, sock: Any, deadline: float) -> None:
        self._socket = sock
        self._deadline = deadline
        self._raw = sock.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Return what a response is read from; it asks a socket for it."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the response takes too long")
        self._socket.settimeout(left)
        count: int | None = self._raw.readinto(buffer)
        return count

    def close(self) -> None:
        if not self.closed:
            self._raw.close()
        super().close()


def _response_until(deadline: float, sock: Any, **options: Any) -> http.client.HTTPResponse:
    from http.client import HTTPResponse

    return HTTPResponse(_TimedReader(sock, deadline), **options)  # type: ignore[arg-type]


def _close_all(idle: dict[Origin, list[Any]]) -> None:
    """Close idle connections; in a fork only its own descriptors."""
    for connections in list(idle.values()):
        while connections:
            connections.pop().close()


def _check_status(response: Any, url: str) -> None:
    if response.status in (404, 410):
        raise FileNotFoundError(f"{url} does not exist")
    if response.status not in _SUCCESS:
        raise StatusError(response.status, response.reason, url)


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _seconds(value: Any, location: str) -> float:
    """Return a duration in seconds: a number, a timedelta, or a text such as ``30s``."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    match = _DURATION.fullmatch(str(value).strip())
    if match is None or not float(match[1]):
        remedy = 'For example {"client_options": {"timeout": "30s"}}.'
        raise UsageError(f"{value!r} is not a duration", store=location, remedy=remedy)
    unit = match[2] or "s"
    return float(match[1]) * _SECONDS.get(unit if unit in _SECONDS else unit[0], 1.0)
