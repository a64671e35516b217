"""
Chunks and shards: what shapes cost
===================================

A chunk is the unit of reading: to get one value, a program usually reads the whole chunk. The shape of the chunks
therefore decides which reads are fast. This example stores one recording in four shapes, and measures the time to read
a second of one channel, and of all channels.

The times are from one run on the machine that built this page. Compare them with each other only.
"""

# %%
# Write four shapes
# -----------------
# All channels for a short time; one channel for a long time; a compromise; and small chunks that are packed into
# shards. A shard is one file with many chunks, each of which can be read separately (Zarr format 3).

import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, dry_run

_temporary = tempfile.TemporaryDirectory(prefix="chunks-")
folder = Path(_temporary.name)

rate, seconds, channels = 2000, 30, 64
rng = np.random.default_rng(5)
voltage = rng.normal(0, 40, (rate * seconds, channels)).astype("int16")

shapes = {
    "flat: 500 x 64": {"chunks": (500, 64)},
    "long: 60,000 x 1": {"chunks": (60_000, 1)},
    "between: 4,000 x 8": {"chunks": (4000, 8)},
    "shards of 1,000 x 8": {"chunks": (1000, 8), "shards": (60_000, 64)},
}


def session(options: dict) -> NWBFile:
    """Return an NWB file with the recording in chunks of some shape."""
    nwbfile = NWBFile(
        session_description="simulated",
        identifier="chunks",
        session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
    )
    data = ZarrDataIO(voltage, **options)
    nwbfile.add_acquisition(
        TimeSeries(name="voltage", data=data, unit="V", rate=float(rate))
    )
    return nwbfile


# %%
# Count the files
# ---------------
# Each chunk, or each shard, is a file. ``dry_run`` reports their number before anything is written.

paths, objects = {}, {}
for number, (name, options) in enumerate(shapes.items()):
    zarr_format = 3 if "shards" in options else 2
    plan = dry_run(session(options), zarr_format=zarr_format, estimate=False)
    objects[name] = plan.arrays["/acquisition/voltage/data"].objects
    paths[name] = folder / f"{number}.nwb.zarr"
    with NWBZarrIO(paths[name], mode="w", zarr_format=zarr_format) as io:
        io.write(session(options))
    print(f"{name:22} {objects[name]:4} files")

# %%
# Measure the reads
# -----------------


def milliseconds(path: Path, select: tuple) -> float:
    """Return the time for a slice in a file just opened, the best of three."""
    times = []
    for _ in range(3):
        with NWBZarrIO(path, mode="r") as io:
            data = io.read().acquisition["voltage"].data
            begin = time.perf_counter()
            values = data[select]
            times.append(time.perf_counter() - begin)
        assert np.array_equal(values, voltage[select])
    return 1000 * min(times)


one_channel = (slice(20_000, 20_000 + rate), 5)
all_channels = (slice(20_000, 20_000 + rate), slice(None))
one = [milliseconds(path, one_channel) for path in paths.values()]
every = [milliseconds(path, all_channels) for path in paths.values()]

fig, ax = plt.subplots(figsize=(8, 3), layout="constrained")
rows = np.arange(len(paths))
ax.barh(rows - 0.2, one, 0.4, label="one channel")
ax.barh(rows + 0.2, every, 0.4, label="all channels")
ax.set_yticks(
    rows, [f"{name}\nfiles: {count}" for name, count in objects.items()]
)
ax.invert_yaxis()
ax.set(xlabel="ms for one second", xscale="log")
ax.legend()

# %%
# Conclusions
# -----------
# - Chunks of about 4 MB, the default, are a good start.
# - If you read all channels together, do not divide them between chunks. If you read single channels, do.
# - Shards keep the number of files small with chunks of any size. An append to a shard rewrites the last shard.


def chunk_files(path: Path) -> int:
    """Return the number of files with chunks of the recording."""
    files = [
        file
        for file in (path / "acquisition/voltage/data").rglob("*")
        if file.is_file()
    ]
    return sum(
        file.name not in (".zarray", ".zattrs", "zarr.json") for file in files
    )


assert {name: chunk_files(path) for name, path in paths.items()} == objects
assert list(objects.values()) == [120, 64, 120, 1]
