"""The tree of a file as `zarrio inspect` and `zarrio plan` print it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.command import symbols_for
from hdmf_zarr_backend.model.render import render

if TYPE_CHECKING:
    from hdmf_zarr_backend.read.outline import Outline


def add_tree_options(parser: ArgumentParser) -> None:
    """Give a command the options of a tree: ``--depth``, ``--all`` and ``--specs``."""
    parser.add_argument("--depth", type=_level, metavar="N", help="show so many levels; of deeper ones only the sums")
    parser.add_argument("--all", action="store_true", help="show each member of long runs of members that are alike")
    parser.add_argument("--specs", action="store_true", help="show the cached specifications")


def _level(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"invalid level value: {text!r}; give a whole number from 0")
    return int(text)


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
    )
