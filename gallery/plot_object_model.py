"""
Inspect metadata, and plan a write
==================================

The structure of a file without its values is a small tree: the Zarr Object Model. You get it from an existing
file, and from a file that is not written yet, so you can check a write of ten hours before it starts.
"""

# %%
# Make data to be written
# -----------------------

import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, dry_run
from hdmf_zarr_backend.zom import from_zom, to_zom

_temporary = tempfile.TemporaryDirectory(prefix="object-model-")
folder = Path(_temporary.name)

rng = np.random.default_rng(7)
nwbfile = NWBFile(
    session_description="simulated",
    identifier="model",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
for name, length, spread in (
    ("quiet", 100_000, 3),
    ("noisy", 100_000, 3000),
    ("short", 20_000, 100),
):
    data = ZarrDataIO(
        rng.normal(0, spread, (length, 8)).astype("int16"), chunks=(10_000, 8)
    )
    nwbfile.add_acquisition(
        TimeSeries(name=name, data=data, unit="V", rate=1000.0)
    )

# %%
# Plan the write
# --------------
# ``dry_run`` plans the write without carrying it out. It encodes one chunk of each array to estimate the total size.
# ``zarrio dry-run`` does the same for the conversion of an HDF5 file.

path = folder / "session.nwb.zarr"
plan = dry_run(nwbfile, path)
print(
    f"{plan.objects} files, {plan.stored_bytes / 1e6:.1f} MB on disk",
    f"for {plan.nbytes / 1e6:.1f} MB of values",
)

large = {p: array for p, array in plan.arrays.items() if p.endswith("/data")}
fig, ax = plt.subplots(figsize=(7, 2.2), layout="constrained")
ax.barh(
    list(large),
    [array.nbytes / 1e6 for array in large.values()],
    color="0.85",
    label="values",
)
ax.barh(
    list(large),
    [array.stored_bytes / 1e6 for array in large.values()],
    label="on disk, estimated",
)
ax.set(xlabel="MB")
ax.legend()

# %%
# Nothing is written yet. After the write, the model of the file equals the planned one.

assert not path.exists()
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

model = to_zom(path)
written = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
print("as planned:", model == to_zom(plan), f"- on disk: {written / 1e6:.1f} MB")
assert model == to_zom(plan)
assert plan.objects == sum(file.is_file() for file in path.rglob("*"))
assert abs(plan.stored_bytes - written) < 0.05 * written

# %%
# Look at the tree
# ----------------

array = model.members["acquisition"].members["noisy"].members["data"]
print(array.shape, array.chunks, array.dtype, array.compressor)
print(
    len(model.to_flat()),
    "nodes;",
    len(model.model_dump_json()),
    "characters as JSON",
)

# %%
# Compare models, and create a file
# ---------------------------------
# Models are those of pydantic-zarr: ``to_flat`` lists their nodes, ``like`` tests whether two agree. ``from_zom`` makes
# an empty file from a model.

from_zom(model, folder / "empty.zarr")
empty = to_zom(folder / "empty.zarr")
print("the same structure:", empty.like(model))
assert empty == model
