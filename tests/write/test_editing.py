"""Groups, datasets, columns and links are removed, renamed and copied to other files; what leads to them follows."""

from __future__ import annotations

import json
import re
import shutil
import warnings
from contextlib import nullcontext
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import LinkBuilder
from hdmf.common import AlignedDynamicTable, DynamicTable, VectorData, get_manager
from hdmf.data_utils import DataChunkIterator
from pynwb import NWBHDF5IO, H5DataIO, TimeSeries, validate
from pynwb.ecephys import LFP, ElectricalSeries
from pynwb.file import Subject
from pynwb.testing.mock.file import mock_NWBFile

from hdmf_zarr_backend import NWBZarrIO, WriteOptions, ZarrDataIO, ZarrIO, compare, consolidate, convert, errors, verify
from hdmf_zarr_backend.array import edits
from hdmf_zarr_backend.cli.main import main
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.errors import ConflictError, LengthWarning, NameRefusedError, UsageError, ValueRefusedError
from hdmf_zarr_backend.hdmf.schema import ContainerError
from hdmf_zarr_backend.io import UnsupportedModeError
from tests import extensions, samples, trees
from tests.contract.test_append_tables import segmentation
from tests.places import stored_files
from tests.smallfiles import write_container
from tests.zarrs import open_group

GROUP = "/general/extracellular_ephys"
FORMATS = pytest.mark.parametrize("zarr_format", [2, 3, "both"])


