"""Runs the engines in turn, each piece of work in a fresh process, and collects what they say."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
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
sys.path.insert(0, {os.fspath(ROOT)!r})
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
    workload: Workload, engines: Sequence[Engine], sizes: Sequence[int], folder: Path, *, rounds: int, timeout: float
) -> Results:
    """Measure a workload: in each round each phase is done by all engines, in an order that rotates.

    Parameters
    ----------
    folder : pathlib.Path
        For files; empty again afterwards.
    rounds : int
        How often each figure is taken. One more round counts operations and gives no times.
    timeout : float
        Factor for the workload's own limit.
    """
    results = Results(rounds)
    inputs = folder / "inputs"
    inputs.mkdir()
    for size in sizes:
        if workload.make_inputs:
            workload.make_inputs(inputs, size)
        for turn in range(rounds + 1):
            counting = turn == rounds
            _one_round(workload, engines, size, folder, turn, results, counting=counting, timeout=timeout)
    shutil.rmtree(inputs)
    return results


def _one_round(
    workload: Workload,
    engines: Sequence[Engine],
    size: int,
    folder: Path,
    turn: int,
    results: Results,
    *,
    counting: bool,
    timeout: float,
) -> None:
    for phase in workload.phases:
        first = turn % len(engines)
        for engine in (*engines[first:], *engines[:first]):
            key = (phase.name, size, engine.name)
            if work_of(phase, engine.name) is None or key in results.failures:
                continue
            task = _task(workload, phase.name, engine.name, size, folder, count=counting)
            answer = run_tasks(engine, [task], timeout=workload.timeout * timeout)[0]
            if counting and answer["status"] == "done":
                results.operations[key] = answer["operations"]
            elif not counting:
                results.add(key, turn, answer)
            _say(workload, key, turn, answer, counting=counting)
    for engine in engines:
        shutil.rmtree(folder / engine.name, ignore_errors=True)


def _task(
    workload: Workload, phase: str, engine: str, size: int, folder: Path, *, count: bool = False, warm: bool = True
) -> dict[str, Any]:
    return {
        "workload": workload.name,
        "phase": phase,
        "engine": engine,
        "size": size,
        "folder": os.fspath(folder / engine),
        "inputs": os.fspath(folder / "inputs"),
        "count": count,
        "warm": warm,
    }


def run_tasks(engine: Engine, tasks: list[dict[str, Any]], *, timeout: float) -> list[dict[str, Any]]:
    """Do tasks in one fresh process; an engine that fails fails in all of them."""
    try:
        answers: list[dict[str, Any]] = engine.interpreter.run(
            _SCRIPT, json.dumps(tasks), env=engine.environment, timeout=timeout
        )
    except PeerError as error:
        return [{"status": "failed", "reason": _last_line(error)}] * len(tasks)
    return answers


def _last_line(error: PeerError) -> str:
    """Return what matters of a traceback, without places of this machine."""
    with Path(tempfile.gettempdir(), "bench-failures.log").open("a") as f: f.write(f"    {error}")
    return str(error).strip().splitlines()[-1].replace(os.fspath(ROOT), ".")[:300]


def _say(workload: Workload, key: Key, turn: int, answer: dict[str, Any], *, counting: bool) -> None:
    what = "count" if counting else f"round {turn + 1}"
    if answer["status"] == "done":
        told = ", ".join(f"{name} {answer[name]:.3f}" for name in ("cpu", "wall", "memory") if name in answer)
    else:
        told = f"{answer['status']}: {answer['reason']}"
    print(f"  {workload.name} {key[0]} {key[1]} {key[2]}, {what}: {told}", flush=True)
