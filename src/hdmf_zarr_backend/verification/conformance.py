"""`conformance`: a store against each demand of the specification of Zarr format 2.

`verify` asks whether a file is whole; this asks whether every reader of Zarr must understand it. Nothing is assumed:
documents are read as bytes, and what the listing of the store says is there counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

from hdmf_zarr_backend.arrays.chunks import ChunkCache, ChunkReader
from hdmf_zarr_backend.errors import MetadataError, NotZarrError, StoreNotFoundError, UsageError, ZarrBackendError
from hdmf_zarr_backend.execution.executors import Runner, runner
from hdmf_zarr_backend.execution.tasks import MEMORY_BUDGET
from hdmf_zarr_backend.files.parser import check_keys
from hdmf_zarr_backend.formats import zarr2, zarr3
from hdmf_zarr_backend.model.nodes import ArrayNode, Attributes, absolute, join, split
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.limits import Limits, ReadRules
from hdmf_zarr_backend.stores.opening import open_store
from hdmf_zarr_backend.verification.chunks import DecodeTask
from hdmf_zarr_backend.verification.conformance_documents import document_findings, parse_document
from hdmf_zarr_backend.verification.conformance_rules import ConformanceReport
from hdmf_zarr_backend.verification.stored import StoredObjects

_DOCUMENTS = zarr2.DOCUMENT_NAMES | {zarr2.CONSOLIDATED}
_BATCH = 10_000
_DAMAGED = "chunk-damaged"


def conformance(
    source: str | os.PathLike[str] | Any,
    *,
    decode: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    executor: Any = None,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = SILENT,
) -> ConformanceReport:
    """Hold a store of Zarr format 2 against its specification. Nothing is changed.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The store: a file, any other hierarchy, or a single array.
    decode : bool
        Decode each chunk to see whether it is of full size; False: look at documents and keys alone.
    storage_options : dict, optional
        For URLs.
    limits : Limits, optional
        How much the store may ask for.
    executor : None, "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
        Who decodes chunks; None: this thread.
    memory_budget : int
        Bytes of values that may be in flight.
    progress : Progress
        Is told of the bytes of the values that were decoded.

    Returns
    -------
    ConformanceReport
        ``violations`` of rules, and ``remarks`` where a rule says why a finding may stay.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        There is no Zarr store.
    UsageError
        It is one of format 3, or the server cannot list what it has.
    LimitError
        There is more metadata than the limits allow.

    Source: Zarr v2 specification; issue "Open to every other tool", part 6.
    """
    keys = open_store(source, storage_options)
    keys.read_rules = ReadRules(limits=limits or Limits())
    report = ConformanceReport(keys.location)
    try:
        check = _Check(keys, report)
        check.documents()
        check.hierarchy()
        with runner(executor) as who:
            check.chunks(who if decode else None, memory_budget=memory_budget, progress=progress)
    except ZarrBackendError as error:
        raise error.located(store=keys.location) from error.__cause__
    return report


class _Check:
    def __init__(self, keys: Store, report: ConformanceReport) -> None:
        self._keys = keys
        self._report = report
        self._sizes = _listed(keys)
        self._documents = {key for key in self._sizes if split(key)[1] in _DOCUMENTS}
        self._arrays: dict[str, ArrayNode[Attributes] | None] = {}
        self._groups: set[str] = set()

    # ---- documents --------------------------------------------------------------------------------------------------

    def documents(self) -> None:
        """Look at the key and at the value of each document."""
        good = [key for key in sorted(self._documents) if self._is_path(key)]
        limits = self._keys.read_rules.limits
        check_keys(dict.fromkeys(good), limits)
        size = sum(self._sizes[key] for key in good)
        limits.check("max_document_bytes", size, f"the metadata documents have {size:,} bytes")
        for start in range(0, len(good), _BATCH):
            for key, text in self._keys.get_many(good[start : start + _BATCH]).items():
                self._document(key, text)
        self._report.groups, self._report.arrays = len(self._groups), len(self._arrays)

    def _is_path(self, key: str) -> bool:
        """Look at the path in a key, and tell whether there may be a node."""
        found = dict(_path_findings(key))
        for rule, message in found.items():
            self._report.add(rule, key, message)
        return not found.keys() - {"ascii-key"}

    def _document(self, key: str, text: bytes) -> None:
        path, name = split(key)
        if name == zarr2.ARRAY:
            self._arrays[path] = None
        elif name == zarr2.GROUP:
            self._groups.add(path)
        try:
            document, tokens = parse_document(text)
        except (ValueError, RecursionError) as error:
            self._report.add("json", key, f"it does not parse ({type(error).__name__}: {error})")
            return
        if tokens:
            self._report.add("json-numbers", key, f"there is {', '.join(dict.fromkeys(tokens))}")
        if name == zarr2.CONSOLIDATED:
            return
        for rule, message in document_findings(name, document):
            self._report.add(rule, key, message)
        if name == zarr2.ARRAY:
            with suppress(MetadataError):  # what is wrong with it has been said
                self._arrays[path] = zarr2.parse_array(document, {}, path)

    # ---- the hierarchy ----------------------------------------------------------------------------------------------

    def hierarchy(self) -> None:
        """Look at what is above each node, and beside it."""
        missing: set[str] = set()
        for path in sorted(self._groups | self._arrays.keys()):
            above = path
            while above:
                above = split(above)[0]
                if above in self._arrays:
                    key = zarr2.key_of(path, zarr2.ARRAY if path in self._arrays else zarr2.GROUP)
                    self._report.add("array-members", key, f"it is inside of the array {absolute(above)!r}")
                if above in self._groups or above in self._arrays or above in missing:
                    break  # what is above that is looked at with it
                missing.add(above)
        for path in sorted(missing):
            self._report.add("group-ancestors", zarr2.key_of(path, zarr2.GROUP), "members are there, and this is not")
        for path in sorted(self._groups & self._arrays.keys()):
            self._report.add("one-kind", zarr2.key_of(path, zarr2.GROUP), "there is .zarray as well")

    # ---- chunks -----------------------------------------------------------------------------------------------------

    def chunks(self, who: Runner | None, *, memory_budget: int, progress: Progress) -> None:
        """Look at the keys of all chunks, and decode them if there is somebody who does that."""
        tasks = self._tasks()
        if who is None:
            self._report.chunks = sum(1 for _ in tasks)
            return
        progress.start(0)
        for task, found in who.run(tasks, memory_budget=memory_budget):
            assert isinstance(task, DecodeTask)
            for kind, message in found.problems:
                if kind == _DAMAGED:
                    key = join(task.path, task.node.chunk_name(task.indices[0]))
                    self._report.add("chunk-size", key, message)
                else:
                    self._report.undecoded.setdefault(absolute(task.path), message)
            self._report.chunks += 1
            progress.advance(absolute(task.path), found.done)
        progress.finish()

    def _tasks(self) -> Iterator[DecodeTask]:
        names = self._names()
        for path in sorted(self._arrays):
            node = self._arrays[path]
            if node is None:
                continue
            found, unknown = StoredObjects(node).sort(names.get(path, ()))
            for name in unknown:
                self._report.add("chunk-key", join(path, name), f"it is no chunk of the grid {node.grid}")
            try:
                ChunkReader(self._keys, path, node, ChunkCache(0))
            except ZarrBackendError as error:
                self._report.undecoded[absolute(path)] = error.problem
                self._report.chunks += len(found)
                continue
            for index in sorted(found):
                yield DecodeTask(self._keys, path, node, [index])

    def _names(self) -> dict[str, list[str]]:
        """Return, for each array, the names of what is stored below it."""
        found: dict[str, list[str]] = {}
        owners: dict[str, str | None] = {}
        for key in self._sizes:
            folder, name = split(key)
            if name in _DOCUMENTS:
                continue
            if folder not in owners:
                owners[folder] = _owner(folder, self._arrays)
            owner = owners[folder]
            if owner is not None:
                found.setdefault(owner, []).append(key[len(owner) + 1 if owner else 0 :])
        return found


def _listed(keys: Store) -> dict[str, int]:
    """Return ``{key: bytes}`` of a whole store of format 2."""
    if not keys.abilities.listing:
        raise UsageError(
            "this server cannot list what it has",
            store=keys.location,
            remedy="Look at a copy on a disk, where all keys can be found.",
        )
    if not keys.exists():
        raise StoreNotFoundError("nothing is there", store=keys.location, remedy="Check the path.")
    found = keys.sizes("")
    names = {split(key)[1] for key in found}
    if names & {zarr2.GROUP, zarr2.ARRAY}:
        return found
    if zarr3.DOCUMENT in names:
        raise UsageError(
            "this is of Zarr format 3, and the rules are those of format 2",
            store=keys.location,
            remedy="Use `zarrio verify` without --spec.",
        )
    raise NotZarrError(
        "this is no Zarr hierarchy: it has neither .zgroup nor .zarray",
        store=keys.location,
        remedy="HDF5 files are converted with `zarrio convert`.",
    )


def _path_findings(key: str) -> Iterator[tuple[str, str]]:
    path = key[: -len(split(key)[1])]
    if not key.isascii():
        yield "ascii-key", "it has other characters"
    if not path:
        return
    parts = path[:-1].split("/")
    if "\\" in path or "" in parts:
        yield "normal-path", "its path is not written as it is to be"
    if not {".", ".."}.isdisjoint(parts):
        yield "no-dots", 'a part of its path is "." or ".."'


def _owner(folder: str, arrays: Collection[str]) -> str | None:
    """Return the array that what is in ``folder`` belongs to, None where there is none."""
    while folder not in arrays:
        if not folder:
            return None
        folder = split(folder)[0]
    return folder
