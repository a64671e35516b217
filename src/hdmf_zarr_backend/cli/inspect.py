"""`zarrio inspect`: what is in a file, from its metadata alone."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hdmf_zarr_backend.cli.command import Command, Exit, print_json
from hdmf_zarr_backend.cli.options import add_storage_option, add_verbose_option, storage_options
from hdmf_zarr_backend.cli.tree import add_tree_options, tree_lines, wrapped


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("path", metavar="PATH", help="a Zarr file: a directory, a zip file, or a URL")
    add_tree_options(parser)
    parser.add_argument("--attributes", action="store_true", help="show the values of attributes too")
    parser.add_argument("--sizes", action="store_true", help="show what each array takes on disk; lists all chunks")
    add_verbose_option(parser, "tell how many arrays TensorStore cannot open, too")
    parser.add_argument("--json", action="store_true", help="print one JSON document, each node in it")
    parser.add_argument(
        "--model", action="store_true", help="print the Zarr Object Model as JSON: what the metadata documents say"
    )
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # here and not above: `zarrio --help` needs none of it
    from hdmf_zarr_backend.files.outline import open_outline

    outline = open_outline(
        arguments.path,
        sizes=arguments.sizes,
        specs=arguments.specs,
        values=arguments.attributes,
        storage_options=storage_options(arguments),
    )
    if arguments.model:
        from hdmf_zarr_backend.zom.documents import from_hierarchy
        from hdmf_zarr_backend.zom.jsonform import to_json

        print_json(to_json(from_hierarchy(outline.hierarchy)))
        return Exit.OK
    if arguments.json:
        print_json(outline.document(depth=arguments.depth))
        return Exit.OK
    heading = outline.heading(arguments.path)
    about = [heading, outline.closed_arrays()] if arguments.verbose else [heading]
    print("\n".join([*wrapped(about), "", *tree_lines(outline, arguments)]))
    return Exit.OK


COMMAND = Command(
    name="inspect",
    summary="show the tree of a Zarr file",
    description=(
        "Show groups, arrays with types, shapes, chunks, codecs and uncompressed sizes, links and references.\n"
        "Only metadata is read. On a terminal, lines are shortened to its width, or to COLUMNS if that is set;\n"
        "output to a file or a pipe is never shortened."
    ),
    examples="""\
  zarrio inspect session.nwb.zarr
  zarrio inspect session.nwb.zarr --depth 2 --sizes
  zarrio inspect session.nwb.zarr --model | jq '.members | keys'
  zarrio inspect session.nwb.zarr --json | jq '.nodes[] | select(.kind == "array") | .path'
""",
    configure=_configure,
    run=_run,
)
