"""The consolidated document against what it is a copy of: where one of both has something alone, or they differ.

Readers trust the consolidated document. What it alone has of a node, be it a document or a chunk, is the only good copy
there is: to make the consolidated document anew would be the end of it, and to write it back mends the file.

Source: issue "Nothing lost, nobody let in", part 4.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.errors import (
    MetadataError,
    StoreRefusedError,
    StoreUnreachableError,
    ZarrBackendError,
)
from hdmf_zarr_backend.formats import registry, zarr2, zarr3
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, split
from hdmf_zarr_backend.stores.base import Store, is_outside
from hdmf_zarr_backend.verification.chunks import kind_of
from hdmf_zarr_backend.verification.stored import Index, StoredObjects

Documents = dict[str, Any]

_MAIN = (zarr2.GROUP, zarr2.ARRAY)
_SEPARATOR = "dimension_separator"
_ONLY = "is in the consolidated document only"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that the consolidated document has otherwise than the store.

    Attributes
    ----------
    key, path : str
        Of the document or the chunk, and of the node that it belongs to.
    kind, message : str
        As of `Problem`.
    is_good : bool
        What the consolidated document has there is whole, and fits to the node as it is.
    """

    key: str
    path: str
    kind: str
    message: str
    is_good: bool = False


# ---- documents ------------------------------------------------------------------------------------------------------


def is_array_at(documents: Mapping[str, Any], path: str) -> bool:
    """Tell whether the document of an array is among those of ``{key: document}``."""
    document = documents.get(zarr3.key_of(path))
    return zarr2.key_of(path, zarr2.ARRAY) in documents or (
        isinstance(document, dict) and document.get("node_type") == "array"
    )


def array_above(documents: Mapping[str, Any], path: str) -> str | None:
    """Return the path of an array that the node at ``path`` would be inside of, None where there is none."""
    while path:
        path = split(path)[0]
        if is_array_at(documents, path):
            return path
    return None


class Comparison:
    """The documents in the consolidated one against those of the nodes.

    Parameters
    ----------
    consolidated, documents : dict
        ``{key: document}`` of both.
    damaged : set of str
        Keys of documents that are there and cannot be read; they are said to be damaged already.
    """

    def __init__(self, consolidated: Documents, documents: Documents, damaged: Collection[str]) -> None:
        self._consolidated = consolidated
        self._documents = documents
        self._damaged = damaged
        self._names = {zarr3.DOCUMENT} if zarr3.DOCUMENT in documents else zarr2.DOCUMENT_NAMES
        self._with_members: set[str] | None = None

    def differences(self) -> Iterator[Difference]:
        """Yield what is not the same, by keys."""
        for key in sorted(self._consolidated.keys() | self._documents.keys()):
            if key == zarr3.DOCUMENT or key in self._damaged:
                continue  # the root of format 3 is the consolidated document itself
            default: Any = (
                {} if split(key)[1] == zarr2.ATTRIBUTES else None
            )  # no attributes, with or without a document
            there, stated = self._documents.get(key, default), self._consolidated.get(key, default)
            if _is_same(there, stated):
                continue
            if key in self._documents:
                what = "says something else than" if key in self._consolidated else "is not in"
                yield _stale(key, f"{key!r} {what} the consolidated document")
            else:
                yield self._alone(key)

    def _alone(self, key: str) -> Difference:
        """Return what is said of a document that only the consolidated one has."""
        nothing = self._why_nothing(key)
        if nothing:
            return _stale(key, f"{key!r} is in the consolidated document only: {nothing}")
        hindrance = self._hindrance(key)
        message = f"{key!r} {_ONLY}" + (f": {hindrance}" if hindrance else "")
        return Difference(key, split(key)[0], "document-missing", message, is_good=not hindrance)

    def _why_nothing(self, key: str) -> str:
        """Return why a key with such a document cannot have been one of this file; ``""`` where it can."""
        path, name = split(key)
        if is_outside(key):
            return "it leads out of the store"
        if name not in self._names or (path and {"", "."} & set(path.split("/"))):
            return "no document is called so"
        if array_above(self._consolidated, path) is not None:
            return "an array has no members"
        if name == zarr2.ATTRIBUTES:
            mains = [zarr2.key_of(path, main) for main in _MAIN]
            if not any(main in self._consolidated or self._is_there(main) for main in mains):
                return "it belongs to no node"
        return _damage_of(key, self._consolidated[key])

    def _hindrance(self, key: str) -> str:
        """Return why a document cannot be written back; ``""`` where it can."""
        path, name = split(key)
        if array_above(self._documents, path) is not None:
            return "an array is above it now"
        other = {zarr2.GROUP: zarr2.ARRAY, zarr2.ARRAY: zarr2.GROUP}.get(name)
        if other is not None and self._is_there(zarr2.key_of(path, other)):
            return "the node is something else now"
        if is_array_at({key: self._consolidated[key]}, path) and path in self._parents():
            return "there are nodes below it now"
        if name == zarr2.ATTRIBUTES and not self._is_same_node(path):
            return "the node is another one now"
        return ""

    def _is_there(self, key: str) -> bool:
        return key in self._documents or key in self._damaged

    def _is_same_node(self, path: str) -> bool:
        """Tell whether the node of these attributes is as the consolidated document has it, but for them."""
        mains = [zarr2.key_of(path, name) for name in _MAIN]
        there = {key: self._documents[key] for key in mains if key in self._documents}
        is_damaged = any(key in self._damaged for key in mains)
        return not is_damaged and all(_is_same(there[key], self._consolidated.get(key)) for key in there)

    def _parents(self) -> set[str]:
        """Return the paths that have a node below them."""
        if self._with_members is None:
            self._with_members = set()
            for key in self._documents:
                path, _ = split(key)
                while path and (path := split(path)[0]) not in self._with_members:
                    self._with_members.add(path)
        return self._with_members


