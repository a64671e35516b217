"""
Read slices: a trace, a raster, an image
========================================

Opening a file reads only metadata. Values are read on request, chunk by chunk. This example draws three common plots,
each from the few chunks that it needs.
"""

# %%
# Create a file
# -------------
# A minute of 16 channels, spikes of 20 units, and an image.

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile, TimeSeries
from pynwb.base import Images
from pynwb.image import GrayscaleImage

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

_temporary = tempfile.TemporaryDirectory(prefix="read-lazily-")
path = Path(_temporary.name) / "session.nwb.zarr"

rng = np.random.default_rng(3)
rate, seconds, channels = 1000.0, 60, 16
time = np.arange(int(rate * seconds)) / rate
voltage = (
    80 * np.sin(2 * np.pi * 7 * time)[:, None] * np.linspace(1, 0.2, channels)
)
voltage = (voltage + rng.normal(0, 20, voltage.shape)).astype("int16")

nwbfile = NWBFile(
    session_description="simulated",
    identifier="read-lazily",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
stored = ZarrDataIO(voltage, chunks=(int(rate), channels))
nwbfile.add_acquisition(
    TimeSeries(name="voltage", data=stored, unit="V", rate=rate, conversion=1e-6)
)
for unit in range(20):
    nwbfile.add_unit(
        spike_times=np.sort(rng.uniform(0, seconds, rng.poisson(20 * (unit + 1))))
    )
y, x = np.mgrid[-1:1:200j, -1:1:300j]
brain = np.exp(-3 * (x**2 + y**2)) * (1 + 0.3 * np.cos(30 * x * y))
nwbfile.add_acquisition(
    Images(
        name="images",
        images=[GrayscaleImage(name="brain", data=brain.astype("f4"))],
    )
)

with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

# %%
# Plot a trace
# ------------
# ``data`` is not a NumPy array, but an array on disk that is read by slices. Half a second of one channel reads one
# chunk of sixty.

io = NWBZarrIO(path, mode="r")
nwbfile = io.read()
series = nwbfile.acquisition["voltage"]
print(
    type(series.data).__name__,
    series.data.shape,
    "in chunks of",
    series.data.chunks,
)

start, stop = int(12.2 * rate), int(12.7 * rate)
trace = series.data[start:stop, 0]

fig, ax = plt.subplots(figsize=(7, 2.2), layout="constrained")
ax.plot(np.arange(start, stop) / rate, trace * series.conversion * 1e6, lw=0.8)
ax.set(xlabel="time (s)", ylabel="voltage (µV)", title="channel 0")

# %%
# Plot a raster
# -------------
# Spike times are ragged: each row has its own length, and can be read alone.

spikes = [
    nwbfile.units["spike_times"][unit] for unit in range(len(nwbfile.units))
]

fig, ax = plt.subplots(figsize=(7, 2.6), layout="constrained")
ax.eventplot([times[(times > 10) & (times < 20)] for times in spikes], lw=0.6)
ax.set(xlabel="time (s)", ylabel="unit", title="ten seconds of spikes")

# %%
# Show an image
# -------------

image = nwbfile.acquisition["images"]["brain"].data[:, 50:250]

fig, ax = plt.subplots(figsize=(4, 3), layout="constrained")
ax.imshow(image, cmap="gray")
ax.set(title="cut out of the middle")
ax.set_axis_off()

# %%
# The values are those that were written. You can read arrays even after closing the file.

io.close()
assert np.array_equal(trace, voltage[start:stop, 0])
assert np.array_equal(series.data[-3:], voltage[-3:])
assert np.array_equal(image, brain[:, 50:250].astype("f4"))
assert len(spikes) == 20
assert all(np.all(np.diff(times) >= 0) for times in spikes)
