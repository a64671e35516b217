"""`validate`: checks a file against its schema, from its metadata only."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from hdmf_zarr_backend.builders.namespaces import newest_versions, source_texts
from hdmf_zarr_backend.checks.findings import Finding, Problem, Validation
from hdmf_zarr_backend.checks.links import without_target
from hdmf_zarr_backend.checks.rules import (
    ISODATETIME,
    NATURAL,
    REFERENCE,
    USE_INSTALLED,
    AttributeRule,
    DType,
    MemberRule,
    Rule,
    Target,
    Texts,
    Types,
    accepts,
    compile_types,
    fits,
    frozen_texts,
    included,
)
from hdmf_zarr_backend.checks.view import NAIVE, OTHER, Item, Member, Value, type_key_of, view
from hdmf_zarr_backend.errors import MetadataError, UsageError, ZarrBackendError, at, known_arguments
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.files.parser import ParsedFile, parse
from hdmf_zarr_backend.formats.links import LinkedFile
from hdmf_zarr_backend.formats.namespaces import NAMESPACE, spec_location
from hdmf_zarr_backend.formats.reserved import SPECLOC
from hdmf_zarr_backend.model.links import Resolver
from hdmf_zarr_backend.model.nodes import Hierarchy, absolute, join
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.gc_pause import gc_paused
from hdmf_zarr_backend.stores.opening import open_store

_CORE = "core"
_IGNORED = "hdmf-experimental"

Source = str | os.PathLike[str] | Any


@known_arguments
def validate(
    source: Source,
    *,
    full: bool = False,
    namespace: str | None = None,
    use_cached: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
) -> Validation:
    """Check a Zarr file against its schema, as ``pynwb.validate`` does, from its metadata only.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The file.
    full : bool
        Use hdmf's own validator, which reads the times and other small data that the schema has rules about, and takes
        seconds.
    namespace : str, optional
        The namespace to check against. Default: for an NWB file, each cached one that no other includes (extensions
        before the core that they extend); for another file, the one that the root names.
    use_cached : bool
        Use the cached namespaces of the file, if any; else the installed ones.
    storage_options : mapping, optional
        For URLs, as for `ZarrIO`.
    read_options : ReadOptions, optional
        Limits for the file, and other files that it may lead to. Links that are not followed are not checked.

    Returns
    -------
    Validation
        ``findings`` list what the schema does not allow.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        No Zarr file exists there, its metadata are damaged, or its namespaces are missing.
    UsageError
        The namespace does not exist.

    Notes
    -----
    Without `full`, chunks of datasets are not read: a time in a dataset is checked if it is part of the consolidated
    metadata (in files of this package it is), and targets of references in datasets are not checked. hdmf's validator
    does not check the types of those either, unless the dataset is a scalar. Links and references to nothing are
    findings of both, which hdmf and pynwb do not have.

    Source: hdmf 6, ``hdmf.validate``; pynwb 4, ``pynwb.validate``.
    """
    with (
        opened(source, storage_options, read_options) as (keys, parsed),
        gc_paused(),  # a collection would take longer than making these objects
    ):
        texts, names, cached = namespaces_for(keys, parsed, namespace, use_cached=use_cached)
        types = [compile_types(texts, name) for name in names]
        resolver = resolver_of(keys, parsed.hierarchy)
        result = Validation(keys.location, {one.namespace: one.version for one in types}, cached)
        if full:
            from hdmf_zarr_backend.checks.hdmf_validator import findings_of_hdmf  # imported here: hdmf is slow

            result.findings = findings_of_hdmf(keys, parsed, texts, names)
            result.findings += _targets(resolver, full=True)
            return result
        root = view(resolver)
        found: dict[Finding, None] = {}
        for one in types:
            of_one, result.items = check(root, one)
            found |= dict.fromkeys(of_one)
        result.findings = [*found, *_targets(resolver, full=False)]
        return result


def _targets(resolver: Resolver[LinkedFile], *, full: bool) -> list[Finding]:
    """Return the findings of links and references to nothing."""
    return [Finding(one.path, None, "target", one.message) for one in without_target(resolver, reads_values=full)]


@contextmanager
def opened(
    source: Source,
    storage_options: Mapping[str, Any] | None,
    read_options: ReadOptions | None,
) -> Iterator[tuple[Store, ParsedFile]]:
    """Open a file for reading; yields its store and metadata. Errors name the store."""
    keys = open_store(source, storage_options, read_options)
    parsed = parse(keys)
    with at(keys):
        yield parsed.keys(keys), parsed


def problems_by_schema(keys: Store, hierarchy: Hierarchy) -> Iterator[Problem]:
    """Yield the findings of hdmf's validator with the cached namespaces of a file, for `verify`."""
    namespace = hierarchy.root.attributes.get("namespace")
    if not isinstance(namespace, str) or namespace not in newest_versions(hierarchy):
        yield Problem("/", "no-schema", f"the namespace of the root, {namespace!r}, is not cached in the file")
        return
    from hdmf_zarr_backend.checks.hdmf_validator import findings_of_hdmf  # imported here: hdmf is slow to import

    parsed = ParsedFile(hierarchy, consolidated=False)
    try:
        texts, names, _ = namespaces_for(keys, parsed, None, use_cached=True)
        found = findings_of_hdmf(keys, parsed, texts, names)
    except ZarrBackendError as error:
        yield Problem(error.path or "/", "schema-damaged", f"the cached namespaces cannot be used ({error.problem})")
        return
    for finding in found:
        yield Problem(finding.path, "schema", f"{finding.rule}: {finding.message}" if finding.rule else finding.message)


