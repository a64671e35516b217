"""A bounded sample of the tests, for a second set of libraries in the fast run.

With the variable ``HDMF_ZARR_BACKEND_SAMPLE=2`` each test function runs with two of its parametrisations. Which ones a
hash of their names decides, so that they are the same each time; no function is left out. The session `whole-oldest` of
nox runs all of them.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict

import pytest

from tests import zarrs

VARIABLE = "HDMF_ZARR_BACKEND_SAMPLE"


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
    most = os.environ.get(VARIABLE)
    if most:
        kept, others = sample(items, int(most))
        items[:] = kept
        config.hook.pytest_deselected(items=others)
