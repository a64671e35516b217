"""`zarrio verify`: whether a file is whole and true to itself."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.command import (
    Command,
    Exit,
    add_storage_option,
    print_json,
    print_limited,
    storage_options,
)
from hdmf_zarr_backend.progress import terminal_progress

if TYPE_CHECKING:
    from hdmf_zarr_backend.verification.conformance_rules import ConformanceReport, Finding
    from hdmf_zarr_backend.verification.problems import Problem, Report

_LINES = 100


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files")
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
    parser.add_argument("--jobs", type=int, metavar="N", help="number of threads (default: one per core)")
    parser.add_argument(
        "--external-links",
        choices=("follow", "within", "never"),
        help="which other files links are followed to (default: any from a local file, its folder from a remote one)",
    )
    parser.add_argument(
        "--limit", type=int, default=_LINES, metavar="N", help="print at most N findings; 0: all (default: %(default)s)"
    )
    parser.add_argument("--json", action="store_true", help="print all findings as one JSON document")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    return _run_spec(arguments) if arguments.spec else _run_levels(arguments)


def _run_levels(arguments: Namespace) -> Exit:
    # here and not above: NumPy takes longer to start than the rest of the command line
    from hdmf_zarr_backend.verification.files import verify

    reports = [
        verify(
            path,
            arguments.level,
            executor=arguments.jobs or "threads",
            external_links=arguments.external_links,
            storage_options=storage_options(arguments),
            progress=terminal_progress("verify"),
        )
        for path in arguments.paths
    ]
    if arguments.json:
        print_json([_as_json(report) for report in reports])
    else:
        for path, report in zip(arguments.paths, reports, strict=True):
            _print(path, report, limit=arguments.limit)
    return Exit.OK if all(report.is_sound for report in reports) else Exit.FOUND


def _print(path: str, report: Report, *, limit: int) -> None:
    print_limited([*report.problems, *(f"remark: {remark}" for remark in report.remarks)], limit)
    verdict = "sound" if report.is_sound else f"{len(report.problems):,} problem{'s'[: len(report.problems) != 1]}"
    print(f"{path}: {verdict} ({report.looked_at})")


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
        },
        "counts": report.counts,
        "problems": list(map(_problem, report.problems)),
        "remarks": list(map(_problem, report.remarks)),
    }


def _problem(problem: Problem) -> dict[str, str]:
    return {"path": problem.path, "kind": problem.kind, "message": problem.message, "remedy": problem.remedy}


def _run_spec(arguments: Namespace) -> Exit:
    from hdmf_zarr_backend.verification.conformance import conformance

    reports = [
        conformance(
            path,
            executor=arguments.jobs or "threads",
            storage_options=storage_options(arguments),
            progress=terminal_progress("verify"),
        )
        for path in arguments.paths
    ]
    if arguments.json:
        print_json([_spec_as_json(report) for report in reports])
    else:
        for path, report in zip(arguments.paths, reports, strict=True):
            _print_spec(path, report, limit=arguments.limit)
    return Exit.OK if all(report.conforms for report in reports) else Exit.FOUND


def _print_spec(path: str, report: ConformanceReport, *, limit: int) -> None:
    from hdmf_zarr_backend.verification.conformance_rules import RULES

    lines = [
        f"{finding}. The specification, {RULES[finding.rule].section!r}: {RULES[finding.rule].demand}."
        for finding in report.violations
    ]
    print_limited(lines, limit)
    by_rule: dict[str, list[Finding]] = {}
    for finding in report.remarks:
        by_rule.setdefault(finding.rule, []).append(finding)
    for rule, found in by_rule.items():
        number = "1 key" if len(found) == 1 else f"{len(found):,} keys"
        print(f"remark: {number}, {found[0]}: {RULES[rule].remark}")
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
        "Exits with 0 if nothing is wrong; remarks, such as chunks without checksums, are no damage.\n"
        "With --spec, each demand of the specification of Zarr format 2 is a rule, and each finding names one."
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
