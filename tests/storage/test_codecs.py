"""Chunks: what zarr-python writes is read, what is written zarr-python reads, byte for byte where that is defined."""

from __future__ import annotations

import json
import math
import warnings
from contextlib import nullcontext
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.codecs import (
    ALLOWED_CODECS,
    chunk_codec,
    make_codec,
    numpy_dtype,
)
from hdmf_zarr_backend.arrays.fills import fill_array, fill_scalar
from hdmf_zarr_backend.errors import ChunkError, LimitError, MetadataError, UnsafeDataError, ValueRefusedError
from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.formats.new_datasets import JSON2
from hdmf_zarr_backend.formats.zarr2 import encode_array
from hdmf_zarr_backend.model.stored import ChunkKeys, StoredArray
from hdmf_zarr_backend.transfer.plan import encode_fill
from tests.strategies import FIXED, JSON, NUMBERS, PLAIN, STRUCTURED, TEXT, raw_arrays, shapes
from tests.zarrs import IS_ZARR_2, memory_store, open_array, value_of

pytestmark = [] if IS_ZARR_2 else pytest.mark.filterwarnings("ignore::zarr.errors.UnstableSpecificationWarning")

COMPRESSORS: list[dict[str, Any] | None] = [
    None,
    *({"id": "blosc", "cname": name, "clevel": 5, "shuffle": shuffle, "blocksize": 0}
      for name, shuffle in (("lz4", 1), ("zstd", 2), ("zlib", 0), ("blosclz", -1), ("lz4hc", 1))),
    {"id": "zlib", "level": 1},
    {"id": "gzip", "level": 1},
    {"id": "bz2", "level": 1},
    {"id": "lzma", "format": 1, "check": -1, "preset": None, "filters": None},
    {"id": "zstd", "level": 0},
    {"id": "lz4", "acceleration": 1},
]  # fmt: skip

FILTERS: list[tuple[str, list[dict[str, Any]]]] = [
    ("<i4", [{"id": "delta", "dtype": "<i4", "astype": "<i4"}]),
    (">u2", [{"id": "delta", "dtype": ">u2", "astype": ">u2"}, {"id": "shuffle", "elementsize": 2}]),
    ("<f8", [{"id": "shuffle", "elementsize": 8}]),
    ("<f4", [{"id": "fixedscaleoffset", "scale": 10, "offset": 5, "dtype": "<f4", "astype": "<i2"}]),
    ("<f8", [{"id": "quantize", "digits": 3, "dtype": "<f8", "astype": "<f8"}]),
    ("<f4", [{"id": "bitround", "keepbits": 10}]),
    ("|b1", [{"id": "packbits"}]),
    ("<i8", [{"id": "astype", "encode_dtype": "<i2", "decode_dtype": "<i8"}]),
    ("<i4", [{"id": "base64"}]),
    ("|u1", [{"id": "crc32"}]),
    ("<i4", [{"id": "adler32"}]),
    ("<i4", [{"id": "fletcher32"}]),
    ("<i4", [{"id": "jenkins_lookup3"}]),
    ("<i4", [{"id": "zlib", "level": 1}, {"id": "crc32"}]),
]
if "crc32c" in numcodecs.registry.codec_registry:  # numcodecs has it from 0.16.4, beside google_crc32c
    FILTERS.append(("<i4", [{"id": "crc32c"}]))
_VALUES = {"f": 0.5, "i": 7, "u": 7, "b": True}
KEYED = {"0.0": "0.0", "0/0": "0/0"}


def node_of(dtype: np.dtype[Any], shape: tuple[int, ...], **options: Any) -> StoredArray:
    return StoredArray(shape=shape, chunks=shape, data_type=zarr_type(dtype), **options)


def read_by_zarr(node: StoredArray, chunk: bytes) -> Any:
    """Return what zarr-python reads from an array of one chunk."""
    values = {".zarray": json.dumps(encode_array(node)).encode(), node.chunk_name((0,) * len(node.shape)): chunk}
    return np.asarray(open_array(memory_store(values))[...])


def written_by_zarr(node: StoredArray, array: np.ndarray[Any, Any]) -> bytes:
    """Return the one chunk that zarr-python writes for ``array``."""
    store = memory_store({".zarray": json.dumps(encode_array(node)).encode()})
    writes_all = nullcontext() if IS_ZARR_2 else zarr.config.set({"array.write_empty_chunks": True})
    with writes_all:
        open_array(store, "r+")[...] = array
    return value_of(store, node.chunk_name((0,) * len(node.shape)))


