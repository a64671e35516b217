"""Documents of arrays as others may write them: what each says is read, and what is wrong with one is said."""

import base64
import json
import struct
from typing import Any

import numcodecs
import numpy as np
import pytest

from hdmf_zarr_backend import ReadOptions, ZarrIO, verify
from hdmf_zarr_backend.errors import MetadataError, UnsupportedFileError, ZarrBackendError

LITTLE: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
BIG: list[Any] = [{"name": "bytes", "configuration": {"endian": "big"}}]
VLEN: list[Any] = [{"name": "vlen-utf8", "configuration": {}}]
GROUP = {"zarr_format": 3, "node_type": "group", "attributes": {}}
GRID = np.arange(6, dtype="<i2").reshape(2, 3)


def document(shape: Any = (2, 3), **changes: Any) -> dict[str, Any]:
    """Return the document of an array of one chunk of int16, with changes; None removes a key."""
    result = {
        "zarr_format": 3, "node_type": "array", "shape": list(shape), "data_type": "int16",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}}, "fill_value": 0,
        "codecs": LITTLE, "attributes": {}, **changes,
    }  # fmt: skip
    return {key: value for key, value in result.items() if value is not None}


def document_2(**changes: Any) -> dict[str, Any]:
    """Return the same of format 2; a value of ... removes a key."""
    result = {"zarr_format": 2, "shape": [2, 3], "chunks": [2, 3], "dtype": "<i2", "compressor": None, "fill_value": 0,
             "order": "C", "filters": None, **changes}  # fmt: skip
    return {key: value for key, value in result.items() if value is not ...}


def stored(found: Any, chunks: dict[str, bytes] | None = None) -> dict[str, bytes]:
    """Return a file of an array with a document; keys are those of its chunks."""
    is_2 = isinstance(found, dict) and found.get("zarr_format") == 2 and "node_type" not in found
    root, name = (".zgroup", ".zarray") if is_2 else ("zarr.json", "zarr.json")
    store = {root: json.dumps({"zarr_format": 2} if is_2 else GROUP).encode(), f"a/{name}": json.dumps(found).encode()}
    return store | {f"a/{key}": value for key, value in (chunks or {}).items()}


def read(found: Any, chunks: dict[str, bytes] | None = None) -> Any:
    with ZarrIO(stored(found, chunks), "r", read_options=ReadOptions(missing_chunks="fill")) as file:
        builder = file.read_builder()["a"]
        return builder.data if not getattr(builder.data, "shape", ()) else builder.data[...]


# ---- what is read ---------------------------------------------------------------------------------------------------
def named(name: str, **configuration: Any) -> dict[str, Any]:
    return {"name": name, "configuration": configuration}


def sharded(*codecs: Any, **changes: Any) -> dict[str, Any]:
    """Return the codec of a shard of two chunks of 1 x 3, with changes of its configuration."""
    configuration = {"chunk_shape": [1, 3], "codecs": [*LITTLE, *codecs], "index_codecs": [*LITTLE, named("crc32c")],
                     "index_location": "end", **changes}  # fmt: skip
    return named("sharding_indexed", **{key: value for key, value in configuration.items() if value is not None})


def crc32c(data: bytes) -> bytes:
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 & -(state & 1))
    return struct.pack("<I", state ^ 0xFFFFFFFF)


def shard(*, first: bool = False, checksum: bool = True) -> bytes:
    before = first * (32 + 4 * checksum)
    index = struct.pack("<4Q", before, 6, before + 6, 6)
    index += crc32c(index) if checksum else b""
    return index + RAW if first else RAW + index


