"""What the model of a file costs: ours against ``pydantic_zarr.GroupSpec.from_zarr``, on a file of many nodes.

``python benchmarks/bench_zom.py`` writes a file of about 5,000 nodes, takes the model of it in turns, and prints the
CPU seconds and their ratio. ``--quick`` takes a small file. The two models are compared as well.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.zom.api import to_pydantic, to_zom

TARGET = 0.05


def main() -> None:
    """Measure, print, and end with an error where the target is missed."""
    import zarr
    from pydantic_zarr.v2 import GroupSpec

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small file, one round")
    parser.add_argument("--rounds", type=int, default=5, help="how often each is measured")
    arguments, _ = parser.parse_known_args()  # options of the other benchmarks are none of ours
    groups, rounds = (20, 1) if arguments.quick else (1000, arguments.rounds)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.zarr"
        write(path, groups)
        ours, theirs = (lambda: to_zom(path)), (lambda: GroupSpec.from_zarr(zarr.open_group(path, mode="r")))
        model, spec = ours(), theirs()
        assert to_pydantic(model) == spec, "the models differ"
        seconds = {"ours": [], "pydantic-zarr": []}
        for _ in range(rounds):
            seconds["ours"].append(measured(ours))
            seconds["pydantic-zarr"].append(measured(theirs))
    ratio = statistics.median(a / b for a, b in zip(*seconds.values(), strict=True))
    print(f"{len(spec.to_flat()):,} nodes, CPU seconds (median of {rounds})")
    for name, values in seconds.items():
        print(f"{name:>15} {statistics.median(values):8.4f}   {min(values):8.4f} to {max(values):8.4f}")
    print(f"{'ratio':>15} {ratio:8.2%}   target: below {TARGET:.0%}")
    if not arguments.quick and ratio >= TARGET:
        raise SystemExit(1)


def write(path: Path, groups: int) -> None:
    """Write a file of groups with an attribute or two, and four small arrays in each."""
    children = {}
    for number in range(groups):
        name = f"trial_{number:04}"
        datasets = {
            f"data_{n}": DatasetBuilder(f"data_{n}", np.arange(n + 2), attributes={"unit": "V", "gain": 0.5})
            for n in range(4)
        }
        children[name] = GroupBuilder(name, datasets=datasets, attributes={"description": f"trial {number}"})
    with ZarrIO(path, "w") as io:
        io.write_builder(GroupBuilder("root", groups=children))


def measured(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of a call, all threads included."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
