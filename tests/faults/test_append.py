"""An append that fails, as its caller and a reader with an open file see it; all its steps: ``tests/transaction``."""

from __future__ import annotations

import errno
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hdmf.common import get_manager

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.array import edits as edits_module
from hdmf_zarr_backend.errors import JournalWarning, StoreError, StoreFullError, StoreUnreachableError
from tests import trees
from tests.faults.appending import append, failing, write_before
from tests.places import stored_files

GONE = OSError(errno.ETIMEDOUT, "the disk is gone")


def test_changes_that_were_written_early_and_undone_are_not_forgotten_in_silence(tmp_path, monkeypatch):
    place = tmp_path / "0"
    write_before(place, 2)
    there = stored_files(place)
    monkeypatch.setattr(edits_module, "WAITING_BYTES", 40)
    io = ZarrIO(place, "a", manager=get_manager())
    numbers = io.read()["numbers"]
    numbers.id.data.append(np.arange(8))
    numbers["growing"].data.append(np.arange(8.0))  # two chunks, one of which is written
    assert stored_files(place) != there
    error = OSError(errno.ENOSPC, "No space left on device")
    with failing(place, 2, error), pytest.raises(StoreFullError, match="No space"):
        io.write(io.read())
    assert stored_files(place) == there
    with pytest.raises(StoreError, match="not in memory any more"):
        io.write(io.read())
    io.close()
    assert stored_files(place) == there


@pytest.mark.parametrize(("variant", "zarr_format", "what"), [
    ("wider", 2, "another data type"), ("larger chunks", 3, "other chunks"), ("wider rows", 3, "another data type")
])  # fmt: skip
def test_a_reader_from_before_is_told_of_a_change_that_is_under_way(tmp_path, variant, zarr_format, what):
    """New chunks have the names of the old ones: they are not damage, and are not taken for what was there."""
    folder = tmp_path
    write_before(folder / "before", zarr_format)
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
            old = trees.read_builder(folder / "before")
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
