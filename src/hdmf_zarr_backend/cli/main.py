"""`zarrio`: the command line, which runs one command and reports errors."""

from __future__ import annotations

import os
import sys
import warnings
from argparse import ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from hdmf_zarr_backend import __version__
from hdmf_zarr_backend.cli import (
    compare,
    convert,
    dry_run,
    execute,
    inspect,
    repair,
    report,
    upgrade,
    validate,
    verify,
)
from hdmf_zarr_backend.cli.command import Command, Exit, complain, painted
from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.extras import extra_of, install_command
from hdmf_zarr_backend.progress import clear_line

_SHELLS = ("bash", "zsh", "tcsh")


def _configure_completion(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, help="the shell that the script is for")


def _run_completion(arguments: Namespace) -> Exit:
    import shtab

    print(shtab.complete(build_parser(), shell=arguments.shell))
    return Exit.OK


_COMPLETION = Command(
    name="completion",
    usage="SHELL",
    summary="print a script that completes commands and options",
    description=(
        "Print a script for a shell, which then completes the commands and options of zarrio. Needs the extra cli.\n"
        "bash: save the output as ~/.local/share/bash-completion/completions/zarrio. zsh: save it as _zarrio in one\n"
        "of the folders of $fpath. tcsh: save it as a file that ~/.tcshrc sources."
    ),
    examples="""\
  zarrio completion bash
  zarrio completion zsh
""",
    configure=_configure_completion,
    run=_run_completion,
)


def _configure_help(parser: ArgumentParser) -> None:
    parser.add_argument("topic", type=_command_name, nargs="?", metavar="COMMAND", help="show the help of this command")


def _command_name(word: str) -> str:
    if word not in {command.name for command in COMMANDS}:
        raise ArgumentTypeError(_unknown_command(word))
    return word


def _run_help(arguments: Namespace) -> Exit:
    parser = build_parser() if arguments.topic is None else _parsers()[arguments.topic]
    parser.print_help()
    return Exit.OK


_HELP = Command(
    name="help",
    usage="[COMMAND]",
    summary="show all commands, or the options of one",
    description="Show all commands; or of one command a description, its options and examples.",
    examples="""\
  zarrio help
  zarrio help convert
""",
    configure=_configure_help,
    run=_run_help,
)


COMMANDS: tuple[Command, ...] = (
    convert.COMMAND,
    inspect.COMMAND,
    compare.COMMAND,
    dry_run.COMMAND,
    report.COMMAND,
    validate.COMMAND,
    verify.COMMAND,
    repair.REPAIR,
    repair.CONSOLIDATE,
    upgrade.COMMAND,
    execute.COMMAND,
    _COMPLETION,
    _HELP,
)
"""All commands, in the order of the help."""

_FIRST_COMMANDS = (convert.COMMAND, inspect.COMMAND, compare.COMMAND, validate.COMMAND, report.COMMAND)

_OTHER_NAMES = {
    "check": "verify",
    "diff": "compare",
    "fix": "repair",
    "info": "inspect",
    "list": "inspect",
    "plan": "dry-run",
    "ls": "inspect",
    "show": "inspect",
    "tree": "inspect",
    "--dryrun": "--dry-run",
    "--force": "--overwrite",
    "--number-of-jobs": "--jobs",
    "--threads": "--jobs",
    "--workers": "--jobs",
    "-f": "--overwrite",
}
"""Names of commands and options in other programs or earlier versions -> the name here, which is suggested."""

_ABOUT = "Convert, inspect, compare and check HDMF and NWB files in Zarr and HDF5."

