"""Dates and durations of NumPy keep their unit: both formats, both ways, in every form that HDMF passes."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr
from hdmf.build import ReferenceBuilder
from hdmf.common import DynamicTable, VectorData, get_manager
from hdmf.data_utils import DataChunkIterator

from hdmf_zarr_backend import ZarrIO, compare, convert, verify
from hdmf_zarr_backend.errors import ConflictError, ValueRefusedError
from tests.trees import dataset, read_builder, root, write_builder

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

VALUES = {
    "seconds": np.array(["2020-01-01T00:00:01", "NaT", "1969-12-31"], "M8[s]"),
    "nanoseconds, big-endian": np.array(["2020-01-01T00:00:00.123456789", "NaT"], ">M8[ns]"),
    "days": np.array([["2020-01-01", "2024-02-29"]], "M8[D]"),
    "years": np.array(["2020", "NaT"], "M8[Y]"),
    "steps of 25 s": np.array([1, 2], "M8[25s]"),
    "durations of 10 ms": np.array([1, -2, "NaT"], "m8[10ms]"),
    "durations, big-endian": np.array([5], ">m8[h]"),
    "empty": np.array([], "M8[us]"),
}


def read(path: Path, name: str = "when") -> Any:
    data = read_builder(path)[name].data
    return data[...] if getattr(data, "shape", ()) else data


def assert_same(found: Any, wanted: Any) -> None:
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype.newbyteorder("=") == wanted.dtype.newbyteorder("=")
    assert np.array_equal(found.astype("i8"), wanted.astype("i8"))
    assert found.shape == wanted.shape


@pytest.mark.parametrize("name", VALUES)
def test_dates_come_back(tmp_path, name, zarr_format):
    path = write_builder(tmp_path / "a.zarr", root(dataset("when", VALUES[name])), zarr_format=zarr_format)
    data = read_builder(path)["when"].data
    assert data.dtype == VALUES[name].dtype
    for found in (data[:], data[:1], zarr.open_group(path, mode="r")["when"][...]):
        assert_same(found, VALUES[name][: len(found)])
    assert not verify(path).problems


@pytest.mark.parametrize("dtype", [np.datetime64, "M8", np.dtype("M8"), "datetime64[ms]", None], ids=str)
def test_the_word_of_a_builder_does_not_take_the_unit_away(tmp_path, dtype, zarr_format):
    wanted = np.array(["2020-01-01T00:00:01", "NaT"], "M8[ms]" if dtype == "datetime64[ms]" else "M8[s]")
    for data in (wanted, list(wanted), DataChunkIterator(data=iter(wanted), dtype=wanted.dtype, maxshape=(None,))):
        write_builder(tmp_path / "a.zarr", root(dataset("when", data, dtype)), zarr_format=zarr_format)
        assert_same(read(tmp_path / "a.zarr"), wanted)


def test_scalars_fields_and_attributes_keep_the_unit(tmp_path, zarr_format):
    rows = np.array([("2020-01-01", 3, 1), ("NaT", "NaT", 2)], [("t", "<M8[s]"), ("d", ">m8[10ms]"), ("n", "<i4")])
    attributes = {"day": np.datetime64("2020-01-01"), "spans": np.array([1, "NaT"], "m8[25us]")}
    tree = root(dataset("scalar", np.datetime64("2020-01-01", "h")), dataset("rows", rows), **attributes)
    write_builder(tmp_path / "a.zarr", tree, zarr_format=zarr_format)
    assert_same(read(tmp_path / "a.zarr", "scalar"), np.datetime64("2020-01-01", "h"))
    nwbfile = read(tmp_path / "a.zarr", "rows")
    for name in ("t", "d"):
        assert_same(nwbfile[name], rows[name])
    for name, value in attributes.items():
        assert_same(read_builder(tmp_path / "a.zarr").attributes[name], value)


def test_dates_in_rows_with_references_keep_the_unit(tmp_path, zarr_format):
    target = dataset("target", [1])
    fields = [{"name": "when", "dtype": "datetime64[ns]", "doc": "x"}, {"name": "to", "dtype": "object", "doc": "x"}]
    rows = [
        (np.datetime64("2020-01-01T00:00:01"), ReferenceBuilder(target)),
        (np.datetime64("NaT", "ns"), ReferenceBuilder(target)),
    ]
    write_builder(tmp_path / "a.zarr", root(target, dataset("rows", rows, fields)), zarr_format=zarr_format)
    assert_same(read(tmp_path / "a.zarr", "rows")["when"], np.array(["2020-01-01T00:00:01", "NaT"], "M8[ns]"))
    fields[0]["dtype"] = "datetime64"
    with pytest.raises(ValueRefusedError, match=r"no unit.*\(/rows\)"):
        write_builder(tmp_path / "b.zarr", root(target, dataset("rows", rows, fields)), zarr_format=zarr_format)


@pytest.mark.parametrize(
    "data",
    [
        np.array([0], "i8").view(kind)[index]
        for kind, index in (("M8", ...), ("m8", ...), ("M8", 0), ([("t", "M8")], ...))
    ],
    ids=["dates", "durations", "scalar", "field"],
)
def test_dates_without_a_unit_are_refused_by_name(tmp_path, data, zarr_format):
    with pytest.raises(ValueRefusedError, match=r"a\.zarr: .*no unit.*\(/when\)"):
        write_builder(tmp_path / "a.zarr", root(dataset("when", data)), zarr_format=zarr_format)


@pytest.mark.parametrize("dtype", ["int64", "float64", "timedelta64[s]", "datetime64[D]"])
@pytest.mark.parametrize("as_list", [False, True])
def test_dates_are_not_written_as_something_else(tmp_path, dtype, as_list):
    values = np.array(["2020-01-01T12:00", "2020-01-01"], "M8[s]")
    with pytest.raises(ValueRefusedError, match=r"without loss.*\(/when\)"):
        write_builder(
            tmp_path / "a.zarr", root(dataset("when", list(values) if as_list else values, dtype)), zarr_format=2
        )


@pytest.mark.parametrize("dtype", ["<M8[s]", ">M8[ns]", "<m8[10ms]", ">m8[D]"])
@pytest.mark.parametrize("fill", ["NaT", 5])
def test_what_zarr_writes_is_read(tmp_path, dtype, fill, zarr_format):
    group = zarr.open_group(tmp_path / "a.zarr", mode="w", zarr_format=zarr_format)
    values = np.array([1, "NaT", 3, 4], dtype)
    array = group.create_array(
        "when", shape=(6,), chunks=(2,), dtype=values.dtype, fill_value=np.array(fill, dtype)[()]
    )
    array[:4] = values
    nwbfile = read(tmp_path / "a.zarr")
    assert_same(nwbfile, np.concatenate([values, np.array([fill] * 2, dtype)]))
    assert nwbfile.dtype == array.dtype or zarr_format == 3
    assert not verify(tmp_path / "a.zarr").problems


def test_edits_keep_the_moment_or_are_refused(tmp_path, zarr_format):
    path = tmp_path / "a.zarr"
    column = VectorData(name="when", description="x", data=VALUES["seconds"])
    with ZarrIO(path, "w", manager=get_manager(), zarr_format=zarr_format) as io:
        io.write(DynamicTable(name="table", description="x", columns=[column]))
    with ZarrIO(path, "a", manager=get_manager()) as io:
        table = io.read()
        table.add_row(when=np.datetime64("2021-01-01"))
        table["when"].data[1] = np.datetime64("2022-02-02T00:00:00.000", "ms")
        for wrong in (np.datetime64("2021-01-01T00:00:00.5"), np.timedelta64(1, "s")):
            with pytest.raises(ValueRefusedError, match="without loss"):
                table["when"].data[0] = wrong
            with pytest.raises(ValueRefusedError, match="without loss"):
                table.add_row(when=wrong)
        with pytest.raises(ConflictError, match="6 rows in id; 4 rows in when"):  # hdmf has added the ids before
            io.write(table)
        table.id.data.resize((4,))
        io.write(table)
    assert_same(read(path), np.array(["2020-01-01T00:00:01", "2022-02-02", "1969-12-31", "2021-01-01"], "M8[s]"))


def test_other_units_are_a_difference(tmp_path):
    values = VALUES["durations of 10 ms"]
    one, other = (root(dataset("when", each)) for each in (values, values.astype("m8[us]")))
    assert compare(write_builder(tmp_path / "a.zarr", one), write_builder(tmp_path / "b.zarr", other)) != []


@pytest.mark.parametrize("tree", [
    root(dataset("when", np.array(["2020"], "M8[s]"))),
    root(dataset("when", np.timedelta64(3, "ms"))),
    root(dataset("when", np.array([("2020",)], [("t", "M8[D]")]))),
    root(dataset("when", [1], attributes={"start": np.datetime64("2020-01-01")})),
], ids=["array", "scalar", "field", "attribute"])  # fmt: skip
def test_hdf5_has_no_dates_and_the_conversion_says_so(tmp_path, tree, zarr_format):
    write_builder(tmp_path / "a.zarr", tree, zarr_format=zarr_format)
    with pytest.raises(ValueRefusedError, match=r"a\.zarr: HDF5 has no data type for .*\[.*\(/when\)"):
        convert(tmp_path / "a.zarr", tmp_path / "a.h5")
    assert sorted(p.name for p in tmp_path.iterdir() if not p.name.startswith(".")) == ["a.zarr"]


def test_dates_that_h5py_stored_as_opaque_values_go_back(tmp_path, zarr_format):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["when"] = np.array([0, 5], "M8[s]").astype(h5py.opaque_dtype("M8[s]"))
        file["scalar"] = np.array(5, "M8[ns]").astype(h5py.opaque_dtype("M8[ns]"))
        file.attrs["span"] = np.array([1, 2], ">m8[10ms]").astype(h5py.opaque_dtype(">m8[10ms]"))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=zarr_format)
    assert_same(read(tmp_path / "a.zarr"), np.array([0, 5], "M8[s]"))
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert compare(tmp_path / "a.h5", tmp_path / "b.h5") == []
    with h5py.File(tmp_path / "b.h5") as file:
        assert_same(file["when"][...], np.array([0, 5], "M8[s]"))
        assert_same(file["scalar"][()], np.datetime64(5, "ns"))
        assert_same(file.attrs["span"], np.array([1, 2], "m8[10ms]"))
