"""`derive`: the documents of format 3 of a file that has those of both formats, made from those of format 2.

Both formats share the chunks. Only what has another form in format 3, references and rows, is stored a second time,
below ``c/`` of its array. Documents and chunks of format 3 come first, and ``zarr.json`` of the root comes last, with
the note of `formats.both`. A program that finds that the note does not fit reads format 2 and derives it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias

import numpy as np

from hdmf_zarr_backend.builders.from_zarr import ZarrPlanner
from hdmf_zarr_backend.changes.journal import Journal, undone_on_error
from hdmf_zarr_backend.errors import (
    ConflictError,
    FormatsDifferWarning,
    MetadataError,
    UsageError,
    ZarrBackendError,
    warn,
)
from hdmf_zarr_backend.files.parser import ParsedFile, read_documents
from hdmf_zarr_backend.formats import both, registry, zarr2, zarr3
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, Node, join, split
from hdmf_zarr_backend.model.stored import DEFAULT_PREFIX, StoredArray
from hdmf_zarr_backend.options import DEFAULT_OPTIONS, WriteOptions
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import dump, load
from hdmf_zarr_backend.stores.wrappers import WrapperStore
from hdmf_zarr_backend.transfer.plan import PlannedArray, WritePlan, adapt_plan
from hdmf_zarr_backend.transfer.stored_sources import StoredChunks
from hdmf_zarr_backend.transfer.writer import Writer

Fate: TypeAlias = Literal["kept", "moved", "encoded"]
"""Whether the chunks of an array stay, get other keys, or are encoded again."""


def has_stored_chunks(planned: PlannedArray) -> bool:
    """Tell whether the chunks of a planned array are those of a stored one, or there are none."""
    return planned.source is None or isinstance(planned.source, StoredChunks)


def keep_chunks(plan: WritePlan, hierarchy: Hierarchy, *, encoded: Collection[str] = ()) -> dict[str, Fate]:
    """Let the arrays of a plan keep the chunks whose keys and bytes are the same."""
    fates: dict[str, Fate] = {}
    for path, planned in list(plan.arrays.items()):
        old, node = hierarchy.get(path), planned.node
        assert isinstance(old, Dataset)
        # format 3 has both encodings of keys
        has_keys = plan.hierarchy.zarr_format == 3 or old.stored.chunk_keys.encoding == "v2"
        if path in encoded or not has_stored_chunks(planned):
            fates[path] = "encoded"
        elif has_keys and node.stored.shards is None and old.stored.shards is None:
            fates[path] = "kept"
            node.stored.chunk_keys = old.stored.chunk_keys
            del plan.arrays[path]
        else:
            fates[path] = "moved"
    return fates


@dataclass(slots=True)
class Change:
    """What is known of a change of format 2, so that only its consequences are derived.

    Attributes
    ----------
    before : Hierarchy
        The file in format 3, as it was before the change.
    touched : set of str
        Paths of the nodes that are new or have changed; what is below a new group is new.
    """

    before: Hierarchy
    touched: set[str]

    def has(self, path: str) -> bool:
        """Tell whether a node may have changed."""
        if self.before.get(path) is None:
            return True
        while path and path not in self.touched:
            path = split(path)[0]
        return bool(path)


def change_of(store: Store, parsed: ParsedFile, touched: Iterable[str]) -> Change | None:
    """Return what is needed to derive a change of a file before it is made; None where all has to be derived."""
    if parsed.state != "alike":
        return None
    text = store.get(zarr3.DOCUMENT)
    if text is None or b'"both"' not in text:
        return None
    try:
        found = registry.parse_consolidated({zarr3.DOCUMENT: load(text, key=zarr3.DOCUMENT)}, use_inlined=False)
    except MetadataError:
        return None
    return None if found is None else Change(found[0], set(touched))


@dataclass(slots=True, frozen=True)
class Derived:
    """What `derive` has done.

    Attributes
    ----------
    fates : dict
        ``{path: fate}`` of the arrays that were planned.
    changed : int
        Keys that were set or deleted.
    """

    fates: dict[str, Fate]
    changed: int


def derive(
    store: Store,
    hierarchy: Hierarchy,
    *,
    change: Change | None = None,
    journal: Journal | None = None,
    is_new: bool = False,
    options: WriteOptions = DEFAULT_OPTIONS,
) -> Derived:
    """Set the documents and chunks of format 3 of a file whose documents of format 2 are complete."""
    with nullcontext() if journal is None else undone_on_error(journal):
        return _derive(store, hierarchy, change, journal, is_new=is_new, options=options)


def _derive(
    store: Store,
    hierarchy: Hierarchy,
    change: Change | None,
    journal: Journal | None,
    *,
    is_new: bool,
    options: WriteOptions,
) -> Derived:
    consolidated = store.get(zarr2.CONSOLIDATED)
    if consolidated is None:
        raise UsageError("there is no consolidated document", store=store.location, remedy="Run `zarrio consolidate`.")
    planned = hierarchy if change is None else _part(hierarchy, change)
    plan, fates = plan_format_3(store, planned)
    paths = [path for path, _ in plan.hierarchy.walk()]
    encoded = {path: array.node for path, array in plan.arrays.items()}
    if change is not None:
        _hide_if_needed(store, change.before, encoded)
    before = None
    if change is None and journal is not None and options.executor in (None, "auto"):
        before = partial(record_format_3, store, journal, paths, encoded)  # nothing may differ
    elif change is None and journal is not None:  # other processes cannot record anything
        record_format_3(store, journal, paths, encoded)
    target = ChangedKeys(store, {} if is_new else _documents(change, paths), is_empty=is_new, before=before)
    writer = Writer(target, plan, options)
    writer.write_changes(added=(), changed=paths, keep=_keep_nothing)
    if change is not None:
        _add_others(plan.hierarchy, hierarchy, change.before)
    store.drain()
    text = root_text(plan.hierarchy, consolidated, strict=options.strict_json)
    if journal is None:
        target.set(zarr3.DOCUMENT, text)
        return Derived(fates, target.count)
    rest = _rest(store, plan.hierarchy, encoded, change)
    root = {} if store.get(zarr3.DOCUMENT) == text else {zarr3.DOCUMENT: text}
    journal.discard(rest)
    journal.commit(root)
    return Derived(fates, target.count + len(root) + len(rest))


def plan_format_3(store: Store, hierarchy: Hierarchy) -> tuple[WritePlan, dict[str, Fate]]:
    """Return the plan of what a file of format 2 lacks for format 3, and the fates of its arrays, as of `keep_chunks`.

    The plan has all nodes, and the arrays whose chunks have another form in format 3.
    """
    plan = ZarrPlanner(store, hierarchy, store.location, zarr_format=3, is_in_place=True).plan_file()
    adapt_plan(plan, location=store.location)
    fates = keep_chunks(plan, hierarchy)
    for _, node in plan.hierarchy.walk():
        if isinstance(node, Dataset):
            both.use_structured(node)
    return plan, fates


def root_text(hierarchy: Hierarchy, consolidated: bytes, *, strict: bool) -> bytes:
    """Return the ``zarr.json`` of the root of a file of both formats, with the note about its ``.zmetadata``."""
    root = registry.FORMATS[3].last(hierarchy, {}, consolidate=True)[zarr3.DOCUMENT]
    return both.sealed(dump(both.with_note(root, consolidated), strict=strict))


def _keep_nothing(keys: Iterable[str]) -> None:
    """Record nothing: what is interrupted is derived again."""


def _part(hierarchy: Hierarchy, change: Change) -> Hierarchy:
    """Return all groups, and the arrays that may have changed."""
    part = Hierarchy(Group(), hierarchy.zarr_format)
    for path, node in hierarchy.walk():
        if isinstance(node, Group):
            part.add(path, Group(node.attributes))
        elif change.has(path):
            part.add(path, node)
    return part


def _add_others(made: Hierarchy, hierarchy: Hierarchy, before: Hierarchy) -> None:
    """Add the arrays that have not changed."""
    for path, _ in hierarchy.walk():
        node = before.get(path)
        if made.get(path) is None and node is not None:
            made.add(path, node)


def _documents(change: Change | None, paths: Iterable[str]) -> dict[str, bytes]:
    """Return ``{key: text}`` of the documents before a change."""
    if change is None:
        return {}
    nodes = [(path, change.before.get(path)) for path in paths]
    documents = (registry.FORMATS[3].documents(path, node) for path, node in nodes if node is not None)
    return {key: dump(document) for some in documents for key, document in some}


def _hide_if_needed(store: Store, before: Hierarchy, encoded: dict[str, Dataset[Any]]) -> None:
    """Let the root show nothing to readers of format 3, if chunks get another form than its documents say."""
    for path, node in encoded.items():
        old = before.get(path)
        if isinstance(old, Dataset) and _form(path, old) != _form(path, node):
            store.set(zarr3.DOCUMENT, both.sealed(dump(both.hiding_document())))
            store.drain()
            return


def _form(path: str, node: Node) -> list[Any]:
    """Return what the document of an array says of its chunks."""
    (_, document), *_ = registry.FORMATS[3].documents(path, node)
    return [document[key] for key in ("data_type", "chunk_grid", "chunk_key_encoding", "codecs")]


def record_format_3(store: Store, journal: Journal, paths: Iterable[str], encoded: dict[str, Dataset[Any]]) -> None:
    """Record the state of the documents and chunks of format 3, most of which do not exist, in one put."""
    names, folders = [zarr3.key_of(path) for path in paths], []
    for path, node in encoded.items():
        stored, folder = node.stored, join(path, DEFAULT_PREFIX)
        has_folder = stored.chunk_name((0,) * len(stored.shape)).startswith(f"{DEFAULT_PREFIX}/")
        if has_folder and next(store.list_prefix(folder), None) is None:
            folders.append(folder)
        else:
            names += [join(path, stored.chunk_name(index)) for index in np.ndindex(*stored.grid)]
    journal.keep(names, below=folders)


def _rest(store: Store, hierarchy: Hierarchy, encoded: dict[str, Dataset[Any]], change: Change | None) -> list[str]:
    """Return chunks of format 3 outside of their arrays, and documents of nodes that are not in the file any more."""
    gone: list[str] = []
    for path, node in encoded.items():
        stored = store.list_prefix(join(path, DEFAULT_PREFIX))
        gone += [key for key in stored if not _is_chunk(key[len(path) + 1 :], node.stored)]
    if change is None:
        there = [key for key in store.list_documents() if split(key)[1] == zarr3.DOCUMENT]
        gone += [key for key in there if hierarchy.get(split(key)[0]) is None]
    return gone


def _is_chunk(name: str, stored: StoredArray) -> bool:
    grid = stored.grid[: len(stored.stored_shape)]
    index = stored.chunk_keys.index(name, len(grid))
    return index is not None and all(i < n for i, n in zip(index, grid, strict=True))


def derive_or_warn(
    store: Store, parsed: ParsedFile, change: Change | None, journal: Journal, options: WriteOptions = DEFAULT_OPTIONS
) -> None:
    """Derive a change that is committed in format 2; if that fails, warn, since the change is in the file.

    The state of ``parsed``, which is the file as it is now, is updated.
    """
    parsed.state = "2 is newer"
    try:
        here = WriteOptions(strict_json=options.strict_json)
        derive(store, parsed.hierarchy, change=change, journal=journal, options=here)
    except (ZarrBackendError, OSError) as error:
        store.abandon()
        warn(
            f"{store.location}: the change is written in Zarr format 2, and could not be in format 3 ({error}); "
            "`zarrio repair` updates format 3",
            FormatsDifferWarning,
            stacklevel=4,
        )
        return
    parsed.state = "alike"


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


class ChangedKeys(WrapperStore):
    """A store that does not set a key to the value that it has.

    Attributes
    ----------
    count : int
        How many keys were set.
    """

    def __init__(
        self, store: Store, known: dict[str, bytes], *, is_empty: bool, before: Callable[[], None] | None = None
    ) -> None:
        super().__init__(store)
        self._before = before
        self._known = known
        self._is_empty = is_empty
        self.count = 0

    def set(self, key: str, value: bytes) -> None:
        """Set ``key`` if its value is another one."""
        there = self._known.get(key)
        if there is None and not self._is_empty:
            there = self.store.get(key)
        if there != value:
            if self._before is not None:
                self._before()
                self._before = None
            self.count += 1
            self.store.set(key, value)
