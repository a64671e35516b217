"""`zarrio validate`: checks whether files are valid by their schema."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.command import (
    Command,
    Exit,
    add,
    each_file,
    finding_lines,
    print_limited,
    read_options,
    storage_options,
    verdict_text,
)
from hdmf_zarr_backend.errors import printable
from hdmf_zarr_backend.progress import Progress

if TYPE_CHECKING:
    from hdmf_zarr_backend.checks.findings import Validation


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    parser.add_argument(
        "--namespace", metavar="NAME", help="check against this namespace (default: the most specific ones in the file)"
    )
    parser.add_argument(
        "--installed",
        action="store_true",
        help="use the installed namespaces instead of those that are cached in the files",
    )
    add(parser, "--external-links")
    add(parser, "--limit", "findings of a file")
    add(parser, "--verbose", "print each finding, even if it is similar to others")
    add(parser, "--json", "print all findings as one JSON document")
    add(parser, "--storage-option")


def _run(arguments: Namespace) -> Exit:
    from hdmf_zarr_backend.checks.validate import validate  # imported here: hdmf is slow to import

    options = storage_options(arguments)

    def work(path: str, _: Progress) -> Validation:
        return validate(
            path,
            namespace=arguments.namespace,
            use_cached=not arguments.installed,
            read_options=read_options(arguments),
            storage_options=options,
        )

    return each_file(
        arguments,
        work,
        lambda path, found: _print(path, found, arguments),
        labels=("valid", "not validated"),
        as_json=_as_json,
        is_good=lambda found: found.is_valid,
    )


def _print(path: str, found: Validation, arguments: Namespace) -> None:
    lines = finding_lines(
        found.findings, str, lambda finding: f"{finding.rule} {finding.message}", verbose=arguments.verbose
    )
    print_limited(lines, arguments.limit)
    verdict = verdict_text("valid", len(found.findings), "finding")
    against = ", ".join(f"{name} {version}" for name, version in found.namespaces.items())
    print(f"{printable(path)}: {verdict} ({printable(against)}{'' if found.cached else ', installed'})")


def _as_json(found: Validation) -> dict[str, Any]:
    return {
        "source": found.source,
        "valid": found.is_valid,
        "namespaces": found.namespaces,
        "cached": found.cached,
        "counts": found.counts,
        "findings": [{**asdict(finding), "remedy": finding.remedy} for finding in found.findings],
    }


COMMAND = Command(
    name="validate",
    usage="PATH... [options]",
    summary="check Zarr files against their schema",
    description=(
        "Check Zarr files against the namespaces that are cached in them, with the validator of hdmf, as\n"
        "pynwb.validate does: types and shapes; required groups, datasets, attributes and links. Links and references\n"
        "to nothing are findings too. A file that cannot be read is reported, and the others follow."
    ),
    examples="""\
  zarrio validate session.nwb.zarr
  zarrio validate *.nwb.zarr --json | jq '.[] | select(.valid | not) | .source'
  zarrio validate session.nwb.zarr --namespace core
""",
    configure=_configure,
    run=_run,
)
