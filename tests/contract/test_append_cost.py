"""The contract: an append costs what it adds, however large the file is."""

import numpy as np
import pytest
from pynwb import NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.array import edits
from tests import samples
from tests.test_io import read
from tests.trees import dataset, group, root, write_builder
from tests.watching import watching

SMALL, LARGE = 10, 80

CONSOLIDATED = {2: ".zmetadata", 3: "zarr.json"}
"""The key of the consolidated document; in format 3 it is part of the root's own."""

pytestmark = pytest.mark.parametrize("zarr_format", CONSOLIDATED)


def test_one_series_costs_the_same_in_a_small_and_in_a_large_file(tmp_path, zarr_format):
    touched = {}
    for count in (SMALL, LARGE):
        nwbfile = NWBFile("many", "many", samples.START)
        for i in range(count):
            nwbfile.add_acquisition(TimeSeries(name=f"series{i}", data=np.arange(3), unit="m", rate=1.0))
        path = samples.write_zarr(tmp_path / f"{count}.nwb.zarr", nwbfile, zarr_format=zarr_format)
        before = {p: p.stat().st_mtime_ns for p in path.rglob("*") if p.is_file()}
        with watching(path) as watched, NWBZarrIO(path, "r+") as io:
            nwbfile = io.read()
            nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0, 2.0], unit="m", rate=1.0))
            io.write(nwbfile)
        changed = {p for p, time in before.items() if p.stat().st_mtime_ns != time}
        touched[count] = watched
        assert changed == {path / CONSOLIDATED[zarr_format]}
        assert len(watched.sets) == len(set(watched.sets))
        journal = [key for key in watched.sets if "/" not in key and key != CONSOLIDATED[zarr_format]]
        assert len(journal) == 2
        new = {key for key in watched.sets if key != CONSOLIDATED[zarr_format] and key not in journal}
        assert new
        assert all(key.startswith("acquisition/new/") for key in new)
        assert watched.deletes == journal
        assert set(watched.lists) <= {"", "acquisition/new"}
        assert read(path).acquisition["new"].data[:].tolist() == [1.0, 2.0]
        assert len(read(path).acquisition) == count + 1
    assert touched[SMALL].lists == touched[LARGE].lists
    assert sorted(touched[SMALL].sets) == sorted(touched[LARGE].sets)
    assert len(touched[SMALL].reads) == len(touched[LARGE].reads)


def test_one_row_costs_the_same_in_a_short_and_in_a_long_table(tmp_path, zarr_format):
    sets = []
    for count in (3, 300):
        nwbfile = samples.plain_nwbfile()
        nwbfile.add_trial_column(name="words", description="ragged text", index=True)
        for i in range(count):
            nwbfile.add_trial(start_time=float(i), stop_time=i + 0.5, words=["a"] * (i % 2))
        path = samples.write_zarr(tmp_path / f"{count}.nwb.zarr", nwbfile, zarr_format=zarr_format)
        with watching(path) as watched, NWBZarrIO(path, "r+") as io:
            io.read().add_trial(start_time=-1.0, stop_time=0.0, words=["b", "c"])
        sets.append(len(watched.sets))
        assert list(read(path).trials["words"][count]) == ["b", "c"]
    assert abs(sets[0] - sets[1]) <= len(read(path).trials.colnames)  # a new chunk may begin in a column


def test_an_attribute_costs_one_document_and_nothing_new_no_more_than_the_consolidated_one(tmp_path, zarr_format):
    path = tmp_path / "file.zarr"
    members = [
        group(f"series{i}", dataset("data", np.arange(3) + i), dataset("text", "words"), object_id=f"id{i}")
        for i in range(SMALL)
    ]
    write_builder(path, root(group("acquisition", *members), object_id="root-id"), zarr_format=zarr_format)
    with watching(path) as watched, ZarrIO(path, "r+") as io:
        builder = io.read_builder()
        builder["acquisition/series7"].attributes["comment"] = "changed"
        io.write_builder(builder)
    assert {key.rpartition("/")[0] for key in watched.sets} == {"acquisition/series7", ""}
    assert len(watched.sets) <= 3 + 2  # and the two keys of the journal
    with watching(path) as watched, ZarrIO(path, "r+") as io:
        io.write_builder(io.read_builder())
    assert set(watched.sets) <= {CONSOLIDATED[zarr_format]}


def test_a_chunk_costs_no_look_at_those_that_are_there(tmp_path, monkeypatch, zarr_format):
    path, looks, inside = tmp_path / "file.zarr", [], edits.is_inside
    data = ZarrDataIO(np.arange(500, dtype="i1"), chunks=(1,))
    write_builder(path, root(dataset("numbers", data)), zarr_format=zarr_format)
    monkeypatch.setattr(edits, "is_inside", lambda *given: looks.append(given) or inside(*given))
    with ZarrIO(path, "r+") as io:
        io.read_builder().datasets["numbers"].data.append([7])
    assert len(looks) < 10