def nwbfile_of_all() -> Any:
    nwbfile = mock_NWBFile()
    device = nwbfile.create_device("probe")
    shanks = [nwbfile.create_electrode_group(name, "it", "CA1", device) for name in ("shank0", "shank1")]
    nwbfile.add_electrode_column("label", "text")
    for number in range(4):
        nwbfile.add_electrode(group=shanks[number // 2], location="CA1", label=str(number))
    nwbfile.add_unit_column("tags", "text", index=True)
    for number in range(3):
        nwbfile.add_unit(spike_times=np.arange(number + 1.0), tags=["a"] * number, electrodes=[number])
    raw = TimeSeries(name="raw", data=np.arange(20.0), unit="V", timestamps=np.arange(20.0))
    nwbfile.add_acquisition(raw)
    nwbfile.add_acquisition(TimeSeries(name="copy", data=np.arange(20), unit="V", timestamps=raw))
    for start in range(3):
        nwbfile.add_trial(start_time=float(start), stop_time=start + 0.5, timeseries=[raw])
    return nwbfile


@pytest.fixture(params=[2, 3, "both"])
def path(tmp_path, request):
    return samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile_of_all(), zarr_format=request.param)


def check(path: Any) -> None:
    """Check that a file is whole, in each format, and valid for pynwb."""
    assert not verify(path).problems
    for number in (2, 3):
        with NWBZarrIO(path, zarr_format=number) as io:
            io.read(check=True)
            assert not validate(io=io)


def test_what_is_removed_is_gone_and_the_tables_stay_valid(path):
    with NWBZarrIO(path, "r+") as io:
        label = f"{GROUP}/electrodes/label"
        done = io.remove("/units/tags", label, "acquisition/copy", "/acquisition/raw@comments")
        assert done[:3] == ["removed /units/tags", "removed /units/tags_index", f"removed {label}"]
        nwbfile = io.read()
        assert nwbfile.units.colnames == ("spike_times", "electrodes")
        assert "label" not in nwbfile.electrodes.colnames
        assert list(nwbfile.acquisition) == ["raw"]
        nwbfile.add_unit(spike_times=[1.0], electrodes=[3])
        io.write(nwbfile)
    assert not [file for file in path.rglob("*") if file.name in ("tags", "tags_index", "copy", "label")]
    check(path)
    assert list(samples.read_zarr(path).units["electrodes"][3].index) == [3]


@pytest.mark.parametrize("path", [2], indirect=True)
def test_what_one_call_removes_is_judged_together(path):
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        regions = {name: nwbfile.create_electrode_table_region([0], "one", "electrodes") for name in "ab"}
        made = [ElectricalSeries(name=name, data=[[1.0]], electrodes=regions[name], rate=1.0) for name in regions]
        nwbfile.add_acquisition(LFP(made))
        io.write(nwbfile)
        series = ["/acquisition/LFP/a", "/acquisition/LFP/b"]
        with pytest.raises(ConflictError, match="the schema requires an ElectricalSeries in LFP"):
            io.remove(*series)
        assert list(io.read().acquisition["LFP"].electrical_series) == ["a", "b"]
        assert io.remove(f"{series[0]}@comments", series[0]) == ["removed /acquisition/LFP/a"]
        assert io.remove(f"{series[1]}@comments", series[1], "acquisition/LFP") == ["removed /acquisition/LFP"]
    check(path)


def test_what_leads_there_is_listed_and_nothing_is_changed(path):
    before = stored_files(path)
    with NWBZarrIO(path, "r+") as io:
        with pytest.raises(ConflictError, match="the link /acquisition/copy/timestamps; 3 references in /intervals"):
            io.remove("/acquisition/raw")
        with pytest.raises(ConflictError, match=r"2 references in .*/electrodes/group .*First remove the rows"):
            io.remove(f"{GROUP}/shank0")
        with pytest.raises(ConflictError, match=r"shank0/device \(the schema requires 'device' in ElectrodeGroup\)"):
            io.remove("/general/devices/probe", cascade=True)
        with pytest.raises(ConflictError, match="either 'timestamps' or 'rate' must be specified"):
            io.remove("/acquisition/raw/timestamps", "/acquisition/copy")
    assert stored_files(path) == before


def test_a_cascade_makes_references_null_and_removes_links(path):
    with NWBZarrIO(path, "r+") as io:
        # a column that the schema requires
        with pytest.raises(ConflictError, match=r"2 references in .*/electrodes/group \(the schema requires 'group'"):
            io.remove(f"{GROUP}/shank0", cascade=True)
        io.remove(f"{GROUP}/electrodes", rows=[0, 1], cascade=True)
        assert io.remove(f"{GROUP}/shank0") == [f"removed {GROUP}/shank0"]
        io.remove("/acquisition/raw", "/acquisition/copy", cascade=True)
        nwbfile = io.read()
        assert [group.name for group in nwbfile.electrodes["group"][:]] == ["shank1", "shank1"]
        assert nwbfile.trials["timeseries"][0][0].timeseries is None
    assert not verify(path).problems
    message = "/a.nwb: pynwb cannot read null references in HDF5, .* /intervals/trials/timeseries$"
    with pytest.warns(BrokenLinkWarning, match=message):
        convert(path, path.with_name("a.nwb"))


@pytest.mark.parametrize("name", ["r", "a much longer name, longer than the fields of rows are " + 80 * "long"])
def test_links_and_references_follow_a_new_name(path, name):
    name = name[:240]
    with NWBZarrIO(path, "r+") as io:
        io.rename("/acquisition/raw", name)
        io.rename(f"{GROUP}/shank0", "left")
        io.rename("/units/tags", "words")
        nwbfile = io.read()
        assert nwbfile.trials["timeseries"][2][0].timeseries is nwbfile.acquisition[name]
        assert nwbfile.acquisition["copy"].timestamps[3] == 3
    check(path)
    nwbfile = samples.read_zarr(path)
    assert [group.name for group in nwbfile.electrodes["group"][:]] == ["left", "left", "shank1", "shank1"]
    assert nwbfile.units.colnames == ("words", "spike_times", "electrodes")
    assert list(nwbfile.units["words"][2]) == ["a", "a"]
    assert np.array_equal(nwbfile.acquisition[name].data[:], np.arange(20.0))


def test_data_are_replaced_by_others_of_another_shape_and_type(path):
    values = np.arange(40, dtype="i2").reshape(20, 2)
    with NWBZarrIO(path, "r+") as io:
        before = io.read().acquisition["raw"]
        assert io.replace("/acquisition/raw/data", values) == ["replaced the data of /acquisition/raw/data"]
        with pytest.raises(UsageError, match=r"replaced the data .*io\.read\(\)"):
            before.data[0]
        data = io.read().acquisition["raw"].data
        assert (data.dtype, data[:].tolist()) == ("i2", values.tolist())
        io.replace("/acquisition/raw/data", ZarrDataIO(data, chunks=(7, 1), compressor="zstd"))  # rechunked
        io.replace("/intervals/trials/stop_time", np.array([1, 2, 3], "f4"))
        io.replace("/acquisition/copy/data/", 3.0 * np.arange(20))
        io.replace("/session_description", "another, longer than the one before")
        io.replace("/units/tags_index", np.array([1, 2, 3], "u1"))
        io.replace("/units/spike_times", ZarrDataIO(io.read().units["spike_times"].target.data, chunks=(2,)))
    check(path)
    nwbfile = samples.read_zarr(path)
    data = nwbfile.acquisition["raw"].data
    assert (data.chunks, data[:].tolist(), nwbfile.acquisition["raw"].unit) == ((7, 1), values.tolist(), "V")
    assert nwbfile.session_description.startswith("another, longer")
    assert list(nwbfile.units["tags"][2]) == ["a"]
    assert nwbfile.units["spike_times"].target.data.chunks == (2,)
    keys = stored_files(path / "acquisition/raw/data")
    assert len([key for key in keys if re.search(r"\d$", key)]) == 6


def test_a_link_to_a_dataset_becomes_a_dataset_of_its_own(path):
    times, link = np.arange(20.0) / 1000, "/acquisition/copy/timestamps"
    message = r"the file has a link here, .* io.replace\('/acquisition/copy/time"
    with pytest.raises(ConflictError, match=message), samples.edit_zarr(path) as nwbfile:
        nwbfile.acquisition["copy"].fields["timestamps"] = times
    with NWBZarrIO(path, "r+") as io:
        assert io.replace(link, times) == [f"removed the link {link}", f"added {link}"]
    acquisition = samples.read_zarr(path).acquisition
    assert np.array_equal(acquisition["copy"].timestamps[:], times)
    assert np.array_equal(acquisition["raw"].timestamps[:], np.arange(20.0))
    assert not acquisition["raw"].timestamp_link
    check(path)


@pytest.mark.parametrize("what", ["a field", "a field that is gone", "a new series"])
def test_changes_in_memory_that_are_lost_are_named(path, what):
    with NWBZarrIO(path, "r+") as io:
        for is_written in (True, False):
            nwbfile = io.read()
            if what == "a field":
                nwbfile.acquisition["raw"].fields["comments"] = f"{is_written}"
            elif what == "a field that is gone":
                nwbfile.acquisition["raw"].fields.pop("missing" if is_written else "comments", None)
            else:
                nwbfile.add_acquisition(TimeSeries(name=f"new {is_written}", data=[1.0], unit="V", rate=1.0))
            if is_written:
                io.write(nwbfile)
                io.rename("/acquisition/copy", "twin")
            else:
                with pytest.warns(errors.DroppedChangesWarning, match="raw'|NWBFile"):
                    io.remove("/acquisition/twin")


@pytest.mark.parametrize(("name", "values", "error", "message"), [
    ("/units/tags_index", np.array([1, 3], "u1"), ConflictError, "Columns must be the same length"),
    ("/units/spike_times", np.arange(3.0), ConflictError, "spike_times_index needs 6 rows"),
    ("/units/tags_index", np.array([1, 0, 3], "u1"), ConflictError, "would not be in ascending order"),
    ("/units/electrodes", [1, 2, 100], ConflictError, "needs 101 rows of .*/electrodes/id, which has 4"),
    ("/acquisition/raw/data", np.zeros((1,) * 5), ValueRefusedError, "the schema allows the shapes"),
    ("/acquisition/raw/timestamps", ["text"], ValueRefusedError, "type"),
    ("/acquisition/raw", 3, UsageError, "this is a group"),
    (f"{GROUP}/shank0/device", [3.0], UsageError, "this is a link to an object"),
    ("/acquisition/raw/data", DataChunkIterator(np.arange(3)), UsageError, "an iterator"),
    ("/acquisition/raw/data", None, UsageError, "None"),
])  # fmt: skip
@pytest.mark.parametrize("path", [3], indirect=True)
def test_data_that_do_not_fit_are_refused(path, name, values, error, message):
    with NWBZarrIO(path, "r+") as io:
        with pytest.raises(error, match=message):
            io.replace(name, values)
        assert io.read().acquisition["raw"].data[3] == 3
    check(path)


@pytest.mark.parametrize(("name", "value"), [("@comments", "corrected"), ("/data@unit", "A")])
def test_an_attribute_is_changed_by_what_replace_says(path, name, value):
    field = name.partition("@")[2]
    with NWBZarrIO(path, "r+") as io:
        for edit in (io.replace, io.rename):
            with pytest.raises(UsageError, match=rf"series\.fields\['{field}'\] = .*set_modified\(\) and io\.write"):
                edit(f"/acquisition/raw{name}", value)
        nwbfile = io.read()
        series = nwbfile.acquisition["raw"]
        series.fields[field] = value
        series.set_modified()
        io.write(nwbfile)
    check(path)
    assert getattr(samples.read_zarr(path).acquisition["raw"], field) == value


@pytest.mark.parametrize(("rows", "message"), [
    (np.zeros((3, 3)), "rows with the fields x, y, weight, and the data are of type float64"),
    (np.zeros(3, [("x", "u4"), ("y", "u4")]), "rows with the fields x, y, weight"),
    ([(0, 1.5, 0.5)] * 3, "of the field 'y' without loss"),
    ([(0, 1)] * 3, r"for each of the fields \('x', 'y', 'weight'\)"),
    ([(7, 1, 0.5)] * 3, ""),
    (np.array([(0.5, 1, 7)] * 3, [("weight", "f8"), ("y", "i8"), ("x", "i8")]), ""),
])  # fmt: skip
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_rows_are_replaced_by_rows_with_the_same_fields(tmp_path, rows, message, zarr_format):
    convert(segmentation(tmp_path / "a.nwb.zarr", "pixel_mask"), tmp_path / "b.nwb.zarr", zarr_format=zarr_format)
    with NWBZarrIO(tmp_path / "b.nwb.zarr", "r+") as io:
        with pytest.raises(ValueRefusedError, match=message) if message else nullcontext():
            io.replace("/processing/ophys/ImageSegmentation/cells/pixel_mask", rows)
        mask = io.read().processing["ophys"]["ImageSegmentation"]["cells"]["pixel_mask"]
        assert tuple(mask[0][0]) == ((0, 1, 0.5) if message else (7, 1, 0.5))
    check(tmp_path / "b.nwb.zarr")


@pytest.mark.parametrize("path", [2, 3], indirect=True)
def test_references_are_replaced_by_objects_only_and_numbers_of_an_index_by_numbers(path):
    name = f"{GROUP}/electrodes/group"
    with NWBZarrIO(path, "r+") as io:
        for values in ([1, 2, 3, 4], np.arange(4.0), ["shank0"] * 4):
            with pytest.raises(ValueRefusedError, match="the schema has references here"):
                io.replace(name, values)
        io.replace(name, [io.read().electrode_groups["shank1"]] * 4)
        assert {group.name for group in io.read().electrodes["group"][:]} == {"shank1"}
        index = io.read().units.spike_times_index.data
        for value in ("x", ["x", "y", "z"], b"x", None):
            with pytest.raises(ValueRefusedError):
                index[:] = value
    check(path)


@pytest.mark.parametrize("path", [3], indirect=True)
def test_a_series_of_another_file_as_data_is_refused_and_its_array_is_linked(path, tmp_path):
    shutil.copytree(path, tmp_path / "other.nwb.zarr")
    for is_array in (False, True):
        with NWBZarrIO(tmp_path / "other.nwb.zarr") as other, NWBZarrIO(path, "r+") as io:
            nwbfile, series = io.read(), other.read().acquisition["raw"]
            data = series.data if is_array else series
            nwbfile.add_acquisition(TimeSeries(name="new", data=data, unit="V", rate=1.0))
            with nullcontext() if is_array else pytest.raises(UsageError, match=r"Give its array, series\.data"):
                io.write(nwbfile)
    check(path)


@pytest.mark.parametrize(("call", "error", "message"), [
    (("remove", "/"), UsageError, "the root and the cached specifications"),
    (("remove", "/specifications/core"), UsageError, "the root and the cached specifications"),
    (("remove", "/acquisition/none"), errors.ReferenceTargetError, "no such group or dataset .*`zarrio inspect`"),
    (("remove", "/none/none"), errors.ReferenceTargetError, "no such group or dataset"),
    (("remove", "/units/tags_index"), UsageError, "index of the column /units/tags"),
    (("remove", "/units/id"), ConflictError, "the schema requires 'id' in Units"),
    (("remove", "/session_start_time"), ConflictError, "the schema requires"),
    (("remove", "/units@colnames"), ConflictError, r"hdmf needs the attribute 'colnames' .*Keep it"),
    (("remove", "/acquisition/raw@none"), UsageError, "there is no attribute 'none'"),
    (("remove", "/acquisition/raw/data@unit"), ConflictError, "the schema requires the attribute 'unit'"),
    (("rename", "/acquisition/raw", "copy"), ConflictError, "a member 'copy' already"),
    (("rename", "/acquisition/raw", "a/b"), NameRefusedError, "a/b"),
    (("rename", "/acquisition/raw", "/acquisition/good"), NameRefusedError, "is a path .*new name alone: 'good'"),
    (("rename", "/acquisition/raw", "/"), NameRefusedError, "cannot be stored"),
    (("remove", ["/acquisition/raw"]), errors.WrongArgumentError,
     "list is not a path.* Give the path, '/acquisition/l"),
    (("rename", "/units/tags", "description"), ConflictError, "the group has an attribute 'description'"),
    (("rename", "/units/tags", "waveform_mean"), ConflictError, "values of another type or shape under"),
    (("rename", "/units/tags", "electrode_group"), ConflictError, "values of another type or shape under"),
    (("rename", "/general/devices/probe", "models"), ConflictError, "does not have 'models' for a Device"),
    (("rename", "/acquisition/raw/data", "values"), ConflictError, "a name that the schema has in TimeSeries"),
    (("rename", "/units/tags_index", "x"), UsageError, "index of the column"),
])  # fmt: skip
@pytest.mark.parametrize("path", [3], indirect=True)
def test_what_cannot_be_done_is_refused(path, call, error, message):
    with NWBZarrIO(path, "r+") as io:
        with pytest.raises(error, match=message):
            getattr(io, call[0])(*call[1:])
        assert list(io.read().acquisition) == ["copy", "raw"]
    check(path)


@pytest.mark.parametrize("path", [3], indirect=True)
def test_what_is_no_data_for_a_dataset_and_objects_in_place_of_paths_are_refused(path):
    with NWBZarrIO(path, "r+") as io:
        raw = io.read().acquisition["raw"]
        for call in (io.remove, lambda it: io.rename(it, "x"), lambda it: io.replace(it, [1.0])):
            for given, own in ((raw, "/acquisition/raw"), (raw.data, "/acquisition/raw/data")):
                with pytest.raises(errors.WrongArgumentError, match=f"Give the path, '{own}'"):
                    call(given)
    with NWBZarrIO(path, "r+") as io:
        link = ZarrDataIO(io.read().acquisition["copy"].data, link_data=True)
        for what, data in (("a link", link), ("None", ZarrDataIO(shape=(20,), dtype="f8"))):
            with pytest.raises(UsageError, match=f"{what} cannot replace a dataset"):
                io.replace("/acquisition/raw/data", data)
    check(path)


@pytest.mark.parametrize("path", [2], indirect=True)
def test_new_data_in_a_field_are_told_of_replace_which_warns_of_other_lengths(path):
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        raw = nwbfile.acquisition["raw"]
        raw.fields["data"] = np.arange(5.0)
        raw.set_modified()
        with pytest.raises(ConflictError, match=r"io\.replace\('/acquisition/raw/data', values\)"):
            io.write(nwbfile)
        with (
            pytest.warns(UserWarning, match="Length of data does not match length of timestamps"),
            pytest.warns(LengthWarning, match=r"raw/data .*trials/timeseries: 1 of 3 ranges in it lead past"),
            pytest.warns(LengthWarning, match="/acquisition/raw: the data have 2 samples, and the timestamps 20"),
            pytest.warns(errors.DroppedChangesWarning, match="not written: changes of TimeSeries 'raw' in memory"),
        ):
            io.replace("/acquisition/raw/data", np.arange(2.0))
        with pytest.warns(LengthWarning, match="/acquisition/copy: the data have 20 samples, and the timestamps 2"):
            io.replace("/acquisition/raw/timestamps", np.arange(2.0))
        (remark,) = [str(each) for each in verify(path, "links").remarks if each.kind == "series-uneven"]
        assert remark.startswith("/acquisition/copy: series-uneven: the data have 20 samples, and the timestamps 2.")
        with warnings.catch_warnings(action="error", category=LengthWarning):
            io.replace("/acquisition/copy/data", np.arange(2))
            raw = io.read().acquisition["raw"]
            (remark,) = [each for each in verify(path, "links").remarks if each.kind == "reference-range"]
            assert (remark.path, verify(path).problems) == ("/intervals/trials/timeseries", [])
            io.replace("/intervals/trials/timeseries", [(0, 1, raw), (1, 1, raw), (-1, -1, raw)])
            io.replace("/acquisition/raw/data", np.arange(2, 4))
    assert not verify(path, "links").remarks


def test_a_collection_that_was_only_looked_at_is_no_change(path):
    with NWBZarrIO(path, "r+") as io, warnings.catch_warnings(action="error", category=errors.DroppedChangesWarning):
        nwbfile = io.read()
        assert not nwbfile.stimulus
        assert not nwbfile.analysis
        io.write(nwbfile)
        assert not nwbfile.modified
        nwbfile = io.read()
        assert not nwbfile.scratch
        assert not nwbfile.lab_meta_data
        io.rename("/acquisition/copy", "other")


@pytest.mark.parametrize("path", [2], indirect=True)
def test_an_append_that_leaves_data_and_timestamps_of_other_lengths_is_warned_of(path):
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        raw = nwbfile.acquisition["raw"]
        raw.data.append(np.arange(3.0))
        with pytest.warns(LengthWarning, match=r"/acquisition/raw: the data have 23 samples, and the timestamps 20"):
            io.write(nwbfile)
        raw.timestamps.append(np.arange(3.0))
        message = "/acquisition/copy: the data have 20 samples, .* timestamps 23"
        with pytest.warns(LengthWarning, match=message) as caught:
            io.write(nwbfile)
        assert len(caught) == 1
        nwbfile.acquisition["copy"].data.append(np.arange(3))
        with warnings.catch_warnings(action="error"):
            io.write(nwbfile)


@pytest.mark.parametrize("path", [2], indirect=True)
def test_series_with_shared_timestamps_part_as_the_remedy_says(path):
    with NWBZarrIO(path, "r+") as io:
        io.remove("/intervals/trials")
        for cascade in (False, True):
            with pytest.raises(ConflictError) as caught:
                io.remove("/acquisition/raw", cascade=cascade)
            call = "io.replace('/acquisition/copy/timestamps', values)"
            own = f"/acquisition/copy shares it. Give it its own first: {call}, or remove /acquisition/copy as well."
            assert own in str(caught.value)
        io.replace("/acquisition/copy/timestamps", np.arange(20.0))
        assert io.remove("/acquisition/raw") == ["removed /acquisition/raw"]
    check(path)


@pytest.mark.parametrize("path", [2], indirect=True)
def test_a_series_that_shares_data_and_timestamps_is_named_once(path):
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        raw = nwbfile.acquisition["raw"]
        nwbfile.add_acquisition(TimeSeries(name="both", data=raw, unit="V", timestamps=raw))
        io.write(nwbfile)
        io.remove("/intervals/trials", "/acquisition/copy")
        with pytest.raises(ConflictError, match=r"\. /acquisition/both shares it\. Give it its own .* or remove /acq"):
            io.remove("/acquisition/raw")


@pytest.mark.parametrize("path", [2], indirect=True)
def test_remedies_name_what_works(path):
    table, series = f"{GROUP}/electrodes", "/acquisition/wide"
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        region = nwbfile.create_electrode_table_region([0, 1], "of the series", "electrodes")
        nwbfile.add_acquisition(ElectricalSeries(name="wide", data=np.ones((5, 2)), electrodes=region, rate=1.0))
        lfp = LFP(ElectricalSeries(name="lfp", data=np.ones((5, 2)), electrodes=region, rate=1.0))
        nwbfile.create_processing_module("ecephys", "it").add(lfp)
        io.write(nwbfile)
        with pytest.raises(ConflictError, match="Remove /processing/ecephys/LFP together with it"):
            io.remove(series)
        with pytest.raises(UsageError, match="rows= takes one path, and 2 were given"):
            io.remove(series, table, rows=[1])
        for cascade in (False, True):
            with pytest.raises(ConflictError, match=rf"First remove {series}.*, or replace the row numbers"):
                io.remove(table, rows=[1], cascade=cascade)
        with pytest.warns(UserWarning, match="does not match the length of electrodes"):
            io.replace(f"{series}/data", np.ones((5, 1)))
        io.replace(f"{series}/electrodes", [0])
        with pytest.raises(ConflictError, match="or pass cascade=True"):
            io.remove(table, rows=[1])
        io.remove(table, rows=[1], cascade=True)
        io.remove(series, "/processing/ecephys/LFP")
    check(path)


@pytest.mark.parametrize("path", ["both"], indirect=True)
def test_what_was_read_before_is_outdated_and_says_so(path):
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        raw, copy = nwbfile.acquisition["raw"].data, nwbfile.acquisition["copy"].data
        raw[0] = 7.0  # written before the change
        io.rename("/acquisition/raw", "renamed")
        with pytest.raises(UsageError, match=r"renamed /acquisition/raw to renamed .*io\.read\(\)"):
            raw[0]
        assert copy[1] == 1
        with pytest.raises(UsageError, match=r"io\.read\(\)"):
            copy[1] = 2
        with pytest.raises(UsageError, match="before something in the file was removed, renamed, replaced or copied"):
            io.write(nwbfile)
        assert io.read().acquisition["renamed"].data[0] == 7
    check(path)


def test_an_array_from_before_two_changes_is_gone_with_the_second(tmp_path):
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile_of_all())
    with NWBZarrIO(path, "r+") as io:
        data = io.read().acquisition["raw"].data
        io.remove("/intervals/trials")
        assert data[:].size
        io.remove("/acquisition/raw", "/acquisition/copy")
        with pytest.raises(UsageError, match=r"io\.read\(\)"):
            data[:]


