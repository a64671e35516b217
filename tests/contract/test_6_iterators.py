"""The contract: data chunk iterators of every kind."""

from __future__ import annotations

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
from tests.blocks import Blocks
from tests.documents import document, has_document
from tests.places import Place, keys_of
from tests.test_io import identical, read
from tests.trees import dataset, read_builder, root, write_builder

VALUES = np.arange(42, dtype="i4").reshape(7, 6)


def blocks(values: np.ndarray[Any, Any], *keys: Any) -> list[DataChunk]:
    return [DataChunk(values[key], key) for key in keys]


def written(path: Place, iterator: Any, **options: Any) -> Any:
    """Write the blocks of ``iterator``; return the array, once it was read in both modes."""
    write_builder(path, root(dataset("it", iterator)), **options)
    for mode in ("r", "r-"):
        data = read_builder(path, mode)["it"].data
        data[()]
    return data


ROWS = [np.s_[i : min(i + 2, 7), :] for i in range(0, 7, 2)]
QUARTERS = [np.s_[:4, :3], np.s_[:4, 3:6], np.s_[4:7, :3], np.s_[4:7, 3:6]]


@pytest.mark.parametrize(
    "keys",
    [
        ROWS,
        ROWS[::-1],
        [ROWS[2], ROWS[0], ROWS[3], ROWS[1]],
        QUARTERS,
        QUARTERS[::-1],
        [QUARTERS[i] for i in (2, 1, 3, 0)],
    ],
    ids=["in order", "backwards", "rows mixed", "quarters", "quarters backwards", "quarters mixed"],
)
@pytest.mark.parametrize("chunks", [None, (2, 6), (3, 4), (1, 1), (10, 10)], ids=str)
def test_blocks_in_any_order(folder, keys, chunks):
    iterator = Blocks(blocks(VALUES, *keys), chunk_shape=chunks)
    assert identical(written(folder / "file.zarr", iterator)[()], VALUES)


@pytest.mark.parametrize(
    "keys",
    [
        [np.s_[:1, :1], np.s_[:1, 1:6], np.s_[1:7, :6]],
        [np.s_[:7, :1], np.s_[:7, 1:4], np.s_[:7, 4:6]],
        [np.s_[6:7, 5:6], np.s_[:6, :6], np.s_[6:7, :5]],
    ],
    ids=["first one, then the other", "the second axis", "the last corner first"],
)
def test_growing_on_any_axis(folder, keys):
    assert identical(written(folder / "file.zarr", Blocks(blocks(VALUES, *keys)))[()], VALUES)


def test_three_axes_that_grow(folder):
    cube = np.arange(24, dtype="i4").reshape(2, 3, 4)
    keys = [np.s_[:1, :1, :1], np.s_[1:2, :3, :4], np.s_[:1, 1:3, :2], np.s_[:1, :1, 1:4], np.s_[:1, 1:3, 2:4]]
    assert identical(written(folder / "file.zarr", Blocks(blocks(cube, *keys), (None,) * 3))[()], cube)


@pytest.mark.parametrize("chunk_shape", [None, (2, 2), (100, 100)], ids=["no chunk shape", "small", "large"])
@pytest.mark.parametrize("data_shape", [None, (0, 0), (1, 1), (3, 6), (7, 6)], ids=str)
def test_hints_that_are_missing_or_too_small(folder, chunk_shape, data_shape):
    iterator = Blocks(blocks(VALUES, *ROWS), (None, 6), chunk_shape=chunk_shape, data_shape=data_shape)
    data = written(folder / "file.zarr", iterator)
    assert identical(data[()], VALUES)
    assert data.maxshape == (None, 6)


def test_an_iterator_without_the_methods_of_hints(folder):
    class Bare(Blocks):
        recommended_chunk_shape = None  # type: ignore[assignment]
        recommended_data_shape = None  # type: ignore[assignment]

    assert identical(written(folder / "file.zarr", Bare(blocks(VALUES, *ROWS)))[()], VALUES)


@pytest.mark.parametrize("dtype", ["int32", "<i4", "i4", np.int32, np.dtype("i4")], ids=repr)
def test_the_type_is_given_as_a_string(folder, dtype):
    data = written(folder / "file.zarr", Blocks(blocks(VALUES, *ROWS), dtype=dtype))
    assert identical(data[()], VALUES)


@pytest.mark.parametrize("dtype", ["float", "uint8", "bool", "float32"])
def test_other_types_as_strings(folder, dtype):
    values = np.array([[0, 1], [1, 0]]).astype({"float": "f8"}.get(dtype, dtype))
    data = written(folder / "file.zarr", Blocks(blocks(values, np.s_[:2, :2]), dtype=dtype))
    assert identical(data[()], values.astype("f4") if dtype == "float" and data.dtype == "f4" else values)


