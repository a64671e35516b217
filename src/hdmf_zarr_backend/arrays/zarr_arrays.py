"""`stored_view`: the lazy array for an array that a user opened with zarr itself, for links to it and copies of it."""

from __future__ import annotations

import os
from typing import Any

import zarr
import zarr.storage

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import DamagedFileError
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.registry import parse_array
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, join, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import load
from hdmf_zarr_backend.stores.local import LocalStore
from hdmf_zarr_backend.stores.zarr_python import store_of_zarr

_IS_ZARR_2 = zarr.__version__.startswith("2.")
_storage: Any = zarr.storage  # to the type checker too: it differs from release to release


class UnlinkedArray(LazyArray):
    """An array that is not a member of a local file, so that no link can point to it: it is copied."""


def stored_view(data: Any) -> Any:
    """Return the lazy array for a ``zarr.Array``, anything else unchanged.

    The file is the outermost group around an array in a local folder, since the user may have opened the array itself.
    An array that this package cannot decode is left to zarr.
    """
    if isinstance(data, LazyArray) or not isinstance(data, zarr.Array) or getattr(data, "is_view", False):
        return data
    given: Any = data
    zarr_store = given.chunk_store if _IS_ZARR_2 else given.store  # not the consolidated documents of zarr-python 2
    number = 2 if _IS_ZARR_2 else data.metadata.zarr_format
    root = _folder(zarr_store)
    location = "" if root is None else os.path.abspath(os.path.join(root, data.path))
    parts: list[str] = []
    while root is not None and os.path.exists(os.path.join(os.path.dirname(location), _DOCUMENTS[number][0])):
        location, name = os.path.split(location)  # to the folder of the outermost group
        parts.insert(0, name)
    store = LocalStore(location) if parts else store_of_zarr(zarr_store)
    path = "/".join(parts) if parts else data.path.strip("/")
    node = None if store is None else _node(store, path, number)
    if store is None or node is None:
        return data
    return (LazyArray if parts else UnlinkedArray)(store, path, node, ChunkCache())


def _node(store: Store, path: str, number: int) -> Dataset[Attributes] | None:
    """Return the metadata of an array, None if this package cannot decode its chunks."""
    texts = store.get_many(join(path, name) for name in _DOCUMENTS[number][1])
    try:
        node = parse_array({split(key)[1]: load(text, key=key) for key, text in texts.items()}, path)
        if node is not None:
            chunk_codec(node.stored)
    except DamagedFileError:  # zarr has decoded the document, so it is only of a kind that we do not know
        return None
    return node


def _folder(store: Any) -> str | None:
    """Return the local folder of a store of zarr-python, None if it is not one."""
    if _IS_ZARR_2:
        return str(store.path) if isinstance(store, _storage.DirectoryStore) else None
    return str(store.root) if isinstance(store, _storage.LocalStore) else None


_DOCUMENTS = {2: (zarr2.GROUP, (zarr2.ARRAY, zarr2.ATTRIBUTES)), 3: (zarr3.DOCUMENT, (zarr3.DOCUMENT,))}
"""By format, the document of a group, and those of an array."""
