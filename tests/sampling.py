"""A sample of the tests, for the sessions that decide about a change.

With the variable ``HDMF_ZARR_BACKEND_SAMPLE=2`` each test function runs with two of its cases, and those of the large
tables in `_TABLES` with a hundred; property tests try 25 examples. A hash of their names decides which cases, so that
they are the same each time, and no function is left out. The sessions `full` and `full-oldest` of nox run all.
"""

import os
import zlib
from collections import defaultdict
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import is_hypothesis_test, settings

from tests import zarrs

VARIABLE = "HDMF_ZARR_BACKEND_SAMPLE"

_TABLES = {
    "tests/test_alias.py": 50, "tests/test_docs_": 50, "tests/test_kinds.py": 50,
    "tests/hostile/test_catalogue.py": 100, "tests/read/test_documents.py": 50,
}  # fmt: skip
"""Modules whose names begin so run with so many times the cases: all pages and all bad input, a part of all kinds."""

EXAMPLES = 25
"""How many examples a property test tries in a sample."""


def sample(items: list[pytest.Item], most: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that are run and those that are not, both in order: at most ``most`` of each function."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    chosen = {
        item.nodeid
        for entry in functions.values()
        for item in sorted(entry, key=lambda item: zlib.crc32(item.nodeid.encode()))[: most * _times(entry[0].nodeid)]
    }
    kept = [item for item in items if item.nodeid in chosen]
    return kept, [item for item in items if item.nodeid not in chosen]


def _times(nodeid: str) -> int:
    return next((times for name, times in _TABLES.items() if nodeid.startswith(name)), 1)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests outside the sample, after markers have been applied; skip what needs zarr-python 3."""
    zarrs.skip_what_needs_zarr_3(items)
    if most := os.environ.get(VARIABLE):
        items[:], left_out = sample(items, int(most))
        config.hook.pytest_deselected(items=left_out)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, Any, Any]:
    """Run a property test on `EXAMPLES` examples at most, if there is a sample."""
    if VARIABLE not in os.environ or not is_hypothesis_test(pyfuncitem.obj):
        return (yield)
    function: Any = getattr(pyfuncitem.obj, "__func__", pyfuncitem.obj)
    given = function._hypothesis_internal_use_settings
    fewer = settings(given, max_examples=min(given.max_examples, EXAMPLES))
    function._hypothesis_internal_use_settings = fewer
    try:
        return (yield)
    finally:
        function._hypothesis_internal_use_settings = given
