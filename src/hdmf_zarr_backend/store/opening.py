"""`open_store`: the location of a file, or an object that holds it -> its store, without loading store libraries.

docs/how-to/stores lists what a file may be; all functions that take a file take all of these. Those that take HDF5
files too, or need to know a path or a URL before they open a file, get it from `path_or_store`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from hdmf_zarr_backend.errors import (
    ReadOnlyStoreError,
    StoreError,
    StoreExistsError,
    StoreNotFoundError,
    UsageError,
    ZarrBackendError,
)
from hdmf_zarr_backend.model import links
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.store import reference_files
from hdmf_zarr_backend.store import zip as zip_files
from hdmf_zarr_backend.store.base import Store, os_errors
from hdmf_zarr_backend.store.clouds import is_local_filesystem, open_folder, store_of_filesystem
from hdmf_zarr_backend.store.files import check_link
from hdmf_zarr_backend.store.memory import MemoryStore
from hdmf_zarr_backend.store.reference_files import ReferenceStore
from hdmf_zarr_backend.store.zip import RemoteZipStore, ZipStore


class _OfFsspec(Protocol):
    """A UPath."""

    @property
    def storage_options(self) -> Any: ...


class _Opened(Protocol):
    """A file that fsspec opens."""

    fs: Any


class _WithStore(Protocol):
    """A group or StorePath of zarr, or a session of Icechunk."""

    @property
    def store(self) -> Any: ...


class _OfZarr(Protocol):
    """A store of zarr-python 3; those of zarr-python 2 are mappings."""

    @property
    def supports_listing(self) -> bool: ...


FileSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | Store | _OfFsspec | _Opened | _WithStore | _OfZarr
"""A file as users name it: a path, a URL, or an object that holds it."""

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
NOWHERE = "object://"  # prefix of the location of a store without an address, which other files cannot refer to

_OF_REFERENCES = frozenset({"fo", "fs", "remote_protocol", "target_options", "target_protocol"})
"""Options that only fsspec's own reader of references has."""

FILE_SUFFIXES = (zip_files.SUFFIX, reference_files.SUFFIX)  # of the names of local Zarr files that are not directories


def open_store(
    file: Any, storage_options: Mapping[str, Any] | None = None, read_options: ReadOptions | None = None
) -> Store:
    """Return the store of a file, given by a path, a URL or an object, without opening the file.

    ``read_options`` hold for all its readers. None: those that a store has already.
    """
    options, address = dict(storage_options or {}), _path_of(file)
    if address is None and options:
        raise UsageError("storage_options are for URLs", remedy="Pass them to the store when you create it.")
    store = _of_object(file) if address is None else _of_location(links.location_of(address[0]), address[1] | options)
    if read_options is not None:
        store.read_rules = read_options.rules()
    return store


def path_or_store(file: Any) -> str | Store:
    """Return the absolute path or URL of a file, or its store if neither alone opens it."""
    address = _path_of(file)
    if address is None:
        return _of_object(file)
    path, own = address
    return open_store(file) if own else links.location_of(path)


def _path_of(file: Any) -> tuple[str | os.PathLike[str], dict[str, Any]] | None:
    """Return the path or URL of a file and its own options, None for an object without an address."""
    if isinstance(file, str):
        return file, {}
    # by the name of the module: importing upath or fsspec takes longer than opening a local file
    if any(kind.__module__.partition(".")[0] == "upath" for kind in type(file).__mro__):
        is_local = file.protocol in ("", "file", "local")
        return (file.path, {}) if is_local else (str(file), dict(file.storage_options))
    if isinstance(file, os.PathLike):
        return file, {}
    # a cache, or the inside of an archive, has another file system as `fs`: no URL alone opens it
    if type(file).__module__ != "fsspec.core" or hasattr(file.fs, "fs"):
        return None
    if is_local_filesystem(file.fs):
        return file.path, {}
    return file.fs.unstrip_protocol(file.path), dict(file.fs.storage_options)


def _of_location(location: str, options: dict[str, Any]) -> Store:
    """Return the store of an absolute path or a URL; its suffix names a file in a folder."""
    is_local = not links.is_url(location)
    scheme, _, rest = location.partition("://")
    if not is_local and scheme in links.SERVER_SCHEMES and not rest.strip("/"):
        whose = "host" if scheme in links.WEB_SCHEMES else "bucket"
        remedy = f"Name {whose} and file: {scheme}://{whose}/a.nwb.zarr."
        raise UsageError(f"{location!r} does not name a file", store=location, remedy=remedy)
    if scheme in links.ARCHIVES and "::" not in location and "fo" not in options:
        remedy = f"Give the path of the {scheme} file, or '{scheme}::' and its URL."
        raise UsageError(f"this is a path inside a {scheme} file that is not named", store=location, remedy=remedy)
    chain, _, inner = location.partition("::")
    is_one_file = links.ends_with(inner, reference_files.SUFFIX) and "::" not in inner
    if chain == "reference" and is_one_file and not options.keys() & _OF_REFERENCES:
        # fsspec would follow references to any file, also from a server to this machine
        return ReferenceStore(links.location_of(inner), options)
    # a folder may have any name, also "a.zip"; what a URL is, only a request could tell
    is_file = not _is_folder(location) if is_local else "::" not in location
    if is_file and links.ends_with(location, reference_files.SUFFIX):
        return ReferenceStore(location, options)
    if is_file and links.ends_with(location, zip_files.SUFFIX):
        return ZipStore(location) if is_local else RemoteZipStore(location, *open_parent(location, options))
    return open_folder(location, options)


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return False
    except ValueError as error:  # a NUL or a lone surrogate
        raise UsageError(f"{path!r} is not a path", remedy="Remove the characters that no file name has.") from error


