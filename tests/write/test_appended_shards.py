"""Sharded recordings and columns grow and change in place, in every store that takes changes; others read them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO, verify
from hdmf_zarr_backend.array import edits
from hdmf_zarr_backend.store.base import JOURNAL
from hdmf_zarr_backend.store.local import LocalStore
from tests import samples, trees
from tests.peers import Peer
from tests.storekinds import StoreKind

VALUES = np.random.default_rng(0).integers(-999, 999, (101, 6)).astype("<i2")
MORE = np.random.default_rng(1).integers(-999, 999, (90, 6)).astype("<i2")
DATA = "acquisition/large/data"


def write(place: Any, **options: Any) -> Any:
    nwbfile = samples.plain_nwbfile()
    data = ZarrDataIO(VALUES, chunks=(10, 3), shards=(40, 6), maxshape=(None, 6))
    nwbfile.add_acquisition(TimeSeries(name="large", data=data, unit="V", rate=1.0))
    for number in range(10):
        nwbfile.add_trial(start_time=float(number), stop_time=number + 0.5)
    column = ZarrDataIO(np.arange(10.0), chunks=(2,), shards=(8,), maxshape=(None,))
    nwbfile.add_trial_column("score", "in shards", data=column)
    samples.write_zarr(place, nwbfile, zarr_format=3, **options)
    return place


def grow(place: Any, **options: Any) -> None:
    with samples.edit_zarr(place, **options) as nwbfile:
        data = nwbfile.acquisition["large"].data
        for start in range(0, 90, 30):
            data.append(MORE[start : start + 30])
        data[5, 1] = 12345
        for number in range(10, 14):
            nwbfile.add_trial(start_time=float(number), stop_time=number + 0.5, score=float(number))


def grown() -> np.ndarray[Any, Any]:
    values = np.concatenate([VALUES, MORE])
    values[5, 1] = 12345
    return values


@pytest.mark.parametrize("store", ["local", "memory", "memory-url", "s3"], indirect=True)
@pytest.mark.parametrize("waiting", [300, 2**26])
def test_they_grow_in_every_store(store: StoreKind, waiting: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edits, "WAITING_BYTES", waiting)
    place = store.place("a.nwb.zarr")
    write(place, **store.options)
    grow(place, **store.options)
    nwbfile = samples.read_zarr(place, **store.options)
    assert np.array_equal(nwbfile.acquisition["large"].data[:], grown())
    assert nwbfile.trials["score"][:].tolist() == list(range(14))
    keys = store.contents("a.nwb.zarr")
    assert {key for key in keys if key.startswith(f"{DATA}/c/")} == {f"{DATA}/c/{n}/0" for n in range(5)}
    assert not [key for key in keys if key.startswith(JOURNAL)]
    assert verify(place, "chunks", **store.options).problems == []


@pytest.fixture
def local(tmp_path: Path) -> Path:
    path: Path = write(tmp_path / "a.nwb.zarr")
    grow(path)
    return path


@pytest.mark.filterwarnings("ignore")
def test_zarr_python_reads_what_has_grown(local: Path) -> None:
    for options in ({"use_consolidated": True}, {"use_consolidated": False}):
        group = zarr.open_group(local, mode="r", **options)
        assert np.array_equal(group[DATA][...], grown())
        assert group[DATA].shards == (40, 6)
        assert group["intervals/trials/score"][...].tolist() == list(range(14))


_PEER = """
import json, sys, warnings
warnings.simplefilter("ignore")
from hdmf_zarr import NWBZarrIO
with NWBZarrIO(sys.argv[1], "r") as io:
    nwbfile = io.read()
    print(json.dumps([nwbfile.acquisition["large"].data[:].tolist(), nwbfile.trials["score"][:].tolist()]))
"""


@pytest.mark.peer
def test_hdmf_zarr_014_reads_what_has_grown(local: Path, peer014: Peer) -> None:
    assert peer014.run(_PEER, local) == [grown().tolist(), list(range(14))]


def test_no_complete_shard_is_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither for the journal nor for the new one: pieces of a few chunks are copied."""
    place = write(tmp_path / "a.nwb.zarr")
    asked: list[str] = []
    get, put = LocalStore.get, LocalStore._set
    with monkeypatch.context() as patch:
        patch.setattr(LocalStore, "get", lambda store, key: asked.append(key) or get(store, key))
        patch.setattr(LocalStore, "_set", lambda store, key, value: asked.append(key) or put(store, key, value))
        grow(place)
    assert f"{DATA}/zarr.json" in asked
    assert not [key for key in asked if key.startswith((f"{DATA}/c", f"{JOURNAL}.old"))]


def test_shards_that_do_not_change_are_left_alone(tmp_path: Path) -> None:
    place = write(tmp_path / "a.nwb.zarr")
    there = {file: file.stat().st_mtime_ns for file in (place / DATA).rglob("*") if file.is_file()}
    with NWBZarrIO(place, "r+") as io:
        io.read().acquisition["large"].data.append(MORE)
    changed = {file for file, time in there.items() if file.stat().st_mtime_ns != time}
    assert changed == {place / DATA / "zarr.json", place / DATA / "c/2/0"}


@pytest.mark.parametrize("store", ["local", "memory-url"], indirect=True)
def test_a_reader_finds_the_chunks_of_a_shard_that_became_shorter(store: StoreKind) -> None:
    place, values = store.place("a.zarr"), np.random.default_rng(0).integers(-999, 999, (80, 200)).astype("<i2")
    data = ZarrDataIO(values, chunks=(10, 200), shards=(80, 200))
    trees.write_builder(place, trees.root(trees.dataset("data", data)), zarr_format=3)
    for rows in (slice(75, 80), slice(20, 80)):
        with ZarrIO(place, "r") as io:
            lazy = io.read_builder()["data"].data
            assert np.array_equal(lazy[:5], values[:5])  # its index is known from now on
            with trees.edit_builder(place) as root:
                root["data"].data[rows.start - 10 : rows.start] = values[rows.start - 10 : rows.start] = 0
            assert np.array_equal(lazy[rows], values[rows])
