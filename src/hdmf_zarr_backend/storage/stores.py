"""Where a file is -> the store to read or write it with, and zarr's own view of it on request."""

from __future__ import annotations

import os
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import zarr

from hdmf_zarr_backend.errors import NotZarrError, UsageError
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.storage.keys import InlinedKeys, KeyStore, LocalKeys


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
    if text.startswith("file://"):
        text = unquote(urlsplit(text).path)
    if is_url(text):
        raise UsageError(f"{text!r} is not local", remedy="Only local directories can be opened by this version.")
    return os.path.abspath(text)


def open_keys(location: str, *, replace: bool = True) -> LocalKeys:
    """Return the keys of the file at ``location``, an absolute local path; nothing is touched yet."""
    return LocalKeys(os.path.abspath(location), replace=replace)


def open_zarr_group(keys: KeyStore, *, mode: Literal["r", "r+"] = "r") -> Any:
    """Return the file as a ``zarr.Group``, past any consolidated document that could be stale.

    Raises
    ------
    NotZarrError
        zarr finds no group there.
    """
    try:
        return zarr.open_group(_zarr_location(keys), mode=mode, zarr_format=2, use_consolidated=False)
    except FileNotFoundError as error:
        raise NotZarrError("zarr finds no group", store=keys.location) from error


def open_zarr_array(keys: KeyStore, path: str) -> Any:
    """Return the array at ``path`` as a ``zarr.Array``."""
    return zarr.open_array(_zarr_location(keys), path=path, mode="r", zarr_format=2)


def _zarr_location(keys: KeyStore) -> str:
    if isinstance(keys, InlinedKeys):
        return _zarr_location(keys.keys)
    if isinstance(keys, LocalKeys):
        return keys.root
    raise NotZarrError("zarr has no view of this store", store=keys.location)
