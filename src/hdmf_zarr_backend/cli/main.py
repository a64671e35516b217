"""`zarrio`: the command line, which runs one command and reports errors."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from argparse import PARSER, ArgumentParser, HelpFormatter, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import NoReturn

from hdmf_zarr_backend import __version__
from hdmf_zarr_backend.cli import changes, views
from hdmf_zarr_backend.cli.command import Command, Exit, argument, command, complain, grouped_warnings, painted, shared
from hdmf_zarr_backend.errors import UsageError, ZarrBackendError
from hdmf_zarr_backend.extras import extra_of, install_command
from hdmf_zarr_backend.options import VARIABLE


@command(
    "exec [--zarr-format FORMAT] COMMAND [ARGUMENT...]",
    shared(
        "--zarr-format",
        "format of the Zarr files that the command creates, unless it names one (default: 2); both: the metadata of "
        "both formats over the same chunks",
    ),
    argument(
        "words COMMAND",
        "a command of this environment or on PATH, or python, followed by its arguments",
        nargs=PARSER,  # everything from the first word on, options and "--" included
    ),
)
def exec_command(arguments: Namespace) -> int:
    """Run a Python tool with this package as hdmf_zarr.

    Run a command-line tool that is written in Python, such as nwbinspector, pynwb-validate or a script. If it,
    or a Python process that it starts, imports hdmf_zarr, it gets this package, even if hdmf-zarr is installed.
    Arguments and exit code are passed on unchanged.

      zarrio exec nwbinspector session.nwb.zarr
      zarrio exec pynwb-validate session.nwb.zarr
      zarrio exec python script.py
      zarrio exec python -m pytest
      zarrio exec --zarr-format 3 python pipeline.py
    """
    # The command replaces this process, with its own arguments, output, exit code and signals. A module
    # sitecustomize in PYTHONPATH installs the alias when Python starts, also in processes that the command starts.
    name, *others = arguments.words
    major, minor = sys.version_info[:2]
    scripts = sysconfig.get_path("scripts")  # before PATH: zarrio may be called without activating its environment
    is_python = name in ("python", f"python{major}", f"python{major}.{minor}")
    program = sys.executable if is_python else shutil.which(name, path=scripts) or shutil.which(name)
    if program is None:
        remedy = "Install the package that has it, or run a module of it with 'python -m'."
        if name.endswith(".py"):
            remedy = f"Run a script with: zarrio exec python {name}"
        raise UsageError(f"there is no command {name!r} in {scripts} or on PATH", remedy=remedy)
    command = [program, *others]
    startup = Path(__file__).parents[1] / "alias" / "startup"
    path = os.pathsep.join([str(startup), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    if arguments.zarr_format is not None:
        environment[VARIABLE] = str(arguments.zarr_format)
    if os.name != "nt":  # Windows cannot replace a process
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(command[0], command, environment)  # noqa: S606
    import subprocess  # slow to import, and not needed elsewhere

    return subprocess.run(command, env=environment, check=False).returncode  # noqa: S603


@command("completion SHELL", argument("shell", "the shell that the script is for", choices=("bash", "zsh", "tcsh")))
def completion_command(arguments: Namespace) -> Exit:
    """Print a script that completes commands and options.

    Print a script for a shell, which then completes the commands and options of zarrio. Needs the extra cli.
    bash: save the output as ~/.local/share/bash-completion/completions/zarrio. zsh: save it as _zarrio in one
    of the folders of $fpath. tcsh: save it as a file that ~/.tcshrc sources.

      zarrio completion bash
      zarrio completion zsh
    """
    # an extra: without it, `_run` names the command that installs it
    import shtab

    print(shtab.complete(build_parser(), shell=arguments.shell))
    return Exit.OK


@command("help [COMMAND]", argument("topic COMMAND", "show the help of this command", nargs="?"))
def help_command(arguments: Namespace) -> Exit:
    """Show all commands, or the options of one.

    Show all commands; or of one command a description, its options and examples.

      zarrio help
      zarrio help convert
    """
    parser = build_parser()
    if arguments.topic is not None:
        # argparse has no public way from a parser to those of its commands
        (commands,) = (action.choices for action in parser._actions if isinstance(action.choices, dict))
        if arguments.topic not in commands:
            complain(_unknown_command(arguments.topic))
            return Exit.FAILED
        parser = commands[arguments.topic]
    parser.print_help()
    return Exit.OK


COMMANDS: tuple[Command, ...] = (
    changes.convert_command,
    changes.remove_command,
    changes.rename_command,
    views.inspect_command,
    views.compare_command,
    views.dry_run_command,
    views.report_command,
    views.validate_command,
    views.verify_command,
    changes.repair_command,
    changes.consolidate_command,
    changes.upgrade_command,
    exec_command,
    completion_command,
    help_command,
)
"""All commands, in the order of the help."""

_ABOUT = "Convert, inspect, compare and check HDMF and NWB files in Zarr and HDF5."

_EXIT_CODES = """\
exit codes:
  0  done, and no differences or problems were found
  1  done, and differences or problems were found (compare, verify, validate, repair)
  2  an error with at least one file, or wrong arguments
  130  interrupted by Ctrl-C
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
        0: done; 1: done, with findings; 2: not done; 130: interrupted. Errors are on standard error.

    Source: POSIX, ``diff`` and ``grep``, for the exit codes.
    """
    words = [*(sys.argv[1:] if argv is None else argv)] or ["help"]
    # Python has None for what the caller has closed
    sys.stdout, sys.stderr = (stream or open(os.devnull, "w") for stream in (sys.stdout, sys.stderr))  # noqa: SIM115
    if isinstance(sys.stdout, TextIOWrapper):  # names and symbols that an old console lacks end no command
        sys.stdout.reconfigure(errors="backslashreplace")
    parser = build_parser()
    try:
        if not words[0].startswith("-") and words[0] not in {command.name for command in COMMANDS}:
            parser.error(_unknown_command(words[0]))
        # parse_args would end with the usage of the program, not of the command
        arguments, unknown = parser.parse_known_args(words)
        if unknown:
            child: ArgumentParser = arguments.parser
            options = [name for action in child._actions for name in action.option_strings]
            similar = _similar((word.partition("=")[0] for word in unknown if word.startswith("-")), options)
            child.error(f"unrecognized arguments: {' '.join(unknown)}{similar}")
    except SystemExit as stop:  # argparse has printed the help or an error
        return int(stop.code or 0)
    # Python would print the line of code that warned, which says nothing to a user of the command line
    with grouped_warnings(arguments):
        return int(_run(arguments))


def _unknown_command(name: str) -> str:
    return f"{name!r} is not a command{_similar([name], [command.name for command in COMMANDS])}"


def _similar(words: Iterable[str], names: Sequence[str]) -> str:
    """Return the end of a message with the ``names`` that were probably meant by mistyped ``words``."""
    from difflib import get_close_matches  # imported here: most calls have no mistake

    similar: dict[str, None] = {}
    for word in words:
        longer = [name for name in names if name.startswith(word) and len(word.lstrip("-")) > 1]
        similar |= dict.fromkeys([*longer, *get_close_matches(word, names, n=1)][:1])
    return f"; did you mean {', '.join(similar)}?" if similar else ""


def _run(arguments: Namespace) -> int:
    try:
        code: int = arguments.command.run(arguments)
        sys.stdout.flush()
    except ZarrBackendError as error:
        complain(error)
    except BrokenPipeError:
        # the reader of the output has closed it; Python must not report that when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.OK
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if extra is None:
            raise  # not an optional library: the installation is broken
        complain(f"this needs {error.name}; install it with: {install_command(extra)}")
    # outside of the calls that translate it, such as for the text of a huge tree
    except MemoryError:
        complain("there is not enough memory")
    # a disk that fails, a pipe as the output: no error of this package, and no defect of it
    except OSError as error:
        remedy = ". Check the permissions" if isinstance(error, PermissionError) else ""
        complain(f"the operating system refuses: {error}{remedy}")
    except KeyboardInterrupt:
        complain("interrupted")
        return Exit.INTERRUPTED
    else:
        return code
    return Exit.FAILED


class _HelpFormatter(RawDescriptionHelpFormatter):
    """Fits descriptions to the width of the terminal, and leaves lists of examples and exit codes as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        def fill(part: str) -> str:
            is_list = part.startswith("  ") or "\n  " in part
            return (RawDescriptionHelpFormatter if is_list else HelpFormatter)._fill_text(self, part, width, indent)

        return "\n\n".join(map(fill, text.split("\n\n")))


