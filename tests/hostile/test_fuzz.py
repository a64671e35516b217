"""Spoiled files, by the thousand: errors of ours or values come out, in bounded memory, and nothing else is touched.

Source: issue "Nothing lost, nobody let in", "Done when".
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend import ZarrIO, verify
from tests.hostile.mutate import mutated
from tests.hostile.seeds import seeds

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the child limits its memory as Linux does")

ROOT = Path(__file__).resolve().parents[2]
FAST, SLOW, BATCH = 500, 100_000, 5_000
MEGABYTES = 600
"""Bound of what reading spoiled files adds to the memory of a process; the limits in the child add up to less."""


def read_spoiled(first: int, count: int, *arguments: str) -> dict[str, Any]:
    """Read ``count`` spoiled files in a process of its own, and return what it says."""
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.hostile.child", str(first), str(count), *arguments],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False, timeout=3000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    report: dict[str, Any] = json.loads(done.stdout)
    return report


def check(report: dict[str, Any], count: int) -> None:
    assert report["cases"] == count
    assert report["failures"] == []
    assert report["megabytes"] < MEGABYTES
    assert sum(report["outcomes"].values()) == count


def test_some_spoiled_files():
    report = read_spoiled(0, FAST)
    check(report, FAST)
    assert report["outcomes"]["read"] < 0.8 * FAST  # else they would not be spoiled
    assert {"MetadataError", "ChunkError"} <= report["outcomes"].keys()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SLOW, BATCH))
def test_a_hundred_thousand_spoiled_files(first):
    check(read_spoiled(first, BATCH), BATCH)


def test_the_child_hears_and_sees_what_it_should():
    """A child that is told to misbehave says so: the test can fail."""
    report = read_spoiled(0, 4, "misbehave")
    assert [failure["kind"] for failure in report["failures"]] == ["!heard", "!RuntimeError", "!MemoryError", "!heard"]
    assert "os.system" in report["failures"][0]["trace"]
    assert "open" in report["failures"][3]["trace"]


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
def test_the_seeds_are_whole():
    for files in seeds():
        with ZarrIO(files) as io:
            assert io.read_builder().datasets
        assert {problem.kind for problem in verify(files).problems} <= {"link-dangling"}


def test_a_number_is_a_file():
    originals = seeds()
    again = [pickle.dumps(mutated(originals, number)) for number in range(50)]
    assert again == [pickle.dumps(mutated(originals, number)) for number in range(50)]
    assert len(set(again)) > 45