RAW = GRID.tobytes()
CODECS: dict[str, tuple[list[Any], bytes]] = {
    "names only": (["bytes"], RAW),
    "big-endian": (BIG, GRID.astype(">i2").tobytes()),
    "gzip": ([*LITTLE, "gzip"], numcodecs.GZip(4).encode(RAW)),
    "zstd": ([*LITTLE, named("zstd", level=3, checksum=True)], numcodecs.Zstd(3).encode(RAW)),
    "zstd without settings": ([*LITTLE, {"name": "zstd"}], numcodecs.Zstd(1).encode(RAW)),
    "crc32c": ([*LITTLE, "crc32c"], RAW + crc32c(RAW)),
    "zlib of numcodecs": ([*LITTLE, named("numcodecs.zlib", level=4)], numcodecs.Zlib(4).encode(RAW)),
    "blosc": (
        [*LITTLE, named("blosc", typesize=2, cname="zstd", clevel=1, shuffle="bitshuffle", blocksize=0)],
        numcodecs.Blosc("zstd", 1, 2).encode(RAW),
    ),
    "blosc of numcodecs": (
        [*LITTLE, named("numcodecs.blosc", id="blosc", cname="lz4", clevel=5, shuffle=1, blocksize=0)],
        numcodecs.Blosc("lz4").encode(RAW),
    ),
    "filters": (
        [named("numcodecs.delta", dtype="<i2"), *LITTLE, named("numcodecs.shuffle", elementsize=2), "gzip"],
        numcodecs.GZip(1).encode(numcodecs.Shuffle(2).encode(numcodecs.Delta("<i2").encode(GRID.reshape(-1)))),
    ),
    "filters that say another byte order": (
        [named("numcodecs.delta", dtype="<i2", astype="int32"), *BIG],
        numcodecs.Delta(">i2", ">i4").encode(GRID.astype(">i2").reshape(-1)).tobytes(),
    ),
    "columns": ([named("transpose", order=[1, 0]), *LITTLE], GRID.T.tobytes()),
    "columns by a letter": ([named("transpose", order="F"), *LITTLE], GRID.T.tobytes()),
    "columns twice": ([named("transpose", order=[1, 0])] * 2 + LITTLE, RAW),
    "shards": ([sharded()], shard()),
    "shards with the index first": ([sharded(index_location="start", index_codecs=LITTLE)],
                                    shard(first=True, checksum=False)),
    "shards without settings": ([sharded(index_location=None, index_codecs=None)], shard()),
}  # fmt: skip


@pytest.mark.parametrize(("codecs", "chunk"), CODECS.values(), ids=CODECS)
def test_codecs(codecs, chunk):
    np.testing.assert_array_equal(read(document(codecs=codecs), {"c/0/0": chunk}), GRID)


@pytest.mark.parametrize(("encoding", "key"), [
    ({"name": "default"}, "c/0/0"), (named("default", separator="."), "c.0.0"), ({"name": "v2"}, "0.0"),
    (named("v2", separator="/"), "0/0"), ("v2", "0.0"),
])  # fmt: skip
def test_keys_of_chunks(encoding, key):
    np.testing.assert_array_equal(read(document(chunk_key_encoding=encoding), {key: RAW}), GRID)


FIELDS = [["n", "int16"], ["x", "float32"], ["s", named("null_terminated_bytes", length_bytes=2)]]
TYPES: dict[str, tuple[Any, Any]] = {
    "int8": ("int8", "i1"),
    "bool": ("bool", "?"),
    "float64": ({"name": "float64"}, "f8"),
    "complex64": ("complex64", "c8"),
    "bytes": (named("null_terminated_bytes", length_bytes=3), "S3"),
    "text": (named("fixed_length_utf32", length_bytes=12), "U3"),
    "raw bits": ("r16", "V2"),
    "raw bytes": (named("raw_bytes", length_bytes=5), "V5"),
    "dates": (named("numpy.datetime64", unit="ns", scale_factor=10), "M8[10ns]"),
    "durations": (named("numpy.timedelta64", unit="μs", scale_factor=1), "m8[us]"),
    "rows": (named("struct", fields=[{"name": name, "data_type": each} for name, each in FIELDS]),
             [("n", "i2"), ("x", "f4"), ("s", "S2")]),
    "rows of lists": (named("structured", fields=FIELDS), [("n", "i2"), ("x", "f4"), ("s", "S2")]),
}  # fmt: skip


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize(("data_type", "dtype"), TYPES.values(), ids=TYPES)
def test_types(data_type, dtype, order):
    values = np.frombuffer(b"\1\0" * 40, np.dtype(dtype).newbyteorder(order), 2)
    if np.dtype(dtype).kind == "U":
        values = np.array(["ab", "ü"], np.dtype(dtype).newbyteorder(order))
    result = document((2,), data_type=data_type, codecs=LITTLE if order == "<" else BIG, fill_value=None)
    kept = read({**result, "fill_value": None}, {"c/0": values.tobytes()})
    assert kept.tolist() == (values.tolist() if np.dtype(dtype).kind != "b" else [True, False])


