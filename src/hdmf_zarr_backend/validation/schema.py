"""Rules as JSON Schema (draft 2020-12), for the documents of `documents`.

The one place where the two differ: if a member may be meant by several rules of a group and one of them asks for
"one or more", or for a number, of members without a name, hdmf gives it the first such members and the others the
rest; here it gets them all.

Source: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

from typing import Any, TypeAlias
from urllib.parse import quote

from hdmf_zarr_backend.validation.documents import DATASET, GROUP
from hdmf_zarr_backend.validation.rules import (
    ACCEPTED,
    ISODATETIME,
    REFERENCE,
    AttributeRule,
    DType,
    MemberRule,
    Rule,
    Target,
    Types,
)
from hdmf_zarr_backend.validation.times import ISO, UNKNOWN

Schema: TypeAlias = "dict[str, Any]"

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(types: Types) -> Schema:
    """Return the JSON Schema of a namespace: of a whole file, and in ``$defs`` of each of its types.

    Parameters
    ----------
    types : Types
        The namespace.
    """
    return _Emitter(types).whole()


class _Emitter:
    def __init__(self, types: Types) -> None:
        self._types = types
        self._names: dict[Rule, str] = {rule: name for name, rule in types.rules.items()}
        self._taken = set(self._names.values())
        self._defs: dict[str, Schema] = {}
        self._stack: list[Rule] = []

    def whole(self) -> Schema:
        """Return the schema of a file."""
        names = sorted(self._types.rules)
        for name in names:
            self._ref(self._types.rules[name])
        while self._stack:
            rule = self._stack.pop()
            self._defs[self._names[rule]] = self._rule(rule)
        return {
            "$schema": DIALECT,
            "title": f"{self._types.namespace} {self._types.version}",
            "required": ["data_type"],
            "properties": {"data_type": {"enum": names}},
            "allOf": [self._any(None)],
            "$defs": dict(sorted(self._defs.items())),
        }

    # ---- names ------------------------------------------------------------------------------------------------------

    def _ref(self, rule: Rule) -> Schema:
        """Return a reference to the schema of a rule, which is made once."""
        if rule not in self._names:
            name, count = rule.title, 1
            while name in self._taken:
                count += 1
                name = f"{rule.title} ({count})"
            self._names[rule] = name
            self._taken.add(name)
        name = self._names[rule]
        if name not in self._defs:
            self._defs[name] = {}
            self._stack.append(rule)
        return _ref_to(name)

    def _any(self, data_type: str | None) -> Schema:
        """Return a reference to: an item of the type, or of any (None), does what its own type asks for."""
        name = "any" if data_type is None else f"any {data_type}"
        if name not in self._defs:
            self._defs[name] = {}
            if data_type is None:
                allowed = sorted(self._types.rules)
                own: list[Schema] = [{"properties": {"data_type": {"enum": [None, *allowed]}}}]
            else:
                allowed = sorted(self._subtypes(data_type) - {data_type})
                own = [self._ref(self._types.rules[data_type])] if data_type in self._types.rules else []
            own += self._one_of(allowed)
            self._defs[name] = _all_of(own) if own else {}
        return _ref_to(name)

    def _one_of(self, names: list[str]) -> list[Schema]:
        """Return: what is of one of the types, does what that type asks for; halved, since types may be hundreds."""
        if len(names) <= 1:
            return [{"if": _has("data_type", name), "then": self._ref(self._types.rules[name])} for name in names]
        half = len(names) // 2
        first, second = (_all_of(self._one_of(part)) for part in (names[:half], names[half:]))
        return [{"if": {"properties": {"data_type": {"enum": names[:half]}}}, "then": first, "else": second}]

    # ---- groups and datasets ----------------------------------------------------------------------------------------

    def _rule(self, rule: Rule) -> Schema:
        properties: Schema = {"kind": {"const": GROUP if rule.is_group else DATASET}}
        if rule.attributes:
            properties["attributes"] = self._attributes(rule.attributes)
        if rule.members:
            properties["members"] = self._members(rule)
        parts = [{"properties": properties}, *([] if rule.is_group else self._value(rule.dtype, rule.shape))]
        return {"title": rule.title, "if": _has("is_above", True), "else": _all_of(parts)}  # noqa: FBT003 # a value

    def _attributes(self, rules: tuple[AttributeRule, ...]) -> Schema:
        found: Schema = {"properties": {rule.name: _all_of(self._value(rule.dtype, rule.shape)) for rule in rules}}
        required = [rule.name for rule in rules if rule.required]
        return {**found, "required": required} if required else found

    def _members(self, rule: Rule) -> Schema:
        parts: list[Schema] = []
        items: list[Schema] = []
        for member in rule.members:
            meant = self._assigned(member, rule.members)
            parts += _quantity(member, meant)
            items.append({"if": meant, "then": _all_of(self._member(member))})
        return {"items": {"allOf": items}, **({"allOf": parts} if parts else {})}

    def _member(self, member: MemberRule) -> list[Schema]:
        asked: list[Schema] = [self._any(member.data_type)]
        if member.rule is None:
            return asked
        if member.data_type is None or member.rule is not self._types.rules.get(member.data_type):
            asked.append(self._ref(member.rule))
        if not member.linkable:
            return [{"properties": {"is_link": {"const": False}}}, *asked]
        return asked

    def _assigned(self, member: MemberRule, members: tuple[MemberRule, ...]) -> Schema:
        """Return the schema of the members that a rule is about: those that it means, and no rule before it."""
        order = sorted(members, key=lambda one: not one.is_required)  # stable: those that have to be there come first
        before = [self._meant(one) for one in order[: order.index(member)] if self._overlap(one, member)]
        meant = self._meant(member)
        return {**meant, "not": {"anyOf": before}} if before else meant

    def _overlap(self, one: MemberRule, other: MemberRule) -> bool:
        if one.name is not None and other.name is not None and one.name != other.name:
            return False
        if one.data_type is None or other.data_type is None:
            return True
        return not self._subtypes(one.data_type).isdisjoint(self._subtypes(other.data_type))

    def _subtypes(self, data_type: str) -> frozenset[str]:
        return self._types.subtypes.get(data_type, frozenset())

    def _meant(self, member: MemberRule) -> Schema:
        properties: Schema = {}
        if member.name is not None:
            properties["name"] = {"const": member.name}
        if member.data_type is not None:
            properties["data_type"] = {"enum": sorted(self._subtypes(member.data_type))}
        return {"properties": properties}

    # ---- values -----------------------------------------------------------------------------------------------------

    def _value(self, dtype: DType, shape: Any) -> list[Schema]:
        found: list[Schema] = []
        if dtype is not None:
            told = {"properties": self._dtype(dtype)}
            found.append({"anyOf": [{"properties": {"dtype": {"type": "null"}}}, told]})
        if shape is not None:
            found.append({"properties": {"shape": _shape(shape)}})
        return found

    def _dtype(self, dtype: DType) -> Schema:
        if isinstance(dtype, Target):
            targets = sorted(self._subtypes(dtype.data_type))
            return {"dtype": {"const": REFERENCE}, "target": {"enum": targets}}
        if isinstance(dtype, tuple):
            words = [_word(word) for _, word in dtype]
            return {"dtype": {"type": "array", "prefixItems": words, "minItems": len(words)}}
        assert dtype is not None
        found: Schema = {"dtype": _word(dtype)}
        return {**found, "format": {"enum": [ISO, UNKNOWN]}} if dtype == ISODATETIME else found


def _ref_to(name: str) -> Schema:
    return {"$ref": f"#/$defs/{quote(name.replace('~', '~0').replace('/', '~1'), safe='~()')}"}


def _all_of(parts: list[Schema]) -> Schema:
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def _has(key: str, value: Any) -> Schema:
    return {"required": [key], "properties": {key: {"const": value}}}


def _word(word: str) -> Schema:
    return {"enum": sorted(ACCEPTED.get(word, ()))}


def _quantity(member: MemberRule, meant: Schema) -> list[Schema]:
    number = member.quantity if isinstance(member.quantity, int) else None
    least = number or int(member.is_required)
    most = number if number is not None else None if member.is_many else 1
    if not least and most is None:
        return []
    found: Schema = {"contains": meant, "minContains": least}
    return [found if most is None else {**found, "maxContains": most}]


def _shape(shape: Any) -> Schema:
    if shape is None:
        return {}
    if not isinstance(shape, (list, tuple)):
        return {"const": shape}
    if shape and isinstance(shape[0], (list, tuple)):
        return {"anyOf": [_shape(one) for one in shape]}
    return {"type": "array", "prefixItems": [_shape(one) for one in shape], "minItems": len(shape),
            "maxItems": len(shape)}  # fmt: skip
