"""HDF5 filter pipelines and numcodecs say the same of the same bytes, in both directions."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numcodecs
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import ChunkError
from hdmf_zarr_backend.hdf5.filters import (
    CodecPipeline,
    codecs_of,
    lz4_from_hdf5,
    lz4_to_hdf5,
    pipeline_of,
    set_filters,
    usable,
)
from tests.hdf5.pipelines import COPIED, DECODED, pipeline_in

_I4 = np.dtype("<i4")
_BLOSC_NAMES = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
_VALUES = np.random.default_rng(7).integers(0, 3000, 600).astype("<i4")


def _dataset(folder: Path, values: Any, **options: Any) -> Any:
    file = h5py.File(folder / "a.h5", "w")
    dataset = file.create_dataset("x", data=values, chunks=values.shape, **options)
    dataset.flush()
    return dataset


def _chunk(dataset: Any) -> tuple[int, bytes]:
    mask, data = dataset.id.read_direct_chunk((0,) * len(dataset.shape))
    return int(mask), bytes(data)


@pytest.mark.parametrize("name", COPIED)
def test_numcodecs_decodes_what_hdf5_encoded(tmp_path: Path, name: str) -> None:
    dataset = _dataset(tmp_path, _VALUES, **COPIED[name])
    codecs = codecs_of(pipeline_in(dataset), _I4)
    assert codecs is not None
    mask, data = _chunk(dataset)
    assert bytes(codecs.decode(data, mask=mask)) == _VALUES.tobytes()


@pytest.mark.parametrize("name", COPIED)
def test_a_stored_chunk_decodes_by_the_filters_and_compressor_of_a_zarr_array(tmp_path: Path, name: str) -> None:
    dataset = _dataset(tmp_path, _VALUES, **COPIED[name])
    codecs = codecs_of(pipeline_in(dataset), _I4)
    assert codecs is not None
    mask, data = _chunk(dataset)
    buffer: Any = codecs.stored(data)
    if mask or (name == "lz4-blocks" and buffer is None):
        return  # such a chunk is encoded again; tests of `rawcopy`
    assert buffer is not None
    if not codecs.reframed:
        assert buffer == data
    for config in reversed([*(codecs.filters or []), *([codecs.compressor] if codecs.compressor else [])]):
        buffer = numcodecs.get_codec(config).decode(buffer)
    assert bytes(buffer) == _VALUES.tobytes()


@pytest.mark.parametrize("name", DECODED)
def test_other_pipelines_have_no_codecs(tmp_path: Path, name: str) -> None:
    assert codecs_of(pipeline_in(_dataset(tmp_path, _VALUES, **DECODED[name])), _I4) is None


@pytest.mark.parametrize("number", [4, 5, 6, 305, 32000, 32008, 32013, 32026, 60000])
def test_unknown_filters_have_no_codecs(number: int) -> None:
    assert codecs_of([[2, 1, [4]], [number, 0, []]], _I4) is None


def test_no_filters_are_no_codecs() -> None:
    codecs = codecs_of([], _I4)
    assert codecs is not None
    assert codecs == CodecPipeline()
    assert (codecs.filters, codecs.compressor) == (None, None)
    assert codecs.decode(b"abc") == codecs.stored(b"abc") == b"abc"


def test_the_last_filter_is_the_compressor() -> None:
    codecs = codecs_of([[2, 1, [4]], [1, 1, [6]], [3, 0, []]], _I4)
    assert codecs is not None
    assert codecs.filters == [{"id": "shuffle", "elementsize": 4}, {"id": "zlib", "level": 6}]
    assert codecs.compressor == {"id": "fletcher32"}


@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ([[1, 1, [4]], [2, 1, [4]]], "shuffling bytes of any length"),
        ([[3, 0, []], [2, 1, [4]]], "shuffling values and a checksum"),
        ([[3, 0, []], [1, 1, [4]]], "a checksum inside"),
        ([[32004, 0, [0]], [1, 1, [4]]], "another frame inside"),
        ([[2, 1, [3]]], "an element that is none"),
        ([[2, 1, [0]]], "an element of no bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_orders_that_differ_are_refused(filters: list[Any], reason: str) -> None:
    assert codecs_of(filters, _I4) is None, reason


@pytest.mark.parametrize(
    "junk",
    [[None], [[1]], [[1, 1, None]], [["1", 1, [4]]], [[1, -1, [4]]], [[1, 1, [2**32]]], [[1, 1, [4.0]]], "1", None, {}],
    ids=repr,
)
def test_a_note_that_is_no_pipeline_has_no_codecs(junk: Any) -> None:
    assert codecs_of(junk, _I4) is None
    assert pipeline_of(None, {"id": "zlib", "level": 3}, _I4, noted=junk) == [[1, 1, [3]]]


@pytest.mark.parametrize(
    ("entry", "config"),
    [
        ([1, 1, []], {"id": "zlib", "level": 6}),
        ([2, 1, []], {"id": "shuffle", "elementsize": 4}),
        ([307, 1, []], {"id": "bz2", "level": 9}),
        ([32015, 1, []], {"id": "zstd", "level": 3}),
        ([32015, 1, [2**32 - 5]], {"id": "zstd", "level": -5}),
        ([32001, 1, [2, 2, 4, 400]], {"id": "blosc", "cname": "blosclz", "clevel": 5, "shuffle": 1, "blocksize": 0}),
        (
            [32001, 1, [2, 2, 4, 400, 9, 2, 5]],
            {"id": "blosc", "cname": "zstd", "clevel": 9, "shuffle": 2, "blocksize": 0},
        ),
    ],
    ids=str,
)
def test_options_that_are_left_out_have_the_defaults_of_the_filter(entry: list[Any], config: dict[str, Any]) -> None:
    codecs = codecs_of([entry], _I4)
    assert codecs is not None
    assert codecs.compressor == config


@pytest.mark.parametrize("size", [1, 2, 3, 5, 999])
def test_fletcher32_of_any_length_is_the_same_sum(tmp_path: Path, size: int) -> None:
    values = np.frombuffer(np.random.default_rng(size).bytes(size), "u1")
    mask, data = _chunk(_dataset(tmp_path, values, fletcher32=True))
    assert mask == 0
    assert bytes(numcodecs.Fletcher32().encode(values)) == data
    codecs = codecs_of([[3, 0, []]], values.dtype)
    assert codecs is not None
    assert bytes(codecs.decode(data)) == values.tobytes()


@pytest.mark.parametrize("mask", range(8))
def test_masked_filters_are_skipped(mask: int) -> None:
    codecs = codecs_of([[2, 1, [4]], [1, 1, [4]], [3, 0, []]], _I4)
    assert codecs is not None
    data: Any = _VALUES
    for number, config in enumerate(codecs.codecs):
        if not mask >> number & 1:
            data = numcodecs.get_codec(config).encode(data)
    assert bytes(codecs.decode(bytes(data), mask=mask)) == _VALUES.tobytes()
    assert bytes(codecs.decode(bytes(data), mask=mask | 0xFFFFFF00)) == _VALUES.tobytes()


@pytest.mark.parametrize("name", sorted(set(COPIED) - {"none", "shuffle"}))
def test_damaged_chunks_are_errors_that_say_what_to_do(tmp_path: Path, name: str) -> None:
    dataset = _dataset(tmp_path, _VALUES, **COPIED[name])
    mask, data = _chunk(dataset)
    codecs = codecs_of(pipeline_in(dataset), _I4)
    assert codecs is not None
    if mask:
        pytest.skip("HDF5 stored it as it is")
    for broken in (data[:3], data[: len(data) // 2]):
        with pytest.raises(ChunkError, match="damaged"):
            codecs.decode(broken)


# ---- numcodecs -> HDF5 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COPIED)
def test_pipelines_come_back(tmp_path: Path, name: str) -> None:
    pipeline = pipeline_in(_dataset(tmp_path, _VALUES, **COPIED[name]))
    codecs = codecs_of(pipeline, _I4)
    assert codecs is not None
    assert pipeline_of(codecs.filters, codecs.compressor, _I4, noted=pipeline) == pipeline
    made = pipeline_of(codecs.filters, codecs.compressor, _I4)
    assert made is not None
    assert [entry[0] for entry in made] == [entry[0] for entry in pipeline]
    again = codecs_of(made, _I4)
    assert again == codecs


@pytest.mark.parametrize(
    "compressor",
    [
        *(numcodecs.Blosc(name, 5, s).get_config() for name in _BLOSC_NAMES for s in (-1, 0, 1, 2)),
        numcodecs.Zstd(5).get_config(), numcodecs.Zstd(0).get_config(), numcodecs.Zstd(3, checksum=True).get_config(),
        numcodecs.Zlib(0).get_config(), numcodecs.Zlib(9).get_config(), numcodecs.BZ2(9).get_config(),
        numcodecs.LZ4().get_config(), numcodecs.Fletcher32().get_config(), numcodecs.Shuffle(4).get_config(), None,
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("shuffled", [False, True], ids=["plain", "shuffled"])
def test_hdf5_decodes_what_numcodecs_encoded(tmp_path: Path, compressor: Any, shuffled: bool) -> None:
    filters = [numcodecs.Shuffle(4).get_config()] if shuffled else None
    pipeline = pipeline_of(filters, compressor, _I4)
    assert pipeline is not None
    assert usable(pipeline)
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    created.set_chunk(_VALUES.shape)
    set_filters(created, pipeline)
    data: Any = _VALUES
    for config in [*(filters or []), *([compressor] if compressor else [])]:
        data = numcodecs.get_codec(config).encode(data)
    data = np.ascontiguousarray(np.frombuffer(data, "u1")).tobytes()
    if pipeline and pipeline[-1][0] == 32004:
        data = lz4_to_hdf5(data)
    with h5py.File(tmp_path / "b.h5", "w") as file:
        dataset = file.create_dataset("x", shape=_VALUES.shape, dtype=_I4, chunks=_VALUES.shape, dcpl=created)
        dataset.id.write_direct_chunk((0,), data)
    with h5py.File(tmp_path / "b.h5") as file:
        assert np.array_equal(file["x"][:], _VALUES)
        assert [entry[0] for entry in pipeline_in(file["x"])] == [entry[0] for entry in pipeline]


@pytest.mark.parametrize(
    ("filters", "compressor"),
    [
        (None, {"id": "gzip", "level": 5}),
        (None, {"id": "lzma"}),
        (None, {"id": "blosc", "cname": "snappy", "clevel": 5, "shuffle": 1}),
        (None, {"id": "blosc", "cname": None, "clevel": 5, "shuffle": 1}),
        (None, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 7}),
        (None, {}),
        ([{"id": "delta", "dtype": "<i4"}], {"id": "zlib", "level": 1}),
        ([{"id": "vlen-utf8"}], {"id": "zlib", "level": 1}),
        ([{"id": "shuffle", "elementsize": 2}], {"id": "zlib", "level": 1}),
        ([{"id": "zlib", "level": 1}], {"id": "shuffle", "elementsize": 4}),
        ([{"id": "fletcher32"}], {"id": "zlib", "level": 1}),
        ([{"id": "lz4"}], {"id": "zlib", "level": 1}),
        ([{"id": ["zlib"]}], None),
    ],
    ids=str,
)
def test_codecs_that_hdf5_lacks_have_no_pipeline(filters: Any, compressor: Any) -> None:
    if compressor == {}:
        filters, compressor = [{}], None
    assert pipeline_of(filters, compressor, _I4) is None


def test_the_element_size_that_netcdf_c_leaves_out_is_that_of_the_type() -> None:
    assert pipeline_of([{"id": "shuffle", "elementsize": 0}], None, np.dtype("<f8")) == [[2, 1, [8]]]


def test_a_noted_pipeline_of_other_chunks_is_not_used() -> None:
    noted = [[2, 1, [4]], [1, 1, [4]]]
    assert pipeline_of(None, {"id": "zlib", "level": 4}, _I4, noted=noted) == [[1, 1, [4]]]


def test_whether_a_filter_is_there_is_asked_of_hdf5() -> None:
    assert hdf5plugin.FILTERS
    assert usable([])
    assert usable([[2, 1, [4]], [1, 1, [4]], [32001, 0, [0, 0, 0, 0, 5, 1, 1]]])
    assert not usable([[1, 1, [4]], [60001, 0, []]])


# ---- LZ4 ------------------------------------------------------------------------------------------------------------


@given(st.binary(min_size=1, max_size=3000), st.integers(1, 50))
def test_lz4_frames_are_exchanged_without_a_change_of_the_block(part: bytes, repeat: int) -> None:
    values = part * repeat
    encoded = bytes(numcodecs.LZ4().encode(values))
    framed = lz4_to_hdf5(encoded)
    codecs = codecs_of([[32004, 0, [0]]], np.dtype("u1"))
    assert codecs is not None
    assert bytes(codecs.decode(framed)) == values
    back = lz4_from_hdf5(framed)
    if back is None:
        assert len(encoded) - 4 >= len(values)  # it did not shrink, and is stored as it is
    else:
        assert back == encoded


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0" * 11, struct.pack(">QI", 0, 10) + b"\0" * 8, struct.pack(">QI", 10, 0) + b"\0" * 8,
        struct.pack(">QI", 2**40, 10) + b"\0" * 8, struct.pack(">QII", 10, 10, 90) + b"\0" * 8,
        struct.pack(">QII", 30, 10, 10) + b"\0" * 10,
    ],
    ids=["empty", "short", "nothing", "no-blocks", "huge", "cut", "missing"],
)  # fmt: skip
def test_lz4_frames_that_are_none_are_errors(data: bytes) -> None:
    with pytest.raises(ChunkError):
        lz4_from_hdf5(data)
    codecs = codecs_of([[32004, 0, [0]]], np.dtype("u1"))
    assert codecs is not None
    with pytest.raises(ChunkError):
        codecs.decode(data)


@pytest.mark.parametrize("data", [b"", b"\x05\0\0", b"\x05\0\0\0", b"\0\0\0\0abc", b"\2\0\0\0abcdef"], ids=repr)
def test_lz4_chunks_that_are_none_do_not_become_hdf5(data: bytes) -> None:
    with pytest.raises(ChunkError):
        lz4_to_hdf5(data)