def _stale(key: str, message: str) -> Difference:
    return Difference(key, split(key)[0], "consolidated-stale", message)


def _damage_of(key: str, document: Any) -> str:
    """Return what is wrong with a document, ``""`` where nothing is."""
    path, name = split(key)
    try:
        if name == zarr3.DOCUMENT:
            registry.parse_array({name: document}, path)
        elif name == zarr2.ARRAY:
            zarr2.parse_array(document, {}, path)
        elif name == zarr2.GROUP:
            zarr2.parse_group(document, {}, path)
        elif not isinstance(document, dict):
            return f"{name} is no JSON object"
    except MetadataError as error:
        return error.problem
    return ""


def _is_same(one: Any, other: Any) -> bool:
    """Tell whether two documents say the same: NaN equals NaN, and what is said by default may be left out."""
    if one == other:
        return True
    if not isinstance(one, dict) or not isinstance(other, dict):
        return False
    return json.dumps(_plain(one), sort_keys=True) == json.dumps(_plain(other), sort_keys=True)


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without what zarr-python puts into it when it consolidates."""
    added = {zarr3.CONSOLIDATED}
    if document.get("zarr_format") == 2 and document.get(_SEPARATOR) == ".":
        added.add(_SEPARATOR)
    return {key: value for key, value in document.items() if key not in added}


def without_block(document: Any) -> Any:
    """Return a document of format 3 without the consolidated ones in it."""
    if isinstance(document, dict) and zarr3.CONSOLIDATED in document:
        return {key: value for key, value in document.items() if key != zarr3.CONSOLIDATED}
    return document


# ---- chunks ---------------------------------------------------------------------------------------------------------


def inlined_differences(
    keys: Store, inlined: Mapping[str, bytes], hierarchy: Hierarchy, changed: Collection[str]
) -> Iterator[Difference]:
    """Yield what is not the same of the chunks that the consolidated document holds itself.

    Parameters
    ----------
    keys : Store
        The store.
    inlined : mapping
        ``{key: bytes}`` of those chunks.
    hierarchy : Hierarchy
        All nodes, those included of which only the consolidated document has documents.
    changed : set of str
        Paths of the nodes of which it says something else.
    """
    stored = _stored(keys, [key for key in inlined if not is_outside(key)])
    for key, value in inlined.items():
        there = stored.get(key)
        if there != value:
            yield _difference_of(keys, key, (value, there), (hierarchy, changed))


def _stored(keys: Store, wanted: list[str]) -> dict[str, bytes | ZarrBackendError]:
    """Return those values that are there, or the error with which each of them cannot be read."""
    found: dict[str, bytes | ZarrBackendError] = {}
    try:
        found.update(keys.get_many(wanted))
    except (StoreRefusedError, StoreUnreachableError):
        raise  # nothing is known of any of them
    except ZarrBackendError:
        for key in wanted:
            try:
                found.update(keys.get_many([key]))
            except ZarrBackendError as error:
                found[key] = error
    return found


def _difference_of(
    keys: Store,
    key: str,
    values: tuple[bytes, bytes | ZarrBackendError | None],
    known: tuple[Hierarchy, Collection[str]],
) -> Difference:
    (value, there), (hierarchy, changed) = values, known
    owner = None if is_outside(key) else _owner(hierarchy, key)
    if owner is None:
        message = f"the chunk {key!r} in the consolidated document belongs to no array"
        return Difference(key, split(key)[0], "inlined-stale", message)
    path, node, index = owner
    is_good = path not in changed and not keys.is_blocked(key) and _error_of(keys, owner, value) is None
    if isinstance(there, ZarrBackendError):
        error: ZarrBackendError | None = there
    else:
        error = None if there is None else _error_of(keys, owner, there)
    if error is not None:
        return Difference(key, path, kind_of(error), error.problem, is_good)
    if there is None:
        return Difference(key, path, "chunk-missing", f"the chunk {node.chunk_name(index)!r} {_ONLY}", is_good)
    message = f"the chunk {node.chunk_name(index)!r} is another one in the consolidated document"
    return Difference(key, path, "inlined-stale", message, is_good)


def _owner(hierarchy: Hierarchy, key: str) -> tuple[str, ArrayNode[Attributes], Index] | None:
    """Return the array that a key is a chunk of, and which one; None where there is no such array."""
    path = key
    while path:
        path, _ = split(path)
        node = hierarchy.get(path)
        if isinstance(node, ArrayNode):
            found, _ = StoredObjects(node).sort([key[len(path) + 1 :]])
            return (path, node, found.pop()) if found and node.shards is None else None
    return None


def _error_of(keys: Store, owner: tuple[str, ArrayNode[Attributes], Index], data: bytes) -> ZarrBackendError | None:
    """Return the error that decoding a chunk ends with, None where it decodes."""
    path, node, index = owner
    try:
        ChunkReader(keys, path, node, ChunkCache(0)).decode(index, data)
    except ZarrBackendError as error:
        return error
    return None
