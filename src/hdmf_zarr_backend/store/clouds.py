"""Stores by the libraries obstore and fsspec: `ObjectStore` and `FsspecStore`, and which of them opens a URL.

`s3://`, `gs://` and `az://` need only the wheel of obstore, which also repeats requests, and sends no additional ones.
``storage_options`` are those of obstore, and equivalent names of s3fs, gcsfs and adlfs. fsspec opens other URLs, such
as ``memory://`` and ``simplecache::https://``, and clouds whose options or credentials only it knows. Web servers are
read by `store.web`; obstore's settings for one are for zarr's own view of a file.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from inspect import signature
from typing import Any, NamedTuple, TypeVar
from urllib.parse import quote, urljoin

from hdmf_zarr_backend.errors import StoreError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.extras import install_command
from hdmf_zarr_backend.model.links import AZURE_SCHEMES, CACHES, GOOGLE_SCHEMES, S3_SCHEMES, WEB_SCHEMES, is_url
from hdmf_zarr_backend.store import base
from hdmf_zarr_backend.store.local import LocalStore, read_part
from hdmf_zarr_backend.store.memory import not_shared
from hdmf_zarr_backend.store.remote import RemoteStore, at_once, no_such_option, retry_settings, state_of

_MULTIPART_BYTES = 64 * 2**20
_PART_BYTES = 8 * 2**20  # 10,000 parts, the most that S3 takes, are 80 GB; Google wants multiples of 256 KiB
_PARTS_AT_ONCE = 2
_DELETED_AT_ONCE = 1000

ANY_STORE = frozenset({"client_options", "retry_config", "credential_provider"})
"""Options of every store of obstore that are not settings of a service."""


class ObjectStore(RemoteStore):
    """One Zarr file of an object store."""

    abilities = base.Abilities(is_remote=True, control_characters=False)  # not allowed in paths of obstore
    opens_by_url = True
    stream_bytes = (_PARTS_AT_ONCE + 1) * _PART_BYTES

    _absent = (FileNotFoundError,)

    def __init__(self, location: str, settings: dict[str, Any], options: Mapping[str, Any]) -> None:
        super().__init__(location, options)
        self._settings = settings
        self._scheme = location.partition("://")[0]
        self._counts_from_end = self._scheme not in AZURE_SCHEMES

    @property
    def opened(self) -> Any:
        """The store of obstore."""
        if self._client is None:
            from obstore import store as stores

            kind, rest = _kind_of(self._scheme), self.location.partition("://")[2]
            scheme = "gs" if kind is _GOOGLE else self._scheme
            # before 0.9, obstore loses a prefix behind az://
            if kind is _AZURE and scheme != "abfss":
                scheme = "abfs"
            # only a web address is escaped: "#1" is a part of a name
            rest = rest if kind is None else quote(rest, safe="/@:")
            cls = getattr(stores, kind.store if kind is not None else "HTTPStore")
            self._client, self._pid = cls.from_url(f"{scheme}://{rest}", **self._settings), os.getpid()
        # the threads of obstore's runtime do not survive a fork: a request would wait for ever
        elif self._pid != os.getpid():
            problem = "this file was opened before the process was forked, and obstore does not work in a fork"
            remedy = "Start workers with the method 'spawn' or 'forkserver', or open the file in the worker."
            raise StoreError(problem, store=self.location, remedy=remedy)
        return self._client

    def _get(self, key: str) -> bytes:
        response = self.opened.get(key)
        # before the body is read: a crafted file must not fill the memory
        base.check_value_size(self, key, int(response.meta["size"]))
        return bytes(response.bytes())

    def _get_ranges(self, key: str, ranges: Sequence[base.Range]) -> list[bytes]:
        client, parts = self.opened, []
        # near ranges become one request, but none of them may count from the end
        if all(stop is not None for _, stop in ranges):
            starts, ends = zip(*ranges, strict=True)
            return [bytes(part) for part in client.get_ranges(key, starts=starts, ends=ends)]
        for start, stop in ranges:
            if stop is None:
                parts.append(client.get(key, options={"range": {"suffix": -start}}).bytes())
            else:
                parts.append(client.get_range(key, start=start, end=stop))
        return list(map(bytes, parts))

    def _state(self, key: str) -> base.FileState:
        head = self.opened.head(key)
        return state_of(head["size"], head.get("e_tag"), head["last_modified"])

    def _put_value(self, key: str, value: bytes) -> None:
        self.opened.put(key, value, use_multipart=None if len(value) > _MULTIPART_BYTES else False)

    @contextmanager
    def _stream(self, key: str) -> Iterator[base.Write]:
        """Yield a function that appends to a new value of ``key``: an upload in parts, left unfinished by an error."""
        from obstore import open_writer

        self._refuse_change()
        sizes: Any = {"buffer_size": _PART_BYTES, "max_concurrency": _PARTS_AT_ONCE}
        file = self._call(lambda: open_writer(self.opened, key, **sizes), key, "written")
        yield lambda data: self._call(lambda: file.write(data), key, "written")
        # only this creates the object, so that after an error readers still get the old value
        self._call(file.close, key, "written")

    def _put_absent(self, key: str, value: bytes) -> bool | None:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        try:
            self.opened.put(key, value, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except NotSupportedError:
            return None
        return True

    def _remove(self, keys: Sequence[str]) -> None:
        def delete(some: Sequence[str]) -> None:
            try:
                self.opened.delete(list(some))
            except FileNotFoundError as error:
                base.raise_if_not_absent(error)
                # except on S3, keys after an absent one may not have been deleted
                for key in some if len(some) > 1 else ():
                    delete([key])

        # obstore deletes up to 1,000 keys with one request, but sends one for each key of Google
        if self._scheme in GOOGLE_SCHEMES:
            list(at_once(lambda key: delete([key]), keys))
            return
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            delete(keys[start : start + _DELETED_AT_ONCE])

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        return ((entry["path"], entry["size"]) for batch in self.opened.list(prefix or None) for entry in batch)


# ---- fsspec ---------------------------------------------------------------------------------------------------------

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError, KeyError)
_WEB_TIMEOUT = 30.0
# the libraries of these write a file in parts, and an unfinished upload leaves no object
_IN_PARTS = S3_SCHEMES | GOOGLE_SCHEMES | AZURE_SCHEMES
_NO_SUCH_RANGE = 416
# how servers report, through libraries without an error for it, that a key to be created exists
_EXISTS = ("PreconditionFailed", "pre-conditions")
_PRECONDITION_FAILED = 412
_FETCHING: list[Any] = []  # locks, one of which is held while a cache fetches a value


def _new_locks() -> None:
    """Set the locks, also in a fork, whose parent may have held some in threads that do not exist there."""
    _FETCHING[:] = [threading.RLock() for _ in range(64)]


_new_locks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_new_locks)

B = TypeVar("B")

_OF_OTHERS = base.Abilities(write=False, change=False, is_remote=True)
_READ_ONLY = {  # by the protocol that a chain begins with
    "http": replace(_OF_OTHERS, listing=False, why="a web server is read only"),
    "reference": replace(_OF_OTHERS, why="a file of references is read only"),
    "zip": replace(_OF_OTHERS, is_remote=False, why="an archive behind a URL is read only"),
    "cache": replace(_OF_OTHERS, why="what is read through a cache is read only"),
    "dandi": replace(_OF_OTHERS, why="the DANDI archive is read only by its URLs"),
}
_GROUPS = {"https": "http", **dict.fromkeys(("tar", "libarchive"), "zip")}
_GROUPS |= dict.fromkeys(CACHES, "cache")


class FsspecStore(RemoteStore):
    """One Zarr file of a file system of fsspec."""

    opens_by_url = True

    _absent = _ABSENT

    def __init__(self, location: str, options: Mapping[str, Any], filesystem: Any = None, root: str = "") -> None:
        super().__init__(location, options)
        self._given, self._root = filesystem, root
        self._scheme = first = location.partition("::")[0].partition("://")[0]
        # fsspec has one dictionary per process for all of memory://; "dir::" is in front of another file system
        self.of_one_process = "memory" in (first, getattr(getattr(filesystem, "fs", None), "protocol", ""))
        # the collected bytes, and the copies that the library makes for a request; elsewhere it writes a complete value
        self.stream_bytes = 3 * _PART_BYTES if first in _IN_PARTS else None
        self._counts_from_end = first not in AZURE_SCHEMES
        kind = _GROUPS.get(first, first)
        if kind not in ("reference", "zip") and location.rpartition("::")[2].startswith("http"):
            kind = "http"  # a cache in front of a web server cannot list its keys either
        self.abilities = _READ_ONLY.get(kind) or base.Abilities(is_remote=first not in ("memory", "file"))

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
        client = self._client if self._given is None else self._given
        if client is not None:
            return client
        from tarfile import TarError  # of archives, which this opens
        from zipfile import BadZipFile

        try:
            from fsspec.core import url_to_fs
        except ModuleNotFoundError as error:
            remedy = f"Install it with: {install_command('remote')}"
            raise UsageError("URLs need fsspec", store=self.location, remedy=remedy) from error
        if self._scheme == "dandi":
            with suppress(ModuleNotFoundError):
                import dandifs  # noqa: F401 - tells fsspec of its protocol
        try:
            self._client, self._root = url_to_fs(self.location, **self._options())
        except FileNotFoundError as error:
            # not an absent key: the archive or the file of references, which fsspec opens here, is missing
            base.raise_if_not_absent(error)
            problem = f"the file in this URL does not exist: {error}"
            raise StoreNotFoundError(problem, store=self.location, remedy="Check the URL.") from error
        # an unknown protocol, missing options, or another file than an archive
        except (ImportError, ValueError, TypeError, IsADirectoryError, BadZipFile, TarError) as error:
            remedy, remedy_cli = "Check the URL, and storage_options.", "Check the URL, and the values of -O."
            if self._scheme == "dandi" and sys.modules.get("dandifs") is None:
                remedy = remedy_cli = "Install the library for the DANDI archive: pip install dandifs"
            elif isinstance(error, ImportError):
                remedy = remedy_cli = "Install the library that it needs."
            elif self._scheme == "reference":
                remedy = remedy_cli = "Name the file of references: 'reference::/folder/references.json'."
            problem = f"fsspec cannot open this ({error})"
            raise UsageError(problem, store=self.location, remedy=remedy, remedy_cli=remedy_cli) from error
        # the folder that follows "dir::" is the root of that file system
        if self.location.startswith("dir::"):
            self._root = ""
        return self._client

    def _options(self) -> dict[str, Any]:
        """Return the options of the file system; those of a web server bound its silence, and its redirects."""
        options, behind = dict(self.options), self.location.rpartition("::")[2].partition("://")[0]
        if "::" in self.location and is_url(self.location.rpartition("::")[2]):
            # fsspec gives all that no protocol is named for to the first one, and a cache ignores what it does not have
            own = {part.partition("://")[0] for part in self.location.split("::")} | parameters_of(self._scheme)
            flat = {name: options.pop(name) for name in options.keys() - own}
            options[behind] = {**flat, **options.get(behind, {})}
        if behind not in WEB_SCHEMES:
            return options
        import aiohttp

        from hdmf_zarr_backend.store.web import origin_of, redirect_refused

        web = options[behind] = dict(options.get(behind, {}))
        client = dict(web.get("client_kwargs", {}))
        # what only the server of the file may get is in the headers of each request: a session sends it anywhere
        web |= {"auth": client.pop("auth")} if "auth" in client else {}
        cookies = {**client.pop("cookies", {}), **web.pop("cookies", {})}
        headers = {**client.pop("headers", {}), **web.get("headers", {})}
        if cookies:
            headers["Cookie"] = "; ".join(f"{name}={getattr(each, 'value', each)}" for name, each in cookies.items())
        web["headers"] = headers

        async def stay_on_server(session: Any, context: Any, params: Any) -> None:
            # aiohttp follows a redirect to any server, and sends it the headers of the user; see `store.web`
            target = urljoin(str(params.url), params.response.headers.get("Location", ""))
            if origin_of(target) == origin_of(str(params.url)):
                return
            if self.read_rules.external_links != "follow":
                params.response.close()
                raise redirect_refused(self.location, "", target)
            for name in headers:
                params.headers.pop(name, None)

        guard = aiohttp.TraceConfig()
        guard.on_request_redirect.append(stay_on_server)
        guards = [*client.pop("trace_configs", ()), guard]
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_WEB_TIMEOUT, sock_read=_WEB_TIMEOUT)
        web["client_kwargs"] = {"timeout": timeout, **client, "trace_configs": guards}
        # fsspec would give another store with equal options this client, which has the rules of this store
        options["skip_instance_cache"] = True
        return options

    def check_url(self) -> None:
        """Make sure that fsspec can open the URL, without a request if it is not in an archive."""
        with base.library_errors_named(self.location, "", "read"):
            self._filesystem  # noqa: B018 - creates it

    def _path(self, key: str) -> str:
        self._filesystem  # noqa: B018 - sets the root
        root = self._root
        # of a file system that a user has opened; a key is a part of the path, and not of the query behind it
        if self.location.startswith("http"):
            root, mark, query = root.partition("?")
            return f"{root.rstrip('/')}/{quote(key)}{mark}{query}"
        return f"{root.rstrip('/')}/{key}" if root else key

    @property
    def _is_cache(self) -> bool:
        return type(self._filesystem).__module__ == "fsspec.implementations.cached"

    def _read(self, function: Callable[[], B | None], key: str) -> B | None:
        def alone() -> B | None:
            # a second thread would find the part that is in the cache while the first one fetches the value
            with _FETCHING[hash(key) % len(_FETCHING)] if self._is_cache else nullcontext():
                return function()

        return super()._read(alone, key)

    def _get(self, key: str) -> bytes:
        try:
            most = getattr(self.read_rules.limits, base.size_limit(key))
            return bytes(self._filesystem.cat_file(self._path(key), start=0, end=most + 1))
        except _ABSENT:
            raise
        except base.library_errors() as error:
            # RFC 9110, section 14.1.2: an empty value satisfies no range that counts from the start
            is_of_range = base.status_of(error) == _NO_SUCH_RANGE or "range" in str(error).lower()
            if is_of_range and self._state(key).size == 0:
                return b""
            raise

    def _get_ranges(self, key: str, ranges: Sequence[base.Range]) -> list[bytes]:
        path = self._path(key)
        if self._is_cache:  # fsspec needs the size of the open file for a range from the end, and does not know it
            with self._filesystem.open(path, "rb") as file:
                size = file.seek(0, os.SEEK_END)
                return [read_part(file, *slice(start, stop).indices(size)[:2]) for start, stop in ranges]
        if len(ranges) == 1:
            return [bytes(self._filesystem.cat_file(path, start=ranges[0][0], end=ranges[0][1]))]
        starts, ends = [start for start, _ in ranges], [stop for _, stop in ranges]
        parts = self._filesystem.cat_ranges([path] * len(ranges), starts, ends, on_error="return")
        for part in parts:
            if isinstance(part, BaseException):
                raise part
        return [bytes(part) for part in parts]

    def _state(self, key: str) -> base.FileState:
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
    def _stream(self, key: str) -> Iterator[base.Write]:
        if self.stream_bytes is None:
            with super()._stream(key) as append:
                yield append
            return
        self._refuse_change()
        path, owner = self._path(key), os.getpid()
        file = self._call(lambda: self._filesystem.open(path, "wb", block_size=_PART_BYTES), key, "written")

        def write(data: bytes) -> None:
            for start in range(0, len(data), _PART_BYTES):  # collected bytes become one part of any size
                file.write(data[start : start + _PART_BYTES])

        try:
            yield lambda data: self._call(lambda: write(data), key, "written")
            self._call(file.close, key, "written")
        except BaseException:
            # a fork that ends inside of the block must not abort the upload of its parent
            if owner == os.getpid():
                # aborted, since garbage collection would complete it, and create an object
                with suppress(*base.library_errors()):  # if the server is unreachable, it drops the parts itself
                    file.discard()
                file.closed = True
                with suppress(*base.library_errors()):
                    file.close()  # closes connections
            raise

    def _put_absent(self, key: str, value: bytes) -> bool:
        path = self._new_path(key)
        try:
            self._filesystem.pipe_file(path, value, mode="create")
        except OSError as error:
            is_there = isinstance(error, FileExistsError) or base.status_of(error) == _PRECONDITION_FAILED
            if is_there or any(text in str(error) for text in _EXISTS):
                return False
            raise
        return True

    def _remove(self, keys: Sequence[str]) -> None:
        for key in keys:
            try:
                self._filesystem.rm_file(self._path(key))
            except _ABSENT as error:
                base.raise_if_not_absent(error)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        filesystem = self._filesystem
        filesystem.invalidate_cache()
        top = self._path(prefix).rstrip("/")
        try:
            entries = filesystem.find(top, detail=True)
        except _ABSENT as error:
            base.raise_if_not_absent(error)
            return
        start = len(self._root.strip("/"))
        for path, entry in entries.items():
            inside = path.strip("/")
            # find() of a file returns the file itself
            if inside != top.strip("/"):
                yield inside[start:].lstrip("/"), int(entry.get("size") or 0)


def open_folder(location: str, options: Mapping[str, Any]) -> base.Store:
    """Return the store of a folder or a URL, without regard to suffixes."""
    if not is_url(location):
        return LocalStore(location)
    if location.partition("://")[0] in WEB_SCHEMES:
        # imported here: local files are opened without asyncio, which takes longer than reading one
        from hdmf_zarr_backend.store.web import WebStore

        return WebStore(location, options)
    settings = object_settings(location, options)
    return FsspecStore(location, options) if settings is None else ObjectStore(location, settings, options)


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


# ---- storage options ------------------------------------------------------------------------------------------------

_ADDRESS = re.compile(r"https?://[^/?#\s]+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CLIENT = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "default_headers",
    "http1_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "timeout", "user_agent",
})  # fmt: skip
"""What obstore takes in ``client_options``, beside which it ignores the same names elsewhere."""


class _Kind(NamedTuple):
    """One kind of store of obstore."""

    store: str
    schemes: frozenset[str]
    bucket: tuple[str, str]  # scheme of the URL of a store that a user has opened, and obstore's name of the bucket
    library: str  # of fsspec
    options: Mapping[str, str]  # options of fsspec's library, and what obstore calls them
    identity: tuple[str, ...]  # options that hold credentials
    variables: tuple[str, ...]  # likewise, of the environment
    endpoints: tuple[str, ...]  # variables that name a server


_S3 = _Kind(
    "S3Store", S3_SCHEMES, ("s3", "bucket"), "s3fs",
    options={
        "key": "access_key_id", "secret": "secret_access_key", "token": "session_token", "anon": "skip_signature",
        "endpoint_url": "endpoint", "region_name": "region", "requester_pays": "request_payer",
        "virtual_hosted_style_request": "virtual_hosted_style_request",
    },
    identity=("access_key_id", "skip_signature", "credential_provider", "role_arn", "web_identity_token_file"),
    variables=("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    endpoints=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
)  # fmt: skip
_GOOGLE = _Kind(
    "GCSStore", GOOGLE_SCHEMES, ("gs", "bucket"), "gcsfs",
    options={"anon": "skip_signature", "token": "token", "base_url": "base_url"},
    identity=(
        "service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature",
        "credential_provider",
    ),
    variables=(
        "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_BEARER_TOKEN", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SKIP_SIGNATURE",
    ),
    endpoints=("GOOGLE_BASE_URL",),
)  # fmt: skip
_AZURE = _Kind(
    "AzureStore", AZURE_SCHEMES, ("az", "container_name"), "adlfs",
    options={"anon": "skip_signature", "sas_token": "sas_key", "account_name": "account_name"},
    identity=("account_key", "client_id", "sas_key", "credential_provider", "token", "use_azure_cli"),
    variables=(),
    endpoints=("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
)  # fmt: skip


def _kind_of(name: str) -> _Kind | None:
    """Return the kind of store of a scheme, or of the name of a class of obstore."""
    return next((kind for kind in (_S3, _GOOGLE, _AZURE) if name in (kind.store, *kind.schemes)), None)


def url_of_bucket(store: Any, path: str = "") -> str | None:
    """Return the URL of a path in a bucket that a user has opened with obstore; None for another kind of store."""
    kind = _kind_of(type(store).__name__)
    if kind is None:
        return None
    scheme, bucket = kind.bucket
    return "/".join(part for part in (f"{scheme}://{store.config[bucket]}", store.prefix, path) if part).rstrip("/")


def store_of_bucket(store: Any, path: str = "") -> ObjectStore | None:
    """Return a file in a bucket that a user has opened with obstore; None for another kind of store."""
    location = url_of_bucket(store, path)
    if location is None:
        return None
    # passed on to neighbours and workers, like ``storage_options``
    options = {name: value for name, value in store.config.items() if name not in ("bucket", "container_name")}
    given = {name: getattr(store, name) for name in ANY_STORE}
    options |= {name: value for name, value in given.items() if value is not None}
    settings = object_settings(location, options)
    return None if settings is None else ObjectStore(location, settings, options)


def object_settings(location: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return obstore's settings for a URL and the user's ``storage_options``, None if another library has to open it.

    That is so without obstore, and for schemes, options and sources of credentials that only another library knows.
    """
    scheme = location.partition("://")[0]
    if find_spec("obstore") is None:
        return None
    if scheme in WEB_SCHEMES:
        return _bounded(dict(options), location, location) if options.keys() <= ANY_STORE else None
    kind = _kind_of(scheme)
    if kind is None:
        return None
    given = {name: value for name, value in options.items() if value is not None}
    if kind is _S3 and kind.options.keys() >= given.get("client_kwargs", {}).keys():
        given |= given.pop("client_kwargs", {})
    if kind is _GOOGLE:
        # gcsfs: the project that pays for a new bucket; no bucket is created here
        given.pop("project", None)
        if given.get("token") in ("anon", "google_default"):
            given |= {"anon": True} if given.pop("token") == "anon" else {}
    settings = {kind.options.get(name, name): value for name, value in given.items()}
    if not _has(kind.store, frozenset(settings.keys() - ANY_STORE)):
        _refuse_unknown(kind, given, location)
        return None
    if _is_for_fsspec(kind, settings, location, options) and find_spec(kind.library) is not None:
        return None
    variables = (os.environ.get(name) or None for name in kind.endpoints)
    endpoints = (settings.get("endpoint"), settings.get("base_url"), *variables)
    endpoint = next((each for each in endpoints if each is not None), None)
    if endpoint is not None and not _ADDRESS.match(str(endpoint)):
        remedy = "Give it with its scheme and host, such as http://host:9000."
        raise UsageError(f"the endpoint {endpoint!r} is not a URL", store=location, remedy=remedy)
    return _bounded(settings, str(endpoint or ""), location)


