"""Paths and URLs of files: parsing and comparing locations, and the rule for links to other files."""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from hdmf_zarr_backend.errors import StoreError, StoreExistsError, StoreNotFoundError, UsageError
from hdmf_zarr_backend.model.link_sources import LOCAL_URLS, is_url, split_chain
from hdmf_zarr_backend.options import ExternalLinks
from hdmf_zarr_backend.stores.failures import os_errors

S3_SCHEMES = frozenset({"s3", "s3a"})
GOOGLE_SCHEMES = frozenset({"gs", "gcs"})
AZURE_SCHEMES = frozenset({"az", "abfs", "abfss", "azure", "adl"})
WEB_SCHEMES = frozenset({"http", "https"})
SERVER_SCHEMES = S3_SCHEMES | GOOGLE_SCHEMES | AZURE_SCHEMES | WEB_SCHEMES
"""Protocols of servers, which never read files of this machine."""

ARCHIVES = frozenset({"zip", "tar", "libarchive"})
"""Protocols of fsspec for a path in an archive, whose address follows: ``zip://folder/a.nwb.zarr::s3://b/c.zip``."""

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"
_LOCAL_SCHEMES = frozenset({"file", "local"})
_WRAPPER = re.compile("[a-z]+")
_IN_ARCHIVE = re.compile(f"({'|'.join(ARCHIVES)})(?:://([^:]*))?::(.*)", re.DOTALL)

_FOLLOW = {
    "remedy": 'Pass read_options=ReadOptions(external_links="follow"), if you trust the file.',
    "remedy_cli": "Use --external-links follow, if you trust the file.",
}
_WITHIN = {
    "remedy": 'Pass read_options=ReadOptions(external_links="within"), or "follow", if you trust the file.',
    "remedy_cli": "Use --external-links within, or follow, if you trust the file.",
}

# protocols of fsspec that keep a copy of what another one reads
_CACHES = frozenset({"simplecache", "filecache", "blockcache", "cached"})


