"""The commands that make files, or change them in place, from `zarrio convert` to `zarrio consolidate`.

Each imports what it needs when it runs: NumPy, hdmf and zarr take seconds to import.
"""

from __future__ import annotations

import os
import time
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli import command as cli
from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.model.links import ZARR_SUFFIXES, ends_with, is_url
from hdmf_zarr_backend.progress import Progress

if TYPE_CHECKING:
    from hdmf_zarr_backend.conversion import ConversionReport

_SAME_NAMES = ("to", "overwrite", "zarr_format", "codec", "chunks", "resume", "shards")
"""Options with the same name as an argument of `convert`."""

_ZARR = ".zarr"
_VIRTUAL = ".zarr.json"
_ZARR_FILES = (_ZARR, ".zarr.zip", _VIRTUAL, ".zip")


@cli.command(
    "convert SOURCE... [TARGET] [options]",
    cli.group(
        "what is converted",
        cli.argument(
            "paths SOURCE",
            "HDF5 or Zarr files, or folders of them; paths or URLs. The last of several paths is the TARGET: the "
            "new file, or the folder for the new files, which exists or ends in / (default: the folder of the source)",
            nargs="+",
        ),
        cli.flag("--no-check", "convert an NWB file without checking whether pynwb can read it"),
        cli.argument(
            "--missing-chunks",
            "from Zarr: check all chunks first, write the fill value for missing and damaged ones, and say which; "
            "or stop with an error at a missing one (default: error, if the file records that all were stored)",
            choices=("fill", "error"),
        ),
        cli.flag(
            "--no-link-data", "Zarr to HDF5: copy the data that links to other files point to (default: keep the links)"
        ),
        *cli.TRUST,
    ),
    cli.group(
        "where it is written",
        cli.argument(
            "-o --output FOLDER", "put the new files into this folder, a path or a URL; all paths are sources then"
        ),
        cli.flag("--overwrite", "replace a target that exists (default: refuse it)"),
        cli.flag(
            "--skip-existing",
            "skip a source whose target is a complete file of the requested format and not older; with --overwrite, "
            "replace the other targets that exist",
        ),
    ),
    cli.group(
        "how it is stored",
        cli.argument(
            "--to",
            "format of the target (default: zarr if its name ends in .zarr or .zip, else hdf5); virtual: a JSON "
            "file, NAME.nwb.zarr.json, with which an HDF5 file or URL is read as Zarr; large data stay in the HDF5 "
            "file, which must not change",
            choices=("zarr", "hdf5", "virtual"),
        ),
        cli.shared(
            "--zarr-format",
            "Zarr format of the target (default: that of a Zarr source, and 2 from HDF5; 3 with --shards); both: the "
            "metadata of both formats over the same chunks",
        ),
        *cli.STORING,
        cli.shared("--chunk-key-encoding", "to Zarr format 3"),
        cli.shared("--nczarr"),
        cli.flag(
            "--strict-json",
            "HDF5 to Zarr: write NaN and infinities in metadata as text, for readers that accept strict JSON only",
        ),
    ),
    cli.group(
        "how it runs",
        cli.exclusive(
            cli.shared("--jobs"),
            cli.argument(
                "--scheduler ADDRESS",
                "use the workers of a running dask cluster; ADDRESS is host:port of its scheduler",
            ),
        ),
        cli.flag("--resume", "HDF5 to Zarr: continue a conversion that was interrupted or killed"),
        cli.flag("--durable", "wait until a local target is on the disk and would survive a power failure"),
        *cli.output(
            verbose="print each warning, even if it is similar to others",
            json="print what was done as one JSON document, with all warnings",
        ),
    ),
)
def convert_command(arguments: Namespace) -> cli.Exit:
    """Convert HDF5 to Zarr, or Zarr to HDF5 or Zarr.

    Convert HDMF and NWB files from HDF5 to Zarr, or from Zarr to HDF5; or copy a Zarr file to another place,
    also to a bucket, in the same or another format of Zarr. Without a target, session.nwb becomes
    session.nwb.zarr in the same folder, and session.nwb.zarr becomes session.nwb. If the source is a folder,
    all files in it are converted. If the target is a folder, the new files are put into it; use --to zarr to
    copy Zarr files there. A target file that exists is refused unless you use --overwrite. A file that cannot
    be converted is reported, and the others follow.

      zarrio convert session.nwb
      zarrio convert session.nwb session.nwb.zarr
      zarrio convert session.nwb.zarr copy.nwb
      zarrio convert session.nwb converted/
      zarrio convert recordings/ converted/
      zarrio convert *.nwb converted/
      zarrio convert *.nwb --output converted/ --resume --skip-existing
      zarrio convert *.nwb --output s3://bucket/sessions
      zarrio convert session.nwb.zarr s3://bucket/session.nwb.zarr
      zarrio convert old.nwb.zarr new.nwb.zarr --zarr-format 3
      zarrio convert session.nwb session.nwb.zarr --zarr-format both
      zarrio convert session.nwb session.nwb.zarr --zarr-format 3 --shards auto
      zarrio convert session.nwb session.nwb.zarr --set 'acquisition/*/data: chunks=30000,64 codec=zstd'
      zarrio convert https://host/session.nwb session.nwb.zarr
      zarrio convert https://host/session.nwb session.nwb.zarr.json --to virtual
      zarrio convert session.nwb session.nwb.zarr --scheduler host:8786 --resume
    """
    pairs, options = pairs_of(arguments), cli.reading(arguments)
    targets = dict(pairs)

    def work(source: str, progress: Progress, settings: Any) -> tuple[ConversionReport | None, float]:
        """Convert one file, or skip it; return the seconds too."""
        began, target = time.perf_counter(), targets[source]
        urls = cli.for_urls(options["storage_options"], (source, target), chain(*pairs))
        why = why_not_done(source, target, arguments, urls) if arguments.skip_existing else None
        if why == "":
            return None, time.perf_counter() - began
        from hdmf_zarr_backend.conversion import convert
        from hdmf_zarr_backend.store.opening import NotFreeError

        try:
            report = convert(
                source,
                target,
                check=not arguments.no_check,
                link_data=not arguments.no_link_data,
                write_options=cli.write_options(arguments, progress=progress),
                settings=settings,
                **{name: getattr(arguments, name) for name in _SAME_NAMES},
                **{**options, "storage_options": urls},
            )
        except NotFreeError as error:
            if why:
                error.problem = f"the target exists and {why}: it was not skipped"
                error.remedy_cli = "Use --overwrite to replace it."
            raise
        except KeyboardInterrupt as stop:
            if not hasattr(stop, "__notes__"):
                stop.add_note(f"No part of {target} was finished.")
            raise
        return report, time.perf_counter() - began

    def show(source: str, done: tuple[ConversionReport | None, float]) -> None:
        report, seconds = done
        name = f"{source} -> {targets[source]}"
        if report is None:
            cli.say(f"{name}: skipped, a complete file exists")
        else:
            first, *remarks = report.lines(name=name)
            print("\n".join([f"{first} in {seconds:.1f} s", *remarks]))

    def as_json(done: tuple[ConversionReport | None, float]) -> dict[str, Any]:
        report, seconds = done
        return {**({} if report is None else asdict(report)), "skipped": report is None, "seconds": round(seconds, 3)}

    return cli.each_file(
        arguments,
        list(targets),
        cli.with_settings(arguments, len(targets), work),
        show,
        labels=("converted", "not converted"),
        as_json=as_json,
        is_skipped=lambda done: done[0] is None,
        about=lambda source: {"target": targets[source]},
    )


