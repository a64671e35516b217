"""What work on a file costs as the file grows to 1 TB in 10^7 chunks, of an invented file in a store without a disk.

``python benchmarks/bench_scale.py`` measures each piece of work in fresh processes at 1%, 10% and 100% of the size, in
two series: more datasets, and more chunks in each. Median CPU time of five rounds, requests, bytes, and the largest
memory beyond what was there. It returns 1 if a piece that is not a scan costs more than twice as much at 100% as at 1%.
``--only S1`` takes one of the series, ``--report`` prints the tables from existing results, ``--page`` writes those of
the documentation. ``--quick`` runs everything once at a tiny size.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.harness import machine, records  # noqa: E402
from benchmarks.harness.engines import OURS, find_engines  # noqa: E402
from benchmarks.harness.interleave import Results, measure, try_out, work_folder  # noqa: E402
from benchmarks.workloads.scale import PIECES, SCANS, WORKLOADS  # noqa: E402

PAGE = ROOT / "docs" / "explanation" / "scale-figures.inc"
LIMIT = 2.0
"""Ratio of the CPU time at 100% to that at 1%, of what is not a scan."""


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tiny size, once: shows that everything runs")
    parser.add_argument("--only", default="S1,S2", help="S1: more datasets, S2: more chunks")
    parser.add_argument("--pieces", default=",".join(PIECES), help="some of the pieces of work")
    parser.add_argument("--rounds", type=int, default=5, help="how often each figure is taken (5)")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results", help="folder of the results")
    parser.add_argument("--report", action="store_true", help="no run: the tables of existing results")
    parser.add_argument("--page", action="store_true", help="write the tables of the documentation")
    arguments, _ = parser.parse_known_args()  # other benchmarks have other options
    workloads = [workload for workload in WORKLOADS if workload.name in arguments.only.split(",")]
    if arguments.report:
        made = [records.load(arguments.results / f"{workload.name}.json") for workload in workloads]
    else:
        made = _measured(workloads, arguments)
    tables = [table(record, workload.title) for record, workload in zip(made, workloads, strict=True)]
    text = "\n\n".join([_origin(made), *tables]) if made else ""
    print(text)
    if arguments.page:
        PAGE.write_text(text + "\n", encoding="utf-8")
    failures = [f"{record.workload} {key}: {why}" for record in made for key, why in record.results.failures.items()]
    slow = [] if arguments.quick else [line for record in made for line in beyond(record)]
    print("\n".join([*failures, *slow]), file=sys.stderr)
    return int(bool(failures or slow))


def _measured(workloads: list[Any], arguments: argparse.Namespace) -> list[records.Record]:
    engines, missing = find_engines((OURS,))
    command, date = "python benchmarks/bench_scale.py", datetime.now(UTC).date().isoformat()
    made = []
    with work_folder() as folder:
        origin = (command, date, machine.describe(folder), {OURS: engines[0].versions()}, missing)
        tried = try_out(workloads, engines, folder) if arguments.quick else {}
        for one in workloads:
            pieces = tuple(phase for phase in one.phases if phase.name in arguments.pieces.split(","))
            results = tried.get(one.name) or measure(
                replace(one, phases=pieces), engines, one.sizes, folder, rounds=arguments.rounds, judged=(OURS,)
            )
            made.append(records.Record(one.name, one.quick_sizes if arguments.quick else one.sizes, results, *origin))
            if not arguments.quick:
                made[-1].save(arguments.results)
    return made


def _origin(made: list[records.Record]) -> str:
    """Return the command, the date, the machine, and how many processes took each figure."""
    counts = {sum(run is not None for run in runs) for record in made for runs in record.results.runs.values()}
    taken = " to ".join(map(str, sorted({min(counts), max(counts)})))
    facts = ", ".join(f"{name} {made[0].machine[name]}" for name in ("processor", "cores", "Python"))
    return f"`{made[0].command}`, {made[0].date}, {facts}; processes for each figure: {taken}"


def median(results: Results, phase: str, size: int, figure: str) -> float:
    """Return the median of a figure over the rounds, NaN if there is none."""
    runs = [run for run in results.runs.get((phase, size, OURS), []) if run]
    return statistics.median(run[figure] for run in runs) if runs and figure in runs[0] else float("nan")


def ratio(record: records.Record, phase: str) -> float:
    """Return the CPU time at the largest size as a multiple of that at the smallest."""
    last, first = (median(record.results, phase, record.sizes[index], "cpu") for index in (-1, 0))
    return last / first


def beyond(record: records.Record) -> list[str]:
    """Return a line for each piece that is not a scan and grows by more than the limit."""
    return [
        f"{record.workload} {phase}: {ratio(record, phase):.1f} times as much at 100% as at 1%"
        for phase in PIECES
        if phase not in SCANS[record.workload] and ratio(record, phase) > LIMIT
    ]


def table(record: records.Record, title: str) -> str:
    """Return the medians of one series as a table in Markdown."""
    first, last = record.sizes[0], record.sizes[-1]
    sizes = [f"{size:,}" for size in record.sizes]
    head = [title, *(f"CPU s, {size}" for size in sizes), "ratio", "requests", "MB", "extra MiB", "a scan of"]
    rows = []
    for phase, (name, _) in PIECES.items():
        cpu = [f"{median(record.results, phase, size, 'cpu'):.3g}" for size in record.sizes]

        def ends(figure: str, unit: float = 1.0, phase: str = phase) -> str:
            return " to ".join(f"{median(record.results, phase, size, figure) / unit:,.0f}" for size in (first, last))

        moved = " to ".join(
            f"{sum(median(record.results, phase, size, way) for way in ('received', 'sent')) / 1e6:,.1f}"
            for size in (first, last)
        )
        scan = SCANS[record.workload].get(phase, "")
        rows.append([name, *cpu, f"{ratio(record, phase):.1f}", ends("requests"), moved, ends("memory"), scan])
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))


if __name__ == "__main__":
    sys.exit(main())