@pytest.mark.parametrize(("data_type", "dtype", "value"), [
    (named("null_terminated_bytes", length_bytes=2), "S2", b"ab"), (named("raw_bytes", length_bytes=2), "V2", b"ab"),
    ("complex64", "c8", 1 + 2j), (named("struct", fields=[["n", "int16"]]), [("n", "i2")], (5,)),
], ids=str)  # fmt: skip
def test_what_rows_have_beside_text(data_type, dtype, value):
    text = named("fixed_length_utf32", length_bytes=8)
    fields = [{"name": "text", "data_type": text}, {"name": "other", "data_type": data_type}]
    values = np.array([("ab", value), ("ü", value)], [("text", "U2"), ("other", dtype)])
    result = read(document((2,), data_type=named("struct", fields=fields)), {"c/0": values.tobytes()})
    assert result.tolist() == values.tolist()


@pytest.mark.parametrize(("fill", "data_type", "value"), [
    ("0x7fc00000", "float32", np.nan), ("0x3c00", "float16", 1.0), ("-Infinity", "float64", -np.inf),
    ([1.0, "NaN"], "complex64", complex(1, np.nan)), (["0x40000000", "-Infinity"], "complex64", complex(2, -np.inf)),
    (["0xc000000000000000", 1.5], "complex128", complex(-2, 1.5)), (4.0, "int32", 4),
    (True, "bool", True), (7, "uint8", 7),
    (-(2**63), named("numpy.datetime64", unit="s", scale_factor=1), np.datetime64("NaT", "s")),
    (base64.b64encode(b"ab").decode(), named("null_terminated_bytes", length_bytes=2), b"ab"),
    ("0x10", named("fixed_length_utf32", length_bytes=16), "0x10"), ([0, 255], "r16", np.void(b"\0\xff")),
    ({"n": -2, "x": 0.5, "s": "YWI="}, named("structured", fields=FIELDS), (-2, 0.5, b"ab")), ("0", "string", "0"),
], ids=str)  # fmt: skip
def test_fill_values(fill, data_type, value):
    result = read(
        document((2,), data_type=data_type, fill_value=fill, codecs=VLEN if data_type == "string" else LITTLE)
    )
    np.testing.assert_equal(result[0].item() if isinstance(value, tuple) else result[0], value)


def test_a_nan_keeps_its_bits():
    result = read(document((2,), data_type="float32", fill_value="0x7fc00001", codecs=LITTLE))
    assert result.view("u4").tolist() == [0x7FC00001] * 2


@pytest.mark.parametrize("changes", [
    {"attributes": None}, {"storage_transformers": []}, {"dimension_names": ["x", None]},
    {"other": {"must_understand": False}},
], ids=str)  # fmt: skip
def test_what_may_be_there_or_not(changes):
    np.testing.assert_array_equal(read(document(**changes), {"c/0/0": RAW}), GRID)


