"""What h5py would show of a Zarr file, for tests that open the written file with h5py to look at it.

Groups, links and attributes are read from the documents on disk, not through this project; only the values of arrays
come from `ZarrIO`. A change (an attribute set, a group moved) is made in the documents, and drops the consolidated one.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, MutableMapping
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, patch

import h5py
import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.array.lazy import LazyArray
from hdmf_zarr_backend.store import transaction

_REAL_FILE = h5py.File
_NAMES = {"zlib": "gzip"}  # what h5py calls a codec

#: Test modules whose own ``h5py.File(path, "w")`` represents a file of the backend: columns of tables are made there.
MAKE_ZARR_FILES = ("tests.unit.common.test_table",)


class File(_REAL_FILE):
    """``h5py.File`` for HDF5 files, a `FileView` where a Zarr file is named."""

    def __new__(cls, name=None, mode="r", *args, **kwargs):
        if isinstance(name, (str, os.PathLike)):
            caller = sys._getframe(1).f_globals.get("__name__", "")
            if os.path.isdir(name) or (mode == "w" and caller.endswith(MAKE_ZARR_FILES)):
                return FileView(name, mode)
        return _REAL_FILE(name, mode, *args, **kwargs)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


class AttributesView(MutableMapping[str, Any]):
    """The attributes of one node that a user sees."""

    def __init__(self, node: NodeView) -> None:
        self._node = node
        self._path = node.folder / ".zattrs"

    def _visible(self) -> dict[str, Any]:
        hidden = ("_", ".specloc", "zarr_dtype", "zarr_link")
        document = _json(self._path)
        return {name: value for name, value in document.items() if name == ".specloc" or not name.startswith(hidden)}

    def _write(self, document: dict[str, Any]) -> None:
        self._path.write_text(json.dumps(document), encoding="utf-8")
        self._node.file.changed()

    def __getitem__(self, name: str) -> Any:
        value = self._visible()[name]
        if isinstance(value, dict) and value.get("zarr_dtype") == "object":
            return ReferenceView(value["value"]["path"])
        return value

    def __setitem__(self, name: str, value: Any) -> None:
        value = value.item() if isinstance(value, np.generic) else value
        value = value.decode() if isinstance(value, bytes) else value
        self._write({**_json(self._path), name: value})

    def __delitem__(self, name: str) -> None:
        document = _json(self._path)
        del document[name]
        self._write(document)

    def __iter__(self) -> Iterator[str]:
        return iter(self._visible())

    def __len__(self) -> int:
        return len(self._visible())


class ReferenceView(h5py.Reference):
    """An object reference: the path of its target."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __bool__(self) -> bool:
        return True


class NodeView:
    def __init__(self, file: FileView, path: str) -> None:
        self.file = file
        self.path = path
        self.name = f"/{path}"

    @property
    def folder(self) -> Path:
        return self.file.place / self.path

    @property
    def attrs(self) -> AttributesView:
        return AttributesView(self)

    @property
    def parent(self) -> GroupView:
        return GroupView(self.file, self.path.rpartition("/")[0])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodeView) and (self.file.place, self.path) == (other.file.place, other.path)

    __hash__ = None


