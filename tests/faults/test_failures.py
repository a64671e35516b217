"""What goes wrong while a file is read or written: an error of ours that says why, the old file, and nothing else.

Any call of the system that is refused: ``test_refused.py``; servers that refuse: ``tests/stores/test_far.py``.
"""

from __future__ import annotations

import errno
import os
import shutil
import threading
import warnings
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from hdmf_zarr_backend import WriteOptions, ZarrIO, errors
from hdmf_zarr_backend.errors import StoreError, StoreFullError
from hdmf_zarr_backend.store.local import LocalStore
from tests import trees
from tests.faults.appending import failing
from tests.faults.killing import NEW, OLD, act, state, write, write_hdf5
from tests.hostile.calls import values_with
from tests.places import stored_files, streaming

CHUNKS = 12
CODES = {errno.ENOSPC: StoreFullError, errno.EIO: StoreError, errno.EACCES: errors.StoreRefusedError,
         errno.ETIMEDOUT: errors.StoreUnreachableError}  # fmt: skip


@pytest.mark.parametrize("before", [False, True], ids=["a new file", "an overwrite"])
@pytest.mark.parametrize(("what", "name"), [("write", "a.zarr"), ("convert", "a.zarr"), ("write", "a.zarr.zip")])
def test_a_step_that_is_refused_is_told_and_leaves_the_old_file(tmp_path, what, name, before):
    write_hdf5(tmp_path / "source.h5", NEW, CHUNKS)
    refused = 0
    for step in range(1, 1000, 5):
        folder, code = tmp_path / str(step), list(CODES)[step % 4]
        folder.mkdir()
        os.link(tmp_path / "source.h5", folder / "source.h5")
        if before:
            write(folder / name, OLD, CHUNKS)
        there = set(os.listdir(folder))
        with failing(folder, step, OSError(code, os.strerror(code))) as asked, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what could not be removed when all was done
            try:
                act(what, str(folder / name), CHUNKS, {})
            except CODES[code] as error:
                assert error.store == str(folder / name)
                assert os.strerror(code) in error.problem
                assert error.remedy
                assert set(os.listdir(folder)) <= {*there, f".{name}.lock"}
                refused += 1
            else:
                there = set()
        assert state(folder / name, CHUNKS) == ("new" if not there else "old" if before else "nothing")
        shutil.rmtree(folder)
        if len(asked) < step:
            break
    assert refused


# ---- errors say what is wrong with a disk ---------------------------------------------------------------------------
@pytest.mark.parametrize("code", CODES, ids=lambda code: errno.errorcode[code])
def test_a_value_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    write(tmp_path / "a.zarr", NEW, CHUNKS)
    with ZarrIO(tmp_path / "a.zarr") as io:
        data = io.read_builder()["deep/g/n"].data
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", Mock(side_effect=OSError(code, os.strerror(code))))
            with pytest.raises(CODES[code], match="could not be read") as caught:
                data[:]
        assert (caught.value.store, caught.value.path) == (str(tmp_path / "a.zarr"), "/deep/g/n")
        assert data[:].shape == (CHUNKS * 4, 3)


def test_a_streamed_value_is_told_as_others_are_and_what_its_user_raises_is_not(tmp_path, monkeypatch):
    store = LocalStore(str(tmp_path / "a.zarr"))
    for error in (OSError("of the user"), errors.ZarrBackendError("of the user")):
        with pytest.raises(type(error), match="of the user") as caught, streaming(store, "a/c/0") as write_piece:
            write_piece(b"1")
            assert store.get("a/c/0") is None
            raise error
        assert caught.value is error
    with streaming(store, "a/c/0") as write_piece:
        write_piece(b"12")
        write_piece(b"34")
    monkeypatch.setattr(os, "write", Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))))
    with pytest.raises(StoreFullError) as told, streaming(store, "a/c/0") as write_piece:
        write_piece(b"1")
    assert told.value.path == "/a"
    assert stored_files(tmp_path / "a.zarr") == {"a/c/0": b"1234"}


def test_a_value_below_a_file_is_refused_by_the_reason_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a file")
    for key in ("x/0", "x/c/0"):
        with pytest.raises(errors.StoreNotFoundError, match="Not a directory"):
            LocalStore(str(tmp_path))._set(key, b"1")
    assert stored_files(tmp_path) == {"x": b"a file"}


# ---- a directory that vanishes --------------------------------------------------------------------------------------
def test_a_file_that_is_replaced_while_it_is_open_for_changes(tmp_path: Path) -> None:
    """Its changes are not written to the other one; of a file that is gone: ``tests/hostile/calls.py``."""
    path = tmp_path / "a.zarr"
    write(path, OLD, CHUNKS)
    with pytest.raises(StoreError, match="replaced or removed"), trees.edit_builder(path) as builder:
        builder.set_group(trees.group("new", trees.dataset("x", [1])))
        shutil.rmtree(path)
        write(tmp_path / "b.zarr", NEW, CHUNKS)
        os.rename(tmp_path / "b.zarr", path)
    assert state(path, CHUNKS) == "new"
    assert "new" not in os.listdir(path)


def test_a_file_that_vanishes_while_it_is_read(tmp_path: Path) -> None:
    write(tmp_path / "a.zarr", OLD, CHUNKS)
    with ZarrIO(tmp_path / "a.zarr") as io:
        data = io.read_builder()["deep/g/n"].data
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
    data = values_with(Mock(side_effect=KeyboardInterrupt), rows=200_000)
    with pytest.raises(KeyboardInterrupt):
        trees.write_builder(path, trees.root(trees.dataset("x", data)), write_options=WriteOptions(executor=executor))
    assert state(path, CHUNKS) == ("old" if before else "nothing")
    assert os.listdir(tmp_path) == (["a.zarr"] if before else [])
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("hdmf-zarr_")]