_EXIT_CODES = """\
exit codes:
  0  done, and no differences or problems were found
  1  done, and differences or problems were found (compare, verify, validate, repair)
  2  an error with at least one file, or wrong arguments
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
    given = sys.argv[1:] if argv is None else list(argv)
    if not given:
        print(_first_steps())
        return Exit.OK
    try:
        arguments = _parsed(given)
    except SystemExit as stop:  # argparse has printed the help or an error
        return int(stop.code or 0)
    with _warnings_in_one_line():
        return int(_run(arguments))


def _parsed(given: list[str]) -> Namespace:
    """Parse the arguments; for a mistake, suggest what was meant and end the program."""
    parser = build_parser()
    if not given[0].startswith("-") and given[0] not in {command.name for command in COMMANDS}:
        parser.error(_unknown_command(given[0]))
    arguments, unknown = parser.parse_known_args(given)
    if unknown:
        child: ArgumentParser = arguments.parser
        options = [name for action in child._actions for name in action.option_strings]
        meant = [_meant(word.partition("=")[0], options) for word in unknown if word.startswith("-")]
        child.error(f"unrecognized arguments: {' '.join(unknown)}{_did_you_mean(filter(None, meant))}")
    return arguments


def _unknown_command(word: str) -> str:
    meant = _meant(word, [command.name for command in COMMANDS])
    return f"{word!r} is not a command{_did_you_mean([meant] if meant else [])}"


def _did_you_mean(names: Iterable[str]) -> str:
    shown = ", ".join(dict.fromkeys(names))
    return f"; did you mean {shown}?" if shown else ""


def _meant(word: str, names: Sequence[str]) -> str | None:
    """Return the name that was probably meant by a word."""
    from difflib import get_close_matches  # imported here: most calls have no mistake

    known = _OTHER_NAMES.get(word)
    if known in names:
        return known
    begun = [name for name in names if name.startswith(word) and len(word.lstrip("-")) > 1]
    return next(iter([*begun, *get_close_matches(word, names, n=1)]), None)


def _first_steps() -> str:
    """Return the text that is shown without a command."""
    calls = [(command.examples.splitlines()[0].strip(), command.summary) for command in _FIRST_COMMANDS]
    width = max(len(call) for call, _ in calls)
    lines = [f"  {painted(f'{call:{width}}', 'bold', sys.stdout)}  {summary}" for call, summary in calls]
    return "\n".join(
        [
            _ABOUT,
            "",
            *lines,
            "",
            "Run `zarrio help` to see all commands, and `zarrio help convert` to see the options of one.",
        ]
    )


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
    except MemoryError:
        complain("there is not enough memory")
    except OSError as error:
        remedy = ". Check the permissions" if isinstance(error, PermissionError) else ""
        complain(f"the operating system refuses: {error}{remedy}")
    except KeyboardInterrupt:
        complain("interrupted")
    else:
        return code
    return Exit.FAILED


class _HelpFormatter(RawDescriptionHelpFormatter):
    """Fits descriptions to the width of the terminal, and leaves lists of examples and exit codes as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.split("\n\n")
        return "\n\n".join(self._fill_part(part, width, indent) for part in parts)

    def _fill_part(self, text: str, width: int, indent: str) -> str:
        fill = RawDescriptionHelpFormatter if "\n  " in text else HelpFormatter
        return fill._fill_text(self, text, width, indent)


class _Parser(ArgumentParser):
    """A parser whose errors name the command that shows the options."""

    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        start = painted(f"{self.prog}: error:", "red", sys.stderr)
        command = self.prog.removeprefix("zarrio")
        shown = "its arguments and options" if command else "all commands"
        self.exit(Exit.FAILED, f"{start} {message}\nRun `zarrio help{command}` to see {shown}.\n")


def _parsers() -> dict[str, ArgumentParser]:
    """Return the parser of each command by its name."""
    (commands,) = (action.choices for action in build_parser()._actions if isinstance(action.choices, dict))
    return commands


def build_parser() -> ArgumentParser:
    """Return the parser of the complete command line, also for the documentation."""
    parser = _Parser(
        prog="zarrio", usage="zarrio COMMAND [options]", description=_ABOUT, epilog=_EXIT_CODES,
        formatter_class=_HelpFormatter, allow_abbrev=False,
    )  # fmt: skip
    parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}", help="show the version and exit"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, prog="zarrio")
    for command in COMMANDS:
        child = commands.add_parser(
            command.name,
            usage=f"zarrio {command.name} {command.usage}",
            help=command.summary,
            description=command.description,
            epilog=f"examples:\n{command.examples.rstrip()}\n\n{_EXIT_CODES}",
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
        )
        command.configure(child)
        child.set_defaults(command=command, parser=child)  # to show its usage for an unknown option
    return parser


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Show each warning once, as one line without its position in the code."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        clear_line()
        complain(str(message), is_warning=True)

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


if __name__ == "__main__":
    sys.exit(main())
