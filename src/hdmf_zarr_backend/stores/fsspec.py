"""Every other URL that fsspec knows: ``memory://``, chains such as ``simplecache::https://``; clouds without obstore.

Source: issue "Format 3, shards, and any store, near or far", part 4.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.stores.base import Abilities, Range, Write
from hdmf_zarr_backend.stores.failures import library_errors, status_of, tell_of_bucket
from hdmf_zarr_backend.stores.file_state import FileState, plain_tag
from hdmf_zarr_backend.stores.memory import OF_THIS_PROCESS
from hdmf_zarr_backend.stores.obstore_settings import AZURE_SCHEMES, GOOGLE_SCHEMES, S3_SCHEMES
from hdmf_zarr_backend.stores.remote import FarKeys
from hdmf_zarr_backend.stores.retries import Retries

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError)
_WEB_TIMEOUT = 30.0
_PART_BYTES = 8 * 2**20  # 10,000 parts, the most that S3 takes, are 80 GB; Google wants multiples of 256 KiB
# the libraries of these write a file in parts, and an upload that is not ended leaves no object
_IN_PARTS = S3_SCHEMES | GOOGLE_SCHEMES | AZURE_SCHEMES
_NO_SUCH_RANGE = 416
# how servers say, through libraries that have no error for it, that a key is there that was not to be
_IS_THERE = ("PreconditionFailed", "pre-conditions", "412")

# by the protocol that a chain begins with
_READ_ONLY = {
    "http": Abilities(write=False, change=False, listing=False, is_far=True, why="a web server is read only"),
    "reference": Abilities(write=False, change=False, is_far=True, why="a file of references is read only"),
    "zip": Abilities(write=False, change=False, why="a zip file behind a URL is read only"),
    "cache": Abilities(write=False, change=False, is_far=True, why="what is read through a cache is read only"),
}
_NEEDED = {"reference": "Name the file of references: 'reference::/folder/references.json'."}
_GROUPS = {"https": "http", "tar": "zip", "filecache": "cache", "blockcache": "cache", "simplecache": "cache"}


class FsspecKeys(FarKeys):
    """One Zarr file of a file system of fsspec.

    Parameters
    ----------
    location : str
        URL, perhaps a chain with ``::``, without a trailing slash.
    options : mapping
        ``storage_options`` as fsspec takes them.
    filesystem : fsspec.AbstractFileSystem, optional
        Instead of the one that the URL and the options mean.
    root : str, optional
        Path of the file in ``filesystem``.
    """

    opens_by_url = True
    stream_bytes = 3 * _PART_BYTES
    """What is held of a value that is streamed: what is collected, and what the library makes of it for a request."""

    def __init__(
        self, location: str, options: Mapping[str, Any], *, filesystem: Any = None, root: str | None = None
    ) -> None:
        super().__init__(location, options)
        self._given = filesystem is not None
        self._fs: Any = filesystem
        self._root = root
        first = location.partition("::")[0].partition("://")[0]
        self._scheme = first
        self.streams_values = first in _IN_PARTS  # elsewhere fsspec writes a value as a whole
        self._retries = Retries.of(self.options.get("retry_config"), location)
        abilities = _READ_ONLY.get(_GROUPS.get(first, first)) or Abilities(is_far=first not in ("memory", "file"))
        # a cache in front of a web server has no more of a listing than that
        behind = location.rpartition("::")[2]
        if abilities.listing and abilities.is_far and behind.startswith("http") and first != "reference":
            abilities = _READ_ONLY["http"]
        self.abilities = abilities

    def __reduce__(self) -> tuple[Any, ...]:
        if self.location.startswith("memory://"):
            raise UsageError(
                OF_THIS_PROCESS,
                store=self.location,
                remedy='Use executor="threads".',
            )
        rules = {"read_rules": self.read_rules}
        if self._given:
            return _of_filesystem, (self.location, self._fs, self._root), rules
        return FsspecKeys, (self.location, self.options), rules

    def neighbour(self, location: str) -> FsspecKeys | None:
        """Return the keys of another file of a file system that was given; None where a URL opens it."""
        if not self._given or location.rpartition("://")[0] != self.location.rpartition("://")[0]:
            return None
        return FsspecKeys(location, {}, filesystem=self._fs, root=self._fs._strip_protocol(location))

    @property
    def _filesystem(self) -> Any:
        if self._fs is None:
            try:
                from fsspec.core import url_to_fs
            except ModuleNotFoundError as error:
                raise UsageError(
                    "URLs need fsspec", store=self.location, remedy="pip install 'hdmf-zarr-backend[remote]'"
                ) from error
            options = {name: value for name, value in self.options.items() if name != "retry_config"}
            if self.location.startswith("http"):
                options["client_kwargs"] = {**_web_timeout(), **options.get("client_kwargs", {})}
            if self._scheme in S3_SCHEMES:  # botocore would ask a server that is not there five times
                options["config_kwargs"] = {"retries": {"total_max_attempts": 1}, **options.get("config_kwargs", {})}
            try:
                self._fs, self._root = url_to_fs(self.location, **options)
            except ImportError as error:
                raise UsageError(
                    f"fsspec cannot open this ({error})", store=self.location, remedy="Install what it asks for."
                ) from error
            except (ValueError, TypeError) as error:  # no such protocol, or what it needs was not given
                remedy = _NEEDED.get(self._scheme, "Check the URL, and storage_options.")
                raise UsageError(f"fsspec cannot open this ({error})", store=self.location, remedy=remedy) from error
            if self.location.startswith("dir::"):
                self._root = ""  # the folder that follows is the root of that file system, and not a path in it as well
        return self._fs

    def check_url(self) -> None:
        """Make sure that fsspec knows what the URL means; nothing is asked of a server.

        Raises
        ------
        UsageError
            It does not, or lacks a library.
        """
        self._filesystem  # noqa: B018 - it is made here

    def _path(self, key: str) -> str:
        self.check_url()  # which finds the root
        root = self._root
        if self.location.startswith("http"):  # the key is no part of a query
            from urllib.parse import quote

            root, mark, query = str(root).partition("?")
            return f"{root.rstrip('/')}/{quote(key)}{mark}{query}"
        return f"{root.rstrip('/')}/{key}" if root else key

    def _get(self, key: str) -> bytes | None:
        try:
            return bytes(self._filesystem.cat_file(self._path(key), start=0, end=self._most + 1))
        except _ABSENT as error:
            tell_of_bucket(error)
            return None
        except library_errors() as error:
            if _is_of_range(error) and self._size(key) == 0:
                return b""  # a server has no range in what is empty
            raise

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        path = self._path(key)
        try:
            if self._scheme in AZURE_SCHEMES and any(start < 0 for start, _ in ranges):
                ranges = self._from_the_start(path, ranges)
            if len(ranges) == 1:
                return [bytes(self._filesystem.cat_file(path, start=ranges[0][0], end=ranges[0][1]))]
            starts, ends = [start for start, _ in ranges], [stop for _, stop in ranges]
            parts = self._filesystem.cat_ranges([path] * len(ranges), starts, ends, on_error="return")
            for part in parts:
                if isinstance(part, BaseException):
                    raise part
            return [bytes(part) for part in parts]
        except _ABSENT as error:
            tell_of_bucket(error)
            return None

    def _from_the_start(self, path: str, ranges: Sequence[Range]) -> list[Range]:
        """Return ranges without any that count from the end, which Azure does not know."""
        size = int(self._filesystem.info(path)["size"])
        return [slice(start, stop).indices(size)[:2] for start, stop in ranges]

    def _size(self, key: str) -> int | None:
        try:
            return int(self._filesystem.info(self._path(key))["size"])
        except _ABSENT as error:
            tell_of_bucket(error)
            return None

    def _state(self, key: str) -> FileState | None:
        try:
            found = self._filesystem.info(self._path(key))
        except _ABSENT as error:
            tell_of_bucket(error)
            return None
        tag = plain_tag(next((found[name] for name in ("ETag", "etag") if found.get(name)), None))
        changed: Any = next((found[name] for name in ("LastModified", "mtime", "created") if found.get(name)), None)
        seconds = changed.timestamp() if hasattr(changed, "timestamp") else changed
        time = int(seconds) * 10**9 if isinstance(seconds, (int, float)) else None
        return FileState(int(found["size"]), tag, time)

    def _set(self, key: str, value: bytes) -> None:
        path = self._path(key)
        self._make_folder(path)
        self._filesystem.pipe_file(path, value)

    def _make_folder(self, path: str) -> None:
        """Make the folder of a file, where it would have to be there."""
        if is_on_disk(self._filesystem):
            self._filesystem.makedirs(path.rpartition("/")[0], exist_ok=True)

    @contextmanager
    def stream(self, key: str) -> Iterator[Write]:
        """Give a function that appends to a new value of ``key``: an upload in parts where the library has one."""
        if not self.streams_values:
            with super().stream(key) as append:
                yield append
            return
        self._refuse_change()
        path, owner = self._path(key), os.getpid()
        file = self._called(
            lambda: self._filesystem.open(path, "wb", block_size=_PART_BYTES), key, "written", once=True
        )

        def write(data: bytes) -> None:
            for start in range(0, len(data), _PART_BYTES):  # what is collected becomes one part, however large
                file.write(data[start : start + _PART_BYTES])

        try:
            yield lambda data: self._called(lambda: write(data), key, "written", once=True)
            self._called(file.close, key, "written", once=True)  # only now is it there
        except BaseException:
            if owner == os.getpid():  # a fork that ends has not failed
                _abandon(file)
            raise

    def _create(self, key: str, value: bytes) -> bool | None:
        path = self._path(key)
        self._make_folder(path)
        try:
            self._filesystem.pipe_file(path, value, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            if any(word in str(error) for word in _IS_THERE):
                return False
            raise
        return True

    def _delete(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._retried(partial(self._filesystem.rm_file, self._path(key)))
            except _ABSENT as error:
                tell_of_bucket(error)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        filesystem = self._filesystem
        filesystem.invalidate_cache()
        top = self._path(prefix).rstrip("/")
        try:
            found = filesystem.find(top, detail=True)
        except _ABSENT as error:
            tell_of_bucket(error)
            return
        start = len(str(self._root).strip("/"))
        for path, entry in found.items():
            inside = path.strip("/")
            # find() of what is a file gives the file itself
            if inside != top.strip("/"):
                yield inside[start:].lstrip("/"), int(entry.get("size") or 0)


def is_on_disk(filesystem: Any) -> bool:
    """Tell whether a file system of fsspec is that of this machine, or a part of it."""
    inner = filesystem
    while inner is not None:
        filesystem, inner = inner, getattr(inner, "sync_fs", None) or getattr(inner, "fs", None)
    protocol = getattr(filesystem, "protocol", ())
    return "file" in ((protocol,) if isinstance(protocol, str) else protocol)


def _abandon(file: Any) -> None:
    """Give up an upload in parts; one that was left to be collected as garbage would be ended, and become an object."""
    with suppress(*library_errors()):  # the server may be gone, and then forgets the parts by itself
        file.discard()
    file.closed = True
    with suppress(*library_errors()):
        file.close()  # what else it holds, such as connections


def _is_of_range(error: BaseException) -> bool:
    return status_of(error) == _NO_SUCH_RANGE or "range" in str(error).lower()


def _of_filesystem(location: str, filesystem: Any, root: str) -> FsspecKeys:
    return FsspecKeys(location, {}, filesystem=filesystem, root=root)


def _web_timeout() -> dict[str, Any]:
    """Return a bound of the time between two pieces of an answer; a large chunk may take as long as it needs."""
    import aiohttp

    return {"timeout": aiohttp.ClientTimeout(total=None, sock_connect=_WEB_TIMEOUT, sock_read=_WEB_TIMEOUT)}
