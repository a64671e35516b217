"""A small NWB file, document by document, as other writers of Zarr format 3 store it.

Its content is in `write_nodes`; a `Dialect` is how one writer stores it. Nothing here comes from this
package but the texts of the cached namespaces.

Source: docs/format, "Other writers"; the notes of what Zindi and the MATLAB port of hdmf-zarr were seen to write.
"""

from __future__ import annotations

import base64
import json
import struct
import uuid
import zlib
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pynwb

from hdmf_zarr_backend.builders.specs import namespace_texts

ROWS = [(0, 4, "/acquisition/raw"), (2, 3, "/acquisition/raw")]
"""Rows of the column of references to time series."""

DATA = np.arange(12, dtype="i2").reshape(6, 2)


def object_id(path: str) -> str:
    """Return the id of an object of the file."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, path))


class Dialect:
    """How one writer stores groups, arrays, references and links."""

    numbers: ClassVar[dict[str, str]] = {"i2": "int16", "i4": "int32", "i8": "int64", "u1": "uint8", "f8": "float64"}

    def __init__(self) -> None:
        self.keys: dict[str, bytes] = {}

    def put(self, path: str, document: dict[str, Any]) -> None:
        """Set the document of a node."""
        text = json.dumps({"zarr_format": 3, **document}, allow_nan=False)
        self.keys[f"{path}/zarr.json" if path else "zarr.json"] = text.encode()

    def group(self, path: str, links: dict[str, str] | None = None, **attributes: Any) -> None:
        """Write a group; ``links`` are paths by name."""
        held = {name: self.attribute(value) for name, value in attributes.items()}
        self.put(path, {"node_type": "group", "attributes": {**held, **self.links(links or {})}})

    def attribute(self, value: Any) -> Any:
        """Return an attribute as it is stored; a `Path` is a reference."""
        return self.reference(value.as_posix()) if isinstance(value, Path) else value

    def array(
        self, path: str, shape: tuple[int, ...], data_type: Any, codecs: list[Any], fill: Any, chunk: bytes, **held: Any
    ) -> None:
        """Write an array that is one chunk."""
        document = {
            "node_type": "array",
            "shape": list(shape),
            "data_type": data_type,
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(shape)}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": fill,
            "codecs": codecs,
            "attributes": {name: self.attribute(value) for name, value in held.items()},
            "storage_transformers": [],
        }
        self.put(path, document)
        self.keys["/".join([path, "c", *["0"] * len(shape)])] = chunk

    def shape_of(self, value: Any) -> tuple[int, ...]:
        """Return the shape of a scalar or of what has one."""
        return np.shape(value)

    # ---- what writers store differently -----------------------------------------------------------------------------

    def links(self, links: dict[str, str]) -> dict[str, Any]:
        """Return the attribute that has the links of a group."""
        raise NotImplementedError

    def reference(self, path: str) -> Any:
        """Return an attribute that is a reference."""
        raise NotImplementedError

    def number(self, path: str, value: Any, dtype: str, **attributes: Any) -> None:
        """Write numbers."""
        raise NotImplementedError

    def text(self, path: str, value: Any, **attributes: Any) -> None:
        """Write a text, or a list of them."""
        raise NotImplementedError

    def label(self, path: str, values: list[str], **attributes: Any) -> None:
        """Write text that has a fixed length in HDF5."""
        raise NotImplementedError

    def references(self, path: str, paths: list[str], **attributes: Any) -> None:
        """Write an array of references."""
        raise NotImplementedError

    def rows(self, path: str, fields: list[tuple[str, str]], rows: Any, **attributes: Any) -> None:
        """Write rows, of which the field ``timeseries`` is a reference; one tuple is a scalar."""
        raise NotImplementedError


def _vlen(texts: list[str]) -> bytes:
    parts = [struct.pack("<I", len(texts))]
    for text in texts:
        parts.extend((struct.pack("<I", len(text.encode())), text.encode()))
    return b"".join(parts)


def _utf32(characters: int) -> dict[str, Any]:
    return {"name": "fixed_length_utf32", "configuration": {"length_bytes": 4 * characters}}


class Zindi(Dialect):
    """Zindi, September 2026: a reference file system of an HDF5 file."""

    def links(self, links: dict[str, str]) -> dict[str, Any]:
        entries = [{"name": name, "source": ".", "path": path} for name, path in links.items()]
        return {"_LINKS": entries} if entries else {}

    def reference(self, path: str) -> Any:
        return {"_REFERENCE": {"source": ".", "path": path}}

    def attribute(self, value: Any) -> Any:
        """Return numbers that JSON does not have as text."""
        if isinstance(value, float) and not np.isfinite(value):
            return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}[str(value)]
        return super().attribute(value)

    def number(self, path: str, value: Any, dtype: str, **attributes: Any) -> None:
        array = np.asarray(value, dtype)
        codecs: list[Any] = [{"name": "bytes", "configuration": {"endian": "little"}}]
        chunk = array.astype(array.dtype.newbyteorder("<")).tobytes()
        if array.ndim == 2:  # gzip in HDF5
            codecs.append({"name": "numcodecs.zlib", "configuration": {"level": 4}})
            chunk = zlib.compress(chunk, 4)
        name = self.numbers[dtype]
        self.array(path, array.shape, name, codecs, 0, chunk, **attributes, _DTYPE=name)

    def text(self, path: str, value: Any, **attributes: Any) -> None:
        texts = [value] if isinstance(value, str) else value
        codecs = [{"name": "vlen-utf8", "configuration": {}}]
        self.array(path, self.shape_of(value), "string", codecs, "", _vlen(texts), **attributes, _DTYPE="str")

    def label(self, path: str, values: list[str], **attributes: Any) -> None:
        array = np.array([value.encode() for value in values])
        data_type = {"name": "null_terminated_bytes", "configuration": {"length_bytes": array.dtype.itemsize}}
        self.array(path, array.shape, data_type, [{"name": "bytes"}], "", array.tobytes(), **attributes, _DTYPE="bytes")

    def references(self, path: str, paths: list[str], **attributes: Any) -> None:
        self.text(path, paths, **attributes)
        key = f"{path}/zarr.json"
        self.keys[key] = self.keys[key].replace(b'"_DTYPE": "str"', b'"_DTYPE": "object_reference"')

    def rows(self, path: str, fields: list[tuple[str, str]], rows: Any, **attributes: Any) -> None:
        shape = (len(rows),) if isinstance(rows, list) else ()
        width = len("/acquisition/raw")
        types = [(name, f"<U{width}" if name == "timeseries" else f"<{kind}") for name, kind in fields]
        names = [[name, _utf32(width) if name == "timeseries" else self.words(kind)] for name, kind in fields]
        data_type = {"name": "structured", "configuration": {"fields": names}}
        records = np.array(rows, types)
        fill = base64.b64encode(bytes(records.dtype.itemsize)).decode()
        held = {"_REFERENCE_FIELDS": ["timeseries"]} if "timeseries" in dict(fields) else {}
        self.array(path, shape, data_type, [{"name": "bytes"}], fill, records.tobytes(), **attributes, **held)

    def words(self, kind: str) -> str:
        """Return the name of a type of numbers."""
        return np.dtype(kind).name


class Matlab(Dialect):
    """catalystneuro's hdmf-zarr-matlab, September 2026: a draft of the convention, in a directory."""

    gzip: ClassVar[dict[str, Any]] = {"name": "gzip", "configuration": {"level": 3}}

    def _said(self, path: str) -> dict[str, Any]:
        return {"source": ".", "path": path, "object_id": object_id(path), "source_object_id": object_id("/")}

    def links(self, links: dict[str, str]) -> dict[str, Any]:
        entries = [{"name": name, "source": ".", "path": path} for name, path in links.items()]
        return {"zarr_link": entries} if entries else {}

    def reference(self, path: str) -> Any:
        return {"zarr_dtype": "object", "value": self._said(path)}

    def shape_of(self, value: Any) -> tuple[int, ...]:
        """A scalar has one axis."""
        return np.shape(value) or (1,)

    def number(self, path: str, value: Any, dtype: str, **attributes: Any) -> None:
        array = np.asarray(value, dtype).reshape(self.shape_of(value))
        word = "scalar" if np.shape(value) == () else self.numbers[dtype]
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        self.array(path, array.shape, self.numbers[dtype], codecs, 0, data, **attributes, zarr_dtype=word)

    def text(self, path: str, value: Any, **attributes: Any) -> None:
        texts, word = ([value], "scalar") if isinstance(value, str) else (value, "str")
        codecs = [{"name": "vlen-utf8", "configuration": {}}]
        word = attributes.pop("word", word)
        self.array(path, self.shape_of(value), "string", codecs, "", _vlen(texts), **attributes, zarr_dtype=word)

    def label(self, path: str, values: list[str], **attributes: Any) -> None:
        self.text(path, values, **attributes)

    def references(self, path: str, paths: list[str], **attributes: Any) -> None:
        self.text(path, [json.dumps(self._said(target)) for target in paths], word="object", **attributes)

    def rows(self, path: str, fields: list[tuple[str, str]], rows: Any, **attributes: Any) -> None:
        shape = (len(rows),) if isinstance(rows, list) else ()
        types = [(name, "<U512" if name == "timeseries" else f"<{kind}") for name, kind in fields]
        names = [
            {"name": name, "data_type": _utf32(512) if name == "timeseries" else np.dtype(kind).name}
            for name, kind in fields
        ]
        cells = [
            tuple(json.dumps(self._said(cell)) if isinstance(cell, str) else cell for cell in row)
            for row in (rows if isinstance(rows, list) else [rows])
        ]
        words = [
            {"name": name, "dtype": "object" if name == "timeseries" else np.dtype(kind).name} for name, kind in fields
        ]
        data_type = {"name": "struct", "configuration": {"fields": names}}
        fill = {name: "" if name == "timeseries" else 0 for name, _ in fields}
        codecs = [{"name": "bytes", "configuration": {"endian": "little"}}]
        data = np.array(cells, types).tobytes()
        self.array(path, shape, data_type, codecs, fill, data, **attributes, zarr_dtype=words)


