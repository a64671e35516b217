"""Each extension that ``CONTRIBUTING.md`` describes, made by its steps: a store, a codec, types, an encoding.

A type of HDF5 changes the code itself: its recipe names all places.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args

import h5py
import numcodecs
import numpy as np
import numpy.typing as npt
import pytest
from h5py import h5a, h5d, h5p, h5s, h5t
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, TypeMap
from hdmf.spec import NamespaceCatalog
from numcodecs.abc import Codec

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, compare, convert, verify
from hdmf_zarr_backend.encoding import elements, registry, zarr2
from hdmf_zarr_backend.encoding.data_types import LIBRARY_NUMBERS, NUMBERS, NumberType, letter_of
from hdmf_zarr_backend.encoding.parser import ParsedFile, parse
from hdmf_zarr_backend.errors import UnsupportedFileError, ValueRefusedError
from hdmf_zarr_backend.hdmf.files import ReadSession
from hdmf_zarr_backend.hdmf.from_zarr import ZarrPlanner
from hdmf_zarr_backend.interop import tensorstore_spec
from hdmf_zarr_backend.model.element import UTF8, Number, Precision
from hdmf_zarr_backend.model.nodes import Dataset, Hierarchy, Node
from hdmf_zarr_backend.options import CODECS, CodecName, ReadOptions
from hdmf_zarr_backend.store.memory import MemoryStore
from hdmf_zarr_backend.store.transaction import DirectChange
from hdmf_zarr_backend.write.writer import PlanWriter
from tests.everything import bfloat16, low_level
from tests.keystores import DictStore
from tests.trees import read_builder, write_builder

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hdmf_zarr_backend"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
VALUES = np.arange(1000, dtype="i4").reshape(100, 10)


def root_of(**datasets: DatasetBuilder) -> GroupBuilder:
    return GroupBuilder("root", datasets=datasets)


def written(place: Any, root: GroupBuilder, zarr_format: int = 2) -> None:
    write_builder(place, root, zarr_format=zarr_format)


def read(place: Any, name: str) -> Any:
    return read_builder(place).datasets[name].data[:]


def test_a_store_of_five_methods_is_written_read_and_changed(zarr_format):
    shelf = DictStore("shelf://one")
    written(shelf, root_of(numbers=DatasetBuilder("numbers", VALUES)), zarr_format)
    np.testing.assert_array_equal(read(shelf, "numbers"), VALUES)
    with ZarrIO(shelf, "r+") as io:
        io.read_builder().datasets["numbers"].data.append(VALUES[:1])
    np.testing.assert_array_equal(read(shelf, "numbers")[-1], VALUES[0])
    assert not [key for key in shelf.values if "journal" in key]


class Inverted(Codec):  # type: ignore[misc]
    """Bytes with each bit inverted."""

    codec_id = "inverted"

    def encode(self, buf: Any) -> bytes:
        return (~np.frombuffer(buf, np.uint8)).tobytes()

    def decode(self, buf: Any, out: Any = None) -> Any:
        return numcodecs.compat.ndarray_copy((~np.frombuffer(buf, np.uint8)).tobytes(), out)


@pytest.fixture
def registered() -> Iterator[None]:
    numcodecs.register_codec(Inverted)
    yield
    del numcodecs.registry.codec_registry["inverted"]


def test_a_codec_is_written_and_read(tmp_path, registered, zarr_format):
    location = tmp_path / "a.zarr"
    wrapped = ZarrDataIO(VALUES, compressor=Inverted(), chunks=(50, 10))
    written(location, root_of(numbers=DatasetBuilder("numbers", wrapped)), zarr_format)
    with ZarrIO(location, "r") as io:
        data = io.read_builder().datasets["numbers"].data
        assert data.compressor == Inverted()
        np.testing.assert_array_equal(data[:], VALUES)
    stored = [path.read_bytes() for path in location.rglob("*") if path.is_file()]
    assert (~VALUES[:50].view("u1")).tobytes() in stored


def test_a_codec_that_is_not_registered_is_refused(tmp_path):
    wrapped = ZarrDataIO(VALUES.astype("i8"), compressor=Inverted())
    with pytest.raises(UnsupportedFileError, match="inverted"):
        written(tmp_path / "a.zarr", root_of(numbers=DatasetBuilder("numbers", wrapped)))
    assert not (tmp_path / "a.zarr").exists()


def test_each_name_of_a_codec_is_in_the_texts_that_list_them():
    assert get_args(CodecName) == tuple(CODECS)
    texts = [ZarrDataIO.__doc__, *(ROOT.joinpath("docs", page).read_text(encoding="utf-8") for page in (
        "how-to/chunks-shards-codecs.md", "reference/command-line.md",
    ))]  # fmt: skip
    for text in texts:
        assert [name for name in CODECS if f'"{name}"' not in str(text) and f"`{name}`" not in str(text)] == []


def recipe(title: str) -> str:
    return re.split(r"^##", CONTRIBUTING.split(f"\n### {title}\n")[1], flags=re.MULTILINE)[0]


def functions() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield ``module:name`` of each function of the package at the top of a module, and what it consists of."""
    for path in SOURCE.rglob("*.py"):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef):
                yield f"{module}:{node.name}", node


