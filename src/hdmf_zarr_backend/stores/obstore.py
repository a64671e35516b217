"""Object stores and web servers through obstore: no request beside the one that is wanted.

`s3://`, `gs://` and `az://` need no more than the wheel of obstore; a web server is read, never written or listed.

Source: issue "Format 3, shards, and any store, near or far", parts 4 and 5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.stores.base import Abilities, Range
from hdmf_zarr_backend.stores.failures import tell_of_bucket
from hdmf_zarr_backend.stores.file_state import FileState, plain_tag
from hdmf_zarr_backend.stores.obstore_settings import AZURE_SCHEMES, GOOGLE_SCHEMES, WEB_SCHEMES, object_settings
from hdmf_zarr_backend.stores.remote import FarKeys, at_once
from hdmf_zarr_backend.stores.retries import ONCE, Retries

_MULTIPART_BYTES = 64 * 2**20
_PART_BYTES = 8 * 2**20
_PARTS_AT_ONCE = 2  # 10,000 parts, the most that S3 takes, are 80 GB
_DELETED_AT_ONCE = 1000

_BUCKET = Abilities(is_far=True, control_characters=False)  # which obstore takes for no path
_WEB = Abilities(write=False, change=False, listing=False, is_far=True, why="a web server is read only")

# kinds of stores of obstore: scheme of their URL, and what they call the bucket
_KINDS = {"S3Store": ("s3", "bucket"), "GCSStore": ("gs", "bucket"), "AzureStore": ("az", "container_name")}


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
    if type(store).__name__ not in _KINDS:
        return None
    scheme, bucket = _KINDS[type(store).__name__]
    settings = dict(store.config)
    location = "/".join(part for part in (f"{scheme}://{settings.pop(bucket)}", store.prefix, path) if part)
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

    opens_by_url = True
    streams_values = True
    stream_bytes = (_PARTS_AT_ONCE + 1) * _PART_BYTES
    """What is held of a value that is streamed."""

    def __init__(self, location: str, settings: dict[str, Any], options: Mapping[str, Any]) -> None:
        super().__init__(location, options)
        self._settings = settings
        self._retries = Retries.of(settings.get("retry_config"), location)
        self.abilities = _WEB if location.startswith("http") else _BUCKET
        self._store: Any = None
        self._pid = 0

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectKeys, (self.location, self._settings, self.options), {"read_rules": self.read_rules}

    @property
    def _is_azure(self) -> bool:
        return self.location.partition("://")[0] in AZURE_SCHEMES

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
        if start < 0 and self._is_azure:  # which has no ranges that count from the end
            size = int(obstore.head(self.opened, key)["size"])
            first, last = max(0, size + start), size if stop is None else max(0, size + stop)
            return self._get_part(key, first, last) if first < last else b""
        wanted: Any = {"offset": start} if start >= 0 else {"suffix": -start}
        part = bytes(obstore.get(self.opened, key, options={"range": wanted}).bytes())
        return part if start >= 0 or stop is None else part[: stop - start]

    def beginning(self, key: str, count: int) -> bytes | None:
        """Return the first ``count`` bytes of the value of ``key``; of a server without ranges as well."""
        return self._called(lambda: self._beginning(key, count), key, "read")

    def _beginning(self, key: str, count: int) -> bytes | None:
        import obstore

        try:
            stream = obstore.get(self.opened, key).stream(min_chunk_size=count)
            return next((bytes(part)[:count] for part in stream), b"")
        except FileNotFoundError as error:
            tell_of_bucket(error)
            return None

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
        # a part that was sent in vain is known to nobody but obstore, which sends it again
        store = _opened(self.location, self._settings)
        file = self._called(
            lambda: obstore.open_writer(store, key, buffer_size=_PART_BYTES, max_concurrency=_PARTS_AT_ONCE),
            key,
            "written",
            once=True,
        )
        yield lambda data: self._called(lambda: file.write(data), key, "written", once=True)
        self._called(file.close, key, "written", once=True)  # only now is it there

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
        if self.location.partition("://")[0] in GOOGLE_SCHEMES:  # obstore sends a request for each key
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
            tell_of_bucket(error)
            # but for S3, what comes after a key that is not there may not be deleted
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
