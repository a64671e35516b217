"""The tables, in Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from benchmarks.harness.engines import BASE, NAMES, OURS, OURS_3
from benchmarks.harness.job import Workload
from benchmarks.harness.records import Record
from benchmarks.harness.targets import TARGETS, Figures, Line, Value, judge

_OTHERS = ("hdmf-zarr 0.14", "HDF5", "hdmf alone", "files alone")
_LABELS = {OURS: "this package", OURS_3: "this package, format 3", "hdmf": "hdmf alone", "files": "files alone"}


def lines(records: Sequence[Record]) -> list[Line]:
    """Hold the records against all targets of their workloads."""
    results = {record.workload: record.results for record in records}
    figures = Figures(results, {record.workload: record.sizes for record in records})
    return [judge(target, figures) for target in TARGETS if target.ours.workload in results]


def targets_table(judged: Iterable[Line]) -> str:
    """Return the table of targets and verdicts."""
    head = ["work", "this package", "target", "verdict", *_OTHERS]
    rows = []
    for line in judged:
        target = line.target
        limit = f"{'>=' if target.at_least else '<='} {_number(target.limit)} {target.unit}".strip()
        ours = _spread(line.ours, target.unit) if line.ours else line.reason
        rows.append([target.work, ours, limit, line.verdict, *(_median(line.others.get(name)) for name in _OTHERS)])
    return _table(head, rows)


def cells_table(record: Record, workload: Workload) -> str:
    """Return all figures of one workload."""
    head = ["", "n", "engine", "CPU s", "c", "wall s", "extra MiB", "files", "stored MB", "file operations"]
    rows = []
    for phase in workload.phases:
        for size in record.sizes:
            rows += [
                [phase.title, f"{size:,}", _LABELS.get(engine, engine), *row]
                for engine in NAMES
                if (row := _cell(record, phase.name, size, engine)) is not None
            ]
    return _table(head, rows)


def _cell(record: Record, phase: str, size: int, engine: str) -> list[str] | None:
    key = (phase, size, engine)
    runs = [run for run in record.results.runs.get(key, []) if run]
    if not runs:
        failure = record.results.failures.get(key)
        return None if failure is None else [_cut(failure), *[""] * 6]
    base = record.results.runs.get((phase, size, BASE), [])
    ratios = [
        run["cpu"] / other["cpu"]
        for run, other in zip(record.results.runs[key], base, strict=False)
        if run and other and other["cpu"]
    ]
    operations = record.results.operations.get(key) or {}
    return [
        _range([run["cpu"] for run in runs]),
        _number(statistics.median(ratios)) if ratios else "",
        _range([run["wall"] for run in runs]),
        f"{max(run['memory'] for run in runs):.0f}" if "memory" in runs[0] else "",
        f"{runs[0]['files']:,}" if "files" in runs[0] else "",
        f"{runs[0]['bytes'] / 1e6:.1f}" if "bytes" in runs[0] else "",
        _operations(operations, runs[0]),
    ]


def _operations(operations: dict[str, int], run: dict[str, float]) -> str:
    told = [f"{count:,.0f} {name}" for name, count in sorted(operations.items())]
    if "requests" in run:
        told = [f"{run['requests']:.0f} requests", f"{run['received'] / 1e6:.2f} MB"]
    return ", ".join(told)


def provenance(records: Sequence[Record]) -> str:
    """Return how, when and with what the figures were made."""
    text = []
    for command in dict.fromkeys(record.command for record in records):
        same = [record for record in records if record.command == command]
        rounds = sorted({record.results.rounds for record in same})
        dates = sorted({record.date for record in same})
        names = ", ".join(record.workload for record in same)
        when = " to ".join(dict.fromkeys((dates[0], dates[-1])))
        text.append(f"- `{command}`: {names}; {when}; {' or '.join(map(str, rounds))} interleaved rounds")
    machine = records[-1].machine
    text.append("- machine: " + ", ".join(f"{name} {value}" for name, value in machine.items()))
    versions = {engine: found for record in records for engine, found in record.engines.items()}
    for engine in (name for name in NAMES if name in versions):
        packages = ", ".join(f"{name} {version}" for name, version in versions[engine].items())
        switch = ", with `NUMCODECS_ALLOW_UNSAFE_PICKLE_DECODE=1`" if engine == BASE else ""
        text.append(f"- {_LABELS.get(engine, engine)}: {packages}{switch}")
    missing = {name: reason for record in records for name, reason in record.missing.items()}
    text += [f"- {name} is missing: {_cut(reason)}" for name, reason in missing.items()]
    return "\n".join(text)


def _spread(value: Value, unit: str) -> str:
    text = f"{_number(value.median)} ({_number(value.least)} to {_number(value.most)})"
    if value.least == value.most:
        text = _number(value.median)
    return f"{text} {unit}".strip()


def _median(value: Value | None) -> str:
    return _number(value.median) if value else ""


def _range(figures: list[float]) -> str:
    if len(figures) == 1:
        return _number(figures[0])
    return f"{_number(statistics.median(figures))} ({_number(min(figures))} to {_number(max(figures))})"


def _number(value: float) -> str:
    if value == 0 or value >= 1000:
        return f"{value:,.0f}"
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.1f}"


def _cut(text: str) -> str:
    line = " ".join(text.split()).replace("|", "/")
    return line if len(line) <= 160 else f"{line[:157]}..."


def _table(head: list[str], rows: list[list[str]]) -> str:
    body = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join(body)
