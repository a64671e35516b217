"""What users of HDF5IO expect of a backend, where the suites of pynwb, hdmf and hdmf-zarr once found it missing."""

import copy
import re
import warnings

import h5py
import numpy as np
import pytest
import zarr
from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.hdf5 import HDF5IO, H5DataIO
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from hdmf.common import DynamicTable, SimpleMultiContainer, VectorData, get_manager
from hdmf.container import Container
from hdmf.data_utils import DataChunk, DataChunkIterator, InvalidDataIOError
from pynwb.file import LabMetaData
from pynwb.testing.mock.file import mock_NWBFile

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import ConflictError, UsageError, ValueRefusedError
from tests import samples
from tests.blocks import Blocks
from tests.documents import document
from tests.places import contents, keys_of
from tests.smallfiles import write_container
from tests.trees import write_builder

APPEND = pytest.mark.needs("append")


def write(path, *datasets, mode="w", **options):
    with ZarrIO(path, mode) as io:
        io.write_builder(GroupBuilder("root", datasets=list(datasets)), **options)


def read(path):
    return ZarrIO(path, "r").read_builder()


@pytest.mark.parametrize(
    ("blocks", "maxshape", "recommended", "expected"),
    [
        ([(np.s_[0:1, :], [[1, 2]]), (np.s_[1:2, :], [[3, 4]])], (None, None), None, [[1, 2], [3, 4]]),
        ([(np.s_[0:1], [[1, 2]]), (1, [3, 4])], (None, 2), (1, 1), [[1, 2], [3, 4]]),
        ([(np.s_[..., 1:], [[5], [6]])], (None, 2), (0, 0), [[0, 5], [0, 6]]),
        ([((0, slice(None)), [1, 2])], (None, None), None, [[1, 2]]),
        ([(np.s_[0:1], [7])], (4,), (4,), [7, 0, 0, 0]),
        ([(np.s_[0:1], [7])], (4,), (9,), [7, 0, 0, 0]),
        ([(np.s_[0:1], [7])], (None,), (9, 9), [7]),
    ],
    ids=["open axes", "missing axes", "ellipsis", "an integer", "recommended length", "too long", "of another rank"],
)
def test_blocks_whose_selection_does_not_say_all_lengths(folder, blocks, maxshape, recommended, expected):
    chunks = [DataChunk(np.asarray(data, "i4"), selection) for selection, data in blocks]
    write(folder / "a.zarr", DatasetBuilder("d", Blocks(chunks, maxshape, data_shape=recommended)))
    assert read(folder / "a.zarr")["d"].data[...].tolist() == expected


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_iterator_gives_what_it_gives_to_hdf5(folder, tmp_path, axis):
    array = np.arange(30).reshape(5, 2, 3)
    for cls, path in ((ZarrIO, folder / "a.zarr"), (HDF5IO, tmp_path / "a.h5")):
        iterator = DataChunkIterator(data=array, iter_axis=axis, buffer_size=2)
        with cls(str(path), mode="w") as io:
            io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("d", iterator)]))
        with cls(str(path), mode="r") as io:
            data = io.read_builder()["d"].data
            assert (data.shape, data.maxshape) == ((5, 2, 3), (5, 2, 3))
            assert data[...].tolist() == array.tolist()


# ---- ZarrDataIO --------------------------------------------------------------------------------------------------
def test_a_column_of_a_wrapped_list_is_written(folder):
    data = ZarrDataIO([1, 2, 3], chunks=True, maxshape=(None,))
    table = DynamicTable(name="t", description="t", columns=[VectorData(name="x", description="x", data=data)])
    write_container(folder / "t.zarr", table)
    with ZarrIO(folder / "t.zarr", "r", get_manager()) as io:
        column = io.read()["x"].data
        assert column[:].tolist() == [1, 2, 3]
        assert column.maxshape == (None,)


