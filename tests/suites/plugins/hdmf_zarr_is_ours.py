"""A pytest plugin under which hdmf-zarr's own tests run on this project: ``hdmf_zarr`` is the alias.

What zarr 3 says in other words than zarr 2 is given under the old name where it means the same.
"""

from __future__ import annotations

import os

import h5py_view
import open_files
import zarr.storage
import zarr2_calls

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


class OpenArray(h5py_view.LazyArray):
    """An array with its filters in a list, as zarr 2 has them."""

    @property
    def filters(self):
        return list(super().filters)


zarr.storage.DirectoryStore = DirectoryStore
zarr.storage.NestedDirectoryStore = NestedDirectoryStore
zarr2_calls.install()
open_files.install(hdmf_zarr.ZarrIO, OpenArray)
