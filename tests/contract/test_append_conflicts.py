"""The contract: an append names both sides of a conflict, and writes nothing half way."""

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder, LinkBuilder
from hdmf.data_utils import DataChunkIterator
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.array import edits
from hdmf_zarr_backend.errors import ConflictError, DroppedChangesWarning, ValueRefusedError
from tests import samples
from tests.contract.test_1_append import valid
from tests.documents import document, is_fresh
from tests.places import Place, contents
from tests.test_io import read
from tests.trees import dataset, group, read_builder, root, write_builder

pytestmark = pytest.mark.needs("append")


# ---- links ----------------------------------------------------------------------------------------------------------
def linked(target: str, *more: Any) -> GroupBuilder:
    """Return a tree with a link ``/box/there`` to a group or an array, or to the root."""
    tree = root(group("a"), group("b"), dataset("x", [1, 2]), group("box", *more))
    found = tree if target == "/" else tree[target]
    tree["box"].set_link(LinkBuilder(builder=found, name="there"))
    return tree


@pytest.mark.parametrize(("there", "wanted", "shown"), [
    (linked("a"), linked("b"), "a link to /a where a link to /b is"),
    (linked("a"), linked("/"), "a link to /a where a link to / is"),
    (linked("a"), root(group("box", dataset("there", [1]))), "a link to /a where a dataset is"),
    (linked("a"), root(group("box", group("there"))), "a link to /a where a group is"),
    (root(group("box", dataset("there", [1]))), linked("a"), "an array where a link to /a is"),
    (root(group("box", group("there"))), linked("a"), "a group where a link to /a is"),
], ids=["link", "root", "dataset", "group", "in place of an array", "in place of a group"])  # fmt: skip
def test_a_conflict_with_a_link_names_both_targets(folder, there, wanted, shown):
    path = write_builder(folder / "file.zarr", there)
    before = contents(path)
    with ZarrIO(path, "r+") as io, pytest.raises(ConflictError, match=shown) as caught:
        io.write_builder(wanted)
    assert (caught.value.store, caught.value.path) == (str(path), "/box/there")
    assert contents(path) == before


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "not read"])
@pytest.mark.parametrize("target", ["a", "x", "/"])
def test_the_same_link_is_not_a_conflict(folder, is_read, target):
    path = write_builder(folder / "file.zarr", linked(target))
    with ZarrIO(path, "r+") as io:
        if is_read:
            io.read_builder()
        io.write_builder(linked(target, dataset("new", [3])))
    builder = read_builder(path)
    assert builder["box"].links["there"].builder is (builder if target == "/" else builder[target])
    assert builder["box/new"].data[:].tolist() == [3]
    assert len(document(path, "box/.zattrs")["zarr_link"]) == 1
    assert is_fresh(path)


def test_links_to_different_files_are_distinguished(folder):
    first, second = (
        write_builder(folder / name, root(group("a"), dataset("x", [1, 2]))) for name in ("one.zarr", "two.zarr")
    )
    path = folder / "file.zarr"
    with ZarrIO(first) as one, ZarrIO(second) as two:

        def tree(source: ZarrIO, *more: Any) -> GroupBuilder:
            target = source.read_builder()
            made = root(dataset("data", target["x"].data), *more)
            made.set_link(LinkBuilder(builder=target["a"], name="there"))
            return made

        write_builder(path, tree(one))
        with ZarrIO(path, "r+") as io:
            io.write_builder(tree(one, dataset("new", [3])))
        for name, shown in (("there", "/a"), ("data", "/x")):
            wanted = tree(two)
            (wanted.datasets if name == "there" else wanted.links).pop("data" if name == "there" else "there")
            with ZarrIO(path, "r+") as io, pytest.raises(ConflictError) as caught:
                io.write_builder(wanted)
            assert caught.value.path == f"/{name}"
            message = f"a link to {shown} of ../{first.name} where a link to {shown} of ../{second.name} is"
            assert message in str(caught.value)
    builder = read_builder(path)
    assert sorted(builder.links) == ["data", "there"]
    assert builder["new"].data[:].tolist() == [3]


# ---- new values of existing objects ---------------------------------------------------------------------------------
@pytest.mark.parametrize("is_modified", [True, False], ids=["modified", "not modified"])
@pytest.mark.parametrize(("field", "value", "node", "shown"), [
    ("session_description", "another", "/session_description", ["'a small file'", "'another'"]),
    ("keywords", ["one"], "/general/keywords", ["['one'] of shape (1,)", "of shape (4,)"]),
    ("session_start_time", samples.START.replace(year=2004), "/session_start_time", ["2004"]),
])  # fmt: skip
def test_a_new_value_of_a_dataset_is_a_conflict(folder, field, value, node, shown, is_modified):
    """hdmf keeps the builder that was read: the new value would be lost silently."""
    path = samples.write_zarr(folder / "file.nwb.zarr", samples.plain_nwbfile())
    before = contents(path)
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        nwbfile.fields[field] = value
        nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0], unit="m", rate=1.0))
        if is_modified:
            nwbfile.set_modified()
        with pytest.raises(ConflictError) as caught:
            io.write(nwbfile)
    assert (caught.value.store, caught.value.path) == (str(path), node)
    for text in shown:
        assert text in str(caught.value)
    assert contents(path) == before


