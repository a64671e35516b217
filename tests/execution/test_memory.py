"""Memory does not grow with the size of what is converted, written or exported, whatever the chunks on either side.

Each measurement is a process of its own: the largest resident set of a process never shrinks. The sources hold the same
compressed chunk over and over, so that gigabytes are made in a moment.
"""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

resource = pytest.importorskip("resource")  # not on Windows

MB = 10**6
LOG = logging.getLogger(__name__)  # the figures: pytest --log-cli-level=INFO

_WORK = """
import json, resource, sys
import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf_zarr_backend import WriteOptions, ZarrDataIO, ZarrIO, convert

def work(kind, source, target, options):
    names = ("executor", "memory_budget")
    how = WriteOptions(**{name: options.pop(name) for name in names if name in options})
    if kind == "convert":
        convert(source, target, write_options=how, **options)
        return
    chunks = options.pop("chunks", None)
    with ZarrIO(target, "w", write_options=how) as io:
        if source.endswith(".h5"):
            import h5py
            with h5py.File(source, "r") as file:
                copy(io, file["x"], chunks)
        else:
            with ZarrIO(source, "r") as other:
                copy(io, other.read_builder()["x"].data, chunks)

def copy(io, data, chunks):
    wrapped = data if chunks is None else ZarrDataIO(data, chunks=tuple(chunks), link_data=False)
    io.write_builder(GroupBuilder("root", datasets=[DatasetBuilder("x", wrapped)]), link_data=False)

if __name__ == "__main__":
    peaks = []
    for step in json.load(sys.stdin):
        work(*step)
        peaks.append(resource.getrusage(getattr(resource, sys.argv[1])).ru_maxrss)
    unit = 1 if sys.platform == "darwin" else 1024
    print(json.dumps([peak * unit for peak in peaks]))
"""


