"""`ZarrIO` and `NWBZarrIO` as their users see them: what is written is read back, in every way."""

import json
import os
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.backends.errors import UnsupportedOperation
from hdmf.build import BuildManager, GroupBuilder, LinkBuilder, TypeMap
from hdmf.common import DynamicTable, VectorData, get_manager
from hdmf.data_utils import DataChunkIterator
from hdmf.spec import NamespaceCatalog
from hdmf.testing import TestCase
from pynwb import NWBHDF5IO, TimeSeries
from pynwb.file import NWBFile

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.encoding.reserved import RESERVED
from hdmf_zarr_backend.errors import MetadataError, ModeError, UsageError
from hdmf_zarr_backend.hdmf.schema import ContainerError
from hdmf_zarr_backend.options import ReadOptions
from tests import samples
from tests.documents import change_attributes, document, forget_consolidated
from tests.extensions import catalog, extension, write_with
from tests.places import Place, contents, delete, keys_of, put, remove
from tests.smallfiles import write_container
from tests.trees import dataset, group, read_builder, root, write_builder

APPEND = pytest.mark.needs("append")
# links into other folders of remote files are followed on request only
FOLLOW = {"read_options": ReadOptions(external_links="follow")}
CHANGE_MODES = [pytest.param(mode, marks=APPEND) for mode in ("r+", "a")]


def same_containers(one: NWBFile, other: NWBFile) -> None:
    """Assert that two files are equal: the same objects, and each field the same by hdmf's own comparison."""
    assert one.objects.keys() == other.objects.keys()
    TestCase().assertContainerEqual(one, other, ignore_hdmf_attrs=True)  # they differ in the path of the file


def read(path: Place, mode: str = "r", **options: Any) -> NWBFile:
    with NWBZarrIO(path, mode, **options) as io:
        return io.read()


def identical(one: Any, other: Any) -> bool:
    """Tell whether two values have one type, shape and content, NaN and the sign of zero included."""
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    return a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()


@pytest.fixture(scope="module")
def rich_hdf5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return samples.write_hdf5(tmp_path_factory.mktemp("hdf5") / "rich.nwb")


@pytest.fixture(scope="module")
def rich_zarr(shared_folder: Place, rich_hdf5: Path) -> Place:
    path = shared_folder / "rich.nwb.zarr"
    with NWBHDF5IO(rich_hdf5, "r") as source, NWBZarrIO(path, "w") as io:
        io.export(source)
    return path


@pytest.fixture
def plain(folder: Place) -> Place:
    return samples.write_zarr(folder / "plain.nwb.zarr", samples.plain_nwbfile())


# ---- complete files --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["r", "r-", *CHANGE_MODES])
def test_a_rich_file_has_the_same_containers_as_in_hdf5(rich_hdf5, rich_zarr, mode):
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBZarrIO(rich_zarr, mode) as other:
        same_containers(other.read(), one.read())


def test_a_rich_file_comes_back_to_hdf5(rich_hdf5, rich_zarr, tmp_path):
    with NWBZarrIO(rich_zarr) as source, NWBHDF5IO(tmp_path / "back.nwb", "w") as io:
        io.export(source, write_args={"link_data": False})  # as HDF5IO wants it of any other backend
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBHDF5IO(tmp_path / "back.nwb", "r") as other:
        same_containers(other.read(), one.read())


def test_a_rich_file_is_copied_from_zarr_to_zarr(rich_hdf5, rich_zarr, folder):
    before = contents(rich_zarr)
    with NWBZarrIO(rich_zarr) as source, NWBZarrIO(folder / "copy.zarr", "w") as io:
        io.export(source)
    assert contents(rich_zarr) == before
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBZarrIO(folder / "copy.zarr") as other:
        same_containers(other.read(), one.read())
    result = _links(folder / "copy.zarr")
    assert result == _links(rich_zarr)
    assert {source for _, _, source in result} == {"."}


def _links(path: Place) -> list[tuple[str, str, str]]:
    metadata = document(path, ".zmetadata")["metadata"]
    attributes = {key: entry for key, entry in metadata.items() if key.endswith(".zattrs")}
    return sorted(
        (key, link["name"], link["source"]) for key in attributes for link in attributes[key].get("zarr_link", ())
    )


