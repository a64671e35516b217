"""Containers that are made when they are touched: what is touched, in any order, is what an eager read gives."""

import copy
import random
import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hdmf.backends.warnings import BrokenLinkWarning
from hdmf.build import BuildManager
from hdmf.common import DynamicTable, DynamicTableRegion
from hdmf.container import AbstractContainer, Data
from hdmf.utils import LabelledDict
from hypothesis import given, settings
from hypothesis import strategies as st
from pynwb import NWBHDF5IO, NWBFile, TimeSeries, get_manager
from pynwb.base import ImageReferences, Images
from pynwb.behavior import Position, SpatialSeries
from pynwb.image import GrayscaleImage

from hdmf_zarr_backend import NWBZarrIO
from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.hdmf.schema import ContainerError
from tests import samples
from tests.documents import change_attributes

SIZE = 12


def opened(path: Any, **options: Any) -> Any:
    return samples.read_zarr(path, **options)  # objects are made after the file is closed, too


BACK_LINKS = ("data_link", "timestamp_link")
"""Fields in which pynwb lists the series that share the data of a series, in the order in which they were made."""


def identity(container: AbstractContainer) -> tuple[str, str, str]:
    return type(container).__name__, container.name, container.object_id


def plain(value: Any) -> Any:
    """Return what can be compared of a value of a field."""
    if isinstance(value, AbstractContainer):
        return identity(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple, set)):
        return [plain(each) for each in value]
    if value is None or isinstance(value, str | bytes | int | float):
        return value
    if hasattr(value, "__getitem__") and hasattr(value, "shape"):
        is_array = isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "chunks")
        found = np.asarray(value[...] if is_array else value[:])
        if found.shape == ():
            return plain(found.item())
        return [plain(each) for each in found.reshape(-1)] if found.dtype.hasobject else (found.dtype, found.tolist())
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def shown(container: AbstractContainer) -> dict[str, Any]:
    found = {
        **short(container),
        "children": sorted(map(identity, container.children)),
        "fields": {name: plain(value) for name, value in container.fields.items() if name not in BACK_LINKS},
        **{name: sorted(plain(container.fields.get(name, []))) for name in BACK_LINKS},
    }
    if isinstance(container, Data):
        found["data"] = plain(container.data)
    return found


def all_shown(root: AbstractContainer) -> dict[str, dict[str, Any]]:
    return {each.object_id: shown(each) for each in root.all_children()}


def many_nwbfile() -> NWBFile:
    nwbfile = samples.rich_nwbfile()
    for number in range(SIZE):
        nwbfile.add_acquisition(TimeSeries(name=f"many_{number:02}", data=[1.0, number], unit="V", rate=1.0))
    first = nwbfile.acquisition["many_00"]
    nwbfile.add_stimulus(TimeSeries(name="shares", data=first, timestamps=[0.0, 1.0], unit="V"))
    module = nwbfile.create_processing_module("many", "with many members")
    series = [SpatialSeries(name=f"place_{number}", data=[[1.0, 2.0]], rate=1.0) for number in range(5)]
    module.add(Position(name="places", spatial_series=series))
    module.add(nwbfile.acquisition["many_01"])  # a link, since it has a parent
    return nwbfile


@pytest.fixture(scope="module")
def path(shared_folder):
    """Return a file that tests read; one that changes it writes its own."""
    return samples.write_zarr(shared_folder / "many.zarr", many_nwbfile())


@pytest.fixture(scope="module")
def eager(path):
    return all_shown(opened(path, lazy=False))


class Manager(BuildManager):  # type: ignore[misc]
    """A manager of the user."""


def test_everything_is_what_an_eager_read_gives(path, eager):
    assert all_shown(opened(path)) == eager
    manager = Manager(get_manager().type_map)
    assert all_shown(opened(path, manager=manager)) == eager
    assert type(manager) is Manager
    nwbfile = opened(path)
    nwbfile.units, nwbfile.acquisition["many_03"], nwbfile.processing["many"]["places"]
    assert list(nwbfile.objects) == list(opened(path, lazy=False).objects)
    assert {key: list(value) for key, value in opened(path).fields.items() if isinstance(value, dict)} == {
        key: list(value) for key, value in opened(path, lazy=False).fields.items() if isinstance(value, dict)
    }


