"""Arrays that have grown get names that hold one length in their group."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.builders.dimensions import names_in, rename_axes
from hdmf_zarr_backend.formats.dimensions import decode_dimensions, encode_dimensions
from hdmf_zarr_backend.formats.reserved import DIMENSIONS, NOTES
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy
from tests.documents import dataset_node

LABELS = st.none() | st.lists(st.none() | st.sampled_from(["x", "y", "num_times"]), min_size=2, max_size=2).map(tuple)


def array(shape: tuple[int, ...], labels: Any, taken: dict[str, int]) -> Dataset:
    notes: dict[str, Any] = {}
    names = encode_dimensions(labels, shape, taken, notes)
    attributes: dict[str, Any] = {DIMENSIONS: names, **({NOTES: notes} if notes else {})}
    return dataset_node(shape=shape, chunks=(1,) * len(shape), data_type="<i4", attributes=attributes)


@given(
    st.lists(st.tuples(st.tuples(st.integers(0, 3), st.integers(0, 3)), LABELS), min_size=1, max_size=4),
    st.dictionaries(st.integers(0, 3), st.tuples(st.integers(0, 4), st.integers(0, 4))),
)
def test_names_hold_one_length_and_labels_stay(arrays, grown):
    group = Group()
    taken: dict[str, int] = {}
    for number, (shape, labels) in enumerate(arrays):
        group.members[f"a{number}"] = array(shape, labels, taken)
    hierarchy = Hierarchy(Group(members={"g": group}))
    changed = {number: shape for number, shape in grown.items() if number < len(arrays)}
    for number, shape in changed.items():
        group.members[f"a{number}"].stored.shape = shape
    rename_axes(hierarchy, [f"g/a{number}" for number in changed])
    lengths: dict[str, int] = {}
    for number, (_, labels) in enumerate(arrays):
        node = group.members[f"a{number}"]
        names = node.attributes[DIMENSIONS]
        assert len(names) == len(set(names)) == 2
        for name, length in zip(names, node.stored.shape, strict=True):
            assert lengths.setdefault(name, length) == length
        assert decode_dimensions(node.attributes) == labels
        assert node.attributes.get(NOTES) != {}
    assert names_in(group) == lengths


def test_names_of_a_group():
    group = Group(members={"a": array((3,), ("x",), {}), "b": array((4,), ("y",), {}), "g": Group()})
    group.members["c"] = dataset_node(shape=(1, 2), chunks=(1, 2), data_type="<i4", attributes={DIMENSIONS: ["wrong"]})
    assert names_in(group) == {"x": 3, "y": 4}
    assert names_in(group, without=["b"]) == {"x": 3}


def test_other_notes_stay_and_what_has_no_names_is_left_alone():
    node = array((3,), ("x",), {})
    node.attributes[NOTES] = {"maxshape": [None]}
    plain = dataset_node(shape=(5,), chunks=(1,), data_type="<i4")
    hierarchy = Hierarchy(Group(members={"a": node, "b": array((3,), ("x",), {}), "c": plain}))
    node.stored.shape = (4,)
    rename_axes(hierarchy, ["a", "c", "nowhere/a"])
    assert node.attributes == {DIMENSIONS: ["x_4"], NOTES: {"maxshape": [None], "dims": ["x"]}}
    assert plain.attributes == {}
