"""What the specification of Zarr format 2 demands: one rule each, a finding, and the report. Standard library only."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True, slots=True)
class Rule:
    """One demand of the specification.

    Attributes
    ----------
    name : str
        What findings are called by. Names are only ever added.
    section : str
        Section of the specification that it is from.
    demand : str
        What must hold, a sentence without a full stop.
    remark : str
        Why a finding is no more than a remark; empty for most rules.
    """

    name: str
    section: str
    demand: str
    remark: str = ""


_ALL = (
    Rule(
        "ascii-key",
        "Storage",
        "a key is an ASCII string",
        "names are what schemas and users say, and every store and reader tried takes UTF-8",
    ),
    Rule(
        "normal-path",
        "Logical storage paths",
        "a path has no backslash, no slash at either end, and none doubled",
    ),
    Rule("no-dots", "Logical storage paths", 'no part of a path is "." or ".."'),
    Rule("json", "Metadata", "a document is JSON"),
    Rule(
        "json-numbers",
        "Fill value encoding",
        "NaN and infinities are no tokens of JSON",
        "hdmf-zarr 0.13 reads the tokens and not the text that stands for them; `strict_json=True` writes the text",
    ),
    Rule("array-object", "Metadata", ".zarray is a JSON object"),
    Rule("array-keys", "Metadata", ".zarray has all of the keys that are listed"),
    Rule(
        "array-other-keys",
        "Metadata",
        ".zarray has no other keys",
        "the specification says SHOULD NOT here, and that readers ignore such keys",
    ),
    Rule("array-format", "Metadata", "zarr_format of .zarray is 2"),
    Rule("shape", "Metadata", "shape is a list of lengths"),
    Rule("chunks", "Metadata", "chunks is a list of lengths, as many as shape has"),
    Rule("order", "Metadata", 'order is "C" or "F"'),
    Rule("compressor", "Metadata", "compressor is null, or an object with an id"),
    Rule("filters", "Metadata", "filters is null, or a list of objects with an id each"),
    Rule("dimension-separator", "Metadata", 'dimension_separator is "." or "/"'),
    Rule("dtype-form", "Data type encoding", "a data type is a text of byte order, kind and size, or a list of fields"),
    Rule("dtype-byte-order", "Data type encoding", "a type of more than one byte says its byte order"),
    Rule("dtype-kind", "Data type encoding", "the kind of a data type is one of b i u f c m M S U V"),
    Rule(
        "dtype-object",
        "Data type encoding",
        "the kind of a data type is not O",
        "zarr-python stores text, bytes and JSON so, and whoever reads its files reads it",
    ),
    Rule("dtype-size", "Data type encoding", "a data type says how many bytes it has, and there is such a one"),
    Rule("dtype-units", "Data type encoding", "a type of times says its unit in brackets"),
    Rule("dtype-fields", "Data type encoding", "a field is a list of a name, a data type and, where needed, a shape"),
    Rule("fill-scalar", "Metadata", "fill_value is null, or a value of the data type"),
    Rule("fill-float", "Fill value encoding", 'NaN and infinities are "NaN", "Infinity" and "-Infinity"'),
    Rule("fill-base64", "Fill value encoding", "the fill value of fixed-length bytes or of fields is in Base64"),
    Rule("chunk-key", "Chunks", "what is stored below an array has the key of a chunk of its grid"),
    Rule("chunk-size", "Chunks", "a chunk decodes by the compressor and the filters, to as many bytes as all others"),
    Rule("group-object", "Groups", ".zgroup is a JSON object"),
    Rule("group-keys", "Groups", ".zgroup has the key zarr_format"),
    Rule("group-format", "Groups", "zarr_format of .zgroup is 2"),
    Rule("group-other-keys", "Groups", ".zgroup has no other key"),
    Rule("group-ancestors", "Groups", "there is a .zgroup at every path above a node"),
    Rule("array-members", "Groups", "nodes are members of groups, not of arrays"),
    Rule("one-kind", "Groups", "there is an array or a group at a path, not both"),
    Rule("attributes-object", "Attributes", ".zattrs is a JSON object"),
)

RULES: Final[dict[str, Rule]] = {rule.name: rule for rule in _ALL}
"""All rules by name, in the order of the specification's subjects."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something in a store that is not as a rule demands.

    Attributes
    ----------
    rule : str
        Name of one of `RULES`.
    key : str
        The key of the store that it is about.
    message : str
        What was found, without a full stop.
    """

    rule: str
    key: str
    message: str

    @property
    def is_violation(self) -> bool:
        """Whether something is wrong; False where `Rule.remark` says why it may stay."""
        return not RULES[self.rule].remark

    def __str__(self) -> str:
        return f"{self.key}: {self.rule}: {self.message}"


@dataclass(slots=True)
class ConformanceReport:
    """What `conformance` found.

    Attributes
    ----------
    source : str
        Location of the store.
    violations, remarks : list of Finding
        Findings of rules without, and with, a reason why they may stay.
    undecoded : dict
        ``{path: reason}`` of arrays whose chunks were not decoded, since this package has no such codec, or since
        they are beyond its limits.
    groups, arrays, chunks : int
        How many were looked at.
    """

    source: str
    violations: list[Finding] = field(default_factory=list)
    remarks: list[Finding] = field(default_factory=list)
    undecoded: dict[str, str] = field(default_factory=dict)
    groups: int = 0
    arrays: int = 0
    chunks: int = 0

    @property
    def conforms(self) -> bool:
        """Whether no rule is violated."""
        return not self.violations

    @property
    def counts(self) -> dict[str, int]:
        """Number of findings by rule."""
        return dict(Counter(finding.rule for finding in [*self.violations, *self.remarks]))

    def add(self, rule: str, key: str, message: str) -> None:
        """Note a finding: ``rule`` is not kept at ``key``, and ``message`` says how."""
        finding = Finding(rule, key, message)
        (self.violations if finding.is_violation else self.remarks).append(finding)