def test_arrays_that_are_not_those_of_what_was_read_are_outdated_too(tmp_path):
    path, wrapper = tmp_path / "a.nwb.zarr", ZarrDataIO(shape=(20,), dtype="f8")
    nwbfile = nwbfile_of_all()
    nwbfile.add_acquisition(TimeSeries(name="later", data=wrapper, unit="V", rate=1.0))
    with NWBZarrIO(path, "a") as io:
        io.write(nwbfile)
        plain = io.read().trials["start_time"].data.data
        wrapper.dataset[:] = 1
        io.rename("/acquisition/later", "renamed")
        for array in (plain, wrapper.dataset):
            with pytest.raises(UsageError, match=r"io\.read\(\)"):
                array[0] = 5
    check(path)
    assert samples.read_zarr(path).acquisition["renamed"].data[:].tolist() == [1] * 20


@pytest.mark.parametrize("mode", ["r", "r+"])
@pytest.mark.parametrize(("values", "what"), [
    (np.arange(50.0), "other chunks"),
    (np.arange(3.0), "other chunks"),
    (np.arange(40.0).reshape(20, 2), "other chunks"),
    (np.arange(20, dtype="i2"), "another data type"),
    (ZarrDataIO(np.arange(20.0), compressor="zstd"), "another codec"),
], ids=("longer", "shorter", "two axes", "type", "codec"))  # fmt: skip
@pytest.mark.filterwarnings("ignore:TimeSeries 'raw'. Length of data")
@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.LengthWarning")
def test_an_array_of_a_closed_file_is_outdated_when_its_data_are_replaced(path, mode, values, what):
    array = samples.read_zarr(path, mode).acquisition["raw"].data
    with NWBZarrIO(path, "r+") as io:
        io.replace("/acquisition/raw/data", values)
    with pytest.raises(errors.StoreError, match=f"given {what} while it was open.* Open the file again"):
        array[3]


