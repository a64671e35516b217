"""Azure and Google: each by obstore and by the library of fsspec, on servers that speak their protocols."""

import itertools
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import StoreLockedError, StoreNotFoundError, StoreRefusedError, StoreUnreachableError
from hdmf_zarr_backend.store.clouds import FsspecStore, ObjectStore
from hdmf_zarr_backend.store.opening import open_store
from tests import trees
from tests.clouds import ACCOUNT, BY_OBSTORE, CLOUDS, KEY, connection_string
from tests.places import delete_keys, put, put_all, streaming
from tests.servers import quick

pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning"),  # by gcsfs
]

EVERY = pytest.mark.parametrize("store", CLOUDS, indirect=True)
PART_WORDS = ("partNumber=", "comp=block&", "upload_id=")
"""What is in the path of a request that uploads a part."""

PIECE = bytes(range(256)) * 2**12  # 1 MiB


@EVERY
def test_obstore_is_the_default_and_fsspec_the_fallback(store):
    keys = open_store(store.place("a.zarr"), store.cloud.options)
    assert type(keys) is (ObjectStore if store.name in BY_OBSTORE else FsspecStore)


@EVERY
def test_one_writer_at_a_time(store):
    place = store.place("a.zarr")
    trees.write_builder(place, trees.root(trees.dataset("data", np.arange(10))), **store.options)
    with (
        ZarrIO(place, "r+", **store.options) as io,
        pytest.raises(StoreLockedError),
        ZarrIO(place, "r+", **store.options) as other,
    ):
        io.read_builder()["data"].data[0] = 1
        other.read_builder()["data"].data[0] = 2
    with ZarrIO(place, "r+", **store.options) as io:
        io.read_builder()["data"].data[0] = 3
    keys = open_store(store.place("").rstrip("/"), store.cloud.options)
    assert not [key for key in keys.list_prefix("") if key.endswith(".lock")]


def test_both_libraries_see_the_same(azure):
    by_adlfs = {"connection_string": connection_string(f"{azure.proxy.url}/{ACCOUNT}"), "max_concurrency": 4}
    for name, options in (("obstore", azure.options), ("adlfs", by_adlfs)):
        trees.write_builder(f"{azure.url}/folder/{name}.zarr", trees.root(note=name), storage_options=options)
    for options in (azure.options, by_adlfs):
        keys = open_store(f"{azure.url}/folder", options).list_prefix("")
        assert {key.partition("/")[0] for key in keys} == {"obstore.zarr", "adlfs.zarr"}
        for name, url in itertools.product(("obstore", "adlfs"), (azure.url, f"abfs://{azure.url[5:]}")):
            read = trees.read_builder(f"{url}/folder/{name}.zarr", storage_options=options)
            assert read.attributes["note"] == name


@EVERY
def test_keys(store):
    """What is special about one of these servers or libraries: ranges from the end, empty values, absent keys."""
    keys: Any = open_store(store.place("a.zarr"), store.cloud.options)
    put_all(keys, {"c/0": b"0123456789", "c/1": b"", "d e/é": b"x"})
    assert keys.get_range("c/0", -4) == b"6789"
    assert keys.get_ranges("c/0", [(0, 2), (-2, None), (8, 10)]) == [b"01", b"89", b"89"]
    assert keys.get_range("nothing", -4) is None
    assert keys.get("c/1") == b""
    assert keys.sizes("") == {"c/0": 10, "c/1": 0, "d e/é": 1}
    assert sorted(keys.list_prefix("c")) == ["c/0", "c/1"]
    assert keys.state("c/0").size == 10
    assert keys._create("c/0", b"new") is False
    assert keys._create("c/2", b"new") is True
    delete_keys(keys, ["nothing", "c/0", "c/1", "neither", "c/2"])
    assert keys.sizes("") == {"d e/é": 1}


@pytest.mark.parametrize("store", BY_OBSTORE, indirect=True)
def test_many_keys_are_deleted_although_some_are_not_there(store):
    """More than go into one request to Azure."""
    keys = open_store(store.place("a.zarr"), store.cloud.options)
    names = [f"c/{number}" for number in range(270)]
    put_all(keys, dict.fromkeys(names[240:], b"x"))
    delete_keys(keys, names)
    assert list(keys.list_prefix("")) == []


def calls(keys: Any) -> list[Any]:
    return [lambda: put(keys, "zarr.json", b"{}"), lambda: keys._create("zarr.json", b"{}")]


