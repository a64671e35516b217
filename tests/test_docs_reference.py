"""The reference names every public name, command and finding, and docstrings are complete."""

import ast
import builtins
import doctest
import importlib
import inspect
import re
import shutil
import subprocess
import sys
import textwrap
from argparse import SUPPRESS
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest

import hdmf_zarr_backend
from hdmf_zarr_backend import alias, errors, interop, zom
from hdmf_zarr_backend.check.findings import DAMAGE, REMARKS

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = "reference"
REFERENCE = ROOT / "docs" / "reference"
REPAIR = "run: python docs/_scripts/reference.py"


def test_pages_are_as_the_script_makes_them(script):
    for path, text in script.files().items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: {REPAIR}"


def test_every_option_of_every_command_is_on_the_page(script):
    parts = importlib.import_module("generated").parts(script.COMMAND_LINE.read_text(encoding="utf-8"))
    assert parts.keys() == {"commands", *script.parsers()}
    for name, parser in script.parsers().items():
        shown = [action for action in parser._actions if action.help != SUPPRESS]
        flags = {flag for action in shown for flag in action.option_strings} - {"-h", "--help"}
        assert {flag for flag in flags if not re.search(rf"`{flag}[ `]", parts[name])} == set(), name


def test_every_kind_of_finding_is_explained():
    page = (ROOT / "docs" / "how-to" / "verify.md").read_text(encoding="utf-8")
    assert [kind for kind in [*DAMAGE, *REMARKS] if f"| `{kind}` |" not in page] == []


_NO_PAGE = {"__version__", "ZarrBackendError"}  # the latter is on the page of errors


WITH_PAGE = [
    f"hdmf_zarr_backend.{name}"
    for name in re.findall(r"^   ~?([\w.]+)$", (REFERENCE / "api.md").read_text(encoding="utf-8"), re.MULTILINE)
]
"""In the tables of the page, from which the documentation makes a page for each."""


def test_every_public_name_has_a_page_and_every_name_for_other_programs():
    names = set(hdmf_zarr_backend.__all__) - _NO_PAGE
    assert {f"hdmf_zarr_backend.{name}" for name in names} - set(WITH_PAGE) == set()
    names = {f"interop.{name}" for name in interop.__all__} | {"zom.to_zom", "zom.from_zom"}
    names |= {f"alias.{name}" for name in alias.__all__}
    assert {f"hdmf_zarr_backend.{name}" for name in names} - set(WITH_PAGE) == set()


IN_REFERENCE = WITH_PAGE + [
    name
    for path in sorted(REFERENCE.glob("*.md"))
    for name in re.findall(r"^\.\. auto\w+:: ([\w.]+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
]
_IMPORTS = re.compile(
    r"^\s*from (?P<module>hdmf_zarr_backend[\w.]*) import (?:\((?P<several>[^)]*)\)|(?P<one>[^(\n]+))$", re.MULTILINE
)


def imported() -> set[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "gallery").glob("*.py")]
    texts = [path.read_text(encoding="utf-8") for path in pages if not {"_build", "auto_gallery"} & set(path.parts)]
    result = set()
    for match in (match for text in texts for match in _IMPORTS.finditer(text)):
        names = (match["several"] or match["one"].partition("#")[0]).split(",")
        result |= {f"{match['module']}.{name.partition(' as ')[0].strip()}" for name in names if name.strip()}
    return result


def test_what_the_reference_names_is_there():
    assert len(IN_REFERENCE) > 50
    assert len(set(IN_REFERENCE)) == len(IN_REFERENCE)
    for name in IN_REFERENCE:
        assert _find(name) is not None, name


def test_what_pages_and_examples_import_is_in_the_reference():
    known = {id(_find(name)) for name in IN_REFERENCE} | {id(getattr(errors, name)) for name in errors.__all__}
    names = imported()
    assert {"hdmf_zarr_backend.NWBZarrIO", "hdmf_zarr_backend.errors.ConflictError"} <= names
    assert sorted(name for name in names if id(_find(name)) not in known) == []


