"""Values become elements of the type of their dataset without loss, when it is written and when it is changed."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pytest

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.errors import ValueRefusedError
from tests.trees import dataset, read_builder, root, write_builder

ROWS = [{"name": "n", "dtype": "int8"}, {"name": "text", "dtype": "utf8"}]
FITS: list[tuple[Any, Any, list[Any]]] = [
    ([1.0], "int32", [1]),
    ([1], "bool", [True]),
    ([0.1], "float32", [np.float32(0.1)]),
    ([2 + 0j], "float64", [2.0]),
    ([np.int8(3), 7], "int16", [3, 7]),
    ([np.array(2.0)], "float64", [2.0]),
    (["a\0", np.str_("ü"), np.array("x")], "utf8", ["a\0", "ü", "x"]),
    ([datetime.date(2024, 2, 29)], "utf8", ["2024-02-29"]),
    ([(1, "a"), (2, "ü")], ROWS, [(1, "a"), (2, "ü")]),
]
REFUSED: list[tuple[Any, Any]] = [
    *(([value], "int32") for value in (1.5, np.nan, 2**40, "a", None)),
    ([300], "uint8"),
    ([-1], "uint64"),
    ([2], "bool"),
    ([1 + 1j], "float64"),
    ([2**53 + 1], "float64"),
    *((["a", value], "utf8") for value in (5, 1.5, None, ["a"], {})),
    ([(300, "a")], ROWS),
    ([(1, 5)], ROWS),
    ([(1,)], ROWS),
    ([[1, 2], [3]], "int32"),
]


@pytest.mark.parametrize(("values", "dtype", "wanted"), FITS, ids=str)
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_fits_is_taken(tmp_path, values, dtype, wanted, zarr_format):
    path = write_builder(tmp_path / "a.zarr", root(dataset("data", values, dtype)), zarr_format=zarr_format)
    found = read_builder(path)["data"].data
    assert found[:].tolist() == wanted
    assert dtype in (ROWS, "utf8") or found.dtype == np.dtype(dtype)


@pytest.mark.parametrize(("values", "dtype"), REFUSED, ids=str)
def test_what_does_not_fit_is_refused_and_nothing_is_written(tmp_path, values, dtype):
    with pytest.raises(ValueRefusedError) as caught:
        write_builder(tmp_path / "a.zarr", root(dataset("data", values, dtype)))
    assert caught.value.path == "/data"
    assert caught.value.remedy
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize(("values", "dtype"), [case for case in REFUSED if len(case[0]) == 1], ids=str)
def test_what_does_not_fit_is_refused_in_a_change(tmp_path, values, dtype):
    first = [(1, "a")] if dtype == ROWS else [0]
    path = write_builder(tmp_path / "a.zarr", root(dataset("data", first, dtype)))
    with ZarrIO(path, "r+") as file:
        data = file.read_builder()["data"].data
        with pytest.raises(ValueRefusedError) as caught:
            data[0] = values[0]
        assert caught.value.path == "/data"
        with pytest.raises(ValueRefusedError):
            data.append(values)
    assert read_builder(path)["data"].data[:].tolist() == first
