"""The tree of a file as `zarrio inspect` and `zarrio plan` print it."""

from __future__ import annotations

import shutil
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.command import symbols_for
from hdmf_zarr_backend.model.render import render

if TYPE_CHECKING:
    from hdmf_zarr_backend.files.outline import Outline


def add_tree_options(parser: ArgumentParser) -> None:
    """Give a command the options of a tree: ``--depth``, ``--all`` and ``--specs``."""
    parser.add_argument("--depth", type=_level, metavar="N", help="show so many levels; of deeper ones only the sums")
    parser.add_argument("--all", action="store_true", help="show each member of long runs of members that are alike")
    parser.add_argument("--specs", action="store_true", help="show the cached specifications")


def _level(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"invalid level value: {text!r}; give a whole number from 0")
    return int(text)


def _output_width() -> int | None:
    """Return the width of the terminal, which COLUMNS overrides; None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(lines: Iterable[str]) -> list[str]:
    """Return lines, those that are longer than standard output is wide as several."""
    width = _output_width()
    if width is None:
        return [line for line in lines if line]
    return [
        part
        for line in lines
        for part in textwrap.wrap(line, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
    ]


def tree_lines(outline: Outline, arguments: Namespace) -> list[str]:
    """Return the lines of a tree, for standard output; ``arguments`` has ``depth`` and ``all``."""
    symbols = symbols_for(sys.stdout)
    outline.times = symbols.times
    return render(
        outline.hierarchy,
        outline.describe,
        outline.columns,
        depth=arguments.depth,
        whole=arguments.all,
        symbols=symbols,
        width=_output_width(),
    )
