"""Chunks: each one that should be there is, decodes, and is of full size; by tasks, so that any executor can look."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import islice

from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.arrays.codecs import chunk_codec
from hdmf_zarr_backend.arrays.shards import ShardReader
from hdmf_zarr_backend.errors import ChunkError, LimitError, StoreError, UnsafeDataError, ZarrBackendError
from hdmf_zarr_backend.execution.executors import Runner
from hdmf_zarr_backend.execution.tasks import Index, task_bytes_for
from hdmf_zarr_backend.formats.reserved import ALL_CHUNKS, CHUNKS, notes_of
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, Hierarchy, absolute, join
from hdmf_zarr_backend.progress import Progress
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.verification.problems import Problem, Report
from hdmf_zarr_backend.verification.stored import StoredObjects, indices_of, stored_names

_SHOWN = 5
_TASK_CHUNKS = 4096
_CHECKED = frozenset({"zlib", "gzip", "bz2", "lzma", "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"})
_ZSTD_CHECKSUM = 0x04
_ZSTD_DESCRIPTOR = 4  # after the magic number


@dataclass(slots=True)
class Findings:
    """What a task has found.

    Attributes
    ----------
    problems : list of tuple
        Kind and message of each finding.
    missing : list of tuple of int
        Chunks that are not stored.
    chunks, nbytes, unchecked : int
        Number and stored bytes of the chunks that were decoded, and how many of them have no checksum.
    done : int
        Bytes of the values, for the progress.
    """

    problems: list[tuple[str, str]] = field(default_factory=list)
    missing: list[Index] = field(default_factory=list)
    chunks: int = 0
    nbytes: int = 0
    unchecked: int = 0
    done: int = 0


@dataclass(slots=True)
class DecodeTask:
    """Decodes some chunks of one array, one after the other.

    Attributes
    ----------
    keys : Store
        The store.
    path : str
        The array.
    node : ArrayNode
        Its metadata.
    indices : list of tuple of int
        The chunks; those of a shard may not be stored.
    """

    keys: Store
    path: str
    node: ArrayNode[Attributes]
    indices: list[Index]

    @property
    def nbytes(self) -> int:
        """Bytes of values in memory: one chunk at a time."""
        return math.prod(self.node.chunks) * _itemsize(self.node)

    def run(self) -> Findings:
        """Decode the chunks."""
        found = Findings(done=self.nbytes * len(self.indices))
        reader = ChunkReader(self.keys, self.path, self.node, ChunkCache(0))
        shards = None if self.node.shards is None else ShardReader(self.keys, self.path, self.node)
        for index in self.indices:
            name = self.node.chunk_name(index) if shards is None else str(index)
            try:
                data = shards.get(index) if shards is not None else self.keys.get(join(self.path, name))
                if data is None:
                    found.missing.append(index)
                    continue
                reader.decode(index, data)
            except ZarrBackendError as error:
                found.problems.append((kind_of(error), error.problem))
                continue
            except OSError as error:
                found.problems.append(("chunk-damaged", f"the chunk {name!r} cannot be read ({error})"))
                continue
            found.chunks += 1
            found.nbytes += len(data)
            found.unchecked += not has_checksum(self.node, data)
        return found


def kind_of(error: ZarrBackendError) -> str:
    """Return the kind of the finding that an error with a chunk is."""
    damaged = (ChunkError, StoreError)  # it cannot be decoded, or the system cannot read it
    kinds = ((UnsafeDataError, "unsafe"), (LimitError, "limit"), (damaged, "chunk-damaged"))
    return next((kind for cls, kind in kinds if isinstance(error, cls)), "document-damaged")


def _itemsize(node: ArrayNode[Attributes]) -> int:
    return chunk_codec(node).dtype.itemsize


def has_checksum(node: ArrayNode[Attributes], data: bytes) -> bool:
    """Tell whether a bit that flips in a stored chunk would be found when it is decoded."""
    configs = [*(node.filters or []), *([node.compressor] if node.compressor else [])]
    if any(config.get("id") in _CHECKED for config in configs):
        return True
    is_zstd = bool(configs) and configs[-1].get("id") == "zstd"
    return is_zstd and len(data) > _ZSTD_DESCRIPTOR and bool(data[_ZSTD_DESCRIPTOR] & _ZSTD_CHECKSUM)


def check_chunks(
    keys: Store,
    hierarchy: Hierarchy,
    report: Report,
    runner: Runner,
    *,
    memory_budget: int,
    progress: Progress,
    told: Collection[str] = (),
) -> None:
    """Decode all chunks of a file.

    Parameters
    ----------
    keys : Store
        The store.
    hierarchy : Hierarchy
        Its nodes.
    report : Report
        Takes the findings.
    runner : Runner
        Runs the tasks.
    memory_budget : int
        Bytes of values that may be in flight.
    progress : Progress
        Is told of the bytes of values.
    told : set of str
        Paths of arrays of which a chunk was found to be gone or damaged already; one that has no other is left out.
    """
    _ChunkCheck(keys, hierarchy, report, told).run(runner, memory_budget=memory_budget, progress=progress)


class _ChunkCheck:
    def __init__(self, keys: Store, hierarchy: Hierarchy, report: Report, told: Collection[str]) -> None:
        self._keys = keys
        self._report = report
        arrays = [(path, node) for path, node in hierarchy.walk() if isinstance(node, ArrayNode)]
        self._arrays = [(path, node) for path, node in arrays if path not in told or math.prod(node.grid) > 1]
        self._is_noted = notes_of(hierarchy.root.attributes).get(CHUNKS) == ALL_CHUNKS
        self._unchecked = 0

    def _found(self, path: str, kind: str, message: str) -> None:
        self._report.add(Problem(absolute(path), kind, message))

    def run(self, runner: Runner, *, memory_budget: int, progress: Progress) -> None:
        """Decode everything, and say what was not found."""
        progress.start(0)
        holes: dict[str, list[Index]] = {}
        for task, found in runner.run(self._tasks(memory_budget, runner.workers), memory_budget=memory_budget):
            for kind, message in dict.fromkeys(found.problems):
                self._found(task.path, kind, message)
            if found.missing:
                holes.setdefault(task.path, []).extend(found.missing[:_SHOWN])
            self._report.chunks += found.chunks
            self._report.nbytes += found.nbytes
            self._unchecked += found.unchecked
            progress.advance(absolute(task.path), found.done)
        for path, indices in holes.items():
            self._missing(path, None, [str(index) for index in indices])
        if self._unchecked:
            self._found(
                "",
                "unchecked",
                f"{self._unchecked:,} of {self._report.chunks:,} chunks have no checksum: they decode, and a bit that "
                "flipped in them would not be found",
            )
        progress.finish()

    def _missing(self, path: str, count: int | None, names: list[str]) -> None:
        shown = ", ".join(sorted(names)[:_SHOWN])
        number = "chunks" if count is None else "a chunk" if count == 1 else f"{count:,} chunks"
        verb = "is" if count == 1 else "are"
        if self._is_noted:
            self._found(path, "chunk-missing", f"{number} {verb} gone, though all were stored: {shown}")
        else:
            self._found(path, "unwritten", f"{number} {verb} not stored: {shown}")

    def _tasks(self, memory_budget: int, workers: int) -> Iterator[DecodeTask]:
        for path, node in self._arrays:
            try:
                ChunkReader(self._keys, path, node, ChunkCache(0))
                itemsize = _itemsize(node)
                self._check_count(node)
            except ZarrBackendError as error:
                self._found(path, kind_of(error), error.problem)
                continue
            size = max(1, math.prod(node.chunks) * itemsize)
            count = max(1, min(task_bytes_for(memory_budget, workers) // size, _TASK_CHUNKS))
            indices = iter(self._present(path, node))
            while batch := list(islice(indices, count)):
                yield DecodeTask(self._keys, path, node, batch)

    def _check_count(self, node: ArrayNode[Attributes]) -> None:
        """Refuse to look for more chunks than may be, where the store cannot say which there are."""
        shards = StoredObjects(node)
        count = math.prod(shards.inner)
        if not self._keys.abilities.listing:
            count = math.prod(node.grid)
        self._keys.read_rules.limits.check("max_read_chunks", count, f"{count:,} chunks are stated")

    def _present(self, path: str, node: ArrayNode[Attributes]) -> Iterator[Index]:
        """Yield the chunks that are stored, and say how many are not; what is stored is counted, not what is stated."""
        stored = StoredObjects(node)
        if not self._keys.abilities.listing:
            yield from stored.all_chunks()
            return
        found, unknown = stored.sort(stored_names(self._keys, path))
        if unknown:
            self._found(path, "unknown-file", f"{len(unknown):,} keys are no chunks: {', '.join(unknown[:_SHOWN])}")
        wanted = math.prod(stored.grid)
        if len(found) < wanted:
            blocked, _ = stored.sort(self._keys.names_without_values(path))
            if blocked:
                shown = ", ".join(node.chunk_name(index) for index in sorted(blocked)[:_SHOWN])
                what = "a folder, a pipe or a device is in the place of"
                self._found(path, "chunk-damaged", f"{what} {len(blocked):,} chunks: {shown}")
            known = found | blocked
            first = islice(indices_of(stored.grid), len(known) + _SHOWN)
            names = [node.chunk_name(index) for index in first if index not in known]
            if names:
                self._missing(path, wanted - len(known), names[:_SHOWN])
        for index in sorted(found):
            yield from stored.chunks_in(index)
