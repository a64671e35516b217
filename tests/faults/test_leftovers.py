"""What a writer leaves behind blocks nobody, and is removed by nobody but the process that made it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend import ZarrIO, convert
from hdmf_zarr_backend.errors import LimitError, NestingError
from tests import trees
from tests.descriptors import few_open_files
from tests.proportion import assert_linear

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="about calls that this system does not have")


def deep_hdf5(path: Path, depth: int, name: str = "g") -> Path:
    with h5py.File(path, "w") as file:
        group = file
        for _ in range(depth):
            group = group.create_group(name)
        group["x"] = [1, 2, 3]
    return path


def deep_folder(path: Path, depth: int) -> None:
    """Make folders in each other, deeper than a path reaches."""
    path.mkdir()
    here = os.open(path, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("folder", dir_fd=here)
        inner = os.open("folder", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


def run(script: str, *arguments: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, timeout=600, check=False, capture_output=True, text=True)


# ---- deep trees -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("depth", [1_950, 3_000])
def test_groups_that_are_nested_too_deep_are_refused_before_anything_is_written(depth, zarr_format, tmp_path):
    source = deep_hdf5(tmp_path / "deep.h5", depth, "gg")
    for _ in range(2):
        with pytest.raises((NestingError, LimitError)) as caught:
            convert(source, tmp_path / "a.zarr", zarr_format=zarr_format)
        assert caught.value.store
        assert caught.value.path
        assert len(str(caught.value)) < 1000
        assert os.listdir(tmp_path) == ["deep.h5"]
    source.unlink()
    with h5py.File(source, "w") as file:
        file["x"] = [1, 2, 3]
    convert(source, tmp_path / "a.zarr", zarr_format=zarr_format)


def test_long_names_reach_the_end_of_a_path_with_fewer_groups(tmp_path: Path) -> None:
    source = deep_hdf5(tmp_path / "deep.h5", 60, "g" * 100)
    with pytest.raises(NestingError):
        convert(source, tmp_path / "a.zarr")
    assert os.listdir(tmp_path) == ["deep.h5"]
    convert(source, tmp_path / "a.zarr.zip")  # has no such limit


@pytest.mark.parametrize("suffix", [".zarr", ".zarr.zip"])
def test_a_deep_tree_there_and_back(suffix: str, tmp_path: Path) -> None:
    """As deep as a file system takes, which is deeper than Python's calls."""
    depth = 1_100
    source = deep_hdf5(tmp_path / "deep.h5", depth)
    convert(source, tmp_path / f"a{suffix}")
    convert(tmp_path / f"a{suffix}", tmp_path / "back.h5")
    with h5py.File(tmp_path / "back.h5", "r") as file:
        assert file["g/" * depth + "x"][:].tolist() == [1, 2, 3]
    subprocess.run(["rm", "-r", tmp_path / f"a{suffix}"], check=True)  # Python 3.11 cannot remove such a tree


# ---- what cannot be removed -----------------------------------------------------------------------------------------
_DYING = """
import os, sys, h5py
from hdmf.data_utils import DataChunkIterator
from hdmf_zarr_backend import WriteOptions, ZarrIO, convert
from tests import trees
target = sys.argv[1]
class Dying:
    def start(self, *arguments): pass
    def advance(self, *arguments): os._exit(7)
    def finish(self): pass
def values():
    yield [1, 2]
    os._exit(7)
with h5py.File(target + ".h5", "w") as file:
    file.create_dataset("x", data=list(range(100000)), chunks=(1000,))
if not os.fork():
    convert(target + ".h5", target, write_options=WriteOptions(progress=Dying()))
os.wait()
with ZarrIO(target, "w") as io:
    io.write_builder(trees.root(trees.dataset("x", DataChunkIterator(values(), buffer_size=1))))
"""


def leftovers(target: Path) -> list[Path]:
    run(_DYING, target)
    left = sorted(target.parent.glob(".*.partial"))
    assert len(left) == 2
    return left


