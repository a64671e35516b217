"""The contract: links and references, in all forms."""

import os
from pathlib import Path
from typing import Any

import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, ReferenceBuilder
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import WrongTargetWarning
from tests import samples
from tests.cells import REFUSALS, Cell
from tests.documents import change_attributes, document
from tests.places import Place, remove
from tests.test_io import FOLLOW, read
from tests.trees import dataset, group, read_builder, root, write_builder

BACKENDS = {".nwb": NWBHDF5IO, ".nwb.zarr": NWBZarrIO}
_OPTIONS: dict[str, Any] = {".nwb": {}, ".nwb.zarr": FOLLOW}


# ---- the same as with HDF5 -----------------------------------------------------------------------------------------
def linked_files(folder: Place, suffix: str, *, append: bool) -> Place:
    backend = BACKENDS[suffix]
    first, second = folder / f"first{suffix}", folder / f"second{suffix}"
    with backend(str(first), "w") as io:
        io.write(samples.plain_nwbfile("first"))
    with backend(str(first), "r") as source, backend(str(second), "w", manager=source.manager) as io:
        far = source.read().acquisition["trace"]
        nwbfile = samples.plain_nwbfile("second")
        own = TimeSeries(name="own", data=[1.0, 2.0, 3.0], timestamps=[1.0, 2.0, 3.0], unit="m")
        nwbfile.add_acquisition(own)
        nwbfile.add_acquisition(TimeSeries(name="soft", data=own, timestamps=own, unit="m"))
        nwbfile.add_acquisition(TimeSeries(name="far data", data=far.data, unit="m", rate=1.0))
        io.write(nwbfile, link_data=True)
    if append:
        with backend(str(second), "r+") as io:
            nwbfile = io.read()
            data = nwbfile.acquisition["own"].data
            nwbfile.add_acquisition(TimeSeries(name="stored", data=data, unit="m", rate=1.0))
            io.write(nwbfile)
    return second


def kinds(path: Place, suffix: str) -> dict[str, Any]:
    """Return for each dataset of the acquisition whether it is a copy, or where its link leads."""
    results: dict[str, Any] = {}
    with BACKENDS[suffix](str(path), "r", **_OPTIONS[suffix]) as io:
        for name, series in io.read_builder()["acquisition"].groups.items():
            for member in {"data", "timestamps"} & {*series.datasets, *series.links}:
                if member in series.datasets:
                    results[f"{name}/{member}"] = "a copy"
                    continue
                target = series.links[member].builder
                file = "this file" if target.source == io.source else Path(target.source).name.partition(".")[0]
                results[f"{name}/{member}"] = (file, f"{target.location}/{target.name}")
    return results


@pytest.fixture(scope="module")
def both(cell: Cell, shared_folder: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Place]:
    folders = {".nwb": tmp_path_factory.mktemp("links"), ".nwb.zarr": shared_folder}
    append = "append" not in REFUSALS[cell.kind]
    return {suffix: linked_files(folders[suffix], suffix, append=append) for suffix in BACKENDS}


def test_a_write_links_what_hdf5_links(both):
    one, other = (kinds(path, suffix) for suffix, path in both.items())
    assert one == other
    assert one["far data/data"] == ("first", "/acquisition/trace/data")
    assert one["soft/timestamps"] == ("this file", "/acquisition/own/timestamps")


@pytest.mark.parametrize("way", ["everything", "container"])
@pytest.mark.parametrize("link_data", [True, False])
def test_an_export_links_what_hdf5_links(both, folder, tmp_path, link_data, way):
    """Internal stays internal; external stays external, or is copied on request."""
    results = []
    for suffix, path in both.items():
        backend, exported = BACKENDS[suffix], (tmp_path if suffix == ".nwb" else folder) / f"third{suffix}"
        with backend(str(path), "r", **_OPTIONS[suffix]) as source, backend(str(exported), "w") as io:
            nwbfile = source.read() if way == "container" else None
            io.export(source, nwbfile, {"link_data": link_data})
        results.append(kinds(exported, suffix))
    assert results[0] == results[1]
    assert (results[1]["far data/data"] == "a copy") is not link_data
    assert results[1]["soft/data"] == ("this file", "/acquisition/own/data")
    acquisition = read(exported, **FOLLOW).acquisition
    assert acquisition["soft"].data[:].tolist() == acquisition["soft"].timestamps[:].tolist() == [1.0, 2.0, 3.0]
    assert acquisition["far data"].data[19].tolist() == [57, 58, 59]
    if "stored" in acquisition:
        assert acquisition["stored"].data[:].tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("of_all", [True, False])
