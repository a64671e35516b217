"""W3, conversion: HDF5 to Zarr and back, a file of many small objects and a big array, and one array of 1 GB."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.harness.job import Job, Phase, UnsupportedError, Workload
from benchmarks.workloads import hdf5_sources

Find = Callable[[Path, int], Path]
ZSTD = {"id": "blosc", "cname": "zstd", "clevel": 5, "shuffle": 1}
LZ4 = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1}


def mixed(inputs: Path, rows: int) -> Path:
    """Return the path of the file of many small objects and a big array."""
    return inputs / f"mixed-{rows}.nwb"


def _single(inputs: Path, rows: int) -> Path:
    return inputs / f"single-{rows}.nwb"


def _convert(source: Path, target: Path, **options: Any) -> None:
    """Convert with our function; an option that it does not have yet is told, not dropped."""
    from inspect import signature

    from hdmf_zarr_backend import convert

    missing = options.keys() - signature(convert).parameters.keys()
    if missing:
        raise UnsupportedError(f"hdmf_zarr_backend.convert has no argument {', '.join(sorted(missing))} yet")
    convert(str(source), str(target), **options)


def _executor(jobs: int) -> Any:
    from hdmf_zarr_backend.options import WriteOptions

    return WriteOptions(executor=jobs)


def ours(find: Find, name: str, **options: Any) -> Callable[[Job], None]:
    """Return the conversion by this package of the file that ``find`` finds; ``options`` as of `convert`."""

    def work(job: Job) -> None:
        source, target = find(job.inputs, job.size), job.folder / name
        with job.meter.measured():
            _convert(source, target, **options)
        _check(job, source, target)

    return work


def _check(job: Job, source: Path, target: Path) -> None:
    """Compare the ends of the big array and the number of series with the source."""
    import h5py
    import numpy as np

    with h5py.File(source) as file, job.io.open(target, "r") as io:
        acquisition = io.read().acquisition
        assert acquisition.keys() == file["acquisition"].keys()
        for part in (slice(0, 100), slice(job.size - 100, job.size)):
            assert np.array_equal(acquisition["raw"].data[part], file["acquisition/raw/data"][part])


def export(find: Find) -> Callable[[Job], None]:
    """Export with the peer's class, or pynwb's own for HDF5 to HDF5."""

    def work(job: Job) -> None:
        from pynwb import NWBHDF5IO

        source, target = find(job.inputs, job.size), job.folder / "export"
        with job.meter.measured(), NWBHDF5IO(str(source), "r") as src, job.io.open(target, "w") as io:
            io.export(src_io=src, write_args={"link_data": False})
        _check(job, source, target)

    return work


def back_ours(job: Job) -> None:
    """Convert what was kept back to HDF5, by this package."""
    source, target = job.folder / "kept.zarr", job.folder / "again.nwb"
    with job.meter.measured():
        _convert(source, target)
    _check_back(job, target)


def back(job: Job) -> None:
    """Export what was exported back to HDF5."""
    from pynwb import NWBHDF5IO

    target = job.folder / "again.nwb"
    with (
        job.meter.measured(),
        job.io.open(job.folder / "export", "r") as src,
        NWBHDF5IO(str(target), "w") as io,
    ):
        io.export(src_io=src, write_args={"link_data": False})
    _check_back(job, target)


def _check_back(job: Job, target: Path) -> None:
    import h5py
    import numpy as np

    with h5py.File(mixed(job.inputs, job.size)) as one, h5py.File(target) as other:
        assert one["acquisition"].keys() == other["acquisition"].keys()
        for part in (slice(0, 100), slice(job.size - 100, job.size)):
            assert np.array_equal(one["acquisition/raw/data"][part], other["acquisition/raw/data"][part])


def _hdmf(job: Job) -> None:
    """Read builders from HDF5, make containers of them and builders of those: no data moves."""
    from pynwb import NWBHDF5IO, get_manager

    with job.meter.measured(), NWBHDF5IO(str(mixed(job.inputs, job.size)), "r") as io:
        get_manager().build(io.read(), source="floor", root=True, export=True)


def _chunks(find: Find) -> Callable[[Job], None]:
    """Copy the chunks of the big array as they are, by position in the file."""

    def work(job: Job) -> None:
        import h5py

        source, folder = find(job.inputs, job.size), job.folder / "chunks"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        with job.meter.measured():
            places: list[tuple[int, int]] = []
            with h5py.File(source, "r") as file:
                dataset = file["acquisition/raw/data"].id
                dataset.chunk_iter(lambda info: places.append((info.byte_offset, info.size)))
            with open(source, "rb", buffering=0) as file:
                for number, (offset, size) in enumerate(places):
                    with open(folder / str(number), "wb", buffering=0) as chunk:
                        chunk.write(os.pread(file.fileno(), size, offset))

    return work


def _equal_output(job: Job) -> None:
    """Convert with two workers and hold every key against what one worker wrote."""
    source, target = _single(job.inputs, job.size), job.folder / "two.zarr"
    with job.meter.measured():
        _convert(source, target, codec=ZSTD, write_options=_executor(2))
    one = job.folder / "one.zarr"
    names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file())
    assert names == sorted(path.relative_to(target) for path in target.rglob("*") if path.is_file())
    assert all((one / name).read_bytes() == (target / name).read_bytes() for name in names)


def _one_worker(job: Job) -> None:
    """Convert with one worker that is one thread: Blosc has threads of its own for whoever calls it from the first."""
    from numcodecs import blosc

    before, blosc.use_threads = blosc.use_threads, False
    try:
        ours(_single, "one.zarr", codec=ZSTD, write_options=_executor(1))(job)
    finally:
        blosc.use_threads = before


def _make_mixed(inputs: Path, rows: int) -> None:
    hdf5_sources.mixed(inputs, rows)


def _make_single(inputs: Path, rows: int) -> None:
    hdf5_sources.single(inputs, rows, 384)


_PEERS = ("hdmf-zarr 0.13", "hdmf-zarr 0.14")

MIXED = Workload(
    name="W3a",
    title="Conversion of 400 time series and an array of n rows of 64 channels (256 MiB), gzip",
    phases=(
        Phase("kept", "HDF5 -> Zarr, chunks kept", {"ours": ours(mixed, "kept.zarr", codec="keep")}, "kept.zarr"),
        Phase(
            "recompressed",
            "HDF5 -> Zarr, recompressed to blosc-zstd",
            {"ours": ours(mixed, "recompressed.zarr", codec=ZSTD)},
            "recompressed.zarr",
        ),
        Phase(
            "export",
            "export from HDF5",
            {**dict.fromkeys((*_PEERS, "HDF5"), export(mixed)), "hdmf": _hdmf, "files": _chunks(mixed)},
            "export",
        ),
        Phase("back", "Zarr -> HDF5", {"ours": back_ours, **dict.fromkeys(_PEERS, back)}, "again.nwb"),
    ),
    sizes=(2**21,),
    quick_sizes=(2**14,),
    warm_size=2000,
    make_inputs=_make_mixed,
)

SINGLE = Workload(
    name="W3b",
    title="Conversion of one array of n rows of 384 channels (922 MB), shuffle and gzip",
    phases=(
        Phase("kept", "HDF5 -> Zarr, chunks kept", {"ours": ours(_single, "kept.zarr", codec="keep")}, "kept.zarr"),
        Phase("lz4", "HDF5 -> Zarr, recompressed to lz4", {"ours": ours(_single, "lz4.zarr", codec=LZ4)}, "lz4.zarr"),
        Phase(
            "export",
            "export from HDF5",
            {**dict.fromkeys((*_PEERS, "HDF5"), export(_single)), "files": _chunks(_single)},
            "export",
        ),
    ),
    sizes=(1_200_000,),
    quick_sizes=(31_000,),
    warm_size=2000,
    make_inputs=_make_single,
)

WORKERS = Workload(
    name="W3d",
    title="Conversion of one array of n rows of 384 channels (230 MB) by one worker and by two",
    phases=(
        Phase("one", "one worker", {"ours": _one_worker}),
        Phase("two", "two workers", {"ours": _equal_output}),
    ),
    sizes=(300_000,),
    quick_sizes=(31_000,),
    warm_size=2000,
    make_inputs=_make_single,
)

HUGE = Workload(
    name="W3c",
    title="Memory of a conversion: one array of n rows of 384 channels (4.1 GB)",
    phases=(
        Phase("kept", "HDF5 -> Zarr, chunks kept", {"ours": ours(_single, "kept.zarr", codec="keep")}, "kept.zarr"),
        Phase("lz4", "HDF5 -> Zarr, recompressed to lz4", {"ours": ours(_single, "lz4.zarr", codec=LZ4)}, "lz4.zarr"),
    ),
    sizes=(5_400_000,),
    quick_sizes=(31_000,),
    warm_size=2000,
    rounds=2,
    make_inputs=_make_single,
)

WORKLOADS = (MIXED, SINGLE, HUGE, WORKERS)
