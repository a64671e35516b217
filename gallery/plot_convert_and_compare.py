"""
Convert from HDF5: sizes and speeds
===================================

This example converts one recording from HDF5 to Zarr in four ways. It compares the stored size, the time of the
conversion, and the time to read.

The times are from one run on the machine that built this page. Compare them with each other only.
"""

# %%
# Make a recording in HDF5
# ------------------------
# Thirty channels with drift and noise, compressed with gzip like many NWB files.

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBHDF5IO, H5DataIO, NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, convert

_temporary = tempfile.TemporaryDirectory(prefix="convert-")
folder = Path(_temporary.name)

rng = np.random.default_rng(20)
voltage = np.cumsum(rng.normal(0, 2, (60_000, 30)), axis=0)
voltage = (voltage + rng.normal(0, 10, voltage.shape)).astype("int16")

nwbfile = NWBFile(
    session_description="simulated",
    identifier="convert",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
stored = H5DataIO(voltage, chunks=(10_000, 30), compression="gzip", shuffle=True)
nwbfile.add_acquisition(
    TimeSeries(name="voltage", data=stored, unit="V", rate=10_000.0)
)
hdf5 = folder / "session.nwb"
with NWBHDF5IO(hdf5, mode="w") as io:
    io.write(nwbfile)

# %%
# Convert it in four ways
# -----------------------
# ``codec="keep"``, the default, copies chunks unchanged: Zarr can decode gzip too. ``codec=True`` encodes them again
# with Blosc, the default codec of new files. A dictionary names another codec.

ways = {
    "Zarr, chunks copied": {},
    "Zarr 3, chunks copied": {"zarr_format": 3},
    "Zarr, Blosc": {"codec": True},
    "Zarr, Zstandard": {"codec": {"id": "zstd", "level": 3}},
}
convert(
    hdf5, folder / "warm-up.nwb.zarr"
)  # loads the libraries, which is not part of the measurement
paths = {"HDF5, gzip": hdf5}
seconds_to_make = {}
for number, (name, options) in enumerate(ways.items()):
    paths[name] = folder / f"{number}.nwb.zarr"
    begin = time.perf_counter()
    convert(hdf5, paths[name], **options)
    seconds_to_make[name] = time.perf_counter() - begin

# %%
# Compare sizes and reading times
# -------------------------------
# The time to read sixty slices of a tenth of a second, all channels.


def stored_bytes(path: Path) -> int:
    """Return what a file or a folder takes on disk."""
    return sum(
        file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file()
    )


def read(path: Path) -> tuple[float, np.ndarray]:
    """Return the time to read sixty slices, and one of them."""
    with (NWBHDF5IO if path == hdf5 else NWBZarrIO)(path, mode="r") as io:
        data = io.read().acquisition["voltage"].data
        begin = time.perf_counter()
        slices = [data[start : start + 1000] for start in range(0, 60_000, 1000)]
        return time.perf_counter() - begin, slices[42]


sizes = {name: stored_bytes(path) for name, path in paths.items()}
read_results = {name: read(path) for name, path in paths.items()}

fig, axes = plt.subplots(
    1, 3, figsize=(9, 2.8), layout="constrained", sharey=True
)
names = list(paths)[::-1]
axes[0].barh(names, [sizes[name] / 1e6 for name in names])
axes[0].set(xlabel="MB on disk")
axes[1].barh(names, [seconds_to_make.get(name, 0) for name in names])
axes[1].set(xlabel="s to convert")
axes[2].barh(names, [1000 * read_results[name][0] for name in names])
axes[2].set(xlabel="ms for 60 slices")

for name in paths:
    print(f"{name:22} {sizes[name] / 1e6:5.2f} MB")

# %%
# All five files contain the same values. If chunks are copied, the sizes differ only by the metadata.

assert all(
    np.array_equal(values, voltage[42_000:43_000])
    for _, values in read_results.values()
)
assert (
    abs(sizes["Zarr, chunks copied"] - sizes["HDF5, gzip"])
    < 0.2 * sizes["HDF5, gzip"]
)
assert max(sizes.values()) < voltage.nbytes
