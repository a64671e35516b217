"""Data -> stored arrays, and back: value, type and shape."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder
from hdmf.common import VectorData
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import UsageError, ValueRefusedError
from hdmf_zarr_backend.execution.tasks import ArrayWrite, cut
from hdmf_zarr_backend.formats.elements import word_element
from hdmf_zarr_backend.formats.new_datasets import JSON2, VLEN_BYTES, VLEN_UTF8, Layout
from hdmf_zarr_backend.formats.zarr2 import encode_array, parse_array
from hdmf_zarr_backend.model.elements import REFERENCE, UTF8
from hdmf_zarr_backend.transfer.array_planner import (
    encode_fill,
    first_leaf,
    plan_array,
    plan_h5_dataset,
    plan_rows,
    plan_scalar,
    shape_of,
)
from hdmf_zarr_backend.transfer.plan import PlannedArray
from hdmf_zarr_backend.transfer.sources import is_hdf5_dataset
from tests.keystores import MemoryKeys
from tests.strategies import PLAIN, TEXT, raw_arrays, shapes
from tests.zarrs import array_in_memory


def no_reference(value: Any) -> Any:
    raise AssertionError(f"{value!r} is not a reference")


def as_reference(value: Any) -> Any:
    return None if value is None else {"source": ".", "path": value}


def stored(planned: PlannedArray) -> Any:
    """Return the values that are read from a planned array once it is written."""
    keys = MemoryKeys()
    node = parse_array(json.loads(json.dumps(encode_array(planned.node.stored))), {}, "a")
    if planned.source is not None:
        for task in cut(ArrayWrite(keys, "a", planned.node.stored, planned.source), task_bytes=100):
            task.run()
    assert len(keys.values) == (0 if planned.source is None else int(np.prod(node.stored.grid)))
    assert len(keys.calls) == len(keys.values)
    return LazyArray(keys, "a", node, ChunkCache())[...]


def planned(data: Any, word: Any = None, **options: Any) -> PlannedArray:
    if is_hdf5_dataset(data):
        return plan_h5_dataset(data, Layout(**options), no_reference)
    return plan_array(data, word, Layout(**options), no_reference)


# ---- laws ----------------------------------------------------------------------------------------------------------


@settings(max_examples=50)
@given(raw_arrays(PLAIN))
def test_lists_come_back_as_the_array_that_numpy_makes_of_them(array):
    if not array.size:
        return
    try:
        lists = array.tolist()
    except OverflowError:  # NumPy has no list of times so distant
        return
    wanted = np.array(lists)
    if wanted.dtype.kind == "O":  # dates are text
        return
    found = stored(planned(lists))
    assert found.shape == array.shape
    if wanted.dtype.kind in "fc":
        np.testing.assert_array_equal(found, wanted)
    else:
        assert found.tolist() == (wanted.tolist() if wanted.dtype.kind != "S" else _texts(wanted))
    if wanted.dtype.kind not in "SU":
        assert found.dtype == wanted.dtype


def _texts(array: np.ndarray[Any, Any]) -> Any:
    """Return bytes as text where all of them are UTF-8."""
    try:
        return np.char.decode(array, "utf-8").tolist()
    except UnicodeDecodeError:
        return array.tolist()


@settings(max_examples=60)
@given(shapes(longest=4), st.sampled_from(["utf8", "text", None, "isodatetime", "ascii"]), st.data())
def test_text_comes_back_whatever_holds_it(shape, word, data):
    array = np.empty(shape, object)
    array.reshape(-1)[:] = data.draw(st.lists(TEXT, min_size=array.size, max_size=array.size))
    forms = [array, array.tolist()] if array.size else [array]
    for form in forms:
        made = planned(form, word)
        assert stored(made).tolist() == array.tolist()
        assert made.node.stored.filters == [VLEN_UTF8]
        assert made.node.attributes["zarr_dtype"] == "str"
        assert made.node.stored.fill_value == "" or made.node.stored.fill_value is None


@settings(max_examples=60)
@given(st.lists(st.binary(max_size=4), min_size=1, max_size=6), st.sampled_from(["ascii", "utf8", "bytes", None]))
def test_bytes_are_text_where_all_are_utf8_and_else_bytes(items, word):
    made = planned(items, word)
    found = stored(made).tolist()
    try:
        texts = [item.decode("utf-8") for item in items]
    except UnicodeDecodeError:
        texts = None
    if texts is None or word == "bytes":
        assert found == items
        assert made.node.stored.filters == [VLEN_BYTES]
        assert made.node.attributes["zarr_dtype"] == "bytes"
    else:
        assert found == texts
        assert made.node.stored.filters == [VLEN_UTF8]


@settings(max_examples=50)
@given(st.lists(st.tuples(st.integers(-9, 9), TEXT, TEXT), max_size=5), st.integers(1, 3))
def test_rows_with_references_come_back_as_lists(rows, chunk):
    fields = [("n", word_element("int32")), ("name", UTF8), ("target", REFERENCE)]
    words = [("n", "int32"), ("name", "str"), ("target", "object")]
    made = plan_rows(rows, len(rows), fields, Layout(chunks=(chunk,)), as_reference)
    assert made.node.stored.chunks == (chunk, 3)
    assert made.node.stored.filters == [JSON2]
    assert made.node.attributes["zarr_dtype"] == [{"name": name, "dtype": word} for name, word in words]
    found = stored(made)
    assert found.shape == (len(rows), 3)
    assert found.tolist() == [[n, name, as_reference(target)] for n, name, target in rows]


# ---- stored types -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "word", "data_type", "zarr_dtype"),
    [
        ([1, 2], None, "<i8", "int64"),
        ([1, 2], "int", "<i4", "int32"),
        ([1.5], "float", "<f4", "float32"),
        ([True], None, "|b1", "bool"),
        (np.array([1], ">i2"), "int16", ">i2", "int16"),
        (np.array([1], "i2"), "int32", "<i4", "int32"),
        (np.array([1], "u1"), "numeric", "|u1", "uint8"),
        (np.array([b"ab"]), None, "|S2", "bytes"),
        (np.array([b"ab"]), "ascii", "|O", "str"),
        (np.array(["ab"]), None, "|O", "str"),
        (np.array(["a"], np.dtypes.StringDType()), None, "|O", "str"),
        ([datetime.date(2024, 2, 29)], "isodatetime", "|O", "str"),
        (np.array([1.5, 2], object), None, "<f8", "float64"),
        (np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]), None, [["a", "<i4"], ["b", "<f8"]],
         [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "float64"}]),
        ([(1, 2.5)], [{"name": "a", "dtype": "int"}, {"name": "b", "dtype": "float"}], [["a", "<i4"], ["b", "<f4"]],
         [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "float32"}]),
    ],
)  # fmt: skip
def test_types(data, word, data_type, zarr_dtype):
    made = planned(data, word)
    assert made.node.stored.data_type == data_type
    assert made.node.attributes["zarr_dtype"] == zarr_dtype
    assert stored(made).shape == (1,) if len(data) == 1 else (2,)


def test_padding_and_metadata_are_not_stored():
    h5py = pytest.importorskip("h5py")
    padded = np.dtype({"names": ["a", "b"], "formats": ["i1", "f8"], "offsets": [0, 8], "itemsize": 24})
    rows = np.zeros(2, padded)
    rows["b"] = [1.5, 2.5]
    assert stored(planned(rows)).tolist() == [(0, 1.5), (0, 2.5)]
    enum = np.array([1, 0], h5py.enum_dtype({"no": 0, "yes": 1}, basetype="u1"))
    assert planned(enum).node.stored.data_type == "|u1"


@pytest.mark.parametrize(
    ("value", "word", "data_type", "notes"),
    [
        ("text", None, "|O", {}),
        ("text", "ascii", "|O", {"text": "ascii"}),
        (datetime.datetime(2024, 2, 29), "isodatetime", "|O", {"text": "isodatetime"}),
        (datetime.datetime(2024, 2, 29), "datetime", "|O", {"text": "datetime"}),
        (b"text", None, "|O", {}),
        (b"\xff", None, "|O", {}),
        (5, None, "<i8", {}),
        (5, "uint8", "|u1", {}),
        (np.uint8(5), "uint8", "|u1", {}),
        (5.5, "float", "<f4", {}),
        (True, None, "|b1", {}),
        (np.datetime64("2024"), None, "<M8[Y]", {}),
        (1 + 2j, None, "<c16", {}),
    ],
)
def test_scalars(value, word, data_type, notes):
    made = plan_scalar(value, word, Layout(), no_reference)
    assert made.node.stored.data_type == data_type
    assert made.node.attributes["zarr_dtype"] == "scalar"
    assert made.notes == notes
    assert stored(made).shape == (1,)


def test_empty_data_need_a_type():
    assert planned(np.zeros((0, 3), "i2")).source is None
    assert planned(np.zeros((0, 3), "i2")).node.stored.shape == (0, 3)
    assert planned([], "int").node.stored.data_type == "<i4"
    assert planned([], "utf8").node.stored.filters == [VLEN_UTF8]
    with pytest.raises(ValueRefusedError, match="empty data without a type"):
        planned([])


def test_options_are_stored():
    codec = {"id": "zlib", "level": 1}
    filters = [{"id": "shuffle", "elementsize": 4}]
    node = planned(np.arange(6, dtype="i4"), chunks=(4,), compressor=codec, filters=filters, fill_value=7).node
    assert (node.stored.chunks, node.stored.compressor, node.stored.filters, node.stored.fill_value) == (
        (4,),
        codec,
        filters,
        7,
    )
    assert planned(np.arange(6), compressor=False).node.stored.compressor is None
    assert planned(np.arange(6), compressor=True).node.stored.compressor["id"] == "blosc"
    with pytest.raises(UsageError, match=r"chunks \(2, 2\) do not fit the shape \(6,\)"):
        planned(np.arange(6), chunks=(2, 2))


@pytest.mark.parametrize(
    ("data", "word"),
    [
        ([[1, 2], [3]], None),
        ([[1, 2], 3], None),
        ([1, None], None),
        ([1, "a"], "int"),
        ([2**70], None),
        ([300], "uint8"),
        (np.array([object()]), None),
        (np.array([1], np.longdouble), None),
        (np.array([1, None], object), None),
        ([1], "nonsense"),
    ],
)
def test_invalid_arrays_are_refused_before_anything_is_written(data, word):
    with pytest.raises(ValueRefusedError) as caught:
        stored(planned(data, word))
    assert str(caught.value)


@pytest.mark.parametrize("data", [["a", None], [["a", "b"], ["c"]], ["a", 5], np.array(["a", None], object), [b"a", 5]])
def test_what_is_no_text_is_refused(data):
    with pytest.raises(ValueRefusedError):
        stored(planned(data, "utf8"))


@pytest.mark.parametrize(
    ("value", "word"),
    [(300, "uint8"), (-1, "uint8"), (1.5, "int"), (2**70, None), (None, None), ({}, None), (object(), None)],
)
def test_scalars_that_do_not_fit_are_refused(value, word):
    with pytest.raises(ValueRefusedError):
        plan_scalar(value, word, Layout(), no_reference)


@pytest.mark.parametrize(
    ("value", "dtype"), [(300, "u1"), (1.5, "i4"), (float("nan"), "i4"), ("x", "f8"), (1 + 1j, "f8"), (2, "?")]
)
def test_fill_values_that_do_not_fit_are_refused(value, dtype):
    with pytest.raises(ValueRefusedError):
        encode_fill(value, np.dtype(dtype))


# ---- shapes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "shape", "leaf"),
    [
        (5, (), 5),
        ("text", (), "text"),
        (b"ab", (), b"ab"),
        ({"a": 1}, (), {"a": 1}),
        ([], (0,), None),
        ([[]], (1, 0), None),
        ([[1, 2], [3, 4]], (2, 2), 1),
        (("a",), (1,), "a"),
        ([np.zeros((2, 3))], (1, 2, 3), 0.0),
        (np.zeros((0, 3)), (0, 3), None),
        (np.array(5), (), 5),
        ({"x"}, (1,), "x"),
        (np.array("a", object), (), "a"),
        (np.float32(1.5), (), np.float32(1.5)),
        (np.array([["a"]], object), (1, 1), "a"),
    ],
)
def test_shapes_and_first_elements(data, shape, leaf):
    assert shape_of(data) == shape
    assert first_leaf(data) == leaf


def test_what_hdmf_takes_for_one_value_is_one():
    column = VectorData(name="x", description="d", data=[1, 2])  # it has a shape and a length itself
    builder = GroupBuilder("g", groups={"a": GroupBuilder("a")})
    for value in (column, builder):
        assert shape_of(value) == ()
        assert first_leaf(value) is value
        assert shape_of([[value, value]]) == (1, 2)
        assert first_leaf([[value, value]]) is value


def test_datasets_without_a_value_and_arrays_of_zarr_have_shapes(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        assert first_leaf(file.create_dataset("null", dtype="i4")) is None
        assert first_leaf(file.create_dataset("scalar", data=5)) == 5
        assert shape_of([file["scalar"]]) == (1,)
    raw = array_in_memory(np.arange(6).reshape(2, 3))
    assert shape_of(raw) == (2, 3)
    assert first_leaf(raw) == 0


# ---- HDF5 ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def h5(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        yield file


def test_text_of_hdf5_is_text_or_bytes(h5):
    import h5py

    words = h5.create_dataset("words", data=["a", "größer", ""], dtype=h5py.string_dtype())
    broken = h5.create_dataset("broken", data=np.array([b"a", b"\xb5V"], object), dtype=h5py.string_dtype())
    single = h5.create_dataset("single", data="größer")
    assert stored(planned(words)).tolist() == ["a", "größer", ""]
    assert stored(planned(broken)).tolist() == [b"a", b"\xb5V"]
    assert planned(broken).node.stored.filters == [VLEN_BYTES]
    assert stored(planned(single)).tolist() == ["größer"]


def test_booleans_and_enumerations_of_hdf5_are_numbers(h5):
    import h5py

    flags = h5.create_dataset("flags", data=[True, False])
    levels = h5.create_dataset("levels", data=[1, 0], dtype=h5py.enum_dtype({"LOW": 0, "HIGH": 1}, basetype="i1"))
    assert planned(flags).node.stored.data_type == "|b1"
    assert stored(planned(flags)).tolist() == [True, False]
    assert planned(levels).node.stored.data_type == "|i1"
    assert stored(planned(levels)).tolist() == [1, 0]
