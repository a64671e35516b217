"""Decoding within bounds: what comes out of each codec, and what is refused before memory is taken."""

import tracemalloc
from typing import Any

import numcodecs
import numpy as np
import pytest
from hdmf.common import DynamicTable, VectorData, get_manager
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend import Limits, ReadOptions, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.encoding.chunk_codec import TooLargeError, decode_bounded, zstd_bound
from hdmf_zarr_backend.errors import LimitError, UsageError

NUMCODECS = tuple(map(int, numcodecs.__version__.split(".")[:2]))
CODECS = {
    "zlib": numcodecs.Zlib(1), "gzip": numcodecs.GZip(1), "bz2": numcodecs.BZ2(1), "lzma": numcodecs.LZMA(),
    "zstd": numcodecs.Zstd(1), "blosc": numcodecs.Blosc("zstd", 5), "lz4": numcodecs.LZ4(),
}  # fmt: skip


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
@given(data=st.binary(min_size=1, max_size=2000))
def test_what_fits_comes_out(codec, data):
    encoded = bytes(codec.encode(data))
    assert bytes(decode_bounded(codec, encoded, len(data))) == data


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_a_bomb_takes_no_memory(codec):
    with pytest.raises(TooLargeError, match="more than 999 bytes"):
        decode_bounded(codec, bytes(codec.encode(bytes(1000))), 999)
    encoded = bytes(codec.encode(bytes(2**26)))
    assert len(encoded) < 2**20
    tracemalloc.start()
    with pytest.raises(TooLargeError):
        decode_bounded(codec, encoded, 1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**24  # the dictionary of LZMA is 8 MiB


def test_frames_one_after_the_other_take_no_memory():
    frames = bytes(CODECS["zstd"].encode(b"x" * 10)) + 64 * bytes(CODECS["zstd"].encode(bytes(2**20)))
    assert zstd_bound(frames) == 10 + 64 * 2**20
    with pytest.raises(TooLargeError):
        decode_bounded(CODECS["zstd"], frames, 1000)
    for codec in (CODECS["bz2"], CODECS["lzma"], CODECS["gzip"]):
        both = bytes(codec.encode(b"first")) + bytes(codec.encode(b"second"))
        assert decode_bounded(codec, both, 11) == b"firstsecond"
        with pytest.raises(TooLargeError):
            decode_bounded(codec, both, 10)


@pytest.mark.parametrize("codec", [CODECS["zlib"], CODECS["bz2"], CODECS["lzma"], CODECS["gzip"], CODECS["blosc"]])
def test_what_is_cut_short_is_an_error(codec):
    encoded = bytes(codec.encode(np.random.default_rng(0).bytes(1000)))
    with pytest.raises((ValueError, EOFError)):
        decode_bounded(codec, encoded[:-3], 1000)


@given(data=st.binary(min_size=1, max_size=300), level=st.integers(-3, 5), checksum=st.booleans())
def test_frames_state_their_length(data, level, checksum):
    frame = numcodecs.Zstd(level, checksum=checksum).encode(data)
    assert zstd_bound(frame) == len(data)


def test_frames_without_a_length_are_bounded_by_their_blocks():
    # raw blocks, whose header says nothing of its length (RFC 8878, section 3.1.1): no single segment; a window
    parts = [(0 | 3 << 3).to_bytes(3, "little") + b"abc", (1 | 4 << 3).to_bytes(3, "little") + b"defg"]
    frame = b"\x28\xb5\x2f\xfd\x00\x40" + b"".join(parts)
    if NUMCODECS >= (0, 16):  # before, numcodecs does not decode them
        assert bytes(decode_bounded(CODECS["zstd"], frame, 2**18)) == b"abcdefg"
    assert zstd_bound(frame) == 2 * 2**17
    run = b"\x28\xb5\x2f\xfd\x00\x40" + ((2**17 << 3 | 1 << 1).to_bytes(3, "little") + b"x") * 1000
    assert zstd_bound(run) == 1000 * 2**17
    with pytest.raises(TooLargeError):
        decode_bounded(CODECS["zstd"], run, 2**20)


def test_frames_to_be_skipped_and_what_is_no_frame():
    skipped = (0x184D2A50).to_bytes(4, "little") + (3).to_bytes(4, "little") + b"abc"
    assert zstd_bound(skipped + numcodecs.Zstd(1).encode(b"12345")) == 5
    assert zstd_bound(b"nothing of that kind") == 0
    assert zstd_bound(b"") == 0


@pytest.mark.parametrize("change", [(4, 2**31), (4, 2**32 - 1), (12, 10**6)])
def test_headers_of_blosc_are_not_taken_on_trust(change):
    data = bytearray(numcodecs.Blosc().encode(bytes(1000)))
    place, value = change
    data[place : place + 4] = value.to_bytes(4, "little")
    for out in (None, np.empty(1000, np.uint8)):
        with pytest.raises(ValueError, match=r"cut short|cannot have"):
            decode_bounded(CODECS["blosc"], bytes(data), 2**40, out)


def test_shapes_of_messagepack_are_not_taken_on_trust():
    msgpack = pytest.importorskip("msgpack")
    codec = numcodecs.MsgPack()
    whole = np.array([{"a": 1}, None], dtype=object)
    assert decode_bounded(codec, bytes(codec.encode(whole)), 10**6).tolist() == whole.tolist()
    for dtype, shape in (("|O", [2**40]), ("|V1000000000", [2]), ("|O", [-1]), ("|O", "x"), ("|O", [3])):
        with pytest.raises((ValueError, TypeError)):
            decode_bounded(codec, msgpack.packb([1, 2, dtype, shape]), 10**6)
    with pytest.raises(ValueError, match="1 objects do not fill"):  # before they are allocated
        decode_bounded(codec, msgpack.packb([None, "|O", [1, 10**6]]), 10**6)


def test_a_limit_says_which_it_is_and_how_it_is_raised():
    with pytest.raises(LimitError, match=r"the limit max_links is 3\.") as caught:
        Limits(max_links=3).check("max_links", 70, "70 links")
    assert "raise it: read_options=ReadOptions(limits=Limits(max_links=70))." in caught.value.remedy
    with pytest.raises(LimitError) as caught:
        Limits().check("max_chunk_bytes", 2**40 - 5, "a chunk")
    assert "max_chunk_bytes=2**40" in caught.value.remedy
    Limits(max_links=3).check("max_links", 3, "3 links")


@pytest.mark.parametrize("chunks", [(1000,), (300,)])
@pytest.mark.parametrize("key", [(), slice(None), slice(0, 250), slice(10, None)], ids=str)
def test_a_selection_is_as_large_as_the_limit_allows(chunks, key):
    store: dict[str, bytes] = {}
    with ZarrIO(store, "w", manager=get_manager()) as io:
        data = ZarrDataIO(np.arange(1000.0), chunks=chunks)
        io.write(DynamicTable(name="t", description="", columns=[VectorData(name="x", description="", data=data)]))
    limits = Limits(max_read_bytes=1000, max_document_bytes=2**20)
    with ZarrIO(store, "r", read_options=ReadOptions(limits=limits)) as io:
        array = io.read_builder()["x"].data
        assert array[:125].tolist() == list(range(125))
        with pytest.raises(LimitError, match=r"x\)\. ") as caught:
            array[key]
        assert "max_read_bytes" in caught.value.remedy


@pytest.mark.parametrize(("kind", "said", "given"), [
    *((Limits, "is not a limit", given) for given in ({"max_links": -1}, {"max_files": 1.5}, {"max_depth": None})),
    *((ReadOptions, "is unknown", given) for given in (
        {"missing_chunks": "zero"}, {"external_links": "yes"}, {"missing_chunks": 0})),
])  # fmt: skip
def test_what_is_no_limit_or_rule(kind: Any, said: str, given: dict[str, Any]):
    with pytest.raises(UsageError, match=said):
        kind(**given)
