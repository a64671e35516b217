"""Remedies on the command line name options of `zarrio`, not arguments of Python."""

import ast
import re
from pathlib import Path

import hdmf_zarr_backend
from hdmf_zarr_backend.cli.command import complain
from hdmf_zarr_backend.cli.main import build_parser
from hdmf_zarr_backend.errors import ReferenceTargetError, UsageError

SOURCE = Path(hdmf_zarr_backend.__file__).parent
ONLY_IN_PYTHON = frozenset({
    "alias/__init__.py", "encoding/chunk_codec.py", "array/lazy.py", "hdmf/containers.py", "hdmf/namespaces.py",
    "store/transaction.py", "interop/datasets.py", "io.py", "options.py", "write/iterators.py", "zom.py",
})  # fmt: skip
"""Modules whose errors with such remedies no command of `zarrio` raises."""

ARGUMENT = re.compile(r"(?<![\w<-])[a-z][a-z_]*=(?=True|False|None|[\"'\d`]|\w+\(|[\s.,;:)]|$)|\bmode [\"']|HDF5IO")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def texts(node: ast.AST) -> str:
    constants = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant))
    return "".join(text for text in constants if isinstance(text, str))


def remedies() -> list[tuple[str, str, str | None]]:
    result = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                words = {keyword.arg: texts(keyword.value) for keyword in node.keywords if keyword.arg is not None}
            elif isinstance(node, ast.Dict):
                words = {texts(key): texts(value) for key, value in zip(node.keys, node.values, strict=True) if key}
            else:
                continue
            if "remedy" in words:
                result.append((path.relative_to(SOURCE).as_posix(), words["remedy"], words.get("remedy_cli")))
    return result


REMEDIES = remedies()


def test_a_remedy_with_an_argument_of_python_has_one_for_the_command_line():
    assert len(REMEDIES) > 200
    assert sum(cli is not None for _, _, cli in REMEDIES) > 20
    lacking = [
        (module, remedy)
        for module, remedy, cli in REMEDIES
        if module not in ONLY_IN_PYTHON and cli is None and ARGUMENT.search(remedy) and "zarrio" not in remedy
    ]
    assert lacking == []


def test_the_options_that_remedies_name_are_there():
    (commands,) = (action.choices for action in build_parser()._actions if isinstance(action.choices, dict))
    options = {name: set(parser._option_string_actions) for name, parser in commands.items()}
    everywhere = set().union(*options.values())
    for module, remedy, cli in REMEDIES:
        text = remedy if cli is None else f"{remedy} {cli}"
        assert set(OPTION.findall(text)) <= everywhere, (module, text)
        for command, rest in re.findall(r"`zarrio ([a-z]+)([^`]*)`", text):
            assert set(OPTION.findall(rest)) <= options[command], (module, text)


def test_errors_and_warnings_are_shown_as_a_line(capsys):
    complain(UsageError("3 is none", store="/a", path="/x", remedy="Pass b=True.", remedy_cli="Use --b."))
    complain(ReferenceTargetError("gone", remedy="Look."))
    complain(OSError("not\nthere"))
    complain("look out", is_warning=True)
    assert capsys.readouterr().err.splitlines() == [
        "zarrio: /a: 3 is none (/x). Use --b.", "zarrio: gone. Look.", "zarrio: not there", "zarrio: warning: look out",
    ]  # fmt: skip
