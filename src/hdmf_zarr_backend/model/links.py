"""The locations of files, and sources: what names another file in a link or reference. `encoding.parser` follows those.

On disk a source is ``"."`` for the same file (or one of its former names), else a path relative to the store itself (a
sibling is ``../b.zarr``) with ``/`` as separator on every system, or a URL. In memory a *location* is an absolute local
path or a URL. `resolve_source` is the inverse of `relative_source`. A URL may be an fsspec chain
(``simplecache::https://host/a.zarr``), whose last part is the address of the file; the others determine how it is read.

Source: hdmf-zarr storage specification, "Links"; docs/format, "Links"; what hdmf-zarr 0.1 to 0.13 wrote (0.10 wrote the
store's own name).
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from urllib.parse import quote, unquote

from hdmf_zarr_backend.errors import UsageError

THIS_FILE = "."
OWN_SOURCES = (THIS_FILE, "", "./")  # a link in the same file has "."; joining paths makes the others of it
LOCAL_URLS = ("file://", "local://")  # prefixes of URLs of this machine; fsspec has two names for the protocol
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+://[^/?#]*)(.*)", re.DOTALL)
# fsspec joins protocols with "::". A local path may contain it, too, so the last part must be a URL or start with "/".
_CHAIN = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]+(?:://[^:]*)?::)+(?=[A-Za-z][A-Za-z0-9+.-]+://|/)", re.DOTALL)
_DRIVE = re.compile(r"^[A-Za-z]:[/\\]")  # one letter and a colon are a drive of Windows, not a scheme
ZARR_SUFFIXES = (".zarr", ".zip")  # of the names of new Zarr files: directories, and zip files
HDF5_SUFFIXES = (".nwb", ".h5", ".hdf5", ".hdf")  # of HDF5 files, where their signature cannot be read

S3_SCHEMES = frozenset({"s3", "s3a"})
GOOGLE_SCHEMES = frozenset({"gs", "gcs"})
AZURE_SCHEMES = frozenset({"az", "abfs", "abfss", "azure", "adl"})
WEB_SCHEMES = frozenset({"http", "https"})
SERVER_SCHEMES = S3_SCHEMES | GOOGLE_SCHEMES | AZURE_SCHEMES | WEB_SCHEMES  # they never read files of this machine
_OF_URLS = SERVER_SCHEMES | {"dandi", "file", "local", "memory"}
# Protocols of fsspec for a path in an archive, whose address follows: ``zip://folder/a.nwb.zarr::s3://b/c.zip``.
ARCHIVES = frozenset({"zip", "tar", "libarchive"})
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
CACHES = frozenset({"simplecache", "filecache", "blockcache", "cached"})


def is_url(location: str) -> bool:
    """Tell whether ``location`` has a scheme such as ``s3://``. A Windows drive is not a scheme."""
    return _URL.match(location) is not None or _CHAIN.match(location) is not None


def split_chain(location: str) -> tuple[str, str]:
    """Split a location into the chain before the file (``"simplecache::"``, usually ``""``), and the address."""
    match = _CHAIN.match(location)
    return (match[0], location[match.end() :]) if match else ("", location)


def without_query(location: str) -> str:
    """Return a location without the query of a web address, which may grant access and is not part of the name."""
    return re.split("[?#]", location, maxsplit=1)[0] if _is_of_web(split_chain(location)[1]) else location


def _is_of_web(address: str) -> bool:
    """Tell whether an address is escaped, and may have a query; the path of any other URL is a plain name."""
    return address.partition("://")[0] in WEB_SCHEMES


def ends_with(location: str, suffixes: str | tuple[str, ...]) -> bool:
    """Tell whether the name of a file has one of the suffixes."""
    return without_query(location).rstrip("/").endswith(suffixes)


def to_posix(path: str) -> str:
    """Return a local path with ``/`` as separator."""
    return path.replace("\\", "/") if _DRIVE.match(path) or ("\\" in path and "/" not in path) else path


def relative_source(target: str, origin: str) -> str:
    """Return the source with which the file at ``origin`` refers to the file at ``target``."""
    if target == origin:
        return THIS_FILE
    how, address = split_chain(target)
    if how and how == split_chain(origin)[0]:
        return relative_source(address, split_chain(origin)[1])
    if is_url(origin) and not is_url(target):
        path = to_posix(target)  # relative to a URL, an absolute path would be one on that server
        return LOCAL_URLS[0] + quote(path if path.startswith("/") else f"/{path}", safe="/:", errors="surrogateescape")
    if is_url(target):
        if split_chain(target)[0] != split_chain(origin)[0] or _split_url(target)[0] != _split_url(origin)[0]:
            return target
        source = posixpath.relpath(_split_url(target)[1] or "/", _split_url(origin)[1] or "/")
        source = unquote(source) if _is_of_web(origin) else source
        # a URL with a query, a doubled slash or a dot in its path cannot be expressed as a relative path
        return source if resolve_source(source, origin) == target else target
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


def _split_url(url: str) -> tuple[str, str]:
    """Return scheme and host, and the path, of a URL."""
    match = _URL.match(without_query(url))
    return (match[1], match[2]) if match else ("", url)


def resolve_source(source: str, origin: str) -> str:
    """Return the location for a ``source`` in the file at ``origin``."""
    if source in OWN_SOURCES:
        return origin
    if source.startswith(tuple(f"{prefix}/" for prefix in LOCAL_URLS)):  # a URL without a host
        path = _local_path(source)
        return path[1:] if _DRIVE.match(path[1:]) else path
    if is_url(source):
        return source
    how, address = split_chain(origin)
    if how:
        return how + resolve_source(source, address)
    if is_url(origin):
        host, path = _split_url(origin)
        # a source is a path, in which these characters have no meaning
        source = re.sub("[%?#]", lambda match: quote(match[0]), source) if _is_of_web(origin) else source
        return host + posixpath.normpath(posixpath.join(path or "/", to_posix(source)))
    source = to_posix(source)
    if source.startswith("/") or _DRIVE.match(source):
        return posixpath.normpath(source)
    return posixpath.normpath(posixpath.join(to_posix(origin), source))


