"""Tasks, the work of a write divided along the chunks of the target, and `runner`, which runs them.

A task consists of an array, some of its chunks and a source of values, and can be sent to another process if its source
can. Two tasks never share a chunk, so values are written correctly in any order. They are run in this thread, in
threads, in processes, in any executor, or on a dask cluster.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent import futures
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import compress, islice
from multiprocessing import get_context
from typing import Any, Generic, NoReturn, Protocol, TypeVar

import numpy as np

from hdmf_zarr_backend.array.chunks import fill_array
from hdmf_zarr_backend.array.shards import ShardWriter, chunks_in_shard, inner_grid, shard_grid
from hdmf_zarr_backend.encoding.chunk_codec import ChunkCodec, chunk_codec
from hdmf_zarr_backend.errors import StoreError, UsageError, WorkerLostError, WriteError, ZarrBackendError
from hdmf_zarr_backend.extras import install_command
from hdmf_zarr_backend.model.nodes import StoredArray, absolute, chunk_region, indices_of, join, lengths_of
from hdmf_zarr_backend.options import MEMORY_BUDGET
from hdmf_zarr_backend.store.base import Write, resource_failure
from hdmf_zarr_backend.store.remote import cpus
from hdmf_zarr_backend.store.transaction import Change
from hdmf_zarr_backend.write.sources import Array, ArraySource

Index = tuple[int, ...]

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

TASK_BYTES = 50 * 2**20  # the most bytes of values that one task handles; a memory budget may reduce it
HOLDS = 3  # a task holds up to this many copies of its values: as read, as converted, and encoded
WINDOW = 2  # tasks that are submitted for each worker; more would only take memory
# how long to wait for the answer of a scheduler, then for a worker, and for a task before workers are looked at
SECONDS = 15
# by the names of their classes, so that dask need not be imported
_DEATHS = frozenset({"BrokenExecutor", "BrokenProcessPool", "BrokenThreadPool", "KilledWorker", "CommClosedError"})


@dataclass(slots=True)
class ChunkTask:
    """Writes some chunks of an array, or one shard."""

    change: Change
    path: str
    array: StoredArray
    source: ArraySource
    indices: list[Index] = field(default_factory=list)  # of the chunks, or of the shard

    @property
    def nbytes(self) -> int:
        # A chunk is read, encoded and forgotten before the next one. Of a shard, the store may hold a part until it is
        # written.
        size = chunk_bytes(self.array)
        if self.array.shards is None:
            return len(self.indices) * size
        return size + self.change.reader.held_bytes(math.prod(inner_grid(self.array)) * size)

    def run(self) -> int:
        done = 0
        with task_on(self.change, self.path):
            codec = chunk_codec(self.array)
            for index in self.indices:
                key = join(self.path, self.array.chunk_name(index))
                if self.array.shards is not None:
                    with self.change.stream(key) as write:
                        done += encode_shard(self.array, self.source, index, write)
                    continue
                data, size = encode_chunk(self.array, codec, self.source, index)
                self.change.put(key, data)
                done += size
        return done


@dataclass(slots=True)
class ValuesTask:
    """Encodes one chunk whose values are in memory, and writes it."""

    change: Change
    path: str  # of the array
    codec: ChunkCodec
    chunk: Array
    put: Callable[[bytes], None]  # writes the encoded chunk

    @property
    def nbytes(self) -> int:
        return int(self.chunk.nbytes)

    def run(self) -> int:
        with task_on(self.change, self.path):
            self.put(self.codec.encode(self.chunk))
        return self.nbytes


@contextmanager
def task_on(change: Change, path: str) -> Iterator[None]:
    """End a task on an array after the block; errors of the block name the store and the array."""
    try:
        yield
        change.end_task()
    except ZarrBackendError as error:
        error.locate(change, path)
        raise
    except OSError as error:
        where = {"store": change.location, "path": absolute(path)}
        lack = resource_failure(error, "read or written", what="a chunk", **where)
        remedy = "The data written so far are incomplete; check the disk, and run again."
        raise lack or StoreError(f"a chunk could not be read or written ({error})", remedy=remedy, **where) from error


def encode_chunk(stored: StoredArray, codec: ChunkCodec, source: ArraySource, index: Index) -> tuple[bytes, int]:
    """Return the stored form of the chunk at ``index``, and the bytes of its values that are inside of the array."""
    region = region_of(stored, index)
    raw = source.encoded(index) if hasattr(source, "encoded") else None
    if raw is not None:  # the source has it in this form, and it is not decoded
        return raw, math.prod(lengths_of(region)) * codec.dtype.itemsize
    block = source.read(region)
    return codec.encode(whole_chunk(block, stored, codec.dtype)), block.nbytes


def region_of(stored: StoredArray, index: Index) -> tuple[slice, ...]:
    """Return the region of the array that the chunk at ``index`` holds."""
    return chunk_region(index, stored.chunks, stored.shape)


def whole_chunk(block: Array, stored: StoredArray, dtype: np.dtype[Any], shape: tuple[int, ...] | None = None) -> Array:
    """Return ``block`` as a chunk of full size (``shape``)."""
    # Zarr and HDF5 store chunks at the edge completely
    shape = stored.chunks if shape is None else shape
    if block.shape == shape:
        return np.ascontiguousarray(block)
    chunk = fill_array(stored, dtype, shape)
    chunk[tuple(slice(0, n) for n in block.shape)] = block
    return chunk


def chunk_bytes(stored: StoredArray) -> int:
    """Return the bytes of one chunk in memory."""
    return max(1, math.prod(stored.chunks) * chunk_codec(stored).dtype.itemsize)


def task_bytes_for(budget: int, workers: int) -> int:
    """Return the bytes of values of one task, so that those of all workers fit into a budget."""
    return max(1, min(TASK_BYTES, budget // (HOLDS * workers)))


def cut(
    array: ChunkTask, *, task_bytes: int = TASK_BYTES, to_send: bool = False, complete: Collection[str] = ()
) -> Iterator[ChunkTask]:
    """Yield the tasks that write all chunks of an array, one for each shard if it has shards."""
    stored, has_shards = array.array, array.array.shards is not None
    count = 1 if has_shards else max(1, task_bytes // chunk_bytes(stored))
    grid = indices_of(shard_grid(stored))  # that of the chunks, without shards
    if complete:
        grid = (index for index in grid if join(array.path, stored.chunk_name(index)) not in complete)
    while batch := list(islice(grid, count)):
        source: Any = array.source
        # the index of an HDF5 dataset may list millions of chunks, so only the part for these is sent
        if to_send and hasattr(source, "part"):
            chunks = chunks_in_shard(stored, batch[0]) if has_shards else batch
            source = source.part(region_of(stored, index) for index in chunks)
        yield replace(array, source=source, indices=batch)


def encode_shard(stored: StoredArray, source: ArraySource, shard: Index, write: Write) -> int:
    """Write the stored form of a shard, and return the bytes of its values that are inside of the array."""
    codec, writer, done = chunk_codec(stored), ShardWriter(write, stored), 0
    for index in chunks_in_shard(stored, shard):
        data, size = encode_chunk(stored, codec, source, index)
        writer.add(index, data)
        done += size
    writer.finish()
    return done


@contextmanager
def opened(executor: Any) -> Iterator[Any]:
    """Yield ``executor`` itself, or a client if it is the address of a dask scheduler: ``"tcp://host:8786"``."""
    if not isinstance(executor, str) or "://" not in executor:
        yield executor
        return
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host
    except ModuleNotFoundError as error:
        remedy = f"Install it with: {install_command('dask')}"
        raise UsageError("a dask scheduler needs the library distributed", remedy=remedy) from error
    try:  # Client refuses it too, and leaves a half-open client that can stop the next one when it is collected
        get_address_host(executor)
    except ValueError as error:
        problem = f"{executor!r} is not an address of a dask scheduler ({error})"
        raise UsageError(problem, remedy="Use one such as tcp://host:8786.") from error
    connect: Any = Client  # its annotations are not complete in every release
    try:
        client = connect(executor, timeout=SECONDS, set_as_default=False)
    except (OSError, TimeoutError) as error:
        problem = f"the dask scheduler at {executor} does not answer within {SECONDS} s"
        raise WorkerLostError(problem, remedy="Check that it runs, and that the address is right.") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=SECONDS)
        except TimeoutError as error:
            problem = f"the dask scheduler at {executor} has no workers"
            raise WorkerLostError(problem, remedy="Start some with: dask worker ADDRESS.") from error
        yield client


def _check_paused(client: Any) -> None:
    """Refuse to wait for the workers of a dask cluster if all are paused, which begin no task, and none has one."""
    workers = client.scheduler_info()["workers"].values()
    counts = [each["metrics"].get("task_counts", each["metrics"]) for each in workers]  # by the release of dask
    is_idle = not any(count.get("executing") for count in counts)
    if workers and is_idle and all(each["status"] == "paused" for each in workers):
        problem = "all workers of the cluster are paused for lack of memory: each needs 256 MB or more (--memory-limit)"
        raise WorkerLostError(problem, remedy="Start workers with more memory, and run again.")


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
    """Runs tasks in a pool; without one, one after the other in this thread."""

    # Any `concurrent.futures.Executor` is a pool. For something else, write another `run`, which yields each task
    # with its result, limits the number of running tasks, and raises the first error after it has cancelled the rest.

    def __init__(self, pool: futures.Executor | None = None, workers: int = 1, *, needs_pickle: bool = False) -> None:
        self._pool = pool
        self.workers = workers  # the number of tasks that run at once
        self.needs_pickle = needs_pickle  # whether tasks are sent to other processes

    def run(
        self, tasks: Iterable[Task[R]], *, budget: int = MEMORY_BUDGET, in_order: bool = False
    ) -> Iterator[tuple[Task[R], R]]:
        """Yield each task with its result, as they come or in order; after the first error, the rest is cancelled."""
        if self._pool is None:
            yield from ((task, task.run()) for task in tasks)
            return
        window: Sink[R] = Sink(self._pool, self.workers, budget)
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

    def sink(self, budget: int) -> Sink[Any]:
        """Return a sink for tasks that are created one by one, with values of this thread."""
        # values are not copied to another process
        return Sink(None if self.needs_pickle else self._pool, self.workers, budget)


class Sink(Generic[R]):
    """The tasks that are submitted and whose results were not returned yet; without a pool, each runs as it comes."""

    def __init__(self, pool: Any = None, workers: int = 1, budget: int = MEMORY_BUDGET) -> None:
        self._pool = pool
        self.is_later = pool is not None  # a task may run after `put` has returned, so that its values must not change
        self._workers = workers
        self._budget = budget
        self._cost = 0
        self.running: deque[tuple[futures.Future[R], Task[R]]] = deque()

    def _cost_of(self, task: Task[R]) -> int:
        """Return what a task takes from the budget."""
        # Half of what it holds while it runs, if one for each worker fits twice: of two tasks that are submitted for a
        # worker, only one runs.
        held = HOLDS * task.nbytes
        return held // WINDOW if held <= self._budget // self._workers else held

    def accepts(self, task: Task[R]) -> bool:
        """Return whether a task may be submitted now."""
        fits = self._cost + self._cost_of(task) <= self._budget
        return not self.running or (len(self.running) < WINDOW * self._workers and fits)

    def submit(self, task: Task[R]) -> None:
        """Give a task to the pool."""
        try:
            future = self._pool.submit(run_task, task)
        except RuntimeError as error:  # BrokenExecutor, or a pool that was shut down
            _raise(error, task)
        self.running.append((future, task))
        self._cost += self._cost_of(task)

    def finished(self, *, in_order: bool) -> Iterator[tuple[Task[R], R]]:
        """Wait for at least one task, and yield those that have ended; raise the error of one that failed."""
        waiting = [future for future, _ in self.running][: 1 if in_order else None]
        client = getattr(self._pool, "_client", None)  # of dask, whose workers may never begin
        while not futures.wait(waiting, SECONDS if client else None, futures.FIRST_COMPLETED).done:
            _check_paused(client)
        # each future is asked once: between two questions another one may end, and its place in the order be taken
        ended = [future.done() for future, _ in self.running]
        done = list(compress(self.running, ended))
        for future, task in done:
            error = futures.CancelledError() if future.cancelled() else future.exception()
            if error is not None:
                _raise(error, task)
        if in_order:
            done = done[: [*ended, False].index(False)]
        for pair in done:
            self.running.remove(pair)
            self._cost -= self._cost_of(pair[1])
        # one by one, so that a result is freed once it was taken
        while done:
            future, task = done.pop(0)
            yield task, future.result()

    def put(self, task: Task[R]) -> None:
        """Run a task, now or later; wait if the memory budget requires it."""
        if self._pool is None:
            task.run()
            return
        while not self.accepts(task):
            deque(self.finished(in_order=False), maxlen=0)
        self.submit(task)

    def flush(self) -> None:
        """Wait until all tasks are done."""
        while self.running:
            deque(self.finished(in_order=False), maxlen=0)

    def close(self) -> None:
        """Cancel what has not begun, and wait for the rest."""
        # waits for what runs in threads and processes, so that nothing is written after an error was raised. What is
        # cancelled is not waited for: dask never tells of a task that ended at this moment, and may still write one
        futures.wait([future for future, _ in self.running if not future.cancel()])


def _raise(error: BaseException, task: Task[Any]) -> NoReturn:
    """Raise the error of a task: as an error of this package, which names the node."""
    if isinstance(error, (ZarrBackendError, KeyboardInterrupt, SystemExit)):
        raise error
    path = absolute(task.path)
    kind = type(error).__name__
    if kind in _DEATHS or isinstance(error, futures.CancelledError):
        remedy = "The data written so far are incomplete; run again, with a smaller memory_budget if memory ran out."
        raise WorkerLostError(f"a worker died ({kind}: {error})", path=path, remedy=remedy) from error
    remedy = "The data written so far are incomplete; run again."
    raise WriteError(f"a worker failed ({kind}: {error})", path=path, remedy=remedy) from error


def run_task(task: Task[R]) -> R:
    """Run one task; a function with a name, by which dask shows it, and that every pool can pickle."""
    return task.run()


@contextmanager
def runner(executor: Any = None) -> Iterator[Runner]:
    """Yield the runner for an ``executor`` argument, and shut down what was started for it."""
    with opened(executor) as given:
        if given is None or given in ("auto", "serial", 1):
            yield Runner()
        elif isinstance(given, futures.Executor):
            workers = getattr(given, "_max_workers", None) or cpus()
            yield Runner(given, workers, needs_pickle=not isinstance(given, futures.ThreadPoolExecutor))
        elif hasattr(given, "get_executor"):  # a dask.distributed.Client, without importing dask
            # not pure: dask would run equal tasks once, and return the result of the first for the second
            workers = max(1, sum(given.nthreads().values()))
            yield Runner(given.get_executor(pure=False, retries=2), workers, needs_pickle=True)
        else:
            is_number = isinstance(given, int) and not isinstance(given, bool) and given > 1
            workers = given if is_number else cpus()
            pool: futures.Executor
            if is_number or given == "threads":
                pool = futures.ThreadPoolExecutor(workers, thread_name_prefix="hdmf-zarr")
            elif given == "processes":
                # a fork of a process with threads may hold a lock forever
                pool = futures.ProcessPoolExecutor(workers, mp_context=get_context("spawn"))
            else:
                known = '"threads", "processes", a number of threads, an Executor, a dask.distributed.Client'
                raise UsageError(f"executor {given!r} is unknown", remedy=f'Give {known} or "tcp://...".')
            try:
                yield Runner(pool, workers, needs_pickle=given == "processes")
            finally:
                pool.shutdown(wait=True, cancel_futures=True)
