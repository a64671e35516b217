"""A small namespace that uses what NWB does not, and trees that follow it, or nearly do."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hdmf.build import DatasetBuilder, GroupBuilder, LinkBuilder
from hypothesis import strategies as st

from tests import trees

NAME = "tiny"

_TEXT = {"doc": "text", "dtype": "text"}


def _attribute(name: str, dtype: Any, **options: Any) -> dict[str, Any]:
    return {"name": name, "doc": "an attribute", "dtype": dtype, **options}


def _dataset(dtype: Any = None, **options: Any) -> dict[str, Any]:
    return {"doc": "a dataset", **({} if dtype is None else {"dtype": dtype}), **options}


_SPECS = {
    "datasets": [
        _dataset(
            data_type_def="Numbers",
            attributes=[_attribute("unit", "text"), _attribute("scale", "float", default_value=1.0)],
        ),
        _dataset(
            "int",
            data_type_def="Whole",
            data_type_inc="Numbers",
            shape=[[None], [None, 2]],
            attributes=[_attribute("unit", "ascii", required=False), _attribute("when", "isodatetime", required=False)],
        ),
        _dataset(
            [
                {"name": "n", "doc": "a number", "dtype": "uint8"},
                {"name": "to", "doc": "a reference", "dtype": {"target_type": "Leaf", "reftype": "object"}},
            ],
            data_type_def="Rows",
            shape=[None],
        ),
    ],
    "groups": [
        {
            "doc": "has nothing",
            "data_type_def": "Leaf",
            "attributes": [_attribute("level", "uint8", required=False), _attribute("pair", "numeric", dims=["a"],
                           required=False)],
        },
        {"doc": "extends it", "data_type_def": "RedLeaf", "data_type_inc": "Leaf",
         "attributes": [_attribute("level", "uint16")]},
        {
            "doc": "has members",
            "data_type_def": "Branch",
            "attributes": [_attribute("leaf", {"target_type": "Leaf", "reftype": "object"}, required=False)],
            "datasets": [
                _dataset("isodatetime", name="when", quantity="?"),
                _dataset(name="anything", quantity="?"),
                _dataset(data_type_inc="Numbers", quantity="*"),
                _dataset(data_type_inc="Rows", quantity="?"),
                _dataset("numeric", name="fixed", quantity="?", linkable=False, shape=[3]),
            ],
            "groups": [
                {"doc": "two of them", "data_type_inc": "RedLeaf", "quantity": 2},
                {"doc": "the first", "data_type_inc": "Leaf", "name": "first",
                 "attributes": [_attribute("level", "uint32")]},
                {"doc": "others", "data_type_inc": "Leaf", "quantity": "*"},
                {"doc": "without a type", "name": "box", "quantity": "?",
                 "groups": [{"doc": "inside", "data_type_inc": "Leaf", "quantity": "+"}]},
                {"doc": "defined here", "data_type_def": "Twig", "quantity": "?", "name": "twig",
                 "attributes": [_attribute("n", "bool")]},
            ],
            "links": [{"doc": "to one", "name": "to", "target_type": "Leaf", "quantity": "?"}],
        },
        {
            "doc": "changes some",
            "data_type_def": "BigBranch",
            "data_type_inc": "Branch",
            "datasets": [
                _dataset(name="anything", dtype="text"),
                _dataset(name="whole", data_type_inc="Whole", attributes=[_attribute("unit", "ascii")]),
            ],
        },
    ],
}  # fmt: skip

SOURCES = {
    "namespace": json.dumps(
        {"namespaces": [{"name": NAME, "doc": "tiny", "version": "1.2.0", "schema": [{"source": "tiny"}]}]}
    ),
    "tiny": json.dumps(_SPECS),
}

# ---- trees ----------------------------------------------------------------------------------------------------------

values = st.sampled_from(
    ["text", "2026-03-14T12:00:00Z", "2026-03-14T12:00:00", b"bytes", 1, -1, 2.5, True, np.uint8(3), np.uint16(3),
     np.int8(3), np.float32(1.5), np.arange(2), np.arange(3.0), np.arange(4, dtype="u1").reshape(2, 2),
     np.array(["a", "b"], dtype=object), [1, 2], ["x"], [], np.array([True])]
)  # fmt: skip
types = st.sampled_from(["Leaf", "RedLeaf", "Twig", "Branch", None])
names = st.sampled_from(["first", "box", "twig", "a", "b", "c"])
_data = st.sampled_from(
    [np.arange(3), np.arange(3, dtype="i4"), np.arange(3.0), np.arange(4).reshape(2, 2), np.arange(6.0).reshape(2, 3),
     ["a", "b"], "a text", "2026-03-14T12:00:00Z", 5, 2.5, True, np.array([], dtype="f8"), np.arange(3, dtype="u2")]
)  # fmt: skip


@st.composite
def leaves(draw: st.DrawFn, name: str, data_type: str | None) -> GroupBuilder:
    """Draw a group without members."""
    attributes = {} if data_type is None else {"data_type": data_type, "namespace": NAME}
    for key in ("level", "pair", "n"):
        if draw(st.booleans()):
            attributes[key] = draw(values)
    return trees.group(name, **attributes)


@st.composite
def arrays(draw: st.DrawFn, name: str) -> DatasetBuilder:
    """Draw a dataset."""
    data_type = draw(st.sampled_from([None, "Numbers", "Whole", "Rows"]))
    attributes = {} if data_type is None else {"data_type": data_type, "namespace": NAME}
    for key in ("unit", "scale", "when"):
        if draw(st.booleans()):
            attributes[key] = draw(values)
    return trees.dataset(name, draw(_data), attributes=attributes)


def _add_required(root: GroupBuilder, kind: str) -> None:
    root.set_group(trees.group("first", data_type="Leaf", namespace=NAME, level=np.uint32(1)))
    for name in ("red0", "red1"):
        root.set_group(trees.group(name, data_type="RedLeaf", namespace=NAME, level=np.uint16(1)))
    if kind == "BigBranch":
        root.set_dataset(trees.dataset("anything", "a text"))
        attributes = {"data_type": "Whole", "namespace": NAME, "unit": b"m"}
        root.set_dataset(trees.dataset("whole", np.arange(3, dtype="i4"), attributes=attributes))


@st.composite
def branches(draw: st.DrawFn) -> GroupBuilder:
    """Draw a root; most have what has to be there, and all may have more."""
    kind = draw(st.sampled_from(["Branch", "BigBranch"]))
    root = trees.root(data_type=kind, namespace=NAME)
    if draw(st.integers(0, 3)):
        _add_required(root, kind)
    for name in draw(st.lists(names, unique=True, max_size=3)):
        if name not in root:
            group = draw(leaves(name, draw(types)))
            root.set_group(group)
            if draw(st.booleans()):
                group.set_group(draw(leaves("inner", draw(types))))
    for name in draw(st.lists(st.sampled_from(["when", "fixed", "x", "y"]), unique=True, max_size=2)):
        root.set_dataset(draw(arrays(name)))
    targets = [*root.groups.values(), *root.datasets.values()]
    if targets:
        _add_links(draw, root, st.sampled_from(targets))
    return root


def _add_links(draw: st.DrawFn, root: GroupBuilder, targets: st.SearchStrategy[Any]) -> None:
    if draw(st.booleans()):
        root.set_attribute("leaf", draw(targets))
    for name in draw(st.lists(st.sampled_from(["to", "fixed", "other"]), unique=True, max_size=2)):
        if name not in root:
            root.set_link(LinkBuilder(draw(targets), name))