@pytest.mark.parametrize(("options", "chunks"), [
    ({"chunk_elements": 100}, (10, 10)),
    ({"chunk_aspect_ratio": (4, 1)}, (400, 20)),
    ({"chunk_elements": 400, "chunk_aspect_ratio": [4, 1]}, (40, 10)),
])  # fmt: skip
def test_chunks_are_chosen_as_tensorstore_does(folder, options, chunks):
    rows = (np.zeros(20, "i2") for _ in range(400))
    iterator = DataChunkIterator(rows, maxshape=(400, 20), dtype=np.dtype("i2"))
    wrapped = ZarrDataIO(np.zeros((400, 20), "i2"), **options)
    assert copy.copy(wrapped).get_io_params() == wrapped.get_io_params()
    write(folder / "a.zarr", DatasetBuilder("a", wrapped), DatasetBuilder("b", ZarrDataIO(iterator, **options)))
    assert [read(folder / "a.zarr")[name].data.chunks for name in "ab"] == [chunks, chunks]


def test_a_ratio_of_other_axes_is_refused_before_the_write(folder):
    builder = DatasetBuilder("a", ZarrDataIO(np.zeros((4, 4)), chunk_aspect_ratio=(1, 2, 3)))
    with pytest.raises(UsageError, match="does not fit 2 axes"):
        write(folder / "a.zarr", builder)


@APPEND
def test_an_array_that_is_filled_while_the_file_is_open(folder):
    numbers = ZarrDataIO(shape=(4, 2), dtype="f4", fillvalue=-1, maxshape=(None, 2))
    words = ZarrDataIO(shape=(2,), dtype=str, fillvalue="n/a")
    with ZarrIO(folder / "a.zarr", "w") as io:
        datasets = [DatasetBuilder("numbers", numbers), DatasetBuilder("words", words)]
        io.write_builder(GroupBuilder("root", datasets=datasets))
        assert numbers.dataset[...].tolist() == [[-1, -1]] * 4
        numbers.dataset[1:3] = [[1, 2], [3, 4]]
        numbers.dataset.append([[5, 6]])
        words.dataset[1] = "set later"
    nwbfile = read(folder / "a.zarr")
    assert nwbfile["numbers"].data[...].tolist() == [[-1, -1], [1, 2], [3, 4], [-1, -1], [5, 6]]
    assert nwbfile["numbers"].data.fill_value == -1
    assert nwbfile["words"].data[...].tolist() == ["n/a", "set later"]
    with pytest.raises(UsageError, match="belongs to another file"):
        write(folder / "b.zarr", DatasetBuilder("numbers", numbers))
    assert not (folder / "b.zarr").exists()


def test_settings_that_do_not_fit():
    with pytest.raises(ValueError, match="dtype"):
        ZarrDataIO(shape=(3,))
    with pytest.warns(UserWarning, match="a list is not a stored array"):
        assert not ZarrDataIO([1], link_data=True).link_data
    with pytest.raises(NotImplementedError, match="only once"):
        np.asarray(ZarrDataIO(DataChunkIterator(data=[1.0, 2.0])))
    with pytest.raises(InvalidDataIOError):
        np.asarray(ZarrDataIO(shape=(3,), dtype=int))


