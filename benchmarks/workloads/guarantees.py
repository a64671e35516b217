"""W10, what the default guarantees cost: the same work with them, and with them switched off inside of this process.

Off means: no lock is taken that other processes see, files are written where they will be instead of beside it,
Zstandard frames have no checksum, and nothing that is read is held against a limit. Nothing in the package lets a user
do that.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any
from unittest import mock

from benchmarks.harness.job import Job, Phase, Workload
from benchmarks.workloads import small_objects
from benchmarks.workloads.big_array import CHANNELS, CHUNK_ROWS, make_data, noise

CHUNKS = 32


def _in_place(writer: Any, **_: Any) -> Any:
    """Return a change of the file itself, in the place of `store.transaction.StagedChange`."""
    from hdmf_zarr_backend.store.files import NewFolder
    from hdmf_zarr_backend.store.transaction import DirectChange

    os.makedirs(writer.store.folder)
    return DirectChange(NewFolder(writer.store.folder, location=writer.store.location))


def _own_lock(keys: Any, **_: Any) -> Any:
    """Return a lock that only this process knows, in the place of `store.lock.writer_lock`."""
    from hdmf_zarr_backend.store.lock import ProcessLock

    return ProcessLock(keys.location)


def _codec(config: dict[str, Any], dtype: Any) -> Any:
    """Return a codec without a checksum, in the place of `encoding.chunk_codec._guarded_codec`."""
    from hdmf_zarr_backend.encoding.chunk_codec import make_codec

    return make_codec(config, dtype)


def _nothing(*_: Any, **__: Any) -> None:
    """Check nothing."""


_OFF: dict[str, Any] = {
    "store.transaction.writer_lock": _own_lock,
    "store.transaction.StagedChange": _in_place,
    "encoding.chunk_codec._guarded_codec": _codec,
    "encoding.chunk_codec.decode_bounded": lambda codec, data, most, out=None: codec.decode(data, out),
    "array.chunks.ChunkReader._check_chunk": _nothing,
    "encoding.parser.check_texts": _nothing,
    "encoding.parser.check_document": _nothing,
}


def _with(*, guarantees: bool) -> Any:
    """Return a context in which the guarantees hold, or do not."""
    stack = ExitStack()
    for name, instead in ({} if guarantees else _OFF).items():
        stack.enter_context(mock.patch(f"hdmf_zarr_backend.{name}", instead))
    return stack


def _make(job: Job) -> Any:
    """Return the file of W1 and an array of 64 MiB in chunks of 2 MiB, Zstandard."""
    from numcodecs import Zstd
    from pynwb import TimeSeries

    from hdmf_zarr_backend import ZarrDataIO

    nwbfile = small_objects.make(job.size)
    values = make_data(CHUNK_ROWS * min(CHUNKS, 2 + job.size), noise(CHUNK_ROWS))
    data = ZarrDataIO(values, chunks=(CHUNK_ROWS, CHANNELS), compressor=Zstd(level=3))
    nwbfile.add_acquisition(TimeSeries(name="raw", data=data, unit="V", rate=30_000.0))
    return nwbfile


def _write(name: str, *, guarantees: bool) -> Callable[[Job], None]:
    def work(job: Job) -> None:
        nwbfile = _make(job)
        with _with(guarantees=guarantees), job.meter.measured(), job.io.open(job.folder / name, "w") as io:
            io.write(nwbfile)

    return work


def _read(name: str, *, guarantees: bool) -> Callable[[Job], None]:
    """Return the reading of everything: the hierarchy, each small array, the big one."""

    def work(job: Job) -> None:
        import numpy as np

        with (
            _with(guarantees=guarantees),
            job.meter.measured(),
            job.io.open(job.folder / name, "r") as io,
        ):
            acquisition = io.read().acquisition
            values = {key: series.data[:] for key, series in acquisition.items()}
        raw = values.pop("raw")
        assert sum(float(one.sum()) for one in values.values()) == small_objects.expected_sum(job.size)
        assert np.array_equal(raw[:CHUNK_ROWS], noise(CHUNK_ROWS))

    return work


def _phase(name: str, title: str, work: Callable[[Job], None], output: str = "") -> Phase:
    return Phase(name, title, {"ours": work}, output)


WORKLOAD = Workload(
    name="W10",
    title="Cost of the default guarantees: n time series and units, and an array of 64 MiB",
    phases=(
        _phase("write", "write", _write("kept", guarantees=True), "kept"),
        _phase("bare-write", "write, without guarantees", _write("bare", guarantees=False), "bare"),
        _phase("read", "open, read(), all values", _read("kept", guarantees=True)),
        _phase("bare-read", "open, read(), all values, without guarantees", _read("bare", guarantees=False)),
    ),
    sizes=(800,),
    quick_sizes=(4,),
    warm_size=2,
)
