"""Two hundred readers of one file on a web server, while a writer appends to it for a minute.

``python benchmarks/bench_readers.py`` writes a file with two arrays that grow together, and serves its folder on this
machine. A writer appends 1 to 200 rows in one change after the other, to arrays that outgrow their chunks at first.
Readers, in threads of a few processes, open the file, read the newest rows and two random parts of what they have
opened, pause, and begin again. Each row can be verified: its values follow from its number, and the last is their sum.

Only two errors are right: the file is changing all of an array (`IncompleteStoreError`), and an array was given other
chunks (`StoreError`: "Open the file again"). A row that is wrong, arrays of different length, a file that got shorter,
or any other error is a failure, and ends with status 1. Printed are seconds of opening and of slices: median, 99 %, the
largest. ``--quick`` takes four seconds and twenty readers.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.workloads.remote import served
from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO
from hdmf_zarr_backend.errors import IncompleteStoreError, StoreError, ZarrBackendError

NAME, SERIES, CHANNELS = "growing.nwb.zarr", "raw", 8
FIRST_ROWS = 50
OPEN_AGAIN = "Open the file again."


def rows(start: int, stop: int) -> np.ndarray:
    """Return rows by their numbers: values that follow from the number, and their sum."""
    number = np.arange(start, stop, dtype="i8")[:, None]
    values = (number + 1) * 1_000_003 + np.arange(CHANNELS - 1)
    return np.concatenate([values, values.sum(axis=1, keepdims=True)], axis=1)


def times(start: int, stop: int) -> np.ndarray:
    """Return the time of each row."""
    return np.arange(start, stop) / 1000.0 + 1.0


def make(path: Path) -> None:
    """Write the file before it grows."""
    from pynwb import NWBFile, TimeSeries

    nwbfile = NWBFile("readers and a writer", "readers", datetime(2026, 1, 1, tzinfo=UTC))
    data = ZarrDataIO(rows(0, FIRST_ROWS), maxshape=(None, CHANNELS))
    timestamps = ZarrDataIO(times(0, FIRST_ROWS), maxshape=(None,))
    nwbfile.add_acquisition(TimeSeries(name=SERIES, data=data, timestamps=timestamps, unit="V"))
    with NWBZarrIO(path, "w") as io:
        io.write(nwbfile)


def write(path: str, seconds: float) -> None:
    """Append until the time is over, and print the number of changes and of rows."""
    end, changes, length = time.monotonic() + seconds, 0, 0
    while time.monotonic() < end:
        count = random.randint(1, 200)  # noqa: S311 - no secret
        with NWBZarrIO(path, "r+") as io:
            series = io.read().acquisition[SERIES]
            length = len(series.data)
            series.data.append(rows(length, length + count))
            series.timestamps.append(times(length, length + count))
        changes, length = changes + 1, length + count
        time.sleep(0.05)
    print(f"{changes} changes; the file has {length:,} rows")


class Reader:
    """One reader: what it has seen, and the seconds that each operation took."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._length = 0
        self.seconds: dict[str, list[float]] = {"open": [], "slice": []}
        self.seen: Counter[str] = Counter()
        self.failures: list[str] = []

    def run(self, seconds: float, pause: float) -> Reader:
        """Read until the time is over."""
        end = time.monotonic() + seconds
        time.sleep(pause * random.random())  # noqa: S311 - readers do not begin together
        while time.monotonic() < end:
            try:
                self._round()
                self.seen["rounds"] += 1
            except IncompleteStoreError:
                self.seen["changing"] += 1
            except StoreError as error:
                if OPEN_AGAIN not in str(error):
                    self.failures.append(str(error))
                self.seen["open again"] += 1
            except (ZarrBackendError, AssertionError) as error:
                self.failures.append(f"{type(error).__name__}: {error}")
            time.sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - no secret
        return self

    def _round(self) -> None:
        start = time.perf_counter()
        with NWBZarrIO(self._url, "r") as io:
            series = io.read().acquisition[SERIES]
            self.seconds["open"].append(time.perf_counter() - start)
            length = len(series.data)
            assert len(series.timestamps) == length, f"{length} rows and {len(series.timestamps)} times"
            assert length >= self._length, f"{self._length} rows became {length}"
            self._length = length
            firsts = [max(0, length - 100), *(random.randrange(length) for _ in range(2))]  # noqa: S311 - no secret
            for first in firsts:
                self._verify(series, first, min(length, first + 1000))

    def _verify(self, series: Any, first: int, last: int) -> None:
        start = time.perf_counter()
        data, timestamps = series.data[first:last], series.timestamps[first:last]
        self.seconds["slice"].append((time.perf_counter() - start) / 2)
        wrong = np.flatnonzero((data != rows(first, last)).any(axis=1) | (timestamps != times(first, last)))
        assert not wrong.size, f"row {first + wrong[0]} of {self._length} is {data[wrong[0]]}"


def begin(url: str, ready: Any) -> None:
    """Read once in this process, which imports everything, and wait for the others."""
    Reader(url).run(0.1, 0.1)
    ready.wait(120)


def read(count: int, url: str, seconds: float, pause: float) -> list[Reader]:
    """Read in that many threads of this process."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(lambda _: Reader(url).run(seconds, pause), range(count)))


def main() -> int:
    """Measure and print; status 1 after any failure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="four seconds, twenty readers")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the writer appends")
    parser.add_argument("--readers", type=int, default=200, help="how many there are")
    parser.add_argument("--processes", type=int, default=4, help="how many processes they are threads of")
    parser.add_argument("--pause", type=float, default=10.0, help="seconds between two rounds of a reader")
    arguments, _ = parser.parse_known_args()  # other benchmarks have other options
    if arguments.quick:
        arguments.seconds, arguments.readers, arguments.processes, arguments.pause = 4.0, 20, 2, 0.5
    seconds, processes = arguments.seconds, arguments.processes
    with tempfile.TemporaryDirectory() as folder, served(Path(folder)) as address:
        path = Path(folder, NAME)
        make(path)
        context, url = get_context("spawn"), f"{address}/{NAME}"
        ready = context.Barrier(processes + 1)
        with context.Pool(processes, begin, (url, ready)) as pool:
            ready.wait(120)
            writer = context.Process(target=write, args=(str(path), seconds))
            writer.start()
            share = partial(read, url=url, seconds=seconds, pause=arguments.pause)
            readers = [
                reader for part in pool.map(share, [arguments.readers // processes] * processes) for reader in part
            ]
            writer.join()
        if writer.exitcode:
            readers[0].failures.append(f"the writer ended with status {writer.exitcode}")
    return _told(readers)


def _told(readers: list[Reader]) -> int:
    """Print what readers have seen; return 1 after any failure."""
    seen = sum((reader.seen for reader in readers), Counter())
    told = (
        f"{seen['changing']} while an array changed its chunks, {seen['open again']} with advice to open the file again"
    )
    print(f"{len(readers)} readers: {seen['rounds']:,} rounds without an error, {told}")
    print("| seconds | number | median | 99 % | largest |\n| --- | --- | --- | --- | --- |")
    for task in ("open", "slice"):
        taken = sorted(second for reader in readers for second in reader.seconds[task])
        tail = taken[int(len(taken) * 0.99)]
        print(f"| {task} | {len(taken):,} | {statistics.median(taken):.3f} | {tail:.3f} | {taken[-1]:.3f} |")
    failures = Counter(failure for reader in readers for failure in reader.failures)
    for failure, number in failures.most_common():
        print(f"{number} times: {failure}", file=sys.stderr)
    return int(bool(failures))


if __name__ == "__main__":
    sys.exit(main())
