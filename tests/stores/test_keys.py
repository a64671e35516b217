"""The contract of a store, key by key, on every kind; the queue of puts in front of a far one; places by name."""

import errno
import os
import pickle
import subprocess
import sys
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import fsspec
import pytest
from fsspec.implementations.dirfs import DirFileSystem
from zarr import storage as zarr_storage

from hdmf_zarr_backend import ZarrIO, errors
from hdmf_zarr_backend.errors import StoreError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.model.links import resolve_source
from hdmf_zarr_backend.store import clouds, memory, remote
from hdmf_zarr_backend.store.base import Abilities
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.memory import InlinedStore, MemoryStore, QueuedStore
from hdmf_zarr_backend.store.opening import may_exist, open_neighbour, open_store
from hdmf_zarr_backend.store.remote import at_once
from hdmf_zarr_backend.store.transaction import Writer
from hdmf_zarr_backend.store.zip import NewZipStore
from tests.keystores import DictStore
from tests.places import delete_keys, put, put_all
from tests.storekinds import ALL_KINDS
from tests.zarrs import needs_zarr_3

CONTENT = {
    ".zgroup": b"{}",
    "a/.zarray": b"{1}",
    "a/.zattrs": b"{2}",
    "a/0.0": bytes(range(100)),
    "a b/ü#?%20&+=;:@/0": b"odd",
    "a/empty": b"",
}


@pytest.fixture
def filled(store):
    place = store.place("a.zarr")
    if store.name == "zip":
        with closing(NewZipStore(place, "/a.zip")) as keys:
            put_all(keys, CONTENT)
            assert keys.get("a/0.0") == CONTENT["a/0.0"]
            assert keys.get_ranges("a/0.0", [(1, 3)]) == [b"\x01\x02"]
    keys = open_store(place, store.options.get("storage_options"))
    if store.name == "zarr-group":
        delete_keys(keys, [".zgroup", ".zattrs"])
    if store.name != "zip":
        assert not keys.exists() or store.name == "zarr-group"
        put_all(keys, CONTENT)
    return keys


EVERY = pytest.mark.parametrize("store", ALL_KINDS, indirect=True)


@EVERY
def test_what_is_set_is_there(filled):
    assert filled.exists()
    assert {key: filled.get(key) for key in CONTENT} == CONTENT
    assert all(type(filled.get(key)) is bytes for key in CONTENT)
    assert filled.get("nothing") is filled.get("a/0.0/deeper") is None
    assert filled.get_many([*CONTENT, "nothing"]) == CONTENT
    assert filled.get_many([]) == {}
    assert filled.get_many(["a/0.0"]) == {"a/0.0": CONTENT["a/0.0"]}
    inlined = InlinedStore(filled, {"a/0.0": b"here"})
    assert inlined.get_many(["a/0.0", ".zgroup"]) == {"a/0.0": b"here", ".zgroup": b"{}"}


@EVERY
def test_ranges(filled):
    whole = CONTENT["a/0.0"]
    ranges = [(0, 10), (90, 100), (-7, None), (50, 51)]
    wanted = [whole[start:stop] for start, stop in ranges]
    assert [filled.get_range("a/0.0", start, stop) for start, stop in ranges] == wanted
    assert filled.get_ranges("a/0.0", ranges) == wanted
    assert filled.get_ranges("a/0.0", ranges[:2]) == wanted[:2]
    assert filled.get_range("nothing", 0, 5) is filled.get_ranges("nothing", [(0, 5), (-3, None)]) is None
    inlined = InlinedStore(filled, {"x": whole})
    assert inlined.get_ranges("x", ranges) == inlined.get_ranges("a/0.0", ranges) == wanted
    assert inlined.get_range("x", -7) == whole[-7:]


@EVERY
def test_listing(filled):
    assert set(filled.list_prefix("")) == set(CONTENT)
    assert set(filled.list_prefix("a")) == {"a/.zarray", "a/.zattrs", "a/0.0", "a/empty"}
    assert filled.sizes("a")["a/0.0"] == 100
    assert set(filled.list_documents()) == {".zgroup", "a/.zarray", "a/.zattrs"}
    assert filled.sizes("nothing") == {}


def test_documents_of_both_formats_are_listed_without_reading_one(tmp_path):
    """A `.zarray` says that the folders below it hold chunks; for each array, `zarr.json` would be read once more."""
    store = LocalStore(str(tmp_path / "a.zarr"))
    documents = {".zgroup": b"{}", "zarr.json": b"{}", "a/.zarray": b"{}", "a/zarr.json": b"not JSON"}
    put_all(store, {**documents, "a/0": b"chunk", "a/c/0": b"chunk"})
    calls: list[str] = []
    store.get = calls.append  # type: ignore[method-assign]
    assert set(store.list_documents()) == {*documents}
    assert not calls


