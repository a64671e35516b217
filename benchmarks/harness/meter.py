"""What one piece of work costs in its process: CPU, wall time, memory, operations on files.

Runs in every engine's interpreter and needs the standard library only.
"""

from __future__ import annotations

import gc
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MIB = 2**20
_WRITING = os.O_WRONLY | os.O_RDWR
_EVENTS = {
    "os.mkdir": "mkdir",
    "os.rename": "rename",
    "os.remove": "remove",
    "os.rmdir": "remove",
    "os.listdir": "list",
    "os.scandir": "list",
}


class Meter:
    """Measures one block of code; set-up before it and checks after it cost nothing.

    Parameters
    ----------
    enabled : bool
        False for the warm-up: nothing is recorded.
    count_below : pathlib.Path, optional
        Count operations on files below this folder. It slows the work down: such a run gives no times.
    """

    def __init__(self, *, enabled: bool, count_below: Path | None = None) -> None:
        self._enabled = enabled
        self._count_below = count_below
        self.figures: dict[str, float] = {}
        self.operations: Counter[str] = Counter()

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Measure the block: seconds of CPU (all threads, finished children) and of wall time, MiB over what was there.

        Raises
        ------
        RuntimeError
            It is the second block of this meter.
        """
        if not self._enabled:
            yield
            return
        if self.figures:
            raise RuntimeError(
                "one process measures one block: another would inherit its caches and its peak of memory"
            )
        gc.collect()
        counter = _OperationCounter(self._count_below) if self._count_below else None
        peak_is_reset = _reset_peak()
        resident = _resident_mib()
        cpu, wall = _cpu_seconds(), time.perf_counter()
        yield
        wall, cpu = time.perf_counter() - wall, _cpu_seconds() - cpu
        self.figures = {"cpu": cpu, "wall": wall}
        if peak_is_reset:
            self.figures["memory"] = max(0.0, _peak_mib() - resident)
            self.figures["peak"] = _peak_mib()
        if counter:
            counter.active = False
            self.operations = counter.counts

    def note(self, **figures: float) -> None:
        """Add figures that something else has counted."""
        if self._enabled:
            self.figures |= figures


class _OperationCounter:
    """Counts what Python asks of the file system; a look whether a file exists raises no audit event and is missed."""

    def __init__(self, folder: Path) -> None:
        self.active = True
        self.counts: Counter[str] = Counter()
        self._prefix = os.fspath(folder)
        sys.addaudithook(self._hear)  # a hook cannot be removed, only silenced

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active or not (event == "open" or event in _EVENTS):
            return
        path = arguments[0]
        if not isinstance(path, (str, bytes, os.PathLike)) or not os.fsdecode(path).startswith(self._prefix):
            return
        if event == "open":
            self.counts["write" if _opens_to_write(*arguments[1:3]) else "read"] += 1
        else:
            self.counts[_EVENTS[event]] += 1


def _opens_to_write(mode: str | None, flags: int | None) -> bool:
    if mode is not None:
        return not set(mode).isdisjoint("wax+")
    return bool((flags or 0) & _WRITING)


def _cpu_seconds() -> float:
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


def _reset_peak() -> bool:
    """Make the system forget the peak of memory so far; False where it cannot (only Linux can)."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def _resident_mib() -> float:
    return _status("VmRSS")


def _peak_mib() -> float:
    return _status("VmHWM")


def _status(field: str) -> float:
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / _MIB for line in lines if line.startswith(f"{field}:")), 0.0)
