"""`ObjectStore`: object stores through obstore, without additional requests.

`s3://`, `gs://` and `az://` need only the wheel of obstore. Web servers are read by `stores.web`; the settings for one
are for zarr's own view of a file.
``storage_options`` are those of obstore, and equivalent names of s3fs, gcsfs and adlfs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib.util import find_spec
from typing import Any

from hdmf_zarr_backend.errors import StoreError, UsageError
from hdmf_zarr_backend.stores.base import Abilities, FileState, Range, Write, check_value_size
from hdmf_zarr_backend.stores.failures import raise_if_not_absent
from hdmf_zarr_backend.stores.locations import AZURE_SCHEMES, GOOGLE_SCHEMES, S3_SCHEMES, WEB_SCHEMES
from hdmf_zarr_backend.stores.remote import ONCE, RemoteStore, at_once, completed, plain_tag

_MULTIPART_BYTES = 64 * 2**20
_PART_BYTES = 8 * 2**20
_PARTS_AT_ONCE = 2  # 10,000 parts, the most that S3 takes, are 80 GB
_DELETED_AT_ONCE = 1000

_BUCKET = Abilities(is_remote=True, control_characters=False)  # not allowed in paths of obstore

# kinds of stores of obstore: scheme of their URL, and their name of the bucket
_KINDS = {"S3Store": ("s3", "bucket"), "GCSStore": ("gs", "bucket"), "AzureStore": ("az", "container_name")}


def store_of_bucket(store: Any, path: str = "") -> ObjectStore | None:
    """Return a file in a bucket that a user has opened with obstore; None for another kind of store.

    Its settings are passed on to neighbours and workers, like ``storage_options``.
    """
    if type(store).__name__ not in _KINDS:
        return None
    scheme, bucket = _KINDS[type(store).__name__]
    settings = dict(store.config)
    location = "/".join(part for part in (f"{scheme}://{settings.pop(bucket)}", store.prefix, path) if part)
    given = {name: getattr(store, name) for name in ("client_options", "retry_config", "credential_provider")}
    options = {**settings, **{name: value for name, value in given.items() if value is not None}}
    arguments = object_settings(location, options)
    return None if arguments is None else ObjectStore(location.rstrip("/"), arguments, options)


class ObjectStore(RemoteStore):
    """One Zarr file of an object store."""

    opens_by_url = True
    streams_values = True
    stream_bytes = (_PARTS_AT_ONCE + 1) * _PART_BYTES

    _absent = (FileNotFoundError,)

    def __init__(self, location: str, settings: dict[str, Any], options: Mapping[str, Any]) -> None:
        super().__init__(location, options)
        self._settings = settings
        self._scheme = location.partition("://")[0]
        self._retry_config = settings["retry_config"]
        self.abilities = _BUCKET
        self._store: Any = None
        self._pid = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStore, (self.location, self._settings, self.options), {"read_rules": self.read_rules}

    @property
    def opened(self) -> Any:
        """The store of obstore, which sends each request once."""
        if self._store is None:
            self._store, self._pid = _opened(self.location, {**self._settings, "retry_config": ONCE}), os.getpid()
        elif self._pid != os.getpid():
            raise StoreError(
                "this file was opened before the process was forked, and obstore does not work in a fork",
                store=self.location,
                remedy="Start workers with the method 'spawn' or 'forkserver', or open the file in the worker.",
            )
        return self._store

    def _get(self, key: str) -> bytes:
        import obstore

        found = obstore.get(self.opened, key)
        check_value_size(self, key, int(found.meta["size"]))  # before the body is read
        return bytes(found.bytes())

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes]:
        import obstore

        plain = [(start, stop) for start, stop in ranges if start >= 0 and stop is not None]
        if len(plain) < len(ranges):
            return [self._get_part(key, start, stop) for start, stop in ranges]
        starts, ends = [start for start, _ in plain], [stop for _, stop in plain]
        return [bytes(part) for part in obstore.get_ranges(self.opened, key, starts=starts, ends=ends)]

    def _get_part(self, key: str, start: int, stop: int | None) -> bytes:
        import obstore

        if start < 0:
            return self._get_from_end(key, start, stop)
        if stop is not None:
            return bytes(obstore.get_range(self.opened, key, start=start, end=stop))
        return bytes(obstore.get(self.opened, key, options={"range": {"offset": start}}).bytes())

    def _get_from_end(self, key: str, start: int, stop: int | None) -> bytes:
        """Return a range that counts from the end; Azure has none, so there by the size of the value."""
        import obstore

        if self._scheme not in AZURE_SCHEMES:
            part = bytes(obstore.get(self.opened, key, options={"range": {"suffix": -start}}).bytes())
            return part if stop is None else part[: stop - start]
        size = int(obstore.head(self.opened, key)["size"])
        first, last = max(0, size + start), size if stop is None else max(0, size + stop)
        return self._get_part(key, first, last) if first < last else b""

    def beginning(self, key: str, count: int) -> bytes | None:
        """Return the first ``count`` bytes of the value of ``key``, also from a server without ranges."""
        return self._read(lambda: self._beginning(key, count), key)

    def _beginning(self, key: str, count: int) -> bytes:
        import obstore

        stream = obstore.get(self.opened, key).stream(min_chunk_size=count)
        return next((bytes(part)[:count] for part in stream), b"")

    def _state(self, key: str) -> FileState:
        import obstore

        found = obstore.head(self.opened, key)
        changed = int(found["last_modified"].timestamp()) * 10**9
        return FileState(int(found["size"]), plain_tag(found.get("e_tag")), changed)

    def _set(self, key: str, value: bytes) -> None:
        import obstore

        obstore.put(self.opened, key, value, use_multipart=None if len(value) > _MULTIPART_BYTES else False)

    @contextmanager
    def stream(self, key: str) -> Iterator[Write]:
        """Yield a function that appends to a new value of ``key``: an upload in parts, left unfinished by an error."""
        import obstore

        self._refuse_change()

        def opened() -> Any:
            # only obstore knows which part has to be sent again
            store = _opened(self.location, self._settings)
            return obstore.open_writer(store, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE)

        file = self._called(opened, key, "written", once=True)
        yield lambda data: self._called(lambda: file.write(data), key, "written", once=True)
        self._called(file.close, key, "written", once=True)  # only this creates the object

    def _create(self, key: str, value: bytes) -> bool | None:
        import obstore
        from obstore.exceptions import AlreadyExistsError, NotSupportedError

        try:
            obstore.put(self.opened, key, value, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        except NotSupportedError:
            return None
        return True

    def _delete(self, keys: Sequence[str]) -> None:
        if self._scheme in GOOGLE_SCHEMES:  # obstore sends a request for each key
            for _ in at_once(lambda key: self._delete_some([key]), keys):
                pass
            return
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            self._delete_some(list(keys[start : start + _DELETED_AT_ONCE]))

    def _delete_some(self, keys: list[str]) -> None:
        """Delete as many keys as one request can."""
        import obstore

        try:
            self._retried(partial(obstore.delete, self.opened, keys))
        except FileNotFoundError as error:
            raise_if_not_absent(error)
            # except on S3, keys after an absent one may not have been deleted
            for key in keys if len(keys) > 1 else ():
                self._delete_some([key])

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        import obstore

        for batch in obstore.list(self.opened, prefix or None):
            for entry in batch:
                yield entry["path"], entry["size"]


def _opened(location: str, settings: Mapping[str, Any]) -> Any:
    """Return the store of obstore behind a URL."""
    from obstore.store import AzureStore, GCSStore, HTTPStore, S3Store

    scheme, _, rest = location.partition("://")
    if scheme in GOOGLE_SCHEMES:
        return GCSStore.from_url(f"gs://{rest}", **settings)
    if scheme in AZURE_SCHEMES:
        # before 0.9 a prefix is lost behind az://
        return AzureStore.from_url(f"{scheme if scheme == 'abfss' else 'abfs'}://{rest}", **settings)
    kind: Any = HTTPStore if scheme in WEB_SCHEMES else S3Store
    return kind.from_url(location, **settings)


# ---- storage options -----------------------------------------------------------------------------------------------

_CLIENT: dict[str, Any] = {"timeout": "30s", "connect_timeout": "10s"}
_ADDRESS = re.compile(r"https?://[^/?#\s]+", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_CLIENT_NAMES = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "default_headers",
    "http1_only", "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "timeout", "user_agent",
})  # fmt: skip
_ANY_STORE = frozenset({"client_options", "retry_config", "credential_provider"})

# names of s3fs, gcsfs and adlfs, and those of obstore; those of its dict client_kwargs
_NAMES = {
    "S3Store": {
        "key": "access_key_id", "secret": "secret_access_key", "token": "session_token", "anon": "skip_signature",
        "endpoint_url": "endpoint", "requester_pays": "request_payer",
    },
    "GCSStore": {"anon": "skip_signature"},
    "AzureStore": {"anon": "skip_signature", "sas_token": "sas_key"},
}  # fmt: skip
_CLIENT_KWARGS = {"endpoint_url": "endpoint", "region_name": "region"}

_IDENTITY = {
    "S3Store": ("access_key_id", "skip_signature", "credential_provider", "role_arn", "web_identity_token_file"),
    "GCSStore": (
        "service_account", "service_account_key", "application_credentials", "bearer_token", "skip_signature",
        "credential_provider",
    ),
    "AzureStore": ("account_key", "client_id", "sas_key", "credential_provider", "token", "use_azure_cli"),
}  # fmt: skip
_IDENTITY_VARIABLES = {
    "S3Store": ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    "GCSStore": (
        "GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_BEARER_TOKEN",
        "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_SKIP_SIGNATURE",
    ),
}  # fmt: skip
_ENDPOINT_VARIABLES = {
    "S3Store": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "GCSStore": ("GOOGLE_BASE_URL",),
    "AzureStore": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
_CONNECTION_NAMES = {
    "AccountName": "account_name",
    "AccountKey": "account_key",
    "BlobEndpoint": "endpoint",
    "SharedAccessSignature": "sas_key",
}


_LIBRARIES = {"S3Store": "s3fs", "GCSStore": "gcsfs", "AzureStore": "adlfs", "HTTPStore": "aiohttp"}
_OF_ANY_LIBRARY = frozenset(
    {
        "asynchronous", "batch_size", "block_size", "cache_options", "cache_type", "client_kwargs",
        "default_cache_type", "default_fill_cache", "encoded", "listings_expiry_time", "loop", "max_concurrency",
        "max_paths", "skip_instance_cache", "timeout", "use_listings_cache", "version_aware",
    }
)  # fmt: skip
_OF_LIBRARY = {
    "S3Store": {
        "cache_regions", "config_kwargs", "default_block_size", "event_hooks", "fixed_upload_size",
        "include_builtin_handlers", "loader", "local_expiry_check", "password", "profile", "s3_additional_kwargs",
        "session", "session_vars", "use_ssl", "username",
    },
    "GCSStore": {
        "access", "cache_timeout", "check_connection", "consistency", "default_location", "endpoint_url",
        "finalize_on_close", "max_mrd_pool_cache_queue_size", "mrd_pool_cache_size", "project", "requester_pays",
        "requests_timeout", "secure_serialize", "session_kwargs", "token",
    },
    "AzureStore": {
        "account_host", "assume_container_exists", "blocksize", "connection_string", "connection_timeout", "credential",
        "location_mode", "read_timeout", "request_session", "socket_timeout",
    },
    "HTTPStore": {
        "allow_redirects", "auth", "cookies", "data", "get_client", "headers", "json", "params", "proxy", "proxy_auth",
        "raise_for_status", "same_scheme", "simple_links", "size_policy", "ssl", "trace_request_ctx",
    },
}  # fmt: skip


def _check_names(kind: str, options: Mapping[str, Any], location: str) -> None:
    """Refuse an option that neither obstore nor the library of fsspec for this kind of store has."""
    renamed = _NAMES.get(kind, {})
    known = {*renamed, *renamed.values(), *_IDENTITY.get(kind, ()), *_ANY_STORE, *_OF_ANY_LIBRARY, *_OF_LIBRARY[kind]}
    unknown = next((name for name in options if name not in known and not _is_known(kind, frozenset({name}))), None)
    if unknown is None:
        return
    from difflib import get_close_matches  # imported here: for this message only

    similar = get_close_matches(unknown, [*known, *_CLIENT_KWARGS.values(), "account_name", "account_key"], n=1)
    library = _LIBRARIES[kind]
    if not similar and find_spec(library) is not None:
        return  # which may have it
    remedy = f"Did you mean {similar[0]!r}?" if similar else f"Check its name. If it is one of {library}, install that."
    raise UsageError(f"there is no storage option {unknown!r} for this URL", store=location, remedy=remedy)


def object_settings(location: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return obstore's settings for a URL, None if another library has to open it.

    That is the case if obstore is not installed, for schemes that it does not support, for options that only s3fs,
    gcsfs or adlfs has, and if the credentials are in an AWS profile or have to be found by the library of Google or
    Azure.
    """
    scheme = location.partition("://")[0]
    if find_spec("obstore") is None:
        return None
    if scheme in WEB_SCHEMES:
        _check_names("HTTPStore", options, location)
        is_known = options.keys() <= {"client_options", "retry_config"}
        return _with_bounds(dict(options), location, location) if is_known else None
    kinds = ((S3_SCHEMES, "S3Store", _s3), (GOOGLE_SCHEMES, "GCSStore", _google), (AZURE_SCHEMES, "AzureStore", _azure))
    for schemes, kind, settings_of in kinds:
        if scheme in schemes:
            _check_names(kind, options, location)
            settings = settings_of(location, dict(options))
            if settings is None or not _is_known(kind, frozenset(settings.keys() - _ANY_STORE)):
                return None
            given = [settings[name] for name in ("endpoint", "base_url") if name in settings]
            variables = [value for name in _ENDPOINT_VARIABLES[kind] if (value := os.environ.get(name))]
            endpoint = next(iter([*given, *variables]), None)
            if endpoint is not None and not _ADDRESS.match(str(endpoint)):
                raise UsageError(
                    f"the endpoint {endpoint!r} is not a URL",
                    store=location,
                    remedy="Give it with its scheme and host, such as http://host:9000.",
                )
            return _with_bounds(settings, str(endpoint or ""), location)
    return None