# ---- H5DataIO ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["zarr", "hdf5"])
def test_settings_of_hdf5_are_used_or_reported(folder, tmp_path, backend, cell):
    values = np.arange(40, dtype="i2").reshape(10, 4)
    settings = {"chunks": (5, 2), "maxshape": (None, 4), "fillvalue": -1}
    filters = {"compression": "gzip", "compression_opts": 4, "shuffle": True, "fletcher32": True}
    if backend == "hdf5":  # hdmf itself warns that they have no effect on a dataset of HDF5
        with h5py.File(tmp_path / "a.h5", "w") as file, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = file.create_dataset("x", data=values, chunks=(10, 4), maxshape=(10, None))
            write(folder / "a.zarr", DatasetBuilder("x", H5DataIO(data, **settings, **filters)))
    else:
        unused = r"/x: filters of HDF5 are ignored \(compression, compression_opts, shuffle, fletcher32 of H5DataIO\)"
        with pytest.warns(UserWarning, match=rf"{re.escape(str(folder / 'a.zarr'))}.*{unused}"):
            write(folder / "a.zarr", DatasetBuilder("x", H5DataIO(values, **settings, **filters)))
        write(folder / "b.zarr", DatasetBuilder("x", H5DataIO(values, **settings)))  # nothing to report
    data = read(folder / "a.zarr")["x"].data
    # HDF5 defines no other fill value than zero, which format 3 has for all arrays and format 2 leaves out
    unset = 0 if cell.zarr_format == 3 else None
    expected = ((10, 4), (10, None), unset) if backend == "hdf5" else ((5, 2), (None, 4), -1)
    assert (data.chunks, data.maxshape, data.fill_value) == expected
    assert np.array_equal(data[:], values)


def test_settings_of_hdf5_around_what_was_read_from_zarr(folder):
    write(folder / "a.zarr", DatasetBuilder("x", ZarrDataIO(np.arange(20), chunks=(20,))))
    wrapped = H5DataIO(read(folder / "a.zarr")["x"].data, chunks=(7,))
    write(folder / "b.zarr", DatasetBuilder("x", wrapped), link_data=False)
    data = read(folder / "b.zarr")["x"].data
    assert (data.chunks, data[:].tolist()) == ((7,), list(range(20)))


def test_no_file_for_each_row_and_settings_that_stay_as_they_are(folder):
    rows = (np.arange(4) for _ in range(4000))
    iterator = DataChunkIterator(data=rows, buffer_size=1, dtype=np.dtype("i8"))
    wrapped = ZarrDataIO(iterator, compressor=False)
    before = dict(wrapped.io_settings)
    write(folder / "a.zarr", DatasetBuilder("x", wrapped))
    assert wrapped.io_settings == before
    documents = {".zarray", ".zattrs", "zarr.json"}
    keys = {key for key in keys_of(folder / "a.zarr") if key.startswith("x/")}
    assert len([key for key in keys if key.rpartition("/")[2] not in documents]) == 1


# ---- stored arrays as data ---------------------------------------------------------------------------------------
@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.zarr"
    inner = GroupBuilder("g", datasets=[DatasetBuilder("d", np.arange(4))])
    write_builder(path, GroupBuilder("root", groups=[inner]))
    return path


def links(path):
    return {e["name"]: (e["source"], e["path"]) for e in document(path, ".zattrs").get("zarr_link", [])}


def test_an_array_that_zarr_itself_has_opened_is_linked_or_copied(tmp_path, source):
    member, itself = zarr.open_group(source, mode="r")["g/d"], zarr.open_array(source / "g" / "d", mode="r")
    lone = zarr.create_array(tmp_path / "lone.zarr", data=np.arange(3), zarr_format=2)
    third = zarr.create_array(tmp_path / "third.zarr", name="d", data=np.arange(2), zarr_format=3)
    given = {"member": member, "itself": itself, "copied": ZarrDataIO(member), "lone": lone, "third": third}
    write(tmp_path / "a.zarr", *(DatasetBuilder(name, data) for name, data in given.items()))
    assert links(tmp_path / "a.zarr") == {
        **dict.fromkeys(("member", "itself"), ("../source.zarr", "/g/d")),
        "third": ("../third.zarr", "/d"),
    }
    nwbfile = read(tmp_path / "a.zarr")
    assert nwbfile["copied"].data[...].tolist() == [0, 1, 2, 3]
    assert nwbfile["lone"].data[...].tolist() == [0, 1, 2]
    assert nwbfile.links["third"].builder.data[...].tolist() == [0, 1]
    assert nwbfile.links["itself"].builder.data[...].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("dtype", [object, "S7", "U7"])
