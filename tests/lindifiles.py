"""Writes the file of references that LINDI makes of an HDF5 file, for what NWB files contain.

Small arrays, text, references and rows are in the file itself, as zarr 2 stores them; the chunks of large arrays are
byte ranges of the HDF5 file; what has too many chunks is named only.

Source: LINDI 0.4, what its converter was seen to do; "Special Zarr annotations".
"""

from __future__ import annotations

import base64
import json
import math
from pathlib import Path
from typing import Any

import h5py
import numcodecs
import numpy as np

INLINE = 1000
"""Arrays of numbers with fewer elements are in the file itself, if they have some."""

_BLOSC = numcodecs.Blosc(cname="lz4", clevel=5, shuffle=1, blocksize=0)
_JSON = numcodecs.JSON()


def write_lindi(source: Path, target: Path, *, url: str, external: tuple[str, ...] = ()) -> Path:
    """Write the file of references of an HDF5 file.

    Parameters
    ----------
    source, target : Path
        The HDF5 file, and the JSON.
    url : str
        What the references name.
    external : tuple of str
        Datasets that are named only.
    """
    with h5py.File(source, "r") as file:
        lindi = _Lindi(file, url, external)
        lindi.add_group("", file)
    target.write_text(json.dumps({"refs": lindi.references, "version": 1, "templates": {"u1": url}}, allow_nan=False))
    return target


class _Lindi:
    def __init__(self, file: Any, url: str, external: tuple[str, ...]) -> None:
        self.references: dict[str, Any] = {}
        self._file = file
        self._url = url
        self._external = external

    def add_group(self, path: str, group: Any) -> None:
        self._add_attributes(path, group, {})
        self.references[_key(path, ".zgroup")] = {"zarr_format": 2}
        for name in group:
            place = f"{path}/{name}" if path else name
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.SoftLink):
                self.references[_key(place, ".zattrs")] = {"_SOFT_LINK": {"path": link.path}}
                self.references[_key(place, ".zgroup")] = {"zarr_format": 2}
            elif isinstance(group[name], h5py.Group):
                self.add_group(place, group[name])
            else:
                self._add_dataset(place, group[name])

    def _add_attributes(self, path: str, node: Any, more: dict[str, Any]) -> None:
        attributes = {name: self._attribute(value) for name, value in node.attrs.items()} | more
        if attributes:
            self.references[_key(path, ".zattrs")] = attributes

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, h5py.Reference):
            return self._reference(value)
        if isinstance(value, bytes):
            return value.decode()
        if isinstance(value, np.ndarray):
            return _spelled(value.tolist())
        return _spelled(value.item() if isinstance(value, np.generic) else value)

    def _reference(self, value: Any) -> dict[str, Any]:
        name = h5py.h5r.get_name(value, self._file.id).decode()
        return {
            "_REFERENCE": {
                "object_id": self._file[name].attrs.get("object_id"),
                "path": name,
                "source": ".",
                "source_object_id": self._file.attrs.get("object_id"),
            }
        }

    def _add_dataset(self, path: str, dataset: Any) -> None:
        more: dict[str, Any] = {}
        if path in self._external:
            more["_EXTERNAL_ARRAY_LINK"] = {"link_type": "hdf5_dataset", "url": self._url, "name": path}
        if dataset.shape == ():
            more["_SCALAR"] = True
        elif dataset.dtype.names is not None:
            more["_COMPOUND_DTYPE"] = [[name, _word(dataset.dtype[name])] for name in dataset.dtype.names]
        self._add_attributes(path, dataset, more)
        is_large = not 0 < dataset.size < INLINE or path in self._external
        if dataset.shape != () and dataset.dtype.kind in "iuf" and is_large:
            self._refer(path, dataset)
        else:
            self._add_values(path, dataset)

    def _refer(self, path: str, dataset: Any) -> None:
        filters: list[Any] = []
        if dataset.shuffle:
            filters.append({"id": "shuffle", "elementsize": dataset.dtype.itemsize})
        if dataset.compression == "gzip":
            filters.append({"id": "zlib", "level": dataset.compression_opts})
        chunks = dataset.chunks or (dataset.shape if dataset.size else (1,) * dataset.ndim)
        self._document(path, dataset.shape, chunks, dataset.dtype.str, filters, None, dataset.fillvalue.item())
        if path in self._external or not dataset.size:
            return
        if dataset.chunks is None:
            name = ".".join("0" * dataset.ndim)
            self.references[f"{path}/{name}"] = ["{{u1}}", dataset.id.get_offset(), dataset.id.get_storage_size()]
            return
        for number in range(dataset.id.get_num_chunks()):
            info = dataset.id.get_chunk_info(number)
            name = ".".join(str(start // size) for start, size in zip(info.chunk_offset, chunks, strict=True))
            self.references[f"{path}/{name}"] = ["{{u1}}", info.byte_offset, info.size]

    def _add_values(self, path: str, dataset: Any) -> None:
        values = dataset[()]
        if dataset.shape == ():
            values = np.array([values.decode() if isinstance(values, bytes) else values])
        elif dataset.dtype.names is not None:
            rows = [tuple(self._cell(row[name]) for name in dataset.dtype.names) for row in values]
            values = _objects(rows, dataset.shape)
        elif dataset.dtype.kind == "O":
            values = _objects([self._cell(item) for item in values.reshape(-1)], dataset.shape)
        is_json = values.dtype == object
        config = [_JSON.get_config()] if is_json else None
        chunks = values.shape if values.size else (1,) * values.ndim
        self._document(path, values.shape, chunks, values.dtype.str, config, _BLOSC.get_config(), _zero(values.dtype))
        if values.size:
            chunk = _BLOSC.encode(_JSON.encode(values) if is_json else np.ascontiguousarray(values))
            name = ".".join("0" * values.ndim)
            self.references[f"{path}/{name}"] = _text(chunk)

    def _cell(self, value: Any) -> Any:
        if isinstance(value, h5py.Reference):
            return self._reference(value)
        if isinstance(value, bytes):
            return value.decode()
        return value.item() if isinstance(value, np.generic) else value

    def _document(
        self, path: str, shape: Any, chunks: Any, dtype: str, filters: Any, compressor: Any, fill_value: Any
    ) -> None:
        self.references[f"{path}/.zarray"] = {
            "chunks": list(chunks),
            "compressor": compressor,
            "dtype": dtype,
            "fill_value": _spelled(fill_value),
            "filters": filters or None,
            "order": "C",
            "shape": list(shape),
            "zarr_format": 2,
        }


def _key(path: str, name: str) -> str:
    return f"{path}/{name}" if path else name


def _text(chunk: bytes) -> str:
    return chunk.decode() if chunk.isascii() else f"base64:{base64.b64encode(chunk).decode()}"


def _word(dtype: Any) -> str:
    return "<REFERENCE>" if h5py.check_ref_dtype(dtype) is h5py.Reference else str(dtype)


def _zero(dtype: Any) -> Any:
    return "" if dtype.kind == "U" else False if dtype.kind == "b" else 0


def _objects(items: list[Any], shape: tuple[int, ...]) -> Any:
    array = np.empty(len(items), dtype=object)
    for position, item in enumerate(items):
        array[position] = item
    return array.reshape(shape)


def _spelled(value: Any) -> Any:
    """Return numbers that JSON does not have as text, as LINDI writes them."""
    if isinstance(value, list):
        return [_spelled(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value
