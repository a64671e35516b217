"""Trees that are nested deeper than Python's calls may be."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hdmf.build import GroupBuilder

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.errors import NestingError
from hdmf_zarr_backend.model.nesting import deepest, limited_nesting
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, adopt, copy_hierarchy
from tests.documents import dataset_node


def nested(depth: int, **members: Any) -> Group[Any]:
    node: Group[Any] = Group(members=members)
    for _ in range(depth):
        node = Group(members={"g": node})
    return node


def array() -> Dataset[Any]:
    return dataset_node(shape=(1,), chunks=(1,), data_type="|u1", attributes={"a": 1})


def test_the_deepest_group_is_found():
    assert deepest(Group()) == (0, "/")
    tree = Group(members={"a": nested(2), "b": nested(5), "c": nested(1, x=array(), y=nested(1))})
    assert deepest(tree) == (6, "/b/g/g/g/g/g")
    assert deepest(Group(members={"b": nested(1, y=nested(1)), "a": Group()})) == (4, "/b/g/y/g")
    assert deepest(GroupBuilder("root", groups={"a": GroupBuilder("a")})) == (1, "/a")
    assert deepest(nested(20_000))[0] == 20_000


def test_other_errors_pass():
    with pytest.raises(ValueError, match="wrong"), limited_nesting(nested(1), store="/a", doing="read"):
        raise ValueError("wrong")


def test_hierarchies_of_any_depth_are_copied_and_adopted():
    depth = 20_000
    known = Hierarchy(nested(depth, x=array()))
    wanted = copy_hierarchy(known)
    pairs = list(zip(known.walk(), wanted.walk(), strict=True))
    assert all(one is not other for (_, one), (_, other) in pairs)
    assert len(pairs) == depth + 2
    end, changed = pairs[-2][0][1], pairs[-2][1][1]
    changed.attributes = {"new": True}
    changed.members["y"] = array()
    held = end.members["x"]
    adopt(known, wanted)
    assert end.attributes == {"new": True}
    assert end.members["x"] is held
    assert end.members["y"] is changed.members["y"]


def test_what_was_replaced_by_another_kind_of_node_is_adopted():
    known, wanted = Hierarchy(nested(0, x=array())), Hierarchy(nested(0, x=nested(1)))
    adopt(known, wanted)
    assert known.root.members["x"] is wanted.root.members["x"]


def builders(depth: int) -> GroupBuilder:
    """Return nested groups; hdmf's own constructor has a limit too, so they are hung in from above."""
    root = here = GroupBuilder("root", source="here")
    for _ in range(depth):
        below = GroupBuilder("g")
        here.set_group(below)
        here = below
    return root


def test_groups_that_are_nested_400_deep_are_written_read_and_appended_to(tmp_path):
    path, depth = tmp_path / "deep.zarr", 400
    with ZarrIO(path, "w") as io:
        io.write_builder(builders(depth))
    with ZarrIO(path, "r+") as io:
        root = io.read_builder()
        root["/".join("g" * depth)].set_group(GroupBuilder("new", attributes={"a": 1}))
        io.write_builder(root)
    for mode in ("r", "r-"):
        with ZarrIO(path, mode) as io:
            assert io.read_builder()["/".join("g" * depth) + "/new"].attributes == {"a": 1}


def test_deeper_than_the_limit_is_one_clear_error_and_the_file_stays(tmp_path):
    path, depth = tmp_path / "deep.zarr", 900
    tree = builders(depth)
    with ZarrIO(path, "w") as io:
        io.write_builder(tree)
    before = {p: p.read_bytes() for p in path.rglob("*") if p.is_file()}
    with ZarrIO(path, "r+") as io:
        root = io.read_builder()
        root.set_group(GroupBuilder("new"))
        with pytest.raises(NestingError, match="nested 900 deep cannot be written with Python's limit") as caught:
            io.write_builder(root)
    assert caught.value.store == str(path)
    assert caught.value.path == "/g" * depth
    assert isinstance(caught.value, RecursionError)
    assert {p: p.read_bytes() for p in path.rglob("*") if p.is_file()} == before
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(int(caught.value.remedy.rpartition("(")[2].rstrip(").")))
    try:
        with ZarrIO(path, "r+") as io:
            root = io.read_builder()
            root.set_group(GroupBuilder("new"))
            io.write_builder(root)
    finally:
        sys.setrecursionlimit(limit)
    with ZarrIO(path) as io:
        assert "new" in io.read_builder().groups
