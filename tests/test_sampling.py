"""The sample of the tests: every function, and the same parametrisations each time."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.sampling import sample


def items(*names: str) -> list[Any]:
    return [SimpleNamespace(nodeid=f"tests/test_a.py::{name}") for name in names]


def test_each_function_is_in_the_sample() -> None:
    found = items("test_a", *(f"test_b[{n}]" for n in range(20)), "test_c[x]", *(f"test_d[{n}-[y]]" for n in range(3)))
    kept, others = sample(found, 2)
    names = [item.nodeid.rpartition("::")[2] for item in kept]
    assert [name.partition("[")[0] for name in names] == ["test_a", "test_b", "test_b", "test_c", "test_d", "test_d"]
    assert len(kept) + len(others) == len(found)
    assert sorted(found.index(item) for item in kept) == [found.index(item) for item in kept]
    assert sample(found, 2)[0] == kept
    assert sample(found, 100) == (found, [])


def test_of_large_tables_more_is_run() -> None:
    found = [SimpleNamespace(nodeid=f"tests/test_kinds.py::test_a[{n}]") for n in range(300)]
    assert len(sample(found, 2)[0]) == 100


def test_a_module_that_leaves_a_file_open_fails_itself(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And not the one that runs when the file happens to be collected."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)]))
    pytester.makeconftest("from tests.conftest import _closes_its_files")
    leaves = "def test_leaves():\n    cycle = [open(__file__)]\n    cycle.append(cycle)"
    pytester.makepyfile(test_1=leaves, test_2="def test_next(): pass")
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines(["*ERROR at teardown of test_leaves*", "*ResourceWarning: unclosed file*"])
