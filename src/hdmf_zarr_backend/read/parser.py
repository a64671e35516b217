"""Store -> Hierarchy: the consolidated document where it is there, else a listing."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any

from hdmf_zarr_backend.errors import MetadataError, NotZarrError, StoreNotFoundError, ZarrBackendError
from hdmf_zarr_backend.mapping.reserved import NOTES, SPECLOC
from hdmf_zarr_backend.model import consolidated, v2
from hdmf_zarr_backend.model.nodes import GroupNode, Hierarchy, absolute, split
from hdmf_zarr_backend.storage.jsontext import load
from hdmf_zarr_backend.storage.keys import InlinedKeys, KeyStore


class DamagedMetadataWarning(UserWarning):
    """The consolidated document cannot be used; the documents of the nodes are."""


@dataclass(slots=True)
class ParsedFile:
    """The metadata of one file.

    Attributes
    ----------
    hierarchy : Hierarchy
        All nodes.
    consolidated : bool
        Whether they came from the consolidated document.
    inlined : dict
        ``{key: bytes}`` of the chunks that the consolidated document holds itself.
    """

    hierarchy: Hierarchy
    consolidated: bool
    inlined: dict[str, bytes] = field(default_factory=dict)

    def keys(self, keys: KeyStore) -> KeyStore:
        """Return the store with what is inlined before it."""
        return InlinedKeys(keys, self.inlined) if self.inlined else keys


def parse(keys: KeyStore, *, use_consolidated: bool = True, use_inlined: bool = True) -> ParsedFile:
    """Return the metadata of the file that ``keys`` holds.

    One get where there is a consolidated document.

    Parameters
    ----------
    keys : KeyStore
        The store.
    use_consolidated : bool
        False: list the store and read each document (mode ``r-``, and files that were changed by others).
    use_inlined : bool
        False: ignore the values inside the consolidated document.

    Raises
    ------
    StoreNotFoundError
        Nothing is there.
    NotZarrError
        Something is there, but no Zarr group of format 2.
    MetadataError
        A document is damaged; store and node are named.
    """
    try:
        text = keys.get(v2.CONSOLIDATED) if use_consolidated else None
        if text is not None:
            try:
                document = load(text, key=v2.CONSOLIDATED)
                inlined = consolidated.inlined_chunks(document) if use_inlined else {}
                return ParsedFile(consolidated.parse(document), consolidated=True, inlined=inlined)
            except MetadataError as error:
                warnings.warn(
                    f"{error.located(store=keys.location)} The documents of the nodes are read instead.",
                    DamagedMetadataWarning,
                    stacklevel=2,
                )
        return ParsedFile(_parse_listing(keys), consolidated=False)
    except ZarrBackendError as error:
        raise error.located(store=keys.location) from error.__cause__


def _parse_listing(keys: KeyStore) -> Hierarchy:
    root = keys.get(v2.GROUP)
    if root is None:
        raise _nothing_to_read(keys)
    documents = keys.get_many(sorted(keys.list_documents()))
    hierarchy = v2.from_documents({key: _document(text, key) for key, text in documents.items()})
    if not isinstance(hierarchy.root, GroupNode):
        raise NotZarrError(
            "the root is an array, not a group", remedy="Give the path of the file, not of an array in it."
        )
    return hierarchy


def _document(text: bytes, key: str) -> Any:
    try:
        return load(text, key=key)
    except ZarrBackendError as error:
        raise error.located(path=absolute(split(key)[0])) from error.__cause__


def _nothing_to_read(keys: KeyStore) -> ZarrBackendError:
    if not keys.exists():
        return StoreNotFoundError("nothing is there", store=keys.location, remedy="Check the path.")
    if keys.get("zarr.json") is not None:
        return NotZarrError(
            "this is a Zarr hierarchy of format 3", store=keys.location, remedy="This version reads format 2 only."
        )
    if keys.get(v2.ARRAY) is not None:
        return NotZarrError(
            "this is a single Zarr array",
            store=keys.location,
            remedy="Give the path of the file, not of an array in it.",
        )
    return NotZarrError(
        "this is no Zarr hierarchy: it has no .zgroup",
        store=keys.location,
        remedy="HDF5 files are read with HDF5IO or NWBHDF5IO, and converted with `zarrio convert`.",
    )


def is_hdmf_zarr(keys: KeyStore) -> bool:
    """Tell whether this is an HDMF Zarr file, whoever wrote it: its root has ``.specloc``, ``namespace`` or a note."""
    text = keys.get(v2.ATTRIBUTES) or keys.get("zarr.json")
    if text is None:
        return False
    try:
        document = load(text, key=v2.ATTRIBUTES)
    except ZarrBackendError:
        return False
    if isinstance(document, dict) and "node_type" in document:
        document = document.get("attributes")
    return isinstance(document, dict) and bool({SPECLOC, "namespace", NOTES} & document.keys())
