"""A file of Zarr format 2 becomes one of format 3 where it is; `write.inplace` says how.

Source: issue "Open to every other tool", part 1.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from hdmf_zarr_backend.arrays.unwritten import check_unwritten
from hdmf_zarr_backend.changes.recovery import recovered
from hdmf_zarr_backend.changes.writer_lock import one_writer
from hdmf_zarr_backend.errors import ConflictError, ReadOnlyStoreError
from hdmf_zarr_backend.model import v2
from hdmf_zarr_backend.model.nodes import ArrayNode, Hierarchy
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.opening import open_keys
from hdmf_zarr_backend.write.format3 import adapt_plan
from hdmf_zarr_backend.write.from_zarr import ZarrPlanner
from hdmf_zarr_backend.write.inplace import keep_chunks, remove_format_2, write_in_place
from hdmf_zarr_backend.write.writer import MEMORY_BUDGET

__all__ = ["UpgradeReport", "upgrade"]


@dataclass(slots=True, frozen=True)
class UpgradeReport:
    """What an upgrade has done.

    Attributes
    ----------
    location : str
        Absolute path or URL of the file.
    kept, encoded : int
        Arrays whose chunks stayed as they were, and arrays whose chunks were made anew.
    removed : int
        Keys of format 2 that were deleted.
    """

    location: str
    kept: int = 0
    encoded: int = 0
    removed: int = 0

    def __str__(self) -> str:
        if self.kept or self.encoded:
            return f"Zarr format 3 now: {self.kept} arrays left as they are, {self.encoded} encoded anew"
        left = f", {self.removed} keys of format 2 that were left have been removed" if self.removed else ""
        return f"Zarr format 3 already{left}"


def upgrade(
    source: str | os.PathLike[str] | Any,
    *,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = SILENT,
) -> UpgradeReport:
    """Make a file of Zarr format 2 one of format 3, where it is; chunks stay untouched where their codecs allow it.

    Numbers, text and booleans stay, whatever compresses them. References, rows with text or references, and what
    hdmf-zarr up to 0.13 stored as pickles or as bytes are encoded anew.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        A file that nobody else has open; a writer that has is told of.
    storage_options : mapping, optional
        For URLs, as of `ZarrIO`.
    executor, memory_budget, progress
        As of `convert`, for the chunks that are encoded anew.

    Returns
    -------
    UpgradeReport
        A file that is one of format 3 already is left as it is, but for what an upgrade that was killed has left.

    Raises
    ------
    StoreNotFoundError, NotZarrError, IncompleteStoreError, MetadataError
        There is no Zarr file, or not a whole one.
    StoreLockedError
        Somebody has it open for writing.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    ConflictError
        The consolidated document does not say what the documents of the nodes say; nothing is changed.
    DamagedFileError
        A chunk that has to be encoded anew cannot be read. The file is as it was.

    Notes
    -----
    Until the last new key is set the file is one of format 2; from then on it is one of format 3, and the old documents
    are deleted. If the process is killed on the way, call this again.
    """
    keys = open_keys(source, storage_options)
    abilities = keys.abilities
    if not (abilities.change and abilities.listing and 3 in abilities.formats):
        raise ReadOnlyStoreError(
            f"{abilities.why or 'this store cannot list what it has'}: it cannot be upgraded where it is",
            store=keys.location,
            remedy="Convert it to a new file with `zarrio convert --zarr-format 3`.",
        )
    with one_writer(keys):
        recovered(keys)
        parsed = parse(keys, use_consolidated=False)
        if parsed.zarr_format == 3:
            return UpgradeReport(keys.location, removed=remove_format_2(keys, parsed.hierarchy))
        _check_consolidated(keys, v2.to_documents(parsed.hierarchy))
        return _upgraded(keys, parsed.hierarchy, progress=progress, executor=executor, memory_budget=memory_budget)


def _upgraded(keys: KeyStore, hierarchy: Hierarchy, **options: Any) -> UpgradeReport:
    keys.read_rules = replace(keys.read_rules, is_copied=True)  # what is encoded anew must be there
    plan = ZarrPlanner(keys, hierarchy, keys.location, zarr_format=3, is_in_place=True).plan_file()
    adapt_plan(plan, location=keys.location)
    fates = list(keep_chunks(plan, hierarchy).values())
    for path in plan.arrays:
        node = hierarchy.get(path)
        assert isinstance(node, ArrayNode)
        check_unwritten(keys, path, node)
    write_in_place(keys, plan, **options)
    removed = remove_format_2(keys, plan.hierarchy)
    return UpgradeReport(keys.location, kept=fates.count("kept"), encoded=fates.count("encoded"), removed=removed)


def _check_consolidated(keys: KeyStore, documents: dict[str, Any]) -> None:
    """Refuse a file of which two things are said; what is read by default would not be what becomes format 3."""
    known = parse(keys)
    if known.consolidated and _text(v2.to_documents(known.hierarchy)) != _text(documents):
        raise ConflictError(
            "the consolidated document does not say what the documents of the nodes say",
            store=keys.location,
            remedy="See what differs with `zarrio verify`. After `zarrio consolidate` the nodes' documents count.",
        )


def _text(documents: dict[str, Any]) -> str:
    return json.dumps(documents, sort_keys=True)  # NaN is not equal to itself