def assert_same(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any]) -> None:
    """Compare bits, so that NaN, NaT and -0.0 count."""
    assert found.shape == wanted.shape
    assert found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=")
    native = wanted.dtype.newbyteorder("=")
    assert found.astype(native).tobytes() == wanted.astype(native).tobytes()


SHAPES = shapes(longest=5).filter(all)


# ---- with zarr-python ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("compressor", COMPRESSORS, ids=lambda c: c and f"{c['id']}-{c.get('cname', '')}")
@settings(max_examples=12)
@given(data=st.data())
def test_compressed_numbers_both_directions(compressor, data):
    array = data.draw(raw_arrays(NUMBERS, SHAPES))
    order, separator = data.draw(st.sampled_from(["C.", "F.", "C/", "F/"]))
    node = node_of(array.dtype, array.shape, compressor=compressor, order=order, chunk_keys=ChunkKeys("v2", separator))
    codec = chunk_codec(node)
    ours = codec.encode(array)
    assert_same(codec.decode(ours, array.shape), array)
    assert_same(read_by_zarr(node, ours), array)
    theirs = written_by_zarr(node, array)
    assert_same(codec.decode(theirs, array.shape), array)
    if compressor is None or compressor["id"] not in ("gzip", "zstd"):  # the time, and our checksum
        assert ours == theirs


@settings(max_examples=40)
@given(array=raw_arrays(PLAIN, SHAPES), order=st.sampled_from("CF"), compressor=st.sampled_from(COMPRESSORS[:3]))
def test_every_plain_type_both_directions(array, order, compressor):
    node = node_of(array.dtype, array.shape, compressor=compressor, order=order)
    codec = chunk_codec(node)
    assert_same(codec.decode(codec.encode(array), array.shape), array)
    assert_same(read_by_zarr(node, codec.encode(array)), array)
    assert_same(codec.decode(written_by_zarr(node, array), array.shape), array)


@settings(max_examples=40)
@given(array=raw_arrays(STRUCTURED, SHAPES), order=st.sampled_from("CF"), compressor=st.sampled_from(COMPRESSORS))
def test_rows_come_back_with_every_compressor(array, order, compressor):
    node = node_of(array.dtype, array.shape, compressor=compressor, order=order)
    codec = chunk_codec(node)
    found = codec.decode(codec.encode(array), array.shape)
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("compressor", [None, {"id": "zlib", "level": 1}], ids=["raw", "zlib"])
def test_rows_both_directions(order, compressor):
    dtype = np.dtype([("a", "<i4"), ("b", "|S3"), ("c", ">f8")])
    array = np.array([[(1, b"ab", 0.5), (2, b"", -1)], [(3, b"xyz", np.nan), (-4, b"\xff", 4)]], dtype)
    node = node_of(dtype, array.shape, compressor=compressor, order=order)
    codec = chunk_codec(node)
    assert read_by_zarr(node, codec.encode(array))["b"].tolist() == array["b"].tolist()
    assert codec.decode(written_by_zarr(node, array), array.shape).tobytes() == array.tobytes()


