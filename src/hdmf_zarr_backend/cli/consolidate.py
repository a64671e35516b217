"""`zarrio consolidate`: make the consolidated document true again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hdmf_zarr_backend.cli.batch import each_file, finish
from hdmf_zarr_backend.cli.command import Command, Exit
from hdmf_zarr_backend.cli.options import add_storage_option, storage_options


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files, paths or URLs")
    parser.add_argument(
        "--forget",
        action="store_true",
        help="give up what only the consolidated document has: another program has removed it on purpose",
    )
    parser.add_argument("--json", action="store_true", help="print what was done as one JSON document")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # here and not above: NumPy takes longer to start than the rest of the command line
    from hdmf_zarr_backend.verification.repairs import consolidate

    options = storage_options(arguments)

    def work(path: str) -> str:
        consolidate(path, forget=arguments.forget, storage_options=options)
        return path

    outcomes = each_file(arguments, work, lambda path, _: print(f"{path}: consolidated"))
    return finish(arguments, outcomes, done="consolidated", failed="not consolidated", as_json=lambda _: {})


COMMAND = Command(
    name="consolidate",
    summary="make the consolidated document true again",
    description=(
        "Make the consolidated document of each file from the documents of its nodes, with the scalars in it. To be\n"
        "run when another program has changed a file, which is read as it was before until then. A file of which this\n"
        "cannot be done is told, and the others go on."
    ),
    examples="""\
  zarrio consolidate session.nwb.zarr
  zarrio consolidate *.nwb.zarr --json
""",
    configure=_configure,
    run=_run,
)
