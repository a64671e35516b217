"""Which other files a link or a reference may lead to.

A local file leads where it likes, as with HDF5; a remote one to its neighbours, and never to a file of this machine.

Source: issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

import os
import posixpath
from urllib.parse import unquote

from hdmf_zarr_backend.errors import LinkRefusedError
from hdmf_zarr_backend.model.locations import is_url, split_chain
from hdmf_zarr_backend.storage.limits import ExternalLinks
from hdmf_zarr_backend.storage.opening import NOWHERE

_LOCAL_SCHEMES = frozenset({"file", "local"})


def check_link(target: str, origin: str, policy: ExternalLinks | None) -> None:
    """Refuse a link that the policy does not allow.

    Parameters
    ----------
    target, origin : str
        Locations of the file that is named, and of the one that names it.
    policy : {"follow", "within", "never"} or None
        As of `ReadRules`.

    Raises
    ------
    LinkRefusedError
        Naming the policy, and what allows it.
    """
    if policy == "never":
        raise _refused(target, origin, "links to other files are not followed", 'external_links="within" or "follow"')
    if target.startswith(NOWHERE):
        return  # there is nothing that could be opened
    if is_url(origin) and _is_local(target):
        raise _refused(target, origin, "a remote file does not lead to files of this machine", "")
    is_bound = policy == "within" or (policy is None and is_url(origin))
    if is_bound and not _is_within(target, origin):
        problem = "links out of the folder that holds the file are not followed"
        raise _refused(target, origin, problem, 'external_links="follow"')


def _refused(target: str, origin: str, problem: str, remedy: str) -> LinkRefusedError:
    return LinkRefusedError(
        f"the link to {target!r} is refused: {problem}",
        store=origin,
        remedy=f"Pass {remedy}, if you trust the file." if remedy else "Download the file, and open it there.",
    )


def _is_local(location: str) -> bool:
    """Tell whether a location, or a part of a chain, is on this machine."""
    parts = location.split("::")
    if not is_url(parts[-1]) and not ("::" in location and "://" in parts[-1]):
        return True
    return any(part.partition(":")[0].lower() in _LOCAL_SCHEMES for part in parts if "://" in part)


def _is_within(target: str, origin: str) -> bool:
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