def open_parent(location: str, options: Mapping[str, Any]) -> tuple[Store, str]:
    """Return the store of the folder of a file that the user has named, and the key of the file in it."""
    folder, name = links.split_location(location)
    store = open_folder(folder, options)
    store.named_key = name
    return store, name


def _of_object(file: Any) -> Store:
    if isinstance(file, Store):
        return file
    # stores of zarr-python 2 are mappings too
    if isinstance(file, Mapping) and type(file).__module__.partition(".")[0] != "zarr":
        return store_of_filesystem(getattr(file, "fs", None), getattr(file, "root", "")) or MemoryStore(file)
    if type(file).__module__ == "fsspec.core":
        store: Store | None = store_of_filesystem(file.fs, file.path)
    else:
        # imported here: files on a disk are opened without zarr, whose import takes longer than that
        from hdmf_zarr_backend.store.zarr_python import store_of_zarr

        store = store_of_zarr(file)
    if store is None:
        remedy = "Use a path, a URL, a mapping, a store or group of zarr, or a session of Icechunk."
        raise UsageError(f"{file!r} cannot hold a Zarr file", remedy=remedy)
    return store


def open_neighbour(store: Store, location: str) -> Store:
    """Return another file, at ``location``, that the file in ``store`` links to.

    Options, which may be credentials, are passed on to the same kind of store only, and only to the same host of a web
    server. The rules for reading are always passed on.
    """
    origin = store.unwrapped
    neighbour = origin.neighbour(location)
    if neighbour is None:
        alike = links.authority(location) == links.authority(origin.location)
        try:
            neighbour = open_store(location, origin.options if alike else {})
            neighbour.check_url()
        # a file named the location, not the caller, whose arguments are right
        except UsageError as error:
            raise StoreError(error.problem, store=error.store, path=error.path, remedy=error.remedy) from error
    # whether the file is complete is not known yet; lost chunks are those of the other file
    neighbour.read_rules = replace(store.read_rules, is_whole=False, is_linked=True, lost={})
    return neighbour


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Return whether a file has the HDF5 signature, at 0 or after a user block of 512, 1024, 2048 ... bytes."""
    if not os.path.isfile(path):
        return False
    with os_errors(os.fspath(path), "read"), open(path, "rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        offset = 0
        while offset < end:
            stream.seek(offset)
            if stream.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                return True
            offset = 2 * offset or 512
    return False


def is_of_hdf5(store: Store) -> bool:
    """Return whether an HDF5 file is at the location of a store, a path or a URL."""
    store = store.unwrapped
    if store.folder is not None:
        return is_hdf5(store.location)
    if not store.opens_by_url:
        return False
    try:
        folder, name = open_parent(store.location, store.options)
        folder.read_rules = store.read_rules
        return folder.beginning(name, len(HDF5_SIGNATURE)) == HDF5_SIGNATURE
    except ZarrBackendError:
        # opening the location itself raises the error, with a better remedy
        return False


def may_exist(location: str) -> bool:
    """Return whether the target of a link may exist; for a URL, True without a request."""
    if location.startswith(NOWHERE):
        return False
    if links.is_url(location) or os.path.isdir(location):
        return True
    return location.endswith(FILE_SUFFIXES) and os.path.isfile(location)


def check_abilities(store: Store, mode: str) -> None:
    """Refuse a mode that this kind of store does not support, before any request."""
    abilities = store.abilities
    possible = {"r": True, "r-": True, "r+": abilities.change, "a": abilities.change}
    if not possible.get(mode, abilities.write):
        problem = f"{abilities.why}: the mode {mode!r} is not possible"
        remedy = "Read it with mode 'r', and export it to another location to change it."
        remedy_cli = "Copy it with `zarrio convert`, and change the copy."
        raise ReadOnlyStoreError(problem, store=store.location, remedy=remedy, remedy_cli=remedy_cli)


def check_apart(source: str, target: str) -> None:
    """Refuse a target that is the source, contains the source, or is inside of the source."""
    if not links.is_url(target) and (inside := links.inside_of(target)) is not None:
        raise StoreError(inside[0], store=target, remedy=inside[1])
    is_local = not links.is_url(source) and not links.is_url(target)
    one, other = (os.path.realpath(source), os.path.realpath(target)) if is_local else (source, target)
    one, other = sorted((f"{one}{os.sep}", f"{other}{os.sep}"))
    if other.startswith(one):
        problem = "source and target are the same file, or one is inside the other"
        raise StoreExistsError(problem, store=target, remedy="Choose another target.")
    folder = os.path.dirname(target)
    if not links.is_url(target) and not os.path.isdir(folder):
        raise StoreNotFoundError("the folder of the target does not exist", store=folder, remedy="Create it first.")


class NotFreeError(StoreExistsError):
    """A file exists where a new one is to be created."""


def check_free(store: Store, *, overwrite: bool, empty_folder: bool = True) -> None:
    """Refuse to create a file at an existing path."""
    check_link(store.location)
    if not overwrite and store.exists() and not (empty_folder and store.is_empty_folder()):
        problem = "the target exists already"
        remedy = "Choose another path, or pass overwrite=True to replace it."
        remedy_cli = "Choose another path, use --overwrite to replace it, or --skip-existing to leave it."
        raise NotFreeError(problem, store=store.location, remedy=remedy, remedy_cli=remedy_cli)


def remove_empty_folder(store: Store) -> None:
    """Remove the empty folder that a new file replaces, if it exists."""
    if store.folder is not None:
        with suppress(OSError):
            os.rmdir(store.folder)
