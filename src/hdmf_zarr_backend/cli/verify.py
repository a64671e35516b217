"""`zarrio verify`: checks files for damage."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.command import (
    Command,
    Exit,
    add,
    each_file,
    executor_of,
    finding_lines,
    print_limited,
    read_options,
    say,
    storage_options,
    verdict_text,
)
from hdmf_zarr_backend.errors import printable
from hdmf_zarr_backend.progress import Progress

if TYPE_CHECKING:
    from hdmf_zarr_backend.checks.findings import Problem, Report


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    parser.add_argument(
        "--level",
        choices=("structure", "links", "chunks", "schema"),
        default="chunks",
        help="how much to check; see above (default: %(default)s)",
    )
    parser.add_argument(
        "--dandi",
        action="store_true",
        help="also check the requirements of the DANDI archive (depth, names, number and size of objects), and print "
        "the checksum that the file has there",
    )
    add(parser, "--jobs")
    add(parser, "--external-links")
    add(parser, "--limit", "findings of a file")
    add(
        parser,
        "--verbose",
        "print each finding, even if it is similar to others, and what to do about chunks without a checksum",
    )
    add(parser, "--json", "print all findings as one JSON document")
    add(parser, "--storage-option")


def _run(arguments: Namespace) -> Exit:
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.checks.verify import verify

    options = storage_options(arguments)

    def work(path: str, progress: Progress) -> Report:
        return verify(
            path,
            arguments.level,
            executor=executor_of(arguments),
            read_options=read_options(arguments),
            storage_options=options,
            dandi=arguments.dandi,
            progress=progress,
        )

    return each_file(
        arguments,
        work,
        lambda path, report: _print(path, report, arguments),
        labels=("without damage", "not checked"),
        as_json=_as_json,
        is_good=lambda report: report.is_sound,
    )


def _print(path: str, report: Report, arguments: Namespace) -> None:
    from hdmf_zarr_backend.checks.findings import COMMON_REMARKS

    def line(problem: Problem) -> str:
        return ("" if problem.is_damage else "remark: ") + str(problem)

    found = [
        *report.problems,
        *(remark for remark in report.remarks if arguments.verbose or remark.kind not in COMMON_REMARKS),
    ]
    lines = finding_lines(found, line, lambda problem: f"{problem.kind} {problem.message}", verbose=arguments.verbose)
    print_limited(lines, arguments.limit)
    if report.dandi is not None:
        say(f"{path}: DANDI checksum {report.dandi}")
    verdict = verdict_text("no damage found", len(report.problems), "problem")
    notes = [remark.message for remark in report.remarks if remark.kind in COMMON_REMARKS]
    if not report.checks_chunks:
        notes.append("chunks were not checked")
    print("; ".join([f"{printable(path)}: {verdict} ({report.looked_at})", *notes]))


def _as_json(report: Report) -> dict[str, Any]:
    return {
        "source": report.source,
        "level": report.level,
        "sound": report.is_sound,
        "looked_at": {
            "groups": report.groups,
            "arrays": report.arrays,
            "links": report.links,
            "references": report.references,
            "chunks": report.chunks,
            "bytes": report.nbytes,
            "chunks_without_checksum": report.unchecked,
        },
        **({} if report.dandi is None else {"dandi": asdict(report.dandi)}),
        "counts": report.counts,
        "problems": [problem.as_json() for problem in report.problems],
        "remarks": [problem.as_json() for problem in report.remarks],
    }


COMMAND = Command(
    name="verify",
    usage="PATH... [options]",
    summary="look for damage in Zarr files",
    description=(
        "Look for damage, and change nothing. There are four levels, each of which includes those before it:\n\n"
        "  structure  metadata can be parsed, and agrees with the consolidated document\n"
        "  links      targets of links and references exist, and are the right objects\n"
        "  chunks     each chunk is stored, can be decoded, and has its full size\n"
        "  schema     the file follows the schema that is cached in it, by the validator of hdmf, which reads data\n\n"
        "The output has a line for each kind of problem and remark, with what to do and the number of similar ones,\n"
        "and at the end a summary of the file: whether damage was found, what was checked, and how many chunks have\n"
        "no checksum, in which changed bytes cannot be noticed. --verbose adds a line for each similar finding, and\n"
        "what to do about missing checksums. Remarks are not damage, and do not change the exit code. A file that\n"
        "cannot be read is reported, and the others follow."
    ),
    examples="""\
  zarrio verify session.nwb.zarr
  zarrio verify *.nwb.zarr --level links
  zarrio verify session.nwb.zarr --level schema --json | jq '.[].counts'
  zarrio verify session.nwb.zarr --dandi
""",
    configure=_configure,
    run=_run,
)
