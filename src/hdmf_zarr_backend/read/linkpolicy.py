"""Which other files a link or a reference may lead to.

A local file leads where it likes, as with HDF5; a remote one to its neighbours, and never to a file of this machine.

Source: issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

from hdmf_zarr_backend.errors import LinkRefusedError
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.storage.limits import ExternalLinks
from hdmf_zarr_backend.storage.opening import NOWHERE
from hdmf_zarr_backend.storage.places import is_local, is_within


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
    if is_url(origin) and is_local(target):
        raise _refused(target, origin, "a remote file does not lead to files of this machine", "")
    is_bound = policy == "within" or (policy is None and is_url(origin))
    if is_bound and not is_within(target, origin):
        problem = "links out of the folder that holds the file are not followed"
        raise _refused(target, origin, problem, 'external_links="follow"')


def _refused(target: str, origin: str, problem: str, remedy: str) -> LinkRefusedError:
    return LinkRefusedError(
        f"the link to {target!r} is refused: {problem}",
        store=origin,
        remedy=f"Pass {remedy}, if you trust the file." if remedy else "Download the file, and open it there.",
    )
