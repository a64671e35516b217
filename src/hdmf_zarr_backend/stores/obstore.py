"""`ObjectStore`: object stores through obstore, without additional requests.

`s3://`, `gs://` and `az://` need only the wheel of obstore, which also repeats requests. ``storage_options`` are those
of obstore, and equivalent names of s3fs, gcsfs and adlfs. Web servers are read by `stores.web`; the settings for one
are for zarr's own view of a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from inspect import signature
from typing import Any, NamedTuple

from hdmf_zarr_backend.errors import StoreError, UsageError
from hdmf_zarr_backend.model.link_sources import AZURE_SCHEMES, GOOGLE_SCHEMES, S3_SCHEMES, WEB_SCHEMES
from hdmf_zarr_backend.stores.base import Abilities, FileState, Range, Write, check_value_size
from hdmf_zarr_backend.stores.failures import raise_if_not_absent
from hdmf_zarr_backend.stores.remote import RemoteStore, at_once, completed, no_such_option, state_of

_MULTIPART_BYTES = 64 * 2**20
_PART_BYTES = 8 * 2**20
_PARTS_AT_ONCE = 2  # 10,000 parts, the most that S3 takes, are 80 GB
_DELETED_AT_ONCE = 1000

ANY_STORE = frozenset({"client_options", "retry_config", "credential_provider"})
"""Options of every store of obstore that are not settings of a service."""


class ObjectStore(RemoteStore):
    """One Zarr file of an object store."""

    abilities = Abilities(is_remote=True, control_characters=False)  # not allowed in paths of obstore
    opens_by_url = True
    streams_values = True
    stream_bytes = (_PARTS_AT_ONCE + 1) * _PART_BYTES

    _absent = (FileNotFoundError,)

    def __init__(self, location: str, settings: dict[str, Any], options: Mapping[str, Any]) -> None:
        super().__init__(location, options)
        self._settings = settings
        self._scheme = location.partition("://")[0]

    @property
    def opened(self) -> Any:
        """The store of obstore."""
        if self._client is None:
            from obstore import store as stores

            kind, rest = _kind_of(self._scheme), self.location.partition("://")[2]
            scheme = "gs" if kind is _GOOGLE else self._scheme
            if kind is _AZURE and scheme != "abfss":
                scheme = "abfs"  # before 0.9 a prefix is lost behind az://
            cls = getattr(stores, kind.store if kind is not None else "HTTPStore")
            self._client, self._pid = cls.from_url(f"{scheme}://{rest}", **self._settings), os.getpid()
        elif self._pid != os.getpid():
            problem = "this file was opened before the process was forked, and obstore does not work in a fork"
            remedy = "Start workers with the method 'spawn' or 'forkserver', or open the file in the worker."
            raise StoreError(problem, store=self.location, remedy=remedy)
        return self._client

    def _get(self, key: str) -> bytes:
        response = self.opened.get(key)
        check_value_size(self, key, int(response.meta["size"]))  # before the body is read
        return bytes(response.bytes())

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes]:
        starts, ends = zip(*ranges, strict=True) if ranges else ((), ())
        if None in ends or any(start < 0 for start in starts):
            return [self._get_part(key, start, stop) for start, stop in ranges]
        return [bytes(part) for part in self.opened.get_ranges(key, starts=starts, ends=ends)]

    def _get_part(self, key: str, start: int, stop: int | None) -> bytes:
        if start < 0 and self._scheme in AZURE_SCHEMES:  # where no range counts from the end
            start, stop, _ = slice(start, stop).indices(self._state(key).size)
        if stop is not None and start >= 0:
            return bytes(self.opened.get_range(key, start=start, end=stop)) if start < stop else b""
        wanted = {"suffix": -start} if start < 0 else {"offset": start}
        part = bytes(self.opened.get(key, options={"range": wanted}).bytes())
        return part if stop is None else part[: stop - start]

    def _state(self, key: str) -> FileState:
        head = self.opened.head(key)
        return state_of(head["size"], head.get("e_tag"), head["last_modified"])

    def _put_value(self, key: str, value: bytes) -> None:
        self.opened.put(key, value, use_multipart=None if len(value) > _MULTIPART_BYTES else False)

    @contextmanager
    def _stream(self, key: str) -> Iterator[Write]:
        """Yield a function that appends to a new value of ``key``: an upload in parts, left unfinished by an error."""
        from obstore import open_writer

        self._refuse_change()
        sizes: Any = {"buffer_size": _PART_BYTES, "max_concurrency": _PARTS_AT_ONCE}
        file = self._called(lambda: open_writer(self.opened, key, **sizes), key, "written")
        yield lambda data: self._called(lambda: file.write(data), key, "written")
        self._called(file.close, key, "written")  # only this creates the object

    def _put_if_absent(self, key: str, value: bytes) -> bool | None:
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        try:
            self.opened.put(key, value, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except NotSupportedError:
            return None
        return True

    def _remove(self, keys: Sequence[str]) -> None:
        if self._scheme in GOOGLE_SCHEMES:  # obstore sends a request for each key
            list(at_once(lambda key: self._delete_some([key]), keys))
            return
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            self._delete_some(keys[start : start + _DELETED_AT_ONCE])

    def _delete_some(self, keys: Sequence[str]) -> None:
        """Delete as many keys as one request can."""
        try:
            self.opened.delete(list(keys))
        except FileNotFoundError as error:
            raise_if_not_absent(error)
            # except on S3, keys after an absent one may not have been deleted
            for key in keys if len(keys) > 1 else ():
                self._delete_some([key])

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        return ((entry["path"], entry["size"]) for batch in self.opened.list(prefix or None) for entry in batch)


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
    words: Mapping[str, str]  # options of both, and what obstore calls them
    identity: tuple[str, ...]  # options that hold credentials
    variables: tuple[str, ...]  # likewise, of the environment
    endpoints: tuple[str, ...]  # variables that name a server


_S3 = _Kind(
    "S3Store", S3_SCHEMES, ("s3", "bucket"), "s3fs",
    words={
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
    words={"anon": "skip_signature", "token": "token", "base_url": "base_url"},
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
    words={"anon": "skip_signature", "sas_token": "sas_key", "account_name": "account_name"},
    identity=("account_key", "client_id", "sas_key", "credential_provider", "token", "use_azure_cli"),
    variables=(),
    endpoints=("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
)  # fmt: skip


def _kind_of(scheme: str) -> _Kind | None:
    return next((kind for kind in (_S3, _GOOGLE, _AZURE) if scheme in kind.schemes), None)


def url_of_bucket(store: Any, path: str = "") -> str | None:
    """Return the URL of a path in a bucket that a user has opened with obstore; None for another kind of store."""
    kind = next((kind for kind in (_S3, _GOOGLE, _AZURE) if kind.store == type(store).__name__), None)
    if kind is None:
        return None
    scheme, bucket = kind.bucket
    return "/".join(part for part in (f"{scheme}://{store.config[bucket]}", store.prefix, path) if part).rstrip("/")


def store_of_bucket(store: Any, path: str = "") -> ObjectStore | None:
    """Return a file in a bucket that a user has opened with obstore; None for another kind of store.

    Its settings are passed on to neighbours and workers, like ``storage_options``.
    """
    location = url_of_bucket(store, path)
    if location is None:
        return None
    options = {name: value for name, value in store.config.items() if name not in ("bucket", "container_name")}
    given = {name: getattr(store, name) for name in ANY_STORE}
    options |= {name: value for name, value in given.items() if value is not None}
    settings = object_settings(location, options)
    return None if settings is None else ObjectStore(location, settings, options)


def object_settings(location: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return obstore's settings for a URL and the user's ``storage_options``, None if another library has to open it.

    That is the case if obstore is not installed, for schemes that it does not support, for options that only s3fs,
    gcsfs or adlfs has, and if the credentials are in an AWS profile or have to be found by the library of Google or
    Azure.
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
    if kind is _S3 and kind.words.keys() >= given.get("client_kwargs", {}).keys():
        given |= given.pop("client_kwargs", {})
    if kind is _GOOGLE:
        given.pop("project", None)  # gcsfs: the project that pays for a new bucket; no bucket is created here
        if given.get("token") in ("anon", "google_default"):
            given |= {"anon": True} if given.pop("token") == "anon" else {}
    settings = {kind.words.get(name, name): value for name, value in given.items()}
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
    has_identity = bool(settings.keys() & set(kind.identity) or os.environ.keys() & set(kind.variables))
    if kind is _S3:
        has_profile = any(os.path.exists(os.path.expanduser(f"~/.aws/{name}")) for name in ("credentials", "config"))
        return not has_identity and (has_profile or "AWS_PROFILE" in os.environ)
    if kind is _GOOGLE:
        # an emulator has the interface of gcsfs, and obstore does not know the variable
        is_emulated = "STORAGE_EMULATOR_HOST" in os.environ
        is_emulated &= not settings.keys() & {"base_url", "service_account", "service_account_key"}
        login = os.path.expanduser("~/.config/gcloud/application_default_credentials.json")
        # without an identity obstore queries the metadata server, for minutes
        return is_emulated or not (has_identity or os.path.exists(login))
    account = location.partition("://")[2].partition("/")[0].partition("@")[2].partition(".")[0]
    if account and settings.pop("account_name", account) != account:  # obstore accepts the name only once
        problem = f"the URL names the account {account!r}, and the options another one"
        raise UsageError(problem, store=location, remedy=f"Give the options of {account!r}, or another URL.")
    is_any = options.get("anon") is False  # adlfs: any identity of this machine
    is_named = account or settings.keys() & {"account_name", "endpoint"}
    return not has_identity and (is_any or (not is_named and "AZURE_STORAGE_CONNECTION_STRING" in os.environ))


def _refuse_unknown(kind: _Kind, options: Mapping[str, Any], location: str) -> None:
    """Refuse an option that neither obstore nor the library of fsspec has, which would ignore it."""
    known = {*kind.words, *kind.words.values(), *kind.identity, *ANY_STORE}
    if find_spec(kind.library) is not None:
        from fsspec import get_filesystem_class

        filesystem: Any = get_filesystem_class(location.partition("://")[0])
        known |= {name for each in filesystem.__mro__ for name in signature(each.__init__).parameters}
    for name in options:
        if name not in known and not _has(kind.store, frozenset({name})):
            raise no_such_option(name, known, location, kind.library)


def _bounded(settings: dict[str, Any], endpoint: str, location: str) -> dict[str, Any]:
    """Return settings with the default retries; plain HTTP is allowed if the URL of the server is ``http``."""
    _check_values(settings, location)
    names = _CLIENT & settings.keys()
    client = {**{name: settings.pop(name) for name in names}, **settings.pop("client_options", {})}
    if endpoint.startswith("http://"):
        client.setdefault("allow_http", True)
    retries = completed(settings.pop("retry_config", None), location)
    return {**settings, "client_options": client, "retry_config": retries}


def _check_values(settings: Mapping[str, Any], location: str) -> None:
    """Refuse options with control characters, such as the line break at the end of a file with a token.

    The error names the option; its value, which may be secret, is not in it.
    """
    for name, value in settings.items():
        if isinstance(value, Mapping):
            _check_values(value, location)
        elif isinstance(value, str) and name != "service_account_key" and _CONTROL.search(value):  # that is JSON
            problem = f"the storage option {name!r} has a line break or another control character"
            raise UsageError(problem, store=location, remedy="Remove it, for example with .strip().")


@cache
def _has(store: str, names: frozenset[str]) -> bool:
    """Return whether a store of obstore has options of these names."""
    import obstore.store
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError

    try:
        getattr(obstore.store, store)("bucket", **dict.fromkeys(names, "x"))
    except (UnknownConfigurationKeyError, TypeError):
        return False
    except BaseError:  # the value is meaningless, but the name is known
        pass
    return True
