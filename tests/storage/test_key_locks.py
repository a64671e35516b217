"""One writer at a time in object stores: a key that is set only where there is none, and read before each commit."""

import gc
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate, convert, errors, repair, upgrade
from hdmf_zarr_backend.errors import JournalWarning, StoreLockedError, StoreRefusedError, StoreUnreachableError
from hdmf_zarr_backend.interop import add_nczarr
from hdmf_zarr_backend.store.clouds import ObjectStore
from hdmf_zarr_backend.store.lock import KeyLock
from hdmf_zarr_backend.store.opening import open_store
from tests import trees
from tests.keystores import DictStore
from tests.places import delete_keys, put
from tests.storage.test_locks import dead_process

KEY = ".a.zarr.lock"
ROOT = Path(__file__).parents[2]
ELSEWHERE = {"host": "another-machine", "pid": 1, "since": "2026-01-01T00:00:00+00:00", "token": "t"}


class Folder(DictStore):
    """A bucket that sets a key only where there is none."""

    def _create(self, key: str, value: bytes) -> bool | None:
        self.calls.append(("create", key))
        return self.values.setdefault(key, value) is value


@pytest.fixture
def folder() -> Folder:
    return Folder()


def lock(folder: Folder, **options: Any) -> KeyLock:
    return KeyLock(folder, "a.zarr", "s3://bucket/a.zarr", **options)


def change(folder: Folder, **words: Any) -> None:
    folder.values[KEY] = json.dumps({**json.loads(folder.values[KEY]), **words}).encode()


def test_the_second_writer_is_told_and_the_first_gives_back(folder: Folder) -> None:
    first = lock(folder)
    first.check()
    assert folder.calls == [("create", KEY), ("get", KEY)]  # one request takes it, and one checks it
    message = f"process {os.getpid()} on .* since 20.*That is this process"
    for break_lock in (False, True):  # this process is alive for certain
        with pytest.raises(StoreLockedError, match=message) as caught:
            lock(folder, break_lock=break_lock)
        assert caught.value.store == "s3://bucket/a.zarr"
    first.check()
    first.release()
    first.release()
    assert folder.values == {}
    with pytest.raises(StoreLockedError, match="closed"):
        first.check()
    lock(folder).release()


def test_one_that_nobody_refers_to_any_more_is_given_back(folder: Folder) -> None:
    held = lock(folder)
    del held
    gc.collect()
    for _ in range(3000):
        if not folder.values:
            return
        threading.Event().wait(0.02)
    pytest.fail("it is still there")


def test_a_writer_finds_out_that_its_lock_was_broken(folder: Folder) -> None:
    held = lock(folder)
    change(folder, **ELSEWHERE)
    with pytest.raises(StoreLockedError) as caught:
        held.check()
    assert str(caught.value) == (
        "s3://bucket/a.zarr: the lock of this writer was broken: by process 1 on another-machine since "
        "2026-01-01T00:00:00+00:00. Another writer has the file open now. Open it again when that writer is done."
    )
    held.release()
    assert KEY in folder.values  # it is the other's


@pytest.mark.parametrize(("words", "message"), [
    (lambda: ELSEWHERE, "another-machine since 2026-01-01.*If it is gone for certain, run `zarrio repair"),
    (lambda: {"pid": dead_process()}, r"that process has ended.*Take it over with `zarrio repair"),
    # of another container, or of a process that had the number before
    (dict, "If it is gone for certain, run `zarrio repair"),
], ids=["another machine", "a process that has ended", "this number"])  # fmt: skip
def test_that_of_another_process_is_broken_on_purpose_only(folder: Folder, words: Any, message: str) -> None:
    first = lock(folder)
    change(folder, **{"token": "theirs", **words()})
    with pytest.raises(StoreLockedError, match=message):
        lock(folder)
    second = lock(folder, break_lock=True)
    with pytest.raises(StoreLockedError, match="has this file open"):
        lock(folder)
    first.release()
    assert KEY in folder.values
    second.release()
    assert folder.values == {}


def test_that_of_a_process_of_this_machine_that_runs_is_not_broken(folder: Folder) -> None:
    first = lock(folder)
    change(folder, pid=os.getppid(), token="theirs")
    message = rf"process {os.getppid()} on .*end it\. If that process is another program"
    with pytest.raises(StoreLockedError, match=message):
        lock(folder, break_lock=True)
    assert KEY in folder.values
    first.release()


