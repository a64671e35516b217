"""The suites of pynwb, hdmf and hdmf-zarr pass, but for what is listed with its reason."""

from __future__ import annotations

import pytest

from tests.suites import runner
from tests.suites.runner import CATALOGUE, SuiteReport, SuiteUnavailableError, run_suite


def _run(name: str, *, sample: bool, workers: int = 0) -> SuiteReport:
    try:
        return run_suite(name, sample=sample, workers=workers)
    except SuiteUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.peer
@pytest.mark.parametrize("name", CATALOGUE)
def test_a_sample_of_a_suite(name):
    report = _run(name, sample=True)
    assert report.failed == {}
    assert report.passed > 20, report.counts


@pytest.mark.slow
@pytest.mark.parametrize(("name", "least"), [("pynwb", 250), ("hdmf", 250), ("hdmf_zarr", 450), ("hdmf_zarr_014", 400)])
def test_a_whole_suite(name, least):
    report = _run(name, sample=False, workers=2)
    assert report.failed == {}
    assert report.needless == [], "an exception that covers no failure hides the next one"
    assert report.passed > least, report.counts


def test_an_exception_covers_only_its_tests_and_its_failure():
    said = ("ValueError: other words", "KeyError: other words")
    outcomes = {"right": said[0], "wrong": said[1], "other": said[0]}
    results = {name: {"outcome": "failed", "reason": reason, "used": "1"} for name, reason in outcomes.items()}
    exception = {"reason": "the peer says otherwise", "failure": "ValueError", "tests": ["right", "wrong", "gone*"]}
    report = runner._judge(results, [exception], partial=False)
    assert report.excepted == {"the peer says otherwise": ["right"]}
    assert report.failed.keys() == {"wrong", "other"}
    assert report.needless == ["wrong", "gone*"]