@EVERY
def test_no_such_bucket(store):
    place = f"{store.cloud.url}-not/a.zarr"
    for write in calls(open_store(place, store.cloud.options)):
        with pytest.raises(StoreNotFoundError, match="no such bucket") as caught:
            write()
        assert caught.value.store == place
    with pytest.raises(StoreNotFoundError) as caught:
        ZarrIO(place, "r", **store.options)
    assert caught.value.store == place
    with pytest.raises(StoreNotFoundError, match="no such bucket") as caught, ZarrIO(place, "w", **store.options) as io:
        io.write_builder(trees.root(note="x"))
    assert caught.value.store == place


@EVERY
def test_refused(store):
    place, options = store.place("a.zarr"), store.cloud.options
    trees.write_builder(place, trees.root(note="x"), **store.options)
    if store.cloud.refused:
        options = store.cloud.refused
    else:  # these servers let everybody in
        store.cloud.proxy.fault = lambda method, path, number: "403"
    keys = open_store(place, options)
    for call in (*calls(keys), lambda: keys.get("zarr.json"), lambda: list(keys.list_prefix(""))):
        with pytest.raises(StoreRefusedError) as caught:
            call()
        assert caught.value.store == place
    with pytest.raises(StoreRefusedError) as caught:
        ZarrIO(place, "r", storage_options=options)
    assert caught.value.store == place
    assert ('token="anon"' if place.startswith("gs") else "anon=True") in str(caught.value)


@pytest.mark.parametrize("store", BY_OBSTORE, indirect=True)
def test_a_server_that_is_busy(store):
    """Once is not noticed; for good it is one error, after bounded retries."""
    impatient = {**store.cloud.options, **quick()}
    impatient["client_options"] = {**impatient["client_options"], "allow_http": True}
    place = store.place("a.zarr")
    seen: set[tuple[str, str]] = set()

    def once(method: str, path: str, _: int) -> str | None:
        is_new = (method, path) not in seen
        seen.add((method, path))
        return "503" if is_new else None

    store.cloud.proxy.fault = once
    trees.write_builder(place, trees.root(note="x"), storage_options=impatient)
    store.cloud.proxy.fault = lambda method, path, number: "503"
    with pytest.raises(StoreUnreachableError) as caught:
        ZarrIO(place, "r", storage_options=impatient)
    assert caught.value.store == place


@pytest.mark.slow
@EVERY
def test_a_shard_goes_there_in_parts(store):
    data = np.random.default_rng(0).integers(0, 2**63, size=(24, 2**17))  # 24 MiB that nothing compresses
    sharded = ZarrDataIO(data, chunks=(1, 2**17), shards=(24, 2**17))
    trees.write_builder(
        store.place("a.zarr"), trees.root(trees.dataset("data", sharded)), zarr_format=3, **store.options
    )
    read = trees.read_builder(store.place("a.zarr"), **store.options)["data"].data
    np.testing.assert_array_equal(read[20, 5:9], data[20, 5:9])
    np.testing.assert_array_equal(read[:], data)
    parts = [path for _, path in store.cloud.proxy.requests if any(word in path for word in PART_WORDS)]
    assert len(parts) >= 3


@EVERY
def test_a_writer_that_dies_half_way_leaves_no_object(store):
    keys = open_store(store.place("a.zarr"), store.cloud.options)
    assert keys.stream_bytes
    for pieces in (1, 20):
        with pytest.raises(ZeroDivisionError), streaming(keys, "c/0") as write:
            for _ in range(pieces):
                write(PIECE)
            raise ZeroDivisionError
    assert keys.get("c/0") is None
    assert list(keys.list_prefix("")) == []


def test_a_store_that_a_user_has_opened(azure, google):
    from obstore.store import AzureStore, GCSStore

    insecure = {"client_options": {"allow_http": True}}
    for cls, cloud, more in ((AzureStore, azure, insecure), (GCSStore, google, {})):
        opened = cls(cloud.url.partition("://")[2], prefix="folder/a.zarr", **{**cloud.options, **more})
        assert type(open_store(opened)) is ObjectStore
        trees.write_builder(opened, trees.root(trees.dataset("data", np.arange(10))))
        with ZarrIO(opened, "r") as io:
            assert io.source == f"{cloud.url}/folder/a.zarr"
            assert io.read_builder()["data"].data[3] == 3


def test_a_connection_string_is_enough(azure, monkeypatch):
    said = connection_string(f"{azure.proxy.url}/{ACCOUNT}", KEY)
    trees.write_builder(f"{azure.url}/a.zarr", trees.root(note="x"), storage_options={"connection_string": said})
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", said)
    assert trees.read_builder(f"{azure.url}/a.zarr").attributes["note"] == "x"
