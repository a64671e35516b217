"""Run the suites and print the counts: ``python -m tests.suites [name ...]``."""

from __future__ import annotations

import sys

from tests.suites.catalogue import SUITES
from tests.suites.runner import SuiteReport, run_suite
from tests.suites.sources import SuiteUnavailableError


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - the counts are what this is run for


def _show(name: str, report: SuiteReport) -> None:
    suite = SUITES[name]
    _say(f"{suite.distribution} {suite.release}: {report.counts}")
    excepted = dict(report.excepted)
    chosen = {reason: excepted.pop(reason) for reason in report.choices}
    found = (("excepted", excepted), ("excepted by choice", chosen), ("skipped by the suite", report.skipped))
    for title, groups in found:
        for reason, tests in sorted(groups.items(), key=lambda item: -len(item[1])):
            _say(f"  {title}, {len(tests)}: {' '.join(reason.split())}")
    for module, reason in suite.left_out:
        _say(f"  left out, {module}: {reason}")
    for test, failure in report.failed.items():
        _say(f"  FAILED {test}: {failure.strip().splitlines()[0][:300] if failure.strip() else ''}")
    for pattern in report.needless:
        _say(f"  NEEDLESS exception: {pattern}")


def main(names: list[str]) -> int:
    """Run the named suites, or all; status 1 where a test fails that no exception covers, or one covers none."""
    status = 0
    for name in names or SUITES:
        try:
            report = run_suite(SUITES[name], workers=2)
        except SuiteUnavailableError as error:
            _say(f"{name}: not run: {error}")
            continue
        _show(name, report)
        if report.failed or report.needless:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
