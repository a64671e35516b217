"""Where a location is, seen from a file that names it: on this machine, in the same folder, on the same server.

Source: issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

import os
import posixpath
import re
from urllib.parse import unquote

from hdmf_zarr_backend.model.locations import is_url, split_chain
from hdmf_zarr_backend.stores.limits import ExternalLinks

_LOCAL_SCHEMES = frozenset({"file", "local"})
_WRAPPER = re.compile("[a-z]+")

REMOTE = frozenset({"http", "https", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "azure", "adl"})
"""Protocols of servers, which cannot lead to a file of this machine."""

CACHES = frozenset({"simplecache", "filecache", "blockcache", "cached"})
"""Protocols of fsspec that keep a copy of what another one reads."""


def is_local(location: str) -> bool:
    """Tell whether a location, or a part of a chain, is on this machine."""
    return "file" in protocols(location)


def protocols(location: str) -> list[str]:
    """Return the protocols of a chain of fsspec, the one that says where the file is last; ``file`` for local paths."""
    parts = location.split("::")
    found = [_protocol(part) for part in parts]
    if not _WRAPPER.fullmatch(parts[-1]):
        return found
    return [*found[:-1], "file"]  # a path that looks like a protocol


def _protocol(part: str) -> str:
    scheme, mark, _ = part.partition("://")
    if mark:
        name = scheme.lower() if len(scheme) > 1 else "file"  # a drive of Windows
        return "file" if name in _LOCAL_SCHEMES else name
    return part if _WRAPPER.fullmatch(part) else "file"


def why_not(
    target: str, origin: str, policy: ExternalLinks | None, *, free: bool, kind: str = "links"
) -> tuple[str, str] | None:
    """Return why a file may not lead to another one, and what to do about it; None if it may.

    This is the one rule for links, references, the files that chunk references name, and external files of HDF5.

    Parameters
    ----------
    target, origin : str
        Locations of the file that is named, and of the one that names it.
    policy : {"follow", "within", "never"} or None
        As of `ReadRules`.
    free : bool
        Whether a local file may lead out of its folder where ``policy`` is None.
    kind : str
        What names the file, for messages.
    """
    if policy == "never":
        return f"{kind} to other files are not followed", 'Pass external_links="within" or "follow"'
    is_far = is_url(origin)
    if is_far and is_local(target):
        return "a file on a server does not lead to files of this machine", ""
    if not is_url(target) and "::" not in target:
        if policy == "follow" or is_within(target, origin) or (policy is None and free):
            return None
        return f"{kind} out of the folder that holds the file are not followed", 'Pass external_links="follow"'
    chain = protocols(target)
    is_known = (is_far and chain == protocols(origin)) or (chain[-1] in REMOTE and set(chain[:-1]) <= CACHES)
    if not is_known and (is_far or policy != "follow"):
        return (
            f"the protocols {', '.join(chain)} are not followed",
            "" if is_far else 'Pass external_links="follow"',
        )
    if policy == "follow" or is_within(target, origin) or (policy is None and not is_far):
        return None
    return f"{kind} out of the folder that holds the file are not followed", 'Pass external_links="follow"'


def is_within(target: str, origin: str) -> bool:
    """Tell whether a file is in the folder that holds ``origin``, or below it."""
    if not is_url(origin):
        folder = os.path.dirname(os.path.realpath(origin))
        try:
            return not is_url(target) and os.path.realpath(target).startswith(folder.rstrip(os.sep) + os.sep)
        except ValueError:  # no path of this machine has a NUL or a lone surrogate
            return False
    how, place = split_chain(origin)
    target_how, target_place = split_chain(target)
    folder = posixpath.dirname(place.rstrip("/")) + "/"
    plain = unquote(target_place)
    if target_how != how or ".." in plain.replace("\\", "/").split("/"):
        return False
    return folder.count("/") > 2 and target_place.startswith(folder)


def authority(location: str) -> tuple[str, str]:
    """Return what has to be equal for options to be passed on: how a file is read, and whose server it is.

    That is the host of a web server, and the account in a URL such as ``abfss://container@account/...``.
    """
    scheme, _, rest = location.rpartition("://")
    host = rest.partition("/")[0]
    return scheme, host if scheme.endswith(("http", "https")) else host.partition("@")[2]
