"""Each extension that ``CONTRIBUTING.md`` describes, made by its steps: a store, a codec, types, an encoding.

A type of HDF5 changes the code itself: its recipe names all places.
"""

import ast
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, get_args

import h5py
import numcodecs
import numpy as np
import numpy.typing as npt
import pytest
from hdmf.build import BuildManager, TypeMap
from hdmf.spec import NamespaceCatalog
from numcodecs.abc import Codec

from hdmf_zarr_backend import ZarrDataIO, ZarrIO, convert
from hdmf_zarr_backend.encoding import elements, registry, zarr2
from hdmf_zarr_backend.encoding.parser import ParsedFile, parse
from hdmf_zarr_backend.errors import UnsupportedFileError, ValueRefusedError
from hdmf_zarr_backend.hdmf.files import ReadSession
from hdmf_zarr_backend.hdmf.from_zarr import ZarrPlanner
from hdmf_zarr_backend.model.element import UTF8
from hdmf_zarr_backend.model.nodes import Hierarchy, Node
from hdmf_zarr_backend.options import CODECS, CodecName
from hdmf_zarr_backend.store.memory import MemoryStore
from hdmf_zarr_backend.store.transaction import DirectChange
from hdmf_zarr_backend.write.writer import PlanWriter
from tests.keystores import DictStore
from tests.trees import dataset, group, read_builder, root, write_builder

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "hdmf_zarr_backend"
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
VALUES = np.arange(1000, dtype="i4").reshape(100, 10)


def read(place: Any, name: str) -> Any:
    return read_builder(place).datasets[name].data[:]


def test_a_store_of_five_methods_is_written_read_and_changed(zarr_format):
    shelf = DictStore("shelf://one")
    write_builder(shelf, root(dataset("numbers", VALUES)), zarr_format=zarr_format)
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
    write_builder(location, root(dataset("numbers", wrapped)), zarr_format=zarr_format)
    data = read_builder(location).datasets["numbers"].data
    assert data.compressor == Inverted()
    np.testing.assert_array_equal(data[:], VALUES)
    stored = [path.read_bytes() for path in location.rglob("*") if path.is_file()]
    assert (~VALUES[:50].view("u1")).tobytes() in stored


def test_a_codec_that_is_not_registered_is_refused(tmp_path):
    wrapped = ZarrDataIO(VALUES.astype("i8"), compressor=Inverted())
    with pytest.raises(UnsupportedFileError, match="inverted"):
        write_builder(tmp_path / "a.zarr", root(dataset("numbers", wrapped)))
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
    places = dataset("places", ["http://a", "http://ä"], "uri")
    fields = [{"name": "place", "dtype": "uri"}, {"name": "count", "dtype": "int32"}]
    rows = dataset("rows", [("http://ä", 1)], fields)
    write_builder(tmp_path / "a.zarr", root(places, rows), zarr_format=zarr_format)
    assert list(read(tmp_path / "a.zarr", "places")) == ["http://a", "http://ä"]
    assert [tuple(row) for row in read(tmp_path / "a.zarr", "rows")] == [("http://ä", 1)]
    convert(tmp_path / "a.zarr", tmp_path / "a.h5")
    with h5py.File(tmp_path / "a.h5") as file:
        assert h5py.check_string_dtype(file["places"].dtype).encoding == "utf-8"


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2", "int4", "uint4"])
@pytest.mark.parametrize("fields", [False, True], ids=["numbers", "rows"])
def test_a_type_that_another_library_adds_to_numpy_is_refused_by_name(tmp_path, name, fields):
    dtype = np.dtype(getattr(pytest.importorskip("ml_dtypes"), name))
    data = np.zeros(2, [("x", dtype)]) if fields else np.ones(2, dtype)
    with pytest.raises(ValueRefusedError, match=name) as caught:
        write_builder(tmp_path / "a.zarr", root(dataset("added", data)))
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
    numbers = dataset("numbers", ZarrDataIO(VALUES, chunks=(50, 10)))
    write_builder(store, root(group("group", dataset("text", ["a", "ä"]), unit="V"), numbers))
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
