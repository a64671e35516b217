"""
SpikeInterface on a Zarr file
=============================

SpikeInterface reads recordings and sortings from Zarr files, chunk by chunk. Before Python 3.14 it asks for zarr-python
2; what this example needs of it works with 3 too.
"""

# %%
# Create a recording
# ------------------
# SpikeInterface simulates a recording with known spikes. The recording and its true spikes become an NWB file.

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import spikeinterface.core as si
import spikeinterface.extractors as se
import spikeinterface.preprocessing as sp
from pynwb import NWBFile
from pynwb.ecephys import ElectricalSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

_temporary = tempfile.TemporaryDirectory(prefix="spikeinterface-")
path = Path(_temporary.name) / "session.nwb.zarr"

simulated, truth = si.generate_ground_truth_recording(
    durations=[10.0], num_channels=16, num_units=6, seed=3
)
rate = simulated.sampling_frequency
drift = 80 * np.sin(2 * np.pi * 1.5 * simulated.get_times())
counts = np.round((simulated.get_traces() + drift[:, None]) / 0.195)

nwbfile = NWBFile(
    session_description="simulated by SpikeInterface",
    identifier="spikeinterface",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
shank = nwbfile.create_electrode_group(
    name="shank0",
    description="a probe",
    location="V1",
    device=nwbfile.create_device(name="probe"),
)
for x, y in simulated.get_channel_locations():
    nwbfile.add_electrode(
        group=shank, location="V1", rel_x=float(x), rel_y=float(y)
    )
nwbfile.add_acquisition(
    ElectricalSeries(
        name="raw",
        data=ZarrDataIO(counts.astype("int16"), chunks=(int(rate), 16)),
        electrodes=nwbfile.create_electrode_table_region(
            region=list(range(16)), description="all"
        ),
        rate=rate,
        conversion=0.195e-6,
    )
)
for unit in truth.unit_ids:
    nwbfile.add_unit(spike_times=truth.get_unit_spike_train(unit) / rate)
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

# %%
# Read it in SpikeInterface
# -------------------------
# It reads traces when you ask for them.

recording = se.read_nwb_recording(path, electrical_series_path="acquisition/raw")
sorting = se.read_nwb_sorting(path, electrical_series_path="acquisition/raw")
print(recording.get_num_channels(), "channels of", recording.get_dtype())
print(sorting)

# %%
# Filter it, and average spikes
# -----------------------------

filtered = sp.bandpass_filter(recording, freq_min=300, freq_max=6000)
begin, end = int(2.0 * rate), int(2.2 * rate)

fig, axes = plt.subplots(
    1, 2, figsize=(8, 3.6), layout="constrained", sharey=True
)
for ax, each, title in zip(
    axes, (recording, filtered), ("stored", "300 to 6000 Hz"), strict=True
):
    traces = each.get_traces(start_frame=begin, end_frame=end, return_in_uV=True)[
        :, :8
    ]
    ax.plot(np.arange(begin, end) / rate, traces - 150 * np.arange(8), lw=0.4)
    ax.set(xlabel="time (s)", title=title, yticks=[])

# %%
# Waveforms of the spikes of each unit, on the channel where they are largest:

fig, ax = plt.subplots(figsize=(6, 2.8), layout="constrained")
peaks = {}
for unit in sorting.unit_ids:
    waveforms = np.stack(
        [
            filtered.get_traces(
                start_frame=spike - 30, end_frame=spike + 60, return_in_uV=True
            )
            for spike in sorting.get_unit_spike_train(unit)[:60]
            if 30 <= spike < recording.get_num_samples() - 60
        ]
    ).mean(axis=0)
    channel = np.argmin(waveforms.min(axis=0))
    peaks[unit] = waveforms[:, channel].min()
    ax.plot(np.arange(-30, 60) / rate * 1000, waveforms[:, channel], label=unit)
ax.set(xlabel="time (ms)", ylabel="voltage (µV)")
ax.legend(title="unit", fontsize="small")

assert np.array_equal(recording.get_traces(), counts)
assert len(sorting.unit_ids) == len(truth.unit_ids) == 6
assert max(peaks.values()) < -10
