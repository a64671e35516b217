"""Makes the test vectors: ``python docs/format/vectors/make.py``.

Each case states what it means in plain Python; this package writes the stores, and the broken ones are damaged by hand
after that. The statement of a case comes from the case itself, never from reading the store. The output is the same in
every run.
"""

from __future__ import annotations

import base64
import io
import json
import math
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.encoding.references import RegionReference, ZarrReference
from hdmf_zarr_backend.options import WriteOptions

FOLDER = Path(__file__).resolve().parent
FORMATS: tuple[Any, ...] = (2, 3, "both")

# ---- values ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class To:
    """A reference to the object at a path, or to a region of it; ``source`` leads to another store."""

    path: str
    region: Any = None
    source: str | None = None

    def stated(self) -> dict[str, Any]:
        """Return the reference as JSON."""
        found: dict[str, Any] = (
            {"path": self.path} if self.source is None else {"source": self.source, "path": self.path}
        )
        if self.region is not None:
            found["region"] = self.region
        return found


@dataclass
class Dataset:
    """A dataset: its values, the name of its type, and how it is stored."""

    values: Any
    type: Any
    attributes: dict[str, Any] = field(default_factory=dict)
    storage: dict[str, Any] = field(default_factory=dict)
    builder_type: Any = None

    def shape(self) -> list[int]:
        """Return the shape; [] for a scalar."""
        if isinstance(self.values, np.ndarray):
            return list(self.values.shape)
        shape, values = [], self.values
        while isinstance(values, list):
            shape.append(len(values))
            values = values[0] if values else None
        return shape

    def stated(self) -> dict[str, Any]:
        """Return the dataset as JSON."""
        return {
            "type": self.type,
            "shape": self.shape(),
            "values": plain(self.values),
            **stated_attributes(self.attributes),
        }


@dataclass
class Group:
    """A group: its members, links (name -> path, or a place in another store) and attributes."""

    members: dict[str, Dataset | Group] = field(default_factory=dict)
    links: dict[str, str | To] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    def stated(self) -> dict[str, Any]:
        """Return the group and all in it as JSON."""
        datasets = {name: each.stated() for name, each in self.members.items() if isinstance(each, Dataset)}
        groups = {name: each.stated() for name, each in self.members.items() if isinstance(each, Group)}
        links = {name: plain(target) for name, target in self.links.items()}
        return {**stated_attributes(self.attributes), "datasets": datasets, "groups": groups, "links": links}


