"""Datasets as arrays of dask and xarray, and whole files as trees."""

import json
import pickle
import shutil
from datetime import UTC, datetime

import numpy as np
import pytest
from hdmf.build import ReferenceBuilder

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO
from hdmf_zarr_backend import convert as convert_file
from hdmf_zarr_backend.errors import ChunkError, MetadataError, NotZarrError, UsageError
from hdmf_zarr_backend.interop import to_dask, to_datatree, to_xarray
from tests.documents import forget_consolidated
from tests.samples import write_hdf5, write_zarr
from tests.trees import dataset, group, read_builder, root, write_builder
from tests.zarrs import needs_zarr_3

pynwb = pytest.importorskip("pynwb")
dask = pytest.importorskip("dask")
xarray = pytest.importorskip("xarray")


@pytest.fixture(params=[2, 3], ids=["format2", "format3"])
def path(request, tmp_path):
    target, data = group("target"), ZarrDataIO(np.arange(200, dtype="i2").reshape(50, 4), chunks=(20, 4))
    attributes = {"unit": "V", "gain": np.float32(0.5), "where": ReferenceBuilder(target), "n": np.array([1, 2], "u1")}
    a = dataset("a", data, attributes=attributes, dimension_labels=("time", "channel"))
    rows = dataset("rows", np.zeros(3, [("p", "i4"), ("q", "f8")]))
    tree = root(target, a, dataset("text", ["x", "y"]), rows)
    return write_builder(tmp_path / "a.zarr", tree, zarr_format=request.param)


def test_datasets_as_dask_arrays(path):
    data = read_builder(path)["a"].data
    array = data.to_dask()
    assert (array.shape, array.dtype, array.chunksize) == ((50, 4), np.dtype("i2"), (20, 4))
    sent = pickle.loads(pickle.dumps(array))  # as to another process
    assert sent[10:30, 1].sum().compute(scheduler="synchronous") == data[10:30, 1].sum()
    np.testing.assert_array_equal(array.compute(scheduler="threads"), data[()])
    assert data.to_dask(chunks=(40, 4)).chunksize == (40, 4)
    root = read_builder(path)
    assert root["text"].data.to_dask().compute(scheduler="synchronous").tolist() == ["x", "y"]
    np.testing.assert_array_equal(root["rows"].data.to_dask().compute(scheduler="synchronous"), root["rows"].data[()])


def test_only_the_blocks_that_are_needed_are_read(path):
    for chunk in ("a/1.0", "a/c/1/0"):
        if (path / chunk).exists():
            (path / chunk).write_bytes(b"damaged")
    array = read_builder(path)["a"].data.to_dask()
    assert array[:20].compute(scheduler="synchronous")[19].tolist() == [76, 77, 78, 79]
    with pytest.raises(ChunkError):
        array.compute(scheduler="synchronous")


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
    assert read_builder(path)["text"].data.to_xarray().dims == ("text_dim_0",)
    assert to_datatree(path)["text"].dims == ("text_dim_0",)


def test_axes_keep_their_names_beside_one_without():
    data = dataset("a", np.zeros((2, 3)), dimension_labels=("time", "channel"))
    store = write_builder({}, root(data), zarr_format=3)
    document = json.loads(store["a/zarr.json"])
    document["dimension_names"][1] = None
    del document["attributes"]["_ARRAY_DIMENSIONS"]  # as other programs write it
    store["a/zarr.json"] = json.dumps(document).encode()
    forget_consolidated(store)
    assert read_builder(store)["a"].data.to_xarray().dims == ("time", "a_dim_1")


def test_the_columns_of_a_table_share_the_axis_of_its_rows(tmp_path):
    nwbfile = _nwbfile()
    nwbfile.add_trial_column("a_label", "text")
    for start in (1.0, 2.0, 3.0):
        nwbfile.add_trial(start_time=start, stop_time=start + 1, a_label="b")
        nwbfile.add_unit(spike_times=[start] * 3, waveform_mean=[1.0, 2.0])
    tree = to_datatree(write_zarr(tmp_path / "a.nwb.zarr", nwbfile))
    trials, units = tree["intervals/trials"].to_dataset(), tree["units"].to_dataset()
    assert {variable.dims for variable in trials.values()} == {("num_rows",)}
    assert trials.where(trials["start_time"] > 1, drop=True)["stop_time"].values.tolist() == [3.0, 4.0]
    assert units["waveform_mean"].dims[0] == units["spike_times_index"].dims[0] == units["id"].dims[0] == "num_rows"
    assert "num_rows" not in units["spike_times"].dims