def typed(path: str, data_type: str, namespace: str = "core") -> dict[str, Any]:
    """Return the attributes of an object."""
    return {"namespace": namespace, "neurodata_type": data_type, "object_id": object_id(f"/{path}")}


def write_nodes(to: Dialect) -> None:
    """Write all nodes of the file."""
    to.group("", namespace="core", neurodata_type="NWBFile", nwb_version="2.9.0", object_id=object_id("/"),
             **{".specloc": "specifications"})  # fmt: skip
    start = "2024-02-29T12:34:56.789012-05:00"
    for name, text in (
        ("identifier", "small"), ("session_description", "größer als ∑"), ("session_start_time", start),
        ("timestamps_reference_time", start), ("file_create_date", [start]),
    ):  # fmt: skip
        to.text(name, text)
    for path in ("acquisition", "analysis", "processing", "stimulus", "stimulus/presentation", "stimulus/templates",
                 "general", "general/devices", "general/extracellular_ephys", "intervals"):  # fmt: skip
        to.group(path)
    to.group("general/devices/probe", **typed("general/devices/probe", "Device"), description="a probe")
    shank = "general/extracellular_ephys/shank"
    to.group(shank, {"device": "/general/devices/probe"}, **typed(shank, "ElectrodeGroup"), description="a shank",
             location="CA1")  # fmt: skip
    to.rows(f"{shank}/position", [("x", "f4"), ("y", "f4"), ("z", "f4")], (1.5, 2.5, -3.0))
    _write_electrodes(to)
    _write_raw(to)
    _write_trials(to)
    for namespace, versions in namespace_texts([pynwb.get_type_map().namespace_catalog]).items():
        for version, texts in versions.items():
            for source, text in texts.items():
                to.text(f"specifications/{namespace}/{version}/{source}", text)
            to.group(f"specifications/{namespace}/{version}")
        to.group(f"specifications/{namespace}")
    to.group("specifications")


