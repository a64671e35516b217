"""`zarrio upgrade`: make files of Zarr format 2 files of format 3, where they are."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hdmf_zarr_backend.cli.batch import each_file, finish, shown_progress
from hdmf_zarr_backend.cli.command import Command, Exit
from hdmf_zarr_backend.cli.options import add_jobs_option, add_storage_option, executor_of, storage_options

if TYPE_CHECKING:
    from hdmf_zarr_backend.conversion.upgrade import UpgradeReport


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files of format 2, paths or URLs")
    add_jobs_option(parser)
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON document")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # here and not above: hdmf and zarr take seconds to start
    from hdmf_zarr_backend.conversion.upgrade import upgrade

    options = storage_options(arguments)

    def work(path: str) -> UpgradeReport:
        with shown_progress(Path(path).name) as progress:
            return upgrade(path, storage_options=options, executor=executor_of(arguments), progress=progress)

    outcomes = each_file(arguments, work, lambda path, report: print(f"{path}: {report}"))
    return finish(arguments, outcomes, done="are of format 3", failed="not upgraded", as_json=asdict)


COMMAND = Command(
    name="upgrade",
    summary="make files of Zarr format 2 files of format 3, where they are",
    description=(
        "Give each file the metadata of Zarr format 3. Chunks of numbers and text are left untouched; references and\n"
        "rows are encoded anew. The file is one of format 2 until the last document is set, and one of format 3 then;\n"
        "if the command is killed, run it again. A file that cannot be upgraded is told, and the others go on."
    ),
    examples="""\
  zarrio upgrade session.nwb.zarr
  zarrio upgrade *.nwb.zarr
""",
    configure=_configure,
    run=_run,
)
