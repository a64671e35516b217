"""W1, many small objects: n time series of 1 kB, n sorted units, 64 electrodes. Metadata is all there is."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

from benchmarks.harness.backends import Ours3Backend
from benchmarks.harness.job import Job, Phase, Workload
from benchmarks.workloads import floors

VALUES = 128
SPIKES = 10


def make(n: int) -> Any:
    """Return the NWB file in memory."""
    import numpy as np
    from pynwb import NWBFile, TimeSeries

    nwbfile = NWBFile("many small objects", "w1", datetime(2026, 1, 1, tzinfo=UTC))
    device = nwbfile.create_device(name="probe")
    group = nwbfile.create_electrode_group(name="shank", description="one", location="CA1", device=device)
    for _ in range(64):
        nwbfile.add_electrode(location="CA1", group=group)
    for number in range(n):
        nwbfile.add_acquisition(
            TimeSeries(name=f"series{number:05d}", data=np.arange(VALUES, dtype="f8") + number, unit="V", rate=1000.0)
        )
        nwbfile.add_unit(spike_times=np.arange(SPIKES) + 0.5 * number)
    return nwbfile


def expected_sum(n: int) -> float:
    """Return the sum of the data of all time series."""
    return n * sum(range(VALUES)) + VALUES * n * (n - 1) / 2


def _write(job: Job) -> None:
    nwbfile = make(job.size)
    with job.meter.measured(), job.io.open(job.folder / "w1", "w") as io:
        io.write(nwbfile)


def _write_3(job: Job) -> None:
    """Write in format 3, which hdmf-zarr 0.14 always does."""
    nwbfile = make(job.size)
    with job.meter.measured(), Ours3Backend().open(job.folder / "w1-3", "w") as io:
        io.write(nwbfile)


def _read(job: Job) -> None:
    with job.meter.measured():
        io = job.io.open(job.folder / "w1", "r")
        nwbfile = io.read()
    assert len(nwbfile.acquisition) == len(nwbfile.units) == job.size
    io.close()


def _touch(job: Job) -> None:
    with job.io.open(job.folder / "w1", "r") as io:
        series = list(io.read().acquisition.values())
        with job.meter.measured():
            arrays = [one.data[:] for one in series]
    total = math.fsum(float(array.sum()) for array in arrays)
    assert total == expected_sum(job.size)


def _read_all(job: Job) -> None:
    with job.meter.measured():
        io = job.io.open(job.folder / "w1", "r")
        arrays = [one.data[:] for one in io.read().acquisition.values()]
    io.close()
    assert math.fsum(float(array.sum()) for array in arrays) == expected_sum(job.size)


def _build(job: Job) -> None:
    floors.build_only(job, make(job.size))


def _construct(job: Job) -> None:
    floors.construct_only(job, make(job.size))


def _node(job: Job, name: str, documents: dict[str, Any], chunk: bytes | None, everything: dict[str, Any]) -> None:
    folder = job.folder / "w1" / name
    folder.mkdir(parents=True)
    for key, content in documents.items():
        floors.put(folder / key, floors.document(content))
        everything[f"{name}/{key}"] = content
    if chunk is not None:
        floors.put(folder / "0", chunk)


def _array(shape: list[int], attributes: dict[str, Any]) -> dict[str, Any]:
    compressor = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    layout = {"zarr_format": 2, "shape": shape, "chunks": shape, "dtype": "<f8", "order": "C", "fill_value": None}
    return {".zarray": {**layout, "compressor": compressor, "filters": None}, ".zattrs": attributes}


def _write_files(job: Job) -> None:
    """Write the same groups and arrays, without hdmf and without zarr."""
    import numpy as np
    from numcodecs import Blosc, blosc

    blosc.use_threads = False  # threads of Blosc wait for each other
    codec = Blosc("lz4", 5, Blosc.SHUFFLE)
    data = [np.arange(VALUES, dtype="f8") + number for number in range(job.size)]
    kind = {"namespace": "core", "neurodata_type": "TimeSeries", "description": "no description", "comments": "-"}
    with job.meter.measured():
        everything: dict[str, Any] = {}
        for number, values in enumerate(data):
            name = f"acquisition/series{number:05d}"
            identity = {**kind, "object_id": f"00000000-0000-0000-0000-{number:012d}"}
            _node(job, name, {".zgroup": {"zarr_format": 2}, ".zattrs": identity}, None, everything)
            unit = {"unit": "V", "conversion": 1.0, "resolution": -1.0, "offset": 0.0, "zarr_dtype": "float64"}
            _node(job, f"{name}/data", _array([VALUES], unit), codec.encode(values), everything)
            start = np.zeros(1)
            rate = {"rate": 1000.0, "unit": "seconds", "zarr_dtype": "scalar"}
            _node(job, f"{name}/starting_time", _array([1], rate), codec.encode(start), everything)
        consolidated = {"zarr_consolidated_format": 1, "metadata": everything}
        floors.put(job.folder / "w1" / ".zmetadata", floors.document(consolidated))


def _read_files(job: Job) -> None:
    """Read the documents and the values that builders hold (the start of each series)."""
    from numcodecs import Blosc, blosc

    blosc.use_threads = False  # threads of Blosc wait for each other
    codec = Blosc()
    with job.meter.measured():
        documents = json.loads((job.folder / "w1" / ".zmetadata").read_bytes())["metadata"]
        starts = [
            codec.decode(_bytes(job, f"acquisition/series{number:05d}/starting_time/0")) for number in range(job.size)
        ]
    assert len(documents) == 6 * job.size
    assert len(starts) == job.size


def _touch_files(job: Job) -> None:
    import numpy as np
    from numcodecs import Blosc, blosc

    blosc.use_threads = False  # threads of Blosc wait for each other
    codec = Blosc()
    with job.meter.measured():
        arrays = [
            np.frombuffer(codec.decode(_bytes(job, f"acquisition/series{number:05d}/data/0")), "<f8")
            for number in range(job.size)
        ]
    assert math.fsum(float(array.sum()) for array in arrays) == expected_sum(job.size)


def _bytes(job: Job, key: str) -> bytes:
    with open(f"{job.folder}/w1/{key}", "rb", buffering=0) as file:
        return file.read()


WORKLOAD = Workload(
    name="W1",
    title="Many small objects: n time series of 1 kB, n units, 64 electrodes",
    phases=(
        Phase("write", "write", {"backend": _write, "hdmf": _build, "files": _write_files}, output="w1"),
        Phase("write-3", "write, format 3", {"ours": _write_3}, output="w1-3"),
        Phase("read", "open and read()", {"backend": _read, "hdmf": _construct, "files": _read_files}),
        Phase("all", "open, read() and all series", {"backend": _read_all}),
        Phase("touch", "touch every dataset once", {"backend": _touch, "files": _touch_files}),
    ),
    sizes=(400, 1600),
    quick_sizes=(4, 8),
    warm_size=2,
    counts=True,
)
