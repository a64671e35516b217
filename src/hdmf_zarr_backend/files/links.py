"""`resolver_of`: the resolver of a file, with the rules of its store for links to other files.

A link in a local file may point anywhere, as in HDF5; one in a remote file only to files beside it, never to this
machine.
"""

from __future__ import annotations

from hdmf_zarr_backend.errors import LinkRefusedError
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats.links import LinkedFile
from hdmf_zarr_backend.model.link_sources import why_not
from hdmf_zarr_backend.model.links import Resolver
from hdmf_zarr_backend.model.nodes import Hierarchy
from hdmf_zarr_backend.options import DEFAULT_RULES, ExternalLinks
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.opening import NOWHERE, may_exist, open_neighbour


def check_link(target: str, origin: str, policy: ExternalLinks | None) -> None:
    """Refuse a link that the policy does not allow."""
    if target.startswith(NOWHERE) and policy != "never":
        return  # such a location cannot be opened
    refused = why_not(target, origin, policy, free=True)
    if refused is not None:
        problem, remedies = refused
        problem = f"the link to {target!r} is refused: {problem}"
        raise LinkRefusedError(problem, store=origin, **remedies or {"remedy": "Download the file, and open it there."})


def resolver_of(store: Store | None, hierarchy: Hierarchy, location: str = "") -> Resolver[LinkedFile]:
    """Return the resolver of a file; it reads linked files by the same rules, and does not change them."""
    rules = DEFAULT_RULES if store is None else store.read_rules

    def open_other(other: str) -> LinkedFile:
        assert store is not None
        linked = open_neighbour(store, other)
        # format 2 is not guessed: where a file has metadata of both formats, those of format 3 count
        parsed = parse(linked, hint=3 if hierarchy.zarr_format == 3 else None)
        return LinkedFile(parsed.store(linked), parsed.hierarchy, other)

    return Resolver(
        LinkedFile(store, hierarchy, location or ("" if store is None else store.location)),
        open_other,
        may_follow=lambda target, origin: check_link(target, origin, rules.external_links),
        may_exist=may_exist,
        check_limit=rules.limits.check,
    )
