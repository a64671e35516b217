"""Compare this working tree with another commit of this package on small files, in one run.

``python benchmarks/bench_before.py --before ../other/src`` (or ``HDMF_ZARR_BACKEND_BEFORE``) names the ``src`` of
a worktree of the other commit; both run in this interpreter. Each job runs in fresh processes, the two trees in turn,
and each process does it several times: *first* includes all imports, as a user of the command line pays for them;
*again* is the median of the others. CPU time includes all threads. Ratios are taken within each round, and the median
over the rounds is printed, in CPU time and in wall time. ``--limit`` is the ratio of CPU times that is accepted for
every job, instead of ``LIMITS``. ``--quick`` runs each job once; without another commit it compares the working tree
with itself.
"""

from __future__ import annotations

import argparse
import compileall
import io
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, Literal

PACKAGE = "hdmf_zarr_backend"
ENGINES = ("before", "now")
FIGURES = ("first", "again")
REPEATS = 5
"""How often a process does its job, after the first time."""

LIMITS = {("hdf5 -> zarr 2", "first"): 0.6, ("hdf5 -> zarr 3", "first"): 0.6, ("open, append a row", "first"): 1.0,
          ("open, append a row", "again"): 1.0}  # fmt: skip
"""Largest ratio that is accepted for some figures; 1.05 for the others."""

MODULES = 120
"""Modules of this package that opening and reading a file may load."""

Work = Callable[[], Any]


