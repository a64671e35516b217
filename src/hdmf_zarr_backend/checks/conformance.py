"""`conformance`: checks a store against each rule of the specification of Zarr format 2.

`verify` reports whether a file is complete; `conformance` reports whether every reader of Zarr can understand it. It
reads documents as bytes, and the listing of the store for the stored keys. The rules are in one table, `RULES`, with
one function each.

Source: Zarr v2 specification.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from hdmf_zarr_backend.arrays.chunk_cache import ChunkCache
from hdmf_zarr_backend.arrays.chunks import ChunkReader
from hdmf_zarr_backend.checks.chunks import DecodeTask, StoredObjects
from hdmf_zarr_backend.errors import (
    MetadataError,
    NotZarrError,
    StoreNotFoundError,
    UsageError,
    ZarrBackendError,
    at,
    known_arguments,
    printable,
)
from hdmf_zarr_backend.execution.executors import Runner, runner
from hdmf_zarr_backend.files.parser import check_keys, check_texts
from hdmf_zarr_backend.formats import registry, zarr2, zarr3
from hdmf_zarr_backend.model.nodes import Attributes, Dataset, absolute, join, split
from hdmf_zarr_backend.model.stored import StoredArray
from hdmf_zarr_backend.options import MEMORY_BUDGET, Limits, ReadRules
from hdmf_zarr_backend.progress import SILENT, Progress
from hdmf_zarr_backend.stores.base import Store
from hdmf_zarr_backend.stores.json_text import load
from hdmf_zarr_backend.stores.opening import open_store

Found: TypeAlias = Iterator[Any]
"""Messages about the subject of a rule; for the hierarchy, pairs of key and message."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the specification.

    Attributes
    ----------
    name : str
        Identifies the rule in findings. Later releases only add names.
    section : str
        Section of the specification that it is from.
    demand : str
        The requirement, as a sentence without a full stop.
    subject : str
        What the rule is about: a key, the text or the value of a document, a data type, ...
    check : callable
        Yields a message for each violation.
    remark : str
        The reason why a finding is only a remark; empty for most rules.
    """

    name: str
    section: str
    demand: str
    subject: str = field(repr=False)
    check: Callable[..., Found] = field(repr=False)
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of a rule.

    Attributes
    ----------
    rule : str
        Name of one of `RULES`.
    key : str
        The key of the store.
    message : str
        What was found, without a full stop.
    """

    rule: str
    key: str
    message: str

    @property
    def is_violation(self) -> bool:
        """Whether something is wrong; False if `Rule.remark` explains why it is acceptable."""
        return not RULES[self.rule].remark

    def __str__(self) -> str:
        return printable(f"{self.key}: {self.rule}: {self.message}")


