"""`painted`: text in colour, on terminals only."""

from __future__ import annotations

import os
import sys
from typing import Literal, TextIO, TypeAlias

Style: TypeAlias = Literal["bold", "red", "green", "yellow", "cyan"]

_CODES: dict[Style, str] = {"bold": "1", "red": "1;31", "green": "32", "yellow": "33", "cyan": "36"}


def has_colour(stream: TextIO) -> bool:
    """Return whether to write colours to a stream.

    A terminal gets colours, a file or a pipe does not. ``NO_COLOR`` turns them off, and ``FORCE_COLOR`` turns them on
    for any output; ``NO_COLOR`` decides if both are set.

    Source: no-color.org and force-color.org: a variable counts if it is set and not empty.
    """
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    if not stream.isatty() or os.environ.get("TERM") == "dumb":
        return False
    return sys.platform != "win32" or bool(os.environ.get("WT_SESSION") or os.environ.get("TERM"))


def painted(text: str, style: Style, stream: TextIO) -> str:
    """Return text in a style if the stream shows colours, else unchanged."""
    return f"\x1b[{_CODES[style]}m{text}\x1b[0m" if text and has_colour(stream) else text
