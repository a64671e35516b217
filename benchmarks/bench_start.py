"""What it costs to start the command line: CPU seconds of ``--help``, ``inspect`` and ``diff --structure``.

``python benchmarks/bench_start.py`` runs each several times on a small local file, in processes of their own, and takes
the least: the first run may compile, and the machine may be busy with others. ``--quick`` runs each once.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO

TARGET = 0.3
"""CPU seconds (issue "For people", part 4)."""


def main() -> None:
    """Measure, print, and end with an error where the target is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one run each")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is measured")
    arguments, _ = parser.parse_known_args()  # options of the other benchmarks are none of ours
    rounds = 1 if arguments.quick else arguments.rounds
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "small.zarr")
        with ZarrIO(path, "w") as io:
            io.write_builder(GroupBuilder("root", datasets={"numbers": DatasetBuilder("numbers", np.arange(10))}))
        calls = [["--help"], ["inspect", path], ["compare", path, path, "--structure"]]
        taken = {
            " ".join(word for word in call if word != path): [measured(call) for _ in range(rounds)] for call in calls
        }
    for call, seconds in taken.items():
        print(f"zarrio {call:20} {min(seconds):.3f} CPU s at least, {max(seconds):.3f} at most; target: below {TARGET}")
    if not arguments.quick and any(min(seconds) >= TARGET for seconds in taken.values()):
        raise SystemExit(1)


def measured(call: list[str]) -> float:
    """Return the CPU seconds of one call of the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "hdmf_zarr_backend.cli.main", *call]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


if __name__ == "__main__":
    main()
