"""zarr-python and xarray open our files as they are, each in a process that never heard of us.

The package is installed there, no more: nothing of it is imported. Files of hdmf-zarr 0.13 need one call.
"""

import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
from hdmf.build import GroupBuilder

from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy
from hdmf_zarr_backend.store.local import LocalStore
from tests import samples
from tests.interop.exchange import DIGESTS, digests_of
from tests.trees import write_builder

_ZARR = """
import sys, zarr

reported = {}
for name, path in json.load(open(sys.argv[1])):
    root = zarr.open_group(path, mode="r", use_consolidated=USE_CONSOLIDATED)
    members = dict(root.members(max_depth=None))
    reported[name] = {
        "arrays": {p: digest(a[...]) for p, a in members.items() if isinstance(a, zarr.Array)},
        "groups": sorted(p for p, g in members.items() if isinstance(g, zarr.Group)),
    }
print(json.dumps(reported))
"""

_XARRAY = """
import sys, xarray

reported = {}
for name, path in json.load(open(sys.argv[1])):
    reported[name] = arrays = {}
    with xarray.open_datatree(path, engine="zarr") as tree:
        for node in tree.subtree:
            for variable in node.variables:
                values = node[variable]
                place = f"{node.path.strip('/')}/{variable}".strip("/")
                arrays[place] = [list(values.dims), digest(values.values)]
print(json.dumps(reported))
"""


_LEGACY = """
import hdmf_zarr_backend
from hdmf_zarr_backend.array.zarr_legacy import enable_legacy_files
enable_legacy_files()
"""

_NOT_IMPORTED = """
assert not [module for module in sys.modules if module.split(".")[0] in ("hdmf", "pynwb", "h5py")]
"""


def run(script: str, rows: list[Any], folder: Path, *, digests: bool = True) -> Any:
    """Run a script in a new process, where a warning is an error, and return the JSON of its last line."""
    if not any(entry.value.startswith("hdmf_zarr_backend.") for entry in entry_points(group="zarr.data_type")):
        pytest.fail("hdmf-zarr-backend is on the path but not installed: zarr does not find its entry points")
    (folder / "rows.json").write_text(json.dumps(rows, default=str))
    (folder / "script.py").write_text((DIGESTS if digests else "import json\n") + script + _NOT_IMPORTED)
    answer = subprocess.run(
        [sys.executable, "-W", "error", folder / "script.py", folder / "rows.json"], capture_output=True, text=True,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"}, timeout=600, check=False,
    )  # fmt: skip
    assert answer.returncode == 0, answer.stderr[-4000:]
    return json.loads(answer.stdout.splitlines()[-1])


def arrays_of(path: Path) -> dict[str, Dataset]:
    return {location: node for location, node in _hierarchy(path).walk() if isinstance(node, Dataset)}


def _hierarchy(path: Path) -> Hierarchy:
    return parse(LocalStore(str(path))).hierarchy


@pytest.fixture(scope="module")
def files(ours: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The NWB files, and two that hold every type of value and every form of reference."""
    folder = tmp_path_factory.mktemp("builders")
    builders = {
        "values": GroupBuilder(name="root", datasets=samples.dataset_builders()),
        "references": samples.reference_tree(),
    }
    result = dict(ours)
    for name, builder in builders.items():
        result[name] = folder / f"{name}.zarr"
        write_builder(result[name], builder)
    return result


@pytest.mark.parametrize("use_consolidated", [True, False], ids=["consolidated", "listed"])
def test_zarr_opens_our_files(files, tmp_path, use_consolidated):
    if not use_consolidated:  # listing takes zarr a hundred times longer; it is the same for each file
        files = {name: files[name] for name in ("rich", "rich_as_written", "values", "references")}
    reported = run(f"USE_CONSOLIDATED = {use_consolidated}\n{_ZARR}", [*files.items()], tmp_path)
    number = 0
    for name, path in files.items():
        assert reported[name]["arrays"] == digests_of(path), name
        groups = [location for location, node in _hierarchy(path).walk() if isinstance(node, Group) and location]
        assert reported[name]["groups"] == sorted(groups)
        number += len(reported[name]["arrays"])
    assert number > 300


def test_xarray_opens_our_files_as_trees(files, tmp_path):
    """Every group, every array, its dimensions by name, and no value that was turned into NaN."""
    reported = run(_XARRAY, [*files.items()], tmp_path)
    for name, path in files.items():
        nodes, values = arrays_of(path), digests_of(path)
        expected = {
            location: [nodes[location].attributes["_ARRAY_DIMENSIONS"], entry] for location, entry in values.items()
        }
        assert expected
        assert reported[name] == expected, name


@pytest.mark.peer
def test_zarr_opens_the_files_of_013_after_one_call(theirs, tmp_path):
    reported = run(f"{_LEGACY}\nUSE_CONSOLIDATED = True\n{_ZARR}", [*theirs.items()], tmp_path)
    pickled = 0
    for name, path in theirs.items():
        assert reported[name]["arrays"] == digests_of(path), name
        pickled += sum((node.stored.filters or [{}])[0].get("id") == "pickle" for node in arrays_of(path).values())
    assert pickled > 5


@pytest.mark.peer
def test_zarr_does_not_open_the_files_of_013_before_that_call(theirs, tmp_path):
    script = """
import os, sys, zarr
(_, path), = json.load(open(sys.argv[1]))
try:
    dict(zarr.open_group(path, mode="r").members(max_depth=None))
except (ValueError, TypeError) as error:
    print(json.dumps(type(error).__name__), flush=True)
    os._exit(0)  # zarr leaves tasks of the failed listing behind, which complain at exit
"""
    path = theirs["rich_without_positions"]
    assert run(script, [["file", path]], tmp_path, digests=False) in ("ValueError", "TypeError")
