"""Values of several types: all of them choose the type of a dataset, and none is changed on any way into a file."""

import datetime
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hdmf.build import GroupBuilder, ReferenceBuilder
from hdmf.common import DynamicTable, VectorData, get_manager
from hdmf.data_utils import DataChunkIterator
from pynwb import TimeSeries
from pynwb.testing.mock.file import mock_NWBFile
from pynwb.testing.mock.ophys import mock_PlaneSegmentation

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.errors import ValueRefusedError
from tests import samples
from tests.blocks import Windows
from tests.trees import dataset, read_builder, root, write_builder

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

NAN = float("nan")
LARGE = 2**53 + 1
MORNING = np.datetime64("2020-01-01T08:00", "s")


class Mix(NamedTuple):
    """Values, and what becomes of them."""

    values: Any
    listed: str
    """The type of a list of them; or what its refusal says."""
    base: str
    """The type of a dataset that they are assigned and appended to."""
    edited: str = ""
    """What the refusal of that says; empty: they fit."""

    @property
    def dtype(self) -> np.dtype[Any] | None:
        return None if " " in self.listed else np.dtype(self.listed)


MIXES = {
    "int, float": Mix([1, 2.5, 3], "f8", "i8", "int64 without loss: 2.5"),
    "float, int": Mix([1.5, 2], "f8", "f8"),
    "int, nan": Mix([1, NAN, 3], "f8", "i8", "int64 without loss: nan"),
    "nan, int": Mix([NAN, 1], "f8", "f8"),
    "int, None": Mix([1, None, 3], "element 1: None", "i8", "None"),
    "float, None": Mix([1.5, None], "element 1: None", "f8", "None"),
    "None, int": Mix([None, 1], "element 0: None", "i8", "None"),
    "bool, int": Mix([True, 2, 0], "element 1: 2 is a number", "?", "2"),
    "int, bool": Mix([1, True], "element 1: True is a boolean", "i8", "True"),
    "bool, None": Mix([True, None], "element 1: None", "?", "None"),
    "bool, nan": Mix([True, NAN], "element 1: nan is a number", "?", "nan"),
    "bool, float": Mix([True, 0.5], "element 1: 0.5 is a number", "?", "0.5"),
    "bool, bool": Mix([True, np.False_], "?", "?"),
    "int, str": Mix([1, "a"], "element 1: 'a' is text", "i8", "'a'"),
    "float, str": Mix([1.5, "2.5"], "element 1: '2.5' is text", "f8", "'2.5'"),
    "str, int": Mix(["a", 1], "element 1: 1 is a number", "O", "1 of type int is not text"),
    "str, nan": Mix(["a", NAN], "element 1: nan is a number", "O", "nan of type float is not text"),
    "str, None": Mix(["a", None], "element 1: None", "O", "None"),
    "nested str, None": Mix([["a", "b"], ["c", None]], r"element \[1, 1\]: None", "O", "None"),
    "str, bytes": Mix(["a", b"b"], "O", "O"),
    "bytes, str": Mix([b"a", "ü"], "O", "O"),
    "int8, int": Mix([np.int8(1), 300], "i8", "i1", "int8 without loss: 300"),
    "uint8, int": Mix([np.uint8(1), -1], "i8", "u1", "uint8 without loss: -1"),
    "int8, int16": Mix([np.int8(1), np.int16(300)], "i2", "i1", "int8 without loss: 300"),
    "int8, uint8": Mix([np.int8(-1), np.uint8(200)], "i2", "i1", "int8 without loss: 200"),
    "float32, float": Mix([np.float32(1), 0.1], "f8", "f8"),
    "float32, float16": Mix([np.float32(0.1), np.float16(0.5)], "f4", "f4"),
    "int8, float32": Mix([np.int8(1), np.float32(0.5)], "f4", "f4"),
    "int64, float": Mix([np.int64(1), 2.5], "f8", "i8", "int64 without loss: 2.5"),
    "int, float64": Mix([1, np.float64(2.5)], "f8", "i8", "int64 without loss: 2.5"),
    "int, 2**63": Mix([1, 2**63], "u8", "i8", "int64 without loss: 9223372036854775808"),
    "int, 2**64": Mix([1, 2**64], "element 1: no integer type", "i8", "18446744073709551616"),
    "-1, 2**63": Mix([-1, 2**63], "element 1: no integer type", "i8", "9223372036854775808"),
    "int64, uint64": Mix([np.int64(-1), np.uint64(2**63)], "element 1: no integer type", "i8", "9223372036854775808"),
    "float, 2**53+1": Mix([0.5, LARGE], "element 1: the integer 9007199254740993", "f8", "9007199254740993"),
    "nested": Mix([[1, 2], [3, 4.5]], "f8", "i8", "int64 without loss: 4.5"),
    "nested, nan": Mix([[1, 2], [NAN, 4]], "f8", "i8", "int64 without loss: nan"),
    "nested, bool": Mix([[1, 2], [3, True]], r"element \[1, 1\]: True is a boolean", "i8", "True"),
    "arrays of int, float": Mix([np.array([1, 2]), np.array([3.5, 4])], "f8", "i8", "int64 without loss: 3.5"),
    "arrays of float32, float64": Mix([np.array([1, 2], "f4"), np.array([0.1, 0.2])], "f8", "f8"),
    "arrays of int8, int64": Mix([np.array([1, 2], "i1"), np.array([300, 4])], "i8", "i1", "int8 without loss: 300"),
    "arrays of bool, int": Mix([np.array([True]), np.array([2])], r"element \[1, 0\]: 2 is a number", "?", "2"),
    "units of dates": Mix([np.datetime64("2020-01-01"), MORNING], "M8[s]", "M8[s]"),
    "date, int": Mix([MORNING, 5], "element 1: 5 is a number", "M8[s]", "5"),
    "date, datetime": Mix(
        [datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1, 8)], "element 1: .* is a time", "i8", "2020"
    ),
}  # fmt: skip