@dataclass(slots=True)
class ConformanceReport:
    """What `conformance` found.

    Attributes
    ----------
    source : str
        Location of the store.
    violations, remarks : list of Finding
        Findings of rules without a remark, and with one.
    undecoded : dict
        ``{path: reason}`` of arrays whose chunks were not decoded, because this package does not have the codec, or
        because they exceed its limits.
    groups, arrays, chunks : int
        How many were checked.
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
        """Record that ``rule`` is broken at ``key``; ``message`` has the details."""
        finding = Finding(rule, key, message)
        (self.violations if finding.is_violation else self.remarks).append(finding)


@known_arguments
def conformance(
    source: str | os.PathLike[str] | Any,
    *,
    decode: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
    executor: Any = None,
    memory_budget: int = MEMORY_BUDGET,
    progress: Progress = SILENT,
) -> ConformanceReport:
    """Check a store of Zarr format 2 against its specification. Nothing is changed.

    Parameters
    ----------
    source : str, Path, mapping, zarr.abc.store.Store or zarr.Group
        The store: a file, any other hierarchy, or a single array.
    decode : bool
        Decode each chunk to see whether it has its full size; False: check documents and keys only.
    storage_options : dict, optional
        For URLs.
    limits : Limits, optional
        Limits for the store.
    executor : None, "threads", "processes", int, concurrent.futures.Executor or dask.distributed.Client
        Decodes chunks; None: this thread.
    memory_budget : int
        Bytes of values that may be in flight.
    progress : Progress
        Receives the number of bytes of the values that were decoded.

    Returns
    -------
    ConformanceReport
        ``violations`` of rules, and ``remarks`` for findings that are acceptable.

    Raises
    ------
    StoreNotFoundError, NotZarrError
        No Zarr store exists there.
    UsageError
        The store has format 3, or the server cannot list its keys.
    LimitError
        The store has more metadata than the limits allow.
    """
    keys = open_store(source, storage_options)
    keys.read_rules = ReadRules(limits=limits or Limits())
    report = ConformanceReport(keys.location)
    with at(keys):
        check = _Check(keys, report)
        check.documents()
        check.hierarchy()
        with runner(executor) as workers:
            check.chunks(workers if decode else None, memory_budget=memory_budget, progress=progress)
    return report


# ---- keys -----------------------------------------------------------------------------------------------------------


def _parts(key: str) -> list[str]:
    """Return the parts of the path in a document's key, including empty ones."""
    path = key[: -len(split(key)[1])]
    return path[:-1].split("/") if path else []


def _ascii_key(key: str) -> Found:
    if not key.isascii():
        yield "it has other characters"


def _normal_path(key: str) -> Found:
    parts = _parts(key)
    if "" in parts or any("\\" in part for part in parts):
        yield "its path is not in the normal form"


def _no_dots(key: str) -> Found:
    if not {".", ".."}.isdisjoint(_parts(key)):
        yield 'a part of its path is "." or ".."'


# ---- documents ------------------------------------------------------------------------------------------------------

_SHOWN = 80
_SEPARATOR = "dimension_separator"
_GROUP_KEYS = frozenset({"zarr_format"})
_ARRAY_KEYS = _GROUP_KEYS | {"shape", "chunks", "dtype", "compressor", "fill_value", "order", "filters"}


class _Parsed:
    """A document as JSON: its value, its tokens that are not JSON, or the reason why it does not parse."""

    def __init__(self, text: bytes) -> None:
        self.tokens: list[str] = []
        self.value: Any = None
        self.error = ""
        try:
            self.value = json.loads(text.decode("utf-8"), parse_constant=self._constant)
        except (ValueError, RecursionError) as error:
            self.error = f"{type(error).__name__}: {error}"

    def _constant(self, token: str) -> float:
        self.tokens.append(token)
        return float(token)


def _shown(value: Any) -> str:
    """Return a value of a document as text for a message; it may be anything."""
    try:
        text = json.dumps(value)
    except RecursionError:
        text = f"a {type(value).__name__} that is nested too deep to be shown"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _json(parsed: _Parsed) -> Found:
    if parsed.error:
        yield f"it does not parse ({parsed.error})"


def _json_numbers(parsed: _Parsed) -> Found:
    if parsed.tokens and not parsed.error:
        yield f"there is {', '.join(dict.fromkeys(parsed.tokens))}"


def _object(value: Any) -> Found:
    if not isinstance(value, dict):
        yield f"it holds {_shown(value)}"


def _lacking(wanted: Collection[str]) -> Callable[..., Found]:
    def check(document: dict[str, Any]) -> Found:
        missing = sorted(set(wanted) - document.keys())
        if missing:
            yield f"{', '.join(missing)} is missing"

    return check


def _beside(known: Collection[str]) -> Callable[..., Found]:
    def check(document: dict[str, Any]) -> Found:
        other = sorted(document.keys() - set(known))
        if other:
            yield f"there is {', '.join(other)} as well"

    return check


def _value_of(key: str, is_right: Callable[[Any], bool]) -> Callable[..., Found]:
    def check(document: dict[str, Any]) -> Found:
        if key in document and not is_right(document[key]):
            yield f"{key} is {_shown(document[key])}"

    return check


