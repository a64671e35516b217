"""Hostile files by name, each of them made on a disk as its author would: by plain JSON, bytes, h5py and zipfile."""

import json
import os
import pickle
import struct
import tempfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numcodecs
import numpy as np
from h5py import h5a, h5d, h5g, h5s, h5t

from tests import trees
from tests.everything import write_everything
from tests.hostile.seeds import Files, of_others, tree

Spoil = Callable[[Files], Any]

SECRET = b"a secret that no file may bring along"
"""What is in the file beside the folder that everything is allowed in."""


class HostileFile(NamedTuple):
    """What is wrong with a file, and what makes it in an empty folder and returns its path."""

    name: str
    make: Callable[[Path], Any]


# ---- the whole files ------------------------------------------------------------------------------------------------
SPECIFICATIONS = "specifications/demo/1.0.0"
_BOX = {
    "neurodata_type_def": "Box", "doc": "a box", "groups": [],
    "datasets": [{"name": "target", "doc": "numbers", "dtype": "float64", "shape": [None]}],
    "attributes": [{"name": "lengths", "doc": "lengths", "dtype": "uint8", "shape": [3]}], "links": [],
}  # fmt: skip
NAMESPACE = {
    "namespaces": [
        {"name": "demo", "version": "1.0.0", "doc": "a demonstration", "author": "N. N.", "contact": "none",
         "schema": [{"source": "demo"}]},
    ]
}  # fmt: skip
_CONTAINER = {"neurodata_type_def": "NWBContainer", "doc": "what pynwb makes the parent of all others"}
SCHEMA: dict[str, Any] = {"groups": [_CONTAINER, _BOX], "datasets": []}


@cache
def _whole(zarr_format: int) -> tuple[tuple[str, bytes], ...]:
    """Return a valid file without a consolidated document, with a cached namespace."""
    files: Files = {}
    root = tree()
    texts = {"namespace": json.dumps(NAMESPACE), "demo": json.dumps(SCHEMA)}
    version = trees.group("1.0.0", *(trees.dataset(name, text) for name, text in texts.items()))
    root.set_group(trees.group("specifications", trees.group("demo", version)))
    root.groups["inner"].attributes["namespace"] = "demo"
    with warnings.catch_warnings(action="ignore"):
        trees.write_builder(files, root, zarr_format=zarr_format)
    if zarr_format == 2:
        del files[".zmetadata"]
        _change(files, ".zattrs", lambda d: d.update({".specloc": "specifications"}))
    else:
        _change(files, "zarr.json", lambda d: d.pop("consolidated_metadata"))
        _change(files, "zarr.json", lambda d: d["attributes"].update({".specloc": "specifications"}))
    return tuple(files.items())


def _change(files: Files, key: str, change: Callable[[Any], Any]) -> None:
    document = json.loads(files.get(key, b"{}"))
    change(document)
    files[key] = json.dumps(document).encode()


def _consolidate(files: Files) -> None:
    """Give a file of format 2 a consolidated document, which says what the others say."""
    documents = {key: json.loads(text) for key, text in files.items() if key.rpartition("/")[2].startswith(".z")}
    files[".zmetadata"] = json.dumps({"zarr_consolidated_format": 1, "metadata": documents}).encode()


def put(files: Files, path: Path) -> Path:
    """Put keys into a folder; what the disk cannot hold is left out."""
    path.mkdir()
    for key, value in files.items():
        location = f"{path}/{key}"
        try:
            os.makedirs(os.path.dirname(location), exist_ok=True)
            Path(location).write_bytes(value)
        except (OSError, ValueError):
            continue
    return path


def stored(files: Files) -> Callable[[Path], Path]:
    return lambda folder: put(files, folder / "file.zarr")


def zarr(name: str, *spoils: Spoil, zarr_format: int = 2, after: Callable[[Path], Any] | None = None) -> HostileFile:
    """Return a Zarr file whose keys are spoiled, and then its folder."""

    def make(folder: Path) -> Path:
        files = dict(_whole(zarr_format))
        for spoil in spoils:
            spoil(files)
        path = put(files, folder / "file.zarr")
        if after is not None:
            after(path)
        return path

    return HostileFile(f"format {zarr_format}: {name}", make)


def hdf5(name: str, make: Callable[[h5py.File], Any]) -> HostileFile:
    def write(folder: Path) -> Path:
        with h5py.File(folder / "file.h5", "w") as file:
            file["numbers"] = np.arange(6.0)
            make(file)
        return folder / "file.h5"

    return HostileFile(f"HDF5: {name}", write)


def doc(key: str, change: Callable[[Any], Any]) -> Spoil:
    return lambda files: _change(files, key, change)


def setting(key: str, **values: Any) -> Spoil:
    return doc(key, lambda document: document.update(values))


def raw(key: str, value: bytes) -> Spoil:
    return lambda files: files.update({key: value})


def shown(value: Any) -> str:
    """Return a value, shortened, for the name of a file."""
    text = repr(value)
    return text if len(text) <= 150 else f"{text[:150]}... ({len(text)} letters, {zlib.crc32(text.encode()):x})"


# ---- documents ------------------------------------------------------------------------------------------------------
HUGE, HUGER, DIGITS = 2**62, 10**30, 10**4000 - 1
DEEP = ("[" * 900 + "]" * 900).encode()
AXES = [1] * 70


def _deep(depth: int, inner: Any = 0) -> Any:
    for _ in range(depth):
        inner = {"a": inner}
    return inner


ODD_2: dict[str, list[Any]] = {
    "shape": ["x", -1, [-1, 4], [HUGE, 4], [HUGER, 4], [HUGE, HUGE], AXES, None, [[]], [1.5, 2], [True, 4], [None, 1],
              [], [0, 0], [2**40, 1]],
    "chunks": ["x", [0, 0], [-1, 2], [HUGE, 1], [HUGER, HUGER], [2**40, 2**40], None, [1], [1, 1, 1], [2.5, 2]],
    "dtype": ["", [], "<i3", "|V0", "|V99999999999", "<U1073741824", ["x"], [["a"]], [["a", "<i4"], ["a", "<i4"]],
              [["a", [["b", "<i4"]]]], "O", "|O", "<M8[x]", "\u2603", 5, None, {"a": 1}, [["", "<i4"]],
              [["a", "<i4", [HUGE]]], [["a", "|O"]], [["a", "|S0"]]],
    "fill_value": ["x", {"a": 1}, [1, 2], HUGER, "NaN", "AAAA====", [[[]]], True],
    "order": ["Z", 1, None, []],
    "filters": [5, "x", [5], [{"id": 5}], [{"id": "delta"}], [{"id": "delta", "dtype": "x"}], [{}],
                [{"id": "quantize", "digits": 10**9, "dtype": "<f8"}], [{"id": "vlen-array", "dtype": "|O"}],
                [{"id": "fixedscaleoffset", "offset": "x", "scale": 0, "dtype": "<i2"}],
                [{"id": "zlib", "level": 1}] * 1000, [{"id": "categorize", "labels": [], "dtype": "x"}]],
    "compressor": [5, {"id": None}, {"id": "zlib", "level": "x"}, {"id": "blosc", "cname": "x"}, {"id": "blosc",
                   "clevel": HUGER}, {"id": "zstd", "level": {}}, {"id": "eval"}, {"id": ["zlib"]}, []],
    "zarr_format": [1, 3, "2", None, HUGER],
    "dimension_separator": ["x", 5, None, "\0", "../"],
}  # fmt: skip
"""Part of ``.zarray`` -> what no array has there."""