def _is_for_fsspec(kind: _Kind, settings: dict[str, Any], location: str, options: Mapping[str, Any]) -> bool:
    """Return whether the library of fsspec, if it is installed, finds credentials that obstore does not."""
    stated = {name for name, value in settings.items() if value is not False}  # anon=False names nobody
    has_identity = bool(stated & set(kind.identity) or os.environ.keys() & set(kind.variables))
    if kind is _S3:
        has_profile = any(os.path.exists(os.path.expanduser(f"~/.aws/{name}")) for name in ("credentials", "config"))
        return not has_identity and (has_profile or "AWS_PROFILE" in os.environ)
    if kind is _GOOGLE:
        # an emulator has the interface of gcsfs, and obstore does not know the variable
        is_emulated = "STORAGE_EMULATOR_HOST" in os.environ
        is_emulated &= not settings.keys() & {"base_url", "service_account", "service_account_key"}
        login = os.path.expanduser("~/.config/gcloud/application_default_credentials.json")
        # without an identity, obstore queries the metadata server of Google's machines, for minutes
        return is_emulated or not (has_identity or os.path.exists(login))
    # obstore accepts the name of the account only once, in the URL or in the options
    account = location.partition("://")[2].partition("/")[0].partition("@")[2].partition(".")[0]
    if account and settings.pop("account_name", account) != account:
        problem = f"the URL names the account {account!r}, and the options another one"
        raise UsageError(problem, store=location, remedy=f"Give the options of {account!r}, or another URL.")
    # anon=False of adlfs means any identity of this machine, which obstore does not search
    is_any = options.get("anon") is False
    is_named = account or settings.keys() & {"account_name", "endpoint"}
    return not has_identity and (is_any or (not is_named and "AZURE_STORAGE_CONNECTION_STRING" in os.environ))