def column(path: str, data_type: str = "VectorData") -> dict[str, Any]:
    """Return the attributes of a column of a table."""
    return {**typed(path, data_type, "hdmf-common"), "description": "a column"}


def _write_electrodes(to: Dialect) -> None:
    path = "general/extracellular_ephys/electrodes"
    to.group(
        path, **typed(path, "ElectrodesTable"), description="electrodes", colnames=["location", "group", "group_name"]
    )
    to.number(f"{path}/id", [0, 1], "i8", **typed(f"{path}/id", "ElementIdentifiers", "hdmf-common"))
    to.text(f"{path}/location", ["CA1", "CA3"], **column(f"{path}/location"))
    to.text(f"{path}/group_name", ["shank", "shank"], **column(f"{path}/group_name"))
    to.references(f"{path}/group", ["/general/extracellular_ephys/shank"] * 2, **column(f"{path}/group"))


def _write_raw(to: Dialect) -> None:
    path = "acquisition/raw"
    to.group(path, **typed(path, "ElectricalSeries"), comments="NaN", description="raw")
    to.number(f"{path}/data", DATA, "i2", unit="volts", conversion=1e-6, offset=0.5, resolution=to_nan(to))
    to.number(f"{path}/starting_time", 0.25, "f8", rate=30000.0, unit="seconds")
    region = typed(f"{path}/electrodes", "DynamicTableRegion", "hdmf-common")
    table = Path("/general/extracellular_ephys/electrodes")
    to.number(f"{path}/electrodes", [0, 1], "i8", **region, description="both", table=table)


