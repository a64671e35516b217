"""The comparing tool on Zarr files: planted differences, conversions of HDF5 files, old and damaged files."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hdmf.backends.hdf5 import HDF5IO
from hdmf.build import BuildManager, DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder, TypeMap
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.compare.differences import Difference, summarise
from hdmf_zarr_backend.compare.files import compare
from hdmf_zarr_backend.compare.providers import open_facts
from hdmf_zarr_backend.convert import convert as convert_file
from hdmf_zarr_backend.errors import ChunkError, DamagedFileError, MetadataError, NotZarrError
from hdmf_zarr_backend.mapping.facts import DatasetFacts, ElementType, NodeFacts, Reference
from hdmf_zarr_backend.read.facts import ZarrFacts, is_zarr
from tests.compare import planted
from tests.samples import attribute_values, dataset_builders, reference_tree

TEXT_ROWS = [{"name": "number", "dtype": "int32"}, {"name": "text", "dtype": "utf8"}, {"name": "to", "dtype": "object"}]
PLAIN_ROWS = np.array([(1, 2.5), (-3, np.nan)], dtype=[("a", "<i2"), ("b", "<f8")])
PLAIN_WORDS = [{"name": "a", "dtype": "int16"}, {"name": "b", "dtype": "float64"}]


class Parts:
    """A tree before it is built, so that a test can change one part of it."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {
            "object_id": "root-id",
            "count": np.uint8(5),
            "rates": np.array([1.0, np.nan, 3.0], "<f4"),
            "labels": np.array(["a", "b"], dtype=object),
            "name": "ä",
        }
        self.references = {"to": "numbers", "to_all": ["numbers", "text"]}
        self.data: dict[str, Any] = {
            "numbers": np.arange(24, dtype="<i4").reshape(6, 4),
            "floats": np.array([0.0, np.nan, -1.5, np.inf]),
            "flags": np.array([True, False]),
            "scalar": np.float64(2.5),
            "text": ["one", "två", ""],
            "ascii": [b"one", b"two"],
            "bytes": [b"one", b"t\xffo"],
            "fixed": np.array([b"abc", b"de"], "S5"),
            "word": "a word",
            "rows": PLAIN_ROWS.copy(),
        }
        self.dtypes: dict[str, Any] = {
            "numbers": "int32",
            "floats": "float64",
            "flags": "bool",
            "scalar": "float64",
            "text": "utf8",
            "ascii": "ascii",
            "bytes": "ascii",
            "fixed": "bytes_",
            "word": "utf8",
            "rows": PLAIN_WORDS,
        }
        self.options: dict[str, dict[str, Any]] = {"numbers": {"chunks": (3, 2)}, "floats": {"fillvalue": 7.0}}
        self.maxshapes: dict[str, tuple[int | None, ...]] = {"numbers": (None, 4)}
        self.refs = ["numbers", "text", "numbers"]
        self.table = [(1, "x", "numbers"), (2, "ß", "text")]
        self.links = {"link": "numbers"}
        self.groups = ["group"]

    def build(self) -> GroupBuilder:
        datasets = {}
        for name, values in self.data.items():
            data = ZarrDataIO(values, **self.options[name]) if name in self.options else values
            options = {"maxshape": self.maxshapes[name]} if name in self.maxshapes else {}
            datasets[name] = DatasetBuilder(name=name, data=data, dtype=self.dtypes[name], **options)
        refs = [ReferenceBuilder(datasets[name]) for name in self.refs]
        rows = [(number, text, ReferenceBuilder(datasets[name])) for number, text, name in self.table]
        more = [
            DatasetBuilder(name="refs", data=refs, dtype="object"),
            DatasetBuilder(name="ref", data=refs[0], dtype="object"),
            DatasetBuilder(name="table", data=rows, dtype=TEXT_ROWS),
        ]
        root = GroupBuilder(
            name="root",
            groups={name: GroupBuilder(name=name) for name in self.groups},
            datasets={**datasets, **{builder.name: builder for builder in more}},
            links={name: LinkBuilder(builder=datasets[target], name=name) for name, target in self.links.items()},
            attributes=self.attributes,
        )
        for name, target in self.references.items():
            single = isinstance(target, str)
            value = ReferenceBuilder(datasets[target]) if single else [ReferenceBuilder(datasets[t]) for t in target]
            root.set_attribute(name, value)
        return root


def write(path: Path, plant: Callable[[Parts], object] = lambda parts: None) -> Path:
    parts = Parts()
    plant(parts)
    with ZarrIO(path, "w") as io:
        io.write_builder(parts.build())
    return path


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("zarr") / "a.zarr")