def _local_path(url: str) -> str:
    """Return the path in a URL of this machine, in which ``#`` and ``?`` are letters; empty for another machine."""
    # what follows two slashes is a machine, although many mean a folder by it
    host, slash, path = url.partition("://")[2].partition("/")
    return unquote(slash + path, errors="surrogateescape") if host in ("", "localhost") else ""


def full_location(source: str) -> str:
    """Return a URL unchanged, and the absolute path of anything else."""
    return source if is_url(source) else os.path.abspath(source)


def is_same_place(one: str, other: str) -> bool:
    """Tell whether two locations are the same file, also through symbolic links."""
    if is_url(one) or is_url(other):
        return one == other
    return os.path.realpath(one) == os.path.realpath(other)


def location_of(path: str | os.PathLike[str]) -> str:
    """Return the location of a file: an absolute path, or a URL without a slash at its end."""
    if isinstance(path, str) and is_url(path) and not path.startswith(LOCAL_URLS):
        address = without_query(path)
        stripped = address.rstrip("/")
        return path if stripped.endswith(":") else stripped + path[len(address) :]
    if not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"{path!r} is not a path", remedy="Give a str or a pathlib.Path.")
    given = text = os.fsdecode(path)
    if text.startswith(LOCAL_URLS):
        text = _local_path(text)
    if not text:
        problem = f"{given!r} does not name a file of this machine"
        raise UsageError(problem, remedy="Name the file: a path, or file:///folder/a.nwb.zarr.")
    if not isinstance(path, str) and text.partition(":/")[0].rpartition("::")[2] in _OF_URLS:
        # pathlib has made one slash of two
        raise UsageError(f"{text!r} was a URL before it became a Path", remedy="Give the URL as a str, or a UPath.")
    if is_url(text):
        raise UsageError(f"{text!r} is not local", remedy="Only local directories can be opened by this version.")
    return os.path.abspath(text)


def inside_of(path: str) -> tuple[str, str] | None:
    """Return problem and remedy of a path below a file that is not a folder, None for any other path."""
    from zipfile import is_zipfile  # for these messages only

    file = next((folder for folder in map(str, Path(path).parents) if os.path.lexists(folder)), "")
    if not os.path.isfile(file):
        return None
    if is_zipfile(file):
        return f"this is a part of the zip file {file!r}, and not a file", f"Give the path of the file: {file!r}."
    return f"{file!r} is a file, not a folder", "Check the path."


def split_location(location: str) -> tuple[str, str]:
    """Return folder and name of a file; a query, which may grant access, stays with the folder."""
    if not is_url(location):
        return os.path.split(location)
    if (chain := _IN_ARCHIVE.fullmatch(location)) is not None:
        scheme, inside, archive = chain.groups("")
        folder, _, name = inside.rpartition("/")
        return f"{scheme}://{folder}::{archive}", name
    host, path = _split_url(location)
    folder, _, name = path.rpartition("/")
    return host + folder + location[len(host + path) :].partition("#")[0], name


# ---- links to other files ------------------------------------------------------------------------------------------


def _protocols(location: str) -> list[str]:
    """Return the protocols of a chain of fsspec, the one of the file itself last; ``file`` for local paths."""
    protocols = []
    for number, part in enumerate(parts := location.split("::"), 1):
        name, mark, _ = part.partition("://")
        # The last part may be a path that looks like a protocol.
        is_wrapper = _WRAPPER.fullmatch(part) and number < len(parts)
        # One letter is a drive of Windows.
        is_remote = mark and len(name) > 1 and name.lower() + mark not in LOCAL_URLS
        protocols.append(name.lower() if is_remote or is_wrapper else "file")
    return protocols


def why_not(
    target: str, origin: str, policy: str | None, *, free: bool, kind: str = "links"
) -> tuple[str, dict[str, str]] | None:
    """Return why a file may not refer to another one, and the remedies of the error, if any; None if it may."""
    # this rule holds for links, references, files in chunk references, and external files of HDF5
    if policy == "never":
        return f"{kind} to other files are not followed", _WITHIN
    chain, is_remote = _protocols(target), is_url(origin)
    if is_remote and "file" in chain:
        return "a file on a server does not lead to files of this machine", {}
    is_path = not is_url(target) and "::" not in target
    is_of_server = chain[-1] in SERVER_SCHEMES and set(chain[:-1]) <= CACHES
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
    how, address = split_chain(without_query(origin))
    target_how, target_address = split_chain(target)
    folder = posixpath.dirname(address.rstrip("/")) + "/"
    if target_how != how or leads_up(target_address):
        return False
    return folder.count("/") > 2 and target_address.startswith(folder)


def leads_up(address: str) -> bool:
    """Tell whether a path on a server has a part ``..``, as which a server may resolve %2e%2e."""
    return ".." in unquote(address).replace("\\", "/").split("/")


def authority(location: str) -> tuple[str, str]:
    """Return the protocol and the server of a URL; options are passed on only between files with the same of both."""
    # Credentials must not reach another server by way of a link: another host of the web, or another account, as in
    # ``abfss://container@account/...``.
    scheme, _, rest = location.rpartition("://")
    host = rest.partition("/")[0]
    return scheme, host if scheme.endswith(("http", "https")) else host.partition("@")[2]