@pytest.mark.parametrize(("shape", "options", "values", "new_options"), [
    ((60,), {}, np.arange(60), {}),
    ((60,), {"chunks": (10,)}, np.arange(60), {"chunks": (10,)}),
    ((60,), {"chunks": (2,)}, np.arange(30.0), {"chunks": (2,)}),
    ((30, 2), {"chunks": (10, 2)}, np.arange(60.0).reshape(60, 1), {"chunks": (20, 1)}),
    ((60,), {}, np.arange(60.0), {"filters": [{"id": "delta", "dtype": "<f8"}]}),
    ((60,), {"chunks": (10,), "shards": (20,)}, np.arange(60), {"chunks": (10,), "shards": (20,)}),
    ((60,), {"chunks": (10,), "shards": (20,)}, np.arange(40.0), {"chunks": (10,), "shards": (20,)}),
], ids=("type", "type, chunks", "shorter", "other shape", "filters", "type, shards", "shorter, shards"))  # fmt: skip
@FORMATS
def test_an_open_reader_takes_no_new_chunk_for_an_old_one(tmp_path, zarr_format, shape, options, values, new_options):
    if "shards" in options and zarr_format != 3:
        pytest.skip("format 3 only")
    path, old, name = tmp_path / "a.nwb.zarr", np.arange(60.0).reshape(shape), "/acquisition/raw/data"
    nwbfile = mock_NWBFile()
    nwbfile.add_acquisition(TimeSeries(name="raw", data=ZarrDataIO(old, **options), unit="V", rate=1.0))
    kept = WriteOptions(consolidate_metadata=zarr_format == "both" or values.dtype.kind == "f")
    samples.write_zarr(path, nwbfile, zarr_format=zarr_format, write_options=kept)
    with NWBZarrIO(path, "r") as io:
        array = io.read().acquisition["raw"].data
        with NWBZarrIO(path, "r+") as other:
            other.replace(name, ZarrDataIO(values, **new_options))
        for key in (-1, slice(-1, None), slice(None)):
            with pytest.raises(errors.StoreError, match=r"while it was open.* Open the file again"):
                array[key]
    for number in (2, 3) if zarr_format == "both" else (zarr_format,):
        read = open_group(path, zarr_format=number)[name]
        np.testing.assert_array_equal(read[:], values)
        assert read.dtype == values.dtype
    with NWBZarrIO(path, "r") as io:  # new values of the same form are read
        array = io.read().acquisition["raw"].data
        with NWBZarrIO(path, "r+") as other:
            given = {**new_options, "chunks": read.chunks, "shards": getattr(read, "shards", None)}
            other.replace(name, ZarrDataIO(values + 1, **given))
        np.testing.assert_array_equal(array[:], values + 1)
    assert not verify(path).problems


