"""Pickles of old releases hold only data: they are read as they were written, and everything else is refused."""

import base64
import builtins
import collections
import copyreg
import functools
import io
import json
import os
import pickle
import pickletools
import random
import struct
import sys
import tracemalloc
import types
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hdmf_zarr_backend.encoding.chunk_codec import DataPickle
from hdmf_zarr_backend.encoding.pickles import UnsafePickleError, loads_data
from hdmf_zarr_backend.errors import LimitError
from tests.proportion import ends

PROTOCOLS = range(3, 6)
START = b"\x80\3"  # of a pickle of protocol 3


# --- stand-ins for hdmf-zarr and for the stock unpickler --------------------------------------------------------------
class ZarrReference(dict):  # type: ignore[type-arg]
    """Pickles under the name and in the form of hdmf-zarr's class."""

    __module__ = "hdmf_zarr.utils"


@pytest.fixture(scope="module", autouse=True)
def _importable_reference() -> Iterator[None]:
    """``pickle.dumps`` checks that a class can be imported by its name."""
    package, module = types.ModuleType("hdmf_zarr"), types.ModuleType("hdmf_zarr.utils")
    module.ZarrReference = ZarrReference  # type: ignore[attr-defined]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "hdmf_zarr", package)
        patch.setitem(sys.modules, "hdmf_zarr.utils", module)
        yield


class StockUnpickler(pickle.Unpickler):
    """Python's own unpickler, for pickles that this file made or embeds."""

    def find_class(self, module: str, name: str) -> Any:
        return super().find_class(module.replace("numpy.core", "numpy._core"), name)


def stock(data: bytes) -> Any:
    return StockUnpickler(io.BytesIO(data)).load()


def same(got: Any, expected: Any) -> bool:
    """Whether two values are equal down to types, dtypes and memory order; a ZarrReference has become a dict."""
    if isinstance(expected, np.ndarray):
        if type(got) is not np.ndarray or got.shape != expected.shape or got.dtype != expected.dtype:
            return False
        if got.flags.f_contiguous != expected.flags.f_contiguous or not got.flags.writeable:
            return False
        return same(got.ravel().tolist(), expected.ravel().tolist())
    if isinstance(expected, np.void):
        return type(got) is np.void and got.dtype == expected.dtype and same(got.item(), expected.item())
    if isinstance(expected, dict):
        return type(got) is dict and list(got) == list(expected) and all(same(got[k], expected[k]) for k in expected)
    if isinstance(expected, (list, tuple)):
        return type(got) is type(expected) and len(got) == len(expected) and all(map(same, got, expected))
    if isinstance(expected, bytearray):
        return type(got) is bytes and got == expected
    return type(got) is type(expected) and (got == expected or (got != got and expected != expected))  # noqa: PLR0124  # NaN, of any type


def reference(path: str, **more: str | None) -> dict[str, str | None]:
    return {"source": ".", "path": path, **more}


def objects(*values: Any, shape: tuple[int, ...] = (-1,)) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        array[place] = value
    return array.reshape(shape)


# --- chunks written by hdmf-zarr ------------------------------------------------------------------------------------

# Decompressed chunks in base64, as written through `ZarrIO.write_builder` by
#   hdmf-zarr 0.13.0 (zarr 2.18.7, numcodecs 0.15.2, numpy 2.4.6),
#   hdmf-zarr 0.8.0 (zarr 2.16.1, numcodecs 0.12.1, numpy 1.26.4) and
#   hdmf-zarr 0.2.0 (zarr 2.16.1, numcodecs 0.12.1, numpy 1.23.5)
# from builders with the values of EXPECTED; "h5" rows had been read by h5py, "scalar text" came from an HDF5 file.
CHUNKS: dict[str, str] = json.loads(Path(__file__).with_name("pickled_chunks.json").read_text(encoding="ascii"))

_IDS = {"object_id": None, "source_object_id": "id-root"}
_A, _B = reference("/a", **_IDS), reference("/b", **_IDS)
_OLD_A, _OLD_B = reference("/a"), reference("/b")
_ROW = np.dtype([("x", "<i4"), ("name", "<U4")])
_H5_ROW = np.dtype([("x", "<i4"), ("name", "O"), ("f", "<f8")])
_H5_ENUM = np.dtype([("ok", "?"), ("e", "i1"), ("name", "O")])
_H5_RAGGED = np.dtype({"names": ["x", "vl"], "formats": ["<i4", "O"], "offsets": [0, 4], "itemsize": 20})
_SUB = np.dtype([("x", "<i4"), ("v", "<f8", (2,)), ("s", "<U3")])


def _rows(dtype: np.dtype[Any], *rows: tuple[Any, ...]) -> Any:
    return objects(*np.array(list(rows), dtype))


