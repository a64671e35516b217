"""How tasks are run, whoever runs them: a window bounded in number and in bytes, order, what an executor may be."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from dataclasses import dataclass
from unittest.mock import Mock

import pytest

from hdmf_zarr_backend.errors import UsageError, WriteError
from hdmf_zarr_backend.write.tasks import runner


@dataclass
class Counting:
    nbytes: int = 0
    path: str = "a"

    def run(self) -> int:
        return self.nbytes


def test_tasks_are_submitted_in_a_bounded_window():
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
def test_large_tasks_wait_for_memory(nbytes, most):
    """Four workers and 100 bytes: a task holds three times its bytes while it runs."""
    with runner(4) as pool:
        seen = [found for _, found in pool.run([Sleeping(nbytes) for _ in range(20)], budget=100)]
    assert len(seen) == 20
    assert max(seen) <= most


def test_a_sink_waits_for_memory_and_tells_what_went_wrong():
    with runner(2) as pool:
        sink = pool.sink(100)
        for _ in range(30):
            sink.put(Sleeping(30))
        sink.flush()
        with pytest.raises(WriteError, match=r"by zero.*\(/b\)"):
            for _ in range(10):
                sink.put(Mock(nbytes=0, path="b", run=Mock(side_effect=ZeroDivisionError("by zero"))))
        sink.close()


def test_a_pool_that_was_shut_down_is_told():
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(WriteError, match=r"shutdown.*\(/a\)"), runner(pool) as who:
        list(who.run([Counting()]))


@pytest.mark.parametrize("wrong", ["many", object(), -1, 0])
def test_other_executors_are_refused(wrong):
    with pytest.raises(UsageError, match="executor"), runner(wrong):
        pass


class LateFuture(Future[int]):
    """Says that it has not ended when it is asked for the first time."""

    was_asked = False

    def done(self) -> bool:
        is_first, self.was_asked = not self.was_asked, True
        return not is_first and super().done()


class LatePool(Executor):
    """Runs each task at once; the second one is reported late."""

    _max_workers = 3

    def __init__(self) -> None:
        self.count = 0

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def, override]
        future = LateFuture() if self.count == 1 else Future()
        self.count += 1
        future.set_result(fn(*args, **kwargs))
        return future


def test_results_in_order_are_in_order_when_a_task_ends_while_another_is_looked_at():
    tasks = [Counting(number) for number in range(6)]
    with runner(LatePool()) as pool:
        assert [result for _, result in pool.run(tasks, in_order=True)] == [0, 1, 2, 3, 4, 5]