def test_text_of_an_array_of_zarr(tmp_path, dtype):
    array = zarr.create_array(tmp_path / "t.zarr", shape=(2,), dtype=str if dtype is object else dtype, zarr_format=2)
    array[:] = np.array(["first", "second"], dtype="S7" if dtype == "S7" else "U7")
    write(tmp_path / "a.zarr", DatasetBuilder("d", array))
    expected = [b"first", b"second"] if dtype == "S7" else ["first", "second"]
    assert read(tmp_path / "a.zarr")["d"].data[...].tolist() == expected


# ---- appending ---------------------------------------------------------------------------------------------------
@pytest.fixture
def referring(folder):
    one, two = Container(name="one"), Container(name="two")
    table = DynamicTable(name="table", description="t")
    table.add_column(name="target", description="references")
    table.add_row(target=one)
    write_container(folder / "r.zarr", SimpleMultiContainer(name="root", containers=[one, two, table]))
    return folder / "r.zarr"


@APPEND
def test_a_reference_to_what_is_not_written_is_refused_and_nothing_is_changed(referring):
    before = contents(referring)
    io = ZarrIO(referring, "r+", get_manager())
    root = io.read()
    new = Container(name="new")
    root.add_container(new)
    root["table"].add_row(target=new)
    with pytest.raises(ConflictError, match=r"not in the file.*\(/table/target\).*io\.write"):
        io.close()
    assert before == contents(referring)


@APPEND
def test_a_stored_reference_for_a_row(referring):
    with ZarrIO(referring, "r+", get_manager()) as io:
        root = io.read()
        reference = io._create_ref(io.manager.get_builder(root["two"]))
        assert reference["path"] == "/two"
        assert reference["object_id"] == root["two"].object_id
        assert reference["source_object_id"] == root.object_id


@APPEND
@pytest.mark.parametrize("mode", ["r+", "a"])
def test_another_root_is_not_merged_into_a_file(folder, mode):
    first, second = (SimpleMultiContainer(name="root", containers=[Container(name=n)]) for n in ("one", "two"))
    write_container(folder / "a.zarr", first)
    with ZarrIO(folder / "a.zarr", mode, get_manager()) as io, pytest.raises(ValueError, match="exists") as caught:
        io.write(second)
    assert first.object_id in str(caught.value)
    assert second.object_id in str(caught.value)
    with ZarrIO(folder / "a.zarr", "r", get_manager()) as io:
        assert set(io.read().containers) == {"one"}


@APPEND
def test_mode_a_stays_a_on_a_new_path(folder):
    with ZarrIO(folder / "a.zarr", "a", get_manager()) as io:
        assert io.mode == "a"
        with pytest.raises(UnsupportedOperation):
            io.read()
        io.write(SimpleMultiContainer(name="root", containers=[Container(name="one")]))
    with ZarrIO(folder / "a.zarr", "a", get_manager()) as io:
        assert set(io.read().containers) == {"one"}


# ---- the rest ----------------------------------------------------------------------------------------------------

INNER = [{"name": "c", "dtype": "int32", "doc": "c"}, {"name": "d", "dtype": "float64", "doc": "d"}]
FIELDS = [{"name": "a", "dtype": "uint8", "doc": "a"}, {"name": "b", "dtype": INNER, "doc": "b"}]
NESTED = np.dtype([("a", "u1"), ("b", [("c", "i4"), ("d", "f8")])])


@pytest.mark.parametrize("shape", [(3,), ()], ids=["rows", "scalar"])
@pytest.mark.parametrize("fields", [FIELDS, None], ids=["described", "by its type"])
def test_a_compound_in_a_compound(folder, shape, fields):
    rows = np.array([(1, (2, 0.5)), (3, (4, 1.5)), (5, (6, 2.5))], NESTED)
    data = rows if shape else rows[1]
    write(folder / "a.zarr", DatasetBuilder("d", data, dtype=fields))
    found = read(folder / "a.zarr")["d"]
    assert found.data[()].tolist() == data.tolist()
    assert found.dtype[0] == {"name": "a", "dtype": "uint8"}
    assert found.dtype[1]["dtype"] == [{"name": "c", "dtype": "int32"}, {"name": "d", "dtype": "float64"}]


