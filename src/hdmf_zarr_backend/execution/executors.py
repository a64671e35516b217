"""Who runs the tasks: this thread, some threads, some processes, any executor, or a dask cluster.

Whatever it is, it is used through one function, `run_tasks`: a bounded window of submitted tasks, results as they
come, the first error raised after the rest was cancelled. So an executor is a few lines, and a user's own works as
well.

Source: issue "Fast, lean, and as wide as the machine or the cluster", part 6.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import (
    FIRST_COMPLETED,
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from hdmf_zarr_backend.errors import UsageError, WriteError

WINDOW = 2
"""Tasks that are submitted for each worker; more would only hold memory."""


class Task(Protocol):
    """Something to do."""

    def run(self) -> int:
        """Do it, and return the bytes that are done."""


T = TypeVar("T", bound=Task)


class Runner:
    """Runs tasks one after the other in this thread.

    Attributes
    ----------
    workers : int
        How many run at once.
    needs_pickle : bool
        Whether tasks go to other processes.
    """

    workers = 1
    needs_pickle = False

    def run(self, tasks: Iterable[T]) -> Iterator[tuple[T, int]]:
        """Yield each task with the bytes that it has done."""
        for task in tasks:
            yield task, task.run()


class PoolRunner(Runner):
    """Runs tasks in a pool.

    Parameters
    ----------
    pool : concurrent.futures.Executor
        Where to.
    workers : int
        How many run at once.
    needs_pickle : bool
        Whether the workers are other processes.
    """

    def __init__(self, pool: Executor, workers: int, *, needs_pickle: bool) -> None:
        self._pool = pool
        self.workers = workers
        self.needs_pickle = needs_pickle

    def run(self, tasks: Iterable[T]) -> Iterator[tuple[T, int]]:
        """Yield each task with the bytes that it has done, in the order in which they end.

        Raises
        ------
        WriteError
            A worker died.
        """
        running: dict[Future[int], T] = {}
        queue = iter(tasks)
        try:
            while True:
                while len(running) < WINDOW * self.workers and (task := next(queue, None)) is not None:
                    running[self._pool.submit(run_task, task)] = task
                if not running:
                    return
                for future in _first(running):
                    task = running.pop(future)
                    yield task, future.result()
        except BrokenExecutor as error:
            raise WriteError(
                f"a worker died ({error})",
                remedy="What was written is not complete; run again, with less memory per task if that was the reason.",
            ) from error
        finally:
            for future in running:
                future.cancel()
            wait(list(running))


def _first(running: Iterable[Future[int]]) -> list[Future[int]]:
    done = wait(list(running), return_when=FIRST_COMPLETED).done
    return sorted(done, key=lambda future: future.exception() is None)


def run_task(task: Task) -> int:
    """Run one task; a function of a module, so that it can be sent by name."""
    return task.run()


@contextmanager
def runner(executor: Any = None) -> Iterator[Runner]:
    """Give the runner that ``executor`` means, and end what was started for it.

    Parameters
    ----------
    executor : None, "serial", "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
        An integer is a number of threads.

    Raises
    ------
    UsageError
        It is none of these.
    """
    if executor is None or executor in ("serial", 1):
        yield Runner()
        return
    if isinstance(executor, Executor):
        processes = isinstance(executor, ProcessPoolExecutor) or not isinstance(executor, ThreadPoolExecutor)
        yield PoolRunner(executor, getattr(executor, "_max_workers", None) or _cpus(), needs_pickle=processes)
        return
    get_executor: Callable[..., Any] | None = getattr(executor, "get_executor", None)
    if get_executor is not None:  # a dask.distributed.Client, without importing dask to ask
        yield PoolRunner(get_executor(pure=False, retries=2), _dask_threads(executor), needs_pickle=True)
        return
    with _own_pool(executor) as (pool, workers, processes):
        yield PoolRunner(pool, workers, needs_pickle=processes)


@contextmanager
def _own_pool(executor: Any) -> Iterator[tuple[Executor, int, bool]]:
    workers = executor if isinstance(executor, int) and not isinstance(executor, bool) and executor > 1 else _cpus()
    pool: Executor
    if executor == "threads" or workers is executor:
        pool, processes = ThreadPoolExecutor(workers, thread_name_prefix="hdmf-zarr"), False
    elif executor == "processes":
        pool, processes = ProcessPoolExecutor(workers, mp_context=get_context("spawn")), True
    else:
        raise UsageError(
            f"executor {executor!r} is unknown",
            remedy='Give "threads", "processes", a number of threads, an Executor or a dask.distributed.Client.',
        )
    try:
        yield pool, workers, processes
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _dask_threads(client: Any) -> int:
    threads = client.nthreads()
    return max(1, sum(threads.values()) if isinstance(threads, dict) else int(threads))
