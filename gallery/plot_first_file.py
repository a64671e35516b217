"""
First file: HDF5 to Zarr and back
=================================

This example writes a typical session (raw voltages, electrodes, sorted units, trials and a tracked position) to HDF5
with pynwb, converts it to Zarr, inspects, reads and compares it, and converts it back.

The files go to a temporary folder; name a folder on the command line to keep them.
"""

# %%
# Choose a folder
# ---------------

import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

if len(sys.argv) > 1:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
else:
    _temporary = tempfile.TemporaryDirectory(prefix="first-file-")
    folder = Path(_temporary.name)

hdf5_path = folder / "mouse.nwb"
zarr_path = folder / "example.nwb.zarr"
again_path = folder / "mouse-again.nwb"

# %%
# Create a session
# ----------------
# Ten seconds of sixteen channels at 5 kHz, as an acquisition system delivers them: integers and a factor to volts.

from pynwb import NWBHDF5IO, H5DataIO, NWBFile
from pynwb.behavior import Position, SpatialSeries
from pynwb.ecephys import LFP, ElectricalSeries
from pynwb.file import Subject

rng = np.random.default_rng(20)
rate, duration, n_channels = 5000.0, 10.0, 16

nwbfile = NWBFile(
    session_description="a mouse on a linear track, simulated",
    identifier="first-file",
    session_start_time=datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC),
    experimenter=["Hodgkin, Alan", "Huxley, Andrew"],
    keywords=["example", "ecephys"],
)
nwbfile.subject = Subject(
    subject_id="mouse-1", species="Mus musculus", sex="F", age="P90D"
)

