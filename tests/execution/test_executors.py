"""Whoever runs the tasks, the file is the same; whatever goes wrong in a worker is said and nothing half-done stays."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO, convert
from hdmf_zarr_backend.errors import UsageError, WriteError
from hdmf_zarr_backend.execution.executors import runner
from hdmf_zarr_backend.execution.tasks import cut
from hdmf_zarr_backend.model.nodes import ArrayNode
from hdmf_zarr_backend.storage.keys import LocalKeys

VALUES = np.random.default_rng(0).integers(-50, 50, (60_000, 16), dtype="i2")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@contextmanager
def executor(kind: Any) -> Iterator[Any]:
    if kind == "thread pool":
        with ThreadPoolExecutor(2) as pool:
            yield pool
    elif kind == "process pool":
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            yield pool
    elif kind == "dask":
        distributed = pytest.importorskip("distributed")
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
    else:
        yield kind


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("gzip", data=VALUES, chunks=(4096, 16), compression="gzip", shuffle=True)
        file.create_dataset("lzf", data=VALUES, chunks=(4096, 16), compression="lzf")
        file.create_dataset("contiguous", data=VALUES)
        file["text"] = ["a", "b"]
    return path


@pytest.mark.parametrize("codec", ["keep", True], ids=["kept", "recoded"])
@pytest.mark.parametrize("kind", ["threads", 2, "processes", "thread pool", "process pool", "dask"])
def test_a_conversion_is_the_same_key_by_key(hdf5: Path, tmp_path: Path, kind: Any, codec: Any) -> None:
    convert(hdf5, tmp_path / "serial.zarr", codec=codec, executor=None)
    with executor(kind) as who:
        convert(hdf5, tmp_path / "other.zarr", codec=codec, executor=who)
    expected = contents(tmp_path / "serial.zarr")
    assert contents(tmp_path / "other.zarr") == expected
    assert sum(key.startswith("gzip/") for key in expected) > 10


@pytest.mark.parametrize("kind", ["threads", "processes", "dask"])
def test_a_write_is_the_same_key_by_key(tmp_path: Path, kind: Any) -> None:
    def root() -> GroupBuilder:
        return GroupBuilder("root", datasets=[DatasetBuilder("a", VALUES), DatasetBuilder("b", VALUES[:, 0] * 2.5)])

    with ZarrIO(tmp_path / "serial.zarr", "w") as io:
        io.write_builder(root())
    with executor(kind) as who, ZarrIO(tmp_path / "other.zarr", "w") as io:
        io.write_builder(root(), executor=who)
    assert contents(tmp_path / "other.zarr") == contents(tmp_path / "serial.zarr")


def test_number_of_jobs_is_a_number_of_threads(tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", VALUES)]), number_of_jobs=2)
    with ZarrIO(tmp_path / "a.zarr", "r") as io:
        assert np.array_equal(io.read_builder()["a"].data[:], VALUES)


@pytest.mark.parametrize("kind", [None, "threads"])
def test_an_error_of_a_worker_is_raised_and_nothing_is_left(tmp_path: Path, kind: Any) -> None:
    hdf5 = tmp_path / "damaged.h5"
    with h5py.File(hdf5, "w") as file:
        data = file.create_dataset("a", data=VALUES, chunks=(4096, 16), compression="gzip")
        info = data.id.get_chunk_info(9)
    with hdf5.open("r+b") as raw:
        raw.seek(info.byte_offset)
        raw.write(b"\xff" * 64)
    with pytest.raises(Exception, match="/a"):
        convert(hdf5, tmp_path / "a.zarr", codec=True, executor=kind)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["damaged.h5"]


@dataclass
class Dying:
    """Kills its process."""

    path: str = "a"

    def run(self) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0


def test_a_killed_worker_is_reported() -> None:
    with pytest.raises(WriteError, match="a worker died"), runner("processes") as pool:
        list(pool.run([Dying(), Dying()]))


@dataclass
class Counting:
    running: list[int]

    def run(self) -> int:
        return len(self.running)


def test_tasks_are_submitted_in_a_bounded_window() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[Counting]:
        for number in range(100):
            taken.append(number)
            yield Counting([])

    with runner(2) as pool:
        results = pool.run(tasks())
        next(results)
        assert len(taken) <= 5
        assert len(list(results)) == 99


def test_tasks_hold_whole_chunks_of_the_target(tmp_path: Path) -> None:
    node: ArrayNode[Any] = ArrayNode(shape=(10, 7), chunks=(4, 3), data_type="<i2")
    tasks = list(cut(LocalKeys(str(tmp_path)), "a", node, object(), task_bytes=50))  # type: ignore[arg-type]
    indices = [index for task in tasks for index in task.indices]
    assert sorted(indices) == [(i, j) for i in range(3) for j in range(3)]
    assert len(set(indices)) == len(indices)
    assert all(len(task.indices) <= 2 for task in tasks)


@pytest.mark.parametrize("wrong", ["many", object(), -1, 0])
def test_other_executors_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError, match="executor"), runner(wrong):
        pass


def test_an_executor_of_the_user_is_not_shut_down() -> None:
    pool: Executor = ThreadPoolExecutor(1)
    with runner(pool):
        pass
    assert pool.submit(int, "7").result() == 7
    pool.shutdown()
