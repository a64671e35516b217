"""`stored_view`: the lazy array for an array that a user opened with zarr itself, so that links can point to it."""

from __future__ import annotations

import os
from typing import Any

import zarr
import zarr.storage

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.registry import parse_array
from hdmf_zarr_backend.model.nodes import join, split
from hdmf_zarr_backend.stores.json_text import load
from hdmf_zarr_backend.stores.local import LocalStore

_IS_ZARR_2 = zarr.__version__.startswith("2.")
_storage: Any = zarr.storage  # to the type checker too: it differs from release to release


def stored_view(data: Any) -> Any:
    """Return the lazy array for a ``zarr.Array`` in a local file, anything else unchanged.

    The file is the outermost group around the array, since the user may have opened the array itself.

    Parameters
    ----------
    data : object
        Data that a user passed.
    """
    if isinstance(data, LazyArray) or not isinstance(data, zarr.Array):
        return data
    root = _folder(data.store)
    if root is None:
        return data
    group, names = _DOCUMENTS[2 if _IS_ZARR_2 else data.metadata.zarr_format]
    location = os.path.abspath(os.path.join(root, data.path))
    parts: list[str] = []
    while os.path.exists(os.path.join(os.path.dirname(location), group)):
        location, name = os.path.split(location)
        parts.append(name)
    if not parts:
        return data  # an array without a group around it is not a member of a file
    path = "/".join(reversed(parts))
    keys = LocalStore(location)
    texts = keys.get_many(join(path, name) for name in names)
    node = parse_array({split(key)[1]: load(text, key=key) for key, text in texts.items()}, path)
    return data if node is None else LazyArray(keys, path, node, ChunkCache())


def _folder(store: Any) -> str | None:
    """Return the local folder of a store of zarr-python, None if it is not one."""
    if _IS_ZARR_2:
        return str(store.path) if isinstance(store, _storage.DirectoryStore) else None
    return str(store.root) if isinstance(store, _storage.LocalStore) else None


_DOCUMENTS = {2: (zarr2.GROUP, (zarr2.ARRAY, zarr2.ATTRIBUTES)), 3: (zarr3.DOCUMENT, (zarr3.DOCUMENT,))}
"""By format, the document of a group, and those of an array."""
