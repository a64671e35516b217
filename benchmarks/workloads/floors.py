"""The floors: what hdmf does before and after any backend, and files written and read by hand.

No backend can be faster than hdmf's own building and constructing plus the fewest operations on files and codecs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.harness.job import Job


def build_only(job: Job, container: Any) -> None:
    """Measure hdmf making builders of a container."""
    from pynwb import get_manager

    with job.meter.measured():
        get_manager().build(container, source="floor", root=True)


@contextmanager
def builders(job: Job, container: Any) -> Iterator[tuple[Any, Any]]:
    """Give a manager and the builders of a container, as read from an HDF5 file."""
    from pynwb import NWBHDF5IO

    path = job.folder / "floor.nwb"
    with NWBHDF5IO(str(path), "w") as io:
        io.write(container)
    with NWBHDF5IO(str(path), "r") as io:
        yield io.manager, io.read_builder()


def construct_only(job: Job, container: Any) -> None:
    """Measure hdmf making containers of builders that are there already."""
    with builders(job, container) as (manager, builder), job.meter.measured():
        manager.construct(builder)


def put(path: Path, value: bytes) -> None:
    """Write a file."""
    with open(path, "wb", buffering=0) as file:
        file.write(value)


def document(content: Any) -> bytes:
    """Return a metadata document."""
    return json.dumps(content, indent=4).encode()
