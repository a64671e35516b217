"""The path or URL of a file that a user gives -> its location; without zarr, so that the command line starts fast."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from hdmf_zarr_backend.errors import StoreExistsError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.model.locations import LOCAL_URLS, is_url
from hdmf_zarr_backend.stores.disk import told


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path that ``path`` means now, so that a later change of directory does no harm.

    Raises
    ------
    UsageError
        It is neither a path nor a URL of a local file.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"{path!r} is no path", remedy="Give a str or a pathlib.Path.")
    text = os.fspath(path)
    if text.startswith(LOCAL_URLS):
        given, text = text, unquote(urlsplit(text).path)
        if not text:
            raise UsageError(f"{given!r} names no place", remedy="Name the file: file:///folder/a.nwb.zarr.")
    if is_url(text):
        raise UsageError(f"{text!r} is not local", remedy="Only local directories can be opened by this version.")
    return os.path.abspath(text)


def location_of(path: str | os.PathLike[str]) -> str:
    """Return the location of a file: an absolute path, or a URL without a slash at its end.

    Raises
    ------
    UsageError
        It is neither a path nor a URL.
    """
    if isinstance(path, str) and is_url(path) and not path.startswith(LOCAL_URLS):
        scheme, mark, rest = path.partition("://")
        stripped = rest.rstrip("/")
        return f"{scheme}{mark}{stripped}" if stripped else path
    return local_path(path)


def check_apart(source: str, target: str) -> None:
    """Refuse to write over the source, or over something that the source lies in or that lies in the source.

    Parameters
    ----------
    source, target : str
        Absolute paths.

    Raises
    ------
    StoreExistsError
        They are the same file, or one lies in the other.
    StoreNotFoundError
        The folder of the target is not there.
    """
    is_local = not is_url(source) and not is_url(target)
    one, other = (os.path.realpath(source), os.path.realpath(target)) if is_local else (source, target)
    if (
        one == other
        or f"{one}{os.sep}".startswith(f"{other}{os.sep}")
        or f"{other}{os.sep}".startswith(f"{one}{os.sep}")
    ):
        raise StoreExistsError(
            "source and target are the same file, or one lies in the other",
            store=target,
            remedy="Choose another target.",
        )
    folder = os.path.dirname(target)
    if not is_url(target) and not os.path.isdir(folder):
        raise StoreNotFoundError("the folder of the target is not there", store=folder, remedy="Make it first.")


HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def is_hdf5(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file carries the HDF5 signature, at 0 or after a user block of 512, 1024, 2048 ... bytes."""
    if not os.path.isfile(path):
        return False
    with told(os.fspath(path), "read"), open(path, "rb") as stream:
        end = stream.seek(0, os.SEEK_END)
        offset = 0
        while offset < end:
            stream.seek(offset)
            if stream.read(len(HDF5_SIGNATURE)) == HDF5_SIGNATURE:
                return True
            offset = 2 * offset or 512
    return False
