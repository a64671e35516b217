"""`EditableArray`: any sequence of changes is what NumPy makes of it, before and after it is written."""

from __future__ import annotations

import copy
import json
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import ArrayContext, LazyArray
from hdmf_zarr_backend.changes import edits as edits_module
from hdmf_zarr_backend.changes.editable import EditableArray
from hdmf_zarr_backend.changes.edits import DeferredReference
from hdmf_zarr_backend.errors import ConflictError, UsageError, ValueRefusedError
from hdmf_zarr_backend.formats.new_datasets import JSON2
from hdmf_zarr_backend.formats.zarr2 import encode_array
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.model.stored import StoredArray
from tests.editing import (
    Model,
    edits_of,
    flush,
    follow,
    histories,
    numbers,
    plain,
    read_again,
    read_by_zarr,
    write_array,
)
from tests.keystores import MemoryKeys


def editable(array: np.ndarray[Any, Any], chunks: tuple[int, ...], **options: Any) -> tuple[EditableArray, MemoryKeys]:
    """Return ``array``, written through an `EditableArray`, and its store."""
    bound = options.pop("maxshape", None)
    data_type: Any = "|O" if array.dtype.kind == "O" else array.dtype.str
    if array.dtype.names is not None:
        data_type = [list(field) for field in array.dtype.descr]
    stored = StoredArray(shape=(0,) * array.ndim, chunks=chunks, data_type=data_type, **options)
    keys = MemoryKeys({"g/a/.zarray": json.dumps(encode_array(stored)).encode()})
    node: Dataset[Any] = Dataset(stored)
    edits = edits_of(keys)
    write_array(array, node, edits, keys)
    return EditableArray(edits, keys, "g/a", node, ChunkCache(), ArrayContext(bound)), keys


# ---- the law -------------------------------------------------------------------------------------------------------


@settings(max_examples=150)
@given(histories())
def test_changes_are_those_of_numpy_and_what_is_written_is_what_zarr_reads(history):
    shape, chunks, todo, options = history
    lazy, keys = editable(numbers(*shape), chunks, **options)
    model = Model(numbers(*shape), options["fill_value"] or 0)
    follow(lazy, model, todo)
    assert read_again(keys).tolist() == model.array.tolist()
    assert read_by_zarr(keys).tolist() == model.array.tolist()
    for key in keys.values:
        assert all(i < n for i, n in zip(_index(key), lazy.node.stored.grid, strict=False)), (
            "a chunk beyond the array is left"
        )


def _index(key: str) -> tuple[int, ...]:
    name = key.removeprefix("g/a/")
    return () if name == ".zarray" else tuple(int(part) for part in name.replace("/", ".").split("."))


@settings(max_examples=60)
@given(st.lists(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=3), max_size=4))
def test_text_grows(blocks):
    lazy, keys = editable(np.empty(0, object), (3,), filters=[{"id": "vlen-utf8"}])
    whole: list[str] = []
    for block in blocks:
        lazy.append(block)
        whole += block
        assert lazy[...].tolist() == whole
    flush(lazy._edits)
    assert read_again(keys).tolist() == read_by_zarr(keys).tolist() == whole


# ---- cases ---------------------------------------------------------------------------------------------------------


def test_nothing_is_written_before_it_is_asked_for_and_then_chunks_come_before_the_document():
    lazy, keys = editable(numbers(6), (4,))
    lazy.append([6, 7, 8])
    lazy[0] = 100
    assert keys.keys_set() == []
    assert lazy._edits.pending
    assert flush(lazy._edits) == {"g/a"}
    assert keys.keys_set() == ["g/a/1", "g/a/2", "g/a/0", "g/a/.zarray"]
    assert flush(lazy._edits) == set()
    assert len(keys.keys_set()) == 4


