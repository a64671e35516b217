"""Attributes that JSON could not say as they were: integers without a sign, NaN and the infinities, by the schema."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hdmf.build import DatasetBuilder, GroupBuilder
from hdmf.spec import AttributeSpec, DatasetSpec, GroupSpec, NamespaceCatalog, SpecCatalog, SpecNamespace

from hdmf_zarr_backend.builders.schema import may_need_types, restore_types


@pytest.fixture(scope="module")
def catalog() -> Any:
    """A namespace with one type, whose attributes are named after what they are."""
    words = ["float32", "float64", "float", "double", "numeric", "text", "isodatetime", "int32", "uint8", "bool"]
    attributes = [AttributeSpec(name=word, doc="d", dtype=word, required=False) for word in words]
    attributes.append(AttributeSpec(name="list", doc="d", dtype="float32", shape=(None,), required=False))
    dataset = DatasetSpec(name="data", doc="d", attributes=[AttributeSpec(name="gain", doc="d", dtype="float32")])
    spec = GroupSpec(doc="d", data_type_def="Thing", attributes=attributes, datasets=[dataset])
    types = SpecCatalog()
    types.register_spec(spec, "test.yaml")
    namespaces = NamespaceCatalog()
    namespaces.add_namespace("test", SpecNamespace("d", "test", [{"source": "test.yaml"}], version="1", catalog=types))
    return namespaces


def restored(catalog: Any, name: str, value: Any) -> Any:
    """Return an attribute of the type as the schema has it, None where it is not looked at."""
    builder = GroupBuilder(name="g", attributes={"namespace": "test", "data_type": "Thing", name: value})
    if not may_need_types(builder):
        return None
    restore_types(builder, catalog)
    return builder.attributes[name]


@pytest.mark.parametrize("name", ["float32", "float64", "float", "double", "numeric"])
@pytest.mark.parametrize(
    ("text", "number"), [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf)], ids=str
)
def test_a_text_that_spells_a_number_is_one_where_the_schema_wants_one(catalog, name, text, number):
    found = restored(catalog, name, text)
    assert type(found) is float
    np.testing.assert_equal(found, number)


@pytest.mark.parametrize("name", ["text", "isodatetime", "int32", "uint8", "bool", "unknown"])
def test_it_stays_a_text_everywhere_else(catalog, name):
    assert restored(catalog, name, "NaN") == "NaN"


@pytest.mark.parametrize("text", ["nan", "inf", "1.5", "", "Infinity "])
def test_other_texts_are_no_numbers(catalog, text):
    assert restored(catalog, "float32", text) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1.0, "NaN", 2], [1.0, math.nan, 2.0]),
        (["-Infinity", "Infinity"], [-math.inf, math.inf]),
        (np.array(["NaN", "NaN"], dtype=object), [math.nan, math.nan]),
        ([[1.5, "NaN"], [2.5, 3.5]], [[1.5, math.nan], [2.5, 3.5]]),
    ],
    ids=str,
)
def test_lists_in_which_some_are_spelled(catalog, value, expected):
    found = restored(catalog, "list", value)
    assert found.dtype == np.float64
    np.testing.assert_equal(found.tolist(), expected)


@pytest.mark.parametrize("value", [["NaN", "a"], [True, "NaN"], [["NaN"], [1.0, 2.0]], ["a", "b"]], ids=str)
def test_lists_of_anything_else_stay_as_they_are(catalog, value):
    assert restored(catalog, "list", value) == value


def test_unsigned_integers(catalog):
    assert restored(catalog, "uint8", 3).dtype == np.uint8
    assert restored(catalog, "uint8", 300) == 300
    assert type(restored(catalog, "int32", 3)) is int


def test_a_dataset_without_a_type_has_that_of_its_group(catalog):
    dataset = DatasetBuilder(name="data", data=[1], attributes={"gain": "NaN", "unit": "NaN"})
    group = GroupBuilder(name="g", attributes={"namespace": "test", "data_type": "Thing"}, datasets={"data": dataset})
    restore_types(group, catalog)
    assert math.isnan(dataset.attributes["gain"])
    assert dataset.attributes["unit"] == "NaN"


def test_without_a_schema_nothing_is_changed(catalog):
    for attributes in ({}, {"namespace": "other", "data_type": "Thing"}, {"namespace": "test", "data_type": "Other"}):
        builder = GroupBuilder(name="g", attributes={**attributes, "float32": "NaN"})
        restore_types(builder, catalog)
        assert builder.attributes["float32"] == "NaN"
