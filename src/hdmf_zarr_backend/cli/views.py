"""`zarrio inspect`, `dry-run`, `compare`, `report`, `verify`, `validate`: the commands that read files.

Each imports what it needs when it runs, since NumPy and hdmf are slow to import.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, astuple, replace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli import command as cli
from hdmf_zarr_backend.errors import NestingError, NotZarrError, StoreExistsError, UsageError, printable
from hdmf_zarr_backend.model.links import is_url
from hdmf_zarr_backend.model.render import ASCII, UNICODE, Item, Role, Symbols, render, size_text
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.progress import SILENT, Progress

if TYPE_CHECKING:
    from hdmf_zarr_backend.outline import Outline

_STYLES: dict[Role, cli.Style] = {"title": "bold", "group": "bold", "link": "cyan"}


def _level(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"invalid level value: {text!r}; give a whole number from 0")
    return int(text)


_LEVELS = ("structure", "links", "chunks", "schema")
_TREE_OPTIONS = (
    cli.argument("--depth N", "show N levels, and the totals of deeper ones", type=_level),
    cli.flag("--all", "show all members of long runs of similar members"),
    cli.flag("--specs", "show the cached specifications"),
)


def _output_width() -> int | None:
    """Return the width of the terminal, which COLUMNS overrides; None if standard output is not a terminal."""
    # output to a file or pipe is for grep: a shortened line would hide what it looks for
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _symbols() -> Symbols:
    """Return the symbols of a tree that standard output can show."""
    # a console of Windows in an old code page, and Python with PYTHONIOENCODING=ascii, refuse box-drawing characters
    try:
        "".join(symbol for symbol in astuple(UNICODE) if symbol is not None).encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return ASCII
    return UNICODE


def _tree_lines(root: Item, outline: Outline, arguments: Namespace) -> list[str]:
    """Return the lines of the tree of an outline."""
    return render(
        root,
        outline.columns,
        depth=arguments.depth,
        show_all=arguments.all,
        symbols=replace(_symbols(), paint=lambda text, role: cli.painted(text, _STYLES[role])),
        width=_output_width(),
    )


@cli.command(
    "inspect PATH... [options]",
    cli.argument("paths PATH", "Zarr or HDF5 files: folders, files, or URLs", nargs="+"),
    *_TREE_OPTIONS,
    cli.flag("--attributes", "show the values of attributes too"),
    cli.flag("--values", "show the values of scalars and short arrays, cut to one line; they are read"),
    cli.flag("--sizes", "show the stored bytes of each array, from a list of all chunks"),
    cli.flag("--model", "print the Zarr Object Model of one file as JSON: the content of its metadata documents"),
    *cli.TRUST,
    *cli.output(json="print one JSON document: a list of the files, with all nodes of each"),
)
def inspect_command(arguments: Namespace) -> cli.Exit:
    """Show what a Zarr or HDF5 file contains.

    Show the tree of each file: groups, arrays with types, shapes, chunks, shards, codecs and uncompressed
    sizes, links and references. Only metadata is read, and with --values small datasets. On a terminal, lines
    are shortened to its width, or to COLUMNS if that is set; output to a file or a pipe is never shortened. A
    file that cannot be read is reported, and the others follow.

      zarrio inspect session.nwb.zarr
      zarrio inspect session.nwb.zarr --depth 2 --sizes
      zarrio inspect session.nwb --values
      zarrio inspect *.nwb.zarr --depth 1
      zarrio inspect session.nwb.zarr --model | jq '.members | keys'
      zarrio inspect session.nwb.zarr --json | jq '.[].nodes[] | select(.kind == "array") | .path'
    """
    from hdmf_zarr_backend.outline import open_outline

    options = cli.reading(arguments)
    shown = {"sizes": arguments.sizes, "specs": arguments.specs, "values": arguments.attributes}

    def work(path: str, _: Progress = SILENT) -> Outline:
        if not arguments.values:
            with suppress(NotZarrError):  # perhaps HDF5
                return open_outline(path, **options, **shown)
        from hdmf_zarr_backend.reporting.data import opened, small_values

        with opened(path, **options, **shown) as reader:
            if arguments.values:
                reader.outline.datasets = small_values(reader)
            return reader.outline

    paths = cli.files(arguments, "HDF5", "Zarr")
    if arguments.model:
        _print_model(paths, work)
        return cli.Exit.OK

    # each file when it is read: the first of many is not kept back until the last
    def show(path: str, outline: Outline) -> None:
        space, root, width = [""] if path != paths[0] else [], outline.tree(_symbols().times), _output_width()
        title = outline.heading(path, root.sum)
        lines = [title]
        if width is not None:
            lines = textwrap.wrap(title, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        print("\n".join([*space, *map(printable, lines), "", *_tree_lines(root, outline, arguments)]))

    return cli.each_file(arguments, paths, work, show, as_json=lambda outline: outline.document(depth=arguments.depth))


def _print_model(paths: list[str], work: Callable[[str], Any]) -> None:
    from hdmf_zarr_backend.zom import model_json

    if len(paths) > 1:
        raise UsageError(f"--model is about one file, and {len(paths)} are given", remedy="Run the command for each.")
    hierarchy = work(paths[0]).hierarchy
    try:
        cli.print_json(model_json(hierarchy))
    except RecursionError as error:
        problem = "the groups are nested too deeply for a model, which is nested as they are"
        raise NestingError(problem, store=paths[0], remedy="Use --json, which is a list.") from error


@cli.command(
    "dry-run PATH... [options]",
    cli.argument("paths PATH", "HDF5 files, or folders of them; paths or URLs", nargs="+"),
    cli.shared(
        "--zarr-format",
        "format of the Zarr file (default: 2, or 3 with --shards); both: the metadata of both formats over the same "
        "chunks",
    ),
    *cli.STORING,
    cli.shared("--nczarr"),
    cli.shared("--chunk-key-encoding", "in Zarr format 3"),
    *_TREE_OPTIONS,
    cli.flag("--no-check", "plan an NWB file without checking whether pynwb can read it, as in convert"),
    cli.flag("--no-estimate", "read no values, and do not estimate stored sizes"),
    cli.flag("--json", "print one JSON document: a list of the files, with totals and arrays of each"),
    cli.shared("--storage-option"),
    cli.flag("--model", "print the Zarr Object Model of one file as JSON"),
)
def dry_run_command(arguments: Namespace) -> cli.Exit:
    """Show what a conversion to Zarr would write.

    Show the tree of the Zarr file that `zarrio convert` would make from each HDF5 file: groups, arrays, chunks,
    codecs, the number of objects, and an estimate of their size from one chunk of each array; and the totals
    of several files. Nothing is written. A file that cannot be converted is reported, and the others follow.

      zarrio dry-run session.nwb
      zarrio dry-run session.nwb --codec zstd --depth 2
      zarrio dry-run *.nwb --depth 0
      zarrio dry-run recordings/ --json | jq 'map(.stored_bytes) | add'
      zarrio dry-run session.nwb --zarr-format 3 --shards auto --json
      zarrio dry-run session.nwb --zarr-format both
      zarrio dry-run session.nwb --set 'acquisition/*/data: chunks=30000,64 codec=zstd'
      zarrio dry-run session.nwb --model | jq '.members | keys'
    """
    from hdmf_zarr_backend.dryrun import DryRun, dry_run
    from hdmf_zarr_backend.outline import key_encoding

    writing = WriteOptions(nczarr=arguments.nczarr, chunk_key_encoding=arguments.chunk_key_encoding)
    given = {name: getattr(arguments, name) for name in ("zarr_format", "codec", "chunks", "shards")}
    given |= {"write_options": writing, "estimate": not arguments.no_estimate, "check": not arguments.no_check}
    paths, urls = cli.files(arguments, "HDF5"), cli.storage_options(arguments)
    plans: list[DryRun] = []

    def work(path: str, _: Progress, settings: Any) -> DryRun:
        target = f"{cli.name_of(path) if is_url(path) else path}.zarr"
        given["storage_options"] = cli.for_urls(urls, [path], paths)
        plan = dry_run(path, target, settings=settings, **given)
        plans.append(plan)
        return plan

    def show(path: str, plan: DryRun) -> None:
        outline = plan.outline(specs=arguments.specs)
        tree = _tree_lines(outline.tree(_symbols().times), outline, arguments)
        print("\n".join([*plan.heading(path), "", *tree, *([""] if len(paths) > 1 else [])]))

    def as_json(plan: DryRun) -> dict[str, Any]:
        nodes: dict[str, Any] = plan.hierarchy.flat()
        arrays = []
        for array in plan.arrays.values():
            entry = asdict(array)
            size, keys = entry.pop("nbytes"), key_encoding(nodes[array.path.strip("/")])
            arrays.append({**entry, "bytes": size, "chunk_key_encoding": keys})
        totals = {name: getattr(plan, name) for name in ("zarr_format", "objects", "documents")}
        sizes = {"bytes": plan.nbytes, "stored_bytes": plan.stored_bytes, "unknown": plan.unknown}
        return {**totals, **sizes, "arrays": arrays}

    if arguments.model:
        _print_model(paths, lambda path: work(path, SILENT, arguments.settings))
        return cli.Exit.OK
    run = cli.with_settings(arguments, len(paths), work)
    labels = ("can be converted", "cannot be converted")
    code = cli.each_file(arguments, paths, run, show, labels=labels, as_json=as_json)
    if len(plans) > 1 and not arguments.json:
        objects, stored = ([getattr(plan, name) for plan in plans] for name in ("objects", "stored_bytes"))
        number = "unknown" if None in objects else f"{sum(objects):,}"
        size = "unknown" if None in stored else f"about {size_text(sum(stored))}"
        print(f"objects: {number}; on disk: {size}")
    return code


@cli.command(
    "compare A B [options]",
    cli.argument("a A", "a Zarr or HDF5 file, a path or a URL"),
    cli.argument("b B", "another file, in the same or the other format"),
    cli.flag("--structure", "do not read and compare the values of datasets"),
    cli.argument(
        "--ignore KIND",
        "leave out differences of this kind, such as chunks, or of several kinds, separated by commas",
        action="append",
        default=[],
    ),
    *cli.TRUST,
    cli.shared("--limit", "differences"),
    *cli.output(json="print all differences as one JSON document"),
)
def compare_command(arguments: Namespace) -> cli.Exit:
    """Show the differences between two files.

    Show all differences between two files: groups, datasets, links, types, shapes, values, references and
    attributes. If there are none, a line has what was compared. Rows of tables are compared by their id, and other
    datasets of different lengths in their common part. Values that are damaged are a difference, and the other
    datasets follow. Two files of one format are also compared by their chunks and codecs, which
    --ignore chunks,filters leaves out; a Zarr file and an HDF5 file only where a dataset was converted from
    HDF5, by the chunks and filters that it had there.

      zarrio compare session.nwb session.nwb.zarr
      zarrio compare before.nwb.zarr after.nwb.zarr --structure
      zarrio compare a.nwb.zarr b.nwb.zarr --ignore chunks,filters
      zarrio compare session.nwb s3://bucket/session.nwb.zarr -O anon=true
    """
    from hdmf_zarr_backend.comparison import compare, summarise

    # --ignore chunks --ignore filters, and --ignore chunks,filters
    ignored = {kind.strip() for part in arguments.ignore for kind in part.split(",") if kind.strip()}
    result = compare(arguments.a, arguments.b, ignore=ignored, values=not arguments.structure, **cli.reading(arguments))
    counts = summarise(result)
    if arguments.json:
        names = ("path", "attribute", "kind", "place", "count", "a", "b")
        entries = [
            {name: getattr(each, name) for name in names}
            | {name: value for name in ("largest", "common") if (value := getattr(each, name)) is not None}
            for each in result
        ]
        cli.print_json({"a": arguments.a, "b": arguments.b, "counts": counts, "differences": entries})
    else:
        cli.show(result, arguments)
    return cli.Exit.FOUND if result else cli.Exit.OK


@cli.command(
    "report PATH [OTHER] [options]",
    cli.argument("path PATH", "a Zarr or HDF5 file: a path or a URL"),
    cli.argument("other OTHER", "a second file: the page compares the two", nargs="?"),
    cli.argument("-o --output FILE", "the new page (default: the name of PATH and .html, in the current folder)"),
    cli.flag("--overwrite", "replace a page that exists"),
    cli.exclusive(
        cli.argument(
            "--level", "of one file: how much to check for damage, as in verify (default: links)", choices=_LEVELS
        ),
        cli.flag(
            "--no-check", "of one file: check neither for damage nor against the schema, which reads all metadata"
        ),
    ),
    cli.flag("--structure", "of two files: do not compare the values of datasets"),
    *cli.TRUST,
    cli.shared("--storage-option"),
)
def report_command(arguments: Namespace) -> cli.Exit:
    """Make an HTML page about a Zarr or HDF5 file.

    Make one HTML page: the session (subject, times, devices, electrodes, units), remarks on what is odd, the
    data (time series, spikes, images, first rows of tables; at most 64 MB are read, 16 MB at a URL), the results
    of verify and validate, the sizes of groups and arrays as a picture, links, and the tree. With two files:
    their sizes side by side, and all differences. The page needs no network and no other file.

      zarrio report session.nwb.zarr
      zarrio report session.nwb.zarr -o /tmp/session.html --level chunks
      zarrio report before.nwb.zarr after.nwb.zarr -o compared.html
    """
    from hdmf_zarr_backend import report

    if (arguments.other or "").endswith((".html", ".htm")):
        problem = f"{arguments.other}: a second path is a file to compare with"
        raise UsageError(problem, remedy=f"Name the page with -o {arguments.other}.")
    name = cli.name_of(arguments.path) or os.path.basename(os.path.abspath(arguments.path))  # "s3://bucket" and "."
    output = arguments.output or f"{name}.html"
    _check_report(arguments, output)
    choices: dict[str, Any] = {"values": not arguments.structure, "check": not arguments.no_check}
    level: Any = arguments.level or "links"
    page = report(arguments.path, arguments.other, level=level, **choices, **cli.reading(arguments))
    # mode x: nothing that appeared while the file was checked is replaced
    try:
        # names may not be UTF-8
        with open(output, "w" if arguments.overwrite else "x", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(page)
    except FileExistsError as error:
        raise _exists(output) from error
    cli.say(output)
    return cli.Exit.OK


def _check_report(arguments: Namespace, output: str) -> None:
    """Refuse an option without effect, and a page that cannot be written, before anything is read."""
    # a check may take hours, so what can be known is refused before
    if arguments.structure and arguments.other is None:
        raise UsageError("--structure is about two files", remedy="Name a second file, or leave it out.")
    if arguments.level is not None and arguments.other is not None:
        raise UsageError("--level is about one file", remedy="Leave it out; make a page of each file for the problems.")
    if arguments.no_check and arguments.other is not None:
        raise UsageError("--no-check is about one file", remedy="Leave it out; a page of two files has no checks.")
    if is_url(output):
        raise UsageError(f"{output}: a page is written to a local path", remedy="Upload it afterwards.")
    folder = os.path.dirname(output)
    if folder and not os.path.isdir(folder):
        raise UsageError(f"the folder {folder} does not exist", remedy="Create it first, or name another file with -o.")
    if os.path.isdir(output):
        raise UsageError(f"{output} is a folder", remedy="Name a file in it with -o.")
    if os.path.lexists(output) and not arguments.overwrite:
        raise _exists(output)
    # by inode and not by name: a link to the file, or another spelling of its path, is the file too
    for path in filter(None, (arguments.path, arguments.other)):
        if os.path.exists(output) and os.path.exists(path) and os.path.samefile(path, output):
            raise StoreExistsError("the page would replace the file", store=path, remedy="Name another file with -o.")


def _exists(output: str) -> StoreExistsError:
    remedy = "Use --overwrite, or name another file with -o."
    return StoreExistsError("the page already exists", store=output, remedy=remedy)


@cli.command(
    "verify PATH... [options]",
    cli.argument("paths PATH", "Zarr or HDF5 files, paths or URLs", nargs="+"),
    cli.argument("--level", "how much to check; see above (default: %(default)s)", choices=_LEVELS, default="chunks"),
    cli.flag(
        "--dandi",
        "also check the requirements of the DANDI archive for Zarr files (depth, names, number and size of objects, "
        "subject, no links to other files), and print the checksum that the file has there",
    ),
    cli.flag(
        "--strict",
        "exit with 1 for remarks too, except those about chunks without a checksum, and for folders in folders, which "
        "are not searched",
    ),
    cli.shared("--jobs"),
    *cli.TRUST,
    cli.shared("--limit", "findings of a file"),
    *cli.output(
        verbose=f"{cli.EACH_FINDING}, and what to do about chunks without a checksum",
        json="print all findings as one JSON document",
    ),
)
def verify_command(arguments: Namespace) -> cli.Exit:
    """Look for damage in Zarr and HDF5 files.

    Look for damage, and change nothing. There are four levels, each of which includes those before it:

      structure  metadata can be parsed, and agrees with the consolidated document
      links      targets of links and references exist, and are the right objects
      chunks     each chunk is stored, can be decoded, and has its full size
      schema     the file follows the schema that is cached in it, by the validator of hdmf, which reads data

    In HDF5 the structure is each object with its attributes, and the chunks are all values.
    The output has a line for each kind of problem and remark, with what to do and the number of similar ones,
    and at the end a summary of the file: whether damage was found, what was checked, and how many chunks have
    no checksum, in which changed bytes cannot be noticed. --verbose adds a line for each similar finding, and
    what to do about missing checksums. Remarks, such as links that were not followed, are not damage, and
    change the exit code only with --strict. A file that cannot be read is reported, and the others follow.

      zarrio verify session.nwb.zarr
      zarrio verify *.nwb.zarr --level links
      zarrio verify session.nwb
      zarrio verify session.nwb.zarr --level schema --json | jq '.[].counts'
      zarrio verify session.nwb.zarr --dandi
    """
    from hdmf_zarr_backend.check.findings import COMMON_REMARKS, Report
    from hdmf_zarr_backend.check.verify import verify

    options = {"executor": cli.executor_of(arguments), "dandi": arguments.dandi, **cli.reading(arguments)}

    def found(report: Report) -> str:
        is_remarkable = arguments.strict and report.counts.keys() - COMMON_REMARKS
        return "" if report.is_sound and not is_remarkable else f"{'remarks' if report.is_sound else 'problems'} found"

    good = f"without {'problems' if arguments.dandi else 'damage'}{' and remarks' if arguments.strict else ''}"
    return cli.each_file(
        arguments,
        cli.files(arguments, "HDF5", "Zarr"),
        lambda path, progress: verify(path, arguments.level, progress=progress, **options),
        lambda path, report: cli.show(report, arguments, path),
        labels=(good, "not checked"),
        found=found,
        as_json=lambda report: {
            "level": report.level,
            "sound": report.is_sound,
            "looked_at": {
                **{name: getattr(report, name) for name in ("groups", "arrays", "links", "references", "chunks")},
                "bytes": report.nbytes,
                "chunks_without_checksum": report.unchecked,
            },
            **({} if report.dandi is None else {"dandi": asdict(report.dandi)}),
            "counts": report.counts,
            "problems": [problem.as_json() for problem in report.problems],
            "remarks": [problem.as_json() for problem in report.remarks],
        },
    )


@cli.command(
    "validate PATH... [options]",
    cli.argument("paths PATH", "Zarr or HDF5 files, paths or URLs", nargs="+"),
    cli.argument("--namespace NAME", "check against this namespace (default: the most specific ones in the file)"),
    cli.flag("--installed", "use the installed namespaces instead of those that are cached in the files"),
    *cli.TRUST,
    cli.shared("--limit", "findings of a file"),
    *cli.output(verbose=cli.EACH_FINDING, json="print all findings as one JSON document"),
)
def validate_command(arguments: Namespace) -> cli.Exit:
    """Check files against their schema.

    Check Zarr or HDF5 files against the namespaces that are cached in them, with the validator of hdmf, as
    pynwb.validate does: types and shapes; required groups, datasets, attributes and links. Links and references
    to nothing are findings too; those that --external-links does not allow are remarks, which do
    not change the exit code. A file that cannot be read is reported, and the others follow.

      zarrio validate session.nwb.zarr
      zarrio validate *.nwb.zarr --json | jq '.[] | select(.valid | not) | .source'
      zarrio validate session.nwb.zarr --namespace core
    """
    from hdmf_zarr_backend.check.validate import validate

    use_cached, options = not arguments.installed, cli.reading(arguments)
    return cli.each_file(
        arguments,
        cli.files(arguments, "HDF5", "Zarr"),
        lambda path, _: validate(path, namespace=arguments.namespace, use_cached=use_cached, **options),
        lambda path, validation: cli.show(validation, arguments, path),
        labels=("valid", "not validated"),
        as_json=lambda validation: {
            **asdict(validation),
            "valid": validation.is_valid,
            "counts": validation.counts,
            "findings": [{**asdict(each), "place": each.place, "remedy": each.remedy} for each in validation.findings],
            "remarks": [remark.as_json() for remark in validation.remarks],
        },
        found=lambda validation: "" if validation.is_valid else "problems found",
    )
