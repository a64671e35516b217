"""The examples and tables of the format pages and of the security page: written by the library, put there by this.

``python docs/_scripts/format_page.py`` rewrites them; ``tests/test_docs_format.py`` holds the pages to them.

An example is a code block whose caption is the key of a document: the name of an example file, then the key in it. The
example files are made by `write_examples`. A chunk is shown as the JSON that its codecs hold.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np
from generated import ROOT, code_list, table, with_parts
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hdmf.spec import NamespaceCatalog

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.encoding import dtypes, nczarr, reserved
from hdmf_zarr_backend.encoding.chunk_codec import ALLOWED_CODECS
from hdmf_zarr_backend.encoding.data_types import NUMBER_WORDS, NUMBERS, number_code
from hdmf_zarr_backend.encoding.references import ZarrReference
from hdmf_zarr_backend.options import WriteOptions

FORMAT_PAGE = ROOT / "docs" / "format" / "format-2.md"
FORMAT_3_PAGE = ROOT / "docs" / "format" / "format-3.md"
FORMAT_3 = "format-3"
"""Folder of the example files of format 3, in that of the others."""
SECURITY_PAGE = ROOT / "docs" / "explanation" / "security.md"

_EXAMPLE = re.compile(
    r"^(```\{code-block\} (?:json|js)\n:caption: (?P<caption>.+)\n\n)(?P<text>(?:(?!```).*\n)*)```$", re.MULTILINE
)
_WIDTH = 100

_FILE_ID = "7a0e8c1e-52a1-4a7c-9a55-3f6f0d3c1b10"
_SERIES_ID = "0f6c2f0e-1d55-4a35-8a0a-6c8a5f5b7c01"
_DEVICE_ID = "c3a4d7b2-9c1e-4b0f-b7a6-2f1f0c9d8e02"
_OTHER_FILE_ID = "5d2b9a34-6c7d-4e8f-a1b2-c3d4e5f60718"
_OTHER_SERIES_ID = "e2f1d0c9-b8a7-4695-8473-625140f3e2d1"

_NAMESPACE = {
    "doc": "An example.",
    "name": "lab",
    "version": "1.2.0",
    "author": "A. N. Other",
    "contact": "other@example.org",
    "schema": [{"source": "lab.shapes.yaml"}],
}
_SHAPES = {"datasets": [{"data_type_def": "Shape", "doc": "The shape of something.", "dtype": "float32"}]}


# ---- the example files ---------------------------------------------------------------------------------------------


def write_examples(folder: Path) -> None:
    """Write the example files into an empty folder: ``session.zarr``, ``raw.zarr``, ``small.zarr``, ``strict.zarr``.

    Those of format 3 are in a folder of their own, `FORMAT_3`.
    """
    _write_files(folder, 2)
    (folder / FORMAT_3).mkdir()
    _write_files(folder / FORMAT_3, 3)


def _write_files(folder: Path, zarr_format: int) -> None:
    raw = _raw()
    _write(folder / "raw.zarr", raw, zarr_format=zarr_format)
    raw_series = raw.groups["series"]
    raw_series.source = raw.source = str(folder / "raw.zarr")
    with h5py.File(folder / "source.h5", "w") as file:
        hdf5 = file.create_dataset(
            "counts", data=np.arange(6, dtype="u2"), chunks=(4,), maxshape=(None,), compression="gzip", shuffle=True
        )
        _write(folder / "session.zarr", _session(raw_series, hdf5), catalog=_catalog(folder), zarr_format=zarr_format)
    small = GroupBuilder("root", datasets={"rate": DatasetBuilder("rate", 30.0)})
    _write(folder / "small.zarr", small, zarr_format=zarr_format)
    strict = GroupBuilder("root", attributes={"limits": [0.0, np.inf]})
    _write(folder / "strict.zarr", strict, write_options=WriteOptions(strict_json=True), zarr_format=zarr_format)


def _write(path: Path, root: GroupBuilder, *, catalog: NamespaceCatalog | None = None, **options: Any) -> None:
    with ZarrIO(path, "w", **options) as io:
        io.write_builder(root, cache_spec=catalog is not None, spec_catalogs=[catalog] if catalog is not None else None)


def _catalog(folder: Path) -> NamespaceCatalog:
    """Return a catalogue with one small namespace."""
    namespace = folder / "lab.namespace.yaml"
    namespace.write_text(json.dumps({"namespaces": [_NAMESPACE]}), encoding="utf-8")
    (folder / "lab.shapes.yaml").write_text(json.dumps(_SHAPES), encoding="utf-8")
    catalog = NamespaceCatalog()
    catalog.load_namespaces(str(namespace))
    return catalog


def _raw() -> GroupBuilder:
    series = GroupBuilder("series", attributes={"object_id": _OTHER_SERIES_ID})
    return GroupBuilder("root", groups={"series": series}, attributes={"object_id": _OTHER_FILE_ID})


def _session(raw_series: GroupBuilder, hdf5: h5py.Dataset) -> GroupBuilder:
    data = DatasetBuilder(
        "data",
        np.arange(12, dtype="i2").reshape(6, 2),
        attributes={"unit": "V"},
        dimension_labels=("time", "channel"),
        maxshape=(None, 2),
    )
    series = GroupBuilder(
        "series", datasets={"data": data}, attributes={"object_id": _SERIES_ID, "data_type": "Series"}
    )
    device = GroupBuilder("device", attributes={"object_id": _DEVICE_ID})
    groups = {
        "series": series,
        "device": device,
        "arrays": _arrays(hdf5),
        "references": _references(series, device),
        "attributes": _attributes(series, device),
        "labels": _labels(),
        "links": GroupBuilder(
            "links", links={"own": LinkBuilder(device, "own"), "other": LinkBuilder(raw_series, "other")}
        ),
    }
    return GroupBuilder(
        "root", groups=groups, attributes={"object_id": _FILE_ID, "namespace": "lab", "data_type": "File"}
    )


def _arrays(hdf5: h5py.Dataset) -> GroupBuilder:
    pair = [{"name": "start", "dtype": "float64"}, {"name": "label", "dtype": "text"}]
    made = [
        DatasetBuilder("text", ["first", "second"]),
        DatasetBuilder("ascii", [b"first", b"second"], dtype="ascii"),
        DatasetBuilder("bytes", [b"\xff\x00"]),
        DatasetBuilder("number", np.uint16(7)),
        DatasetBuilder("date", "2026-03-14T15:09:26+01:00", dtype="isodatetime"),
        DatasetBuilder("structured", np.array([(1, 2.5)], dtype=[("index", "u4"), ("value", "f8")])),
        DatasetBuilder("rows", [(0.5, "left"), (1.5, "right")], dtype=pair),
        DatasetBuilder("counts", hdf5),
    ]
    return GroupBuilder("arrays", datasets={builder.name: builder for builder in made})


def _references(series: GroupBuilder, device: GroupBuilder) -> GroupBuilder:
    row = [
        {"name": "count", "dtype": "int32"},
        {"name": "target", "dtype": {"reftype": "object", "target_type": "Series"}},
    ]
    region = ZarrReference(".", "/series/data", source_object_id=_FILE_ID, region=(slice(0, 4, 1), [1]))
    points = ZarrReference(".", "/series/data", source_object_id=_FILE_ID, region={"points": [[0, 0], [5, 1]]})
    made = [
        DatasetBuilder("objects", [ReferenceBuilder(series), None], dtype="object"),
        DatasetBuilder("one", ReferenceBuilder(device)),
        DatasetBuilder("rows", [(3, ReferenceBuilder(series))], dtype=row),
        DatasetBuilder("regions", [region, points]),
    ]
    return GroupBuilder(
        "references", datasets={builder.name: builder for builder in made}, attributes={"region": region}
    )


def _attributes(series: GroupBuilder, device: GroupBuilder) -> GroupBuilder:
    plain = {"count": 3, "name": "left", "ratio": 0.5, "on": True, "keywords": ["a", "b"]}
    typed = {
        "gain": np.float32(0.25),
        "sweep": np.array([1, 2], dtype="u4"),
        "mask": np.array([True, False]),
        "impedance": 1 + 2j,
        "day": np.datetime64("2026-03-14"),
        "code": b"\xff\x00",
        "nothing": [],
        "settings": {"mode": "fast", "steps": [1, None]},
    }
    found = {
        "plain": plain,
        "typed": typed,
        "not_a_number": {"limits": [0.0, np.inf]},
        "reference": {"target": ReferenceBuilder(series), "both": [ReferenceBuilder(series), ReferenceBuilder(device)]},
        "escaped": {"zarr_dtype": "an attribute of the user"},
    }
    return GroupBuilder(
        "attributes", groups={name: GroupBuilder(name, attributes=values) for name, values in found.items()}
    )


def _labels() -> GroupBuilder:
    made = [
        DatasetBuilder("first", np.zeros((3, 2)), dimension_labels=("time", None)),
        DatasetBuilder("second", np.zeros(5), dimension_labels=("time",)),
    ]
    return GroupBuilder("labels", datasets={builder.name: builder for builder in made})


# ---- the examples on the page --------------------------------------------------------------------------------------


def captions(page: str) -> Iterator[tuple[str, str]]:
    """Yield caption and text of each example of a page."""
    for match in _EXAMPLE.finditer(page):
        yield match["caption"], match["text"].strip()


def example(folder: Path, caption: str) -> Any:
    """Return the JSON that is stored under the key that a caption names.

    Parameters
    ----------
    folder : Path
        Where `write_examples` has written.
    caption : str
        Such as ``session.zarr/series/.zattrs``; the key of a chunk means what is in it when it is decompressed.
    """
    data = (folder / caption).read_bytes()
    path = folder / caption
    if not path.name.startswith(".z") and path.name != "zarr.json":
        compressor = json.loads((path.parent / ".zarray").read_bytes())["compressor"]
        data = bytes(numcodecs.get_codec(compressor).decode(data)) if compressor else data
    return json.loads(data)


def pretty(value: Any, indent: int = 0) -> str:
    """Return JSON for people: what fits on a line stands on one."""
    line = json.dumps(value)
    if len(line) + indent <= _WIDTH or not isinstance(value, (dict, list)) or not value:
        return line
    inner = indent + 2
    if isinstance(value, dict):
        items = [f"{json.dumps(key)}: {pretty(item, inner)}" for key, item in value.items()]
    else:
        items = [pretty(item, inner) for item in value]
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    body = ",\n".join(" " * inner + item for item in items)
    return f"{opening}\n{body}\n{' ' * indent}{closing}"


def with_examples(page: str, folder: Path) -> str:
    """Return ``page`` with the text of each example."""
    return _EXAMPLE.sub(lambda match: f"{match[1]}{pretty(example(folder, match['caption']))}\n```", page)


# ---- the tables ----------------------------------------------------------------------------------------------------


def format_tables() -> dict[str, str]:
    """Return the generated parts of the format page."""
    by_type: dict[str, list[str]] = {}
    for word in (*NUMBER_WORDS, *NUMBERS):
        by_type.setdefault(NUMBER_WORDS.get(word, word), []).append(word)
    by_kind: dict[str, list[str]] = {}
    for word, kind in dtypes.WORDS.items():
        by_kind.setdefault(kind, []).append(word)
    return {
        "version": f"Version: **{reserved.FORMAT_VERSION}**",
        "numbers": table(
            ["words of a schema", "`zarr_dtype`", "data type of the array"],
            [(code_list(words), f"`{name}`", f"`{number_code(NUMBERS[name])}`") for name, words in by_type.items()],
        ),
        "words": table(["words", "kind"], [(code_list(words), kind) for kind, words in by_kind.items()]),
        "reserved": table(
            ["name", "where", "what for"],
            [(f"`{name}`", *_RESERVED.get(name, _FOREIGN)) for name in sorted(reserved.RESERVED, key=_by_use)],
        ),
        "object-codecs": table(
            ["`object_codec_class`", "first filter"],
            [(f"`numcodecs.{name}`", f"`{first}`") for name, first in _OBJECT_CODECS.items()],
        ),
    }


_OBJECT_CODECS = {"JSON": "json2", "MsgPack": "msgpack2", "Pickle": "pickle"}
_RESERVED = {
    reserved.DTYPE: ("arrays", "what the elements are"),
    reserved.LINKS: ("groups", "the links in the group"),
    reserved.SPECLOC: ("root", "path of the cached namespaces"),
    reserved.DIMENSIONS: ("arrays", "names of the axes"),
    reserved.NCZARR_ATTR: ("any node", "types of attributes"),
    reserved.NOTES: ("any node", "the note"),
    nczarr.SUPERBLOCK: ("root", "[NCZarr](#nczarr), on request"),
    nczarr.PROPERTIES: ("root", "[NCZarr](#nczarr), on request"),
    nczarr.GROUP: ("groups", "[NCZarr](#nczarr), on request"),
    nczarr.ARRAY: ("arrays", "[NCZarr](#nczarr), on request"),
}
_FOREIGN = ("-", "kept free: used by NCZarr, netCDF or later versions of hdmf-zarr; neither written nor shown")


def _by_use(name: str) -> tuple[int, str]:
    return (list(_RESERVED).index(name) if name in _RESERVED else len(_RESERVED), name)


def security_tables() -> dict[str, str]:
    """Return the generated parts of the security page."""
    return {"codecs": code_list(sorted(ALLOWED_CODECS)) + "."}


def pages(folder: Path) -> Mapping[Path, str]:
    """Return ``{path: text}`` of the pages as they should be.

    Parameters
    ----------
    folder : Path
        Where `write_examples` has written.
    """
    format_page = with_parts(FORMAT_PAGE.read_text(encoding="utf-8"), format_tables())
    format_3_page = with_parts(FORMAT_3_PAGE.read_text(encoding="utf-8"), {"version": format_tables()["version"]})
    return {
        FORMAT_PAGE: with_examples(format_page, folder),
        FORMAT_3_PAGE: with_examples(format_3_page, folder / FORMAT_3),
        SECURITY_PAGE: with_parts(SECURITY_PAGE.read_text(encoding="utf-8"), security_tables()),
    }


def main() -> None:
    """Rewrite what is generated on the pages."""
    with tempfile.TemporaryDirectory() as folder:
        write_examples(Path(folder))
        for path, text in pages(Path(folder)).items():
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