EXPECTED = {
    "0.13 refs": objects(_A, _B, _A),
    "0.13 cref_text": np.array(
        [(0, 1, _A, "x"), (1, 2, _B, "é")], [("idx_start", "<i4"), ("count", "<i4"), ("ts", "O"), ("label", "O")]
    ),
    "0.13 c_tuples": objects((1, "a"), (2, "é")),
    "0.13 c_npvoid": _rows(_ROW, (1, "a"), (2, "é")),
    "0.13 c_npscalar": objects((np.int32(1), np.str_("a")), (np.int32(2), "b")),
    "0.13 c_h5arr": _rows(_H5_ROW, (1, b"a", 0.5), (2, "é".encode(), 1.5)),
    "0.13 c_h5e": _rows(_H5_ENUM, (True, 0, b"a"), (False, 1, b"b")),
    "0.13 c_h5v": _rows(_H5_RAGGED, (1, np.arange(3, dtype="i4"))),
    "0.13 c_sub": _rows(_SUB, (1, (1.0, 2.0), "a")),
    "0.8 refs": objects(_A, _B, _A),
    "0.8 c_tuples": objects(1, "a", 2, "é", shape=(2, 2)),
    "0.8 cref": np.array([(0, 1, _A), (1, 2, _B)], [("idx_start", "<i4"), ("count", "<i4"), ("ts", "O")]),
    "0.8 scalar text": objects("a session"),
    "0.2 refs": objects(_OLD_A, _OLD_B, _OLD_A),
    "0.2 via_h5_cref_text": objects([np.int32(0), np.int32(1), _OLD_A, "x"], [np.int32(1), np.int32(2), _OLD_B, "é"]),
    "0.2 c_h5": _rows(_H5_ROW, (1, b"a", 0.5), (2, "é".encode(), 1.5)),
}


def chunk(name: str) -> bytes:
    return base64.b64decode(CHUNKS[name])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", CHUNKS)
def test_chunks_of_old_releases_read_as_what_was_written_by_every_protocol_of_python_3(name: str) -> None:
    assert same(loads_data(chunk(name)), EXPECTED[name])
    for protocol in PROTOCOLS:
        assert same(loads_data(pickle.dumps(stock(chunk(name)), protocol=protocol)), EXPECTED[name])


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("protocol", range(3))
@pytest.mark.parametrize("name", CHUNKS)
def test_protocols_that_no_release_wrote_are_refused(name: str, protocol: int) -> None:
    for fix_imports in (True, False):
        old = pickle.dumps(stock(chunk(name)), protocol=protocol, fix_imports=fix_imports)
        with pytest.raises(UnsafePickleError, match=r"^it is not of protocol 3, 4 or 5$") as caught:
            loads_data(old)
        assert not caught.value.damaged
        if protocol == 0:  # nor are its opcodes read in a pickle that states another protocol
            with pytest.raises(UnsafePickleError, match=r"opcode (PUT|GET|UNICODE|LONG|INT|FLOAT) |more than data"):
                loads_data(START + old)


def test_a_fill_value_and_forms_of_a_reference() -> None:
    assert loads_data(base64.b64decode("gAVLAC4=")) == 0  # compound with references, 0.8 to 0.13
    items = {"source": ".", "path": "/x"}
    name = START + b"chdmf_zarr.utils\nZarrReference\n"
    filled = b"(" + b"".join(text(part) for pair in items.items() for part in pair) + b"u."
    assert loads_data(name + b")\x81" + filled) == items  # NEWOBJ, SETITEMS
    assert loads_data(name + b"(t\x81" + filled) == items
    state = b"}" + filled[:-1]
    assert loads_data(name + b")\x81" + state + b"b.") == items  # attributes in place of items


# --- what Python and NumPy pickle -----------------------------------------------------------------------------------
_plain = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.integers(-(2**200), 2**200)
)
_data = st.recursive(
    _plain,
    lambda inner: st.lists(inner) | st.lists(inner).map(tuple) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(_data, st.sampled_from(PROTOCOLS))
def test_data_comes_back(value: Any, protocol: int) -> None:
    shared = [value, {"again": value}, (value,)]
    assert same(loads_data(pickle.dumps(shared, protocol)), shared)
    assert same(loads_data(pickle._dumps(value, protocol=protocol)), value)  # type: ignore[attr-defined]  # in Python


_dtypes = st.one_of(
    hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes(),
    hnp.complex_number_dtypes(), hnp.byte_string_dtypes(), hnp.unicode_string_dtypes(), hnp.datetime64_dtypes(),
    hnp.timedelta64_dtypes(),
)  # fmt: skip
_names = st.lists(st.text("abcé", min_size=1), unique=True, min_size=1, max_size=4)


@st.composite
def _structures(draw: st.DrawFn, inner: st.SearchStrategy[np.dtype[Any]]) -> np.dtype[Any]:
    fields = [(name, draw(inner), draw(st.sampled_from([(), (), (2,), (1, 3)]))) for name in draw(_names)]
    return np.dtype(fields, align=draw(st.booleans()))


_structured = _structures(_dtypes | _structures(_dtypes))
_shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)


@settings(deadline=None)
@given(hnp.arrays(_dtypes | _structured, _shapes, elements=None), st.sampled_from(PROTOCOLS), st.sampled_from("CF"))
def test_arrays_without_objects_come_back(array: Any, protocol: int, order: Any) -> None:
    for value in (array.copy(order), array.reshape(-1)[:1].copy(), *array.reshape(-1)[:2]):
        got = loads_data(pickle.dumps(value, protocol=protocol))
        assert type(got) is type(value)
        assert got.dtype == value.dtype
        assert got.shape == value.shape
        assert same(got.tolist(), value.tolist())


