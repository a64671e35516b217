"""What a command of `zarrio` is: one module that makes one `Command`, and how it tells its result."""

from __future__ import annotations

import json
import math
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Any, TextIO

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.model.render import ASCII, UNICODE, Symbols


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


def add_storage_option(parser: ArgumentParser) -> None:
    """Give a command the option ``--storage-option``."""
    parser.add_argument(
        "-O",
        "--storage-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option for URLs, such as anon=true or endpoint_url=http://host:9000; can be repeated",
    )


def storage_options(arguments: Namespace) -> dict[str, Any]:
    """Return what ``--storage-option`` says.

    Raises
    ------
    UsageError
        One of them has no name.
    """
    options: dict[str, Any] = {}
    for said in arguments.storage_option:
        name, mark, text = said.partition("=")
        if not (name and mark):
            raise UsageError(f"the storage option {said!r} has no name and value", remedy="Write NAME=VALUE.")
        try:
            options[name] = json.loads(text)
        except ValueError:
            options[name] = text
    return options


def complain(message: str) -> None:
    """Write one line to standard error."""
    print(f"zarrio: {' '.join(message.split())}", file=sys.stderr)


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
