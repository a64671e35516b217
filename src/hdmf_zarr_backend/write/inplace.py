"""A file of format 2 is made one of format 3 where it is: documents beside the old ones, chunks left where they are.

The chunk key encoding ``v2`` of format 3 names the chunks as format 2 does, and most codecs make the same bytes in
both, so that a recording of a terabyte becomes format 3 by new metadata alone. References, rows and what old files hold
as pickles have another form in format 3; their chunks are made anew, under the keys of the encoding ``default``.

The order is what makes it safe. All new keys are set beside the old ones, which nobody who reads format 2 looks at; the
document of the root, with the consolidated ones in it, is the last of them: from then on the file is one of format 3.
Only then the old documents are deleted, those of the root first, so that no reader of format 2 finds a part of a file.

Source: issue "Open to every other tool", part 1; Zarr v3 specification, "Chunk key encoding".
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from typing import Any, Literal, TypeAlias

from hdmf_zarr_backend.errors import ConflictError, ZarrBackendError
from hdmf_zarr_backend.mapping.inlining import is_inlined, is_read_at_open
from hdmf_zarr_backend.model import v2, v3
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, absolute, join, split
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.stores.base import KeyStore
from hdmf_zarr_backend.stores.partials import Staged
from hdmf_zarr_backend.stores.queued import QueuedKeys
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.writer import Writer
from hdmf_zarr_backend.write.zarr_source import StoredChunks

Fate: TypeAlias = Literal["kept", "moved", "encoded"]
"""What becomes of the chunks of an array: they stay, get other keys, or are made anew."""

_OLD = frozenset({*v2.DOCUMENT_NAMES, v2.CONSOLIDATED})
_OLD_ROOT = (v2.CONSOLIDATED, v2.GROUP, v2.ATTRIBUTES)
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
    keys: KeyStore,
    plan: WritePlan,
    *,
    progress: Progress,
    executor: Any,
    memory_budget: int,
) -> None:
    """Set all that format 3 has beside what there is, and the document of the root last.

    Parameters
    ----------
    keys : KeyStore
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
    queue, own = QueuedKeys(keys, (v3.DOCUMENT,)), Staged(keys.location)
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


def _inlined(keys: KeyStore, plan: WritePlan) -> dict[str, bytes]:
    """Return the chunks that stay and that the consolidated document shall hold too."""
    nodes = {
        join(path, node.chunk_name((0,) * len(node.shape))): node
        for path, node in plan.hierarchy.walk()
        if isinstance(node, ArrayNode) and path not in plan.arrays and is_read_at_open(node)
    }
    return {key: data for key, data in keys.get_many(nodes).items() if is_inlined(nodes[key], data)}


def _undo(keys: KeyStore, plan: WritePlan, error: BaseException) -> None:
    try:
        forget(keys, plan)
    except (ZarrBackendError, OSError) as second:
        error.add_note(f"New documents and chunks are left beside the old ones, and do no harm ({second}).")


def forget(keys: KeyStore, plan: WritePlan) -> None:
    """Delete what an upgrade that did not come to its end has set: documents first, that of the root before all."""
    left = [key for key in keys.list_documents() if split(key)[1] == v3.DOCUMENT]
    if left:
        keys.delete(sorted(left, key=len))
        for path, planned in plan.arrays.items():
            keys.delete_below(join(path, planned.node.prefix))


def remove_format_2(keys: KeyStore, hierarchy: Hierarchy) -> int:
    """Delete the documents of format 2 of a file that is one of format 3 by now, and the chunks that only they name.

    It can be called again where it did not come to its end.

    Parameters
    ----------
    keys : KeyStore
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


def _listed(keys: KeyStore) -> Iterator[str]:
    yield from keys.list_documents()
    yield from keys.get_many([v2.CONSOLIDATED])  # no document of a node, and not listed by all stores


def _stale(keys: KeyStore, hierarchy: Hierarchy, documents: set[str]) -> Iterator[list[str]]:
    """Yield keys in the order in which they are deleted: the root's, chunks before their array, all others."""
    root = [key for key in _OLD_ROOT if key in documents]
    if root:
        yield root
    for key in sorted(documents):
        path, name = split(key)
        node = hierarchy.get(path)
        if name == v2.ARRAY and isinstance(node, ArrayNode) and node.prefix:
            chunks = _old_chunks(keys, path, node)
            if chunks:
                yield chunks
    rest = sorted(documents - set(root))
    if rest:
        yield rest


def _old_chunks(keys: KeyStore, path: str, node: ArrayNode[Attributes]) -> list[str]:
    return [key for key in keys.list_prefix(path) if _OLD_CHUNK.fullmatch(key.removeprefix(f"{path}/"))]
