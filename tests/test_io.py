"""`ZarrIO` and `NWBZarrIO` as their users see them: what goes in comes out, whatever the way."""

from __future__ import annotations

import copy
import inspect
import json
import os
import re
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import pytest
import zarr
from hdmf.backends.errors import UnsupportedOperation
from hdmf.backends.hdf5 import H5DataIO
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, LinkBuilder, TypeMap
from hdmf.common import HERD, DynamicTable, VectorData, get_manager
from hdmf.data_utils import AbstractDataChunkIterator, DataChunk, DataChunkIterator, GenericDataChunkIterator
from hdmf.spec import NamespaceCatalog
from hdmf.testing import TestCase
from pynwb import NWBHDF5IO, TimeSeries, get_type_map, validate
from pynwb.file import NWBFile, Subject
from pynwb.spec import NWBAttributeSpec, NWBDatasetSpec, NWBGroupSpec, NWBNamespace, NWBNamespaceBuilder

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.builders.schema import ContainerError
from hdmf_zarr_backend.errors import (
    ConflictError,
    MetadataError,
    MissingNamespacesWarning,
    ModeError,
    StoreNotFoundError,
    UsageError,
)
from hdmf_zarr_backend.formats.reserved import RESERVED
from tests import samples
from tests.documents import change_attributes, document, forget_consolidated, has_document, is_consolidated
from tests.places import Place, contents, copy_file, delete, keys_of, put, remove

APPEND = pytest.mark.needs("append")
FOLLOW = {"external_links": "follow"}  # of far files, links into other folders are followed on request only
CHANGE_MODES = [pytest.param(mode, marks=APPEND) for mode in ("r+", "a")]


def same_containers(one: NWBFile, other: NWBFile) -> None:
    """Assert that two files are equal: the same objects, and each field the same by hdmf's own comparison."""
    assert one.objects.keys() == other.objects.keys()
    TestCase().assertContainerEqual(one, other, ignore_hdmf_attrs=True)  # they differ in the path of the file


def write_builder(path: Place, builder: GroupBuilder, **options: Any) -> Place:
    with ZarrIO(path, "w") as io:
        io.write_builder(builder, **options)
    return path


def read_builder(path: Place, mode: str = "r", **options: Any) -> GroupBuilder:
    with ZarrIO(path, mode, **options) as io:
        return io.read_builder()


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


# ---- whole files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["r", "r-", *CHANGE_MODES])
def test_a_rich_file_has_the_same_containers_as_in_hdf5(rich_hdf5, rich_zarr, mode):
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBZarrIO(rich_zarr, mode) as other:
        same_containers(other.read(), one.read())


def test_a_rich_file_is_valid(rich_zarr):
    with NWBZarrIO(rich_zarr) as io:
        assert validate(io=io) == []


def test_a_rich_file_comes_back_to_hdf5(rich_hdf5, rich_zarr, tmp_path):
    with NWBZarrIO(rich_zarr) as source, NWBHDF5IO(tmp_path / "back.nwb", "w") as io:
        io.export(source, write_args={"link_data": False})  # as HDF5IO wants it of any other backend
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBHDF5IO(tmp_path / "back.nwb", "r") as other:
        same_containers(other.read(), one.read())


def test_a_rich_file_is_copied_from_zarr_to_zarr(rich_hdf5, rich_zarr, folder):
    with NWBZarrIO(rich_zarr) as source, NWBZarrIO(folder / "copy.zarr", "w") as io:
        io.export(source)
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBZarrIO(folder / "copy.zarr") as other:
        same_containers(other.read(), one.read())
    found = _links(folder / "copy.zarr")
    assert found == _links(rich_zarr)
    assert {source for _, _, source in found} == {"."}


def _nodes(path: Place, name: str) -> dict[str, Any]:
    """Return the documents ``name`` of all nodes by path, of either format, as the consolidated document has them."""
    metadata = document(path, ".zmetadata")["metadata"]
    return {key.rpartition("/")[0]: found for key, found in metadata.items() if key.rpartition("/")[2] == name}


def _links(path: Place) -> list[tuple[str, str, str]]:
    nodes = _nodes(path, ".zattrs")
    return sorted((node, link["name"], link["source"]) for node in nodes for link in nodes[node].get("zarr_link", ()))


def test_what_was_written_reads_the_same_as_what_was_built(folder):
    nwbfile = samples.rich_nwbfile()
    samples.write_zarr(folder / "file.zarr", nwbfile)
    with NWBZarrIO(folder / "file.zarr") as io:
        found = io.read()
        for column in ("start_time", "stop_time", "stimulus"):
            assert list(found.trials[column][:]) == list(nwbfile.trials[column][:])
        assert [list(licks) for licks in found.trials["licks"][3]] == [[], [3.25], [3.25, 3.25]]
        pieces = found.trials["timeseries"][1]
        assert [piece.timeseries for piece in pieces] == [found.acquisition["trace"], found.acquisition["raw"]]
        assert pieces[0].timeseries is found.acquisition["trace"]
        assert list(found.units["tags"][3]) == samples.TEXTS[:3]
        assert found.keywords[:].tolist() == [samples.TEXTS[0], *samples.TEXTS[2:]]
        assert found.session_start_time == samples.START
        assert found.electrodes["group"][3] is found.electrode_groups["shank1"]
        assert found.electrode_groups["shank1"].position.tolist() == (1.5, 2.5, 1.0)
        masks = found.processing["ophys"]["ImageSegmentation"]["cells"]["pixel_mask"]
        assert [tuple(pixel) for pixel in masks[1]] == [(0, 1, 0.0), (1, 2, 0.5)]
        assert found.processing["behavior"]["Position"]["track"].timestamps[-1] == 1.0
        assert found.processing["tables"]["references"]["objects"][1] is found.acquisition["trace"]
        assert found.icephys_repetitions["sequential_recordings"][0].iloc[0]["stimulus_type"] == "square"


# ---- modes, opening and closing ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["w", "w-", "x", pytest.param("a", marks=APPEND)])
def test_modes_that_make_a_file(folder, mode):
    path = folder / "file.zarr"
    with NWBZarrIO(path, mode) as io:
        assert not path.exists(), "opening alone makes nothing"
        io.write(samples.plain_nwbfile())
    assert read(path).identifier == "plain"


@pytest.mark.parametrize("mode", ["w", "w-", "x"])
def test_a_new_file_is_not_read(folder, mode):
    with NWBZarrIO(folder / "file.zarr", mode) as io:
        with pytest.raises(UnsupportedOperation, match=f"Cannot read from file in mode '{mode}'") as caught:
            io.read()
        assert isinstance(caught.value, ModeError)


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


def _local(folder: Path) -> Path:
    return samples.write_zarr(folder / "plain.nwb.zarr", samples.plain_nwbfile())


