"""
Verify and repair
=================

This example changes a file in three ways: a flipped bit, missing chunks, and a change by another program. ``verify``
finds all of them. The first two need a backup; the last one can be repaired.
"""

# %%
# Write a file with checksums
# ---------------------------
# Zstandard adds a checksum to each chunk, so that a flipped bit is detected. Blosc, the default, has none.

import shutil
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numcodecs
import numpy as np
import zarr
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, consolidate, repair, verify

_temporary = tempfile.TemporaryDirectory(prefix="verify-")
path = Path(_temporary.name) / "session.nwb.zarr"

voltage = np.random.default_rng(9).normal(0, 50, (40_000, 4)).astype("int16")
nwbfile = NWBFile(
    session_description="simulated",
    identifier="verify",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
data = ZarrDataIO(voltage, chunks=(1000, 4), compressor=numcodecs.Zstd(level=1))
nwbfile.add_acquisition(
    TimeSeries(name="voltage", data=data, unit="V", rate=1000.0)
)
with NWBZarrIO(path, mode="w") as io:
    io.write(nwbfile)

report = verify(path)
print(
    "sound:",
    report.is_sound,
    "-",
    report.groups,
    "groups,",
    report.arrays,
    "arrays,",
    report.chunks,
    "chunks",
)
assert report.is_sound

# %%
# Flip a bit and delete two chunks
# --------------------------------

chunks = path / "acquisition/voltage/data"
backup = Path(_temporary.name) / "backup"
shutil.copytree(chunks, backup)

flipped = bytearray((chunks / "17.0").read_bytes())
flipped[len(flipped) // 2] ^= 1
(chunks / "17.0").write_bytes(flipped)
for lost in (25, 26):
    (chunks / f"{lost}.0").unlink()

report = verify(path)
for problem in report.problems:
    print(problem)
damaged = report.counts

# %%
# Missing chunks read as zeros, which look like data. This is why files should be verified. Thanks to the checksum, the
# flipped bit is an error when it is read.

with NWBZarrIO(path, mode="r") as io:
    shown = io.read().acquisition["voltage"].data[20_000:32_000, 0]

fig, ax = plt.subplots(figsize=(7, 2.2), layout="constrained")
ax.plot(np.arange(20_000, 32_000) / 1000, shown, lw=0.4)
ax.axvspan(25, 27, color="tab:red", alpha=0.2)
ax.set(xlabel="time (s)", ylabel="voltage", title="two seconds are missing")

# %%
# Lost values cannot be restored. The finding names the object; copy those files from a backup.

for name in ("17.0", "25.0", "26.0"):
    shutil.copy(backup / name, chunks / name)
assert verify(path).is_sound

# %%
# Change the file with another program
# ------------------------------------
# zarr-python does not update the consolidated metadata when it changes an attribute. Readers use these metadata, so
# they do not see the change.

group = zarr.open_group(path, mode="r+", use_consolidated=False)
group["acquisition/voltage/data"].attrs["unit"] = "uV"

stale = verify(path).problems
print(*stale, sep="\n")

# %%
# If the change is right, consolidate the file again; ``repair`` does this if nothing is lost.

repairs = repair(path)
print(repairs.done, repairs.left)

with NWBZarrIO(path, mode="r") as io:
    unit = io.read().acquisition["voltage"].unit

consolidate(path)  # the same, without a look at what is wrong
assert damaged["chunk-damaged"] == 1
assert (
    damaged["chunk-missing"] == 1
)  # a finding for each array, which names its chunks
assert not shown[5000:7000].any()
assert {problem.kind for problem in stale} == {"consolidated-stale"}
assert unit == "uV"
assert verify(path).is_sound
