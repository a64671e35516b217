"""`json_schema_for` and `describe`: namespaces as JSON Schema (draft 2020-12), and files as documents for it.

The results equal those of `validate`, with one exception. If several rules of a group match a member, and one of them
requires "one or more" or a number of members without a name, hdmf assigns the first such members to that rule and the
rest to the others; here each rule gets all of them.

The package imports this module when one of its names is first used.

Source: JSON Schema, draft 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias
from urllib.parse import quote

from hdmf_zarr_backend.checks.rules import (
    ACCEPTED,
    ISODATETIME,
    REFERENCE,
    AttributeRule,
    DType,
    MemberRule,
    Rule,
    Target,
    Types,
    compile_types,
)
from hdmf_zarr_backend.checks.validate import Source, installed_texts, namespaces_for, opened
from hdmf_zarr_backend.checks.view import ISO, UNKNOWN, Item, Value, view
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.options import ReadOptions

Schema: TypeAlias = "dict[str, Any]"

DIALECT = "https://json-schema.org/draft/2020-12/schema"

GROUP = "group"
DATASET = "dataset"


def json_schema_for(source: Source | None = None, namespace: str | None = None, **options: Any) -> dict[str, Any]:
    """Return a namespace as JSON Schema (draft 2020-12), for documents made by `describe`.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group, optional
        A file with the cached namespace; None: use an installed one.
    namespace : str, optional
        Its name; None: the one that `validate` uses, or ``"core"`` without a file.
    **options
        ``use_cached``, ``storage_options`` and ``read_options`` as for `validate`.

    Returns
    -------
    dict
        The schema, with the same results as `validate`.

    Raises
    ------
    MetadataError, UsageError
        As for `validate`; also if `validate` uses several namespaces of the file and no name is given.

    Source: JSON Schema, draft 2020-12.
    """
    if source is None:
        name = namespace or "core"
        return schema_of(compile_types(installed_texts(nwb=not name.startswith("hdmf-")), name))
    use_cached = options.pop("use_cached", True)
    storage_options, read_options = options.pop("storage_options", None), options.pop("read_options", None)
    if options:
        raise UsageError(
            f"unknown options: {', '.join(options)}", remedy="Give use_cached, storage_options or read_options."
        )
    with opened(source, storage_options, read_options) as (keys, parsed):
        texts, names, _ = namespaces_for(keys, parsed, namespace, use_cached=use_cached)
        if len(names) > 1:
            raise UsageError("there are several namespaces", remedy=f"Name one of {', '.join(names)}.")
        return schema_of(compile_types(texts, names[0]))


def describe(
    source: Source,
    *,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
) -> dict[str, Any]:
    """Return the content of a file as JSON, in the terms of HDMF, for validation with a schema.

    Each group and dataset has its name, kind, type and attributes (type and shape of each value, and the type of a
    reference's target); a dataset also has ``dtype``, ``shape`` and whether a text is a time; a group also has
    ``members``, including links with their targets. `json_schema_for` makes schemas for these documents.

    Parameters
    ----------
    source, storage_options, read_options
        As for `validate`.

    Returns
    -------
    dict
        The root group.

    Raises
    ------
    StoreNotFoundError, NotZarrError, MetadataError
        As for `validate`.
    """
    with opened(source, storage_options, read_options) as (keys, parsed):
        return document_of(view(resolver_of(keys, parsed.hierarchy)))


# ---- a file as a document -------------------------------------------------------------------------------------------


def document_of(root: Item) -> dict[str, Any]:
    """Return an item as JSON, with all items below it and the targets of its links.

    A link to a group above it has no content (``"is_above": true``), because that would be endless.
    """
    document = _document_of("root", root, is_link=False)
    stack = [(root, document, frozenset({root}))]
    while stack:  # not recursive: a file may be nested deeper than the recursion limit
        item, here, above = stack.pop()
        for member in item.members:
            child = _document_of(member.name, member.item, is_link=member.is_link)
            here["members"].append(child)
            if member.item in above:
                child["is_above"] = True
            elif member.item.is_group:
                stack.append((member.item, child, above | {member.item}))
    return document


def _document_of(name: str, item: Item, *, is_link: bool) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": name,
        "kind": GROUP if item.is_group else DATASET,
        "is_link": is_link,
        "data_type": item.data_type,
        "path": item.path,
        "attributes": {key: _value_document(value) for key, value in item.attributes.items()},
    }
    return {**document, "members": []} if item.value is None else {**document, **_value_document(item.value)}


def _value_document(value: Value) -> dict[str, Any]:
    found: dict[str, Any] = {
        "dtype": list(value.dtype) if isinstance(value.dtype, tuple) else value.dtype,
        "shape": None if value.shape is None else list(value.shape),
    }
    if value.format is not None:
        found["format"] = value.format
    if value.target is not None:
        found["target"] = value.target
    return found


# ---- a namespace as a schema ----------------------------------------------------------------------------------------


def schema_of(types: Types) -> Schema:
    """Return the JSON Schema of a namespace: for a file, and in ``$defs`` for each of its types."""
    return _Emitter(types).whole()


class _Emitter:
    def __init__(self, types: Types) -> None:
        self._types = types
        self._names: dict[Rule, str] = {rule: name for name, rule in types.rules.items()}
        self._used_names = set(self._names.values())
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
        """Return a reference to the schema of a rule, which is created once."""
        if rule not in self._names:
            name, count = rule.title, 1
            while name in self._used_names:
                count += 1
                name = f"{rule.title} ({count})"
            self._names[rule] = name
            self._used_names.add(name)
        name = self._names[rule]
        if name not in self._defs:
            self._defs[name] = {}
            self._stack.append(rule)
        return _ref_to(name)

    def _any(self, data_type: str | None) -> Schema:
        """Return a reference to a schema: an item of the type (None: of any type) follows the rules of its type."""
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
        """Return the schema: an item of one of the types follows its rules. Splits the list, which may be long."""
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
            matching = self._assigned(member, rule.members)
            parts += _quantity(member, matching)
            items.append({"if": matching, "then": _all_of(self._member(member))})
        return {"items": {"allOf": items}, **({"allOf": parts} if parts else {})}

    def _member(self, member: MemberRule) -> list[Schema]:
        found: list[Schema] = [self._any(member.data_type)]
        if member.rule is None:
            return found
        if member.data_type is None or member.rule is not self._types.rules.get(member.data_type):
            found.append(self._ref(member.rule))
        if not member.linkable:
            return [{"properties": {"is_link": {"const": False}}}, *found]
        return found

    def _assigned(self, member: MemberRule, members: tuple[MemberRule, ...]) -> Schema:
        """Return the schema of the members that a rule applies to: it matches them, and no earlier rule does."""
        order = sorted(members, key=lambda one: not one.is_required)  # stable: required ones come first
        before = [self._matching(one) for one in order[: order.index(member)] if self._overlap(one, member)]
        matching = self._matching(member)
        return {**matching, "not": {"anyOf": before}} if before else matching

    def _overlap(self, one: MemberRule, other: MemberRule) -> bool:
        if one.name is not None and other.name is not None and one.name != other.name:
            return False
        if one.data_type is None or other.data_type is None:
            return True
        return not self._subtypes(one.data_type).isdisjoint(self._subtypes(other.data_type))

    def _subtypes(self, data_type: str) -> frozenset[str]:
        return self._types.subtypes.get(data_type, frozenset())

    def _matching(self, member: MemberRule) -> Schema:
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
            stated = {"properties": self._dtype(dtype)}
            found.append({"anyOf": [{"properties": {"dtype": {"type": "null"}}}, stated]})
        if shape is not None:
            found.append({"properties": {"shape": _shape(shape)}})
        return found

    def _dtype(self, dtype: DType) -> Schema:
        if isinstance(dtype, Target):
            targets = sorted(self._subtypes(dtype.data_type))
            return {"dtype": {"const": REFERENCE}, "target": {"enum": targets}}
        if isinstance(dtype, tuple):
            fields = [_accepted(expected) for _, expected in dtype]
            return {"dtype": {"type": "array", "prefixItems": fields, "minItems": len(fields)}}
        assert dtype is not None
        found: Schema = {"dtype": _accepted(dtype)}
        return {**found, "format": {"enum": [ISO, UNKNOWN]}} if dtype == ISODATETIME else found


def _ref_to(name: str) -> Schema:
    return {"$ref": f"#/$defs/{quote(name.replace('~', '~0').replace('/', '~1'), safe='~()')}"}


def _all_of(parts: list[Schema]) -> Schema:
    return parts[0] if len(parts) == 1 else {"allOf": parts}


def _has(key: str, value: Any) -> Schema:
    return {"required": [key], "properties": {key: {"const": value}}}


def _accepted(expected: str) -> Schema:
    return {"enum": sorted(ACCEPTED.get(expected, ()))}


def _quantity(member: MemberRule, matching: Schema) -> list[Schema]:
    number = member.quantity if isinstance(member.quantity, int) else None
    least = number or int(member.is_required)
    most = number if number is not None else None if member.is_many else 1
    if not least and most is None:
        return []
    found: Schema = {"contains": matching, "minContains": least}
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
