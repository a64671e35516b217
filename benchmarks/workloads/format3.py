"""W7, format 3: the work of W1 to W6 by this package in both formats, and by hdmf-zarr 0.14, which has only this."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.harness.job import Job, Phase, Work, Workload
from benchmarks.workloads import big_array, conversion, references, remote, small_objects, strings

BOTH = ("ours", "ours format 3")
ENGINES = (*BOTH, "hdmf-zarr 0.14")


def _compared(engines: tuple[str, ...]) -> str:
    others = {"ours": "format 2", "hdmf-zarr 0.14": "hdmf-zarr 0.14"}
    return f"format 3 compared with {' and '.join(others[name] for name in engines if name in others)}"


def _again(
    name: str, workload: Workload, phases: tuple[str, ...], engines: tuple[str, ...] = ENGINES, **changes: Any
) -> Workload:
    """Return the named phases of a workload, done by these engines."""
    chosen = tuple(
        replace(phase, work=dict.fromkeys(engines, phase.work["backend"]))
        for phase in workload.phases
        if phase.name in phases
    )
    made = replace(workload, name=name, title=f"{workload.title}; {_compared(engines)}", phases=chosen)
    return replace(made, counts=False, **changes)


def _append(job: Job) -> None:
    """Open the file of W1, read it, add a time series, and write the difference."""
    import numpy as np
    from pynwb import TimeSeries

    with job.meter.measured(), job.io.open(job.folder / "w1", "r+") as io:
        nwbfile = io.read()
        nwbfile.add_acquisition(TimeSeries(name="appended", data=np.arange(10.0), unit="V", rate=1.0))
        io.write(nwbfile)
    with job.io.open(job.folder / "w1", "r") as io:
        acquisition = io.read().acquisition
        assert len(acquisition) == job.size + 1
        assert acquisition["appended"].data[:].sum() == 45


def _small(name: str, engines: tuple[str, ...], size: int) -> Workload:
    made = _again(name, small_objects.WORKLOAD, ("write", "read"), engines, sizes=(size,))
    append = Phase("append", "open, read(), add a series, write", dict.fromkeys(engines, _append))
    return replace(made, phases=(*made.phases, append))


def _converted() -> tuple[Phase, ...]:
    kept = {
        "ours": conversion.ours(conversion.mixed, "kept.zarr", codec="keep"),
        "ours format 3": conversion.ours(conversion.mixed, "kept.zarr", codec="keep", zarr_format=3),
    }
    recompressed = {
        "ours": conversion.ours(conversion.mixed, "recompressed.zarr", codec=conversion.ZSTD),
        "ours format 3": conversion.ours(conversion.mixed, "recompressed.zarr", codec=conversion.ZSTD, zarr_format=3),
    }
    export: dict[str, Work] = {"hdmf-zarr 0.14": conversion.export(conversion.mixed)}
    back = dict.fromkeys(BOTH, conversion.back_ours)
    return (
        Phase("kept", "HDF5 -> Zarr, chunks kept", kept, "kept.zarr"),
        Phase("recompressed", "HDF5 -> Zarr, recompressed to blosc-zstd", recompressed, "recompressed.zarr"),
        Phase("export", "export from HDF5", export, "export"),
        Phase("back", "Zarr -> HDF5", {**back, "hdmf-zarr 0.14": conversion.back}, "again.nwb"),
    )


CONVERSION = replace(
    conversion.MIXED,
    name="W7d",
    title=f"Conversion of 100 time series and an array of n rows of 64 channels (64 MiB), gzip; {_compared(ENGINES)}",
    phases=_converted(),
    sizes=(2**19,),
)

_NEW = ("ours format 3", "hdmf-zarr 0.14")
_OBJECTS, _ROWS = references.WORKLOADS
_REFERENCE_PHASES = ("write", "resolve", "rows")

# hdmf-zarr 0.14 takes too long for the full size of some work, five times
WORKLOADS = (
    _small("W7a", BOTH, 1600),
    _small("W7b", _NEW, 200),
    _again("W7c", big_array.WHOLE, ("write", "iterator", "slices"), sizes=(2**19,)),
    CONVERSION,
    _again("W7e", _OBJECTS, _REFERENCE_PHASES, BOTH),
    _again("W7f", _ROWS, _REFERENCE_PHASES, BOTH),
    _again("W7g", _OBJECTS, _REFERENCE_PHASES, _NEW, sizes=(1000,), timeout=300),
    _again("W7h", _ROWS, _REFERENCE_PHASES, _NEW, sizes=(1000,), timeout=300),
    _again("W7i", strings.WORKLOAD, ("write", "all", "rows"), sizes=(10_000,)),
    _again("W7j", remote.WORKLOAD, ("open",)),
)
