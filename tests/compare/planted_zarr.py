"""A Zarr file of about everything that HDMF writes, and single differences to plant in another one like it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder

from hdmf_zarr_backend import ZarrDataIO, ZarrIO

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
        kept: dict[str, tuple[Any, Any]] = {
            "numbers": (np.arange(24, dtype="<i4").reshape(6, 4), "int32"),
            "floats": (np.array([0.0, np.nan, -1.5, np.inf]), "float64"),
            "flags": (np.array([True, False]), "bool"),
            "scalar": (np.float64(2.5), "float64"),
            "text": (["one", "två", ""], "utf8"),
            "ascii": ([b"one", b"two"], "ascii"),
            "bytes": ([b"one", b"t\xffo"], "ascii"),
            "fixed": (np.array([b"abc", b"de"], "S5"), "bytes_"),
            "word": ("a word", "utf8"),
            "rows": (PLAIN_ROWS.copy(), PLAIN_WORDS),
        }
        self.data = {name: values for name, (values, _) in kept.items()}
        self.dtypes = {name: dtype for name, (_, dtype) in kept.items()}
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


def put(name: str, index: Any, value: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.data[name].__setitem__(index, value)


def set_data(name: str, value: Any, dtype: Any = None) -> Callable[[Parts], None]:
    def plant(parts: Parts) -> None:
        parts.data[name] = value
        parts.dtypes[name] = dtype or parts.dtypes[name]

    return plant


def set_attribute(name: str, value: Any) -> Callable[[Parts], None]:
    return lambda parts: parts.attributes.__setitem__(name, value)


# name -> kind, path (and attribute, behind an @), how the difference is planted
PLANTED: dict[str, tuple[str, str, Callable[[Parts], object]]] = {
    "missing dataset": ("missing", "/flags", lambda p: p.data.pop("flags")),
    "missing link": ("missing", "/link", lambda p: p.links.pop("link")),
    "missing group": ("missing", "/group", lambda p: p.groups.pop()),
    "extra group": ("extra", "/new", lambda p: p.groups.append("new")),
    "extra link": ("extra", "/second", lambda p: p.links.update(second="text")),
    "link": ("link", "/link", lambda p: p.links.update(link="text")),
    "group for link": ("type", "/link", lambda p: (p.links.clear(), p.groups.append("link"))),
    "wider": ("dtype", "/numbers", set_data("numbers", np.arange(24, dtype="<i8").reshape(6, 4), "int64")),
    "big-endian": ("byte-order", "/floats", lambda p: p.data.update(floats=p.data["floats"].astype(">f8"))),
    "bool as integer": ("dtype", "/flags", set_data("flags", np.array([1, 0], "i1"), "int8")),
    "field": (
        "dtype",
        "/rows",
        set_data(
            "rows", PLAIN_ROWS.astype([("a", "<i4"), ("b", "<f8")]), [{"name": "a", "dtype": "int32"}, PLAIN_WORDS[1]]
        ),
    ),
    "ascii": ("text-encoding", "/ascii", set_data("ascii", ["one", "two"], "utf8")),
    "longer text": ("text-encoding", "/fixed", set_data("fixed", np.array([b"abc", b"de"], "S6"))),
    "more rows": ("shape", "/numbers", lambda p: p.data.update(numbers=np.arange(28, dtype="<i4").reshape(7, 4))),
    "limit": ("maxshape", "/numbers", lambda p: p.maxshapes.update(numbers=(8, 4))),
    "no limit known": ("maxshape", "/numbers", lambda p: p.maxshapes.clear()),
    "chunks": ("chunks", "/numbers", lambda p: p.options.update(numbers={"chunks": (6, 2)})),
    "codec": ("filters", "/numbers", lambda p: p.options.update(numbers={"chunks": (3, 2), "compressor": False})),
    "fill": ("fill", "/floats", lambda p: p.options.update(floats={"fillvalue": 8.0})),
    "no fill": ("fill", "/floats", lambda p: p.options.pop("floats")),
    "number": ("value", "/numbers", put("numbers", (5, 3), 99)),
    "NaN to number": ("value", "/floats", put("floats", 1, 0.0)),
    "sign of zero": ("value", "/floats", put("floats", 0, -0.0)),
    "flag": ("value", "/flags", put("flags", 1, True)),
    "scalar value": ("value", "/scalar", set_data("scalar", np.float64(2.6))),
    "letter": ("value", "/text", put("text", 1, "tva")),
    "byte": ("value", "/bytes", put("bytes", 1, b"t\xfeo")),
    "word": ("value", "/word", set_data("word", "another")),
    "field value": ("value", "/rows", lambda p: p.data["rows"]["a"].__setitem__(1, 3)),
    "text in a row": ("value", "/table", lambda p: p.table.__setitem__(1, (2, "ss", "text"))),
    "reference": ("reference", "/refs", lambda p: p.refs.__setitem__(1, "flags")),
    "reference in a row": ("reference", "/table", lambda p: p.table.__setitem__(1, (2, "ß", "flags"))),
    "reference attribute": ("reference", "/@to", lambda p: p.references.update(to="text")),
    "list of references": ("reference", "/@to_all", lambda p: p.references.update(to_all=["numbers", "word"])),
    "attribute": ("attribute", "/@count", set_attribute("count", np.uint8(6))),
    "attribute, NaN": ("attribute", "/@rates", set_attribute("rates", np.array([1, np.nan, np.nan], "<f4"))),
    "attribute, text": ("attribute", "/@name", set_attribute("name", "a")),
    "missing attribute": ("attribute", "/@labels", lambda p: p.attributes.pop("labels")),
    "extra attribute": ("attribute", "/@unit", set_attribute("unit", "V")),
    "attribute dtype": ("attribute-dtype", "/@count", set_attribute("count", np.uint16(5))),
    "attribute float": ("attribute-dtype", "/@count", set_attribute("count", 5.0)),
    "attribute encoding": ("attribute-text-encoding", "/@name", set_attribute("name", "ä".encode())),
    "attribute shape": ("attribute-shape", "/@count", set_attribute("count", np.array([5], "u1"))),
    "object id": ("object_id", "/@object_id", set_attribute("object_id", "another")),
}


def changed(converted: Path, folder: Path, plant: Callable[[dict[str, Any]], object]) -> Path:
    """Copy a Zarr file with a change of its consolidated metadata."""
    path = Path(shutil.copytree(converted, folder / "b.zarr"))
    document = json.loads((path / ".zmetadata").read_text())
    plant(document["metadata"])
    (path / ".zmetadata").write_text(json.dumps(document))
    return path


def edit(key: str, name: str, value: Any) -> Callable[[dict[str, Any]], None]:
    return lambda documents: documents[key].__setitem__(name, value)