def test_a_relative_path_outlives_a_change_of_directory(tmp_path, monkeypatch):
    plain = _local(tmp_path)
    monkeypatch.chdir(tmp_path)
    with NWBZarrIO(plain.name) as io:
        nwbfile = io.read()
        os.chdir("/")
        assert nwbfile.acquisition["trace"].data[0, 2] == 2
        assert io.source == str(plain)
    os.chdir(tmp_path)
    with NWBZarrIO("new.zarr", "w") as io:
        os.chdir("/")
        io.write(samples.plain_nwbfile())
    assert read(tmp_path / "new.zarr").identifier == "plain"


@pytest.mark.parametrize(
    "spell", [Path, str, lambda path: f"{path}/", lambda path: path.as_uri()], ids=["Path", "str", "slash", "URI"]
)
def test_spellings_of_a_path(tmp_path, spell):
    plain = _local(tmp_path)
    with NWBZarrIO(spell(plain)) as io:
        assert io.source == io.path == io.abspath == str(plain)
        nwbfile = io.read()
        assert nwbfile.container_source == nwbfile.acquisition["trace"].container_source == str(plain)


@APPEND
def test_an_io_knows_what_it_is(plain):
    with NWBZarrIO(plain, "r+") as io:
        assert (io.mode, io.nwb_version[0].split(".")[0], io.object_codec_class) == ("r+", "2", numcodecs.JSON)
        assert isinstance(io._file, zarr.Group)
        assert io._file["acquisition/trace/data"].shape == (20, 3)
    assert NWBZarrIO.can_read(plain)
    assert not NWBZarrIO.can_read(plain / "nothing")


def test_options_of_other_stores_and_old_versions(tmp_path):
    plain = _local(tmp_path)
    with ZarrIO(plain, storage_options={"anon": True}) as io:
        assert io.read_builder() is io.read_builder()
    with pytest.warns(UserWarning, match="synchronizer is ignored"):
        ZarrIO(plain, synchronizer=object()).close()
    with pytest.raises(UsageError, match="cannot be specified together"):
        NWBZarrIO(plain, manager=get_manager(), extensions="x.yaml")


def test_a_typemap_is_a_manager_too(folder):
    path = write_builder(folder / "file.zarr", GroupBuilder(name="root", attributes={"x": 1}))
    with ZarrIO(path, manager=TypeMap(NamespaceCatalog())) as io:
        assert isinstance(io.manager, BuildManager)


def test_many_files_open_at_once(folder):
    paths = [samples.write_zarr(folder / f"{i}.zarr", samples.plain_nwbfile(f"file {i}")) for i in range(5)]
    files = [NWBZarrIO(path) for path in paths]
    nwbfiles = [io.read() for io in files]
    assert [nwbfile.identifier for nwbfile in nwbfiles] == [f"file {i}" for i in range(5)]
    assert {int(nwbfile.acquisition["trace"].data[1, 1]) for nwbfile in nwbfiles} == {4}
    for io in files:
        io.close()


def test_read_nwb(plain):
    nwbfile = NWBZarrIO.read_nwb(plain)
    assert nwbfile.identifier == "plain"
    nwbfile.read_io.close()


def test_a_stale_consolidated_document_is_ignored_on_request(plain):
    """By mode ``r-``, as the users of hdmf-zarr know it."""
    for key, value in contents(plain).items():
        if key.startswith("acquisition/trace/"):
            put(plain, key.replace("trace", "later"), value)
    assert list(read(plain).acquisition) == ["trace"]
    assert sorted(read(plain, "r-").acquisition) == ["later", "trace"]


def test_a_file_without_a_consolidated_document(folder):
    with NWBZarrIO(folder / "file.zarr", "w") as io:
        io.write(samples.plain_nwbfile(), consolidate_metadata=False)
    assert not is_consolidated(folder / "file.zarr")
    assert read(folder / "file.zarr").acquisition["trace"].data.shape == (20, 3)


# ---- values --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def values_file(shared_folder: Place) -> Place:
    attributes = GroupBuilder(name="attributes", attributes=samples.attribute_values())
    builder = GroupBuilder(name="root", datasets=samples.dataset_builders(), groups={"attributes": attributes})
    return write_builder(shared_folder / "values.zarr", builder)


_DTYPES = {
    "big_endian": ">i4", "python_ints": "i4", "python_floats": "f4", "python_bools": "?", "texts": "O",
    "text_matrix": "O", "no_texts": "O", "text": "U", "ascii": "O", "times": "O", "time": "U",
}  # fmt: skip


@pytest.mark.parametrize("mode", ["r", "r-", pytest.param("r+", marks=APPEND)])
def test_every_kind_of_dataset_comes_back(values_file, mode):
    written, found = samples.dataset_builders(), read_builder(values_file, mode).datasets
    assert found.keys() == written.keys()
    wrong = []
    for name, builder in written.items():
        data = found[name].data
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


def test_words_for_the_types_of_datasets(values_file):
    """What hdmf and its validator take a dataset for."""
    found = {name: builder.dtype for name, builder in read_builder(values_file).datasets.items()}
    for code in samples.NUMBERS:
        word = np.dtype(code).name
        assert {found[f"{form}_{word}"] for form in ("array", "matrix", "scalar", "empty")} == {np.dtype(code)}
    assert {found[name] for name in ("texts", "text", "times", "time", "text_matrix", "no_texts")} == {"utf8"}
    assert found["ascii"] == "ascii"
    assert found["text_rows"] == [{"name": "number", "dtype": "int32"}, {"name": "text", "dtype": "utf"}]


def test_every_kind_of_attribute_comes_back(values_file):
    written, found = samples.attribute_values(), read_builder(values_file)["attributes"].attributes
    assert found.keys() == written.keys()
    for name, value in written.items():
        assert identical(found[name], value), (name, found[name], value)
        if not isinstance(value, np.ndarray):
            assert type(found[name]) is type(value), name


def test_how_arrays_are_stored(values_file):
    """The table in the format page: readable by as many tools as can be."""
    for name in samples.dataset_builders():
        array, attributes = document(values_file, f"{name}/.zarray"), document(values_file, f"{name}/.zattrs")
        kind = name.partition("_")[0]
        # any other fill value is a value that xarray turns into NaN: 0, or the empty text
        assert (array["fill_value"], array["order"]) == (None, "C")
        assert len(attributes["_ARRAY_DIMENSIONS"]) == len(array["shape"]) > 0
        if array["dtype"] == "|O":
            (codec,) = array["filters"]
            assert codec["id"] == ("json2" if name == "text_rows" else "vlen-utf8")
        else:
            assert array["filters"] is None
            assert isinstance(array["dtype"], list) or array["dtype"][0] in "<>|"
        if kind in ("scalar", "text", "time") and name in ("text", "time", f"scalar_{name.partition('_')[2]}"):
            assert (array["shape"], array["compressor"], attributes["zarr_dtype"]) == ([1], None, "scalar")
        else:
            assert attributes["zarr_dtype"] != "scalar"
            assert array["compressor"] is not None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(np.array([1, None], dtype=object), id="None"),
        pytest.param(np.array([["ragged"], []], dtype=object), id="ragged"),
        pytest.param(np.zeros(2, "g"), id="long double"),
    ],
)
def test_what_has_no_place_in_zarr_is_refused(folder, data):
    builder = DatasetBuilder(name="bad", data=data)
    with ZarrIO(folder / "file.zarr", "w") as io, pytest.raises(TypeError) as caught:
        io.write_builder(GroupBuilder(name="root", datasets={"bad": builder}))
    assert "/bad" in str(caught.value)
    with pytest.raises(StoreNotFoundError):
        ZarrIO(folder / "file.zarr")


