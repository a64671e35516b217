"""How the time to open a file grows with the number of objects in it.

``python benchmarks/bench_open.py`` writes NWB files with 100 to 10,000 time series and as many units, and measures in
fresh processes, the engines in turn: *open* is opening and reading; *slice* is that and ten values of one series;
*touch* is that and the length of each dataset. CPU time of a warm process (the second time in it), median of five
rounds; *memory* is what the open file takes. ``--before SRC`` adds another commit of this package, by its ``src``;
``--page`` writes the table and the picture of the performance page. ``--quick`` runs the smallest size once.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness.engines import BASE, OURS, PEER_3, Engine, find_engines
from hdmf_zarr_backend import NWBZarrIO
from tests.peers import PeerError

SIZES = (100, 1000, 1600, 10000)
LARGEST_OF_PEERS = 1600
"""hdmf-zarr takes minutes for more."""
EAGER, BEFORE = "ours, lazy=False", "before"
TASKS = ("open", "slice", "touch")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation"

_JOB = """
import json, resource, sys, time, warnings
warnings.simplefilter("ignore")
kind, path, tasks, number = sys.argv[1], sys.argv[2], sys.argv[3].split(","), int(sys.argv[4])
sys.path[:0] = sys.argv[5:]  # the source of another commit
if kind == "HDF5":
    from pynwb import NWBHDF5IO as IO
elif kind.startswith("hdmf-zarr"):
    from hdmf_zarr import NWBZarrIO as IO
else:
    from hdmf_zarr_backend import NWBZarrIO as IO
options = {"lazy": False} if kind.endswith("lazy=False") else {}

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20

def run(task):
    start = time.process_time()
    io = IO(path, mode="r", **options)
    nwbfile = io.read()
    if task == "slice":
        nwbfile.acquisition[f"series_{number // 2:05}"].data[:10]
    if task == "touch":
        for each in nwbfile.objects.values():
            if getattr(each, "data", None) is not None:
                len(each.data)
    return time.process_time() - start, io, nwbfile

