"""A production conversion: one session of which much is changed between reading and exporting.

It runs here and in the interpreter of a peer, whose name for the package is hdmf_zarr; `record` lists all that the
result holds.
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
    """Write the session and that of a probe as HDF5 files."""
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
    with NWBHDF5IO(folder / "session.nwb", "w") as io:
        io.write(nwbfile)
    probe = _session("probe")
    region = probe.create_electrode_table_region(region=[0, 1], description="two")
    lfp = LFP(name="LFP")
    lfp.add_electrical_series(ElectricalSeries(name="lfp", data=walk[:5000, :2], electrodes=region, rate=1e3))
    probe.create_processing_module(name="ecephys", description="LFP").add(lfp)
    with NWBHDF5IO(folder / "probe.nwb", "w") as io:
        io.write(probe)


def change(nwbfile: Any, probe: Any, wrapper: Any) -> None:
    """Make 17 changes, with and without the ways that hdmf notices."""
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
    _merge(nwbfile, probe, wrapper)


def _merge(nwbfile: Any, probe: Any, wrapper: Any) -> None:
    """Put the LFP of a probe into the session, with electrodes of the session."""
    series = probe.processing["ecephys"]["LFP"]["lfp"]
    series.reset_parent()
    region = nwbfile.create_electrode_table_region(region=[1, 2], description="the probe's")
    series.fields["electrodes"] = region
    region.parent = series
    series.set_data_io("data", wrapper, data_io_kwargs={"compressor": Blosc("zstd", 5), "chunks": (2500, 2)})
    nwbfile.create_processing_module(name="ecephys", description="merged").add(LFP(electrical_series=series))


def convert(folder: Path, target: Path, io_class: Any, wrapper: Any) -> None:
    """Run the conversion with the classes of one package."""
    with NWBHDF5IO(folder / "session.nwb", "r") as source, NWBHDF5IO(folder / "probe.nwb", "r") as other:
        nwbfile = source.read()
        change(nwbfile, other.read(), wrapper)
        with io_class(str(target), mode="w") as io:
            io.export(src_io=source, nwbfile=nwbfile, write_args={"link_data": False})


def _value(value: Any) -> Any:
    if isinstance(value, (np.ndarray, list, tuple)):
        array = np.asarray(value)
        return [array.dtype.kind, array.tolist()]
    return str(value) if isinstance(value, (str, bytes, datetime)) else float(value)


def record(io_class: Any, target: Path) -> dict[str, Any]:
    """Return what the containers and the arrays of a file say."""
    with io_class(str(target), mode="r") as io:
        nwbfile = io.read()
        found: dict[str, Any] = {}
        for container in sorted(nwbfile.all_children(), key=lambda each: (type(each).__name__, each.name)):
            name = f"{type(container).__name__} {container.name}"
            for field, value in container.fields.items():
                if isinstance(value, (str, float, int)):
                    found[f"{name}.{field}"] = _value(value)
                elif hasattr(value, "chunks"):
                    found[f"{name}.{field}"] = _array(value)
            data = getattr(container, "data", None)
            if hasattr(data, "chunks"):
                found[f"{name}.data"] = _array(data)
        return found


def _array(data: Any) -> Any:
    values = np.asarray(data[:])
    codec = None if data.compressor is None else data.compressor.get_config()
    return [
        list(data.chunks),
        codec,
        str(data.dtype),
        values.astype("U").tolist() if values.dtype.kind == "O" else _value(values),
    ]
