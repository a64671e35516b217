"""The packages import what the table allows and nothing else; the check itself finds planted faults."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hdmf_zarr_backend.store.base import Store
from tests.import_rules import FLOORS, LIBRARIES, PACKAGE, PACKAGES, find_circle, find_violations, imports_of_modules

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


def test_no_module_imports_itself_by_way_of_others(tmp_path):
    assert find_circle(SOURCE) == []
    (tmp_path / "io.py").write_text("def f():\n    from hdmf_zarr_backend import nwb")
    (tmp_path / "nwb.py").write_text("if TYPE_CHECKING:\n    from hdmf_zarr_backend.io import ZarrIO")
    assert set(find_circle(tmp_path)) == {"io", "nwb"}


def test_a_package_imports_what_is_below_it_or_on_its_floor():
    height = {package: -number for number, floor in enumerate(FLOORS) for package in floor}
    assert sorted(height) == sorted(PACKAGES.keys() - {"__init__"})
    ways = [(one, other) for one, allowed in PACKAGES.items() for other in allowed if {one, other} <= height.keys()]
    assert [(one, other) for one, other in ways if height[other] > height[one]] == []
    assert len(FLOORS) <= 10


def test_one_module_of_encoding_opens_stores_and_nothing_that_writes_imports_it():
    """Metadata flow one way."""
    imported = imports_of_modules(SOURCE)
    opening = [module for module in imported if "store/opening" in imported[module]]
    assert [module for module in opening if module.startswith("encoding/")] == ["encoding/parser"]
    assert [
        module for module in imported if module.startswith("write/") and "encoding/parser" in imported[module]
    ] == []


@pytest.mark.parametrize(("module", "code", "finding"), [
    ("model/nodes.py", "def f():\n    from ..encoding.dtypes import encode", "model may not import encoding"),
    ("io.py", "from hdmf_zarr_backend import ZarrIO", "io may not import __init__"),
    ("io.py", "if TYPE_CHECKING:\n    import zarr", "may not import zarr"),
    ("cli/main.py", "import importlib\nimportlib.import_module('zarr')", "may not import zarr"),
    ("hdf5/filters.py", "class A:\n    from hdf5plugin import Zstd", "must be imported on use"),
    ("store/zarr_python.py", "import requests", "requests is not in the table"),
    ("attic/boxes.py", "import json", "package 'attic' is not in the table"),
])  # fmt: skip
def test_a_planted_fault_is_found(tmp_path, module, code, finding):
    path = tmp_path / module
    path.parent.mkdir(exist_ok=True)
    path.write_text(code)
    (result,) = find_violations(tmp_path)
    assert finding in result
    assert result.startswith(module + ":")


def test_sub_packages_have_empty_init_and_no_module_is_a_drawer():
    """An import in one of them would bring a whole package along with any of its modules; but two have public names."""
    filled = set()
    for path in sorted(SOURCE.glob("*/**/__init__.py")):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        is_docstring = len(body) == 1 and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)
        if not is_docstring:
            filled.add(path.relative_to(SOURCE).as_posix())
    assert filled == {"alias/__init__.py", "interop/__init__.py"}
    # a file is named after its job
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


def test_what_reads_web_servers_is_imported_where_a_url_is_opened():
    code = f"import sys, {PACKAGE}.io; print('{PACKAGE}.store.web' in sys.modules)"
    environment = os.environ | {"PYTHONPATH": str(SOURCE.parent)}
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert answer.stdout.strip() == "False", answer.stderr


WRITES = frozenset({
    "_set", "_create", "_stream", "_copy_value", "_delete", "_delete_below", "_delete_unfinished",
    "_end_session",
})  # fmt: skip
ALONE = ("DirectChange", "Puts", "QueuedStore")
"""What changes a store without a writer: a file that nobody else sees."""


def changes_of_stores(text: str) -> set[str]:
    """Return the expressions in a module that change the keys of a store, other than in the class of a store."""
    tree = ast.parse(text)
    own = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    result = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in WRITES:
            is_own = ast.unparse(node.value) in ("self", "super()") and node.attr in own
            result |= set() if is_own else {ast.unparse(node)}
        elif isinstance(node, ast.Constant) and node.value in WRITES:  # for getattr
            result.add(node.value)
        elif isinstance(node, ast.alias) and node.name in ALONE:
            result.add(node.name)
    return result


def test_a_store_is_changed_by_its_transaction_only() -> None:
    """What sets and deletes keys is private, and is called by few modules of the package `store`."""
    public = vars(Store).keys() - WRITES
    assert vars(Store).keys() >= WRITES
    assert not public & {name.removeprefix("_") for name in WRITES}
    assert changes_of_stores("beside._set(key, b'')\nfile.store._delete([key])\nputs = getattr(store, '_set')") == {
        "beside._set", "file.store._delete", "_set",
    }  # fmt: skip
    result = {path: changes_of_stores(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
    modules = {path.relative_to(SOURCE).as_posix(): changes for path, changes in result.items() if changes}
    assert modules.pop("virtual.py") == {"DirectChange"}  # in memory
    assert modules.keys() == {f"store/{name}.py" for name in ("files", "journal", "lock", "memory", "transaction")}