def _is_two(value: Any) -> bool:
    return type(value) is int and value == 2


def _are_lengths(value: Any, least: int = 0) -> bool:
    return isinstance(value, list) and all(type(n) is int and n >= least for n in value)


def _chunks(array: dict[str, Any]) -> Found:
    if "chunks" not in array:
        return
    shape, chunks = array.get("shape"), array["chunks"]
    if not _are_lengths(chunks, 1):
        yield f"chunks is {_shown(chunks)}"
    elif _are_lengths(shape) and len(shape or ()) != len(chunks):
        yield f"shape is {_shown(shape)}, and chunks is {_shown(chunks)}"


def _is_codec(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("id"), str)


def _is_compressor(value: Any) -> bool:
    return value is None or _is_codec(value)


def _are_filters(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(map(_is_codec, value)))


def _is_order(value: Any) -> bool:
    return value in ("C", "F")


def _is_separator(value: Any) -> bool:
    return value in (".", "/")


# ---- data types -----------------------------------------------------------------------------------------------------

_TYPE = re.compile(r"([<>|]?)([A-Za-z?])([0-9]{0,9})(?:\[([^\[\]]*)\])?", re.ASCII)
_UNIT = re.compile(r"[0-9]{0,9}(?:Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)", re.ASCII)

_SIZES: dict[str, tuple[int, ...]] = {
    "b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8, 12, 16), "c": (8, 16, 24, 32), "m": (8,), "M": (8,),
    "S": (), "U": (), "V": (),
}  # fmt: skip
"""Kind -> its possible sizes, from NumPy's array interface; empty if any size is possible."""

_ORDERED = "iufcmMU"
_TIMES = "mM"
_OBJECT = "O"


class _Simple(NamedTuple):
    """The parts of a data type that is a string."""

    order: str
    kind: str
    size: str
    unit: str | None


def _simple(data_type: Any) -> _Simple | None:
    """Return the parts of a data type, None if it is not a string or not a data type."""
    match = _TYPE.fullmatch(data_type) if isinstance(data_type, str) else None
    return None if match is None else _Simple(*match.groups())


def _of_known_kind(data_type: Any) -> _Simple | None:
    simple = _simple(data_type)
    return simple if simple is not None and simple.kind in _SIZES else None


def _with_fields(data_type: Any) -> Iterator[Any]:
    """Yield a data type, and those of its fields."""
    pending = [data_type]  # not recursive: a document may be nested deeper than the recursion limit
    while pending:
        here = pending.pop()
        yield here
        if isinstance(here, list):
            pending += [entry[1] for entry in here if _is_field(entry)]


def _is_field(entry: Any) -> bool:
    return isinstance(entry, list) and len(entry) in (2, 3) and isinstance(entry[0], str)


def _is_object(data_type: Any) -> bool:
    simple = _simple(data_type)
    return simple is not None and simple.kind == _OBJECT


def _dtype_form(data_type: Any) -> Found:
    known = _of_known_kind(data_type)
    if not isinstance(data_type, (str, list)):
        yield f"{_shown(data_type)} is neither a string nor a list of fields"
    elif isinstance(data_type, str) and _simple(data_type) is None:
        yield f"{_shown(data_type)} is not a byte order, kind and size"
    elif known is not None and known.kind not in _TIMES and known.unit is not None:
        yield f"{data_type!r} has brackets, and is not a time"


def _dtype_byte_order(data_type: Any) -> Found:
    known = _of_known_kind(data_type)
    if known is None or known.order in ("<", ">"):
        return
    if not known.order or (known.kind in _ORDERED and known.size != "1"):
        yield f"{data_type!r} has no byte order"


def _dtype_kind(data_type: Any) -> Found:
    simple = _simple(data_type)
    if simple is not None and simple.kind not in _SIZES and simple.kind != _OBJECT:
        yield f"{data_type!r} is of the kind {simple.kind!r}"


