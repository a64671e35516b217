"""`check_link`: which other files a link or a reference may point to.

A link in a local file may point anywhere, as in HDF5; one in a remote file only to files beside it, never to this
machine.
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
        Locations of the other file, and of the file with the link.
    policy : {"follow", "within", "never"} or None
        As in `ReadRules`.

    Raises
    ------
    LinkRefusedError
        The message names the policy, and the setting that allows the link.
    """
    if target.startswith(NOWHERE) and policy != "never":
        return  # such a location cannot be opened
    refused = why_not(target, origin, policy, free=True)
    if refused is not None:
        problem, remedy = refused
        raise LinkRefusedError(
            f"the link to {target!r} is refused: {problem}",
            store=origin,
            remedy=f"{remedy}, if you trust the file." if remedy else "Download the file, and open it there.",
        )
