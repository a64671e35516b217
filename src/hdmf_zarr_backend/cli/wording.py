"""Messages for the command line: replaces arguments of Python in them by options."""

from __future__ import annotations

import re
from argparse import SUPPRESS, Action, ArgumentParser
from functools import cache
from typing import TYPE_CHECKING

from hdmf_zarr_backend.errors import ZarrBackendError

if TYPE_CHECKING:
    from hdmf_zarr_backend.checks.findings import Problem
    from hdmf_zarr_backend.cli.command import Command

__all__ = ["ARGUMENTS", "error_text", "problem_document", "problem_line", "remedy_text"]

ARGUMENTS: dict[str, tuple[str, ...]] = {
    "break_lock": ("--break-lock",),
    "cache_spec": (),
    "check": ("--no-check",),
    "chunk_key_encoding": ("--chunk-key-encoding",),
    "chunks": ("--chunks",),
    "codec": ("--codec",),
    "commit_message": (),
    "drop": ("--drop",),
    "drop_links": ("--drop-links",),
    "dtype": (),
    "durable": ("--durable",),
    "executor": (),
    "external_links": ("--external-links",),
    "file": (),
    "fo": (),
    "force_overwrite": ("--overwrite",),
    "forget": ("--forget",),
    "keep": ("--keep",),
    "limits": (),
    "link_data": ("--no-link-data",),
    "load_namespaces": (),
    "manager": (),
    "memory_budget": (),
    "missing_chunks": ("--missing-chunks",),
    "mode": (),
    "namespace": ("--namespace",),
    "nczarr": ("--nczarr",),
    "overwrite": ("--overwrite",),
    "path": (),
    "replace": (),
    "resume": ("--resume",),
    "shape": (),
    "shards": ("--shards",),
    "storage_options": ("--storage-option",),
    "strict_json": ("--strict-json",),
    "to": ("--to",),
    "use_cached": ("--installed",),
    "virtual": ("--virtual",),
    "zarr_format": ("--zarr-format",),
}
"""Argument of Python -> its options, at most one of which a command has; empty: only Python has the argument."""

_OPPOSITES = frozenset({"--no-check", "--no-link-data", "--installed"})
"""Options for the value False."""

_PHRASES: tuple[tuple[str, str, str], ...] = (
    ("pass break_lock=True, or run `zarrio repair", "", "run `zarrio repair"),
    ("with break_lock=True, or with `zarrio repair", "", "with `zarrio repair"),
    ("use_cached=False, or --installed", "--installed", "use --installed"),
    ("use_cached=False, or --installed", "", "`zarrio validate --installed`"),
    ('Use executor="threads"', "--scheduler", "Leave --scheduler out"),
    ("credentials in storage_options or the environment; anon=True reads", "--storage-option",
     "credentials in the environment, or give them with -O NAME=VALUE; -O anon=true reads"),
    ("Open it with HDF5IO or NWBHDF5IO, or convert it", "", "Convert it"),
    ("HDF5 files are read with HDF5IO or NWBHDF5IO, and converted with `zarrio convert`", "",
     "Give a Zarr file; `zarrio convert` makes one of an HDF5 file"),
    ("Use format 2.", "--zarr-format", "Use --zarr-format 2."),
    ("with fo= in storage_options", "--storage-option", "with -O fo=FILE"),
    ("Open with load_namespaces=False to read the file with the installed schema", "--installed",
     "Use --installed to validate the file against the installed namespaces"),
    ("Open with load_namespaces=False to read the file with the installed schema", "--no-check",
     "Use --no-check to convert it without checking it"),
    ("Open with mode='r-' to ignore it, and run `zarrio verify`", "", "Run `zarrio verify`, then `zarrio consolidate`"),
    ("Open with mode='r-', and consolidate the file again", "", "Run `zarrio consolidate`"),
    ("open it with mode 'r+', or run `zarrio repair`", "", "run `zarrio repair`"),
    ("raise the limit that is named", "", "raise the limit that is named with limits=Limits(NAME=VALUE)"),
    ("with forget=True (`zarrio consolidate --forget`)", "", "with `zarrio consolidate --forget`"),
    ("convert again with resume=True", "", "run `zarrio convert --resume` again"),
    ("pass overwrite=True to replace it", "--skip-existing",
     "use --overwrite to replace it, or --skip-existing to leave it"),
    ("mode 'w' to replace it", "--overwrite", "use --overwrite to replace it"),
    ("`strict_json=True` writes", "", "`zarrio convert --strict-json` writes"),
    ("Write it with chunk_key_encoding='v2'", "", "Write it with `zarrio convert --chunk-key-encoding v2`"),
)  # fmt: skip
"""Phrase for Python, the option that the command must have ("": any command), phrase for the command line."""

