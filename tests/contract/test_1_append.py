"""The contract: append and modify."""

from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.build import GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.common import DynamicTable, VectorData, VectorIndex
from pynwb import NWBHDF5IO, TimeSeries, validate

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.array import edits
from hdmf_zarr_backend.errors import ConflictError, StoreError
from hdmf_zarr_backend.options import WriteOptions
from tests import samples
from tests.documents import change_attributes, document, is_consolidated, is_fresh
from tests.places import Place, contents
from tests.test_io import read
from tests.trees import dataset, edit_builder, group, read_builder, root, write_builder

APPEND = pytest.mark.needs("append")


def valid(path: Place) -> bool:
    with NWBZarrIO(path) as io:
        return validate(io=io) == []


# ---- read, change, write -----------------------------------------------------------------------------------------
@APPEND
def test_links_are_added(plain, folder):
    """Inside the file, to stored data, to containers, and to another file."""
    other = samples.write_zarr(folder / "other.nwb.zarr", samples.plain_nwbfile("other"))
    with NWBZarrIO(plain, "r+") as io, NWBZarrIO(other) as source:
        nwbfile = io.read()
        trace = nwbfile.acquisition["trace"]
        nwbfile.add_acquisition(TimeSeries(name="same data", data=trace.data, unit="m", rate=1.0))
        clock = TimeSeries(name="clock", data=[1.0, 2.0], unit="m", timestamps=[0.0, 1.0])
        nwbfile.add_acquisition(clock)
        nwbfile.add_acquisition(TimeSeries(name="same clock", data=[3.0, 4.0], unit="m", timestamps=clock))
        far = source.read().acquisition["trace"].data
        nwbfile.add_acquisition(TimeSeries(name="far data", data=far, unit="m", rate=1.0))
        io.write(nwbfile)
    links = {name: document(plain, f"acquisition/{name}/.zattrs")["zarr_link"][0] for name in ("same data", "far data")}
    assert (links["same data"]["source"], links["same data"]["path"]) == (".", "/acquisition/trace/data")
    assert (links["far data"]["source"], links["far data"]["path"]) == (f"../{other.name}", "/acquisition/trace/data")
    acquisition = read(plain).acquisition
    for name in ("same data", "far data"):
        assert acquisition[name].data[1].tolist() == [3, 4, 5]
    assert acquisition["same clock"].timestamps[:].tolist() == [0.0, 1.0]
    assert is_fresh(plain)


@APPEND
def test_a_link_is_added_to_a_group_that_had_some(folder):
    path = write_builder(folder / "file.zarr", samples.reference_tree())
    with edit_builder(path) as builder:
        inner = group("inner")
        builder.set_group(inner)
        builder.set_link(LinkBuilder(builder=builder["target"], name="second"))
        inner.set_link(LinkBuilder(builder=builder, name="up"))
    builder = read_builder(path)
    assert builder.links["link_in_the_root"].builder is builder["target/values"]
    assert builder.links["second"].builder is builder["target"]
    assert builder["inner"].links["up"].builder is builder


# ---- tables that were read -----------------------------------------------------------------------------------------
@APPEND
def test_rows_of_every_column(folder):
    """Numbers, text, bools, ragged and doubly ragged columns, references, and references to rows of other tables."""
    rich = samples.write_zarr(folder / "rich.nwb.zarr")
    with samples.edit_zarr(rich) as nwbfile:
        shank = nwbfile.electrode_groups["shank1"]
        nwbfile.add_electrode(group=shank, location="CA3", x=1.0, y=2.0, z=3.0, label="new", good=True)
        nwbfile.add_unit(
            id=7, spike_times=[0.5], obs_intervals=[[0.0, 2.0], [3.0, 4.0]], electrodes=[4, 0],
            waveform_mean=np.ones((6, 3)), electrode_group=shank, quality="new", tags=["x", "y"],
        )  # fmt: skip
        nwbfile.add_trial(
            start_time=9.0, stop_time=9.5, stimulus="new", licks=[[1.0], [], [2.0, 3.0]], tags=["t"],
            timeseries=[nwbfile.acquisition["raw"], nwbfile.acquisition["trace"]],
        )  # fmt: skip
        table = nwbfile.processing["tables"]["references"]
        table.add_row(objects=nwbfile.acquisition["raw"], id=3)
    nwbfile = read(rich)
    assert nwbfile.electrodes["group"][4] is nwbfile.electrode_groups["shank1"]
    assert (nwbfile.electrodes["label"][4], bool(nwbfile.electrodes["good"][4])) == ("new", True)
    assert nwbfile.units["obs_intervals"][5].tolist() == [[0.0, 2.0], [3.0, 4.0]]
    assert nwbfile.units["electrodes"][5].index.tolist() == [4, 0]
    assert list(nwbfile.units["tags"][5]) == ["x", "y"]
    assert [list(licks) for licks in nwbfile.trials["licks"][4]] == [[1.0], [], [2.0, 3.0]]
    pieces = [piece.timeseries for piece in nwbfile.trials["timeseries"][4]]
    assert pieces == [nwbfile.acquisition["raw"], nwbfile.acquisition["trace"]]
    objects = nwbfile.processing["tables"]["references"]["objects"]
    assert objects[3] is nwbfile.acquisition["raw"]
    assert objects[0] is nwbfile.acquisition["trace"]
    assert nwbfile.units["spike_times"][4].size == 12
    assert valid(rich)
    assert is_fresh(rich)