def _with_bounds(settings: dict[str, Any], endpoint: str, location: str) -> dict[str, Any]:
    """Return settings with default timeouts and retries; plain HTTP is allowed if the URL of the server is ``http``."""
    _check_values(settings, location)
    names = _CLIENT_NAMES & settings.keys()
    client = {**_CLIENT, **{name: settings.pop(name) for name in names}, **settings.pop("client_options", {})}
    if endpoint.startswith("http://"):
        client.setdefault("allow_http", True)
    retries = completed(settings.pop("retry_config", None), location)
    return {**settings, "client_options": client, "retry_config": retries}


def _check_values(settings: Mapping[str, Any], location: str) -> None:
    """Refuse options with control characters, such as the line break at the end of a file with a token."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            _check_values(value, location)
        elif isinstance(value, str) and name != "service_account_key" and _CONTROL.search(value):  # that is JSON
            raise UsageError(
                f"the storage option {name!r} has a line break or another control character",
                store=location,
                remedy="Remove it, for example with .strip().",
            )


@cache
def _is_known(kind: str, names: frozenset[str]) -> bool:
    """Return whether a store of obstore has options of these names."""
    if not names or kind == "HTTPStore":
        return not names
    import obstore.store
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError

    make: Any = getattr(obstore.store, kind)
    try:
        make("bucket", **dict.fromkeys(names, "x"))
    except (UnknownConfigurationKeyError, TypeError):
        return False
    except BaseError:  # the value is meaningless, but the name is known
        return True
    return True


def _renamed(kind: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the names of obstore, without those that are None."""
    names = _NAMES[kind]
    return {names.get(name, name): value for name, value in options.items() if value is not None}


