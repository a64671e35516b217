"""Arrays of format 3 whose chunks have their axes in any order, as zarr-python and TensorStore write them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from zarr.codecs import TransposeCodec

from hdmf_zarr_backend import ZarrIO, convert, upgrade, verify
from hdmf_zarr_backend.comparison import compare
from hdmf_zarr_backend.errors import UsageError
from tests import trees

NUMBERS = np.arange(60).reshape(5, 4, 3)
TEXTS = np.array([f"text {n}" for n in range(60)], dtype=object).reshape(5, 4, 3)
ROWS = np.zeros((5, 4, 3), [("a", "i4"), ("b", "f8")])
ROWS["a"], ROWS["b"] = NUMBERS, NUMBERS / 2
VALUES: dict[str, Any] = {"numbers": NUMBERS, "shards": NUMBERS, "texts": TEXTS, "rows": ROWS}
ORDERS = [(1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0)]


pytestmark = pytest.mark.filterwarnings("ignore::Warning")  # zarr warns of its own data types


def write(path: Path, order: tuple[int, ...]) -> Path:
    group = zarr.create_group(path, zarr_format=3)
    for name, values in VALUES.items():
        array = group.create_array(
            name, shape=values.shape, dtype=str if values.dtype.hasobject else values.dtype, chunks=(2, 3, 3),
            shards=(4, 6, 3) if name == "shards" else None, filters=[TransposeCodec(order=order)],
        )  # fmt: skip
        array[...] = values
    return path


def check(path: Path, expected: dict[str, Any] = VALUES) -> None:
    root = trees.read_builder(path)
    for name, values in expected.items():
        data = root[name].data
        np.testing.assert_array_equal(data[...], values)
        np.testing.assert_array_equal(data[1:4, 2], values[1:4, 2])
        np.testing.assert_array_equal(data[:, ::2, 1], values[:, ::2, 1])


@pytest.mark.parametrize("order", ORDERS)
def test_read(tmp_path, order):
    path = write(tmp_path / "a.zarr", order)
    group = zarr.open_group(path, mode="r")
    # zarr before 3.2 does not read back text that it has stored in order F
    expected = {name: VALUES[name] for name in VALUES if np.array_equal(group[name][...], VALUES[name])}
    assert len(expected) >= len(VALUES) - (order == (2, 1, 0))
    check(path, expected)
    assert verify(path).problems == []


@pytest.mark.parametrize("first", ORDERS)
@pytest.mark.parametrize("second", ORDERS)
def test_one_order_after_the_other(tmp_path, first, second):
    group = zarr.create_group(tmp_path / "a.zarr", zarr_format=3)
    filters = [TransposeCodec(order=first), TransposeCodec(order=second)]
    array = group.create_array("numbers", shape=NUMBERS.shape, dtype="i8", chunks=(2, 3, 3), filters=filters)
    array[...] = NUMBERS
    check(tmp_path / "a.zarr", {"numbers": NUMBERS})


@pytest.mark.parametrize("zarr_format", [2, 3, "both", "hdf5"])
def test_converted_and_exported(tmp_path, zarr_format):
    path = write(tmp_path / "a.zarr", (1, 2, 0))
    if zarr_format == "hdf5":
        convert(path, tmp_path / "a.h5")
        assert compare(path, tmp_path / "a.h5", ignore=("chunks", "filters", "layout")) == []
        return
    with ZarrIO(path, "r") as source, ZarrIO(tmp_path / "exported.zarr", "w", zarr_format=zarr_format) as io:
        io.export(source)
    check(tmp_path / "exported.zarr")
    if zarr_format != 3:
        convert(path, tmp_path / "b.zarr", zarr_format=zarr_format)
        check(tmp_path / "b.zarr")
        assert compare(path, tmp_path / "b.zarr") == []
        assert verify(tmp_path / "b.zarr").problems == []


def test_changed_and_longer(tmp_path):
    path = write(tmp_path / "a.zarr", (1, 2, 0))
    expected = dict(VALUES)
    with trees.edit_builder(path) as root:
        for name in ("numbers", "shards"):
            data = root[name].data
            data[1:3, 2] = -7
            data.resize((8, 4, 3))
            data[5:] = 9
            expected[name] = np.concatenate([NUMBERS, np.full((3, 4, 3), 9)])
            expected[name][1:3, 2] = -7
        root["texts"].data[0, 0, 0] = "new"
        expected["texts"] = TEXTS.copy()
        expected["texts"][0, 0, 0] = "new"
        root.set_dataset(trees.dataset("new", np.arange(3)))
    check(path, expected)
    group = zarr.open_group(path, mode="r")
    for name, values in expected.items():
        np.testing.assert_array_equal(group[name][...], values)
    assert "(1, 2, 0)" in repr(group["numbers"].metadata.codecs), "the array keeps its order"
    assert verify(path).problems == []


def test_upgrade_leaves_it(tmp_path):
    """A file of format 3 cannot become one of both formats where it is, whatever its orders are."""
    path = write(tmp_path / "a.zarr", (1, 2, 0))
    with pytest.raises(UsageError, match="zarrio convert --zarr-format both"):
        upgrade(path, keep=True)
    upgrade(path)
    check(path)


def test_tensorstore_writes_one(tmp_path):
    tensorstore = pytest.importorskip("tensorstore")
    zarr.create_group(tmp_path / "a.zarr", zarr_format=3)
    codecs = [{"name": "transpose", "configuration": {"order": [1, 2, 0]}}, {"name": "bytes"}]
    grid = {"name": "regular", "configuration": {"chunk_shape": [2, 3, 3]}}
    spec = {
        "driver": "zarr3",
        "kvstore": {"driver": "file", "path": f"{tmp_path / 'a.zarr' / 'numbers'}/"},
        "metadata": {"shape": [5, 4, 3], "data_type": "int64", "chunk_grid": grid, "codecs": codecs},
    }
    tensorstore.open(spec, create=True).result().write(NUMBERS).result()
    check(tmp_path / "a.zarr", {"numbers": NUMBERS})