@settings(deadline=None)
@given(st.data(), _shapes, st.sampled_from(PROTOCOLS), st.sampled_from("CF"))
def test_object_arrays_come_back(data: st.DataObject, shape: tuple[int, ...], protocol: int, order: Any) -> None:
    size = int(np.prod(shape))
    small = st.one_of(_data, hnp.arrays("i2", hnp.array_shapes(max_side=2)))
    array = objects(*data.draw(st.lists(small, min_size=size, max_size=size)), shape=shape).copy(order)
    assert same(loads_data(pickle.dumps(array, protocol=protocol)), array)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(-128, 127), _data, st.text("ab", max_size=2), _data)), st.sampled_from(PROTOCOLS))
def test_structured_arrays_with_objects_come_back(rows: list[Any], protocol: int) -> None:
    inner = np.dtype([("ref", "O"), ("s", "U2")])
    array = np.empty(len(rows), np.dtype([("n", ">i1"), ("inner", inner), ("ok", "?"), ("last", "O")], align=True))
    for place, (number, value, label, last) in enumerate(rows):
        array[place] = (number, (value, label), number > 0, None)
        array["last"][place] = last
    assert same(loads_data(pickle.dumps(array, protocol=protocol)), array)
    for row in array[:2]:
        assert same(loads_data(pickle.dumps(row, protocol=protocol)), row)


EDGES: list[Any] = [
    "a\ud800b", "\n\\u0041\r\x1a\0", "x" * 70_000, b"y" * 70_000, b"", bytes(range(256)), -(2**31), 2**31, 2**2000,
    float("inf"), -0.0, "\U0001f9e0", [[]] * 1500, {"": None}, [None] * 3000, {str(i): i for i in range(2500)},
    np.float16(1.5), np.longdouble(1) / 3, np.complex64(1j), np.datetime64("2020-01-01", "25s"), np.str_(""),
    np.timedelta64(3, "ms"), np.bytes_(b""), np.bool_(True), np.array("x"), np.array(None),
    np.arange(12).reshape(3, 4).T, np.zeros((0, 3), "S0"), np.array([(1, b"x")], [("a", "i2"), ("b", "V3")])[0],
    [bytearray(b"in-band")],
]  # fmt: skip


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_values_at_the_edges_and_subarrays_beside_objects(protocol: int) -> None:
    for value in EDGES if protocol == 5 else EDGES[:-1]:  # before, a bytearray is a call of its class
        assert same(loads_data(pickle.dumps(value, protocol=protocol)), value)
    noted = np.dtype([("s", np.dtype("O", metadata={"vlen": str})), ("b", np.dtype("O", metadata={"vlen": bytes}))])
    array = loads_data(pickle.dumps(np.array([("a", b"b")], noted), protocol))
    assert array.tolist() == [("a", b"b")]
    assert array.dtype["s"].metadata is None
    pair = np.dtype([("a", "u1"), ("b", "S2")])
    layout = np.dtype([("v", ">f8", (2, 3)), ("ref", "O"), ("p", pair, (2,)), ("q", pair)])
    rows = np.zeros(2, layout)
    rows["v"] = np.arange(12).reshape(2, 2, 3)
    rows["ref"] = [reference("/a"), ["x"]]
    rows["p"]["b"] = [[b"a", b"b"], [b"c", b"d"]]
    got = loads_data(pickle.dumps(rows, protocol))
    assert got.dtype == layout
    assert got["ref"].tolist() == [reference("/a"), ["x"]]
    assert all(np.array_equal(got[name], rows[name]) for name in "vpq")
    assert loads_data(pickle.dumps(rows[:0], protocol)).dtype == layout


def test_any_buffer() -> None:
    data = pickle.dumps([1, "a"])
    for buffer in (data, bytearray(data), memoryview(data * 2)[: len(data)], np.frombuffer(data, "u1")):
        assert DataPickle().decode(buffer) == [1, "a"]
    assert loads_data(memoryview(data)) == [1, "a"]


# --- attacks: code ----------------------------------------------------------------------------------------------------
def text(value: str) -> bytes:
    raw = value.encode()
    return b"X" + struct.pack("<I", len(raw)) + raw


def raw(value: bytes) -> bytes:
    return b"B" + struct.pack("<I", len(value)) + value


def glob(module: str, name: str) -> bytes:
    return f"c{module}\n{name}\n".encode()


class Call:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.parts = (function, arguments)

    def __reduce__(self) -> Any:
        return self.parts

    def __call__(self) -> None:
        """What is called must look callable to the pickler."""


