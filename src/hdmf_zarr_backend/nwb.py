"""`NWBZarrIO`: `ZarrIO` for NWB files, as NWBHDF5IO is to HDF5IO.

Source: ``pynwb.NWBHDF5IO``, for what it does with versions and namespaces.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hdmf.backends.io import HDMFIO
from hdmf.build import BuildManager, TypeMap

from hdmf_zarr_backend.encoding.parser import parse
from hdmf_zarr_backend.encoding.registry import ZarrFormat
from hdmf_zarr_backend.encoding.reserved import OLDER, refused_version
from hdmf_zarr_backend.errors import UnsupportedFileError, UsageError, ZarrBackendError, known_arguments, warn
from hdmf_zarr_backend.extras import library_of
from hdmf_zarr_backend.io import NEW_FILE_MODES, Mode, ZarrIO
from hdmf_zarr_backend.model.nodes import Group, is_small_number
from hdmf_zarr_backend.options import ReadOptions, WriteOptions
from hdmf_zarr_backend.store.opening import FileSource, open_store

with library_of("nwb", "NWBZarrIO"):
    import pynwb

if TYPE_CHECKING:
    from pynwb import NWBFile


Version = tuple[int | str, ...]


class UnsupportedNWBError(UnsupportedFileError, TypeError):
    """No NWB file of version 2 or above; a TypeError as with NWBHDF5IO."""


def _version(attributes: Mapping[str, Any]) -> tuple[str | None, Version | None]:
    version = attributes.get("nwb_version")
    if not isinstance(version, str):
        return None, None
    parts = version.replace("-", ".").replace("_", ".").split(".")  # split as by pynwb: 2.0.0-beta, 1.0.6_alpha
    return version, tuple(int(part) if is_small_number(part) else part for part in parts)


def check_nwb_version(
    version: object,
    location: str,
    missing: tuple[str, str] = ("", "This is not an NWB file; ZarrIO or HDF5IO may read it."),
) -> None:
    """Refuse a version of NWB that pynwb does not read; ``missing``: why a file has none, and what to do."""
    if version is None:
        problem = f"Missing NWB version in file{missing[0]}"
        raise UnsupportedNWBError(problem, store=location, path="/", remedy=missing[1])
    if problem := refused_version(version.decode("utf-8", "replace") if isinstance(version, bytes) else version):
        raise UnsupportedNWBError(problem, store=location, path="/", remedy=OLDER)


class NWBZarrIO(ZarrIO):
    """Reads and writes NWB files in Zarr.

    Parameters
    ----------
    path : str, Path, UPath, OpenFile, mapping, zarr.abc.store.Store, StorePath, zarr.Group or icechunk.Session
        The file: a local directory or zip file, a file of references, a URL, or a store or group that holds the file.
    mode : {"r", "r-", "r+", "a", "w", "w-", "x"}
        ``r``: read. ``r-``: read without the consolidated document. ``r+``: read and change. ``a``: the same, but
        create the file if it does not exist. ``w``: create a new file, and replace an existing HDMF Zarr file, as
        NWBHDF5IO does. ``w-`` and ``x``: create a new file, and refuse to replace one. Symbolic links are followed.
    manager : BuildManager, optional
        Builds and constructs containers. None: a manager with the types of the installed and the cached namespaces.
    load_namespaces : bool
        Load the namespaces that are cached in the file. Ignored for a new file, and with ``manager`` or ``extensions``.
    extensions : str, TypeMap or list, optional
        Paths of namespaces, or type maps, to use instead of the cached namespaces.
    storage_options : dict, optional
        Options for URLs, with the names of fsspec or obstore.
    force_overwrite : bool
        With mode ``w``, replace any existing file or folder. False: replace an HDMF Zarr file only.
    herd_path : str, optional
        The archive (a zip file) of the external resources (HERD), which is read and written with the file.
    zarr_format : {2, 3, "both"}, optional
        Format of a new file; "both": the metadata of both formats over the same chunks, for programs that read only one
        of them. None: 3 if any array has shards; else the format in the environment variable
        ``HDMF_ZARR_BACKEND_FORMAT``; else 2, or the only format that the store can hold (Icechunk: 3). An existing file
        keeps its format, which need not be given. With ``r`` and ``r-``: the format whose metadata are requested first,
        so that a remote file opens with one request instead of two. A file with the metadata of both formats is read in
        this format, by default in format 2 if it was written as "both", else in format 3.
    break_lock : bool
        Write despite the lock of another writer that has stopped or runs on another machine. A running process on this
        machine keeps its lock of a local file. The lock of a dead writer in an object store stays until it is broken.
    lazy : bool, optional
        In modes ``r`` and ``r-``: create an object when it is first accessed, so that opening takes the time of what
        you use, not of what is in the file. An error in an object is raised when it is accessed; ``read(check=True)``
        creates all. None: True. The other modes create all objects at once.
    read_options : ReadOptions, optional
        How the file is read: limits, chunks that are not stored, links to other files.
    write_options : WriteOptions, optional
        How the file is written: executor, memory, progress, durability, form of the metadata. Mode ``r`` ignores it.

    Raises
    ------
    UsageError
        An argument does not exist, has no effect here, or both ``manager`` and ``extensions`` are given. Nothing is
        changed.
    StoreNotFoundError, NotZarrError, MetadataError
        The file cannot be read.
    StoreExistsError
        A new file would replace an existing one. Nothing is changed.
    StoreLockedError
        Another writer has the file open. Readers never wait.

    Examples
    --------
    >>> from hdmf_zarr_backend import NWBZarrIO
    >>> with NWBZarrIO("session.nwb.zarr", mode="r") as io:
    ...     nwbfile = io.read()
    ...     print(nwbfile.acquisition["raw"].data[100:102, 0])
    [200 202]
    >>> with NWBZarrIO("session.nwb.zarr", mode="r+") as io:  # append
    ...     nwbfile = io.read()
    ...     nwbfile.add_trial(start_time=4.0, stop_time=6.0)
    ...     io.write(nwbfile)
    """

    @known_arguments
    def __init__(
        self,
        path: FileSource,
        mode: Mode = "r",
        manager: BuildManager | None = None,
        *,
        load_namespaces: bool = True,
        extensions: str | TypeMap | list[Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,
        herd_path: str | None = None,
        zarr_format: ZarrFormat | None = None,
        break_lock: bool = False,
        lazy: bool | None = None,
        read_options: ReadOptions | None = None,
        write_options: WriteOptions | None = None,
    ) -> None:
        if manager is not None and extensions is not None:
            raise UsageError("'manager' and 'extensions' cannot be specified together", remedy="Pass one of them.")
        uses_cached = load_namespaces and manager is None and extensions is None
        if extensions is not None:
            manager = BuildManager(extended_type_map(extensions))
        elif manager is None:
            manager = BuildManager(pynwb.get_type_map())
        super().__init__(
            path,
            mode,
            manager,
            storage_options=storage_options,
            force_overwrite=force_overwrite,
            lazy=lazy,
            herd_path=herd_path,
            zarr_format=zarr_format,
            break_lock=break_lock,
            read_options=read_options,
            write_options=write_options,
        )
        if uses_cached and self._parsed is not None:
            try:
                self.load_namespaces_io(self.manager.type_map)
            except BaseException:
                self.close()  # the caller gets no object that it could close: the lock would stay
                raise

    @property
    def nwb_version(self) -> tuple[str | None, Version | None]:
        """Version of the NWB schema of the file, as text and in parts; ``(None, None)`` if it has none."""
        return _version({} if self._parsed is None else self._parsed.hierarchy.root.attributes)

    @staticmethod
    def can_read(path: Any) -> bool:
        """Tell whether there is an NWB file of version 2 or above at ``path``; False after any error.

        Warns
        -----
        UserWarning
            It is a Zarr hierarchy without a version of NWB, or of version 1.
        """
        # pynwb asks each backend whether it can read a file, and shows its warnings
        try:
            version, _ = _version(parse(open_store(path)).hierarchy.root.attributes)
        except (ZarrBackendError, OSError):
            return False
        if version is None:
            problem = "states no version of NWB"
        elif refused_version(version):
            problem = f"has NWB {version.strip().removeprefix('NWB-')}, which is too old"
        else:
            return True
        warn(f"the Zarr file {str(path)!r} {problem}")
        return False

    @known_arguments
    def read(self, *, skip_version_check: bool = False, check: bool = False) -> NWBFile:
        """Return the ``NWBFile``.

        Parameters
        ----------
        skip_version_check : bool
            Also try to read files of NWB 1.
        check : bool
            Create all objects now, so that an error in any of them is raised now. False: if the io is lazy, an error is
            raised when the object is accessed.

        Raises
        ------
        UnsupportedNWBError
            The file has no NWB version, or version 1.
        """
        # NWB 1 has other types: hdmf would end in an error about the first of them. Files of early releases of MatNWB
        # have an array as their version; some have none.
        if not skip_version_check and self.mode not in NEW_FILE_MODES and self._parsed is not None:
            root = self._parsed.hierarchy.root
            missing = "", "This is not an NWB file; ZarrIO may read it."
            if isinstance(root, Group) and "nwb_version" in root.members:
                missing = ": nwb_version is a dataset, as in NWB 1", OLDER
            check_nwb_version(root.attributes.get("nwb_version"), self.source, missing)
        return super().read(check=check)

    @known_arguments
    def export(  # type: ignore[override] # pynwb calls the container nwbfile
        self,
        src_io: HDMFIO,
        nwbfile: Any = None,
        write_args: dict[str, Any] | None = None,
        clear_cache: bool = False,  # noqa: FBT001, FBT002 - the order of hdmf-zarr 0.13
        cache_spec: bool = True,  # noqa: FBT001, FBT002 - the order of hdmf-zarr 0.13
        *,
        container: Any = None,
    ) -> None:
        """Write what ``src_io`` has read to this file.

        Parameters
        ----------
        src_io : HDMFIO
            The source, such as an open ``NWBHDF5IO``, which does not change.
        nwbfile : NWBFile, optional
            The ``NWBFile`` that ``src_io`` has read, with or without changes. None: everything in the source.
        write_args : dict, optional
            Arguments of `ZarrIO.write_builder`: ``{"link_data": False}`` copies data that the source links to.
        clear_cache : bool
            Build all objects again, not only those that were changed.
        cache_spec : bool
            Cache the namespaces of the source in the file.
        container : NWBFile, optional
            Another name for ``nwbfile``, which `ZarrIO.export` uses.

        Raises
        ------
        UnsupportedModeError
            The mode is not ``w``, ``w-`` or ``x``.
        StoreExistsError
            This file is the source.
        """
        super().export(src_io, nwbfile if container is None else container, write_args, clear_cache, cache_spec)

    @staticmethod
    @known_arguments
    def read_nwb(
        path: FileSource,
        *,
        storage_options: Mapping[str, Any] | None = None,
        load_namespaces: bool = True,
        extensions: str | TypeMap | list[Any] | None = None,
        read_options: ReadOptions | None = None,
        zarr_format: ZarrFormat | None = None,
        lazy: bool | None = None,
    ) -> NWBFile:
        """Return the ``NWBFile`` at ``path``.

        Parameters
        ----------
        path : str, Path, UPath, OpenFile, mapping, zarr.abc.store.Store, StorePath, zarr.Group or icechunk.Session
            The file: a local directory or zip file, a file of references, a URL, or a store or group that holds it.
        storage_options : dict, optional
            Options for URLs, with the names of fsspec or obstore.
        load_namespaces : bool
            Load the namespaces that are cached in the file. Ignored with ``extensions``.
        extensions : str, TypeMap or list, optional
            Paths of namespaces, or type maps, to use instead of the cached namespaces.
        read_options : ReadOptions, optional
            How the file is read: limits, chunks that are not stored, links to other files.
        zarr_format : {2, 3, "both"}, optional
            The format whose metadata are requested first, so that a remote file opens with one request.
        lazy : bool, optional
            Create an object when it is first accessed. None: True.

        Raises
        ------
        UnsupportedNWBError
            The file has no NWB version, or version 1.
        StoreNotFoundError, NotZarrError, MetadataError
            The file cannot be read.
        """
        return NWBZarrIO(
            path,
            storage_options=storage_options,
            load_namespaces=load_namespaces,
            extensions=extensions,
            read_options=read_options,
            zarr_format=zarr_format,
            lazy=lazy,
        ).read()


NWBZarrIO.__init__.__doc__ = NWBZarrIO.__doc__  # help() shows hdmf's otherwise


def extended_type_map(extensions: str | os.PathLike[str] | TypeMap | list[Any]) -> TypeMap:
    """Return NWB's type map with ``extensions``: paths of namespaces, and type maps."""
    type_map = pynwb.get_type_map()
    for extension in extensions if isinstance(extensions, (list, tuple)) else [extensions]:
        if not isinstance(extension, TypeMap):
            type_map.load_namespaces(os.fspath(extension))
            continue
        catalog = extension.namespace_catalog
        for name in catalog.namespaces:
            # the type map of an extension has the namespaces of NWB too, and hdmf refuses one that is there already
            if name not in type_map.namespace_catalog.namespaces:
                type_map.namespace_catalog.add_namespace(name, catalog.get_namespace(name))
        type_map.merge(extension)
    return type_map
