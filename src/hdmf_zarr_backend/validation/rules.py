"""What a namespace asks of a file, ready to be held against it. Standard library only.

Source: HDMF specification language 2.1; hdmf 6, ``hdmf.validate``, whose verdicts these rules are to give.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

REFERENCE: Final = "reference"
"""The word for references, of attributes and in data."""

NATURAL: Final = "natural"
"""An integer of JSON, not negative, of a file that keeps no types: it may have been unsigned."""

ISODATETIME: Final = "isodatetime"


@dataclass(slots=True, frozen=True)
class Target:
    """A reference to an object of a type."""

    data_type: str


DType: TypeAlias = "str | Target | tuple[tuple[str, str], ...] | None"
"""A word of the specification language, a reference, name and word of the fields of a compound, or anything."""

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_FLOATS = ("float32", "float64")
_TEXT = ("utf", "ascii")


def _accepted() -> dict[str, frozenset[str]]:
    table: dict[str, tuple[str, ...]] = {
        "float": _FLOATS, "float32": _FLOATS, "double": _FLOATS[1:], "float64": _FLOATS[1:],
        "int8": _SIGNED, "short": _SIGNED[1:], "int16": _SIGNED[1:], "int": _SIGNED[2:], "int32": _SIGNED[2:],
        "long": _SIGNED[3:], "int64": _SIGNED[3:], "uint": _UNSIGNED[2:],
        **{word: _UNSIGNED[position:] for position, word in enumerate(_UNSIGNED)},
        "numeric": (*_FLOATS, *_SIGNED, *_UNSIGNED),
        **dict.fromkeys(("text", "utf", "utf8", "utf-8", ISODATETIME), _TEXT),
        **dict.fromkeys(("ascii", "bytes"), _TEXT[1:]),
        "bool": ("bool",), "object": (REFERENCE,),
    }  # fmt: skip
    with_natural = {word for word, words in table.items() if "int64" in words or words[-1] == "uint64"}
    return {word: frozenset((*words, NATURAL) if word in with_natural else words) for word, words in table.items()}


ACCEPTED: Final = _accepted()
"""Word of a specification -> what data may be of: the type itself, and the wider ones of its kind.

Times are text here; what that text has to say is a rule of its own.
"""


def accepts(expected: str, received: Any) -> bool:
    """Tell whether data of the type `received` do where a specification says `expected`."""
    return received in ACCEPTED.get(expected, ())


def fits(expected: Any, shape: Any) -> bool:
    """Tell whether a shape is one that a specification allows.

    Parameters
    ----------
    expected : None, int or list
        Nothing; the length of an axis; what is expected of each axis, or a list of such lists.
    shape : None, int or tuple
        The shape, None of what is no array; or the length of an axis.
    """
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
    """What is asked of one attribute.

    Attributes
    ----------
    name : str
        Its name.
    dtype : str or Target
        Of its value.
    shape : list or None
        As of `fits`.
    required : bool
        It has to be there.
    has_default : bool
        The specification has a value for it where it is absent.
    """

    name: str
    dtype: str | Target
    shape: Any = None
    required: bool = True
    has_default: bool = False


Section = Literal["dataset", "group", "link"]
SECTIONS: Final[tuple[Section, ...]] = ("dataset", "group", "link")
"""Kinds of members in the order in which they are looked at."""

Quantity: TypeAlias = "int | str"


@dataclass(slots=True, frozen=True, eq=False)
class Rule:
    """What is asked of the content of a group or dataset; one object for all places where the same is asked.

    Attributes
    ----------
    title : str
        Where the specification is, for people: type and path inside of it.
    is_group : bool
        It is a group, not a dataset.
    attributes : tuple of AttributeRule
        What is asked of the attributes.
    dtype : str, Target, tuple or None
        Of the data.
    shape : list or None
        As of `fits`.
    members : tuple of MemberRule
        What is asked of the members of a group: datasets, groups, links.
    """

    title: str
    is_group: bool
    attributes: tuple[AttributeRule, ...] = ()
    dtype: DType = None
    shape: Any = None
    members: tuple[MemberRule, ...] = ()

    @property
    def is_bare(self) -> bool:
        """Whether nothing is asked, but that it is there."""
        return not (self.attributes or self.members) and self.dtype is None and self.shape is None


@dataclass(slots=True, frozen=True, eq=False)
class MemberRule:
    """What is asked of members of a group.

    Attributes
    ----------
    section : {"dataset", "group", "link"}
        What it is in the specification. A link may stand for a dataset or group too, where that is `linkable`.
    name : str or None
        Its name; None: any.
    data_type : str or None
        Its type, or that of the target of a link.
    quantity : int or str
        How many: a number, ``"?"``, ``"*"`` or ``"+"``.
    linkable : bool
        A link may stand for it.
    rule : Rule or None
        What is asked of its content, beyond what its type asks; None of a link.
    """

    section: Section
    name: str | None
    data_type: str | None
    quantity: Quantity = 1
    linkable: bool = True
    rule: Rule | None = None

    @property
    def is_required(self) -> bool:
        """Whether there has to be one."""
        return self.quantity not in ("?", "*")

    @property
    def is_many(self) -> bool:
        """Whether there may be several."""
        return self.quantity not in (1, "?")

    @property
    def title(self) -> str:
        """How it is called, for people."""
        named = f"{self.name!r} " if self.name else ""
        typed = f"of type {self.data_type}" if self.data_type else ""
        return f"{self.section} {named}{typed}".rstrip()


@dataclass
class Types:
    """The types of one namespace, those that it includes among them.

    Attributes
    ----------
    namespace, version : str
        Name and version of the namespace.
    rules : dict
        ``{type: Rule}``, with everything that is inherited.
    parents : dict
        ``{type: type or None}``.
    """

    namespace: str
    version: str
    rules: dict[str, Rule] = field(default_factory=dict)
    parents: dict[str, str | None] = field(default_factory=dict)

    def ancestors(self, data_type: str) -> tuple[str, ...]:
        """Return a type and all types that it extends."""
        found: list[str] = []
        here: str | None = data_type
        while here is not None and here not in found:
            found.append(here)
            here = self.parents.get(here)
        return tuple(found)

    @cached_property
    def subtypes(self) -> dict[str, frozenset[str]]:
        """``{type: types}`` that may stand where the type is asked for, itself among them."""
        found: dict[str, set[str]] = {data_type: set() for data_type in self.rules}
        for data_type in self.rules:
            for ancestor in self.ancestors(data_type):
                found.setdefault(ancestor, set()).add(data_type)
        return {data_type: frozenset(names) for data_type, names in found.items()}
