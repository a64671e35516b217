"""neuroconv: files that it writes with hdmf-zarr or with the alias, and repacking from and to Zarr.

``alias`` as argument: this package takes the place of hdmf-zarr before neuroconv is imported.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from tests.clients.work import HDF5, report, same, session, written

ALIAS = "alias" in sys.argv[1:]
CLIENT = "neuroconv, with the alias" if ALIAS else "neuroconv, with its own hdmf-zarr"

if ALIAS:
    from hdmf_zarr_backend import install_hdmf_zarr_alias

    install_hdmf_zarr_alias(replace=True)

from neuroconv.tools import nwb_helpers


def check(path: Path) -> None:
    """Compare a file with the session."""
    with NWBZarrIO(path, "r") as io:
        found, wanted = io.read(), session()
        same(found.acquisition["ElectricalSeries"].data[:], wanted.acquisition["ElectricalSeries"].data)
        same(found.units["spike_times"][1], wanted.units["spike_times"][1])
        same(found.electrodes["channel_name"][:], wanted.electrodes["channel_name"].data)


def configuration() -> None:
    found = nwb_helpers.get_default_backend_configuration(nwbfile=session(), backend="zarr")
    if not found.dataset_configurations:
        raise AssertionError("no dataset is configured")


def write(folder: Path) -> None:
    nwb_helpers.configure_and_write_nwbfile(nwbfile=session(), nwbfile_path=folder / "new.nwb.zarr", backend="zarr")
    check(folder / "new.nwb.zarr")


def codecs(folder: Path) -> None:
    """Write integers with each codec that neuroconv offers for any type and without further arguments."""
    for name in sorted(nwb_helpers.AVAILABLE_ZARR_COMPRESSION_METHODS):
        if name in ("categorize", "delta", "packbits"):
            continue
        nwbfile = session()
        chosen: Any = nwb_helpers.get_default_backend_configuration(nwbfile=nwbfile, backend="zarr")
        chosen.dataset_configurations["acquisition/ElectricalSeries/data"].compression_method = name
        path = folder / f"{name}.nwb.zarr"
        try:
            nwb_helpers.configure_and_write_nwbfile(nwbfile=nwbfile, nwbfile_path=path, backend_configuration=chosen)
            check(path)
        except Exception as error:
            error.args = (f"{name}: {error}",)
            raise


def repack(source: Path, folder: Path, backend: str) -> None:
    target = folder / f"repacked{'.nwb.zarr' if backend == 'zarr' else '.nwb'}"
    nwb_helpers.repack_nwbfile(nwbfile_path=source, export_nwbfile_path=target, export_backend=backend)
    if backend == "zarr":
        check(target)
    else:
        import h5py

        with h5py.File(target) as file:
            same(
                np.asarray(file["acquisition/ElectricalSeries/data"]),
                session().acquisition["ElectricalSeries"].data,
            )


def main() -> None:
    if ALIAS and not issubclass(nwb_helpers.BACKEND_NWB_IO["zarr"], ZarrIO):
        raise SystemExit("neuroconv does not use the alias")
    with written() as files:
        folder = files[HDF5].parent
        report(CLIENT, "get_default_backend_configuration", "new", configuration)
        report(CLIENT, "configure_and_write_nwbfile", "new", partial(write, folder))
        report(CLIENT, "each codec", "new", partial(codecs, folder))
        for what, path in files.items():
            for backend in ("zarr", "hdf5"):
                place = folder / f"{what} to {backend}"
                place.mkdir()
                report(CLIENT, f"repack_nwbfile to {backend}", what, partial(repack, path, place, backend))


if __name__ == "__main__":
    main()
