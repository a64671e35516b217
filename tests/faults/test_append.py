"""An append that is killed or fails at any of its steps leaves the file as it was, or as it is after.

Issue "Nothing lost, nobody let in", part 2, and the part of its fault tests that is about appending.
"""

from __future__ import annotations

import errno
import os
import shutil
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.common import get_manager

from hdmf_zarr_backend import ZarrIO, repair, verify
from hdmf_zarr_backend.arrays import edits as edits_module
from hdmf_zarr_backend.errors import (
    ConflictError,
    JournalWarning,
    StoreError,
    StoreFullError,
    StoreRefusedError,
    StoreUnreachableError,
)
from tests.faults.appendchecks import Checks
from tests.faults.appending import (
    VARIANTS,
    append,
    failing,
    is_marked,
    said,
    spread,
    write_before,
)
from tests.faults.killing import killed
from tests.places import stored_files
from tests.watching import listening

FORMATS = pytest.mark.parametrize("zarr_format", [2, 3])
FAST_POINTS = 6
"""For each format."""

GONE = OSError(errno.ETIMEDOUT, "the disk is gone")


@pytest.fixture(autouse=True)
def _waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What an append does to the bound of what waits ends with the test."""
    monkeypatch.setattr(edits_module, "WAITING_BYTES", edits_module.WAITING_BYTES)


@pytest.fixture
def whole(tmp_path: Path) -> Callable[[int], Path]:
    """Makes the file that is appended to."""

    def make(zarr_format: int) -> Path:
        write_before(tmp_path / "before", zarr_format)
        shutil.copytree(tmp_path / "before", tmp_path / "0")
        return tmp_path

    return make


# ---- killed ---------------------------------------------------------------------------------------------------------


def check_killed(folder: Path, variant: str, points: int, *, again: int) -> tuple[int, list[str]]:
    """Check each file whose append was killed; let every so many be appended to again."""
    with killed(variant, f"{folder}/{{}}", 0, {}, "local", points) as (count, kills):
        steps = spread(count, points)
        for step in steps:
            shutil.copytree(folder / "before", folder / str(step))
            assert next(kills) == step
    checks = Checks(variant, folder / "before", folder / "0")
    there = stored_files(folder / "before")
    for number, step in enumerate(steps):
        place = folder / str(step)
        checks.first_reader(place, is_killed=True)
        state = checks.repaired(place, by_opening=bool(number % 2))
        # a first key of a journal that was not put to its end goes with the next change, or with `repair`
        begun = sorted(place.glob(".hdmf_zarr_journal.*.partial")) if number % 2 else []
        if state == "before":
            assert {key: value for key, value in stored_files(place).items() if place / key not in begun} == there
            if number % again == 0:
                append(place, variant)
                assert said(place) == checks.after
                begun = []
        assert sorted(place.rglob("*.partial")) == begun
        shutil.rmtree(place)
    return len(steps), checks.seen


@pytest.mark.parametrize(("variant", "zarr_format"), [("rows", "both"), ("wider", "both"), ("rows", 3), ("sharded", 3)])
def test_an_append_that_is_killed_is_undone_or_done(whole, variant, zarr_format):
    _, seen = check_killed(whole(zarr_format), variant, FAST_POINTS, again=6)
    assert {"before", "after"} <= set(seen)


@pytest.mark.slow
@pytest.mark.parametrize("zarr_format", [2, 3, "both"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_append_that_is_killed_anywhere_is_undone_or_done(whole, zarr_format, variant):
    count, seen = check_killed(whole(zarr_format), variant, 0, again=1)
    assert count > 50
    assert {"before", "after"} <= set(seen)
    assert ("changing" in seen) == is_marked(variant, zarr_format)


# ---- killed while it is undone --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "zarr_format"), [("rows", 2), ("wider", 2), ("wider", 3), ("wider rows", 3), ("sharded", 3)]
)
def test_an_undo_that_stops_anywhere_is_done_again(whole, zarr_format, variant):
    folder = whole(zarr_format)
    append(folder / "0", variant)
    checks = Checks(variant, folder / "before", folder / "0")
    shutil.copytree(folder / "before", folder / "stopped")
    stop_before_the_last_put(folder / "stopped", variant)
    for step in range(1, 1000, 3):
        place = Path(shutil.copytree(folder / "stopped", folder / "undone"))
        with failing(place, step, GONE, on=True) as asked, suppress(StoreUnreachableError):
            repair(place)
        if step % 2 or len(asked) < step:
            assert checks.repaired(place, by_opening=False) == "before"
            assert stored_files(place) == stored_files(folder / "before")
        shutil.rmtree(place)
        if len(asked) < step:
            break
    assert step > 10


def stop_before_the_last_put(place: Path, variant: str) -> None:
    """Append, and stop for good when the consolidated document is to be put."""
    stopped = False

    def hear(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal stopped
        if event == "os.rename" and arguments[1] in (f"{place}/.zmetadata", f"{place}/zarr.json"):
            stopped = stopped or b"changing" not in Path(arguments[0]).read_bytes()
        is_write = event == "open" and bool(arguments[2] & (os.O_WRONLY | os.O_RDWR))
        if stopped and (is_write or event in ("os.rename", "os.remove")) and str(arguments[0]).startswith(f"{place}/"):
            raise GONE

    with listening(hear), pytest.raises(StoreUnreachableError):
        append(place, variant)
    assert stopped
    for partial in place.rglob("*.partial"):
        partial.unlink()


# ---- failing --------------------------------------------------------------------------------------------------------

FAILURES: tuple[tuple[BaseException, type[BaseException]], ...] = (
    (OSError(errno.ENOSPC, "No space left on device"), StoreFullError),
    (OSError(errno.EIO, "Input/output error"), StoreError),
    (OSError(errno.EACCES, "Permission denied"), StoreRefusedError),
    (GONE, StoreUnreachableError),
    (KeyboardInterrupt(), KeyboardInterrupt),
)


def is_tidying(operation: str) -> bool:
    """Tell whether an operation comes when the change is done: chunks that nobody reads, the journal."""
    return operation.startswith("delete") and operation != "delete .zmetadata"


def check_failing(folder: Path, variant: str, every: int) -> int:
    """Let an append fail at its steps, one after the other; return how many there were."""
    there = stored_files(folder / "before")
    append(folder / "0", variant)
    checks = Checks(variant, folder / "before", folder / "0")
    edits_module.WAITING_BYTES = 64 * 2**20
    for step in range(1, 1000, every):
        error, kind = FAILURES[step % len(FAILURES)]
        place = Path(shutil.copytree(folder / "before", folder / "failing"))
        with failing(place, step, error) as asked:
            try:
                with warnings.catch_warnings(record=True) as told:
                    warnings.simplefilter("always")
                    append(place, variant)
            except kind:
                if is_tidying(asked[step - 1]):
                    assert kind is KeyboardInterrupt
                    assert checks.repaired(place, by_opening=True) == "after"
                else:
                    assert stored_files(place) == there
                    assert not told
            else:  # all was done, and what failed was to tidy up
                assert len(asked) < step or is_tidying(asked[step - 1])
                assert checks.state(said(place)) == "after"
                assert [warning.category for warning in told] == [JournalWarning] * (len(asked) >= step)
                checks.repaired(place, by_opening=True)
        shutil.rmtree(place)
        if len(asked) < step:
            return step
    raise AssertionError("it never came to its end")


@FORMATS
def test_an_append_that_fails_is_undone_at_once(whole, zarr_format):
    check_failing(whole(zarr_format), "rows", every=5)


@pytest.mark.slow
@FORMATS
@pytest.mark.parametrize("variant", VARIANTS)
def test_an_append_that_fails_anywhere_is_undone_at_once(whole, zarr_format, variant):
    assert check_failing(whole(zarr_format), variant, every=1) > 20


@FORMATS
@pytest.mark.parametrize("variant", ["rows", "early", "wider", "sharded"])
def test_what_cannot_be_undone_either_is_said_and_undone_later(whole, zarr_format, variant):
    """As when the disk is gone, or a server: the error says what to do, and readers see the file as it was."""
    folder = whole(zarr_format)
    append(folder / "0", variant)
    checks = Checks(variant, folder / "before", folder / "0")
    noted = 0
    for step in (2, 5, 9, 14):
        place = Path(shutil.copytree(folder / "before", folder / "failing"))
        with failing(place, step, GONE, on=True), pytest.raises(StoreUnreachableError) as caught:
            append(place, variant)
        noted += any("zarrio repair" in note for note in getattr(caught.value, "__notes__", []))
        assert {problem.kind for problem in verify(place, "structure").problems} >= {"change-interrupted"}
        checks.first_reader(place)
        assert checks.repaired(place, by_opening=True) == "before"
        shutil.rmtree(place)
    assert noted == 4


def test_a_write_that_failed_can_be_tried_again(whole):
    place = whole(2) / "0"
    with ZarrIO(place, "a", manager=get_manager()) as io:
        root = io.read()
        root["table"].add_row(id=2, words="c", ragged=[1, 2], objects=root["target"])
        for step in (1, 4, 8):
            error = OSError(errno.ENOSPC, "No space left on device")
            with failing(place, step, error), pytest.raises(StoreFullError, match="No space"):
                io.write(root)
        io.write(root)
    with ZarrIO(place, manager=get_manager()) as io:
        assert io.read()["table"]["words"].data[:].tolist() == ["a", "b", "c"]
    assert verify(place).is_sound


def test_a_file_whose_write_failed_writes_nothing_when_it_is_closed(whole):
    place = whole(2) / "0"
    there = stored_files(place)
    error = OSError(errno.EIO, "Input/output error")
    with pytest.raises(StoreError, match="Input"), ZarrIO(place, "a", manager=get_manager()) as io:
        root = io.read()
        root["numbers"]["growing"].data.append([1.0])
        with failing(place, 3, error):
            io.write(root)
    assert stored_files(place) == there


def test_changes_that_were_written_early_and_undone_are_not_forgotten_in_silence(whole, monkeypatch):
    place = whole(2) / "0"
    there = stored_files(place)
    monkeypatch.setattr(edits_module, "WAITING_BYTES", 40)
    io = ZarrIO(place, "a", manager=get_manager())
    data = io.read()["numbers"]["growing"].data
    data.append(np.arange(8.0))  # two chunks, one of which is written
    assert stored_files(place) != there
    error = OSError(errno.ENOSPC, "No space left on device")
    with failing(place, 2, error), pytest.raises(StoreFullError, match="No space"):
        io.write(io.read())
    assert stored_files(place) == there
    with pytest.raises(StoreError, match="not in memory any more"):
        io.write(io.read())
    io.close()
    assert stored_files(place) == there


# ---- a reader that has the file open --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variant", "zarr_format", "what"),
    [("wider", 2, "another data type"), ("larger chunks", 3, "other chunks"), ("wider rows", 3, "another data type")],
)
def test_a_reader_from_before_is_told_of_a_change_that_is_under_way(whole, variant, zarr_format, what):
    """New chunks have the names of the old ones: they are not damage, and are not taken for what was there."""
    folder = whole(zarr_format)
    names = ("table/ragged_index", "numbers/growing", "texts")
    seen = set()
    for step in range(1, 1000, 5):
        place = Path(shutil.copytree(folder / "before", folder / "changing"))
        with ZarrIO(place) as io:
            root = io.read_builder()
            arrays = [root[name].data for name in names]
            with (
                failing(place, step, GONE, on=True) as asked,
                suppress(StoreUnreachableError),
                suppress(JournalWarning),
            ):
                append(place, variant)
            with ZarrIO(folder / "before") as before:
                old = before.read_builder()
                for name, array in zip(names, arrays, strict=True):
                    try:
                        assert np.array_equal(array[:], old[name].data[:])
                    except StoreError as error:
                        assert error.remedy == "Open the file again."
                        seen.add(error.problem)
        shutil.rmtree(place)
        if len(asked) < step:
            break
    assert seen == {f"the array was given {what} while it was open"}


# ---- what must not be lost by an undo -------------------------------------------------------------------------------


def test_what_the_metadata_do_not_know_of_is_not_taken_for_new(whole):
    """Another program may have written it, without the consolidated document; an undo would delete it."""
    place = whole(2) / "0"
    (place / "new" / "flags").mkdir(parents=True)
    (place / "new" / "flags" / "0").write_bytes(b"of somebody else")
    there = stored_files(place)
    with pytest.raises(ConflictError, match="the metadata have no such node") as caught:
        append(place, "rows")
    assert caught.value.path == "/new"
    assert stored_files(place) == there
