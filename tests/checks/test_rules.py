"""Rules are those of hdmf: which types do for which, which shapes fit, what a time is, and what types inherit."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hdmf.common import get_type_map as hdmf_type_map
from hdmf.spec import GroupSpec, LinkSpec, RefSpec
from hdmf.spec.spec import DtypeHelper
from hdmf.validate.validator import check_shape, get_string_format, has_timezone
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pynwb import get_type_map as pynwb_type_map

from hdmf_zarr_backend.builders.specs import namespace_texts
from hdmf_zarr_backend.checks.json_schema import schema_of
from hdmf_zarr_backend.checks.rules import (
    REFERENCE,
    MemberRule,
    Rule,
    Target,
    accepts,
    compile_types,
    fits,
    frozen_texts,
)
from hdmf_zarr_backend.checks.validate import check
from hdmf_zarr_backend.checks.view import ISO, NAIVE, OTHER, UNKNOWN, Item, Member, Value, text_format
from hdmf_zarr_backend.errors import MetadataError
from tests.checks import tiny

RECEIVED = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
            "complex128", "bool", "utf", "ascii", "datetime64")  # fmt: skip
SPECIAL = ("isodatetime", "datetime", "date")


@pytest.mark.parametrize("expected", sorted(DtypeHelper.valid_primary_dtypes - set(SPECIAL)))
def test_types_that_do(expected: str) -> None:
    known = DtypeHelper.allowable[expected]
    assert [accepts(expected, word) for word in RECEIVED] == [word in known for word in RECEIVED]
    assert accepts(expected, REFERENCE) == (expected == "object")


@pytest.mark.parametrize("expected", SPECIAL)
def test_times_are_text(expected: str) -> None:
    """hdmf knows the text of a time only under its first name."""
    assert accepts(expected, "utf") == accepts(expected, "ascii") == (expected == "isodatetime")


lengths = st.none() | st.integers(0, 3)
shapes = st.lists(lengths, min_size=1, max_size=3)


@given(
    st.none() | shapes | st.lists(shapes, min_size=1, max_size=3), st.none() | st.lists(st.integers(0, 3), max_size=3)
)
@settings(max_examples=50)
def test_shapes_that_fit(expected: Any, received: Any) -> None:
    received = None if received is None else tuple(received)
    assert fits(expected, received) == check_shape(expected, received)


TIMES = ("2026-03-14T12:00:00Z", "2026-03-14T12:00:00.5+01:00", "2026-03-14T12:00:00-05:30", "2026-03-14T12:00:00",
         "2026-03-14", "2026-13-14", "2026-03-32", "2026-3-14", "2026-03-14T24:00:00Z", "2026-03-14T12:60:00Z",
         "2026-03-14 12:00:00Z", "20260314", "", "now", "-0044-03-15", "12026-01-01", "2026-03-14T12:00",
         "2026-03-14T12:00:00+0100", "2026-03-14T12:00:00.", "2026-03-14T12:00:00Zulu")  # fmt: skip


@pytest.mark.parametrize("text", TIMES)
@pytest.mark.parametrize("kind", [str, str.encode])
def test_times(text: str, kind: Callable[[str], Any]) -> None:
    value = kind(text)
    expected = OTHER if get_string_format(value) is None else ISO if has_timezone(value) else NAIVE
    assert text_format(value) == expected
    assert text_format(value, is_scalar=False) == (ISO if expected == NAIVE else expected)


def test_a_text_that_was_not_read() -> None:
    assert text_format(None) == UNKNOWN
    assert text_format(b"\xff") == OTHER


# ---- what types inherit --------------------------------------------------------------------------------------------


def dtype_of(dtype: Any) -> Any:
    if isinstance(dtype, RefSpec):
        return Target(dtype.target_type)
    if isinstance(dtype, list):
        return tuple((one.name, "object" if isinstance(one.dtype, RefSpec) else one.dtype) for one in dtype)
    return dtype


def shape_of(shape: Any) -> Any:
    return [shape_of(one) for one in shape] if isinstance(shape, (list, tuple)) else shape


def attributes_of(owner: Any) -> dict[str, Any]:
    return {
        one.name: (Target(one.dtype.target_type) if isinstance(one.dtype, RefSpec) else one.dtype, shape_of(one.shape),
                   one.required)
        for one in owner.attributes
    }  # fmt: skip


def assert_same(rule: Rule, spec: Any) -> None:
    """Compare attributes, data and members with a specification that hdmf has worked through."""
    assert rule.is_group == isinstance(spec, GroupSpec)
    assert {one.name: (one.dtype, shape_of(one.shape), one.required) for one in rule.attributes} == attributes_of(spec)
    if rule.is_group:
        members = [*spec.datasets, *spec.groups, *spec.links]
        assert [key(one) for one in rule.members] == list(map(key_of_spec, members))
    else:
        assert (rule.dtype, shape_of(rule.shape)) == (dtype_of(spec.dtype), shape_of(spec.shape))


def key(rule: MemberRule) -> tuple[Any, ...]:
    return rule.name, rule.data_type, rule.quantity, rule.is_required, rule.is_many, rule.linkable


def key_of_spec(spec: Any) -> tuple[Any, ...]:
    if isinstance(spec, LinkSpec):
        return spec.name, spec.target_type, spec.quantity, spec.required, spec.is_many(), True
    return spec.name, spec.data_type, spec.quantity, spec.required, spec.is_many(), spec.linkable


CATALOGS = {"core": pynwb_type_map, "hdmf-common": hdmf_type_map, "hdmf-experimental": hdmf_type_map}


@pytest.mark.parametrize("name", CATALOGS)
def test_types_inherit_what_hdmf_says(name: str) -> None:
    catalog = CATALOGS[name]().namespace_catalog
    texts = {
        namespace: sources
        for namespace, versions in namespace_texts([catalog]).items()
        for sources in versions.values()
    }
    types = compile_types(frozen_texts(texts), name)
    namespace = catalog.get_namespace(name)
    assert types.version == namespace.version
    assert set(types.rules) == set(namespace.get_registered_types())
    for data_type, rule in types.rules.items():
        spec = namespace.get_spec(data_type)
        assert types.ancestors(data_type) == namespace.get_hierarchy(data_type)
        assert_same(rule, spec)
        for member, one in (
            zip(rule.members, [*spec.datasets, *spec.groups, *spec.links], strict=True) if (rule.is_group) else ()
        ):
            if member.rule is not None and one.inc_spec_resolved:
                assert_same(member.rule, one)


def test_the_same_texts_are_worked_through_once() -> None:
    texts = frozen_texts({"a": {"namespace": '{"namespaces": [{"name": "a", "version": "1", "schema": []}]}'}})
    assert compile_types(texts, "a") is compile_types(texts, "a")


def namespace_of(spec: Any) -> dict[str, str]:
    return {"namespace": '{"namespaces": [{"name": "a", "schema": [{"source": "b"}]}]}', "b": json.dumps(spec)}


@pytest.mark.parametrize(
    ("sources", "message"),
    [
        ({"namespace": "{}"}, "does not describe itself"),
        ({"namespace": '{"namespaces": [{"name": "a", "schema": [{"source": "gone"}]}]}'}, "'gone'"),
        ({"namespace": '{"namespaces": [{"name": "a", "schema": [{"namespace": "other"}]}]}'}, "'other' is missing"),
        ({"namespace": '{"namespaces": [{"name": "a", "schema": [5]}]}'}, "AttributeError"),
        ({"namespace": "{"}, "JSONDecodeError"),
        (namespace_of({"groups": [{"data_type_def": "X", "data_type_inc": "Y"}]}), "'Y', which 'X' extends"),
        (
            namespace_of({"groups": [{"data_type_def": "X", "datasets": [{"data_type_inc": "Y"}]}]}),
            "'Y', which 'X/Y' includes",
        ),
        (namespace_of({"groups": [{"data_type_def": "X", "attributes": [{"name": "a"}]}]}), "dtype"),
        (namespace_of({"groups": [{"data_type_def": "X", "links": [{"target_type": 5}]}]}), "5 is not a name"),
    ],
)
def test_namespaces_that_are_none(sources: dict[str, str], message: str) -> None:
    with pytest.raises(MetadataError, match=message):
        compile_types(frozen_texts({"a": sources}), "a")


def places_in(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield container and key of everything in a JSON document."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places_in(value[key])


@pytest.mark.parametrize("value", [None, 5, "text", [], {}, [5], ["text"], {"name": "text"}, True, "Leaf", "Branch"])
def test_a_damaged_namespace_is_told(value: Any) -> None:
    for number in range(len(list(places_in(json.loads(tiny.SOURCES["tiny"]))))):
        spec = json.loads(tiny.SOURCES["tiny"])
        container, key = list(places_in(spec))[number]
        container[key] = value
        check_damaged(spec)


def check_damaged(spec: Any) -> None:
    """Use a namespace, which is an error of ours or none."""
    texts = frozen_texts({tiny.NAME: {**tiny.SOURCES, "tiny": json.dumps(spec)}})
    try:
        types = compile_types(texts, tiny.NAME)
    except MetadataError:
        return
    leaf = Item("/first", "Leaf", {"level": Value("uint8", ())})
    rows = Item("/rows", "Rows", {}, Value(("uint8", "reference"), (3,)))
    check(Item("/", "Branch", {}, None, [Member("first", leaf), Member("rows", rows, is_link=True)]), types)
    Draft202012Validator(schema_of(types)).is_valid({"data_type": "Branch", "attributes": {}, "members": []})