ODD_3: dict[str, list[Any]] = {
    "shape": [[HUGE, 4], [HUGER, 4], AXES, "x", [-1, 1], None, [DIGITS, 4], [10**300, 10**300]],
    "data_type": ["x", 5, None, {"name": 5}, {"name": "struct", "configuration": {"fields": 5}}, "r0", "r7",
                  {"name": "numpy.datetime64", "configuration": {"unit": "x", "scale_factor": -1}},
                  {"name": "fixed_length_utf32", "configuration": {"length_bytes": HUGER}}],
    "chunk_grid": [5, {}, {"name": "x"}, {"name": "regular", "configuration": {"chunk_shape": [HUGER, 0]}},
                   {"name": "regular", "configuration": {"chunk_shape": [2**50, 2**50]}},
                   {"name": "regular", "configuration": {"chunk_shape": AXES}},
                   {"name": "rectangular", "configuration": {}}],
    "chunk_key_encoding": [5, {"name": "x"}, {"name": "default", "configuration": {"separator": "../"}}],
    "codecs": [5, [], [5], [{"name": 5}], [{"name": "bytes"}] * 3, [{"name": "x"}],
               [{"name": "bytes", "configuration": {"endian": "x"}}],
               [{"name": "transpose", "configuration": {"order": [9, 9]}}, {"name": "bytes"}],
               [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "blosc", "configuration": {}}],
               [{"name": "sharding_indexed", "configuration": {}}]],
    "fill_value": ["x", {"a": 1}, HUGER, DIGITS, [1], None],
    "dimension_names": ["x", [5, 6], ["a"], ["a", "a"]],
    "attributes": ["x", 5, [1], None],
    "storage_transformers": [5, [{"name": "x"}]],
    "node_type": ["x", 5, None],
}  # fmt: skip
"""Part of ``zarr.json`` of an array -> what no array has there."""


def _shards(shape: int, shard: int, chunk: int) -> Spoil:
    def spoil(document: dict[str, Any]) -> None:
        inner = [{"name": "bytes", "configuration": {"endian": "little"}}]
        index = [*inner, {"name": "crc32c"}]
        sharding = {"chunk_shape": [chunk, 1], "codecs": inner, "index_codecs": index, "index_location": "end"}
        document["codecs"] = [{"name": "sharding_indexed", "configuration": sharding}]
        document["shape"] = [shape, 4]
        document["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": [shard, 4]}}

    return doc("plain/zarr.json", spoil)


def _groups(name: str) -> dict[str, Any]:
    """Return the entries of two groups, which are put in order by their names, of both formats."""
    groups = {".zgroup": {"zarr_format": 2}, "": {"zarr_format": 3, "node_type": "group"}}
    return {f"{name}{end}/{key}".rstrip("/"): group for end in ("", "_1") for key, group in groups.items()}


def _nan() -> bytes:
    return json.dumps({"a" * 5: float("nan")}).encode()


def documents() -> Iterator[HostileFile]:
    for part, values in ODD_2.items():
        for value in values:
            yield zarr(f".zarray {part} {shown(value)}", setting("plain/.zarray", **{part: value}))
    for part, values in ODD_3.items():
        for value in values:
            yield zarr(f"array {part} {shown(value)}", setting("plain/zarr.json", **{part: value}), zarr_format=3)
    for name in ("texts", "references", "rows", "scalar", "squeezed"):
        for shape in ([HUGE], [HUGER], AXES, [2**40], [], [0]):
            yield zarr(f"{name} shape {shown(shape)}", setting(f"{name}/.zarray", shape=shape, chunks=shape or []))
            yield zarr(f"{name} shape {shown(shape)}", setting(f"{name}/zarr.json", shape=shape), zarr_format=3)
    for key in ("plain/.zarray", "plain/.zattrs", ".zgroup", ".zattrs", "inner/.zgroup", "zarr.json",
                "plain/zarr.json"):  # fmt: skip
        zarr_format = 3 if key.endswith("zarr.json") else 2
        for text in (b"", b"null", b"[]", b"5", b'"x"', b"{", b"\xff\xfe", b"{}", DEEP, _nan(), b'{"a": 1e999}',
                     b"1" * 5000, b'{"\\ud800": "\\udfff"}', b'{"a": 1, "a": 2}', b"\xef\xbb\xbf{}"):  # fmt: skip
            yield zarr(f"{key} is {shown(text)}", raw(key, text), zarr_format=zarr_format)
    yield zarr("shards of 2^50 chunks", _shards(2**50, 2**50, 1), zarr_format=3)
    yield zarr("shards of 2^62 rows", _shards(2**62, 2**62, 1), zarr_format=3)
    yield zarr("chunks larger than their shard", _shards(8, 2, 4), zarr_format=3)
    yield zarr("chunks of a shard without length", _shards(8, 2, 0), zarr_format=3)
    yield zarr("NaN in the consolidated document", _consolidate, raw("plain/.zattrs", _nan()))
    for value in ([], {}, 5, {"a": 5}, {"": {}}, {"/.zgroup": {}}, *map(_groups, (
        "../x", "a\0b", "\ud800", "9" * 5000, "cell_" + "9" * 5000, "cell_\u00b2", "specifications/core/" + "9" * 5000
    ))):  # fmt: skip
        yield zarr(f"consolidated metadata {shown(value)}", _consolidate, setting(".zmetadata", metadata=value))
        inline = {"kind": "inline", "must_understand": False, "metadata": value}
        spoil = setting("zarr.json", consolidated_metadata=inline)
        yield zarr(f"consolidated metadata {shown(value)}", spoil, zarr_format=3)


def digits() -> Iterator[HostileFile]:
    for part, value in {"shape": [DIGITS], "chunks": [DIGITS], "fill_value": DIGITS, "dtype": [["a", "<i4", [DIGITS]]],
                        "filters": DIGITS}.items():  # fmt: skip
        for spoils in ((), (_consolidate,)):
            yield zarr(f"{part} of 4,000 digits", setting("flags/.zarray", **{part: value}), *spoils)


