"""`zarrio validate`: checks whether files are valid by their schema.

`main` imports the module of a command only when it runs, so that the command line starts quickly.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.command import (
    Command,
    Exit,
    add_external_links_option,
    add_finding_options,
    add_storage_option,
    each_file,
    finding_lines,
    print_json,
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
        "--full",
        action="store_true",
        help="use the validator of hdmf, which reads data and takes much longer",
    )
    parser.add_argument(
        "--namespace", metavar="NAME", help="check against this namespace (default: the most specific ones in the file)"
    )
    parser.add_argument(
        "--installed",
        action="store_true",
        help="use the installed namespaces instead of those that are cached in the files",
    )
    add_external_links_option(parser)
    add_finding_options(parser, "findings of a file", "print each finding, even if it is similar to others")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print all findings as one JSON document")
    output.add_argument(
        "--schema", action="store_true", help="print the namespace of the first file as JSON Schema instead"
    )
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.checks.json_schema import json_schema_for
    from hdmf_zarr_backend.checks.validate import validate

    options: dict[str, Any] = {
        "namespace": arguments.namespace,
        "use_cached": not arguments.installed,
        "storage_options": storage_options(arguments),
    }
    if arguments.schema:
        print_json(json_schema_for(arguments.paths[0], **options))
        return Exit.OK

    def work(path: str, _: Progress) -> Validation:
        return validate(path, full=arguments.full, read_options=read_options(arguments), **options)

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
        found.findings, str, lambda finding: f"{finding.kind} {finding.message}", verbose=arguments.verbose
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
        "Check Zarr files against the namespaces that are cached in them, as pynwb.validate does, but from the\n"
        "metadata only: types and shapes; required groups, datasets, attributes and links; and the targets of links\n"
        "and references. This takes milliseconds, also for remote files. A file that cannot be read is reported, and\n"
        "the others follow."
    ),
    examples="""\
  zarrio validate session.nwb.zarr
  zarrio validate *.nwb.zarr --json | jq '.[] | select(.valid | not) | .source'
  zarrio validate session.nwb.zarr --full
  zarrio validate session.nwb.zarr --namespace core --schema | jq '."$defs" | keys'
""",
    configure=_configure,
    run=_run,
)
