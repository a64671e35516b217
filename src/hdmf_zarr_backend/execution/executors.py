"""`runner`: runs tasks in this thread, in threads, in processes, in any executor, or on a dask cluster.

Callers use one method, `Runner.run`: it bounds the submitted tasks in number and in bytes, yields results as they come
or in order, and raises the first error after it has cancelled the rest. So an executor takes a few lines, and users can
pass their own.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from typing import Any, Generic, NoReturn, Protocol, TypeVar

from hdmf_zarr_backend.arrays.plug_ins import register_plug_ins, registered_plug_ins
from hdmf_zarr_backend.errors import UsageError, WorkerLostError, WriteError, ZarrBackendError
from hdmf_zarr_backend.execution.tasks import HOLDS
from hdmf_zarr_backend.extras import install_command
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.options import MEMORY_BUDGET

SECONDS = 15
"""How long to wait for the answer of a scheduler, and then for a worker."""


@contextmanager
def opened(executor: Any) -> Iterator[Any]:
    """Yield ``executor`` itself, or a client if it is the address of a dask scheduler: ``"tcp://host:8786"``."""
    if not isinstance(executor, str) or "://" not in executor:
        yield executor
        return
    address = executor
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        remedy = f"Install it with: {install_command('dask')}"
        raise UsageError("a dask scheduler needs the library distributed", remedy=remedy) from error
    connect: Any = Client  # its annotations are not complete in every release
    try:
        client = connect(address, timeout=SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise WorkerLostError(
            f"the dask scheduler at {address} does not answer within {SECONDS} s",
            remedy="Check that it runs, and that the address is right.",
        ) from error
    except ValueError as error:  # an unknown protocol
        raise UsageError(
            f"{address!r} is not an address of a dask scheduler ({error})", remedy="Use one such as tcp://host:8786."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=SECONDS)
        except TimeoutError as error:
            raise WorkerLostError(
                f"the dask scheduler at {address} has no workers", remedy="Start some with: dask worker ADDRESS."
            ) from error
        yield client


WINDOW = 2
"""Tasks that are submitted for each worker; more would only take memory."""

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Task(Protocol[R_co]):
    """A part of the work on one array."""

    @property
    def path(self) -> str:
        """Path of the array, in the model's spelling."""

    @property
    def nbytes(self) -> int:
        """Bytes of the values that it handles; 0 if they are negligible."""

    def run(self) -> R_co:
        """Do the work, and return its result, such as the bytes that were written."""


class Runner:
    """Runs tasks in a pool; without one, one after the other in this thread.

    Attributes
    ----------
    workers : int
        Number of tasks that run at once.
    needs_pickle : bool
        Whether tasks are sent to other processes.
    """

    def __init__(self, pool: Executor | None = None, workers: int = 1, *, needs_pickle: bool = False) -> None:
        self._pool = pool
        self.workers = workers
        self.needs_pickle = needs_pickle

    def run(
        self, tasks: Iterable[Task[R]], *, budget: int = MEMORY_BUDGET, in_order: bool = False
    ) -> Iterator[tuple[Task[R], R]]:
        """Yield each task with its result."""
        if self._pool is None:
            yield from ((task, task.run()) for task in tasks)
            return
        window: _Window[R] = _Window(self._pool, self.workers, budget, needs_pickle=self.needs_pickle)
        queue = iter(tasks)
        waiting = next(queue, None)
        try:
            while waiting is not None or window.running:
                while waiting is not None and window.accepts(waiting):
                    window.submit(waiting)
                    waiting = next(queue, None)
                yield from window.finished(in_order=in_order)
        finally:
            window.close()

    def sink(self, budget: int = MEMORY_BUDGET) -> Sink:
        """Return a sink for tasks that are created one by one, with values of this thread.

        It submits to the pool, unless values would have to be copied to another process.
        """
        if self._pool is None or self.needs_pickle:
            return Sink()
        return _Window(self._pool, self.workers, budget)


class Sink:
    """Runs each task as it comes.

    Attributes
    ----------
    is_later : bool
        Whether a task may run after `put` has returned, so that its values must not change.
    """

    is_later = False

    def put(self, task: Task[Any]) -> None:
        """Run a task, now or later; wait if the memory budget requires it."""
        task.run()

    def flush(self) -> None:
        """Wait until all tasks are done."""

    def close(self) -> None:
        """Cancel what has not begun, and wait for the rest."""


