"""`repair`: repairs a file without losing data. `consolidate`: writes a new consolidated document.

Source: docs/format, "Consolidated metadata", "The journal".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.check.contents import is_named_type, kind_of
from hdmf_zarr_backend.check.findings import Problem, Report, problem_lines
from hdmf_zarr_backend.check.structure import Structure, check_structure
from hdmf_zarr_backend.encoding.elements import is_inlined, is_read_at_open
from hdmf_zarr_backend.encoding.parser import ParsedFile, Resolver, check_not_lost, check_outside, current, parse
from hdmf_zarr_backend.encoding.references import decode_links, set_links
from hdmf_zarr_backend.encoding.registry import FIRST_KEYS, FORMATS, texts_of
from hdmf_zarr_backend.encoding.reserved import LINKS, stores_all_chunks
from hdmf_zarr_backend.errors import ZarrBackendError, known_arguments, printable
from hdmf_zarr_backend.hdmf.from_zarr import UNFIT, derive_all, make_alike
from hdmf_zarr_backend.model.json_text import dump
from hdmf_zarr_backend.model.links import is_url
from hdmf_zarr_backend.model.nodes import Group, Hierarchy, absolute, join, relative, split
from hdmf_zarr_backend.model.render import PLAIN, Form, View, counted, few
from hdmf_zarr_backend.store.base import DOCUMENTS, Store
from hdmf_zarr_backend.store.opening import FileSource, is_of_hdf5, open_store
from hdmf_zarr_backend.store.transaction import Change, open_for_writing

# while one of these is found, a new consolidated document would lose what only the old one has
_NOT_WHOLE = frozenset({"incomplete", "limit", "document-damaged", "library-missing"})
_LOST = frozenset({"document-missing", "chunk-missing", "chunk-damaged", "unsafe"})
# a new consolidated document mends these
_OF_THE_COPY = frozenset({"consolidated-damaged", "consolidated-stale"})
_AGAIN = (
    "Its writer has stopped. Write the file again, over this one (`zarrio convert --overwrite`, or mode 'w'; "
    "`--resume` continues a conversion)."
)


@dataclass(slots=True, repr=False)
class Repairs(View):
    """What `repair` did.

    Attributes
    ----------
    done : list of str
        Each repair.
    left : list of Problem
        Remaining damage of documents and links, and chunks that differ from those in the consolidated document.
    kept : list of Problem
        Remarks: what a dead writer left beside a local file, which is not deleted, because its values may exist nowhere
        else; a file without a consolidated document, which is not written, because a copy may be incomplete.
    """

    done: list[str] = field(default_factory=list)
    left: list[Problem] = field(default_factory=list)
    kept: list[Problem] = field(default_factory=list)

    def lines(self, form: Form = PLAIN, name: str | None = None) -> list[str]:
        """Return what the command prints in a ``form``, of a file ``name``: what was done, and what is left."""
        lines = [*map(printable, self.done), *problem_lines(self.left, form, "left: ")]
        lines += [f"remark: {remark}" for remark in self.kept]
        note = "Chunks were not checked; run `zarrio verify` to check them."
        if self.left:
            note += " A damaged chunk must be restored from a copy of the file, or the source must be converted again."
        return [*(lines or ["nothing to repair in the metadata"]), note]


@known_arguments
def consolidate(
    source: FileSource,
    *,
    forget: bool = False,
    break_lock: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write a new consolidated document from the documents of the nodes, with the scalars in it.

    Call this after another program has changed a file: until then, readers see the file as it was before.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    forget : bool
        Drop what only the consolidated document has, because another program removed nodes, attributes or values on
        purpose. False: raise an error instead, because the consolidated document may be the only good copy.
    break_lock : bool
        Take over the lock of a writer that has stopped, as for `repair`.
    storage_options : dict, optional
        Options for URLs, with the names of fsspec or obstore.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        No Zarr file exists there.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    IncompleteStoreError, MetadataError
        The file is being written, or a document is damaged. Nothing is changed.
    ConflictError
        The consolidated document has nodes, attributes or values that are missing or damaged elsewhere. Nothing is
        changed.
    ConflictError
        The file is in both formats, and format 3 is newer. Nothing is changed.
    StoreLockedError
        Another writer has the file open.

    Warns
    -----
    FormatsDifferWarning
        The file is in both formats, and format 3 could not be made like format 2, since a chunk is damaged.
    JournalWarning
        A change of the file was interrupted; it is undone or completed first.
    """
    store = open_store(source, storage_options)
    _check_changeable(store)
    with open_for_writing(store, break_lock=break_lock) as writer:
        # if only format 3 was changed, a document consolidated from format 2 would make the change disappear
        _, state = current(store, store.get_many(FIRST_KEYS))
        check_not_lost(store, None, state)
        checked = Repairs()
        structure = None if forget else _checked(store, checked)
        if structure is None or any(problem.kind in _NOT_WHOLE for problem in checked.left):
            hierarchy = parse(store, use_consolidated=False).hierarchy  # raises an error if a document is damaged
        else:
            hierarchy = structure.hierarchy
        # what parses and is damaged all the same names codecs or a type that do not exist
        lost = [problem for problem in checked.left if problem.kind in _LOST | {"document-damaged"}]
        if lost and structure is not None and structure.is_consolidated:
            shown = few([f"{problem.path}: {problem.message}" for problem in lost], "; ")
            problem = f"this would drop what only the consolidated document has: {shown}"
            remedy = "Run `zarrio repair`, which writes it back. If it was removed on purpose, run `zarrio "
            raise errors.ConflictError(problem, store=store.location, remedy=f"{remedy}consolidate --forget`.")
        if structure is not None:
            check_not_lost(store, structure.hierarchy, state)
        parsed = ParsedFile(hierarchy, consolidated=True, state=state)
        with writer.change(root=parsed.root_keys[:1]) as change:
            change.commit({}, consolidated(store, hierarchy))
        if state is not None:
            make_alike(writer, parsed)


