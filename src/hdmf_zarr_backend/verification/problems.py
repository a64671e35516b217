"""What can be wrong with a file: kinds of findings, one finding, and the report of all. Standard library only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final

_RESTORE = "Restore it from a copy."
_REPAIR = "Run `zarrio repair`, which writes it back from the consolidated document."
_FORGET = "If it was removed on purpose, run `zarrio consolidate --forget` instead."
_ONE_OF_BOTH = (
    "If another program has changed it, run `zarrio consolidate`. If none has, delete that chunk, and run "
    "`zarrio repair`, which writes it back."
)
_CONSOLIDATE = "Run `zarrio consolidate` on the file."
_REWRITE = "Write the file again."

DAMAGE: Final[dict[str, str]] = {
    "incomplete": "Wait until it is written; if nobody writes it any more, write it again.",
    "change-interrupted": "Run `zarrio repair`, or open the file with mode 'r+': the change is undone, or finished.",
    "journal-damaged": "Export what the file shows to a new one.",
    "limit": "If the file is to be trusted, raise the limit that is named.",
    "unsafe": "Do not trust this file; nothing of it was run.",
    "document-missing": f"{_RESTORE} {_FORGET}",
    "document-damaged": _RESTORE,
    "group-implied": "Write a .zgroup document there; other programs do not see the group without it.",
    "consolidated-damaged": _CONSOLIDATE,
    "consolidated-stale": _CONSOLIDATE,
    "inlined-stale": _ONE_OF_BOTH,
    "link-damaged": "Run `zarrio repair --drop-links` to remove it, or write the link again.",
    "link-dangling": "Put the target back, or run `zarrio repair --drop-links` to remove the link.",
    "link-circular": "Run `zarrio repair --drop-links` to remove one of the links.",
    "link-wrong-target": "Look whether the target was replaced; write the link again if it is right.",
    "reference-damaged": _REWRITE,
    "reference-dangling": "Put the target back, or write the reference again.",
    "reference-wrong-target": "Look whether the target was replaced; write the reference again if it is right.",
    "chunk-missing": _RESTORE,
    "chunk-damaged": _RESTORE,
    "schema": "Change what is named; the schema says what it must be.",
}
"""Kinds of findings that something has to be done about, and what. Kinds are only ever added."""

REPAIRABLE: Final[dict[str, str]] = {
    "document-missing": f"{_REPAIR} {_FORGET}",
    "chunk-missing": _REPAIR,
    "chunk-damaged": _REPAIR,
}
"""What to do instead where the consolidated document has what is gone or damaged."""

REMARKS: Final[dict[str, str]] = {
    "not-consolidated": _CONSOLIDATE,
    "not-listed": "Verify a copy on a disk, where all documents can be found.",
    "unknown-key": "Other programs may refuse the document.",
    "unknown-file": "Nothing reads it; delete it if it is not yours.",
    "link-refused": "Verify with external_links='follow' to look at the target too.",
    "reference-refused": "Verify with external_links='follow' to look at the target too.",
    "unwritten": "It reads as the fill value, which may be what was meant: no note says that all chunks are stored.",
    "unchecked": "Write with a codec that has a checksum (zstd, zlib) where this matters.",
    "no-schema": "Cache the namespaces in the file, or run `zarrio validate --installed`.",
}
"""Kinds of findings that are worth knowing, and may be right as they are."""

FACTS: Final[frozenset[str]] = frozenset({"unchecked"})
"""Remarks that are true of nearly every file; the command line prints them with ``--verbose`` only."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding.

    Attributes
    ----------
    path : str
        Absolute path of the node, ``"/"`` for the file as a whole.
    kind : str
        One of `DAMAGE` or `REMARKS`.
    message : str
        What was found, without a full stop.
    is_repairable : bool
        Whether `repair` writes back what is gone or damaged.
    """

    path: str
    kind: str
    message: str
    is_repairable: bool = False

    @property
    def is_damage(self) -> bool:
        """Whether something has to be done about it."""
        return self.kind in DAMAGE

    @property
    def remedy(self) -> str:
        """What to do about it."""
        repair = REPAIRABLE.get(self.kind) if self.is_repairable else None
        return repair or DAMAGE.get(self.kind) or REMARKS.get(self.kind, "")

    def __str__(self) -> str:
        return f"{self.path}: {self.kind}: {self.message}. {self.remedy}"


@dataclass(slots=True)
class Report:
    """What `verify` found.

    Attributes
    ----------
    source : str
        Location of the file.
    level : str
        How far it was looked at.
    problems, remarks : list of Problem
        Findings of the kinds in `DAMAGE`, and of those in `REMARKS`.
    groups, arrays, links, references, chunks : int
        How many were looked at.
    nbytes : int
        Bytes of the stored chunks that were decoded.
    """

    source: str
    level: str
    problems: list[Problem] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)
    groups: int = 0
    arrays: int = 0
    links: int = 0
    references: int = 0
    chunks: int = 0
    nbytes: int = 0

    @property
    def is_sound(self) -> bool:
        """Whether nothing has to be done."""
        return not self.problems

    @property
    def looked_at(self) -> str:
        """What was looked at, for people."""
        looked = f"{self.groups:,} groups, {self.arrays:,} arrays"
        if self.level != "structure":
            looked += f", {self.links:,} links, {self.references:,} references"
        if self.level in ("chunks", "schema"):
            looked += f", {self.chunks:,} chunks"
        return looked

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings by kind."""
        return dict(Counter(problem.kind for problem in [*self.problems, *self.remarks]))

    def add(self, problem: Problem) -> None:
        """Note ``problem``, a finding."""
        (self.problems if problem.is_damage else self.remarks).append(problem)
