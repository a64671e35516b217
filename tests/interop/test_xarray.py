"""Datasets as arrays of dask and xarray, and whole files as trees."""

import json
import pickle

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import ChunkError
from tests.trees import read_builder, write_builder
from tests.zarrs import needs_zarr_3

dask = pytest.importorskip("dask")
xarray = pytest.importorskip("xarray")


@pytest.fixture(params=[2, 3], ids=["format2", "format3"])
def path(request, tmp_path):
    target = GroupBuilder("target")
    data = ZarrDataIO(np.arange(200, dtype="i2").reshape(50, 4), chunks=(20, 4))
    attributes = {"unit": "V", "gain": np.float32(0.5), "where": ReferenceBuilder(target), "n": np.array([1, 2], "u1")}
    datasets = {
        "a": DatasetBuilder("a", data, attributes=attributes, dimension_labels=("time", "channel")),
        "text": DatasetBuilder("text", ["x", "y"]),
        "rows": DatasetBuilder("rows", np.zeros(3, [("p", "i4"), ("q", "f8")])),
    }
    write_builder(
        tmp_path / "a.zarr",
        GroupBuilder("root", groups={"target": target}, datasets=datasets),
        zarr_format=request.param,
    )
    return tmp_path / "a.zarr"


def test_a_dataset_as_a_dask_array(path):
    data = read_builder(path)["a"].data
    array = data.to_dask()
    assert (array.shape, array.dtype, array.chunksize) == ((50, 4), np.dtype("i2"), (20, 4))
    sent = pickle.loads(pickle.dumps(array))  # as to another process
    assert sent[10:30, 1].sum().compute(scheduler="synchronous") == data[10:30, 1].sum()
    np.testing.assert_array_equal(array.compute(scheduler="threads"), data[()])
    assert data.to_dask(chunks=(40, 4)).chunksize == (40, 4)


def test_only_the_blocks_that_are_needed_are_read(path):
    for chunk in ("a/1.0", "a/c/1/0"):
        if (path / chunk).exists():
            (path / chunk).write_bytes(b"damaged")
    array = read_builder(path)["a"].data.to_dask()
    assert array[:20].compute(scheduler="synchronous")[19].tolist() == [76, 77, 78, 79]
    with pytest.raises(ChunkError):
        array.compute(scheduler="synchronous")


def test_text_and_rows_as_dask_arrays(path):
    root = read_builder(path)
    assert root["text"].data.to_dask().compute(scheduler="synchronous").tolist() == ["x", "y"]
    np.testing.assert_array_equal(root["rows"].data.to_dask().compute(scheduler="synchronous"), root["rows"].data[()])


def test_a_dataset_as_an_xarray(path):
    data = read_builder(path)["a"].data
    array = data.to_xarray()
    assert (array.dims, array.name, array.dtype) == (("time", "channel"), "a", np.dtype("i2"))
    assert array.attrs["unit"] == "V"
    assert array.attrs["gain"] == np.float32(0.5)
    assert array.attrs["gain"].dtype == np.dtype("f4")
    assert array.attrs["where"] == "/target"
    assert array.attrs["n"].tolist() == [1, 2]
    assert not {name for name in array.attrs if name.startswith(("_", "zarr_"))}
    np.testing.assert_array_equal(array.isel(time=slice(3, 25)).mean("channel").values, data[3:25].mean(axis=1))


def test_axes_keep_their_names_beside_one_without():
    store: dict[str, bytes] = {}
    with ZarrIO(store, "w", zarr_format=3) as io:
        data = DatasetBuilder("a", np.zeros((2, 3)), dimension_labels=("time", "channel"))
        io.write_builder(GroupBuilder("root", datasets={"a": data}))
    document = json.loads(store["a/zarr.json"])
    document["dimension_names"][1] = None
    del document["attributes"]["_ARRAY_DIMENSIONS"]  # as other programs write it
    store["a/zarr.json"] = json.dumps(document).encode()
    root = json.loads(store["zarr.json"])
    del root["consolidated_metadata"]
    store["zarr.json"] = json.dumps(root).encode()
    assert read_builder(store)["a"].data.to_xarray().dims == ("time", "dim_1")


@needs_zarr_3
def test_the_store_of_a_dataset_is_that_of_zarr(path):
    """As hdmf-zarr has it, whose users look at the path of the store."""
    data = read_builder(path)["a"].data
    assert str(path) in str(getattr(data.store, "root", None) or data.store.path)
