"""The comparing tool: all differences of two files.

It knows no file format. It compares two `FileFacts`, which `providers.open_facts` finds through a table of formats.

What counts as equal: NaN and NaN (NaT and NaT), however stored; two references to the same path (and selection); a
relative and an absolute soft link to the same path; an external link with the same text or to the same absolute file;
text below ``/specifications`` that is the same JSON document. What does not: 0.0 and -0.0, 2**53 + 1 and its nearest
float. Not looked at: the order of links and attributes, comments, times, padding inside compounds, committed types, and
what one of the two formats has no word for.

Values are compared where shapes agree (or both hold one element) and types are of one family, block by block: two
blocks of at most `values.BLOCK_BYTES`, or of one chunk where that is larger, are held at a time.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any

from hdmf_zarr_backend.compare.differences import KINDS, Difference
from hdmf_zarr_backend.compare.providers import open_pair
from hdmf_zarr_backend.compare.values import Findings, aligned, compare_values
from hdmf_zarr_backend.errors import UsageError
from hdmf_zarr_backend.mapping.facts import (
    AttributeFacts,
    DatasetFacts,
    DatatypeFacts,
    ElementType,
    FileFacts,
    LinkFacts,
    NodeFacts,
)

__all__ = ["compare"]


def compare(
    a: FileFacts | str | os.PathLike[str],
    b: FileFacts | str | os.PathLike[str],
    *,
    ignore: Collection[str] = (),
    values: bool = True,
    storage_options: Mapping[str, Any] | None = None,
) -> list[Difference]:
    """List everything in which two files differ, in the order of paths.

    Parameters
    ----------
    a, b : FileFacts, str or PathLike
        Files; those given as paths are opened and closed. Two paths of one format are compared in the words of that
        format, of two formats in the words of HDF5.
    ignore : collection of str
        Kinds to leave out. With both ``value`` and ``reference`` no values of datasets are read.
    values : bool
        Compare the values of datasets; False: none is read.
    storage_options : mapping, optional
        For those of the two that are URLs.

    Returns
    -------
    list of Difference
        At most one for each node, kind and attribute; empty if the files are equal.

    Raises
    ------
    UsageError
        If `ignore` names a kind that does not exist, or a file is of no format that can be compared.
    StoreNotFoundError
        If nothing is at a path.
    ZarrBackendError
        If a file cannot be read.

    Source: issue "The main job, end to end, on real NWB files", "Done when": what of a file has to come back.
    """
    if unknown := set(ignore) - KINDS:
        raise UsageError(
            f"no such kinds of differences: {', '.join(sorted(unknown))}",
            remedy=f"There are {', '.join(sorted(KINDS))}.",
        )
    with ExitStack() as stack:
        left, right = open_pair(a, b, storage_options=storage_options)
        for given, opened in ((a, left), (b, right)):
            if given is not opened:
                stack.enter_context(closing(opened))
        found = _compare_files(left, right, with_values=values and not {"value", "reference"} <= set(ignore))
        return [difference for difference in found if difference.kind not in ignore]


def _compare_files(a: FileFacts, b: FileFacts, *, with_values: bool) -> Iterator[Difference]:
    paths_a, paths_b = set(a), set(b)
    for path in sorted(paths_a | paths_b):
        if path not in paths_b:
            yield Difference(path, "missing", a[path].kind, None)
        elif path not in paths_a:
            yield Difference(path, "extra", None, b[path].kind)
        else:
            yield from _compare_nodes(path, a[path], b[path], with_values=with_values)


def _compare_nodes(path: str, a: NodeFacts, b: NodeFacts, *, with_values: bool) -> Iterator[Difference]:
    if isinstance(a, LinkFacts) and isinstance(b, LinkFacts):
        if not _same_link(a, b):
            yield Difference(path, "link", a, b)
        return
    if isinstance(a, LinkFacts) or isinstance(b, LinkFacts) or a.kind != b.kind:
        yield Difference(path, "type", a.kind, b.kind)
        return
    yield from _compare_attributes(path, a.attributes, b.attributes)
    if isinstance(a, DatatypeFacts) and isinstance(b, DatatypeFacts):
        yield from _compare_types(path, a.dtype, b.dtype)
    if isinstance(a, DatasetFacts) and isinstance(b, DatasetFacts):
        yield from _compare_storage(path, a, b)
        if with_values:
            yield from compare_values(path, a, b)


def _same_link(a: LinkFacts, b: LinkFacts) -> bool:
    same_file = a.file == b.file or a.location == b.location
    return (a.form, a.target) == (b.form, b.target) and same_file


def _compare_attributes(
    path: str, a: Mapping[str, AttributeFacts], b: Mapping[str, AttributeFacts]
) -> Iterator[Difference]:
    for name in sorted(a.keys() | b.keys()):
        kind = "object_id" if name == "object_id" else "attribute"
        left, right = a.get(name), b.get(name)
        if left is None or right is None:
            yield Difference(path, kind, left, right, name)
            continue
        for change in sorted(_type_changes(left.dtype, right.dtype)):
            yield Difference(path, f"attribute-{change}", left.dtype, right.dtype, name)
        if left.shape != right.shape:
            yield Difference(path, "attribute-shape", left.shape, right.shape, name)
        if left.value is None or right.value is None or not aligned(left.shape, right.shape):
            continue
        found = Findings(left.dtype, right.dtype)
        found.add(left.value, right.value)
        for part, (count, place, item_a, item_b) in found.by_kind.items():
            yield Difference(path, kind if part == "value" else part, item_a, item_b, name, place, count)


def _compare_types(path: str, a: ElementType, b: ElementType) -> Iterator[Difference]:
    for kind in sorted(_type_changes(a, b)):
        yield Difference(path, kind, a, b)


def _type_changes(a: ElementType, b: ElementType) -> set[str]:
    if a == b:
        return set()
    if a.kind != b.kind or a.shape != b.shape:
        return {"dtype"}
    if a.kind == "text":
        return {"text-encoding"}
    if [name for name, _ in a.fields] != [name for name, _ in b.fields]:
        return {"dtype"}
    inner = [(member_a, member_b) for (_, member_a), (_, member_b) in zip(a.fields, b.fields, strict=True)]
    if a.base is not None and b.base is not None:
        inner.append((a.base, b.base))
    found = set().union(*(_type_changes(*pair) for pair in inner))
    if (a.size, a.detail, a.members) != (b.size, b.detail, b.members):
        found.add("dtype")
    if a.byte_order != b.byte_order and "|" not in {a.byte_order, b.byte_order}:
        found.add("byte-order")
    return found


def _compare_storage(path: str, a: DatasetFacts, b: DatasetFacts) -> Iterator[Difference]:
    yield from _compare_types(path, a.dtype, b.dtype)
    for kind in ("shape", "chunks", "filters"):
        if getattr(a, kind) != getattr(b, kind):
            yield Difference(path, kind, getattr(a, kind), getattr(b, kind))
    # an axis that cannot grow says nothing beyond the shape
    growth_a, growth_b = (a.maxshape, b.maxshape) if a.shape == b.shape else (_growth(a), _growth(b))
    if growth_a != growth_b:
        yield Difference(path, "maxshape", a.maxshape, b.maxshape)
    if a.chunks is None and b.chunks is None and a.layout and b.layout and a.layout != b.layout:
        yield Difference(path, "layout", a.layout, b.layout)
    if not _same_fill(a, b):
        fills = [None if facts.fill is None else facts.fill.tolist() for facts in (a, b)]
        yield Difference(path, "fill", fills[0], fills[1])


def _growth(facts: DatasetFacts) -> list[tuple[int, int | None]]:
    axes = zip(facts.shape or (), facts.maxshape or (), strict=True)
    return [(axis, limit) for axis, (length, limit) in enumerate(axes) if limit != length]


def _same_fill(a: DatasetFacts, b: DatasetFacts) -> bool:
    if a.fill is None or b.fill is None:
        return a.fill is b.fill
    found = Findings(a.dtype, b.dtype)
    found.add(a.fill, b.fill)
    return not found.by_kind