ODD_ATTRIBUTES: dict[str, list[Any]] = {
    "zarr_link": [5, {}, "x", [5], [{}], [{"name": 5}], [{"name": "a"}], [{"name": "a", "source": 5, "path": 5}],
                  *([{"name": name, "source": ".", "path": "/plain"}] for name in (
                      "a/b", "", "..", "a\0b", "../../x", "\ud800")),
                  [{"name": "a", "source": ".", "path": "/a"}], [{"name": "a", "source": ".", "path": "/"}],
                  [{"name": "a", "source": ".", "path": "/b"}, {"name": "b", "source": ".", "path": "/a"}],
                  *([{"name": "a", "source": source, "path": path}] for source, path in (
                      (".", "/a/b/c"), (".", "/x\0y"), ("x\0y", "/x"), ("..", "/"), ("../../outside", "/"),
                      ("/etc/passwd", "/"), ("file:///etc/passwd", "/"), ("~/.ssh", "/"), ("\ud800", "/"),
                      ("x" * 5000, "/"), (".", "/" + "b/" * 3000))),
                  [{"name": "plain", "source": ".", "path": "/scalar"}],
                  [{"name": "a", "source": ".", "path": "/plain"}] * 2,
                  [{"name": f"a{n}", "source": ".", "path": f"/a{n + 1}"} for n in range(500)]],
    ".specloc": [5, [], {}, "..", "../x", "", "/", "plain", "inner", {"path": 5}, "\ud800", "a\0b", "gone"],
    "_hdmf": [5, [], {"version": 5}, {"version": "99.0"}, {"hdf5": 5}, {"escaped": 5}, {"writing": 5},
              {"hdf5": {"attributes": 5}}, {"hdf5": {"links": 5}}, {"hdf5": {"links": {"link": 5}}},
              {"hdf5": {"links": {"link": {"soft": 5}}}}, {"hdf5": {"links": {"link": {"soft": "a\0b"}}}},
              {"hdf5": {"links": {"link": {"source": 5, "path": []}}}},
              {"hdf5": {"links": {"inner": {"source": "a\0b", "path": "/x"}}}},
              {"hdf5": {"datatypes": 5}}, {"hdf5": {"datatypes": {"t": 5}}},
              {"hdf5": {"datatypes": {"a/b": {"type": "<i4"}, "../x": {"type": "<i4"}, "": {"type": "<i4"}}}},
              {"hdf5": {"datatypes": {"a\0b": {"type": "<i4"}}}},
              {"hdf5": {"datatypes": {"plain": {"type": "<i4"}}}}, {"chunks": 5}, {"inlined": 5}],
    "_ARRAY_DIMENSIONS": [5, ["x"] * 70], "zarr_dtype": [5], "_nczarr_attr": [5, {"types": 5}],
    "namespace": [5, [], "x", "\ud800", "../x"], "neurodata_type": [5, {}, "NWBFile", "a\0b"],
    "object_id": [5, [], {}], "nwb_version": [5, "99", [], "x.y"],
    "a\0b": [1], "a/b": [1], "": [1], "..": [1], "\ud800": ["\udfff"], "\x1b[2J": ["\x1b[31m"],
    "deep": [_deep(400), _deep(60)], "arrays": [[[1], [1, 2]], [[], 5], {"a": [{}]}, [None, 1], [[[]]]],
    "huge": [HUGER, -HUGER, DIGITS, 1e308, [HUGER, 1], 2**64, [2**64, -1]],
    "reference": [{"zarr_dtype": "object"}, {"zarr_dtype": "object", "value": 5},
                  {"zarr_dtype": "object", "value": {"source": 5, "path": 5}},
                  {"zarr_dtype": "object", "value": {"source": ".", "path": "/gone"}},
                  {"zarr_dtype": "object", "value": {"source": "../../outside", "path": "/x"}},
                  {"zarr_dtype": "object", "value": {"source": ".", "path": "a\0b"}},
                  {"zarr_dtype": "region", "value": {"source": ".", "path": "/plain"}}],
}  # fmt: skip
"""Attribute of the root -> what it is not."""

ODD_NOTES: list[Any] = [
    5, {"hdf5": 5}, {"maxshape": 5}, {"maxshape": [None]}, {"maxshape": [1, 1]}, {"maxshape": [HUGE, HUGER]},
    {"scalar": True}, {"rows": True},
    *({"hdf5": note} for note in (
        {"null": True}, {"chunks": [0, 0]}, {"chunks": [HUGE, HUGER]}, {"chunks": 5}, {"chunks": [1]}, {"layout": 5},
        {"layout": "chunked"}, {"layout": "virtual"}, {"enum": 5}, {"enum": {"a": HUGER}}, {"enum": {"a": 1, "b": 1}},
        {"enum": {"a\0b": 1}}, {"filters": 5}, {"filters": [5]}, {"filters": [{"id": HUGER}]}, {"filters": [["x", 1]]},
        {"fill": 5}, {"fill": "x"}, {"fill": [1, 2]})),
    *({"hdf5": {"type": kind}} for kind in (
        5, "x", "<f8", {}, {"array": "<i2", "shape": [2]}, {"sequence": "<i2"}, {"fields": [["a", "<i2"]]},
        {"text": "utf-8"}, "object", {"fields": [["a", "<i2"], ["a", "<i2"]]}, {"opaque": 2, "tag": "x" * 500},
        {"fields": [["a", "<i2"]], "offsets": [HUGE], "size": 1}, {"array": "<i2", "shape": [2**31 - 1] * 4},
        {"number": "<i2"}, {"number": "<i2", "precision": HUGER, "offset": 0}, {"bitfield": "<i2"}, _deep(200))),
    {"hdf5": {"attributes": {"x": {"type": 5}}}},
    *({"hdf5": {"attributes": {"x": {"type": kind, "space": "null"}}}} for kind in (
        "<i2", {"fields": [["a", "<i2"]]}, {"sequence": "<i2"}, {"array": "<i2", "shape": [2]},
        {"text": "utf-8", "size": 2**30}, {"opaque": 2**30, "tag": ""})),
    *({"hdf5": {"attributes": {"x": {"type": {"sequence": "<i2"}, "shape": shape, "value": value}}}}
      for shape, value in (([2], 5), ([HUGE], []), ([-1], []))),
    {"hdf5": {"attributes": {"x": {"type": "<i2", "shape": [70000], "value": [1] * 70000}}}},
    *({"hdf5": {"attributes": {name: {"type": {"sequence": "<i2"}, "shape": [], "value": [1]}}}}
      for name in ("a\0b", "")),
    {"hdf5": {"attributes": {"x": {"type": "object", "shape": [], "value": {"source": 5, "path": 5}}}}},
]  # fmt: skip
"""What the note of an array is not."""