def test_reserved_names_are_hidden_and_a_users_own_come_back(folder):
    own = {name: f"mine: {name}" for name in sorted(RESERVED)} | {"user_zarr_dtype": 1, "plain": 2}
    inner = GroupBuilder(name="inner", attributes=dict(own))
    dataset = DatasetBuilder(name="numbers", data=np.arange(3), dtype="int64", attributes=dict(own))
    path = write_builder(
        folder / "file.zarr", GroupBuilder(name="root", groups={"inner": inner}, datasets={"numbers": dataset})
    )
    builder = read_builder(path)
    assert dict(builder["inner"].attributes) == own
    assert dict(builder["numbers"].attributes) == own
    assert builder["numbers"].data[:].tolist() == [0, 1, 2]
    assert dict(builder.attributes) == {}


def test_strict_json(folder):
    attributes = {"nan": float("nan"), "infinities": np.array([np.inf, -np.inf], "f4"), "user": "NaN"}
    path = folder / "file.zarr"
    with ZarrIO(path, "w", strict_json=True) as io:
        io.write_builder(GroupBuilder(name="root", attributes=attributes))

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is no JSON")

    for name in (".zattrs", ".zmetadata"):
        json.loads(contents(path)[name], parse_constant=refuse)
    found = read_builder(path).attributes
    assert all(identical(found[name], value) for name, value in attributes.items())


# ---- object codecs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("io_class", [ZarrIO, NWBZarrIO])
@pytest.mark.parametrize(("codec", "ids"), [("JSON", "json2"), ("MsgPack", "msgpack2"), ("Pickle", "pickle")])
def test_the_codec_of_references_is_the_users_choice(folder, io_class, codec, ids):
    path = folder / "file.zarr"
    with _may_warn(codec == "Pickle"):
        io = io_class(path, "w", object_codec_class=_codec(codec))
    with io:
        assert io.object_codec_class is _codec(codec)
        io.write_builder(samples.reference_tree())
    for name in ("references", "reference_matrix", "reference", "rows"):
        assert document(path, f"inner/deep/{name}/.zarray")["filters"][0]["id"] == ids
    check_reference_tree(read_builder(path))


def _codec(name: str) -> Any:
    if name == "MsgPack":
        pytest.importorskip("msgpack")  # numcodecs has the codec only where this is installed
    return getattr(numcodecs, name)


def _may_warn(expected: bool) -> Any:
    from contextlib import nullcontext

    return pytest.warns(UserWarning, match="[Pp]ickle") if expected else nullcontext()


@pytest.mark.parametrize("codec", ["MsgPack", "Pickle"])
def test_an_nwb_file_with_the_other_codecs(rich_hdf5, folder, codec):
    with _may_warn(codec == "Pickle"):
        io = NWBZarrIO(folder / "file.zarr", "w", object_codec_class=_codec(codec))
    with io, NWBHDF5IO(rich_hdf5, "r") as source:
        io.export(source)
        with NWBZarrIO(folder / "file.zarr") as written:
            same_containers(written.read(), source.read())


def test_other_codecs_are_refused(folder):
    with pytest.raises(UsageError, match="JSON"):
        ZarrIO(folder / "file.zarr", "w", object_codec_class=numcodecs.Zlib)


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


def test_references_and_links_stay_internal_on_export(folder):
    first = write_builder(folder / "first.zarr", samples.reference_tree())
    with ZarrIO(first) as source, ZarrIO(folder / "second.zarr", "w") as io:
        io.export(source, cache_spec=False)
    remove(first)
    check_reference_tree(read_builder(folder / "second.zarr"))


def test_each_target_is_resolved_once(folder):
    path = write_builder(folder / "file.zarr", samples.reference_tree())
    with ZarrIO(path) as io:
        references = io.read_builder()["inner/deep/references"].data
        assert references[0] is references[2]
        assert references.invert() is references.invert()
        assert references.invert().invert() is references


def test_links_and_references_say_what_they_mean_by_object_ids(folder):
    path = write_builder(folder / "file.zarr", samples.reference_tree())
    attributes = document(path, "inner/deep/.zattrs")
    ids = {"object_id": "values-id", "source_object_id": "root-id"}
    assert attributes["zarr_link"][1] == {"name": "link_to_dataset", "source": ".", "path": "/target/values", **ids}
    reference = {"source": ".", "path": "/target/values", **ids}
    assert attributes["to_dataset"] == {"zarr_dtype": "object", "value": reference}


def _two_files(folder: Place) -> tuple[Place, Place]:
    """Write a file, and one in another folder that links to a group and a dataset of the first."""
    first = samples.write_zarr(folder / "data" / "first.zarr", samples.plain_nwbfile("first"))
    (folder / "linked").mkdir(parents=True)
    second = folder / "linked" / "second.zarr"
    with NWBZarrIO(first) as source, NWBZarrIO(second, "w", manager=source.manager) as io:
        trace = source.read().acquisition["trace"]
        nwbfile = samples.plain_nwbfile("second")
        nwbfile.add_acquisition(TimeSeries(name="linked_data", data=trace.data, unit="m", rate=1.0))
        nwbfile.add_acquisition(trace_like(trace))
        io.write(nwbfile, link_data=True)
    return first, second


def trace_like(trace: TimeSeries) -> TimeSeries:
    return TimeSeries(name="same_timestamps", data=np.arange(20.0), unit="m", rate=2.0, comments=trace.comments)


def test_external_links_are_relative_and_survive_a_move_of_both(folder):
    (folder / "here").mkdir()
    first, second = _two_files(folder / "here")
    (link,) = document(second, "acquisition/linked_data/.zattrs")["zarr_link"]
    assert (link["name"], link["path"]) == ("data", "/acquisition/trace/data")
    assert link["source"] == f"../../data/{first.name}"
    before = read(second, **FOLLOW).acquisition["linked_data"].data
    assert before.location == str(first)
    (folder / "here").rename(folder / "there")
    data = read(folder / "there" / "linked" / "second.zarr", **FOLLOW).acquisition["linked_data"].data
    assert data[:].tolist() == np.arange(60).reshape(20, 3).tolist()
    assert data.location == str(folder / "there" / "data" / "first.zarr")


@pytest.mark.parametrize("link_data", [True, False])
def test_data_of_another_file_are_linked_or_copied(plain, folder, link_data):
    with NWBZarrIO(plain) as source, NWBZarrIO(folder / "new.zarr", "w") as io:
        nwbfile = samples.plain_nwbfile("new")
        data = source.read().acquisition["trace"].data
        nwbfile.add_acquisition(TimeSeries(name="far", data=data, unit="m", rate=1.0))
        io.write(nwbfile, link_data=link_data)
    assert has_document(folder / "new.zarr", "acquisition/far/data/.zarray") is not link_data
    assert read(folder / "new.zarr").acquisition["far"].data[:].tolist() == np.arange(60).reshape(20, 3).tolist()


