"""Every kind of store: what is written there is read there, changed, linked to, and exported from one to another."""

import pickle
import re
import zipfile
from contextlib import nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal
from unittest.mock import Mock

import numpy as np
import pytest
import zarr
from hdmf.data_utils import DataChunkIterator
from hdmf.testing import TestCase
from pynwb import TimeSeries, get_type_map
from pynwb.file import NWBFile

from hdmf_zarr_backend import NWBZarrIO, WriteOptions, ZarrIO, errors
from hdmf_zarr_backend.errors import ReadOnlyStoreError, StoreExistsError, StoreUnreachableError, UsageError
from hdmf_zarr_backend.store.opening import open_store
from tests import samples, trees
from tests.clouds import BY_OBSTORE, CLOUDS
from tests.places import delete_keys, put, store_files
from tests.storekinds import ALL_KINDS, StoreKind, plain_store, s3_store
from tests.zarrs import IS_ZARR_2, needs_zarr_3

pytestmark = pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")  # by gcsfs

IN_CLOUDS = [
    pytest.param(kind, marks=[pytest.mark.peer, *([] if kind in BY_OBSTORE else [pytest.mark.slow])]) for kind in CLOUDS
]
EVERY = pytest.mark.parametrize("store", [*ALL_KINDS, *IN_CLOUDS], indirect=True)
LINKING = pytest.mark.parametrize(
    "store", ["local", "zip", "memory-url", "zarr-local", "s3", "s3fs", "obstore-s3", *IN_CLOUDS], indirect=True
)


def write(store: StoreKind, name: str, nwbfile: NWBFile, zarr_format: Literal[2, 3] = 2) -> None:
    samples.write_zarr(store.place(name), nwbfile, zarr_format=zarr_format, **store.options)


def write_numbers(store: StoreKind, **options: Any) -> Any:
    tree = trees.root(trees.dataset("data", np.arange(10)), note="x")
    return trees.write_builder(store.place("a.zarr"), tree, **store.options, **options)


def same(one: NWBFile, other: NWBFile) -> None:
    TestCase().assertContainerEqual(one, other, ignore_hdmf_attrs=True)


@EVERY
def test_what_is_written_is_read(store, zarr_format):
    nwbfile = samples.rich_nwbfile()
    write(store, "a.nwb.zarr", nwbfile, zarr_format)
    same(samples.read_zarr(store.place("a.nwb.zarr"), **store.options), nwbfile)


@EVERY
def test_the_keys_are_those_of_a_local_file(store, tmp_path, zarr_format):
    (tmp_path / "other").mkdir()
    local = StoreKind(tmp_path / "other")
    write(local, "origin.nwb.zarr", samples.plain_nwbfile())
    for kind in (local, store):
        with (
            NWBZarrIO(local.place("origin.nwb.zarr"), "r") as source,
            NWBZarrIO(kind.place("a.nwb.zarr"), "w", zarr_format=zarr_format, **kind.options) as io,
        ):
            io.export(source)
    there, here = store.contents("a.nwb.zarr"), local.contents("a.nwb.zarr")
    assert there.keys() == here.keys()
    assert {key for key in here if here[key] != there[key]} == set()


@EVERY
def test_the_source_is_one_string_and_static_methods_take_the_place(store):
    write(store, "a.nwb.zarr", samples.plain_nwbfile())
    place = store.place("a.nwb.zarr")
    with NWBZarrIO(place, "r", **store.options) as io:
        nwbfile, builder = io.read(), io.read_builder()
        assert io.source == io.path == builder.source == nwbfile.container_source
        assert io.source == place or not isinstance(place, str)
        assert all(child.source == io.source for child in builder.groups.values())
    assert NWBZarrIO.get_namespaces(place, **store.options)["core"]
    assert isinstance(NWBZarrIO.load_namespaces(get_type_map(), place, **store.options), dict)
    if not store.options:
        assert NWBZarrIO.can_read(place)
        assert NWBZarrIO.read_nwb(place).identifier == "plain"


@EVERY
def test_zarr_itself_sees_the_file(store, zarr_format):
    with ZarrIO(write_numbers(store, zarr_format=zarr_format), "r", **store.options) as io:
        assert io._file.attrs["note"] == "x"
        assert io._file["data"][3] == 3
        assert io.read_builder()["data"].data.metadata.zarr_format == zarr_format


