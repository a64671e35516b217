"""Opens one NWB file and reads slices of a series, locally and from a server of `buckets.py`; prints what it took.

Runs in every engine's interpreter, with a JSON document as its argument, and needs nothing of this project. Each slice
is read from a file that was opened for it, at no delay: no slice finds the chunks of another one in a cache.
"""

from __future__ import annotations

import gc
import json
import sys
import time
import warnings
from contextlib import ExitStack, redirect_stdout
from typing import Any
from urllib.request import urlopen


class Reader:
    """A file that one engine reads.

    Parameters
    ----------
    task : dict
        ``kind`` of the engine; ``series``; ``slices``: ``[(name, [[first, end], ...], sum), ...]``; ``path`` or None;
        ``key`` on the server, and the ``server``; ``delays``, in seconds; ``source``, where this package is.
    """

    def __init__(self, task: dict[str, Any]) -> None:
        self._task = task
        self._delay = 0.0

    def take(self) -> list[dict[str, Any]]:
        """Return a record of each piece of work: ``place``, ``task``, ``delay`` and figures."""
        places = [("local", [0.0])] if self._task["path"] else []
        places += [("remote", self._task["delays"])] if self._task["server"] else []
        taken = []
        for place, delays in places:
            self._slice(place, 0.0, self._task["slices"][0])  # imports and types
            for delay in delays:
                taken.append(self._open(place, delay))
                taken += [self._slice(place, delay, each) for each in self._task["slices"]]
        return taken

    def _open(self, place: str, delay: float) -> dict[str, Any]:
        with ExitStack() as files, Measured(self, place, delay) as measured:
            assert self._series(place, files) is not None
            measured.end()
        return {"place": place, "task": "open", "delay": delay, **measured.figures}

    def _slice(self, place: str, delay: float, wanted: tuple[str, list[list[int]], int]) -> dict[str, Any]:
        name, bounds, total = wanted
        with ExitStack() as files:
            data = self._series(place, files).data
            with Measured(self, place, delay) as measured:
                values = data[tuple(slice(first, end) for first, end in bounds)]
                measured.end()
            found = int(values.sum(dtype="i8"))
            assert found == total, f"{name}: the sum of the values is {found}, not {total}"
        return {"place": place, "task": name, "delay": delay, **measured.figures}

    def _series(self, place: str, files: ExitStack) -> Any:
        """Open and read the file, and return the series."""
        io = self._io(self._task["path"] if place == "local" else self._task["key"], place, files)
        files.callback(io.close)
        return io.read().acquisition[self._task["series"]]

    def _io(self, location: str, place: str, files: ExitStack) -> Any:
        kind = self._task["kind"]
        url = location if place == "local" else f"{self._task['server']}/{location}"
        if kind == "ours":
            if sys.path[0] != self._task["source"]:  # it would be another one, or none: this process is isolated
                sys.path.insert(0, self._task["source"])
            from hdmf_zarr_backend import NWBZarrIO

            return NWBZarrIO(url, "r")
        if kind == "hdmf-zarr":
            from hdmf_zarr import NWBZarrIO as PeerIO

            return PeerIO(url, mode="r")
        from pynwb import NWBHDF5IO

        if place == "local" and kind != "lindi":
            return NWBHDF5IO(url, "r")
        return NWBHDF5IO(file=self._hdf5(url, location, files), mode="r")

    def _hdf5(self, url: str, key: str, files: ExitStack) -> Any:
        kind = self._task["kind"]
        if kind == "lindi":
            import lindi

            return lindi.LindiH5pyFile.from_lindi_file(url)
        import h5py

        if kind == "fsspec":
            import fsspec

            return h5py.File(files.enter_context(fsspec.open(url, "rb")), "r")
        if kind == "remfile":
            import remfile

            return h5py.File(remfile.File(url), "r")
        options = {"aws_region": b"us-east-1", "secret_id": b"k", "secret_key": b"s"}
        return h5py.File(f"s3://{key}", "r", driver="ros3", **options)

    def wait(self, delay: float) -> dict[str, int]:
        """Have the server wait so long for each request, and return what it has counted so far."""
        with urlopen(f"{self._task['server']}/-/delay/{delay}") as answer:  # noqa: S310 - our own server
            counts: dict[str, int] = json.load(answer)
        return counts


class Measured:
    """Seconds of CPU and of wall time, requests and bytes, from entering the block until `end`."""

    def __init__(self, reader: Reader, place: str, delay: float) -> None:
        self._reader = reader
        self._is_remote = place == "remote"
        self._delay = delay
        self.figures: dict[str, float] = {}

    def __enter__(self) -> Measured:
        """Begin."""
        gc.collect()
        self._before = self._reader.wait(self._delay) if self._is_remote else {}
        self._cpu, self._wall = time.process_time(), time.perf_counter()
        return self

    def end(self) -> None:
        """Take the figures; the server answers at once again."""
        self.figures = {"wall": time.perf_counter() - self._wall, "cpu": time.process_time() - self._cpu}
        if self._is_remote:
            after = self._reader.wait(0.0)
            self.figures |= {name: count - self._before[name] for name, count in after.items()}

    def __exit__(self, *_: object) -> None:
        """Have the server answer at once after an error too."""
        if self._is_remote and not self.figures:
            self._reader.wait(0.0)


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # what the engines say about the files is not the subject
    gc.disable()  # an h5py object that is collected in the thread of fsspec waits for h5py, which waits for that thread
    with redirect_stdout(sys.stderr):
        taken = Reader(json.loads(sys.argv[1])).take()
        gc.collect()
    print(json.dumps(taken))