def _code_attacks(marker: str) -> dict[str, bytes]:
    source = f"open({marker!r}, 'w').close()"
    touch, row = Call(exec, source), [("x", "i4"), ("ref", "O")]
    values: dict[str, Any] = {
        "exec": touch,
        "os.system": Call(os.system, f"\"{sys.executable}\" -c \"open(r'{marker}', 'w')\""),
        "open": Call(open, marker, "w"),
        "getattr": Call(Call(getattr, Path(marker), "touch")),
        "partial": Call(functools.partial(Path.touch, Path(marker))),
        "import": Call(Call(getattr, Call(builtins.__import__, "builtins"), "exec"), source),
        "nested pickle": Call(pickle.loads, pickle.dumps(touch)),
        "numpy.tofile": Call(Call(getattr, np.zeros(1), "tofile"), marker),
        "numpy.memmap": Call(np.memmap, marker, "u1", "w+", 0, (8,)),
        "set": {Call(tuple, [touch])},
        "in a reference array": objects(reference("/a"), {"source": touch}),
        "in a compound": np.array([(1, touch)], row),
        "in a row": objects(np.array([(1, touch)], row)[0]),
        "in dtype metadata": np.array([None], np.dtype("O", metadata={"vlen": touch})),
        "as array state": Call(np.ndarray.__new__, np.ndarray, touch),
        "defaultdict": collections.defaultdict(functools.partial(exec, source), a=touch),
    }
    attacks = {f"{name} {number}": pickle.dumps(value, number) for name, value in values.items() for number in range(6)}
    call, data = text(source) + b"\x85R.", EXPECTED["0.13 refs"]
    return attacks | {
        "INST": b"(S" + repr(source).encode() + b"\nibuiltins\nexec\n.",
        "OBJ": b"(" + glob("builtins", "exec") + b"S" + repr(source).encode() + b"\no.",
        "INST in protocol 3": START + b"(X" + text(source)[1:] + b"ibuiltins\nexec\n.",
        "OBJ in protocol 3": START + b"(" + glob("builtins", "exec") + text(source) + b"o.",
        "names of names": START + text("builtins") + text("exec") + b"\x93" + call,
        "NEWOBJ": START + glob("subprocess", "Popen") + b"".join(
            map(text, (sys.executable, "-c", source))) + b"\x87\x85\x81.",
        "dotted": b"\x80\x04" + text("hdmf_zarr.utils") + text("__builtins__.exec") + b"\x93" + call,
        "after data": pickle.dumps(data)[:-1] + pickle.dumps(touch, 4)[2:],
        "before data": pickle.dumps(touch, 3)[:-1] + b"0" + pickle.dumps(data, 3)[2:],
    }  # fmt: skip