def test_one_dataset_is_linked_where_the_others_are_copied(plain, folder):
    with NWBZarrIO(plain) as source, NWBZarrIO(folder / "new.zarr", "w") as io:
        nwbfile = samples.plain_nwbfile("new")
        data = source.read().acquisition["trace"].data
        nwbfile.add_acquisition(TimeSeries(name="copied", data=data, unit="m", rate=1.0))
        linked = ZarrDataIO(data, link_data=True)
        nwbfile.add_acquisition(TimeSeries(name="linked", data=linked, unit="m", rate=1.0))
        io.write(nwbfile, link_data=False)
    assert has_document(folder / "new.zarr", "acquisition/copied/data/.zarray")
    assert not has_document(folder / "new.zarr", "acquisition/linked/data/.zarray")
    acquisition = read(folder / "new.zarr").acquisition
    assert acquisition["copied"].data[:].tolist() == acquisition["linked"].data[:].tolist()


def _export(source: Place, target: Place, **options: Any) -> Place:
    with NWBZarrIO(source, **FOLLOW) as src, NWBZarrIO(target, "w") as io:
        io.export(src, **options)
    return target


def test_export_keeps_links_to_other_files(folder):
    first, second = _two_files(folder)
    third = _export(second, folder / "third.zarr")
    remove(second)
    (link,) = document(third, "acquisition/linked_data/.zattrs")["zarr_link"]
    assert link == {
        "name": "data", "source": f"../data/{first.name}", "path": "/acquisition/trace/data", "object_id": None,
        "source_object_id": document(first, ".zattrs")["object_id"],
    }  # fmt: skip
    assert read(third, **FOLLOW).acquisition["linked_data"].data[19].tolist() == [57, 58, 59]


@pytest.mark.parametrize("way", ["everything", "container", "HDF5"])
def test_export_copies_the_data_of_other_files_on_request(folder, tmp_path, way):
    first, second = _two_files(folder)
    args = {"link_data": False}
    if way == "everything":
        third = _export(second, folder / "third.zarr", write_args=args)
    elif way == "container":
        third = folder / "third.zarr"
        with NWBZarrIO(second, **FOLLOW) as source, NWBZarrIO(third, "w") as io:
            nwbfile = source.read()
            nwbfile.acquisition["linked_data"].set_modified()
            io.export(source, nwbfile, write_args=args)
    else:
        with NWBZarrIO(second, **FOLLOW) as source, NWBHDF5IO(tmp_path / "third.nwb", "w") as io:
            io.export(source, write_args=args)
        third = folder / "third.zarr"
        with NWBHDF5IO(tmp_path / "third.nwb", "r") as source, NWBZarrIO(third, "w") as io:
            io.export(source)
    remove(first)
    remove(second)
    assert has_document(third, "acquisition/linked_data/data/.zarray")
    assert read(third, **FOLLOW).acquisition["linked_data"].data[19].tolist() == [57, 58, 59]


@pytest.mark.parametrize("link_data", [True, False])
def test_export_keeps_links_to_groups_of_other_files(folder, link_data):
    """What they hold is where it was, with what belongs to it; and it has no other parent than who links to it."""
    first = samples.write_zarr(folder / "first.zarr", samples.plain_nwbfile("first"))
    with NWBZarrIO(first) as source, NWBZarrIO(folder / "second.zarr", "w", manager=source.manager) as io:
        nwbfile = NWBFile("links to groups", "second", samples.START)
        nwbfile.add_acquisition(source.read().acquisition["trace"])
        io.write(nwbfile)
    third = _export(folder / "second.zarr", folder / "third.zarr", write_args={"link_data": link_data})
    for path in (folder / "second.zarr", third):
        assert [key for key in keys_of(path) if key.startswith("acquisition/") and key.count("/") > 1] == []
        nwbfile = read(path)
        trace = nwbfile.acquisition["trace"]
        assert trace.container_source == str(first)
        assert trace.parent is nwbfile
        assert trace.get_ancestor("NWBFile") is nwbfile
        assert trace.data[0].tolist() == [0, 1, 2]


def test_a_link_to_the_inside_of_a_file_does_not_read_the_whole_of_it(folder):
    first, second = _two_files(folder)
    with NWBZarrIO(second, **FOLLOW) as io:
        target = io.read_builder()["acquisition/linked_data"].links["data"].builder
        assert target.parent is None
        assert (target.source, target.location) == (str(first), "/acquisition/trace")


def test_a_chain_of_links(folder):
    """Through a link to a group that holds a link, within a file and over another one."""
    values = DatasetBuilder(name="values", data=np.arange(3), dtype="int64")
    first = write_builder(folder / "first.zarr", GroupBuilder(name="root", datasets={"values": values}))
    second = (folder / "second.zarr").name
    entries = {
        "second.zarr": [{"name": "one", "source": f"../{first.name}", "path": "/values"}],
        "third.zarr": [
            {"name": "two", "source": f"../{second}", "path": "/one"},
            {"name": "all", "source": f"../{second}", "path": "/"},
            {"name": "far", "source": ".", "path": "/all/one"},
            {"name": "near", "source": ".", "path": "/two"},
        ],
    }
    for name, links in entries.items():
        write_builder(folder / name, GroupBuilder(name="root"))
        change_attributes(folder / name, "", lambda attributes, links=links: attributes.update(zarr_link=links))
    with ZarrIO(folder / "third.zarr") as io:
        links = io.read_builder().links
        assert [links[name].builder.data[:].tolist() for name in ("two", "far", "near")] == [[0, 1, 2]] * 3
        assert links["two"].builder is links["far"].builder is links["near"].builder
        assert links["two"].builder.source == str(first)


def test_a_group_that_is_called_root(folder):
    inner = GroupBuilder(name="root", datasets={"x": DatasetBuilder(name="x", data=[1], dtype="int64")})
    links = {"link": LinkBuilder(builder=inner, name="link")}
    path = write_builder(folder / "first.zarr", GroupBuilder(name="root", groups={"root": inner}, links=links))
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
    with ZarrIO(path, "w", manager=get_manager()) as io:
        io.write(table)
    with ZarrIO(path, manager=get_manager()) as io:
        found = io.read()
        assert found["a"].data[:].tolist() == [1, 2]
        assert found["to"].data[1] is found
    with ZarrIO(path, "w", manager=get_manager()) as io:
        io.write(other)
    with ZarrIO(path, manager=get_manager()) as io:
        assert io.read()["b"].data[:].tolist() == [5]


def test_builders_and_containers_of_arrays(rich_zarr):
    with NWBZarrIO(rich_zarr) as io:
        trace = io.read().acquisition["trace"]
        builder = io.get_builder(trace.data)
        assert builder is io.read_builder()["acquisition/trace/data"]
        assert io.get_written(builder)
        electrodes = io.read().electrodes
        assert io.get_container(electrodes["x"].data) is electrodes["x"]


# ---- dimensions ----------------------------------------------------------------------------------------------------


