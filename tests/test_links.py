"""Links and references to nothing are refused before anything is written, and all programs follow links by one rule."""

import ast
import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.common import DynamicTable, VectorData
from pynwb import NWBHDF5IO, NWBFile, TimeSeries, get_type_map
from pynwb.base import Images
from pynwb.ecephys import LFP, ElectricalSeries
from pynwb.image import GrayscaleImage, ImageSeries, IndexSeries
from pynwb.spec import NWBGroupSpec, NWBLinkSpec, NWBNamespaceBuilder

import hdmf_zarr_backend
from hdmf_zarr_backend import NWBZarrIO, ZarrIO, compare, consolidate, convert, read_nwb, repair, validate, verify
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.errors import LimitError, MissingTargetError, UnreadTypeWarning, WrongTargetWarning
from tests import trees
from tests.places import store_files, stored_files
from tests.samples import edit_zarr, read_zarr
from tests.trees import edit_builder, read_builder, write_builder

NOTES = "_hdmf"
LINKS = "stimulus/presentation"


def new(identifier: str) -> NWBFile:
    return NWBFile("links", identifier, datetime(2026, 3, 14, tzinfo=UTC))


def series(name: str, value: float = 0.0, **options: Any) -> TimeSeries:
    times = {} if {"rate", "timestamps"} & options.keys() else {"rate": 1.0}
    return TimeSeries(name=name, data=np.full(3, value), unit="V", **times, **options)


def write(path: Path, nwbfile: NWBFile, io: type = NWBZarrIO) -> Path:
    with io(path, mode="w") as file:
        file.write(nwbfile)
    return path


def change(path: Path, node: str, edit: Callable[[dict[str, Any]], Any]) -> None:
    key = path / node / ".zattrs"
    attributes = json.loads(key.read_text()) if key.exists() else {}
    edit(attributes)
    key.write_text(json.dumps(attributes))
    consolidate(path)


@pytest.mark.parametrize("mode", ["w", "r+"])
def test_what_a_series_of_linked_data_would_lose_is_said(tmp_path, mode):
    nwbfile = new("far")
    nwbfile.add_acquisition(series("far", conversion=1e-6))
    with NWBZarrIO(write(tmp_path / "far.nwb.zarr", nwbfile)) as source:
        write(tmp_path / "a.nwb.zarr", new("near"))
        data = source.read().acquisition["far"].data

        def add(name: str, values: Any, **options: Any) -> None:
            with NWBZarrIO(tmp_path / "a.nwb.zarr", mode) as io:
                nwbfile = io.read() if mode == "r+" else new("near")
                nwbfile.add_acquisition(TimeSeries(name=name, data=values, rate=1.0, **options))
                io.write(nwbfile)

        add("same", data, unit="V", conversion=1e-6)
        add("default", data, unit="V")
        add("copy", data[:], unit="mV", conversion=5.0)
        lost = r"/lost/data: .* of \S*far.nwb.zarr: conversion=5.0 \(there 1e-06\), offset=2.0 \(there 0.0\), "
        with pytest.warns(UserWarning, match=rf"{lost}unit=mV \(there V\)\. Copy the values") as caught:
            add("lost", data, unit="mV", conversion=5.0, offset=2.0)
    assert len(caught) == 1
    assert read_zarr(tmp_path / "a.nwb.zarr").acquisition["lost"].conversion == 1e-6


@pytest.mark.parametrize("way", ["append", "export", "write"])
def test_what_a_link_would_give_another_name_or_type_is_copied(tmp_path, way):
    nwbfile = new("source")
    nwbfile.add_acquisition(TimeSeries(name="old", data=np.arange(3.0) + 10, unit="V", timestamps=np.arange(3.0)))
    nwbfile.add_trial_column(name="score", description="old")
    for number in range(3):
        nwbfile.add_trial(start_time=float(number), stop_time=number + 1.0, score=number + 20.0)
    source, target = (tmp_path / f"{name}.nwb.zarr" for name in ("source", "target"))
    with NWBZarrIO(write(source, nwbfile), "r+" if way == "append" else "r") as io:
        read = io.read()
        nwbfile = new("target") if way == "write" else read
        old, score = read.acquisition["old"], read.trials["score"]
        nwbfile.add_acquisition(TimeSeries(name="times", data=old.timestamps, unit="seconds", timestamps=score.data))
        columns = [VectorData(name="points", description="new", data=score.data)]
        nwbfile.add_scratch(DynamicTable(name="table", description="new", columns=columns))
        if way == "append":
            io.write(read)
        else:
            with NWBZarrIO(target, "w") as copy:
                copy.write(nwbfile) if way == "write" else copy.export(io, nwbfile)
    nwbfile = read_zarr(source if way == "append" else target)
    times, points = nwbfile.acquisition["times"], nwbfile.scratch["table"]["points"]
    assert (times.data[:].tolist(), times.timestamps[:].tolist()) == ([0, 1, 2], [20, 21, 22])
    assert (points.description, points[:].tolist()) == ("new", [20, 21, 22])


# ---- nothing is written that leads to nothing -----------------------------------------------------------------------
def with_relations(path: Path, io: type) -> Path:
    """Write a file whose objects share timestamps, and refer to series, devices, groups and electrodes."""
    nwbfile = new("relations")
    first = series("a", timestamps=[0.0, 2.0, 4.0])
    nwbfile.add_acquisition(first)
    nwbfile.add_acquisition(series("b", timestamps=first))
    nwbfile.add_acquisition(series("c"))
    group = nwbfile.create_electrode_group("group", "d", "l", nwbfile.create_device("device"))
    for _ in range(3):
        nwbfile.add_electrode(group=group, location="x")
    region = nwbfile.create_electrode_table_region([0, 2], "d")
    nwbfile.add_acquisition(ElectricalSeries(name="e", data=np.ones((5, 2)), electrodes=region, rate=1.0))
    nwbfile.add_trial(start_time=0.0, stop_time=1.0, timeseries=[nwbfile.acquisition["c"]])
    column = VectorData(name="refs", description="d", data=[nwbfile.acquisition["c"]])
    nwbfile.add_scratch(DynamicTable(name="table", description="d", columns=[column]))
    return write(path, nwbfile, io)