@EVERY
@pytest.mark.parametrize(("mode", "zarr_format"), [("r+", 2), ("a", 3)])
def test_append(store, mode, zarr_format):
    write(store, "a.nwb.zarr", samples.rich_nwbfile(), zarr_format)
    if "append" in store.refusals:
        with pytest.raises(ReadOnlyStoreError, match="cannot be changed"):
            NWBZarrIO(store.place("a.nwb.zarr"), mode, **store.options)
        return
    with NWBZarrIO(store.place("a.nwb.zarr"), mode, **store.options) as io:
        nwbfile = io.read()
        units = len(nwbfile.units)
        series = [next(iter(nwbfile.acquisition.values()))]
        nwbfile.add_trial(100.0, 101.0, tags=["late"], timeseries=series, stimulus="tone", licks=[[100.5]])
        nwbfile.add_acquisition(TimeSeries(name="more", data=np.arange(5.0), unit="V", rate=1.0))
        nwbfile.acquisition["trace"].data[3, 1] = -33
        io.write(nwbfile)
    nwbfile = samples.read_zarr(store.place("a.nwb.zarr"), **store.options)
    assert len(nwbfile.units) == units
    assert nwbfile.trials["start_time"][-1] == 100.0
    assert nwbfile.acquisition["trace"].data[3].tolist() == [9, -33, 11]
    assert nwbfile.acquisition["more"].data[:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
    with NWBZarrIO(store.place("a.nwb.zarr"), "r-", **store.options) as io:  # the documents of the nodes say the same
        assert io.read().acquisition["more"].data[3] == 3.0


@EVERY
def test_a_file_is_replaced_on_request_only(store):
    for tree in (trees.group("old", trees.dataset("data", np.arange(10))), trees.group("new", note="x")):
        trees.write_builder(store.place("a.zarr"), trees.root(tree), **store.options)
        for mode in ("w-", "x"):
            with pytest.raises(StoreExistsError):
                ZarrIO(store.place("a.zarr"), mode, **store.options)
    assert set(trees.read_builder(store.place("a.zarr"), **store.options).groups) == {"new"}
    assert not any(key.startswith("old") for key in store.contents("a.zarr"))  # nothing is left


@EVERY
def test_what_is_no_file_of_ours_stays(store):
    if store.name == "zip":
        Path(store.place("a.zarr")).write_bytes(b"something else")
    else:
        put(open_store(store.place("a.zarr"), store.options.get("storage_options")), "readme.txt", b"something else")
    with pytest.raises(StoreExistsError if store.name != "zip" else Exception, match=r"not an HDMF|not a zip"):
        ZarrIO(store.place("a.zarr"), "w", **store.options)


@EVERY
def test_nothing_is_there(store):
    place = store.place("nothing.zarr")
    with pytest.raises(errors.StoreNotFoundError) as caught:
        ZarrIO(place, "r", **store.options) if store.name != "zarr-group" else ZarrIO({}, "r")
    if isinstance(place, str):
        assert caught.value.store == place
        assert store.options or not NWBZarrIO.can_read(place)


@EVERY
def test_iterators_and_threads(store):
    big = np.arange(2**19, dtype="f8").reshape(-1, 8)
    iterator = DataChunkIterator(data=iter(np.arange(1000.0)), buffer_size=100)
    tree = trees.root(trees.dataset("big", big), trees.dataset("rows", iterator, "float64"))
    threads = WriteOptions(executor="threads")
    trees.write_builder(store.place("a.zarr"), tree, **store.options, write_options=threads)
    builder = trees.read_builder(store.place("a.zarr"), **store.options)
    np.testing.assert_array_equal(builder.datasets["big"].data[:], big)
    np.testing.assert_array_equal(builder.datasets["rows"].data[:], np.arange(1000.0))


@pytest.mark.parametrize("store", ["local", "zip", "s3", "s3fs"], indirect=True)
def test_arrays_travel_to_other_processes(store):
    data = trees.read_builder(write_numbers(store), **store.options)["data"].data
    assert pickle.loads(pickle.dumps(data))[:].tolist() == list(range(10))


@pytest.mark.parametrize("store", ["local", "zip", "memory", "memory-url", "zarr-memory", "s3"], indirect=True)
def test_processes(store):
    values, processes = np.arange(2**19, dtype="f8").reshape(-1, 8), WriteOptions(executor="processes")
    path = trees.write_builder(store.folder / "source.zarr", trees.root(trees.dataset("big", values)))
    refused = "processes" in store.refusals or store.name == "zip"
    with (
        ZarrIO(path, "r") as source,
        ZarrIO(store.place("a.zarr"), "w", **store.options, write_options=processes) as io,
        pytest.raises(UsageError, match="threads") if refused else nullcontext(),
    ):
        io.export(source, write_args={"link_data": False})
    if not refused:
        read = trees.read_builder(store.place("a.zarr"), **store.options)
        np.testing.assert_array_equal(read["big"].data[:], values)


# ---- links and references -------------------------------------------------------------------------------------------
def linked_pair(store: StoreKind, zarr_format: Literal[2, 3] = 2) -> None:
    first = samples.plain_nwbfile("first")
    first.add_acquisition(TimeSeries(name="raw", data=np.arange(100.0), unit="V", rate=1.0))
    write(store, "first.nwb.zarr", first, zarr_format)
    with NWBZarrIO(store.place("first.nwb.zarr"), "r", **store.options) as source:
        raw = source.read().acquisition["raw"]
        second = samples.plain_nwbfile("second")
        second.add_acquisition(TimeSeries(name="linked data", data=raw.data, unit="V", rate=1.0))
        second.add_acquisition(raw)
        options = {"manager": source.manager, "zarr_format": zarr_format, **store.options}
        samples.write_zarr(store.place("second.nwb.zarr"), second, **options)


def check_linked_pair(place: Any, **options: Any) -> None:
    with NWBZarrIO(place, "r", **options) as io:
        second = io.read()
        data = second.acquisition["linked data"].data
        assert data.location != io.source
        assert data.location.rpartition("/")[2].startswith("first.nwb.zarr")
        others = [series for name, series in second.acquisition.items() if name != "linked data"]
        whole = [series for series in others if series.container_source != io.source]
        assert len(whole) == 1
        np.testing.assert_array_equal(data[:], whole[0].data[:])
        assert data.size


@LINKING
def test_links_to_a_neighbour(store, zarr_format):
    linked_pair(store, zarr_format)
    check_linked_pair(store.place("second.nwb.zarr"), **store.options)
    text = store.contents("second.nwb.zarr")[".zmetadata" if zarr_format == 2 else "zarr.json"].decode()
    assert '"../first.nwb.zarr' in text  # relative, so that both can move


@pytest.mark.parametrize("store", ["memory", "zarr-memory"], indirect=True)
def test_what_has_no_address_is_copied_from(store):
    write(store, "first.nwb.zarr", samples.plain_nwbfile("first"))
    with NWBZarrIO(store.place("first.nwb.zarr"), "r") as source:
        raw = next(iter(source.read().acquisition.values()))
        second = samples.plain_nwbfile("second")
        second.add_acquisition(TimeSeries(name="copied", data=raw.data, unit="V", rate=1.0))
        write(store, "second.nwb.zarr", second)
        expected = raw.data[:]
    with NWBZarrIO(store.place("second.nwb.zarr"), "r") as io:
        data = io.read().acquisition["copied"].data
        assert data.location == io.source
        np.testing.assert_array_equal(data[:], expected)


def test_a_pair_in_a_bucket_works_over_http_and_after_download(s3, web, tmp_path, zarr_format):
    linked_pair(s3_store("s3", tmp_path, s3), zarr_format)
    store_files(web.folder, s3.contents("folder"))  # as any tool downloads it
    check_linked_pair(web.folder / "second.nwb.zarr")
    check_linked_pair(f"{web.url}/second.nwb.zarr")
    check_linked_pair(f"simplecache::{web.url}/second.nwb.zarr")


def test_from_one_kind_of_store_to_another(s3, tmp_path):
    """A local file links into a bucket, whose credentials are those of the environment."""
    store = s3_store("s3", tmp_path, s3)
    write(store, "first.nwb.zarr", samples.plain_nwbfile("first"))
    with NWBZarrIO(store.place("first.nwb.zarr"), "r", **store.options) as source:
        raw = next(iter(source.read().acquisition.values()))
        second = samples.plain_nwbfile("second")
        second.add_acquisition(TimeSeries(name="linked", data=raw.data, unit="m", rate=1.0))
        samples.write_zarr(tmp_path / "second.nwb.zarr", second)
    text = (tmp_path / "second.nwb.zarr" / ".zmetadata").read_text()
    assert f'"{store.place("first.nwb.zarr")}"' in text
    with pytest.MonkeyPatch.context() as patch:
        for name, value in s3.environment.items():
            patch.setenv(name, value)
        with NWBZarrIO(tmp_path / "second.nwb.zarr", "r") as io:
            assert io.read().acquisition["linked"].data.location == store.place("first.nwb.zarr")


# ---- export between all of them -------------------------------------------------------------------------------------
@pytest.mark.parametrize(("store", "target"), [
    *((kind, target) for kind in ALL_KINDS for target in ("local", "s3")), ("local", "zip"), ("s3", "memory")
], indirect=["store"])  # fmt: skip
def test_export(store, target, s3, tmp_path):
    nwbfile = samples.plain_nwbfile()
    write(store, "a.nwb.zarr", nwbfile)
    folder = tmp_path / "target"
    folder.mkdir()
    kind = s3_store("s3", folder, s3) if target == "s3" else plain_store(target, folder)
    with (
        NWBZarrIO(store.place("a.nwb.zarr"), "r", **store.options) as source,
        NWBZarrIO(kind.place("b.nwb.zarr"), "w", **kind.options) as io,
    ):
        io.export(source)
    same(samples.read_zarr(kind.place("b.nwb.zarr"), **kind.options), nwbfile)


@EVERY
def test_no_file_is_exported_onto_itself(store):
    place = write_numbers(store)
    before = store.contents("a.zarr")
    with ZarrIO(place, "r", **store.options) as source, ZarrIO(place, "w", force_overwrite=True, **store.options) as io:
        with pytest.raises(StoreExistsError, match="onto itself"):
            io.export(source)
        assert source.read_builder()["data"].data[3] == 3
    assert store.contents("a.zarr") == before


# ---- what is special about one --------------------------------------------------------------------------------------
def test_a_zip_file_has_each_key_once_and_is_the_same_each_time(tmp_path):
    for name in ("a.zip", "b.zip"):
        tree = trees.root(trees.dataset("data", np.arange(10)), trees.group("g", note="x"))
        trees.write_builder(tmp_path / name, tree)
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        names = archive.namelist()
        assert len(names) == len(set(names))
        assert archive.testzip() is None
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_STORED}
    whole = (tmp_path / "a.zip").read_bytes()
    assert whole == (tmp_path / "b.zip").read_bytes()
    (tmp_path / "a.zip").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(errors.NotZarrError, match="not a zip file"):
        ZarrIO(tmp_path / "a.zip", "r")


