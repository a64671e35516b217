"""
Convert and write in parallel
=============================

Chunks are independent, so several threads, processes or machines can work on one file, each on other chunks. The
resulting file is the same, byte for byte.
"""

# %%
# Make a recording
# ----------------

import os
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBHDF5IO, H5DataIO, NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, WriteOptions, ZarrDataIO, convert

_temporary = tempfile.TemporaryDirectory(prefix="parallel-")
folder = Path(_temporary.name)
voltage = np.random.default_rng(2).normal(0, 60, (60_000, 32)).astype("int16")


def session(data: object) -> NWBFile:
    """Return an NWB file with a recording."""
    nwbfile = NWBFile(
        session_description="simulated",
        identifier="parallel",
        session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
    )
    nwbfile.add_acquisition(
        TimeSeries(name="voltage", data=data, unit="V", rate=10_000.0)
    )
    return nwbfile


with NWBHDF5IO(folder / "session.nwb", mode="w") as io:
    io.write(
        session(
            H5DataIO(
                voltage,
                chunks=(10_000, 32),
                compression="gzip",
                compression_opts=1,
            )
        )
    )

# %%
# Compare executors
# -----------------
# ``executor`` of ``WriteOptions`` takes a number of threads, ``"threads"``, ``"processes"``, any executor of
# ``concurrent.futures``, and a dask cluster. Encoding releases Python's lock, so threads are enough on one machine.
# More threads than cores, or a busy machine, gain nothing; the times below are those of one run.

codec = {"id": "zstd", "level": 3}
convert(
    folder / "session.nwb", folder / "warm-up.nwb.zarr", codec=codec
)  # loads the libraries
seconds = {}
with ThreadPoolExecutor(2) as pool:
    for name, executor in {
        "this thread": None,
        "2 threads": 2,
        "4 threads": 4,
        "a pool of yours": pool,
    }.items():
        begin = time.perf_counter()
        convert(
            folder / "session.nwb",
            folder / f"{name}.nwb.zarr",
            codec=codec,
            write_options=WriteOptions(executor=executor),
        )
        seconds[name] = time.perf_counter() - begin

fig, ax = plt.subplots(figsize=(7, 2.2), layout="constrained")
ax.barh(list(seconds), list(seconds.values()))
ax.invert_yaxis()
ax.set(xlabel=f"s to convert, on {os.cpu_count()} cores")

# %%
# Compare the files
# -----------------


def contents(path: Path) -> dict[str, bytes]:
    """Return what is in each file of a folder."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file()
    }


files = [contents(folder / f"{name}.nwb.zarr") for name in seconds]
same = all(file == files[0] for file in files)
print(
    f"{len(files)} conversions of {len(files[0])} files each, all equal: {same}"
)
assert same

# %%
# Write in parallel
# -----------------
# ``NWBZarrIO`` takes ``write_options=`` too, for everything that it writes and exports: arrays, iterators, and datasets
# of another file.

with NWBZarrIO(
    folder / "written.nwb.zarr",
    mode="w",
    write_options=WriteOptions(executor="threads"),
) as io:
    io.write(session(ZarrDataIO(voltage, chunks=(10_000, 32))))

with NWBZarrIO(folder / "written.nwb.zarr", mode="r") as io:
    assert np.array_equal(io.read().acquisition["voltage"].data[:], voltage)
