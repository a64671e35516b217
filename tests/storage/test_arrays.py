"""Arrays of a file: reading one is reading NumPy and h5py, and any sequence of changes is what NumPy makes of it."""

import copy
import pickle
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hypothesis import given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import ChunkError, ModeError, UsageError, ValueRefusedError
from tests.strategies import NUMBERS, TEXT, expected, raw_arrays, selections, shapes, structured
from tests.trees import dataset, read_builder, root, write_builder
from tests.zarrs import IS_ZARR_2


def write(place: Any, array: Any, chunks: Any = None, zarr_format: Any = 2, **options: Any) -> Any:
    """Write an array to a file, a dict if there is no other place."""
    chunks = chunks or tuple(max(1, n) for n in array.shape)
    data = ZarrDataIO(array, chunks=chunks, **options) if array.ndim else array
    return write_builder(place, root(dataset("a", data)), zarr_format=zarr_format)


def stored(array: Any, chunks: Any = None, zarr_format: Any = 2, **options: Any) -> Any:
    return read_builder(write({}, array, chunks, zarr_format, **options))["a"].data


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


@st.composite
def chunked(draw: st.DrawFn, arrays: st.SearchStrategy[Any]) -> tuple[Any, tuple[int, ...], Any]:
    array = draw(arrays)
    return array, tuple(draw(st.integers(1, max(1, n) + 2)) for n in array.shape), draw(selections(array.shape))


@st.composite
def texts(draw: st.DrawFn) -> Any:
    array = np.empty(draw(shapes(most=2, longest=5)), object)
    array.reshape(-1)[:] = draw(st.lists(TEXT, min_size=array.size, max_size=array.size))
    return array


INTEGERS = raw_arrays(st.just(np.dtype("<i4")), shapes(most=4))


# ---- reading --------------------------------------------------------------------------------------------------------
@settings(max_examples=100)
@given(chunked(INTEGERS | raw_arrays(NUMBERS | structured(NUMBERS), shapes(longest=4))), st.sampled_from([2, 3]))
def test_selections_are_those_of_numpy(case, zarr_format):
    array, chunks, key = case
    lazy = stored(array, chunks, zarr_format)
    for _ in range(2):  # the second time from the cache
        assert_same(lazy[key], expected(array, key))


@settings(max_examples=30)
@given(chunked(texts()), st.sampled_from([2, 3]))
def test_selections_of_text_are_those_of_numpy(case, zarr_format):
    array, chunks, key = case
    if array.size:
        assert_same(stored(array, chunks, zarr_format)[key], expected(array, key))


@settings(max_examples=50)
@given(chunked(raw_arrays(st.just(np.dtype("<i4")), shapes(longest=6))))
def test_selections_are_those_of_h5py_where_it_knows_them(case):
    array, chunks, key = case
    parts = key if isinstance(key, tuple) else (key,)
    if any(isinstance(part, np.ndarray) and part.dtype.kind == "u" for part in parts):
        return  # whose order h5py does not see, so that it sorts what it gives
    with h5py.File("memory.h5", "w", driver="core", backing_store=False) as file:
        of_h5py = file.create_dataset("x", data=array)
        try:
            wanted = of_h5py[key]
        except (TypeError, ValueError):
            return  # it has no negative steps, no repeated indices and no second list
    assert_same(stored(array, chunks)[key], np.asarray(wanted))


@settings(max_examples=30)
@given(chunked(INTEGERS))
def test_iterating_and_converting_give_what_numpy_gives(case):
    array, chunks, _ = case
    lazy = stored(array, chunks)
    assert len(lazy) == len(array)
    assert [np.asarray(row).tolist() for row in lazy] == array.tolist()
    assert np.asarray(lazy).tolist() == lazy.tolist() == array.tolist()
    assert np.array(lazy, "f8").dtype == lazy.astype("f8").dtype == np.dtype("f8")
    assert (lazy.shape, lazy.ndim, lazy.size, lazy.nbytes) == (array.shape, array.ndim, array.size, array.nbytes)
    assert isinstance(lazy, zarr.Array)