def test_dimension_labels_name_the_axes(folder):
    path = samples.write_zarr(folder / "file.zarr")
    names = {
        "acquisition/trace/data": ["num_times", "num_DIM2"],
        "acquisition/raw/data": ["num_times", "num_channels"],
        "acquisition/two_photon/data": ["time", "width", "height"],
    }
    for array, labels in names.items():
        assert document(path, f"{array}/.zattrs")["_ARRAY_DIMENSIONS"] == labels


def test_no_label_has_two_lengths_in_a_group(rich_zarr):
    with ZarrIO(rich_zarr) as io:
        io.read_builder()
    attributes, lengths = _nodes(rich_zarr, ".zattrs"), {}
    for node, array in _nodes(rich_zarr, ".zarray").items():
        labels = attributes[node]["_ARRAY_DIMENSIONS"]
        assert len(labels) == len(array["shape"])
        for label, length in zip(labels, array["shape"], strict=True):
            assert lengths.setdefault((node.rpartition("/")[0], label), length) == length, (node, label)
    assert len(lengths) > 20


def test_dimension_labels_come_back_as_they_were(folder):
    labels = {"a": ("time", None), "b": ("time", "time"), "c": None, "d": ("x,y",)}
    shapes = {"a": (4, 2), "b": (3, 5), "c": (6,), "d": (2,)}
    datasets = {
        name: DatasetBuilder(name=name, data=np.zeros(shape), dtype="float64", dimension_labels=labels[name])
        for name, shape in shapes.items()
    }
    path = write_builder(folder / "file.zarr", GroupBuilder(name="root", datasets=datasets))
    found = read_builder(path)
    assert {name: found[name].dimension_labels for name in ("a", "b", "d")} == {n: labels[n] for n in ("a", "b", "d")}
    stored = {name: document(path, f"{name}/.zattrs")["_ARRAY_DIMENSIONS"] for name in labels}
    assert stored["a"] == ["time", "_anonymous2"]
    assert stored["b"] == ["time_3", "time_5"]
    assert stored["c"] == ["_anonymous6"]


# ---- specifications ------------------------------------------------------------------------------------------------


def _extension(
    folder: Path, name: str = "ndx-made-up", *, version: str = "0.1.0", doc: str = "a made-up series"
) -> str:
    """Write an extension with one type that nothing else knows; return the path of its namespace."""
    builder = NWBNamespaceBuilder(doc="made up", name=name, version=version, author="nobody", contact="no@where.org")
    builder.include_type("TimeSeries", namespace="core")
    spec = NWBGroupSpec(
        doc, neurodata_type_def="MadeUpSeries", neurodata_type_inc="TimeSeries",
        attributes=[NWBAttributeSpec(name="knob", doc="a knob", dtype="uint8")],
    )  # fmt: skip
    builder.add_spec(f"{name}.extensions.yaml", spec)
    builder.export(f"{name}.namespace.yaml", outdir=str(folder))
    return str(folder / f"{name}.namespace.yaml")


def _write_with_extension(path: Place, namespace: str) -> Place:
    type_map = get_type_map()
    type_map.load_namespaces(namespace)
    series_class = type_map.get_dt_container_cls("MadeUpSeries", "ndx-made-up")
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_acquisition(series_class(name="made_up", data=[1.0, 2.0], unit="m", rate=1.0, knob=np.uint8(7)))
    with NWBZarrIO(path, "w", extensions=type_map) as io:
        io.write(nwbfile)
    return path


def test_an_extension_that_only_the_file_knows(folder, tmp_path):
    namespace = _extension(tmp_path)
    path = _write_with_extension(folder / "file.zarr", namespace)
    Path(namespace).unlink()
    with NWBZarrIO(path) as io:
        series = io.read().acquisition["made_up"]
        assert type(series).__name__ == "MadeUpSeries"
        assert (series.knob, series.knob.dtype) == (7, np.uint8)
        assert validate(io=io) == []


@pytest.mark.parametrize("form", [str, Path, lambda path: [path]], ids=["str", "Path", "list"])
def test_an_extension_that_is_passed(folder, tmp_path, form):
    """Instead of those that are cached, which may be there or not."""
    namespace = _extension(tmp_path)
    path = _write_with_extension(folder / "file.zarr", namespace)
    delete(path, "specifications/ndx-made-up")
    forget_consolidated(path)
    with NWBZarrIO(path) as io, pytest.raises(ContainerError, match="'ndx-made-up'"):
        io.read()
    with NWBZarrIO(path, extensions=form(namespace)) as io:
        assert type(io.read().acquisition["made_up"]).__name__ == "MadeUpSeries"


def test_cached_specifications_travel_with_an_export(folder, tmp_path):
    path = _write_with_extension(folder / "file.zarr", _extension(tmp_path))
    with NWBZarrIO(path) as source, NWBHDF5IO(tmp_path / "file.nwb", "w") as io:
        io.export(source, write_args={"link_data": False})
    with NWBHDF5IO(tmp_path / "file.nwb", "r") as source, NWBZarrIO(folder / "back.zarr", "w") as io:
        io.export(source)
    with NWBZarrIO(folder / "back.zarr") as io:
        assert io.read().acquisition["made_up"].knob == 7
    assert {"core", "ndx-made-up"} <= ZarrIO.load_namespaces(_catalog(), folder / "back.zarr").keys()


def test_where_specifications_are(plain):
    assert document(plain, ".zattrs")[".specloc"] == "specifications"
    (version,) = {key.split("/")[2] for key in keys_of(plain) if key.startswith("specifications/core/2")}
    array = document(plain, f"specifications/core/{version}/namespace/.zarray")
    assert (array["dtype"], array["shape"], array["filters"]) == ("|O", [1], [{"id": "vlen-utf8"}])
    assert "specifications" not in read_builder(plain).groups


@pytest.mark.parametrize(
    ("versions", "newest"),
    [
        (["2.9.0", "2.11.0"], "2.11.0"),
        (["1.0.0", "1.0.0-alpha", "0.9.9"], "1.0.0"),
        (["1.8.0-alpha", "1.8.0-beta"], "1.8.0-beta"),
    ],
)
def test_the_newest_of_several_cached_versions_counts(folder, tmp_path, versions, newest):
    path = samples.write_zarr(folder / "file.zarr", samples.plain_nwbfile())
    for version in versions:
        (tmp_path / version).mkdir()
        namespace = _extension(tmp_path / version, version=version, doc=f"as of {version}")
        for key, value in contents(_write_with_extension(folder / f"{version}.zarr", namespace)).items():
            if key.startswith("specifications/ndx-made-up/"):
                put(path, key, value)
    forget_consolidated(path)
    type_map = get_type_map()
    assert "ndx-made-up" in ZarrIO.load_namespaces(type_map, path)
    catalog = type_map.namespace_catalog
    assert catalog.get_namespace("ndx-made-up").version == newest
    assert catalog.get_spec("ndx-made-up", "MadeUpSeries").doc == f"as of {newest}"


def _catalog() -> NamespaceCatalog:
    return NamespaceCatalog(NWBGroupSpec, NWBDatasetSpec, NWBNamespace)