def test_a_folder_that_is_no_zarr_file_is_refused_before_all_of_it_is_listed(tmp_path, monkeypatch):
    for number in range(20):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "a").touch()
    listed, scandir = [], os.scandir
    monkeypatch.setattr(os, "scandir", lambda path: listed.append(path) or scandir(path))
    with pytest.raises(errors.StoreExistsError):
        ZarrIO(tmp_path, "w")
    assert len(listed) < 10


def test_keys_of_a_server_are_listed_as_they_come():
    class Endless(remote.RemoteStore):
        _get = _get_ranges = None

        def _list(self, prefix):
            yield "a/0", 1
            raise ConnectionResetError(errno.ECONNRESET, "connection reset")

    keys = Endless("s3://bucket/a.zarr").list_prefix("a")
    assert next(keys) == "a/0"
    with pytest.raises(errors.StoreUnreachableError, match="'a' could not be listed") as caught:
        next(keys)
    assert caught.value.store == "s3://bucket/a.zarr"


@EVERY
def test_deleting(store, filled):
    if "append" in store.refusals:
        for change in (lambda: put(filled, "x", b""), lambda: delete_keys(filled, ["a/0.0"])):
            with pytest.raises(errors.ReadOnlyStoreError, match="zip"):
                change()
        return
    put(filled, "a/0.0", b"new")
    delete_keys(filled, ["a/0.0" + "x", "nothing", "a/empty", "a b/ü#?%20&+=;:@/0"])
    delete_keys(filled, [])
    assert filled.get("a/0.0") == b"new"
    assert set(filled.list_prefix("")) == {".zgroup", "a/.zarray", "a/.zattrs", "a/0.0"}


@EVERY
@pytest.mark.parametrize("key", ["../x", "/etc/hostname", "a/../../x", "..", "a/..", "a\0b"])
def test_no_key_leads_out(store, filled, key):
    calls = [lambda: filled.get(key), lambda: put(filled, key, b""), lambda: delete_keys(filled, [key])]
    for call in calls[:1] if "append" in store.refusals else calls:
        with pytest.raises(StoreError, match="leads out") as caught:
            call()
        assert caught.value.store == filled.location


@EVERY
def test_keys_travel(store, filled):
    if "processes" in store.refusals:
        with pytest.raises(UsageError, match="threads"):
            pickle.dumps(filled)
        return
    copy = pickle.loads(pickle.dumps(filled))
    assert copy.location == filled.location
    assert copy.get("a/0.0") == CONTENT["a/0.0"]


# ---- neighbours -----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("place", "other", "passed_on"), [
    ("s3://a/x.zarr", "s3://a/y.zarr", True),
    ("s3://a/x.zarr", "s3://b/y.zarr", True),
    ("s3://a/x.zarr", "https://host/y.zarr", False),
    ("https://host/x.zarr", "https://host/y.zarr", True),
    ("https://host/x.zarr", "https://other/y.zarr", False),  # what may be a token stays with its host
    ("https://host/x.zarr", "http://host/y.zarr", False),
    ("s3://a/x.zarr", "/y.zarr", False),
    ("gs://a/x.zarr", "gs://a/y.zarr", True),
    ("az://a/x.zarr", "az://b/y.zarr", True),
    ("abfss://a@me.dfs.core.windows.net/x.zarr", "abfss://b@me.dfs.core.windows.net/y.zarr", True),
    ("abfss://a@me.dfs.core.windows.net/x.zarr", "abfss://a@other.dfs.core.windows.net/y.zarr", False),
    ("abfss://a@me.dfs.core.windows.net/x.zarr", "abfss://a/y.zarr", False),
    ("s3://a/x.zarr.zip", "s3://a/y.zarr", True),
])  # fmt: skip
def test_options_go_to_neighbours(place, other, passed_on):
    options = {"client_options": {"timeout": "3s"}} if not place.startswith("gs") else {"token": "anon"}
    found = open_neighbour(open_store(place, options), other)
    assert found.location == other
    assert getattr(found, "options", {}) == (options if passed_on else {})


def test_files_without_an_address_are_nobodys_neighbours(tmp_path):
    keys = open_store({})
    assert not may_exist(keys.location)
    assert open_store(keys) is keys
    assert may_exist("s3://a/b.zarr")
    assert not may_exist(str(tmp_path / "nothing"))
    assert not may_exist(str(tmp_path / "nothing.zip"))


# ---- many at once ---------------------------------------------------------------------------------------------------
def test_an_error_comes_out_when_what_was_begun_has_ended():
    both, ended = threading.Barrier(2), threading.Event()

    def work(is_bad: bool) -> None:
        both.wait(60)
        if is_bad:
            raise StoreError("no")
        time.sleep(0.1)
        ended.set()

    with pytest.raises(StoreError):
        list(at_once(work, (True, False)))
    assert ended.is_set()


