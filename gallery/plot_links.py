"""
Link files
==========

A raw recording is large and does not change. Processed data are small and change often. This example keeps them in
two files, of which the second links to the first.
"""

# %%
# Write the raw file
# ------------------

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, verify

_temporary = tempfile.TemporaryDirectory(prefix="links-")
folder = Path(_temporary.name) / "experiment"
folder.mkdir()


def session(name: str) -> NWBFile:
    """Return an NWB file with nothing in it."""
    return NWBFile(
        session_description=name,
        identifier=name,
        session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
    )


time = np.arange(20_000) / 1000
voltage = (
    np.sin(2 * np.pi * 8 * time) * 200
    + np.random.default_rng(6).normal(0, 80, time.shape)
).astype("int16")
raw = session("raw")
raw.add_acquisition(
    TimeSeries(name="voltage", data=voltage, unit="V", rate=1000.0)
)
with NWBZarrIO(folder / "raw.nwb.zarr", mode="w") as io:
    io.write(raw)

# %%
# Write the file that links to it
# -------------------------------
# Data that are read from one file and written to another are linked. The filtered signal is new, and is written.

with NWBZarrIO(folder / "raw.nwb.zarr", mode="r") as source:
    series = source.read().acquisition["voltage"]
    smooth = np.convolve(series.data[:], np.ones(50) / 50, mode="same").astype(
        "float32"
    )
    processed = session("processed")
    processed.add_acquisition(
        TimeSeries(name="voltage", data=series.data, unit="V", rate=1000.0)
    )
    module = processed.create_processing_module("filtered", "a moving mean")
    module.add(TimeSeries(name="smooth", data=smooth, unit="V", rate=1000.0))
    with NWBZarrIO(folder / "processed.nwb.zarr", mode="w") as io:
        io.write(processed)

has_copy = (folder / "processed.nwb.zarr/acquisition/voltage/data").exists()
print("a copy of the recording in the second file:", has_copy)

# %%
# Move both files
# ---------------
# A link is a relative path. A folder that contains both files can be renamed, copied, or uploaded to a bucket.

moved = Path(_temporary.name) / "archive" / "2026"
shutil.copytree(folder, moved)
shutil.rmtree(folder)

with NWBZarrIO(moved / "processed.nwb.zarr", mode="r") as io:
    nwbfile = io.read()
    linked = nwbfile.acquisition["voltage"].data
    print("the data are in", Path(linked.location).relative_to(moved))
    part = linked[:1000]
    smooth_part = nwbfile.processing["filtered"]["smooth"].data[:1000]

fig, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
ax.plot(time[:1000], part, lw=0.5, label="raw, by a link")
ax.plot(time[:1000], smooth_part, label="smooth")
ax.set(xlabel="time (s)", ylabel="voltage")
ax.legend(loc="upper right")

# %%
# Share one file
# --------------
# To share only the second file, export it with copies in place of links.

with (
    NWBZarrIO(moved / "processed.nwb.zarr", mode="r") as source,
    NWBZarrIO(moved / "complete.nwb.zarr", mode="w") as io,
):
    io.export(source, write_args={"link_data": False})
shutil.rmtree(moved / "raw.nwb.zarr")

with NWBZarrIO(moved / "complete.nwb.zarr", mode="r") as io:
    complete = io.read().acquisition["voltage"].data[:]

# %%
# The file with the link warns about the missing data.

(problem,) = verify(moved / "processed.nwb.zarr").problems
print(f"{problem.path}: {problem.kind}")

assert not has_copy
assert np.array_equal(part, voltage[:1000])
assert np.array_equal(complete, voltage)
assert problem.kind == "link-dangling"