def _check_changeable(store: Store) -> None:
    abilities = store.abilities
    if not is_url(store.location) and is_of_hdf5(store):
        remedy = "`zarrio verify` checks it. If it is cut short, download or copy it again."
        problem = "this is an HDF5 file, and only Zarr files are repaired and consolidated"
        raise errors.NotZarrError(problem, store=store.location, remedy=remedy)
    if not (abilities.change and abilities.consolidates):
        problem = f"{abilities.why or 'this kind of store has no consolidated document'}: nothing can be repaired there"
        raise errors.ReadOnlyStoreError(problem, store=store.location, remedy="Repair a copy on a disk.")
    check_outside(store)  # before it is locked or changed


def chunks_to_inline(
    store: Store, hierarchy: Hierarchy, *, kept: Mapping[str, bytes] | None = None, but: Collection[str] = ()
) -> dict[str, bytes]:
    """Return the chunks for the consolidated document, those in ``kept`` first; none of the arrays in ``but``."""
    # one round of requests for all scalars and small values, not one for each
    read = ((path, node) for path, node in hierarchy.arrays() if path not in but and is_read_at_open(node))
    nodes = {join(path, node.stored.first_chunk): node for path, node in read}
    chunks = {key: data for key, data in store.get_many(nodes).items() if is_inlined(nodes[key], data)}
    return chunks | {key: data for key, data in (kept or {}).items() if key in nodes}


def consolidated(store: Store, hierarchy: Hierarchy, kept: Mapping[str, bytes] | None = None) -> dict[str, bytes]:
    """Return the documents that are written last, by key, consolidated; for ``kept`` see `chunks_to_inline`."""
    chunks = chunks_to_inline(store, hierarchy, kept=kept)
    documents = FORMATS[hierarchy.zarr_format].last(hierarchy, chunks, consolidate=True)
    return {key: dump(document) for key, document in documents.items()}