# ---- what is refused ------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Any, str]] = [
    ([], "zarr.json is not a document of Zarr format 3"),
    (document(node_type="table"), "zarr.json is not a document of Zarr format 3"),
    (document(codecs=None, data_type=None), "zarr.json lacks codecs, data_type"),
    (document((-1, 3)), "shape [-1, 3] is not a list of lengths"),
    ({**document(), "shape": [True, 3]}, "shape [True, 3] is not a list of lengths"),
    ({**document(), "shape": [5]}, "shape (5,) and chunks (2, 3) differ in length"),
    (document(chunk_grid=named("regular", chunk_shape=[0, 3])), "chunk_shape [0, 3] is not a list of lengths"),
    (document(chunk_grid={"name": "rectangular"}), "is not regular"),
    (document(chunk_key_encoding={"name": "sha"}), "the chunk key encoding {'name': 'sha'} is unknown"),
    (document(chunk_key_encoding=named("default", separator="-")), "is unknown"),
    (document(attributes=[]), "the attributes are not a JSON object"),
    (document(codecs=[1]), "codecs [1] is not a list of codecs"),
    (document(codecs=[]), "the codecs [] have no step that makes bytes"),
    (document(codecs=[named("gzip", level=1)]), "the codec 'gzip' is in a position that is not supported"),
    (document(codecs=[{"name": 5}]), "the codec {'name': 5} has no name"),
    (document(codecs=[named("bytes", endian="middle")]), "the byte order 'middle' is unknown"),
    (document(codecs=[*LITTLE, {"name": "lz9"}]), "the codec 'lz9' is not one that this package decodes"),
    (document(codecs=[*LITTLE, named("blosc", shuffle=1)]), "Blosc does not have the shuffle 1"),
    (document(codecs=[*LITTLE, named("blosc", shuffle=[1])]), "the document contradicts itself"),
    *((document(codecs=[named("transpose", order=order), *LITTLE]), "is not an order of 2 axes")
      for order in (None, "A", [0], [0, 0], [1, 2], [False, True], [0, 1, 2])),
    *((document(codecs=[sharded(**change)]), "have no chunks")
      for change in ({"chunk_shape": [2]}, {"chunk_shape": [2, 0]}, {"chunk_shape": [2, 3.0]}, {"codecs": None})),
    (document(codecs=[sharded(chunk_shape=[2, 2])]), "shards (2, 3) are not a whole number of chunks (2, 2)"),
    (document(codecs=[sharded(index_location="middle")]), "the index of a shard cannot be at the position 'middle'"),
    (document(codecs=[sharded(codecs=[sharded()])]), "shards inside shards are not supported"),
    (document(codecs=[sharded(index_codecs=BIG)]), "an index of shards stored with ['bytes'] is not supported"),
    *((document(data_type=data_type), f"the data type {data_type!r} is unknown") for data_type in (
        "int4", "r12", named("fixed_length_utf32", length_bytes=3), named("raw_bytes", length_bytes=-1),
        named("raw_bytes", length_bytes=2**31), named("numpy.datetime64", unit="]"), named("struct", fields=[]),
        named("struct", fields={}), named("struct", fields=[[5, "int8"]]))),
    (document(data_type="string", fill_value=""), "elements of type 'string' are stored with 'bytes'"),
    (document(data_type="float32", fill_value="0x1ffffffff"), "the fill value '0x1ffffffff' does not fit"),
    (document(data_type="complex64", fill_value=["0x1ffffffff", 1.0]), "does not fit complex64"),
    (document(data_type="complex64", fill_value=[1.0, 2.0, 3.0]), "does not fit complex64"),
    *((document(data_type="int32", fill_value=fill), "(it is not an integer)") for fill in (1.5, "5")),
    (document(data_type="r16", fill_value=[0, 256]), "the fill value [0, 256] is not a list of bytes"),
    (document(data_type="float32", fill_value={}), "an object is the fill value of rows only"),
    (document(data_type=named("structured", fields=FIELDS), fill_value={"b": 1}), "does not fit"),
    *((document_2(**{key: ...}), f"lacks {key}") for key in ("chunks", "dtype", "shape")),
    (document_2(shape=[-1, 3]), "shape [-1, 3] is not a list of lengths"),
    (document_2(chunks=[0, 3]), "chunks [0, 3] is not a list of lengths"),
    (document_2(shape=[2]), "differ in length"),
    (document_2(dtype="|S4", fill_value="!!!!"), "the fill value '!!!!' does not fit"),
    (document_2(dtype="|V4", fill_value="YWJjZGU="), "it has 5 bytes, and the type 4"),
    (document_2(dtype="<i4", fill_value=1.5), "the fill value 1.5 does not fit int32 (it is not an integer)"),
    (document_2(dtype="<q7"), "is unknown"),
    (document_2(dtype=[["x"]]), "is unknown"),
    (document_2(compressor={"id": "lz9"}), "lz9"),
    (document_2(filters=[5]), "filters"),
    (document_2(order="Z"), "order"),
    *((document_2(**{key: value}), "") for key, values in {
        "shape": ["20", [1e3, 3], [True, 3], None], "chunks": [[20]], "order": ["K"], "zarr_format": [3],
        "dimension_separator": ["../"],
        "compressor": [3, "blosc", [], {"id": 3}, {"id": ["zlib"]}, {}, {"id": "zlib", "surprise": 1}],
        "dtype": ["os.system", "O", "|O", "i4,|O", [["a", "|O"]], [["a", [["b", "|O"]]]], [["a"]], {"id": "x"},
                  None, "<x9", [["a", "<i4"], ["a", "<i4"]], "V999999999999999999999"],
    }.items() for value in values),
    *((document(**{key: value}), "") for key, values in {
        "chunk_key_encoding": [{"name": ["default"]}, {"name": {}}, [], 5, {"name": "v2", "configuration": [1]},
                               *(named("default", separator=separator) for separator in ([], {}, 0))],
        "fill_value": [["a"], [[1]], [-1], [1.5], [None]],
        "codecs": [*([*LITTLE, named("blosc", shuffle=shuffle)] for shuffle in ({}, [], 7, None)),
                   *([sharded(chunk_shape=chunk)] for chunk in ([4, 3], [2**40, 4], [0, 4])),
                   *([sharded(index_codecs=index)] for index in (
                       5, [5], {"name": "bytes"}, [{"name": "bytes", "configuration": []}] * 9))],
    }.items() for value in values),
]  # fmt: skip
"""What nobody can read -> what is said of it."""