@APPEND
def test_columns_are_added(folder):
    nwbfile = samples.plain_nwbfile()
    for row in range(4):
        nwbfile.add_trial(start_time=float(row), stop_time=row + 0.5)
    path = samples.write_zarr(folder / "file.nwb.zarr", nwbfile)
    with samples.edit_zarr(path) as nwbfile:
        trials = nwbfile.trials
        trials.add_column(name="score", description="numbers", data=[1.0, 2.0, 3.0, 4.0])
        trials.add_column(name="words", description="ragged text", data=["a", "b", "c"], index=[0, 1, 1, 3])
        references = [nwbfile.acquisition["trace"]] * 4
        trials.add_column(name="object", description="references", data=references)
    nwbfile = read(path)
    trials = nwbfile.trials
    assert trials.colnames[-3:] == ("score", "words", "object")
    assert trials["score"][:].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert [list(words) for words in trials["words"][:]] == [[], ["a"], [], ["b", "c"]]
    assert trials["object"][2] is nwbfile.acquisition["trace"]
    assert list(trials.to_dataframe()["score"]) == [1.0, 2.0, 3.0, 4.0]
    assert valid(path)


@APPEND
@pytest.mark.parametrize(
    ("rows", "length", "dtype"), [(3, 100, "uint16"), pytest.param(2, 40_000, "uint32", marks=pytest.mark.slow)]
)
def test_an_index_grows_beyond_its_type(folder, rows, length, dtype):
    """The smallest unsigned integer was enough for the rows that there were (HDF5IO gives up here)."""
    values = VectorData(name="values", description="numbers", data=[0.5])
    index = VectorIndex(name="values_index", target=values, data=[0, 1])
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_acquisition(DynamicTable(name="table", description="ragged", columns=[values, index], id=[0, 1]))
    path = samples.write_zarr(folder / "file.zarr", nwbfile)
    assert document(path, "acquisition/table/values_index/.zarray")["dtype"] == "|u1"
    with NWBZarrIO(path, "r+") as io:
        table = io.read().acquisition["table"]
        for row in range(rows):
            table.add_row(values=np.full(length, float(row)), id=2 + row)
        assert table["values"][1].tolist() == [0.5]
        assert table["values"][rows + 1].tolist() == [rows - 1.0] * length
    for mode in ("r", "r-"):
        table = read(path, mode).acquisition["table"]
        assert table["values_index"].data.dtype == dtype
        assert table["values_index"].data[:].tolist() == [0, 1, *(1 + length * (n + 1) for n in range(rows))]
        assert table["values"][rows].tolist() == [rows - 2.0] * length
    with ZarrIO(path) as io:
        assert io._file["acquisition/table/values_index"].dtype == dtype  # as zarr itself sees it
    assert document(path, "acquisition/table/values_index/.zattrs")["zarr_dtype"] == dtype
    assert valid(path)
    assert is_fresh(path)


@APPEND
def test_a_table_of_two_rows_gets_larger_chunks(folder):
    """Its columns were stored in chunks of two rows, and a chunk is a file, or a request."""
    nwbfile = samples.plain_nwbfile()
    target = TimeSeries(name="target", data=[1.0], unit="m", rate=1.0)
    values = {"number": [0.5, 1.5], "word": ["a", "b"], "object": [target, target]}
    columns = [VectorData(name=name, description="of two rows", data=data) for name, data in values.items()]
    nwbfile.add_acquisition(target)
    nwbfile.add_acquisition(DynamicTable(name="table", description="short", columns=columns, id=[0, 1]))
    path = samples.write_zarr(folder / "file.zarr", nwbfile)
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        table = nwbfile.acquisition["table"]
        for row in range(100):
            table.add_row(id=2 + row, number=float(row), word=f"word {row}", object=nwbfile.acquisition["target"])
        assert table["word"][:].tolist() == ["a", "b", *(f"word {row}" for row in range(100))]
    for mode in ("r", "r-"):
        nwbfile = read(path, mode)
        table = nwbfile.acquisition["table"]
        assert table["number"][:].tolist() == [0.5, 1.5, *map(float, range(100))]
        assert table["word"][:].tolist() == ["a", "b", *(f"word {row}" for row in range(100))]
        assert table["object"][101] is nwbfile.acquisition["target"]
        with ZarrIO(path, mode) as io:
            stored = io._file["acquisition/table"]
            assert all(stored[name].nchunks == 1 for name in ("id", "number", "word", "object"))
    assert valid(path)
    assert is_fresh(path)