@pytest.mark.parametrize("seed", range(5))
def test_masks_of_the_whole_shape_are_those_of_numpy(seed):
    array = numbers(5, 4, 3)
    mask = np.random.default_rng(seed).random(array.shape) < 0.3
    assert_same(stored(array, (2, 2, 2))[mask], array[mask])


# ---- keys that select nothing ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("key", "shape"), [(10, (10,)), (0, (0,)), ((0, 7), (3, 5)), ((1, 2), (5,)), ((1, 2, 3), (4, 5))]
)
def test_errors_of_keys_are_those_of_h5py(key, shape, tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        of_h5py = file.create_dataset("x", shape=shape, dtype="i4")
        with pytest.raises((IndexError, ValueError)) as theirs:
            of_h5py[key]
    with pytest.raises(IndexError) as ours:
        stored(numbers(*shape))[key]
    assert str(ours.value) == str(theirs.value)


@pytest.mark.parametrize(("array", "key", "message"), [
    *((numbers(10), *case) for case in (
        (-11, r"Index \(-11\) out of range for \(0-9\)"),
        ([0, 10], r"Index \(10\) out of range for \(0-9\)"),
        ([-11], r"Index \(-11\) out of range for \(0-9\)"),
        (np.array([2**64 - 1], np.uint64), r"Index \(18446744073709551615\) out of range for \(0-9\)"),
        (np.uint64(2**64 - 1), r"Index \(18446744073709551615\) out of range"),
        ([True] * 9, r"a mask of shape \(9,\) does not fit an axis of length 10"),
        *((key, "must be a list of integers") for key in ([1.5], [[1, 2]], ["a"])),
        ([[1], [1, 2]], "not a list of indices"),
        *((key, "is not an index") for key in (1.0, b"a", None, True, np.True_, np.array(1.0))),
        ((Ellipsis, Ellipsis), "single ellipsis"))),
    *((numbers(0), key, "out of range for empty dimension") for key in (0, [0], np.array([-1]))),
    (numbers(2, 3), np.ones((2, 2), bool), r"a mask of shape \(2, 2\) does not fit an array of shape \(2, 3\)"),
])  # fmt: skip
def test_a_key_that_selects_nothing_is_an_error(array, key, message):
    with pytest.raises(IndexError, match=message):
        stored(array)[key]
    with pytest.raises(ValueError, match="slice step cannot be zero"):
        stored(array)[0:2:0]


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
    lazy = stored(numbers(6), (4,))
    found = lazy[key]
    assert found.shape == (0,)
    assert found.dtype == np.dtype("i4")
    assert lazy[np.array([5, 0, 5], np.uint64)].tolist() == [5, 0, 5]
    assert lazy[np.uint8(1) : np.uint64(3)].tolist() == [1, 2]


def test_nothing_can_be_changed_in_a_file_that_is_open_for_reading():
    lazy = stored(numbers(6))
    for change in (lambda: lazy.__setitem__(0, 1), lambda: lazy.append([1]), lambda: lazy.resize((2,))):
        with pytest.raises(ModeError):
            change()
    assert lazy[:].tolist() == numbers(6).tolist()


@pytest.mark.parametrize("read", [
    lambda array: array.oindex[[1, 2]],
    lambda array: array.vindex[[1, 2]],
    lambda array: array.vindex[np.array([False, True, True, False])],
    lambda array: array.blocks[0],
    lambda array: array.get_basic_selection(slice(1, 3)),
], ids=("oindex", "vindex", "mask", "blocks", "basic"))  # fmt: skip
def test_what_zarr_reads_from_the_store_is_refused_while_changes_are_not_there(tmp_path, read):
    write(tmp_path / "a.zarr", numbers(4), (2,))
    with ZarrIO(tmp_path / "a.zarr", "r+") as io:
        array = io.read_builder()["a"].data
        before = read(array)
        array[:] = array[:] + 7
        with pytest.raises(UsageError, match=r"changes that are not written yet .*/a\)\. Index the array itself"):
            read(array)
    assert (read(read_builder(tmp_path / "a.zarr")["a"].data) == before + 7).all()


def test_copies_read_for_themselves(tmp_path):
    lazy = read_builder(write(tmp_path / "a.zarr", numbers(6, 4), (3, 2)))["a"].data
    for other in (copy.copy(lazy), copy.deepcopy(lazy), pickle.loads(pickle.dumps(lazy))):
        assert_same(other[...], numbers(6, 4))
        assert other == lazy
        assert hash(other) == hash(lazy)


# ---- changing -------------------------------------------------------------------------------------------------------
@st.composite
def steps(draw: st.DrawFn, shape: tuple[int, ...]) -> list[tuple[str, tuple[Any, ...]]]:
    """Return what is done to the array: ``append``, ``assign``, ``resize`` or ``reopen``, each with its arguments."""
    made: list[tuple[str, tuple[Any, ...]]] = []
    for _ in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(["append", "assign", "assign", "resize", "reopen"]))
        if name == "append":
            axis, count = draw(st.integers(-len(shape), len(shape) - 1)), draw(st.integers(0, 4))
            made.append((name, (axis, count)))
            shape = tuple(n + count if i == axis % len(shape) else n for i, n in enumerate(shape))
        elif name == "resize":
            shape = tuple(draw(st.integers(0, 7)) for _ in shape)
            made.append((name, (shape,)))
        elif name == "assign":
            made.append((name, (draw(selections(shape)), draw(st.booleans()))))
        else:
            made.append((name, ()))
    return made


