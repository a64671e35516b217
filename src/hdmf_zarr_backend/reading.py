"""`read_nwb`: the `NWBFile` at a path, at a URL or in a store, in Zarr or in HDF5."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from hdmf.build import BuildManager, TypeMap

from hdmf_zarr_backend.encoding.parser import not_found
from hdmf_zarr_backend.errors import IsHdf5Error, UsageError, known_arguments
from hdmf_zarr_backend.hdf5.files import reading
from hdmf_zarr_backend.hdmf.lazy import construction_errors
from hdmf_zarr_backend.hdmf.schema import ContainerError
from hdmf_zarr_backend.nwb import NWBZarrIO, check_nwb_version, extended_type_map
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.store.opening import FileSource, is_hdf5, open_store

if TYPE_CHECKING:
    from pynwb import NWBFile


@known_arguments
def read_nwb(
    source: FileSource,
    *,
    storage_options: Mapping[str, Any] | None = None,
    load_namespaces: bool = True,
    extensions: str | TypeMap | list[Any] | None = None,
    read_options: ReadOptions | None = None,
    lazy: bool | None = None,
) -> NWBFile:
    """Return the ``NWBFile`` in a file, which stays open as long as its ``NWBFile`` is used.

    Parameters
    ----------
    source : str, Path, UPath, OpenFile, mapping, zarr.abc.store.Store, StorePath, zarr.Group or icechunk.Session
        The file. In Zarr: a local directory or zip file, a file of references, a URL, or a store or group that holds
        it. In HDF5: a local file, or a URL. ``dandi://`` needs the package dandifs.
    storage_options : dict, optional
        Options for URLs, with the names of fsspec or obstore.
    load_namespaces : bool
        Load the namespaces that are cached in the file. Ignored with ``extensions``.
    extensions : str, TypeMap or list, optional
        Paths of namespaces, or type maps, to use instead of the cached namespaces.
    read_options : ReadOptions, optional
        How the file is read: limits, chunks that are not stored, links to other files. Not for a local HDF5 file, which
        pynwb reads.
    lazy : bool, optional
        Create an object when it is first accessed. None: True, except in a local HDF5 file.

    Returns
    -------
    NWBFile
        With lazy data. ``nwbfile.read_io.close()`` closes the file.

    Raises
    ------
    UnsupportedNWBError
        The file has no NWB version, or version 1.
    StoreNotFoundError, NotZarrError, MetadataError, UnreadableHdf5Error
        The file cannot be read.
    WriteError
        An HDF5 file at a URL has much data that must be decoded by HDF5: download it.
    UsageError
        An option does not apply to this file, or a library for this kind of URL is not installed.

    Notes
    -----
    An HDF5 file at a URL is read as virtual Zarr: the list of its chunks is read first, which takes some requests for
    each dataset. If you open it often, keep that list: ``convert(url, "session.nwb.zarr.json", to="virtual")``.

    Examples
    --------
    >>> from hdmf_zarr_backend import read_nwb
    >>> nwbfile = read_nwb("session.nwb.zarr")
    >>> nwbfile.acquisition["raw"].data[:3, 0]
    array([0, 2, 4], dtype=int16)
    >>> read_nwb("session.nwb").identifier == nwbfile.identifier  # HDF5
    True
    """
    store = open_store(source, storage_options, read_options)
    local = store.folder or store.zip_file
    if local is not None and not os.path.lexists(local):
        raise not_found(local, store.location)
    types: dict[str, Any] = {"load_namespaces": load_namespaces, "extensions": extensions}
    if is_hdf5(store.location):
        return _read_hdf5(store.location, types, read_options, lazy=lazy)
    with suppress(IsHdf5Error):
        return NWBZarrIO.read_nwb(store, lazy=lazy, **types)
    from hdmf_zarr_backend.virtual import virtual_store  # on use: it imports h5py

    return NWBZarrIO.read_nwb(virtual_store(store.location, store.options, store.read_rules), lazy=lazy, **types)


def _read_hdf5(location: str, types: dict[str, Any], read_options: ReadOptions | None, *, lazy: bool | None) -> NWBFile:
    """Return the ``NWBFile`` in a local HDF5 file, by pynwb."""
    from pynwb import NWBHDF5IO

    given = sorted(read_options.given()) if read_options is not None else []
    unused = next(iter(given), "lazy" if lazy else None)
    if unused is not None:
        problem = f"{unused} does not apply to a local HDF5 file, which pynwb reads"
        raise UsageError(problem, store=location, remedy=f"Leave {unused}= out, or convert the file to Zarr.")
    extensions = types["extensions"]
    manager = None if extensions is None else BuildManager(extended_type_map(extensions))
    with reading(location, "/"):
        io = NWBHDF5IO(location, "r", load_namespaces=types["load_namespaces"], manager=manager)
    try:
        check_nwb_version(io._file.attrs.get("nwb_version"), location)  # that of pynwb ends in an error for an array
        with construction_errors(io.read_builder(), location, None, None):
            return io.read()
    except BaseException as error:
        if isinstance(error, ContainerError):
            error.remedy = "Convert it with `zarrio convert --no-check`; io.replace adds to the copy what is missing."
        io.close()  # the caller gets no object that it could close
        raise