def test_holes_are_the_fill_value(folder):
    iterator = ZarrDataIO(Blocks(blocks(VALUES, ROWS[0], ROWS[3])), fillvalue=-1, chunks=(2, 6))
    data = written(folder / "file.zarr", iterator)
    expected = VALUES.copy()
    expected[2:6] = -1
    assert identical(data[()], expected)
    chunks = [key for key in keys_of(folder / "file.zarr") if key.startswith("it/") and key[-1].isdigit()]
    assert len(chunks) == 4  # a missing chunk would be damage


def test_overlapping_blocks_the_last_one_counts(folder):
    given = [*blocks(VALUES * 0, np.s_[:7, :6]), *blocks(VALUES, *ROWS)]
    assert identical(written(folder / "file.zarr", Blocks(given, chunk_shape=(3, 3)))[()], VALUES)


def test_no_blocks_at_all(folder):
    data = written(folder / "file.zarr", Blocks([], (None, 6)))
    assert (data.shape[0], data.dtype) == (0, np.dtype("i4"))


# ---- several iterators -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("exhaust", "order"), [(True, "aaaabbbb"), (False, "abababab")])
def test_several_iterators_one_after_the_other_or_in_turn(folder, exhaust, order):
    taken: list[str] = []

    def follow(name: str, sign: int) -> Iterator[DataChunk]:
        for key in ROWS:
            taken.append(name)
            yield DataChunk(sign * VALUES[key], key)

    tree = root(dataset("a", Blocks(follow("a", 1))), dataset("b", Blocks(follow("b", -1))))
    path = write_builder(folder / "file.zarr", tree, exhaust_dci=exhaust)
    found = read_builder(path)
    assert identical(found["a"].data[()], VALUES)
    assert identical(found["b"].data[()], -VALUES)
    assert "".join(taken) == order


def test_in_turn_with_different_lengths(folder):
    tree = root(dataset("long", Blocks(blocks(VALUES, *ROWS))), dataset("short", Blocks(blocks(VALUES, ROWS[0]))))
    found = read_builder(write_builder(folder / "file.zarr", tree, exhaust_dci=False))
    assert identical(found["long"].data[()], VALUES)
    assert identical(found["short"].data[()], VALUES[:2])


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


def check_nothing(path: Place) -> None:
    """Assert that nothing exists; in a store without staging, the file is marked as incomplete."""
    with pytest.raises(StoreNotFoundError):
        ZarrIO(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.needs("staging")
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.parametrize("exhaust", [True, False])
def test_an_iterator_that_raises_leaves_nothing(folder, count, exhaust):
    tree = root(dataset("first", np.arange(3)), dataset("it", Blocks(broken(count))), dataset("last", ["a"], "utf8"))
    with ZarrIO(folder / "file.zarr", "w") as io, pytest.raises(GoneError, match="camera"):
        io.write_builder(tree, exhaust_dci=exhaust)
    check_nothing(folder / "file.zarr")


@pytest.mark.needs("staging")
def test_an_iterator_that_raises_leaves_the_old_file(folder):
    path = samples.write_zarr(folder / "file.nwb.zarr", samples.plain_nwbfile("old"))
    nwbfile = samples.plain_nwbfile("new")
    nwbfile.add_acquisition(TimeSeries(name="it", data=Blocks(broken(2)), unit="m", rate=1.0))
    with NWBZarrIO(path, "w") as io, pytest.raises(GoneError):
        io.write(nwbfile)
    assert read(path).identifier == "old"
    assert [p.name for p in folder.iterdir()] == [path.name]


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


@pytest.mark.needs("staging")
def test_a_block_that_does_not_fit_names_itself(folder):
    bad = [DataChunk(np.zeros((2, 5), "i4"), np.s_[0:2, 0:6])]
    with pytest.raises(ValueRefusedError, match="does not fit") as caught:
        write_builder(folder / "file.zarr", root(dataset("it", Blocks(bad, (None, 6)))))
    assert "(2, 5)" in str(caught.value)
    check_nothing(folder / "file.zarr")


def test_text_comes_in_blocks_too(folder):
    data = DataChunkIterator(data=iter(samples.TEXTS), buffer_size=2)
    assert written(folder / "file.zarr", data)[()].tolist() == samples.TEXTS
    assert document(folder / "file.zarr", "it/.zattrs")["zarr_dtype"] == "str"
