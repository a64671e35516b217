"""A process that has no memory or no file descriptors left: the error says that, and not that a file is damaged."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert, repair, upgrade, verify
from hdmf_zarr_backend.errors import ResourceError
from tests import trees
from tests.descriptors import few_open_files

ROOT = Path(__file__).parents[2]


def write(path: Path, **options: Any) -> Path:
    data = ZarrDataIO(np.arange(40.0), chunks=(10,), maxshape=(None,))
    root = trees.root(trees.dataset("x", data), trees.dataset("words", ["a", "b"]))
    return Path(trees.write_builder(path, root, **options))


def _edited(path: Path) -> None:
    with ZarrIO(path, "r+") as io:
        io.read_builder()["x"].data.append([1.0])


ACTS: dict[str, Callable[[Path], Any]] = {
    "open": lambda folder: trees.read_builder(folder / "a.zarr"),
    "open a zip file": lambda folder: trees.read_builder(folder / "a.zarr.zip"),
    "change": lambda folder: _edited(folder / "a.zarr"),
    "write": lambda folder: write(folder / "new.zarr"),
    "to HDF5": lambda folder: convert(folder / "a.zarr", folder / "new.h5", overwrite=True),
    "from HDF5": lambda folder: convert(folder / "a.h5", folder / "from.zarr", overwrite=True),
    "verify": lambda folder: verify(folder / "a.zarr"),
    "repair": lambda folder: repair(folder / "a.zarr"),
    "upgrade": lambda folder: upgrade(folder / "b.zarr"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("a.zarr", "a.zarr.zip", "b.zarr"):
        write(tmp_path / name)
    convert(tmp_path / "a.zarr", tmp_path / "a.h5")
    return tmp_path


@pytest.mark.parametrize("name", ACTS)
def test_too_many_open_files_are_named(name: str, folder: Path) -> None:
    ACTS["write"](folder)  # loads what is needed
    ACTS["verify"](folder)
    ACTS["from HDF5"](folder)
    with few_open_files(0), pytest.raises(ResourceError) as caught:
        ACTS[name](folder)
    assert "too many files are open" in str(caught.value)
    assert "ulimit -n" in str(caught.value)
    assert "damaged" not in str(caught.value)
    ACTS[name](folder)  # nothing is wrong with the files


@pytest.mark.parametrize("suffix", ["zarr", "h5"])
def test_too_many_open_files_while_values_are_read(suffix: str, folder: Path) -> None:
    if suffix == "h5":
        (folder / "a.zarr").rename(folder / "c.zarr")
    source = folder / ("c.zarr" if suffix == "h5" else "a.zarr")
    with ZarrIO(source) as io:
        data = io.read_builder()["x"].data
        with few_open_files(0), pytest.raises(ResourceError, match="too many files are open") as caught:
            data[5:25]
        assert caught.value.path == "/x"
        assert data[5:25].tolist() == list(range(5, 25))


_SHORT = """
import mmap, os, resource, sys
from pathlib import Path
import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import OutOfMemoryError

values = np.random.default_rng(0).integers(0, 2**40, 2**17)

def write():
    with ZarrIO({}, "w") as io:
        wrapped = ZarrDataIO(values, chunks=(2**17,))
        io.write_builder(GroupBuilder("root", datasets={"x": DatasetBuilder("x", wrapped)}))

def attempt(act, extra):
    limit = int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    held = []
    for size in (2**20, 2**16, 2**12, 256):
        try:
            while True:
                held.append(bytearray(size))
        except MemoryError:
            pass
    held = held[:-400]
    resource.setrlimit(resource.RLIMIT_AS, (limit + extra, resource.RLIM_INFINITY))
    try:
        act()
    except (OutOfMemoryError, MemoryError) as error:
        text = str(error)
        os._exit(4 if "damaged" in text or "Restore" in text else 3)
    os._exit(0)

with ZarrIO(sys.argv[1]) as io:
    data = io.read_builder()["x"].data
    data[:5]
    write(), data[:]
    for act in (lambda: data[:], write):
        for extra in (0, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 16, 64):
            pid = os.fork()
            if not pid:
                os.close(2)
                attempt(act, int(extra * 2**20))
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the memory that is left is measured as on Linux")
def test_a_lack_of_memory_is_an_error_and_no_crash(tmp_path: Path) -> None:
    """c-blosc crashes when it gets no memory for its blocks."""
    data = ZarrDataIO(np.arange(2**17), chunks=(2**17,))
    path = trees.write_builder(tmp_path / "a.zarr", trees.root(trees.dataset("x", data)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _SHORT, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    ends = list(map(int, done.stdout.split()))
    assert len(ends) == 22
    assert set(ends) <= {0, 3}, ends
