"""TensorStore itself opens our arrays by the specs that we make, and we read the arrays that it makes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, consolidate
from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats.chunking import chunks_by_elements
from hdmf_zarr_backend.interop import tensorstore_spec
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.stores.opening import open_store
from tests import samples
from tests.documents import dataset_node

ts = pytest.importorskip("tensorstore")


def open_spec(spec: dict[str, Any]) -> Any:
    return ts.open(spec, open=True, read=True).result()


def lazy(path: Path, name: str) -> LazyArray:
    keys = LocalStore(str(path))
    node: Any = parse(keys, use_consolidated=False).hierarchy.get(name)
    return LazyArray(keys, name, node, ChunkCache())


# ---- our arrays ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module", params=[2, 3], ids=["format2", "format3"])
def everything(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ts") / "everything.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=request.param) as io:
        io.write(samples.rich_nwbfile())
    return path


def datasets_of(io: ZarrIO) -> dict[str, LazyArray]:
    found: dict[str, LazyArray] = {}
    stack = [io.read_builder()]
    while stack:
        builder = stack.pop()
        stack.extend(builder.groups.values())
        for child in builder.datasets.values():
            if isinstance(child.data, LazyArray):
                found[child.data.path] = child.data
    return found


def test_every_array_of_numbers_opens_and_the_rest_says_why(everything):
    opened, refused = 0, []
    with NWBZarrIO(everything, "r") as io:
        for path, data in datasets_of(io).items():
            fields = data.dtype.names or (None,)
            for field in fields:
                try:
                    spec = tensorstore_spec(data, field)
                except UsageError as error:
                    refused.append((path, data.dtype, str(error)))
                    continue
                store = open_spec(json.loads(json.dumps(spec)))
                values = np.asarray(data[()]) if field is None else np.asarray(data[field])
                np.testing.assert_array_equal(store.read().result(), values)
                labels = data.node.attributes["_ARRAY_DIMENSIONS"]
                assert list(store.domain.labels)[: len(labels)] == labels
                opened += 1
    assert opened > 20
    for path, dtype, message in refused:
        assert dtype.hasobject, path
        assert "does not have the type" in message


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_tensorstore_writes_and_resizes_what_we_made(tmp_path, zarr_format):
    path = tmp_path / "a.zarr"
    data = ZarrDataIO(np.zeros((10, 2), "i4"), chunks=(5, 2), maxshape=(None, 2))
    with ZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", data)}))
    with ZarrIO(path, "r") as io:
        spec = tensorstore_spec(io.read_builder()["a"].data)
    store = ts.open(spec, open=True, read=True, write=True).result().resize(exclusive_max=[12, 2]).result()
    store[9:12] = np.arange(6, dtype="i4").reshape(3, 2)
    expected = np.zeros((12, 2), "i4")
    expected[9:] = np.arange(6).reshape(3, 2)
    with ZarrIO(path, "r-") as io:  # the consolidated document is stale
        np.testing.assert_array_equal(io.read_builder()["a"].data[()], expected)
    with ZarrIO(path, "r") as io:
        assert io.read_builder()["a"].data.shape == (10, 2)
    consolidate(path)
    with ZarrIO(path, "r") as io:
        data = io.read_builder()["a"].data
        np.testing.assert_array_equal(data[()], expected)
        assert open_spec(tensorstore_spec(data)).shape == (12, 2)


# ---- stores --------------------------------------------------------------------------------------------------------


def small() -> GroupBuilder:
    return GroupBuilder("root", groups={"g": GroupBuilder("g", datasets={"a": DatasetBuilder("a", np.arange(5.0))})})


def test_a_zip_file(tmp_path):
    with ZarrIO(tmp_path / "a.zarr.zip", "w") as io:
        io.write_builder(small())
    with ZarrIO(tmp_path / "a.zarr.zip", "r") as io:
        spec = tensorstore_spec(io.read_builder()["g/a"].data)
    assert spec["kvstore"]["driver"] == "zip"
    np.testing.assert_array_equal(open_spec(spec).read().result(), np.arange(5.0))


def test_a_web_server(tmp_path, web):
    with ZarrIO(web.folder / "a.zarr", "w") as io:
        io.write_builder(small())
    with ZarrIO(f"{web.url}/a.zarr", "r") as io:
        spec = tensorstore_spec(io.read_builder()["g/a"].data)
    assert spec["kvstore"]["driver"] == "http"
    np.testing.assert_array_equal(open_spec(spec).read().result(), np.arange(5.0))


def test_a_bucket(s3, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.options["secret"])
    place = f"s3://{s3.bucket}/a.zarr"
    with ZarrIO(place, "w", storage_options=s3.options) as io:
        io.write_builder(small())
    with ZarrIO(place, "r", storage_options=s3.options) as io:
        spec = tensorstore_spec(io.read_builder()["g/a"].data)
    assert spec["kvstore"]["driver"] == "s3"
    assert s3.options["secret"] not in json.dumps(spec)
    np.testing.assert_array_equal(open_spec(spec).read().result(), np.arange(5.0))


@pytest.mark.parametrize(
    ("location", "options", "expected"),
    [
        ("gs://bucket/folder/a.zarr", {}, {"driver": "gcs", "bucket": "bucket", "path": "folder/a.zarr/g/"}),
        ("s3://bucket/a.zarr", {"anon": True}, {"driver": "s3", "bucket": "bucket", "path": "a.zarr/g/",
                                                "aws_credentials": {"type": "anonymous"}}),
        ("s3://bucket", {"endpoint_url": "http://h:1", "key": "k", "secret": "s"},
         {"driver": "s3", "bucket": "bucket", "path": "g/", "endpoint": "http://h:1", "aws_region": "us-east-1"}),
        ("https://host/a.zarr", {}, {"driver": "http", "base_url": "https://host/a.zarr", "path": "g/"}),
    ],
)  # fmt: skip
def test_urls(location, options, expected):
    keys = open_store(location, options)
    found = tensorstore_spec(LazyArray(keys, "g", dataset_node((4,), (2,), "<i2"), ChunkCache()))["kvstore"]
    assert found == expected
    ts.KvStore.Spec(found)


def test_a_store_in_memory_has_no_spec():
    memory: dict[str, bytes] = {}
    with ZarrIO(memory, "w") as io:
        io.write_builder(small())
    with ZarrIO(memory, "r") as io, pytest.raises(UsageError, match="cannot access this store"):
        tensorstore_spec(io.read_builder()["g/a"].data)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_has_no_spec_is_refused(tmp_path, zarr_format):
    rows = np.zeros(3, [("a", "i4"), ("b", "f8")])
    text = DatasetBuilder("text", ["a", "b"])
    filtered = ZarrDataIO(np.arange(5), filters=[{"id": "delta", "dtype": "<i8"}])
    packed = ZarrDataIO(np.arange(5), compressor={"id": "lz4", "acceleration": 1})
    datasets = {"rows": DatasetBuilder("rows", rows), "text": text, "filtered": DatasetBuilder("filtered", filtered),
                "packed": DatasetBuilder("packed", packed)}  # fmt: skip
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=zarr_format) as io:
        io.write_builder(GroupBuilder("root", datasets=datasets))
    with ZarrIO(tmp_path / "a.zarr", "r") as io:
        found = datasets_of(io)
    for name, field, message in (
        ("rows", None, "a dataset of rows.*Name one of its fields: 'a', 'b'"),
        ("rows", "c", "no field 'c'"),
        ("text", None, "does not have the type"),
        ("filtered", None, r"codec .*delta"),
        ("filtered", "a", "no field 'a'"),
        ("packed", None, r"codec .*lz4"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            tensorstore_spec(found[name], field)
        assert caught.value.path == f"/{name}"
        assert caught.value.remedy
    with pytest.raises(UsageError, match="not a dataset of a Zarr file"):
        tensorstore_spec(np.arange(3))


def test_a_checksum_after_the_compressor_is_one_that_it_knows(tmp_path):
    codecs = {"filters": [{"id": "blosc", "cname": "lz4"}], "compressor": {"id": "crc32c", "location": "end"}}
    data = ZarrDataIO(np.arange(500), chunks=(100,), **codecs)
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=3) as io:
        io.write_builder(GroupBuilder("root", datasets={"a": DatasetBuilder("a", data)}))
    document = json.loads((tmp_path / "a.zarr/a/zarr.json").read_text())
    assert [codec["name"] for codec in document["codecs"]] == ["bytes", "blosc", "crc32c"]
    with ZarrIO(tmp_path / "a.zarr", "r") as io:
        store = open_spec(tensorstore_spec(datasets_of(io)["a"]))
    np.testing.assert_array_equal(store.read().result(), np.arange(500))


# ---- chunks --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("elements", "ratio", "chunks"),
    [(None, None, (101, 101, 101)), (None, (1, 2, 2), (64, 128, 128)), (2_000_000, (1, 2, 2), (79, 159, 159))],
)
def test_chunks_of_the_documentation(elements, ratio, chunks):
    assert chunks_by_elements((1000, 2000, 3000), elements, ratio) == chunks


@settings(max_examples=40)
@given(
    shape=st.lists(st.integers(1, 10_000), min_size=1, max_size=4),
    elements=st.none() | st.integers(1000, 10**6),
    data=st.data(),
)
def test_chunks_are_those_of_tensorstore(shape, elements, data):
    ratio = data.draw(st.none() | st.lists(st.integers(1, 3), min_size=len(shape), max_size=len(shape)))
    chunk: dict[str, Any] = {} if elements is None else {"elements": elements}
    if ratio is not None:
        chunk["aspect_ratio"] = ratio
    schema = {"dtype": "uint16", "domain": {"shape": shape}, "chunk_layout": {"chunk": chunk}}
    store = ts.open({"driver": "zarr", "kvstore": {"driver": "memory"}, "schema": schema}, create=True).result()
    assert tuple(store.chunk_layout.write_chunk.shape) == chunks_by_elements(tuple(shape), elements, ratio)


# ---- its arrays ----------------------------------------------------------------------------------------------------


CODECS = [
    None,
    {"id": "zlib", "level": 3},
    {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2},
    {"id": "bz2", "level": 2},
    {"id": "zstd", "level": 3},
]


def made_by_tensorstore(path: Path, **metadata: Any) -> Any:
    path.mkdir(exist_ok=True)
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    spec = {"driver": "zarr", "kvstore": {"driver": "file", "path": f"{path}/a/"}, "metadata": metadata}
    return ts.open(spec, create=True).result()


@pytest.mark.parametrize("compressor", CODECS, ids=lambda codec: "none" if codec is None else codec["id"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["<i2", ">f8", "|b1"])
def test_arrays_of_tensorstore_are_read(tmp_path, compressor, order, dtype):
    values = (np.arange(70) % 13).reshape(10, 7).astype(dtype)
    store = made_by_tensorstore(
        tmp_path / "a.zarr", shape=[10, 7], chunks=[4, 3], dtype=dtype, compressor=compressor, order=order
    )
    store.write(values).result()
    np.testing.assert_array_equal(lazy(tmp_path / "a.zarr", "a")[()], values)


@pytest.mark.parametrize(("fill", "missing"), [(None, 0), (7, 7)])
def test_chunks_that_are_left_out_and_arrays_that_were_resized(tmp_path, fill, missing):
    store = made_by_tensorstore(tmp_path / "a.zarr", shape=[6], chunks=[4], dtype="<i4", fill_value=fill)
    store[0:2] = [1, 2]
    store = store.resize(exclusive_max=[11]).result()
    store[10] = 5
    expected = np.full(11, missing)
    expected[[0, 1, 10]] = 1, 2, 5
    assert not (tmp_path / "a.zarr/a/1").exists()
    np.testing.assert_array_equal(lazy(tmp_path / "a.zarr", "a")[()], expected)


@pytest.mark.parametrize("dtype", ["int4", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_types_that_only_tensorstore_has_are_one_clear_error(tmp_path, dtype, zarr_format):
    path = tmp_path / "a.zarr"
    if zarr_format == 2:
        made_by_tensorstore(path, shape=[6], chunks=[4], dtype=dtype)
    else:
        path.mkdir()
        (path / "zarr.json").write_text('{"zarr_format": 3, "node_type": "group"}')
        kvstore = {"driver": "file", "path": f"{path}/a/"}
        spec = {"driver": "zarr3", "kvstore": kvstore, "dtype": dtype, "schema": {"domain": {"shape": [6]}}}
        ts.open(spec, create=True).result()
    with pytest.raises(MetadataError, match=f"the data type '{dtype}' is unknown") as caught, ZarrIO(path, "r-") as io:
        io.read_builder()
    assert (caught.value.store, caught.value.path) == (str(path), "/a")
    assert "Convert the array with the program that wrote it" in caught.value.remedy