def test_a_zip_file_whose_names_have_backslashes_in_place_of_slashes(tmp_path):
    path = tmp_path / "a.zip"
    held = trees.write_builder({}, trees.root(trees.group("g", trees.dataset("data", np.arange(10)))))
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in held.items():
            archive.writestr(key.replace("/", "\\"), value)
    np.testing.assert_array_equal(trees.read_builder(path)["g/data"].data[:], np.arange(10))
    assert open_store(path).sizes("") == {key: len(value) for key, value in held.items()}


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_zip_file_of_the_folder_in_place_of_its_content(tmp_path, zarr_format):
    path = tmp_path / "a.zarr.zip"
    held = trees.write_builder({}, trees.root(trees.dataset("data", np.arange(10))), zarr_format=zarr_format)
    with zipfile.ZipFile(path, "w") as archive:
        for key, value in held.items():
            archive.writestr(f"a.zarr/{key}", value)
    with pytest.raises(errors.NotZarrError, match=r"its folder 'a\.zarr' has one") as caught:
        trees.read_builder(path)
    url = f"zip://a.zarr::{path}"
    assert f"Open {url} to read it" in caught.value.remedy
    np.testing.assert_array_equal(trees.read_builder(url)["data"].data[:], np.arange(10))


@pytest.mark.parametrize(("make", "view"), [
    (dict, MappingProxyType),
    pytest.param(zarr.storage.MemoryStore, lambda held: held.with_read_only(read_only=True), marks=needs_zarr_3),
], ids=["mapping", "store"])  # fmt: skip
def test_what_is_read_only_is_read(make, view):
    held = trees.write_builder(make(), trees.root(note="x"))
    assert trees.read_builder(view(held)).attributes["note"] == "x"
    for mode in ("w", "a"):
        with pytest.raises(ReadOnlyStoreError):
            ZarrIO(view(held), mode)


