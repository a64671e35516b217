"""`check_targets`: refuses a plan with a link or reference to nothing, before anything is written.

A target is in the plan, which includes what the file holds already, or in another file that exists. The targets of a
column are collected while its references are encoded, and each distinct one is looked up once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
from hdmf.build import DatasetBuilder

from hdmf_zarr_backend.builders.targets import Targets, object_id
from hdmf_zarr_backend.encoding.references import is_reference
from hdmf_zarr_backend.encoding.reserved import LINKS
from hdmf_zarr_backend.errors import (
    MissingTargetError,
    NotZarrError,
    ReferenceTargetError,
    StoreNotFoundError,
    ZarrBackendError,
    at,
)
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.formats.elements import describe
from hdmf_zarr_backend.model.element import Reference
from hdmf_zarr_backend.model.link_sources import THIS_FILE, is_url
from hdmf_zarr_backend.model.nodes import Hierarchy, Node, absolute, join, split
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.write.plan import PlannedArray, WritePlan
from hdmf_zarr_backend.write.sources import ElementSource, EncodedSource, RowSource, row_blocks

_ABSENT = (ReferenceTargetError, StoreNotFoundError, NotZarrError)
_KEPT_ELEMENTS = 2**20
"""Columns up to this length are encoded once; longer ones again when they are written, which needs less memory."""
_Key: TypeAlias = "tuple[str, str, str | None]"
"""Source, path and object id of a target."""

_REMEDY = (
    "Add the target to the file that is written (if it belongs to another file, call its reset_parent() first, or "
    "write with the manager of the io that has read it), or remove the {}."
)


def check_targets(
    plan: WritePlan,
    targets: Targets,
    store: Store,
    *,
    added: Iterable[str] = ("",),
    changed: Iterable[str] = (),
    known: Hierarchy | None = None,
) -> None:
    """Refuse a plan with a link or reference to nothing."""
    check = _Check(plan, targets, store)
    nodes = [(path, plan.hierarchy.get(path)) for path in changed]
    for path, node in (*(each for top in added for each in plan.hierarchy.walk(top)), *nodes):
        if node is None:
            continue
        before = None if known is None else known.get(path)
        check.attributes(path, node, {} if before is None else before.attributes)
    for path, planned in plan.arrays.items():
        with at(targets, path):
            for reference in _references_in(planned):
                check.reference(path, reference, "reference")


def _references_in(planned: PlannedArray) -> Iterator[dict[str, Any]]:
    """Yield the distinct references among the values of an array."""
    source = planned.source
    if not isinstance(source, (ElementSource, RowSource)):
        return
    means = describe(planned.node, planned.notes)
    if means.form == "rows":
        columns = [number for number, (_, field) in enumerate(means.fields) if isinstance(field, Reference)]
    else:
        columns = [0] if isinstance(means.stored, Reference) else []
    if not columns:
        return
    is_kept = int(np.prod(source.shape)) <= _KEPT_ELEMENTS
    distinct: dict[int, dict[str, Any]] = {}
    for region in row_blocks(source.shape, source.shape[0] if is_kept else _KEPT_ELEMENTS // 2**4):
        block = source.read(region)
        values = block[:, columns].reshape(-1) if means.form == "rows" else block.reshape(-1)
        distinct.update((id(value), value) for value in values.tolist() if value is not None)  # equal ones are one dict
        if is_kept:
            planned.source = EncodedSource(block)
    yield from distinct.values()


class _Check:
    def __init__(self, plan: WritePlan, targets: Targets, store: Store) -> None:
        self._resolver = resolver_of(store, plan.hierarchy, targets.location)
        self._targets = targets
        self._passed: set[_Key] = set()
        self._builders: dict[_Key, Any] = {}

    def attributes(self, path: str, node: Node, before: dict[str, Any]) -> None:
        """Check the links of a node, and the attributes that are references, but those that it had ``before``."""
        for name, value in node.attributes.items():
            if not isinstance(value, (dict, list)) or value == before.get(name):
                continue
            if name == LINKS:
                stored = before.get(LINKS, [])
                for entry in (entry for entry in value if entry not in stored):
                    self.reference(join(path, entry["name"]), entry, "link")
                continue
            for item in value if isinstance(value, list) else [value]:
                # an attribute of a user may look like a reference
                if is_reference(item) and all(isinstance(item["value"].get(key), str) for key in ("source", "path")):
                    self.reference(path, item["value"], f"reference in the attribute {name!r}")

    def reference(self, path: str, reference: dict[str, Any], what: str) -> None:
        """Refuse a link or reference whose target is known not to exist, or to be another object."""
        key = (reference["source"], absolute(reference["path"]), reference.get("object_id"))
        if key in self._passed:
            return
        problem = self._problem(key)
        if problem is None:
            self._passed.add(key)
            return
        builder, source, target = self._builder_of(key), *key[:2]
        shown = target if source == THIS_FILE else f"{target} of {source}"
        if builder is not None and self._targets.is_lost(builder):
            shown = self._targets.describe(builder)  # it has no path yet
        elif builder is not None:
            shown = f"{self._targets.describe(builder)}, expected at {shown},"
        with at(self._targets, path):
            remedy = _REMEDY.format(what.partition(" ")[0])
            raise MissingTargetError(f"the {what} would lead to nothing: {shown} {problem}", remedy=remedy)

    def _builder_of(self, key: _Key) -> Any:
        """Return the builder of a target; None if it was given by its path."""
        if key not in self._builders:
            for builder, made in self._targets.made():  # more of them are known with each column
                self._builders[(made.source, absolute(made.path), made.object_id)] = builder
        return self._builders.get(key)

    def _problem(self, key: _Key) -> str | None:
        """Return what is wrong with a target, None if it is there, or if only a request could tell."""
        source, path, wanted = key
        main, builder = self._resolver.main, self._builder_of(key)
        location = self._resolver.locate(main, source)
        is_own = location == main.location
        if is_own and builder is not None and self._targets.is_lost(builder):
            return "is not part of what is written"
        if is_url(location) and not is_own:
            return None
        try:
            file, place, node = self._resolver.find(main, source, path)
        except _ABSENT as error:
            return "is not part of what is written" if is_own else f"does not exist ({error.problem})"
        except (ZarrBackendError, OSError):
            return None  # it may be there; who follows the link is told why it cannot be followed
        found = node.attributes.get("object_id")
        if wanted is None and is_own and isinstance(builder, DatasetBuilder) and builder.parent is not None:
            # the data of a series have no id, but the series does
            wanted, group = object_id(builder.parent), file.hierarchy.get(split(place)[0])
            found = None if group is None else group.attributes.get("object_id")
        if wanted is not None and isinstance(found, str) and found != wanted:
            return f"is not there, but something of another object, with the object_id {found}"
        return None
