"""On a namespace that uses what NWB does not, and on any tree, `check` finds what hdmf finds."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest
from hdmf.build import BuildManager, GroupBuilder, LinkBuilder, TypeMap
from hdmf.spec import NamespaceCatalog
from hypothesis import given, settings
from jsonschema import Draft202012Validator

from hdmf_zarr_backend import ZarrIO
from hdmf_zarr_backend.builders.specs import TextSpecReader
from hdmf_zarr_backend.checks.findings import Finding
from hdmf_zarr_backend.checks.hdmf_validator import findings_of_hdmf
from hdmf_zarr_backend.checks.json_schema import document_of, schema_of
from hdmf_zarr_backend.checks.rules import compile_types, frozen_texts
from hdmf_zarr_backend.checks.validate import check
from hdmf_zarr_backend.checks.view import view
from hdmf_zarr_backend.files.links import resolver_of
from hdmf_zarr_backend.files.parser import parse
from hdmf_zarr_backend.formats.namespaces import NAMESPACE
from hdmf_zarr_backend.stores.opening import open_store
from tests import trees
from tests.checks import oracle, tiny

TEXTS = frozen_texts({tiny.NAME: tiny.SOURCES})


@cache
def types() -> Any:
    return compile_types(TEXTS, tiny.NAME)


@cache
def schema() -> Any:
    return Draft202012Validator(schema_of(types()))


@cache
def type_map() -> Any:
    catalog = NamespaceCatalog()
    catalog.load_namespaces(NAMESPACE, reader={tiny.NAME: TextSpecReader(tiny.NAME, tiny.SOURCES.__getitem__)})
    return TypeMap(catalog)


def checked(root: GroupBuilder) -> tuple[list[Finding], list[Finding], bool]:
    """Write a tree, and return what we find, what hdmf finds, and whether the JSON Schema allows it."""
    store: dict[str, bytes] = {}
    with ZarrIO(store, "w", manager=BuildManager(type_map())) as io:  # type: ignore[arg-type]
        io.write_builder(root)
    keys = open_store(store)
    parsed = parse(keys)
    keys = parsed.keys(keys)
    item = view(resolver_of(keys, parsed.hierarchy))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = findings_of_hdmf(keys, parsed, TEXTS, [tiny.NAME])
    return check(item, types())[0], theirs, schema().is_valid(document_of(item))


def assert_agreement(root: GroupBuilder) -> list[Finding]:
    ours, theirs, allowed = checked(root)
    if any(finding.kind == "failed" for finding in theirs):  # hdmf gave up
        assert ours
    else:
        assert oracle.places_of(ours) == oracle.places_of(theirs)
    assert allowed == (not ours)
    return ours


@given(tiny.branches())
@settings(max_examples=40)
def test_any_tree(root: GroupBuilder) -> None:
    assert_agreement(root)


@pytest.mark.slow
@given(tiny.branches())
@settings(max_examples=1000)
def test_many_trees(root: GroupBuilder) -> None:
    assert_agreement(root)


def branch(*members: Any, **attributes: Any) -> GroupBuilder:
    first = trees.group("first", data_type="Leaf", namespace=tiny.NAME, level=np.uint32(1))
    red = [trees.group(f"red{i}", data_type="RedLeaf", namespace=tiny.NAME, level=np.uint16(1)) for i in range(2)]
    return trees.root(first, *red, *members, data_type="Branch", namespace=tiny.NAME, **attributes)


def kinds(root: GroupBuilder) -> list[tuple[str, str]]:
    return [(finding.place, finding.kind) for finding in assert_agreement(root)]


def test_a_tree_as_it_should_be() -> None:
    assert kinds(branch()) == []


def test_a_number_of_members() -> None:
    third = trees.group("red2", data_type="RedLeaf", namespace=tiny.NAME, level=np.uint16(1))
    assert kinds(branch(third)) == [("/", "quantity")]  # though there may be any number of others of the same kind
    root = branch()
    del root.groups["red1"]
    assert kinds(root) == [("/", "quantity")]


def test_a_rule_of_a_member_is_more_than_that_of_its_type() -> None:
    root = branch()
    root.groups["first"].set_attribute("level", np.uint64(1))
    assert kinds(root) == []  # more precise than it has to be
    root = branch()
    root.groups["first"].set_attribute("level", np.uint8(1))  # the type allows it
    assert kinds(root) == [("/first.level", "dtype")]
    root = branch()
    del root.groups["first"].attributes["level"]
    assert kinds(root) == [("/first", "missing")]


def test_a_link_to_what_has_no_type() -> None:
    """What has the name of a link of the schema need not be like it, and is read as it is."""
    root = branch(trees.dataset("fixed", np.arange(3)), trees.dataset("other", np.arange(3), attributes={"scale": 1}))
    root.set_link(LinkBuilder(root.datasets["fixed"], "to"))
    assert kinds(root) == []
    store: dict[str, bytes] = {}
    with ZarrIO(store, "w", manager=BuildManager(type_map())) as io:  # type: ignore[arg-type]
        io.write_builder(root)
    with ZarrIO(store, "r", manager=BuildManager(type_map())) as io:  # type: ignore[arg-type]
        assert io.read_builder().links["to"].builder.name == "fixed"


def test_rows_with_references() -> None:
    root = branch()
    attributes = {"data_type": "Rows", "namespace": tiny.NAME}
    words = [{"name": "n", "dtype": "uint8"}, {"name": "to", "dtype": {"target_type": "Leaf", "reftype": "object"}}]
    from hdmf.build import ReferenceBuilder

    rows = [(np.uint8(1), ReferenceBuilder(root.groups["first"]))]
    root.set_dataset(trees.dataset("rows", rows, words, attributes=attributes))
    assert kinds(root) == []
    other = branch()
    words = [{"name": "n", "dtype": "float64"}, words[1]]
    rows = [(1.5, ReferenceBuilder(other.groups["first"]))]
    other.set_dataset(trees.dataset("rows", rows, words, attributes=attributes))
    assert kinds(other) == [("/rows", "dtype")]
    fewer = branch()
    fewer.set_dataset(trees.dataset("rows", np.zeros(3, dtype=[("n", "u1")]), attributes=attributes))
    assert kinds(fewer) == [("/rows", "dtype")]