# ---- the target of each source --------------------------------------------------------------------------------------


def pairs_of(arguments: Namespace) -> list[tuple[str, str]]:
    """Return pairs of source and target, as `zarrio help convert` says, and create the folder of the targets."""
    paths, folder = list(arguments.paths), arguments.output
    kinds: list[cli.FileKind] = ["Zarr"] if arguments.to == "hdf5" else ["HDF5", "Zarr"]
    if folder is None and len(paths) > 1:
        folder = paths.pop()
        if not _is_folder(folder):
            # one file to one file; all else needs a folder
            if len(paths) == 1 and not cli.is_folder_of_files(paths[0]):
                if not is_url(folder) and (is_url(paths[0]) or os.path.exists(paths[0])):  # else nothing is created
                    _make_folder(os.path.dirname(folder.rstrip("/")))
                return [(paths[0], folder)]
            if len(paths) > 1 or cli.is_zarr(folder) or ends_with(folder, (*ZARR_SUFFIXES, ".json")):
                problem = f"{len(paths) + 1} paths are given, and the last one, {folder}, is not a folder"
                remedy = "Give one file and a target; or sources and a folder, with a / at its end if it is new."
                raise UsageError(problem, remedy=remedy)
    pairs: dict[str, str] = {}
    for source in cli.files(arguments, *kinds, sources=paths):
        target = name = _target_name(source, arguments)
        if folder is not None:
            target = f"{folder.removesuffix('/')}/{name}" if is_url(folder) else os.path.join(folder, name)
        elif not is_url(source):
            target = os.path.join(os.path.dirname(source.rstrip("/")), name)
        if target in pairs:  # a.nwb of two folders: the second would replace the first, or be refused hours later
            problem = f"{pairs[target]} and {source} would both become {target}"
            raise UsageError(problem, remedy="Convert them to different folders.")
        pairs[target] = source
    _make_folder(folder)
    return [(source, target) for target, source in pairs.items()]


