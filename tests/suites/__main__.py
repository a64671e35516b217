"""Run the suites and print the counts: ``python -m tests.suites [name ...]``."""

from __future__ import annotations

import sys
from functools import partial

from tests.suites.runner import CATALOGUE, SuiteUnavailableError, run_suite

say = partial(print, flush=True)


def main(names: list[str]) -> int:
    """Run the named suites, or all; status 1 where a test fails that no exception covers, or one covers none."""
    status = 0
    for name in names or CATALOGUE:
        suite = CATALOGUE[name]
        try:
            report = run_suite(name, workers=2)
        except SuiteUnavailableError as error:
            say(f"{name}: not run: {error}")
            continue
        say(f"{suite['distribution']} {suite['release']}: {report.counts}")
        for reason, tests in sorted(report.excepted.items(), key=lambda item: -len(item[1])):
            title = "excepted by choice" if reason in report.choices else "excepted"
            say(f"  {title}, {len(tests)}: {' '.join(reason.split())}")
        for reason, tests in report.skipped.items():
            say(f"  skipped by the suite, {len(tests)}: {' '.join(reason.split())}")
        for path, reason in suite["left_out"].items():
            say(f"  left out, {path}: {reason}")
        for test, failure in report.failed.items():
            say(f"  FAILED {test}: {failure.strip().partition(chr(10))[0][:300]}")
        for pattern in report.needless:
            say(f"  NEEDLESS exception: {pattern}")
        if report.failed or report.needless:
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
