"""A worker that raises, or is killed: one error of ours that names the node, and nothing at the target."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from hdmf_zarr_backend import WriteOptions, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.errors import ChunkError, StoreError, WorkerLostError, WriteError
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.write.tasks import runner
from tests import trees
from tests.execution.conftest import KINDS, dask_client
from tests.places import stored_files
from tests.smallfiles import hdf5_dataset

Find = Callable[[Any], Any]
VALUES = np.random.default_rng(0).integers(-50, 50, (400_000, 16), dtype="i2")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("kind", [None, *KINDS])
def test_a_damaged_chunk_of_hdf5(executors, tmp_path, kind):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("group/x", data=VALUES, chunks=(8192, 16), compression="gzip")
        info = data.id.get_chunk_info(9)
    with (tmp_path / "a.h5").open("r+b") as raw:
        raw.seek(info.byte_offset)
        raw.write(b"\xff" * 64)
    options = WriteOptions(executor=executors(kind))
    with pytest.raises(ChunkError, match=r"a\.h5: .*\(/group/x\)"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr", codec=True, write_options=options)
    assert names(tmp_path) == ["a.h5"]


class Unmoved(Executor):
    """Fails at its first task, and never tells of the others what became of them, as dask does at times."""

    _max_workers = 2

    def __init__(self) -> None:
        self.futures: list[Future[Any]] = []
        self.tasks: list[tuple[Any, tuple[Any, ...]]] = []

    def submit(self, function: Any, /, *arguments: Any, **options: Any) -> Future[Any]:
        self.futures.append(Future())
        self.tasks.append((function, arguments))
        if len(self.futures) == 1:
            self.futures[0].set_exception(ValueError("no more"))
        return self.futures[-1]


def test_an_error_does_not_wait_for_tasks_that_are_cancelled(tmp_path):
    executor = Unmoved()
    hdf5_dataset(tmp_path / "a.h5", "x", data=VALUES, chunks=(8192, 16), compression="gzip")
    options = WriteOptions(executor=executor, memory_budget=4_000_000)
    with ThreadPoolExecutor(1) as pool:
        conversion = pool.submit(convert, tmp_path / "a.h5", tmp_path / "a.zarr", codec=True, write_options=options)
        assert isinstance(conversion.exception(timeout=60), WriteError)
    assert len(executor.futures) > 1
    assert all(each.cancelled() for each in executor.futures[1:])
    for function, arguments in executor.tasks[1:]:
        with pytest.raises(StoreError):  # one that runs all the same, as those of dask do
            function(*arguments)
    assert names(tmp_path) == ["a.h5"]


@pytest.mark.parametrize("kind", [None, *KINDS])
@pytest.mark.parametrize("target", ["b.zarr", "b.h5"])
def test_a_damaged_chunk_of_zarr(executors, tmp_path, kind, target):
    x = trees.dataset("x", ZarrDataIO(VALUES, chunks=(8192, 16)))
    path = trees.write_builder(tmp_path / "a.zarr", trees.root(trees.group("group", x)))
    damaged = path / "group/x/7.0"
    damaged.write_bytes(damaged.read_bytes()[:-100])
    options = WriteOptions(executor=executors(kind))
    with pytest.raises(ChunkError, match=r"a\.zarr: .*\(/group/x\)"):
        if target.endswith(".h5"):
            convert(path, tmp_path / target, write_options=options)
        else:
            with ZarrIO(path, "r") as source, ZarrIO(tmp_path / target, "w", write_options=options) as io:
                io.export(source)
    assert names(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize(("compressor", "damage"), [
    ({"id": "zlib", "level": 1}, lambda data: b"no zlib" + data),
    ({"id": "zlib", "level": 1}, lambda data: b""),
    (False, lambda data: data[:-1]),
])  # fmt: skip
def test_a_chunk_that_is_copied_as_it_is_has_to_be_one(tmp_path, compressor, damage):
    """Chunks that HDF5 takes as they are are not decoded; what cannot be a chunk is found all the same."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        options = {"compression": "gzip", "compression_opts": 1} if compressor else {}
        file.create_dataset("x", data=VALUES, chunks=(8192, 16), **options)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr")
    damaged = tmp_path / "a.zarr/x/7.0"
    damaged.write_bytes(damage(damaged.read_bytes()))
    with pytest.raises(ChunkError, match=r"a\.zarr: .*chunk '7.0 \[57344:65536, 0:16\]'.*\(/x\)"):
        convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert names(tmp_path) == ["a.h5", "a.zarr"]


