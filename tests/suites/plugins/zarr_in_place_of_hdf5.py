"""A pytest plugin that puts this project's classes in the place of hdmf's and pynwb's classes for HDF5.

It is loaded before a suite is imported, so that ``from hdmf.backends.hdf5 import HDF5IO`` in a test gives `HDF5IO` of
this module. Only names and file operations change; what a test asserts stays.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import hdmf.backends.hdf5
import hdmf.common
import hdmf.testing
import numcodecs

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO

try:
    import pynwb
except ModuleNotFoundError:
    pynwb = None

_REAL_HDF5IO = hdmf.backends.hdf5.HDF5IO
_REAL_DATAIO = hdmf.backends.hdf5.H5DataIO
_REAL_NWBHDF5IO = pynwb.NWBHDF5IO if pynwb else None


def _path_of(path, file):
    if path is None and file is None:
        raise ValueError("Either the 'path' or 'file' argument must be supplied.")
    return file.filename if path is None else path


class HDF5IO(ZarrIO):
    """`ZarrIO` with the signature of hdmf's HDF5IO."""

    def __init__(self, path=None, mode="r", manager=None, comm=None, file=None, driver=None, aws_region=None, herd_path=None):
        super().__init__(_path_of(path, file), mode, manager, herd_path=herd_path)


class NWBHDF5IO(NWBZarrIO):
    """`NWBZarrIO` with the signature of pynwb's NWBHDF5IO."""

    def __init__(
        self, path=None, mode="r", load_namespaces=True, manager=None, file=None, comm=None, driver=None, aws_region=None, herd_path=None
    ):
        super().__init__(_path_of(path, file), mode, manager, load_namespaces=load_namespaces, herd_path=herd_path)


class H5DataIO(ZarrDataIO):
    """`ZarrDataIO` with the arguments of H5DataIO that mean something on Zarr; the others are dropped."""

    def __init__(
        self,
        data=None,
        maxshape=None,
        chunks=None,
        compression=None,
        compression_opts=None,
        fillvalue=None,
        shuffle=None,
        fletcher32=None,
        link_data=False,
        allow_plugin_filters=False,
        shape=None,
        dtype=None,
        **options,
    ):
        if compression is not None:
            options["compressor"] = compression and numcodecs.GZip(compression_opts if isinstance(compression_opts, int) else 4)
        super().__init__(data, chunks=chunks or None, fillvalue=fillvalue, link_data=link_data, maxshape=maxshape, **options)


_REPLACEMENTS = {_REAL_HDF5IO: HDF5IO, _REAL_DATAIO: H5DataIO}
if pynwb:
    _REPLACEMENTS[_REAL_NWBHDF5IO] = NWBHDF5IO
    import pynwb.testing  # noqa: F401


def _replace_names() -> None:
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] not in ("hdmf", "pynwb") or name == "hdmf.build.objectmapper":
            continue
        for attribute, value in list(vars(module).items()):
            if isinstance(value, type) and value in _REPLACEMENTS:
                setattr(module, attribute, _REPLACEMENTS[value])


def _remove(path, *args, **kwargs):
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        _os_remove(path, *args, **kwargs)


_os_remove = os.remove
_replace_names()
os.remove = _remove
