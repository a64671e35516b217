"""`zarrio upgrade`: converts files of Zarr format 2 to format 3 or to both formats, in place."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.command import Command, Exit, add, each_file, say, storage_options, write_options
from hdmf_zarr_backend.progress import Progress

if TYPE_CHECKING:
    from hdmf_zarr_backend.conversion.upgrade import UpgradeReport


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files of format 2, paths or URLs")
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--keep", action="store_true", help="keep the metadata of format 2, so that each file has both formats"
    )
    which.add_argument(
        "--drop", type=int, choices=(2, 3), help="remove the metadata of one format from files of both formats"
    )
    parser.add_argument("--dry-run", action="store_true", help="show what would change, and write nothing")
    add(parser, "--chunk-key-encoding", "chunks that are encoded again")
    add(parser, "--jobs")
    add(parser, "--json", "print what was done as one JSON document")
    add(parser, "--storage-option")


def _run(arguments: Namespace) -> Exit:
    # imported here: hdmf and zarr take seconds to import
    from hdmf_zarr_backend.conversion.upgrade import upgrade

    options = storage_options(arguments)

    def work(path: str, progress: Progress) -> UpgradeReport:
        return upgrade(
            path,
            keep=arguments.keep,
            drop=arguments.drop,
            dry_run=arguments.dry_run,
            storage_options=options,
            write_options=write_options(arguments, progress=progress),
        )

    return each_file(
        arguments,
        work,
        lambda path, report: say(f"{path}: {report}"),
        labels=("can be upgraded", "cannot be upgraded") if arguments.dry_run else (_label(arguments), "not upgraded"),
        as_json=asdict,
    )


def _label(arguments: Namespace) -> str:
    if arguments.keep:
        return "are of both formats"
    return "are of format 2" if arguments.drop == 3 else "are of format 3"


COMMAND = Command(
    name="upgrade",
    usage="PATH... [options]",
    summary="upgrade files of Zarr format 2 to format 3, in place",
    description=(
        "Convert files of Zarr format 2 to format 3 in place. Chunks of numbers and text are not changed; references\n"
        "and rows are encoded again. A file has format 2 until its last document is written, and then format 3; if\n"
        "the command is interrupted, run it again. With --keep, the file has both formats, for programs that can read\n"
        "only one of them. A file that cannot be upgraded is reported, and the others follow."
    ),
    examples="""\
  zarrio upgrade session.nwb.zarr
  zarrio upgrade --dry-run *.nwb.zarr
  zarrio upgrade *.nwb.zarr
  zarrio upgrade --keep session.nwb.zarr
  zarrio upgrade --drop 3 session.nwb.zarr
""",
    configure=_configure,
    run=_run,
)
