"""Sessions of Icechunk: format 3, no consolidated document, and the commit is the user's."""

import json
from contextlib import nullcontext
from typing import Any

import h5py
import icechunk
import numpy as np
import pytest
import zarr
from hdmf.data_utils import DataChunkIterator
from hdmf.testing import TestCase
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, WriteOptions, ZarrDataIO, ZarrIO, compare, convert, errors
from hdmf_zarr_backend.errors import ReadOnlyStoreError, StoreError, StoreRefusedError, UsageError
from hdmf_zarr_backend.store.opening import open_store
from hdmf_zarr_backend.store.zarr_python import IcechunkStore
from hdmf_zarr_backend.zom import from_zom, to_zom
from tests import samples, trees
from tests.places import delete_keys, put


@pytest.fixture
def repository() -> Any:
    return icechunk.Repository.create(icechunk.in_memory_storage())


def message(text: str) -> WriteOptions:
    return WriteOptions(commit_message=text)


def write(repository: Any, *members: Any, **attributes: Any) -> None:
    tree = trees.root(*members, **attributes)
    trees.write_builder(repository.writable_session("main"), tree, write_options=message("a file"))


def read(repository: Any) -> Any:
    return ZarrIO(repository.readonly_session("main").store, "r").read_builder()


def test_write_read_append(repository):
    nwbfile = samples.rich_nwbfile()
    session = repository.writable_session("main")
    samples.write_zarr(session.store, nwbfile, zarr_format=3)
    with pytest.raises(errors.StoreNotFoundError):  # not before the commit
        NWBZarrIO(repository.readonly_session("main").store, "r")
    session.commit("a file")
    found = samples.read_zarr(repository.readonly_session("main").store)
    TestCase().assertContainerEqual(found, nwbfile, ignore_hdmf_attrs=True)
    group = zarr.open_group(repository.readonly_session("main").store, mode="r")
    assert group.metadata.consolidated_metadata is None
    session = repository.writable_session("main")
    with samples.edit_zarr(session.store, "a") as changed:
        changed.add_acquisition(TimeSeries(name="more", data=np.arange(5.0), unit="V", rate=1.0))
    session.commit("more")
    found = samples.read_zarr(repository.readonly_session("main").store)
    assert found.acquisition["more"].data[:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("shards", [None, (4,)])
def test_arrays_that_grow(repository, shards):
    """Of rows, the document is known last, and Icechunk takes no chunk of an array that it does not know."""
    data = ZarrDataIO(np.arange(4), chunks=(2,), shards=shards, maxshape=(None,))
    iterator = DataChunkIterator(data=iter(np.arange(1000.0)), buffer_size=100)
    rows = trees.dataset("rows", iterator, "float64")
    write(repository, trees.dataset("data", data), rows, trees.dataset("scalar", 3))
    with ZarrIO(repository.writable_session("main"), "a", write_options=message("seven more")) as io:
        io.read_builder()["data"].data.append(np.arange(4, 11))
    builder = read(repository)
    assert builder["data"].data[:].tolist() == list(range(11))
    np.testing.assert_array_equal(builder["rows"].data[:], np.arange(1000.0))
    assert builder["scalar"].data == 3


def test_a_chunk_that_comes_before_its_array(repository):
    store = open_store(repository.writable_session("main").store)
    put(store, "zarr.json", b'{"zarr_format": 3, "node_type": "group"}')
    for key in ("data/c/7", "data/c/9"):
        put(store, key, b"abc")
    delete_keys(store, ["data/c/9"])
    array = json.loads(store.get("data/zarr.json"))
    for length in (8, 9):
        put(store, "data/zarr.json", json.dumps({**array, "shape": [length]}).encode())
        assert store.get("data/c/7") == b"abc"
    put(store, "data/c/20", b"def")
    assert json.loads(store.get("data/zarr.json"))["shape"] == [21]
    assert store.get("data/c/20") == b"def"
    assert store.get("data/c/9") is None


def test_what_is_not_possible(repository, tmp_path):
    write(repository, trees.dataset("data", np.arange(5)))
    with pytest.raises(ReadOnlyStoreError, match="read only"):
        ZarrIO(repository.readonly_session("main").store, "a")
    source = np.arange(2**19)
    processes = WriteOptions(executor="processes")
    with (
        pytest.raises(UsageError, match="threads"),
        ZarrIO(tmp_path / "held.zarr", "w") as held,
        ZarrIO(repository.writable_session("main").store, "w", zarr_format=3, write_options=processes) as io,
    ):
        held.write_builder(trees.root(trees.dataset("data", source)))
        io.export(ZarrIO(held._raw_store, "r"), write_args={"link_data": False})


def test_a_new_file_is_of_the_format_that_the_store_can_hold(repository):
    """Not of the default format, which is an error that was told when everything was planned."""
    for mode in ("w", "a"):
        session = repository.writable_session("main")
        with ZarrIO(session.store, mode) as io:
            assert io.zarr_format == 3
            io.write_builder(trees.root(trees.dataset("data", np.arange(5)), note=mode))
        if mode == "w":
            session.discard_changes()
    session.commit("a file")
    assert read(repository).attributes["note"] == "a"


@pytest.mark.parametrize("mode", ["w", "w-", "x", "a"])
def test_a_format_that_it_cannot_hold_is_refused_when_the_file_is_opened(repository, mode):
    session = repository.writable_session("main")
    with pytest.raises(ReadOnlyStoreError, match=r"format 3 only.*Leave out zarr_format"):
        ZarrIO(session.store, mode, zarr_format=2)
    assert not session.has_uncommitted_changes


NOT_A_NUMBER = {"gain": np.nan, "gains": np.array([1.0, -np.inf], dtype="f4"), "note": "x"}


def test_an_attribute_that_is_not_a_number_is_written_as_strict_json(repository):
    """The store refuses a document with a NaN token, in the middle of a write."""
    write(repository, **NOT_A_NUMBER)
    with trees.edit_builder(repository.writable_session("main"), write_options=message("more")) as builder:
        builder.set_attribute("more", np.nan)
    found = read(repository).attributes
    assert np.isnan(found["gain"])
    assert np.isnan(found["more"])
    np.testing.assert_array_equal(found["gains"], NOT_A_NUMBER["gains"])


@pytest.mark.parametrize("zarr_format", [None, 2])
def test_convert_to_and_from_a_session(repository, tmp_path, zarr_format):
    """From HDF5, and from a Zarr file that has NaN tokens."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"] = np.arange(5)
        file.attrs.update(NOT_A_NUMBER)
        file["data"].attrs.update(NOT_A_NUMBER)
    source = tmp_path / "a.h5"
    if zarr_format is not None:
        source = tmp_path / "a.zarr"
        convert(tmp_path / "a.h5", source, zarr_format=zarr_format)
    convert(source, repository.writable_session("main"), write_options=message("a file"))
    found = repository.readonly_session("main")
    assert compare(source, found) == []
    convert(found, tmp_path / "b.h5")
    assert compare(tmp_path / "a.h5", tmp_path / "b.h5") == []


def test_convert_replaces_a_file_in_a_session_only_if_asked(repository, tmp_path):
    samples.write_zarr(tmp_path / "a.zarr", samples.plain_nwbfile())
    write(repository, trees.dataset("old", np.arange(5)))
    session = repository.writable_session("main")
    with pytest.raises(errors.StoreExistsError, match="overwrite=True"):
        convert(tmp_path / "a.zarr", session)
    assert not session.has_uncommitted_changes
    convert(tmp_path / "a.zarr", session, overwrite=True)
    session.commit("a file")
    assert NWBZarrIO(repository.readonly_session("main"), "r").read().identifier == "plain"


def test_a_session_is_committed_with_the_message(repository):
    write(repository, trees.dataset("data", np.arange(5)))
    with ZarrIO(repository.writable_session("main"), "r+", write_options=message("changed")) as io:
        io.read_builder().datasets["data"].data[2] = 22
    with ZarrIO(repository.writable_session("main"), "r+", write_options=message("nothing to commit")) as io:
        io.read_builder()
    session = repository.writable_session("main")
    with (
        pytest.warns(errors.DroppedChangesWarning),
        pytest.raises(KeyError),
        ZarrIO(session, "r+", write_options=message("no")) as io,
    ):
        io.read_builder().datasets["data"].data[2] = 33
        raise KeyError
    messages = [snapshot.message for snapshot in repository.ancestry(branch="main")]
    assert messages[:2] == ["changed", "a file"]
    assert read(repository)["data"].data[2] == 22


@pytest.mark.parametrize("mode", ["r+", "w"])
def test_a_write_that_fails_leaves_nothing_of_it_to_be_committed(repository, monkeypatch, mode):
    write(repository, trees.dataset("data", np.arange(5)))
    session = repository.writable_session("main")
    name = "_put_value" if mode == "r+" else "_remove"
    real = getattr(IcechunkStore, name)

    def fail(store: Any, key: Any, *value: bytes) -> None:
        if key != "bad/zarr.json":
            real(store, key, *value)
        if mode == "w" or key == "bad/zarr.json":
            raise StoreRefusedError("not allowed", store=store.location)

    refused = pytest.raises(StoreError, match="a part of it is in the session") if mode == "r+" else nullcontext()
    with refused, ZarrIO(session, mode, zarr_format=3, write_options=message("half")) as io:
        tree = trees.root(trees.dataset("bad", np.arange(3)))
        if mode == "r+":  # the session has another change then, which is not discarded
            tree = io.read_builder()
            tree.datasets["data"].data[2] = 22
            io.write_builder(tree)
            tree.set_dataset(trees.dataset("bad", np.arange(3)))
        with monkeypatch.context() as patch, pytest.raises(StoreRefusedError) as caught:
            patch.setattr(IcechunkStore, name, fail)
            io.write_builder(tree)
        assert hasattr(caught.value, "__notes__") == (mode == "r+")
        assert session.has_uncommitted_changes == (mode == "r+")
    assert [*read(repository).datasets] == ["data"]


def test_a_message_without_a_commit_is_refused(repository, tmp_path):
    for place, mode in ((repository.readonly_session("main"), "r"), (tmp_path / "a.zarr", "w")):
        with pytest.raises(UsageError, match="commit_message"):
            ZarrIO(place, mode, write_options=message("x"))
    with pytest.raises(UsageError, match="commit_message"):
        convert(tmp_path / "a.h5", tmp_path / "a.zarr", write_options=message("x"))


@pytest.mark.parametrize("zarr_format", [None, 3])
def test_convert_copies_a_file_of_format_3(repository, tmp_path, zarr_format):
    """It is the only format that there is in Icechunk."""
    source = samples.write_zarr(tmp_path / "a.zarr", samples.rich_nwbfile(), zarr_format=3)
    convert(source, repository.writable_session("main"), zarr_format=zarr_format, write_options=message("a copy"))
    found = repository.readonly_session("main")
    assert compare(source, found) == []
    assert samples.read_zarr(found.store).identifier == "rich"
    again = icechunk.Repository.create(icechunk.in_memory_storage())
    convert(found, again.writable_session("main"), write_options=message("a copy of the copy"))
    assert compare(source, again.readonly_session("main")) == []


@pytest.mark.parametrize("consolidate", [True, False])
def test_a_model_is_written_as_strict_json(repository, tmp_path, consolidate):
    trees.write_builder(
        tmp_path / "a.zarr", trees.root(trees.dataset("data", np.arange(5)), **NOT_A_NUMBER), zarr_format=3
    )
    model = to_zom(tmp_path / "a.zarr")
    session = repository.writable_session("main")
    from_zom(model, session.store, consolidate=consolidate)
    session.commit("documents")
    found = repository.readonly_session("main")
    assert to_zom(found.store).members.keys() == model.members.keys()
    attributes = ZarrIO(found.store, "r").read_builder().attributes
    for name, value in NOT_A_NUMBER.items():
        np.testing.assert_array_equal(attributes[name], value)


@pytest.mark.parametrize("note", [{}, 5])
def test_a_damaged_note_of_an_attribute_does_not_stop_strict_json(repository, tmp_path, note):
    zarr.create_group(
        tmp_path / "a.zarr", zarr_format=3, attributes={"gain": np.nan, "_hdmf": {"attributes": {"gain": note}}}
    )
    session = repository.writable_session("main")
    from_zom(to_zom(tmp_path / "a.zarr"), session.store)
    session.commit("documents")
    assert np.isnan(read(repository).attributes["gain"])
