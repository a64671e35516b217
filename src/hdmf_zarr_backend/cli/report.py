"""`zarrio report`: an HTML page about a file, or about two, for a browser."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.command import Command, Exit, add, say, storage_options
from hdmf_zarr_backend.errors import StoreExistsError, UsageError
from hdmf_zarr_backend.model.link_sources import is_url

if TYPE_CHECKING:
    from hdmf_zarr_backend.checks.verify import Level

_LEVEL: Level = "links"


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a Zarr file: a folder, a zip file, or a URL")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a second Zarr file: the page compares the two")
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the new page (default: the name of PATH and .html, in the current folder)",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a page that exists")
    checks = parser.add_mutually_exclusive_group()
    checks.add_argument(
        "--level",
        choices=("structure", "links", "chunks", "schema"),
        help=f"of one file: how much to check for damage, as in verify (default: {_LEVEL})",
    )
    checks.add_argument(
        "--no-check",
        action="store_true",
        help="of one file: check neither for damage nor against the schema, which reads all metadata",
    )
    parser.add_argument("--structure", action="store_true", help="of two files: do not compare the values of datasets")
    add(parser, "--storage-option")


def _run(arguments: Namespace) -> Exit:
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend import report

    output = arguments.output or f"{os.path.basename(arguments.path.rstrip('/'))}.html"
    _check_options(arguments)
    _check_output(arguments, output)
    page = report(
        arguments.path,
        arguments.other,
        level=arguments.level or _LEVEL,
        values=not arguments.structure,
        check=not arguments.no_check,
        storage_options=storage_options(arguments),
    )
    try:
        # names may not be UTF-8
        with open(output, "w" if arguments.overwrite else "x", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(page)
    except FileExistsError as error:
        raise _exists(output) from error
    say(output)
    return Exit.OK


def _check_options(arguments: Namespace) -> None:
    """Refuse an option without effect."""
    if arguments.structure and arguments.other is None:
        raise UsageError("--structure is about two files", remedy="Name a second file, or leave it out.")
    if arguments.level is not None and arguments.other is not None:
        raise UsageError("--level is about one file", remedy="Leave it out; make a page of each file for the problems.")
    if arguments.no_check and arguments.other is not None:
        raise UsageError("--no-check is about one file", remedy="Leave it out; a page of two files has no checks.")


def _check_output(arguments: Namespace, output: str) -> None:
    """Refuse a page that cannot be written, before anything is read."""
    _check_place(output)
    if not os.path.lexists(output):
        return
    if not arguments.overwrite:
        raise _exists(output)
    for path in (arguments.path, arguments.other or arguments.path):
        if _is_same_file(path, output):
            raise StoreExistsError("the page would replace the file", store=path, remedy="Name another file with -o.")


def _check_place(output: str) -> None:
    if is_url(output):
        raise UsageError(f"{output}: a page is written to a local path", remedy="Upload it afterwards.")
    folder = os.path.dirname(output)
    if folder and not os.path.isdir(folder):
        raise UsageError(f"the folder {folder} does not exist", remedy="Create it first, or name another file with -o.")
    if os.path.isdir(output):
        raise UsageError(f"{output} is a folder", remedy="Name a file in it with -o.")


def _is_same_file(path: str, output: str) -> bool:
    return os.path.exists(output) and os.path.exists(path) and os.path.samefile(path, output)


def _exists(output: str) -> StoreExistsError:
    return StoreExistsError(
        "the page exists already", store=output, remedy="Use --overwrite, or name another file with -o."
    )


COMMAND = Command(
    name="report",
    usage="PATH [OTHER] [options]",
    summary="make an HTML page about a Zarr file",
    description=(
        "Make one HTML page: the session (subject, times, devices, electrodes, units), the results of verify and\n"
        "validate, the sizes of groups and arrays as a picture, chunks, codecs and compression ratios, links, and\n"
        "the tree. With two files: their sizes side by side, and all differences.\n"
        "The page needs no network and no other file."
    ),
    examples="""\
  zarrio report session.nwb.zarr
  zarrio report session.nwb.zarr -o /tmp/session.html --level chunks
  zarrio report before.nwb.zarr after.nwb.zarr -o compared.html
""",
    configure=_configure,
    run=_run,
)