@APPEND
@pytest.mark.parametrize("length", [2, 20])
def test_an_earlier_reader_gets_an_error_once_an_array_has_larger_chunks(folder, length):
    """Of the chunks that it knows most are gone, and would read as zeros."""
    path = folder / "file.zarr"
    data = ZarrDataIO(np.arange(1, 1 + length), chunks=(2,), maxshape=(None,))
    write_builder(path, root(dataset("data", data)))
    with ZarrIO(path, "r") as early, ZarrIO(path, "a") as io:
        old = early.read_builder()["data"].data
        io.read_builder()["data"].data.append(np.arange(100))
        assert old[:].tolist() == list(range(1, 1 + length))
        io.close()
        with pytest.raises(StoreError, match="was given other chunks while it was open"):
            old[length - 1]
        with pytest.raises(StoreError, match="was given other chunks while it was open"):
            old[:]
    assert read_builder(path)["data"].data[length - 1] == length


@APPEND
@pytest.mark.parametrize("zarr_format", [2, 3, "both"])
@pytest.mark.parametrize("what", ["removed or renamed", "made smaller"])
def test_an_earlier_reader_gets_an_error_where_chunks_are_gone(folder, what, zarr_format):
    """They would read as zeros."""
    path = folder / "file.zarr"
    data = [dataset(name, ZarrDataIO(np.arange(1, 101), chunks=(2,), maxshape=(None,))) for name in ("a", "b", "c")]
    write_builder(path, root(*data), zarr_format=zarr_format)
    with ZarrIO(path, "r") as early:
        old = [early.read_builder()[name].data for name in ("a", "b")]
        with ZarrIO(path, "r+") as io:
            if what == "made smaller":
                for name in ("a", "b"):
                    io.read_builder()[name].data.resize((11,))
            else:
                io.rename("/a", "d")
                io.remove("/b")
        for values in old:
            for read in (lambda values=values: values[50], lambda values=values: values[:]):
                with pytest.raises(StoreError, match=f"the array was {what} while it was open .*Open the file again"):
                    read()


@APPEND
def test_an_earlier_reader_gets_no_wrong_reference(folder, monkeypatch):
    """One reference is read without its chunk, and the second chunk holds others now."""
    monkeypatch.setattr(edits, "MOST_BYTES", 2**10)
    monkeypatch.setattr(edits, "LEAST_BYTES", 2**10)
    path = folder / "file.zarr"
    targets = [dataset(f"target{number}", [number]) for number in range(100)]
    references = ZarrDataIO([ReferenceBuilder(target) for target in targets[:4]], chunks=(2,), maxshape=(None,))
    write_builder(path, root(*targets, dataset("references", references, dtype="object")))
    with ZarrIO(path, "r") as early:
        old = early.read_builder()["references"].data
        with ZarrIO(path, "a") as io:
            builder = io.read_builder()
            for number in range(4, 100):
                builder["references"].data.append(builder[f"target{number}"])
        with pytest.raises(StoreError, match="was given other chunks while it was open"):
            old[3]
    references = read_builder(path)["references"].data
    assert [references[number].name for number in (3, 99)] == ["target3", "target99"]


@APPEND
def test_a_builder_in_a_column_of_references_is_what_the_column_has(folder):
    """Before it is written too, for builders and containers."""
    path = samples.write_zarr(folder / "file.nwb.zarr")
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        builders = io.read_builder()["general/extracellular_ephys/electrodes/group"].data
        containers, (shank, *_) = nwbfile.electrodes["group"].data, nwbfile.electrode_groups.values()
        for given in (shank, io.manager.get_builder(shank), ReferenceBuilder(io.manager.get_builder(shank))):
            builders[0] = given
            assert builders[0] is io.manager.get_builder(shank)
            containers[0] = given
            assert containers[0] is shank


