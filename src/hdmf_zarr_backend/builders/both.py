"""`derive`: the documents of format 3 of a file that has those of both formats, made from those of format 2.

Both formats share the chunks. Only what has another form in format 3, references and rows, is stored a second time,
below ``c/`` of its array. It is a part of the change of format 2: the commit sets ``.zmetadata``, and ``zarr.json`` of
the root follows, with the note of `formats.both`. A program that finds that the note does not fit reads format 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from hdmf_zarr_backend.builders.from_zarr import ZarrPlanner
from hdmf_zarr_backend.errors import (
    ConflictError,
    DamagedFileError,
    FormatsDifferWarning,
    LimitError,
    MetadataError,
    NestingError,
    UnsupportedFileError,
    UsageError,
    ValueRefusedError,
    ZarrBackendError,
    warn,
)
from hdmf_zarr_backend.files.parser import ParsedFile, read_documents
from hdmf_zarr_backend.formats import both, registry, zarr2, zarr3
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, Node, join, split
from hdmf_zarr_backend.model.stored import DEFAULT_PREFIX, StoredArray
from hdmf_zarr_backend.options import DEFAULT_OPTIONS, WriteOptions
from hdmf_zarr_backend.progress import SILENT
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.journal import Root
from hdmf_zarr_backend.stores.json_text import dump, load
from hdmf_zarr_backend.stores.transaction import Change, Writer
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan, adapt_plan
from hdmf_zarr_backend.write.sources import StoredChunks
from hdmf_zarr_backend.write.writer import PlanWriter

_UNFIT = (DamagedFileError, LimitError, NestingError, UnsupportedFileError, UsageError, ValueRefusedError)
"""Errors about what a file holds, and not about its store."""


@dataclass(slots=True)
class Before:
    """What is known of a change of format 2, so that only its consequences are derived.

    Attributes
    ----------
    hierarchy : Hierarchy
        The file in format 3, as it was before the change.
    touched : set of str
        Paths of the nodes that are new or have changed; what is below a new group is new.
    """

    hierarchy: Hierarchy
    touched: set[str]

    def is_changed(self, path: str) -> bool:
        """Tell whether a node may have changed."""
        if self.hierarchy.get(path) is None:
            return True
        while path and path not in self.touched:
            path = split(path)[0]
        return bool(path)


def before_change(store: Store, parsed: ParsedFile, touched: Iterable[str]) -> Before | None:
    """Return what is needed to derive a change of a file before it is made; None where all has to be derived."""
    if parsed.state != "alike":
        return None
    hierarchy = _stored(store)
    return None if hierarchy is None else Before(hierarchy, set(touched))


def _stored(store: Store) -> Hierarchy | None:
    """Return what ``zarr.json`` of the root says of a file of both formats; None where it is not readable."""
    text = store.get(zarr3.DOCUMENT)
    if text is None or b'"both"' not in text:
        return None
    try:
        found = registry.parse_consolidated({zarr3.DOCUMENT: load(text, key=zarr3.DOCUMENT)}, use_inlined=False)
    except MetadataError:
        return None
    return None if found is None else found[0]


@dataclass(slots=True, frozen=True)
class Derived:
    """What `derive` has done.

    Attributes
    ----------
    plan : WritePlan
        What was planned, as by `plan_format_3`.
    root : dict
        The document of the root, by its key, for the commit.
    is_changed : bool
        Whether `derive_all` has changed anything.
    """

    plan: WritePlan
    root: Root
    is_changed: bool = False


def derive(
    change: Change,
    hierarchy: Hierarchy,
    consolidated: bytes,
    *,
    store: Store | None = None,
    before: Before | None = None,
    is_new: bool = False,
    options: WriteOptions = DEFAULT_OPTIONS,
) -> Derived:
    """Put the documents and chunks of format 3 into a change that makes, or has made, those of format 2 complete.

    ``consolidated`` is the consolidated document of format 2, and ``store`` has its chunks, by default as the change
    has them.
    """
    store = store or change.reader
    plan = plan_format_3(store, hierarchy if before is None else _part(hierarchy, before))
    encoded = {path: array.node for path, array in plan.arrays.items()}
    old = before.hierarchy if before is not None else None if is_new else _stored(store)
    if old is not None:
        _hide_if_needed(change, old, plan.arrays)
    if before is None and not is_new:
        create_chunks(change, encoded)
    paths = [path for path, _ in plan.hierarchy.walk()]
    documents = _documents(plan.hierarchy, paths, strict=options.strict_json)
    PlanWriter(change, plan, options).write_changes(added=(), changed=())
    known = {} if before is None else _documents(before.hierarchy, paths)
    change.describe({key: text for key, text in documents.items() if known.get(key) != text})
    if not is_new:
        change.delete(keys_to_drop(store, plan.hierarchy, encoded, before))
    if before is not None:
        for path, _ in hierarchy.walk():  # the arrays that have not changed
            node = before.hierarchy.get(path)
            if plan.hierarchy.get(path) is None and node is not None:
                plan.hierarchy.add(path, node)
    return Derived(plan, {zarr3.DOCUMENT: root_text(plan.hierarchy, consolidated, strict=options.strict_json)})


def with_format_3(change: Change, plan: WritePlan, root: Root, options: WriteOptions) -> Root:
    """Add format 3 to a new file of format 2, and return the documents of the root of both."""
    consolidated = root[zarr2.CONSOLIDATED]
    assert consolidated is not None
    options = replace(options, progress=SILENT)
    return {**root, **derive(change, plan.hierarchy, consolidated, is_new=True, options=options).root}


def create_chunks(change: Change, encoded: Mapping[str, Dataset[Any]]) -> None:
    """Announce the folders of the chunks of format 3 that do not exist."""
    for path, node in encoded.items():
        if node.stored.first_chunk.startswith(f"{DEFAULT_PREFIX}/"):
            with suppress(ConflictError):
                change.create(join(path, DEFAULT_PREFIX))


def plan_in_place(store: Store, hierarchy: Hierarchy) -> WritePlan:
    """Return the plan of a file in format 3 in the place of one in format 2: all nodes, and the arrays to encode again.

    All others keep their chunks, since format 3 has the keys of format 2.
    """
    plan = ZarrPlanner(store, hierarchy, store.location, zarr_format=3, is_in_place=True).plan_file()
    adapt_plan(plan, location=store.location)
    for path, planned in list(plan.arrays.items()):
        if planned.source is None or isinstance(planned.source, StoredChunks):
            old = hierarchy.get(path)
            assert isinstance(old, Dataset)
            planned.node.stored.chunk_keys = old.stored.chunk_keys
            del plan.arrays[path]
    return plan


def plan_format_3(store: Store, hierarchy: Hierarchy) -> WritePlan:
    """Return the plan of what a file of format 2 lacks for format 3, as of `plan_in_place`."""
    plan = plan_in_place(store, hierarchy)
    for _, node in plan.hierarchy.walk():
        if isinstance(node, Dataset):
            both.use_structured(node)
    return plan


def root_text(hierarchy: Hierarchy, consolidated: bytes, *, strict: bool) -> bytes:
    """Return the ``zarr.json`` of the root of a file of both formats, with the note about its ``.zmetadata``."""
    root = registry.FORMATS[3].last(hierarchy, {}, consolidate=True)[zarr3.DOCUMENT]
    return both.sealed(dump(both.with_note(root, consolidated), strict=strict))


def _part(hierarchy: Hierarchy, before: Before) -> Hierarchy:
    """Return all groups, and the arrays that may have changed."""
    part = Hierarchy(Group(), hierarchy.zarr_format)
    for path, node in hierarchy.walk():
        if isinstance(node, Group):
            part.add(path, Group(node.attributes))
        elif before.is_changed(path):
            part.add(path, node)
    return part


def _documents(hierarchy: Hierarchy, paths: Iterable[str], *, strict: bool = False) -> dict[str, bytes]:
    """Return ``{key: text}`` of the documents of those ``paths`` that exist."""
    nodes = [(path, hierarchy.get(path)) for path in paths]
    documents = (registry.FORMATS[3].documents(path, node) for path, node in nodes if node is not None)
    return {key: dump(document, strict=strict) for some in documents for key, document in some}


def _hide_if_needed(change: Change, before: Hierarchy, arrays: Mapping[str, PlannedArray]) -> None:
    """Let the root show nothing to readers of format 3, if chunks get another form than its documents say."""
    texts: dict[str, bytes] = {}
    for path, planned in arrays.items():
        old = before.get(path)
        if isinstance(old, Dataset):
            planned.old_shape = old.stored.shape
            if _form(path, old) != _form(path, planned.node):
                texts |= {key: dump(document) for key, document in registry.FORMATS[3].documents(path, planned.node)}
    if texts:
        change.hide({zarr3.DOCUMENT: both.sealed(dump(both.hiding_document()))}, texts)


def _form(path: str, node: Node) -> list[Any]:
    """Return what the document of an array says of its chunks."""
    (_, document), *_ = registry.FORMATS[3].documents(path, node)
    return [document[key] for key in ("data_type", "chunk_grid", "chunk_key_encoding", "codecs")]


def keys_to_drop(
    store: Store, hierarchy: Hierarchy, encoded: Mapping[str, Dataset[Any]], before: Before | None = None
) -> list[str]:
    """Return chunks of format 3 outside of their arrays, and documents of nodes that are not in the file any more."""
    gone: list[str] = []
    for path, node in encoded.items():
        stored = store.list_prefix(join(path, DEFAULT_PREFIX))
        gone += [key for key in stored if not _is_chunk(key[len(path) + 1 :], node.stored)]
    if before is None:
        there = [key for key in store.list_documents() if split(key)[1] == zarr3.DOCUMENT]
        gone += [key for key in there if hierarchy.get(split(key)[0]) is None]
    return gone


def _is_chunk(name: str, stored: StoredArray) -> bool:
    grid = stored.grid[: len(stored.stored_shape)]
    index = stored.chunk_keys.index(name, len(grid))
    return index is not None and all(i < n for i, n in zip(index, grid, strict=True))


def derive_all(writer: Writer, parsed: ParsedFile, options: WriteOptions = DEFAULT_OPTIONS) -> Derived:
    """Derive all of format 3 of a file whose format 2 is complete, in a change of its own, and update its state.

    If that fails, format 3 is what it was. The error says so, unless it is about what the file holds.
    """
    is_alike, parsed.state = parsed.state == "alike", "2 is newer"
    try:
        with writer.change(root=[zarr3.DOCUMENT]) as change:
            text = writer.store.get(zarr2.CONSOLIDATED) or b""
            derived = derive(change, parsed.hierarchy, text, store=parsed.store(change.reader), options=options)
            is_same = is_alike and writer.store.get_many(derived.root) == derived.root
            count = change.commit({}, {} if is_same else derived.root)
    except _UNFIT:
        raise
    except BaseException as error:
        writer.is_outdated = True  # the caller may take the file for the one before its change of format 2
        if isinstance(error, ZarrBackendError):
            error.problem += "; Zarr format 2 is complete, and `zarrio repair` updates format 3"
        raise
    parsed.state = "alike"
    return replace(derived, is_changed=count > 0)


def make_alike(writer: Writer, parsed: ParsedFile, options: WriteOptions = DEFAULT_OPTIONS) -> None:
    """Do what `derive_all` does; warn if the file holds something that cannot be in format 3."""
    try:
        derive_all(writer, parsed, options)
    except _UNFIT as error:
        what = (
            f"{writer.store.location}: the change is written in Zarr format 2, and could not be in format 3 "
            f"({error}); `zarrio repair` updates format 3"
        )
        notes = getattr(error, "__notes__", [])  # that it could not be undone
        warn(". ".join([what, *notes]), FormatsDifferWarning, stacklevel=4)


def check_derivable(store: Store, state: both.State | None) -> None:
    """Refuse to change a file of both formats whose documents of format 3 are newer, which would be lost."""
    if state in ("3 is newer", "both are newer"):
        raise ConflictError(
            "the metadata of Zarr format 3 were changed by a program that does not know those of format 2",
            store=store.location,
            remedy="Keep those of format 3 with `zarrio upgrade --drop 2`, or those of format 2 with `--drop 3`.",
        )


def keys_of_format_3(store: Store) -> tuple[list[str], list[str]]:
    """Return the keys of the documents of format 3, that of the root first, and of the chunks that only they name."""
    texts = read_documents(store, {zarr3.DOCUMENT})
    paths = {split(key)[0] for key, text in texts.items() if b'"array"' in text and _has_own_chunks(text, key)}
    chunks = [key for path in sorted(paths) for key in store.list_prefix(join(path, "c"))]
    return sorted(texts, key=len), chunks


def _has_own_chunks(text: bytes, key: str) -> bool:
    try:
        node = zarr3.parse_node(load(text, key=key), split(key)[0])
    except MetadataError:
        return True
    return isinstance(node, Dataset) and node.stored.chunk_keys.encoding == "default"
