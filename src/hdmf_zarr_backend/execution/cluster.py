"""A dask cluster that runs already, by the address of its scheduler.

Source: issue "Fast, lean, and as wide as the machine or the cluster", part 6.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.errors import UsageError, WorkerLostError

SECONDS = 15
"""How long a scheduler is given to answer, and then to have a worker."""


def is_address(executor: Any) -> bool:
    """Tell whether an ``executor=`` is the address of a scheduler: ``"tcp://host:8786"``."""
    return isinstance(executor, str) and "://" in executor


@contextmanager
def opened(executor: Any) -> Iterator[Any]:
    """Give ``executor`` itself, or a client where it is the address of a scheduler.

    Raises
    ------
    UsageError, WorkerLostError
        As of `connected`.
    """
    if is_address(executor):
        with connected(executor) as client:
            yield client
    else:
        yield executor


@contextmanager
def connected(address: str, *, seconds: float | None = None) -> Iterator[Any]:
    """Give a ``dask.distributed.Client`` of the scheduler at ``address``, which goes on running afterwards.

    Parameters
    ----------
    address : str
        With its protocol.
    seconds : float, optional
        How long to wait; None: `SECONDS`.

    Raises
    ------
    UsageError
        distributed is not installed, or the address is none.
    WorkerLostError
        The scheduler does not answer, or has no workers.
    """
    seconds = SECONDS if seconds is None else seconds
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise UsageError(
            "a dask scheduler needs the library distributed",
            remedy="Install it with: pip install 'hdmf-zarr-backend[dask]'.",
        ) from error
    connect: Any = Client  # its annotations are not complete in every release
    try:
        client = connect(address, timeout=seconds, set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise WorkerLostError(
            f"the dask scheduler at {address} does not answer within {seconds:g} s",
            remedy="Look whether it runs, and whether its address is right.",
        ) from error
    except ValueError as error:  # a protocol that dask does not know
        raise UsageError(
            f"{address!r} is no address of a dask scheduler ({error})", remedy="Give one such as tcp://host:8786."
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=seconds)
        except TimeoutError as error:
            raise WorkerLostError(
                f"the dask scheduler at {address} has no workers", remedy="Start some with: dask worker ADDRESS."
            ) from error
        yield client
