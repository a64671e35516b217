"""Which other files a link or a reference may lead to.

A local file leads where it likes, as with HDF5; a remote one to its neighbours, and never to a file of this machine.

Source: issue "Nothing lost, nobody let in", part 5.
"""

from __future__ import annotations

from hdmf_zarr_backend.errors import LinkRefusedError
from hdmf_zarr_backend.stores.limits import ExternalLinks
from hdmf_zarr_backend.stores.locations import why_not
from hdmf_zarr_backend.stores.opening import NOWHERE


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
    if target.startswith(NOWHERE) and policy != "never":
        return  # there is nothing that could be opened
    refused = why_not(target, origin, policy, free=True)
    if refused is not None:
        problem, remedy = refused
        raise LinkRefusedError(
            f"the link to {target!r} is refused: {problem}",
            store=origin,
            remedy=f"{remedy}, if you trust the file." if remedy else "Download the file, and open it there.",
        )
