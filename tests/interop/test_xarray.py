"""Datasets as arrays of dask and xarray, and whole files as trees."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from tests import samples
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
    with ZarrIO(tmp_path / "a.zarr", "w", zarr_format=request.param) as io:
        io.write_builder(GroupBuilder("root", groups={"target": target}, datasets=datasets))
    return tmp_path / "a.zarr"


def test_a_dataset_as_a_dask_array(path):
    with ZarrIO(path, "r") as io:
        data = io.read_builder()["a"].data
    array = data.to_dask()
    assert (array.shape, array.dtype, array.chunksize) == ((50, 4), np.dtype("i2"), (20, 4))
    assert array[10:30, 1].sum().compute(scheduler="synchronous") == data[10:30, 1].sum()
    np.testing.assert_array_equal(array.compute(scheduler="threads"), data[()])
    assert data.to_dask(chunks=(40, 4)).chunksize == (40, 4)


def test_blocks_are_read_only_when_they_are_needed(path, monkeypatch):
    from hdmf_zarr_backend.arrays.chunks import ChunkReader

    with ZarrIO(path, "r") as io:
        data = io.read_builder()["a"].data
    asked = []
    read = ChunkReader.read
    monkeypatch.setattr(ChunkReader, "read", lambda self, key: asked.append(key) or read(self, key))
    array = data.to_dask()[:20]
    assert asked == []
    array.compute(scheduler="synchronous")
    assert len(asked) == 1


def test_text_and_rows_as_dask_arrays(path):
    with ZarrIO(path, "r") as io:
        root = io.read_builder()
    assert root["text"].data.to_dask().compute(scheduler="synchronous").tolist() == ["x", "y"]
    np.testing.assert_array_equal(root["rows"].data.to_dask().compute(scheduler="synchronous"), root["rows"].data[()])


def test_a_dataset_as_an_xarray(path):
    with ZarrIO(path, "r") as io:
        data = io.read_builder()["a"].data
    array = data.to_xarray()
    assert (array.dims, array.name, array.dtype) == (("time", "channel"), "a", np.dtype("i2"))
    assert array.attrs["unit"] == "V"
    assert array.attrs["gain"] == np.float32(0.5)
    assert array.attrs["gain"].dtype == np.dtype("f4")
    assert array.attrs["where"] == "/target"
    assert array.attrs["n"].tolist() == [1, 2]
    assert not {name for name in array.attrs if name.startswith(("_", "zarr_"))}
    np.testing.assert_array_equal(array.isel(time=slice(3, 25)).mean("channel").values, data[3:25].mean(axis=1))


def test_it_works_in_other_processes(path):
    with ZarrIO(path, "r") as io:
        data = io.read_builder()["a"].data
    array = pickle.loads(pickle.dumps(data.to_dask()))
    assert array.sum().compute(scheduler="synchronous") == data[()].sum()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_xarray_opens_a_whole_file(tmp_path, zarr_format):
    nwbfile = samples.plain_nwbfile()
    path = tmp_path / "a.nwb.zarr"
    with NWBZarrIO(path, "w", zarr_format=zarr_format) as io:
        io.write(nwbfile)
    with NWBZarrIO(path, "r") as io:
        expected = {}
        stack = [io.read_builder()]
        while stack:
            builder = stack.pop()
            stack.extend(builder.groups.values())
            expected |= {
                child.data.name: child.data for child in builder.datasets.values() if hasattr(child.data, "to_xarray")
            }
        tree = xarray.open_datatree(path, engine="zarr", chunks=None)
        for name, data in expected.items():
            found = tree[name]
            assert list(found.dims) == list(data.to_xarray().dims), name
            values = np.asarray(data[()])
            if values.dtype == object:  # ASCII text is bytes to HDMF
                values = np.array([v.decode() if isinstance(v, bytes) else v for v in values.flat]).reshape(
                    values.shape
                )
            np.testing.assert_array_equal(np.asarray(found.values), values.astype(found.dtype))
    assert len(expected) >= 2


@needs_zarr_3
def test_the_store_of_a_dataset_is_that_of_zarr(path):
    """As hdmf-zarr has it, whose users look at the path of the store."""
    with ZarrIO(path, "r") as io:
        data = io.read_builder()["a"].data
    assert str(path) in str(getattr(data.store, "root", None) or data.store.path)
