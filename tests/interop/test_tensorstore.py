"""TensorStore itself opens our arrays by the specs that we make, and we read the arrays that it makes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pynwb import H5DataIO, TimeSeries

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, consolidate, convert
from hdmf_zarr_backend.array.chunks import ChunkCache
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding.layout import chunks_by_elements
from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.interop import tensorstore_spec
from hdmf_zarr_backend.model.nodes import Dataset, StoredArray
from hdmf_zarr_backend.store.opening import open_store
from tests import samples
from tests.interop.exchange import arrays_in
from tests.trees import dataset, group, read_builder, root, write_builder

ts = pytest.importorskip("tensorstore")


def open_spec(spec: dict[str, Any]) -> Any:
    return ts.open(json.loads(json.dumps(spec)), open=True, read=True).result()


def assert_opens(data: Any, values: Any) -> None:
    np.testing.assert_array_equal(data[()], values)
    np.testing.assert_array_equal(open_spec(tensorstore_spec(data)).read().result(), values)


# ---- our arrays ----------------------------------------------------------------------------------------------------

PIPELINES: dict[str, dict[str, Any]] = {
    "plain": {}, "gzip": {"compression": "gzip", "compression_opts": 4},
    "shuffled": {"compression": "gzip", "shuffle": True}, "summed": {"compression": "gzip", "fletcher32": True},
}  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    nwbfile = samples.rich_nwbfile()
    numbers = (np.arange(1_200_000) % 1999).astype("i2").reshape(-1, 4)
    for name, pipeline in PIPELINES.items():
        data = H5DataIO(numbers, chunks=(10_000, 4), **pipeline)
        nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="V", rate=1.0))
    return samples.write_hdf5(tmp_path_factory.mktemp("recorded") / "a.nwb", nwbfile)


@pytest.mark.parametrize("name", ["keep", "blosc", "zstd", "zlib", "none"])
def test_converted_files_open_or_are_refused(recorded, tmp_path, name, zarr_format):
    convert(recorded, tmp_path / "a.nwb.zarr", codec=name, zarr_format=zarr_format)
    opened, refused = set(), {}
    for location, data in arrays_in(tmp_path / "a.nwb.zarr").items():
        for field in data.dtype.names or (None,):
            try:
                store = open_spec(tensorstore_spec(data, field))
            except ValueError:
                refused[location] = data
                break
            values = np.asarray(data[()]) if field is None else np.asarray(data[field])
            np.testing.assert_array_equal(store.read().result(), values, err_msg=location)
            labels = data.node.attributes.get("_ARRAY_DIMENSIONS", [])
            assert list(store.domain.labels)[: len(labels)] == labels
            opened.add(location)
    assert len(opened) > 20
    expected = set()
    if name == "keep":  # a chunk of HDF5 is not decoded, and format 3 has another frame for what is deflated
        closed = [series for series in ("gzip", "shuffled", "summed") if (series, zarr_format) != ("gzip", 2)]
        expected = {f"acquisition/{series}/data" for series in closed}
    assert {location for location, data in refused.items() if not data.dtype.hasobject} == expected


def test_tensorstore_writes_and_resizes_what_we_made(tmp_path, zarr_format):
    data = ZarrDataIO(np.zeros((10, 2), "i4"), chunks=(5, 2), maxshape=(None, 2))
    path = write_builder(tmp_path / "a.zarr", root(dataset("a", data)), zarr_format=zarr_format)
    spec = tensorstore_spec(read_builder(path)["a"].data)
    store = ts.open(spec, open=True, read=True, write=True).result().resize(exclusive_max=[12, 2]).result()
    store[9:12] = np.arange(6, dtype="i4").reshape(3, 2)
    expected = np.zeros((12, 2), "i4")
    expected[9:] = np.arange(6).reshape(3, 2)
    np.testing.assert_array_equal(read_builder(path, "r-")["a"].data[()], expected)
    assert read_builder(path)["a"].data.shape == (10, 2)
    consolidate(path)
    assert_opens(read_builder(path)["a"].data, expected)


@pytest.mark.parametrize(
    ("asked", "level"), [({"id": "zlib"}, 1), ({"id": "zlib", "level": 4}, 4), ({"id": "zlib", "level": -1}, 6)]
)
def test_new_arrays_of_format_3_are_deflated_in_the_frame_that_others_read(tmp_path, asked, level):
    data = ZarrDataIO(np.arange(500) % 7, chunks=(100,), compressor=asked)
    path = write_builder(tmp_path / "a.zarr", root(dataset("a", data)), zarr_format=3)
    codecs = json.loads((path / "a/zarr.json").read_text())["codecs"]
    assert codecs[-1] == {"name": "gzip", "configuration": {"level": level}}
    assert_opens(arrays_in(path)["a"], np.arange(500) % 7)


def test_stored_chunks_keep_their_frame_and_a_checksum_after_the_compressor_is_one_that_it_knows(tmp_path):
    data = ZarrDataIO(np.arange(500) % 7, chunks=(100,), compressor={"id": "zlib", "level": 4})
    write_builder(tmp_path / "2.zarr", root(dataset("a", data)))
    convert(tmp_path / "2.zarr", tmp_path / "3.zarr", zarr_format=3)
    codecs = json.loads((tmp_path / "3.zarr/a/zarr.json").read_text())["codecs"]
    assert codecs[-1] == {"name": "numcodecs.zlib", "configuration": {"level": 4}}
    assert (tmp_path / "3.zarr/a/c/0").read_bytes() == (tmp_path / "2.zarr/a/0").read_bytes()
    np.testing.assert_array_equal(arrays_in(tmp_path / "3.zarr")["a"][()], np.arange(500) % 7)
    codecs = {"filters": [{"id": "blosc", "cname": "lz4"}], "compressor": {"id": "crc32c", "location": "end"}}
    data = ZarrDataIO(np.arange(500), chunks=(100,), **codecs)
    path = write_builder(tmp_path / "a.zarr", root(dataset("a", data)), zarr_format=3)
    names = [codec["name"] for codec in json.loads((path / "a/zarr.json").read_text())["codecs"]]
    assert names == ["bytes", "blosc", "crc32c"]
    assert_opens(arrays_in(path)["a"], np.arange(500))


def test_what_has_no_spec_is_refused(tmp_path, zarr_format):
    rows = dataset("rows", np.zeros(3, [("a", "i4"), ("b", "f8")]))
    tree = root(rows, dataset("numbers", np.arange(5)))
    result = arrays_in(write_builder(tmp_path / "a.zarr", tree, zarr_format=zarr_format))
    for name, field, message in (
        ("rows", None, "a dataset of rows.*Name one of its fields: 'a', 'b'"),
        ("rows", "c", "no field 'c'"),
        ("numbers", "a", "no field 'a'"),
    ):
        with pytest.raises(UsageError, match=message) as caught:
            tensorstore_spec(result[name], field)
        assert caught.value.path == f"/{name}"
        assert caught.value.remedy
    with pytest.raises(UsageError, match="not a dataset of a Zarr file"):
        tensorstore_spec(np.arange(3))
    data = read_builder(write_builder({}, small()))["g/a"].data
    with pytest.raises(UsageError, match="cannot access this store"):
        tensorstore_spec(data)


# ---- stores --------------------------------------------------------------------------------------------------------
def small() -> GroupBuilder:
    return root(group("g", dataset("a", np.arange(5.0))))


def test_stores_that_it_reads(tmp_path, web, s3, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.options["key"])
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.options["secret"])
    bucket = f"s3://{s3.bucket}/a.zarr"
    for driver, target, source, options in (
        ("zip", tmp_path / "a.zarr.zip", tmp_path / "a.zarr.zip", None),
        ("http", web.folder / "a.zarr", f"{web.url}/a.zarr", None),
        ("s3", bucket, bucket, s3.options),
    ):
        write_builder(target, small(), storage_options=options)
        spec = tensorstore_spec(read_builder(source, storage_options=options)["g/a"].data)
        assert spec["kvstore"]["driver"] == driver
        assert s3.options["secret"] not in json.dumps(spec)
        np.testing.assert_array_equal(open_spec(spec).read().result(), np.arange(5.0))


@pytest.mark.parametrize(("location", "options", "expected"), [
    ("gs://bucket/folder/a.zarr", {}, {"driver": "gcs", "bucket": "bucket", "path": "folder/a.zarr/g/"}),
    ("s3://bucket/a.zarr", {"anon": True}, {"driver": "s3", "bucket": "bucket", "path": "a.zarr/g/",
                                            "aws_credentials": {"type": "anonymous"}}),
    ("s3://bucket", {"endpoint_url": "http://h:1", "key": "k", "secret": "s"},
     {"driver": "s3", "bucket": "bucket", "path": "g/", "endpoint": "http://h:1", "aws_region": "us-east-1"}),
    ("https://host/a.zarr", {}, {"driver": "http", "base_url": "https://host/a.zarr", "path": "g/"}),
])  # fmt: skip
def test_urls(location, options, expected):
    store, node = open_store(location, options), Dataset(StoredArray((4,), (2,), "<i2", None), {})
    result = tensorstore_spec(LazyArray(store, "g", node, ChunkCache()))["kvstore"]
    assert result == expected
    ts.KvStore.Spec(result)


# ---- chunks --------------------------------------------------------------------------------------------------------
@settings(max_examples=40)
@given(
    shape=st.lists(st.integers(1, 10_000), min_size=1, max_size=4),
    elements=st.none() | st.integers(1000, 10**6),
    ratio=st.none() | st.lists(st.integers(1, 3), min_size=4, max_size=4),
)
@example([1000, 2000, 3000], None, None)  # those of its documentation
@example([1000, 2000, 3000], None, [1, 2, 2])
@example([1000, 2000, 3000], 2_000_000, [1, 2, 2])
def test_chunks_are_those_of_tensorstore(shape, elements, ratio):
    ratio = ratio and ratio[: len(shape)]
    chunk: dict[str, Any] = {} if elements is None else {"elements": elements}
    if ratio is not None:
        chunk["aspect_ratio"] = ratio
    schema = {"dtype": "uint16", "domain": {"shape": shape}, "chunk_layout": {"chunk": chunk}}
    store = ts.open({"driver": "zarr", "kvstore": {"driver": "memory"}, "schema": schema}, create=True).result()
    assert tuple(store.chunk_layout.write_chunk.shape) == chunks_by_elements(tuple(shape), elements, ratio)


# ---- its arrays ----------------------------------------------------------------------------------------------------
CODECS = [
    None, {"id": "zlib", "level": 3}, {"id": "blosc", "cname": "zstd", "clevel": 3, "shuffle": 2},
    {"id": "bz2", "level": 2}, {"id": "zstd", "level": 3},
]  # fmt: skip


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
    form = {"shape": [10, 7], "chunks": [4, 3], "dtype": dtype, "compressor": compressor, "order": order}
    store = made_by_tensorstore(tmp_path / "a.zarr", **form)
    store.write(values).result()
    np.testing.assert_array_equal(arrays_in(tmp_path / "a.zarr")["a"][()], values)


@pytest.mark.parametrize(("fill", "missing"), [(None, 0), (7, 7)])
def test_chunks_that_are_left_out_and_arrays_that_were_resized(tmp_path, fill, missing):
    store = made_by_tensorstore(tmp_path / "a.zarr", shape=[6], chunks=[4], dtype="<i4", fill_value=fill)
    store[0:2] = [1, 2]
    store = store.resize(exclusive_max=[11]).result()
    store[10] = 5
    expected = np.full(11, missing)
    expected[[0, 1, 10]] = 1, 2, 5
    assert not (tmp_path / "a.zarr/a/1").exists()
    np.testing.assert_array_equal(arrays_in(tmp_path / "a.zarr")["a"][()], expected)


@pytest.mark.parametrize("dtype", ["int4", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
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