# ---- namespaces: those in the file, else the installed ones ---------------------------------------------------------


def cached_texts(keys: Store, hierarchy: Hierarchy) -> Texts:
    """Return the newest version of each cached namespace of a file."""
    location = spec_location(hierarchy.root.attributes.get(SPECLOC))
    found: dict[str, dict[str, str]] = {}
    for name, version in newest_versions(hierarchy).items():
        path = join(join(str(location), name), version)
        text = source_texts(keys, hierarchy, path)
        found[name] = {NAMESPACE: text(NAMESPACE)}
        for source in _sources(found[name][NAMESPACE], keys.location, path):
            found[name][source] = text(source)
    return frozen_texts(found)


def _sources(text: str, location: str, path: str) -> list[str]:
    try:
        listed = json.loads(text)["namespaces"]
        return [entry["source"] for namespace in listed for entry in namespace["schema"] if "source" in entry]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise MetadataError(
            f"the cached namespace is not valid ({type(error).__name__})",
            store=location,
            path=absolute(path),
            remedy=USE_INSTALLED,
        ) from error


def installed_texts(*, nwb: bool) -> Texts:
    """Return the installed namespaces: those of pynwb and hdmf, or only those of hdmf."""
    from hdmf_zarr_backend.builders.specs import namespace_texts  # imported here: hdmf is slow to import

    if nwb:
        from pynwb import get_type_map
    else:
        from hdmf.common import get_type_map
    texts = namespace_texts([get_type_map().namespace_catalog])
    return frozen_texts({name: sources for name, versions in texts.items() for sources in versions.values()})


def namespaces_for(
    keys: Store, parsed: ParsedFile, wanted: str | None, *, use_cached: bool
) -> tuple[Texts, list[str], bool]:
    """Return the namespaces for a file, the names of those to check against, and whether the file has them cached.

    An NWB file is checked against the cached namespaces that no other includes, or against the installed core, as in
    ``pynwb.validate``; another file against the namespace that the root names.
    """
    is_nwb = type_key_of(parsed.hierarchy.root) == "neurodata_type"
    texts = cached_texts(keys, parsed.hierarchy) if use_cached else ()
    if texts:
        return texts, _names(texts, parsed.hierarchy, wanted, is_nwb=is_nwb, cached=True), True
    texts = installed_texts(nwb=is_nwb)
    return texts, _names(texts, parsed.hierarchy, wanted, is_nwb=is_nwb, cached=False), False


def _names(texts: Texts, hierarchy: Hierarchy, wanted: str | None, *, is_nwb: bool, cached: bool) -> list[str]:
    known = [name for name, _ in texts]
    if wanted is not None:
        if wanted not in known:
            raise UsageError(f"there is no namespace {wanted!r}", remedy=f"Use one of {', '.join(known)}.")
        return [wanted]
    if is_nwb:
        below = included(texts)
        specific = [name for name in known if cached and not any(name in others for others in below.values())]
        return [name for name in specific if name != _IGNORED] or [_CORE]
    return [_named(hierarchy, known)]