@APPEND
@pytest.mark.parametrize("mode", ["r+", "a"])
def test_a_ragged_column_of_references_grows(folder, mode):
    """As in a SweepTable: each row refers to several objects, and new objects may be among them."""
    nwbfile = samples.plain_nwbfile()
    objects = VectorData(name="objects", description="series", data=[nwbfile.acquisition["trace"]] * 3)
    index = VectorIndex(name="objects_index", target=objects, data=[1, 3])
    nwbfile.add_scratch(DynamicTable(name="table", description="ragged", columns=[objects, index], id=[0, 1]))
    path = samples.write_zarr(folder / "file.zarr", nwbfile)
    with samples.edit_zarr(path, mode) as nwbfile:
        table, trace = nwbfile.scratch["table"], nwbfile.acquisition["trace"]
        table.add_row(objects=[trace], id=2)
        new = TimeSeries(name="new", data=[1.0], unit="m", rate=1.0)
        nwbfile.add_acquisition(new)
        table.add_row(objects=[new, trace], id=3)
        table.add_row(objects=[], id=4)
    for reading in ("r", "r-"):
        column = read(path, reading).scratch["table"]["objects"]
        names = [[series.name for series in column[row]] for row in range(5)]
        assert names == [["trace"], ["trace", "trace"], ["trace"], ["new", "trace"], []]
    assert valid(path)
    assert is_fresh(path)


@APPEND
def test_rows_that_had_a_fixed_shape_in_hdf5_grow_like_all_columns(folder, tmp_path):
    """A dataset that cannot grow in HDF5 has no bound but its shape; with rows too, which have an axis more here."""
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_epoch(0.0, 1.0, timeseries=[nwbfile.acquisition["trace"]])
    source, path = tmp_path / "file.nwb", folder / "file.zarr"
    with NWBHDF5IO(source, "w") as io:
        io.write(nwbfile, expandable=[])
    convert(source, path)
    assert "maxshape" not in document(path, "intervals/epochs/timeseries/.zattrs")["_hdmf"]
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_epoch(1.0, 2.0, timeseries=[nwbfile.acquisition["trace"]] * 2)
    nwbfile = read(path)
    assert [len(row) for row in nwbfile.epochs["timeseries"]] == [1, 2]
    assert nwbfile.epochs["timeseries"][1][1].timeseries is nwbfile.acquisition["trace"]
    assert valid(path)
    convert(path, tmp_path / "again.nwb")
    with h5py.File(tmp_path / "again.nwb") as file:
        assert file["intervals/epochs/timeseries"].shape == file["intervals/epochs/timeseries"].maxshape == (3,)


# ---- the consolidated document -------------------------------------------------------------------------------------
@APPEND
def test_the_consolidated_document_is_removed_where_it_is_not_wanted_and_stays_away(plain):
    with samples.edit_zarr(plain, write_options=WriteOptions(consolidate_metadata=False)) as nwbfile:
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0], unit="m", rate=1.0))
    assert not is_consolidated(plain)
    with NWBZarrIO(plain, "r+") as io:
        io.read().acquisition["trace"].data.append(np.zeros((1, 3), "i2"))
    assert not is_consolidated(plain)
    acquisition = read(plain).acquisition
    assert (sorted(acquisition), acquisition["trace"].data.shape) == (["new", "trace"], (21, 3))


@APPEND
def test_values_in_the_consolidated_document_are_true_too(folder):
    """Scalars travel inside it; one that was changed in place must not come back as it was."""
    path = write_builder(folder / "file.zarr", root(dataset("x", np.arange(3), attributes={"data_type": "VectorData"})))
    with ZarrIO(path, "r+") as io:
        io.read_builder()["x"].data[1] = 9
    for mode in ("r", "r-"):
        assert read_builder(path, mode)["x"].data[:].tolist() == [0, 9, 2]


# ---- attributes of existing objects --------------------------------------------------------------------------------
@APPEND
def test_attributes_of_groups_and_datasets_change(folder):
    first = root(group("g", dataset("x", np.arange(4), attributes={"unit": "m", "n": np.uint8(3)}), a=1), version="1")
    path = write_builder(folder / "file.zarr", first)
    with edit_builder(path) as builder:
        builder.attributes["version"] = "2"
        builder["g"].set_attribute("new", np.float32(1.5))
        builder["g/x"].attributes["unit"] = "s"
    builder = read_builder(path)
    assert (builder.attributes["version"], builder["g"].attributes["a"]) == ("2", 1)
    assert builder["g"].attributes["new"].dtype == np.float32
    attributes = builder["g/x"].attributes
    assert (attributes["unit"], attributes["n"], attributes["n"].dtype) == ("s", 3, np.uint8)
    assert builder["g/x"].data[:].tolist() == [0, 1, 2, 3]
    assert is_fresh(path)


