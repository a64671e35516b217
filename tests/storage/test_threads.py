"""Threads that share a file that is open for changes: each change of an array is whole, and nothing is lost."""

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pynwb import NWBFile

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import ModeError
from tests import samples, trees

KINDS: list[tuple[int, dict[str, Any]]] = [(2, {}), (3, {}), (3, {"shards": (200,)})]
THREADS = 4

kinds = pytest.mark.parametrize("kind", KINDS, ids=["format 2", "format 3", "shards"])


@pytest.fixture(autouse=True)
def _often() -> Iterator[None]:
    """Switch between threads as often as possible."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def in_threads(function: Callable[[int], None], count: int = THREADS) -> None:
    """Call a function in threads, with the number of each; raises the first error."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(function, range(count)))


def written(path: Path, length: int, kind: tuple[int, dict[str, Any]] = KINDS[0], chunk: int = 20) -> Path:
    zarr_format, options = kind
    data = ZarrDataIO(np.zeros(length, "i8"), chunks=(chunk,), maxshape=(None,), **options)
    return Path(trees.write_builder(path, trees.root(trees.dataset("n", data)), zarr_format=zarr_format))


def values_in(path: Path) -> Any:
    return trees.read_builder(path)["n"].data[:]


@kinds
def test_assignments_to_parts_of_one_chunk_are_all_kept(kind: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "a.zarr", 8000, kind, chunk=200)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["n"].data

        def assign(number: int) -> None:
            for start in range(0, 8000, 40):
                data[start + number * 10 : start + number * 10 + 10] = number + 1

        in_threads(assign)
    assert values_in(path).tolist() == [1 + position % 40 // 10 for position in range(8000)]


@kinds
@pytest.mark.parametrize("method", ["append", "extend"])
def test_what_threads_append_is_all_there(kind: Any, method: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.zarr", 1, kind)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["n"].data

        def append(number: int) -> None:
            for position in range(100):
                getattr(data, method)([number * 1000 + position + 1] * 2)

        in_threads(append)
    values = values_in(path)[1:].tolist()
    assert values[::2] == values[1::2]  # each block is whole
    assert sorted(values[::2]) == [number * 1000 + position + 1 for number in range(THREADS) for position in range(100)]


@kinds
def test_a_slice_has_the_values_of_before_or_after_an_assignment(kind: Any, tmp_path: Path) -> None:
    path = written(tmp_path / "a.zarr", 400, kind)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["n"].data
        is_over = threading.Event()
        seen: list[set[int]] = []

        def work(number: int) -> None:
            if number:
                while not is_over.is_set():
                    seen.append(set(data[:].tolist()))
                return
            for value in range(1, 100):
                data[:] = value
            is_over.set()

        in_threads(work)
    assert all(len(values) == 1 for values in seen)


def test_changes_while_the_file_is_written_are_in_this_write_or_the_next(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zarr", 1)
    with ZarrIO(path, "r+") as io:
        root = io.read_builder()
        data = root["n"].data

        def work(number: int) -> None:
            for position in range(100):
                if number:
                    data.append([number * 1000 + position])
                elif position % 10 == 0:
                    io.write_builder(root)

        in_threads(work)
    expected = [number * 1000 + position for number in range(1, THREADS) for position in range(100)]
    assert sorted(values_in(path)[1:].tolist()) == expected


def test_values_may_be_computed_by_threads_that_read_the_file(tmp_path: Path) -> None:
    """Nothing waits for a thread that waits for it."""

    class Computed:
        shape, dtype, ndim = (40,), np.dtype("i8"), 1

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            parts: list[Any] = []
            in_threads(lambda number: parts.append(data[:40] + 1), 1)
            return parts[0]

    path = written(tmp_path / "a.zarr", 40)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["n"].data
        data[:] = Computed()
        data.append(Computed())
    assert values_in(path).tolist() == [1] * 40 + [2] * 40


def test_rows_of_a_table_need_a_lock_of_the_program(tmp_path: Path) -> None:
    path, order = tmp_path / "a.nwb.zarr", threading.Lock()
    nwbfile = NWBFile("a session", "id", datetime(2026, 1, 1, tzinfo=UTC))
    nwbfile.add_unit(spike_times=[0.0], id=0)
    samples.write_zarr(path, nwbfile)
    with NWBZarrIO(path, "r+") as io:
        units = io.read().units

        def add(number: int) -> None:
            for position in range(20):
                with order:
                    units.add_unit(spike_times=[float(number)] * (position + 1), id=number * 100 + position + 1)

        in_threads(add)
    units = samples.read_zarr(path).units
    found = {int(units.id[row]): units["spike_times"][row].tolist() for row in range(len(units))}
    assert len(found) == 1 + 20 * THREADS
    for number in range(THREADS):
        for position in range(20):
            assert found[number * 100 + position + 1] == [float(number)] * (position + 1)


def test_a_change_after_the_file_was_closed_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.zarr", 5)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["n"].data
        data[0] = 7
    assert data[:2].tolist() == [7, 0]
    for change in (lambda: data.append([1]), lambda: data.resize(3), lambda: data.__setitem__(1, 8)):
        with pytest.raises(ModeError, match="the file is closed"):
            change()
    assert values_in(path).tolist() == [7, 0, 0, 0, 0]