@pytest.mark.parametrize(("dtype", "filters"), FILTERS, ids=lambda v: v if isinstance(v, str) else v[0]["id"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_filters_both_directions(dtype, filters, order):
    array = np.resize(np.array([0, _VALUES[np.dtype(dtype).kind]]).astype(dtype), (4, 6))
    array[1:3, ::4] = 1
    if filters[0]["id"] == "bitround" and order == "F":
        array[...] = array[:1, :1]  # zarr-python mixes up the elements: it flattens in C order and reads in F order
        array[0, 0] = 1
    node = node_of(array.dtype, array.shape, filters=filters, compressor={"id": "zlib", "level": 1}, order=order)
    codec = chunk_codec(node)
    theirs = written_by_zarr(node, array)
    wanted = read_by_zarr(node, theirs)
    assert_same(codec.decode(theirs, array.shape), wanted)
    assert_same(read_by_zarr(node, codec.encode(array)), wanted)
    assert codec.encode(array) == theirs
    assert len(np.unique(wanted)) > 1


@pytest.mark.parametrize(
    ("data", "checksum"),
    [(bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)],
    ids=["zeros", "ones", "increasing"],
)
def test_crc32c_is_that_of_rfc_3720_where_numcodecs_has_it_and_where_not(data, checksum):
    codec = chunk_codec(node_of(np.dtype("u1"), (32,), filters=[{"id": "crc32c"}]))
    assert codec.encode(np.frombuffer(data, "u1")) == data + checksum.to_bytes(4, "little")
    assert codec.decode(data + checksum.to_bytes(4, "little"), (32,)).tobytes() == data


@pytest.mark.parametrize(("codec_id", "leaf"), [("vlen-utf8", TEXT), ("vlen-bytes", st.binary(max_size=5))])
@settings(max_examples=25)
@given(data=st.data(), order=st.sampled_from("CF"))
def test_text_and_bytes_both_directions(codec_id, leaf, data, order):
    shape = data.draw(SHAPES)
    array = np.empty(shape, object)
    array.reshape(-1)[:] = data.draw(st.lists(leaf, min_size=array.size, max_size=array.size))
    empty = {"vlen-utf8": "", "vlen-bytes": ""}[codec_id]
    filters = [{"id": codec_id}]
    node = StoredArray(shape=shape, chunks=shape, data_type="|O", filters=filters, order=order, fill_value=empty)
    codec = chunk_codec(node)
    assert codec.decode(codec.encode(array), shape).tolist() == array.tolist()
    assert read_by_zarr(node, codec.encode(array)).tolist() == array.tolist()
    theirs = written_by_zarr(node, array)
    assert codec.decode(theirs, shape).tolist() == array.tolist()
    assert codec.encode(array) == theirs


# ---- with numcodecs ------------------------------------------------------------------------------------------------

REFERENCES = st.fixed_dictionaries({"source": st.just("."), "path": TEXT, "object_id": st.none() | TEXT})
ELEMENTS = st.sampled_from([REFERENCES, TEXT, st.none() | st.integers(-(2**70), 2**70), st.floats(), JSON])


@given(data=st.data(), settings_=st.fixed_dictionaries({}, optional={"ensure_ascii": st.booleans()}))
def test_json_is_that_of_numcodecs_byte_for_byte(data, settings_):
    shape = data.draw(shapes(longest=4))
    array = np.empty(shape, object)
    elements = data.draw(st.lists(data.draw(ELEMENTS), min_size=array.size, max_size=array.size))
    for index, element in zip(np.ndindex(shape), elements, strict=True):
        array[index] = element
    config = {**JSON2, **settings_}
    ours, theirs = make_codec(config, array.dtype), numcodecs.get_codec(dict(config))
    assert ours.encode(array) == theirs.encode(array)
    found = ours.decode(theirs.encode(array))
    assert found.shape == shape
    assert json.dumps(found.tolist(), sort_keys=True) == json.dumps(array.tolist(), sort_keys=True)


@settings(max_examples=25)
@given(st.lists(REFERENCES, min_size=1, max_size=4), st.integers(600, 700), st.integers(0, 3), st.booleans())
def test_many_equal_references_are_decoded_the_same(distinct, repeats, nulls, rows):
    items = distinct * repeats
    array = np.empty((len(items) + nulls, 2) if rows else len(items) + nulls, object)
    for position, item in enumerate(items):
        array[position] = [1, item] if rows else item
    codec = make_codec(JSON2, array.dtype)
    text = codec.encode(array)
    assert text == numcodecs.JSON().encode(array)
    assert codec.decode(text).tolist() == array.tolist()


def test_json_elements_may_be_lists():
    array = np.empty(2, object)
    array[:] = [[1, 2], [3, 4]]
    codec = make_codec(JSON2, array.dtype)
    assert codec.decode(codec.encode(array)).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "config",
    [{"id": "msgpack2", "raw": False}, {"id": "pickle", "protocol": 5}, {"id": "vlen-array", "dtype": "<i4"}],
    ids=lambda config: config["id"],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_other_object_codecs_both_directions(config, order):
    if config["id"] == "msgpack2":
        pytest.importorskip("msgpack")
    array = np.empty((2, 3), object)
    for number, index in enumerate(np.ndindex(array.shape)):
        several = [None, "ü", number][number % 3]
        array[index] = np.arange(number, dtype="i4") if config["id"] == "vlen-array" else several
    node = StoredArray(shape=(2, 3), chunks=(2, 3), data_type="|O", filters=[config], order=order)
    codec = chunk_codec(node)
    theirs = numcodecs.get_codec(dict(config))
    given_array = array.ravel(order) if config["id"] == "vlen-array" else array
    assert codec.encode(array) == bytes(theirs.encode(given_array))
    found = codec.decode(bytes(theirs.encode(given_array)), (2, 3))
    assert [np.asarray(item).tolist() for item in found.flat] == [np.asarray(item).tolist() for item in array.flat]


def test_categories_of_fixed_text():
    array = np.array(["a", "bc", "a"], "<U2")
    config = {"id": "categorize", "labels": ["a", "bc"], "dtype": "<U2", "astype": "|u1"}
    codec = chunk_codec(node_of(array.dtype, (3,), filters=[config]))
    assert codec.encode(array) == b"\x01\x02\x01"
    assert codec.decode(b"\x01\x02\x01", (3,)).tolist() == ["a", "bc", "a"]


def test_netcdf_writes_a_shuffle_of_zero_and_means_the_element():
    array = np.arange(6, dtype="<i4")
    wanted = numcodecs.Shuffle(4).encode(array)
    codec = chunk_codec(node_of(array.dtype, (6,), filters=[{"id": "shuffle", "elementsize": 0}]))
    assert codec.decode(bytes(wanted), (6,)).tolist() == array.tolist()


def test_decoded_numbers_are_new_and_writable():
    array = np.arange(6, dtype="i4").reshape(2, 3)
    for options in ({}, {"compressor": {"id": "zlib", "level": 1}}, {"filters": [{"id": "shuffle", "elementsize": 4}]}):
        codec = chunk_codec(node_of(array.dtype, array.shape, **options))
        data = codec.encode(array)
        found = codec.decode(data, array.shape)
        found[:] = 0
        assert codec.decode(data, array.shape).tolist() == array.tolist()


@pytest.mark.parametrize("view", [np.s_[::2], np.s_[:, ::-1], "T"], ids=["step", "reversed", "transposed"])
def test_any_layout_in_memory_is_stored_the_same(view):
    array = np.arange(24, dtype="i4").reshape(4, 6)
    seen = array.T if view == "T" else array[view]
    for order in "CF":
        codec = chunk_codec(node_of(seen.dtype, seen.shape, order=order))
        assert codec.encode(seen) == codec.encode(seen.copy()) == seen.tobytes(order)


def test_equal_configurations_share_a_codec():
    one = node_of(np.dtype("i4"), (3,), compressor={"id": "zlib", "level": 1})
    other = node_of(np.dtype("i4"), (5, 5), compressor={"id": "zlib", "level": 1})
    assert chunk_codec(one) is chunk_codec(other)


# ---- fill values ---------------------------------------------------------------------------------------------------


@given(array=raw_arrays(PLAIN | STRUCTURED, st.just((1,))))
def test_fill_values_come_back(array):
    value = encode_fill(array[0], array.dtype)
    node = node_of(array.dtype, (2,), fill_value=json.loads(json.dumps(value, allow_nan=False)))
    found = fill_array(node, array.dtype, (2,))
    assert found.dtype == array.dtype
    if array.dtype.kind in "fc":
        np.testing.assert_array_equal(found, np.repeat(array, 2))
    else:
        assert found[1].tobytes() == array[0].tobytes()


@settings(max_examples=40)
@given(array=raw_arrays(NUMBERS | FIXED, st.just((1,))))
def test_fill_values_are_those_of_zarr_python(array):
    node = node_of(array.dtype, (2,), fill_value=encode_fill(array[0], array.dtype))
    store = memory_store({".zarray": json.dumps(encode_array(node)).encode()})
    wanted = np.asarray(open_array(store)[...])
    np.testing.assert_array_equal(fill_array(node, array.dtype, (2,)), wanted)


@pytest.mark.parametrize(
    ("data_type", "filters", "value", "fill"),
    [
        ("<f8", None, None, 0.0),
        ("<f8", None, "NaN", math.nan),
        ("<f4", None, "-Infinity", -math.inf),
        ("<i4", None, 3.0, 3),
        ("|b1", None, 1, True),
        ("<c8", None, ["NaN", 1.5], complex(math.nan, 1.5)),
        ("<c16", None, 2, 2 + 0j),
        ("|S3", None, 0, b""),
        ("|S3", None, "YWI=", b"ab"),
        ("<U3", None, 0, ""),
        ("<U3", None, "ü", "ü"),
        ("<M8[s]", None, 5, np.datetime64(5, "s")),
        ("<M8[s]", None, "NaT", np.datetime64("NaT", "s")),
        ("|O", "vlen-utf8", None, ""),
        ("|O", "vlen-utf8", 0, ""),
        ("|O", "vlen-utf8", "x", "x"),
        ("|O", "vlen-bytes", None, b""),
        ("|O", "vlen-bytes", 0, b""),
        ("|O", "vlen-bytes", "", b""),
        ("|O", "json2", None, None),
        ("|O", "json2", 0, 0),
        ("|O", "json2", "x", "x"),
    ],
)
def test_what_a_missing_chunk_reads_as(data_type, filters, value, fill):
    filters = None if filters is None else [{"id": filters}]
    node = StoredArray(shape=(2,), chunks=(2,), data_type=data_type, filters=filters, fill_value=value)
    found = fill_array(node, numpy_dtype(data_type), (2,))
    np.testing.assert_array_equal(found[1], fill)
    assert found.dtype == numpy_dtype(data_type)
    assert type(found[1]) is type(fill) or found.dtype.kind != "O"


def test_rows_of_zero_are_zero():
    node = StoredArray(shape=(1,), chunks=(1,), data_type=[["a", "<i4"], ["b", "|S2"]], fill_value=0)
    assert fill_array(node, numpy_dtype(node.data_type), (1,)).tolist() == [(0, b"")]


@pytest.mark.parametrize(
    ("data_type", "value"),
    [("<i4", "x"), ("|u1", 300), ("|u1", -1), ("<i4", [1]), ("<f8", {}), ("|S3", "é"), ("<c8", [1]), ("<c8", [1, 2, 3]),
     ("<i4", 2**70), ("<M8[s]", 2**70), ("<M8[s]", "when")],
)  # fmt: skip
def test_a_fill_value_that_does_not_fit_is_damage(data_type, value):
    node = StoredArray(shape=(2,), chunks=(2,), data_type=data_type, fill_value=value)
    with pytest.raises(MetadataError, match="fill value"):
        fill_scalar(node, numpy_dtype(data_type))


# ---- bad input -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data_type", ["", "x", "(1,", "<f3", 5, None, {}, [["a"]], [["a", "<f4", "x"]], [["a", 5]],
                                       "a5", "float32", "i4,i4", "T", ["a"], [["a", "<i4"], ["a", "<i4"]],
                                       [["", "<i4"]]])  # fmt: skip