def remove_electrodes(nwbfile: NWBFile) -> None:
    nwbfile._remove_child(nwbfile.electrodes)
    nwbfile.fields["electrodes"] = None


REMOVALS: dict[str, tuple[Callable[[NWBFile], object], str]] = {
    "timestamps": (lambda nwbfile: nwbfile.acquisition.pop("a"), "a"),
    "a series in rows": (lambda nwbfile: nwbfile.acquisition.pop("c"), "c"),
    "a device": (lambda nwbfile: nwbfile.devices.pop("device"), "device"),
    "a group in a column": (lambda nwbfile: nwbfile.electrode_groups.pop("group"), "group"),
    "the electrodes": (remove_electrodes, "electrodes"),
}


@pytest.mark.parametrize("io", [NWBZarrIO, NWBHDF5IO])
@pytest.mark.parametrize("removal", REMOVALS)
def test_an_export_after_something_was_removed_that_others_need_is_refused(tmp_path, removal, io):
    """By this package or by hdmf, which notices some of them itself; and the old file at the place stays."""
    remove, target = REMOVALS[removal]
    source = with_relations(tmp_path / "source.nwb", io)
    goal = write(tmp_path / "goal.nwb.zarr", new("old"))
    with io(source, mode="r") as src_io, NWBZarrIO(goal, mode="w") as out:
        nwbfile = src_io.read()
        remove(nwbfile)
        with pytest.raises(Exception, match=target):
            out.export(src_io=src_io, nwbfile=nwbfile)
    assert read_zarr(goal).identifier == "old"


def test_a_refused_export_names_each_path_with_its_problem_and_the_column_to_remove(tmp_path):
    source = with_relations(tmp_path / "source.nwb.zarr", NWBZarrIO)
    with NWBZarrIO(source) as src_io, NWBZarrIO(tmp_path / "goal.nwb.zarr", mode="w") as out:
        nwbfile = src_io.read()
        nwbfile.acquisition.pop("a")
        nwbfile.acquisition.pop("c")
        with pytest.raises(MissingTargetError) as caught:
            out.export(src_io=src_io, nwbfile=nwbfile)
    message = str(caught.value)
    paths = [message.index(path) for path in ("'c'", "; and ", "'a'", "(/acquisition/b/timestamps)", "To leave out")]
    assert paths == sorted(paths)
    assert "io.remove('/scratch/table/refs')" in caught.value.remedy


@pytest.mark.parametrize("io", [NWBZarrIO, NWBHDF5IO])
def test_an_export_leaves_out_objects_that_nobody_has_looked_into(tmp_path, io):
    """And a series whose region another one shares, once that one has a region of its own."""
    nwbfile = new("shared")
    group = nwbfile.create_electrode_group("group", "d", "l", nwbfile.create_device("device"))
    for _ in range(3):
        nwbfile.add_electrode(group=group, location="x")
    options: dict[str, Any] = {"data": np.ones((5, 2)), "rate": 1.0}
    options["electrodes"] = nwbfile.create_electrode_table_region([0, 2], "d")
    nwbfile.add_acquisition(ElectricalSeries(name="raw", **options))
    module = nwbfile.create_processing_module("ecephys", "d")
    module.add(LFP(electrical_series=ElectricalSeries(name="lfp", **options)))
    source = write(tmp_path / "source.nwb", nwbfile, io)
    for name in ("LFP", "raw"):
        with io(source, mode="r") as src_io, NWBZarrIO(tmp_path / f"{name}.zarr", mode="w") as out:
            nwbfile = src_io.read()
            if name == "LFP":
                nwbfile.processing["ecephys"].data_interfaces.pop("LFP")
            else:
                nwbfile.acquisition.pop("raw")
                lfp = nwbfile.processing["ecephys"]["LFP"]["lfp"]
                region = nwbfile.create_electrode_table_region(lfp.electrodes.data[:].tolist(), "own")
                lfp.fields["electrodes"] = region
                region.parent = lfp
                lfp.set_modified()
            nwbfile.set_modified()
            out.export(src_io=src_io, nwbfile=nwbfile)
        assert validate(tmp_path / f"{name}.zarr").is_valid
    with NWBZarrIO(tmp_path / "LFP.zarr") as one, NWBZarrIO(tmp_path / "raw.zarr") as other:
        assert not one.read().processing["ecephys"].data_interfaces
        assert not other.read().acquisition
        lfp = other.read().processing["ecephys"]["LFP"]["lfp"]
        assert lfp.electrodes.to_dataframe().index.tolist() == [0, 2]


@pytest.mark.parametrize("io", [NWBZarrIO, NWBHDF5IO])
def test_a_value_that_the_schema_fixes_is_not_changed_without_a_word(tmp_path, io):
    path = with_relations(tmp_path / "a.nwb", io)
    with io(path, mode="r") as src_io, NWBZarrIO(tmp_path / "b.zarr", mode="w") as out:
        nwbfile = src_io.read()
        for name in ("a", "e"):
            nwbfile.acquisition[name].fields["unit"] = "mV"
            nwbfile.acquisition[name].set_modified()
        said = r"b.zarr: not written: the unit 'mV' of the ElectricalSeries 'e', which the schema fixes to 'volts'; for"
        with pytest.warns(UserWarning, match=said) as caught:
            out.export(src_io=src_io, nwbfile=nwbfile)
        assert len(caught) == 1
    with NWBZarrIO(tmp_path / "b.zarr", mode="r+") as file:
        nwbfile = file.read()
        assert nwbfile.acquisition["a"].unit == "mV"
        nwbfile.acquisition["e"].fields["unit"] = "mV"
        with pytest.warns(UserWarning, match=said):
            file.write(nwbfile)
        file.write(nwbfile)