@pytest.mark.parametrize(("found", "problem"), REFUSED, ids=[str(number) for number in range(len(REFUSED))])
def test_what_is_wrong_is_said_with_the_node(found, problem):
    with pytest.raises(MetadataError) as caught:
        read(found)
    assert problem in str(caught.value)
    assert caught.value.path == "/a"
    assert caught.value.remedy
    kind = "library-missing" if isinstance(caught.value, UnsupportedFileError) else "document-damaged"
    assert kind in {finding.kind for finding in verify(stored(found)).problems}


def test_the_chunks_of_an_unreadable_array_at_the_root_are_its_own():
    found = document(codecs=[{"name": "optional"}])
    problems = verify({"zarr.json": json.dumps(found).encode(), "c/0/0": b"data"}).problems
    assert [(each.path, each.kind) for each in problems] == [("/", "library-missing")]
    assert "Convert the array with the program that wrote it." in problems[0].advice


@pytest.mark.parametrize("key", ["fill_value", "data_type", "codecs"])
def test_a_document_that_is_nested_too_deeply_is_refused(key):
    deep = '{"name": "struct", "configuration": {"fields": [["a", ' * 3000 + "0" + "]]}}" * 3000
    text = json.dumps(document(**{key: "DEEP"})).replace('"DEEP"', deep)
    store = {"zarr.json": json.dumps(GROUP).encode(), "a/zarr.json": text.encode()}
    with pytest.raises(ZarrBackendError), ZarrIO(store, "r") as file:
        file.read_builder()["a"].data[:]