def test_a_dataset_that_is_missing_is_added_where_the_schema_has_it(path):
    shutil.rmtree(path / "session_description")
    consolidate(path, forget=True)
    with pytest.raises(ContainerError):
        samples.read_zarr(path)
    with NWBZarrIO(path, "r+") as io:
        assert io.replace("/session_description", "licks") == ["added /session_description"]
        io.replace("/general/keywords", ["a", "b"])
        with pytest.raises(ValueRefusedError, match=r"one value here \(/general/lab\)"):
            io.replace("/general/lab", ["a", "b"])
        for name in ("/nothing", "/acquisition/nothing"):
            with pytest.raises(errors.ReferenceTargetError, match="no such group or dataset"):
                io.replace(name, [1])
    nwbfile = samples.read_zarr(path)
    assert (nwbfile.session_description, list(nwbfile.keywords[:])) == ("licks", ["a", "b"])
    check(path)


@pytest.mark.parametrize("path", [2, 3], indirect=True)
def test_a_damaged_chunk_is_not_taken_for_a_change_where_documents_contradict_each_other(path):
    folder = path / "acquisition/raw/data"
    document = next(folder / name for name in (".zarray", "zarr.json") if (folder / name).exists())
    text = document.read_text()
    document.write_text(text.replace('"<f8"', '"<f4"').replace("float64", "float32"))
    assert document.read_text() != text
    for chunk in (path for path in folder.rglob("*") if path.name[0] in "01" and path.is_file()):
        chunk.write_bytes(b"damaged")
    with pytest.raises(errors.ChunkError):
        samples.read_zarr(path).acquisition["raw"].data[:]


@FORMATS
def test_links_without_a_schema(zarr_format):
    store: dict[str, bytes] = {}
    target = trees.dataset("x", np.arange(5))
    inner = trees.group("inner", target, trees.dataset("scalar", 3), text="a", numbers=np.arange(3, dtype="u2"))
    tree = trees.root(trees.group("g", inner), trees.group("links"))
    tree["links"].set_link(LinkBuilder(inner, "to_inner"))
    tree["links"].set_link(LinkBuilder(target, "to_x"))
    trees.write_builder(store, tree, zarr_format=zarr_format)
    with ZarrIO(store, "r+") as io:
        io.rename("/g", "h")
        assert io.remove("/links/to_inner/scalar", "/h/inner@text") == [
            "removed /h/inner/scalar", "removed the attribute 'text' of /h/inner",
        ]  # fmt: skip
        io.rename("/links/to_x", "link")
        with pytest.raises(ConflictError, match="the link /links/to_inner; the link /links/link"):
            io.remove("/h/inner")
        builder = io.read_builder()
        assert builder["links"].links["link"].builder is builder["h"]["inner"]["x"]
        assert builder["h"]["inner"].attributes["numbers"].dtype == "u2"
        io.remove("/h/inner", cascade=True)
    builder = trees.read_builder(store)
    assert (not builder["links"].links, not builder["h"].groups) == (True, True)
    assert not [key for key in store if "inner/" in key]


@FORMATS
def test_columns_that_are_listed_as_bytes(zarr_format):
    columns = [trees.dataset(name, [1, 2]) for name in "abc"]
    table = trees.group("table", *columns, colnames=np.array([b"a", b"b", b"c"]))
    store = trees.write_builder({}, trees.root(table), zarr_format=zarr_format)
    with ZarrIO(store, "r+") as io:
        io.remove("/table/b")
        io.rename("/table/c", "longer")
    assert list(trees.read_builder(store)["table"].attributes["colnames"]) == [b"a", b"longer"]


@FORMATS
def test_the_note_of_a_table_whose_last_column_is_removed_keeps_what_it_has(zarr_format):
    table = trees.group("table", trees.dataset("a", [1, 2]), colnames=["a"], zarr_link="an attribute of the user")
    store = trees.write_builder({}, trees.root(table), zarr_format=zarr_format)
    with ZarrIO(store, "r+") as io:
        io.remove("/table/a")
    attributes = trees.read_builder(store)["table"].attributes
    assert (list(attributes["colnames"]), attributes["zarr_link"]) == ([], "an attribute of the user")


def test_categories_of_an_aligned_table_are_renamed_and_removed_and_so_are_their_rows():
    store: dict[str, bytes] = {}
    names = ("x", "x", "y", "specifications2")
    one, two, *columns = (VectorData(name=name, description="it", data=list("abc")) for name in names)
    tables = [DynamicTable(name=name, description="it", columns=[x]) for name, x in (("one", one), ("two", two))]
    write_container(store, AlignedDynamicTable(name="root", description="it", columns=columns, category_tables=tables))
    with ZarrIO(store, "r+", manager=get_manager()) as io:
        io.rename("/one", "first")
        io.remove("/two", "/specifications2")
        root = io.read()
        assert (list(root.categories), root.colnames) == (["first"], ("y",))
        io.remove("/", rows=[0])
        assert io.read()["first"]["x"][:].tolist() == ["b", "c"]
        io.remove("/", rows=slice(None))
        root = io.read()
        assert len(root) == len(root["first"]) == 0
        root.add_row(y="7", first={"x": "new"})
        io.write(root)
        assert io.read()["first"]["x"][:].tolist() == ["new"]
        io.remove("/y")
        assert io.read().colnames == ()
    assert not verify(store).problems


@FORMATS
def test_references_of_hdf5_follow_wherever_they_are(tmp_path, zarr_format):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        x, y = (file.create_dataset(f"g/{name}", data=np.arange(4)) for name in "xy")
        both = np.array([x.ref, y.ref], h5py.ref_dtype)
        rows = np.zeros(2, [("n", "i4"), ("inner", [("r", h5py.ref_dtype), ("f", "f4")])])
        rows["inner"]["r"] = both
        file["nested"] = rows
        file.attrs.create("axes", np.array([both, both]), dtype=h5py.ref_dtype)
        file.attrs.create("rows", rows["inner"], dtype=rows["inner"].dtype)
        file.create_dataset("regions", data=np.array([y.regionref[1:2]], h5py.regionref_dtype))
        x.make_scale("x")
        y.dims[0].attach_scale(x)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=zarr_format, check=False)
    with ZarrIO(tmp_path / "a.zarr", "r+") as io:
        io.rename("/g/x", "longer")
        io.rename("/g", "renamed")
        with pytest.raises(ConflictError, match="an attribute of HDF5 in the note of /renamed/y"):
            io.remove("/renamed/longer")
    convert(tmp_path / "a.zarr", tmp_path / "b.h5", check=False)
    with h5py.File(tmp_path / "b.h5") as file:
        names = ["/renamed/longer", "/renamed/y"]
        references = file["nested"]["inner"]["r"], file.attrs["rows"]["r"], *file.attrs["axes"]
        assert [[file[each].name for each in some] for some in references] == [names] * 4
        assert file[file["regions"][0]].name == names[1]
        assert file["renamed/y"].dims[0][0].name == names[0]


@FORMATS
def test_strict_json_stays_strict(zarr_format):
    def not_strict() -> list[str]:
        return [key for key, text in store.items() if b":NaN" in text]

    store: dict[str, bytes] = {}
    datasets = [trees.dataset(name, [1.0, 2.0], attributes={"nan": np.nan}) for name in "xyz"]
    tree = trees.root(trees.group("g", *datasets))
    tree.set_group(trees.group("m", one=ZarrReference(".", "/g/x"), two=[ZarrReference(".", "/g/x")]))
    options = WriteOptions(strict_json=True)
    trees.write_builder(store, tree, zarr_format=zarr_format)
    assert not_strict()
    with ZarrIO(store, "r+", write_options=options) as io, pytest.raises(UsageError, match="not strict JSON"):
        io.rename("/g/x", "a")
    store.clear()
    trees.write_builder(store, tree, zarr_format=zarr_format, write_options=options)
    with ZarrIO(store, "r+", write_options=options) as io:
        io.rename("/g/x", "a")
        io.replace("/g/y", [3.0])
        io.read_builder()["g"]["z"].data.append([3.0])
    assert not not_strict()
    with ZarrIO(store, "r+", write_options=options) as io:
        assert len(io.remove("/g/a", "/m@one", "/m@two")) == 3