def stated_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as JSON, with the types that JSON does not show."""
    types = {name: found for name, value in attributes.items() if (found := type_of(value)) is not None}
    found = {"attributes": {name: plain(value) for name, value in attributes.items()}}
    return {**found, "attribute_types": types} if types else found


def type_of(value: Any) -> Any:
    """Return the type of the value of an attribute; None for text, numbers and lists that are those of JSON."""
    if isinstance(value, h5py.Empty):
        return value.dtype.name
    if not isinstance(value, (np.ndarray, np.generic)):
        return {complex: "complex128", bytes: "ascii"}.get(type(value))
    if value.dtype.names is not None:
        return fields_of(value.dtype)
    if value.dtype.kind in "UO":
        return None if value.size else "text"
    return "ascii" if value.dtype.kind == "S" else value.dtype.name


def fields_of(dtype: np.dtype[Any]) -> list[dict[str, Any]]:
    """Return the fields of a structured type as JSON."""
    found = []
    for name in dtype.names or ():
        shape = {"shape": list(dtype[name].shape)} if dtype[name].shape else {}
        found.append({"name": name, "type": dtype[name].base.name, **shape})
    return found


def plain(value: Any) -> Any:
    """Return a value as JSON: NaN and infinities as text, a complex number as a pair, a time as ISO 8601.

    Bytes are text, or an object with ``base64`` where they are not ASCII.
    """
    if isinstance(value, (np.ndarray, list, tuple)):
        is_scalar = isinstance(value, np.ndarray) and value.ndim == 0
        return plain(value[()]) if is_scalar else [plain(each) for each in value]
    if isinstance(value, np.timedelta64):
        return int(value.astype("i8"))
    if isinstance(value, np.generic) and not isinstance(value, np.datetime64):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    for kind, made in _MADE.items():
        if isinstance(value, kind):
            return made(value)
    return value


def _bytes(value: bytes) -> Any:
    return value.decode() if value.isascii() else {"base64": base64.b64encode(value).decode()}


_MADE: dict[type, Callable[[Any], Any]] = {
    To: To.stated,
    bytes: _bytes,
    h5py.Empty: lambda value: [],
    date: date.isoformat,
    np.datetime64: str,
    complex: lambda value: [plain(value.real), plain(value.imag)],
}


def numbers(values: Any, dtype: str, **options: Any) -> Dataset:
    """Return a dataset of numbers, truth values or times."""
    array = np.asarray(values, dtype)
    return Dataset(array, array.dtype.name, **options)


def text(values: Any, **options: Any) -> Dataset:
    """Return a dataset of UTF-8 text."""
    return Dataset(values, "text", **options)


def references(values: Any, **options: Any) -> Dataset:
    """Return a dataset of references."""
    return Dataset(values, "reference", **options)


def rows(fields: Mapping[str, Any], values: list[tuple[Any, ...]], **options: Any) -> Dataset:
    """Return a dataset of rows: the types of the fields by name, and the rows as tuples."""
    return Dataset(values, [{"name": name, "type": each} for name, each in fields.items()], **options)


def structured(values: np.ndarray[Any, Any], **options: Any) -> Dataset:
    """Return a dataset of rows of fixed size, from a structured array."""
    return Dataset(values, fields_of(values.dtype), **options)


# ---- stores ---------------------------------------------------------------------------------------------------------


class Written:
    """Builders of a case, whose references need the builders of their targets."""

    def __init__(self, root: Group) -> None:
        self._made: dict[str, Any] = {}
        self._later: list[Callable[[], None]] = []
        self.root = self._group("root", root, "/")
        for each in self._later:
            each()

    def _group(self, name: str, group: Group, path: str) -> Any:
        builder = GroupBuilder(name)
        self._made[path] = builder
        self._later.append(lambda: self._attributes(builder, group.attributes))
        for key, member in group.members.items():
            place = f"{path.rstrip('/')}/{key}"
            if isinstance(member, Group):
                builder.set_group(self._group(key, member, place))
            else:
                builder.set_dataset(self._dataset(key, member, place))
        for key, target in group.links.items():
            if isinstance(target, str):
                self._later.append(lambda key=key, target=target: self._link(builder, key, target))
        return builder

    def _link(self, builder: Any, name: str, target: str) -> None:
        builder.set_link(LinkBuilder(self._made[target], name))

    def _dataset(self, name: str, given: Dataset, path: str) -> Any:
        has_references = "reference" in json.dumps(given.type)
        builder = DatasetBuilder(name, None if has_references else self._data(given), dtype=self._dtype(given))
        self._made[path] = builder
        if has_references:
            self._later.append(lambda: self._set_references(builder, given))
        self._later.append(lambda: self._attributes(builder, given.attributes))
        return builder

    def _set_references(self, builder: Any, given: Dataset) -> None:
        builder["data"] = self._resolved(given.values)

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, To):
            if value.source is not None:
                return ZarrReference(value.source, value.path, f"id-{value.path.rpartition('/')[2]}")
            target = self._made[value.path]
            return ReferenceBuilder(target) if value.region is None else RegionReference(target, value.region)
        return type(value)(map(self._resolved, value)) if isinstance(value, (list, tuple)) else value

    @staticmethod
    def _data(given: Dataset) -> Any:
        return ZarrDataIO(given.values, **given.storage) if given.storage else given.values

    @staticmethod
    def _dtype(given: Dataset) -> Any:
        if given.builder_type is not None:
            return given.builder_type
        if isinstance(given.values, np.ndarray) and given.values.dtype.names is not None:
            return None  # that of the array
        words = {"text": "utf8", "ascii": "ascii", "reference": "object"}
        if isinstance(given.type, list):
            return [{"name": each["name"], "dtype": words.get(each["type"], each["type"])} for each in given.type]
        return words.get(given.type)

    def _attributes(self, builder: Any, attributes: dict[str, Any]) -> None:
        for name, value in attributes.items():
            builder.set_attribute(name, self._resolved(value))


def stored(root: Group, zarr_format: Any, **options: Any) -> dict[str, bytes]:
    """Return the keys and values of the store of a case."""
    keys: dict[str, bytes] = {}
    written = Written(root)
    with ZarrIO(keys, "w", zarr_format=zarr_format, **options) as target:  # type: ignore[arg-type]
        target.write_builder(written.root)
    return {key: _without_time(bytes(value)) for key, value in keys.items()}


def _without_time(value: bytes) -> bytes:
    """Return a value, if it is of gzip without the time at which it was compressed."""
    return value[:4] + bytes(4) + value[8:] if value.startswith(b"\x1f\x8b\x08") else value


def zipped(keys: Mapping[str, bytes]) -> bytes:
    """Return a zip file that is the same for the same keys."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as target:
        for key in sorted(keys):
            entry = zipfile.ZipInfo(key, (2020, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            target.writestr(entry, keys[key], compresslevel=9)
    return buffer.getvalue()


# ---- cases ----------------------------------------------------------------------------------------------------------


@dataclass
class Case:
    """One vector.

    Attributes
    ----------
    about : str
        What it is about.
    root : Group
        Its content.
    options : dict
        Of the writer.
    formats : tuple
        The formats that it is made in.
    change : callable, optional
        Changes the keys after they are written; receives them and the format.
    error : str or None
        What a reader must refuse, in words; ``where`` has the path of the node. Everything else is still readable.
    where : str
        The path of the node that ``error`` names.
    specifications : dict
        The cached specifications: ``{namespace: {version: {source: JSON text}}}``.
    """

    about: str
    root: Group
    options: dict[str, Any] = field(default_factory=dict)
    formats: tuple[Any, ...] = (2, 3)
    change: Callable[[dict[str, bytes], Any], None] | None = None
    error: str | None = None
    where: str = "/"
    specifications: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)


def only(dataset: Dataset, about: str, **options: Any) -> Case:
    """Return a case of one dataset, ``data``."""
    return Case(about, Group({"data": dataset}), **options)


def _number_cases() -> Iterator[tuple[str, Case]]:
    for code in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"):
        info = np.iinfo(code)
        name = np.dtype(code).name
        yield name, only(numbers([info.min, 0, 1, info.max], code), f"whole numbers, {name}")
    for code in ("f2", "f4", "f8"):
        name = np.dtype(code).name
        values = [0.0, 1.5, -2.25, float(np.finfo(code).max), np.nan, np.inf, -np.inf]
        yield name, only(numbers(values, code), f"floating-point numbers, {name}, with NaN and infinities")
    for code in ("c8", "c16"):
        name = np.dtype(code).name
        yield name, only(numbers([1 + 2j, -0.5j, 3], code), f"complex numbers, {name}")
    yield "bool", only(numbers([True, False, True], "?"), "truth values")
    for code in (">i2", ">u4", ">i8", ">f4", ">f8"):
        yield f"big-endian-{np.dtype(code).name}", only(numbers([1, 2, 300], code), f"big-endian numbers, {code}")
    for code in ("M8[s]", "M8[ns]", "M8[D]", "m8[ms]", "m8[us]"):
        name = np.dtype(code).name.replace("[", "-").rstrip("]")
        yield (
            name,
            only(Dataset(np.array([0, 86400, -86400], "i8").astype(code), np.dtype(code).name), f"times, {code}"),
        )


def _opaque_cases() -> Iterator[tuple[str, Case]]:
    opaque = np.array([b"\xff\x00", b"\x80\x81"], "V2")
    yield "opaque", only(Dataset(opaque, "void16"), "elements of two bytes without a meaning")


def _shape_cases() -> Iterator[tuple[str, Case]]:
    yield "scalar-int", only(numbers(7, "i4"), "a scalar number: the shape is empty")
    yield "scalar-float", only(numbers(np.nan, "f8"), "a scalar NaN")
    yield "scalar-text", only(text("one text"), "a scalar text")
    yield "scalar-bool", only(numbers(np.True_, "?"), "a scalar truth value")
    yield "one-element", only(numbers([7], "i4"), "an array of one element is not a scalar")
    yield "empty", only(numbers(np.zeros(0), "f4"), "an array without elements")
    yield "empty-2d", only(numbers(np.zeros((0, 3)), "i2"), "an array of no rows and three columns")
    yield "two-axes", only(numbers(np.arange(6).reshape(2, 3), "i4"), "two axes, in C order")
    yield "four-axes", only(numbers(np.arange(16).reshape(2, 2, 2, 2), "u1"), "four axes")
    edge = numbers(np.arange(35).reshape(5, 7), "i4", storage={"chunks": (2, 3)})
    yield "edge-chunks", only(edge, "chunks that do not divide the shape: the last ones are padded")
    many = numbers(np.arange(30), "i2", storage={"chunks": (1,)})
    yield "many-chunks", only(many, "a chunk for each element")
    zeros = numbers(np.zeros((4, 4)), "f8", storage={"chunks": (2, 2), "fillvalue": 0.0})
    yield "all-fill", only(zeros, "all elements have the fill value")
    filled = numbers([5, 5, 1, 2], "i4", storage={"chunks": (2,), "fillvalue": 5})
    yield "missing-chunk", only(filled, "a chunk that is not stored has the fill value", change=_without_first_chunk)
    grows = numbers(np.arange(6).reshape(3, 2), "i4", storage={"chunks": (2, 2), "maxshape": (None, 2)})
    yield "maxshape", only(grows, "the first axis may grow")


def _without_first_chunk(keys: dict[str, bytes], zarr_format: Any) -> None:
    del keys["data/c/0" if zarr_format == 3 else "data/0"]


def _text_cases() -> Iterator[tuple[str, Case]]:
    yield "text", only(text(["", "a", "Grüße", "日本語", "🧠", "two\nlines"]), "UTF-8 text of any length")
    yield "text-2d", only(text([["a", "b"], ["c", "d"]]), "text with two axes")
    yield "text-empty", only(Dataset([], "text"), "text without elements")
    yield "ascii", only(Dataset([b"abc", b"", b"z"], "ascii"), "ASCII text of any length")
    yield "text-chunks", only(text([f"n{i}" for i in range(10)], storage={"chunks": (3,)}), "text in several chunks")
    yield "text-long", only(text(["x" * 1000, "y"]), "a long text beside a short one")
    yield "text-fixed", only(text(["ab", "", "düe"]), "UTF-8 text of fixed length, four bytes for each character",
                             change=_with_array(np.array(["ab", "", "düe"])))  # fmt: skip
    yield "ascii-fixed", only(Dataset([b"ab", b"", b"cde"], "ascii"), "ASCII text of fixed length",
                              change=_with_array(np.array([b"ab", b"", b"cde"])))  # fmt: skip
    yield "ascii-scalar", only(Dataset("abc", "ascii"), "a scalar ASCII text")
    yield "bytes", only(Dataset([b"\xff\x00", b"abc", b""], "ascii"), "bytes that are not text")
    times = ["2026-01-02T03:04:05+01:00", "2026-01-02"]
    yield "text-dates", only(Dataset(times, "text", builder_type="isodatetime"), "dates as text")
    yield "scalar-date", only(Dataset(times[0], "text", builder_type="isodatetime"), "a scalar date as text")
    yield "text-json", only(text(['{"a": 1}', "null", "[]", '"']), "text that looks like JSON")


def _with_array(values: np.ndarray[Any, Any]) -> Callable[[dict[str, bytes], Any], None]:
    """Return a function that stores ``data`` as elements of fixed size, as other writers do."""
    plain_bytes = {"name": "bytes", "configuration": {"endian": "little"}}
    kind = {"U": "fixed_length_utf32", "S": "null_terminated_bytes"}[values.dtype.kind]
    named = {"name": kind, "configuration": {"length_bytes": values.dtype.itemsize}}

    def changed(keys: dict[str, bytes], zarr_format: Any) -> None:
        def change(document: dict[str, Any]) -> None:
            document.update(
                {"data_type": named, "fill_value": "", "codecs": [plain_bytes]}
                if zarr_format == 3
                else {"dtype": values.dtype.str, "fill_value": "", "filters": None, "compressor": None}
            )
            attributes = document["attributes"] if zarr_format == 3 else {}
            attributes.pop("_hdmf", None)

        _changed(keys, zarr_format, change)
        keys["data/c/0" if zarr_format == 3 else "data/0"] = values.tobytes()
        if zarr_format == 2:
            attributes = json.loads(keys["data/.zattrs"])
            attributes.pop("_hdmf", None)
            keys["data/.zattrs"] = json.dumps(attributes).encode()

    return changed


TARGETS = {
    "table": Group({"column": numbers([1, 2, 3], "i4", attributes={"object_id": "id-column"})},
                   attributes={"object_id": "id-table"}),
    "trace": numbers(np.arange(12).reshape(6, 2), "i2", attributes={"object_id": "id-trace"}),
}  # fmt: skip
"""What references and links lead to."""


LINKED = "../link-to-dataset.zarr"
"""Another vector, from which links and references lead to `TARGETS`."""


def beside(**members: Dataset | Group) -> Group:
    """Return a root with `TARGETS` and other members."""
    return Group({**TARGETS, **members}, attributes={"object_id": "id-root"})


def _reference_cases() -> Iterator[tuple[str, Case]]:
    found = references([To("/table"), To("/trace"), To("/table/column")])
    yield "references", Case("references to a group and to datasets", beside(data=found))
    yield "reference-scalar", Case("a scalar dataset that is a reference", beside(data=references(To("/trace"))))
    yield "reference-one", Case("a dataset of one reference", beside(data=references([To("/trace")])))
    yield "reference-to-root", Case("a reference to the root", beside(data=references([To("/")])))
    many = references([To("/table"), To("/trace")] * 5, storage={})
    yield "references-many", Case("the same targets many times", beside(data=many))
    yield (
        "reference-attribute",
        Case("an attribute that is a reference", beside(group=Group(attributes={"target": To("/table")}))),
    )
    yield (
        "reference-attribute-dataset",
        Case(
            "an attribute of a dataset that is a reference",
            beside(data=numbers([1], "i4", attributes={"of": To("/trace")})),
        ),
    )
    yield (
        "reference-attribute-list",
        Case(
            "an attribute that is a list of references",
            beside(group=Group(attributes={"targets": [To("/table"), To("/trace")]})),
        ),
    )
    part = To("/trace", [{"slice": [1, 3, 1]}, {"slice": [0, 2, 1]}])
    points = To("/trace", {"points": [[0, 1], [5, 0]]})
    found = Dataset([part, points], "reference", builder_type="region")
    yield "region-references", Case("references to a block and to two points of a dataset", beside(data=found))
    yield "reference-null", Case("an element that refers to nothing", beside(data=references([To("/trace"), None])))
    square = references([[To("/trace"), To("/table")], [To("/table"), To("/trace")]])
    yield "references-2d", Case("references with two axes", beside(data=square))
    yield "references-msgpack", Case("references in MessagePack, as hdmf-zarr writes them on request",
                                     beside(data=references([To("/table"), To("/trace")])),
                                     formats=(2,), change=_packed)  # fmt: skip
    yield (
        "region-attribute",
        Case("an attribute that refers to a part of a dataset", beside(group=Group(attributes={"part": part}))),
    )
    away = To("/trace", source=LINKED)
    yield "reference-external", Case("references to a dataset of another store, and to one of this store",
                                     beside(data=references([away, To("/trace")])))  # fmt: skip
    yield (
        "reference-external-attribute",
        Case("an attribute that refers to a dataset of another store", beside(group=Group(attributes={"to": away}))),
    )
    inner = Group({"inner": Group({"data": references([To("/trace"), To("/deep/inner")])})})
    yield "reference-nested", Case("references from a nested dataset, one to its own group", beside(deep=inner))


def _packed(keys: dict[str, bytes], zarr_format: Any) -> None:
    """Store the references in ``data`` in MessagePack."""
    document = json.loads(keys["data/.zarray"])
    codecs = [numcodecs.JSON(), numcodecs.get_codec(document["compressor"])]
    value = codecs[0].decode(codecs[1].decode(keys["data/0"]))
    value[:] = [{name: each[name] for name in ("source", "path", "object_id", "source_object_id")} for each in value]
    packed = numcodecs.MsgPack()
    keys["data/0"] = bytes(codecs[1].encode(packed.encode(value)))
    document["filters"] = [packed.get_config()]
    consolidated = json.loads(keys[".zmetadata"])
    consolidated["metadata"]["data/.zarray"] = document
    keys |= {"data/.zarray": json.dumps(document).encode(), ".zmetadata": json.dumps(consolidated).encode()}


def _row_cases() -> Iterator[tuple[str, Case]]:
    plain_rows = rows({"x": "int32", "y": "float64"}, [(1, 0.5), (2, -1.5), (3, 2.0)])
    yield "rows-numbers", only(plain_rows, "rows of numbers")
    with_text = rows({"id": "int64", "name": "text"}, [(1, "a"), (2, "ü"), (3, "")])
    yield "rows-text", only(with_text, "rows with text")
    with_references = rows(
        {"start": "int32", "count": "int32", "target": "reference"}, [(0, 2, To("/trace")), (2, 4, To("/table"))]
    )
    yield "rows-references", Case("rows with references, as those of TimeSeriesReferenceVectorData",
                                  beside(data=with_references))  # fmt: skip
    yield (
        "rows-one",
        Case("one row with a reference", beside(data=rows({"n": "uint8", "target": "reference"}, [(1, To("/trace"))]))),
    )
    pairs = np.array([(1, [0.5, 1.5]), (2, [2.5, 3.5])], [("n", "i4"), ("xy", "f8", (2,))])
    yield "rows-field-with-axis", only(structured(pairs), "rows with a field that has an axis of its own")
    grid = np.array([[(1, 0.5)], [(2, 1.5)]], [("n", "i4"), ("x", "f8")])
    yield "rows-2d", only(structured(grid), "rows of numbers with two axes")
    yield "rows-scalar", only(structured(grid[0, 0].reshape(())), "a scalar row of numbers")
    nulls = rows({"n": "int32", "target": "reference"}, [(1, To("/trace")), (2, None)])
    yield "rows-reference-null", Case("rows, one with a reference to nothing", beside(data=nulls))
    mixed = rows({"f": "float32", "b": "bool", "t": "text"}, [(1.5, True, "yes"), (-2.0, False, "no")])
    yield "rows-mixed", only(mixed, "rows of a number, a truth value and text")


def _ragged(values: Dataset, ends: list[int], about: str) -> Case:
    """Return a table of one ragged column: its values, and the index with the end of each row."""
    index = numbers(ends, "u1", attributes={"object_id": "id-index", "target": To("/table/column")})
    column = Dataset(values.values, values.type, {"object_id": "id-column"})
    rows_of = numbers(range(len(ends)), "i4", attributes={"object_id": "id-rows"})
    table = Group({"id": rows_of, "column": column, "column_index": index}, attributes={"object_id": "id-table"})
    return Case(about, Group({"table": table}))


def _ragged_cases() -> Iterator[tuple[str, Case]]:
    yield (
        "ragged-numbers",
        _ragged(numbers([0.5, 1.5, 2.5], "f8"), [2, 2, 3], "a ragged column of numbers, with an empty row"),
    )
    yield "ragged-text", _ragged(text(["a", "b", "ü"]), [0, 3], "a ragged column of text")
    yield "ragged-rows", _ragged(rows({"start": "int32", "name": "text"}, [(0, "a"), (5, "b")]), [1, 2],
                                 "a ragged column of rows with fields")  # fmt: skip


def _link_cases() -> Iterator[tuple[str, Case]]:
    yield "link-to-dataset", Case("a link to a dataset", Group(dict(TARGETS), {"link": "/trace"}))
    yield "link-to-group", Case("a link to a group", Group(dict(TARGETS), {"link": "/table"}))
    yield (
        "link-nested",
        Case(
            "links in nested groups", Group({**TARGETS, "deep": Group({"inner": Group(links={"up": "/table/column"})})})
        ),
    )
    yield "links-many", Case("two links to one object", Group(dict(TARGETS), {"one": "/trace", "two": "/trace"}))
    yield "link-hard", Case("a link that was a hard link in HDF5, which the note has", Group(dict(TARGETS),
                            {"link": "/trace"}), change=_hard)  # fmt: skip
    chain = {"one": "/trace", "two": "/trace", "table_too": "/table", "inside": "/table/column"}
    yield "link-chain", Case("links by way of other links of the same store: to a link, and to a member of a linked "
                             "group", Group(dict(TARGETS), chain), change=_chained)  # fmt: skip
    for name, path in (("dataset", "/trace"), ("group", "/table"), ("member", "/table/column")):
        root = Group({"own": numbers([1], "i4")}, {"link": To(path, source=LINKED)})
        yield f"link-external-{name}", Case(f"a link to a {name} of another store, by a relative path", root,
                                            change=_linked({"link": (LINKED, path)}))  # fmt: skip
    root = Group(links={"near": To("/trace", source=LINKED), "far": To("/trace", source=LINKED)})
    places = {"near": (LINKED, "/link"), "far": ("../link-external-dataset.zarr", "/link")}
    yield "link-external-chain", Case("links to links of other stores, the second by way of a third store", root,
                                      change=_linked(places))  # fmt: skip
    root = Group(dict(TARGETS), {"own": "/trace", "other": To("/table", source=LINKED)})
    yield "link-external-mixed", Case("a link in the store beside one to another store", root,
                                      change=_linked({"other": (LINKED, "/table")}))  # fmt: skip
    yield "link-with-space", Case("names with spaces and letters beyond ASCII",
                                  Group({"a b": numbers([1], "i4"), "ö": Group()}, {"to a b": "/a b"}))  # fmt: skip


def _entry(name: str, source: str, path: str) -> dict[str, Any]:
    return {"name": name, "source": source, "path": path, "object_id": None, "source_object_id": None}


def _linked(places: Mapping[str, tuple[str, str]]) -> Callable[[dict[str, bytes], Any], None]:
    """Return a function that adds links to the root, each to a path in a source."""

    def changed(keys: dict[str, bytes], zarr_format: Any) -> None:
        def change(attributes: dict[str, Any]) -> None:
            links = attributes.setdefault(LINKS[zarr_format], [])
            links += [_entry(name, *place) for name, place in places.items()]

        _with_attributes(keys, zarr_format, change)

    return changed


def _chained(keys: dict[str, bytes], zarr_format: Any) -> None:
    places = {"one": "/trace", "two": "/one", "table_too": "/table", "inside": "/table_too/column"}

    def change(attributes: dict[str, Any]) -> None:
        for link in attributes[LINKS[zarr_format]]:
            link.update({"path": places[link["name"]], "object_id": None})

    _with_attributes(keys, zarr_format, change)


def _hard(keys: dict[str, bytes], zarr_format: Any) -> None:
    def change(attributes: dict[str, Any]) -> None:
        attributes["_hdmf"]["hdf5"] = {"links": {"link": "hard"}}

    _with_attributes(keys, zarr_format, change)


LINKS = {2: "zarr_link", 3: "_LINKS"}
"""The attribute of a group that has its links, by format."""


def _with_attributes(keys: dict[str, bytes], zarr_format: Any, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the attributes of the root wherever they are."""
    if zarr_format == 3:
        root = json.loads(keys["zarr.json"])
        change(root["attributes"])
        keys["zarr.json"] = json.dumps(root).encode()
        return
    attributes = json.loads(keys[".zattrs"])
    change(attributes)
    keys[".zattrs"] = json.dumps(attributes).encode()
    consolidated = json.loads(keys[".zmetadata"])
    consolidated["metadata"][".zattrs"] = attributes
    keys[".zmetadata"] = json.dumps(consolidated).encode()


def _attribute_cases() -> Iterator[tuple[str, Case]]:
    attributes = {
        "text": "a text", "text-empty": "", "text-unicode": "Grüße 🧠", "int": 7, "int-negative": -1, "float": 1.5,
        "bool-true": True, "bool-false": False, "list-int": np.array([1, 2, 3]), "list-float": np.array([0.5, 1.5]),
        "list-text": ["a", "b"], "list-bool": np.array([True, False]), "list-one": np.array([1]),
        "list-2d": np.array([[1, 2], [3, 4]]), "int-large": 2**53 + 1, "nan": float("nan"),
        "infinity": float("inf"), "list-empty": [], "date": date(2026, 1, 2), "int-huge": 2**70,
        "complex": 1 + 2j, "bytes": b"abc", "bytes-not-text": b"\xff\x00",
        "text-fixed": np.array(["a", "bcd"]), "ascii-fixed": np.array([b"a", b"bcd"]),
        "bytes-fixed": np.array([b"\xff", b"ab"]), "text-none": np.array([], object),
        "rows": np.array([(1, 0.5)], [("n", "i4"), ("x", "f8")]), "opaque": np.array([b"\xff\x00"], "V2"),
        "nan-bits": np.array([1, 0x7FF8000000000005], "u8").view("f8")[1:], "numbers-none": np.array([], "f4"),
        "numbers-none-2d": np.zeros((0, 3), "i2"), "object": {"mode": "fast", "steps": [1, None]},
        "no-value": h5py.Empty("i4"), "list-ragged": [[1], [2, 3]], "list-mixed": [1, "a"],
        "object-like-reference": {"_REFERENCE": "/a"},
        "object-like-reference-2": {"zarr_dtype": "object", "value": {}},
    }  # fmt: skip
    numeric = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16", "?", "M8[ns]", "m8[ms]")
    for code in numeric:
        typed = np.array([1, 0]).astype(code)
        name = typed.dtype.name.replace("[", "-").rstrip("]")
        both = Group(attributes={"value": typed[0], "list": typed})
        yield f"attribute-{name}", Case(f"a scalar and a list as attributes of the type {typed.dtype.name}", both)
    for name, value in attributes.items():
        yield f"attribute-{name}", Case(f"an attribute: {name}", Group(attributes={"value": value}))
    data = numbers([1], "i4", attributes={"unit": "volts", "conversion": 1.0, "list": np.array([1, 2])})
    yield "attributes-of-dataset", only(data, "attributes of a dataset")
    deep = Group({"a": Group({"b": Group(attributes={"of": "b"})}, attributes={"of": "a"})}, attributes={"of": "root"})
    yield "attributes-of-groups", Case("attributes at each level", deep)


def _codec_cases() -> Iterator[tuple[str, Case]]:
    values = np.arange(64).reshape(8, 8)
    codecs: dict[str, Any] = {
        "none": False, "zlib": numcodecs.Zlib(4), "gzip": numcodecs.GZip(5), "zstd": numcodecs.Zstd(3),
        "blosc-lz4": numcodecs.Blosc("lz4", 5, 1), "blosc-zstd-bitshuffle": numcodecs.Blosc("zstd", 3, 2),
        "lz4": numcodecs.LZ4(), "bz2": numcodecs.BZ2(1), "lzma": numcodecs.LZMA(preset=1),
    }  # fmt: skip
    for name, codec in codecs.items():
        data = numbers(values, "i4", storage={"chunks": (4, 8), "compressor": codec})
        yield f"codec-{name}", only(data, f"chunks that are compressed with {name}")
    filters: dict[str, Any] = {
        "delta": [numcodecs.Delta("<i4")], "shuffle": [numcodecs.Shuffle(4)],
    }  # fmt: skip
    for name, chain in filters.items():
        data = numbers(values, "i4", storage={"chunks": (4, 8), "filters": chain, "compressor": numcodecs.Zlib(1)})
        yield f"filter-{name}", only(data, f"chunks with the filter {name} before zlib")
    sharded = numbers(values, "i4", storage={"chunks": (2, 4), "shards": (4, 8)})
    yield "shards", only(sharded, "four chunks in each shard", formats=(3,))
    keys = numbers(values, "i4", storage={"chunks": (4, 4)})
    yield "keys-v2", only(keys, "format 3 with the chunk keys of format 2", formats=(3,),
                          options={"write_options": WriteOptions(chunk_key_encoding="v2")})  # fmt: skip


def _tree_cases() -> Iterator[tuple[str, Case]]:
    yield "empty-root", Case("a root without members", Group())
    yield "empty-groups", Case("groups without members", Group({"a": Group(), "b": Group({"c": Group()})}))
    deep = Group({"data": numbers([1], "i4")})
    for number in range(12):
        deep = Group({f"level-{number}": deep})
    yield "deep", Case("twelve nested groups", deep)
    yield "many-members", Case("twenty datasets", Group({f"d{i:02}": numbers([i], "i2") for i in range(20)}))
    yield (
        "names",
        Case(
            "names with dots, spaces and letters beyond ASCII",
            Group({name: numbers([1], "i1") for name in ("a.b", "a b", "ünï", "日本", "A", "0", "c")}),
        ),
    )
    yield "not-consolidated", Case("without the consolidated document", Group(dict(TARGETS)), change=_not_consolidated)


NAMESPACE = {
    "toy": {
        "1.0.0": {
            "namespace": json.dumps({"namespaces": [{"name": "toy", "version": "1.0.0", "doc": "a namespace",
                                                     "author": "nobody", "contact": "nobody@example.org",
                                                     "schema": [{"source": "toy.base"}]}]}),
            "toy.base": json.dumps({"groups": [{"data_type_def": "Toy", "doc": "a type", "groups": []}]}),
        }
    }
}  # fmt: skip
"""A namespace of one type, in the form in which files have them."""


def _specification_cases() -> Iterator[tuple[str, Case]]:
    cached = Group(
        {
            name: Group(
                {
                    version: Group({source: text(json_text) for source, json_text in sources.items()})
                    for version, sources in versions.items()
                }
            )
            for name, versions in NAMESPACE.items()
        }
    )
    root = Group({"data": numbers([1, 2], "i4"), "specifications": cached})
    yield "specifications", Case("the specifications of the types in the file, which are no part of its content",
                                 root, change=_with_place_of_specifications, specifications=NAMESPACE)  # fmt: skip


def _with_place_of_specifications(keys: dict[str, bytes], zarr_format: Any) -> None:
    _with_attributes(keys, zarr_format, lambda attributes: attributes.update({".specloc": "specifications"}))


def _not_consolidated(keys: dict[str, bytes], zarr_format: Any) -> None:
    if zarr_format == 2:
        del keys[".zmetadata"]
    else:
        root = json.loads(keys["zarr.json"])
        del root["consolidated_metadata"]
        keys["zarr.json"] = json.dumps(root).encode()


PICKLE = (
    "gAWVKAEAAAAAAACMFm51bXB5Ll9jb3JlLm11bHRpYXJyYXmUjAxfcmVjb25zdHJ1Y3SUk5SMBW51bXB5lIwHbmRhcnJheZSTlEsA"
    "hZRDAWKUh5RSlChLAUsDhZRoA4wFZHR5cGWUk5SMAk84lImIh5RSlChLA4wBfJROTk5K/////0r/////Sz90lGKJXZQojA9oZG1m"
    "X3phcnIudXRpbHOUjA1aYXJyUmVmZXJlbmNllJOUKYGUKIwGc291cmNllIwBLpSMBHBhdGiUjAIvYZSMCW9iamVjdF9pZJROjBBz"
    "b3VyY2Vfb2JqZWN0X2lklIwHaWQtcm9vdJR1aBUpgZQoaBdoGGgZjAIvYpRoG05oHGgddWgVKYGUKGgXaBhoGYwCL2GUaBtOaBxo"
    "HXVldJRiLg=="
)
"""A chunk that hdmf-zarr 0.13 wrote: references to /a, /b and /a, pickled."""


ROWS_PICKLE = (
    "AgEhAa4BAACuAQAAugEAABQAAACiAQAA8jKABZWjAQAAAAAAAIwWbnVtcHkuX2NvcmUubXVsdGlhcnJheZSMDF9yZWNvbnN0cnVjdJST"
    "lIwFbnVtcHmUjAduZCMA9oCTlEsAhZRDAWKUh5RSlChLAUsChZRoA4wFZHR5cGWUk5SMA1YxNpSJiIeUUpQoSwOMAXyUTowFc3RhcnSU"
    "jAVjb3VudJSMBnRhcmdldJSHlH2UKGgRaAyMAmk0lImIh5RSlChLA4wBPJROTk5K/////0r/////SwB0lGJLAIaUaBJoGEsEhpRoE2gM"
    "jAJPOGkA9nZoEE5OTkr/////Sv////9LP3SUYksIhpR1SxBLAUsbdJRiiV2UKEsASwKMD2hkbWZfemFyci51dGlsc5SMDVphcnJSZWZl"
    "cmVuY2WUk5QpgZQojAZzb3VyY2WUjAEulIwEcGF0aJSMBi90cmFjZZSMCW9iamVjdF9pZJROjBBzb3VyY2VfFADwMIwHaWQtcm9vdJR1"
    "h5RLAksEaCYpgZQoaChoKWgqjAYvdGFibGWUaCyMCGlkLXRhYmxllGgtaC51h5RldJRiLg=="
)
"""A chunk that hdmf-zarr 0.13 wrote: rows of two numbers and a reference, pickled and compressed with Blosc."""

TEXT_PICKLE = (
    "AgEjAaYAAACmAAAAtgAAAIAFlZsAAAAAAAAAjBZudW1weS5fY29yZS5tdWx0aWFycmF5lIwMX3JlY29uc3RydWN0lJOUjAVudW1weZSM"
    "B25kYXJyYXmUk5RLAIWUQwFilIeUUpQoSwFLAoWUaAOMBWR0eXBllJOUjAJPOJSJiIeUUpQoSwOMAXyUTk5OSv////9K/////0s/dJRi"
    "iV2UKEsBjAFhlIaUSwKMAsO8lIaUZXSUYi4="
)
"""A chunk that hdmf-zarr 0.13 wrote: rows of a number and text, each a tuple, pickled and compressed with Blosc."""


def _old_cases() -> Iterator[tuple[str, Case]]:
    objects = {name: numbers([1], "i4", attributes={"object_id": f"id-{name}"}) for name in ("a", "b")}
    root = Group({**objects, "data": references([To("/a"), To("/b"), To("/a")])}, attributes={"object_id": "id-root"})
    pickled = "in a pickle, as hdmf-zarr up to 0.13 writes them; it must be decoded without running code from it"
    pickle_alone = {"filters": [{"id": "pickle", "protocol": 5}], "compressor": None}
    yield "pickled-references", Case(f"references {pickled}", root, formats=(2,),
                                     change=_as_written_before(pickle_alone, PICKLE))  # fmt: skip
    fields = {"start": "int32", "count": "int32", "target": "reference"}
    root = beside(data=rows(fields, [(0, 2, To("/trace")), (2, 4, To("/table"))]))
    blosc = {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    pickle_in_blosc = {**pickle_alone, "compressor": blosc, "shape": [2], "chunks": [2]}
    structured_type = [["start", "<i4"], ["count", "<i4"], ["target", "|O"]]
    written = {**pickle_in_blosc, "dtype": structured_type, "fill_value": "gAVLAC4="}
    yield "pickled-rows-references", Case(f"rows of a structured type with references, {pickled}", root, formats=(2,),
                                          change=_as_written_before(written, ROWS_PICKLE))  # fmt: skip
    root = Group({"data": rows({"id": "int64", "name": "text"}, [(1, "a"), (2, "ü")])})
    written = {**pickle_in_blosc, "fill_value": 0}
    yield "pickled-rows-text", Case(f"rows with text, each a tuple, {pickled}", root, formats=(2,),
                                    change=_as_written_before(written, TEXT_PICKLE))  # fmt: skip
    yield "old-text-fill", only(text(["a", "", "ü"]), "text with the fill value 0, as hdmf-zarr up to 0.13 writes it",
                                formats=(2,), change=_with_document({"fill_value": 0}))  # fmt: skip


def _as_written_before(update: Mapping[str, Any], chunk: str) -> Callable[[dict[str, bytes], Any], None]:
    """Return a function that replaces ``data`` by what another release has written: its document, and one chunk."""

    def changed(keys: dict[str, bytes], zarr_format: Any) -> None:
        _changed(keys, zarr_format, lambda document: document.update(update))
        attributes = json.loads(keys["data/.zattrs"])
        attributes.pop("_hdmf", None)
        attributes.pop("_ARRAY_DIMENSIONS", None)
        keys["data/.zattrs"] = json.dumps(attributes).encode()
        keys.pop("data/0.0", None)
        keys["data/0"] = base64.b64decode(chunk)

    return changed


# ---- broken stores --------------------------------------------------------------------------------------------------


def _document(zarr_format: Any) -> str:
    return "data/zarr.json" if zarr_format == 3 else "data/.zarray"


def _changed(keys: dict[str, bytes], zarr_format: Any, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the document of ``data`` wherever it is."""
    document = json.loads(keys[_document(zarr_format)])
    change(document)
    keys[_document(zarr_format)] = json.dumps(document).encode()
    _not_consolidated(keys, zarr_format)


def _broken(about: str, error: str, change: Callable[[dict[str, bytes], Any], None]) -> Case:
    data = numbers([1, 2, 3, 4], "i4", storage={"chunks": (2,), "compressor": numcodecs.Zstd(1)})
    root = Group({"data": data, "other": numbers([1, 2], "i2")})
    return Case(about, root, change=change, error=error, where="/data")


def _with_chunk(change: Callable[[bytes], bytes]) -> Callable[[dict[str, bytes], Any], None]:
    """Return a function that changes the first chunk of ``data``."""

    def changed(keys: dict[str, bytes], zarr_format: Any) -> None:
        key = "data/c/0" if zarr_format == 3 else "data/0"
        keys[key] = change(keys[key])

    return changed


def _with_document(
    update: Mapping[str, Any], update_3: Mapping[str, Any] | None = None
) -> Callable[[dict[str, bytes], Any], None]:
    """Return a function that changes the document of ``data``; a key whose value is None is removed."""

    def changed(keys: dict[str, bytes], zarr_format: Any) -> None:
        chosen = update_3 if zarr_format == 3 and update_3 is not None else update

        def change(document: dict[str, Any]) -> None:
            document.update(chosen)
            for key in [key for key, value in chosen.items() if value is None]:
                del document[key]

        _changed(keys, zarr_format, change)

    return changed


def _document_cut(keys: dict[str, bytes], zarr_format: Any) -> None:
    keys[_document(zarr_format)] = b'{"shape": [4'
    _not_consolidated(keys, zarr_format)


_BYTES = [{"name": "bytes", "configuration": {"endian": "little"}}]


def _broken_cases() -> Iterator[tuple[str, Case]]:
    undecodable, of_array = "the chunk cannot be decoded", "the document of an array"
    long = numcodecs.Zstd(1).encode(b"\0" * 400)
    unknown = {"name": "unknown-codec", "configuration": {}}
    yield "broken-chunk-cut", _broken("a chunk is cut short", undecodable, _with_chunk(lambda chunk: chunk[:5]))
    yield "broken-chunk-empty", _broken("a chunk is empty", undecodable, _with_chunk(lambda chunk: b""))
    yield "broken-chunk-noise", _broken("a chunk is noise", undecodable, _with_chunk(lambda chunk: b"\xff" * 20))
    yield "broken-chunk-long", _broken("a chunk has too many bytes", undecodable, _with_chunk(lambda chunk: long))
    yield "broken-document", _broken(f"{of_array} is cut short", "the document is not JSON", _document_cut)
    for name, problem, change in (
        ("type", "the data type is unknown", _with_document({"dtype": "<q7"}, {"data_type": "int5"})),
        ("codec", "the codec is unknown", _with_document({"compressor": {"id": "unknown-codec"}},
                                                         {"codecs": [*_BYTES, unknown]})),
        ("shape", "it has no shape", _with_document({"shape": None})),
        ("negative", "a length is negative", _with_document({"shape": [-4]})),
        ("axes", "shape and chunks differ in their number of axes", _with_document({"shape": [4, 4]})),
    ):  # fmt: skip
        yield f"broken-{name}", _broken(f"{of_array}: {problem}", problem, change)
    for name, problem, place in (
        ("link", "there is nothing at the path", (".", "/gone")),
        ("link-loop", "it leads to itself", (".", "/link")),
        ("link-external-store", "there is no such store", ("../gone.zarr", "/trace")),
        ("link-external-path", "there is nothing at the path in the other store", (LINKED, "/gone")),
    ):
        yield f"broken-{name}", Case(f"a link that leads nowhere: {problem}", Group(dict(TARGETS)),
                                     change=_linked({"link": place}), error=problem, where="/link")  # fmt: skip


SUBJECTS: dict[str, Callable[[], Iterator[tuple[str, Case]]]] = {
    "numbers and times": _number_cases,
    "opaque elements": _opaque_cases,
    "shapes and chunks": _shape_cases,
    "text": _text_cases,
    "references": _reference_cases,
    "rows": _row_cases,
    "ragged columns": _ragged_cases,
    "links": _link_cases,
    "attributes": _attribute_cases,
    "codecs": _codec_cases,
    "groups and names": _tree_cases,
    "cached specifications": _specification_cases,
    "old files": _old_cases,
    "broken": _broken_cases,
}
"""The cases by what they are about."""


def cases() -> dict[str, Case]:
    """Return all cases by name."""
    return {name: case for subject in SUBJECTS.values() for name, case in subject()}


BOTH = ("int32", "text", "references", "rows-references", "rows-numbers", "link-to-dataset", "attributes-of-dataset",
        "scalar-text", "edge-chunks", "empty-groups", "ragged-numbers")  # fmt: skip
"""Cases that are also made as a file of both formats."""


def vectors() -> Iterator[tuple[str, Any, Case]]:
    """Yield name, format and case of each vector."""
    for name, case in cases().items():
        for zarr_format in FORMATS:
            if zarr_format in case.formats or (zarr_format == "both" and name in BOTH):
                yield name, zarr_format, case


def made(name: str, zarr_format: Any, case: Case) -> tuple[bytes, bytes]:
    """Return the zip file and the statement of a vector."""
    keys = stored(case.root, zarr_format, **case.options)
    if case.change is not None:
        case.change(keys, zarr_format)
    statement: dict[str, Any] = {"name": name, "about": case.about, "zarr_format": zarr_format}
    root = case.root
    if case.error is not None:
        statement["error"] = {"path": case.where, "problem": case.error}
        root = Group({key: each for key, each in root.members.items() if f"/{key}" != case.where})
    if case.specifications:
        statement["specifications"] = case.specifications
        root = Group({key: each for key, each in root.members.items() if key != "specifications"})
    statement["root"] = root.stated()
    return zipped(keys), (json.dumps(statement, indent=1, ensure_ascii=False, sort_keys=False) + "\n").encode()


def main(folder: Path = FOLDER) -> None:
    """Write all vectors below a folder."""
    for name, zarr_format, case in vectors():
        place = folder / f"format-{zarr_format}"
        place.mkdir(parents=True, exist_ok=True)
        store, statement = made(name, zarr_format, case)
        (place / f"{name}.zarr.zip").write_bytes(store)
        (place / f"{name}.json").write_bytes(statement)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
