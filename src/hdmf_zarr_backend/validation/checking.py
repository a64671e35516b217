"""Rules held against items: what is missing, of the wrong type or shape, or not to be there so often.

Which member is meant by which rule, is found as hdmf finds it: by name and type, and if several rules do, by the first
that still lacks one. An item is held against a rule once, however many ways lead to it.

Source: hdmf 6, ``hdmf.validate``.
"""

from __future__ import annotations

from collections.abc import Iterator

from hdmf_zarr_backend.validation.findings import Finding
from hdmf_zarr_backend.validation.rules import (
    ISODATETIME,
    NATURAL,
    REFERENCE,
    AttributeRule,
    DType,
    MemberRule,
    Rule,
    Target,
    Types,
    accepts,
    fits,
)
from hdmf_zarr_backend.validation.times import NAIVE, OTHER
from hdmf_zarr_backend.validation.view import Item, Member, Value


def check(root: Item, types: Types) -> tuple[list[Finding], int]:
    """Hold a file against the types of a namespace.

    Parameters
    ----------
    root : Item
        The root of the file.
    types : Types
        What the namespace asks for.

    Returns
    -------
    list of Finding
        Each once, by path.
    int
        Number of groups and datasets that were looked at.
    """
    checker = _Checker(types)
    checker.run(root)
    found = sorted(dict.fromkeys(checker.findings), key=lambda finding: (finding.path, finding.attribute or ""))
    return found, len({item for _, item in checker.seen})


class _Checker:
    def __init__(self, types: Types) -> None:
        self.findings: list[Finding] = []
        self.seen: set[tuple[Rule, Item]] = set()
        self._types = types
        self._stack: list[tuple[Rule, Item]] = []

    def run(self, root: Item) -> None:
        """Look at the root, and at all that its rules lead to."""
        if root.data_type is None:
            self._tell(root, "unknown-type", "the root has no type")
        else:
            self._push_type(root, root.data_type)
        while self._stack:  # no recursion: a file may be nested deeper than Python's calls
            rule, item = self._stack.pop()
            self._check(rule, item)

    def _tell(self, item: Item, kind: str, message: str, *, attribute: str | None = None, rule: str = "") -> None:
        self.findings.append(Finding(item.path, attribute, kind, message, rule))

    def _push(self, rule: Rule, item: Item) -> None:
        if (rule, item) not in self.seen:
            self.seen.add((rule, item))
            self._stack.append((rule, item))

    def _push_type(self, item: Item, data_type: str) -> None:
        rule = self._types.rules.get(data_type)
        if rule is None:
            self._tell(item, "unknown-type", f"the namespace {self._types.namespace!r} has no type {data_type!r}")
        else:
            self._push(rule, item)

    def _check(self, rule: Rule, item: Item) -> None:
        if rule.is_group != item.is_group:
            words = ("dataset", "group")
            message = f"expected a {words[rule.is_group]}, found a {words[item.is_group]}"
            self._tell(item, "wrong-node", message, rule=rule.title)
            return
        for attribute in rule.attributes:
            self._check_attribute(attribute, rule, item)
        if item.value is not None:
            for kind, message in problems_of(rule.dtype, rule.shape, item.value, self._types):
                self._tell(item, kind, message, rule=rule.title)
        else:
            self._check_members(rule, item)

    def _check_attribute(self, attribute: AttributeRule, rule: Rule, item: Item) -> None:
        title = f"{rule.title}.{attribute.name}"
        value = item.attributes.get(attribute.name)
        if value is None:
            if attribute.required:
                self._tell(item, "missing", f"the attribute {attribute.name!r} is missing", rule=title)
            return
        for kind, message in problems_of(attribute.dtype, attribute.shape, value, self._types):
            self._tell(item, kind, message, attribute=attribute.name, rule=title)

    # ---- members ----------------------------------------------------------------------------------------------------

    def _check_members(self, rule: Rule, item: Item) -> None:
        assigned = self._assign(rule, item)
        for member_rule in rule.members:
            members = assigned.get(member_rule, [])
            self._check_quantity(member_rule, len(members), rule, item)
            for member in members:
                self._check_member(member_rule, member, item)

    def _assign(self, rule: Rule, item: Item) -> dict[MemberRule, list[Member]]:
        """Return which members each rule is about."""
        assigned: dict[MemberRule, list[Member]] = {}
        for member in item.members:
            candidates = [one for one in rule.members if self._is_meant(one, member)]
            lacking = (one for one in candidates if _lacks(one, len(assigned.get(one, ()))))
            chosen = next(lacking, candidates[0] if candidates else None)
            if chosen is not None:
                assigned.setdefault(chosen, []).append(member)
        return assigned

    def _is_meant(self, rule: MemberRule, member: Member) -> bool:
        if rule.name is not None and rule.name != member.name:
            return False
        return rule.data_type is None or member.item.data_type in self._types.subtypes.get(rule.data_type, ())

    def _check_quantity(self, rule: MemberRule, count: int, parent: Rule, item: Item) -> None:
        if count == 0 and rule.is_required:
            self._tell(item, "missing", f"the {rule.title} is missing", rule=parent.title)
        elif (count > 1 and not rule.is_many) or (isinstance(rule.quantity, int) and count != rule.quantity):
            message = f"expected {rule.quantity} of the {rule.title}, found {count}"
            self._tell(item, "quantity", message, rule=parent.title)

    def _check_member(self, rule: MemberRule, member: Member, parent: Item) -> None:
        if member.is_link and rule.rule is not None and not rule.linkable:
            message = f"{member.name!r} is a link; what it leads to was not looked at"
            self._tell(parent, "illegal-link", message, rule=rule.rule.title)
            return
        for data_type in dict.fromkeys((member.item.data_type, rule.data_type)):
            if data_type is not None:
                self._push_type(member.item, data_type)
        if rule.rule is not None:
            self._push(rule.rule, member.item)


