"""How tasks are run, whoever runs them: a window bounded in number and in bytes, order, what an executor may be."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.errors import UsageError, WriteError
from hdmf_zarr_backend.execution.executors import runner
from hdmf_zarr_backend.execution.tasks import ArrayWrite, cut
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.stores.local import LocalStore

VALUES = np.random.default_rng(0).integers(-50, 50, (60_000, 16), dtype="i2")


def test_number_of_jobs_is_a_number_of_threads(tmp_path: Path) -> None:
    with ZarrIO(tmp_path / "a.zarr", "w", write_options=WriteOptions(executor=2)) as io:
        io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("a", VALUES)]))
    with ZarrIO(tmp_path / "a.zarr", "r") as io:
        assert np.array_equal(io.read_builder()["a"].data[:], VALUES)


@dataclass
class Counting:
    nbytes: int = 0
    path: str = "a"

    def run(self) -> int:
        return self.nbytes


def test_tasks_are_submitted_in_a_bounded_window() -> None:
    taken: list[int] = []

    def tasks() -> Iterator[Counting]:
        for number in range(100):
            taken.append(number)
            yield Counting()

    with runner(2) as pool:
        results = pool.run(tasks())
        next(results)
        assert len(taken) <= 5
        assert len(list(results)) == 99


@dataclass
class Sleeping:
    """Tells how many of its like are at work."""

    nbytes: int
    path: str = "a"

    def run(self) -> int:
        with _lock:
            _at_work.append(1)
            seen = len(_at_work)
        time.sleep(0.01)
        with _lock:
            _at_work.pop()
        return seen


_lock = threading.Lock()
_at_work: list[int] = []


@pytest.mark.parametrize(("nbytes", "most"), [(10, 4), (25, 1), (13, 2), (1000, 1)])
def test_large_tasks_wait_for_memory(nbytes: int, most: int) -> None:
    """Four workers and 100 bytes: a task holds three times its bytes while it runs."""
    with runner(4) as pool:
        seen = [found for _, found in pool.run([Sleeping(nbytes) for _ in range(20)], budget=100)]
    assert len(seen) == 20
    assert max(seen) <= most


@pytest.mark.parametrize("kind", [None, "threads", 3])
def test_results_come_in_order_if_that_is_wanted(kind: Any) -> None:
    tasks = [Counting(number) for number in range(50)]
    with runner(kind) as pool:
        assert [result for _, result in pool.run(tasks, in_order=True)] == list(range(50))
        assert sorted(result for _, result in pool.run(tasks)) == list(range(50))


def test_a_sink_waits_for_memory_and_tells_what_went_wrong() -> None:
    with runner(2) as pool:
        sink = pool.sink(100)
        for _ in range(30):
            sink.put(Sleeping(30))
        sink.flush()
        with pytest.raises(WriteError, match=r"by zero.*\(/b\)"):
            for _ in range(10):
                sink.put(Raising())
        sink.close()


@dataclass
class Raising:
    nbytes: int = 0
    path: str = "b"

    def run(self) -> int:
        raise ZeroDivisionError("by zero")


def test_a_pool_that_was_shut_down_is_told() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(WriteError, match=r"shutdown.*\(/a\)"), runner(pool) as who:
        list(who.run([Counting()]))


def test_tasks_hold_whole_chunks_of_the_target(tmp_path: Path) -> None:
    node: StoredArray = StoredArray(shape=(10, 7), chunks=(4, 3), data_type="<i2")
    tasks = list(cut(ArrayWrite(LocalStore(str(tmp_path)), "a", node, object()), task_bytes=50))  # type: ignore[arg-type]
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