def test_a_leftover_that_is_too_deep_for_a_path_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "a.zarr"
    for path in leftovers(target):
        deep_folder(path / "deep", 1_200)
    with few_open_files(100):
        convert(tmp_path / "a.zarr.h5", target)
        trees.write_builder(target, trees.root(note="new"))
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "a.zarr.h5"]


def test_a_deep_file_is_replaced_and_its_leftover_is_gone(tmp_path: Path) -> None:
    """The old file is removed after the new one is in its place."""
    target = tmp_path / "a.zarr"
    convert(deep_hdf5(tmp_path / "deep.h5", 1_100), target)
    with few_open_files(100), ZarrIO(target, "w") as io:
        io.write_builder(trees.root(note="new"))
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "deep.h5"]


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="about permissions")
def test_a_leftover_that_may_not_be_removed_blocks_nobody(tmp_path: Path) -> None:
    """A folder in it belongs to another user, or is read only."""
    target = tmp_path / "a.zarr"
    for path in leftovers(target):
        locked = path / "locked"
        locked.mkdir()
        (locked / "file").touch()
        locked.chmod(0o500)
    code = f"""
import os, warnings
from hdmf_zarr_backend import ZarrIO, convert
from tests import trees
warnings.simplefilter("ignore")
target = {str(target)!r}
convert(target + ".h5", target)
with ZarrIO(target, "w") as io:
    io.write_builder(trees.root(note="new"))
with ZarrIO(target, "r") as io:
    print(io.read_builder().attributes["note"])
"""
    try:
        done = _as_nobody(code, tmp_path)
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == "new"
        assert not [name for name in os.listdir(tmp_path) if name.endswith(".partial")]
    finally:
        for path in [*tmp_path.glob(".*"), *tmp_path.glob("*")]:
            with suppress(OSError):
                (path / "locked").chmod(0o700)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="about permissions")
def test_what_a_user_may_not_read_or_write_is_named(tmp_path: Path) -> None:
    """The error names what is in the way, and no lock."""
    for name in ("a.zarr", "b.zarr"):
        trees.write_builder(tmp_path / name, trees.root(trees.group("g", trees.dataset("x", [1, 2]))))
    (tmp_path / "open").mkdir()
    code = f"""
import os
from hdmf_zarr_backend import ZarrIO, convert
from hdmf_zarr_backend.errors import StoreRefusedError
from tests import trees
folder = {str(tmp_path)!r}
os.chmod(folder + "/a.zarr/g/x/0", 0)
os.chmod(folder + "/b.zarr", 0)
os.chmod(folder + "/open", 0o500)
def chunk():
    trees.read_builder(folder + "/a.zarr", "r-")["g/x"].data[:]
def root():
    ZarrIO(folder + "/b.zarr", "r")
def new():
    ZarrIO(folder + "/open/new.zarr", "w")
def below():
    convert(folder + "/a.zarr", folder + "/open/new.zarr")
def hdf5():
    convert(folder + "/a.zarr", folder + "/open/new.h5")
for call in (chunk, root, new, below, hdf5):
    try:
        call()
    except StoreRefusedError as error:
        print(call.__name__, error.problem, error.remedy, sep="|")
"""
    try:
        done = _as_nobody(code, tmp_path)
    finally:
        for name in ("b.zarr", "open"):
            (tmp_path / name).chmod(0o700)
    told = {name: (problem, remedy) for name, problem, remedy in (line.split("|") for line in done.stdout.splitlines())}
    assert told.keys() == {"chunk", "root", "new", "below", "hdf5"}, done.stderr
    assert not [problem for problem, _ in told.values() if "lock" in problem]
    assert told["chunk"][1] == f"Check the permissions of {str(tmp_path / 'a.zarr/g/x/0')!r}: you may not read it."
    assert told["root"][1] == f"Check the permissions of {str(tmp_path / 'b.zarr')!r}: you may not read it."
    place = str(tmp_path / "open")
    for name in ("new", "below", "hdf5"):
        assert told[name][0] == "the file could not be written: Permission denied"
        assert told[name][1].startswith(f"Check the permissions of {place!r}: you may not write there.")


