"""Builders -> a file: made anew beside its place, or changed where it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from hdmf_zarr_backend.mapping.formats import FORMATS
from hdmf_zarr_backend.mapping.nczarr import is_nczarr, overlay
from hdmf_zarr_backend.model.nodes import Hierarchy, adopt, copy_hierarchy
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.storage.edits import Edits
from hdmf_zarr_backend.storage.jsontext import dump
from hdmf_zarr_backend.storage.keys import KeyStore
from hdmf_zarr_backend.storage.queued import drain
from hdmf_zarr_backend.write.append import AppendPlanner
from hdmf_zarr_backend.write.dimensions import rename_axes
from hdmf_zarr_backend.write.plan import WritePlan
from hdmf_zarr_backend.write.planner import Planner, PlanOptions
from hdmf_zarr_backend.write.remote import new_file
from hdmf_zarr_backend.write.specs import Texts, add_specs
from hdmf_zarr_backend.write.targets import Targets
from hdmf_zarr_backend.write.writer import MEMORY_BUDGET, Writer


@dataclass(slots=True)
class WriteRequest:
    """One call of ``write_builder``.

    Attributes
    ----------
    builder : GroupBuilder
        The root.
    options : PlanOptions
        What is wanted of the plan.
    targets : Targets
        Names the targets of links and references.
    texts : dict
        Namespaces to cache.
    consolidate : bool
        Whether to write the consolidated document.
    exhaust_in_turn : bool
        Whether iterators are exhausted one after the other.
    progress : Progress
        Is told of the bytes written.
    executor, memory_budget
        As of `Writer`.
    exclusive : bool
        Whether a new file replaces nothing, not even what has come to be there in the meantime.
    nczarr : bool
        Whether the nodes get the attributes of NCZarr.
    unfilled : list
        ``(ZarrDataIO, path)`` of what was written by shape and type only; filled in by the write.
    """

    builder: Any
    options: PlanOptions
    targets: Targets
    texts: Texts
    consolidate: bool = True
    exhaust_in_turn: bool = True
    progress: Progress = SILENT
    executor: Any = None
    memory_budget: int = MEMORY_BUDGET
    exclusive: bool = False
    nczarr: bool = False
    unfilled: list[tuple[Any, str]] = field(default_factory=list)

    def writer(self, keys: KeyStore, plan: WritePlan) -> Writer:
        """Return the writer that carries out ``plan`` as this request asks."""
        return Writer(
            keys,
            plan,
            strict_json=self.options.strict_json,
            progress=self.progress,
            executor=self.executor,
            memory_budget=self.memory_budget,
            nczarr=self.nczarr,
        )


def plan_new(request: WriteRequest) -> WritePlan:
    """Return what the write of a new file would do; nothing is touched."""
    plan = Planner(request.options, request.targets).plan_root(request.builder)
    add_specs(plan, request.texts, location=request.options.location)
    return plan


def write_new(request: WriteRequest, store: KeyStore) -> tuple[Hierarchy, dict[str, bytes]]:
    """Write a new file; what is at its place is replaced when the new one is whole, unless that is to be exclusive.

    Parameters
    ----------
    request : WriteRequest
        What is wanted.
    store : KeyStore
        Where the file will be.

    Returns
    -------
    Hierarchy
        What is on disk now.
    dict
        ``{key: bytes}`` of the scalars.

    Raises
    ------
    StoreExistsError
        Another writer has put something there first; that stays.
    """
    plan = plan_new(request)
    with new_file(store, exclusive=request.exclusive, zarr_format=request.options.zarr_format) as keys:
        writer = request.writer(keys, plan)
        writer.write(consolidate=request.consolidate, exhaust_in_turn=request.exhaust_in_turn)
    request.unfilled = plan.unfilled
    return plan.hierarchy, writer.inlined


def write_difference(
    request: WriteRequest,
    keys: KeyStore,
    known: Hierarchy,
    inlined: dict[str, bytes],
    edits: Edits | None,
    *,
    is_written: Callable[[Any], bool],
    original: Callable[[str], Any],
    is_consolidated: bool,
) -> None:
    """Write what is new or differs; ``known`` says afterwards what is on disk.

    Parameters
    ----------
    request : WriteRequest
        What is wanted.
    keys : KeyStore
        The store of the file.
    known : Hierarchy
        What is on disk; it stays true if the write fails.
    inlined : dict
        ``{key: bytes}`` of the scalars; updated.
    edits : Edits or None
        Changes that were made to arrays directly.
    is_written, original
        As of `AppendPlanner`.
    is_consolidated : bool
        Whether the file has a consolidated document.
    """
    options = request.options
    if edits is not None:
        rename_axes(known, edits.changed)
    request.nczarr = request.nczarr or is_nczarr(known)
    hierarchy = copy_hierarchy(known)
    planner = AppendPlanner(options, request.targets, hierarchy, is_written=is_written, original=original)
    plan = planner.plan_root(request.builder)
    planner.note_specs(add_specs(plan, request.texts, location=options.location))
    flush_edits(
        edits, keys, known, inlined, encode=request.targets.encode, consolidate=False, strict_json=options.strict_json
    )
    if planner.changed or planner.added or request.nczarr or is_consolidated != request.consolidate:
        writer = request.writer(keys, plan)
        writer.inlined = inlined
        writer.write_changes(added=planner.added, changed=planner.changed, consolidate=request.consolidate)
    elif request.consolidate:
        set_consolidated(keys, hierarchy, inlined, strict_json=options.strict_json)
    drain(keys)
    adopt(known, hierarchy)
    request.unfilled = plan.unfilled


def flush_edits(
    edits: Edits | None,
    keys: KeyStore,
    known: Hierarchy,
    inlined: dict[str, bytes],
    *,
    encode: Callable[[Any], Any],
    consolidate: bool,
    strict_json: bool,
) -> None:
    """Write the changes that were made to arrays directly, and make the consolidated document true again."""
    if edits is None or not edits.pending:
        return
    rename_axes(known, edits.changed)
    edits.flush(encode)
    if is_nczarr(known):
        for path in overlay(known):
            node = known.get(path)
            assert node is not None
            for key, document in FORMATS[known.zarr_format].documents(path, node):
                keys.set(key, dump(document, strict=strict_json))
    drain(keys)
    if consolidate:
        set_consolidated(keys, known, inlined, strict_json=strict_json)


def set_consolidated(keys: KeyStore, hierarchy: Hierarchy, inlined: dict[str, bytes], *, strict_json: bool) -> None:
    """Set the consolidated document, when everything else is there."""
    drain(keys)
    for key, document in FORMATS[hierarchy.zarr_format].last(hierarchy, inlined, consolidate=True).items():
        keys.set(key, dump(document, strict=strict_json))
    drain(keys)
