"""The cached namespaces of a file: reading them, and loading them into an hdmf catalogue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.encoding.reserved import SPECLOC
from hdmf_zarr_backend.errors import MetadataError, MissingNamespacesWarning, ZarrBackendError, at, warn
from hdmf_zarr_backend.formats.namespaces import NAMESPACE, cached_versions, newest_version, spec_location
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, absolute, join
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.wrappers import InlinedStore

USE_INSTALLED = {
    "remedy": "Open with load_namespaces=False to read the file with the installed schema.",
    "remedy_cli": "`zarrio validate --installed` and `zarrio convert --no-check` use the installed schema.",
}

HDMF_ERRORS = (ValueError, TypeError, LookupError, AttributeError, NameError, RecursionError)
"""Errors that HDMF raises for invalid specifications, which it does not check."""


def newest_versions(hierarchy: Hierarchy) -> dict[str, str]:
    """Return ``{namespace: version}`` of the newest cached version of each."""
    return {name: newest_version(versions) for name, versions in cached_versions(hierarchy).items() if versions}


def is_registered(catalog: Any, namespace: Any, data_type: str) -> bool:
    """Tell whether a catalog has a data type in a namespace."""
    return namespace in catalog.namespaces and data_type in catalog.get_namespace(namespace).get_registered_types()


_OF_HDMF = frozenset({"core", "hdmf-common", "hdmf-experimental"})


def version_conflicts(catalog: Any, hierarchy: Hierarchy) -> list[str]:
    """Return which extensions are loaded in another version than the file was written with."""
    return [
        f"{name!r} {catalog.get_namespace(name).version} is loaded, and the file has {version}"
        for name, version in newest_versions(hierarchy).items()
        if name in catalog.namespaces and name not in _OF_HDMF and catalog.get_namespace(name).version != version
    ]


def load_cached_namespaces(
    catalog: Any, store: Store, hierarchy: Hierarchy, namespaces: list[str] | None = None
) -> dict[str, Any]:
    """Load the newest version of each cached namespace into ``catalog`` (a NamespaceCatalog or TypeMap)."""
    from hdmf_zarr_backend.builders.specs import TextSpecReader  # imported here: reading only texts does not need hdmf

    versions = cached_versions(hierarchy)
    if not versions:
        message = f"No cached namespaces found in {store.location!r}: the installed ones are used."
        warn(message, MissingNamespacesWarning, stacklevel=3)
        return {}
    location = str(spec_location(hierarchy.root.attributes.get(SPECLOC)))
    readers = {}
    with at(store, location):
        for name in versions if namespaces is None else namespaces:
            if not versions.get(name):
                known = f"The cached namespaces are: {', '.join(versions)}."
                raise MetadataError(f"the namespace {name!r} is not cached", remedy=known)
            path = join(join(location, name), newest_version(versions[name]))
            text = source_texts(store, hierarchy, path)
            readers[name] = TextSpecReader(store.location, text, path=absolute(path))
        try:
            loaded: dict[str, Any] = catalog.load_namespaces(NAMESPACE, reader=readers)
        except ZarrBackendError:
            raise  # a source cannot be read
        except HDMF_ERRORS as error:
            problem = f"HDMF does not understand the cached namespaces ({type(error).__name__}: {error})"
            raise MetadataError(problem, **USE_INSTALLED) from error
    return loaded


def source_texts(store: Store, hierarchy: Hierarchy, path: str) -> Callable[[str], str]:
    """Return a function that returns the JSON text of a source of the namespace cached at `path`.

    It raises a MetadataError if the source is missing or is not text.
    """
    cache = ChunkCache()
    if store.abilities.is_remote:  # request all at once, unless they are inlined
        group = hierarchy.get(path)
        members = group.members if isinstance(group, Group) else {}
        arrays = ((join(path, name), node.stored) for name, node in members.items() if isinstance(node, Dataset))
        names = [join(place, stored.chunk_name((0,) * len(stored.shape))) for place, stored in arrays]
        store = InlinedStore(store, store.get_many(names))

    def text(source: str) -> str:
        place = join(path, source)
        with at(store, place):
            node = hierarchy.get(place)
            if not isinstance(node, Dataset):
                raise MetadataError(f"the cached source {source!r} is missing", **USE_INSTALLED)
            values = np.asarray(ChunkReader(store, place, node.stored, cache).read(), dtype=object).reshape(-1)
            found = values[0] if len(values) == 1 else None
            if isinstance(found, bytes):
                found = found.decode("utf-8")
            if not isinstance(found, str):
                raise MetadataError("a cached source is not text", **USE_INSTALLED)
            return found

    return text
