"""Arrays whose chunks lie in shards are changed as all others, and each shard is written once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st
from zarr.storage import MemoryStore

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.arrays.shards import ShardReader, shard_grid, split_shard
from hdmf_zarr_backend.changes import edits as edits_module
from hdmf_zarr_backend.changes.editable import EditableArray
from hdmf_zarr_backend.changes.edits import Edits
from hdmf_zarr_backend.changes.journal import JOURNAL, Mark
from hdmf_zarr_backend.errors import ChunkError, StoreError
from hdmf_zarr_backend.formats.registry import FORMATS, parse_array
from hdmf_zarr_backend.formats.zarr3 import NEW_KEYS
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.model.stored import Shards, StoredArray
from tests.editing import Model, flush, follow, histories, numbers, read_again, read_by_zarr, write_array
from tests.keystores import MemoryKeys


class Metadata:
    """Documents of format 3."""

    zarr_format = 3

    def documents(self, path: str, node: Any) -> Any:
        return FORMATS[3].documents(path, node)

    def mark(self) -> Mark:
        return Mark({"zarr.json": b"{}"})


def sharded(
    array: np.ndarray[Any, Any], chunks: tuple[int, ...], shards: Shards, **options: Any
) -> tuple[EditableArray, MemoryKeys]:
    """Return ``array``, written through an `EditableArray`, and its store."""
    options |= {"zarr_format": 3, "chunk_keys": NEW_KEYS}
    node = StoredArray((0,) * array.ndim, chunks, array.dtype.str, shards=shards, **options)
    keys = MemoryKeys()
    return write_array(array, Dataset(node, {"zarr_dtype": array.dtype.name}), Edits(keys, Metadata()), keys), keys


def stored_by_zarr(**options: Any) -> tuple[Any, MemoryStore]:
    """Return a sharded array that zarr-python has created, and its store."""
    store = MemoryStore()
    group = zarr.create_group(store, zarr_format=3)
    return group.create_array("g/a", dtype="<i4", **options), store


def opened(store: MemoryStore) -> tuple[EditableArray, MemoryKeys]:
    """Return the array of a store of zarr-python, open for changes, and its keys."""
    keys = MemoryKeys({key: value.to_bytes() for key, value in store._store_dict.items()})
    node = parse_array({"zarr.json": json.loads(keys.values["g/a/zarr.json"])}, "g/a")
    assert node is not None
    return EditableArray(Edits(keys, Metadata()), keys, "g/a", node, ChunkCache()), keys


def shards_set(keys: MemoryKeys) -> list[str]:
    return [key for key in keys.keys_set() if key.startswith("g/a/c/")]


# ---- the law -------------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(
    histories(),
    st.lists(st.integers(1, 3), min_size=3, max_size=3),
    st.booleans(),
    st.booleans(),
    st.sampled_from([8, 60, 2**26]),
)
def test_changes_are_those_of_numpy_and_what_is_written_is_what_zarr_reads(history, inner, at_end, checksum, waiting):
    shape, chunks, todo, options = history
    shape_of_shards = tuple(c * n for c, n in zip(chunks, inner, strict=False))
    shards = Shards(shape_of_shards, index_at_end=at_end, checksum=checksum)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edits_module, "WAITING_BYTES", waiting)
        lazy, keys = sharded(numbers(*shape), chunks, shards, fill_value=options["fill_value"], order=options["order"])
        model = Model(numbers(*shape), options["fill_value"] or 0)
        follow(lazy, model, todo)
    assert read_again(keys).tolist() == model.array.tolist()
    assert read_by_zarr(keys).tolist() == model.array.tolist()
    names = {lazy.node.stored.chunk_name(shard) for shard in np.ndindex(*shard_grid(lazy.node.stored))}
    assert set(keys.values) == {"g/a/zarr.json", *(f"g/a/{name}" for name in names)}
    for shard in np.ndindex(*shard_grid(lazy.node.stored)):
        data = keys.values[f"g/a/{lazy.node.stored.chunk_name(shard)}"]
        assert all(split_shard(data, lazy.node.stored, shard)), "a chunk of the array is not stored"


# ---- cases ---------------------------------------------------------------------------------------------------------


def test_a_shard_is_written_once_however_often_it_is_changed():
    lazy, keys = sharded(numbers(50), (4,), Shards((16,)))
    for number in range(30):
        lazy.append([number])
        lazy[number] = -1
    flush(lazy._edits)
    assert sorted(shards_set(keys)) == [f"g/a/c/{n}" for n in (0, 1, 3, 4)]
    assert read_by_zarr(keys).tolist() == [*[-1] * 30, *range(30, 50), *range(30)]


def test_appending_touches_the_last_shard_only():
    lazy, keys = sharded(numbers(100), (4,), Shards((16,)))
    there = dict(keys.values)
    lazy.append(numbers(3))
    flush(lazy._edits)
    assert shards_set(keys) == ["g/a/c/6"]
    assert {key for key, value in keys.values.items() if there.get(key) != value} == {"g/a/c/6", "g/a/zarr.json"}


def test_much_that_is_appended_leaves_memory_shard_by_shard(monkeypatch):
    monkeypatch.setattr(edits_module, "WAITING_BYTES", 64)
    lazy, keys = sharded(numbers(10), (4,), Shards((16,)))
    lazy.append(numbers(1000))
    assert lazy._edits._bytes <= 64 + 16
    early = shards_set(keys)
    assert len(early) > 50
    assert lazy[...].tolist() == [*range(10), *range(1000)]
    flush(lazy._edits)
    assert len(shards_set(keys)) == len(set(shards_set(keys))) == 64
    assert shards_set(keys)[: len(early)] == early
    assert read_by_zarr(keys).tolist() == [*range(10), *range(1000)]


def test_what_is_cut_off_a_shard_that_stays_does_not_come_back():
    lazy, keys = sharded(numbers(40), (4,), Shards((16,)))
    lazy.resize(18)
    flush(lazy._edits)
    assert sorted(keys.values) == ["g/a/c/0", "g/a/c/1", "g/a/zarr.json"]
    lazy.resize(40)
    assert lazy[...].tolist() == [*range(18), *[0] * 22]
    flush(lazy._edits)
    assert read_by_zarr(keys).tolist() == [*range(18), *[0] * 22]


def test_a_change_that_fails_puts_whole_shards_back_and_can_be_tried_again():
    lazy, keys = sharded(numbers(40), (4,), Shards((16,)))
    there = dict(keys.values)
    lazy[[0, 39]] = 7
    lazy.append(numbers(20))
    wanted = lazy[...].tolist()

    def fail(operation: str, key: str) -> None:
        if operation == "set" and key == "g/a/c/3":
            raise StoreError("the disk is full")

    keys.fails = fail
    with pytest.raises(StoreError, match="disk is full") as caught:
        lazy._edits.flush(str)
    lazy._edits.undo(caught.value)
    assert keys.values == there
    keys.fails = lambda operation, key: None
    assert lazy[...].tolist() == wanted
    flush(lazy._edits)
    assert read_by_zarr(keys).tolist() == wanted
    assert not [key for key in keys.values if key.startswith(JOURNAL)]


def test_arrays_of_the_same_dataset_know_where_chunks_are():
    lazy, keys = sharded(numbers(40), (4,), Shards((40,)))
    other = EditableArray(lazy._edits, keys, "g/a", lazy.node, ChunkCache())
    assert other[30] == 30
    lazy[0] = 12345  # its chunk is longer now
    lazy.append(np.arange(10**6, 10**6 + 40, dtype="<i4"))
    flush(lazy._edits)
    assert other[28:40].tolist() == lazy[28:40].tolist() == list(range(28, 40))


def test_a_reader_that_knows_where_chunks_were_looks_again():
    values = np.random.default_rng(0).integers(0, 2**31, 64, dtype="<i4")
    lazy, keys = sharded(values, (16,), Shards((64,)), compressor={"id": "zlib", "level": 1})
    reader = LazyArray(keys, "g/a", lazy.node, ChunkCache(0))
    assert reader[0] == values[0]
    lazy[:16] = 0  # its chunk is shorter now, and those behind it lie elsewhere
    flush(lazy._edits)
    assert reader[16:64].tolist() == values[16:].tolist()
    assert reader[0] == 0
    key = "g/a/c/0"
    keys.values[key] = keys.values[key][:8] + b"\xff" * 40 + keys.values[key][48:]
    with pytest.raises(ChunkError):
        LazyArray(keys, "g/a", lazy.node, ChunkCache(0))[:]


def test_a_shard_of_others_keeps_its_order():
    values = np.arange(64, dtype="<i4").reshape(8, 8)
    array, store = stored_by_zarr(shape=(8, 8), chunks=(2, 2), shards=(8, 8), compressors=None)
    array[...] = values
    lazy, keys = opened(store)
    before = ShardReader(keys, "g/a", lazy.node.stored).extents((0, 0))
    assert list(before) != sorted(before)
    reader = LazyArray(keys, "g/a", lazy.node, ChunkCache(0))
    assert reader[0, 0] == 0
    lazy[0, 7] = -1
    flush(lazy._edits)
    assert ShardReader(keys, "g/a", lazy.node.stored).extents((0, 0)) == before
    values[0, 7] = -1
    assert reader[...].tolist() == read_by_zarr(keys).tolist() == values.tolist()


def test_chunks_that_others_left_out_stay_out():
    array, store = stored_by_zarr(shape=(40,), chunks=(4,), shards=(16,), fill_value=5)
    array[20:24] = 1
    lazy, keys = opened(store)
    there = dict(keys.values)
    lazy[[0, 30]] = 2
    wanted = lazy[...].tolist()
    lazy._edits.flush(str)
    assert set(keys.values) - set(there) >= {"g/a/c/0"}
    assert "g/a/c/2" not in keys.values
    assert len(ShardReader(keys, "g/a", lazy.node.stored).extents((0,))) == 1
    assert read_by_zarr(keys).tolist() == wanted
    lazy._edits.undo(StoreError("no"))
    assert keys.values == there


def test_many_pieces_of_a_shard_are_copied(monkeypatch):
    monkeypatch.setattr("hdmf_zarr_backend.stores.remote.RUN_BYTES", 64)
    values = np.random.default_rng(0).integers(0, 2**31, 640, dtype="<i4")
    lazy, keys = sharded(values, (8,), Shards((640,)))
    lazy[::100] = values[::100] = 1
    flush(lazy._edits)
    assert read_by_zarr(keys).tolist() == values.tolist()
