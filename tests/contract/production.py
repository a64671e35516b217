"""A conversion like those of an institute: of one session much is changed between reading and exporting.

It runs here and in the interpreter of a peer, whose name for the package is hdmf_zarr.
"""

from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
from numcodecs import Blosc, GZip, Zlib, Zstd
from pynwb import NWBHDF5IO, H5DataIO, NWBFile, TimeSeries
from pynwb.ecephys import LFP, ElectricalSeries
from pynwb.file import Subject

START = datetime(2024, 1, 1, tzinfo=timezone.utc)  # noqa: UP017 - the peer may be older
GZIP_9 = {"compression": "gzip", "compression_opts": 9, "shuffle": True}


def _session(name: str) -> NWBFile:
    nwbfile = NWBFile(session_description=name, identifier=name, session_start_time=START, notes="as read")
    device = nwbfile.create_device(name=f"{name} device", description="as read")
    group = nwbfile.create_electrode_group(name=f"{name} shank", description="as read", location="CA1", device=device)
    for number in range(4):
        nwbfile.add_electrode(group=group, location="CA1", rel_x=float(number))
    return nwbfile


def write_sources(folder: Path) -> None:
    walk = np.cumsum(np.random.default_rng(0).normal(0, 3, (200_000, 4)), 0).astype("i2")
    nwbfile = _session("session")
    nwbfile.subject = Subject(subject_id="m1", species="Mus musculus", age="P1D")
    region = nwbfile.create_electrode_table_region(region=[0, 1, 2, 3], description="all")
    raw = H5DataIO(walk, chunks=(20_000, 4), **GZIP_9)
    nwbfile.add_acquisition(ElectricalSeries(name="raw", data=raw, electrodes=region, rate=3e4, description="as read"))
    for name in ("replaced", "repacked", "filtered", "removed", "untouched", "plain"):
        data = H5DataIO(np.arange(50_000.0), chunks=(10_000,), **GZIP_9)
        nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="V", rate=1.0, description="as read"))
    timed = TimeSeries(name="timed", data=np.arange(500.0), timestamps=np.arange(500.0), unit="V")
    nwbfile.add_acquisition(timed)
    nwbfile.add_acquisition(TimeSeries(name="shared", data=np.arange(500.0), timestamps=timed, unit="V"))
    nwbfile.add_unit_column(name="quality", description="as read")
    for number in range(20):
        nwbfile.add_unit(spike_times=np.arange(10.0) + number, quality=f"q{number}")
    nwbfile.add_trial_column(name="score", description="as read")
    for number in range(30):
        nwbfile.add_trial(start_time=float(number), stop_time=number + 1.0, score=float(number))
    probe = _session("probe")
    region = probe.create_electrode_table_region(region=[0, 1], description="two")
    lfp = LFP(name="LFP")
    lfp.add_electrical_series(ElectricalSeries(name="lfp", data=walk[:5000, :2], electrodes=region, rate=1e3))
    probe.create_processing_module(name="ecephys", description="LFP").add(lfp)
    for name, session in {"session.nwb": nwbfile, "probe.nwb": probe}.items():
        with NWBHDF5IO(folder / name, "w") as io:
            io.write(session)


def _change(nwbfile: Any, probe: Any, wrapper: Any) -> None:
    """Make 17 changes, with and without the ways that hdmf notices; the last one puts the LFP of a probe in."""
    acquisition = nwbfile.acquisition
    nwbfile.fields["session_description"] = "changed"
    nwbfile.lab = "a lab"
    nwbfile.fields["notes"] = "changed, and longer than before"
    nwbfile.subject.genotype = "wt"
    nwbfile.subject.fields["age"] = "P99D"
    acquisition["raw"].fields["description"] = "changed"
    acquisition["plain"].fields["conversion"] = 2.5
    acquisition["replaced"].fields["data"] = wrapper(np.arange(7000) * 9, chunks=(700,), compressor=Zstd(level=3))
    acquisition["repacked"].set_data_io("data", wrapper, data_io_kwargs={"compressor": GZip(1), "chunks": (1000,)})
    acquisition["filtered"].set_data_io("data", wrapper, data_io_kwargs={"compressor": False, "chunks": (25_000,)})
    acquisition["timed"].set_data_io("timestamps", wrapper, data_io_kwargs={"compressor": Zlib(3), "chunks": (100,)})
    acquisition.pop("removed")
    nwbfile.trials["score"].set_data_io(wrapper, data_io_kwargs={"compressor": GZip(2), "chunks": (5,)})
    index = nwbfile.units["spike_times"]
    index._Data__data = np.asarray(index.data[:], "u4")  # as programs that write for other readers cast it
    nwbfile.units["quality"].fields["description"] = "changed"
    nwbfile.devices["session device"].fields["description"] = "changed"
    series = probe.processing["ecephys"]["LFP"]["lfp"]
    series.reset_parent()
    region = nwbfile.create_electrode_table_region(region=[1, 2], description="the probe's")
    series.fields["electrodes"] = region
    region.parent = series
    series.set_data_io("data", wrapper, data_io_kwargs={"compressor": Blosc("zstd", 5), "chunks": (2500, 2)})
    nwbfile.create_processing_module(name="ecephys", description="merged").add(LFP(electrical_series=series))


def converted(folder: Path, target: Path, io_class: Any, wrapper: Any) -> dict[str, Any]:
    """Run the conversion with the classes of one package; return the fields, and the arrays, of the result."""
    with NWBHDF5IO(folder / "session.nwb", "r") as source, NWBHDF5IO(folder / "probe.nwb", "r") as other:
        nwbfile = source.read()
        _change(nwbfile, other.read(), wrapper)
        with io_class(str(target), mode="w") as io:
            io.export(src_io=source, nwbfile=nwbfile, write_args={"link_data": False})
    fields, arrays = {}, {}
    with io_class(str(target), mode="r") as io:
        for container in io.read().all_children():
            path = f"{getattr(container.parent, 'name', '')}/{container.name}"
            for name, value in {**container.fields, "data": getattr(container, "data", None)}.items():
                if isinstance(value, (str, float, int)):
                    fields[f"{type(container).__name__} {path}.{name}"] = value
                elif hasattr(value, "chunks"):
                    codec = None if value.compressor is None else value.compressor.get_config()
                    values = np.asarray(value[:])
                    values = values.astype("U") if values.dtype.kind == "O" else values
                    arrays[f"{path}.{name}"] = [str(value.dtype), values.tolist(), list(value.chunks), codec]
    return {"fields": fields, "arrays": arrays}
