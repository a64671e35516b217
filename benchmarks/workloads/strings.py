"""W5, text: a column of n strings and a ragged column of n lists of strings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from benchmarks.harness.job import Job, Phase, Workload
from benchmarks.workloads import floors

ROWS = 1000


def _label(row: int) -> str:
    return f"label {row * 7919 % 1000}" if row % 10 else f"größer als {row} µm"


def _tags(row: int) -> list[str]:
    return [f"tag{(row + step) % 50}" for step in range(row % 3)]


def make(n: int) -> Any:
    """Return the NWB file in memory."""
    from hdmf.common import DynamicTable, VectorData, VectorIndex
    from pynwb import NWBFile

    tags: list[str] = []
    ends: list[int] = []
    for row in range(n):
        tags.extend(_tags(row))
        ends.append(len(tags))
    labels = VectorData(name="label", description="text", data=[_label(row) for row in range(n)])
    ragged = VectorData(name="tags", description="lists of text", data=tags)
    index = VectorIndex(name="tags_index", target=ragged, data=ends)
    nwbfile = NWBFile("text", "w5", datetime(2026, 1, 1, tzinfo=UTC))
    nwbfile.add_acquisition(DynamicTable(name="table", description="text", columns=[labels, ragged, index]))
    return nwbfile


def _write(job: Job) -> None:
    nwbfile = make(job.size)
    with job.meter.measured(), job.io.open(job.folder / "w5", "w") as io:
        io.write(nwbfile)


def _build(job: Job) -> None:
    floors.build_only(job, make(job.size))


def _read_all(job: Job) -> None:
    with job.io.open(job.folder / "w5", "r") as io:
        table = io.read().acquisition["table"]
        with job.meter.measured():
            labels = table["label"].data[:]
            tags = table["tags"].target.data[:]
    assert list(_texts(labels)) == [_label(row) for row in range(job.size)]
    assert list(_texts(tags)) == [tag for row in range(job.size) for tag in _tags(row)]


def _texts(values: Any) -> list[str]:
    return [value.decode() if isinstance(value, bytes) else str(value) for value in values]


def _rows(job: Job) -> None:
    import numpy as np

    rows = [int(row) for row in np.random.default_rng(6).integers(0, job.size, ROWS)]
    with job.io.open(job.folder / "w5", "r") as io:
        column = io.read().acquisition["table"]["tags"]
        with job.meter.measured():
            values = [column[row] for row in rows]
    assert [_texts(value) for value in values] == [_tags(row) for row in rows]


def _encode(job: Job) -> tuple[Any, Any]:
    import numpy as np

    tags = [tag for row in range(job.size) for tag in _tags(row)]
    return np.array([_label(row) for row in range(job.size)], dtype=object), np.array(tags, dtype=object)


def _write_files(job: Job) -> None:
    from numcodecs import Blosc, VLenUTF8, blosc

    blosc.use_threads = False  # threads of Blosc wait for each other
    columns = _encode(job)
    text, codec = VLenUTF8(), Blosc("lz4", 5, Blosc.SHUFFLE)
    folder = job.folder / "w5"
    folder.mkdir()
    with job.meter.measured():
        for number, column in enumerate(columns):
            floors.put(folder / str(number), codec.encode(text.encode(column)))


def _read_files(job: Job) -> None:
    from numcodecs import Blosc, VLenUTF8, blosc

    blosc.use_threads = False  # threads of Blosc wait for each other
    text, codec = VLenUTF8(), Blosc()
    folder = job.folder / "w5"
    with job.meter.measured():
        columns = [text.decode(codec.decode((folder / str(number)).read_bytes())) for number in range(2)]
    assert len(columns[0]) == job.size


WORKLOAD = Workload(
    name="W5",
    title="Text: n strings, and a ragged column of n lists of strings",
    phases=(
        Phase("write", "write", {"backend": _write, "hdmf": _build, "files": _write_files}, output="w5"),
        Phase("all", "read all", {"backend": _read_all, "files": _read_files}),
        Phase("rows", f"{ROWS} random ragged rows", {"backend": _rows}),
    ),
    sizes=(100_000,),
    quick_sizes=(300,),
    warm_size=3,
)
