"""Namespaces as JSON -> rules in which everything is said that types inherit. Standard library only.

A type has what its parent has, except where it says something itself: members and attributes of the same name are
joined, and a member without a name stays unless one of the same type takes its place. A member that includes a type is
joined with that type too.

Source: HDMF specification language 2.1, "Extending and including types"; hdmf 6, ``hdmf.spec``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.namespaces import NAMESPACE
from hdmf_zarr_backend.validation.rules import SECTIONS, AttributeRule, DType, MemberRule, Rule, Target, Types

Texts: TypeAlias = "tuple[tuple[str, tuple[tuple[str, str], ...]], ...]"
"""``(namespace, ((source, JSON text), ...))`` of each namespace, as a value that can be remembered by."""

Spec: TypeAlias = dict[str, Any]

_REMEDY = "Validate against the installed namespaces: use_cached=False, or --installed."


def frozen_texts(texts: Mapping[str, Mapping[str, str]]) -> Texts:
    """Return ``{namespace: {source: text}}`` as a value."""
    return tuple((name, tuple(sorted(sources.items()))) for name, sources in sorted(texts.items()))


@lru_cache(maxsize=32)
def compile_types(texts: Texts, namespace: str) -> Types:
    """Return the types of a namespace; the same texts are worked through once in a process.

    Parameters
    ----------
    texts : tuple
        The namespace and all that it includes, from `frozen_texts`.
    namespace : str
        Its name.

    Raises
    ------
    MetadataError
        A namespace or a source is missing, or is none.
    """
    documents = {name: dict(sources) for name, sources in texts}
    with _understanding(namespace):
        found = _Namespaces(documents).registered(namespace)
        types = Types(namespace, str(_header(documents, namespace).get("version")))
        types.parents.update((name, inc_of(spec)) for name, (spec, _) in found.items())
        _Compiler(found, types).run()
    return types


def included(texts: Texts) -> dict[str, set[str]]:
    """Return ``{namespace: namespaces}`` that each includes, by itself.

    Raises
    ------
    MetadataError
        As of `compile_types`.
    """
    documents = {name: dict(sources) for name, sources in texts}
    found: dict[str, set[str]] = {}
    for name in documents:
        with _understanding(name):
            entries = _header(documents, name).get("schema", ())
            found[name] = {entry["namespace"] for entry in entries if "namespace" in entry}
    return found


@contextmanager
def _understanding(namespace: str) -> Iterator[None]:
    """Say of which namespace it is that something is wrong."""
    try:
        yield
    except MetadataError:
        raise  # it says so itself
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise MetadataError(
            f"the namespace {namespace!r} cannot be understood ({type(error).__name__}: {error})", remedy=_REMEDY
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no name")
    return value


def _header(documents: dict[str, dict[str, str]], namespace: str) -> Spec:
    if namespace not in documents:
        raise MetadataError(f"the namespace {namespace!r} is not there", remedy=_REMEDY)
    listed = _load(documents[namespace], NAMESPACE).get("namespaces", ())
    header: Spec | None = next((entry for entry in listed if entry.get("name") == namespace), None)
    if header is None:
        raise MetadataError(f"the namespace {namespace!r} does not describe itself", remedy=_REMEDY)
    return header


def _load(sources: dict[str, str], source: str) -> Spec:
    if source not in sources:
        raise MetadataError(f"the source {source!r} of a namespace is missing", remedy=_REMEDY)
    document: Spec = json.loads(sources[source])
    return document


# ---- which types there are ------------------------------------------------------------------------------------------


def def_of(spec: Spec) -> str | None:
    """Return the type that a specification defines."""
    return _type_name(spec, "def")


def inc_of(spec: Spec) -> str | None:
    """Return the type that a specification includes."""
    found = _type_name(spec, "inc")
    return None if found == def_of(spec) else found


def _type_name(spec: Spec, suffix: str) -> str | None:
    found = spec.get(f"neurodata_type_{suffix}", spec.get(f"data_type_{suffix}"))
    return None if found is None else _text(found)


def _below(spec: Spec) -> Iterator[tuple[str, Spec]]:
    """Yield section and specification of each member."""
    for section in SECTIONS:
        for member in spec.get(f"{section}s") or ():
            yield section, member


Registered: TypeAlias = "dict[str, tuple[Spec, bool]]"
"""``{type: (specification, whether it is a group)}``, in the order of the sources."""


class _Namespaces:
    """Finds the types of namespaces; a type that two sources define is that of the first."""

    def __init__(self, documents: dict[str, dict[str, str]]) -> None:
        self._documents = documents
        self._found: dict[str, Registered] = {}

    def registered(self, namespace: str) -> Registered:
        """Return the types of a namespace, those that it includes among them."""
        if namespace not in self._found:
            found = self._found[namespace] = {}
            for entry in _header(self._documents, namespace)["schema"]:
                wanted = entry.get("neurodata_types", entry.get("data_types"))
                if "source" in entry:
                    self._add_source(found, _load(self._documents[namespace], entry["source"]), wanted)
                else:
                    others = self.registered(entry["namespace"])
                    for name in others if wanted is None else wanted:
                        _include(found, others, name, set())
        return self._found[namespace]

    @staticmethod
    def _add_source(found: Registered, document: Spec, wanted: Any) -> None:
        for section, spec in _below(document):
            if wanted is None or def_of(spec) in wanted:
                _register(found, spec, is_group=section == "group")


def _register(found: Registered, spec: Spec, *, is_group: bool) -> None:
    """Add the type that a specification defines, and those that are defined inside of it."""
    name = def_of(spec)
    if name is not None:
        found.setdefault(name, (spec, is_group))
    for section, member in _below(spec):
        if section == "group" or (section == "dataset" and def_of(member) is not None):
            _register(found, member, is_group=section == "group")


def _include(found: Registered, others: Registered, name: str, visited: set[str]) -> None:
    """Add a type of another namespace, and all types that it needs."""
    if name in visited:
        return
    visited.add(name)
    spec, is_group = others[name]
    for needed in _needed(spec):
        if needed != name:
            _include(found, others, needed, visited)
    found.setdefault(name, (spec, is_group))


def _needed(spec: Spec) -> Iterator[str]:
    for needed in (inc_of(spec), def_of(spec), spec.get("target_type")):
        if needed is not None:
            yield needed
    for _, member in _below(spec):
        yield from _needed(member)


# ---- what they ask for ----------------------------------------------------------------------------------------------


@dataclass
class _Compiler:
    """Makes the rules of all types; a type comes after its parent and after those that its members include."""

    found: Registered
    types: Types
    _open: set[str] = field(default_factory=set)
    _done: set[str] = field(default_factory=set)
    _joined: set[tuple[Rule, str]] = field(default_factory=set)

    def run(self) -> None:
        for name in self.found:
            self._compile(name)

    def _compile(self, name: str) -> None:
        if name in self._done or name in self._open or name not in self.found:
            return
        self._open.add(name)
        spec, is_group = self.found[name]
        rule = rule_of(spec, name, is_group=is_group)
        parent = inc_of(spec)
        if parent is not None:
            self._compile(parent)
            if parent not in self.types.rules:
                raise MetadataError(f"the type {parent!r}, which {name!r} extends, is not defined", remedy=_REMEDY)
            rule = joined(rule, self.types.rules[parent])
        self.types.rules[name] = rule  # a member may lead back here, and then takes what is known so far
        self.types.rules[name] = replace(rule, members=tuple(map(self._with_type, rule.members)))
        self._open.discard(name)
        self._done.add(name)

    def _with_type(self, member: MemberRule) -> MemberRule:
        """Join a member with the type that it includes; a type that is being made itself is left as it is."""
        name = member.data_type
        if member.rule is None or name is None or name in self._open:
            return member
        self._compile(name)
        base = self.types.rules.get(name)
        if base is None:
            raise MetadataError(f"the type {name!r}, which {member.rule.title!r} includes, is not defined",
                                remedy=_REMEDY)  # fmt: skip
        if member.rule is base or (member.rule, name) in self._joined:
            return member
        rule = base if member.rule.is_bare else joined(member.rule, base)
        self._joined.add((rule, name))
        return replace(member, rule=rule)


def rule_of(spec: Spec, title: str, *, is_group: bool) -> Rule:
    """Return what a specification says itself."""
    members = [_member(section, member, title) for section, member in _below(spec)] if is_group else []
    return Rule(
        title,
        is_group,
        attributes=tuple(map(_attribute, spec.get("attributes") or ())),
        dtype=None if is_group else _dtype(spec.get("dtype")),
        shape=None if is_group else _shape(spec),
        members=tuple(members),
    )


def _member(section: Any, spec: Spec, title: str) -> MemberRule:
    name, quantity = spec.get("name"), spec.get("quantity", 1)
    if name is not None:
        _text(name)
    if isinstance(quantity, str) and quantity.isdigit():
        quantity = int(quantity)
    if not isinstance(quantity, (int, str)):
        raise TypeError(f"{quantity!r} is no quantity")
    if section == "link":
        return MemberRule(section, name, _text(spec["target_type"]), quantity)
    data_type = def_of(spec) or inc_of(spec)
    rule = rule_of(spec, f"{title}/{name or data_type}", is_group=section == "group")
    return MemberRule(section, name, data_type, quantity, linkable=spec.get("linkable", True), rule=rule)


def _attribute(spec: Spec) -> AttributeRule:
    dtype = _dtype(spec["dtype"])
    if not isinstance(dtype, (str, Target)):
        raise TypeError(f"the attribute {spec['name']!r} has no simple type")
    has_default = spec.get("default_value") is not None
    required = spec.get("value") is not None or (spec.get("required", True) and not has_default)
    return AttributeRule(_text(spec["name"]), dtype, _shape(spec), required=required, has_default=has_default)


def _dtype(dtype: Any) -> DType:
    if isinstance(dtype, list):
        words = [(entry["name"], entry["dtype"]) for entry in dtype]
        return tuple((_text(name), "object" if isinstance(word, dict) else _text(word)) for name, word in words)
    return Target(_text(dtype["target_type"])) if isinstance(dtype, dict) else dtype


def _shape(spec: Spec) -> Any:
    """Return the shape; names of dimensions alone tell how many there are, as hdmf counts them."""
    shape, dims = spec.get("shape"), spec.get("dims")
    return [None] * len(dims) if shape is None and isinstance(dims, list) else shape


# ---- what is inherited ----------------------------------------------------------------------------------------------


def joined(own: Rule, base: Rule) -> Rule:
    """Return what `own` and `base` ask for together; where both speak of the same, `own` counts."""
    return Rule(
        own.title,
        own.is_group,
        attributes=_joined_attributes(own.attributes, base.attributes),
        dtype=_joined_dtype(own.dtype, base.dtype),
        shape=base.shape if own.shape is None else own.shape,
        members=_joined_members(own.members, base.members),
    )


def _joined_dtype(own: DType, base: DType) -> DType:
    if own is None:
        return base
    if isinstance(own, tuple) and isinstance(base, tuple):
        return tuple({**dict(base), **dict(own)}.items())
    return own


def _joined_attributes(own: tuple[AttributeRule, ...], base: tuple[AttributeRule, ...]) -> tuple[AttributeRule, ...]:
    inherited = {rule.name: rule for rule in base}
    found = []
    for rule in own:
        other = inherited.pop(rule.name, None)
        if other is not None:
            shape = other.shape if rule.shape is None else rule.shape
            found.append(replace(rule, shape=shape, has_default=rule.has_default or other.has_default))
        else:
            found.append(rule)
    # what has a default value need not be there, whoever said so
    rest = [replace(rule, required=rule.required and not rule.has_default) for rule in inherited.values()]
    return (*found, *rest)


def _joined_members(own: tuple[MemberRule, ...], base: tuple[MemberRule, ...]) -> tuple[MemberRule, ...]:
    named = {(str(rule.section), rule.name): position for position, rule in enumerate(own)}
    taken = {(rule.section == "link", rule.data_type) for rule in own if rule.name is None}
    found = list(own)
    for other in (rule for rule in base if rule.name is not None):
        position = named.get((other.section, other.name))
        if position is None:
            found.append(other)
            continue
        mine = found[position]
        if mine.rule is not None and other.rule is not None and mine.rule is not other.rule:
            found[position] = replace(mine, rule=joined(mine.rule, other.rule))
    found += (rule for rule in base if rule.name is None and (rule.section == "link", rule.data_type) not in taken)
    return tuple(sorted(found, key=lambda rule: SECTIONS.index(rule.section)))