def test_an_array_with_a_few_small_chunks_gets_larger_ones_when_it_grows_to_many():
    lazy, keys = editable(numbers(5), (2,))
    lazy.append(numbers(27))
    assert lazy.chunks == (2,)  # sixteen of them
    lazy[0] = 7
    lazy.append([-1])
    assert lazy.chunks == (2**16 // lazy.dtype.itemsize,)
    whole = [7, *numbers(5).tolist()[1:], *numbers(27).tolist(), -1]
    assert lazy[...].tolist() == whole
    flush(lazy._edits)
    assert sorted(keys.values) == ["g/a/.zarray", "g/a/0"]
    assert read_again(keys).tolist() == read_by_zarr(keys).tolist() == whole
    many = 40_000
    lazy.append(np.arange(many))
    flush(lazy._edits)
    assert len(keys.values) == 1 + -(-(33 + many) // lazy.chunks[0])
    assert read_by_zarr(keys).tolist() == [*whole, *range(many)]


def test_larger_chunks_hold_fewer_of_long_texts():
    for length, rows in ((10, 1024), (6400, 10), (100_000, 2)):
        lazy, _ = editable(np.array(["x" * length] * 3, object), (2,), filters=[{"id": "vlen-utf8"}])
        lazy.append(["y"] * 50)
        assert lazy.chunks == (rows,)
        assert lazy[...].tolist() == ["x" * length] * 3 + ["y"] * 50


def test_large_chunks_and_many_small_ones_stay_when_an_array_grows():
    for length, chunks in ((1000, (10,)), (6000, (3000,))):
        lazy, _ = editable(numbers(length), chunks)
        lazy.append(numbers(50_000))
        assert lazy.chunks == chunks


def test_chunks_of_an_array_that_was_given_larger_ones_are_written_early(monkeypatch):
    lazy, keys = editable(numbers(3), (2,))
    monkeypatch.setattr(edits_module, "WAITING_BYTES", 2**17)
    lazy.append(numbers(30))
    size = lazy.chunks[0]
    assert keys.keys_set() == []
    lazy.append(np.arange(4 * size))
    assert set(keys.keys_set()) == {"g/a/2", "g/a/3", "g/a/4"}  # beyond the array as it is there
    assert read_by_zarr(keys).tolist() == [0, 1, 2]
    flush(lazy._edits)
    whole = [*numbers(3).tolist(), *numbers(30).tolist(), *range(4 * size)]
    assert read_again(keys).tolist() == read_by_zarr(keys).tolist() == whole


def test_what_is_cut_away_does_not_come_back():
    lazy, keys = editable(numbers(10), (4,))
    lazy.resize(5)
    assert lazy[...].tolist() == [0, 1, 2, 3, 4]
    lazy.resize((11,))
    assert lazy[...].tolist() == [0, 1, 2, 3, 4, 0, 0, 0, 0, 0, 0]
    flush(lazy._edits)
    assert read_by_zarr(keys).tolist() == lazy[...].tolist()
    lazy.resize(1)
    flush(lazy._edits)
    assert sorted(keys.values) == ["g/a/.zarray", "g/a/0"]
    assert keys.calls[-1] == ("delete", "g/a/2")  # a reader of the old shape still finds something


def test_appending_touches_the_last_chunk_only():
    lazy, keys = editable(numbers(1000), (10,))
    for number in range(5):
        lazy.append([number])
    flush(lazy._edits)
    assert keys.keys_set() == ["g/a/100", "g/a/.zarray"]
    assert [key for operation, key in keys.calls if operation == "get"] == ["g/a/100"]


def test_many_changes_are_written_early_and_references_wait(monkeypatch):
    monkeypatch.setattr(edits_module, "WAITING_BYTES", 2000)
    keys = MemoryKeys()
    edits = edits_of(keys)
    node = StoredArray(shape=(0,), chunks=(1,), data_type="|O", filters=[dict(JSON2)])
    references = EditableArray(edits, keys, "refs", Dataset(node), ChunkCache())
    references.append(np.array([DeferredReference("/target")], object))
    data = StoredArray(shape=(0,), chunks=(100,), data_type="<i4")
    lazy = EditableArray(edits, keys, "data", Dataset(data), ChunkCache())
    lazy.append(numbers(1000))
    assert set(keys.values) <= {f"data/{i}" for i in range(10)}
    assert len(keys.values) >= 4
    assert lazy[...].tolist() == list(range(1000))
    lazy[150] = -1  # back into a chunk that was written
    flush(edits)
    assert set(keys.values) == {*(f"data/{i}" for i in range(10)), "data/.zarray", "refs/0", "refs/.zarray"}
    assert LazyArray(keys, "data", Dataset(data), ChunkCache())[148:152].tolist() == [148, 149, -1, 151]
    assert LazyArray(keys, "refs", Dataset(node), ChunkCache())[0] == {"path": "/target"}
    assert edits._bytes == 0


def test_a_reference_to_nothing_is_said_before_anything_is_written():
    lazy, keys = editable(np.empty(0, object), (4,), filters=[dict(JSON2)])
    lazy.append(np.array([DeferredReference("/nowhere"), {"path": "/a"}], object))

    def refuse(target: Any) -> Any:
        raise ConflictError("it is in no file")

    with pytest.raises(ConflictError) as caught:
        lazy._edits.flush(refuse)
    assert (caught.value.store, caught.value.path) == ("/memory.zarr", "/g/a")
    assert keys.keys_set() == []
    flush(lazy._edits)
    assert read_again(keys).tolist() == [{"path": "/nowhere"}, {"path": "/a"}]


def test_a_write_that_fails_can_be_tried_again():
    lazy, keys = editable(numbers(8), (4,))
    lazy.append(numbers(4))
    lazy[0] = 9
    wanted = lazy[...].tolist()

    def fail(operation: str, key: str) -> None:
        if key == "g/a/0":
            raise OSError("disk full")

    keys.fails = fail
    with pytest.raises(OSError, match="disk full"):
        lazy._edits.flush(plain)
    assert lazy[...].tolist() == wanted
    keys.fails = lambda operation, key: None
    assert flush(lazy._edits) == {"g/a"}
    assert read_by_zarr(keys).tolist() == wanted


def test_maxshape_is_a_bound():
    lazy, _ = editable(numbers(3), (4,), maxshape=(4,))
    assert lazy.append([3]) == (4,)
    with pytest.raises(UsageError, match=r"\(5,\) is beyond the largest one, \(4,\)") as caught:
        lazy.append([4])
    assert (caught.value.store, caught.value.path) == ("/memory.zarr", "/g/a")
    assert lazy[...].tolist() == [0, 1, 2, 3]
    assert lazy.shape == (4,)
    free, _ = editable(numbers(3), (4,), maxshape=(None,))
    assert free.append([1]) == (4,)
    unknown, _ = editable(numbers(3), (4,))
    assert unknown.append([1]) == unknown.maxshape == (4,)


def test_the_bound_of_rows_is_that_of_their_number():
    array = np.empty((1, 2), object)
    array[0] = [1, "a"]
    lazy, keys = editable(array, (4, 2), filters=[dict(JSON2)], maxshape=(None,))
    lazy.append([[2, "b"]])
    flush(lazy._edits)
    assert read_again(keys).tolist() == [[1, "a"], [2, "b"]]


@pytest.mark.parametrize(
    ("data", "axis"),
    [([1], 0), ([[1, 2]], 0), ([[1], [2]], 1), ([[[1, 2, 3]]], 0), ([[1, 2, 3]], 2), ([[1, 2, 3]], -3)],
)
def test_blocks_of_another_shape_are_refused(data, axis):
    lazy, keys = editable(numbers(4, 3), (2, 2))
    with pytest.raises(UsageError, match="cannot be appended to shape"):
        lazy.append(data, axis)
    assert lazy.shape == (4, 3)
    assert keys.calls == []


@pytest.mark.parametrize("shape", [(1, 2), (-1,), ()])
def test_shapes_of_another_rank_are_refused(shape):
    lazy, _ = editable(numbers(3), (4,))
    with pytest.raises(UsageError, match="is not a shape of 1 axes"):
        lazy.resize(shape)


@pytest.mark.parametrize("value", [[1, 2], np.zeros((2, 2)), np.zeros((1, 2))])
def test_values_that_do_not_fill_the_selection_are_refused(value):
    lazy, _ = editable(numbers(6), (4,))
    with pytest.raises(UsageError, match="do not fill the selection"):
        lazy[0:3] = value


def test_values_are_spread_as_numpy_spreads_them():
    lazy, _ = editable(numbers(4, 3), (2, 2))
    array = numbers(4, 3)
    for key, value in ((0, 7), (np.s_[:, 1], [1, 2, 3, 4]), (np.s_[1:3], [[5], [6]]), (np.s_[0, :], [[8, 9, 10]])):
        lazy[key] = value
        array[key] = np.array(value)
        assert lazy[...].tolist() == array.tolist()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("<i4", 1.5),
        ("<i4", "a"),
        ("<i4", None),
        ("<i4", float("nan")),
        ("<i4", np.array([np.nan])),
        ("|u1", 300),
        ("|u1", np.array([300])),
        ("|u1", -1),
        ("|b1", 2),
        ("<i4", 2**40),
        ("<f4", "a"),
        ("<f4", [[1.0], [1.0, 2.0]]),
        ("<U2", "abc"),
        ("<U2", np.array(["abc"])),
        ("|S2", b"abc"),
        ("|S2", "\u00e9"),
        ([("i", "<i4"), ("text", "<U2")], np.array([(1, "abc")], [("i", "<i4"), ("text", "<U3")])),
        ([("i", "<i4"), ("text", "<U2")], (1, "abc")),
    ],
)
def test_numbers_that_do_not_fit_are_refused(dtype, value):
    lazy, _ = editable(np.zeros(3, dtype), (4,))
    with pytest.raises(ValueRefusedError, match=r"do not fit|are no|None cannot be stored") as caught:
        lazy[0] = value
    assert (caught.value.store, caught.value.path) == ("/memory.zarr", "/g/a")
    assert lazy[...].tolist() == np.zeros(3, dtype).tolist()


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("<i4", 2.0),
        ("<i8", np.uint64(5)),
        ("|b1", 1),
        ("<f4", 0.1),
        ("<f4", 2**40),
        ("<U2", "ab"),
        ("|S2", "ab"),
        ("|S3", b"ab"),
    ],
)
def test_numbers_that_fit_are_taken(dtype, value):
    lazy, _ = editable(np.zeros(3, dtype), (4,))
    lazy[1] = value
    assert lazy[1] == np.array(value, dtype)[()]


