"""
PSTH: spikes around the stimuli
===============================

Spike times of units and the times of trials are read from a file, and drawn as a raster and as a peristimulus time
histogram (PSTH) for each kind of stimulus.
"""

# %%
# Create a session
# ----------------
# 80 trials of two orientations. Each unit prefers one of them, by how much differs from unit to unit; all are silent
# for 40 ms after the stimulus.

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile

from hdmf_zarr_backend import NWBZarrIO, read_nwb

_temporary = tempfile.TemporaryDirectory(prefix="psth-")
path = Path(_temporary.name) / "session.nwb.zarr"

rng = np.random.default_rng(5)
onsets = np.cumsum(rng.uniform(2.0, 3.0, 80))
angles = rng.permutation(np.repeat([0, 90], 40))


def simulate(base: float, gains: dict[int, float]) -> np.ndarray:
    """Return the spike times of a unit whose rate rises after each stimulus."""
    times = np.arange(0, onsets[-1] + 3, 0.001)
    rate = np.full(len(times), base)
    for onset, angle in zip(onsets, angles, strict=True):
        after = times - onset - 0.04
        rate += (
            gains[angle]
            * np.where(after > 0, after / 0.03, 0)
            * np.exp(-np.maximum(after, 0) / 0.06)
        )
    return times[rng.random(len(times)) < rate * 0.001]


nwbfile = NWBFile(
    session_description="gratings (simulated)",
    identifier="psth",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
nwbfile.add_trial_column(name="angle", description="orientation in degrees")
for onset, angle in zip(onsets, angles, strict=True):
    nwbfile.add_trial(start_time=onset, stop_time=onset + 0.5, angle=float(angle))
for unit in range(12):
    strong, weak = rng.uniform(60, 120), rng.uniform(5, 25)
    gains = {0: strong, 90: weak} if unit % 2 else {0: weak, 90: strong}
    nwbfile.add_unit(spike_times=simulate(rng.uniform(2, 8), gains))
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

# %%
# Read spikes and trials
# ----------------------
# The trials become a table of pandas. A unit's spikes are read when you index its row.

nwbfile = read_nwb(path)
trials = nwbfile.trials.to_dataframe()
spikes = np.sort(nwbfile.units["spike_times"][3])
trials.head(3)

# %%
# Align the spikes
# ----------------
# ``searchsorted`` finds the spikes around each stimulus, because spike times are sorted;
# not every file has them in order, hence the ``sort`` above.

window = (-0.2, 0.5)


def aligned(spikes: np.ndarray, onsets: np.ndarray) -> list[np.ndarray]:
    """Return the times of the spikes around each onset, relative to it."""
    first = np.searchsorted(spikes, onsets + window[0])
    last = np.searchsorted(spikes, onsets + window[1])
    return [
        spikes[i:j] - onset
        for i, j, onset in zip(first, last, onsets, strict=True)
    ]


fig, axes = plt.subplots(
    2, 2, figsize=(7, 4.6), sharex=True, sharey="row", layout="constrained"
)
edges = np.linspace(*window, 71)
rates = {}
for column, (angle, group) in enumerate(trials.groupby("angle")):
    rows = aligned(spikes, group["start_time"].to_numpy())
    counts, _ = np.histogram(np.concatenate(rows), edges)
    rates[angle] = counts / len(rows) / np.diff(edges)
    axes[0, column].eventplot(rows, lw=0.8, color=f"C{column}")
    axes[0, column].set(title=f"{angle:.0f}°")
    axes[1, column].stairs(rates[angle], edges, fill=True, color=f"C{column}")
    axes[1, column].set(xlabel="time from the stimulus (s)")
    for ax in axes[:, column]:
        ax.axvline(0, color="gray", lw=0.8)
axes[0, 0].set(ylabel="trial")
axes[1, 0].set(ylabel="spikes per second")

# %%
# The unit responds to one of the orientations.

response = (edges[:-1] > 0.05) & (edges[:-1] < 0.2)
assert rates[0.0][response].mean() > 2 * rates[90.0][response].mean()
assert rates[0.0][edges[:-1] < 0].mean() < 12
assert len(trials) == 80
nwbfile.read_io.close()