def _dtype_object(data_type: Any) -> Found:
    if _is_object(data_type):
        yield f"the data type is {data_type!r}"


def _dtype_size(data_type: Any) -> Found:
    known = _of_known_kind(data_type)
    if known is None:
        return
    sizes = _SIZES[known.kind]
    if not known.size or (sizes and int(known.size) not in sizes):
        yield f"{data_type!r} has no size that its kind can have"


def _dtype_units(data_type: Any) -> Found:
    known = _of_known_kind(data_type)
    if known is not None and known.kind in _TIMES and not _UNIT.fullmatch(known.unit or ""):
        yield f"{data_type!r} has no unit of time"


def _dtype_fields(data_type: Any) -> Found:
    if not isinstance(data_type, list):
        return
    if not data_type:
        yield "there are no fields"
    names = []
    for entry in data_type:
        if not _is_field(entry):
            yield f"{_shown(entry)} is not a list of a name, a data type and a shape"
            continue
        names.append(entry[0])
        if len(entry) == 3 and not _are_lengths(entry[2]):
            yield f"the field {_shown(entry[0])} has the shape {_shown(entry[2])}"
    if len(set(names)) < len(names):
        yield "two fields have the same name"


# ---- fill values ----------------------------------------------------------------------------------------------------

# The subject is a fill value that is not null, with a data type that breaks at most the rule `dtype-object`.

_SPECIAL = ("NaN", "Infinity", "-Infinity")
_UNICODE_BYTES = 4


def _kind(data_type: Any) -> str:
    return data_type[1] if isinstance(data_type, str) else ""


def _fill_scalar(value: Any, data_type: Any) -> Found:
    fits = _FITS.get(_kind(data_type))
    if fits is not None and not fits(value, data_type):
        yield f"{_shown(value)} is not a value of the type {data_type!r}"


def _fill_float(value: Any, data_type: Any) -> Found:
    if _kind(data_type) != "f":
        return
    if isinstance(value, float) and not math.isfinite(value):
        yield f"{value} is not a string"
    elif isinstance(value, str) and value not in _SPECIAL:
        yield f"{_shown(value)} is none of {', '.join(_SPECIAL)}"


def _fill_base64(value: Any, data_type: Any) -> Found:
    """Check the fill value of bytes, which may lack zeros at the end, or of fields, which may not.

    The specification does not mention lengths. NumPy drops zeros at the end of bytes, and zarr-python encodes the rest.
    The size of an object among the fields depends on its codec.
    """
    if isinstance(data_type, str) and _kind(data_type) != "S":
        return
    try:
        if not isinstance(value, str):
            raise TypeError("it is not a string")
        size = len(base64.b64decode(value, validate=True))
    except (TypeError, ValueError, binascii.Error) as error:
        yield f"{_shown(value)} is not Base64 ({error})"
        return
    if any(map(_is_object, _with_fields(data_type))):
        return
    wanted = _itemsize(data_type)
    if size > wanted or (size < wanted and isinstance(data_type, list)):
        yield f"it has {size} bytes, and an element {wanted}"


def _itemsize(data_type: Any) -> int:
    total, pending = 0, [(data_type, 1)]
    while pending:
        here, times = pending.pop()
        simple = _simple(here)
        if simple is not None:
            total += times * int(simple.size) * (_UNICODE_BYTES if simple.kind == "U" else 1)
        else:
            pending += [(inner, times * math.prod(shape[0] if shape else ())) for _, inner, *shape in here]
    return total


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: Any, data_type: str) -> bool:
    bits = 8 * _itemsize(data_type)
    least, most = (0, 2**bits) if _kind(data_type) == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1))
    return type(value) is int and least <= value < most


def _is_float(value: Any, data_type: str) -> bool:
    return _is_number(value) or isinstance(value, str)  # the rule `fill-float` checks the strings


def _is_complex(value: Any, data_type: str) -> bool:
    parts = value if isinstance(value, list) else [value]
    return len(parts) in (1, 2) and all(_is_number(part) or part in _SPECIAL for part in parts)