def to_nan(to: Dialect) -> float:
    """Return NaN where the writer has a form for it."""
    return float("nan") if isinstance(to, Zindi) else -1.0


def _write_trials(to: Dialect) -> None:
    path = "intervals/trials"
    names = ["start_time", "stop_time", "label", "timeseries"]
    to.group(path, **typed(path, "TimeIntervals"), description="trials", colnames=names)
    to.number(f"{path}/id", [0, 1], "i8", **typed(f"{path}/id", "ElementIdentifiers", "hdmf-common"))
    to.number(f"{path}/start_time", [0.0, 1.0], "f8", **column(f"{path}/start_time"))
    to.number(f"{path}/stop_time", [0.5, 1.5], "f8", **column(f"{path}/stop_time"))
    to.label(f"{path}/label", ["go", "no go"], **column(f"{path}/label"))
    rows = f"{path}/timeseries"
    attributes = {**typed(rows, "TimeSeriesReferenceVectorData"), "description": "a column"}
    to.rows(rows, [("idx_start", "i4"), ("count", "i4"), ("timeseries", "O")], ROWS, **attributes)
    index = column(f"{path}/timeseries_index", "VectorIndex")
    to.number(f"{path}/timeseries_index", [1, 2], "u1", **index, target=Path(f"/{rows}"))


def write_zindi(folder: Path) -> Path:
    """Write the file as Zindi does: a file of references, with the recording in another file."""
    to = Zindi()
    write_nodes(to)
    references: dict[str, Any] = {}
    for key, value in to.keys.items():
        if key == "acquisition/raw/data/c/0/0":
            (folder / "session.nwb").write_bytes(b"HDF5 metadata" + value)
            references[key] = ["session.nwb", len("HDF5 metadata"), len(value)]
        elif key.endswith("zarr.json"):
            references[key] = value.decode()
        else:
            references[key] = f"base64:{base64.b64encode(value).decode()}"
    (folder / "session.nwb.zarr.json").write_text(json.dumps({"version": 1, "refs": references}))
    return folder / "session.nwb.zarr.json"


def write_matlab(folder: Path) -> Path:
    """Write the file as the MATLAB port does: a directory."""
    to = Matlab()
    write_nodes(to)
    for key, value in to.keys.items():
        path = folder / "session.nwb.zarr" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(value)
    return folder / "session.nwb.zarr"