def put(name: str, index: Any, value: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.data[name].__setitem__(index, value)


def set_data(name: str, value: Any, dtype: Any = None) -> Callable[[Parts], None]:
    def plant(parts: Parts) -> None:
        parts.data[name] = value
        parts.dtypes[name] = dtype or parts.dtypes[name]

    return plant


def set_attribute(name: str, value: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.attributes.__setitem__(name, value)


# name -> kind, path, attribute, how the difference is planted
PLANTED: dict[str, tuple[str, str, str | None, Callable[[Parts], object]]] = {
    "missing dataset": ("missing", "/flags", None, lambda p: p.data.pop("flags")),
    "missing link": ("missing", "/link", None, lambda p: p.links.pop("link")),
    "missing group": ("missing", "/group", None, lambda p: p.groups.pop()),
    "extra group": ("extra", "/new", None, lambda p: p.groups.append("new")),
    "extra link": ("extra", "/second", None, lambda p: p.links.update(second="text")),
    "link": ("link", "/link", None, lambda p: p.links.update(link="text")),
    "group for link": ("type", "/link", None, lambda p: (p.links.clear(), p.groups.append("link"))),
    "wider": ("dtype", "/numbers", None, set_data("numbers", np.arange(24, dtype="<i8").reshape(6, 4), "int64")),
    "big-endian": ("byte-order", "/floats", None, lambda p: p.data.update(floats=p.data["floats"].astype(">f8"))),
    "bool as integer": ("dtype", "/flags", None, set_data("flags", np.array([1, 0], "i1"), "int8")),
    "field": (
        "dtype",
        "/rows",
        None,
        set_data(
            "rows", PLAIN_ROWS.astype([("a", "<i4"), ("b", "<f8")]), [{"name": "a", "dtype": "int32"}, PLAIN_WORDS[1]]
        ),
    ),
    "ascii": ("text-encoding", "/ascii", None, set_data("ascii", ["one", "two"], "utf8")),
    "longer text": ("text-encoding", "/fixed", None, set_data("fixed", np.array([b"abc", b"de"], "S6"))),
    "more rows": ("shape", "/numbers", None, lambda p: p.data.update(numbers=np.arange(28, dtype="<i4").reshape(7, 4))),
    "limit": ("maxshape", "/numbers", None, lambda p: p.maxshapes.update(numbers=(8, 4))),
    "no limit known": ("maxshape", "/numbers", None, lambda p: p.maxshapes.clear()),
    "chunks": ("chunks", "/numbers", None, lambda p: p.options.update(numbers={"chunks": (6, 2)})),
    "codec": (
        "filters",
        "/numbers",
        None,
        lambda p: p.options.update(numbers={"chunks": (3, 2), "compressor": False}),
    ),
    "fill": ("fill", "/floats", None, lambda p: p.options.update(floats={"fillvalue": 8.0})),
    "no fill": ("fill", "/floats", None, lambda p: p.options.pop("floats")),
    "number": ("value", "/numbers", None, put("numbers", (5, 3), 99)),
    "NaN to number": ("value", "/floats", None, put("floats", 1, 0.0)),
    "sign of zero": ("value", "/floats", None, put("floats", 0, -0.0)),
    "flag": ("value", "/flags", None, put("flags", 1, True)),
    "scalar value": ("value", "/scalar", None, set_data("scalar", np.float64(2.6))),
    "letter": ("value", "/text", None, put("text", 1, "tva")),
    "byte": ("value", "/bytes", None, put("bytes", 1, b"t\xfeo")),
    "word": ("value", "/word", None, set_data("word", "another")),
    "field value": ("value", "/rows", None, lambda p: p.data["rows"]["a"].__setitem__(1, 3)),
    "text in a row": ("value", "/table", None, lambda p: p.table.__setitem__(1, (2, "ss", "text"))),
    "reference": ("reference", "/refs", None, lambda p: p.refs.__setitem__(1, "flags")),
    "reference in a row": ("reference", "/table", None, lambda p: p.table.__setitem__(1, (2, "ß", "flags"))),
    "reference attribute": ("reference", "/", "to", lambda p: p.references.update(to="text")),
    "list of references": ("reference", "/", "to_all", lambda p: p.references.update(to_all=["numbers", "word"])),
    "attribute": ("attribute", "/", "count", set_attribute("count", np.uint8(6))),
    "attribute, NaN": ("attribute", "/", "rates", set_attribute("rates", np.array([1, np.nan, np.nan], "<f4"))),
    "attribute, text": ("attribute", "/", "name", set_attribute("name", "a")),
    "missing attribute": ("attribute", "/", "labels", lambda p: p.attributes.pop("labels")),
    "extra attribute": ("attribute", "/", "unit", set_attribute("unit", "V")),
    "attribute dtype": ("attribute-dtype", "/", "count", set_attribute("count", np.uint16(5))),
    "attribute float": ("attribute-dtype", "/", "count", set_attribute("count", 5.0)),
    "attribute encoding": ("attribute-text-encoding", "/", "name", set_attribute("name", "ä".encode())),
    "attribute shape": ("attribute-shape", "/", "count", set_attribute("count", np.array([5], "u1"))),
    "object id": ("object_id", "/", "object_id", set_attribute("object_id", "another")),
}


@pytest.mark.parametrize(("kind", "path", "attribute", "plant"), PLANTED.values(), ids=PLANTED.keys())
def test_the_planted_difference_alone_is_found(
    sample: Path, tmp_path: Path, kind: str, path: str, attribute: str | None, plant: Callable[[Parts], object]
) -> None:
    other = write(tmp_path / "b.zarr", plant)
    found = compare(sample, other)
    assert [(d.kind, d.path, d.attribute) for d in found] == [(kind, path, attribute)], list(map(str, found))
    (mirrored,) = compare(other, sample)
    assert mirrored.kind == {"missing": "extra", "extra": "missing"}.get(kind, kind)
    assert compare(sample, other, ignore={kind}) == []


def test_the_same_tree_written_twice_is_equal(sample: Path, tmp_path: Path) -> None:
    assert compare(sample, write(tmp_path / "b.zarr")) == []


def test_no_chunk_is_read_for_the_structure_alone(sample: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(sample, tmp_path / "b.zarr"))
    for key in other.glob("numbers/[0-9]*"):
        key.write_bytes(b"no chunk")
    assert compare(sample, other, values=False) == []
    with pytest.raises(ChunkError, match="/numbers") as caught:
        compare(sample, other)
    assert str(other) in str(caught.value)


# ---- against HDF5 --------------------------------------------------------------------------------------


def write_hdf5(path: Path) -> Path:
    """One of everything that HDF5IO reads and that HDF5 can say more about than Zarr."""
    with h5py.File(path, "w") as file:
        file.attrs["namespace"] = "core"
        file.attrs["object_id"] = "root-id"
        group = file.create_group("group")
        group.attrs["count"] = np.uint8(5)
        group.attrs["rates"] = np.array([1.0, np.nan, 3.0], dtype="<f4")
        group.attrs["big"] = np.array([1, 2], dtype="<u8")
        group.attrs["matrix"] = np.arange(4.0).reshape(2, 2)
        group.attrs["flag"] = np.True_
        group.attrs.create("labels", ["a", "ß"], dtype=h5py.string_dtype("utf-8"))
        numbers = file.create_dataset(
            "numbers",
            (60, 4),
            "<i4",
            chunks=(30, 2),
            maxshape=(None, 4),
            compression="gzip",
            shuffle=True,
            fillvalue=-1,
        )
        numbers[...] = np.arange(240).reshape(60, 4)
        numbers.attrs["unit"] = "V"
        file.create_dataset("lzf", data=np.arange(5), chunks=(2,), compression="lzf", fletcher32=True)
        file["plain"] = np.array([0.0, -0.0, np.nan, np.inf])
        file["big_endian"] = np.array([1, 2], ">i2")
        file["half"] = np.array([1.5], "<f2")
        file["flags"] = np.array([True, False])
        file["scalar"] = np.float64(2.5)
        file["no_rows"] = np.zeros((0, 3))
        file.create_dataset("text", data=["one", "två", ""], dtype=h5py.string_dtype("utf-8"), maxshape=(None,))
        file.create_dataset("ascii", data=["one", "two"], dtype=h5py.string_dtype("ascii"))
        file.create_dataset("word", data="ä", dtype=h5py.string_dtype("utf-8"))
        file.create_dataset("fixed", data=np.array([b"abc", b"de"], dtype="S5"))
        file.create_dataset("colour", data=[1, 2], dtype=h5py.enum_dtype({"red": 1, "blue": 2}, basetype="i1"))
        file["rows"] = np.array([(1, 2.5), (3, 4.5)], [("a", "<i4"), ("b", "<f8")])
        file["link"] = h5py.SoftLink("/plain")
        file["refs"] = np.array([file["plain"].ref, file["group"].ref], dtype=h5py.ref_dtype)
        table = np.dtype([("start", "<i4"), ("target", h5py.ref_dtype), ("note", h5py.string_dtype())])
        made = file.create_dataset("table", (2,), table, chunks=(1,), maxshape=(None,))
        made[...] = np.array([(1, file["plain"].ref, "x"), (2, file["numbers"].ref, "y")], table)
        group.attrs["target"] = file["plain"].ref
        file["specifications/core/2.0/namespace"] = json.dumps({"namespaces": []})
        file.attrs[".specloc"] = file["specifications"].ref
    return path


def convert(source: Path, target: Path) -> Path:
    """Convert without any schema: builders from HDF5 are written as they are."""
    manager = BuildManager(TypeMap(NamespaceCatalog()))
    with HDF5IO(source, manager=manager, mode="r") as a, ZarrIO(target, "w") as b:
        b.export(src_io=a, cache_spec=False)
    return target


@pytest.fixture(scope="module")
def hdf5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hdf5(tmp_path_factory.mktemp("hdf5") / "a.h5")


@pytest.fixture(scope="module")
def converted(hdf5: Path) -> Path:
    return convert(hdf5, hdf5.with_suffix(".zarr"))


def changed(converted: Path, folder: Path, plant: Callable[[dict[str, Any]], object]) -> Path:
    """Copy a Zarr file with a change of its consolidated metadata."""
    path = Path(shutil.copytree(converted, folder / "b.zarr"))
    document = json.loads((path / ".zmetadata").read_text())
    plant(document["metadata"])
    (path / ".zmetadata").write_text(json.dumps(document))
    return path


def edit(key: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda documents: documents[key].__setitem__(name, value)


def note(path: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda documents: documents[f"{path}/.zattrs"]["_hdmf"].__setitem__(name, value)


def hdf5_note(path: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda documents: documents[f"{path}/.zattrs"]["_hdmf"]["hdf5"].__setitem__(name, value)


# a change of what was converted -> the one difference from the HDF5 file
LOSSES: dict[str, tuple[str, str, str | None, Callable[[dict[str, Any]], object]]] = {
    "chunks": ("chunks", "/numbers", None, hdf5_note("numbers", "chunks", [60, 4])),
    "no chunks": ("chunks", "/numbers", None, lambda d: d["numbers/.zattrs"]["_hdmf"]["hdf5"].pop("chunks")),
    "level": ("filters", "/numbers", None, hdf5_note("numbers", "filters", [[2, 1, [4]], [1, 1, [9]]])),
    "no filters": ("filters", "/lzf", None, lambda d: d["lzf/.zattrs"]["_hdmf"]["hdf5"].pop("filters")),
    "maxshape": ("maxshape", "/numbers", None, note("numbers", "maxshape", [60, 4])),
    "maxshape of rows": ("maxshape", "/table", None, note("table", "maxshape", [2])),
    "fill": ("fill", "/numbers", None, edit("numbers/.zarray", "fill_value", None)),
    "enumeration": ("dtype", "/colour", None, lambda d: d["colour/.zattrs"]["_hdmf"]["hdf5"].pop("enum")),
    "ascii": ("text-encoding", "/ascii", None, lambda d: d["ascii/.zattrs"]["_hdmf"].pop("text")),
    "attribute type": (
        "attribute-dtype",
        "/group",
        "count",
        lambda d: d["group/.zattrs"]["_nczarr_attr"]["types"].pop("count"),
    ),
    "attribute": ("attribute", "/group", "count", edit("group/.zattrs", "count", 6)),
    "reference": (
        "reference",
        "/group",
        "target",
        lambda d: d["group/.zattrs"]["target"]["value"].__setitem__("path", "/numbers"),
    ),
    "place of the specifications": (
        "reference",
        "/",
        ".specloc",
        lambda d: d[".zattrs"].__setitem__(".specloc", "group"),
    ),
    "link": ("link", "/link", None, lambda d: d[".zattrs"]["zarr_link"][0].__setitem__("path", "/text")),
}


def besides_specifications(found: list[Difference]) -> list[Difference]:
    """Leave out the cached specifications, which are no builders and come from a catalogue, here from none."""
    return [
        d
        for d in found
        if not d.path.startswith("/specifications") and not (d.attribute == ".specloc" and None in (d.a, d.b))
    ]


def test_a_conversion_differs_in_nothing(hdf5: Path, converted: Path) -> None:
    assert list(map(str, besides_specifications(compare(hdf5, converted)))) == []
    assert besides_specifications(compare(converted, hdf5)) == []


@pytest.mark.parametrize(("kind", "path", "attribute", "plant"), LOSSES.values(), ids=LOSSES.keys())
def test_what_a_conversion_could_lose_is_found(
    hdf5: Path,
    converted: Path,
    tmp_path: Path,
    kind: str,
    path: str,
    attribute: str | None,
    plant: Callable[[dict[str, Any]], object],
) -> None:
    other = changed(converted, tmp_path, plant)
    found = besides_specifications(compare(hdf5, other))
    assert [(d.kind, d.path, d.attribute) for d in found] == [(kind, path, attribute)], list(map(str, found))


def test_a_chunk_that_is_gone_is_a_difference_in_values(hdf5: Path, converted: Path, tmp_path: Path) -> None:
    other = changed(converted, tmp_path, lambda _: None)
    (other / "numbers/0.0").unlink()
    (found,) = besides_specifications(compare(hdf5, other))
    assert found == Difference("/numbers", "value", 0, -1, place="[0, 0]", count=240)


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """An HDF5 file with types and links that HDMF never writes, and the Zarr file that `convert` makes of it."""
    folder = tmp_path_factory.mktemp("everything")
    with h5py.File(folder / "other.h5", "w") as file:
        file["data"] = np.arange(3)
    with h5py.File(folder / "a.h5", "w") as file:
        planted.write_sample(file)
        del file["virtual"]  # becomes plain data, which is a difference
    convert_file(folder / "a.h5", folder / "a.zarr")
    return folder / "a.h5", folder / "a.zarr"


def test_everything_that_is_converted_differs_in_nothing(everything: tuple[Path, Path]) -> None:
    hdf5, zarr = everything
    assert list(map(str, compare(hdf5, zarr))) == []
    assert compare(zarr, zarr) == []


@pytest.mark.parametrize(
    ("kind", "path", "attribute", "plant"),
    [entry for name, entry in planted.PLANTED.items() if name != "virtual"],
    ids=[name for name in planted.PLANTED if name != "virtual"],
)
def test_what_is_planted_in_hdf5_is_found_from_zarr(
    everything: tuple[Path, Path],
    tmp_path: Path,
    kind: str,
    path: str,
    attribute: str | None,
    plant: Callable[[h5py.File], object],
) -> None:
    hdf5, zarr = everything
    shutil.copy(hdf5.with_name("other.h5"), zarr.with_name("other.h5"))
    other = planted.changed(hdf5, tmp_path, plant)
    found = [d for d in compare(zarr, other) if (d.path, d.kind) != ("/outside", "link") or path == "/outside"]
    assert [(d.kind, d.path, d.attribute) for d in found] == [(kind, path, attribute)], list(map(str, found))


def test_virtual_data_become_plain_data(tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((3,), "<f8")
    layout[...] = h5py.VirtualSource("elsewhere.h5", "/data", (3,))
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
    convert_file(tmp_path / "a.h5", tmp_path / "a.zarr")
    (found,) = compare(tmp_path / "a.h5", tmp_path / "a.zarr")
    assert str(found) == "/virtual layout: ('virtual', 'elsewhere.h5:/data') | ('contiguous',)"


@pytest.mark.parametrize("spoil", [{"fields": [["x", "<i4"]]}, "object", {"text": "ascii"}])
def test_a_noted_type_that_does_not_fit_any_more_says_nothing(
    everything: tuple[Path, Path], tmp_path: Path, spoil: Any
) -> None:
    other = changed(everything[1], tmp_path, hdf5_note("plain", "type", spoil))
    assert compare(everything[1], other) == []


@pytest.mark.parametrize("spoil", ["nonsense", {}, 7, {"text": "ascii", "size": 3}, {"array": "<i4"}, {"fields": 3}])
def test_a_noted_type_that_is_none_is_told(everything: tuple[Path, Path], tmp_path: Path, spoil: Any) -> None:
    other = changed(everything[1], tmp_path, hdf5_note("plain", "type", spoil))
    with pytest.raises(MetadataError, match="/plain"):
        compare(everything[1], other)


def test_a_noted_type_cannot_be_nested_without_end(everything: tuple[Path, Path], tmp_path: Path) -> None:
    endless: Any = "<i4"
    for _ in range(200):
        endless = {"sequence": endless}
    other = changed(everything[1], tmp_path, hdf5_note("plain", "type", endless))
    with pytest.raises(MetadataError, match="too deep"):
        compare(everything[1], other)


def dataset(facts: NodeFacts) -> DatasetFacts:
    assert isinstance(facts, DatasetFacts)
    return facts


def test_two_views_of_one_array(converted: Path) -> None:
    own, as_hdf5 = (dataset(open_facts(converted, as_hdf5=flag)["/numbers"]) for flag in (False, True))
    assert [step.name for step in as_hdf5.filters] == ["shuffle", "deflate"]
    assert as_hdf5.chunks == (30, 2)
    assert [step.name for step in own.filters] == ["blosc"]
    assert own.chunks == own.grid == as_hdf5.grid == (60, 4)
    assert own.maxshape == as_hdf5.maxshape == (None, 4)


def test_facts_of_rows_and_references(sample: Path) -> None:
    facts = ZarrFacts(sample)
    table = dataset(facts["/table"])
    assert str(table.dtype) == "{number: int32 little-endian, text: variable-length utf-8 text, to: reference}"
    assert table.shape == (2,)
    assert table.read((slice(1, 2),)).tolist() == [(2, "ß", Reference("/text"))]
    ref = dataset(facts["/ref"])
    assert (ref.shape, ref.chunks) == ((), None)
    assert ref.read(())[()] == Reference("/numbers")
    assert dataset(facts["/bytes"]).read((slice(0, 2),)).tolist() == ["one", "t\udcffo"]
    assert str(facts["/link"]) == "soft link to /numbers"
    assert len(facts) == len(list(facts))
    with pytest.raises(KeyError):
        facts["/absent"]


def test_every_type_of_dataset_and_attribute_equals_itself_and_hdf5(tmp_path: Path) -> None:
    def root() -> GroupBuilder:
        group = GroupBuilder(name="group", attributes=attribute_values())
        return GroupBuilder(name="root", groups={"group": group}, datasets=dataset_builders())

    with ZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write_builder(root())
    with HDF5IO(tmp_path / "a.h5", manager=BuildManager(TypeMap(NamespaceCatalog())), mode="w") as io:
        io.write_builder(root())
    assert compare(tmp_path / "a.zarr", tmp_path / "a.zarr") == []
    found = compare(tmp_path / "a.h5", tmp_path / "a.zarr", ignore={"chunks", "filters"})
    # HDF5IO turns the bytes round
    assert [str(d) for d in found] == ["/big_endian byte-order: int32 little-endian | int32 big-endian"]


def test_references_and_links_of_all_kinds_equal_those_of_hdf5(tmp_path: Path) -> None:
    def root() -> GroupBuilder:
        tree = reference_tree()
        deep = tree["inner"]["deep"]
        # HDF5IO cannot write these
        del deep.attributes["to_several"], deep.datasets["reference_matrix"], deep.obj_type["reference_matrix"]
        return tree

    with ZarrIO(tmp_path / "a.zarr", "w") as io:
        io.write_builder(root())
    with HDF5IO(tmp_path / "a.h5", manager=BuildManager(TypeMap(NamespaceCatalog())), mode="w") as io:
        io.write_builder(root())
    found = compare(tmp_path / "a.h5", tmp_path / "a.zarr", ignore={"chunks", "filters"})
    assert [str(d) for d in found] == []


# ---- references, links and regions by hand -------------------------------------------------------------


def hand_made(path: Path, **attributes: Any) -> Path:
    """A Zarr file of a group, an array of shape (10, 4) in it, and attributes of the root; not consolidated."""
    (path / "group/data").mkdir(parents=True)
    array = {"chunks": [10, 4], "compressor": None, "dtype": "<i4", "fill_value": 3, "filters": None, "order": "C",
             "shape": [10, 4], "zarr_format": 2}  # fmt: skip
    (path / "group/data/.zarray").write_text(json.dumps(array))
    for folder in (path, path / "group"):
        (folder / ".zgroup").write_text('{"zarr_format": 2}')
    (path / ".zattrs").write_text(json.dumps(attributes))
    return path


def stored(path: str, source: str = ".", **more: Any) -> dict[str, Any]:
    kind = "region" if "region" in more else "object"
    return {"zarr_dtype": kind, "value": {"source": source, "path": path, **more}}


def attribute(path: Path, name: str) -> Any:
    facts = ZarrFacts(path)["/"]
    assert not isinstance(facts, DatasetFacts)
    return facts.attributes[name].value[()]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("region", "meant"),
    [
        ([{"slice": [0, 4, 1]}, {"slice": [0, 4, 2]}], (("slice", (0, 4, 1)), ("slice", (0, 3, 2)))),
        ([{"slice": [None, None, None]}, {"index": [1, 2, 3]}], (("slice", (0, 10, 1)), ("slice", (1, 4, 1)))),
        ([{"index": [0, 1, 5]}, {"slice": [1, 2, 1]}], (("index", (0, 1, 5)), ("slice", (1, 2, 1)))),
        ([{"slice": [4, 4, 1]}, {"slice": [0, 4, 1]}], (("none", ()),)),
        ({"points": [[1, 2], [0, 3]]}, (("points", ((1, 2), (0, 3))),)),
    ],
    ids=str,
)
def test_regions_have_one_spelling(tmp_path: Path, region: Any, meant: Any) -> None:
    path = hand_made(tmp_path / "a.zarr", part=stored("/group/data", region=region))
    assert attribute(path, "part") == Reference("/group/data", meant)


def test_a_region_of_hdf5_equals_the_same_region_of_zarr(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = file.create_dataset("group/data", (10, 4), "<i4", fillvalue=3, chunks=(10, 4))
        file.attrs["part"] = data.regionref[0:4, 1:3]
    regions = {"same": [[0, 4, 1], [1, 3, 1]], "other": [[0, 4, 1], [1, 4, 1]]}
    for name, axes in regions.items():
        region = [{"slice": axis} for axis in axes]
        hand_made(tmp_path / name, part=stored("/group/data", region=region))
    assert compare(tmp_path / "a.h5", tmp_path / "same") == []
    assert summarise(compare(tmp_path / "a.h5", tmp_path / "other")) == {"reference": 1}


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        (stored("/group/data"), Reference("/group/data")),
        (stored("group/data/"), Reference("/group/data")),
        (stored("/"), Reference("/")),
        (stored("/nothing"), Reference("<dangling>")),
        (stored("/group/data/deeper"), Reference("<dangling>")),
        (stored("/soft"), Reference("/group/data")),
        (stored("/chain"), Reference("/group/data")),
        (stored("/folder/data"), Reference("/group/data")),
        (stored("/loop_a"), Reference("<dangling>")),
        (stored("/outside/x"), Reference("/there/x", None, "../b.zarr")),
        (stored("/x", "../b.zarr"), Reference("/x", None, "../b.zarr")),
        (stored("/group", "a.zarr"), Reference("/group")),  # as hdmf-zarr 0.10 named the file itself
        ({"zarr_dtype": "object", "value": {"source": "."}}, Reference("<dangling>")),
    ],
    ids=lambda value: str(value["value"]) if isinstance(value, dict) else "",
)
def test_references_lead_through_links_and_never_astray(tmp_path: Path, reference: Any, meant: Reference) -> None:
    links = [
        {"name": "soft", "source": ".", "path": "/group/data"},
        {"name": "chain", "source": ".", "path": "/soft"},
        {"name": "folder", "source": ".", "path": "/group"},
        {"name": "loop_a", "source": ".", "path": "/loop_b"},
        {"name": "loop_b", "source": ".", "path": "/loop_a"},
        {"name": "outside", "source": "../b.zarr", "path": "/there"},
    ]
    path = hand_made(tmp_path / "a.zarr", zarr_link=links, ref=reference)
    assert attribute(path, "ref") == meant
    facts = ZarrFacts(path)
    assert str(facts["/outside"]) == "external link to ../b.zarr:/there"
    assert compare(path, path) == []


def test_external_links_are_equal_by_text_or_by_the_file_meant(tmp_path: Path) -> None:
    def linked(path: Path, source: str) -> Path:
        return hand_made(path, zarr_link=[{"name": "link", "source": source, "path": "/x"}])

    a = linked(tmp_path / "a.zarr", "../other.zarr")
    moved = linked(tmp_path / "deep/b.zarr", "../other.zarr")
    rewritten = linked(tmp_path / "deep/c.zarr", "../../other.zarr")
    assert compare(a, moved) == []
    assert compare(a, rewritten) == []
    assert summarise(compare(moved, rewritten)) == {"link": 1}


# ---- old and damaged files -----------------------------------------------------------------------------


def test_what_hdmf_zarr_wrote_is_understood(tmp_path: Path) -> None:
    import numcodecs

    rows = np.empty(2, dtype=object)
    rows[:] = [(1, "x"), (2, "y")]
    scalar = np.array(["{}"], dtype=object)
    path = hand_made(tmp_path / "a.zarr")
    for name, data, codec, words in (
        ("rows", rows, numcodecs.Pickle(), [{"name": "n", "dtype": "int32"}, {"name": "t", "dtype": "str_"}] * 2),
        ("spec", scalar, numcodecs.JSON(), "scalar"),
        ("times", np.array([b"2020"], dtype=object), numcodecs.VLenBytes(), "bytes"),
    ):
        (path / name).mkdir()
        document = {"chunks": [len(data)], "compressor": None, "dtype": "|O", "fill_value": 0,
                    "filters": [codec.get_config()], "order": "C", "shape": [len(data)], "zarr_format": 2}  # fmt: skip
        (path / name / ".zarray").write_text(json.dumps(document))
        (path / name / ".zattrs").write_text(json.dumps({"zarr_dtype": words}))
        (path / name / "0").write_bytes(bytes(codec.encode(data)))
    facts = ZarrFacts(path)
    assert str(dataset(facts["/rows"]).dtype) == "{n: int32 little-endian, t: variable-length utf-8 text}"
    assert dataset(facts["/rows"]).read((slice(0, 2),)).tolist() == [(1, "x"), (2, "y")]
    assert dataset(facts["/spec"]).shape == ()
    assert dataset(facts["/spec"]).read(())[()] == "{}"
    assert dataset(facts["/times"]).dtype == ElementType("text", encoding="ascii")
    assert dataset(facts["/times"]).read((slice(0, 1),)).tolist() == ["2020"]


def test_what_stands_among_text_does_not_look_like_empty_text(tmp_path: Path) -> None:
    import numcodecs

    values = np.empty(3, dtype=object)
    values[:] = ["", 5, {"a": 1}]
    path = hand_made(tmp_path / "a.zarr")
    document = json.loads((path / "group/data/.zarray").read_text())
    document.update(dtype="|O", shape=[3], chunks=[3], filters=[numcodecs.JSON().get_config()], fill_value=None)
    (path / "group/data/.zarray").write_text(json.dumps(document))
    (path / "group/data/0").write_bytes(bytes(numcodecs.JSON().encode(values)))
    assert dataset(ZarrFacts(path)["/group/data"]).read((slice(0, 3),)).tolist() == ["", "5", '{"a": 1}']


@pytest.mark.parametrize(
    ("key", "text", "error", "said"),
    [
        (".zattrs", '{"zarr_link": 5}', MetadataError, "zarr_link"),
        (".zattrs", '{"zarr_link": [{"path": "/group"}]}', MetadataError, "no name"),
        ("group/data/.zattrs", '{"_nczarr_attr": {"types": {"x": "<i4"}}, "x": "word"}', MetadataError, "/group/data"),
        ("group/data/.zattrs", '{"zarr_dtype": [{"name": "x", "dtype": "nonsense"}]}', None, ""),
        ("group/data/.zarray", "{}", MetadataError, "/group/data"),
        ("group/data/0.0", "xy", ChunkError, "/group/data"),
    ],
)
def test_damage_is_told_with_file_and_node(
    tmp_path: Path, key: str, text: str, error: type[Exception] | None, said: str
) -> None:
    path = hand_made(tmp_path / "a.zarr")
    (path / key).write_text(text)
    if error is None:
        assert compare(path, path) == []
        return
    with pytest.raises(error, match=said) as caught:
        compare(path, path)
    assert str(path) in str(caught.value)


def test_rows_that_do_not_fit_their_fields_are_told(sample: Path, tmp_path: Path) -> None:
    words = [{"name": "number", "dtype": "int32"}, {"name": "to", "dtype": "object"}]
    path = changed(sample, tmp_path, edit("table/.zattrs", "zarr_dtype", words))
    with pytest.raises(DamagedFileError, match="/table"):
        compare(path, path)


def test_zarr_is_known_by_its_documents(sample: Path, tmp_path: Path) -> None:
    assert is_zarr(sample)
    (tmp_path / "zarr.json").write_text("{}")
    assert is_zarr(tmp_path)
    with pytest.raises(NotZarrError, match="format 3"):
        open_facts(tmp_path)
    assert not is_zarr(tmp_path / "absent")
    assert not is_zarr(sample / ".zgroup")


# ---- real files ----------------------------------------------------------------------------------------


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore:The link:hdmf.backends.warnings.BrokenLinkWarning")
def test_a_converted_real_file_differs_in_nothing(nwbfiles: list[Path], tmp_path: Path) -> None:
    unexpected = {}
    for path in nwbfiles:
        target = tmp_path / f"{path.name}.zarr"
        convert_file(path, target, check=False)
        if found := compare(path, target):
            unexpected[path.name] = list(map(str, found))
        shutil.rmtree(target)
    assert unexpected == {}


def is_documented(d: Difference) -> bool:
    """Tell whether HDF5IO -> builders -> Zarr makes this difference: HDF5IO reads no more than that (hdmf 6.2)."""
    if d.path.startswith("/specifications"):
        return True  # the export caches the namespaces that pynwb has loaded
    if d.attribute == ".specloc":
        return d.kind == "attribute" and d.a is None
    if d.kind in {"text-encoding", "attribute-text-encoding"}:
        # attributes and scalars become str, whatever text they were
        assert isinstance(d.a, ElementType)
        return d.a.encoding == "ascii"
    if d.kind == "dtype":
        return (str(d.a), str(d.b)) == ("region", "reference")
    if d.kind == "reference":
        assert isinstance(d.a, Reference)
        return d.a.region is not None and replace(d.a, region=None) == d.b
    return d.kind == "missing" and d.a == "link"  # broken links are dropped, with a warning


@pytest.mark.corpus
@pytest.mark.filterwarnings("ignore")  # pynwb and hdmf on old files
def test_an_exported_real_file_differs_as_documented(nwbfiles: list[Path], tmp_path: Path) -> None:
    pynwb = pytest.importorskip("pynwb")
    from hdmf_zarr_backend import NWBZarrIO

    unexpected = {}
    compared = 0
    for path in nwbfiles:
        if path.name == "nwbexplorer__nwb_test_file.nwb":
            continue  # NWB 1.x
        target = tmp_path / f"{path.name}.zarr"
        with pynwb.NWBHDF5IO(path, "r", load_namespaces=True) as source, NWBZarrIO(target, "w") as io:
            io.export(src_io=source)
        found = [difference for difference in compare(path, target) if not is_documented(difference)]
        if found:
            unexpected[path.name] = list(map(str, found))
        compared += 1
        shutil.rmtree(target)
    assert unexpected == {}
    assert compared > 0