def test_lists_of_rows_with_rows_in_them_which_may_not_have_text(folder):
    write(folder / "a.zarr", DatasetBuilder("d", [[1, [2, 0.5]], (3, (4, 1.5))], dtype=FIELDS))
    assert read(folder / "a.zarr")["d"].data[:].tolist() == [(1, (2, 0.5)), (3, (4, 1.5))]
    fields = [{"name": "a", "dtype": [{"name": "t", "dtype": "text", "doc": "t"}], "doc": "a"}]
    with pytest.raises(ValueRefusedError, match="/d"):
        write(folder / "b.zarr", DatasetBuilder("d", [(("x",),)], dtype=fields))
    assert not (folder / "b.zarr").exists()


def test_a_builder_that_names_its_file_by_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    target = DatasetBuilder("d", np.arange(3))
    references = DatasetBuilder("r", [ReferenceBuilder(target)], dtype="object")
    root = GroupBuilder("root", source="folder/a.zarr", datasets=[target, references])
    write_builder("folder/a.zarr", root)
    nwbfile = read("folder/a.zarr")
    assert nwbfile["r"].data[0] is nwbfile["d"]


def test_cached_namespaces_by_version(tmp_path):
    write_container(tmp_path / "a.zarr", SimpleMultiContainer(name="root"))
    versions = ZarrIO.get_namespaces(tmp_path / "a.zarr")
    assert set(versions) == {"hdmf-common", "hdmf-experimental"}
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    assert ZarrIO.get_namespaces(file=group) == versions
    assert set(group["specifications/hdmf-common"]) == {versions["hdmf-common"]}
    with pytest.raises(UsageError, match="no file is given"):
        ZarrIO.get_namespaces()


@pytest.mark.parametrize("expandable", [True, False, "VectorData"])
def test_expandable_names_types(folder, expandable):
    with ZarrIO(folder / "a.zarr", "w", get_manager()) as io, pytest.raises(TypeError, match="collection of names"):
        io.write(DynamicTable(name="t", description="t"), expandable=expandable)


def test_which_files_are_nwb_files(folder):
    samples.write_zarr(folder / "good.zarr", mock_NWBFile())
    write(folder / "other.zarr", DatasetBuilder("d", [1]))
    write_builder(folder / "old.zarr", GroupBuilder("root", attributes={"nwb_version": "1.0.6"}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert NWBZarrIO.can_read(folder / "good.zarr")
        assert not NWBZarrIO.can_read(folder / "nothing.zarr")
    with pytest.warns(UserWarning, match="no version of NWB"):
        assert not NWBZarrIO.can_read(folder / "other.zarr")
    with pytest.warns(UserWarning, match="too old"):
        assert not NWBZarrIO.can_read(folder / "old.zarr")
    with NWBZarrIO(folder / "old.zarr", "r", load_namespaces=False) as io, pytest.raises(TypeError, match=r"1\.0\.6"):
        io.read()


@pytest.mark.parametrize("lazy", [True, False])
def test_lab_metadata_may_have_the_name_of_a_dataset_beside_it(folder, lazy):
    nwbfile = mock_NWBFile(notes="text")
    nwbfile.add_lab_meta_data(LabMetaData(name="lab"))
    nwbfile = samples.read_zarr(samples.write_zarr(folder / "a.zarr", nwbfile), lazy=lazy)
    assert (nwbfile.lab_meta_data["lab"].name, nwbfile.lab, nwbfile.notes) == ("lab", None, "text")