class _Window(Sink, Generic[R]):
    """The tasks that are submitted and whose results were not returned yet."""

    is_later = True

    def __init__(self, pool: Executor, workers: int, budget: int, *, needs_pickle: bool = False) -> None:
        self._pool = pool
        self._plug_ins = _sendable_plug_ins() if needs_pickle else {}
        self._workers = workers
        self._budget = budget
        self._cost = 0
        self.running: deque[tuple[Future[R], Task[R]]] = deque()

    def _cost_of(self, task: Task[R]) -> int:
        """Return the cost of a task: half of what it holds while it runs, if one for each worker fits twice."""
        held = HOLDS * task.nbytes
        return held // WINDOW if held <= self._budget // self._workers else held

    def accepts(self, task: Task[R]) -> bool:
        fits = self._cost + self._cost_of(task) <= self._budget
        return not self.running or (len(self.running) < WINDOW * self._workers and fits)

    def submit(self, task: Task[R]) -> None:
        try:
            future = self._pool.submit(run_task, task, self._plug_ins)
        except RuntimeError as error:  # BrokenExecutor, or a pool that was shut down
            _raise(error, task)
        self.running.append((future, task))
        self._cost += self._cost_of(task)

    def finished(self, *, in_order: bool) -> Iterator[tuple[Task[R], R]]:
        """Wait for at least one task, and yield those that have ended; raise the error of one that failed."""
        futures = [future for future, _ in self.running]
        wait(futures[:1] if in_order else futures, return_when=FIRST_COMPLETED)
        done = [(future, task) for future, task in self.running if future.done()]
        for future, task in done:
            error = CancelledError() if future.cancelled() else future.exception()
            if error is not None:
                _raise(error, task)
        if in_order:
            done = done[: next((n for n, (future, _) in enumerate(self.running) if not future.done()), len(done))]
        for pair in done:
            self.running.remove(pair)
            self._cost -= self._cost_of(pair[1])
        while done:
            future, task = done.pop(0)
            yield task, future.result()

    def put(self, task: Task[R]) -> None:
        while not self.accepts(task):
            deque(self.finished(in_order=False), maxlen=0)
        self.submit(task)

    def flush(self) -> None:
        while self.running:
            deque(self.finished(in_order=False), maxlen=0)

    def close(self) -> None:
        """Cancel what has not begun, and wait for the rest: nothing is written after an error was raised."""
        futures = [future for future, _ in self.running]
        for future in futures:
            future.cancel()
        wait(futures)


def _raise(error: BaseException, task: Task[Any]) -> NoReturn:
    """Raise the error of a task: as an error of this package, which names the node."""
    if isinstance(error, (ZarrBackendError, KeyboardInterrupt, SystemExit)):
        raise error
    path = absolute(task.path)
    kind = type(error).__name__
    if kind in _DEATHS or isinstance(error, CancelledError):
        raise WorkerLostError(
            f"a worker died ({kind}: {error})",
            path=path,
            remedy="The data written so far are incomplete; run again, with less memory per task if that was why.",
        ) from error
    raise WriteError(
        f"a worker failed ({kind}: {error})", path=path, remedy="The data written so far are incomplete; run again."
    ) from error


_DEATHS = frozenset({"BrokenExecutor", "BrokenProcessPool", "BrokenThreadPool", "KilledWorker", "CommClosedError"})
"""Names of their classes, so that dask need not be imported."""


def run_task(task: Task[R], plug_ins: Mapping[str, Any]) -> R:
    """Run one task; at module level, so that it can be pickled. ``plug_ins`` are codecs that its process may lack."""
    register_plug_ins(plug_ins)
    return task.run()


def _sendable_plug_ins() -> dict[str, Any]:
    """Return the codecs of other packages that are registered here and that another process can import."""
    found: dict[str, Any] = {}
    for codec_id, codec_class in registered_plug_ins().items():
        with suppress(pickle.PicklingError, AttributeError, TypeError):  # a class inside a function
            pickle.dumps(codec_class)
            found[codec_id] = codec_class
    return found


@contextmanager
def runner(executor: Any = None) -> Iterator[Runner]:
    """Yield the runner for an ``executor`` argument, and shut down what was started for it."""
    with opened(executor) as given:
        if given is None or given in ("auto", "serial", 1):
            yield Runner()
        elif isinstance(given, Executor):
            workers = getattr(given, "_max_workers", None) or _cpus()
            yield Runner(given, workers, needs_pickle=not isinstance(given, ThreadPoolExecutor))
        elif hasattr(given, "get_executor"):  # a dask.distributed.Client, without importing dask
            workers = max(1, sum(given.nthreads().values()))
            yield Runner(given.get_executor(pure=False, retries=2), workers, needs_pickle=True)
        else:
            pool, workers = _own_pool(given)
            try:
                yield Runner(pool, workers, needs_pickle=given == "processes")
            finally:
                pool.shutdown(wait=True, cancel_futures=True)


def _own_pool(executor: Any) -> tuple[Executor, int]:
    workers = executor if isinstance(executor, int) and not isinstance(executor, bool) and executor > 1 else _cpus()
    if executor == "threads" or workers is executor:
        return ThreadPoolExecutor(workers, thread_name_prefix="hdmf-zarr"), workers
    if executor == "processes":
        return ProcessPoolExecutor(workers, mp_context=get_context("spawn")), workers
    raise UsageError(
        f"executor {executor!r} is unknown",
        remedy='Give "threads", "processes", a number of threads, an Executor, a dask.distributed.Client or "tcp://...".',
    )


def _cpus() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