HERE = {**ELSEWHERE, "host": socket.gethostname()}
NO_PROCESSES = [json.dumps({**HERE, "pid": pid}).encode() for pid in (2**31, -(2**31) - 1, 0)]


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b'{"host": 1}', b"\xff", *NO_PROCESSES, 10**5 * b"["])
def test_what_no_version_of_this_package_has_set_is_broken_on_purpose_only(folder: Folder, text: bytes) -> None:
    folder.values[KEY] = text
    with pytest.raises(StoreLockedError, match="has left no name"):
        lock(folder)
    lock(folder, break_lock=True).release()


def test_an_answer_that_was_lost_is_no_second_writer(folder: Folder) -> None:
    """The library asks again, and is told that the key is there: it has set it itself."""

    class Forgetful(Folder):
        def _create(self, key: str, value: bytes) -> bool | None:
            super()._create(key, value)
            return False

    held = lock(Forgetful())
    held.check()
    held.release()


class Simple(Folder):
    """A server that sets keys whether they are there or not."""

    def _create(self, key: str, value: bytes) -> bool | None:
        return None


class Narrow(Folder):
    """Credentials for the file and nothing beside it."""

    def _create(self, key: str, value: bytes) -> bool | None:
        raise StoreRefusedError("not yours")


@pytest.mark.parametrize("kind", [Simple, Narrow])
def test_where_none_can_be_had_that_is_told(kind: type[Folder]) -> None:
    folder = kind()
    reason = "not yours" if kind is Narrow else "this kind of store cannot set a key only if it is absent"
    with pytest.warns(
        errors.UnlockedWarning, match=f"a second writer of s3://bucket/a.zarr cannot be kept away: {reason}"
    ):
        held = lock(folder)
    held.check()
    held.release()
    assert folder.calls == []


@pytest.mark.parametrize("options", ["options", "s3fs_options"])
def test_a_server_sets_a_key_only_where_there_is_none(s3: Any, options: str) -> None:
    store = open_store(s3.url("folder"), getattr(s3, options))
    assert store._create("a", b"1") is True
    assert store._create("a", b"2") is False
    assert store.get("a") == b"1"


def test_an_error_that_is_not_about_the_key_is_raised(s3: Any) -> None:
    """Here it has the number of a port that begins with 412, which is the status of a key that exists."""
    once = {"retries": {"max_attempts": 1}}
    nowhere = s3.s3fs_options | {"endpoint_url": "http://127.0.0.1:4120", "config_kwargs": once}
    with pytest.raises(StoreUnreachableError, match=":4120"):
        open_store("s3://bucket/folder", nowhere)._create("a", b"1")


@pytest.mark.parametrize("options", ["options", "s3fs_options"])
def test_a_range_may_be_empty(s3: Any, options: str) -> None:
    store = open_store(s3.url("folder"), getattr(s3, options))
    put(store, "a", b"0123456789")
    assert store.get_ranges("a", [(0, 0), (2, 4)]) == [b"", b"23"]
    assert store.get_ranges("a", [(3, 3)]) == [b""]
    assert store.get_ranges("a", [(-2, None), (1, 2)]) == [b"89", b"1"]


