"""
xarray and TensorStore on the same file
=======================================

pynwb, xarray and TensorStore open the same NWB file and see the same values. For netCDF, see the guide on other tools.
"""

# %%
# Write a file
# ------------

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import tensorstore
import xarray
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO
from hdmf_zarr_backend.interop import tensorstore_spec

_temporary = tempfile.TemporaryDirectory(prefix="other-tools-")
path = Path(_temporary.name) / "session.nwb.zarr"

time = np.arange(30_000) / 1000
voltage = np.stack(
    [np.sin(2 * np.pi * rate * time) * 100 for rate in (1, 2, 4, 8)], axis=1
).astype("int16")
nwbfile = NWBFile(
    session_description="simulated",
    identifier="tools",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
data = ZarrDataIO(voltage, chunks=(5000, 4))
nwbfile.add_acquisition(
    TimeSeries(name="voltage", data=data, unit="V", rate=1000.0)
)
for start in (0.0, 10.0, 20.0):
    nwbfile.add_trial(start_time=start, stop_time=start + 8)
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

# %%
# Open it in xarray
# -----------------
# Groups are nodes of a tree, and axes have the names of the NWB schema.

tree = xarray.open_datatree(path, engine="zarr", chunks=None)
print(tree["acquisition/voltage/data"])

means = (
    tree["acquisition/voltage/data"]
    .isel(num_times=slice(0, 1000))
    .mean("num_times")
    .values
)

# %%
# A dataset of a container also becomes a dataset of xarray, on dask, which is read when it is computed.

with NWBZarrIO(path, mode="r") as io:
    nwbfile = io.read()
    array = nwbfile.acquisition["voltage"].data.to_xarray()
    spec = tensorstore_spec(nwbfile.acquisition["voltage"].data)
    from_pynwb = nwbfile.acquisition["voltage"].data[4000:6000]

power = (array.astype("f8") ** 2).mean("time").compute()

# %%
# Open it in TensorStore
# ----------------------
# ``tensorstore_spec`` returns everything that TensorStore needs to know.

print(spec["driver"], spec["transform"])
store = tensorstore.open(spec, open=True, read=True).result()
print(store.domain)
from_tensorstore = store[4000:6000].read().result()

fig, axes = plt.subplots(1, 2, figsize=(8, 2.4), layout="constrained")
axes[0].plot(time[4000:6000], from_tensorstore)
axes[0].set(xlabel="time (s)", title="read by TensorStore")
axes[1].bar(np.arange(4), np.sqrt(power))
axes[1].set(
    xlabel="channel", title="root mean square, by xarray", xticks=np.arange(4)
)

assert np.array_equal(from_pynwb, voltage[4000:6000])
assert np.array_equal(from_tensorstore, from_pynwb)
assert tree["acquisition/voltage/data"].dims == ("num_times", "num_DIM2")
assert array.dims == ("time", "num_DIM2")
assert np.allclose(means, voltage[:1000].mean(axis=0))
assert np.allclose(
    np.sqrt(power), np.sqrt((voltage.astype("f8") ** 2).mean(axis=0))
)
