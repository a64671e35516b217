"""`Setup`: which store and which encoding a state machine tests, and what they can do."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any, ClassVar

from hdmf_zarr_backend.formats.both import ZarrFormat
from hdmf_zarr_backend.io import ZarrIO
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.opening import open_store


def memory_folder() -> str | None:
    """Return a folder in memory, None where the system has none."""
    folder = "/dev/shm"  # noqa: S108 - only folders of their own are made in it
    return folder if os.path.isdir(folder) else None


class Setup:
    """A store in memory. Subclass it for another store, or another encoding.

    Parameters
    ----------
    zarr_format : {2, 3, "both"}
        Format of new files.

    Attributes
    ----------
    name : str
        For messages.
    can_change : bool
        An existing file can be changed. False: a change is a new file, which replaces the old one.
    can_fail : bool
        Operations of the store may fail, and the process may die while it writes.
    has_hdf5 : bool
        Files are converted to HDF5 and back; needs h5py.
    options : dict
        Arguments of the io, beside place, mode and format; `storage_options` is passed to all functions.
    """

    name: ClassVar[str] = "memory"
    can_change: ClassVar[bool] = True
    can_fail: ClassVar[bool] = True
    has_hdf5: ClassVar[bool] = True

    def __init__(self, zarr_format: ZarrFormat = 2) -> None:
        self.zarr_format = zarr_format
        self.options: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.zarr_format!r})"

    @property
    def storage_options(self) -> dict[str, Any] | None:
        """Options of the store, for URLs."""
        return self.options.get("storage_options")

    def new_place(self) -> Any:
        """Return a place for the file of a new history, where nothing is yet."""
        return {}

    def remove(self, place: Any) -> None:
        """Remove what is left at a place, at the end of a history.

        Parameters
        ----------
        place : object
            From `new_place`.
        """

    def given(self, place: Any) -> Any:
        """Return the file at a place, as `ZarrIO` and the other functions take it; a new object for each program.

        Parameters
        ----------
        place : object
            From `new_place`.
        """
        return place

    def store(self, place: Any) -> Store:
        """Return the store at a place.

        Parameters
        ----------
        place : object
            From `new_place`.
        """
        return open_store(self.given(place), self.storage_options)

    def open(self, place: Any, mode: str, **options: Any) -> ZarrIO:
        """Return the io of a file, which reads and writes builders.

        Parameters
        ----------
        place : object
            From `new_place`.
        mode : str
            As for `ZarrIO`.
        **options
            Other arguments of `ZarrIO`.
        """
        return ZarrIO(self.given(place), mode, **{**self.options, **options})


class LocalSetup(Setup):
    """A local directory, in memory where the system has such a folder (``/dev/shm``).

    Parameters
    ----------
    zarr_format : {2, 3, "both"}
        Format of new files.
    """

    name = "local"
    suffix: ClassVar[str] = ".zarr"

    def new_place(self) -> str:
        """Return a path in a new folder."""
        folder = tempfile.mkdtemp(prefix="machine-", dir=memory_folder())
        return os.path.join(folder, f"file{self.suffix}")

    def remove(self, place: str) -> None:
        """Remove the folder.

        Parameters
        ----------
        place : object
            From `new_place`.
        """
        shutil.rmtree(os.path.dirname(place))


class ZipSetup(LocalSetup):
    """A local zip file, which is written once.

    Parameters
    ----------
    zarr_format : {2, 3, "both"}
        Format of new files.
    """

    name = "zip"
    suffix = ".zarr.zip"
    can_change = False