def test_only_the_namespaces_that_are_asked_for(plain):
    catalog = NamespaceCatalog()
    assert "hdmf-common" in ZarrIO.load_namespaces(catalog, plain, namespaces=["hdmf-common"])
    assert "core" not in catalog.namespaces
    with ZarrIO(plain) as io:
        catalog = _catalog()
        assert set(io.load_namespaces_io(catalog)) == {"core", "hdmf-common", "hdmf-experimental"}
        assert ZarrIO.load_namespaces(_catalog(), file=io._file).keys() == set(catalog.namespaces)
    with pytest.raises(UsageError, match="no file is given"):
        ZarrIO.load_namespaces(NamespaceCatalog())
    with pytest.raises(ModeError, match="closed file"):
        io.load_namespaces_io(NamespaceCatalog())


def test_without_cached_specifications(folder):
    with NWBZarrIO(folder / "file.zarr", "w") as io:
        io.write(samples.plain_nwbfile(), cache_spec=False)
    assert not any(key.startswith("specifications/") for key in keys_of(folder / "file.zarr"))
    with pytest.warns(MissingNamespacesWarning, match=re.escape(str(folder / "file.zarr"))):
        assert read(folder / "file.zarr").identifier == "plain"
    assert read(folder / "file.zarr", load_namespaces=False).identifier == "plain"


@pytest.mark.parametrize("form", [{"source": ".", "path": "/specs"}, {"path": "/specs", "zarr_dtype": "object"}])
def test_specloc_in_its_old_forms(plain, form):
    for key, text in contents(plain).items():
        if key.startswith("specifications/"):
            put(plain, key.replace("specifications", "specs", 1), text)
    delete(plain, "specifications")
    value = form if "zarr_dtype" not in form else {"zarr_dtype": "object", "value": {"source": ".", "path": "/specs"}}
    change_attributes(plain, "", lambda attributes: attributes.update({".specloc": value}))
    assert "core" in ZarrIO.load_namespaces(_catalog(), plain)
    assert "specs" not in read_builder(plain).groups


def test_a_cached_specification_that_is_no_json_is_an_error(folder, tmp_path):
    path = _write_with_extension(folder / "file.zarr", _extension(tmp_path))
    spoiled = numcodecs.VLenUTF8().encode(np.array(["{no json"], dtype=object))
    put(path, "specifications/ndx-made-up/0.1.0/namespace/0", bytes(spoiled))
    forget_consolidated(path)
    with pytest.raises(MetadataError) as caught:
        NWBZarrIO(path)
    assert caught.value.store == str(path)
    assert caught.value.path == "/specifications/ndx-made-up/0.1.0/namespace"


# ---- iterators -----------------------------------------------------------------------------------------------------


class _Blocks(AbstractDataChunkIterator):
    """Data chunks in any order, from pairs of place and values; no hints."""

    def __init__(self, dtype: str, maxshape: tuple[int | None, ...], *blocks: tuple[tuple[int, ...], Any]) -> None:
        self._dtype, self._maxshape, self._left = dtype, maxshape, iter(blocks)

    def __iter__(self) -> Any:
        return self

    def __next__(self) -> DataChunk:
        start, values = next(self._left)
        return DataChunk(values, tuple(slice(s, s + n) for s, n in zip(start, values.shape, strict=True)))

    next = __next__

    def recommended_chunk_shape(self) -> None:
        return None

    def recommended_data_shape(self) -> None:
        return None

    @property
    def dtype(self) -> str:
        return self._dtype

    @property
    def maxshape(self) -> tuple[int | None, ...]:
        return self._maxshape


class _Squares(GenericDataChunkIterator):
    def __init__(self, values: np.ndarray[Any, Any], **options: Any) -> None:
        self.values = values
        super().__init__(**options)

    def _get_data(self, selection: tuple[slice, ...]) -> np.ndarray[Any, Any]:
        return self.values[selection]

    def _get_maxshape(self) -> tuple[int, ...]:
        return self.values.shape

    def _get_dtype(self) -> np.dtype[Any]:
        return self.values.dtype


NUMBERS = np.arange(35, dtype="i4").reshape(7, 5)