def _has_identity(kind: str, settings: Mapping[str, Any]) -> bool:
    """Return whether options or variables of the environment contain credentials."""
    variables = _IDENTITY_VARIABLES.get(kind, ())
    return any(name in settings for name in _IDENTITY[kind]) or any(name in os.environ for name in variables)


def _s3(location: str, options: dict[str, Any]) -> dict[str, Any] | None:
    client = options.get("client_kwargs")
    if client is not None and _CLIENT_KWARGS.keys() >= client.keys():
        del options["client_kwargs"]
        options.update({_CLIENT_KWARGS[name]: value for name, value in client.items()})
    settings = _renamed("S3Store", options)
    if _has_identity("S3Store", settings) or find_spec("s3fs") is None:
        return settings
    folder = os.path.expanduser("~/.aws")  # s3fs reads profiles, and obstore does not
    has_profile = any(os.path.exists(f"{folder}/{name}") for name in ("credentials", "config"))
    return None if has_profile or "AWS_PROFILE" in os.environ else settings


def _google(location: str, options: dict[str, Any]) -> dict[str, Any] | None:
    options.pop("project", None)  # gcsfs: the project that pays for a new bucket; no bucket is created here
    if options.get("token") in ("anon", "google_default", None):
        options["anon"] = True if options.pop("token", None) == "anon" else options.get("anon")
    settings = _renamed("GCSStore", options)
    # an emulator has the interface of gcsfs, and obstore does not know the variable
    if "STORAGE_EMULATOR_HOST" in os.environ and not settings.keys() & {
        "base_url", "service_account", "service_account_key",
    }:  # fmt: skip
        return None
    login = os.path.expanduser("~/.config/gcloud/application_default_credentials.json")
    # without an identity obstore queries the metadata server, for minutes
    is_identified = _has_identity("GCSStore", settings) or os.path.exists(login)
    return settings if is_identified or find_spec("gcsfs") is None else None