class GroupView(NodeView):
    def _links(self) -> dict[str, dict[str, Any]]:
        return {entry["name"]: entry for entry in _json(self.folder / ".zattrs").get("zarr_link", [])}

    def keys(self) -> list[str]:
        if not self.folder.is_dir():
            return []
        members = {
            document.parent.name for mark in (".zgroup", ".zarray") for document in self.folder.glob(f"*/{mark}")
        }
        return sorted({*members, *self._links()})

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.keys())

    def values(self) -> list[Any]:
        return [self[name] for name in self.keys()]

    def items(self) -> list[tuple[str, Any]]:
        return [(name, self[name]) for name in self.keys()]

    def __contains__(self, path: str) -> bool:
        return self.get(path) is not None

    def get(self, path: str, default: Any = None, *, getlink: bool = False) -> Any:
        """Return a member, or with ``getlink`` the kind of link that leads to it."""
        if getlink:
            parent, _, name = path.strip("/").rpartition("/")
            group = self[parent] if parent else self
            entry = group._links().get(name)
            if entry is None:
                return h5py.HardLink()
            if entry["source"] == ".":
                return h5py.SoftLink(entry["path"])
            return h5py.ExternalLink(entry["source"], entry["path"])
        try:
            return self[path]
        except KeyError:
            return default

    def __getitem__(self, path: str | ReferenceView) -> Any:
        if isinstance(path, ReferenceView):
            path = path.path
        node: Any = self.file if path.startswith("/") else self
        for name in path.strip("/").split("/"):
            if name:
                node = node._member(name)
        return node

    def _member(self, name: str) -> Any:
        entry = self._links().get(name)
        if entry is not None:
            place = self.file.place if entry["source"] == "." else (self.file.place / entry["source"]).resolve()
            return FileView(place, "r", shown=self.file.filename if entry["source"] == "." else None)[entry["path"]]
        path = f"{self.path}/{name}".strip("/")
        folder = self.file.place / path
        if (folder / ".zgroup").exists():
            return GroupView(self.file, path)
        if (folder / ".zarray").exists():
            return dataset_view(self.file, path)
        raise KeyError(f"Unable to open object (object '{name}' doesn't exist)")

    def __setitem__(self, name: str, target: h5py.SoftLink) -> None:
        document = _json(self.folder / ".zattrs")
        entry = {"name": name, "source": ".", "path": target.path, "object_id": None, "source_object_id": None}
        document["zarr_link"] = [*document.get("zarr_link", []), entry]
        (self.folder / ".zattrs").write_text(json.dumps(document), encoding="utf-8")
        self.file.changed()

    def move(self, old: str, new: str) -> None:
        shutil.move(self.file.place / old.strip("/"), self.file.place / new.strip("/"))
        self.file.changed()

    def create_dataset(self, name: str, data: Any) -> Any:
        """Write a dataset with `ZarrIO`, and return the array that reading gives."""
        path, _, name = f"{self.path}/{name}".strip("/").rpartition("/")
        dtype = None
        if getattr(data, "dtype", np.dtype(int)).names:
            dtype = [{"name": n, "dtype": data.dtype[n].name, "doc": n} for n in data.dtype.names]
        write_into(GroupView(self.file, path), DatasetBuilder(name, data, dtype=dtype))
        return self.file[f"{path}/{name}"]