def plain(value: Any) -> Any:
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) and value.dtype.kind not in "mM" else value
    return value.decode() if isinstance(value, bytes) else value


def assert_same(found: Any, values: Any, dtype: np.dtype[Any]) -> None:
    assert np.asarray(found).dtype.newbyteorder("=") == dtype
    assert str(plain(found)) == str(plain(np.array(values, dtype) if dtype.kind in "fMiu" else values))


def table_of(data: Any) -> DynamicTable:
    return DynamicTable(name="table", description="x", columns=[VectorData(name="c", description="x", data=data)])


def by_rows(values: Any, *, index: bool = False) -> DynamicTable:
    table = DynamicTable(name="table", description="x")
    table.add_column("c", "x", index=index)
    for value in values:
        table.add_row(c=[value] if index else value)
    return table


def objects(values: Any) -> np.ndarray[Any, Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


WAYS: dict[str, Callable[[Any], DynamicTable]] = {
    "column": lambda values: table_of(list(values)),
    "add_row": by_rows,
    "ragged column": partial(by_rows, index=True),
    "array of objects": lambda values: table_of(objects(values)),
    "ZarrDataIO": lambda values: table_of(ZarrDataIO(list(values), chunks=None)),
}


def is_written(mix: Mix, io: ZarrIO, container: Any, path: str) -> bool:
    with io:
        if mix.dtype is not None:
            io.write(container)
            return True
        with pytest.raises(ValueRefusedError, match=mix.listed) as caught:
            io.write(container)
        assert caught.value.path == path
    return False


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", MIXES)
def test_all_elements_of_a_column_choose_its_type(tmp_path, name, way, zarr_format):
    mix = MIXES[name]
    if way == "add_row" and None in plain(mix.values):
        pytest.skip("hdmf refuses a row without a value")
    io = ZarrIO(str(tmp_path / "a.zarr"), "w", manager=get_manager(), zarr_format=zarr_format)
    if is_written(mix, io, WAYS[way](mix.values), "/c"):
        with ZarrIO(str(tmp_path / "a.zarr"), "r", manager=get_manager()) as io:
            column = io.read()["c"]
            assert_same(getattr(column, "target", column).data[:], mix.values, mix.dtype)


def is_series(name: str) -> bool:
    """Return whether hdmf takes it as data of a series: it begins with a number or text."""
    return MIXES[name].base != "?" and "date" not in name and MIXES[name].values[0] is not None


@pytest.mark.parametrize("name", [name for name in MIXES if is_series(name)])
def test_all_elements_of_a_series_choose_its_type(tmp_path, name, zarr_format):
    mix = MIXES[name]
    nwbfile = mock_NWBFile()
    nwbfile.add_acquisition(TimeSeries(name="x", data=list(mix.values), unit="V", rate=1.0))
    path = tmp_path / "a.nwb.zarr"
    if is_written(mix, NWBZarrIO(path, "w", zarr_format=zarr_format), nwbfile, "/acquisition/x/data"):
        assert_same(samples.read_zarr(path).acquisition["x"].data[:], mix.values, mix.dtype)


@pytest.mark.parametrize("name", MIXES)
def test_an_attribute_has_the_type_of_all_elements_or_comes_back_as_it_is(tmp_path, name, zarr_format):
    """JSON holds mixed lists, so that only values that JSON lacks are refused."""
    mix = MIXES[name]
    leaves = [] if isinstance(mix.values[0], np.ndarray) else np.array(mix.values, object).reshape(-1).tolist()
    is_json = bool(leaves) and all(type(leaf) in (int, float, bool, str, type(None)) for leaf in leaves)
    path = str(tmp_path / "a.zarr")
    if (mix.dtype is None and not is_json) or "bytes" in name:
        with pytest.raises(ValueRefusedError, match="the attribute 'x' cannot be stored"):
            write_builder(path, root(x=mix.values), manager=get_manager(), zarr_format=zarr_format)
        return
    write_builder(path, root(x=mix.values), manager=get_manager(), zarr_format=zarr_format)
    found = read_builder(path, manager=get_manager()).attributes["x"]
    if mix.dtype is None:
        found = found.tolist() if isinstance(found, np.ndarray) else found
        assert str(found) == str(mix.values)
    else:
        assert_same(found, mix.values, mix.dtype)


@pytest.mark.parametrize("way", ["assign", "append", "add_row"])
@pytest.mark.parametrize("name", MIXES)
def test_what_is_put_into_a_dataset_is_kept_or_refused(tmp_path, name, way, zarr_format):
    mix = MIXES[name]
    if way == "add_row" and None in plain(mix.values):
        pytest.skip("hdmf refuses a row without a value")
    length = len(mix.values)
    shape = (length, *np.shape(mix.values[0]))
    base = np.full(shape, "") if mix.base == "O" else np.zeros(shape, mix.base)
    with ZarrIO(str(tmp_path / "a.zarr"), "w", manager=get_manager(), zarr_format=zarr_format) as io:
        io.write(table_of(ZarrDataIO(base, maxshape=(None, *shape[1:]))))

    def put(table: DynamicTable) -> None:
        if way == "assign":
            table["c"].data[0:length] = mix.values
        elif way == "append":
            table["c"].data.append(mix.values)
            table.id.data.append(range(length, 2 * length))
        else:
            for value in mix.values:
                table.add_row(c=value)

    with ZarrIO(str(tmp_path / "a.zarr"), "r+", manager=get_manager()) as io:
        table = io.read()
        if mix.edited:
            with pytest.raises(ValueRefusedError, match=mix.edited) as caught:
                put(table)
            assert caught.value.path == "/c"
            table.id.data.resize((len(table["c"].data),))  # hdmf adds the id of a row before its values
            return
        put(table)
        io.write(table)
    with ZarrIO(str(tmp_path / "a.zarr"), "r", manager=get_manager()) as io:
        assert_same(io.read_builder()["c"].data[:][-length:], mix.values, np.dtype(mix.base))


@pytest.mark.parametrize("name", MIXES)
def test_an_iterator_over_a_list_has_the_type_of_all_elements(tmp_path, name, zarr_format):
    mix = MIXES[name]
    if mix.values[0] is None or "date" in name or "str" in name:
        pytest.skip("hdmf's iterator takes numbers")
    values = DataChunkIterator(data=list(mix.values), buffer_size=1)
    path, tree = str(tmp_path / "a.zarr"), root(dataset("c", values, values.dtype.type))
    if mix.dtype is None and None not in plain(mix.values):
        with pytest.raises(ValueRefusedError, match=mix.listed):
            write_builder(path, tree, zarr_format=zarr_format)
        return
    found = read_builder(write_builder(path, tree, zarr_format=zarr_format))["c"].data[:]
    if None in plain(mix.values):
        assert found.tolist() == [value or 0 for value in mix.values]  # hdmf leaves None out: it is the fill value
    else:
        assert_same(found, mix.values, mix.dtype)


TEXT_ROWS = [{"name": "n", "dtype": "int8"}, {"name": "text", "dtype": "utf8"}]


@pytest.mark.parametrize(("values", "dtype", "wanted"), [
    ([1.0], "int32", [1]),
    ([1], "bool", [True]),
    ([0.1, float("-inf")], "float32", [np.float32(0.1), float("-inf")]),
    ([2 + 0j], "float64", [2.0]),
    ([np.int8(3), 7], "int16", [3, 7]),
    ([np.array(2.0)], "float64", [2.0]),
    (["a\0", np.str_("ü"), np.array("x")], "utf8", ["a\0", "ü", "x"]),
    ([datetime.date(2024, 2, 29)], "utf8", ["2024-02-29"]),
    ([(1, "a"), (2, "ü")], TEXT_ROWS, [(1, "a"), (2, "ü")]),
], ids=str)  # fmt: skip
def test_what_fits_into_the_type_of_a_dataset_is_taken(tmp_path, values, dtype, wanted, zarr_format):
    path = write_builder(tmp_path / "a.zarr", root(dataset("a", values, dtype)), zarr_format=zarr_format)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["a"].data
        assert data[:].tolist() == wanted
        data[:] = values
    data = read_builder(path)["a"].data
    assert data[:].tolist() == wanted
    assert dtype in (TEXT_ROWS, "utf8") or data.dtype == np.dtype(dtype)


@pytest.mark.parametrize(("given", "base", "problem"), [
    (np.array([1 + 2j]), "f8", r"float64 without loss: \(1\+2j\)"),
    (np.array([1e300]), "f4", "float32 without loss: 1e"),
    (np.array([LARGE]), "f8", "float64 without loss: 9007199254740993"),
    (np.array([16777217]), "f4", "float32 without loss: 16777217"),
    (np.array([300]), "i1", "int8 without loss: 300"),
    (np.array([1.7]), "i4", "int32 without loss: 1.7"),
    (np.array([NAN]), "i4", "int32 without loss: nan"),
    (np.array([2**64 - 1], "u8"), "i8", "int64 without loss"),
    (np.array([-1]), "u8", "uint64 without loss: -1"),
    (np.array([b"abcdef"]), "S3", "without loss: b'abcdef'"),
    (["a\0"], "S3", "without loss"),
    (np.ma.array([7], mask=[True]), "i4", "filled"),
    ([np.ma.masked], "f8", "filled"),
    ([2], "?", "2"),
    *((given, "i4", "") for given in ([1.5], [2**40], ["a"], [None])),
    *((given, TEXT_ROWS, "") for given in ([(300, "a")], [(1, 5)], [(1,)])),
], ids=str)  # fmt: skip
def test_what_a_dataset_does_not_hold_is_refused_on_every_way(tmp_path, given, base, problem, zarr_format):
    first, word = ([(1, "a")], base) if base == TEXT_ROWS else (np.zeros(1, base), np.dtype(base).name)
    tree = root(dataset("a", ZarrDataIO(first, maxshape=(None,)), word if base != "S3" else None))
    path = write_builder(str(tmp_path / "a.zarr"), tree, zarr_format=zarr_format)
    with ZarrIO(path, "r+") as io:
        data = io.read_builder()["a"].data
        before = data[:].tolist()
        for put in (
            data.append,
            lambda value: data.__setitem__(slice(0, 1), value),
            lambda value: data.__setitem__(0, value[0]),
        ):
            with pytest.raises(ValueRefusedError, match=problem) as caught:
                put(given)
            assert caught.value.path == "/a"
        assert data[:].tolist() == before
    if base != "S3":
        with pytest.raises(ValueRefusedError, match=problem) as caught:
            write_builder(tmp_path / "b.zarr", root(dataset("a", given, word)), zarr_format=zarr_format)
        assert caught.value.path == "/a"
        assert caught.value.remedy
        assert not (tmp_path / "b.zarr").exists()


@pytest.mark.parametrize(("values", "dtype"), [
    ([[1, 2], [3]], "int32"),
    *((["a", value], "utf8") for value in (5, 1.5, None, ["a"], {})),
], ids=str)  # fmt: skip
def test_a_list_that_does_not_fit_is_refused_and_nothing_is_written(tmp_path, values, dtype):
    with pytest.raises(ValueRefusedError) as caught:
        write_builder(tmp_path / "a.zarr", root(dataset("a", values, dtype)))
    assert caught.value.path == "/a"
    assert not (tmp_path / "a.zarr").exists()


MASKED = np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])
ROWS = np.ma.array([(1, 2.0), (3, 4.0)], dtype=[("a", "i4"), ("b", "f8")], mask=[(False, True), (False, False)])


