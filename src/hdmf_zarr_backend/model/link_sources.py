"""The ``source`` of links and references <-> locations of files.

On disk a source is ``"."`` for the same file, else a path relative to the store itself (a sibling is ``../b.zarr``)
with ``/`` as separator on every system, or a URL. In memory a *location* is an absolute local path or a URL.
`resolve_source` is the inverse of `relative_source`. A URL may be an fsspec chain
(``simplecache::https://host/a.zarr``), whose last part is the address of the file; the others determine how it is read.

Source: hdmf-zarr storage specification, "Links"; what hdmf-zarr 0.1 to 0.13 wrote (0.10 wrote the store's own name).
"""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import quote, unquote

THIS_FILE = "."
_LOCAL = "file://"
LOCAL_URLS = (_LOCAL, "local://")
"""Prefixes of URLs of this machine; fsspec has two names for the protocol."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://[^/?#]*)([^?#]*)", re.DOTALL)
_CHAIN = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+(?:://[^:]*)?::)+(?=[A-Za-z][A-Za-z0-9+.-]+://|/)", re.DOTALL)
_DRIVE = re.compile(r"^[A-Za-z]:[/\\]")


ZARR_SUFFIXES = (".zarr", ".zip")
"""Suffixes of the names of new Zarr files: directories, and zip files."""


def is_url(location: str) -> bool:
    """Tell whether ``location`` has a scheme such as ``s3://``. A Windows drive is not a scheme."""
    return _URL.match(location) is not None or _CHAIN.match(location) is not None


def split_chain(location: str) -> tuple[str, str]:
    """Split a location into the chain before the file (``"simplecache::"``, usually ``""``), and the address."""
    match = _CHAIN.match(location)
    return (match[0], location[match.end() :]) if match else ("", location)


def to_posix(path: str) -> str:
    """Return a local path with ``/`` as separator."""
    return path.replace("\\", "/") if _DRIVE.match(path) or ("\\" in path and "/" not in path) else path


def relative_source(target: str, origin: str) -> str:
    """Return the source with which the file at ``origin`` refers to the file at ``target``."""
    if target == origin:
        return THIS_FILE
    how, place = split_chain(target)
    if how and how == split_chain(origin)[0]:
        return relative_source(place, split_chain(origin)[1])
    if is_url(target) or is_url(origin):
        return _relative_url(target, origin)
    target, origin = to_posix(target), to_posix(origin)
    if _root(target) != _root(origin):
        return target
    source = posixpath.relpath(target, origin)
    return source if resolve_source(source, origin) == posixpath.normpath(target) else target


def _root(path: str) -> str:
    """Return the root that two paths must share for a relative path to exist: a drive, or two slashes and a server."""
    if _DRIVE.match(path):
        return path[:2].lower()
    return "//" + path.split("/")[2] if path.startswith("//") and not path.startswith("///") else ""


def _relative_url(target: str, origin: str) -> str:
    if not is_url(target):
        # relative to a URL, an absolute path would be one on that server
        path = to_posix(target)
        return _LOCAL + quote(path if path.startswith("/") else f"/{path}", safe="/:", errors="surrogateescape")
    if split_chain(target)[0] != split_chain(origin)[0] or _split_url(target)[0] != _split_url(origin)[0]:
        return target
    source = posixpath.relpath(_split_url(target)[1] or "/", _split_url(origin)[1] or "/")
    # a URL with a query, a doubled slash or a dot in its path cannot be expressed as a relative path
    return source if resolve_source(source, origin) == target else target


def _split_url(url: str) -> tuple[str, str]:
    """Return scheme and host, and the path, of a URL."""
    match = _URL.match(url)
    return (match[1], match[2]) if match else ("", url)


def resolve_source(source: str, origin: str) -> str:
    """Return the location for a ``source`` in the file at ``origin``."""
    if source in (THIS_FILE, "", "./"):
        return origin
    if is_url(source):
        return _local_or_url(source)
    how, place = split_chain(origin)
    if how:
        return how + resolve_source(source, place)
    if is_url(origin):
        host, path = _split_url(origin)
        return host + posixpath.normpath(posixpath.join(path or "/", to_posix(source)))
    source = to_posix(source)
    if source.startswith("/") or _DRIVE.match(source):
        return posixpath.normpath(source)
    base = to_posix(origin)
    return posixpath.normpath(posixpath.join(base, source))


def _local_or_url(url: str) -> str:
    """Return the path of a ``file://`` URL without a host; other URLs are locations already."""
    if not url.startswith(tuple(f"{mark}/" for mark in LOCAL_URLS)):
        return url
    path = unquote(url.partition("://")[2], errors="surrogateescape")
    return path[1:] if _DRIVE.match(path[1:]) else path


def sibling_source(source: str, origin: str) -> str:
    """Return the location for a source relative to the folder of ``origin``, as hdmf-zarr 0.10 wrote it."""
    if is_url(origin):
        host, path = _split_url(origin)
        return host + posixpath.normpath(posixpath.join(posixpath.dirname(path) or "/", to_posix(source)))
    return posixpath.normpath(posixpath.join(posixpath.dirname(to_posix(origin)), to_posix(source)))


def full_location(source: str) -> str:
    """Return a URL unchanged, and the absolute path of anything else."""
    return source if is_url(source) else os.path.abspath(source)


def is_same_place(one: str, other: str) -> bool:
    """Tell whether two locations are the same file, also through symbolic links."""
    if is_url(one) or is_url(other):
        return one == other
    return os.path.realpath(one) == os.path.realpath(other)
