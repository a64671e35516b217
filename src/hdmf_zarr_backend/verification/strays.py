"""Chunks and attributes that belong to no node: the document that says what they are is gone.

Without that document a reader sees nothing there, and says nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.model.nodes import GroupNode, Hierarchy, split
from hdmf_zarr_backend.stores.base import Store

_SHOWN = 5
_LONGEST = 20  # digits of the number of a chunk
_PREFIX = "c"  # of the keys of chunks in format 3


def nodes_without_document(
    keys: Store, documents: Mapping[str, Any], damaged: Collection[str], hierarchy: Hierarchy
) -> Iterator[tuple[str, str]]:
    """Yield path and message of each node whose document is gone while something else of it is there.

    Parameters
    ----------
    keys : Store
        A store that can be listed.
    documents : mapping
        ``{key: document}`` of the nodes.
    damaged : set of str
        Keys of documents that are there and cannot be read.
    hierarchy : Hierarchy
        The nodes that can be understood.

    Raises
    ------
    StoreError
        The store cannot be listed.
    """
    there = [split(key) for key in (*documents, *damaged)]
    described = {path for path, name in there if name != zarr2.ATTRIBUTES}
    found: dict[str, list[str]] = {}
    for path, name in there:
        if path not in described and path not in hierarchy:
            found[path] = [name]
    groups = {path for path, node in hierarchy.walk() if isinstance(node, GroupNode)}
    for key in keys.keys_outside(described - groups):
        node = _node_of(key, hierarchy)
        names = [] if node is None else found.setdefault(node, [])
        if node is not None and len(names) <= _SHOWN:
            names.append(key[len(node) + 1 :])
    what = zarr3.DOCUMENT if zarr3.DOCUMENT in documents else f"{zarr2.ARRAY} or {zarr2.GROUP}"
    for path, names in sorted(found.items()):
        shown = ", ".join(sorted(names)[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
        yield path, f"there is no {what}, but there {'is' if len(names) == 1 else 'are'} {shown}"


def _node_of(key: str, hierarchy: Hierarchy) -> str | None:
    """Return the path of the array that a key looks like a chunk of, None where it looks like none."""
    parts = key.split("/")
    end = len(parts) - 1
    has_prefix = hierarchy.zarr_format == 3
    if not (has_prefix and parts[-1] == _PREFIX):  # which is the one chunk of a scalar
        numbers = parts[-1].split(".")
        if not all(map(_is_number, numbers[has_prefix and numbers[0] == _PREFIX :])):
            return None
        while end and _is_number(parts[end - 1]):
            end -= 1
        end -= has_prefix and end > 0 and parts[end - 1] == _PREFIX
    while end < len(parts) and "/".join(parts[:end]) in hierarchy:
        end += 1  # a group is there, and no array
    return "/".join(parts[:end]) if end < len(parts) else None


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < _LONGEST
