"""Progress of long operations: callbacks, and a bar for terminals and notebooks.

The code that works calls `Progress.start`, `advance` and `finish`. The caller decides whether and how to show it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, NamedTuple

from hdmf_zarr_backend.errors import UsageError, printable
from hdmf_zarr_backend.extras import library_of


class Progress:
    """Receives the number of completed bytes, and ignores it. Subclass it to show or record progress."""

    def start(self, total: int) -> None:
        """Begin, with ``total`` bytes to come (0: unknown)."""

    def advance(self, path: str, done: int) -> None:
        """Record that ``done`` more bytes of the array at ``path`` are complete."""

    def finish(self) -> None:
        """End."""


SILENT = Progress()


@contextmanager
def reporting(progress: Progress, total: int) -> Iterator[None]:
    """Start the progress of the block, and end it, also before the message of an error."""
    progress.start(total)
    try:
        yield
    finally:
        progress.finish()


class BarProgress(Progress):
    """A bar of tqdm, which stays: a widget in a notebook, else a line on standard error."""

    _make: Any
    _bar: Any = None

    def __init__(self) -> None:
        with library_of("cli", "progress=True"):
            from tqdm.auto import tqdm
        self._make = tqdm

    def start(self, total: int) -> None:
        """Show an empty bar."""
        self.finish()
        self._bar = self._make(total=total or None, unit="B", unit_scale=True)

    def advance(self, path: str, done: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(done)

    def finish(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def as_progress(progress: Progress | bool) -> Progress:  # noqa: FBT001 - what users give
    """Return what receives progress: for True a bar, for False nothing."""
    if isinstance(progress, bool):
        return BarProgress() if progress else SILENT
    if not all(callable(getattr(progress, name, None)) for name in ("start", "advance", "finish")):
        raise UsageError(f"progress={progress!r} cannot show progress", remedy="Give True, or a Progress.")
    return progress


def _write(text: str) -> None:
    """Write to standard error at once."""
    sys.stderr.write(text)
    sys.stderr.flush()


class Batch(NamedTuple):
    """One of many files: its position, from 1, their number, and when the first began, in seconds since 1970."""

    position: int
    files: int
    began: float


class TerminalProgress(BarProgress):
    """A bar on standard error, by tqdm, which goes away: of one file in bytes, of a batch in files."""

    def __init__(self, label: str, batch: Batch | None = None) -> None:
        self._label = label = printable(label)
        self._batch = batch
        self._total = self._shown = 0
        # hdmf and zarr take seconds to import: the name of the file shows that something happens
        if batch is not None:
            line = label[: shutil.get_terminal_size().columns - 1]
            self._shown = len(line)
            _write(f"\r{line}")

    def start(self, total: int) -> None:
        """Show an empty bar."""
        # an extra: without it the name stays, and no bar follows
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            return
        self._clear()
        self._total, batch = total, self._batch
        options: dict[str, Any] = {"desc": self._label, "file": sys.stderr, "leave": False}
        if batch is None:
            self._bar = tqdm(total=total or None, unit="B", unit_scale=True, **options)
            return
        # one bar for all files, drawn again for each, since messages come between them
        form = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}]"
        self._bar = tqdm(total=batch.files, initial=batch.position - 1, bar_format=form, **options)
        self._bar.start_t, self._bar.initial = batch.began, 0  # the time that is left is that of all files

    def advance(self, path: str, done: int) -> None:
        """Move the bar."""
        if self._batch is not None and self._bar is not None:
            rest = self._batch.position - self._bar.n
            self._bar.update(min(done / self._total, rest) if self._total else 0)
        else:
            super().advance(path, done)

    def finish(self) -> None:
        """Remove the bar."""
        super().finish()
        self._clear()

    def _clear(self) -> None:
        """Remove the label that is shown without a bar."""
        if self._shown:
            _write(f"\r{' ' * self._shown}\r")
            self._shown = 0


def clear_line() -> None:
    """Clear the line of a terminal that shows progress, before a message."""
    # a warning during a conversion would continue the line of the bar
    if sys.stderr.isatty():
        _write(f"\r{' ' * (shutil.get_terminal_size().columns - 1)}\r")


def terminal_progress(label: str, batch: Batch | None = None) -> Progress:
    """Return a progress bar if standard error is a terminal and tqdm is installed, else a silent `Progress`."""
    is_shown = sys.stderr.isatty() and (batch is not None or find_spec("tqdm") is not None)
    return TerminalProgress(label, batch) if is_shown else SILENT
