"""`zarrio inspect`: the tree of a file, from its metadata only."""

from __future__ import annotations

import shutil
import sys
import textwrap
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.command import (
    Command,
    Exit,
    add_json_option,
    add_storage_option,
    add_verbose_option,
    print_json,
    storage_options,
    symbols_for,
)
from hdmf_zarr_backend.model.render import item_tree, render

if TYPE_CHECKING:
    from hdmf_zarr_backend.files.outline import Outline


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a Zarr file: a directory, a zip file, or a URL")
    add_tree_options(parser)
    parser.add_argument("--attributes", action="store_true", help="show the values of attributes too")
    parser.add_argument("--sizes", action="store_true", help="show the stored bytes of each array; lists all chunks")
    add_verbose_option(parser, "also show how many arrays TensorStore cannot open")
    add_json_option(parser, "print one JSON document, each node in it")
    parser.add_argument(
        "--model",
        action="store_true",
        help="print the Zarr Object Model as JSON: the content of the metadata documents",
    )
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # imported here: `zarrio --help` does not need it
    from hdmf_zarr_backend.files.outline import open_outline

    outline = open_outline(
        arguments.path,
        sizes=arguments.sizes,
        specs=arguments.specs,
        values=arguments.attributes,
        storage_options=storage_options(arguments),
    )
    if arguments.model:
        from hdmf_zarr_backend.zom.documents import from_hierarchy
        from hdmf_zarr_backend.zom.jsonform import to_json

        print_json(to_json(from_hierarchy(outline.hierarchy)))
        return Exit.OK
    if arguments.json:
        print_json(outline.document(depth=arguments.depth))
        return Exit.OK
    heading = outline.heading(arguments.path)
    about = [heading, outline.closed_arrays()] if arguments.verbose else [heading]
    print("\n".join([*wrapped(about), "", *tree_lines(outline, arguments)]))
    return Exit.OK


# ---- the tree, also for `zarrio plan` -------------------------------------------------------------------------------


def add_tree_options(parser: ArgumentParser) -> None:
    """Add the options of a tree to a command: ``--depth``, ``--all`` and ``--specs``."""
    parser.add_argument("--depth", type=_level, metavar="N", help="show N levels; of deeper ones only the totals")
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
    symbols = symbols_for(sys.stdout)
    outline.times = symbols.times
    return render(
        item_tree(outline.hierarchy, outline.describe),
        outline.columns,
        depth=arguments.depth,
        show_all=arguments.all,
        symbols=symbols,
        width=_output_width(),
    )


COMMAND = Command(
    name="inspect",
    summary="show the tree of a Zarr file",
    description=(
        "Show groups, arrays with types, shapes, chunks, codecs and uncompressed sizes, links and references.\n"
        "Only metadata is read. On a terminal, lines are shortened to its width, or to COLUMNS if that is set;\n"
        "output to a file or a pipe is never shortened."
    ),
    examples="""\
  zarrio inspect session.nwb.zarr
  zarrio inspect session.nwb.zarr --depth 2 --sizes
  zarrio inspect session.nwb.zarr --model | jq '.members | keys'
  zarrio inspect session.nwb.zarr --json | jq '.nodes[] | select(.kind == "array") | .path'
""",
    configure=_configure,
    run=_run,
)