class _Parser(ArgumentParser):
    """A parser whose errors name the command that shows the options."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        start = painted(f"{self.prog}: error:", "red", sys.stderr)
        command = self.prog.removeprefix("zarrio")
        shown = "its arguments and options" if command else "all commands"
        self.exit(Exit.FAILED, f"{start} {message}\nRun `zarrio help{command}` to see {shown}.\n")


def build_parser() -> ArgumentParser:
    """Return the parser of the complete command line, also for the documentation."""
    # no abbreviations: a new option could make one of an existing script ambiguous
    parser = _Parser(
        prog="zarrio", usage="zarrio COMMAND [options]", description=_ABOUT, epilog=_EXIT_CODES,
        formatter_class=_HelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    version = f"%(prog)s {__version__}"
    parser.add_argument("--version", action="version", version=version, help="show the version and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, prog="zarrio")
    for each in COMMANDS:
        child = commands.add_parser(
            each.name,
            usage=f"zarrio {each.name} {each.usage}",
            help=each.summary,
            description=each.description,
            epilog=f"examples:\n{each.examples.rstrip()}\n\n{_EXIT_CODES}",
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        for part in each.parts:
            part(child)
        child._action_groups.sort(key=lambda group: group.title == "options")  # with only --help, after titled ones
        child.set_defaults(command=each, parser=child)  # to show its usage for an unknown option
    return parser


if __name__ == "__main__":
    sys.exit(main())
