"""Arithmetic on the ``source`` of links and references.

On disk a source is ``"."`` for the same file, else a path relative to the store itself (a sibling is ``../b.zarr``), with
``/`` between its parts on every system, or a URL. In memory a *location* is an absolute local path or a URL.

Source: hdmf-zarr storage specification, "Links"; what hdmf-zarr 0.1 to 0.13 wrote (0.10 wrote the store's own name).
"""

from __future__ import annotations

import posixpath
import re
from urllib.parse import urlsplit

THIS_FILE = "."
_SCHEME = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]+://")
_DRIVE = re.compile(r"^[A-Za-z]:[/\\]")


def is_url(location: str) -> bool:
    """Tell whether ``location`` has a scheme such as ``s3://``; a Windows drive is none."""
    return _SCHEME.match(location) is not None


def to_posix(path: str) -> str:
    """Return a local path with ``/`` between its parts."""
    return path.replace("\\", "/") if "\\" in path and "/" not in path or _DRIVE.match(path) else path


def relative_source(target: str, origin: str) -> str:
    """Return how the file at ``origin`` names the file at ``target``.

    Parameters
    ----------
    target, origin : str
        Locations: absolute local paths or URLs.

    Returns
    -------
    str
        ``"."``, a relative path with ``/``, or ``target`` itself where no relative path leads there.
    """
    if target == origin:
        return THIS_FILE
    if is_url(target) or is_url(origin):
        return _relative_url(target, origin)
    target, origin = to_posix(target), to_posix(origin)
    if _DRIVE.match(target) and target[:1].lower() != origin[:1].lower():
        return target
    return posixpath.relpath(target, origin)


def _relative_url(target: str, origin: str) -> str:
    if not (is_url(target) and is_url(origin)):
        return target
    t, o = urlsplit(target), urlsplit(origin)
    if (t.scheme, t.netloc) != (o.scheme, o.netloc):
        return target
    return posixpath.relpath(t.path or "/", o.path or "/")


def resolve_source(source: str, origin: str) -> str:
    """Return the location of ``source`` as named by the file at ``origin``.

    Parameters
    ----------
    source : str
        As stored: ``"."``, relative, absolute or a URL.
    origin : str
        Location of the file that says so.
    """
    if source in (THIS_FILE, "", "./"):
        return origin
    if is_url(source):
        return source
    if is_url(origin):
        parts = urlsplit(origin)
        path = posixpath.normpath(posixpath.join(parts.path or "/", source))
        return f"{parts.scheme}://{parts.netloc}{path}"
    source = to_posix(source)
    if source.startswith("/") or _DRIVE.match(source):
        return posixpath.normpath(source)
    base = to_posix(origin)
    return posixpath.normpath(posixpath.join(base, source))


def sibling_source(source: str, origin: str) -> str:
    """Return the location if ``source`` is meant relative to the folder of ``origin``, as hdmf-zarr 0.10 wrote it."""
    if is_url(origin):
        parts = urlsplit(origin)
        path = posixpath.normpath(posixpath.join(posixpath.dirname(parts.path), source))
        return f"{parts.scheme}://{parts.netloc}{path}"
    return posixpath.normpath(posixpath.join(posixpath.dirname(to_posix(origin)), to_posix(source)))
