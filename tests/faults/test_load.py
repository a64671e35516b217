"""Two writers, eight readers and an appender on one file: nothing is lost, nothing is mixed, the refused are told why.

Issue "Nothing lost, nobody let in", "Done when".
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend import ZarrIO, verify
from tests.faults.load import check

ROOT = Path(__file__).parents[2]


def run(folder: Path, turns: int, seconds: float = 0) -> Counter[str]:
    """Let them work so often and so long, check what they say, and return the figures."""
    command = [sys.executable, "-m", "tests.faults.load", str(folder), str(turns), str(seconds)]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=1800)
    assert answer.returncode == 0, answer.stderr
    said = {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}
    assert len(said) == 11
    figures: Counter[str] = Counter()
    for name, found in said.items():
        kind = name.partition("-")[0]
        if kind == "reader":
            figures.update(found)
        else:
            assert len(found["done"]) >= turns
            assert set(found["refused"]) <= {"named"}  # each was told which process has the file
            figures[f"{kind}: done"] += len(found["done"])
            figures[f"{kind}: refused"] += found["refused"].get("named", 0)
    state = check_order([turn for found in said.values() for turn in found.get("done", [])])
    with ZarrIO(folder / "a.zarr") as io:
        assert list(check(io)) == state
    assert verify(folder / "a.zarr").is_sound
    assert {path.name for path in folder.iterdir() if path.suffix != ".json"} == {"a.zarr", "end"}
    return figures


def check_order(turns: list[dict[str, Any]]) -> list[int]:
    """Make sure that each append found what the turn before it has left, and return what the last one has left.

    Each has noted a time at which it had the lock; no two can have had it at once.
    """
    state = [0, 0]
    for turn in sorted(turns, key=lambda turn: turn["at"]):
        assert turn.get("found", state) == state, "a write was lost"
        state = turn["left"]
    return state


def test_two_writers_eight_readers_and_an_appender(tmp_path: Path) -> None:
    figures = run(tmp_path, 5)
    assert figures["reads"] > 8
    assert figures["versions"] > 8


@pytest.mark.slow
def test_two_writers_eight_readers_and_an_appender_for_long(tmp_path: Path) -> None:
    start = time.monotonic()
    figures = run(tmp_path, 60, seconds=60)
    assert time.monotonic() - start > 60
    assert figures["reads"] > 300
    assert figures["writer: refused"] + figures["appender: refused"] > 0
    assert figures["told to wait"] > 0


if __name__ == "__main__":  # `python -m tests.faults.test_load 60`: the figures of docs/explanation/consistency.md
    with tempfile.TemporaryDirectory() as place:
        start = time.perf_counter()
        found = json.dumps(run(Path(place), 1, seconds=float(sys.argv[1])), indent=1, sort_keys=True)
        sys.stdout.write(f"{found}\n{time.perf_counter() - start:.0f} s\n")
