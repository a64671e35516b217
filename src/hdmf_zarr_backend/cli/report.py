"""`zarrio report`: one page about a file, or about two, for a browser."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace

from hdmf_zarr_backend.cli.command import Command, Exit, add_storage_option, storage_options
from hdmf_zarr_backend.errors import UsageError


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a Zarr file: a directory, a zip file, or a URL")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="a second Zarr file: the page compares the two")
    parser.add_argument("-o", "--output", metavar="FILE", help="the page (default: PATH with .html after it)")
    parser.add_argument("--force", action="store_true", help="replace a page that is there")
    parser.add_argument(
        "--level",
        choices=("structure", "links", "chunks", "schema"),
        default="links",
        help="how far to look for problems, as of verify (default: %(default)s)",
    )
    parser.add_argument("--structure", action="store_true", help="of two files, do not compare the values of datasets")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # here and not above: NumPy takes longer to start than the rest of the command line
    from hdmf_zarr_backend.report.page import report

    output = arguments.output or f"{os.path.basename(arguments.path.rstrip('/'))}.html"
    if os.path.exists(output) and not arguments.force:
        raise UsageError(f"{output} is there", remedy="Use --force, or name another file with -o.")
    page = report(
        arguments.path,
        arguments.other,
        level=arguments.level,
        values=not arguments.structure,
        storage_options=storage_options(arguments),
    )
    with open(output, "w", encoding="utf-8") as stream:
        stream.write(page)
    print(output)
    return Exit.OK


COMMAND = Command(
    name="report",
    summary="make a page about a Zarr file, for a browser",
    description=(
        "Make one HTML page: the sizes of groups and arrays as a picture, chunks, codecs and compression ratios,\n"
        "links, problems, and the tree. With two files: their sizes side by side, and all in which they differ.\n"
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
