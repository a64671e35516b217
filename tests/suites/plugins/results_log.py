"""A pytest plugin that writes what became of each test to a JSON file, and whether the test used this project at all.

It runs inside the pytest of a foreign suite. ``SUITES_RESULTS`` names the file.
"""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path

import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO

_RANK = {"passed": 0, "skipped": 1, "failed": 2}
_USED = ("zarr", True)
_results: dict[str, dict[str, object]] = {}
_state = {"used": False}


def _noting(function):
    """Return ``function`` such that a call of it is noted for the running test."""

    @functools.wraps(function)
    def noted(*arguments, **options):
        _state["used"] = True
        return function(*arguments, **options)

    return noted


ZarrIO.__init__ = _noting(ZarrIO.__init__)
ZarrIO.can_read = staticmethod(_noting(ZarrIO.can_read))
ZarrDataIO.__init__ = _noting(ZarrDataIO.__init__)


@pytest.fixture(autouse=True)
def _folder_of_its_own(request, tmp_path, monkeypatch):
    """Run each test in an empty folder: many write files of fixed names, and a failure would leave its own behind."""
    (tmp_path / "tests").symlink_to(request.config.rootpath / "tests")
    monkeypatch.chdir(tmp_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add to each report whether the test has used our classes until then."""
    if call.when == "setup":
        item.user_properties[:] = []
    if _state["used"] and _USED not in item.user_properties:
        item.user_properties.append(_USED)
    if call.when == "teardown":
        _state["used"] = False
    return (yield)


def pytest_runtest_logreport(report) -> None:
    """Keep the worst outcome of a test over its phases and subtests, with the reason."""
    known = _results.setdefault(report.nodeid, {"outcome": "passed", "reason": "", "used": False})
    known["used"] = known["used"] or _USED in map(tuple, report.user_properties)
    if _RANK[report.outcome] > _RANK[known["outcome"]]:
        known |= {"outcome": report.outcome, "reason": _reason(report)}


def pytest_collectreport(report) -> None:
    """Count a module that cannot be imported as a failure."""
    if report.outcome != "passed":
        _results[report.nodeid] = {"outcome": report.outcome, "reason": _reason(report), "used": True}


def pytest_sessionfinish(session) -> None:
    """Write the file, where this is not a worker of another pytest."""
    if not hasattr(session.config, "workerinput"):
        Path(os.environ["SUITES_RESULTS"]).write_text(json.dumps(_results), encoding="utf-8")


def _reason(report) -> str:
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return str(report.longrepr[2])
    crash = getattr(report.longrepr, "reprcrash", None)
    return str(crash.message if crash is not None else report.longrepr)[:4000]
