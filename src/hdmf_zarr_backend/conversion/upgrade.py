"""`upgrade`: a file of Zarr format 2 becomes one of format 3, or of both formats, in place.

Source: issue "Open to every other tool", part 1.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from hdmf_zarr_backend.arrays.fills import check_unwritten
from hdmf_zarr_backend.builders.both import Fate, check_derivable, derive, drop_format_3, keep_chunks
from hdmf_zarr_backend.builders.from_zarr import ZarrPlanner
from hdmf_zarr_backend.changes.journal import recover_with_warning
from hdmf_zarr_backend.changes.locks import writer_lock
from hdmf_zarr_backend.errors import ConflictError, ReadOnlyStoreError, UsageError, ZarrBackendError
from hdmf_zarr_backend.execution.tasks import MEMORY_BUDGET
from hdmf_zarr_backend.files.parser import ParsedFile, parse
from hdmf_zarr_backend.formats import both, registry, zarr2, zarr3
from hdmf_zarr_backend.formats.inlined import is_inlined, is_read_at_open
from hdmf_zarr_backend.formats.zarr3 import ChunkKeyEncoding
from hdmf_zarr_backend.model.nodes import (
    DEFAULT_PREFIX,
    ArrayNode,
    Attributes,
    ChunkKeys,
    Hierarchy,
    absolute,
    join,
    split,
)
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.files import Staged
from hdmf_zarr_backend.stores.json_text import dump
from hdmf_zarr_backend.stores.opening import open_store
from hdmf_zarr_backend.stores.wrappers import QueuedStore
from hdmf_zarr_backend.transfer.plan import WritePlan, adapt_plan, checked_key_encoding
from hdmf_zarr_backend.transfer.writer import Writer

__all__ = ["UpgradeReport", "upgrade"]

_OLD = frozenset({*zarr2.DOCUMENT_NAMES, zarr2.CONSOLIDATED})
_OLD_ROOT = (zarr2.CONSOLIDATED, zarr2.GROUP, zarr2.ATTRIBUTES)
_OLD_CHUNK = re.compile(r"[0-9]+(?:[./][0-9]+)*")
_SHOWN = 5


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
        As `builders.both.keep_chunks` leaves it.
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
    writer.inlined.update(_inlined(keys, plan.hierarchy, but=plan.arrays))
    try:
        writer.write()
        own.check()
        queue.commit()
    except BaseException as error:
        if own.is_own:
            queue.abandon()
            with _noted(error):
                forget(keys, plan)
        raise


def _inlined(keys: Store, hierarchy: Hierarchy, *, but: Collection[str] = ()) -> dict[str, bytes]:
    """Return the chunks that the consolidated document must hold too, without those of the arrays in ``but``."""
    nodes = {
        join(path, node.chunk_name((0,) * len(node.shape))): node
        for path, node in hierarchy.walk()
        if isinstance(node, ArrayNode) and path not in but and is_read_at_open(node)
    }
    return {key: data for key, data in keys.get_many(nodes).items() if is_inlined(nodes[key], data)}


@contextmanager
def _noted(error: BaseException) -> Iterator[None]:
    """Add a note to an error if what it has left cannot be removed."""
    try:
        yield
    except (ZarrBackendError, OSError) as second:
        error.add_note(f"New documents and chunks are left beside the old ones, and do no harm ({second}).")


def forget(keys: Store, plan: WritePlan) -> None:
    """Delete what an interrupted upgrade has set: documents first, and that of the root before the others."""
    left = [key for key in keys.list_documents() if split(key)[1] == zarr3.DOCUMENT]
    if left:
        keys.delete(sorted(left, key=len))
        for path in plan.arrays:
            prefix = join(path, DEFAULT_PREFIX)
            keys.delete_below(prefix)
            # the chunk of a scalar, and keys without folders
            keys.delete([key for key in keys.list_prefix(path) if key == prefix or key.startswith(f"{prefix}.")])


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
        if name == zarr2.ARRAY and isinstance(node, ArrayNode) and node.chunk_keys.encoding == "default":
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
        Keys of the format that was removed.
    formats : tuple of int
        The Zarr formats of the file now.
    """

    location: str
    kept: int = 0
    encoded: int = 0
    removed: int = 0
    formats: tuple[int, ...] = (3,)

    def __str__(self) -> str:
        number = "formats 2 and 3" if len(self.formats) > 1 else f"format {self.formats[0]}"
        if self.kept or self.encoded:
            return f"Zarr {number} now: {self.kept} arrays left as they are, {self.encoded} encoded anew"
        if not self.removed:
            return f"Zarr {number} already"
        if self.formats == (2,):
            return f"Zarr {number} now: {self.removed} keys of format 3 have been removed"
        return f"Zarr {number} already, {self.removed} keys of format 2 that were left have been removed"


