"""Each extension that ``CONTRIBUTING.md`` describes, made by its steps: a store, a codec, types, an encoding."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
import numpy.typing as npt
import pytest
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, TypeMap
from hdmf.spec import NamespaceCatalog
from numcodecs.abc import Codec

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.builders.from_zarr import ZarrPlanner
from hdmf_zarr_backend.builders.reading import ReadSession
from hdmf_zarr_backend.errors import MetadataError, ValueRefusedError
from hdmf_zarr_backend.files.parser import ParsedFile, parse
from hdmf_zarr_backend.formats import elements, registry, zarr2
from hdmf_zarr_backend.model.element import UTF8
from hdmf_zarr_backend.model.nodes import Hierarchy, Node
from hdmf_zarr_backend.stores.memory import MemoryStore
from hdmf_zarr_backend.stores.transaction import DirectChange
from hdmf_zarr_backend.write.writer import PlanWriter
from tests.keystores import Shelf

ROOT = Path(__file__).resolve().parents[1]
NUMBERS = np.arange(1000, dtype="i4").reshape(100, 10)

formats = pytest.mark.parametrize("zarr_format", [2, 3])


def root_of(**datasets: DatasetBuilder) -> GroupBuilder:
    return GroupBuilder("root", datasets=datasets)


def written(place: Any, root: GroupBuilder, zarr_format: int = 2) -> None:
    with ZarrIO(place, "w", zarr_format=zarr_format) as io:
        io.write_builder(root)


def read(place: Any, name: str) -> Any:
    with ZarrIO(place, "r") as io:
        return io.read_builder().datasets[name].data[:]


@formats
def test_a_store_of_five_methods_is_written_read_and_changed(zarr_format):
    shelf = Shelf("shelf://one")
    written(shelf, root_of(numbers=DatasetBuilder("numbers", NUMBERS)), zarr_format)
    np.testing.assert_array_equal(read(shelf, "numbers"), NUMBERS)
    with ZarrIO(shelf, "r+") as io:
        io.read_builder().datasets["numbers"].data.append(NUMBERS[:1])
    np.testing.assert_array_equal(read(shelf, "numbers")[-1], NUMBERS[0])
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
    """numcodecs knows the codec."""
    numcodecs.register_codec(Inverted)
    yield
    del numcodecs.registry.codec_registry["inverted"]


@formats
def test_a_codec_is_written_and_read(tmp_path, registered, zarr_format):
    place = tmp_path / "a.zarr"
    wrapped = ZarrDataIO(NUMBERS, compressor=Inverted(), chunks=(50, 10))
    written(place, root_of(numbers=DatasetBuilder("numbers", wrapped)), zarr_format)
    with ZarrIO(place, "r") as io:
        data = io.read_builder().datasets["numbers"].data
        assert data.compressor == Inverted()
        np.testing.assert_array_equal(data[:], NUMBERS)
    stored = [path.read_bytes() for path in place.rglob("*") if path.is_file()]
    assert (~NUMBERS[:50].view("u1")).tobytes() in stored


def test_a_codec_that_is_not_registered_is_refused(tmp_path):
    wrapped = ZarrDataIO(NUMBERS.astype("i8"), compressor=Inverted())
    with pytest.raises(MetadataError, match="inverted"):
        written(tmp_path / "a.zarr", root_of(numbers=DatasetBuilder("numbers", wrapped)))
    assert not (tmp_path / "a.zarr").exists()


@formats
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


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "int4"])
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
    """Return the hierarchy of the one document."""
    return zarr2.parse_documents(json.loads(text)["nodes"])


@pytest.fixture
def one_document(monkeypatch):
    monkeypatch.setitem(registry.FORMATS, 9, OneDocument())
    return registry.FORMATS[9]


@pytest.fixture
def file() -> MemoryStore:
    """A file of format 2."""
    store = MemoryStore({})
    group = GroupBuilder("group", datasets={"text": DatasetBuilder("text", ["a", "ä"])}, attributes={"unit": "V"})
    numbers = DatasetBuilder("numbers", ZarrDataIO(NUMBERS, chunks=(50, 10)))
    written(store, GroupBuilder("root", groups={"group": group}, datasets={"numbers": numbers}))
    return store


def test_an_encoding_is_a_class_that_writes_the_model_and_a_function_that_reads_it(one_document, file):
    hierarchy = parse(file).hierarchy
    documents = one_document.last(hierarchy, {}, consolidate=True)
    parsed = parse_one_document(json.dumps(documents[KEY]).encode())
    assert {path: asdict(node) for path, node in parsed.walk()} == {p: asdict(n) for p, n in hierarchy.walk()}


def test_builders_and_values_come_from_a_file_in_the_new_encoding(one_document, file):
    """What is above `formats` does not know which documents the model becomes, and comes from."""
    new = MemoryStore({})
    change = DirectChange(new)
    plan = ZarrPlanner(file, parse(file).hierarchy, new.location, zarr_format=9).plan_file()
    change.commit({}, PlanWriter(change, plan).write())
    assert [key for key in new.mapping if key.rpartition("/")[2].startswith((".z", "zarr.json"))] == []
    parsed = ParsedFile(parse_one_document(new.mapping[KEY]), consolidated=True)
    root = ReadSession(new, parsed, new.location, BuildManager(TypeMap(NamespaceCatalog()))).root()
    values: npt.NDArray[Any] = root.datasets["numbers"].data[:]
    np.testing.assert_array_equal(values, NUMBERS)
    assert list(root.groups["group"].datasets["text"].data[:]) == ["a", "ä"]
    assert root.groups["group"].attributes == {"unit": "V"}
