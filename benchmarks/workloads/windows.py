"""W11, sequential windows: seconds of 384 channels at 30 kHz, each half a second after the one before.

What spike sorting and training do: one reader; four processes, as a data loader has them, eight windows in a row for
each; and one reader of a server that takes 20 ms for each request. The array has the chunks and the codec that this
package chooses, 4 MiB and Blosc with LZ4; HDF5 has these chunks with gzip 4. TensorStore keeps no chunks unless it is
given a cache; "TensorStore + cache" has one as large as that of this package. The floor decodes each chunk once, with
numcodecs, and copies the windows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.harness.job import Job, Phase, Work, Workload
from benchmarks.workloads.big_array import SECOND, make_data, noise
from benchmarks.workloads.remote import counted, served

CHANNELS = 384
DELAY = 0.02
PROCESSES = 4
BATCH = 8
CACHE = 64 * 2**20
_PATH = "acquisition/raw/data"


def _make(folder: Path, size: int) -> None:
    """Write ``size`` seconds as Zarr and as HDF5."""
    from pynwb import NWBHDF5IO, H5DataIO, NWBFile, TimeSeries

    from hdmf_zarr_backend import NWBZarrIO

    path = folder / f"w11-{size}"
    data = make_data(size * SECOND, noise(SECOND, CHANNELS))

    def file_of(values: Any) -> NWBFile:
        nwbfile = NWBFile("windows", "w11", datetime(2026, 1, 1, tzinfo=UTC))
        nwbfile.add_acquisition(TimeSeries(name="raw", data=values, unit="V", rate=float(SECOND)))
        return nwbfile

    with NWBZarrIO(f"{path}.zarr", "w") as io:
        io.write(file_of(data))
    with NWBZarrIO(f"{path}.zarr", "r") as io:
        chunks = io.read().acquisition["raw"].data.chunks
    with NWBHDF5IO(f"{path}.nwb", "w") as io:
        io.write(file_of(H5DataIO(data, chunks=chunks, compression="gzip", compression_opts=4)))


# ---- the engines: each opens a file and returns a function that reads a window ---------------------------------------

Read = Callable[[int, int], Any]


def _ours(place: str) -> Read:
    from hdmf_zarr_backend import NWBZarrIO

    data = NWBZarrIO(f"{place}.zarr", "r").read().acquisition["raw"].data
    return lambda start, stop: data[start:stop]


def _zarr_python(place: str) -> Read:
    import zarr

    array = zarr.open_array(f"{place}.zarr/{_PATH}", mode="r")
    return lambda start, stop: array[start:stop]


def _tensorstore(place: str, cache: int = 0) -> Read:
    import tensorstore

    store = f"{place}.zarr/{_PATH}/" if "://" in place else {"driver": "file", "path": f"{place}.zarr/{_PATH}/"}
    context = {"cache_pool": {"total_bytes_limit": cache}}
    # this package does not look either whether a chunk that it has kept was replaced
    spec = {"driver": "zarr", "kvstore": store, "recheck_cached_data": "open", "context": context}
    array = tensorstore.open(spec, read=True).result()
    return lambda start, stop: array[start:stop].read().result()


def _tensorstore_cache(place: str) -> Read:
    return _tensorstore(place, CACHE)


def _hdf5(place: str) -> Read:
    import h5py

    if "://" in place:
        import fsspec

        place = fsspec.open(f"{place}.nwb", "rb").open()
    data = h5py.File(f"{place}.nwb" if isinstance(place, str) else place, "r")[_PATH]
    return lambda start, stop: data[start:stop]


def _floor(place: str) -> Read:
    import json

    import numcodecs
    import numpy as np

    folder = Path(f"{place}.zarr/{_PATH}")
    array = json.loads((folder / ".zarray").read_text())
    codec, (rows, _) = numcodecs.get_codec(array["compressor"]), array["chunks"]
    numcodecs.blosc.use_threads = False
    kept: dict[int, Any] = {}

    def read(start: int, stop: int) -> Any:
        result = np.empty((stop - start, CHANNELS), "i2")
        wanted = range(start // rows, (stop - 1) // rows + 1)
        for number in [number for number in kept if number not in wanted]:
            del kept[number]
        for number in wanted:
            if number not in kept:
                stored = codec.decode((folder / f"{number}.0").read_bytes())
                kept[number] = np.frombuffer(stored, "<i2").reshape(rows, CHANNELS)
            low, high = max(start, number * rows), min(stop, (number + 1) * rows)
            result[low - start : high - start] = kept[number][low - number * rows : high - number * rows]
        return result

    return read


_OPEN: dict[str, Callable[[str], Read]] = {
    "ours": _ours,
    "zarr-python": _zarr_python,
    "TensorStore": _tensorstore,
    "TensorStore + cache": _tensorstore_cache,
    "HDF5": _hdf5,
    "files": _floor,
}

# ---- the work --------------------------------------------------------------------------------------------------------


def _starts(size: int) -> range:
    return range(0, (size - 1) * SECOND + 1, SECOND // 2)


def _opened(engine: str, place: str) -> Read:
    """Open a file and read one row: libraries and connections are there before anything is measured."""
    read = _OPEN[engine](place)
    read(0, 1)
    return read


def _thinned(read: Read, starts: Iterable[int]) -> list[Any]:
    """Read windows and return some rows of each, as something that uses a window and forgets it."""
    return [read(start, start + SECOND)[::97].copy() for start in starts]


def _check(starts: Iterable[int], kept: Iterable[Any]) -> None:
    import numpy as np

    block = noise(SECOND, CHANNELS)
    for start, values in zip(starts, kept, strict=True):
        rows = np.arange(start, start + SECOND, 97)
        assert np.array_equal(values, block[rows % SECOND] + (rows // SECOND).astype("i2")[:, None])


def _sequential(engine: str) -> Work:
    def work(job: Job) -> None:
        read = _opened(engine, f"{job.inputs}/w11-{job.size}")
        with job.meter.measured():
            kept = _thinned(read, _starts(job.size))
        _check(_starts(job.size), kept)

    return work


def _remote(engine: str) -> Work:
    def work(job: Job) -> None:
        with served(job.inputs, "buckets.py", str(DELAY)) as address:
            read = _opened(engine, f"{address}/w11-{job.size}")
            before = counted(address)
            with job.meter.measured():
                kept = _thinned(read, _starts(job.size))
            counts = counted(address)
        _check(_starts(job.size), kept)
        job.meter.note(requests=counts["requests"] - before["requests"], received=counts["bytes"] - before["bytes"])

    return work


_state: dict[str, Any] = {}


def _begin(engine: str, place: str, ready: Any) -> None:
    """Open the file in a process of the loader, and wait for the others."""
    read = _opened(engine, place)
    ready.wait(120)
    _state.update(read=read, cpu=time.process_time())


def _batch(starts: list[int]) -> tuple[int, float, list[Any]]:
    """Return the process, the CPU seconds that it has used, and some rows of each window."""
    kept = _thinned(_state["read"], starts)
    return os.getpid(), time.process_time() - _state["cpu"], kept


def _loader(engine: str) -> Work:
    def work(job: Job) -> None:
        every = list(_starts(job.size))
        batches = [every[first : first + BATCH] for first in range(0, len(every), BATCH)]
        context = get_context("spawn")
        ready = context.Barrier(PROCESSES + 1)
        with context.Pool(PROCESSES, _begin, (engine, f"{job.inputs}/w11-{job.size}", ready)) as pool:
            ready.wait(120)
            with job.meter.measured():
                answers = pool.map(_batch, batches, chunksize=1)
        _check(every, [values for _, _, kept in answers for values in kept])
        used: dict[int, float] = {}
        for process, cpu, _ in answers:
            used[process] = max(cpu, used.get(process, 0.0))
        job.meter.note(cpu=sum(used.values()), memory=0.0)

    return work


def _each(work: Callable[[str], Work], *without: str) -> dict[str, Work]:
    return {engine: work(engine) for engine in _OPEN if engine not in without}


WORKLOAD = Workload(
    name="W11",
    title="Sequential windows: seconds of 384 channels of int16 at 30 kHz, half a second apart, of n seconds",
    phases=(
        Phase("local", "one reader, local file", _each(_sequential)),
        Phase("loader", "four processes, local file", _each(_loader)),
        Phase("remote", "one reader, 20 ms per request", _each(_remote, "files", "HDF5")),
    ),
    sizes=(30,),
    quick_sizes=(2,),
    make_inputs=_make,
    timeout=900.0,
)