run("slice")
before = resident()
kept = run("open")
memory = resident() - before
print(json.dumps({**{task: run(task)[0] for task in tasks}, "memory": memory}))
"""


def nwbfile_of(size: int) -> NWBFile:
    """Return a file with ``size`` time series and ``size`` units."""
    nwbfile = NWBFile("many series", str(size), datetime(2024, 1, 1, tzinfo=UTC))
    for number in range(size):
        series = TimeSeries(name=f"series_{number:05}", data=np.arange(100.0) + number, unit="V", rate=10.0)
        nwbfile.add_acquisition(series)
        nwbfile.add_unit(spike_times=[0.5 * number, 0.5 * number + 1.0])
    return nwbfile


def write_files(folder: Path, size: int) -> dict[str, Path]:
    """Write the file of one size for each engine."""
    files = {
        name: folder / f"{size}{suffix}" for name, suffix in (("HDF5", ".nwb"), ("2", ".2.zarr"), ("3", ".3.zarr"))
    }
    with NWBHDF5IO(files["HDF5"], "w") as io:
        io.write(nwbfile_of(size))
    for zarr_format in (2, 3):
        with NWBZarrIO(files[str(zarr_format)], "w", zarr_format=zarr_format) as io:
            io.write(nwbfile_of(size))
    return files


def file_of(engine: str, files: dict[str, Path]) -> Path:
    """Return the file that an engine reads."""
    return files["HDF5" if engine == "HDF5" else "3" if engine == PEER_3 else "2"]


def engines_of(before: str | None) -> list[Engine]:
    """Return the engines that are there."""
    found, missing = find_engines((OURS, "HDF5", BASE, PEER_3))
    for name, reason in missing.items():
        print(f"{name}: not measured: {reason}", file=sys.stderr)
    ours = found[0]
    more = [replace(ours, name=EAGER)]
    if before is not None:
        more.append(replace(ours, name=BEFORE, environment={BEFORE: before}))
    return [ours, *more, *found[1:]]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", help="src of another commit")
    parser.add_argument("--quick", action="store_true", help="the smallest size, once")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    parser.add_argument("--page", action="store_true", help="write the table and the picture of the documentation")
    arguments, _ = parser.parse_known_args()  # other benchmarks have other options
    sizes = SIZES[:1] if arguments.quick else SIZES
    engines = engines_of(arguments.before)
    found: dict[tuple[str, int], dict[str, list[float]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        files = {size: write_files(Path(folder), size) for size in sizes}
        for _ in range(1 if arguments.quick else arguments.rounds):
            for size in sizes:
                for engine in engines:
                    if engine.is_peer and size > LARGEST_OF_PEERS:
                        continue
                    answer = measured(engine, file_of(engine.name, files[size]), size)
                    for task, value in answer.items():
                        found.setdefault((engine.name, size), {}).setdefault(task, []).append(value)
    medians = {key: {task: statistics.median(values) for task, values in tasks.items()} for key, tasks in found.items()}
    text = table(medians, [engine.name for engine in engines], sizes)
    print(text)
    if arguments.page:
        (PAGE / "open-time.inc").write_text(text + "\n", encoding="utf-8")
        (PAGE / "open-time.svg").write_text(picture(medians, [engine.name for engine in engines]), encoding="utf-8")


def measured(engine: Engine, path: Path, size: int) -> dict[str, float]:
    """Return the figures of one process, none where the engine fails."""
    tasks = ("open", "slice") if size > 2000 and engine.name != OURS else TASKS
    kind = OURS if engine.name == BEFORE else engine.name
    before = (engine.environment[BEFORE],) if engine.name == BEFORE else ()
    try:
        answer: dict[str, float] = engine.interpreter.run(
            _JOB, kind, str(path), ",".join(tasks), str(size), *before, env=engine.environment, timeout=900
        )
    except PeerError as error:
        print(f"{engine.name}, {size}: {str(error).splitlines()[-1]}", file=sys.stderr)
        return {}
    return answer


def table(medians: dict[tuple[str, int], dict[str, float]], engines: list[str], sizes: tuple[int, ...]) -> str:
    """Return the medians as a table in Markdown."""
    lines = ["| series and units | engine | open, ms | open + slice, ms | open + touch all, ms | memory, MiB |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for size in sizes:
        for engine in engines:
            row = medians.get((engine, size))
            if row:
                cells = [f"{row[task] * 1000:,.0f}" if task in row else "" for task in TASKS]
                lines.append(f"| {size:,} | {engine} | {' | '.join(cells)} | {row['memory']:.0f} |")
    return "\n".join(lines)


_DARK = """<style>@media (prefers-color-scheme: dark) {
rect { fill: #131416 } text { fill: #e6e9ec } line { stroke: #34393f } polyline, circle { filter: brightness(1.5) }
}</style>"""

_COLORS = ("#0b62a4", "#6aaed6", "#8e44ad", "#7a7a7a", "#c0392b", "#e08e0b")


def picture(medians: dict[tuple[str, int], dict[str, float]], engines: list[str]) -> str:
    """Return the curves of opening as SVG, both axes logarithmic."""
    shown = [engine for engine in engines if engine not in (EAGER, BEFORE)]
    width, height, left, right, top, bottom = 760, 420, 70, 190, 40, 55
    times = [row["open"] for (engine, _), row in medians.items() if engine in shown]
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))
    first, last = math.log10(SIZES[0]), math.log10(SIZES[-1])

    def place(size: float, seconds: float) -> tuple[float, float]:
        x = left + (math.log10(size) - first) / (last - first) * (width - left - right)
        y = height - bottom - (math.log10(seconds) - low) / (high - low) * (height - top - bottom)
        return round(x, 1), round(y, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">',
        "<title>CPU time to open and read a file, by the number of objects</title>",
        _DARK,
        f'<rect width="{width}" height="{height}" fill="white"/><g font-size="13">',
        f'<text x="{left}" y="22" font-weight="bold">CPU seconds to open and read a file</text>',
        f'<text x="{left}" y="{height - 12}">number of time series, and of units</text>',
    ]
    for power in range(low, high + 1):
        y = place(SIZES[0], 10**power)[1]
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y}" y2="{y}" stroke="#d8d8d8"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4}" text-anchor="end">{10.0**power:g} s</text>')
    for size in (100, 1000, 10000):
        x = place(size, 10**low)[0]
        parts.append(f'<text x="{x}" y="{height - bottom + 20}" text-anchor="middle">{size:,}</text>')
    for number, (engine, color) in enumerate(zip(shown, _COLORS, strict=False)):
        points = [place(size, medians[engine, size]["open"]) for size in SIZES if medians.get((engine, size))]
        path = " ".join(f"{x},{y}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x}" cy="{y}" r="4" fill="{color}"/>' for x, y in points]
        label = "hdmf-zarr-backend" if engine == OURS else "NWBHDF5IO" if engine == "HDF5" else engine
        y = top + 20 + 22 * number
        parts.append(f'<circle cx="{width - right + 20}" cy="{y}" r="5" fill="{color}"/>')
        parts.append(f'<text x="{width - right + 32}" y="{y + 4}">{label}</text>')
    return "\n".join([*parts, "</g></svg>"]) + "\n"


if __name__ == "__main__":
    main()