def repeats(key: Any, shape: tuple[int, ...]) -> bool:
    """Return whether a key selects an element twice; which value it has then is not defined."""
    places = np.arange(int(np.prod(shape))).reshape(shape)
    chosen = np.atleast_1d(expected(places, key)).reshape(-1)
    return len(set(chosen.tolist())) < len(chosen)


class Model:
    """What NumPy makes of the steps; ``number`` counts the values, so that each is new."""

    def __init__(self, array: np.ndarray[Any, Any], fill: Any) -> None:
        self.array = array
        self.fill = fill
        self.number = 100

    def values(self, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
        self.number += int(np.prod(shape))
        return (self.number + numbers(*shape)).astype(self.array.dtype)

    def resize(self, shape: tuple[int, ...]) -> None:
        fresh = np.full(shape, self.fill, self.array.dtype)
        common = tuple(slice(0, min(n, m)) for n, m in zip(shape, self.array.shape, strict=True))
        fresh[common] = self.array[common]
        self.array = fresh

    def assign(self, key: Any, values: Any) -> None:
        places = np.arange(self.array.size).reshape(self.array.shape)
        self.array = self.array.copy()
        self.array.reshape(-1)[expected(places, key)] = values


@settings(max_examples=120)
@given(st.data())
def test_changes_are_those_of_numpy_and_what_is_written_is_what_zarr_reads(tmp_path_factory, data):
    shape = tuple(data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3)))
    chunks = tuple(data.draw(st.integers(1, 4)) for _ in shape)
    zarr_format = data.draw(st.sampled_from([2, 3, "both"]))
    options: dict[str, Any] = {"fillvalue": data.draw(st.sampled_from([0, 7]))}
    if zarr_format == 3 and data.draw(st.booleans()):
        options["shards"] = tuple(n * data.draw(st.integers(1, 3)) for n in chunks)
    path = write(tmp_path_factory.mktemp("a") / "a.zarr", numbers(*shape), chunks, zarr_format, **options)
    model = Model(numbers(*shape), options["fillvalue"])
    todo = data.draw(steps(shape))
    while todo:
        with ZarrIO(path, "r+") as file:
            array = file.read_builder()["a"].data
            while todo and todo[0][0] != "reopen":
                follow(array, model, *todo.pop(0))
                assert array.shape == model.array.shape
                assert array[...].tolist() == model.array.tolist()
        todo = todo[1:]
    found = read_builder(path)["a"].data
    assert found[...].tolist() == model.array.tolist()
    assert found.dtype == np.dtype("<i4")
    is_2 = zarr_format == 2
    if is_2 or (zarr_format == 3 and not IS_ZARR_2):
        assert np.asarray(zarr.open_array(path / "a", mode="r")[...]).tolist() == model.array.tolist()
    if is_2:
        grid = [-(-n // c) for n, c in zip(model.array.shape, chunks, strict=True)]
        names = [file.name for file in (path / "a").iterdir() if not file.name.startswith(".")]
        assert all(int(i) < n for name in names for i, n in zip(name.split("."), grid, strict=True))  # nothing beyond


def follow(array: Any, model: Model, name: str, arguments: tuple[Any, ...]) -> None:
    if name == "resize":
        array.resize(*arguments)
        model.resize(*arguments)
    elif name == "append":
        axis, count = arguments
        block = model.values(tuple(count if i == axis % array.ndim else n for i, n in enumerate(array.shape)))
        assert array.append(block, axis) == array.shape
        model.array = np.concatenate([model.array, block], axis)
    elif not repeats(arguments[0], model.array.shape):
        key, single = arguments
        values = model.values(() if single else expected(model.array, key).shape)
        array[key] = values
        model.assign(key, values)


@settings(max_examples=30)
@given(st.lists(st.lists(TEXT, max_size=3), max_size=4), st.sampled_from([2, 3]))
def test_text_grows(blocks, zarr_format):
    store = write({}, np.array(["first"], object), (3,), zarr_format)
    whole = ["first"]
    with ZarrIO(store, "r+") as file:
        array = file.read_builder()["a"].data
        for block in blocks:
            array.append(block)
            whole += block
            assert array[...].tolist() == whole
    assert read_builder(store)["a"].data[...].tolist() == whole


def changed(array: Any, change: Any, **options: Any) -> Any:
    store = write({}, array, **options)
    with ZarrIO(store, "r+") as file:
        change(file.read_builder()["a"].data)
    return read_builder(store)["a"].data


def test_maxshape_is_a_bound():
    def grow(array: Any) -> None:
        assert array.append([3]) == (4,)
        with pytest.raises(UsageError, match=r"\(5,\) is beyond the largest one, \(4,\)") as caught:
            array.append([4])
        assert caught.value.path == "/a"

    assert changed(numbers(3), grow, maxshape=(4,))[:].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        *(("append", arguments, "cannot be appended to shape") for arguments in (
            ([1], 0), ([[1, 2]], 0), ([[1], [2]], 1), ([[[1, 2, 3]]], 0), ([[1, 2, 3]], 2), ([[1, 2, 3]], -3),
            ([[1, 2, 3]], "a"), ([[1, 2, 3]], None), ([[1, 2, 3]], 0.0))),
        *(("resize", (shape,), "is not a shape of 2 axes") for shape in (1, (1,), (-1, 3), ())),
        *(("resize", arguments, "is not a shape of 2 axes|does not fit an array of 2 axes") for arguments in (
            (5, 2), (5, -3), (-1, 0), (2.5, 0), ((5, 3), 0), ((5, "a"),), (None,), (1, 2, 3))),
        *(("__setitem__", (slice(0, 3), value), r"do not fill .*io\.replace\('/") for value in (
            [1, 2], np.zeros((2, 2)), np.zeros((1, 3, 2)))),
    ],
    ids=str,
)  # fmt: skip
def test_what_does_not_fit_is_refused_and_changes_nothing(method, arguments, message):
    def refuse(array: Any) -> None:
        with pytest.raises(UsageError, match=message):
            getattr(array, method)(*arguments)

    assert_same(changed(numbers(4, 3), refuse)[...], numbers(4, 3))