@pytest.mark.parametrize("is_removed", [False, True])
def test_an_export_keeps_a_column_that_colnames_does_not_name(tmp_path, is_removed):
    """pynwb leaves it out of the table, and a changed file would lose it. A column that the user removes is gone."""
    nwbfile = new("columns")
    nwbfile.add_trial_column("named", "d")
    nwbfile.add_trial(start_time=0.0, stop_time=1.0, named=3)
    source = write(tmp_path / "source.nwb", nwbfile, NWBHDF5IO)
    with h5py.File(source, "a") as file:
        trials = file["intervals/trials"]
        file.copy(trials["named"], trials, "unnamed")
        trials["unnamed"].attrs["object_id"] = "another"
    with NWBHDF5IO(source, mode="r") as src_io, NWBZarrIO(tmp_path / "a.zarr", mode="w") as out:
        nwbfile = src_io.read()
        nwbfile.trials.fields["description"] = "changed"
        if is_removed:
            column = nwbfile.trials["named"]
            nwbfile.trials.fields["colnames"] = ("start_time", "stop_time")
            nwbfile.trials.fields["columns"] = tuple(c for c in nwbfile.trials.columns if c is not column)
        nwbfile.trials.set_modified()
        nwbfile.set_modified()
        out.export(src_io=src_io, nwbfile=nwbfile)
    columns = {each.path.rpartition("/")[2] for each in compare(source, tmp_path / "a.zarr") if each.kind == "missing"}
    assert columns == ({"named"} if is_removed else set())


@pytest.mark.parametrize("io", [NWBZarrIO, NWBHDF5IO])
@pytest.mark.parametrize("is_free", [False, True], ids=["keeps its parent", "reset_parent"])
def test_a_container_of_another_file_is_copied_only_without_its_parent(tmp_path, io, is_free):
    first, second = new("first"), new("second")
    second.add_acquisition(series("theirs", 7.0, timestamps=[0.0, 1.0, 2.0]))
    sources = [write(tmp_path / "first.nwb", first, io), write(tmp_path / "second.nwb", second, io)]
    goal = tmp_path / "goal.nwb.zarr"
    with io(sources[0], mode="r") as one, io(sources[1], mode="r") as two:
        nwbfile, theirs = one.read(), two.read().acquisition["theirs"]
        if is_free:
            theirs.reset_parent()
        nwbfile.add_acquisition(theirs)
        with NWBZarrIO(goal, mode="w") as out:
            if not is_free:
                with pytest.raises(MissingTargetError, match="'theirs'") as caught:
                    out.export(src_io=one, nwbfile=nwbfile)
                assert str(sources[1]) in str(caught.value)
                assert caught.value.path == "/acquisition/theirs"
                assert "reset_parent()" in caught.value.remedy
                assert not goal.exists()
                return
            out.export(src_io=one, nwbfile=nwbfile)
    assert read_zarr(goal).acquisition["theirs"].data[:].tolist() == [7.0, 7.0, 7.0]


@pytest.mark.parametrize("zarr_format", [2, 3, "both"])
@pytest.mark.parametrize("field", ["data", "timestamps"])
def test_data_of_a_series_that_is_in_no_file(tmp_path, field, zarr_format):
    """The data of a series have no object id; what is at their path by chance is not taken for them."""
    other = series("other", timestamps=[0.0, 1.0, 2.0])
    options: dict[str, Any] = {"data": [1.0, 2.0, 3.0], "timestamps": [0.0, 1.0, 2.0], field: other}
    nwbfile = new("lost")
    nwbfile.add_acquisition(TimeSeries(name="mine", unit="V", **options))
    path = tmp_path / "a.nwb.zarr"
    refused = pytest.raises(MissingTargetError, match=f"'{field}' of the TimeSeries 'other'")
    with NWBZarrIO(path, mode="w", zarr_format=zarr_format) as io, refused as caught:
        io.write(nwbfile)
    assert caught.value.path == f"/acquisition/mine/{field}"
    assert not path.exists()


@pytest.mark.parametrize("mode", ["r+", "a"])
def test_an_append_of_a_link_to_nothing_changes_nothing(tmp_path, mode):
    path = write(tmp_path / "a.nwb.zarr", new("appended"))
    before = stored_files(path)
    with NWBZarrIO(path, mode=mode) as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(series("mine", timestamps=series("other", timestamps=[0.0, 1.0, 2.0])))
        with pytest.raises(MissingTargetError, match="'timestamps' of the TimeSeries 'other'"):
            io.write(nwbfile)
    assert stored_files(path) == before


def lost(identifier: str = "lost-id") -> GroupBuilder:
    return GroupBuilder("lost", attributes={"object_id": identifier, "data_type": "Thing", "namespace": "n"})


def dataset(name: str, data: Any, dtype: Any = "object") -> Callable[[GroupBuilder], object]:
    return lambda root: root.set_dataset(DatasetBuilder(name, data(root) if callable(data) else data, dtype=dtype))


def attribute(value: Any) -> Callable[[GroupBuilder], object]:
    return lambda root: root.set_attribute("ref", value(root) if callable(value) else value)


