"""A long search tries as many examples as asked for, ends when the time is up, and hides no failure."""

from __future__ import annotations

import pytest

from tests.longsearch import SECONDS, VARIABLE

CONFTEST = "from tests.longsearch import pytest_pyfunc_call, pytest_terminal_summary"
TESTS = """
import time
import pytest
from hypothesis import given, settings, strategies as st

@settings(max_examples=3, database=None)
@given(st.integers())
def test_quick(number):
    pass

@settings(max_examples=3, database=None, deadline=None)
@given(st.integers(), st.data())
def test_lasting(number, data):
    data.draw(st.integers())
    time.sleep(0.05)

@settings(max_examples=3, database=None, deadline=None)
@given(st.integers(0, 10**6))
def test_wrong(number):
    time.sleep(0.005)
    assert number < 50

def test_no_property():
    pass
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(TESTS)
    return pytester


def test_a_long_search(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "200")
    monkeypatch.setenv(SECONDS, "1")
    done = run.runpytest_inprocess("-p", "no:cacheprovider")
    done.assert_outcomes(passed=3, failed=1)
    done.stdout.fnmatch_lines(["*test_quick: 200 examples", "*test_lasting: * examples, then the time was up"])
    assert "number=50," in done.stdout.str().replace("\n", "")  # the smallest, found after the time was up or before


def test_without_the_variable_each_test_says_itself_how_many(
    run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    done = run.runpytest_inprocess("-p", "no:cacheprovider", "-k", "quick or lasting")
    done.assert_outcomes(passed=2, deselected=2)
    assert "examples" not in done.stdout.str()
