"""HDF5 files to convert, made once and read by all engines."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.workloads import small_objects
from benchmarks.workloads.big_array import CHANNELS, CHUNK_ROWS, noise

BLOCK_CHUNKS = 16


def mixed(folder: Path, rows: int) -> Path:
    """Return the path of a file with time series and units of W1 and ``rows`` rows of 64 channels, gzip 4."""
    series = min(400, max(2, rows // 5000))
    path = folder / f"mixed-{rows}.nwb"
    nwbfile = small_objects.make(series)
    _store(path, nwbfile, rows, (min(CHUNK_ROWS, rows), CHANNELS), CHANNELS, {"compression_opts": 4})
    return path


def single(folder: Path, rows: int, channels: int) -> Path:
    """Return the path of a file with ``rows`` rows of ``channels`` channels, shuffle, gzip 4, 64 channels a chunk."""
    from pynwb import NWBFile

    path = folder / f"single-{rows}.nwb"
    nwbfile = NWBFile("one array", "w3", datetime(2026, 1, 1, tzinfo=UTC))
    _store(path, nwbfile, rows, (min(30_000, rows), 64), channels, {"compression_opts": 4, "shuffle": True})
    return path


def _store(
    path: Path, nwbfile: Any, rows: int, chunks: tuple[int, int], channels: int, filters: dict[str, Any]
) -> None:
    """Write the file; chunks are compressed for one block, and their bytes are stored again and again."""
    import h5py
    import numpy as np
    from pynwb import NWBHDF5IO, H5DataIO, TimeSeries

    block = noise(min(rows, chunks[0] * BLOCK_CHUNKS), channels)
    data = H5DataIO(
        np.ascontiguousarray(block), compression="gzip", chunks=chunks, maxshape=(None, channels), **filters
    )
    nwbfile.add_acquisition(TimeSeries(name="raw", data=data, unit="V", rate=30_000.0))
    with NWBHDF5IO(str(path), "w") as io:
        io.write(nwbfile)
    with h5py.File(path, "r+") as file:
        dataset = file["acquisition/raw/data"]
        dataset.resize(rows, axis=0)
        period = len(block) // chunks[0]
        for number in range(len(block) // chunks[0], -(-rows // chunks[0])):
            for column in range(0, channels, chunks[1]):
                mask, chunk = dataset.id.read_direct_chunk((number % period * chunks[0], column))
                dataset.id.write_direct_chunk((number * chunks[0], column), chunk, filter_mask=mask)