def test_new_data_of_a_series_are_a_conflict_and_equal_data_are_not(folder):
    path = samples.write_zarr(folder / "file.nwb.zarr", samples.plain_nwbfile())
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        trace = nwbfile.acquisition["trace"]
        kept = trace.fields["data"]
        trace.fields["data"] = np.zeros((20, 3), "i2")
        with pytest.raises(ConflictError, match=r"holds \[0, 1, 2, 3, 4, \.\.\.\] of shape \(20, 3\)") as caught:
            io.write(nwbfile)
        assert caught.value.path == "/acquisition/trace/data"
        trace.fields["data"] = kept[:]
        nwbfile.fields["session_description"] = "a small file"
        nwbfile.fields["session_start_time"] = samples.START.replace()
        nwbfile.set_modified()
        io.write(nwbfile)
        trace.fields["data"] = ZarrDataIO(kept)
        io.write(nwbfile)
    assert read(path).acquisition["trace"].data[19].tolist() == [57, 58, 59]
    assert valid(path)


@pytest.mark.parametrize("mode", ["r+", "a", "a new file"])
def test_a_value_that_was_written_in_this_session_is_there_as_well(folder, mode):
    path, nwbfile = folder / "file.nwb.zarr", samples.plain_nwbfile()
    if mode != "a new file":
        samples.write_zarr(path, nwbfile)
    with NWBZarrIO(path, mode[:2].strip()) as io:
        if mode == "a new file":
            io.write(nwbfile)
        else:
            nwbfile = io.read()
        nwbfile.fields["lab"] = "ours"  # was not there, and is added
        new = TimeSeries(name="new", data=[1.0], unit="m", rate=1.0)
        nwbfile.add_acquisition(new)
        io.write(nwbfile)
        new.fields["data"] = [2.0]
        with pytest.raises(ConflictError, match=r"holds \[1\.0\] .* and \[2\.0\]"):
            io.write(nwbfile)
    found = read(path)
    assert (found.lab, found.acquisition["new"].data[:].tolist()) == ("ours", [1.0])
    assert sorted(found.acquisition) == ["new", "trace"]


# ---- blocks that end by an exception --------------------------------------------------------------------------------
def with_units(path: Place) -> Place:
    nwbfile = samples.plain_nwbfile()
    nwbfile.add_unit_column(name="depth", description="a number")
    nwbfile.add_unit(spike_times=[0.5, 1.5], depth=np.int16(3))
    nwbfile.add_unit(spike_times=[2.5], depth=np.int16(4))
    return samples.write_zarr(path, nwbfile)


def test_a_row_that_was_refused_is_in_no_column(folder):
    """Its id was taken before the column came that has no place for its value."""
    path = with_units(folder / "file.nwb.zarr")
    before = contents(path)
    io = NWBZarrIO(path, "r+")
    with (
        pytest.warns(DroppedChangesWarning, match=r"the changes to /units/id were not written") as caught,
        pytest.raises(ValueRefusedError),
        io,
    ):
        io.read().add_unit(spike_times=[3.5], depth=70_000)
    assert len(caught) == 1
    assert str(path) in str(caught[0].message)
    assert "ValueRefusedError" in str(caught[0].message)
    assert contents(path) == before
    with NWBZarrIO(path, "r+") as io:  # and the lock is not held any more
        io.read().add_unit(spike_times=[3.5], depth=7)
    units = read(path).units
    assert (len(units), units["depth"][2], units["spike_times"][2].tolist()) == (3, 7, [3.5])
    assert valid(path)


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt, SystemExit])
def test_whatever_ends_the_block(folder, error):
    path = with_units(folder / "file.nwb.zarr")
    before = contents(path)

    io = NWBZarrIO(path, "a")

    def change() -> None:
        with io:
            nwbfile = io.read()
            nwbfile.acquisition["trace"].data[0] = [7, 7, 7]
            nwbfile.acquisition["trace"].data.append(np.ones((1, 3), "i2"))
            raise error("stop")

    message = f"/acquisition/trace/data were not .* by {error.__name__}"
    with pytest.warns(DroppedChangesWarning, match=message), pytest.raises(error, match="stop"):
        change()
    assert contents(path) == before