def test_the_recipe_names_each_function_with_a_case_for_a_type_of_hdf5():
    cases = {
        name
        for name, function in functions()
        for node in ast.walk(function)
        if isinstance(node, ast.MatchClass) and ast.unparse(node.cls) in ("Opaque", "Time")
    }
    assert len(cases) > 5
    assert sorted(name for name in cases if f"`{name}`" not in recipe("A kind of element")) == []


def test_another_name_of_text_is_one_row_for_datasets_and_fields_of_rows(tmp_path, monkeypatch, zarr_format):
    monkeypatch.setitem(elements.WORDS, "uri", "text")
    assert elements.word_element("uri") == UTF8
    places = DatasetBuilder("places", ["http://a", "http://ä"], dtype="uri")
    fields = [{"name": "place", "dtype": "uri"}, {"name": "count", "dtype": "int32"}]
    rows = DatasetBuilder("rows", [("http://ä", 1)], dtype=fields)
    written(tmp_path / "a.zarr", root_of(places=places, rows=rows), zarr_format)
    assert list(read(tmp_path / "a.zarr", "places")) == ["http://a", "http://ä"]
    assert [tuple(row) for row in read(tmp_path / "a.zarr", "rows")] == [("http://ä", 1)]
    convert(tmp_path / "a.zarr", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert h5py.check_string_dtype(file["places"].dtype).encoding == "utf-8"


EXAMPLES = (
    NumberType("bfloat16", Number("float", 2, "<", Precision(16, 0, (15, 7, 8, 0, 7), 127)), "ml_dtypes"),
    NumberType("float8_e4m3fn", Number("float", 1, "|", Precision(8, 0, (7, 3, 4, 0, 3), 7)), "ml_dtypes"),
    NumberType("float8_e5m2", Number("float", 1, "|", Precision(8, 0, (7, 2, 5, 0, 2), 15)), "ml_dtypes"),
    NumberType("int4", Number("int", 1, "|", Precision(4, 0)), "ml_dtypes"),
)
OF_LIBRARIES = {row.name: row for row in (*EXAMPLES, *NUMBERS.values()) if not row.is_of_numpy}
"""The examples, and what the package has."""


@pytest.fixture(params=OF_LIBRARIES.values(), ids=OF_LIBRARIES)
def added(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> np.dtype[Any]:
    """The NumPy type of a row of `NUMBERS`."""
    row: NumberType = request.param
    pytest.importorskip(row.library)
    add(row, monkeypatch)
    return row.dtype()


def add(row: NumberType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NUMBERS, row.name, row)
    monkeypatch.setitem(LIBRARY_NUMBERS, row.element, row)


def every(dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Each value of a type: all numbers, -0.0, infinities, and each NaN."""
    if letter_of(dtype) in "iu":
        return np.arange(-128, 128).astype("i1").astype(dtype).reshape(-1, 2)
    return np.arange(256**dtype.itemsize, dtype=f"<u{dtype.itemsize}").view(dtype).reshape(-1, 2)


def same(a: Any, b: Any) -> bool:
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


zarr_formats = pytest.mark.parametrize("zarr_format", [2, 3, "both"])


def test_no_two_rows_are_the_same_number_in_hdf5():
    elements = [row.element for row in NUMBERS.values() if not row.is_of_numpy]
    assert len(elements) == len(LIBRARY_NUMBERS)  # HDF5 knows a row by its `Precision` only


@zarr_formats
def test_a_number_of_another_library_is_one_row_for_all_formats(tmp_path, added, zarr_format):
    values, name = every(added), added.name
    rows = np.zeros(3, [("x", added), ("y", "i4")])
    rows["x"] = values[:3, 1]
    fields = [{"name": "text", "dtype": "text"}, {"name": "number", "dtype": name}]
    attributes = {"several": values[-4:, 1], "one": values[1, 1], "none": values[:0, 0]}
    wrapped = ZarrDataIO(values, chunks=(len(values), 2), maxshape=(None, 2), fillvalue=1)
    root = root_of(
        values=DatasetBuilder("values", wrapped, attributes=attributes),
        rows=DatasetBuilder("rows", rows),
        mixed=DatasetBuilder("mixed", [("a", 1), ("b", 2)], dtype=fields),
        scalar=DatasetBuilder("scalar", values[1, 1]),
        list=DatasetBuilder("list", [1, 2], dtype=name),
        scalars=DatasetBuilder("scalars", list(values[1])),
    )
    location, hdf5, back = (str(tmp_path / name) for name in ("a.zarr", "a.h5", "b.zarr"))
    written(location, root, zarr_format)
    convert(location, hdf5)
    convert(hdf5, back, zarr_format=zarr_format)
    for file in (location, back):
        with ZarrIO(file, "r") as io:
            datasets = io.read_builder().datasets
            assert same(datasets["values"].data[:], values)
            assert datasets["values"].dtype == added
            assert {
                key: same(datasets["values"].attributes[key], value) for key, value in attributes.items()
            } == dict.fromkeys(attributes, True)
            assert same(datasets["rows"].data[:]["x"], rows["x"])
            assert [tuple(row) for row in datasets["mixed"].data[:]] == [("a", 1), ("b", 2)]
            assert same(np.asarray(datasets["scalar"].data), values[1, 1])
            assert same(datasets["list"].data[:], np.array([1, 2], added))
            assert same(datasets["scalars"].data[:], values[1])
    assert list(compare(location, hdf5)) == list(compare(hdf5, back)) == []
    assert {difference.kind for difference in compare(location, back)} <= {"chunks", "filters"}


@zarr_formats
def test_an_array_of_such_numbers_grows_and_refuses_what_does_not_fit(tmp_path, added, zarr_format):
    values = every(added)[:4]
    location = str(tmp_path / "a.zarr")
    wrapped = ZarrDataIO(values, chunks=(3, 2), maxshape=(None, 2), fillvalue=2)
    written(location, root_of(values=DatasetBuilder("values", wrapped)), zarr_format)
    before = [str(difference) for difference in compare(location, location)]
    with ZarrIO(location, "r+") as io:
        data = io.read_builder().datasets["values"].data
        data.append([[1, 1.0]])
        data.resize((7, 2))
        data[0] = values[1]
        for wrong in ([[1e300, 0]], [["a", "b"]]):
            with pytest.raises(ValueRefusedError, match=added.name):
                data.append(wrong)
    expected = np.array([*values, [1, 1], [2, 2], [2, 2]], added)
    expected[0] = values[1]
    assert same(read(location, "values"), expected)
    assert before == []
    with ZarrIO(location, "r+") as io:
        io.read_builder().datasets["values"].data[3, 0] = 2
    assert read(location, "values")[3, 0] == 2


def test_numbers_of_another_library_are_rounded_as_floats_are_and_integers_must_be_exact(tmp_path, added):
    numbers = np.array([2.2, 1.1])
    integers = np.array([2**20 + 1])
    is_float = letter_of(added) == "f"
    for given, fits in ((numbers, is_float), (np.array([1, 2]), True), (integers, False), ([1, True], False)):
        io_root = root_of(data=DatasetBuilder("data", given, dtype=added.name))
        location = tmp_path / f"{len(list(tmp_path.iterdir()))}.zarr"
        if fits:
            written(location, io_root)
            assert same(read(location, "data"), np.asarray(given).astype(added))
        else:
            with pytest.raises(ValueRefusedError):
                written(location, io_root)


@pytest.mark.parametrize("added", EXAMPLES, indirect=True, ids=lambda row: row.name)
def test_tensorstore_reads_such_numbers(tmp_path, added, zarr_format):
    tensorstore = pytest.importorskip("tensorstore")
    values = every(added)
    written(tmp_path / "a.zarr", root_of(values=DatasetBuilder("values", values)), zarr_format)
    store = {"driver": "file", "path": str(tmp_path / "a.zarr" / "values")}
    array = tensorstore.open({"driver": "zarr3" if zarr_format == 3 else "zarr", "kvstore": store}).result()
    assert array.dtype.name == added.name
    assert same(array[...].read().result(), values)
    spec = tensorstore_spec(read_builder(tmp_path / "a.zarr").datasets["values"].data)
    assert same(tensorstore.open(spec).result()[...].read().result(), values)


@pytest.mark.parametrize("added", EXAMPLES[:1], indirect=True, ids=["bfloat16"])
@pytest.mark.parametrize("order", [h5t.ORDER_LE, h5t.ORDER_BE], ids=["little", "big"])
@zarr_formats
def test_such_numbers_of_hdf5_come_back_with_the_bits_of_each_nan(tmp_path, added, order, zarr_format):
    tid, values = bfloat16(order), every(added)
    raw = values.view("V2") if order == h5t.ORDER_LE else values.view("u2").byteswap().view("V2")
    row = h5t.create(h5t.COMPOUND, 6)
    row.insert(b"number", 0, h5t.STD_I32LE)
    row.insert(b"small", 4, tid)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        chunked = h5p.create(h5p.DATASET_CREATE)
        chunked.set_chunk((512, 2))
        chunked.set_deflate(1)
        chunked.set_fill_value(np.float32([2]))
        result = h5d.create(file.id, b"values", tid, h5s.create_simple(values.shape), chunked)
        result.write(h5s.ALL, h5s.ALL, raw, tid)
        h5a.create(result, b"several", tid, h5s.create_simple((4,))).write(raw.reshape(-1)[-4:], mtype=tid)
        rows = np.array([(1, raw[-1, 0]), (2, raw[1, 1])], [("number", "<i4"), ("small", "V2")])
        low_level(file, "rows", row, rows, row)
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=zarr_format)
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    assert same(read(tmp_path / "a.zarr", "values"), values)
    assert same(read(tmp_path / "a.zarr", "rows")["small"], np.array([values[-1, 0], values[1, 1]]))
    for other in ("a.zarr", "b.h5"):
        assert list(compare(tmp_path / "a.h5", tmp_path / other)) == []
    with h5py.File(tmp_path / "b.h5") as file:
        back = np.zeros_like(raw)
        assert file["values"].id.get_type() == tid
        assert file["rows"].id.get_type() == row
        file["values"].id.read(h5s.ALL, h5s.ALL, back, tid)
        assert same(back, raw)


@pytest.mark.parametrize(("added", "fill", "value"), [
    (EXAMPLES[0], '"0xc000"', -2), (EXAMPLES[0], '"0x7fc1"', np.nan), (EXAMPLES[0], '"NaN"', np.nan),
    (EXAMPLES[0], '"-Infinity"', -np.inf), (EXAMPLES[1], '"0xff"', np.nan),
], indirect=["added"], ids=lambda given: getattr(given, "name", str(given)))  # fmt: skip
def test_the_fill_value_of_such_numbers_is_read_in_each_form(added, fill, value):
    store = MemoryStore({})
    wrapped = ZarrDataIO(np.zeros((4, 2), added), chunks=(2, 2), fillvalue=1)
    written(store, root_of(values=DatasetBuilder("values", wrapped)), 3)
    for key in list(store.mapping):
        store.mapping[key] = store.mapping[key].replace(b'"fill_value":1.0', f'"fill_value":{fill}'.encode())
    del store.mapping["values/c/1/0"]
    data = read_builder(store, read_options=ReadOptions(missing_chunks="fill")).datasets["values"].data[:]
    assert data.dtype == added
    np.testing.assert_array_equal(data.astype("f4"), [[0, 0]] * 2 + [[value] * 2] * 2)


@pytest.mark.parametrize("other", ["i1", "i2", "u4", "i8", "u8", "f2", "f8", "c8"])
def test_such_numbers_are_compared_by_value_with_numbers_of_each_type(tmp_path, added, other):
    for name, values, dtype in (("a", [1, 2], added), ("b", [1, 2], other), ("c", [1, 3], other)):
        written(tmp_path / f"{name}.zarr", root_of(values=DatasetBuilder("values", np.array(values, dtype))))
    same_values = compare(tmp_path / "a.zarr", tmp_path / "b.zarr")
    assert {difference.kind for difference in same_values} <= {"dtype", "byte-order"}
    assert f"{added.name}{' little-endian' * (added.itemsize > 1)} | " in str(same_values[0])
    for pair in (("a", "c"), ("c", "a")):
        differences = compare(*(tmp_path / f"{name}.zarr" for name in pair))
        (value,) = (difference for difference in differences if difference.kind == "value")
        assert (value.place, value.count, value.largest) == ("[1]", 1, 1)


ABSENT = (
    replace(EXAMPLES[0], name="bfloat18", library="a_library_that_nobody_has"),
    replace(EXAMPLES[0], name="bfloat17"),  # which no version of the library has
)


@pytest.fixture(params=ABSENT, ids=["library", "type"])
def absent(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> NumberType:
    """A row of `NUMBERS` whose library, or the version of it that has the type, is absent."""
    add(request.param, monkeypatch)
    return request.param


def test_a_file_with_numbers_of_a_library_that_is_absent_is_listed_and_read_but_for_these(absent, zarr_format):
    store = MemoryStore({})
    numbers = np.array([1, 2], "u2")
    row = np.array((1, 2), [("x", "u2"), ("y", "i4")])
    rows = ZarrDataIO(np.zeros(4, row.dtype), chunks=(2,), fillvalue=row)
    data = {"values": numbers, "scalar": numbers[0], "rows": rows, "others": VALUES}
    written(store, root_of(**{name: DatasetBuilder(name, given) for name, given in data.items()}), zarr_format)
    for key in store.mapping:
        if key.endswith(("zarr.json", ".zarray", ".zmetadata")):
            for text in (b"uint16", b"<u2"):
                store.mapping[key] = store.mapping[key].replace(text, absent.name.encode())
    hierarchy = parse(store).hierarchy
    labels = {path: elements.type_label(node) for path, node in hierarchy.walk() if isinstance(node, Dataset)}
    rows_label = f"{{x: {absent.name}, y: int32}}"
    assert labels == {"others": "int32", "rows": rows_label, "scalar": absent.name, "values": absent.name}
    with ZarrIO(store, "r") as io:
        datasets = io.read_builder().datasets
        np.testing.assert_array_equal(datasets["others"].data[:], VALUES)
        for name in ("values", "rows", "scalar"):
            with pytest.raises(UnsupportedFileError, match=f"/{name}.*Install {absent.library}"):
                datasets[name].data[:]
    problems = {problem.path: problem for problem in verify(store).problems}
    assert problems.keys() == {"/values", "/rows", "/scalar"}
    assert {problem.kind for problem in problems.values()} == {"library-missing"}
    assert all(absent.library in problem.message for problem in problems.values())


def test_an_attribute_with_numbers_of_a_library_that_is_absent_names_it(absent, zarr_format):
    store = MemoryStore({})
    attribute = {"numbers": np.zeros(2, "f2")}
    written(store, root_of(values=DatasetBuilder("values", VALUES, attributes=attribute)), zarr_format)
    for key in store.mapping:
        store.mapping[key] = store.mapping[key].replace(b'"<f2"', f'"{absent.name}"'.encode())
    with pytest.raises(UnsupportedFileError, match=f"/values.*Install {absent.library}"):
        read(store, "values")
    (problem,) = verify(store).problems
    assert (problem.path, problem.kind) == ("/values", "library-missing")


@zarr_formats
def test_such_numbers_of_hdf5_are_those_that_h5py_makes_of_them_where_the_library_is_absent(
    tmp_path, absent, monkeypatch, zarr_format
):
    tid, values = bfloat16(), np.array([1, -2, np.nan], "f4")
    row = h5t.create(h5t.COMPOUND, 10)
    row.insert(b"small", 0, tid)
    row.insert(b"text", 2, h5t.py_create(h5py.string_dtype(), logical=True))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        chunked = h5p.create(h5p.DATASET_CREATE)
        chunked.set_chunk((2,))
        chunked.set_fill_value(np.array(-np.nan, "f4"))
        h5d.create(file.id, b"values", tid, h5s.create_simple((3,)), chunked).write(h5s.ALL, h5s.ALL, values)
        h5a.create(file.id, b"value", tid, h5s.create(h5s.SCALAR)).write(values[1:2].reshape(()))
        h5d.create(file.id, b"rows", row, h5s.create_simple((2,)))
    convert(tmp_path / "a.h5", tmp_path / "a.zarr", zarr_format=zarr_format)
    data = read(tmp_path / "a.zarr", "values")
    assert data.dtype == np.float32
    np.testing.assert_array_equal(data, values)
    convert(tmp_path / "a.zarr", tmp_path / "b.h5")
    for other in ("a.zarr", "b.h5"):
        assert compare(tmp_path / "a.h5", tmp_path / other) == []
    pytest.importorskip("ml_dtypes")
    add(EXAMPLES[0], monkeypatch)  # from where it is absent to where it is not, and back
    convert(tmp_path / "a.zarr", tmp_path / "c.h5")
    convert(tmp_path / "a.h5", tmp_path / "c.zarr", zarr_format=zarr_format)
    for other in ("a.zarr", "c.h5", "c.zarr"):
        assert compare(tmp_path / "a.h5", tmp_path / other) == []


@pytest.mark.parametrize("name", sorted({"bfloat16", "float8_e5m2", "int4", "uint4"} - NUMBERS.keys()))
@pytest.mark.parametrize("fields", [False, True], ids=["numbers", "rows"])
def test_a_type_that_another_library_adds_to_numpy_is_refused_by_name(tmp_path, name, fields):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    data = np.zeros(2, [("x", dtype)]) if fields else np.ones(2, dtype)
    with pytest.raises(ValueRefusedError, match=name) as caught:
        written(tmp_path / "a.zarr", root_of(added=DatasetBuilder("added", data)))
    assert caught.value.path == "/added"
    assert not (tmp_path / "a.zarr").exists()


KEY = "file.json"


class OneDocument:
    """Writes all nodes to one document, by path, as pairs of a kind and what its documents of format 2 say."""

    def documents(self, path: str, node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
        return iter(())

    def last(self, hierarchy: Hierarchy, inlined: Mapping[str, bytes], *, consolidate: bool) -> registry.Documents:
        return {KEY: {"nodes": zarr2.encode_documents(hierarchy)}}

    def stale(self, *, consolidate: bool) -> list[str]:
        return []


def parse_one_document(text: bytes) -> Hierarchy:
    return zarr2.parse_documents(json.loads(text)["nodes"])


@pytest.fixture
def one_document(monkeypatch):
    monkeypatch.setitem(registry.FORMATS, 9, OneDocument())
    return registry.FORMATS[9]


@pytest.fixture
def file() -> MemoryStore:
    store = MemoryStore({})
    group = GroupBuilder("group", datasets={"text": DatasetBuilder("text", ["a", "ä"])}, attributes={"unit": "V"})
    numbers = DatasetBuilder("numbers", ZarrDataIO(VALUES, chunks=(50, 10)))
    written(store, GroupBuilder("root", groups={"group": group}, datasets={"numbers": numbers}))
    return store


def test_an_encoding_is_a_class_that_writes_the_model_and_a_function_that_reads_it(one_document, file):
    hierarchy = parse(file).hierarchy
    parsed = parse_one_document(json.dumps(one_document.last(hierarchy, {}, consolidate=True)[KEY]).encode())
    assert {path: asdict(node) for path, node in parsed.walk()} == {p: asdict(n) for p, n in hierarchy.walk()}


def test_builders_and_values_come_from_a_file_in_the_new_encoding(one_document, file):
    """What is above `encoding` does not know which documents the model becomes, and comes from."""
    new = MemoryStore({})
    change = DirectChange(new)
    plan = ZarrPlanner(file, parse(file).hierarchy, new.location, zarr_format=9).plan_file()
    change.commit({}, PlanWriter(change, plan).write())
    assert [key for key in new.mapping if key.rpartition("/")[2].startswith((".z", "zarr.json"))] == []
    parsed = ParsedFile(parse_one_document(new.mapping[KEY]), consolidated=True)
    root = ReadSession(new, parsed, BuildManager(TypeMap(NamespaceCatalog()))).root()
    values: npt.NDArray[Any] = root.datasets["numbers"].data[:]
    np.testing.assert_array_equal(values, VALUES)
    assert list(root.groups["group"].datasets["text"].data[:]) == ["a", "ä"]
    assert root.groups["group"].attributes == {"unit": "V"}
