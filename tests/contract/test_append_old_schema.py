"""An append to a file of an older NWB schema changes the types and the version that NWBHDF5IO changes too."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pynwb import NWBHDF5IO, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, compare, convert


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
