"""`compare`: the differences between two files, each in Zarr or HDF5."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, is_dataclass, replace
from itertools import takewhile, zip_longest
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from hdmf_zarr_backend import errors
from hdmf_zarr_backend.array.content import ZarrContent
from hdmf_zarr_backend.encoding import zarr2, zarr3
from hdmf_zarr_backend.encoding.parser import existing_documents, nothing_to_read
from hdmf_zarr_backend.errors import at, known_arguments, printable
from hdmf_zarr_backend.model.content import (
    AttributeContent,
    DatasetContent,
    FileContent,
    GroupContent,
    LinkContent,
    NodeContent,
    Selection,
    UnreadableContent,
    Values,
)
from hdmf_zarr_backend.model.element import (
    ArrayOf,
    Compound,
    Element,
    Enum,
    Number,
    Opaque,
    Precision,
    Reference,
    Sequence,
    Text,
    Time,
    Unknown,
)
from hdmf_zarr_backend.model.nodes import chunk_region, grid_of, indices_of, split
from hdmf_zarr_backend.model.render import PLAIN, Form, View, counted, few, limited, readable
from hdmf_zarr_backend.options import ReadOptions
from hdmf_zarr_backend.store.base import Store
from hdmf_zarr_backend.store.opening import FileSource, is_hdf5, open_store, path_or_store

KINDS: frozenset[str] = frozenset(
    {
        "missing",  # a node of a that is not in b
        "extra",  # a node of b that is not in a
        "renamed",  # a node of a that has another path in b: the same object_id
        "rows",  # of tables of different lengths: ids that only one of them has
        "type",  # a is a group, dataset, datatype or link, and b is another of these
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
        "unreadable",  # a node, or values of a dataset or an attribute, that cannot be read, with the reason
        "value",
        "reference",  # target or selection, in datasets, compound fields and attributes
        "attribute",  # missing, extra, or with another value
        "attribute-dtype",
        "attribute-byte-order",
        "attribute-text-encoding",
        "attribute-shape",
        "object_id",  # the attribute of this name: missing, extra, or with another value
    }
)
"""All kinds of differences. Later releases only add kinds."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between two files.

    Parameters
    ----------
    path : str
        Absolute path of the node.
    kind : str
        One of `KINDS`.
    a, b : object
        What each file has; None where it has nothing. For values that are unreadable: why, None for the file that can
        be read. For rows: the ids that only this file has; the numbers of rows if ids are not unique.
    attribute : str, optional
        Name of the attribute that differs.
    place : str
        For values: index and field of the first difference, such as ``[3]['x']``.
    count : int
        For values: number of elements that differ.
    largest : int, float or None
        For values that are numbers: the largest difference between two of them; None for other values, and if one of
        each two is NaN.
    common : int or None
        For values of datasets of different shapes: how many elements both have at the same position.
    """

    path: str
    kind: str
    a: object = None
    b: object = None
    attribute: str | None = None
    place: str = ""
    count: int = 1
    largest: float | None = field(default=None, compare=False)
    common: int | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return printable(f"{self.path} {self.text}")

    @property
    def text(self) -> str:
        """The difference without its path."""
        attribute = "" if self.attribute is None else f"attribute {self.attribute!r} "
        kind = "" if self.kind in ("attribute", self.attribute) else self.kind  # it is in the text before it
        extent = ""
        if self.count != 1 or self.common is not None:  # the values of one element are shown
            largest = "" if self.largest is None or self.count == 1 else f", largest difference {self.largest!r}"
            common = "" if self.common is None else f"of {self.common:,} common "
            extent = f" ({self.count:,} {common}elements{largest})"
        return f"{f'{attribute}{kind}'.rstrip()}{self.place}{extent}: {self.description}"

    @property
    def description(self) -> str:
        """What each file has, as text."""
        if self.kind == "unreadable":
            return " | ".join(str(reason or "readable") for reason in (self.a, self.b))
        if self.kind == "renamed":
            return f"{self.a} -> {self.b}"
        if self.kind == "rows" and not self.place:
            changes: Any = ((self.a, "removed"), (self.b, "added"))
            named = ((ids, change, few(list(map(str, ids)), count=len(ids))) for ids, change in changes if ids)
            return ", ".join(f"{len(ids):,} {change} (id {names})" for ids, change, names in named)
        a, b = readable(self.a), readable(self.b)
        if isinstance(a, (str, list, tuple)) and a == b:  # only the bytes differ
            a, b = self.a, self.b
        return f"{_words(a, b)} | {_words(b, a)}"


class Differences(View, list[Difference]):
    """The differences between two files: a list, which prints as the command prints it."""

    compared = ""  # what both files have, as "2 groups, 3 datasets"

    def lines(self, form: Form = PLAIN, name: str | None = None) -> list[str]:
        """Return what the command prints in a ``form``, whatever the ``name``: differences and their number."""
        if not self:
            return [f"no differences ({self.compared})"]
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in summarise(self).items())
        versions = {each.path: each.kind for each in self if each.kind in _ONLY and _VERSION.fullmatch(each.path)}
        folded = versions.keys() | {split(path)[0] for path in versions} if form.limit > 0 else set()
        shown = [each for each in self if each.kind not in _ONLY or not folded & {each.path, split(each.path)[0]}]
        lines = limited(shown, form)
        for kind in dict.fromkeys(versions.values()) if folded else ():
            names = [" ".join(path.split("/")[2:]) for path in versions if versions[path] == kind]
            lines.append(f"cached specifications {_ONLY[kind]}: {', '.join(names)}{form.all}")
        return [*lines, f"{counted(len(self), 'difference')}: {kinds}"]


def summarise(differences: Iterable[Difference]) -> dict[str, int]:
    """Count differences by kind, the kinds in alphabetical order."""
    return dict(sorted(Counter(difference.kind for difference in differences).items()))


def _words(value: object, other: object) -> str:
    """Return a value as text of one line. Of a long text, show the part where it begins to differ from ``other``."""
    if isinstance(value, str) and isinstance(other, str):
        common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(value, other, strict=False)))
        start = max(0, common - 20)
        shown = repr(value[start : start + 80])
        return f"{'...' if start else ''}{shown}{'...' if len(value) > start + 80 else ''}"
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        return ", ".join(map(str, value))
    text = str(value) if is_dataclass(value) else repr(value)
    return text if len(text) <= 160 else f"{text[:150]}... ({len(text)} characters)"


BLOCK_BYTES = 8 * 2**20
# the errors of values that cannot be read, because they are damaged or a library is missing
UNREADABLE = (errors.DamagedFileError, errors.UnsupportedFileError)

_Attributes: TypeAlias = Mapping[str, AttributeContent]
_Mask: TypeAlias = npt.NDArray[np.bool_]
_Runs: TypeAlias = npt.NDArray[np.int64]
"""Rows to compare, ``(runs, 3)``: where each run starts in both files, and its length."""
_Parts: TypeAlias = Iterator[tuple[Selection, Selection, tuple[Values, Values] | None]]
"""Selections in both files, and the rows of them that are compared; None: all."""

_SPECIFICATIONS = "/specifications/"
_VERSION = re.compile(f"{_SPECIFICATIONS}[^/]+/[^/]+")
_ONLY = {"missing": "only in A", "extra": "only in B"}
_NUMBERS = (Number, Enum)
_MARKS = (zarr2.CONSOLIDATED, zarr2.GROUP, zarr3.DOCUMENT, zarr2.ARRAY)
_OBJECT_BYTES = 512  # of an element that is a Python object, as an estimate
_MOST_ROWS = 10**7  # whose ids are read into memory


def compare_values(path: str, a: DatasetContent, b: DatasetContent, runs: _Runs | None = None) -> Iterator[Difference]:
    """Yield the differences of the values, and references, of two datasets: in ``runs`` of rows, or what is common."""
    is_part = not aligned(a.shape, b.shape)
    if a.shape is None or b.shape is None or (is_part and len(a.shape) != len(b.shape)):
        return
    common = tuple(map(min, a.shape, b.shape)) if is_part else a.shape
    only = tuple(slice(0, 1) for _ in b.shape)  # where the axes differ, both have one element
    parts: _Parts = ((part, part if len(part) == len(only) else only, None) for part in blocks(a, b, common))
    if runs is not None:
        parts = _row_blocks(a, b, runs)
    # the order of keys in the JSON of a cached specification means nothing
    as_json = path.startswith(_SPECIFICATIONS) and isinstance(a.dtype, Text) and isinstance(b.dtype, Text)
    findings = Findings(a.dtype, b.dtype, path)
    for of_a, of_b, picks in parts:
        left, right = _read(a, of_a), _read(b, of_b)
        if isinstance(left, str) or isinstance(right, str):
            why_a, why_b = (values if isinstance(values, str) else None for values in (left, right))
            yield Difference(path, "unreadable", why_a, why_b)
            break
        if picks is not None:
            left, right = left[picks[0]], right[picks[1]]
        values = (_canonical_json(left), _canonical_json(right)) if as_json else (left, right)
        findings.add(*values, tuple(part.start for part in of_a), None if picks is None else picks[0])
    for difference in findings.by_kind.values():
        yield replace(difference, common=math.prod(common)) if is_part and runs is None else difference


def _row_blocks(a: DatasetContent, b: DatasetContent, runs: _Runs) -> _Parts:
    """Yield blocks of complete rows of about `BLOCK_BYTES`, and the positions in them of the rows of ``runs``."""
    rest = [slice(0, length) for length in (a.shape or ())[1:]]
    row = math.prod(part.stop for part in rest) * max(1, element_bytes(a.dtype), element_bytes(b.dtype))
    most = max(1, BLOCK_BYTES // max(1, row), *((each.grid or each.chunks or (1,))[0] for each in (a, b)))
    pending = [runs] if len(runs) else []
    while pending:
        part = pending.pop()
        low, high = part[:, :2].min(axis=0), (part[:, :2] + part[:, 2:]).max(axis=0)
        if (high - low).max() <= most:
            of_a, of_b = ((slice(int(start), int(stop)), *rest) for start, stop in zip(low, high, strict=True))
            yield of_a, of_b, (_positions(part, 0) - low[0], _positions(part, 1) - low[1])
        elif len(part) > 1:
            pending += [part[len(part) // 2 :], part[: len(part) // 2]]
        else:
            one, other, length = part[0].tolist()
            half = length // 2
            pending += [np.array([[one + half, other + half, length - half]]), np.array([[one, other, half]])]


def _positions(runs: _Runs, file: Literal[0, 1]) -> Values:
    """Return the positions of the elements of ``runs`` in the first or the second file."""
    lengths = runs[:, 2]
    return np.repeat(runs[:, file] - (np.cumsum(lengths) - lengths), lengths) + np.arange(lengths.sum())


def _read(dataset: DatasetContent, selection: Selection) -> Values | str:
    """Return values, or why they cannot be read."""
    if isinstance(dataset.dtype, Unknown):
        return dataset.dtype.text
    try:
        return dataset.read(selection)
    except UNREADABLE as error:
        return f"{error.problem}. {error.remedy}"


def aligned(a: tuple[int, ...] | None, b: tuple[int, ...] | None) -> bool:
    """Tell whether two shapes can be compared element by element: they are equal, or each has one element."""
    return a is not None and b is not None and (a == b or math.prod(a) == math.prod(b) == 1)


def blocks(a: DatasetContent, b: DatasetContent, shape: tuple[int, ...] | None = None) -> Iterator[Selection]:
    """Yield blocks of at most `BLOCK_BYTES`, if possible of complete chunks, of ``shape`` or all."""
    shape = a.shape or () if shape is None else shape
    if 0 in shape:
        return
    # those of the file with the larger chunks, so that each of them is decoded once. ``grid`` is that of Zarr, where
    # ``chunks`` are those that the dataset has, or would have, in HDF5.
    grids = [dataset.grid or dataset.chunks for dataset in (a, b) if len(dataset.shape or ()) == len(shape)]
    chunks = max(filter(None, grids), key=math.prod, default=(1,) * len(shape))
    block = list(map(min, chunks, shape))
    element = max(1, element_bytes(a.dtype), element_bytes(b.dtype))  # a row without fields has none
    for axis in reversed(range(len(shape))):
        block[axis] = min(shape[axis], block[axis] * max(1, BLOCK_BYTES // (math.prod(block) * element)))
        if block[axis] < shape[axis]:
            break
    for index in indices_of(grid_of(shape, tuple(block))):
        yield chunk_region(index, tuple(block), shape)


def element_bytes(element: Element) -> int:
    """Return the bytes of an element in memory, estimated for text, references and sequences."""
    match element:
        case Compound(fields):
            return sum(element_bytes(member) for _, member in fields)
        case ArrayOf(base, shape):
            return math.prod(shape) * element_bytes(base)
        case Number() | Enum() | Time():
            return element.size
    return (getattr(element, "size", None) or 0) + _OBJECT_BYTES


def _canonical_json(values: Values) -> Values:
    result = np.empty(values.size, dtype=object)
    for index, text in enumerate(values.flat):
        try:
            result[index] = json.dumps(json.loads(text), sort_keys=True)
        except (ValueError, RecursionError):  # not JSON, or nested too deep: compared as text
            result[index] = text
    return result.reshape(values.shape)


class Findings:
    """Differences between the values of a node or an attribute by kind, ``kind`` or reference, given block by block."""

    def __init__(self, a: Element, b: Element, path: str = "", attribute: str | None = None, kind: str = "value"):
        self._types = a, b
        self._path, self._attribute, self._kind = path, attribute, kind
        self.by_kind: dict[str, Difference] = {}

    def add(self, left: Values, right: Values, origin: tuple[int, ...] = (), rows: Values | None = None) -> None:
        """Compare two blocks, whose first element is at `origin`, and only these ``rows`` of a larger block."""
        if left.size != right.size or not left.size:
            return  # reported as a difference of shape or dtype
        unequal: dict[str, _Mask] = {}
        for element, column, a, b, mask in _columns(left, right.reshape(left.shape), *self._types):
            if not mask.any():
                continue
            inner = element
            while isinstance(inner, (ArrayOf, Sequence)):
                inner = inner.base
            kind = "reference" if isinstance(inner, Reference) else self._kind
            if kind not in self.by_kind:
                first = np.unravel_index(int(mask.argmax()), mask.shape)
                within = first if rows is None else (rows[first[0]], *first[1:])
                index = [int(i) + start for i, start in zip_longest(within, origin, fillvalue=0)]
                items: list[Any] = [a[first], b[first]]
                one, other = (item.tolist() if isinstance(item, np.generic | np.ndarray) else item for item in items)
                place = (f"{index}" if index else "") + column
                # counted below, once for all fields of a row
                self.by_kind[kind] = Difference(self._path, kind, one, other, self._attribute, place, count=0)
            if isinstance(element, _NUMBERS):
                known = self.by_kind[kind]
                sizes = [size for size in (known.largest, _largest_difference(a[mask], b[mask])) if size is not None]
                self.by_kind[kind] = replace(known, largest=max(sizes, default=None))
            elements = np.asarray(mask.any(axis=tuple(range(left.ndim, mask.ndim))))
            unequal[kind] = unequal[kind] | elements if kind in unequal else elements
        for kind, elements in unequal.items():
            known = self.by_kind[kind]
            self.by_kind[kind] = replace(known, count=known.count + int(np.count_nonzero(elements)))


# ---- equality of elements --------------------------------------------------------------------------------------------


def _columns(
    a: Values, b: Values, type_a: Element, type_b: Element, column: str = ""
) -> Iterator[tuple[Element, str, Values, Values, _Mask]]:
    """Split two arrays into columns that can be compared: type, name, values, and which of them differ."""
    if isinstance(type_a, Compound) and isinstance(type_b, Compound):
        others = dict(type_b.fields)
        for name, member in type_a.fields:
            if name in others:
                yield from _columns(a[name], b[name], member, others[name], f"{column}[{name!r}]")
    elif isinstance(type_a, ArrayOf) and isinstance(type_b, ArrayOf):
        if type_a.shape == type_b.shape:
            yield from _columns(a, b, type_a.base, type_b.base, column)
    elif isinstance(type_a, _NUMBERS) and isinstance(type_b, _NUMBERS):
        yield type_a, column, a, b, _unequal_numbers(a, b)
    elif isinstance(type_a, Sequence) and isinstance(type_b, Sequence):
        unequal = np.zeros(a.size, dtype=np.bool_)
        for index, (item_a, item_b) in enumerate(zip(a.flat, b.flat, strict=True)):
            findings = Findings(type_a.base, type_b.base)
            findings.add(item_a, item_b)
            unequal[index] = item_a.shape != item_b.shape or bool(findings.by_kind)
        yield type_a, column, a, b, unequal.reshape(a.shape)
    elif type(type_a) is type(type_b):
        yield type_a, column, a, b, _unequal_times(a, b) if isinstance(type_a, Time) else np.asarray(a != b, np.bool_)


def _unequal_times(a: Values, b: Values) -> _Mask:
    try:
        unequal = np.asarray(a != b, np.bool_)
    except TypeError:  # a number of years is not a number of days
        unequal = np.ones(a.shape, np.bool_)
    except OverflowError:  # many seconds are too many nanoseconds; the others in the block may be equal
        half = a.size // 2
        parts = zip(np.split(a.reshape(-1), [half]), np.split(b.reshape(-1), [half]), strict=True)
        unequal = np.concatenate([_unequal_times(*part) for part in parts]) if half else np.ones(1, np.bool_)
        unequal = unequal.reshape(a.shape)
    return unequal & ~(np.isnat(a) & np.isnat(b))


def _unequal_numbers(a: Values, b: Values) -> _Mask:
    # equal bytes first, which is the usual case, and much faster
    if a.dtype == b.dtype and np.array_equal(np.ravel(a).view(np.uint8), np.ravel(b).view(np.uint8)):
        return np.zeros(a.shape, dtype=np.bool_)
    letters = {a.dtype.kind, b.dtype.kind}
    if "c" in letters:
        return _unequal_numbers(a.real, b.real) | _unequal_numbers(a.imag, b.imag)
    unequal: _Mask = np.asarray(a != b)
    if letters == {"f"}:
        # two NaN are equal here, and 0.0 is not -0.0
        unequal &= ~(np.isnan(a) & np.isnan(b))
        unequal |= (a == 0) & (b == 0) & (np.signbit(a) != np.signbit(b))
    elif "f" in letters:
        # numpy compares integers with floats as floats, which rounds large integers
        common = np.result_type(a, b)
        integers = a if b.dtype.kind == "f" else b
        with np.errstate(invalid="ignore"):
            unequal |= integers.astype(common).astype(integers.dtype) != integers
    return unequal


def _largest_difference(a: Values, b: Values) -> float | None:
    """Return the largest difference between two numbers; exact for integers of one signedness. None: all are NaN."""
    letters = {a.dtype.kind, b.dtype.kind}
    # the difference of two int64 may need 65 bits, but is exact modulo 2**64
    if letters in ({"i"}, {"u"}):
        return int((np.maximum(a, b).astype("u8") - np.minimum(a, b).astype("u8")).max())
    common = np.result_type(a, b, np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        sizes = np.abs(a.astype(common) - b.astype(common))
    sizes = sizes[~np.isnan(sizes)]
    if not sizes.size:
        return None
    largest = float(sizes.max())
    return int(largest) if letters <= set("iub") else largest


def open_content(path: FileSource) -> FileContent:
    """Open a file for comparing; HDF5 is recognised by its signature."""
    return _opened(*_recognised(path))


def _opened(kind: str, source: tuple[Any, ...], *, as_hdf5: bool = False) -> FileContent:
    if kind == "HDF5":
        from hdmf_zarr_backend.hdf5.reader import Hdf5Content  # on use: it imports h5py

        return Hdf5Content(*source)
    return ZarrContent(*source, as_hdf5=as_hdf5)


def _recognised(
    path: FileSource, storage_options: Mapping[str, Any] | None = None, read_options: ReadOptions | None = None
) -> tuple[str, tuple[Any, ...]]:
    """Return the format of a file, ``HDF5``, ``Zarr 2`` or ``Zarr 3``, and what opens it."""
    source = path_or_store(path)
    if isinstance(source, str) and is_hdf5(source):
        return "HDF5", (source,)
    store = open_store(source, None if isinstance(source, Store) else storage_options, read_options)
    try:
        with at(store):
            documents = existing_documents(store, _MARKS)
            if not documents:
                raise nothing_to_read(store)
    except errors.IsHdf5Error:
        return "HDF5", (store.location, store.options)
    return "Zarr 3" if zarr3.DOCUMENT in documents else "Zarr 2", (store,)


@known_arguments
def compare(
    a: FileSource,
    b: FileSource,
    *,
    ignore: Collection[str] = (),
    values: bool = True,
    storage_options: Mapping[str, Any] | None = None,
    read_options: ReadOptions | None = None,
) -> Differences:
    """List all differences between two files, ordered by path; rows of tables are compared by id.

    Parameters
    ----------
    a, b : str, PathLike, or anything else that `ZarrIO` takes
        The files. Two files of one format are compared in the terms of that
        format, files of two formats in the terms of HDF5.
    ignore : collection of str
        Kinds to leave out. With both ``value`` and ``reference``, values of datasets are not read.
    values : bool
        Whether to compare the values of datasets.
    storage_options : mapping, optional
        Options for those of the two that are URLs.
    read_options : ReadOptions, optional
        Limits for files in Zarr.

    Returns
    -------
    list of Difference
        It prints as `zarrio compare` does. At most one for each node, kind and attribute; empty if the files are equal.

    Raises
    ------
    UsageError
        If `ignore` has an unknown kind.
    StoreNotFoundError, NotZarrError
        If nothing exists at a path, or something else than a file of HDF5 or Zarr.
    ZarrBackendError
        If a file cannot be read.

    Examples
    --------
    >>> from hdmf_zarr_backend import compare
    >>> compare("session.nwb", "session.nwb.zarr")
    no differences (17 groups, 17 datasets, 1 link)

    Source: HDF5 reference manual, for the properties of objects that are compared.
    """
    if unknown := set(ignore) - KINDS:
        problem = f"no such kinds of differences: {', '.join(sorted(unknown))}"
        raise errors.UsageError(problem, remedy=f"The kinds are {', '.join(sorted(KINDS))}.")
    known = [_recognised(file, storage_options, read_options) for file in (a, b)]
    # the notes of a conversion tell what each object was in HDF5, so a lossless conversion shows no difference
    as_hdf5 = known[0][0] != known[1][0]
    with ExitStack() as stack:
        left, right = (stack.enter_context(closing(_opened(*file, as_hdf5=as_hdf5))) for file in known)
        with_values, counts = values and not {"value", "reference"} <= set(ignore), Counter[str]()
        differences = _compare_files(left, right, counts, with_values=with_values)
        result = Differences(difference for difference in differences if difference.kind not in ignore)
    nouns = ", ".join(counted(counts[kind], kind) for kind in ("group", "dataset", "link") if counts[kind])
    result.compared = nouns if with_values else f"{nouns}; values were not compared"
    return result


def _compare_files(a: FileContent, b: FileContent, counts: Counter[str], *, with_values: bool) -> Iterator[Difference]:
    paths = _matched(a, b)
    tables = _Tables(a, b, paths) if with_values else None
    extra = set(b) - set(paths.values())
    for path in sorted({*a, *extra}):
        if path in extra:
            yield Difference(path, "extra", None, b[path].kind)
        elif path not in paths:
            yield Difference(path, "missing", a[path].kind, None)
        else:
            (parent, _, name), (new_parent, _, new_name) = path.rpartition("/"), paths[path].rpartition("/")
            if new_parent != paths.get(parent, parent):
                yield Difference(path, "renamed", path, paths[path])
            elif name != new_name:
                yield Difference(path, "renamed", name, new_name)
            # how many specifications are cached depends on the extensions that the writer had imported
            node = a[path]
            counts[node.kind] += not f"{path}/".startswith(_SPECIFICATIONS)
            yield from _compare_nodes(path, node, b[paths[path]], tables)


def _matched(left: FileContent, right: FileContent) -> dict[str, str]:
    """Return the path in the second file of each node that both have, which may have another name there."""
    new = set(right) - set(left) if set(left) - set(right) else ()
    extra: dict[str, Any] = {path: right[path] for path in sorted(new)}
    by_id = {object_id: path for path, node in extra.items() if (object_id := _object_id(node))}
    paths: dict[str, str] = {}
    for path in sorted(left):  # parents are before members
        parent, _, name = path.rpartition("/")
        other = f"{paths.get(parent, parent)}/{name}"
        if by_id and other not in right:
            node: Any = left[path]
            other = by_id.get(_object_id(node), "")
            if other not in extra or extra[other].kind != node.kind:
                continue
        if other in right:
            paths[path] = other
            extra.pop(other, None)
    return paths


def _object_id(node: NodeContent) -> str:
    """Return the object id of a node, empty if it has none."""
    attribute = None if isinstance(node, LinkContent) else node.attributes.get("object_id")
    return "" if attribute is None or attribute.value is None else str(attribute.value)


class _Tables:
    """The rows of tables that both files have, by id."""

    def __init__(self, left: FileContent, right: FileContent, paths: Mapping[str, str]) -> None:
        self._left, self._right, self._paths = left, right, paths
        self._rows: dict[str, tuple[_Runs, list[int]]] = {}  # of each table, and how many it has in each file
        self._equal: set[str] = set()  # ids that are equal, and need not be read again

    def _pair(self, path: str) -> tuple[DatasetContent, DatasetContent] | None:
        """Return a dataset in both files."""
        if path not in self._paths:
            return None
        a, b = self._left[path], self._right[self._paths[path]]
        return (a, b) if isinstance(a, DatasetContent) and isinstance(b, DatasetContent) else None

    def _integers(self, path: str, *, is_index: bool = False) -> list[Values] | None:
        """Return ids, or the ends of rows, in both files; None if they cannot be that, or cannot be read."""
        result: list[Values] = []
        for dataset in self._pair(path) or ():
            if not dataset.shape or len(dataset.shape) > 1 or dataset.shape[0] > _MOST_ROWS:
                return None
            values = _read(dataset, (slice(0, dataset.shape[0]),))
            if not isinstance(values, np.ndarray) or values.dtype.kind not in "iu":
                return None
            result.append(values.astype("i8"))
            ends = np.insert(result[-1], 0, 0)
            if is_index and (ends[1:] < ends[:-1]).any():
                return None
        return result or None

    def add(self, path: str) -> Iterator[Difference]:
        """Find the rows that both files have of a table, and yield those that only one of them has."""
        ids = self._integers(f"{path}/id")
        if ids is None:
            return
        lengths = [len(each) for each in ids]
        runs = np.array([[0, 0, min(lengths)]])
        _, one, other = np.intersect1d(ids[0], ids[1], return_indices=True)
        order = np.argsort(one)
        if any(len(np.unique(each)) < len(each) for each in ids) or (np.diff(other[order]) < 0).any():
            if lengths[0] != lengths[1]:
                why = " by position, since ids repeat or are in another order"
                yield Difference(path, "rows", lengths[0], lengths[1], place=why)
        elif np.array_equal(ids[0], ids[1]):
            self._equal.add(f"{path}/id")
        else:
            removed, added = (np.delete(each, at).tolist() for each, at in zip(ids, (one, other), strict=True))
            yield Difference(path, "rows", tuple(removed) or None, tuple(added) or None)
            runs = np.stack([one, other, np.ones_like(one)], axis=1)[order]
        self._rows[path] = runs, lengths

    def column(self, path: str, a: DatasetContent, b: DatasetContent) -> Iterable[Difference] | None:
        """Return the differences of a column in the rows that both files have; None: it is compared by position."""
        if path in self._equal and a.dtype == b.dtype:
            return ()
        runs, lengths = self._rows.get(path.rpartition("/")[0], (None, [0, 0]))
        indexed = self._pair(path.removesuffix("_index")) if path.endswith("_index") else None
        shapes = [(one.shape, other.shape) for one, other in filter(None, [(a, b), indexed])]
        if runs is None or ((runs == [[0, 0, max(lengths)]]).all() and all(one == other for one, other in shapes)):
            return None  # with all rows of both files
        indices: list[str] = []
        while self._pair(path + "_index" * (len(indices) + 1)):
            indices.append(path + "_index" * (len(indices) + 1))
        for name in reversed(indices):  # of a ragged column: from the rows to its elements
            index = self._integers(name, is_index=True)
            if index is None or [len(ends) for ends in index] != lengths:
                return None
            rows = _positions(runs, 0), _positions(runs, 1)
            sizes = [np.diff(ends, prepend=0) for ends in index]
            one, other = (size[row] for size, row in zip(sizes, rows, strict=True))
            starts = [(ends - size)[row] for ends, size, row in zip(index, sizes, rows, strict=True)]
            runs = np.stack([*starts, one], axis=1)[(one == other) & (one > 0)]
            lengths = [int(ends[-1]) if len(ends) else 0 for ends in index]
        if not a.shape or not b.shape or [a.shape[0], b.shape[0]] != lengths or a.shape[1:] != b.shape[1:]:
            return None
        if indexed is None or (index := self._integers(path, is_index=True)) is None:
            return compare_values(path, a, b, runs)
        # the ends of rows all change with the first row; what a user changed is how many elements a row has
        sizes = [np.diff(ends, prepend=0) for ends in index]
        of_a, of_b = (replace(each, read=size.__getitem__) for each, size in zip((a, b), sizes, strict=True))
        return (replace(each, place=f"{each.place} length") for each in compare_values(path, of_a, of_b, runs))


def _compare_nodes(path: str, a: NodeContent, b: NodeContent, tables: _Tables | None) -> Iterator[Difference]:
    if isinstance(a, UnreadableContent) or isinstance(b, UnreadableContent):
        why_a, why_b = (each.reason if isinstance(each, UnreadableContent) else None for each in (a, b))
        yield Difference(path, "unreadable", why_a, why_b)
        return
    if isinstance(a, LinkContent) and isinstance(b, LinkContent):
        # two links may name one file in two ways, relative to where each of them is
        is_same_file = a.file == b.file or a.location == b.location
        if (a.form, a.target) != (b.form, b.target) or not is_same_file:
            yield Difference(path, "link", a, b)
        return
    if isinstance(a, LinkContent) or isinstance(b, LinkContent) or a.kind != b.kind:
        yield Difference(path, "type", a.kind, b.kind)
        return
    yield from _compare_attributes(path, a.attributes, b.attributes)
    if not isinstance(a, GroupContent) and not isinstance(b, GroupContent):
        for kind in sorted(_type_changes(a.dtype, b.dtype)):
            yield Difference(path, kind, a.dtype, b.dtype)
    if isinstance(a, DatasetContent) and isinstance(b, DatasetContent):
        column = None if tables is None else tables.column(path, a, b)
        yield from _compare_storage(path, a, b, by_rows=column is not None)
        if tables is not None:
            yield from compare_values(path, a, b) if column is None else column
    elif tables is not None and "colnames" in a.attributes and "colnames" in b.attributes:
        yield from tables.add(path)


def _compare_attributes(path: str, a: _Attributes, b: _Attributes) -> Iterator[Difference]:
    for name in sorted(a.keys() | b.keys()):
        kind = "object_id" if name == "object_id" else "attribute"
        left, right = a.get(name), b.get(name)
        if left is None or right is None:
            yield Difference(path, kind, left, right, name)
            continue
        why_a, why_b = (each.dtype.text if isinstance(each.dtype, Unknown) else None for each in (left, right))
        if why_a or why_b:
            yield Difference(path, "unreadable", why_a, why_b, name)
            continue
        findings = Findings(left.dtype, right.dtype, path, name, kind)
        if left.value is not None and right.value is not None and aligned(left.shape, right.shape):
            findings.add(left.value, right.value)
        for change in sorted(_type_changes(left.dtype, right.dtype)):
            if change != "text-encoding" or not findings.by_kind:  # another text may have another length
                yield Difference(path, f"attribute-{change}", left.dtype, right.dtype, name)
        if left.shape != right.shape:
            yield Difference(path, "attribute-shape", left.shape, right.shape, name)
        yield from findings.by_kind.values()


def _type_changes(a: Element, b: Element) -> set[str]:
    if a == b:
        return set()
    (own_a, inner_a), (own_b, inner_b) = _parts(a), _parts(b)
    shapes = {getattr(each, "shape", None) for each in (a, b)}
    if a.kind != b.kind or list(inner_a) != list(inner_b) or len(shapes) > 1:
        return {"dtype"}
    if isinstance(a, Text):
        return {"text-encoding"}
    changes = set().union(*(_type_changes(inner_a[name], inner_b[name]) for name in inner_a))
    if own_a != own_b:
        changes.add("dtype")
    order_a, order_b = (getattr(each, "byte_order", "|") for each in (a, b))
    if order_a != order_b and "|" not in {order_a, order_b}:
        changes.add("byte-order")
    return changes


def _parts(element: Element) -> tuple[tuple[Any, ...], dict[str | None, Element]]:
    """Return what, besides the byte order, tells a type from others of its kind, and its inner types by name."""
    match element:
        case Compound(fields):
            return (), dict(fields)
        case ArrayOf(inner, _) | Sequence(inner):
            return (), {None: inner}
        case Number(kind, size, _, layout):
            is_native = kind == "complex" and isinstance(layout, Number)
            return (size, is_native, layout if isinstance(layout, Precision) else None), {}
        case Enum(base, members):
            return (base.kind, base.size, members), {}
        case Time(name):
            return (name,), {}
        case Opaque(size, tag):
            return (size, tag), {}
    return (), {}


def _compare_storage(path: str, a: DatasetContent, b: DatasetContent, *, by_rows: bool) -> Iterator[Difference]:
    if a.shape != b.shape and not by_rows:  # the shape follows from the rows, which are compared
        yield Difference(path, "shape", a.shape, b.shape)
    # a dataset that was written in Zarr has chunks and filters that it never had in HDF5
    if a.has_storage and b.has_storage:
        if a.chunks != b.chunks and a.shape == b.shape:  # chunks follow the shape
            yield Difference(path, "chunks", a.chunks, b.chunks)
        if a.filters != b.filters:
            yield Difference(path, "filters", a.filters, b.filters)
        if a.chunks is None and b.chunks is None and len({a.layout, b.layout} - {()}) == 2:
            yield Difference(path, "layout", a.layout, b.layout)
    growth: list[Any] = [a.maxshape, b.maxshape]
    if a.shape != b.shape:  # an axis that cannot grow has the maximum of its shape, which is compared already
        axes = (enumerate(zip(each.shape or (), each.maxshape or (), strict=True)) for each in (a, b))
        growth = [[(axis, most) for axis, (length, most) in each if most != length] for each in axes]
    if growth[0] != growth[1]:
        yield Difference(path, "maxshape", a.maxshape, b.maxshape)
    findings = Findings(a.dtype, b.dtype)
    if a.fill is not None and b.fill is not None:
        findings.add(a.fill, b.fill)
    if findings.by_kind or (a.fill is None) != (b.fill is None):
        fill_a, fill_b = (None if each.fill is None else each.fill.tolist() for each in (a, b))
        yield Difference(path, "fill", fill_a, fill_b)
