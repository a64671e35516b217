"""Progress of long operations: callbacks, and a bar for terminals.

The code that works calls `Progress.start`, `advance` and `finish`; who shows it, and whether, is decided elsewhere.
"""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """Is told of the bytes that are done; does nothing. Subclass it to show or record them."""

    def start(self, total: int) -> None:
        """Begin, with ``total`` bytes to come (0: unknown)."""

    def advance(self, path: str, done: int) -> None:
        """Note that ``done`` more bytes of the array at ``path`` are complete."""

    def finish(self) -> None:
        """End."""


SILENT = Progress()


class TerminalProgress(Progress):
    """A bar on standard error, by tqdm.

    Parameters
    ----------
    label : str
        What is shown before the bar.
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
        """Take the bar away."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def terminal_progress(label: str) -> Progress:
    """Return a bar if standard error is a terminal and tqdm is installed, else one that is silent."""
    if not sys.stderr.isatty():
        return SILENT
    try:
        import tqdm  # noqa: F401 - only asked whether it is there
    except ModuleNotFoundError:
        return SILENT
    return TerminalProgress(label)