# compiled on use, which keeps `zarrio --help` fast
_ASSIGNED = r"""(?x)(?<![\w-])(?P<name>[a-z][a-z_]*)=
        (?:(?P<value>True|False|None|\w+\([^()]*\)|\d+|(['"])[^'"]*['"](?:\ or\ ['"][^'"]*['"])*)|(?=[\s.,;:)`]|$))"""
_BARE = r"(?<=[Ll]eave )[a-z_]+(?= out\b| away\b)|(?<=[Ll]eave out )[a-z_]+|\bstorage_options\b"
_QUOTED = r"""['"]([^'"]*)['"]"""
_CLAUSES = r"((?<=[.;!?]) +)"
_VERB = r"\b(?:([Pp])ass|say)(?= --)"
_MODE = r"\bmode ['\"]"


@cache
def _options(command: Command) -> dict[str, Action]:
    """Return the options of a command that are in its help."""
    parser = ArgumentParser(add_help=False)
    command.configure(parser)
    return {name: action for action in parser._actions if action.help != SUPPRESS for name in action.option_strings}


def error_text(error: BaseException, command: Command | None) -> str:
    """Return the message of an error for the command that runs."""
    if command is None or not isinstance(error, ZarrBackendError):
        return str(error)
    problem, _ = _replaced(error.problem, _options(command))
    return str(ZarrBackendError(problem, store=error.store, path=error.path, remedy=remedy_text(error.remedy, command)))


def remedy_text(text: str, command: Command | None) -> str:
    """Return a remedy for the command that runs."""
    if command is None:
        return text
    options = _options(command)
    for python, option, own in _PHRASES:
        if not option or option in options:
            text = text.replace(python, own)
    return "".join(_clause(clause, options) for clause in re.split(_CLAUSES, text))


def _clause(text: str, options: dict[str, Action]) -> str:
    found, is_whole = _replaced(text, options)
    if is_whole and not re.search(_MODE, found):
        return found
    return f"In Python: {found[0].lower()}{found[1:]}" if found[0].isupper() else f"in Python: {found}"


def _replaced(text: str, options: dict[str, Action]) -> tuple[str, bool]:
    """Return a text with options in place of arguments, and whether every argument has one."""
    missed: list[str] = []

    def option_for(match: re.Match[str]) -> str:
        name = match["name"]
        option = _option(name, match["value"], options)
        if option is None and name in ARGUMENTS:
            missed.append(name)
        return option or match[0]

    text = re.sub(_ASSIGNED, option_for, text)
    text = re.sub(_BARE, lambda match: _option(match[0], None, options) or match[0], text)
    return re.sub(_VERB, lambda match: "Use" if match[1] == "P" else "use", text), not missed


def _option(name: str, value: str | None, options: dict[str, Action]) -> str | None:
    """Return the option for ``name=value``; ``value`` None: for any value."""
    for option in ARGUMENTS.get(name, ()):
        action = options.get(option)
        if action is None:
            continue
        if action.nargs == 0:
            if value in (None, "False" if option in _OPPOSITES else "True"):
                return option
            continue
        if value is None:
            return option
        values = re.findall(_QUOTED, value) or [value]
        if action.choices is None or set(values) <= set(map(str, action.choices)):
            return f"{option} {' or '.join(values)}"
    return None


def problem_line(problem: Problem, command: Command) -> str:
    """Return a finding of `verify` as a line."""
    return f"{problem.path}: {problem.kind}: {problem.message}. {remedy_text(problem.remedy, command)}"


def problem_document(problem: Problem, command: Command) -> dict[str, str]:
    """Return a finding of `verify` for JSON."""
    remedy = remedy_text(problem.remedy, command)
    return {"path": problem.path, "kind": problem.kind, "message": problem.message, "remedy": remedy}
