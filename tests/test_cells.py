"""Each test module runs in cells or has a reason why not, and the names in the lists exist."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.cells import FORMATS, KINDS, MODULES, OF_FORMAT_2, READ_ONLY, REFUSALS
from tests.outside import OUTSIDE
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


def test_each_module_runs_in_cells_or_says_why_not():
    assert sorted(ON_DISK) == sorted([*MODULES, *OUTSIDE])


def test_a_module_runs_in_one_way():
    assert not MODULES & OUTSIDE.keys()
    assert all(len(reason) > 10 for reason in OUTSIDE.values())


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
