"""`LazyArray`: reading it is reading NumPy, and it is what hdmf, pynwb and h5py's users expect of a dataset."""

from __future__ import annotations

import copy
import itertools
import json
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.fills import fill_array
from hdmf_zarr_backend.arrays.lazy import ArrayContext, LazyArray
from hdmf_zarr_backend.errors import ChunkError, MetadataError, ModeError
from hdmf_zarr_backend.formats.dtypes import zarr_type
from hdmf_zarr_backend.formats.new_datasets import JSON2
from hdmf_zarr_backend.formats.zarr2 import encode_array
from hdmf_zarr_backend.model.nodes import Dataset
from hdmf_zarr_backend.model.stored import ChunkKeys, StoredArray
from hdmf_zarr_backend.stores.local import LocalStore
from tests.keystores import MemoryKeys
from tests.strategies import PLAIN, STRUCTURED, TEXT, expected, raw_arrays, selections, shapes
from tests.zarrs import IS_ZARR_2

CODECS = [None, {"id": "zlib", "level": 1}, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}]


def stored(
    array: np.ndarray[Any, Any],
    chunks: tuple[int, ...] | None = None,
    *,
    missing: Any = (),
    keys: Any = None,
    path: str = "g/a",
    **options: Any,
) -> LazyArray:
    """Return ``array`` as a stored one; chunks whose number is in ``missing`` are not written."""
    chunks = chunks or tuple(max(1, n) for n in array.shape)
    kinds = {"O": [{"id": "vlen-utf8"}]}
    options.setdefault("filters", kinds.get(array.dtype.kind))
    data_type = "|O" if array.dtype.kind == "O" else zarr_type(array.dtype)
    node = StoredArray(shape=array.shape, chunks=chunks, data_type=data_type, **options)
    keys = keys if keys is not None else MemoryKeys()
    codec = chunk_codec(node)
    for number, index in enumerate(itertools.product(*map(range, node.grid))):
        if number in missing:
            continue
        chunk = fill_array(node, codec.dtype, chunks)
        part = array[tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))]
        chunk[tuple(slice(0, n) for n in part.shape)] = part
        keys.set(f"{path}/{node.chunk_name(index)}", codec.encode(chunk))
    keys.set(f"{path}/.zarray", json.dumps(encode_array(node)).encode())
    return LazyArray(keys, path, Dataset(node), ChunkCache())


def numbers(*shape: int, dtype: str = "i4") -> np.ndarray[Any, Any]:
    return np.arange(int(np.prod(shape))).astype(dtype).reshape(shape)


def assert_same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, np.ndarray) and wanted.ndim:
        assert isinstance(found, np.ndarray)
        assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
        assert found.tolist() == wanted.tolist() if wanted.dtype.kind == "O" else found.tobytes() == wanted.tobytes()
    else:
        wanted = wanted if isinstance(wanted, (str, bytes)) else wanted[()]
        assert type(found) is type(wanted)
        assert found == wanted if isinstance(wanted, (str, bytes)) else found.tobytes() == wanted.tobytes()


@dataclass
class Case:
    """An array, how it is stored, and a key; not a `LazyArray`, since hypothesis shows what it has drawn."""

    array: np.ndarray[Any, Any]
    chunks: tuple[int, ...]
    missing: set[int]
    options: dict[str, Any]
    key: Any

    def stored(self) -> LazyArray:
        return stored(self.array, self.chunks, missing=self.missing, **self.options)


