"""`zarrio`: the command line, which runs one command and reports errors."""

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
    convert,
    diff,
    execute,
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
from hdmf_zarr_backend.extras import extra_of, install_command

_SHELLS = ("bash", "zsh", "tcsh")


def _configure_completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell that the script is for")


def _run_completion(arguments: Namespace) -> Exit:
    import shtab

    print(shtab.complete(build_parser(), shell=arguments.shell))
    return Exit.OK


_COMPLETION = Command(
    name="completion",
    summary="print a script that completes commands and options",
    description=(
        "Print a script with which a shell completes the commands and options of zarrio. Needs the extra cli.\n"
        "bash: put its output into ~/.local/share/bash-completion/completions/zarrio. zsh: into a file _zarrio\n"
        "in one of the folders of $fpath. tcsh: into a file that ~/.tcshrc sources."
    ),
    examples="""\
  zarrio completion bash
  zarrio completion zsh
""",
    configure=_configure_completion,
    run=_run_completion,
)


COMMANDS: tuple[Command, ...] = (
    convert.COMMAND,
    inspect.COMMAND,
    diff.COMMAND,
    plan.COMMAND,
    report.COMMAND,
    validate.COMMAND,
    verify.COMMAND,
    repair.REPAIR,
    repair.CONSOLIDATE,
    upgrade.COMMAND,
    execute.COMMAND,
    _COMPLETION,
)
"""All commands, in the order of the help."""

_EXIT_CODES = """\
exit codes:
  0  done, and nothing was found
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
        0: done; 1: done, with findings; 2: not done. Errors are on standard error.

    Source: POSIX, ``diff`` and ``grep``, for the exit codes.
    """
    try:
        arguments, unknown = build_parser().parse_known_args(argv)
        if unknown:
            arguments.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    except SystemExit as stop:  # argparse has printed the help or an error
        return int(stop.code or 0)
    with _warnings_in_one_line(arguments.command):
        return int(_run(arguments))


def _run(arguments: Namespace) -> int:
    command: Command = arguments.command
    try:
        code = command.run(arguments)
        sys.stdout.flush()
    except ZarrBackendError as error:
        complain(error, command)
    except BrokenPipeError:
        # the reader of the output has closed it; Python must not report that when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if extra is None:
            raise  # not an optional library: the installation is broken
        complain(f"this needs {error.name}; install it with: {install_command(extra)}")
    except OSError as error:
        complain(f"the operating system refuses: {error}")
    except KeyboardInterrupt:
        complain("interrupted")
    else:
        return code
    return Exit.FAILED


def build_parser() -> ArgumentParser:
    """Return the parser of the complete command line, also for the documentation."""
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
        child.set_defaults(command=command, parser=child)  # to show its usage for an unknown option
    return parser


@contextmanager
def _warnings_in_one_line(command: Command) -> Iterator[None]:
    """Show each warning once, as one line without its position in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        complain(f"warning: {message}", command)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
