"""The suites of `catalogue`: fetched with pip, run in a pytest of their own, judged by their expected failures.

A file of the catalogue names the release whose tests they are, the plugin of pytest that puts this project's classes in
their place, the paths to run, a sample of a minute, and the exceptions: tests that cannot pass here, each with the
reason and what the failure has to say; ``choice`` marks those where this project does otherwise on purpose.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock
from packaging.version import Version

_HERE = Path(__file__).resolve().parent
CATALOGUE = {
    path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(_HERE.glob("catalogue/*.toml"))
}


class SuiteUnavailableError(RuntimeError):
    """The suite cannot be fetched, or not be run with the releases that are installed; the message says why."""


@dataclass
class SuiteReport:
    """What became of the tests of a suite."""

    passed: int = 0
    """Tests that passed and used this project's classes."""
    unrelated: int = 0
    """Tests that passed without using them."""
    excepted: dict[str, list[str]] = field(default_factory=dict)
    """``{reason: tests}`` that failed as expected."""
    choices: set[str] = field(default_factory=set)
    """The reasons among them that are this project's choice."""
    skipped: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """``{test: failure}`` that no exception covers."""
    needless: list[str] = field(default_factory=list)
    """Patterns of exceptions that cover no failing test."""

    @property
    def counts(self) -> str:
        excepted, skipped = (sum(map(len, found.values())) for found in (self.excepted, self.skipped))
        chosen = sum(len(self.excepted[reason]) for reason in self.choices)
        return (
            f"{self.passed} passed, {excepted} excepted for {len(self.excepted)} reasons (of these "
            f"{chosen} for {len(self.choices)} that are our choice), {len(self.failed)} failed, "
            f"{skipped} skipped by the suite ({self.unrelated} more do not touch the backend)"
        )


def run_suite(name: str, *, sample: bool = False, workers: int = 0) -> SuiteReport:
    """Run a suite, or only its sample, in ``workers`` processes, and judge its results."""
    suite = CATALOGUE[name]
    distribution, release = suite["distribution"], suite["release"]
    if Version(version("zarr")) < Version(suite.get("least_zarr", "0")):
        raise SuiteUnavailableError(f"zarr {version('zarr')} is too old for {distribution} {release}")
    if suite.get("same_release_installed") and version(distribution) != release:
        raise SuiteUnavailableError(f"{distribution} {version(distribution)} is installed, the suite is of {release}")
    folder = _obtain_sources(distribution, release)
    results = _run(folder, suite, suite["sample" if sample else "paths"], workers)
    return _judge(results, suite["exception"], partial=sample)


def _obtain_sources(distribution: str, release: str) -> Path:
    """Return the unpacked source distribution, from a cache: ``HDMF_ZARR_BACKEND_SUITES``, or ``.suites`` here."""
    cache = Path(os.environ.get("HDMF_ZARR_BACKEND_SUITES") or _HERE.parents[1] / ".suites").expanduser().absolute()
    cache.mkdir(parents=True, exist_ok=True)
    folder = cache / f"{distribution.replace('-', '_')}-{release}"
    mark = folder / "complete"  # written last: a folder without it was interrupted and is fetched again
    with FileLock(f"{folder}.lock"):
        if mark.is_file():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        with tempfile.TemporaryDirectory() as fetched:
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
            command += ["--no-binary", distribution, "--dest", fetched, f"{distribution}=={release}"]
            answer = subprocess.run(command, capture_output=True, text=True, check=False)
            if answer.returncode != 0:
                raise SuiteUnavailableError(f"cannot fetch {distribution} {release}:\n{answer.stderr[-2000:]}")
            (archive,) = Path(fetched).glob("*.tar.gz")
            with tarfile.open(archive) as source:
                source.extractall(folder.parent, filter="data")
        mark.touch()
    return folder


def _run(folder: Path, suite: dict[str, Any], paths: list[str], workers: int) -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix="suite-", ignore_cleanup_errors=True) as place:
        written, configuration = Path(place, "results.json"), Path(place, "pytest.ini")
        configuration.write_text("[pytest]\n", encoding="utf-8")  # neither the suite's settings nor ours
        command = [sys.executable, "-m", "pytest", "-c", str(configuration), "--rootdir", str(folder), "-q"]
        command += ["-p", suite["plugin"], "-p", "results_log", "-p", "no:cacheprovider", "--tb=short"]
        command += ["--basetemp", str(Path(place, "tests")), *(["-n", str(workers)] if workers else [])]
        command += [f"--ignore={folder / path}" for path in suite["left_out"]]
        command += [str(folder / path) for path in paths]
        found = os.environ.get("PYTHONPATH")
        # netCDF4 names its own folder of HDF5 filters there, whose Blosc is not the one that the suites expect
        environment = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"} | {
            "PYTHONPATH": os.pathsep.join([str(_HERE / "plugins"), str(folder), *([found] if found else [])]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "SUITES_RESULTS": str(written),
            "TMPDIR": place,
        }
        answer = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=3600, check=False
        )
        if not written.is_file():
            raise RuntimeError(f"the suite in {folder} did not run:\n{(answer.stdout + answer.stderr)[-8000:]}")
        results: dict[str, dict[str, str]] = json.loads(written.read_text(encoding="utf-8"))
    if not results:
        raise RuntimeError(f"the suite in {folder} has no tests:\n{answer.stdout[-8000:]}")
    return results


def _judge(results: dict[str, dict[str, str]], expected: list[dict[str, Any]], *, partial: bool) -> SuiteReport:
    report = SuiteReport()
    for test, result in results.items():
        if result["outcome"] == "passed":
            report.passed += bool(result["used"])
            report.unrelated += not result["used"]
        elif result["outcome"] == "skipped":
            report.skipped.setdefault(result["reason"], []).append(test)
        elif (entry := _covering(test, result["reason"], expected)) is None:
            report.failed[test] = result["reason"]
        else:
            report.choices |= {entry["reason"]} if entry.get("choice") else set()
            report.excepted.setdefault(entry["reason"], []).append(test)
    failing = {test for tests in report.excepted.values() for test in tests}
    for entry in () if partial else expected:
        patterns = entry["tests"]
        report.needless += [each for each in patterns if not any(fnmatchcase(test, each) for test in failing)]
    return report


def _covering(test: str, failure: str, expected: list[dict[str, Any]]) -> dict[str, Any] | None:
    for entry in expected:
        is_named = any(fnmatchcase(test, pattern) for pattern in entry["tests"])
        if is_named and re.search(entry["failure"], failure, re.DOTALL):
            return entry
    return None