@pytest.mark.parametrize("of_one", [True, False])
def test_the_option_of_one_dataset_comes_first(both, folder, of_one, of_all):
    with NWBZarrIO(both[".nwb.zarr"].parent / "first.nwb.zarr") as source:
        data = source.read().acquisition["trace"].data
        nwbfile = samples.plain_nwbfile("new")
        nwbfile.add_acquisition(TimeSeries(name="it", data=ZarrDataIO(data, link_data=of_one), unit="m", rate=1.0))
        nwbfile.add_acquisition(TimeSeries(name="others", data=data, unit="m", rate=1.0))
        with NWBZarrIO(folder / "new.nwb.zarr", "w") as io:
            io.write(nwbfile, link_data=of_all)
    found = kinds(folder / "new.nwb.zarr", ".nwb.zarr")
    assert (found["it/data"] != "a copy", found["others/data"] != "a copy") == (of_one, of_all)


def test_a_link_into_an_hdf5_file_becomes_a_copy(both, folder):
    with NWBHDF5IO(str(both[".nwb"]), "r") as source, NWBZarrIO(folder / "new.nwb.zarr", "w") as io:
        io.export(source)
    found = kinds(folder / "new.nwb.zarr", ".nwb.zarr")
    assert found["far data/data"] == "a copy"
    assert found["soft/data"] == ("this file", "/acquisition/own/data")
    assert read(folder / "new.nwb.zarr").acquisition["far data"].data[19].tolist() == [57, 58, 59]


# ---- other directories, moves --------------------------------------------------------------------------------------
def neighbours(folder: Place) -> tuple[Place, Place]:
    first = folder / "raw data" / "größe.zarr"
    second = folder / "sorted" / "deep" / "second.zarr"
    for file in (first, second):
        file.parent.mkdir(parents=True)
    samples.write_zarr(first, samples.plain_nwbfile("first"))
    with NWBZarrIO(first) as source, NWBZarrIO(second, "w", manager=source.manager) as io:
        trace = source.read().acquisition["trace"]
        nwbfile = NWBFile("links", "second", samples.START)
        nwbfile.add_acquisition(trace)
        nwbfile.add_stimulus(TimeSeries(name="data", data=trace.data, unit="m", rate=1.0))
        nwbfile.add_trial(start_time=0.0, stop_time=1.0, timeseries=[trace])
        io.write(nwbfile)
    return first, second


def check_neighbours(second: Place, first: Place) -> None:
    nwbfile = read(second, **FOLLOW)
    trace = nwbfile.acquisition["trace"]
    assert (trace.data[1].tolist(), trace.container_source) == ([3, 4, 5], str(first))
    assert nwbfile.stimulus["data"].data[2].tolist() == [6, 7, 8]
    assert nwbfile.trials["timeseries"][0][0].timeseries is trace


def moved_together(folder: Place) -> tuple[Place, Place]:
    neighbours(folder / "here")
    (folder / "far" / "away").mkdir(parents=True)
    moved = folder / "far" / "away" / "there"
    (folder / "here").rename(moved)
    return moved / "raw data" / "größe.zarr", moved / "sorted" / "deep" / "second.zarr"


def renamed(folder: Place) -> tuple[Place, Place]:
    first, second = neighbours(folder)
    return first, second.rename(second.with_name("renamed.zarr"))


@pytest.mark.parametrize("place", [neighbours, moved_together, renamed])
def test_files_in_other_directories(folder, place):
    first, second = place(folder)
    check_neighbours(second, first)
    if place is neighbours:  # paths have slashes on every system
        groups = ("acquisition", "stimulus/presentation/data")
        entries = [entry for group in groups for entry in document(second, f"{group}/.zattrs")["zarr_link"]]
        assert [entry["source"] for entry in entries] == [f"../../../raw data/{first.name}"] * 2


def test_a_file_that_is_reached_through_a_symbolic_link(tmp_path):
    first, second = neighbours(tmp_path / "real")
    os.symlink(tmp_path / "real", tmp_path / "alias")
    check_neighbours(*(tmp_path / "alias" / file.relative_to(tmp_path / "real") for file in (second, first)))


def test_an_export_to_another_folder_leads_to_the_same_files(folder):
    first, second = neighbours(folder)
    third = folder / "x" / "y" / "z" / "third.zarr"
    third.parent.mkdir(parents=True)
    with NWBZarrIO(second, **FOLLOW) as source, NWBZarrIO(third, "w") as io:
        io.export(source)
    remove(second)
    check_neighbours(third, first)
    (link,) = document(third, "stimulus/presentation/data/.zattrs")["zarr_link"]
    assert link == {
        "name": "data", "source": f"../../../../raw data/{first.name}", "path": "/acquisition/trace/data",
        "object_id": None, "source_object_id": document(first, ".zattrs")["object_id"],
    }  # fmt: skip


