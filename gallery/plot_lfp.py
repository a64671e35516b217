"""
LFP: a spectrogram of a part of a recording
===========================================

The local field potential of a linear probe is cut by time and by electrode in xarray, which reads only the chunks of
that part, and drawn as a spectrogram.
"""

# %%
# Create a recording
# ------------------
# Two minutes of 8 electrodes: noise that falls with the frequency, theta while the animal runs, and gamma on the crest
# of theta.

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile
from pynwb.ecephys import LFP, ElectricalSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO
from hdmf_zarr_backend.interop import to_datatree

_temporary = tempfile.TemporaryDirectory(prefix="lfp-")
path = Path(_temporary.name) / "session.nwb.zarr"

rng = np.random.default_rng(7)
rate, seconds, electrodes = 1250.0, 120, 8
time = np.arange(int(rate * seconds)) / rate
spectrum = np.fft.rfft(rng.normal(size=(len(time), electrodes)), axis=0)
frequency = np.fft.rfftfreq(len(time), 1 / rate)
spectrum /= np.maximum(frequency, 1)[:, None] ** 0.9
noise = np.fft.irfft(spectrum, len(time), axis=0)
noise *= 60e-6 / noise.std()

runs = (np.sin(2 * np.pi * time / 40) > 0.3).astype(float)
runs = np.convolve(runs, np.ones(1250) / 1250, mode="same")
jitter = rng.normal(size=(2, len(time)))
theta = np.sin(2 * np.pi * np.cumsum(8 + 9 * jitter[0]) / rate)
gamma = np.sin(2 * np.pi * np.cumsum(70 + 60 * jitter[1]) / rate)
gamma *= np.maximum(theta, 0) ** 2
depth = np.linspace(1, 0.2, electrodes)
waves = runs[:, None] * (150e-6 * theta + 40e-6 * gamma)[:, None] * depth
counts = np.round((noise + waves) / 0.195e-6).astype("int16")

nwbfile = NWBFile(
    session_description="a rat on a track (simulated)",
    identifier="lfp",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
shank = nwbfile.create_electrode_group(
    name="shank0",
    description="a linear probe",
    location="CA1",
    device=nwbfile.create_device(name="probe"),
)
for row in range(electrodes):
    layer = "pyramidal" if row < 4 else "radiatum"
    nwbfile.add_electrode(group=shank, location=f"CA1 {layer}", y=20.0 * row)
series = ElectricalSeries(
    name="ElectricalSeries",
    data=ZarrDataIO(counts, chunks=(12500, electrodes)),
    electrodes=nwbfile.create_electrode_table_region(
        region=list(range(electrodes)), description="all"
    ),
    rate=rate,
    conversion=0.195e-6,
)
module = nwbfile.create_processing_module(name="ecephys", description="LFP")
lfp = LFP(name="LFP")
module.add(lfp)
lfp.add_electrical_series(series)
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

# %%
# Cut a part by time
# ------------------
# ``scaled=True`` returns volts. The electrodes are an axis, with the columns of their table as coordinates.

tree = to_datatree(path, scaled=True)
lfp = tree["processing/ecephys/LFP/ElectricalSeries/data"]
part = lfp.sel(time=slice(20, 80))
print(lfp)

# %%
# Draw traces and a spectrogram
# -----------------------------

fig, (top, bottom) = plt.subplots(
    2, 1, figsize=(7, 5), layout="constrained", height_ratios=(1, 1.4)
)
second = part.sel(time=slice(46, 47.5)) * 1e6
top.plot(second.time, second - 400 * np.arange(electrodes), lw=0.7)
top.set(xlabel="time (s)", ylabel="electrode", yticks=[], title="1.5 s of LFP")

trace = part.sel(electrode=0).values * 1e6
power, frequencies, times, image = bottom.specgram(
    trace, NFFT=1250, Fs=rate, noverlap=1000, cmap="magma", vmin=-20, vmax=35
)
bottom.set(ylim=(1, 100), xlabel="time from 20 s (s)", ylabel="frequency (Hz)")
fig.colorbar(image, ax=bottom, label="power (dB of µV²/Hz)")

# %%
# Compare the layers
# ------------------

strength = part.std("time").groupby("location").mean().compute() * 1e6
for name, value in zip(strength.location.values, strength.values, strict=True):
    print(f"{name}: {value:.0f} µV")

assert np.allclose(part.values, counts[25_000:100_001] * 0.195e-6)
band = power[(frequencies > 7) & (frequencies < 10)].mean(axis=0)
is_run = np.interp(times + 20, time, runs) > 0.9
assert band[is_run].mean() > 5 * band[~is_run].mean()
