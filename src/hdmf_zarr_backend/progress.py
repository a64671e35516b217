"""Progress of long operations: callbacks, and a bar for terminals and notebooks.

The code that works calls `Progress.start`, `advance` and `finish`. The caller decides whether and how to show it.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
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


class Batch(NamedTuple):
    """One of many files: its position, from 1, their number, and when the first began, in seconds since 1970."""

    position: int
    files: int
    began: float


class TerminalProgress(BarProgress):
    """A bar on standard error, by tqdm, which goes away: of one file in bytes, of a batch in files."""

    def __init__(self, label: str, batch: Batch | None = None) -> None:
        from tqdm import tqdm

        width = shutil.get_terminal_size().columns - 1
        self._make = partial(tqdm, desc=printable(label), file=sys.stderr, leave=False, ncols=width)
        self._batch = batch
        if batch is not None:
            # hdmf and zarr take seconds to import: the bar of a batch shows at once that something happens
            self.start(0)

    def start(self, total: int) -> None:
        """Show an empty bar; that of a batch, unless it is there."""
        self._total = total
        if self._batch is None:
            super().start(total)
        elif self._bar is None:
            # one bar for all files, drawn again for each, since messages come between them
            form = "{desc}: {percentage:3.0f}%|{bar}| [{elapsed}<{remaining}]"
            self._bar = self._make(total=self._batch.files, initial=self._batch.position - 1, bar_format=form)
            self._bar.start_t, self._bar.initial = self._batch.began, 0  # the time that is left is that of all files

    def advance(self, path: str, done: int) -> None:
        """Move the bar."""
        if self._batch is not None and self._bar is not None:
            rest = self._batch.position - self._bar.n
            self._bar.update(min(done / self._total, rest) if self._total else 0)
        else:
            super().advance(path, done)


def terminal_progress(label: str, batch: Batch | None = None) -> Progress:
    """Return a progress bar if standard error is a terminal and tqdm is installed, else a silent `Progress`."""
    return TerminalProgress(label, batch) if sys.stderr.isatty() and find_spec("tqdm") is not None else SILENT
