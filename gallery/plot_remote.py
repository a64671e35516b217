"""
Read from a web server
======================

A Zarr file can be read from any web server. The server need not list its files, nor know anything about Zarr; only
shards and zip files need one that supports byte ranges. This example uses Python's own server on this machine,
which records the requests.
"""

# %%
# Create a file, and start a server
# ---------------------------------

import tempfile
import threading
from datetime import UTC, datetime
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO

_temporary = tempfile.TemporaryDirectory(prefix="remote-")
folder = Path(_temporary.name)

rng = np.random.default_rng(4)
voltage = np.cumsum(rng.normal(0, 3, (60_000, 8)), axis=0).astype("int16")
nwbfile = NWBFile(
    session_description="simulated",
    identifier="remote",
    session_start_time=datetime(2026, 3, 14, tzinfo=UTC),
)
data = ZarrDataIO(voltage, chunks=(5000, 8))
nwbfile.add_acquisition(
    TimeSeries(name="voltage", data=data, unit="V", rate=1000.0)
)
for start in range(50):
    nwbfile.add_trial(start_time=float(start), stop_time=start + 0.5)
with NWBZarrIO(folder / "session.nwb.zarr", mode="w") as io:
    io.write(nwbfile)

asked = []


class Handler(SimpleHTTPRequestHandler):
    """Gives out files, and notes which it is asked for."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Note the path, and answer."""
        asked.append(self.path.removeprefix("/session.nwb.zarr/"))
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Print nothing."""


server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=folder))
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/session.nwb.zarr"

# %%
# Open the file
# -------------
# Only the consolidated metadata are requested: they contain the metadata of every group and array, the cached
# specifications, and all scalars. The documents of both Zarr formats are requested in parallel to find out which format
# the file has: two requests, whatever the number of objects.

io = NWBZarrIO(url, mode="r")
nwbfile = io.read()
opened = sorted(asked)
print("to open the file:", opened)

# %%
# If you name the format, one request is enough.

asked.clear()
with NWBZarrIO(url, mode="r", zarr_format=2) as io_2:
    io_2.read()
opened_by_format = list(asked)
print("with zarr_format=2:", opened_by_format)

# %%
# Read three seconds
# ------------------
# Only the chunks of the slice are requested.

asked.clear()
slice_ = nwbfile.acquisition["voltage"].data[23_500:26_500, 0]
chunks = list(asked)
print("for the slice:", chunks)

fig, ax = plt.subplots(figsize=(7, 2.2), layout="constrained")
ax.plot(np.arange(23_500, 26_500) / 1000, slice_, lw=0.7)
ax.set(
    xlabel="time (s)",
    ylabel="voltage",
    title=f"{len(opened)} requests to open, {len(chunks)} for this",
)

# %%
# Buckets work in the same way: ``NWBZarrIO("s3://bucket/session.nwb.zarr", mode="r")``, with ``storage_options`` for
# credentials. Files in buckets can also be written.

io.close()
server.shutdown()
server.server_close()
assert opened == [".zmetadata", "zarr.json"]
assert opened_by_format == [".zmetadata"]
assert sorted(chunks) == [
    "acquisition/voltage/data/4.0",
    "acquisition/voltage/data/5.0",
]
assert np.array_equal(slice_, voltage[23_500:26_500, 0])