def _make_folder(folder: str | None) -> None:
    """Create the folder of the targets, unless it is at a URL."""
    if folder and not is_url(folder):
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            raise UsageError(f"{error.filename} is a file", remedy="Name a folder.") from error
        except OSError as error:
            problem = f"the folder {folder} cannot be made ({error.strerror})"
            raise UsageError(problem, remedy="Create it, or name another one.") from error


def _is_folder(target: str) -> bool:
    """Return whether a target is the folder of the new file, not the new file itself."""
    # a name that ends in .zarr is a file also with a slash after it, as shells complete it
    if ends_with(target, (*ZARR_SUFFIXES, ".json")):
        return False
    if target.endswith(("/", os.sep)):
        return is_url(target) or not cli.is_zarr(target)
    return not is_url(target) and os.path.isdir(target) and not cli.is_zarr(target)


def _target_name(source: str, arguments: Namespace) -> str:
    name = cli.name_of(source)
    if arguments.to == "virtual":
        return f"{name}{_VIRTUAL}"
    suffix = next((suffix for suffix in _ZARR_FILES if name.endswith(suffix)), "")
    stem = name.removesuffix(suffix)
    to_zarr = arguments.to is None and not _is_named_zarr(source)
    if arguments.to == "zarr" or arguments.zarr_format is not None or to_zarr:
        return stem + _ZARR
    return stem if Path(stem).suffix else f"{stem}.nwb"


def _is_named_zarr(source: str) -> bool:
    """Return whether a source is a Zarr file, by its name or because it is a folder."""
    return cli.name_of(source).endswith(_ZARR_FILES) or os.path.isdir(source)


# ---- targets that exist ------------------------------------------------------------------------------------------


def why_not_done(source: str, target: str, arguments: Namespace, storage_options: dict[str, object]) -> str:
    """Return why a target is not complete, of the wanted format and not older than its local source; else ""."""
    to_zarr = ends_with(target, ZARR_SUFFIXES) if arguments.to is None else arguments.to != "hdf5"
    if not to_zarr:
        from hdmf_zarr_backend.comparison import open_content
        from hdmf_zarr_backend.store.opening import is_hdf5

        reason = "is not a complete HDF5 file"
        if not is_url(target) and is_hdf5(target):
            with suppress(ZarrBackendError, OSError):
                open_content(target).close()
                reason = ""
    else:
        from hdmf_zarr_backend.conversion import needed_format
        from hdmf_zarr_backend.encoding.parser import is_whole as is_whole_zarr
        from hdmf_zarr_backend.encoding.registry import default_format

        reason, wanted = "", arguments.zarr_format
        # a Zarr file keeps its format, which only its metadata state; a converted one has that of the options
        if wanted is None and not _is_named_zarr(source):
            options = {"nczarr": arguments.nczarr, "shards": arguments.shards}
            needed = needed_format(None, **options)
            # settings with shards ask for format 3 only where they apply, and not every file has such a dataset
            if needed_format(arguments.settings, **options) == needed:
                wanted = default_format((2, 3), needed=needed)
        if not is_whole_zarr(target, wanted, storage_options):
            reason = "has another Zarr format" if is_whole_zarr(target, None, storage_options) else "is incomplete"
    # servers give no times, or those of the upload
    if reason or is_url(source) or is_url(target):
        return reason
    if not os.path.lexists(source):
        return "has no source"
    if os.path.isfile(source):
        changed = os.stat(source).st_mtime_ns
    else:  # the last change of any file below a folder
        files = (os.path.join(folder, name) for folder, _, names in os.walk(source) for name in names)
        changed = max((os.stat(file).st_mtime_ns for file in files), default=0)
    if os.path.isfile(target):
        created = os.stat(target).st_mtime_ns
    else:  # the oldest document of the root: later changes, such as a consolidation, say nothing about the source
        with os.scandir(target) as entries:
            created = min((entry.stat().st_mtime_ns for entry in entries if entry.is_file()), default=0)
    return "" if created >= changed else "is older than its source"