ITERATORS: dict[str, tuple[Callable[[], Any], Any]] = {
    "rows": (lambda: DataChunkIterator(data=iter(NUMBERS), buffer_size=2), NUMBERS),
    "array": (lambda: DataChunkIterator(data=NUMBERS, buffer_size=3), NUMBERS),
    "with a dtype": (lambda: DataChunkIterator(data=iter(NUMBERS), maxshape=(None, 5), dtype=np.dtype("i4")), NUMBERS),
    "generic": (lambda: _Squares(NUMBERS, buffer_shape=(4, 5), chunk_shape=(2, 5)), NUMBERS),
    "out of order": (
        lambda: _Blocks("i4", (None, 5), ((4, 0), NUMBERS[4:]), ((0, 2), NUMBERS[:4, 2:]), ((0, 0), NUMBERS[:4, :2])),
        NUMBERS,
    ),
    "growing on each axis": (
        lambda: _Blocks("i4", (None,) * 2, ((0, 0), NUMBERS[:1, :1]), ((0, 1), NUMBERS[:1, 1:]), ((1, 0), NUMBERS[1:])),
        NUMBERS,
    ),
    "large numbers": (
        lambda: DataChunkIterator(data=iter([2**60 + 1, 2**60 + 3])), np.array([2**60 + 1, 2**60 + 3])
    ),
    "text": (
        lambda: DataChunkIterator(data=iter(samples.TEXTS), buffer_size=2), np.array(samples.TEXTS, dtype=object)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ITERATORS)
def test_iterators(folder, name):
    make, expected = ITERATORS[name]
    builder = DatasetBuilder(name="data", data=make())
    path = write_builder(folder / "file.zarr", GroupBuilder(name="root", datasets={"data": builder}))
    for mode in ("r", "r-"):
        data = read_builder(path, mode)["data"].data
        assert identical(data[:], expected)
    assert document(path, "data/.zarray")["shape"] == list(expected.shape)


def test_iterators_in_turn(folder):
    """``exhaust_dci=False``: iterators that share a source each get their blocks as it goes on."""
    source: list[tuple[int, int]] = [(i, -i) for i in range(10)]
    taken: list[str] = []

    def follow(position: int) -> Iterator[np.ndarray[Any, Any]]:
        for pair in source:
            taken.append("ab"[position])
            yield np.array([pair[position]])

    datasets = {
        "ab"[i]: DatasetBuilder(name="ab"[i], data=DataChunkIterator(data=follow(i), buffer_size=2)) for i in range(2)
    }
    path = write_builder(folder / "file.zarr", GroupBuilder(name="root", datasets=datasets), exhaust_dci=False)
    found = read_builder(path)
    assert found["a"].data[:].ravel().tolist() == list(range(10))
    assert found["b"].data[:].ravel().tolist() == [-i for i in range(10)]
    order = "".join(taken)
    assert re.search("a+b+a+b+a+b+", order), order


def test_an_iterator_in_an_nwb_file(folder):
    nwbfile = samples.plain_nwbfile()
    data = DataChunkIterator(data=iter(NUMBERS), buffer_size=2)
    nwbfile.add_acquisition(TimeSeries(name="stream", data=data, unit="m", rate=1.0))
    path = samples.write_zarr(folder / "file.zarr", nwbfile)
    with NWBZarrIO(path) as io:
        stream = io.read().acquisition["stream"]
        assert identical(stream.data[:], NUMBERS)
        assert stream.data.maxshape[0] is None
        assert validate(io=io) == []


# ---- storage options -----------------------------------------------------------------------------------------------


def _stored(folder: Place, data: Any, **options: Any) -> tuple[dict[str, Any], Any]:
    builder = DatasetBuilder(name="data", data=ZarrDataIO(data, **options))
    path = write_builder(folder / "file.zarr", GroupBuilder(name="root", datasets={"data": builder}))
    return document(path, "data/.zarray"), read_builder(path)["data"].data


def test_chunks(folder):
    array, data = _stored(folder, NUMBERS, chunks=(2, 3))
    assert array["chunks"] == [2, 3]
    assert data.chunks == (2, 3)
    assert identical(data[:], NUMBERS)
    assert len([key for key in keys_of(folder / "file.zarr") if key.startswith("data/") and key[-1].isdigit()]) == 8


def test_one_chunk_where_nothing_is_said(folder):
    array, _ = _stored(folder, NUMBERS)
    assert array["chunks"] == [7, 5]


@pytest.mark.filterwarnings("ignore:Numcodecs codecs are not in the Zarr version 3")
@pytest.mark.parametrize(
    ("option", "stored"),
    [
        (False, None),
        (None, "default"),
        (True, "default"),
        (numcodecs.Zlib(level=3), {"id": "zlib", "level": 3}),
        ({"id": "zlib", "level": 3}, {"id": "zlib", "level": 3}),
        (numcodecs.Zstd(level=5), {"id": "zstd", "level": 5}),
        (numcodecs.Blosc("zstd", 4, numcodecs.Blosc.BITSHUFFLE),
         {"id": "blosc", "cname": "zstd", "clevel": 4, "shuffle": 2, "blocksize": 0}),
    ],
)  # fmt: skip
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


def test_filters(folder):
    array, data = _stored(folder, NUMBERS, filters=[numcodecs.Delta(dtype="i4")])
    assert [codec["id"] for codec in array["filters"]] == ["delta"]
    assert identical(data[:], NUMBERS)


@pytest.mark.parametrize("fillvalue", [-1, 0, None])
def test_fill_value(cell, folder, fillvalue):
    array, _ = _stored(folder, NUMBERS, fillvalue=fillvalue, chunks=(2, 5))
    is_given = cell.zarr_format == 2 or fillvalue != 0  # in format 3 there is always one, and 0 is that of nobody
    assert array["fill_value"] == (fillvalue if is_given else None)
    chunk = {2: "data/0.0", 3: "data/c/0/0"}[cell.zarr_format]
    assert chunk in keys_of(folder / "file.zarr")
    delete(folder / "file.zarr", chunk)
    rest = read_builder(folder / "file.zarr")["data"].data
    assert rest[0].tolist() == [fillvalue or 0] * 5
    assert identical(rest[2:], NUMBERS[2:])


def test_largest_shape(folder):
    _, data = _stored(folder, NUMBERS, maxshape=(None, 5))
    assert data.maxshape == (None, 5)
    with ZarrIO(folder / "file.zarr") as io:
        assert io.read_builder()["data"].maxshape == (None, 5)


def test_storage_options_are_not_changed_by_a_write(folder):
    wrapped = ZarrDataIO(NUMBERS, chunks=(2, 5), compressor=numcodecs.Zlib(1))
    before = copy.deepcopy(wrapped.get_io_params())
    for i in range(2):
        builder = GroupBuilder(name="root", datasets={"data": DatasetBuilder(name="data", data=wrapped)})
        write_builder(folder / f"{i}.zarr", builder)
    assert wrapped.get_io_params() == before
    assert ZarrDataIO(NUMBERS, **wrapped.get_io_params()).get_io_params() == before
    for made in (copy.copy(wrapped), copy.deepcopy(wrapped)):
        assert isinstance(made, ZarrDataIO)
        assert made.get_io_params() == before
        assert identical(np.array(made, dtype="f8"), NUMBERS.astype("f8"))


@pytest.mark.parametrize("options", [{"chunks": (0,)}, {"compressor": "lzo"}, {"filters": [3]}, {"chunks": (2, -1)}])
def test_storage_options_that_are_none(options):
    with pytest.raises(UsageError):
        ZarrDataIO(NUMBERS, **options)


def test_storage_options_in_an_nwb_file(folder, cell):
    nwbfile = samples.plain_nwbfile()
    data = ZarrDataIO(NUMBERS, chunks=(3, 5), compressor=False)
    nwbfile.add_acquisition(TimeSeries(name="chunked", data=data, unit="m", rate=1.0))
    column = VectorData(name="column", description="text", data=ZarrDataIO(["a", "b"], compressor=numcodecs.Zlib(2)))
    nwbfile.add_acquisition(DynamicTable(name="table", description="a table", columns=[column]))
    path = samples.write_zarr(folder / "file.zarr", nwbfile)
    array = document(path, "acquisition/chunked/data/.zarray")
    assert (array["chunks"], array["compressor"]) == ([3, 5], None)
    zlib = {"id": "zlib" if cell.zarr_format == 2 else "gzip", "level": 2}
    assert document(path, "acquisition/table/column/.zarray")["compressor"] == zlib
    with NWBZarrIO(path) as io:
        nwbfile = io.read()
        assert identical(nwbfile.acquisition["chunked"].data[:], NUMBERS)
        assert nwbfile.acquisition["table"]["column"][1] == "b"


def test_options_of_hdf5_are_taken_as_data(folder):
    nwbfile = samples.plain_nwbfile()
    data = H5DataIO(NUMBERS, compression="gzip", chunks=(2, 5))
    nwbfile.add_acquisition(TimeSeries(name="series", data=data, unit="m", rate=1.0))
    with pytest.warns(UserWarning, match="compression"):
        path = samples.write_zarr(folder / "file.zarr", nwbfile)
    found = read(path).acquisition["series"].data
    assert identical(found[:], NUMBERS)
    assert found.chunks == (2, 5)


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


# ---- appending -----------------------------------------------------------------------------------------------------


@APPEND
@pytest.mark.parametrize("mode", ["r+", "a"])
def test_adding_to_a_file(plain, mode):
    with NWBZarrIO(plain, mode) as io:
        nwbfile = io.read()
        trace = nwbfile.acquisition["trace"]
        nwbfile.add_acquisition(TimeSeries(name="new", data=NUMBERS, unit="m", timestamps=np.arange(7.0)))
        nwbfile.add_acquisition(
            TimeSeries(name="linked", data=trace.data, unit="m", timestamps=nwbfile.acquisition["new"])
        )
        nwbfile.add_trial(start_time=0.0, stop_time=1.0, timeseries=[trace])
        io.write(nwbfile)
    for reading in ("r", "r-"):
        with NWBZarrIO(plain, reading) as io:
            found = io.read()
            assert sorted(found.acquisition) == ["linked", "new", "trace"]
            assert identical(found.acquisition["new"].data[:], NUMBERS)
            assert found.acquisition["linked"].data[5].tolist() == [15, 16, 17]
            assert found.acquisition["linked"].timestamps[6] == 6.0
            assert found.trials["timeseries"][0][0].timeseries is found.acquisition["trace"]
            assert validate(io=io) == []
    assert not has_document(plain, "acquisition/linked/data/.zarray")


@APPEND
def test_adding_rows(rich_zarr, folder):
    path = copy_file(rich_zarr, folder / "file.zarr")
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        electrodes = nwbfile.electrodes
        nwbfile.add_unit(
            id=99, spike_times=[0.5, 0.75], obs_intervals=[[0.0, 2.0]], electrodes=[1], waveform_mean=np.ones((6, 3)),
            electrode_group=nwbfile.electrode_groups["shank0"], quality="new", tags=["x"],
        )  # fmt: skip
        nwbfile.add_electrode(
            group=nwbfile.electrode_groups["shank1"], location="CA3", x=9.0, y=9.0, z=9.0, label="new", good=True
        )
        electrodes.add_column(name="added", description="a new column", data=[1, 2, 3, 4, 5])
        io.write(nwbfile)
    with NWBZarrIO(path) as io:
        nwbfile = io.read()
        assert nwbfile.units["spike_times"][5].tolist() == [0.5, 0.75]
        assert nwbfile.units["electrode_group"][5] is nwbfile.electrode_groups["shank0"]
        assert list(nwbfile.units["tags"][5]) == ["x"]
        assert nwbfile.units.id[5] == 99
        assert len(nwbfile.electrodes) == 5
        assert nwbfile.electrodes["group"][4] is nwbfile.electrode_groups["shank1"]
        assert nwbfile.electrodes["added"][:].tolist() == [1, 2, 3, 4, 5]
        assert nwbfile.electrodes["label"][4] == "new"
        assert validate(io=io) == []


@APPEND
def test_changing_and_growing_data_in_place(plain):
    with NWBZarrIO(plain, "r+") as io:
        data = io.read().acquisition["trace"].data
        data[3] = [-1, -2, -3]
        data.append(np.array([[7, 8, 9]], "i2"))
        assert data[-1].tolist() == [7, 8, 9]
    for mode in ("r", "r-"):
        data = read(plain, mode).acquisition["trace"].data
        assert data.shape == (21, 3)
        assert data[3].tolist() == [-1, -2, -3]
        assert data[20].tolist() == [7, 8, 9]


@APPEND
def test_a_change_that_contradicts_the_file_is_refused(plain):
    builder = GroupBuilder(name="root", datasets={"identifier": DatasetBuilder(name="identifier", data="another")})
    with NWBZarrIO(plain, "r+") as io:
        io.read()
        with pytest.raises(ConflictError) as caught:
            io.write_builder(builder)
    assert (caught.value.store, caught.value.path) == (str(plain), "/identifier")
    assert "plain" in str(caught.value)
    assert "another" in str(caught.value)
    assert read(plain).identifier == "plain"


@APPEND
def test_a_mode_a_file_is_read_back_in_the_same_io(folder):
    with NWBZarrIO(folder / "file.zarr", "a") as io:
        io.write(samples.plain_nwbfile())
    with NWBZarrIO(folder / "file.zarr", "a") as io:
        assert io.read().identifier == "plain"


def test_export_of_a_changed_container(plain, folder):
    with NWBZarrIO(plain) as source, NWBZarrIO(folder / "new.zarr", "w") as io:
        nwbfile = source.read()
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0], unit="m", rate=1.0))
        nwbfile.acquisition["trace"].fields["comments"] = "changed"
        nwbfile.acquisition["trace"].set_modified()
        io.export(source, nwbfile)
    found = read(folder / "new.zarr")
    assert sorted(found.acquisition) == ["new", "trace"]
    assert found.acquisition["trace"].comments == "changed"
    assert identical(found.acquisition["trace"].data[:], np.arange(60, dtype="i2").reshape(20, 3))
    assert sorted(read(plain).acquisition) == ["trace"]