PART = {"region": [slice(0, 1)]}
ROW = [{"name": "n", "dtype": "int"}, {"name": "ref", "dtype": "object"}]
ENDS: dict[str, Callable[[GroupBuilder], object]] = {
    "a link": lambda root: root.set_link(LinkBuilder(lost(), "link")),
    "an attribute": attribute(ReferenceBuilder(lost())),
    "a list in an attribute": attribute(lambda root: [ReferenceBuilder(root), ReferenceBuilder(lost())]),
    "a scalar": dataset("one", ReferenceBuilder(lost())),
    "the last element": dataset("refs", lambda root: [*[ReferenceBuilder(root)] * 9, ReferenceBuilder(lost())]),
    "two axes": dataset("refs", lambda root: [[ReferenceBuilder(root)], [ReferenceBuilder(lost())]]),
    "a field of a row": dataset("rows", lambda root: [(1, ReferenceBuilder(root)), (2, ReferenceBuilder(lost()))], ROW),
    "a region": attribute(ZarrReference(".", "/gone", **PART)),
    "a region of a dataset": dataset("refs", [ZarrReference(".", "/gone", **PART)], "region"),
    "a path": attribute(ZarrReference(".", "/gone")),
    "a path of another file": attribute(ZarrReference("../other.zarr", "/gone")),
    "another file": attribute(ZarrReference("../gone.zarr", "/x")),
    "another object": attribute(ZarrReference("../other.zarr", "/x", object_id="y")),
}


@pytest.mark.parametrize("is_append", [False, True], ids=["write", "append"])
@pytest.mark.parametrize("end", ENDS)
def test_each_kind_of_reference_to_nothing_is_refused(tmp_path, end, is_append):
    write_builder(tmp_path / "other.zarr", trees.root(trees.group("x", object_id="x"), object_id="other"))
    path = tmp_path / "a.zarr"
    root = trees.root(object_id="a")
    if is_append:
        write_builder(path, root)
        with pytest.raises(MissingTargetError) as caught, edit_builder(path) as read:
            added = GroupBuilder("added")
            ENDS[end](added)
            read.set_group(added)
        assert caught.value.path.startswith("/added")
        assert not (path / "added").exists()
    else:
        ENDS[end](root)
        with pytest.raises(MissingTargetError) as caught:
            write_builder(path, root)
        assert not path.exists()
    assert caught.value.store == str(path)
    assert any(name in caught.value.problem for name in ("'lost'", "/gone", "gone.zarr", "other.zarr"))


def test_what_exists_is_written(tmp_path):
    """In the plan, in the file that is changed, and in other files, through links too."""
    there = trees.group("x", object_id="x")
    other = trees.root(there, object_id="other")
    other.set_link(LinkBuilder(there, "link"))
    write_builder(tmp_path / "other.zarr", other)
    path = tmp_path / "a.zarr"
    root = trees.root(trees.dataset("data", [1, 2]))
    root.set_attribute("up", ReferenceBuilder(root))
    root.set_attribute("part", ZarrReference(".", "/data", region=[slice(0, 1)]))
    root.set_attribute("far", ZarrReference("../other.zarr", "/link", object_id="x"))
    write_builder(path, root)
    with edit_builder(path) as read:
        read.set_group(trees.group("added", data=ReferenceBuilder(read["data"])))
    assert verify(path).problems == []


def test_an_append_to_a_file_with_a_broken_link_is_possible(tmp_path):
    path = write(tmp_path / "a.nwb.zarr", new("broken"))
    entry = {"name": "broken", "source": ".", "path": "/gone"}
    change(path, "acquisition", lambda attributes: attributes.update(zarr_link=[entry]))
    with pytest.warns(BrokenLinkWarning), edit_zarr(path) as nwbfile:
        nwbfile.add_acquisition(series("more"))
    assert json.loads((path / "acquisition" / ".zattrs").read_text())["zarr_link"] == [entry]


# ---- what is read ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"lazy": False}, {"mode": "r+"}], ids=["lazy", "complete", "r+"])
@pytest.mark.parametrize("place", ["a link", "a link in a group", "an attribute", "a column"])
def test_another_object_than_was_meant_is_a_warning(tmp_path, place, options):
    """Of an NWB file in the containers, whichever way they are made; once, and with both ids."""
    path = with_relations(tmp_path / "a.nwb.zarr", NWBZarrIO)
    node = {
        "a link": "acquisition/c", "a link in a group": "general/devices/device",
        "an attribute": "general/extracellular_ephys/electrodes", "a column": "acquisition/c",
    }[place]  # fmt: skip
    if place == "a link":
        with edit_zarr(path) as nwbfile:
            nwbfile.create_processing_module("module", "d").add(nwbfile.acquisition["c"])
    change(path, node, lambda attributes: attributes.update(object_id="another"))
    with pytest.warns(WrongTargetWarning, match="object_id another") as caught, NWBZarrIO(path, **options) as io:
        nwbfile = io.read()
        nwbfile.all_children()
        _ = nwbfile.acquisition["e"].electrodes.table
        _ = [nwbfile.scratch["table"]["refs"][0], nwbfile.trials["timeseries"][0]]
    shown = [str(each.message) for each in caught if each.category is WrongTargetWarning]
    assert len(shown) == len(set(shown))
    assert all(f"/{node}" in text and str(path) in text for text in shown)


def test_validate_finds_links_and_references_to_nothing(tmp_path):
    path = write(tmp_path / "a.nwb.zarr", new("valid"))
    assert validate(path).findings == []
    entries = [{"name": "gone", "source": ".", "path": "/x"}, {"name": "far", "source": "../b.zarr", "path": "/x"}]
    reference = {"zarr_dtype": "object", "value": {"source": ".", "path": "/y"}}
    change(path, "acquisition", lambda attributes: attributes.update(zarr_link=entries, ref=reference))
    paths = [each.path for each in validate(path).findings if each.kind == "target"]
    assert paths == ["/acquisition/gone", "/acquisition/far", "/acquisition"]


