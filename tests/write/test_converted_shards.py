"""HDF5 and Zarr files are converted to format 3 with shards, made of the chunks of the source as they are."""

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import zarr

from hdmf_zarr_backend import WriteOptions, convert, dry_run, verify
from hdmf_zarr_backend.array.shards import ShardReader
from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.errors import ConflictError, UsageError
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.write import plan
from tests.documents import metadata
from tests.options import arguments
from tests.places import stored_files
from tests.write.test_resume import Stopping
from tests.write.test_shards import values_of

RECORDING = np.random.default_rng(3).integers(-200, 200, (6000, 40), dtype="i2")


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Datasets with the filters of HDF5 that Zarr has, one with an absent chunk, and some that are not recordings."""
    path = tmp_path_factory.mktemp("hdf5") / "a.h5"
    with h5py.File(path, "w") as file:
        pipelines: dict[str, dict[str, Any]] = {
            "gzip": {"compression": "gzip", "shuffle": True},
            "plain": {},
            "checked": {"fletcher32": True, "compression": "gzip"},
            "blosc": dict(hdf5plugin.Blosc()),
            "zstd": dict(hdf5plugin.Zstd()),
        }
        for name, how in pipelines.items():
            file.create_dataset(name, data=np.tile(RECORDING, (3, 1)), chunks=(1000, 40), **how)
        holes = file.create_dataset("holes", (18_000, 40), "i2", chunks=(1000, 40), compression="gzip", fillvalue=9)
        holes[2500:4000] = 1
        file.create_dataset("lzf", data=np.tile(RECORDING, (3, 1)), chunks=(1000, 40), compression="lzf")
        file["long"] = np.arange(300_000.0)
        file["small"] = np.arange(20)
        file["text"] = ["a", "b"]
        file["scalar"] = 5
    return path


SHARDED = ("gzip", "plain", "checked", "blosc", "zstd", "holes", "lzf")
COPIED = SHARDED[:-1]


@pytest.fixture(scope="module")
def converted(hdf5: Path) -> Path:
    convert(hdf5, hdf5.with_name("sharded.zarr"), zarr_format=3, shards=(7500, 40), check=False)
    return hdf5.with_name("sharded.zarr")


def stored_in(path: Path) -> dict[str, Any]:
    """Return how the arrays of a file are stored, by their names."""
    nodes = parse(LocalStore(str(path))).hierarchy.walk()
    return {name: node.stored for name, node in nodes if isinstance(node, Dataset)}


def test_a_conversion_puts_chunks_into_shards(hdf5, converted):
    """But for what has other axes, or one chunk."""
    found, values = stored_in(converted), values_of(converted)
    assert {name for name, stored in found.items() if stored.shards is not None} == {*SHARDED}
    assert found.keys() - {*SHARDED} == {"long", "small", "text", "scalar"}
    for name in SHARDED:
        assert (found[name].shards.shape, found[name].chunks) == ((8000, 40), (1000, 40)), name
        assert sorted(stored_files(converted / name)) == ["c/0/0", "c/1/0", "c/2/0", "zarr.json"], name
        with h5py.File(hdf5) as file:
            assert np.array_equal(values[name], file[name][()]), name


@pytest.mark.parametrize("name", COPIED)
def test_shards_are_assembled_from_the_chunks_of_hdf5_as_they_are(hdf5, converted, name):
    with h5py.File(hdf5) as file:
        dataset = file[name]
        stored = {tuple(n // c for n, c in zip(found.chunk_offset, (1000, 40), strict=True)): found
                  for found in map(dataset.id.get_chunk_info, range(dataset.id.get_num_chunks()))}  # fmt: skip
        raw = {index: dataset.id.read_direct_chunk(found.chunk_offset)[1] for index, found in stored.items()}
    reader = ShardReader(LocalStore(str(converted)), name, stored_in(converted)[name])
    assert {index: reader.get(index) for index in raw} == raw
    assert len(raw) == (2 if name == "holes" else 18)


@pytest.mark.parametrize("executor", [2, "processes"])
def test_shards_of_a_conversion_are_the_same_whoever_makes_them(hdf5, converted, tmp_path, executor):
    options = WriteOptions(executor=executor)
    convert(hdf5, tmp_path / "a.zarr", zarr_format=3, shards=(7500, 40), check=False, write_options=options)
    for name in SHARDED:
        assert stored_files(tmp_path / "a.zarr" / name) == stored_files(converted / name), name


@pytest.mark.filterwarnings("ignore")
def test_others_read_what_a_conversion_sharded(converted):
    ours = values_of(converted)
    for name in SHARDED:
        assert np.array_equal(zarr.open_array(converted / name, mode="r")[...], ours[name]), name


def test_large_arrays_get_shards_by_bytes(hdf5, tmp_path, monkeypatch):
    monkeypatch.setattr(plan, "SHARDED_BYTES", 2**20)
    convert(hdf5, tmp_path / "a.zarr", zarr_format=3, shards="auto", check=False)
    found = stored_in(tmp_path / "a.zarr")
    assert {name for name, stored in found.items() if stored.shards is not None} == {*SHARDED, "long"}
    assert verify(tmp_path / "a.zarr", "chunks").problems == []
    planned = dry_run(hdf5, tmp_path / "a.zarr", zarr_format=3, shards="auto", estimate=False)
    assert metadata(planned.hierarchy) == metadata(tmp_path / "a.zarr")
    for path, array in planned.arrays.items():
        shards = found[path.strip("/")].shards
        assert array.shards == (None if shards is None else shards.shape), path


def test_a_zarr_file_gets_shards_when_it_becomes_format_3(converted, tmp_path):
    convert(converted, tmp_path / "plain.zarr", zarr_format=2, check=False)
    assert not stored_files(tmp_path / "plain.zarr/gzip").keys() & {"c/0/0"}
    convert(tmp_path / "plain.zarr", tmp_path / "again.zarr", zarr_format=3, shards=(7500, 40), check=False)
    for name in SHARDED:
        assert stored_files(tmp_path / "again.zarr" / name) == stored_files(converted / name), name


def test_a_conversion_with_shards_goes_on_where_it_was_interrupted(hdf5, converted, tmp_path):
    given: dict[str, Any] = {"zarr_format": 3, "check": False, "resume": True}
    threads = WriteOptions(executor=2)
    with pytest.raises(KeyboardInterrupt):
        stopping = WriteOptions(executor=2, progress=Stopping(KeyboardInterrupt(), after=1_600_000))
        convert(hdf5, tmp_path / "a.zarr", shards=(7500, 40), write_options=stopping, **given)
    with pytest.raises(ConflictError, match="shards"):
        convert(hdf5, tmp_path / "a.zarr", shards=(4000, 40), write_options=threads, **given)
    convert(hdf5, tmp_path / "a.zarr", shards=(7500, 40), write_options=threads, **given)
    assert stored_files(tmp_path / "a.zarr") == stored_files(converted)


@pytest.mark.parametrize(("options", "message"), [
    ({"zarr_format": 2, "shards": "auto"}, "neither Zarr format 2 nor"),
    ({"zarr_format": "both", "shards": (4, 4)}, "neither Zarr format 2 nor"),
    ({"zarr_format": 3, "shards": "all"}, "not lengths"),
    ({"zarr_format": 3, "shards": (0, 4)}, "not lengths"),
    ({"zarr_format": 3, "nczarr": True}, "NCZarr has no attributes in format 3"),
    ({"to": "virtual", "nczarr": True}, "Leave nczarr="), ({"to": "virtual", "shards": "auto"}, "Leave shards="),
])  # fmt: skip
def test_conversions_that_cannot_be(hdf5, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        convert(hdf5, tmp_path / f"a.zarr{'.json' * ('to' in options)}", check=False, **arguments(**options))
    assert list(tmp_path.iterdir()) == []
