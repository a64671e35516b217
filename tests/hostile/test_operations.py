"""Whatever a file holds, each operation ends with a result or an error of ours, and touches nothing outside."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend import verify
from tests.hostile.files import all_files
from tests.hostile.mutate import mutated
from tests.hostile.seeds import seeds
from tests.trees import read_builder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the child limits its memory as Linux does")

ROOT = Path(__file__).resolve().parents[2]
SLICES, FEWER = 40, 160
"""The files are done in so many processes; and one of so many files is not slow."""
FAST, SLOW, BATCH = 500, 100_000, 5_000
"""Spoiled files."""

MEGABYTES = 600
"""Bound of what reading spoiled files adds to the memory of a process; the limits in the child add up to less."""


def run(*arguments: object) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Do operations with files in a process of its own; return what did not end as it may, and how many ended how."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.hostile.operations", *map(str, arguments)], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "MALLOC_ARENA_MAX": "2", "PYTHONHASHSEED": "0"},
        capture_output=True, text=True, check=False, timeout=3000, errors="replace",
    )  # fmt: skip
    last = [line for line in done.stdout.splitlines() if line.isdigit()][-1:]
    assert done.returncode == 0, f"number {last} of {arguments}: {done.stderr[-3000:]}"
    *failures, summary = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return failures, summary


def check_spoiled(first: int, count: int) -> dict[str, int]:
    failures, summary = run("spoiled", first, count)
    assert failures == []
    assert summary["megabytes"] < MEGABYTES
    outcomes: dict[str, int] = summary["outcomes"]
    assert sum(outcomes.values()) == count
    return outcomes


def test_some_spoiled_files():
    outcomes = check_spoiled(0, FAST)
    assert outcomes["None"] < 0.8 * FAST  # else they would not be spoiled
    assert {"MetadataError", "ChunkError"} <= outcomes.keys()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SLOW, BATCH))
def test_a_hundred_thousand_spoiled_files(first):
    check_spoiled(first, BATCH)


def test_a_sample_of_the_hostile_files():
    named = ("100, plain/0.0", ", junk", f"format 2: rows shape [{10**30}]")
    bombs = [number for number, file in enumerate(all_files()) if file.name.endswith(named)]
    assert run("files", *range(7, len(all_files()), FEWER), *bombs[:3])[0] == []


@pytest.mark.slow
@pytest.mark.parametrize("first", range(SLICES))
def test_all_hostile_files(first):
    assert run("files", *range(first, len(all_files()), SLICES))[0] == []


def test_the_guard_hears_what_it_should():
    """A child that is told to misbehave says so: the tests can fail."""
    kinds = [failure["kind"] for failure in run("misbehave")[0]]
    assert kinds == ["!ForbiddenError", "!IndexError", "!MemoryError", *["!ForbiddenError"] * 5]


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_the_seeds_are_whole():
    for files in seeds():
        assert read_builder(files).datasets
        assert {problem.kind for problem in verify(files).problems} <= {"link-dangling"}


def test_a_number_is_a_file():
    again = [pickle.dumps(mutated(seeds(), number)) for number in range(50)]
    assert again == [pickle.dumps(mutated(seeds(), number)) for number in range(50)]
    assert len(set(again)) > 45