def _as_nobody(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a script as a user whom permissions concern."""
    if os.geteuid() == 0:
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, 65534, 65534)
        # Python itself may lie where that user cannot read: what is needed is imported before
        code = f"{_WARM_UP}\nos.setgroups([]); os.setgid(65534); os.setuid(65534)\n{code}"
        temporary = Path(tempfile.gettempdir()).resolve()
        for path in folder.parents:
            if path == folder.parent or temporary in path.parents:  # of pytest and its workers
                path.chmod(0o755)
    return run(code)


_WARM_UP = """
import os, tempfile, h5py
from hdmf_zarr_backend import ZarrIO, convert
from tests import trees
with tempfile.TemporaryDirectory() as folder:
    with h5py.File(folder + "/a.h5", "w") as file:
        file["x"] = [1]
    convert(folder + "/a.h5", folder + "/a.zarr")
    trees.write_builder(folder + "/b.zarr", trees.root(note="new"))
    trees.read_builder(folder + "/b.zarr", "r")
"""


# ---- forks ----------------------------------------------------------------------------------------------------------
_FORK = """
import os, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
from hdmf.data_utils import DataChunkIterator
from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from tests import trees
how, mode, target = sys.argv[1:]
def rows():  # before the last of them the process is forked
    for row in range(5):
        yield np.full(3, row)
    pid = os.fork()
    if pid == 0:
        if how == "exit":
            sys.exit(0)
        if how == "raise":
            raise KeyError("in the child")
        return  # goes on as if it were the parent
    os.waitpid(pid, 0)
    yield np.full(3, 5)
data = DataChunkIterator(rows(), buffer_size=1)
with ZarrIO(target, "a" if mode == "a" else "w") as io:
    root = io.read_builder() if mode == "a" else trees.root()
    root.set_dataset(trees.dataset("x", ZarrDataIO(data, chunks=(1, 3))))
    io.write_builder(root)
"""


_EVERY = [(how, mode) for how in ("exit", "raise", "return") for mode in ("w", "over", "zip", "a")]
_SAMPLE = [("exit", "w"), ("raise", "a"), ("return", "zip")]


@pytest.mark.parametrize(
    ("how", "mode"), [pytest.param(*case, marks=[] if case in _SAMPLE else [pytest.mark.slow]) for case in _EVERY]
)
def test_a_fork_in_a_data_iterator_takes_nothing_away(how: str, mode: str, tmp_path: Path) -> None:
    target = tmp_path / ("a.zarr.zip" if mode == "zip" else "a.zarr")
    if mode in ("over", "a"):
        trees.write_builder(target, trees.root(trees.dataset("old", np.arange(3))))
    done = run(_FORK, how, mode, target)
    assert done.returncode == 0, done.stderr
    root = trees.read_builder(target)
    assert root["x"].data[:].tolist() == [[row] * 3 for row in range(6)]
    assert ("old" in root.datasets) == (mode == "a")
    assert os.listdir(tmp_path) == [target.name]


# ---- many links -----------------------------------------------------------------------------------------------------
def test_opening_takes_a_time_in_proportion_to_the_links(tmp_path: Path) -> None:
    count = 20_000
    target = tmp_path / "a.zarr"
    link = {"source": ".", "path": "/x"}

    def opened(number: int) -> Any:
        shutil.rmtree(target, ignore_errors=True)
        trees.write_builder(target, trees.root(trees.dataset("x", np.arange(3))))
        links = json.dumps({"zarr_link": [{"name": f"link{one}", **link} for one in range(number)]})
        (target / ".zattrs").write_text(links)
        (target / ".zmetadata").unlink()
        return trees.read_builder(target)

    root = opened(count)
    assert len(root.links) == count
    assert root["link7"].builder is root["x"]
    assert_linear(opened, count)