class Failing(np.ndarray[Any, Any]):
    """Data of a user that cannot be read to the end."""

    error: Exception

    def __getitem__(self, key: Any) -> Any:
        first = key[0] if isinstance(key, tuple) else key
        if isinstance(first, slice) and first.stop is not None and first.stop > 100_000:
            raise self.error
        return np.asarray(self)[key]


@pytest.mark.parametrize(
    ("error", "expected"), [(ZeroDivisionError("by zero"), WriteError), (OSError(5, "worn out"), StoreError)]
)
def test_whatever_a_worker_raises_is_told_with_the_node(tmp_path, error, expected):
    values = VALUES.view(Failing)
    values.error = error
    tree = trees.root(trees.dataset("x", ZarrDataIO(values, chunks=(8192, 16))))
    with pytest.raises(expected, match=rf"{error.args[-1]}.*\(/x\)") as caught:
        trees.write_builder(tmp_path / "a.zarr", tree, write_options=WriteOptions(executor=2))
    assert caught.value.__cause__ is error
    assert names(tmp_path) == []


@dataclass
class Dying:
    path: str = "group/x"
    nbytes: int = 0

    def run(self) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


class Killer(Progress):
    """Kills a worker when the first bytes are told."""

    def __init__(self, pids: Callable[[], list[int]]) -> None:
        self._pids = pids
        self.killed: list[int] = []

    def advance(self, path: str, done: int) -> None:
        if path == "/group/x" and done and not self.killed:
            self.killed = self._pids()[:1]
            os.kill(self.killed[0], signal.SIGKILL)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    hdf5_dataset(folder / "a.h5", "group/x", data=VALUES, chunks=(1024, 16), compression="gzip", compression_opts=9)
    convert(folder / "a.h5", folder / "a.zarr", codec={"id": "zlib", "level": 1})
    return folder


def turned(folder: Path, target: Path, executor: Any, progress: Progress) -> None:
    source = folder / ("a.h5" if target.suffix == ".zarr" else "a.zarr")
    codec: Any = {"codec": {"id": "zlib", "level": 9}} if target.suffix == ".zarr" else {}
    options = WriteOptions(executor=executor, memory_budget=500_000, progress=progress)
    convert(source, target, write_options=options, **codec)


@pytest.mark.parametrize("target", ["b.zarr", "b.h5"])
def test_a_process_that_is_killed_at_work(large, tmp_path, target):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        killer = Killer(lambda: list(pool._processes))
        with pytest.raises(WorkerLostError, match=r"a worker died.*\(/group/x\)"):
            turned(large, tmp_path / target, pool, killer)
    assert killer.killed
    assert all(name.startswith(".") for name in names(tmp_path))  # what a conversion may be resumed from, if anything


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    with ExitStack() as stack:
        yield dask_client(stack)


@pytest.mark.parametrize("target", ["b.zarr", "b.h5"])
def test_what_a_worker_of_dask_had_begun_is_done_by_another(large, tmp_path, dask, target):
    killer = Killer(lambda: list(dask.run(os.getpid).values()))
    turned(large, tmp_path / target, dask, killer)
    assert killer.killed
    turned(large, tmp_path / f"serial-{target}", None, Progress())
    if target.endswith(".h5"):
        assert (tmp_path / target).read_bytes() == (tmp_path / f"serial-{target}").read_bytes()
    else:
        assert stored_files(tmp_path / target) == stored_files(tmp_path / f"serial-{target}")


@pytest.mark.parametrize("kind", ["processes", "dask"])
def test_work_that_kills_every_worker_is_given_up(kind, request):
    executor = request.getfixturevalue("dask") if kind == "dask" else kind
    with pytest.raises(WorkerLostError, match=r"a worker died.*\(/group/x\)"), runner(executor) as pool:
        list(pool.run([Dying(), Dying()]))
