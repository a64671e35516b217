"""Where a location is, seen from a file that names it: on this machine, in the same folder, on the same server.

Source: issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

import os
import posixpath
from urllib.parse import unquote

from hdmf_zarr_backend.model.locations import is_url, split_chain

_LOCAL_SCHEMES = frozenset({"file", "local"})


def is_local(location: str) -> bool:
    """Tell whether a location, or a part of a chain, is on this machine."""
    parts = location.split("::")
    if not is_url(parts[-1]) and not ("::" in location and "://" in parts[-1]):
        return True
    return any(part.partition(":")[0].lower() in _LOCAL_SCHEMES for part in parts if "://" in part)


def is_within(target: str, origin: str) -> bool:
    """Tell whether a file is in the folder that holds ``origin``, or below it."""
    if not is_url(origin):
        folder = os.path.dirname(os.path.realpath(origin))
        return not is_url(target) and os.path.realpath(target).startswith(folder.rstrip(os.sep) + os.sep)
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