# ---- modes, opening and closing ------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", ["w", "w-", "x", pytest.param("a", marks=APPEND)])
def test_modes_that_make_a_file(folder, mode):
    path = folder / "file.zarr"
    with NWBZarrIO(path, mode) as io:
        assert not path.exists(), "opening alone makes nothing"
        said = f"Cannot read from file in mode '{mode}'" if mode != "a" else "mode 'a' creates a new one"
        with pytest.raises(UnsupportedOperation, match=said) as caught:
            io.read()
        assert isinstance(caught.value, ModeError if mode != "a" else FileNotFoundError)
        io.write(samples.plain_nwbfile())
    assert read(path).identifier == "plain"


@pytest.mark.parametrize("mode", ["r", "r-"])
def test_a_file_that_is_open_for_reading_is_not_written(plain, mode):
    with NWBZarrIO(plain, mode) as io:
        nwbfile = io.read()
        with pytest.raises(UnsupportedOperation, match=f"Cannot write to file in mode '{mode}'"):
            io.write(nwbfile)
        data = nwbfile.acquisition["trace"].data
        for change in (lambda: data.__setitem__(0, 1), lambda: data.append([[1, 2, 3]]), lambda: data.resize((30, 3))):
            with pytest.raises(ModeError, match=r"open for reading .*/acquisition/trace/data"):
                change()


@pytest.mark.parametrize("mode", ["r", "r-", *CHANGE_MODES])
def test_only_a_new_file_is_exported_to(plain, rich_zarr, mode):
    with NWBZarrIO(rich_zarr) as source, NWBZarrIO(plain, mode) as io:  # noqa: SIM117 - both are open when it fails
        with pytest.raises(UnsupportedOperation, match="Cannot export to file in mode"):
            io.export(source)


def test_closing_twice_and_reading_afterwards(plain):
    io = NWBZarrIO(plain)
    nwbfile = io.read()
    assert io.is_open()
    io.close()
    io.close()
    assert not io.is_open()
    assert nwbfile.acquisition["trace"].data[-1].tolist() == [57, 58, 59]
    with pytest.raises(ModeError, match="closed file"):
        io.read_builder()
    io.open()
    assert io.read() is nwbfile
    io.close()


@APPEND
def test_a_file_that_is_opened_for_changes_again_is_read_again(plain):
    io = NWBZarrIO(plain, "r+")
    before = io.read()
    io.close()
    with pytest.raises(ModeError, match=r"the file is closed .*Open it and read it again"):
        before.acquisition["trace"].data[0] = 1
    io.open()
    with pytest.raises(UsageError, match=r"before the file was opened again.*Read the file again"):
        io.write(before)
    with pytest.raises(UsageError, match=r"read before the file was opened again.*Read the file again"):
        before.acquisition["trace"].data[0] = 1
    io.read().acquisition["trace"].data[0] = 1
    io.close()
    reader = NWBZarrIO(plain)
    assert reader.read().acquisition["trace"].data[0].tolist() == [1, 1, 1]
    reader.close()
    with NWBZarrIO(plain, "r+") as other:
        other.replace("/acquisition/trace/data", [[1]])
    reader.open()
    assert reader.read().acquisition["trace"].data[:].tolist() == [[1]]
    reader.close()