@pytest.mark.parametrize(
    ("arguments", "options"),
    [((6, 0), {}), ((6,), {"axis": 0}), ((), {"size": 6, "axis": 0}), ((2, 1), {}), ((2,), {"axis": -1}),
     (((6, 2),), {}), (([6, 2],), {}), ((np.array([6, 2]),), {}), ((), {"size": (0, 3)})],
    ids=str,
)  # fmt: skip
def test_a_resize_is_that_of_h5py(tmp_path, arguments, options):
    """A second number is the axis: as a length of 0 it would delete all chunks."""
    with h5py.File(tmp_path / "a.h5", "w") as file:
        wanted = file.create_dataset("a", data=numbers(4, 3), maxshape=(None, None), fillvalue=0)
        wanted.resize(*arguments, **({**options, "axis": 1} if options.get("axis") == -1 else options))
        found = changed(numbers(4, 3), lambda array: array.resize(*arguments, **options))
        assert_same(found[...], wanted[...])
    # three lengths are a shape, as in zarr-python 2
    assert changed(numbers(4, 3, 2), lambda array: array.resize(5, 1, 2)).shape == (5, 1, 2)


@pytest.mark.parametrize(
    ("key", "value"), [(0, 7), (np.s_[:, 1], [1, 2, 3, 4]), (np.s_[1:3], [[5], [6]]), (np.s_[0, :], [[8, 9, 10]])]
)
def test_values_are_spread_as_numpy_spreads_them(key, value):
    wanted = numbers(4, 3)
    wanted[key] = np.array(value)
    assert_same(changed(numbers(4, 3), lambda array: array.__setitem__(key, value), chunks=(2, 2))[...], wanted)


