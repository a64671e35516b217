"""`zarrio`: the command line. Each command is a module of its own; this one finds it and tells what went wrong."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend import __version__
from hdmf_zarr_backend.cli import (
    completion,
    consolidate,
    convert,
    diff,
    inspect,
    plan,
    repair,
    report,
    upgrade,
    validate,
    verify,
)
from hdmf_zarr_backend.cli.command import Command, Exit, complain
from hdmf_zarr_backend.errors import ZarrBackendError

COMMANDS: tuple[Command, ...] = (
    convert.COMMAND,
    inspect.COMMAND,
    diff.COMMAND,
    plan.COMMAND,
    report.COMMAND,
    validate.COMMAND,
    verify.COMMAND,
    repair.COMMAND,
    consolidate.COMMAND,
    upgrade.COMMAND,
    completion.COMMAND,
)
"""All commands, in the order of the help."""

_EXTRAS = {"h5py": "hdf5", "pynwb": "nwb", "shtab": "cli"}  # library -> the extra that brings it

_EXIT_CODES = """\
exit codes:
  0  done, and nothing to complain about
  1  done, and differences or problems were found
  2  not done, or not with all files: a wrong call, no such file, a file that cannot be read or written
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments, without the name of the program; default: those of the process.

    Returns
    -------
    int
        0: done; 1: done, and something was found; 2: not done. What is wrong was told on standard error.

    Source: POSIX, ``diff`` and ``grep``, for the exit codes.
    """
    try:
        arguments, unknown = build_parser().parse_known_args(argv)
        if unknown:
            arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stop:  # argparse has printed help or what is wrong with the call
        return int(stop.code or 0)
    with _warnings_in_one_line(arguments.command):
        return int(_run(arguments))


def _run(arguments: Namespace) -> Exit:
    command: Command = arguments.command
    try:
        code = command.run(arguments)
        sys.stdout.flush()
    except ZarrBackendError as error:
        complain(error, command)
    except BrokenPipeError:
        # whoever read our output has seen enough; Python must not complain when it flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise  # no optional library: something is wrong with the installation
        complain(f"this needs {error.name}; install it with: pip install 'hdmf-zarr-backend[{_EXTRAS[error.name]}]'")
    except OSError as error:
        complain(f"the operating system refuses: {error}")
    except KeyboardInterrupt:
        complain("interrupted")
    else:
        return code
    return Exit.FAILED


def build_parser() -> ArgumentParser:
    """Return the parser of the whole command line; the help of the documentation comes from it too."""
    parser = ArgumentParser(
        prog="zarrio",
        description="Convert, look at and compare HDMF and NWB files in Zarr and HDF5.",
        epilog=_EXIT_CODES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        child = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog=f"examples:\n{command.examples.rstrip()}\n\n{_EXIT_CODES}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        command.configure(child)
        child.set_defaults(command=command, parser=child)  # its usage is shown where an option is unknown
    return parser


@contextmanager
def _warnings_in_one_line(command: Command) -> Iterator[None]:
    """Show each warning once, as one line without the place in the code, which means nothing to a user."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(f"warning: {message}", command)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
