"""`PlanWriter`: puts a plan into a change: chunks and documents. The caller commits it, with the documents of the root.

Nothing is read back, and no key is put twice. The document of an array that grows is set when its length is known.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from hdmf_zarr_backend.array.shards import inner_grid, shard_named, split_shard
from hdmf_zarr_backend.encoding import nczarr, registry, zarr2, zarr3
from hdmf_zarr_backend.encoding.chunk_codec import chunk_codec
from hdmf_zarr_backend.encoding.elements import is_inlined, is_read_at_open
from hdmf_zarr_backend.encoding.nczarr import set_dimensions
from hdmf_zarr_backend.encoding.reserved import NOTES, WRITING
from hdmf_zarr_backend.errors import DamagedFileError, ReadOnlyStoreError, ValueRefusedError, at
from hdmf_zarr_backend.model.json_text import dump
from hdmf_zarr_backend.model.nodes import Group, absolute, join
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.progress import reporting
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.files import Resumption
from hdmf_zarr_backend.store.journal import Root
from hdmf_zarr_backend.store.lock import Holder
from hdmf_zarr_backend.store.memory import MemoryStore
from hdmf_zarr_backend.store.transaction import Change, Writer
from hdmf_zarr_backend.write import tasks
from hdmf_zarr_backend.write.iterators import WAITING_BYTES, GrowingArray
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan, adapt_plan, check_names, warn_of_names
from hdmf_zarr_backend.write.sources import ArraySource, ElementSource, RowSource, source_caches


class PlannedKeys(MemoryStore):
    """The chunks of a plan as a read-only store. Documents are not among its keys, since the plan has the hierarchy."""

    def __init__(self, plan: WritePlan, location: str) -> None:
        super().__init__(MappingProxyType({}), location)
        self._plan = plan

    def get(self, key: str) -> bytes | None:
        path, _, name = key.rpartition("/")
        while path and path not in self._plan.arrays:
            path, _, last = path.rpartition("/")
            name = f"{last}/{name}"
        planned = self._plan.arrays.get(path)
        if planned is None or planned.source is None:
            return None
        stored = planned.node.stored
        index = shard_named(stored, name)
        if index is None:
            return None
        with at(self.location, path):
            if stored.shards is not None:
                pieces: list[bytes] = []
                tasks.encode_shard(stored, planned.source, index, pieces.append)
                return b"".join(pieces)
            return tasks.encode_chunk(stored, chunk_codec(stored), planned.source, index)[0]

    def __contains__(self, key: str) -> bool:
        return self.get(key) is not None

    def exists(self) -> bool:
        return True


@contextmanager
def new_file(
    store: Store,
    plan: WritePlan,
    options: WriteOptions,
    *,
    exclusive: bool = False,
    writer: Writer | None = None,
    resume: Resumption | None = None,
) -> Iterator[tuple[Change, PlanWriter]]:
    """Yield the change that makes a new file, and what puts a plan into it; the block commits it."""
    unwrapped, zarr_format = store.unwrapped, plan.hierarchy.zarr_format
    if not unwrapped.abilities.write or zarr_format not in unwrapped.abilities.formats:
        raise ReadOnlyStoreError(unwrapped.abilities.why, store=store.location, remedy="Write to another place.")
    # refused before the lock is taken, and before anything exists at the location
    check_names(plan.hierarchy.flat(), unwrapped)
    opened = nullcontext(writer) if writer is not None else Writer(unwrapped, replaces=True, durable=options.durable)
    with opened as own:
        # The mark of a file that is being written: the documents of the root, then the others by which it would be
        # read. The attributes come first: without them the root would look complete.
        root = Group(attributes={NOTES: {WRITING: asdict(Holder.here())}})
        documents = {zarr3.DOCUMENT: zarr3.encode_node(root)} if zarr_format == 3 else dict(zarr2.documents("", root))
        mark: Root = {key: dump(text) for key, text in sorted(documents.items())}
        mark = {**mark, **{key: None for key in (zarr2.CONSOLIDATED, zarr3.DOCUMENT) if key not in mark}}
        with own.new_file(mark, exclusive=exclusive, resume=resume) as change:
            yield change, PlanWriter(change, plan, options)


_LARGE_BYTES = 2**20


class PlanWriter:
    """Puts a plan into a change: a new file, or what an append adds."""

    def __init__(self, change: Change, plan: WritePlan, options: WriteOptions | None = None) -> None:
        self.inlined: dict[str, bytes] = {}
        """The chunks that are read whenever the file is opened, by key, for the consolidated document."""
        self._options = options or WriteOptions()
        self._budget = self._options.memory_budget
        self._change = change
        self._location = change.location
        self._plan = plan
        self._format = registry.FORMATS[plan.hierarchy.zarr_format]
        self._total = 0
        self._progress = self._options.receiver

    def write(self, *, one_by_one: bool = True) -> Root:
        """Put everything of a new file but what completes it: the documents of the root, which are returned."""
        growing = self._begin(path for path, _ in self._plan.hierarchy.walk())
        # documents of NCZarr list the lengths of dimensions, which iterators tell at their end
        if not self._plan.is_nczarr:
            self._all_documents(without=growing)
        self._write_arrays(growing, one_by_one=one_by_one)
        if self._plan.is_nczarr:
            nczarr.overlay(self._plan.hierarchy)
            self._all_documents()
        return self.root()

    def _begin(self, paths: Iterable[str]) -> dict[str, PlannedArray]:
        """Give the new arrays their stored form, with shards that fit this store and the memory budget."""
        # here and not in the plan, because the store and the memory budget are known here
        warn_of_names(paths, self._location)
        adapt_plan(self._plan, location=self._location, store=self._change.reader, memory_budget=self._budget)
        arrays = self._plan.arrays
        for path, planned in arrays.items():
            with at(self._location, path):  # an error names the array whose codec cannot be used
                self._total += planned_bytes(planned)
        growing = {path: planned for path, planned in arrays.items() if planned.iterator is not None}
        if any(None in tuple(planned.iterator.maxshape) for planned in growing.values()):
            self._total = 0
        return growing

    def _all_documents(self, without: Collection[str] = ()) -> None:
        for path, node in self._plan.hierarchy.walk():
            if path and path not in without:
                self._documents(path, node)
        root = self._format.documents("", self._plan.hierarchy.root)
        self._change.describe({key: dump(text) for key, text in root if key == zarr2.GROUP})

    def write_changes(self) -> None:
        """Put an append: new nodes first, then changed documents."""
        added, changed = self._plan.added, self._plan.changed | self._plan.replaced.keys()
        growing = self._begin(added)
        self._write_arrays(growing, one_by_one=True)
        if self._plan.is_nczarr:
            changed = {*changed, *nczarr.overlay(self._plan.hierarchy), *growing}
            new = tuple(f"{path}/" for path in added)
            changed = {path for path in changed if path in growing or not f"{path}/".startswith(new)}
        for top in sorted(added, reverse=True):  # the document of a group is set after everything in it
            for path, node in reversed(list(self._plan.hierarchy.walk(top))):
                if path not in growing:
                    self._documents(path, node)
        for path in sorted(changed, reverse=True):
            self._documents(path, self._plan.hierarchy.get(path))

    def root(self) -> Root:
        """Return the documents of the root that complete a new file, the one that readers trust first."""
        hierarchy = self._plan.hierarchy
        last = self._format.last(hierarchy, self.inlined, consolidate=self._options.consolidate_metadata)
        others = {key: text for key, text in self._format.documents("", hierarchy.root) if key != zarr2.GROUP}
        return {key: dump(text, strict=self._options.strict_json) for key, text in {**last, **others}.items()}

    def _documents(self, path: str, node: Any) -> None:
        documents = self._format.documents(path, node)
        self._change.describe({key: dump(text, strict=self._options.strict_json) for key, text in documents})

    def _write_arrays(self, growing: dict[str, PlannedArray], *, one_by_one: bool) -> None:
        """Write the chunks of all arrays."""
        with reporting(self._progress, self._total):
            self._write_sources()
            if not growing:
                return
            # the arrays of iterators: one after the other, or a block of each in turn
            with tasks.runner(self._options.executor) as pool, closing(pool.sink(self._budget // 2)) as sink:
                # one after the other, only one array has chunks that wait
                most = min(WAITING_BYTES, self._budget // 2) // (1 if one_by_one else len(growing))
                waiting = deque(self._blocks(path, planned, sink, most) for path, planned in growing.items())
                while waiting:
                    blocks = waiting.popleft()
                    for _ in blocks:
                        if not one_by_one:
                            waiting.append(blocks)
                            break

    def _write_sources(self) -> None:
        """Write the chunks of all arrays with a source: large plain ones by the executor, the others here."""
        later: list[str] = []
        is_parallel = self._options.executor not in (None, "auto")
        with source_caches(self._budget):
            for path, planned in self._plan.arrays.items():
                stored, source = planned.node.stored, planned.source
                if source is None:
                    continue
                if (
                    # elements and rows are converted by functions that are not safe for threads
                    is_parallel
                    and not isinstance(source, (ElementSource, RowSource))
                    and planned_bytes(planned) > _LARGE_BYTES
                    and self._change.is_created(join(path, stored.first_chunk))
                ):
                    later.append(path)
                elif is_read_at_open(planned.node):  # one chunk, whose bytes the consolidated document may have too
                    key, index = join(path, stored.first_chunk), (0,) * len(stored.shape)
                    with at(self._location, path):
                        data, size = tasks.encode_chunk(stored, chunk_codec(stored), source, index)
                    self._change.put(key, data)
                    if is_inlined(planned.node, data):
                        self.inlined[key] = data
                    self._progress.advance(absolute(path), size)
                else:
                    for task in self._cut(path, source):
                        self._progress.advance(absolute(path), task.run())
            if later:
                self._run(later)

    def _run(self, paths: list[str]) -> None:
        """Write arrays by the executor; those whose values are in this process's memory are not sent to another."""
        with tasks.runner(self._options.executor) as pool:
            away = pool.needs_pickle
            budget = self._budget * (pool.workers if away else 1)  # each process has memory of its own
            total = sum(planned_bytes(self._plan.arrays[path]) for path in paths)
            # with four tasks for each worker, none waits long for the others at the end
            size = min(tasks.task_bytes_for(budget, pool.workers), max(1, total // (4 * pool.workers)))
            sent: list[tasks.ChunkTask] = []
            kept: list[tasks.ChunkTask] = []
            for path in paths:
                source: Any = self._plan.arrays[path].source
                portable = source
                if away:  # by file and path: values would be pickled with each task
                    is_small = hasattr(source, "part")
                    portable = source.portable() if hasattr(source, "portable") else source if is_small else None
                queue = kept if portable is None else sent
                queue.extend(self._cut(path, portable or source, task_bytes=size, to_send=away))
            for queue, who in ((sent, pool), (kept, tasks.Runner())):
                for task, done in who.run(queue, budget=budget):
                    self._progress.advance(absolute(task.path), done)

    def _cut(
        self, path: str, source: ArraySource, *, task_bytes: int = tasks.TASK_BYTES, to_send: bool = False
    ) -> Iterator[tasks.ChunkTask]:
        """Yield tasks for the missing chunks of an array."""
        stored = self._plan.arrays[path].node.stored

        def is_whole(key: str, value: bytes) -> bool:
            # a killed conversion may leave a chunk or a shard that was cut off
            shard = None if stored.shards is None else shard_named(stored, key.removeprefix(f"{path}/"))
            if not value or (stored.shards is not None and shard is None):
                return False
            with suppress(DamagedFileError):
                for chunk in [value] if shard is None else split_shard(value, stored, shard):
                    chunk_codec(stored).decode(chunk, stored.chunks)
                return True
            return False

        complete = self._change.kept(path, is_whole)
        if complete:
            values = stored.size * chunk_codec(stored).dtype.itemsize
            size = tasks.chunk_bytes(stored) * math.prod(inner_grid(stored))
            self._progress.advance(absolute(path), min(len(complete) * size, values))
        array = tasks.ChunkTask(self._change, path, stored, source)
        return tasks.cut(array, task_bytes=task_bytes, to_send=to_send, complete=complete)

    def _blocks(self, path: str, planned: PlannedArray, sink: tasks.Sink[Any], most: int) -> Iterator[None]:
        """Write the blocks of an iterator, yielding after each, and then the document of the array."""
        stored = planned.node.stored
        array = GrowingArray(self._change, path, stored, maxshape=planned.maxshape, sink=sink, waiting_bytes=most)
        blocks = iter(planned.iterator)
        with at(self._location, path):
            while (block := _next(blocks)) is not None:
                self._progress.advance(absolute(path), array.put(block))
                yield
            array.finish()
        sink.flush()
        if array.texts is not None:
            array.texts.name(planned)
        settle(planned)
        if not self._plan.is_nczarr:
            self._documents(path, planned.node)


def _next(blocks: Iterator[Any]) -> Any:
    """Return the next block of an iterator, None at its end; its own errors are left as they are."""
    try:
        return next(blocks, None)
    except ValueError as error:
        if "all input arrays must have the same shape" not in str(error):  # hdmf stacks rows for a block
            raise
        problem = "the rows that the iterator gives for a block differ in length"
        remedy = "Give rows of one length; for rows of different lengths, use a ragged column with an index."
        raise ValueRefusedError(problem, remedy=remedy) from error


def settle(planned: PlannedArray) -> None:
    """Set the names of the axes and the note of an array that has grown, which depend on its shape."""
    node = planned.node
    notes: dict[str, Any] = dict(node.attributes.get(NOTES, {}))
    if notes.get("maxshape") == list(node.stored.shape):
        del notes["maxshape"]
    set_dimensions(node, planned.labels, planned.taken, notes)


def planned_bytes(planned: PlannedArray) -> int:
    """Return the bytes of the values of an array; 0 for an iterator of unknown length."""
    stored = planned.node.stored
    shape = stored.shape if planned.iterator is None else tuple(planned.iterator.maxshape)
    return 0 if None in shape else math.prod(map(int, shape)) * chunk_codec(stored).dtype.itemsize
