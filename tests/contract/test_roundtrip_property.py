"""The contract: builder -> file -> builder over generated trees."""

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder, ReferenceBuilder
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hdmf_zarr_backend import ZarrDataIO, ZarrIO
from hdmf_zarr_backend.encoding.references import RegionReference, ZarrReference
from hdmf_zarr_backend.errors import NameRefusedError
from tests.places import Place, remove
from tests.strategies import FIXED, NAMES, NUMBERS, PLAIN, STRUCTURED, TEXT, expected, raw_arrays, shapes
from tests.trees import edit_builder, read_builder, write_builder

EXAMPLES = settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

SMALL = shapes(most=3, longest=4)
SCALARS = raw_arrays(NUMBERS, st.just((1,))).map(lambda array: array[0])
ATTRIBUTES = st.one_of(
    raw_arrays(NUMBERS, SMALL),
    SCALARS,
    raw_arrays(FIXED, SMALL),
    TEXT,
    st.binary(max_size=5),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False) | st.just(float("nan")),  # Python's NaN has no sign and no payload that one could see
    st.lists(TEXT, min_size=1, max_size=3).map(lambda texts: np.array(texts, object)),
)
LABELS = st.none() | st.text("abc,_ é", min_size=1, max_size=4)


@st.composite
def array_data(draw: st.DrawFn) -> tuple[Any, Any, tuple[int, ...]]:
    array = draw(raw_arrays(PLAIN.filter(lambda dtype: dtype.kind != "U") | STRUCTURED, SMALL))
    chunks = tuple(draw(st.integers(1, max(1, n))) for n in array.shape)
    return ZarrDataIO(array, chunks=chunks) if draw(st.booleans()) else array, None, array.shape


@st.composite
def text_data(draw: st.DrawFn) -> tuple[Any, Any, tuple[int, ...]]:
    shape = draw(SMALL)
    array = np.empty(shape, object)
    array.reshape(-1)[:] = draw(st.lists(TEXT, min_size=array.size, max_size=array.size))
    return array, "utf8", shape


@st.composite
def scalar_data(draw: st.DrawFn) -> tuple[Any, Any, tuple[int, ...]]:
    value = draw(SCALARS | TEXT)
    return value, "utf8" if isinstance(value, str) else None, ()


@st.composite
def datasets(draw: st.DrawFn, name: str) -> DatasetBuilder:
    data, word, shape = draw(array_data() | text_data() | scalar_data())
    labels = tuple(draw(LABELS) for _ in shape) if shape and draw(st.booleans()) else None
    more = st.none() | st.integers(0, 3)
    bounds = tuple(None if (n := draw(more)) is None else length + n for length in shape)
    maxshape = bounds if shape and draw(st.booleans()) else None
    attributes = draw(st.dictionaries(NAMES, ATTRIBUTES, max_size=2))
    return DatasetBuilder(
        name=name, data=data, dtype=word, attributes=attributes, dimension_labels=labels, maxshape=maxshape
    )


@st.composite
def groups(draw: st.DrawFn, name: str = "root", depth: int = 2) -> GroupBuilder:
    builder = GroupBuilder(name=name)
    for member in draw(st.lists(NAMES, max_size=4, unique=True)):
        kind = draw(st.sampled_from(["group", "dataset", "dataset", "attribute"]))
        if kind == "attribute":
            builder.set_attribute(member, draw(ATTRIBUTES))
        elif kind == "group" and depth:
            builder.set_group(draw(groups(member, depth - 1)))
        else:
            builder.set_dataset(draw(datasets(member)))
    return builder


