"""Rules of a namespace for the content of files, compiled from its JSON, including inherited rules.

A type has what its parent has, except for what it redefines: members and attributes of the same name are joined, and an
inherited member without a name is kept unless the type has one of the same type. A member that includes a type is
joined with that type too.

Source: HDMF specification language 2.1, "Extending and including types"; hdmf 6, ``hdmf.spec`` and ``hdmf.validate``,
whose results these rules give. Standard library only.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final, Literal, TypeAlias

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.formats.namespaces import NAMESPACE

REFERENCE: Final = "reference"
"""The type of references in attributes and data."""

NATURAL: Final = "natural"
"""A non-negative JSON integer in a file that does not record types, which may have been unsigned."""

ISODATETIME: Final = "isodatetime"


@dataclass(slots=True, frozen=True)
class Target:
    """A reference to an object of a type."""

    data_type: str


DType: TypeAlias = "str | Target | tuple[tuple[str, str], ...] | None"
"""A type of the specification language, a reference, fields of a compound as names and types, or None for any type."""

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float64")
_TEXT = ("utf", "ascii")


def _accepted() -> dict[str, frozenset[str]]:
    table: dict[str, tuple[str, ...]] = {
        "float": _FLOATS, "float32": _FLOATS, "double": _FLOATS[1:], "float64": _FLOATS[1:],
        "int8": _SIGNED, "short": _SIGNED[1:], "int16": _SIGNED[1:], "int": _SIGNED[2:], "int32": _SIGNED[2:],
        "long": _SIGNED[3:], "int64": _SIGNED[3:], "uint": _UNSIGNED[2:],
        **{name: _UNSIGNED[position:] for position, name in enumerate(_UNSIGNED)},
        "numeric": (*_FLOATS, *_SIGNED, *_UNSIGNED),
        **dict.fromkeys(("text", "utf", "utf8", "utf-8", ISODATETIME), _TEXT),
        **dict.fromkeys(("ascii", "bytes"), _TEXT[1:]),
        "bool": ("bool",), "object": (REFERENCE,),
    }  # fmt: skip
    with_natural = {name for name, types in table.items() if "int64" in types or types[-1] == "uint64"}
    return {name: frozenset((*types, NATURAL) if name in with_natural else types) for name, types in table.items()}


ACCEPTED: Final = _accepted()
"""For each type of a specification the types that data may have: the type itself, and wider types of its kind.