device = nwbfile.create_device(
    name="probe", description="two shanks of eight contacts"
)
nwbfile.add_electrode_column(name="label", description="shank and contact")
for shank in range(2):
    group = nwbfile.create_electrode_group(
        name=f"shank{shank}",
        description=f"shank {shank}",
        location="CA1",
        device=device,
    )
    for contact in range(n_channels // 2):
        nwbfile.add_electrode(
            x=40.0 * shank,
            y=20.0 * contact,
            z=0.0,
            location="CA1",
            group=group,
            label=f"{shank}-{contact}",
        )

raw = rng.normal(0, 50, (int(rate * duration), n_channels)).astype("int16")
channels = nwbfile.create_electrode_table_region(
    list(range(n_channels)), "all contacts"
)
nwbfile.add_acquisition(
    ElectricalSeries(
        name="raw",
        data=H5DataIO(
            raw, chunks=(5000, n_channels), compression="gzip", shuffle=True
        ),
        electrodes=channels,
        rate=rate,
        conversion=1.95e-7,
    )
)

# %%
# Processed data: a filtered signal, spikes of eight units with their mean waveforms, trials, and the position of the
# mouse. Spike times are ragged, units refer to electrodes, and trials to the recording.

lfp = raw.reshape(-1, 5, n_channels).mean(axis=1).astype("float32") * np.float32(
    1.95e-7
)
ecephys = nwbfile.create_processing_module("ecephys", "slow signals")
ecephys.add(
    LFP(
        electrical_series=ElectricalSeries(
            name="lfp", data=lfp, electrodes=channels, rate=rate / 5
        )
    )
)

nwbfile.add_unit_column(name="quality", description="judged by eye")
for unit in range(8):
    nwbfile.add_unit(
        spike_times=np.sort(rng.uniform(0, duration, rng.poisson(80))),
        electrodes=[unit, unit + 1],
        electrode_group=nwbfile.electrode_groups[f"shank{unit // 4}"],
        waveform_mean=rng.normal(0, 1, (40, 2)),
        quality="good" if unit % 3 else "noisy",
    )

nwbfile.add_trial_column(
    name="correct", description="did the mouse turn the right way"
)
for start in np.arange(0, duration, 2.0):
    nwbfile.add_trial(
        start_time=start,
        stop_time=start + 1.5,
        correct=bool(start % 4),
        timeseries=[nwbfile.acquisition["raw"]],
    )

seconds = np.arange(0, duration, 0.02)
track = np.stack([50 + 50 * np.sin(seconds), np.zeros_like(seconds)], axis=1)
behavior = nwbfile.create_processing_module("behavior", "where the mouse was")
behavior.add(
    Position(
        spatial_series=SpatialSeries(
            name="track",
            data=track,
            timestamps=seconds,
            unit="centimeters",
            reference_frame="start of the track",
        )
    )
)

with NWBHDF5IO(hdf5_path, mode="w") as io:
    io.write(nwbfile)
print(f"{hdf5_path.name}: {hdf5_path.stat().st_size:,} bytes")

# %%
# Convert to Zarr
# ---------------
# One call converts every dataset, attribute, link and reference of the file, chunk by chunk.

from hdmf_zarr_backend import NWBZarrIO, convert

convert(hdf5_path, zarr_path, overwrite=True)

files = [path for path in zarr_path.rglob("*") if path.is_file()]
print(
    f"{zarr_path.name}: {sum(path.stat().st_size for path in files):,} bytes",
    f"in {len(files)} files",
)

# %%
# The command is ``zarrio convert mouse.nwb example.nwb.zarr``. ``zarrio inspect`` shows the content of a file, from
# its metadata alone:

from hdmf_zarr_backend.cli.main import main as zarrio

zarrio(["inspect", str(zarr_path)])

# %%
# Read
# ----
# You get pynwb's containers. Arrays are lazy: a slice reads the chunks that it touches.

zarr_io = NWBZarrIO(zarr_path, mode="r")
from_zarr = zarr_io.read()

print(from_zarr.acquisition["raw"].data[:3, :4])
print(from_zarr.units.to_dataframe()[["quality", "spike_times"]].head(3))
print(
    "first trial's recording:",
    from_zarr.trials["timeseries"][0][0].timeseries.name,
)

# %%
# Compare
# -------
# First compare some arrays with HDF5, value by value, then both files with the comparison of hdmf's own tests: every
# field of every container.

from hdmf.testing import TestCase

hdf5_io = NWBHDF5IO(hdf5_path, mode="r")
from_hdf5 = hdf5_io.read()


def arrays_of(file: NWBFile) -> dict[str, np.ndarray]:
    """Return some arrays by name: a signal, ragged spike times, positions."""
    position = file.processing["behavior"]["Position"]["track"]
    return {
        "raw": file.acquisition["raw"].data[:],
        "lfp": file.processing["ecephys"]["LFP"]["lfp"].data[:],
        "spike times": file.units["spike_times"].target.data[:],
        "spike times index": file.units["spike_times"].data[:],
        "waveform means": file.units["waveform_mean"].data[:],
        "trial starts": file.trials["start_time"].data[:],
        "position": position.data[:],
    }


def compare(one: NWBFile, other: NWBFile) -> None:
    """Print a table of arrays; raise AssertionError where the files differ."""
    others = arrays_of(other)
    print(f"{'':18} {'shape':>12} {'dtype':>8} equal")
    for name, values in arrays_of(one).items():
        equal = values.dtype == others[name].dtype and np.array_equal(
            values, others[name]
        )
        print(f"{name:18} {values.shape!s:>12} {values.dtype!s:>8} {equal}")
        assert equal, name
    TestCase().assertContainerEqual(one, other, ignore_hdmf_attrs=True)
    assert [c.object_id for c in one.objects.values()] == [
        c.object_id for c in other.objects.values()
    ]
    print(f"all {len(one.objects)} containers are equal, field by field")


compare(from_hdf5, from_zarr)
zarr_io.close()

# %%
# Convert back
# ------------
# Convert to HDF5, for tools that read nothing else. Nothing is lost.

convert(zarr_path, again_path, overwrite=True)

with NWBHDF5IO(again_path, mode="r") as io:
    compare(from_hdf5, io.read())
hdf5_io.close()
