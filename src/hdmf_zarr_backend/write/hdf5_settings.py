"""What `H5DataIO` says of a dataset -> our options, as far as it means anything in Zarr.

Source: ``hdmf.backends.hdf5.H5DataIO`` for the settings and their names.
"""

from __future__ import annotations

from typing import Any

from hdmf_zarr_backend.hdf5.describe import is_dataset
from hdmf_zarr_backend.write.plan import StorageOptions

_NOT_OF_STORAGE = frozenset({"chunks", "maxshape", "fillvalue", "shape", "dtype"})


def take_settings(options: StorageOptions, wrapped: Any) -> list[str]:
    """Take chunks, maxshape and fill value over from the DataIO of another backend.

    Those of an HDF5 dataset say nothing of a copy, as `H5DataIO` itself warns.

    Parameters
    ----------
    options : StorageOptions
        Changed where ``wrapped`` says more.
    wrapped : object
        The data that were given; anything else than a DataIO with settings says nothing.

    Returns
    -------
    list of str
        The settings that are left out: filters of HDF5.
    """
    has_settings = isinstance(getattr(type(wrapped), "io_settings", None), property)
    if not has_settings or is_dataset(wrapped.data):
        return []
    settings = wrapped.io_settings
    chunks, fill = settings.get("chunks"), settings.get("fillvalue")
    if isinstance(chunks, tuple):
        options.chunks = chunks
    options.maxshape = settings.get("maxshape", options.maxshape)
    options.fill_value = fill.decode("utf-8") if isinstance(fill, bytes) else fill
    return [name for name, value in settings.items() if value and name not in _NOT_OF_STORAGE]
