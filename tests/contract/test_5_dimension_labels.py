"""The contract: dimension labels, documentation of the schema, maxshape."""

from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder
from hdmf.data_utils import DataChunkIterator
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.options import WriteOptions
from tests import samples
from tests.documents import document
from tests.places import Place
from tests.test_io import read
from tests.trees import dataset, group, read_builder, root, round_trip, write_builder


def labelled(name: str, shape: tuple[int, ...], labels: Any) -> DatasetBuilder:
    return dataset(name, np.zeros(shape), dimension_labels=labels)


def names(path: Place, node: str) -> list[str]:
    stored: list[str] = document(path, f"{node}/.zattrs")["_ARRAY_DIMENSIONS"]
    return stored


@pytest.mark.parametrize(("shape", "labels", "stored"), [
    ((4, 2), ("time", "channel"), ["time", "channel"]), ((4, 2), ("time", None), ["time", "_anonymous2"]),
    ((4, 2), (None, None), ["_anonymous4", "_anonymous2"]), ((4, 4), (None, None), ["_anonymous4", "_anonymous4_4"]),
    ((4, 2), None, ["_anonymous4", "_anonymous2"]), ((3, 5), ("time", "time"), ["time", "time_5"]),
    ((4, 4), ("x", "x"), ["x", "x_4"]), ((2,), ("x,y",), ["x,y"]), ((4, 2), ("time",), ["time", "_anonymous2"]),
])  # fmt: skip
def test_labels_both_ways(folder, shape, labels, stored):
    """The stored names are complete and unique; hdmf's own tuple comes back."""
    path = folder / "file.zarr"
    builder = round_trip(path, root(labelled("it", shape, labels)))["it"]
    assert names(path, "it") == stored
    assert len(set(names(path, "it"))) == len(shape)
    assert builder.dimension_labels == labels
    assert "_ARRAY_DIMENSIONS" not in builder.attributes


def test_one_label_with_two_lengths_in_a_group_also_by_what_an_iterator_grows_to(folder):
    path = folder / "file.zarr"
    members = [
        labelled("a", (4,), ("time",)),
        labelled("b", (4, 3), ("time", "channel")),
        labelled("c", (9,), ("time",)),
        group("apart", labelled("a", (9,), ("time",))),
    ]
    builder = round_trip(path, root(*members))
    assert [names(path, name) for name in "abc"] == [["time"], ["time", "channel"], ["time_9"]]
    assert names(path, "apart/a") == ["time"]
    assert [builder[name].dimension_labels for name in "abc"] == [("time",), ("time", "channel"), ("time",)]
    data = DataChunkIterator(data=iter(np.zeros((5, 2))), buffer_size=2)
    members = [labelled("a", (4,), ("time",)), DatasetBuilder(name="b", data=data, dimension_labels=("time", "x"))]
    builder = round_trip(path, root(*members))
    assert (names(path, "a"), names(path, "b")) == (["time"], ["time_5", "x"])
    assert builder["b"].dimension_labels == ("time", "x")


@pytest.mark.needs("append")
def test_an_array_that_grows_takes_another_name(folder):
    members = [dataset(n, ZarrDataIO(np.zeros(4), maxshape=(None,)), dimension_labels=("time",)) for n in "ab"]
    path = write_builder(folder / "file.zarr", root(*members))
    with ZarrIO(path, "r+") as io:
        io.read_builder()["b"].data.append(np.zeros(3))
    assert (names(path, "a"), names(path, "b")) == (["time"], ["time_7"])
    assert read_builder(path)["b"].dimension_labels == ("time",)


def test_the_labels_of_nwb(rich):
    assert names(rich, "acquisition/trace/data") == ["num_times", "num_DIM2"]
    assert names(rich, "acquisition/raw/data") == ["num_times", "num_channels"]
    assert names(rich, "acquisition/two_photon/data") == ["time", "width", "height"]
    with NWBZarrIO(rich) as io:
        assert io.read_builder()["acquisition/raw/data"].dimension_labels == ("num_times", "num_channels")


@pytest.fixture
def documented(folder: Place) -> Place:
    path = folder / "file.nwb.zarr"
    samples.write_zarr(path, samples.plain_nwbfile(), write_options=WriteOptions(doc=True))
    return path


def test_the_documentation_of_the_schema_on_request(documented):
    """Of each type, and of the groups and datasets without one, as the storage specification's tables have it."""
    with NWBZarrIO(documented) as io:
        catalog = io.manager.namespace_catalog
    series, file = catalog.get_spec("core", "TimeSeries"), catalog.get_spec("core", "NWBFile")
    wanted = {
        "": file.doc,
        "acquisition/trace/": series.doc,
        "acquisition/trace/data/": series.get_dataset("data").doc,
        "acquisition/trace/starting_time/": series.get_dataset("starting_time").doc,
        "acquisition/": file.get_group("acquisition").doc,
        "general/keywords/": file.get_group("general").get_dataset("keywords").doc,
        "session_description/": file.get_dataset("session_description").doc,
    }
    assert len(set(wanted.values())) == len(wanted)
    assert {node: document(documented, f"{node}.zattrs").get("doc") for node in wanted} == wanted