class FileView(GroupView):
    def __init__(self, place: str | os.PathLike[str], mode: str = "r", shown: str | None = None) -> None:
        self.filename = shown or str(place)
        self.place = Path(os.path.abspath(place))
        self.mode = mode
        super().__init__(self, "")

    def __enter__(self) -> FileView:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Do nothing: every access opens what it needs."""

    def __bool__(self) -> bool:
        return True

    def changed(self) -> None:
        """Drop the consolidated document, which a change has made stale."""
        (self.place / ".zmetadata").unlink(missing_ok=True)


def write_into(group: GroupView, builder: DatasetBuilder, **options: Any) -> None:
    """Add a dataset to a group of a file, which is made where there is none."""
    root = GroupBuilder("root")
    below = root
    for name in filter(None, group.path.split("/")):
        child = GroupBuilder(name)
        below.set_group(child)
        below = child
    below.set_dataset(builder)
    # the test writes through the io that it has open, and that one holds the lock
    with patch.object(transaction, "writer_lock", return_value=MagicMock()), ZarrIO(str(group.file.place), "a") as io:
        io.write_builder(root, **options)


def value_of(place: Path, path: str) -> Any:
    """Return what `ZarrIO` reads at a path: a lazy array, a view of references or rows, or a scalar."""
    io = ZarrIO(str(place), "r")
    builder = io.read_builder()
    for name in path.split("/"):
        builder = builder[name]
    return builder.data


class DatasetView(NodeView):
    """A dataset whose values h5py shows in another form: a scalar, text (as bytes), rows, references."""

    @property
    def _document(self) -> dict[str, Any]:
        return _json(self.folder / ".zarray")

    @property
    def _is_scalar(self) -> bool:
        document = _json(self.folder / ".zattrs")
        return document.get("zarr_dtype") == "scalar" or document.get("_hdmf", {}).get("scalar", False)

    @property
    def _data(self) -> Any:
        if not _is_user_data(self.file, self.path):
            import zarr

            return zarr.open_array(self.folder, mode="r", zarr_format=2)[...].reshape(-1)[0]
        return value_of(self.file.place, self.path)

    @property
    def shape(self) -> tuple[int, ...]:
        return () if self._is_scalar else self._data.shape

    @property
    def maxshape(self) -> Any:
        return self._data.maxshape

    @property
    def chunks(self) -> tuple[int, ...]:
        return tuple(self._document["chunks"])

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy data type, of references and text h5py's own."""
        attributes = _json(self.folder / ".zattrs")
        if attributes.get("zarr_dtype") == "object":
            return h5py.ref_dtype
        if attributes.get("zarr_dtype") in ("str", "bytes"):
            is_ascii = attributes.get("_hdmf", {}).get("text") == "ascii" or attributes["zarr_dtype"] == "bytes"
            return h5py.special_dtype(vlen=bytes if is_ascii else str)
        return np.asarray(self._data if self._is_scalar else self._data[...]).dtype

    def __getitem__(self, key: Any) -> Any:
        word = _json(self.folder / ".zattrs").get("zarr_dtype")
        if word == "object":
            targets = self._data[key]
            return [_reference(t) for t in targets] if isinstance(targets, list) else _reference(targets)
        if self._is_scalar:
            return _as_bytes(self._data)
        if isinstance(key, str):
            return _as_bytes(np.asarray(self._data[:][key]))
        return _as_bytes(self._data[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        import zarr

        zarr.open_array(self.folder, mode="r+", zarr_format=2)[...] = value
        self.file.changed()

    def __len__(self) -> int:
        return self.shape[0]


def _reference(builder: Any) -> ReferenceView:
    return ReferenceView(f"{builder.location.rstrip('/')}/{builder.name}")


def _as_bytes(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, np.ndarray) and value.dtype == object:
        coded = np.empty(value.shape, object)
        for index in np.ndindex(*value.shape):
            coded[index] = _as_bytes(value[index])
        return coded
    return value


def _is_user_data(file: FileView, path: str) -> bool:
    hidden = _json(file.place / ".zattrs").get(".specloc")
    if isinstance(hidden, dict):
        hidden = hidden.get("value", {}).get("path", "")
    return not hidden or not f"/{path}/".startswith(f"/{hidden.strip('/')}/")


def dataset_view(file: FileView, path: str) -> Any:
    """Return the lazy array itself where its values are what h5py would show, a `DatasetView` otherwise."""
    view = DatasetView(file, path)
    if view._is_scalar or not _is_user_data(file, path):
        return view
    data = value_of(file.place, path)
    if not isinstance(data, LazyArray) or data.dtype.hasobject:
        return view
    shown = object.__new__(ArrayView)
    shown.__dict__.update(data.__dict__)
    return shown


class ArrayView(LazyArray):
    """The lazy array itself, with attributes that can be set."""

    @property
    def attrs(self) -> AttributesView:
        return AttributesView(NodeView(FileView(self.location), self.path))


class _Identity:
    """``Dataset.id`` with what the tests use of it: Zarr arrays are read whether or not the io is closed."""

    valid = True


def show_arrays_as_h5py_does() -> None:
    """Give `LazyArray` and `DatasetView` the properties of ``h5py.Dataset`` that tests look at."""

    def node(self: Any) -> dict[str, Any]:
        if isinstance(self, DatasetView):
            return self._document
        return _json(Path(self.location, self.path, ".zarray"))

    def compressor(self: Any) -> dict[str, Any]:
        return node(self)["compressor"] or {}

    def has_filter(name: str) -> property:
        return property(lambda self: any(config["id"] == name for config in node(self)["filters"] or []))

    properties: dict[str, Any] = {
        "compression": property(lambda self: _NAMES.get(compressor(self).get("id"), compressor(self).get("id"))),
        "compression_opts": property(lambda self: compressor(self).get("level")),
        "shuffle": has_filter("shuffle"),
        "fletcher32": has_filter("fletcher32"),
        "fillvalue": property(lambda self: node(self)["fill_value"]),
        "id": property(lambda self: _Identity()),
    }
    for cls in (LazyArray, DatasetView):
        for name, value in properties.items():
            setattr(cls, name, value)
    LazyArray.file = property(lambda self: FileView(self.location))
    LazyArray.parent = property(lambda self: GroupView(FileView(self.location), self.path.rpartition("/")[0]))
