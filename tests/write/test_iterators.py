"""Data chunk iterators: blocks in any order, of any kind of selection, into an array that grows on any axis."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hdmf.data_utils import DataChunk, DataChunkIterator, GenericDataChunkIterator
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import UsageError, ValueRefusedError
from hdmf_zarr_backend.formats.chunking import CHUNK_BYTES
from hdmf_zarr_backend.formats.new_datasets import Layout
from hdmf_zarr_backend.formats.zarr2 import encode_array
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.transfer import iterators
from hdmf_zarr_backend.transfer.iterators import GrowingArray, plan_iterator
from tests.blocks import Blocks
from tests.keystores import MemoryKeys
from tests.strategies import TEXT, expected
from tests.zarrs import memory_store, open_array


def exhaust(iterator: Any, word: Any = None, **options: Any) -> tuple[Dataset, MemoryKeys]:
    """Return what was written."""
    planned = plan_iterator(iterator, word, Layout(**options))
    keys = MemoryKeys()
    array = GrowingArray(keys, "a", planned.node.stored)
    for block in planned.iterator:
        array.put(block)
    array.finish()
    return planned.node, keys


def read(node: Dataset, keys: MemoryKeys) -> np.ndarray[Any, Any]:
    return LazyArray(keys, "a", node, ChunkCache())[...]


def read_by_zarr(node: Dataset, keys: MemoryKeys) -> np.ndarray[Any, Any]:
    values = {**keys.values, "a/.zarray": json.dumps(encode_array(node.stored)).encode()}
    return np.asarray(open_array(memory_store(values), path="a")[...])


def numbers(*shape: int, start: int = 1) -> np.ndarray[Any, Any]:
    return np.arange(start, start + int(np.prod(shape)), dtype="<i4").reshape(shape)


# ---- the law -------------------------------------------------------------------------------------------------------


def _parts(length: int) -> st.SearchStrategy[Any]:
    """Return the selections that a block may have on one axis of at most ``length``."""
    index = st.integers(0, length - 1)
    places = st.lists(index, min_size=1, max_size=4, unique=True)
    bounds = st.tuples(index, st.integers(1, length), st.integers(1, 3))
    return st.one_of(
        index,
        bounds.map(lambda b: slice(b[0], max(b[0] + 1, b[1]), b[2])),
        bounds.map(lambda b: slice(None, b[1])),
        places,
        places.map(lambda given_places: np.array(given_places, np.uint64)),
    )


@st.composite
def scattered(draw: st.DrawFn) -> tuple[int, tuple[int, ...], list[tuple[Any, ...]], dict[str, Any]]:
    rank = draw(st.integers(1, 3))
    selections = [tuple(draw(_parts(7)) for _ in range(rank)) for _ in range(draw(st.integers(0, 5)))]
    chunks = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    options = {"fill_value": draw(st.sampled_from([None, 9])), "compressor": draw(st.booleans())}
    return rank, chunks, selections, options


@settings(max_examples=150)
@given(scattered(), st.sampled_from([16, 200, 2**26]))
def test_blocks_in_any_order_make_the_array_that_numpy_makes(case, waiting):
    rank, chunks, selections, options = case
    full = np.full((7,) * rank, options["fill_value"] or 0, "<i4")
    shape = (0,) * rank
    blocks = []
    for number, selection in enumerate(selections):
        places = expected(np.arange(full.size).reshape(full.shape), selection)
        data = numbers(*places.shape, start=100 * (number + 1))
        full.reshape(-1)[places] = data
        ends = [np.arange(7)[part] if isinstance(part, slice) else np.atleast_1d(part) for part in selection]
        shape = tuple(max(n, int(max(end)) + 1) for n, end in zip(shape, ends, strict=True))
        # a slice states its end, even where its step does not reach it
        stops = [part.stop if isinstance(part, slice) else 0 for part in selection]
        shape = tuple(max(n, stop) for n, stop in zip(shape, stops, strict=True))
        blocks.append(DataChunk(data=np.asarray(data), selection=selection[0] if rank == 1 else selection))
    kept = iterators.WAITING_BYTES
    iterators.WAITING_BYTES = waiting
    try:
        node, keys = exhaust(Blocks(blocks, (None,) * rank, np.dtype("<i4")), chunks=chunks, **options)
    finally:
        iterators.WAITING_BYTES = kept
    wanted = full[tuple(slice(0, n) for n in shape)]
    assert node.stored.shape == shape
    assert read(node, keys).tolist() == wanted.tolist()
    assert read_by_zarr(node, keys).tolist() == wanted.tolist()
    assert len(keys.values) == int(np.prod(node.stored.grid))  # every chunk is there, and nothing else


@settings(max_examples=50)
@given(st.integers(0, 30), st.integers(1, 9), st.integers(1, 9), st.integers(1, 4))
def test_rows_in_order_set_each_chunk_once(rows, buffer, chunk, width):
    data = numbers(rows, width)
    node, keys = exhaust(
        DataChunkIterator(data=iter(data), maxshape=(None, width), dtype=np.dtype("<i4"), buffer_size=buffer),
        chunks=(chunk, width),
    )
    assert node.stored.shape == (rows or 1, width)  # hdmf recommends to begin with one row
    assert len(keys.keys_set()) == len(set(keys.keys_set()))
    assert [operation for operation, _ in keys.calls] == ["set"] * len(keys.calls)
    assert read(node, keys)[:rows].tolist() == data.tolist()


@settings(max_examples=50)
@given(st.lists(TEXT, max_size=12), st.integers(1, 5), st.integers(1, 4))
def test_text_comes_back(words, buffer, chunk):
    blocks = [
        DataChunk(data=np.array(words[i : i + buffer], object), selection=slice(i, min(i + buffer, len(words))))
        for i in range(0, len(words), buffer)
    ]
    node, keys = exhaust(Blocks(blocks[::-1], (None,), str), chunks=(chunk,))
    assert node.attributes["zarr_dtype"] == "str"
    assert read(node, keys).tolist() == words


# ---- iterators of hdmf ---------------------------------------------------------------------------------------------


class Generic(GenericDataChunkIterator):
    def __init__(self, array: Any, **options: Any) -> None:
        self.array = array
        super().__init__(**options)

    def _get_data(self, selection: Any) -> Any:
        return self.array[selection]

    def _get_maxshape(self) -> Any:
        return self.array.shape

    def _get_dtype(self) -> Any:
        return self.array.dtype


def test_a_generic_iterator_writes_the_chunks_that_it_recommends():
    array = numbers(20, 6)
    node, keys = exhaust(Generic(array, buffer_shape=(8, 6), chunk_shape=(4, 3)))
    assert node.stored.chunks == (4, 3)
    assert read(node, keys).tolist() == array.tolist()
    assert len(keys.keys_set()) == 10


def test_rows_without_an_end_in_their_selection_say_their_length_by_their_data():
    array = numbers(5, 3, 2)
    node, keys = exhaust(DataChunkIterator(data=iter(array), maxshape=(None, None, None), dtype=array.dtype))
    assert node.stored.shape == (5, 3, 2)
    assert read(node, keys).tolist() == array.tolist()


def test_gaps_are_the_fill_value():
    node, keys = exhaust(DataChunkIterator(data=iter([1, None, None, 4]), dtype=np.dtype("<i4"), maxshape=(None,)))
    assert read(node, keys).tolist() == [1, 0, 0, 4]


# ---- hints ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hint", [None, (), (0, 2), (None, 2), (4,), "no"])
def test_hints_that_say_nothing_are_not_needed(hint):
    block = DataChunk(data=numbers(3, 2), selection=(slice(0, 3), slice(0, 2)))
    node, keys = exhaust(Blocks([block], (None, 2), np.dtype("<i4"), chunk_shape=hint, data_shape=hint))
    assert node.stored.shape == (3, 2)
    assert node.stored.chunks == (CHUNK_BYTES // 8, 2)
    assert read(node, keys).tolist() == numbers(3, 2).tolist()


@pytest.mark.parametrize(
    ("maxshape", "first", "chunks"),
    [
        ((None,), None, (CHUNK_BYTES // 4,)),
        ((None, 10), None, (CHUNK_BYTES // 40, 10)),
        ((None, None), None, (1024, 1024)),
        ((None, None), (1, 10), (CHUNK_BYTES // 40, 10)),
        ((5, None), None, (5, 1024)),
    ],
)
def test_chunks_are_chosen_by_bytes_and_never_one_row_of_half_a_million(maxshape, first, chunks):
    planned = plan_iterator(Blocks([], maxshape, np.dtype("<i4"), data_shape=first), None, Layout())
    assert planned.node.stored.chunks == chunks


@pytest.mark.parametrize(
    ("dtype", "word", "stored"),
    [
        ("int16", None, "<i2"),
        ("<i2", None, "<i2"),
        ("float", None, "<f4"),
        ("text", None, "|O"),
        ("utf8", None, "|O"),
        (str, None, "|O"),
        (np.dtype("U5"), None, "|O"),
        (np.dtype("S5"), None, "|O"),
        (np.uint8, None, "|u1"),
        (np.dtype(">f8"), None, ">f8"),
        (np.dtype(">f8"), "float64", ">f8"),
        (np.dtype("f8"), "float32", "<f4"),
        (None, "int32", "<i4"),
        ("nonsense", "int32", "<i4"),
        (np.dtype("O"), "text", "|O"),
        (np.dtype("i2"), "numeric", "<i2"),
        (np.dtype([("a", "i4"), ("b", "f8")]), None, [["a", "<i4"], ["b", "<f8"]]),
    ],
)
def test_the_type_is_what_the_schema_says_or_the_iterator(dtype, word, stored):
    planned = plan_iterator(Blocks([], (None,), dtype), word, Layout())
    assert planned.node.stored.data_type == stored


# ---- bad input -----------------------------------------------------------------------------------------------------


def test_an_iterator_without_a_shape_or_a_type_is_refused():
    with pytest.raises(ValueRefusedError, match="no maxshape"):
        plan_iterator(Blocks([], None, "int"), None, Layout())
    with pytest.raises(ValueRefusedError, match="no dtype"):
        plan_iterator(Blocks([], (None,), None), None, Layout())
    with pytest.raises(UsageError, match=r"chunks \(3,\) do not fit the maxshape \(None, 2\)"):
        plan_iterator(Blocks([], (None, 2), "int"), None, Layout(chunks=(3,)))


@pytest.mark.parametrize(
    ("selection", "data"),
    [
        (np.s_[0:3, 0:2], numbers(2, 3)),  # as many elements, and another shape
        (np.s_[0:3, 0:2], numbers(3)),
        (np.s_[0:3, 0:2, 0], numbers(3, 2)),
        (np.s_[-5, 0], numbers(1)),
        ("text", numbers(3)),
    ],
)
def test_blocks_that_do_not_fit_their_selection_are_refused(selection, data):
    array = GrowingArray(MemoryKeys(), "a", plan_iterator(Blocks([], (None, 2), "int32"), None, Layout()).node.stored)
    with pytest.raises(ValueRefusedError, match="does not fit"):
        array.put(DataChunk(data=data, selection=selection))
    assert array.array.shape == (0, 0)


def test_single_values_and_rows_are_spread():
    array = [
        DataChunk(data=np.array(7, "i4"), selection=np.s_[0:2, 0:3]),
        DataChunk(data=numbers(3), selection=np.s_[2:4, 0:3]),
        DataChunk(data=numbers(1, 3), selection=np.s_[4, 0:3]),
        DataChunk(data=None, selection=np.s_[9, 0:3]),
        DataChunk(data=np.empty((0, 3), "i4"), selection=np.s_[0:0, 0:3]),
    ]
    node, keys = exhaust(Blocks(array, (None, 3), "int32"))
    assert read(node, keys).tolist() == [[7, 7, 7], [7, 7, 7], [1, 2, 3], [1, 2, 3], [1, 2, 3]]


@pytest.mark.parametrize(("dtype", "data"), [("int32", [1.5]), ("uint8", [300]), ("bool", [2])])
def test_numbers_that_would_become_others_are_refused(dtype, data):
    with pytest.raises(ValueRefusedError, match="without loss"):
        exhaust(Blocks([DataChunk(data=np.array(data), selection=slice(0, 1))], (None,), dtype))


def test_what_is_no_text_is_refused():
    with pytest.raises(ValueRefusedError, match="where text is expected"):
        exhaust(Blocks([DataChunk(data=np.array([None], object), selection=slice(0, 1))], (None,), str))


def test_compounds_from_an_iterator_are_stored_as_those_of_an_array():
    dtype = np.dtype([("a", "<i4"), ("b", "<f8")])
    node, _ = exhaust(Blocks([], (None,), dtype))
    assert node.attributes["zarr_dtype"] == [{"name": "a", "dtype": "int32"}, {"name": "b", "dtype": "float64"}]


@pytest.mark.parametrize(
    ("word", "dtype", "notes"),
    [
        ("ascii", "S1", {"text": "ascii"}),
        ("isodatetime", "U1", {"text": "isodatetime"}),
        ("datetime", "U1", {"text": "datetime"}),
        (None, "ascii", {"text": "ascii"}),
        ("utf8", "U1", {}),
    ],
)
def test_text_from_an_iterator_keeps_its_kind(word, dtype, notes):
    assert plan_iterator(Blocks([], (None,), dtype), word, Layout()).notes == notes
