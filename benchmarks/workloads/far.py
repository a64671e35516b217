"""W9, S3 that is far away: each request takes 20 ms longer. Open, read, slices; and a write straight to the bucket."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.harness.job import Job, Phase, Workload
from benchmarks.workloads import small_objects
from benchmarks.workloads.big_array import CHANNELS, CHUNK_ROWS, make_data, noise
from benchmarks.workloads.remote import counted, served

DELAY = 0.02
CHUNKS = 16
SECOND = 30_000
SLICES = 10
_BUCKET = "bucket"
_BOTH = ("ours", "ours format 3")
_READERS = (*_BOTH, "hdmf-zarr 0.13")


@contextmanager
def _bucket(job: Job) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the address of a server of the buckets of this engine, and what a client has to be told of it."""
    with served(job.folder, "buckets.py", str(DELAY)) as address:
        client = {"region_name": "us-east-1"}
        yield address, {"key": "k", "secret": "s", "endpoint_url": address, "client_kwargs": client}


def _rows(size: int) -> int:
    """Return the rows of the array: fewer where the file is only to warm up."""
    return CHUNK_ROWS * min(CHUNKS, 2 + size)


def _make(job: Job) -> Any:
    """Return the file of W1 and an array of 32 MiB in chunks of 2 MiB."""
    from pynwb import TimeSeries

    nwbfile = small_objects.make(job.size)
    data = job.io.wrap(make_data(_rows(job.size), noise(CHUNK_ROWS)), (CHUNK_ROWS, CHANNELS))
    nwbfile.add_acquisition(TimeSeries(name="raw", data=data, unit="V", rate=float(SECOND)))
    return nwbfile


def _write(job: Job) -> None:
    """Write the file into a local folder, which the server will show as a bucket."""
    (job.folder / _BUCKET).mkdir()
    nwbfile = _make(job)
    with job.meter.measured(), job.io.open(job.folder / _BUCKET / "w9.zarr", "w") as io:
        io.write(nwbfile)


def _open(job: Job) -> None:
    with _bucket(job) as (address, options):
        with job.meter.measured():
            io = job.io.open_url(f"s3://{_BUCKET}/w9.zarr", options=options)
            nwbfile = io.read()
        counts = counted(address)
        assert len(nwbfile.acquisition) == job.size + 1
        io.close()
    job.meter.note(requests=counts["requests"], received=counts["bytes"])


def _slices(job: Job) -> None:
    """Read seconds of the array, whose chunks hold half a second each."""
    import numpy as np

    firsts = np.random.default_rng(8).integers(0, _rows(job.size) - SECOND, SLICES)
    with _bucket(job) as (address, options):
        io = job.io.open_url(f"s3://{_BUCKET}/w9.zarr", options=options)
        data = io.read().acquisition["raw"].data
        before = counted(address)
        with job.meter.measured():
            kept = [data[first : first + SECOND][::97].copy() for first in firsts]
        counts = counted(address)
        io.close()
    block = noise(CHUNK_ROWS)
    for first, values in zip(firsts, kept, strict=True):
        rows = np.arange(first, first + SECOND, 97)
        assert np.array_equal(values, block[rows % CHUNK_ROWS] + (rows // CHUNK_ROWS).astype("i2")[:, None])
    job.meter.note(requests=counts["requests"] - before["requests"], received=counts["bytes"] - before["bytes"])


def _put(job: Job) -> None:
    nwbfile = _make(job)
    (job.folder / _BUCKET).mkdir(exist_ok=True)
    with _bucket(job) as (address, options):
        with job.meter.measured(), job.io.open_url(f"s3://{_BUCKET}/put.zarr", "w", options) as io:
            io.write(nwbfile)
        counts = counted(address)
    with job.io.open(job.folder / _BUCKET / "put.zarr", "r") as io:
        acquisition = io.read().acquisition
        assert len(acquisition) == job.size + 1
        assert (acquisition["raw"].data[:CHUNK_ROWS] == noise(CHUNK_ROWS)).all()
    job.meter.note(requests=counts["requests"], received=counts["bytes"])


WORKLOAD = Workload(
    name="W9",
    title="Reading from S3, 20 ms per request: n time series and units, and an array of 32 MiB",
    phases=(
        Phase("write", "write the file, locally", dict.fromkeys(_READERS, _write)),
        Phase("open", "open and read() from S3", dict.fromkeys(_READERS, _open)),
        Phase("slices", f"{SLICES} random one-second slices from S3", dict.fromkeys(_READERS, _slices)),
        Phase("put", "write straight to S3", dict.fromkeys(_BOTH, _put)),
    ),
    sizes=(100,),
    quick_sizes=(3,),
    warm_size=2,
    protocol="s3",
)