@pytest.mark.parametrize(
    "make",
    [
        lambda: root(dataset("a", MASKED)),
        lambda: root(dataset("a", ROWS)),
        lambda: root(dataset("a", ZarrDataIO(MASKED, chunks=(2,)))),
        lambda: root(dataset("a", [MASKED, np.zeros(3)])),
        lambda: root(dataset("a", [1.0, np.ma.masked])),
        lambda: root(dataset("a", np.ma.array(["x", "y"], mask=[False, True]))),
        lambda: root(dataset("a", np.ma.array(5.0, mask=True))),
        lambda: root(dataset("a", DataChunkIterator(data=MASKED, buffer_size=2))),
        lambda: root(dataset("a", DataChunkIterator(data=[1, np.ma.masked, 2], buffer_size=3))),
        lambda: root(dataset("a", Windows(MASKED, buffer_shape=(3,), chunk_shape=(3,)))),
        lambda: GroupBuilder("root", attributes={"a": MASKED}),
        lambda: GroupBuilder("root", attributes={"a": [MASKED, MASKED]}),
    ],
    ids=["array", "rows", "ZarrDataIO", "list of arrays", "list", "text", "scalar", "iterator", "iterator over a list",
         "blocks", "attribute", "list in an attribute"],
)  # fmt: skip
def test_masked_elements_are_refused(tmp_path, make, zarr_format):
    with pytest.raises(ValueRefusedError, match="masked") as caught:
        write_builder(str(tmp_path / "a.zarr"), make(), zarr_format=zarr_format)
    assert "filled" in caught.value.remedy


