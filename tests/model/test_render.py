"""The tree of a file as text: exact for a small one, short for a large one, harmless for a crafted one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy, Node
from hdmf_zarr_backend.model.render import ASCII, UNICODE, Column, Description, Leaf, Sum, item_tree, render, size_text
from tests.documents import dataset_node
from tests.proportion import ends

COLUMNS = (Column("kind"), Column("dtype"), Column("size", "right"))


def array(*shape: int, dtype: str = "<f8") -> Dataset[dict[str, Any]]:
    return dataset_node(shape=shape, chunks=shape or (), data_type=dtype)


def describe(path: str, node: Node) -> Description:
    if isinstance(node, Dataset):
        size = 8 * node.stored.size
        return Description(["", str(node.stored.data_type), str(size)], size, likeness=node.stored.data_type)
    links = tuple(Leaf(name, "link", target=target) for name, target in node.attributes.get("links", {}).items())
    notes = tuple(Leaf(f"@{name}", text=text) for name, text in node.attributes.get("notes", {}).items())
    kind = node.attributes.get("kind", "")
    return Description([kind], attributes=notes, links=links, instead=node.attributes.get("instead", ""), likeness=kind)


def tree(nodes: dict[str, Node]) -> Hierarchy:
    return Hierarchy.from_flat(nodes)


SMALL = tree(
    {
        "": Group({"kind": "File", "notes": {"author": "ä"}}),
        "b/data": array(10, 2),
        "b/deep/er": array(3, dtype="|u1"),
        "b": Group({"kind": "Series", "links": {"clock": "/a/times"}}),
        "a/times": array(4),
        "empty": Group(),
        "hidden/x": array(1),
        "hidden": Group({"instead": "nothing to see"}),
    }
)


def test_a_small_tree() -> None:
    assert render(item_tree(SMALL, describe), COLUMNS) == [
        "                kind    dtype  size",
        "/               File",
        "├── @author     ä",
        "├── a",
        "│   └── times           <f8      32",
        "├── b           Series",
        "│   ├── clock   link    → /a/times",
        "│   ├── data            <f8     160",
        "│   └── deep",
        "│       └── er          |u1      24",
        "├── empty",
        "└── hidden      (nothing to see)",
    ]


def test_the_same_tree_in_ascii() -> None:
    lines = render(
        item_tree(SMALL, lambda path, node: Description([""], links=describe(path, node).links)), COLUMNS, symbols=ASCII
    )
    assert "\n".join(lines).isascii()
    assert "|   |-- clock   link  -> /a/times" in lines


@pytest.mark.parametrize(
    ("depth", "names"),
    [
        (0, ["/", "@author"]),
        (1, ["/", "@author", "a", "b", "empty", "hidden"]),
        (2, ["/", "@author", "a", "times", "b", "clock", "data", "deep", "empty", "hidden"]),
    ],
)
def test_depth_shows_sums_of_what_lies_deeper(depth: int, names: list[str]) -> None:
    lines = render(item_tree(SMALL, describe), COLUMNS, depth=depth)[1:]
    assert [line.lstrip("│├└─ ").split()[0] for line in lines] == names
    expected = {0: "(5 groups, 3 arrays, 1 link, 216 B)", 1: "(1 group, 2 arrays, 1 link, 184 B)", 2: "(1 array, 24 B)"}
    assert expected[depth] in "\n".join(lines)


def series(count: int, name: str = "trial_{}", **more: Node) -> Hierarchy:
    nodes: dict[str, Node] = {}
    for index in range(count):
        path = name.format(index)
        nodes[path] = Group({"kind": "Series"})
        nodes[f"{path}/data"] = array(index)
        nodes[f"{path}/times"] = array(index)
    return tree({**nodes, **more})


def shown(lines: list[str]) -> list[str]:
    """The members of the root."""
    return [line[4:].split("  ")[0] for line in lines if line.startswith(("├── ", "└── "))]


def test_a_run_of_members_that_are_alike_is_shown_by_its_first_ones() -> None:
    lines = render(item_tree(series(1200, zebra=Group()), describe), COLUMNS)
    assert shown(lines) == ["trial_0", "trial_1", "trial_2", "⋮ 1,197 more like these: trial_3 to trial_1199", "zebra"]
    size = 16 * sum(range(3, 1200))
    assert f"(1,197 groups, 2,394 arrays, {size_text(size)})" in "\n".join(lines)
    assert len(render(item_tree(series(1200), describe), COLUMNS, show_all=True)) == 2 + 3 * 1200


@pytest.mark.parametrize("count", [7, 8])
def test_short_runs_are_shown_completely(count: int) -> None:
    assert len(shown(render(item_tree(series(count), describe), COLUMNS))) == (7 if count == 7 else 4)


def test_what_differs_in_structure_breaks_a_run() -> None:
    other = {"trial_500/extra": array(1)}
    lines = shown(render(item_tree(series(1000, **other), describe), COLUMNS))
    assert lines[3] == "⋮ 497 more like these: trial_3 to trial_499"
    assert lines[4] == "trial_500"
    assert lines[8] == "⋮ 496 more like these: trial_504 to trial_999"
    nodes = {f"t{i}": array(3, dtype="<f8" if i != 20 else "<f4") for i in range(40)}
    assert "t20" in shown(render(item_tree(tree(dict(nodes)), describe), COLUMNS))
    ranks = {f"t{i}": array(3, *([1] if i == 20 else [])) for i in range(40)}
    assert "t20" in shown(render(item_tree(tree(dict(ranks)), describe), COLUMNS))


def test_names_without_a_pattern_are_a_run_only_if_they_are_many() -> None:
    words = [first + second for first in "abcdefgh" for second in "abcdefgh"]
    few = tree({word: array(3) for word in words[:40]})
    many = tree({word: array(3) for word in words})
    assert len(shown(render(item_tree(few, describe), COLUMNS))) == 40
    assert len(shown(render(item_tree(many, describe), COLUMNS))) == 4


def test_links_are_a_run_too() -> None:
    links = {f"link_{i}": f"/x/{i}" for i in range(30)}
    lines = render(item_tree(tree({"": Group({"links": links})}), describe), COLUMNS)
    assert shown(lines)[3] == "⋮ 27 more like these: link_3 to link_29"
    assert "(27 links)" in lines[-1]


def test_numbers_in_names_are_sorted_as_numbers() -> None:
    names = ["t10", "t9", "t1", "10", "9", "a²", "a1"]
    lines = shown(render(item_tree(tree({name: array(1) for name in names}), describe), COLUMNS))
    assert lines == ["9", "10", "a1", "a²", "t1", "t9", "t10"]


def test_a_name_of_the_file_cannot_move_the_cursor_or_fake_a_line() -> None:
    crafted = tree({"a\n├── b\x1b[2J\u202e": Group({"notes": {"x\r": "y\nz"}, "links": {"l\t": "/\x07"}})})
    lines = render(item_tree(crafted, describe), COLUMNS)
    assert len(lines) == 5
    assert all(line.isprintable() for line in lines)
    assert "a\\n├── b\\x1b[2J\\u202e" in lines[2]


def test_wide_characters_keep_the_columns_aligned() -> None:
    lines = render(item_tree(tree({"大きい": array(1), "small": array(1)}), describe), COLUMNS)
    columns = [line.index("<f8") + (3 if "大" in line else 0) for line in lines[2:]]
    assert columns[0] == columns[1]


def test_one_long_name_does_not_move_the_columns_of_the_others() -> None:
    lines = render(item_tree(tree({"x" * 200: array(1), "y": array(1)}), describe), COLUMNS)
    assert max(len(line) for line in lines if "y" in line.split("<")[0]) < 100


def test_a_crafted_depth_does_not_exhaust_the_stack() -> None:
    root: Group[dict[str, Any]] = Group()
    node = root
    for _ in range(3000):
        inner: Group[dict[str, Any]] = Group()
        node.members["x"] = inner
        node = inner
    lines = render(item_tree(Hierarchy(root), describe), COLUMNS)
    assert len(lines) == 3002


def test_a_file_of_five_thousand_nodes_is_shown_on_a_page_and_at_once() -> None:
    nodes: dict[str, Node] = {}
    for kind in ("acquisition", "stimulus", "processing"):
        nodes |= {f"{kind}/{path}": node for path, node in series(555).flat().items() if path}
    hierarchy = tree(nodes)
    assert len(hierarchy.flat()) > 4900
    with ends():
        lines = render(item_tree(hierarchy, describe), COLUMNS)
    assert len(lines) < 60


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (1536, "1.54 kB"),
        (999_600, "1 MB"),
        (128e6, "128 MB"),
        (5e9, "5 GB"),
        (7.25e12, "7.25 TB"),
        (4e16, "40 PB"),
    ],
)
def test_sizes_for_people(size: float, text: str) -> None:
    assert size_text(size) == text


WIDE = tree({"": Group({"kind": "A long kind of group"}), "a_long_name_of_an_array": array(10**6, dtype="<float64")})


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (80, [
            "                             kind                  dtype        size",
            "/                            A long kind of group",
            "└── a_long_name_of_an_array                        <float64  8000000",
        ]),
        (60, [
            "                      kind                 dtype        size",
            "/                     A long kind of gro…",
            "└── a_long_name_of_…                       <float64  8000000",
        ]),
        (40, [
            "               kind     dtype       size",
            "/              A long…",
            "└── a_long_n…           <float…  8000000",
        ]),
        (12, [
            "        kin…",
            "/       A l…",
            "└── a…     …",
        ]),
    ],
)  # fmt: skip
def test_a_narrow_terminal_shortens_the_widest_column_first(width: int, lines: list[str]) -> None:
    assert render(item_tree(WIDE, describe), COLUMNS, width=width) == lines


def test_titles_and_names_of_groups_and_links_are_painted() -> None:
    symbols = replace(UNICODE, paint=lambda text, role: f"<{role}:{text}>")
    assert render(item_tree(SMALL, describe), COLUMNS, symbols=symbols) == [
        "<title:                kind    dtype  size>",
        "<group:/>               File",
        "├── @author     ä",
        "├── <group:a>",
        "│   └── times           <f8      32",
        "├── <group:b>           Series",
        "│   ├── <link:clock>   link    → /a/times",
        "│   ├── data            <f8     160",
        "│   └── <group:deep>",
        "│       └── er          |u1      24",
        "├── <group:empty>",
        "└── <group:hidden>      (nothing to see)",
    ]


@pytest.mark.parametrize(
    ("total", "text"),
    [
        (Sum(), "empty"),
        (Sum(groups=1), "1 group"),
        (Sum(groups=2000, arrays=1, links=2, size=1000), "2,000 groups, 1 array, 2 links, 1 kB"),
    ],
)
def test_sums_as_text(total: Sum, text: str) -> None:
    assert str(total) == text
