"""`Fault`: one failure of a store at one of its operations, while a file is written; the process may die of it.

The death of the process is simulated: from then on, every operation of a store raises `Killed`, and ``os.getpid`` has
another answer. Writers take themselves for a fork, which must not clean up, and leave everything as a process that is
killed.
"""

import os
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.store import lock as locks
from hdmf_zarr_backend.store import memory
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.zip import NewZipStore

Kind: TypeAlias = Literal["refused", "refused on", "answer lost", "killed before", "killed after", "half"]
"""What happens at an operation that changes the store.

``refused``: it raises an error, and changes nothing. ``refused on``: so do all after it. ``answer lost``: it raises an
error although it is done. ``killed before``: the process dies, and the operation is lost. ``killed after``: the process
dies when it is done. ``half``: the process dies in the middle: a local file has half of its bytes, and half of several
keys are deleted.
"""

KINDS: tuple[Kind, ...] = get_args(Kind)

_READS = ("get", "get_many", "get_ranges", "beginning", "list_prefix", "list_documents", "sizes", "exists", "state")
_LOCK_SUFFIX = ".lock"


class Killed(BaseException):
    """The process that writes has died."""


@dataclass(frozen=True, slots=True)
class Fault:
    kind: Kind
    at: int


class Operations:
    """Counts the operations that change a store, and lets one of them fail."""

    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        self._count = 0
        self._order = threading.RLock()
        self._is_inside = False
        self._pid = os.getpid
        self.locks: list[Any] = []
        """Those that the process may hold when it dies."""
        self.happened = False
        self.is_dead = False
        self.is_done = False

    def check_alive(self) -> None:
        """Raise `Killed` if the process has died."""
        if self.is_dead:
            raise Killed

    def change(self, store: Store, call: Callable[[], Any], half: Callable[[], Any]) -> Any:
        """Carry out an operation, or what the fault makes of it; ``half`` does a part of it."""
        with self._order:
            self.check_alive()
            if self._is_inside:  # an operation that consists of others
                return call()
            self._count += 1
            kind: str = self._fault.kind
            is_now = self._count == self._fault.at
            is_later = kind == "refused on" and self._count > self._fault.at
            if not (is_now or is_later):
                return self._whole(call)
            self.happened = True
            if kind in ("answer lost", "killed after"):
                self._whole(call)
            elif kind == "half":
                self._whole(half)
            if kind in ("refused", "refused on", "answer lost"):
                raise StoreError("the store refuses, for a test", store=store.location)
            self._die()
            raise Killed

    def _whole(self, call: Callable[[], Any]) -> Any:
        self._is_inside = True
        try:
            return call()
        finally:
            self._is_inside = False

    def _die(self) -> None:
        self.is_dead = True
        answer = self._pid() + 2**22  # larger than the id of any process
        os.getpid = lambda: answer

    def end(self) -> None:
        """Leave the locks as the system does when their process has died."""
        if not self.is_dead:
            return
        os.getpid = self._pid  # stores of object stores refuse to work in another process
        locks._forget_all()
        for lock in self.locks:
            if isinstance(lock, locks.KeyLock):
                lock.release()  # as a user does with break_lock=True
            elif isinstance(lock, locks.ProcessLock) and lock._is_held:
                locks._OF_THIS_PROCESS.pop(lock._name, None)
            lock._is_held = False


@contextmanager
def failing(store: Store, operations: Operations, lock: Any = None) -> Iterator[None]:
    """Let an operation of stores of this kind fail in the block."""
    if lock is not None:
        operations.locks.append(lock)
    classes: list[type[Store]] = [type(store.unwrapped)]
    classes += [LocalStore] if store.folder is not None and classes[0] is not LocalStore else []
    classes += [NewZipStore] if store.zip_file is not None else []
    restores = [_replaced(cls, operations) for cls in classes]
    restores.append(_replaced_of(locks.WriterLock, {"__init__": _noting(operations)}))
    puts, memory.PUTS = memory.PUTS, 1  # one after the other, so that the same one fails each time
    try:
        yield
    finally:
        memory.PUTS = puts
        for restore in restores:
            restore()
        operations.end()


def _noting(operations: Operations) -> Callable[..., None]:
    real = locks.WriterLock.__init__

    def initialise(self: Any, location: str) -> None:
        real(self, location)
        operations.locks.append(self)

    return initialise


def _replaced(cls: type[Store], operations: Operations) -> Callable[[], None]:
    """Let the operations of a class of stores go by ``operations``; return a function that ends it."""
    methods: dict[str, Any] = {name: _alive(getattr(cls, name), operations) for name in _READS}
    real_set, real_stream = cls._set, cls._stream
    real_delete, real_delete_below = cls._delete, cls._delete_below

    def set_value(self: Store, key: str, value: bytes) -> None:
        if key.endswith(_LOCK_SUFFIX):
            real_set(self, key, value)
            return
        operations.change(self, lambda: real_set(self, key, value), lambda: _write_half(self, key, value))

    def delete(self: Store, keys: Iterable[str]) -> None:
        gone = list(keys)
        if any(key.endswith(_LOCK_SUFFIX) for key in gone):
            real_delete(self, gone)
            return
        half = gone[: len(gone) // 2]
        operations.change(self, lambda: real_delete(self, gone), lambda: real_delete(self, half))

    def delete_below(self: Store, path: str) -> None:
        half = list(self.list_prefix(path))[::2]
        operations.change(self, lambda: real_delete_below(self, path), lambda: real_delete(self, half))

    @contextmanager
    def stream(self: Store, key: str) -> Iterator[Any]:
        operations.change(self, lambda: None, lambda: None)
        with real_stream(self, key) as write:
            yield write
        operations.change(self, lambda: None, lambda: None)

    methods |= {"_set": set_value, "_delete": delete, "_delete_below": delete_below}
    return _replaced_of(cls, {**methods, "_stream": stream})


def _alive(real: Callable[..., Any], operations: Operations) -> Callable[..., Any]:
    def method(self: Store, *arguments: Any) -> Any:
        operations.check_alive()
        return real(self, *arguments)

    return method


def _replaced_of(cls: type, methods: Mapping[str, Any]) -> Callable[[], None]:
    own = {name: vars(cls).get(name) for name in methods}
    for name, method in methods.items():
        setattr(cls, name, method)

    def restore() -> None:
        for name, method in own.items():
            if method is None:
                delattr(cls, name)
            else:
                setattr(cls, name, method)

    return restore


def _write_half(store: Store, key: str, value: bytes) -> None:
    """Leave what a put of a local file leaves in its middle; other stores have a value or do not have it."""
    if store.folder is None:
        return
    path = os.path.join(store.folder, key)
    if store._replaces(key):  # type: ignore[attr-defined] # of a local directory
        path = f"{path}.{uuid.uuid4().hex}.partial"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(value[: len(value) // 2])
