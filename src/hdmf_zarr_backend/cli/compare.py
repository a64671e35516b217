"""`zarrio compare`: all differences between two files, each in Zarr or HDF5."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hdmf_zarr_backend.cli.command import Command, Exit, add, finding_lines, print_json, print_limited, storage_options
from hdmf_zarr_backend.model.render import counted

if TYPE_CHECKING:
    from hdmf_zarr_backend.comparison import Difference


_STORAGE = frozenset({"byte-order", "chunks", "filters", "layout", "maxshape", "text-encoding"})


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a Zarr file (a path or a URL) or an HDF5 file (a path)")
    parser.add_argument("b", metavar="B", help="another file, in the same or the other format")
    parser.add_argument("--structure", action="store_true", help="do not read and compare the values of datasets")
    parser.add_argument(
        "--ignore",
        action="append",
        default=[],
        metavar="KIND",
        help="leave out differences of this kind, such as chunks, or of several kinds, separated by commas",
    )
    add(parser, "--limit", "differences")
    add(parser, "--verbose", "print each difference, even if it is similar to others")
    add(parser, "--json", "print all differences as one JSON document")
    add(parser, "--storage-option")


def _run(arguments: Namespace) -> Exit:
    # imported here: NumPy is slow to import
    from hdmf_zarr_backend.comparison import compare, summarise

    ignored = {kind.strip() for part in arguments.ignore for kind in part.split(",") if kind.strip()}
    found = compare(
        arguments.a,
        arguments.b,
        ignore=ignored,
        values=not arguments.structure,
        storage_options=storage_options(arguments),
    )
    counts = summarise(found)
    if arguments.json:
        document = {"a": arguments.a, "b": arguments.b, "counts": counts, "differences": list(map(_as_json, found))}
        print_json(document)
    else:
        _print(found, counts, arguments)
    return Exit.FOUND if found else Exit.OK


def _print(found: Sequence[Difference], counts: dict[str, int], arguments: Namespace) -> None:
    lines = finding_lines(found, str, _alike, verbose=arguments.verbose)
    print_limited(lines, arguments.limit)
    if found:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in counts.items())
        print(f"{counted(len(found), 'difference')}: {kinds}")


def _alike(one: Difference) -> tuple[str, ...] | None:
    """Return the same for attributes, and ways of storing, that differ in the same way; content has its own lines."""
    if one.kind == "object_id":
        return (one.kind,)
    is_about_storage = one.kind in _STORAGE or one.kind.startswith("attribute")
    return (one.kind, str(one.attribute), one.description) if is_about_storage else None


def _as_json(difference: Difference) -> dict[str, Any]:
    return {
        "path": difference.path,
        "attribute": difference.attribute,
        "kind": difference.kind,
        "place": difference.place,
        "count": difference.count,
        **({} if difference.largest is None else {"largest": difference.largest}),
        "a": difference.a,
        "b": difference.b,
    }


COMMAND = Command(
    name="compare",
    usage="A B [options]",
    summary="show the differences between two files",
    description=(
        "Show all differences between two files: groups, datasets, links, types, shapes, values, references and\n"
        "attributes. Nothing is printed if the files are equal. Values that are damaged are a difference, and the\n"
        "other datasets follow. Two files of one format are also compared by their chunks and codecs, which\n"
        "--ignore chunks,filters leaves out; a Zarr file and an HDF5 file only where a dataset was converted from\n"
        "HDF5, by the chunks and filters that it had there."
    ),
    examples="""\
  zarrio compare session.nwb session.nwb.zarr
  zarrio compare before.nwb.zarr after.nwb.zarr --structure
  zarrio compare a.nwb.zarr b.nwb.zarr --ignore chunks,filters
  zarrio compare session.nwb s3://bucket/session.nwb.zarr -O anon=true
""",
    configure=_configure,
    run=_run,
)