def test_no_code_is_run(tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    for name, attack in _code_attacks(str(marker)).items():
        with pytest.raises(UnsafePickleError):
            loads_data(attack)
        assert not marker.exists(), name


@pytest.mark.filterwarnings("ignore")
def test_those_pickles_are_malicious(tmp_path: Path) -> None:
    """The stock unpickler runs them: the test above tests something."""
    marker = tmp_path / "marker"
    for name in ("exec 2", "open 4", "in a reference array 5", "in a compound 5", "nested pickle 4", "INST"):
        stock(_code_attacks(str(marker))[name])
        marker.unlink()  # it was made


def test_registered_extensions_are_not_run(tmp_path: Path) -> None:
    copyreg.add_extension("builtins", "exec", 250)
    try:
        for code in (b"\x82\xfa", b"\x83\xfa\0", b"\x84\xfa\0\0\0"):
            with pytest.raises(UnsafePickleError, match="opcode EXT"):
                loads_data(START + code + text("1/0") + b"\x85R.")
    finally:
        copyreg.remove_extension("builtins", "exec", 250)


@pytest.mark.parametrize(
    "name",
    [
        ("os", "system"), ("builtins", "eval"), ("builtins", "object"), ("numpy", "load"), ("numpy", "memmap"),
        ("numpy", "matrix"), ("numpy.core.multiarray", "fromfile"), ("numpy._core.multiarray", "_vec_string"),
        ("numpy.ma.core", "_mareconstruct"), ("numpy.core.multiarray", "scalar.__class__"), ("copyreg", "__newobj__"),
        ("_codecs", "decode"), ("hdmf_zarr.utils", "os"), ("hdmf_zarr.backend", "ZarrIO"), ("", ""),
        ("hdmf_zarr", "utils.ZarrReference"), ("hdmf_zarr.utils ZarrReference", ""), ("x" * 10_000, "y"),
        ("datetime", "datetime"), ("pandas", "Series"),
    ],
    ids=lambda name: ".".join(name)[:40],
)  # fmt: skip
def test_other_names_are_refused_and_shown(name: tuple[str, str]) -> None:
    stacked = text(name[0]) + text(name[1]) + b"\x93"
    for data in (glob(*name), stacked) if all(name) else (stacked,):  # GLOBAL cannot have an empty name
        with pytest.raises(UnsafePickleError, match="it names") as caught:
            loads_data(START + data + b".")
        assert name[1][:20] in caught.value.reason
        assert len(caught.value.reason) < 300
        assert not caught.value.damaged


# --- attacks: crashes, memory, time -----------------------------------------------------------------------------------
DEEP = 100_000
RECONSTRUCT = glob("numpy.core.multiarray", "_reconstruct")
NDARRAY = glob("numpy", "ndarray")
SCALAR = glob("numpy.core.multiarray", "scalar")


def dtype(kind: str, order="|", base: bytes = b"N", fields: bytes = b"NN", size: int = -1, flags: int = 0) -> bytes:
    state = b"K\x03" + text(order) + base + fields + integer(size) + integer(-1) + b"K" + bytes([flags])
    return glob("numpy", "dtype") + b"(" + text(kind) + b"\x89\x88tR(" + state + b"tb"


def integer(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def fields(*parts: tuple[str, bytes, int]) -> bytes:
    names = b"(" + b"".join(text(name) for name, _, _ in parts) + b"t"
    return names + b"}(" + b"".join(text(name) + kind + integer(at) + b"\x86" for name, kind, at in parts) + b"u"


def array(shape: tuple[int, ...], kind: bytes, data: bytes) -> bytes:
    lengths = b"(" + b"".join(map(integer, shape)) + b"t"
    return RECONSTRUCT + b"(" + NDARRAY + b"(K\x00t" + raw(b"b") + b"tR(K\x01" + lengths + kind + b"\x89" + data + b"tb"


def of(kind: bytes) -> bytes:
    """A scalar of a type, which is not data by itself."""
    return SCALAR + kind + b"N\x86R"


OBJECT = dtype("O8", flags=63)
BYTE = dtype("i1")
WIDE = dtype("i8", "<")
POINTERS = raw(b"\x01\x02\x03\x04\x05\x06\x07\x08")


def _zero_sized_tree() -> bytes:
    """A dtype of 2**40 fields of no size."""
    data = dtype("V0", size=0) + b"q\x00"
    for level in range(40):
        twice = fields(("a", b"h%c" % level, 0), ("b", b"h%c" % level, 0))
        data += dtype("V0", fields=twice, size=0) + b"q%c" % (level + 1)
    return data


def _nested_arrays(before: bytes = b"", behind: bytes = b"") -> bytes:
    """Object arrays in each other, with something in between: NumPy frees them recursively, in C."""
    arguments = NDARRAY + b"K\0\x85" + raw(b"b") + b"\x87q\1"
    start = RECONSTRUCT + b"q\0" + arguments + b"R(K\1)" + OBJECT + b"q\2\x89]Natb"
    return start + (b"h\0h\1R(K\1)h\2\x89]" + before) * DEEP + b"N" + (behind + b"atb") * DEEP + b"\x86"


def _again(function: bytes, arguments: bytes, then: bytes = b"", memo: int = 0) -> bytes:
    """One call of a few bytes, a hundred thousand times, with arguments from the memo."""
    calls = (b"h%ch%cR" % (memo, memo + 1) + then) * 100_000
    return function + b"q%c" % memo + arguments + b"q%c" % (memo + 1) + b"](" + calls + b"e"


_MEGABYTE = b"a" * 1_000_000
_BIG_LIST = b"](" + b"N" * 200_000 + b"eq\0"
_BIG_ARRAY = _BIG_LIST + OBJECT + b"q\1(K\1" + integer(200_000) + b"\x85h\1\x89h\0tq\2"
_MANY_FIELDS = fields(*((f"f{i}", b"h\0", 0) for i in range(1000)))
_BIG_DTYPE = BYTE + b"q\0(K\3" + text("|") + b"N" + _MANY_FIELDS + integer(1) + integer(-1) + b"K\0tq\1"
_DEEP_TUPLE = b")" + b"\x85" * DEEP

ZARR_REFERENCE = glob("hdmf_zarr.utils", "ZarrReference")
EMPTY = RECONSTRUCT + NDARRAY + b"K\0\x85" + raw(b"b") + b"\x87R"  # an array before its state
ONE_OBJECT = dtype("V8", fields=fields(("a", OBJECT, 0)), size=8)
OBJECT_AND_BYTE = dtype("V9", fields=fields(("a", OBJECT, 0), ("b", BYTE, 8)), size=9)

# what the error says -> pickles
HOSTILE: dict[str, list[bytes]] = {
    "key that is not text": [b"}" + key + b"Ns" for key in (_DEEP_TUPLE, b"K\1", raw(b"a"))] + [
        b"}(" + _DEEP_TUPLE + b"Nu"],
    "opcode DICT": [b"(" + _DEEP_TUPLE + b"Nd", b"(d"],
    "place of a str": [of(dtype("V1", fields=_DEEP_TUPLE + b"\x85}" + text("a") + b"Ns", size=1))],
    "positional": [ZARR_REFERENCE + arguments for arguments in (
        _DEEP_TUPLE + b"\x81", _DEEP_TUPLE + b"R", b"K\1\x85R", b"(NNNNNtR")],
    "tuple in place of a dtype": [array((), _DEEP_TUPLE, b"]")],
    "tuple in place of a bytes": [of(dtype("M8", "<")[:-2] + b"N(" + _DEEP_TUPLE + b"K\1K\1K\1t\x86tb"),
        array((1,), BYTE, _DEEP_TUPLE)],
    "a state for a name": [NDARRAY + b"}b"],
    "a name": [b"]" + NDARRAY + b"a", b"}" + text("a") + OBJECT + b"s", NDARRAY + b")R",
        b"](" + OBJECT + b"q\0" + EMPTY + b"(K\1)h\0\x89]Natbh\0e", EMPTY + b"(K\1)" + OBJECT + b"q\0\x89]Natbh\0\x86",
        _BIG_DTYPE + _again(glob("numpy", "dtype"), text("V1") + b"\x85", b"h\1b", memo=2)],
    "more than 100 levels": [
        _DEEP_TUPLE, b"]" * DEEP + b"a" * (DEEP - 1), (b"}" + text("a")) * DEEP + b"N" + b"s" * DEEP,
        array((1,), OBJECT, b"]" * DEEP + b"a" * (DEEP - 1)), _nested_arrays(), _nested_arrays(b"]", b"a"),
        _nested_arrays(b"", b"\x85"), _nested_arrays(b"}" + text("a"), b"s")],
    "contains itself": [b"]q\0h\0a", b"]q\0(h\0h\0e", b"]q\0](h\0eq\1ah\0\x86", b"}q\0" + text("a") + b"h\0s",
        b"]q\0h\0\x85a", b"]q\0" + array((1,), OBJECT, b"](h\0e") + b"a",
        EMPTY + b"q\0(K\1K\1\x85" + OBJECT + b"\x89]h\0atb"],
    "unfinished array": [EMPTY],
    "values": [b"(]" + b"".join(b"q%c](h%ch%ce" % (i, i, i) for i in range(60)) + b"t",
        b")" + b"".join(b"q%ch%c\x86" % (i, i) for i in range(60)),
        b"(}" + b"".join(b"q%c}(%sh%c%sh%cu" % (i, text("a"), i, text("b"), i) for i in range(60)) + b"t"],
    "bytes in place of a list": [array((1,), kind, POINTERS) for kind in (OBJECT, dtype("O8", flags=0), ONE_OBJECT)],
    "not of its type": [SCALAR + OBJECT + POINTERS + b"\x86R", SCALAR + ONE_OBJECT + POINTERS + b"\x86R",
        SCALAR + ONE_OBJECT + array((), WIDE, POINTERS) + b"\x86R"],
    "from bytes": [
        glob("numpy._core.numeric", "_frombuffer") + b"(" + POINTERS + OBJECT + b"K\1\x85" + text("C") + b"tR"],
    "subarray of objects": [of(dtype("V8", base=OBJECT + b"K\1\x85\x86", size=8))],
    "overlapping object fields": [of(dtype("V8", fields=fields(("a", OBJECT, 0), ("b", WIDE, 0)), size=8, flags=63)),
        of(dtype("V12", fields=fields(("a", OBJECT, 0), ("b", OBJECT, 4)), size=12, flags=63))],
    "negative": [of(dtype("V8", fields=fields(("a", OBJECT, -8)), size=8))],
    "itemsize": [of(dtype(f"V{size}", fields=fields(("a", OBJECT, size - 4)), size=size)) for size in (4, 8)],
    "Error": [of(dtype("V8", fields=fields(("a", OBJECT, 2**62)), size=8)),
        of(dtype("V8", base=WIDE + b"(" + integer(2**60) + b"t\x86", size=8))],
    "not those": [of(dtype("V8", fields=b"(" + text("a") + b"t}", size=8)),
        of(dtype("V8", fields=fields(("a", BYTE, 0), ("a", BYTE, 1)), size=8))],
    "NoneType in place": [of(dtype("V8", fields=text("a") + b"\x85}" + text("b") + b"Ns", size=8))],
    "size of a dtype": [of(dtype("S4", size=400))],
    "byte order 'x'": [of(dtype("i4", "x"))],
    "second state": [BYTE + b"(K\3" + text("|") + b"NNN" + integer(-1) * 2 + b"K\0tb"],
    "the dtype": [of(glob("numpy", "dtype") + text(kind) + b"\x85R") for kind in (
        "O,O", "(1000000,)i8", "S" + "9" * 5000)],
    "8 bytes for": [array((1000,), WIDE, POINTERS), array((0,), WIDE, POINTERS)],
    "1 objects for 2": [array((2,), OBJECT, b"]Na")],
    "fields": [array((1,), ONE_OBJECT, b"])a"), _zero_sized_tree() + of(b"h\x28")],
    "type of its field": [array((1,), OBJECT_AND_BYTE, b"]N" + text("1") + b"\x86a")],
    "OverflowError": [array((1,), OBJECT_AND_BYTE, b"]NM\xff\xff\x86a")],
    "opcode (FLOAT|PUT|INT|LONG|UNICODE|LIST|GET) |ValueError": [b"F" + b"9" * 5_000_000 + b"\n",
        b"Np" + b"9" * 5000 + b"\n", b"I" + b"9" * 5_000_000 + b"\n", b"L" + b"9" * 1000 + b"L\n", b"Va\n", b"(l",
        b"Np" + b"9" * 1000 + b"\n", b"Np-1\n", b"Nq\0g-1\n"],
    "ValueError": [array((0, 2**62), WIDE, raw(b""))],
    "0 bytes for": [array((2**32, 2**32), BYTE, raw(b""))],
    "not the shape of an array": [array((-1,), BYTE, POINTERS), array((1,) * 200, BYTE, raw(b"a"))],
    "other than ndarray": [RECONSTRUCT + glob("builtins", "str") + b")" + raw(b"b") + b"\x87R"],
    "truth value": [SCALAR + dtype("b1") + raw(b"\5") + b"\x86R",
        array((2,), dtype("V2", fields=fields(("a", dtype("b1"), 1)), size=2), raw(b"\0\1\0\2"))],
    "Unicode": [SCALAR + dtype("U1", "<", size=4) + raw(b"\0\0\x11\0") + b"\x86R",
        SCALAR + dtype("U1", ">", size=4) + raw(b"\0\x11\0\0") + b"\x86R"],
    "memo index": [b"Nr\xff\xff\xff\x7f"],
    "Memo value not found": [b"Nq\0j\xff\xff\xff\x7f"],
    "byte count|expected [0-9]+ bytes": [b"\x8d" + b"\xff" * 8, b"X\xff\xff\xff\xff", b"\x8c\xff",
        b"\x8e" + b"\xff" * 7 + b"\x7f", b"\x96\0\0\0\0\0\1\0\0", b"\x8b\xff\xff\xff\xff\0"],
    "opcode LONG4": [b"\x8b" + struct.pack("<I", 5_000_000) + b"\1" * 5_000_000],
    "it names": [glob(*name.split(" ")) for name in (
        "copyreg _reconstructor", "copy_reg _reconstructor", "_codecs encode", "builtins dict", "__builtin__ dict",
        "__builtin__ bytes", "__builtin__ unicode")],
    "protocol": [b"\x80\6N"],
    # what Python's unpickler itself says
    "Error|STACK_GLOBAL|positional|not callable|underflow|no newline|odd number|MARK": [
        _DEEP_TUPLE + text("x") + b"\x93", glob("d", "d") + b"](" + _DEEP_TUPLE + b"N\x86e\x85R",
        ZARR_REFERENCE + b"}b", b"](" + text("a") + b"Nu", b"}Na", b"]}b", text("a") + b")R", b"\x94", b"Vabc",
        b"X\1\0\0\0\xff", b"}(" + text("a") + b"u", b"Nt", b""],
    "more memory": [array((2**60,), dtype("V0", size=0), raw(b"")), *(
        _again(SCALAR, dtype("S1000000", size=1_000_000) + raw(_MEGABYTE) + b"\x86"),
        _BIG_ARRAY + _again(RECONSTRUCT, NDARRAY + b"K\0\x85" + raw(b"b") + b"\x87", b"h\2b", memo=3))],
}  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "number"), [(reason, number) for reason, pickles in HOSTILE.items() for number in range(len(pickles))]
)
def test_hostile_pickles_are_refused_in_little_time_and_memory(reason: str, number: int) -> None:
    tracemalloc.start()
    try:
        with ends(), pytest.raises(UnsafePickleError, match=reason) as caught:
            loads_data(START + HOSTILE[reason][number] + b".", max_bytes=1 << 26)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 400_000_000
    assert len(str(caught.value)) < 400


