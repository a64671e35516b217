"""An append to a file of an older NWB schema changes only the types and the version, as NWBHDF5IO does."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder
from hdmf.common import DynamicTable, DynamicTableRegion
from pynwb import NWBHDF5IO, NWBFile, TimeSeries
from pynwb.ecephys import ElectricalSeries

from hdmf_zarr_backend import NWBZarrIO, compare, convert
from hdmf_zarr_backend.hdmf.targets import builders_below
from tests import samples
from tests.documents import metadata
from tests.trees import edit_builder, read_builder


def changes(before: Path, after: Path) -> set[tuple[Any, ...]]:
    """Return the changes of what existed, without those of the cached schema and of ids, which are random."""
    return {
        (found.path, found.attribute, found.kind, str(found.a), str(found.b))
        for found in compare(before, after, ignore={"object_id"})
        if not found.path.startswith(("/specifications", "/acquisition/licks"))
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize(
    "name", ["pynwb__2.3.2_old_electrodes_table_full", "pynwb__3.0.0_decompositionseries_bands_dynamic_table"]
)
def test_types_and_version_change_as_in_hdf5(name: str, adds: bool, nwbfiles: list[Path], tmp_path: Path) -> None:
    found = [path for path in nwbfiles if path.stem == name]
    if not found:
        pytest.skip(f"{name} is not among the files")
    hdf5 = Path(shutil.copy(found[0], tmp_path / "a.nwb"))
    convert(found[0], tmp_path / "before.zarr")
    convert(found[0], tmp_path / "after.zarr")
    for opened in (NWBHDF5IO(hdf5, "r+", load_namespaces=True), NWBZarrIO(tmp_path / "after.zarr", "r+")):
        with opened as io:
            nwbfile = io.read()
            if adds:
                nwbfile.add_acquisition(TimeSeries(name="licks", data=[0.0, 1.0], unit="n.a.", rate=10.0))
            io.write(nwbfile)
    in_zarr = changes(tmp_path / "before.zarr", tmp_path / "after.zarr")
    assert in_zarr == changes(found[0], hdf5)
    assert ("/", "nwb_version") in {(path, attribute) for path, attribute, *_ in in_zarr} or not adds
    assert {attribute for _, attribute, *_ in in_zarr} <= {"nwb_version", "neurodata_type", "namespace"}


def _series(nwbfile: NWBFile) -> TimeSeries | None:
    plain = (each for each in nwbfile.objects.values() if isinstance(each, TimeSeries))
    known = (each for each in plain if each.timestamps is not None and np.size(each.data))
    return next((each for each in known if not isinstance(each, ElectricalSeries)), None)


def _share(nwbfile: NWBFile, *names: str) -> None:
    series = _series(nwbfile)
    if series is not None:
        own = {"data": np.zeros(len(series.timestamps)), "timestamps": series.timestamps[:]}
        nwbfile.add_scratch(TimeSeries(name="shared", unit="V", **{**own, **dict.fromkeys(names, series)}))


def _record(nwbfile: NWBFile) -> None:
    if nwbfile.electrodes is not None:
        region = nwbfile.create_electrode_table_region([0], "the first")
        nwbfile.add_scratch(ElectricalSeries(name="recorded", data=np.zeros((3, 1)), rate=1.0, electrodes=region))


def _refer(nwbfile: NWBFile) -> None:
    tables = [each for each in nwbfile.objects.values() if isinstance(each, DynamicTable) and len(each)]
    for number, table in enumerate(tables):
        region = DynamicTableRegion(name="rows", description="one", data=[0], table=table)
        nwbfile.add_scratch(DynamicTable(name=f"rows{number}", description="of rows", columns=[region]))


def _group(nwbfile: NWBFile) -> None:
    for device in nwbfile.devices.values():
        nwbfile.create_electrode_group(f"new {device.name}", "another", "CA1", device)


def _modify(nwbfile: NWBFile) -> None:
    for each in nwbfile.objects.values():
        each.set_modified()


LINKS: dict[str, Callable[[NWBFile], None]] = {
    "timestamps": lambda nwbfile: _share(nwbfile, "timestamps"),
    "data": lambda nwbfile: _share(nwbfile, "data", "timestamps"),
    "electrodes": _record,
    "rows": _refer,
    "device": _group,
    "nothing": _modify,
}
"""What adds an object with a link to one that is in the file, or adds nothing."""


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file whose attributes have other words and types than pynwb writes, and lack what has a default."""
    path = samples.write_zarr(tmp_path_factory.mktemp("old") / "old.zarr")
    left_out = []
    with edit_builder(path) as root:
        for name, builder in builders_below(root):
            left_out += [f"/{name}@{each}" for each in ("offset", "comments") if each in builder.attributes]
            if isinstance(builder, DatasetBuilder) and builder.attributes.get("unit") == "seconds":
                builder.attributes["unit"] = "Seconds"
                if "interval" in builder.attributes:
                    builder.attributes["interval"] = np.int32(1)
    with NWBZarrIO(path, "r+") as io:
        io.remove(*left_out)
    return path


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("link", LINKS)
def test_what_an_object_links_to_stays_as_it_is(link: str, old: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(old, tmp_path / "new.zarr"))
    before = metadata(path)
    for _ in range(2):
        with samples.edit_zarr(path) as nwbfile:
            LINKS[link](nwbfile)
            for each in list(nwbfile.scratch):
                nwbfile.scratch[each].set_modified()
            link = "nothing"
    after = metadata(path)
    assert {key: after[key] for key in before} == before
    assert {each.kind for each in compare(old, path)} <= {"extra"}


@pytest.mark.filterwarnings("ignore")
def test_what_the_user_changed_is_written_alone(old: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(old, tmp_path / "new.zarr"))
    with samples.edit_zarr(path) as nwbfile:
        series = _series(nwbfile)
        assert series is not None
        series.fields["offset"], series.fields["conversion"] = 0.5, 2.0
        series.fields["comments"] = "no comments"
        LINKS["timestamps"](nwbfile)
        changed = series.object_id
    found = {(each.path, each.attribute) for each in compare(old, path) if each.kind != "extra" or each.attribute}
    (name,) = {
        path for path, builder in builders_below(read_builder(path)) if builder.attributes.get("object_id") == changed
    }
    assert found == {(f"/{name}/data", "offset"), (f"/{name}/data", "conversion"), (f"/{name}", "comments")}


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore")
def test_what_objects_of_real_files_link_to_stays_as_it_is(some_nwbfiles: list[Path], tmp_path: Path) -> None:
    for number, source in enumerate(path for path in some_nwbfiles if path.stat().st_size < 10**6):
        before, after = tmp_path / f"{number}.zarr", tmp_path / f"{number}-new.zarr"
        convert(source, before)
        shutil.copytree(before, after)
        with samples.edit_zarr(after) as nwbfile:
            for link in ("data", "electrodes", "rows", "device"):
                LINKS[link](nwbfile)
        found = [each for each in compare(before, after) if each.attribute or each.kind != "extra"]
        changed = {each.attribute for each in found if each.a is not None}
        assert changed <= {"nwb_version", "neurodata_type", "namespace"}, source
        assert {each.attribute for each in found} <= changed | {"object_id", ".specloc"}, source