# ---- neighbours ----------------------------------------------------------------------------------------------------


def test_shown_to_people(rich_zarr):
    with NWBZarrIO(rich_zarr) as io:
        nwbfile = io.read()
        html = nwbfile._repr_html_()
        assert "(300, 3)" in html
        assert "closed" not in html
        data = nwbfile.acquisition["raw"].data
        assert repr(data) == f"<LazyArray {rich_zarr}/acquisition/raw/data shape=(300, 3) dtype=int16>"
        table = ZarrIO.generate_dataset_html(data)
        for part in ("(300, 3)", "int16", "Chunk", "blosc"):
            assert part.lower() in table.lower()
        assert "raw" in repr(nwbfile)


def test_resources_of_others(folder, tmp_path):
    path, herd_path = folder / "file.zarr", tmp_path / "herd.zip"
    nwbfile = samples.plain_nwbfile()
    herd = HERD()
    subject = nwbfile.subject = Subject(subject_id="m1", age="P1D", description="a mouse")
    herd.add_ref(container=subject, key="mouse", entity_id="NCBI:10090", entity_uri="https://example.org/10090")
    with NWBZarrIO(path, "w", herd_path=str(herd_path)) as io:
        io.write(nwbfile, herd=herd)
        assert io.herd_path == str(herd_path)
    with zipfile.ZipFile(herd_path) as archive:
        assert b"NCBI:10090" in b"".join(archive.read(name) for name in archive.namelist())


def test_data_behave_as_users_of_h5py_expect(rich_hdf5, rich_zarr):
    with NWBHDF5IO(rich_hdf5, "r") as one, NWBZarrIO(rich_zarr) as other:
        expected, data = (io.read().acquisition["raw"].data for io in (one, other))
        assert (len(data), data.shape, data.ndim, data.size) == (len(expected), expected.shape, 2, expected.size)
        assert data.dtype == expected.dtype
        for key in (
            0,
            -1,
            slice(2, 5),
            (slice(None), 1),
            (3, 2),
            [0, 5],
            slice(0, 9, 2),
            (slice(5), [0, 2]),
            Ellipsis,
            (),
        ):
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


def test_nothing_of_the_source_is_changed_by_an_export(rich_zarr, folder):
    before = contents(rich_zarr)
    with NWBZarrIO(rich_zarr) as source, NWBZarrIO(folder / "copy.zarr", "w") as io:
        io.export(source)
    assert contents(rich_zarr) == before


def test_the_class_says_what_each_argument_is():
    parameters = inspect.signature(ZarrIO).parameters.values()
    arguments = {parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD}
    parameters = inspect.getdoc(ZarrIO).partition("Raises\n")[0]
    named = set(re.findall(r"^(\w+) : ", parameters, re.MULTILINE))
    assert arguments == named
