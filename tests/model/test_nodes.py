"""The tree and the flat view are the same objects; paths have one spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdmf_zarr_backend.errors import MetadataError
from hdmf_zarr_backend.model.nodes import (
    Dataset,
    Group,
    Hierarchy,
    absolute,
    adopt,
    copy_hierarchy,
    join,
    relative,
    split,
)
from hdmf_zarr_backend.model.stored import ChunkKeys
from tests.documents import dataset_node
from tests.strategies import HIERARCHIES, NAMES


def array(*shape: int) -> Dataset:
    return dataset_node(shape=shape, chunks=tuple(max(1, n) for n in shape), data_type="<i4")


@given(HIERARCHIES)
def test_flat_and_tree_are_the_same_nodes(hierarchy):
    flat = hierarchy.flat()
    assert Hierarchy.from_flat(flat) == hierarchy
    for path, node in flat.items():
        assert hierarchy.get(path) is node
        assert hierarchy.get(absolute(path)) is node
        assert path in hierarchy


@given(HIERARCHIES)
def test_walk_yields_parents_first_and_members_by_name(hierarchy):
    paths = [path for path, _ in hierarchy.walk()]
    assert paths[0] == ""
    assert len(set(paths)) == len(paths)
    for position, path in enumerate(paths[1:], 1):
        assert split(path)[0] in paths[:position]
    for parent, node in hierarchy.walk():
        if isinstance(node, Group):
            members = [split(path)[1] for path in paths if path and split(path)[0] == parent]
            assert members == sorted(node.members)


@given(st.lists(NAMES, max_size=4))
def test_paths_have_one_spelling(names):
    path = ""
    for name in names:
        path = join(path, name)
        assert split(path)[1] == name
    assert relative(absolute(path)) == path
    assert relative("/" + "//".join(names) + "/") == path
    assert absolute(absolute(path)) == absolute(path) == "/" + "/".join(names)


def test_missing_nodes_are_none_and_arrays_have_no_members():
    hierarchy = Hierarchy(Group(members={"a": array(3), "g": Group()}))
    assert hierarchy.get("b") is None
    assert hierarchy.get("a/b") is None
    assert "a/b" not in hierarchy
    assert 5 not in hierarchy


def test_groups_that_only_members_imply_are_made():
    node = array(2)
    hierarchy = Hierarchy.from_flat({"/a/b/c": node, "a/d": array()})
    assert hierarchy.get("a/b/c") is node
    assert [path for path, _ in hierarchy.walk()] == ["", "a", "a/b", "a/b/c", "a/d"]


def test_a_path_ten_thousand_groups_deep_needs_no_recursion():
    path = "/".join(["g"] * 10_000)
    hierarchy = Hierarchy.from_flat({path: array(1)})
    assert sum(1 for _ in hierarchy.walk()) == 10_001


@pytest.mark.parametrize("nodes", [{"": array(2), "a": array(2)}, {"a": array(2), "a/b/c": Group()}])
def test_an_array_with_members_is_refused(nodes):
    with pytest.raises(MetadataError, match="an array has members") as caught:
        Hierarchy.from_flat(nodes)
    assert caught.value.path in ("/", "/a")
    assert caught.value.remedy


def test_add_puts_a_node_into_an_existing_group():
    hierarchy = Hierarchy()
    hierarchy.add("/a", Group())
    hierarchy.add("a/b", array(2))
    assert hierarchy.get("a/b") == array(2)
    with pytest.raises(MetadataError, match="no group holds this node"):
        hierarchy.add("a/b/c", Group())
    with pytest.raises(MetadataError, match="/x/y"):
        hierarchy.add("x/y", Group())
    root = Group(attributes={"x": 1})
    hierarchy.add("/", root)
    assert hierarchy.root is root


@pytest.mark.parametrize(
    ("shape", "chunks", "grid", "size"),
    [((), (), (), 1), ((0,), (3,), (0,), 0), ((7, 3), (2, 3), (4, 1), 21), ((1,), (100,), (1,), 1)],
)
def test_grid_and_size(shape, chunks, grid, size):
    node = dataset_node(shape=shape, chunks=chunks, data_type="<i4")
    assert node.stored.grid == grid
    assert node.stored.size == size


@pytest.mark.parametrize("encoding", ["v2", "default"])
@pytest.mark.parametrize("separator", [".", "/"])
@given(index=st.lists(st.integers(0, 2**40), max_size=4).map(tuple))
def test_the_key_of_a_chunk_leads_back_to_its_index(encoding, separator, index):
    keys = ChunkKeys(encoding, separator)
    assert keys.index(keys.name(index), len(index)) == index
    assert keys.index(keys.name(index), len(index) + 2) is None


@pytest.mark.parametrize(
    "name", ["", "c", "c/1", "c/1/2/3", "1/2", "d/1/2", "c/01/2", "c/1/-2", "c/1/x", "c.1.2", "c/1/\u0663"]
)
def test_other_keys_are_not_those_of_chunks(name):
    assert ChunkKeys("default", "/").index(name, 2) is None


def test_chunk_names_follow_the_separator():
    node = dataset_node(shape=(9, 9), chunks=(2, 2), data_type="<i4")
    assert node.stored.chunk_name((0, 3)) == "0.3"
    node.stored.chunk_keys = ChunkKeys("v2", "/")
    assert node.stored.chunk_name((0, 3)) == "0/3"
    assert node.stored.chunk_name(()) == "0"


@given(HIERARCHIES)
def test_a_copy_is_equal_and_changes_alone(hierarchy):
    before = hierarchy.flat()
    copied = copy_hierarchy(hierarchy)
    assert copied == hierarchy
    for path, node in copied.walk():
        assert node is not before[path]
        node.attributes = {"changed": True}
        if isinstance(node, Group):
            node.members["new"] = array(1)
            break
    assert hierarchy.flat() == before


def test_adopt_keeps_the_objects_that_others_hold():
    kept = array(3)
    known = Hierarchy(Group(members={"a": kept, "g": Group(members={"x": array(1)})}))
    group = known.get("g")
    written = Hierarchy(Group(attributes={"n": 1}, members={"a": array(3), "g": Group(), "new": array(2)}))
    written.get("a").attributes = {"unit": "m"}
    written.get("g").members["y"] = array(4)
    adopt(known, written)
    assert known.get("a") is kept
    assert kept.attributes == {"unit": "m"}
    assert known.get("g") is group
    assert set(group.members) == {"x", "y"}
    assert known.get("new") is written.get("new")
    assert known.root.attributes == {"n": 1}
