"""`zarrio verify`, `validate`, `repair` and `consolidate`: damage, what the schema does not allow, and repairs."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.command import (
    Exit,
    add,
    add_output,
    command,
    each_file,
    executor_of,
    finding_lines,
    flag,
    painted,
    print_json,
    print_limited,
    reading,
    say,
    storage_options,
)
from hdmf_zarr_backend.errors import printable
from hdmf_zarr_backend.model.render import counted

if TYPE_CHECKING:
    from hdmf_zarr_backend.checks.findings import Problem, Report, Validation

_EACH = "print each finding, even if it is similar to others"
_ALL = "print all findings as one JSON document"


def _problem_lines(problems: Iterable[Problem], prefix: str, arguments: Namespace) -> list[str]:
    """Return a line for each problem, remarks with a word before them, and ``prefix`` before the others."""
    return finding_lines(
        problems,
        lambda problem: f"{prefix if problem.is_damage else 'remark: '}{problem}",
        lambda problem: f"{problem.kind} {problem.message}",
        verbose=arguments.verbose,
    )


def _verdict(path: str, good: str, count: int, noun: str) -> str:
    """Return the result for a file: the word for a good one, in green, or the number of what was found, in red."""
    found = painted(counted(count, noun), "red") if count else painted(good, "green")
    return f"{printable(path)}: {found}"


def _configure_verify(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    parser.add_argument(
        "--level",
        choices=("structure", "links", "chunks", "schema"),
        default="chunks",
        help="how much to check; see above (default: %(default)s)",
    )
    flag(
        parser,
        "--dandi",
        "also check the requirements of the DANDI archive (depth, names, number and size of objects), and print the "
        "checksum that the file has there",
    )
    add(parser, "--jobs")
    add(parser, "--external-links")
    add(parser, "--limit", "findings of a file")
    add_output(parser, verbose=f"{_EACH}, and what to do about chunks without a checksum", json=_ALL)


@command("verify", "PATH... [options]", _configure_verify)
def verify_command(arguments: Namespace) -> Exit:
    """Look for damage in Zarr files.

    Look for damage, and change nothing. There are four levels, each of which includes those before it:

      structure  metadata can be parsed, and agrees with the consolidated document
      links      targets of links and references exist, and are the right objects
      chunks     each chunk is stored, can be decoded, and has its full size
      schema     the file follows the schema that is cached in it, by the validator of hdmf, which reads data

    The output has a line for each kind of problem and remark, with what to do and the number of similar ones,
    and at the end a summary of the file: whether damage was found, what was checked, and how many chunks have
    no checksum, in which changed bytes cannot be noticed. --verbose adds a line for each similar finding, and
    what to do about missing checksums. Remarks are not damage, and do not change the exit code. A file that
    cannot be read is reported, and the others follow.

      zarrio verify session.nwb.zarr
      zarrio verify *.nwb.zarr --level links
      zarrio verify session.nwb.zarr --level schema --json | jq '.[].counts'
      zarrio verify session.nwb.zarr --dandi
    """
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.checks.findings import COMMON_REMARKS
    from hdmf_zarr_backend.checks.verify import verify

    options = {"executor": executor_of(arguments), "dandi": arguments.dandi, **reading(arguments)}

    def show(path: str, report: Report) -> None:
        remarks = (each for each in report.remarks if arguments.verbose or each.kind not in COMMON_REMARKS)
        print_limited(_problem_lines([*report.problems, *remarks], "", arguments), arguments.limit)
        if report.dandi is not None:
            say(f"{path}: DANDI checksum {report.dandi}")
        verdict = _verdict(path, "no damage found", len(report.problems), "problem")
        notes = [remark.message for remark in report.remarks if remark.kind in COMMON_REMARKS]
        if not report.checks_chunks:
            notes.append("chunks were not checked")
        print("; ".join([f"{verdict} ({report.looked_at})", *notes]))

    return each_file(
        arguments,
        lambda path, progress: verify(path, arguments.level, progress=progress, **options),
        show,
        labels=("without damage", "not checked"),
        as_json=_report_json,
        is_good=lambda report: report.is_sound,
    )


def _report_json(report: Report) -> dict[str, Any]:
    return {
        "source": report.source,
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
    }


# ---- validate -------------------------------------------------------------------------------------------------------


def _configure_validate(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    parser.add_argument(
        "--namespace", metavar="NAME", help="check against this namespace (default: the most specific ones in the file)"
    )
    flag(parser, "--installed", "use the installed namespaces instead of those that are cached in the files")
    add(parser, "--external-links")
    add(parser, "--limit", "findings of a file")
    add_output(parser, verbose=_EACH, json=_ALL)


@command("validate", "PATH... [options]", _configure_validate)
def validate_command(arguments: Namespace) -> Exit:
    """Check Zarr files against their schema.

    Check Zarr files against the namespaces that are cached in them, with the validator of hdmf, as
    pynwb.validate does: types and shapes; required groups, datasets, attributes and links. Links and references
    to nothing are findings too. A file that cannot be read is reported, and the others follow.

      zarrio validate session.nwb.zarr
      zarrio validate *.nwb.zarr --json | jq '.[] | select(.valid | not) | .source'
      zarrio validate session.nwb.zarr --namespace core
    """
    from hdmf_zarr_backend.checks.validate import validate  # imported here: hdmf is slow to import

    use_cached, options = not arguments.installed, reading(arguments)

    def show(path: str, found: Validation) -> None:
        lines = finding_lines(
            found.findings, str, lambda finding: f"{finding.rule} {finding.message}", verbose=arguments.verbose
        )
        print_limited(lines, arguments.limit)
        against = ", ".join(f"{name} {version}" for name, version in found.namespaces.items())
        verdict = _verdict(path, "valid", len(found.findings), "finding")
        print(f"{verdict} ({printable(against)}{'' if found.cached else ', installed'})")

    return each_file(
        arguments,
        lambda path, _: validate(path, namespace=arguments.namespace, use_cached=use_cached, **options),
        show,
        labels=("valid", "not validated"),
        as_json=_validation_json,
        is_good=lambda found: found.is_valid,
    )


def _validation_json(found: Validation) -> dict[str, Any]:
    findings = [{**asdict(finding), "remedy": finding.remedy} for finding in found.findings]
    return {**asdict(found), "valid": found.is_valid, "counts": found.counts, "findings": findings}


# ---- repair ---------------------------------------------------------------------------------------------------------


def _configure_repair(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a Zarr file, a path or a URL")
    flag(parser, "--drop-links", "remove links that have no target, are circular, or are damaged")
    flag(
        parser,
        "--break-lock",
        "take over the lock of a writer that has stopped, or that may have stopped on another machine",
    )
    add_output(parser, verbose=_EACH, json="print what was done, and what is left, as one JSON document")


@command("repair", "PATH [options]", _configure_repair)
def repair_command(arguments: Namespace) -> Exit:
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
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.checks.repair import repair

    choices = {"drop_links": arguments.drop_links, "break_lock": arguments.break_lock}
    repairs = repair(arguments.path, storage_options=storage_options(arguments), **choices)
    if arguments.json:
        left, kept = ([each.as_json() for each in found] for found in (repairs.left, repairs.kept))
        print_json({"source": arguments.path, "done": repairs.done, "left": left, "kept": kept})
    else:
        left_lines = _problem_lines(repairs.left, "left: ", arguments)
        for line in [*repairs.done, *left_lines, *(f"remark: {remark}" for remark in repairs.kept)]:
            say(line)
        if not repairs.done and not repairs.left:
            print("nothing to repair in the metadata")
        print(
            "Chunks were not checked; run `zarrio verify` to check them. A damaged chunk must be restored from a copy "
            "of the file, or the source must be converted again."
        )
    return Exit.FOUND if repairs.left else Exit.OK


def _configure_consolidate(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    flag(
        parser,
        "--forget",
        "drop nodes that only the consolidated document has, because another program deleted them on purpose",
    )
    add_output(parser, json="print what was done as one JSON document")


@command("consolidate", "PATH... [options]", _configure_consolidate)
def consolidate_command(arguments: Namespace) -> Exit:
    """Update the consolidated metadata of Zarr files.

    Write a new consolidated document, with scalars in it, from the metadata documents of the nodes. Run this
    after another program has changed a file: until then, readers see the file as it was before. A file with an
    error is reported, and the others follow.

      zarrio consolidate session.nwb.zarr
      zarrio consolidate *.nwb.zarr --json
    """
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.checks.repair import consolidate

    options = storage_options(arguments)
    return each_file(
        arguments,
        lambda path, _: consolidate(path, forget=arguments.forget, storage_options=options),
        lambda path, _: say(f"{path}: consolidated"),
        labels=("consolidated", "not consolidated"),
        as_json=lambda _: {},
    )
