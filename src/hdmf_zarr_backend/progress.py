"""Progress of long operations: callbacks, and a bar for terminals.

The code that works calls `Progress.start`, `advance` and `finish`. The caller decides whether and how to show it.
"""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """Receives the number of completed bytes, and ignores it. Subclass it to show or record progress."""

    def start(self, total: int) -> None:
        """Begin, with ``total`` bytes to come (0: unknown)."""

    def advance(self, path: str, done: int) -> None:
        """Record that ``done`` more bytes of the array at ``path`` are complete."""

    def finish(self) -> None:
        """End."""


SILENT = Progress()


class TerminalProgress(Progress):
    """A bar on standard error, by tqdm.

    Parameters
    ----------
    label : str
        Text before the bar.
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None

    def start(self, total: int) -> None:
        """Show an empty bar."""
        from tqdm import tqdm

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


def terminal_progress(label: str) -> Progress:
    """Return a progress bar if standard error is a terminal and tqdm is installed, else a silent `Progress`."""
    if not sys.stderr.isatty():
        return SILENT
    try:
        import tqdm  # noqa: F401 - to test whether it is installed
    except ModuleNotFoundError:
        return SILENT
    return TerminalProgress(label)
