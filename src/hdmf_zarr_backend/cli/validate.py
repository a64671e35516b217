"""`zarrio validate`: whether files are what their schema says."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.batch import each_file, finish
from hdmf_zarr_backend.cli.command import Command, Exit, finding_lines, print_json, print_limited
from hdmf_zarr_backend.cli.options import (
    add_external_links_option,
    add_storage_option,
    add_verbose_option,
    storage_options,
)

if TYPE_CHECKING:
    from hdmf_zarr_backend.validation.findings import Validation

_LINES = 100


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    parser.add_argument(
        "--full",
        action="store_true",
        help="let hdmf's own validator do it, which reads data and takes far longer",
    )
    parser.add_argument(
        "--namespace", metavar="NAME", help="hold the files against this namespace (default: the most specific ones)"
    )
    parser.add_argument(
        "--installed", action="store_true", help="take the installed namespaces, not those that are cached in the files"
    )
    add_external_links_option(parser)
    parser.add_argument(
        "--limit", type=int, default=_LINES, metavar="N", help="print at most N findings of a file; 0: all "
        "(default: %(default)s)"
    )  # fmt: skip
    add_verbose_option(parser)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print all findings as one JSON document")
    output.add_argument(
        "--schema", action="store_true", help="validate nothing: print the namespace of the first file as JSON Schema"
    )
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # here and not above: NumPy takes longer to start than the rest of the command line
    from hdmf_zarr_backend.validation.files import json_schema_for, validate

    options: dict[str, Any] = {
        "namespace": arguments.namespace,
        "use_cached": not arguments.installed,
        "storage_options": storage_options(arguments),
    }
    if arguments.schema:
        print_json(json_schema_for(arguments.paths[0], **options))
        return Exit.OK

    def work(path: str) -> Validation:
        return validate(path, full=arguments.full, external_links=arguments.external_links, **options)

    outcomes = each_file(arguments, work, lambda path, found: _print(path, found, arguments))
    return finish(
        arguments,
        outcomes,
        done="valid",
        failed="not validated",
        as_json=_as_json,
        is_good=lambda found: found.is_valid,
    )


def _print(path: str, found: Validation, arguments: Namespace) -> None:
    lines = finding_lines(
        found.findings, str, lambda finding: f"{finding.kind} {finding.message}", verbose=arguments.verbose
    )
    print_limited(lines, arguments.limit)
    count = len(found.findings)
    verdict = "valid" if found.is_valid else f"{count:,} finding{'s'[: count != 1]}"
    against = ", ".join(f"{name} {version}" for name, version in found.namespaces.items())
    print(f"{path}: {verdict} ({against}{'' if found.cached else ', installed'})")


def _as_json(found: Validation) -> dict[str, Any]:
    return {
        "source": found.source,
        "valid": found.is_valid,
        "namespaces": found.namespaces,
        "cached": found.cached,
        "counts": found.counts,
        "findings": [
            {
                "path": finding.path,
                "attribute": finding.attribute,
                "kind": finding.kind,
                "message": finding.message,
                "rule": finding.rule,
                "remedy": finding.remedy,
            }
            for finding in found.findings
        ],
    }


COMMAND = Command(
    name="validate",
    summary="hold Zarr files against their schema",
    description=(
        "Hold Zarr files against the namespaces that are cached in them, as pynwb.validate does, from the metadata\n"
        "alone: types, shapes, required groups, datasets, attributes and links, targets of links and references. This\n"
        "takes milliseconds, of remote files too. Exits with 0 if all files are valid. A file that cannot be read is\n"
        "told, and the others are looked at all the same."
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
