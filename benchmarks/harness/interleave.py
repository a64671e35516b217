"""Runs the engines in turn, each piece of work in a fresh process, and collects what they say."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.harness.engines import Engine
from benchmarks.harness.job import Workload
from benchmarks.harness.worker import work_of
from tests.peers import PeerError

ROOT = Path(__file__).resolve().parents[2]
_SCRIPT = f"""
import sys
sys.path[:0] = {[os.fspath(ROOT), os.fspath(ROOT / "src")]!r}
from benchmarks.harness.worker import main
if __name__ == "__main__":
    main()
"""
_ROOM = 8 * 2**30  # bytes that must be free in a memory file system for it to be used

Key = tuple[str, int, str]  # phase, size, engine


@dataclass
class Results:
    """What was measured for one workload.

    Parameters
    ----------
    runs : dict
        ``{(phase, size, engine): [figures of each round, or None where that round gave none]}``.
    operations : dict
        Operations on files of one run, by kind.
    failures : dict
        Why there are no figures.
    rounds : int
        How many rounds there were.
    """

    rounds: int
    runs: dict[Key, list[dict[str, Any] | None]] = field(default_factory=dict)
    operations: dict[Key, dict[str, int]] = field(default_factory=dict)
    failures: dict[Key, str] = field(default_factory=dict)

    def add(self, key: Key, turn: int, answer: dict[str, Any]) -> None:
        """Take what a worker said in a round."""
        if answer["status"] == "done":
            self.runs.setdefault(key, [None] * self.rounds)[turn] = answer
        else:
            self.failures[key] = f"{answer['status']}: {answer['reason']}"


@contextmanager
def work_folder() -> Iterator[Path]:
    """Give a folder for the files of a run: in memory where there is room, since disks are not what is compared."""
    memory = Path("/dev/shm")  # noqa: S108 - a temporary directory is made in it
    in_memory = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > _ROOM
    with tempfile.TemporaryDirectory(prefix="bench-", dir=memory if in_memory else None) as folder:
        yield Path(folder)


def measure(
    workload: Workload,
    engines: Sequence[Engine],
    sizes: Sequence[int],
    folder: Path,
    *,
    rounds: int,
    judged: Collection[str],
) -> Results:
    """Measure a workload: in each round each phase is done by all engines, in an order that rotates.

    Parameters
    ----------
    folder : pathlib.Path
        For files; what is made there is deleted again.
    rounds : int
        How often each figure is taken, if the workload says no less. Where it counts operations on files, one more
        round does, which gives no times.
    judged : collection of str
        The engines that verdicts depend on. All others are there for comparison, and take part in the first round only.
    """
    results = Results(min(rounds, workload.rounds or rounds))
    for size in sizes:
        _make_inputs(workload, folder, (workload.warm_size, size))
        for turn in range(results.rounds + int(workload.counts)):
            taking_part = [engine for engine in engines if not turn or engine.name in judged]
            _one_round(workload, taking_part, size, folder, turn, results)
        shutil.rmtree(folder / "inputs")
    return results


def try_out(workloads: Sequence[Workload], engines: Sequence[Engine], folder: Path) -> dict[str, Results]:
    """Do everything once at the smallest sizes, all work of an engine in one process: this measures nothing.

    An engine that fails in one thing does nothing after it.
    """
    results = {workload.name: Results(1) for workload in workloads}
    for workload in workloads:
        _make_inputs(workload, folder, workload.quick_sizes)
    for engine in engines:
        work = [
            (workload, (phase.name, size, engine.name))
            for workload in workloads
            for size in workload.quick_sizes
            for phase in workload.phases
            if work_of(phase, engine.name) is not None and not (workload.protocol and engine.is_peer)
        ]
        tasks = [
            _task(workload, key, folder / f"{workload.name}-{key[1]}", folder / "inputs") for workload, key in work
        ]
        for (workload, key), answer in zip(work, run_tasks(engine, tasks, timeout=600), strict=True):
            results[workload.name].add(key, 0, answer)
            _say(workload, key, "tried", answer)
    return results


def _make_inputs(workload: Workload, folder: Path, sizes: Sequence[int]) -> None:
    inputs = folder / "inputs"
    inputs.mkdir(exist_ok=True)
    if workload.make_inputs:
        for size in filter(None, sizes):
            workload.make_inputs(inputs, size)


def _one_round(
    workload: Workload, engines: Sequence[Engine], size: int, folder: Path, turn: int, results: Results
) -> None:
    counting = turn == results.rounds
    for phase in workload.phases:
        first = turn % len(engines)
        for engine in (*engines[first:], *engines[:first]):
            key = (phase.name, size, engine.name)
            if work_of(phase, engine.name) is None or _has_failed(results, size, engine.name):
                continue
            task = _task(workload, key, folder, folder / "inputs", count=counting, warm=True)
            answer = run_tasks(engine, [task], timeout=workload.timeout)[0]
            if not counting:
                results.add(key, turn, answer)
            elif answer["status"] == "done":
                results.operations[key] = answer["operations"]
            _say(workload, key, "count" if counting else f"round {turn + 1}", answer)
    for engine in engines:
        shutil.rmtree(folder / engine.name, ignore_errors=True)


def _has_failed(results: Results, size: int, engine: str) -> bool:
    """Tell whether an engine failed at this size: later phases need what earlier ones wrote."""
    return any(
        where == size and who == engine and reason.startswith("failed")
        for (_, where, who), reason in results.failures.items()
    )


def _task(
    workload: Workload, key: Key, folder: Path, inputs: Path, *, count: bool = False, warm: bool = False
) -> dict[str, Any]:
    phase, size, engine = key
    return {
        "workload": workload.name,
        "phase": phase,
        "engine": engine,
        "size": size,
        "folder": os.fspath(folder / engine),
        "inputs": os.fspath(inputs),
        "count": count,
        "warm": warm,
    }


def run_tasks(engine: Engine, tasks: list[dict[str, Any]], *, timeout: float) -> list[dict[str, Any]]:
    """Do tasks in one fresh process; what fails in one of them fails in all."""
    try:
        answers: list[dict[str, Any]] = engine.interpreter.run(
            _SCRIPT, json.dumps(tasks), env=engine.environment, timeout=timeout
        )
    except PeerError as error:
        return [{"status": "failed", "reason": _last_line(error)}] * len(tasks)
    return answers


def _last_line(error: PeerError) -> str:
    """Return what matters of a traceback, without places of this machine; all of it goes to standard error."""
    print(error, file=sys.stderr)
    return str(error).strip().splitlines()[-1].replace(os.fspath(ROOT), ".")[:300]


def _say(workload: Workload, key: Key, what: str, answer: dict[str, Any]) -> None:
    if answer["status"] == "done":
        told = ", ".join(f"{name} {answer[name]:.3f}" for name in ("cpu", "wall", "memory") if name in answer)
    else:
        told = f"{answer['status']}: {answer['reason']}"
    print(f"  {workload.name} {key[0]} {key[1]} {key[2]}, {what}: {told}", flush=True)