def test_other_modes_refuse():
    store = trees.write_builder({}, trees.root(trees.group("g")))
    with ZarrIO(store) as io, pytest.raises(UnsupportedModeError, match="r\\+"):
        io.remove("/g")


@pytest.mark.parametrize("path", [2], indirect=True)
def test_a_scalar_is_replaced_and_a_name_is_used_again(path):
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="rated", data=np.arange(5.0), unit="V", rate=5.0))
        io.write(nwbfile)
        io.replace("/acquisition/rated/starting_time", 2.0)
        assert io.read().acquisition["rated"].starting_time == 2
        io.remove("/acquisition/rated")
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="rated", data=[1, 2, 3], unit="V", rate=1.0))
        io.write(nwbfile)
        assert list(io.read().acquisition["rated"].data[:]) == [1, 2, 3]
    check(path)


@pytest.mark.parametrize(("data", "problem"), [
    (["2025-03-01", "2025-03-02"], "the schema has one value here"),
    ("yesterday", "not a time in the form of ISO 8601"),
    (b"yesterday", "not a time in the form of ISO 8601"),
], ids=["two", "text", "bytes"])  # fmt: skip
@pytest.mark.parametrize("path", [2], indirect=True)
def test_a_time_is_replaced_by_one_time(path, data, problem):
    with NWBZarrIO(path, "r+") as io:
        with pytest.raises(ValueRefusedError, match=problem):
            io.replace("/session_start_time", data)
        io.replace("/session_start_time", "2025-03-01T12:00:00+00:00")
        assert io.read().session_start_time.isoformat() == "2025-03-01T12:00:00+00:00"
    check(path)


def test_a_session_of_icechunk_is_changed():
    icechunk = pytest.importorskip("icechunk")
    session = icechunk.Repository.create(icechunk.in_memory_storage()).writable_session("main")
    with NWBZarrIO(samples.write_zarr(session, nwbfile_of_all()), "r+") as io:
        io.rename("/acquisition/raw", "renamed")
        io.remove("/units/tags", f"{GROUP}/electrodes/label")
        io.replace("/acquisition/renamed/data", np.arange(40.0).reshape(20, 2))
        nwbfile = io.read()
        assert nwbfile.trials["timeseries"][0][0].timeseries is nwbfile.acquisition["renamed"]
        assert nwbfile.acquisition["renamed"].data[1].tolist() == [2, 3]
        assert nwbfile.units.colnames == ("spike_times", "electrodes")


