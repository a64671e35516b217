"""HDF5 pipelines by name: what h5py takes to create them, and whether their chunks are Zarr chunks."""

from __future__ import annotations

import ctypes
import glob
import os
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest

_BLOSC = {
    f"blosc-{name}-{shuffle}": dict(hdf5plugin.Blosc(cname=name, clevel=5, shuffle=shuffle))
    for name in ("blosclz", "lz4", "lz4hc", "zlib", "zstd")
    for shuffle in (0, 1, 2)
}
_GZIP = {"compression": "gzip"}

#: Pipelines whose chunks can be copied: what `h5py.Group.create_dataset` is given.
COPIED: dict[str, dict[str, Any]] = {
    "none": {},
    "shuffle": {"shuffle": True},
    "gzip": {**_GZIP, "compression_opts": 9},
    "shuffle-gzip": {**_GZIP, "shuffle": True},
    "fletcher32": {"fletcher32": True},
    "shuffle-fletcher32": {"shuffle": True, "fletcher32": True},
    "gzip-fletcher32": {**_GZIP, "fletcher32": True},
    "shuffle-gzip-fletcher32": {**_GZIP, "shuffle": True, "fletcher32": True},
    "zstd": dict(hdf5plugin.Zstd(clevel=7)),
    "zstd-negative": {"compression": 32015, "compression_opts": (2**32 - 3,)},
    "shuffle-zstd": {"shuffle": True, **hdf5plugin.Zstd()},
    "shuffle-zstd-fletcher32": {"shuffle": True, "fletcher32": True, **hdf5plugin.Zstd()},
    "bzip2": dict(hdf5plugin.BZip2(blocksize=5)),
    "shuffle-bzip2": {"shuffle": True, **hdf5plugin.BZip2()},
    "shuffle-blosc": {"shuffle": True, **hdf5plugin.Blosc()},
    "lz4": dict(hdf5plugin.LZ4()),
    "lz4-blocks": dict(hdf5plugin.LZ4(nbytes=128)),
    "shuffle-lz4": {"shuffle": True, **hdf5plugin.LZ4()},
    **_BLOSC,
}

#: Pipelines that only HDF5 decodes.
DECODED: dict[str, dict[str, Any]] = {
    "lzf": {"compression": "lzf"},
    "shuffle-lzf": {"compression": "lzf", "shuffle": True},
    "scaleoffset": {"scaleoffset": 0},
    "bitshuffle": dict(hdf5plugin.Bitshuffle()),
    "blosc2": dict(hdf5plugin.Blosc2()),
    "blosc-snappy": {"compression": 32001, "compression_opts": (0, 0, 0, 0, 5, 1, 3)},
    "lz4-fletcher32": {"fletcher32": True, **hdf5plugin.LZ4()},
    "zfp": dict(hdf5plugin.Zfp(reversible=True)),
}


def pipeline_in(dataset: Any) -> list[list[Any]]:
    """Return the pipeline of an ``h5py.Dataset`` as a note keeps it."""
    created = dataset.id.get_create_plist()
    entries = [created.get_filter(number) for number in range(created.get_nfilters())]
    return [[int(code), int(flags), [int(v) for v in values]] for code, flags, values, _ in entries]


def create_with(
    file: Any, name: str, shape: tuple[int, ...], dtype: Any, *, chunks: Any, filters: Any, **kw: Any
) -> Any:
    """Create a dataset with filters in an order of their own, ``[(number, flags, options), ...]``."""
    created = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    created.set_chunk(chunks)
    for number, flags, options in filters:
        created.set_filter(number, flags, tuple(options))
    if kw.get("skip_edges"):
        _library().H5Pset_chunk_opts(created.id, 2)  # H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS
    space = h5py.h5s.create_simple(shape, kw.get("maxshape", shape))
    tid = h5py.h5t.py_create(np.dtype(dtype), logical=True)
    return h5py.Dataset(h5py.h5d.create(file.id, name.encode(), tid, space, created))


def _library() -> Any:
    """Return the HDF5 library that h5py has loaded, for what h5py has no name for."""
    folder = os.path.dirname(h5py.__file__)
    found = glob.glob(os.path.join(folder, os.pardir, "h5py.libs", "libhdf5-*"))
    if not found:
        pytest.skip("the HDF5 library of this h5py is not beside it")
    library = ctypes.CDLL(found[0])
    library.H5Pset_chunk_opts.argtypes = [ctypes.c_int64, ctypes.c_uint]
    return library
