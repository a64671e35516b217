"""A sample of the tests, for the sessions that decide about a change.

With the variable ``HDMF_ZARR_BACKEND_SAMPLE=2`` each test function runs with two of its cases; the tests of the
documentation, of the kinds of elements and of the test vectors run with all. A hash of their names decides which ones,
so that they are the same each time, and no function is left out. The sessions `full` and `full-oldest` of nox run all.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict

import pytest

from tests import zarrs

VARIABLE = "HDMF_ZARR_BACKEND_SAMPLE"

_IN_FULL = ("tests/test_docs_", "tests/test_kinds.py", "tests/read/test_documents.py")
"""Modules of tests that run with all cases: their names begin so."""


def sample(items: list[pytest.Item], most: int) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Return the tests that are run and those that are not, both in order: at most ``most`` of each function."""
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    chosen = {
        item.nodeid
        for found in functions.values()
        for item in sorted(found, key=lambda item: zlib.crc32(item.nodeid.encode()))[:most]
    }
    kept = [item for item in items if item.nodeid in chosen]
    return kept, [item for item in items if item.nodeid not in chosen]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests outside the sample, after markers have been applied; skip what needs zarr-python 3."""
    zarrs.skip_what_needs_zarr_3(items)
    if most := os.environ.get(VARIABLE):
        _, left_out = sample([item for item in items if not item.nodeid.startswith(_IN_FULL)], int(most))
        config.hook.pytest_deselected(items=left_out)
        names = {item.nodeid for item in left_out}
        items[:] = [item for item in items if item.nodeid not in names]
