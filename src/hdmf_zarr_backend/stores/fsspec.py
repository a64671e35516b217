"""`FsspecStore`: all URLs of fsspec, such as ``memory://``, ``simplecache::https://``, and clouds without obstore."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote, urljoin

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.extras import install_command
from hdmf_zarr_backend.model.link_sources import AZURE_SCHEMES, GOOGLE_SCHEMES, S3_SCHEMES, WEB_SCHEMES
from hdmf_zarr_backend.stores.base import Abilities, FileState, Range, Write, size_limit
from hdmf_zarr_backend.stores.failures import library_errors, library_errors_named, raise_if_not_absent, status_of
from hdmf_zarr_backend.stores.memory import not_shared
from hdmf_zarr_backend.stores.remote import RemoteStore, state_of

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError)
_WEB_TIMEOUT = 30.0
_PART_BYTES = 8 * 2**20  # 10,000 parts, the most that S3 takes, are 80 GB; Google wants multiples of 256 KiB
# the libraries of these write a file in parts, and an unfinished upload leaves no object
_IN_PARTS = S3_SCHEMES | GOOGLE_SCHEMES | AZURE_SCHEMES
_NO_SUCH_RANGE = 416
# how servers report, through libraries without an error for it, that a key to be created exists
_EXISTS = ("PreconditionFailed", "pre-conditions", "412")

# by the protocol that a chain begins with
_READ_ONLY = {
    "http": Abilities(write=False, change=False, listing=False, is_remote=True, why="a web server is read only"),
    "reference": Abilities(write=False, change=False, is_remote=True, why="a file of references is read only"),
    "zip": Abilities(write=False, change=False, why="an archive behind a URL is read only"),
    "cache": Abilities(write=False, change=False, is_remote=True, why="what is read through a cache is read only"),
}
_GROUPS = {
    "https": "http", "tar": "zip", "libarchive": "zip",
    "filecache": "cache", "blockcache": "cache", "simplecache": "cache",
}  # fmt: skip


class FsspecStore(RemoteStore):
    """One Zarr file of a file system of fsspec."""

    opens_by_url = True
    stream_bytes = 3 * _PART_BYTES  # the collected bytes, and the copies that the library makes for a request

    _absent = _ABSENT

    def __init__(self, location: str, options: Mapping[str, Any], filesystem: Any = None, root: str = "") -> None:
        super().__init__(location, options)
        self._given, self._root = filesystem, root
        self._scheme = first = location.partition("::")[0].partition("://")[0]
        self.streams_values = first in _IN_PARTS  # elsewhere fsspec writes a complete value
        abilities = _READ_ONLY.get(_GROUPS.get(first, first)) or Abilities(is_remote=first not in ("memory", "file"))
        # a cache in front of a web server cannot list either
        behind = location.rpartition("::")[2]
        if abilities.listing and abilities.is_remote and behind.startswith("http") and first != "reference":
            abilities = _READ_ONLY["http"]
        self.abilities = abilities

    def __getstate__(self) -> dict[str, Any]:
        if self.location.startswith("memory://"):
            raise not_shared(self.location)
        return super().__getstate__()

    def neighbour(self, location: str) -> FsspecStore | None:
        if self._given is None or location.rpartition("://")[0] != self.location.rpartition("://")[0]:
            return None
        return FsspecStore(location, {}, self._given, self._given._strip_protocol(location))

    @property
    def _filesystem(self) -> Any:
        if self._given is not None:
            return self._given
        if self._client is None:
            from tarfile import TarError  # of archives, which this opens
            from zipfile import BadZipFile

            try:
                from fsspec.core import url_to_fs
            except ModuleNotFoundError as error:
                remedy = f"Install it with: {install_command('remote')}"
                raise UsageError("URLs need fsspec", store=self.location, remedy=remedy) from error
            try:
                self._client, self._root = url_to_fs(self.location, **self._options())
            except (ImportError, ValueError, TypeError, IsADirectoryError, BadZipFile, TarError) as error:
                # an unknown protocol, missing options, or another file than an archive
                remedy, remedy_cli = "Check the URL, and storage_options.", "Check the URL, and the values of -O."
                if isinstance(error, ImportError):
                    remedy = remedy_cli = "Install the library that it needs."
                elif self._scheme == "reference":
                    remedy = remedy_cli = "Name the file of references: 'reference::/folder/references.json'."
                problem = f"fsspec cannot open this ({error})"
                raise UsageError(problem, store=self.location, remedy=remedy, remedy_cli=remedy_cli) from error
            if self.location.startswith("dir::"):
                self._root = ""  # the folder that follows is the root of that file system
        return self._client

    def _options(self) -> dict[str, Any]:
        """Return the options of the file system; those of a web server bound its silence, and its redirects."""
        options = dict(self.options)
        behind = self.location.rpartition("::")[2].partition("://")[0]
        if behind in WEB_SCHEMES:
            import aiohttp

            options["skip_instance_cache"] = True  # its client knows the rules of this store
            web = options[behind] = dict(options.get(behind, {}))
            client = dict(web.get("client_kwargs", {}))
            guards = [*client.pop("trace_configs", ()), self._redirect_guard(client.get("headers") or {})]
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_WEB_TIMEOUT, sock_read=_WEB_TIMEOUT)
            web["client_kwargs"] = {"timeout": timeout, **client, "trace_configs": guards}
        return options

    def _redirect_guard(self, headers: Mapping[str, str]) -> Any:
        """Return what makes aiohttp stay on the server of the file; see `stores.web`."""
        import aiohttp

        from hdmf_zarr_backend.stores.web import origin_of, redirect_refused

        async def check(session: Any, context: Any, params: Any) -> None:
            target = urljoin(str(params.url), params.response.headers.get("Location", ""))
            if origin_of(target) == origin_of(str(params.url)):
                return
            if self.read_rules.external_links != "follow":
                params.response.close()
                raise redirect_refused(self.location, "", target)
            for name in headers:
                params.headers.pop(name, None)

        guard = aiohttp.TraceConfig()
        guard.on_request_redirect.append(check)
        return guard

    def check_url(self) -> None:
        """Make sure that fsspec can open the URL, without a request if it is not in an archive."""
        with library_errors_named(self.location, "", "read"):
            self._filesystem  # noqa: B018 - creates it

    def _path(self, key: str) -> str:
        self._filesystem  # noqa: B018 - sets the root
        root = self._root
        if self.location.startswith("http"):  # of a file system that a user has opened: a key is not a part of a query
            root, mark, query = root.partition("?")
            return f"{root.rstrip('/')}/{quote(key)}{mark}{query}"
        return f"{root.rstrip('/')}/{key}" if root else key

    def _get(self, key: str) -> bytes:
        try:
            most = getattr(self.read_rules.limits, size_limit(key))
            return bytes(self._filesystem.cat_file(self._path(key), start=0, end=most + 1))
        except _ABSENT:
            raise
        except library_errors() as error:
            is_of_range = status_of(error) == _NO_SUCH_RANGE or "range" in str(error).lower()
            if is_of_range and self._state(key).size == 0:
                return b""  # an empty value has no ranges
            raise

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes]:
        path = self._path(key)
        if self._scheme in AZURE_SCHEMES and any(start < 0 for start, _ in ranges):  # which counts from the start only
            size = int(self._filesystem.info(path)["size"])
            ranges = [slice(start, stop).indices(size)[:2] for start, stop in ranges]
        if len(ranges) == 1:
            return [bytes(self._filesystem.cat_file(path, start=ranges[0][0], end=ranges[0][1]))]
        starts, ends = [start for start, _ in ranges], [stop for _, stop in ranges]
        parts = self._filesystem.cat_ranges([path] * len(ranges), starts, ends, on_error="return")
        for part in parts:
            if isinstance(part, BaseException):
                raise part
        return [bytes(part) for part in parts]

    def _state(self, key: str) -> FileState:
        info = self._filesystem.info(self._path(key))
        changed = info.get("LastModified") or info.get("mtime") or info.get("created")
        return state_of(info["size"], info.get("ETag") or info.get("etag"), changed)

    def _put_value(self, key: str, value: bytes) -> None:
        self._filesystem.pipe_file(self._new_path(key), value)

    def _new_path(self, key: str) -> str:
        """Return the path of a key, after making its folder if the file system is the local one, or a part of it."""
        path, filesystem = self._path(key), self._filesystem
        while inner := getattr(filesystem, "sync_fs", None) or getattr(filesystem, "fs", None):
            filesystem = inner
        if is_local_filesystem(filesystem):
            self._filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)
        return path

    @contextmanager
    def _stream(self, key: str) -> Iterator[Write]:
        if not self.streams_values:
            with super()._stream(key) as append:
                yield append
            return
        self._refuse_change()
        path, owner = self._path(key), os.getpid()
        file = self._called(lambda: self._filesystem.open(path, "wb", block_size=_PART_BYTES), key, "written")

        def write(data: bytes) -> None:
            for start in range(0, len(data), _PART_BYTES):  # collected bytes become one part of any size
                file.write(data[start : start + _PART_BYTES])

        try:
            yield lambda data: self._called(lambda: write(data), key, "written")
            self._called(file.close, key, "written")  # only this creates the object
        except BaseException:
            if owner == os.getpid():  # ending a fork is not a failure
                _abandon(file)
            raise

    def _put_if_absent(self, key: str, value: bytes) -> bool | None:
        path = self._new_path(key)
        try:
            self._filesystem.pipe_file(path, value, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            if any(text in str(error) for text in _EXISTS):
                return False
            raise
        return True

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._filesystem.rm_file(self._path(key))
            except _ABSENT as error:
                raise_if_not_absent(error)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        filesystem = self._filesystem
        filesystem.invalidate_cache()
        top = self._path(prefix).rstrip("/")
        try:
            entries = filesystem.find(top, detail=True)
        except _ABSENT as error:
            raise_if_not_absent(error)
            return
        start = len(self._root.strip("/"))
        for path, entry in entries.items():
            inside = path.strip("/")
            if inside != top.strip("/"):  # find() of a file returns the file itself
                yield inside[start:].lstrip("/"), int(entry.get("size") or 0)


def store_of_filesystem(filesystem: Any, path: str) -> FsspecStore | None:
    """Return the store of a folder in a file system of fsspec; None if that is not one, or is asynchronous."""
    if not hasattr(filesystem, "unstrip_protocol") or getattr(filesystem, "asynchronous", False):
        return None
    location = str(filesystem.unstrip_protocol(path)).rstrip("/")
    return FsspecStore(location, {}, filesystem, str(path))


def is_local_filesystem(filesystem: Any) -> bool:
    """Return whether a file system of fsspec is that of this machine."""
    protocol = getattr(filesystem, "protocol", ())
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _abandon(file: Any) -> None:
    """Abort an upload in parts; garbage collection would complete it, and create an object."""
    with suppress(*library_errors()):  # if the server is unreachable, it drops the parts itself
        file.discard()
    file.closed = True
    with suppress(*library_errors()):
        file.close()  # closes connections
