"""neuroconv: files that it writes with hdmf-zarr or with the alias, and repacking from and to Zarr.

``alias`` as argument: this package takes the place of hdmf-zarr before neuroconv is imported.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pynwb import NWBHDF5IO, NWBFile, TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrIO
from tests.clients.work import ALIAS, HDF5, report, same, session, written

CLIENT = "neuroconv, with the alias" if ALIAS else "neuroconv, with its own hdmf-zarr"

if ALIAS:
    from hdmf_zarr_backend.alias import install_hdmf_zarr_alias

    install_hdmf_zarr_alias(replace=True)

from neuroconv import BaseDataInterface, ConverterPipe, NWBConverter
from neuroconv.tools import nwb_helpers
from neuroconv.tools.hdmf import SliceableDataChunkIterator

METADATA = {"NWBFile": {"session_start_time": "2024-01-01T00:00:00+00:00"}}
WAVES = np.arange(40_000, dtype="f8").reshape(10_000, 4)


def check(path: Path) -> None:
    with NWBZarrIO(path, "r") as io:
        found, wanted = io.read(), session()
        same(found.acquisition["ElectricalSeries"].data[:], wanted.acquisition["ElectricalSeries"].data)
        same(found.units["spike_times"][1], wanted.units["spike_times"][1])
        same(found.electrodes["channel_name"][:], wanted.electrodes["channel_name"].data)


def check_settings(path: Path, chosen: Any) -> None:
    with NWBZarrIO(path, "r") as io:
        objects = io.read(check=True).objects
        for name, configured in chosen.dataset_configurations.items():
            array = getattr(objects[configured.object_id], configured.dataset_name)
            wanted = configured.get_data_io_kwargs()
            filters = [codec.get_config() for codec in array.filters or ()]
            filters = [codec for codec in filters if not codec["id"].startswith("vlen-")]  # text needs it; not chosen
            found = [array.chunks, codec_of(array.compressor), filters]
            settings = [wanted["chunks"], codec_of(wanted["compressor"]), list(map(codec_of, wanted["filters"] or ()))]
            if found != settings:
                raise AssertionError(f"{name} has {found}, and {settings} were chosen")


def codec_of(codec: Any) -> dict[str, Any] | None:
    return codec.get_config() if codec else None


def configuration() -> None:
    found = nwb_helpers.get_default_backend_configuration(nwbfile=session(), backend="zarr")
    if not found.dataset_configurations:
        raise AssertionError("no dataset is configured")


def write(folder: Path) -> None:
    nwbfile, path = session(), folder / "new.nwb.zarr"
    chosen: Any = nwb_helpers.get_default_backend_configuration(nwbfile=nwbfile, backend="zarr")
    series = chosen.dataset_configurations["acquisition/ElectricalSeries/data"]
    series.chunk_shape, series.compression_options = (500, 2), {"level": 7}
    nwb_helpers.configure_and_write_nwbfile(nwbfile=nwbfile, nwbfile_path=path, backend_configuration=chosen)
    check(path)
    check_settings(path, chosen)


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
            check_settings(path, chosen)
        except Exception as error:
            error.args = (f"{name}: {error}",)
            raise


class WavesInterface(BaseDataInterface):
    """Source of one time series, which is written piece by piece."""

    def __init__(self, name: str = "waves") -> None:
        super().__init__(name=name)

    def add_to_nwbfile(self, nwbfile: NWBFile, metadata: dict[str, Any] | None = None) -> None:
        data = SliceableDataChunkIterator(WAVES, chunk_shape=(1000, 4), buffer_shape=(2000, 4))
        nwbfile.add_acquisition(TimeSeries(name=self.source_data["name"], data=data, unit="V", rate=1000.0))


class WavesConverter(NWBConverter):
    data_interface_classes = {"first": WavesInterface, "second": WavesInterface}  # noqa: RUF012 - as neuroconv has it


def converters() -> dict[str, NWBConverter]:
    names = ("first", "second")
    return {
        "NWBConverter": WavesConverter({name: {"name": name} for name in names}),
        "ConverterPipe": ConverterPipe({name: WavesInterface(name) for name in names}),
    }


def conversion(folder: Path, converter: NWBConverter, jobs: int) -> None:
    path = folder / f"{type(converter).__name__} {jobs}.nwb.zarr"
    chosen: Any = {"backend": "zarr"}
    if jobs > 1:
        nwbfile = converter.create_nwbfile(metadata=METADATA)
        configured = converter.get_default_backend_configuration(nwbfile=nwbfile, backend="zarr")
        configured.number_of_jobs = jobs
        chosen = {"backend_configuration": configured}
    converter.run_conversion(nwbfile_path=path, metadata=METADATA, overwrite=True, **chosen)
    with NWBZarrIO(path, "r") as io:
        found = io.read()
        for name in ("first", "second"):
            same(found.acquisition[name].data[:], WAVES)


def repack(source: Path, folder: Path, backend: str) -> None:
    target = folder / f"repacked{'.nwb.zarr' if backend == 'zarr' else '.nwb'}"
    nwb_helpers.repack_nwbfile(nwbfile_path=source, export_nwbfile_path=target, export_backend=backend)
    if backend == "zarr":
        check(target)
        reader = NWBHDF5IO if source.suffix == ".nwb" else NWBZarrIO
        with reader(source, "r") as io:
            chosen = nwb_helpers.get_default_backend_configuration(nwbfile=io.read(), backend="zarr")
            check_settings(target, chosen)
    else:
        import h5py

        with h5py.File(target) as file:
            same(np.asarray(file["acquisition/ElectricalSeries/data"]), session().acquisition["ElectricalSeries"].data)


def main() -> None:
    if ALIAS and not issubclass(nwb_helpers.BACKEND_NWB_IO["zarr"], ZarrIO):
        raise SystemExit("neuroconv does not use the alias")
    with written() as files:
        folder = files[HDF5].parent
        report(CLIENT, "get_default_backend_configuration", "new", configuration)
        report(CLIENT, "configure_and_write_nwbfile", "new", partial(write, folder))
        report(CLIENT, "each codec", "new", partial(codecs, folder))
        for name, converter in converters().items():
            for jobs in (1, 2):
                work = partial(conversion, folder, converter, jobs)
                report(CLIENT, f"{name}.run_conversion, number_of_jobs={jobs}", "new", work)
        for what, path in files.items():
            for backend in ("zarr", "hdf5"):
                place = folder / f"{what} to {backend}"
                place.mkdir()
                report(CLIENT, f"repack_nwbfile to {backend}", what, partial(repack, path, place, backend))


if __name__ == "__main__":
    main()
