"""What can be mended with no loss: an interrupted change, the consolidated document, and links to nothing if asked.

Source: issue "Nothing lost, nobody let in", part 4.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hdmf_zarr_backend.errors import DamagedFileError, IncompleteStoreError, ReadOnlyStoreError, ZarrBackendError
from hdmf_zarr_backend.mapping.formats import FORMATS
from hdmf_zarr_backend.mapping.inlining import is_inlined, is_read_at_open
from hdmf_zarr_backend.mapping.links import decode_links
from hdmf_zarr_backend.mapping.reserved import LINKS
from hdmf_zarr_backend.model.nodes import ArrayNode, GroupNode, Hierarchy, absolute, join
from hdmf_zarr_backend.read.parser import parse
from hdmf_zarr_backend.storage.jsontext import dump
from hdmf_zarr_backend.storage.keys import KeyStore, abilities_of
from hdmf_zarr_backend.storage.offers import delete_partial
from hdmf_zarr_backend.storage.onewriter import one_writer
from hdmf_zarr_backend.storage.opening import open_keys
from hdmf_zarr_backend.storage.recovery import pending, recover
from hdmf_zarr_backend.verification.documents import Structure, check_structure
from hdmf_zarr_backend.verification.problems import Problem, Report
from hdmf_zarr_backend.verification.targets import CircularError, Targets

_OF_THE_COPY = frozenset({"consolidated-damaged", "consolidated-stale", "inlined-stale"})
_OF_DOCUMENTS = frozenset({"incomplete", "limit", "document-missing", "document-damaged"})
_SHOWN = 5


@dataclass(slots=True)
class Repairs:
    """What `repair` has done.

    Attributes
    ----------
    done : list of str
        Each thing that was mended.
    left : list of Problem
        The damage of documents and links that is still there.
    """

    done: list[str] = field(default_factory=list)
    left: list[Problem] = field(default_factory=list)


def consolidate(source: str | os.PathLike[str] | Any, *, storage_options: Mapping[str, Any] | None = None) -> None:
    """Make the consolidated document say what the documents of the nodes say, with the scalars in it.

    To be called when another program has changed a file, which is then read as it was before.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    storage_options : dict, optional
        For URLs.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        There is no Zarr file.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    IncompleteStoreError, MetadataError
        The file is being written, a change of it was interrupted, or a document is damaged: nothing was changed.
    StoreLockedError
        Another writer has the file open.
    """
    keys = open_keys(source, storage_options)
    _check_changeable(keys)
    with one_writer(keys):
        left = pending(keys)
        if left is not None:
            raise IncompleteStoreError(
                f"a change of this file was interrupted: {left.holder}",
                store=keys.location,
                remedy="Run `zarrio repair`.",
            )
        _consolidate(keys, parse(keys, use_consolidated=False).hierarchy)


def _check_changeable(keys: KeyStore) -> None:
    abilities = abilities_of(keys)
    if not (abilities.change and abilities.consolidates):
        raise ReadOnlyStoreError(
            f"{abilities.why or 'this kind of store has no consolidated document'}: nothing can be repaired there",
            store=keys.location,
            remedy="Repair a copy on a disk.",
        )


def _consolidate(keys: KeyStore, hierarchy: Hierarchy) -> None:
    chunks = {
        join(path, node.chunk_name((0,) * len(node.shape))): node
        for path, node in hierarchy.walk()
        if isinstance(node, ArrayNode) and node.shards is None and is_read_at_open(node)
    }
    found = keys.get_many(chunks)
    inlined = {key: data for key, data in found.items() if is_inlined(chunks[key], data)}
    for key, document in FORMATS[hierarchy.zarr_format].last(hierarchy, inlined, consolidate=True).items():
        keys.set(key, dump(document))


def repair(
    source: str | os.PathLike[str] | Any,
    *,
    drop_links: bool = False,
    break_lock: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Repairs:
    """Mend what can be mended with no loss.

    A change of the file that was interrupted is undone, or finished where it had come to its end. A consolidated
    document that is not true is made anew. No chunk and no document of a node is deleted but those that an interrupted
    change had made. Where documents of nodes are damaged or gone, the consolidated
    document may be the only good copy of them, and stays as it is.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    drop_links : bool
        Remove the links that cannot be understood, lead to nothing, or round in a circle.
    break_lock : bool
        Take the lock of the file from a writer that is gone, or that cannot be asked since it is on another machine;
        never from a process of this machine that is alive.
    storage_options : dict, optional
        For URLs.

    Returns
    -------
    Repairs
        What was done, and what is left.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        There is no Zarr file.
    ReadOnlyStoreError
        A store of this kind cannot be changed.
    MetadataError
        What an interrupted change has left cannot be understood.
    StoreLockedError
        Another writer has the file open.
    """
    keys = open_keys(source, storage_options)
    _check_changeable(keys)
    with one_writer(keys, break_lock=break_lock):
        return _repaired(keys, drop_links=drop_links)


def _repaired(keys: KeyStore, *, drop_links: bool) -> Repairs:
    repairs = Repairs()
    recovered = recover(keys)
    delete_partial(keys, [""])
    if recovered is not None:
        repairs.done.append(recovered)
    report = Report(keys.location, "structure")
    structure = check_structure(keys, report)
    kinds = {problem.kind for problem in report.problems}
    if structure is None or kinds & _OF_DOCUMENTS:
        repairs.left = report.problems
        return repairs
    lost = _only_consolidated(keys, report)
    if lost:
        shown = ", ".join(lost[:_SHOWN])
        message = f"documents of nodes that have data are in the consolidated document only: {shown}"
        repairs.left = [Problem("/", "document-missing", message), *report.problems]
        return repairs
    dropped = _drop_links(keys, structure, repairs) if drop_links else False
    if dropped or kinds & _OF_THE_COPY:
        _consolidate(keys, structure.hierarchy)
        repairs.done.append("made the consolidated document anew")
    after = Report(keys.location, "structure")
    check_structure(keys, after)
    repairs.left = after.problems
    return repairs


def _only_consolidated(keys: KeyStore, report: Report) -> list[str]:
    """Return the nodes that only the consolidated document knows, and that have data all the same."""
    paths = {problem.path for problem in report.problems if problem.kind == "consolidated-stale"}
    known = parse(keys).hierarchy if paths else Hierarchy()
    listed = parse(keys, use_consolidated=False).hierarchy if paths else Hierarchy()
    gone = sorted(path for path in paths if path in known and path not in listed)
    return [path for path in gone if next(keys.list_prefix(path[1:]), None) is not None]


def _drop_links(keys: KeyStore, structure: Structure, repairs: Repairs) -> bool:
    """Remove links to nothing; tell whether there were any."""
    hierarchy = structure.hierarchy
    targets = Targets(keys, hierarchy)
    dropped = False
    for path, node in hierarchy.walk():
        if not isinstance(node, GroupNode) or LINKS not in node.attributes:
            continue
        entries = node.attributes[LINKS]
        kept = [entry for entry in entries if _leads_somewhere(entry, targets)] if isinstance(entries, list) else []
        gone = len(entries) - len(kept) if isinstance(entries, list) else 1
        if not gone:
            continue
        dropped = True
        rest = {name: value for name, value in node.attributes.items() if name != LINKS}
        node.attributes = {**rest, LINKS: kept} if kept else rest
        node.keeps_attributes = True
        for key, document in FORMATS[hierarchy.zarr_format].documents(path, node):
            keys.set(key, dump(document))
        repairs.done.append(f"removed {gone} link{'s' if gone > 1 else ''} to nothing from {absolute(path)}")
    return dropped


def _leads_somewhere(entry: Any, targets: Targets) -> bool:
    try:
        targets.find(decode_links({LINKS: [entry]})[0].target)
    except (DamagedFileError, CircularError):
        return False
    except (ZarrBackendError, OSError):
        return True  # it could not be looked at: a server may be down
    return True