def test_default_limit_of_copies_follows_the_length() -> None:
    payload = raw(b"a" * 100_000)
    data = START + SCALAR + b"q\0" + dtype("S100000", size=100_000) + payload + b"\x86q\1](" + b"h\0h\1R" * 3000 + b"e."
    with pytest.raises(UnsafePickleError, match="more memory"):
        loads_data(data)
    with pytest.raises(UnsafePickleError, match="more memory"):
        loads_data(START + array((1000,), WIDE, raw(bytes(8000))) + b".", max_bytes=7999)
    assert loads_data(START + array((1000,), WIDE, raw(bytes(8000))) + b".", max_bytes=8000).sum() == 0


@pytest.mark.parametrize("flood", [b"]", b"}", b"(", b"N", b")", b"N\x94", NDARRAY, b"K\1"])
def test_floods_end_at_the_limit(flood: bytes) -> None:
    with pytest.raises(UnsafePickleError, match="more than 10000 opcodes"):
        loads_data(START + flood * 20_000, max_items=10_000)


def test_a_pickle_of_data_that_is_too_large_is_not_said_to_hold_more_than_data() -> None:
    with pytest.raises(LimitError, match=r"too large to be read safely \(the arrays need more memory"):
        DataPickle().decode(START + array((2**60,), dtype("V0", size=0), raw(b"")) + b".")


