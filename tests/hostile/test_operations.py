"""Whatever a file holds, each operation ends with a result or an error of ours, and touches nothing outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.files import all_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the child limits its memory as Linux does")

ROOT = Path(__file__).resolve().parents[2]
SLICES, FEWER = 40, 160
"""The files are done in so many processes; and one of so many files is not slow."""


def found_in(*arguments: str) -> list[dict[str, Any]]:
    """Do all operations with some files in a process of its own, and return what did not end as it may."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.hostile.operations", *arguments], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "2", "PYTHONHASHSEED": "0"},
        capture_output=True, text=True, check=False, timeout=1800, errors="replace",
    )  # fmt: skip
    lines = done.stdout.splitlines()
    found = [json.loads(line) for line in lines if line.startswith("{")]
    if done.returncode != 0:
        number = next((line for line in reversed(lines) if line.isdigit()), "")
        name = all_files()[int(number)].name if number else "nothing yet"
        found.append({"file": name, "kind": f"the process ended with {done.returncode}", "trace": done.stderr[-3000:]})
    return found


def numbers(first: int, step: int) -> Sequence[str]:
    return [str(number) for number in range(first, len(all_files()), step)]


def test_a_sample_of_the_hostile_files():
    assert found_in(*numbers(7, FEWER)) == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_all_hostile_files(first):
    assert found_in(*numbers(first, SLICES)) == []


def test_there_are_enough_files_and_operations():
    from tests.hostile.operations import OPERATIONS

    assert len({file.name for file in all_files()}) >= 170
    assert len(OPERATIONS) == 11


def test_the_guard_hears_what_it_should():
    """A child that is told to misbehave says so: the tests can fail."""
    kinds = [found["kind"] for found in found_in("misbehave")]
    assert kinds == ["!forbidden", "!IndexError", "!MemoryError", *["!forbidden"] * 4]