def _refuse_unknown(kind: _Kind, options: Mapping[str, Any], location: str) -> None:
    """Refuse an option that neither obstore nor the library of fsspec has, which would ignore it."""
    names = {*kind.options, *kind.options.values(), *kind.identity, *ANY_STORE}
    if find_spec(kind.library) is not None:
        names |= parameters_of(location.partition("://")[0])
    for name in options:
        if name not in names and not _has(kind.store, frozenset({name})):
            raise no_such_option(name, names, location, kind.library)


def parameters_of(protocol: str) -> set[str]:
    """Return the names of the arguments of a file system of fsspec."""
    from fsspec import get_filesystem_class

    filesystem: Any = get_filesystem_class(protocol)
    return {name for each in filesystem.__mro__ for name in signature(each.__init__).parameters}


def _bounded(settings: dict[str, Any], endpoint: str, location: str) -> dict[str, Any]:
    """Return settings with the default retries; plain HTTP is allowed if the URL of the server is ``http``."""
    _check_values(settings, location)
    names = _CLIENT & settings.keys()
    client = {**{name: settings.pop(name) for name in names}, **settings.pop("client_options", {})}
    if endpoint.startswith("http://"):
        client.setdefault("allow_http", True)
    retries = retry_settings(settings.pop("retry_config", None), location)
    return {**settings, "client_options": client, "retry_config": retries}


def _check_values(settings: Mapping[str, Any], location: str) -> None:
    """Refuse options with control characters, such as the line break at the end of a file with a token."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            _check_values(value, location)
        # obstore panics at them in headers; the error must not show the value, which may be secret. A service account
        # is JSON, which has line breaks
        elif isinstance(value, str) and name != "service_account_key" and _CONTROL.search(value):
            problem = f"the storage option {name!r} has a line break or another control character"
            raise UsageError(problem, store=location, remedy="Remove it, for example with .strip().")


@cache
def _has(store: str, names: frozenset[str]) -> bool:
    """Return whether a store of obstore has options of these names."""
    import obstore.store
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError

    # releases differ in what they know, and none has a list of its options
    try:
        getattr(obstore.store, store)("bucket", **dict.fromkeys(names, "x"))
    except (UnknownConfigurationKeyError, TypeError):
        return False
    except BaseError:  # the value has no meaning, but the name is known
        pass
    return True