def steps(container: Any, chooser: random.Random) -> Any:
    if isinstance(container, LabelledDict | dict):
        return container[chooser.choice(sorted(container))] if container else None
    if not isinstance(container, AbstractContainer):
        return None
    choice = chooser.randrange(12)
    if choice == 0:
        return container.parent
    if choice == 1 and container.children:
        return chooser.choice(container.children)
    names = sorted(container.fields)
    return getattr(container, chooser.choice(names), None) if names else None


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), length=st.integers(1, 60))
def test_random_paths(path, eager, seed, length):
    """Nothing that is touched, and no order, changes what the others are."""
    chooser = random.Random(seed)  # noqa: S311
    root = opened(path)
    seen: dict[str, AbstractContainer] = {}
    here: Any = root
    for _ in range(length):
        found = steps(here, chooser)
        here = root if found is None or chooser.random() < 0.1 else found
        if isinstance(here, AbstractContainer):
            assert short(here) == {key: eager[here.object_id][key] for key in SHORT}
            assert seen.setdefault(here.object_id, here) is here
    assert not root.modified
    found = {each.object_id: each for each in root.all_children()}
    assert all(found[key] is each for key, each in seen.items())
    assert {key: shown(each) for key, each in found.items()} == eager


SHORT = ("identity", "class", "parent", "modified", "source")


def short(container: AbstractContainer) -> dict[str, Any]:
    parent = container.parent
    found = (
        identity(container), type(container), None if parent is None else identity(parent), container.modified,
        container.container_source,
    )  # fmt: skip
    return dict(zip(SHORT, found, strict=True))


@pytest.mark.parametrize("touched", ["series", "sharing", "both"])
def test_a_series_lists_those_that_share_its_data(path, touched):
    nwbfile = opened(path)
    if touched != "series":
        sharing = nwbfile.stimulus["shares"]
    series = nwbfile.acquisition["many_00"] if touched != "sharing" else sharing.fields["data"]
    assert "data_link" not in nwbfile.acquisition["many_02"].fields
    assert {each.name for each in series.data_link} == {"shares"}
    assert series.data_link == {nwbfile.stimulus["shares"]}  # each is there once
    assert len(series.fields["data_link"]) == 1
    assert series.timestamp_link == set()
    assert len(copy.copy(series.fields["data_link"])) == 1


def test_an_error_is_raised_when_the_object_is_touched(folder):
    damaged = samples.write_zarr(folder / "damaged.zarr", many_nwbfile())
    change_attributes(damaged, "acquisition/many_07", lambda attributes: attributes.update(data=1))
    with NWBZarrIO(damaged) as io:
        nwbfile = io.read()
        assert "many_07" in nwbfile.acquisition
        assert len(nwbfile.acquisition) > SIZE
        assert nwbfile.acquisition["many_08"].data[:].tolist() == [1.0, 8.0]
        for _ in range(2):  # nothing is half made
            with pytest.raises(MetadataError, match="the name 'data' is that of an attribute") as caught:
                nwbfile.acquisition["many_07"]
            assert caught.value.path == "/acquisition/many_07"
        with pytest.raises(MetadataError):
            nwbfile.objects  # noqa: B018 - it makes all
        assert nwbfile.acquisition["many_09"].data[:].tolist() == [1.0, 9.0]
    with NWBZarrIO(damaged) as io, pytest.raises(MetadataError, match="the name 'data'"):
        io.read(check=True)
    with NWBZarrIO(damaged, lazy=False) as io, pytest.raises(MetadataError, match="the name 'data'"):
        io.read()


def test_builders_that_could_not_be_completed_are_an_error_each_time(folder):
    damaged = samples.write_zarr(folder / "damaged.zarr", many_nwbfile())
    link = {"name": "last", "source": ".", "path": "/nowhere"}
    change_attributes(damaged, "stimulus/presentation", lambda attributes: attributes.update(zarr_link=[link]))
    with NWBZarrIO(damaged) as io:
        with pytest.warns(BrokenLinkWarning):
            io.read()
        for _ in range(2):
            with pytest.raises(BrokenLinkWarning, match="last"):  # warnings are errors here
                io.read_builder()
        with pytest.warns(BrokenLinkWarning, match="last"):
            root = io.read_builder()
        assert "shares" in root["stimulus/presentation"].groups
    change_attributes(damaged, "", lambda attributes: attributes.update(leads={"zarr_dtype": "object", "value": link}))
    with NWBZarrIO(damaged) as io:
        for _ in range(2):
            with pytest.raises(BrokenLinkWarning, match="leads"):
                io.read()
    change_attributes(damaged, "", lambda attributes: attributes.pop("leads"))
    change_attributes(damaged, "intervals/trials/id", lambda attributes: attributes.update(namespace="unknown"))
    with NWBZarrIO(damaged) as io, pytest.warns(BrokenLinkWarning, match="last"):
        nwbfile = io.read()
        for _ in range(2):
            with pytest.raises(ContainerError, match="'unknown' of the type 'ElementIdentifiers' is not loaded"):
                nwbfile.trials  # noqa: B018 - a property


