"""The modules and tests that `tests.cells` names exist, and put their files into the folders of the cells."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.cells import FORMATS, KINDS, MODULES, OF_FORMAT_2, READ_ONLY, REFUSALS
from tests.storekinds import Web

REPOSITORY = Path(__file__).resolve().parents[1]
ON_DISK = {
    ".".join(path.relative_to(REPOSITORY).with_suffix("").parts): path
    for path in (REPOSITORY / "tests").rglob("test_*.py")
}
PLACES = {"folder", "shared_folder"}


def functions(module: str) -> dict[str, set[str]]:
    """Return the arguments of the functions of a module by their names."""
    tree = ast.parse(ON_DISK[module].read_text(encoding="utf-8"))
    return {
        node.name: {argument.arg for argument in node.args.args}
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
    }


def test_the_modules_are_there():
    assert ON_DISK.keys() >= MODULES


@pytest.mark.parametrize("module", sorted(MODULES))
def test_files_of_a_module_are_in_the_folders_of_the_cells(module):
    assert any(not PLACES.isdisjoint(arguments) for arguments in functions(module).values())


def test_tests_that_are_about_format_2_are_there():
    known = {name for module in MODULES for name in functions(module)}
    assert OF_FORMAT_2.keys() <= known


def test_each_kind_says_what_it_cannot_do():
    assert REFUSALS.keys() == set(KINDS)
    assert FORMATS == (2, 3)
    assert "append" in REFUSALS["zip"]
    assert READ_ONLY.keys() == {Web.name}
    assert READ_ONLY[Web.name]["write"].reason == Web.refusals["write"]
