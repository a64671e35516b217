"""The attributes for netcdf-c: exactly which are added, where, and that nothing else changes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from hdmf_zarr_backend.formats.nczarr import is_listed, is_name, is_nczarr, listed, overlay, strip
from hdmf_zarr_backend.model.nodes import Dataset, Group, Hierarchy
from tests.documents import dataset_node

NUMBERS: Dataset[Any] = dataset_node((3, 4), (3, 4), "<i2")


def numbers(*shape: int, **options: Any) -> Dataset[Any]:
    """Return an array of numbers with attributes and other options."""
    named = {key: options.pop(key) for key in ("attributes", "compressor", "filters", "order") if key in options}
    return dataset_node(shape, shape, options.pop("data_type", "<f4"), **{"attributes": options, **named})


def hierarchy() -> Hierarchy:
    """Return a file with all that netcdf-c reads, and much that it does not."""
    inner = Group(
        members={
            "grows": numbers(5, 4, _ARRAY_DIMENSIONS=["time", "x/y"], _hdmf={"maxshape": [None, 4]}),
            "other": numbers(5, _ARRAY_DIMENSIONS=["time"]),
            "scalar": numbers(1, zarr_dtype="scalar"),
            "words": dataset_node((2,), (2,), "|O", filters=[{"id": "vlen-utf8"}]),
        },
        attributes={"names": ["a", "b"], "mixed": [1, 0.5], "_nczarr_attr": {"types": {"rate": "<f8"}}, "rate": 1.0},
    )
    bad = Group(attributes={"crashes": ["a", 1]})
    members = {"g": inner, "bad": bad, " starts": Group(), "plain": numbers(2, 3)}
    return Hierarchy(Group(members=members, attributes={"kept": 1}), zarr_format=2)


def attributes(file: Hierarchy) -> dict[str, Any]:
    """Return the attributes of all nodes by path."""
    return {path: copy.deepcopy(node.attributes) for path, node in file.walk()}


def test_what_is_added_and_removed():
    file = hierarchy()
    before = attributes(file)
    assert not is_nczarr(file)
    assert overlay(file) == {"", " starts", "bad", "g", "g/grows", "g/other", "g/scalar", "plain"}
    found = attributes(file)
    assert is_nczarr(file)
    assert found[""] == {
        "kept": 1,
        "_NCProperties": "version=2,hdmf_zarr_backend=1,nczarr=2.0.0",
        "_nczarr_superblock": {"version": "2.0.0"},
        "_nczarr_group": {
            "dimensions": {"_anonymous2": 2, "_anonymous3": 3}, "arrays": ["plain"], "groups": ["g"],
        },
    }  # fmt: skip
    assert found["g"] == {
        "names": ["a", "b"], "mixed": [1, 0.5], "rate": 1.0,
        "_nczarr_attr": {"types": {"names": "|S128", "mixed": "<f8", "rate": "<f8"}},
        "_nczarr_group": {
            "dimensions": {"time": {"size": 5, "unlimited": 1}, "x_y": 4},
            "arrays": ["grows", "other", "scalar"],
            "groups": [],
        },
    }  # fmt: skip
    assert found["g/grows"]["_nczarr_array"] == {"dimension_references": ["/g/time", "/g/x_y"], "storage": "chunked"}
    assert found["g/other"]["_nczarr_array"] == {"dimension_references": ["/g/time"], "storage": "chunked"}
    assert found["g/scalar"]["_nczarr_array"] == {"dimension_references": [], "scalar": 1, "storage": "chunked"}
    assert found["plain"]["_nczarr_array"] == {
        "dimension_references": ["/_anonymous2", "/_anonymous3"],
        "storage": "chunked",
    }
    assert found["g/words"] == before["g/words"]
    assert listed(file) == ["/g/grows", "/g/other", "/g/scalar", "/plain"]
    assert overlay(file) == set()
    assert strip(file) == {"", " starts", "bad", "g", "g/grows", "g/other", "g/scalar", "plain"}
    assert attributes(file) == before
    assert listed(file) == []


@pytest.mark.parametrize(
    ("changes", "answer"),
    [
        ({}, True),
        ({"data_type": "|u1"}, True),
        ({"data_type": "<f2"}, False),
        ({"data_type": "|b1"}, False),
        ({"data_type": [["a", "<i2"]]}, False),
        ({"order": "F"}, False),
        ({"filters": []}, False),
        ({"compressor": {"id": "blosc"}}, True),
        ({"compressor": {"id": "zstd", "level": 1}}, True),
        ({"compressor": {"id": "zstd", "level": 1, "checksum": True}}, False),
        ({"compressor": {"id": "lz4"}}, False),
        ({"attributes": {"a": [1, 0.5]}}, True),
        ({"attributes": {"a": [True, 1]}}, False),
        ({"attributes": {"_ARRAY_DIMENSIONS": ["x", "y"]}}, True),
        ({"attributes": {"_ARRAY_DIMENSIONS": ["x", None]}}, False),
    ],
    ids=str,
)
def test_which_arrays_netcdf_reads(changes, answer):
    assert is_listed(dataset_node((3, 4), (3, 4), **{"data_type": "<i2", **changes})) is answer


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("a", True), ("_a", True), ("9", True), ("a b", True), ("a-b.c+d", True), ("é", True),
        ("", False), (" a", False), ("a ", False), ("-a", False), ("a/b", False), ("a\n", False), ("\x7f", False),
        ("a" * 256, True), ("a" * 257, False), ("é" * 128, True), ("é" * 129, False),
    ],
)  # fmt: skip
def test_which_names_netcdf_takes(name, answer):
    assert is_name(name) is answer
