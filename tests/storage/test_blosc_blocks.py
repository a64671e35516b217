"""Some blocks of a Blosc chunk are those of the whole chunk, and a damaged one is damage."""

import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numcodecs import Blosc, blosc

from hdmf_zarr_backend.array.chunks import ChunkCache
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.encoding.blosc_blocks import find_blocks
from hdmf_zarr_backend.encoding.chunk_codec import ChunkCodec, chunk_codec
from hdmf_zarr_backend.errors import ChunkError
from hdmf_zarr_backend.model.nodes import Dataset, StoredArray
from hdmf_zarr_backend.store.base import OpenValue
from hdmf_zarr_backend.store.local import LocalStore
from hdmf_zarr_backend.store.memory import InlinedStore
from tests.keystores import DictStore
from tests.places import delete_keys, put

FRAMES = st.tuples(
    st.sampled_from(["lz4", "zstd", "blosclz", "zlib", "lz4hc"]),
    st.sampled_from([Blosc.NOSHUFFLE, Blosc.SHUFFLE, Blosc.BITSHUFFLE]),
    st.sampled_from(["u1", "<i2", ">f4", "<f8", "V3"]),
    *(st.sampled_from([1024, 4096, 10_000]), st.integers(1, 40_000), st.sampled_from([0, 1, 200])),
)


@settings(max_examples=150)
@given(FRAMES, st.data())
def test_any_bytes_of_a_chunk_are_read_by_its_blocks(case, data):
    cname, shuffle, dtype, blocksize, count, spread = case
    size = np.dtype(dtype).itemsize
    noise = np.random.default_rng(count).integers(0, spread + 1, count * size, dtype="u1")  # 0 and 1 compress well
    raw, codec = noise.tobytes(), Blosc(cname, 5, shuffle, blocksize)
    frame = bytes(codec.encode(noise.view(dtype)))
    blocks = find_blocks(frame, len(raw))
    if blocks is None:
        is_one = int.from_bytes(frame[8:12], "little") >= len(raw)
        assert is_one or frame[2] & 2  # or it did not get smaller, and is not compressed
        return

    def decode(part, out):
        return np.frombuffer(codec.decode(part, out), np.uint8)

    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw) - 1))
        stop = data.draw(st.integers(start + 1, len(raw)))
        target = np.zeros(stop - start, np.uint8)
        beyond = blocks.read_into(target, start, decode)
        assert target.tobytes() == raw[start:stop]
        if beyond is not None:
            assert beyond.data.tobytes() == raw[beyond.start : beyond.start + beyond.nbytes]
            assert not beyond.copy_to(np.zeros(len(raw) + 1, np.uint8), start)


