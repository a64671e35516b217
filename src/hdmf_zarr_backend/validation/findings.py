"""What is wrong by the schema: kinds of findings, one finding, and the result for a file. Standard library only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

KINDS: Final[dict[str, str]] = {
    "missing": "Write what is missing.",
    "quantity": "Leave as many as the schema asks for.",
    "dtype": "Write the value with the type that the schema asks for.",
    "shape": "Write the value with the shape that the schema asks for.",
    "time": "Write the time as ISO 8601 with a time zone, such as 2026-03-14T12:00:00+00:00.",
    "target-type": "Refer to an object of the type that the schema asks for.",
    "illegal-link": "Write the object itself, not a link to it.",
    "wrong-node": "Write a group where the schema has a group, a dataset where it has a dataset.",
    "unknown-type": "Cache the namespace that defines the type in the file, or correct the name of the type.",
    "failed": "Look with `zarrio verify` whether the file is whole.",
    "other": "See the message.",
}
"""Kinds of findings, and what to do about them. Kinds are only ever added."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that the schema does not allow.

    Attributes
    ----------
    path : str
        Absolute path of the group or dataset.
    attribute : str or None
        Name of the attribute, where it is about one.
    kind : str
        One of `KINDS`.
    message : str
        What was expected and what was found, without a full stop.
    rule : str
        Where the schema asks for it: type, and path inside of it.
    """

    path: str
    attribute: str | None
    kind: str
    message: str
    rule: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """Path, and the attribute after a point."""
        return self.path if self.attribute is None else f"{self.path}.{self.attribute}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        return f"{self.place}: {self.kind}: {self.message}. {self.remedy}"


@dataclass(slots=True)
class Validation:
    """What `validate` found.

    Attributes
    ----------
    source : str
        Location of the file.
    namespaces : dict
        ``{name: version}`` of the namespaces that it was held against.
    cached : bool
        They are those that are cached in the file, not the installed ones.
    findings : list of Finding
        What they do not allow, each once, in the order of the file.
    items : int
        Groups and datasets that were looked at; 0 where hdmf did.
    """

    source: str
    namespaces: dict[str, str] = field(default_factory=dict)
    cached: bool = True
    findings: list[Finding] = field(default_factory=list)
    items: int = 0

    @property
    def is_valid(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings by kind."""
        return dict(Counter(finding.kind for finding in self.findings))
