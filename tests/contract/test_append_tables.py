"""The contract: columns of named fields, and the tables of intracellular recordings, grow."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hdmf.build import ReferenceBuilder
from hdmf.common import DynamicTable, VectorData, get_manager
from hdmf.data_utils import append_data, extend_data
from pynwb.icephys import VoltageClampSeries
from pynwb.ophys import ImageSegmentation, PlaneSegmentation
from pynwb.testing.mock.ophys import mock_ImagingPlane

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import ConflictError, UsageError, ValueRefusedError
from tests import samples
from tests.contract.test_1_append import valid
from tests.documents import is_fresh
from tests.places import Place
from tests.test_io import read
from tests.trees import dataset, read_builder, root, write_builder

pytestmark = pytest.mark.needs("append")

MASKS: dict[str, list[list[tuple[Any, ...]]]] = {
    "pixel_mask": [[(0, 1, 0.5)], [(1, 2, 0.25), (3, 4, 1.0)]],
    "voxel_mask": [[(0, 1, 2, 0.5), (9, 9, 9, 0.0)], [(1, 2, 3, 0.25)]],
}
FORMS: dict[str, Callable[[list[tuple[Any, ...]]], Any]] = {
    "tuples": list, "lists": lambda rows: [list(row) for row in rows], "array": np.array,
    "no rows": lambda rows: np.empty((0, len(rows[0]))),
}  # fmt: skip


def cells_of(nwbfile: Any) -> PlaneSegmentation:
    return nwbfile.processing["ophys"]["ImageSegmentation"]["cells"]


def segmentation(path: Place, mask: str) -> Place:
    nwbfile = samples.plain_nwbfile()
    cells = PlaneSegmentation(name="cells", description="rois", imaging_plane=mock_ImagingPlane(nwbfile=nwbfile))
    for rows in MASKS[mask]:
        cells.add_roi(**{mask: rows})
    module = nwbfile.create_processing_module("ophys", "cells")
    module.add(ImageSegmentation(plane_segmentations=[cells]))
    return samples.write_zarr(path, nwbfile)


def as_tuples(rows: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in np.asarray(rows).tolist()]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("mask", MASKS)
def test_masks_of_regions_are_added(folder, mask, form):
    """A mask is a ragged column of rows with three or four fields, and pynwb takes it as tuples or as an array."""
    path = segmentation(folder / "file.nwb.zarr", mask)
    new = [(*row[:-2], 7, 0.125) for row in MASKS[mask][1]]
    with NWBZarrIO(path, "r+") as io:
        cells = cells_of(io.read())
        cells.add_roi(**{mask: FORMS[form](new)})
        cells.add_row(**{mask: cells[mask][0]})  # as it was read
        assert len(cells) == 4
    expected = [*MASKS[mask], [] if form == "no rows" else new, MASKS[mask][0]]
    for mode in ("r", "r-"):
        cells = cells_of(read(path, mode))
        assert [as_tuples(cells[mask][row]) for row in range(4)] == expected
        assert cells.id[:].tolist() == [0, 1, 2, 3]
    assert valid(path)
    assert is_fresh(path)


@pytest.mark.parametrize(("rows", "problem"), [
    ([(0, 1.5, 1.0)], "'y' without loss"),
    ([(-1, 1, 1.0)], "rows"),
    (np.array([[0.0, -1.0, 1.0]]), "not rows|'y' without loss"),
    ([("a", 1, 1.0)], "rows"),
])  # fmt: skip
def test_a_mask_that_would_become_another_is_refused(folder, rows, problem):
    path = segmentation(folder / "file.nwb.zarr", "pixel_mask")
    with NWBZarrIO(path, "r+") as io:
        column = cells_of(io.read())["pixel_mask"].target
        with pytest.raises(ValueRefusedError, match=problem) as caught:
            column.extend(rows)
        assert caught.value.store == str(path)
        assert caught.value.path == "/processing/ophys/ImageSegmentation/cells/pixel_mask"
        assert caught.value.remedy
        assert len(column) == 3
    found = cells_of(read(path))["pixel_mask"].target.data[:]
    assert as_tuples(found) == [*MASKS["pixel_mask"][0], *MASKS["pixel_mask"][1]]


NESTED = np.dtype([("n", "i2"), ("at", "f4", (2,)), ("inner", [("word", "S3"), ("flag", "?")])])
ROWS = np.array([(1, (0.5, 1.5), (b"abc", True)), (2, (2.5, 3.5), (b"", False))], NESTED)
NEW = (3, (4.5, 5.5), (b"de", True))


def same_rows(found: Any, wanted: Any) -> bool:
    return bool(found.dtype == NESTED and found.tobytes() == b"".join(row.tobytes() for row in wanted))


def table_of(path: Place) -> Place:
    write_builder(path, root(dataset("rows", ROWS, attributes={"data_type": "VectorData"})))
    return path


@pytest.mark.parametrize(("put", "given", "count"), [
    *((append_data, row, 1) for row in (NEW, list(NEW), np.array(NEW, NESTED), np.array([NEW], NESTED)[0])),
    (extend_data, [NEW, NEW], 2),
    (extend_data, (NEW, NEW), 2),
    (extend_data, np.array([NEW, NEW], NESTED), 2),
    (extend_data, list(np.array([NEW, NEW], NESTED)), 2),
])  # fmt: skip
def test_rows_are_added_and_assigned(folder, put, given, count):
    """As hdmf adds a value to a column that is not ragged, fields of several elements and inner fields included."""
    path, new = table_of(folder / "file.zarr"), np.array(NEW, NESTED)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["rows"].data
        put(data, given)
        assert same_rows(data[:], [*ROWS, *[new] * count])
        data[0] = NEW
        data[1:2] = np.array([NEW], NESTED)
    assert same_rows(read_builder(path)["rows"].data[:], [new] * (2 + count))


@pytest.mark.parametrize(
    ("row", "field"),
    [((1.5, (0, 0), (b"", True)), "'n'"), ((1, (0, 0), (b"long", True)), "'inner.word'"),
     ((1, (0, 0), (b"", 2)), "'inner.flag'"), ((1, (0, 0, 0), (b"", True)), r"'at' needs a value of shape \(2,\)"),
     ((1, (0, 0)), "not rows")],
    ids=["integer", "text", "flag", "length", "fields"],
)  # fmt: skip
def test_rows_that_do_not_fit_are_refused(folder, row, field):
    path = table_of(folder / "file.zarr")
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["rows"].data
        with pytest.raises(ValueRefusedError, match=field):
            append_data(data, row)
        with pytest.raises(ValueRefusedError, match=field):
            data[0] = row
    assert same_rows(read_builder(path)["rows"].data[:], ROWS)


def test_the_tables_of_intracellular_recordings_grow(folder):
    """Each is a ragged column of references to rows of the one below, and the lowest refers to ranges of series."""
    path = samples.write_zarr(folder / "rich.nwb.zarr")
    with samples.edit_zarr(path) as nwbfile:
        electrode = nwbfile.icephys_electrodes["pipette"]
        new = VoltageClampSeries(
            name="new", data=np.arange(5.0), electrode=electrode, gain=0.02, rate=10.0, sweep_number=np.uint32(2)
        )
        nwbfile.add_acquisition(new)
        row = nwbfile.add_intracellular_recording(
            electrode=electrode, stimulus=nwbfile.stimulus["command0"], stimulus_start_index=1, stimulus_index_count=2,
            response=new, response_start_index=0, response_index_count=4,
        )  # fmt: skip
        simultaneous = nwbfile.add_icephys_simultaneous_recording(recordings=[row, 0])
        sequential = nwbfile.add_icephys_sequential_recording(
            simultaneous_recordings=[simultaneous, 0], stimulus_type="ramp"
        )
        repetition = nwbfile.add_icephys_repetition(sequential_recordings=[sequential])
        nwbfile.add_icephys_experimental_condition(repetitions=[repetition, 0])
    for mode in ("r", "r-"):
        nwbfile = read(path, mode)
        table = nwbfile.intracellular_recordings
        assert len(table) == 3
        response = table["responses"]["response"][2]
        assert response.timeseries is nwbfile.acquisition["new"]
        assert (int(response.idx_start), int(response.count)) == (0, 4)
        assert table["stimuli"]["stimulus"][2].timeseries is nwbfile.stimulus["command0"]
        assert table["electrodes"]["electrode"][2] is nwbfile.icephys_electrodes["pipette"]
        assert nwbfile.icephys_simultaneous_recordings["recordings"].data[:].tolist() == [2, 4]
        assert nwbfile.icephys_simultaneous_recordings["recordings"].target.data[:].tolist() == [0, 1, 2, 0]
        assert nwbfile.icephys_sequential_recordings["stimulus_type"][:].tolist() == ["square", "ramp"]
        assert nwbfile.icephys_experimental_conditions["repetitions"].target.data[:].tolist() == [0, 1, 0]
    assert valid(path)
    assert is_fresh(path)


@pytest.mark.parametrize("row", [["a"], [0.5], [1, 2]], ids=str)
def test_a_row_is_not_assigned_to_the_index_of_a_ragged_column(folder, row):
    nwbfile = samples.plain_nwbfile("ragged")
    nwbfile.add_unit(spike_times=[0.5, 1.5])
    path = samples.write_zarr(folder / "file.nwb.zarr", nwbfile)
    with NWBZarrIO(path, "r+") as io:
        column = io.read().units["spike_times"]
        with pytest.raises((UsageError, ValueRefusedError), match=r"the index of a ragged column.* change both"):
            column.data[0] = row
        column.data[0] = [2]
    assert read(path).units["spike_times"][0].tolist() == [0.5, 1.5]


@pytest.mark.filterwarnings("ignore::hdmf_zarr_backend.errors.DroppedChangesWarning")
def test_rows_are_added_after_a_new_column_in_the_next_session_and_keep_the_ids_that_they_are_given(tmp_path):
    nwbfile = samples.plain_nwbfile()
    for number in (1, 2):
        nwbfile.add_trial(start_time=float(number), stop_time=number + 0.5, id=number)
    path = samples.write_zarr(tmp_path / "file.zarr", nwbfile)
    with pytest.raises(ConflictError, match="open it again"), NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.add_trial_column("correct", "was it right", data=[True, False])
        io.write(nwbfile)
        nwbfile.add_trial(start_time=3.0, stop_time=3.5, correct=True)
        io.write(nwbfile)
    with samples.edit_zarr(path) as nwbfile:
        nwbfile.add_trial(start_time=3.0, stop_time=3.5, correct=True, id=3)
    assert samples.read_zarr(path).trials.id[:].tolist() == [1, 2, 3]


@pytest.mark.parametrize("data_type", [{}, {"data_type": "VectorData"}], ids=["plain", "column"])
def test_all_kinds_of_elements_are_appended_extended_and_cut_alike(folder, data_type):
    """One element or a block, for numbers, text, rows of numbers, rows with text and references, and references."""
    path, first = folder / "file.zarr", dataset("first", [1])
    reference = {"reftype": "object", "target_type": "first"}
    types = [{"name": "word", "dtype": "text"}, {"name": "to", "dtype": reference}]
    to, many = ReferenceBuilder(first), {"maxshape": (None,), "attributes": data_type}
    stored = {
        "numbers": dataset("numbers", np.zeros((1, 2)), maxshape=(None, 2), attributes=data_type),
        "text": dataset("text", ["a"], **many),
        "pairs": dataset("pairs", np.zeros(1, "i4,f8"), **many),
        "rows": dataset("rows", [("a", to)], dtype=types, **many),
        "references": dataset("references", [to], dtype="object", **many),
    }
    write_builder(path, root(first, *stored.values()))
    with ZarrIO(path, "r+") as io:
        builder = io.read_builder()
        target = builder["first"]
        new = {"numbers": [1.0, 2.0], "text": "long", "pairs": (1, 2.0), "rows": ("long", target), "references": target}
        for name, element in new.items():
            data = builder[name].data
            data.append(element)
            data.append([element, element])
            data.extend(iter([element] * 3))
            data.extend([])
            assert len(data) == 7
            data.resize((5, 2) if name == "numbers" else (5,))
            data.resize(4, axis=0)
            with pytest.raises(UsageError, match=f"/{name}"):
                data.resize((1, 1, 1))
            with pytest.raises(UsageError, match=f"/{name}"):
                data.resize(2, axis=2 if name == "numbers" else 1)
            with pytest.raises(UsageError, match=f"/{name}"):
                data.resize("a")
            with pytest.raises(UsageError, match=f"5 has no elements to add .*/{name}"):
                data.extend(5)
            if name in ("rows", "references"):
                with pytest.raises(UsageError, match="Use append or extend"):
                    data.resize(5, 0)
    builder = read_builder(path)
    for name, element in new.items():
        data = builder[name].data
        assert len(data) == 4
        last = data[3]
        if name in ("rows", "references"):
            word, to = last if name == "rows" else ("long", last)
            assert (word, to.name) == ("long", "first")
        else:
            assert np.array(last).tolist() == (list(element) if name == "numbers" else element)


@pytest.mark.parametrize(("zarr_format", "layout"), [(2, {}), (3, {}), ("both", {}), (3, {"shards": (4, 4)})])
@pytest.mark.parametrize("kind", ["numbers", "text"])
def test_elements_are_assigned_by_a_mask_of_the_full_shape(tmp_path, zarr_format, layout, kind):
    values: Any = np.arange(20.0).reshape(5, 4)
    if kind == "text":
        values = values.astype(str).astype(object)
    column = VectorData(name="x", description="", data=ZarrDataIO(values.copy(), chunks=(2, 2), **layout))
    with ZarrIO(tmp_path / "a.zarr", "w", manager=get_manager(), zarr_format=zarr_format) as io:
        io.write(DynamicTable(name="root", description="", columns=[column]))
    mask, none = np.arange(20).reshape(5, 4) % 3 == 1, np.zeros((5, 4), bool)
    mask[:, 3] = mask[0] = False  # so that its bounds are smaller than the array
    with ZarrIO(tmp_path / "a.zarr", "r+", manager=get_manager()) as io:
        array = io.read()["x"].data
        for key, given in [(mask, values[::-1][mask]), ((mask,), values[4, 3]), (none, values[none])]:
            array[key] = given
            values[key] = given
            np.testing.assert_array_equal(array[:], values)
        with pytest.raises(UsageError, match=r"data of shape \(2,\) do not fill the selection"):
            array[mask] = values[0, :2]
    with ZarrIO(tmp_path / "a.zarr", "r", manager=get_manager()) as io:
        np.testing.assert_array_equal(io.read()["x"].data[:], values)