@pytest.mark.parametrize("mode", ["w", "w-", "r+", "a"])
def test_a_directory_that_zarr_opened_for_reading_is_not_written(tmp_path, mode):
    trees.write_builder(tmp_path / "a.zarr", trees.root(note="x"))
    places = [zarr.open_group(tmp_path / "a.zarr", mode="r")]
    if not IS_ZARR_2:
        places.append(zarr.storage.LocalStore(tmp_path / "a.zarr", read_only=True))
    for place in places:
        with pytest.raises(ReadOnlyStoreError, match="opened for reading"):
            ZarrIO(place, mode)
        assert trees.read_builder(place).attributes["note"] == "x"


def test_a_zip_store_is_read_that_nobody_has_opened_yet(tmp_path):
    trees.write_builder(tmp_path / "a.zip", trees.root(trees.dataset("data", np.arange(10))))
    with zarr.storage.ZipStore(tmp_path / "a.zip", mode="r") as zipped:  # which zarr reads itself
        assert zarr.open_group(zipped, mode="r", zarr_format=2)["data"][:].tolist() == list(range(10))
    assert trees.read_builder(zarr.storage.ZipStore(tmp_path / "a.zip"))["data"].data[2:4].tolist() == [2, 3]
    with pytest.raises(errors.StoreNotFoundError, match=re.escape(str(tmp_path / "none.zip"))):
        ZarrIO(zarr.storage.ZipStore(tmp_path / "none.zip"), "r")