@st.composite
def cases(draw: st.DrawFn, arrays: st.SearchStrategy[np.ndarray[Any, Any]]) -> Case:
    array = draw(arrays).copy()
    chunks = tuple(draw(st.integers(1, max(1, n) + 2)) for n in array.shape)
    grid = [range(-(-n // c)) for n, c in zip(array.shape, chunks, strict=True)]
    missing = draw(st.sets(st.integers(0, 12), max_size=3))
    for number, index in enumerate(itertools.product(*grid)):
        if number in missing:
            gap = tuple(slice(i * c, (i + 1) * c) for i, c in zip(index, chunks, strict=True))
            array[gap] = "" if array.dtype.kind == "O" else np.zeros((), array.dtype)
    options = {"order": draw(st.sampled_from("CF")), "chunk_keys": ChunkKeys("v2", draw(st.sampled_from("./")))}
    options["compressor"] = draw(st.sampled_from(CODECS))
    return Case(array, chunks, missing, options, draw(selections(array.shape)))


@st.composite
def texts(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    shape = draw(shapes(most=2, longest=5))
    array = np.empty(shape, object)
    array.reshape(-1)[:] = draw(st.lists(TEXT, min_size=array.size, max_size=array.size))
    return array


# ---- laws ----------------------------------------------------------------------------------------------------------


@settings(max_examples=250)
@given(cases(raw_arrays(st.just(np.dtype("<i4")), shapes(most=4))))
def test_selections_of_numbers_are_those_of_numpy(case):
    lazy, array, key = case.stored(), case.array, case.key
    assert_same(lazy[key], expected(array, key))
    assert_same(lazy[key], expected(array, key))  # from the cache


@given(cases(raw_arrays(PLAIN | STRUCTURED, shapes(longest=4))))
def test_selections_of_every_type_are_those_of_numpy(case):
    lazy, array, key = case.stored(), case.array, case.key
    assert lazy.dtype == array.dtype
    assert_same(lazy[key], expected(array, key))


@given(cases(texts()))
def test_selections_of_text_are_those_of_numpy(case):
    lazy, array, key = case.stored(), case.array, case.key
    assert_same(lazy[key], expected(array, key))


@settings(max_examples=50)
@given(st.data())
def test_selections_are_those_of_h5py_where_it_knows_them(data):
    h5py = pytest.importorskip("h5py")
    array = data.draw(raw_arrays(st.just(np.dtype("<i4")), shapes(longest=6)))
    lazy = stored(array, tuple(data.draw(st.integers(1, max(1, n))) for n in array.shape))
    key = data.draw(selections(array.shape))
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, np.ndarray) and part.dtype.kind == "u" for part in parts):
        return  # whose order h5py does not see, so that it sorts what it gives
    with h5py.File("memory.h5", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset("x", data=array)
        try:
            wanted = dataset[key]
        except (TypeError, ValueError):
            return  # it has no negative steps, no repeated indices and no second list
    assert_same(lazy[key], np.asarray(wanted))


@settings(max_examples=50)
@given(cases(raw_arrays(st.just(np.dtype("<i4")))))
def test_iterating_and_converting_give_what_numpy_gives(case):
    lazy, array = case.stored(), case.array
    assert len(lazy) == len(array)
    assert [np.asarray(row).tolist() for row in lazy] == array.tolist()
    assert np.asarray(lazy).tolist() == lazy.tolist() == array.tolist()
    assert np.array(lazy, "f8").dtype == lazy.astype("f8").dtype == np.dtype("f8")
    assert (lazy.shape, lazy.ndim, lazy.size, lazy.nbytes) == (array.shape, array.ndim, array.size, array.nbytes)


@given(shapes(longest=5).filter(lambda s: len(s) > 1).flatmap(lambda s: st.tuples(st.just(s), st.integers(0, 99))))
def test_masks_of_the_whole_shape_are_those_of_numpy(case):
    shape, seed = case
    array = numbers(*shape)
    mask = np.random.default_rng(seed).random(shape) < 0.3
    assert_same(stored(array, tuple(max(1, n // 2) for n in shape))[mask], array[mask])


# ---- keys that select nothing ---------------------------------------------------------------------------------------

H5PY_ERRORS = [
    (10, (10,)),
    (0, (0,)),
    ((0, 7), (3, 5)),
    ((1, 2), (5,)),
    ((1, 2, 3), (4, 5)),
]


@pytest.mark.parametrize(("key", "shape"), H5PY_ERRORS)
def test_errors_of_keys_are_those_of_h5py(key, shape, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        dataset = file.create_dataset("x", shape=shape, dtype="i4")
        with pytest.raises((IndexError, ValueError)) as theirs:
            dataset[key]
    with pytest.raises(IndexError) as ours:
        stored(numbers(*shape))[key]
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (-11, r"Index \(-11\) out of range for \(0-9\)"),
        ([0, 10], r"Index \(10\) out of range for \(0-9\)"),
        ([-11], r"Index \(-11\) out of range for \(0-9\)"),
        (np.array([2**64 - 1], np.uint64), r"Index \(18446744073709551615\) out of range for \(0-9\)"),
        (np.uint64(2**64 - 1), r"Index \(18446744073709551615\) out of range"),
        ([True] * 9, r"a mask of shape \(9,\) does not fit an axis of length 10"),
        ([1.5], "must be a list of integers"),
        ([[1, 2]], "must be a list of integers"),
        ([[1], [1, 2]], "not a list of indices"),
        (["a"], "must be a list of integers"),
        (1.0, "is not an index"),
        (b"a", "is not an index"),
        (None, "is not an index"),
        (True, "is not an index"),
        (np.True_, "is not an index"),
        (np.array(1.0), "is not an index"),
        ((Ellipsis, Ellipsis), "single ellipsis"),
    ],
)
def test_a_key_that_selects_nothing_is_an_error(key, message):
    with pytest.raises(IndexError, match=message):
        stored(numbers(10))[key]


@pytest.mark.parametrize("key", [0, [0], np.array([-1])], ids=repr)
def test_an_empty_axis_is_named_as_such(key):
    with pytest.raises(IndexError, match="out of range for empty dimension"):
        stored(numbers(0))[key]


def test_a_step_of_zero_is_the_error_of_python():
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        stored(numbers(5))[0:2:0]


def test_a_mask_of_another_shape_is_refused():
    with pytest.raises(IndexError, match=r"a mask of shape \(2, 2\) does not fit an array of shape \(2, 3\)"):
        stored(numbers(2, 3))[np.ones((2, 2), bool)]


# ---- what hdmf expects ---------------------------------------------------------------------------------------------


def test_it_is_a_zarr_array_and_touches_nothing_until_it_is_indexed():
    lazy = stored(numbers(6, 4), (3, 2))
    lazy.keys.calls.clear()
    assert isinstance(lazy, zarr.Array)
    assert (lazy.chunks, lazy.nchunks, lazy.maxshape, lazy.fill_value) == ((3, 2), 4, (6, 4), None)
    assert (lazy.name, lazy.path, lazy.basename, lazy.location) == ("/g/a", "g/a", "a", "/memory.zarr")
    assert (lazy.compressor, lazy.filters or None, dict(lazy.attrs)) == (None, None, {})  # () with zarr 3
    assert "/memory.zarr/g/a" in repr(lazy)
    assert "(6, 4)" in repr(lazy)
    assert bool(lazy)
    assert lazy.keys.calls == []
    assert lazy[1, 1] == 5
    assert lazy.keys.calls == [("get", "g/a/0.0")]


def test_maxshape_is_what_was_recorded():
    lazy = stored(numbers(6))
    bounded = LazyArray(lazy.keys, lazy.path, lazy.node, ChunkCache(), ArrayContext((None,)))
    assert bounded.maxshape == (None,)
    assert bounded.shape == (6,)


@pytest.mark.parametrize(
    ("array", "kind"),
    [
        (numbers(3), np.int32),
        (numbers(3, dtype="?"), np.bool_),
        (numbers(3, dtype=">f4"), np.float32),
        (np.array(["2024"], "M8[Y]"), np.datetime64),
        (np.array([b"ab"]), np.bytes_),
        (np.array(["ab"], object), str),
        (np.array([(1, 2.5)], [("a", "i4"), ("b", "f8")]), np.void),
    ],
)
def test_an_integer_gives_a_scalar(array, kind):
    lazy = stored(array)
    assert type(lazy[0]) is kind
    assert type(lazy[np.uint64(0)]) is kind
    assert type(next(iter(lazy))) is kind
    assert lazy[0] == array[0]
    assert isinstance(lazy[:1], np.ndarray)


def test_text_is_object_and_converts_to_fixed_text():
    lazy = stored(np.array(["a", "größer"], object))
    assert lazy.dtype == object
    assert np.asarray(lazy).astype("U").dtype == np.dtype("U6")
    assert np.array(lazy, dtype="U2").tolist() == ["a", "gr"]


def test_rows_have_fields():
    array = np.array([(1, 2.5, b"x"), (2, 3.5, b"y")], [("a", "i4"), ("b", "f8"), ("c", "S1")])
    lazy = stored(array, (1,))
    assert lazy["a"].tolist() == lazy["a", :].tolist() == [1, 2]
    assert lazy[1:, "b"].tolist() == [3.5]
    assert lazy[1, "a"] == 2
    assert lazy["c", "a"].dtype.names == ("c", "a")
    for key in ("x", ("a", "x"), (0, "x")):
        with pytest.raises(ValueError, match="no field 'x'"):
            lazy[key]
    with pytest.raises(ValueError, match="no field 'a'"):
        stored(numbers(3))["a"]


@pytest.mark.parametrize("key", [[], ([],), slice(0, 0), np.array([], np.uint64), [False] * 6])
def test_empty_selections_are_empty(key):
    found = stored(numbers(6), (4,))[key]
    assert found.shape == (0,)
    assert found.dtype == np.dtype("i4")


def test_unsigned_index_columns_index():
    lazy = stored(numbers(6), (4,))
    assert lazy[np.array([5, 0, 5], np.uint64)].tolist() == [5, 0, 5]
    assert lazy[np.uint8(1) : np.uint64(3)].tolist() == [1, 2]


def test_arrays_without_axes():
    lazy = stored(np.array(5, "i4"))
    assert lazy[()] == lazy[...] == 5
    assert int(np.asarray(lazy)) == 5
    with pytest.raises(TypeError, match="has no length"):
        len(lazy)
    with pytest.raises(IndexError, match="1 indexing arguments for 0 dimensions"):
        lazy[0]


def test_it_is_hashable_and_equal_to_the_same_stored_array_only():
    lazy = stored(numbers(3))
    again = LazyArray(lazy.keys, lazy.path, lazy.node, ChunkCache())
    other = stored(numbers(3), path="g/b")
    assert lazy == again
    assert hash(lazy) == hash(again)
    assert lazy != other
    assert lazy != [0, 1, 2]
    assert len({lazy, again, other}) == 2


def test_numpy_gets_a_copy():
    lazy = stored(numbers(6), (4,))
    for found in (np.asarray(lazy), np.array(lazy), lazy[:], lazy[0:4], lazy[[0, 1]]):
        found[0] = 99
    assert lazy[0] == 0
    with pytest.raises(ValueError, match="without a copy"):
        np.array(lazy, copy=False)


def test_nothing_can_be_changed_in_a_file_that_is_open_for_reading():
    lazy = stored(numbers(3))
    for call in (lambda: lazy.append([1]), lambda: lazy.resize(4), lambda: lazy.__setitem__(0, 1)):
        with pytest.raises(ModeError, match="open for reading") as caught:
            call()
        assert (caught.value.store, caught.value.path) == ("/memory.zarr", "/g/a")
        assert "r+" in caught.value.remedy
    with pytest.raises(TypeError):
        lazy.attrs["x"] = 1


def test_copies_and_other_processes_read_for_themselves(tmp_path: Path):
    lazy = stored(numbers(6, 4), (3, 2), keys=LocalStore(str(tmp_path)))
    assert lazy[5, 3] == 23
    for other in (copy.copy(lazy), copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        assert other == lazy
        assert other[...].tolist() == lazy[...].tolist()


def test_values_of_one_chunk_can_be_decoded_from_bytes_at_hand():
    lazy = stored(np.array(["a", "b"], object), (4,))
    data = lazy.keys.values["g/a/0"]
    assert lazy.decoded(data).tolist() == ["a", "b"]
    assert lazy.decoded(None).tolist() == ["", ""]
    asciis = LazyArray(
        lazy.keys, lazy.path, lazy.node, ChunkCache(), ArrayContext(elements=lambda v: np.char.encode(v.astype("U")))
    )
    assert asciis.decoded(data).tolist() == [b"a", b"b"]
    assert asciis[0] == b"a"
    assert asciis[:1].tolist() == [b"a"]


def test_the_size_on_disk_is_that_of_the_chunks():
    lazy = stored(numbers(6, 4), (3, 2))
    assert lazy.stored_bytes() == 6 * 4 * 4
    assert lazy.nbytes_stored == 6 * 4 * 4 if IS_ZARR_2 else lazy.nbytes_stored() == 6 * 4 * 4
    assert stored(numbers(6), (4,), missing=[0]).stored_bytes() == 4 * 4


@pytest.mark.parametrize("shape", [(7,), (5, 2)])
def test_single_references_and_rows_are_read_without_their_chunk(shape):
    array = np.empty(shape, object)
    for index in np.ndindex(shape):
        array[index] = {"path": f"/{index}"}
    lazy = stored(array, (3, *shape[1:]), filters=[dict(JSON2)])
    for position in range(len(lazy)):
        found = lazy.element(position)
        assert found == (array[position] if len(shape) == 1 else array[position].tolist())
    for position in (-1, len(lazy)):
        with pytest.raises(LookupError):
            lazy.element(position)
    with pytest.raises(LookupError):
        stored(numbers(3)).element(0)


# ---- zarr's own methods --------------------------------------------------------------------------------------------


def test_zarrs_own_methods_work_on_numbers(tmp_path: Path):
    codec = {"id": "zlib", "level": 1}
    lazy = stored(numbers(6, 4), (3, 2), keys=LocalStore(str(tmp_path)), compressor=codec, fill_value=7)
    if not IS_ZARR_2:
        assert lazy.info_complete() is not None
        assert lazy.metadata.shape == (6, 4)
        assert lazy.metadata.fill_value == 7
        assert np.asarray(zarr.open_array(lazy.store_path, mode="r")[...]).tolist() == lazy.tolist()
    assert lazy.order == "C"
    assert lazy.cdata_shape == (2, 2)
    assert lazy.nchunks_initialized == 4
    assert lazy.read_only
    assert "zlib" in str(lazy.info).lower()
    assert lazy.oindex[[0, 5], [1]].tolist() == [[1], [21]]
    assert lazy.vindex[[0, 5], [1, 3]].tolist() == [1, 23]
    assert lazy.blocks[1, 1].tolist() == lazy[3:, 2:].tolist()
    assert lazy.get_basic_selection((slice(0, 1),)).tolist() == [[0, 1, 2, 3]]
    with pytest.raises((ValueError, PermissionError), match=r"read-only|read only"):  # zarr 3, zarr 2
        lazy.oindex[[0], [0]] = 1


# ---- damage --------------------------------------------------------------------------------------------------------


def test_a_damaged_chunk_names_itself_and_leaves_the_others_readable():
    lazy = stored(numbers(6, 4), (3, 2), compressor={"id": "zlib", "level": 1})
    lazy.keys.values["g/a/1.0"] = b"damaged"
    assert lazy[:3].tolist() == numbers(6, 4)[:3].tolist()
    with pytest.raises(ChunkError, match=r"the chunk '1\.0' cannot be decoded") as caught:
        lazy[3:, 0]
    assert (caught.value.store, caught.value.path) == ("/memory.zarr", "/g/a")


@pytest.mark.parametrize("size", [0, 1, 15, 17, 64])
def test_a_chunk_of_another_size_is_damage(size):
    lazy = stored(numbers(4))
    lazy.keys.values["g/a/0"] = bytes(size)
    with pytest.raises(ChunkError):
        lazy[0]
    short = numcodecs.Zlib().encode(bytes(size))
    squeezed = stored(numbers(4), compressor={"id": "zlib", "level": 1})
    squeezed.keys.values["g/a/0"] = short
    with pytest.raises(ChunkError):
        squeezed[0]


@pytest.mark.parametrize(
    "use",
    [lambda array: array[:], lambda array: array[0], lambda array: array.compressor],
    ids=["slice", "element", "compressor"],
)
def test_metadata_that_make_no_codec_are_said_when_it_is_needed(use):
    node = StoredArray(shape=(3,), chunks=(3,), data_type="<i4", compressor={"id": "exec"})
    array = LazyArray(MemoryKeys(), "g/a", Dataset(node), ChunkCache())
    assert (array.shape, array.dtype) == ((3,), np.dtype("i4"))
    for _ in range(2):
        with pytest.raises(MetadataError, match="'exec'") as caught:
            use(array)
        assert (caught.value.store, caught.value.path) == ("/memory.zarr", "/g/a")


# ---- the cache -----------------------------------------------------------------------------------------------------


def test_each_chunk_is_fetched_once_and_the_cache_is_bounded():
    lazy = stored(numbers(1000, dtype="i8"), (10,))
    lazy.keys.calls.clear()
    for position in range(1000):
        assert lazy[position] == position
    assert len(lazy.keys.calls) == 100
    small = LazyArray(lazy.keys, lazy.path, lazy.node, ChunkCache(max_bytes=400))
    assert [small[position] for position in (0, 990, 0)] == [0, 990, 0]
    assert small._reader._cache._bytes <= 400
    tiny = LazyArray(lazy.keys, lazy.path, lazy.node, ChunkCache(max_bytes=100))
    lazy.keys.calls.clear()
    assert [tiny[position] for position in (0, 1)] == [0, 1]
    assert len(lazy.keys.calls) == 2  # a chunk that is a large part of the bound is not kept


def test_forgetting_an_array_forgets_that_array_only():
    cache = ChunkCache()
    for key in ("a/0", "a/1", "ab/0", "a/b/0"):
        cache.put(key, np.zeros(3))
    cache.forget("a")
    assert [cache.get(key) is not None for key in ("a/0", "a/1", "ab/0")] == [False, False, True]
    cache.forget("ab")
    assert cache._bytes == sum(entry[1] for entry in cache._chunks.values())