def test_a_conversion_names_references_to_nothing_inside_arrays(tmp_path, zarr_format):
    path = with_relations(tmp_path / "a.nwb.zarr", NWBZarrIO)
    shutil.rmtree(path / "acquisition" / "c")
    (path / ".zmetadata").unlink()
    consolidate(path)
    with pytest.warns(BrokenLinkWarning) as caught:
        convert(path, tmp_path / "b.nwb.zarr", check=False, zarr_format=zarr_format)
    named = "\n".join(str(each.message) for each in caught)
    for array in ("/scratch/table/refs", "/intervals/trials/timeseries"):
        assert f"{path}, {array}: there is no '/acquisition/c'" in named
    assert [each.kind for each in verify(tmp_path / "b.nwb.zarr").problems] == ["reference-dangling"] * len(caught)


# ---- one rule for all ------------------------------------------------------------------------------------------------

OWN, OTHER = 1.0, 2.0


def file_with(path: Path, value: float, *, has_version: bool = True) -> Path:
    nwbfile = new(path.name)
    nwbfile.add_acquisition(series("series", value))
    write(path, nwbfile)
    if not has_version:  # as in files of hdmf-zarr
        change(path, "", lambda attributes: attributes.pop(NOTES))
    return path


def link_to(path: Path, *links: tuple[str, str, str]) -> None:
    entries = [{"name": name, "source": source, "path": target} for name, source, target in links]
    (path / "steps").mkdir()
    (path / "steps" / ".zgroup").write_text('{"zarr_format": 2}')
    for group, is_here in ((LINKS, True), ("steps", False)):
        held = [entry for entry in entries if (entry["name"] == "there") == is_here]
        change(path, group, lambda attributes, held=held: attributes.update(zarr_link=held))
    value = {key: value for key, value in entries[0].items() if key != "name"}
    change(path, "steps", lambda attributes: attributes.update(ref={"zarr_dtype": "object", "value": value}))


def chain(length: int) -> list[tuple[str, str, str]]:
    """Return links from one to the next, the last of which leads to the series."""
    steps = [(f"step{number}", ".", f"/steps/step{number + 1}") for number in range(length - 2)]
    return [("there", ".", "/steps/step0"), *steps, (f"step{length - 2}", ".", "/acquisition/series")]


SERIES, HERE = "/acquisition/series", "/stimulus/presentation/there"
CASES: dict[str, tuple[bool, list[tuple[str, str, str]], float | None]] = {
    # whether the file has a version, links, and the value of the series that "there" leads to
    "in the file": (True, [("there", ".", SERIES)], OWN),
    "empty source": (True, [("there", "", SERIES)], OWN),
    "beside": (True, [("there", "../b.nwb.zarr", SERIES)], OTHER),
    "absolute": (True, [("there", "{folder}/b.nwb.zarr", SERIES)], OTHER),
    "file URL": (True, [("there", "file://{folder}/b.nwb.zarr", SERIES)], OTHER),
    "itself by path": (True, [("there", "../a.nwb.zarr", SERIES)], OWN),
    "from the folder": (True, [("there", "b.nwb.zarr", SERIES)], None),
    "from the folder, old": (False, [("there", "b.nwb.zarr", SERIES)], OTHER),
    "itself from the folder": (True, [("there", "a.nwb.zarr", SERIES)], None),
    "itself from the folder, old": (False, [("there", "a.nwb.zarr", SERIES)], OWN),
    "former name": (True, [("there", "former.nwb.zarr", SERIES)], None),
    "former name, old": (False, [("there", "former.nwb.zarr", SERIES)], OWN),
    "former path": (True, [("there", "/was/a.nwb.zarr", SERIES)], None),
    "former path, old": (False, [("there", "/was/a.nwb.zarr", SERIES)], OWN),
    "former path, old, there": (False, [("there", "{folder}/b.nwb.zarr", SERIES)], OWN),
    "to a link": (True, [("there", ".", "/steps/next"), ("next", "../b.nwb.zarr", SERIES)], OTHER),
    "through a link": (True, [("there", ".", "/steps/far/series"), ("far", "../b.nwb.zarr", "/acquisition")], OTHER),
    "circle": (True, [("there", ".", "/steps/next"), ("next", ".", HERE)], None),
    "itself": (True, [("there", ".", HERE)], None),
    "no path": (True, [("there", ".", "/acquisition/gone")], None),
    "no path there": (True, [("there", "../b.nwb.zarr", "/acquisition/gone")], None),
    "no file": (True, [("there", "../gone.nwb.zarr", SERIES)], None),
    "no Zarr file": (True, [("there", "../text.nwb.zarr", SERIES)], None),
    "two of one name": (True, [("there", "../b.nwb.zarr", SERIES), ("there", ".", SERIES)], OTHER),
    "12 links": (True, chain(12), OWN),  # HDF5 itself follows 16
    "66 links": (True, chain(66), None),
}

FOLLOWING = {
    # an append refuses another link of the same name; a removal finds the one that is named
    "find_link": {"hdmf/planner", "hdmf/editing", "encoding/parser", "encoding/references"},
    "former_names": {"encoding/parser", "encoding/references"},
    "names_siblings": {"encoding/parser", "encoding/references"},
    "resolve_source": {"encoding/parser", "hdf5/files", "model/links", "store/reference_files"},  # of other formats
    "may_exist": {"encoding/parser", "store/opening"},
}
"""What a function needs to follow links, and the modules that use it; HDF5 files and LINDI have links of their own."""


