"""Checks of what documents lead to: chunks, whether each is stored and decodes, and targets of links and references."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import numpy as np

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.array.content import ArrayReader, past_the_end, stated_target
from hdmf_zarr_backend.array.shards import ShardReader, chunks_in_shard, inner_grid, shard_grid, shard_named
from hdmf_zarr_backend.check.findings import Problem, Report
from hdmf_zarr_backend.encoding import references
from hdmf_zarr_backend.encoding.attributes import decode_attributes, indices_in
from hdmf_zarr_backend.encoding.dtypes import numpy_dtype
from hdmf_zarr_backend.encoding.elements import describe_any
from hdmf_zarr_backend.encoding.fills import fill_scalar
from hdmf_zarr_backend.encoding.parser import CircularLinkError, Resolver
from hdmf_zarr_backend.encoding.reserved import LINKS, SPECLOC, as_dict, hdf5_note, spec_location, stores_all_chunks
from hdmf_zarr_backend.errors import MetadataError, ZarrBackendError
from hdmf_zarr_backend.model.element import Reference, Target
from hdmf_zarr_backend.model.links import THIS_FILE
from hdmf_zarr_backend.model.nodes import (
    Dataset,
    Group,
    Hierarchy,
    Node,
    StoredArray,
    absolute,
    chunk_region,
    indices_of,
    join,
    relative,
    split,
)
from hdmf_zarr_backend.model.render import counted, few
from hdmf_zarr_backend.options import MEMORY_BUDGET
from hdmf_zarr_backend.progress import Progress, reporting
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.write.tasks import Index, Runner, chunk_bytes, runner, task_bytes_for

_TASK_CHUNKS = 4096
_MOST_NAMED = 1000  # chunks of a finding
# A flipped bit in a chunk of another codec decodes to other values, without an error: Blosc has no checksum.
_CHECKED = frozenset({"zlib", "gzip", "bz2", "lzma", "crc32", "crc32c", "adler32", "fletcher32", "jenkins_lookup3"})
# RFC 8878, section 3.1.1.1.1: the frame header descriptor follows the magic number; bit 2 states a checksum
_ZSTD_CHECKSUM = 0x04
_ZSTD_DESCRIPTOR = 4


# ---- what is stored -------------------------------------------------------------------------------------------------


def _sorted(store: Store, path: str, stored: StoredArray) -> tuple[set[Index], list[str]]:
    """Return the indices of the keys below an array that are its chunks or shards, and the names of the others."""
    indices: set[Index] = set()
    unknown: list[str] = []
    for key in store.sizes(path):
        name = key.removeprefix(f"{path}/" if path else "")
        index = shard_named(stored, name)
        if index is not None:
            indices.add(index)
        elif name not in DOCUMENTS:
            unknown.append(name)
    return indices, sorted(unknown)


def stored_rows(store: Store, path: str, node: Dataset) -> list[int]:
    """Return the indices of the stored chunks along the first axis; all of them if the store cannot list keys."""
    if not node.stored.shape:
        return [0]
    if not store.abilities.listing:
        _check_count(store, node.stored.grid[0])
        return list(range(node.stored.grid[0]))
    # references that were never written read as null: only what is stored can point to something
    objects = {index[0] for index in _sorted(store, path, node.stored)[0]}
    inner = inner_grid(node.stored)[0]
    _check_count(store, len(objects) * inner)
    rows = (row * inner + i for row in objects for i in range(inner))
    return sorted(row for row in rows if row < node.stored.grid[0])


def _check_count(store: Store, count: int) -> None:
    # a shape of 10**18 costs a few bytes in a crafted document, and its chunks would be looked for one by one
    store.read_rules.limits.check("max_read_chunks", count, f"the arrays declare {count:,} chunks")


# ---- decoding -------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Decoded:
    """The outcome of a `DecodeTask`: kind, message, advice and chunk of each problem, what is not stored, counts."""

    problems: list[tuple[str, str, str, Index]] = field(default_factory=list)
    missing: list[Index] = field(default_factory=list)
    lost: list[Index] = field(default_factory=list)  # stored, and their bytes do not decode
    chunks: int = 0
    nbytes: int = 0  # as stored
    unchecked: int = 0  # without a checksum
    done: int = 0  # bytes of the values, for progress
    lack: Problem | None = None  # of the codec, in a worker process


@dataclass(slots=True)
class DecodeTask:
    """Decodes some chunks of one array, one after the other; those in a shard may be missing."""

    store: Store
    path: str
    node: Dataset
    indices: list[Index]

    @property
    def nbytes(self) -> int:
        """Bytes of values in memory, for one chunk at a time."""
        return chunk_bytes(self.node.stored)

    def run(self) -> Decoded:
        """Decode the chunks."""
        try:
            decoded = Decoded(done=self.nbytes * len(self.indices))
        except errors.MissingCodecError as error:  # it is registered in the parent process only
            return Decoded(lack=problem_of(error, self.path))
        reader = ChunkReader(self.store, self.path, self.node.stored, ChunkCache(0))
        shards = None if self.node.stored.shards is None else ShardReader(self.store, self.path, self.node.stored)
        configs = self.node.stored.codecs
        has_checksum = any(config.get("id") in _CHECKED for config in configs)
        is_zstd = bool(configs) and configs[-1].get("id") == "zstd"  # each chunk states whether it has one
        for index in self.indices:
            key = join(self.path, self.node.stored.chunk_name(index))
            try:
                data = shards.get(index) if shards is not None else self.store.get(key)
                if data is None:
                    decoded.missing.append(index)
                    continue
                reader.decode(index, data)
            except errors.ResourceError:
                raise  # the chunk may be whole
            except ZarrBackendError as error:
                advice = error.remedy if isinstance(error, errors.StoreError) and error.remedy != error.advice else ""
                decoded.problems.append((kind_of(error), error.problem, advice, index))
                decoded.lost += [index] if isinstance(error, errors.ChunkError) else []
                continue
            except OSError as error:  # a bad sector: the other chunks can still be checked
                what = f"the chunk {self.node.stored.chunk_text(index)!r} cannot be read ({error})"
                decoded.problems.append(("chunk-damaged", what, "", index))
                continue
            decoded.chunks += 1
            decoded.nbytes += len(data)
            is_checked = is_zstd and len(data) > _ZSTD_DESCRIPTOR and data[_ZSTD_DESCRIPTOR] & _ZSTD_CHECKSUM
            decoded.unchecked += not (has_checksum or is_checked)
        return decoded


_KINDS: tuple[tuple[type[ZarrBackendError], str], ...] = (
    (errors.UnsafeDataError, "unsafe"), (errors.LimitError, "limit"), (errors.UnsupportedFileError, "library-missing"),
    (errors.ChunkError, "chunk-damaged"), (errors.StoreError, "chunk-damaged"),
)  # fmt: skip


def kind_of(error: ZarrBackendError, otherwise: str = "document-damaged") -> str:
    """Return the kind of finding for an error that a chunk raises."""
    return next((kind for cls, kind in _KINDS if isinstance(error, cls)), otherwise)


def problem_of(error: ZarrBackendError, path: str) -> Problem:
    """Return the finding for an error that an array or its attributes raise."""
    kind = kind_of(error)
    advice = f"{error.remedy} These values were not checked." if kind == "library-missing" else ""
    if kind == "limit":  # it names the limit, and its option
        advice = error.remedy_cli or error.remedy
    return Problem(absolute(path), kind, error.problem, advice=advice)


# ---- all chunks of a file -------------------------------------------------------------------------------------------


# In a file of both formats, rows and references of each have chunks below the same path.
_OF_EITHER_FORMAT = re.compile(r"c(/[0-9]+)*|[0-9]+([./][0-9]+)*")


class ChunkCheck:
    """Decodes all chunks of a file, and reports missing and damaged ones."""

    def __init__(
        self,
        store: Store,
        hierarchy: Hierarchy,
        report: Report,
        reported: Collection[str] = (),
        *,
        has_other_chunks: bool = False,
    ) -> None:
        self._store, self._report, self._has_other_chunks = store, report, has_other_chunks
        self._arrays = {
            path: node for path, node in hierarchy.arrays() if path not in reported or math.prod(node.stored.grid) > 1
        }
        self._should_all_be_stored = stores_all_chunks(hierarchy.root.attributes)
        self.lost: dict[str, set[Index]] = {}  # by path: stored, and their bytes do not decode
        self.present: Counter[str] = Counter()  # by path: how many of the others are stored

    @property
    def nbytes(self) -> int:
        """Bytes of the values in all chunks that could be decoded."""
        total = 0
        for node in self._arrays.values():
            with suppress(ZarrBackendError):
                total += math.prod(node.stored.grid) * chunk_bytes(node.stored)
        return total

    def run(self, runner: Runner, progress: Progress) -> None:
        """Decode all chunks, with at most ``memory_budget`` bytes of values in flight."""
        done = 0
        missing: dict[str, list[Index]] = {}
        counts: Counter[str] = Counter()  # of those that are missing
        damaged: dict[tuple[str, str, str, str], list[Index]] = {}  # the index of a shard: of all chunks in it
        for task, decoded in runner.run(self._tasks(runner.workers), in_order=True):
            if decoded.lack is not None and decoded.lack not in self._report.problems:
                self._report.problems.append(decoded.lack)
            for kind, message, advice, index in decoded.problems:
                damaged.setdefault((task.path, kind, message, advice), []).append(index)
            if decoded.missing:
                listed = missing.setdefault(task.path, [])
                listed += decoded.missing[: _MOST_NAMED - len(listed)]
                counts[task.path] += len(decoded.missing)
            self.lost.setdefault(task.path, set()).update(decoded.lost)
            self.present[task.path] += decoded.chunks + len(decoded.problems) - len(decoded.lost)
            self._report.chunks += decoded.chunks
            self._report.nbytes += decoded.nbytes
            self._report.unchecked += decoded.unchecked
            progress.advance(absolute(task.path), decoded.done)
            done += decoded.done
        progress.advance("/", max(0, self.nbytes - done))  # chunks that are not stored
        for path, indices in missing.items():
            self._add_missing(path, counts[path], [self._arrays[path].stored.chunk_text(index) for index in indices])
        for (path, kind, message, advice), indices in damaged.items():
            labels = [self._arrays[path].stored.chunk_text(index) for index in indices[:_MOST_NAMED]]
            is_named = len(indices) == 1 and labels[0] in message
            shown = message if is_named else f"{message}: {few(labels, count=len(indices))}"
            self._report.add(path, kind, shown, advice=advice, chunks=tuple(labels))

    def _add_missing(self, path: str, count: int, labels: list[str]) -> None:
        number = "a chunk is" if count == 1 else f"{count:,} chunks are"
        kind, what = "unwritten", "not stored"
        if self._should_all_be_stored:  # else it is not known whether the writer left them out: Zarr reads fill values
            kind, what = "chunk-missing", "missing, although all were stored"
        self._report.add(path, kind, f"{number} {what}: {few(labels, count=count)}", chunks=tuple(labels))

    def _tasks(self, workers: int) -> Iterator[DecodeTask]:
        for path, node in self._arrays.items():
            try:
                # an array that cannot be decoded at all, for an unknown codec or type, is one finding and not one for
                # each chunk
                dtype = ChunkReader(self._store, path, node.stored, ChunkCache(0)).codec.dtype
                fill_scalar(node.stored, dtype)
                size = max(1, math.prod(node.stored.chunks) * dtype.itemsize)
                # with a list of keys, only the chunks of an object are looked for one by one, else all in the metadata
                grid = inner_grid(node.stored) if self._store.abilities.listing else node.stored.grid
                _check_count(self._store, math.prod(grid))
            except ZarrBackendError as error:
                problem = problem_of(error, path)
                # its document, or the references in it, may have been looked at already
                if not {problem, replace(problem, is_repairable=True)} & set(self._report.problems):
                    self._report.problems.append(problem)
                continue
            count = max(1, min(task_bytes_for(MEMORY_BUDGET, workers) // size, _TASK_CHUNKS))
            indices = self._present(path, node.stored)
            while batch := list(islice(indices, count)):
                yield DecodeTask(self._store, path, node, batch)

    def _present(self, path: str, node: StoredArray) -> Iterator[Index]:
        """Yield the chunks that are stored, and report how many are not. Iterates over stored chunks only."""
        if not self._store.abilities.listing:
            yield from indices_of(node.grid)
            return
        indices, unknown = _sorted(self._store, path, node)
        if self._has_other_chunks:
            unknown = [name for name in unknown if not _OF_EITHER_FORMAT.fullmatch(name)]
        if unknown:
            what = "1 key is not a chunk" if len(unknown) == 1 else f"{len(unknown):,} keys are not chunks"
            self._report.add(path, "unknown-file", f"{what}: {few(unknown)}")
        grid = shard_grid(node)
        count = math.prod(grid)
        if len(indices) < count:
            # of 10**9 chunks a few may be stored: no more are looked at than needed to find the first missing ones
            first = (index for index in islice(indices_of(grid), len(indices) + _MOST_NAMED) if index not in indices)
            labels = [node.chunk_text(index, is_object=True) for index in islice(first, _MOST_NAMED)]
            self._add_missing(path, count - len(indices), labels)
        for index in sorted(indices):
            yield from chunks_in_shard(node, index)


def note_unchecked(report: Report) -> None:
    """Add a remark about the chunks without a checksum."""
    if report.unchecked:
        verb, them = ("has", "it") if report.unchecked == 1 else ("have", "them")
        what = f"{report.unchecked:,} of {counted(report.chunks, 'chunk')} {verb} no checksum"
        report.add("/", "unchecked", f"{what}, so changed bytes in {them} cannot be noticed")


def lost_chunks(
    store: Store, hierarchy: Hierarchy, executor: Any, progress: Progress
) -> tuple[dict[str, set[Index]], list[str]]:
    """Decode all chunks; return the damaged ones by path, and what a copy says that fills them and missing ones."""
    report, labels = Report(store.location, "chunks"), dict[str, list[str]]()
    check = ChunkCheck(store, hierarchy, report)
    with reporting(progress, check.nbytes), runner(executor) as workers:
        check.run(workers, progress)
    for problem in (*report.problems, *report.remarks):
        if problem.kind in ("chunk-missing", "chunk-damaged", "unwritten"):
            labels.setdefault(relative(problem.path), []).extend(problem.chunks)
    remarks = []
    for path, listed in labels.items():
        stored = hierarchy.array(path).stored
        count = (total := math.prod(stored.grid)) - check.present[path]
        what = f"{count:,} of {counted(total, 'chunk')} of {absolute(path)} {'was' if count == 1 else 'were'} filled"
        remarks.append(f"{what}: {few(listed, count=max(len(listed), count if stored.shards is None else 0))}")
    return check.lost, remarks


# ---- links and references --------------------------------------------------------------------------------------------

_CACHE_BYTES = 2**24
_TO_NOTHING = ("link-dangling", "link-circular", "reference-dangling")
_Problem = tuple[str, str]  # kind and message of a finding, the kind without the prefix ``link-`` or ``reference-``


def check_targets(resolver: Resolver, report: Report, cache: ChunkCache | None = None) -> None:
    """Report the links and references of a file with a missing or wrong target; ``cache`` keeps the chunks it reads."""
    checker = _Checker(resolver, report, ChunkCache(_CACHE_BYTES) if cache is None else cache)
    for path, node in resolver.main.hierarchy.walk():
        if isinstance(node, Group):
            checker.check_links(path, node)
            checker.check_indices(path, node)
        checker.check_attributes(path, node)
        if isinstance(node, Dataset):
            checker.check_array(path, node)


def without_target(resolver: Resolver, cache: ChunkCache | None = None) -> tuple[list[Problem], list[Problem]]:
    """Return the links and references of a file to nothing, and those that are not followed; as for `check_targets`."""
    report = Report(resolver.main.location, "links")
    check_targets(resolver, report, cache)
    return [problem for problem in report.problems if problem.kind in _TO_NOTHING], report.remarks


class _Checker:
    def __init__(self, resolver: Resolver, report: Report, cache: ChunkCache) -> None:
        self._resolver, self._report, self._cache = resolver, report, cache
        self._known: dict[tuple[Any, ...], _Problem | None] = {}
        self._specs = spec_location(resolver.main.hierarchy.root.attributes.get(SPECLOC))

    def check_links(self, path: str, node: Group) -> None:
        """Check the links of a group, each entry by itself."""
        # decoded one by one: one damaged entry must not hide the other links of the group
        entries = node.attributes.get(LINKS, [])
        names = set(node.members)
        for entry in entries if isinstance(entries, list) else [entries]:
            self._report.links += 1
            try:
                link = references.decode_links({LINKS: [entry] if isinstance(entries, list) else entries})[0]
            except MetadataError as error:
                self._report.add(path, "link-damaged", error.problem)
                continue
            link_path = join(path, link.name)
            if link.name in names:
                other = "a group or an array" if link.name in node.members else "another link"
                self._report.add(link_path, "link-damaged", f"{other} has the same name")
            names.add(link.name)
            problem = self._problem(link.target)
            if problem is not None:
                self._report.add(link_path, f"link-{problem[0]}", problem[1])

    def check_indices(self, path: str, node: Group) -> None:
        """Check that the numbers in each index of a table are in ascending order, and inside of its column."""
        store, hierarchy = self._resolver.main.store, self._resolver.main.hierarchy
        # which are reported as damaged attributes or chunks
        with suppress(MetadataError, errors.ChunkError, errors.StoreError, OSError):
            for column, index in indices_in(node, path).items():
                ends, values = (hierarchy.array(join(path, name)) for name in (index, column))
                if len(ends.stored.shape) != 1 or numpy_dtype(ends.stored.data_type).kind not in "iu":
                    continue
                rows = ChunkReader(store, join(path, index), ends.stored, self._cache).read(slice(None)).astype("i8")
                if (np.diff(rows, prepend=0) < 0).any() or (rows.size and rows[-1] > sum(values.stored.shape[:1])):
                    problem = f"its numbers are not in ascending order, or lead past the end of {column!r}"
                    self._report.add(join(path, index), "index-invalid", problem)

    def check_attributes(self, path: str, node: Node) -> None:
        """Check the attributes of a node, and the references in them."""
        values: list[Any] = []
        try:
            decode_attributes(node.attributes, resolve=values.append)
        except (MetadataError, errors.UnsupportedFileError) as error:
            self._report.problems.append(problem_of(error, path))
            return
        for value in values:
            self._add_reference(path, self._problem_of_value(value, references.decode_attribute_reference))

    def check_array(self, path: str, node: Dataset) -> None:
        """Check the references in an array."""
        if self._specs is not None and path.startswith(f"{self._specs}/"):
            return
        means = describe_any(node)
        fields = dict(means.fields if means.form == "rows" else ())
        if not any(isinstance(each, Reference) for each in (means.stored, *fields.values())) or not node.stored.size:
            return
        counts: Counter[_Problem] = Counter()  # a column has as many references as rows: one finding for each target
        store, outside, has_ranges = self._resolver.main.store, Counter[str](), "timeseries" in fields and means.axes

        def check(value: Any) -> Target:
            if (problem := self._problem_of_value(value, references.decode_reference)) is not None:
                counts[problem] += 1
            return stated_target(value) if has_ranges else Target(None)

        try:
            reader = ArrayReader(store, check, as_hdf5=False)
            reader.cache = self._cache
            content = reader.content(path, node, {}, is_spec=False)
            rows, rest = stored_rows(store, path, node), [slice(0, n) for n in (content.shape or ())[1:]]
            for row in rows if content.shape else rows[:1]:
                region = chunk_region((row,), node.stored.chunks[:1], node.stored.shape[:1])
                values = content.read((*region, *rest) if content.shape else ())
                outside += past_the_end(values, self._resolver) if has_ranges else Counter()
        except errors.ResourceError:
            raise  # the links may be right
        except errors.UnsupportedFileError as error:
            self._report.problems.append(problem_of(error, path))
        except (ZarrBackendError, OSError) as error:
            self._report.add(path, "reference-damaged", f"references cannot be read ({_message(error)})")
        counts.update({("range", f"a range of samples leads past the end of {at}"): outside[at] for at in outside})
        for problem, count in counts.items():
            self._add_reference(path, problem, count)

    def _add_reference(self, path: str, problem: _Problem | None, count: int = 1) -> None:
        if problem is not None:
            kind = "dangling" if problem[0] == "circular" else problem[0]
            self._report.add(path, f"reference-{kind}", problem[1] + (f" ({count:,} references)" if count > 1 else ""))

    def _problem_of_value(self, value: Any, decode: Callable[[Any], references.ZarrReference]) -> _Problem | None:
        self._report.references += 1
        try:
            return None if value is None else self._problem(decode(value))
        except MetadataError as error:
            return "damaged", error.problem

    def _problem(self, reference: references.ZarrReference) -> _Problem | None:
        """Return the problem with a target, None if there is none; each distinct target is looked up once."""
        # a column of a million references has a few hundred targets, and a file elsewhere takes requests to open
        key = (reference.source, reference.path, reference.object_id, reference.source_object_id)
        if key in self._known:
            return self._known[key]
        problem: _Problem | None = None
        main = self._resolver.main
        try:
            file = self._resolver.file(main, reference.source)
            _, _, node = self._resolver.find(main, reference.source, reference.node_path)
        except CircularLinkError as error:
            problem = "circular", error.problem
        except errors.LinkRefusedError as error:
            problem = "refused", error.problem
        except errors.ResourceError:
            raise  # the links may be right
        except (ZarrBackendError, OSError) as error:
            is_type = reference.source == THIS_FILE and is_named_type(main.hierarchy, reference.node_path)
            problem = None if is_type else ("dangling", _message(error))
        else:
            for what, expected, actual in (
                (f"the object at {reference.path!r}", reference.object_id, node.attributes.get("object_id")),
                (f"the file {reference.source!r}", reference.source_object_id, file.root_id),
            ):
                if expected is not None and isinstance(actual, str) and expected != actual:
                    problem = "wrong-target", f"{what} has the object_id {actual}, not {expected}"
                    break
        is_alone = self._report.dandi is not None and (problem is None or problem[0] == "refused")
        if is_alone and self._resolver.locate(main, reference.source) != main.location:
            problem = "external", f"it leads to {reference.source!r}, which an asset of the archive cannot reach"
        self._known[key] = problem
        return problem


def is_named_type(hierarchy: Hierarchy, path: str) -> bool:
    """Tell whether the target of a link or reference is a named type of HDF5, which only the note of its group has."""
    parent, name = split(path)
    group = hierarchy.get(parent)
    return group is not None and name in as_dict(hdf5_note(group).get("datatypes"))


def _message(error: BaseException) -> str:
    if isinstance(error, errors.ReferenceTargetError) and error.path is not None:
        return f"there is no {error.path!r} in {error.store!r}"
    return error.problem if isinstance(error, ZarrBackendError) else str(error)
