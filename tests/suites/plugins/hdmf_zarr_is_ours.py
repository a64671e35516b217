"""A pytest plugin under which hdmf-zarr's own tests run on this project: ``hdmf_zarr`` is the alias.

What zarr 3 says in other words than zarr 2 is given under the old name where it means the same: stores that are a local
folder, the mode as second argument of ``zarr.open``, ``zarr.Blosc``.
"""

from __future__ import annotations

import os

import h5py_view
import numcodecs
import pytest
import zarr
import zarr.storage

import hdmf_zarr_backend

hdmf_zarr_backend.install_hdmf_zarr_alias()

import hdmf_zarr  # noqa: E402


class DirectoryStore(os.PathLike):
    """A store of zarr 2 that is a local folder."""

    def __init__(self, path):
        self.path = os.fspath(path)

    def __fspath__(self):
        return self.path


class NestedDirectoryStore(DirectoryStore):
    """The same folder with another layout of chunks, which is not that of the written file here."""


def _write_dataset(self, parent, builder, **options):
    self.close()
    h5py_view.write_into(h5py_view.FileView(self.source), builder, **options)
    return h5py_view.FileView(self.source)[builder.name]


_zarr_open = zarr.open


def _open(store=None, mode=None, **options):
    if isinstance(store, DirectoryStore):
        store = store.path
    return _zarr_open(store, **({} if mode is None else {"mode": mode}), **options)


zarr.storage.DirectoryStore = DirectoryStore
zarr.storage.NestedDirectoryStore = NestedDirectoryStore
zarr.Blosc = numcodecs.Blosc
zarr.open = _open
hdmf_zarr.ZarrIO.write_dataset = _write_dataset
h5py_view.show_arrays_as_h5py_does()


@pytest.fixture(autouse=True)
def _folder_of_its_own(request, tmp_path, monkeypatch):
    """Run each test in an empty folder."""
    (tmp_path / "tests").symlink_to(request.config.rootpath / "tests")
    monkeypatch.chdir(tmp_path)
