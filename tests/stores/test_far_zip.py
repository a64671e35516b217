"""A zip file on a server: how often the server is asked, and what happens where the file is not what it says it is."""

import pickle
import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrDataIO
from hdmf_zarr_backend.errors import LimitError, ReadOnlyStoreError, StoreError
from hdmf_zarr_backend.options import Limits, ReadRules
from hdmf_zarr_backend.store.opening import open_store
from hdmf_zarr_backend.store.zip import NewZipStore
from tests import samples, trees
from tests.places import put, put_all

VALUES = np.random.default_rng(1).integers(0, 2**31, (64, 2**14), dtype="i4")  # 4 MB, which do not compress


def write_zip(path: Path, values: dict[str, bytes]) -> None:
    with closing(NewZipStore(str(path), "/a.zip")) as new:
        put_all(new, values)


def test_a_file_opens_with_two_requests(web, web_proxy, zarr_format):
    samples.write_zarr(web.folder / "a.nwb.zarr.zip", samples.plain_nwbfile(), zarr_format=zarr_format)
    assert samples.read_zarr(f"{web_proxy.url}/a.nwb.zarr.zip").identifier == "plain"
    assert len(web_proxy.requests) == 2  # the size, and the end with the directory and the consolidated document


def test_each_chunk_of_a_slice_is_one_request_and_all_are_asked_for_at_once(web, web_proxy):
    data = trees.dataset("data", ZarrDataIO(VALUES, chunks=(4, 2**14), compressor=False))
    trees.write_builder(web.folder / "a.zarr.zip", trees.root(data))
    data = trees.read_builder(f"{web_proxy.url}/a.zarr.zip").datasets["data"].data
    web_proxy.reset()
    web_proxy.together = ("", 4)
    np.testing.assert_array_equal(data[2:18], VALUES[2:18])
    assert len(web_proxy.requests) == 5
    assert web_proxy.most_busy >= 4
    web_proxy.reset()
    np.testing.assert_array_equal(data[:], VALUES)


def test_ranges_of_a_value(web, web_proxy):
    content = bytes(range(256)) * 4096
    write_zip(web.folder / "a.zip", {"a": content, "b": b"b" * 10, "c": b""})
    with zipfile.ZipFile(web.folder / "a.zip", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("d", content)
    keys = open_store(f"{web_proxy.url}/a.zip")
    ranges = [(5, 10), (-3, None), (100, 100), (2**19, 2**19 + 7), (2**20 - 2, 2**21)]
    for name in ("a", "d"):
        assert keys.get_ranges(name, ranges) == [content[start:stop] for start, stop in ranges]
        assert keys.get(name) == content
    assert keys.get_many(["c", "x", "b"]) == {"c": b"", "b": b"b" * 10}
    assert keys.get_ranges("x", ranges) is None
    web_proxy.reset()
    keys.get_range("a", 0, 10)
    assert len(web_proxy.requests) == 1  # where it begins is known


def test_in_a_bucket_and_in_another_process(s3, tmp_path):
    write_zip(tmp_path / "a.zip", {"a/0": b"12", "a b/ü#?%20": b"odd"})
    put(open_store(s3.url("folder"), s3.options), "a.zip", (tmp_path / "a.zip").read_bytes())
    store = open_store(s3.url("folder/a.zip"), s3.options)
    assert store.get("a b/ü#?%20") == b"odd"
    assert pickle.loads(pickle.dumps(store)).get("a/0") == b"12"
    with pytest.raises(ReadOnlyStoreError):
        put(store, "x", b"")
    assert not open_store(s3.url("folder/b.zip"), s3.options).exists()


def test_a_value_that_is_another_one_is_told(web):
    write_zip(web.folder / "a.zip", {"one": b"a" * 100, "two": b"b" * 100})
    data = bytearray((web.folder / "a.zip").read_bytes())
    data[data.index(b"aaa")] = 0
    data[data.index(b"twobbb") - 30] = 0  # the magic of its header
    (web.folder / "a.zip").write_bytes(bytes(data))
    keys = open_store(f"{web.url}/a.zip")
    with pytest.raises(StoreError, match=r"'one' cannot be read.*CRC"):
        keys.get("one")
    for get in (keys.get, lambda key: keys.get_range(key, 0, 1)):
        with pytest.raises(StoreError, match=r"'two' cannot be read.*header"):
            get("two")


def test_a_value_that_is_too_large_or_of_a_file_that_was_cut_since_is_refused(web):
    write_zip(web.folder / "a.zip", {"a": b"a" * 1000})
    keys = open_store(f"{web.url}/a.zip")
    keys.read_rules = ReadRules(limits=Limits(max_stored_bytes=999))
    with pytest.raises(LimitError, match="max_stored_bytes"):
        keys.get("a")
    write_zip(web.folder / "b.zip", {"a": bytes(2**20), "b": b"b"})
    keys = open_store(f"{web.url}/b.zip")
    assert keys.get("b") == b"b"
    (web.folder / "b.zip").write_bytes(b"x" * 100)
    with pytest.raises(StoreError):
        keys.get("a")
