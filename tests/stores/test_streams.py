"""A large value goes to a bucket in parts through fsspec too; what does not come to its end leaves nothing behind."""

import gc
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO
from hdmf_zarr_backend.errors import StoreRefusedError
from hdmf_zarr_backend.store.clouds import FsspecStore
from hdmf_zarr_backend.store.opening import open_store
from tests import trees
from tests.places import delete_keys, streaming
from tests.servers import S3Server, s3_client

MIB = 2**20
PIECES = 72


def keys_of(s3: S3Server, **options: Any) -> FsspecStore:
    keys = open_store(s3.url("a.zarr"), {**s3.s3fs_options, **options})
    assert type(keys) is FsspecStore
    return keys


def unfinished(s3: S3Server) -> list[str]:
    """Return the keys of uploads that were begun, and neither ended nor given up."""
    found = s3_client(s3.endpoint).list_multipart_uploads(Bucket=s3.bucket)
    return [upload["Key"] for upload in found.get("Uploads", ())]


def numbers_of_parts(s3: S3Server) -> list[int]:
    found = (re.search(r"partNumber=(\d+)", path) for method, path in s3.proxy.requests if method == "PUT")
    return sorted(int(match[1]) for match in found if match)


def test_a_value_is_never_in_memory_as_a_whole(s3):
    """72 MiB in pieces of 1 MiB; what is held is what the plan of the memory counts on."""
    keys = keys_of(s3, endpoint_url=s3.endpoint)  # past the proxy, which is in this process
    with streaming(keys, "warm") as write:  # so that what libraries load is not counted
        write(bytes(MIB))
    tracemalloc.start()
    try:
        with streaming(keys, "c/0") as write:
            for number in range(PIECES):
                write(bytes([number]) * MIB)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < keys.held_bytes(PIECES * MIB) + 8 * MIB
    assert keys.held_bytes(PIECES * MIB) <= PIECES * MIB / 3
    assert keys.state("c/0").size == PIECES * MIB
    assert keys.get_range("c/0", 37 * MIB - 1, 37 * MIB + 1) == bytes([36, 37])


def test_a_sharded_array_goes_there_in_parts(s3):
    data = np.random.default_rng(0).integers(0, 2**63, size=(24, 2**17))  # 24 MiB that nothing compresses
    sharded = ZarrDataIO(data, chunks=(1, 2**17), shards=(24, 2**17))
    options, tree = s3.s3fs_options, trees.root(trees.dataset("data", sharded))
    trees.write_builder(s3.url("a.zarr"), tree, zarr_format=3, storage_options=options)
    assert numbers_of_parts(s3) == [1, 2, 3, 4]  # of 8 MiB; with the index a bit more than three
    np.testing.assert_array_equal(trees.read_builder(s3.url("a.zarr"), storage_options=options)["data"].data[:], data)


def test_a_piece_that_is_larger_than_a_part_is_cut(s3):
    value = np.random.default_rng(0).bytes(20 * MIB)
    with streaming(keys_of(s3), "c/0") as write:
        write(value)
    assert numbers_of_parts(s3) == [1, 2, 3]
    assert keys_of(s3).get("c/0") == value


@pytest.mark.parametrize("pieces", [0, 1, 20])
def test_a_writer_that_dies_leaves_no_object(s3, pieces):
    keys = keys_of(s3)
    with pytest.raises(ZeroDivisionError), streaming(keys, "c/0") as write:
        for _ in range(pieces):
            write(bytes(MIB))
        raise ZeroDivisionError
    gc.collect()  # a file of fsspec that is left open is written to its end then
    assert s3.contents("a.zarr") == {}
    assert unfinished(s3) == []


@pytest.mark.parametrize("is_gone", [False, True], ids=["a part", "all after the first part"])
def test_a_part_that_is_refused_ends_the_upload(s3, is_gone):
    """If nothing can be given up, parts stay where they are; no object comes of them."""
    keys = keys_of(s3)
    refused = (lambda path: "uploadId=" in path and "partNumber=1" not in path) if is_gone else (
        lambda path: "partNumber=2" in path)  # fmt: skip
    s3.proxy.fault = lambda method, path, number: "403" if refused(path) else None
    with pytest.raises(StoreRefusedError) as caught, streaming(keys, "data/c/0") as write:
        for _ in range(20):
            write(bytes(MIB))
    assert (caught.value.store, caught.value.path) == (s3.url("a.zarr"), "/data")
    gc.collect()
    assert s3.contents("a.zarr") == {}
    assert unfinished(s3) == (["a.zarr/data/c/0"] if is_gone else [])


def test_other_file_systems_are_given_a_value_as_a_whole():
    """A file in memory is there as soon as it is opened, and half of it would stay."""
    keys = open_store("memory://streams/a.zarr")
    assert keys.stream_bytes is None
    with pytest.raises(ZeroDivisionError), streaming(keys, "c/0") as write:
        write(b"1")
        raise ZeroDivisionError
    assert keys.get("c/0") is None
    with streaming(keys, "c/0") as write:
        write(b"1")
        write(b"2")
    assert keys.get("c/0") == b"12"
    delete_keys(keys, ["c/0"])