def test_what_does_not_fit_its_type_is_an_error_when_it_is_asked_for(folder):
    path = samples.write_zarr(folder / "wrong.zarr", many_nwbfile())
    change_attributes(path, "stimulus/presentation/shares", lambda attributes: attributes.update(comments=[1, 2]))
    series = opened(path).acquisition["many_00"]  # and not where the shared series is opened
    assert series.data[:].tolist() == [1.0, 0.0]
    with pytest.raises(ContainerError):
        series.data_link  # noqa: B018 - a property
    change_attributes(path, "acquisition/many_03/data", lambda attributes: attributes.update(unit=3.5))
    nwbfile = opened(path)
    with pytest.raises(ContainerError, match="unit") as caught:
        nwbfile.acquisition["many_03"]
    assert caught.value.path == "/acquisition/many_03"
    assert caught.value.store == str(path)


def test_the_members_are_a_dictionary_like_hdmfs(path):
    ours, theirs = opened(path).acquisition, opened(path, lazy=False).acquisition
    assert isinstance(ours, LabelledDict)
    assert ours["name == many_04"].name == "many_04"
    assert {each.name for each in ours["unit == V"]} == {each.name for each in theirs["unit == V"]}
    assert type(opened(path).acquisition.copy()) is dict
    for function in (lambda d: {**d}, dict, lambda d: d | {}, lambda d: {} | d, lambda d: dict(d.items())):
        copied = function(opened(path).acquisition)
        assert [each.name for each in copied.values()] == list(theirs)
    members = opened(path).acquisition
    assert members == members.copy()
    assert [each.name for each in members.values()] == list(theirs)
    with pytest.raises(KeyError):
        members["nobody"]
    nwbfile = opened(path)
    removed = nwbfile.acquisition.pop("many_02")
    assert removed.name == "many_02"
    assert removed.parent is None
    assert "many_02" not in nwbfile.acquisition
    with pytest.raises(TypeError):
        nwbfile.acquisition["many_03"] = removed


def test_what_is_added_in_memory_and_copies(path):
    nwbfile = opened(path)
    new = TimeSeries(name="new", data=[1.0], unit="V", rate=1.0)
    nwbfile.add_acquisition(new)
    assert nwbfile.modified
    assert nwbfile.acquisition["new"] is new
    assert new in nwbfile.children
    assert nwbfile.objects[new.object_id] is new
    with pytest.raises(ValueError, match="already exists"):
        nwbfile.add_acquisition(TimeSeries(name="many_01", data=[1.0], unit="V", rate=1.0))
    nwbfile = opened(path)
    again = copy.copy(nwbfile)
    assert list(again.acquisition) == list(nwbfile.acquisition)
    module = copy.deepcopy(dict(nwbfile.fields)["keywords"]) if "keywords" in nwbfile.fields else None
    assert module is None or list(module) == list(nwbfile.keywords)
    assert "many_01" in repr(nwbfile)
    assert "many_01" in nwbfile._repr_html_()


def test_links_and_references_lead_to_the_same_objects(path, folder):
    nwbfile = opened(path)
    linked = nwbfile.processing["many"]["many_01"]
    assert linked is nwbfile.acquisition["many_01"]
    assert linked.parent is nwbfile
    assert opened(path).acquisition["raw"].electrodes.table.parent.name == "root"
    nwbfile = opened(path)
    assert nwbfile.acquisition["raw"].electrodes.table is nwbfile.electrodes
    assert nwbfile.electrodes["group"][0] is nwbfile.electrode_groups["shank0"]
    assert nwbfile.electrodes["group"][0].device is nwbfile.devices["probe"]
    assert nwbfile.stimulus["shares"].data is nwbfile.acquisition["many_00"].data
    nwbfile = samples.plain_nwbfile()
    images = [GrayscaleImage(name=name, data=np.eye(2)) for name in ("one", "two")]
    order = ImageReferences(name="order_of_images", data=images[::-1])
    nwbfile.add_acquisition(Images(name="pictures", images=images, order_of_images=order))
    path = samples.write_zarr(folder / "images.zarr", nwbfile)
    found = opened(path).acquisition["pictures"]
    assert [each.name for each in found.order_of_images[:]] == ["two", "one"]
    assert found.order_of_images[0] is found["two"]
    assert all_shown(opened(path)) == all_shown(opened(path, lazy=False))