def test_an_array_whose_mask_hides_nothing_is_stored(tmp_path):
    free = np.ma.array([1.0, 2.0], mask=False)
    builder = read_builder(write_builder(str(tmp_path / "a.zarr"), root(dataset("a", free), x=free)))
    assert builder["a"].data[:].tolist() == builder.attributes["x"].tolist() == [1.0, 2.0]


def test_rows_with_text_as_objects_are_stored(tmp_path, zarr_format):
    rows = np.array([("Rex", 9, 1.5), ("Fidö " * 30, 3, 2.5)], [("name", "O"), ("age", "i2"), ("weight", "f4")])
    with ZarrIO(str(tmp_path / "a.zarr"), "w", manager=get_manager(), zarr_format=zarr_format) as io:
        io.write(by_rows(rows))
    with ZarrIO(str(tmp_path / "a.zarr"), "r", manager=get_manager()) as io:
        found = io.read()["c"].data[:]
        assert [tuple(row) for row in found] == [tuple(row) for row in rows]


def test_references_and_rows_with_them_are_replaced(tmp_path, zarr_format):
    path = str(tmp_path / "a.zarr")
    first, second = GroupBuilder("first"), GroupBuilder("second")
    fields = [{"name": "n", "dtype": "int8"}, {"name": "to", "dtype": {"reftype": "object", "target_type": "x"}}]
    tree = GroupBuilder("root", groups={"first": first, "second": second})
    tree.set_dataset(dataset("one", [ReferenceBuilder(first)] * 3, "object"))
    tree.set_dataset(dataset("rows", [(1, ReferenceBuilder(first)), (2, ReferenceBuilder(first))], fields))
    write_builder(path, tree, zarr_format=zarr_format)
    with ZarrIO(path, "r+") as io:
        builder = io.read_builder()
        builder["one"].data[1] = builder["second"]
        builder["rows"].data[1] = (3, builder["second"])
        with pytest.raises(ValueRefusedError, match="target of a reference"):
            builder["one"].data[0] = 5
        with pytest.raises(ValueRefusedError, match="'n' without loss: 300"):
            builder["rows"].data[0] = (300, builder["first"])
    builder = read_builder(path)
    assert [target.name for target in builder["one"].data[:]] == ["first", "second", "first"]
    assert [(row["n"], row["to"].name) for row in builder["rows"].data[:]] == [(1, "first"), (3, "second")]