def _is_bool(value: Any, data_type: str) -> bool:
    return isinstance(value, bool) or (_is_number(value) and value in (0, 1))


def _is_string(value: Any, data_type: str) -> bool:
    return isinstance(value, str)


def _is_time(value: Any, data_type: str) -> bool:
    return type(value) is int or isinstance(value, str)  # strings are not in the specification; "NaT" is NumPy's


_FITS: dict[str, Callable[[Any, str], bool]] = {
    "b": _is_bool, "i": _is_integer, "u": _is_integer, "f": _is_float, "c": _is_complex, "m": _is_time, "M": _is_time,
    "U": _is_string, "V": _is_string,
}  # fmt: skip


# ---- chunks ---------------------------------------------------------------------------------------------------------


def _chunk_key(unknown: Sequence[str], stored: StoredArray) -> Found:
    return ((name, f"it is not a chunk of the grid {stored.grid}") for name in unknown)


def _chunk_size(problems: Sequence[tuple[str, str]]) -> Found:
    return (message for kind, message in problems if kind == "chunk-damaged")


# ---- the hierarchy --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Tree:
    """Paths of the groups that have a document, and arrays by path, None for one that does not parse."""

    groups: set[str] = field(default_factory=set)
    arrays: dict[str, Dataset[Attributes] | None] = field(default_factory=dict)

    def above(self) -> Iterator[tuple[str, str]]:
        """Yield each node with the paths above it, up to the next node. A path without a node is followed once."""
        nodes = self.groups | self.arrays.keys()
        followed: set[str] = set()
        for path in sorted(nodes):
            above = path
            while above:
                above = split(above)[0]
                yield path, above
                if above in nodes or above in followed:
                    break  # the paths above that node are checked with it
                followed.add(above)


def _group_ancestors(tree: _Tree) -> Found:
    for path in sorted({above for _, above in tree.above() if above not in tree.groups and above not in tree.arrays}):
        yield zarr2.key_of(path, zarr2.GROUP), "there are members, and no .zgroup"


def _array_members(tree: _Tree) -> Found:
    for path, above in tree.above():
        if above in tree.arrays:
            key = zarr2.key_of(path, zarr2.ARRAY if path in tree.arrays else zarr2.GROUP)
            yield key, f"it is inside of the array {absolute(above)!r}"


def _one_kind(tree: _Tree) -> Found:
    for path in sorted(tree.groups & tree.arrays.keys()):
        yield zarr2.key_of(path, zarr2.GROUP), "there is .zarray as well"


# ---- the table ------------------------------------------------------------------------------------------------------

_KEY, _TEXT, _ARRAY, _GROUP, _DTYPE, _FILL = "key", "text", "array", "group", "data type", "fill value"
_NAMES, _CHUNK, _TREE = "names below an array", "chunk", "hierarchy"

