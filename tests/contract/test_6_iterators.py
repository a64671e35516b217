"""The contract: data chunk iterators of every kind."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hdmf.build import GroupBuilder
from hdmf.data_utils import DataChunk, DataChunkIterator
from pynwb import TimeSeries

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import StoreNotFoundError, ValueRefusedError
from tests import samples
from tests.blocks import Blocks, Windows
from tests.documents import document, has_document
from tests.places import Place, keys_of
from tests.test_io import identical, read
from tests.trees import dataset, read_builder, root, write_builder

VALUES = np.arange(42, dtype="i4").reshape(7, 6)
CUBE = np.arange(24, dtype="i4").reshape(2, 3, 4)


def blocks(values: np.ndarray[Any, Any], *keys: Any) -> list[DataChunk]:
    return [DataChunk(values[key], key) for key in keys]


def written(path: Place, iterator: Any, **options: Any) -> Any:
    write_builder(path, root(dataset("it", iterator)), **options)
    for mode in ("r", "r-"):
        data = read_builder(path, mode)["it"].data
        data[()]
    return data


ROWS = [np.s_[i : min(i + 2, 7), :] for i in range(0, 7, 2)]
QUARTERS = [np.s_[:4, :3], np.s_[:4, 3:6], np.s_[4:7, :3], np.s_[4:7, 3:6]]


@pytest.mark.parametrize("keys", [
    ROWS, ROWS[::-1], [ROWS[2], ROWS[0], ROWS[3], ROWS[1]], QUARTERS, QUARTERS[::-1],
    [QUARTERS[i] for i in (2, 1, 3, 0)],
], ids=["in order", "backwards", "rows mixed", "quarters", "quarters backwards", "quarters mixed"])  # fmt: skip
@pytest.mark.parametrize("chunks", [None, (2, 6), (3, 4), (1, 1), (10, 10)], ids=str)
def test_blocks_in_any_order(folder, keys, chunks):
    iterator = Blocks(blocks(VALUES, *keys), chunk_shape=chunks)
    assert identical(written(folder / "file.zarr", iterator)[()], VALUES)


@pytest.mark.parametrize("chunk_shape", [None, (2, 2), (100, 100)], ids=["no chunk shape", "small", "large"])
@pytest.mark.parametrize("data_shape", [None, (0, 0), (1, 1), (3, 6), (7, 6)], ids=str)
def test_hints_that_are_missing_or_too_small(folder, chunk_shape, data_shape):
    iterator = Blocks(blocks(VALUES, *ROWS), (None, 6), chunk_shape=chunk_shape, data_shape=data_shape)
    data = written(folder / "file.zarr", iterator)
    assert identical(data[()], VALUES)
    assert data.maxshape == (None, 6)


def test_an_iterator_without_the_methods_of_hints_or_whose_hint_is_not_needed(folder):
    class Bare(Blocks):
        recommended_chunk_shape = None  # type: ignore[assignment]
        recommended_data_shape = None  # type: ignore[assignment]

    assert identical(written(folder / "file.zarr", Bare(blocks(VALUES, *ROWS)))[()], VALUES)

    class Refusing(Blocks):
        def recommended_chunk_shape(self) -> Any:
            raise NotImplementedError

    iterator = ZarrDataIO(Refusing(blocks(VALUES, *ROWS)), chunks=(3, 6))
    assert written(folder / "given.zarr", iterator).chunks == (3, 6)


@pytest.mark.parametrize(
    "dtype", ["int32", "<i4", np.int32, np.dtype("i4"), "float", "uint8", "bool", "float32"], ids=repr
)
def test_the_type_is_given_in_any_form(folder, dtype):
    values = np.array([[0, 1], [1, 0]], dtype)
    data = written(folder / "file.zarr", Blocks(blocks(values, np.s_[:2, :2]), dtype=dtype))
    assert identical(data[()], values.astype(data.dtype) if dtype == "float" else values)


def test_holes_are_the_fill_value(folder):
    iterator = ZarrDataIO(Blocks(blocks(VALUES, ROWS[0], ROWS[3])), fillvalue=-1, chunks=(2, 6))
    data = written(folder / "file.zarr", iterator)
    expected = VALUES.copy()
    expected[2:6] = -1
    assert identical(data[()], expected)
    chunks = [key for key in keys_of(folder / "file.zarr") if key.startswith("it/") and key[-1].isdigit()]
    assert len(chunks) == 4  # a missing chunk would be damage


@pytest.mark.parametrize(("values", "keys"), [
    (VALUES, [np.s_[:1, :1], np.s_[:1, 1:6], np.s_[1:7, :6]]),
    (VALUES, [np.s_[:7, :1], np.s_[:7, 1:4], np.s_[:7, 4:6]]),
    (VALUES, [np.s_[6:7, 5:6], np.s_[:6, :6], np.s_[6:7, :5]]),
    (CUBE, [np.s_[:1, :1, :1], np.s_[1:2, :3, :4], np.s_[:1, 1:3, :2], np.s_[:1, :1, 1:4], np.s_[:1, 1:3, 2:4]]),
], ids=["first one, then the other", "the second axis", "the last corner first", "three axes"])  # fmt: skip
def test_growing_on_any_axis(folder, values, keys):
    iterator = Blocks(blocks(values, *keys), (None,) * values.ndim)
    assert identical(written(folder / "file.zarr", iterator)[()], values)


def test_blocks_that_overlap_or_differ_in_length_or_are_none(folder):
    given = [*blocks(VALUES * 0, np.s_[:7, :6]), *blocks(VALUES, *ROWS)]
    assert identical(written(folder / "file.zarr", Blocks(given, chunk_shape=(3, 3)))[()], VALUES)
    data = written(folder / "none.zarr", Blocks([], (None, 6)))
    assert (data.shape[0], data.dtype) == (0, np.dtype("i4"))
    tree = root(dataset("long", Blocks(blocks(VALUES, *ROWS))), dataset("short", Blocks(blocks(VALUES, ROWS[0]))))
    builder = read_builder(write_builder(folder / "file.zarr", tree, exhaust_dci=False))
    assert identical(builder["long"].data[()], VALUES)
    assert identical(builder["short"].data[()], VALUES[:2])


# ---- several iterators -------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("exhaust", "order"), [(True, "aaaabbbb"), (False, "abababab")])
def test_several_iterators_one_by_one_or_a_block_of_each_in_turn(folder, exhaust, order):
    taken: list[str] = []

    def follow(name: str, sign: int) -> Iterator[DataChunk]:
        for key in ROWS:
            taken.append(name)
            yield DataChunk(sign * VALUES[key], key)

    tree = root(dataset("a", Blocks(follow("a", 1))), dataset("b", Blocks(follow("b", -1))))
    path = write_builder(folder / "file.zarr", tree, exhaust_dci=exhaust)
    builder = read_builder(path)
    assert identical(builder["a"].data[()], VALUES)
    assert identical(builder["b"].data[()], -VALUES)
    assert "".join(taken) == order


@pytest.mark.needs("append")
@pytest.mark.parametrize("exhaust", [True, False])
def test_iterators_are_added_to_a_file(folder, exhaust):
    path = samples.write_zarr(folder / "file.nwb.zarr", samples.plain_nwbfile())
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        for name in "ab":
            data = Blocks(blocks(VALUES, *ROWS[::-1]))
            nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="m", rate=1.0))
        io.write(nwbfile, exhaust_dci=exhaust)
    acquisition = read(path).acquisition
    for name in "ab":
        assert identical(acquisition[name].data[()], VALUES)


# ---- an iterator that raises -------------------------------------------------------------------------------------
class GoneError(Exception):
    """What the source of an iterator raises."""


def broken(count: int) -> Iterator[DataChunk]:
    yield from blocks(VALUES, *ROWS[:count])
    raise GoneError("the camera is gone")


@pytest.mark.needs("staging")
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("exhaust", [True, False])
def test_an_iterator_that_raises_leaves_nothing(folder, count, exhaust):
    tree = root(dataset("first", np.arange(3)), dataset("it", Blocks(broken(count))), dataset("last", ["a"], "utf8"))
    with ZarrIO(folder / "file.zarr", "w") as io, pytest.raises(GoneError, match="camera"):
        io.write_builder(tree, exhaust_dci=exhaust)
    with pytest.raises(StoreNotFoundError):
        ZarrIO(folder / "file.zarr")
    assert list(folder.iterdir()) == []


@pytest.mark.needs("append")
def test_an_iterator_that_raises_in_an_append(folder):
    """The file reads as before, in both ways, and the same name can be written afterwards."""
    path = write_builder(folder / "file.zarr", root(dataset("first", np.arange(3))))

    def add(iterator: Any) -> None:
        with ZarrIO(path, "r+") as io:
            builder: GroupBuilder = io.read_builder()
            builder.set_dataset(dataset("it", iterator))
            io.write_builder(builder)

    with pytest.raises(GoneError):
        add(Blocks(broken(2), chunk_shape=(1, 6)))
    for mode in ("r", "r-"):
        assert list(read_builder(path, mode).datasets) == ["first"]
    assert not has_document(path, "it/.zarray")
    add(Blocks(blocks(VALUES, *ROWS), chunk_shape=(1, 6)))
    assert identical(read_builder(path)["it"].data[()], VALUES)


# ---- what an iterator cannot give twice, and blocks that do not fit ------------------------------------------------
def rows(*values: Any) -> Iterator[Any]:
    yield from values


def advanced(iterator: Any, count: int = 1) -> Any:
    for _ in range(count):
        next(iterator)
    return iterator


def windows() -> Windows:
    return Windows(VALUES, buffer_shape=(2, 6), chunk_shape=(2, 6))


def _shared_generator() -> list[Any]:
    generator = rows([1, 2], [3, 4], [5, 6])
    return [DataChunkIterator(data=generator), DataChunkIterator(data=generator)]


def _wrapped_and_alone() -> list[Any]:
    iterator = Blocks(blocks(VALUES, *ROWS))
    return [ZarrDataIO(iterator, chunks=(1, 6)), iterator]


def _nested() -> list[Any]:
    inner = Blocks(blocks(VALUES, *ROWS))
    return [inner, DataChunkIterator(data=inner, dtype=np.dtype("i4"), maxshape=(None, None))]


@pytest.mark.parametrize("pair", [
    lambda: [DataChunkIterator(data=[[1, 2], [3, 4]])] * 2,
    lambda: [ZarrDataIO(DataChunkIterator(data=[[1, 2], [3, 4]]))] * 2,
    _wrapped_and_alone,
    lambda: [windows()] * 2,
    _shared_generator,
    _nested,
], ids=["iterator", "wrapper", "in a wrapper and alone", "generic", "generator", "iterator of the other"])  # fmt: skip
@pytest.mark.parametrize("exhaust", [True, False])
def test_one_iterator_for_two_datasets_is_refused_before_the_first_byte(folder, pair, exhaust):
    path = samples.write_zarr(folder / "file.nwb.zarr", samples.plain_nwbfile("old"))
    before = dict.fromkeys(keys_of(path))
    nwbfile = samples.plain_nwbfile("new")
    for name, data in zip(("one", "two"), pair(), strict=True):
        nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="m", rate=1.0))
    with NWBZarrIO(path, "w") as io, pytest.raises(ValueRefusedError, match="read only once") as caught:
        io.write(nwbfile, exhaust_dci=exhaust)
    assert "/acquisition/one/data" in str(caught.value)
    assert "/acquisition/two/data" in str(caught.value)
    assert dict.fromkeys(keys_of(path)) == before
    assert read(path).identifier == "old"


@pytest.mark.needs("append")
def test_one_iterator_for_two_datasets_of_an_append_is_refused(folder):
    path = samples.write_zarr(folder / "file.nwb.zarr", samples.plain_nwbfile())
    with NWBZarrIO(path, "r+") as io:
        nwbfile = io.read()
        for name, data in zip(("one", "two"), _shared_generator(), strict=True):
            nwbfile.add_acquisition(TimeSeries(name=name, data=data, unit="m", rate=1.0))
        with pytest.raises(ValueRefusedError, match="/acquisition/two/data"):
            io.write(nwbfile)
    assert not {"one", "two"} & set(read(path).acquisition)


def test_the_data_of_two_iterators_may_be_one_list_and_values_may_be_left_out_on_purpose(folder):
    data = [[1, 2], [3, 4], [5, 6]]
    tree = root(dataset("a", DataChunkIterator(data=data)), dataset("b", DataChunkIterator(data=data)))
    builder = read_builder(write_builder(folder / "file.zarr", tree))
    assert builder["a"].data[()].tolist() == builder["b"].data[()].tolist() == data
    generator = advanced(rows([1, 2], [3, 4], [5, 6]))
    iterator = DataChunkIterator(data=itertools.chain(generator), dtype=I4, maxshape=(None, 2))
    assert written(folder / "rest.zarr", iterator)[()].tolist() == [[3, 4], [5, 6]]


I4 = np.dtype("i4")


@pytest.mark.parametrize(
    "iterator",
    [
        lambda: advanced(DataChunkIterator(data=[[1, 2], [3, 4]])),
        lambda: advanced(DataChunkIterator(data=rows([1, 2], [3, 4]))),
        lambda: advanced(DataChunkIterator(data=rows([1, 2], [3, 4]), dtype=I4, maxshape=(None, 2))),
        lambda: advanced(DataChunkIterator(data=rows([1, 2], [3, 4])), 2),
        lambda: DataChunkIterator(data=advanced(rows([1, 2], [3, 4])), dtype=I4, maxshape=(None, 2)),
        lambda: advanced(windows()),
        lambda: advanced(windows(), 4),
    ],
    ids=["list", "generator", "with a type", "at its end", "generator itself", "generic", "generic at its end"],
)
def test_an_iterator_that_has_been_started_is_refused(folder, iterator):
    with pytest.raises(ValueRefusedError, match=r"taken from the iterator already.*\(/it\)"):
        write_builder(folder / "file.zarr", root(dataset("it", iterator())))
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("iterator", "block"),
    [
        (lambda: DataChunkIterator(data=rows([1, 2], [3, 4, 5])), "slice(1, 2"),
        (lambda: DataChunkIterator(data=rows([1, 2], [3, 4, 5]), maxshape=(None, None)), "slice(1, 2"),
        (lambda: DataChunkIterator(data=rows([1, 2, 3], [4, 5, 6], [7, 8]), buffer_size=2), "slice(2, 3"),
        (lambda: DataChunkIterator(data=rows([1, 2, 3], [4])), "slice(1, 2"),
        (lambda: DataChunkIterator(data=rows([1, 2, 3], 4)), "slice(1, 2"),
        (lambda: DataChunkIterator(data=rows([[1], [2]], [[3, 4], [5, 6]]), maxshape=(None, 2, None)), "slice(1, 2"),
        (lambda: DataChunkIterator(data=rows([1, 2], [3, 4]), dtype=I4, maxshape=(1, 2)), "slice(1, 2"),
        (lambda: Blocks(blocks(VALUES, ROWS[0], ROWS[3]), (6, 6)), "slice(6, 7"),
        (lambda: Blocks([DataChunk(VALUES[:1, :6], np.s_[0:2, 0:6])]), "slice(0, 2"),
        (lambda: Blocks([DataChunk(VALUES[:2, :1], np.s_[0:2, 0:6])]), "slice(0, 2"),
    ],
    ids=["longer", "longer, open", "shorter", "one value", "a scalar", "inner axis", "too many", "outside", "one row",
         "one column"],
)  # fmt: skip
def test_rows_of_another_length_are_refused_with_their_block(folder, iterator, block):
    with pytest.raises(ValueRefusedError, match="does not fit its selection") as caught:
        write_builder(folder / "file.zarr", root(dataset("it", iterator())))
    assert block in str(caught.value)
    assert "(/it)" in str(caught.value)


def test_no_blocks_of_a_known_shape_arrays_and_rows_that_differ_inside_a_block_are_refused(folder):
    with pytest.raises(ValueRefusedError, match=r"no block of an array of shape \(7, 6\)"):
        write_builder(folder / "none.zarr", root(dataset("it", Blocks([], (7, 6), data_shape=(7, 6)))))
    with pytest.raises(ValueRefusedError, match=r"gives a ndarray, not a DataChunk \(/it\)"):
        write_builder(folder / "arrays.zarr", root(dataset("it", Blocks([VALUES], (7, 6)))))
    data = DataChunkIterator(data=rows([1, 2], [3, 4, 5]), buffer_size=2, dtype=I4, maxshape=(None, None))
    with pytest.raises(ValueRefusedError, match=r"differ in length.*\(/it\)"):
        write_builder(folder / "file.zarr", root(dataset("it", data)))


BINARY = [b"a", b"b\xff\x00c", "ü".encode()]


TEXTS = ["a", "bcd", "ü"]


@pytest.mark.parametrize(
    "values", [TEXTS, [b"a", b"bcd", "ü".encode()], BINARY, BINARY[::-1]], ids=["text", "UTF-8", "any", "last"]
)
@pytest.mark.parametrize("given", ["list", "iterator", "buffered", "objects", "wrapped"])
def test_text_and_byte_strings_come_back(folder, values, given):
    objects = {"dtype": np.dtype(object), "maxshape": (None,)}
    data = {
        "list": lambda: values,
        "iterator": lambda: DataChunkIterator(data=iter(values)),
        "buffered": lambda: DataChunkIterator(data=iter(values), buffer_size=2),
        "objects": lambda: DataChunkIterator(data=iter(values), **objects),
        "wrapped": lambda: ZarrDataIO(DataChunkIterator(data=iter(values), **objects), chunks=(1,)),
    }[given]()
    assert written(folder / "file.zarr", data)[()].tolist() == values
    assert document(folder / "file.zarr", "it/.zattrs")["zarr_dtype"] == ("bytes" if BINARY[1] in values else "str")


@pytest.mark.parametrize("values", [["a", b"\xff"], [b"\xff", "a"]])
def test_text_among_bytes_that_are_not_text_is_refused(folder, values):
    data = DataChunkIterator(data=iter(values), dtype=np.dtype(object), maxshape=(None,))
    with pytest.raises(ValueRefusedError, match="UTF-8"):
        write_builder(folder / "file.zarr", root(dataset("it", data)))
