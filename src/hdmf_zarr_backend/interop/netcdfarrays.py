"""Arrays of netCDF files as data of HDMF containers, where a link would lead to something else.

A link says where an array is, and its reader knows Zarr, and neither netCDF nor its drafts: text of one length would
come back as bytes, and numbers whose type counts bits as others. Such an array is copied, as one of an HDF5 file is.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hdmf.build import ObjectMapper

from hdmf_zarr_backend.arrays.chunks import ChunkCache
from hdmf_zarr_backend.arrays.lazy import LazyArray
from hdmf_zarr_backend.errors import ChunkError, NotZarrError
from hdmf_zarr_backend.interop.netcdftypes import texts_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.opening import NOWHERE

__all__ = ["DraftArray", "TextArray", "lazy_array"]


class CopiedArray(LazyArray):
    """An array to which no other file can point."""

    @property
    def location(self) -> str:
        """Where the file is, as of a store without an address."""
        return f"{NOWHERE}{self.keys.location}"


class DraftArray(CopiedArray):
    """An array of a file that follows the draft of 2018."""

    @property
    def _async_array(self) -> Any:
        raise NotZarrError(
            "zarr-python takes the types of the draft of 2018 for others",
            store=self.keys.location,
            path=self.name,
            remedy="Index the dataset itself.",
        )


class TextArray(CopiedArray):
    """Text of one length, padded with zeros, as ``str``."""

    def __init__(self, keys: KeyStore, path: str, node: ArrayNode[Attributes], cache: ChunkCache) -> None:
        super().__init__(keys, path, node, cache, elements=texts_of)

    @property
    def dtype(self) -> np.dtype[Any]:
        """``object``, as of all text."""
        return np.dtype(object)

    @property
    def text_type(self) -> type | None:
        """``str``."""
        return str

    def element(self, position: int) -> Any:
        """Refuse: an element is read with its chunk."""
        raise LookupError(position)

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except ChunkError as error:
            raise error.located(store=self.keys.location, path=self.name) from error.__cause__


for _kind in (DraftArray, TextArray):
    ObjectMapper.no_convert(_kind)  # hdmf would read the whole array to convert it


def lazy_array(
    keys: KeyStore, path: str, node: ArrayNode[Attributes], cache: ChunkCache, *, is_draft: bool
) -> LazyArray:
    """Return the array at ``path`` as data for a container, which links to it where that is right."""
    made = DraftArray(keys, path, node, cache) if is_draft else LazyArray(keys, path, node, cache)
    is_text = made.dtype.kind == "S" and made.dtype.itemsize > 1
    return TextArray(keys, path, node, cache) if is_text else made
