"""A pytest plugin under which hdmf-zarr's own tests run on this project: ``hdmf_zarr`` is the alias.

What zarr 3 says in other words than zarr 2 is given under the old name where it means the same. ``write_dataset`` and
``write_attributes`` of single objects, which this project does not have, are written as part of a whole file.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py_view
import numpy as np
import pytest
import zarr
import zarr.storage
import zarr2_calls
from hdmf.build import DatasetBuilder, GroupBuilder

import hdmf_zarr_backend.alias

hdmf_zarr_backend.alias.install_hdmf_zarr_alias()

import hdmf_zarr  # noqa: E402


class DirectoryStore(os.PathLike):
    """A store of zarr 2 that is a local folder."""

    def __init__(self, path):
        self.path = os.fspath(path)

    def __fspath__(self):
        return self.path


class NestedDirectoryStore(DirectoryStore):
    """The same folder with another layout of chunks, which is not that of the written file here."""


class OpenAttributes:
    """Attributes as zarr 2 answers while it writes: a tuple that was set is a tuple still."""

    def __init__(self, attributes):
        self._attributes = attributes

    def __getitem__(self, name):
        value = self._attributes[name]
        return tuple(value) if isinstance(value, list) else value

    def asdict(self):
        return self._attributes.asdict()


class OpenArray(h5py_view.LazyArray):
    """An array with its filters in a list, as zarr 2 has them."""

    @property
    def filters(self):
        return list(super().filters)


class OpenFile:
    """``ZarrIO._file`` while a new file is written: what is on disk at the moment of asking."""

    def __init__(self, path):
        self.path = Path(path)

    @property
    def _group(self):
        return zarr.open_group(self.path, mode="r", zarr_format=2, use_consolidated=False)

    @property
    def attrs(self):
        return OpenAttributes(self._group.attrs)

    @property
    def store(self):
        return self._group.store

    def __getitem__(self, name):
        data = h5py_view.value_of(self.path, name)
        if not isinstance(data, h5py_view.LazyArray):
            return self._group[name]
        shown = object.__new__(OpenArray)
        shown.__dict__.update(data.__dict__)
        return shown

    def __contains__(self, name):
        return name in self._group


def _write_dataset(self, parent, builder, **options):
    root = vars(self).setdefault("_root_of_parts", GroupBuilder("root"))
    root.set_dataset(builder)
    self.write_builder(root, **options)


def _write_attributes(self, obj, attributes):
    self.write_builder(GroupBuilder("root", attributes=attributes))


def _list_fill(self, parent, name, data, options=None):
    dtype = (options or {}).get("dtype")
    _write_dataset(self, parent, DatasetBuilder(name, data, dtype=dtype and np.dtype(dtype).name))
    return self._file[name]


def _file(self):
    if self.mode in ("w", "w-", "x", "a"):
        return OpenFile(self.source)
    return super(hdmf_zarr.ZarrIO, self)._file


zarr.storage.DirectoryStore = DirectoryStore
zarr.storage.NestedDirectoryStore = NestedDirectoryStore
zarr2_calls.install()
hdmf_zarr.ZarrIO.write_dataset = _write_dataset
hdmf_zarr.ZarrIO.write_attributes = _write_attributes
hdmf_zarr.ZarrIO.__list_fill__ = _list_fill
hdmf_zarr.ZarrIO._file = property(_file)


@pytest.fixture(autouse=True)
def _folder_of_its_own(request, tmp_path, monkeypatch):
    """Run each test in an empty folder."""
    (tmp_path / "tests").symlink_to(request.config.rootpath / "tests")
    monkeypatch.chdir(tmp_path)
