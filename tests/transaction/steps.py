"""A store in memory that stops, refuses, or loses the answer of an operation; and the states between its operations."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, get_args

from hdmf_zarr_backend.errors import StoreFullError, StoreRefusedError, StoreUnreachableError
from hdmf_zarr_backend.store.base import JOURNAL, Store

State = dict[str, bytes]
Step = tuple[str, bytes | None]
"""A key and its new value; None: it is deleted. The key ``""`` is a wait for the disk."""

SYNC: Step = ("", None)


Kind = Literal["killed", "refused", "lost", "gone", "away", "stopped"]
"""What happens at an operation: the process is ``killed``, or the put is ``refused``. Its answer is ``lost``; the store
is ``gone`` from then on, or ``away`` once it is done; Ctrl-C has ``stopped`` the process after it.
"""
KINDS: tuple[Kind, ...] = get_args(Kind)
_DONE = ("lost", "away", "stopped")
_FOR_GOOD = ("killed", "gone", "away")


class Killed(BaseException):
    """The process ended here: no handler of errors runs."""


class Steps(Store):
    """A store of ``values`` that logs what changes it, ends at one of these steps, and has ``room`` for some bytes."""

    of_one_process = True
    room = math.inf

    def __init__(self, values: Mapping[str, bytes] = {}, at: int = 0, kind: Kind = "killed") -> None:
        self.values = dict(values)
        self.location = f"object://{id(self):x}"
        self.log: list[Step] = []
        self.at = at
        self.kind = kind

    def get(self, key: str) -> bytes | None:
        self._answer()
        return self.values.get(key)

    def _answer(self) -> None:
        if self.kind in _FOR_GOOD and 0 < self.at <= len(self.log):
            self._fail()

    def _fail(self) -> None:
        if self.kind in ("killed", "stopped"):
            raise Killed if self.kind == "killed" else KeyboardInterrupt
        if self.kind == "refused":
            raise StoreRefusedError("not allowed", store=self.location)
        raise StoreUnreachableError("no answer", store=self.location)

    def _change(self, step: Step) -> None:
        self._answer()
        is_now = len(self.log) + 1 == self.at
        is_done = not is_now or self.kind in _DONE
        self.log.append(step if is_done else SYNC)  # counts, but changes nothing
        if is_done:
            apply(self.values, step)
        if is_now:
            self._fail()

    def _set(self, key: str, value: bytes) -> None:
        assert type(value) is bytes
        if self.room < math.inf and len(value) - len(self.values.get(key, b"")) > self.room - self.size():
            raise StoreFullError("no space is left", store=self.location)
        self._change((key, value))

    def size(self) -> int:
        return sum(map(len, self.values.values()))

    def _delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            if key in self.values:
                self._change((key, None))

    def sync(self) -> None:
        if self.is_durable:
            self.log.append(SYNC)

    def sizes(self, prefix: str) -> dict[str, int]:
        self._answer()
        start = f"{prefix}/" if prefix else ""
        return {key: len(value) for key, value in self.values.items() if key.startswith(start)}

    def exists(self) -> bool:
        return bool(self.values)


def apply(values: State, step: Step) -> None:
    key, value = step
    if value is None:
        values.pop(key, None)
    else:
        values[key] = value


def states(before: Mapping[str, bytes], log: Iterable[Step]) -> Iterator[State]:
    """Yield what is stored before the first step and after each one: what a process leaves that is killed there."""
    values = dict(before)
    yield dict(values)
    for step in log:
        if step != SYNC:
            apply(values, step)
            yield dict(values)


def power_cuts(before: Mapping[str, bytes], log: list[Step], *, seed: int) -> Iterator[State]:
    """Yield what a disk may have after a power cut between two steps.

    Of those after the last wait, any may be lost, and of a value there may be nothing, or the half.
    """
    chance = random.Random(seed)  # noqa: S311 - the same cases each time
    synced = dict(before)
    for _, group in itertools.groupby(_numbered(log), key=lambda pair: pair[0]):
        steps = [step for _, step in group if step != SYNC]
        for count in range(1, len(steps) + 1):
            some = steps[:count]
            choices = [
                [some[-1]],
                some[:-1],
                [step for step in some if chance.random() < 0.5],
                [step for step in some if chance.random() < 0.5],
                *([_torn(some[-1], part)] for part in (0, 1)),
                [_torn(step, chance.choice([0, 1, 2])) for step in some],
            ]
            for kept in choices:
                values = dict(synced)
                for step in kept:
                    apply(values, step)
                yield values
        for step in steps:
            apply(synced, step)


def _torn(step: Step, part: int) -> Step:
    """Return what a cut leaves of a value. A local file waits for those at the root, but records may be torn."""
    key, value = step
    is_torn = "/" in key or re.fullmatch(rf"{re.escape(JOURNAL)}(\.\d+|\.commit)?", key)
    return (key, value[: len(value) * part // 2]) if value is not None and is_torn else step


def _numbered(log: Iterable[Step]) -> Iterator[tuple[int, Step]]:
    number = 0
    for step in log:
        yield number, step
        number += step == SYNC
