"""What h5py raises where HDF5 cannot read a file -> one error of ours that names the file and the node."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.errors import DamagedFileError, ZarrBackendError
from hdmf_zarr_backend.hdf5.rawfiles import H5_ERRORS, without_raw_file

__all__ = ["H5_ERRORS", "UnreadableHdf5Error", "reading", "unreadable"]


class UnreadableHdf5Error(DamagedFileError, OSError):
    """HDF5 cannot read a file, or a node of it; an ``OSError`` as well, as h5py raises one."""


@contextmanager
def reading(location: str, path: str | None, creation: Any = None) -> Iterator[None]:
    """Turn what h5py raises into `UnreadableHdf5Error`, and name file and node in errors of ours.

    Parameters
    ----------
    location : str
        The HDF5 file.
    path : str or None
        The node that is read; None: not known yet.
    creation : h5py.h5p.PropDCID, optional
        Of a dataset whose values are read: they may lie in another file, which is gone.
    """
    try:
        yield
    except ZarrBackendError as error:
        raise error.located(store=location, path=path) from error.__cause__
    except H5_ERRORS as error:
        gone = None if creation is None else without_raw_file(creation, location, path or "/")
        raise unreadable(error, location, path) if gone is None else gone from error


def unreadable(error: Exception, location: str, path: str | None) -> UnreadableHdf5Error:
    """Return the error of a node that HDF5 cannot read, for what h5py raised."""
    return UnreadableHdf5Error(
        f"HDF5 cannot read this ({str(error).strip(chr(39)) or type(error).__name__})",
        store=location,
        path=path,
        remedy="If a filter is missing, install hdf5plugin; otherwise the file is damaged there (h5dump says more).",
    )