@pytest.mark.parametrize("path", [2], indirect=True)
def test_the_command_line(path, capsys):
    assert main(["remove", str(path), "/acquisition/raw"]) == 2
    assert "/acquisition/copy shares it." in capsys.readouterr().err
    assert main(["remove", str(path), "/acquisition/raw", "/acquisition/copy"]) == 2
    assert "use --drop-links" in capsys.readouterr().err
    assert main(["remove", str(path), "/acquisition/raw", "/acquisition/copy", "--drop-links"]) == 0
    assert "removed 3 references in /intervals/trials/timeseries" in capsys.readouterr().out
    assert main(["rename", str(path), "/units/tags", "words", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == [
        "renamed /units/tags to words", "renamed /units/tags_index to words_index",
    ]  # fmt: skip
    assert main(["remove", str(path), "/units/id"]) == 2
    assert re.search("the schema requires 'id'", capsys.readouterr().err)
    for rows in ("1,2", ":1"):
        assert main(["remove", str(path), "/units", "--rows", rows]) == 0
    assert capsys.readouterr().out == "removed 2 rows of /units\nremoved 1 row of /units\n"
    assert main(["remove", str(path), "/units", "--rows", "1:2:3"]) == 2
    assert "Give numbers, such as 0,5, or a range" in capsys.readouterr().err


# ---- copies of containers of other files ----------------------------------------------------------------------------
def session(nwbfile: Any) -> Any:
    """Add what a probe's file has beside its tables: a series of its electrodes, and one with the timestamps of it."""
    electrodes = nwbfile.create_electrode_table_region([1, 3], "two")
    data = H5DataIO(np.arange(400.0).reshape(200, 2), chunks=(50, 2))
    module = nwbfile.create_processing_module("ecephys", "it")
    module.add(container := LFP())
    lfp = container.create_electrical_series("lfp", data, electrodes, timestamps=np.arange(200.0))
    module.add(TimeSeries(name="power", data=np.arange(200), unit="V", timestamps=lfp))
    return nwbfile


@pytest.fixture(params=[NWBZarrIO, NWBHDF5IO], ids=["zarr", "hdf5"])
def other(tmp_path, request):
    with request.param(str(tmp_path / "probe.nwb"), "w") as io:
        io.write(session(nwbfile_of_all()))
    with request.param(str(tmp_path / "probe.nwb"), "r") as io:
        yield io


@pytest.fixture(params=[2, 3, "both"])
def target(tmp_path, request):
    return samples.write_zarr(tmp_path / "session.nwb.zarr", mock_NWBFile(), zarr_format=request.param)


def test_the_parts_of_a_probe_are_copied_and_lead_to_each_other(other, target):
    probe = other.read()
    probe.acquisition["raw"].fields["comments"] = "changed in memory"
    with NWBZarrIO(target, "r+") as io:
        before = io.read()
        message = r"electrodes/group: .*'shank[01]' .*'shank[01]' .*Copy .* first, or remove what leads to it\.$"
        with pytest.raises(errors.MissingTargetError, match=message):
            io.copy(probe.electrodes)
        parts = [probe.devices["probe"], *probe.electrode_groups.values(), probe.electrodes, probe.units]
        for part in (*parts, probe.acquisition["raw"], probe.acquisition["copy"], probe.trials):
            io.copy(part)
        assert io.copy(probe.processing["ecephys"], name="of the probe") == [
            f"copied /processing/ecephys of {other.source} to /processing/of the probe"
        ]
        with pytest.raises(UsageError, match="before something in the file"):
            io.write(before)
        nwbfile = io.read()
        assert nwbfile.electrodes["group"][3] is nwbfile.electrode_groups["shank1"]
        assert nwbfile.trials["timeseries"][2][0].timeseries is nwbfile.acquisition["raw"]
        module = nwbfile.processing["of the probe"]
        assert module["LFP"]["lfp"].electrodes.table is nwbfile.electrodes
        assert module["power"].timestamps[3] == 3
        assert nwbfile.acquisition["raw"].comments == "changed in memory"
        nwbfile.add_unit(spike_times=[1.0], electrodes=[3], tags=["b"])
        io.write(nwbfile)
    check(target)
    differences = {(each.path, each.attribute) for each in compare(other.source, target)}
    own = {("/", "object_id"), ("/file_create_date", None), ("/identifier", None), ("/acquisition/raw", "comments")}
    assert {path for path, _ in differences - own if not path.startswith(("/units", "/processing"))} == set()


@pytest.mark.parametrize("target", [3], indirect=True)
def test_a_result_of_another_copy_of_the_session_is_copied(other, target):
    probe = other.read()
    with NWBZarrIO(target, "w", zarr_format=3) as io:
        io.export(other, probe)
    with NWBZarrIO(target, "r+") as io:
        io.remove("/processing/ecephys/LFP", "/processing/ecephys/power")
        io.rename("/acquisition/raw", "first")
        with pytest.raises(ConflictError, match="Choose another name, or copy its members with into='/processing/ec"):
            io.copy(probe.processing["ecephys"])
        io.copy(probe.processing["ecephys"]["LFP"])
        io.remove("/acquisition/copy")
        io.copy(probe.acquisition["copy"], "/processing/ecephys")
        module = io.read().processing["ecephys"]
        assert module["LFP"]["lfp"].electrodes.table is io.read().electrodes
        assert module["LFP"]["lfp"].data[199].tolist() == [398, 399]
        assert module["copy"].timestamps.path == "acquisition/first/timestamps"
    check(target)


def test_a_column_without_the_index_that_its_class_has_is_copied_appended_to_and_exported(tmp_path):
    """hdmf builds no such table: it looks for ``units.electrodes_index``, and pynwb for the target of it."""
    source, path = samples.write_hdf5(tmp_path / "a.nwb", nwbfile_of_all()), tmp_path / "b.nwb.zarr"
    with h5py.File(source, "r+") as file:
        del file["units/electrodes_index"]
    convert(source, path)
    with NWBZarrIO(path, "r+") as io, NWBHDF5IO(str(source), "r") as other:
        io.remove("/units")
        io.copy(other.read().units)
        nwbfile = io.read()
        nwbfile.units.add_column("first", "a number", data=[1, 2, 3])
        io.write(nwbfile)
    check(path)
    with NWBZarrIO(path) as io, NWBZarrIO(tmp_path / "c.nwb.zarr", "w") as copy:
        nwbfile = io.read()
        nwbfile.units.add_column("second", "a number", data=[4, 5, 6])
        copy.export(io, nwbfile)
    units = samples.read_zarr(tmp_path / "c.nwb.zarr").units
    assert units.to_dataframe(index=True).loc[2, ["electrodes", "first", "second"]].tolist() == [2, 3, 6]


@pytest.mark.parametrize("other", [NWBZarrIO], indirect=True)
def test_a_series_of_another_table_of_the_same_name_is_created_anew(other, tmp_path):
    old = other.read().processing["ecephys"]["LFP"]["lfp"]
    own = samples.write_zarr(tmp_path / "own.nwb.zarr", nwbfile_of_all())
    with NWBZarrIO(own, "r+") as io:
        message = r"its own object of that name.* create_electrode_table_region"
        with pytest.raises(errors.MissingTargetError, match=message):
            io.copy(old, "/acquisition")
        with pytest.raises(ConflictError, match=r"'electrodes' already .*row by row \(electrodes: add_electrode\)"):
            io.copy(old.electrodes.table)
        nwbfile = io.read()
        region = nwbfile.create_electrode_table_region([0, 2], "two")
        given = {"linked": old.data, "read": old.data[:], "copied": ZarrDataIO(old.data, link_data=False)}
        for name, data in given.items():
            nwbfile.add_acquisition(ElectricalSeries(name=name, data=data, electrodes=region, rate=1.0))
        io.write(nwbfile)
    data = {name: each.data for name, each in samples.read_zarr(own).acquisition.items()}
    assert [data[name].location == data["raw"].location for name in given] == [False, True, True]
    check(own)


def raw(file: Any) -> Any:
    return file.acquisition["raw"]


@pytest.mark.parametrize(
    ("part", "options", "error", "message"),
    [
        (lambda file: file, {}, UsageError, "not its root.* export for a file"),
        (lambda file: TimeSeries(name="new", data=[1], unit="V", rate=1.0), {}, UsageError, "io.write for a new one"),
        (lambda file: file.acquisition["copy"], {}, errors.MissingTargetError, "'timestamps' of the TimeSeries 'raw'"),
        (raw, {"into": "/general/devices"}, ConflictError, "no place for a Time"),
        (raw, {"into": "/none"}, errors.ReferenceTargetError, r"group to copy into does not exist \(/none\)"),
        (raw, {"into": "/processing/new"}, errors.ReferenceTargetError, r"create_processing_module\('new', \.\.\.\)"),
        (raw, {"name": "a/b"}, NameRefusedError, "a/b"),
        (raw, {"name": "taken"}, ConflictError, "has a member 'taken' already"),
        (lambda file: file.units, {"name": "units_B"}, ConflictError, r"no place for a Units .*name there is 'units'"),
        (lambda file: file.electrodes, {"name": "electrodes_B"}, ConflictError, "name there is 'electrodes'"),
        (lambda file: file.devices["probe"], {"name": "models"}, ConflictError, "no place for a Device 'models'"),
        (lambda file: file.devices["probe"], {"name": "again"}, ConflictError, "devices/probe in this file is the obj"),
        (lambda file: file.units["tags"], {"into": "/intervals/trials"}, ConflictError,
         r"a table lists its columns, .* \(/intervals/trials\)\. Use add_column of the table, or add_trial_column"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("other", [NWBZarrIO], indirect=True)
@pytest.mark.parametrize("target", [3], indirect=True)
def test_what_cannot_be_copied_is_refused(other, target, part, options, error, message):
    probe = other.read()
    with NWBZarrIO(target, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="taken", data=[1.0], unit="V", rate=1.0))
        nwbfile.add_trial(start_time=0.0, stop_time=1.0)
        io.write(nwbfile)
        io.copy(probe.devices["probe"])
        with pytest.raises(error, match=message):
            io.copy(part(probe), **options)
        other.close()
        with pytest.raises(UnsupportedModeError, match="closed"):
            io.copy(raw(probe))
        assert list(io.read().acquisition) == ["taken"]
    check(target)


@pytest.mark.parametrize("target", [2, "both"], indirect=True)
def test_the_namespace_of_a_copy_is_cached(tmp_path, target):
    extensions.write_with(tmp_path / "e.nwb.zarr", extensions.extension(tmp_path, "ndx-knobs"))
    with NWBZarrIO(tmp_path / "e.nwb.zarr") as source, NWBZarrIO(target, "r+") as io:
        io.copy(source.read().acquisition["ndx-knobs"])
        assert io.read().acquisition["ndx-knobs"].knob == 7
    assert "ndx-knobs" in NWBZarrIO.get_namespaces(target)
    check(target)
    assert type(samples.read_zarr(target).acquisition["ndx-knobs"]).__name__ == "KnobsSeries"


@FORMATS
def test_a_subject_whose_age_has_no_reference_is_edited(tmp_path, zarr_format):
    """pynwb then looks for the version of the schema in the root (NWB before 2.6)."""
    nwbfile = mock_NWBFile(subject=Subject(subject_id="m", age="P5D", sex="M", species="Mus musculus"))
    path = samples.write_zarr(tmp_path / "a.zarr", nwbfile, zarr_format=zarr_format)
    with NWBZarrIO(path, "r+") as io:
        io.remove("/general/subject/age@reference", "/general/subject/sex")
    with NWBZarrIO(path, "r+") as io:
        io.replace("/general/subject/age", "P50D")
    subject = samples.read_zarr(path).subject
    assert (subject.age, subject.sex) == ("P50D", None)


# ---- rows of tables -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [[1], slice(-2, -1), [False, True, False], np.array([1])], ids=repr)
def test_rows_are_removed_with_all_that_belongs_to_them(path, rows):
    with NWBZarrIO(path, "r+") as io:
        before = io.read().units
        assert io.remove("/units", rows=rows) == ["removed 1 row of /units"]
        assert io.remove("/intervals/trials", rows=rows) == ["removed 1 row of /intervals/trials"]
        with pytest.raises(UsageError, match="before a change of the file: removed 1 row of /units"):
            before["spike_times"].data[:]
        nwbfile = io.read()
        assert nwbfile.units.id[:].tolist() == [0, 2]
        assert [list(times) for times in nwbfile.units["spike_times"][:]] == [[0.0], [0.0, 1.0, 2.0]]
        assert [list(tags) for tags in nwbfile.units["tags"][:]] == [[], ["a", "a"]]
        assert nwbfile.trials["start_time"][:].tolist() == [0.0, 2.0]
        assert nwbfile.trials["timeseries"][1][0].timeseries is nwbfile.acquisition["raw"]
        nwbfile.add_unit(spike_times=[7.0], tags=["b"], electrodes=[3])
        io.write(nwbfile)
        io.remove("/intervals/trials", rows=slice(None))
        assert len(io.read().trials) == 0
    check(path)
    units = samples.read_zarr(path).units
    assert [list(region.index) for region in units["electrodes"][:]] == [[0], [2], [3]]
    assert units["tags"][2] == ["b"]


@pytest.mark.parametrize("rows", [-1, [0, -1], [3], ["a"], 0.5], ids=repr)
@pytest.mark.parametrize("path", [3], indirect=True)
def test_what_is_no_row_is_refused(path, rows):
    with NWBZarrIO(path, "r+") as io, pytest.raises(UsageError, match=r"not rows of this table, which has 3 \(/units"):
        io.remove("/units", rows=rows)
    assert main(["remove", str(path), "/units", f"--rows={rows}"]) == 2
    check(path)


def test_row_numbers_follow_and_those_of_removed_rows_are_refused(path):
    table = f"{GROUP}/electrodes"
    with NWBZarrIO(path, "r+") as io:
        with pytest.raises(ConflictError, match=r"rows 0, 1 of .*, to which /units/electrodes points \(.*Remove these"):
            io.remove(table, rows=[0, 1])
        io.remove(table, rows=[3])
        assert io.remove(table, rows=[0], cascade=True)[1:] == [
            f"removed row 0 of {table}, to which /units/electrodes points"
        ]
        nwbfile = io.read()
        assert nwbfile.electrodes["label"][:].tolist() == ["1", "2"]
        assert [list(region.index) for region in nwbfile.units["electrodes"][:]] == [[], [1], [2]]
        region = nwbfile.create_electrode_table_region([1], "of a series")
        nwbfile.add_acquisition(ElectricalSeries(name="e", data=np.zeros((5, 1)), electrodes=region, rate=1.0))
        io.write(nwbfile)
        with pytest.raises(ConflictError, match=r"to which /acquisition/e/electrodes points \(it cannot be shorter"):
            io.remove(table, rows=[1], cascade=True)
        io.remove(table, rows=[0], cascade=True)
        assert list(io.read().acquisition["e"].electrodes.data[:]) == [0]
    check(path)


@pytest.mark.parametrize("is_written", [True, False], ids=["written", "closed"])
@pytest.mark.parametrize("what", ["column", "series", "table"])
def test_what_was_added_in_this_session_does_not_grow_in_memory_only(tmp_path, what, is_written):
    nwbfile = mock_NWBFile()
    for start in (0.0, 2.0):
        nwbfile.add_trial(start_time=start, stop_time=start + 1)
    path = samples.write_zarr(tmp_path / "a.nwb.zarr", nwbfile)
    warned: Any = nullcontext()
    if what == "column" and is_written:  # the other columns have the row, and wait for a write
        warned = pytest.warns(errors.DroppedChangesWarning, match=r"/trials/id, .*/stop_time were .* ConflictError")
    with warned, pytest.raises(ConflictError, match="close the file and open it again"), NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_trial_column("rt", "reaction time", data=[0.1, 0.2])
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0, 2.0], unit="V", rate=1.0))
        nwbfile.add_epoch(start_time=0.0, stop_time=1.0, tags=["a"])
        io.write(nwbfile)
        if what == "column":
            nwbfile.add_trial(start_time=5.0, stop_time=6.0, rt=0.3)
        elif what == "series":
            nwbfile.acquisition["new"].data.append(3.0)
        else:
            nwbfile.add_epoch(start_time=2.0, stop_time=3.0, tags=["a"])
        if is_written:
            io.write(io.read())
    assert len(samples.read_zarr(path).trials) == 2
    assert verify(path).is_sound


# ---- tables whose columns are changed one by one --------------------------------------------------------------------
def _cut_all(nwbfile):
    for column in ("tags_index", "electrodes_index", "spike_times_index"):
        nwbfile.units[column].data.resize((2,))


@pytest.mark.parametrize(("change", "message"), [
    (lambda nwbfile: nwbfile.trials["start_time"].data.append(9.0), "3 rows in id.*; 4 rows in start_time"),
    (lambda nwbfile: nwbfile.units["spike_times"].data.append(6), "4 rows in spike_times_index"),
    (lambda nwbfile: nwbfile.units.spike_times.data.append(9.0), "'spike_times' would end at 6, and it has 7 val"),
    (lambda nwbfile: nwbfile.units.spike_times_index.data.__setitem__(2, 7), "would end at 7, and it has 6 values"),
    (lambda nwbfile: nwbfile.units.spike_times_index.data.__setitem__(0, 50), "would not be in ascending order"),
    (_cut_all, "3 rows in id; 2 rows in "),
])  # fmt: skip
@pytest.mark.parametrize("when", ["closed", "written", "written early"])
def test_a_change_of_one_column_alone_is_refused(path, monkeypatch, change, message, when):
    if when == "written early":
        monkeypatch.setattr(edits, "WAITING_BYTES", 0)
    with pytest.raises(ConflictError, match=rf"{message}.*Nothing was written"), NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        change(nwbfile)
        if when == "written":
            with pytest.raises(ConflictError, match=message):
                io.write(nwbfile)
    check(path)
    nwbfile = samples.read_zarr(path)
    assert (len(nwbfile.units), len(nwbfile.trials)) == (3, 3)


def test_columns_that_are_changed_together_are_written(path):
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        units = nwbfile.units
        for _ in range(2):  # the second time, the arrays are those of a file that was written
            units.spike_times.data.append(9.0)
            with pytest.raises(ConflictError, match="would end at"):
                io.write(nwbfile)
            units.spike_times_index.data[-1] = len(units.spike_times.data)
            io.write(nwbfile)
        assert units["spike_times"][2].tolist() == [0.0, 1.0, 2.0, 9.0, 9.0]
        nwbfile.add_unit(spike_times=[7.0], tags=["b"], electrodes=[3])
    check(path)


@pytest.mark.parametrize(("before", "after"), [(3, 1), (8, 6), (17, 15), (18, 16)])
@pytest.mark.parametrize("number", [2, 3])
def test_an_open_reader_takes_no_compressed_chunk_for_values(tmp_path, number, before, after):
    """A dataset without a codec, such as a region that is converted, decodes whatever has the size of its chunk."""
    name, path = "/acquisition/series/electrodes", tmp_path / "a.nwb.zarr"
    nwbfile = mock_NWBFile()
    group = nwbfile.create_electrode_group("group", "d", "l", nwbfile.create_device("device"))
    for _ in range(before):
        nwbfile.add_electrode(group=group, location="x")
    region = nwbfile.create_electrode_table_region(list(range(before)), "d")
    nwbfile.add_acquisition(ElectricalSeries(name="series", data=np.ones(5), electrodes=region, rate=1.0))
    convert(samples.write_hdf5(tmp_path / "a.nwb", nwbfile), path, zarr_format=number)
    with NWBZarrIO(path) as reader:
        electrodes = reader.read().acquisition["series"].electrodes.data
        with NWBZarrIO(path, "r+") as io:
            io.replace(name, list(range(after)))
        with pytest.raises(errors.StoreError, match="Open the file again"):
            electrodes[:]
    assert samples.read_zarr(path).acquisition["series"].electrodes.data[:].tolist() == list(range(after))


def test_a_table_that_another_program_has_damaged_can_be_mended(path):
    """One index is not in order, then a column is too long."""
    files = [open_group(path, "r+", zarr_format=number) for number, key in ((2, ".zgroup"), (3, "zarr.json"))
             if (path / key).exists()]  # fmt: skip
    for file in files:
        file["units/spike_times_index"][0] = 50
    problems = [(problem.path, problem.kind) for problem in verify(path, "links").problems]
    assert problems == [("/units/spike_times_index", "index-invalid")]
    with NWBZarrIO(path, "r+") as io:
        io.read().units.spike_times_index.data[0] = 2
    check(path)
    for file in files:
        file["intervals/trials/start_time"].resize(4)
    consolidate(path, forget=True)
    message = "the columns differ in length: 3 rows in id, stop_time, timeseries_index; 4 rows in start_time"
    found = [problem for problem in verify(path, "structure").problems if problem.kind == "table-uneven"]
    assert [(problem.path, problem.message) for problem in found] == [("/intervals/trials", message)]
    with NWBZarrIO(path, "r+") as io:
        io.read_builder()["intervals/trials/start_time"].data.resize((3,))
    check(path)
