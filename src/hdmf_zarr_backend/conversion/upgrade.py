"""`upgrade`: a file of Zarr format 2 becomes one of format 3, in place.

Source: issue "Open to every other tool", part 1.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.arrays.fills import check_unwritten
from hdmf_zarr_backend.changes.journal import recover_with_warning
from hdmf_zarr_backend.changes.locks import writer_lock
from hdmf_zarr_backend.conversion.from_zarr import ZarrPlanner
from hdmf_zarr_backend.errors import ConflictError, ReadOnlyStoreError, ZarrBackendError
from hdmf_zarr_backend.execution.tasks import MEMORY_BUDGET
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.formats.consolidated import is_inlined, is_read_at_open
from hdmf_zarr_backend.formats.zarr3 import ChunkKeyEncoding
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, absolute, join, split
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.files import Staged
from hdmf_zarr_backend.stores.opening import open_store
from hdmf_zarr_backend.stores.wrappers import QueuedStore
from hdmf_zarr_backend.transfer.plan import PlannedArray, WritePlan, adapt_plan, checked_key_encoding
from hdmf_zarr_backend.transfer.stored_sources import StoredChunks
from hdmf_zarr_backend.transfer.writer import Writer

__all__ = ["UpgradeReport", "upgrade"]

Fate: TypeAlias = Literal["kept", "moved", "encoded"]
"""Whether the chunks of an array stay, get other keys, or are encoded again."""

_OLD = frozenset({*zarr2.DOCUMENT_NAMES, zarr2.CONSOLIDATED})
_OLD_ROOT = (zarr2.CONSOLIDATED, zarr2.GROUP, zarr2.ATTRIBUTES)
_OLD_CHUNK = re.compile(r"[0-9]+(?:[./][0-9]+)*")
_SHOWN = 5


def has_stored_chunks(planned: PlannedArray) -> bool:
    """Tell whether the chunks of a planned array are those of a stored one, or there are none."""
    return planned.source is None or isinstance(planned.source, StoredChunks)


def keep_chunks(plan: WritePlan, hierarchy: Hierarchy, *, encoded: Collection[str] = ()) -> dict[str, Fate]:
    """Let the arrays of a plan keep the chunks that they have, as far as their keys and bytes are the same.

    Parameters
    ----------
    plan : WritePlan
        Of the same file in the other format, adapted to it. Arrays that keep their chunks are taken out of its arrays.
    hierarchy : Hierarchy
        The file as it is.
    encoded : collection of str
        Paths of arrays of which it is known that their chunks have to be made anew.

    Returns
    -------
    dict
        ``{path: fate}`` of all arrays.
    """
    fates: dict[str, Fate] = {}
    for path, planned in list(plan.arrays.items()):
        old, node = hierarchy.get(path), planned.node
        assert isinstance(old, ArrayNode)
        if path in encoded or not has_stored_chunks(planned):
            fates[path] = "encoded"
        elif node.shards is None and old.shards is None and (plan.hierarchy.zarr_format == 3 or not old.prefix):
            fates[path] = "kept"
            node.prefix, node.separator = old.prefix, old.separator
            del plan.arrays[path]
        else:
            fates[path] = "moved"
    return fates


def write_in_place(
    keys: Store,
    plan: WritePlan,
    *,
    progress: Progress,
    executor: Any,
    memory_budget: int,
) -> None:
    """Set the documents and chunks of format 3 beside those of format 2, and the document of the root last.

    Parameters
    ----------
    keys : Store
        The file.
    plan : WritePlan
        As `keep_chunks` leaves it.
    progress, executor, memory_budget
        As of `Writer`.

    Raises
    ------
    ZarrBackendError, OSError
        A chunk cannot be read, or a key cannot be set. The file is as it was; what was set is deleted again.
    """
    forget(keys, plan)
    queue, own = QueuedStore(keys, (zarr3.DOCUMENT,)), Staged(keys.location)
    writer = Writer(queue, plan, progress=progress, executor=executor, memory_budget=memory_budget)
    writer.inlined.update(_inlined(keys, plan))
    try:
        writer.write()
        own.check()
        queue.commit()
    except BaseException as error:
        if own.is_own:
            queue.abandon()
            _undo(keys, plan, error)
        raise


def _inlined(keys: Store, plan: WritePlan) -> dict[str, bytes]:
    """Return the chunks that stay and that the consolidated document must hold too."""
    nodes = {
        join(path, node.chunk_name((0,) * len(node.shape))): node
        for path, node in plan.hierarchy.walk()
        if isinstance(node, ArrayNode) and path not in plan.arrays and is_read_at_open(node)
    }
    return {key: data for key, data in keys.get_many(nodes).items() if is_inlined(nodes[key], data)}


def _undo(keys: Store, plan: WritePlan, error: BaseException) -> None:
    try:
        forget(keys, plan)
    except (ZarrBackendError, OSError) as second:
        error.add_note(f"New documents and chunks are left beside the old ones, and do no harm ({second}).")


def forget(keys: Store, plan: WritePlan) -> None:
    """Delete what an interrupted upgrade has set: documents first, and that of the root before the others."""
    left = [key for key in keys.list_documents() if split(key)[1] == zarr3.DOCUMENT]
    if left:
        keys.delete(sorted(left, key=len))
        for path, planned in plan.arrays.items():
            prefix = join(path, planned.node.prefix)
            keys.delete_below(prefix)
            keys.delete([key for key in keys.list_prefix(path) if key.startswith(f"{prefix}.")])


def remove_format_2(keys: Store, hierarchy: Hierarchy) -> int:
    """Delete the documents of format 2 of a file that is one of format 3 by now, and the chunks that only they name.

    It can be called again after it was interrupted.

    Parameters
    ----------
    keys : Store
        The file.
    hierarchy : Hierarchy
        What it is in format 3.

    Returns
    -------
    int
        How many keys were deleted.

    Raises
    ------
    ConflictError
        There are nodes in format 2 that format 3 does not know; nothing is deleted.
    """
    documents = {key for key in _listed(keys) if split(key)[1] in _OLD}
    unknown = sorted({split(key)[0] for key in documents if hierarchy.get(split(key)[0]) is None})
    if unknown:
        shown = ", ".join(absolute(path) for path in unknown[:_SHOWN])
        raise ConflictError(
            f"{len(unknown)} nodes are there in format 2 only: {shown}",
            store=keys.location,
            remedy="Move zarr.json of the root away to have the file of format 2, and upgrade that.",
        )
    count = 0
    for batch in _stale(keys, hierarchy, documents):
        keys.delete(batch)
        count += len(batch)
    return count


def _listed(keys: Store) -> Iterator[str]:
    yield from keys.list_documents()
    yield from keys.get_many([zarr2.CONSOLIDATED])  # no document of a node, and not listed by all stores


def _stale(keys: Store, hierarchy: Hierarchy, documents: set[str]) -> Iterator[list[str]]:
    """Yield keys in the order in which they are deleted: the root's, chunks before their array, all others."""
    root = [key for key in _OLD_ROOT if key in documents]
    if root:
        yield root
    for key in sorted(documents):
        path, name = split(key)
        node = hierarchy.get(path)
        if name == zarr2.ARRAY and isinstance(node, ArrayNode) and node.prefix:
            chunks = _old_chunks(keys, path, node)
            if chunks:
                yield chunks
    rest = sorted(documents - set(root))
    if rest:
        yield rest