def test_every_warning_is_in_the_reference():
    source = ROOT / "src"
    result = {
        ".".join([*path.relative_to(source).with_suffix("").parts, name])
        for path in source.rglob("*.py")
        for name in re.findall(r"^class (\w+Warning)\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(result) > 7
    assert sorted(result - {f"hdmf_zarr_backend.errors.{name}" for name in errors.__all__}) == []


def _find(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        module, _, member = name.rpartition(".")
        return getattr(_find(module), member)


class Public(NamedTuple):
    """Something with a docstring that users read."""

    name: str
    value: Any
    owner: type | None = None


def public_names() -> Iterator[Public]:
    """Yield classes and functions, and the methods and properties that this package gives the classes."""
    listed = [
        f"{module.__name__}.{name}"
        for module in (hdmf_zarr_backend, alias, interop, zom, errors)
        for name in module.__all__
    ]
    seen: set[int] = set()
    for name in [*listed, *IN_REFERENCE]:  # what is in the reference besides is what those take and return
        try:
            result = Public(name, _find(name))
        except AttributeError:  # a test of its own names it
            continue
        for public in (result, *(_members(result.value) if isinstance(result.value, type) else ())):
            if isinstance(public.value, (type, FunctionType, property)) and id(public.value) not in seen:
                seen.add(id(public.value))
                yield public


def _members(owner: type) -> Iterator[Public]:
    for cls in owner.__mro__:
        if not cls.__module__.startswith("hdmf_zarr_backend"):
            continue
        for name, value in vars(cls).items():
            plain = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            if not name.startswith("_") and isinstance(plain, (FunctionType, property)):
                yield Public(f"{cls.__name__}.{name}", plain, owner)


PUBLIC = list(public_names())
CALLABLE = [public for public in PUBLIC if not isinstance(public.value, property)]


def sections(docstring: str) -> dict[str, list[str]]:
    """Return ``{title: lines}`` of a docstring in NumPy's style; the text before the first title is under ""."""
    lines = inspect.cleandoc(docstring).splitlines()
    result: dict[str, list[str]] = {"": []}
    title = ""
    for line, after in pairwise([*lines, ""]):
        if after and set(after) == {"-"} and len(after) == len(line):
            title = line
            result[title] = []
        elif not (line and set(line) == {"-"}):
            result[title].append(line)
    return result


def entries(lines: list[str]) -> set[str]:
    heads = [line.partition(" : ")[0] for line in lines if line and not line.startswith((" ", "Source: "))]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def parameters(public: Public) -> set[str]:
    value = public.value
    if isinstance(value, type):
        result = [name for name in ("__init__", "__new__") if name in vars(value)]
        if issubclass(value, BaseException) and not result:
            return set()
    return set(inspect.signature(value).parameters) - {"self", "cls"}


@pytest.mark.parametrize("public", CALLABLE, ids=lambda public: public.name)
def test_parameters_and_return_values_are_documented(public):
    """In sections, or in the sentences before the sections."""
    value, documented = public.value, sections(public.value.__doc__ or "")
    listed = entries(documented.get("Parameters", []))
    named = listed | set(re.findall(r"``(\w+)``", " ".join(documented[""])))
    if isinstance(value, type):
        named |= entries(documented.get("Attributes", []))
    elif inspect.signature(value).return_annotation not in ("None", None):
        in_words = re.match(r"(Return|Yield|Tell whether|Refuse) ", documented[""][0])
        assert in_words or {"Returns", "Yields"} & documented.keys()
    assert parameters(public) - named == set()
    assert listed - parameters(public) == set()


WITH_EXAMPLES = (
    "read_nwb", "NWBZarrIO", "ZarrDataIO", "convert", "upgrade", "verify", "validate", "compare", "dry_run", "report",
)  # fmt: skip


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """The folder with the example file of the guides."""
    folder = tmp_path_factory.mktemp("session")
    page = (ROOT / "docs" / "how-to" / "example-file.md").read_text(encoding="utf-8")
    code = page.partition("```python\n")[2].partition("```")[0]
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_the_examples_of_a_docstring_do_what_they_show(session, tmp_path, monkeypatch, name):
    shutil.copytree(session, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    (test,) = doctest.DocTestFinder(recurse=False).find(getattr(hdmf_zarr_backend, name), name, globs={})
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0


def raised(function: FunctionType) -> set[str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    calls = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call)]
    names = {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    return names | {call.func.attr for call in calls if isinstance(call.func, ast.Attribute)}  # errors.UsageError


FUNCTIONS = [public for public in CALLABLE if isinstance(public.value, FunctionType)]


@pytest.mark.parametrize("public", FUNCTIONS, ids=lambda public: public.name)
def test_every_raised_error_is_documented(public):
    """Named itself, or by a class that it is one of."""
    documented = entries(sections(public.value.__doc__ or "").get("Raises", []))
    for name in raised(public.value):
        error = public.value.__globals__.get(name, getattr(errors, name, getattr(builtins, name, None)))
        if isinstance(error, type):  # else a function that makes one
            assert documented & {cls.__name__ for cls in error.__mro__}, name
