"""Sharded arrays that zarr-python wrote, read here."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import BytesCodec, Crc32cCodec, ShardingCodec, TransposeCodec, ZstdCodec

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.arrays.shards import ShardReader
from hdmf_zarr_backend.errors import ChunkError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.stores.local import LocalStore
from tests.keystores import MemoryKeys

VALUES = np.arange(100 * 6, dtype="i4").reshape(100, 6)


def sharded(path: Path, values: Any = VALUES, *, codec: Any = None, **options: Any) -> LocalStore:
    root = zarr.open_group(path, mode="w", zarr_format=3)
    if codec is not None:
        array = root.create_array("a", shape=values.shape, dtype=values.dtype, chunks=(40, 6), serializer=codec,
                                  compressors=None, **options)  # fmt: skip
    else:
        array = root.create_array(
            "a", shape=values.shape, dtype=values.dtype, chunks=(10, 3), shards=(40, 6), **options
        )
    array[...] = values
    return LocalStore(str(path))


def reader(keys: Any) -> ChunkReader:
    node = parse(keys).hierarchy.get("a")
    assert isinstance(node, Dataset)
    return ChunkReader(keys, "a", node.stored, ChunkCache())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"codec": ShardingCodec(chunk_shape=(10, 3), codecs=[TransposeCodec(order=(1, 0)), BytesCodec()])},
        {"chunk_key_encoding": {"name": "v2", "separator": "."}},
        {"codec": ShardingCodec(chunk_shape=(10, 3), codecs=[BytesCodec()], index_location="start")},
        {"codec": ShardingCodec(chunk_shape=(20, 2), codecs=[BytesCodec(endian="big"), ZstdCodec()],
                                index_codecs=[BytesCodec()])},
        {"codec": ShardingCodec(chunk_shape=(10, 3), codecs=[BytesCodec(), Crc32cCodec()])},
    ],
    ids=["default", "order F", "keys of format 2", "index at the start", "index without checksum", "checksums"],
)  # fmt: skip
def test_values(tmp_path, options):
    found = reader(sharded(tmp_path / "a.zarr", **options))
    assert np.array_equal(found.read(), VALUES)
    assert np.array_equal(found.read((slice(35, 62), 4)), VALUES[35:62, 4])
    assert found.read((77, 1)) == VALUES[77, 1]


def test_text(tmp_path):
    values = np.array([f"text {n}" for n in range(100)], dtype=np.dtypes.StringDType()).reshape(100, 1)
    root = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=3)
    root.create_array("a", shape=values.shape, dtype="str", chunks=(10, 1), shards=(50, 1))[...] = values
    assert reader(LocalStore(str(tmp_path / "a.zarr"))).read().tolist() == values.tolist()


def test_chunks_and_shards_that_are_not_stored(tmp_path):
    values = VALUES.copy()
    values[5:70] = 7
    found = reader(sharded(tmp_path / "a.zarr", values, fill_value=7))
    assert not (tmp_path / "a.zarr" / "a" / "c" / "3").exists()
    assert np.array_equal(found.read(), values)


def test_a_slice_fetches_its_chunks_alone(tmp_path):
    stored = sharded(tmp_path / "a.zarr")
    keys = MemoryKeys({key: stored.get(key) or b"" for key in stored.sizes("")})
    found = reader(keys)
    keys.calls.clear()
    found.read((slice(0, 10), slice(0, 3)))
    assert len(keys.calls) == 2  # the index, and the chunk
    found.read((slice(10, 20), slice(0, 3)))
    assert len(keys.calls) == 3


def test_chunks_next_to_each_other_are_fetched_together(tmp_path):
    stored = sharded(tmp_path / "a.zarr")
    keys = MemoryKeys({key: stored.get(key) or b"" for key in stored.sizes("")})
    node = reader(keys).array
    wanted = list(np.ndindex(10, 2))
    shards = ShardReader(keys, "a", node)
    keys.calls.clear()
    found = shards.get_many(wanted)
    assert len(keys.calls) == 2 * 3  # of each shard the index, and its chunks as one piece
    assert found == {index: shards.get(index) for index in wanted}
    assert list(found) == wanted
    keys.calls.clear()
    assert shards.get_many([(4, 0), (0, 1)]) == {(4, 0): found[4, 0], (0, 1): found[0, 1]}
    assert len(keys.calls) == 2


def unpacked(path: Path, values: Any, chunks: tuple[int, ...]) -> tuple[MemoryKeys, ShardReader]:
    """Store values that are not compressed in one shard, and read its index."""
    root = zarr.open_group(path, mode="w", zarr_format=3)
    options = {"chunks": chunks, "shards": values.shape, "compressors": None}
    root.create_array("a", shape=values.shape, dtype=values.dtype, **options)[...] = values
    stored = LocalStore(str(path))
    keys = MemoryKeys({key: stored.get(key) or b"" for key in stored.sizes("")})
    shards = ShardReader(keys, "a", reader(keys).array)
    shards.get((0, 0))
    keys.calls.clear()
    return keys, shards


def test_chunks_far_from_each_other_are_fetched_alone(tmp_path):
    values = np.random.default_rng(1).integers(0, 2**31, (3, 200_000), dtype="i4")
    keys, shards = unpacked(tmp_path / "a.zarr", values, (1, 100_000))
    found = shards.get_many([(0, 0), (2, 1)])
    assert len(keys.calls) == 2  # 1.6 MB lie between them
    assert np.array_equal(np.frombuffer(found[2, 1], "i4"), values[2, 100_000:])


def test_a_long_row_of_chunks_is_fetched_in_several_pieces(tmp_path):
    values = np.random.default_rng(1).integers(0, 2**31, (10, 500_000), dtype="i4")
    keys, shards = unpacked(tmp_path / "a.zarr", values, (1, 500_000))
    found = shards.get_many(list(np.ndindex(10, 1)))
    assert len(keys.calls) == 3  # of 20 MB
    assert b"".join(data or b"" for data in found.values()) == values.tobytes()


@pytest.mark.parametrize("damage", ["cut", "index", "chunk gone"])
def test_a_damaged_shard_is_named(tmp_path, damage):
    keys = sharded(tmp_path / "a.zarr")
    path = tmp_path / "a.zarr" / "a" / "c" / "0" / "0"
    data = bytearray(path.read_bytes())
    if damage == "cut":
        data = data[:20]
    elif damage == "index":
        data[-10] ^= 1
    else:
        data = data[-(4 * 2 * 16 + 4) :]  # the index alone
    path.write_bytes(bytes(data))
    with warnings.catch_warnings(), pytest.raises(ChunkError) as caught:
        warnings.simplefilter("ignore")
        reader(keys).read()
    assert caught.value.path == "/a"
