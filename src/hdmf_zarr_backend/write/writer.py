"""WritePlan + store -> documents, chunks, grown shapes, and the consolidated document last.

Nothing is read back and no key is set twice; the document of an array that grows is set when its length is known.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

from hdmf_zarr_backend.errors import ZarrBackendError
from hdmf_zarr_backend.execution.executors import Runner, runner
from hdmf_zarr_backend.execution.tasks import TASK_BYTES, ChunkTask, cut, encode_chunk
from hdmf_zarr_backend.mapping.dimensions import encode_dimensions
from hdmf_zarr_backend.mapping.reserved import DIMENSIONS, DTYPE, NOTES, notes_of
from hdmf_zarr_backend.model import consolidated, v2
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, Node, absolute, join
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.storage.codecs import chunk_codec
from hdmf_zarr_backend.storage.jsontext import dump
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.write.iterators import GrowingArray
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ArraySource, ElementSource, RowSource

MEMORY_BUDGET = 128 * 2**20
_LARGE_BYTES = 2**20
_INLINE_ARRAY_BYTES = 4096
_FEW = 4


class Writer:
    """Carries out a plan on an empty store.

    Parameters
    ----------
    keys : KeyStore
        The store.
    plan : WritePlan
        What to write.
    strict_json : bool
        No NaN or Infinity tokens.
    progress : Progress
        Is told of each array's bytes.
    executor : object
        As of `execution.executors.runner`; None: everything is done in this thread.
    memory_budget : int
        Bytes of values that may be in flight, beyond the caller's own arrays.

    Attributes
    ----------
    inlined : dict
        ``{key: bytes}`` of what is read whenever the file is opened, for the consolidated document.
    """

    def __init__(
        self,
        keys: KeyStore,
        plan: WritePlan,
        *,
        strict_json: bool = False,
        progress: Progress = SILENT,
        executor: Any = None,
        memory_budget: int = MEMORY_BUDGET,
    ) -> None:
        self.inlined: dict[str, bytes] = {}
        self._executor = executor
        self._budget = memory_budget
        self._keys = keys
        self._plan = plan
        self._strict = strict_json
        self._progress = progress

    def write(self, *, consolidate: bool = True, exhaust_in_turn: bool = True) -> None:
        """Write everything.

        Parameters
        ----------
        consolidate : bool
            Set ``.zmetadata`` at the end.
        exhaust_in_turn : bool
            Exhaust iterators one after the other; False: one block of each in turn.
        """
        arrays = self._plan.arrays
        self._progress.start(sum(planned_bytes(planned) for planned in arrays.values()))
        growing = {path: planned for path, planned in arrays.items() if planned.iterator is not None}
        for path, node in self._plan.hierarchy.walk():
            if path not in growing:
                self._documents(path, node)
        self._arrays()
        self._exhaust(growing, in_turn=exhaust_in_turn)
        if consolidate:
            document = consolidated.consolidate(self._plan.hierarchy, self.inlined)
            self._keys.set(v2.CONSOLIDATED, dump(document, strict=self._strict))
        self._progress.finish()

    def write_changes(self, *, added: Collection[str], changed: Collection[str], consolidate: bool = True) -> None:
        """Write what an append adds: new nodes first, then changed documents, the consolidated one last.

        Parameters
        ----------
        added : collection of str
            Paths of new groups and arrays; what is below them is new too.
        changed : collection of str
            Paths of nodes whose attributes differ.
        consolidate : bool
            Set ``.zmetadata``; False: delete it, since it would be stale.
        """
        arrays = self._plan.arrays
        self._progress.start(sum(planned_bytes(planned) for planned in arrays.values()))
        self._arrays()
        growing = {path: planned for path, planned in arrays.items() if planned.iterator is not None}
        self._exhaust(growing, in_turn=True)
        for path in sorted(added, reverse=True):  # a group appears when all that is in it is there
            for below, node in reversed(list(Hierarchy(self._node(path)).walk())):
                place = "/".join(part for part in (path, below) if part)
                if place not in growing:
                    self._documents(place, node)
        for path in sorted(changed, reverse=True):
            self._documents(path, self._node(path))
        if consolidate:
            document = consolidated.consolidate(self._plan.hierarchy, self.inlined)
            self._keys.set(v2.CONSOLIDATED, dump(document, strict=self._strict))
        else:
            self._keys.delete([v2.CONSOLIDATED])
        self._progress.finish()

    def _node(self, path: str) -> Node:
        node = self._plan.hierarchy.get(path)
        assert node is not None
        return node

    def _documents(self, path: str, node: Any) -> None:
        for key, document in v2.node_documents(path, node):
            self._keys.set(key, dump(document, strict=self._strict))

    def _arrays(self) -> None:
        """Write the chunks of all arrays that have a source: large plain ones by the executor, the others here."""
        later: list[tuple[str, PlannedArray]] = []
        for path, planned in self._plan.arrays.items():
            source = planned.source
            if source is None:
                continue
            if self._executor is not None and _is_large(planned):
                later.append((path, planned))
                continue
            if is_read_at_open(planned.node):
                self._inlined(path, planned.node, source)
                continue
            for task in cut(self._keys, path, planned.node, source):
                self._progress.advance(absolute(path), task.run())
        if later:
            self._run(later)

    def _inlined(self, path: str, node: ArrayNode[Attributes], source: ArraySource) -> None:
        """Write an array of one chunk, and keep its bytes for the consolidated document."""
        index = (0,) * len(node.shape)
        key = join(path, node.chunk_name(index))
        try:
            data, size = encode_chunk(node, chunk_codec(node), source, index)
        except ZarrBackendError as error:
            raise error.located(store=self._keys.location, path=absolute(path)) from error.__cause__
        self._keys.set(key, data)
        if len(data) <= _INLINE_ARRAY_BYTES or node.attributes.get(DTYPE) == "scalar":
            self.inlined[key] = data
        self._progress.advance(absolute(path), size)

    def _run(self, arrays: list[tuple[str, PlannedArray]]) -> None:
        with runner(self._executor) as pool:
            size = max(1, min(TASK_BYTES, self._budget // (3 * pool.workers)))
            sent: list[ChunkTask] = []
            kept: list[ChunkTask] = []
            for path, planned in arrays:
                source = planned.source if not pool.needs_pickle else _by_name(planned.source)
                if source is not None:
                    away = pool.needs_pickle
                    sent.extend(cut(self._keys, path, planned.node, source, task_bytes=size, to_send=away))
                elif planned.source is not None:  # values in this process's memory are not copied to another
                    kept.extend(cut(self._keys, path, planned.node, planned.source, task_bytes=size))
            for tasks, who in ((sent, pool), (kept, Runner())):
                for task, done in who.run(tasks):
                    self._progress.advance(absolute(task.path), done)

    def _exhaust(self, growing: dict[str, PlannedArray], *, in_turn: bool) -> None:
        open_arrays = {path: (GrowingArray(self._keys, path, p.node), iter(p.iterator)) for path, p in growing.items()}
        while open_arrays:
            for path in list(open_arrays)[: 1 if in_turn else None]:
                array, blocks = open_arrays[path]
                block = next(blocks, None)
                if block is not None:
                    array.put(block)
                    self._progress.advance(absolute(path), getattr(block.data, "nbytes", 0))
                    continue
                array.finish()
                self._finish_growing(path, growing[path])
                del open_arrays[path]

    def _finish_growing(self, path: str, planned: PlannedArray) -> None:
        node = planned.node
        notes: dict[str, Any] = dict(node.attributes.get(NOTES, {}))
        node.attributes[DIMENSIONS] = encode_dimensions(planned.labels, node.shape, planned.taken, notes)
        if notes.get("maxshape") == list(node.shape):
            del notes["maxshape"]
        if notes:
            node.attributes[NOTES] = notes
        else:
            node.attributes.pop(NOTES, None)
        self._documents(path, node)


def is_read_at_open(node: ArrayNode[Attributes]) -> bool:
    """Tell whether hdmf looks at the values of an array whenever the file is opened.

    Scalars are held by builders; the first id of a table is checked; dates (a few texts) are parsed.
    """
    if not node.size or math.prod(node.grid) != 1:
        return False
    if node.attributes.get(DTYPE) == "scalar" or notes_of(node.attributes).get("scalar") is True:
        return True
    few_texts = node.attributes.get(DTYPE) == "str" and node.size <= _FEW
    return few_texts or node.attributes.get("neurodata_type", node.attributes.get("data_type")) == "ElementIdentifiers"


def planned_bytes(planned: PlannedArray) -> int:
    """Return the bytes of the values of an array, as far as they are known before writing."""
    if planned.iterator is not None:
        return 0
    return planned.node.size * chunk_codec(planned.node).dtype.itemsize


def _is_large(planned: PlannedArray) -> bool:
    """Tell whether an array is worth a task: over a megabyte of plain values, from a source that threads may share."""
    return not isinstance(planned.source, (ElementSource, RowSource)) and planned_bytes(planned) > _LARGE_BYTES


def _by_name(source: ArraySource | None) -> ArraySource | None:
    """Return ``source`` as names and ranges, which can be sent to another process; None where it has no such form."""
    if source is not None and hasattr(source, "part"):
        return source
    described = getattr(source, "portable", None)
    found: ArraySource | None = None if described is None else described()
    return found