@pytest.mark.parametrize("item", [5, None, b"\xff", "\udcff", {"a": 1}])
def test_what_is_no_text_is_refused(item):
    lazy, _ = editable(np.array(["a"], object), (4,), filters=[{"id": "vlen-utf8"}])
    with pytest.raises(ValueRefusedError, match=r"is not text|holds surrogates"):
        lazy.append(np.array([item], object))
    assert lazy[...].tolist() == ["a"]


def test_text_and_bytes_are_stored_as_the_column_stores_them():
    text, _ = editable(np.array(["a"], object), (4,), filters=[{"id": "vlen-utf8"}])
    text.extend([b"b", np.str_("c")])
    text.append(np.array(["d"]))
    assert text[...].tolist() == ["a", "b", "c", "d"]
    raw, _ = editable(np.array([b"a"], object), (4,), filters=[{"id": "vlen-bytes"}])
    raw.extend(["ü", b"\xff"])
    assert raw[...].tolist() == [b"a", "ü".encode(), b"\xff"]
    raw.extend([])
    assert raw.shape == (3,)


def test_rows_that_differ_in_length_are_refused():
    array = np.empty((1, 2), object)
    array[0] = [1, "a"]
    lazy, _ = editable(array, (4, 2), filters=[dict(JSON2)])
    with pytest.raises(ValueRefusedError, match="rows differ in length"):
        lazy.append([[1, "a"], [2]])


