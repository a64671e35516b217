"""Progress of long operations: callbacks, and a bar for terminals.

The code that works calls `Progress.start`, `advance` and `finish`. The caller decides whether and how to show it.
"""

from __future__ import annotations

import shutil
import sys
from importlib.util import find_spec
from typing import Any

from hdmf_zarr_backend.errors import printable


class Progress:
    """Receives the number of completed bytes, and ignores it. Subclass it to show or record progress."""

    def start(self, total: int) -> None:
        """Begin, with ``total`` bytes to come (0: unknown)."""

    def advance(self, path: str, done: int) -> None:
        """Record that ``done`` more bytes of the array at ``path`` are complete."""

    def finish(self) -> None:
        """End."""


SILENT = Progress()


def _write(text: str) -> None:
    """Write to standard error at once."""
    sys.stderr.write(text)
    sys.stderr.flush()


class TerminalProgress(Progress):
    """A bar on standard error, by tqdm."""

    def __init__(self, label: str, *, at_once: bool = False) -> None:
        self._label = label = printable(label)
        self._bar: Any = None
        self._shown = 0
        # hdmf and zarr take seconds to import: the name of the file shows that something happens
        if at_once:
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
        self._bar = tqdm(total=total or None, desc=self._label, unit="B", unit_scale=True, file=sys.stderr, leave=False)

    def advance(self, path: str, done: int) -> None:
        """Move the bar."""
        if self._bar is not None:
            self._bar.update(done)

    def finish(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
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


def terminal_progress(label: str, *, at_once: bool = False) -> Progress:
    """Return a progress bar if standard error is a terminal and tqdm is installed, else a silent `Progress`."""
    is_shown = sys.stderr.isatty() and (at_once or find_spec("tqdm") is not None)
    return TerminalProgress(label, at_once=at_once) if is_shown else SILENT
