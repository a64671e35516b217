"""What a command of `zarrio` is: one module that makes one `Command`, and how it tells its result."""

from __future__ import annotations

import json
import math
import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, TextIO, TypeVar

from hdmf_zarr_backend.model.render import ASCII, UNICODE, Symbols

T = TypeVar("T")

_PARTICULARS = re.compile(r"""'[^']*'|"[^"]*"|\d[\d.,]*""")


class Exit(IntEnum):
    """Exit codes of all commands."""

    OK = 0
    FOUND = 1
    FAILED = 2


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Parameters
    ----------
    name : str
        What the user types.
    summary : str
        One line, for the list of commands.
    description : str
        What it does, for its own help.
    examples : str
        At least one line that can be typed.
    configure : callable
        Adds its arguments to a parser.
    run : callable
        Does it, and returns the exit code.
    """

    name: str
    summary: str
    description: str
    examples: str
    configure: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Exit]


def complain(said: str | BaseException, command: Command | None = None) -> None:
    """Write one line to standard error.

    Parameters
    ----------
    said : str or BaseException
        A message, or the error that has it.
    command : Command, optional
        The command that was typed: what the message says of arguments in Python is said of its options.
    """
    from hdmf_zarr_backend.cli.wording import told, worded  # on use: most commands have nothing to complain about

    text = told(said, command) if isinstance(said, BaseException) else worded(said, command)
    print(f"zarrio: {' '.join(text.split())}", file=sys.stderr)


def finding_lines(
    findings: Iterable[T], line: Callable[[T], str], alike: Callable[[T], str], *, verbose: bool
) -> list[str]:
    """Return the lines about findings, those that are alike in one.

    Parameters
    ----------
    findings : iterable
        What was found.
    line : callable
        Gives the line about one of them.
    alike : callable
        Gives the text that tells kinds of findings apart; names in quotation marks and numbers in it do not count.
    verbose : bool
        A line for each finding.
    """
    groups: dict[object, list[T]] = {}
    for number, finding in enumerate(findings):
        groups.setdefault(number if verbose else _PARTICULARS.sub("", alike(finding)), []).append(finding)
    return [f"{line(found[0])}{_others(len(found) - 1)}" for found in groups.values()]


def _others(count: int) -> str:
    return f" (and {count:,} more like this one; --verbose shows each)" if count else ""


def print_limited(lines: Sequence[object], limit: int) -> None:
    """Write at most ``limit`` lines to standard output, all of them if it is 0, and how many there are more."""
    shown = lines if limit <= 0 else lines[:limit]
    for line in shown:
        print(line)
    if len(shown) < len(lines):
        print(f"... and {len(lines) - len(shown):,} more; --limit 0 shows them all")


def print_json(document: Any) -> None:
    """Write a document to standard output as strict JSON.

    ASCII only, so that no terminal and no pipe can spoil it; NaN and infinities, which JSON has no word for, as text.
    """
    print(json.dumps(_strict(document), indent=2, allow_nan=False))


def _strict(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _strict(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_strict(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return str(value)


def symbols_for(stream: TextIO) -> Symbols:
    """Return what a tree can be drawn with on `stream`."""
    try:
        "".join(getattr(UNICODE, field.name) for field in fields(UNICODE)).encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE
