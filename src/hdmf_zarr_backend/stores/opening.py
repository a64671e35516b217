"""What a user gives as the place of a file -> its keys. Nothing is touched yet, and no library of a store is loaded.

=============================  =========================================================================
``"/a/b.nwb.zarr"``, a Path,   `LocalKeys`
``"file://"``, ``"local://"``
``"/a/b.nwb.zarr.zip"``        `ZipKeys`
``"/a/b.nwb.zarr.json"``       `ReferenceKeys`
``"s3://"``, ``"gs://"``,      `ObjectKeys` where obstore is installed and knows the options, else `FsspecKeys`
``"az://"``, ``"https://"``
any other URL, ``"a::b"``      `FsspecKeys`
a mapping                      `MappingKeys`
a store or group of zarr       `ZarrStoreKeys`; `ObjectKeys` where it is a bucket that obstore has opened
=============================  =========================================================================
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hdmf_zarr_backend.errors import StoreError, StoreExistsError, UsageError, ZarrBackendError
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.stores import references as referencekeys
from hdmf_zarr_backend.stores import zip as zipkeys
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.disk import check_followed
from hdmf_zarr_backend.stores.fsspec import FsspecKeys
from hdmf_zarr_backend.stores.link_policy import authority
from hdmf_zarr_backend.stores.local import LocalKeys
from hdmf_zarr_backend.stores.memory import MappingKeys
from hdmf_zarr_backend.stores.obstore import ObjectKeys, keys_of_bucket
from hdmf_zarr_backend.stores.obstore_settings import (
    AZURE_SCHEMES,
    GOOGLE_SCHEMES,
    S3_SCHEMES,
    WEB_SCHEMES,
    object_settings,
)
from hdmf_zarr_backend.stores.paths import HDF5_SIGNATURE, is_hdf5, location_of
from hdmf_zarr_backend.stores.referenced_files import parted
from hdmf_zarr_backend.stores.references import ReferenceKeys
from hdmf_zarr_backend.stores.remote_zip import FarZipKeys
from hdmf_zarr_backend.stores.zip import ZipKeys

NOWHERE = "object://"
"""How the location of a store begins that has no address, so that no other file can name it."""

_WITH_PLACE = S3_SCHEMES | GOOGLE_SCHEMES | AZURE_SCHEMES | WEB_SCHEMES

FILE_SUFFIXES = (zipkeys.SUFFIX, referencekeys.SUFFIX)
"""How the names of local Zarr files end that are no directories."""


def open_keys(place: Any, storage_options: Mapping[str, Any] | None = None, *, replace: bool = True) -> KeyStore:
    """Return the keys of the file at ``place``; nothing is touched yet.

    Parameters
    ----------
    place : str, Path, Mapping, zarr.abc.store.Store, zarr.storage.StorePath or zarr.Group
        Path or URL, or what holds the file.
    storage_options : mapping, optional
        For URLs, in the words of fsspec or obstore.
    replace : bool
        As of `LocalKeys`.

    Raises
    ------
    UsageError
        It is nothing that a file can be in.
    """
    options = dict(storage_options or {})
    if isinstance(place, (str, os.PathLike)):
        location = location_of(place)
        return _of_url(location, options) if is_url(location) else _of_path(location, options, replace=replace)
    if options:
        raise UsageError("storage_options are for URLs", remedy="Give them to the store, when it is made.")
    return _of_object(place)


def _of_path(location: str, options: dict[str, Any], *, replace: bool) -> KeyStore:
    try:
        is_path = b"\0" not in os.fsencode(location)
    except UnicodeEncodeError:
        is_path = False
    if not is_path:
        raise UsageError(f"{location!r} is not a path", remedy="Remove the characters that no file name has.")
    if not os.path.isdir(location):
        if location.endswith(zipkeys.SUFFIX):
            return ZipKeys(location)
        if location.endswith(referencekeys.SUFFIX):
            return ReferenceKeys(location, options, folder_keys)
    return LocalKeys(location, replace=replace)


def _of_url(location: str, options: dict[str, Any]) -> KeyStore:
    scheme, _, rest = location.partition("://")
    if not rest.strip("/") and scheme in _WITH_PLACE:
        whose = "host" if scheme in WEB_SCHEMES else "bucket"
        raise UsageError(
            f"{location!r} names no place",
            store=location,
            remedy=f"Name {whose} and file: {scheme}://{whose}/a.nwb.zarr.",
        )
    if location.endswith(referencekeys.SUFFIX) and "::" not in location:
        return ReferenceKeys(location, options, folder_keys)
    if location.endswith(zipkeys.SUFFIX) and "::" not in location:
        folder, name = parted(location)
        return FarZipKeys(location, folder_keys(folder, options), name)
    return folder_keys(location, options)


def folder_keys(location: str, options: Mapping[str, Any]) -> KeyStore:
    """Return the keys below a folder or a URL, whatever its name looks like."""
    if not is_url(location):
        return LocalKeys(location)
    settings = object_settings(location, options)
    return FsspecKeys(location, options) if settings is None else ObjectKeys(location, settings, options)


def _of_object(place: Any) -> KeyStore:
    if isinstance(place, KeyStore):
        return place
    if isinstance(place, Mapping):
        filesystem = getattr(place, "fs", None)
        if (
            filesystem is not None
            and hasattr(filesystem, "unstrip_protocol")
            and not getattr(filesystem, "asynchronous", False)
        ):
            location = str(filesystem.unstrip_protocol(place.root)).rstrip("/")  # type: ignore[attr-defined] # FSMap
            return FsspecKeys(location, {}, filesystem=filesystem, root=place.root)  # type: ignore[attr-defined]
        return MappingKeys(place)
    found = _of_zarr(place)
    if found is None:
        raise UsageError(
            f"{place!r} is nothing that a Zarr file can be in",
            remedy="Give a path, a URL, a mapping, or a store or group of zarr.",
        )
    return found


def _of_zarr(place: Any) -> KeyStore | None:
    import zarr
    from zarr.abc.store import Store
    from zarr.storage import ObjectStore, StorePath

    from hdmf_zarr_backend.stores.zarr_python import keys_of_store

    path = ""
    if isinstance(place, zarr.Group):
        place = place.store_path
    if isinstance(place, StorePath):
        place, path = place.store, place.path
    if type(place).__module__.partition(".")[0] == "obstore":
        place = ObjectStore(place)
    if not isinstance(place, Store):
        return None
    bucket = keys_of_bucket(place.store, path) if isinstance(place, ObjectStore) and not place.read_only else None
    return bucket or keys_of_store(place, path)


def open_neighbour(keys: KeyStore, location: str) -> KeyStore:
    """Return the keys of another file, at ``location``, that ``keys`` link to: opened alike where that can be.

    Options, which may be credentials, go along to the same kind of store, of a web server to the same host only.
    Everything else is opened without options. The rules for reading go along in any case.

    Raises
    ------
    StoreError
        What is linked to is nothing that can be opened.
    """
    origin = keys.unwrapped
    found = origin.neighbour(location)
    if found is None:
        alike = authority(location) == authority(origin.location)
        try:
            found = open_keys(location, origin.options if alike else {})
            found.check_url()
        except UsageError as error:  # it is not the caller who said so, but a file
            raise StoreError(error.problem, store=error.store, path=error.path, remedy=error.remedy) from error
    found.read_rules = replace(keys.read_rules, is_whole=False, is_linked=True)  # of another file, that is to be seen
    return found


def is_of_hdf5(keys: KeyStore) -> bool:
    """Tell whether what is at the location of ``keys``, a path or a URL, is an HDF5 file."""
    store = keys.unwrapped
    if store.folder is not None:
        return is_hdf5(store.location)
    if not store.opens_by_url:
        return False
    folder, name = parted(store.location)
    try:
        return folder_keys(folder, store.options).beginning(name, len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    except ZarrBackendError:  # what is wrong with the place itself is told of the place
        return False


def may_exist(location: str) -> bool:
    """Tell whether a file that a link names is worth opening; of a URL only its server can tell."""
    if location.startswith(NOWHERE):
        return False
    if is_url(location) or os.path.isdir(location):
        return True
    return location.endswith(FILE_SUFFIXES) and os.path.isfile(location)


def check_free(keys: KeyStore, *, overwrite: bool, empty_folder: bool = True) -> None:
    """Refuse to make a file where something is.

    Parameters
    ----------
    keys : KeyStore
        Where the file will be.
    overwrite : bool
        Refuse nothing.
    empty_folder : bool
        Whether an empty folder may be used.

    Raises
    ------
    StoreExistsError
        Something is there, or a symbolic link that leads nowhere.
    """
    check_followed(keys.location)
    if not overwrite and keys.exists() and not (empty_folder and keys.is_empty_folder()):
        raise StoreExistsError(
            "the target exists already",
            store=keys.location,
            remedy="Choose another path, or pass overwrite=True to replace it.",
        )


def remove_empty_folder(keys: KeyStore) -> None:
    """Remove the empty folder that a new file is to take the place of, if there is one."""
    if keys.folder is not None:
        with suppress(OSError):
            os.rmdir(keys.folder)