def test_what_a_mapping_raises_names_the_key():
    class Failing(dict[str, Any]):
        get = Mock(side_effect=ConnectionResetError("gone"))
        __setitem__ = Mock(side_effect=OSError("full"))
        pop = Mock(side_effect=OSError("fixed"))

    keys = open_store(Failing())
    with pytest.raises(StoreUnreachableError, match=r"'a/\.zarray' could not be read: gone.*\(/a\)"):
        keys.get("a/.zarray")
    with pytest.raises(StoreUnreachableError, match="'a/0' could not be written: full"):
        put(keys, "a/0", b"")
    with pytest.raises(StoreUnreachableError, match="'a/0' could not be deleted: fixed"):
        delete_keys(keys, ["a/0"])


def test_a_mapping_gives_bytes():
    document = b'{"zarr_format": 3, "node_type": "group", "attributes": {"note": "x"}}'
    for value in (bytearray(document), np.frombuffer(document, "u1")):
        with ZarrIO({"zarr.json": value}, "r") as io:  # type: ignore[dict-item]
            assert io.read_builder().attributes["note"] == "x"
    with pytest.raises(errors.StoreError, match=r"'zarr\.json' is of type str, not bytes"):
        ZarrIO({"zarr.json": document.decode()}, "r")  # type: ignore[dict-item]


def test_an_empty_folder_is_no_reason_to_refuse(tmp_path):
    for name in ("a.zarr", "b.zarr/notes"):
        (tmp_path / name).mkdir(parents=True)
    path = trees.write_builder(tmp_path / "a.zarr", trees.root(note="x"))
    assert trees.read_builder(path).attributes["note"] == "x"
    with pytest.raises(StoreExistsError):
        ZarrIO(tmp_path / "b.zarr", "w")


def test_fsspecs_mapper_is_its_url(tmp_path):
    import fsspec

    with ZarrIO(fsspec.get_mapper("memory://mapper/a.zarr"), "w") as io:
        assert io.source == "memory:///mapper/a.zarr"  # as fsspec spells it
        io.write_builder(trees.root(note="x"))
    assert trees.read_builder("memory://mapper/a.zarr").attributes["note"] == "x"


@pytest.mark.parametrize("place", [3, None, ["a"], object()])
def test_what_no_file_can_be_in(place):
    with pytest.raises(UsageError):
        ZarrIO(place, "r")


def test_options_of_a_store_that_is_open_already():
    with pytest.raises(UsageError, match="storage_options are for URLs"):
        ZarrIO({}, "w", storage_options={"anon": True})


@EVERY
def test_a_consolidated_document_is_optional(store):
    place = write_numbers(store, write_options=WriteOptions(consolidate_metadata=False))
    assert ".zmetadata" not in store.contents("a.zarr")
    assert trees.read_builder(place, **store.options)["data"].data[:].tolist() == list(range(10))
