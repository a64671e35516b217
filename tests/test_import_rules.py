"""The packages import what the table allows and nothing else; the check itself finds planted faults."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.import_rules import LIBRARIES, PACKAGE, PACKAGES, find_violations

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCE = REPOSITORY / "src" / PACKAGE


def test_the_packages_keep_the_rules():
    assert (SOURCE / "__init__.py").is_file()
    assert find_violations(SOURCE) == []


def test_the_table_has_no_loop_and_names_only_packages():
    assert {target for allowed in PACKAGES.values() for target in allowed} <= set(PACKAGES)
    done: set[str] = set()
    while len(done) < len(PACKAGES):
        ready = {package for package, allowed in PACKAGES.items() if package not in done and allowed <= done}
        assert ready, f"a loop among {sorted(set(PACKAGES) - done)}"
        done |= ready


def test_layers_of_import_linter_name_the_same_packages():
    document = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in document["tool"]["importlinter"]["contracts"] if c["id"] == "layers")
    names = [name.strip(" ()") for layer in contract["layers"] for name in layer.split("|")]
    assert sorted(names) == sorted(set(PACKAGES) - {"__init__"})


@pytest.mark.parametrize(
    ("module", "code", "finding"),
    [
        ("model/nodes.py", "def f():\n    from ..formats.dtypes import encode", "model may not import formats"),
        ("io.py", "from hdmf_zarr_backend import ZarrIO", "io may not import __init__"),
        ("io.py", "if TYPE_CHECKING:\n    import zarr", "may not import zarr"),
        ("cli/main.py", "import importlib\nimportlib.import_module('zarr')", "may not import zarr"),
        ("hdf5/filters.py", "class A:\n    from hdf5plugin import Zstd", "must be imported on use"),
        ("stores/zarr_python.py", "import requests", "requests is not in the table"),
        ("attic/boxes.py", "import json", "package 'attic' is not in the table"),
    ],
)
def test_a_planted_fault_is_found(tmp_path, module, code, finding):
    path = tmp_path / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    (found,) = find_violations(tmp_path)
    assert finding in found
    assert found.startswith(module + ":")


def test_sub_packages_have_empty_init():
    """An import in one of them would bring a whole package along with any of its modules; but two have public names."""
    filled = set()
    for path in sorted(SOURCE.glob("*/**/__init__.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        is_docstring = len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        if not is_docstring:
            filled.add(path.relative_to(SOURCE).as_posix())
    assert filled == {"alias/__init__.py", "interop/__init__.py"}


def test_no_module_is_a_drawer():
    """A file is named after its job."""
    assert [path for path in SOURCE.rglob("*.py") if path.stem in {"utils", "helpers", "common", "misc"}] == []


@pytest.mark.parametrize("module", [PACKAGE, f"{PACKAGE}.cli.main", f"{PACKAGE}.model.nodes"])
def test_the_start_is_light(module):
    """Neither the package, nor the command line, nor the model loads hdmf, zarr or another library when imported."""
    heavy = {*LIBRARIES, "pandas"}
    source = str(SOURCE.parent)
    code = f"import sys; sys.path.insert(0, {source!r}); import {module}; print(sorted({heavy} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.strip() == "[]"


WRITES = frozenset({"set", "set_many", "delete", "delete_below", "link_value"})
OTHERS = {"conversion/virtual.py": 1}
"""Writes of what is no Zarr file: the file of references of a virtual conversion."""


def test_a_store_is_changed_by_its_transaction_only() -> None:
    """A name that is a store, or ends in one, has none of its keys set or deleted outside of the package `stores`."""
    found: dict[str, int] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in WRITES:
                of = ast.unparse(node.func.value)
                is_store = re.search(r"(store|keys|unwrapped|target|super\(\)|Store\(.*\)|open_\w+\(.*\))$", of)
                if not module.startswith("stores/") and is_store:
                    found[module] = found.get(module, 0) + 1
    assert found == OTHERS
