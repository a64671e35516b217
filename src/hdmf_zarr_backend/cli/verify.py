"""`zarrio verify`: whether a file is whole and true to itself."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.batch import each_file, finish, shown_progress
from hdmf_zarr_backend.cli.command import Command, Exit, finding_lines, print_limited
from hdmf_zarr_backend.cli.options import (
    add_external_links_option,
    add_jobs_option,
    add_storage_option,
    add_verbose_option,
    executor_of,
    storage_options,
)

if TYPE_CHECKING:
    from hdmf_zarr_backend.verification.conformance_rules import ConformanceReport, Finding
    from hdmf_zarr_backend.verification.problems import Problem, Report

_LINES = 100


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    what = parser.add_mutually_exclusive_group()
    what.add_argument(
        "--level",
        choices=("structure", "links", "chunks", "schema"),
        default="chunks",
        help="how far to look; each level begins with all before it (default: %(default)s)",
    )
    what.add_argument(
        "--spec",
        action="store_true",
        help="hold the store against the specification of Zarr format 2 instead, rule by rule",
    )
    add_jobs_option(parser)
    add_external_links_option(parser)
    parser.add_argument(
        "--limit", type=int, default=_LINES, metavar="N", help="print at most N findings of a file; 0: all "
        "(default: %(default)s)"
    )  # fmt: skip
    add_verbose_option(parser, "print each finding, also those that are alike, and remarks that are true of most files")
    parser.add_argument("--json", action="store_true", help="print all findings as one JSON document")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    return _run_spec(arguments) if arguments.spec else _run_levels(arguments)


def _run_levels(arguments: Namespace) -> Exit:
    # here and not above: NumPy takes longer to start than the rest of the command line
    from hdmf_zarr_backend.verification.files import verify

    options = storage_options(arguments)

    def work(path: str) -> Report:
        with shown_progress("verify") as progress:
            return verify(
                path,
                arguments.level,
                executor=executor_of(arguments),
                external_links=arguments.external_links,
                storage_options=options,
                progress=progress,
            )

    outcomes = each_file(arguments, work, lambda path, report: _print(path, report, arguments))
    return finish(
        arguments,
        outcomes,
        done="sound",
        failed="not looked at",
        as_json=lambda report: _as_json(report, arguments.command),
        is_good=lambda report: report.is_sound,
    )


def _print(path: str, report: Report, arguments: Namespace) -> None:
    from hdmf_zarr_backend.cli.wording import problem_line
    from hdmf_zarr_backend.verification.problems import FACTS

    def line(problem: Problem) -> str:
        return ("" if problem.is_damage else "remark: ") + problem_line(problem, arguments.command)

    found = [*report.problems, *(remark for remark in report.remarks if arguments.verbose or remark.kind not in FACTS)]
    lines = finding_lines(found, line, lambda problem: f"{problem.kind} {problem.message}", verbose=arguments.verbose)
    print_limited(lines, arguments.limit)
    verdict = "sound" if report.is_sound else f"{len(report.problems):,} problem{'s'[: len(report.problems) != 1]}"
    print(f"{path}: {verdict} ({report.looked_at})")


def _as_json(report: Report, command: Command) -> dict[str, Any]:
    from hdmf_zarr_backend.cli.wording import problem_document

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
        },
        "counts": report.counts,
        "problems": [problem_document(problem, command) for problem in report.problems],
        "remarks": [problem_document(problem, command) for problem in report.remarks],
    }


def _run_spec(arguments: Namespace) -> Exit:
    from hdmf_zarr_backend.verification.conformance import conformance

    options = storage_options(arguments)

    def work(path: str) -> ConformanceReport:
        with shown_progress("verify") as progress:
            return conformance(path, executor=executor_of(arguments), storage_options=options, progress=progress)

    outcomes = each_file(arguments, work, lambda path, report: _print_spec(path, report, arguments))
    return finish(
        arguments,
        outcomes,
        done="conforming",
        failed="not looked at",
        as_json=_spec_as_json,
        is_good=lambda report: report.conforms,
    )


def _print_spec(path: str, report: ConformanceReport, arguments: Namespace) -> None:
    from hdmf_zarr_backend.cli.wording import worded
    from hdmf_zarr_backend.verification.conformance_rules import RULES

    def line(finding: Finding) -> str:
        rule = RULES[finding.rule]
        return f"{finding}. The specification, {rule.section!r}: {rule.demand}."

    lines = finding_lines(
        report.violations, line, lambda finding: f"{finding.rule} {finding.message}", verbose=arguments.verbose
    )
    print_limited(lines, arguments.limit)
    by_rule: dict[str, list[Finding]] = {}
    for finding in report.remarks:
        by_rule.setdefault(finding.rule, []).append(finding)
    for rule, found in by_rule.items():
        number = "1 key" if len(found) == 1 else f"{len(found):,} keys"
        print(f"remark: {number}, {found[0]}: {worded(RULES[rule].remark, arguments.command)}")
    for array, reason in report.undecoded.items():
        print(f"remark: {array}: its chunks were not decoded: {reason}")
    count = len(report.violations)
    verdict = "conforms" if report.conforms else f"{count:,} violation{'s'[: count != 1]}"
    print(f"{path}: {verdict} ({report.groups:,} groups, {report.arrays:,} arrays, {report.chunks:,} chunks)")


def _spec_as_json(report: ConformanceReport) -> dict[str, Any]:
    return {
        "source": report.source,
        "conforms": report.conforms,
        "looked_at": {"groups": report.groups, "arrays": report.arrays, "chunks": report.chunks},
        "counts": report.counts,
        "violations": list(map(_finding, report.violations)),
        "remarks": list(map(_finding, report.remarks)),
        "undecoded": report.undecoded,
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {"key": finding.key, "rule": finding.rule, "message": finding.message}


COMMAND = Command(
    name="verify",
    summary="look for damage in Zarr files",
    description=(
        "Look for damage. structure: documents parse, and the consolidated one says the same as they. links: targets\n"
        "of links and references are there, and are the objects that were meant. chunks: each one is there, decodes,\n"
        "and is of full size. schema: the file is valid by the namespaces that are cached in it. Changes nothing.\n"
        "Exits with 0 if nothing is wrong; remarks are no damage. Findings that are alike are one line, with their\n"
        "number; --verbose shows each, and how many chunks have no checksum. A file that cannot be read is told, and\n"
        "the others are looked at all the same. With --spec, each demand of the specification of Zarr format 2 is a\n"
        "rule, and each finding names one."
    ),
    examples="""\
  zarrio verify session.nwb.zarr
  zarrio verify *.nwb.zarr --level links
  zarrio verify session.nwb.zarr --level schema --json | jq '.[].counts'
  zarrio verify session.nwb.zarr --spec
""",
    configure=_configure,
    run=_run,
)