def upgrade(
    source: str | os.PathLike[str] | Any,
    *,
    keep: bool = False,
    drop: Literal[2, 3] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    executor: Any = None,
    memory_budget: int = MEMORY_BUDGET,
    chunk_key_encoding: ChunkKeyEncoding | None = None,
    progress: Progress = SILENT,
) -> UpgradeReport:
    """Make a file of Zarr format 2 one of format 3 or of both, where it is; chunks stay where their codecs allow it.

    Numbers, text and booleans stay, whatever compresses them. References, rows with text or references, and what
    hdmf-zarr up to 0.13 stored as pickles or as bytes are encoded anew.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        A file that nobody else has open; a writer that has is told of.
    keep : bool
        Keep the metadata of format 2: the file is one of both formats.
    drop : {2, 3}, optional
        The format that a file of both formats loses. 3: it is one of format 2 again.
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
        A file that is what is asked for already is left as it is, but for what an upgrade that was killed has left.

    Raises
    ------
    StoreNotFoundError, NotZarrError, IncompleteStoreError, MetadataError
        There is no Zarr file, or not a whole one.
    StoreLockedError
        Somebody has it open for writing.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    UsageError
        ``keep`` and ``drop`` are both given; the file is not of both formats and ``drop`` is 3 or ``keep`` is True
        for one of format 3, whose chunks have names that format 2 does not know.
    ConflictError
        The consolidated document does not say what the documents of the nodes say, or both formats were changed one
        without the other; nothing is changed.
    DamagedFileError
        A chunk that has to be encoded anew cannot be read. The file is as it was.

    Notes
    -----
    Until the last new key is set the file is one of format 2; from then on it is one of format 3, and the old documents
    are deleted. If the process is killed on the way, call this again.
    """
    if drop not in (None, 2, 3) or (keep and drop is not None):
        raise UsageError(f"keep={keep!r} and drop={drop!r} are no choice", remedy="Give keep=True, drop=2 or drop=3.")
    checked_key_encoding(chunk_key_encoding, 3)
    keys = open_store(source, storage_options)
    _check_store(keys)
    options = {"progress": progress, "executor": executor, "memory_budget": memory_budget}
    with writer_lock(keys):
        recover_with_warning(keys)
        parsed = parse(keys, use_consolidated=False)
        if drop == 3:
            return _without_format_3(keys, parsed)
        if keep:
            return _with_both(keys, parsed, **options)
        if drop == 2:
            _check_format_3(keys, parsed)
        new_keys = ChunkKeys("default", "." if chunk_key_encoding == "v2" else "/")
        return _only_format_3(keys, parsed, new_keys, **options)


def _check_store(keys: Store) -> None:
    """Refuse a store whose files cannot be changed where they are."""
    abilities = keys.abilities
    if not (abilities.change and abilities.listing and 3 in abilities.formats):
        raise ReadOnlyStoreError(
            f"{abilities.why or 'this store cannot list what it has'}: it cannot be upgraded where it is",
            store=keys.location,
            remedy="Convert it to a new file with `zarrio convert --zarr-format 3`.",
        )


def _check_format_3(keys: Store, parsed: ParsedFile) -> None:
    if parsed.zarr_format == 2 and parsed.state is None:
        raise UsageError(
            "the file is of Zarr format 2 only",
            store=keys.location,
            remedy="Leave drop= (--drop) out, which makes it one of format 3.",
        )


def _only_format_3(keys: Store, parsed: ParsedFile, new_keys: ChunkKeys, **options: Any) -> UpgradeReport:
    """Make a file one of format 3, whatever it is."""
    if parsed.state is not None:
        return _without_format_2(keys, parsed, **options)
    if parsed.zarr_format == 3:
        return UpgradeReport(keys.location, removed=remove_format_2(keys, parsed.hierarchy))
    _check_consolidated(keys, zarr2.encode_documents(parsed.hierarchy))
    return _upgraded(keys, parsed.hierarchy, new_keys, **options)


