"""A pytest plugin that puts this package in the place of hdmf-zarr 0.14 for the suite of that release.

New files are of format 3, as with hdmf-zarr 0.14, whose tests look at what is on disk.
"""

from __future__ import annotations

import os

import open_files

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


hdmf_zarr.utils.ZarrIODataChunkIteratorQueue = type("ZarrIODataChunkIteratorQueue", (), {})  # to be imported
hdmf_zarr.ZarrIO.__init__ = _new_files_of_format_3
open_files.install(hdmf_zarr.ZarrIO)
