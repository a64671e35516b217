"""A local directory as keys and bytes: what was set is there whole, and no key leads out of it."""

from __future__ import annotations

import errno
import os
import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import StoreError
from hdmf_zarr_backend.stores import local as local_module
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.stores.wrappers import InlinedStore
from tests.keystores import MemoryKeys
from tests.strategies import NAMES

PATHS = st.lists(NAMES.filter(lambda name: len(name.encode()) < 60), min_size=1, max_size=3).map("/".join)
BOTH = pytest.mark.parametrize("replace", [True, False], ids=["beside", "in place"])


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "größe.zarr")


def _files(folder: str) -> set[str]:
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*") if path.is_file()}


@BOTH
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(values=st.dictionaries(PATHS, st.binary(max_size=9), max_size=5), number=st.integers(0, 10**9))
def test_a_directory_holds_what_a_dict_holds(root, replace, values, number):
    # a key is a file, so none can be a folder of another
    values = {k: v for k, v in values.items() if not any(other.startswith(f"{k}/") for other in values)}
    store = LocalStore(f"{root}/{number}", replace=replace)
    store.set_many(values)
    assert store.get_many(values) == values
    assert {key: store.get(key) for key in values} == values
    assert store.sizes("") == {key: len(value) for key, value in values.items()}
    assert set(store.list_prefix("")) == set(values)
    for key in values:
        store.set(key, b"new")
        assert store.get(key) == b"new"
        store.delete([key, key])
        assert store.get(key) is None
    assert _files(root) == set()
    if values:
        store.delete_below("")
    assert not store.exists()


@BOTH
def test_what_is_not_there_is_none_and_nothing_is_made_of_it(root, replace):
    store = LocalStore(root, replace=replace)
    assert store.get("a/b") is None
    assert store.get_many(["a", "b"]) == {}
    assert list(store.list_documents()) == []
    assert list(store.list_prefix("a")) == []
    assert store.sizes("a") == {}
    store.delete(["a/b"])
    assert not store.exists()
    store.set("a", b"")
    assert store.exists()
    assert store.get("a/b") is None
    assert store.get("x" * 300) is None
    store.delete(["a/b"])
    assert store.get("a") == b""


def test_names_with_dots_are_names(root):
    store = LocalStore(root)
    store.set("..a/b..c/...", b"1")
    assert store.get("..a/b..c/...") == b"1"


def test_a_folder_is_no_value(root):
    store = LocalStore(root)
    store.set("a/b", b"1")
    with pytest.raises(StoreError, match="is a directory"):
        store.get("a")


def test_documents_are_listed_and_arrays_are_not_searched(root):
    store = LocalStore(root)
    below = ("g/a/.zarray", "g/a/.zattrs", "g/a/0.0", "g/a/0/.zarray", "g/v3/zarr.json", "g/other")
    for key in (".zgroup", ".zattrs", ".zmetadata", "g/.zgroup", *below):
        store.set(key, b"{}")
    assert sorted(store.list_documents()) == [".zattrs", ".zgroup", "g/.zgroup", "g/a/.zarray", "g/a/.zattrs",
                                              "g/v3/zarr.json"]  # fmt: skip
    assert set(store.list_prefix("g/a")) == {"g/a/.zarray", "g/a/.zattrs", "g/a/0.0", "g/a/0/.zarray"}


def test_links_to_folders_are_followed_and_circles_are_not(root, tmp_path):
    elsewhere = tmp_path / "disk"
    (elsewhere / "a").mkdir(parents=True)
    (elsewhere / "a" / ".zarray").write_bytes(b"{}")
    store = LocalStore(root)
    store.set("g/.zgroup", b"{}")
    os.symlink(elsewhere / "a", f"{root}/g/a")
    os.symlink("..", f"{root}/g/up")
    os.symlink(".", f"{root}/g/here")
    os.symlink("nowhere", f"{root}/g/broken")
    assert sorted(store.list_documents()) == ["g/.zgroup", "g/a/.zarray"]
    assert sorted(store.sizes("")) == ["g/.zgroup", "g/a/.zarray"]


def test_a_reader_sees_the_old_value_until_the_new_one_is_whole(root, monkeypatch):
    store = LocalStore(root)
    store.set("a", b"old")
    seen = []

    def write(descriptor: int, view: memoryview, real=os.write) -> int:
        seen.append(store.get("a"))
        return real(descriptor, view[:2])

    monkeypatch.setattr(local_module.os, "write", write)
    store.set("a", b"newer")
    assert seen == [b"old"] * 3
    assert store.get("a") == b"newer"


@pytest.mark.parametrize("step", ["write", "replace"])
@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()], ids=["full", "interrupted"])
def test_a_write_that_fails_leaves_the_old_value_and_nothing_else(root, monkeypatch, step, failure):
    store = LocalStore(root)
    store.set("g/a", b"old")

    def fail(*arguments: object) -> None:
        raise failure

    monkeypatch.setattr(local_module.os, step, fail)
    with pytest.raises(type(failure)):
        store.set("g/a", b"new")
    assert _files(root) == {"g/a"}
    assert store.get("g/a") == b"old"


def test_a_store_names_the_place_that_it_will_have_in_other_processes_too(root):
    store = LocalStore(root, replace=False, location="/data/final.zarr")
    store.set("a", b"1")
    other = pickle.loads(pickle.dumps(store))
    assert (other.get("a"), other.location, repr(other)) == (b"1", "/data/final.zarr", repr(store))
    with pytest.raises(StoreError, match=r"/data/final\.zarr"):
        other.get("../x")


def test_inlined_values_are_at_hand_until_they_are_written_anew():
    store = MemoryKeys({"a": b"stored", "b": b"2", "c": b""})
    keys = InlinedStore(store, {"a": b"inlined", "c": b""})
    assert keys.get_many(["a", "b", "c", "d"]) == {"a": b"inlined", "b": b"2", "c": b""}
    assert keys.get("a") == b"inlined"
    assert keys.get("b") == b"2"
    assert keys.get("d") is None
    assert keys.location == store.location
    assert keys.sizes("") == store.sizes("")
    assert set(keys.list_prefix("")) == {"a", "b", "c"}
    assert keys.exists()
    keys.set("a", b"new")
    assert keys.get("a") == store.values["a"] == b"new"
    keys.set_many({"c": b"3"})
    assert keys.get("c") == b"3"
    keys.delete(["c"])
    assert keys.get("c") is None
    assert list(keys.list_documents()) == []