# ---- references ----------------------------------------------------------------------------------------------------
def reference_file(path: Place, data: Any, dtype: Any = "object", **attributes: Any) -> GroupBuilder:
    target, other = group("target", object_id="target-id"), group("other", object_id="other-id")
    targets = {"target": target, "other": other}

    def made(value: Any) -> Any:
        if isinstance(value, str) and value in targets:
            return ReferenceBuilder(targets[value])
        if isinstance(value, (list, tuple)):
            return type(value)(map(made, value))
        return value

    holder = group("holder")
    for name, value in attributes.items():
        holder.set_attribute(name, made(value))
    if data is not None:
        holder.set_dataset(DatasetBuilder(name="it", data=made(data), dtype=dtype))
    return read_builder(write_builder(path, root(target, other, holder)))


@pytest.mark.parametrize("names", ["to number text", "number to text", "number text to", "to also"])
def test_references_in_compound_fields_of_any_position(folder, names):
    types = {"number": "int32", "text": "utf8", "to": "object", "also": "object"}
    values = {"number": (1, 2), "text": ("å", ""), "to": ("target", "other"), "also": ("other", "target")}
    fields = [{"name": name, "dtype": types[name]} for name in names.split()]
    rows = [tuple(values[name][row] for name in names.split()) for row in range(2)]
    found = reference_file(folder / "file.zarr", rows, fields)
    for row, stored in enumerate(found["holder/it"].data):
        for name in names.split():
            wanted = values[name][row]
            assert stored[name] is found[wanted] if types[name] == "object" else stored[name] == wanted


def test_references_across_files(folder):
    """In attributes, in a dataset, as a scalar and in a row."""
    first = write_builder(
        folder / "a" / "first.zarr", root(group("target", dataset("x", [5]), object_id="t"), object_id="r")
    )
    with ZarrIO(first) as source:
        target = source.read_builder()["target"]
        reference = ReferenceBuilder(target)
        fields = [{"name": "n", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
        tree = root(
            dataset("array", [reference, reference], "object"),
            dataset("scalar", reference, "object"),
            dataset("rows", [(1, reference)], fields),
        )
        tree.set_attribute("attribute", reference)
        second = write_builder(folder / "b" / "second.zarr", tree)
    stored = {"source": f"../../a/{first.name}", "path": "/target", "object_id": "t", "source_object_id": "r"}
    assert document(second, ".zattrs")["attribute"]["value"] == stored
    (folder / "a").rename(folder / "c").rename(folder / "a")
    builder = read_builder(second, **FOLLOW)
    target = builder.attributes["attribute"]
    assert target["x"].data[:].tolist() == [5]
    assert target.source == str(first)
    for one in (builder["array"].data[1], builder["scalar"].data.builder, builder["rows"].data[0]["to"]):
        assert one is target


# ---- object ids ----------------------------------------------------------------------------------------------------
def test_links_and_references_carry_the_ids(folder):
    path = write_builder(folder / "file.zarr", samples.reference_tree())
    attributes = document(path, "inner/deep/.zattrs")
    entries = [*attributes["zarr_link"], *(attributes[n]["value"] for n in ("to_root", "to_group", "to_dataset"))]
    ids = {entry["path"]: (entry["object_id"], entry["source_object_id"]) for entry in entries}
    assert ids == {
        "/inner": (None, "root-id"), "/": ("root-id", "root-id"), "/target": ("target-id", "root-id"),
        "/target/values": ("values-id", "root-id"),
    }  # fmt: skip
    assert {entry["source"] for entry in entries} == {"."}


def test_a_reference_in_a_dataset_to_another_object_than_was_meant(folder):
    path = folder / "file.zarr"
    reference_file(path, ["target"])
    change_attributes(path, "target", lambda attributes: attributes.update(object_id="another-id"))
    builder = read_builder(path)
    with pytest.warns(WrongTargetWarning, match="another-id.*target-id"):
        assert builder["holder/it"].data[0] is builder["target"]


def test_another_file_in_the_place_of_the_one_that_was_meant(folder):
    first, second = neighbours(folder)
    known = document(first, ".zattrs")["object_id"]
    remove(first)
    samples.write_zarr(first, samples.plain_nwbfile("another"))
    other = document(first, ".zattrs")["object_id"]
    with pytest.warns(WrongTargetWarning) as caught, NWBZarrIO(second, **FOLLOW) as io:
        nwbfile = io.read(check=True)
    assert any(known in str(w.message) and other in str(w.message) for w in caught)
    assert nwbfile.stimulus["data"].data[0].tolist() == [0, 1, 2]
