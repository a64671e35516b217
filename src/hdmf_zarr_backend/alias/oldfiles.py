"""What hdmf-zarr 0.14 has for files of format 2: classes that read them only, and ways to make files of format 3.

Here one class reads both formats, so that these are it, in the mode ``r``.

Source: hdmf-zarr 0.14.0, ``hdmf_zarr.backend_zarrv2`` and ``hdmf_zarr.nwb_zarrv2``, for the names and their arguments.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, ClassVar

from hdmf_zarr_backend.errors import DamagedFileError, ModeError, ZarrBackendError
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.stores.opening import open_keys

_READING = ("r", "r-")


class UnsafePickleCodecError(ValueError):
    """Raised by nothing here: pickles are read without running what is in them, asked or not."""


class IncompleteConversionError(RuntimeError):
    """A file of format 3 would lack something that could not be read of the file of format 2."""


def is_zarr_v2_file(path: Any, storage_options: Mapping[str, Any] | None = None) -> bool:
    """Tell whether there is a Zarr hierarchy of format 2 at ``path``; any error is a no."""
    try:
        return parse(open_keys(path, storage_options)).zarr_format == 2
    except (ZarrBackendError, OSError):
        return False


class ReadsOnly:
    """Mixed into an io class: it reads, and takes the arguments of hdmf-zarr's classes for old files.

    Parameters
    ----------
    path, mode, manager, storage_options
        As of `hdmf_zarr_backend.ZarrIO`; the mode is ``r`` or ``r-``.
    force_overwrite, allow_pickle : bool
        Without effect: nothing is written, and pickles are read without running what is in them.
    **options
        Everything else that the class takes.

    Raises
    ------
    ModeError
        Another mode; a ValueError, as with hdmf-zarr.
    """

    def __init__(
        self,
        path: Any,
        mode: str = "r",
        manager: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        force_overwrite: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        allow_pickle: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
        **options: Any,
    ) -> None:
        if mode not in _READING:
            raise ModeError(
                f"{type(self).__name__} only reads, and the mode is {mode!r}",
                remedy="Use ZarrIO or NWBZarrIO to write.",
            )
        self._allow_pickle = allow_pickle
        super().__init__(path, mode, manager, storage_options=storage_options, **options)  # type: ignore[call-arg] # of the io class

    @property
    def allow_pickle(self) -> bool:
        """What was given; it changes nothing."""
        return self._allow_pickle

    @property
    def skipped_entries(self) -> list[tuple[str, str]]:
        """Empty: what cannot be read is an error here."""
        return []


class MakesFormat3:
    """Mixed into an io class for NWB that reads: it writes what it reads to a new file of format 3."""

    writer: ClassVar[Any]
    """The class that writes."""

    def export_to_v3(
        self,
        path: Any,
        nwbfile: Any = None,
        write_args: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Write this file, or ``nwbfile`` that was read from it, to a new one of format 3; all data are copied.

        Parameters
        ----------
        path : str, Path or zarr.abc.store.Store
            The new file.
        nwbfile : NWBFile, optional
            What was read, changed perhaps; None: everything.
        write_args : dict, optional
            Arguments of ``write_builder``.
        storage_options : dict, optional
            Of the new file.

        Raises
        ------
        IncompleteConversionError
            Something cannot be read.
        """
        arguments = {**(write_args or {}), "link_data": False}
        try:
            with self.writer(path, mode="w", storage_options=storage_options, zarr_format=3) as io:
                io.export(src_io=self, nwbfile=nwbfile, write_args=arguments)
        except DamagedFileError as error:
            raise IncompleteConversionError(str(error)) from error

    @classmethod
    def convert_to_v3(
        cls,
        source_path: str | os.PathLike[str],
        dest_path: Any,
        write_args: Mapping[str, Any] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        allow_pickle: bool = False,  # noqa: FBT001, FBT002 - hdmf-zarr's signature
    ) -> None:
        """Write the file at ``source_path`` to a new one of format 3; arguments as of `export_to_v3`."""
        with _opened(cls, source_path, allow_pickle=allow_pickle) as io:
            io.export_to_v3(dest_path, write_args=write_args, storage_options=storage_options)

    @classmethod
    def read_nwb(cls, path: str | os.PathLike[str], allow_pickle: bool = False) -> Any:  # noqa: FBT001, FBT002 - hdmf-zarr's
        """Return the ``NWBFile`` at ``path``."""
        return _opened(cls, path, allow_pickle=allow_pickle).read()


def _opened(io_class: Any, path: str | os.PathLike[str], *, allow_pickle: bool) -> Any:
    """Open a file; one in a bucket without credentials, as hdmf-zarr does."""
    options = {"anon": True} if str(path).startswith("s3://") else None
    return io_class(path, mode="r", storage_options=options, allow_pickle=allow_pickle)
