"""A bounded sample of the tests, for the fast runs.

With the variable ``HDMF_ZARR_BACKEND_SAMPLE=2`` each test function runs with two of its parametrisations. With
``HDMF_ZARR_BACKEND_SAMPLE_OF_FILES=8`` each function that makes files runs with eight; the others, which take
milliseconds, the tests of the documentation and the test vectors run in full. Which ones a hash of their names
decides, so that they are the same each time; no function is left out. The sessions `whole-newest` and `whole-oldest`
of nox run all of them.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict

import pytest

from tests import zarrs

VARIABLE = "HDMF_ZARR_BACKEND_SAMPLE"
VARIABLE_OF_FILES = f"{VARIABLE}_OF_FILES"

_IN_FULL = ("test_docs_", "test_kinds", "test_vectors")
"""Modules of tests that run in full; they begin with one of these names."""


def makes_files(item: pytest.Item) -> bool:
    """Return whether a test has a folder of its own, by itself or through a fixture."""
    return "tmp_path" in getattr(item, "fixturenames", ())


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
    left_out: set[pytest.Item] = set()
    if most := os.environ.get(VARIABLE):
        left_out.update(sample(items, int(most))[1])
    if most := os.environ.get(VARIABLE_OF_FILES):
        of_files = [item for item in items if makes_files(item) and not item.path.name.startswith(_IN_FULL)]
        left_out.update(sample(of_files, int(most))[1])
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
