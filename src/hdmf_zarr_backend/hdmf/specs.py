"""Cached namespaces <-> the catalogs of hdmf, which this module imports.

Apart from `namespaces`, because a conversion reads the names of axes from the JSON, and hdmf is slow to import.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.spec import SpecReader, SpecWriter

from hdmf_zarr_backend.encoding.namespaces import NAMESPACE, cached_versions, newest_version, spec_location
from hdmf_zarr_backend.encoding.reserved import SPECLOC
from hdmf_zarr_backend.errors import MetadataError, MissingNamespacesWarning, ZarrBackendError, at, warn
from hdmf_zarr_backend.hdmf.namespaces import HDMF_ERRORS, USE_INSTALLED, source_texts
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute, join
from hdmf_zarr_backend.store.base import Store


class TextSpecReader(SpecReader):  # type: ignore[misc]
    """Gives hdmf the sources of one cached namespace."""

    def __init__(self, store: str, text: Callable[[str], str], *, path: str = "/") -> None:
        super().__init__(source=f"{store}:{path}")
        self._store = store
        self._path = path.rstrip("/")
        self._source_text = text

    def read_spec(self, spec_path: str) -> Any:
        """Return the specification of one source."""
        return self._load(spec_path)

    def read_namespace(self, ns_path: str) -> Any:
        """Return the list of namespaces in the source ``ns_path``."""
        document = self._load(ns_path)
        if not isinstance(document, dict) or not isinstance(document.get("namespaces"), list):
            raise self._error(f"the cached source {ns_path!r} lists no namespaces", ns_path)
        return document["namespaces"]

    def _load(self, name: str) -> Any:
        try:
            return json.loads(self._source_text(name))
        except (ValueError, RecursionError) as error:
            problem = f"the cached specification {name!r} is not JSON ({type(error).__name__})"
            raise self._error(problem, name) from error

    def _error(self, problem: str, name: str) -> MetadataError:
        return MetadataError(problem, store=self._store, path=f"{self._path}/{name}", **USE_INSTALLED)


def load_cached_namespaces(
    catalog: Any, store: Store, hierarchy: Hierarchy, namespaces: list[str] | None = None
) -> dict[str, Any]:
    """Load the newest version of each cached namespace into ``catalog`` (a NamespaceCatalog or TypeMap).

    hdmf ignores a namespace that the catalog has in another version already, such as an installed one, and warns.
    """
    versions = cached_versions(hierarchy)
    if not versions:
        message = f"No cached namespaces found in {store.location!r}: the installed ones are used."
        warn(message, MissingNamespacesWarning, stacklevel=3)
        return {}
    location = str(spec_location(hierarchy.root.attributes.get(SPECLOC)))
    # all in one call of hdmf, which loads what a namespace includes from the reader of the included one
    readers = {}
    with at(store, location):
        for name in versions if namespaces is None else namespaces:
            if not versions.get(name):
                known = f"The cached namespaces are: {', '.join(versions)}."
                raise MetadataError(f"the namespace {name!r} is not cached", remedy=known)
            # by number: hdmf-zarr 0.13 takes 2.9.0 for newer than 2.11.0, by the order of text
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


class TextSpecWriter(SpecWriter):  # type: ignore[misc]
    """Collects the sources of one namespace as JSON text."""

    def __init__(self) -> None:
        # by source; the namespace itself is under ``"namespace"``
        self.texts: dict[str, str] = {}

    def write_spec(self, spec: Any, path: str) -> None:
        """Keep the text of one source file."""
        self.texts[path] = json.dumps(spec, separators=(",", ":"))

    def write_namespace(self, namespace: Any, path: str) -> None:
        """Keep the text of the namespace."""
        self.write_spec({"namespaces": [namespace]}, path)


def namespace_texts(catalogs: Iterable[Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Return ``{namespace: {version: {source: text}}}`` of all namespaces, each from the first catalogue with it."""
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for catalog in catalogs:
        for name in catalog.namespaces:
            if name in texts:
                continue
            writer = TextSpecWriter()
            NamespaceToBuilderHelper.convert_namespace(catalog, name).export(NAMESPACE, writer=writer)
            texts[name] = {str(catalog.get_namespace(name).version): writer.texts}
    return texts