def test_a_file_of_deep_groups_is_opened_again(tmp_path):
    path = tmp_path / "a.zarr"
    path.mkdir()
    groups = {"/".join(["g"] * depth) + "/.zgroup": {"zarr_format": 2} for depth in range(1, 1200)}
    (path / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zmetadata").write_text(json.dumps({"zarr_consolidated_format": 1, "metadata": groups}))
    io = ZarrIO(path, "r", manager=get_manager())
    for _ in range(2):
        io.close()
        io.open()
    io.close()


def test_a_new_file_is_opened_again_to_be_replaced(tmp_path):
    io = NWBZarrIO(tmp_path / "a.zarr", "w")
    io.write(samples.plain_nwbfile())
    io.close()
    io.open()
    io.write(samples.plain_nwbfile("other"))
    io.close()
    assert read(tmp_path / "a.zarr").identifier == "other"


def test_a_new_file_is_written_to_the_directory_that_its_relative_path_was_given_in(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with NWBZarrIO("new.zarr", "w") as io:
        os.chdir("/")
        io.write(samples.plain_nwbfile())
    assert read(tmp_path / "new.zarr").identifier == "plain"


@APPEND
def test_an_io_knows_what_it_is(plain):
    with NWBZarrIO(plain, "r+") as io:
        assert (io.mode, io.nwb_version[0].split(".")[0]) == ("r+", "2")
        assert isinstance(io._file, zarr.Group)
        assert io._file["acquisition/trace/data"].shape == (20, 3)
    assert NWBZarrIO.can_read(plain)
    assert not NWBZarrIO.can_read(plain / "nothing")


def test_options_of_other_stores_and_old_versions(tmp_path):
    plain = samples.write_zarr(tmp_path / "plain.nwb.zarr", samples.plain_nwbfile())
    with ZarrIO(plain, storage_options={"anon": True}) as io:
        assert io.read_builder() is io.read_builder()
    with pytest.raises(UsageError, match="cannot be specified together"):
        NWBZarrIO(plain, manager=get_manager(), extensions="x.yaml")


def test_a_typemap_is_a_manager_too(folder):
    path = write_builder(folder / "file.zarr", root(x=1))
    with ZarrIO(path, manager=TypeMap(NamespaceCatalog())) as io:
        assert isinstance(io.manager, BuildManager)


def test_export_io_makes_a_new_file_and_read_nwb_reads_it(plain, tmp_path):
    with NWBZarrIO(plain) as source:
        NWBZarrIO.export_io(tmp_path / "copy.zarr", source, write_args={"link_data": False})
    nwbfile = NWBZarrIO.read_nwb(tmp_path / "copy.zarr")
    assert nwbfile.identifier == "plain"
    nwbfile.read_io.close()


def test_a_stale_consolidated_document_is_ignored_on_request(plain):
    """By mode ``r-``, as the users of hdmf-zarr know it."""
    for key, value in contents(plain).items():
        if key.startswith("acquisition/trace/"):
            put(plain, key.replace("trace", "later"), value)
    assert list(read(plain).acquisition) == ["trace"]
    assert sorted(read(plain, "r-").acquisition) == ["later", "trace"]


# ---- values --------------------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def values_file(shared_folder: Place) -> Place:
    return write_builder(shared_folder / "values.zarr", root(*samples.dataset_builders().values()))


_DTYPES = {
    "big_endian": ">i4", "python_ints": "i4", "python_floats": "f4", "python_bools": "?", "texts": "O",
    "text_matrix": "O", "no_texts": "O", "text": "U", "ascii": "O", "times": "O", "time": "U",
}  # fmt: skip


@pytest.mark.parametrize("mode", ["r", "r-", pytest.param("r+", marks=APPEND)])
def test_every_kind_of_dataset_comes_back(values_file, mode):
    written, result = samples.dataset_builders(), read_builder(values_file, mode).datasets
    assert result.keys() == written.keys()
    wrong = []
    for name, builder in written.items():
        data = result[name].data
        if name == "text_rows":
            assert [tuple(row) for row in data[:]] == builder.data
            continue
        expected = np.asarray(builder.data, dtype=_DTYPES.get(name))
        values = data[:] if hasattr(data, "shape") and data.shape else data
        if not identical(values, expected):
            wrong.append((name, values, expected))
        if expected.shape == ():
            assert not isinstance(data, np.ndarray), name
    assert wrong == []


def test_reserved_names_are_hidden_and_a_users_own_come_back(folder):
    own = {name: f"mine: {name}" for name in sorted(RESERVED)} | {"user_zarr_dtype": 1, "plain": 2}
    numbers = dataset("numbers", np.arange(3), "int64", attributes=dict(own))
    path = write_builder(folder / "file.zarr", root(group("inner", **own), numbers))
    builder = read_builder(path)
    assert dict(builder["inner"].attributes) == own
    assert dict(builder["numbers"].attributes) == own
    assert builder["numbers"].data[:].tolist() == [0, 1, 2]
    assert dict(builder.attributes) == {}


# ---- references and links ------------------------------------------------------------------------------------------
def check_reference_tree(root: GroupBuilder) -> None:
    """Assert that a tree is the one of `samples.reference_tree`, by the identity of its builders."""
    target, inner, deep = root["target"], root["inner"], root["inner/deep"]
    values = root["target/values"]
    assert values.data[:].tolist() == [0, 1, 2, 3]
    single = {"to_root": root, "to_parent": inner, "to_group": target, "to_dataset": values, "to_itself": deep}
    for name, builder in single.items():
        assert deep.attributes[name] is builder, name
    several = deep.attributes["to_several"]
    assert len(several) == 2
    assert several[0] is target
    assert several[1] is values
    assert deep["reference"].data.builder is values
    assert deep["references"].dtype == deep["reference_matrix"].dtype == deep["reference"].dtype == "object"
    assert all(one is other for one, other in zip(deep["references"].data, [target, root, target], strict=True))
    assert deep["references"].data[1] is root
    matrix = deep["reference_matrix"].data
    assert matrix.shape == (2, 2)
    assert matrix[1][0] is root
    assert matrix[1, 1] is target
    rows = deep["rows"]
    assert [(field["name"], field["dtype"]) for field in rows.dtype] == [
        ("start", "int32"), ("to", "object"), ("text", "utf"),
    ]  # fmt: skip
    assert rows.data[0]["to"] is target
    assert rows.data[1]["to"] is root
    assert [(int(row["start"]), row["text"]) for row in rows.data] == [(0, "a"), (1, samples.TEXTS[2])]
    links = {"link_to_parent": inner, "link_to_dataset": values}
    assert {name: link.builder is links[name] for name, link in deep.links.items()} == dict.fromkeys(links, True)
    assert root.links["link_in_the_root"].builder is values


@pytest.mark.parametrize("mode", ["r", "r-", pytest.param("r+", marks=APPEND)])
def test_references_and_links_of_all_kinds_in_circles(folder, mode):
    check_reference_tree(read_builder(write_builder(folder / "file.zarr", samples.reference_tree()), mode))


def test_each_target_is_resolved_once(folder):
    with ZarrIO(write_builder(folder / "file.zarr", samples.reference_tree())) as io:
        references = io.read_builder()["inner/deep/references"].data
        assert references[0] is references[2]
        assert references.invert() is references.invert()
        assert references.invert().invert() is references


def _two_files(folder: Place) -> tuple[Place, Place]:
    first = samples.write_zarr(folder / "data" / "first.zarr", samples.plain_nwbfile("first"))
    (folder / "linked").mkdir(parents=True)
    second = folder / "linked" / "second.zarr"
    with NWBZarrIO(first) as source, NWBZarrIO(second, "w", manager=source.manager) as io:
        trace = source.read().acquisition["trace"]
        nwbfile = samples.plain_nwbfile("second")
        nwbfile.add_acquisition(TimeSeries(name="linked_data", data=trace.data, unit="m", rate=1.0))
        io.write(nwbfile, link_data=True)
    return first, second


def test_an_export_to_hdf5_copies_the_data_of_other_files_on_request(folder, tmp_path):
    first, second = _two_files(folder)
    with NWBZarrIO(second, **FOLLOW) as source, NWBHDF5IO(tmp_path / "third.nwb", "w") as io:
        io.export(source, write_args={"link_data": False})
    remove(first)
    remove(second)
    with NWBHDF5IO(tmp_path / "third.nwb", "r") as source, NWBZarrIO(folder / "third.zarr", "w") as io:
        io.export(source)
    assert read(folder / "third.zarr", **FOLLOW).acquisition["linked_data"].data[19].tolist() == [57, 58, 59]


@pytest.mark.parametrize("link_data", [True, False])
def test_export_keeps_links_to_groups_of_other_files(folder, link_data):
    """What they hold is where it was, with what belongs to it; and it has no other parent than who links to it."""
    first = samples.write_zarr(folder / "first.zarr", samples.plain_nwbfile("first"))
    with NWBZarrIO(first) as source, NWBZarrIO(folder / "second.zarr", "w", manager=source.manager) as io:
        nwbfile = NWBFile("links to groups", "second", samples.START)
        nwbfile.add_acquisition(source.read().acquisition["trace"])
        io.write(nwbfile)
    third = folder / "third.zarr"
    with NWBZarrIO(folder / "second.zarr", **FOLLOW) as source, NWBZarrIO(third, "w") as io:
        io.export(source, write_args={"link_data": link_data})
    for path in (folder / "second.zarr", third):
        assert [key for key in keys_of(path) if key.startswith("acquisition/") and key.count("/") > 1] == []
        nwbfile = read(path)
        trace = nwbfile.acquisition["trace"]
        assert trace.container_source == str(first)
        assert trace.parent is nwbfile
        assert trace.get_ancestor("NWBFile") is nwbfile
        assert trace.data[0].tolist() == [0, 1, 2]


def test_a_link_to_an_object_in_a_file_does_not_read_the_complete_file(folder):
    first, second = _two_files(folder)
    with NWBZarrIO(second, **FOLLOW) as io:
        target = io.read_builder()["acquisition/linked_data"].links["data"].builder
        assert target.parent is None
        assert (target.source, target.location) == (str(first), "/acquisition/trace")


def test_a_group_that_is_called_root(folder):
    inner = group("root", dataset("x", [1], "int64"))
    top = root(inner)
    top.set_link(LinkBuilder(builder=inner, name="link"))
    path = write_builder(folder / "first.zarr", top)
    with ZarrIO(path) as source, ZarrIO(folder / "second.zarr", "w") as io:
        io.export(source, cache_spec=False)
    builder = read_builder(folder / "second.zarr")
    assert builder.links["link"].builder is builder["root"]
    assert builder["root/x"].data[:].tolist() == [1]


@pytest.mark.parametrize("name", ["root", "my table", "größe"])
def test_a_root_container_of_any_name(folder, name):
    other = DynamicTable(name="other", description="a table", columns=[VectorData(name="b", description="b", data=[5])])
    table = DynamicTable(name=name, description="a table", columns=[VectorData(name="a", description="a", data=[1, 2])])
    table.add_column(name="to", description="by reference", data=[table, table])
    path = folder / "file.zarr"
    write_container(path, table)
    with ZarrIO(path, manager=get_manager()) as io:
        nwbfile = io.read()
        assert nwbfile["a"].data[:].tolist() == [1, 2]
        assert nwbfile["to"].data[1] is nwbfile
    write_container(path, other)
    with ZarrIO(path, manager=get_manager()) as io:
        assert io.read()["b"].data[:].tolist() == [5]


def test_builders_and_containers_of_arrays(rich_zarr):
    with NWBZarrIO(rich_zarr) as io:
        builder = io.get_builder(io.read().acquisition["trace"].data)
        assert builder is io.read_builder()["acquisition/trace/data"]
        assert io.get_written(builder)
        electrodes = io.read().electrodes
        assert io.get_container(electrodes["x"].data) is electrodes["x"]


# ---- specifications ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("form", [str, Path, lambda path: [path]], ids=["str", "Path", "list"])
def test_an_extension_that_is_passed(folder, tmp_path, form):
    """Instead of those that are cached, which may be there or not."""
    namespace = extension(tmp_path, "ndx-single")
    path = write_with(folder / "file.zarr", namespace)
    delete(path, "specifications/ndx-single")
    forget_consolidated(path)
    with NWBZarrIO(path) as io, pytest.raises(ContainerError, match="'ndx-single'"):
        io.read()
    assert type(read(path, extensions=form(namespace)).acquisition["ndx-single"]).__name__ == "SingleSeries"


def test_namespaces_are_loaded_from_an_open_file(plain):
    with ZarrIO(plain) as io:
        names = {"core", "hdmf-common", "hdmf-experimental"}
        assert ZarrIO.load_namespaces(catalog(), file=io._file).keys() == names
    with pytest.raises(UsageError, match="no file is given"):
        ZarrIO.load_namespaces(NamespaceCatalog())
    with pytest.raises(ModeError, match="closed file"):
        io.load_namespaces_io(NamespaceCatalog())


@pytest.mark.parametrize("form", [{"source": ".", "path": "/specs"}, {"path": "/specs", "zarr_dtype": "object"}])
def test_specloc_in_its_old_forms(plain, form):
    for key, text in contents(plain).items():
        if key.startswith("specifications/"):
            put(plain, key.replace("specifications", "specs", 1), text)
    delete(plain, "specifications")
    value = form if "zarr_dtype" not in form else {"zarr_dtype": "object", "value": {"source": ".", "path": "/specs"}}
    change_attributes(plain, "", lambda attributes: attributes.update({".specloc": value}))
    assert "core" in ZarrIO.load_namespaces(catalog(), plain)
    assert "specs" not in read_builder(plain).groups


@pytest.mark.parametrize("form", [{"value": "/specifications"}, {"path": "/specifications"}])
def test_specloc_as_an_object_that_is_no_reference_in_format_3(tmp_path, form):
    path = samples.write_zarr(tmp_path / "file.zarr", samples.plain_nwbfile(), zarr_format=3)
    change_attributes(path, "", lambda attributes: attributes.update({".specloc": form}))
    assert "core" in ZarrIO.load_namespaces(catalog(), path)
    assert "specifications" not in read_builder(path).groups


def test_a_cached_specification_that_is_not_json_is_an_error(folder, tmp_path):
    path = write_with(folder / "file.zarr", extension(tmp_path, "ndx-single"))
    spoiled = numcodecs.VLenUTF8().encode(np.array(["{no json"], dtype=object))
    put(path, "specifications/ndx-single/0.1.0/namespace/0", bytes(spoiled))
    forget_consolidated(path)
    with pytest.raises(MetadataError) as caught:
        NWBZarrIO(path)
    assert caught.value.store == str(path)
    assert caught.value.path == "/specifications/ndx-single/0.1.0/namespace"


# ---- iterators -----------------------------------------------------------------------------------------------------
NUMBERS = np.arange(35, dtype="i4").reshape(7, 5)


def test_an_iterator_of_large_numbers(folder):
    """No number passes through a float."""
    values = [2**60 + 1, 2**60 + 3]
    path = write_builder(folder / "file.zarr", root(dataset("data", DataChunkIterator(data=iter(values)))))
    assert read_builder(path)["data"].data[:].tolist() == values


# ---- storage options -----------------------------------------------------------------------------------------------
def _stored(folder: Place, data: Any, **options: Any) -> tuple[dict[str, Any], Any]:
    path = write_builder(folder / "file.zarr", root(dataset("data", ZarrDataIO(data, **options))))
    return document(path, "data/.zarray"), read_builder(path)["data"].data


def test_chunks(folder):
    array, data = _stored(folder, NUMBERS, chunks=(2, 3))
    assert array["chunks"] == [2, 3]
    assert data.chunks == (2, 3)
    assert identical(data[:], NUMBERS)
    assert len([key for key in keys_of(folder / "file.zarr") if key.startswith("data/") and key[-1].isdigit()]) == 8
    assert _stored(folder, NUMBERS)[0]["chunks"] == [7, 5]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize(("option", "stored"), [
    (False, None),
    (None, "default"),
    (True, "default"),
    (numcodecs.Zlib(level=3), {"id": "zlib", "level": 3}),
    ({"id": "zlib", "level": 3}, {"id": "zlib", "level": 3}),
    (numcodecs.Zstd(level=5), {"id": "zstd", "level": 5}),
    (numcodecs.Blosc("zstd", 4, numcodecs.Blosc.BITSHUFFLE),
     {"id": "blosc", "cname": "zstd", "clevel": 4, "shuffle": 2, "blocksize": 0}),
])  # fmt: skip
def test_compressor(folder, cell, option, stored):
    array, data = _stored(folder, NUMBERS, compressor=option)
    if stored == {"id": "zlib", "level": 3} and cell.zarr_format == 3:
        stored = {"id": "gzip", "level": 3}  # what other readers of format 3 have
    if stored == "default":
        assert array["compressor"]["id"] in ("blosc", "zstd")
        assert "checksum" not in array["compressor"]
    else:
        assert array["compressor"] == stored
    assert data.compressor == (array["compressor"] and numcodecs.get_codec(array["compressor"]))
    assert identical(data[:], NUMBERS)
    with ZarrIO(folder / "file.zarr") as io:
        assert identical(io._file["data"][:], NUMBERS)  # by zarr itself


@pytest.mark.parametrize("values", [NUMBERS, ["a", "b"]], ids=["numbers", "text"])
@pytest.mark.parametrize("filters", [None, [numcodecs.Shuffle(4)], [numcodecs.Delta("i4"), numcodecs.Shuffle(4)]])
def test_filters_are_as_zarr_returns_them(tmp_path, values, filters, zarr_format):
    if zarr_format == 3 and zarr.__version__.startswith("2."):
        pytest.skip("zarr-python 2 reads format 2 only")
    if filters and values is not NUMBERS:
        filters = [numcodecs.Shuffle(1)]
    data = dataset("data", ZarrDataIO(values, filters=filters))
    write_builder(tmp_path / "file.zarr", root(data), zarr_format=zarr_format)
    with ZarrIO(tmp_path / "file.zarr") as io:
        data = io.read_builder()["data"].data
        theirs = io._file["data"]  # by zarr itself
        assert data.filters == theirs.filters
        assert type(data.filters) is type(theirs.filters)


def test_a_table_of_an_array_of_zarr_itself(tmp_path):
    array = zarr.open_array(str(tmp_path / "array.zarr"), mode="w", shape=(300, 3), chunks=(100, 3), dtype="i2")
    shown = ZarrIO.generate_dataset_html(array)
    for part in ("Zarr Array", "(300, 3)", "(100, 3)", "int16", "1.8 kB", "Stored size"):
        assert part in shown, part
    assert "Blosc" in shown or "Zstd" in shown  # the default of either version


@pytest.mark.parametrize("fillvalue", [-1, 0, None])
def test_fill_value(cell, folder, fillvalue):
    array, _ = _stored(folder, NUMBERS, fillvalue=fillvalue, chunks=(2, 5))
    is_given = cell.zarr_format == 2 or fillvalue != 0  # format 3 always has one, and 0 is the default
    assert array["fill_value"] == (fillvalue if is_given else None)
    chunk = {2: "data/0.0", 3: "data/c/0/0"}[cell.zarr_format]
    assert chunk in keys_of(folder / "file.zarr")
    delete(folder / "file.zarr", chunk)
    rest = read_builder(folder / "file.zarr")["data"].data
    assert rest[0].tolist() == [fillvalue or 0] * 5
    assert identical(rest[2:], NUMBERS[2:])


def test_an_open_hdf5_dataset_as_data(folder, tmp_path):
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file.create_dataset("numbers", data=NUMBERS, chunks=(2, 5), compression="gzip", maxshape=(None, 5))
        file.create_dataset("text", data=samples.TEXTS[:2])
        nwbfile = samples.plain_nwbfile()
        nwbfile.add_acquisition(TimeSeries(name="series", data=file["numbers"], unit="m", rate=1.0))
        column = VectorData(name="column", description="text", data=file["text"])
        nwbfile.add_acquisition(DynamicTable(name="table", description="a table", columns=[column]))
        path = samples.write_zarr(folder / "file.zarr", nwbfile)
    nwbfile = read(path)
    data = nwbfile.acquisition["series"].data
    assert identical(data[:], NUMBERS)
    assert data.maxshape == (None, 5)
    assert nwbfile.acquisition["table"]["column"][:].tolist() == samples.TEXTS[:2]


# ---- neighbours ----------------------------------------------------------------------------------------------------
def test_data_behave_as_users_of_h5py_expect(rich_hdf5, rich_zarr):
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBZarrIO(rich_zarr) as other:
        expected, data = (io.read().acquisition["raw"].data for io in (one, other))
        assert (len(data), data.shape, data.ndim, data.size) == (len(expected), expected.shape, 2, expected.size)
        assert data.dtype == expected.dtype
        for key in (0, -1, np.s_[2:5], np.s_[:, 1], (3, 2), [0, 5], np.s_[0:9:2], np.s_[:5, [0, 2]], ..., ()):
            assert identical(data[key], expected[key]), key
        mask = expected[:, 0] > 0
        assert identical(data[mask], expected[mask])
        assert identical(data[np.array([1, 3], "u8")], expected[[1, 3]])
        assert data[[]].shape == (0, 3)
        assert isinstance(data[0, 0], np.int16)
        assert [row.tolist() for row in data] == expected[:].tolist()
        assert identical(np.asarray(data), expected[:])
        with pytest.raises(IndexError, match=r"Index \(300\) out of range for \(0-299\)"):
            data[300]
        text, expected_text = (io.read().electrodes["label"].data for io in (other, one))
        assert list(text) == [item.decode() if isinstance(item, bytes) else item for item in expected_text]
        assert isinstance(text[0], str)