def test_data_types_that_are_none(data_type):
    with pytest.raises(MetadataError, match="is unknown"):
        numpy_dtype(data_type)


@pytest.mark.parametrize("codec_id", ["x", "exec", "", None, 5, ["blosc"], "pickle2", "n5_wrapper"])
def test_codecs_that_are_not_allowed(codec_id):
    with pytest.raises(MetadataError, match="not one that this package decodes") as caught:
        make_codec({"id": codec_id}, np.dtype("i4"))
    assert "zstd" in caught.value.remedy


@pytest.mark.parametrize(
    "config",
    [
        {"id": "zlib", "nonsense": 1},
        {"id": "delta"},
        {"id": "delta", "dtype": "nonsense"},
        {"id": "delta", "dtype": "|O"},
        {"id": "categorize", "labels": 5, "dtype": "|O"},
        {"id": "bitround", "keepbits": -5},
        {"id": "shuffle", "elementsize": -4},
        {"id": "shuffle", "elementsize": "4"},
        {"id": "shuffle", "elementsize": True},
        {"id": "json2", "encoding": "hex"},
        {"id": "json2", "encoding": "idna"},
        {"id": "json2", "encoding": 5},
    ],
    ids=str,
)
def test_configurations_that_make_no_sense(config):
    with pytest.raises(MetadataError, match="not usable"):
        make_codec(config, np.dtype("i4"))


