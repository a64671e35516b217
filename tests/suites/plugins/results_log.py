"""A pytest plugin that writes what became of each test to a JSON file.

It runs inside the pytest of a foreign suite and knows nothing of this project. ``SUITES_RESULTS`` names the file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

_RANK = {"passed": 0, "skipped": 1, "failed": 2}
_results: dict[str, dict[str, str]] = {}


def pytest_runtest_logreport(report) -> None:
    """Keep the worst outcome of a test over its phases and subtests, with the reason."""
    reason = "" if report.outcome == "passed" else _reason(report)
    if report.when != "call" and report.outcome == "passed":
        return
    known = _results.get(report.nodeid)
    if known is None or _RANK[report.outcome] > _RANK[known["outcome"]]:
        _results[report.nodeid] = {"outcome": report.outcome, "reason": reason}


def pytest_collectreport(report) -> None:
    """A module that cannot be imported is a failure of its own."""
    if report.outcome != "passed":
        _results[report.nodeid] = {"outcome": report.outcome, "reason": _reason(report)}


def pytest_sessionfinish() -> None:
    """Write the file."""
    Path(os.environ["SUITES_RESULTS"]).write_text(json.dumps(_results, indent=1), encoding="utf-8")


def _reason(report) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)[:2000]