@known_arguments
def repair(
    source: FileSource,
    *,
    drop_links: bool = False,
    break_lock: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Repairs:
    """Repair what can be repaired without loss.

    An interrupted change is completed if it was recorded completely, otherwise it is undone. Missing documents, and
    scalars whose chunk is missing or damaged, are restored from the consolidated document if it has them; so are the
    documents of the root if the writer of a new file died before it deleted anything. If the consolidated document is
    wrong in another way, a new one is written. In a file of both formats, format 3 is updated from format 2, unless a
    program has changed only format 3; where values differ, those of format 2 are kept.

    No chunk and no document of a node is deleted except those of an interrupted change; nor is a new file that a writer
    did not finish. While something is missing or damaged that cannot be restored, the consolidated document is not
    changed, because it may be the only good copy. The same applies to its copy of a scalar whose chunk differs.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    drop_links : bool
        Remove links that are damaged, have no target, or are circular.
    break_lock : bool
        Take over the lock of a writer that has stopped, or that runs on another machine and cannot be checked. The lock
        of a local file is never taken from a running process of this machine.
    storage_options : dict, optional
        Options for URLs, with the names of fsspec or obstore.

    Returns
    -------
    Repairs
        What was repaired, and what remains.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        No Zarr file exists there.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    MetadataError
        The journal of an interrupted change is damaged.
    StoreError
        A key to restore would be outside the store.
    StoreLockedError
        Another writer has the file open.
    """
    store = open_store(source, storage_options)
    _check_changeable(store)
    repairs = Repairs()
    # taking the lock undoes or completes an interrupted change, which is reported like any other repair
    with open_for_writing(store, break_lock=break_lock, report=repairs.done.append) as writer:
        structure = _checked(store, repairs)
        if structure is None:
            return repairs
        parsed = ParsedFile(structure.hierarchy, consolidated=True, state=structure.state)
        # one change for all repairs, so that a killed repair leaves the file as it was
        with writer.change(root=parsed.root_keys[:1]) as change:
            repaired = _repaired(store, structure, change, repairs, drop_links=drop_links)
        if repaired is None:
            return repairs
        damaged = []
        if repaired.state is not None:
            # a missing chunk must not become fill values
            is_whole = stores_all_chunks(repaired.hierarchy.root.attributes)
            store.read_rules = replace(store.read_rules, is_whole=is_whole, is_copied=True)
            parsed = ParsedFile(repaired.hierarchy, consolidated=True, state=repaired.state)
            try:
                if derive_all(writer, parsed)[1]:
                    repairs.done.append("made Zarr format 3 like format 2")
            except UNFIT as error:
                problem = f"{error.problem}; Zarr format 3 was not updated from it"
                damaged.append(Problem(error.path or "/", kind_of(error), problem))
        _checked(store, repairs)
        repairs.left += damaged
    return repairs


def _repaired(
    store: Store, structure: Structure, change: Change, repairs: Repairs, *, drop_links: bool
) -> Structure | None:
    """Write back what only the consolidated document has, commit the change, and return the new state."""
    # None if something is missing, or format 3 is newer: the consolidated document may be the only good copy. Chunks
    # that do not decode are replaced, but no documents: on some disks two names can be one file.
    repaired: Structure | None = structure
    documents: dict[str, bytes] = {}
    # else a writer may be at work, or not all documents were read
    if not any(problem.kind in ("incomplete", "limit") and not problem.is_repairable for problem in repairs.left):
        copies = structure.only_copies
        store.check_inside(copies, [])
        existing = store.get_many(key for key in copies if split(key)[0] and split(key)[1] in DOCUMENTS)
        written = {key: data for key, data in copies.items() if key not in existing}
        for key, data in written.items():
            change.put(key, data)
        change.drain()
        if written:
            repairs.done.append(f"wrote back from the consolidated document: {few(sorted(written))}")
            repaired = _checked(store, repairs, is_own_change=True)
    kinds = Counter(problem.kind for problem in repairs.left)
    if repaired is None or kinds.keys() & (_NOT_WHOLE | _LOST) or repaired.state in ("3 is newer", "both are newer"):
        repaired = None
    elif (
        (drop_links and _drop_links(store, repaired, change, repairs))
        # the consolidated document is wrong, or missing where a file of both formats needs it
        or kinds.keys() & _OF_THE_COPY
        or kinds["inlined-stale"] > len(repaired.other_chunks)
        or (repaired.state is not None and not repaired.is_consolidated)
    ):
        documents = consolidated(store, repaired.hierarchy, repaired.other_chunks)
        repairs.done.append("wrote a new consolidated document")
    change.commit({}, documents)
    return repaired


def _checked(store: Store, repairs: Repairs, *, is_own_change: bool = False) -> Structure | None:
    """Check the documents, and note in ``repairs`` what is left."""
    report = Report(store.location, "structure")
    structure = check_structure(store, report, is_own_change=is_own_change)
    repairs.left = [
        # this process has the lock, so nobody is writing the file
        replace(problem, advice=_AGAIN) if problem.kind == "incomplete" and not problem.is_repairable else problem
        for problem in report.problems
    ]
    repairs.kept = [remark for remark in report.remarks if remark.kind in ("not-consolidated", "write-unfinished")]
    return structure


def _drop_links(store: Store, structure: Structure, change: Change, repairs: Repairs) -> bool:
    """Remove links without a target; tell whether there were any."""
    hierarchy = structure.hierarchy
    resolver = Resolver(store, hierarchy)

    def leads_somewhere(entry: Any) -> bool:
        try:
            target = decode_links({LINKS: [entry]})[0].target
            resolver.find(resolver.main, target.source, target.node_path)
        except errors.ReferenceTargetError as error:
            return error.store == store.location and is_named_type(hierarchy, relative(error.path or ""))
        except (ZarrBackendError, OSError) as error:  # a server that is down says nothing about the target
            return not isinstance(error, errors.DamagedFileError)
        return True

    changed: dict[str, bytes] = {}
    dropped = 0  # also from the root of format 3, whose document is not among the changed ones
    for path, node in hierarchy.walk():
        if not isinstance(node, Group) or LINKS not in node.attributes:
            continue
        stated = node.attributes[LINKS]
        entries = stated if isinstance(stated, list) else [None]  # None is not a link
        kept = list(filter(leads_somewhere, entries))
        if count := len(entries) - len(kept):
            dropped += count
            set_links(node, kept)
            changed |= texts_of(hierarchy.zarr_format, [(path, node)])
            repairs.done.append(f"removed {counted(count, 'link')} without a target from {absolute(path)}")
    change.describe(changed)
    return dropped > 0