def test_limit_of_items_is_exact() -> None:
    data = START + b"](NNNe."
    assert loads_data(data, max_items=8) == [None] * 3
    with pytest.raises(UnsafePickleError, match="more than 7 opcodes"):
        loads_data(data, max_items=7)
    objects_in_array = START + array((3,), OBJECT, data[2:-1]) + b"."
    assert loads_data(objects_in_array).tolist() == [None] * 3
    shared = START + b"](NNNNNNNNeq\0(" + b"h\0" * 10 + b"t\x86."
    assert len(loads_data(shared, max_items=110)[1]) == 10
    with pytest.raises(UnsafePickleError, match="more than 40 values"):
        loads_data(shared, max_items=40)


def test_depth_that_is_still_read() -> None:
    row = np.array([(1, np.arange(3))], [("n", "i4"), ("values", "O")])[0]
    rows = objects(*[row] * 300)  # as hdmf-zarr wrote ragged compounds
    assert loads_data(pickle.dumps(rows))[299]["values"].tolist() == [0, 1, 2]
    value: Any = None
    for _ in range(95):
        value = [value]
    assert loads_data(pickle.dumps(value)) == value
    value = objects({"a": 1})
    for _ in range(3):
        value = objects(value, "x")
    assert loads_data(pickle.dumps(value))[0][0][0].tolist() == [{"a": 1}]
    for _ in range(100):
        value = objects(value)
    with pytest.raises(UnsafePickleError, match="more than 100 levels"):
        loads_data(pickle.dumps(value))
    assert len(loads_data(pickle.dumps([objects([place]) for place in range(1000)]))) == 1000


