"""Values in memory: all of a `MemoryStore`, some of an `InlinedStore`, those being put of a `QueuedStore`.

URLs that begin with ``memory://`` are those of fsspec, and opened by `store.clouds`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import suppress
from typing import Any

from hdmf_zarr_backend.errors import StoreError, UsageError, ZarrBackendError
from hdmf_zarr_backend.options import ReadRules
from hdmf_zarr_backend.store.base import Abilities, OpenValue, Range, Store, check_inside, library_errors_named, node_of
from hdmf_zarr_backend.store.remote import request_pool, submit

PUTS = 32  # puts that may run at once
PUT_BYTES = 64 * 2**20  # bytes of the values of the running puts; a larger value is put alone

_PUT_ERRORS = (ZarrBackendError, OSError, RuntimeError, ValueError, TypeError)

_READ_ONLY = Abilities(write=False, change=False, why="a mapping that is not mutable is read only")


def not_shared(
    location: str, problem: str = "other processes cannot write to the memory of this process"
) -> UsageError:
    """Return the error for sending a store that only this process can write to another process."""
    return UsageError(problem, store=location, remedy='Use executor="threads".', remedy_cli="Leave --scheduler out.")


class MemoryStore(Store):
    """A mapping, or its keys below a path."""

    def __init__(self, mapping: Mapping[str, bytes], location: str | None = None, *, path: str = "") -> None:
        self.mapping: Any = mapping  # a MutableMapping, unless it is read only
        self.location = location if location is not None else f"object://{id(mapping):x}"
        self.abilities = Abilities() if isinstance(mapping, MutableMapping) else _READ_ONLY
        self.of_one_process = isinstance(mapping, dict)  # another mapping may be a library's view of a file or a server
        self._start = f"{path}/" if path else ""

    def __reduce__(self) -> tuple[Any, ...]:
        raise not_shared(self.location)

    def get(self, key: str) -> bytes | None:
        check_inside(key, self.location)
        with library_errors_named(self.location, key, "read"):
            value = self.mapping.get(self._start + key)
        if value is None or type(value) is bytes:
            return value
        try:  # zarr-python 2 keeps arrays in its mappings
            return memoryview(value).tobytes()
        except TypeError as error:
            problem = f"the value of {key!r} is of type {type(value).__name__}, not bytes"
            remedy = "Use a mapping whose values are bytes."
            raise StoreError(problem, store=self.location, path=node_of(key), remedy=remedy) from error

    def _set(self, key: str, value: bytes) -> None:
        self._refuse_change()
        check_inside(key, self.location)
        with library_errors_named(self.location, key, "written"):
            self.mapping[self._start + key] = value

    def _delete(self, keys: Iterable[str]) -> None:
        self._refuse_change()
        for key in keys:
            check_inside(key, self.location)
            # a mapping may be a library's view of a server, such as that of zarr-python 2
            with library_errors_named(self.location, key, "deleted"):
                self.mapping.pop(self._start + key, None)

    def list_prefix(self, prefix: str) -> Iterator[str]:
        start = self._start + (f"{prefix}/" if prefix else "")
        return (key.removeprefix(self._start) for key in list(self.mapping) if key.startswith(start))

    def sizes(self, prefix: str) -> dict[str, int]:
        return {key: len(self.mapping[self._start + key]) for key in self.list_prefix(prefix)}

    def exists(self) -> bool:
        return any(key.startswith(self._start) for key in self.mapping)  # `list_prefix` lists all of them first


# ---- wrappers of other stores --------------------------------------------------------------------------------------


def _forwarded(name: str, *, drains: bool = False) -> Callable[..., Any]:
    """Return a method that calls the one of the wrapped store; if it ``drains``, after all running puts."""

    def method(self: InlinedStore, *arguments: Any) -> Any:
        if drains:
            self.drain()
        return getattr(self.store, name)(*arguments)

    return method


class InlinedStore(Store):
    """A store with some values in memory, such as those in the consolidated document; it forwards everything else."""

    def __init__(self, store: Store, values: Mapping[str, bytes]) -> None:
        self.store = store
        self.values = values
        for name in ("location", "abilities", "options", "folder", "zip_file", "opens_by_url", "stream_bytes"):
            setattr(self, name, getattr(store, name))

    @property
    def unwrapped(self) -> Store:
        return self.store.unwrapped

    @property
    def read_rules(self) -> ReadRules:
        return self.unwrapped.read_rules

    @read_rules.setter
    def read_rules(self, rules: ReadRules) -> None:
        self.unwrapped.read_rules = rules

    def inlined(self, key: str) -> bytes | None:
        return self.values.get(key)

    def get(self, key: str) -> bytes | None:
        value = self.values.get(key)  # one look-up: other threads may move a value from here to the store meanwhile
        return value if value is not None else self.store.get(key)

    def open_value(self, key: str) -> OpenValue | None:
        return None if key in self.values else self.store.open_value(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        requested = list(keys)
        values = {key: value for key in requested if (value := self.values.get(key)) is not None}
        missing = [key for key in requested if key not in values]
        return {**values, **self.store.get_many(missing)} if missing else values

    def get_each(self, keys: Sequence[str]) -> Iterator[bytes | None]:
        values = [self.values.get(key) for key in keys]
        others = self.store.get_each([key for key, value in zip(keys, values, strict=True) if value is None])
        return (next(others) if value is None else value for value in values)

    def get_ranges(self, key: str, ranges: Sequence[Range]) -> list[bytes] | None:
        return super().get_ranges(key, ranges) if key in self.values else self.store.get_ranges(key, ranges)

    def _stream(self, key: str) -> Any:
        return super()._stream(key) if self.stream_bytes is None else self.store._stream(key)

    # the other abstract methods
    _set, _delete, sizes, exists = map(_forwarded, ("_set", "_delete", "sizes", "exists"))


# methods with a default in Store that the wrapped store may override; the other defaults call these
for _name in (
    "_create", "_copy_value", "_delete_below", "_delete_unfinished", "pin", "drain", "abandon", "sync",
    "list_documents", "list_prefix", "is_empty_folder", "state", "keys_outside", "check_inside", "neighbour",
    "check_url",
):  # fmt: skip
    setattr(InlinedStore, _name, _forwarded(_name))


class QueuedStore(InlinedStore):
    """A store whose puts return before they are done: many run at once, bounded in number and in bytes.

    New values are read at once. The error of a failed put is raised by the next call that writes, or by `drain`, after
    all others have ended. Values that were set before `drain` are in the store when it returns.
    """

    def __init__(self, store: Store) -> None:
        self._pending: dict[str, bytes] = {}
        super().__init__(store, self._pending)
        self._is_remote = store.abilities.is_remote  # a local put takes less time than a queue
        self._failed: BaseException | None = None
        self._changed = threading.Condition()

    def __reduce__(self) -> tuple[Any, ...]:
        return QueuedStore, (self.store,)  # another process has its own queue

    def _set(self, key: str, value: bytes) -> None:
        """Set ``key`` in the background."""
        if not self._is_remote:
            self.store._set(key, value)
            return

        def may_start() -> bool:
            running = sum(map(len, self._pending.values()))
            has_room = len(self._pending) < PUTS and running + len(value) <= PUT_BYTES
            # two puts of one key would race, and the older value might be the one that stays
            return key not in self._pending and (has_room or not self._pending)

        with self._changed:
            self._changed.wait_for(lambda: self._failed or may_start())
            self._raise_failed()
            self._pending[key] = value
            try:
                submit(request_pool(), self._put, key, value)
            except BaseException:
                # Ctrl-C, before or after the pool got the put. It is given up: a key that no put removes from
                # `_pending` would make undoing the change wait for ever.
                self._pending.pop(key, None)
                raise

    def _put(self, key: str, value: bytes) -> None:
        # `_set` holds the lock until it is known whether it was interrupted
        with self._changed:
            if self._pending.get(key) is not value:
                return
        try:
            if self._failed is None:
                self.store._set(key, value)
        except _PUT_ERRORS as error:
            with self._changed:
                self._failed = self._failed or error
        finally:
            with self._changed:
                self._pending.pop(key, None)
                self._changed.notify_all()

    def _raise_failed(self) -> None:
        if self._failed is not None:
            self._changed.wait_for(lambda: not self._pending)
            raise self._failed

    def drain(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._pending)
            self._raise_failed()

    def abandon(self) -> None:
        # of a change that failed already, and is undone: the first error is the one that is raised
        with suppress(*_PUT_ERRORS):
            self.drain()

    _delete, list_documents, list_prefix, sizes = (
        _forwarded(name, drains=True) for name in ("_delete", "list_documents", "list_prefix", "sizes")
    )

    def exists(self) -> bool:
        return bool(self._pending) or self.store.exists()
