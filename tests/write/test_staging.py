"""A file appears in its place complete, or not at all."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest.mock import DEFAULT, Mock

import numpy as np
import pytest

from hdmf_zarr_backend import WriteOptions, ZarrIO, convert, repair
from hdmf_zarr_backend.errors import IncompleteStoreError, StoreError, StoreExistsError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.store import files as store_files
from hdmf_zarr_backend.store import local as local_store
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.files import move_exclusively, move_into_place, partial_path, sync_folder
from hdmf_zarr_backend.store.local import LocalStore, sync_files
from hdmf_zarr_backend.store.lock import lock_path
from hdmf_zarr_backend.store.transaction import Writer
from tests import trees
from tests.places import put, stored_files
from tests.transaction.steps import State, Steps, states

EXCHANGES = pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])


@contextmanager
def staged(target: str, *, exclusive: bool = False, durable: bool = False) -> Iterator[Store]:
    with (
        Writer(LocalStore(target), replaces=True, durable=durable) as writer,
        writer.new_file({}, exclusive=exclusive) as change,
    ):
        yield change.reader
        change.commit({}, {})


@pytest.fixture
def two_renames(exchange, monkeypatch):
    if not exchange:
        monkeypatch.setattr(store_files, "_renameat2", lambda one, other, flag: False)


def make(path: Path, text: bytes = b"old") -> Path:
    path.mkdir()
    (path / ".zgroup").write_bytes(text)
    return path


@EXCHANGES
@pytest.mark.usefixtures("two_renames")
@pytest.mark.parametrize("kind", ["file", "empty folder"])
def test_whatever_is_there_is_replaced(tmp_path, kind):
    """But for a link, which is followed: `tests/test_existing_targets.py`."""
    target = tmp_path / "a.zarr"
    target.write_bytes(b"old") if kind == "file" else target.mkdir()
    with staged(str(target)) as keys:
        put(keys, ".zgroup", b"new")
    assert stored_files(tmp_path) == {"a.zarr/.zgroup": b"new"}
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt(), ValueError("wrong")], ids=repr)
@pytest.mark.parametrize("existing", [True, False])
def test_a_write_that_fails_leaves_nothing_and_the_old_one(tmp_path, failure, existing):
    target = tmp_path / "new" / "sub" / "a.zarr"
    if existing:
        target.parent.mkdir(parents=True)
        make(target)
    before = stored_files(tmp_path)
    with pytest.raises(type(failure)), staged(str(target)) as keys:
        put(keys, "a/b/c", b"part")
        raise failure
    assert stored_files(tmp_path) == before
    assert os.listdir(tmp_path) == (["new"] if existing else [])
    assert not existing or os.listdir(target.parent) == ["a.zarr"]


def test_folders_that_others_use_meanwhile_stay(tmp_path):
    with pytest.raises(ValueError, match="wrong"), staged(str(tmp_path / "new" / "a.zarr")):
        (tmp_path / "new" / "neighbour").write_bytes(b"1")
        raise ValueError("wrong")
    assert stored_files(tmp_path) == {"new/neighbour": b"1"}


@pytest.mark.parametrize("step", [1, 2], ids=["the old one aside", "the new one in place"])
def test_a_rename_that_fails_leaves_the_old_one(tmp_path, monkeypatch, step):
    monkeypatch.setattr(store_files, "_renameat2", lambda one, other, flag: False)
    target = make(tmp_path / "a.zarr")
    results = [*[DEFAULT] * (step - 1), OSError(errno.EACCES, "no"), DEFAULT]
    monkeypatch.setattr(store_files.os, "rename", Mock(wraps=os.rename, side_effect=results))
    with pytest.raises(OSError, match="no"), staged(str(target)) as keys:
        put(keys, ".zgroup", b"new")
    assert stored_files(tmp_path) == {"a.zarr/.zgroup": b"old"}
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_the_old_file_is_found_when_its_writer_died_between_two_renames(tmp_path):
    path = trees.write_builder(tmp_path / "a.zarr", trees.root(by="us"))
    before = stored_files(path)
    os.rename(path, f"{partial_path(str(path))}.old")
    Path(lock_path(str(path))).touch()  # the lock of a writer that has died
    with pytest.raises(StoreNotFoundError, match=r"died while it replaced this file.*Run `zarrio repair`"):
        ZarrIO(path, "r")
    repair(path)
    assert stored_files(tmp_path) == {f"a.zarr/{key}": value for key, value in before.items()}


def test_the_exchange_is_one_step(tmp_path):
    one, other = make(tmp_path / "one", b"1"), make(tmp_path / "other", b"2")
    if not store_files._renameat2(str(one), str(other), store_files._EXCHANGE):
        pytest.skip("this system cannot exchange two names")
    assert stored_files(tmp_path) == {"one/.zgroup": b"2", "other/.zgroup": b"1"}
    with pytest.raises(FileNotFoundError):
        store_files._renameat2(str(one), str(tmp_path / "nowhere"), store_files._EXCHANGE)


@pytest.mark.parametrize("code", [errno.ENOSYS, errno.EINVAL, errno.EPERM])
def test_where_the_system_cannot_exchange_two_renames_do(tmp_path, monkeypatch, code):
    class Library:
        @staticmethod
        def renameat2(*arguments: object) -> int:
            return -1

    monkeypatch.setattr(local_store.sys, "platform", "linux")
    monkeypatch.setattr(local_store.ctypes, "CDLL", lambda *arguments, **options: Library)
    monkeypatch.setattr(local_store.ctypes, "get_errno", lambda: code)
    target, partial = make(tmp_path / "a.zarr"), make(tmp_path / "partial", b"new")
    move_into_place(str(partial), str(target), exclusive=False, durable=False)
    assert stored_files(tmp_path) == {"a.zarr/.zgroup": b"new"}
    fresh, free = make(tmp_path / "fresh", b"new"), tmp_path / "free"
    move_exclusively(str(fresh), str(free))
    assert stored_files(free) == {".zgroup": b"new"}
    monkeypatch.setattr(local_store.sys, "platform", "darwin")
    assert store_files._renameat2("a", "b", store_files._EXCHANGE) is False


# ---- two writers, each of which found nothing there -----------------------------------------------------------------
@EXCHANGES
@pytest.mark.usefixtures("two_renames")
@pytest.mark.parametrize("kind", ["file", "folder", "empty folder", "broken link"])
def test_the_second_of_two_exclusive_writers_replaces_nothing(tmp_path, kind):
    target = tmp_path / "a.zarr"
    making = {"folder": lambda: make(target, b"first"), "file": lambda: target.write_bytes(b"first"),
              "empty folder": target.mkdir, "broken link": lambda: target.symlink_to(tmp_path / "nowhere")}  # fmt: skip
    with (
        pytest.raises(StoreExistsError, match="another file was created there"),
        staged(str(target), exclusive=True) as keys,
    ):
        put(keys, ".zgroup", b"second")
        making[kind]()
    expected = {"folder": {"a.zarr/.zgroup": b"first"}, "file": {"a.zarr": b"first"}}
    assert stored_files(tmp_path) == expected.get(kind, {})
    assert os.listdir(tmp_path) == ["a.zarr"]


def test_a_place_that_was_taken_is_given_back_when_the_rename_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(store_files, "_renameat2", lambda one, other, flag: False)
    monkeypatch.setattr(store_files.os, "rename", Mock(side_effect=OSError(errno.EIO, "no")))
    with (
        pytest.raises(StoreError, match="could not be written: no"),
        staged(str(tmp_path / "a.zarr"), exclusive=True) as keys,
    ):
        put(keys, ".zgroup", b"new")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("mode", ["w-", "x", "a"])
def test_an_io_that_found_nothing_keeps_what_another_program_has_written_since(tmp_path, mode):
    path = tmp_path / "a.zarr"
    with ZarrIO(path, mode) as io:
        make(path, b'{"zarr_format": 2}')
        with pytest.raises(StoreExistsError, match="another file was created there"):
            io.write_builder(trees.root(by="us"))
    assert stored_files(tmp_path) == {"a.zarr/.zgroup": b'{"zarr_format": 2}'}
    assert os.listdir(tmp_path) == ["a.zarr"]


@pytest.mark.parametrize("stem", ["a", "é" * 124], ids=["short", "as long as the system allows"])
def test_a_file_that_is_being_written_has_a_name_that_shows_it(tmp_path, stem):
    target = tmp_path / f"{stem}.zarr"
    with staged(str(target)) as keys:
        put(keys, ".zgroup", b"{}")
        name = os.path.basename(keys.root)
        assert name.startswith(".a.zarr." if stem == "a" else f".{stem[:20]}")
        assert name.endswith(".partial")
        assert sorted(os.listdir(tmp_path)) == sorted([name, os.path.basename(lock_path(str(target)))])
    assert os.listdir(tmp_path) == [target.name]


# ---- what writers that died have left -------------------------------------------------------------------------------
def test_the_next_writer_removes_what_one_that_died_has_left_and_nothing_else(tmp_path):
    target = make(tmp_path / "a.zarr")
    make(Path(partial_path(str(target))))
    Path(partial_path(str(target))).write_bytes(b"a zip file")
    make(Path(f"{partial_path(str(target))}.old"), b"older")
    others = {make(Path(partial_path(str(tmp_path / "b.zarr")))).name, make(tmp_path / ".a.zarr.partial").name}
    with Writer(LocalStore(str(target)), replaces=True):
        assert len(os.listdir(tmp_path)) == 7  # what a living writer, which has no lock where there are none, has begun
    Path(lock_path(str(target))).write_text(' {"host": "h", "pid": 1, "since": "then"}')
    for _ in range(2):  # writers that change the old file keep the new one, which nobody finished
        with Writer(LocalStore(str(target))):
            assert len(os.listdir(tmp_path)) == 7
    with Writer(LocalStore(str(target)), replaces=True):
        pass
    assert set(os.listdir(tmp_path)) == {"a.zarr", *others}
    assert stored_files(target) == {".zgroup": b"old"}


def test_a_file_that_was_moved_aside_gets_its_place_back(tmp_path):
    """Where two names cannot be exchanged, a writer may die between two renames."""
    target = tmp_path / "a.zarr"
    make(Path(f"{partial_path(str(target))}.old"), b"old")
    make(Path(partial_path(str(target))), b"new")
    Path(lock_path(str(target))).write_text(' {"host": "h", "pid": 1, "since": "then"}')
    with Writer(LocalStore(str(target)), replaces=True):
        pass
    assert os.listdir(tmp_path) == ["a.zarr"]
    assert stored_files(target) == {".zgroup": b"old"}


def test_an_old_file_that_cannot_be_deleted_is_reported_and_the_new_one_stays(tmp_path, monkeypatch):
    target = make(tmp_path / "a.zarr")
    monkeypatch.setattr(store_files, "remove", Mock(side_effect=OSError(errno.EACCES, "no")))
    with pytest.warns(UserWarning, match="could not be deleted"), staged(str(target)) as keys:
        put(keys, ".zgroup", b"new")
    assert stored_files(target) == {".zgroup": b"new"}


# ---- on the disk itself ---------------------------------------------------------------------------------------------
@pytest.fixture
def synced(monkeypatch):
    """The calls that flush the disk, in order, with the renames between."""
    asked = []
    for module in (store_files, local_store):
        for name in ("sync_files", "sync_folder"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda path, name=name: asked.append((name, os.path.basename(path))))
    for module, name in ((store_files, "replace"), (store_files, "move_exclusively")):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *names, real=real: (asked.append(("moved", "")), real(*names))[1])
    return asked


@pytest.mark.parametrize("name", ["a.zarr", "a.zarr.zip"])
@pytest.mark.parametrize("way", ["write", "export", "convert"])
def test_durable_is_one_call_for_all_files_before_the_rename(tmp_path, synced, name, way):
    root = trees.root(trees.dataset("x", np.arange(30)), object_id="1")
    (tmp_path / "to").mkdir()
    path, options = tmp_path / "to" / name, WriteOptions(durable=True)
    trees.write_builder(tmp_path / "source.zarr", root)
    assert {call for call, _ in synced} == {"moved"}
    synced.clear()
    if way == "convert":
        convert(tmp_path / "source.zarr", tmp_path / "a.h5", check=False, write_options=options)
        assert [call for call, _ in synced] == ["sync_files", "moved", "sync_folder"]
        synced.clear()
        convert(tmp_path / "a.h5", path, check=False, write_options=options)
    elif way == "export":
        with ZarrIO(tmp_path / "source.zarr") as source, ZarrIO(path, "w", write_options=options) as io:
            io.export(source)
    else:
        trees.write_builder(path, root, write_options=options)
    calls = [call for call, _ in synced if call != "moved"]
    assert calls == ["sync_files", "sync_folder"]
    assert synced[0][1].endswith(".partial")
    assert synced[-1] == ("sync_folder", "to")


def test_the_old_file_is_deleted_when_the_new_one_has_its_name_on_the_disk(tmp_path, synced, monkeypatch):
    target = make(tmp_path / "a.zarr")
    monkeypatch.setattr(store_files, "remove", lambda path: synced.append(("removed", os.path.basename(path))))
    with staged(str(target), durable=True) as keys:
        put(keys, ".zgroup", b"new")
    assert [call for call, _ in synced] == ["sync_files", "moved", "sync_folder", "removed"]


def test_a_durable_append_is_on_the_disk_before_it_is_committed_and_after(tmp_path, synced):
    trees.write_builder(tmp_path / "a.zarr", trees.root())
    synced.clear()
    with trees.edit_builder(tmp_path / "a.zarr", write_options=WriteOptions(durable=True)) as builder:
        builder.set_dataset(trees.dataset("x", np.arange(30)))
    # after the record, before the commit, after it, and before the last record of the journal is deleted
    assert synced == [("sync_files", "a.zarr")] * 4


def test_the_disk_is_flushed(tmp_path, monkeypatch):
    sync_files(str(tmp_path))
    sync_folder(str(tmp_path))
    asked = []
    monkeypatch.setattr(local_store.sys, "platform", "darwin")
    monkeypatch.setattr(store_files.os, "sync", lambda: asked.append("all"))
    sync_files(str(tmp_path))
    assert asked == ["all"]
    monkeypatch.delattr(store_files.os, "sync")
    with pytest.raises(UsageError, match="durable=True"):
        Writer(LocalStore(str(tmp_path / "a.zarr")), durable=True)
    assert list(tmp_path.iterdir()) == []  # no lock either


def test_a_disk_that_fails_to_flush_is_reported_and_the_old_file_stays(tmp_path, monkeypatch):
    target = make(tmp_path / "a.zarr")
    monkeypatch.setattr(store_files, "sync_files", Mock(side_effect=OSError(errno.EIO, os.strerror(errno.EIO))))
    with pytest.raises(StoreError, match="Input/output error"), staged(str(target), durable=True) as keys:
        put(keys, ".zgroup", b"new")
    assert stored_files(tmp_path) == {"a.zarr/.zgroup": b"old"}


# ---- a file in memory, or on a server, is replaced where it is -------------------------------------------------------
@pytest.mark.parametrize("new", [2, 3, "both"])
@pytest.mark.parametrize("old", [2, 3, "both"])
@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.FormatsDifferWarning")  # of a file that is replaced
def test_a_replacement_that_ends_anywhere_leaves_the_old_file_or_one_that_is_incomplete(old: Any, new: Any) -> None:
    """Killed, or refused."""
    before, store = Steps(), Steps()
    _replace(before, old, "old")
    store.values = dict(before.values)
    _replace(store, new, "new")
    seen = {_seen(values) for values in states(before.values, store.log)}
    for at in range(1, len(store.log) + 1):
        refusing = Steps(before.values, at, "refused")
        with suppress(StoreError):
            _replace(refusing, new, "new")
        seen.add(_seen(refusing.values))
    assert seen == {"old", "incomplete", "new"}


def _replace(store: Store, zarr_format: Any, version: str) -> None:
    with ZarrIO(store, "w", zarr_format=zarr_format) as io:
        io.write_builder(trees.root(trees.dataset("x", np.arange(4 if version == "new" else 3)), version=version))


def _seen(files: State) -> Any:
    try:
        root = trees.read_builder(files)
        version = root.attributes["version"]
        assert root["x"].data[:].tolist() == list(range(4 if version == "new" else 3))
        return version
    except IncompleteStoreError:
        return "incomplete"
