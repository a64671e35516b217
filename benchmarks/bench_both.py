"""What a file in both formats costs beside one in format 2, and the part of it that no writer can avoid.

``python benchmarks/bench_both.py`` writes an NWB file of 1,600 series in format 2 and in both, in turn, and takes the
CPU time: the ratio, and the floor, which is creating the files of format 3 beside those of format 2 and nothing else.
Then it converts the NWB files of more than ``--bytes`` in the folder ``HDMF_ZARR_BACKEND_NWBFILES`` both ways, and
compares the bytes: with all documents of format 3, those in the root included, and without them.
"""

from __future__ import annotations

import argparse
import gc
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, convert

FORMATS: tuple[Literal[2, "both"], ...] = (2, "both")


def nwbfile(count: int) -> NWBFile:
    """Return a file with so many series."""
    file = NWBFile(session_description="both", identifier="both", session_start_time=datetime(2026, 1, 1, tzinfo=UTC))
    for number in range(count):
        data = np.arange(100, dtype="i2") + number
        file.add_acquisition(TimeSeries(name=f"series{number}", data=data, unit="V", rate=10.0))
    return file


def seconds(work: Callable[..., Any], *arguments: Any) -> float:
    """Return the CPU time of some work."""
    gc.collect()
    start = time.process_time()
    work(*arguments)
    return time.process_time() - start


def write(path: Path, file: NWBFile, zarr_format: Literal[2, "both"]) -> None:
    """Write a file."""
    with NWBZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write(file)


def create(root: Path, documents: dict[str, bytes]) -> None:
    """Create the documents of format 3 below a file of format 2, as cheaply as the system allows."""
    for name, text in documents.items():
        file = os.open(root / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        os.write(file, text)
        os.close(file)


def size(root: Path) -> tuple[int, int]:
    """Return the bytes of a file, and those of the documents of format 3 in it."""
    files = [each for each in root.rglob("*") if each.is_file()]
    total = sum(each.stat().st_size for each in files)
    return total, sum(each.stat().st_size for each in files if each.name == "zarr.json")


def main() -> int:
    """Measure, and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--series", type=int, default=1600)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--bytes", type=int, default=10**6)
    parser.add_argument("--quick", action="store_true", help="10 series, one round, files of any size")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.series, arguments.rounds, arguments.bytes = 10, 1, 2_000_000
    ratios, floors = [], []
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings(action="ignore"):
        folder = Path(name)
        write(folder / "warm.zarr", nwbfile(10), "both")
        for number in range(arguments.rounds):
            paths = {kind: folder / f"{number} {kind}.zarr" for kind in (FORMATS if number % 2 else FORMATS[::-1])}
            taken = {kind: seconds(write, path, nwbfile(arguments.series), kind) for kind, path in paths.items()}
            both = paths["both"]
            texts = {str(each.relative_to(both)): each.read_bytes() for each in both.rglob("zarr.json")}
            ratios.append(taken["both"] / taken[2])
            floors.append(1 + seconds(create, paths[2], texts) / taken[2])
        print(f"write {arguments.series} series in both formats, by format 2: {statistics.median(ratios):.2f}")
        print(f"the files of format 3 alone, by format 2: {statistics.median(floors):.2f}")
        for source in sorted(Path(os.environ.get("HDMF_ZARR_BACKEND_NWBFILES", os.devnull)).glob("*.nwb")):
            if source.stat().st_size < arguments.bytes:
                continue
            sizes = {}
            for kind in FORMATS:
                target = folder / f"{source.stem} {kind}.zarr"
                convert(source, target, zarr_format=kind, check=False)
                sizes[kind] = size(target)
            (total, documents), before = sizes["both"], sizes[2][0]
            without = (total - documents) / before
            print(f"{source.name}: bytes by those of format 2: {total / before:.3f}; without documents {without:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
