"""
Append during a recording
=========================

This example opens the file once for each new block of data, and writes only what is new. Readers always see a complete
file: the one before the append, or the one after it.
"""

# %%
# Write the first block
# ---------------------
# ``maxshape`` lets the recording grow along time.

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

_temporary = tempfile.TemporaryDirectory(prefix="append-")
path = Path(_temporary.name) / "session.nwb.zarr"

rate, channels = 1000, 4
rng = np.random.default_rng(8)


def block(second: int) -> np.ndarray:
    """Return what the amplifier gives in one second."""
    time = second + np.arange(rate) / rate
    wave = np.sin(2 * np.pi * 3 * time)[:, None] * 100 * (1 + second % 3)
    return (wave + rng.normal(0, 20, (rate, channels))).astype("int16")


blocks = [block(0)]
nwbfile = NWBFile(
    session_description="simulated",
    identifier="append",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
data = ZarrDataIO(blocks[0], chunks=(rate, channels), maxshape=(None, channels))
nwbfile.add_acquisition(
    TimeSeries(name="voltage", data=data, unit="V", rate=float(rate))
)
nwbfile.add_trial(start_time=0.0, stop_time=0.8)
nwbfile.add_unit(spike_times=[0.1, 0.2])
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

# %%
# Append nine blocks
# ------------------
# Mode ``"r+"`` changes an existing file. Arrays have ``append``; tables have ``add_trial`` and similar methods, also
# with ragged columns. A reader that opened the file earlier still sees what it saw.

reader = NWBZarrIO(path, mode="r")
before = reader.read()

written = []
for second in range(1, 10):
    known = {
        file: file.stat().st_mtime_ns
        for file in path.rglob("*")
        if file.is_file()
    }
    blocks.append(block(second))
    with NWBZarrIO(path, mode="r+") as io:
        nwbfile = io.read()
        nwbfile.acquisition["voltage"].data.append(blocks[-1])
        nwbfile.add_trial(start_time=float(second), stop_time=second + 0.8)
        nwbfile.add_unit(spike_times=second + np.sort(rng.uniform(0, 1, 3)))
        io.write(nwbfile)
    now = {
        file: file.stat().st_mtime_ns
        for file in path.rglob("*")
        if file.is_file()
    }
    written.append(sum(now[file] != known.get(file) for file in now))
    still_there = path / "acquisition/voltage/data/0.0"
    assert now[still_there] == known[still_there]

print("files in all:", len(now), "- written for each second:", written)
print(
    "the reader from before still sees",
    before.acquisition["voltage"].data.shape,
    "and",
    len(before.trials),
    "trial",
)
reader.close()

# %%
# Read the result
# ---------------

with NWBZarrIO(path, mode="r") as io:
    nwbfile = io.read()
    voltage = nwbfile.acquisition["voltage"].data[:]
    trials = nwbfile.trials.to_dataframe()
    last_spikes = nwbfile.units["spike_times"][9]

fig, ax = plt.subplots(figsize=(8, 2.4), layout="constrained")
ax.plot(np.arange(len(voltage)) / rate, voltage[:, 0], lw=0.5)
for start, stop in zip(trials.start_time, trials.stop_time, strict=True):
    ax.axvspan(start, stop, alpha=0.15)
ax.set(xlabel="time (s)", ylabel="voltage", title="ten blocks, ten trials")

assert np.array_equal(voltage, np.concatenate(blocks))
assert len(trials) == 10
assert len(last_spikes) == 3
assert max(written) < len(now) / 3
