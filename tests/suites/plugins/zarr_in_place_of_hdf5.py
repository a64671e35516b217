"""A pytest plugin that puts this project's classes in the place of hdmf's and pynwb's classes for HDF5.

It is loaded before a suite is imported, so that ``from hdmf.backends.hdf5 import HDF5IO`` in a test gives `HDF5IO` of
this module. Only names, signatures and file operations change; what a test asserts stays.
"""

from __future__ import annotations

import os
import shutil
import sys

import h5py
import h5py_view
import hdmf.backends.hdf5
import hdmf.common
import hdmf.testing
import hdmf.utils
import numcodecs
import numpy as np
import zarr
import zarr2_calls
from hdmf.build import DatasetBuilder

from hdmf_zarr_backend import NWBZarrIO, ZarrDataIO, ZarrIO
from hdmf_zarr_backend.alias import install_hdmf_zarr_alias

try:
    import pynwb
    import pynwb.testing
except ModuleNotFoundError:
    pynwb = None

_REAL_HDF5IO = hdmf.backends.hdf5.HDF5IO
_REAL_DATAIO = hdmf.backends.hdf5.H5DataIO
_REAL_STRDATASET = hdmf.utils.StrDataset


def _path_of(path, file):
    if path is None and file is None:
        raise ValueError("neither path nor file is given")
    if path is not None and file is not None and os.path.abspath(file.filename) != os.path.abspath(path):
        raise ValueError(f"path={path!r} is another file than that of {file.filename!r}")
    return file.filename if path is None else path


class _AsHDF5IO:
    """What HDF5IO has besides HDMFIO, in terms of ZarrIO."""

    @property
    def _file(self):
        return h5py_view.FileView(self.source, self.mode)

    def close(self, close_links=True):
        if self.mode in ("w", "w-", "x", "a") and self.is_open() and not os.path.exists(self.source):
            # an HDF5 file is there as soon as it has been opened
            zarr.create_group(self.source, zarr_format=2, attributes={".specloc": "specifications"})
        super().close()

    def write_dataset(self, parent, builder, **options):
        h5py_view.write_into(parent, builder, **options)
        return parent[builder.name]

    @classmethod
    def load_namespaces(cls, namespace_catalog, path=None, namespaces=None, file=None, driver=None, aws_region=None):
        return super().load_namespaces(namespace_catalog, _path_of(path, file), namespaces)

    @classmethod
    def get_namespaces(cls, path=None, file=None, driver=None, aws_region=None):
        return super().get_namespaces(_path_of(path, file))

    @staticmethod
    def __resolve_dtype__(dtype, data):
        return np.dtype([(field["name"], field["dtype"]) for field in dtype])

    @staticmethod
    def __chunked_iter_fill__(parent, name, data, options=None):
        h5py_view.write_into(parent, DatasetBuilder(name, data))
        return parent[name]

    @staticmethod
    def __list_fill__(parent, name, data, options=None):
        dtype = (options or {}).get("dtype")
        h5py_view.write_into(parent, DatasetBuilder(name, data, dtype=dtype and np.dtype(dtype).name))
        return parent[name]


class HDF5IO(_AsHDF5IO, ZarrIO):
    """`ZarrIO` with the signature of hdmf's HDF5IO."""

    def __init__(
        self, path=None, mode="r", manager=None, comm=None, file=None, driver=None, aws_region=None, herd_path=None
    ):
        super().__init__(_path_of(path, file), mode, manager, herd_path=herd_path)


class NWBHDF5IO(_AsHDF5IO, NWBZarrIO):
    """`NWBZarrIO` with the signature of pynwb's NWBHDF5IO."""

    def __init__(
        self,
        path=None,
        mode="r",
        load_namespaces=True,
        manager=None,
        file=None,
        comm=None,
        driver=None,
        aws_region=None,
        herd_path=None,
    ):
        super().__init__(_path_of(path, file), mode, manager, load_namespaces=load_namespaces, herd_path=herd_path)

    @staticmethod
    def read_nwb(path=None, file=None):
        return NWBHDF5IO(path, file=file).read()


class H5DataIO(ZarrDataIO):
    """`ZarrDataIO` with the arguments of H5DataIO: filters of HDF5 as the codecs of the same name."""

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
        compression = "gzip" if compression is True else compression
        given = {"compression": compression, "compression_opts": compression_opts, "shuffle": shuffle}
        self._as_given = {name: value for name, value in given.items() if value is not None}
        filters = list(options.pop("filters", None) or [])
        if shuffle:
            filters.append(numcodecs.Shuffle(getattr(getattr(data, "dtype", None), "itemsize", 8)))
        if fletcher32:
            filters.append(numcodecs.Fletcher32())
        if compression is not None:
            level = compression_opts if isinstance(compression_opts, int) else 4
            options["compressor"] = numcodecs.Zlib(level) if compression else False
        if shape is not None or dtype is not None:
            options |= {"shape": shape, "dtype": dtype}
        super().__init__(
            data,
            chunks=chunks or None,
            fillvalue=fillvalue,
            filters=filters or None,
            link_data=link_data,
            maxshape=maxshape,
            **options,
        )

    @property
    def io_settings(self):
        """The settings under the names of both classes."""
        return {**super().io_settings, **self._as_given}


class StrDataset:
    """hdmf's wrapper that makes text of the bytes that h5py reads: Zarr reads text."""

    def __new__(cls, dset, encoding, errors="strict"):
        """Return what is wrapped, in hdmf's own wrapper where it is of HDF5."""
        if isinstance(dset, h5py.Dataset):
            return _REAL_STRDATASET(dset, encoding, errors)
        return h5py_view.value_of(dset.file.place, dset.path) if isinstance(dset, h5py_view.DatasetView) else dset


def _replace_names() -> None:
    replacements = {_REAL_HDF5IO: HDF5IO, _REAL_DATAIO: H5DataIO, _REAL_STRDATASET: StrDataset}
    if pynwb:
        replacements[pynwb.NWBHDF5IO] = NWBHDF5IO
    for name, module in list(sys.modules.items()):
        # objectmapper tells H5DataIO apart by isinstance: there, what is not HDF5 must stay what it is
        if name.split(".")[0] in ("hdmf", "pynwb") and name != "hdmf.build.objectmapper":
            for attribute, value in list(vars(module).items()):
                if isinstance(value, type) and value in replacements:
                    setattr(module, attribute, replacements[value])


_os_remove = os.remove


def _remove(path, *args, **kwargs):
    """Remove a file, or the folder that is the file here."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        _os_remove(path, *args, **kwargs)


def _size(path):
    """Return the size of a file, of a folder that of all files below it."""
    below = [os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names]
    return sum(map(_os_size, below)) if os.path.isdir(path) else _os_size(path)


_os_size = os.path.getsize
install_hdmf_zarr_alias()  # tests of pynwb.read_nwb look for hdmf_zarr
_replace_names()
zarr2_calls.install()
os.remove = _remove
os.path.getsize = _size
h5py.File = h5py_view.File
h5py_view.show_arrays_as_h5py_does()