def attributes() -> Iterator[HostileFile]:
    for name, values in ODD_ATTRIBUTES.items():
        for value in values:
            label = f"attribute {name!r} {shown(value)}"
            yield zarr(label, setting(".zattrs", **{name: value}))
            if name in ("zarr_link", "reference", ".specloc"):
                other = {"zarr_link": "_LINKS", "reference": "reference"}.get(name, name)
                yield zarr(label, doc("zarr.json", lambda d, other=other, value=value: d["attributes"].update(
                    {other: value})), zarr_format=3)  # fmt: skip
    for note in ODD_NOTES:
        yield zarr(f"note {shown(note)}", setting("plain/.zattrs", _hdmf=note, x=1))
    for text in (5, "x", "scalar", "object", "region", [], [{"name": "a"}], [{"name": "a", "dtype": 5}], [5],
                 [{"name": "a", "dtype": "object"}] * 3, {"a": 1}, "datetime", "bytes"):  # fmt: skip
        yield zarr(f"zarr_dtype of numbers {shown(text)}", setting("plain/.zattrs", zarr_dtype=text))
        yield zarr(f"zarr_dtype of rows {shown(text)}", setting("rows/.zattrs", zarr_dtype=text))
    for text in (5, "x", ["a"], [5, 6], ["a", "a"], ["a\0b", "../x"], ["\ud800", "b"], [None, None]):
        yield zarr(f"dimensions {shown(text)}", setting("plain/.zattrs", _ARRAY_DIMENSIONS=text))
    yield zarr("100,000 attributes", setting("inner/.zattrs", **{f"a{n}": n for n in range(100_000)}))
    yield zarr("an attribute of 10 MB", setting("inner/.zattrs", text="x" * 10_000_000))
    yield zarr("a million numbers in an attribute", setting("inner/.zattrs", numbers=list(range(300_000))))


# ---- chunks ---------------------------------------------------------------------------------------------------------
_ZEROS = bytes(2**26)


def _reference(value: Any) -> Spoil:
    """Return what stores something else than references."""
    text = np.empty(3, object)
    text[:] = [value] * 3
    return _encoded("json2", bytes(numcodecs.JSON().encode(text)))


