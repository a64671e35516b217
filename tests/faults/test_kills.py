"""A whole write that is killed at any of its steps: the file opens as before, as after, or says that it is not whole.

Issue "Nothing lost, nobody let in", "Done when": a writer is killed at every k-th operation on the store of a write, an
overwrite and a conversion; what existed is never lost, and writing again gets to the end. Appends: ``test_append.py``;
what a conversion that was killed goes on with: ``tests/write/test_resume.py``.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend import ZarrIO
from tests.faults.appending import spread
from tests.faults.killing import NEW, OLD, act, killed, state, write, write_hdf5

FAST_POINTS, FAST_CHUNKS = 10, 4
SLOW_POINTS, SLOW_CHUNKS = 200, 90


def points_and_chunks(*, slow: bool) -> tuple[int, int]:
    return (SLOW_POINTS, SLOW_CHUNKS) if slow else (FAST_POINTS, FAST_CHUNKS)


# ---- local ----------------------------------------------------------------------------------------------------------

CASES = {
    # what is done, the name of the file, options, how steps are counted, what may be found, what has to be found
    "a new file": ("write", "a.zarr", {"zarr_format": 2}, "disk", "", {"nothing", "new"}),
    "an overwrite": ("write", "a.zarr", {"zarr_format": 3}, "disk", "old", {"old", "new"}),
    "by two renames": ("write", "a.zarr", {"zarr_format": 2}, "two-renames", "old", {"old", "new", "nothing"}),
    "a new zip file": ("write", "a.zarr.zip", {}, "disk", "", {"nothing", "new"}),
    "a zip file again": ("write", "a.zarr.zip", {}, "disk", "old", {"old", "new"}),
    "a conversion": ("convert", "a.zarr", {"zarr_format": 2}, "disk", "", {"nothing", "new"}),
    "a conversion over a file": ("convert", "a.zarr", {"zarr_format": 3}, "disk", "old", {"old", "new"}),
}
SHORT = ("a new file", "an overwrite", "a conversion over a file")


def check_local(folder: Path, case: str, *, slow: bool, points: int | None = None) -> None:
    what, name, options, how, before, expected = CASES[case]
    most, chunks = points_and_chunks(slow=slow)
    write(folder / f"old-{name}", OLD, chunks, **({} if name.endswith(".zip") else options))
    for place in ("0", "now"):
        (folder / place).mkdir()
    if what == "convert":
        write_hdf5(folder / "source.h5", NEW, chunks)

    def make(place: Path) -> None:
        place.mkdir(exist_ok=True)
        if what == "convert":
            os.link(folder / "source.h5", place / "source.h5")
        if before:
            copy = shutil.copytree if (folder / f"old-{name}").is_dir() else shutil.copy
            copy(folder / f"old-{name}", place / name)

    make(folder / "0")
    there = {name, "source.h5"} if what == "convert" else {name}
    seen: Counter[str] = Counter()
    with killed(what, f"{folder}/{{}}/{name}", chunks, options, how, points or most) as (count, steps):
        assert state(folder / "0" / name, chunks) == "new"
        assert count > (points or most)
        wanted = spread(count, points or most)
        for step in wanted:
            place = folder / str(step)
            make(place)
            assert next(steps) == step
            found = state(place / name, chunks)
            seen[found] += 1
            assert found in expected
            if found == "nothing" and before:
                ZarrIO(place / name, "r+").close()  # the next writer gives it its place back
                assert state(place / name, chunks) == "old"
            act(what, str(place / name), chunks, options)
            assert state(place / name, chunks) == "new"
            assert set(os.listdir(place)) == there  # nothing is left of the one that died
            shutil.rmtree(place)
    assert {"new", "old" if before else "nothing"} <= set(seen) <= expected
    assert seen.total() == len(wanted)


@pytest.mark.parametrize("case", SHORT)
def test_a_write_that_is_killed(tmp_path: Path, case: str) -> None:
    check_local(tmp_path, case, slow=False)


@pytest.mark.parametrize("case", ["by two renames", "a zip file again"])
def test_a_write_that_is_killed_at_a_few_points(tmp_path: Path, case: str) -> None:
    check_local(tmp_path, case, slow=False, points=6)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_write_that_is_killed_anywhere(tmp_path: Path, case: str) -> None:
    check_local(tmp_path, case, slow=True)


# ---- on a server ----------------------------------------------------------------------------------------------------


def check_server(s3: Any, *, zarr_format: int, before: bool, slow: bool) -> None:
    points, chunks = points_and_chunks(slow=slow)
    options = {"zarr_format": zarr_format, "storage_options": s3.direct_options}
    place = s3.url("{}/a.zarr")
    seen: Counter[str] = Counter()
    if before:
        write(place.format(0), OLD, chunks, **options)
    with killed("write", place, chunks, options, "server", points) as (count, steps):
        assert state(place.format(0), chunks, storage_options=s3.direct_options) == "new"
        for step in spread(count, points):
            url = place.format(step)
            if before:
                write(url, OLD, chunks, **options)
            assert next(steps) == step
            found = state(url, chunks, storage_options=s3.direct_options)
            seen[found] += 1
            write(url, NEW, chunks, break_lock=True, **options)
            assert state(url, chunks, storage_options=s3.direct_options) == "new"
            assert {key.partition("/")[0] for key in s3.contents(str(step))} == {"a.zarr"}
    assert set(seen) == {"old" if before else "nothing", "incomplete", "new"}
    assert seen["incomplete"] > points // 2


def test_a_write_to_a_server_that_is_killed(s3: Any) -> None:
    check_server(s3, zarr_format=3, before=True, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True], ids=["a new file", "an overwrite"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_write_to_a_server_that_is_killed_anywhere(s3: Any, zarr_format: int, before: bool) -> None:
    check_server(s3, zarr_format=zarr_format, before=before, slow=True)
