"""Where the schema of a file comes from: the namespaces that are cached in it, else the installed ones."""

from __future__ import annotations

import json

from hdmf_zarr_backend.builders.namespaces import newest_versions, source_texts
from hdmf_zarr_backend.errors import MetadataError, UsageError
from hdmf_zarr_backend.formats.namespaces import NAMESPACE, spec_location
from hdmf_zarr_backend.formats.reserved import SPECLOC
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute, join
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.validation.inheritance import Texts, frozen_texts, included
from hdmf_zarr_backend.validation.view import type_key_of

_CORE = "core"
_IGNORED = "hdmf-experimental"


def cached_texts(keys: Store, hierarchy: Hierarchy) -> Texts:
    """Return the newest version of each namespace that is cached in a file; nothing where there is none.

    Raises
    ------
    MetadataError
        A source is missing, or is no JSON.
    """
    location = spec_location(hierarchy.root.attributes.get(SPECLOC))
    found: dict[str, dict[str, str]] = {}
    for name, version in newest_versions(hierarchy).items():
        path = join(join(str(location), name), version)
        text = source_texts(keys, hierarchy, path)
        found[name] = {NAMESPACE: text(NAMESPACE)}
        for source in _sources(found[name][NAMESPACE], keys.location, path):
            found[name][source] = text(source)
    return frozen_texts(found)


def _sources(text: str, location: str, path: str) -> list[str]:
    try:
        listed = json.loads(text)["namespaces"]
        return [entry["source"] for namespace in listed for entry in namespace["schema"] if "source" in entry]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MetadataError(
            f"the cached namespace is none ({type(error).__name__})",
            store=location,
            path=absolute(path),
            remedy="Validate against the installed namespaces: use_cached=False, or --installed.",
        ) from error


def is_nwb(hierarchy: Hierarchy) -> bool:
    """Tell whether a file is of NWB, by the attribute that holds types."""
    return type_key_of(hierarchy.root) == "neurodata_type"


def installed_texts(*, nwb: bool) -> Texts:
    """Return the namespaces that are installed: those of pynwb, which has those of hdmf too, or those of hdmf alone."""
    from hdmf_zarr_backend.builders.namespaces import namespace_texts  # on use: hdmf takes its time to load

    if nwb:
        from pynwb import get_type_map
    else:
        from hdmf.common import get_type_map
    texts = namespace_texts([get_type_map().namespace_catalog])
    return frozen_texts({name: sources for name, versions in texts.items() for sources in versions.values()})


def namespaces_to_hold(
    texts: Texts, hierarchy: Hierarchy, wanted: str | None = None, *, cached: bool = True
) -> list[str]:
    """Return the namespaces to hold a file against.

    Of an NWB file those are the cached ones that no other includes, or the installed core, as with ``pynwb.validate``;
    of another file the one that the root names.

    Parameters
    ----------
    texts : tuple
        The namespaces that there are.
    hierarchy : Hierarchy
        The file.
    wanted : str, optional
        The one to take.
    cached : bool
        They are those that are cached in the file.

    Raises
    ------
    UsageError
        There is none of the name `wanted`.
    MetadataError
        The root names none of them.
    """
    known = [name for name, _ in texts]
    if wanted is not None:
        if wanted not in known:
            raise UsageError(f"there is no namespace {wanted!r}", remedy=f"There are: {', '.join(known)}.")
        return [wanted]
    if is_nwb(hierarchy):
        below = included(texts)
        specific = [name for name in known if cached and not any(name in others for others in below.values())]
        return [name for name in specific if name != _IGNORED] or [_CORE]
    named = hierarchy.root.attributes.get("namespace")
    if named not in known:
        raise MetadataError(
            f"the root names the namespace {named!r}, which is not there",
            path="/",
            remedy=f"Name one of them: {', '.join(known)}.",
        )
    return [str(named)]