_TABLE = (
    Rule("ascii-key", "Storage", "a key is an ASCII string", _KEY, _ascii_key,
         "names come from schemas and users, and every store and reader tried takes UTF-8"),
    Rule("normal-path", "Logical storage paths", "a path has no backslash, no slash at either end, and none doubled",
         _KEY, _normal_path),
    Rule("no-dots", "Logical storage paths", 'no part of a path is "." or ".."', _KEY, _no_dots),
    Rule("json", "Metadata", "a document is JSON", _TEXT, _json),
    Rule("json-numbers", "Fill value encoding", "NaN and infinities are not tokens of JSON", _TEXT, _json_numbers,
         "hdmf-zarr 0.13 reads the tokens and not the strings for them; `strict_json=True` writes the strings"),
    Rule("array-object", "Metadata", ".zarray is a JSON object", zarr2.ARRAY, _object),
    Rule("array-keys", "Metadata", ".zarray has all of the keys that are listed", _ARRAY, _lacking(_ARRAY_KEYS)),
    Rule("array-other-keys", "Metadata", ".zarray has no other keys", _ARRAY, _beside({*_ARRAY_KEYS, _SEPARATOR}),
         "the specification says SHOULD NOT here, and that readers ignore such keys"),
    Rule("array-format", "Metadata", "zarr_format of .zarray is 2", _ARRAY, _value_of("zarr_format", _is_two)),
    Rule("shape", "Metadata", "shape is a list of lengths", _ARRAY, _value_of("shape", _are_lengths)),
    Rule("chunks", "Metadata", "chunks is a list of lengths, as many as shape has", _ARRAY, _chunks),
    Rule("order", "Metadata", 'order is "C" or "F"', _ARRAY, _value_of("order", _is_order)),
    Rule("compressor", "Metadata", "compressor is null, or an object with an id", _ARRAY,
         _value_of("compressor", _is_compressor)),
    Rule("filters", "Metadata", "filters is null, or a list of objects with an id each", _ARRAY,
         _value_of("filters", _are_filters)),
    Rule("dimension-separator", "Metadata", 'dimension_separator is "." or "/"', _ARRAY,
         _value_of(_SEPARATOR, _is_separator)),
    Rule("dtype-form", "Data type encoding",
         "a data type is a string of byte order, kind and size, or a list of fields", _DTYPE, _dtype_form),
    Rule("dtype-byte-order", "Data type encoding", "a type of more than one byte has a byte order", _DTYPE,
         _dtype_byte_order),
    Rule("dtype-kind", "Data type encoding", "the kind of a data type is one of b i u f c m M S U V", _DTYPE,
         _dtype_kind),
    Rule("dtype-object", "Data type encoding", "the kind of a data type is not O", _DTYPE, _dtype_object,
         "zarr-python stores text, bytes and JSON as objects, and the readers of its files read them"),
    Rule("dtype-size", "Data type encoding", "a data type has a number of bytes, one that its kind can have", _DTYPE,
         _dtype_size),
    Rule("dtype-units", "Data type encoding", "a type of times has its unit in brackets", _DTYPE, _dtype_units),
    Rule("dtype-fields", "Data type encoding", "a field is a list of a name, a data type and, where needed, a shape",
         _DTYPE, _dtype_fields),
    Rule("fill-scalar", "Metadata", "fill_value is null, or a value of the data type", _FILL, _fill_scalar),
    Rule("fill-float", "Fill value encoding", 'NaN and infinities are "NaN", "Infinity" and "-Infinity"', _FILL,
         _fill_float),
    Rule("fill-base64", "Fill value encoding", "the fill value of fixed-length bytes or of fields is in Base64", _FILL,
         _fill_base64),
    Rule("chunk-key", "Chunks", "what is stored below an array has the key of a chunk of its grid", _NAMES, _chunk_key),
    Rule("chunk-size", "Chunks", "a chunk decodes by the compressor and the filters, to as many bytes as all others",
         _CHUNK, _chunk_size),
    Rule("group-object", "Groups", ".zgroup is a JSON object", zarr2.GROUP, _object),
    Rule("group-keys", "Groups", ".zgroup has the key zarr_format", _GROUP, _lacking(_GROUP_KEYS)),
    Rule("group-format", "Groups", "zarr_format of .zgroup is 2", _GROUP, _value_of("zarr_format", _is_two)),
    Rule("group-other-keys", "Groups", ".zgroup has no other key", _GROUP, _beside(_GROUP_KEYS)),
    Rule("group-ancestors", "Groups", "there is a .zgroup at every path above a node", _TREE, _group_ancestors),
    Rule("array-members", "Groups", "nodes are members of groups, not of arrays", _TREE, _array_members),
    Rule("one-kind", "Groups", "there is an array or a group at a path, not both", _TREE, _one_kind),
    Rule("attributes-object", "Attributes", ".zattrs is a JSON object", zarr2.ATTRIBUTES, _object),
)  # fmt: skip

