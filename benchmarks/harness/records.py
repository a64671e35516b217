"""Results as JSON, one file for each workload."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.harness.interleave import Results


@dataclass
class Record:
    """The results of one workload and what they were made with.

    Parameters
    ----------
    workload : str
        Its name.
    sizes : tuple of int
        That were run.
    results : Results
        The figures.
    command, date : str
        How and when.
    machine : mapping
        See `machine.describe`.
    engines : mapping
        ``{engine: {package: version}}``.
    missing : mapping
        Engines that could not be had, and why.
    """

    workload: str
    sizes: tuple[int, ...]
    results: Results
    command: str
    date: str
    machine: Mapping[str, str]
    engines: Mapping[str, Mapping[str, str]]
    missing: Mapping[str, str]

    def save(self, folder: Path) -> Path:
        """Write the record into ``folder`` and return its path."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.workload}.json"
        path.write_text(json.dumps(self._to_json(), indent=1, ensure_ascii=False), encoding="utf-8")
        return path

    def _to_json(self) -> dict[str, Any]:
        keys = sorted({*self.results.runs, *self.results.operations, *self.results.failures})
        cells = [
            {
                "phase": phase,
                "size": size,
                "engine": engine,
                "runs": self.results.runs.get((phase, size, engine), []),
                "operations": self.results.operations.get((phase, size, engine)),
                "failure": self.results.failures.get((phase, size, engine)),
            }
            for phase, size, engine in keys
        ]
        facts = {name: getattr(self, name) for name in ("command", "date", "machine", "engines", "missing")}
        return {"workload": self.workload, "sizes": self.sizes, "rounds": self.results.rounds, **facts, "cells": cells}


def load(path: Path) -> Record:
    """Read what `Record.save` wrote."""
    content = json.loads(path.read_text(encoding="utf-8"))
    results = Results(content["rounds"])
    for cell in content["cells"]:
        key = (cell["phase"], cell["size"], cell["engine"])
        for name, part in (("runs", results.runs), ("operations", results.operations), ("failure", results.failures)):
            if cell[name]:
                part[key] = cell[name]
    facts = {name: content[name] for name in ("command", "date", "machine", "engines", "missing")}
    return Record(content["workload"], tuple(content["sizes"]), results, **facts)
