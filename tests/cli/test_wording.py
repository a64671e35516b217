"""Errors name options where they name Python's arguments in Python."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

import hdmf_zarr_backend
from hdmf_zarr_backend.cli.command import Command, complain
from hdmf_zarr_backend.cli.main import COMMANDS, build_parser
from hdmf_zarr_backend.cli.wording import ARGUMENTS, error_text, remedy_text
from hdmf_zarr_backend.conversion.convert import convert
from hdmf_zarr_backend.errors import ReferenceTargetError, UsageError, ZarrBackendError
from hdmf_zarr_backend.options import Limits, ReadOptions

SOURCE = Path(hdmf_zarr_backend.__file__).parent
COMMAND = {command.name: command for command in COMMANDS}
OTHER_WORDS = {"version", "hdmf_zarr_backend", "anon", "token"}  # of NCZarr's properties, and storage options
ARGUMENT = re.compile(r"""(?<![\w<-])([a-z][a-z_]*)=(?=True|False|None|["'\d`]|\w+\(|[\s.,;:)]|$)""")


def said(path: Path) -> Iterator[str]:
    """Yield the texts of a module that are not docstrings; an f-string without what is put into it."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in ast.walk(node)} - {id(node)}
            yield "".join(part.value if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and not {id(node)} & (inside | documents):
            yield node.value


def named(text: str) -> set[str]:
    """Return the arguments of Python that a text speaks of."""
    return {match[1] for match in ARGUMENT.finditer(text)}


TEXTS = [
    (path, text)
    for path in sorted(SOURCE.rglob("*.py"))
    if path.relative_to(SOURCE).parts[0] not in ("cli", "report") and path.name != "html_tree.py"  # HTML has names too
    for text in said(path)
]


def test_every_argument_that_a_message_names_is_in_the_table() -> None:
    found = {name: path.name for path, text in TEXTS for name in named(text)}
    known = {*ARGUMENTS, *OTHER_WORDS, *(entry.name for entry in fields(Limits))}
    assert {"resume", "limits", "force_overwrite", "external_links"} <= found.keys()
    assert {name: where for name, where in found.items() if name not in known} == {}


def test_what_conversions_refuse_is_in_the_table() -> None:
    """The error of an option that has no effect names it, whichever it is."""
    arguments = {*inspect.signature(convert).parameters, *(entry.name for entry in fields(ReadOptions))}
    assert arguments - {"source", "target", "progress", "read_options"} <= ARGUMENTS.keys()


def test_no_message_names_an_argument_after_it_was_worded() -> None:
    for path, text in TEXTS:
        for command in COMMANDS:
            for clause in re.split(r"(?<=[.;!?]) +", remedy_text(text, command)):
                left = {name for name in named(clause) if name in ARGUMENTS}
                assert not left or clause.lower().startswith("in python: "), (path.name, command.name, clause)


def test_the_options_of_the_table_are_there() -> None:
    (commands,) = [action for action in build_parser()._actions if action.choices]
    options = {
        option
        for parser in commands.choices.values()  # type: ignore[union-attr]
        for action in parser._actions
        for option in action.option_strings
    }
    assert {option for names in ARGUMENTS.values() for option in names} <= options


@pytest.mark.parametrize(
    ("command", "text", "wanted"),
    [
        ("convert", "Pass check=False to convert it anyway.", "Use --no-check to convert it anyway."),
        ("convert", "Run it without resume=True, which starts again.", "Run it without --resume, which starts again."),
        ("convert", "Leave nczarr= and shards= out.", "Leave --nczarr and --shards out."),
        ("convert", "Leave link_data= out.", "Leave --no-link-data out."),
        ("convert", "Write with zarr_format=3, or leave shards out.",
         "Write with --zarr-format 3, or leave --shards out."),
        ("convert", 'Restore it, or take missing_chunks="fill".', "Restore it, or take --missing-chunks fill."),
        ("diff", 'Restore it, or take missing_chunks="fill".', 'In Python: restore it, or take missing_chunks="fill".'),
        ("verify", "Verify with external_links='follow'.", "Verify with --external-links follow."),
        ("verify", 'Pass external_links="within" or "follow" here.', "Use --external-links within or follow here."),
        ("convert", 'Pass external_links="follow".', "Use --external-links follow."),
        ("convert", 'Pass external_links="within" or "follow".', "Use --external-links within or follow."),
        ("convert", "Pass link_data=False.", "Use --no-link-data."),
        ("inspect", "Raise it: limits=Limits(max_links=128).", "In Python: raise it: limits=Limits(max_links=128)."),
        ("inspect", "Open with load_namespaces=False to read the file with the installed schema.",
         "In Python: open with load_namespaces=False to read the file with the installed schema."),
        ("convert", "It is long; take limits=Limits(max_links=2**7).",
         "It is long; in Python: take limits=Limits(max_links=2**7)."),
        ("convert", "Pass break_lock=True to take it.", "In Python: pass break_lock=True to take it."),
        ("repair", "Pass break_lock=True to take it.", "Use --break-lock to take it."),
        ("convert", "Wait, or pass break_lock=True, or run `zarrio repair --break-lock`.",
         "Wait, or run `zarrio repair --break-lock`."),
        ("convert", 'Use executor="threads".', "Leave --scheduler out."),
        ("inspect", "Read it with mode 'r'. Copy it.", "In Python: read it with mode 'r'. Copy it."),
        ("inspect", "Look at a=1, b=True and anon=True.", "Look at a=1, b=True and anon=True."),
        ("inspect", "", ""),
    ],
)  # fmt: skip
def test_what_is_said_to_somebody_who_types(command: str, text: str, wanted: str) -> None:
    assert remedy_text(text, COMMAND[command]) == wanted
    assert remedy_text(text, None) == text


def test_the_parts_of_an_error_are_worded_and_names_of_files_are_not() -> None:
    remedy = "Leave zarr_format= out."
    error = UsageError("zarr_format=3 is none", store="/a/resume=True", path="/check=False", remedy=remedy)
    assert error_text(error, COMMAND["convert"]) == (
        "/a/resume=True: --zarr-format 3 is none (/check=False). Leave --zarr-format out."
    )
    assert error_text(error, COMMAND["inspect"]).startswith("/a/resume=True: zarr_format=3 is none (")
    assert error_text(error, None) == str(error)
    assert error_text(ReferenceTargetError("gone", remedy="Look."), COMMAND["diff"]) == "gone. Look."
    assert error_text(OSError("resume=True"), COMMAND["convert"]) == "resume=True"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_complaints_are_worded(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    refused = "Check the credentials in storage_options or the environment; anon=True reads a public bucket."
    complain(ZarrBackendError("refused", remedy=refused), command)
    complain(f"warning: {refused}", command)
    has_option = command.name not in ("plan", "exec", "completion", "help")
    for line in capsys.readouterr().err.splitlines():
        assert ("-O anon=true" in line) == has_option
        assert ("storage_options" in line) == (not has_option)