def nodes(builder: GroupBuilder, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {path: builder}
    for name, child in builder.groups.items():
        found |= nodes(child, f"{path}/{name}")
    return found | {f"{path}/{name}": child for name, child in builder.datasets.items()}


def plain(data: Any) -> Any:
    return data.data if isinstance(data, ZarrDataIO) else data


@st.composite
def regions(draw: st.DrawFn, known: dict[str, Any]) -> ZarrReference:
    """Return a reference to a part of one of the arrays: slices, lists of indices, or single elements."""
    path = draw(st.sampled_from([path for path, node in known.items() if is_array(node)]))
    shape = plain(known[path].data).shape
    indices = [st.lists(st.integers(0, n - 1), min_size=1, max_size=4) if n else st.just(slice(None)) for n in shape]
    if draw(st.booleans()) and 0 not in shape:
        points = st.lists(st.tuples(*(st.integers(0, n - 1) for n in shape)), min_size=1, max_size=4)
        return ZarrReference(".", path, region={"points": [list(point) for point in draw(points)]})
    bound = [st.none() | st.integers(0, n) for n in shape]
    slices = [st.builds(slice, b, b, st.none() | st.integers(1, 3)) for b in bound]
    return ZarrReference(".", path, region=tuple(draw(st.one_of(*pair)) for pair in zip(indices, slices, strict=True)))


def is_array(node: Any) -> bool:
    return isinstance(node, DatasetBuilder) and isinstance(plain(node.data), np.ndarray) and plain(node.data).ndim > 0


def add_regions(draw: st.DrawFn, kind: str, holder: GroupBuilder, name: str, known: dict[str, Any]) -> None:
    several = draw(st.lists(regions(known), min_size=1, max_size=3))
    if kind == "region":
        holder.set_attribute(name, several[0])
    elif kind == "regions":
        holder.set_attribute(name, several)
    else:
        data = several if kind == "region dataset" else several[0]
        holder.set_dataset(DatasetBuilder(name=name, data=data, dtype="region"))


@st.composite
def trees(draw: st.DrawFn) -> GroupBuilder:
    """Return a tree with links and references between its nodes, up, down and round in circles."""
    root = draw(groups())
    known = nodes(root)
    places = list(known.values())
    holders = [node for node in places if isinstance(node, GroupBuilder)]
    target = st.sampled_from(places)
    kinds = ["link", "attribute", "list", "dataset", "scalar", "rows"]
    if any(map(is_array, places)):
        kinds += ["region", "regions", "region dataset", "region scalar"]
    for number in range(draw(st.integers(0, 4))):
        holder, name = draw(st.sampled_from(holders)), f"extra {number}"
        kind = draw(st.sampled_from(kinds))
        if kind.startswith("region"):
            add_regions(draw, kind, holder, name, known)
        elif kind == "link":
            holder.set_link(LinkBuilder(builder=draw(target), name=name))
        elif kind == "attribute":
            draw(st.sampled_from(places)).set_attribute(name, ReferenceBuilder(draw(target)))
        elif kind == "list":
            several = draw(st.lists(target, min_size=1, max_size=3))
            holder.set_attribute(name, [ReferenceBuilder(item) for item in several])
        elif kind == "dataset":
            several = draw(st.lists(target, min_size=1, max_size=3))
            data = [ReferenceBuilder(item) for item in several]
            holder.set_dataset(DatasetBuilder(name=name, data=data, dtype="object"))
        elif kind == "scalar":
            holder.set_dataset(DatasetBuilder(name=name, data=ReferenceBuilder(draw(target)), dtype="object"))
        else:
            rows = draw(st.lists(st.tuples(target, TEXT, st.integers(-9, 9)), min_size=1, max_size=3))
            fields = [
                {"name": "to", "dtype": "object"}, {"name": "text", "dtype": "utf8"}, {"name": "n", "dtype": "int"},
            ]  # fmt: skip
            data = [(ReferenceBuilder(item), text, number) for item, text, number in rows]
            holder.set_dataset(DatasetBuilder(name=name, data=data, dtype=fields))
    return root


class Comparison:
    def __init__(self, written: dict[str, Any], found: GroupBuilder) -> None:
        self._written, self._found = written, nodes(found)
        self._paths = {id(node): path for path, node in self._written.items()}
        assert self._found.keys() == self._written.keys()
        for path, node in self._written.items():
            other = self._found[path]
            assert type(other) is type(node)
            assert other.attributes.keys() == node.attributes.keys()
            for name, value in node.attributes.items():
                self._same(other.attributes[name], value)
            if isinstance(node, GroupBuilder):
                assert other.links.keys() == node.links.keys()
                for name, link in node.links.items():
                    self._is(other.links[name].builder, link.builder)
            else:
                self._dataset(other, node)

    def _is(self, found: Any, written: Any) -> None:
        assert found is self._found[self._paths[id(written)]]

    def _is_region(self, found: Any, written: ZarrReference) -> None:
        target = self._written[written.path]
        assert isinstance(found, RegionReference)
        assert found.builder is self._found[written.path]
        assert found.region == written.region
        array, selection = plain(target.data), found.selection
        wanted = expected(array, selection) if isinstance(selection, tuple) else array[tuple(selection.T)]
        self._same(found[()], wanted)

    def _dataset(self, found: DatasetBuilder, written: DatasetBuilder) -> None:
        data = plain(written.data)
        if isinstance(data, np.ndarray) and data.ndim:
            assert found.maxshape == found.data.maxshape == (written.maxshape or data.shape)
        assert found.dimension_labels == written.dimension_labels
        if isinstance(data, ZarrReference):
            self._is_region(found.data, data)
        elif isinstance(data, ReferenceBuilder):
            self._is(found.data.builder, data.builder)
        elif isinstance(written.dtype, list):
            assert len(found.data) == len(data)
            for one, other in zip(found.data, data, strict=True):
                self._is(one["to"], other[0].builder)
                assert (one["text"], one["n"]) == other[1:]
        elif isinstance(data, list):
            for one, other in zip(found.data[:], data, strict=True):
                self._same(one, other)
        else:
            self._same(found.data[()] if hasattr(found.data, "shape") else found.data, data)

    def _same(self, found: Any, written: Any) -> None:
        if isinstance(written, ReferenceBuilder):
            self._is(found, written.builder)
        elif isinstance(written, ZarrReference):
            self._is_region(found, written)
        elif isinstance(written, list):
            assert len(found) == len(written)
            for one, other in zip(found, written, strict=True):
                self._same(one, other)
        else:
            a, b = np.asarray(found), np.asarray(written)
            assert (a.dtype, a.shape) == (b.dtype, b.shape)
            assert a.tolist() == b.tolist() if a.dtype == object else _raw(a) == _raw(b)


def _raw(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype.kind in "fc":  # one NaN is like the other: JSON has one
        array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)
    if array.dtype.names is None:
        return array.tobytes()
    return [_raw(np.ascontiguousarray(array[name])) for name in array.dtype.names]


_numbers = itertools.count()


def new_place(folder: Place) -> Place:
    return folder / f"{next(_numbers)}.zarr"


def is_refused(path: Place, tree: GroupBuilder) -> bool:
    """Tell whether a tree has names that no key of the store may have, and see that it is refused then."""
    if not str(path).startswith("s3:") or not re.search(r"[\x00-\x1f\x7f]", "".join(nodes(tree))):
        return False
    with pytest.raises(NameRefusedError, match="control character"), ZarrIO(path, "w") as io:
        io.write_builder(tree)
    return True


@EXAMPLES
@given(trees())
def test_a_builder_comes_back_from_a_file_and_from_an_export(shared_folder, tree):
    path, exported = new_place(shared_folder), new_place(shared_folder)
    if is_refused(path, tree):
        return
    write_builder(path, tree)
    with ZarrIO(path) as source, ZarrIO(exported, "w") as io:
        io.export(source, cache_spec=False)
    for place, mode in ((path, "r"), (path, "r-"), (exported, "r")):
        Comparison(nodes(tree), read_builder(place, mode))
    remove(path)
    remove(exported)


@pytest.mark.needs("append")
def test_a_builder_is_added_to_an_existing_file(shared_folder):
    with ZarrIO(new_place(shared_folder), "a") as io:  # outside of hypothesis, which would look for a simpler refusal
        io.write_builder(GroupBuilder("root"))
    add_to_what_is_there(shared_folder)


@settings(EXAMPLES, max_examples=20)
@given(tree=trees(), added=groups("added"))
def add_to_what_is_there(folder, tree, added):
    if "added" in {*tree.groups, *tree.datasets, *tree.attributes}:
        return
    if is_refused(new_place(folder), tree) or is_refused(new_place(folder), added):
        return
    path = new_place(folder)
    write_builder(path, tree)
    with edit_builder(path) as builder:
        builder.set_group(added)
    for mode in ("r", "r-"):
        Comparison(nodes(tree) | nodes(added, "/added"), read_builder(path, mode))
    remove(path)
