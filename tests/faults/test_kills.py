"""Processes that are killed by the system while they change a local file, also in the middle of a value.

All steps of all users, on all kinds of stores, without a process each: ``tests/transaction``.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path

import pytest

from hdmf_zarr_backend import ZarrIO, repair, verify
from hdmf_zarr_backend.errors import IncompleteStoreError
from tests.faults.appending import append, said, write_before
from tests.faults.killing import NEW, OLD, act, killed, spread, state, write, write_hdf5
from tests.places import stored_files

POINTS, CHUNKS = 10, 4

CASES = {
    # what is done, the name of the file, options, what was there, what may be found
    "an overwrite": ("write", "a.zarr", {"zarr_format": 3}, "old", {"old", "new"}),
    "a new zip file": ("write", "a.zarr.zip", {}, "", {"nothing", "new"}),
    "a conversion over a file": ("convert", "a.zarr", {"zarr_format": 3}, "old", {"old", "new"}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_write_that_is_killed(tmp_path: Path, case: str) -> None:
    what, name, options, before, expected = CASES[case]
    write(tmp_path / f"old-{name}", OLD, CHUNKS, **({} if name.endswith(".zip") else options))
    (tmp_path / "now").mkdir()
    if what == "convert":
        write_hdf5(tmp_path / "source.h5", NEW, CHUNKS)

    def make(place: Path) -> None:
        place.mkdir(exist_ok=True)
        if what == "convert":
            os.link(tmp_path / "source.h5", place / "source.h5")
        if before:
            shutil.copytree(tmp_path / f"old-{name}", place / name)

    make(tmp_path / "0")
    there = {name, "source.h5"} if what == "convert" else {name}
    seen: Counter[str] = Counter()
    with killed(what, f"{tmp_path}/{{}}/{name}", CHUNKS, options, POINTS) as (count, steps):
        assert state(tmp_path / "0" / name, CHUNKS) == "new"
        assert count > POINTS
        for step in spread(count, POINTS):
            place = tmp_path / str(step)
            make(place)
            assert next(steps) == step
            found = state(place / name, CHUNKS)
            seen[found] += 1
            act(what, str(place / name), CHUNKS, options)
            assert state(place / name, CHUNKS) == "new"
            assert set(os.listdir(place)) == there  # nothing is left of the one that died
    assert {"new", "old" if before else "nothing"} <= set(seen) <= expected


@pytest.mark.filterwarnings(
    "ignore::hdmf_zarr_backend.errors.JournalWarning", "ignore::hdmf_zarr_backend.errors.FormatsDifferWarning"
)
@pytest.mark.parametrize(("variant", "zarr_format"), [("rows", "both"), ("wider", "both"), ("sharded", 3)])
def test_an_append_that_is_killed_is_undone_or_done(tmp_path: Path, variant: str, zarr_format: int) -> None:
    write_before(tmp_path / "before", zarr_format)
    shutil.copytree(tmp_path / "before", tmp_path / "0")
    there, seen = stored_files(tmp_path / "before"), Counter[str]()
    with killed(variant, f"{tmp_path}/{{}}", 0, {}, POINTS) as (count, steps):
        answers = {"before": said(tmp_path / "before"), "after": said(tmp_path / "0")}
        for number, step in enumerate(spread(count, POINTS)):
            place = Path(shutil.copytree(tmp_path / "before", tmp_path / str(step)))
            assert next(steps) == step
            try:
                found = next(name for name, answer in answers.items() if answer == said(place))
            except IncompleteStoreError:
                assert variant == "wider"
                found = "changing"
            seen[found] += 1
            if number % 2:
                ZarrIO(place, "a").close()
            else:
                assert repair(place).left == []
            assert verify(place).is_sound
            if said(place) == answers["before"]:
                assert found != "after"
                # a first record that was not put to its end goes with the next change, or with `repair`
                left = {key for key in stored_files(place) if key.endswith(".partial")} if number % 2 else set()
                assert {key: value for key, value in stored_files(place).items() if key not in left} == there
                append(place, variant)
            assert said(place) == answers["after"]
    assert {"before", "after"} <= set(seen)
