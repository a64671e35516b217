"""W4, references: a column of n references to 100 time series, as plain references and as TimeSeriesReference."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from benchmarks.harness.job import Job, Phase, Workload
from benchmarks.workloads import floors

TARGETS = 100
ROWS = 100


def _targets(nwbfile: Any) -> list[Any]:
    import numpy as np
    from pynwb import TimeSeries

    series = [
        TimeSeries(name=f"series{number:03d}", data=np.arange(10.0), unit="V", rate=10.0) for number in range(TARGETS)
    ]
    for one in series:
        nwbfile.add_acquisition(one)
    return series


def _new() -> Any:
    from pynwb import NWBFile

    return NWBFile("references", "w4", datetime(2026, 1, 1, tzinfo=UTC))


def _number_of_target(row: int) -> int:
    """Return the target of a row: all targets, in no simple order."""
    return row * 7919 % TARGETS


def make_objects(n: int) -> Any:
    """Return a file with a table whose column holds references to whole objects."""
    from hdmf.common import DynamicTable, VectorData

    nwbfile = _new()
    series = _targets(nwbfile)
    column = VectorData(
        name="target", description="what a row is about", data=[series[_number_of_target(row)] for row in range(n)]
    )
    nwbfile.add_acquisition(DynamicTable(name="table", description="references", columns=[column]))
    return nwbfile


def make_rows(n: int) -> Any:
    """Return a file with a table whose column holds TimeSeriesReference rows (index, count, reference)."""
    import numpy as np
    from hdmf.common import VectorData, VectorIndex
    from pynwb.base import TimeSeriesReference, TimeSeriesReferenceVectorData
    from pynwb.epoch import TimeIntervals

    nwbfile = _new()
    series = _targets(nwbfile)
    data = [TimeSeriesReference(row % 5, 1 + row % 4, series[_number_of_target(row)]) for row in range(n)]
    # hdmf takes the type of the rows from the schema of the table, which must name the column, and wants its index
    column = TimeSeriesReferenceVectorData(name="timeseries", description="what a row is about", data=data)
    columns = [
        VectorData(name="start_time", description="start", data=np.arange(float(n))),
        VectorData(name="stop_time", description="stop", data=np.arange(float(n)) + 0.5),
        column,
        VectorIndex(name="timeseries_index", target=column, data=np.arange(1, n + 1)),
    ]
    nwbfile.add_time_intervals(TimeIntervals(name="table", description="references", columns=columns))
    return nwbfile


def _column(nwbfile: Any) -> Any:
    if "table" in nwbfile.acquisition:
        return nwbfile.acquisition["table"]["target"]
    return nwbfile.intervals["table"]["timeseries"].target


def _name(value: Any) -> str:
    """Return the name of the target of a reference, or of a row whose last field is one."""
    name: str = value.name if hasattr(value, "object_id") else value[2].name
    return name


def _check(values: list[Any], rows: list[int]) -> None:
    assert [_name(value) for value in values] == [f"series{_number_of_target(row):03d}" for row in rows]


def _random_rows(n: int) -> list[int]:
    import numpy as np

    return [int(row) for row in np.random.default_rng(5).integers(0, n, ROWS)]


def _write(make: Callable[[int], Any]) -> Callable[[Job], None]:
    def work(job: Job) -> None:
        nwbfile = make(job.size)
        with job.meter.measured(), job.io.open(job.folder / "w4", "w") as io:
            io.write(nwbfile)

    return work


def _build(make: Callable[[int], Any]) -> Callable[[Job], None]:
    def work(job: Job) -> None:
        floors.build_only(job, make(job.size))

    return work


def _resolve(job: Job) -> None:
    with job.io.open(job.folder / "w4", "r") as io:
        data = _column(io.read()).data
        with job.meter.measured():
            values = data[:]
        _check(list(values), list(range(job.size)))


def _resolve_column(job: Job) -> None:
    """Ask the column instead of its data: pynwb then makes an object of each row, which costs as much everywhere."""
    with job.io.open(job.folder / "w4", "r") as io:
        column = _column(io.read())
        with job.meter.measured():
            values = column[:]
        _check(list(values), list(range(job.size)))


def _rows(job: Job) -> None:
    with job.io.open(job.folder / "w4", "r") as io:
        data = _column(io.read()).data
        rows = _random_rows(job.size)
        with job.meter.measured():
            values = [data[row] for row in rows]
        _check(values, rows)


def _workload(name: str, kind: str, make: Callable[[int], Any], *more: Phase) -> Workload:
    return Workload(
        name=name,
        title=f"References: n {kind} to {TARGETS} time series",
        phases=(
            Phase("write", "write", {"backend": _write(make), "hdmf": _build(make)}, output="w4"),
            Phase("resolve", "resolve all, column.data[:]", {"backend": _resolve}),
            *more,
            Phase("rows", f"{ROWS} random rows, column.data[i]", {"backend": _rows}),
        ),
        sizes=(100_000,),
        quick_sizes=(500,),
        warm_size=3,
        timeout=60,
    )


WORKLOADS = (
    _workload("W4a", "object references", make_objects),
    _workload(
        "W4b",
        "TimeSeriesReference rows",
        make_rows,
        Phase("column", "resolve all, column[:]", {"backend": _resolve_column}),
    ),
)
