"""`zarrio upgrade`: make files of Zarr format 2 files of format 3, where they are."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.cli.command import Command, Exit, add_storage_option, complain, print_json, storage_options
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.progress import terminal_progress


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files of format 2")
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON document")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    outcomes = [_upgrade(path, arguments) for path in arguments.paths]
    if arguments.json:
        print_json(outcomes)
    return Exit.FAILED if any(outcome["error"] for outcome in outcomes) else Exit.OK


def _upgrade(path: str, arguments: Namespace) -> dict[str, Any]:
    # here and not above: hdmf and zarr take seconds to start
    from hdmf_zarr_backend.upgrading import upgrade

    progress = terminal_progress(Path(path).name)
    try:
        report = upgrade(path, storage_options=storage_options(arguments), executor="threads", progress=progress)
    except (ZarrBackendError, OSError) as error:
        progress.finish()  # a bar that an error left would share its line with the message
        complain(str(error) if path in str(error) else f"{path}: {error}")
        return {"source": path, "error": str(error)}
    progress.finish()
    if not arguments.json:
        print(f"{path}: {report}")
    return {"source": path, "error": None, **asdict(report)}


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
