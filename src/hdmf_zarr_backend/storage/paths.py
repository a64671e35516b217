"""The path of a file that a user gives -> its absolute location; without zarr, so that the command line starts fast."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.model.locations import is_url


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
