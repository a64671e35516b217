"""The cached namespaces of a file: loaded into an hdmf catalogue, and written from one."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from hdmf.backends.utils import NamespaceToBuilderHelper
from hdmf.spec import SpecReader, SpecWriter

from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.errors import MetadataError, MissingNamespacesWarning, NameRefusedError, ZarrBackendError
from hdmf_zarr_backend.formats import dtypes
from hdmf_zarr_backend.formats.namespaces import NAMESPACE, newest_version, spec_location
from hdmf_zarr_backend.formats.reserved import DIMENSIONS, DTYPE, SPECLOC
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, GroupNode, Hierarchy, absolute, join, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.wrappers import InlinedStore
from hdmf_zarr_backend.transfer.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.transfer.sources import ElementSource, to_text

SPECIFICATIONS = "specifications"
"""Name of the group of cached namespaces."""

_USE_INSTALLED = "Open with load_namespaces=False to read the file with the installed schema."


class TextSpecWriter(SpecWriter):  # type: ignore[misc]
    """Collects the sources of one namespace as JSON text.

    Attributes
    ----------
    texts : dict
        ``{source: text}``; the namespace itself is under ``"namespace"``.
    """

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def write_spec(self, spec: Any, path: str) -> None:
        """Keep the text of one source file."""
        self.texts[path] = _text(spec)

    def write_namespace(self, namespace: Any, path: str) -> None:
        """Keep the text of the namespace."""
        self.texts[path] = _text({"namespaces": [namespace]})


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


class TextSpecReader(SpecReader):  # type: ignore[misc]
    """Gives hdmf the sources of one cached namespace.

    Parameters
    ----------
    store : str
        The file, for messages.
    text : callable
        Returns the JSON text of a source by its name.
    path : str
        Absolute path of the group that holds the sources.
    """

    def __init__(self, store: str, text: Callable[[str], str], *, path: str = "/") -> None:
        super().__init__(source=f"{store}:{path}")
        self._store = store
        self._path = path.rstrip("/")
        self._source_text = text

    def read_spec(self, spec_path: str) -> Any:
        """Return the specification of one source."""
        return self._load(spec_path)

    def read_namespace(self, ns_path: str) -> Any:
        """Return the list of namespaces of the source ``ns_path``."""
        document = self._load(ns_path)
        if not isinstance(document, dict) or not isinstance(document.get("namespaces"), list):
            raise MetadataError(
                f"the cached source {ns_path!r} lists no namespaces",
                store=self._store,
                path=f"{self._path}/{ns_path}",
                remedy=_USE_INSTALLED,
            )
        return document["namespaces"]

    def _load(self, name: str) -> Any:
        try:
            return json.loads(self._source_text(name))
        except (ValueError, RecursionError) as error:
            raise MetadataError(
                f"the cached specification {name!r} is no JSON ({type(error).__name__})",
                store=self._store,
                path=f"{self._path}/{name}",
                remedy=_USE_INSTALLED,
            ) from error


HDMF_ERRORS = (ValueError, TypeError, LookupError, AttributeError, NameError, RecursionError)
"""Errors of HDMF for invalid specifications, which it does not check before it uses them."""


def cached_versions(hierarchy: Hierarchy) -> dict[str, list[str]]:
    """Return ``{namespace: versions}`` of what is cached in a file."""
    location = spec_location(hierarchy.root.attributes.get(SPECLOC))
    group = hierarchy.get(location) if location is not None else None
    if not isinstance(group, GroupNode):
        return {}
    return {name: sorted(node.members) for name, node in sorted(group.members.items()) if isinstance(node, GroupNode)}


def newest_versions(hierarchy: Hierarchy) -> dict[str, str]:
    """Return ``{namespace: version}`` of the newest cached version of each."""
    return {name: newest_version(versions) for name, versions in cached_versions(hierarchy).items() if versions}


def load_cached_namespaces(
    catalog: Any, keys: Store, hierarchy: Hierarchy, namespaces: list[str] | None = None
) -> dict[str, Any]:
    """Load the newest version of each cached namespace into ``catalog`` (a NamespaceCatalog or TypeMap).

    Returns
    -------
    dict
        ``{namespace: {dependency: types}}``.

    Raises
    ------
    MetadataError
        A namespace that was asked for is not cached, or a cached one cannot be read.
    """
    versions = cached_versions(hierarchy)
    if not versions:
        warnings.warn(
            f"No cached namespaces found in {keys.location!r}: the installed ones are used.",
            MissingNamespacesWarning,
            stacklevel=3,
        )
        return {}
    location = str(spec_location(hierarchy.root.attributes.get(SPECLOC)))
    readers = {}
    for name in versions if namespaces is None else namespaces:
        if not versions.get(name):
            raise MetadataError(
                f"the namespace {name!r} is not cached",
                store=keys.location,
                path=absolute(location),
                remedy=f"Cached are: {', '.join(versions)}.",
            )
        path = join(join(location, name), newest_version(versions[name]))
        readers[name] = TextSpecReader(keys.location, source_texts(keys, hierarchy, path), path=absolute(path))
    try:
        loaded: dict[str, Any] = catalog.load_namespaces(NAMESPACE, reader=readers)
    except ZarrBackendError:
        raise  # of a source that cannot be read
    except HDMF_ERRORS as error:
        raise MetadataError(
            f"HDMF does not understand the cached namespaces ({type(error).__name__}: {error})",
            store=keys.location,
            path=absolute(location),
            remedy=_USE_INSTALLED,
        ) from error
    return loaded


def source_texts(keys: Store, hierarchy: Hierarchy, path: str) -> Callable[[str], str]:
    """Return a function that gives the JSON text of a source of the namespace that is cached at `path`.

    It raises a MetadataError where the source is missing, or is not a text.
    """
    cache = ChunkCache()
    if keys.abilities.is_remote:  # all at once, where they are not inlined
        keys = InlinedStore(keys, keys.get_many(_chunk_keys(hierarchy, path)))

    def text(source: str) -> str:
        place = join(path, source)
        node = hierarchy.get(place)
        if not isinstance(node, ArrayNode):
            raise MetadataError(
                f"the cached source {source!r} is missing",
                store=keys.location,
                path=absolute(place),
                remedy=_USE_INSTALLED,
            )
        return _spec_text(keys, place, node, cache)

    return text


def _chunk_keys(hierarchy: Hierarchy, path: str) -> list[str]:
    group = hierarchy.get(path)
    members = group.members if isinstance(group, GroupNode) else {}
    arrays = {join(path, name): node for name, node in members.items() if isinstance(node, ArrayNode)}
    return [join(place, node.chunk_name((0,) * len(node.shape))) for place, node in arrays.items()]


def _spec_text(keys: Store, path: str, node: ArrayNode[Attributes], cache: ChunkCache) -> str:
    """Return the JSON text of one cached source, however it was stored."""
    try:
        value: Any = ChunkReader(keys, path, node, cache).read()
    except ZarrBackendError as error:
        raise error.located(store=keys.location, path=absolute(path)) from error.__cause__
    value = np.asarray(value, dtype=object).reshape(-1)
    text = value[0] if len(value) == 1 else None
    if isinstance(text, bytes):
        text = text.decode("utf-8")
    if not isinstance(text, str):
        raise MetadataError(
            "a cached source is no text",
            store=keys.location,
            path=absolute(path),
            remedy=_USE_INSTALLED,
        )
    return text


Texts = Mapping[str, Mapping[str, Mapping[str, str]]]


def namespace_texts(catalogs: Iterable[Any]) -> dict[str, dict[str, dict[str, str]]]:
    """Return ``{namespace: {version: {source: text}}}`` of all namespaces; the first catalogue that has one counts."""
    texts: dict[str, dict[str, dict[str, str]]] = {}
    for catalog in catalogs:
        for name in catalog.namespaces:
            if name in texts:
                continue
            writer = TextSpecWriter()
            NamespaceToBuilderHelper.convert_namespace(catalog, name).export(NAMESPACE, writer=writer)
            texts[name] = {str(catalog.get_namespace(name).version): writer.texts}
    return texts


def add_specs(plan: WritePlan, texts: Texts, *, location: str) -> set[str]:
    """Put the cached namespaces into ``plan``; those that it holds already stay as they are.

    Returns
    -------
    set of str
        Paths of the topmost groups and arrays that were added.

    Raises
    ------
    NameRefusedError
        The file has a group or dataset of its own where the namespaces go.
    """
    root = plan.hierarchy.root
    assert isinstance(root, GroupNode)
    if not texts:
        return set()
    if SPECIFICATIONS in root.members and SPECLOC not in root.attributes:
        raise NameRefusedError(
            f"the name {SPECIFICATIONS!r} is taken by the cached namespaces",
            store=location,
            path=absolute(SPECIFICATIONS),
            remedy="Rename it, or write with cache_spec=False.",
        )
    place = spec_location(root.attributes.get(SPECLOC)) or SPECIFICATIONS
    if SPECLOC not in root.attributes:
        root.attributes = {**root.attributes, SPECLOC: place}
    added: set[str] = set()
    for name, versions in texts.items():
        for version, sources in versions.items():
            _add_version(plan, (*place.split("/"), name, version), sources, added)
    return {path for path in added if split(path)[0] not in added}


def _add_version(plan: WritePlan, parts: tuple[str, ...], sources: Mapping[str, str], added: set[str]) -> None:
    group = plan.hierarchy.root
    path = ""
    for part in parts:
        assert isinstance(group, GroupNode)
        path = join(path, part)
        if part not in group.members:
            group.members[part] = GroupNode()
            added.add(path)
        elif path.count("/") == len(parts) - 1:
            return  # this version is cached already
        group = group.members[part]
    assert isinstance(group, GroupNode)
    for source, text in sources.items():
        place = join(path, source)
        planned = text_array(text)
        group.members[source] = planned.node
        plan.arrays[place] = planned


def text_array(text: str) -> PlannedArray:
    """Plan an array that is one text, as each source of a namespace is."""
    values = np.array([text], dtype=object)
    node: ArrayNode[dict[str, Any]] = ArrayNode(
        shape=(1,),
        chunks=(1,),
        data_type="|O",
        filters=[dict(dtypes.VLEN_UTF8)],
        attributes={DTYPE: "scalar", DIMENSIONS: ["_anonymous1"]},
    )
    return PlannedArray(node, ElementSource(values, (1,), to_text))
