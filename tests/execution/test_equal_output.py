"""Whoever does the work, and however it is cut, the output is the same key by key; the source's values are in it."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.hdf5 import HDF5IO
from hdmf.common import get_manager
from hdmf.data_utils import DataChunk

from hdmf_zarr_backend import ReadOptions, WriteOptions, ZarrDataIO, ZarrIO, compare, convert
from hdmf_zarr_backend.progress import Progress
from tests.blocks import Blocks
from tests.execution.conftest import KINDS
from tests.places import stored_files
from tests.trees import dataset, read_builder, root, write_builder

Find = Callable[[Any], Any]
VALUES = np.random.default_rng(0).integers(-50, 50, (60_000, 16), dtype="i2")
SERIAL = None


def write(path: Path, executor: Any = None, /, progress: Progress | None = None, **datasets: Any) -> dict[str, bytes]:
    options = WriteOptions(executor=executor, progress=progress or Progress())
    write_builder(path, root(*itertools.starmap(dataset, datasets.items())), write_options=options)
    return stored_files(path)


class Counting(Progress):
    def __init__(self) -> None:
        self.total, self.done = 0, 0
        self.by_path: dict[str, int] = {}

    def start(self, total: int) -> None:
        self.total = total

    def advance(self, path: str, done: int) -> None:
        self.done += done
        self.by_path[path] = self.by_path.get(path, 0) + done


@pytest.mark.parametrize("kind", KINDS)
def test_a_write_is_the_same(executors, zarr_source, tmp_path, kind):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", data=VALUES, chunks=(7000, 5), compression="gzip")

    def datasets(file: h5py.File) -> dict[str, Any]:
        return {
            "memory": VALUES,
            "cut": ZarrDataIO(VALUES, chunks=(777, 5)),
            "column": ZarrDataIO(VALUES[:, 3] * 2.5, chunks=(1001,)),
            "hdf5": ZarrDataIO(file["x"], chunks=(1999, 16)),  # no chunk of the target is one of the source
            "zarr": ZarrDataIO(stored, chunks=(1234, 7), link_data=False),
            "text": [str(n) for n in range(1000)],
        }

    with h5py.File(tmp_path / "a.h5") as file, ZarrIO(zarr_source, "r") as io:
        stored = io.read_builder()["default"].data
        expected = write(tmp_path / "serial.zarr", SERIAL, **datasets(file))
        progress = Counting()
        found = write(tmp_path / "other.zarr", executors(kind), progress, **datasets(file))
    assert found == expected
    assert progress.done >= progress.total > 4 * VALUES.nbytes // 2
    builder = read_builder(tmp_path / "other.zarr")
    for name in ("memory", "cut", "hdf5", "zarr"):
        assert np.array_equal(builder[name].data[:], VALUES)


def pieces(step: int, *, is_reversed: bool = False) -> Blocks:
    """Return blocks of rows that are not chunks, maybe the last ones first, with one buffer for all of them."""

    def blocks() -> Iterator[DataChunk]:
        buffer = np.empty((step, VALUES.shape[1]), VALUES.dtype)
        starts = range(0, len(VALUES), step)
        for start in reversed(starts) if is_reversed else starts:
            rows = VALUES[start : start + step]
            buffer[: len(rows)] = rows
            yield DataChunk(buffer[: len(rows)], np.s_[start : start + len(rows), :])

    return Blocks(blocks(), (None, VALUES.shape[1]), VALUES.dtype, chunk_shape=(1000, 7), data_shape=VALUES.shape)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("step", "is_reversed"), [(333, False), (2000, False), (4097, True)])
def test_iterators_of_misaligned_blocks_are_right(executors, tmp_path, kind, step, is_reversed):
    expected = write(tmp_path / "serial.zarr", SERIAL, x=pieces(step, is_reversed=is_reversed))
    progress = Counting()
    # one chunk of 14 kB and what waits for one more may be in flight: every block has to wait for room
    options = WriteOptions(executor=executors(kind), progress=progress, memory_budget=100_000)
    tree = root(dataset("x", pieces(step, is_reversed=is_reversed)))
    write_builder(tmp_path / "other.zarr", tree, write_options=options)
    assert stored_files(tmp_path / "other.zarr") == expected
    assert progress.by_path == {"/x": VALUES.nbytes}
    assert np.array_equal(read_builder(tmp_path / "other.zarr")["x"].data[:], VALUES)


@pytest.fixture(scope="module")
def zarr_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "a.zarr"
    write(
        path,
        default=VALUES,
        chosen=ZarrDataIO(VALUES, chunks=(5000, 3), compressor={"id": "zlib", "level": 1}, fillvalue=-1),
        plain=ZarrDataIO(VALUES, compressor=False, filters=[{"id": "delta", "dtype": "<i2"}]),
        text=[f"word {n}" for n in range(5000)],
    )
    (path / "chosen/3.1").unlink()  # a missing chunk is fill
    return path


def export(source: Path, target: Path, executor: Any, **options: Any) -> dict[str, bytes]:
    with (
        ZarrIO(source, "r", read_options=ReadOptions(missing_chunks="fill")) as src,
        ZarrIO(target, "w", write_options=WriteOptions(executor=executor)) as io,
    ):
        io.export(src, **options)
    return stored_files(target)


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_from_zarr_is_the_same(executors, zarr_source, tmp_path, kind):
    expected = export(zarr_source, tmp_path / "serial.zarr", SERIAL)
    assert export(zarr_source, tmp_path / "other.zarr", executors(kind)) == expected
    assert not [d for d in compare(zarr_source, tmp_path / "other.zarr") if d.kind != "storage"]


def test_an_export_from_zarr_keeps_chunks_and_codecs(zarr_source, tmp_path):
    found = export(zarr_source, tmp_path / "b.zarr", SERIAL)
    before = stored_files(zarr_source)
    chunks = [key for key in before if key.split("/")[0] in ("default", "chosen", "plain", "text") and ".z" not in key]
    assert len(chunks) > 60
    assert all(found[key] == before[key] for key in chunks)
    data = read_builder(tmp_path / "b.zarr")["chosen"].data
    assert (data.chunks, data.compressor.level, data.fill_value) == ((5000, 3), 1, -1)
    assert (data[15_000:20_000, 3:6] == -1).all()
    assert np.array_equal(data[20_000:], VALUES[20_000:])


@pytest.fixture(scope="module")
def hdf5_source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hdf5") / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("gzip", data=VALUES, chunks=(4096, 16), compression="gzip", shuffle=True)
        file.create_dataset("lzf", data=VALUES, chunks=(4096, 16), compression="lzf")
        file.create_dataset("contiguous", data=VALUES)
        file.create_dataset("small chunks", data=VALUES, chunks=(100, 16), compression="gzip", fletcher32=True)
        file.create_dataset("growing", data=VALUES, chunks=(900, 5), maxshape=(None, 20), shuffle=True)
        file["text"] = ["a", "b"]
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_from_hdf5_is_the_same(executors, hdf5_source, tmp_path, kind):
    for name, executor in (("serial.zarr", SERIAL), ("other.zarr", executors(kind))):
        with (
            HDF5IO(hdf5_source, "r", manager=get_manager()) as src,
            ZarrIO(tmp_path / name, "w", write_options=WriteOptions(executor=executor)) as io,
        ):
            io.export(src, cache_spec=False)
    assert stored_files(tmp_path / "other.zarr") == stored_files(tmp_path / "serial.zarr")
    builder = read_builder(tmp_path / "other.zarr")
    for name in ("gzip", "lzf", "contiguous"):
        assert np.array_equal(builder[name].data[:], VALUES)


@pytest.mark.parametrize("codec", ["keep", True], ids=["kept", "recoded"])
@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_is_the_same(executors, hdf5_source, tmp_path, kind, codec):
    for name, who in (("serial", SERIAL), ("other", executors(kind))):
        there, back = Counting(), Counting()
        options = WriteOptions(executor=who, progress=there)
        convert(hdf5_source, tmp_path / f"{name}.zarr", codec=codec, write_options=options)
        assert there.done == there.total > 5 * VALUES.nbytes
        options = WriteOptions(executor=who, progress=back)
        convert(tmp_path / f"{name}.zarr", tmp_path / f"{name}.h5", write_options=options)
        assert back.done == back.total > 5 * VALUES.nbytes
    expected = stored_files(tmp_path / "serial.zarr")
    assert stored_files(tmp_path / "other.zarr") == expected
    assert sum(key.startswith("gzip/") for key in expected) > 10
    assert (tmp_path / "other.h5").read_bytes() == (tmp_path / "serial.h5").read_bytes()
    assert list(compare(hdf5_source, tmp_path / "other.h5")) == []
