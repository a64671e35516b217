"""`upgrade`: converts a file of Zarr format 2 to format 3, or to both formats, in place.

Source: docs/format, "Both formats in one file".
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from hdmf_zarr_backend.array.chunks import check_unwritten
from hdmf_zarr_backend.check.repair import chunks_to_inline, consolidated
from hdmf_zarr_backend.encoding import registry, zarr2, zarr3
from hdmf_zarr_backend.encoding.parser import ParsedFile, check_not_lost, parse
from hdmf_zarr_backend.errors import ConflictError, ReadOnlyStoreError, UsageError, known_arguments, printable
from hdmf_zarr_backend.hdmf import from_zarr
from hdmf_zarr_backend.model.nodes import ChunkKeys, Dataset, Hierarchy, absolute, split
from hdmf_zarr_backend.model.render import counted, few
from hdmf_zarr_backend.options import WriteOptions
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.journal import Root, warn_of_pending
from hdmf_zarr_backend.store.opening import FileSource, open_store
from hdmf_zarr_backend.store.transaction import Change, open_for_writing
from hdmf_zarr_backend.write.plan import WritePlan
from hdmf_zarr_backend.write.writer import PlanWriter

_OLD = frozenset({*zarr2.DOCUMENT_NAMES, zarr2.CONSOLIDATED})
_OLD_ROOT = (zarr2.CONSOLIDATED, zarr2.GROUP, zarr2.ATTRIBUTES)
_OLD_CHUNK = re.compile(r"[0-9]+(?:[./][0-9]+)*")


@dataclass(slots=True, frozen=True)
class UpgradeReport:
    """The result of an upgrade.

    Attributes
    ----------
    location : str
        Absolute path or URL of the file.
    kept, encoded : int
        Number of arrays with unchanged chunks, and of arrays whose chunks were encoded again.
    removed : int
        Number of deleted keys of the removed format.
    formats : tuple of int
        The Zarr formats of the file after the upgrade.
    encoded_arrays : tuple of str
        Paths of the arrays whose chunks were encoded again.
    dry_run : bool
        Nothing was changed: the report is about what an upgrade would do.
    """

    location: str
    kept: int = 0
    encoded: int = 0
    removed: int = 0
    formats: tuple[int, ...] = (3,)
    encoded_arrays: tuple[str, ...] = ()
    dry_run: bool = False

    def __str__(self) -> str:
        number = "formats 2 and 3" if len(self.formats) > 1 else f"format {self.formats[0]}"
        parts = []
        if self.kept or self.encoded:
            arrays = f" ({printable(few(self.encoded_arrays, count=self.encoded))})" if self.encoded else ""
            parts += [f"{counted(self.kept, 'array')} unchanged", f"{self.encoded:,} encoded again{arrays}"]
        if self.removed:
            parts.append(f"{counted(self.removed, 'key')} of format {5 - self.formats[0]} removed")
        if not parts:
            return f"Zarr {number} already"
        return f"{f'would have Zarr {number}' if self.dry_run else f'Zarr {number} now'}: {', '.join(parts)}"


@known_arguments
def upgrade(
    source: FileSource,
    *,
    keep: bool = False,
    drop: Literal[2, 3] | None = None,
    dry_run: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    write_options: WriteOptions | None = None,
) -> UpgradeReport:
    """Convert a file of Zarr format 2 to format 3, or to both, in place. Chunks stay if their codecs allow it.

    Numbers, text and booleans stay, with any compressor. References, rows with text or references, and arrays that
    hdmf-zarr up to 0.13 stored as pickles or as bytes are encoded again.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        A file that no other program has open; another writer causes an error.
    keep : bool
        Keep the metadata of format 2, so that the file has both formats.
    drop : {2, 3}, optional
        The format to remove from a file of both formats. 3: the file has only format 2 again.
    dry_run : bool
        Change nothing, and return a report about what would change.
    storage_options : mapping, optional
        Options for URLs, with the names of fsspec or obstore.
    write_options : WriteOptions, optional
        ``executor``, ``memory_budget`` and ``progress`` are for the chunks that are encoded again. With
        ``chunk_key_encoding="v2"`` all chunk keys have one level, which keeps deep files within DANDI's limit. Chunks
        that stay have such keys already; those that are encoded again get ``c.0.0``, because the file keeps its old
        chunks under ``0.0`` until the end.

    Returns
    -------
    UpgradeReport
        A file that already has the requested format is not changed, apart from removing keys of an interrupted upgrade.

    Raises
    ------
    StoreNotFoundError, NotZarrError, IncompleteStoreError, MetadataError
        No Zarr file exists there, or it is not complete.
    StoreLockedError
        Another writer has the file open.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    UsageError
        ``keep`` and ``drop`` are both given; ``drop`` is 3 and the file does not have both formats; or ``keep`` is True
        and the file has format 3 only, because format 2 cannot name its chunks.
    ConflictError
        The consolidated document differs from the documents of the nodes, or both formats were changed independently.
        Nothing is changed.
    DamagedFileError
        A chunk that must be encoded again cannot be read. The file is unchanged.

    Warns
    -----
    JournalWarning
        A change of the file was interrupted. An upgrade undoes or completes it first; ``dry_run`` leaves it pending.

    Notes
    -----
    Until the last new key is set the file has format 2; from then on it has format 3, and the old documents are
    deleted. If the process is killed, the next writer, or `repair`, undoes or completes the change.

    Examples
    --------
    >>> from hdmf_zarr_backend import upgrade
    >>> report = upgrade("session.nwb.zarr", keep=True)  # both formats
    """
    if drop not in (None, 2, 3) or (keep and drop is not None):
        remedy, cli = "Give keep=True, drop=2 or drop=3.", "Give --keep, --drop 2 or --drop 3."
        raise UsageError(f"keep={keep!r} and drop={drop!r} cannot be combined", remedy=remedy, remedy_cli=cli)
    options = write_options or WriteOptions()
    options.check_used("upgrade", "executor", "memory_budget", "progress", "chunk_key_encoding")
    store = open_store(source, storage_options)
    abilities = store.abilities
    if not (abilities.change and abilities.listing and 3 in abilities.formats):
        problem = f"{abilities.why or 'this store cannot list its keys'}: the file cannot be upgraded in place"
        remedy = "Convert it to a new file with `zarrio convert --zarr-format 3`."
        raise ReadOnlyStoreError(problem, store=store.location, remedy=remedy)
    if dry_run:
        warn_of_pending(store)
        report = _upgrade(store, parse(store, use_consolidated=False), None, options, keep=keep, drop=drop)
        return replace(report, dry_run=True)
    with open_for_writing(store) as writer:
        parsed = parse(store, use_consolidated=False)
        plan: WritePlan | None = None
        if parsed.state == "2 is newer":
            check_not_lost(store, parsed.hierarchy, parsed.state)
            # format 3 stays, so it first becomes what format 2 says, in a change of its own
            if not keep and drop != 3:
                plan, _ = from_zarr.derive_all(writer, parsed, options)
        with writer.change(root=registry.FIRST_KEYS) as change:
            report = _upgrade(store, parsed, change, options, keep=keep, drop=drop)
        return report if plan is None else _report(store, plan, report.removed)


def _upgrade(
    store: Store, parsed: ParsedFile, change: Change | None, options: WriteOptions, *, keep: bool, drop: int | None
) -> UpgradeReport:
    """Upgrade a file; without a change, check everything and change nothing."""
    if drop == 3:
        if parsed.state is None and parsed.zarr_format == 3:
            remedy = "Make a file of format 2 with `zarrio convert --zarr-format 2`."
            raise UsageError("the file has Zarr format 3 only", store=store.location, remedy=remedy)
        documents, chunks = from_zarr.keys_of_format_3(store)
        if change is not None:
            # with the commit, so that readers see either format; another program may have deleted it already
            root = [key for key in documents if key == zarr3.DOCUMENT]
            change.delete([*chunks, *(key for key in documents if key not in root)])
            change.commit({}, dict.fromkeys(root))
        return UpgradeReport(store.location, removed=len(documents) + len(chunks), formats=(2,))
    if keep:
        return _with_both(store, parsed, change, options)
    if drop == 2 and parsed.zarr_format == 2 and parsed.state is None:
        remedy, cli = (f"Leave {option} out, to convert it to format 3." for option in ("drop=", "--drop"))
        raise UsageError("the file has Zarr format 2 only", store=store.location, remedy=remedy, remedy_cli=cli)
    if parsed.state is not None:
        return _without_format_2(store, parsed, change)
    if parsed.zarr_format == 2:
        return _from_format_2(store, parsed.hierarchy, change, options)
    return UpgradeReport(store.location, removed=_replace_format_2(store, parsed.hierarchy, change, {}))


def _from_format_2(store: Store, hierarchy: Hierarchy, change: Change | None, options: WriteOptions) -> UpgradeReport:
    """Put the documents and chunks of format 3 beside those of format 2, and commit: the latter are deleted then."""
    _check_consolidated(store, hierarchy)
    # chunks that are encoded again must exist: a missing one would become fill values
    store.read_rules = replace(store.read_rules, is_copied=True)
    plan = from_zarr.plan_in_place(store, hierarchy)
    for path, planned in plan.arrays.items():
        check_unwritten(store, path, hierarchy.array(path).stored)
        planned.node.stored.chunk_keys = ChunkKeys("default", "." if options.chunk_key_encoding == "v2" else "/")
    root: Root = {}
    if change is not None:
        from_zarr.create_chunks(change, plan)
        writer = PlanWriter(change, plan, options)
        writer.inlined.update(chunks_to_inline(store, plan.hierarchy, but=plan.arrays))
        root = writer.write()
        change.delete(from_zarr.keys_to_drop(store, plan))
    return _report(store, plan, _replace_format_2(store, plan.hierarchy, change, root))


def _replace_format_2(store: Store, hierarchy: Hierarchy, change: Change | None, root: Root) -> int:
    """Commit the root of format 3, and delete format 2, its root with the commit; return how many keys."""
    # the consolidated one is not a document of a node, so some stores do not list it
    listed = [*store.list_documents(), *store.get_many([zarr2.CONSOLIDATED])]
    documents = {key for key in listed if split(key)[1] in _OLD}
    unknown = sorted({split(key)[0] for key in documents if hierarchy.get(split(key)[0]) is None})
    if unknown:
        problem = f"{counted(len(unknown), 'node')} in format 2 only: {few(list(map(absolute, unknown)))}"
        remedy = "Move zarr.json of the root away to get the file of format 2, and upgrade that."
        raise ConflictError(problem, store=store.location, remedy=remedy)
    # Chunks that were encoded again have keys of format 3 (c/0/0), and the old ones (0.0) are read by format 2 only.
    # The keys of all others have not changed, and both formats use them.
    keys: list[str] = []
    for key in sorted(documents):
        path, name = split(key)
        node = hierarchy.get(path)
        if name == zarr2.ARRAY and isinstance(node, Dataset) and node.stored.chunk_keys.encoding == "default":
            keys += [key for key in store.list_prefix(path) if _OLD_CHUNK.fullmatch(key.removeprefix(f"{path}/"))]
    keys += sorted(documents)
    if change is not None:
        change.delete(key for key in keys if key not in _OLD_ROOT)
        change.commit({}, {**root, **dict.fromkeys(key for key in _OLD_ROOT if key in documents)})
    return len(keys)


def _report(store: Store, plan: WritePlan, removed: int = 0, formats: tuple[int, ...] = (3,)) -> UpgradeReport:
    encoded = tuple(map(absolute, plan.arrays))
    kept = sum(1 for _ in plan.hierarchy.arrays()) - len(encoded)
    return UpgradeReport(store.location, kept, len(encoded), removed, formats, encoded)


def _with_both(store: Store, parsed: ParsedFile, change: Change | None, options: WriteOptions) -> UpgradeReport:
    """Add the documents of format 3 to a file of format 2."""
    check_not_lost(store, parsed.hierarchy, parsed.state)
    if parsed.zarr_format == 3 and parsed.state != "alike":
        remedy = "Make a new file with `zarrio convert --zarr-format both`."
        raise UsageError("format 2 cannot name the chunks of a file of format 3", store=store.location, remedy=remedy)
    if parsed.state == "alike":
        return UpgradeReport(store.location, formats=(2, 3))
    hierarchy = parsed.hierarchy
    if parsed.state is None:
        _check_consolidated(store, hierarchy)
    store.read_rules = replace(store.read_rules, is_copied=True)
    if change is None:
        return _report(store, from_zarr.plan_format_3(store, hierarchy), formats=(2, 3))
    # format 3 records which document of format 2 it was derived from, so there has to be one
    text = store.get(zarr2.CONSOLIDATED)
    root = consolidated(store, hierarchy) if text is None else {}
    plan, root_3 = from_zarr.derive(change, hierarchy, text or root[zarr2.CONSOLIDATED], options=options)
    change.commit({}, {**root, **root_3})
    return _report(store, plan, formats=(2, 3))


def _without_format_2(store: Store, parsed: ParsedFile, change: Change | None) -> UpgradeReport:
    """Convert a file of both formats to format 3."""
    if parsed.state == "2 is newer":  # without a change: format 3 would be made alike first
        plan = from_zarr.plan_format_3(store, parsed.hierarchy)
        return _report(store, plan, _replace_format_2(store, plan.hierarchy, change, {}))
    hierarchy = parse(store, use_consolidated=False, hint=3).hierarchy
    root: Root = {}
    if change is not None:
        if parsed.state == "alike":  # else they are those of another program
            changed = ((path, node) for path, node in hierarchy.arrays() if registry.use_struct(node.stored))
            change.describe(registry.texts_of(3, changed))
        root = consolidated(store, hierarchy)
    return _report(store, WritePlan(hierarchy), _replace_format_2(store, hierarchy, change, root))


def _check_consolidated(store: Store, hierarchy: Hierarchy) -> None:
    """Refuse a file whose consolidated document differs from its other documents."""
    # Readers see the consolidated document, and an upgrade reads the others: it would change what the file says.
    # Compared as text, because NaN is not equal to itself.
    known = parse(store)
    documents = (zarr2.encode_documents(each) for each in (known.hierarchy, hierarchy))
    # zarr-python lists attributes of a node without any, for which other programs write no document
    texts = {json.dumps({key: value for key, value in each.items() if value}, sort_keys=True) for each in documents}
    if known.consolidated and len(texts) > 1:
        problem = "the consolidated document differs from the documents of the nodes"
        remedy = "Run `zarrio verify` to see the differences, and `zarrio consolidate` to update it from the nodes."
        raise ConflictError(problem, store=store.location, remedy=remedy)
