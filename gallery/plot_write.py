"""
Write an NWB file
=================

Write arrays in memory to a Zarr file. The containers are those of pynwb; ``NWBZarrIO`` writes them instead of
``NWBHDF5IO``. HDF5 is not needed.
"""

# %%
# Make a session
# --------------
# Twenty seconds of four channels, the spikes of three units, and four trials.

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numcodecs
import numpy as np
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

_temporary = tempfile.TemporaryDirectory(prefix="write-")
folder = Path(_temporary.name)

rng = np.random.default_rng(11)
rate, duration, channels = 1000.0, 20, 4
time = np.arange(int(rate * duration)) / rate
wave = 80 * np.sin(2 * np.pi * 8 * time)
voltage = (wave[:, None] + rng.normal(0, 15, (time.size, channels))).astype(
    "int16"
)
spikes = [np.sort(rng.uniform(0, duration, 40)) for _ in range(3)]


def session(data: object) -> NWBFile:
    """Return a file that is not written yet, with ``data`` as its recording."""
    nwbfile = NWBFile(
        session_description="simulated",
        identifier="write",
        session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
    )
    nwbfile.add_acquisition(
        TimeSeries(
            name="voltage", data=data, unit="V", rate=rate, conversion=1e-6
        )
    )
    for start in range(0, duration, 5):
        nwbfile.add_trial(start_time=float(start), stop_time=start + 4.0)
    for times in spikes:
        nwbfile.add_unit(spike_times=times)
    return nwbfile


# %%
# Write the file
# --------------
# The file appears when it is complete. Chunks and codecs are chosen automatically.

path = folder / "session.nwb.zarr"
with NWBZarrIO(path, mode="w") as io:
    io.write(session(voltage))

print(*sorted(entry.name for entry in path.iterdir()), sep="\n")

# %%
# Choose how a dataset is stored
# ------------------------------
# ``ZarrDataIO`` sets the storage of one dataset: here chunks of five seconds, and Zstandard instead of Blosc.
# ``zarr_format=3`` writes the other format of Zarr.

stored = ZarrDataIO(
    voltage, chunks=(5000, channels), compressor=numcodecs.Zstd(level=5)
)
other = folder / "other.nwb.zarr"
with NWBZarrIO(other, mode="w", zarr_format=3) as io:
    io.write(session(stored))

# %%
# Read it back
# ------------
# Both files are read in the same way. Arrays are lazy: a slice reads the chunks that it touches.

read = {}
for place in (path, other):
    with NWBZarrIO(place, mode="r") as io:
        nwbfile = io.read()
        data = nwbfile.acquisition["voltage"].data
        print(
            f"{place.name}: format {io.zarr_format}, chunks {data.chunks},",
            f"{data.nbytes_stored():,} bytes stored",
        )
        read[place.name] = data[2000:4000, 0]
        trials, units = (
            nwbfile.trials.to_dataframe(),
            nwbfile.units.to_dataframe(),
        )

fig, (top, bottom) = plt.subplots(
    2,
    1,
    figsize=(8, 3.2),
    sharex=True,
    height_ratios=(2, 1),
    layout="constrained",
)
top.plot(time[2000:4000], read[path.name], lw=0.7)
top.set(
    ylabel="voltage",
    title="two seconds of one channel, and the spikes of all units",
)
bottom.eventplot(
    [times[(times >= 2) & (times < 4)] for times in units.spike_times]
)
bottom.set(xlabel="time (s)", ylabel="unit", yticks=range(len(units)))

assert all(
    np.array_equal(values, voltage[2000:4000, 0]) for values in read.values()
)
assert data.chunks == (5000, channels)
assert len(trials) == 4
assert all(
    np.array_equal(found, times)
    for found, times in zip(units.spike_times, spikes, strict=True)
)
