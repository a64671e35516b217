"""Runs in a fresh process of an engine's interpreter: one job or, where nothing is measured, several."""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.harness.backends import BACKENDS, VARIANTS
from benchmarks.harness.job import Job, Phase, UnsupportedError, Work, Workload
from benchmarks.harness.meter import Meter
from benchmarks.workloads.catalog import find_workload


def work_of(phase: Phase, engine: str) -> Work | None:
    """Return what the engine does in this phase; None: nothing."""
    if engine in phase.work:
        return phase.work[engine]
    return phase.work.get("backend") if engine in BACKENDS and engine not in VARIANTS else None


def run_task(task: dict[str, Any]) -> dict[str, Any]:
    """Do one task and return its figures, or why there are none."""
    workload = find_workload(task["workload"])
    engine, folder, inputs = task["engine"], Path(task["folder"]), Path(task["inputs"])
    backend = BACKENDS[engine]() if engine in BACKENDS else None
    position, phase = next((i, p) for i, p in enumerate(workload.phases) if p.name == task["phase"])
    work = work_of(phase, engine)
    if work is None:
        raise LookupError(f"{engine} has no part in {workload.name} {phase.name}")
    folder.mkdir(parents=True, exist_ok=True)
    meter = Meter(enabled=True, count_below=folder if task["count"] else None)
    try:
        if task["warm"] and workload.warm_size:
            _warm_up(workload, position, engine, folder, inputs)
        work(Job(task["size"], folder, inputs, meter, backend))
    except UnsupportedError as error:
        return {"status": "unsupported", "reason": str(error)}
    answer: dict[str, Any] = {"status": "done", **meter.figures}
    if task["count"]:
        answer["operations"] = dict(meter.operations)
    if phase.output and (folder / phase.output).exists():
        answer |= _stored(folder / phase.output)
    return answer


def _warm_up(workload: Workload, position: int, engine: str, folder: Path, inputs: Path) -> None:
    """Do all phases up to the wanted one at the smallest size: imports and caches of types are filled."""
    place = folder / "warm"
    backend = BACKENDS[engine]() if engine in BACKENDS else None
    for phase in workload.phases[: position + 1]:
        work = work_of(phase, engine)
        if work is None:
            continue
        place.mkdir(exist_ok=True)
        with suppress(UnsupportedError):  # told by the phase itself, in its turn
            work(Job(workload.warm_size, place, inputs, Meter(enabled=False), backend))
    shutil.rmtree(place, ignore_errors=True)


def _stored(path: Path) -> dict[str, int]:
    """Return the number of files at ``path`` and their bytes."""
    if path.is_file():
        return {"files": 1, "bytes": path.stat().st_size}
    sizes = [os.stat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names]
    return {"files": len(sizes), "bytes": sum(sizes)}


def main() -> None:
    """Do the tasks of the JSON document that is the first argument and print their answers as one line of JSON."""
    warnings.simplefilter("ignore")  # what the engines say about the files is not the subject
    answers = [run_task(task) for task in json.loads(sys.argv[1])]
    print(json.dumps(answers))