@cli.command(
    "upgrade PATH... [options]",
    cli.argument("paths PATH", "Zarr files of format 2, paths or URLs", nargs="+"),
    cli.exclusive(
        cli.flag("--keep", "keep the metadata of format 2, so that each file has both formats"),
        cli.argument(
            "--drop", "remove the metadata of one format from files of both formats", type=int, choices=(2, 3)
        ),
    ),
    cli.flag("--dry-run", "show what would change, and write nothing"),
    cli.shared("--chunk-key-encoding", "chunks that are encoded again"),
    cli.shared("--jobs"),
    *cli.output(json="print what was done as one JSON document"),
)
def upgrade_command(arguments: Namespace) -> cli.Exit:
    """Upgrade files of Zarr format 2 to format 3, in place.

    Convert files of Zarr format 2 to format 3 in place. Chunks of numbers and text are not changed; references
    and rows are encoded again. A file has format 2 until its last document is written, and then format 3; if
    the command is interrupted, run it again. With --keep, the file has both formats, for programs that can read
    only one of them. A file that cannot be upgraded is reported, and the others follow.

      zarrio upgrade session.nwb.zarr
      zarrio upgrade --dry-run *.nwb.zarr
      zarrio upgrade *.nwb.zarr
      zarrio upgrade --keep session.nwb.zarr
      zarrio upgrade --drop 3 session.nwb.zarr
    """
    from hdmf_zarr_backend.upgrading import upgrade

    options = {"keep": arguments.keep, "drop": arguments.drop, "dry_run": arguments.dry_run}
    options["storage_options"] = cli.storage_options(arguments)
    result = "both formats" if arguments.keep else "format 2" if arguments.drop == 3 else "format 3"
    labels = ("can be upgraded", "cannot be upgraded") if arguments.dry_run else (f"are of {result}", "not upgraded")
    return cli.each_file(
        arguments,
        cli.files(arguments, "Zarr"),
        lambda path, progress: upgrade(path, write_options=cli.write_options(arguments, progress=progress), **options),
        lambda path, report: cli.say(f"{path}: {report}"),
        labels=labels,
        as_json=asdict,
    )


_FILE = cli.argument("file FILE", "a Zarr file, a path or a URL")


def _rows(text: str) -> list[int] | slice:
    """Parse numbers of rows, or a range of them."""
    try:
        if ":" not in text:
            return [int(number) for number in text.split(",")]
        first, last = (int(number) if number else None for number in text.split(":"))
    except ValueError as error:
        problem = f"{text!r} are not rows. Give numbers, such as 0,5, or a range, such as 0:5."
        raise ArgumentTypeError(problem) from error
    return slice(first, last)


@cli.command(
    "remove FILE PATH... [options]",
    _FILE,
    cli.argument(
        "names PATH",
        "paths in the file, of groups, datasets, columns of tables or links; PATH@NAME for an attribute",
        nargs="+",
    ),
    cli.argument(
        "--rows ROWS",
        "remove these rows of one table instead: numbers from 0 on, such as 0,5, or a range, such as 0:5 for the "
        "first five",
        type=_rows,
    ),
    cli.flag(
        "--drop-links",
        "remove also links, and attributes that are references, that lead there, make references in datasets null, "
        "and take the numbers of removed rows out of ragged columns",
    ),
    *cli.output(json="print what was done as one JSON document"),
)
def remove_command(arguments: Namespace) -> cli.Exit:
    """Remove objects, columns, attributes or rows from a file.

    Remove parts of a file in place, all in one change: if the command is interrupted, none or all of them are
    removed. A column is removed with its index, and the table stays valid. What the schema requires is not
    removed; neither is anything that links or references in the file lead to, unless you use --drop-links.
    Files that link to this one are not known, and not changed.

      zarrio remove session.nwb.zarr /processing/behavior
      zarrio remove session.nwb.zarr /units/quality /units/waveforms
      zarrio remove session.nwb.zarr /acquisition/lick@comments
      zarrio remove session.nwb.zarr /acquisition/lick --drop-links
      zarrio remove session.nwb.zarr /intervals/trials --rows 0,5
    """
    names = arguments.names
    return _edited(arguments, lambda io: io.remove(*names, rows=arguments.rows, cascade=arguments.drop_links))


