"""pynwb's own way from Zarr to HDF5, and ours: what the one loses, the other keeps.

``NWBHDF5IO.export`` writes what it does not know from h5py as any array in memory; storage settings are not read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.hdf5 import H5DataIO
from pynwb import NWBHDF5IO, TimeSeries, validate

from hdmf_zarr_backend import NWBZarrIO, convert
from tests import samples
from tests.places import Place

DATA = "acquisition/settings/data"
SETTINGS = ("chunks", "compression", "compression_opts", "shuffle", "fletcher32", "fillvalue", "maxshape")


@pytest.fixture(scope="module")
def files(shared_folder: Place, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return an HDF5 file, and what comes back of it from Zarr on either way."""
    folder = tmp_path_factory.mktemp("way back")
    stored = shared_folder / "file.nwb.zarr"
    nwbfile = samples.rich_nwbfile()
    data = H5DataIO(
        np.arange(300, dtype="i2").reshape(100, 3),
        chunks=(10, 3),
        maxshape=(None, 3),
        compression="gzip",
        compression_opts=7,
        shuffle=True,
        fletcher32=True,
        fillvalue=-1,
    )
    nwbfile.add_acquisition(TimeSeries(name="settings", data=data, unit="m", rate=1.0))
    found = {name: folder / f"{name}.nwb" for name in ("original", "exported", "converted")}
    samples.write_hdf5(found["original"], nwbfile)
    convert(found["original"], stored)
    with NWBZarrIO(stored) as source, NWBHDF5IO(str(found["exported"]), "w") as io:
        io.export(src_io=source, write_args={"link_data": False})
    convert(stored, found["converted"])
    return found


def arrays(path: Path) -> dict[str, dict[str, Any]]:
    """Return the settings in HDF5 of each dataset that has axes."""
    found: dict[str, dict[str, Any]] = {}

    def note(name: str, node: Any) -> None:
        if isinstance(node, h5py.Dataset) and node.shape:
            settings = {key: getattr(node, key) for key in SETTINGS}
            found[name] = {**settings, "dtype": node.dtype, "shape": node.shape}

    with h5py.File(path) as file:
        file.visititems(note)
    return found


def lost(files: dict[str, Path], way: str) -> set[str]:
    """Return which settings are other ones in any dataset."""
    before, after = arrays(files["original"]), arrays(files[way])
    assert before.keys() == after.keys()
    return {key for name in before for key in before[name] if before[name][key] != after[name][key]}


def test_what_pynwbs_own_export_loses(files):
    assert lost(files, "exported") == set(SETTINGS)
    with h5py.File(files["exported"]) as file:
        assert {key: getattr(file[DATA], key) for key in SETTINGS} == {
            "chunks": None,
            "compression": None,
            "compression_opts": None,
            "shuffle": False,
            "fletcher32": False,
            "fillvalue": 0,
            "maxshape": (100, 3),
        }


def test_our_way_back_loses_nothing(files):
    assert lost(files, "converted") == set()


@pytest.mark.parametrize("way", ["exported", "converted"])
def test_both_keep_values_types_and_attributes(files, way):
    with h5py.File(files["original"]) as one, h5py.File(files[way]) as other:
        assert other[DATA].dtype == "i2"
        assert other[DATA][:].tolist() == one[DATA][:].tolist()
        assert dict(other[DATA].attrs) == dict(one[DATA].attrs)
    with NWBHDF5IO(str(files[way]), "r") as io:
        nwbfile = io.read()
        assert nwbfile.units["spike_times"][4].size == 12
        assert nwbfile.trials["timeseries"][1][0].timeseries is nwbfile.acquisition["trace"]
        assert validate(io=io) == []
