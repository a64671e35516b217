"""W6, over HTTP: how many requests it takes to open a file of many small objects and to read its hierarchy."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

from benchmarks.harness.job import Job, Phase, Workload
from benchmarks.workloads import small_objects

HARNESS = Path(__file__).resolve().parents[1] / "harness"


@contextmanager
def served(folder: Path, script: str = "server.py", *arguments: str) -> Iterator[str]:
    """Give the address of a server of ``folder`` in a process of its own; ``script`` is one of the harness."""
    command = [sys.executable, "-I", os.fspath(HARNESS / script), os.fspath(folder), *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(server.stdout.readline())}"
        finally:
            server.terminate()


def counted(address: str) -> dict[str, int]:
    """Return the requests and the bytes sent so far of a server of ours."""
    with urlopen(f"{address}/-/counts") as answer:  # noqa: S310 - our own server
        counts: dict[str, int] = json.load(answer)
    return counts


def _open(job: Job) -> None:
    name = f"w6{job.io.suffix}"
    with job.io.open(job.folder / name, "w") as io:
        io.write(small_objects.make(job.size))
    with served(job.folder) as address:
        with job.meter.measured():
            io = job.io.open_url(f"{address}/{name}")
            nwbfile = io.read()
        counts = counted(address)
    assert len(nwbfile.acquisition) == job.size
    io.close()
    job.meter.note(requests=counts["requests"], received=counts["bytes"])


WORKLOAD = Workload(
    name="W6",
    title="Opening over HTTP: n time series and units",
    phases=(Phase("open", "open and read() over HTTP", {"backend": _open}),),
    sizes=(400,),
    quick_sizes=(4,),
    warm_size=2,
    rounds=2,
    protocol="http",
)