def peaks(*steps: tuple[str, Path, Path, dict[str, Any]], who: str = "RUSAGE_SELF") -> list[int]:
    """Return the largest resident set of a process, or of its children, after each of some steps, in bytes."""
    asked = json.dumps([(kind, str(source), str(target), options) for kind, source, target, options in steps])
    # what threads free is given back, whatever their order on a busy machine: the peak is that of what is in use
    env = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": str(2**17)}
    command = [sys.executable, "-c", _WORK, who]
    done = subprocess.run(command, input=asked, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: list[int] = json.loads(done.stdout)
    return found


def make(path: Path, rows: int, columns: int, chunks: tuple[int, int] | None, **filters: Any) -> Path:
    with h5py.File(path, "w") as file:
        data = file.create_dataset("x", (rows, columns), "i2", chunks=chunks, **filters)
        values = np.random.default_rng(0).integers(-60, 60, chunks or (2**20 // columns, columns), dtype="i2")
        if chunks is None:
            for start in range(0, rows, len(values)):
                data[start : start + len(values)] = values[: rows - start]
            return path
        data[: chunks[0], : chunks[1]] = values[:rows, :columns]
        mask, stored = data.id.read_direct_chunk((0, 0))
        for start in range(0, rows, chunks[0]):
            for column in range(0, columns, chunks[1]):
                data.id.write_direct_chunk((start, column), stored, filter_mask=mask)
    return path


GZIP = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
SHAPES: dict[str, tuple[int, tuple[int, int] | None, dict[str, Any]]] = {
    "square": (384, (30_000, 64), GZIP),
    "rows": (384, (64, 384), GZIP),
    "columns": (384, (300_000, 1), GZIP),
    "wide": (35_000_000, (1, 500_000), GZIP),
    "contiguous": (384, None, {}),
    "lzf": (384, (30_000, 64), {"compression": "lzf"}),
}
SIZE = 256 * 2**20


@pytest.mark.parametrize("codec", ["keep", True], ids=["kept", "recoded"])
# many small chunks of each column take long
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow) if n == "columns" else n for n in SHAPES])
def test_a_conversion_both_ways_is_bounded(tmp_path, name, codec):
    columns, chunks, filters = SHAPES[name]
    large = make(tmp_path / "large.h5", SIZE // 2 // columns, columns, chunks, **filters)
    make(tmp_path / "small.h5", 2**21 // columns or 1, columns // 8 if name == "wide" else columns, chunks and (
        min(chunks[0], 2000), min(chunks[1], 2000)), **filters)  # fmt: skip
    options, names = {"codec": codec, "executor": 2}, ("small", "large")
    there = peaks(*(("convert", tmp_path / f"{n}.h5", tmp_path / f"{n}.zarr", options) for n in names))
    back = peaks(*(("convert", tmp_path / f"{n}.zarr", tmp_path / f"{n}2.h5", {"executor": 2}) for n in names))
    LOG.info(f"{name} {codec}: {there[1] - there[0]:,} there, {back[1] - back[0]:,} back")
    assert there[1] - there[0] <= 100 * MB
    assert back[1] - back[0] <= 128 * MB
    with h5py.File(large) as one, h5py.File(tmp_path / "large2.h5") as other:
        rows = one["x"].shape[0]
        for start in {0, rows // 2, rows - 1}:
            assert np.array_equal(one["x"][start, :1000], other["x"][start, :1000])


@pytest.mark.parametrize("source", ["large.h5", "large.zarr"])
@pytest.mark.parametrize(
    "chunks", [None, (8192, 384), (64, 384), pytest.param((300_000, 8), marks=pytest.mark.slow)], ids=str
)
@pytest.mark.parametrize("budget", [128, 32])
def test_a_write_of_stored_arrays_is_bounded(tmp_path, source, chunks, budget):
    made = make(tmp_path / "large.h5", SIZE // 4 // 384, 384, (30_000, 64), **GZIP)
    small = make(tmp_path / "small.h5", 3000, 384, (2000, 64), **GZIP)
    if source.endswith(".zarr"):
        peaks(("convert", made, tmp_path / source, {"codec": True}), ("convert", small, tmp_path / "small.zarr", {}))
        small = tmp_path / "small.zarr"
    options = {"chunks": chunks, "executor": 2, "memory_budget": budget * 2**20}
    first, last = peaks(
        ("write", small, tmp_path / "first.zarr", options), ("write", tmp_path / source, tmp_path / "b.zarr", options)
    )
    LOG.info(f"{source} {chunks} {budget}: {last - first:,}")
    assert last - first <= max(budget, 72) * 2**20


def test_each_process_keeps_the_budget(tmp_path):
    large = make(tmp_path / "large.h5", SIZE // 2 // 384, 384, (30_000, 64), **GZIP)
    small = make(tmp_path / "small.h5", 3000, 384, (2000, 64), **GZIP)
    options = {"codec": True, "executor": "processes", "memory_budget": 32 * 2**20}
    first, last = peaks(
        *(("convert", each, tmp_path / f"{each.stem}.zarr", options) for each in (small, large)), who="RUSAGE_CHILDREN"
    )
    assert last - first <= 72 * 2**20


@pytest.mark.slow
@pytest.mark.parametrize("codec", ["keep", {"id": "zlib", "level": 1}, True], ids=["kept", "zlib", "recoded"])
def test_four_gigabytes_take_less_than_300_megabytes_in_all(tmp_path, codec):
    large = make(tmp_path / "large.h5", 2**31 // 384, 384, (30_000, 64), **GZIP)
    (there,) = peaks(("convert", large, tmp_path / "large.zarr", {"codec": codec}))
    (back,) = peaks(("convert", tmp_path / "large.zarr", tmp_path / "back.h5", {}))
    LOG.info(f"{codec}: {there:,} there, {back:,} back")
    assert there < 300 * MB
    assert back < 300 * MB
    with h5py.File(large) as one, h5py.File(tmp_path / "back.h5") as other:
        assert one["x"].shape == other["x"].shape
        assert np.array_equal(one["x"][-5:], other["x"][-5:])