def _upgraded(keys: Store, hierarchy: Hierarchy, new_keys: ChunkKeys, **options: Any) -> UpgradeReport:
    keys.read_rules = replace(keys.read_rules, is_copied=True)  # what is encoded anew must be there
    plan = ZarrPlanner(keys, hierarchy, keys.location, zarr_format=3, is_in_place=True).plan_file()
    adapt_plan(plan, location=keys.location)
    fates = keep_chunks(plan, hierarchy)
    for path in plan.arrays:
        node = hierarchy.get(path)
        assert isinstance(node, ArrayNode)
        check_unwritten(keys, path, node)
        plan.arrays[path].node.chunk_keys = new_keys
    write_in_place(keys, plan, **options)
    removed = remove_format_2(keys, plan.hierarchy)
    return _report(keys, fates, removed)


def _report(keys: Store, fates: Mapping[str, Fate], removed: int = 0, formats: tuple[int, ...] = (3,)) -> UpgradeReport:
    found = list(fates.values())
    return UpgradeReport(keys.location, found.count("kept"), found.count("encoded"), removed, formats)


def _with_both(keys: Store, parsed: ParsedFile, **options: Any) -> UpgradeReport:
    """Give a file of format 2 the documents of format 3 too."""
    check_derivable(keys, parsed.state)
    if parsed.state == "alike":
        return UpgradeReport(keys.location, formats=(2, 3))
    if parsed.zarr_format == 3:
        raise UsageError(
            "format 2 does not know the chunks of a file of format 3 by their names",
            store=keys.location,
            remedy="Make a new file with `zarrio convert --zarr-format both`.",
        )
    hierarchy, is_new = parsed.hierarchy, parsed.state is None
    if is_new:
        _check_consolidated(keys, zarr2.encode_documents(hierarchy))
    keys.read_rules = replace(keys.read_rules, is_copied=True)
    if keys.get(zarr2.CONSOLIDATED) is None:
        for key, document in registry.FORMATS[2].last(hierarchy, _inlined(keys, hierarchy), consolidate=True).items():
            keys.set(key, dump(document))
    own = Staged(keys.location)
    try:
        return _report(keys, derive(keys, hierarchy, **options).fates, formats=(2, 3))
    except BaseException as error:
        if own.is_own and is_new:
            with _noted(error):
                drop_format_3(keys, may_have_chunks=hierarchy)
        raise


def _without_format_2(keys: Store, parsed: ParsedFile, **options: Any) -> UpgradeReport:
    """Make a file of both formats one of format 3."""
    fates: dict[str, Fate] = {}
    if parsed.state == "2 is newer":
        fates = derive(keys, parsed.hierarchy, **options).fates
    hierarchy = parse(keys, use_consolidated=False, hint=3).hierarchy
    if parsed.state in ("alike", "2 is newer"):  # else they are those of another program
        for path, node in hierarchy.walk():
            if isinstance(node, ArrayNode) and both.use_struct(node):
                keys.set(zarr3.key_of(path), dump(zarr3.encode_node(node)))
        keys.drain()
    inlined = _inlined(keys, hierarchy)
    for key, document in registry.FORMATS[3].last(hierarchy, inlined, consolidate=True).items():
        keys.set(key, dump(document))
    keys.drain()
    removed = remove_format_2(keys, hierarchy)
    fates = fates or {path: "kept" for path, node in hierarchy.walk() if isinstance(node, ArrayNode)}
    return _report(keys, fates, removed)


def _without_format_3(keys: Store, parsed: ParsedFile) -> UpgradeReport:
    """Make a file of both formats one of format 2."""
    if parsed.state is None and parsed.zarr_format == 3:
        raise UsageError(
            "the file is of Zarr format 3 only",
            store=keys.location,
            remedy="Make one of format 2 with `zarrio convert --zarr-format 2`.",
        )
    return UpgradeReport(keys.location, removed=drop_format_3(keys), formats=(2,))


def _check_consolidated(keys: Store, documents: dict[str, Any]) -> None:
    """Refuse a file whose consolidated document, which is read by default, differs from its other documents."""
    known = parse(keys)
    if known.consolidated and _text(zarr2.encode_documents(known.hierarchy)) != _text(documents):
        raise ConflictError(
            "the consolidated document does not say what the documents of the nodes say",
            store=keys.location,
            remedy="See what differs with `zarrio verify`. After `zarrio consolidate` the nodes' documents count.",
        )


def _text(documents: dict[str, Any]) -> str:
    return json.dumps(documents, sort_keys=True)  # NaN is not equal to itself