Times are text here; a separate rule checks their format.
"""


def accepts(expected: str, received: Any) -> bool:
    """Tell whether data may have the type `received` if a specification has `expected`."""
    return received in ACCEPTED.get(expected, ())


def fits(expected: Any, shape: Any) -> bool:
    """Tell whether a specification allows a shape."""
    if expected is None:
        return True
    if not isinstance(expected, (list, tuple)):
        return bool(expected == shape)
    if expected and isinstance(expected[0], (list, tuple)):
        return any(fits(one, shape) for one in expected)
    if not isinstance(shape, tuple) or len(expected) != len(shape):
        return False
    return all(map(fits, expected, shape))


@dataclass(slots=True, frozen=True)
class AttributeRule:
    """The rule for one attribute.

    Attributes
    ----------
    name : str
        Its name.
    dtype : str or Target
        Type of its value.
    shape : list or None
        As for `fits`.
    required : bool
        Whether it must be present.
    has_default : bool
        Whether the specification has a value that applies if it is absent.
    """

    name: str
    dtype: str | Target
    shape: Any = None
    required: bool = True
    has_default: bool = False


Section = Literal["dataset", "group", "link"]
SECTIONS: Final[tuple[Section, ...]] = ("dataset", "group", "link")
"""Kinds of members in the order of checking."""

Quantity: TypeAlias = "int | str"


@dataclass(slots=True, frozen=True, eq=False)
class Rule:
    """The rule for the content of a group or dataset. Places with the same rule share one object.

    Attributes
    ----------
    title : str
        Position in the specification, for messages: a type and the path inside it.
    is_group : bool
        Whether it is a group, not a dataset.
    attributes : tuple of AttributeRule
        Rules for the attributes.
    dtype : str, Target, tuple or None
        Type of the data.
    shape : list or None
        As for `fits`.
    members : tuple of MemberRule
        Rules for the members of a group: datasets, groups, links.
    dims : list or None
        Names of the axes; a list of lists if several shapes are possible.

    Notes
    -----
    The methods have the names of those of ``hdmf.spec.GroupSpec``, because `builders.dimensions` accepts both.
    """

    title: str
    is_group: bool
    attributes: tuple[AttributeRule, ...] = ()
    dtype: DType = None
    shape: Any = None
    members: tuple[MemberRule, ...] = ()
    dims: Any = None

    def get_group(self, name: str) -> Rule | None:
        """Return the rule for the group with a name."""
        return self._member("group", name)

    def get_dataset(self, name: str) -> Rule | None:
        """Return the rule for the dataset with a name."""
        return self._member("dataset", name)

    def get_data_type(self, data_type: str) -> Rule | None:
        """Return the rule for datasets of a type that may have any name."""
        return self._member("dataset", None, data_type)

    def _member(self, section: Section, name: str | None, data_type: str | None = None) -> Rule | None:
        for member in self.members:
            is_meant = member.name == name and (data_type is None or member.data_type == data_type)
            if is_meant and member.section == section and member.rule is not None:
                return member.rule
        return None

    @property
    def is_bare(self) -> bool:
        """Whether the rule only requires that the node exists."""
        return not (self.attributes or self.members) and self.dtype is None and self.shape is None


@dataclass(slots=True, frozen=True, eq=False)
class MemberRule:
    """The rule for members of a group.

    Attributes
    ----------
    section : {"dataset", "group", "link"}
        Kind of the member in the specification. A link may replace a dataset or group that is `linkable`.
    name : str or None
        Its name; None if any name is possible.
    data_type : str or None
        Its type, or that of the target of a link.
    quantity : int or str
        How many: a number, ``"?"``, ``"*"`` or ``"+"``.
    linkable : bool
        Whether a link may replace it.
    rule : Rule or None
        The rule for its content, in addition to that of its type; None for a link.
    """

    section: Section
    name: str | None
    data_type: str | None
    quantity: Quantity = 1
    linkable: bool = True
    rule: Rule | None = None

    @property
    def is_required(self) -> bool:
        """Whether at least one is required."""
        return self.quantity not in ("?", "*")

    @property
    def is_many(self) -> bool:
        """Whether several are allowed."""
        return self.quantity not in (1, "?")

    @property
    def title(self) -> str:
        """Its name for messages."""
        named = f"{self.name!r} " if self.name else ""
        typed = f"of type {self.data_type}" if self.data_type else ""
        return f"{self.section} {named}{typed}".rstrip()


@dataclass
class Types:
    """The types of one namespace, including those from other namespaces.

    Attributes
    ----------
    namespace, version : str
        Name and version of the namespace.
    rules : dict
        ``{type: Rule}``, including inherited rules.
    parents : dict
        ``{type: type or None}``.
    """

    namespace: str
    version: str
    rules: dict[str, Rule] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)

    def ancestors(self, data_type: str) -> tuple[str, ...]:
        """Return a type and all types that it extends, directly or indirectly."""
        found: list[str] = []
        here: str | None = data_type
        while here is not None and here not in found:
            found.append(here)
            here = self.parents.get(here)
        return tuple(found)

    @cached_property
    def subtypes(self) -> dict[str, frozenset[str]]:
        """``{type: types}``: the type itself and all types that extend it."""
        found: dict[str, set[str]] = {data_type: set() for data_type in self.rules}
        for data_type in self.rules:
            for ancestor in self.ancestors(data_type):
                found.setdefault(ancestor, set()).add(data_type)
        return {data_type: frozenset(names) for data_type, names in found.items()}


# ---- namespaces as JSON ---------------------------------------------------------------------------------------------

Texts: TypeAlias = "tuple[tuple[str, tuple[tuple[str, str], ...]], ...]"
"""``(namespace, ((source, JSON text), ...))`` of each namespace, as a hashable value."""

Spec: TypeAlias = dict[str, Any]

USE_INSTALLED: Final = (
    "Validate against the installed namespaces, with `zarrio validate --installed` or use_cached=False."
)
"""The remedy for cached namespaces that are not valid."""


def frozen_texts(texts: Mapping[str, Mapping[str, str]]) -> Texts:
    """Return ``{namespace: {source: text}}`` as a hashable value."""
    return tuple((name, tuple(sorted(sources.items()))) for name, sources in sorted(texts.items()))


@lru_cache(maxsize=32)
def compile_types(texts: Texts, namespace: str) -> Types:
    """Return the types of a namespace. The same texts are compiled once in a process."""
    documents = {name: dict(sources) for name, sources in texts}
    with _understanding(namespace):
        found = _Namespaces(documents).registered(namespace)
        types = Types(namespace, str(_header(documents, namespace).get("version")))
        types.parents.update((name, inc_of(spec)) for name, (spec, _) in found.items())
        _Compiler(found, types).run()
    return types


def included(texts: Texts) -> dict[str, set[str]]:
    """Return ``{namespace: namespaces}`` that each includes directly."""
    documents = {name: dict(sources) for name, sources in texts}
    found: dict[str, set[str]] = {}
    for name in documents:
        with _understanding(name):
            entries = _header(documents, name).get("schema", ())
            found[name] = {entry["namespace"] for entry in entries if "namespace" in entry}
    return found


@contextmanager
def _understanding(namespace: str) -> Iterator[None]:
    """Turn errors about an invalid specification into errors that name the namespace."""
    try:
        yield
    except MetadataError:
        raise  # it has a message already
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise MetadataError(
            f"the namespace {namespace!r} cannot be understood ({type(error).__name__}: {error})", remedy=USE_INSTALLED
        ) from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a name")
    return value


def _header(documents: dict[str, dict[str, str]], namespace: str) -> Spec:
    if namespace not in documents:
        raise MetadataError(f"the namespace {namespace!r} is missing", remedy=USE_INSTALLED)
    listed = _load(documents[namespace], NAMESPACE).get("namespaces", ())
    header: Spec | None = next((entry for entry in listed if entry.get("name") == namespace), None)
    if header is None:
        raise MetadataError(f"the namespace {namespace!r} does not describe itself", remedy=USE_INSTALLED)
    return header


def _load(sources: dict[str, str], source: str) -> Spec:
    if source not in sources:
        raise MetadataError(f"the source {source!r} of a namespace is missing", remedy=USE_INSTALLED)
    document: Spec = json.loads(sources[source])
    return document


# ---- the types of a namespace ---------------------------------------------------------------------------------------


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
    """Finds the types of namespaces. If two sources define a type, the first definition is used."""

    def __init__(self, documents: dict[str, dict[str, str]]) -> None:
        self._documents = documents
        self._found: dict[str, Registered] = {}

    def registered(self, namespace: str) -> Registered:
        """Return the types of a namespace, with those that it includes."""
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
    """Add the type that a specification defines, and the types defined inside it."""
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


# ---- their rules ----------------------------------------------------------------------------------------------------


@dataclass
class _Compiler:
    """Makes the rules of all types, for each type after its parent and after the types that its members include."""

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
                raise MetadataError(
                    f"the type {parent!r}, which {name!r} extends, is not defined", remedy=USE_INSTALLED
                )
            rule = joined(rule, self.types.rules[parent])
        self.types.rules[name] = rule  # a member may include this type, and then gets the rule as it is now
        self.types.rules[name] = replace(rule, members=tuple(map(self._with_type, rule.members)))
        self._open.discard(name)
        self._done.add(name)

    def _with_type(self, member: MemberRule) -> MemberRule:
        """Join a member with the type that it includes, unless that type is being compiled itself."""
        name = member.data_type
        if member.rule is None or name is None or name in self._open:
            return member
        self._compile(name)
        base = self.types.rules.get(name)
        if base is None:
            raise MetadataError(f"the type {name!r}, which {member.rule.title!r} includes, is not defined",
                                remedy=USE_INSTALLED)  # fmt: skip
        if member.rule is base or (member.rule, name) in self._joined:
            return member
        rule = base if member.rule.is_bare else joined(member.rule, base)
        self._joined.add((rule, name))
        return replace(member, rule=rule)


def rule_of(spec: Spec, title: str, *, is_group: bool) -> Rule:
    """Return the rule of a specification, without what it inherits."""
    members = [_member(section, member, title) for section, member in _below(spec)] if is_group else []
    return Rule(
        title,
        is_group,
        attributes=tuple(map(_attribute, spec.get("attributes") or ())),
        dtype=None if is_group else _dtype(spec.get("dtype")),
        shape=None if is_group else _shape(spec),
        members=tuple(members),
        dims=None if is_group else spec.get("dims"),
    )


def _member(section: Any, spec: Spec, title: str) -> MemberRule:
    name, quantity = spec.get("name"), spec.get("quantity", 1)
    if name is not None:
        _text(name)
    if isinstance(quantity, str) and quantity.isdigit():
        quantity = int(quantity)
    if not isinstance(quantity, (int, str)):
        raise TypeError(f"{quantity!r} is not a quantity")
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
        fields = [(entry["name"], entry["dtype"]) for entry in dtype]
        return tuple((_text(name), "object" if isinstance(one, dict) else _text(one)) for name, one in fields)
    return Target(_text(dtype["target_type"])) if isinstance(dtype, dict) else dtype


def _shape(spec: Spec) -> Any:
    """Return the shape; dimension names without a shape give the number of axes, as in hdmf."""
    shape, dims = spec.get("shape"), spec.get("dims")
    return [None] * len(dims) if shape is None and isinstance(dims, list) else shape


# ---- inheritance ----------------------------------------------------------------------------------------------------


def joined(own: Rule, base: Rule) -> Rule:
    """Return the rules of `own` and `base` joined; where both define the same, `own` is used."""
    return Rule(
        own.title,
        own.is_group,
        attributes=_joined_attributes(own.attributes, base.attributes),
        dtype=_joined_dtype(own.dtype, base.dtype),
        shape=base.shape if own.shape is None else own.shape,
        members=_joined_members(own.members, base.members),
        dims=base.dims if own.shape is None else own.dims,
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
    # an attribute with a default value may be absent, even if another type requires it
    rest = [replace(rule, required=rule.required and not rule.has_default) for rule in inherited.values()]
    return (*found, *rest)


def _joined_members(own: tuple[MemberRule, ...], base: tuple[MemberRule, ...]) -> tuple[MemberRule, ...]:
    named = {(str(rule.section), rule.name): position for position, rule in enumerate(own)}
    own_types = {(rule.section == "link", rule.data_type) for rule in own if rule.name is None}
    found = list(own)
    for other in (rule for rule in base if rule.name is not None):
        position = named.get((other.section, other.name))
        if position is None:
            found.append(other)
            continue
        mine = found[position]
        if mine.rule is not None and other.rule is not None and mine.rule is not other.rule:
            found[position] = replace(mine, rule=joined(mine.rule, other.rule))
    found += (rule for rule in base if rule.name is None and (rule.section == "link", rule.data_type) not in own_types)
    return tuple(sorted(found, key=lambda rule: SECTIONS.index(rule.section)))