_KILLED = """
import os, signal, sys
from hdmf_zarr_backend import ZarrIO
url, endpoint = sys.argv[1:]
options = {"key": "tester", "secret": "secret", "endpoint_url": endpoint, "client_kwargs": {"region_name": "us-east-1"}}
io = ZarrIO(url, "w", storage_options=options)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_lock_of_a_killed_writer_stays_until_it_is_broken(s3: Any) -> None:
    url = s3.url("folder/a.zarr")
    subprocess.run([sys.executable, "-c", _KILLED, url, s3.proxy.url], check=False, cwd=ROOT)
    assert list(s3.contents("folder")) == [KEY]
    with pytest.raises(StoreLockedError, match=r"process \d+ on .* since 20.*has ended.*break_lock=True"):
        ZarrIO(url, "w", storage_options=s3.options)
    with ZarrIO(url, "w", storage_options=s3.options, break_lock=True) as io:
        io.write_builder(trees.root(trees.dataset("x", [1])))
    put(open_store(s3.url("folder"), s3.options), KEY, json.dumps(ELSEWHERE).encode())
    with pytest.raises(StoreLockedError, match="another-machine"):
        repair(url, storage_options=s3.options)
    repair(url, storage_options=s3.options, break_lock=True)
    ZarrIO(url, "r+", storage_options=s3.options).close()


class Broken:
    """Files on a server, whose locks another machine breaks at once or at a put, as ``armed`` says."""

    def __init__(self, s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url, self.options = s3.url("folder/a.zarr"), s3.options
        self.folder = open_store(s3.url("folder"), s3.options)
        self.armed = ""
        real_set, real_create = ObjectStore._set, ObjectStore._create

        def set_value(store: Any, key: str, value: bytes) -> None:
            real_set(store, key, value)
            if self.armed == "at a put" and not key.endswith(".lock"):
                self.take_over()

        def create(store: Any, key: str, value: bytes) -> bool | None:
            made = real_create(store, key, value)
            if self.armed == "at once" and key.endswith(".lock"):
                self.take_over()
            return made

        monkeypatch.setattr(ObjectStore, "_set", set_value)
        monkeypatch.setattr(ObjectStore, "_create", create)

    def take_over(self) -> None:
        self.armed = ""
        put(self.folder, KEY, json.dumps(ELSEWHERE).encode())

    def committed(self) -> dict[str, bytes]:
        return open_store(self.url, self.options).get_many([".zmetadata", "zarr.json"])


def _edit(url: str, options: Any) -> None:
    with ZarrIO(url, "r+", storage_options=options) as io:
        io.read_builder()["x"].data.append([4])


def _add(url: str, options: Any) -> None:
    with trees.edit_builder(url, storage_options=options) as root:
        root.set_group(trees.group("more", trees.dataset("y", [1, 2])))


def _replace(url: str, options: Any) -> None:
    trees.write_builder(url, trees.root(trees.dataset("x", [9])), storage_options=options)


def _convert(url: str, options: Any) -> None:
    source = trees.write_builder({}, trees.root(trees.dataset("x", [9])))
    with tempfile.TemporaryDirectory() as folder:
        convert(source, f"{folder}/a.h5")
        convert(f"{folder}/a.h5", url, overwrite=True, storage_options=options)


WRITERS: dict[str, Callable[[str, Any], Any]] = {
    "edit": _edit, "new objects": _add, "a new file": _replace, "conversion": _convert,
    "add_nczarr": lambda url, options: add_nczarr(url, storage_options=options),
    "upgrade": lambda url, options: upgrade(url, storage_options=options),
    "upgrade --keep": lambda url, options: upgrade(url, keep=True, storage_options=options),
    "consolidate": lambda url, options: consolidate(url, forget=True, storage_options=options),
    "repair": lambda url, options: repair(url, storage_options=options),
}  # fmt: skip


@pytest.mark.parametrize("when", ["at once", "at a put"])
@pytest.mark.parametrize("name", WRITERS)
def test_a_writer_whose_lock_was_broken_commits_nothing(s3, monkeypatch, name, when):
    if when == "at a put" and name == "consolidate":
        pytest.skip("the only put is the commit")
    file = Broken(s3, monkeypatch)
    data = ZarrDataIO([1, 2, 3], chunks=(3,), maxshape=(None,))
    inner = trees.group("g", trees.dataset("one", "text"))
    trees.write_builder(file.url, trees.root(trees.dataset("x", data), inner), storage_options=file.options)
    if name in ("repair", "consolidate"):
        delete_keys(open_store(file.url, file.options), ["g/one/0", "x/.zattrs"])
    before = file.committed()
    file.armed = when
    with pytest.raises(StoreLockedError, match="another-machine"):
        WRITERS[name](file.url, file.options)
    is_replaced = name in ("a new file", "conversion") and when == "at a put"  # it was marked before anything else
    assert file.committed() == ({} if is_replaced else before)
    delete_keys(file.folder, [KEY])  # the other writer ends
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", JournalWarning)
        if not is_replaced:
            ZarrIO(file.url, "r+", storage_options=file.options).close()
            assert file.committed() == before
            assert trees.read_builder(file.url, storage_options=file.options)["x"].data[:].tolist() == [1, 2, 3]


def test_what_the_next_writer_has_committed_stays(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody breaks the lock of a writer that is alive after all, as the error advises."""
    file = Broken(s3, monkeypatch)
    data = ZarrDataIO([1, 2, 3], chunks=(10,), maxshape=(None,))
    trees.write_builder(file.url, trees.root(trees.dataset("x", data)), storage_options=file.options)
    first = ZarrIO(file.url, "r+", storage_options=file.options)
    first.read_builder()["x"].data.append([4])
    file.take_over()
    with ZarrIO(file.url, "r+", storage_options=file.options, break_lock=True) as second:
        second.read_builder()["x"].data.append([100, 101])
    with pytest.raises(StoreLockedError, match="the lock of this writer was broken: it was deleted"):
        first.close()
    assert trees.read_builder(file.url, storage_options=file.options)["x"].data[:].tolist() == [1, 2, 3, 100, 101]
