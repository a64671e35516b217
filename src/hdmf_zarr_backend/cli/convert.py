"""`zarrio convert`: HDF5 to Zarr and back, and one format of Zarr to the other, one file or many."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hdmf_zarr_backend.cli.command import Command, Exit, add_storage_option, complain, print_json, storage_options
from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.progress import terminal_progress

_ZARR = ".zarr"
_VIRTUAL = ".zarr.json"
_OPTIONS = {
    "pass force_overwrite=True": "use --force",
    "Pass check=False": "Use --no-check",
    "say to=": "use --to",
    "say zarr_format=": "use --zarr-format",
    "pass resume=True": "use --resume",
    "without resume=True": "without --resume",
    "without virtual=True": "without --virtual",
    "Leave codec= and resume= out": "Leave --codec and --resume out",
    "Leave nczarr= and shards= out": "Leave --nczarr and --shards out",
    "with zarr_format=3, or leave shards out": "with --zarr-format 3, or leave --shards out",
    'with missing_chunks="fill"': "with --missing-chunks fill",
}


@dataclass(slots=True)
class _Outcome:
    """What became of one file."""

    source: str
    target: str
    seconds: float = 0.0
    report: Any = None
    error: str | None = None


CODECS: dict[str, Any] = {
    "keep": "keep",
    "blosc": True,
    "zstd": {"id": "zstd", "level": 3},
    "zlib": {"id": "zlib", "level": 4},
    "none": False,
}
"""Name on the command line -> the ``codec`` of `convert`."""


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
    parser.add_argument("--force", action="store_true", help="replace the target, whatever is there")
    parser.add_argument(
        "--no-check", action="store_true", help="convert NWB files too that pynwb cannot read; this is not tried then"
    )
    parser.add_argument(
        "--to",
        choices=("zarr", "hdf5"),
        help="format of the target (default: zarr if its name ends in .zarr, else hdf5)",
    )
    parser.add_argument(
        "--zarr-format",
        type=int,
        choices=(2, 3),
        help="Zarr format of the target (default: 2); of a Zarr file to a Zarr file, the other one",
    )
    add_shards_option(parser)
    parser.add_argument(
        "--nczarr", action="store_true", help="to Zarr format 2: let netcdf-c open the file, in its mode nczarr"
    )
    parser.add_argument(
        "--missing-chunks",
        choices=("fill", "error"),
        help="from Zarr: what becomes of a chunk that is gone (default: error, if the file says that all were stored)",
    )
    parser.add_argument(
        "--external-links",
        choices=("keep", "copy"),
        default="keep",
        help="Zarr to HDF5: what becomes of links to other files (default: %(default)s)",
    )
    parser.add_argument(
        "--codec",
        choices=tuple(CODECS),
        default="keep",
        help="HDF5 to Zarr: keep the chunks of large datasets, or compress them anew (default: %(default)s)",
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--jobs", type=int, metavar="N", help="number of threads (default: one per core)")
    who.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="let the workers of a running dask cluster do it: host:port of its scheduler",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="HDF5 to Zarr: go on with a conversion that was interrupted or killed, instead of beginning anew",
    )
    parser.add_argument(
        "--virtual",
        action="store_true",
        help="HDF5, a file or a URL, to one JSON, NAME.nwb.zarr.json: large data stay in the HDF5 file, which has to "
        "stay as it is",
    )
    parser.add_argument(
        "--durable", action="store_true", help="return when a local target is on the disk itself, for a power cut"
    )
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON document")
    add_storage_option(parser)


def add_shards_option(parser: ArgumentParser) -> None:
    """Give a command the option ``--shards``."""
    parser.add_argument(
        "--shards",
        type=_shards,
        metavar="auto|N,...",
        help="to Zarr format 3: put the chunks of large arrays together in shards, chosen by bytes, or of these "
        "lengths (of arrays with as many axes)",
    )


def _shards(text: str) -> tuple[int, ...] | str:
    if text == "auto":
        return text
    lengths = tuple(int(part) for part in text.split(","))
    if min(lengths) < 1:
        raise ValueError
    return lengths


_shards.__name__ = "shards"  # argparse names it: invalid shards value


def _run(arguments: Namespace) -> Exit:
    pairs = _pairs(arguments.paths, arguments.output, virtual=arguments.virtual)
    if arguments.output is not None:
        Path(arguments.output).mkdir(parents=True, exist_ok=True)
    options = {
        "to": arguments.to,
        "force_overwrite": arguments.force,
        "check": not arguments.no_check,
        "zarr_format": arguments.zarr_format,
        "external_links": arguments.external_links,
        "codec": CODECS[arguments.codec],
        "executor": _executor(arguments),
        "resume": arguments.resume,
        "virtual": arguments.virtual,
        "nczarr": arguments.nczarr,
        "shards": arguments.shards,
        "missing_chunks": arguments.missing_chunks,
        "durable": arguments.durable,
        "storage_options": storage_options(arguments),
    }
    outcomes = []
    for source, target in pairs:
        outcome = _convert(source, target, options)
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


def _executor(arguments: Namespace) -> Any:
    address: str | None = arguments.scheduler
    if address is None:
        return arguments.jobs or "threads"
    return address if "://" in address else f"tcp://{address}"


def _pairs(paths: list[str], folder: str | None, *, virtual: bool) -> list[tuple[str, str]]:
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
        target = os.path.join(folder, f"{Path(source).name}{_VIRTUAL}" if virtual else _target_name(source))
        if target in pairs:
            raise UsageError(
                f"{pairs[target]} and {source} would both become {target}", remedy="Convert them to different folders."
            )
        pairs[target] = source
    return [(source, target) for target, source in pairs.items()]


def _target_name(source: str) -> str:
    name = Path(source).name
    if not name.endswith(_ZARR) and not Path(source).is_dir():
        return name + _ZARR
    stem = name.removesuffix(_ZARR)
    return stem if Path(stem).suffix else f"{stem}.nwb"


def _convert(source: str, target: str, options: dict[str, Any]) -> _Outcome:
    # here and not above: hdmf and zarr take seconds to start
    from hdmf_zarr_backend.conversion import convert

    outcome = _Outcome(source, target)
    progress = terminal_progress(Path(source).name)
    start = time.perf_counter()
    try:
        outcome.report = convert(source, target, progress=progress, **options)
    except (ZarrBackendError, OSError) as error:
        outcome.error = _in_options(str(error))
    except KeyboardInterrupt as stop:
        complain(_in_options(" ".join(getattr(stop, "__notes__", []))) or f"nothing is done of {target}")
        raise
    finally:
        progress.finish()  # a bar that an error left would share its line with the message
    outcome.seconds = time.perf_counter() - start
    return outcome


def _in_options(message: str) -> str:
    """Return the message of an error with the options of this command in place of Python's arguments."""
    for argument, option in _OPTIONS.items():
        message = message.replace(argument, option)
    return message


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    done = {} if outcome.report is None else asdict(outcome.report)
    said = {"source": outcome.source, "target": outcome.target, "seconds": round(outcome.seconds, 3)}
    return {**done, **said, "error": outcome.error}


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
  zarrio convert old.nwb.zarr new.nwb.zarr --zarr-format 3
  zarrio convert session.nwb session.nwb.zarr --zarr-format 3 --shards auto
  zarrio convert https://host/session.nwb session.nwb.zarr.json --virtual
  zarrio convert session.nwb session.nwb.zarr --scheduler host:8786 --resume
""",
    configure=_configure,
    run=_run,
)