class Malice:
    """What a pickle runs."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> tuple[Any, Any]:
        return self.call


def pickles() -> dict[str, bytes]:
    listing = pickle.dumps(Malice(os.system, "true"))
    return {
        "a program": listing, "eval": pickle.dumps(Malice(eval, "1")),
        "an open file": pickle.dumps(Malice(open, "/etc/passwd")), "nothing": b"", "half of one": listing[:10],
        "deep": b"\x80\x04" + b")" + b"\x85" * 100_000 + b".",
        "a memo of gigabytes": b"\x80\x04Kar" + struct.pack("<I", 2**31) + b".",
        "a persistent object": b"\x80\x04Px\nQ.", "an extension": b"\x80\x04\x82\x01.",
        "bytes of 2^62": b"\x80\x04\x8e" + struct.pack("<Q", 2**62) + b".", "itself": b"\x80\x04]\x94h\x00a.",
        "another type": pickle.dumps({"a": {1, 2}, "b": 1j}),
    }  # fmt: skip


def _encoded(codec: str, data: bytes) -> Spoil:
    return lambda files: (
        _change(files, "references/.zarray", lambda d: d.update(compressor=None, filters=[{"id": codec}])),
        files.update({"references/0": data}),
    )


def chunks() -> Iterator[HostileFile]:
    bombs = {
        "zlib": ({"id": "zlib", "level": 1}, zlib.compress(_ZEROS)),
        "blosc": ({"id": "blosc"}, bytes(numcodecs.Blosc("zstd", 9).encode(_ZEROS))),
        "zstd": ({"id": "zstd", "level": 1}, bytes(numcodecs.Zstd(1).encode(_ZEROS))),
        "gzip": ({"id": "gzip", "level": 1}, bytes(numcodecs.GZip(1).encode(_ZEROS))),
        "bz2": ({"id": "bz2", "level": 1}, bytes(numcodecs.BZ2(1).encode(_ZEROS))),
        "lzma": ({"id": "lzma"}, bytes(numcodecs.LZMA().encode(_ZEROS))),
        "lz4": ({"id": "lz4"}, struct.pack("<i", 2**31 - 1) + b"\0" * 20),
    }
    for name, (compressor, data) in bombs.items():
        for array in ("plain", "texts", "references"):
            key = f"{array}/0.0" if array == "plain" else f"{array}/0"
            yield zarr(f"{array}: a bomb in {name}", setting(f"{array}/.zarray", compressor=compressor),
                       raw(key, data))  # fmt: skip
    for data in (b"", b"\0", b"x" * 31, b"\xff" * 1000, b"\0" * 5000):
        for key in ("plain/0.0", "squeezed/0.0", "texts/0", "references/0", "rows/0.0", "scalar/0", "word/0"):
            yield zarr(f"chunk {key} is {shown(data)}", raw(key, data))
        for key in ("plain/c/0/0", "texts/c/0", "references/c/0", "rows/c/0"):
            yield zarr(f"chunk {key} is {shown(data)}", raw(key, data), zarr_format=3)
    for value in (5, None, "x", {}, [], {"path": 5}, {"path": "/gone"}, {"source": "../../outside", "path": "/"},
                  {"source": "/etc/passwd", "path": "/"}, {"path": "a\0b"}, {"path": "/../../x"},
                  {"path": "/plain", "region": 5}, {"path": "\ud800"}, _deep(300)):  # fmt: skip
        yield zarr(f"a reference {shown(value)}", _reference(value))
    for name, text in pickles().items():
        yield zarr(f"a pickle of {name}", _encoded("pickle", text))
    for name in (b"../../outside/x", b"a\0b"):
        yield zarr(f"a chunk called {name!r}", raw(f"plain/{name.decode()}", b"x"))


# ---- folders and places ---------------------------------------------------------------------------------------------
_LINKED = {"up": "..", "dangling": "gone", "outside": "../outside/secret"}


def _replace(key: str, how: str) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        location = path / key
        if location.is_dir() and not location.is_symlink():
            for below, _, names in os.walk(location, topdown=False):
                for name in names:
                    os.remove(os.path.join(below, name))
                os.rmdir(below)
        else:
            location.unlink(missing_ok=True)
        location.parent.mkdir(parents=True, exist_ok=True)
        if how == "folder":
            location.mkdir()
        elif how == "pipe":
            os.mkfifo(location)
        else:
            location.symlink_to(_LINKED.get(how, location.name))  # a loop: a link to itself

    return act


def _odd_names(document: bytes, content: bytes, *names: bytes) -> Callable[[Path], None]:
    def act(path: Path) -> None:
        for name in (b"\xff\xfe", b"a\nb", b"\x1b[2J", b"...", *names):
            location = os.path.join(os.fsencode(path), name)
            os.mkdir(location)
            with open(os.path.join(location, document), "wb") as file:
                file.write(content)

    return act


def _journal(**head: Any) -> Spoil:
    whole = {"version": 1, "id": "x", "holder": {"host": "h", "pid": 1, "since": "2020"}, "old": {}, "absent": [],
             "below": [], "crc32": 0, **head}  # fmt: skip
    return raw(".hdmf_zarr_journal", json.dumps(whole).encode() + b"\n")


def places() -> Iterator[HostileFile]:
    """Folders, pipes and symbolic links in the places of documents and chunks; leftovers of changes."""
    keys = (".zgroup", ".zattrs", "plain/.zarray", "plain/0.0", "inner", "texts/0", ".zmetadata", "specifications")
    for how in ("folder", "pipe", "loop", "up", "dangling"):
        for key in keys:
            yield zarr(f"{key} is a {how}", after=_replace(key, how))
        for key in ("zarr.json", "plain/zarr.json", "plain/c/0/0", "plain/c"):
            yield zarr(f"{key} is a {how}", after=_replace(key, how), zarr_format=3)
    more = (b"%2e%2e", b"CON", b"a" * 250)
    yield zarr("names that are not UTF-8", after=_odd_names(b".zgroup", b'{"zarr_format": 2}', *more))
    group = b'{"zarr_format": 3, "node_type": "group"}'
    yield zarr("names that are not UTF-8", after=_odd_names(b"zarr.json", group), zarr_format=3)
    yield from (zarr("an array with a name that is not UTF-8", zarr_format=number, after=lambda path: os.rename(
        path / "plain", os.path.join(os.fsencode(path), b"\xe9t\xe9"))) for number in (2, 3))  # fmt: skip
    yield zarr("groups nested 300 deep", lambda files: files.update(
        {"g/" * depth + ".zgroup": b'{"zarr_format": 2}' for depth in range(1, 301)}))  # fmt: skip
    for key in (".hdmf_zarr_journal", ".hdmf_zarr_journal.commit", ".hdmf_zarr_journal.1", ".hdmf_zarr_lease"):
        for text in (b"", b"x", b"{}", b"[]\n", b'{"version": 1}\n', b"\xff" * 100, DEEP):
            yield zarr(f"leftover {key} {shown(text)}", raw(key, text))
        yield zarr(f"leftover {key} is a folder", after=_replace(key, "folder"))
    for head in ({"old": {"../../outside/x": 0}}, {"absent": ["../../outside/secret"]}, {"below": ["../../outside"]},
                 {"below": ["."]}, {"below": [""]}, {"below": ["/"]}, {"below": ["plain/.."]}, {"absent": ["plain"]},
                 {"below": ["plain\0x"]}, {"absent": ["\ud800"]}, {"old": {"a": HUGER}}, {"old": 5}, {"absent": 5},
                 {"below": 5}, {"mark": 5}, {"aside": {"a": 1}}, {"aside": 5}, {"holder": 5}, {"version": 99},
                 {"crc32": "x"}, {"id": "../../outside"}):  # fmt: skip
        # those that name the root are mended with the journal
        yield from (zarr(f"journal {shown(head)}", _journal(**head), zarr_format=number) for number in (2, 3))
    for mark in (5, {}, {"pid": "x"}, {"host": 5, "pid": 1, "since": 5}, {"changing": True}, {"changing": 5}, []):
        yield zarr(f"being written by {shown(mark)}", doc(".zattrs", lambda d, m=mark: d["_hdmf"].update(writing=m)))

    def lock(text: bytes) -> Callable[[Path], Any]:
        return lambda path: (path.parent / f".{path.name}.lock").write_bytes(text)

    for text in (b"", b"x", b'{"host": 5}', b"\xff", DEEP):
        yield zarr(f"lock file {shown(text)}", after=lock(text))
    # symbolic links as lock files are mended with the locks
    yield zarr("the lock file is a link", after=lambda path: _replace(f"../.{path.name}.lock", "outside")(path))
    yield zarr("the lock file is a folder", after=lambda path: (path.parent / f".{path.name}.lock").mkdir())
    shapes = (("an empty folder", ""), ("a loop of symbolic links", "loop"), ("a pipe", "pipe"),
              ("a dangling link", "dangling"), ("an empty file", "file"),
              ("a file of noise", "file", os.urandom(1000)))  # fmt: skip
    yield from (HostileFile(name, lambda folder, how=how: _made(folder / "file.zarr", *how)) for name, *how in shapes)


def _made(path: Path, how: str, content: bytes = b"") -> Path:
    if how == "file":
        path.write_bytes(content)
    elif how:
        _replace(path.name, how)(path.parent)
    else:
        path.mkdir()
    return path


# ---- cached namespaces ----------------------------------------------------------------------------------------------
def texts(**texts: Any) -> list[Spoil]:
    """Return what sets the cached texts, each an array of one text."""

    def spoil(files: Files, name: str, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        key = f"{SPECIFICATIONS}/{name}"
        document = {"shape": [1], "chunks": [1], "dtype": "|O", "filters": [{"id": "vlen-utf8"}], "order": "C",
                    "compressor": None, "fill_value": "", "zarr_format": 2}  # fmt: skip
        files[f"{key}/.zarray"] = json.dumps(document).encode()
        files[f"{key}/.zattrs"] = b'{"zarr_dtype": "scalar"}'
        files[f"{key}/0"] = struct.pack("<II", 1, len(data)) + data

    return [
        lambda files, name=name, text=text: spoil(files, name, text if isinstance(text, str) else json.dumps(text))
        for name, text in texts.items()
    ]


def _with_box(**changes: Any) -> dict[str, Any]:
    return {"groups": [_CONTAINER, {**_BOX, **changes}], "datasets": []}


def with_namespace(**changes: Any) -> dict[str, Any]:
    return {"namespaces": [{**NAMESPACE["namespaces"][0], **changes}]}


def _deep_spec(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"name": "g", "doc": "d"}
    for _ in range(depth):
        inner = {"name": "g", "doc": "d", "groups": [inner]}
    return _with_box(groups=[inner])


def _chain(length: int) -> dict[str, Any]:
    types = [{"neurodata_type_def": f"T{n}", "neurodata_type_inc": f"T{n + 1}", "doc": "d"} for n in range(length)]
    return {"groups": [_CONTAINER, *types, {**_BOX, "neurodata_type_inc": "T0"}]}


ODD_SCHEMAS: list[Any] = [
    "", "x", "[]", "5", "null", "{", "\ud800", DEEP.decode(), "[" * 100_000 + "]" * 100_000, [], 5, {"groups": 5},
    {"groups": [5]}, {"groups": [[]]},
    {"groups": [{}]}, {"groups": {"a": 1}}, {"datasets": 5}, {"datasets": [None]}, {"x": 5},
    {"groups": [{"neurodata_type_def": 5, "doc": "d"}]}, {"groups": [{"neurodata_type_def": [], "doc": "d"}]},
    {"groups": [{"neurodata_type_def": "A/B", "doc": "d"}]}, {"groups": [{"neurodata_type_def": "", "doc": "d"}]},
    {"groups": [{"neurodata_type_def": "class", "doc": 5}]},
    {"groups": [{"neurodata_type_def": "A", "doc": "d"}] * 2},
    {"groups": [{"neurodata_type_def": "A", "neurodata_type_inc": "A", "doc": "d"}]},
    {"groups": [{"neurodata_type_def": "A", "neurodata_type_inc": "B", "doc": "d"},
                {"neurodata_type_def": "B", "neurodata_type_inc": "A", "doc": "d"}]},
    {"groups": [{"neurodata_type_def": "A", "neurodata_type_inc": "Gone", "doc": "d"}]},
    {"groups": [{"neurodata_type_def": "A", "neurodata_type_inc": 5, "doc": "d"}]},
    _with_box(neurodata_type_inc="Box"), _with_box(neurodata_type_inc="Gone"), _with_box(neurodata_type_inc=[1]),
    _with_box(groups=5), _with_box(groups=[5]), _with_box(groups={"a": 1}), _with_box(datasets="x"),
    _with_box(datasets=[{}]), _with_box(datasets=[{"doc": "d"}]), _with_box(datasets=[{"name": 5, "doc": 5}]),
    *(_with_box(datasets=[{"name": "target", "doc": "d", **part}]) for part in (
        *({"dtype": dtype} for dtype in (5, "x", [], [5], {"reftype": 5, "target_type": 5}, {"x": 5})),
        {"shape": "x"}, {"shape": [HUGER, "x", []]}, {"shape": {"a": 1}}, {"dims": 5},
        {"dims": [["a"], 5], "shape": [[None], 5]}, {"quantity": "x"}, {"quantity": [1]},
        {"value": {"a": 1}, "default_value": []})),
    _with_box(attributes=5), _with_box(attributes=[5]), _with_box(attributes=[{}]), _with_box(attributes={"a": 1}),
    _with_box(attributes=[{"name": 5, "doc": "d", "dtype": 5}]),
    *(_with_box(attributes=[{"name": "lengths", "doc": "d", **part}]) for part in (
        {"dtype": "x", "required": "x"}, {"dtype": "uint8", "shape": [[[]]]}, {"dtype": "uint8", "value": {"x": []}},
        {"dtype": {"target_type": [], "reftype": {}}})),
    _with_box(links=5), _with_box(links=[5]), _with_box(links=[{}]), _with_box(links=[{"target_type": 5, "doc": "d"}]),
    _with_box(links=[{"target_type": "Gone", "doc": "d", "name": "x", "quantity": []}]),
    _with_box(name=5), _with_box(default_name=[]), _with_box(quantity={}), _with_box(linkable="x"),
    _with_box(doc=None), _with_box(x=5), _with_box(neurodata_type_def=None), _with_box(neurodata_type_def="__class__"),
    _deep_spec(100), _deep_spec(300), _chain(300), _chain(2000),
]  # fmt: skip
"""What a cached source is not."""

ODD_NAMESPACES: list[Any] = [
    "", "x", "[]", "5", "null", "{", [], 5, {}, {"namespaces": 5}, {"namespaces": []}, {"namespaces": [5]},
    {"namespaces": [{}]}, {"namespaces": {}}, {"namespaces": None}, DEEP.decode(),
    *(with_namespace(name=name) for name in (5, "other", "", [])),
    *(with_namespace(version=version) for version in (5, None, [])),
    *(with_namespace(schema=schema) for schema in (
        5, [], [5], [{}], None,
        *([{"source": source}] for source in (5, "gone", "../../../plain", "/etc/passwd", "a\0b", "namespace")),
        [{"source": "demo"}] * 2, *([{"namespace": name}] for name in ("demo", "gone", 5)),
        [{"namespace": "core", "neurodata_types": 5}], [{"namespace": "hdmf-common", "neurodata_types": ["Gone"]}],
        [{"source": "demo", "neurodata_types": ["Gone"]}], [{"source": "demo", "doc": 5, "title": []}])),
    with_namespace(doc=5), with_namespace(doc=None),
    with_namespace(author=5), with_namespace(author=[5]), with_namespace(author={}), with_namespace(contact=[]),
    with_namespace(date=5), with_namespace(full_name=5), with_namespace(x={}),
]  # fmt: skip
"""What a cached namespace is not."""


def _rename(*names: str) -> Spoil:
    """Return what moves the cached version of the namespace."""

    def spoil(files: Files) -> None:
        for key in [key for key in files if key.startswith(f"{SPECIFICATIONS}/")]:
            files["specifications/" + "/".join(names) + key.removeprefix(SPECIFICATIONS)] = files.pop(key)
        for depth in range(1, len(names) + 1):
            files["specifications/" + "/".join(names[:depth]) + "/.zgroup"] = b'{"zarr_format": 2}'

    return spoil


def namespaces() -> Iterator[HostileFile]:
    for schema in ODD_SCHEMAS:
        yield zarr(f"cached types {shown(schema)}", *texts(demo=schema))
    for namespace in ODD_NAMESPACES:
        yield zarr(f"cached namespace {shown(namespace)}", *texts(namespace=namespace))
    for names in (("core", "1.0.0"), ("hdmf-common", "99"), ("demo", "x"), ("demo", "1.0.0-\u2603"), ("demo", "..."),
                  ("demo",)):  # fmt: skip
        yield zarr(f"cached as {'/'.join(names)}", _rename(*names))
    yield zarr("cached types are numbers", setting(f"{SPECIFICATIONS}/demo/.zarray", dtype="<i4", filters=None))
    yield zarr("cached types are three texts", setting(f"{SPECIFICATIONS}/demo/.zarray", shape=[3], chunks=[3]))
    yield zarr("cached types are gone", lambda files: files.pop(f"{SPECIFICATIONS}/demo/.zarray"))
    yield zarr("cached types are a pickle", setting(f"{SPECIFICATIONS}/demo/.zarray", filters=[{"id": "pickle"}],
               compressor=None), raw(f"{SPECIFICATIONS}/demo/0", pickles()["a program"]))  # fmt: skip


# ---- zip files and files of references ------------------------------------------------------------------------------
def zipped(change: Callable[[bytes], bytes] = bytes, *more: tuple[str, bytes]) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "file.zarr.zip"
        with warnings.catch_warnings(), zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            warnings.simplefilter("ignore")  # of names that are there twice
            for key, value in (*_whole(2), *more):
                archive.writestr(key, value)
        path.write_bytes(change(path.read_bytes()))
        return path

    return make


def _entries(local: int, central: int, change: Callable[[bytearray, int], Any]) -> Callable[[bytes], bytes]:
    """Return what changes all entries, at offsets in their own headers and in those of the directory."""

    def act(data: bytes) -> bytes:
        result = bytearray(data)
        for mark, offset in ((b"PK\x03\x04", local), (b"PK\x01\x02", central)):
            location = result.find(mark)
            while location >= 0:
                change(result, location + offset)
                location = result.find(mark, location + 4)
        return bytes(result)

    return act


encrypted = _entries(6, 8, lambda found, place: found.__setitem__(place, found[place] | 1))
"""Set the bit of each entry that says that it is encrypted."""


def _methods(method: int) -> Callable[[bytes], bytes]:
    return _entries(8, 10, lambda found, place: struct.pack_into("<H", found, place, method))


GIGABYTES = 127 * 2**24
"""More than a process of `operations` may have."""


@cache
def _zeros() -> tuple[bytes, int]:
    deflate, piece, parts, crc = zlib.compressobj(1, wbits=-15), bytes(2**24), [], 0
    for _ in range(GIGABYTES // len(piece)):
        parts.append(deflate.compress(piece))
        crc = zlib.crc32(piece, crc)
    return b"".join(parts) + deflate.flush(), crc


def bomb(key: str, stated: int) -> Callable[[Path], Path]:
    """Return what makes a zip file of which one entry becomes gigabytes, and states a size."""

    def make(folder: Path) -> Path:
        path = folder / "file.zarr.zip"
        with zipfile.ZipFile(path, "w") as archive:
            data, crc = _zeros()
            for name, value in (*((name, value) for name, value in _whole(2) if name != key), (key, data)):
                archive.writestr(name, value)
            entry = archive.getinfo(key)
            entry.compress_type, entry.file_size, entry.CRC = zipfile.ZIP_DEFLATED, stated, crc
            assert archive.fp is not None
            archive.fp.seek(entry.header_offset)
            archive.fp.write(entry.FileHeader(zip64=False))
            archive.fp.seek(archive.start_dir)
        return path

    return make


def _entry(offset: int, value: bytes) -> Callable[[bytes], bytes]:
    """Change the first entry of the directory."""

    def change(data: bytes) -> bytes:
        location = data.find(b"PK\x01\x02") + offset
        return data[:location] + value + data[location + len(value) :]

    return change


def _refer(refs: Any, **more: Any) -> Callable[[Path], Path]:
    def make(folder: Path) -> Path:
        path = folder / "file.zarr.json"
        whole: Any = refs
        if isinstance(refs, dict):
            keys = {key: value.decode("latin-1") for key, value in _whole(2) if "/.z" in f"/{key}"}
            whole = {"version": 1, "refs": {**keys, **refs}, **more}
        path.write_text(json.dumps(whole))
        (folder / "near").write_bytes(bytes(100))
        return path

    return make


def archives() -> Iterator[HostileFile]:
    for name, make in {
        "encrypted entries": zipped(encrypted),
        "cut in half": zipped(lambda data: data[: len(data) // 2]),
        "without its end": zipped(lambda data: data[:-10]),
        "an end alone": zipped(lambda data: data[-22:]),
        "noise in the directory": zipped(_entry(10, b"\xff" * 30)),
        "an entry of 2^32 bytes": zipped(_entry(20, b"\xfe\xff\xff\xff" * 2)),
        "an entry at another place": zipped(_entry(42, b"\xfe\xff\xff\x7f")),
        "an unknown compression": zipped(_methods(97)),
        "LZMA that is deflated": zipped(_methods(14)),
        "bzip2 that is deflated": zipped(_methods(12)),
        "stored that is deflated": zipped(_methods(0)),
        "duplicate entries": zipped(bytes, ("plain/.zarray", b"{}"), (".zgroup", b"x")),
        "entries that lead out": zipped(bytes, ("../../outside/x/.zgroup", b"{}"), ("/etc/.zgroup", b"{}")),
        "odd names": zipped(bytes, ("a\\b/.zgroup", b"{}"), ("./a/.zgroup", b"{}"), ("", b""), ("a//b/.zgroup", b"")),
        "a folder for a document": zipped(bytes, ("plain/.zattrs/", b"")),
        **{f"a bomb that states {stated:,}, {key}": bomb(key, stated) for stated in (GIGABYTES, 100) for key in (
            ".zmetadata", ".zattrs", "plain/.zarray", "plain/0.0", "texts/0", "plain/9.9", "more/.zarray", "junk")},
    }.items():  # fmt: skip
        yield HostileFile(f"zip: {name}", make)
    for name, refs in {"nothing": None, "a list": [], "a number": 5, "no references": {"version": 1},
                       "refs are a list": {"refs": []}}.items():  # fmt: skip
        yield HostileFile(f"references: {name}", _refer(refs))
    for value in (5, None, [], [5], ["near"], ["near", 5], ["near", -5, 10], ["near", 10**30, 10], ["near", 0, HUGE],
                  ["near", "0", "x"], ["gone", 0, 5], [[], 0, 5], ["a\0b", 0, 5], ["\ud800", 0, 5], "base64:%%%",
                  "base64:", {"a": 1}, ["/etc/passwd", 0, 32], ["file:///etc/passwd", 0, 32],
                  ["../outside/secret", 0, 32], ["http://127.0.0.1:9/x", 0, 32], ["{{u}}", 0, 32],
                  # chained URLs are mended with the policy of links, refused connections with the network
                  ["simplecache::file:///etc/passwd", 0, 32], ["dir::/etc", 0, 32],
                  ["near/../../outside/secret", 0, 32],
                  ["", 0, 5], [".", 0, 5], ["x" * 5000, 0, 5]):  # fmt: skip
        yield HostileFile(f"references: a chunk at {shown(value)}", _refer({"plain/0.0": value}))
        yield HostileFile(f"references: a document at {shown(value)}", _refer({"plain/.zarray": value}))
    for templates in (5, {"u": 5}, {"u": "{{u}}"}, {"u": "/etc/passwd"}, {"u": "{{__class__}}"}):
        yield HostileFile(f"references: templates {shown(templates)}", _refer({"plain/0.0": ["{{u}}", 0, 32]},
                          templates=templates))  # fmt: skip
    for gen in (5, [5], [{}], [{"key": "{{i}}", "url": "x", "dimensions": {"i": {"stop": 10**12}}}],
                [{"key": "{{().__class__}}", "url": "x", "dimensions": {"i": [1]}}]):  # fmt: skip
        yield HostileFile(f"references: gen {shown(gen)}", _refer({}, gen=gen))
    yield HostileFile("references: names that lead out", _refer({"../../outside/.zgroup": "{}", "/etc/.zgroup": "{}"}))


# ---- HDF5 -----------------------------------------------------------------------------------------------------------
def _dataset(name: bytes, tid: Any, shape: tuple[int, ...] = (2,), space: Any = None) -> Callable[[h5py.File], Any]:
    return lambda file: h5d.create(file.id, name, tid, space or (h5s.create_simple(shape) if shape else h5s.create(
        h5s.SCALAR)))  # fmt: skip


def _attribute(tid: Any, space: Any) -> Callable[[h5py.File], Any]:
    return lambda file: h5a.create(file["numbers"].id, b"odd", tid, space)


def _compound(*members: tuple[bytes, Any]) -> Any:
    tid = h5t.create(h5t.COMPOUND, sum(member.get_size() for _, member in members))
    offset = 0
    for name, member in members:
        tid.insert(name, offset, member)
        offset += member.get_size()
    return tid


def _types() -> dict[str, Any]:
    array = h5t.array_create(h5t.NATIVE_INT32, (2,))
    text, raw = h5t.C_S1.copy(), h5t.C_S1.copy()
    text.set_size(h5t.VARIABLE)
    raw.set_size(2**20)
    long = h5t.create(h5t.OPAQUE, 2**20)
    long.set_tag(b"\xff\xfe")
    bits = h5t.STD_I32LE.copy()
    bits.set_precision(13)
    bits.set_offset(7)
    wide = h5t.STD_I64LE.copy()
    wide.set_size(16)
    short = h5t.IEEE_F32LE.copy()
    short.set_fields(23, 15, 8, 0, 15)
    enum = h5t.enum_create(h5t.STD_I8LE)
    enum.enum_insert(b"\xff", 1)
    return {
        "arrays of arrays": h5t.array_create(array, (3,)),
        "arrays of text": h5t.array_create(text, (3,)),
        "arrays of references": h5t.array_create(h5t.STD_REF_OBJ, (2,)),
        "arrays of sequences": h5t.array_create(h5t.vlen_create(h5t.NATIVE_INT16), (2,)),
        "arrays of rows": h5t.array_create(_compound((b"a", array)), (2,)),
        "rows of arrays of arrays": _compound((b"a", h5t.array_create(array, (3,)))),
        "rows in rows in rows": _compound((b"a", _compound((b"b", _compound((b"c", array)))))),
        "rows with odd names": _compound((b"a/b", array), (b"\xff", array), (b"..", array)),
        "times": h5t.UNIX_D32LE,
        "arrays of times": h5t.array_create(h5t.UNIX_D32LE, (2,)),
        "rows of times": _compound((b"a", h5t.UNIX_D64LE)),
        "sequences of times": h5t.vlen_create(h5t.UNIX_D32LE),
        "sequences": h5t.vlen_create(h5t.NATIVE_INT16),
        "sequences of sequences": h5t.vlen_create(h5t.vlen_create(h5t.NATIVE_INT16)),
        "sequences of text": h5t.vlen_create(text),
        "sequences of rows": h5t.vlen_create(_compound((b"a", text))),
        "sequences of arrays": h5t.vlen_create(array),
        "text of a megabyte": raw,
        "opaque of a megabyte": long,
        "bits in between": bits,
        "integers of 16 bytes": wide,
        "odd floats": short,
        "odd enumerations": enum,
        "arrays of enumerations": h5t.array_create(enum, (2,)),
        "bitfields": h5t.STD_B64BE,
        "regions": h5t.STD_REF_DSETREG,
    }


@cache
def _everything() -> bytes:
    """Return the bytes of a file that has one of everything, those of the first time: HDF5 puts the time into it."""
    with tempfile.TemporaryDirectory() as folder:
        return write_everything(Path(folder, "file.h5")).read_bytes()


def _bytes(change: Callable[[bytearray], Any]) -> Callable[[Path], Path]:
    """Return what changes the bytes of an HDF5 file that has one of everything."""

    def make(folder: Path) -> Path:
        data = bytearray(_everything())
        change(data)
        (folder / "file.h5").write_bytes(data)
        return folder / "file.h5"

    return make


def _flip(data: bytearray, seed: int) -> None:
    random = np.random.default_rng(seed)
    for location in random.integers(100, len(data), int(random.integers(1, 12))).tolist():
        data[location] = int(random.integers(256))


def _nest(file: h5py.File, depth: int) -> None:
    group = file.id
    for _ in range(depth):
        group = h5g.create(group, b"g")


def _virtual(file: h5py.File) -> None:
    layout = h5py.VirtualLayout((4,), "i4")
    layout[:] = h5py.VirtualSource("../outside/other.h5", "x", shape=(4,))
    file.create_virtual_dataset("virtual", layout)
    inner = h5py.VirtualLayout((4,), "i4")
    inner[:] = h5py.VirtualSource(".", "itself", shape=(4,))
    file.create_virtual_dataset("itself", inner)


def hdf5_files() -> Iterator[HostileFile]:
    null = h5s.create(h5s.NULL)
    for name, tid in _types().items():
        yield hdf5(f"a dataset of {name}", _dataset(b"odd", tid))
        yield hdf5(f"a scalar of {name}", _dataset(b"odd", tid, ()))
        yield hdf5(f"a null dataset of {name}", _dataset(b"odd", tid, space=null))
        if tid.get_size() < 2**16:
            yield hdf5(f"an attribute of {name}", _attribute(tid, h5s.create_simple((2,))))
        yield hdf5(f"a null attribute of {name}", _attribute(tid, null))
        yield hdf5(f"a named type of {name}", lambda file, tid=tid: tid.copy().commit(file.id, b"type"))
    yield hdf5("names that are not UTF-8", lambda file: h5g.create(file.id, b"\xff\xfe"))
    yield hdf5("names with a backslash", lambda file: h5g.create(file.id, b"a\\b"))
    yield hdf5("names of the format", lambda file: [h5g.create(file.id, name) for name in (b".zgroup", b"zarr.json")])
    yield hdf5("a name of 300 bytes", lambda file: h5g.create(file.id, b"n" * 300))
    yield hdf5("the name ..", lambda file: h5g.create(file.id, b".."))
    yield hdf5("odd attributes", lambda file: [file.attrs.create(name, 1) for name in ("a/b", "_hdmf")])
    yield hdf5("groups nested 400 deep", partial(_nest, depth=400))
    # deeper nesting and raw files are mended with the nesting of HDF5
    yield hdf5("groups nested 2,000 deep", partial(_nest, depth=2000))
    raw_files = [("../outside/secret", 0, h5py.h5f.UNLIMITED)]
    yield hdf5("values in a foreign file", lambda file: file.create_dataset("raw", (16,), "i1", external=raw_files))
    yield hdf5("2^62 elements", lambda file: file.create_dataset("huge", (2**62,), "i1", chunks=(2**20,)))
    yield hdf5("virtual datasets out of the folder and of themselves", _virtual)
    yield hdf5("a ring", lambda file: file.__setitem__("ring", file["/"]))
    yield hdf5("links to nowhere and to themselves", lambda file: [
        file.__setitem__("soft", h5py.SoftLink("/soft")), file.__setitem__("gone", h5py.SoftLink("/gone")),
        file.__setitem__("out", h5py.ExternalLink("../outside/other.h5", "/x")),
        file.__setitem__("text", h5py.ExternalLink("../outside/secret", "/x")),
        file.__setitem__("self", h5py.ExternalLink("file.h5", "/self"))])  # fmt: skip
    yield hdf5("cached types that are numbers", lambda file: [
        file.create_dataset("specifications/demo/1.0.0/namespace", data=5),
        file.attrs.__setitem__(".specloc", file["specifications"].ref)])  # fmt: skip
    for part in (0.001, 0.1, 0.5, 0.99):
        yield HostileFile(f"HDF5: cut short to {part}", _bytes(
            lambda data, part=part: data.__delitem__(slice(int(len(data) * part), None))))  # fmt: skip
    for seed in range(120):
        yield HostileFile(f"HDF5: flipped bytes {seed}", _bytes(partial(_flip, seed=seed)))


def others() -> Iterator[HostileFile]:
    """The file of other writers, spoiled."""
    for name, text in pickles().items():
        yield HostileFile(f"old: a pickle of {name}", stored({**of_others(), "references/0": text}))


def all_files() -> list[HostileFile]:
    parts = (documents, digits, attributes, chunks, places, namespaces, archives, hdf5_files, others)
    return [file for part in parts for file in part()]