class SlowKeys(DictStore):
    """A far store that takes its time, and counts what is put at once."""

    abilities = Abilities(is_remote=True)

    def __init__(self, seconds: float = 0.01) -> None:
        super().__init__()
        self.seconds = seconds
        self.under_way: list[int] = []
        self.most = self.most_bytes = 0
        self.lock = threading.Lock()

    def _set(self, key: str, value: bytes) -> None:
        with self.lock:
            self.under_way.append(len(value))
            self.most = max(self.most, len(self.under_way))
            self.most_bytes = max(self.most_bytes, sum(self.under_way))
        time.sleep(self.seconds)
        with self.lock:
            super()._set(key, value)
            self.under_way.remove(len(value))


def test_puts_are_queued_within_bounds(monkeypatch):
    monkeypatch.setattr(memory, "PUT_BYTES", 1000)
    keys = SlowKeys()
    queue = QueuedStore(keys)
    for number in range(100):
        put(queue, f"k{number}", bytes(100))
        assert queue.get(f"k{number}") == bytes(100)  # seen at once
    queue.drain()
    assert len(keys.values) == 100
    assert 2 <= keys.most <= 10
    assert keys.most_bytes <= 1000
    put(queue, "large", bytes(5000))  # alone, but it goes
    queue.drain()
    assert keys.values["large"] == bytes(5000)


def test_the_last_value_of_a_key_is_the_one_that_stays():
    keys = SlowKeys(0.002)
    queue = QueuedStore(keys)
    for number in range(50):
        put(queue, "k", str(number).encode())
    InlinedStore(queue, {}).drain()
    assert keys.values["k"] == b"49"


@pytest.mark.parametrize("is_sent", [False, True])
def test_a_put_that_is_interrupted_is_neither_waited_for_nor_done_later(monkeypatch, is_sent):
    def interrupted(*call):
        if is_sent:
            remote.submit(*call)
        raise KeyboardInterrupt

    keys = SlowKeys()
    queue = QueuedStore(keys)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(memory, "submit", interrupted)
        put(queue, "a", b"1")
    assert not queue.exists()
    put(queue, "b", b"2")
    queue.drain()
    remote.request_pool().submit(int).result()
    assert keys.values == {"b": b"2"}


@needs_zarr_3
def test_a_store_of_zarr_that_cannot_list_its_keys_says_so():
    class Unlisted(zarr_storage.MemoryStore):
        supports_listing = False

        def list_prefix(self, prefix):
            raise NotImplementedError

    keys = open_store(Unlisted())
    for listed in (keys.sizes, keys.list_prefix):
        with pytest.raises(StoreError, match="cannot list its keys"):
            listed("a")


def test_deletions_come_after_what_was_set():
    keys = SlowKeys()
    queue = QueuedStore(keys)
    put(queue, "a", b"1")
    put(queue, "b", b"2")
    delete_keys(queue, ["a"])
    assert set(queue.sizes("")) == {"b"}
    assert queue.get_many(["a", "b"]) == {"b": b"2"}
    assert queue.exists()


def test_what_another_process_puts_is_there_when_its_task_ends(s3):
    store = open_store(s3.url("a.zarr"), s3.options)
    with Writer(store) as writer, writer.new_file({}) as change:
        copy = pickle.loads(pickle.dumps(change))
        for number in range(10):
            copy.put(f"k{number}", b"x")
        copy.end_task()
        assert len([key for key in s3.contents("a.zarr") if key.startswith("k")]) == 10


def test_requests_after_a_fork_have_threads_of_their_own(monkeypatch):
    list(at_once(str, [1]))
    monkeypatch.setattr(remote.os, "getpid", lambda: -1)
    assert list(at_once(str, [1, 2])) == ["1", "2"]
    remote.request_pool().shutdown()
    remote._pools.clear()


def test_a_store_that_was_opened_before_a_fork_says_so(s3, monkeypatch):
    keys: Any = open_store(s3.url("a.zarr"), s3.options)
    put(keys, "a", b"1")
    monkeypatch.setattr(clouds.os, "getpid", lambda: -1)
    with pytest.raises(StoreError, match="forked"):
        keys.get("a")