@pytest.mark.parametrize("convert", [to_dask, to_xarray])
def test_what_is_no_dataset_of_a_zarr_file_is_refused_with_what_to_do(convert, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file, pytest.raises(UsageError, match="Convert an HDF5 file first"):
        convert(file.create_dataset("a", data=[1, 2]))


@needs_zarr_3
def test_the_store_of_a_dataset_is_that_of_zarr(path):
    """As hdmf-zarr has it, whose users look at the path of the store."""
    data = read_builder(path)["a"].data
    assert str(path) in str(getattr(data.store, "root", None) or data.store.path)


# ---- time series, and whole files ------------------------------------------------------------------------------------

VALUES = np.arange(5000 * 4, dtype="i2").reshape(5000, 4)
TIMES = np.cumsum(np.linspace(0.01, 0.2, 100))


def _nwbfile():
    start = datetime(2026, 3, 14, tzinfo=UTC)
    return pynwb.NWBFile(session_description="text", identifier="id", session_start_time=start)


def _series(name, data, **times):
    return pynwb.TimeSeries(name=name, data=data, unit="V", **times)


@pytest.fixture(params=[2, 3], ids=["format2", "format3"])
def session(request, tmp_path):
    nwbfile = _nwbfile()
    group = nwbfile.create_electrode_group(
        name="g", description="text", location="CA1", device=nwbfile.create_device(name="d")
    )
    for row in range(6):
        nwbfile.add_electrode(id=10 + row, x=float(row), location=("CA1", "CA3")[row % 2], group=group)
    rows = nwbfile.create_electrode_table_region(region=[2, 5, 4, 0], description="text")
    lfp = pynwb.ecephys.ElectricalSeries(
        name="lfp", description="LFP of CA1", data=ZarrDataIO(VALUES, chunks=(1000, 4)), electrodes=rows, rate=1000.0,
        starting_time=0.5, conversion=1e-6, offset=0.5, channel_conversion=[1.0, 2.0, 3.0, 4.0],
    )  # fmt: skip
    speed = _series("speed", ZarrDataIO(np.arange(100.0), chunks=(30,)), timestamps=TIMES)
    for series in (lfp, speed, _series("angle", np.ones((100, 2)), timestamps=speed)):
        nwbfile.add_acquisition(series)
    nwbfile.add_trial(start_time=0.0, stop_time=1.0, timeseries=[lfp])
    for unit in range(3):
        nwbfile.add_unit(spike_times=np.arange(4.0 + unit))
    return write_zarr(tmp_path / "session.nwb.zarr", nwbfile, zarr_format=request.param)


def _data(io, name="lfp"):
    return io.read().acquisition[name].data


def test_data_of_a_series_have_times_and_electrodes_and_on_request_the_unit(session):
    with NWBZarrIO(session, "r") as io:
        data = _data(io).to_xarray()
    assert data.dims == ("time", "electrode")
    assert (data.attrs["unit"], data.attrs["conversion"], data.attrs["description"]) == ("volts", 1e-6, "LFP of CA1")
    np.testing.assert_allclose(data.time, 0.5 + np.arange(5000) / 1000)
    np.testing.assert_array_equal(data.sel(time=slice(1, 2)), VALUES[500:1501])  # both ends, as elsewhere in xarray
    np.testing.assert_array_equal(data.isel(time=slice(10, 4000)).sel(time=slice(None, 1)), VALUES[10:501])
    assert data.sel(time=slice(9, None)).sizes["time"] == data.sel(time=slice(None, 0)).sizes["time"] == 0
    np.testing.assert_array_equal(data.sel(time=1.0002, method="nearest"), VALUES[500])
    assert data.electrode.values.tolist() == [12, 15, 14, 10]
    np.testing.assert_array_equal(data.sel(electrode=[10, 12]), VALUES[:, [3, 0]])
    assert data.isel(electrode=[1, 3]).sel(electrode=10).x == 0.0
    means = data.groupby("location").mean()
    np.testing.assert_array_equal(means.sel(location="CA3"), VALUES[:, 1])
    sent = pickle.loads(pickle.dumps(data))
    assert sent.sel(time=slice(1, 2), electrode=15).sum() == VALUES[500:1501, 1].sum()
    assert (data + sent).sizes == data.sizes
    with NWBZarrIO(session, "r") as io:
        data = _data(io).to_xarray(scaled=True)
    np.testing.assert_allclose(data, VALUES * 1e-6 * np.arange(1, 5) + 0.5)
    assert (data.attrs["conversion"], data.attrs["offset"], data.dims) == (1.0, 0.0, ("time", "electrode"))


@pytest.mark.parametrize("name", ["speed", "angle"], ids=["own timestamps", "linked timestamps"])
def test_timestamps_are_labels(session, name):
    with NWBZarrIO(session, "r") as io:
        data = _data(io, name).to_xarray()
    inside = (TIMES >= 1) & (TIMES <= 2)
    np.testing.assert_array_equal(data.sel(time=slice(1, 2)).time, TIMES[inside])
    np.testing.assert_array_equal(data.isel(time=slice(5, 20)).sel(time=TIMES[7]), data[7])
    assert (data + data).sizes == data.sizes


@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.LengthWarning")  # one that shares the timestamps stays
def test_what_is_changed_and_not_written_yet_is_labelled(session):
    with NWBZarrIO(session, "r+") as io:
        series = io.read().acquisition["speed"]
        series.data.append([7.0])
        assert "time" not in series.data.to_xarray().coords  # one more than there are timestamps
        series.timestamps.append([99.0])
        assert series.data.to_xarray().sel(time=99.0) == 7.0


def test_a_file_is_a_tree(session):
    tree = to_datatree(session)
    part = tree["acquisition/lfp"].sel(time=slice(1, 2))
    np.testing.assert_array_equal(part["data"], VALUES[500:1501])
    assert part["location"].values.tolist() == ["CA1", "CA3", "CA1", "CA1"]
    everything = tree.sel(time=slice(1, 2))
    assert everything["acquisition/angle"].sizes["time"] == np.sum((TIMES >= 1) & (TIMES <= 2))
    np.testing.assert_array_equal(everything["acquisition/angle/data"], 1.0)
    assert tree["session_description"].item() == "text"
    assert tree["general/extracellular_ephys/g"].attrs["device"] == "/general/devices/d"
    assert tree["units/spike_times_index"].values.tolist() == [4, 9, 15]
    assert tree["units/spike_times"].sizes != tree["units/id"].sizes
    assert "timeseries" not in tree["intervals/trials"]  # rows of references
    assert "specifications" not in tree
    np.testing.assert_allclose(
        to_datatree(session, scaled=True)["acquisition/lfp/data"][:, 1], VALUES[:, 1] * 2e-6 + 0.5
    )


@pytest.mark.parametrize(("times", "inside"), [
    ([0.5, 1.2, 3.0, 1.8, 2.0, 0.1], [1, 3, 4]), ([0.5, 1.2, 1.2, 1.9, 2.5, 3.0], [1, 2, 3]),
    ([3.0, 2.5, 1.9, 1.2, 1.0, 0.5], [2, 3, 4]), ([0.5, np.nan, 1.2, 1.9, np.nan, 0.2], [2, 3]), ([], []),
], ids=["out of order", "repeated", "falling", "not numbers", "none"])  # fmt: skip
def test_all_series_are_selected_whatever_times_one_has(times, inside):
    store: dict[str, bytes] = {}
    nwbfile = _nwbfile()
    nwbfile.add_acquisition(_series("odd", np.arange(float(len(times))), timestamps=np.array(times)))
    nwbfile.add_acquisition(_series("even", np.arange(40.0), rate=10.0))
    write_zarr(store, nwbfile)
    tree = to_datatree(store)
    part = tree.sel(time=slice(1, 2))
    assert part["acquisition/even/data"].values.tolist() == list(range(10, 21))
    assert part["acquisition/odd/data"].values.tolist() == inside
    assert tree.sel(time=slice(None, 3))["acquisition/even"].sizes["time"] == 31
    nearest = tree.sel(time=1.21, method="nearest")
    assert nearest["acquisition/even/data"] == 12
    if times:
        assert nearest["acquisition/odd/data"] == times.index(1.2)
        events = xarray.DataArray([1.21, 0.4], dims="event", name="time")
        assert tree["acquisition/odd/data"].sel(time=events, method="nearest").dims == ("event",)


def test_a_column_has_the_name_of_a_dataset(session):
    with NWBZarrIO(session, "r+") as io:
        nwbfile = io.read()
        nwbfile.electrodes.add_column(name="data", description="text", data=np.arange(6))
        io.write(nwbfile)
        assert _data(io).to_xarray().coords["data"].values.tolist() == [2, 5, 4, 0]
    np.testing.assert_array_equal(to_datatree(session)["acquisition/lfp/data"], VALUES)


def test_an_hdf5_file_is_a_tree_after_a_virtual_conversion(tmp_path):
    path = write_hdf5(tmp_path / "a.nwb")
    with pytest.raises(NotZarrError, match=r"HDF5 file.*--to virtual"):
        to_datatree(path)
    convert_file(path, tmp_path / "a.nwb.zarr.json", to="virtual")
    tree = to_datatree(tmp_path / "a.nwb.zarr.json")
    assert tree["acquisition/raw"].sel(time=slice(0.001, 0.002))["data"].dims == ("time", "electrode")


def test_linked_data_have_the_unit_of_their_target():
    store: dict[str, bytes] = {}
    nwbfile, own = _nwbfile(), _series("own", np.arange(10.0), rate=1.0, conversion=0.5)
    nwbfile.add_acquisition(own)
    nwbfile.add_acquisition(pynwb.TimeSeries(name="linked", data=own, unit="ignored", rate=2.0))
    write_zarr(store, nwbfile)
    data = to_datatree(store, scaled=True)["acquisition/linked/data"]
    assert (data.attrs["unit"], data[9].item(), data.time[9].item()) == ("V", 4.5, 4.5)


@pytest.mark.parametrize(("stated", "factor"), [([2.0], 2.0), ("x", None), ([1.0, 2.0], None)])
def test_a_conversion_that_is_a_list_or_not_a_number(stated, factor):
    store: dict[str, bytes] = {}
    write_builder(store, root(dataset("data", np.arange(3.0), attributes={"conversion": stated})))
    if factor is None:
        with pytest.raises(MetadataError, match=r"'conversion' is .*not a number \(/data\)"):
            to_datatree(store, scaled=True)
    else:
        assert to_datatree(store, scaled=True)["data"].values.tolist() == [0, factor, 2 * factor]


def test_a_tree_needs_no_values(session):
    """But those that are in the consolidated document, which opens the file, such as the start of a series."""
    for folder in ("acquisition", "general/extracellular_ephys/electrodes", "units"):
        for chunk in (each for each in (session / folder).rglob("[0-9]*") if each.is_file()):
            chunk.write_bytes(b"damaged")
    tree = to_datatree(session)
    assert "acquisition" in str(tree)
    assert tree._repr_html_()
    assert tree["acquisition/lfp"].sel(time=slice(1, 2)).sizes["time"] == 1001
    with pytest.raises(ChunkError):
        tree["acquisition/speed"].sel(time=slice(1, 2))


def test_a_long_series_costs_no_memory():
    store: dict[str, bytes] = {}
    nwbfile = _nwbfile()
    data = ZarrDataIO(np.zeros(3 * 10**6, "i1"), chunks=(10**6,))
    nwbfile.add_acquisition(_series("long", data, rate=30_000.0))
    write_zarr(store, nwbfile)
    for key in ("acquisition/long/data/.zarray", ".zmetadata"):
        store[key] = store[key].replace(b"3000000", b"3000000000")
    part = to_datatree(store)["acquisition/long"].sel(time=slice(50_000, 50_001))
    assert part.sizes["time"] == 30_001
    np.testing.assert_allclose(part["time"].values[[0, -1]], [50_000, 50_001], rtol=1e-12)


def test_a_broken_link_is_left_out_of_a_tree(session, tmp_path):
    with NWBZarrIO(session, "r") as io, NWBZarrIO(tmp_path / "other.zarr", "w") as out:
        nwbfile = _nwbfile()
        nwbfile.add_acquisition(_series("s", _data(io, "angle"), timestamps=io.read().acquisition["speed"].timestamps))
        out.write(nwbfile)
    assert to_datatree(tmp_path / "other.zarr")["acquisition/s"].sel(time=slice(1, 2)).sizes["time"] > 3
    shutil.rmtree(session)
    with pytest.warns(UserWarning, match=r"/acquisition/s/(data|timestamps) is left out: .*session"):
        assert "data" not in to_datatree(tmp_path / "other.zarr")["acquisition/s"]


def test_an_array_is_not_a_tree(tmp_path):
    zarr = pytest.importorskip("zarr")
    zarr.save_array(str(tmp_path / "a.zarr"), np.zeros(3))
    with pytest.raises(NotZarrError, match="array"):
        to_datatree(tmp_path / "a.zarr")
