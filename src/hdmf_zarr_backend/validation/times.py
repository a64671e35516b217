"""Texts that are times: ISO 8601 as hdmf takes it. Standard library only."""

from __future__ import annotations

import re
from typing import Any, Final

ISO: Final = "isodatetime"
NAIVE: Final = "isodatetime without timezone"
OTHER: Final = "other"
UNKNOWN: Final = "unknown"

FORMATS: Final = (ISO, NAIVE, OTHER, UNKNOWN)
"""A time with a time zone, a time or a date without, no time, and a text that was not looked at."""

_TIME = re.compile(
    r"-?[0-9]{4,}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
    r"(?P<time>T(?:[01][0-9]|2[0-3])(?::[0-5][0-9]){2}(?:\.[0-9]+)?"
    r"(?P<zone>Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?)?"
)


def text_format(text: Any, *, is_scalar: bool = True) -> str:
    """Return which of `FORMATS` a text is.

    Parameters
    ----------
    text : str, bytes or None
        None: it was not read.
    is_scalar : bool
        False: it stands for an array, of which the time zone is not asked.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if not isinstance(text, str):
        return UNKNOWN
    match = _TIME.fullmatch(text)
    if match is None:
        return OTHER
    return ISO if match["zone"] or not is_scalar else NAIVE
