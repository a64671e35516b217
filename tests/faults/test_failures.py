"""A whole write of which the system refuses one step: an error of ours that says why, the old file, and nothing else.

Issue "Nothing lost, nobody let in", "Done when" (the n-th operation fails) and part 6 (a full disk, no permission, a
directory that vanishes, Ctrl-C in a worker). Servers that refuse: ``tests/stores/test_far.py``.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.errors import (
    StoreError,
    StoreFullError,
    StoreNotFoundError,
    StoreRefusedError,
    StoreUnreachableError,
    ZarrBackendError,
)
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.stores import files as store_files
from hdmf_zarr_backend.stores import local as local_store
from hdmf_zarr_backend.stores.local import LocalStore
from tests import trees
from tests.faults.appending import local_contents, spread
from tests.faults.killing import NEW, OLD, act, state, write, write_hdf5

CHUNKS = 12
CODES = {
    errno.ENOSPC: StoreFullError,
    errno.EIO: StoreError,
    errno.EACCES: StoreRefusedError,
    errno.ETIMEDOUT: StoreUnreachableError,
}
EACH = pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])


@contextmanager
def refusing(code: int, step: int, *, on: bool = False) -> Iterator[Callable[[], int]]:
    """Let the step of a number fail, and if ``on`` all later ones by which something is written."""
    count = 0

    def refuse(*, is_write: bool) -> None:
        nonlocal count
        count += 1
        if count == step or (on and is_write and count > step > 0):
            raise OSError(code, os.strerror(code))

    def checked(function: Callable[..., Any], *, is_write: bool) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            refuse(is_write=is_write)
            return function(*arguments, **options)

        return call

    def half(path: str, value: bytes, **options: Any) -> None:
        write_file(path, value[: len(value) // 2], **options)
        refuse(is_write=True)
        with open(path, "ab") as file:
            file.write(value[len(value) // 2 :])

    write_file = local_store.write_file

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local_store, "write_file", half)
        patch.setattr(store_files, "_renameat2", checked(store_files._renameat2, is_write=True))
        for name in ("mkdir", "replace", "rename"):
            patch.setattr(os, name, checked(getattr(os, name), is_write=True))
        for name in ("unlink", "rmdir"):
            patch.setattr(os, name, checked(getattr(os, name), is_write=False))
        yield lambda: count


def steps_of(folder: Path, what: str, name: str) -> int:
    """Return how many steps a write has that succeeds."""
    (folder / "count").mkdir()
    if what == "convert":
        os.link(folder / "source.h5", folder / "count" / "source.h5")
    with refusing(errno.EIO, 0) as count:
        act(what, str(folder / "count" / name), CHUNKS, {})
    shutil.rmtree(folder / "count")
    return count()


@pytest.mark.parametrize("before", [False, True], ids=["a new file", "an overwrite"])
@pytest.mark.parametrize(("what", "name"), [("write", "a.zarr"), ("convert", "a.zarr"), ("write", "a.zarr.zip")])
def test_the_nth_step_is_refused(tmp_path: Path, what: str, name: str, before: bool) -> None:
    check_refused(tmp_path, what, name, before=before, points=24)


@pytest.mark.slow
@pytest.mark.parametrize("before", [False, True], ids=["a new file", "an overwrite"])
@pytest.mark.parametrize(("what", "name"), [("write", "a.zarr"), ("convert", "a.zarr"), ("write", "a.zarr.zip")])
def test_any_step_is_refused_for_any_reason(tmp_path: Path, what: str, name: str, before: bool) -> None:
    check_refused(tmp_path, what, name, before=before, points=0)


def check_refused(tmp_path: Path, what: str, name: str, *, before: bool, points: int) -> None:
    """Refuse so many of the steps, one reason after the other; 0 points: all steps, for each reason."""
    if what == "convert":
        write_hdf5(tmp_path / "source.h5", NEW, CHUNKS)
    place = tmp_path / "now" / name
    place.parent.mkdir()
    if what == "convert":
        os.link(tmp_path / "source.h5", place.parent / "source.h5")
    if before:
        write(place, OLD, CHUNKS)
    there = set(os.listdir(place.parent))
    seen = set()
    steps = spread(steps_of(tmp_path, what, name), points)
    reasons = list(CODES)
    cases = [(step, reasons[number % 4]) for number, step in enumerate(steps)]
    for step, code in cases if points else itertools.product(steps, reasons):
        with warnings.catch_warnings(record=True) as said, refusing(code, step, on=code == errno.ENOSPC):
            warnings.simplefilter("always")
            try:
                act(what, str(place), CHUNKS, {})
            except CODES[code] as error:
                assert error.store == str(place)
                assert os.strerror(code) in error.problem
                assert error.remedy
                assert set(os.listdir(place.parent)) <= {*there, f".{name}.lock"}
                assert state(place, CHUNKS) == ("old" if before else "nothing")
                seen.add("refused")
                continue
        # what failed came after the file was whole: the old one, or a lock that is free, could not be removed
        assert state(place, CHUNKS) == "new"
        left = {entry for entry in os.listdir(place.parent) if entry.endswith(".partial")}
        assert len(said) == len(left) <= 1
        seen.add("written")
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        for entry in left:
            partial = place.parent / entry
            shutil.rmtree(partial) if partial.is_dir() else partial.unlink()
        if before:
            write(place, OLD, CHUNKS)
    assert "refused" in seen
    act(what, str(place), CHUNKS, {})
    assert state(place, CHUNKS) == "new"


# ---- errors say what is wrong with a disk ---------------------------------------------------------------------------


@EACH
def test_a_value_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    write(tmp_path / "a.zarr", NEW, CHUNKS)
    with ZarrIO(tmp_path / "a.zarr") as io:
        data = io.read_builder().groups["deep"].groups["g"].datasets["n"].data

        def fail(*arguments: Any, **options: Any) -> Any:
            raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", fail)
            with pytest.raises(CODES[code], match="could not be read") as caught:
                data[:]
        assert (caught.value.store, caught.value.path) == (str(tmp_path / "a.zarr"), "/deep/g/n")
        assert data[:].shape == (CHUNKS * 4, 3)


def test_a_streamed_value_is_told_as_others_are_and_what_its_user_raises_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(str(tmp_path / "a.zarr"))
    with pytest.raises(OSError, match="of the user") as caught, store.stream("a/c/0") as write_piece:
        write_piece(b"1")
        raise OSError("of the user")
    assert not isinstance(caught.value, ZarrBackendError)

    def fail(*arguments: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", fail)
    with pytest.raises(StoreFullError) as told, store.stream("a/c/0") as write_piece:
        write_piece(b"1")
    assert told.value.path == "/a"
    assert local_contents(tmp_path / "a.zarr") == {}


# ---- a directory that vanishes --------------------------------------------------------------------------------------


class Vanishing(np.ndarray[Any, Any]):
    """Data during whose writing something happens."""

    happens: Callable[[], None]

    def __getitem__(self, key: Any) -> Any:
        self.happens()
        return np.asarray(self)[key]


def test_a_folder_that_vanishes_while_it_is_written(tmp_path: Path) -> None:
    folder = tmp_path / "sub"
    folder.mkdir()

    def vanish() -> None:
        shutil.rmtree(folder, ignore_errors=True)

    values = np.zeros((400, 4), "i4").view(Vanishing)
    values.happens = vanish
    with ZarrIO(folder / "a.zarr", "w") as io, pytest.raises(StoreNotFoundError, match="removed or moved") as caught:
        io.write_builder(trees.root(trees.dataset("x", ZarrDataIO(values, chunks=(100, 4)))))
    assert caught.value.store == str(folder / "a.zarr")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("how", ["removed", "replaced"])
def test_a_file_that_vanishes_while_it_is_open_for_changes(tmp_path: Path, how: str) -> None:
    """It is not made anew with what has changed, which would look whole."""
    path = tmp_path / "a.zarr"
    write(path, OLD, CHUNKS)
    with pytest.raises(StoreError, match="replaced or removed"), ZarrIO(path, "r+") as io:
        builder = io.read_builder()
        builder.set_group(trees.group("new", trees.dataset("x", [1])))
        shutil.rmtree(path)
        if how == "replaced":
            write(tmp_path / "b.zarr", NEW, CHUNKS)
            os.rename(tmp_path / "b.zarr", path)
        io.write_builder(builder)
    assert state(path, CHUNKS) == ("new" if how == "replaced" else "nothing")
    assert not path.exists() or "new" not in os.listdir(path)


def test_a_file_that_vanishes_while_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.zarr", OLD, CHUNKS)
    with ZarrIO(tmp_path / "a.zarr") as io:
        data = io.read_builder().groups["deep"].groups["g"].datasets["n"].data
        shutil.rmtree(tmp_path / "a.zarr")
        with pytest.raises(StoreError, match="replaced or removed while it was open"):
            data[:]


# ---- Ctrl-C in a worker ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executor", [None, 2], ids=["serial", "threads"])
@pytest.mark.parametrize("before", [False, True], ids=["a new file", "an overwrite"])
def test_ctrl_c_in_a_worker(tmp_path: Path, executor: Any, before: bool) -> None:
    path = tmp_path / "a.zarr"
    if before:
        write(path, OLD, CHUNKS)

    def stop() -> None:
        raise KeyboardInterrupt

    values = np.zeros((400_000, 4), "i4").view(Vanishing)
    values.happens = stop
    with pytest.raises(KeyboardInterrupt), ZarrIO(path, "w", write_options=WriteOptions(executor=executor)) as io:
        io.write_builder(trees.root(trees.dataset("x", ZarrDataIO(values, chunks=(1000, 4)))))
    assert state(path, CHUNKS) == ("old" if before else "nothing")
    assert os.listdir(tmp_path) == (["a.zarr"] if before else [])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hdmf-zarr_")]


def test_ctrl_c_while_a_file_is_converted_leaves_the_old_one(tmp_path: Path) -> None:
    from hdmf_zarr_backend.progress import Progress

    class Stopping(Progress):
        def advance(self, path: str, done: int) -> None:
            raise KeyboardInterrupt

    write_hdf5(tmp_path / "a.h5", NEW, CHUNKS)
    write(tmp_path / "a.zarr", OLD, CHUNKS)
    with pytest.raises(KeyboardInterrupt):
        convert(
            tmp_path / "a.h5",
            tmp_path / "a.zarr",
            overwrite=True,
            check=False,
            write_options=WriteOptions(progress=Stopping()),
        )
    assert state(tmp_path / "a.zarr", CHUNKS) == "old"