def main() -> int:
    """Measure, print, and return 1 where the working tree is slower than it may be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", default=os.environ.get("HDMF_ZARR_BACKEND_BEFORE"), help="src of the other commit")
    parser.add_argument("--quick", action="store_true", help="one round, no verdict")
    parser.add_argument("--rounds", type=int, default=5, help="how often each job is measured")
    parser.add_argument("--limit", type=float, help="largest ratio of CPU times that is accepted, for all jobs")
    parser.add_argument("--only", default="", help="jobs whose name contains this")
    parser.add_argument("--file", help="an NWB file in HDF5 to take instead of the one that is made")
    parser.add_argument("--job", nargs=2, help=argparse.SUPPRESS)  # name and folder: what the processes are called with
    arguments, _ = parser.parse_known_args()  # other benchmarks have other options
    if arguments.job:
        print(json.dumps(run_job(arguments.job[0], Path(arguments.job[1]))))
        return 0
    now = str(Path(__file__).resolve().parents[1] / "src")
    sources = {"before": arguments.before or now, "now": now}
    rounds = 1 if arguments.quick else arguments.rounds
    with tempfile.TemporaryDirectory() as name:
        sources = {engine: compiled(source, Path(name) / f"{engine}-src") for engine, source in sources.items()}
        folders = {engine: Path(name) / engine for engine in ENGINES}
        for engine, folder in folders.items():
            folder.mkdir()
            make_or_copy(
                folder / "small.nwb", arguments.file if engine == "before" else folders["before"] / "small.nwb"
            )
            start("prepare", folder, sources[engine])
        jobs = [job for job in JOBS if arguments.only in job]
        taken = {job: [measure(job, folders, sources, number) for number in range(rounds)] for job in jobs}
        modules = {engine: start("modules", folders[engine], sources[engine])["modules"] for engine in ENGINES}
    slow = report(taken, modules, arguments.limit)
    return int(bool(slow) and not arguments.quick)


def compiled(source: str, copy: Path) -> str:
    """Return a copy of a source tree with bytecode for all modules, as an installed package has."""
    shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
    compileall.compile_dir(copy, quiet=1)
    return str(copy)


def measure(job: str, folders: dict[str, Path], sources: dict[str, str], number: int) -> dict[str, Any]:
    """Return what each engine takes for a job; every second round begins with the other engine."""
    order = ENGINES if number % 2 == 0 else ENGINES[::-1]
    return {engine: start(job, folders[engine], sources[engine]) for engine in order}


def start(job: str, folder: Path, source: str) -> Any:
    """Return what a fresh process returns of a job."""
    command = [sys.executable, "-W", "ignore", str(Path(__file__).resolve()), "--job", job, str(folder)]
    environment = {**os.environ, "PYTHONPATH": source}
    answer = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(answer.stdout.splitlines()[-1])


def report(taken: dict[str, list[dict[str, Any]]], modules: dict[str, int], all_jobs: float | None = None) -> list[str]:
    """Print the figures as a table, and return the jobs that take longer than they may."""
    slow = []
    print("| job | CPU s before, now: first | ratio (wall) | CPU s before, now: again | ratio (wall) |")
    print("| --- | --- | --- | --- | --- |")
    for job, rounds in taken.items():
        cells = []
        for figure in FIGURES:
            limit = all_jobs or LIMITS.get((job, figure), 1.05)
            before, now = (statistics.median(one[engine]["cpu"][figure] for one in rounds) for engine in ENGINES)
            cpu, wall = (
                statistics.median(one["now"][clock][figure] / one["before"][clock][figure] for one in rounds)
                for clock in ("cpu", "wall")
            )
            cells.append(f"{before:.3f}, {now:.3f} | {cpu:.2f} ({wall:.2f}), at most {limit}")
            if cpu > limit:
                slow.append(f"{job}, {figure}: {cpu:.2f} where {limit} is accepted")
        print(f"| {job} | {' | '.join(cells)} |")
    print(f"\nmodules loaded by open and read: {modules['before']} before, {modules['now']} now; accepted: {MODULES}")
    if modules["now"] > MODULES:
        slow.append(f"open and read loads {modules['now']} modules where {MODULES} are accepted")
    print("\n".join(slow))
    return slow


# ---- in the processes -----------------------------------------------------------------------------------------------


def run_job(job: str, folder: Path) -> dict[str, Any]:
    """Do a job, and return its figures."""
    if job == "prepare":
        return prepare(folder)
    if job == "modules":
        JOBS["open, read"](folder, 0)()
        return {"modules": sum(name.split(".")[0] == PACKAGE for name in sys.modules)}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        shutil.copytree(folder, Path(name) / "files", ignore=shutil.ignore_patterns("tmp*"))
        works = [JOBS[job](Path(name) / "files", number) for number in range(REPEATS + 1)]
        times = [timed(work) for work in works]
    clocks = {"cpu": [cpu for cpu, _ in times], "wall": [wall for _, wall in times]}
    return {name: {"first": each[0], "again": statistics.median(each[1:])} for name, each in clocks.items()}


def timed(work: Work) -> tuple[float, float]:
    """Return CPU seconds, all threads included, and seconds of a call."""
    cpu, wall = time.process_time(), time.perf_counter()
    with redirect_stdout(io.StringIO()):
        work()
    return time.process_time() - cpu, time.perf_counter() - wall


def make_or_copy(path: Path, source: str | Path | None) -> None:
    """Make the small file, unless there is one to take."""
    if source is not None:
        shutil.copy(source, path)
        return
    from pynwb import NWBHDF5IO

    with NWBHDF5IO(path, "w") as file:
        file.write(small_file())


def small_file() -> Any:
    """Return an NWB file with a time series, electrodes, trials and spike times, of some kilobytes."""
    from datetime import UTC, datetime

    import numpy as np
    from pynwb import NWBFile, TimeSeries
    from pynwb.ecephys import ElectricalSeries

    file = NWBFile(
        session_description="a small session", identifier="small", session_start_time=datetime(2026, 3, 14, tzinfo=UTC)
    )
    device = file.create_device("probe")
    group = file.create_electrode_group("shank", description="a shank", location="V1", device=device)
    for _ in range(4):
        file.add_electrode(location="V1", group=group)
    electrodes = file.create_electrode_table_region(list(range(4)), "all electrodes")
    voltages = np.arange(4000, dtype="i2").reshape(1000, 4)
    file.add_acquisition(ElectricalSeries(name="raw", data=voltages, electrodes=electrodes, rate=30000.0))
    speeds, times = np.linspace(0, 1, 500), np.arange(500.0)
    file.add_acquisition(TimeSeries(name="speed", data=speeds, unit="m/s", timestamps=times))
    for number in range(10):
        file.add_trial(start_time=float(number), stop_time=number + 0.5)
        file.add_unit(spike_times=np.arange(number + 1.0))
    return file


def prepare(folder: Path) -> dict[str, Any]:
    """Make the files in Zarr of which the jobs read."""
    from hdmf_zarr_backend import convert

    for number in (2, 3):
        convert(folder / "small.nwb", folder / f"small.{number}.zarr", zarr_format=number)
    return {}


def _to_zarr(zarr_format: Literal[2, 3], *, check: bool = True) -> Callable[[Path, int], Work]:
    def job(folder: Path, number: int) -> Work:
        def work() -> None:
            from hdmf_zarr_backend import convert

            convert(folder / "small.nwb", folder / f"made{number}.zarr", zarr_format=zarr_format, check=check)

        return work

    return job


def _to_hdf5(zarr_format: Literal[2, 3], *, check: bool = True) -> Callable[[Path, int], Work]:
    def job(folder: Path, number: int) -> Work:
        def work() -> None:
            from hdmf_zarr_backend import convert

            convert(folder / f"small.{zarr_format}.zarr", folder / f"made{number}.nwb", check=check)

        return work

    return job


def _read(folder: Path, number: int) -> Work:
    def work() -> None:
        from hdmf_zarr_backend import NWBZarrIO

        NWBZarrIO(folder / "small.2.zarr", "r").read()

    return work


def _append(folder: Path, number: int) -> Work:
    path = shutil.copytree(folder / "small.2.zarr", folder / f"appended{number}.zarr")

    def work() -> None:
        from hdmf_zarr_backend import NWBZarrIO

        with NWBZarrIO(path, "r+") as file:
            read = file.read()
            read.trials.add_row(start_time=20.0, stop_time=20.5)
            file.write(read)

    return work


def _write(folder: Path, number: int) -> Work:
    content = small_file()

    def work() -> None:
        from hdmf_zarr_backend import NWBZarrIO

        with NWBZarrIO(folder / f"made{number}.zarr", "w") as file:
            file.write(content)

    return work


def _slice(folder: Path, number: int) -> Work:
    def work() -> None:
        from hdmf_zarr_backend import NWBZarrIO

        with NWBZarrIO(folder / "small.2.zarr", "r") as file:
            assert file.read().acquisition["raw"].data[100:200, 2].shape == (100,)

    return work


def _compare(folder: Path, number: int) -> Work:
    def work() -> None:
        from hdmf_zarr_backend import compare  # the command has another name in earlier commits

        assert not list(compare(folder / "small.2.zarr", folder / "small.3.zarr"))

    return work


def _command(*words: str) -> Callable[[Path, int], Work]:
    def job(folder: Path, number: int) -> Work:
        def work() -> None:
            from hdmf_zarr_backend.cli.main import main as command

            assert command([word.format(folder=folder) for word in words]) == 0

        return work

    return job


def _upgrade(folder: Path, number: int) -> Work:
    path = shutil.copytree(folder / "small.2.zarr", folder / f"upgraded{number}.zarr")

    def work() -> None:
        from hdmf_zarr_backend import upgrade

        upgrade(path)

    return work


JOBS: dict[str, Callable[[Path, int], Work]] = {
    "hdf5 -> zarr 2": _to_zarr(2),
    "hdf5 -> zarr 3": _to_zarr(3),
    "zarr 2 -> hdf5": _to_hdf5(2),
    "zarr 3 -> hdf5": _to_hdf5(3),
    "hdf5 -> zarr 2, unchecked": _to_zarr(2, check=False),
    "hdf5 -> zarr 3, unchecked": _to_zarr(3, check=False),
    "zarr 2 -> hdf5, unchecked": _to_hdf5(2, check=False),
    "zarr 3 -> hdf5, unchecked": _to_hdf5(3, check=False),
    "open, read": _read,
    "open, append a row": _append,
    "write": _write,
    "open, read a slice": _slice,
    "compare": _compare,
    "inspect": _command("inspect", "{folder}/small.2.zarr"),
    "upgrade": _upgrade,
}

if __name__ == "__main__":
    sys.exit(main())
