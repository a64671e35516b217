"""Running a suite in a pytest of its own, and judging its results by the list of expected failures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from packaging.version import Version

from tests.suites.catalogue import ExpectedFailure, Suite
from tests.suites.sources import SuiteUnavailableError, obtain_sources

_PLUGINS = Path(__file__).resolve().parent / "plugins"


@dataclass
class SuiteReport:
    """What became of the tests of a suite.

    Attributes
    ----------
    passed : int
        Tests that passed and used this project's classes.
    unrelated : int
        Tests that passed without using them.
    excepted : dict
        ``{reason: tests}`` that failed as expected.
    choices : set of str
        The reasons among them that are this project's choice.
    skipped : dict
        ``{reason: tests}`` that the suite itself skipped.
    failed : dict
        ``{test: failure}`` that no exception covers.
    needless : list of str
        Exceptions that cover no failing test: patterns that passed, or that are not in the suite.
    """

    passed: int = 0
    unrelated: int = 0
    excepted: dict[str, list[str]] = field(default_factory=dict)
    choices: set[str] = field(default_factory=set)
    skipped: dict[str, list[str]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    needless: list[str] = field(default_factory=list)

    @property
    def counts(self) -> str:
        """The counts in one line."""
        excepted, skipped = (sum(map(len, found.values())) for found in (self.excepted, self.skipped))
        chosen = sum(len(self.excepted[reason]) for reason in self.choices)
        return (
            f"{self.passed} passed, {excepted} excepted for {len(self.excepted)} reasons (of these "
            f"{chosen} for {len(self.choices)} that are our choice), {len(self.failed)} failed, "
            f"{skipped} skipped by the suite ({self.unrelated} more do not touch the backend)"
        )


def run_suite(suite: Suite, *, sample: bool = False, workers: int = 0, timeout: float = 3600) -> SuiteReport:
    """Run a suite and judge its results.

    Parameters
    ----------
    suite : Suite
        Which.
    sample : bool
        Only its sample.
    workers : int
        Processes; 0 for one without pytest-xdist.
    timeout : float
        Seconds until it is ended.

    Raises
    ------
    SuiteUnavailableError
        It cannot be fetched, or the release that it tests is not the one that is installed, or zarr is too old for it.
    """
    if Version(version("zarr")) < Version(suite.least_zarr):
        raise SuiteUnavailableError(
            f"zarr {version('zarr')} is installed, {suite.distribution} {suite.release} needs {suite.least_zarr}"
        )
    if suite.same_release_installed and version(suite.distribution) != suite.release:
        raise SuiteUnavailableError(
            f"{suite.distribution} {version(suite.distribution)} is installed, the suite is that of {suite.release}"
        )
    folder = obtain_sources(suite.distribution, suite.release)
    results = _run(folder, suite, suite.sample if sample else suite.paths, workers, timeout)
    return _judge(results, suite.expected_failures(), partial=sample)


def _run(folder: Path, suite: Suite, paths: tuple[str, ...], workers: int, timeout: float) -> dict[str, dict[str, str]]:
    with tempfile.TemporaryDirectory(prefix=f"suite-{suite.name}-", ignore_cleanup_errors=True) as place:
        written, configuration = Path(place, "results.json"), Path(place, "pytest.ini")
        configuration.write_text("[pytest]\n", encoding="utf-8")  # neither the suite's settings nor ours
        command = [sys.executable, "-m", "pytest", "-c", str(configuration), "--rootdir", str(folder), "-q"]
        command += ["-p", suite.plugin, "-p", "results_log", "-p", "no:cacheprovider", "--tb=short"]
        command += ["--basetemp", str(Path(place, "tests")), *(["-n", str(workers)] if workers else [])]
        command += [f"--ignore={folder / path}" for path, _ in suite.left_out]
        command += [str(folder / path) for path in paths]
        answer = subprocess.run(
            command,
            cwd=place,
            env=_environment(folder, written),
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if not written.is_file():
            raise RuntimeError(f"the suite {suite.name} did not run:\n{(answer.stdout + answer.stderr)[-8000:]}")
        results: dict[str, dict[str, str]] = json.loads(written.read_text(encoding="utf-8"))
    if not results:
        raise RuntimeError(f"the suite {suite.name} has no tests:\n{answer.stdout[-8000:]}")
    return results


def _environment(folder: Path, written: Path) -> dict[str, str]:
    found = os.environ.get("PYTHONPATH")
    path = [str(_PLUGINS), str(folder), *([found] if found else [])]
    temporary = str(written.parent)
    # netCDF4 names its own folder of HDF5 filters there, whose Blosc is not the one that the suites expect
    inherited = {name: value for name, value in os.environ.items() if name != "HDF5_PLUGIN_PATH"}
    return inherited | {
        "PYTHONPATH": os.pathsep.join(path),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SUITES_RESULTS": str(written),
        "TMPDIR": temporary,
    }


def _judge(results: dict[str, dict[str, str]], expected: list[ExpectedFailure], *, partial: bool) -> SuiteReport:
    report = SuiteReport()
    met: set[int] = set()
    for test, result in results.items():
        if result["outcome"] == "passed":
            report.passed += bool(result["used"])
            report.unrelated += not result["used"]
        elif result["outcome"] == "skipped":
            report.skipped.setdefault(result["reason"], []).append(test)
        else:
            entry = next((e for e in expected if e.covers(test) and e.failure.search(result["reason"])), None)
            if entry is None:
                report.failed[test] = result["reason"]
            else:
                met.add(id(entry))
                if entry.is_choice:
                    report.choices.add(entry.reason)
                report.excepted.setdefault(entry.reason, []).append(test)
    failing = {test for tests in report.excepted.values() for test in tests}
    for entry in () if partial else expected:
        report.needless += [
            pattern
            for pattern in entry.tests
            if not any(ExpectedFailure("", entry.failure, (pattern,)).covers(test) for test in failing)
        ]
    return report