def local_path(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of ``path``, which stays valid when the working directory changes."""
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"{path!r} is not a path", remedy="Give a str or a pathlib.Path.")
    text = os.fspath(path)
    if text.startswith(LOCAL_URLS):
        given, text = text, unquote(urlsplit(text).path)
        if not text:
            raise UsageError(f"{given!r} does not name a file", remedy="Name the file: file:///folder/a.nwb.zarr.")
    if is_url(text):
        raise UsageError(f"{text!r} is not local", remedy="Only local directories can be opened by this version.")
    return os.path.abspath(text)


def location_of(path: str | os.PathLike[str]) -> str:
    """Return the location of a file: an absolute path, or a URL without a slash at its end."""
    if isinstance(path, str) and is_url(path) and not path.startswith(LOCAL_URLS):
        stripped = path.rstrip("/")
        return path if stripped.endswith(":") else stripped
    return local_path(path)


def check_apart(source: str, target: str) -> None:
    """Refuse a target that is the source, contains the source, or is inside of the source."""
    if not is_url(target) and (inside := inside_of(target)) is not None:
        raise StoreError(inside[0], store=target, remedy=inside[1])
    is_local = not is_url(source) and not is_url(target)
    one, other = (os.path.realpath(source), os.path.realpath(target)) if is_local else (source, target)
    one, other = sorted((f"{one}{os.sep}", f"{other}{os.sep}"))
    if other.startswith(one):
        problem = "source and target are the same file, or one is inside the other"
        raise StoreExistsError(problem, store=target, remedy="Choose another target.")
    folder = os.path.dirname(target)
    if not is_url(target) and not os.path.isdir(folder):
        raise StoreNotFoundError("the folder of the target does not exist", store=folder, remedy="Create it first.")


def inside_of(path: str) -> tuple[str, str] | None:
    """Return problem and remedy of a path below a file that is not a folder, None for any other path."""
    from zipfile import is_zipfile  # for these messages only

    file = next((folder for folder in map(str, Path(path).parents) if os.path.lexists(folder)), "")
    if not os.path.isfile(file):
        return None
    if is_zipfile(file):
        return f"this is a part of the zip file {file!r}, and not a file", f"Give the path of the file: {file!r}."
    return f"{file!r} is a file, not a folder", "Check the path."


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


def split_location(location: str) -> tuple[str, str]:
    """Return folder and name of a file; a query, which may grant access, stays with the folder."""
    if not is_url(location):
        return os.path.split(location)
    if (chain := _IN_ARCHIVE.fullmatch(location)) is not None:
        scheme, inside, archive = chain.groups("")
        folder, _, name = inside.rpartition("/")
        return f"{scheme}://{folder}::{archive}", name
    parts = urlsplit(location)
    folder, _, name = parts.path.rpartition("/")
    return urlunsplit((parts.scheme, parts.netloc, folder, parts.query, "")), name


# ---- links to other files ------------------------------------------------------------------------------------------


def _protocols(location: str) -> list[str]:
    """Return the protocols of a chain of fsspec, the one of the file itself last; ``file`` for local paths."""
    protocols = []
    for number, part in enumerate(parts := location.split("::"), 1):
        name, mark, _ = part.partition("://")
        is_wrapper = _WRAPPER.fullmatch(part) and number < len(parts)  # the last may be a path that looks like one
        is_remote = mark and len(name) > 1 and name.lower() not in _LOCAL_SCHEMES  # one letter: a drive of Windows
        protocols.append(name.lower() if is_remote or is_wrapper else "file")
    return protocols


def why_not(
    target: str, origin: str, policy: ExternalLinks | None, *, free: bool, kind: str = "links"
) -> tuple[str, dict[str, str]] | None:
    """Return why a file may not refer to another one, and the remedies of the error, if any; None if it may.

    This rule holds for links, references, files in chunk references, and external files of HDF5.
    """
    if policy == "never":
        return f"{kind} to other files are not followed", _WITHIN
    chain, is_remote = _protocols(target), is_url(origin)
    if is_remote and "file" in chain:
        return "a file on a server does not lead to files of this machine", {}
    is_path = not is_url(target) and "::" not in target
    is_of_server = chain[-1] in SERVER_SCHEMES and set(chain[:-1]) <= _CACHES
    is_as_origin = chain == _protocols(origin) if is_remote else policy == "follow"
    if not (is_path or is_of_server or is_as_origin):
        return f"the protocols {', '.join(chain)} are not followed", {} if is_remote else _FOLLOW
    default = free if is_path else not is_remote
    if (default if policy is None else policy == "follow") or _is_within(target, origin):
        return None
    return f"{kind} out of the folder that holds the file are not followed", _FOLLOW


def _is_within(target: str, origin: str) -> bool:
    """Return whether a file is in the folder that holds ``origin``, or below it."""
    if not is_url(origin):
        folder = os.path.dirname(os.path.realpath(origin))
        try:
            return not is_url(target) and os.path.realpath(target).startswith(folder.rstrip(os.sep) + os.sep)
        except ValueError:  # paths of this machine cannot contain a NUL or a lone surrogate
            return False
    how, place = split_chain(origin)
    target_how, target_place = split_chain(target)
    folder = posixpath.dirname(place.rstrip("/")) + "/"
    plain = unquote(target_place)
    if target_how != how or ".." in plain.replace("\\", "/").split("/"):
        return False
    return folder.count("/") > 2 and target_place.startswith(folder)


def authority(location: str) -> tuple[str, str]:
    """Return the protocol and the server of a URL; options are passed on only between files with the same of both.

    The server is the host of a web server, or the account in a URL such as ``abfss://container@account/...``.
    """
    scheme, _, rest = location.rpartition("://")
    host = rest.partition("/")[0]
    return scheme, host if scheme.endswith(("http", "https")) else host.partition("@")[2]