def test_nothing_but_the_resolver_follows_links():
    source = Path(hdmf_zarr_backend.__file__).parent
    used: dict[str, set[str]] = {name: set() for name in FOLLOWING}
    for module in source.rglob("*.py"):
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
            for name in (getattr(node, key, None) for key in ("id", "attr", "name")):
                if isinstance(name, str) and name in used:
                    used[name].add(module.relative_to(source).with_suffix("").as_posix())
    assert used == FOLLOWING


def answers(path: Path, tmp_path: Path) -> Iterator[tuple[str, float | None]]:
    """Yield for each program the value of the series that it finds through the link; None for no series."""

    def value(builder: Any) -> float | None:
        link = builder[LINKS].links.get("there")
        return None if link is None else float(link.builder["data"].data[0])

    yield "builders", value(read_builder(path))
    for lazy in (True, False):
        with NWBZarrIO(path, lazy=lazy) as io:
            result = io.read().stimulus
            yield f"lazy={lazy}", float(result["series"].data[0]) if "series" in result else None
    with ZarrIO(path) as src_io, ZarrIO(tmp_path / "exported.zarr", "w") as io:
        io.export(src_io=src_io)
    yield "export", value(read_builder(tmp_path / "exported.zarr"))
    convert(path, tmp_path / "deep" / "copy.nwb.zarr", check=False)
    yield "convert to Zarr", value(read_builder(tmp_path / "deep" / "copy.nwb.zarr"))
    convert(path, tmp_path / "copy.nwb", check=False, link_data=False)
    with h5py.File(tmp_path / "copy.nwb") as file:
        try:
            member = file[LINKS].get("there")
        except RuntimeError:  # too many links
            member = None
        yield "convert to HDF5", None if member is None else float(member["data"][0])


