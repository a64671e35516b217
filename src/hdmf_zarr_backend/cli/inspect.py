"""`zarrio inspect`: the tree of a file, from its metadata only."""

from __future__ import annotations

import shutil
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.command import (
    Command,
    Exit,
    Style,
    add,
    each_file,
    painted,
    print_json,
    storage_options,
    symbols_for,
)
from hdmf_zarr_backend.errors import UsageError, printable
from hdmf_zarr_backend.model.render import Role, item_tree, render
from hdmf_zarr_backend.progress import SILENT, Progress

if TYPE_CHECKING:
    from hdmf_zarr_backend.files.outline import Outline


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files: folders, zip files, or URLs")
    add_tree_options(parser)
    parser.add_argument("--attributes", action="store_true", help="show the values of attributes too")
    parser.add_argument(
        "--sizes", action="store_true", help="show the stored bytes of each array, from a list of all chunks"
    )
    add(parser, "--json", "print one JSON document: a list of the files, with all nodes of each")
    parser.add_argument(
        "--model",
        action="store_true",
        help="print the Zarr Object Model of one file as JSON: the content of its metadata documents",
    )
    add(parser, "--storage-option")


def _run(arguments: Namespace) -> Exit:
    # imported here: `zarrio --help` does not need it
    from hdmf_zarr_backend.files.outline import open_outline

    options = storage_options(arguments)

    def work(path: str, _: Progress = SILENT) -> Outline:
        return open_outline(
            path,
            sizes=arguments.sizes,
            specs=arguments.specs,
            values=arguments.attributes,
            storage_options=options,
        )

    if arguments.model:
        if len(arguments.paths) > 1:
            raise UsageError(
                f"--model is about one file, and {len(arguments.paths)} are given", remedy="Run the command for each."
            )
        from hdmf_zarr_backend.zom import model_json

        print_json(model_json(work(arguments.paths[0]).hierarchy))
        return Exit.OK

    def show(path: str, outline: Outline) -> None:
        space = [""] if path != arguments.paths[0] else []
        heading = map(printable, wrapped([outline.heading(path)]))
        print("\n".join([*space, *heading, "", *tree_lines(outline, arguments)]))

    return each_file(
        arguments,
        work,
        show,
        labels=None,
        as_json=lambda outline: outline.document(depth=arguments.depth),
    )


# ---- the tree, also for `zarrio dry-run` ----------------------------------------------------------------------------


def add_tree_options(parser: ArgumentParser) -> None:
    """Add the options of a tree to a command: ``--depth``, ``--all`` and ``--specs``."""
    parser.add_argument("--depth", type=_level, metavar="N", help="show N levels, and the totals of deeper ones")
    parser.add_argument("--all", action="store_true", help="show all members of long runs of similar members")
    parser.add_argument("--specs", action="store_true", help="show the cached specifications")


def _level(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"invalid level value: {text!r}; give a whole number from 0")
    return int(text)


def _output_width() -> int | None:
    """Return the width of the terminal, which COLUMNS overrides; None if standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrapped(lines: Iterable[str]) -> list[str]:
    """Return lines, wrapped to the width of standard output."""
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
    symbols = replace(symbols_for(sys.stdout), paint=lambda text, role: painted(text, _STYLES[role], sys.stdout))
    outline.times = symbols.times
    return render(
        item_tree(outline.hierarchy, outline.describe),
        outline.columns,
        depth=arguments.depth,
        show_all=arguments.all,
        symbols=symbols,
        width=_output_width(),
    )


_STYLES: dict[Role, Style] = {"title": "bold", "group": "bold", "link": "cyan"}


COMMAND = Command(
    name="inspect",
    usage="PATH... [options]",
    summary="show what a Zarr file contains",
    description=(
        "Show the tree of each file: groups, arrays with types, shapes, chunks, shards, codecs and uncompressed\n"
        "sizes, links and references. Only metadata is read. On a terminal, lines are shortened to its width, or to\n"
        "COLUMNS if that is set; output to a file or a pipe is never shortened. A file that cannot be read is\n"
        "reported, and the others follow."
    ),
    examples="""\
  zarrio inspect session.nwb.zarr
  zarrio inspect session.nwb.zarr --depth 2 --sizes
  zarrio inspect *.nwb.zarr --depth 1
  zarrio inspect session.nwb.zarr --model | jq '.members | keys'
  zarrio inspect session.nwb.zarr --json | jq '.[].nodes[] | select(.kind == "array") | .path'
""",
    configure=_configure,
    run=_run,
)
