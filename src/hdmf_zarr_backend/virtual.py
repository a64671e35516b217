"""HDF5 -> a file of references that leaves the data where they are: what is asked for, and whether it can be done.

Source: issue "Format 3, shards, and any store, near or far", part 4.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from hdmf_zarr_backend.errors import (
    ReadOnlyStoreError,
    StoreExistsError,
    StoreNotFoundError,
    UsageError,
)
from hdmf_zarr_backend.model.locations import is_url
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.readability import check_hdf5, schema_of
from hdmf_zarr_backend.stores.limits import ExternalLinks
from hdmf_zarr_backend.stores.opening import check_free, folder_keys, open_keys
from hdmf_zarr_backend.stores.paths import check_apart
from hdmf_zarr_backend.stores.referenced_files import parted
from hdmf_zarr_backend.write.virtual import VirtualReport, write_virtual

SUFFIX = ".zarr.json"
"""How the name of a file of references ends."""


def convert_virtual(
    source: str,
    target: str,
    *,
    to: str | None,
    codec: Any,
    resume: bool,
    overwrite: bool,
    check: bool,
    zarr_format: int,
    storage: Mapping[str, Any],
    progress: Progress,
    durable: bool = False,
    external_links: ExternalLinks | None = None,
) -> VirtualReport:
    """Write the references of an HDF5 file; parameters and errors as of `conversion.convert`.

    Parameters
    ----------
    source, target : str
        Absolute paths or URLs.

    Raises
    ------
    UsageError
        A target that is no JSON, a codec, resuming, or a local source for a target on a server.
    StoreExistsError
        Something is at the target that is not to be replaced.
    StoreNotFoundError
        Nothing is at the source.
    ReadOnlyStoreError
        The target is on a server that takes nothing.
    """
    _check_request(source, target, to=to or "zarr", codec=codec, resume=resume)
    if zarr_format not in (2, 3):
        raise UsageError(f"zarr_format={zarr_format!r} is no format of Zarr", remedy="Use 2 or 3.")
    if not is_url(source) and not os.path.lexists(source):
        raise StoreNotFoundError("nothing is there", store=source, remedy="Check the path.")
    check_apart(source, target)
    abilities = folder_keys(parted(target)[0], storage if is_url(target) else {}).abilities
    if not abilities.write:  # before anything is read
        raise ReadOnlyStoreError(abilities.why, store=target, remedy="Make the references here, and upload them.")
    check_free(open_keys(target, storage if is_url(target) else None), overwrite=overwrite)
    if check:
        check_hdf5(source, storage, external_links)
    return write_virtual(
        source,
        target,
        zarr_format=zarr_format,
        storage=storage,
        progress=progress,
        external_links=external_links,
        exclusive=not overwrite,
        durable=durable,
        schema=schema_of,
    )


def _check_request(source: str, target: str, *, to: str, codec: Any, resume: bool) -> None:
    """Refuse what has no meaning where data stay in their file."""
    if to != "zarr" or not target.endswith(".json"):
        raise UsageError(
            "references are written to one JSON file", store=target, remedy=f"Let its name end in {SUFFIX!r}."
        )
    if codec != "keep" or resume:
        raise UsageError(
            "nothing is encoded anew, nor can be resumed, where data stay in the HDF5 file",
            store=target,
            remedy="Leave codec= and resume= out.",
        )
    if is_url(target) and not is_url(source):
        raise UsageError(
            "references on a server to a local file are of no use to anybody",
            store=target,
            remedy="Upload the HDF5 file first and give its URL, or make the references here and upload both.",
        )
    if not is_url(target) and os.path.isdir(target):
        raise StoreExistsError("a directory is there", store=target, remedy="Choose another path.")