def test_an_array_of_objects_needs_a_codec_for_them():
    for filters in (None, [{"id": "zlib", "level": 1}]):
        with pytest.raises(MetadataError, match="has no codec for objects"):
            chunk_codec(StoredArray(shape=(1,), chunks=(1,), data_type="|O", filters=filters))
    with pytest.raises(MetadataError, match="is not a compressor"):
        chunk_codec(StoredArray(shape=(1,), chunks=(1,), data_type="<i4", compressor={"id": "json2"}))


CONFIGS = st.builds(
    lambda codec_id, more: {"id": codec_id, **more},
    st.sampled_from(sorted(ALLOWED_CODECS)),
    st.dictionaries(
        st.sampled_from(["level",
                         "dtype", "astype", "elementsize", "labels", "encode_dtype", "decode_dtype", "keepbits",
                         "digits", "encoding", "format", "filters", "preset", "check", "cname", "raw", "protocol"]),
        st.sampled_from([0, 1, -1,
                         4, 2**40, "<f4", "|O", "|u1", "<M8[s]", "x", None, [], ["a"], [{"id": 1}], {}, True]),
        max_size=3,
    ),
)  # fmt: skip


@settings(max_examples=300)
@given(
    st.lists(CONFIGS, max_size=2),
    st.none() | CONFIGS,
    st.sampled_from(["<f4", "|u1", "|O", "<U2", "|b1", [["a", "<i4"]], [["a", "|O"]], "<M8[s]"]),
    st.binary(max_size=40) | st.sampled_from([b'[1,2,"|O",[2]]', b"\x02\0\0\0\x01\0\0\0a\x01\0\0\0b"]),
    st.sampled_from("CF"),
)
@example([{"id": "msgpack2"}, {"id": "lz4"}], None, "|O", b"\0\0\0!", "C")  # 553,648,128 bytes, it says
@example([{"id": "json2"}], {"id": "zstd"}, "|O", b"\x28\xb5\x2f\xfd\xe0" + b"\0" * 7 + b"\x01", "C")
def test_any_configuration_on_any_bytes_gives_a_chunk_or_our_error(filters, compressor, data_type, data, order):
    node = StoredArray(
        shape=(2,), chunks=(2,), data_type=data_type, filters=filters, compressor=compressor, order=order
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # NumPy's, about dividing by a scale of zero
        try:
            found = chunk_codec(node).decode(data, (2,))
        except (MetadataError, ChunkError, UnsafeDataError):
            return
    assert found.shape == (2,)
    assert found.dtype == numpy_dtype(data_type)


@settings(max_examples=60)
@given(data=st.data(), compressor=st.sampled_from(COMPRESSORS), codec_id=st.sampled_from([None, "vlen-utf8", "json2"]))
def test_damaged_chunks_are_our_error_or_other_values(data, compressor, codec_id):
    numbers, words = np.arange(64, dtype="<i4"), np.array(["word", "größer"] * 4, object)
    array = numbers if codec_id is None else words
    filters = None if codec_id is None else [{"id": codec_id}]
    node = StoredArray(shape=array.shape, chunks=array.shape, data_type=array.dtype.str, filters=filters)
    node.compressor = compressor
    codec = chunk_codec(node)
    whole = bytearray(codec.encode(array))
    cut = data.draw(st.integers(0, len(whole)))
    flip = data.draw(st.integers(0, len(whole) - 1))
    flipped = bytes(byte ^ (0x55 if place == flip else 0) for place, byte in enumerate(whole))
    for damaged in (bytes(whole[:cut]), bytes(whole) + b"x", flipped):
        try:
            found = codec.decode(damaged, array.shape)
        except (ChunkError, LimitError) as error:
            assert "cannot be decoded" in error.problem
        else:
            assert found.shape == array.shape
            assert found.dtype == array.dtype


def test_a_chunk_that_claims_four_billion_texts_takes_no_memory():
    node = StoredArray(shape=(3,), chunks=(3,), data_type="|O", filters=[{"id": "vlen-utf8"}])
    with pytest.raises(ChunkError, match="4294967295 elements instead of 3"):
        chunk_codec(node).decode(b"\xff\xff\xff\xff", (3,))


@pytest.mark.parametrize("text", ['["a","|O",[1000000000000]]', '["a","b","|O",[1]]', '["a"]', "{}",
                                  '["a","|O",5]', '[["a"],"|O",[1,2]]'])  # fmt: skip
def test_json_that_does_not_fill_its_shape(text):
    node = StoredArray(shape=(1,), chunks=(1,), data_type="|O", filters=[JSON2])
    with pytest.raises(ChunkError):
        chunk_codec(node).decode(text.encode(), (1,))


@pytest.mark.parametrize(
    ("codec_id", "item"),
    [("vlen-utf8", 5), ("vlen-utf8", "\udcff"), ("vlen-bytes", "text"), ("json2", object()), ("json2", {1, 2})],
)
def test_elements_that_a_codec_does_not_take_are_refused(codec_id, item):
    node = StoredArray(shape=(1,), chunks=(1,), data_type="|O", filters=[{"id": codec_id}])
    array = np.empty(1, object)
    array[0] = item
    with pytest.raises(ValueRefusedError, match="cannot be stored"):
        chunk_codec(node).encode(array)