RULES: Final[dict[str, Rule]] = {rule.name: rule for rule in _TABLE}
"""All rules by name, in the order of the specification."""

_BY_SUBJECT = {subject: [rule for rule in _TABLE if rule.subject == subject] for subject in {r.subject for r in _TABLE}}


# ---- the check of a store -------------------------------------------------------------------------------------------

_DOCUMENTS = zarr2.DOCUMENT_NAMES | {zarr2.CONSOLIDATED}
_BATCH = 10_000


def _broken(subject: str, *values: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names of the rules that a subject breaks, each with its result."""
    for rule in _BY_SUBJECT[subject]:
        for found in rule.check(*values):
            yield rule.name, found


def _broken_by_type(data_type: Any) -> Iterable[tuple[str, str]]:
    is_short = isinstance(data_type, str) and len(data_type) <= _SHOWN
    return _broken_by_string(data_type) if is_short else _broken(_DTYPE, data_type)


@lru_cache(maxsize=64)
def _broken_by_string(data_type: str) -> tuple[tuple[str, str], ...]:
    return tuple(_broken(_DTYPE, data_type))  # many arrays have the same few types


def _broken_by_document(name: str, document: Any) -> Iterator[tuple[str, str]]:
    """Yield the rules that a document called ``name`` breaks, with messages."""
    yield from _broken(name, document)
    if not isinstance(document, dict) or name == zarr2.ATTRIBUTES:
        return
    if name == zarr2.GROUP:
        yield from _broken(_GROUP, document)
        return
    yield from _broken(_ARRAY, document)
    if "dtype" not in document:
        return
    data_type, fill = document["dtype"], document.get("fill_value")
    by_type = [found for part in _with_fields(data_type) for found in _broken_by_type(part)]
    yield from by_type
    if fill is not None and not _is_object(data_type) and all(rule == "dtype-object" for rule, _ in by_type):
        yield from _broken(_FILL, fill, data_type)


class _Check:
    def __init__(self, keys: Store, report: ConformanceReport) -> None:
        self._keys = keys
        self._report = report
        self._sizes = _listed(keys)
        self._tree = _Tree()

    def documents(self) -> None:
        """Check the key and the value of each document."""
        keys = sorted(key for key in self._sizes if split(key)[1] in _DOCUMENTS)
        good = [key for key in keys if self._is_path(key)]
        limits = self._keys.read_rules.limits
        check_keys(dict.fromkeys(good), self._keys.read_rules)
        size = sum(self._sizes[key] for key in good)
        limits.check("max_document_bytes", size, f"the metadata documents have {size:,} bytes")
        for start in range(0, len(good), _BATCH):
            for key, text in self._keys.get_many(good[start : start + _BATCH]).items():
                self._document(key, text)
        self._report.groups, self._report.arrays = len(self._tree.groups), len(self._tree.arrays)

    def _is_path(self, key: str) -> bool:
        """Check a key; return whether its path can be that of a node."""
        found = dict(_broken(_KEY, key))
        for rule, message in found.items():
            self._report.add(rule, key, message)
        return not found.keys() - {"ascii-key"}

    def _document(self, key: str, text: bytes) -> None:
        path, name = split(key)
        if name == zarr2.ARRAY:
            self._tree.arrays[path] = None
        elif name == zarr2.GROUP:
            self._tree.groups.add(path)
        parsed = _Parsed(text)
        for rule, message in _broken(_TEXT, parsed):
            self._report.add(rule, key, message)
        if parsed.error or name == zarr2.CONSOLIDATED:
            return
        for rule, message in _broken_by_document(name, parsed.value):
            self._report.add(rule, key, message)
        if name == zarr2.ARRAY:
            with suppress(MetadataError):  # reported already
                self._tree.arrays[path] = zarr2.parse_array(parsed.value, {}, path)

    def hierarchy(self) -> None:
        """Check the parents of each node, and whether a path has two nodes."""
        for rule, (key, message) in _broken(_TREE, self._tree):
            self._report.add(rule, key, message)

    def chunks(self, workers: Runner | None, *, memory_budget: int, progress: Progress) -> None:
        """Check the keys of all chunks, and decode the chunks if there are workers."""
        tasks = self._tasks()
        if workers is None:
            self._report.chunks = sum(1 for _ in tasks)
            return
        progress.start(0)
        for task, found in workers.run(tasks, memory_budget=memory_budget):
            assert isinstance(task, DecodeTask)
            key = join(task.path, task.node.stored.chunk_name(task.indices[0]))
            wrong = list(_broken(_CHUNK, found.problems))
            for rule, message in wrong:
                self._report.add(rule, key, message)
            if not wrong and found.problems:
                self._report.undecoded.setdefault(absolute(task.path), found.problems[0][1])
            self._report.chunks += 1
            progress.advance(absolute(task.path), found.done)
        progress.finish()

    def _tasks(self) -> Iterator[DecodeTask]:
        names = self._names()
        for path, node in sorted(self._tree.arrays.items()):
            if node is None:
                continue
            found, unknown = StoredObjects(node).sort(names.get(path, ()))
            if unknown:
                unknown = self._not_of_format_3(path, unknown)
            for rule, (name, message) in _broken(_NAMES, unknown, node.stored):
                self._report.add(rule, join(path, name), message)
            try:
                _ = ChunkReader(self._keys, path, node.stored, ChunkCache(0)).codec
            except ZarrBackendError as error:
                self._report.undecoded[absolute(path)] = error.problem
                self._report.chunks += len(found)
                continue
            for index in sorted(found):
                yield DecodeTask(self._keys, path, node, [index])

    def _not_of_format_3(self, path: str, names: list[str]) -> list[str]:
        """Return the names that are not chunks of the same array in format 3, in a file that has both formats."""
        key = join(path, zarr3.DOCUMENT)
        text = self._keys.get(key) if key in self._sizes else None
        if text is None:
            return names
        check_texts([text], self._keys.read_rules)
        try:
            node = registry.parse_array({zarr3.DOCUMENT: load(text, key=key)}, path)
        except MetadataError:  # the rules are those of format 2
            return names
        return names if node is None else StoredObjects(node).sort(names)[1]

    def _names(self) -> dict[str, list[str]]:
        """Return for each array the names of the keys below it."""
        found: dict[str, list[str]] = {}
        owners: dict[str, str | None] = {}
        for key in self._sizes:
            folder, name = split(key)
            if name in _DOCUMENTS:
                continue
            if folder not in owners:
                owners[folder] = self._owner(folder)
            owner = owners[folder]
            if owner is not None:
                found.setdefault(owner, []).append(key[len(owner) + 1 if owner else 0 :])
        return found

    def _owner(self, folder: str) -> str | None:
        """Return the array that the content of ``folder`` belongs to, None if there is none."""
        while folder not in self._tree.arrays:
            if not folder:
                return None
            folder = split(folder)[0]
        return folder


def _listed(keys: Store) -> dict[str, int]:
    """Return ``{key: bytes}`` of all keys of a store of format 2."""
    if not keys.abilities.listing:
        raise UsageError(
            "this server cannot list its keys",
            store=keys.location,
            remedy="Check a copy on a disk, where all keys can be found.",
        )
    if not keys.exists():
        raise StoreNotFoundError("the file does not exist", store=keys.location, remedy="Check the path.")
    found = keys.sizes("")
    names = {split(key)[1] for key in found}
    if names & {zarr2.GROUP, zarr2.ARRAY}:
        return found
    if zarr3.DOCUMENT in names:
        raise UsageError(
            "this file has Zarr format 3, and the rules are those of format 2",
            store=keys.location,
            remedy="Use `zarrio verify` without --conformance.",
        )
    raise NotZarrError(
        "this is not a Zarr hierarchy: it has neither .zgroup nor .zarray",
        store=keys.location,
        remedy="HDF5 files are converted with `zarrio convert`.",
    )
