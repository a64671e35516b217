"""The suites of pynwb, hdmf and hdmf-zarr pass, but for what is listed with its reason."""

from __future__ import annotations

import pytest

from tests.suites.catalogue import SUITES, ExpectedFailure, Suite
from tests.suites.runner import SuiteReport, run_suite
from tests.suites.sources import SuiteUnavailableError


def _run(name: str, *, sample: bool, workers: int = 0) -> SuiteReport:
    try:
        return run_suite(SUITES[name], sample=sample, workers=workers)
    except SuiteUnavailableError as error:
        pytest.skip(str(error))


@pytest.mark.peer
@pytest.mark.parametrize("name", SUITES)
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


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_every_exception_has_a_reason_and_says_what_fails(suite: Suite):
    for entry in suite.expected_failures():
        assert len(entry.reason.split()) > 5
        assert len(entry.failure.pattern) > 5
        assert entry.tests
    for _, reason in suite.left_out:
        assert len(reason.split()) > 5


def test_an_exception_covers_only_its_tests_and_its_failure(tmp_path, monkeypatch):
    monkeypatch.setenv("HDMF_ZARR_BACKEND_SUITES", str(tmp_path))
    folder = tmp_path / "made_up-1.0"
    (folder / "tests").mkdir(parents=True)
    (folder / "complete").touch()
    (folder / "tests" / "test_it.py").write_text(MADE_UP)
    (folder / "tests" / "test_left_out.py").write_text("def test_far_away():\n    raise OSError")
    suite = MadeUpSuite(
        "made_up",
        "made-up",
        "1.0",
        "results_log",
        ("tests",),
        (),
        left_out=(("tests/test_left_out.py", "asks the network"),),
        same_release_installed=False,
    )
    report = run_suite(suite)
    assert report.passed == 1
    assert report.unrelated == 1
    assert report.excepted == {"the peer says otherwise": ["tests/test_it.py::test_expected"]}
    assert report.choices == {"the peer says otherwise"}
    assert "1 excepted for 1 reasons (of these 1 for 1 that are our choice)" in report.counts
    assert report.skipped == {"Skipped: not here": ["tests/test_it.py::test_skipped"]}
    assert list(report.failed) == [
        "tests/test_it.py::test_expected_with_another_failure",
        "tests/test_it.py::test_failing",
    ]
    assert "RuntimeError: broken" in report.failed["tests/test_it.py::test_failing"]
    assert report.needless == ["tests/test_it.py::test_that_is_not_there"]


def test_a_suite_of_another_release_than_the_installed_is_not_run():
    with pytest.raises(SuiteUnavailableError, match=r"the suite is that of 0\.1"):
        run_suite(Suite("made_up", "hdmf", "0.1", "results_log", (), ()))


def test_a_suite_that_needs_a_newer_zarr_is_not_run():
    with pytest.raises(SuiteUnavailableError, match=r"made-up 1\.0 needs 99"):
        run_suite(Suite("made_up", "made-up", "1.0", "results_log", (), (), least_zarr="99"))


def test_sources_that_cannot_be_fetched(tmp_path, monkeypatch):
    monkeypatch.setenv("HDMF_ZARR_BACKEND_SUITES", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    with pytest.raises(SuiteUnavailableError, match=r"cannot fetch the sources of hdmf-zarr 0\.0"):
        run_suite(Suite("made_up", "hdmf-zarr", "0.0", "results_log", (), (), same_release_installed=False))


class MadeUpSuite(Suite):
    def expected_failures(self) -> list[ExpectedFailure]:
        import re

        tests = ("tests/test_it.py::test_expected*", "tests/test_it.py::test_that_is_not_there")
        return [
            ExpectedFailure("the peer says otherwise", re.compile("ValueError: other words"), tests, is_choice=True)
        ]


MADE_UP = """
import pytest
from hdmf_zarr_backend import ZarrDataIO

def test_passing():
    assert ZarrDataIO([1]).data == [1]

def test_unrelated():
    pass

def test_expected():
    raise ValueError("other words")

def test_expected_with_another_failure():
    raise KeyError("other words")

def test_failing():
    raise RuntimeError("broken")

def test_skipped():
    pytest.skip("not here")
"""
