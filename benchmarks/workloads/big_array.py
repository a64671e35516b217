"""W2, one big array: 64 channels of int16 in chunks of 2 MiB, Blosc zstd 5 with byte shuffle (HDF5: gzip 4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.harness.job import Job, Phase, Workload

CHANNELS = 64
CHUNK_ROWS = 16384
BLOCK_ROWS = 2**18
SECOND = 30_000
SLICES = 200


def noise(rows: int, channels: int = CHANNELS) -> Any:
    """Return noise and drift, int16, ``(rows, channels)``; Blosc zstd 5 makes it about half as large."""
    import numpy as np

    values = np.random.default_rng(11).standard_normal((rows, channels), dtype="f4")
    values *= 50
    values += (300 * np.sin(np.arange(rows, dtype="f4") / 5000))[:, None]
    return values.astype("i2")


def make_data(rows: int, block: Any) -> Any:
    """Return ``rows`` rows: the block again and again, each time one higher."""
    import numpy as np

    data = np.empty((rows, block.shape[1]), dtype="i2")
    for start in range(0, rows, len(block)):
        part = data[start : start + len(block)]
        np.add(block[: len(part)], np.int16(start // len(block)), out=part)
    return data


def _block(rows: int) -> Any:
    return noise(min(rows, BLOCK_ROWS))


def _nwbfile(data: Any) -> Any:
    from pynwb import NWBFile, TimeSeries

    nwbfile = NWBFile("one big array", "w2", datetime(2026, 1, 1, tzinfo=UTC))
    nwbfile.add_acquisition(TimeSeries(name="raw", data=data, unit="V", rate=float(SECOND)))
    return nwbfile


def _store(job: Job, name: str, data: Any) -> None:
    _store_wrapped(job, name, job.io.wrap(data, (min(CHUNK_ROWS, job.size), CHANNELS)))


def _store_wrapped(job: Job, name: str, data: Any) -> None:
    nwbfile = _nwbfile(data)
    with job.meter.measured(), job.io.open(job.folder / name, "w") as io:
        io.write(nwbfile)


def _write(job: Job) -> None:
    _store(job, "w2", make_data(job.size, _block(job.size)))


def _write_iterator(job: Job) -> None:
    """Blocks of 16 chunks (32 MiB) from an iterator, over an array that is in memory already."""
    from hdmf.data_utils import GenericDataChunkIterator

    data = make_data(job.size, _block(job.size))

    class Blocks(GenericDataChunkIterator):  # type: ignore[misc]
        def _get_data(self, selection: Any) -> Any:
            return data[selection]

        def _get_maxshape(self) -> Any:
            return data.shape

        def _get_dtype(self) -> Any:
            return data.dtype

    shape = (min(16 * CHUNK_ROWS, job.size), CHANNELS)
    _store(job, "w2-iterator", Blocks(buffer_shape=shape, chunk_shape=(min(CHUNK_ROWS, job.size), CHANNELS)))


def _starts(size: int) -> Any:
    import numpy as np

    return np.random.default_rng(3).integers(0, size - _length(size), SLICES)


def _length(size: int) -> int:
    return min(SECOND, size // 2)


def _slices(job: Job) -> None:
    _read_slices(job, "w2")


def _read_slices(job: Job, name: str) -> None:
    length = _length(job.size)
    kept = []
    with job.io.open(job.folder / name, "r") as io:
        data = io.read().acquisition["raw"].data
        starts = _starts(job.size)
        with job.meter.measured():
            for start in starts:
                kept.append(data[start : start + length][::97].copy())
    _check_thinned(kept, job.size)


def _check_thinned(kept: list[Any], size: int) -> None:
    import numpy as np

    block = _block(size)
    for start, values in zip(_starts(size), kept, strict=True):
        rows = np.arange(start, start + _length(size), 97)
        assert np.array_equal(values, block[rows % len(block)] + (rows // len(block)).astype("i2")[:, None])


def _read_whole(job: Job) -> None:
    with job.io.open(job.folder / "w2", "r") as io:
        data = io.read().acquisition["raw"].data
        with job.meter.measured():
            values = data[:]
    assert values.shape == (job.size, CHANNELS)
    assert values[-1, 0] == _block(job.size)[(job.size - 1) % BLOCK_ROWS, 0] + (job.size - 1) // BLOCK_ROWS


def _codec() -> Any:
    from numcodecs import Blosc, blosc

    blosc.use_threads = False  # the least CPU: threads of Blosc wait for each other
    return Blosc("zstd", 5, Blosc.SHUFFLE)


def _write_files(job: Job) -> None:
    data = make_data(job.size, _block(job.size))
    codec = _codec()
    folder = job.folder / "w2"
    folder.mkdir()
    with job.meter.measured():
        for start in range(0, job.size, CHUNK_ROWS):
            chunk = data[start : start + CHUNK_ROWS]
            with open(folder / f"{start // CHUNK_ROWS}.0", "wb", buffering=0) as file:
                file.write(codec.encode(chunk))


def _write_files_again(job: Job) -> None:
    """Measure the same floor once more, in the turn of the iterators."""
    shutil.rmtree(job.folder / "w2", ignore_errors=True)
    _write_files(job)


def _decode(codec: Any, folder: Path, number: int) -> Any:
    import numpy as np

    with open(f"{folder}/{number}.0", "rb", buffering=0) as file:
        return np.frombuffer(codec.decode(file.read()), "<i2").reshape(-1, CHANNELS)


def _slices_files(job: Job) -> None:
    """Decode the chunks of each slice anew; nothing is kept from one slice to the next."""
    import numpy as np

    codec = _codec()
    folder, length = job.folder / "w2", _length(job.size)
    kept = []
    starts = _starts(job.size)
    with job.meter.measured():
        for start in starts:
            result = np.empty((length, CHANNELS), "i2")
            for number in range(start // CHUNK_ROWS, (start + length - 1) // CHUNK_ROWS + 1):
                chunk = _decode(codec, folder, number)
                low = max(start, number * CHUNK_ROWS)
                high = min(start + length, number * CHUNK_ROWS + len(chunk))
                result[low - start : high - start] = chunk[low - number * CHUNK_ROWS : high - number * CHUNK_ROWS]
            kept.append(result[::97].copy())
    _check_thinned(kept, job.size)


def _whole_files(job: Job) -> None:
    import numpy as np

    codec = _codec()
    folder = job.folder / "w2"
    with job.meter.measured():
        result = np.empty((job.size, CHANNELS), "i2")
        for number in range(-(-job.size // CHUNK_ROWS)):
            part = result[number * CHUNK_ROWS : (number + 1) * CHUNK_ROWS]
            if part.flags.c_contiguous and len(part) == CHUNK_ROWS:
                codec.decode(Path(f"{folder}/{number}.0").read_bytes(), out=part)
            else:
                part[:] = _decode(codec, folder, number)
    assert result[-1, 0] == _block(job.size)[(job.size - 1) % BLOCK_ROWS, 0] + (job.size - 1) // BLOCK_ROWS


WHOLE = Workload(
    name="W2a",
    title="One large array: n rows of 64 channels of int16 (256 MiB)",
    phases=(
        Phase("write", "write from memory", {"backend": _write, "files": _write_files}, output="w2"),
        Phase(
            "iterator",
            "write from an iterator",
            {"backend": _write_iterator, "files": _write_files_again},
            output="w2-iterator",
        ),
        Phase("slices", "200 random one-second slices", {"backend": _slices, "files": _slices_files}),
        Phase("whole", "read whole", {"backend": _read_whole, "files": _whole_files}),
    ),
    sizes=(2**21,),
    quick_sizes=(2**15,),
    warm_size=2**10,
)

_MEMORY = ("ours", "hdmf-zarr 0.13")

LARGE = Workload(
    name="W2b",
    title="Memory of writing: one array of n rows of 64 channels of int16 (1 GiB)",
    phases=(
        Phase("write", "write from memory", dict.fromkeys(_MEMORY, _write), output="w2"),
        Phase("iterator", "write from an iterator", dict.fromkeys(_MEMORY, _write_iterator), output="w2-iterator"),
    ),
    sizes=(2**23,),
    quick_sizes=(2**15,),
    warm_size=2**10,
    rounds=2,
)

SMALL_ROWS = 4096
SHARD_CHUNKS = 32


def _write_small_chunks(*, sharded: bool) -> Callable[[Job], None]:
    """Return the write of chunks of 512 KiB, each an object of its own or 32 of them in a shard."""

    def work(job: Job) -> None:
        rows = min(SMALL_ROWS, job.size // 8)
        shards = (SHARD_CHUNKS * rows, CHANNELS) if sharded else None
        data = job.io.wrap(make_data(job.size, _block(job.size)), (rows, CHANNELS), shards)
        _store_wrapped(job, "sharded" if sharded else "plain", data)

    return work


def _small_slices(name: str) -> Callable[[Job], None]:
    return lambda job: _read_slices(job, name)


_SHARDING = ("ours format 3", "hdmf-zarr 0.14")

SHARDED = Workload(
    name="W8",
    title="Shards: n rows of 64 channels of int16 (128 MiB) in chunks of 512 KiB, plain and 32 in a shard",
    phases=(
        Phase("plain", "write plain", dict.fromkeys(_SHARDING, _write_small_chunks(sharded=False)), output="plain"),
        Phase(
            "sharded", "write sharded", dict.fromkeys(_SHARDING, _write_small_chunks(sharded=True)), output="sharded"
        ),
        Phase("slices", "200 random one-second slices, plain", dict.fromkeys(_SHARDING, _small_slices("plain"))),
        Phase(
            "sharded-slices",
            "200 random one-second slices, sharded",
            dict.fromkeys(_SHARDING, _small_slices("sharded")),
        ),
    ),
    sizes=(2**20,),
    quick_sizes=(2**15,),
    warm_size=2**10,
)

WORKLOADS = (WHOLE, LARGE)
