"""Every kind of executor, made once for the tests of a module."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from typing import Any

import pytest

KINDS = ["threads", 2, "processes", "thread pool", "process pool", "dask"]


def dask_client(stack: ExitStack) -> Any:
    """Return a client of a cluster of two worker processes; they are separate processes, as on a real cluster."""
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", silence_logs=50,
        scheduler_kwargs={"allowed_failures": 1},  # each is a process that has to start
    )  # fmt: skip
    return stack.enter_context(distributed.Client(stack.enter_context(cluster)))


@pytest.fixture(scope="module")
def executors() -> Iterator[Callable[[Any], Any]]:
    """What `executor=` takes, by the words of `KINDS`."""
    made: dict[Any, Any] = {}
    with ExitStack() as stack:

        def find(kind: Any) -> Any:
            if kind not in made:
                if kind == "thread pool":
                    made[kind] = stack.enter_context(ThreadPoolExecutor(2))
                elif kind == "process pool":
                    made[kind] = stack.enter_context(ProcessPoolExecutor(2, mp_context=get_context("spawn")))
                elif kind == "dask":
                    made[kind] = dask_client(stack)
                else:
                    made[kind] = kind
            return made[kind]

        yield find