def _named(hierarchy: Hierarchy, known: list[str]) -> str:
    """Return the namespace that the root names, one of the known ones."""
    named = hierarchy.root.attributes.get("namespace")
    if named is None:
        raise MetadataError(
            "the root has no attribute 'namespace', which names the schema of the file",
            path="/",
            remedy=f"Pass namespace= to check it against one of them: {', '.join(known)}.",
            remedy_cli=f"Use --namespace to check it against one of them: {', '.join(known)}.",
        )
    if named not in known:
        raise MetadataError(
            f"the root names the namespace {named!r}, which does not exist",
            path="/",
            remedy=f"Name one of them: {', '.join(known)}.",
        )
    return str(named)


# ---- rules applied to items -----------------------------------------------------------------------------------------


def check(root: Item, types: Types) -> tuple[list[Finding], int]:
    """Check a file against the types of a namespace."""
    checker = Checker(types)
    checker.run(root)
    found = sorted(dict.fromkeys(checker.findings), key=lambda finding: (finding.path, finding.attribute or ""))
    return found, len({item for _, item in checker.seen})


class Checker:
    """Checks items against rules; ``findings`` has the violations."""

    def __init__(self, types: Types) -> None:
        self.findings: list[Finding] = []
        self.seen: set[tuple[Rule, Item]] = set()
        self._types = types
        self._stack: list[tuple[Rule, Item]] = []

    def run(self, root: Item) -> None:
        """Check the root, and all items that rules apply to."""
        if root.data_type is None:
            self._add(root, "unknown-type", "the root has no type")
        else:
            self._push_type(root, root.data_type)
        while self._stack:  # not recursive: a file may be nested deeper than the recursion limit
            rule, item = self._stack.pop()
            self._check(rule, item)

    def _add(self, item: Item, kind: str, message: str, *, attribute: str | None = None, rule: str = "") -> None:
        self.findings.append(Finding(item.path, attribute, kind, message, rule))

    def _push(self, rule: Rule, item: Item) -> None:
        if (rule, item) not in self.seen:
            self.seen.add((rule, item))
            self._stack.append((rule, item))

    def _push_type(self, item: Item, data_type: str) -> None:
        rule = self._types.rules.get(data_type)
        if rule is None:
            self._add(item, "unknown-type", f"the namespace {self._types.namespace!r} has no type {data_type!r}")
        else:
            self._push(rule, item)

    def _check(self, rule: Rule, item: Item) -> None:
        if rule.is_group != item.is_group:
            names = ("dataset", "group")
            message = f"expected a {names[rule.is_group]}, found a {names[item.is_group]}"
            self._add(item, "wrong-node", message, rule=rule.title)
            return
        for attribute in rule.attributes:
            self._check_attribute(attribute, rule, item)
        if item.value is not None:
            for kind, message in _problems_of(rule.dtype, rule.shape, item.value, self._types):
                self._add(item, kind, message, rule=rule.title)
        else:
            self._check_members(rule, item)

    def _check_attribute(self, attribute: AttributeRule, rule: Rule, item: Item) -> None:
        title = f"{rule.title}.{attribute.name}"
        value = item.attributes.get(attribute.name)
        if value is None:
            if attribute.required:
                self._add(item, "missing", f"the attribute {attribute.name!r} is missing", rule=title)
            return
        for kind, message in _problems_of(attribute.dtype, attribute.shape, value, self._types):
            self._add(item, kind, message, attribute=attribute.name, rule=title)

    # ---- members ----------------------------------------------------------------------------------------------------

    def _check_members(self, rule: Rule, item: Item) -> None:
        assigned = self._assign(rule, item)
        for member_rule in rule.members:
            members = assigned.get(member_rule, [])
            self._check_quantity(member_rule, len(members), rule, item)
            for member in members:
                self._check_member(member_rule, member, item)

    def _assign(self, rule: Rule, item: Item) -> dict[MemberRule, list[Member]]:
        """Return the members that each rule applies to.

        As in hdmf, by name and type; if several rules match, the first that still needs a member.
        """
        assigned: dict[MemberRule, list[Member]] = {}
        for member in item.members:
            candidates = [one for one in rule.members if self._matches(one, member)]
            lacking = (one for one in candidates if _lacks(one, len(assigned.get(one, ()))))
            chosen = next(lacking, candidates[0] if candidates else None)
            if chosen is not None:
                assigned.setdefault(chosen, []).append(member)
        return assigned

    def _matches(self, rule: MemberRule, member: Member) -> bool:
        if rule.name is not None and rule.name != member.name:
            return False
        return rule.data_type is None or member.item.data_type in self._types.subtypes.get(rule.data_type, ())

    def _check_quantity(self, rule: MemberRule, count: int, parent: Rule, item: Item) -> None:
        if count == 0 and rule.is_required:
            self._add(item, "missing", f"the {rule.title} is missing", rule=parent.title)
        elif (count > 1 and not rule.is_many) or (isinstance(rule.quantity, int) and count != rule.quantity):
            message = f"expected {rule.quantity} of the {rule.title}, found {count}"
            self._add(item, "quantity", message, rule=parent.title)

    def _check_member(self, rule: MemberRule, member: Member, parent: Item) -> None:
        if member.is_link and rule.rule is not None and not rule.linkable:
            message = f"{member.name!r} is a link; its target was not checked"
            self._add(parent, "illegal-link", message, rule=rule.rule.title)
            return
        for data_type in dict.fromkeys((member.item.data_type, rule.data_type)):
            if data_type is not None:
                self._push_type(member.item, data_type)
        if rule.rule is not None:
            self._push(rule.rule, member.item)


