"""Places of a file in which each state is known that a process leaves if it is killed there.

A `State` has the values of a file by key; what is beside a local file has a key that begins with ``../``.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest

from hdmf_zarr_backend.errors import FormatsDifferWarning, IncompleteStoreError, JournalWarning, StoreNotFoundError
from hdmf_zarr_backend.store import transaction
from hdmf_zarr_backend.store.base import Abilities
from hdmf_zarr_backend.store.memory import QueuedStore
from hdmf_zarr_backend.store.opening import open_store
from tests.faults import appending
from tests.transaction.steps import State, Step, Steps, apply, states
from tests.watching import listening

T = TypeVar("T")
Act = Callable[[Any], object]
UNFINISHED = re.compile(r"(\.hdmf_zarr_journal|\.zmetadata|zarr\.json)\.[0-9a-f]{32}\.partial")
"""The keys of a value that was not put to its end, which means nothing."""


class Cell(NamedTuple):
    """A user of the transaction, and the format of the file that it changes."""

    user: str
    zarr_format: Any


COUNTS: Counter[tuple[str, str, str, str]] = Counter()
"""How many cases there were of each user, format, place and end."""

IS_FULL = "HDMF_ZARR_BACKEND_STEPS" in os.environ
"""Whether all steps are taken, as `python -m tests.transaction` does."""


def count(cell: Cell, place: Memory, end: str, cases: int) -> None:
    COUNTS[cell.user, str(cell.zarr_format), place.name, end] += cases


def some(items: Sequence[T], every: int, full: int = 1) -> Sequence[T]:
    """Return every so many of some states, and the last one; each, or one of ``full``, if all steps are taken."""
    every = full if IS_FULL else every
    return [*items[:-1:every], items[-1]]


class Memory:
    name = "memory"
    recoveries = 1
    """The recovery is killed at one of so many steps, if all steps are taken."""

    def run(self, before: State, act: Act) -> list[State]:
        """Return the states before the first change that ``act`` makes in the store, and after each one."""
        store = Steps(before)
        act(store)
        return list(states(before, store.log))

    def reading(self, values: State) -> Any:
        """Return what is passed to a reader of a state."""
        return values

    def said(self, values: State, zarr_format: Any) -> Any:
        """Return what a reader finds; "refused" for an error that says that the file is not complete."""
        key = (self.name, frozenset(values.items()), zarr_format)
        if key not in _SAID:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", JournalWarning)
                warnings.simplefilter("ignore", FormatsDifferWarning)
                try:
                    _SAID[key] = appending.said(self.reading(values), zarr_format=zarr_format)
                except (IncompleteStoreError, StoreNotFoundError):
                    _SAID[key] = "refused"
        return _SAID[key]


_SAID: dict[Any, Any] = {}


class Queue(Memory):
    """A store in memory whose puts run in the background: of those that were not waited for, any may be lost."""

    name = "queue"
    recoveries = 5

    def run(self, before: State, act: Act) -> list[State]:
        store = _Remote(before)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(transaction, "QueuedStore", _Queued)
            act(store)
        return list(self._states(before, store.events))

    @staticmethod
    def _states(before: State, events: Iterable[tuple[str, Step]]) -> Iterator[State]:
        chance = random.Random(1)  # noqa: S311 - the same cases each time
        base, waiting = dict(before), list[Step]()
        yield dict(base)
        for kind, step in events:
            if kind == "drain":
                for done in waiting:
                    apply(base, done)
                waiting.clear()
                continue
            if kind == "queue":
                waiting.append(step)
            else:
                apply(base, step)
            for _ in range(2 if waiting else 1):
                values = dict(base)
                for done in waiting:
                    if chance.random() < 0.5:
                        apply(values, done)
                yield values
        for done in waiting:
            apply(base, done)
        yield base


class _Remote(Steps):
    abilities = Abilities(is_remote=True)

    def __init__(self, values: State) -> None:
        super().__init__(values)
        self.events: list[tuple[str, Step]] = []
        self.kind_of_put = "direct"

    def _change(self, step: Step) -> None:
        super()._change(step)
        self.events.append((self.kind_of_put, step))


class _Queued(QueuedStore):
    """Puts at once, and says so: what waits is read as if it were stored."""

    def _set(self, key: str, value: bytes) -> None:
        remote = self.unwrapped
        remote.kind_of_put = "queue"  # type: ignore[attr-defined]
        super(QueuedStore, self)._set(key, value)
        remote.kind_of_put = "direct"  # type: ignore[attr-defined]

    def flush(self) -> None:
        self.unwrapped.events.append(("drain", ("", None)))  # type: ignore[attr-defined]

    drain = flush


_CHANGES = frozenset({"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link"})


class Disk(Memory):
    """A local file; each call of the system that changes something is a step.

    Without ``exchanges``, the system cannot exchange two names.
    """

    recoveries = 15

    def __init__(self, folder: Path, name: str = "a.zarr", *, exchanges: bool = True) -> None:
        self.name = "zip" if name.endswith(".zip") else "disk" if exchanges else "disk without exchange"
        self.path = folder / "in" / name
        self.exchanges = exchanges

    def run(self, before: State, act: Act) -> list[State]:
        self._load(before)
        found = [before]
        above = str(self.path.parent)

        def hear(event: str, arguments: tuple[Any, ...]) -> None:
            is_open = event == "open" and isinstance(arguments[2], int)
            is_change = event in _CHANGES or (is_open and arguments[2] & (os.O_WRONLY | os.O_RDWR))
            if is_change and str(arguments[0]).startswith(above) and (now := self._values()) != found[-1]:
                found.append(now)

        with pytest.MonkeyPatch.context() as patch, listening(hear):
            if not self.exchanges:
                patch.setattr("hdmf_zarr_backend.store.files._renameat2", lambda one, other, flag: False)
            act(open_store(str(self.path), {}))
        return [*found, self._values()]

    def _load(self, values: State) -> None:
        shutil.rmtree(self.path.parent, ignore_errors=True)
        self.path.parent.mkdir(parents=True)
        for key, value in values.items():
            path = self.path / key if not key.startswith("../") else self.path.parent / key[3:]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(value)

    def _values(self) -> State:
        files = (Path(place, name) for place, _, names in os.walk(self.path.parent) for name in names)
        return {os.path.relpath(file, self.path): file.read_bytes() for file in files}

    def reading(self, values: State) -> Any:
        self._load(values)
        return self.path


class Bucket(Memory):
    """A file in a bucket of moto's S3 server, which runs in a thread."""

    name = "s3"
    recoveries = 30

    def __init__(self, url: str, options: dict[str, Any], backend: Any) -> None:
        self.url = url
        self.options = options
        self.backend = backend

    def load(self, values: State) -> None:
        stored = self.backend.buckets["bucket"].keys
        for key in list(stored):
            stored.pop(key)
        for key, value in values.items():
            self.backend.put_object("bucket", f"a.zarr/{key}", value)

    def values(self) -> State:
        stored = self.backend.buckets["bucket"].keys
        return {key[7:]: stored[key].value for key in list(stored) if key.startswith("a.zarr/")}

    def run(self, before: State, act: Act) -> list[State]:
        store, log = self.reading(before), list[Step]()
        with pytest.MonkeyPatch.context() as patch:
            for name in ("_put_value", "_remove"):
                patch.setattr(store, name, partial(_noting, getattr(store, name), log))
            act(store)
        found = list(states(before, log))
        assert found[-1] == self.values()
        return found

    def reading(self, values: State) -> Any:
        self.load(values)
        return open_store(self.url, self.options)


def _noting(function: Any, log: list[Step], keys: Any, *value: bytes) -> None:
    function(keys, *value)
    log += [(keys, value[0])] if value else [(key, None) for key in keys]


@contextmanager
def bucket() -> Iterator[Bucket]:
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    from moto.s3.models import s3_backends

    backend = s3_backends["123456789012"]["aws"]
    backend.create_bucket("bucket", "us-east-1")
    server.start()
    try:
        endpoint = "http://{}:{}".format(*server.get_host_and_port())
        options = {"key": "tester", "secret": "secret", "endpoint_url": endpoint, "region_name": "us-east-1"}
        yield Bucket("s3://bucket/a.zarr", options, backend)
    finally:
        server.stop()
        backend.reset()