def test_a_long_chain_of_tables_that_lead_to_each_other(folder):
    nwbfile = samples.plain_nwbfile()
    tables = [DynamicTable(name="table_000", description="the first", id=[0])]
    for number in range(1, 60):
        column = DynamicTableRegion(name="before", description="a row", data=[0], table=tables[-1])
        tables.append(DynamicTable(name=f"table_{number:03}", description="one more", columns=[column]))
    for table in tables:
        nwbfile.add_acquisition(table)
    path = samples.write_zarr(folder / "chain.zarr", nwbfile)
    for are_read in (False, True):
        with NWBZarrIO(path) as io:
            nwbfile = io.read()
            if are_read:
                io.read_builder()
            table = nwbfile.acquisition["table_059"]
            for number in range(58, -1, -1):
                table = table["before"].table
                assert table is nwbfile.acquisition[f"table_{number:03}"]
                assert table.parent is nwbfile


def test_builders(path):
    with NWBZarrIO(path) as io, NWBZarrIO(path, lazy=False) as other:
        nwbfile = io.read()
        series = nwbfile.acquisition["many_03"]
        builder = io.manager.get_builder(series)
        assert builder.parent.name == "acquisition"
        assert [*builder.parent.groups] == [*other.read_builder()["acquisition"].groups]
        assert io.read_builder()["acquisition/many_03"] is builder
        assert io.manager.get_builder(nwbfile) is io.read_builder()
        assert io.manager.construct(io.read_builder()) is nwbfile
        assert io.read() is nwbfile
        assert builder_names(io.read_builder()) == builder_names(other.read_builder())


def builder_names(builder: Any) -> Any:
    return (
        type(builder),
        sorted(builder.attributes),
        {name: builder_names(each) for name, each in getattr(builder, "groups", {}).items()},
        sorted(getattr(builder, "datasets", ())),
        sorted(getattr(builder, "links", ())),
    )


@pytest.mark.parametrize("touched", [False, True])
def test_exports(path, folder, touched, tmp_path, eager):
    with NWBZarrIO(path) as source, NWBZarrIO(folder / "export.zarr", "w") as io:
        nwbfile = source.read()
        if touched:
            nwbfile.acquisition["many_03"].data[:]
            nwbfile.add_acquisition(TimeSeries(name="new", data=[1.0], unit="V", rate=1.0))
        io.export(source, nwbfile)
    found = all_shown(opened(folder / "export.zarr"))
    assert found.keys() >= eager.keys()
    assert len(found) == len(eager) + touched
    with NWBZarrIO(path) as source, NWBHDF5IO(tmp_path / "export.nwb", "w") as io:
        nwbfile = source.read()
        io.export(source, nwbfile, write_args={"link_data": False})
    with NWBHDF5IO(tmp_path / "export.nwb", "r") as io:
        assert {each.object_id for each in io.read().all_children()} == eager.keys()


def test_threads_that_touch_the_same_objects(path, eager):
    nwbfile = opened(path)
    start = threading.Barrier(8)

    def touch(number: int) -> dict[str, Any]:
        names = list(nwbfile.acquisition)
        random.Random(number).shuffle(names)  # noqa: S311
        start.wait()
        found = {name: nwbfile.acquisition[name] for name in names}
        assert all(each.parent is not None for each in found.values())
        place = nwbfile.processing["many"]["places"]["place_2"]
        return {**found, "table": nwbfile.electrodes, "place": place}

    with warnings.catch_warnings(), ThreadPoolExecutor(8) as pool:
        warnings.simplefilter("ignore")
        first, *others = pool.map(touch, range(8))
    for each in others:
        assert all(each[name] is first[name] for name in first)
    assert all_shown(nwbfile) == eager
