"""What the comparing tool finds: kinds of differences, and one difference as a value and as a line for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, is_dataclass
from itertools import takewhile

__all__ = ["KINDS", "Difference", "summarise"]

KINDS: frozenset[str] = frozenset(
    {
        "missing",  # a node of a that is not in b
        "extra",  # a node of b that is not in a
        "type",  # group, dataset, datatype or link here, another of them there
        "link",  # form, target or file
        "dtype",
        "byte-order",
        "text-encoding",  # ascii or utf-8, variable or fixed length, padding
        "shape",
        "maxshape",
        "chunks",
        "layout",  # of datasets without chunks: contiguous, compact, virtual, in external files
        "filters",
        "fill",
        "value",
        "reference",  # target or selection, in datasets, compound fields and attributes
        "attribute",  # missing, extra, or of another value
        "attribute-dtype",
        "attribute-byte-order",
        "attribute-text-encoding",
        "attribute-shape",
        "object_id",  # the attribute of this name: missing, extra, or of another value
    }
)
"""All kinds of differences; kinds are only ever added."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One finding.

    Parameters
    ----------
    path : str
        Absolute path of the node.
    kind : str
        One of `KINDS`.
    a, b : object
        What each file says; None where it says nothing.
    attribute : str, optional
        Name of the attribute that differs.
    place : str
        For values: index and field of the first difference, such as ``[3]['x']``.
    count : int
        For values: how many elements differ.
    """

    path: str
    kind: str
    a: object = None
    b: object = None
    attribute: str | None = None
    place: str = ""
    count: int = 1

    def __str__(self) -> str:
        attribute = "" if self.attribute is None else f" attribute {self.attribute!r}"
        count = f" ({self.count} elements)" if self.count > 1 else ""
        return f"{self.path}{attribute} {self.kind}{self.place}{count}: {self.said}"

    @property
    def said(self) -> str:
        """What each file says, for people."""
        return f"{_words(self.a, self.b)} | {_words(self.b, self.a)}"


def summarise(differences: Iterable[Difference]) -> dict[str, int]:
    """Count differences by kind, the kinds in alphabetical order."""
    return dict(sorted(Counter(difference.kind for difference in differences).items()))


def _words(value: object, other: object) -> str:
    """Return a value for people: at most a line, and of a long text the part where it begins to differ."""
    if isinstance(value, str) and isinstance(other, str):
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(value, other, strict=False)))
        start = max(0, common - 20)
        shown = repr(value[start : start + 80])
        return f"{'...' if start else ''}{shown}{'...' if len(value) > start + 80 else ''}"
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return ", ".join(map(str, value))
    text = str(value) if is_dataclass(value) else repr(value)
    return text if len(text) <= 160 else f"{text[:150]}... ({len(text)} characters)"