def test_what_is_no_frame_of_blocks_is_decoded_whole():
    values = np.arange(20_000, dtype="<i2") % 50
    frame, size = bytes(Blosc("zstd", 5, Blosc.SHUFFLE, 4096).encode(values)), values.nbytes
    blocks = find_blocks(frame, size)
    assert blocks is not None
    assert len(blocks) == -(-size // blocks.length) > 4
    starts = struct.pack("<I", len(frame) + 1)
    for damaged in (
        b"",
        frame[:15],
        frame[:40],
        frame + b"x",  # more than the header says
        b"\x03" + frame[1:],  # another format
        frame[:2] + bytes([frame[2] | 2]) + frame[3:],  # not compressed
        frame[:8] + struct.pack("<I", 0) + frame[12:],
        frame[:8] + struct.pack("<I", size) + frame[12:],
        frame[:16] + starts + frame[20:],  # a block beyond the end
        frame[:16] + struct.pack("<i", -1) + frame[20:],
        frame[:16] + frame[20:24] + frame[20:],  # two blocks in one place
    ):
        assert find_blocks(damaged, size) is None
    assert find_blocks(frame, size + 2) is None


def stored(values, chunk_rows, dtype=None, shuffle=Blosc.SHUFFLE):
    """Return the keys and a lazy array of ``values`` in chunks of several blocks of 16 KiB."""
    config = Blosc("zstd", 1, shuffle, 16384).get_config()
    fill, chunks = (None if dtype else 0), (chunk_rows, *values.shape[1:])
    node = StoredArray(values.shape, chunks, dtype or values.dtype.str, fill, compressor=config)
    codec, keys = chunk_codec(node), DictStore()
    document = {"zarr_format": 2, "shape": values.shape, "chunks": chunks, "dtype": node.data_type, "order": "C"}
    put(keys, "a/.zarray", json.dumps(document | {"fill_value": fill, "compressor": config, "filters": None}).encode())
    for number in range(-(-len(values) // chunk_rows)):
        chunk = np.zeros(node.chunks, values.dtype)
        rows = values[number * chunk_rows : (number + 1) * chunk_rows]
        chunk[: len(rows)] = rows
        put(keys, f"a/{node.chunk_name((number, *(0,) * (values.ndim - 1)))}", codec.encode(chunk))
    return keys, LazyArray(keys, "a", Dataset(node), ChunkCache())


@pytest.fixture
def decoded(monkeypatch):
    sizes, original = [], ChunkCodec.decode_blocks

    def count(self, *arguments, **options):
        made = original(self, *arguments, **options)
        sizes.append(made.size)
        return made

    monkeypatch.setattr(ChunkCodec, "decode_blocks", count)
    return sizes


def test_rows_of_a_large_chunk_cost_the_blocks_that_they_are_in(decoded):
    values = np.arange(200_000 * 4, dtype="<i4").reshape(200_000, 4) % 1000
    keys, lazy = stored(values, 81_920)
    assert np.array_equal(lazy[90_000], values[90_000])
    assert np.array_equal(lazy[90_001:90_100], values[90_001:90_100])
    assert sum(decoded) == 16384
    assert np.array_equal(lazy[80_000:84_000, 1:3], values[80_000:84_000, 1:3])
    assert np.array_equal(lazy[100:100_000], values[100:100_000])
    assert np.array_equal(lazy[150:160:3], values[150:160:3])  # with its chunk
    assert np.array_equal(lazy[[3, 199_999, 8192]], values[[3, 199_999, 8192]])
    assert np.array_equal(lazy[:], values)
    delete_keys(keys, ["a/1.0"])
    fresh = LazyArray(keys, "a", lazy.node, ChunkCache())
    assert not fresh[90_000:90_010].any()  # a chunk that is not stored is fill


def test_rows_that_are_no_part_of_a_block_are_put_together(decoded):
    values = np.random.default_rng(4).integers(0, 9, (60_000, 7), dtype="u1").view([("a", "<u2"), ("b", "V5")])[:, 0]
    values = np.tile(values, 8).reshape(-1, 2)  # rows of 14 bytes
    _, lazy = stored(values, 200_000, [["a", "<u2"], ["b", "|V5"]], Blosc.NOSHUFFLE)
    for start, stop in ((1169, 1172), (0, 199_999), (199_990, 200_010), (239_999, 240_000), (5000, 9000)):
        assert np.array_equal(lazy[start:stop], values[start:stop])
    assert decoded


def test_rows_one_after_the_other_decode_each_block_once(decoded):
    values = np.arange(20_000, dtype="<i8") % 77
    _, lazy = stored(np.repeat(values, 8).reshape(-1, 8), 20_480)
    assert [int(lazy[row, 3]) for row in range(20_000)] == values.tolist()
    assert sum(decoded) == -(-20_000 * 64 // 16384) * 16384


def test_damage_in_a_block_names_the_chunk():
    values = np.random.default_rng(1).integers(0, 50, 400_000).astype("<i4")
    keys, lazy = stored(values, 400_000)
    frame = bytearray(keys.get("a/0"))
    blocks = find_blocks(bytes(frame), values.nbytes)
    assert blocks is not None
    position = int(np.frombuffer(bytes(frame), "<i4", len(blocks), 16)[-1])  # of the last block
    frame[position : position + 4] = b"\xff\xff\xff\x7f"  # the length of a stream
    put(keys, "a/0", bytes(frame))
    assert np.array_equal(lazy[:100], values[:100])
    with pytest.raises(ChunkError, match=r"the chunk '0 .* cannot be decoded"):
        lazy[399_900:399_990]


def test_of_a_chunk_that_changes_each_range_is_of_one_version():
    values = np.arange(400_000, dtype="<i4") % 90
    keys, lazy = stored(values, 400_000)
    assert lazy[3] == 3
    other = Blosc("zstd", 1, Blosc.SHUFFLE, 65536)
    put(keys, "a/0", bytes(other.encode(values + 100)))
    assert lazy[4] == 4  # its block is known
    assert np.array_equal(lazy[:300_000], values[:300_000] + 100)


@pytest.mark.parametrize("threads", [1, 4])
def test_of_a_file_no_more_is_read_than_the_blocks_that_are_wanted(tmp_path, monkeypatch, threads):
    values = np.random.default_rng(2).integers(0, 9, (400_000, 4)).astype("<i4")
    codec = Blosc("zstd", 1, Blosc.SHUFFLE, 16384)
    monkeypatch.setattr(blosc, "use_threads", threads > 1)  # they write the blocks in any order
    before = blosc.set_nthreads(threads)
    keys = LocalStore(str(tmp_path / "a.zarr"))
    put(keys, "a/0.0", bytes(codec.encode(values)))
    blosc.set_nthreads(before)
    node = StoredArray(values.shape, values.shape, values.dtype.str, 0, compressor=codec.get_config())
    read, original = [], OpenValue.read_into

    def count(self, start, room):
        read.append(room.nbytes)
        original(self, start, room)

    monkeypatch.setattr(OpenValue, "read_into", count)
    lazy = LazyArray(keys, "a", Dataset(node), ChunkCache())
    stored = len(keys.get("a/0.0"))
    assert np.array_equal(lazy[1000:1010], values[1000:1010])
    assert sum(read) < stored / 50
    assert np.array_equal(lazy[200_000:200_010], values[200_000:200_010])
    count_of_two = len(read)
    assert np.array_equal(lazy[1002:1008], values[1002:1008])
    assert len(read) == count_of_two  # both blocks are kept
    assert np.array_equal(lazy[:300_001], values[:300_001])
    assert np.array_equal(lazy[100:-1, 1], values[100:-1, 1])
    assert np.array_equal(LazyArray(InlinedStore(keys, {}), "a", Dataset(node), ChunkCache())[:399_999], values[:-1])


def test_a_file_that_is_cut_while_it_is_read_is_an_error(tmp_path):
    keys = LocalStore(str(tmp_path / "a.zarr"))
    put(keys, "a/0", b"12345678")
    with keys.open_value("a/0") as value:
        os.truncate(tmp_path / "a.zarr" / "a" / "0", 4)
        room = bytearray(8)
        with pytest.raises(ChunkError, match="was cut while it was read"):
            value.read_into(0, memoryview(room))
    assert keys.open_value("a/1") is None
    assert InlinedStore(keys, {"a/0": b""}).open_value("a/0") is None
    assert DictStore().open_value("a/0") is None


@pytest.mark.parametrize(("max_bytes", "times"), [(64 * 2**20, 1), (2**20, 2)], ids=["kept", "more than the cache has"])
def test_windows_that_overlap_decode_each_chunk_once(max_bytes, times):
    values = np.random.default_rng(1).integers(0, 99, (100_000, 64), dtype="i2")
    keys, lazy = stored(values, 10_000)  # 1.2 MiB each
    keys.calls.clear()
    lazy = LazyArray(keys, "a", lazy.node, ChunkCache(max_bytes))
    for start in range(0, 70_001, 10_000):
        assert np.array_equal(lazy[start : start + 30_000], values[start : start + 30_000])
    # that windows overlap is known at the second one, which has two chunks of the first
    assert len(keys.calls) == (24 if times == 2 else 12)
    assert np.array_equal(lazy[0:30_000], values[0:30_000])
    assert np.array_equal(lazy[20_000:50_000, 3:5], values[20_000:50_000, 3:5])
    keys.calls.clear()
    lazy[60_000:90_000]
    # a selection that is no window forgets them
    assert sorted(keys.calls) == [("get", "a/6.0"), ("get", "a/7.0"), ("get", "a/8.0")]


def test_a_damaged_chunk_among_those_that_threads_decode_is_named():
    values = np.random.default_rng(1).integers(0, 99, (100_000, 64), dtype="i2")
    keys, lazy = stored(values, 10_000)
    put(keys, "a/6.0", b"nonsense")
    with pytest.raises(ChunkError, match=r"the chunk '6\.0 \[60000:70000, 0:64\]' cannot be decoded"):
        lazy[:]