def test_opcodes_that_build_no_data_are_refused() -> None:
    names = {ord(entry.code): entry.name for entry in pickletools.opcodes}
    arguments = {"PERSID": b"a\n", "STRING": b"'a'\n", "INST": b"a\nb\n"}
    for code in b"012PQSTUio\x82\x83\x84\x8f\x90\x91\x92\x97\x98":
        with pytest.raises(UnsafePickleError, match=f"opcode {names[code]} "):
            loads_data(START + b"](NN" + bytes([code]) + arguments.get(names[code], bytes(4)) + b".")
    for code in set(range(256)) - names.keys():
        with pytest.raises(UnsafePickleError, match="unknown"):
            loads_data(START + bytes([code]) + b".")


def test_every_cut_and_every_addition_is_damage() -> None:
    for name in CHUNKS:
        data = chunk(name)
        for end in range(len(data)):
            with pytest.raises(UnsafePickleError) as caught:
                loads_data(data[:end])
            assert caught.value.damaged
        with pytest.raises(UnsafePickleError, match="STOP is not at the end"):
            loads_data(data + b"\0")


def test_an_error_travels_between_processes() -> None:
    with pytest.raises(UnsafePickleError, match=r"'os\.system', which is not data") as caught:
        loads_data(START + b"](" + glob("os", "system") + b"N.")
    assert not caught.value.damaged
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.reason, again.damaged) == (str(caught.value), caught.value.reason, False)
    assert isinstance(again, ValueError)


# --- random changes ---------------------------------------------------------------------------------------------------
_SEEDS = [chunk(name) for name in CHUNKS]
_PARTS = [b"h%c" % i for i in range(30)] + [b"K%c" % i for i in (0, 1, 2, 8)]
_PARTS += [bytes([code]) for code in b".(])}NJKIeatudsqrhjgcRbpXCBlGFLV\x81\x85\x86\x87\x88\x89\x8a\x8c\x93\x94"]
_PARTS += [NDARRAY, RECONSTRUCT, SCALAR, OBJECT, WIDE, POINTERS, *map(text, ("V8", "O8", "|")), raw(b"b"), integer(-1)]


def _changed(data: bytes, rng: random.Random) -> bytes:
    bare = bytearray(data[:2] + data[11:])  # without the frame, whose length would give most changes away
    for _ in range(rng.choice((1, 1, 2, 4))):
        place = rng.randrange(len(bare))
        if rng.random() < 0.4:
            bare[place] = rng.randrange(256)
        elif rng.random() < 0.5:
            bare[place : place + rng.choice((0, 0, 1, 2))] = rng.choice(_PARTS)
        else:
            other = rng.choice(_SEEDS)
            start = rng.randrange(11, len(other))
            bare[place : place + rng.choice((0, 1, 3))] = other[start : start + rng.randrange(1, 40)]
    return bytes(bare)


def _only_data(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject or _only_data(value.tolist())
    if isinstance(value, (list, tuple)):
        return all(map(_only_data, value))
    if isinstance(value, dict):
        return all(type(key) is str for key in value) and all(map(_only_data, value.values()))
    return value is None or isinstance(value, (bool, int, float, str, bytes, np.generic))


@settings(deadline=None, max_examples=600)
@given(
    st.builds(_changed, st.sampled_from(_SEEDS), st.randoms(use_true_random=False))
    | st.lists(st.sampled_from(_PARTS), max_size=60).map(lambda parts: START + b"".join(parts) + b".")
)
def test_changed_pickles_and_random_programs_give_data_or_the_error(data: bytes) -> None:
    with suppress(UnsafePickleError):
        assert _only_data(loads_data(data))


def test_100_000_references_are_read() -> None:
    number = 100_000
    keys = {"object_id": "9d40e1a8-4a7d-4e3c-9d50-07a2ea9d4d5c", "source_object_id": "root"}
    data = pickle.dumps(objects(*(ZarrReference(reference(f"/general/shank{i}", **keys)) for i in range(number))))
    assert len(loads_data(data)) == number
