"""The results of `verify` and `validate`: the kinds of findings with their remedies, a finding, and the reports.

Standard library only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from hdmf_zarr_backend.encoding.reserved import OLDER
from hdmf_zarr_backend.errors import RESTORE_CHUNK, printable
from hdmf_zarr_backend.model.nodes import absolute
from hdmf_zarr_backend.model.render import PLAIN, Form, View, counted, finding_lines, limited, verdict

# ---- verify ---------------------------------------------------------------------------------------------------------

_RESTORE = "Restore it from a copy."
_REPAIR = "Run `zarrio repair`, which writes it back from the consolidated document."
_CONSOLIDATE = "Run `zarrio consolidate` on the file, after damaged documents are restored."
_FOLLOW = "Use `--external-links follow` to check the target too."

# Programs compare kinds, as those of `zarrio verify --json`: a new message or remedy breaks nobody, a renamed kind
# does.
DAMAGE: Final[dict[str, str]] = {
    "incomplete": "Wait until the file is complete. If its writer has stopped, run `zarrio repair --break-lock`, and "
    "write the file again, over this one (`zarrio convert --overwrite`; `--resume` continues a conversion).",
    "change-interrupted": "Run `zarrio repair`, which undoes or completes the change.",
    "journal-damaged": "Export what can be read now to a new file.",
    "limit": "If you trust the file, raise this limit.",
    "library-missing": "Install the library and run `zarrio verify` again; these values were not checked.",
    "unsafe": "Do not trust this file; its code was not run.",
    "document-missing": f"{_RESTORE} If the object was removed on purpose, delete what is left of it, and run "
    "`zarrio consolidate --forget`.",
    "document-damaged": _RESTORE,
    "object-damaged": _RESTORE,
    "group-implied": "Run `zarrio consolidate` and then `zarrio repair`, which write its document: other programs do "
    "not see the group without it.",
    "consolidated-damaged": _CONSOLIDATE,
    "consolidated-stale": _CONSOLIDATE,
    "inlined-stale": "If another program has changed the chunk, run `zarrio consolidate`. Otherwise delete the chunk, "
    "and run `zarrio repair`, which writes it back.",
    "formats-differ": "Keep one with `zarrio upgrade`: --drop 2 keeps format 3, --drop 3 keeps format 2.",
    "link-damaged": "Run `zarrio repair --drop-links` to remove it, or write the link again.",
    "link-dangling": "Restore the target, or run `zarrio repair --drop-links` to remove a link that you do not expect.",
    "link-circular": "Run `zarrio repair --drop-links` to remove one of the links.",
    "link-wrong-target": "If the target was replaced on purpose, write the link again.",
    "reference-damaged": "Write the file again.",
    "reference-dangling": "Put the target back, or write the reference again.",
    "reference-wrong-target": "If the target was replaced on purpose, write the reference again.",
    "chunk-missing": RESTORE_CHUNK,
    "chunk-damaged": RESTORE_CHUNK,
    "table-uneven": "Append the rows that are missing, or cut those that are too many (`dataset.resize`).",
    "index-invalid": "Set its numbers in ascending order, up to the length of the column: each is where the values of "
    "a row end.",
    "schema": "Change the named object so that it follows the schema.",
    "schema-damaged": "Restore the cached namespaces from a copy, or check the file against the installed ones with "
    "`zarrio validate --installed`.",
    "dandi-depth": "Write the file in format 2, or with the chunk keys of format 2 (`zarrio convert "
    "--chunk-key-encoding v2`), or nest groups less deeply.",
    "dandi-name": "Rename it.",
    "dandi-size": "Write it with smaller chunks or shards.",
    "dandi-subject": "Fill it in, in mode 'r+': nwbfile.subject = Subject(subject_id=..., species=..., sex=..., "
    "age=...), then io.write(nwbfile).",
    "link-external": 'Upload one file: io.export(source, source.read(), write_args={"link_data": False}) copies linked '
    "data and objects.",
    "reference-external": "Copy the object into this file (`io.copy`), and refer to the copy.",
}
"""Kinds of damage, with what to do about them. Later releases only add kinds."""

# the consolidated document has all documents and the chunks of scalars, so that one request opens a file
REPAIRABLE: Final[dict[str, str]] = {
    "incomplete": "Run `zarrio repair`, which restores the old file, or write the new one again, once its writer has "
    "stopped.",
    "document-missing": f"{_REPAIR} If it was removed on purpose, run `zarrio consolidate --forget` instead.",
    "document-damaged": "Readers use the copy in the consolidated document, so `zarrio convert OLD NEW` writes an "
    "undamaged file; or restore the document from a copy.",
    "chunk-missing": _REPAIR,
    "chunk-damaged": _REPAIR,
    "formats-differ": "Run `zarrio repair`, which makes format 3 like format 2, or keep format 3 with "
    "`zarrio upgrade --drop 2`.",
}
"""What to do instead if the consolidated document has a good copy."""

REMARKS: Final[dict[str, str]] = {
    "not-consolidated": "A copy may be incomplete: compare it with the original, or copy it again. If no object is "
    "missing, run `zarrio consolidate`.",
    "write-unfinished": "If its writer is running, wait. If it has died, copy what you need from there: the next write "
    "of a new file at this path deletes it.",
    "format-3-incomplete": "Run `zarrio upgrade --keep`, which writes the documents of format 3 again.",
    "not-listed": "Verify a copy on a disk, where all documents can be found.",
    "unknown-key": "Other programs may refuse the document.",
    "unknown-file": "It is not read; delete it if you do not need it.",
    "link-refused": _FOLLOW,
    "reference-refused": _FOLLOW,
    "reference-range": "These samples cannot be read. The series became shorter, or an interval ends after it: remove "
    "the rows, or give them the range (-1, -1), which stands for no samples.",
    "series-uneven": "Append the samples or timestamps that are missing, or cut those that are too many.",
    "id-shared": "`nwbfile.objects` fails. Before a copy of a container is written, its method "
    "`generate_new_id` gives it an id of its own.",
    "type-unknown": "Import the extension in Python, and validate against its namespace there. To let the file have "
    "the schema, write or export it while the extension is imported.",
    "dandi-count": "Write it with larger chunks or with shards: an upload of so many objects may not finish.",
    "unwritten": "It reads as the fill value, which may be intended: the file does not state that it is complete.",
    "unchecked": "Write with a codec that has a checksum (zstd, zlib) where this matters.",
    "no-schema": "Cache the namespaces in the file, or run `zarrio validate --installed`.",
}
"""Kinds of findings that may be intended, with what to know about them. Later releases only add kinds."""

# Blosc, the default codec, has no checksum: each file would have a finding, and nobody would read the others.
COMMON_REMARKS: Final[frozenset[str]] = frozenset({"unchecked"})
"""Remarks about nearly every file: part of the summary on the command line, with what to do only in ``--verbose``."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One finding of `verify`.

    Attributes
    ----------
    path : str
        Absolute path of the node, ``"/"`` for the complete file.
    kind : str
        One of `DAMAGE` or `REMARKS`.
    message : str
        What was found, without a full stop.
    is_repairable : bool
        Whether the consolidated document has a good copy. `repair` restores it, but for ``document-damaged``, where
        converting the file does.
    advice : str
        What to do about this one, in place of the advice for its kind: which library to install.
    chunks : tuple of str
        The chunks that are missing or damaged, at most 1,000: the object in the store, and the part of the array that
        is lost, as ``"3.1 [3000:4000, 8:16]"``.
    """

    path: str
    kind: str
    message: str
    is_repairable: bool = False
    advice: str = ""
    chunks: tuple[str, ...] = ()

    @property
    def is_damage(self) -> bool:
        """Whether it is damage, not a remark."""
        return self.kind in DAMAGE

    @property
    def remedy(self) -> str:
        """What to do about it."""
        repair = REPAIRABLE.get(self.kind) if self.is_repairable else None
        return self.advice or repair or DAMAGE.get(self.kind) or REMARKS.get(self.kind, "")

    def as_json(self) -> dict[str, str | list[str]]:
        """Return the finding with its remedy for a JSON document, and its chunks if it is about some."""
        chunks = {"chunks": list(self.chunks)} if self.chunks else {}
        return {"path": self.path, "kind": self.kind, "message": self.message, "remedy": self.remedy, **chunks}

    def __str__(self) -> str:
        return printable(f"{self.path}: {self.kind}: {self.message}. {self.remedy}")


def problem_lines(problems: Iterable[Problem], form: Form, prefix: str = "") -> list[str]:
    """Return a line for each problem, remarks with a word before them, and ``prefix`` before the others."""
    return finding_lines(
        problems,
        lambda problem: f"{prefix if problem.is_damage else 'remark: '}{problem}",
        lambda problem: f"{problem.kind} {problem.message}",
        form,
    )


@dataclass(slots=True, frozen=True)
class DandiAsset:
    """A file as an asset of the DANDI archive.

    Attributes
    ----------
    checksum : str
        ``MD5-COUNT--SIZE``, equal to what the archive computes for the file.
    count : int
        Number of values: documents and chunks.
    nbytes : int
        Their total size in bytes.
    depth : int
        Number of names in the longest key.
    """

    checksum: str
    count: int
    nbytes: int
    depth: int

    def __str__(self) -> str:
        return f"{self.checksum} ({self.count:,} objects, {self.nbytes:,} bytes, {self.depth} levels)"


@dataclass(slots=True, repr=False)
class Report(View):
    """What `verify` found.

    Attributes
    ----------
    source : str
        Location of the file.
    level : str
        The level of the check.
    problems, remarks : list of Problem
        Findings of the kinds in `DAMAGE`, and those of the kinds in `REMARKS`.
    groups, arrays, links, references, chunks : int
        How many were checked.
    nbytes : int
        Bytes of the stored chunks that were decoded; of an HDF5 file, of the values that were read.
    unchecked : int
        Number of these chunks without a checksum.
    dandi : DandiAsset, optional
        Checksum and size of the file as an asset of the DANDI archive, if requested.
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
    unchecked: int = 0
    dandi: DandiAsset | None = None
    _ids: dict[str, str] = field(default_factory=dict, init=False, compare=False)  # object ids, with the first path

    @property
    def is_sound(self) -> bool:
        """Whether no damage was found."""
        return not self.problems

    @property
    def checks_chunks(self) -> bool:
        """Whether the level includes the chunks."""
        return self.level in ("chunks", "schema")

    @property
    def looked_at(self) -> str:
        """What was checked, as text."""
        counts = [(self.groups, "group"), (self.arrays, "array")]
        if self.level != "structure":
            counts += [(self.links, "link"), (self.references, "reference")]
        if self.checks_chunks:
            counts.append((self.chunks, "chunk"))
        return ", ".join(counted(count, noun) for count, noun in counts)

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings by kind."""
        return dict(Counter(problem.kind for problem in [*self.problems, *self.remarks]))

    def lines(self, form: Form = PLAIN, name: str | None = None) -> list[str]:
        """Return what the command prints in a ``form``, of a file ``name``: problems, remarks, and a summary."""
        # nearly every file has chunks without a checksum: one sentence in the summary, not a finding for each array
        remarks = (each for each in self.remarks if form.verbose or each.kind not in COMMON_REMARKS)
        lines, name = limited(problem_lines([*self.problems, *remarks], form), form), name or self.source
        if self.dandi is not None:
            lines.append(printable(f"{name}: DANDI checksum {self.dandi}"))
        notes = [remark.message for remark in self.remarks if remark.kind in COMMON_REMARKS]
        if not self.checks_chunks:
            notes.append("chunks were not checked")
        summary = f"{verdict(name, 'no damage found', len(self.problems), 'problem', form)} ({self.looked_at})"
        return [*lines, "; ".join([summary, *notes])]

    def add_id(self, path: str, identifier: Any) -> None:
        """Note the ``identifier`` of the node at ``path``, its object id, which no other one should have."""
        if isinstance(identifier, str) and (other := self._ids.setdefault(identifier, path)) != path:
            self.add(path, "id-shared", f"{absolute(other)} has the same object_id, {identifier}")

    def add(self, path: str, kind: str, message: str, **more: Any) -> None:
        """Add a `Problem` with ``path``, ``kind``, ``message`` and ``more`` of its fields to the findings."""
        problem = Problem(absolute(path), kind, message, **more)
        (self.problems if problem.is_damage else self.remarks).append(problem)


# ---- validate -------------------------------------------------------------------------------------------------------

KINDS: Final[dict[str, str]] = {
    "missing": "Add the missing object or attribute.",
    "quantity": "Write the number of objects that the schema requires.",
    "dtype": "Convert the value to the type that the schema requires.",
    "shape": "Give the value the shape that the schema requires.",
    "time": "Write the time in ISO 8601 with a time zone, such as 2026-03-14T12:00:00+00:00.",
    "target-type": "Point the link or reference to an object of the required type.",
    "illegal-link": "Write the object itself, not a link to it.",
    "target": "Put the target back, or remove the link or reference.",
    "version": OLDER,
    "failed": "Check with `zarrio verify` whether the file is damaged.",
    "other": "See the message.",
}
"""Kinds of findings of `validate`, with what to do about them. Later releases only add kinds."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding of `validate`: something that the schema does not allow.

    Attributes
    ----------
    path : str
        Absolute path of the group or dataset.
    attribute : str or None
        Name of the attribute, None if the finding is about the object itself.
    kind : str
        One of `KINDS`.
    message : str
        What was expected and what was found, without a full stop.
    rule : str
        Position of the rule in the schema: a type, and the path inside it.
    """

    path: str
    attribute: str | None
    kind: str
    message: str
    # not compared: two namespaces with the same rule find the same problem once
    rule: str = field(default="", compare=False)

    @property
    def place(self) -> str:
        """Path, with the attribute after a dot."""
        return self.path if self.attribute is None else f"{self.path}.{self.attribute}"

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        return printable(f"{self.place}: {self.kind}: {self.message}. {self.remedy}")


@dataclass(slots=True, repr=False)
class Validation(View):
    """What `validate` found.

    Attributes
    ----------
    source : str
        Location of the file.
    namespaces : dict
        ``{name: version}`` of the namespaces that it was validated against.
    cached : bool
        Whether these are cached in the file, rather than installed.
    findings : list of Finding
        What the schema does not allow, without duplicates, in the order of the file; at the end links to nothing.
    remarks : list of Problem
        What was not checked: targets of links and references to other files that were not followed, and objects whose
        namespace is not known.
    nwb_version : str or None
        The attribute of the root. It does not choose the schema; the command prints it if it is not that of core.
    """

    source: str
    namespaces: dict[str, str] = field(default_factory=dict)
    cached: bool = True
    findings: list[Finding] = field(default_factory=list)
    remarks: list[Problem] = field(default_factory=list)
    nwb_version: str | None = None

    @property
    def is_valid(self) -> bool:
        """Whether nothing was found."""
        return not self.findings

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings by kind."""
        return dict(Counter(finding.kind for finding in self.findings))

    def lines(self, form: Form = PLAIN, name: str | None = None) -> list[str]:
        """Return what the command prints in a ``form``, of a file ``name``: findings, and a summary."""
        lines = finding_lines(self.findings, str, lambda finding: f"{finding.rule} {finding.message}", form)
        lines += problem_lines(self.remarks, form)
        against = ", ".join(f"{namespace} {version}" for namespace, version in self.namespaces.items())
        against += "" if self.cached else ", installed"
        summary = verdict(name or self.source, "valid", len(self.findings), "finding", form)
        if self.nwb_version is not None and self.namespaces.get("core", self.nwb_version) != self.nwb_version:
            against += f"; its nwb_version is {self.nwb_version}"
        return [*limited(lines, form), f"{summary} ({printable(against)})"]
