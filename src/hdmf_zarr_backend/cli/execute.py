"""`zarrio exec`: runs another Python command-line tool, for which ``hdmf_zarr`` is this package."""

from __future__ import annotations

from argparse import PARSER, ArgumentParser, Namespace

from hdmf_zarr_backend.cli.command import Command, add_format_option


def _configure(parser: ArgumentParser) -> None:
    add_format_option(
        parser,
        "format of the Zarr files that the command creates, unless it names one (default: 2); both: the metadata of "
        "both formats over the same chunks",
        choices=(2, 3, "both"),
    )
    parser.add_argument(
        "words",
        nargs=PARSER,  # everything from the first word on, options and "--" included
        metavar="COMMAND",
        help="a command of this environment or on PATH, or python, followed by its arguments",
    )


def _run(arguments: Namespace) -> int:
    from hdmf_zarr_backend.exec import run_with_alias  # imported here: other commands do not start processes

    return run_with_alias(arguments.words, None if arguments.zarr_format is None else str(arguments.zarr_format))


COMMAND = Command(
    name="exec",
    usage="[--zarr-format FORMAT] COMMAND [ARGUMENT...]",
    summary="run a Python tool with this package as hdmf_zarr",
    description=(
        "Run a command-line tool that is written in Python, such as nwbinspector, pynwb-validate or a script. If it,\n"
        "or a Python process that it starts, imports hdmf_zarr, it gets this package, even if hdmf-zarr is installed.\n"
        "Arguments and exit code are passed on unchanged."
    ),
    examples="""\
  zarrio exec nwbinspector session.nwb.zarr
  zarrio exec pynwb-validate session.nwb.zarr
  zarrio exec python script.py
  zarrio exec python -m pytest
  zarrio exec --zarr-format 3 python pipeline.py
""",
    configure=_configure,
    run=_run,
)