def test_what_was_written_before_the_exception_stays(folder):
    path = with_units(folder / "file.nwb.zarr")

    def change(*, also: bool) -> None:
        with NWBZarrIO(path, "r+") as io:
            nwbfile = io.read()
            nwbfile.add_unit(spike_times=[3.5], depth=7)
            io.write(nwbfile)
            if also:
                nwbfile.add_unit(spike_times=[4.5], depth=8)
            raise ZeroDivisionError

    with warnings.catch_warnings(), pytest.raises(ZeroDivisionError):
        warnings.simplefilter("error")
        change(also=False)  # nothing to report
    with pytest.warns(DroppedChangesWarning), pytest.raises(ZeroDivisionError):
        change(also=True)
    assert len(read(path).units) == 4
    assert valid(path)


def test_where_warnings_are_errors_the_file_is_closed_all_the_same(folder):
    path = with_units(folder / "file.nwb.zarr")
    before = contents(path)

    def change() -> None:
        with NWBZarrIO(path, "r+") as io:
            io.read().acquisition["trace"].data[0] = [7, 7, 7]
            raise ZeroDivisionError

    with pytest.raises(DroppedChangesWarning) as caught:
        change()
    assert isinstance(caught.value.__context__, ZeroDivisionError)
    with NWBZarrIO(path, "r+") as io:
        assert io.read().acquisition["trace"].data[0].tolist() == [0, 1, 2]
    assert contents(path) == before


def broken() -> Iterator[Any]:
    yield 1.0
    raise OSError("the amplifier is gone")


def test_a_failed_write_raises_its_own_error_only(folder):
    path = with_units(folder / "file.nwb.zarr")
    before = contents(path)

    def change() -> None:
        with samples.edit_zarr(path) as nwbfile:
            nwbfile.add_unit(spike_times=[3.5], depth=7)
            late = DataChunkIterator(broken(), buffer_size=1)
            nwbfile.add_acquisition(TimeSeries(name="late", data=late, unit="V", rate=1.0))

    with warnings.catch_warnings(), pytest.raises(OSError, match="amplifier"):
        warnings.simplefilter("error")
        change()
    assert contents(path) == before


def test_an_error_that_ends_the_block_is_not_replaced_by_one_of_closing_the_file(folder):
    path = with_units(folder / "file.nwb.zarr")

    def change() -> None:
        with NWBZarrIO(path, "r+") as io:
            nwbfile = io.read()
            nwbfile.add_acquisition(TimeSeries(name="newer", data=[1.0], unit="V", rate=1.0))
            io.write(nwbfile)
            nwbfile.acquisition["newer"].data.append(2.0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        change()
    assert read(path).acquisition["newer"].data[:].tolist() == [1.0]


def fail_to_write(io: NWBZarrIO) -> None:
    nwbfile = io.read()
    late = DataChunkIterator(broken(), buffer_size=1)
    nwbfile.add_acquisition(TimeSeries(name="late", data=late, unit="V", rate=1.0))
    with pytest.raises(OSError, match="amplifier"):
        io.write(nwbfile)


def test_a_rename_after_a_failed_write_writes_what_waits(folder):
    path = with_units(folder / "file.nwb.zarr")
    with NWBZarrIO(path, "r+") as io, pytest.warns(DroppedChangesWarning, match="NWBFile"):
        io.read().acquisition["trace"].data.append([[7, 8, 9]])
        fail_to_write(io)
        io.rename("/acquisition/trace", "renamed")
    assert read(path).acquisition["renamed"].data[20:].tolist() == [[7, 8, 9]]
    assert valid(path)


def test_a_reference_to_what_a_failed_write_has_not_added_is_refused(folder):
    path = samples.write_zarr(folder / "file.nwb.zarr")
    before = contents(path)
    with pytest.raises(ConflictError, match="not in the file"), NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        device = nwbfile.create_device("another")
        electrodes = nwbfile.create_electrode_group("another", description="", location="", device=device)
        nwbfile.electrodes["group"].data[0] = electrodes
        fail_to_write(io)
        io.rename("/acquisition/trace", "renamed")
    assert contents(path) == before


def test_chunks_that_were_written_early_are_restored(folder, monkeypatch):
    monkeypatch.setattr(edits, "WAITING_BYTES", 1000)
    data = ZarrDataIO(np.zeros(1000), chunks=(100,), maxshape=(None,))
    path = write_builder(folder / "file.zarr", root(dataset("x", data)))
    before = contents(path)

    def change() -> None:
        with ZarrIO(path, "r+") as io:
            data = io.read_builder()["x"].data
            data[:] = np.ones(1000)
            data.append(np.ones(500))
            assert contents(path) != before  # some chunks are on disk already
            raise ZeroDivisionError

    with pytest.warns(DroppedChangesWarning, match="/x were not written"), pytest.raises(ZeroDivisionError):
        change()
    assert contents(path) == before
    assert list(folder.iterdir()) == [path]