def _old_chunks(keys: Store, path: str, node: ArrayNode[Attributes]) -> list[str]:
    return [key for key in keys.list_prefix(path) if _OLD_CHUNK.fullmatch(key.removeprefix(f"{path}/"))]


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
    chunk_key_encoding: ChunkKeyEncoding | None = None,
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
    chunk_key_encoding : {"default", "v2"}, optional
        ``"v2"``: all keys of chunks have one level, as DANDI needs them. Chunks that stay have such keys anyway; those
        that are encoded anew get ``c.0.0``, since the file has its old chunks under ``0.0`` until the end.

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
    checked_key_encoding(chunk_key_encoding, 3)
    keys = open_store(source, storage_options)
    abilities = keys.abilities
    if not (abilities.change and abilities.listing and 3 in abilities.formats):
        raise ReadOnlyStoreError(
            f"{abilities.why or 'this store cannot list what it has'}: it cannot be upgraded where it is",
            store=keys.location,
            remedy="Convert it to a new file with `zarrio convert --zarr-format 3`.",
        )
    with writer_lock(keys):
        recover_with_warning(keys)
        parsed = parse(keys, use_consolidated=False)
        if parsed.zarr_format == 3:
            return UpgradeReport(keys.location, removed=remove_format_2(keys, parsed.hierarchy))
        _check_consolidated(keys, zarr2.to_documents(parsed.hierarchy))
        separator = "." if chunk_key_encoding == "v2" else "/"
        return _upgraded(
            keys, parsed.hierarchy, separator, progress=progress, executor=executor, memory_budget=memory_budget
        )


def _upgraded(keys: Store, hierarchy: Hierarchy, separator: str, **options: Any) -> UpgradeReport:
    keys.read_rules = replace(keys.read_rules, is_copied=True)  # what is encoded anew must be there
    plan = ZarrPlanner(keys, hierarchy, keys.location, zarr_format=3, is_in_place=True).plan_file()
    adapt_plan(plan, location=keys.location)
    fates = list(keep_chunks(plan, hierarchy).values())
    for path in plan.arrays:
        node = hierarchy.get(path)
        assert isinstance(node, ArrayNode)
        check_unwritten(keys, path, node)
        plan.arrays[path].node.separator = separator
    write_in_place(keys, plan, **options)
    removed = remove_format_2(keys, plan.hierarchy)
    return UpgradeReport(keys.location, kept=fates.count("kept"), encoded=fates.count("encoded"), removed=removed)


def _check_consolidated(keys: Store, documents: dict[str, Any]) -> None:
    """Refuse a file whose consolidated document, which is read by default, differs from its other documents."""
    known = parse(keys)
    if known.consolidated and _text(zarr2.to_documents(known.hierarchy)) != _text(documents):
        raise ConflictError(
            "the consolidated document does not say what the documents of the nodes say",
            store=keys.location,
            remedy="See what differs with `zarrio verify`. After `zarrio consolidate` the nodes' documents count.",
        )


def _text(documents: dict[str, Any]) -> str:
    return json.dumps(documents, sort_keys=True)  # NaN is not equal to itself