def is_followed(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield for each check whether it takes the link for one that leads to something."""
    location = f"/{LINKS}/there"
    dangling = ("link-dangling", "link-circular")
    yield "verify", not [each for each in verify(path).problems if each.path == location and each.kind in dangling]
    convert(path, path.parent / "deep" / "compared.nwb.zarr", check=False)
    assert list(compare(path, path.parent / "deep" / "compared.nwb.zarr")) == []
    yield "validate", not [each for each in validate(path).findings if each.path == location and each.kind == "target"]
    copy = Path(shutil.copytree(path, path.parent / "repaired.nwb.zarr"))
    change(copy, LINKS, lambda attributes: None)
    repair(copy, drop_links=True)
    left = json.loads((copy / LINKS / ".zattrs").read_text()).get("zarr_link", [])
    yield "repair", "there" in [entry["name"] for entry in left]
    shutil.rmtree(copy)


@pytest.mark.filterwarnings("ignore::hdmf.backends.warnings.BrokenLinkWarning")
@pytest.mark.parametrize("case", CASES)
def test_all_programs_follow_a_link_to_the_same_place(tmp_path, case, capsys):
    has_version, links, expected = CASES[case]
    (tmp_path / "deep").mkdir()
    path = file_with(tmp_path / "a.nwb.zarr", OWN, has_version=has_version)
    file_with(tmp_path / "b.nwb.zarr", OTHER)
    (tmp_path / "text.nwb.zarr").write_text("no store")
    if case.startswith("former name"):
        identifier = json.loads((path / ".zattrs").read_text())["object_id"]
        value = {"source": "former.nwb.zarr", "path": "/acquisition/series", "source_object_id": identifier}
        change(path, "acquisition", lambda held: held.update(root={"zarr_dtype": "object", "value": value}))
    links = [(name, source.format(folder=tmp_path), target) for name, source, target in links]
    if case.startswith("former path"):  # of an index and its column, which are in one file, and of all else in it
        value = {"source": links[0][1], "path": "/acquisition/series/data"}
        index = {"target": {"zarr_dtype": "object", "value": value}}
        change(path, "acquisition/series/starting_time", lambda held: held.update(index))
    link_to(path, *links)
    with warnings.catch_warnings(action="ignore"):
        result = dict(answers(path, tmp_path))
        followed = dict(is_followed(path))
    assert result == dict.fromkeys(result, expected)
    if case == "66 links":  # it may lead to something for who raises the limit, so it is not dropped
        assert followed.pop("repair")
    assert followed == dict.fromkeys(followed, expected is not None)
    if expected is not None and links[0][2] == "/acquisition/series":  # no other link is on the way
        capsys.readouterr()
        assert main(["inspect", "--json", str(path)]) == 0
        shown = {node["path"]: node for node in json.loads(capsys.readouterr().out)[0]["nodes"]}
        named = {"path": "/acquisition/series"} | ({"file": str(tmp_path / "b.nwb.zarr")} if expected == OTHER else {})
        assert shown[f"/{LINKS}/there"]["target"] == shown["/steps"]["references"]["ref"][0] == named


@pytest.mark.parametrize("options", [{"lazy": False}, {"mode": "r+"}, {"mode": "a"}], ids=["complete", "r+", "a"])
def test_links_that_multiply_the_paths_are_an_error(tmp_path, options):
    """Two links from each of 40 groups to the next one: pynwb and hdmf's validator go along each of 2**40 paths."""
    path = write(tmp_path / "a.nwb.zarr", new("diamonds"))
    documents: dict[str, Any] = {"diamonds/.zgroup": {"zarr_format": 2}}
    for number in range(40):
        entries = [{"name": name, "source": ".", "path": f"/diamonds/g{number + 1}"} for name in "ab"]
        documents[f"diamonds/g{number}/.zgroup"] = {"zarr_format": 2}
        documents[f"diamonds/g{number}/.zattrs"] = {"zarr_link": entries if number < 39 else []}
    store_files(path, documents)
    consolidate(path)
    with NWBZarrIO(path, **options) as io:
        for use in (io.read, lambda: convert(path, tmp_path / "a.nwb"), lambda: validate(path)):
            with pytest.raises(LimitError, match="max_links"):
                use()
    assert read_zarr(path).identifier == "diamonds"
    assert verify(path).problems == []


def test_a_table_of_another_file_with_references_is_not_converted_with_null_references(tmp_path):
    """HDF5 references cannot leave their file. If the other file is converted first, a link leads there."""
    source = with_relations(tmp_path / "b.nwb.zarr", NWBZarrIO)
    with NWBZarrIO(source, mode="r") as src_io:
        nwbfile = new("a")
        nwbfile.add_scratch(src_io.read().electrodes)
        with NWBZarrIO(tmp_path / "a.nwb.zarr", mode="w", manager=src_io.manager) as io:
            io.write(nwbfile)
    with pytest.raises(MissingTargetError, match="/general/extracellular_ephys/group") as caught:
        convert(tmp_path / "a.nwb.zarr", tmp_path / "a.nwb")
    assert str(source) in caught.value.remedy
    assert not (tmp_path / "a.nwb").exists()
    convert(source, tmp_path / "b.nwb")
    convert(tmp_path / "a.nwb.zarr", tmp_path / "a.nwb")
    with h5py.File(tmp_path / "a.nwb") as file:
        groups = file["scratch/electrodes/group"]
        assert groups.file[groups[0]].attrs["neurodata_type"] == "ElectrodeGroup"
    with NWBHDF5IO(tmp_path / "a.nwb", mode="r") as io:
        assert io.read().identifier == "a"


def pictured(folder: Path, source: type, target: type, *, is_contained: bool) -> Path:
    """Write a session of a module, pictures and a device of another file, which the schema only links elsewhere."""
    suffixes, lab = {NWBZarrIO: "nwb.zarr", NWBHDF5IO: "nwb"}, new("lab")
    images = [GrayscaleImage(name="a", data=np.zeros((4, 4)))]
    lab.add_stimulus_template(Images(name="pics", images=images))
    write(folder / f"lab.{suffixes[source]}", with_device(lab), source)
    with source(folder / f"lab.{suffixes[source]}", "r") as io:
        lab, nwbfile = io.read(), new("session")
        pictures, device = lab.stimulus_template["pics"], lab.devices["device"]
        if is_contained:
            nwbfile.create_processing_module("b", "at another path than in its file").add(pictures)
            nwbfile.add_device(device)
        nwbfile.add_acquisition(ImageSeries(name="a", data=np.zeros((2, 3, 3)), rate=1.0, unit="n.a.", device=device))
        shown = {"name": "shown", "data": np.zeros(1, "u4"), "unit": "N/A", "rate": 1.0}
        nwbfile.add_stimulus(IndexSeries(**shown, indexed_images=pictures))
        path = folder / f"session.{suffixes[target]}"
        with target(path, "w", manager=io.manager) as file:
            file.write(nwbfile)
    return path


def with_device(nwbfile: NWBFile) -> NWBFile:
    nwbfile.create_device("device")  # named as the link to it in a series
    return nwbfile


@pytest.mark.parametrize("is_contained", [True, False])
@pytest.mark.parametrize(("source", "target", "after"), [
    (NWBZarrIO, NWBZarrIO, "convert"), (NWBZarrIO, NWBZarrIO, "export"), (NWBHDF5IO, NWBZarrIO, ""),
    (NWBHDF5IO, NWBHDF5IO, "convert"), (NWBHDF5IO, NWBHDF5IO, "export"),
])  # fmt: skip
def test_a_copy_is_where_the_schema_allows_more_than_a_link(tmp_path, source, target, after, is_contained):
    path = pictured(tmp_path, source, target, is_contained=is_contained)
    name = "copy.nwb" if (after, target) == ("convert", NWBZarrIO) else "copy.nwb.zarr"
    copy = tmp_path / name if after else path
    if after == "export":
        with target(path, "r") as io, NWBZarrIO(copy, "w") as file:
            file.export(io, io.read(), write_args={"link_data": False})
    elif after and (source, is_contained) == (NWBHDF5IO, False):
        linked = r"/(acquisition/a/device|stimulus/presentation/shown/indexed_images)"
        with pytest.raises(MissingTargetError, match=linked):
            convert(path, copy)
        assert not copy.exists()
        return
    elif after:
        convert(path, copy, **({"link_data": False} if target is NWBZarrIO else {}))
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        nwbfile = read_nwb(copy)
    with closing(nwbfile.get_read_io()):
        pictures, device = nwbfile.stimulus["shown"].indexed_images, nwbfile.acquisition["a"].device
        assert pictures["a"].data.shape == (4, 4)
        assert device.name == "device"
        if is_contained:
            assert nwbfile.processing["b"]["pics"] is pictures
        elif source is NWBHDF5IO or after == "convert":
            assert nwbfile.stimulus_template["pics"] is pictures
            assert nwbfile.devices["device"] is device
    assert validate(copy).is_valid


def test_a_group_where_the_schema_has_a_link_is_left_out_with_a_warning(tmp_path):
    path = pictured(tmp_path, NWBHDF5IO, NWBHDF5IO, is_contained=False)
    with h5py.File(path, "r+") as file:
        del file["stimulus/presentation/shown"]
    convert(path, tmp_path / "copy.nwb.zarr", check=False)
    with pytest.warns(UnreadTypeWarning, match="/acquisition/a/device in .* a link in the schema: left out"):
        nwbfile = read_nwb(tmp_path / "copy.nwb.zarr")
        with closing(nwbfile.get_read_io()):
            assert nwbfile.acquisition["a"].device is None


def test_a_target_that_has_no_place_is_named(tmp_path):
    path = pictured(tmp_path, NWBZarrIO, NWBZarrIO, is_contained=False)
    with NWBZarrIO(path, "r+") as io:
        io.write(with_device(io.read()))  # another one at the path of the target
    with pytest.raises(MissingTargetError, match=r"general/devices/device of \S*lab.nwb.zarr") as caught:
        convert(path, tmp_path / "copy.nwb")
    assert f"Run `zarrio convert {tmp_path / 'lab.nwb.zarr'} {tmp_path / 'lab.nwb'}` first" in caught.value.remedy
    assert not (tmp_path / "copy.nwb").exists()
    convert(tmp_path / "lab.nwb.zarr", tmp_path / "lab.nwb")
    convert(path, tmp_path / "copy.nwb")
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        nwbfile = read_nwb(tmp_path / "copy.nwb")
    with closing(nwbfile.get_read_io()):
        assert nwbfile.acquisition["a"].device.name == "device"


def test_an_append_copies_what_the_schema_only_links_to_its_own_path(tmp_path):
    write(tmp_path / "lab.nwb", with_device(new("lab")), NWBHDF5IO)
    write(tmp_path / "a.nwb.zarr", new("a"))
    for name in ("a", "b"):
        with NWBHDF5IO(tmp_path / "lab.nwb", "r") as lab:
            io = NWBZarrIO(tmp_path / "a.nwb.zarr", "r+", manager=lab.manager)
            nwbfile, device = io.read(), lab.read().devices["device"]
            nwbfile.add_acquisition(
                ImageSeries(name=name, data=np.zeros((2, 3, 3)), rate=1.0, unit="n.a.", device=device)
            )
            io.write(nwbfile)
            io.close()
    with NWBZarrIO(tmp_path / "a.nwb.zarr") as io:
        nwbfile = io.read()
        assert nwbfile.devices["device"] is nwbfile.acquisition["a"].device is nwbfile.acquisition["b"].device
    assert verify(tmp_path / "a.nwb.zarr").problems == []


# ---- the table of the guide -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("options", [{}, {"link_data": False}], ids=["default", "no links to data"])
@pytest.mark.parametrize("reads", [False, True], ids=["as it is", "what was read"])
@pytest.mark.parametrize("io", [NWBZarrIO, NWBHDF5IO], ids=["Zarr", "HDF5"])
def test_which_links_an_export_keeps(tmp_path, io, reads, options):
    shared = series("there", timestamps=[0.0, 0.5, 1.0])
    nwbfile = new("other")
    nwbfile.add_acquisition(shared)
    suffix = ".nwb.zarr" if io is NWBZarrIO else ".nwb"
    other = write(tmp_path / f"other{suffix}", nwbfile, io)
    kept = {}
    for kind in ("data", "group"):
        nwbfile, target = new(kind), tmp_path / f"new {kind}.nwb.zarr"
        with io(other, "r") as source:
            there = source.read().acquisition["there"]
            linked = TimeSeries(name="linked", data=there.data, unit="V", rate=1.0)
            nwbfile.add_acquisition(there if kind == "group" else linked)
            own = series("own", timestamps=[0.0, 0.5, 1.0])
            nwbfile.add_acquisition(own)
            nwbfile.add_acquisition(series("shares", timestamps=own))
            with io(tmp_path / f"{kind}{suffix}", "w", manager=source.manager) as file:
                file.write(nwbfile)
        with io(tmp_path / f"{kind}{suffix}", "r") as source, NWBZarrIO(target, "w") as file:
            file.export(source, source.read() if reads else None, write_args=options)
        attributes = json.loads((target / ".zmetadata").read_text())["metadata"]
        links = [(path, link) for path, value in attributes.items() for link in value.get("zarr_link", [])]
        kept |= {f"{path.rpartition('/')[0]}/{link['name']}": link["source"] for path, link in links}
        assert kept.pop("acquisition/shares/timestamps") == "."
    far: set[str] = set()
    if io is NWBZarrIO:
        far |= set() if options else {"acquisition/linked/data"}
        far |= set() if reads else {"acquisition/there"}
        far |= {"acquisition/there/data", "acquisition/there/timestamps"} if reads and not options else set()
    assert kept == dict.fromkeys(far, "../other.nwb.zarr")


def test_objects_that_link_to_each_other_are_an_error_and_no_endless_loop(tmp_path):
    builder = NWBNamespaceBuilder(doc="d", name="ndx-peers", version="0.1.0", author="n", contact="no@where.org")
    builder.include_type("NWBDataInterface", namespace="core")
    link = NWBLinkSpec(doc="d", target_type="NWBDataInterface", name="peer", quantity="?")
    spec = NWBGroupSpec("d", neurodata_type_def="Peer", neurodata_type_inc="NWBDataInterface", links=[link])
    builder.add_spec("peers.extensions.yaml", spec)
    builder.export("peers.namespace.yaml", outdir=str(tmp_path))
    type_map = get_type_map()
    type_map.load_namespaces(str(tmp_path / "peers.namespace.yaml"))
    peer = type_map.get_dt_container_cls("Peer", "ndx-peers")
    one = peer(name="one")
    other = one.peer = peer(name="other", peer=one)
    nwbfile = new("circle")
    for each in (one, other):
        nwbfile.add_acquisition(each)
    # hdmf cannot build a circle for HDF5 either
    with NWBZarrIO(tmp_path / "a.nwb.zarr", "w", BuildManager(type_map)) as io, pytest.raises(RecursionError):
        io.write(nwbfile)
    assert not (tmp_path / "a.nwb.zarr").exists()