def _lacks(rule: MemberRule, count: int) -> bool:
    """Tell whether a rule asks for more than it has been given."""
    return (rule.is_required and count == 0) or (isinstance(rule.quantity, int) and count < rule.quantity)


# ---- values ---------------------------------------------------------------------------------------------------------


def problems_of(dtype: DType, shape: object, value: Value, types: Types) -> Iterator[tuple[str, str]]:
    """Yield kind and message of what is wrong with a value.

    Parameters
    ----------
    dtype : str, Target, tuple or None
        Expected type; None: any.
    shape : object
        Expected shape, as of `fits`.
    value : Value
        What there is.
    types : Types
        Tell which type extends which.
    """
    if dtype is not None and value.dtype is not None:
        yield from _problems_of_type(dtype, value, types)
    if not fits(shape, value.shape):
        found = "no array" if value.shape is None else f"the shape {_shape_text(value.shape)}"
        yield "shape", f"expected the shape {_shape_text(shape)}, found {found}"


def _problems_of_type(dtype: DType, value: Value, types: Types) -> Iterator[tuple[str, str]]:
    if isinstance(dtype, Target):
        if value.dtype != REFERENCE:
            yield "dtype", f"expected a reference to {dtype.data_type}, found {_word(value.dtype)}"
        elif value.target is not None and dtype.data_type not in types.ancestors(value.target):
            found = f"one to {value.target}" if value.target else "one to an object without a type"
            yield "target-type", f"expected a reference to {dtype.data_type}, found {found}"
    elif isinstance(dtype, tuple):
        words = [word for _, word in dtype]
        if not _are_rows(words, value.dtype):
            yield "dtype", f"expected rows of {', '.join(words)}, found {_word(value.dtype)}"
    elif not isinstance(dtype, str) or not accepts(dtype, value.dtype):
        yield "dtype", f"expected {dtype}, found {_word(value.dtype)}"
    elif dtype == ISODATETIME and value.format in _NO_TIMES:
        yield "time", _NO_TIMES[value.format]


_NO_TIMES = {OTHER: "the text is no time of ISO 8601", NAIVE: "the time has no time zone"}


def _are_rows(words: list[str], found: object) -> bool:
    return isinstance(found, tuple) and len(found) >= len(words) and all(map(accepts, words, found))


def _word(dtype: object) -> str:
    if isinstance(dtype, tuple):
        return f"rows of {', '.join(dtype)}"
    return "int64" if dtype == NATURAL else str(dtype)


def _shape_text(shape: object) -> str:
    if isinstance(shape, (list, tuple)):
        if shape and isinstance(shape[0], (list, tuple)):
            return " or ".join(map(_shape_text, shape))
        return f"({', '.join(map(_shape_text, shape))}{',' if len(shape) == 1 else ''})"
    return "*" if shape is None else str(shape)
