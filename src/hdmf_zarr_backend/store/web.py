"""`WebStore`: web servers, by aiohttp, with full control over where requests go.

Libraries follow a redirect to any server, and send it the headers of the user. Here a redirect that leaves the server
of the file is refused, unless the user has named the file itself by the URL that is redirected, or allows it by
``external_links="follow"``; headers of the user go to the server of the file only.

Source: RFC 9110, sections 14 (ranges) and 15.4 (redirects); RFC 6454 for the origin of a URL.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import weakref
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from email.utils import parsedate_to_datetime
from inspect import signature
from typing import Any, TypeVar
from urllib.parse import quote, urljoin, urlsplit
from urllib.request import getproxies, proxy_bypass

from hdmf_zarr_backend.errors import LinkRefusedError, UsageError
from hdmf_zarr_backend.extras import install_command
from hdmf_zarr_backend.model.nodes import is_small_number
from hdmf_zarr_backend.store import remote
from hdmf_zarr_backend.store.base import Abilities, FileState, Range, check_value_size, node_of, size_limit

_REDIRECTS = (301, 302, 303, 307, 308)
_ABSENT = (404, 410)
_WITHOUT_HEAD = (401, 403, 405, 501)
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_MOST_REDIRECTS = 10
_RETRIES = 15
_PAUSES: dict[str, Any] = {"init_backoff": timedelta(seconds=0.2), "max_backoff": timedelta(seconds=3), "base": 2.0}
_PORTS = {"http": 80, "https": 443}
_SAFE = "/~!$&'()*+,;=:@"

B = TypeVar("B")
Origin = tuple[str, str, int]  # scheme, host and port of a URL
_Answer = tuple[Mapping[str, str], bytes]  # headers and body of a response


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


def redirect_refused(location: str, key: str, target: str) -> LinkRefusedError:
    """Return the error for a redirect to another server."""
    scheme, host, port = origin_of(target)
    what, path = (repr(key), node_of(key)) if key else ("a request", None)
    problem = f"the server redirects {what} to another one, {scheme}://{host}:{port}, which is not followed"
    how, how_cli = 'pass read_options=ReadOptions(external_links="follow")', "use --external-links follow"
    advice = "Open the file at its new URL, or {} if you trust the server."
    remedy, remedy_cli = advice.format(how), advice.format(how_cli)
    return LinkRefusedError(problem, store=location, path=path, remedy=remedy, remedy_cli=remedy_cli)


class WebStore(remote.RemoteStore):
    """One Zarr file, or the folder of a file, on a web server; read only.

    ``options`` are ``client_options`` and ``retry_config`` of obstore, and those of a request and, in
    ``client_kwargs``, of a session of aiohttp, as fsspec has them.
    """

    abilities = Abilities(write=False, change=False, listing=False, is_remote=True, why="a web server is read only")
    opens_by_url = True

    _absent = (FileNotFoundError,)

    def __init__(self, location: str, options: Mapping[str, Any]) -> None:
        super().__init__(location, options)
        try:
            self._origin = origin_of(location)
        except ValueError as error:
            raise UsageError(str(error), store=location, remedy="Check the URL.") from error
        self._settings = _settings(self.options, location)
        self._moved: set[Origin] = set()
        self._is_checked = self._is_resolved = False
        self._has_head = True

    def check_url(self) -> None:
        """Make sure that the libraries are installed, and have the options."""
        if self._is_checked:
            return
        try:
            import aiohttp
            import fsspec  # noqa: F401
        except ModuleNotFoundError as error:
            remedy = f"Install them with: {install_command('remote')}"
            raise UsageError("web servers need fsspec and aiohttp", store=self.location, remedy=remedy) from error
        names = {*signature(aiohttp.ClientSession._request).parameters, *_OF_FILES}
        names |= {"client_options", "client_kwargs", "retry_config"}
        unknown = next((name for name in self._settings["request"] if name not in names), None)
        if unknown is not None:
            raise remote.no_such_option(unknown, names, self.location, "aiohttp")
        self._is_checked = True

    # ---- the contract -----------------------------------------------------------------------------------------------

    def _get(self, key: str) -> bytes:
        return self._run(self._request("GET", key))[1]

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes]:
        # near ranges are read with one request; several ranges in a request are not supported by S3 and many servers
        extents = {number: (start, stop) for number, (start, stop) in enumerate(ranges) if stop is not None}
        runs: list[tuple[Range, Mapping[int, Range]]] = [*remote.coalesced(extents)]
        runs += [(each, {number: each}) for number, each in enumerate(ranges) if each[1] is None]

        async def requested() -> list[bytes]:
            return await asyncio.gather(*(self._range(key, *extent) for extent, _ in runs))

        parts = {}
        for ((first, _), run), value in zip(runs, self._run(requested()), strict=True):
            for number, (start, stop) in run.items():
                parts[number] = value[start - first : None if stop is None else stop - first]
        return [parts[number] for number in range(len(ranges))]

    async def _range(self, key: str, start: int, stop: int | None) -> bytes:
        """Return a range; one that counts from the end by the size of the value, where the server refuses that."""
        most = -start if stop is None else stop - start
        if most <= 0:
            return b""
        try:
            return (await self._request("GET", key, str(start) if stop is None else f"{start}-{stop - 1}", most))[1]
        except StatusError as error:
            # rangehttpserver and http-server answer like this to a range that counts from the end
            if stop is not None or error.status not in (400, 416):
                raise
            self._counts_from_end = False
            size = (await self._head(key)).size
            return await self._range(key, max(0, size + start), size)

    def beginning(self, key: str, count: int) -> bytes | None:
        """Return the first ``count`` bytes of the value of ``key``, also from a server without ranges."""
        return self._read(lambda: self._run(self._request("GET", key, most=count))[1][:count], key)

    def _state(self, key: str) -> FileState:
        return self._run(self._head(key))

    async def _head(self, key: str) -> FileState:
        if self._has_head:
            try:
                headers, _ = await self._request("HEAD", key)
                return _state_in(headers, headers.get("Content-Length"))
            except StatusError as error:
                if error.status not in _WITHOUT_HEAD:
                    raise
        headers, _ = await self._request("GET", key, "0-0", 1)  # a URL that is presigned for GET allows nothing else
        self._has_head = False
        return _state_in(headers, headers.get("Content-Range", "").rpartition("/")[2])

    # ---- requests ---------------------------------------------------------------------------------------------------

    def _run(self, request: Coroutine[Any, Any, B]) -> B:
        """Run requests on the event loop of fsspec, whose thread is that of this process after a fork, too."""
        try:
            self.check_url()
            from fsspec.asyn import get_loop

            return asyncio.run_coroutine_threadsafe(request, get_loop()).result()
        finally:
            request.close()

    async def _request(self, method: str, key: str, extent: str = "", most: int | None = None) -> _Answer:
        """Return the answer to a request, which is repeated while the server is busy; aiohttp does not do that.

        ``extent`` is the range of bytes, if any; ``most`` bytes of the body are read, by default what the limits allow.
        """
        import aiohttp

        retries = self._settings["retries"]
        pauses = _PAUSES | retries.get("backoff", {})
        pause, end = pauses["init_backoff"], time.monotonic() + retries["retry_timeout"].total_seconds()
        left = int(retries.get("max_retries", _RETRIES))
        while True:
            try:
                return await self._send(method, key, extent, most)
            except (aiohttp.ClientError, TimeoutError, StatusError) as error:
                is_busy = error.status in _BUSY if isinstance(error, StatusError) else True
                # no such host, or nothing listens there: users should learn that at once, not after 10 seconds
                is_unreachable = isinstance(error, aiohttp.ClientConnectorError)
                if is_unreachable or not is_busy or not left or time.monotonic() > end:
                    raise
            await asyncio.sleep(pause.total_seconds() * random.uniform(0.5, 1))  # noqa: S311 - clients differ
            pause, left = min(pause * pauses["base"], pauses["max_backoff"]), left - 1

    async def _send(self, method: str, key: str, extent: str, most: int | None) -> _Answer:
        """Send a request once, and again where it is redirected to if that is allowed."""
        from yarl import URL

        # a query may grant access, as in a presigned URL, so each request has it
        root, mark, query = self.location.partition("?")
        url = f"{quote(root, safe=_SAFE + '%?#[]')}/{quote(key, safe=_SAFE)}{mark}{query}"
        session = self._session()
        for _ in range(_MOST_REDIRECTS):
            origin = origin_of(url)
            own: dict[str, Any] = self._settings["request"] if origin == self._origin else {"proxy": _proxy_of(origin)}
            # a compressed body would have other ranges, and a size that nobody has checked
            headers = {"User-Agent": self._settings["agent"], **own.get("headers", {}), "Accept-Encoding": "identity"}
            headers |= {"Range": f"bytes={extent}"} if extent else {}
            options = {**own, "headers": headers, "allow_redirects": False}
            async with session.request(method, URL(url, encoded=True), **options) as response:
                target = response.headers.get("Location") if response.status in _REDIRECTS else None
                if target is None:
                    self._is_resolved = True
                    return await self._answer(response, key, most, is_range=bool(extent))
            url = urljoin(url, target)
            try:
                origin = origin_of(url)
            except ValueError as error:
                raise OSError(f"a redirect to {url!r}") from error
            if origin == self._origin or origin in self._moved or self.read_rules.external_links == "follow":
                continue
            # the user has named this file by its URL, so the server may tell once where it is, as that of DANDI does
            if key == self.named_key and not self.read_rules.is_linked and not self._is_resolved:
                self._moved.add(origin)
                continue
            raise redirect_refused(self.location, key, url)
        raise OSError(f"more than {_MOST_REDIRECTS} redirects")

    async def _answer(self, response: Any, key: str, most: int | None, *, is_range: bool) -> _Answer:
        """Return what a response says; of its body ``most`` bytes and those that came with them."""
        if response.status in _ABSENT:
            raise FileNotFoundError(f"{response.url} does not exist")
        if response.status not in (200, 206):
            raise StatusError(response.status, response.reason or "", str(response.url))
        if is_range and response.status != 206:
            raise OSError("range request not supported")
        if most is None and response.method == "GET":
            check_value_size(self, key, response.content_length or 0)
            most = int(getattr(self.read_rules.limits, size_limit(key))) + 1
        pieces: list[bytes] = []
        async for piece in response.content.iter_any():
            pieces.append(piece)
            if most is not None and (most := most - len(piece)) <= 0:
                break
        return response.headers, b"".join(pieces)

    def _session(self) -> Any:
        """Return the session of aiohttp, whose connections are used again."""
        import aiohttp

        if self._client is None or self._pid != os.getpid():
            # kept, because collecting it would close connections that are the parent's
            if self._client is not None:
                _forked.append(self._client)
            timeout = aiohttp.ClientTimeout(**self._settings["timeout"])
            options = {"timeout": timeout, **self._settings["session"]}
            jar = aiohttp.DummyCookieJar()  # a cookie of one server is not for another, where a redirect may lead
            connector = aiohttp.TCPConnector(limit=remote.REQUESTS, ssl=not self._settings["trusts_all"])
            self._client = aiohttp.ClientSession(connector=connector, cookie_jar=jar, auto_decompress=False, **options)
            self._pid = os.getpid()
            weakref.finalize(self, _close, self._client, asyncio.get_running_loop(), self._pid)
        return self._client


def _state_in(headers: Mapping[str, str], size: str | None) -> FileState:
    """Return the state of a file as the headers of an answer say it."""
    if size is None or not is_small_number(size):
        raise OSError(f"the server does not tell the size of the file, but {size!r}")
    moment = None
    with suppress(ValueError, TypeError):  # no date, or none that can be read
        moment = parsedate_to_datetime(headers.get("Last-Modified") or "")
    return remote.state_of(size, headers.get("ETag"), moment)


_forked: list[Any] = []


def _close(session: Any, loop: Any, pid: int) -> None:
    """Close the connections of a session; not in a fork."""
    if pid == os.getpid() and loop.is_running():
        closed = asyncio.run_coroutine_threadsafe(session.close(), loop)
        # garbage collection may run in any thread; in that of the event loop, waiting would never end
        if threading.current_thread().name != "fsspecIO":
            with suppress(TimeoutError):
                closed.result(1)


# ---- options --------------------------------------------------------------------------------------------------------

_OF_FILES = frozenset({
    "asynchronous", "batch_size", "block_size", "cache_options", "cache_type", "encoded", "get_client",
    "listings_expiry_time", "loop", "max_paths", "same_scheme", "simple_links", "size_policy", "skip_instance_cache",
    "use_listings_cache",
})  # fmt: skip
"""Options of fsspec that say nothing about requests."""


def _settings(options: Mapping[str, Any], location: str) -> dict[str, Any]:
    """Return the retries, and the arguments of aiohttp for a session and for each request to the server of the file."""
    request = {name: value for name, value in options.items() if name not in _OF_FILES}
    retries = remote.retry_settings(request.pop("retry_config", None), location)
    client, session = (dict(request.pop(name, None) or {}) for name in ("client_options", "client_kwargs"))
    # what only the server of the file may get: a session would send it wherever a redirect leads
    request |= {name: session.pop(name) for name in ("auth", "cookies") if name in session}
    headers = {**(client.get("default_headers") or {}), **session.pop("headers", {}), **request.get("headers", {})}
    request["headers"] = {
        str(name): value.decode("latin-1") if isinstance(value, bytes) else str(value)
        for name, value in headers.items()
    }
    total = _seconds(client.get("timeout", "30s"), location)
    connect = min(total, _seconds(client.get("connect_timeout", "10s"), location))
    request.setdefault("proxy", _proxy_of(origin_of(location), client.get("proxy_url")))
    return {
        "retries": retries,
        "session": session,
        "trusts_all": str(client.get("allow_invalid_certificates", False)).lower() == "true",
        "request": request,
        "agent": str(client.get("user_agent", "hdmf-zarr-backend")),
        "timeout": {"total": total, "sock_connect": connect},
    }


def _proxy_of(origin: Origin, given: str | None = None) -> str | None:
    proxy = given or (None if proxy_bypass(origin[1]) else getproxies().get(origin[0]))
    return proxy and (proxy if "://" in proxy else f"http://{proxy}")


def _seconds(value: Any, location: str) -> float:
    try:
        seconds = remote.duration(value).total_seconds()
    except (TypeError, ValueError, OverflowError):
        seconds = 0
    if seconds <= 0:
        remedy = 'For example {"client_options": {"timeout": "30s"}}.'
        raise UsageError(f"{value!r} is not a duration", store=location, remedy=remedy)
    return seconds
