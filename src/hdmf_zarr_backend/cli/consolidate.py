"""`zarrio consolidate`: make the consolidated document true again."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from hdmf_zarr_backend.cli.command import Command, Exit, add_storage_option, storage_options


def _configure(parser: ArgumentParser) -> None:
    parser.add_argument("paths", nargs="+", metavar="PATH", help="Zarr files")
    add_storage_option(parser)


def _run(arguments: Namespace) -> Exit:
    # here and not above: NumPy takes longer to start than the rest of the command line
    from hdmf_zarr_backend.verification.repairs import consolidate

    for path in arguments.paths:
        consolidate(path, storage_options=storage_options(arguments))
        print(f"{path}: consolidated")
    return Exit.OK


COMMAND = Command(
    name="consolidate",
    summary="make the consolidated document true again",
    description=(
        "Make the consolidated document of each file from the documents of its nodes, with the scalars in it. To be\n"
        "run when another program has changed a file, which is read as it was before until then."
    ),
    examples="""\
  zarrio consolidate session.nwb.zarr
""",
    configure=_configure,
    run=_run,
)
