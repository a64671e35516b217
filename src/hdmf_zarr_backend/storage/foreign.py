"""An array that a user opened with zarr itself -> our lazy array of the same, so that it can be linked to."""

from __future__ import annotations

import os
from typing import Any

import zarr
from zarr.storage import LocalStore

from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.nodes import join
from hdmf_zarr_backend.storage.arrays import LazyArray
from hdmf_zarr_backend.storage.chunks import ChunkCache
from hdmf_zarr_backend.storage.jsontext import load
from hdmf_zarr_backend.storage.keys import LocalKeys


def stored_view(data: Any) -> Any:
    """Return the lazy array of a ``zarr.Array`` that lies in a local file of format 2, anything else as it is.

    The file is the outermost group around the array: what was opened may have been the array itself.

    Parameters
    ----------
    data : object
        What a user gave as data.
    """
    if isinstance(data, LazyArray) or not isinstance(data, zarr.Array) or data.metadata.zarr_format != 2:
        return data
    if not isinstance(data.store, LocalStore):
        return data
    location = os.path.abspath(os.path.join(str(data.store.root), data.path))
    names: list[str] = []
    while os.path.exists(os.path.join(os.path.dirname(location), v2.GROUP)):
        location, name = os.path.split(location)
        names.append(name)
    if not names:
        return data  # an array without a group around it is no member of a file
    path = "/".join(reversed(names))
    keys = LocalKeys(location)
    documents = [keys.get(join(path, name)) or b"{}" for name in (v2.ARRAY, v2.ATTRIBUTES)]
    document, attributes = (load(text, key=path) for text in documents)
    return LazyArray(keys, path, v2.parse_array(document, attributes, path), ChunkCache())