def test_a_stored_array_can_be_appended():
    lazy, _ = editable(numbers(3), (2,))
    other, _ = editable(numbers(2), (2,))
    lazy.append(other)
    assert lazy[...].tolist() == [0, 1, 2, 0, 1]
    words, _ = editable(np.array(["a"], object), (4,), filters=[{"id": "vlen-utf8"}])
    words.append(words)
    assert words[...].tolist() == ["a", "a"]


def test_an_array_that_is_open_for_changes_is_one():
    lazy, _ = editable(numbers(3), (4,))
    assert copy.copy(lazy) is lazy
    assert copy.deepcopy(lazy) is lazy
    with pytest.raises(TypeError, match="open the file for reading"):
        pickle.dumps(lazy)


def words() -> EditableArray:
    return editable(np.array(["a"], object), (4,), filters=[{"id": "vlen-utf8"}])[0]


AXES = "Give as many axes, with the same lengths except along the one that grows."


@pytest.mark.parametrize(
    ("act", "problem", "remedy"),
    [
        (
            lambda: editable(numbers(4, 3), (2, 2))[0].append([[1, 2]]),
            "data of shape (1, 2) cannot be appended to shape (4, 3) along axis 0",
            AXES,
        ),
        (
            lambda: editable(numbers(4, 3), (2, 2))[0].append([[1, 2, 3]], -1),
            "data of shape (1, 3) cannot be appended to shape (4, 3) along axis 1",
            AXES,
        ),
        (
            lambda: editable(numbers(3), (4,))[0].resize(2, 2),
            "(2, 2) is not a shape of 1 axes",
            "Give a length of 0 or more for each axis.",
        ),
        (
            lambda: editable(numbers(3), (4,), maxshape=(4,))[0].resize(5),
            "the shape (5,) is beyond the largest one, (4,)",
            "Write the data to a new dataset.",
        ),
        (
            lambda: editable(numbers(6), (4,))[0].__setitem__(slice(0, 3), [1, 2]),
            "data of shape (2,) do not fill the selection, which has shape (3,)",
            "Give data of the shape of the selection, or one value.",
        ),
        (
            lambda: editable(np.zeros(3, "<i4"), (4,))[0].append([1.5]),
            "element 0: the data do not fit int32 without loss: 1.5 of type float64",
            "Convert the values, or write them to a dataset of another type.",
        ),
        (
            lambda: editable(np.zeros(3, "<i4"), (4,))[0].append(["a"]),
            "element 0: the data do not fit int32 without loss: 'a' of type str",
            "Convert the values, or write them to a dataset of another type.",
        ),
        (
            lambda: words().append([5]),
            "element 0: 5 of type int is not text, where text is expected",
            "Replace it by text; an empty string for a missing value.",
        ),
        (
            lambda: words().append([b"\xff"]),
            "element 0: b'\\xff' is not UTF-8 and so is not text, where text is expected",
            "Decode it, or give only bytes.",
        ),
        (
            lambda: editable(np.empty((1, 2), object), (4, 2), filters=[dict(JSON2)])[0].append([[1, 2], [1]]),
            "rows differ in length",
            "Give as many elements in each.",
        ),
    ],
    ids=["rows", "columns", "rank", "bound", "selection", "loss", "type", "text", "bytes", "ragged"],
)
def test_an_error_names_the_array_and_what_to_do(act, problem, remedy):
    with pytest.raises((UsageError, ValueRefusedError)) as caught:
        act()
    assert str(caught.value) == f"/memory.zarr: {problem} (/g/a). {remedy}"


def test_axes_count_from_the_last_too():
    lazy, _ = editable(numbers(2, 2), (2, 2), maxshape=(None, 3))
    assert lazy.append([[7], [8]], -1) == (2, 3)
    assert lazy.append([[1, 2, 3]], -2) == (3, 3)
    assert lazy[...].tolist() == [[0, 1, 7], [2, 3, 8], [1, 2, 3]]
    lazy.resize((0, 0))
    lazy.resize([1, 1])
    assert lazy[...].tolist() == [[0]]
