"""`zarrio dry-run`: what a conversion to Zarr would write."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.command import Command, Exit, add, print_json, say
from hdmf_zarr_backend.cli.inspect import add_tree_options, tree_lines
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.model.link_sources import is_url
from hdmf_zarr_backend.model.render import size_text
from hdmf_zarr_backend.options import WriteOptions

if TYPE_CHECKING:
    from hdmf_zarr_backend.conversion.dryrun import DryRun


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="an HDF5 file on this machine")
    add(
        parser,
        "--zarr-format",
        "format of the Zarr file (default: 2, or 3 with --shards); both: the metadata of both formats over the same "
        "chunks",
    )
    for option in ("--codec", "--shards", "--nczarr"):
        add(parser, option)
    add(parser, "--chunk-key-encoding", "in Zarr format 3")
    add_tree_options(parser)
    parser.add_argument("--no-estimate", action="store_true", help="read no values, and do not estimate stored sizes")
    add(parser, "--json", "print one JSON document: totals and arrays")
    parser.add_argument("--model", action="store_true", help="print the Zarr Object Model as JSON")


def _run(arguments: Namespace) -> Exit:
    _check(arguments)
    # on use: hdmf is slow to import
    from hdmf_zarr_backend.conversion.dryrun import dry_run

    found = dry_run(
        arguments.path,
        f"{arguments.path}.zarr",
        zarr_format=arguments.zarr_format,
        codec=arguments.codec,
        shards=arguments.shards,
        write_options=WriteOptions(nczarr=arguments.nczarr, chunk_key_encoding=arguments.chunk_key_encoding),
        estimate=not arguments.no_estimate,
    )
    if arguments.model:
        from hdmf_zarr_backend.zom import model_json

        print_json(model_json(found.hierarchy))
    elif arguments.json:
        print_json(_document(arguments.path, found))
    else:
        _print(arguments, found)
    return Exit.OK


def _check(arguments: Namespace) -> None:
    """Refuse what `zarrio convert` refuses, before anything is loaded."""
    if is_url(arguments.path) and not arguments.path.startswith("file://"):
        raise UsageError(
            "a plan can only be made of an HDF5 file on this machine",
            store=arguments.path,
            remedy="Download it first; `zarrio inspect` shows the content of a Zarr file.",
        )
    if arguments.nczarr and arguments.zarr_format == 3:
        raise UsageError("NCZarr has no attributes in format 3", remedy="Leave --nczarr out, or use --zarr-format 2.")


def _document(path: str, found: DryRun) -> dict[str, Any]:
    from hdmf_zarr_backend.files.outline import key_encoding

    nodes: dict[str, Any] = found.hierarchy.flat()
    return {
        "source": path,
        "zarr_format": found.zarr_format,
        "objects": found.objects,
        "documents": found.documents,
        "bytes": found.nbytes,
        "stored_bytes": found.stored_bytes,
        "unknown": found.unknown,
        "arrays": [
            {
                "path": array.path,
                "dtype": array.dtype,
                "shape": array.shape,
                "chunks": array.chunks,
                "shards": array.shards,
                "chunk_key_encoding": key_encoding(nodes[array.path.strip("/")].stored),
                "codecs": array.codecs,
                "objects": array.objects,
                "bytes": array.nbytes,
                "stored_bytes": array.stored_bytes,
            }
            for array in found.arrays.values()
        ],
    }


def _print(arguments: Namespace, found: DryRun) -> None:
    from hdmf_zarr_backend.files.outline import Outline, format_label

    estimates = None
    if not arguments.no_estimate:
        estimates = {path.strip("/"): array.stored_bytes or 0 for path, array in found.arrays.items()}
    outline = Outline(arguments.path, found.hierarchy, consolidated=True, stored=estimates, specs=arguments.specs)
    stored = "unknown" if found.stored_bytes is None else f"about {size_text(found.stored_bytes)}"
    objects = "unknown" if found.objects is None else f"{found.objects:,}"
    say(f"{arguments.path} as {format_label(found.zarr_format)}, nothing is written")
    print(f"objects: {objects}, {found.documents:,} of them metadata; on disk: {stored}")
    print("\n".join(["", *tree_lines(outline, arguments)]))


COMMAND = Command(
    name="dry-run",
    usage="PATH [options]",
    summary="show what a conversion to Zarr would write",
    description=(
        "Show the tree of the Zarr file that `zarrio convert` would make from an HDF5 file: groups, arrays, chunks,\n"
        "codecs, the number of objects, and an estimate of their size from one chunk of each array. Nothing is\n"
        "written."
    ),
    examples="""\
  zarrio dry-run session.nwb
  zarrio dry-run session.nwb --codec zstd --depth 2
  zarrio dry-run session.nwb --zarr-format 3 --shards auto --json
  zarrio dry-run session.nwb --zarr-format both
  zarrio dry-run session.nwb --model | jq '.members | keys'
""",
    configure=_configure,
    run=_run,
)