def test_an_assignment_that_meets_a_damaged_chunk_changes_nothing(tmp_path):
    path = write(tmp_path / "a.zarr", numbers(11), chunks=(3,), compressor=False)
    for name in ("2", "3"):
        (path / f"a/{name}").write_bytes(b"damaged")
    with ZarrIO(path, "r+") as io:
        array = io.read_builder()["a"].data
        for change in (lambda: array.__setitem__(np.s_[1:8], -1), lambda: array.append(11)):
            with pytest.raises(ChunkError):
                change()
        assert array.shape == (11,)
    assert stored_numbers(path, 6) == [0, 1, 2, 3, 4, 5]
    with ZarrIO(path, "r+") as io:
        array = io.read_builder()["a"].data
        array[5:11] = range(6)  # all of the damaged chunks, which are not read for it
        array.append(6)
    assert stored_numbers(path, None) == [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6]


def stored_numbers(path: Any, count: Any) -> list[int]:
    return zarr.open(path, mode="r")["a"][:count].tolist()  # type: ignore[no-any-return,index]


# ---- rows -----------------------------------------------------------------------------------------------------------
ROW = np.dtype([("a", "i4"), ("b", "f8", (2,))])
REORDERED = np.dtype([("b", "f8", (2,)), ("a", "i4")])


@pytest.mark.parametrize("form", [np.array, np.atleast_1d, lambda row: row[()]], ids=["0-d", "1-d", "np.void"])
@pytest.mark.parametrize("shape", [(), (2,)])
def test_the_fields_of_a_row_are_assigned_by_name(tmp_path, form, zarr_format, shape):
    """As h5py assigns arrays; NumPy, and h5py a single row, put them by position into fields of other names."""
    with ZarrIO(tmp_path / "x.zarr", "w", zarr_format=zarr_format) as io:
        data = ZarrDataIO(shape=shape, dtype=ROW)
        io.write_builder(root(dataset("a", data)))
        data.dataset[...] = form(np.array(([1.5, 2.5], 3), REORDERED))
    rows = np.ravel(read_builder(tmp_path / "x.zarr")["a"].data[()])
    assert rows.dtype == ROW
    assert rows["a"].tolist() == [3] * rows.size
    assert rows["b"].tolist() == [[1.5, 2.5]] * rows.size


def test_a_row_with_other_fields_is_refused(tmp_path):
    with ZarrIO(write(tmp_path / "x.zarr", np.zeros(2, ROW)), "r+") as io:
        rows = io.read_builder()["a"].data
        for names in (["a", "c"], ["a"]):
            row = np.zeros((), [(name, "i4") for name in names])[()]
            with pytest.raises(ValueRefusedError, match="are not those of the dataset"):
                rows[0] = row