@APPEND
def test_attributes_of_other_programs_stay_when_one_changes(folder):
    path = write_builder(folder / "file.zarr", root(dataset("x", np.arange(4), attributes={"own": 1})))
    others = {"empty": None, "_NCProperties": "version=2", "_nczarr_array": {"dimrefs": ["/x"]}}
    change_attributes(path, "x", lambda attributes: attributes.update(others))
    with edit_builder(path) as builder:
        builder["x"].attributes["own"] = 2
    assert document(path, "x/.zattrs").items() >= {**others, "own": 2}.items()


@APPEND
def test_an_attribute_of_a_dataset_that_grows_changes_too(folder):
    labels = {"dimension_labels": ("time",)}
    growing = dataset("x", ZarrDataIO(np.arange(4), maxshape=(None,)), attributes={"unit": "m"}, **labels)
    path = write_builder(folder / "file.zarr", root(growing, dataset("y", np.arange(4), **labels)))
    with edit_builder(path) as builder:
        builder["x"].attributes["unit"] = "s"
        builder["x"].data.append([4])
    found = read_builder(path)["x"]
    assert (found.attributes["unit"], found.data[:].tolist()) == ("s", [0, 1, 2, 3, 4])
    assert (found.dimension_labels, found.maxshape) == (("time",), (None,))
    assert document(path, "x/.zattrs")["_ARRAY_DIMENSIONS"] == ["time_5"]  # "time" is 4 long beside it
    assert is_fresh(path)
    # of a file of another program, in which a name has two lengths
    change_attributes(path, "x", lambda attributes: attributes.update(_ARRAY_DIMENSIONS=["time"]))
    with ZarrIO(path, "r+") as io:
        io.read_builder()["x"].data[0] = 7
    assert document(path, "x/.zattrs")["_ARRAY_DIMENSIONS"] == ["time"]


# ---- a new path, and conflicts -------------------------------------------------------------------------------------
@APPEND
@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not read"])
@pytest.mark.parametrize(("there", "wanted", "shown"), [
    ("plain", "another", ["'plain'", "'another'"]),
    (3, 4, ["3", "4"]),
    (np.arange(4), np.array([0, 1, 2, 7]), ["[0, 1, 2, 3]", "[0, 1, 2, 7]"]),
    (np.arange(9), np.arange(3), ["[0, 1, 2, 3, 4, ...] of shape (9,)", "[0, 1, 2] of shape (3,)"]),
    (["a", "b"], ["a", "c"], ["['a', 'b']", "['a', 'c']"]),
], ids=["text", "number", "array", "length", "texts"])  # fmt: skip
def test_a_conflict_names_both_values(folder, there, wanted, shown, is_read):
    path = write_builder(folder / "file.zarr", root(dataset("x", there), dataset("other", 1)))
    before = contents(path)
    with ZarrIO(path, "r+") as io:
        if is_read:
            io.read_builder()
        with pytest.raises(ConflictError) as caught:
            io.write_builder(root(dataset("x", wanted), dataset("new", 1)))
    assert (caught.value.store, caught.value.path) == (str(path), "/x")
    for value in shown:
        assert value in str(caught.value)
    assert contents(path) == before


@APPEND
@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not read"])
def test_the_same_values_are_not_a_conflict(folder, is_read):
    def tree(*more: Any) -> GroupBuilder:
        wrapped = ZarrDataIO(np.array([1.0, np.nan]))
        return root(dataset("x", np.arange(4)), dataset("t", ["a", "b"], "utf8"), dataset("n", wrapped), *more)

    path = write_builder(folder / "file.zarr", tree(dataset("kept", 5)))
    with ZarrIO(path, "r+") as io:
        if is_read:
            io.read_builder()
        io.write_builder(tree(dataset("new", 6)))
        if not is_read:
            assert sorted(io.read_builder().datasets) == ["kept", "n", "new", "t", "x"]
    assert sorted(read_builder(path).datasets) == ["kept", "n", "new", "t", "x"]
    assert is_fresh(path)


@APPEND
def test_a_group_in_the_place_of_an_array_is_a_conflict(folder):
    path = write_builder(folder / "file.zarr", root(dataset("x", np.arange(3)), group("g")))
    for wanted, named in ((root(group("x")), "/x"), (root(dataset("g", 1)), "/g")):
        with ZarrIO(path, "r+") as io, pytest.raises(ConflictError, match="group") as caught:
            io.write_builder(wanted)
        assert caught.value.path == named