def test_it_is_off_by_default_and_a_users_own_attribute_of_that_name_is_kept(rich, folder):
    attributes = {key: found for key, found in document(rich, ".zmetadata")["metadata"].items() if ".zattrs" in key}
    assert len(attributes) > 100
    assert [key for key, found in attributes.items() if "doc" in found and "specifications" not in key] == []
    found = round_trip(folder / "file.zarr", root(dataset("x", [1], attributes={"doc": "mine"}), doc="ours"))
    assert (found.attributes["doc"], found["x"].attributes["doc"]) == ("ours", "mine")


def test_it_is_hidden_on_reading_and_not_exported_as_an_attribute(documented, tmp_path):
    with NWBZarrIO(documented) as io:
        builder = io.read_builder()
        assert "doc" not in builder.attributes
        for node in ("acquisition", "acquisition/trace", "acquisition/trace/data", "session_description"):
            assert "doc" not in builder[node].attributes, node
        with NWBHDF5IO(str(tmp_path / "file.nwb"), "w") as other:
            other.export(io, write_args={"link_data": False})
    assert read(documented).acquisition["trace"].data.shape == (20, 3)


@pytest.mark.needs("append")
def test_it_stays_through_an_append(documented):
    with samples.edit_zarr(documented) as nwbfile:
        nwbfile.acquisition["trace"].fields["comments"] = "changed"
        nwbfile.acquisition["trace"].set_modified()
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0], unit="m", rate=1.0))
    assert "doc" in document(documented, "acquisition/trace/.zattrs")
    assert "doc" not in document(documented, "acquisition/new/.zattrs")
    with NWBZarrIO(documented) as io:
        trace = io.read_builder()["acquisition/trace"]
        assert (trace.attributes["comments"], "doc" in trace.attributes) == ("changed", False)


def test_the_maxshape_of_a_builder_an_option_and_an_iterator(folder):
    values = np.zeros((4, 2))
    members = [
        dataset("builder", values, maxshape=(None, 2)),
        dataset("option", ZarrDataIO(values, maxshape=(8, None))),
        dataset("iterator", DataChunkIterator(data=iter(values), maxshape=(None, 2), dtype=np.dtype("f8"))),
        dataset("list", [1.0, 2.0], "float64", maxshape=(None,)),
        dataset("text", ["a"], "utf8", maxshape=(None,)),
        dataset("nothing", values),
    ]
    builder = round_trip(folder / "file.zarr", root(*members))
    wanted = {"builder": (None, 2), "option": (8, None), "iterator": (None, 2), "list": (None,), "text": (None,)}
    wanted["nothing"] = (4, 2)
    for name, maxshape in wanted.items():
        assert (builder[name].maxshape, builder[name].data.maxshape) == (maxshape, maxshape), name


def test_the_maxshape_of_the_schema_which_an_export_from_hdf5_keeps(rich, folder, tmp_path):
    """Columns of tables can grow, as in files of NWBHDF5IO."""
    samples.write_hdf5(tmp_path / "file.nwb")
    with NWBHDF5IO(str(tmp_path / "file.nwb"), "r") as one, NWBZarrIO(rich) as other:
        for path in ("units/spike_times", "units/id", "units/waveform_mean", "units/quality", "acquisition/raw/data"):
            assert other.read_builder()[path].data.maxshape == one.read_builder()[path].data.maxshape, path
    with NWBHDF5IO(str(tmp_path / "file.nwb"), "r") as source, NWBZarrIO(folder / "file.zarr", "w") as io:
        io.export(source)
        expected = source.read_builder()["units/spike_times"].data.maxshape
    with NWBZarrIO(folder / "file.zarr") as io:
        assert io.read_builder()["units/spike_times"].data.maxshape == expected == (None,)


@pytest.mark.needs("append")
def test_the_maxshape_survives_appending(folder):
    path = write_builder(folder / "file.zarr", root(dataset("it", ZarrDataIO(np.zeros(4), maxshape=(6,)))))
    for _ in range(2):
        with ZarrIO(path, "r+") as io:
            io.read_builder()["it"].data.append([1.0])
    data = read_builder(path)["it"].data
    assert (data.shape, data.maxshape) == ((6,), (6,))
    with ZarrIO(path, "r+") as io, pytest.raises(ValueError, match="largest"):
        io.read_builder()["it"].data.append([1.0])
