"""
Read from a web server
======================

A Zarr file can be read from any web server that gives out files. It need not list what it has, nor know anything of
Zarr. Here the server is one of Python's own, on this machine, and it notes what it is asked for.
"""

# %%
# A file, and a server for it
# ---------------------------

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
    session_description="simulated", identifier="remote", session_start_time=datetime(2026, 3, 14, tzinfo=UTC)
)
data = ZarrDataIO(voltage, chunks=(5000, 8))
nwbfile.add_acquisition(TimeSeries(name="voltage", data=data, unit="V", rate=1000.0))
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
# Open it
# -------
# The consolidated document is all that has to be fetched: it has the metadata of every group and array, the cached
# specifications, and all scalars. Which of the two formats of Zarr it is, is found by asking for the documents of both
# at once: two requests in one round, whatever the number of objects.

io = NWBZarrIO(url, mode="r")
nwbfile = io.read()
opened = sorted(asked)
print("to open the file:", opened)

# %%
# Who knows the format says it, and there is one.

asked.clear()
with NWBZarrIO(url, mode="r", zarr_format=2) as told:
    told.read()
opened_as_told = list(asked)
print("and when the format is told:", opened_as_told)

# %%
# Read three seconds
# ------------------
# Only the chunks of the slice are fetched.

asked.clear()
slice_ = nwbfile.acquisition["voltage"].data[23_500:26_500, 0]
chunks = list(asked)
print("for the slice:", chunks)

fig, ax = plt.subplots(figsize=(7, 2.2), layout="constrained")
ax.plot(np.arange(23_500, 26_500) / 1000, slice_, lw=0.7)
ax.set(xlabel="time (s)", ylabel="voltage", title=f"{len(opened)} requests to open, {len(chunks)} for this")

# %%
# Buckets work the same way: ``NWBZarrIO("s3://bucket/session.nwb.zarr", mode="r")``, with ``storage_options`` for what
# the server has to be told. Those can be written, too.

io.close()
server.shutdown()
server.server_close()
assert opened == [".zmetadata", "zarr.json"]
assert opened_as_told == [".zmetadata"]
assert sorted(chunks) == ["acquisition/voltage/data/4.0", "acquisition/voltage/data/5.0"]
assert np.array_equal(slice_, voltage[23_500:26_500, 0])