def _lacks(rule: MemberRule, count: int) -> bool:
    """Tell whether a rule requires more members than it has."""
    return (rule.is_required and count == 0) or (isinstance(rule.quantity, int) and count < rule.quantity)


# ---- values ---------------------------------------------------------------------------------------------------------


def _problems_of(dtype: DType, shape: object, value: Value, types: Types) -> Iterator[tuple[str, str]]:
    """Yield kind and message of each problem of a value with the expected type and shape."""
    if dtype is not None and value.dtype is not None:
        yield from _problems_of_type(dtype, value, types)
    if not fits(shape, value.shape):
        found = "no array" if value.shape is None else f"the shape {_shape_text(value.shape)}"
        yield "shape", f"expected the shape {_shape_text(shape)}, found {found}"


def _problems_of_type(dtype: DType, value: Value, types: Types) -> Iterator[tuple[str, str]]:
    if isinstance(dtype, Target):
        yield from _problems_of_reference(dtype.data_type, value, types)
    elif isinstance(dtype, tuple):
        wanted = [field_type for _, field_type in dtype]
        if not _are_rows(wanted, value.dtype):
            yield "dtype", f"expected rows of {', '.join(wanted)}, found {_type_text(value.dtype)}"
    elif not isinstance(dtype, str) or not accepts(dtype, value.dtype):
        yield "dtype", f"expected {dtype}, found {_type_text(value.dtype)}"
    elif dtype == ISODATETIME and value.format in _NO_TIMES:
        yield "time", _NO_TIMES[value.format]


def _problems_of_reference(wanted: str, value: Value, types: Types) -> Iterator[tuple[str, str]]:
    if value.dtype != REFERENCE:
        yield "dtype", f"expected a reference to {wanted}, found {_type_text(value.dtype)}"
    elif value.target is not None and wanted not in types.ancestors(value.target):
        found = f"one to {value.target}" if value.target else "one to an object without a type"
        yield "target-type", f"expected a reference to {wanted}, found {found}"


_NO_TIMES = {OTHER: "the text is not a time of ISO 8601", NAIVE: "the time has no time zone"}


def _are_rows(wanted: list[str], found: object) -> bool:
    return isinstance(found, tuple) and len(found) >= len(wanted) and all(map(accepts, wanted, found))


def _type_text(dtype: object) -> str:
    if isinstance(dtype, tuple):
        return f"rows of {', '.join(dtype)}"
    return "int64" if dtype == NATURAL else str(dtype)


def _shape_text(shape: object) -> str:
    if isinstance(shape, (list, tuple)):
        if shape and isinstance(shape[0], (list, tuple)):
            return " or ".join(map(_shape_text, shape))
        return f"({', '.join(map(_shape_text, shape))}{',' if len(shape) == 1 else ''})"
    return "*" if shape is None else str(shape)
