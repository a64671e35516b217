"""Object stores and web servers through obstore: no request beside the one that is wanted, and its own retries.

`s3://` needs no more than the wheel of obstore; a web server is read, never written or listed. What a user's
``storage_options`` say is understood in the words of s3fs and of obstore.

Source: issue "Format 3, shards, and any store, near or far", parts 4 and 5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.storage.failures import tell_of_bucket
from hdmf_zarr_backend.storage.farkeys import FarKeys
from hdmf_zarr_backend.storage.filestates import FileState, plain_tag
from hdmf_zarr_backend.storage.keys import Abilities, Range, rules_of

SCHEMES = ("s3", "s3a", "http", "https")

_MULTIPART_BYTES = 64 * 2**20
_PART_BYTES = 8 * 2**20
_PARTS_AT_ONCE = 2  # 10,000 parts, the most that S3 takes, are 80 GB
_DELETED_AT_ONCE = 1000

_S3 = Abilities(is_far=True)
_WEB = Abilities(write=False, change=False, listing=False, is_far=True, why="a web server is read only")

# obstore's own bounds give up after two seconds of 503
_RETRIES: dict[str, Any] = {
    "max_retries": 15,
    "backoff": {"init_backoff": timedelta(seconds=0.3), "max_backoff": timedelta(seconds=15), "base": 3},
    "retry_timeout": timedelta(seconds=180),
}
_CLIENT: dict[str, Any] = {"timeout": "30s", "connect_timeout": "10s"}

_S3FS_WORDS = {
    "key": "access_key_id",
    "secret": "secret_access_key",
    "token": "session_token",
    "anon": "skip_signature",
    "endpoint_url": "endpoint",
    "requester_pays": "request_payer",
}
_CLIENT_KWARGS = {"endpoint_url": "endpoint", "region_name": "region"}
_OBSTORE_WORDS = frozenset(
    {
        "access_key_id", "secret_access_key", "session_token", "skip_signature", "endpoint", "region",
        "default_region", "request_payer", "client_options", "retry_config", "credential_provider",
        "virtual_hosted_style_request", "unsigned_payload", "role_arn", "role_session_name", "conditional_put",
        "web_identity_token_file", "disable_tagging", "disable_bulk_delete", "s3_express", "sse_kms_key_id",
        "sse_bucket_key_enabled", "sse_customer_key_base64",
    }
)  # fmt: skip
_WEB_WORDS = frozenset({"client_options", "retry_config"})
_IDENTITY = ("access_key_id", "skip_signature", "credential_provider", "role_arn", "web_identity_token_file")
_IDENTITY_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")


def object_settings(location: str, options: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return obstore's settings for a URL, None where another library has to open it.

    That is so without obstore, for schemes that it spells in another way than fsspec, for options that only s3fs has,
    and where the credentials are those of an AWS profile, which s3fs can read.
    """
    scheme = location.partition("://")[0]
    if scheme not in SCHEMES or find_spec("obstore") is None:
        return None
    words: dict[str, Any] | None = dict(options)
    if scheme in ("s3", "s3a"):
        words = _s3_words(options)
        if words is not None and _needs_profile(words) and find_spec("s3fs") is not None:
            return None
    elif not options.keys() <= _WEB_WORDS:
        words = None
    if words is None:
        return None
    client = {**_CLIENT, **words.pop("client_options", {})}
    endpoint = words.get("endpoint") or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    if str(endpoint or location).startswith("http://"):
        client.setdefault("allow_http", True)
    retries = {**_RETRIES, **words.pop("retry_config", {})}
    return {**words, "client_options": client, "retry_config": retries}


def _s3_words(options: Mapping[str, Any]) -> dict[str, Any] | None:
    words: dict[str, Any] = {}
    for name, value in options.items():
        if name == "client_kwargs" and _CLIENT_KWARGS.keys() >= value.keys():
            words.update({_CLIENT_KWARGS[inner]: item for inner, item in value.items()})
        elif name in _OBSTORE_WORDS:
            words[name] = value
        elif name in _S3FS_WORDS:
            words[_S3FS_WORDS[name]] = value
        else:
            return None
    return {name: value for name, value in words.items() if value is not None}


def _needs_profile(words: Mapping[str, Any]) -> bool:
    if any(name in words for name in _IDENTITY) or any(name in os.environ for name in _IDENTITY_VARIABLES):
        return False
    folder = os.path.expanduser("~/.aws")
    return "AWS_PROFILE" in os.environ or any(os.path.exists(f"{folder}/{name}") for name in ("credentials", "config"))