_FORKS = """
import os, sys
from hdmf_zarr_backend.store.opening import open_store
store = open_store(sys.argv[1])
first = 50 * (store.get("0") == bytes(100_000) and os.fork() > 0)
for number in [*range(first, 100), *range(first)] * 20:
    assert store.get(str(number)) == bytes([number]) * 100_000
if first:
    assert os.wait()[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no forks")
def test_a_fork_reads_from_a_zip_file_at_its_own_position(tmp_path):
    with closing(NewZipStore(str(tmp_path / "a.zip"), "/a.zip")) as keys:
        put_all(keys, {str(number): bytes([number]) * 100_000 for number in range(100)})
    subprocess.run([sys.executable, "-c", _FORKS, str(tmp_path / "a.zip")], check=True)


# ---- places that are named in other words, and those that are none ---------------------------------------------------
@pytest.mark.parametrize("place", [
    lambda folder: f"local://{folder}/in/a.zarr",
    lambda folder: f"dir::file://{folder}/in/a.zarr",
    lambda folder: DirFileSystem(str(folder), fsspec.filesystem("file")).get_mapper("in/a.zarr"),
    lambda folder: zarr_storage.FsspecStore.from_url(f"file://{folder}/in/a.zarr"),
    lambda folder: zarr_storage.StorePath(zarr_storage.FsspecStore.from_url(f"file://{folder}/in"), "a.zarr"),
], ids=["local", "dir", "mapper", "store", "place in a store"])  # fmt: skip
def test_local_folders_are_made_whoever_opens_them(tmp_path, place):
    keys = open_store(place(tmp_path))
    assert not keys.exists()
    put(keys, "a/0", b"x")
    assert (tmp_path / "in/a.zarr/a/0").read_bytes() == b"x"
    assert list(keys.list_prefix("")) == ["a/0"]


@pytest.mark.parametrize(
    ("address", "name"), [("a%20b.zarr", "a b.zarr"), ("a#1?.zarr", "a#1?.zarr"), ("%FF", "\udcff")]
)
def test_another_word_for_local_is_the_same_store(tmp_path, address, name):
    keys = open_store(f"local://{tmp_path}/{address}")
    assert isinstance(keys, LocalStore)
    assert keys.location == open_store(f"file://{tmp_path}/{address}").location == f"{tmp_path}/{name}"
    assert resolve_source(f"local://{tmp_path}/{address}", "s3://bucket/b.zarr") == keys.location


@pytest.mark.parametrize("options", ["options", "s3fs_options"])
def test_signs_of_a_web_address_are_part_of_a_name_in_a_bucket(s3, options):
    keys = open_store(s3.url("folder/50%23 #1?.zarr"), getattr(s3, options))
    with Writer(keys):
        put(keys, "a", b"x")
        assert sorted(s3.contents("folder")) == [".50%23 #1?.zarr.lock", "50%23 #1?.zarr/a"]
    assert (keys.exists(), open_store(s3.url("folder/50%23 "), s3.options).exists()) == (True, False)


def test_a_place_in_a_store_is_one(tmp_path):
    store = zarr_storage.MemoryStore()
    put(open_store(zarr_storage.StorePath(store, "in/a.zarr")), "a/0", b"x")
    assert list(store._store_dict) == ["in/a.zarr/a/0"]


@pytest.mark.parametrize(
    "url", ["s3://", "http://", "gs://", "az:///", "file://", "local://", "file://folder/a.zarr", "local://a.zarr/", ""]
)
def test_a_url_without_a_place_is_told_at_once(url):
    with pytest.raises(UsageError, match="does not name a file"):
        open_store(url)


@pytest.mark.parametrize("url", [
    "s3://bucket/a.nwb.zarr", "https://dandiarchive.org/a.nwb.zarr", "file:///a.zarr", "simplecache::s3://b/a.zarr"
])  # fmt: skip
def test_a_url_that_became_a_path_is_not_a_folder(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="was a URL before it became a Path"):
        ZarrIO(Path(url), "w")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("url", "message"), [("ftp2://x/a", "Protocol not known: ftp2"), ("reference://x.txt", "reference::/folder/")]
)
def test_what_fsspec_cannot_open_is_no_fault_of_a_server(url, message):
    with pytest.raises(UsageError, match=message):
        open_store(url).get("zarr.json")


def test_a_zip_file_that_fsspec_does_not_find(tmp_path):
    with pytest.raises(StoreNotFoundError, match=r"does not exist: .* No such file"):
        open_store(f"zip::{tmp_path}/missing.zip").exists()
    with pytest.raises(StoreNotFoundError, match=r"does not exist: .*missing\.zip"):  # no server has to be up for it
        open_store("zip::memory://missing.zip").get(".zmetadata")
    url = f"zip://a.zarr::{tmp_path}/missing.zip"
    with pytest.raises(StoreNotFoundError, match=r"does not exist: .* No such file") as caught, ZarrIO(url):
        pass
    assert (caught.value.store, "Use mode 'w'" in caught.value.remedy) == (url, False)


def test_a_mapping_on_a_full_disk():
    class Full(dict[str, bytes]):
        __setitem__ = Mock(side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))

    with pytest.raises(errors.StoreFullError, match="Free some space") as caught:
        put(MemoryStore(Full()), "a/.zarray", b"x")
    assert caught.value.path == "/a"