def _azure(location: str, options: dict[str, Any]) -> dict[str, Any] | None:
    account = location.partition("://")[2].partition("/")[0].partition("@")[2].partition(".")[0]
    is_any = options.get("anon") is False  # adlfs: use any identity of this machine
    found = _of_connection(options, account)
    if found is None:
        return None
    host = options.pop("account_host", None)
    if host is not None:
        found["endpoint"] = f"https://{host}"
    settings = {**found, **_renamed("AzureStore", options)}
    if account and settings.pop("account_name", account) != account:  # obstore accepts the name only once
        raise UsageError(
            f"the URL names the account {account!r}, and the options another one",
            store=location,
            remedy=f"Give the options of {account!r}, or another URL.",
        )
    is_any = is_any and not _has_identity("AzureStore", settings)
    return None if is_any and find_spec("adlfs") is not None else settings


def _of_connection(options: dict[str, Any], account: str) -> dict[str, Any] | None:
    """Return the settings of a connection string, in the options or the environment; None if it names no account."""
    text = options.pop("connection_string", None)
    is_given = text is not None
    if not is_given and not options.keys() & {"account_name", "endpoint", "account_host"}:
        text = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    if text is None:
        return {}
    parts = dict(part.partition("=")[::2] for part in str(text).split(";") if part)
    settings: dict[str, Any] = {name: parts[of] for of, name in _CONNECTION_NAMES.items() if parts.get(of)}
    if "account_name" not in settings:
        return None
    if account and not is_given and settings["account_name"] != account:
        return {}  # the environment is for another account
    suffix = parts.get("EndpointSuffix", "core.windows.net")
    protocol = parts.get("DefaultEndpointsProtocol", "https")
    settings.setdefault("endpoint", f"{protocol}://{settings['account_name']}.blob.{suffix}")
    return settings
