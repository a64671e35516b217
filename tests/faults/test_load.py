"""Two writers, eight readers and an appender on one file: nothing is lost or mixed, and the refused are told why."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend import ZarrIO, verify
from hdmf_zarr_backend.errors import IncompleteStoreError, StoreError
from tests.faults.load import OUTDATED, add, check, write
from tests.transaction.steps import Steps, states

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
    state = [0, 0]
    # each has noted a time at which it had the lock: it has found what the one before it has left
    for turn in sorted(
        (turn for found in said.values() for turn in found.get("done", [])), key=lambda turn: turn["at"]
    ):
        assert turn.get("found", state) == state, "a write was lost"
        state = turn["left"]
    with ZarrIO(folder / "a.zarr") as io:
        assert list(check(io)) == state
    assert verify(folder / "a.zarr").is_sound
    assert {path.name for path in folder.iterdir() if path.suffix != ".json"} == {"a.zarr", "end"}
    return figures


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


# ---- every order of a reader's and a writer's steps -----------------------------------------------------------------
class Overtaken(Mapping[str, bytes]):
    """A file in memory that becomes a later one after some reads of it."""

    def __init__(self, before: dict[str, bytes], after: dict[str, bytes], reads: int) -> None:
        self.files, self.after, self.left = before, after, reads

    def _read(self) -> dict[str, bytes]:
        found = self.files
        self.left -= 1
        if self.left == 0:
            self.files = self.after
        return found

    def __getitem__(self, key: str) -> bytes:
        return self._read()[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self.files)


@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.FormatsDifferWarning")  # true between two puts
@pytest.mark.parametrize("appends", [0, 1], ids=["rows", "rows with larger chunks"])
@pytest.mark.parametrize("zarr_format", [2, 3, "both"])
def test_a_reader_overtaken_by_an_append_sees_one_version_or_is_told_to_wait(zarr_format: Any, appends: int) -> None:
    files: dict[str, bytes] = {}
    write(files, 1, zarr_format)
    for _ in range(appends):
        append(files)
    append(store := Steps(files))
    seen = set()
    for before, after in itertools.combinations(states(files, store.log), 2):
        seen |= seen_between(before, after)
    waiting = {"told to wait", "given other chunks"} if appends else set()
    assert seen == {(1, appends), (1, appends + 1)} | waiting


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_reader_that_lists_the_nodes_while_they_are_appended_to_reads_them_again(zarr_format: int) -> None:
    files: dict[str, bytes] = {}
    write(files, 1, zarr_format)
    before = dict(files)
    before.pop(".zmetadata", None)
    if zarr_format == 3:
        root = json.loads(before["zarr.json"])
        del root["consolidated_metadata"]
        before["zarr.json"] = json.dumps(root).encode()
    append(files)
    assert seen_between(before, files) == {(1, 0), (1, 1)}


def seen_between(before: dict[str, bytes], after: dict[str, bytes]) -> set[Any]:
    """Let a file change between any two reads of it, and return what its readers see."""
    seen = set()
    for reads in itertools.count(1):
        mapping = Overtaken(before, after, reads)
        seen.add(_seen(mapping))
        if mapping.left > 0:
            break
    return seen


def append(files: Any) -> None:
    with ZarrIO(files, "r+") as io:
        add(io, *check(io))


def _seen(mapping: Overtaken) -> Any:
    try:
        with ZarrIO(mapping) as io:
            return check(io)
    except IncompleteStoreError as error:
        assert error.remedy.startswith("Wait ")
        return "told to wait"
    except StoreError as error:
        return OUTDATED[error.problem]
