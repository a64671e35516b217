"""
pynapple on a Zarr file
=======================

pynapple reads an ``NWBFile`` of this package as it reads any other: units, time series and epochs. This example
computes the tuning curves of head-direction cells.
"""

# %%
# Create a session
# ----------------
# Ten minutes of a mouse that turns its head, and 9 cells that each prefer one direction. It sleeps in the last two
# minutes.

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pynapple as nap
from pynwb import NWBFile
from pynwb.behavior import CompassDirection, SpatialSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

_temporary = tempfile.TemporaryDirectory(prefix="pynapple-")
path = Path(_temporary.name) / "session.nwb.zarr"

rng = np.random.default_rng(11)
rate, seconds = 100.0, 600
steps = rng.normal(0, 0.12, int(rate * seconds))
steps = np.convolve(steps, np.hanning(100) / 12, mode="same")
steps[int(480 * rate) :] = 0
angle = np.cumsum(steps) % (2 * np.pi)
time = np.arange(len(angle)) / rate

nwbfile = NWBFile(
    session_description="an open field, and sleep (simulated)",
    identifier="pynapple",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
direction = SpatialSeries(
    name="head-direction",
    data=ZarrDataIO(angle, chunks=(6000,)),
    reference_frame="east",
    unit="radians",
    rate=rate,
)
module = nwbfile.create_processing_module(name="behavior", description="head")
module.add(CompassDirection(spatial_series=direction))
preferred = np.linspace(0, 2 * np.pi, 9, endpoint=False)
for each in preferred:
    expected = 1 + 25 * np.exp(6 * (np.cos(angle - each) - 1))
    spikes = time[rng.random(len(time)) < expected / rate]
    nwbfile.add_unit(spike_times=spikes)
nwbfile.add_epoch(start_time=0.0, stop_time=479.0, tags=["wake"])
nwbfile.add_epoch(start_time=480.0, stop_time=600.0, tags=["sleep"])
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

# %%
# Open it in pynapple
# -------------------
# ``nap.NWBFile`` takes an open ``NWBFile``, and loads an object when you name it.

io = NWBZarrIO(path, mode="r")
session = nap.NWBFile(io.read())
print(session)

units, head = session["units"], session["head-direction"]
epochs = session["epochs"]
wake = epochs[epochs["tags"] == "wake"]

# %%
# Compute tuning curves
# ---------------------

curves = nap.compute_tuning_curves(
    units, head, bins=60, range=(0, 2 * np.pi), epochs=wake
)
centres = curves.coords[curves.dims[1]].values

fig, axes = plt.subplots(
    3, 3, figsize=(6, 6), subplot_kw={"projection": "polar"}, layout="constrained"
)
for number, ax in enumerate(axes.flat):
    ax.fill(centres, curves.values[number], color=f"C{number}", alpha=0.7)
    ax.set(xticks=[], yticks=[], title=f"unit {number}")

# %%
# Decode the direction
# --------------------
# One minute of the spikes, and what they say about the direction of the head.

minute = nap.IntervalSet(start=200, end=260)
decoded, _ = nap.decode_bayes(curves, units, epochs=minute, bin_size=0.2)

fig, ax = plt.subplots(figsize=(7, 2.4), layout="constrained")
ax.plot(head.restrict(minute), ".", ms=1, color="gray", label="measured")
ax.plot(decoded, ".", ms=4, label="decoded")
ax.set(xlabel="time (s)", ylabel="direction (rad)")
ax.legend(loc="upper left", bbox_to_anchor=(1, 1))

found = centres[np.argmax(curves.values, axis=1)]
assert np.all(np.cos(found - preferred) > 0.9)
truth = head.interpolate(decoded).values
assert np.median(np.cos(decoded.values - truth)) > 0.9
assert len(units) == 9
io.close()