@cli.command(
    "rename FILE PATH NAME [options]",
    _FILE,
    cli.argument("path PATH", "the path of a group, dataset, column or link in the file"),
    cli.argument("name NAME", "the new name, in the same group"),
    *cli.output(json="print what was done as one JSON document"),
)
def rename_command(arguments: Namespace) -> cli.Exit:
    """Rename a group, dataset, column or link in a file.

    Give a part of a file another name, in place. Links and references that lead there follow, as do the index
    of a column and its name in the table. Files that link to this one are not known, and not changed.

      zarrio rename session.nwb.zarr /acquisition/lick lick_left
      zarrio rename session.nwb.zarr /units/quality judged_by_eye
    """
    return _edited(arguments, lambda io: io.rename(arguments.path, arguments.name))


def _edited(arguments: Namespace, edit: Callable[[Any], list[str]]) -> cli.Exit:
    """Change a file with an io that knows its schema, and print what was done."""
    from hdmf_zarr_backend import NWBZarrIO
    from hdmf_zarr_backend.io import ZarrIO

    options = cli.storage_options(arguments)
    is_nwb = "core" in ZarrIO.get_namespaces(arguments.file, storage_options=options)
    with (NWBZarrIO if is_nwb else ZarrIO)(arguments.file, "r+", storage_options=options) as io:
        done = edit(io)
    if arguments.json:
        cli.print_json({"source": arguments.file, "done": done})
    else:
        for line in done:
            cli.say(line)
    return cli.Exit.OK


@cli.command(
    "repair PATH [options]",
    cli.argument("path PATH", "a Zarr file, a path or a URL"),
    cli.flag("--drop-links", "remove links that have no target, are circular, or are damaged"),
    cli.shared("--break-lock"),
    *cli.output(verbose=cli.EACH_FINDING, json="print what was done, and what is left, as one JSON document"),
)
def repair_command(arguments: Namespace) -> cli.Exit:
    """Repair what can be repaired without loss.

    Repair a file after an interruption or damage:

      - complete an interrupted change, or undo it if it was not recorded completely
      - restore missing documents and scalars from the consolidated document
      - replace a wrong consolidated document, unless something else is still damaged

    Chunks and documents are deleted only if they belong to an interrupted change. Chunks are not checked: use
    `zarrio verify` for that. A damaged chunk cannot be repaired; restore it from a copy of the file, or convert
    the source again. Damage of the metadata that is left is listed, and the exit code is then 1.

      zarrio repair session.nwb.zarr
      zarrio repair session.nwb.zarr --drop-links
    """
    from hdmf_zarr_backend.check.repair import repair

    # what is left is printed with its remedies, as by verify, because repair is what verify recommends
    choices = {"drop_links": arguments.drop_links, "break_lock": arguments.break_lock}
    repairs = repair(arguments.path, storage_options=cli.storage_options(arguments), **choices)
    if arguments.json:
        left, kept = ([problem.as_json() for problem in problems] for problems in (repairs.left, repairs.kept))
        cli.print_json({"source": arguments.path, "done": repairs.done, "left": left, "kept": kept})
    else:
        cli.show(repairs, arguments)
    return cli.Exit.FOUND if repairs.left else cli.Exit.OK


@cli.command(
    "consolidate PATH... [options]",
    cli.argument("paths PATH", "Zarr files, paths or URLs", nargs="+"),
    cli.flag(
        "--forget",
        "drop nodes that only the consolidated document has, because another program deleted them on purpose",
    ),
    cli.shared("--break-lock"),
    *cli.output(json="print what was done as one JSON document"),
)
def consolidate_command(arguments: Namespace) -> cli.Exit:
    """Update the consolidated metadata of Zarr files.

    Write a new consolidated document, with scalars in it, from the metadata documents of the nodes. Run this
    after another program has changed a file: until then, readers see the file as it was before. A file with an
    error is reported, and the others follow.

      zarrio consolidate session.nwb.zarr
      zarrio consolidate *.nwb.zarr --json
    """
    from hdmf_zarr_backend.check.repair import consolidate

    options: dict[str, Any] = {"forget": arguments.forget, "break_lock": arguments.break_lock}
    options["storage_options"] = cli.storage_options(arguments)
    return cli.each_file(
        arguments,
        cli.files(arguments, "Zarr"),
        lambda path, _: consolidate(path, **options),
        lambda path, _: cli.say(f"{path}: consolidated"),
        labels=("consolidated", "not consolidated"),
        as_json=lambda _: {},
    )