def test_fields_of_masks_are_matched_by_name(tmp_path, zarr_format):
    file = mock_NWBFile()
    plane = mock_PlaneSegmentation(n_rois=0, nwbfile=file)
    plane.add_roi(pixel_mask=[(9, 9, 9.0)])
    plane["pixel_mask"].target.data[0] = np.array([(0.5, 1, 2)], [("weight", "f4"), ("y", "u4"), ("x", "u4")])[0]
    plane.add_roi(pixel_mask=[(3, 4, 0.25)])
    samples.write_zarr(str(tmp_path / "a.nwb.zarr"), file, zarr_format=zarr_format)
    masks = samples.read_zarr(str(tmp_path / "a.nwb.zarr")).processing["ophys"][plane.name]["pixel_mask"].target.data[:]
    assert [(row["x"], row["y"], row["weight"]) for row in masks] == [(2, 1, 0.5), (3, 4, 0.25)]


@pytest.mark.parametrize(("change", "problem"), [
    ({"timestamps": [0, True]}, "element 1: True is a boolean"),
    ({"timestamps": [0.0, LARGE]}, "element 1: the integer 9007199254740993"),
    ({"timestamps": np.array([0, LARGE])}, "float64 without loss: 9007199254740993"),
    ({"control": np.array([0.5, 1.5]), "control_description": ["a", "b"]}, "without loss: 0.5"),
    ({"control": np.array([1, -1]), "control_description": ["a", "b"]}, "without loss: -1"),
    ({"control": [1, 2], "control_description": np.array(["a", None], object)}, "None is not text"),
], ids=str)  # fmt: skip
@pytest.mark.filterwarnings("ignore::hdmf.build.warnings.DtypeConversionWarning")
def test_what_hdmf_would_change_for_a_schema_is_refused(tmp_path, change, problem, zarr_format):
    times = {"timestamps": [0.0, 1.0]} | change
    series = TimeSeries(name="x", data=[1.0, 2.0], unit="V", **times)
    file = mock_NWBFile()
    file.add_acquisition(series)
    with pytest.raises(ValueRefusedError, match=problem) as caught:
        samples.write_zarr(str(tmp_path / "a.nwb.zarr"), file, zarr_format=zarr_format)
    assert caught.value.path.startswith("/acquisition/x/")