def keys_of_bucket(store: Any, path: str = "") -> ObjectKeys | None:
    """Return the keys of a file in a bucket that a user has opened with obstore; None for another kind of store.

    Its settings go along to neighbours and to workers, as ``storage_options`` would.

    Parameters
    ----------
    store : obstore store
        The file begins at its prefix.
    path : str
        Where it begins below that.
    """
    if type(store).__name__ != "S3Store":
        return None
    settings = dict(store.config)
    location = "/".join(part for part in (f"s3://{settings.pop('bucket')}", store.prefix, path) if part)
    given = {"client_options": store.client_options, "retry_config": store.retry_config}
    given["credential_provider"] = store.credential_provider
    options = {**settings, **{name: value for name, value in given.items() if value is not None}}
    words = object_settings(location, options)
    return None if words is None else ObjectKeys(location.rstrip("/"), words, options)


class ObjectKeys(FarKeys):
    """One Zarr file of an object store or a web server.

    Parameters
    ----------
    location : str
        URL, without a trailing slash.
    settings : dict
        Arguments of obstore's ``from_url``, as of `object_settings`.
    options : mapping
        The user's ``storage_options``, from which they were made.
    """

    stream_bytes = (_PARTS_AT_ONCE + 1) * _PART_BYTES
    """What is held of a value that is streamed."""

    def __init__(self, location: str, settings: dict[str, Any], options: Mapping[str, Any]) -> None:
        super().__init__(location, options)
        self._settings = settings
        self.abilities = _WEB if location.startswith("http") else _S3
        self._store: Any = None
        self._pid = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectKeys, (self.location, self._settings, self.options), {"read_rules": rules_of(self)}

    @property
    def opened(self) -> Any:
        """The store of obstore."""
        if self._store is None:
            from obstore.store import HTTPStore, S3Store

            kind: Any = HTTPStore if self.location.startswith("http") else S3Store
            self._store, self._pid = kind.from_url(self.location, **self._settings), os.getpid()
        elif self._pid != os.getpid():
            raise StoreError(
                "this file was opened before the process was forked, and obstore does not work in a fork",
                store=self.location,
                remedy="Start workers with the method 'spawn' or 'forkserver', or open the file in the worker.",
            )
        return self._store

    def _get(self, key: str) -> bytes | None:
        import obstore

        try:
            found = obstore.get(self.opened, key)
            self._check_size(key, int(found.meta["size"]))  # the answer is not read yet
            return bytes(found.bytes())
        except FileNotFoundError as error:
            tell_of_bucket(error)
            return None

    def _get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        import obstore

        plain = [(start, stop) for start, stop in ranges if start >= 0 and stop is not None]
        try:
            if len(plain) == len(ranges):
                starts, ends = [start for start, _ in plain], [stop for _, stop in plain]
                return [bytes(part) for part in obstore.get_ranges(self.opened, key, starts=starts, ends=ends)]
            return [self._get_part(key, start, stop) for start, stop in ranges]
        except FileNotFoundError as error:
            tell_of_bucket(error)
            return None

    def _get_part(self, key: str, start: int, stop: int | None) -> bytes:
        import obstore

        if start >= 0 and stop is not None:
            return bytes(obstore.get_range(self.opened, key, start=start, end=stop))
        wanted: Any = {"offset": start} if start >= 0 else {"suffix": -start}
        part = bytes(obstore.get(self.opened, key, options={"range": wanted}).bytes())
        return part if start >= 0 or stop is None else part[: stop - start]

    def _size(self, key: str) -> int | None:
        import obstore

        try:
            return int(obstore.head(self.opened, key)["size"])
        except FileNotFoundError as error:
            tell_of_bucket(error)
            return None

    def _state(self, key: str) -> FileState | None:
        import obstore

        try:
            found = obstore.head(self.opened, key)
        except FileNotFoundError as error:
            tell_of_bucket(error)
            return None
        changed = int(found["last_modified"].timestamp()) * 10**9
        return FileState(int(found["size"]), plain_tag(found.get("e_tag")), changed)

    def _set(self, key: str, value: bytes) -> None:
        import obstore

        obstore.put(self.opened, key, value, use_multipart=None if len(value) > _MULTIPART_BYTES else False)

    @contextmanager
    def stream(self, key: str) -> Iterator[Callable[[bytes], Any]]:
        """Give what appends to a new value of ``key``: an upload in parts, which an error leaves unfinished."""
        import obstore

        self._refuse_change()
        file = self._called(
            lambda: obstore.open_writer(self.opened, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE),
            key,
            "written",
        )
        yield lambda data: self._called(lambda: file.write(data), key, "written")
        self._called(file.close, key, "written")  # only now is it there

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
        import obstore

        for start in range(0, len(keys), _DELETED_AT_ONCE):
            try:
                obstore.delete(self.opened, list(keys[start : start + _DELETED_AT_ONCE]))
            except FileNotFoundError as error:
                tell_of_bucket(error)

    def _list(self, prefix: str) -> Iterator[tuple[str, int]]:
        import obstore

        for batch in obstore.list(self.opened, prefix or None):
            for entry in batch:
                yield entry["path"], entry["size"]
