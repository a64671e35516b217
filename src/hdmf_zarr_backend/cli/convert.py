"""`zarrio convert`: HDF5 to Zarr and back, and one format of Zarr to the other, one file or many.

`main` imports the module of a command only when it runs, so that the command line starts quickly.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser, Namespace
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from hdmf_zarr_backend.cli.command import (
    Command,
    Exit,
    add_encoding_options,
    add_format_option,
    add_jobs_option,
    add_json_option,
    add_key_encoding_option,
    add_storage_option,
    complain,
    executor_of,
    failure_of,
    print_json,
    shown_progress,
    storage_options,
)
from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.model.link_sources import ZARR_SUFFIXES, is_url, split_chain

_ZARR = ".zarr"
_VIRTUAL = ".zarr.json"
_ZARR_FILES = (_ZARR, ".zarr.zip", _VIRTUAL, ".zip")
_HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_HDF5_SUFFIXES = frozenset({".nwb", ".h5", ".hdf5"})
_ZARR_MARKS = frozenset({".zgroup", ".zmetadata", "zarr.json"})
_DEFAULT_FORMAT = 2


@dataclass(slots=True)
class _Outcome:
    """The outcome for one file."""

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
        help="skip a source whose target exists: a complete file of the requested format that is not older; "
        "with --force, replace the other targets that exist",
    )
    parser.add_argument(
        "--no-check",
        action="store_true",
        help="do not check whether pynwb can read an NWB file, and convert it in any case",
    )
    parser.add_argument(
        "--to",
        choices=("zarr", "hdf5"),
        help="format of the target (default: zarr if its name ends in .zarr or .zip, else hdf5)",
    )
    add_format_option(
        parser,
        "Zarr format of the target (default: 2); of a Zarr file to a Zarr file, the other one; both: the metadata of "
        "both formats over the same chunks",
        choices=(2, 3, "both"),
    )
    add_encoding_options(parser)
    add_key_encoding_option(parser, "to Zarr format 3")
    parser.add_argument(
        "--strict-json",
        action="store_true",
        help="HDF5 to Zarr: write NaN and infinities in documents as text, for readers that know strict JSON only",
    )
    parser.add_argument(
        "--missing-chunks",
        choices=("fill", "error"),
        help="from Zarr: what to do about a missing chunk (default: error, if the file states that all were stored)",
    )
    links = parser.add_mutually_exclusive_group()  # for opposite directions
    links.add_argument(
        "--linked-data",
        choices=("keep", "copy"),
        default="keep",
        help="Zarr to HDF5: keep data in the other files that links point to, or copy them (default: %(default)s)",
    )
    links.add_argument(
        "--external-links",
        choices=("follow", "within", "never", "keep", "copy"),  # the last two are old names of --linked-data
        metavar="{follow,within,never}",
        help="from HDF5: which other files may be read: any, those in the folder of the source and below, or none "
        "(default: raw files with values inside the folder; external links and virtual datasets anywhere)",
    )
    who = parser.add_mutually_exclusive_group()
    add_jobs_option(who)
    who.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        help="use the workers of a running dask cluster: host:port of its scheduler",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="HDF5 to Zarr: continue a conversion that was interrupted or killed, instead of starting again",
    )
    parser.add_argument(
        "--virtual",
        action="store_true",
        help="HDF5, a file or a URL, to one JSON, NAME.nwb.zarr.json: large data stay in the HDF5 file, which must "
        "not change",
    )
    parser.add_argument(
        "--durable",
        action="store_true",
        help="return after a local target has reached the disk itself, safe from a power cut",
    )
    add_json_option(parser, "print what was done as one JSON document")
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
        "chunk_key_encoding": arguments.chunk_key_encoding,
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
            print(f"{source} -> {target}: {_outcome_text(outcome)}")
    if arguments.json:
        print_json([_as_json(outcome) for outcome in outcomes])
    elif len(outcomes) > 1:
        _print_totals(outcomes)
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
        # imported here: hdmf and zarr take seconds to import
        from hdmf_zarr_backend.conversion.convert import convert

        with shown_progress(name_of(source)) as progress:
            outcome.report = convert(source, target, progress=progress, **options)
    except (ZarrBackendError, OSError) as error:
        outcome.error = failure_of(error, source, arguments)
    except KeyboardInterrupt as stop:
        notes = " ".join(getattr(stop, "__notes__", []))
        complain(notes or f"no part of {target} was finished", arguments.command)
        raise
    outcome.seconds = time.perf_counter() - start
    return outcome


def _outcome_text(outcome: _Outcome) -> str:
    if outcome.skipped:
        return "skipped, a complete file exists"
    return f"{outcome.report} in {outcome.seconds:.1f} s"


def _print_totals(outcomes: list[_Outcome]) -> None:
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    skipped = sum(outcome.skipped for outcome in outcomes)
    also = f", {skipped} skipped" if skipped else ""
    print(f"{len(outcomes) - len(failed) - skipped} of {len(outcomes)} files converted{also}")
    for outcome in failed:
        print(f"  not converted: {outcome.source}")


def _as_json(outcome: _Outcome) -> dict[str, Any]:
    done = {} if outcome.report is None else asdict(outcome.report)
    return {
        **done,
        "source": outcome.source,
        "target": outcome.target,
        "seconds": round(outcome.seconds, 3),
        "skipped": outcome.skipped,
        "error": outcome.error,
    }


# ---- the target of each source --------------------------------------------------------------------------------------


def pairs_of(arguments: Namespace) -> list[tuple[str, str]]:
    """Return pairs of source and target, after creating the folder of the targets.

    A target that is an existing folder, other than a Zarr file, or that ends in a slash, is the folder of the target,
    as with ``--output``. Without a target, the new file is written beside its source.

    Parameters
    ----------
    arguments : Namespace
        With ``paths``, ``output``, ``to``, ``zarr_format`` and ``virtual``.

    Raises
    ------
    UsageError
        The paths are not a source and a target; or two sources have the same target; or the folder is a file.
    """
    paths, folder = arguments.paths, arguments.output
    if folder is None:
        if len(paths) > 2:
            raise UsageError(
                f"{len(paths)} paths are given",
                remedy="Give a source and a target, or any number of sources and --output FOLDER.",
            )
        source, target = paths[0], paths[-1]
        if len(paths) == 1:
            return [(source, _beside(source, arguments))]
        if not _is_folder(target):
            return [(source, target)]
        paths, folder = [source], target
    pairs: dict[str, str] = {}
    for source in paths:
        target = _joined(folder, _target_name(source, arguments))
        if target in pairs:
            raise UsageError(
                f"{pairs[target]} and {source} would both become {target}", remedy="Convert them to different folders."
            )
        pairs[target] = source
    _make_folder(folder)
    return [(source, target) for target, source in pairs.items()]


def _beside(source: str, arguments: Namespace) -> str:
    if is_url(source):
        raise UsageError(
            "no target is given, and the source is a URL",
            store=source,
            remedy="Give a target, or a folder with --output FOLDER.",
        )
    return os.path.join(os.path.dirname(source.rstrip("/")), _target_name(source, arguments))


def _is_folder(target: str) -> bool:
    """Return whether a target is the folder of the new file, not the new file itself."""
    if target.rstrip("/").endswith((*ZARR_SUFFIXES, ".json")):
        return False
    if target.endswith(("/", os.sep)):
        return is_url(target) or not _is_zarr(target)
    return not is_url(target) and os.path.isdir(target) and not _is_zarr(target)


def _is_zarr(folder: str) -> bool:
    return any(os.path.lexists(os.path.join(folder, name)) for name in _ZARR_MARKS)


def _joined(folder: str, name: str) -> str:
    if is_url(folder):
        return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"
    return os.path.join(folder, name)


def _make_folder(folder: str) -> None:
    """Create a local folder. A URL does not need one."""
    if is_url(folder):
        return
    try:
        os.makedirs(folder, exist_ok=True)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(f"{error.filename} is a file", remedy="Name a folder.") from error


def _target_name(source: str, arguments: Namespace) -> str:
    name = name_of(source)
    if arguments.virtual:
        return f"{name}{_VIRTUAL}"
    suffix = next((suffix for suffix in _ZARR_FILES if name.endswith(suffix)), "")
    is_zarr = bool(suffix) or os.path.isdir(source)
    stem = name.removesuffix(suffix)
    if arguments.to == "zarr" or arguments.zarr_format is not None or (arguments.to is None and not is_zarr):
        return stem + _ZARR
    return stem if Path(stem).suffix else f"{stem}.nwb"


def name_of(source: str) -> str:
    """Return the last part of a path, or of a URL without its query."""
    return PurePosixPath(urlsplit(split_chain(source)[1]).path).name if is_url(source) else Path(source).name


def check_source(source: str) -> None:
    """Refuse a folder of HDF5 files.

    Raises
    ------
    UsageError
        The folder contains HDF5 files, which the message names.
    """
    if not os.path.isdir(source):
        return
    names = sorted(os.listdir(source))
    suffixes = {os.path.splitext(name)[1] for name in names} & _HDF5_SUFFIXES
    if suffixes and not _ZARR_MARKS & set(names):
        raise UsageError(
            "this is a folder of HDF5 files",
            store=source,
            remedy=f"Give the files themselves, {os.path.join(source, '*' + min(suffixes))}, and --output FOLDER.",
        )


# ---- targets that exist ------------------------------------------------------------------------------------------


def is_done(source: str, target: str, arguments: Namespace, storage_options: dict[str, object]) -> bool:
    """Tell whether the target is a complete file of the requested format that is not older than the source.

    The times of local files are compared, not those of URLs. No chunk of a Zarr file is read.

    Raises
    ------
    StoreRefusedError, StoreUnreachableError
        A server does not answer, or refuses.
    """
    to_zarr = arguments.virtual or target.rstrip("/").endswith(ZARR_SUFFIXES)
    wanted = arguments.to or ("zarr" if to_zarr else "hdf5")
    if wanted == "hdf5":
        is_whole = _is_hdf5(target)
    else:
        # imported here: NumPy is slow to import
        from hdmf_zarr_backend.files.parser import is_whole as is_whole_zarr

        is_whole = is_whole_zarr(target, arguments.zarr_format or _DEFAULT_FORMAT, storage_options)
    if not is_whole or is_url(source) or is_url(target):
        return is_whole
    return os.path.lexists(source) and _time_made(target) >= _time_changed(source)


def _is_hdf5(target: str) -> bool:
    if is_url(target) or not os.path.isfile(target):
        return False
    with open(target, "rb") as stream:
        if stream.read(len(_HDF5_SIGNATURE)) != _HDF5_SIGNATURE:
            return False
    from hdmf_zarr_backend.comparison import open_content

    try:
        open_content(target).close()
    except (ZarrBackendError, OSError):
        return False
    return True


def _time_changed(source: str) -> int:
    """Return the time of the last change of a file, or of any file below a folder."""
    times = [os.stat(source).st_mtime_ns] if os.path.isfile(source) else _times(source)
    return max(times, default=0)


def _time_made(target: str) -> int:
    """Return the time when a file was made, or the first document at the root of a folder."""
    if os.path.isfile(target):
        return os.stat(target).st_mtime_ns
    with os.scandir(target) as entries:
        return min((entry.stat().st_mtime_ns for entry in entries if entry.is_file()), default=0)


def _times(folder: str) -> list[int]:
    return [os.stat(os.path.join(place, name)).st_mtime_ns for place, _, names in os.walk(folder) for name in names]


COMMAND = Command(
    name="convert",
    summary="convert HDF5 to Zarr, or Zarr to HDF5",
    description=(
        "Convert an HDMF or NWB file, HDF5 to Zarr or Zarr to HDF5; the content of the source shows its format.\n"
        "A target that exists is refused, unless --force is given. Without a target the new file is made beside its\n"
        "source. With --output any number of files is converted; a failure is reported, and the others follow."
    ),
    examples="""\
  zarrio convert session.nwb session.nwb.zarr
  zarrio convert session.nwb.zarr copy.nwb
  zarrio convert session.nwb converted/
  zarrio convert *.nwb --output converted/
  zarrio convert *.nwb --output converted/ --resume --skip-existing
  zarrio convert *.nwb --output s3://bucket/sessions
  zarrio convert old.nwb.zarr new.nwb.zarr --zarr-format 3
  zarrio convert session.nwb session.nwb.zarr --zarr-format both
  zarrio convert session.nwb session.nwb.zarr --zarr-format 3 --shards auto
  zarrio convert https://host/session.nwb session.nwb.zarr.json --virtual
  zarrio convert session.nwb session.nwb.zarr --scheduler host:8786 --resume
""",
    configure=_configure,
    run=_run,
)
