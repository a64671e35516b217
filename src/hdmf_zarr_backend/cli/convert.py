"""`zarrio convert`: HDF5 to Zarr and back, and one format of Zarr to the other, one file or many."""

from __future__ import annotations

import time
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from typing import Any

from hdmf_zarr_backend.cli.batch import failure_of, shown_progress
from hdmf_zarr_backend.cli.command import Command, Exit, complain, print_json
from hdmf_zarr_backend.cli.options import (
    add_encoding_options,
    add_format_option,
    add_jobs_option,
    add_storage_option,
    executor_of,
    storage_options,
)
from hdmf_zarr_backend.cli.targets import check_source, is_done, name_of, pairs_of
from hdmf_zarr_backend.errors import ZarrBackendError


@dataclass(slots=True)
class _Outcome:
    """What became of one file."""

    source: str
    target: str
    seconds: float = 0.0
    report: Any = None
    error: str | None = None
    skipped: bool = False


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument(
        "paths",
        nargs="+",
        metavar="PATH",
        help="SOURCE and TARGET, which may be a folder to put the new file into (default: beside the source); "
        "with --output, one or more sources, Zarr or HDF5",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FOLDER",
        help="convert each source to a file in this folder, a path or a URL: a.nwb to a.nwb.zarr, a.nwb.zarr to a.nwb",
    )
    parser.add_argument("--force", action="store_true", help="replace a target that exists, which is refused otherwise")
    parser.add_argument(
        "--skip-existing",
        action="store_true",
        help="leave out a source whose target is there: a complete file of the format that is wanted, and not older; "
        "with --force, replace the other targets that exist",
    )
    parser.add_argument(
        "--no-check", action="store_true", help="convert NWB files too that pynwb cannot read; this is not tried then"
    )
    parser.add_argument(
        "--to",
        choices=("zarr", "hdf5"),
        help="format of the target (default: zarr if its name ends in .zarr or .zip, else hdf5)",
    )
    add_format_option(parser, "Zarr format of the target (default: 2); of a Zarr file to a Zarr file, the other one")
    add_encoding_options(parser)
    parser.add_argument(
        "--strict-json",
        action="store_true",
        help="HDF5 to Zarr: write NaN and infinities in documents as text, for readers that know strict JSON only",
    )
    parser.add_argument(
        "--missing-chunks",
        choices=("fill", "error"),
        help="from Zarr: what becomes of a chunk that is gone (default: error, if the file says that all were stored)",
    )
    links = parser.add_mutually_exclusive_group()  # they are for opposite directions
    links.add_argument(
        "--linked-data",
        choices=("keep", "copy"),
        default="keep",
        help="Zarr to HDF5: keep data in the other files that links lead to, or copy them (default: %(default)s)",
    )
    links.add_argument(
        "--external-links",
        choices=("follow", "within", "never", "keep", "copy"),  # the last two are what --linked-data was called before
        metavar="{follow,within,never}",
        help="from HDF5: which other files may be read: any, those in the folder of the source and below, or none "
        "(default: raw files with values inside the folder; external links and virtual datasets anywhere)",
    )
    who = parser.add_mutually_exclusive_group()
    add_jobs_option(who)
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


def _run(arguments: Namespace) -> Exit:
    options = {
        "to": arguments.to,
        "overwrite": arguments.force,
        "check": not arguments.no_check,
        "zarr_format": arguments.zarr_format,
        "external_links": arguments.external_links or arguments.linked_data,
        "codec": arguments.codec,
        "executor": _executor(arguments),
        "resume": arguments.resume,
        "virtual": arguments.virtual,
        "nczarr": arguments.nczarr,
        "shards": arguments.shards,
        "missing_chunks": arguments.missing_chunks,
        "strict_json": arguments.strict_json,
        "durable": arguments.durable,
        "storage_options": storage_options(arguments),
    }
    outcomes = []
    for source, target in pairs_of(arguments):
        outcome = _convert(source, target, options, arguments)
        outcomes.append(outcome)
        if outcome.error is None and not arguments.json:
            print(f"{source} -> {target}: {_told(outcome)}")
    if arguments.json:
        print_json([_as_json(outcome) for outcome in outcomes])
    elif len(outcomes) > 1:
        _print_sum(outcomes)
    return Exit.FAILED if any(outcome.error is not None for outcome in outcomes) else Exit.OK


def _executor(arguments: Namespace) -> Any:
    address: str | None = arguments.scheduler
    if address is None:
        return executor_of(arguments)
    return address if "://" in address else f"tcp://{address}"


def _convert(source: str, target: str, options: dict[str, Any], arguments: Namespace) -> _Outcome:
    outcome = _Outcome(source, target)
    start = time.perf_counter()
    try:
        check_source(source)
        if arguments.skip_existing and is_done(source, target, arguments, options["storage_options"]):
            outcome.skipped = True
            return outcome
        # here and not above: hdmf and zarr take seconds to start
        from hdmf_zarr_backend.conversion.convert import convert

        with shown_progress(name_of(source)) as progress:
            outcome.report = convert(source, target, progress=progress, **options)
    except (ZarrBackendError, OSError) as error:
        outcome.error = failure_of(error, source, arguments)
    except KeyboardInterrupt as stop:
        notes = " ".join(getattr(stop, "__notes__", []))
        complain(notes or f"nothing is done of {target}", arguments.command)
        raise
    outcome.seconds = time.perf_counter() - start
    return outcome


def _told(outcome: _Outcome) -> str:
    if outcome.skipped:
        return "skipped, a complete file is there"
    return f"{outcome.report} in {outcome.seconds:.1f} s"


def _print_sum(outcomes: list[_Outcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    skipped = sum(outcome.skipped for outcome in outcomes)
    also = f", {skipped} skipped" if skipped else ""
    print(f"{len(outcomes) - len(failed) - skipped} of {len(outcomes)} files converted{also}")
    for outcome in failed:
        print(f"  not converted: {outcome.source}")


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    done = {} if outcome.report is None else asdict(outcome.report)
    said = {"source": outcome.source, "target": outcome.target, "seconds": round(outcome.seconds, 3)}
    return {**done, **said, "skipped": outcome.skipped, "error": outcome.error}


COMMAND = Command(
    name="convert",
    summary="convert HDF5 to Zarr, or Zarr to HDF5",
    description=(
        "Convert an HDMF or NWB file, HDF5 to Zarr or Zarr to HDF5; the format of the source is told by its content.\n"
        "A target that exists is refused, unless --force is given. Without a target the new file is made beside its\n"
        "source. With --output any number of files is converted; one that cannot be is reported, and the others go on."
    ),
    examples="""\
  zarrio convert session.nwb session.nwb.zarr
  zarrio convert session.nwb.zarr copy.nwb
  zarrio convert session.nwb converted/
  zarrio convert *.nwb --output converted/
  zarrio convert *.nwb --output converted/ --resume --skip-existing
  zarrio convert *.nwb --output s3://bucket/sessions
  zarrio convert old.nwb.zarr new.nwb.zarr --zarr-format 3
  zarrio convert session.nwb session.nwb.zarr --zarr-format 3 --shards auto
  zarrio convert https://host/session.nwb session.nwb.zarr.json --virtual
  zarrio convert session.nwb session.nwb.zarr --scheduler host:8786 --resume
""",
    configure=_configure,
    run=_run,
)
