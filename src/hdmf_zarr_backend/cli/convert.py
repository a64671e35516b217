"""`zarrio convert`: HDF5 to Zarr and back, one file or many."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.cli.command import Command, Exit, complain, print_json
from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.progress import terminal_progress

_ZARR = ".zarr"


@dataclass(slots=True)
class _Outcome:
    """What became of one file."""

    source: str
    target: str
    seconds: float = 0.0
    report: Any = None
    error: str | None = None


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="SOURCE and TARGET; with --output, one or more sources, Zarr or HDF5"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="convert each source to a file in this folder: a.nwb to a.nwb.zarr, a.nwb.zarr to a.nwb",
    )
    parser.add_argument("--force", action="store_true", help="replace targets, whatever is there")
    parser.add_argument("--no-check", action="store_true", help="do not compare what was written with the source")
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON document")


def _run(arguments: Namespace) -> Exit:
    pairs = _pairs(arguments.paths, arguments.output)
    if arguments.output is not None:
        Path(arguments.output).mkdir(parents=True, exist_ok=True)
    outcomes = []
    for source, target in pairs:
        outcome = _convert(source, target, force=arguments.force, check=not arguments.no_check)
        outcomes.append(outcome)
        if outcome.error is not None:
            complain(outcome.error if source in outcome.error else f"{source}: {outcome.error}")
        elif not arguments.json:
            print(f"{source} -> {target}: {outcome.report} in {outcome.seconds:.1f} s")
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if arguments.json:
        print_json([_as_json(outcome) for outcome in outcomes])
    elif len(outcomes) > 1:
        print(f"{len(outcomes) - len(failed)} of {len(outcomes)} files converted")
        for outcome in failed:
            print(f"  not converted: {outcome.source}")
    return Exit.FAILED if failed else Exit.OK


def _pairs(paths: list[str], folder: str | None) -> list[tuple[str, str]]:
    """Return what is converted to what.

    Raises
    ------
    UsageError
        The paths are no source and target, or two sources would become one target.
    """
    if folder is None:
        if len(paths) != 2:
            raise UsageError(
                f"{len(paths)} path{' is' if len(paths) == 1 else 's are'} given",
                remedy="Give a source and a target, or any number of sources and --output FOLDER.",
            )
        return [(paths[0], paths[1])]
    pairs: dict[str, str] = {}
    for source in paths:
        target = os.path.join(folder, _target_name(source))
        if target in pairs:
            raise UsageError(
                f"{pairs[target]} and {source} would both become {target}", remedy="Convert them to different folders."
            )
        pairs[target] = source
    return [(source, target) for target, source in pairs.items()]


def _target_name(source: str) -> str:
    name = Path(source).name
    if not name.endswith(_ZARR):
        return name + _ZARR
    stem = name.removesuffix(_ZARR)
    return stem if Path(stem).suffix else f"{stem}.nwb"


def _convert(source: str, target: str, *, force: bool, check: bool) -> _Outcome:
    # here and not above: hdmf and zarr take seconds to start
    from hdmf_zarr_backend.convert import convert

    outcome = _Outcome(source, target)
    start = time.perf_counter()
    try:
        outcome.report = convert(
            source, target, force_overwrite=force, check=check, progress=terminal_progress(Path(source).name)
        )
    except (ZarrBackendError, OSError) as error:
        outcome.error = str(error)
    outcome.seconds = time.perf_counter() - start
    return outcome


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    return {
        "source": outcome.source,
        "target": outcome.target,
        "seconds": round(outcome.seconds, 3),
        "error": outcome.error,
    }


COMMAND = Command(
    name="convert",
    summary="convert HDF5 to Zarr, or Zarr to HDF5",
    description=(
        "Convert an HDMF or NWB file, HDF5 to Zarr or Zarr to HDF5; the format of the source is told by its content.\n"
        "With --output any number of files is converted; one that cannot be is told, and the others go on."
    ),
    examples="""\
  zarrio convert session.nwb session.nwb.zarr
  zarrio convert session.nwb.zarr session.nwb
  zarrio convert *.nwb --output converted/
""",
    configure=_configure,
    run=_run,
)
