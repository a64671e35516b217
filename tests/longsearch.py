"""A long search: each property test runs the requested number of examples, whatever its own settings; a sample fewer.

``HDMF_ZARR_BACKEND_EXAMPLES=20000`` says how many, ``HDMF_ZARR_BACKEND_EXAMPLE_SECONDS=150`` how long one test may take
at most; a test that ran so long without a failure has passed. The summary at the end says how many each one tried.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.errors import HypothesisException

from tests import sampling

VARIABLE, SECONDS = "HDMF_ZARR_BACKEND_EXAMPLES", "HDMF_ZARR_BACKEND_EXAMPLE_SECONDS"

_COUNTS = pytest.StashKey[dict[str, str]]()


class _TimeIsUp(BaseException):
    """The test has run as long as it may."""


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Run a property test on the number of examples in the variable."""
    most = os.environ.get(VARIABLE)
    if not is_hypothesis_test(pyfuncitem.obj) or not (most or sampling.VARIABLE in os.environ):
        return (yield)
    function: Any = getattr(pyfuncitem.obj, "__func__", pyfuncitem.obj)
    given, inner = function._hypothesis_internal_use_settings, function.hypothesis.inner_test
    if not most:
        function._hypothesis_internal_use_settings = settings(
            given, max_examples=min(given.max_examples, sampling.EXAMPLES)
        )
        try:
            return (yield)
        finally:
            function._hypothesis_internal_use_settings = given
    counts = pyfuncitem.config.stash.setdefault(_COUNTS, {})
    tried: list[None] = []
    function._hypothesis_internal_use_settings = settings(
        given, max_examples=int(most), suppress_health_check=list(HealthCheck)
    )
    function.hypothesis.inner_test = _counted(inner, tried, float(os.environ.get(SECONDS, "inf")))
    is_over = False
    try:
        return (yield)
    except _TimeIsUp:
        is_over = True
        return True
    finally:
        function._hypothesis_internal_use_settings, function.hypothesis.inner_test = given, inner
        counts[pyfuncitem.nodeid] = f"{len(tried)} examples{', then the time was up' if is_over else ''}"


def _counted(inner: Callable[..., Any], tried: list[None], seconds: float) -> Callable[..., Any]:
    end = time.monotonic() + seconds
    has_failed = False  # then Hypothesis looks for a smaller example, and may finish

    @functools.wraps(inner)
    def counting(*args: Any, **kwargs: Any) -> None:
        nonlocal has_failed
        tried.append(None)
        try:
            inner(*args, **kwargs)
        except Exception as error:
            has_failed = has_failed or not isinstance(error, HypothesisException)
            raise
        if not has_failed and time.monotonic() > end:  # after the test: it has to draw as it did before
            raise _TimeIsUp

    return counting


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Report how many examples each test tried, and how many steps the state machines took."""
    properties = [each for report in terminalreporter.stats.get("passed", []) for each in report.user_properties]
    steps = {name: int(str(count)) for name, count in properties if name.startswith("steps of ")}
    for name, count in steps.items():
        terminalreporter.write_line(f"{name}: {count:,}")
    if steps:
        terminalreporter.write_line(f"steps of all state machines: {sum(steps.values()):,}")
    for name, said in config.stash.get(_COUNTS, {}).items():
        terminalreporter.write_line(f"{name}: {said}")
